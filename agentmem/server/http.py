"""What stands between a socket and a call: who asks, how much, and how errors are said.

One table says which status every error has. Nothing of a path, a key or a stack
goes into an answer or a line of the log.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import logging
import re
import time
import traceback
from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping, MutableMapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, TypeAlias

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, HTTPConnection, Request
from starlette.responses import JSONResponse, RedirectResponse

from agentmem.agent.turn import Turn
from agentmem.base import errors as e
from agentmem.base.errors import AgentMemError
from agentmem.base.types import Scope
from agentmem.memory.facade import AsyncMemoryManager
from agentmem.server.tokens import EVERYBODY, Grant, Tokens
from agentmem.text.secrets import without_keys

_log = logging.getLogger(__name__)

Message: TypeAlias = MutableMapping[str, Any]
App: TypeAlias = Callable[[Message, Any, Any], Any]

STATUS: Mapping[type[AgentMemError], int] = MappingProxyType(
    {
        AgentMemError: 500,
        e.InvalidInput: 422, e.InvalidText: 422, e.InvalidNumber: 422, e.InvalidMessage: 422,
        e.InvalidScope: 422, e.InvalidFilter: 422, e.NamelessCaller: 422,
        e.BudgetError: 422, e.FixedContentTooLarge: 413, e.RequestTooLong: 413,
        e.BlockError: 422, e.RoleRefused: 422, e.MalformedBlock: 422,
        e.StoreError: 500, e.StoreClosed: 503, e.StoreBusy: 503,
        e.StoreUnavailable: 503, e.StoreFull: 507,
        e.StoreReadOnly: 503, e.StoreReplaced: 503, e.StoreCorrupt: 500, e.StaleLog: 500,
        e.IncompleteExport: 500, e.StoreTooNew: 500, e.NotAStore: 500,
        e.RecordNotFound: 404, e.SnapshotNotFound: 404,
        e.DuplicateRecord: 409, e.ChangedMeanwhile: 409, e.AlreadyUndone: 409,
        e.EmbedderError: 503, e.EmbedderUnavailable: 503, e.EmbedderFailed: 503, e.BadVector: 422,
        e.FileRefused: 422, e.FileUnreadable: 422, e.FetchRefused: 422, e.FetchFailed: 502,
        e.WebSearchError: 502, e.SearchFailed: 502, e.RateLimited: 503, e.TimedOut: 504,
        e.RerankerError: 503, e.RerankerUnavailable: 503, e.RerankerFailed: 503,
        e.RequestError: 400, e.MalformedRequest: 400, e.NotAuthenticated: 401,
        e.NotPermitted: 403, e.NoSuchRoute: 404, e.MethodRefused: 405, e.RequestTooLarge: 413,
        e.RequestTooSlow: 408, e.TooManyRequests: 429, e.UpstreamFailed: 502, e.ServerFailed: 500,
        e.MissingExtra: 501,
    }
)  # fmt: skip
"""The status of every error there is; a test keeps the tree and this table equal."""

CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS = {
    "content-security-policy": CSP,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",  # with none, browsers hide the origin of our own forms
    "cache-control": "no-store",
}
SESSION = "agentmem_session"
# /home/ann/x.db, C:\Users\ann; not /v1, which is an address
_PATHS = re.compile(r"(?<![\w:/])(?:/[\w.@+~-]+){2,}/?|\b[A-Za-z]:\\[^\s'\"]+")
_DEEPEST = 64


def status_of(error: AgentMemError) -> int:
    """The status of an error; one of a kind nobody listed has that of the nearest one above."""
    return next(STATUS[kind] for kind in type(error).__mro__ if kind in STATUS)


def say(text: str) -> str:
    """A text as it may leave the server: without keys, and without paths of this machine."""
    return _PATHS.sub("…", without_keys(text))


def error_fields(error: AgentMemError) -> dict[str, Any]:
    """What an answer says of an error; of what is not the caller's doing only its kind."""
    message, remedy = error.message, error.remedy
    if status_of(error) >= 500 and not isinstance(error, e.UpstreamFailed | e.MissingExtra):
        message, remedy = (type(error).__doc__ or "").strip().split("\n")[0], ""
        message = message.split("; ")[0].rstrip(".") + "."
    return {"type": type(error).__name__, "message": say(message), "remedy": say(remedy)}


def error_response(error: AgentMemError) -> JSONResponse:
    """The answer for an error: `{"error": {"type": …, "message": …, "remedy": …}}`."""
    headers = {}
    if isinstance(error, e.TooManyRequests):
        headers["retry-after"] = str(error.retry_after_seconds)
    if isinstance(error, e.NotAuthenticated):
        headers["www-authenticate"] = "Bearer"
    fields = error_fields(error)
    body = {"type": "error", "error": fields, "detail": fields["message"]}
    return JSONResponse(body, status_of(error), headers)


def read_json(raw: bytes) -> Any:
    """The JSON of a body; what is no JSON of RFC 8259, or nests beyond reason, is refused."""
    try:
        value = json.loads(raw, parse_constant=_refuse_constant)
        json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise e.MalformedRequest(
            "The body is not JSON in UTF-8.", remedy="Send application/json."
        ) from error
    if _depth(value) > _DEEPEST:
        raise e.MalformedRequest(f"The body nests deeper than {_DEEPEST} levels.")
    return value


def _refuse_constant(name: str) -> None:
    raise ValueError(name)


def _depth(value: Any) -> int:
    level, depth = [value], 0
    while level and depth <= _DEEPEST:
        inner = [x for x in level if isinstance(x, dict | list)]
        level = [y for x in inner for y in (x.values() if isinstance(x, dict) else x)]
        depth += bool(inner)
    return depth


# ----------------------------------------------------------------------------
# How much one token may ask, and what is counted.


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one request, and one token, may take; 0 sets no limit."""

    body_bytes: int = 20_000_000
    header_bytes: int = 32_768
    body_seconds: float = 15.0
    request_seconds: float = 60.0
    requests_per_second: float = 200.0
    streams: int = 64


class Rates:
    """How many requests and streams each token has; every worker counts its own."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._left: dict[str, tuple[float, float]] = {}
        self._streams: Counter[str] = Counter()

    def take(self, grant_id: str) -> None:
        """Count one request; `TooManyRequests` when there were twice a second's worth at once."""
        rate = self._limits.requests_per_second
        if not rate:
            return
        now = time.monotonic()
        left, at = self._left.get(grant_id, (2 * rate, now))
        left = min(2 * rate, left + (now - at) * rate)
        if left < 1:
            raise e.TooManyRequests("This token asks too often.")
        self._left[grant_id] = (left - 1, now)

    @contextmanager
    def streaming(self, grant_id: str) -> Iterator[None]:
        """Around a stream; `TooManyRequests` when the token has too many open."""
        if self._limits.streams and self._streams[grant_id] >= self._limits.streams:
            raise e.TooManyRequests("This token has too many streams open.")
        self._streams[grant_id] += 1
        try:
            yield
        finally:
            self._streams[grant_id] -= 1

    @property
    def open_streams(self) -> int:
        return sum(self._streams.values())


BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Metrics:
    """Requests by route and status, and how long they took; as Prometheus reads it."""

    def __init__(self) -> None:
        self._requests: Counter[tuple[str, str, int]] = Counter()
        self._buckets: Counter[tuple[str, float]] = Counter()
        self._seconds: Counter[str] = Counter()
        self.in_flight = 0

    def note(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count one request."""
        self._requests[method, route, status] += 1
        self._seconds[route] += seconds  # type: ignore[assignment]  # a Counter adds floats too
        for bucket in BUCKETS:
            if seconds <= bucket:
                self._buckets[route, bucket] += 1

    def lines(self, gauges: Mapping[str, float]) -> Iterator[str]:
        """The page, line by line; `gauges` are further figures by name."""
        yield "# TYPE agentmem_requests_total counter"
        for (method, route, status), count in sorted(self._requests.items()):
            labels = f'method="{method}",route="{route}",status="{status}"'
            yield f"agentmem_requests_total{{{labels}}} {count}"
        yield "# TYPE agentmem_request_seconds histogram"
        for route in sorted(self._seconds):
            total = sum(n for (_, r, _), n in self._requests.items() if r == route)
            for bucket in BUCKETS:
                labels = f'route="{route}",le="{bucket}"'
                yield f"agentmem_request_seconds_bucket{{{labels}}} {self._buckets[route, bucket]}"
            yield f'agentmem_request_seconds_bucket{{route="{route}",le="+Inf"}} {total}'
            yield f'agentmem_request_seconds_sum{{route="{route}"}} {self._seconds[route]:.6f}'
            yield f'agentmem_request_seconds_count{{route="{route}"}} {total}'
        for name, value in {"agentmem_in_flight": self.in_flight, **gauges}.items():
            yield f"# TYPE {name} gauge"
            yield f"{name} {value:g}"


class Turns:
    """The turns this process opened and was not told the end of; the oldest give way."""

    def __init__(self, most: int = 4_096) -> None:
        self._open: OrderedDict[str, tuple[Scope, Turn]] = OrderedDict()
        self._most = most

    def put(self, scope: Scope, turn: Turn) -> None:
        self._open[turn.snapshot_id or turn.message_id] = (scope, turn)
        while len(self._open) > self._most:
            with suppress(KeyError):
                self._open.popitem(last=False)

    def take(self, scope: Scope, turn_id: str) -> Turn | None:
        owner, turn = self._open.get(turn_id, (None, None))
        if owner != scope:
            return None
        self._open.pop(turn_id, None)
        return turn


@dataclass(frozen=True, slots=True, kw_only=True)
class Door:
    """What every route needs: the memory, the tokens, the limits and what is counted.

    It answers under the names `hosts`; to everybody at `open_paths`, and at `page_paths` to a
    session's cookie too. A path that ends in "/" stands for all below it.
    """

    memory: AsyncMemoryManager
    tokens: Tokens
    limits: Limits
    rates: Rates
    hosts: Collection[str] = ()
    open_paths: Collection[str] = ()
    page_paths: Collection[str] = ()
    metrics: Metrics = field(default_factory=Metrics)
    turns: Turns = field(default_factory=Turns)
    auth: bool = True


# ----------------------------------------------------------------------------
# The guard in front of every route.


def door_of(request: Request) -> Door:
    """The door that a request came through."""
    door: Door = request.app.state.door
    return door


def grant_of(request: Request) -> Grant:
    """What the token of this request allows."""
    grant: Grant = request.state.grant
    return grant


class Guard:
    """Asks every request for its host, its origin, its size and its token, and says errors."""

    def __init__(self, app: App, door: Door) -> None:
        self._app = app
        self._door = door
        self._limits = door.limits

    async def __call__(self, scope: Message, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            else:
                await send({"type": "websocket.close", "code": 1008})
            return
        began, status = time.perf_counter(), 0

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        self._door.metrics.in_flight += 1
        try:
            await self._answer(scope, receive, sending)
        except ClientDisconnect:
            status = status or 499
        except Exception as error:  # noqa: BLE001 - the edge: whatever it is, say it in words
            known = as_known(error)
            if status_of(known) >= 500:
                _log.error("%s failed: %s", scope["method"], _where(error))
            if isinstance(known, e.NotAuthenticated) and self._wants_page(scope):
                await RedirectResponse("/login", 303)(scope, receive, sending)
            elif not status:  # of half an answer, breaking off is all that can be said
                await error_response(known)(scope, receive, sending)
        finally:
            self._door.metrics.in_flight -= 1
            route = getattr(scope.get("route"), "path", "-")
            seconds = time.perf_counter() - began
            self._door.metrics.note(scope["method"], route, status, seconds)
            _log.info("%s %s %d %.1f ms", scope["method"], route, status, 1000 * seconds)

    async def _answer(self, scope: Message, receive: Any, send: Any) -> None:
        headers = Headers(scope=scope)
        self._check(headers)
        path = scope["path"]
        grant = EVERYBODY
        if self._door.auth and not _under(path, self._door.open_paths):
            session = HTTPConnection(scope).cookies.get(SESSION, "")
            for_page = session if _under(path, self._door.page_paths) else ""
            grant = await asyncio.to_thread(self._authenticate, headers, for_page)
        scope.setdefault("state", {})["grant"] = grant
        if not _under(path, self._door.open_paths):
            self._door.rates.take(grant.id)
        await self._app(scope, self._reading(headers, receive), send)

    def _wants_page(self, scope: Message) -> bool:
        shown = scope["method"] == "GET" and not token_of(Headers(scope=scope))
        return shown and _under(scope["path"], self._door.page_paths)

    def _check(self, headers: Headers) -> None:
        size = sum(len(name) + len(value) for name, value in headers.raw)
        if self._limits.header_bytes and size > self._limits.header_bytes:
            raise e.RequestTooLarge("The headers are too large.")
        host = headers.get("host", "")
        if not self._is_ours(host):
            raise e.NotPermitted(
                "This server does not answer under that name.",
                remedy="Name it with --allow-host when the server is started.",
            )
        origin = headers.get("origin")
        if origin is not None and origin.partition("://")[2].lower() != host.lower():
            raise e.NotPermitted("Requests of other sites are not answered.")

    def _is_ours(self, host: str) -> bool:
        """Whether a Host is a name of ours or a plain address, which no DNS can rebind."""
        name = host.lower()
        if name.startswith("["):
            name = name[1:].partition("]")[0]
        elif name.count(":") == 1:
            name = name.partition(":")[0]
        if name == "localhost" or name in self._door.hosts or "*" in self._door.hosts:
            return True
        with suppress(ValueError):
            return bool(ipaddress.ip_address(name))
        return False

    def _authenticate(self, headers: Headers, session: str) -> Grant:
        tokens, token = self._door.tokens, token_of(headers)
        found = tokens.find(token) if token else tokens.in_session(session)
        if found is None:
            raise e.NotAuthenticated(
                "No token that opens anything.",
                remedy="Send `Authorization: Bearer TOKEN`; `agentmem token make` makes one.",
            )
        return found

    def _reading(self, headers: Headers, receive: Any) -> Any:
        limit, left = self._limits.body_bytes, self._limits.body_bytes
        said = headers.get("content-length", "0")
        if limit and (not said.isdecimal() or int(said) > limit):
            raise e.RequestTooLarge(f"The body is larger than {limit:,} bytes.")
        whole = False

        async def reading() -> Message:
            nonlocal left, whole
            if whole:  # only waits for the caller to go away
                gone: Message = await receive()
                return gone
            try:
                async with asyncio.timeout(self._limits.body_seconds or None):
                    message: Message = await receive()
            except TimeoutError:
                raise e.RequestTooSlow("The body did not arrive in time.") from None
            whole = message["type"] != "http.request" or not message.get("more_body")
            left -= len(message.get("body", b""))
            if limit and left < 0:
                raise e.RequestTooLarge(f"The body is larger than {limit:,} bytes.")
            return message

        return reading


def _under(path: str, paths: Collection[str]) -> bool:
    return any(
        path.startswith(one) if one.endswith("/") and one != "/" else path == one for one in paths
    )


def as_known(error: Exception) -> AgentMemError:
    """An error as one of ours; what nobody foresaw is said to have failed inside."""
    if isinstance(error, AgentMemError):
        return error
    if isinstance(error, HTTPException):
        if error.status_code == 404:
            return e.NoSuchRoute("Nothing is served here.", remedy="See /openapi.json.")
        if error.status_code == 405:
            remedy = "See /openapi.json."
            return e.MethodRefused("This address takes another method.", remedy=remedy)
        return e.MalformedRequest("The request cannot be read.")
    if isinstance(error, RecursionError):
        return e.MalformedRequest("The request nests too deep.")
    if isinstance(error, TimeoutError):
        return e.TimedOut("The request took too long.")
    return e.ServerFailed("Something went wrong inside.")


def _where(error: Exception) -> str:
    """What went wrong and in which function, without what was said in it."""
    frames = traceback.extract_tb(error.__traceback__)
    last = f" in {frames[-1].name}, line {frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}{last}"


def token_of(headers: Headers) -> str:
    """The token of a request: of its own header, as a bearer's, mem0's or Anthropic's, or ""."""
    own = headers.get("x-agentmem-token")
    if own:
        return own
    kind, _, token = headers.get("authorization", "").partition(" ")
    if kind.lower() in ("bearer", "token"):
        return token.strip()
    return headers.get("x-api-key", "")
