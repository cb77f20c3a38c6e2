"""Runs dope's command line again and again, each time in a fork of a process that has imported everything.

Reads lines of JSON, `{"args": [...], "folder": ..., "seconds": ...}`, and answers each with a line: exit code, seconds
of the processor and of the clock, bytes beyond what was held at the start, and what was written to stdout and stderr.
"""

import contextlib
import gc
import importlib
import io
import json
import os
import resource
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import typer

# What a command may import before it reads a file: part of the start.
IMPORTS = (
    "dope.cli.segment",
    "dope.cli.minimize",
    "dope.cli.info",
    "dope.cli.plan",
    "dope.cli.compare",
    "dope.verify",
    "dope.io.images.zarr_source",
    "zarr",
    "numcodecs.blosc",
    "numcodecs.zstd",
    "numcodecs.lz4",
    "google_crc32c",
    "tifffile",
    "imagecodecs",
    "nibabel",
    "h5py",
    "PIL.PngImagePlugin",
    "PIL.JpegImagePlugin",
    "PIL.MpoImagePlugin",
    "dope.segmentation",
)
# Addresses, not memory: threads and the allocator reserve some hundred megabytes that they never touch. A net below the
# limit that the tests set, so that a mistake does not take the machine with it.
_ADDRESSES = 4 << 30


def status(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith(field)).split()[1])


def certificate(args: list[str]) -> int:
    """The one reader that has no command."""
    from dope.certificate import Certificate
    from dope.errors import DopeError

    try:
        Certificate.load(args[0])
    except DopeError as error:
        print(f"dope: {error}", file=sys.stderr)
        return 2
    return 0


def call(command: Any, args: list[str]) -> int:
    if args[0] == "certificate":
        return certificate(args[1:])
    try:
        command.main(args, prog_name="dope")
    except SystemExit as stopped:
        return stopped.code if isinstance(stopped.code, int) else 1
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def child(command: Any, args: list[str], folder: Path) -> None:
    """Never returns."""
    for name, descriptor in (("stdout", 1), ("stderr", 2)):
        os.dup2(os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), descriptor)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    Path("/proc/self/clear_refs").write_text("5")  # the peak is counted from here on
    held = status("VmRSS")
    resource.setrlimit(resource.RLIMIT_AS, (status("VmSize") + _ADDRESSES,) * 2)
    before = os.times()
    code = call(command, args)
    sys.stdout.flush()
    sys.stderr.flush()
    after = os.times()
    used = {"bytes": status("VmHWM") - held, "processor": after.user + after.system - before.user - before.system}
    (folder / "used").write_text(json.dumps(used))
    os._exit(code)


def answer(command: Any, args: list[str], folder: Path, seconds: float) -> dict[str, object]:
    begun = time.perf_counter()
    process = os.fork()
    if not process:
        child(command, args, folder)
    code = None
    while code is None and time.perf_counter() < begun + seconds:
        found, state = os.waitpid(process, os.WNOHANG)
        code = os.waitstatus_to_exitcode(state) if found else None
        if code is None:
            time.sleep(0.002)
    if code is None:
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
    used = json.loads((folder / "used").read_text()) if (folder / "used").exists() else {}
    (folder / "used").unlink(missing_ok=True)
    texts = {name: (folder / name).read_text(errors="replace") for name in ("stdout", "stderr")}
    return {"code": code, "clock": time.perf_counter() - begun, **used, **texts}


def main() -> None:
    for name in IMPORTS:
        importlib.import_module(name)
    from dope.cli import app

    command = typer.main.get_command(app)
    with contextlib.redirect_stderr(io.StringIO()):
        call(command, ["info", "no such file.png"])  # what is imported and prepared at the first call
    gc.freeze()
    print("ready", flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        print(json.dumps(answer(command, asked["args"], Path(asked["folder"]), asked["seconds"])), flush=True)


if __name__ == "__main__":
    main()
