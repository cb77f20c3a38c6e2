"""Files: images, volumes, strokes and energies in, labels and pictures out.

Bad files raise `InputError`; nothing in them is executed, and nothing beyond the budget is unpacked. Writing is all or
nothing.
"""

from dope.durable import write_text
from dope.io.content import Description, Image, same_space
from dope.io.energies import ENERGY_FORMATS, EnergyFormat, read_energy, read_instance
from dope.io.formats import FORMATS, Format, check_writable, describe, load, open_labels, save_labels, stored
from dope.io.images import read_image, write_image
from dope.io.instance import Instance, Objective
from dope.io.label_target import LabelTarget
from dope.io.scribbles import read_scribbles

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
    "load",
    "open_labels",
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
