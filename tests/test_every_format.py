"""What every format of images and labels lives up to. A new one is one row of `dope.io.FORMATS`: it is found there."""

import os
import pickle
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from dope.errors import InputError
from dope.io import FORMATS, Image, check_writable, describe, load, open_labels, save_labels, stored
from label_files import holds_volumes
from profiles import examples

FOR_LABELS = [suffix for suffix, kind in FORMATS.items() if kind.save is not None]
# A label volume beside an image in an OME-Zarr store has what a store of its own has not: where it lies.
SPACED = [".tif", ".tiff", ".nii", ".nii.gz"]
FOLDERS = [".zarr"]
FILES = [suffix for suffix in FORMATS if suffix not in FOLDERS]
SHAPES = [(23,), (11, 17), (5, 6, 7), (3, 4, 2, 5)]
RANDOM = np.random.default_rng(0)
SQUARE = RANDOM.random((11, 17)) > 0.5

every_format = pytest.mark.parametrize("suffix", FORMATS)
every_format_of_labels = pytest.mark.parametrize("suffix", FOR_LABELS)
every_file_of_labels = pytest.mark.parametrize("suffix", [suffix for suffix in FOR_LABELS if suffix in FILES])


def refused(words, call, *args, **settings):
    with pytest.raises(InputError, match=words) as error:
        call(*args, **settings)
    assert "\n" not in str(error.value)


def labels_in(path):
    return np.asarray(load(path).pixels) > 0


def names_in(folder):
    return sorted(entry.name for entry in folder.iterdir())


def saved(path, labels, **more):
    """Whether labels were written; a format that cannot hold such a shape says what it holds, and leaves nothing."""
    try:
        save_labels(path, labels, **more)
    except InputError as error:
        refusal = str(error)
    else:
        return True
    assert labels.ndim != 2 and refusal.startswith(str(path)) and "\n" not in refusal
    assert "expected" in refusal or "PNG has 2 axes. Write ." in refusal
    refused("cannot hold", check_writable, path, shape=labels.shape)
    assert not path.exists()
    return False


@every_format_of_labels
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_labels_come_back_as_they_were(tmp_path, suffix, shape):
    path, labels = tmp_path / f"labels{suffix}", RANDOM.random(shape) > 0.5
    if not saved(path, labels):
        return
    image = load(path)
    assert np.array_equal(np.asarray(image.pixels) > 0, labels)
    if labels.ndim in (2, 3):
        assert image.shape == labels.shape and not image.channels
    assert names_in(tmp_path) == [path.name]


@every_format_of_labels
def test_labels_of_any_memory_order_and_type(tmp_path, suffix):
    for labels in (SQUARE.T, SQUARE[::-1, ::2], SQUARE.astype(float), np.asfortranarray(SQUARE), SQUARE.tolist()):
        save_labels(tmp_path / f"labels{suffix}", labels, overwrite=True)
        assert np.array_equal(labels_in(tmp_path / f"labels{suffix}"), np.asarray(labels) > 0)


@every_format_of_labels
@pytest.mark.parametrize("value", [False, True])
def test_labels_that_are_all_alike_come_back_too(tmp_path, suffix, value):
    save_labels(tmp_path / f"labels{suffix}", np.full((4, 5), value))
    assert np.array_equal(labels_in(tmp_path / f"labels{suffix}"), np.full((4, 5), value))


@every_format_of_labels
@pytest.mark.parametrize("last", [1, 2, 3, 4])
def test_a_short_last_axis_is_not_taken_for_channels(tmp_path, suffix, last):
    labels = RANDOM.random((5, 6, last)) > 0.5
    if saved(tmp_path / f"labels{suffix}", labels):
        assert np.array_equal(labels_in(tmp_path / f"labels{suffix}"), labels)


@every_format_of_labels
@pytest.mark.parametrize("shape", SHAPES[1:3], ids=str)
def test_a_description_says_what_is_read(tmp_path, suffix, shape):
    path = tmp_path / f"labels{suffix}"
    if not saved(path, RANDOM.random(shape) > 0.5):
        return
    found, image = describe(path), load(path)
    assert found.shape == image.shape and found.channels == 1 and found.spacing == image.spacing
    assert found.dtype == image.pixels.dtype.name and found.bytes == np.asarray(image.pixels).nbytes
    assert found.path == image.path == path and found.format
    assert all(isinstance(word, str) for pair in found.details.items() for word in pair)


@every_format_of_labels
@pytest.mark.parametrize("shape", SHAPES[1:3], ids=str)
def test_spacing_is_kept_where_the_format_has_it(tmp_path, suffix, shape):
    spacing = (2.0, 0.5, 0.75)[: len(shape)]
    image = Image(np.zeros(shape, dtype=np.uint8), channels=False, spacing=spacing, path=tmp_path / "image.npy")
    if saved(tmp_path / f"labels{suffix}", RANDOM.random(shape) > 0.5, like=image):
        found = load(tmp_path / f"labels{suffix}").spacing
        assert found == describe(tmp_path / f"labels{suffix}").spacing
        assert (found is not None) if suffix in SPACED else (found is None or len(found) == len(shape))
        assert found is None or found == pytest.approx(spacing, rel=1e-6)


@every_format_of_labels
@examples(15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_boxes_are_read_as_from_the_whole(tmp_path, suffix, data):
    path = tmp_path / f"labels{suffix}"
    shape = (5, 6, 7) if holds_volumes(suffix) else (11, 17)
    if not path.exists():
        save_labels(path, RANDOM.random(shape) > 0.5)
    image = load(path)
    whole = np.asarray(image.pixels)
    ends = [sorted(data.draw(st.tuples(*[st.integers(0, n)] * 2))) for n in shape]
    box = tuple(slice(low, high) for low, high in ends)
    elsewhere = pickle.loads(pickle.dumps(stored(image, tmp_path)))  # as another process gets it
    for pixels in (image.pixels, elsewhere.pixels):
        assert pixels.shape == shape and pixels.dtype == whole.dtype
        np.testing.assert_array_equal(pixels[box], whole[box])
    np.testing.assert_array_equal(np.asarray(elsewhere.pixels), whole)


@every_format_of_labels
def test_what_is_written_box_by_box_is_what_is_saved_whole(tmp_path, suffix):
    whole, boxes = tmp_path / f"whole{suffix}", tmp_path / f"boxes{suffix}"
    save_labels(whole, SQUARE)
    with open_labels(boxes, SQUARE.shape) as target:
        for box in np.ndindex(2, 3):
            part = tuple(slice(6 * k, min(6 * (k + 1), n)) for k, n in zip(box, SQUARE.shape, strict=True))
            target[part] = SQUARE[part]
            assert np.array_equal(target[part], SQUARE[part])
        assert not boxes.exists()
    one, other = load(whole), load(boxes)
    np.testing.assert_array_equal(np.asarray(other.pixels), np.asarray(one.pixels))
    assert other.pixels.dtype == one.pixels.dtype
    assert names_in(tmp_path) == sorted([whole.name, boxes.name])


@every_format
def test_missing_files_and_wrong_kinds_of_file(tmp_path, suffix):
    for call in (load, describe):
        refused("no such file", call, tmp_path / f"none{suffix}")
        refused("no such file", call, tmp_path / "none" / f"none{suffix}")
    path = tmp_path / f"a{suffix}"
    path.mkdir()
    refused("a folder", load, path)
    path.rmdir()
    for content in (b"", b"hello, I am a text\n", bytes(500), b"\x1f\x8b", b"PK\x03\x04" + bytes(60)):
        path.write_bytes(content)
        for call in (load, describe):
            refused(rf"a{suffix}: (empty|not |a file|damaged)", call, path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
@pytest.mark.parametrize("suffix", FILES)
def test_pipes_are_not_waited_for(tmp_path, suffix):
    os.mkfifo(tmp_path / f"a{suffix}")
    refused("a device or pipe", load, tmp_path / f"a{suffix}")


@every_file_of_labels
def test_truncated_files(tmp_path, suffix):
    path = tmp_path / f"a{suffix}"
    save_labels(path, RANDOM.random((64, 64)) > 0.5)
    whole = path.read_bytes()
    for part in (0.02, 0.1, 0.3, 0.5, 0.8, 0.95):
        path.write_bytes(whole[: int(part * len(whole))])
        refused(rf"a{suffix}: ", load, path)


@every_file_of_labels
def test_altered_files_are_read_or_refused(tmp_path, suffix):
    path = tmp_path / f"a{suffix}"
    save_labels(path, RANDOM.random((8, 9)) > 0.5)
    whole = path.read_bytes()
    random = np.random.default_rng(1)
    refusals = []
    for _ in range(80):
        content = bytearray(whole)
        for _ in range(random.integers(1, 5)):
            content[random.integers(min(len(content), 400))] = random.integers(256)
        path.write_bytes(content)
        try:
            describe(path)
            image = load(path, budget=10**7)
            np.asarray(image.pixels[:2])
        except InputError as error:
            refusals.append(str(error))
    assert refusals and not any("\n" in words for words in refusals)


@every_format_of_labels
def test_nothing_is_replaced_unasked(tmp_path, suffix):
    path = tmp_path / f"a{suffix}"
    save_labels(path, SQUARE)
    for call in (lambda: save_labels(path, ~SQUARE), lambda: check_writable(path), lambda: open_labels(path, (11, 17))):
        refused("there already", call)
    assert np.array_equal(labels_in(path), SQUARE)
    check_writable(path, overwrite=True)
    save_labels(path, ~SQUARE, overwrite=True)
    assert np.array_equal(labels_in(path), ~SQUARE)
    assert names_in(tmp_path) == [path.name]


@every_format_of_labels
def test_the_image_itself_is_never_replaced(tmp_path, suffix):
    path = tmp_path / f"a{suffix}"
    save_labels(path, SQUARE)
    refused("the image itself", save_labels, path, SQUARE, like=load(path), overwrite=True)


@every_format_of_labels
def test_folders_in_the_way_and_missing_ones(tmp_path, suffix):
    refused("folder that exists", check_writable, tmp_path / "none" / f"a{suffix}")
    refused("folder that exists", save_labels, tmp_path / "none" / f"a{suffix}", SQUARE)
    (tmp_path / f"a{suffix}").mkdir()
    (tmp_path / f"a{suffix}" / "precious").touch()
    refused("a folder|there already", save_labels, tmp_path / f"a{suffix}", SQUARE)
    refused("a folder|there already", save_labels, tmp_path / f"a{suffix}", SQUARE, overwrite=True)
    assert (tmp_path / f"a{suffix}" / "precious").exists()


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write everywhere")
@every_format_of_labels
def test_read_only_folders(tmp_path, suffix):
    tmp_path.chmod(0o500)
    refused("permission denied.*writable", check_writable, tmp_path / f"a{suffix}")
    tmp_path.chmod(0o700)


@every_format_of_labels
def test_folders_that_turn_out_not_to_be_writable(tmp_path, suffix, monkeypatch):
    def deny(*_, **__):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(Path, "open", deny)
    refused("read-only file system; choose a folder", check_writable, tmp_path / f"a{suffix}")


@contextmanager
def files_of_at_most(size):
    """What a full disk or a quota does, done by the system itself."""
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("size", [0, 100, 1000])
@every_format_of_labels
def test_labels_are_written_whole_or_not_at_all(tmp_path, suffix, size):
    path = tmp_path / f"a{suffix}"
    save_labels(path, SQUARE)
    with pytest.raises(InputError, match=r"cannot write .*(too large|disk full)") as error, files_of_at_most(size):
        save_labels(path, RANDOM.random((200, 200)) > 0.5, overwrite=True)
    assert "\n" not in str(error.value)
    assert names_in(tmp_path) == [path.name]
    assert np.array_equal(labels_in(path), SQUARE)


@every_format_of_labels
def test_an_interrupt_before_the_end_leaves_what_was_there(tmp_path, suffix):
    path = tmp_path / f"a{suffix}"
    save_labels(path, SQUARE)

    def interrupted():
        with open_labels(path, SQUARE.shape, overwrite=True) as target:
            target[0:4, 0:5] = ~SQUARE[0:4, 0:5]
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert names_in(tmp_path) == [path.name]
    assert np.array_equal(labels_in(path), SQUARE)


@pytest.mark.parametrize("suffix", sorted(set(FORMATS) - set(FOR_LABELS)))
def test_formats_that_would_alter_labels_name_another(tmp_path, suffix):
    for call in (save_labels, lambda path, labels: open_labels(path, labels.shape)):
        refused(r"alters labels; end it in \.png", call, tmp_path / f"a{suffix}", SQUARE)
    assert not names_in(tmp_path)


@every_format_of_labels
def test_labels_that_do_not_fit_are_refused(tmp_path, suffix):
    path = tmp_path / f"a{suffix}"
    image = Image(np.zeros((4, 5)), channels=False, spacing=None, path=tmp_path / "image.npy")
    refused(r"\(11, 17\) do not lie on .*\(4, 5\)", save_labels, path, SQUARE, like=image)
    refused("no labels", save_labels, path, np.zeros((0, 3), bool))
    assert not names_in(tmp_path)
