"""`dope info`: what is in a file; of an image, without reading its pixels."""

from __future__ import annotations

import math
from typing import Annotated

import typer

from dope.cli.tables import print_rows
from dope.energy import Energy
from dope.io import describe, is_energy, is_image, read_instance
from dope.memory import as_text
from dope.metric import Metric
from dope.pairs import GridPairs


def info(
    file: Annotated[str, typer.Argument(help="An image, volume or energy in any format that is read.")],
) -> None:
    """Say what is in a file: shape, type, spacing, size; of an energy, sites and labels."""
    print_rows(_of_image(file) if is_image(file) or not is_energy(file) else _of_energy(file))


def _of_image(file: str) -> dict[str, str]:
    found = describe(file)
    rows = {
        "file": str(found.path),
        "format": found.format,
        "sites": " x ".join(map(str, found.shape)),
        "channels": str(found.channels),
        "type": found.dtype,
        "spacing": "not known" if found.spacing is None else " x ".join(f"{s:g}" for s in found.spacing),
        "size in memory": as_text(found.bytes),
    }
    return {**rows, **found.details}


def _of_energy(file: str) -> dict[str, str]:
    instance = read_instance(file)
    energy = instance.energy
    pairs = energy.pairs
    kind = f"grid, {pairs.degree} neighbours" if isinstance(pairs, GridPairs) else "graph"
    rows = {
        "file": file,
        "format": instance.format,
        "sites": f"{' x '.join(map(str, energy.shape))}, {kind}",
        "pairs": f"{pairs.number:,}",
        "labels": f"{energy.label_count:,}",
    }
    if isinstance(energy, Energy):
        return {**rows, "submodular": "yes" if energy.submodular else "no"}
    return {**rows, "metric": "a table per pair" if energy.metric is None else _metric_in_words(energy.metric)}


def _metric_in_words(metric: Metric) -> str:
    return metric.kind if metric.limit == math.inf else f"{metric.kind}, at most {metric.limit:g}"
