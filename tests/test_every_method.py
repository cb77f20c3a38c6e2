"""What every way for blocks to agree lives up to. A new one is one word in a list."""

import itertools
import pickle
import re
import threading
from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dope
from dope import Admm, Bracketing, Dask, Energy, Exact, Icm, InputError, MaxFlow, Method, Serial, Threads
from problems import energies, partitions
from profiles import examples, slow_but
from test_every_executor import ELSEWHERE, HERE, opened
from test_every_solver import SOLVERS, check_claims, minimum_of

# These promise the smallest minimiser wherever no weight is negative, whatever the blocks.
EXACT: list[Method] = [Exact(), Bracketing(), Bracketing(passes=1)]
METHODS: list[Method] = [
    *EXACT,
    Exact(rounds=1, merge=False),
    Bracketing(passes=1, memory=0),
    Admm(),
    Admm(bound=0),
    Admm.paper(),
    Admm.paper(mu0=500.0, rounds=10),
    Admm(penalty="all", patience=None),
]
# A refusal says what to do instead.
REMEDY = re.compile(r"[Uu]se |[Ll]eave |needs |expected |or None")

# Of methods that differ in a number alone, `make test` has one.
QUICK: list[Method] = [*EXACT[:2], Exact(rounds=1, merge=False), Bracketing(passes=1, memory=0), Admm(), Admm.paper()]

every_method = pytest.mark.parametrize("method", slow_but(METHODS, quick=QUICK), ids=str)
every_exact_method = pytest.mark.parametrize("method", EXACT, ids=str)


def solved(energy, method, **more):
    """The result, or None where the method refuses in a line what it was not made for."""
    try:
        return dope.minimize(energy, method=method, **{"executor": Serial(), **more})
    except InputError as error:
        refusal = str(error)
    assert REMEDY.search(refusal) and "\n" not in refusal, refusal
    return None


def refusal_of(energy, method, **more):
    """Why a method refuses, or None where it does not."""
    try:
        dope.minimize(energy, method=method, executor=Serial(), **more)
    except InputError as error:
        return str(error)
    return None


def blob(side=24, *, lam=1.5):
    """A noisy disc: some rounds of work for any method, and the same for all of them."""
    rng = np.random.default_rng(0)
    rows, columns = np.mgrid[-1 : 1 : side * 1j, -1 : 1 : side * 1j]
    unary = rng.normal(0, 2, (side, side)) + np.where(rows**2 + columns**2 < 0.5, -1.0, 1.0)
    return Energy.grid(unary, lam=lam, features=rng.normal(size=(side, side)), kernel=5)


def near_minimum(energy):
    """The least energy, and how far from it floating point may lead."""
    least = dope.minimize(energy, blocks=1, method=Exact(), executor=Serial()).energy
    return least, 1e-9 * (1 + abs(least))


def shown(step):
    """All that a step says but for the clock."""
    return {field.name: getattr(step, field.name) for field in fields(step) if field.name not in ("seconds", "tasks")}


def assert_same(one, other):
    np.testing.assert_array_equal(other.labels, one.labels)
    assert (other.energy, other.lower_bound, other.stopped) == (one.energy, one.lower_bound, one.stopped)
    np.testing.assert_equal([shown(step) for step in other.trace], [shown(step) for step in one.trace])


@every_method
@given(energy=energies(most=10), data=st.data())
@examples(50)
def test_no_method_beats_brute_force_and_exact_ones_reach_it(method, energy, data):
    best, near, smallest, _ = minimum_of(energy)
    result = solved(energy, method, blocks=data.draw(partitions(energy)))
    if result is None:
        return
    check_claims(energy, result, best, near)
    assert result.gap is None or result.gap == result.energy - result.lower_bound
    if method in EXACT:
        assert result.exact and result.stopped == "exact" and result.proved == 1.0
        if result.rounding_error == 0:
            np.testing.assert_array_equal(result.labels.ravel(), smallest)


@every_exact_method
@given(energy=energies(most=60), data=st.data())
@examples(40)
def test_exact_labels_are_the_same_whatever_the_blocks(method, energy, data):
    whole = dope.minimize(energy, blocks=1, method=Exact(), executor=Serial())
    result = solved(energy, method, blocks=data.draw(partitions(energy, overlaps=False)))
    if result is not None:
        np.testing.assert_array_equal(result.labels, whole.labels)
        assert result.energy == pytest.approx(whole.energy, rel=1e-12, abs=1e-9)


@every_method
@given(energy=energies(most=10, signed=True), data=st.data())
@examples(20)
def test_weights_of_any_sign_are_solved_or_refused(method, energy, data):
    best, near, *_ = minimum_of(energy)
    result = solved(energy, method, blocks=data.draw(partitions(energy, overlaps=False)))
    if result is not None:
        check_claims(energy, result, best, near)


@pytest.mark.parametrize("solver", SOLVERS, ids=str)
@every_method
@given(energy=energies(most=12))
@examples(6)
def test_one_block_gives_exactly_the_solvers_answer(method, solver, energy):
    result = solved(energy, method, blocks=1, solver=solver)
    if result is not None:
        np.testing.assert_array_equal(result.labels, solver.prepare(energy).minimize(energy.unary).labels)
        assert result.stopped in ("exact", "agreed")


@every_method
def test_every_method_takes_a_flow_solver_and_says_which_ones_it_does_not_take(method):
    energy = blob(8)
    assert solved(energy, method, solver=MaxFlow(check=True), blocks=4) is not None
    for solver in SOLVERS:
        words = refusal_of(energy, method, solver=solver, blocks=4)
        assert words is None or ("solver" in words and "MaxFlow()" in words)


@pytest.mark.parametrize("solver", [MaxFlow(), Icm()], ids=str)
@every_method
@given(energy=energies(most=24), data=st.data())
@examples(8)
def test_every_executor_gives_bit_for_bit_what_serial_gives(method, solver, energy, data):
    blocks = data.draw(partitions(energy, overlaps=data.draw(st.booleans())))
    serial = solved(energy, method, blocks=blocks, solver=solver)
    if serial is not None:
        for executor in HERE:
            assert_same(serial, solved(energy, method, blocks=blocks, solver=solver, executor=executor))


# Of Dask, `make test` has the same in test_dask.py, whose cluster is at work already.
@pytest.fixture(
    scope="module", params=slow_but(ELSEWHERE, quick=[e for e in ELSEWHERE if not isinstance(e, Dask)]), ids=str
)
def elsewhere(request):
    with opened(request.param) as executor:
        yield executor


@pytest.mark.parametrize("method", slow_but(METHODS, quick=[Exact(), Bracketing(), Admm()]), ids=str)
def test_every_executor_elsewhere_gives_bit_for_bit_what_serial_gives(method, elsewhere):
    energy = blob()
    here, there = (solved(energy, method, blocks=(2, 3), executor=one) for one in (Serial(), elsewhere))
    if there is None:
        return
    flows = isinstance(method, Admm) and method.bound > 0
    if not flows and (here.lower_bound is None or there.lower_bound is not None):
        assert_same(here, there)
    else:  # a bound that takes the flow of all blocks in one memory: what it decides is left open
        check_claims(energy, there, *near_minimum(energy))


@every_method
def test_a_watcher_sees_every_step_and_the_last_one_says_why(method):
    seen = []
    result = solved(blob(), method, blocks=(2, 3), watch=seen.append)
    told = [(step.round, step.energy, step.stopped) for step in result.trace]
    np.testing.assert_equal([(step.round, step.energy, step.stopped) for step in seen], told)
    assert [round_ for round_, *_ in told] == sorted(round_ for round_, *_ in told) and told[0][0] == 1
    assert [stopped for *_, stopped in told[:-1]] == [None] * (len(told) - 1) and told[-1][2] == result.stopped
    seconds = [step.seconds for step in result.trace]
    assert seconds == sorted(seconds) and seconds[0] >= 0
    for step in seen:
        if step.labels is not None:
            assert step.energy == pytest.approx(blob()(step.labels), rel=1e-12)
            with pytest.raises(ValueError, match="read-only"):
                step.labels[0, 0] = True


@every_method
def test_who_stops_a_run_gets_labels_and_a_true_bound(method):
    energy = blob()
    minimum = near_minimum(energy)
    rounds = len(solved(energy, method, blocks=(2, 3)).trace)
    for wanted in sorted({1, 2, rounds // 2, rounds - 1} & set(range(1, rounds))):
        answers = iter([False] * (wanted - 1) + [True])  # who is asked once more finds no answer
        result = solved(energy, method, blocks=(2, 3), watch=lambda _, answers=answers: next(answers))
        assert result.stopped == "cancelled"
        assert result.labels.dtype == np.bool_ and result.labels.shape == energy.shape
        check_claims(energy, result, *minimum)


@every_method
@pytest.mark.parametrize("executor", [Serial(), Threads(2)], ids=str)
def test_what_a_watcher_raises_is_raised_and_nobody_is_left_at_work(method, executor):
    def watch(_):
        raise KeyError("enough")

    with pytest.raises(KeyError, match="enough"):
        dope.minimize(blob(), blocks=(2, 3), method=method, executor=executor, watch=watch)
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("dope")]


@every_method
def test_an_energy_is_left_as_it_was_and_the_labels_are_the_callers_own(method):
    energy = blob()
    before = energy.unary.copy()
    first = solved(energy, method, blocks=(2, 3))
    labels = first.labels.copy()
    first.labels[...] = ~first.labels
    np.testing.assert_array_equal(energy.unary, before)
    np.testing.assert_array_equal(solved(energy, method, blocks=(2, 3)).labels, labels)


@every_method
def test_an_earlier_result_to_start_from_changes_no_promise(method):
    before, energy = solved(blob(lam=1.0), method, blocks=(2, 3)), blob()
    result = solved(energy, method, blocks=(2, 3), start=before)
    if result is not None:
        check_claims(energy, result, *near_minimum(energy))
        if method in EXACT:
            np.testing.assert_array_equal(result.labels, solved(energy, method, blocks=(2, 3)).labels)


@every_method
def test_every_method_survives_pickling(method):
    again = pickle.loads(pickle.dumps(method))
    assert again == method and hash(again) == hash(method) and repr(again) == repr(method)


LAZY = [method for method in METHODS if getattr(type(method), "reads_boxes", False)]


def mapped(folder, name, array):
    np.save(folder / f"{name}.npy", array)
    return np.load(folder / f"{name}.npy", mmap_mode="r")


def place_for_labels(kind, folder, shape):
    """Somewhere for labels to go, and how they are read from there."""
    if kind == "array":
        return np.zeros(shape, dtype=np.bool_)
    if kind == "mapped":
        return np.lib.format.open_memmap(folder / "out.npy", mode="w+", dtype=np.bool_, shape=shape)
    if kind == "zarr":
        return pytest.importorskip("zarr").create_array(folder / "out.zarr", shape=shape, chunks=(7, 5), dtype="bool")
    return None


# `make test` has a method of each kind, and each of them another place.
PLACED = [(Bracketing(), "new"), (Bracketing(passes=1, memory=0), "mapped"), (Admm(), "zarr"), (Admm.paper(), "array")]


@pytest.mark.parametrize(
    "placed", slow_but(itertools.product(LAZY, ["new", "array", "mapped", "zarr"]), quick=PLACED), ids=str
)
def test_arrays_elsewhere_give_what_arrays_in_memory_give(placed, tmp_path):
    (method, kind), held = placed, blob()
    far = Energy.grid(
        mapped(tmp_path, "unary", held.unary), features=mapped(tmp_path, "image", held.pairs.features[..., 0]),
        lam=1.5, kernel=5,
    )  # fmt: skip
    out = place_for_labels(kind, tmp_path, held.shape)
    expected = solved(held, method, blocks=(2, 3))
    result = solved(far, method, blocks=(2, 3), memory="4MB", out=out)
    assert result.plan.in_boxes
    assert (result.energy, result.stopped) == (expected.energy, expected.stopped)
    np.testing.assert_array_equal(result.labels, expected.labels)
    if out is not None:
        np.testing.assert_array_equal(out[...], expected.labels)
