"""A photo larger than memory from strokes: `dope segment`, as a user runs it, on a photo that is tiled to any size.

    DOPE_DATA=... python benchmarks/strokes_large.py --side 20000 --memory 2GB
    DOPE_DATA=... python benchmarks/strokes_large.py --side 1200 --step 8 --memory 260MB

A photo of DOPE_DATA/photos is mirror-tiled, cropped to begin at (1234, 2345) so that tiles and blocks do not align, and
noise of +-12 grey levels, seeded, is added. It lies in a Zarr array (uint8, RGB, chunks of 1000 x 1000), written chunk
row by chunk row. The strokes are those of photos/scribbles.json on one of the tiles that are not mirrored. `--step`
takes every n-th pixel of the photo, for tiles that fit into a small image. The run is a process of its own, watched
from outside: the peak is the most that it and its children held together.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import lines
import numpy as np
from large import Watch, mirrored

RESULTS = lines.RESULTS / "strokes_large.jsonl"
CORNER = (1234, 2345)
NOISE = 12
CHUNK = 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--side", type=int, default=20_000, help="pixels along each side")
    parser.add_argument("--photo", default="canyon-wren.jpg")
    parser.add_argument("--step", type=int, default=1, help="take every n-th pixel of the photo")
    parser.add_argument("--kernel", type=int, default=3)
    parser.add_argument("--memory", default="2GB", help="what dope is allowed")
    parser.add_argument("--options", default="", help="more options of dope segment, such as '--connected --rounds 1'")
    parser.add_argument("--folder", type=Path, default=Path("build/strokes"), help="where the images are kept")
    parser.add_argument("--results", type=Path, default=RESULTS)
    asked = parser.parse_args()
    image, strokes = instance(asked.folder, asked.photo, asked.side, asked.step)
    record = measured(image, strokes, asked)
    lines.append(asked.results, [record])
    print(json.dumps(record, indent=1), flush=True)
    if not record["exact"] and "--connected" not in asked.options:
        raise SystemExit("the labels are not proved to be the minimum")


def instance(folder: Path, photo: str, side: int, step: int) -> tuple[Path, Path]:
    """The image and its strokes, made when they are not there yet."""
    import zarr

    from dope.io import read_image

    folder.mkdir(parents=True, exist_ok=True)
    photos = Path(os.environ["DOPE_DATA"]) / "photos"
    tile = np.ascontiguousarray(read_image(photos / photo)[::step, ::step])
    name = f"{Path(photo).stem}-{side}-{step}"
    image, strokes = folder / f"{name}.zarr", folder / f"{name}.json"
    corner = [start // step for start in CORNER]
    entry = json.loads((photos / "scribbles.json").read_text())[photo]
    strokes.write_text(json.dumps(placed(entry, tile.shape, corner, side, step)))
    if image.exists():
        return image, strokes
    rows, columns = (mirrored(np.arange(c, c + side), n) for c, n in zip(corner, tile.shape, strict=False))
    temporary = image.with_suffix(".part.zarr")
    shutil.rmtree(temporary, ignore_errors=True)
    chunks = (min(CHUNK, side), min(CHUNK, side), 3)
    whole = zarr.create_array(str(temporary), shape=(side, side, 3), chunks=chunks, dtype="u1")
    for low in range(0, side, CHUNK):
        band = tile[rows[low : low + CHUNK]][:, columns].astype(np.int16)
        band += np.random.default_rng([side, low]).integers(-NOISE, NOISE + 1, band.shape, dtype=np.int16)
        whole[low : low + CHUNK] = np.clip(band, 0, 255).astype(np.uint8)
    temporary.rename(image)
    return image, strokes


def placed(entry: dict[str, Any], tile: tuple[int, ...], corner: list[int], side: int, step: int) -> dict[str, Any]:
    """The strokes on the first tile that is not mirrored and lies inside."""
    top, left = ((-c) % (2 * n) for c, n in zip(corner, tile, strict=False))
    if top + tile[0] > side or left + tile[1] > side:
        raise SystemExit(f"no tile of {tile[1]} x {tile[0]} pixels lies inside; take a larger --side or --step")
    lines_of = {
        kind: [[[x / step + left, y / step + top] for x, y in line] for line in entry[kind]] for kind in ("fg", "bg")
    }
    return {"width": side, "height": side, "brush_radius": entry["brush_radius"] / step, **lines_of}


def measured(image: Path, strokes: Path, asked: argparse.Namespace) -> dict[str, Any]:
    """What a process of its own says of its run, and the most memory that was seen from outside."""
    labels, report = image.with_suffix(".labels.zarr"), image.with_suffix(".report.json")
    command = [
        "dope", "segment", str(image), "--scribbles", str(strokes), "-o", str(labels), "--kernel", str(asked.kernel),
        "--memory", asked.memory, "--json", str(report), "--overwrite", *shlex.split(asked.options),
    ]  # fmt: skip
    begun, commit = time.perf_counter(), lines.commit()  # of the sources that are run, whatever follows
    process = subprocess.Popen([str(Path(sys.executable).parent / command[0]), *command[1:]], stdout=subprocess.DEVNULL)
    watch = Watch(process.pid)
    watch.start()
    code = process.wait()
    watch.over.set()
    watch.join()
    if code:
        raise SystemExit(f"{' '.join(command)} failed with exit code {code}")
    said = json.loads(report.read_text())
    result, trace = said["result"], said["trace"]
    return {
        "case": image.stem,
        "sites": asked.side**2,
        "kernel": asked.kernel,
        "memory": asked.memory,
        "peak_bytes": watch.peak,
        "wall_seconds": round(time.perf_counter() - begun, 1),
        **{
            name: result[name] for name in ("exact", "energy", "lower_bound", "rounding_error", "stopped", "foreground")
        },
        "blocks": result["blocks"],
        "proved_by_pass": [step.get("proved") for step in trace],
        "seconds_by_pass": [round(step["seconds"], 2) for step in trace],
        "ran": " ".join(command),
        "command": " ".join(["python", *sys.argv]),
        "measured": lines.now(),
        "commit": commit,
        "load": lines.load(),
        "machine": lines.machine(),
    }


if __name__ == "__main__":
    main()
