"""The front door: an image in, the image of least total variation out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dope.arrays import BinaryLabels, Box, Reals, known_shape
from dope.energy import Energy
from dope.errors import DopeError, InputError
from dope.methods import nested_cuts
from dope.pairs import MOST_AXES, GridPairs, Kernel, half_offsets, offset_lengths, strips
from dope.partition import Partition
from dope.planning import Plan, plan_holding
from dope.plug_ins import check_plug_in
from dope.protocols import Executor, Problem
from dope.stored import Stored, check_apart
from dope.total_variation.levels import FileLevels, NextBit, folder_of, level_files, stored_levels, with_bit
from dope.total_variation.thresholds import Norm, Variation, counted_factors, range_of_levels

# Sites that are written at once.
WRITE_SITES = 1 << 22
NORMS = ("l1", "l2")
# Blocks of nested cuts in 3D, unless the caller says how many: smaller than for one cut. With 6 neighbours, 128^3 in 8
# blocks took a fifth less processor time than in 4, and 256^3 in 64 a seventh less than in 16.
SITES_3D, MOST_BLOCKS_3D, FEW_NEIGHBORS = 1 << 18, 64, 8

# With "l2" excesses are balanced before every cut but the first ones, which few grey values are near.
EASY_CUTS = 1


def denoise_tv(
    image: Any,
    lam: float,
    *,
    norm: Norm = "l1",
    kernel: Kernel | None = None,
    spacing: Sequence[float] | None = None,
    mask: Any = None,
    channel_axis: int | None = None,
    blocks: int | Sequence[int] | Partition | None = None,
    executor: Executor | None = None,
    memory: int | str | None = None,
    out: Any = None,
) -> Any:
    """The image of least total variation, exactly: of whole numbers x, such that one of these is least.

        sum_i |x_i - g_i|   + lam sum_{pairs} |x_i - x_j| / |i - j|        norm="l1"
        sum_i (x_i - g_i)^2 + lam sum_{pairs} |x_i - x_j| / |i - j|        norm="l2"

    g is the image, of 8 or 16 bits, and every pair counts once. There is no factor 1/2 before the squares: whoever has
    lam from a formula with 1/2 passes twice that. Of several minimizers it is the smallest one.

    With "l1", structures narrower than about lam vanish and all others keep their grey values; with "l2", contrast
    shrinks too. The minimizer over whole numbers with "l2" is the one over real numbers, rounded (halves down).

    Parameters
    ----------
    image : array
        Of uint8, int8, uint16 or int16 and any dimension, wherever it lies, see `Energy.grid`: in memory, mapped, Zarr.
        What does not fit into memory is read box by box. Floats are refused: scale them to whole numbers first, the
        answer is one of those.
    lam : float
        0 or more; 0 gives the image itself. lam / |i - j| is rounded to 20 binary places, which is nothing for whole
        numbers and halves of them, and to fewer where it is large; for these weights the answer is exact.
    norm : "l1" or "l2"
    kernel : int or list of offsets, optional
        Which sites are neighbours, see `Energy.grid`. By default those along the axes: 2 neighbours for each. More,
        such as `kernel=3` with diagonals in 2D, make lengths of edges depend less on their direction.
    spacing : sequence of float, optional
        Size of a site along each axis, by which |i - j| is measured; by default 1.
    mask : bool array, optional
        The sites that take part. Those outside have no neighbours and stay as they are.
    channel_axis : int, optional
        Which axis is channels: each of them is an image by itself. Without it all axes are of sites.
    blocks, executor, memory : optional
        As for `dope.minimize`: they change what it takes, and not a bit of the answer.
    out : array, optional
        Where the answer goes instead of a new array: anything with `out[box] = values`. Temporary files of 2 or 4 bytes
        per site lie beside it if it is a mapped one, else where the system has temporary files; workers in other
        processes must see them.

    Returns
    -------
    array shaped and typed like the image, or `out`

    Examples
    --------
    >>> import numpy as np
    >>> image = np.array([[10, 10, 90, 10], [10, 12, 10, 10]], dtype=np.uint8)
    >>> denoise_tv(image, 1)
    array([[10, 10, 10, 10],
           [10, 10, 10, 10]], dtype=uint8)
    """
    source = _checked_image(image, channel_axis)
    if norm not in NORMS:
        raise InputError(f'norm is {norm!r}; expected "l1" or "l2".')
    strength = _checked_lam(lam)
    if executor is not None:
        check_plug_in("executor", executor, "gather", such_as="dope.Threads()")
    shape = tuple(source.array.shape)
    target = np.empty(shape, source.dtype) if out is None else _checked_out(out, shape, source.dtype)
    sites = source.shape
    offsets = _offsets(kernel, len(sites))
    lengths = offset_lengths(offsets, spacing)
    region = None if mask is None else _checked_mask(mask, sites)
    check_apart(out, {"image": image} if mask is None else {"image": image, "mask": mask})
    said = {"blocks": blocks, "executor": executor, "memory": memory}
    with np.errstate(over="ignore"):
        factors = strength / lengths
    if source.channels is None:
        _denoise(source, region, offsets, factors, norm, target, said)
        return target
    axis = source.channels
    for channel in range(shape[axis]):
        one = replace(source, array=_Channel(source.array, axis, channel), channels=None)
        into = _Channel(target, axis, channel)
        _denoise(one, region, offsets, factors, norm, into, said)
    return target


def _denoise(
    image: Stored,
    mask: Stored | None,
    offsets: npt.NDArray[np.int64],
    factors: npt.NDArray[np.float64],
    norm: Norm,
    target: Any,
    said: dict[str, Any],
) -> None:
    span = range_of_levels(image, mask)
    if span is None:
        raise InputError(f"mask of shape {image.shape} has no site inside; expected True where sites take part.")
    low, high = span
    # Where the pairs of a site weigh less than 1 together they cannot outweigh a step of 1 away from its value.
    if low == high or 2.0 * factors.sum() < 1.0:
        _write(image, None, None, 0, target)
        return
    steepest = 1.0 if norm == "l1" else 2.0 * (high - low)
    counted = counted_factors(factors, most=steepest * float(np.prod(image.shape, dtype=object)) + 1.0)
    variation = Variation(image, mask, offsets, counted, norm, low, (high - low).bit_length())
    held = image.site_bytes + 2 * variation.level_type.itemsize
    decided = plan_holding(variation.cut(None, variation.bits), held, **said)
    if not decided.in_boxes:
        partition = decided.partition if said["blocks"] is not None else _finer(decided.partition, variation.pairs)
        _write(image, mask, stored_levels(_levels_in_memory(variation, decided, partition)), low, target)
        return
    with level_files(variation.shape, variation.level_type, folder_of(target)) as files:
        _write(image, mask, stored_levels(_levels_in_boxes(variation, said, held, files)), low, target)


def _finer(partition: Partition, pairs: GridPairs) -> Partition:
    """For nested cuts, where one cut would be over several blocks."""
    number = len(partition.blocks)
    wanted = min(MOST_BLOCKS_3D, (1 << (pairs.sites // SITES_3D).bit_length()) // 2)
    if len(pairs.shape) < 3 or pairs.degree > FEW_NEIGHBORS or not 1 < number < wanted:
        return partition
    return Partition.grid(pairs.shape, wanted)


def _levels_in_memory(variation: Variation, decided: Plan, partition: Partition) -> npt.NDArray[Any]:
    """x - low at every site, bit by bit from the highest on, by cuts of one flow."""
    energy = decided.energy.read()
    assert isinstance(energy, Energy) and isinstance(energy.pairs, GridPairs)
    inside = energy.pairs.inside
    known: npt.NDArray[Any] | None = None
    left = variation.bits

    def following(labels: BinaryLabels) -> Reals | None:
        nonlocal known, left
        known, left = with_bit(known, labels, variation.level_type), left - 1
        return variation.slopes(known, left, inside) if left else None

    problem = Problem(energy, partition, decided.solver, decided.executor)
    nested_cuts(problem, following, balanced_after=EASY_CUTS if variation.norm == "l2" else None)
    assert known is not None
    return known


def _levels_in_boxes(variation: Variation, said: dict[str, Any], held: int, files: Sequence[FileLevels]) -> FileLevels:
    """The same, cut by cut, where the known bits lie in a file and those with one more go to another."""
    known: FileLevels | None = None
    for left in range(variation.bits, 0, -1):
        energy = variation.cut(None if known is None else stored_levels(known), left)
        bit = NextBit(known, files[left % 2])
        result = plan_holding(energy, held, out=bit, **said).run()
        if not result.exact or result.rounding_error:
            raise DopeError(f"a cut ended as {result!r}, not exact; this is a fault of dope, please report it.")
        known = bit.following
    assert known is not None
    return known


def _write(image: Stored, mask: Stored | None, levels: Stored | None, low: int, target: Any) -> None:
    """The answer, box by box: low and the levels inside the mask, elsewhere the image."""
    for box in strips(image.shape, WRITE_SITES):
        if levels is None:
            target[box] = image.at(box)
            continue
        values = (levels.at(box).astype(np.int32) + low).astype(image.dtype)
        target[box] = values if mask is None else np.where(mask.at(box) != 0, values, image.at(box))


@dataclass(frozen=True, eq=False)
class _Channel:
    """One channel of an array that may lie anywhere."""

    array: Any
    axis: int
    channel: int

    @property
    def shape(self) -> tuple[int, ...]:
        sides = tuple(self.array.shape)
        return sides[: self.axis] + sides[self.axis + 1 :]

    @property
    def dtype(self) -> np.dtype[Any]:
        found: np.dtype[Any] = np.dtype(self.array.dtype)
        return found

    @property
    def filename(self) -> Any:
        return getattr(self.array, "filename", None)

    def __getitem__(self, box: Box) -> Any:
        return self.array[self._index(box)]

    def __setitem__(self, box: Box, values: npt.NDArray[Any]) -> None:
        self.array[self._index(box)] = values

    def _index(self, box: Box) -> tuple[Any, ...]:
        return (*box[: self.axis], self.channel, *box[self.axis :])


def _checked_image(image: Any, channel_axis: int | None) -> Stored:
    stored = Stored.of("image", image)
    shape, found = known_shape("image", stored.array), stored.dtype
    if found.kind not in "iu" or found.itemsize > 2:
        advice = {
            "b": "Pass image.astype(np.uint8), or solve the one cut with dope.minimize",
            "f": "Scale it first, such as np.rint(255 * image).astype(np.uint8) for 0 to 1",
            "i": "Pass image.astype(np.uint16) if its values fit",
            "u": "Pass image.astype(np.uint16) if its values fit",
        }.get(found.kind, "Convert it first")
        raise InputError(f"image has dtype {found}; expected whole numbers of 8 or 16 bits. {advice}.")
    axes = len(shape) - (channel_axis is not None)
    if not 1 <= axes <= MOST_AXES or 0 in shape:
        raise InputError(f"image has shape {shape}; expected at least one site, and 1 to {MOST_AXES} axes of sites.")
    if channel_axis is None:
        if len(shape) == 3 and shape[-1] in (3, 4) and min(shape[:2]) > 4:
            raise InputError(
                f"image has shape {shape}, which looks like colours; expected channel_axis=-1 with it, or, of a volume "
                f"of {shape[-1]} slices, that axis first: np.moveaxis(image, -1, 0)."
            )
        return stored
    if repr(channel_axis) in ("True", "False") or channel_axis not in range(-len(shape), len(shape)):
        raise InputError(f"channel_axis is {channel_axis!r}; expected an axis of the image's shape {shape}, or None.")
    return replace(stored, channels=channel_axis % len(shape))


def _checked_lam(lam: Any) -> float:
    number = np.asarray(lam)
    if number.ndim or number.dtype.kind not in "fiu" or not np.isfinite(number) or number < 0:
        raise InputError(f"lam is {lam!r}; expected a finite number of 0 or more.")
    return float(number)


def _offsets(kernel: Kernel | None, dimensions: int) -> npt.NDArray[np.int64]:
    return half_offsets(np.eye(dimensions, dtype=np.int64) if kernel is None else kernel, dimensions)


def _checked_mask(mask: Any, sites: tuple[int, ...]) -> Stored:
    stored = Stored.of("mask", mask)
    if stored.dtype.kind not in "fiub":
        raise InputError(f"mask has dtype {stored.dtype}; expected bool, or numbers that are 0 outside.")
    if stored.shape != sites:
        raise InputError(f"mask has shape {stored.shape}; expected the image's {sites}, without channels.")
    return stored


def _checked_out(out: Any, shape: tuple[int, ...], image_type: np.dtype[Any]) -> Any:
    if not hasattr(out, "__setitem__") or not hasattr(out, "shape") or not hasattr(out, "dtype"):
        raise InputError(f"out is {out!r:.80}; expected an array of shape {shape} and dtype {image_type} to write to.")
    if tuple(out.shape) != shape or not np.can_cast(image_type, out.dtype, "equiv"):
        raise InputError(
            f"out has shape {tuple(out.shape)} and dtype {out.dtype}; expected {shape} and {image_type}, the image's."
        )
    if isinstance(out, np.ndarray) and not out.flags.writeable:
        raise InputError("out is an array that cannot be written to; expected one that can, or None for a new one.")
    return out
