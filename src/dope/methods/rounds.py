"""A round: every block reads what its neighbours left on the board, works, and leaves what they need.

    coordinator    tasks: what to do, which posts to read, under which name to leave one
    worker         posts read → work → a post left; what it tells in short, and the post's hash, go back
    coordinator    counts, and makes the tasks of the next round

A task names the posts that it reads by their hashes, and its post says what it was made from (`basis`, a hash of the
task): so a post on the board is the answer to a task, whoever left it and whenever, or it is not, and is made again. A
half-done round is continued, a run resumed, and a worker that comes late with an old round does no harm.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, Self

from dope.arrays import Index
from dope.boards import Board, MemoryBoard, Post
from dope.boards.post import summary_of
from dope.errors import DopeError
from dope.protocols import Executor
from dope.work import Work


@dataclass(frozen=True)
class Reference:
    """A post on the board: its name, and the sha256 of what it holds."""

    name: str
    digest: str


@dataclass(frozen=True)
class Task:
    """What a block is to do in a round.

    Attributes
    ----------
    message : what; small, and its `repr` says all of it.
    reads : the posts that it needs, in an order that the block knows.
    leaves : the name of the post that it leaves.
    """

    message: Any
    reads: tuple[Reference, ...]
    leaves: str

    @property
    def basis(self) -> str:
        """A hash of all that the post follows from, but for the energy, of which the board's manifest tells."""
        said = repr((self.message, self.reads)).encode()
        return hashlib.sha256(said).hexdigest()


@dataclass(frozen=True)
class Left:
    """What a worker left: where, and what it tells of it.

    `bytes` are those of the post, `read` those of the posts that it read, and `work` what it did: None where the post
    was on the board already.
    """

    post: Reference
    summary: Mapping[str, Any]
    bytes: int
    work: Work | None = None
    read: int = 0


class BoardWorker(Protocol):
    """Opened where its data is. The post depends on the recipe, the message and the posts alone."""

    def __call__(self, message: Any, posts: Sequence[bytes], work: Work, /) -> Post: ...


class BoardRecipe(Protocol):
    """How to open one; can be pickled and opened again elsewhere."""

    def open(self) -> BoardWorker: ...


class Rounds:
    """Has blocks do tasks on an executor, over a board; blocks stay open from round to round, until the `with` ends."""

    def __init__(self, executor: Executor, board: Board, recipes: Sequence[BoardRecipe]) -> None:
        self._board = board
        self._carried = bool(getattr(executor, "elsewhere", False)) and not board.shared
        self._crew = executor.gather([_PostingRecipe(one, None if self._carried else board) for one in recipes])

    def __enter__(self) -> Self:
        self._crew.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._crew.__exit__(*error)

    @property
    def statistics(self) -> object | None:
        """What the executor has counted so far."""
        return getattr(self._crew, "statistics", None)

    def play(
        self, tasks: Sequence[Task | None], *, done: Callable[[int, Left], object] | None = None
    ) -> list[Left | None]:
        """What the blocks left; None for those without a task. What is on the board already is taken from there.

        `done` is told of each that was worked on as soon as it is there.
        """
        self._board.require_owner()
        left = [None if task is None else _found(self._board, task) for task in tasks]
        messages = [
            None if task is None or before is not None else self._message(task)
            for task, before in zip(tasks, left, strict=True)
        ]

        def take(k: int, reply: _Reply) -> None:
            if reply.carried is not None:
                self._board.post(reply.left.post.name, reply.carried, replace=True)
            left[k] = reply.left
            if done is not None:
                done(k, reply.left)

        if any(message is not None for message in messages):
            self._crew.ask(messages, done=take)
        return left

    def _message(self, task: Task) -> _Message:
        carried = {one.name: self._board.read(one.name, one.digest) for one in task.reads} if self._carried else None
        return _Message(task, carried)


def _found(board: Board, task: Task) -> Left | None:
    """What is on the board already, if it is the answer to this very task."""
    content = board.find(task.leaves)
    try:
        if content is None or summary_of(content).get("basis") != task.basis:
            return None
    except DopeError:
        return None
    return _left(task, content)


def _left(task: Task, content: bytes, work: Work | None = None) -> Left:
    reference = Reference(task.leaves, hashlib.sha256(content).hexdigest())
    return Left(reference, summary_of(content), len(content), work)


@dataclass(frozen=True, eq=False)
class _Message:
    """A task and, where the worker cannot reach the board, the posts that it reads."""

    task: Task
    carried: Mapping[str, bytes] | None = field(repr=False)

    @property
    def doing(self) -> str:
        return str(getattr(self.task.message, "kind", type(self.task.message).__name__))


@dataclass(frozen=True, eq=False)
class _Reply:
    """What was left, and, where the worker cannot reach the board, the post itself."""

    left: Left
    carried: bytes | None


@dataclass(frozen=True, eq=False)
class _PostingRecipe:
    """How to open a worker that reads and leaves posts; without a board, they come and go with messages."""

    recipe: BoardRecipe
    board: Board | None

    @property
    def where(self) -> Index | None:
        return getattr(self.recipe, "where", None)

    def open(self) -> _PostingWorker:
        return _PostingWorker(self.recipe.open(), self.board)


class _PostingWorker:
    """Reads posts, has them worked on, and leaves the one that comes of it; the first under a name stays."""

    def __init__(self, worker: Any, board: Board | None) -> None:
        self._worker, self._board = worker, board

    def __call__(self, message: _Message) -> _Reply:
        work, task = Work.here(), message.task
        board: Board = MemoryBoard(message.carried) if self._board is None else self._board
        posts = _Posts(board, task.reads)
        post = self._worker(task.message, posts, work)
        with work.timed("write"):
            content = Post({**post.summary, "basis": task.basis}, post.parts).packed()
            # Another worker may have answered the same task meanwhile, from another flow inside its block.
            if _found(board, task) is None:
                board.post(task.leaves, content, replace=board.find(task.leaves) is not None)
                first = _found(board, task)
                if first is None:  # of an older task, left a moment ago by somebody late
                    board.post(task.leaves, content, replace=True)
            kept = board.find(task.leaves)
            content = content if kept is None else kept
        work.end()
        left = replace(_left(task, content, work), read=posts.bytes)
        return _Reply(left, content if self._board is None else None)


class _Posts(Sequence[Any]):
    """The posts of a task, each read when it is asked for."""

    def __init__(self, board: Board, reads: Sequence[Reference], sizes: dict[str, int] | None = None) -> None:
        self._board, self._reads = board, reads
        self._sizes: dict[str, int] = {} if sizes is None else sizes

    @property
    def bytes(self) -> int:
        """Of those that were read so far, by whichever part of this list."""
        return sum(self._sizes.values())

    def __len__(self) -> int:
        return len(self._reads)

    def __getitem__(self, i: Any) -> Any:
        if isinstance(i, slice):
            return _Posts(self._board, self._reads[i], self._sizes)
        content = self._board.read(self._reads[i].name, self._reads[i].digest)
        self._sizes[self._reads[i].name] = len(content)
        return content
