"""Proofs, moves and bounds of several labels against brute force."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dope
from dope import InputError, LabelEnergy, Moves, Serial
from dope.methods import label_moves
from dope.methods.label_arrays import LabelArrays
from dope.methods.label_moves import Mover, solving
from dope.methods.label_run import LabelRun
from dope.pairs import GridPairs
from dope.partition import Partition
from dope.planning.plans import cut_pairs
from dope.protocols import Problem
from label_problems import all_labels, energies_of, graphs, grids, minimizers, sites_of, tables
from profiles import examples

ANY = st.one_of(grids(), graphs(), tables())
ORDERED = ["linear", "quadratic", ("linear", 2), ("quadratic", 3)]
POTTS = st.one_of(grids(kinds=["potts"]), graphs(kinds=["potts"]))


def solved(energy, **more):
    return dope.minimize(energy, **{"executor": Serial(), "blocks": 1, **more})


def check_claims(energy, result):
    """The energy recomputes, and lies with the bound on the right sides of the minimum."""
    least, _ = minimizers(energy)
    room = 1e-7 * (1 + abs(least))
    assert result.energy == pytest.approx(energies_of(energy, result.labels[None])[0], rel=1e-9, abs=1e-9)
    assert result.energy >= least - room
    assert result.lower_bound is None or result.lower_bound <= least + room
    assert result.labels.dtype == energy.label_type
    assert not result.labels[~sites_of(energy)].any()
    if result.exact:
        assert result.energy <= least + room + result.rounding_error and result.proved == 1.0


@given(energy=ANY)
@examples(120)
def test_bounds_and_energies_are_what_they_claim_to_be(energy):
    check_claims(energy, solved(energy))


@pytest.mark.parametrize("kind", ["expansion", "swap", "fusion", "jump"])
@given(energy=ANY)
@examples(30)
def test_moves_of_a_kind_are_right_or_refused(kind, energy):
    ordered = energy.metric is not None and energy.metric.is_ordered
    jumps = ordered and energy.is_semimetric
    if {"expansion": energy.is_metric, "swap": energy.is_semimetric, "fusion": True, "jump": jumps}[kind]:
        check_claims(energy, solved(energy, method=Moves(kind=kind)))
    else:
        with pytest.raises(InputError, match=r"^[^\n]*Moves\(kind=[^\n]*$"):
            solved(energy, method=Moves(kind=kind))


@given(energy=POTTS)
@examples(80)
def test_proved_labels_are_those_of_some_optimum(energy):
    problem = problem_of(energy)
    run = LabelRun(energy, problem, "expansion")
    list(run.prove())
    list(run.move(0))
    assert isinstance(run.ground, LabelArrays)
    decided = ~run.ground.open
    _, optima = minimizers(energy)
    agree = (optima == run.ground.labels)[:, decided].all(axis=1)
    assert agree.any()


def problem_of(energy):
    plan = dope.plan(energy, executor=Serial(), blocks=1)
    pairs = cut_pairs(energy)
    whole = Partition.grid(energy.shape, 1) if isinstance(pairs, GridPairs) else Partition.graph(pairs, 1)
    return Problem(energy=energy, partition=whole, solver=plan.solver, executor=Serial())


@given(energy=POTTS)
@examples(60)
def test_expansions_of_potts_end_within_twice_the_minimum(energy):
    costs = np.asarray(energy.costs, float)
    shifted = LabelEnergy(costs - costs.min(), energy.pairs, energy.metric)
    least, _ = minimizers(shifted)
    result = solved(shifted, method=Moves(prove=False))
    assert result.energy <= 2 * least + 1e-6 * (1 + abs(least))


@given(energy=ANY, data=st.data())
@examples(60)
def test_no_move_raises_the_energy(energy, data):
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    labels = rng.integers(0, energy.label_count, energy.shape).astype(energy.label_type)
    labels[~sites_of(energy)] = 0
    mover = Mover(energy, labels, sites_of(energy), solving(dope.Qpbo()))
    kinds = [*(["expansion"] if energy.is_metric else []), *(["swap"] if energy.is_semimetric else []), "fusion"]
    before = energy.exactly(labels)
    for kind in kinds:
        for changed in mover.cycle(kind):
            now = energy.exactly(mover.labels)
            assert now < before if changed else now == before
            before = now
    changed = mover.fuse(rng.integers(0, energy.label_count, energy.shape).astype(energy.label_type))
    assert energy.exactly(mover.labels) < before if changed else energy.exactly(mover.labels) == before


@given(energy=st.one_of(grids(kinds=ORDERED), graphs(kinds=ORDERED)), data=st.data())
@examples(60)
def test_jumps_that_are_cut_off_raise_nothing(energy, data):
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    labels = rng.integers(0, energy.label_count, energy.shape).astype(energy.label_type)
    labels[~sites_of(energy)] = 0
    mover = Mover(energy, labels, sites_of(energy), solving(dope.MaxFlow()), cut_off=True)
    before = energy.exactly(labels)
    for changed in mover.cycle("jump"):
        now = energy.exactly(mover.labels)
        assert now < before if changed else now == before
        before = now


@given(energy=st.one_of(grids(kinds=["linear", "quadratic"]), graphs(kinds=["linear", "quadratic"])), data=st.data())
@examples(60)
def test_jumps_find_the_minimum_where_all_is_convex(energy, data):
    targets = np.array(
        data.draw(st.lists(st.integers(-1, 4), min_size=energy.pairs.sites, max_size=energy.pairs.sites))
    )
    apart = np.arange(energy.label_count) - targets.reshape(energy.shape)[..., None]
    convex = replace(energy, costs=np.abs(apart) if data.draw(st.booleans()) else apart**2)
    result = solved(convex)
    least, _ = minimizers(convex)
    assert convex.is_convex
    assert result.energy == pytest.approx(least, rel=1e-9, abs=1e-9)
    if result.rounding_error == 0.0 and convex.pairs.binary_places() is not None:
        assert result.exact and result.lower_bound == result.energy


@pytest.mark.parametrize("metric", ["linear", "quadratic"])
@pytest.mark.parametrize("seed", range(4))
def test_jumps_end_in_the_minimum_of_many_labels(metric, seed):
    grey = np.random.default_rng(seed).integers(0, 40, (7, 9))
    costs = (np.arange(40) - grey[..., None]) ** 2
    costs[2:5, 3:6] = 0  # a hole that is filled from its border
    energy = LabelEnergy.grid(costs, lam=3, kernel=[[1, 0], [0, 1]], metric=metric)
    result = solved(energy, method=Moves(bound=0))
    assert result.exact and result.energy == solved(energy, method=dope.Layers()).energy


@pytest.mark.parametrize(("metric", "convex"), [("linear", True), (("quadratic", 3), False), (("quadratic", 4), True)])
def test_convex_is_what_bends_upwards_only(metric, convex):
    costs = np.array([[[4, 1, 0]], [[200, 0, 7]]], dtype=np.uint8)
    assert LabelEnergy.grid(costs, metric=metric).is_convex is convex
    assert not LabelEnergy.grid(costs[..., ::2].repeat(2, -1)[..., :3], metric=metric).is_convex
    assert not LabelEnergy.grid(np.array([[[0, 2, 3]]]), metric="linear").is_convex


@pytest.mark.parametrize("shape", [(40,), (14, 17), (6, 5, 7)], ids=str)
@given(seed=st.integers(0, 1 << 16), metric=st.sampled_from(["potts", ("linear", 2)]), kernel=st.sampled_from([3, 5]))
@examples(12)
def test_expansions_near_what_changed_are_those_of_everything(shape, seed, metric, kernel):
    rng = np.random.default_rng(seed)
    mask = rng.random(shape) < 0.9
    mask.flat[0] = True
    energy = LabelEnergy.grid(rng.integers(0, 9, (*shape, 5)), lam=2, kernel=kernel, mask=mask, metric=metric)
    whole = np.rint(2 * energy.pairs.factors)
    energy = replace(energy, pairs=replace(energy.pairs, factors=whole, bounds=np.stack([whole, whole], axis=1)))
    found = []
    for worth, reach in ((-1.0, 1), (1.0, 1), (1.0, 3)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(label_moves, "WORTH_A_REGION", worth)
            patch.setattr(label_moves, "REACH", reach)
            start = rng.integers(0, 5, shape) if not found else found[0][0]
            start = np.where(mask, start, 0).astype(np.uint8)
            mover = Mover(energy, start.copy(), mask.copy(), solving(dope.MaxFlow()))
            changes = [sum(mover.cycle("expansion")) for _ in range(8)]
            found.append((start, mover.labels, changes))
    for _, labels, changes in found[1:]:
        assert (labels == found[0][1]).all() and changes == found[0][2]


def test_a_box_around_sites_and_what_is_reached_within_a_mask():
    one = np.zeros((1, 15), dtype=np.bool_)
    one[0, 7] = True
    for reach in range(9):
        assert (
            np.flatnonzero(label_moves.grown(one, [2, reach])).tolist() == [*range(max(0, 7 - reach), 8 + reach)][:15]
        )
    way = np.array([1, 1, 0, 1, 1, 1, 0, 1], dtype=np.bool_)
    seeds = np.array([0, 0, 0, 0, 0, 1, 0, 0], dtype=np.bool_)
    assert np.flatnonzero(label_moves.reached(way, seeds, [1])).tolist() == [3, 4, 5]
    assert np.flatnonzero(label_moves.reached(way, seeds, [2])).tolist() == [0, 1, 3, 4, 5, 7]


@given(energy=st.one_of(grids(kinds=["potts", "linear"]), graphs(kinds=["potts", "linear"])))
@examples(40)
def test_where_expansions_end_no_expansion_is_better(energy):
    labels = solved(energy, method=Moves(prove=False)).labels
    inside = sites_of(energy)
    everything = all_labels(energy)
    for label in range(energy.label_count):
        within = (everything == labels) | (everything == label) | ~inside
        reached = everything[within.reshape(len(everything), -1).all(axis=1)]
        assert energies_of(energy, reached).min() >= energy(labels) - 1e-6 * (1 + abs(energy(labels)))


@given(energy=POTTS)
@examples(40)
def test_two_labels_give_what_the_binary_call_gives(energy):
    costs = np.asarray(energy.costs)[..., :2]
    two = LabelEnergy(costs, energy.pairs, energy.metric)
    inside = sites_of(energy)
    unary = np.where(inside, costs[..., 1].astype(float) - costs[..., 0], 1.0)
    binary = dope.minimize(dope.Energy(unary, energy.pairs), executor=Serial(), blocks=1)
    several = solved(two)
    base = float(costs[..., 0].astype(float)[inside].sum())
    assert several.energy == pytest.approx(binary.energy + base, rel=1e-9, abs=1e-7)
    assert several.labels.dtype == np.uint8
    if several.exact and binary.rounding_error == 0 and several.stopped == "exact":
        assert several.foreground == several.counts[1] / several.labels.size


@given(energy=POTTS, data=st.data())
@examples(40)
def test_permuted_labels_permute_what_is_proved(energy, data):
    order = np.array(data.draw(st.permutations(range(energy.label_count))))
    other = LabelEnergy(np.ascontiguousarray(np.asarray(energy.costs)[..., order]), energy.pairs, energy.metric)
    grounds = []
    for one in (energy, other):
        run = LabelRun(one, problem_of(one), "expansion")
        list(run.prove())
        grounds.append(run.ground)
    first, second = grounds
    np.testing.assert_array_equal(first.open, second.open)
    decided = ~first.open & sites_of(energy)
    np.testing.assert_array_equal(first.labels[decided], order[second.labels[decided]])


@given(energy=ANY, data=st.data())
@examples(30)
def test_a_start_is_never_left_for_worse(energy, data):
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    start = rng.integers(0, energy.label_count, energy.shape)
    start[~sites_of(energy)] = 0
    result = solved(energy, start=start)
    check_claims(energy, result)
    if energy.metric is None or energy.metric.kind != "potts":
        assert result.energy <= energy(start) + 1e-9 * (1 + abs(result.energy))
    again = solved(energy, start=result)
    assert again.energy <= result.energy + 1e-9 * (1 + abs(result.energy))


def test_a_table_that_is_no_metric_names_its_triple_and_what_to_use():
    energy = LabelEnergy.grid(np.zeros((3, 3, 3)), metric="quadratic")
    with pytest.raises(InputError, match=r"V\(0, 2\) = 4 is more than V\(0, 1\) \+ V\(1, 2\) = 2.*kind='swap'"):
        solved(energy, method=Moves(kind="expansion"))
    signed = np.array([[0, -1.0, 2], [-1, 0, 1], [2, 1, 0]])
    with pytest.raises(InputError, match=r"kind is 'swap'.*Moves\(kind='fusion'\)"):
        solved(LabelEnergy.grid(np.zeros((3, 3, 3)), metric=signed), method=Moves(kind="swap"))
    repelling = LabelEnergy.graph(np.zeros((2, 3)), [[0, 1]], [-1.0])
    with pytest.raises(InputError, match="as low as -1"):
        solved(repelling, method=Moves(kind="expansion"))


@pytest.mark.parametrize("settings", [{"kind": "hop"}, {"cycles": -1}, {"cycles": 1.5}, {"prove": 2}], ids=str)
def test_settings_that_make_no_sense_are_refused(settings):
    with pytest.raises(InputError, match=f"Moves: {next(iter(settings))} is"):
        Moves(**settings)
