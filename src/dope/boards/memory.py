"""A board in the memory of one process."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from threading import Lock
from typing import Any

from dope.errors import DopeError


class MemoryBoard:
    """Posts in a dictionary, for threads; or, with the posts of a message, for a worker to which they were carried."""

    shared = False

    def __init__(self, posts: Mapping[str, bytes] | None = None) -> None:
        self._posts: dict[str, bytes] = dict(posts or {})
        self._lock = Lock()

    def begin(self, manifest: dict[str, Any]) -> None:
        del manifest  # nobody else sees it

    def require_owner(self) -> None:
        """It is nobody else's."""

    def post(self, name: str, content: bytes, *, replace: bool = False) -> None:
        with self._lock:
            if replace or name not in self._posts:
                self._posts[name] = content

    def read(self, name: str, digest: str) -> bytes:
        found = self.find(name)
        if found is None or hashlib.sha256(found).hexdigest() != digest:
            raise DopeError(f"nothing was posted as {name}; expected that the block before had left it.")
        return found

    def find(self, name: str) -> bytes | None:
        return self._posts.get(name)

    def drop(self, names: Collection[str]) -> None:
        with self._lock:
            for name in names:
                self._posts.pop(name, None)
