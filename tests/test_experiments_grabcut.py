"""The experiment on the GrabCut images, on small ones: halves, lines and the table."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from dope.io import write_image

SCRIPT = Path(__file__).parent.parent / "experiments" / "grabcut.py"


def write_example(folder, name, seed):
    draw = np.random.default_rng(seed)
    image = np.full((48, 64, 3), 90.0)
    truth, seeds = np.zeros((48, 64), dtype=np.uint8), np.zeros((48, 64), dtype=np.uint8)
    image[12:36, 20:40] = image[4:10, 50:60] = 150  # a thing, and something of the same colour elsewhere
    truth[12:36, 20:40] = 255
    truth[11, 20:40] = 128
    seeds[20, 24:36], seeds[44, 4:60] = 1, 2
    pixels = np.clip(image + draw.normal(0, 10, image.shape), 0, 255).astype(np.uint8)
    for part, picture in (("images", pixels), ("gt", truth), ("scribbles1", seeds)):
        (folder / part).mkdir(exist_ok=True)
        write_image(folder / part / f"{name}.png", picture)


@pytest.fixture
def run(tmp_path):
    for k, name in enumerate("abc"):
        write_example(tmp_path, name, k)

    def run(*arguments):
        return subprocess.run(
            [sys.executable, SCRIPT, "--results", tmp_path / "lines.jsonl", *arguments],
            capture_output=True,
            text=True,
            check=False,
        )

    return run


@pytest.mark.slow
def test_halves_go_by_names_and_the_table_shows_their_means(run, tmp_path):
    done = run("--images", tmp_path, "--half", "odd", "--kernel", "3")
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in (tmp_path / "lines.jsonl").read_text().splitlines()]
    assert [line["image"] for line in lines] == ["a", "c"] and {line["half"] for line in lines} == {"odd"}
    other = 6 * 10 / (48 * 64)  # the part of the same colour
    for line in lines:
        errors = line["errors"]
        assert errors["strokes"] > 0.9 * other and errors["connected"] < 0.005 and errors["again"] < 0.005
    assert "| mean of 2, rounds 2 | odd | 3 |" in done.stdout
    assert run("--table").stdout == done.stdout


def test_without_images_it_says_what_is_missing(run, tmp_path):
    for arguments, word in (((), "--images"), (("--images", tmp_path / "gt"), "holds no images")):
        done = run(*arguments)
        assert done.returncode == 1 and word in done.stderr and "Traceback" not in done.stderr
