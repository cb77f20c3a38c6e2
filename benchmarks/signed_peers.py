"""Integers of any sign: the roof dual beside thinqpbo, and low energies beside dwave-samplers.

    mixed-1, -5, -20   256x256, 8 neighbours, weights of 1 to 20, unaries of deviation 60; 1, 5 and 20 % of the pairs
                       repel
    A1, s10, dtf       squared curvature, deconvolution and a decision tree field of nonsubmodular/, in thousandths
    G32, bqp500_1      max-cut and QUBO of mrf/, whole numbers as they are

Every solver gets the same integers, ready-made in its own form; thinqpbo takes them pair by pair, and its time of being
fed is told apart. Labels are judged by plain sums in integers. The bound of `dope.Qpbo` and of thinqpbo are both the
roof dual, so they have to be the same number, or the run fails.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np
from lines import Record
from numpy.typing import NDArray
from tables import markdown

import dope

GENERATED = {"mixed-1": 0.01, "mixed-5": 0.05, "mixed-20": 0.2}
STORED = ("A1", "s10", "dtf", "G32", "bqp500_1")
CASES = (*GENERATED, *STORED)
SCALE = 1000
REPETITIONS = 3
# dwave-samplers' tabu search takes a dense matrix.
MOST_TABU_SITES = 15_000
TABU_SECONDS = 2.0
ROOFS = ("Qpbo()", "thinqpbo")
# What `solver=None` takes, and the same for as many seconds as the peer took that ended lowest.
DEFAULT, AS_LONG = "minimize()", "Portfolio(seconds=peer's)"
# One solve: the case, the solver, what to call, and how often that was done before.
Solve = tuple[str, str, Callable[[], Record], int]

Ints = NDArray[np.int64]
Labels = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Whole:
    """An energy in integers: unaries, and pairs that pay their weight, of any sign, when their ends differ."""

    unary: Ints
    first: Ints
    second: Ints
    weights: Ints
    shape: tuple[int, ...]

    @classmethod
    def of(cls, energy: dope.Energy, scale: int) -> Whole:
        first, second, weights = energy.pairs.edges()
        unary, weights = (np.rint(scale * np.asarray(part, float)).astype(np.int64) for part in (energy.unary, weights))
        return cls(unary.ravel(), first.astype(np.int64), second.astype(np.int64), weights, energy.shape)

    def energy(self, labels: Labels) -> int:
        """What the labels cost: plain sums that share nothing with any solver."""
        apart = labels[self.first] != labels[self.second]
        return int(self.unary[labels].sum()) + int(self.weights[apart].sum())

    def stated(self) -> dope.Energy:
        """The same for dope."""
        energy = dope.Energy.graph(self.unary, np.stack([self.first, self.second], axis=1), self.weights)
        return energy.on_grid(self.shape) if len(self.shape) > 1 else energy

    @property
    def repelling(self) -> float:
        return float((self.weights < 0).mean())


def mixed(side: int, share: float) -> Whole:
    """A grid with 8 neighbours, some of whose pairs repel."""
    draw = np.random.default_rng(0)
    numbers = np.arange(side * side).reshape(side, side)
    ends = [
        (numbers[:, :-1], numbers[:, 1:]),
        (numbers[:-1], numbers[1:]),
        (numbers[:-1, :-1], numbers[1:, 1:]),
        (numbers[:-1, 1:], numbers[1:, :-1]),
    ]
    first, second = (np.concatenate([pair[k].ravel() for pair in ends]) for k in (0, 1))
    weights = draw.integers(1, 21, first.size) * np.where(draw.random(first.size) < share, -1, 1)
    unary = np.rint(draw.normal(0, 60, side * side)).astype(np.int64)
    return Whole(unary, first, second, weights, (side, side))


def solves(case: str, whole: Whole) -> Iterator[Solve]:
    """dope and thinqpbo by turns, then those that promise nothing."""
    energy, bounds = whole.stated(), set[int]()
    for repetition in range(REPETITIONS):
        yield case, ROOFS[0], lambda: _agreeing(_ours(whole, energy), bounds), repetition
        if find_spec("thinqpbo") is not None:
            yield case, ROOFS[1], lambda: _agreeing(_thinqpbo(whole), bounds), repetition
    yield case, DEFAULT, lambda: _lowered(whole, energy, None), 0
    for solver in (dope.LsaTr(), dope.MeanField(), dope.Anneal()):
        yield case, f"{type(solver).__name__}()", lambda s=solver: _lowered(whole, energy, s), 0
    peers: list[Record] = []
    if find_spec("dwave") is not None:
        yield case, "dwave-samplers annealing", lambda: _kept(peers, _annealed(whole)), 0
        if whole.unary.size <= MOST_TABU_SITES:
            yield case, f"dwave-samplers tabu, {TABU_SECONDS:g} s", lambda: _kept(peers, _tabu(whole)), 0
    if peers:  # none where a run takes up where another one ended
        seconds = min(peers, key=lambda r: (r["energy"], r["seconds"]))["seconds"]
        yield case, AS_LONG, lambda: _lowered(whole, energy, dope.Portfolio(seconds=seconds)), 0


def _kept(records: list[Record], found: Record) -> Record:
    records.append(found)
    return found


def _agreeing(found: Record, bounds: set[int]) -> Record:
    """Refuse a roof dual that is not the same as the others'."""
    bounds.add(found["twice_bound"])
    if len(bounds) > 1:
        raise SystemExit(f"roof duals differ: twice the bounds are {sorted(bounds)}")
    return found


def _told(whole: Whole, labels: Labels, **found: float | None) -> Record:
    size = {"sites": whole.unary.size, "pairs": whole.weights.size, "repelling": round(whole.repelling, 4)}
    return size | found | {"energy": whole.energy(labels)}


def _ours(whole: Whole, energy: dope.Energy) -> Record:
    begun = time.perf_counter()
    minimizer = dope.Qpbo().prepare(energy)
    built = time.perf_counter()
    answer = minimizer.minimize(energy.unary)
    seconds = time.perf_counter() - begun
    if answer.bound is None or answer.proved is None:
        raise SystemExit("Qpbo() gave no bound")
    twice = round(2 * answer.bound)
    if twice != 2 * answer.bound:
        raise SystemExit(f"Qpbo() found the bound {answer.bound!r} of an energy in whole numbers")
    labelled = round(float(answer.proved.mean()), 4)
    told = {"twice_bound": twice, "bound": twice / 2, "labelled": labelled}
    return _told(whole, answer.labels.ravel(), seconds=seconds, build_seconds=built - begun, **told)


def _thinqpbo(whole: Whole) -> Record:
    """Its labels where it has some, 0 elsewhere."""
    import thinqpbo  # type: ignore[import-untyped]

    prices = whole.unary.tolist()
    pairs = list(zip(whole.first.tolist(), whole.second.tolist(), whole.weights.tolist(), strict=True))
    begun = time.perf_counter()
    graph = thinqpbo.QPBOInt(len(prices), len(pairs))
    graph.add_node(len(prices))
    for site, price in enumerate(prices):
        graph.add_unary_term(site, 0, price)
    for i, j, weight in pairs:
        graph.add_pairwise_term(i, j, 0, weight, weight, 0)
    graph.merge_parallel_edges()
    built = time.perf_counter()
    graph.solve()
    graph.compute_weak_persistencies()
    found = np.fromiter(map(graph.get_label, range(len(prices))), np.int8, len(prices))
    seconds = time.perf_counter() - begun
    twice = int(graph.compute_twice_lower_bound())
    told = {"twice_bound": twice, "bound": twice / 2, "labelled": round(float((found >= 0).mean()), 4)}
    return _told(whole, found > 0, seconds=seconds, build_seconds=built - begun, **told)


def _lowered(whole: Whole, energy: dope.Energy, solver: dope.BlockSolver | None) -> Record:
    begun = time.perf_counter()
    labels = dope.minimize(energy, solver=solver, blocks=1).labels
    return _told(whole, labels.ravel(), seconds=time.perf_counter() - begun)


def _model(whole: Whole) -> object:
    """w [x != y] = w (x + y - 2 x y)."""
    import dimod

    linear = whole.unary.astype(float)
    np.add.at(linear, whole.first, whole.weights)
    np.add.at(linear, whole.second, whole.weights)
    quadratic = (whole.first, whole.second, -2.0 * whole.weights)
    return dimod.BinaryQuadraticModel.from_numpy_vectors(linear, quadratic, 0.0, dimod.BINARY)


def _annealed(whole: Whole) -> Record:
    """As it comes: one read of 1000 sweeps, with the temperatures that it chooses."""
    from dwave.samplers import SimulatedAnnealingSampler

    return _sampled(whole, SimulatedAnnealingSampler(), num_reads=1, seed=0)


def _tabu(whole: Whole) -> Record:
    from dwave.samplers import TabuSampler

    return _sampled(whole, TabuSampler(), num_reads=1, seed=0, timeout=int(1000 * TABU_SECONDS))


def _sampled(whole: Whole, sampler: object, **settings: int) -> Record:
    model = _model(whole)
    begun = time.perf_counter()
    found = sampler.sample(model, **settings)  # type: ignore[attr-defined]
    seconds = time.perf_counter() - begun
    labels = found.record.sample[np.argmin(found.record.energy)][np.argsort(list(found.variables))] > 0
    return _told(whole, labels, seconds=seconds)


def roof_table(found: dict[str, dict[str, list[Record]]]) -> str:
    """The bound, what it proves and how long it took, by both. `found`: by case and solver."""
    head = ["case", "sites", "pairs", "repel %", "roof dual", "the same", "labelled %", "thinqpbo labelled %"]
    head += ["build + solve s", "thinqpbo build + solve s", "times as fast"]
    rows = []
    for case in (c for c in CASES if c in found):
        ours, theirs = (found[case].get(name, []) for name in ROOFS)
        if not ours:
            continue
        first = ours[0]
        cells = [case, f"{first['sites']:,}", f"{first['pairs']:,}", f"{100 * first['repelling']:.0f}"]
        same = "yes" if {r["twice_bound"] for r in theirs} == {first["twice_bound"]} else "-"
        cells += [f"{first['bound']:,.1f}", same, *(_labelled(those) for those in (ours, theirs))]
        cells += [_stages(ours), _stages(theirs), _ratio(ours, theirs)]
        rows.append(cells)
    return markdown(head, rows)


def _labelled(records: list[Record]) -> str:
    return f"{100 * records[0]['labelled']:.2f}" if records else "-"


def _stages(records: list[Record]) -> str:
    if not records:
        return "-"
    best = min(records, key=lambda r: float(r["seconds"]))
    return f"{best['build_seconds']:.3f} + {best['seconds'] - best['build_seconds']:.3f}"


def _ratio(ours: list[Record], theirs: list[Record]) -> str:
    """Of the best times, which are those that are shown."""
    if not ours or not theirs:
        return "-"
    ratio = min(r["seconds"] for r in theirs) / min(r["seconds"] for r in ours)
    return f"{ratio:.1f}"


def energies_table(found: dict[str, dict[str, list[Record]]]) -> str:
    """The energy that each solver found, and its seconds; the least of a case in bold."""
    named = dict.fromkeys(name for solvers in found.values() for name in solvers)
    names = [name for name in named if name != ROOFS[1]]  # it leaves sites without a label
    rows = []
    for case in (c for c in CASES if c in found):
        solvers = found[case]
        least = min(solvers[name][-1]["energy"] for name in names if name in solvers)
        rows.append([case, *(_energy(solvers.get(name), least) for name in names)])
    return markdown(["case", *(name if "dwave" in name else f"`{name}`" for name in names)], rows)


def _energy(records: list[Record] | None, least: int) -> str:
    if not records:
        return "-"
    shown = f"{records[-1]['energy']:,}"
    best = min(r["seconds"] for r in records)
    return f"{f'**{shown}**' if records[-1]['energy'] == least else shown} ({best:.2g} s)"
