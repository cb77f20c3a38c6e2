"""Forecasts: plans for workers that are not here have the blocks that will be used; what was measured comes back."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dope
from dope import Bracketing, Energy, InputError
from dope.footprint import BOX_PROCESS_BYTES
from dope.forecast import Costs, forecast_rounds, memory_in_all, outline_energy, plan_for_workers


def plan_of(shape, *, memory=10**9, workers=1, blocks=None, **sizes):
    return plan_for_workers(outline_energy(shape, **sizes), memory=memory, workers=workers, blocks=blocks)


@given(
    st.lists(st.integers(1, 60), min_size=1, max_size=3), st.sampled_from([3, 5]), st.integers(1, 4), st.integers(0, 40)
)
def test_a_plan_for_workers_has_the_blocks_that_will_be_used(shape, kernel, workers, more):
    shape, memory = tuple(shape), BOX_PROCESS_BYTES + 30_000 * (1 + more)
    try:
        plan = plan_of(shape, memory=memory, kernel=kernel, workers=workers)
    except InputError:
        return
    features = np.zeros((*shape, 1), dtype=np.uint8)
    energy = Energy.grid(np.zeros(shape, dtype=np.float32), features=features, kernel=kernel)
    told = memory_in_all(workers, plan.block_bytes)
    used = dope.plan(energy, memory=told, executor=dope.Threads(workers), method=Bracketing())
    assert used.cuts == plan.cuts and len(used.partition.blocks) == plan.blocks
    sides = np.array([[s.stop - s.start for s in block.where] for block in used.partition.blocks])
    assert plan.block_shape == tuple(sides.max(axis=0))
    assert plan.worker_bytes <= memory or workers == 1
    around = [energy.pairs.around(block.where) for block in used.partition.blocks]
    read = sum(math.prod([s.stop - s.start for s in box]) for box in around)
    assert plan.halo * plan.sites == pytest.approx(read)


@pytest.fixture(scope="module")
def small_run():
    """A run in 3 x 3 x 3 blocks, as it went."""
    rng = np.random.default_rng(1)
    shape = (30, 33, 36)
    unary = np.repeat(rng.normal(0, 2, (30, 33, 9)), 4, axis=2).astype(np.float32)
    energy = Energy.grid(unary, lam=0.7, features=rng.integers(0, 9, shape, dtype=np.uint8))
    result = dope.minimize(energy, blocks=(3, 3, 3), method=Bracketing(), executor=dope.Serial())
    assert (result.labels == dope.minimize(energy, blocks=1).labels).all()
    return result, energy


@pytest.fixture(scope="module")
def costs(small_run):
    return Costs.of(*small_run)


def test_a_plan_of_the_problem_that_was_measured_is_what_was_measured(small_run, costs):
    result, energy = small_run
    plan = plan_of(energy.shape, memory=1 << 40, blocks=(3, 3, 3))
    assert plan.cuts == result.partition.cuts
    rounds = forecast_rounds(plan, costs)
    asked = [[t for t in step.tasks.done if t.kind == kind] for step in result.trace
             for kind in dict.fromkeys(t.kind for t in step.tasks.done)]  # fmt: skip
    assert sum(tasks[0].kind == "prove" for tasks in asked) == sum("pass" in r.name for r in rounds)
    assert [r.name for r in rounds][:2] == ["measure", "pass 1"] and rounds[-1].name == "finish"
    for tasks, told in zip(asked, rounds, strict=True):
        assert told.tasks == len(tasks)
        assert told.own == pytest.approx(sum(task.sites for task in tasks))
        whole = told.own == pytest.approx(plan.sites)
        near = 1e-6 if whole else 0.5  # boxes of open sites have neighbours of their own
        assert told.work == pytest.approx(sum(task.seconds for task in tasks), rel=near)
        assert told.left == pytest.approx(sum(task.received for task in tasks), rel=near)
        assert told.written_bytes == told.left + (plan.sites if told.name == "finish" else 0)
        assert told.sent == len(tasks) * costs.task_bytes and told.received == len(tasks) * costs.summary_bytes
    assert [r.read_bytes > r.region * plan.energy.site_bytes for r in rounds[:2]] == [False, False]
    assert all(r.read_bytes > r.region * plan.energy.site_bytes for r in rounds[2:])


def test_the_coordinator_works_by_the_task_and_not_by_the_site(costs):
    small, large = (plan_of((side,) * 3, memory=1 << 50, blocks=(5, 5, 5), workers=2) for side in (500, 5000))
    some, more = (forecast_rounds(plan, replace(costs, seams=0.0)) for plan in (small, large))
    for one, other in zip(some, more, strict=True):
        assert one.coordinator == other.coordinator == one.tasks * costs.count + min(16, one.tasks) * costs.task
        assert (one.sent, one.received) == (other.sent, other.received) and one.work < other.work


def test_more_workers_are_no_slower_and_slow_storage_is(costs):
    def seconds(workers, storage=math.inf, sites=2000):
        plan = plan_of((sites,) * 3, workers=workers)
        return sum(one.seconds for one in forecast_rounds(plan, costs, storage=storage))

    times = [seconds(workers) for workers in (1, 4, 16, 64)]
    assert times == sorted(times, reverse=True)
    assert seconds(64, storage=1e6) > 3 * 5 * 2000**3 / 1e6 > seconds(64, storage=1e12)
    assert seconds(4, sites=1000) < seconds(4)


def test_one_block_needs_no_second_pass(costs):
    plan = plan_of((20, 20, 20), memory=10**10)
    assert plan.blocks == 1 and plan.halo == 1.0
    assert [one.name for one in forecast_rounds(plan, costs)] == ["measure", "pass 1", "finish"]


def test_plans_beyond_this_machine_take_no_memory():
    for workers, memory in [(1, 64e9), (100_000, 16e9)]:
        plan = plan_of((21_544,) * 3, memory=int(memory), workers=workers)
        assert plan.sites > 9e12 and plan.blocks >= workers and plan.worker_bytes <= memory


@pytest.mark.parametrize(
    ("kernel", "dimensions"),
    [pytest.param(3, 1, marks=pytest.mark.slow), (3, 2), pytest.param(5, 3, marks=pytest.mark.slow)],
)
def test_costs_come_back_from_their_file(tmp_path, kernel, dimensions):
    costs = Costs.measured(kernel, dimensions)
    costs.save(tmp_path / "costs.json")
    assert Costs.load(tmp_path / "costs.json") == costs
    assert costs.rounds[0].name == "measure" and costs.rounds[-1].name == "finish"
    assert all(one.solve > 0 for one in costs.rounds) and 0 < costs.count < 1
    assert np.mean(costs.spread) == pytest.approx(1.0)


@pytest.mark.parametrize("change", [{"count": -1.0}, {"count": "much"}, {"rounds": []}, {"spread": []}, {"more": 1}])
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


def test_costs_of_an_older_dope_are_refused(tmp_path, costs):
    file = tmp_path / "costs.json"
    costs.save(file)
    old = {**json.loads(file.read_text()), **dict.fromkeys(("fetch", "pack", "store", "cell"), 1e-9)}
    del old["count"], old["summary_bytes"]
    file.write_text(json.dumps(old))
    with pytest.raises(InputError, match=r"holds no costs .*older dope.*dope plan --measure"):
        Costs.load(file)


def test_costs_of_another_kernel_are_refused(costs):
    with pytest.raises(InputError, match="6 neighbours in 3 dimensions"):
        forecast_rounds(plan_of((50, 50)), costs)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [({"shape": ()}, "shape is"), ({"workers": 0}, "workers is 0"), ({"memory": 10**8}, "expected more than"),
     ({"unary_bytes": 0}, "unary_bytes is 0"), ({"shape": (10**5,) * 3, "memory": 3 * 10**8}, "blocks"),
     ({"shape": (500,) * 3, "blocks": 1, "memory": 10**9}, "ask for more blocks")],
)  # fmt: skip
def test_bad_plans_for_workers_are_refused(arguments, words):
    with pytest.raises(InputError, match=words):
        plan_of(**{"shape": (50, 50, 50), "memory": 10**9, **arguments})
