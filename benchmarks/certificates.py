"""Certificates of runs in boxes: how large they are, and what `dope verify` takes.

    DOPE_DATA=... python benchmarks/certificates.py --sides 128 256
    python benchmarks/certificates.py --docs

The volumes are those of large.py. `dope segment --certificate` and `dope verify` run as a user runs them, each in a
process of its own that is watched from outside. Seconds per million sites are those of the processor: others may be at
work on the machine.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import lines
import numpy as np
from large import NEIGHBORS, Watch, volume

RESULTS = lines.RESULTS / "certificates.jsonl"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sides", nargs="+", type=int, default=[128, 256])
    parser.add_argument("--box", type=int, default=64, help="side of a box")
    parser.add_argument("--kernel", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=Path("build/large"), help="where the volumes are kept")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--docs", action="store_true", help="write the results into docs, and run nothing")
    options = parser.parse_args()
    if options.docs:
        write_docs(table(lines.read(options.results)))
        return
    for side in options.sides:
        record = measured(volume(options.folder, side), side, (-(-side // options.box)) ** 3, options.kernel)
        lines.append(options.results, [record])
        print(json.dumps(record), flush=True)


def measured(files: dict[str, str], side: int, blocks: int, kernel: int) -> dict[str, Any]:
    folder = Path(files["t1"]).parent / f"certificate-{side}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    # A map of bytes is told as fractions: what is in a NIfTI file by its scale, an NPY file has no place for.
    map_file = folder / "map.npy"
    np.save(map_file, np.load(files["wm"]).astype(np.float32) / 255)
    labels, proof = str(folder / "labels.npy"), str(folder / "proof")
    how = ["--kernel", str(kernel), "--blocks", str(blocks), "--checkpoint", str(folder / "board")]
    segment = ["segment", files["t1"], "--probability", str(map_file), "-o", labels, "--certificate", proof, *how]
    verify = ["verify", labels, "--certificate", proof]
    commit = lines.commit()  # of the sources that are run, whatever follows
    found, verified = ran(segment), ran(verify)
    flows = [np.load(file)["flow"] for file in sorted(Path(proof, "flows").glob("*.npz"))]
    size = sum(file.stat().st_size for file in Path(proof).rglob("*") if file.is_file())
    shutil.rmtree(folder)
    return {
        "case": f"brain-{side}",
        "sites": side**3,
        "kernel": kernel,
        "blocks": len(flows),
        "flows": sum(map(len, flows)),
        "certificate_bytes": size,
        "segment": found,
        "verify": verified,
        "verify_seconds_per_million": round(verified["processor_seconds"] * 1e6 / side**3, 2),
        "command": " ".join(["python", *sys.argv]),
        "measured": lines.now(),
        "commit": commit,
        "load": lines.load(),
        "machine": lines.machine(),
    }


def ran(arguments: list[str]) -> dict[str, Any]:
    """Seconds, peak memory and exit code of a command."""
    begun, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    process = subprocess.Popen([str(Path(sys.executable).parent / "dope"), *arguments], stdout=subprocess.DEVNULL)
    watch = Watch(process.pid)
    watch.start()
    code = process.wait()
    watch.over.set()
    watch.join()
    if code:
        raise SystemExit(f"dope {' '.join(arguments)} failed with exit code {code}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "seconds": round(time.perf_counter() - begun, 1),
        "processor_seconds": round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 1),
        "peak_bytes": watch.peak,
    }


def table(records: list[dict[str, Any]]) -> str:
    """Of each case the newest line."""
    newest = {(r["sites"], r["kernel"], r["blocks"]): r for r in records}
    columns = ("volume", "neighbours", "boxes", "flows", "certificate", "verify, processor", "verify, peak memory")
    rows = [columns, ("---", *["---:"] * (len(columns) - 1)), *(_row(r) for _, r in sorted(newest.items()))]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _row(r: dict[str, Any]) -> tuple[str, ...]:
    seconds, memory = r["verify"]["processor_seconds"], r["verify"]["peak_bytes"]
    return (
        f"{round(r['sites'] ** (1 / 3))}^3",
        f"{NEIGHBORS[r['kernel']]}",
        f"{r['blocks']}",
        f"{r['flows']:,}",
        f"{r['certificate_bytes'] / 1e6:.2f} MB",
        f"{seconds:.0f} s",
        f"{memory / 1e9:.2f} GB",
    )


def write_docs(text: str) -> None:
    page = lines.PROJECT / "docs" / "large.md"
    before, rest = page.read_text(encoding="utf-8").split("<!-- certificates -->\n")
    _, after = rest.split("<!-- end of certificates -->")
    new = f"{before}<!-- certificates -->\n\n{text}\n\n<!-- end of certificates -->{after}"
    page.write_text(new, encoding="utf-8")


if __name__ == "__main__":
    main()
