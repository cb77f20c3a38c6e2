"""What a run looks like: pictures, curves, a page. Plain values in, arrays and text out."""

from dope.report.content import PageContent
from dope.report.curves import convergence, plot
from dope.report.page import page
from dope.report.pictures import block_map, difference, overlay, slices
from dope.report.png import thumbnail
from dope.report.surface import surface

__all__ = [
    "PageContent",
    "block_map",
    "convergence",
    "difference",
    "overlay",
    "page",
    "plot",
    "slices",
    "surface",
    "thumbnail",
]
