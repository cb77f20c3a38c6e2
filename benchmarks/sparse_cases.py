"""Graphs that are no grids, each made from its name alone.

    roads     1,000,000 random points in a square, joined by the shortest tree of their Delaunay triangulation and by
              two in five as many of its other edges: 2.8 neighbours, as junctions of roads have
    near2     1,000,000 random points in a square, each joined to its 8 nearest
    near3     1,000,000 random points in a cube, each joined to its 10 nearest
    regions   superpixels of a photo, of about 4x4 pixels, joined where they touch
    ordered   near2, its points numbered strip by strip, so that neighbours have numbers close to each other

Points are numbered as they were drawn, at random; superpixels row by row. Each pair is listed once, in no order. Every
site has a truth, 35 % of them foreground: a smooth field of waves above its quantile, or on the photo the brightness
around it. The picture x is .35 or .65 by the truth, plus normal noise of deviation .3, and
r = ((x - .35)^2 - (x - .65)^2) / (2 * .3^2):

    e ("easy")    unary = -rint(100 r): every site says something
    h ("hard")    unary = -rint(50 r) under weights five times as strong, and 40 seeds of some sites with -12000 or
                  +12000, by the truth at their centre
    w(p, q)       = 1 + rint(lam exp(-2 (x_p - x_q)^2) exp(-(d / D)^2 / 2)), d being the distance and D its median

Of superpixels d and D are left out, and lam grows with the length of the border.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from cases import QUICK, Ints, Labels, data_file

PHOTO = Path("photos") / "pondering-heron.jpg"
FOREGROUND = 0.35
SUPERPIXEL = 4

Reals = npt.NDArray[np.float64]
# Where the sites lie, and the pairs with a length or a strength.
Places = tuple[Reals, Ints, Ints, Reals]


@dataclass(frozen=True, eq=False)
class Sparse:
    """An energy in integers: a price for each site, and a weight for each pair whose ends differ."""

    name: str
    unary: npt.NDArray[np.int32]
    first: npt.NDArray[np.int32]
    second: npt.NDArray[np.int32]
    weights: npt.NDArray[np.int32]

    @property
    def shape(self) -> tuple[int, ...]:
        return self.unary.shape

    @property
    def sites(self) -> int:
        return self.unary.size

    @property
    def pairs(self) -> int:
        return self.weights.size

    @cached_property
    def neighbours(self) -> float:
        """On average."""
        return round(2 * self.pairs / self.sites, 1)

    def edges(self) -> tuple[Ints, Ints, Ints]:
        """All pairs: first ends, second ends, weights."""
        return self.first, self.second, self.weights

    def energy(self, labels: Labels, unary: Ints | None = None) -> int:
        """What the labels cost: plain sums that share nothing with any solver."""
        prices = self.unary if unary is None else unary
        cut = self.weights[labels[self.first] != labels[self.second]]
        return int(prices[labels].sum(dtype=np.int64)) + int(cut.sum(dtype=np.int64))

    def save(self, file: Path) -> None:
        arrays = {"unary": self.unary, "first": self.first, "second": self.second, "weights": self.weights}
        np.savez(file, name=self.name, **arrays)

    @classmethod
    def load(cls, file: Path) -> Sparse:
        with np.load(file) as stored:
            arrays = dict(stored)
        return cls(**arrays | {"name": str(arrays["name"])})


def roads(draw: np.random.Generator, *, quick: bool) -> Places:
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import minimum_spanning_tree
    from scipy.spatial import Delaunay  # not above: a process that only solves does without

    points = draw.random((_many(quick), 2))
    corners = Delaunay(points).simplices
    first, second = _unique(np.concatenate([corners[:, [0, 1]], corners[:, [1, 2]], corners[:, [2, 0]]]), len(points))
    length = _lengths(points, first, second)
    number = (len(points), len(points))
    tree = coo_array(minimum_spanning_tree(coo_array((length, (first, second)), shape=number).tocsr()))
    in_tree = np.isin(first * len(points) + second, tree.row.astype(np.int64) * len(points) + tree.col)
    kept = in_tree | (draw.random(len(first)) < 0.4 * in_tree.sum() / (~in_tree).sum())
    return points, first[kept], second[kept], length[kept]


def nearest(neighbours: int, axes: int, *, ordered: bool = False) -> Callable[..., Places]:
    def make(draw: np.random.Generator, *, quick: bool) -> Places:
        from scipy.spatial import cKDTree

        points = draw.random((_many(quick), axes))
        if ordered:
            strip = np.floor(points[:, 0] * np.sqrt(len(points)) / 4)
            points = points[np.lexsort((points[:, 1], strip))]
        found = cKDTree(points).query(points, neighbours + 1)[1][:, 1:]
        tails = np.repeat(np.arange(len(points)), neighbours)
        first, second = _unique(np.stack([tails, found.ravel()], axis=1), len(points))
        return points, first, second, _lengths(points, first, second)

    return make


def regions(draw: np.random.Generator, *, quick: bool) -> Places:
    """A pixel belongs to whichever of the nine cells around it has the colour and the place most like its own."""
    del draw
    from PIL import Image

    with Image.open(data_file(PHOTO)) as opened:
        photo = np.asarray(opened.convert("RGB"), dtype=np.float32) / 255
    rows, columns = (n // SUPERPIXEL for n in photo.shape[:2])
    if quick:
        rows, columns = 12, 15
    photo = photo[: rows * SUPERPIXEL, : columns * SUPERPIXEL]
    cells = photo.reshape(rows, SUPERPIXEL, columns, SUPERPIXEL, 3).mean(axis=(1, 3))
    y, x = np.indices(photo.shape[:2], dtype=np.float32)
    number = np.zeros(photo.shape[:2], dtype=np.int64)
    least = np.full(photo.shape[:2], np.inf, dtype=np.float32)
    for down in (-1, 0, 1):
        for right in (-1, 0, 1):
            row = np.clip(np.arange(len(photo)) // SUPERPIXEL + down, 0, rows - 1)
            column = np.clip(np.arange(photo.shape[1]) // SUPERPIXEL + right, 0, columns - 1)
            where = np.ix_(row, column)
            away = (y - SUPERPIXEL * row[:, None] - 1.5) ** 2 + (x - SUPERPIXEL * column[None] - 1.5) ** 2
            cost = ((photo - cells[where]) ** 2).sum(axis=-1) * 400 + away / SUPERPIXEL**2
            number = np.where(cost < least, row[:, None] * columns + column[None], number)
            least = np.minimum(cost, least)
    sides = [(number[:, :-1], number[:, 1:]), (number[:-1], number[1:])]
    ends = np.stack([np.concatenate([side[k].ravel() for side in sides]) for k in (0, 1)], axis=1)
    ends = np.sort(ends[ends[:, 0] != ends[:, 1]], axis=1)
    codes, border = np.unique(ends[:, 0] * (rows * columns) + ends[:, 1], return_counts=True)
    return cells.reshape(-1, 3).astype(np.float64), *np.divmod(codes, rows * columns), border.astype(np.float64)


def _many(quick: bool) -> int:
    return 400 if quick else 1_000_000


def _unique(ends: Ints, sites: int) -> tuple[Ints, Ints]:
    low, high = ends.min(axis=1).astype(np.int64), ends.max(axis=1).astype(np.int64)
    first, second = np.divmod(np.unique(low * sites + high), sites)
    return first, second


def _lengths(points: Reals, first: Ints, second: Ints) -> Reals:
    return np.sqrt(((points[first] - points[second]) ** 2).sum(axis=1))


def _field(points: Reals, draw: np.random.Generator) -> Reals:
    """Waves of all directions, about five across."""
    level = np.zeros(len(points))
    for _ in range(24):
        level += np.cos(points @ draw.normal(0, 20, points.shape[1]) + draw.uniform(0, 2 * np.pi))
    return level


RECIPES: dict[str, tuple[Callable[..., Places], float]] = {
    "roads": (roads, 100.0),
    "near2": (nearest(8, 2), 60.0),
    "near3": (nearest(10, 3), 50.0),
    "ordered": (nearest(8, 2, ordered=True), 60.0),
    "regions": (regions, 20.0),
}
CASES = [recipe + ending for recipe in RECIPES for ending in "eh"]


def make(name: str, *, quick: bool = False) -> Sparse:
    """The instance of that name, or a small one of its kind; MissingDataError where its data is not there."""
    recipe, hard = name[:-1], name[-1] == "h"
    place, lam = RECIPES[recipe]
    draw = np.random.default_rng(0)
    points, first, second, length = place(draw, quick=quick)
    level = points.sum(axis=1) if recipe == "regions" else _field(points, draw)
    truth = level > np.quantile(level, 1 - FOREGROUND)
    picture = np.where(truth, 0.65, 0.35) + 0.3 * draw.standard_normal(len(truth))
    ratio = ((picture - 0.35) ** 2 - (picture - 0.65) ** 2) / (2 * 0.3**2)
    unary = -np.rint((50 if hard else 100) * ratio)
    if hard:
        _seed(unary, truth, first, second, draw, dots=4 if quick else 40)
    near = length if recipe == "regions" else np.exp(-((length / np.median(length)) ** 2) / 2)
    alike = np.exp(-2 * (picture[first] - picture[second]) ** 2)
    weights = 1 + np.rint((5 if hard else 1) * lam * alike * near)
    order = draw.permutation(len(weights))
    ends: list[Any] = [np.ascontiguousarray(one[order], np.int32) for one in (first, second, weights)]
    return Sparse(name + QUICK * quick, unary.astype(np.int32), *ends)


def _seed(unary: Reals, truth: Labels, first: Ints, second: Ints, draw: np.random.Generator, *, dots: int) -> None:
    """Set `unary` around random sites to what the truth says there."""
    centres = draw.integers(0, len(unary), dots)
    dot = np.full(len(unary), -1)
    dot[centres] = np.arange(dots)
    for _ in range(3):
        for one, other in ((first, second), (second, first)):
            fresh = (dot[one] >= 0) & (dot[other] < 0)
            dot[other[fresh]] = dot[one[fresh]]
    inside = dot >= 0
    unary[inside] = np.where(truth[centres[dot[inside]]], -12000, 12000)
