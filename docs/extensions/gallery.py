"""Runs every example and draws every figure before pages are read, and shows them.

{example} NAME     the docstring, picture, output and code of examples/NAME.py
{pictures}         a small picture of every example of the page, to choose from
{drawn} NAME       a figure of docs/figures.py; what is inside is its caption
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

DOCS = Path(__file__).parents[1]
EXAMPLES = DOCS.parent / "examples"
WORK = DOCS.parent / "build" / "gallery"  # where examples run and leave their pictures
FIGURES = WORK / "figures"
AT_ONCE = 2
SECONDS = 120  # for one example, on a machine that has other things to do
log = logging.getLogger(__name__)


def names() -> list[str]:
    return sorted(file.stem for file in EXAMPLES.glob("*.py"))


def run_all(_app: Sphinx) -> None:
    FIGURES.mkdir(parents=True, exist_ok=True)
    commands = {name: [str(EXAMPLES / f"{name}.py")] for name in names()}
    commands["figures"] = [str(DOCS / "figures.py"), str(FIGURES)]
    begun = time.perf_counter()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        # The longest first.
        order = sorted(commands, key=lambda name: name not in ("figures", "dask_cluster"))
        for name, output in zip(order, pool.map(lambda name: run(name, commands[name]), order), strict=True):
            (WORK / f"{name}.txt").write_text(output, encoding="utf-8")
    log.info("%d examples and the figures took %.0f s", len(names()), time.perf_counter() - begun)


def run(name: str, command: list[str]) -> str:
    """What it prints; its picture has to be there afterwards."""
    picture = WORK / f"{name}.png"
    picture.unlink(missing_ok=True)
    environment = {**os.environ, "MPLBACKEND": "agg"}
    done = subprocess.run(
        [sys.executable, "-W", "error::DeprecationWarning:__main__", *command],
        cwd=WORK, env=environment, capture_output=True, text=True, encoding="utf-8", timeout=SECONDS, check=False,
    )  # fmt: skip
    if done.returncode:
        raise ExtensionError(f"{name} failed:\n{done.stderr}")
    if name != "figures" and not picture.exists():
        raise ExtensionError(f"examples/{name}.py has not written {name}.png into the folder it runs in")
    return done.stdout


def described(name: str) -> tuple[str, str, str]:
    """First line of an example's docstring, the rest of it, and the code without it."""
    source = (EXAMPLES / f"{name}.py").read_text(encoding="utf-8")
    tree = ast.parse(source)
    title, _, rest = (ast.get_docstring(tree) or "").partition("\n")
    code = "\n".join(source.splitlines()[tree.body[0].end_lineno or 0 :]).strip()
    return title.rstrip("."), rest.strip(), code


def shown_picture(directive: SphinxDirective, file: Path, alt: str) -> nodes.image:
    folder = (DOCS / directive.env.docname).parent
    return nodes.image(uri=Path(os.path.relpath(file, folder)).as_posix(), alt=alt)


class Example(SphinxDirective):
    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        name = self.arguments[0]
        file = EXAMPLES / f"{name}.py"
        if not file.exists():
            raise self.error(f"there is no examples/{name}.py")
        self.env.note_dependency(str(file))
        title, text, code = described(name)
        section = nodes.section(ids=[name.replace("_", "-")], names=[name])
        section += nodes.title(title, title)
        content = StringList(text.splitlines(), str(file))
        self.state.nested_parse(content, self.content_offset, section)
        section += shown_picture(self, WORK / f"{name}.png", title)
        printed = (WORK / f"{name}.txt").read_text(encoding="utf-8").rstrip()
        if printed:
            section += literal(printed, "text", "output")
        section += literal(code, "python", "code")
        where = nodes.paragraph(classes=["whence"])
        where += nodes.literal(text=f"python examples/{name}.py")
        section += where
        return [section]


def literal(text: str, language: str, kind: str) -> nodes.literal_block:
    return nodes.literal_block(text, text, language=language, classes=[kind])


class Pictures(SphinxDirective):
    """Links to the examples of this page, in its order."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        grid = nodes.container(classes=["pictures"])
        listed = [name.strip() for name in self.content if name.strip()]
        if sorted(listed) != names():
            raise self.error(f"lists {sorted(listed)}; expected all of examples/: {names()}")
        for name in listed:
            title = described(name)[0]
            link = nodes.reference("", "", refid=name.replace("_", "-"), internal=True)
            link += shown_picture(self, WORK / f"{name}.png", "")
            link += nodes.inline(text=title)
            grid += nodes.paragraph("", "", link)
        return [grid]


class Drawn(SphinxDirective):
    required_arguments = 1
    has_content = True

    def run(self) -> list[nodes.Node]:
        file = FIGURES / f"{self.arguments[0]}.svg"
        if not file.exists():
            raise self.error(f"docs/figures.py draws no {self.arguments[0]}")
        self.env.note_dependency(str(DOCS / "figures.py"))
        caption = nodes.caption(classes=["drawn"])
        found, messages = self.parse_inline(" ".join(self.content), lineno=self.lineno)
        caption += found
        picture = shown_picture(self, file, " ".join(self.content))
        return [nodes.figure("", picture, caption, classes=["drawn"]), *messages]


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("builder-inited", run_all)
    app.add_directive("example", Example)
    app.add_directive("pictures", Pictures)
    app.add_directive("drawn", Drawn)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
