"""`dope plan`: how to cut up a problem for workers, what it takes, and about how long it runs."""

from __future__ import annotations

from typing import Annotated

import typer

from dope.cli.exits import exit_codes
from dope.cli.segment import plan_rows
from dope.cli.tables import print_rows
from dope.errors import InputError
from dope.memory import as_bytes, as_text
from dope.planning import Plan


def plan(
    shape: Annotated[str, typer.Option(help="Sites along each axis, such as 10000x10000x5000.")],
    kernel: Annotated[int, typer.Option(help="Side of the neighbourhood, odd: 3, 5, 7, 9, ...")] = 3,
    workers: Annotated[int, typer.Option(help="How many work at once.")] = 1,
    memory: Annotated[
        str | None, typer.Option(help="What each of them has, such as 16GB; blocks are made to fit.")
    ] = None,
    blocks: Annotated[int | None, typer.Option(help="Number of blocks, instead.")] = None,
    pixel_bytes: Annotated[int, typer.Option(help="Bytes of a pixel, all channels together.")] = 1,
) -> None:
    """Say how a problem of this size would be cut up, and what that takes."""
    with exit_codes():
        budget = None if memory is None else as_bytes(memory)
        found = Plan.of(
            shape_from(shape), kernel=kernel, pixel_bytes=pixel_bytes, blocks=blocks, workers=workers, memory=budget
        )
        if budget is not None and found.block_bytes > budget:
            raise InputError(
                f"a block takes {as_text(found.block_bytes)}, and a worker has {as_text(budget)}; ask for more blocks."
            )
        print_rows(plan_rows(found))


def shape_from(text: str) -> tuple[int, ...]:
    try:
        shape = tuple(int(part) for part in text.lower().replace(",", "x").split("x"))
    except ValueError:
        raise InputError(f"--shape is {text!r}; expected numbers with x between them: 10000x10000x5000.") from None
    if any(not 1 <= n < 1 << 31 for n in shape):
        raise InputError(f"--shape is {text!r}; expected 1 to {(1 << 31) - 1} along each axis.")
    return shape
