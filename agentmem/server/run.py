"""Run the server: one process, or several workers on one store; stop without losing anything."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sys
import threading
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from agentmem.base.errors import InvalidInput, MissingExtra
from agentmem.memory.opening import open as open_store

try:
    import uvicorn
except ImportError as missing:
    raise MissingExtra("uvicorn", extra="server", purpose="Serving a memory") from missing

if TYPE_CHECKING:
    from starlette.applications import Starlette

VARIABLE = "AGENTMEM_SERVE"
"""What the parent tells its workers."""
IN_PROCESS = ":memory:"
_GRACE_SECONDS = 2
_LAST_SECONDS = 2.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """What is served, and how; plain values, so that workers can be told."""

    store: str = IN_PROCESS
    embedder: str | None = None
    host: str = "127.0.0.1"
    port: int = 7077
    workers: int = 1
    auth: bool = True
    hosts: tuple[str, ...] = ()
    upstream: str = ""
    anthropic: str = ""
    requests_per_second: float = 200.0
    debug: bool = False

    def __post_init__(self) -> None:
        if self.workers > 1 and self.store == IN_PROCESS:
            raise InvalidInput(
                "workers", self.workers, "cannot share a store that is kept in one process",
                remedy="Name a file, or leave --workers out.",
            )  # fmt: skip
        if self.upstream or self.anthropic:
            from agentmem.server.proxy import Upstream

            Upstream.of(self.upstream, anthropic=self.anthropic)


APP = "agentmem.server.run:app"
CONFIG: Mapping[str, Any] = {
    "factory": True,
    "http": "h11",
    "ws": "none",
    "log_config": None,
    "access_log": False,
    "server_header": False,
    "proxy_headers": False,
    "timeout_keep_alive": 15,
    "timeout_graceful_shutdown": _GRACE_SECONDS,
    "h11_max_incomplete_event_size": 65_536,
}


def listen(host: str, port: int) -> socket.socket:
    """A socket on this address; `InvalidInput` where there can be none."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        family, kind, protocol, _, address = found[0]
        made = socket.socket(family, kind, protocol)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(address)
    except (OSError, OverflowError, UnicodeError) as error:
        why = getattr(error, "strerror", "") or str(error)
        raise InvalidInput(
            "address", f"{host}:{port}", f"cannot be listened on ({why})",
            remedy="Choose another --host or --port.",
        ) from None  # fmt: skip
    made.set_inheritable(True)
    return made


def serve(served: Served, listening: socket.socket) -> None:
    """Answer until told to stop: what is under way ends, the queue is kept."""
    port = listening.getsockname()[1]
    os.environ[VARIABLE] = json.dumps(asdict(replace(served, port=port)))
    with contextlib.closing(listening):
        if served.workers == 1:
            _be_stopped_quietly()
            uvicorn.Server(uvicorn.Config(APP, **CONFIG)).run(sockets=[listening])
            return
    # Workers are spawned, and import what was run again: let that be this module.
    os.execv(sys.executable, [sys.executable, "-m", "agentmem.server.run"])  # noqa: S606 - ourselves


def _be_stopped_quietly() -> None:
    """uvicorn raises its signal again when it is done; an asked-for end is no failure."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)


@asynccontextmanager
async def _ending_in_time(app: Starlette) -> AsyncIterator[None]:
    """Whatever a thread is still doing, the process ends; what was acknowledged is stored."""
    yield
    ending = threading.Timer(_LAST_SECONDS, os._exit, (0,))
    ending.daemon = True
    ending.start()


def app() -> Starlette:
    """The app of one worker, as the parent said."""
    from agentmem.server.app import create_app
    from agentmem.server.http import Limits
    from agentmem.server.proxy import Upstream

    served = _told()
    memory = open_store(served.store, embedder=served.embedder)
    upstream = None
    if served.upstream or served.anthropic:
        upstream = Upstream.of(served.upstream, anthropic=served.anthropic)
    return create_app(
        memory,
        auth=served.auth,
        hosts=(served.host, *served.hosts),
        limits=Limits(requests_per_second=served.requests_per_second),
        upstream=upstream,
        lifespans=(_ending_in_time,),
        close=True,
    )


def _told() -> Served:
    said = json.loads(os.environ[VARIABLE])
    return Served(**{**said, "hosts": tuple(said["hosts"])})


if __name__ == "__main__":
    _be_stopped_quietly()
    told = _told()
    # asyncio sends at once only on sockets that say they speak TCP, and uvicorn's does not: each
    # answer of a worker waited 40 ms for the client's acknowledgement.
    uvicorn.Config.bind_socket = lambda self: listen(self.host, self.port)  # type: ignore[method-assign]
    uvicorn.run(APP, host=told.host, port=told.port, workers=told.workers, **CONFIG)
