"""Energies whose arrays stay where they are: a box of them is read when it is asked for, where the work is.

A `LazyEnergy` is what `Energy.grid` makes of arrays, without reading them. `at(box)` is the `Energy` of a box, and
`excerpt(box)` what somebody in another process needs to say so: the paths of arrays that lie in files, and of arrays in
memory no more than the box.
"""

from __future__ import annotations

import math
import mmap
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

import numpy as np
import numpy.typing as npt

from dope.arrays import Box, Labels, Mask, Reals, as_array, as_numbers, as_reals, check_finite, known_shape
from dope.energy import Energy
from dope.errors import DopeError, InputError
from dope.pairs import GridPairs, Kernel, offset_lengths

# Pixels of these types have whole squares far below 2^53, which add up exactly in any unit.
SMALL_INTEGERS = ("|u1", "|i1", "<u2", "<i2", ">u2", ">i2")


class Readable(Protocol):
    """Numbers on a grid, read box by box."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def site_bytes(self) -> int:
        """What a site takes when it is read."""
        ...

    @property
    def chunks(self) -> tuple[int, ...] | None:
        """The sides of the pieces that it is stored in, where it is stored in pieces."""
        ...

    def at(self, box: Box) -> npt.NDArray[Any]:
        """The numbers of a box, channels last where there are some."""
        ...

    def excerpt(self, box: Box) -> Self:
        """The same, for someone who will only ask for places in the box."""
        ...


@dataclass(frozen=True, eq=False)
class Stored:
    """An array that is read as it is indexed: in memory, mapped, Zarr, dask, xarray, or a file of `dope.io.load`.

    `channels` says which axis is none of sites; `origin` is the place of the first site, where it is only a part.
    """

    name: str
    array: Any
    channels: int | None = None
    origin: tuple[int, ...] | None = None

    @classmethod
    def of(cls, name: str, array: Any, *, channels: int | None = None) -> Stored:
        found = array if hasattr(array, "shape") and hasattr(array, "dtype") else as_array(name, array)
        known_shape(name, found)
        # A map pickles as what it maps: whoever gets it opens the file instead. Parts of maps do not know their place,
        # and what was written to a private one ("c") is in no file.
        shown = isinstance(found, np.memmap) and found.filename is not None and found.mode != "c"
        if shown and isinstance(found.base, mmap.mmap):
            order = "C" if found.flags.c_contiguous else "F"
            found = _Mapped(str(found.filename), found.dtype, found.offset, found.shape, order)
        return cls(name, found, channels)

    @property
    def shape(self) -> tuple[int, ...]:
        sides = tuple(int(n) for n in self.array.shape)
        return sides if self.channels is None else sides[: self.channels] + sides[self.channels + 1 :]

    @property
    def site_bytes(self) -> int:
        number = 1 if self.channels is None else int(self.array.shape[self.channels])
        return number * int(np.dtype(self.array.dtype).itemsize)

    @property
    def dtype(self) -> np.dtype[Any]:
        found: np.dtype[Any] = np.dtype(self.array.dtype)
        return found

    @property
    def chunks(self) -> tuple[int, ...] | None:
        found = getattr(self.array, "chunks", None)
        if not found:
            return None
        # dask lists the length of every chunk, all but the last of which are alike as a rule.
        sides = tuple(int(c[0]) if isinstance(c, tuple) else int(c) for c in found)
        return sides if self.channels is None else sides[: self.channels] + sides[self.channels + 1 :]

    def at(self, box: Box) -> npt.NDArray[Any]:
        if self.origin is not None:
            box = tuple(slice(s.start - o, s.stop - o) for s, o in zip(box, self.origin, strict=True))
        index = list(box)
        if self.channels is not None:
            index.insert(self.channels, slice(None))
        try:
            part = self.array[tuple(index)]
            if hasattr(part, "compute"):
                # In this thread: who asks is one of many who work side by side, perhaps of the same cluster.
                part = part.compute(scheduler="synchronous")
            values = as_numbers(self.name, part)
        except DopeError:
            raise
        except FileNotFoundError as error:
            raise InputError(
                f"{self.name}: {error}; this worker cannot see it. Put it on a file system that all workers share."
            ) from error
        except (OSError, ValueError, RuntimeError, KeyError) as error:
            where = ", ".join(f"{s.start}:{s.stop}" for s in box)
            raise InputError(
                f"{self.name} cannot be read at [{where}]: {' '.join(str(error).split()) or type(error).__name__}; "
                f"is a chunk damaged, or the file cut short? Get a whole copy."
            ) from error
        return values if self.channels is None else np.moveaxis(values, self.channels, -1)

    def excerpt(self, box: Box) -> Stored:
        if not isinstance(self.array, np.ndarray):
            return self
        held = self.at(box)
        if self.channels is not None:
            held = np.moveaxis(held, -1, self.channels)
        return replace(self, array=held, origin=tuple(s.start for s in box))


@dataclass(frozen=True)
class _Mapped:
    """A file that is mapped for as long as it takes to read a box, so that it does not count as memory held."""

    path: str
    dtype: np.dtype[Any]
    offset: int
    shape: tuple[int, ...]
    order: Any

    def __getitem__(self, index: Any) -> npt.NDArray[Any]:
        mapped = np.memmap(
            self.path, dtype=self.dtype, mode="r", offset=self.offset, shape=self.shape, order=self.order
        )
        return np.array(mapped[index])


@dataclass(frozen=True)
class MappedTarget:
    """A mapped array that blocks write to, in whatever process they run."""

    anywhere = True
    path: str
    dtype: np.dtype[Any]
    offset: int
    shape: tuple[int, ...]
    order: Any

    @classmethod
    def of(cls, array: np.memmap[Any, Any]) -> MappedTarget:
        if not isinstance(array.base, mmap.mmap) or array.filename is None or array.mode not in ("r+", "w+"):
            raise InputError("out is a part of a mapped array, or not writable; expected a whole one, opened as 'r+'.")
        order = "C" if array.flags.c_contiguous else "F"
        return cls(str(array.filename), array.dtype, array.offset, array.shape, order)

    def __setitem__(self, box: Box, labels: Labels) -> None:
        mapped = np.memmap(
            self.path, dtype=self.dtype, mode="r+", offset=self.offset, shape=self.shape, order=self.order
        )
        mapped[box] = labels
        mapped.flush()


@dataclass(frozen=True, eq=False)
class Prices:
    """A unary that is stored as it is."""

    values: Stored

    @property
    def shape(self) -> tuple[int, ...]:
        return self.values.shape

    @property
    def site_bytes(self) -> int:
        return self.values.site_bytes

    @property
    def chunks(self) -> tuple[int, ...] | None:
        return self.values.chunks

    def at(self, box: Box) -> Reals:
        return as_reals(self.values.name, self.values.at(box))

    def excerpt(self, box: Box) -> Prices:
        return Prices(self.values.excerpt(box))


@dataclass(frozen=True)
class Facts:
    """What one look at all arrays of an energy found.

    Attributes
    ----------
    sites, inside : how many there are, and how many of them take part.
    largest, total : the largest |unary| of those that take part, and the sum.
    places : binary places that the unary needs; None where it needs many, or nobody asked.
    beta : 1 / (2 mean |x_p - x_q|^2) over the pairs, 0 without features.
    digest : of everything that was read.
    """

    sites: int
    inside: int
    largest: float
    total: float
    places: int | None
    beta: float
    digest: str


@dataclass(frozen=True, eq=False)
class LazyEnergy:
    """E(y) = sum_i u_i y_i + sum_(i,j) w_ij |y_i - y_j| + constant on a grid, its arrays where they are.

    `pairs` have no arrays; `beta` is None until somebody has looked at the features, and so are `facts`.
    Make one with `LazyEnergy.grid`, and give it to `dope.minimize`.
    """

    unary: Readable
    pairs: GridPairs
    features: Stored | None = None
    beta: float | None = 0.0
    fields: tuple[Stored, ...] | None = None
    mask: Stored | None = None
    constant: float = 0.0
    facts: Facts | None = None

    @classmethod
    def grid(
        cls,
        unary: Any,
        *,
        lam: float = 1.0,
        kernel: Kernel = 3,
        features: Any | None = None,
        beta: float | None = None,
        spacing: Sequence[float] | None = None,
        mask: Any | None = None,
        channel_axis: int | None = None,
    ) -> LazyEnergy:
        """As `Energy.grid`, of arrays that are read as they are needed: Zarr, memory-mapped NPY, dask, xarray.

        Parameters
        ----------
        unary : array
            What label 1 costs over label 0 at each site; or anything with `at(box)`, see `Readable`.
        lam, kernel, beta, spacing : as in `Energy.grid`.
        features : array, optional
            Pixels; channels, where there are some, are the axis `channel_axis`, by default the last.
        mask : array, optional
            Not 0 where sites take part.

        Examples
        --------
        >>> energy = LazyEnergy.grid(np.zeros((4, 5)), lam=2.0)
        >>> energy.at((slice(0, 2), slice(1, 4))).shape
        (2, 3)
        """
        prices: Readable = (
            unary if hasattr(unary, "at") and hasattr(unary, "excerpt") else Prices(_stored("unary", unary))
        )
        shape = prices.shape
        if not shape or math.prod(shape) == 0:
            raise InputError(f"unary has shape {shape}; expected at least one site.")
        # Of one site: the weights' rule does not depend on how many there are.
        tiny = Energy.grid(np.zeros((1,) * len(shape)), lam=lam, kernel=kernel, spacing=spacing)
        assert isinstance(tiny.pairs, GridPairs)
        pixels = None if features is None else _stored("features", features)
        if beta is not None and pixels is None:
            raise InputError("beta is given without features; it only enters contrast-sensitive weights.")
        if beta is not None and not 0.0 <= float(beta) < math.inf:
            raise InputError(f"beta is {beta}; expected a number of 0 or more.")
        pairs = replace(tiny.pairs, shape=shape)
        if pixels is not None:
            pixels = _fitted(pixels, shape, channel_axis)
            factors = pairs.factors / offset_lengths(pairs.offsets, spacing)
            bounds = np.stack([np.minimum(factors, 0), np.maximum(factors, 0)], axis=1)
            pairs = replace(pairs, factors=factors, bounds=bounds)
        region = None if mask is None else _stored("mask", mask)
        if region is not None and region.shape != shape:
            raise InputError(f"mask has shape {region.shape}; expected the unary's {shape}.")
        sharpness = 0.0 if pixels is None else beta if beta is None else float(beta)
        return cls(prices, pairs, pixels, sharpness, mask=region)

    @classmethod
    def of(cls, energy: Energy) -> LazyEnergy:
        """An energy that is in memory, as one to be read box by box."""
        pairs = energy.pairs
        if not isinstance(pairs, GridPairs):
            raise InputError("the energy is one of a graph; expected one of a grid, which can be cut into boxes.")
        return cls(
            Prices(Stored("unary", energy.unary)),
            replace(pairs, features=None, fields=None, inside=None),
            None if pairs.features is None else Stored("features", pairs.features, channels=len(pairs.shape)),
            pairs.beta,
            None if pairs.fields is None else tuple(Stored("weights", field) for field in pairs.fields),
            None if pairs.inside is None else Stored("mask", pairs.inside),
            energy.constant,
        )

    @property
    def shape(self) -> tuple[int, ...]:
        return self.pairs.shape

    @property
    def submodular(self) -> bool:
        """Whether no weight is negative."""
        return self.pairs.lowest >= 0.0

    @property
    def site_bytes(self) -> int:
        """What a site's own numbers take when they are read."""
        read = [self.unary, *(self.fields or ()), *(one for one in (self.features, self.mask) if one is not None)]
        return sum(one.site_bytes for one in read)

    @property
    def whole(self) -> Box:
        return tuple(slice(0, n) for n in self.shape)

    def inside_at(self, box: Box) -> Mask | None:
        """Which sites of a box take part, None for all."""
        if self.mask is None:
            return None
        values = self.mask.at(box)
        return values if values.dtype == np.bool_ else values != 0

    def at(self, box: Box) -> Energy:
        """The energy of the sites of a box and the pairs between them."""
        assert self.beta is not None
        inside = self.inside_at(box)
        shape = tuple(s.stop - s.start for s in box)
        prices = self.unary.at(box)
        if inside is not None:
            prices = np.where(inside, prices, prices.dtype.type(1.0))  # any price above 0 keeps label 1 away
        check_finite("unary", prices)
        return Energy(prices, self._pairs(box, shape, None if inside is None else np.ascontiguousarray(inside)))

    def _pairs(self, box: Box, shape: tuple[int, ...], inside: Mask | None) -> GridPairs:
        features = self.features_at(box, inside) if self.features is not None and self.beta else None
        fields = None if self.fields is None else tuple(field.at(box) for field in self.fields)
        counts = self.pairs.counts and tuple(c[s] for c, s in zip(self.pairs.counts, box, strict=True))
        return replace(
            self.pairs,
            shape=shape,
            features=features,
            beta=self.beta or 0.0,
            fields=fields,
            counts=counts,
            inside=inside,
        )

    def features_at(self, box: Box, inside: Mask | None) -> npt.NDArray[Any]:
        """The pixels of a box, channels last."""
        assert self.features is not None
        pixels = self.features.at(box)
        pixels = pixels if self.features.channels is not None else pixels[..., None]
        if pixels.dtype.kind == "f":
            check_finite("features", pixels if inside is None else pixels[inside])
        return pixels

    def excerpt(self, box: Box) -> LazyEnergy:
        """The same energy, for someone who will only ask for places in the box."""
        return replace(
            self,
            unary=self.unary.excerpt(box),
            features=self.features and self.features.excerpt(box),
            fields=self.fields and tuple(field.excerpt(box) for field in self.fields),
            mask=self.mask and self.mask.excerpt(box),
        )

    def scaled(self, lam: float) -> LazyEnergy:
        """With all weights times lam."""
        factors, bounds = self.pairs.factors * lam, self.pairs.bounds * lam
        return replace(self, pairs=replace(self.pairs, factors=factors, bounds=bounds))


def _stored(name: str, array: Any) -> Stored:
    stored = Stored.of(name, array)
    if np.dtype(stored.array.dtype).kind not in "fiub":
        raise InputError(f"{name} has dtype {stored.array.dtype}; expected real numbers. Convert it to float first.")
    return stored


def _fitted(pixels: Stored, shape: tuple[int, ...], channel_axis: int | None) -> Stored:
    """Features with channels where the sites have no axis."""
    found = pixels.shape
    if channel_axis is None and found == shape:
        return pixels
    axis = (-1 if channel_axis is None else channel_axis) % max(1, len(found))
    if len(found) != len(shape) + 1 or found[:axis] + found[axis + 1 :] != shape:
        raise InputError(f"features have shape {found}; expected the unary's {shape}, or that with channels last.")
    return replace(pixels, channels=axis)
