"""How much memory this process holds."""

import gc
from pathlib import Path

import pytest


def resident_bytes():
    """What lies in main memory now; skips the test where the system does not tell."""
    status = Path("/proc/self/status")
    if not status.exists():
        pytest.skip("no /proc/self/status here")
    gc.collect()
    line = next(line for line in status.read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) * 1024


def growth(cycle, times):
    """How many more bytes are resident after so many cycles, of which the first few do not count."""
    for _ in range(20):
        cycle()
    before = resident_bytes()
    for _ in range(times):
        cycle()
    return resident_bytes() - before
