"""Methods, executors and formats of somebody else that are not what they must be: one line says which, and what."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

import dope
import dope.io
from dope import DopeError, Energy, Serial
from dope.io import FORMATS, Image
from dope.steps import Step

ENERGY = Energy.grid(np.random.default_rng(0).normal(size=(12, 12)), lam=0.3)


@dataclass(frozen=True)
class Yielding:
    """A method that yields this, if it is something."""

    what: object = None
    nothing: bool = False

    reads_boxes = True

    def steps(self, _):
        if not self.nothing:
            yield self.what


class Listing:
    def steps(self, _):
        return [Step(round=1, energy=0.0, labels=np.zeros((12, 12), dtype=bool), stopped="done")]


@pytest.mark.parametrize(
    ("method", "said"),
    [
        (Yielding(nothing=True), "without labels"),
        (Yielding(None), "expected a Step"),
        (Yielding(Step(round=1, energy=None, labels=[[True]])), "expected an array"),
        (Yielding(Step(round=1, energy=None, stopped="done")), "without labels"),
        (Listing(), "expected a generator"),
    ],
)
def test_steps_that_are_none(method, said):
    with pytest.raises(DopeError, match=said) as found:
        dope.minimize(ENERGY, method=method)
    assert "\n" not in str(found.value)


def test_a_method_that_never_says_why_it_stopped():
    result = dope.minimize(ENERGY, method=Yielding(Step(round=1, energy=None, labels=np.ones((12, 12), dtype=bool))))
    assert result.stopped == "ended"
    assert result.energy == ENERGY(np.ones((12, 12)))


def test_labels_that_a_method_of_boxes_has_not_written_are(tmp_path):
    np.save(tmp_path / "unary.npy", ENERGY.unary)
    energy = Energy.grid(np.load(tmp_path / "unary.npy", mmap_mode="r"), lam=0.3)
    ones, out = np.ones((12, 12), dtype=bool), np.zeros((12, 12), dtype=bool)
    how = {"memory": "1MB", "blocks": 4}
    result = dope.minimize(
        energy, method=Yielding(Step(round=1, energy=1.0, labels=ones, stopped="done")), out=out, **how
    )
    assert result.plan.in_boxes and out.all()
    with pytest.raises(DopeError, match="shape"):
        dope.minimize(energy, method=Yielding(Step(round=1, energy=1.0, labels=ones[:3], stopped="done")), **how)
    # Who has written them need not claim a bound.
    dope.minimize(energy, method=Yielding(Step(round=1, energy=1.0, stopped="done")), out=out, **how)


class Lying:
    """A crew that leaves out what it is told to leave out."""

    def __init__(self, crew, how):
        self._crew, self._how = crew, how

    def ask(self, messages, *, begun=None, done=None):
        replies = self._crew.ask(messages, begun=begun, done=None if self._how == "done" else done)
        return replies[:-1] if self._how == "reply" else None if self._how == "all" else replies

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass


@dataclass(frozen=True)
class Liar:
    how: str
    workers: int = 1
    elsewhere: bool = False

    def gather(self, recipes):
        return Lying(Serial().gather(recipes), self.how)


@pytest.mark.parametrize("how", ["done", "reply", "all"])
@pytest.mark.parametrize("method", [dope.Exact(), dope.Bracketing(), dope.Admm()], ids=str)
def test_an_executor_that_does_not_answer_all(how, method):
    with pytest.raises(DopeError, match=r"Liar.*expected a list with a reply for each") as found:
        dope.minimize(ENERGY, method=method, executor=Liar(how), blocks=4)
    assert "\n" not in str(found.value)


def test_formats_that_read_or_write_nothing(tmp_path, monkeypatch):
    np.save(tmp_path / "a.npy", np.zeros((3, 4), dtype=np.uint8))
    broken = replace(FORMATS[".npy"], load=lambda *_, **__: None, save=lambda *_: None)
    monkeypatch.setitem(FORMATS, ".npy", broken)
    for read in (dope.io.load, dope.io.load_labels):
        with pytest.raises(DopeError, match="expected an Image"):
            read(tmp_path / "a.npy")
    lists = replace(broken, load=lambda path, **_: Image([[1]], False, None, Path(path)))
    monkeypatch.setitem(FORMATS, ".npy", lists)
    with pytest.raises(DopeError, match="expected an Image"):
        dope.io.load(tmp_path / "a.npy")
    with pytest.raises(DopeError, match="its `save` is at fault"):
        dope.io.save_labels(tmp_path / "b.npy", np.zeros((3, 4), dtype=bool))
