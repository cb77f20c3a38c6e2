"""Tilings: one box is that of the list, and what travels with a block does not grow with the number of blocks."""

import pickle

from hypothesis import given
from hypothesis import strategies as st

from dope.methods.tiling import Tiling
from dope.partition import Partition


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 4)), min_size=1, max_size=3))
def test_a_box_is_that_of_the_list(axes):
    shape = [n for n, _ in axes]
    tiling = Tiling(shape, [sorted({i * n // k for i in range(1, k)} - {0, n}) for n, k in axes])
    assert [tiling.box(k) for k in range(len(tiling))] == tiling.boxes
    assert all(tiling.within(tiling.box(k)) == [k] for k in range(len(tiling)))


def test_what_travels_does_not_grow_with_the_number_of_boxes():
    tiling = Tiling((160,) * 3, Partition.grid((160,) * 3, (16,) * 3).cuts)
    assert len(tiling.boxes) == 4096 and len(pickle.dumps(tiling)) < 2000
    assert pickle.loads(pickle.dumps(tiling)).boxes == tiling.boxes
