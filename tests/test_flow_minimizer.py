"""Flow minimizers: changed sites, both extreme minimizers, the minimum, faces, and memory that is used again."""

import threading
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dope
from dope import Energy, FlowMinimizer, Icm, InputError, MaxFlow, _core
from oracles import brute_force, edge_weight_matrix
from problems import energies, rng_of
from profiles import examples

GRID = np.array([[-3.0, 1.0, 2.0], [-2.0, -1.0, 2.0]])
widths = st.sampled_from([None, 16, 32, 64])


def answers(minimizer):
    return minimizer.value(), minimizer.labels().tolist(), minimizer.labels(largest=True).tolist()


def test_max_flow_offers_the_second_protocol_and_icm_does_not():
    offers: FlowMinimizer = MaxFlow().prepare(Energy.grid(GRID))  # mypy compares the types
    assert isinstance(offers, FlowMinimizer)
    assert not isinstance(Icm().prepare(Energy.grid(GRID)), FlowMinimizer)


@given(energies(most=10), widths)
def test_value_and_labels_are_what_brute_force_finds(energy, bits):
    best, smallest, largest = brute_force(energy.unary, edge_weight_matrix(energy))
    minimizer = MaxFlow(bits, check=True).prepare(energy)
    answer = minimizer.minimize(energy.unary)
    assert abs(minimizer.value() - best) <= minimizer.rounding_error + 1e-9 * (1 + abs(best))
    assert (minimizer.value(), minimizer.rounding_error) == (answer.bound, answer.rounding_error)
    np.testing.assert_array_equal(minimizer.labels(), answer.labels)
    if minimizer.rounding_error == 0.0:
        np.testing.assert_array_equal(minimizer.labels().ravel(), smallest)
        np.testing.assert_array_equal(minimizer.labels(largest=True).ravel(), largest)


@given(energies(most=60), widths, st.data())
def test_changing_some_sites_equals_minimizing_anew(energy, bits, data):
    rng = rng_of(data.draw)
    changed = MaxFlow(bits, check=True).prepare(energy)
    unary = np.array(energy.unary, dtype=np.float64)
    changed.minimize(unary)
    whole = changed.rounding_error == 0.0
    for _ in range(6):
        sites = rng.integers(0, unary.size, rng.integers(0, 4))
        values = rng.integers(-9, 10, len(sites)) / changed.scale if whole else rng.normal(0, 3, len(sites))
        unary.flat[sites] = values  # of a site listed twice the last value counts, as here
        try:
            changed.change(sites, values)
        except InputError:  # too large for this scale, which leaves few bits to what exceeds all pairs of a site
            assert not whole
            changed.minimize(unary)
        anew = MaxFlow(bits).prepare(energy)
        anew.minimize(unary)
        assert answers(changed) == answers(anew)


def test_a_fraction_among_whole_costs_needs_all_of_the_unary():
    energy = Energy.grid(GRID)
    minimizer = MaxFlow().prepare(energy)
    minimizer.minimize(GRID)
    before = answers(minimizer)
    with pytest.raises(InputError, match=r"no multiples of 1, .* Call minimize with the unary of all sites"):
        minimizer.change([0, 1], [4.0, 0.3])
    assert answers(minimizer) == before

    fractions = GRID.copy()
    fractions[0, 1] = 0.3
    assert minimizer.minimize(fractions).rounding_error > 0.0
    minimizer.change([1], [0.7])
    assert minimizer.value() == pytest.approx(energy(minimizer.labels()) - 0.3 * minimizer.labels()[0, 1])


@given(energies(most=20, integers=True), widths, st.data())
def test_an_answer_depends_on_its_unary_and_not_on_earlier_ones(energy, bits, data):
    rng = rng_of(data.draw)
    minimizer = MaxFlow(bits, check=True).prepare(energy)
    for _ in range(4):
        unary = energy.unary + rng.choice([0.0, 1.0, 0.3]) * rng.integers(-2, 3, energy.shape)
        answer, alone = minimizer.minimize(unary), MaxFlow(bits).prepare(energy).minimize(unary)
        np.testing.assert_array_equal(answer.labels, alone.labels)
        assert (answer.bound, answer.rounding_error) == (alone.bound, alone.rounding_error)


@given(energies(most=40), widths)
def test_bytes_are_known_before_anything_is_opened(energy, bits):
    solver = MaxFlow(bits)
    assert solver.bytes_needed(energy) == solver.prepare(energy).bytes


@given(st.lists(energies(most=24), min_size=2, max_size=4), widths)
@examples(50)
def test_a_reopened_minimizer_is_as_good_as_new(several, bits):
    solver = MaxFlow(bits, check=True)
    reused = solver.prepare(several[0])
    for energy in [*several, *several]:
        reused.reopen(energy)
        new = solver.prepare(energy)
        again, alone = reused.minimize(energy.unary), new.minimize(energy.unary)
        assert (again.bound, again.rounding_error) == (alone.bound, alone.rounding_error)
        assert answers(reused) == answers(new)
        assert (reused.scale, reused.bytes) == (new.scale, new.bytes)


def test_reopening_uses_the_memory_at_hand_where_it_can():
    rng = np.random.default_rng(0)
    unary, features, field = rng.normal(size=(3, 30, 40))
    minimizer = MaxFlow(bits=32, check=True).prepare(Energy.grid(unary, features=features))
    memory = minimizer._flow
    for energy in (
        Energy.grid(-unary),
        Energy.grid(unary, lam=9.0, features=field),
        Energy.grid(rng.integers(-9, 9, (30, 40))),
        Energy.grid(field, weights=[np.abs(features), 0, 1, np.abs(field)]),
    ):
        minimizer.reopen(energy)
        assert minimizer._flow is memory
        alone = MaxFlow(bits=32).prepare(energy).minimize(energy.unary)
        np.testing.assert_array_equal(minimizer.minimize(energy.unary).labels, alone.labels)
    for energy in (Energy.grid(unary, kernel=5), Energy.grid(unary[:, 1:])):
        minimizer.reopen(energy)
        assert minimizer._flow is not memory


def test_work_that_was_cancelled_can_be_done_again():
    rng = np.random.default_rng(1)
    energy = Energy.grid(rng.integers(-3, 4, (300, 300)), kernel=5)
    other = Energy.grid(rng.normal(size=(300, 300)), kernel=5, lam=0.2)
    minimizer = MaxFlow().prepare(energy)
    cancel = _core.Cancel()
    cancel.cancel()
    for work in (
        lambda: minimizer.minimize(energy.unary),
        lambda: minimizer.minimize(other.unary),
        lambda: minimizer.reopen(other),
    ):
        with cancel, pytest.raises(_core.Cancelled):
            work()
    alone = MaxFlow().prepare(other).minimize(other.unary)
    minimizer.reopen(other)
    np.testing.assert_array_equal(minimizer.minimize(other.unary).labels, alone.labels)


def test_a_minimizer_at_work_refuses_another_thread():
    rng = np.random.default_rng(2)
    energy = Energy.grid(rng.normal(size=(500, 500)), lam=30.0, features=rng.normal(size=(500, 500)), beta=0.1)
    minimizer, cancel = MaxFlow().prepare(energy), _core.Cancel()
    begun = threading.Event()

    def work():
        with cancel:
            begun.set()
            try:
                while True:
                    minimizer.minimize(energy.unary)
                    minimizer.minimize(-energy.unary)
            except _core.Cancelled:
                pass

    thread = threading.Thread(target=work)
    thread.start()
    begun.wait()
    refused = []
    try:
        for ask in (
            lambda: minimizer.minimize(energy.unary),
            lambda: minimizer.change([0], [1.0]),
            lambda: minimizer.reopen(energy),
            minimizer.labels,
            minimizer.value,
        ):
            for _ in range(1000):  # between two calls there is a moment in which nobody is at work
                try:
                    ask()
                except RuntimeError as error:
                    refused.append(str(error))
                    break
    finally:
        cancel.cancel()
        thread.join()
    assert len(refused) == 5
    assert all("at work in another thread: expected one thread at a time" in words for words in refused), refused
    np.testing.assert_array_equal(
        minimizer.minimize(energy.unary).labels, MaxFlow().prepare(energy).minimize(energy.unary).labels
    )


def test_a_check_that_fails_is_heard_after_every_solve(monkeypatch):
    class Wrong:
        def minimize(self, unary): ...
        def change(self, sites, unary): ...
        def check(self):
            raise RuntimeError("an open arc from a source to a sink")

    minimizer = MaxFlow(check=True).prepare(Energy.grid(GRID))
    monkeypatch.setattr(minimizer, "_flow", Wrong())
    with pytest.raises(RuntimeError, match="open arc"):
        minimizer.minimize(GRID)
    with pytest.raises(RuntimeError, match="open arc"):
        minimizer.change([0], [1.0])


@pytest.mark.parametrize(
    ("sites", "unary", "words"),
    [
        ([0, 6], [1.0, 1.0], ["sites[1] is 6", "0 to 5"]),
        ([-1], [1.0], ["sites[0] is -1", "0 to 5"]),
        ([[0, 1]], [[1.0, 1.0]], ["(1, 2)", "flat positions"]),
        ([0.5], [1.0], ["float64", "integers"]),
        (np.array([True]), [1.0], ["bool", "np.flatnonzero"]),
        ([0, 1], [1.0], ["(1,)", "(2,)"]),
        ([0], [np.nan], ["unary holds nan", "finite"]),
        ([0], [np.inf], ["unary holds inf", "finite"]),
        ([0], ["a"], ["dtype", "real numbers"]),
        ([0], [2.0**60], ["site 0", "the whole unary"]),
    ],
)
def test_change_refuses_and_changes_nothing(sites, unary, words):
    minimizer = MaxFlow().prepare(Energy.grid(GRID))
    minimizer.minimize(GRID)
    before = answers(minimizer)
    with pytest.raises(InputError) as error:
        minimizer.change(sites, unary)
    assert all(word in str(error.value) for word in words), str(error.value)
    assert answers(minimizer) == before


def test_max_flow_refuses_other_energies():
    solver = MaxFlow()
    minimizer = solver.prepare(Energy.grid(GRID))
    for ask in (solver.prepare, solver.bytes_needed, minimizer.reopen):
        with pytest.raises(InputError, match="-2"):
            ask(Energy.grid(GRID, weights=-2.0))
        with pytest.raises(InputError, match=r"ndarray; expected an Energy"):
            ask(GRID)


def test_a_grid_beyond_the_core_is_refused_before_anything_is_allocated():
    pairs = replace(Energy.grid(GRID).pairs, shape=(2**16, 2**16))
    for ask in (MaxFlow().bytes_needed, MaxFlow().prepare):
        with pytest.raises(InputError, match="smaller blocks"):
            ask(Energy(GRID, pairs))  # its unary is small: nobody looks at it


def test_what_needs_a_minimum_asks_for_one_first():
    minimizer = MaxFlow().prepare(Energy.grid(GRID))
    for ask in (minimizer.labels, minimizer.value, lambda: minimizer.change([0], [1.0])):
        with pytest.raises(RuntimeError, match="minimize"):
            ask()


@pytest.mark.parametrize(
    ("unary", "words"),
    [
        (np.array([[1.0, -np.inf]]), "holds -inf"),
        (np.array([[1.0, 2j]]), "dtype complex128"),
        (np.ma.masked_array([[1.0, 2.0]], [[True, False]]), "masked"),
        (np.array([["1", "2"]]), "expected real numbers"),
        (np.array([[2**64 - 1, 0]], dtype=np.uint64), "beyond 2\\^53"),
        (np.ones(2), r"shape \(2,\)"),
        (None, "dtype object"),
    ],
)
@pytest.mark.parametrize("lam", [1.0, 0.3])
def test_minimize_refuses_what_an_energy_refuses(unary, words, lam):
    minimizer = MaxFlow().prepare(Energy.grid(np.zeros((1, 2)), lam=lam))
    with pytest.raises(InputError, match=words):
        minimizer.minimize(unary)
    assert minimizer.minimize([[1, -3]]).labels.tolist() == [[False, True]]


@pytest.mark.parametrize("bits", ["16", 32.0, 8])
def test_bits_are_checked_at_once(bits):
    with pytest.raises(InputError, match="expected 16, 32 or 64"):
        MaxFlow(bits=bits)


def test_a_result_says_where_rounding_left_nothing():
    unary = np.array([[-1.0, 0.5]])
    assert "exact but for rounding" in repr(dope.minimize(Energy.grid(unary, lam=1e30)))
    assert "exact after" in repr(dope.minimize(Energy.grid(unary, lam=0.3)))


def test_a_sharpness_of_minus_zero_is_one_of_zero():
    pixels = np.arange(16, dtype=np.uint8).reshape(4, 4)
    unary = np.where(pixels < 8, -1.0, 1.0)
    plain, minus = (Energy.grid(unary, lam=0.3, features=pixels, beta=beta) for beta in (0.0, -0.0))
    assert dope.minimize(minus, blocks=2).energy == dope.minimize(plain, blocks=2).energy
