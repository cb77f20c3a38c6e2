"""Files and folders that are there whole, or not at all, also after a power failure."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from dope.bounded import check_name
from dope.errors import DopeError, InputError
from dope.hidden import hidden_name

# What a disk that is not full has room for.
_A_LITTLE = 1 << 16


def write_durably(path: Path, content: bytes) -> None:
    """Write a file so that its name stands for all of it, whatever happens in between."""
    try:
        with replacing(path) as temporary:
            temporary.write_bytes(content)
    except InputError as error:
        raise DopeError(f"{error}; what was written before is whole.") from error


def write_text(path: str | os.PathLike[str], text: str, *, overwrite: bool = True) -> None:
    """Write a text as a whole or not at all; an existing file is replaced in one step, or, if not to be, kept."""
    with replacing(path, overwrite=overwrite) as temporary:
        temporary.write_text(text, encoding="utf-8")


def check_target(path: Path, overwrite: bool) -> None:
    """Refuse a file that could not be written: no such folder, not writable, or there already."""
    with writing(path):
        if path.is_dir():
            raise InputError(f"{path}: a folder; name a file to write")
        if path.exists() and not path.is_file():
            raise InputError(f"{path}: a device or pipe; name a file to write")
    if os.path.lexists(path) and not overwrite:
        raise _taken(path)
    check_folder(path)


def check_folder(path: Path) -> None:
    """Refuse a folder in which `path` cannot be made; found out by trying, as permissions do not say all."""
    with hidden_file(path):
        pass


def try_writing(folder: Path) -> None:
    """OSError where no file can be made in a folder, or none with anything in it, as on a full disk."""
    with hidden_name(folder) as temporary:
        try:
            temporary.write_bytes(bytes(_A_LITTLE))
            _flush(temporary)
        finally:
            _discard(temporary)


@contextmanager
def replacing(path: str | os.PathLike[str], *, overwrite: bool = True) -> Iterator[Path]:
    """A temporary file beside `path` that takes its name when the block ends well, and vanishes when not.

    Readers see the old file or the new one, never a part of it; so does who looks after the power has failed. Without
    `overwrite` an old one stays, also if somebody made it while the block was at work.
    """
    path = Path(path)
    with hidden_file(path) as temporary:
        yield temporary
        _flush(temporary)
        if overwrite:
            temporary.replace(path)
        else:
            _place_file(temporary, path)
        _flush_folder(path.parent)


@contextmanager
def hidden_file(path: Path) -> Iterator[Path]:
    """A temporary file beside `path` that vanishes when the block ends, unless it has been renamed."""
    _check_name(path)
    with ExitStack() as stack:
        try:
            # The suffix stays, because writers choose the format by it.
            temporary = stack.enter_context(hidden_name(path.parent, path.suffix))
            temporary.open("xb").close()
        except OSError as error:
            raise _unwritable(path, error) from error
        stack.callback(_discard, temporary)
        with writing(path):
            yield temporary


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """What the system says against writing, as one line about the file."""
    try:
        yield
    except OSError as error:
        raise InputError(f"cannot write {path}: {reason(error)}") from error


@contextmanager
def replacing_folder(path: Path, *, overwrite: bool = True) -> Iterator[Path]:
    """The same as `replacing` for a folder.

    Folders cannot be exchanged in one step everywhere: an old one is moved aside, the new one takes its place, and
    comes back if that fails. For a moment between the two there is none.
    """
    with hidden_folder(path) as temporary:
        yield temporary
        take_place(temporary, path, overwrite=overwrite)


@contextmanager
def hidden_folder(path: Path) -> Iterator[Path]:
    """A temporary folder beside `path` that vanishes when the block ends, unless it has been renamed."""
    _check_name(path)
    with ExitStack() as stack:
        try:
            temporary = stack.enter_context(scratch_folder(path.parent, path.suffix))
        except OSError as error:
            raise _unwritable(path, error) from error
        with writing(path):
            yield temporary


@contextmanager
def scratch_folder(folder: Path, suffix: str = "") -> Iterator[Path]:
    """A hidden folder in another one, for what is of use while the block lasts."""
    import shutil  # here and below: `import dope` does not wait for it

    with hidden_name(folder, suffix) as temporary:
        temporary.mkdir()
        try:
            yield temporary
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def take_place(folder: Path, path: Path, *, overwrite: bool = True) -> None:
    """Put a folder, and all that is in it, where there is none, or, with `overwrite`, into the place of another one."""
    _flush_tree(folder)
    if overwrite and os.path.lexists(path):
        _exchange_folder(folder, path)
    else:
        _place_folder(folder, path)
    _flush_folder(path.parent)


def reason(error: OSError) -> str:
    """Why the system refused, for the end of a line."""
    # NumPy counts what could not be written, but does not say why.
    return error.strerror.lower() if error.strerror else f"{str(error) or type(error).__name__}; is the disk full?"


def _place_file(temporary: Path, path: Path) -> None:
    """Give a file its name, unless somebody has taken that, be it a moment ago."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        raise _taken(path) from None
    except OSError:  # FAT and some network file systems have no links; other reasons come back below
        _reserve_and_replace(temporary, path)


def _reserve_and_replace(temporary: Path, path: Path) -> None:
    """The same without links: for a moment the name stands for an empty file."""
    try:
        path.open("xb").close()
    except FileExistsError:
        raise _taken(path) from None
    try:
        temporary.replace(path)
    except BaseException:
        _discard(path)
        raise


def _place_folder(folder: Path, path: Path) -> None:
    """Give a folder its name, unless somebody has taken that: who makes an empty one has it, and may put another there.

    A system that puts no folder into the place of an empty one (Windows) refuses by itself where there is any.
    """
    try:
        if os.name == "posix":
            path.mkdir()
        folder.rename(path)
    except OSError as error:
        if error.errno in (errno.EEXIST, errno.ENOTEMPTY):
            raise _taken(path) from None
        with suppress(OSError):
            path.rmdir()  # which only an empty one lets happen
        raise


def _exchange_folder(folder: Path, path: Path) -> None:
    import shutil

    # Not among the hidden names that are removed when their process has gone: for a moment it is all there is.
    aside = path.with_name(f".{path.stem}-{secrets.token_hex(4)}{path.suffix}")
    path.rename(aside)
    try:
        folder.rename(path)
    except OSError as error:
        try:
            aside.rename(path)
        except OSError:
            raise InputError(f"cannot write {path}: {reason(error)}; what was there before is in {aside}") from error
        raise
    with suppress(OSError):
        aside = aside.rename(folder)  # and now it is
    shutil.rmtree(aside, ignore_errors=True)


def _discard(temporary: Path) -> None:
    """Remove a file if that can be done. If not, as on a read-only disk, the error before this one counts."""
    with suppress(OSError):
        temporary.unlink()


def _flush(path: Path) -> None:
    """Wait until a file is on the disk."""
    with path.open("r+b") as stream:
        os.fsync(stream.fileno())


def _flush_folder(path: Path) -> None:
    """The same for the names in a folder, where the system can: some network file systems cannot."""
    if os.name != "posix":
        return
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _flush_tree(folder: Path) -> None:
    # Several at a time: a disk orders what waits for it.
    with ThreadPoolExecutor(8) as pool:
        for place, _, names in os.walk(folder):
            for _ in pool.map(_flush, [Path(place, name) for name in names]):
                pass
            _flush_folder(Path(place))


def _check_name(path: Path) -> None:
    check_name(path)
    if not path.name:
        raise InputError(f"{path}: a folder; name a file to write")


def _taken(path: Path) -> InputError:
    return InputError(
        f"{path}: there already; choose another name, or ask for it to be replaced (overwrite=True, --overwrite)"
    )


def _unwritable(path: Path, error: OSError) -> InputError:
    return InputError(f"cannot write {path}: {reason(error)}; choose a folder that exists and is writable")
