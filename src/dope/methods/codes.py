"""What is known of the sites of a box: a code for each, bit 0 the label, bit 1 that it is not proved."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from dope.arrays import BinaryLabels, Box
from dope.boards.post import Arrays, Post
from dope.methods.rounds import Content
from dope.methods.tiling import box_of, common, plain, seen_from, sides

Codes = npt.NDArray[np.uint8]

LABEL, OPEN = 1, 2
# Beside a bit or two per site, what posts hold of flows: per site of a block, more than there are arcs over its walls.
MOST_BYTES_PER_SITE, LEAST_BYTES = 512, 1 << 20


def codes_post(mine: Box, codes: Codes, **summary: object) -> Post:
    """The codes of a box, two bits per site."""
    return Post(summary, {"mine": np.array(plain(mine)), "label": (codes & LABEL) != 0, "open": (codes & OPEN) != 0})


def labels_part(mine: Box, labels: BinaryLabels) -> Arrays:
    """Labels of the open sites of a box, and of the others there, for now."""
    return {"mine": np.array(plain(mine)), "label": labels.reshape(sides(mine))}


def arrays_in(content: Content, sites: int) -> Arrays:
    """What a post of a block of so many sites holds; never more memory than it can take, whatever the bytes say."""
    return Post.unpacked(content, most=LEAST_BYTES + MOST_BYTES_PER_SITE * sites).arrays


def overlaid(region: Box, posts: Iterable[Content], *, sites: int) -> Codes:
    """The codes of a region by these posts, later ones over earlier ones; open where none of them says anything."""
    codes = np.full(sides(region), OPEN, dtype=np.uint8)
    for content in posts:
        arrays = arrays_in(content, sites)
        mine = box_of(arrays["mine"].tolist())
        both = common(mine, region)
        if both is None:
            continue
        place, part = seen_from(both, region), seen_from(both, mine)
        labels = arrays["label"][part].astype(np.uint8)
        # Posts of flows have labels for what is open: it stays so.
        unproved = codes[place] & OPEN if "open" not in arrays else arrays["open"][part].astype(np.uint8) * OPEN
        codes[place] = labels | unproved.astype(np.uint8)
    return codes


def labels_in(codes: Codes) -> BinaryLabels:
    """The labels, proved or not."""
    labels: BinaryLabels = np.not_equal(codes & LABEL, 0)
    return labels
