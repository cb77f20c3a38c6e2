"""A short table on standard output."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Console
from rich.table import Table

from dope.api import Result


def print_rows(rows: Mapping[str, str]) -> None:
    table = Table.grid(padding=(0, 2))
    for name, value in rows.items():
        table.add_row(name, value)
    Console(soft_wrap=True).print(table, highlight=False, markup=False)


def bound_in_words(result: Result) -> str:
    if result.lower_bound is None or result.gap is None:
        return "-"
    if result.exact:
        return f"{result.lower_bound:,.1f}, exact"
    return f"{result.lower_bound:,.1f}, at most {100 * result.gap / (abs(result.energy) or 1.0):.2g} % below the energy"
