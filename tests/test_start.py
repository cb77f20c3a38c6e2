"""How dope starts: no module is imported before it is needed, and everything is found all the same."""

import json
import subprocess
import sys
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

import dope
from dope.cli import COMMANDS, app
from dope.cli.exits import Command, function_of

SLOW = ("numpy", "rich", "PIL", "dope._core")


def loaded(code):
    """Which of the packages that take long a new process has imported after some code."""
    code = f"import json, sys\n{code}\nprint(json.dumps([name for name in {SLOW} if name in sys.modules]))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("import dope", []),
        ("from dope.errors import InputError", []),
        ("from dope.cli import app\ntry: app(['--version'])\nexcept SystemExit: pass", []),
        ("from dope.cli import app\ntry: app(['--help'])\nexcept SystemExit: pass", ["rich"]),
        ("from dope import Energy", ["numpy", "dope._core"]),
    ],
)
def test_what_takes_long_is_imported_when_it_is_needed(code, found):
    assert loaded(code) == found


def test_everything_public_is_there():
    assert "read_energy" in dir(dope) and set(dope.__all__) <= set(dir(dope)) and "__version__" in dir(dope)
    assert all(getattr(dope, name) is not None for name in dope.__all__)
    star = {}
    exec("from dope import *", star)
    assert set(dope.__all__) <= set(star)


def test_what_is_not_there_is_said():
    name = "nothing"
    with pytest.raises(AttributeError, match="module 'dope' has no attribute 'nothing'"):
        _ = getattr(dope, name)
    assert not hasattr(dope, "__wrapped__")


@pytest.mark.parametrize("first", ["from dope.verify import Verdict", "import dope.verify", "import dope.verify.parts"])
def test_verify_is_the_function_whatever_was_imported_before(first):
    code = f"{first}\nimport dope\nassert dope.verify.__name__ == 'verify' and callable(dope.verify)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_modules_are_found_by_their_names():
    code = "import dope; dope.report.overlay, dope.io.load, dope.models.kernel_lam"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_all_begins_like_that_of_each(name):
    assert function_of(name).__doc__.splitlines()[0] == COMMANDS[name]


@pytest.mark.parametrize("name", [None, *COMMANDS])
def test_flags_take_no_value(name):
    done = CliRunner().invoke(app, [*([] if name is None else [name]), "--help"], env={"COLUMNS": "200"})
    assert done.exit_code == 0 and "--help" in done.output
    assert "<bool>" not in done.output and "BOOL" not in done.output


def test_flags_are_flags_still():
    command: Any = typer.main.get_command(app)
    with command.make_context("dope", ["segment"], resilient_parsing=True) as context:
        segment = command.get_command(context, "segment").make_context("segment", [], resilient_parsing=True).command
    assert isinstance(segment, Command)
    flags = {param.name for param in segment.params if getattr(param, "is_flag", False)}
    assert {"connected", "overwrite", "dry_run", "save_on_cancel"} <= flags
