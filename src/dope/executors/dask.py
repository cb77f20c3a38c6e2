"""Blocks on a Dask cluster, and the way there: all that is said to Dask is said here.

A task holds the version of dope, the numbers of some blocks, their messages and, for a worker that has them not, how
to open them. Nothing else is remembered: blocks that a worker keeps open only save time, so a task can be sent again,
elsewhere, and gives the same bits. `remote_crew` says who is sent what, and `remote_worker` what is done with it there.

Dask is told to which worker a task goes. Such a task waits for ever where that worker has died, and so does a result
that died with it (https://github.com/dask/distributed/issues/7346): the crew waits for neither.

What Dask offers for this, and why the crew does it by hand:

- `retries` are for tasks that raise. Ours do not: what a block raises is a reply, which would be raised again.
- Workers that died are replaced by Dask only for tasks that may run anywhere. Ours go where their block is open, which
  saves opening it again. With `allow_other_workers` a task still waits for a worker that hangs, and for a scheduler
  that was lost; who sends those again can send the others.
- Resources, which keep a worker from being given two tasks at once, must be named when it is started. One thread per
  worker, and no task sent to who is busy, do the same on every cluster.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import pickle
import socket
import threading
import warnings
import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent import futures
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

from dope.errors import DopeError, InputError
from dope.executors.deadlines import check_patience
from dope.executors.remote_crew import RELEASE_SECONDS, RemoteCrew
from dope.executors.remote_worker import forget, text_of
from dope.executors.transport import Member, Unreadable
from dope.extras import require_extra
from dope.protocols import Recipe

if TYPE_CHECKING:
    from distributed import Client

CONNECT_SECONDS = 5.0
# Dask warns of larger tasks; a block may well be one.
LARGE_TASK = 1_000_000
# Ctrl-C at the terminal reaches all processes there: workers leave it to the one that was asked to stop.
DEAF_TO_INTERRUPTS = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)"
# With this variable, as Dask sets it, all memory of a block is given back to the system when it is done, and fetched
# anew, page by page, for the next.
OF_LOCAL_WORKERS = {
    "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": None,
    "distributed.worker.profile.enabled": False,
}


@dataclass(frozen=True)
class Dask:
    """Runs blocks on a Dask cluster; replies are, bit for bit, those of `Serial`.

    Attributes
    ----------
    client_or_address : a `distributed.Client`, the address of a scheduler ("tls://host:port" or "tcp://host:port"), or
        "local:4" for four processes on this machine, started when first needed, and kept until `close()`, the end of
        the `with` block, or the end of this process.
    patience : seconds. A worker that is silent for so long is taken to hang, and its blocks are sent elsewhere too;
        for so long a lost scheduler, or one without workers, is waited for. By default 300, or 10 times the slowest
        task where that is more.

    Blocks of `Exact()` share memory and cannot be sent; `Bracketing()`, the default then, finds the same labels.
    """

    client_or_address: Client | str
    patience: float | None = field(default=None, kw_only=True)
    _link: Link = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_patience("Dask", self.patience)
        object.__setattr__(self, "_link", _link_to(self.client_or_address))
        _warn_of_open_doors(self._link.address)

    @property
    def workers(self) -> int:
        """Threads of the cluster, as many as there are now, and at least 1."""
        return self._link.threads()

    @property
    def elsewhere(self) -> bool:
        return True

    def gather(self, recipes: Sequence[Recipe]) -> RemoteCrew:
        self._link.open()  # now, so that a wrong address is told at once
        return RemoteCrew(self._link, recipes, self.patience)

    def close(self) -> None:
        """Leave the scheduler, and stop the processes of "local:4". What is asked later starts them again."""
        self._link.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _link_to(client_or_address: Client | str) -> Link:
    if not isinstance(client_or_address, str):
        return _link_of(client_or_address)
    address = client_or_address
    kind, _, number = address.partition(":")
    if kind != "local":
        _host_and_port(address)
        return Link(address)
    if not number.isascii() or not number.isdigit() or int(number) < 1:
        raise InputError(f"Dask: {address!r} names no number of processes; expected one or more, as in 'local:4'.")
    return Link(address, local=int(number))


def _link_of(client: Any) -> Link:
    if not isinstance(client, _distributed().Client):
        raise InputError(
            f"Dask: got a {type(client).__name__}; expected a distributed.Client (of a cluster: cluster.get_client()), "
            "an address such as 'tcp://127.0.0.1:8786', or 'local:4'."
        )
    if client.asynchronous:
        raise InputError("Dask: the client belongs to an event loop; expected a Client without asynchronous=True.")
    if client.status != "running":
        raise InputError(f"Dask: the client is {client.status}; expected one that is connected to its scheduler.")
    return Link(client.scheduler.address, client=client)


def _distributed() -> Any:
    require_extra("dask", "dope.Dask")
    import distributed

    return distributed


def _host_and_port(address: str) -> tuple[str, int]:
    with contextlib.suppress(ValueError):
        parts = urlsplit(address)
        if parts.scheme in ("tcp", "tls") and parts.hostname and parts.port:
            return parts.hostname, parts.port
    raise InputError(
        f"Dask: {address!r} is no address of a scheduler; expected 'tls://host:port', 'tcp://host:port' or 'local:4', "
        "or else a distributed.Client."
    )


def _warn_of_open_doors(address: str) -> None:
    if not address.startswith("tcp://") or _is_loopback(_host_and_port(address)[0]):
        return
    warnings.warn(
        f"{address} is plain TCP to another machine: Dask runs whatever reaches its port, and nothing is encrypted. "
        "Use TLS (tls://, https://distributed.dask.org/en/stable/tls.html), or an SSH tunnel to 127.0.0.1.",
        stacklevel=4,  # where Dask(...) was called
    )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class Link:
    """The transport to a scheduler: opened when first needed, and again where it was lost. No call waits for long."""

    def __init__(self, address: str, *, local: int | None = None, client: Any = None) -> None:
        self.address, self._local, self._given = address, local, client
        self._client = client
        self._opened: list[Any] = []  # what is ours to close, the last first
        self._lock = threading.Lock()
        self._releasing: set[futures.Future[None]] = set()
        weakref.finalize(self, _close_all, self._opened)

    @property
    def title(self) -> str:
        return f"the Dask scheduler at {self.address}"

    @property
    def advice(self) -> str:
        return f"Start workers: dask worker {self.address}"

    @property
    def connected(self) -> bool:
        return bool(self._client.status == "running")

    def open(self) -> None:
        """Connect, for the first time or after `close`; what was lost in between is the crew's to wait for."""
        with self._lock:
            if self._client is None:
                self._client = self._start_processes() if self._local else self._connect()

    def reconnect(self) -> None:
        """Try once to reach a scheduler that was lost, where Dask itself has given up, as it does after seconds."""
        if self._client.status != "closed":
            return
        with contextlib.suppress(DopeError), self._lock:
            _close_each(self._opened)
            self._client = self._start_processes() if self._local else self._connect()

    def _connect(self) -> Any:
        security = self._given.security if self._given is not None else None
        try:
            # First by hand: a Client goes on trying where there is nobody.
            socket.create_connection(_host_and_port(self.address), CONNECT_SECONDS).close()
            client = _new_client(self.address, security=security)
        except (OSError, ImportError, ValueError, TypeError, RuntimeError) as error:
            raise DopeError(
                f"no Dask scheduler answers at {self.address} ({text_of(error)}). Check that it runs there (dask "
                "scheduler), host and port, firewalls in between, and for tls:// the certificates."
            ) from error
        self._opened.append(client)
        return client

    def _start_processes(self) -> Any:
        import multiprocessing

        import dask

        distributed = _distributed()
        guard = "In a script, put what it does under: if __name__ == '__main__':"
        if getattr(multiprocessing.current_process(), "_inheriting", False):
            raise DopeError(f"Dask({self.address!r}) starts processes, and each of them has run to here. {guard}")
        try:
            with dask.config.set(OF_LOCAL_WORKERS):
                cluster = distributed.LocalCluster(
                    n_workers=self._local,
                    threads_per_worker=1,
                    processes=True,
                    host="127.0.0.1",
                    # There is no page to look at, but Dask opens a port for one all the same: any that is free.
                    scheduler_kwargs={"dashboard": False, "dashboard_address": "127.0.0.1:0"},
                    preload=[DEAF_TO_INTERRUPTS],
                    silence_logs=logging.ERROR,
                )
        except Exception as error:
            raise DopeError(
                f"Dask({self.address!r}): the processes could not be started ({text_of(error)}): they were killed, for "
                f"lack of memory perhaps, or ran the script that starts them. {guard}"
            ) from error
        self._opened.append(cluster)
        self._opened.append(_new_client(cluster))
        return self._opened[-1]

    def threads(self) -> int:
        if self._local:
            return self._local
        self.open()
        try:
            workers = self.look().result(CONNECT_SECONDS)
        except Exception as error:
            raise DopeError(f"the Dask scheduler at {self.address} does not answer ({text_of(error)}).") from error
        return max(1, sum(member.threads for member in workers.values()))

    def look(self) -> futures.Future[Mapping[str, Member]]:
        client = self._client
        return asyncio.run_coroutine_threadsafe(_members(client), client.loop.asyncio_loop)

    def submit(self, task: bytes, *, name: str, worker: str, deliver: Callable[[Any], object]) -> Any:
        import dask

        client = self._client
        threshold = {"distributed.admin.large-graph-warning-threshold": 2 * len(task)}
        try:
            with dask.config.set(threshold) if len(task) > LARGE_TASK else contextlib.nullcontext():
                future = client.submit(pickle.loads, task, key=name, workers=[worker], pure=False)
            client.loop.add_callback(_deliver, client, future, deliver)
        except Exception:
            if client.status == "running":
                raise
            return None
        return future

    def release(self, run: str, workers: Collection[str]) -> futures.Future[None]:
        client = self._client
        if client.status != "running":
            nobody: futures.Future[None] = futures.Future()
            nobody.set_result(None)
            return nobody
        told = asyncio.wait_for(_release(client, run, workers), RELEASE_SECONDS)
        releasing = asyncio.run_coroutine_threadsafe(told, client.loop.asyncio_loop)
        self._releasing.add(releasing)
        releasing.add_done_callback(self._releasing.discard)
        return releasing

    def close(self) -> None:
        futures.wait(list(self._releasing), RELEASE_SECONDS)  # whoever was cancelled did not wait
        with self._lock:
            self._client = self._given
            _close_each(self._opened)


def _new_client(where: Any, **settings: Any) -> Any:
    """A client; one that fails to start is closed.

    Left to the garbage collector, which may run in the thread that the next client is just starting, it would wait for
    a lock that this next one holds until its thread has started.
    """
    kind = _distributed().Client
    client = kind.__new__(kind)
    made: futures.Future[None] = futures.Future()

    def make() -> None:
        try:
            client.__init__(where, timeout=CONNECT_SECONDS, set_as_default=False, **settings)
            made.set_result(None)
        except BaseException as error:
            made.set_exception(error)

    # By another thread, as a port where something else than a scheduler listens is waited for without end.
    threading.Thread(target=make, name="dope-connect", daemon=True).start()
    try:
        made.result(3 * CONNECT_SECONDS)
    except TimeoutError as error:
        raise OSError("what listens there does not speak as a scheduler does") from error
    except BaseException:
        _close(client)
        raise
    return client


async def _members(client: Any) -> dict[str, Member]:
    workers = (await client.scheduler.identity())["workers"]
    return {
        worker: Member(known["nthreads"], known["status"] == "running", known["status"], known["last_seen"])
        for worker, known in workers.items()
    }


async def _deliver(client: Any, future: Any, deliver: Callable[[Any], object]) -> None:
    """Fetch a result when it is there, in the thread of the client."""
    try:
        error = await future.exception()
        answer = await _fetched(client, future.key) if error is None else error
    except Exception as lost:  # the crew knows what to do about it
        answer = lost
    if isinstance(answer, (ImportError, AttributeError)) and future.status == "error":
        answer = Unreadable(answer)
    deliver(answer)


async def _fetched(client: Any, key: str) -> Any:
    """A result by itself.

    `await future` fetches several at a time; where one lies with a worker that hangs, the others come as late as it.
    """
    answer = await client.scheduler.gather(keys=[key])
    if answer["status"] != "OK":
        raise DopeError("the worker was lost, and its result with it.")
    return answer["data"][key]


async def _release(client: Any, run: str, workers: Collection[str]) -> None:
    there = await _members(client)
    await client.run(forget, run, workers=[worker for worker in workers if worker in there], on_error="ignore")


def _close_all(opened: list[Any]) -> None:
    """Close what nobody refers to any more; not in a thread of Dask's own, which would wait for itself."""
    if threading.current_thread() is threading.main_thread():
        _close_each(opened)
    elif opened:
        threading.Thread(target=_close_each, args=(opened,), name="dope-close").start()


def _close_each(opened: list[Any]) -> None:
    """Clients before their cluster."""
    while opened:
        _close(opened.pop())


def _close(thing: Any) -> None:
    """Close a client or cluster, and stop its thread, which Dask forgets where a connection failed."""
    with contextlib.suppress(Exception):
        thing.close(timeout=CONNECT_SECONDS)
    with contextlib.suppress(Exception):
        thing._loop_runner.stop()
