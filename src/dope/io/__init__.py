"""Files: images, volumes, strokes and energies in, labels and pictures out.

Bad files raise `InputError`; nothing in them is executed, and nothing beyond the budget is unpacked. Writing is all or
nothing.
"""

from dope.durable import write_text
from dope.io.content import Description, Image, same_space
from dope.io.energies.formats import ENERGY_FORMATS, EnergyFormat, is_energy, read_energy, read_instance
from dope.io.energies.instance import Instance, Objective
from dope.io.images.formats import (
    FORMATS,
    Format,
    check_writable,
    describe,
    is_image,
    load,
    load_labels,
    open_labels,
    save_labels,
    stored,
)
from dope.io.images.pictures import read_image, write_image
from dope.io.images.scribbles import open_class_scribbles, open_scribbles, read_scribbles
from dope.io.label_target import LabelTarget

__all__ = [
    "ENERGY_FORMATS",
    "FORMATS",
    "Description",
    "EnergyFormat",
    "Format",
    "Image",
    "Instance",
    "LabelTarget",
    "Objective",
    "check_writable",
    "describe",
    "is_energy",
    "is_image",
    "load",
    "load_labels",
    "open_class_scribbles",
    "open_labels",
    "open_scribbles",
    "read_energy",
    "read_image",
    "read_instance",
    "read_scribbles",
    "same_space",
    "save_labels",
    "stored",
    "write_image",
    "write_text",
]
