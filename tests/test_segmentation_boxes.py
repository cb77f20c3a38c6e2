"""A segmentation in boxes is the segmentation in memory, to the bit: labels and energy, from every kind of knowledge."""

import numpy as np
import pytest

import dope
from dope import Bracketing, InputError, Segmentation, Serial, Threads
from dope.models import ColorClusters, ColorMixture, GreyHistogram
from test_segmentation import IMAGE, STROKES, TRUTH, disc, picture, strokes

GREY = picture(TRUTH, channels=1)[..., 0]
NOISY = picture(TRUTH ^ (np.random.default_rng(5).random(TRUTH.shape) < 0.25))
BALL = disc((20, 24, 28), 8)
VOLUME = picture(BALL, channels=1)[..., 0]
MASK = np.zeros(TRUTH.shape, dtype=bool)
MASK[3:45, 6:60] = np.random.default_rng(0).random((42, 54)) < 0.9
INNER = np.zeros_like(STROKES)
INNER[22:26, 30:34], INNER[4:6, 12:52] = 1, 2
LASSO = [(5, 32), (24, 10), (43, 32), (24, 54)]
SPECKS = TRUTH.copy()
SPECKS[40:46, 2:12] = True
SPECKS[22:26, 20:23] = False

CASES = {
    "colours": (IMAGE, {"scribbles": STROKES}),
    "grey": (GREY, {"scribbles": STROKES}),
    "float": (IMAGE / 255, {"scribbles": STROKES, "kernel": 5}),
    "channels first": (np.moveaxis(IMAGE, -1, 0).astype(np.float32), {"scribbles": STROKES, "channel_axis": 0}),
    "volume": (VOLUME, {"scribbles": strokes(BALL), "spacing": (2.0, 1.0, 1.0)}),
    "line": (GREY[24], {"scribbles": STROKES[24] + 2 * (np.arange(64) < 5).astype(np.uint8)}),
    "given lam and beta": (IMAGE, {"scribbles": STROKES, "lam": 3.7, "beta": 1e-3}),
    "mixture": (NOISY, {"scribbles": STROKES, "model": ColorMixture()}),
    "clusters of grey": (GREY, {"scribbles": STROKES, "model": ColorClusters(clusters=9)}),
    "histogram": (GREY.astype(np.float64), {"scribbles": STROKES, "model": GreyHistogram(bins=20)}),
    "mask": (IMAGE, {"scribbles": INNER, "mask": MASK}),
    "mask of grey": (GREY, {"scribbles": INNER, "mask": MASK, "rounds": 1}),
    "margin": (IMAGE, {"scribbles": INNER, "margin": 0.1}),
    "mask and margin": (GREY, {"scribbles": INNER, "mask": MASK, "margin": 0.3, "connected": True}),
    "rectangle": (IMAGE, {"rectangle": [(6, 42), (12, 52)]}),
    "rectangle once": (IMAGE, {"rectangle": [(6, 42), (12, 52)], "rounds": 0}),
    "rectangle and strokes": (NOISY, {"rectangle": [(6, 42), (12, 52)], "scribbles": np.where(INNER == 1, 1, 0)}),
    "rectangle and mask": (GREY, {"rectangle": [(6, 42), (12, 52)], "mask": MASK, "connected": True}),
    "box": (VOLUME, {"rectangle": [(3, 17), (4, 20), (5, 23)], "rounds": 2}),
    "lasso": (NOISY, {"lasso": LASSO}),
    "rounds": (NOISY, {"scribbles": STROKES, "rounds": 2}),
    "rounds of grey": (GREY, {"scribbles": STROKES, "rounds": 3}),
    "connected": (picture(SPECKS), {"scribbles": STROKES, "connected": True}),
    "connected noise": (NOISY, {"scribbles": STROKES, "connected": True, "lam": 0.3}),
    "rounds, connected": (NOISY, {"scribbles": STROKES, "rounds": 2, "connected": True}),
    "volume, rounds, connected": (
        VOLUME ^ np.uint8(64),
        {"scribbles": strokes(BALL), "rounds": 2, "connected": True, "kernel": 5},
    ),
    "probability": (IMAGE, {"probability": np.where(TRUTH, 0.7, 0.3).astype(np.float32)}),
    "probability, strokes, mask, connected": (
        IMAGE,
        {"probability": np.where(TRUTH, 0.7, 0.3), "scribbles": INNER, "mask": MASK, "connected": True},
    ),
    "unary, margin": (GREY, {"unary": np.random.default_rng(2).normal(0, 1, TRUTH.shape), "scribbles": INNER,
                             "margin": 0.2}),
}  # fmt: skip


def blocks_of(image, known):
    axes = next(np.ndim(known[name]) for name in ("scribbles", "probability") if name in known) if (
        "scribbles" in known or "probability" in known) else len(known.get("rectangle", (0, 0)))  # fmt: skip
    return (3, 2, 2)[:axes]


def assert_same(found, expected):
    assert np.array_equal(np.asarray(found.labels), np.asarray(expected.labels))
    assert found.energy == expected.energy
    assert found.where == expected.where
    assert found.exact == expected.exact
    assert found.counts == expected.counts


@pytest.mark.parametrize("executor", [Serial(), Threads(2)], ids=["serial", "threads"])
@pytest.mark.parametrize("case", CASES)
def test_boxes_give_what_memory_gives(case, executor):
    image, known = CASES[case]
    expected = dope.segment(image, **known)
    found = dope.segment(image, **known, method=Bracketing(), blocks=blocks_of(image, known), executor=executor)
    assert found.plan.in_boxes and not expected.plan.in_boxes
    assert_same(found, expected)
    assert len(found.partition.blocks) > 1
