"""What a segmentation takes in memory, refused before anything is read where it is more than allowed.

Nothing here needs more than shapes: `Plan` says what the energy of a box takes, and what is known about all sites
comes on top of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from dope.memory import require_bytes
from dope.pairs import Kernel
from dope.planning import Plan

# Of a site: strokes, a mask, and what is in hand while their bounding box is looked for. Measured with strokes of JSON.
STROKE_BYTES = 4
# Of a site, where a model is estimated again: the energy and labels before, and what the model sees of the pixels.
# Measured with a rectangle on grey and coloured images of 1500 x 1500.
REESTIMATION_BYTES = 48

_ADVICE = "Allow more memory, crop it, or use a probability map alone, which is read box by box."


def segmentation_bytes(
    sides: tuple[int, ...],
    *,
    kernel: Kernel,
    pixel_bytes: int,
    blocks: int | Sequence[int] | None = None,
    reestimated: bool = False,
) -> int:
    """What it takes to segment a box in memory."""
    plan = Plan.of(sides, kernel=kernel, pixel_bytes=pixel_bytes, blocks=blocks)
    return plan.bytes + math.prod(sides) * (REESTIMATION_BYTES if reestimated else 0)


def require_box(
    sides: tuple[int, ...],
    budget: int | None,
    *,
    kernel: Kernel,
    pixel_bytes: int,
    blocks: int | Sequence[int] | None = None,
    reestimated: bool = False,
) -> None:
    """Refuse a box that takes more than the budget, by default more than is available."""
    needed = segmentation_bytes(sides, kernel=kernel, pixel_bytes=pixel_bytes, blocks=blocks, reestimated=reestimated)
    require_bytes(f"segmenting {_by(sides)} sites in one piece", needed, budget, advice=_ADVICE)


def require_strokes(shape: tuple[int, ...], budget: int | None) -> None:
    """Refuse strokes, or a mask, on more sites than the budget has room for."""
    require_bytes(f"strokes or a mask on {_by(shape)} sites", STROKE_BYTES * math.prod(shape), budget, advice=_ADVICE)


def _by(sides: tuple[int, ...]) -> str:
    return " x ".join(map(str, sides))
