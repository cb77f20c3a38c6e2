"""What README, CONTRIBUTING and the documentation show runs as it stands."""

import re
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[1]
PAGES = [PROJECT / "README.md", PROJECT / "CONTRIBUTING.md", *sorted((PROJECT / "docs").glob("**/*.md"))]
CODE = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\((?!https?:)([^)#]+)")
BLOCKS = [
    pytest.param(page, code, id=f"{page.stem}-{number}")
    for page in PAGES
    for number, code in enumerate(CODE.findall(page.read_text(encoding="utf-8")))
]


def test_the_readme_shows_code() -> None:
    assert CODE.search(PAGES[0].read_text(encoding="utf-8"))


@pytest.mark.parametrize(("page", "code"), BLOCKS)
def test_the_code_shown_runs(page: Path, code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(code, str(page), "exec"), {"__name__": "page"})


@pytest.mark.parametrize("page", [*PAGES, PROJECT / "ARCHITECTURE.md"], ids=lambda page: page.stem)
def test_links_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target
