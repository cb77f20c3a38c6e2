"""The board: posts under names, which blocks leave and their neighbours read.

A round = every block reads what its neighbours left on the board, works, and leaves what they need; the coordinator
counts. What a block does follows from the posts that it reads and from its own data. So it may be done twice, anywhere,
in any order: the first post under a name stays, and everybody goes on from that one.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Protocol


class Board(Protocol):
    """Posts that are whole or not there, and never change."""

    @property
    def shared(self) -> bool:
        """Whether workers in other processes reach it by themselves; else what they read and leave is carried there."""
        ...

    def begin(self, manifest: dict[str, Any]) -> None:
        """Say what is being solved, and how, before anything is posted.

        InputError where the board is to go on and is one of another problem; the message names what differs.
        """
        ...

    def post(self, name: str, content: bytes, *, replace: bool = False) -> bool:
        """Leave a post. A whole one that is there under that name stays, unless it is to be replaced.

        Whether this one is there now, and not an older one.
        """
        ...

    def read(self, name: str, digest: str, *, span: tuple[int, int] | None = None) -> bytes:
        """The very post that somebody has left: `digest` is its sha256. DopeError where it cannot be seen.

        With `span`, a begin and a length, these bytes of it alone, of which `digest` is the sha256 then.
        """
        ...

    def find(self, name: str) -> bytes | None:
        """A post, or None where there is none that is whole."""
        ...

    def require_owner(self) -> None:
        """DopeError where somebody else has taken the board over, and goes on there."""
        ...

    def drop(self, names: Collection[str]) -> None:
        """Remove posts that nobody will read any more."""
        ...
