"""Blocks: even sizes, the least seam, overlaps as the paper has them."""

import numpy as np
import pytest

from dope import Energy, Partition


def layout(partition):
    axes = len(partition.shape)
    return tuple(len({block.where[a].start for block in partition.blocks}) for a in range(axes))


def test_a_number_of_blocks_is_laid_out_with_the_least_seam():
    assert layout(Partition.grid((100, 200), 2)) == (1, 2)
    assert layout(Partition.grid((2160, 3840), 128)) == (8, 16)
    assert layout(Partition.grid((200, 200, 100), 64)) == (4, 4, 4)


@pytest.mark.parametrize(("shape", "blocks"), [((10, 7), 6), ((5, 5, 5), 8), ((17,), 5), ((3, 3, 3, 3), 16)])
def test_blocks_are_even_and_cover(shape, blocks):
    partition = Partition.grid(shape, blocks)
    covered = np.zeros(shape, int)
    for block in partition.blocks:
        covered[block.where] += 1
    assert (covered == 1).all()
    assert len(partition.blocks) == blocks
    for axis in range(len(shape)):
        sides = [block.where[axis].stop - block.where[axis].start for block in partition.blocks]
        assert max(sides) - min(sides) <= 1


def test_overlap_grows_each_side_half_on_either_side():
    quarter = Partition.grid((120,), 3, overlap=0.25)
    assert [(b.where[0].start, b.where[0].stop) for b in quarter.blocks] == [(0, 45), (35, 85), (75, 120)]
    sites = Partition.grid((120,), 3, overlap=5)
    assert [(b.where[0].start, b.where[0].stop) for b in sites.blocks] == [(0, 43), (38, 83), (78, 120)]
    counted = np.zeros(120)
    for block in quarter.blocks:
        counted[block.where] += 1
    np.testing.assert_array_equal(quarter.multiplicity((slice(None),)), counted)


def test_explicit_cuts():
    partition = Partition.at((10, 8), [[3], [2, 6]])
    assert layout(partition) == (2, 3)
    assert partition.blocks[1].where == (slice(0, 3), slice(2, 6))


def test_metis_and_the_built_in_cut_cover_a_graph():
    pytest.importorskip("pymetis")
    first, second, weights = Energy.grid(np.zeros((12, 12))).pairs.edges()
    graph = Energy.graph(np.zeros(144), np.stack([first, second], 1), weights)
    for metis in (False, True):
        partition = Partition.graph(graph.pairs, 6, overlap=0.2, metis=metis)
        owned = np.concatenate([block.where[block.owned] for block in partition.blocks])
        np.testing.assert_array_equal(np.sort(owned), np.arange(144))
        assert all(len(block.where) > len(block.owned) for block in partition.blocks)
