"""Exact total variation: against every image there is, against a primal-dual method, and by its own laws."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dope
from dope.methods import nested_cuts
from dope.pairs import half_offsets, offset_lengths
from dope.partition import Partition

Image = npt.NDArray[Any]
Edges = list[tuple[int, int, float]]
LAMS: dict[Any, float] = {"l1": 1.5, "l2": 40.0}


def edges_of(shape: tuple[int, ...], kernel: Any, spacing: Any, lam: float, mask: Image | None = None) -> Edges:
    """Pairs and weights, one by one, in multiples of 2^-20 as `denoise_tv` promises."""
    offsets = half_offsets(np.eye(len(shape), dtype=int) if kernel is None else kernel, len(shape))
    inside = np.ones(shape, dtype=bool) if mask is None else mask
    found = []
    for offset, length in zip(offsets, offset_lengths(offsets, spacing), strict=True):
        weight = round(lam / length * 2**20) / 2**20
        for p in itertools.product(*map(range, shape)):
            q = tuple(int(a + o) for a, o in zip(p, offset, strict=True))
            if all(0 <= b < n for b, n in zip(q, shape, strict=True)) and inside[p] and inside[q]:
                found.append((int(np.ravel_multi_index(p, shape)), int(np.ravel_multi_index(q, shape)), weight))
    return found


def energies(images: Image, image: Image, norm: str, edges: Edges) -> npt.NDArray[np.float64]:
    """Of many images, one per row."""
    apart = np.abs(images.astype(np.float64) - image.ravel())
    total = (apart if norm == "l1" else apart * apart).sum(axis=1)
    for i, j, weight in edges:
        total += weight * np.abs(images[:, i] - images[:, j])
    return np.asarray(total)


def smallest_minimizer(image: Image, norm: str, edges: Edges) -> Image:
    """By trying all images; grey values that no site has lie between those that are optimal, for "l1" too."""
    low, high = int(image.min()), int(image.max())
    images = np.array(list(itertools.product(range(low, high + 1), repeat=image.size)), dtype=np.int64)
    found = energies(images, image, norm, edges)
    best = images[found == found.min()]
    smallest = best.min(axis=0)
    assert (best == smallest).all(axis=1).any()  # minimizers are a lattice
    return np.asarray(smallest.reshape(image.shape))


def photo(sides: tuple[int, ...], seed: int = 0) -> Image:
    """Smooth shapes under noise."""
    rng = np.random.default_rng(seed)
    where = np.meshgrid(*(np.arange(n) for n in sides), indexing="ij")
    smooth = sum(np.sin(x / (5.0 + a)) for a, x in enumerate(where))
    noisy = 120 + 40 * smooth + 60 * (where[0] > sides[0] // 2) + rng.normal(0, 12, sides)
    return np.clip(noisy, 0, 255).astype(np.uint8)


KERNELS: dict[int, list[Any]] = {1: [None, 5], 2: [None, 3, [(1, 2), (0, 1)]], 3: [None, 3]}


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_it_is_the_best_of_all_images(data: st.DataObject) -> None:
    shape = data.draw(st.sampled_from([(6,), (2, 3), (3, 2), (1, 5), (2, 2, 1), (1, 2, 3)]))
    norm = data.draw(st.sampled_from(["l1", "l2"]))
    lam = data.draw(st.sampled_from([0.0, 0.3, 0.5, 1.0, 1.25, 2.0, 7.0, 1e6]))
    kernel = data.draw(st.sampled_from(KERNELS[len(shape)]))
    spacing = data.draw(st.sampled_from([None, tuple(1.0 + a / 2 for a in range(len(shape)))]))
    low = data.draw(st.sampled_from([0, 250, -4, 30_000]))
    values = data.draw(st.lists(st.integers(0, 5), min_size=int(np.prod(shape)), max_size=int(np.prod(shape))))
    image = (np.array(values).reshape(shape) + low).astype(np.int16)
    found = dope.denoise_tv(image, lam, norm=norm, kernel=kernel, spacing=spacing)
    assert found.dtype == image.dtype
    expected = smallest_minimizer(image, norm, edges_of(shape, kernel, spacing, lam))
    # A weight beyond all costs may as well be infinite, and is not told from it.
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_outside_a_mask_nothing_moves(norm: Any) -> None:
    rng = np.random.default_rng(3)
    for _ in range(6):
        image, mask = rng.integers(0, 4, (2, 4)).astype(np.uint8), rng.random((2, 4)) < 0.7
        mask[0, 0] = True
        image[~mask] = 255
        found = dope.denoise_tv(image, 1.5, norm=norm, mask=mask)
        assert (found[~mask] == 255).all()
        part = np.where(mask, image, image[mask].min())  # sites without pairs stay as they are
        expected = smallest_minimizer(part, norm, edges_of((2, 4), None, None, 1.5, mask))
        np.testing.assert_array_equal(found[mask], expected[mask])


def primal_dual(image: Image, lam: float, steps: int) -> npt.NDArray[np.float64]:
    """The real minimizer of sum (x - g)^2 + lam TV(x), by Chambolle and Pock's accelerated method (2011)."""
    g = image.astype(np.float64)
    x, ahead = g.copy(), g.copy()
    down, right = np.zeros((g.shape[0] - 1, g.shape[1])), np.zeros((g.shape[0], g.shape[1] - 1))
    tau = sigma = 1 / np.sqrt(8.0)
    for _ in range(steps):
        down = np.clip(down + sigma * np.diff(ahead, axis=0), -lam, lam)
        right = np.clip(right + sigma * np.diff(ahead, axis=1), -lam, lam)
        divergence = np.zeros_like(g)
        divergence[:-1] += down
        divergence[1:] -= down
        divergence[:, :-1] += right
        divergence[:, 1:] -= right
        following = (x + tau * divergence + 2 * tau * g) / (1 + 2 * tau)
        theta = 1 / np.sqrt(1 + 4 * tau)  # the squares are strongly convex, with modulus 2
        tau, sigma = tau * theta, sigma / theta
        x, ahead = following, following + theta * (following - x)
    return x


def test_l2_is_the_real_minimizer_rounded() -> None:
    """[x_int >= t] and [x_real > t - 1/2] minimize the same cut, as (t - g)^2 - (t - 1 - g)^2 = 2 (t - 1/2 - g)."""
    image, lam = photo((64, 64)), 30.0
    real = primal_dual(image, lam, 10_000)
    found = dope.denoise_tv(image, lam, norm="l2")
    assert np.abs(found - real).max() <= 0.5 + 1e-2
    settled = np.abs(real - np.floor(real) - 0.5) > 1e-2
    assert settled.mean() > 0.9
    np.testing.assert_array_equal(found[settled], np.rint(real[settled]))
    edges = edges_of(image.shape, None, None, lam)
    of_found, of_real, of_rounded = energies(
        np.stack([found.ravel(), real.ravel(), np.rint(real).ravel()]), image, "l2", edges
    )
    assert of_real - 1e-2 <= of_found <= of_rounded
    assert len(np.unique(found)) < len(np.unique(image))


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("sides", [(40, 30), (12, 10, 9)])
def test_its_laws(norm: Any, sides: tuple[int, ...]) -> None:
    image = photo(sides, seed=1)
    lam = 1.5 if norm == "l1" else 40.0
    found = dope.denoise_tv(image, lam, norm=norm, kernel=3)
    turned = dope.denoise_tv(image.T, lam, norm=norm, kernel=3)
    np.testing.assert_array_equal(turned, found.T)
    shifted = dope.denoise_tv(image.astype(np.int16) - 300, lam, norm=norm, kernel=3)
    np.testing.assert_array_equal(shifted, found.astype(np.int16) - 300)
    wide = dope.denoise_tv(image.astype(np.uint16) * 200, 200 * lam if norm == "l2" else lam, norm=norm, kernel=3)
    if norm == "l1":  # grey values are those of the image, so a factor changes none of them
        np.testing.assert_array_equal(wide, found.astype(np.uint16) * 200)
    else:
        assert np.abs(wide / 200 - found).max() <= 0.5 + 1 / 400
    np.testing.assert_array_equal(dope.denoise_tv(image, 0, norm=norm), image)
    flat = np.unique(dope.denoise_tv(image, 1e9, norm=norm))
    middle = np.sort(image.ravel())[(image.size - 1) // 2] if norm == "l1" else np.ceil(image.mean() - 0.5)
    np.testing.assert_array_equal(flat, [middle])


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_blocks_memory_and_executors_change_no_bit(norm: Any, tmp_path: Path) -> None:
    image, lam = photo((60, 50), seed=2), 1.5 if norm == "l1" else 41.3
    mask = np.ones(image.shape, dtype=bool)
    mask[10:20, 5:30] = False
    expected = dope.denoise_tv(image, lam, norm=norm, kernel=3, mask=mask, blocks=1, executor=dope.Serial())
    for blocks in (2, (3, 4)):
        found = dope.denoise_tv(image, lam, norm=norm, kernel=3, mask=mask, blocks=blocks)
        np.testing.assert_array_equal(found, expected)
    stored = np.memmap(tmp_path / "image", dtype=np.uint8, mode="w+", shape=image.shape)
    stored[:] = image
    out = np.memmap(tmp_path / "out", dtype=np.uint8, mode="w+", shape=image.shape)
    same = dope.denoise_tv(
        stored, lam, norm=norm, kernel=3, mask=mask, memory="1B", blocks=(2, 2), out=out, executor=dope.Serial()
    )
    assert same is out
    np.testing.assert_array_equal(np.asarray(out), expected)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["image", "out"]  # nothing temporary is left


def test_nested_cuts_in_space_have_finer_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    from dope.total_variation import denoise

    numbers: list[int] = []

    def counted(problem: Any, following: Any, **settings: Any) -> None:
        numbers.append(len(problem.partition.blocks))
        nested_cuts(problem, following, **settings)

    image = photo((72, 72, 64), seed=7)
    expected = dope.denoise_tv(image, 40.0, norm="l2", blocks=1)
    monkeypatch.setattr(denoise, "nested_cuts", counted)
    monkeypatch.setattr(denoise, "SITES_3D", 1 << 14)
    np.testing.assert_array_equal(dope.denoise_tv(image, 40.0, norm="l2"), expected)
    np.testing.assert_array_equal(dope.denoise_tv(image, 40.0, norm="l2", blocks=2), expected)
    assert numbers == [16, 2]


def test_sixteen_bits_out_of_core() -> None:
    image = photo((30, 40), seed=4).astype(np.uint16) * 251 + 17
    expected = dope.denoise_tv(image, 300.0, norm="l2")
    found = dope.denoise_tv(image, 300.0, norm="l2", memory="1B", blocks=4)
    np.testing.assert_array_equal(found, expected)


def test_zarr_in_and_out(tmp_path: Path) -> None:
    zarr = pytest.importorskip("zarr")
    image = np.stack([photo((30, 40), seed=s) for s in range(2)])
    stored = zarr.create_array(str(tmp_path / "image.zarr"), shape=image.shape, chunks=(1, 16, 16), dtype="uint8")
    target = zarr.create_array(str(tmp_path / "out.zarr"), shape=image.shape, chunks=(1, 16, 16), dtype="uint8")
    stored[:] = image
    assert dope.denoise_tv(stored, 20, norm="l2", memory="1B", blocks=4, channel_axis=0, out=target) is target
    np.testing.assert_array_equal(target[:], dope.denoise_tv(image, 20, norm="l2", channel_axis=0))
    np.testing.assert_array_equal(target[:], dope.denoise_tv(stored, 20, norm="l2", channel_axis=0))


def test_blocks_in_other_processes() -> None:
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    image, mask = photo((24, 30), seed=6), np.ones((24, 30), dtype=bool)
    mask[3:9, 20:] = False
    expected = dope.denoise_tv(image, 1, kernel=3, mask=mask)
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        found = dope.denoise_tv(image, 1, kernel=3, mask=mask, blocks=2, executor=dope.Futures(pool))
    np.testing.assert_array_equal(found, expected)


def test_channels_are_images_by_themselves() -> None:
    image = np.stack([photo((20, 30), seed=s) for s in range(3)], axis=-1)
    found = dope.denoise_tv(image, 2, channel_axis=-1)
    for channel in range(3):
        np.testing.assert_array_equal(found[..., channel], dope.denoise_tv(image[..., channel], 2))


def test_every_flow_of_nested_cuts_holds_what_it_must(monkeypatch: pytest.MonkeyPatch) -> None:
    from dataclasses import replace

    from dope.total_variation import denoise

    def checked(problem: Any, following: Any, **settings: Any) -> None:
        nested_cuts(replace(problem, solver=dope.MaxFlow(check=True)), following, **settings)

    image = photo((30, 20), seed=5)
    expected = {norm: dope.denoise_tv(image, lam, norm=norm, kernel=5) for norm, lam in LAMS.items()}
    monkeypatch.setattr(denoise, "nested_cuts", checked)
    for norm, lam in LAMS.items():
        found = dope.denoise_tv(image, lam, norm=norm, kernel=5, blocks=6)
        np.testing.assert_array_equal(found, expected[norm])


@pytest.mark.parametrize(("sides", "kernel"), [((300,), None), ((200, 120), None), ((40, 31), 5), ((24, 23, 22), 3)])
def test_balancing_changes_no_bit(sides: tuple[int, ...], kernel: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from dope.total_variation import denoise

    image, mask = photo(sides, seed=8), np.random.default_rng(9).random(sides) < 0.95
    for lam in (0.7, 31.3, 400.0):
        monkeypatch.setattr(denoise, "EASY_CUTS", 100)
        expected = dope.denoise_tv(image, lam, norm="l2", kernel=kernel, mask=mask)
        for easy in (0, 1):
            monkeypatch.setattr(denoise, "EASY_CUTS", easy)
            found = dope.denoise_tv(image, lam, norm="l2", kernel=kernel, mask=mask, blocks=1 + 3 * easy)
            np.testing.assert_array_equal(found, expected)


def test_balanced_excesses_are_alike_where_weights_hold_them() -> None:
    """All of one sign, so that the bound is the minimum before anything is solved."""
    from dope.fixed_point import FixedPoint

    shape = (23, 17)
    unary = np.random.default_rng(1).integers(-50, 90, shape).astype(np.float64)
    energy = dope.Energy.grid(unary, lam=1000.0, kernel=np.eye(2, dtype=int))
    fixed = FixedPoint.of(energy)
    flow = dope.MaxFlow().open_blocks(energy.pairs, Partition.grid(shape, 1), fixed)
    for part in range(flow.parts):
        flow.fill(part)
    flow.finish()
    flow.wall_in(0)
    flow.price(0, (-unary).ravel())
    before = flow.bound(0)
    for turn in range(40):
        flow.balance(0, shifted=turn % 2 == 1)
    assert before < flow.bound(0) == -int(unary.sum() * fixed.scale)
    flow.solve(0)
    with pytest.raises(RuntimeError, match="before that"):
        flow.balance(0, shifted=False)


@pytest.mark.parametrize(
    ("image", "arguments", "words"),
    [
        (np.zeros((3, 3)), {}, "dtype float64.*255 \\* image"),
        (np.zeros((3, 3), bool), {}, "dtype bool.*uint8"),
        (np.zeros((3, 3), np.int32), {}, "dtype int32.*uint16"),
        (np.zeros((9, 9, 3), np.uint8), {}, "channel_axis=-1"),
        (np.zeros((9, 0), np.uint8), {}, "at least one site"),
        (np.zeros((9, 9), np.uint8), {"lam": -1}, "lam is -1"),
        (np.zeros((9, 9), np.uint8), {"lam": np.nan}, "lam is nan"),
        (np.zeros((9, 9), np.uint8), {"norm": "l3"}, "norm is 'l3'"),
        (np.zeros((9, 9), np.uint8), {"mask": np.ones((3, 3), bool)}, "mask has shape"),
        (np.zeros((9, 9), np.uint8), {"mask": np.zeros((9, 9), bool)}, "no site inside"),
        (np.zeros((9, 9), np.uint8), {"out": np.zeros((9, 9), np.int8)}, "out has shape"),
        (np.zeros((9, 9), np.uint8), {"out": np.zeros((9, 9), np.uint16)}, "dtype uint16; expected .* uint8, the"),
        (np.zeros((9, 9), np.uint8), {"channel_axis": 2}, "channel_axis is 2"),
        (np.zeros((9, 9), np.uint8), {"spacing": (1, 0)}, "spacing"),
        (np.zeros((9, 9), np.uint8), {"kernel": 4}, "kernel is 4"),
    ],
)
def test_what_is_refused(image: Image, arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(dope.InputError, match=words):
        dope.denoise_tv(image, **{"lam": 1, **arguments})


def test_the_answer_does_not_go_where_the_image_is() -> None:
    image = np.zeros((4, 4), np.uint8)
    with pytest.raises(dope.InputError, match="out lies in the memory"):
        dope.denoise_tv(image, 1, out=image)
