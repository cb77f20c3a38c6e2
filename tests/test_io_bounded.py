"""The one way by which files are read: regular ones only, and never more than was asked for."""

import bz2
import gzip
import json
import lzma
import os
import struct
import sys
import zlib

import numpy as np
import pytest
from PIL import Image, PngImagePlugin

from dope.bounded import open_regular, read_regular
from dope.errors import InputError
from dope.io import describe, load, read_energy, read_scribbles
from dope.io.images.pictures import read_image
from dope.io.inflate import Length, inflate
from hostile.pictures import IDAT, IEND, chunk, ihdr, jpeg, many_scans, png
from hostile.tiffs import zstd_rle
from hostile.zeros import gzipped, zlibbed

CONTENT = bytes(range(256)) * 40


def packed(codec):
    """The same bytes in each codec, as its users write them."""
    numcodecs = pytest.importorskip("numcodecs")
    own = {"gzip": gzip.compress, "zlib": zlib.compress, "bz2": bz2.compress, "lzma": lzma.compress}
    return own[codec](CONTENT) if codec in own else bytes(numcodecs.get_codec({"id": codec}).encode(CONTENT))


CODECS = ("blosc", "bz2", "gzip", "lz4", "lzma", "zlib", "zstd")


@pytest.mark.parametrize("codec", CODECS)
def test_what_was_packed_comes_back_and_nothing_longer(codec):
    data, size = packed(codec), len(CONTENT)
    for length in (Length(size, exact=True), Length(size, exact=False), Length(size + 99, exact=False)):
        assert bytes(inflate(codec, data, length, {})) == CONTENT
    for length in (Length(size - 1, exact=True), Length(size + 1, exact=True), Length(size - 1, exact=False)):
        with pytest.raises(ValueError, match="expected"):
            inflate(codec, data, length, {})
    with pytest.raises(Exception):  # noqa: B017, PT011  there is nothing that decoders do not raise
        inflate(codec, data[: len(data) // 2], Length(size, exact=True), {})


@pytest.mark.parametrize("codec", ["gzip", "bz2", "lzma", "zstd"])
def test_several_members_are_one_content_and_share_the_limit(codec):
    data = packed(codec) * 3
    assert bytes(inflate(codec, data, Length(3 * len(CONTENT), exact=True), {})) == CONTENT * 3
    with pytest.raises(ValueError, match="expected"):
        inflate(codec, data, Length(3 * len(CONTENT) - 1, exact=False), {})


def test_zstd_without_a_size():
    pytest.importorskip("numcodecs")
    data = zstd_rle(300_000)
    assert bytes(inflate("zstd", data, Length(300_000, exact=True), {})) == bytes(300_000)
    for length in (Length(299_999, exact=True), Length(300_001, exact=True), Length(1000, exact=False)):
        with pytest.raises((ValueError, RuntimeError)):
            inflate("zstd", data, length, {})


@pytest.mark.parametrize(("codec", "data"), [("gzip", gzipped(1 << 28)), ("zlib", zlibbed(1 << 28))])
def test_a_bomb_takes_no_more_than_its_limit(codec, data):
    import tracemalloc

    tracemalloc.start()
    with pytest.raises(ValueError, match="expected"):
        inflate(codec, data, Length(1000, exact=True), {})
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 22


@pytest.mark.skipif(sys.platform == "win32", reason="no pipes among files")
def test_a_pipe_that_takes_a_files_name_does_not_keep_anybody_waiting(tmp_path, monkeypatch):
    file, pipe = tmp_path / "a", tmp_path / "b"
    file.write_bytes(b"something")
    os.mkfifo(pipe)
    opened = os.open
    # As though the pipe had taken the name between the look at it and the opening.
    monkeypatch.setattr(os, "open", lambda path, *rest: opened(pipe if path == file else path, *rest))
    with pytest.raises(InputError, match="a device or pipe; expected a test file"):
        open_regular(file, "test")


def test_a_file_is_read_up_to_a_limit(tmp_path):
    file = tmp_path / "a"
    file.write_bytes(bytes(1000))
    assert read_regular(file, "test", most=1000) == bytes(1000)
    with pytest.raises(InputError, match="larger than"):
        read_regular(file, "test", most=999)


def test_a_png_is_described_without_decoding_it(tmp_path, monkeypatch):
    tags = b"II*\0\x08\0\0\0" + struct.pack("<HHHII", 1, 0x0112, 3, 1, 6) + bytes(4)
    (tmp_path / "a.png").write_bytes(png(ihdr(8, 5), IDAT, chunk(b"eXIf", tags), IEND))
    assert load(tmp_path / "a.png", budget=None).shape == (8, 5)  # on its side
    monkeypatch.setattr(PngImagePlugin.PngImageFile, "load", lambda _: pytest.fail("decoded"))
    assert describe(tmp_path / "a.png").shape == (8, 5)


def test_what_a_decoder_takes_counts(tmp_path):
    Image.fromarray(np.zeros((300, 400, 3), np.uint8)).save(tmp_path / "a.png")
    assert load(tmp_path / "a.png", budget=7 * 300 * 400).shape == (300, 400)
    with pytest.raises(InputError, match="of memory"):
        load(tmp_path / "a.png", budget=7 * 300 * 400 - 1)


def test_a_jpeg_of_many_scans_is_refused(tmp_path):
    (tmp_path / "a.jpg").write_bytes(many_scans(200, 64))
    (tmp_path / "b.jpg").write_bytes(jpeg(progressive=True))
    with pytest.raises(InputError, match="scans"):
        read_image(tmp_path / "a.jpg")
    assert read_image(tmp_path / "b.jpg").shape == (64, 64)


@pytest.mark.parametrize("spaces", [" ", "\n", "\t"])
def test_numbers_of_a_network_may_stand_in_one_long_line(tmp_path, monkeypatch, spaces):
    monkeypatch.setattr("dope.io.energies.uai._PIECE", 7)
    words = "MARKOV 3 2 2 2 2 2 0 1 2 1 2 4 1 2.5 2.25 1 4 1.125 2 2 1".split()  # noqa: SIM905
    (tmp_path / "a.uai").write_text(words[0] + "\n" + spaces.join(words[1:]))
    assert read_energy(tmp_path / "a.uai").unary.shape == (3,)


def test_strokes_that_would_be_drawn_for_minutes_are_refused(tmp_path):
    points = [[k % 3000, k % 2999] for k in range(200)]
    strokes = {"brush_radius": 2900, "fg": [points], "bg": [[[1, 1]]]}
    (tmp_path / "a.json").write_text(json.dumps(strokes))
    with pytest.raises(InputError, match="thinner brush"):
        read_scribbles(tmp_path / "a.json", (3000, 3000))
    (tmp_path / "b.json").write_text(json.dumps({**strokes, "brush_radius": 2, "bg": [[[1, 2000]]]}))
    with pytest.raises(InputError, match="of memory"):
        read_scribbles(tmp_path / "b.json", (3000, 3000), budget=10**6)
