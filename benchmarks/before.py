"""Whether `dope.minimize` is what it was: the same bits, no slower, no larger, beside another checkout's.

    python benchmarks/before.py ../before/src                            # A2e, Be, C2e and the brain at kernel 5
    python benchmarks/before.py ../before/src --cases brain-5 --repeat 5

The argument is the folder `src` of another checkout, with its core built in it. Both solve the same arrays by turns,
with their defaults, each solve in a process of its own. Labels, energy, bound and certificate have to be the same, or
the run fails. The ratio is that of the medians of processor time, the other's over this one's. A line per case is
added to benchmarks/results/before.jsonl.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

import cases
import exact_cases
import lines
from energies import Model
from lines import Record

RESULTS = lines.RESULTS / "before.jsonl"
CASES = ("A2e", "Be", "C2e", "brain-5")
OURS = Path(__file__).resolve().parent.parent / "src"
# Of a child: finders of an editable install would lead to this checkout alone.
CHILD = """
import hashlib, json, os, sys, time
sys.meta_path[:] = [f for f in sys.meta_path if "Redirecting" not in type(f).__name__]
sys.path[:0] = [sys.argv[1], sys.argv[3]]
from pathlib import Path
from energies import Model
import dope, dope._core
from dope.memory import peak_bytes
assert dope.__file__.startswith(sys.argv[1]), dope.__file__
model = Model.load(Path(sys.argv[2]))
dope.minimize(dope.Energy.grid([[1.0, -1.0]]))
before, begun = os.times(), time.perf_counter()
result = dope.minimize(model.energy())
seconds, after = time.perf_counter() - begun, os.times()
proof = result.certificate
bits = hashlib.sha256(result.labels.tobytes())
told = hashlib.sha256()
for array in () if proof is None else (proof.first, proof.second, proof.flow):
    told.update(array.tobytes())
print(json.dumps({
    "labels": bits.hexdigest(), "energy": result.energy, "bound": result.lower_bound, "exact": result.exact,
    "blocks": len(result.partition.blocks), "certificate": told.hexdigest(), "seconds": seconds,
    "cpu": after.user + after.system - before.user - before.system, "peak": peak_bytes(),
}))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path, help="the folder src of the other checkout")
    parser.add_argument("--cases", nargs="+", default=list(CASES))
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--results", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    for name in arguments.cases:
        record = compare(name, arguments.before.resolve(), arguments.repeat)
        command = f"python benchmarks/before.py SRC --cases {name} --repeat {arguments.repeat}"
        about = {"date": lines.now(), "commit": lines.commit(), "command": command, "machine": lines.machine()}
        lines.append(arguments.results, [record | about])
        print(json.dumps(record))


def compare(name: str, before: Path, repeat: int) -> Record:
    found: dict[str, list[Record]] = {"before": [], "now": []}
    with tempfile.TemporaryDirectory() as folder:
        _model(name).save(Path(folder), None)
        for _ in range(repeat):
            for who, source in (("before", before), ("now", OURS)):
                found[who].append(_solve(source, folder))
    for key in ("labels", "energy", "bound", "exact", "blocks", "certificate"):
        values = {who: {one[key] for one in runs} for who, runs in found.items()}
        if values["before"] != values["now"] or len(values["now"]) != 1:
            raise SystemExit(f"{name}: {key} was {values['before']} and is {values['now']}")
    medians = {
        f"{who}_{key}": median(one[key] for one in runs)
        for who, runs in found.items()
        for key in ("cpu", "seconds", "peak")
    }
    return {
        "case": name,
        "ratio": medians["before_cpu"] / medians["now_cpu"],
        "peak_ratio": medians["now_peak"] / medians["before_peak"],
        "repeat": repeat,
        **medians,
        "blocks": found["now"][0]["blocks"],
    }


def _model(name: str) -> Model:
    if name in exact_cases.CASES:
        return exact_cases.make(name)
    return exact_cases.stated(cases.make(name), unit=1.0)


def _solve(source: Path, folder: str) -> Record:
    command = [sys.executable, "-c", CHILD, str(source), folder, str(Path(__file__).resolve().parent)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


if __name__ == "__main__":
    main()
