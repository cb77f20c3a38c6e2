"""What formats of labels can hold."""

from pathlib import Path

from dope.errors import InputError
from dope.io import FORMATS


def holds_volumes(suffix):
    """Whether labels of three axes can be written to it."""
    check = FORMATS[suffix].check_shape
    try:
        if check is not None:
            check(Path(f"labels{suffix}"), (5, 6, 7))
    except InputError:
        return False
    return True
