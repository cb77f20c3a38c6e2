"""Memory: what this process has held, what there is, and a word before more is asked for than there is."""

from __future__ import annotations

import operator
import os
import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from dope.errors import InputError

_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_UNITS |= {"KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30, "TIB": 1 << 40}


# Where a control group says what it may hold at most, what it holds, and how much of that is only a cache of files.
_GROUP_FILES = {
    2: (("memory.max", "memory.high"), "memory.current", "inactive_file"),
    1: (("memory.limit_in_bytes",), "memory.usage_in_bytes", "total_inactive_file"),
}


def available_bytes(root: Path = Path("/")) -> int | None:
    """What could be allocated now without swapping; None where the system does not tell.

    The least of what the machine, every control group around this process, and the limits of this process leave.
    `root` is the folder in which `proc` and `sys` are.
    """
    limits = [_free_by_kernel(root), *_free_by_groups(root), *_free_by_process(root)]
    return min((limit for limit in limits if limit is not None), default=None)


def budget_of(memory: object) -> int | None:
    """The number of bytes that a caller allows, as a number or in words; None where nothing is said."""
    if memory is None or isinstance(memory, str):
        return None if memory is None else as_bytes(memory)
    try:
        found = 0 if isinstance(memory, bool) else operator.index(memory)  # type: ignore[arg-type]
    except TypeError:
        found = 0
    if found < 1:
        raise InputError(f"memory is {memory!r}; expected a number of bytes, or a size such as '8GB'.")
    return found


def require_bytes(what: str, needed: int, budget: int | None = None, *, advice: str = "") -> None:
    """Refuse what takes more than the budget, by default what is available; `advice` says what else to do."""
    limit = available_bytes() if budget is None else budget
    if limit is not None and needed > limit:
        whose = "available" if budget is None else "allowed"
        raise InputError(
            f"{what} takes {as_text(needed)} of memory, and {as_text(limit)} are {whose}.{advice and ' '}{advice}"
        )


def as_text(number: float) -> str:
    """A number of bytes for people.

    >>> as_text(1_500_000), as_text(12)
    ('1.5 MB', '12 bytes')
    """
    for unit in ("TB", "GB", "MB", "kB"):
        size = _UNITS[unit.upper()]
        if number >= size:
            return f"{number / size:.3g} {unit}" if number < 1000 * size else f"{number / size:,.0f} {unit}"
    return f"{number:.0f} bytes"


def as_bytes(text: str) -> int:
    """The number of bytes that a person means.

    >>> as_bytes("16GB"), as_bytes("1.5 GiB"), as_bytes("4096")
    (16000000000, 1610612736, 4096)
    """
    words = text.strip().upper()
    digits = words.rstrip("BKMGTI ")
    try:
        number = float(digits) * _UNITS[words[len(digits) :].strip()]
    except (ValueError, KeyError):
        raise InputError(f"{text!r} is not a size of memory; expected something like 16GB or 500MB.") from None
    if not 1 <= number < 2**63:
        raise InputError(f"{text!r} is not a size of memory; expected at least one byte, such as 16GB.")
    return int(number)


def _free_by_kernel(root: Path) -> int | None:
    found = _entry(root / "proc/meminfo", "MemAvailable:")
    if found is not None:
        return 1024 * found
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")  # all there is: better than nothing
    except (AttributeError, OSError, ValueError):
        return None


def _free_by_groups(root: Path) -> Iterator[int]:
    """What the control group of this process leaves, and each that it lies in: all of their limits hold."""
    for version, mount, inner in _groups(root):
        limits, held, cache = _GROUP_FILES[version]
        # A container may see its own group in place of the root, under the name that it has outside.
        for folder in (mount.joinpath(*part.parts[1:]) for part in (inner, *inner.parents)):
            used = _number(folder / held)
            most = [limit for limit in (_number(folder / name) for name in limits) if limit is not None]
            if used is not None and most:
                yield max(0, min(most) - max(0, used - (_entry(folder / "memory.stat", cache) or 0)))


def _groups(root: Path) -> Iterator[tuple[int, Path, PurePosixPath]]:
    """The groups that count memory: their version, where such groups are mounted, and the place in there."""
    mounts = root / "sys/fs/cgroup"
    for line in _lines(root / "proc/self/cgroup"):
        controllers, _, place = line.partition(":")[2].partition(":")
        inner = PurePosixPath("/", *(part for part in PurePosixPath(place).parts if part not in ("/", "..")))
        if not controllers:
            yield 2, mounts, inner
            yield 2, mounts / "unified", inner
        elif "memory" in controllers.split(","):
            yield 1, mounts / "memory", inner


def _free_by_process(root: Path) -> Iterator[int]:
    """What the limits of this process leave (`ulimit -v` and `ulimit -d`)."""
    try:
        import resource
    except ImportError:
        return
    for kind, held in ((resource.RLIMIT_AS, "VmSize:"), (resource.RLIMIT_DATA, "VmData:")):
        limit = resource.getrlimit(kind)[0]
        if limit != resource.RLIM_INFINITY:
            yield max(0, limit - 1024 * (_entry(root / "proc/self/status", held) or 0))


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text().splitlines()
    except (OSError, ValueError):
        return []


def _number(file: Path) -> int | None:
    """The number in a file; None for "max", and where there is no such file."""
    words = " ".join(_lines(file)).split()
    return int(words[0]) if words and words[0].isdecimal() else None


def _entry(file: Path, name: str) -> int | None:
    """The number that follows a name at the beginning of a line."""
    for line in _lines(file):
        words = line.split()
        if len(words) > 1 and words[0] == name and words[1].isdecimal():
            return int(words[1])
    return None


def peak_bytes() -> int | None:
    """The most memory this process has held at once; None where the system does not tell."""
    if sys.platform == "linux":
        return _linux() or _posix(unit=1024)
    if sys.platform == "win32":
        return _windows()
    return _posix(unit=1)


def _linux() -> int | None:
    """VmHWM: unlike getrusage it does not count what a parent held when it started this process."""
    found = _entry(Path("/proc/self/status"), "VmHWM:")
    return None if found is None else 1024 * found


def _posix(unit: int) -> int | None:
    try:
        import resource
    except ImportError:
        return None
    return int(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) * unit


def _windows() -> int | None:
    if sys.platform != "win32":
        return None
    import ctypes
    from ctypes import wintypes

    class Counters(ctypes.Structure):
        _fields_ = [
            ("cb", wintypes.DWORD),
            ("PageFaultCount", wintypes.DWORD),
            ("PeakWorkingSetSize", ctypes.c_size_t),
            ("WorkingSetSize", ctypes.c_size_t),
            ("QuotaPeakPagedPoolUsage", ctypes.c_size_t),
            ("QuotaPagedPoolUsage", ctypes.c_size_t),
            ("QuotaPeakNonPagedPoolUsage", ctypes.c_size_t),
            ("QuotaNonPagedPoolUsage", ctypes.c_size_t),
            ("PagefileUsage", ctypes.c_size_t),
            ("PeakPagefileUsage", ctypes.c_size_t),
        ]

    counters = Counters()
    counters.cb = ctypes.sizeof(counters)
    process = ctypes.windll.kernel32.GetCurrentProcess
    process.restype = wintypes.HANDLE
    ask = ctypes.windll.psapi.GetProcessMemoryInfo
    ask.argtypes = [wintypes.HANDLE, ctypes.c_void_p, wintypes.DWORD]
    return int(counters.PeakWorkingSetSize) if ask(process(), ctypes.byref(counters), counters.cb) else None
