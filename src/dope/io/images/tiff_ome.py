"""A look at the OME metadata of a TIFF file before tifffile believes them.

tifffile lists the planes that they declare one by one. In a few bytes of XML these can be as many as there are
numbers, so all that is counted there is added up first, and compared with the pages that the file has.
"""

from __future__ import annotations

import math
from pathlib import Path
from xml.etree import ElementTree as ET

from dope.errors import InputError

# Metadata of one image may come with those of others that lie in other files.
_SPARE_PLANES = 1 << 16
_LONGEST_NUMBER = 18


def check_ome(path: Path, xml: str, pages: int, page_sites: int) -> None:
    """Refuse metadata that declare many more planes than there are pages, or that a parser would unfold."""
    if "<!DOCTYPE" in xml or "<!ENTITY" in xml:
        raise InputError(f"{path}: its OME metadata define entities; save it anew")
    number = 0
    for node in ET.fromstring(xml).iter():
        kind = node.tag.rpartition("}")[2]
        if kind == "Pixels":
            sites = math.prod(_number(path, node, f"Size{axis}", 1) for axis in "XYZCT")
            number += sites // max(1, page_sites)
        elif kind == "TiffData":
            planes = _number(path, node, "PlaneCount", _number(path, node, "NumPlanes", 0))
            firsts = [_number(path, node, name, 0) for name in ("FirstZ", "FirstC", "FirstT", "IFD")]
            number += max(planes or pages, *firsts)
        elif kind.startswith("ModuloAlong"):
            number += _labels(path, node)
        if number > 4 * pages + _SPARE_PLANES:
            raise InputError(f"{path}: its OME metadata declare more than {number:,} planes, but it has {pages} pages")


def _number(path: Path, node: ET.Element, name: str, otherwise: int) -> int:
    text = node.get(name)
    if text is None:
        return otherwise
    if not (text.strip().isdecimal() and len(text) <= _LONGEST_NUMBER):
        raise InputError(f"{path}: its OME metadata say {name}={text[:_LONGEST_NUMBER]!r}; expected a whole number")
    return int(text)


def _labels(path: Path, node: ET.Element) -> int:
    """How many places a further axis has: listed, or from a start to an end in steps."""
    if "Start" not in node.attrib:
        return len(node)
    start, end, step = (float(node.get(name, default)) for name, default in (("Start", 0), ("End", 0), ("Step", 1)))
    number = (end - start) / step + 1 if step else math.inf
    if not 0 <= number < 2**31:
        raise InputError(f"{path}: its OME metadata declare an axis from {start:g} to {end:g} in steps of {step:g}")
    return int(number)
