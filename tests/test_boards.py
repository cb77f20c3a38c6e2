"""Boards, posts and rounds: what is read is what was left; a run that breaks off anywhere goes on to the same bit."""

import ast
import json
import shutil
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dope
from dope import Bracketing, DopeError, Energy, Exact, Partition, Serial, Threads
from dope.boards import Chapter, FolderBoard, MemoryBoard, Post
from dope.boards import folder as folders
from dope.boards.post import TYPES, outline_of, summary_of
from dope.methods.codes import OPEN, codes_post, overlaid
from dope.methods.rounds import Rounds, Task
from dope.methods.tiling import Tiling
from problems import grids
from profiles import examples, slow_but

MOST = 1 << 16


def hard(seed=0, shape=(14, 12)):
    """Weak unaries and a few seeds: blocks alone prove little, and flows have far to go."""
    rng = np.random.default_rng(seed)
    unary, fate = rng.integers(-2, 3, shape).astype(float), rng.random(shape)
    unary[fate < 0.03], unary[fate > 0.97] = -60, 60
    return Energy.grid(unary, lam=4.0, kernel=[*np.eye(len(shape), dtype=int).tolist()])


# Posts.


@st.composite
def arrays(draw):
    kind = np.dtype(draw(st.sampled_from(TYPES)))
    shape = draw(st.lists(st.integers(0, 4), min_size=1, max_size=3))
    bits = np.random.default_rng(draw(st.integers(0, 99))).integers(0, 2, int(np.prod(shape)) * kind.itemsize)
    return bits.astype(np.uint8).view(kind).reshape(shape)


@given(st.dictionaries(st.text(max_size=4), st.dictionaries(st.text(max_size=4), arrays(), max_size=3), max_size=4))
def test_posts_are_read_as_they_were_left(parts):
    content = Post({"told": [1, "two"]}, parts.get("", {}), {n: one for n, one in parts.items() if n}).packed()
    assert summary_of(content) == {"told": [1, "two"]}
    summary, spans = outline_of(content)
    assert summary == summary_of(content)
    assert {*spans} == {"", *parts}
    for name, columns in parts.items():
        part = content[spans[name].begin : spans[name].begin + spans[name].length]
        found = Post.unpacked(part, most=MOST).arrays
        assert list(found) == list(columns)
        for one, column in columns.items():
            assert found[one].dtype == column.dtype and found[one].shape == column.shape
            assert found[one].tobytes() == column.tobytes()
        if columns:
            with pytest.raises(DopeError):
                Post.unpacked(part, most=-1)


def reads_or_refuses(content):
    try:
        summary_of(content)
        Post.unpacked(content, most=MOST)
        for span in outline_of(content)[1].values():
            Post.unpacked(content[span.begin : span.begin + span.length], most=MOST)
    except DopeError:
        pass


@given(st.binary(max_size=200))
def test_bytes_that_are_no_post_are_refused(content):
    reads_or_refuses(content)
    reads_or_refuses(len(content).to_bytes(4, "little") + content)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from(["labels", *TYPES]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["summary", "parts"]), inner),
    max_leaves=12,
)


@given(JSON, JSON, st.binary(max_size=30))
def test_heads_that_are_none_are_refused(summary, parts, rest):
    for listed in (
        parts,
        [["labels", 3, [parts]]],
        [["labels", 3, [["label", "|u1", parts]]]],
        [["labels", parts, []]],
    ):
        head = json.dumps({"summary": summary, "parts": listed}).encode()
        reads_or_refuses(len(head).to_bytes(4, "little") + head + rest)


@given(st.data())
def test_a_post_with_a_bit_flipped_is_read_or_refused(data):
    codes = np.random.default_rng(0).integers(0, 4, (5, 7)).astype(np.uint8)
    content = bytearray(codes_post((slice(0, 5), slice(2, 9)), codes).packed())
    content[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    reads_or_refuses(bytes(content))
    reads_or_refuses(bytes(content[: data.draw(st.integers(0, len(content)))]))


def test_nothing_on_a_board_is_unpickled():
    for path in Path(dope.boards.__file__).parent.glob("*.py"):
        tree = ast.parse(path.read_text())
        named = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
        named |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        assert not named & {"pickle", "cloudpickle", "marshal", "shelve", "dill"}
        called = {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
        assert not called & {"eval", "exec", "np.load", "__import__"}


# Codes and tilings.


@st.composite
def tilings(draw):
    shape = tuple(draw(st.lists(st.integers(1, 7), min_size=1, max_size=3)))
    cuts = [sorted(draw(st.sets(st.integers(1, n - 1)))) if n > 1 else [] for n in shape]
    return shape, cuts


@st.composite
def boxes_of(draw, shape):
    corners = [sorted((draw(st.integers(0, n - 1)), draw(st.integers(1, n)))) for n in shape]
    return tuple(slice(low, max(high, low + 1)) for low, high in corners)


@given(st.data())
def test_a_tiling_is_its_partition(data):
    shape, cuts = data.draw(tilings())
    tiling, partition = Tiling(shape, cuts), Partition.at(shape, cuts)
    assert tiling.boxes == [block.where for block in partition.blocks] and len(tiling) == len(partition.blocks)
    holder = np.zeros(shape, dtype=int)
    for k, block in enumerate(partition.blocks):
        holder[block.where] = k
    box = data.draw(boxes_of(shape))
    assert tiling.within(box) == np.unique(holder[box]).tolist()


@given(st.data())
def test_later_codes_lie_over_earlier_ones(data):
    shape = tuple(data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=3)))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    expected, posts = np.full(shape, OPEN, dtype=np.uint8), []
    for _ in range(data.draw(st.integers(0, 4))):
        box = data.draw(boxes_of(shape))
        expected[box] = rng.integers(0, 4, expected[box].shape)
        posts.append(codes_post(box, expected[box]).packed())
    region = data.draw(boxes_of(shape))
    assert np.array_equal(overlaid(region, posts, sites=expected.size), expected[region])


# Rounds.


@dataclass(frozen=True)
class Adding:
    """A block that leaves the sum of what it reads and of what the message says, and counts how often it was asked."""

    asked: list

    def open(self):
        def work(message, posts, _):
            self.asked.append(message)
            return Post({"sum": message + sum(summary_of(post)["sum"] for post in posts)}, {})

        return work


@pytest.fixture(params=["memory", "folder", "chapter"])
def board(request, tmp_path):
    made = MemoryBoard() if request.param == "memory" else FolderBoard(tmp_path / "board")
    made.begin({})
    return Chapter(made, "part") if request.param == "chapter" else made


def test_chapters_of_a_board_have_posts_of_their_own(tmp_path):
    board = FolderBoard(tmp_path / "board")
    board.begin({})
    one, other = Chapter(board, "one"), Chapter(board, "other")
    assert one.post("a/0", b"1") and other.post("a/0", b"2") and not one.post("a/0", b"3")
    assert [part.find("a/0") for part in (one, other, board)] == [b"1", b"2", None]
    one.drop(["a/0"])
    assert one.find("a/0") is None and other.find("a/0") == b"2"


def test_a_post_answers_the_task_that_it_was_left_for_and_no_other(board):
    asked = []
    with Rounds(Serial(), board, [Adding(asked)]) as rounds:
        (first,) = rounds.play([Task(1, (), "a/0")])
        assert rounds.play([Task(1, (), "a/0")])[0].post == first.post and asked == [1]
        (second,) = rounds.play([Task(1, (first.post,), "a/1")])
        assert second.summary["sum"] == 2
        # Late, with another basis, and under the name of a later round: the right one takes its place.
        board.post("a/2", Post({"sum": 99, "basis": "of an older task"}, {}).packed())
        (third,) = rounds.play([Task(3, (second.post,), "a/2")])
        assert third.summary["sum"] == 5
        assert summary_of(board.read("a/2", third.post.digest))["sum"] == 5


def test_of_two_posts_at_once_the_first_stays(tmp_path, monkeypatch):
    """The other comes while this one's file is being written."""
    board = FolderBoard(tmp_path / "board")
    board.begin({})
    placed = folders._placed

    def late(temporary, path):
        monkeypatch.setattr(folders, "_placed", placed)
        board.post("a/0", b"first")
        return placed(temporary, path)

    monkeypatch.setattr(folders, "_placed", late)
    board.post("a/0", b"second")
    assert board.find("a/0") == b"first"
    assert [path.name for path in (tmp_path / "board" / "a").iterdir()] == ["0"]


def test_threads_that_leave_one_post_all_go_on_from_the_same(tmp_path):
    board = FolderBoard(tmp_path / "board")
    board.begin({})
    for number in range(20):
        gate, seen = threading.Barrier(4), []

        def leave(me, name=f"a/{number}", gate=gate, seen=seen):
            gate.wait()
            board.post(name, bytes([me]) * 100)
            seen.append(board.find(name))

        threads = [threading.Thread(target=leave, args=(me,)) for me in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(set(seen)) == 1 and None not in seen


# Runs.


@examples(60)
@given(st.data())
def test_any_board_and_any_memory_give_the_labels_of_exact(data):
    energy = data.draw(grids(most=60))[0]
    if not energy.submodular:
        return
    layout = [data.draw(st.integers(1, n)) for n in energy.shape]
    method = Bracketing(passes=data.draw(st.integers(1, 3)), memory=data.draw(st.sampled_from([0, 1 << 12, None])))
    expected = dope.minimize(energy, method=Exact()).labels
    with tempfile.TemporaryDirectory() as folder:
        executor = data.draw(st.sampled_from([Serial(), Threads(2)]))
        settings = {"blocks": layout, "method": method, "executor": executor}
        where = Path(folder) / "board"
        for more in ({}, {"checkpoint": where}, {"resume": where}):
            found = dope.minimize(energy, **settings, **more)
            assert found.exact
            assert np.array_equal(found.labels, expected)


class BreakingError(Exception):
    pass


@dataclass(frozen=True)
class Breaking:
    """Serial(), whose worker number `at`, counted over all rounds, breaks; before it has left anything, or after."""

    at: int
    after: bool
    count: list

    workers = 1

    def gather(self, recipes):
        @dataclass(frozen=True)
        class Recipe:
            inner: object
            outer: object

            @property
            def where(self):
                return getattr(self.inner, "where", None)

            def open(self):
                worker, outer = self.inner.open(), self.outer

                def call(message):
                    outer.count.append(message)
                    if len(outer.count) - 1 == outer.at and not outer.after:
                        raise BreakingError
                    reply = worker(message)
                    if len(outer.count) - 1 == outer.at:
                        raise BreakingError
                    return reply

                return call

        return Serial().gather([Recipe(one, self) for one in recipes])


@pytest.mark.parametrize("places", slow_but([3, 25], quick=[3]))
@pytest.mark.parametrize(("memory", "after"), [(0, True), (None, False)])
def test_a_run_that_breaks_at_any_worker_goes_on_to_the_same_bit(tmp_path, memory, after, places):
    energy = hard()
    settings = {"blocks": (2, 3), "method": Bracketing(memory=memory)}
    expected = dope.minimize(energy, method=Exact()).labels
    count = []
    dope.minimize(energy, executor=Breaking(-1, after, count), checkpoint=tmp_path / "whole", **settings)
    kinds = {path.name.partition("-")[0] for path in (tmp_path / "whole").iterdir()}
    assert {"prove", "flow"} <= kinds
    for at in np.linspace(0, len(count) - 1, places).astype(int).tolist():
        folder = tmp_path / f"{at}"
        where = {"checkpoint": folder}
        with pytest.raises(BreakingError):
            dope.minimize(energy, executor=Breaking(at, after, []), **where, **settings)
        if (folder / "manifest.json").exists():
            where = {"resume": folder}
        found = dope.minimize(energy, executor=Serial(), **where, **settings)
        assert np.array_equal(found.labels, expected), at
        shutil.rmtree(folder)
