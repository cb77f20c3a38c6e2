"""`dope.segment` with several classes: scribbles of any numbers, and probability maps with an axis of classes."""

import json
import pickle
import threading

import nibabel
import numpy as np
import pytest
import zarr
from typer.testing import CliRunner

import dope
from dope import InputError, Segmentation, cli
from dope.io import write_image
from dope.models import (
    ClassSample,
    ColorClusters,
    ColorMixture,
    GreyHistogram,
    Sample,
    probability_costs,
    probability_unary,
)
from dope.segmentation.class_subject import ClassSubject, NumberedTarget
from dope.segmentation.classes import Classes
from dope.segmentation.subject import Settings
from dope.stored import Stored

SHAPE = (40, 52)
COLORS = {1: (200, 60, 60), 2: (60, 190, 70), 5: (60, 60, 210), 300: (190, 190, 80)}


def quarters(numbers=tuple(COLORS)):
    truth = np.zeros(SHAPE, dtype=np.int64)
    truth[:20, :26], truth[:20, 26:], truth[20:, :26], truth[20:, 26:] = numbers
    return truth


TRUTH = quarters()


def picture(truth=TRUTH, noise=20.0):
    rng = np.random.default_rng(1)
    image = np.zeros((*truth.shape, 3))
    for number, color in zip(np.unique(truth), COLORS.values(), strict=False):
        image[truth == number] = color
    return np.clip(image + rng.normal(0, noise, image.shape), 0, 255).astype(np.uint8)


def strokes(truth=TRUTH):
    drawn = np.zeros(truth.shape, dtype=np.int32)
    for number in np.unique(truth):
        rows, columns = np.nonzero(truth == number)
        middle = int(rows.mean()), int(columns.mean())
        drawn[tuple(slice(m - 3, m + 4) for m in middle)] = number
    return drawn


IMAGE, DRAWN = picture(), strokes()


def softmax(shape=(6, 9, 8), classes=4, seed=0, sharp=3.0):
    logits = np.random.default_rng(seed).normal(0, sharp, (*shape, classes))
    odds = np.exp(logits)
    return odds / odds.sum(axis=-1, keepdims=True)


def test_four_colours_and_four_strokes():
    result = dope.segment(IMAGE, scribbles=DRAWN)
    assert result.labels.dtype == np.uint16 and np.mean(result.labels != TRUTH) < 0.01
    assert dict(result.classes) == {1: "1", 2: "2", 5: "5", 300: "300"}
    assert "4 of 4 classes" in repr(result)
    assert result.counts == tuple(np.bincount(result.labels.ravel(), minlength=301))
    assert (result.labels[DRAWN > 0] == DRAWN[DRAWN > 0]).all()
    places = np.searchsorted(list(result.classes), result.labels)
    assert result.problem is not None
    assert result.problem(places) == result.energy


@pytest.mark.parametrize("model", [None, ColorClusters(3), ColorMixture(), GreyHistogram()], ids=repr)
def test_two_classes_are_two_labels(model):
    truth = quarters((1, 1, 2, 2))
    image, drawn = picture(truth, noise=60.0), strokes(truth)
    image = image[..., 0] if isinstance(model, GreyHistogram) else image
    two = dope.segment(image, scribbles=drawn, model=model)
    several = dope.segment(image, scribbles=drawn, model=model, classes=2)
    assert two.labels.dtype == bool and several.labels.dtype == np.uint8
    np.testing.assert_array_equal(several.labels == 1, two.labels)
    assert set(np.unique(several.labels)) == {1, 2}
    assert two.problem is not None and several.problem is not None
    # Energies are counted from other zeros: here from the more likely class of each site, there from background.
    background = several.problem(np.ones(SHAPE, dtype=np.uint8)) - two.problem(np.zeros(SHAPE, dtype=bool))
    assert several.energy - two.energy == pytest.approx(background, abs=1e-6 * abs(background))


@pytest.mark.parametrize("model", [ColorClusters(), ColorMixture(), GreyHistogram()], ids=repr)
def test_models_of_two_classes_say_what_those_of_two_labels_say(model):
    rng = np.random.default_rng(0)
    channels = 1 if isinstance(model, GreyHistogram) else 3
    first, second, rows = (rng.normal(mean, 30, (500, channels)) for mean in (80, 150, 110))
    around = rows if model.looks_around else rows[:0]
    unary = model.learn(Sample(first, second, around)).unary(rows)
    costs = model.learn_classes(ClassSample((first, second), around)).costs(rows)
    np.testing.assert_array_equal(costs[:, 0] - costs[:, 1], unary)
    assert costs.min() == 0 and (costs.min(axis=1) == 0).all()


def test_a_probability_of_two_classes_is_one_of_foreground():
    image = np.random.default_rng(2).integers(0, 255, (20, 24)).astype(np.uint8)
    p = softmax((20, 24), 2)
    several, two = dope.segment(image, probability=p), dope.segment(image, probability=p[..., 1])
    np.testing.assert_array_equal(several.labels, two.labels)
    assert several.labels.dtype == np.uint8
    costs = probability_costs(p)
    np.testing.assert_allclose(costs[..., 1] - costs[..., 0], probability_unary(p[..., 1]), atol=2e-6)


@pytest.mark.parametrize("dtype", [np.float64, np.float16, np.uint8, np.uint16])
def test_classes_first_and_last_agree(dtype):
    image = np.random.default_rng(2).integers(0, 255, (6, 9, 8)).astype(np.int16)
    p = softmax()
    soft = (p * np.iinfo(dtype).max).round().astype(dtype) if np.dtype(dtype).kind == "u" else p.astype(dtype)
    last = dope.segment(image, probability=soft)
    first = dope.segment(image, probability=np.moveaxis(soft, -1, 0))
    middle = dope.segment(image, probability=np.moveaxis(soft, -1, 1), label_axis=1)
    for other in (first, middle):
        np.testing.assert_array_equal(other.labels, last.labels)
        assert other.energy == last.energy
    energy = dope.LabelEnergy.grid(probability_costs(soft), lam=0.0, features=image)
    alone = dope.segment(image, probability=soft, lam=0.0)
    assert alone.energy == energy(probability_costs(soft).argmin(axis=-1))


def test_negative_scribbles_take_no_part():
    drawn = DRAWN.copy()
    drawn[:, :10] = -1
    result = dope.segment(IMAGE, scribbles=drawn)
    assert not result.labels[:, :10].any() and result.labels[:, 10:].all()
    mask = drawn >= 0
    same = dope.segment(IMAGE, scribbles=np.maximum(drawn, 0), mask=mask)
    np.testing.assert_array_equal(same.labels, result.labels)
    assert same.energy == result.energy
    both = dope.segment(IMAGE, scribbles=drawn, mask=np.arange(SHAPE[1]) + np.zeros(SHAPE, dtype=int) < 45)
    assert not both.labels[:, 45:].any() and not both.labels[:, :10].any() and both.labels[:, 10:45].all()


def test_two_numbers_and_inactive_sites_are_classes():
    truth = quarters((1, 1, 2, 2))
    drawn = strokes(truth)
    drawn[:, :3] = -1
    result = dope.segment(picture(truth), scribbles=drawn)
    assert set(np.unique(result.labels)) == {0, 1, 2} and not result.labels[:, :3].any()


def test_labels_so_far_have_the_numbers_of_classes():
    seen, runs, begun = [], [], threading.Event()

    def watch(step):
        assert step.labels is not None or step.open is not None
        assert begun.wait(10)
        seen.append(runs[0].labels())

    runs.append(Segmentation(image=IMAGE, scribbles=DRAWN).start(watch=watch))
    begun.set()
    runs[0].result()
    assert seen and set(np.unique(seen[-1])) <= set(COLORS) and seen[-1].dtype == np.uint16


def test_a_run_that_is_cancelled_at_once_is_a_result():
    run = Segmentation(image=IMAGE, scribbles=DRAWN).start(watch=lambda _: True)
    result = run.result()
    assert result.stopped == "cancelled" and set(np.unique(result.labels)) <= set(COLORS)


def test_margin_and_out():
    drawn = np.zeros(SHAPE, dtype=np.uint8)
    drawn[10, 10], drawn[10, 40], drawn[15, 12] = 1, 2, 3
    out = np.full(SHAPE, 9, dtype=np.uint8)
    result = dope.segment(IMAGE, scribbles=drawn, margin=0.5, out=out)
    assert result.out is out and (result.labels == out).all()
    inside = np.zeros(SHAPE, dtype=bool)
    inside[result.where] = True
    assert out[inside].all() and not out[~inside].any()
    assert sum(result.counts) == out.size
    with pytest.raises(InputError, match="for 2 labels; expected one that holds 4"):
        dope.segment(IMAGE, scribbles=drawn, out=np.zeros(SHAPE, dtype=bool))


def test_scribbles_over_a_probability_fix_its_classes():
    p = softmax(SHAPE, 4)
    drawn = np.zeros(SHAPE, dtype=np.uint8)
    drawn[3:6, 3:6], drawn[30:33, 30:33] = 1, 3
    result = dope.segment(IMAGE, probability=p, scribbles=drawn, classes=["rest", "a", "b", "c"])
    assert (result.labels[3:6, 3:6] == 1).all() and (result.labels[30:33, 30:33] == 3).all()
    assert dict(result.classes) == {0: "rest", 1: "a", 2: "b", 3: "c"}


def test_going_on_keeps_the_colours():
    first = dope.segment(IMAGE, scribbles=DRAWN)
    more = DRAWN.copy()
    more[2:4, 2:4] = 2
    second = dope.segment(IMAGE, scribbles=more, start=first)
    assert (second.labels[2:4, 2:4] == 2).all()
    assert np.mean(second.labels != first.labels) < 0.02
    afresh = dope.segment(IMAGE, scribbles=DRAWN, start=first)
    np.testing.assert_array_equal(afresh.labels, first.labels)


def test_the_same_value_can_be_written_down(tmp_path):
    write_image(tmp_path / "a.png", IMAGE)
    said = Segmentation(image=str(tmp_path / "a.png"), scribbles=str(tmp_path / "s.json"), classes=("a", "b", "c"))
    again = Segmentation.from_json(said.to_json())
    assert again.classes == ("a", "b", "c") and again.to_json() == said.to_json()
    assert "classes" not in Segmentation(image="a.png", scribbles="s.json").to_json()


def test_strokes_of_json_have_names(tmp_path):
    write_image(tmp_path / "a.png", IMAGE)
    places = {"red": [[[8, 8], [12, 12]]], "green": [[[40, 8]]], "blue": [[[8, 30]]], "sand": [[[40, 30]]]}
    (tmp_path / "s.json").write_text(json.dumps({"brush_radius": 2, "classes": places}))
    said = {"image": str(tmp_path / "a.png"), "scribbles": str(tmp_path / "s.json")}
    result = Segmentation(**said).run()
    assert dict(result.classes) == dict(enumerate(places, 1))
    assert np.mean(result.labels != quarters((1, 2, 3, 4))) < 0.01
    turned = Segmentation(**said, classes=("sand", "blue", "green", "red")).run()
    np.testing.assert_array_equal(turned.labels, 5 - result.labels.astype(int))
    with pytest.raises(InputError, match="class 'red' is in the file alone"):
        Segmentation(**said, classes=("sand", "blue", "green")).run()


@pytest.mark.parametrize(
    ("drawn", "words"),
    [
        ({"classes": {"a": [[[5, 5]]], "b": [[[40, 30]]]}}, "of 2 classes, and probability is a map of foreground"),
        ({"classes": {"a": [[[5, 5]]], "b": [[[40, 30]]]}, "fg": [[[9, 9]]]}, '"classes" beside "fg" or "bg"'),
    ],
)
def test_what_is_of_foreground_alone_is_refused_beside_named_strokes(drawn, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_image("photo.png", IMAGE)
    (tmp_path / "strokes.json").write_text(json.dumps(drawn))
    np.save("map.npy", np.full(SHAPE, 0.5, dtype=np.float32))
    result = run("segment", "photo.png", "--scribbles", "strokes.json", "--probability", "map.npy", "-o", "labels.png")
    assert result.exit_code == 2 and words in result.stderr and result.stderr.count("\n") == 1
    assert not (tmp_path / "labels.png").exists()


@pytest.mark.parametrize("suffix", ["npy", "png", "nii", "nii.gz", "tif", "zarr"])
def test_label_images_of_any_numbers(suffix, tmp_path):
    drawn = np.where(DRAWN == 300, 7, DRAWN)
    image, path = IMAGE[..., 0], tmp_path / f"drawn.{suffix}"
    if suffix == "zarr":
        zarr.create_array(str(path), data=drawn, chunks=(16, 16))
    elif suffix.startswith("nii"):
        nibabel.save(nibabel.Nifti1Image(drawn.astype(np.int16), np.eye(4)), path)
    elif suffix == "npy":
        np.save(path, drawn)
    else:
        dope.io.save_labels(path, drawn)
    expected = dope.segment(image, scribbles=drawn)
    np.testing.assert_array_equal(dope.segment(image, scribbles=path).labels, expected.labels)


@pytest.mark.parametrize("kind", ["nii", "nii.gz", "npz", "npy", "first.npy", "zarr"])
def test_probability_maps_in_files(kind, tmp_path):
    image = np.random.default_rng(2).integers(0, 255, (6, 9, 8)).astype(np.int16)
    nibabel.save(nibabel.Nifti1Image(image, np.eye(4)), tmp_path / "image.nii")
    p, path = softmax().astype(np.float32), tmp_path / f"p.{kind}"
    if kind.startswith("nii"):
        nibabel.save(nibabel.Nifti1Image(p, np.eye(4)), path)
    elif kind == "npz":
        np.savez(path, probabilities=np.moveaxis(p, -1, 0))
    elif kind == "zarr":
        zarr.create_array(str(path), data=np.moveaxis(p, -1, 0), chunks=(4, 4, 4, 4))
    else:
        np.save(path, np.moveaxis(p, -1, 0) if kind.startswith("first") else p)
    said = Segmentation(image=tmp_path / "image.nii", probability=path)
    assert said.shape == (6, 9, 8)
    expected = dope.segment(image, probability=p, spacing=(1.0, 1.0, 1.0))
    np.testing.assert_array_equal(said.run().labels, expected.labels)


def bad_softmax(value, place=(2, 3, 4, 1)):
    p = softmax()
    p[place] = value
    return p


VOLUME = np.random.default_rng(2).integers(0, 255, (6, 9, 8)).astype(np.int16)


@pytest.mark.parametrize(
    ("image", "arguments", "words"),
    [
        (IMAGE, {"scribbles": np.where(DRAWN == 5, 5, 0)}, "hold class 5 alone; expected strokes of at least two"),
        (IMAGE, {"scribbles": np.minimum(-DRAWN, 0)}, "hold no class; expected strokes"),
        (IMAGE, {"scribbles": DRAWN * 1000}, r"class 300000 at \(26, 35\); expected numbers of at most 65,535"),
        (IMAGE, {"scribbles": np.where(DRAWN == 5, 70_000, DRAWN)}, "class 70000 at .*Number the classes from 1"),
        (IMAGE, {"scribbles": np.arange(40 * 52).reshape(SHAPE)}, "hold 2,079 classes; expected at most 1,024"),
        (IMAGE, {"scribbles": DRAWN, "classes": 4}, "hold class 5, and there are 4 classes; expected 1 to 4"),
        (IMAGE, {"scribbles": np.minimum(DRAWN, 3), "classes": 5}, "no stroke of classes 4, 5"),
        (IMAGE, {"scribbles": np.minimum(DRAWN, 3), "classes": list("abcd")}, "no stroke of class d"),
        (IMAGE, {"scribbles": DRAWN.astype(float)}, "type float64; .* or a number for each of several classes"),
        (IMAGE, {"scribbles": DRAWN.astype(float), "classes": 4}, "type float64; .* a number for each of several"),
        (IMAGE, {"scribbles": DRAWN, "classes": 1}, "classes is 1; expected 2 to 1,024 classes"),
        (IMAGE, {"scribbles": DRAWN, "classes": ["a"]}, "classes has 1 name; expected 2 to 1,024 classes"),
        (IMAGE, {"scribbles": DRAWN, "classes": 70_000}, "70,000; expected 2 to 1,024 classes"),
        (IMAGE, {"scribbles": DRAWN, "classes": ["a", "a"]}, "has 'a' twice"),
        (IMAGE, {"scribbles": DRAWN, "classes": "abc"}, "expected how many there are, or a name of each"),
        (IMAGE, {"scribbles": DRAWN, "connected": True}, "connected is for foreground and background"),
        (IMAGE, {"scribbles": DRAWN, "rounds": 2}, "rounds is for foreground and background"),
        (IMAGE, {"scribbles": DRAWN, "rectangle": ((2, 9), (2, 9))}, "rectangle is for foreground and background"),
        (IMAGE, {"scribbles": DRAWN, "probability": np.ones(SHAPE)}, r"map of foreground alone, shaped \(40, 52\)"),
        (IMAGE, {"scribbles": np.sign(-DRAWN), "probability": np.ones(SHAPE)}, "negative numbers, and probability is"),
        (IMAGE, {"scribbles": DRAWN, "label_axis": 0}, "label_axis is 0, without a probability"),
        (IMAGE, {"scribbles": DRAWN, "mask": TRUTH != 300}, "no stroke of class 300 lies inside the mask"),
        (VOLUME, {"probability": bad_softmax(np.nan)}, r"holds nan at \(2, 3, 4, 1\).*replace NaN"),
        (VOLUME, {"probability": bad_softmax(0.9, (2, 3, 4))}, r"of 4 classes adds up to 3.6 at \(2, 3, 4\)"),
        (VOLUME, {"probability": np.log(softmax())}, "expected numbers from 0 to 1.*softmax first"),
        (VOLUME, {"probability": softmax((6, 9, 8), 1)}, "with 1 classes on axis 3; expected 2 to 1,024"),
        (VOLUME, {"probability": softmax((9, 6, 8))}, "expected the image's sites, and an axis of classes"),
        (VOLUME, {"probability": softmax(), "label_axis": 0}, "label_axis=3 would fit"),
        (VOLUME, {"probability": softmax(), "label_axis": 7}, "expected an axis of probability"),
        (VOLUME, {"probability": np.moveaxis(softmax(), 3, 1)}, "label_axis=1 would fit"),
        (np.zeros((5, 5)), {"probability": softmax((5, 5), 5)}, "say label_axis=0 or label_axis=-1"),
        (VOLUME, {"probability": softmax(), "model": ColorClusters()}, "no colours are learnt. Leave model out"),
        (VOLUME, {"probability": softmax()[..., 0], "model": ColorClusters()}, "no colours are learnt. Leave model"),
        (VOLUME, {"probability": softmax(), "classes": 3}, "has 4 classes, and classes says 3"),
        (VOLUME, {"probability": softmax(), "scribbles": np.full((6, 9, 8), 4)}, "hold class 4, and probability has 4"),
        (VOLUME, {"probability": softmax()[..., 0], "classes": 2}, "leave classes and label_axis out"),
        (VOLUME, {"probability": np.zeros((70_000, 6, 9, 8), dtype=np.uint8)}, "70,000 classes on axis 0"),
    ],
)
def test_bad_input_is_refused_in_a_line(image, arguments, words):
    with pytest.raises(InputError, match=words) as error:
        dope.segment(image, **arguments)
    assert "\n" not in str(error.value)


def test_bytes_need_not_add_up_to_255():
    p = np.array([[250, 1], [250, 7], [128, 128]], dtype=np.uint8)
    assert probability_costs(p).shape == (3, 2)
    with pytest.raises(InputError, match=r"adds up to 1\.1"):
        probability_costs(np.array([[250, 35]], dtype=np.uint8))


def test_what_lies_outside_a_mask_may_be_anything():
    p, mask = softmax(), np.ones((6, 9, 8), dtype=bool)
    mask[0], p[0] = False, np.nan
    result = dope.segment(VOLUME, probability=p, mask=mask)
    assert not result.labels[0].any()
    part = dope.segment(VOLUME[1:], probability=p[1:])
    np.testing.assert_array_equal(result.labels[1:], part.labels)


def run(*arguments):
    return CliRunner().invoke(cli.app, [str(argument) for argument in arguments])


def test_the_command_tells_of_each_class(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    image = np.random.default_rng(2).integers(0, 255, (6, 9, 8)).astype(np.int16)
    header = nibabel.Nifti1Header()
    header.set_xyzt_units("mm")
    nibabel.save(nibabel.Nifti1Image(image, np.diag([2.0, 1, 1, 1]), header), "t1.nii")
    nibabel.save(nibabel.Nifti1Image(softmax().astype(np.float32), np.diag([2.0, 1, 1, 1])), "soft.nii.gz")
    names = ["--class-names", "rest,csf,grey,white"]
    files = ["-o", "labels.nii", "--json", "run.json", "--report", "page.html", "--overlay", "over.png"]
    result = run("segment", "t1.nii", "--probability", "soft.nii.gz", *names, *files)
    assert result.exit_code == 0, result.output
    labels = dope.io.load_labels("labels.nii")
    sites = int((labels == 3).sum())
    words = " ".join(result.output.split())
    assert f"class 3 white {sites:,} sites" in words and f"{2 * sites:,} mm^3" in words
    told = json.loads((tmp_path / "run.json").read_text())
    assert told["result"]["classes"][3] == {"number": 3, "name": "white", "sites": sites, "volume": 2.0 * sites}
    assert told["result"]["foreground"] is None and told["result"]["unit"] == "mm^3"
    assert "3 white" in (tmp_path / "page.html").read_text()
    again = run("segment", "--from", "run.json", "-o", "again.nii")
    assert again.exit_code == 0 and (dope.io.load_labels("again.nii") == labels).all()
    dope.io.save_labels("other.nii", np.where(labels == 3, 0, labels), like=dope.io.load("t1.nii"))
    compared = " ".join(run("compare", "labels.nii", "other.nii", "--run", "run.json").output.split())
    assert "Dice of 1 csf 1.000000" in compared and f"Dice of 3 white 0.000000 ({sites} and 0 sites)" in compared
    assert "Delta E -" in compared


def test_the_command_writes_a_palette_and_refuses_in_a_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_image("a.png", IMAGE)
    drawn = np.where(DRAWN == 300, 7, DRAWN).astype(np.uint8)
    write_image("drawn.png", drawn)
    result = run("segment", "a.png", "--scribbles", "drawn.png", "-o", "labels.png", "--report", "page.html")
    assert result.exit_code == 0, result.output
    labels = dope.io.load_labels("labels.png")
    assert np.mean(labels != np.where(TRUTH == 300, 7, TRUTH)) < 0.01
    wrong = run("segment", "a.png", "--scribbles", "drawn.png", "--class-names", "a,b", "-o", "b.png")
    assert wrong.exit_code == 2
    wrong = run("segment", "a.png", "--scribbles", "drawn.png", "-o", "labels.png")
    assert wrong.exit_code == 2 and wrong.stderr.strip().endswith("replaced (--overwrite)")


@pytest.mark.parametrize(
    ("shape", "arguments", "words"),
    [
        ((6, 4, 8), [], "--label-axis 1 would fit."),
        ((4, 6, 8), ["--label-axis", "2"], "--label-axis 0 would fit."),
        ((6, 8), ["--class-names", "a,b"], "has none: leave --class-names and --label-axis out."),
        ((4, 6, 8), ["--class-names", "a,,b,c"], "--class-names is ('a', '', 'b', 'c'); expected how many"),
        ((4, 6, 8), [], "expected 1. Put the network's output through a softmax over its classes first, or say which"),
        ((4, 6, 8), [], "axis they are (--label-axis)."),
    ],
)
def test_the_command_speaks_of_its_options(shape, arguments, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("image.npy", np.zeros((6, 8), dtype=np.uint8))
    np.save("map.npy", np.full(shape, 0.5))
    result = run("segment", "image.npy", "--probability", "map.npy", "-o", "labels.npy", *arguments)
    assert result.exit_code == 2 and words in result.stderr and result.stderr.count("\n") == 1


def of_boxes(said, blocks):
    """The energy that is read box by box, and the one in memory."""
    evidence = said.known()
    frame = said._frame(evidence)
    settings = Settings(None, said.kernel, 0.01, said.spacing, said.model, connected=False)
    partition = dope.Partition.grid(frame.sides, blocks)
    for in_boxes in (True, False):
        subject = ClassSubject.of(evidence, frame, settings, partition, dope.Serial(), in_boxes=in_boxes)
        yield subject.energy(subject.unary())


@pytest.mark.parametrize("known", ["colours", "grey", "softmax", "softmax first", "mask", "margin"])
def test_energies_read_box_by_box_are_those_in_memory(known):
    mask = np.add.outer(np.arange(40), np.arange(52)) > 14
    soft = softmax(SHAPE, 5).astype(np.float32)
    said = {
        "colours": Segmentation(image=IMAGE, scribbles=DRAWN),
        "grey": Segmentation(image=IMAGE[..., 1], scribbles=DRAWN, kernel=5),
        "softmax": Segmentation(image=IMAGE, probability=soft, mask=mask),
        "softmax first": Segmentation(image=IMAGE, probability=np.moveaxis(soft, -1, 0), scribbles=DRAWN % 5),
        "mask": Segmentation(image=IMAGE, scribbles=np.where(mask, DRAWN, -2), mask=mask[::-1, ::-1]),
        "margin": Segmentation(image=IMAGE, scribbles=DRAWN, margin=0.1),
    }[known]
    boxes, memory = of_boxes(said, (2, 3))
    assert not boxes.in_memory and memory.in_memory
    read = boxes.read()
    np.testing.assert_array_equal(read.costs, memory.costs)
    np.testing.assert_array_equal(read.pairs.factors, memory.pairs.factors)
    labels = np.random.default_rng(0).integers(0, memory.label_count, memory.shape)
    assert boxes(labels) == memory(labels)
    box = (slice(3, 17), slice(5, 30))
    excerpt = pickle.loads(pickle.dumps(boxes.confined_to(box)))
    np.testing.assert_array_equal(excerpt.at(box).costs, memory.costs[box])


def test_numbers_of_classes_are_written_box_by_box():
    out, mask = np.full(SHAPE, 9, dtype=np.uint16), np.arange(52) + np.zeros(SHAPE, dtype=int) < 50
    target = NumberedTarget(out, Classes.of([2, 300]), Stored("mask", mask))
    box = (slice(0, 40), slice(40, 52))
    target[box] = np.ones((40, 12), dtype=np.uint8)
    assert (out[:, 40:50] == 300).all() and not out[:, 50:].any() and (out[:, :40] == 9).all()


@pytest.mark.parametrize("known", ["scribbles", "inactive", "softmax"])
def test_runs_box_by_box_find_what_one_in_memory_finds(known):
    soft = softmax(SHAPE, 4, sharp=1.0)
    soft = soft + 8 * (np.searchsorted([1, 2, 5, 300], TRUTH)[..., None] == np.arange(4))
    said = {
        "scribbles": {"scribbles": DRAWN},
        "inactive": {"scribbles": np.where(np.arange(52) < 9, -1, DRAWN), "margin": 0.2},
        "softmax": {"probability": (soft / soft.sum(axis=-1, keepdims=True)).astype(np.float32)},
    }[known]
    memory = Segmentation(image=IMAGE, **said).run()
    few = Segmentation(image=IMAGE, **said, memory="60MB", blocks=(2, 2))
    assert few.plan().in_boxes
    for out in (None, np.full(SHAPE, 9, dtype=np.uint16)):
        boxes = few.run(out=out)
        assert memory.exact and boxes.exact
        np.testing.assert_array_equal(boxes.labels, memory.labels)
        assert boxes.energy == pytest.approx(memory.energy, rel=1e-12)
        assert boxes.counts == memory.counts and dict(boxes.classes) == dict(memory.classes)
        assert boxes.labels.dtype == memory.labels.dtype


def test_labels_that_a_run_does_not_have_are_not_priced(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_image("photo.png", IMAGE)
    dope.io.save_labels("drawn.npy", np.where(DRAWN == 300, 7, DRAWN))
    assert run("segment", "photo.png", "--scribbles", "drawn.npy", "-o", "a.npy", "--json", "a.json").exit_code == 0
    assert "Delta E +0 %" in " ".join(run("compare", "a.npy", "a.npy", "--run", "a.json").output.split())
    other = np.load("a.npy")
    other[0, 0] = 9
    np.save("b.npy", other)
    result = run("compare", "b.npy", "a.npy", "--run", "a.json")
    assert result.exit_code == 2 and "label 9 in A" in result.stderr and result.stderr.count("\n") == 1
