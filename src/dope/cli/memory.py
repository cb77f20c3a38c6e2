"""Peak memory of this process, as the operating system counts it."""

from __future__ import annotations

import sys
from pathlib import Path


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
