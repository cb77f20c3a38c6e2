"""A run as one HTML file: pictures, curves and tables inside, nothing fetched, no script but the run itself as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from dope.errors import MissingExtraError
from dope.palette import label_colors
from dope.report.canvas import Color, Picture, picture, resized
from dope.report.content import PageContent, known, plain, thinned
from dope.report.passes import in_passes, numbers, residual
from dope.report.pictures import GREEN, OUTLINE, RED, drawn_blocks, drawn_input, drawn_object
from dope.report.png import data_uri, encoded
from dope.report.scene import Scene, through_object
from dope.report.style import document
from dope.report.surface import surface
from dope.report.svg import COLORS, curve_images, timeline_image
from dope.report.timeline import COLORS as KIND_COLORS
from dope.report.timeline import in_columns, unit_of
from dope.report.timesheet import KINDS, Timesheet
from dope.report.words import bars_in_words, bytes_in_words, ending, escaped, figures, number, percent, verdict
from dope.steps import Step

_LONGEST_IMAGE, _LONGEST_SLICES, _LONGEST_SURFACE = 1280, 1600, 760
_ZOOM = 16
# All pictures together, before base64 makes them a third longer: a page that fits into an e-mail.
_PICTURE_BYTES = 1_700_000
_MOST_CURVE_STEPS, _MOST_ROWS = 2000, 200
_MOST_KEYS = 20
_IN_TILES = ("energy", "lower_bound", "gap", "proved", "seconds", "peak_bytes")


def page(run: PageContent) -> str:
    """The run as an HTML page in one piece, which opens without a network and prints.

    Where matplotlib is missing a sentence stands in place of the curves. All that the page says is also in its element
    `run`, as JSON.

    Examples
    --------
    >>> import numpy as np
    >>> text = page(PageContent("two squares", None, False, np.kron(np.eye(2), np.ones((8, 8))) > 0))
    >>> text.startswith("<!DOCTYPE html>")
    True
    """
    sections = [_head(run), _pictures(run), _counts(run), _convergence(run), _work(run), _again(run)]
    script = f'<script type="application/json" id="run">{_json(run.as_plain())}</script>\n'
    return document(escaped(run.title), "".join(sections), after=script)


def _json(value: object) -> str:
    """JSON without the signs that could end the element it stands in, or begin another."""
    text = json.dumps(value, allow_nan=False, ensure_ascii=True)
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def _head(run: PageContent) -> str:
    words = verdict(run)
    tiles = "".join(
        f'<li><span class="name">{escaped(figure.name)}</span>'
        f'<span class="value">{escaped(figure.value.replace("-", "−", 1))}</span>'
        f'<span class="quiet">{escaped(figure.more)}</span></li>'
        for figure in figures(run)
    )
    return (
        f"<header><h1>{escaped(run.title)}</h1>"
        f'<p class="verdict{" proved" if words.endswith("proved") else ""}">{escaped(words)}.</p>'
        f'<p class="quiet">{escaped(ending(run))}</p>'
        f'<ul class="tiles">{tiles}</ul></header>\n'
    )


@dataclass(frozen=True, eq=False)
class _Shown:
    """A picture, what it says to those who see it and to those who do not, and whether it takes the page's width."""

    pixels: Picture
    caption: str
    alt: str
    wide: bool = False


def _pictures(run: PageContent) -> str:
    shown = _drawn(run)
    if not shown:
        return ""
    return f'<section><h2>Pictures</h2><div class="pictures">{"".join(_figures(shown))}</div></section>\n'


def _figures(shown: list[_Shown]) -> Iterable[str]:
    for one in shown:
        png = _within(one.pixels, _PICTURE_BYTES // len(shown))
        yield (
            f'<figure class="{"wide" if one.wide else "half"}">'
            f'<img src="{data_uri(png)}" alt="{escaped(one.alt)}">'
            f"<figcaption>{one.caption}</figcaption></figure>"
        )


def _drawn(run: PageContent) -> list[_Shown]:
    if run.labels.ndim not in (2, 3) or not run.labels.size:
        return []
    at = through_object(run.labels, run.seeds) if run.labels.ndim == 3 else None
    longest = _LONGEST_IMAGE if at is None else _LONGEST_SLICES
    scene = Scene.of(run.labels.shape, spacing=run.spacing, at=at, longest=longest, zoom=_zoom(run))
    return [*_shown_input(run, scene, at), _shown_object(run, scene), *_shown_surface(run), *_shown_blocks(run, scene)]


def _shown_input(run: PageContent, scene: Scene, at: Sequence[int] | None) -> Iterable[_Shown]:
    if run.image is not None:
        strokes = "" if run.seeds is None else " and strokes:" + _key(GREEN, "object") + _key(RED, "background")
        planes = "" if at is None else " Planes " + ", ".join(f"{k} of axis {axis}" for axis, k in enumerate(at)) + "."
        pixels = drawn_input(scene, run.image, seeds=run.seeds, mask=run.mask)
        yield _Shown(pixels, f"Input{strokes}.{planes}", "the input", wide=at is not None)


def _shown_object(run: PageContent, scene: Scene) -> _Shown:
    # Strokes hide what they cover; they are in the picture of the input, where there is one.
    seeds = run.seeds if run.image is None else None
    pixels = drawn_object(scene, run.image, run.labels, seeds=seeds, mask=run.mask)
    wide = run.labels.ndim == 3
    if run.several:
        return _Shown(pixels, f"Found:{_keys(run)}.", "the labels, each in its colour", wide=wide)
    return _Shown(pixels, f"Found:{_key(OUTLINE, 'outline of the object')}.", "the object, outlined", wide=wide)


def _keys(run: PageContent) -> str:
    """The colours of the labels; of many the first."""
    numbers = [label for label in run.several if label]
    colors = label_colors(max(numbers, default=0) + 1).tolist()
    keys = "".join(_key(tuple(colors[label]), _name(run, label)) for label in numbers[:_MOST_KEYS])
    left = len(numbers) - _MOST_KEYS
    return keys if left <= 0 else f"{keys} and {left:,} more"


def _name(run: PageContent, label: int) -> str:
    """The number of a label, and its name where it has another one."""
    name = run.names.get(label, str(label))
    return str(label) if name == str(label) else escaped(f"{label} {name}")


def _shown_surface(run: PageContent) -> Iterable[_Shown]:
    if run.labels.ndim == 3 and run.labels.any():
        pixels = surface(run.labels, spacing=run.spacing, longest=_LONGEST_SURFACE, up=run.up)
        yield _Shown(
            pixels,
            f"Surface of {'what is not 0' if run.several else 'the object'}, axis {run.up} up.",
            "the object's surface",
        )


def _shown_blocks(run: PageContent, scene: Scene) -> Iterable[_Shown]:
    if len(run.blocks) > 1:
        pixels = drawn_blocks(scene, run.blocks, image=run.image, labels=run.labels)
        caption = f"The {len(run.blocks):,} blocks; bright where blocks overlap."
        yield _Shown(pixels, caption, "how the sites are cut into blocks")


def _zoom(run: PageContent) -> int:
    """A small picture grows until it fills half a page's width, not more; three planes the whole."""
    room = _LONGEST_IMAGE // 2 if run.labels.ndim == 2 else _LONGEST_SLICES // 3
    longest: int = max(run.labels.shape)
    return max(1, min(_ZOOM, room // longest))


def _key(color: Color, name: str) -> str:
    return f'<span class="key" style="background:rgb{color}"></span>{name}'


def _within(pixels: Picture, most: int) -> bytes:
    """A PNG file of no more bytes than these, of a smaller picture where it must be."""
    png = encoded(pixels)
    canvas = pixels.astype(np.float32)
    share = 1.0
    while len(png) > most and max(pixels.shape) > 1:
        # Fewer pixels hold more each, so a little less than what the lengths say; and always less than before.
        share *= min(0.95, 0.95 * float(np.sqrt(most / len(png))))
        sides = [max(1, round(side * share)) for side in canvas.shape[:2]]
        pixels = picture(resized(canvas, sides))
        png = encoded(pixels)
    return png


def _counts(run: PageContent) -> str:
    """How many sites have which label, where there are more than two."""
    if not run.several:
        return ""
    total, site = sum(run.several.values()), None if run.spacing is None else math.prod(run.spacing)
    heads = ["label", "sites", "share", *([] if site is None else ["volume" if run.labels.ndim == 3 else "area"])]
    rows = [
        [_name(run, label), f"{sites:,}", percent(sites / total), *([] if site is None else [number(sites * site)])]
        for label, sites in run.several.items()
    ]
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    head = "".join(f"<th>{name}</th>" for name in heads)
    table = f'<table class="rounds"><tbody><tr>{head}</tr>{body}</tbody></table>'
    card = f'<details class="card" open><summary>{len(rows):,} labels</summary>{table}</details>'
    return f"<section><h2>Labels</h2>{card}</section>\n"


def _convergence(run: PageContent) -> str:
    if not run.trace:
        return ""
    if len(run.trace) == 1:
        only = "pass" if in_passes(run.trace) else "round"
        body = f'<p class="quiet">One {only}: the figures above are all there is to draw.</p>'
    else:
        body = _curves(run) + _rounds(run.trace)
    return f"<section><h2>Convergence</h2>{body}</section>\n"


def _curves(run: PageContent) -> str:
    try:
        drawn = curve_images(thinned(run.trace, _MOST_CURVE_STEPS))
    except MissingExtraError as error:
        return f'<p class="quiet">The curves were not drawn: {escaped(str(error))}</p>'
    # Four in rows of two, not three and one.
    shape = "curves even" if len(drawn) in (2, 4) else "curves"
    return f'<div class="{shape}">' + "".join(f"<figure>{image}</figure>" for image in drawn) + "</div>"


def _rounds(trace: Sequence[Step]) -> str:
    """The trace as a table, folded away; of what nobody measured there is no column."""
    steps = thinned(trace, _MOST_ROWS)
    passes = in_passes(steps)
    few_digits, digits = partial(number, digits=4), partial(number, digits=10)
    columns = {
        "pass" if passes else "round": numbers(steps),
        "seconds": [few_digits(step.seconds) for step in steps],
        "energy": [_cell(step.energy, digits) for step in steps],
        "lower bound": [_cell(step.lower_bound, digits) for step in steps],
        "residual": [_cell(residual(step), few_digits) for step in steps],
        "open sites" if passes else "disagreeing": [f"{step.disagreeing:,}" for step in steps],
        "sites proved": [_cell(step.proved, percent) for step in steps],
    }
    shown = {name: cells for name, cells in columns.items() if any(cells)}
    heads = "".join(f"<th>{name}</th>" for name in shown)
    rows = "".join(
        "<tr>" + "".join(f"<td>{escaped(cell)}</td>" for cell in cells) + "</tr>"
        for cells in zip(*shown.values(), strict=True)
    )
    return (
        f'<details class="card" style="margin-top:.9rem"><summary>{"Pass by pass" if passes else "Round by round"}'
        f'</summary><table class="rounds"><tbody><tr>{heads}</tr>{rows}</tbody></table></details>'
    )


def _cell(value: float | None, words: Callable[[float], str]) -> str:
    return "" if value is None or math.isnan(value) else words(value)


def _work(run: PageContent) -> str:
    """Who worked when, where the steps tell."""
    sheet = Timesheet.of(run.trace)
    if sheet is None:
        return ""
    try:
        drawn = f'<div class="timeline">{timeline_image(sheet)}</div>'
        seen = f" {escaped(bars_in_words(sheet))}"
    except MissingExtraError as error:
        drawn, seen = f'<p class="quiet">The picture was not drawn: {escaped(str(error))}</p>', ""
    caption = f"{_shares(sheet)}{seen} {escaped(bytes_in_words(sheet))}"
    return f"<section><h2>Who worked when</h2><figure>{drawn}<figcaption>{caption}</figcaption></figure></section>\n"


def _shares(sheet: Timesheet) -> str:
    """What the workers' time went into, with the colours of the picture."""
    # An image of columns does not follow the page's colours, and then its key does not either.
    names = {} if in_columns(sheet) else COLORS
    colors = {kind: names.get(color, color) for kind, color in zip(KINDS, KIND_COLORS, strict=True)}
    parts = [
        (f'<span class="key" style="background:{colors[kind]}"></span>' if kind in colors else "")
        + f"{kind} {percent(share)}"
        for kind, share in sheet.shares.items()
        if kind != "other work" or share >= 0.001
    ]
    workers, (unit, second) = len(sheet.workers), unit_of(sheet)
    time = f"{number(sheet.seconds / second, 3)} {unit}"
    whose = f"one worker, {time}" if workers == 1 else f"{workers:,} workers, {time} each"
    return f"The time of {whose}: {', '.join(parts)}."


def _again(run: PageContent) -> str:
    """All it takes to repeat the run."""
    command = ""
    if run.command is not None:
        command = f'<div class="card"><h3>Command</h3><pre>{escaped(run.command)}</pre></div>'
    more = {name.replace("_", " "): value for name, value in known(run.summary).items() if name not in _IN_TILES}
    tables = "".join(
        f'<div class="card"><h3>{title}</h3>{_table(rows)}</div>'
        for title, rows in (("Settings", run.settings), ("Result", more), ("Versions", run.versions))
        if rows
    )
    if not command and not tables:
        return ""
    return f'<section><h2>To do it again</h2>{command}<div class="tables">{tables}</div></section>\n'


def _table(rows: Mapping[str, object]) -> str:
    cells = "".join(
        f"<tr><th>{escaped(str(name))}</th><td>{escaped(_text(plain(value)))}</td></tr>" for name, value in rows.items()
    )
    return f"<table><tbody>{cells}</tbody></table>"


def _text(value: object) -> str:
    """A plain value as a reader would write it."""
    if value is None or isinstance(value, bool):
        return {None: "none", True: "yes", False: "no"}[value]
    if isinstance(value, dict):
        return ", ".join(f"{name}: {_text(entry)}" for name, entry in value.items())
    if isinstance(value, list):
        return ", ".join(_text(entry) for entry in value)
    return str(value)
