"""One page about all experiments that a folder holds lines of, with its tables and figures as files beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from dope.durable import write_durably
from dope.errors import DopeError, InputError
from dope.executors import Threads
from dope.paper.ink import InkBench, ink
from dope.paper.ink_page import ink_section
from dope.paper.ledger import Say, silent
from dope.paper.plane_page import plane_section
from dope.paper.study import Bench, plane, volume
from dope.paper.volume_page import volume_section
from dope.report.article import Article, Section

TITLE = "Distributed Optimization for Pairwise Energies, reproduced"
LEAD = (
    "The experiments of Dolz, Ben Ayed and Desrosiers (CVPR 2017), run anew with dope on real data: the paper's own "
    "method, and what dope does by default, which is to find the global minimum."
)


def write_page(folder: Path, *, quick: bool, say: Say = silent) -> Path:
    """Write tables, figures and the page; where the page is."""
    suffix = "-quick" * quick
    target = folder / f"page{suffix}"
    found = list(sections(folder, quick=quick, say=say))
    if not found:
        raise InputError(f"{folder}: no runs to draw; run the experiments first")
    for name, content in Article(TITLE, LEAD, found).files():
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        write_durably(target / name, content)
    return target / "index.html"


def sections(folder: Path, *, quick: bool, say: Say = silent) -> Iterator[Section]:
    """The sections of those experiments that there are lines of."""
    makers: dict[str, Callable[[], Section]] = {
        "2d": lambda: plane_section(Bench.at(plane(quick=quick), folder, Threads(), serial=None, say=say)),
        "3d": lambda: volume_section(Bench.at(volume(quick=quick), folder, Threads(), serial=None, say=say)),
        "curvature": lambda: ink_section(InkBench.at(ink(quick=quick), folder, Threads(), say=say)),
    }
    for name, make in makers.items():
        lines = folder / f"{name}{'-quick' * quick}" / "runs.jsonl"
        if lines.is_file() and lines.stat().st_size:
            try:
                yield make()
            except DopeError:
                raise
            except (LookupError, TypeError, ValueError) as error:
                raise InputError(
                    f"{lines}: some line is not what a run leaves ({error!r}); take it out, or name another folder"
                ) from error
