"""Plug-ins of other packages: solvers, executors and formats that entry points name, each in one file of its own."""

import sys
import textwrap

import numpy as np
import pytest
from typer.testing import CliRunner

import dope.io
from dope import InputError, Segmentation, plug_ins
from dope.cli import app
from dope.names import EXECUTORS, SOLVERS, known_names, name_of, plug_in_of

PACKAGE = """
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dope import Answer
from dope.executors.serial import SerialCrew
from dope.io import Description, Format, Image


@dataclass(frozen=True)
class Threshold:
    height: float = 0.0

    def prepare(self, energy):
        return self

    def minimize(self, unary, *, start=None):
        return Answer(unary < self.height)


@dataclass(frozen=True)
class InTurn:
    workers: int = 1
    elsewhere: bool = False

    def gather(self, recipes):
        return SerialCrew(recipes)


def _load(path, *, budget=None):
    pixels = np.array([[int(c) for c in line] for line in Path(path).read_text().split()], dtype=np.uint8)
    return Image(pixels=pixels, path=Path(path), channels=False, spacing=None)


def _describe(path):
    found = _load(path)
    return Description(Path(path), "digits", found.shape, 1, "uint8", None, found.pixels.nbytes)


def _save(path, labels, like=None):
    Path(path).write_text("\\n".join("".join(str(int(c)) for c in row) for row in labels) + "\\n")


DIGITS = Format("digits", _load, _describe, None)
"""


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package with plug-ins, as an installer leaves it."""
    (tmp_path / "some_plug_ins.py").write_text(PACKAGE)
    info = tmp_path / "some_plug_ins-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: some-plug-ins\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        textwrap.dedent("""
            [dope.solvers]
            threshold = some_plug_ins:Threshold
            missing = some_plug_ins:Missing

            [dope.executors]
            in-turn = some_plug_ins:InTurn

            [dope.formats]
            .digits = some_plug_ins:DIGITS
            .wrong = some_plug_ins:Threshold
        """)
    )
    monkeypatch.syspath_prepend(tmp_path)
    plug_ins.installed.cache_clear()
    yield tmp_path
    plug_ins.installed.cache_clear()
    sys.modules.pop("some_plug_ins", None)


def test_solvers_and_executors_have_names(package):
    del package
    assert known_names("solver", SOLVERS)[-2:] == ["missing", "threshold"]
    assert "some_plug_ins" not in sys.modules  # until somebody asks for one of them
    solver = plug_in_of("solver", SOLVERS, {"name": "threshold", "height": 0.5})
    executor = plug_in_of("executor", EXECUTORS, "in-turn")
    unary = np.array([[0.0, 1.0], [0.25, -1.0]])
    result = dope.minimize(dope.Energy.grid(unary), solver=solver, executor=executor)
    assert result.labels.shape == (2, 2) and result.plan.solver == solver and result.plan.executor == executor
    with pytest.raises(InputError, match=r"missing .* cannot be imported"):
        plug_in_of("solver", SOLVERS, "missing")
    with pytest.raises(InputError, match=r"solver is 'nobody'; expected one of maxflow, .*threshold"):
        plug_in_of("solver", SOLVERS, "nobody")


def test_files_tell_of_them(package):
    solver = plug_in_of("solver", SOLVERS, {"name": "threshold", "height": 0.5})
    with pytest.raises(InputError):
        name_of("solver", {}, object())
    said = Segmentation(image="a.png", probability="b.png", solver=solver)
    assert said.to_json()["solver"] == {"name": "threshold", "height": 0.5}
    assert Segmentation.from_json(said.to_json()).solver == solver
    del package


def test_a_format_is_read_by_its_suffix(package):
    (package / "a.digits").write_text("0120\n3999\n")
    assert dope.io.load(package / "a.digits").pixels.tolist() == [[0, 1, 2, 0], [3, 9, 9, 9]]
    assert dope.io.describe(package / "a.digits").shape == (2, 4)
    (package / "a.wrong").write_text("")
    with pytest.raises(InputError, match=r"expected a dope\.io\.Format"):
        dope.io.load(package / "a.wrong")
    with pytest.raises(InputError, match="not a format"):
        dope.io.load(package / "a.unknown")


def test_the_command_line_knows_them(package):
    (package / "cut.txt").write_text("3 2\n1 2 1\n2 3 1\n")
    result = CliRunner().invoke(
        app, ["minimize", str(package / "cut.txt"), "--solver", "threshold", "-o", str(package / "labels.txt")]
    )
    assert result.exit_code == 0, result.output
    assert (package / "labels.txt").exists()
