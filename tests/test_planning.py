"""Plans: what they count is what there is, and what they say about memory holds."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dope
from dope import Energy, InputError, Partition
from dope.memory import as_bytes, as_text
from dope.methods.box_size import PROCESS_BYTES as LAZY_PROCESS_BYTES
from dope.methods.box_size import fitting_partition
from dope.planning import Costs, LazyPlan, Plan, recorded


@given(st.lists(st.integers(1, 9), min_size=1, max_size=3), st.sampled_from([3, 5]), st.integers(1, 8))
def test_a_plan_counts_what_there_is(shape, kernel, blocks):
    shape = tuple(shape)
    energy = Energy.grid(np.zeros(shape), kernel=kernel)
    try:
        partition = Partition.grid(shape, blocks)
    except InputError:
        return
    plan = Plan.of(shape, kernel=kernel, blocks=blocks)
    assert (plan.sites, plan.pairs) == (energy.unary.size, energy.pairs.number)
    assert plan.blocks == len(partition.blocks) == math.prod(plan.layout)
    assert plan.block_shape == tuple(np.max([[s.stop - s.start for s in b.where] for b in partition.blocks], axis=0))
    coupled = np.zeros(shape, dtype=bool)
    for axis, (n, k, reach) in enumerate(zip(shape, plan.layout, energy.pairs.reach, strict=True)):
        piece = np.searchsorted([i * n // k for i in range(1, k)], np.arange(n), side="right")
        near = [any(piece[max(0, x - reach) : x + reach + 1] != piece[x]) for x in range(n)]
        coupled |= np.array(near).reshape([-1 if a == axis else 1 for a in range(len(shape))])
    assert plan.coupled_sites == coupled.sum()


def test_blocks_fit_into_a_workers_memory():
    plan = Plan.of((10_000, 10_000, 5_000), kernel=3, workers=100, memory=as_bytes("16GB"))
    assert plan.block_bytes <= 16e9 and plan.blocks >= 100
    assert plan.sites == 5 * 10**11
    assert plan.bytes > 10**13
    assert 0 < plan.round_bytes < 0.02 * plan.sites * 9
    smaller = Plan.of((10_000, 10_000, 5_000), kernel=3, workers=100, memory=as_bytes("1GB"))
    assert smaller.blocks > plan.blocks and smaller.block_bytes <= 1e9


def test_the_number_of_blocks_is_the_one_that_is_used():
    for shape, kernel in [((64, 64), 3), ((1200, 1300), 7)]:
        unary = np.zeros(shape, dtype=np.float32)
        assert Plan.of(shape, kernel=kernel).blocks == dope.api.automatic_blocks(
            Energy.grid(unary, kernel=kernel).pairs, dope.Exact()
        )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [({"shape": ()}, "shape is"), ({"shape": (4, 0)}, "shape is"), ({"shape": (4, 4), "workers": 0}, "workers is 0"),
     ({"shape": (50, 50), "memory": 10}, "no block fits")],
)  # fmt: skip
def test_bad_plans_are_refused(arguments, words):
    with pytest.raises(InputError, match=words):
        Plan.of(**arguments)


def test_an_estimate_of_time_is_positive_and_follows_the_size():
    small, large = (Plan.of((side, 1000), kernel=3).seconds() for side in (300, 30_000))
    assert 0 < small < large


@pytest.mark.parametrize("number", [1, 999, 1500, 16 * 10**9, 3 * 10**13])
def test_sizes_in_words_come_back(number):
    assert as_bytes(as_text(number).replace("bytes", "")) == pytest.approx(number, rel=0.01)


@pytest.mark.parametrize("text", ["", "GB", "-3GB", "1e400", "12 parsecs", "nan", "0"])
def test_words_that_are_no_size_are_refused(text):
    with pytest.raises(InputError, match="not a size of memory"):
        as_bytes(text)


def lazy_energy(shape, kernel=3, pixel_bytes=1):
    features = np.zeros((*shape, pixel_bytes), dtype=np.uint8)
    return Energy.grid(np.zeros(shape, dtype=np.float32), features=features, kernel=kernel)


@given(
    st.lists(st.integers(1, 60), min_size=1, max_size=3), st.sampled_from([3, 5]), st.integers(1, 4), st.integers(0, 40)
)
def test_a_lazy_plan_has_the_blocks_that_will_be_used(shape, kernel, workers, more):
    shape, memory = tuple(shape), LAZY_PROCESS_BYTES + 30_000 * (1 + more)
    try:
        plan = LazyPlan.of(shape, memory=memory, kernel=kernel, workers=workers)
    except InputError:
        return
    energy = lazy_energy(shape, kernel)
    used = fitting_partition(energy, memory=plan.memory, workers=workers, bits=None, chunks=None)
    assert used.cuts == plan.cuts and len(used.blocks) == plan.blocks
    sides = np.array([[s.stop - s.start for s in block.where] for block in used.blocks])
    assert plan.block_shape == tuple(sides.max(axis=0))
    assert plan.worker_bytes <= memory or workers == 1
    read = sum(math.prod(s.stop - s.start for s in energy.pairs.around(block.where)) for block in used.blocks)
    assert plan.halo * plan.sites == pytest.approx(read)


@pytest.fixture(scope="module")
def small_run():
    """A run in 3 x 3 x 3 blocks, as it went."""
    rng = np.random.default_rng(1)
    shape = (30, 33, 36)
    unary = np.repeat(rng.normal(0, 2, (30, 33, 9)), 4, axis=2).astype(np.float32)
    energy = Energy.grid(unary, lam=0.7, features=rng.integers(0, 9, shape, dtype=np.uint8))
    partition = Partition.grid(shape, (3, 3, 3))
    labels = np.zeros(shape, dtype=bool)
    asked = recorded(energy, partition, dope.Serial(), labels)
    assert (labels == dope.minimize(energy, blocks=1).labels).all()
    return asked, energy, partition, labels


@pytest.fixture(scope="module")
def costs(small_run):
    return Costs.of(*small_run)


def test_a_plan_of_the_problem_that_was_measured_is_what_was_measured(small_run, costs):
    asked, energy, partition, _ = small_run
    plan = LazyPlan.of(energy.shape, memory=1 << 40, blocks=(3, 3, 3))
    assert plan.cuts == partition.cuts
    rounds = plan.rounds(replace(costs, task_bytes=0.0))
    assert [one.kind for one in asked if one.kind == "Prove"] == ["Prove"] * sum("pass" in r.name for r in rounds)
    assert [r.name for r in rounds][:2] == ["look", "pass 1"] and rounds[-1].name == "finish"
    for one, told in zip(asked, rounds, strict=True):
        assert told.tasks == len(one.tasks)
        assert told.own == pytest.approx(sum(task.sites for task in one.tasks))
        whole = told.own == pytest.approx(plan.sites)
        near = 1e-6 if whole else 0.5  # boxes of open sites have neighbours of their own
        assert told.work == pytest.approx(sum(task.seconds for task in one.tasks), rel=near)
        assert told.sent == pytest.approx(sum(task.sent for task in one.tasks), rel=near)
        assert told.received == pytest.approx(sum(task.received for task in one.tasks), rel=near)


def test_more_workers_are_no_slower_and_slow_storage_is(costs):
    def seconds(workers, storage=math.inf, sites=2000):
        plan = LazyPlan.of((sites,) * 3, memory=10**9, workers=workers)
        return sum(one.seconds for one in plan.rounds(costs, storage=storage))

    times = [seconds(workers) for workers in (1, 4, 16, 64)]
    assert times == sorted(times, reverse=True)
    assert seconds(64, storage=1e6) > 3 * 5 * 2000**3 / 1e6 > seconds(64, storage=1e12)
    assert seconds(4, sites=1000) < seconds(4)


def test_one_block_needs_no_second_pass(costs):
    plan = LazyPlan.of((20, 20, 20), memory=10**10)
    assert plan.blocks == 1 and plan.halo == 1.0
    assert [one.name for one in plan.rounds(costs)] == ["look", "pass 1", "finish"]


def test_plans_beyond_this_machine_take_no_memory():
    for workers, memory in [(1, 64e9), (100_000, 16e9)]:
        plan = LazyPlan.of((21_544,) * 3, memory=int(memory), workers=workers)
        assert plan.sites > 9e12 and plan.blocks >= workers and plan.worker_bytes <= memory


@pytest.mark.parametrize(("kernel", "dimensions"), [(3, 1), (3, 2), (5, 3)])
def test_costs_come_back_from_their_file(tmp_path, kernel, dimensions):
    costs = Costs.measured(kernel, dimensions)
    costs.save(tmp_path / "costs.json")
    assert Costs.load(tmp_path / "costs.json") == costs
    assert costs.rounds[0].name == "look" and costs.rounds[-1].name == "finish"
    assert all(one.solve > 0 for one in costs.rounds) and min(costs.pack, costs.store, costs.cell) > 0
    assert np.mean(costs.spread) == pytest.approx(1.0)


@pytest.mark.parametrize("change", [{"fetch": -1.0}, {"fetch": "much"}, {"rounds": []}, {"spread": []}, {"more": 1}])
def test_files_that_are_no_costs_are_refused(tmp_path, costs, change):
    file = tmp_path / "costs.json"
    costs.save(file)
    file.write_text(json.dumps({**json.loads(file.read_text()), **change}))
    with pytest.raises(InputError, match="holds no costs"):
        Costs.load(file)
    file.write_text("[1, 2]")
    with pytest.raises(InputError, match="holds no costs"):
        Costs.load(file)
    with pytest.raises(InputError, match="cannot be read"):
        Costs.load(tmp_path / "nothing.json")


def test_costs_of_another_kernel_are_refused(costs):
    with pytest.raises(InputError, match="6 neighbours in 3 dimensions"):
        LazyPlan.of((50, 50), memory=10**9).rounds(costs)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [({"shape": ()}, "shape is"), ({"workers": 0}, "workers is 0"), ({"memory": 10**8}, "expected more than"),
     ({"unary_bytes": 0}, "unary_bytes is 0"), ({"shape": (10**5,) * 3, "memory": 3 * 10**8}, "blocks"),
     ({"shape": (500,) * 3, "blocks": 1, "memory": 10**9}, "ask for more blocks")],
)  # fmt: skip
def test_bad_lazy_plans_are_refused(arguments, words):
    with pytest.raises(InputError, match=words):
        LazyPlan.of(**{"shape": (50, 50, 50), "memory": 10**9, **arguments})
