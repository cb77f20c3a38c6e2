"""Seeds from rectangles, lassos and labels, and what hangs together with them."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from scipy import ndimage

from dope.errors import InputError
from dope.models import connected_to_seeds, seeds_from_labels, seeds_from_lasso, seeds_from_rectangle
from profiles import examples

SETTINGS = examples(150)
SHAPES = array_shapes(min_dims=1, max_dims=3, max_side=9)


def labelled(shape):
    return st.tuples(arrays(bool, shape), arrays(np.uint8, shape, elements=st.sampled_from([0, 0, 0, 1, 2])))


def plainly_connected(labels, seeds):
    for kind, wanted in ((1, True), (2, False)):
        if (seeds == kind).any():
            parts, _ = ndimage.label(labels == wanted)
            kept = np.setdiff1d(parts[seeds == kind], [0])
            labels = np.isin(parts, kept) == wanted
    return labels


@SETTINGS
@given(SHAPES.flatmap(labelled))
def test_connected_parts_are_those_of_a_plainer_way(case):
    labels, seeds = case
    assert np.array_equal(connected_to_seeds(labels, seeds), plainly_connected(labels, seeds))


@SETTINGS
@given(SHAPES.flatmap(labelled))
def test_what_hangs_together_stays(case):
    labels, seeds = case
    labels = np.where(seeds > 0, seeds == 1, labels)
    once = connected_to_seeds(labels, seeds)
    assert np.array_equal(connected_to_seeds(once, seeds), once)
    assert ((once == (seeds == 1)) | (seeds == 0)).all()


@SETTINGS
@given(array_shapes(min_dims=2, max_dims=3, max_side=9).flatmap(labelled))
def test_axes_are_alike(case):
    labels, seeds = case
    assert np.array_equal(connected_to_seeds(labels.T, seeds.T), connected_to_seeds(labels, seeds).T)


def test_a_spiral_is_one_piece():
    size = 201
    spiral = np.zeros((size, size), dtype=bool)
    row, column, step = 0, 0, (0, 1)
    for length in [size - 1, *np.repeat(np.arange(size - 1, 1, -2), 2)]:
        for _ in range(length):
            spiral[row, column] = True
            row, column = row + step[0], column + step[1]
        step = (step[1], -step[0])
    seeds = np.zeros((size, size), dtype=np.uint8)
    seeds[0, 0] = 1
    assert np.array_equal(connected_to_seeds(spiral, seeds), spiral)


def test_labels_handed_out_are_fresh():
    labels = np.ones((3, 3), dtype=bool)
    out = connected_to_seeds(labels, np.zeros((3, 3), dtype=int))
    assert np.array_equal(out, labels) and not np.shares_memory(out, labels)


@pytest.mark.parametrize(
    ("labels", "seeds", "words"),
    [
        (np.zeros((2, 3)), np.zeros((3, 2), dtype=int), "shape"),
        (np.full((2, 3), 2), np.zeros((2, 3), dtype=int), "that are 0 and 1"),
        (np.zeros((2, 3)), np.full((2, 3), 3), "label 3"),
        (np.array(True), np.array(1), "single number"),
    ],
)
def test_labels_and_seeds_that_do_not_fit_are_refused(labels, seeds, words):
    with pytest.raises(InputError, match=words):
        connected_to_seeds(labels, seeds)


@SETTINGS
@given(SHAPES.flatmap(labelled))
def test_labels_become_seeds_where_there_were_none(case):
    labels, seeds = case
    out = seeds_from_labels(labels, seeds)
    assert np.array_equal(out, np.where(seeds > 0, seeds, np.where(labels, 1, 2)))


@given(st.data())
def test_outside_of_a_rectangle_is_background(data):
    shape = data.draw(array_shapes(min_dims=1, max_dims=3, min_side=2, max_side=9))
    sides = [sorted(data.draw(st.lists(st.integers(0, n), min_size=2, max_size=2, unique=True))) for n in shape]
    inside = np.zeros(shape, dtype=bool)
    inside[tuple(slice(*side) for side in sides)] = True
    if inside.all():
        with pytest.raises(InputError, match="whole image"):
            seeds_from_rectangle(shape, sides)
    else:
        assert np.array_equal(seeds_from_rectangle(shape, sides), np.where(inside, 0, 2))


@pytest.mark.parametrize(
    ("rectangle", "words"),
    [
        ([(0, 2)], r"shaped \(1, 2\)"),
        ([(0.0, 2.0), (1.0, 2.0)], "whole numbers"),
        ([(2, 2), (0, 3)], "2 to 2"),
        ([(0, 6), (0, 3)], "0 to 6"),
        ([(-1, 2), (0, 3)], "-1 to 2"),
    ],
)
def test_rectangles_that_do_not_fit_are_refused(rectangle, words):
    with pytest.raises(InputError, match=words):
        seeds_from_rectangle((5, 7), rectangle)


@SETTINGS
@given(st.lists(st.tuples(st.floats(-5, 25), st.floats(-5, 35)), min_size=3, max_size=3))
def test_a_triangle_holds_what_lies_left_of_all_its_sides_or_right_of_all(corners):
    rows, columns = np.mgrid[:20, :30]
    turns = []
    for (row, column), (end_row, end_column) in zip(corners, corners[1:] + corners[:1], strict=True):
        turns.append((end_row - row) * (columns - column) - (end_column - column) * (rows - row))
    inside, outside = np.abs(np.sign(turns).sum(axis=0)) == 3, (np.min(turns, 0) < 0) & (np.max(turns, 0) > 0)
    sure = np.min(np.abs(turns), axis=0) > 1e-9  # not on a side, nor on the line it lies on
    assume(sure.any() and 0 < inside.sum() < inside.size)
    found = seeds_from_lasso((20, 30), corners) == 0
    assert found[sure & inside].all() and not found[sure & outside].any()


def test_turning_and_reversing_a_lasso_changes_nothing():
    corners = np.array([(2.3, 3.1), (15.2, 4.0), (9.7, 9.2), (17.8, 25.5), (1.4, 20.0)])
    seeds = seeds_from_lasso((20, 30), corners)
    assert np.array_equal(seeds_from_lasso((20, 30), np.roll(corners, 2, axis=0)), seeds)
    assert np.array_equal(seeds_from_lasso((20, 30), corners[::-1]), seeds)
    assert np.array_equal(seeds_from_lasso((30, 20), corners[:, ::-1]), seeds.T)


@pytest.mark.parametrize(
    ("shape", "polygon", "words"),
    [
        ((5, 7), [(0, 0), (1, 1)], "three corners"),
        ((5, 7, 3), [(0, 0), (1, 1), (2, 0)], "2D"),
        ((5, 7), [(0, 0), (1, np.nan), (2, 0)], "NaN"),
        ((5, 7), [(0, 10), (4, 10), (4, 20)], "no site"),
        ((5, 7), [(-1, -1), (-1, 9), (9, 9), (9, -1)], "whole image"),
    ],
)
def test_lassos_that_do_not_fit_are_refused(shape, polygon, words):
    with pytest.raises(InputError, match=words):
        seeds_from_lasso(shape, polygon)
