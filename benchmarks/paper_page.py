"""The results of `dope paper` into the project: lines into benchmarks/results, tables and figures into docs/paper.md.

    dope paper all -o paper --serial benchmarks/serial_cut.py     # hours; goes on where it was broken off
    python benchmarks/paper_page.py paper                         # seconds
    python benchmarks/paper_page.py --restore paper               # a folder of the lines that are in the project

`dope paper` goes on from a restored folder, and the page can be made of it. Labels are not kept in the project: those
that pictures show are found once more, in minutes.

Of pictures only those are copied that are made of data that may be: photographs under CC0, and the drawings, which are
in the public domain. All others are drawn by the first command, into paper/page.
"""

from __future__ import annotations

import argparse
import io
import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import lines
from lines import Record
from PIL import Image
from tables import between

from dope.errors import DopeError, InputError
from dope.paper.page import sections
from dope.paper.parts import NOT_DRAWN
from dope.report.article import Drawn, Section, Table, Words
from dope.report.charts import png, svg

PAGE = lines.PROJECT / "docs" / "paper.md"
PICTURES = lines.PROJECT / "docs" / "images" / "paper"
EXPERIMENTS = ("2d", "3d", "curvature")
# Pictures whose data may be copied; figures that are lines alone may always be.
CC0_PHOTOS = (
    "canyon-wren",
    "extreme-desert-hike",
    "oakland-zoo-otters",
    "perched-osprey",
    "pondering-heron",
    "roman-colosseum",
    "seeding_by_Clements_Engelhardt",
)
DRAWINGS = ("curvature-dancer-ink", "curvature-team-ink", "curvature-bull")
ALLOWED_PICTURES = (*(f"2d-example-{name}" for name in CC0_PHOTOS), *DRAWINGS)
RASTER = re.compile(r"example|surfaces|relaxed|curvature-")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, help="what `dope paper -o` wrote")
    parser.add_argument("--restore", action="store_true", help="make the folder, of the lines in benchmarks/results")
    arguments = parser.parse_args()
    try:
        (restore if arguments.restore else take_over)(arguments.folder)
    except (DopeError, OSError) as error:
        parser.error(str(error))


def restore(folder: Path) -> None:
    """The lines of the project as `dope paper -o` would have left them."""
    for name in EXPERIMENTS:
        target = folder / name / "runs.jsonl"
        if target.exists():
            raise InputError(f"{target} is there already; name a new folder")
        lines.append(target, lines.read(results(name)))


def take_over(folder: Path) -> None:
    """Lines into the project, and the page made of them; only if all three experiments are there."""
    runs = {name: lines.read(folder / name / "runs.jsonl") for name in EXPERIMENTS}
    for name, records in runs.items():
        if not records:
            raise InputError(f"{folder / name / 'runs.jsonl'}: no runs; the page needs those of {', '.join(runs)}")
    found = list(sections(folder, quick=False, say=print))
    for section in found:
        for part in section.parts:
            if isinstance(part, Words) and part.text.startswith(NOT_DRAWN):
                raise InputError(f"{section.title}: {part.text}")
    commit = lines.commit()
    for name, records in runs.items():
        told = [json.dumps(described(name, record, commit)) + "\n" for record in records]
        results(name).write_text("".join(told), encoding="utf-8")
    PICTURES.mkdir(parents=True, exist_ok=True)
    for old in PICTURES.iterdir():
        old.unlink()
    PAGE.write_text(between(PAGE.read_text(), "results", markdown(found)))


def results(name: str) -> Path:
    return lines.RESULTS / f"paper-{name}.jsonl"


def described(name: str, record: Record, commit: str) -> Record:
    """A line with the command that makes it again, and the commit at which it was first taken over into the project."""
    command = f"dope paper {name} -o paper --cases {record['case']!r}"
    if name != "curvature":
        command += f" --serial benchmarks/serial_cut.py --kernels {record['kernel']} --methods {record['method']}"
        command += f" --workers {record['workers']}" if "workers" in record else ""
    return {"taken_over_at": commit, **record, "command": command}


def markdown(parts: Iterable[Section]) -> str:
    """The sections as Markdown, their figures beside it."""
    return "\n\n".join(text for section in parts for text in (f"## {section.title}", *_texts(section)))


def _texts(section: Section) -> Iterator[str]:
    for part in section.parts:
        if isinstance(part, Words):
            yield f"**{part.text}**" if part.loud else part.text
        elif isinstance(part, Table):
            rows = ["| " + " | ".join(row) + " |" for row in (part.head, *part.rows)]
            yield "\n".join([f"{part.caption}", "", rows[0], "|---" * len(part.head) + "|", *rows[1:]])
        elif not RASTER.search(part.name):
            (PICTURES / f"{part.name}.svg").write_text(svg(part.figure), encoding="utf-8")
            yield f"![{part.name}](images/paper/{part.name}.svg)\n\n{part.caption}"
        elif part.name in ALLOWED_PICTURES:
            _write_small(part)
            yield f"![{part.name}](images/paper/{part.name}.jpg)\n\n{part.caption}"
        else:
            yield f"(*{part.name}.png, drawn by the command; its data may not be copied here. {part.caption}*)"


def _write_small(part: Drawn) -> None:
    picture = Image.open(io.BytesIO(png(part.figure))).convert("RGB")
    picture.save(PICTURES / f"{part.name}.jpg", quality=85, optimize=True)


if __name__ == "__main__":
    main()
