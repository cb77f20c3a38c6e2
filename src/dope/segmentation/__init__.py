"""Segmentation: from an image and what is known about it to labels, in one call.

    crop to the region of interest → unaries → strokes as hard constraints → Energy.grid → minimize → labels in place

What is known may be strokes (their colours are learnt), a probability map, or unaries themselves.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import NoneType
from typing import Any, Literal, TypedDict, Unpack

import numpy as np
import numpy.typing as npt

from dope.api import minimize
from dope.arrays import Labels
from dope.energy import Energy
from dope.errors import InputError
from dope.memory import available_bytes, budget_of
from dope.methods import Bracketing, Exact
from dope.models import Model
from dope.pairs import Kernel
from dope.partition import Partition
from dope.protocols import BlockSolver, Executor, Method
from dope.result import Result
from dope.segmentation.budget import segmentation_bytes
from dope.segmentation.cut import Box, Cut, Pixels
from dope.segmentation.known import Known
from dope.segmentation.lazy import segmented_lazily
from dope.segmentation.stated import Stated, Statement, checked_lam
from dope.steps import Step


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
    checkpoint: str | os.PathLike[str] | None = None,
    resume: str | os.PathLike[str] | None = None,
    out: Any = None,
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
        What it may take, such as "16GB"; by default what is available now. With a probability or a unary, an image
        that takes more is read and solved box by box; with colours to be learnt it is refused.
    checkpoint, resume, out : optional
        As in `minimize`; with a probability or a unary. `out` is where labels go.
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
    known = Known(scribbles, probability, unary, rectangle, lasso)
    kept: dict[str, Any] = {"checkpoint": checkpoint, "resume": resume, "out": out}
    if _in_boxes(image, known, kernel, channel_axis, memory, settings, kept):
        for name, value in (("margin", margin), ("model", model), ("rounds", rounds), ("connected", connected or None)):
            if value is not None:
                raise InputError(
                    f"{name} is given, which needs the whole image in the memory of this process; leave it out, or "
                    f"checkpoint, resume, out and Dask, and allow enough memory."
                )
        result = segmented_lazily(
            image, known, mask=mask, lam=checked_lam(lam), kernel=kernel, beta=beta, spacing=spacing,
            channel_axis=channel_axis, settings={**settings, **kept, "memory": memory},
        )  # fmt: skip
        if out is not None:
            return result
        channels = Pixels.of(image, result.labels.shape, channel_axis).channels
        return replace(result, labels=_with_coordinates(result.labels, image, channels))
    stated = Stated.of(
        image,
        scribbles=scribbles, probability=probability, unary=unary, rectangle=rectangle, lasso=lasso, mask=mask,
        margin=margin, lam=lam, kernel=kernel, beta=beta, spacing=spacing, channel_axis=channel_axis, model=model,
        rounds=rounds, connected=connected, memory=memory, blocks=settings.get("blocks"),
    )  # fmt: skip
    energy, result = _minimized(stated, settings)
    result = _relabelled(result, energy, stated.kept(result.labels))
    labels = _in_place(result.labels, image, stated.cut)
    return replace(result, labels=labels, problem=energy, where=stated.cut.where)


def stated_energy(image: Any, **statement: Unpack[Statement]) -> tuple[Energy, Box]:
    """The energy that `segment` minimizes for these arguments, and the box of the image that it covers."""
    stated = Stated.of(image, **statement)
    if stated.rounds:
        raise InputError("with rounds of re-estimation there are several energies; expected rounds=0.")
    return stated.energy(stated.unary()), stated.cut.where


def _minimized(stated: Stated, settings: Settings) -> tuple[Energy, Result]:
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


def _in_place(labels: Labels, image: Any, cut: Cut) -> Any:
    """The labels of the box in an array of the image's shape, and with its coordinates, if it has some."""
    whole = labels
    if cut.sides != cut.shape:
        whole = np.zeros(cut.shape, dtype=np.bool_)
        whole[cut.where] = labels
    return _with_coordinates(whole, image, cut.pixels.channels)


def _with_coordinates(labels: Labels, image: Any, channels: int | None = None) -> Any:
    """The labels with the dimensions and coordinates of the image, if it has some."""
    if not (hasattr(image, "dims") and hasattr(image, "coords") and hasattr(image, "isel")):
        return labels
    sites = image if channels is None else image.isel({image.dims[channels]: 0}, drop=True)
    return sites.copy(data=labels).rename("labels")


def _in_boxes(
    image: Any,
    known: Known,
    kernel: Kernel,
    channel_axis: int | None,
    memory: int | str | None,
    settings: Settings,
    kept: dict[str, Any],
) -> bool:
    """Whether to read and solve box by box: where that is asked for, or nothing else would fit."""
    if getattr(settings.get("executor"), "elsewhere", False) or any(value is not None for value in kept.values()):
        return True
    if known.learnt:
        return False
    shape = known.sites(image, channel_axis)
    cut = Cut(Pixels.of(image, shape, channel_axis), shape, tuple(slice(0, n) for n in shape))
    budget = available_bytes() if memory is None else budget_of(memory)
    needed = segmentation_bytes(cut.sides, kernel=kernel, pixel_bytes=cut.pixel_bytes)
    return budget is not None and needed > budget and isinstance(settings.get("method"), (NoneType, Bracketing, Exact))
