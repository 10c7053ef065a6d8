"""The application: every door on one memory as one ASGI app; and how it is run.

Another room mounts its own routes with `create_app(..., routes=…, lifespans=…)`;
behind the guard `grant_of(request)` says what the token of a request allows.
It runs in one process, or in several workers on one store, and stops without losing anything.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import sys
import threading
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

from agentmem.agent.adapters.turn import TurnKeeper
from agentmem.base.checks import require_instance, require_items, require_text
from agentmem.base.errors import AgentMemError, InvalidInput, MissingExtra, StoreClosed
from agentmem.memory.facade import AsyncMemoryManager
from agentmem.memory.manager import MemoryManager
from agentmem.memory.opening import open as open_store
from agentmem.search.parts import memory_of

try:
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.middleware import Middleware
    from starlette.requests import Request
    from starlette.responses import JSONResponse, PlainTextResponse, Response
    from starlette.routing import BaseRoute, Route
except ImportError as missing:
    raise MissingExtra("starlette", extra="server", purpose="Serving a memory") from missing

from agentmem.server import api, compat, page
from agentmem.server.http import (
    Door,
    Guard,
    Limits,
    Rates,
    as_known,
    door_of,
    error_response,
    grant_of,
)
from agentmem.server.proxy import Proxy, Upstream
from agentmem.server.tokens import Tokens

Lifespan = Callable[[Starlette], AbstractAsyncContextManager[Any]]


def create_app(
    memory: MemoryManager,
    *,
    auth: bool = True,
    hosts: Sequence[str] = (),
    limits: Limits | None = None,
    upstream: Upstream | None = None,
    routes: Sequence[BaseRoute] = (),
    lifespans: Sequence[Lifespan] = (),
    close: bool = False,
) -> Starlette:
    """The app around `memory`; `routes` come before its own, `lifespans` are entered around it.

    Without `auth` everybody is an admin. With an `upstream` it answers as a
    provider of models, too. With `close` the memory is closed when the app stops.
    """
    memory = memory_of(memory)
    limits = Limits() if limits is None else require_instance(limits, Limits, "limits")
    if upstream is not None:
        require_instance(upstream, Upstream, "upstream")
    hosts = [require_text(host, "host") for host in require_items(hosts, "hosts", "names")]
    routes = [
        require_instance(one, BaseRoute, "route")
        for one in require_items(routes, "routes", "routes")
    ]
    lifespans = require_items(lifespans, "lifespans", "callables")
    door = Door(
        memory=AsyncMemoryManager(memory),
        tokens=Tokens(memory.store.settings, clock=memory.clock),
        limits=limits,
        rates=Rates(limits),
        auth=auth,
        hosts=frozenset(host.lower() for host in hosts),
        open_paths=("/healthz", "/readyz", *page.OPEN_PATHS),
        page_paths=page.PAGE_PATHS,
    )
    proxy = Proxy(upstream, TurnKeeper(memory)) if upstream is not None else None

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            if close:
                stack.push_async_callback(door.memory.close)
            if proxy is not None:
                stack.push_async_callback(proxy.close)
            for one in lifespans:
                await stack.enter_async_context(one(app))
            yield

    app = Starlette(
        routes=[
            *routes,
            *(proxy.routes() if proxy else ()),
            Route("/mcp", McpRoute(memory)),
            Route("/healthz", _health),
            Route("/readyz", _ready),
            Route("/metrics", _metrics),
            Route("/openapi.json", api.describe),
            Route("/v1/export", api.export),
            *page.routes(),
            *api.routes((*api.OPERATIONS, *compat.OPERATIONS)),
        ],
        lifespan=lifespan,
        exception_handlers={AgentMemError: _say, HTTPException: _say},
        middleware=[Middleware(Guard, door)],
    )
    app.state.door = door
    return app


class McpRoute:
    """The Model Context Protocol at `/mcp`, for whoever the token of a request is of.

    Its package takes longer to import than the rest of the server together, so that is done by
    the first request. The guard has looked at Host and Origin already.
    """

    def __init__(self, memory: MemoryManager) -> None:
        self._memory = memory
        self._answer: Any = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if self._answer is None:
            self._answer = await asyncio.to_thread(self._make)
        await self._answer(scope, receive, send)

    def _make(self) -> Any:
        from agentmem.server.mcp import make_server, serve_http

        server = make_server(self._memory, lambda request: grant_of(request).scope)
        return partial(serve_http, server)


async def _say(request: Request, error: Exception) -> Response:
    return error_response(as_known(error))


async def _health(request: Request) -> Response:
    """The process answers."""
    return JSONResponse({"status": "ok"})


async def _ready(request: Request) -> Response:
    """The store can be read."""
    memory = door_of(request).memory
    try:
        await memory.run(memory.manager.store.feed.seq)
    except (AgentMemError, OSError):
        return error_response(StoreClosed("The store cannot be read."))
    return JSONResponse({"status": "ready"})


async def _metrics(request: Request) -> Response:
    """Figures for Prometheus, of this worker and of the store."""
    door = door_of(request)
    grant_of(request).require_admin()
    stats = await door.memory.run(door.memory.manager.store.upkeep.stats, None)
    gauges = {
        "agentmem_memories": stats.chunks,
        "agentmem_store_bytes": stats.bytes,
        "agentmem_streams": door.rates.open_streams,
        **{f"agentmem_jobs_{state}": count for state, count in sorted(stats.jobs.items())},
    }
    return PlainTextResponse("\n".join(door.metrics.lines(gauges)) + "\n")


# ----------------------------------------------------------------------------
# How it is run.


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

    def __post_init__(self) -> None:
        if self.workers > 1 and self.store == IN_PROCESS:
            raise InvalidInput(
                "workers", self.workers, "cannot share a store that is kept in one process",
                remedy="Name a file, or leave --workers out.",
            )  # fmt: skip
        self.provider()

    def provider(self) -> Upstream | None:
        """Where models are asked, if anywhere; `InvalidInput` for what is no address."""
        if not (self.upstream or self.anthropic):
            return None
        return Upstream.of(self.upstream, anthropic=self.anthropic)


APP = "agentmem.server.app:app"
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
    try:
        import uvicorn
    except ImportError as missing:
        raise MissingExtra("uvicorn", extra="server", purpose="Serving a memory") from missing
    port = listening.getsockname()[1]
    os.environ[VARIABLE] = json.dumps(asdict(replace(served, port=port)))
    with contextlib.closing(listening):
        if served.workers == 1:
            _be_stopped_quietly()
            uvicorn.Server(uvicorn.Config(APP, **CONFIG)).run(sockets=[listening])
            return
    # Workers are spawned, and import what was run again: let that be this module.
    os.execv(sys.executable, [sys.executable, "-m", "agentmem.server.app"])  # noqa: S606 - ourselves


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
    served = _told()
    return create_app(
        open_store(served.store, embedder=served.embedder),
        auth=served.auth,
        hosts=(served.host, *served.hosts),
        limits=Limits(requests_per_second=served.requests_per_second),
        upstream=served.provider(),
        lifespans=(_ending_in_time,),
        close=True,
    )


def _told() -> Served:
    return Served(**json.loads(os.environ[VARIABLE]))


if __name__ == "__main__":
    import uvicorn

    _be_stopped_quietly()
    told = _told()
    # asyncio sends at once only on sockets that say they speak TCP, and uvicorn's does not: each
    # answer of a worker waited 40 ms for the client's acknowledgement.
    uvicorn.Config.bind_socket = lambda self: listen(self.host, self.port)  # type: ignore[method-assign]
    uvicorn.run(APP, host=told.host, port=told.port, workers=told.workers, **CONFIG)
