"""The command `dope`: arguments in, files and a short table out. It holds no algorithm."""

from __future__ import annotations

from typing import Annotated

import typer

from dope import __version__
from dope.cli.compare import compare
from dope.cli.demo import demo
from dope.cli.exits import EXIT_CODES
from dope.cli.info import info
from dope.cli.minimize import minimize
from dope.cli.paper import paper
from dope.cli.plan import plan
from dope.cli.segment import segment

app = typer.Typer(
    name="dope",
    help="Binary pairwise energies on images and volumes, minimized block by block.",
    epilog=EXIT_CODES,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
for command in (segment, minimize, info, plan, compare, demo, paper):
    app.command(epilog=EXIT_CODES)(command)


def _version(asked: bool) -> None:
    if asked:
        print(f"dope {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    _: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")] = False,
) -> None:
    """Binary pairwise energies on images and volumes, minimized block by block."""


def main() -> None:
    app(prog_name="dope")
