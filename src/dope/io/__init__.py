"""Files: pictures and strokes in, pictures out. Bad files raise `InputError`; writing is all or nothing."""

from dope.io.images import read_image, write_image
from dope.io.scribbles import read_scribbles

__all__ = ["read_image", "read_scribbles", "write_image"]
