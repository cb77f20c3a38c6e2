"""Labels of everything, as pieces that blocks left on the board: nobody needs to have them all.

A piece says itself where it lies, a box or some sites. Pieces come in layers, later ones over earlier ones: a sweep's
lie over those that it began with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from threading import Lock

import numpy as np

from dope.arrays import BinaryLabels, Box, Index
from dope.boards import Post
from dope.boards.post import Array
from dope.errors import DopeError
from dope.methods.places import Places, common, seen_from, size_of
from dope.methods.rounds import Content, Reference
from dope.pairs import strips

# Sites of a box that the coordinator has at hand while it puts labels together.
BOX_SITES = 1 << 24

Read = Callable[[Reference], BinaryLabels]


def piece(place: Index, labels: BinaryLabels) -> dict[str, Array]:
    """The arrays of a piece."""
    if isinstance(place, tuple):
        return {"labels": labels, "box": np.array([[s.start, s.stop] for s in place], dtype=np.int64)}
    return {"labels": labels, "sites": place.astype(np.int64)}


def put_together(place: Index, background: bool, posts: Iterable[Content], *, most: int) -> BinaryLabels:
    """The labels of a place from pieces, each over those before it; `most` bytes of one of them."""
    shape = tuple(s.stop - s.start for s in place) if isinstance(place, tuple) else (len(place),)
    labels = np.full(shape, background, dtype=np.bool_)
    for content in posts:
        arrays = Post.unpacked(content, most=most).arrays
        where: Index = arrays["sites"] if "sites" in arrays else tuple(slice(a, b) for a, b in arrays["box"].tolist())
        _paste(labels, place, where, arrays["labels"])
    return labels


def _paste(labels: BinaryLabels, place: Index, where: Index, found: BinaryLabels) -> None:
    both = common(where, place)
    labels[seen_from(both, place)] = found[seen_from(both, where)]


@dataclass(frozen=True, eq=False)
class Layer:
    """The pieces of some blocks, None where one has left none yet; `order` says which lie over which."""

    places: Places
    posts: Sequence[Reference | None]
    order: Sequence[int] | None = None

    def at(self, place: Index) -> list[tuple[int, Reference]]:
        """What of it is at a place, and of which blocks, the lowest first."""
        met = self.places.meeting(place)
        if self.order is not None:
            among = set(met)
            met = [k for k in self.order if k in among]
        return [(k, post) for k in met if (post := self.posts[k]) is not None]


@dataclass(frozen=True, eq=False)
class Labelling:
    """Labels of everything: layers of pieces over a constant background."""

    background: bool = False
    layers: tuple[Layer, ...] = ()

    def at(self, place: Index) -> tuple[Reference, ...]:
        """The pieces that the labels of a place follow from, the lowest first."""
        return tuple(post for layer in self.layers for _, post in layer.at(place))

    def labels(self, place: Index, read: Read) -> BinaryLabels:
        """The labels of a place, for the coordinator."""
        shape = tuple(s.stop - s.start for s in place) if isinstance(place, tuple) else (len(place),)
        labels = np.full(shape, self.background, dtype=np.bool_)
        for layer in self.layers:
            for k, post in layer.at(place):
                _paste(labels, place, layer.places[k], read(post))
        return labels

    def over(self, layer: Layer) -> Labelling:
        """With one more layer on top."""
        return Labelling(self.background, (*self.layers, layer))


def boxes_of(shape: tuple[int, ...]) -> Iterable[Box]:
    """Boxes that the coordinator writes labels in, one after the other."""
    return strips(shape, BOX_SITES)


class LivePieces:
    """Labels as they are now, put together from what is on the board when somebody asks, in any thread."""

    def __init__(self, first: Callable[[Index], BinaryLabels], whole: Index, shape: tuple[int, ...]) -> None:
        self._first, self._whole, self._shape = first, whole, shape
        self._layers: list[tuple[Places, list[Reference | None], Read]] = []
        self._lock = Lock()

    def begin(self, places: Places, read: Read) -> None:
        """From now on blocks of these places leave labels, over what is there."""
        with self._lock:
            self._layers = [*self._layers[-1:], (places, [None] * len(places), read)]

    def show(self, k: int, post: Reference) -> None:
        """A block has left labels."""
        self._layers[-1][1][k] = post

    def read(self, box: Box | None) -> BinaryLabels:
        place: Index = self._whole if box is None else box
        if box is not None and not isinstance(self._whole, tuple):  # a slice of a graph's sites
            return self.read(None)[box]
        labels = self._first(place)
        with self._lock:
            layers = list(self._layers)
        for places, posts, read in layers:
            for k in places.meeting(place) if size_of(place) else []:
                self._paste(labels, place, places[k], posts, k, read)
        return labels

    def _paste(
        self, labels: BinaryLabels, place: Index, where: Index, posts: list[Reference | None], k: int, read: Read
    ) -> None:
        for _ in range(3):  # what was there a moment ago may have been replaced by something newer
            post = posts[k]
            if post is None:
                return
            try:
                found = read(post)
            except DopeError:
                continue
            _paste(labels, place, where, found)
            return
