"""A segmentation in boxes is the one in memory, to the bit: labels and energy, whatever is known about the image."""

import json
import pickle
from dataclasses import dataclass, replace
from typing import Any
from unittest import mock

import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageDraw

import dope
from dope import Bracketing, InputError, Partition, Run, Segmentation, Serial, Threads
from dope.io import open_labels, read_scribbles, write_image
from dope.io.images import scribbles
from dope.io.images.scribbles import DrawnStrokes
from dope.models import ColorClusters, ColorMixture, GreyHistogram, Sample, channels, connected_to_seeds
from dope.models.seeds import Lasso
from dope.scribbles import UNLABELED, as_seeds
from dope.segmentation.boxes import whole_of
from dope.segmentation.connecting import keep_connected_in_boxes
from dope.segmentation.frame import FramedTarget
from dope.segmentation.kept_labels import KeptLabels
from dope.segmentation.sampling import Scene, sample_in_boxes
from dope.segmentation.seed_map import SeedMap
from dope.stored import Stored
from profiles import examples, slow_but
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


def blocks_of(known):
    arrays = [known[name] for name in ("scribbles", "probability") if name in known]
    return (3, 2, 2)[: np.ndim(arrays[0]) if arrays else len(known.get("rectangle", (0, 0)))]


def assert_same(found, expected):
    assert np.array_equal(np.asarray(found.labels), np.asarray(expected.labels))
    assert found.energy == expected.energy
    assert found.where == expected.where
    assert found.exact == expected.exact
    assert found.counts == expected.counts


@pytest.mark.parametrize("executor", slow_but([Serial(), Threads(2)], quick=[Threads(2)]), ids=["serial", "threads"])
@pytest.mark.parametrize("case", CASES)
def test_boxes_give_what_memory_gives(case, executor):
    image, known = CASES[case]
    expected = dope.segment(image, **known)
    found = dope.segment(image, **known, method=Bracketing(), blocks=blocks_of(known), executor=executor)
    assert found.plan.in_boxes and not expected.plan.in_boxes
    assert_same(found, expected)
    assert len(found.partition.blocks) > 1


@pytest.mark.parametrize("case", ["colours", "grey", "mask of grey", "rectangle", "rounds, connected", "volume"])
def test_thinned_samples_are_the_same(case, monkeypatch):
    monkeypatch.setattr(channels, "_FITTED_SITES", 37)
    monkeypatch.setattr(channels, "_RANGED_SITES", 50)
    image, known = CASES[case]
    expected = dope.segment(image, **known)
    assert_same(dope.segment(image, **known, method=Bracketing(), blocks=blocks_of(known)), expected)


@pytest.fixture(scope="module")
def local():
    pytest.importorskip("distributed")
    with dope.Dask("local:2") as executor:
        yield executor


@pytest.mark.parametrize("case", slow_but(CASES, quick=["mask and margin", "rounds, connected"]))
def test_other_processes_give_what_memory_gives(case, local):
    image, known = CASES[case]
    expected = dope.segment(image, **known)
    found = dope.segment(image, **known, blocks=blocks_of(known), executor=local)
    assert found.plan.in_boxes
    assert_same(found, expected)


@pytest.mark.slow
def test_memory_that_is_too_small_for_one_piece_is_enough():
    truth = disc((1700, 1700), 600)
    image, known = picture(truth), {"scribbles": strokes(truth), "rounds": 1, "connected": True}
    expected = dope.segment(image, **known)
    found = dope.segment(image, **known, memory="280MB")
    assert found.plan.in_boxes and not expected.plan.in_boxes
    assert_same(found, expected)


@pytest.mark.parametrize("case", ["colours", "rounds, connected", "rectangle"])
def test_a_run_is_resumed(case, tmp_path, monkeypatch):
    image, known = CASES[case]
    expected = dope.segment(image, **known)
    steps = []

    def stop(step):
        steps.append(step)
        return len(steps) == 4

    dope.segment(image, **known, checkpoint=tmp_path / "kept", blocks=(3, 2), watch=stop)
    again = dope.segment(image, **known, resume=tmp_path / "kept")
    assert_same(again, expected)
    monkeypatch.setattr("dope.methods.bracket_block.BoxWorker._prove", None)  # every proof is in a file
    assert_same(dope.segment(image, **known, resume=tmp_path / "kept"), expected)


@pytest.mark.parametrize(
    "case",
    slow_but(["colours", "mask", "mask and margin", "rounds", "unary, margin"], quick=["mask and margin", "rounds"]),
)
@pytest.mark.parametrize("kind", ["memory", "mapped", "zarr", "file"])
def test_labels_go_where_they_are_wanted(case, kind, tmp_path):
    image, known = CASES[case]
    expected = np.asarray(dope.segment(image, **known).labels)
    out: Any
    if kind == "memory":
        out = np.ones(TRUTH.shape, dtype=bool)
    elif kind == "mapped":
        out = np.lib.format.open_memmap(tmp_path / "out.npy", mode="w+", dtype=bool, shape=TRUTH.shape)
        out[...] = True
    elif kind == "zarr":
        out = zarr.create_array(str(tmp_path / "out.zarr"), shape=TRUTH.shape, chunks=(16, 16), dtype=bool)
        out[...] = True
    else:
        out = open_labels(tmp_path / "out.npy", TRUTH.shape)
    found = dope.segment(image, **known, out=out, method=Bracketing(), blocks=(2, 3))
    assert found.out is out and found.plan.in_boxes
    assert np.array_equal(found.labels, expected)
    assert found.counts == (TRUTH.size - expected.sum(), expected.sum())
    if kind == "file":
        out.commit()
        assert np.array_equal(np.load(tmp_path / "out.npy") != 0, expected)


@pytest.mark.parametrize("kind", ["json", "png", "npy", "zarr"])
def test_strokes_of_files_are_read_box_by_box(kind, tmp_path):
    path = tmp_path / f"strokes.{kind}"
    drawn = STROKES
    if kind == "json":
        entry = {"fg": [[[30, 22], [33, 26]], [[31, 20]]], "bg": [[[1, 1], [62, 3]]], "brush_radius": 2}
        path.write_text(json.dumps(entry))
        drawn = read_scribbles(path, TRUTH.shape)
    elif kind == "png":
        write_image(path, STROKES)
    elif kind == "npy":
        np.save(path, STROKES)
    else:
        zarr.create_array(str(path), data=STROKES, chunks=(11, 13))
    write_image(tmp_path / "photo.png", IMAGE)
    for more in ({}, {"margin": 0.2}):
        expected = dope.segment(IMAGE, scribbles=drawn, **more)
        said = Segmentation(image=tmp_path / "photo.png", scribbles=path, **more)
        assert_same(said.run(), expected)
        assert_same(replace(said, method=Bracketing(), blocks=(2, 3)).run(scratch=tmp_path), expected)


def test_going_on_after_another_stroke_keeps_the_colours():
    more = STROKES.copy()
    more[30:34, 30:34] = 1
    boxes = {"method": Bracketing(), "blocks": (2, 3)}
    first, boxed = (dope.segment(NOISY, scribbles=STROKES, **how) for how in ({}, boxes))
    expected = dope.segment(NOISY, scribbles=more, start=first)
    for start in (first, boxed):
        for how in ({}, boxes):
            assert_same(dope.segment(NOISY, scribbles=more, start=start, **how), expected)
    fresh = dope.segment(NOISY, scribbles=more)
    assert fresh.energy != expected.energy
    assert_same(dope.segment(NOISY, scribbles=more, start=dope.segment(IMAGE, scribbles=STROKES), **boxes), fresh)


@dataclass(frozen=True)
class Threshold:
    """A model that sees all of an image."""

    def unary(self, image, seeds):
        del seeds
        return (100 - np.asarray(image, dtype=np.float32)[..., 0]) / 10


BAD = {
    "a model that sees everything": ({"scribbles": STROKES, "model": Threshold()}, "expected one with learn"),
    "one kind": ({"scribbles": np.where(STROKES == 2, 0, STROKES)}, "scribbles hold no background"),
    "outside the mask": ({"scribbles": STROKES, "mask": STROKES != 1}, "no foreground stroke lies inside the mask"),
    "several classes": ({"scribbles": np.where(STROKES == 2, 7, STROKES)}, "Bracketing.* is for two labels"),
    "everything outlined": ({"rectangle": [(0, 48), (0, 64)]}, "the rectangle covers the whole image"),
    "nothing outlined": ({"lasso": [(0.1, 0.1), (0.2, 0.2), (0.1, 0.3)]}, "the polygon holds no site"),
    "an empty mask": ({"scribbles": STROKES, "mask": TRUTH & False}, "no site inside"),
    "huge lam": ({"scribbles": STROKES, "lam": 1e100}, "strokes take up to"),
    "another shape": ({"rectangle": [(6, 42), (12, 52)], "scribbles": STROKES[1:]}, "shape"),
}


@pytest.mark.parametrize(("known", "words"), BAD.values(), ids=BAD.keys())
def test_bad_input_is_refused_in_words(known, words):
    with pytest.raises(InputError, match=words):
        dope.segment(IMAGE, **known, method=Bracketing(), blocks=(2, 3))


@pytest.mark.parametrize("more", [{}, {"mask": MASK}, {"margin": 0.2}], ids=["all", "mask", "margin"])
def test_a_pixel_that_is_not_finite_is_named_by_its_place_in_the_image(more):
    image = IMAGE.astype(np.float32)
    image[25, 50, 1] = np.nan
    known = {"scribbles": INNER, **more}
    if "mask" in more:
        assert MASK[25, 50]
    for how in ({}, {"method": Bracketing(), "blocks": (2, 3)}):
        with pytest.raises(InputError, match=r"^image holds nan at \(25, 50\)"):
            dope.segment(image, **known, **how)


def test_a_run_in_boxes_is_cancelled_in_any_of_its_looks():
    said = Segmentation(image=NOISY, scribbles=STROKES, rounds=2, connected=True, method=Bracketing(), blocks=(4, 4))
    doings = []

    def listen(event):
        if isinstance(event, dope.BlockBegun) and event.doing not in doings:
            doings.append(event.doing)

    said.run(tell=listen)
    assert {"count", "pick", "measure", "prove", "finish", "join", "keep"} <= set(doings)
    for doing in doings:
        run = Run(said._job(None, None, None, None, {}))
        run._listener = lambda event, run=run, doing=doing: getattr(event, "doing", "") == doing and run.cancel()
        result = run.work()
        assert result.shape == TRUTH.shape


# What boxes are made of, against the whole.


@st.composite
def cut_grids(draw):
    """A shape and a partition of it."""
    shape = tuple(draw(st.lists(st.integers(1, 9), min_size=1, max_size=3)))
    cuts = [sorted(draw(st.sets(st.integers(1, n - 1), max_size=3))) if n > 1 else [] for n in shape]
    return shape, Partition.at(shape, cuts)


@examples(60)
@given(cut_grids(), st.integers(0, 2**32), st.sampled_from([1, 3, 1000]), st.booleans(), st.booleans())
def test_a_sample_does_not_show_the_boxes(grid, seed, most, masked, labelled):
    (shape, partition), rng = grid, np.random.default_rng(seed)
    image, drawn = rng.random((*shape, 2)), rng.integers(0, 3, shape)
    inside = rng.random(shape) < 0.7 if masked else np.ones(shape, dtype=bool)
    labels = KeptLabels(shape, partition.cuts)
    labels[whole_of(shape)] = rng.random(shape) < 0.5
    seeds = np.where(inside, as_seeds("seeds", drawn), np.int8(UNLABELED))
    if labelled:
        free = (seeds == UNLABELED) & inside
        seeds[free] = labels.at(whole_of(shape))[free]
    part = seeds[inside]
    if not all((part == label).any() for label in (0, 1)):
        return
    map_ = SeedMap(whole_of(shape), Stored.of("s", drawn), None, Stored.of("mask", inside) if masked else None)
    scene = Scene(Stored.of("image", image, channels=len(shape)), map_, labels if labelled else None)
    with mock.patch.multiple(channels, _FITTED_SITES=most, _RANGED_SITES=2 * most):
        expected = Sample.of(image[inside], part, looks_around=True)
        found = sample_in_boxes(scene, partition, Serial(), looks_around=True)
    for name in ("foreground", "background", "around"):
        assert np.array_equal(getattr(found, name), getattr(expected, name))


@examples(100)
@given(cut_grids(), st.integers(0, 2**32), st.sampled_from([0.2, 0.5, 0.8]), st.sampled_from([0.0, 0.05, 0.5]))
def test_connected_labels_do_not_show_the_boxes(grid, seed, share, stroked):
    (shape, partition), rng = grid, np.random.default_rng(seed)
    labels = rng.random(shape) < share
    drawn = np.where(rng.random(shape) < stroked, rng.integers(1, 3, shape), 0)
    kept = KeptLabels(shape, partition.cuts)
    kept[whole_of(shape)] = labels
    seeds = SeedMap(whole_of(shape), Stored.of("s", drawn), None, None)
    kinds = [label for label in (0, 1) if (as_seeds("s", drawn) == label).any()]
    found = keep_connected_in_boxes(kept, seeds, kinds, partition, Serial())
    expected = connected_to_seeds(labels, drawn)
    assert np.array_equal(found.at(whole_of(shape)), expected)
    assert found.ones == expected.sum() and found.same_as(kept) == np.array_equal(expected, labels)


@examples(60)
@given(st.integers(0, 2**32), st.sampled_from([0.0, 0.5, 1.0, 2.5, 9.7]), st.sampled_from([1, 200, 1 << 22]))
def test_strokes_are_drawn_alike_in_any_box(seed, radius, pixels):
    rng = np.random.default_rng(seed)
    height, width = (int(n) for n in rng.integers(4, 300, 2))
    lines = [(rng.random((rng.integers(1, 5), 2)) * [width, height] * 0.999).tolist() for _ in range(3)]
    strokes_ = {1: [[tuple(point) for point in line] for line in lines], 0: []}
    drawn = DrawnStrokes("strokes.json", (height, width), radius, strokes_)
    with mock.patch.object(scribbles, "_CANVAS_PIXELS", pixels):
        whole = np.asarray(drawn)
        rows, columns = (slice(*sorted(rng.integers(0, n + 1, 2).tolist())) for n in (height, width))
        assert np.array_equal(drawn[rows, columns], whole[rows, columns])
    canvas = Image.new("1", (width, height))  # all at once, as Pillow draws it
    draw = ImageDraw.Draw(canvas)
    for line in strokes_[1]:
        if len(line) > 1:
            draw.line(line, fill=1, width=max(1, round(2 * radius)))
        for x, y in line:
            draw.ellipse((x - radius, y - radius, x + radius, y + radius), fill=1)
    assert np.array_equal(whole == 1, np.array(canvas))


@examples(60)
@given(st.integers(0, 2**32))
def test_a_lasso_is_drawn_alike_in_any_box(seed):
    rng = np.random.default_rng(seed)
    shape = tuple(int(n) for n in rng.integers(1, 40, 2))
    lasso = Lasso.of(shape, rng.random((rng.integers(3, 8), 2)) * np.array(shape) * 1.4 - 3)
    box = tuple(slice(*sorted(rng.integers(0, n + 1, 2).tolist())) for n in shape)
    assert np.array_equal(lasso.inside_at(box), lasso.inside_at(whole_of(shape))[box])


@pytest.mark.parametrize("model", [ColorClusters(9), ColorMixture(), GreyHistogram()], ids=lambda m: type(m).__name__)
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float16, np.float32, np.float64])
def test_what_is_learnt_is_applied_to_each_pixel_by_itself(model, dtype):
    image = (GREY if isinstance(model, GreyHistogram) else NOISY).astype(dtype)
    rows = image.reshape(TRUTH.size, -1)
    colors = model.learn(Sample.of(rows, as_seeds("s", STROKES).reshape(-1), looks_around=True))
    whole = colors.unary(rows)
    assert np.array_equal(whole.reshape(TRUTH.shape), model.unary(image, STROKES))
    assert np.array_equal(pickle.loads(pickle.dumps(colors)).unary(rows), whole)
    for part in (slice(0, 1), slice(5, 18), slice(100, 1100), slice(3, None, 7)):
        assert np.array_equal(colors.unary(rows[part]), whole[part])
    assert np.array_equal(np.concatenate([colors.unary(rows[k : k + 1]) for k in range(200)]), whole[:200])


def test_clearing_around_a_frame_leaves_the_frame():
    whole = np.ones((5, 6, 7), dtype=bool)
    where = (slice(1, 3), slice(0, 4), slice(5, 7))
    FramedTarget(whole, where).clear_around(whole.shape)
    assert whole[where].all() and whole.sum() == whole[where].size
