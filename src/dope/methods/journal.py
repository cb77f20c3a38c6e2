"""What a coordinator writes down after every round, so that a run can go on from the last one.

Posts of older rounds are removed from the board, and a run that is resumed cannot make its way through them again. An
entry has what the coordinator knows then, and names the posts that the next round begins with.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dope.boards import Board, Post
from dope.boards.post import summary_of
from dope.errors import DopeError
from dope.methods.rounds import Reference


@dataclass(frozen=True, eq=False)
class Entry:
    """What was said after a round, and the posts that were named."""

    said: Mapping[str, Any]
    posts: Mapping[str, list[Reference]]


class Journal:
    """Entries on a board that others see; on one that nobody resumes, nothing is written."""

    def __init__(self, board: Board) -> None:
        self._board = board if board.shared else None

    def write(self, number: int, said: Mapping[str, Any], posts: Mapping[str, Sequence[Reference]]) -> None:
        """After round `number`, from 1."""
        if self._board is None:
            return
        listed = {name: [[one.name, one.digest, one.part, one.span] for one in some] for name, some in posts.items()}
        content = Post({"said": dict(said), "posts": listed}, {}).packed()
        self._board.post(_name(number), content, replace=True)

    def read(self) -> list[Entry]:
        """All entries from the first on, up to one that is not there."""
        entries: list[Entry] = []
        while self._board is not None and (content := self._board.find(_name(len(entries) + 1))) is not None:
            try:
                found = summary_of(content)
                posts = {name: [_reference(*one) for one in some] for name, some in found["posts"].items()}
            except (DopeError, KeyError, TypeError, json.JSONDecodeError):
                break
            entries.append(Entry(found["said"], posts))
        return entries

    def has(self, posts: Sequence[Reference]) -> bool:
        """Whether all these posts are on the board, and whole."""
        board = self._board
        assert board is not None
        return all(_is_there(board, one) for one in posts)


def _name(number: int) -> str:
    return f"journal/{number:05}"


def _reference(name: str, digest: str, part: str, span: Sequence[int] | None) -> Reference:
    return Reference(name, digest, part, None if span is None else (int(span[0]), int(span[1])))


def _is_there(board: Board, one: Reference) -> bool:
    content = board.find(one.name)
    if content is None:
        return False
    begin, length = (0, len(content)) if one.span is None else one.span
    return hashlib.sha256(content[begin : begin + length]).hexdigest() == one.digest
