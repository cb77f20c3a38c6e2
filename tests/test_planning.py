"""Plans: what they count is what there is, and what they say about memory holds."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dope
from dope import Energy, InputError, Partition
from dope.memory import as_bytes, as_text
from dope.planning import Plan


@given(st.lists(st.integers(1, 9), min_size=1, max_size=3), st.sampled_from([3, 5]), st.integers(1, 8))
def test_a_plan_counts_what_there_is(shape, kernel, blocks):
    shape = tuple(shape)
    energy = Energy.grid(np.zeros(shape), kernel=kernel)
    try:
        partition = Partition.grid(shape, blocks)
    except InputError:
        return
    plan = Plan.of(shape, kernel=kernel, blocks=blocks)
    assert (plan.sites, plan.pairs) == (energy.unary.size, energy.pairs.number)
    assert plan.blocks == len(partition.blocks) == math.prod(plan.layout)
    assert plan.block_shape == tuple(np.max([[s.stop - s.start for s in b.where] for b in partition.blocks], axis=0))
    coupled = np.zeros(shape, dtype=bool)
    for axis, (n, k, reach) in enumerate(zip(shape, plan.layout, energy.pairs.reach, strict=True)):
        piece = np.searchsorted([i * n // k for i in range(1, k)], np.arange(n), side="right")
        near = [any(piece[max(0, x - reach) : x + reach + 1] != piece[x]) for x in range(n)]
        coupled |= np.array(near).reshape([-1 if a == axis else 1 for a in range(len(shape))])
    assert plan.coupled_sites == coupled.sum()


def test_blocks_fit_into_a_workers_memory():
    plan = Plan.of((10_000, 10_000, 5_000), kernel=3, workers=100, memory=as_bytes("16GB"))
    assert plan.block_bytes <= 16e9 and plan.blocks >= 100
    assert plan.sites == 5 * 10**11
    assert plan.bytes > 10**13
    assert 0 < plan.round_bytes < 0.02 * plan.sites * 9
    smaller = Plan.of((10_000, 10_000, 5_000), kernel=3, workers=100, memory=as_bytes("1GB"))
    assert smaller.blocks > plan.blocks and smaller.block_bytes <= 1e9


def test_the_number_of_blocks_is_the_one_that_is_used():
    for shape, kernel in [((64, 64), 3), ((1200, 1300), 7)]:
        unary = np.zeros(shape, dtype=np.float32)
        assert Plan.of(shape, kernel=kernel).blocks == dope.api.automatic_blocks(
            Energy.grid(unary, kernel=kernel).pairs, dope.Exact()
        )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [({"shape": ()}, "shape is"), ({"shape": (4, 0)}, "shape is"), ({"shape": (4, 4), "workers": 0}, "workers is 0"),
     ({"shape": (50, 50), "memory": 10}, "no block fits")],
)  # fmt: skip
def test_bad_plans_are_refused(arguments, words):
    with pytest.raises(InputError, match=words):
        Plan.of(**arguments)


def test_an_estimate_of_time_is_positive_and_follows_the_size():
    small, large = (Plan.of((side, 1000), kernel=3).seconds() for side in (300, 30_000))
    assert 0 < small < large


@pytest.mark.parametrize("number", [1, 999, 1500, 16 * 10**9, 3 * 10**13])
def test_sizes_in_words_come_back(number):
    assert as_bytes(as_text(number).replace("bytes", "")) == pytest.approx(number, rel=0.01)


@pytest.mark.parametrize("text", ["", "GB", "-3GB", "1e400", "12 parsecs", "nan", "0"])
def test_words_that_are_no_size_are_refused(text):
    with pytest.raises(InputError, match="not a size of memory"):
        as_bytes(text)
