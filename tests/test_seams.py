"""Columns over seams: both blocks list the same pairs and sites, in the same order, and all that there are."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dope.methods.seams import Seams, blocks_with, boxes_told, narrowed, parted, seams_told
from dope.methods.tiling import Tiling, sides
from dope.pairs import GridPairs
from dope.partition import Partition

KERNELS = {
    "4": [[0, 1], [1, 0]],
    "8": [[0, 1], [1, -1], [1, 0], [1, 1]],
    "far": [[0, 3], [2, -1], [1, 0]],
}


def around(box, shape, offsets):
    reach = np.abs(offsets).max(axis=0)
    return tuple(
        slice(max(0, s.start - r), min(n, s.stop + r)) for s, r, n in zip(box, reach.tolist(), shape, strict=True)
    )


def places(sites, region):
    """Sites of a region as places of the whole."""
    found = np.unravel_index(sites, sides(region))
    return list(zip(*(place + s.start for place, s in zip(found, region, strict=True)), strict=True))


def inside(place, box):
    return all(s.start <= p < s.stop for p, s in zip(place, box, strict=True))


def pairs_between(one, other, offsets, shape):
    """All of them, one by one."""
    whole = tuple(slice(0, n) for n in shape)
    found = set()
    for first in np.ndindex(*shape):
        for offset in np.concatenate([offsets, -offsets]):
            second = tuple(int(p + o) for p, o in zip(first, offset, strict=True))
            if inside(second, whole) and inside(first, one) and inside(second, other):
                found.add((first, second))
    return found


@given(
    kernel=st.sampled_from(sorted(KERNELS)),
    cuts=st.tuples(*[st.lists(st.integers(1, 8), max_size=2, unique=True)] * 2),
    draw=st.randoms(use_true_random=False),
)
def test_both_ends_list_the_same_pairs_and_sites(kernel, cuts, draw):
    shape, offsets = (9, 9), np.array(KERNELS[kernel])
    boxes = {}
    for k, block in enumerate(Tiling(shape, cuts).boxes):  # some part of each, as of open sites
        low = [draw.randrange(s.start, s.stop) for s in block]
        boxes[k] = tuple(slice(a, draw.randrange(a, s.stop) + 1) for a, s in zip(low, block, strict=True))
    regions = {k: around(box, shape, offsets) for k, box in boxes.items()}
    near = {k: {n: other for n, other in boxes.items() if n != k} for k in boxes}
    seams = {k: Seams.of(k, boxes[k], near[k], regions[k], offsets) for k in boxes}
    for k, mine in seams.items():
        first, second = places(mine.first, regions[k]), places(mine.second, regions[k])
        here, there = places(mine.here, regions[k]), places(mine.there, regions[k])
        for n in near[k]:
            expected = pairs_between(boxes[k], boxes[n], offsets, shape)
            assert (n in mine.pairs) == bool(expected) == (k in seams[n].pairs)
            if not expected:
                continue
            cut, back, region = mine.pairs[n], seams[n].pairs[k], regions[n]
            listed = list(zip(first[cut], second[cut], strict=True))
            assert len(listed) == len(expected) and set(listed) == expected
            assert first[cut] == places(seams[n].second, region)[back]
            assert second[cut] == places(seams[n].first, region)[back]
            assert here[mine.mine[n]] == places(seams[n].there, region)[seams[n].theirs[k]]
            assert {one for one, _ in expected} <= set(here[mine.mine[n]])
            assert {one for _, one in expected} <= set(there[mine.theirs[n]])
        told = seams_told(boxes_told(k, boxes[k], near[k]), regions[k], offsets)
        assert all(np.array_equal(a, b) for a, b in zip(told.columns, mine.columns, strict=True))
        assert told.pairs == mine.pairs


def test_a_column_by_blocks():
    cut = {3: slice(0, 2), 5: slice(2, 5)}
    assert blocks_with(np.array([False, False, True, False, False]), cut) == [5]
    assert {n: part.tolist() for n, part in parted(cut, np.arange(5)).items()} == {3: [0, 1], 5: [2, 3, 4]}


@pytest.mark.parametrize(("value", "kind"), [(2**31 - 1, np.int32), (-(2**31), np.int32), (2**31, np.int64)])
def test_flows_take_half_the_bytes_where_these_hold_them(value, kind):
    column = np.array([0, value], dtype=np.int64)
    assert narrowed(column).dtype == kind
    assert narrowed(column).tolist() == column.tolist()


@pytest.mark.parametrize(("kernel", "number"), [("4", 2), ("8", 4)])
def test_blocks_are_apart_in_as_few_classes_as_their_kernel_allows(kernel, number):
    offsets = np.array(KERNELS[kernel])
    partition = Partition.at((12, 12), [[4, 8], [4, 8]])
    pairs = GridPairs((12, 12), offsets, np.ones(len(offsets)), np.ones((len(offsets), 2)))
    classes = partition.apart(pairs)
    assert len(classes) == number
    assert sorted(k for one in classes for k in one) == list(range(9))
    for one in classes:
        for k in one:
            for n in set(one) - {k}:
                assert not pairs_between(partition.blocks[k].where, partition.blocks[n].where, offsets, (12, 12))
