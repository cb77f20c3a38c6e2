"""What a command writes beside its labels: each of these files fails alone, with a warning."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dope.cli.exits import warn


class SideOutputs:
    """Files that are asked for beside the labels, which are there by the time one of these is begun.

    Attributes
    ----------
    written : list of str
        Names of those that are there.
    failed : bool
        Whether some are not.
    """

    def __init__(self) -> None:
        self.written: list[str] = []
        self.failed = False

    @contextmanager
    def alone(self, name: str) -> Iterator[None]:
        """Write one of them in the block. Whatever goes wrong in there is no reason to leave out the next one."""
        try:
            yield
        except Exception as error:  # drawing and writing raise all there is
            self.failed = True
            warn(f"{name} is missing or incomplete: {str(error) or type(error).__name__}")
        else:
            self.written.append(name)
