"""`python -m dope.cli` is the command `dope`."""

from dope.cli import main

main()
