"""Links that are right on a code host, made right on the site.

Pages link to files outside of docs/. README, CONTRIBUTING, SECURITY, ARCHITECTURE and CHANGELOG have pages here; other
files are copied beside the page and linked; a link to a folder becomes its text.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx

import dope
from dope import io, models, report

DOCS = Path(__file__).parents[1]
PROJECT = DOCS.parent
# Pages that are a file of the project, shown here.
PAGES = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "architecture.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
}
SHOWN = {page.removesuffix(".md"): file for file, page in PAGES.items() if file != "README.md"}
LINK = re.compile(r"\[([^\]]*)\]\((?!https?:|#)([^)#\s]+)(#[^)\s]*)?\)")
NAME = re.compile(r"^(?:dope\.)?((?:io|models|report)\.)?(\w+(?:\.\w+)*)(\(.*\))?$", re.DOTALL)
MODULES = {"": dope, "io.": io, "models.": models, "report.": report}


def read(app: Sphinx, docname: str, source: list[str]) -> None:
    page = DOCS / f"{docname}.md"
    text = source[0]
    if docname in SHOWN:
        shown = PROJECT / SHOWN[docname]
        app.env.note_dependency(str(shown), docname=docname)
        text, page = shown.read_text(encoding="utf-8"), shown
    base = (DOCS / docname).parent

    def link(found: re.Match[str]) -> str:
        label, target, anchor = found[1], found[2], found[3] or ""
        file = Path(os.path.normpath(page.parent / target))
        if not file.is_relative_to(PROJECT) or not file.exists():
            return found[0]  # Sphinx says what is wrong with it
        inside = file.relative_to(PROJECT).as_posix()
        if inside in PAGES:
            file = DOCS / PAGES[inside]
        elif file.is_dir():
            return f"`{label}`" if re.fullmatch(r"[\w./]+", label) else label
        return f"[{label}]({Path(os.path.relpath(file, base)).as_posix()}{anchor})"

    source[0] = LINK.sub(link, text)


def link_names(_app: Sphinx, doctree: nodes.document) -> None:
    """What pages set as code links to the reference where it is the name of something public."""
    for node in list(doctree.findall(nodes.literal)):
        if isinstance(node.parent, (nodes.reference, nodes.title, pending_xref)):
            continue
        name = public_name(node.astext())
        if name is None:
            continue
        link = pending_xref(
            "", node.deepcopy(), refdomain="py", reftype="obj", reftarget=name, refexplicit=True, refwarn=False,
            refdoc=doctree.settings.env.docname,
        )  # fmt: skip
        node.replace_self(link)


def public_name(text: str) -> str | None:
    """The full name of a class or function that is meant by this piece of code, if one is."""
    found = NAME.match(text)
    if not found:
        return None
    module, path = MODULES[found[1] or ""], found[2].split(".")
    # A lower-case word alone may be anything: an argument, a file.
    if not found[1] and path[0].islower() and not text.startswith("dope.") and not found[3]:
        return None
    if path[0] not in module.__all__:
        return None
    thing: Any = module
    for step in path:
        thing = getattr(thing, step, None)
    if not callable(thing) and not isinstance(thing, property):
        return None
    return f"{module.__name__}.{'.'.join(path)}"


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("source-read", read)
    app.connect("doctree-read", link_names)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
