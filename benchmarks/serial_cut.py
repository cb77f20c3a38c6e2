"""The serial graph cut that the paper's experiments are compared with: PyMaxflow, on the integers of `dope.Exact`.

    dope paper 2d -o paper --serial benchmarks/serial_cut.py
    python benchmarks/serial_cut.py '{"experiment": "2d", "case": "canyon-wren.jpg", "kernel": 3, "quick": true}'

`dope paper` calls it for every case and kernel. It prints one line of JSON: the seconds of building and solving (from
ready-made integers, in a process of its own, as in `alone.py`), the peak of that process, and the energy of the labels,
counted in integers; or why it was left out.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from energies import Integers, Model

from dope.memory import available_bytes
from dope.paper.study import plane, volume


def main() -> None:
    print(json.dumps(answer(json.loads(sys.argv[1]))))


def answer(question: dict[str, Any]) -> dict[str, Any]:
    if find_spec("maxflow") is None:
        return {"skipped": "PyMaxflow is not installed"}
    with tempfile.TemporaryDirectory(prefix="dope-serial-") as name:
        folder = Path(name)
        _call(Path(__file__), "--prepare", json.dumps(question | {"folder": name}))
        integers = Integers.load(folder, mapped=True)
        needed = 64 * integers.pairs + 64 * integers.sites  # as in exact.py
        available = available_bytes()
        if available is not None and needed > available:
            return {"skipped": f"needs {needed / 1e9:.1f} GB, {available / 1e9:.1f} GB are available"}
        alone = Path(__file__).with_name("alone.py")
        # A virtual machine may have given free memory back to its host: fetch it before the clock runs.
        _call(alone, json.dumps({"touched_bytes": needed}))
        labels = folder / "labels.npy"
        request = {"solver": "PyMaxflow", "folder": name, "labels": str(labels)}
        measured = json.loads(_call(alone, json.dumps(request)).splitlines()[-1])
        found = np.load(labels)
        energy = integers.energy(found) / integers.scale
    return measured | {
        "skipped": None,
        "cpu_seconds": round(measured["user_seconds"] + measured["system_seconds"], 3),
        "solver": "PyMaxflow",
        "whole_energy": energy,
        "sites": integers.sites,
        "pairs": integers.pairs,
    }


def prepare(question: dict[str, Any]) -> None:
    """Write the integers, in a process of its own: learning colours takes memory."""
    study = {"2d": plane, "3d": volume}[question["experiment"]](quick=question["quick"])
    stated = study.state(question["case"], question["kernel"], question["quick"])
    features = stated.features if stated.features.ndim > stated.unary.ndim else stated.features[..., None]
    model = Model(stated.unary.astype(np.float32), features, lam=stated.lam, kernel=stated.kernel)
    model.save(Path(question["folder"]), None)


def _call(script: Path, *arguments: str) -> str:
    done = subprocess.run([sys.executable, str(script), *arguments], stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout


if __name__ == "__main__":
    if sys.argv[1] == "--prepare":
        prepare(json.loads(sys.argv[2]))
    else:
        main()
