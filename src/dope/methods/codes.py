"""What is known of the sites of a box: a code for each, bit 0 the label, bit 1 that it is not proved."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from dope.arrays import BinaryLabels, Box
from dope.boards.post import Arrays, Post, part_of, summary_of
from dope.errors import DopeError
from dope.methods.tiling import box_of, common, plain, seen_from, sides, size

Codes = npt.NDArray[np.uint8]

LABEL, OPEN = 1, 2
# Beside a bit or two per site, what posts hold of flows: per site of a block, more than there are arcs over its walls.
MOST_BYTES_PER_SITE, LEAST_BYTES = 512, 1 << 20


def codes_post(mine: Box, codes: Codes, **summary: object) -> Post:
    """The codes of a box, two bits per site."""
    arrays = {"label": np.packbits(codes & LABEL), "open": np.packbits(codes >> 1)}
    return Post({"mine": plain(mine), **summary}, {"labels": arrays})


def arrays_in(content: bytes, part: str, sites: int, *, otherwise: Arrays | None = None) -> Arrays:
    """A part of the post of a block of so many sites; never more memory than such can take, whatever the bytes say."""
    found = part_of(content, part, most=LEAST_BYTES + MOST_BYTES_PER_SITE * sites)
    found = otherwise if found is None else found
    if found is None:
        raise DopeError(f"a post has no part {part}; expected what the block left there.")
    return found


def overlaid(region: Box, posts: Iterable[bytes], *, sites: int) -> Codes:
    """The codes of a region by these posts, later ones over earlier ones; open where none of them says anything."""
    codes = np.full(sides(region), OPEN, dtype=np.uint8)
    for content in posts:
        mine = box_of(summary_of(content)["mine"])
        both = common(mine, region)
        if both is None:
            continue
        arrays = arrays_in(content, "labels", sites)
        place, part = seen_from(both, region), seen_from(both, mine)
        labels = _bits(arrays["label"], mine)[part]
        # Posts of flows have labels for what is open: it stays so.
        unproved = codes[place] & OPEN if "open" not in arrays else _bits(arrays["open"], mine)[part] << np.uint8(1)
        codes[place] = labels | unproved
    return codes


def _bits(packed: Codes, mine: Box) -> Codes:
    return np.unpackbits(packed, count=size(mine)).reshape(sides(mine))


def labels_in(codes: Codes) -> BinaryLabels:
    """The labels, proved or not."""
    labels: BinaryLabels = np.not_equal(codes & LABEL, 0)
    return labels
