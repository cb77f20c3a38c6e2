"""What README, CONTRIBUTING and the documentation show runs as it stands."""

import json
import re
import shlex
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from dope.io import read_image, write_image

PROJECT = Path(__file__).parents[1]
PAGES = [PROJECT / "README.md", PROJECT / "CONTRIBUTING.md", *sorted((PROJECT / "docs").glob("**/*.md"))]
CODE = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
STEP = re.compile(r"^```(python|sh)\n(.*?)^```", re.DOTALL | re.MULTILINE)
# Their commands and code build on each other, in order and in one folder.
SLOW = ("choose", "energies", "formats", "large", "photo")
SOAK = ("mri",)  # and what brings the scan is large
NAMES = (
    "choose", "energies", "formats", "large", "mri", "photo", "python", "several_scribbles", "signed", "softmax",
    "stereo", "tv", "watching",
)  # fmt: skip
# After its first command with one pixel of 64: eight million take half a minute. `make soak` takes them all.
REDUCED = ("photo",)
SHORTER = 8  # are the sides
GUIDES = [PROJECT / "docs" / f"{name}.md" for name in NAMES]
LINK = re.compile(r"\]\((?!https?:)([^)#]+)")
BLOCKS = [
    pytest.param(page, code, id=f"{page.stem}-{number}")
    for page in PAGES
    if page not in GUIDES
    for number, code in enumerate(CODE.findall(page.read_text(encoding="utf-8")))
]


def reduce_sample(folder: Path) -> None:
    """Leave every eighth row and column of the photo, and the strokes where they were on it."""
    photo, strokes = folder / "canyon-wren.jpg", folder / "canyon-wren.json"
    write_image(photo, read_image(photo)[::SHORTER, ::SHORTER])
    told = json.loads(strokes.read_text(encoding="utf-8"))
    for name in ("fg", "bg"):
        told[name] = [[[x / SHORTER, y / SHORTER] for x, y in line] for line in told[name]]
    for name in ("width", "height", "brush_radius"):
        told[name] //= SHORTER
    strokes.write_text(json.dumps(told), encoding="utf-8")


def for_reduced(arguments: list[str]) -> list[str]:
    """The same place on the reduced photo, where a command names one."""
    options = ["", *arguments[:-1]]
    return [
        re.sub(r"\d+", lambda n: str(int(n[0]) // SHORTER), argument) if option == "--rectangle" else argument
        for option, argument in zip(options, arguments, strict=True)
    ]


def test_the_readme_shows_code() -> None:
    assert CODE.search(PAGES[0].read_text(encoding="utf-8"))


@pytest.mark.parametrize(("page", "code"), BLOCKS)
def test_the_code_shown_runs(page: Path, code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(code, str(page), "exec"), {"__name__": "page"})


def _marks(guide: str) -> list[pytest.MarkDecorator]:
    """What takes seconds runs apart, what takes minutes when it is asked for."""
    return [pytest.mark.slow] * (guide in SLOW) + [pytest.mark.soak] * (guide in SOAK)


@pytest.mark.parametrize(
    ("page", "whole"),
    [
        *[pytest.param(p, p.stem not in REDUCED, marks=_marks(p.stem), id=p.stem) for p in GUIDES],
        *[pytest.param(p, True, marks=pytest.mark.soak, id=f"{p.stem}-whole") for p in GUIDES if p.stem in REDUCED],
    ],
)
def test_guides_can_be_followed(page: Path, whole: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = page.read_text(encoding="utf-8")
    if "nilearn" in text and find_spec("nilearn") is None:
        pytest.skip("nilearn, which brings the scan, is not installed")
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "page"}
    steps = STEP.findall(text)
    assert steps
    for kind, code in steps:
        if kind == "python":
            exec(compile(code, str(page), "exec"), names)
            continue
        for line in code.splitlines():
            command = shlex.split(line)
            assert command[0] == "dope", line
            arguments = command[1:] if whole else for_reduced(command[1:])
            done = subprocess.run(
                [sys.executable, "-m", "dope.cli", *arguments], capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, f"{line}\n{done.stderr}"
            if not whole and command[1] == "demo":
                reduce_sample(tmp_path / "demo")


@pytest.mark.parametrize("page", [*PAGES, PROJECT / "ARCHITECTURE.md"], ids=lambda page: page.stem)
def test_links_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target
