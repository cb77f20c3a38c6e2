"""The command `dope`: arguments in, files and a short table out. It holds no algorithm."""

from __future__ import annotations

import signal
from typing import Annotated

import typer

from dope import __version__
from dope.cli import screen
from dope.cli.compare import compare
from dope.cli.demo import demo
from dope.cli.exits import EXIT_CODES, Command, Commands, be_quiet, be_talkative
from dope.cli.info import info
from dope.cli.minimize import minimize
from dope.cli.paper import paper
from dope.cli.plan import plan
from dope.cli.segment import segment

app = typer.Typer(
    name="dope",
    cls=Commands,
    help="Binary pairwise energies on images and volumes, minimized block by block.",
    epilog=EXIT_CODES,
    pretty_exceptions_enable=False,
)
for command in (segment, minimize, info, plan, compare, demo, paper):
    app.command(cls=Command, epilog=EXIT_CODES)(command)


def _version(asked: bool) -> None:
    if asked:
        screen.say(f"dope {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    context: typer.Context,
    _: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")] = False,
    debug: Annotated[
        bool,
        typer.Option("--debug", envvar="DOPE_DEBUG", help="Show where an error was raised, and all warnings."),
    ] = False,
) -> None:
    """Binary pairwise energies on images and volumes, minimized block by block."""
    assert isinstance(context.command, Commands)
    context.command.debug = debug
    if debug:
        be_talkative()


def main() -> None:
    screen.prepare_streams()
    be_quiet()
    try:
        app(prog_name="dope")
    finally:
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            # What is left is the interpreter's own end, where an exception would only be printed.
            signal.signal(signal.SIGINT, signal.SIG_DFL)
