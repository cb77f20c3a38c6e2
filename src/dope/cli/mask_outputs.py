"""The files that `dope segment` writes: the mask, what is beside it, and what can be said before there is either."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dope.certificate import require_free
from dope.errors import DopeError, InputError
from dope.io import Image, LabelTarget, check_writable, open_labels
from dope.io.images.formats import input_place, label_chunks, labels_place
from dope.io.places import Place, check_apart


@dataclass(frozen=True)
class Outputs:
    """Files to write."""

    mask: str | None
    json: str | None
    report: str | None
    overlay: str | None
    overwrite: bool
    save_on_cancel: bool
    checkpoint: str | None = None
    resume: str | None = None
    trace: str | None = None
    certificate: str | None = None

    @property
    def side(self) -> dict[str, str]:
        """Files beside the mask, by their options."""
        named = {"--overlay": self.overlay, "--report": self.report, "--json": self.json, "--trace": self.trace}
        return {option: name for option, name in named.items() if name is not None}

    @property
    def places(self) -> dict[str, Place]:
        """Everything that is written to, by its option."""
        assert self.mask is not None
        board = ("--checkpoint", self.checkpoint) if self.resume is None else ("--resume", self.resume)
        folders = dict([board, ("--certificate", self.certificate)])
        others = {**self.side, **{option: name for option, name in folders.items() if name is not None}}
        return {"--output": labels_place(self.mask), **{option: Place.of(name) for option, name in others.items()}}

    def check(self, read: list[str]) -> None:
        """Everything that can be known before anything is read, of which these are the files."""
        if self.mask is None:
            raise InputError("no output is named; say where the mask goes, such as -o mask.png")
        if self.overlay is not None and Path(self.overlay).suffix.lower() not in (".png", ".jpg", ".jpeg"):
            raise InputError(f"--overlay is {self.overlay}; expected a picture, ending in .png or .jpg")
        check_apart(map(input_place, read), self.places)
        check_writable(self.mask, overwrite=self.overwrite)
        if self.certificate is not None:
            require_free(Path(self.certificate))
        for name in self.side.values():
            check_writable(name, overwrite=self.overwrite, any_suffix=True)

    def check_shape(self, shape: tuple[int, ...]) -> None:
        """What can be known when the image's header has been read."""
        assert self.mask is not None
        check_writable(self.mask, overwrite=self.overwrite, shape=shape)
        if self.overlay is not None and len(shape) not in (2, 3):
            raise InputError(f"--overlay of {len(shape)} dimensions; expected an image or a volume. Leave it out.")

    def planned(self, shape: tuple[int, ...]) -> dict[str, Any]:
        """What a plan has to know of them."""
        out = None if self.mask is None else _FutureLabels(shape, label_chunks(self.mask, shape))
        folders = {"checkpoint": self.checkpoint, "resume": self.resume, "certificate": self.certificate}
        return {**folders, "out": out}

    def open_mask(self, image: Image, label_count: int) -> LabelTarget:
        """The mask, to be written box by box."""
        assert self.mask is not None
        chunks = label_chunks(self.mask, image.shape)
        return open_labels(
            self.mask, image.shape, like=image, chunks=chunks, overwrite=self.overwrite, label_count=label_count
        )

    @property
    def folder(self) -> Path:
        """The nearest folder above the mask that is there: workers of a cluster that see the mask see it, too."""
        assert self.mask is not None
        return next(parent for parent in Path(self.mask).resolve().parents if parent.is_dir())


@dataclass(frozen=True)
class _FutureLabels:
    """Labels that are not there yet: their shape, and the pieces in which they will be written."""

    shape: tuple[int, ...]
    chunks: tuple[int, ...] | None

    def __setitem__(self, box: Any, labels: Any) -> None:
        raise DopeError(f"labels of {box} are to be written before there is a place for them.")
