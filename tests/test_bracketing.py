"""Bracketing: arrays read box by box, and the same labels as Exact() to the bit, whatever the blocks."""

import pickle
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dope
import dope.io
from dope import Bracketing, Energy, Exact, InputError, Partition, Serial, Threads
from dope.stored import Stored
from problems import grids
from profiles import examples


def volume(shape, seed=0, *, noise=0.6):
    """A blob and what a network might say about it."""
    rng = np.random.default_rng(seed)
    grid = np.stack(np.meshgrid(*(np.linspace(-1, 1, n) for n in shape), indexing="ij"))
    inside = (grid**2).sum(axis=0) < 0.5 + 0.2 * np.sin(7 * grid[0])
    image = np.clip(120 * inside + rng.normal(60, 25, shape), 0, 255).astype(np.uint8)
    unary = (rng.normal(0, noise, shape) + np.where(inside, -1.0, 1.0)).astype(np.float32)
    return unary, image


@given(st.data())
def test_the_labels_are_those_of_exact_to_the_bit(data):
    energy = data.draw(grids(most=60))[0]
    if not energy.submodular:
        return
    layout = [data.draw(st.integers(1, n)) for n in energy.shape]
    expected = dope.minimize(energy, method=Exact())
    method = Bracketing(passes=data.draw(st.sampled_from([1, 2, 8])), memory=data.draw(st.sampled_from([0, None])))
    found = dope.minimize(energy, blocks=layout, method=method, executor=Serial())
    assert found.exact and found.proved == 1.0
    assert np.array_equal(found.labels, expected.labels)
    assert found.energy == pytest.approx(expected.energy, rel=1e-12, abs=1e-9)


@examples(60)
@given(st.data())
def test_what_stays_undecided_has_a_true_bound(data):
    energy = data.draw(grids(most=60))[0]
    if not energy.submodular:
        return
    layout = [data.draw(st.integers(1, n)) for n in energy.shape]
    least = dope.minimize(energy, method=Exact()).energy
    method = Bracketing(passes=data.draw(st.integers(1, 3)), rounds=data.draw(st.integers(0, 2)), memory=0)
    found = dope.minimize(energy, blocks=layout, method=method, executor=Serial())
    near = 1e-9 * (1 + abs(least))
    assert found.lower_bound <= least + near <= found.energy + 2 * near
    assert found.stopped in ("exact", "undecided")
    assert found.energy == pytest.approx(energy(found.labels), abs=near)


def _is_round(number, step):
    return step.round == number


@pytest.mark.parametrize("passes", [1, 3])
def test_whoever_leaves_has_a_true_bound(passes):
    energy = Energy.grid(np.random.default_rng(0).normal(0, 0.4, (15, 15)), lam=1.0)
    settings = {"blocks": (3, 3), "method": Bracketing(passes=passes), "executor": Serial()}
    whole = dope.minimize(energy, **settings)
    assert whole.exact and len(whole.trace) > passes + 1
    for leave in range(1, len(whole.trace)):
        found = dope.minimize(energy, watch=partial(_is_round, leave), **settings)
        assert found.stopped == "cancelled"
        assert not found.exact or found.energy == whole.energy
        assert found.energy == pytest.approx(energy(found.labels), rel=1e-12)
        assert found.lower_bound <= whole.energy <= found.energy


@pytest.mark.parametrize("kernel", [3, 5])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_a_volume_in_files(tmp_path, kernel, masked, dtype):
    unary, image = volume((12, 14, 10))
    image = image.astype(dtype)
    mask = np.random.default_rng(1).random(unary.shape) < 0.8 if masked else None
    settings = {"lam": 0.7, "kernel": kernel, "spacing": (2.0, 1.0, 1.0)}
    expected = dope.minimize(Energy.grid(unary, features=image, mask=mask, **settings))
    files = {}
    for name, array in (("unary", unary), ("features", image), ("mask", mask)):
        if array is not None:
            np.save(tmp_path / f"{name}.npy", array)
            files[name] = np.load(tmp_path / f"{name}.npy", mmap_mode="r")
    energy = Energy.grid(files.pop("unary"), **files, **settings)
    out = np.lib.format.open_memmap(tmp_path / "labels.npy", mode="w+", dtype=np.bool_, shape=unary.shape)
    for blocks, executor in ((1, Serial()), ((2, 3, 2), Threads(2)), ((3, 3, 3), Serial())):
        out[:] = True
        result = dope.minimize(energy, blocks=blocks, executor=executor, out=out)
        assert result.exact, result
        assert np.array_equal(np.load(tmp_path / "labels.npy"), expected.labels)
        assert result.energy == pytest.approx(expected.energy, rel=1e-12)
        assert result.lower_bound == pytest.approx(expected.lower_bound, rel=1e-12)
        assert result.foreground == expected.foreground


@pytest.mark.parametrize("kind", ["zarr", "dask", "xarray", "fortran", "io"])
def test_arrays_of_all_kinds_are_read_box_by_box(tmp_path, kind):
    unary, image = volume((20, 24, 16))
    expected = dope.minimize(Energy.grid(unary, features=image, lam=0.7))

    def stored(name, array):
        if kind == "zarr":
            import zarr

            return zarr.create_array(tmp_path / name, data=array, chunks=(8, 8, 8))
        if kind == "dask":
            import dask.array

            return dask.array.from_array(array, chunks=(7, 9, 16))
        if kind == "xarray":
            import xarray

            return xarray.DataArray(array, dims=("z", "y", "x"))
        np.save(tmp_path / name, np.asfortranarray(array))
        if kind == "io":
            return dope.io.load(tmp_path / f"{name}.npy").pixels
        return np.load(tmp_path / f"{name}.npy", mmap_mode="r")

    energy = Energy.grid(stored("unary", unary), features=stored("features", image), lam=0.7)
    copy = pickle.loads(pickle.dumps(energy)) if kind != "dask" else energy
    for one in (energy, copy):
        result = dope.minimize(one, blocks=(3, 2, 2), executor=Threads(2))
        assert result.exact
        assert np.array_equal(result.labels, expected.labels)


def test_colours_with_channels_anywhere():
    rng = np.random.default_rng(0)
    unary, image = rng.normal(size=(12, 14)), rng.integers(0, 255, (12, 14, 3)).astype(np.uint8)
    expected = dope.minimize(Energy.grid(unary, features=image, lam=0.9, kernel=5))
    for axis in (0, 1, 2):
        energy = Energy.grid(unary, features=np.moveaxis(image, 2, axis), channel_axis=axis, lam=0.9, kernel=5)
        assert np.array_equal(dope.minimize(energy, blocks=4).labels, expected.labels)


def test_segment_in_boxes_is_segment(tmp_path):
    unary, image = volume((24, 20, 22))
    probability = (255 / (1 + np.exp(unary))).astype(np.uint8)
    mask = np.random.default_rng(2).random(unary.shape) < 0.9
    strokes = np.zeros(unary.shape, dtype=np.uint8)
    strokes[3, 4:9, 5], strokes[12, 10, 8:12] = 1, 2
    for more in ({}, {"mask": mask}, {"scribbles": strokes}, {"mask": mask, "scribbles": strokes}, {"lam": 0.4}):
        expected = dope.segment(image, probability=probability, **more)
        out = np.zeros(unary.shape, dtype=np.bool_)
        found = dope.segment(image, probability=probability, out=out, blocks=(2, 2, 3), **more)
        assert found.exact
        assert found.labels is out
        assert np.array_equal(out, expected.labels)
        assert found.energy == pytest.approx(expected.energy, rel=1e-9)
    expected = dope.segment(image, unary=unary)
    assert np.array_equal(dope.segment(image, unary=unary, checkpoint=tmp_path / "c").labels, expected.labels)


def test_memory_decides_how_large_blocks_are():
    unary, image = volume((120, 120, 120))
    energy = Energy.grid(unary, features=image, lam=0.5)
    boxes = [dope.plan(energy, memory=size, executor=Threads(2), method=Bracketing()) for size in ("260MB", "1GB")]
    assert boxes[0].blocks > boxes[1].blocks


@pytest.mark.slow
def test_memory_is_a_budget_and_changes_no_label():
    unary, image = volume((150, 150, 150))
    energy = Energy.grid(unary, features=image, lam=0.5)
    small, large = (dope.plan(energy, memory=size, executor=Threads(2)) for size in ("260MB", "1GB"))
    assert small.in_boxes and not large.in_boxes
    assert small.bytes < 260e6 + energy.site_bytes * energy.unary.size and large.bytes < 1e9
    assert np.array_equal(small.run().labels, large.run().labels)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"memory": "1MB"}, "too little.* or say how many blocks, which are taken"),
        ({"memory": "lots"}, "not a size of memory"),
        ({"memory": -1}, "memory is -1"),
        ({"method": Exact(), "memory": "1MB"}, "are to be in memory, all at once"),
        ({"solver": dope.Icm(), "method": Bracketing()}, "needs a solver with open_blocks, such as MaxFlow"),
        ({"overlap": 0.1, "method": Bracketing()}, "overlap is 0.1"),
        ({"out": np.zeros((3, 3))}, "out is ndarray of shape"),
        ({"blocks": Partition.grid((5, 5), 2)}, "the partition is for shape"),
        ({"checkpoint": "a", "resume": "b"}, "both given"),
        ({"resume": "nowhere"}, "no checkpoint to resume"),
    ],
)
def test_bad_settings(arguments, words):
    energy = Energy.grid(np.zeros((8, 9)), lam=1.0)
    with pytest.raises(InputError, match=words):
        dope.minimize(energy, **arguments)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"features": np.zeros((8, 8))}, "features have shape"),
        ({"mask": np.ones((8, 8))}, "mask has shape"),
        ({"mask": np.zeros((8, 9))}, "no site inside"),
        ({"features": np.full((8, 9), np.nan)}, "features holds nan"),
        ({"beta": 1.0}, "beta is given without features"),
        ({"lam": -1.0}, "Bracketing\\(\\) needs weights of 0 or more"),
        ({"features": np.zeros((8, 9), dtype="M8[s]")}, "dtype"),
    ],
)
def test_bad_arrays(arguments, words):
    with pytest.raises(InputError, match=words):
        dope.minimize(Energy.grid(np.ones((8, 9)), **{"lam": 1.0, **arguments}), method=Bracketing())


def test_a_unary_that_is_no_number_is_named():
    unary = np.ones((8, 9))
    unary[5, 6] = np.inf
    with pytest.raises(InputError, match="unary holds inf"):
        dope.minimize(Energy.grid(unary), blocks=(2, 2))


def test_a_damaged_chunk_is_named(tmp_path):
    import zarr

    unary, image = volume((16, 16, 16))
    zarr.create_array(tmp_path / "image.zarr", data=image, chunks=(8, 8, 8))
    chunk = next(path for path in (tmp_path / "image.zarr").rglob("*") if path.is_file() and path.name != "zarr.json")
    chunk.write_bytes(b"rubbish")
    with pytest.raises(InputError, match="features cannot be read at"):
        dope.minimize(Energy.grid(unary, features=zarr.open_array(tmp_path / "image.zarr", mode="r")), blocks=8)


@pytest.mark.parametrize(
    "chunks", [{"chunks": (32, 32, 32)}, {"chunks": (7, 9, 11)}, {"chunks": (8,) * 3, "shards": (32,) * 3}]
)
def test_chunks_that_several_boxes_share_lose_nothing(tmp_path, chunks):
    import zarr

    unary, image = volume((32, 32, 32), noise=2.0)
    expected = dope.minimize(Energy.grid(unary, features=image, lam=0.3)).labels
    out = zarr.create_array(tmp_path / "out.zarr", shape=unary.shape, dtype="bool", **chunks)
    energy = Energy.grid(unary, features=image, lam=0.3)
    dope.minimize(energy, blocks=(3, 3, 3), out=out, executor=Threads(4))
    assert np.array_equal(out[...], expected)


def test_a_private_map_is_what_it_shows(tmp_path):
    unary, image = volume((12, 12, 12))
    np.save(tmp_path / "unary.npy", unary)
    changed = np.load(tmp_path / "unary.npy", mmap_mode="c")
    changed[:] = -changed
    expected = dope.minimize(Energy.grid(-unary, features=image)).labels
    assert np.array_equal(dope.minimize(Energy.grid(changed, features=image), blocks=8).labels, expected)


def test_an_array_that_cannot_be_written_to_is_refused_before_anything_is_read():
    out = np.zeros((8, 9), dtype=np.bool_)
    out.flags.writeable = False
    with pytest.raises(InputError, match="cannot be written"):
        dope.minimize(Energy.grid(Stored.of("unary", np.full((8, 9), np.nan))), out=out)


def test_channels_of_an_xarray_image():
    import xarray

    unary, image = volume((12, 10, 8))
    colored = xarray.DataArray(np.stack([image] * 3, axis=-1), dims=("z", "y", "x", "c"))
    found = dope.segment(colored, unary=unary, executor=Serial(), memory="1GB", out=None, checkpoint=None)
    boxes = dope.segment(colored, unary=unary, blocks=4, out=np.zeros(unary.shape, dtype=np.bool_))
    assert xarray.DataArray(found.labels).dims == ("z", "y", "x")
    assert np.array_equal(np.asarray(found.labels), boxes.labels)
