"""A board in the memory of one process."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Collection
from threading import Lock
from typing import Any

from dope.boards.post import Post
from dope.errors import DopeError


class MemoryBoard:
    """Posts in a dictionary, for threads; or for one worker, which carries what it leaves to the board.

    Those that nobody reads outside this process may also be held as they are (`hold`), neither packed nor hashed: each
    has a number then, by which it is known.
    """

    shared = False

    def __init__(self) -> None:
        self._posts: dict[str, bytes] = {}
        self._held: dict[str, tuple[Post, str]] = {}
        self._numbers = itertools.count()
        self._lock = Lock()

    def begin(self, manifest: dict[str, Any]) -> None:
        """Nobody else sees it; what an earlier run has left is gone."""
        del manifest
        with self._lock:
            self._posts.clear()
            self._held.clear()

    def hold(self, name: str, post: Post) -> str:
        """Keep a post as it is, in place of an older one under that name; what it is known by."""
        with self._lock:
            known_by = f"held-{next(self._numbers)}"
            self._held[name] = post, known_by
        return known_by

    def held(self, name: str) -> tuple[Post, str] | None:
        """A post that is kept as it is, and what it is known by."""
        return self._held.get(name)

    def require_owner(self) -> None:
        """It is nobody else's."""

    def post(self, name: str, content: bytes, *, replace: bool = False) -> bool:
        with self._lock:
            if not replace and name in self._posts:
                return False
            self._posts[name] = content
        return True

    def read(self, name: str, digest: str, *, span: tuple[int, int] | None = None) -> bytes:
        found = self.find(name)
        if found is not None and span is not None:
            found = found[span[0] : span[0] + span[1]]
        if found is None or hashlib.sha256(found).hexdigest() != digest:
            raise DopeError(f"nothing was posted as {name}; expected that the block before had left it.")
        return found

    def find(self, name: str) -> bytes | None:
        return self._posts.get(name)

    def drop(self, names: Collection[str]) -> None:
        with self._lock:
            for name in names:
                self._posts.pop(name, None)
                self._held.pop(name, None)
