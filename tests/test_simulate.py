"""The simulator of clusters: what it says where a formula says it too, and laws for the rest."""

import importlib
import json
import math
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dope.forecast import Costs, Forecast, Round, forecast_rounds, outline_energy, plan_for_workers

FOLDER = Path(__file__).parent.parent / "benchmarks"

COSTS = Costs(
    dimensions=3,
    neighbors=6,
    seams=0.03,
    rounds=(
        Round("measure", 1.0, 1.0, 1e-9, 4e-9, 0.0, 0.0),
        Round("pass 1", 1.0, 1.0, 6e-9, 1e-7, 2e-9, 0.005),
        Round("pass 2", 0.5, 0.15, 1e-8, 8e-8, 3e-9, 0.007),
        Round("finish", 1.0, 1.0, 1e-9, 4e-9, 2e-9, 0.0),
    ),
    count=3e-4,
    spread=(0.5, 1.0, 1.5),
)


@pytest.fixture(scope="module")
def simulation():
    """The module: a script that imports its neighbours, not a package."""
    known = set(sys.modules)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(FOLDER))
        yield importlib.import_module("simulation")
    for name in set(sys.modules) - known:
        if str(FOLDER) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def forecast(tasks, work, **changes):
    names = ("own", "region", "read_bytes", "written_bytes", "left", "sent", "received", "coordinator")
    zero = dict.fromkeys(names, 0.0)
    return Forecast(**{"name": "pass 1", "tasks": tasks, "work": work, **zero, **changes})


@given(st.integers(1, 40), st.integers(1, 12), st.floats(0, 5))
def test_equal_blocks_take_as_many_waves_as_workers_need(simulation, tasks, workers, count):
    costs = replace(COSTS, spread=(1.0,), task=0.0, count=count)
    cluster = simulation.Cluster(workers, storage=1e18, stream=1e18, latency=0.0, handed_out=False)
    played = simulation.Simulation(costs, cluster).play(forecast(tasks, 10.0 * tasks))
    assert played.making == pytest.approx(count * tasks)
    assert played.seconds == pytest.approx(count * tasks + 10.0 * math.ceil(tasks / workers))
    assert played.work == pytest.approx(10.0 * tasks)


def test_blocks_wait_for_a_coordinator_that_hands_them_out(simulation):
    costs = replace(COSTS, spread=(1.0,), task=2.0, count=0.0)
    cluster = simulation.Cluster(1000, storage=1e18, stream=1e18, latency=0.0)
    assert simulation.Simulation(costs, cluster).play(forecast(100, 100.0)).seconds == pytest.approx(201.0)


def test_storage_is_shared(simulation):
    costs = replace(COSTS, spread=(1.0,), task=0.0, count=0.0)
    for workers, seconds in [(1, 10.0), (2, 10.0), (10, 10.0)]:
        cluster = simulation.Cluster(workers, storage=100.0, stream=1e18, latency=0.0)
        played = simulation.Simulation(costs, cluster).play(forecast(10, 0.0, read_bytes=1000.0))
        assert played.seconds == pytest.approx(seconds)
    alone = simulation.Cluster(2, storage=100.0, stream=10.0, latency=0.0)
    assert simulation.Simulation(costs, alone).play(forecast(10, 0.0, read_bytes=1000.0)).seconds == pytest.approx(50.0)


def test_cores_are_shared(simulation):
    costs = replace(COSTS, spread=(1.0,), task=0.0, count=0.0)
    for workers, contention, seconds in [(1, 1.5, 80.0), (2, 1.0, 40.0), (4, 1.0, 40.0), (4, 1.5, 60.0)]:
        cluster = simulation.Cluster(workers, cores=2, contention=contention, storage=1e18, stream=1e18, latency=0.0)
        played = simulation.Simulation(costs, cluster).play(forecast(8, 80.0))
        assert played.seconds == pytest.approx(seconds)


def test_who_shares_gets_as_much_as_the_others(simulation):
    shared = simulation.Shared(lambda n: 6.0 / n)
    shared.enter(0.0, 0, 12.0)
    shared.enter(1.0, 1, 6.0)
    assert shared.end == pytest.approx(3.0)  # both have 6 left, and get 3 a second
    shared.enter(2.0, 2, 100.0)
    shared.leave(2.0, 2)
    assert {shared.pop(3.0), shared.pop(3.0)} == {0, 1} and shared.end == math.inf


@pytest.fixture(scope="module")
def plan():
    return plan_for_workers(outline_energy((4000,) * 3), memory=4 * 10**9, workers=100)


def test_a_run_does_what_the_plan_says(simulation, plan):
    told = simulation.simulated(plan, COSTS, simulation.Cluster(100))
    rounds = forecast_rounds(plan, COSTS)
    assert [one["tasks"] for one in told["rounds"]] == [one.tasks for one in rounds]
    assert told["sent"] == pytest.approx(sum(one.sent for one in rounds))
    assert told["received"] == pytest.approx(sum(one.received for one in rounds))
    assert told["work_seconds"] == pytest.approx(sum(one.work for one in rounds), rel=0.05)
    # The formula knows no slow blocks, and not what a single worker can read.
    assert 1.0 <= told["seconds"] / sum(one.seconds for one in rounds) < 1.4
    assert told["shares"]["work"] == told["efficiency"] <= 1 and sum(told["shares"].values()) == pytest.approx(1)
    assert json.loads(json.dumps(told)) == told and not told["given_up"]


def test_the_same_seed_gives_the_same_run(simulation, plan):
    cluster = simulation.Cluster(100, mtbf=2000.0)
    one, again, other = (simulation.simulated(plan, COSTS, cluster, seed) for seed in (1, 1, 2))
    assert one == again != other


def test_lost_blocks_are_solved_again(simulation, plan):
    safe = simulation.simulated(plan, COSTS, simulation.Cluster(100))
    unsafe = simulation.simulated(plan, COSTS, simulation.Cluster(100, mtbf=500.0))
    assert safe["lost"] == 0 < unsafe["lost"] and unsafe["wasted_seconds"] > 0
    assert unsafe["seconds"] > safe["seconds"]
    assert unsafe["sent"] == safe["sent"]


def test_blocks_that_nobody_lives_long_enough_for_are_given_up(simulation):
    cluster = simulation.Cluster(4, mtbf=20.0, repair=1.0)
    run = simulation.Simulation(replace(COSTS, spread=(1.0,)), cluster)
    run.play(forecast(8, 8 * 100.0))
    assert run.given_up


def test_slow_and_late_workers_cost_time(simulation, plan):
    usual = simulation.simulated(plan, COSTS, simulation.Cluster(100))["seconds"]
    for change in ({"slow": 0.2, "slowness": 5.0}, {"join": 300.0}, {"storage": 1e9}, {"network": 1e6}):
        assert simulation.simulated(plan, COSTS, simulation.Cluster(100, **change))["seconds"] > usual


def test_three_hundred_workers_are_at_work_half_of_the_time(simulation):
    """At 10^12 sites; three were when codes went through the coordinator."""
    plan = plan_for_workers(outline_energy((10_000,) * 3), memory=16 * 10**9, workers=300)
    told = simulation.simulated(plan, replace(COSTS, count=1e-3, task=6e-3), simulation.Cluster(300))
    assert told["efficiency"] > 0.5 and told["shares"]["making"] < 0.05


def test_a_run_of_its_own_is_a_line_with_its_command(tmp_path):
    results = tmp_path / "lines.jsonl"
    told = [
        {"what": "costs", "kernel": 3, "costs": asdict(COSTS)},
        {"what": "overhead", "task_seconds": 0.004, "task_bytes": 1000, "summary_bytes": 500, "latency": 0.015},
    ]
    results.write_text("".join(json.dumps(one) + "\n" for one in told))
    arguments = ["--sites", "1e11", "--workers", "50", "--memory", "8GB", "--mtbf", "36000"]
    command = [sys.executable, FOLDER / "simulate.py", "--results", results, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    line = json.loads(results.read_text().splitlines()[-1])
    assert line["cluster"]["workers"] == 50 and line["cluster"]["mtbf"] == 36000 and "--sites 1e11" in line["command"]
    assert {"seconds", "efficiency", "shares", "sent", "received", "rounds", "commit", "machine"} <= line.keys()
