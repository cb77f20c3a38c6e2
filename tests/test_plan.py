"""Plans: every decision once, with its reason; what they count is what there is, and what they show is what runs."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dope
from dope import Admm, Bracketing, Energy, Exact, Icm, InputError, MaxFlow, Partition, Portfolio, Serial, Threads
from dope.forecast import Workers, outline_energy

RNG = np.random.default_rng(0)


def grid(*shape, **settings):
    return Energy.grid(RNG.normal(size=shape).astype(np.float32), **settings)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=3), st.sampled_from([3, 5]), st.integers(1, 8))
def test_a_plan_counts_what_there_is(shape, kernel, blocks):
    shape = tuple(shape)
    energy = Energy.grid(np.zeros(shape), kernel=kernel)
    try:
        partition = Partition.grid(shape, blocks)
    except InputError:
        return
    plan = dope.plan(energy, blocks=blocks)
    assert (plan.sites, plan.pairs) == (energy.unary.size, energy.pairs.number)
    assert plan.blocks == len(partition.blocks) == math.prod(plan.layout) == len(plan.partition.blocks)
    assert plan.block_shape == tuple(np.max([[s.stop - s.start for s in b.where] for b in partition.blocks], axis=0))
    coupled = np.zeros(shape, dtype=bool)
    for axis, (n, k, reach) in enumerate(zip(shape, plan.layout, energy.pairs.reach, strict=True)):
        piece = np.searchsorted([i * n // k for i in range(1, k)], np.arange(n), side="right")
        near = [any(piece[max(0, x - reach) : x + reach + 1] != piece[x]) for x in range(n)]
        coupled |= np.array(near).reshape([-1 if a == axis else 1 for a in range(len(shape))])
    assert plan.coupled_sites == coupled.sum()


def test_what_a_plan_shows_is_what_runs():
    energy = grid(500, 600, lam=0.4)
    plan = dope.plan(energy)
    result = dope.minimize(energy)
    assert (plan.blocks, plan.method, plan.solver) == (
        len(result.partition.blocks),
        result.plan.method,
        result.plan.solver,
    )
    assert np.array_equal(plan.run().labels, result.labels)
    assert result.plan.decisions == plan.decisions


def test_a_result_keeps_its_plan_but_not_the_arrays():
    energy = grid(30, 40)
    kept = dope.minimize(energy).plan
    assert not kept.energy.in_memory and kept.sites == 1200 and str(kept.blocks) in str(kept)


def test_a_plan_says_why():
    plan = dope.plan(grid(60, 50), solver=Icm())
    told = {one.what: one for one in plan.decisions}
    assert set(told) == {"method", "blocks", "solver", "integers", "runs in", "arrays", "labels"}
    assert all(one.choice and one.why for one in plan.decisions)
    assert "takes any solver" in told["method"].why and told["solver"].why == "as asked"
    for text in (str(plan), plan._repr_html_()):
        for words in ("3,000 (60 x 50)", "takes any solver", "memory", "time"):
            assert words in text


SIGNED = {"lam": -0.3}


@pytest.mark.parametrize(
    ("energy", "said", "method"),
    [
        (grid(20, 20), {}, Exact),
        (grid(20, 20), {"overlap": 0.2, "blocks": 4}, Admm),
        (grid(20, 20), {"solver": Icm()}, Admm),
        (grid(20, 20), {"executor": Workers(4)}, Bracketing),
        (grid(20, 20), {"checkpoint": "nowhere"}, Bracketing),
        (grid(20, 20, **SIGNED), {}, Admm),
        (grid(20, 20, **SIGNED), {"executor": Workers(4)}, Admm),
        (Energy.graph([1.0, -2.0], [[0, 1]], [1.0]), {}, Exact),
        (Energy.graph([1.0, -2.0], [[0, 1]], [1.0]), {"executor": Workers(4)}, Admm),
        (outline_energy((4000, 4000, 4000)), {"memory": "2GB"}, Bracketing),
    ],
)
def test_the_method_follows_from_what_is_asked(energy, said, method):
    plan = dope.plan(energy, **said)
    assert isinstance(plan.method, method)
    assert plan.in_boxes == (method is Bracketing)


def test_solvers_follow_from_the_weights():
    assert isinstance(dope.plan(grid(20, 20)).solver, MaxFlow)
    assert isinstance(dope.plan(grid(20, 20, **SIGNED)).solver, Portfolio)
    assert dope.plan(grid(20, 20)).bits == 64
    assert dope.plan(grid(1000, 1000)).bits == 32


def test_memory_is_a_budget_everywhere():
    energy = outline_energy((1000, 1000, 1000))
    small, large = (dope.plan(energy, memory=size, executor=Threads(2)) for size in ("2GB", "200GB"))
    assert small.in_boxes and small.bytes <= 2e9
    assert not large.in_boxes and 2e9 < large.bytes <= 200e9
    with pytest.raises(InputError, match=r"are to be in memory, all at once: in one piece it takes .*, and 2 GB are"):
        dope.plan(energy, memory="2GB", method=Exact())


def test_blocks_fit_into_the_budget():
    energy = outline_energy((10_000, 10_000, 5_000))
    plan = dope.plan(energy, memory="16GB", executor=Workers(100))
    assert plan.sites == 5 * 10**11 and plan.blocks >= 100
    assert 100 * plan.block_bytes <= 16e9


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"method": Exact}, "method is <class"),
        ({"solver": 3}, "solver is 3"),
        ({"executor": "threads"}, "executor is 'threads'"),
        ({"memory": "much"}, "not a size of memory"),
        ({"checkpoint": "a", "resume": "b"}, "both given"),
        ({"method": Exact(), "checkpoint": "a"}, "keeps no checkpoint"),
        ({"method": Bracketing(), "overlap": 0.1}, "boxes without overlap"),
        ({"blocks": Partition.grid((4, 4), 2)}, "the partition is for shape"),
        ({"blocks": 10_000}, "10000 blocks"),
        ({"start": 3}, "start is of type int"),
        ({"out": np.zeros((3, 3))}, "out is ndarray of shape"),
    ],
)
def test_what_cannot_be_planned_is_said(said, words):
    with pytest.raises(InputError, match=words):
        dope.plan(grid(20, 20), **said)


def test_a_plan_is_for_energies_of_its_shape():
    plan = dope.plan(grid(20, 20), executor=Serial())
    other = grid(20, 20, lam=2.0)
    assert np.array_equal(plan.on(other).run().labels, dope.minimize(other).labels)
    with pytest.raises(InputError, match="the plan is for shape"):
        plan.on(grid(20, 21))


def test_an_estimate_of_time_is_positive_and_follows_the_size():
    small, large = (dope.plan(outline_energy((side, 1000))).seconds for side in (300, 30_000))
    assert 0 < small < large
