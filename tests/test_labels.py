"""Labels as integers: their types, their number, what two labellings have in common, and their colours."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from dope import label_counts
from dope.arrays import as_numbered_labels, label_type
from dope.errors import InputError
from dope.label_counts import Overlap, count_labels, label_numbers, several_labels
from dope.palette import label_colors

SHAPES = array_shapes(min_dims=1, max_dims=3, max_side=7)


def labellings(number):
    return SHAPES.flatmap(
        lambda shape: st.tuples(*[arrays(np.uint16, shape, elements=st.integers(0, number - 1)) for _ in range(2)])
    )


@pytest.mark.parametrize(
    ("number", "kind"), [(2, "bool"), (3, "uint8"), (256, "uint8"), (257, "uint16"), (65536, "uint16")]
)
def test_the_type_follows_from_how_many_labels_there_are(number, kind):
    assert label_type(number) == kind
    labels = np.array([0, number - 1])
    assert as_numbered_labels(labels).dtype == as_numbered_labels(labels, number).dtype == kind
    assert as_numbered_labels([0, 0], number).dtype == kind
    assert np.array_equal(as_numbered_labels(labels), labels)
    assert as_numbered_labels(labels.astype(float)).dtype == kind


@pytest.mark.parametrize("number", [-3, 0, 1, 70_000])
def test_numbers_of_labels_that_there_cannot_be(number):
    with pytest.raises(InputError, match=f"{number:,} labels; expected 2 to 65,536"):
        label_type(number)


@pytest.mark.parametrize(
    ("labels", "number", "words"),
    [
        ([0, -1], None, "there is -1 in labels; expected the numbers of labels, 0 to 65535"),
        ([5, -1], None, "there is -1 in labels; expected the numbers of labels, 0 to 65535"),
        ([0, 3], 3, "there is 3 in .*; expected the numbers of labels, 0 to 2"),
        ([0, 70_000], None, "there is 70000 in labels; expected the numbers of labels, 0 to 65535"),
        ([0.0, 2.5], None, "there is 2.5 in labels .*; expected whole numbers"),
        ([0.0, np.nan], None, "there is nan in labels .*; expected whole numbers"),
        ([0.0, np.inf], None, "there is inf in labels .*; expected whole numbers"),
        ([0, 2], 2, "that are 0 and 1"),
        (["a"], None, "the dtype of labels is <U1; expected whole numbers"),
    ],
)
def test_what_is_no_label_is_refused(labels, number, words):
    with pytest.raises(InputError, match=words):
        as_numbered_labels(labels, number)


@given(labellings(5))
def test_counts_are_those_of_plain_sums(both):
    one, other = both
    counts = count_labels(one, 5)
    assert counts.tolist() == [(one == label).sum() for label in range(5)]
    assert label_numbers(one) == sorted(set(one.ravel().tolist()))
    found = Overlap.of(one.astype(np.uint8), other)
    assert found.differing == (one != other).sum()
    assert found.labels == sorted({*one.ravel().tolist(), *other.ravel().tolist()})
    for label in found.labels:
        a, b = one == label, other == label
        assert found.dice(label) == 2 * (a & b).sum() / (a.sum() + b.sum())


@given(labellings(2))
def test_two_labels_as_numbers_or_bool_are_the_same(both):
    one, other = both
    found = [Overlap.of(a, b) for a in (one, one > 0) for b in (other, other > 0)]
    for name in ("first", "second", "common"):
        assert len({tuple(getattr(part, name).tolist()) for part in found}) == 1
    assert found[0].dice(1) == (1.0 if not (one | other).any() else found[0].dice(1))


def test_pieces_add_up(monkeypatch):
    monkeypatch.setattr(label_counts, "_PIECE", 50)
    random = np.random.default_rng(0)
    one, other = (random.integers(0, 300, (9, 10, 11)).astype(np.uint16) for _ in range(2))
    for view in (one, one[::-1, ::2], np.asfortranarray(one)):
        assert count_labels(view).tolist() == np.bincount(view.ravel()).tolist()
    assert Overlap.of(one, other.transpose(0, 1, 2)).differing == (one != other).sum()


def test_a_label_that_nobody_has_agrees():
    assert Overlap.of(np.zeros(3, bool), np.zeros(3, bool)).dice(1) == 1.0


@pytest.mark.parametrize(
    ("labels", "several"),
    [([0, 1], []), ([0, 255], []), ([0, 1, 2], [1, 2]), ([3, 3], []), ([3, 4], [3, 4]), ([-1, 2, 3], []),
     ([0.0, 0.5, 1.0], []), ([True, False], []), ([1, 2, 10**9], [])],
)  # fmt: skip
def test_several_labels_are_more_than_one_object(labels, several):
    assert several_labels(np.array(labels)) == several


def test_colors_of_labels_differ_and_stay():
    colors = label_colors(256)
    assert colors.shape == (256, 3) and colors.dtype == np.uint8 and not colors[0].any()
    assert len(np.unique(colors, axis=0)) == 256
    for number in (1, 2, 5, 8, 9, 100):
        assert np.array_equal(label_colors(number), colors[:number])
    assert len(label_colors(65536)) == 65536
    # Those that are drawn beside each other as a rule are easily told apart.
    first = colors[:16].astype(int)
    far = np.abs(first[:, None] - first).sum(axis=-1) + 1000 * np.eye(16, dtype=int)
    assert far.min() > 60
