"""Steps: each method has a type of its own, and all of them are written down in one way."""

import dataclasses
import json
import math
from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import pytest

import dope
from dope.cli.record import trace_of
from dope.cli.trace import line_of
from dope.partition import Partition
from dope.protocols import Leave, Problem
from dope.steps import LARGE, BlockTask, BracketingStep, Step, Tasks, plain, slim

TYPES = {dope.Exact(): dope.ExactStep, dope.Admm(): dope.AdmmStep, dope.Bracketing(): dope.BracketingStep}
BEFORE = {  # names that files have of every method
    "--json": {"round", "sweep", "energy", "lower_bound", "residual", "disagreeing", "proved", "groups", "seconds"},
    "--trace": {"round", "sweep", "seconds", "energy", "lower_bound", "proved", "disagreeing", "stopped"},
}


def energy_of(shape=(24, 30), seed=0):
    return dope.Energy.grid(np.random.default_rng(seed).normal(size=shape), lam=0.6)


@pytest.fixture(scope="module", params=TYPES, ids=lambda method: type(method).__name__)
def ran(request):
    """The type that steps are to have, all steps as they were shown, and the result."""
    steps = []
    found = dope.minimize(energy_of(), blocks=(2, 3), method=request.param, executor=dope.Serial(), watch=steps.append)
    return TYPES[request.param], steps, found


def large(step):
    return {one.name for one in dataclasses.fields(step) if "large" in one.metadata}


def test_a_method_yields_its_own_type(ran):
    kind, steps, result = ran
    assert {type(step) for step in steps} == {kind} and {type(step) for step in result.trace} == {kind}
    assert all(step.energy is None or math.isfinite(step.energy) for step in steps)
    assert steps[-1].energy is not None


def test_a_trace_holds_nothing_large(ran):
    _, steps, result = ran
    assert result.trace == tuple(slim(step) for step in steps)
    assert any(step.labels is not None for step in steps)
    for step in result.trace:
        assert all(getattr(step, name) is None for name in large(step))
        assert not any(isinstance(value, np.ndarray) for value in vars(step).values())


def test_a_step_in_plain_values_has_all_else(ran):
    for step in ran[1]:
        told = json.loads(json.dumps(plain(step), allow_nan=False))
        assert set(told) == {one.name for one in dataclasses.fields(step)} - large(step)
        assert told["energy"] == step.energy and told["lower_bound"] == step.lower_bound


def test_files_keep_their_names(ran):
    for step, record in zip(ran[2].trace, trace_of(ran[2]), strict=True):
        line = line_of(step, 1.0)
        assert record.keys() >= BEFORE["--json"] and line.keys() >= BEFORE["--trace"]
        for told in (record, line):
            json.dumps(told, allow_nan=False)
            assert told["sweep"] == getattr(step, "sweep", 0)
        assert ("timeline" in line) == isinstance(step, dope.AdmmStep | BracketingStep)


@pytest.mark.parametrize("method", [dope.Bracketing(), dope.Admm()])
def test_a_trace_line_tells_who_did_what(method):
    result = dope.minimize(energy_of(), blocks=(2, 3), method=method, executor=dope.Serial())
    for step in result.trace:
        line = line_of(step, 100.0)
        assert line["tasks"] == len(step.tasks.done) == len(line["timeline"])
        assert line["bytes_sent"] == step.tasks.bytes_sent and line["bytes_received"] == step.tasks.bytes_received
        (spent,) = line["workers"].values()
        assert sum(spent.values()) == pytest.approx(100.0, abs=1e-3)
        for task, told in zip(step.tasks.done, line["timeline"], strict=True):
            assert told == pytest.approx(dataclasses.asdict(task), abs=1e-6)


@pytest.mark.parametrize("method", [dope.Bracketing(passes=2), dope.Bracketing(passes=1, memory=0)])
def test_tasks_tell_what_was_asked_of_which_boxes(method):
    energy = energy_of((40, 44))
    partition = Partition.grid(energy.shape, (2, 2))
    labels = np.zeros(energy.shape, dtype=bool)
    steps = list(method.steps(Problem(energy, partition, dope.MaxFlow(), dope.Serial(), target=labels)))
    kinds = [list(dict.fromkeys(task.kind for task in step.tasks.done)) for step in steps]
    assert kinds[0] == ["measure", "prove"]
    assert kinds[-1][-1] == "finish"
    assert all(set(kind) <= {"prove"} or set(kind) <= {"flow", "walls"} for kind in kinds[1:-1])
    assert set(kinds[-1]) <= {"reach", "finish"}
    sizes = [labels[block.where].size for block in partition.blocks]
    for step in steps:
        for task in step.tasks.done:
            whole = task.kind in ("measure", "finish") or step.round == 1
            assert task.sites == sizes[task.block] if whole else task.sites > 0
            assert task.sites < task.region <= energy.unary.shape[0] * energy.unary.shape[1]
            assert (task.sent == 0) == (task.kind == "measure" or (task.kind == "prove" and step.round == 1))
            assert (task.received > 0) == (task.kind != "measure")
            assert task.begun <= task.ended and task.read + task.solve + task.write <= task.seconds + 0.01
    assert steps[-1].counts == (int((~labels).sum()), int(labels.sum()))
    assert all(step.counts is None and step.energy is None for step in steps[:-1])


def admm_tasks(steps):
    """How often blocks were asked for what, step by step."""
    return [dict(Counter(task.kind for task in step.tasks.done)) for step in steps]


@pytest.mark.parametrize("boxes", [False, True])
@pytest.mark.parametrize("overlap", [0, 0.2])
def test_tasks_of_admm_tell_what_was_asked_of_which_blocks(boxes, overlap):
    energy = energy_of((40, 44))
    partition = Partition.grid(energy.shape, (2, 2), overlap=overlap)
    target = np.zeros(energy.shape, dtype=bool) if boxes else None
    problem = Problem(energy, partition, dope.MaxFlow(), dope.Threads(2), target=target)
    steps = list(dope.Admm(sweeps=2).steps(problem))
    told = admm_tasks(steps)
    rounds = [kinds for step, kinds in zip(steps, told, strict=True) if not step.sweep]
    assert rounds[0] == {"survey": 8, "solve": 4, "measure": 4}
    assert all(kinds == {"solve": 4, "measure": 4} for kinds in rounds[1:])
    weighed, finished = ({"weigh": 4}, {"weigh": 8}) if boxes else ({}, {})
    shifted = len(partition.shifted().blocks)
    assert told[-2] == {"sweep": shifted} | weighed
    bounds = told[-1].pop("bound")  # a round before any push, at most two after one, and where the flows are shown
    assert bounds in range(4, 13 if boxes else 17, 4)
    assert told[-1] == {"sweep": 4, "facts": 4, "adopt": 4} | finished
    for step in steps:
        for task in step.tasks.done:
            if task.kind == "adopt":  # which needs no neighbours
                assert task.sites == task.region
                continue
            if not step.sweep:
                assert task.sites == energy.unary[partition.blocks[task.block].where].size
                assert (task.sent == 0) == (task.kind == "survey" or (task.kind == "solve" and step.round == 1))
            assert 0 < task.sites < task.region <= energy.unary.size
            assert task.begun <= task.ended and task.read + task.solve + task.write <= task.seconds + 0.01


def test_tasks_of_admm_are_told_once_where_somebody_leaves():
    energy = energy_of((40, 44))
    target = np.zeros(energy.shape, dtype=bool)
    steps = dope.Admm().steps(
        Problem(energy, Partition.grid(energy.shape, (2, 2)), dope.MaxFlow(), dope.Serial(), target=target)
    )
    first, last = next(steps), steps.throw(Leave())
    assert last.stopped == "cancelled" and last.round == first.round == 1
    assert admm_tasks([first, last]) == [{"survey": 8, "solve": 4, "measure": 4}, {"weigh": 4}]


def test_what_was_resumed_was_not_done_again(tmp_path):
    energy, said = energy_of((40, 44)), {"blocks": (2, 2), "executor": dope.Serial()}
    whole = dope.minimize(energy, method=dope.Admm(), checkpoint=tmp_path / "run", **said)
    again = dope.minimize(energy, method=dope.Admm(), resume=tmp_path / "run", **said)
    assert "facts" in admm_tasks(whole.trace)[0] and "solve" in admm_tasks(whole.trace)[0]
    assert {kind for kinds in admm_tasks(again.trace) for kind in kinds} <= {"facts"}
    assert [step.energy for step in again.trace] == [step.energy for step in whole.trace]


@dataclass(frozen=True)
class OwnStep(Step):
    """What somebody else's method may tell."""

    heat: float = math.inf
    pair: tuple[int, float] = (1, math.nan)
    map: np.ndarray | None = None
    cells: object = field(default=None, metadata=LARGE)


def test_steps_of_other_methods_are_written_down_as_well():
    step = OwnStep(np.int64(3), np.float32(0.5), map=np.zeros(4), cells=[1, 2], proved=math.nan)
    told = plain(step)
    assert told["round"] == 3 and told["energy"] == 0.5 and told["pair"] == [1, None]
    assert told["heat"] is None and told["proved"] is None and not told.keys() & {"map", "cells", "labels"}
    json.dumps(told, allow_nan=False)
    assert slim(step).cells is None and type(slim(step)) is OwnStep


@dataclass(frozen=True)
class Undecided:
    """A method that computes no energy, or that of some rounds only."""

    energies: tuple[float | None, ...]

    def steps(self, problem):
        for number, energy in enumerate(self.energies, start=1):
            labels = np.zeros(problem.energy.shape, dtype=bool)
            labels.flat[0 : number - 1] = True
            yield Step(number, energy, labels, stopped="done" if number == len(self.energies) else None)


@pytest.mark.parametrize(
    ("energies", "chosen"),
    [((None, None, None), 3), ((None, 4.0, None), 2), ((5.0, None, 4.0), 3), ((4.0, None, 5.0), 1)],
)
def test_of_labels_without_an_energy_the_later_are_taken_and_those_with_one_before_them(energies, chosen):
    result = dope.minimize(energy_of((5, 6)), blocks=2, method=Undecided(energies))
    assert int(result.labels.sum()) == chosen - 1
    assert [step.energy for step in result.trace] == list(energies)


def test_what_an_executor_counted_is_told_in_full_only():
    @dataclass
    class Counts:
        opened: int = 2
        seconds: dict = field(default_factory=dict)

    step = BracketingStep(1, None, tasks=Tasks((BlockTask(0, "a", 1.0, 2.0, math.nan, -1.0, 0.25),), Counts()))
    assert "statistics" not in plain(step)["tasks"] and plain(step)["tasks"]["read_seconds"] == 0.0
    assert plain(step, full=True)["tasks"]["statistics"] == {"opened": 2}
    assert line_of(step, 1.0)["sent_by_executor"] == {"opened": 2}
