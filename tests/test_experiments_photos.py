"""The experiment on photographs, on a small one: lines are added once, and the table shows them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from dope.io import write_image

SCRIPT = Path(__file__).parent.parent / "experiments" / "photos.py"


@pytest.fixture
def run(tmp_path):
    draw = np.random.default_rng(0)
    image = np.full((48, 64, 3), 90.0)
    image[12:36, 20:50] = 150
    (tmp_path / "photos").mkdir()
    write_image(
        tmp_path / "photos" / "a.png", np.clip(image + draw.normal(0, 25, image.shape), 0, 255).astype(np.uint8)
    )
    strokes = {"a.png": {"fg": [[[26, 20], [44, 20]]], "bg": [[[6, 5], [58, 5]]], "brush_radius": 2}}
    (tmp_path / "photos" / "scribbles.json").write_text(json.dumps(strokes))
    (tmp_path / "scratch").mkdir()

    def run(*arguments, **changes):
        environment = os.environ | {"DOPE_DATA": str(tmp_path), "TMPDIR": str(tmp_path / "scratch")} | changes
        return subprocess.run(
            [sys.executable, SCRIPT, "--results", tmp_path / "lines.jsonl", *arguments],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )

    return run


@pytest.mark.slow
def test_cases_are_run_once_and_tabled(run, tmp_path):
    arguments = ["--kernels", "3", "--overlaps", "0.25", "--blocks", "4", "--workers", "1"]
    first = run(*arguments)
    assert first.returncode == 0, first.stderr
    lines = [json.loads(line) for line in (tmp_path / "lines.jsonl").read_text().splitlines()]
    assert [line["method"] for line in lines] == ["exact", "admm", "paper"]
    exact, ours, paper = lines
    assert exact["gap_percent"] == 0 and exact["dice"] == 1 and exact["rounds"] == 1
    for line in (ours, paper):
        assert line["exact_energy"] == exact["energy"]
        assert -1e-6 <= line["gap_percent"] < 5 and line["dice"] > 0.9 and line["seeds_kept"]
    second = run(*arguments)
    if not lines[0]["commit"].endswith("-dirty"):  # others may save a file in between
        assert second.stdout == ""
    shown = run("--table").stdout
    assert "| a | 0.0 | 3x3 | 4 | 0.25 |" in shown and "| `Admm()` | 3x3 | 0.25 | 1 |" in shown


def test_without_data_it_says_what_is_missing(run):
    done = run(DOPE_DATA="")
    assert done.returncode == 1 and "DOPE_DATA" in done.stderr and "Traceback" not in done.stderr
