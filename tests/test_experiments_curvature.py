"""The experiment on drawings, on a small one: a line for the whole and one for blocks, a picture and a table."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from dope.io import read_image, write_image

SCRIPT = Path(__file__).parent.parent / "experiments" / "curvature.py"


@pytest.fixture
def run(tmp_path):
    rows, columns = np.ogrid[:30, :40]
    ring = abs(np.hypot(rows - 15, columns - 20) - 9) < 3
    (tmp_path / "ink").mkdir()
    write_image(tmp_path / "ink" / "ring.png", ~ring)

    def run(*arguments, **changes):
        return subprocess.run(
            [sys.executable, SCRIPT, "--results", tmp_path / "lines.jsonl", *arguments],
            env=os.environ | {"DOPE_DATA": str(tmp_path)} | changes,
            capture_output=True,
            text=True,
            check=False,
        )

    return run


@pytest.mark.slow
def test_a_drawing_is_denoised_whole_and_over_blocks(run, tmp_path):
    settings = ["--instances", "ring", "--modes", "all", "--solver", "Icm", "--blocks", "4", "--room", "36", "48"]
    done = run(*settings, "--overlaps", "0", "4", "-o", str(tmp_path / "pictures"))
    assert done.returncode == 0, done.stderr
    whole, apart, overlapping = [json.loads(line) for line in (tmp_path / "lines.jsonl").read_text().splitlines()]
    assert whole["gap_percent"] == 0 and whole["blocks"] == 1 and whole["sites"] == 36 * 48
    for record in (whole, apart, overlapping):
        assert record["energy"] <= record["energy_before_polish"] + 1e-9
        assert abs(record["gap_percent"]) < 5 and record["wrong_percent"] < 10
        assert record["energy"] < record["energy_of_signs"] and abs(record["gap_of_fall_percent"]) < 20
        assert 0 < record["critical_seconds"] <= record["seconds"] + 1e-3
    assert (apart["overlap"], overlapping["overlap"]) == (0, 4)
    assert read_image(tmp_path / "pictures" / "ring-all.png").shape == (36, 4 * (48 + 4) - 4)
    assert run("--table").stdout.count("| ring | all | 1728 | `Icm()` |") == 2


def test_without_data_it_says_what_is_missing(run):
    done = run(DOPE_DATA="")
    assert done.returncode == 1 and "DOPE_DATA" in done.stderr and "Traceback" not in done.stderr
