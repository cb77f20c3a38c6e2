"""What the public call costs beyond the core that it calls: the solvers of `flow.py --public`.

    core      GridWeights, GridFlow, minimize and labels of the core, on one thread
    whole     minimize(Energy.grid(...)) of one block: checks, the choice of a scale, the energy recomputed
    blocks    the same in the blocks that minimize chooses, one after the other
    threads   the same on a thread per core, as it comes: of `flow.py --bars`, beside PyMaxflow

All are given the same arrays, float64 as NumPy makes them, and answer with the same labels: the core solves at the
scale and in the width that the public call chooses. What they are given is

    weights     an array of weights per offset, whole numbers
    features    the picture and its beta
    contrast    the picture alone: its beta is a pass over all pairs more, which the core is spared
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import tables
from cases import Instance, Ints, Labels
from lines import Record
from solvers import Dope, Solver, Stages

import dope
from dope import _core
from dope.fixed_point import FixedPoint

GIVEN = ("weights", "features", "contrast")
# Of the core's processor time, what the public call may take.
BAR = 1.10


@dataclass(frozen=True)
class _Call:
    """A way to labels, from what is `given`."""

    way: str
    given: str

    package = "dope"

    @property
    def name(self) -> str:
        return f"{self.way}, {self.given}"

    @property
    def exact(self) -> bool:
        """Whether it solves the integers that the energy is counted in, and not weights that are finer."""
        return self.given == "weights"

    def refusal(self, instance: Instance) -> str | None:
        del instance
        return None

    def bytes_needed(self, instance: Instance) -> int:
        return 2 * Dope().bytes_needed(instance) + 8 * instance.weights.size

    def stages(self, instance: Instance, unary: Ints) -> Stages:
        prices, given = unary.astype(np.float64), _given(instance, self.given)
        call = partial(dope.Energy.grid, prices, kernel=instance.offsets, **given)
        if self.way == "core":
            return _core_stages(call, prices)
        blocks = 1 if self.way == "whole" else None
        executor = None if self.way == "threads" else dope.Serial()
        minimize = dope.minimize  # which brings its modules, before the clock starts, as importing a peer does
        answers: list[dope.Result] = []
        return Stages(
            build=call,
            solve=lambda energy: answers.append(minimize(energy, blocks=blocks, executor=executor)),
            read=lambda _: answers[0].labels,
            value=lambda *_: int(answers[0].energy) if self.exact else None,
            bits=_fixed(call).bits,
        )


def _given(instance: Instance, given: str) -> dict[str, Any]:
    if given == "weights":
        return {"weights": [weights.astype(np.float64) for weights in instance.weights]}
    # Energy.grid divides by the length of the offset, and so do the factors of a case.
    lam = float((instance.factors * np.sqrt((instance.offsets**2).sum(axis=1)))[0])
    beta = {"beta": instance.beta} if given == "features" else {}
    return {"features": instance.features, "lam": lam, **beta}


def _fixed(call: Any) -> FixedPoint:
    energy = call()
    return FixedPoint.of(energy, dope.planning.defaults.automatic_flow_solver(energy.pairs).bits)


def _core_stages(call: Any, prices: npt.NDArray[np.float64]) -> Stages:
    pairs, fixed = call().pairs, _fixed(call)

    def build() -> _core.GridFlow:
        weights = _core.GridWeights(pairs.shape, pairs.offsets, pairs.factors, pairs.features, pairs.beta, pairs.fields)
        return _core.GridFlow(weights, fixed.scale, fixed.bits)

    return Stages(
        build=build,
        solve=lambda flow: flow.minimize(prices),
        read=lambda flow: flow.labels(),
        value=lambda *_: None,
        bits=fixed.bits,
        held_bytes=lambda flow: int(flow.bytes),
    )


def _named(*ways: str) -> dict[str, Solver]:
    return {call.name: call for call in (_Call(way, given) for given in GIVEN for way in ways)}


BESIDE_CORE = _named("core", "whole", "blocks")
BESIDE_PEERS = _named("threads")
CALLS = BESIDE_CORE | BESIDE_PEERS


def checksum(labels: Labels) -> int:
    return zlib.crc32(np.packbits(labels).data)


def check_same(records: Iterable[Record]) -> None:
    """End everything if two ways came to different labels from the same arrays."""
    found: dict[str, set[int]] = {}
    for record in records:
        if record["skipped"]:
            continue
        found.setdefault(record["solver"].split(", ")[1], set()).add(record["checksum"])
    for given, sums in found.items():
        if len(sums) > 1:
            raise SystemExit(f"from {given} the core and the public call came to different labels")


def table(records: Iterable[Record]) -> str:
    """For every case the core's processor seconds, and how many times as long the public call took.

    Medians over the repetitions; of each public solve, beside the core's solve of the same repetition.
    """
    head = [
        "case",
        "given",
        "bits",
        "core [s]",
        "one block",
        "",
        "default blocks",
        "memory, one block",
        "default blocks",
    ]
    rows = []
    for case, found in tables.newest(records).items():
        for given in GIVEN:
            solves = {way: _by_repetition(found, f"{way}, {given}") for way in ("core", "whole", "blocks")}
            if not all(solves.values()):
                continue
            core = [_processor_seconds(r) for r in solves["core"].values()]
            whole, blocks = (_ratio(solves["core"], solves[way], _processor_seconds) for way in ("whole", "blocks"))
            memory = [_ratio(solves["core"], solves[way], _peak) for way in ("whole", "blocks")]
            bits = str(next(iter(solves["core"].values()))["bits"])
            cells = [tables.number(float(np.median(core)), ".3f"), tables.number(whole, ".3f")]
            cells += [_verdict(whole), tables.number(blocks, ".3f")]
            rows.append([case, given, bits, *cells, *(tables.number(m, ".2f") for m in memory)])
    return tables.markdown(head, rows, left=2)


def bars_table(records: Iterable[Record]) -> str:
    """For every case how many times as fast as PyMaxflow the core is, and the public call; and as small."""
    head = ["case", "bits", "PyMaxflow [s]", "core [s]", "", "from weights [s]", "", "from features [s]", ""]
    head += ["bytes/site", "PyMaxflow", "times less"]
    rows = []
    for case, found in tables.newest(records).items():
        peer = _by_repetition(found, tables.YARDSTICK)
        if not peer:
            continue
        cells = [tables.number(float(np.median([tables.seconds(r) for r in peer.values()])), ".3f")]
        for name in (tables.OURS, "threads, weights", "threads, features"):
            ours = _by_repetition(found, name)
            middle = float(np.median([tables.seconds(r) for r in ours.values()])) if ours else None
            # Where PyMaxflow solved fewer times, its last one.
            times = [tables.seconds(peer[min(k, max(peer))]) / tables.seconds(r) for k, r in ours.items()]
            cells += [tables.number(middle, ".3f"), tables.number(float(np.median(times)) if times else None, ".1f")]
        ours = _by_repetition(found, "threads, features")
        sites = [min(r["bytes_per_site"] for r in group.values()) if group else None for group in (ours, peer)]
        less = None if None in sites else sites[1] / sites[0]
        cells += [*map(tables.number, sites), tables.number(less, ".1f")]
        rows.append([case, str(found[0]["bits"]), *cells])
    return tables.markdown(head, rows)


def _verdict(ratio: float | None) -> str:
    return f"{BAR:g}" if ratio is None else f"{BAR:g} {'met' if ratio <= BAR else 'missed'}"


def _by_repetition(records: list[Record], solver: str) -> dict[int, Record]:
    return {r["repetition"]: r for r in records if r["solver"] == solver and not r["skipped"]}


def _processor_seconds(record: Record) -> float:
    return float(record["user_seconds"] + record["system_seconds"])


def _peak(record: Record) -> float:
    return math.nan if record["peak_bytes"] is None else float(record["peak_bytes"])


def _ratio(core: dict[int, Record], public: dict[int, Record], size: Any) -> float | None:
    shared = [size(public[k]) / size(core[k]) for k in public if k in core and size(core[k])]
    return float(np.median(shared)) if shared else None
