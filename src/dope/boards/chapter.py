"""A part of a board: the posts of one run among those of several that share a folder."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from dope.boards.board import Board


@dataclass(frozen=True)
class Chapter:
    """Posts whose names on the board begin with that of the chapter; the board's manifest tells of all of them."""

    board: Board
    name: str

    @property
    def shared(self) -> bool:
        return self.board.shared

    def begin(self, manifest: dict[str, Any]) -> None:
        """The board has begun already."""

    def require_owner(self) -> None:
        self.board.require_owner()

    def post(self, name: str, content: bytes, *, replace: bool = False) -> bool:
        return self.board.post(self._there(name), content, replace=replace)

    def read(self, name: str, digest: str, *, span: tuple[int, int] | None = None) -> bytes:
        return self.board.read(self._there(name), digest, span=span)

    def find(self, name: str) -> bytes | None:
        return self.board.find(self._there(name))

    def drop(self, names: Collection[str]) -> None:
        self.board.drop([self._there(name) for name in names])

    def _there(self, name: str) -> str:
        return f"{self.name}/{name}"
