"""Labels as they are now: a method says how to read them, and whoever holds the run reads them from any thread."""

from __future__ import annotations

from collections.abc import Callable

from dope.arrays import Box, Labels

ReadLabels = Callable[[Box | None], Labels]
"""A copy of the labels of a box, or of everything, as they are at the moment; called from any thread."""


class LiveLabels:
    """Where a method shows its labels while it is at work."""

    def __init__(self, read: ReadLabels | None = None) -> None:
        self._read = read

    @property
    def shown(self) -> bool:
        """Whether there is something to read."""
        return self._read is not None

    def show(self, read: ReadLabels) -> None:
        """From now on labels are what `read` gives."""
        self._read = read

    def read(self, box: Box | None = None) -> Labels:
        """A copy of them."""
        if self._read is None:
            raise LookupError("no labels are shown yet")
        return self._read(box)
