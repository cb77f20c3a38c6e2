"""Moves side by side, in boxes and together, against brute force and against moves one after the other."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dope
from dope import LabelEnergy, Moves, Serial, Threads
from dope.live import LiveLabels
from dope.methods import label_moves, side_by_side
from dope.methods.label_moves import Mover, solving
from dope.methods.moves import kind_for
from dope.partition import Partition
from dope.protocols import Problem
from label_problems import all_labels, energies_of, grids, minimizers, sites_of
from profiles import examples

KINDS = ["potts", "linear", "quadratic", ("linear", 2), ("quadratic", 3)]
SHAPES = [(5,), (2, 3), (3, 2), (2, 2, 2)]


@given(energy=grids(kinds=KINDS, shapes=SHAPES))
@examples(80)
def test_labels_are_what_they_claim_to_be_and_the_same_in_threads(energy):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(side_by_side, "BOX_SITES", 4)
        method = Moves(prove=False, bound=0)
        found = [dope.minimize(energy, method=method, executor=executor) for executor in (Serial(), Threads(3))]
    least, _ = minimizers(energy)
    room = 1e-7 * (1 + abs(least))
    first, second = found
    assert first.energy == pytest.approx(energies_of(energy, first.labels[None])[0], rel=1e-9, abs=1e-9)
    assert first.lower_bound <= least + room and first.energy >= least - room
    assert (first.labels == second.labels).all() and first.energy == second.energy
    if first.exact:
        assert first.energy <= least + room + first.rounding_error


@given(energy=grids(kinds=["potts", "linear"], shapes=SHAPES))
@examples(40)
def test_no_expansion_is_better_in_the_end(energy):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(side_by_side, "BOX_SITES", 4)
        result = dope.minimize(energy, method=Moves(kind="expansion", prove=False, bound=0), executor=Serial())
    labels, inside, everything = result.labels, sites_of(energy), all_labels(energy)
    for label in range(energy.label_count):
        within = (everything == labels) | (everything == label) | ~inside
        reached = everything[within.reshape(len(everything), -1).all(axis=1)]
        assert energies_of(energy, reached).min() >= energy(labels) - 1e-6 * (1 + abs(energy(labels)))


def whole_numbers(shape, seed, kernel, metric):
    """An energy in whole numbers with a mask, labels to begin with, and the sites that take part."""
    rng = np.random.default_rng(seed)
    mask = rng.random(shape) < 0.9
    mask.flat[0] = True
    energy = LabelEnergy.grid(rng.integers(0, 9, (*shape, 5)), lam=2, kernel=kernel, mask=mask, metric=metric)
    whole = np.rint(2 * energy.pairs.factors)
    energy = replace(energy, pairs=replace(energy.pairs, factors=whole, bounds=np.stack([whole, whole], axis=1)))
    return energy, np.where(mask, rng.integers(0, 5, shape), 0).astype(np.uint8), mask


def problem_of(energy, executor):
    whole = Partition.grid(energy.shape, 1)
    return Problem(energy=energy, partition=whole, solver=dope.MaxFlow(), executor=executor, live=LiveLabels())


EVERY_SHAPE = pytest.mark.parametrize("shape", [(40,), (14, 17), (6, 5, 7)], ids=str)


@EVERY_SHAPE
@given(
    seed=st.integers(0, 1 << 16), metric=st.sampled_from(["potts", ("linear", 2), ("quadratic", 3)]),
    kernel=st.sampled_from([3, 5]),
)  # fmt: skip
@examples(12)
def test_cycles_in_boxes_and_together_raise_nothing_and_say_what_they_changed(shape, seed, metric, kernel):
    energy, start, mask = whole_numbers(shape, seed, kernel, metric)
    kind = kind_for(energy, None)
    mover = Mover(energy, start.copy(), mask.copy(), solving(dope.MaxFlow()), kind == "jump")
    problem = problem_of(energy, Threads(2))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(side_by_side, "BOX_SITES", 16)
        partitions = side_by_side.partitions(mover)
    assert len(partitions) == 3
    before, labels = energy.exactly(mover.labels), mover.labels.copy()
    for partition in partitions:
        changed = side_by_side.cycle_in_boxes(mover, kind, partition, problem)
        now = energy.exactly(mover.labels)
        assert now < before if changed else now == before
        assert changed == np.count_nonzero(mover.labels != labels)
        before, labels = now, mover.labels.copy()
    mover.together = side_by_side.trying(problem)
    for _ in range(3):
        for changed in mover.cycle(kind):
            now = energy.exactly(mover.labels)
            assert now < before if changed else now == before
            before = now
    assert (mover.labels[~mask] == 0).all()


@EVERY_SHAPE
@given(seed=st.integers(0, 1 << 16), metric=st.sampled_from(["potts", ("linear", 2)]), kernel=st.sampled_from([3, 5]))
@examples(12)
def test_what_moves_know_after_cycles_in_boxes_is_true(shape, seed, metric, kernel):
    """Expansions of regions around what changed, or was fixed, end where expansions of everything do."""
    energy, start, mask = whole_numbers(shape, seed, kernel, metric)
    found = []
    for worth in (-1.0, 1.0):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(side_by_side, "BOX_SITES", 16)
            patch.setattr(label_moves, "WORTH_A_REGION", worth)
            patch.setattr(label_moves, "REACH", 2)
            mover = Mover(energy, start.copy(), mask.copy(), solving(dope.MaxFlow()))
            problem = problem_of(energy, Serial())
            changes = [
                side_by_side.cycle_in_boxes(mover, "expansion", partition, problem)
                for partition in side_by_side.partitions(mover)
            ]
            mover.together = side_by_side.trying(problem)
            changes += [sum(mover.cycle("expansion")) for _ in range(6)]
            found.append((mover.labels, changes))
    assert (found[0][0] == found[1][0]).all() and found[0][1] == found[1][1]
