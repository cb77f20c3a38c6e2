"""Segmentation: from an image and what is known about it to labels, in one call."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy.typing as npt

from dope.models import Model
from dope.pairs import Kernel
from dope.partition import Partition
from dope.protocols import BlockSolver, Executor, Method
from dope.result import Result
from dope.segmentation.segmentation import Segmentation
from dope.steps import Step

__all__ = ["Segmentation", "segment"]


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
    blocks: int | Sequence[int] | Partition | None = None,
    overlap: float | int | None = None,
    method: Method | None = None,
    solver: BlockSolver | None = None,
    executor: Executor | None = None,
    start: Result | None = None,
    watch: Callable[[Step], object] | None = None,
    memory: int | str | None = None,
    classes: int | Sequence[str] | None = None,
    label_axis: int | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    resume: str | os.PathLike[str] | None = None,
    certificate: str | os.PathLike[str] | None = None,
    out: Any = None,
) -> Result:
    """Divide an image or volume into foreground and background, or into several classes.

    Parameters
    ----------
    image : array
        Two or three dimensions (any number, in fact), grey or with channels, of any real type: NumPy, memory-mapped,
        dask, xarray or Zarr. Channels are the axis that the sites do not have, by default the last. Or the path of a
        file, as scribbles, probability, unary and mask may be.
    scribbles : integer array, optional
        0 where nothing is known, 1 under foreground strokes, 2 under background strokes. They decide where they are,
        and by their colours everywhere else. With any other number in them, or with `classes`, each positive number is
        a class of its own, labels are these numbers, and sites under negative ones take no part: their label is 0.
    probability : array, optional
        Of foreground, 0 to 1, or 0 to the largest value of an unsigned integer type. Instead of colours. With an axis
        more than the image has, first or last, of several classes, which add up to 1 at each site; labels are then
        the places of classes on that axis, from 0, and so are the numbers in scribbles.
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
        How colours become unaries: `dope.models.ColorClusters()`, `ColorMixture()`, `GreyHistogram()`. One of your own
        has `unary(image, seeds)`, and `learn(sample)` for images that are read box by box: `dope.models.LearningModel`.
    rounds : int, optional
        How often the model is estimated again from the labels found. Default 0, and 5 after a rectangle or lasso.
    connected : bool
        Keep only foreground that is connected to a foreground stroke, and background to a background stroke.
        What is changed so is no longer the minimum of an energy.
    blocks, overlap, method, solver, executor, watch : optional
        As in `minimize`.
    start : Result, optional
        An earlier result of the same image, to go on from with more or other strokes. The colours that were learnt then
        are kept, so that a stroke changes labels near it, and quickly; leave it out to learn them again.
    memory : int or str, optional
        What it may take, such as "16GB"; by default what is available now. An image that takes more is read and solved
        box by box, to the same labels.
    classes : int or sequence of str, optional
        How many classes there are, or their names: 1, 2, ... in scribbles, all of which need strokes, 0, 1, ... in a
        probability map. By default those that occur.
    label_axis : int, optional
        Which axis of the probability is classes, where its shape does not say.
    checkpoint, resume : optional
        As in `minimize`.
    certificate : optional
        As in `minimize`; of one energy, so not where colours are estimated again.
    out : optional
        As in `minimize`, where labels go.

    Returns
    -------
    Result
        `labels` are shaped like the image without channels; of an xarray image they have its dimensions and
        coordinates. `problem` is the energy that was minimized, `where` the box of the image that it covers. Of several
        classes labels are their numbers, in uint8 or uint16, and 0 where a site takes no part; `classes` has these
        numbers and their names, and labels of `problem` are places among them.

    Examples
    --------
    >>> import numpy as np
    >>> image = np.zeros((20, 20, 3), dtype=np.uint8)
    >>> image[5:15, 5:15] = (200, 40, 40)
    >>> scribbles = np.zeros((20, 20), dtype=np.uint8)
    >>> scribbles[9:11, 9:11], scribbles[0] = 1, 2
    >>> result = segment(image, scribbles=scribbles)
    >>> int(result.labels.sum()), result.exact
    (100, True)
    >>> image[15:], scribbles[18, 4:6] = (40, 40, 200), 3
    >>> segment(image, scribbles=scribbles).counts
    (0, 100, 200, 100)
    """
    said = Segmentation(
        image=image, scribbles=scribbles, probability=probability, unary=unary, rectangle=rectangle, lasso=lasso,
        mask=mask, margin=margin, lam=lam, kernel=kernel, beta=beta, spacing=spacing, channel_axis=channel_axis,
        model=model, rounds=rounds, connected=connected, blocks=blocks, overlap=overlap, method=method, solver=solver,
        executor=executor, memory=memory, classes=classes, label_axis=label_axis,
    )  # fmt: skip
    return said.run(start=start, watch=watch, checkpoint=checkpoint, resume=resume, certificate=certificate, out=out)
