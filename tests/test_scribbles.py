"""What is drawn becomes label numbers, and nothing else gets in."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from dope.errors import InputError
from dope.scribbles import BACKGROUND, FOREGROUND, UNLABELED, as_scribbles, as_seeds, check_scribbles

TYPES = st.sampled_from([np.uint8, np.int8, np.uint16, np.int64])
DRAWN = TYPES.flatmap(lambda kind: arrays(kind, array_shapes(max_dims=3), elements=st.integers(0, 2)))


@given(DRAWN)
def test_what_is_drawn_is_a_label_number(drawn):
    seeds = as_seeds("scribbles", drawn)
    assert seeds.dtype == np.int8
    for number, label in ((0, UNLABELED), (1, FOREGROUND), (2, BACKGROUND)):
        assert np.array_equal(seeds == label, drawn == number)


@given(DRAWN)
def test_label_numbers_are_drawn_as_they_were(drawn):
    assert np.array_equal(as_scribbles(as_seeds("scribbles", drawn)), drawn)


def test_label_numbers_of_foreground_are_where_labels_are_true():
    assert as_seeds("scribbles", [[2, 1]]).astype(bool).tolist() == [[False, True]]


def test_arrays_handed_in_stay_as_they_are():
    drawn = np.array([0, 1, 2], dtype=np.int8)
    seeds = as_seeds("scribbles", drawn)
    assert drawn.tolist() == [0, 1, 2] and not np.shares_memory(drawn, seeds)
    as_scribbles(seeds)
    assert seeds.tolist() == [-1, 1, 0]


@pytest.mark.parametrize(
    ("drawn", "words"),
    [
        (
            [[0, 3]],
            r"scribbles: label 3 at \(0, 1\); expected .*, 2 background \(two labels so far\)",
        ),
        ([0, 1, -1], r"label -1 at \(2,\); expected 0 none, 1 foreground, 2 background$"),
        ([1.0, 2.0], "type float64; expected integers"),
        ([True, False], "type bool"),
        (np.zeros((0, 3), dtype=int), "empty"),
    ],
)
def test_what_stands_for_no_label_is_refused(drawn, words):
    with pytest.raises(InputError, match=words):
        as_seeds("scribbles", drawn)


def test_fractions_in_files_are_refused_and_whole_floats_are_not():
    check_scribbles("a.tif", np.array([0.0, 1.0, 2.0]))
    with pytest.raises(InputError, match=r"a.tif: label 1.5 at \(1,\)"):
        check_scribbles("a.tif", np.array([0.0, 1.5]))
    with pytest.raises(InputError, match=r"label nan at \(0,\)"):
        check_scribbles("a.tif", np.array([np.nan, 2.0]))


@pytest.mark.parametrize(("drawn", "kind"), [([0, 2], r"foreground \(1\)"), ([1, 0], r"background \(2\)")])
def test_models_need_both_kinds(drawn, kind):
    as_seeds("scribbles", drawn)
    with pytest.raises(InputError, match=f"scribbles hold no {kind}"):
        as_seeds("scribbles", drawn, both=True)
