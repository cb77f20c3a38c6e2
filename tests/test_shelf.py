"""The shelf of opened blocks: what is taken is what was put, from memory or from the file, or nothing."""

import os
import threading
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dope.methods import shelf


@dataclass(frozen=True)
class Pieces:
    """Something that is nothing but its bytes."""

    content: tuple[bytes, ...]

    @property
    def bytes(self):
        return sum(map(len, self.content))

    def folded(self):
        return list(self.content), lambda pieces: Pieces(tuple(pieces))


def spilled_bytes():
    return 0 if shelf._spill._file is None else os.fstat(shelf._spill._file.fileno()).st_size


@pytest.fixture(autouse=True)
def empty_shelf():
    yield
    for key in [*shelf._open, *shelf._folded]:
        shelf.discard(key)
    assert not shelf._open and not shelf._folded
    assert spilled_bytes() == 0


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.binary(max_size=40), st.integers(0, 60))))
def test_what_is_taken_is_what_was_put_last(moves):
    kept = {}
    for move, key, content, room in moves:
        if move < 2:
            kept[key] = Pieces((content, content[:1] * move))
            shelf.put(key, kept[key], size=kept[key].bytes, room=room)
            assert sum(size for _, size in shelf._open.values()) <= room
        elif move == 2:
            assert shelf.take(key) == kept.pop(key, None)
        else:
            shelf.discard(key)
            kept.pop(key, None)
    for key, one in kept.items():
        assert shelf.take(key) == one
    for key in range(4):
        assert shelf.take(key) is None


def test_the_file_does_not_grow_with_the_number_of_visits():
    one = Pieces((bytes(1000),))
    for run in range(50):
        for key in range(3):
            shelf.put((run, key), one, size=one.bytes, room=0)
        assert spilled_bytes() <= 3 * 1000
        for key in range(2):
            assert shelf.take((run, key)) == one
        shelf.discard((run, 2))


def test_a_file_that_is_cut_or_cannot_be_written_loses_time_alone(monkeypatch):
    shelf.put("cut", Pieces((bytes(100),)), size=100, room=0)
    shelf._spill._file.truncate(10)
    assert shelf.take("cut") is None

    def full(*_):
        raise OSError("no space left")

    monkeypatch.setattr(os, "pwrite", full)
    shelf.put("full", Pieces((bytes(100),)), size=100, room=0)
    assert shelf.take("full") is None


def test_a_system_that_writes_and_reads_a_little_at_a_time(monkeypatch):
    write, read = os.pwrite, os.preadv
    monkeypatch.setattr(os, "pwrite", lambda file, view, at: write(file, view[:7], at))
    monkeypatch.setattr(os, "preadv", lambda file, views, at: read(file, [views[0][:5]], at))
    one = Pieces((bytes(range(100)), b"", bytes(range(50))))
    shelf.put("one", one, size=one.bytes, room=0)
    assert shelf.take("one") == one


def test_a_finalizer_that_runs_in_a_thread_with_the_lock_waits_for_nobody():
    shelf.put("one", Pieces((b"one",)), size=3, room=100)
    with shelf._lock, shelf._spill._lock:
        shelf.discard("one")  # as a collection of garbage would do it
    assert shelf.take("one") is None


def test_threads_that_work_on_the_same_blocks_mix_nothing_up():
    """Records of one key differ in length and in every byte: what is taken is one of them, whole."""
    wrong = []

    def work(seed):
        rng = np.random.default_rng(seed)
        for _ in range(300):
            key, fill, number = (int(one) for one in rng.integers(1, 20, 3))
            found = shelf.take(key % 3)
            if found is not None:
                tag, body = found.content
                if set(body) != set(tag) or len(body) != 50 * tag[0]:
                    wrong.append(found)
            pieces = Pieces((bytes([fill]), bytes([fill]) * (50 * fill)))
            shelf.put(key % 3, pieces, size=pieces.bytes, room=100 * number)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_what_comes_back_as_it_was_is_not_written_again(monkeypatch):
    one = Pieces((bytes(100),))
    shelf.put("one", one, size=one.bytes, room=0)
    written = []
    monkeypatch.setattr(os, "pwrite", lambda *what: written.append(what))
    for _ in range(3):
        assert shelf.take("one", to_be_put=True) == one
        assert shelf.take("one") is None  # somebody has it
        shelf.put("one", one, size=one.bytes, room=0, same=True)
    assert not written
    assert shelf.take("one") == one


def test_the_file_keeps_what_was_taken_until_another_takes_its_place():
    for number in range(1, 20):
        pieces = Pieces((bytes([number]) * 100,))
        shelf.put("one", pieces, size=100, room=0)
        assert shelf.take("one", to_be_put=True) == pieces
    shelf.discard("one")
    assert spilled_bytes() == 0
