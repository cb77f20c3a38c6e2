"""The command `dope`: arguments in, files and a short table out. It holds no algorithm.

A command is the function of its name in the module of its name, which is imported when it is asked for.
"""

from __future__ import annotations

import signal
from typing import Annotated

import typer

from dope import __version__
from dope.cli import screen
from dope.cli.exits import EXIT_CODES, Commands, Later, be_quiet, be_talkative

COMMANDS = {
    "segment": "Segment an image or volume from strokes, a probability map or a rectangle.",
    "minimize": "Minimize the energy in a file: a maximum cut, a QUBO, a Markov network of any labels, a minimum cut.",
    "info": "Say what is in a file: shape, type, spacing, size; of an energy, sites and labels.",
    "plan": "Say how a problem of this size would be cut up, and what that takes.",
    "compare": "Compare two masks: Dice, differing sites and, with an energy, Delta E = 100 (E(A) - E(B)) / |E(B)| %.",
    "verify": "Check labels and the certificate of their bound, block by block, without the solver.",
    "demo": "Segment a packaged 8-megapixel photo from packaged strokes, and write pictures of it.",
    "paper": "Run the paper's experiments anew, and put tables, figures and a page into a folder.",
}
"""What `dope --help` says of each without importing it: the first line of its own help."""

app = typer.Typer(
    name="dope",
    cls=Commands,
    help="Binary pairwise energies on images and volumes, minimized block by block.",
    epilog=EXIT_CODES,
    pretty_exceptions_enable=False,
)
for name, line in COMMANDS.items():
    app.command(name, cls=Later, help=line)(lambda: None)


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
