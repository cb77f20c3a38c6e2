"""Where blocks run: each one file behind the seam `Executor`."""

from dope.executors.dask import Dask
from dope.executors.futures import Futures
from dope.executors.serial import Serial
from dope.executors.threads import Threads

__all__ = ["Dask", "Futures", "Serial", "Threads"]
