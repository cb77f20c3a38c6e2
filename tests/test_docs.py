"""The gallery shows every example, and the reference every public name; `make docs` runs the former and builds both."""

import ast
import re
from pathlib import Path
from types import ModuleType

import pytest

import dope
from dope import io, models, report

PROJECT = Path(__file__).parents[1]
EXAMPLES = sorted((PROJECT / "examples").glob("*.py"))
GALLERY = (PROJECT / "docs" / "gallery.md").read_text(encoding="utf-8")
REFERENCE = [page.read_text(encoding="utf-8") for page in sorted((PROJECT / "docs" / "api").glob("*.md"))]
MENTION = re.compile(r"^\.\. (currentmodule|auto\w+|py:\w+):: (\w+(?:\.\w+)*)", re.MULTILINE)


def documented() -> set[str]:
    """Full names of everything that the pages of the reference describe."""
    names = set()
    for page in REFERENCE:
        module = ""
        for kind, name in MENTION.findall(page):
            if kind == "currentmodule":
                module = name
            else:
                names.add(f"{module}.{name}")
    return names


def test_the_gallery_shows_every_example_once() -> None:
    assert EXAMPLES
    assert sorted(re.findall(r"```\{example\} (\w+)", GALLERY)) == [file.stem for file in EXAMPLES]


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_an_example_says_what_it_shows_and_writes_its_picture(file: Path) -> None:
    source = file.read_text(encoding="utf-8")
    compile(source, str(file), "exec")
    assert "\n\n" in (ast.get_docstring(ast.parse(source)) or ""), "a title, and a paragraph about it"
    assert f'"{file.stem}.png"' in source


@pytest.mark.parametrize("module", [dope, models, io, report], ids=lambda module: module.__name__)
def test_the_reference_has_every_public_name(module: ModuleType) -> None:
    wanted = {f"{module.__name__}.{name}" for name in module.__all__}
    assert not wanted - documented()
