"""Segmentation of what need not fit into memory: arrays stay where they are, and are read box by box."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dope.api import automatic_flow_solver, checked_target, lazy_partition, minimize
from dope.arrays import Box, Reals, digest
from dope.errors import InputError
from dope.executors import Threads
from dope.lazy import LazyEnergy, Prices, Readable, Stored
from dope.memory import budget_of
from dope.methods.bracketing import looked_at
from dope.methods.checkpoint import require_new
from dope.models import kernel_lam, probability_unary
from dope.models.seeds import fix_seeds
from dope.models.smoothing import SMOOTHING
from dope.pairs import Kernel
from dope.result import Result
from dope.scribbles import FOREGROUND, UNLABELED, Seeds, as_scribbles
from dope.segmentation.budget import require_strokes
from dope.segmentation.cut import Pixels
from dope.segmentation.known import Known


@dataclass(frozen=True, eq=False)
class SoftMap:
    """Prices from a probability map, which may hold anything outside the mask."""

    probability: Stored
    mask: Stored | None

    @property
    def shape(self) -> tuple[int, ...]:
        return self.probability.shape

    @property
    def site_bytes(self) -> int:
        return 4 + self.probability.site_bytes

    @property
    def chunks(self) -> tuple[int, ...] | None:
        return self.probability.chunks

    def at(self, box: Box) -> Reals:
        soft = self.probability.at(box)
        if self.mask is not None:
            soft = np.where(self.mask.at(box) != 0, soft, soft.dtype.type(0))
        return probability_unary(soft)

    def excerpt(self, box: Box) -> SoftMap:
        return SoftMap(self.probability.excerpt(box), self.mask and self.mask.excerpt(box))


@dataclass(frozen=True, eq=False)
class Stroked:
    """Prices with strokes that decide where they are."""

    prices: Readable
    seeds: Stored
    strength: float

    @property
    def shape(self) -> tuple[int, ...]:
        return self.prices.shape

    @property
    def site_bytes(self) -> int:
        return self.prices.site_bytes + self.seeds.site_bytes

    @property
    def chunks(self) -> tuple[int, ...] | None:
        return self.prices.chunks

    def at(self, box: Box) -> npt.NDArray[Any]:
        return fix_seeds(self.prices.at(box), self.seeds.at(box), self.strength)

    def excerpt(self, box: Box) -> Stroked:
        return replace(self, prices=self.prices.excerpt(box), seeds=self.seeds.excerpt(box))


def segmented_lazily(
    image: Any,
    known: Known,
    *,
    mask: Any,
    lam: float | None,
    kernel: Kernel,
    beta: float | None,
    spacing: Sequence[float] | None,
    channel_axis: int | None,
    settings: dict[str, Any],
) -> Result:
    """As `segment`, by `Bracketing`; `settings` are those of `minimize`."""
    if known.learnt:
        raise InputError(
            "colours are learnt from the whole image, which must fit into memory for that; expected a probability map "
            "or a unary, which are read box by box. Allow more memory, or make a map first."
        )
    shape = known.sites(image, channel_axis)
    pixels = Pixels.of(image, shape, channel_axis)
    region = None if mask is None else Stored.of("mask", mask)
    prices: Readable
    if known.unary is not None:
        prices = Prices(Stored.of("unary", known.unary))
    else:
        prices = SoftMap(Stored.of("probability", known.probability), region)
    energy = LazyEnergy.grid(
        prices,
        kernel=kernel,
        features=pixels.array,
        channel_axis=pixels.channels,
        beta=beta,
        spacing=spacing,
        mask=mask,
    )
    if known.scribbles is not None:
        require_strokes(shape, budget_of(settings.get("memory")))
    executor = settings.get("executor") or Threads()
    solver = settings.get("solver") or automatic_flow_solver(energy.pairs)
    partition = lazy_partition(
        energy,
        settings.get("blocks"),
        solver=solver,
        executor=executor,
        memory=settings.get("memory"),
        out=settings.get("out"),
        resume=settings.get("resume"),
    )
    if settings.get("out") is not None:
        checked_target(settings["out"], shape)  # before everything is read, and so the folder
    if settings.get("checkpoint") is not None:
        require_new(Path(settings["checkpoint"]))
    energy = looked_at(energy, partition, executor)
    energy = energy.scaled(_automatic_lam(energy, known, kernel, spacing) if lam is None else lam)
    seeds = known.seeds(shape)
    inside = None if seeds is None else energy.inside_at(energy.whole)
    if seeds is not None and inside is not None:
        seeds = np.where(inside, seeds, np.int8(UNLABELED))  # those outside are nobody's
    if seeds is not None and (seeds != UNLABELED).any():
        energy = _with_strokes(energy, seeds)
    told = {**settings, "blocks": partition, "solver": solver, "executor": executor}
    result = minimize(energy, **told)
    return replace(result, problem=energy, where=energy.whole)


def _automatic_lam(energy: LazyEnergy, known: Known, kernel: Kernel, spacing: Sequence[float] | None) -> float:
    """As `Stated.lam`, by what one look at all sites found."""
    facts = energy.facts
    assert facts is not None
    total = 2.0 * facts.largest if known.probability is not None else SMOOTHING * facts.total / facts.inside
    return kernel_lam(kernel, len(energy.shape), total=total, spacing=spacing)


def _with_strokes(energy: LazyEnergy, seeds: Seeds) -> LazyEnergy:
    """Strokes cost more than a site can gain by any label; those that are kept, as all are, cost nothing."""
    assert energy.facts is not None
    strength = 1.0 + energy.pairs.strength + energy.facts.largest
    stroked = int(np.count_nonzero(seeds != UNLABELED))
    constant = strength * int(np.count_nonzero(seeds == FOREGROUND))
    total = energy.facts.total + strength * stroked
    both = f"{energy.facts.digest}-{digest([as_scribbles(seeds)])}"
    facts = replace(energy.facts, total=total, digest=both, places=None, largest=energy.facts.largest + strength)
    return replace(
        energy, unary=Stroked(energy.unary, Stored.of("scribbles", seeds), strength), constant=constant, facts=facts
    )
