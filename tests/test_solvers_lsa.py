"""LsaTr and LsaAux: against brute force, against a plain version with PyMaxflow, and on real instances."""

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dope
from dope import Energy, Icm, InputError, LsaAux, LsaTr
from dope.models import curvature, deconvolution
from oracles import brute_force, edge_weight_matrix
from problems import energies, grids, rng_of
from profiles import examples

NAMES = ("cooled", "smooth", "attracted", "threshold")


@examples(60)
@given(st.data())
def test_labels_are_no_worse_than_any_start_and_never_below_the_minimum(data):
    energy = data.draw(energies(most=12, signed=True))
    rng = rng_of(data.draw)
    start = rng.random(energy.shape) < 0.5
    least = brute_force(energy.unary.ravel(), edge_weight_matrix(energy))[0]
    for solver in (LsaTr(), LsaTr(distance="hamming", polish=0), LsaAux(), LsaAux(patience=0)):
        labels = solver.prepare(energy).minimize(energy.unary, start=start).labels
        assert least - 1e-9 <= energy(labels) <= energy(start) + 1e-9


@examples(60)
@given(energies(most=12, signed=False))
def test_without_repulsion_one_cut_is_the_minimum(energy):
    least = brute_force(energy.unary.ravel(), edge_weight_matrix(energy))[0]
    for solver in (LsaTr(), LsaAux()):
        labels = solver.prepare(energy).minimize(energy.unary).labels
        assert energy(labels) == pytest.approx(least, abs=1e-6)


@examples(40)
@given(st.data())
def test_an_answer_depends_on_unary_and_start_alone(data):
    energy = data.draw(energies(most=24, signed=True))
    rng = rng_of(data.draw)
    for solver in (LsaTr(), LsaAux(seed=3)):
        minimizer = solver.prepare(energy)
        first = minimizer.minimize(energy.unary).labels
        minimizer.minimize(rng.normal(size=energy.shape))
        np.testing.assert_array_equal(minimizer.minimize(energy.unary).labels, first)
        np.testing.assert_array_equal(solver.prepare(energy).minimize(energy.unary).labels, first)


@examples(40)
@given(grids(most=24, signed=True))
def test_polished_labels_cannot_be_improved_by_one_flip(problem):
    energy = problem[0]
    labels = LsaTr().prepare(energy).minimize(energy.unary).labels
    best = energy(labels)
    for site in np.ndindex(energy.shape):
        flipped = labels.copy()
        flipped[site] ^= True
        assert energy(flipped) >= best - 1e-8 * (1 + abs(best))


@examples(30)
@given(st.data())
def test_attractive_and_repulsive_pairs_are_the_pairs(data):
    energy = data.draw(energies(most=24, signed=True))
    whole = edge_weight_matrix(energy)
    split = (energy.pairs.attractive, energy.pairs.repulsive)
    parts = [edge_weight_matrix(Energy(energy.unary, part)) for part in split]
    np.testing.assert_allclose(parts[0], np.maximum(whole, 0), rtol=1e-12)
    np.testing.assert_allclose(parts[1], np.maximum(-whole, 0), rtol=1e-12)
    for pairs, matrix in zip(split, parts, strict=True):
        assert pairs.total() == pytest.approx(matrix.sum() / 2)


@examples(30)
@given(st.data())
def test_a_graph_on_a_grid_is_the_same_energy(data):
    energy = data.draw(grids(most=24, signed=True))[0]
    first, second, weights = energy.pairs.edges()
    graph = Energy.graph(energy.unary.ravel(), np.stack([first, second], axis=1), weights)
    again = graph.on_grid(energy.shape)
    np.testing.assert_allclose(edge_weight_matrix(again), edge_weight_matrix(energy), rtol=1e-12)
    labels = rng_of(data.draw).random(energy.shape) < 0.5
    assert again(labels) == pytest.approx(graph(labels.ravel()))


def test_on_grid_refuses_what_is_none():
    graph = Energy.graph(np.zeros(6), [[0, 5]], [1.0])
    with pytest.raises(InputError, match="expected one of 6"):
        graph.on_grid((2, 2))
    with pytest.raises(InputError, match="already"):
        graph.on_grid((2, 3)).on_grid((2, 3))
    rng = np.random.default_rng(0)
    scattered = Energy.graph(np.zeros(4096), rng.integers(0, 4096, (4000, 2)), np.ones(4000))
    with pytest.raises(InputError, match="different offsets"):
        scattered.on_grid((64, 64))


def disc(side=32, sigma=0.4):
    y, x = np.mgrid[:side, :side] - side / 2
    return (np.hypot(y, x) < side / 3) + np.random.default_rng(5).normal(0, sigma, (side, side))


@pytest.mark.parametrize(
    "energy",
    [curvature(disc(), lam=2.0, mode="all"), curvature(disc(), lam=4.0), deconvolution(disc(24, 0.1))],
    ids=["curvature, all", "curvature, perimeter", "deconvolution"],
)
def test_trust_regions_end_where_the_plain_version_does(energy, monkeypatch):
    pytest.importorskip("maxflow")
    monkeypatch.syspath_prepend(str(Path(__file__).parent.parent / "benchmarks"))
    reference = importlib.import_module("lsa_tr_reference").Reference(energy)
    sys.modules.pop("lsa_tr_reference")
    minimizer = LsaTr(starts=("threshold",), polish=0).prepare(energy)
    labels = minimizer.minimize(energy.unary).labels
    assert energy(labels) == pytest.approx(energy(reference.minimize()), rel=1e-9)
    assert minimizer.cuts <= 1.1 * reference.cuts + 2


def test_more_starts_and_polish_only_help():
    energy = curvature(disc(), lam=4.0, mode="all")
    alone = [energy(LsaTr(starts=(name,), polish=0).prepare(energy).minimize(energy.unary).labels) for name in NAMES]
    together = energy(LsaTr(starts=NAMES, polish=0).prepare(energy).minimize(energy.unary).labels)
    assert together == min(alone)
    assert energy(LsaTr(starts=NAMES).prepare(energy).minimize(energy.unary).labels) <= together
    assert energy(dope.minimize(energy).labels) <= energy(dope.minimize(energy, solver=Icm()).labels)


@pytest.mark.parametrize("overlap", [None, 0, 3])
def test_blocks_end_near_the_whole(overlap):
    energy = curvature(disc(48), lam=2.0, mode="all")
    whole = dope.minimize(energy, blocks=1)
    cut = dope.minimize(energy, blocks=(2, 2), overlap=overlap)
    assert cut.energy <= 1.01 * whole.energy
    assert cut.lower_bound is None  # none is known, and none is made up
    assert cut.partition.overlaps == (overlap != 0)


def test_bad_settings_are_refused():
    for settings_, words in (
        ({"distance": "taxi"}, "euclidean"),
        ({"starts": ()}, "threshold"),
        ({"starts": "smooth"}, "tuple"),
        ({"starts": ("smooth", "potts")}, "attracted"),
        ({"polish": -1}, "0 or more"),
        ({"cuts": 0}, "1 or more"),
        ({"seed": 0.5}, "whole number"),
    ):
        with pytest.raises(InputError, match=words):
            LsaTr(**settings_)
    with pytest.raises(InputError, match="patience"):
        LsaAux(patience=True)


@pytest.mark.parametrize("blocks", [1, 3])
@pytest.mark.parametrize("solver", [LsaTr(), LsaAux(), Icm(), dope.MeanField()], ids=lambda one: type(one).__name__)
def test_a_run_goes_on_from_an_earlier_result(solver, blocks):
    rng = np.random.default_rng(0)
    energy = Energy.grid(rng.normal(size=(20, 20)), kernel=[(0, 1), (1, 0)], weights=[1.0, -0.7])
    earlier = dope.minimize(energy, solver=dope.Anneal(), blocks=1)
    assert dope.minimize(energy, solver=solver, blocks=blocks, start=earlier).energy <= earlier.energy + 1e-9
