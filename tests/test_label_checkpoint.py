"""Several labels box by box: what a folder keeps, and how a run goes on from it; bounds within boxes."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import dope
from dope import InputError, LabelEnergy
from label_problems import minimizers

# So little that what is open is moved box by box.
LITTLE = "2MB"
SCRIPT = """
import sys, time
import numpy as np
import dope
energy = dope.LabelEnergy.grid(np.load(sys.argv[1]), lam=20.0, kernel=3)
dope.minimize(energy, blocks=4, memory="2MB", checkpoint=sys.argv[2], watch=lambda step: time.sleep(0.2))
"""


def noise(seed=0, shape=(40, 51, 5)):
    return np.random.default_rng(seed).integers(0, 100, shape).astype(float)


def noisy(seed=0, lam=20.0):
    return LabelEnergy.grid(noise(seed), lam=lam, kernel=3)


@pytest.fixture(scope="module")
def whole():
    return dope.minimize(noisy(), blocks=4, memory=LITTLE)


@pytest.mark.parametrize("steps", [2, 4, 6, 8])
def test_a_run_that_is_left_goes_on_to_the_same_labels(tmp_path, whole, steps):
    seen = []

    def leave(step):
        seen.append(step)
        return len(seen) == steps

    left = dope.minimize(noisy(), blocks=4, memory=LITTLE, checkpoint=tmp_path / "kept", watch=leave)
    assert left.stopped == "cancelled" and {one.doing for one in seen} <= {"prove", "sweep"}
    again = dope.minimize(noisy(), memory=LITTLE, resume=tmp_path / "kept")
    assert again.stopped == whole.stopped and np.array_equal(again.labels, whole.labels)
    assert (again.energy, again.lower_bound, again.proved) == (whole.energy, whole.lower_bound, whole.proved)
    assert dope.minimize(noisy(), memory=LITTLE, resume=tmp_path / "kept").energy == whole.energy


def test_a_run_that_is_killed_goes_on(tmp_path, whole):
    np.save(tmp_path / "costs.npy", noise())
    killed = subprocess.Popen([sys.executable, "-c", SCRIPT, str(tmp_path / "costs.npy"), str(tmp_path / "kept")])
    until = time.monotonic() + 60
    while not (tmp_path / "kept" / "journal" / "00003").exists() and killed.poll() is None:
        assert time.monotonic() < until
        time.sleep(0.01)
    os.kill(killed.pid, signal.SIGKILL)
    killed.wait()
    steps = []
    again = dope.minimize(noisy(), memory=LITTLE, resume=tmp_path / "kept", watch=steps.append)
    assert np.array_equal(again.labels, whole.labels) and again.energy == whole.energy


def test_what_is_proved_is_kept_too(tmp_path):
    truth = np.zeros((24, 30), dtype=int)
    truth[:, 10:], truth[12:, 20:] = 1, 2
    costs = 3.0 * (truth[..., None] != np.arange(3)) + np.random.default_rng(1).random((24, 30, 3))
    energy = LabelEnergy.grid(costs, lam=0.5)
    memory = dope.minimize(energy)
    left = dope.minimize(energy, blocks=4, checkpoint=tmp_path / "kept", watch=lambda step: step.label == 1)
    assert left.stopped == "cancelled"
    again = dope.minimize(energy, resume=tmp_path / "kept")
    assert memory.exact and again.exact and np.array_equal(again.labels, memory.labels)


def test_a_damaged_post_is_made_again(tmp_path, whole):
    dope.minimize(noisy(), blocks=4, memory=LITTLE, checkpoint=tmp_path / "kept")
    (post, *_) = sorted(tmp_path.glob("kept/labels-*/000002"))
    post.write_bytes(post.read_bytes()[:-3])
    assert np.array_equal(dope.minimize(noisy(), memory=LITTLE, resume=tmp_path / "kept").labels, whole.labels)


@pytest.mark.parametrize(
    ("other", "differs"),
    [
        (noisy(seed=1), "arrays"),
        (noisy(lam=21.0), "weights"),
        (LabelEnergy.grid(noise(), lam=20.0, kernel=3, metric="linear"), "metric"),
    ],
)
def test_a_folder_of_something_else_is_refused(tmp_path, other, differs):
    dope.minimize(noisy(), blocks=4, memory=LITTLE, checkpoint=tmp_path / "kept")
    with pytest.raises(InputError, match=f"checkpoint of something else, its .*{differs}"):
        dope.minimize(other, memory=LITTLE, resume=tmp_path / "kept")
    with pytest.raises(InputError, match="something else"):
        dope.minimize(dope.Energy.grid(noise()[..., 0]), resume=tmp_path / "kept")
    assert json.loads((tmp_path / "kept" / "manifest.json").read_text())["labels"] == 5


def test_tables_that_differ_in_one_number_are_not_the_same_problem(tmp_path):
    table = np.abs(np.subtract.outer(np.arange(40.0), np.arange(40.0)))
    other = table.copy()
    other[20, 19] = other[19, 20] = 1.5
    costs = np.random.default_rng(0).random((6, 7, 40))
    dope.minimize(LabelEnergy.grid(costs, metric=table), blocks=4, checkpoint=tmp_path / "kept")
    with pytest.raises(InputError, match="its metric differs"):
        dope.minimize(LabelEnergy.grid(costs, metric=other), resume=tmp_path / "kept")


def test_messages_alone_keep_no_folder(tmp_path):
    with pytest.raises(InputError, match="keeps no checkpoint"):
        dope.minimize(noisy(), solver=dope.LabelTrwS(), checkpoint=tmp_path / "kept")


def test_a_graph_keeps_no_folder(tmp_path):
    graph = LabelEnergy.graph(np.zeros((3, 3)), [[0, 1]], [1.0])
    with pytest.raises(InputError, match="on a graph are not kept"):
        dope.minimize(graph, checkpoint=tmp_path / "kept")
    assert not (tmp_path / "kept").exists()


def test_messages_within_boxes_bound_what_is_moved_box_by_box(whole):
    without = dope.minimize(noisy(), blocks=4, memory=LITTLE, method=dope.Moves(bound=0))
    memory = dope.minimize(noisy())
    assert without.lower_bound < whole.lower_bound <= memory.energy <= whole.energy
    assert whole.energy - whole.lower_bound < 0.2 * (without.energy - without.lower_bound)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("seed", range(8))
def test_bounds_within_boxes_are_bounds(tmp_path, seed, sign):
    rng = np.random.default_rng(seed)
    costs = rng.random((3, 4, 3)) if seed % 2 else rng.integers(0, 4, (3, 4, 3)).astype(float)
    metric = ("potts", "linear", "quadratic")[seed % 3]
    energy = LabelEnergy.grid(costs, lam=sign * rng.random(), kernel=3, metric=metric)
    found = dope.minimize(energy, blocks=4, memory="1kB", checkpoint=tmp_path / "kept")
    swept = "sweep" in {step.doing for step in found.trace}
    assert found.plan.in_boxes and (swept or energy.is_metric)  # cuts may have proved all of a metric
    least = minimizers(energy)[0]  # a sum of floats, itself rounded
    assert found.lower_bound <= least + found.rounding_error + 1e-12 and least <= found.energy + 1e-12
