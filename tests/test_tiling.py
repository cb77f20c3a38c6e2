"""Tilings: one box is that of the list, and what travels with a block does not grow with the number of blocks."""

import pickle

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dope import Energy
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


def test_blocks_across_a_corner_are_near_where_pairs_lead_there():
    tiling = Tiling((9, 9), [(3, 6), (3, 6)])
    middle = (slice(3, 6), slice(3, 6))
    along = Energy.grid(np.zeros((9, 9)), kernel=[(0, 1), (1, 0)]).pairs
    square = Energy.grid(np.zeros((9, 9)), kernel=3).pairs
    assert tiling.near(middle, along) == [1, 3, 4, 5, 7] and tiling.near(middle, square) == list(range(9))
    far = Energy.grid(np.zeros((9, 9)), kernel=[(0, 4)]).pairs
    assert tiling.near((slice(0, 3), slice(0, 3)), far) == [0, 1, 2]
