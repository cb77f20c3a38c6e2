"""A page about many runs: words, tables and figures. Each figure is also a PNG and an SVG file, each table CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dope.report.charts import png, svg
from dope.report.png import data_uri
from dope.report.style import document
from dope.report.words import escaped

if TYPE_CHECKING:
    from matplotlib.figure import Figure


_CSS = """
figure + figure, figure + .card, .card + figure, p + figure, p + .card { margin-top: .9rem; }
figure img { background: #fff; max-height: none; }
.card th { white-space: normal; }
.caption { color: var(--quiet); font-size: .85rem; margin: 1.2rem 0 -.4rem; }
"""


@dataclass(frozen=True)
class Words:
    """A paragraph; `loud` where it is the result in one sentence."""

    text: str
    loud: bool = False


@dataclass(frozen=True)
class Table:
    """Rows of cells under a head; its CSV file has its name. `prose` where cells are words, which may wrap."""

    name: str
    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    prose: bool = False


@dataclass(frozen=True, eq=False)
class Drawn:
    """A figure; its files have its name."""

    name: str
    caption: str
    figure: Figure


@dataclass(frozen=True)
class Section:
    """A part of the page under a heading."""

    title: str
    parts: Sequence[Words | Table | Drawn]


@dataclass(frozen=True)
class Article:
    """A page in sections."""

    title: str
    lead: str
    sections: Sequence[Section]

    def files(self) -> Iterator[tuple[Path, bytes]]:
        """All that the article is made of, by name: tables and figures as files of their own, and then the page."""
        pictures: dict[str, bytes] = {}
        for part in (part for section in self.sections for part in section.parts):
            if isinstance(part, Table):
                yield Path("tables") / f"{part.name}.csv", _csv(part)
            elif isinstance(part, Drawn):
                pictures[part.name] = png(part.figure)
                yield Path("figures") / f"{part.name}.png", pictures[part.name]
                yield Path("figures") / f"{part.name}.svg", svg(part.figure).encode()
        yield Path("index.html"), self._page(pictures).encode()

    def _page(self, pictures: dict[str, bytes]) -> str:
        """The page in one piece, which opens without a network."""
        body = "".join(_section(section, pictures) for section in self.sections)
        title = escaped(self.title)
        head = f'<header><h1>{title}</h1><p class="quiet">{escaped(self.lead)}</p></header>\n'
        return document(title, head + body, css=_CSS)


def _section(section: Section, pictures: dict[str, bytes]) -> str:
    parts = "".join(_part(part, pictures) for part in section.parts)
    return f"<section><h2>{escaped(section.title)}</h2>{parts}</section>\n"


def _part(part: Words | Table | Drawn, pictures: dict[str, bytes]) -> str:
    if isinstance(part, Words):
        return f'<p class="verdict">{escaped(part.text)}</p>' if part.loud else f"<p>{escaped(part.text)}</p>"
    if isinstance(part, Drawn):
        picture, caption = data_uri(pictures[part.name]), escaped(part.caption)
        return f'<figure><img src="{picture}" alt="{caption}"><figcaption>{caption}</figcaption></figure>'
    head = "".join(f"<th>{escaped(cell)}</th>" for cell in part.head)
    rows = "".join("<tr>" + "".join(f"<td>{escaped(cell)}</td>" for cell in row) + "</tr>" for row in part.rows)
    kind = "" if part.prose else ' class="rounds"'
    # Not within the card: a wide table scrolls there, its caption should not.
    table = f'<div class="card"><table{kind}><tbody><tr>{head}</tr>{rows}</tbody></table></div>'
    return f'<p class="caption">{escaped(part.caption)}</p>{table}'


def _csv(table: Table) -> bytes:
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerows([table.head, *table.rows])
    return stream.getvalue().encode()
