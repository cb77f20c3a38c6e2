"""ADMM over a board: the same bits wherever arrays lie, on any board and executor, and after any interruption."""

import contextlib
import itertools
import pickle
from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dope
from dope import (
    Admm,
    Energy,
    Icm,
    InputError,
    LsaTr,
    MaxFlow,
    MeanField,
    Partition,
    Problem,
    Qpbo,
    Serial,
    Threads,
    TrwS,
)
from dope.boards import FolderBoard, MemoryBoard
from dope.methods import shelf
from dope.methods.places import common, places_of, seen_from
from dope.methods.selection import Count, Sketch, bracket, median
from problems import energies, graphs, grids, members, partitions, rng_of
from profiles import examples, slow_but

METHODS = [Admm(bound=0), Admm.paper(), Admm(bound=0, penalty="all", patience=None, rounds=5, mu0=1.5)]
TINY = 1 << 10  # bytes of memory: no block stays open


class Elsewhere:
    """An array that is read by indexing alone."""

    def __init__(self, array):
        self.array, self.shape, self.dtype = array, array.shape, array.dtype

    def __getitem__(self, index):
        return self.array[index]


def unread(grid):
    """The same energy with its arrays elsewhere."""
    _, unary, arguments = grid
    named = ("features", "mask")
    far = {name: Elsewhere(array) if name in named else array for name, array in arguments.items()}
    return Energy.grid(Elsewhere(unary), **far)


def told(steps):
    """All that steps say but for the clock, who worked, and arrays."""
    left_out = {"seconds", "tasks"}
    names = [f.name for f in fields(steps[0]) if "large" not in f.metadata and f.name not in left_out]
    return [{name: getattr(step, name) for name in names} for step in steps]


def run(method, energy, partition, solver, *, executor=None, board=None, **more):
    """All steps, and the labels that they end with."""
    problem = Problem(energy, partition, solver, executor or Serial(), board=board or MemoryBoard(), **more)
    steps = list(method.steps(problem))
    best = steps[-1].best
    if best is not None:
        return told(steps), best.labels
    return told(steps), min((step for step in steps if step.labels is not None), key=lambda step: step.energy).labels


def assert_same(one, other):
    np.testing.assert_equal(other[0], one[0])
    np.testing.assert_array_equal(other[1], one[1])


@pytest.mark.parametrize("method", METHODS, ids=str)
@given(grid=grids(most=48), data=st.data())
@examples(30)
def test_arrays_elsewhere_give_the_trace_of_arrays_in_memory(method, grid, data, tmp_path_factory):
    partition = data.draw(partitions(grid[0]))
    solver = data.draw(st.sampled_from([MaxFlow(), Icm(), MeanField()]))
    expected = run(method, grid[0], partition, solver)
    for executor, memory in ((Serial(), TINY), (Threads(2), None)):
        assert_same(expected, run(method, unread(grid), partition, solver, executor=executor, memory=memory))
    folder = FolderBoard(tmp_path_factory.mktemp("board") / "kept")
    assert_same(expected, run(method, unread(grid), partition, solver, executor=Threads(2), board=folder))


@given(grid=grids(most=48, signed=True), data=st.data())
@examples(20)
def test_weights_of_any_sign_do_so_too(grid, data):
    partition = data.draw(partitions(grid[0]))
    solver = data.draw(st.sampled_from([LsaTr(), Qpbo(), Icm()]))
    method = data.draw(st.sampled_from(METHODS))
    expected = run(method, grid[0], partition, solver)
    assert_same(expected, run(method, unread(grid), partition, solver, memory=TINY))


@st.composite
def settings_of_admm(draw):
    """Any settings: with and without sweeps, a bound and the paper's penalty."""
    if draw(st.integers(0, 4)) == 0:
        return Admm.paper(mu0=draw(st.sampled_from([1.0, 100.0])))
    return Admm(
        mu0=draw(st.sampled_from(["auto", 0.7])),
        rounds=draw(st.integers(1, 4)),
        patience=draw(st.sampled_from([1, 4, None])),
        penalty=draw(st.sampled_from(["coupled", "all"])),
        sweeps=draw(st.integers(0, 3)),
        bound=draw(st.integers(0, 3)),
    )


SUBMODULAR_SOLVERS = [MaxFlow(), MaxFlow(bits=32), Icm(), MeanField(), Qpbo(), TrwS()]
SIGNED_SOLVERS = [LsaTr(), Qpbo(), TrwS(), Icm()]


@given(signed=st.booleans(), data=st.data())
@examples(40)
def test_every_admm_over_arrays_elsewhere_ends_like_the_one_in_memory(signed, data, tmp_path_factory):
    """Steps, labels and all that is claimed of them, bit for bit, however little memory there is."""
    grid = data.draw(grids(most=40, signed=signed))
    energy = grid[0]
    solver = data.draw(st.sampled_from(SUBMODULAR_SOLVERS if energy.submodular else SIGNED_SOLVERS))
    method, partition = data.draw(settings_of_admm()), data.draw(partitions(energy))
    expected = run(method, energy, partition, solver)
    assert_same(expected, run(method, unread(grid), partition, solver, memory=TINY))
    settings = {"method": method, "blocks": partition, "solver": solver, "executor": Serial()}
    here = dope.minimize(energy, **settings)
    there = dope.minimize(mapped(grid, tmp_path_factory.mktemp("arrays")), memory="1kB", **settings)
    assert there.plan.in_boxes and not here.plan.in_boxes
    np.testing.assert_equal(told(there.trace), told(here.trace))
    np.testing.assert_array_equal(there.labels, here.labels)
    for name in ("energy", "lower_bound", "proved", "exact", "rounding_error", "stopped"):
        assert getattr(there, name) == getattr(here, name), name


def mapped(grid, folder):
    """The same energy with its arrays in files, which are mapped."""
    _, unary, arguments = grid

    def stored(name, array):
        np.save(folder / f"{name}.npy", array)
        return np.load(folder / f"{name}.npy", mmap_mode="r")

    named = ("features", "mask")
    far = {name: stored(name, array) if name in named else array for name, array in arguments.items()}
    return Energy.grid(stored("unary", unary), **far)


@given(energy=energies(most=40), data=st.data())
@examples(20)
def test_both_boards_give_the_same(energy, data, tmp_path_factory):
    """Of grids and of graphs, whose arrays are in memory."""
    partition = data.draw(partitions(energy))
    method, solver = data.draw(st.sampled_from(METHODS)), data.draw(st.sampled_from([MaxFlow(), Icm()]))
    folder = FolderBoard(tmp_path_factory.mktemp("board") / "kept")
    assert_same(run(method, energy, partition, solver), run(method, energy, partition, solver, board=folder))


@given(grid=grids(most=30), data=st.data())
@examples(15)
def test_labels_to_start_with_lie_on_the_board(grid, data):
    energy, partition = grid[0], data.draw(partitions(grid[0]))
    start = dope.protocols.Start(rng_of(data.draw).random(energy.shape) < 0.5)
    for method in METHODS:
        expected = run(method, energy, partition, Icm(), start=start)
        assert_same(expected, run(method, unread(grid), partition, Icm(), start=start, memory=TINY))


class UnpluggedError(Exception):
    """Somebody pulled the plug."""


class Stopping:
    """A solver that is interrupted after so many calls."""

    def __init__(self, solver, calls):
        self.solver, self.left = solver, itertools.count(calls, -1)

    def prepare(self, energy):
        minimizer, stopping = self.solver.prepare(energy), self

        class Counted:
            def minimize(self, unary, *, start=None):
                if next(stopping.left) <= 0:
                    raise UnpluggedError
                return minimizer.minimize(unary, start=start)

        return Counted()


def interrupted(method, energy, partition, folder, calls):
    """Begin a run that is interrupted in the middle of a round, or of a sweep."""
    board = FolderBoard(folder)
    with pytest.raises(UnpluggedError):
        run(method, energy, partition, Stopping(Icm(), calls), board=board)


class Plain(Stopping):
    """The same where nobody interrupts."""

    def __init__(self, solver):
        super().__init__(solver, 1 << 40)


Plain.__qualname__ = Stopping.__qualname__  # the manifest has its name


@pytest.mark.parametrize("method", METHODS, ids=str)
@pytest.mark.parametrize("overlap", [0.0, 0.3])
@pytest.mark.parametrize("calls", slow_but([0, 3, 6, 9, 17], quick=[3, 17]))
def test_a_run_that_was_interrupted_anywhere_goes_on_to_the_same_trace(method, overlap, calls, tmp_path):
    rng = np.random.default_rng(calls)
    unary = rng.normal(size=(12, 14)) - 0.1
    energy, far = Energy.grid(unary, lam=0.4), Energy.grid(Elsewhere(unary), lam=0.4)
    partition = Partition.grid(unary.shape, (2, 3), overlap=overlap)
    expected = run(method, energy, partition, Icm())
    for k, one in enumerate((energy, far)):
        folder = tmp_path / f"kept-{k}"
        with contextlib.suppress(pytest.fail.Exception):  # it needed fewer calls
            interrupted(method, one, partition, folder, calls)
        again = run(method, one, partition, Plain(Icm()), board=FolderBoard(folder, resume=True), memory=TINY)
        assert_same(expected, again)


@pytest.mark.parametrize("wanted", [1, 2, 3, 5])
def test_a_run_that_ended_after_any_round_goes_on_to_the_same_trace(wanted, tmp_path):
    unary = np.random.default_rng(3).normal(size=(18, 20))
    energy, method = Energy.grid(unary, lam=0.5, kernel=5), Admm(bound=0, patience=None, eps=0.0, rounds=4)
    settings = {"blocks": (2, 2), "overlap": 0.2, "method": method, "executor": Serial()}
    expected = dope.minimize(energy, **settings)

    def watch(step):
        if step.round == wanted:
            raise UnpluggedError

    with pytest.raises(UnpluggedError):
        dope.minimize(energy, checkpoint=tmp_path / "kept", watch=watch, **settings)
    again = dope.minimize(energy, resume=tmp_path / "kept", **settings)
    np.testing.assert_equal(told(again.trace), told(expected.trace))
    np.testing.assert_array_equal(again.labels, expected.labels)
    assert again.energy == expected.energy
    # A file of the last round is damaged: what it followed from is still there.
    newest = max((tmp_path / "kept").glob("measure-*"))
    (newest / "00001").write_bytes(b"rubbish")
    again = dope.minimize(energy, resume=tmp_path / "kept", **settings)
    np.testing.assert_equal(told(again.trace), told(expected.trace))
    np.testing.assert_array_equal(again.labels, expected.labels)


def test_only_the_rounds_that_are_needed_stay_on_the_board(tmp_path):
    unary = np.random.default_rng(3).normal(size=(18, 20))
    method = Admm(bound=0, patience=None, eps=0.0, rounds=8, sweeps=0)
    energy = Energy.grid(unary, lam=0.5)
    result = dope.minimize(energy, blocks=4, method=method, checkpoint=tmp_path / "kept", executor=Serial())
    best = min(result.trace, key=lambda step: float(step.energy or 0.0)).round
    kept = {path.name for path in (tmp_path / "kept").iterdir() if path.is_dir() and any(path.iterdir())}
    assert {name for name in kept if name.startswith("solve")} <= {"solve-0007", "solve-0008"}
    measured = {name for name in kept if name.startswith("measure")}
    assert measured <= {"measure-0007", "measure-0008", f"measure-{best:04}"}


def test_a_folder_of_other_settings_is_refused(tmp_path):
    unary = np.random.default_rng(0).normal(size=(10, 10))
    energy = Energy.grid(unary, lam=0.5)
    settings = {"blocks": 4, "method": Admm.paper(), "executor": Serial()}
    dope.minimize(energy, checkpoint=tmp_path / "kept", **settings)
    others: list[tuple[dict[str, object], str]] = [
        ({"method": Admm.paper(mu0=7.0)}, "method"),
        ({"overlap": 0.4}, "overlap"),
        ({"solver": Icm()}, "solver"),
        ({"blocks": 2}, "blocks"),
    ]
    for other, name in others:
        with pytest.raises(InputError, match=name):
            dope.minimize(energy, resume=tmp_path / "kept", **{**settings, **other})
    with pytest.raises(InputError, match="weights"):
        dope.minimize(energy.scaled(2.0), resume=tmp_path / "kept", **settings)
    with pytest.raises(InputError, match="arrays"):
        dope.minimize(replace(energy, unary=unary + 1.0), resume=tmp_path / "kept", **settings)


@pytest.mark.parametrize("kind", ["new", "array"])
def test_who_leaves_a_run_in_boxes_gets_its_best_labels(kind):
    unary = np.random.default_rng(3).normal(size=(18, 20))
    far, out = Energy.grid(Elsewhere(unary), lam=0.5), np.ones(unary.shape, dtype=bool) if kind == "array" else None
    method = Admm(bound=0, patience=None, eps=0.0)
    seen = []

    def watch(step):
        seen.append(step)
        return len(seen) == 3

    result = dope.minimize(far, blocks=4, method=method, memory="1kB", watch=watch, out=out)
    assert result.plan.in_boxes and result.stopped == "cancelled"
    assert result.energy == pytest.approx(min(step.energy for step in seen))
    assert Energy.grid(unary, lam=0.5)(result.labels) == result.energy
    assert out is None or np.array_equal(out, result.labels)


def test_what_fits_into_memory_is_read_first_and_the_rest_is_read_in_boxes():
    unary = np.random.default_rng(0).normal(size=(40, 40))
    far = Energy.grid(Elsewhere(unary), lam=0.5)
    assert not dope.plan(far, method=Admm(), blocks=4).in_boxes
    small = dope.plan(far, method=Admm(), blocks=4, overlap=0.1, memory="1MB")
    assert small.in_boxes and small.partition.overlaps
    assert dope.plan(far, overlap=0.1, memory="211MB").in_boxes is False
    default = dope.plan(far, overlap=0.1, blocks=4, memory="1MB")
    assert default.in_boxes and isinstance(default.method, Admm)
    both = Energy.grid(Elsewhere(unary), weights=[1.0, -1.0], kernel=[(0, 1), (1, 0)])
    signed = dope.plan(both, memory="1MB", blocks=4)
    assert signed.in_boxes and signed.partition.overlaps and isinstance(signed.method, Admm)


@given(st.lists(st.lists(st.floats(0, 1e6), max_size=40), min_size=1, max_size=5), st.sampled_from(["<f8", "<f4"]))
def test_medians_of_blocks_are_those_of_all_numbers(lists, kind):
    blocks = [np.sort(np.array(numbers, dtype=kind).astype(np.float64)) for numbers in lists]
    together = np.concatenate(blocks)
    if len(together):
        low, high = bracket([Sketch.of(numbers) for numbers in blocks])
        counts = [Count.of(numbers, low, high) for numbers in blocks]
        assert median(counts, len(together), kind=kind) == float(np.median(together.astype(kind)))


def test_a_median_of_many_numbers_counts_few_of_them():
    rng = np.random.default_rng(0)
    blocks = [np.sort(rng.normal(size=20_000)) for _ in range(9)]
    low, high = bracket([Sketch.of(numbers) for numbers in blocks])
    counts = [Count.of(numbers, low, high) for numbers in blocks]
    assert median(counts, 180_000) == np.median(np.concatenate(blocks))
    assert sum(len(count.values) for count in counts) < 180_000 / 200


@given(energies(most=40), st.data())
def test_the_blocks_that_meet_a_place_are_found_without_a_look_at_all(energy, data):
    partition = data.draw(partitions(energy))
    numbers = np.arange(energy.unary.size).reshape(energy.shape)
    for kind in ("where", "owned", "region"):
        places = places_of(energy.pairs, partition, kind)
        sites = [set(numbers[places[k]].ravel().tolist()) for k in range(len(places))]
        assert len(places) == len(partition.blocks)
        for k in range(len(places)):
            met = [j for j in range(len(places)) if sites[j] & sites[k]]
            assert places.meeting(places[k]) == met
            for j in met:
                both = common(places[j], places[k])
                assert set(numbers[both].ravel().tolist()) == sites[j] & sites[k]
                np.testing.assert_array_equal(numbers[places[k]][seen_from(both, places[k])], numbers[both])
        if kind == "where":
            assert [sorted(one) for one in sites] == [sorted(one.tolist()) for one in members(partition)]


@given(graphs(most=30), st.data())
@examples(10)
def test_blocks_of_a_graph_take_along_their_own_edges_only(energy, data):
    partition = data.draw(partitions(energy))
    for k in range(len(partition.blocks)):
        sent = pickle.dumps(energy.unread_excerpt(partition, k))
        here, there = energy.excerpt(partition, k), pickle.loads(sent).read()
        assert there.energy.pairs.sites == len(there.place)
        np.testing.assert_array_equal(there.energy.unary, here.energy.unary)
        np.testing.assert_array_equal(there.energy.pairs.weights, here.energy.pairs.weights)


def test_blocks_in_turn_keep_their_place_on_the_shelf():
    for k in range(4):
        shelf.put(("test", k), k, size=10, room=25, in_turn=True)
    assert [shelf.take(("test", k)) for k in range(4)] == [0, 1, None, None]
    for k in range(4):
        shelf.put(("test", k), k, size=10, room=25)
    assert [shelf.take(("test", k)) for k in range(4)] == [None, None, 2, 3]
