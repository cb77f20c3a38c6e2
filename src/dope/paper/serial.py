"""A serial graph cut to compare with, in a process of its own: no peer is imported here.

The script is given a case by its name as JSON, and answers with one line of JSON: the seconds it took, its memory, and
the energy of its labels in the integers that dope makes of the costs. `benchmarks/serial_cut.py` is one.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dope.errors import DopeError, InputError


@dataclass(frozen=True)
class SerialPeer:
    """The script that runs the peer."""

    script: Path

    def __post_init__(self) -> None:
        if not self.script.is_file():
            raise InputError(f"{self.script}: no such file; expected the script that runs a serial graph cut")

    def measure(self, experiment: str, case: str, kernel: int, quick: bool, exact: dict[str, Any]) -> dict[str, Any]:
        """What the peer took for a case; "skipped" says why it did not run. Its energy has to be the exact one."""
        question = {"experiment": experiment, "case": case, "kernel": kernel, "quick": quick}
        command = [sys.executable, str(self.script), json.dumps(question)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        try:
            answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
            if answer["skipped"] is None:
                self._check(answer, exact, question)
        except (ValueError, IndexError, KeyError, TypeError) as error:
            raise DopeError(
                f"{self.script.name} gave no answer for {question} (exit code {done.returncode}); expected a line of "
                "JSON with skipped, seconds, cpu_seconds, peak_bytes, sites and whole_energy"
            ) from error
        return answer

    def _check(self, answer: dict[str, Any], exact: dict[str, Any], question: object) -> None:
        for name in ("seconds", "cpu_seconds", "sites"):
            if not float(answer[name]) > 0:
                raise ValueError(name)
        room = max(float(exact["rounding_error"]), 1e-9 * abs(float(exact["whole_energy"])))
        if not math.isclose(answer["whole_energy"], exact["whole_energy"], rel_tol=0.0, abs_tol=room):
            raise DopeError(
                f"{self.script.name} says that the minimum of {question} is {answer['whole_energy']!r}, "
                f"dope {exact['whole_energy']!r}; one of them is wrong"
            )
