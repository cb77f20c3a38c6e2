"""Files: images, volumes and strokes in, labels and pictures out.

Bad files raise `InputError`; nothing in them is executed, and nothing beyond the budget is unpacked. Writing is all or
nothing.
"""

from dope.io.content import Description, Image, same_space
from dope.io.files import write_text
from dope.io.formats import FORMATS, Format, check_writable, describe, load, save_labels
from dope.io.images import read_image, write_image
from dope.io.scribbles import read_scribbles

__all__ = [
    "FORMATS",
    "Description",
    "Format",
    "Image",
    "check_writable",
    "describe",
    "load",
    "read_image",
    "read_scribbles",
    "same_space",
    "save_labels",
    "write_image",
    "write_text",
]
