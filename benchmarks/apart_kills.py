"""Hard problems on Dask with two processes, one of which is killed at a random moment: the right bits, every time.

    python benchmarks/apart_kills.py --schedules 20

The cases are the three of apart.py, by turns, 64 blocks each, the board in a folder. A schedule is a seed: it says when
the kill comes, as a part of the time that a run without one took, and which of the two processes it hits. Dask starts
another one then. Labels are compared with those of `Exact()` in this process.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import lines
import numpy as np
from apart import CASES, THREE, arrays, posed

RESULTS = lines.RESULTS / "apart_kills.jsonl"
# No run may hang: one that takes so many times as long as without a kill counts as hanging.
PATIENCE = 30.0


def main() -> None:
    import distributed

    import dope

    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--schedules", type=int, default=20)
    parser.add_argument("--folder", type=Path, default=Path("build/apart"), help="where the arrays are kept")
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        executor = dope.Dask(client, patience=60.0)
        known: dict[str, tuple[Any, float]] = {}
        for seed in range(options.schedules):
            case = THREE[seed % len(THREE)]
            energy = posed(case, arrays(options.folder, case))
            if case not in known:
                expected = dope.minimize(energy, blocks=64, method=dope.Exact()).labels
                found, seconds, _ = run(energy, executor, options.folder)  # processes import dope meanwhile
                found, seconds, _ = run(energy, executor, options.folder)
                assert np.array_equal(found, expected)
                known[case] = expected, seconds
            expected, usual = known[case]
            draw = np.random.default_rng(seed)
            moment, which = float(draw.uniform(0.02, 0.95)) * usual, int(draw.integers(2))
            found, seconds, killed = run(energy, executor, options.folder, kill=(client, moment, which))
            record = {
                "case": case, "seed": seed, "neighbors": CASES[case][1], "blocks": 64, "dask": "local:2",
                "killed_after": round(moment, 2), "killed": killed, "seconds": round(seconds, 2),
                "seconds_without": round(usual, 2), "right": bool(np.array_equal(found, expected)),
                "hung": seconds > PATIENCE * usual, "measured": lines.now(), "commit": lines.commit(),
                "machine": lines.machine(), "command": " ".join(["python", *sys.argv]),
            }  # fmt: skip
            lines.append(options.results, [record])
            print(record, flush=True)
            client.wait_for_workers(2, timeout=60)


def run(energy: Any, executor: Any, folder: Path, *, kill: Any = None) -> tuple[Any, float, bool]:
    """Labels, seconds, and whether a process was killed on the way."""
    import dope

    scratch = Path(tempfile.mkdtemp(prefix="kills-", dir=folder))
    over, killed = threading.Event(), threading.Event()

    def strike() -> None:
        client, moment, which = kill
        pids = sorted(client.run(os.getpid).values())
        begun = time.perf_counter()
        if not over.wait(max(0.0, moment - (time.perf_counter() - begun))):
            os.kill(pids[which], signal.SIGKILL)
            killed.set()

    thread = threading.Thread(target=strike) if kill else None
    begun = time.perf_counter()
    if thread:
        thread.start()
    try:
        labels = dope.minimize(
            energy, blocks=64, method=dope.Bracketing(memory=0), executor=executor, checkpoint=scratch / "board"
        ).labels
        seconds = time.perf_counter() - begun
    finally:
        over.set()
        if thread:
            thread.join()
        shutil.rmtree(scratch, ignore_errors=True)
    return labels, seconds, killed.is_set()


if __name__ == "__main__":
    main()
