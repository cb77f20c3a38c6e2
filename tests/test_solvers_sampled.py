"""Anneal and Tabu: what comes back from dwave-samplers, and energies that are known to be low."""

import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dope
from dope import Anneal, Brute, Energy, InputError, MissingExtraError, Tabu
from dope.models.curvature import curvature
from dope.models.deconvolution import deconvolution
from dope.solvers.parts.spins import Spins
from problems import energies, rng_of
from profiles import examples

pytest.importorskip("dwave.samplers")

SAMPLED = [Anneal(sweeps=50), Anneal(sweeps=1, reads=3, seed=5), Tabu(restarts=0), Tabu(restarts=1, seed=2)]

# Of maximising x'Qx: the best known values of Beasley's instances.
BEASLEY = {"bqp100_1": 7970, "bqp250_1": 45607, "bqp500_1": 116586}

# What a prototype reached with dwave's own schedule in 10000 sweeps (lsa_tr.md, 7.1 and 7.2).
ANNEALED = {
    "deconvolution_s05": 5.845,
    "deconvolution_s10": 21.474,
    "deconvolution_s20": 79.078,
    "curvature_A1": 3032.2,
    "curvature_A2": 3194.9,
    "curvature_A3": 6667.7,
    "curvature_A5": 3317.2,
}


def qubo(path):
    """The energy of which x'Qx is minus: m x y is m/2 (x + y - |x - y|)."""
    rows = [line.split() for line in path.read_text().splitlines() if line[:1] not in ("c", "p", "")]
    entries = np.array([[float(word) for word in row] for row in rows])
    sites, values = entries[:, :2].astype(int), -entries[:, 2]
    pairs = sites[:, 0] != sites[:, 1]
    unary = np.zeros(int(path.stem[3:].split("_")[0]))
    np.add.at(unary, sites[~pairs, 0], values[~pairs])
    for end in (0, 1):
        np.add.at(unary, sites[pairs, end], values[pairs] / 2)
    return Energy.graph(unary, sites[pairs], -values[pairs] / 2)


def instance(folder, name):
    data = np.load(folder / "nonsubmodular" / f"{name}.npz")
    if name.startswith("deconvolution"):
        return deconvolution(data["image"], int(data["blur"]))
    return curvature(data["image"], lam=float(data["lam"]), window=int(data["window"]), mode=str(data["mode"]))


@pytest.mark.parametrize("solver", SAMPLED, ids=str)
@given(energy=energies(most=12, signed=True), data=st.data())
@examples(15)
def test_answers_depend_on_the_input_alone_and_are_no_worse_than_the_start(solver, energy, data):
    start = rng_of(data.draw).random(energy.shape) < 0.5
    minimizer = solver.prepare(energy)
    answers = [minimizer.minimize(energy.unary, start=start), minimizer.minimize(energy.unary)]
    again = [solver.prepare(energy).minimize(energy.unary, start=labels) for labels in (start, None)]
    for one, other in zip(answers, again, strict=True):
        np.testing.assert_array_equal(one.labels, other.labels)
    assert energy(answers[0].labels) <= energy(start) + 1e-9
    least = Brute().prepare(energy).minimize(energy.unary)
    for answer in answers:
        assert answer.bound is None
        assert energy(answer.labels) >= least.bound - 1e-9 - least.rounding_error


@given(energies(most=12, signed=True))
@examples(15)
def test_more_reads_are_never_worse(energy):
    found = [energy(Anneal(5, reads).prepare(energy).minimize(energy.unary).labels) for reads in (1, 2, 5)]
    assert found[2] <= found[1] + 1e-9 and found[1] <= found[0] + 1e-9


@given(energies(most=12, signed=True), st.data())
def test_spins_cost_twice_the_energy(energy, data):
    rng = rng_of(data.draw)
    spins = Spins.of(energy.unary.ravel().astype(float), *energy.pairs.edges())
    assert all(np.array_equal(costs, np.rint(costs)) for costs in (spins.fields, spins.couplings))
    costs = []
    for labels in rng.random((2, *energy.shape)) < 0.5:
        s = np.where(labels.ravel(), 1.0, -1.0)
        value = float(spins.fields @ s + (spins.couplings * s[spins.first] * s[spins.second]).sum())
        costs.append((value / spins.scale, 2 * energy(labels)))
    (one, its), (other, others) = costs
    assert one - other == pytest.approx(its - others, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("solver", [Anneal(sweeps=20), Tabu(restarts=0)], ids=str)
def test_an_energy_of_nothing_but_zeros_has_an_answer(solver):
    energy = Energy.grid(np.zeros((3, 4)), lam=0.0)
    assert solver.prepare(energy).minimize(energy.unary).labels.shape == (3, 4)


@pytest.mark.parametrize("name", BEASLEY)
def test_tabu_finds_the_best_known_of_beasleys_instances(name, data_folder):
    energy = qubo(data_folder / "mrf" / "qubo" / f"{name}.qubo")
    assert energy(Tabu().prepare(energy).minimize(energy.unary).labels) == -BEASLEY[name]


@pytest.mark.parametrize("name", ["deconvolution_s05", "deconvolution_s10", "deconvolution_s20"])
def test_annealing_deblurs(name, data_folder):
    energy = instance(data_folder, name)
    labels = Anneal().prepare(energy).minimize(energy.unary).labels
    assert energy(labels) <= 1.01 * ANNEALED[name]


@pytest.mark.soak
@pytest.mark.parametrize("name", ANNEALED)
def test_annealing_slowly_goes_as_low_as_is_known(name, data_folder):
    energy = instance(data_folder, name)
    reads = 8 if name == "curvature_A3" else 4  # the largest
    labels = Anneal(sweeps=10_000, reads=reads).prepare(energy).minimize(energy.unary).labels
    known = ANNEALED[name]
    assert round(energy(labels), 3 if known < 100 else 1) <= known


def test_tabu_refuses_what_would_take_too_much_memory():
    with pytest.raises(InputError, match=r"40000 of them; expected at most 15000\. Use Portfolio"):
        Tabu().prepare(Energy.grid(np.zeros((200, 200))))


@pytest.mark.parametrize("solver", [Anneal(), Tabu()], ids=str)
def test_a_missing_package_is_named_with_the_command(solver, monkeypatch):
    monkeypatch.setitem(sys.modules, "dwave.samplers", None)
    with pytest.raises(MissingExtraError, match=r"dwave.samplers.*pip install 'dope\[dwave\]'"):
        solver.prepare(Energy.grid(np.zeros((2, 2))))


@pytest.mark.parametrize("make", [lambda: Anneal(sweeps=0), lambda: Anneal(reads=1.5), lambda: Tabu(restarts=-1)])
def test_settings_that_make_no_sense_are_refused(make):
    with pytest.raises(InputError, match="expected a whole number"):
        make()


def test_blocks_can_be_annealed():
    rng = np.random.default_rng(1)
    energy = Energy.grid(rng.normal(size=(20, 20)), weights=[1.0, -0.5, 1.0, -0.5])
    result = dope.minimize(energy, blocks=4, solver=Anneal(sweeps=100))
    assert result.energy == energy(result.labels)
