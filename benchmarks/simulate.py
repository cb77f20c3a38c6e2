"""Runs of `dope.Bracketing` on clusters that are not here, simulated from costs that were measured here.

    python benchmarks/simulate.py --measure                               # costs by the site, for kernels 3 to 9
    python benchmarks/simulate.py --overhead                              # what Dask takes for a block
    DOPE_DATA=... python benchmarks/simulate.py --check --folder /tmp/large  # real runs beside simulated ones
    python benchmarks/simulate.py --curves                                # the lines of all figures
    python benchmarks/simulate.py --sites 1e12 --workers 1000 --memory 16GB --kernel 3 --mtbf 1000
    python benchmarks/simulate.py --docs                                  # tables and figures into docs/scaling.md

`simulation.py` says what is simulated, and how.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lines
from lines import PROJECT, Record
from simulate_checks import QUIET, check, run
from simulate_costs import measure, newest, overhead
from simulate_curves import KERNELS, MEMORY, curves, point
from simulate_figures import figures
from simulate_tables import sections
from simulation import Cluster
from tables import between

RESULTS = lines.RESULTS / "simulate.jsonl"
PAGE, IMAGES = PROJECT / "docs" / "scaling.md", PROJECT / "docs" / "images"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--measure", action="store_true", help="costs by the site, by a small problem")
    parser.add_argument("--overhead", action="store_true", help="what Dask takes for a task")
    parser.add_argument("--check", action="store_true", help="run real volumes, to compare with simulated ones")
    parser.add_argument("--curves", action="store_true", help="simulate all points of the figures")
    parser.add_argument("--docs", action="store_true", help="write tables and figures into docs, and run nothing")
    parser.add_argument("--kernels", nargs="+", type=int, default=list(KERNELS))
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--sides", nargs="+", type=int, default=[256, 384, 512], help="of volumes to check with")
    parser.add_argument("--blocks", type=int, default=4, help="along each axis, of all of them")
    parser.add_argument("--wait", type=float, default=0.0, help="seconds to wait for a quiet machine before each run")
    parser.add_argument(
        "--others", type=float, default=QUIET, help="share of the machine that others may take in a run"
    )
    parser.add_argument("--tries", type=int, default=1, help="to have a run without them")
    parser.add_argument("--folder", type=Path, default=Path("build/large"), help="where volumes are kept")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--sites", type=float, help="of one run to simulate")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--kernel", type=int, default=3)
    parser.add_argument("--memory", default=MEMORY, help="of each worker")
    for name in ("storage", "stream", "network", "mtbf", "repair", "slow", "slowness", "join"):
        parser.add_argument(f"--{name}", type=float, default=getattr(Cluster(1), name))
    parser.add_argument("--run", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        print(json.dumps(run(json.loads(options.run))))
        return
    where = {"commit": lines.commit(), "machine": lines.machine(), "command": " ".join(["python", *sys.argv])}
    for record in _asked_for(options):
        told = {**shortened(record), "date": lines.now(), **where}
        lines.append(options.results, [told])
        short = {k: v for k, v in told.items() if k not in ("rounds", "costs", "machine", "cluster")}
        print(json.dumps(short), flush=True)
    if options.docs:
        write_docs(lines.read(options.results))


def shortened(thing: Any) -> Any:
    """With numbers of five digits, which is more than is known of any of them."""
    if isinstance(thing, dict):
        return {name: shortened(value) for name, value in thing.items()}
    if isinstance(thing, (list, tuple)):
        return [shortened(value) for value in thing]
    return float(f"{thing:.5g}") if isinstance(thing, float) else thing


def _asked_for(options: argparse.Namespace) -> Iterator[Record]:
    if options.measure:
        yield from measure(options.kernels, options.repeat)
    if options.overhead:
        yield overhead(max(5, options.repeat))
    if options.check:
        yield from check(options)
    found = lines.read(options.results)
    if options.curves:
        yield from curves(found)
    if options.sites:
        names = ("storage", "stream", "network", "mtbf", "repair", "slow", "slowness", "join")
        cluster = {name: getattr(options, name) for name in names}
        cluster["latency"] = newest(found, "overhead")["latency"]
        settings = {"kernel": options.kernel, "memory": options.memory}
        yield point(found, "alone", options.sites, options.workers, **settings, **cluster)


def write_docs(found: list[Record]) -> None:
    """Put tables and figures into the page."""
    figures(found, IMAGES)
    text = PAGE.read_text(encoding="utf-8")
    for mark, content in sections(found).items():
        text = between(text, mark, content)
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
