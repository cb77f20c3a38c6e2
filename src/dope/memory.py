"""Memory: what this process has held, what there is, and a word before more is asked for than there is."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from dope.errors import InputError

_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_UNITS |= {"KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30, "TIB": 1 << 40}


def available_bytes() -> int | None:
    """What could be allocated now without swapping; None where the system does not tell."""
    limits = [limit for limit in (_free_by_kernel(), _free_by_group()) if limit is not None]
    return min(limits, default=None)


def require_bytes(what: str, needed: int, budget: int | None = None) -> None:
    """Refuse what takes more than the budget, by default what is available."""
    limit = available_bytes() if budget is None else budget
    if limit is not None and needed > limit:
        whose = "available" if budget is None else "allowed"
        raise InputError(f"{what} takes {as_text(needed)} of memory, and {as_text(limit)} are {whose}.")


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


def _free_by_kernel() -> int | None:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return 1024 * int(line.split()[1])
        return None
    except (OSError, ValueError, IndexError):
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")  # all there is: better than nothing
    except (AttributeError, OSError, ValueError):
        return None


def _free_by_group() -> int | None:
    """What the control group of a container leaves."""
    group = Path("/sys/fs/cgroup")
    try:
        most, held = ((group / name).read_text().strip() for name in ("memory.max", "memory.current"))
        return None if most == "max" else max(0, int(most) - int(held))
    except (OSError, ValueError):
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
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return None
    sizes = [line.split()[1] for line in lines if line.startswith("VmHWM:")]
    return 1024 * int(sizes[0]) if sizes else None


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
