"""The application: every door on one memory, as one ASGI app.

Another room mounts its own routes with `create_app(..., routes=…, lifespans=…)`;
behind the guard `grant_of(request)` says what the token of a request allows.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any

from agentmem.agent.adapters.turn import TurnKeeper
from agentmem.base.checks import require_instance, require_items, require_text
from agentmem.base.errors import AgentMemError, MissingExtra, StoreClosed
from agentmem.memory.facade import AsyncMemoryManager
from agentmem.memory.manager import MemoryManager
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

OPEN_PATHS = ("/healthz", "/readyz", *page.OPEN_PATHS)


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
            *_own_routes(),
        ],
        lifespan=lifespan,
        exception_handlers={AgentMemError: _say, HTTPException: _say},
        middleware=[
            Middleware(
                Guard, door=door, hosts=hosts, open_paths=OPEN_PATHS, page_paths=page.PAGE_PATHS
            )
        ],
    )
    app.state.door = door
    return app


class McpRoute:
    """The Model Context Protocol at `/mcp`, for whoever the token of a request is of.

    Its package takes longer to import than the rest of the server together, so that is done by
    the first request.
    """

    def __init__(self, memory: MemoryManager) -> None:
        self._memory = memory
        self._door: Any = None

    def _make(self) -> Any:
        from agentmem.server.mcp import HttpDoor, make_server

        server = make_server(self._memory, lambda request: grant_of(request).scope)
        return HttpDoor(server, hosts=())

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one request; the guard has looked at its Host and Origin already."""
        if self._door is None:
            self._door = await asyncio.to_thread(self._make)
        await self._door(scope, receive, send)


def _own_routes() -> list[BaseRoute]:
    return [
        Route("/healthz", _health),
        Route("/readyz", _ready),
        Route("/metrics", _metrics),
        Route("/openapi.json", api.describe),
        Route("/v1/export", api.export),
        *page.routes(),
        *api.routes((*api.OPERATIONS, *compat.OPERATIONS)),
    ]


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
