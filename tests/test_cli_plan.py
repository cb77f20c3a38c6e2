"""`dope plan` of problems that are read from files: what it says, and the files of costs."""

import json
import time
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from dope.cli import app

HUGE = ("--shape", "10000x10000x5000", "--workers", "100", "--memory", "16GB")


def run(*arguments):
    return CliRunner().invoke(app, ["plan", *arguments], env={"COLUMNS": "200"})


@pytest.fixture(scope="module")
def costs(tmp_path_factory):
    file = tmp_path_factory.mktemp("costs") / "costs.json"
    assert run("--shape", "50x50x50", "--measure", str(file)).exit_code == 0
    return str(file)


def test_a_problem_that_no_machine_holds_is_planned_within_seconds():
    begun = time.perf_counter()
    result = run(*HUGE)
    assert result.exit_code == 0, result.output
    assert time.perf_counter() - begun < 30  # a second or two on a machine with nothing else to do
    for words in ("500,000,000,000", "(18 x 17 x 9)", "556 x 589 x 556", "memory of a worker", "read from storage",
                  "left in the folder", "bytes per round", "time, measure", "passes", "time, finish", "100 workers",
                  "coordinator"):  # fmt: skip
        assert words in result.output


@pytest.mark.slow
def test_costs_of_a_file_give_the_same_plan_again(costs):
    first, again = run(*HUGE, "--costs", costs), run(*HUGE, "--costs", costs)
    assert first.exit_code == 0 and first.output == again.output
    slower = Path(costs).with_suffix(".slower")
    slower.write_text(json.dumps({**json.loads(Path(costs).read_text()), "count": 1e3}))
    assert "days" in run(*HUGE, "--costs", str(slower)).output


def test_storage_that_all_share_takes_its_time(costs):
    assert "days" in run(*HUGE, "--costs", costs, "--storage", "1MB").output


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(("--costs", "COSTS"), "give --memory"), (("--storage", "1GB"), "give --memory"),
     (("--memory", "1GB", "--costs", "COSTS", "--kernel", "5"), "6 neighbours"),
     (("--memory", "1GB", "--costs", "nothing.json"), "cannot be read"),
     (("--memory", "1GB", "--costs", "COSTS", "--measure", "x.json"), "both given"),
     (("--memory", "250MB", "--blocks", "1", "--costs", "COSTS"), "ask for more blocks"),
     (("--labels", "1"), "--labels is 1; expected 2 to 1,024"),
     (("--labels", "70000"), "--labels is 70000; expected 2 to 1,024"),
     (("--labels", "3", "--memory", "1GB", "--costs", "COSTS"), "are for two labels"),
     (("--memory", "lots"), "not a size of memory")],
)  # fmt: skip
def test_what_cannot_be_planned_is_said(costs, arguments, words):
    result = run("--shape", "400x400x400", *(costs if one == "COSTS" else one for one in arguments))
    assert result.exit_code == 2
    assert words in result.output


@pytest.mark.parametrize("labels", [2, 5])
def test_what_nobody_asked_for_is_planned_as_a_dry_run_plans_it(labels, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("image.npy", np.zeros((60, 70), dtype=np.uint8))
    np.save("map.npy", np.zeros((60, 70) if labels == 2 else (60, 70, labels), dtype=np.float32))
    known = ["segment", "image.npy", "--probability", "map.npy", "--dry-run", "-o", "labels.npy"]
    dry = CliRunner().invoke(app, known).output.splitlines()
    planned = run("--shape", "60x70", "--labels", str(labels)).output.splitlines()
    same = ("method", "blocks", "solver", "runs in") + (
        ("number of labels", "each block", "memory") if labels > 2 else ()
    )
    for name in same:
        told = [line.split(maxsplit=name.count(" ") + 1)[-1] for line in dry + planned if line.startswith(f"{name}  ")]
        assert len(told) == 2 and told[0] == told[1], told
    assert "a thread per core" in "".join(planned)


def test_several_labels_are_planned_for_workers():
    result = run("--shape", "1000x1000x1000", "--labels", "4", "--workers", "8", "--memory", "4GB")
    assert result.exit_code == 0, result.output
    assert "box by box" in result.output and "number of labels" in result.output


def test_one_worker_is_one(costs):
    for more in ([], ["--memory", "1GB", "--costs", costs]):
        output = run("--shape", "60x70x50", "--workers", "1", *more).output
        assert "with 1 worker\n" in output and "as asked" in output
