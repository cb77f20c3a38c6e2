"""A round: every block reads what its neighbours left on the board, works, and leaves what they need.

    coordinator    tasks: what to do, which posts to read, under which name to leave one
    worker         posts read → work → a post left; what it tells in short, and the post's hash, go back
    coordinator    counts, and makes the tasks of the next round

A task names the posts that it reads by their hashes, and its post says what it was made from (`basis`, a hash of the
task): so a post on the board is the answer to a task, whoever left it and whenever, or it is not, and is made again. A
half-done round is continued, a run resumed, and a worker that comes late with an old round does no harm.

A post may have parts, one for each neighbour, which are read alone. Where the board and all workers are in this
process, posts need not be packed: neighbours then see the arrays themselves, which nobody may write to.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, Self

from dope.arrays import Index
from dope.boards import Board, MemoryBoard, Post
from dope.boards.post import outline_of
from dope.errors import DopeError
from dope.protocols import Executor
from dope.work import Work


@dataclass(frozen=True)
class Reference:
    """A post on the board: its name, and the sha256 of what it holds; or a part of it, and where that lies in it."""

    name: str
    digest: str
    part: str = ""
    span: tuple[int, int] | None = None


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
    parts: Mapping[str, Reference] = field(default_factory=dict)
    read: int = 0


Content = bytes | Post
"""What is read from the board, for `Post.unpacked`: packed, or held as it is."""


class Posts(Sequence[Any]):
    """The posts of a task, each read when it is asked for."""

    def __init__(
        self,
        reads: Sequence[Reference],
        fetch: Callable[[Reference], Content],
        sizes: dict[Reference, int] | None = None,
    ) -> None:
        self._reads, self._fetch = reads, fetch
        self._sizes: dict[Reference, int] = {} if sizes is None else sizes

    def known_by(self, i: int) -> str:
        """The hash of a post, or of the part that is read, without reading it."""
        return self._reads[i].digest

    @property
    def bytes(self) -> int:
        """Of those that were read so far, by whichever part of this list."""
        return sum(self._sizes.values())

    def __len__(self) -> int:
        return len(self._reads)

    def __getitem__(self, i: Any) -> Any:
        if isinstance(i, slice):
            return Posts(self._reads[i], self._fetch, self._sizes)
        content = self._fetch(self._reads[i])
        self._sizes[self._reads[i]] = content.bytes if isinstance(content, Post) else len(content)
        return content


class BoardWorker(Protocol):
    """Opened where its data is. The post depends on the recipe, the message and the posts alone."""

    def __call__(self, message: Any, posts: Sequence[Content], work: Work, /) -> Post: ...


class BoardRecipe(Protocol):
    """How to open one; can be pickled and opened again elsewhere."""

    def open(self) -> BoardWorker: ...


class Rounds:
    """Has blocks do tasks on an executor, over a board; blocks stay open from round to round, until the `with` ends."""

    def __init__(
        self, executor: Executor, board: Board, recipes: Sequence[BoardRecipe], *, packed: bool = True
    ) -> None:
        """`packed=False`: posts are held as they are, where board and workers are in this process."""
        elsewhere = bool(getattr(executor, "elsewhere", False))
        self._board = board
        self._carried = elsewhere and not board.shared
        self._held = board if isinstance(board, MemoryBoard) and not packed and not elsewhere else None
        reached = None if self._carried else board
        self._crew = executor.gather([_PostingRecipe(one, reached, self._held is not None) for one in recipes])

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
        left = [None if task is None else self._found(task) for task in tasks]
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

    def read(self, reference: Reference, *, most: int) -> Post:
        """A post, or a part of one, for the coordinator."""
        return Post.unpacked(content_of(self._board, reference), most=most)

    def leave(self, name: str, post: Post) -> Reference:
        """A post of the coordinator's own; what was there under this name is replaced."""
        if self._held is not None:
            return Reference(name, self._held.hold(name, post))
        return leave(self._board, name, post)

    def _found(self, task: Task) -> Left | None:
        return _found(self._board, task) if self._held is None else None  # which nobody resumes

    def _message(self, task: Task) -> _Message:
        carried = {one: _read(self._board, one) for one in task.reads} if self._carried else None
        return _Message(task, carried)


def leave(board: Board, name: str, post: Post) -> Reference:
    """A post of somebody who coordinates; what was there under this name is replaced."""
    content = post.packed()
    board.post(name, content, replace=True)
    return Reference(name, hashlib.sha256(content).hexdigest())


def content_of(board: Board, reference: Reference) -> Content:
    """A post, or a part of one, packed or as it is held."""
    if isinstance(board, MemoryBoard) and board.held(reference.name) is not None:
        return _held(board, reference)
    return _read(board, reference)


def _read(board: Board, reference: Reference) -> bytes:
    return board.read(reference.name, reference.digest, span=reference.span)


def _held(board: MemoryBoard, reference: Reference) -> Post:
    """A post that is held as it is, or a part of it."""
    found = board.held(reference.name)
    if found is None or found[1] != reference.digest:
        raise DopeError(f"nothing is held as {reference.name}; expected that the block before had left it.")
    post = found[0]
    return Post({}, post.parts[reference.part]) if reference.part else Post(post.summary, post.arrays)


def _found(board: Board, task: Task) -> Left | None:
    """What is on the board already, if it is the answer to this very task."""
    content = board.find(task.leaves)
    return None if content is None else _answer(task, content)


def _answer(task: Task, content: bytes) -> Left | None:
    """A post as what was left for this very task, if it is."""
    try:
        left = _left(task, content)
    except DopeError:
        return None
    return left if left.summary.get("basis") == task.basis else None


def _left(task: Task, content: bytes) -> Left:
    summary, spans = outline_of(content)
    parts = {name: Reference(task.leaves, one.digest, name, (one.begin, one.length)) for name, one in spans.items()}
    before = parts.pop("")
    # What has no parts is read as a whole.
    main = before if parts else Reference(task.leaves, before.digest)
    return Left(main, summary, len(content), parts=parts)


@dataclass(frozen=True, eq=False)
class _Message:
    """A task and, where the worker cannot reach the board, the posts that it reads."""

    task: Task
    carried: Mapping[Reference, bytes] | None = field(repr=False)

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
    held: bool = False

    @property
    def where(self) -> Index | None:
        return getattr(self.recipe, "where", None)

    def open(self) -> _PostingWorker | _HoldingWorker:
        worker = self.recipe.open()
        if self.held:
            assert isinstance(self.board, MemoryBoard)
            return _HoldingWorker(worker, self.board)
        return _PostingWorker(worker, self.board)


class _HoldingWorker:
    """Reads and leaves posts as they are."""

    def __init__(self, worker: BoardWorker, board: MemoryBoard) -> None:
        self._worker, self._board = worker, board

    def __call__(self, message: _Message) -> _Reply:
        work, task = Work.here(), message.task
        posts = Posts(task.reads, lambda one: content_of(self._board, one))
        post = self._worker(task.message, posts, work)
        known_by = self._board.hold(task.leaves, post)
        parts = {name: Reference(task.leaves, known_by, name) for name in post.parts}
        work.end()
        return _Reply(Left(Reference(task.leaves, known_by), post.summary, post.bytes, work, parts, posts.bytes), None)


class _PostingWorker:
    """Reads posts, has them worked on, and leaves the one that comes of it; the first under a name stays."""

    def __init__(self, worker: BoardWorker, board: Board | None) -> None:
        self._worker, self._board = worker, board

    def __call__(self, message: _Message) -> _Reply:
        work, task = Work.here(), message.task
        board: Board = MemoryBoard() if self._board is None else self._board
        carried = message.carried
        posts = Posts(task.reads, lambda one: content_of(board, one) if carried is None else carried[one])
        post = self._worker(task.message, posts, work)
        with work.timed("write"):
            content = Post({**post.summary, "basis": task.basis}, post.arrays, post.parts).packed()
            left = _leave_first(board, task, content)
        work.end()
        return _Reply(replace(left, work=work, read=posts.bytes), content if self._board is None else None)


def _leave_first(board: Board, task: Task, content: bytes) -> Left:
    """Leave an answer to a task, unless there is one: another worker may have found another flow inside its block."""
    if not board.post(task.leaves, content):
        first = _found(board, task)
        if first is None:  # of an older task, left by somebody late
            board.post(task.leaves, content, replace=True)
            first = _found(board, task)
        if first is not None:
            return first
    return _left(task, content)
