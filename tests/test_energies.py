"""Energies from elsewhere: QUBO, Ising models and dimod's. Every labelling costs what the definition says."""

import sys

import dimod
import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

import dope
from dope import Energy, InputError
from problems import energies, rng_of
from profiles import examples

SOME = examples(50)


def labellings(number):
    return np.array(list(np.ndindex((2,) * number)))


def agrees(energy, cost):
    """Whether all labels cost what they should, but for rounding."""
    labels = labellings(energy.unary.size)
    np.testing.assert_allclose(
        [energy(x.reshape(energy.shape)) for x in labels], [cost(x) for x in labels], rtol=1e-9, atol=1e-9
    )


def costs_in(model):
    """What labels cost in a dimod model whose variables are numbers of sites."""
    order = list(model.variables)
    return lambda x: float(model.energies((x[order], order))[0])


@st.composite
def matrices(draw, most=4):
    """A symmetric matrix, or one of the triangles, some of its entries 0."""
    n = draw(st.integers(1, most))
    rng = rng_of(draw)
    matrix = rng.normal(0, 3, (n, n)) * (rng.random((n, n)) < 0.7)
    return draw(st.sampled_from([np.triu, np.tril, lambda m: m + m.T]))(matrix)


@SOME
@given(matrices(), st.sampled_from([np.asarray, scipy.sparse.csr_array, scipy.sparse.coo_array, np.ndarray.tolist]))
def test_a_qubo_costs_x_q_x(Q, form):
    agrees(Energy.from_qubo(form(Q), constant=1.5), lambda x: x @ Q @ x + 1.5)


@SOME
@given(st.dictionaries(st.tuples(st.integers(0, 3), st.integers(0, 3)), st.integers(-9, 9), min_size=1))
def test_all_entries_of_a_dict_count_as_in_dimod(entries):
    energy = Energy.from_qubo(entries)
    agrees(energy, lambda x: sum(value * x[i] * x[j] for (i, j), value in entries.items()))
    model = dimod.BinaryQuadraticModel.from_qubo(entries)
    agrees(energy, costs_in(model))


def test_a_sparse_entry_said_twice_adds_up():
    twice = scipy.sparse.coo_array(([1.0, 2.0, 3.0], ([0, 0, 1], [1, 1, 0])), shape=(2, 2))
    assert Energy.from_qubo(twice)([1, 1]) == 6.0


def test_a_matrix_symmetric_but_for_rounding_is_welcome():
    Q = np.array([[0.0, 1.0], [1.0 + 1e-12, 0.0]])
    assert Energy.from_qubo(Q)([1, 1]) == pytest.approx(2.0)


@SOME
@given(st.data())
def test_an_ising_model_costs_what_its_spins_do(data):
    J = data.draw(matrices())
    rng = rng_of(data.draw)
    np.fill_diagonal(J, 0)
    h = rng.normal(0, 2, len(J))
    pairs = {(i, j): max(J[i, j], J[j, i], key=abs) for i, j in zip(*np.triu_indices(len(J), 1), strict=True)}

    def cost(x):
        s = 2 * x - 1
        return h @ s + sum(value * s[i] * s[j] for (i, j), value in pairs.items()) - 2.5

    agrees(Energy.from_ising(h, J, constant=-2.5), cost)
    agrees(Energy.from_ising(h, scipy.sparse.csc_array(J), constant=-2.5), cost)
    agrees(Energy.from_ising(h, pairs, constant=-2.5), cost)
    agrees(Energy.from_ising(dict(enumerate(h.tolist())), pairs, constant=-2.5), cost)


@st.composite
def models(draw):
    rng = rng_of(draw)
    names = draw(st.lists(st.one_of(st.integers(-5, 5), st.text(max_size=3)), min_size=1, max_size=4, unique=True))
    pairs = [(a, b) for place, a in enumerate(names) for b in names[:place] if rng.random() < 0.7]
    kind = draw(st.sampled_from([dimod.BinaryQuadraticModel, dimod.Float32BQM, dimod.DictBQM]))
    linear = {name: float(np.float32(rng.normal())) for name in names}
    quadratic = {pair: float(np.float32(rng.normal())) for pair in pairs}
    return kind(linear, quadratic, float(rng.integers(-3, 4)), draw(st.sampled_from(["SPIN", "BINARY"])))


@SOME
@given(models())
def test_a_dimod_model_keeps_its_energies_there_and_back(model):
    energy = Energy.from_dimod(model)
    back = energy.to_dimod()
    low = -1 if model.vartype is dimod.SPIN else 0

    def cost(x):
        return float(model.energy(dict(zip(model.variables, np.where(x, 1, low).tolist(), strict=True))))

    agrees(energy, cost)
    agrees(energy, costs_in(back))


@SOME
@given(energies(most=5, signed=True))
def test_any_energy_becomes_a_dimod_model(energy):
    model = energy.to_dimod()
    assert list(model.variables) == list(range(energy.unary.size))
    agrees(energy, costs_in(model))


def test_an_energy_goes_to_a_sampler_of_dwave_and_back():
    energy = Energy.from_qubo(np.array([[-1.0, 2.0], [2.0, -3.0]]))
    best = dimod.ExactSolver().sample(energy.to_dimod()).first
    assert best.energy == energy([best.sample[0], best.sample[1]]) == dope.minimize(energy, solver=dope.Icm()).energy


BAD = {
    "different triangles": (lambda: Energy.from_qubo([[0, 1], [2, 0]]), r"np.triu\(Q\)"),
    "not square": (lambda: Energy.from_qubo([[0, 1, 2]]), "square matrix"),
    "no matrix": (lambda: Energy.from_qubo([1, 2]), "square matrix"),
    "sparse, not square": (lambda: Energy.from_qubo(scipy.sparse.csr_array(np.ones((1, 2)))), "square matrix"),
    "sparse, different triangles": (lambda: Energy.from_qubo(scipy.sparse.csr_array([[0, 1], [2, 0]])), "triangular"),
    "no sites": (lambda: Energy.from_qubo(np.zeros((0, 0))), "0 sites"),
    "an empty dict": (lambda: Energy.from_qubo({}), "0 sites"),
    "names": (lambda: Energy.from_qubo({("a", "b"): 1.0}), "from_dimod"),
    "a key alone": (lambda: Energy.from_qubo({0: 1.0}), "pair of integers"),
    "a negative key": (lambda: Energy.from_qubo({(0, -1): 1.0}), "pair of integers"),
    "a truth as key": (lambda: Energy.from_qubo({(True, 1): 1.0}), "pair of integers"),
    "a key beyond all bounds": (lambda: Energy.from_qubo({(0, 1 << 40): 1.0}), "pair of integers"),
    "text": (lambda: Energy.from_qubo({(0, 1): "much"}), "real numbers"),
    "complex": (lambda: Energy.from_qubo(np.ones((2, 2), complex)), "real numbers"),
    "NaN": (lambda: Energy.from_qubo([[np.nan]]), "nan"),
    "infinity in a dict": (lambda: Energy.from_qubo({(0, 0): np.inf}), "inf"),
    "beyond 2^53": (lambda: Energy.from_qubo([[2**53 + 1]]), "2.53"),
    "sums beyond float64": (lambda: Energy.from_qubo([[1.7e308, 1.7e308], [0, 0]]), "finite|float64"),
    "an infinite constant": (lambda: Energy.from_qubo([[1]], constant=np.inf), "constant is inf"),
    "too few fields": (lambda: Energy.from_ising([1.0], {(0, 1): 1.0}), "one field per site"),
    "too many fields": (lambda: Energy.from_ising([1.0, 1.0], [[0.0]]), "one field per site"),
    "fields in a matrix": (lambda: Energy.from_ising([[1.0]], [[0.0]]), "one field per site"),
    "a spin with itself": (lambda: Energy.from_ising([1.0, 1.0], {(1, 1): 2.0}), "site 1 with itself"),
    "a diagonal": (lambda: Energy.from_ising([1.0, 1.0], np.eye(2)), "with itself"),
    "couplings of two minds": (lambda: Energy.from_ising([0, 0], [[0, 1], [2, 0]]), r"J \+ J.T"),
    "spins beyond float64": (lambda: Energy.from_ising([1.7e308, 1.7e308], {}), "finite"),
    "no model": (lambda: Energy.from_dimod({(0, 1): 1.0}), "BinaryQuadraticModel"),
    "no variables": (lambda: Energy.from_dimod(dimod.BinaryQuadraticModel("SPIN")), "no variables"),
}


@pytest.mark.parametrize(("make", "words"), BAD.values(), ids=BAD.keys())
def test_bad_models_are_refused(make, words):
    with pytest.raises(InputError, match=words):
        make()


def test_what_is_passed_in_is_not_written_to():
    Q = np.array([[1.0, 2.0], [2.0, 3.0]])
    energy, before = Energy.from_qubo(Q), Q.copy()
    energy.unary[:] = 0
    np.testing.assert_array_equal(Q, before)


def test_without_dimod_the_message_has_the_command_that_helps(monkeypatch):
    monkeypatch.setitem(sys.modules, "dimod", None)
    with pytest.raises(dope.MissingExtraError, match=r"pip install 'dope\[dwave\]'"):
        Energy.graph([1.0], [], []).to_dimod()
