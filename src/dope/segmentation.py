"""Segmentation: from an image and what is known about it to labels, in one call.

    crop to the region of interest → unaries → strokes as hard constraints → Energy.grid → minimize → labels in place

What is known may be strokes (their colours are learnt), a probability map, or unaries themselves.
"""

from __future__ import annotations

import math
import operator
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypedDict, Unpack

import numpy as np
import numpy.typing as npt

from dope.api import Result, minimize
from dope.arrays import BACKGROUND, FOREGROUND, Labels, Reals, as_labels, as_numbers, as_reals
from dope.energy import Energy
from dope.errors import InputError
from dope.memory import as_bytes, require_bytes
from dope.models import (
    Model,
    automatic_lam,
    automatic_model,
    connected_to_seeds,
    kernel_lam,
    probability_unary,
    reestimated,
    seed_unary,
    seeds_from_lasso,
    seeds_from_rectangle,
)
from dope.models.seeds import checked_seeds
from dope.pairs import Kernel
from dope.partition import Partition
from dope.planning import Plan
from dope.protocols import BlockSolver, Executor, Method, Step

Box = tuple[slice, ...]

# What a stroke may cost: float32 holds it, and float64 the sum of all.
MOST_STRENGTH = 1e30
# Rounds of re-estimation that follow a rectangle or a lasso, as inside it nothing is known at first.
ROUNDS = 5


class Statement(TypedDict, total=False):
    """What an energy is made of: arguments of `segment`."""

    scribbles: npt.ArrayLike | None
    probability: npt.ArrayLike | None
    unary: npt.ArrayLike | None
    rectangle: Sequence[slice] | Sequence[tuple[int, int]] | None
    lasso: npt.ArrayLike | None
    mask: npt.ArrayLike | None
    margin: float | None
    lam: float | Literal["auto"]
    kernel: Kernel
    beta: float | None
    spacing: Sequence[float] | None
    channel_axis: int | None
    model: Model | None
    rounds: int | None
    connected: bool
    memory: int | str | None


class Settings(TypedDict, total=False):
    """What `minimize` is told besides the energy."""

    blocks: int | Sequence[int] | Partition | None
    overlap: float | int
    method: Method | None
    solver: BlockSolver | None
    executor: Executor | None
    start: Result | None
    watch: Callable[[Step], object] | None


def segment(
    image: Any,
    *,
    scribbles: npt.ArrayLike | None = None,
    probability: npt.ArrayLike | None = None,
    unary: npt.ArrayLike | None = None,
    rectangle: Sequence[slice] | Sequence[tuple[int, int]] | None = None,
    lasso: npt.ArrayLike | None = None,
    mask: npt.ArrayLike | None = None,
    margin: float | None = None,
    lam: float | Literal["auto"] = "auto",
    kernel: Kernel = 3,
    beta: float | None = None,
    spacing: Sequence[float] | None = None,
    channel_axis: int | None = None,
    model: Model | None = None,
    rounds: int | None = None,
    connected: bool = False,
    memory: int | str | None = None,
    **settings: Unpack[Settings],
) -> Result:
    """Divide an image or volume into foreground and background.

    Parameters
    ----------
    image : array
        Two or three dimensions (any number, in fact), grey or with channels, of any real type: NumPy, memory-mapped,
        dask, xarray or Zarr. Channels are the axis that the sites do not have, by default the last.
    scribbles : integer array, optional
        0 where nothing is known, 1 under foreground strokes, 2 under background strokes. They decide where they are,
        and by their colours everywhere else.
    probability : array, optional
        Of foreground, 0 to 1, or 0 to the largest value of an unsigned integer type. Instead of colours.
    unary : array, optional
        What foreground costs over background at each site. Instead of colours.
    rectangle, lasso : optional
        A box, ((start, stop), ...) for each axis, rows before columns and stop outside; or a polygon of (row, column)
        points. They lie around the object: everything outside is background. Colours are estimated again and again
        from what was found.
    mask : bool array, optional
        The region of interest. Sites outside are not part of the problem; their label is background.
    margin : float, optional
        Look only at the bounding box of the strokes, made larger by this fraction of its sides.
    lam : float or "auto"
        How much smoothing. "auto" follows from kernel, spacing and dimension, see `docs/choose.md`.
    kernel, beta, spacing : optional
        As in `Energy.grid`.
    channel_axis : int, optional
        Which axis of the image is channels, where it is not the last.
    model : optional
        How colours become unaries: `dope.models.ColorClusters()`, `ColorMixture()`, `GreyHistogram()`.
    rounds : int, optional
        How often the model is estimated again from the labels found. Default 0, and 5 after a rectangle or lasso.
    connected : bool
        Keep only foreground that hangs together with a foreground stroke, and background with a background stroke.
        What is changed so is no longer the minimum of an energy.
    memory : int or str, optional
        Refuse what would take more, such as "16GB"; by default more than is available now.
    **settings
        `blocks`, `overlap`, `method`, `solver`, `executor`, `start`, `watch`: as in `minimize`.

    Returns
    -------
    Result
        `labels` are shaped like the image without channels; of an xarray image they have its dimensions and
        coordinates. `problem` is the energy that was minimized, `where` the box of the image that it covers.

    Examples
    --------
    >>> image = np.zeros((20, 20, 3), dtype=np.uint8)
    >>> image[5:15, 5:15] = (200, 40, 40)
    >>> scribbles = np.zeros((20, 20), dtype=np.uint8)
    >>> scribbles[9:11, 9:11], scribbles[0] = 1, 2
    >>> result = segment(image, scribbles=scribbles)
    >>> int(result.labels.sum()), result.exact
    (100, True)
    """
    stated = _Stated.of(
        image,
        scribbles=scribbles, probability=probability, unary=unary, rectangle=rectangle, lasso=lasso, mask=mask,
        margin=margin, lam=lam, kernel=kernel, beta=beta, spacing=spacing, channel_axis=channel_axis, model=model,
        rounds=rounds, connected=connected, memory=memory,
    )  # fmt: skip
    energy, result = _minimized(stated, settings)
    result = _relabelled(result, energy, stated.kept(result.labels))
    labels = _in_place(result.labels, image, stated.cut)
    return replace(result, labels=labels, problem=energy, where=stated.cut.where)


def stated_energy(image: Any, **statement: Unpack[Statement]) -> tuple[Energy, Box]:
    """The energy that `segment` minimizes for these arguments, and the box of the image that it covers."""
    stated = _Stated.of(image, **statement)
    if stated.rounds:
        raise InputError("with rounds of re-estimation there are several energies; expected rounds=0.")
    return stated.energy(stated.unary()), stated.cut.where


@dataclass(frozen=True, eq=False)
class _Known:
    """What the caller knows about the image."""

    scribbles: npt.ArrayLike | None
    probability: npt.ArrayLike | None
    unary: npt.ArrayLike | None
    rectangle: Any
    lasso: npt.ArrayLike | None

    def __post_init__(self) -> None:
        sources = {"probability": self.probability, "unary": self.unary, "rectangle": self.rectangle}
        given = [name for name, value in {**sources, "lasso": self.lasso}.items() if value is not None]
        if len(given) > 1:
            raise InputError(f"{' and '.join(given)} are given; expected one of them, with or without scribbles.")
        if not given and self.scribbles is None:
            raise InputError(
                "nothing is known about the image; pass scribbles, a probability, a unary, a rectangle or a lasso."
            )

    @property
    def outlined(self) -> bool:
        return self.rectangle is not None or self.lasso is not None

    @property
    def learnt(self) -> bool:
        """Whether unaries come from a model of the image's colours."""
        return self.probability is None and self.unary is None

    def unary_at(self, where: Box, inside: Labels | None) -> Reals:
        """Of a box, from what is not colours."""
        given: Any = self.unary if self.unary is not None else self.probability
        part = np.asarray((given if hasattr(given, "shape") else np.asarray(given))[where])
        if self.unary is not None:
            return as_reals("unary", part)
        return probability_unary(part if inside is None else np.where(inside, part, part.dtype.type(0)))

    def sites(self, image: Any, channel_axis: int | None) -> tuple[int, ...]:
        """The shape of what is to be labelled."""
        for name in ("scribbles", "probability", "unary"):
            array = getattr(self, name)
            if array is not None:
                return tuple(np.shape(array))
        shape = tuple(np.shape(image))
        dimensions = 2 if self.lasso is not None else len(_pairs(self.rectangle))
        if len(shape) == dimensions:
            return shape
        axis = -1 if channel_axis is None else channel_axis
        return tuple(n for a, n in enumerate(shape) if a != axis % len(shape))

    def seeds(self, shape: tuple[int, ...]) -> npt.NDArray[np.int8] | None:
        """All that strokes and outlines say, 0 where they say nothing."""
        both = self.learnt and not self.outlined
        seeds = None if self.scribbles is None else checked_seeds(self.scribbles, both=both)
        if seeds is not None and seeds.shape != shape:
            raise InputError(f"scribbles are shaped {seeds.shape}; expected {shape}, as the rest is.")
        drawn = None if seeds is None else seeds.astype(np.int8)
        if not self.outlined:
            return drawn
        outside = (
            seeds_from_lasso(shape, self.lasso)
            if self.lasso is not None
            else seeds_from_rectangle(shape, _pairs(self.rectangle))
        )
        return (outside if drawn is None else np.where(drawn != 0, drawn, outside)).astype(np.int8)


def _pairs(rectangle: Sequence[slice] | Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    try:
        sides = [(side.start, side.stop) if isinstance(side, slice) else tuple(side) for side in rectangle]
        return [(operator.index(start), operator.index(stop)) for start, stop in sides]
    except (TypeError, ValueError):
        raise InputError(
            f"rectangle is {rectangle!r}; expected a start and a stop for each axis, such as ((10, 200), (30, 400))."
        ) from None


@dataclass(frozen=True, eq=False)
class _Pixels:
    """An image that is still where it was: sites, and channels on some axis or none."""

    array: Any
    channels: int | None

    @classmethod
    def of(cls, image: Any, shape: tuple[int, ...], channel_axis: int | None) -> _Pixels:
        array = image if hasattr(image, "shape") and hasattr(image, "dtype") else np.asarray(image)
        found = tuple(array.shape)
        if not found or isinstance(image, (str, bytes, os.PathLike)):
            raise InputError(
                f"image is a {type(image).__name__}; expected an array. dope.io.load(path).pixels reads one."
            )
        if channel_axis is None and found == shape:
            return cls(array, None)
        axis = -1 if channel_axis is None else channel_axis
        if not -len(found) <= axis < len(found):
            raise InputError(f"channel_axis is {channel_axis}; expected an axis of the image, shaped {found}.")
        axis %= len(found)
        if found[:axis] + found[axis + 1 :] != shape:
            raise InputError(
                f"the image is shaped {found}, and what is known about it {shape}; expected the same shape, but for a "
                f"channel axis. Crop or resample one of them, or say which channel_axis."
            )
        return cls(array, axis)


@dataclass(frozen=True, eq=False)
class _Cut:
    """The box of an image that takes part."""

    pixels: _Pixels
    shape: tuple[int, ...]
    where: Box

    @property
    def sides(self) -> tuple[int, ...]:
        return tuple(s.stop - s.start for s in self.where)

    @property
    def pixel_bytes(self) -> int:
        """What a site's pixel takes."""
        axis = self.pixels.channels
        number = 1 if axis is None else int(self.pixels.array.shape[axis])
        return number * int(np.dtype(self.pixels.array.dtype).itemsize)

    def features(self) -> npt.NDArray[Any]:
        """Its pixels, channels last; a view where the image is in memory already."""
        index: list[slice] = list(self.where)
        if self.pixels.channels is not None:
            index.insert(self.pixels.channels, slice(None))
        array = as_numbers("image", np.asarray(self.pixels.array[tuple(index)]))
        return array if self.pixels.channels is None else np.moveaxis(array, self.pixels.channels, -1)


def _region(mask: npt.ArrayLike, shape: tuple[int, ...]) -> Labels:
    inside = as_labels(mask, np.shape(mask), name="mask")
    if inside.shape != shape:
        raise InputError(f"mask is shaped {inside.shape}; expected {shape}, the image's without channels.")
    if not inside.any():
        raise InputError("mask has no site inside; expected True where sites take part.")
    return inside


def _where(
    shape: tuple[int, ...], inside: Labels | None, seeds: npt.NDArray[np.int8] | None, margin: float | None
) -> Box:
    """The box outside which nothing takes part."""
    where = tuple(slice(0, n) for n in shape) if inside is None else _bounding_box(inside)
    if margin is None:
        return where
    if not (math.isfinite(margin) and margin >= 0):
        raise InputError(f"margin is {margin}; expected a fraction of 0 or more, such as 0.2.")
    if seeds is None or not seeds.any():
        raise InputError("margin is given without strokes; expected scribbles whose bounding box it makes larger.")
    around = _bounding_box(seeds != 0)
    wider = [math.ceil(margin * (s.stop - s.start)) for s in around]
    return tuple(
        slice(max(b.start, s.start - m), min(b.stop, s.stop + m)) for b, s, m in zip(where, around, wider, strict=True)
    )


def _bounding_box(inside: npt.NDArray[np.bool_]) -> Box:
    box = []
    for axis in range(inside.ndim):
        places = np.flatnonzero(inside.any(axis=tuple(a for a in range(inside.ndim) if a != axis)))
        box.append(slice(int(places[0]), int(places[-1]) + 1))
    return tuple(box)


def _require_memory(cut: _Cut, kernel: Kernel, memory: int | str | None) -> None:
    plan = Plan.of(cut.sides, kernel=kernel, pixel_bytes=cut.pixel_bytes)
    budget = as_bytes(memory) if isinstance(memory, str) else memory
    require_bytes(
        f"segmenting {' x '.join(map(str, cut.sides))} sites with {plan.neighbors} neighbours", plan.bytes, budget
    )


def _checked_lam(lam: object) -> float | None:
    """The number, or None for "auto"."""
    if isinstance(lam, str):
        if lam == "auto":
            return None
        raise InputError(f'lam is {lam!r}; expected a number of 0 or more, or "auto".')
    number = np.asarray(lam)
    if isinstance(lam, bool) or number.ndim or number.dtype.kind not in "fiu" or not 0 <= number < math.inf:
        raise InputError(f'lam is {lam!r}; expected a number of 0 or more, or "auto".')
    return float(number)


def _checked_rounds(rounds: object, *, estimated: bool, learnt: bool) -> int:
    if rounds is None:
        return ROUNDS if estimated else 0
    if isinstance(rounds, bool) or not isinstance(rounds, (int, np.integer)) or rounds < 0:
        raise InputError(f"rounds is {rounds!r}; expected a whole number of 0 or more.")
    if rounds and not learnt:
        raise InputError("rounds are for models of colours; with a probability or a unary there is none to estimate.")
    return int(rounds)


@dataclass(frozen=True, eq=False)
class _Stated:
    """The box's own data, from which energies are made."""

    known: _Known
    cut: _Cut
    features: npt.NDArray[Any]
    inside: Labels | None
    seeds: npt.NDArray[np.int8] | None
    given_lam: float | None
    kernel: Kernel
    beta: float | None
    spacing: Sequence[float] | None
    given_model: Model | None
    rounds: int
    connected: bool

    @classmethod
    def of(cls, image: Any, **said: Unpack[Statement]) -> _Stated:
        known = _Known(
            said.get("scribbles"), said.get("probability"), said.get("unary"), said.get("rectangle"), said.get("lasso")
        )
        mask, kernel, spacing = said.get("mask"), said.get("kernel", 3), said.get("spacing")
        channel_axis = said.get("channel_axis")
        shape = known.sites(image, channel_axis)
        pixels = _Pixels.of(image, shape, channel_axis)
        seeds = known.seeds(shape)
        inside = None if mask is None else _region(mask, shape)
        where = _where(shape, inside, seeds, said.get("margin"))
        cut = _Cut(pixels, shape, where)
        _require_memory(cut, kernel, said.get("memory"))
        region = None if inside is None or inside[where].all() else inside[where]
        drawn = None if seeds is None else seeds[where]
        return cls(
            known=known,
            cut=cut,
            features=cut.features(),
            inside=region,
            # Strokes outside the region are nobody's.
            seeds=drawn if drawn is None or region is None else np.where(region, drawn, 0).astype(np.int8),
            given_lam=_checked_lam(said.get("lam", "auto")),
            kernel=kernel,
            beta=said.get("beta"),
            spacing=spacing,
            given_model=said.get("model"),
            rounds=_checked_rounds(said.get("rounds"), estimated=known.outlined, learnt=known.learnt),
            connected=bool(said.get("connected", False)) and drawn is not None,
        )._checked()

    def _checked(self) -> _Stated:
        if self.given_model is not None and not hasattr(self.given_model, "unary"):
            raise InputError(f"model is {self.given_model!r}; expected an object with unary(image, seeds), or None.")
        if self.seeds is not None and self.known.learnt and not self.known.outlined:
            for label, name in ((FOREGROUND, "foreground"), (BACKGROUND, "background")):
                if not (self.seeds == label).any():
                    raise InputError(
                        f"no {name} stroke lies inside the mask; expected at least one of each kind there."
                    )
        return self

    def unary(self) -> Reals:
        if not self.known.learnt:
            return self.known.unary_at(self.cut.where, self.inside)
        assert self.seeds is not None
        if not (self.seeds == FOREGROUND).any():  # a rectangle: for a start, all that may be foreground is
            return self.reestimated(self.seeds != BACKGROUND)
        return self._spread(self.model.unary(self._part(self.features), self._part(self.seeds)))

    @property
    def model(self) -> Model:
        assert self.seeds is not None
        return self.given_model or automatic_model(self.features, self.seeds.shape)

    def reestimated(self, labels: Labels) -> Reals:
        assert self.seeds is not None
        pixels, seeds = self._part(self.features), self._part(self.seeds)
        return self._spread(reestimated(self.model, pixels, seeds=seeds, labels=self._part(labels)))

    def _part(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """What models see: the sites of the region, one after another; where there is none, all as they lie."""
        return array if self.inside is None else array[self.inside]

    def _spread(self, unary: Reals) -> Reals:
        """What models found, at its sites."""
        if self.inside is None:
            return unary
        whole = np.zeros(self.inside.shape, dtype=unary.dtype)
        whole[self.inside] = unary
        return whole

    def kept(self, labels: Labels) -> Labels:
        """The labels, or what of them hangs together with strokes, if that is asked for."""
        return connected_to_seeds(labels, self.seeds) if self.connected and self.seeds is not None else labels

    def lam(self, unary: Reals) -> float:
        if self.given_lam is not None:
            return self.given_lam
        if self.known.probability is not None:
            # Most sites of such a map are sure, so that their mean says little: by the largest, as in the paper.
            largest = float(np.abs(unary).max())
            return kernel_lam(self.kernel, unary.ndim, total=2.0 * largest, spacing=self.spacing)
        if self.inside is None:
            return automatic_lam(unary, self.kernel, spacing=self.spacing)
        share = np.count_nonzero(self.inside) / self.inside.size
        return automatic_lam(np.where(self.inside, unary, 0.0), self.kernel, spacing=self.spacing) / share

    def energy(self, unary: Reals) -> Energy:
        plain = Energy.grid(
            unary,
            lam=self.lam(unary),
            kernel=self.kernel,
            features=self.features,
            beta=self.beta,
            spacing=self.spacing,
            mask=self.inside,
        )
        if self.seeds is None or not self.seeds.any():
            return plain
        # More than a site can gain by any label: its own price, and all its pairs.
        strength = 1.0 + plain.pairs.strength + float(np.abs(plain.unary).max())
        if strength > MOST_STRENGTH:
            raise InputError(f"lam or the unaries add up to {strength:.3g}; strokes take up to {MOST_STRENGTH:g}.")
        # Strokes that are kept, as all are, cost nothing: energies and gaps are those of the other sites.
        constant = strength * np.count_nonzero(self.seeds == FOREGROUND)
        return replace(plain, unary=seed_unary(plain.unary, self.seeds, strength), constant=constant)


def _minimized(stated: _Stated, settings: Settings) -> tuple[Energy, Result]:
    """Minimize, and as long as labels change and rounds are left, estimate the model from them and minimize again."""
    energy = stated.energy(stated.unary())
    result = minimize(energy, **settings)
    labels = stated.kept(result.labels)
    for _ in range(stated.rounds):
        if result.stopped == "cancelled" or not labels.any() or labels.all():
            break
        before = labels
        energy = stated.energy(stated.reestimated(before))
        again: Settings = {**settings, "start": result}
        result = minimize(energy, **again)
        labels = stated.kept(result.labels)
        if np.array_equal(labels, before):
            break
    return energy, result


def _relabelled(result: Result, energy: Energy, labels: Labels) -> Result:
    """The result with labels that are not what was minimized any more, as far as they differ."""
    if np.array_equal(labels, result.labels):
        return result
    worse = energy(labels)
    return replace(result, labels=labels, energy=worse, exact=False, proved=None)


def _in_place(labels: Labels, image: Any, cut: _Cut) -> Any:
    """The labels of the box in an array of the image's shape, and with its coordinates, if it has some."""
    whole = labels
    if cut.sides != cut.shape:
        whole = np.zeros(cut.shape, dtype=np.bool_)
        whole[cut.where] = labels
    if not (hasattr(image, "dims") and hasattr(image, "coords") and hasattr(image, "isel")):
        return whole
    sites = image if cut.pixels.channels is None else image.isel({image.dims[cut.pixels.channels]: 0}, drop=True)
    return sites.copy(data=whole).rename("labels")
