"""A problem as `segment` is told it, and the energies that are made of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypedDict, Unpack

import numpy as np
import numpy.typing as npt

from dope.arrays import Labels, Mask, Reals
from dope.energy import Energy
from dope.errors import InputError
from dope.memory import budget_of
from dope.models import (
    Model,
    automatic_lam,
    automatic_model,
    kernel_lam,
    reestimated,
)
from dope.models.connectivity import keep_connected
from dope.models.seeds import fix_seeds
from dope.pairs import Kernel
from dope.partition import Partition
from dope.scribbles import BACKGROUND, FOREGROUND, NAMES, UNLABELED, Scribbles, Seeds, as_scribbles
from dope.segmentation.budget import require_box, require_strokes
from dope.segmentation.cut import Cut, Pixels, box_of, region_of
from dope.segmentation.known import Known

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
    blocks: int | Sequence[int] | Partition | None  # into which the energy will be cut: what it takes depends on them


@dataclass(frozen=True, eq=False)
class Stated:
    """The box's own data, from which energies are made."""

    known: Known
    cut: Cut
    features: npt.NDArray[Any]
    inside: Mask | None
    seeds: Seeds | None
    given_lam: float | None
    kernel: Kernel
    beta: float | None
    spacing: Sequence[float] | None
    given_model: Model | None
    rounds: int
    connected: bool

    @classmethod
    def of(cls, image: Any, **said: Unpack[Statement]) -> Stated:
        known = Known(
            said.get("scribbles"), said.get("probability"), said.get("unary"), said.get("rectangle"), said.get("lasso")
        )
        mask, kernel, spacing = said.get("mask"), said.get("kernel", 3), said.get("spacing")
        channel_axis = said.get("channel_axis")
        shape = known.sites(image, channel_axis)
        pixels = Pixels.of(image, shape, channel_axis)
        rounds = _checked_rounds(said.get("rounds"), estimated=known.outlined, learnt=known.learnt)
        budget, cut = budget_of(said.get("memory")), Cut(pixels, shape, tuple(slice(0, n) for n in shape))

        def require(part: Cut) -> None:
            blocks = said.get("blocks")
            require_box(
                part.sides,
                budget,
                kernel=kernel,
                pixel_bytes=part.pixel_bytes,
                blocks=None if isinstance(blocks, Partition) else blocks,
                reestimated=rounds > 0,
            )

        # Before strokes and a mask are read: of all sites, or of those that strokes and the mask will leave.
        if mask is None and said.get("margin") is None:
            require(cut)
        require_strokes(shape, budget)
        seeds = known.seeds(shape)
        inside = None if mask is None else region_of(mask, shape)
        where = box_of(shape, inside, seeds, said.get("margin"))
        cut = replace(cut, where=where)
        require(cut)
        region = None if inside is None or inside[where].all() else inside[where]
        drawn = None if seeds is None else seeds[where]
        return cls(
            known=known,
            cut=cut,
            features=cut.features(),
            inside=region,
            # Strokes outside the region are nobody's.
            seeds=drawn if drawn is None or region is None else np.where(region, drawn, np.int8(UNLABELED)),
            given_lam=checked_lam(said.get("lam", "auto")),
            kernel=kernel,
            beta=said.get("beta"),
            spacing=spacing,
            given_model=said.get("model"),
            rounds=rounds,
            connected=bool(said.get("connected", False)) and drawn is not None,
        )._checked()

    def _checked(self) -> Stated:
        if self.given_model is not None and not hasattr(self.given_model, "unary"):
            raise InputError(f"model is {self.given_model!r}; expected an object with unary(image, seeds), or None.")
        if self.seeds is not None and self.known.learnt and not self.known.outlined:
            for label, name in NAMES.items():
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
        return self._spread(self.model.unary(self._part(self.features), self._scribbles()))

    @property
    def model(self) -> Model:
        assert self.seeds is not None
        return self.given_model or automatic_model(self.features, self.seeds.shape)

    def reestimated(self, labels: Labels) -> Reals:
        assert self.seeds is not None
        pixels, seeds = self._part(self.features), self._scribbles()
        return self._spread(reestimated(self.model, pixels, seeds=seeds, labels=self._part(labels)))

    def _scribbles(self) -> Scribbles:
        """What models see of the seeds: as a user draws them."""
        assert self.seeds is not None
        return as_scribbles(self._part(self.seeds))

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
        if not self.connected or self.seeds is None:
            return labels
        return keep_connected(labels.astype(np.bool_, copy=False), self.seeds)

    def lam(self, unary: Reals) -> float:
        if self.given_lam is not None:
            return self.given_lam
        if self.known.probability is not None:
            # Most sites of such a map are sure, so that their mean says little: by the largest, as in the paper.
            largest = float(np.abs(self._part(unary)).max())
            return kernel_lam(self.kernel, unary.ndim, total=2.0 * largest, spacing=self.spacing)
        return automatic_lam(self._part(unary), self.kernel, dimensions=unary.ndim, spacing=self.spacing)

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
        if self.seeds is None or not (self.seeds != UNLABELED).any():
            return plain
        # More than a site can gain by any label: its own price, and all its pairs.
        strength = 1.0 + plain.pairs.strength + float(np.abs(plain.unary).max())
        if strength > MOST_STRENGTH:
            raise InputError(f"lam or the unaries add up to {strength:.3g}; strokes take up to {MOST_STRENGTH:g}.")
        # Strokes that are kept, as all are, cost nothing: energies and gaps are those of the other sites.
        constant = strength * np.count_nonzero(self.seeds == FOREGROUND)
        return replace(plain, unary=fix_seeds(plain.unary, self.seeds, strength), constant=constant)


def checked_lam(lam: object) -> float | None:
    """The number, or None for "auto"."""
    if isinstance(lam, str) and lam == "auto":
        return None
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
