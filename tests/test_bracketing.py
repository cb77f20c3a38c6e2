"""Bracketing: arrays read box by box, and the same labels as Exact() to the bit, whatever the blocks."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dope
from dope import Bracketing, Energy, Exact, InputError, LazyEnergy, Partition, Serial, Threads
from dope.methods.known import OPEN, Known, packed, unpacked
from problems import grids


def volume(shape, seed=0, *, noise=0.6):
    """A blob and what a network might say about it."""
    rng = np.random.default_rng(seed)
    grid = np.stack(np.meshgrid(*(np.linspace(-1, 1, n) for n in shape), indexing="ij"))
    inside = (grid**2).sum(axis=0) < 0.5 + 0.2 * np.sin(7 * grid[0])
    image = np.clip(120 * inside + rng.normal(60, 25, shape), 0, 255).astype(np.uint8)
    unary = (rng.normal(0, noise, shape) + np.where(inside, -1.0, 1.0)).astype(np.float32)
    return unary, image


@settings(deadline=None, max_examples=150)
@given(st.data())
def test_the_labels_are_those_of_exact_to_the_bit(data):
    energy = data.draw(grids(most=60))[0]
    if not energy.submodular:
        return
    layout = [data.draw(st.integers(1, n)) for n in energy.shape]
    expected = dope.minimize(energy, method=Exact())
    passes = data.draw(st.sampled_from([1, 2, 8]))
    found = dope.minimize(energy, blocks=layout, method=Bracketing(passes=passes), executor=Serial())
    assert found.exact and found.proved == 1.0
    assert np.array_equal(found.labels, expected.labels)
    assert found.energy == pytest.approx(expected.energy, rel=1e-12, abs=1e-9)


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_what_stays_undecided_has_a_true_bound(data):
    energy = data.draw(grids(most=60))[0]
    if not energy.submodular:
        return
    layout = [data.draw(st.integers(1, n)) for n in energy.shape]
    least = dope.minimize(energy, method=Exact()).energy
    found = dope.minimize(energy, blocks=layout, method=Bracketing(passes=1, memory=0), executor=Serial())
    near = 1e-9 * (1 + abs(least))
    assert found.lower_bound <= least + near <= found.energy + 2 * near
    assert found.stopped in ("exact", "undecided")
    assert found.energy == pytest.approx(energy(found.labels), abs=near)


@pytest.mark.parametrize("kernel", [3, 5])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_a_volume_in_files(tmp_path, kernel, masked, dtype):
    unary, image = volume((24, 30, 20))
    image = image.astype(dtype)
    mask = np.random.default_rng(1).random(unary.shape) < 0.8 if masked else None
    settings = {"lam": 0.7, "kernel": kernel, "spacing": (2.0, 1.0, 1.0)}
    expected = dope.minimize(Energy.grid(unary, features=image, mask=mask, **settings))
    files = {}
    for name, array in (("unary", unary), ("features", image), ("mask", mask)):
        if array is not None:
            np.save(tmp_path / f"{name}.npy", array)
            files[name] = np.load(tmp_path / f"{name}.npy", mmap_mode="r")
    energy = LazyEnergy.grid(files.pop("unary"), **files, **settings)
    out = np.lib.format.open_memmap(tmp_path / "labels.npy", mode="w+", dtype=np.bool_, shape=unary.shape)
    for blocks, executor in ((1, Serial()), ((2, 3, 2), Threads(2)), ((4, 4, 4), Serial())):
        out[:] = True
        result = dope.minimize(energy, blocks=blocks, executor=executor, out=out)
        assert result.exact, result
        assert np.array_equal(np.load(tmp_path / "labels.npy"), expected.labels)
        assert result.energy == pytest.approx(expected.energy, rel=1e-12)
        assert result.lower_bound == pytest.approx(expected.lower_bound, rel=1e-12)
        assert result.foreground == expected.foreground
