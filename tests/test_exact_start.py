"""Going on from an earlier result finds what a fresh run finds, to the bit, whatever became of the earlier one."""

import copy
import gc
import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest

import dope
from dope import Admm, Energy, Exact, InputError, MaxFlow, Partition, Serial, Threads
from dope.executors.serial import SerialCrew
from dope.methods import flow_cache
from exact_oracle import Truth
from profiles import slow_but

SHAPE = (30, 36)
FOUR = [(0, 1), (1, 0)]


def arguments_of(seed=0):
    rng = np.random.default_rng(seed)
    y, x = np.indices(SHAPE)
    clean = np.hypot(y - 15, x - 18) < 10
    image = np.clip(clean * 80 + 80 + rng.normal(0, 40, SHAPE), 0, 255).astype(np.uint8)
    return {"unary": (120 - image.astype(float)).astype(int), "lam": 30.0, "kernel": 3, "features": image}


def site(arguments):
    return arguments | {"unary": np.where(np.indices(SHAPE).sum(axis=0) == 20, -300, arguments["unary"])}


def stroke(arguments):
    unary = arguments["unary"].copy()
    unary[4:6, 3:30], unary[20, 5:30] = -(10**4), 10**4
    return arguments | {"unary": unary}


def features(arguments):
    return arguments | {"features": arguments["features"][::-1].copy()}


CHANGES = {
    "nothing": lambda old: old,
    "the same again, copied": lambda old: old | {"unary": old["unary"].copy(), "features": old["features"].copy()},
    "one site": site,
    "a stroke": stroke,
    "a stroke taken back": lambda old: old,
    "all unaries": lambda old: old | {"unary": -old["unary"]},
    "no unaries": lambda old: old | {"unary": np.zeros(SHAPE)},
    "fractions": lambda old: old | {"unary": old["unary"] + 1 / 3},
    "lam": lambda old: old | {"lam": 55.0},
    "less lam": lambda old: old | {"lam": 3.0},
    "no lam": lambda old: old | {"lam": 0.0},
    "kernel": lambda old: old | {"kernel": 5, "lam": 9.0},
    "fewer neighbours": lambda old: old | {"kernel": FOUR},
    "features": features,
    "flat": lambda old: {"unary": old["unary"], "lam": 20, "kernel": 3},
}


def require_same(result, fresh):
    np.testing.assert_array_equal(result.labels, fresh.labels)
    for name in ("energy", "lower_bound", "exact", "rounding_error", "stopped", "proved"):
        assert getattr(result, name) == getattr(fresh, name), name


def told(result):
    """All that a result says, to compare before and after."""
    proof = result.certificate
    arrays = (result.labels, proof.first, proof.second, proof.flow, proof.bounds)
    numbers = (result.energy, result.lower_bound, result.exact, result.stopped, result.proved, proof.scale)
    return [array.tolist() for array in arrays], numbers, result.trace


@pytest.mark.parametrize(
    ("blocks", "merge"),
    [
        pytest.param(12, True, id="merge-same blocks"),
        pytest.param((1, 5), True, id="merge-other blocks", marks=pytest.mark.slow),
        pytest.param(12, False, id="discharge-same blocks", marks=pytest.mark.slow),
        pytest.param((1, 5), False, id="discharge-other blocks", marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("name", CHANGES)
def test_after_any_change_the_result_is_that_of_a_fresh_run(name, blocks, merge):
    old = stroke(arguments_of()) if name == "a stroke taken back" else arguments_of()
    new = CHANGES[name](arguments_of())
    energy, method = Energy.grid(**new), Exact(rounds=2, merge=merge)
    fresh = dope.minimize(energy, blocks=blocks, method=method)
    previous = dope.minimize(Energy.grid(**old), blocks=12, method=method)
    before = told(previous)
    for _ in range(2):  # the second time its flow belongs to somebody else
        result = dope.minimize(energy, blocks=blocks, method=method, start=previous)
        require_same(result, fresh)
        assert dope.verify(energy, result.labels, result.certificate)
        assert told(previous) == before
        require_same(dope.minimize(energy, blocks=blocks, method=method, start=result), fresh)


@pytest.mark.parametrize("more", [0.25, 1 / 3, 1e7])
@pytest.mark.parametrize("bits", [None, 32, 64])
def test_costs_that_are_counted_in_other_units_start_anew(more, bits):
    """The pairs and the blocks are the same; the flow's integers mean something else."""
    rng = np.random.default_rng(6)
    old = rng.integers(-3, 4, SHAPE)
    previous = dope.minimize(Energy.grid(old, kernel=FOUR), blocks=12, solver=MaxFlow())
    energy = Energy.grid(old + more * rng.integers(-3, 4, SHAPE), kernel=FOUR)
    fresh = dope.minimize(energy, blocks=12, solver=MaxFlow(bits))
    result = dope.minimize(energy, blocks=12, solver=MaxFlow(bits), start=previous)
    require_same(result, fresh)
    assert dope.verify(energy, result.labels, result.certificate).exact


@pytest.mark.parametrize("executor", slow_but([Serial(), Threads(4)], quick=[Serial()]), ids=str)
@pytest.mark.parametrize("bits", slow_but([16, 64], quick=[64]))
def test_a_long_sequence_of_changes_ends_where_a_fresh_run_does(executor, bits):
    rng = np.random.default_rng(bits)
    old, results = arguments_of(), []
    solver = MaxFlow(bits)
    for turn in range(25):
        if turn % 8 == 7:
            old = old | {"lam": float(rng.integers(5, 60))}
        changed = rng.random(SHAPE) < rng.choice([0.001, 0.05, 1.0])
        old = old | {"unary": np.where(changed, rng.integers(-200, 200, SHAPE), old["unary"])}
        energy = Energy.grid(**old)
        blocks = 20 if turn % 5 else 6
        # Whatever was merged stays merged, and must not disturb one that merges nothing.
        method = Exact(rounds=int(rng.integers(4)), merge=bool(rng.random() < 0.7))
        start = None
        if results:
            start = results[-1] if rng.random() < 0.7 else results[int(rng.integers(len(results)))]
        arguments = {"blocks": blocks, "solver": solver, "executor": executor}
        results.append(dope.minimize(energy, method=method, start=start, **arguments))
        require_same(results[-1], dope.minimize(energy, method=method, **arguments))


def test_a_graph_goes_on_too():
    rng = np.random.default_rng(3)
    edges = np.stack([np.arange(299), np.arange(1, 300)], axis=1)
    edges = np.concatenate([edges, rng.integers(0, 300, (300, 2))])
    edges = edges[edges[:, 0] != edges[:, 1]]
    weights = rng.integers(0, 6, len(edges))
    unary = rng.integers(-9, 10, 300)
    previous = dope.minimize(Energy.graph(unary, edges, weights), blocks=9)
    for other in (unary, -unary, np.where(np.arange(300) < 5, 99, unary)):
        for strong in (1, 3):
            energy = Energy.graph(other, edges, strong * weights)
            for blocks in (9, 4):
                fresh = dope.minimize(energy, blocks=blocks)
                require_same(dope.minimize(energy, blocks=blocks, start=previous), fresh)
    # A grid of the same shape has other sites for neighbours.
    grid = Energy.grid(unary, lam=4)
    require_same(dope.minimize(grid, blocks=7, start=previous), dope.minimize(grid, blocks=7))
    of_grid = dope.minimize(grid, blocks=7)
    energy = Energy.graph(unary, edges, weights)
    require_same(dope.minimize(energy, blocks=7, start=of_grid), dope.minimize(energy, blocks=7))


@pytest.mark.parametrize("what", ["unary", "features", "weights"])
def test_arrays_that_the_caller_changed_in_place_are_changes(what):
    """As with strokes painted into one array: the earlier energy then shows the new costs, but its flow has the old."""
    rng = np.random.default_rng(4)
    unary, pixels = rng.integers(-9, 10, SHAPE).astype(float), rng.normal(size=SHAPE)
    fields = rng.integers(0, 3, (2, *SHAPE)).astype(float)
    pairs = {"features": {"features": pixels, "beta": 0.5}, "weights": {"weights": list(fields)}, "unary": {}}[what]
    previous = dope.minimize(Energy.grid(unary, lam=4.0, kernel=FOUR, **pairs), blocks=12)
    changed = {"features": pixels, "weights": fields[0], "unary": unary}[what]
    changed[:] = 2 * changed[::-1]
    energy = Energy.grid(unary, lam=4.0, kernel=FOUR, **pairs)
    result = dope.minimize(energy, blocks=12, start=previous)
    require_same(result, dope.minimize(energy, blocks=12))
    assert dope.verify(energy, result.labels, result.certificate).exact


@pytest.mark.slow
def test_what_was_merged_before_goes_the_same_way_in_threads():
    """Groups that the last run merged reach further than their blocks do: neighbours must not be at work together."""
    rng = np.random.default_rng(5)
    old, new = (Energy.grid(rng.integers(-9, 10, (128, 512)), lam=6, kernel=FOUR) for _ in range(2))

    def run(executor):
        merging, apart = Exact(rounds=0), Exact(rounds=0, merge=False)
        previous = dope.minimize(old, blocks=(4, 8), method=merging, watch=lambda step: step.round == 2)
        assert 1 < previous.trace[-1].groups < 32
        result = dope.minimize(new, blocks=(4, 8), method=apart, executor=executor, start=previous)
        return [(step.energy, step.lower_bound, step.disagreeing) for step in result.trace]

    serial = run(Serial())
    assert len(serial) > 2
    for _ in range(4):
        assert run(Threads(4)) == serial


def test_several_runs_may_start_from_one_result_at_once():
    previous = dope.minimize(Energy.grid(**arguments_of()), blocks=12)
    energies = [Energy.grid(**arguments_of() | {"unary": arguments_of(seed)["unary"]}) for seed in range(8)]
    fresh = [dope.minimize(energy, blocks=12) for energy in energies]
    with ThreadPoolExecutor(4) as pool:
        going_on = list(pool.map(lambda e: dope.minimize(e, blocks=12, start=previous), energies))
    for result, expected in zip(going_on, fresh, strict=True):
        require_same(result, expected)


@pytest.mark.parametrize("early", slow_but([1, 2, 4], quick=[2]))
@pytest.mark.parametrize("merge", [True, False], ids=["merge", "discharge"])
def test_one_may_go_on_from_a_run_that_was_stopped(early, merge):
    old, method = arguments_of(), Exact(rounds=2, merge=merge)
    for new in (old, stroke(old), old | {"lam": 50.0}):
        previous = dope.minimize(Energy.grid(**old), blocks=12, method=method, watch=lambda step: step.round == early)
        assert previous.stopped in ("cancelled", "exact")
        energy = Energy.grid(**new)
        fresh = dope.minimize(energy, blocks=12, method=method)
        require_same(dope.minimize(energy, blocks=12, method=method, start=previous), fresh)


def test_going_on_takes_fewer_rounds():
    energy = Energy.grid(**arguments_of())
    previous = dope.minimize(energy, blocks=12)
    assert len(previous.trace) > 1
    for start in (previous, pickle.loads(pickle.dumps(previous))):
        assert len(dope.minimize(energy, blocks=12, start=start).trace) == 1


# What is kept.


def held(result):
    return result._kept.bytes


def test_a_flow_is_kept_until_somebody_goes_on_from_it():
    old = arguments_of()
    previous = dope.minimize(Energy.grid(**old), blocks=12)
    assert held(previous) > 0
    other = dope.minimize(Energy.grid(**old | {"lam": 3.0}), blocks=12, start=previous)
    assert held(previous) > 0  # of no use there
    result = dope.minimize(Energy.grid(**stroke(old)), blocks=12, start=previous)
    assert held(previous) == 0 < held(result)
    assert held(other) > 0


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda result: pickle.loads(pickle.dumps(result))])
def test_copies_hold_no_flow(copied):
    energy = Energy.grid(**arguments_of())
    previous = dope.minimize(energy, blocks=12)
    again = copied(previous)
    assert held(again) == 0 < held(previous)
    assert len(pickle.dumps(previous)) < held(previous)
    assert told(again) == told(previous)
    changed = Energy.grid(**stroke(arguments_of()))
    fresh = dope.minimize(changed, blocks=12)
    require_same(dope.minimize(changed, blocks=12, start=again), fresh)
    require_same(dope.minimize(changed, blocks=12, start=previous), fresh)


def test_no_more_is_kept_than_is_allowed(monkeypatch):
    energies = [Energy.grid(**arguments_of(seed)) for seed in range(4)]
    results = [dope.minimize(energy, blocks=12) for energy in energies]
    one = held(results[0])
    monkeypatch.setattr(flow_cache, "most_bytes", lambda: 2 * one + one // 2)
    gc.collect()
    results.append(dope.minimize(energies[0], blocks=12))
    assert [held(result) > 0 for result in results] == [False, False, False, True, True]  # the last ones stay
    monkeypatch.setattr(flow_cache, "most_bytes", lambda: one - 1)
    results.append(dope.minimize(energies[0], blocks=12))
    assert not any(held(result) for result in results)
    changed = Energy.grid(**stroke(arguments_of()))
    fresh = dope.minimize(changed, blocks=12)
    for previous in results:
        require_same(dope.minimize(changed, blocks=12, start=previous), fresh)


def test_results_that_are_gone_hold_nothing(monkeypatch):
    energy = Energy.grid(**arguments_of())
    first = dope.minimize(energy, blocks=12)
    monkeypatch.setattr(flow_cache, "most_bytes", lambda: 2 * held(first) + 1)
    for _ in range(3):
        dope.minimize(energy, blocks=12)
        gc.collect()
    assert held(first) > 0


# Runs that fail.


class FailedError(Exception):
    pass


@dataclass(frozen=True)
class FailsAt:
    """Serial until the n-th request, which the first half of the blocks still answers."""

    n: int

    def gather(self, recipes):
        return FailingCrew(recipes, self.n)


class FailingCrew(SerialCrew):
    def __init__(self, recipes, n):
        super().__init__(recipes)
        self._left = n

    def ask(self, messages, *, begun=None, done=None):
        self._left -= 1
        if self._left < 0:
            super().ask(messages[: len(messages) // 2], begun=begun, done=done)
            raise FailedError
        return super().ask(messages, begun=begun, done=done)


@pytest.mark.parametrize(
    "merge", [pytest.param(True, id="merge"), pytest.param(False, id="discharge", marks=pytest.mark.slow)]
)
def test_a_run_that_fails_anywhere_leaves_no_broken_flow(merge):
    method, old = Exact(rounds=1, merge=merge), arguments_of()
    energy = Energy.grid(**stroke(old))
    fresh = dope.minimize(energy, blocks=12, method=method)
    for requests in range(100):
        previous = dope.minimize(Energy.grid(**old), blocks=12, method=method)
        try:
            done = dope.minimize(energy, blocks=12, method=method, start=previous, executor=FailsAt(requests))
        except FailedError:
            require_same(dope.minimize(energy, blocks=12, method=method, start=previous), fresh)
        else:
            require_same(done, fresh)
            break
    assert 3 < requests < 100


def test_a_watcher_that_fails_leaves_no_broken_flow():
    old, method = arguments_of(), Exact(rounds=1)
    energy = Energy.grid(**stroke(old))
    fresh = dope.minimize(energy, blocks=12, method=method)
    for at in range(1, len(fresh.trace) + 1):
        previous = dope.minimize(Energy.grid(**old), blocks=12, method=method)
        shown = []

        def watch(step, at=at, shown=shown):
            shown.append(step)
            if step.round == at or step.stopped:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            dope.minimize(energy, blocks=12, method=method, start=previous, watch=watch)
        assert len(shown) <= at
        require_same(dope.minimize(energy, blocks=12, method=method, start=previous), fresh)


# Other methods, and what is no start.


@pytest.mark.parametrize("overlap", [0, 2])
def test_admm_takes_a_start_and_gives_one(overlap):
    energy = Energy.grid(**arguments_of())
    fresh = dope.minimize(energy, blocks=12)
    by_admm = dope.minimize(energy, blocks=12, overlap=overlap, method=Admm(), start=fresh)
    assert by_admm.energy == energy(by_admm.labels) >= fresh.energy
    require_same(dope.minimize(energy, blocks=12, start=by_admm), fresh)


def test_what_is_no_start_is_refused():
    energy = Energy.grid(**arguments_of())
    other = dope.minimize(Energy.grid(np.zeros((5, 4))))
    with pytest.raises(InputError, match=r"\(5, 4\).*\(30, 36\)"):
        dope.minimize(energy, start=other)
    turned = dope.minimize(Energy.grid(arguments_of()["unary"].T))
    for method in (None, Exact(), Admm()):
        with pytest.raises(InputError, match=r"\(36, 30\)"):
            dope.minimize(energy, start=turned, method=method)
    for nonsense in (np.zeros(SHAPE, bool), turned.labels, turned.certificate, "previous", 3, dope.Result, (turned,)):
        with pytest.raises(InputError, match="start is of type"):
            dope.minimize(energy, start=nonsense)


def test_blocks_given_as_a_partition_are_the_same_blocks():
    old = arguments_of()
    previous = dope.minimize(Energy.grid(**old), blocks=Partition.at(SHAPE, [[10, 20], [18]]))
    energy = Energy.grid(**stroke(old))
    partition = Partition.at(SHAPE, [[10, 20], [18]])
    result = dope.minimize(energy, blocks=partition, start=previous)
    assert held(previous) == 0
    require_same(result, dope.minimize(energy, blocks=partition))


@pytest.mark.parametrize("seed", slow_but(range(60), quick=range(20)))
def test_what_is_proved_first_is_proved_of_the_new_unary(seed):
    """The kept flow is of merged blocks, and of the old unary until it is solved again."""
    rng = np.random.default_rng(seed)
    before, energy = (Energy.grid(rng.integers(-5, 6, (1, 6)).astype(float), lam=float(1 + seed % 3)) for _ in range(2))
    earlier = dope.minimize(before, blocks=3)
    method = Exact(bracket=True)
    early = dope.minimize(energy, blocks=3, start=earlier, method=method, watch=lambda step: step.round == 1)
    truth = Truth.of(energy)
    assert early.proved * 6 <= truth.best_agreement(early.labels, Fraction(0)) + 1e-9
    whole = dope.minimize(energy, blocks=3, start=earlier, method=method)
    assert whole.exact and truth(whole.labels) == truth.least


def test_flows_may_take_a_share_of_what_is_available(monkeypatch):
    for available, most in ((None, flow_cache.LEAST_BYTES), (0, flow_cache.LEAST_BYTES), (40 << 30, 10 << 30)):
        monkeypatch.setattr(flow_cache, "available_bytes", lambda available=available: available)
        assert flow_cache.most_bytes() == most
