"""The proxy: a provider's own API with memory around it.

What a client sends goes on byte for byte, with one pair put in before the last
thing the user said (P47); what the provider answers comes back byte for byte,
as it comes. Memory failing never fails a call.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from urllib.parse import quote, urlsplit

import httpx
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Send
from starlette.types import Scope as ASGIScope

from agentmem.agent.adapters.replies import (
    Gathering,
    Reply,
    named_user,
    read_reply,
    view_chat,
    view_responses,
)
from agentmem.agent.adapters.turn import OpenTurn, TurnKeeper, Viewer
from agentmem.base.errors import InvalidInput, TimedOut, UpstreamFailed
from agentmem.base.types import Scope
from agentmem.server.http import door_of, grant_of
from agentmem.server.members import Member, Members, read_members, skip
from agentmem.server.tokens import Grant

CONNECT_SECONDS, READ_SECONDS = 10.0, 600.0
MOST_KEPT_BYTES = 8_000_000
"""An answer longer than this is passed on and not remembered."""
_OWN_HEADERS = frozenset(
    {"connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "te", "trailer",
     "transfer-encoding", "upgrade", "host", "content-length", "accept-encoding", "cookie",
     "x-agentmem-token", "x-agentmem-user", "x-agentmem-project", "x-agentmem-agent",
     "x-agentmem-run", "x-agentmem-off", "origin", "referer"}
)  # fmt: skip
"""Headers that are between the client and us, or us and the provider."""
_KEYS = ("authorization", "x-api-key")
_BACK = ("connection", "keep-alive", "transfer-encoding", "server", "date")


@dataclass(frozen=True, slots=True, kw_only=True)
class Upstream:
    """Where models are asked; `openai` and `anthropic` are addresses that end in `/v1`."""

    openai: str
    anthropic: str
    openai_key: str = ""
    anthropic_key: str = ""

    @classmethod
    def of(cls, openai: str, *, anthropic: str = "") -> Upstream:
        """The upstream at these addresses, with the keys the environment has for them.

        A provider's own variable is read only for that provider's own address.
        """
        for address in filter(None, (openai, anthropic)):
            parts = urlsplit(address)
            if parts.scheme not in ("http", "https") or not parts.hostname:
                raise InvalidInput(
                    "upstream", address, "is no address",
                    remedy="Write it as https://api.openai.com/v1.",
                )  # fmt: skip
        other = anthropic or openai
        return cls(
            openai=(openai or anthropic).rstrip("/"),
            anthropic=other.rstrip("/"),
            openai_key=_key(openai or anthropic, "OPENAI_API_KEY", "api.openai.com"),
            anthropic_key=_key(other, "ANTHROPIC_API_KEY", "api.anthropic.com"),
        )


def _key(address: str, variable: str, host: str) -> str:
    own = os.environ.get("AGENTMEM_UPSTREAM_KEY", "")
    return own or (os.environ.get(variable, "") if urlsplit(address).hostname == host else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Path:
    """One address of a provider: where its messages are, if it has any."""

    path: str
    methods: tuple[str, ...] = ("POST",)
    argument: str = ""
    view_of: Viewer = view_chat
    anthropic: bool = False


PATHS = (
    Path(path="/chat/completions", argument="messages"),
    Path(path="/responses", argument="input", view_of=view_responses),
    Path(path="/embeddings"),
    Path(path="/models", methods=("GET",)),
    Path(path="/models/{name:path}", methods=("GET",)),
    Path(path="/messages", argument="messages", anthropic=True),
    Path(path="/messages/count_tokens", anthropic=True),
)


class Proxy:
    """Passes calls on to a provider, a turn of memory around each that asks a model."""

    def __init__(self, upstream: Upstream, keeper: TurnKeeper) -> None:
        self._upstream = upstream
        self._keeper = keeper
        timeout = httpx.Timeout(READ_SECONDS, connect=CONNECT_SECONDS)
        self._client = httpx.AsyncClient(timeout=timeout, trust_env=False)

    async def close(self) -> None:
        """Close the connections to the provider."""
        await self._client.aclose()

    def routes(self) -> list[Route]:
        """The routes of the provider, under `/v1`."""
        return [
            Route(f"/v1{one.path}", partial(self._pass_on, one), methods=list(one.methods))
            for one in PATHS
        ]

    async def _pass_on(self, path: Path, request: Request) -> Response:
        door = door_of(request)
        grant = grant_of(request)
        # The body of a GET means nothing, and a provider that leaves it unread would take it
        # for the beginning of the next caller's request.
        raw = await request.body() if request.method != "GET" else b""
        opened = None
        if path.argument and "x-agentmem-off" not in request.headers:
            opened, raw = await self._with_memory(path, request, grant, raw)
        stream = door.rates.streaming(grant.id)
        try:
            stream.__enter__()
            response = await self._send(path, request, raw)
        except BaseException as error:
            if opened is not None:
                await door.memory.run(opened.abandon, RuntimeError(type(error).__name__))
            raise

        async def body() -> AsyncIterator[bytes]:
            reading = _Reading(response)
            broken = ""
            try:
                async for block in response.aiter_raw():
                    reading.add(block)
                    yield block
            except (httpx.HTTPError, OSError) as error:
                broken = type(error).__name__
                raise UpstreamFailed("The provider broke off.") from None
            finally:
                stream.__exit__(None, None, None)
                await response.aclose()
                if opened is not None:
                    failed = f"HTTP {response.status_code}" if response.status_code >= 400 else ""
                    await door.memory.run(opened.finish, reading.reply(), error=broken or failed)

        kind = _Whole if "content-length" in response.headers else StreamingResponse
        made = kind(body(), response.status_code)
        made.raw_headers = [
            (name.lower(), value)
            for name, value in response.headers.raw
            if name.decode("latin-1").lower() not in _BACK
        ]
        return made

    async def _send(self, path: Path, request: Request, raw: bytes) -> httpx.Response:
        base = self._upstream.anthropic if path.anthropic else self._upstream.openai
        # As it was sent: what is decoded need not be an address any more.
        sent = request.scope.get("raw_path") or quote(request.url.path).encode()
        tail = sent.decode("latin-1").partition("?")[0].removeprefix("/v1")
        query = f"?{request.url.query}" if request.url.query else ""
        asked = self._client.build_request(
            request.method, base + tail + query, content=raw, headers=self._headers(path, request)
        )
        try:
            return await self._client.send(asked, stream=True)
        except httpx.TimeoutException:
            raise TimedOut("The provider did not answer in time.") from None
        except (httpx.HTTPError, OSError) as error:
            raise UpstreamFailed(
                f"The provider could not be reached ({type(error).__name__}).",
                remedy="Check the address it was started with (--upstream).",
            ) from None

    def _headers(self, path: Path, request: Request) -> list[tuple[bytes, bytes]]:
        """The client's own headers; its token is ours, and gives way to the provider's key."""
        ours = door_of(request).auth and "x-agentmem-token" not in request.headers
        dropped = _OWN_HEADERS | set(_KEYS if ours else ())
        kept = [
            (name, value)
            for name, value in request.headers.raw
            if name.decode("latin-1").lower() not in dropped
        ]
        said = {name.lower() for name, _ in kept}
        key = self._upstream.anthropic_key if path.anthropic else self._upstream.openai_key
        if key and not any(name.encode() in said for name in _KEYS):
            given = ("x-api-key", key) if path.anthropic else ("authorization", f"Bearer {key}")
            kept.append((given[0].encode(), given[1].encode()))
        return [*kept, (b"accept-encoding", b"identity")]

    async def _with_memory(
        self, path: Path, request: Request, grant: Grant, raw: bytes
    ) -> tuple[OpenTurn | None, bytes]:
        """A turn around what is asked, and the body with what memory adds; or neither."""
        try:
            found = locate(raw.decode(), path.argument)
        except (ValueError, RecursionError):
            return None, raw  # the provider says what is wrong with it
        if found is None:
            return None, raw
        opened = await self._keeper.aopen(
            found.items,
            path.view_of,
            scope=whose_call(request, grant, found.named),
            named=found.named,
        )
        if opened is None:
            return None, raw
        return opened, found.spliced(opened.sent).encode()


class _Whole(StreamingResponse):
    """An answer whose length is known: it comes at once, so nobody watches for a client that
    goes meanwhile."""

    async def __call__(self, scope: ASGIScope, receive: Receive, send: Send) -> None:
        await self.stream_response(send)


def whose_call(request: Request, grant: Grant, named: Mapping[str, Any]) -> Scope:
    """Whose memory a call is about: the token's, else the user a header or the request names.

    The provider's own fields for a user (`user`, `safety_identifier`,
    `metadata.user_id`) mean somebody only where the token leaves it open.
    """
    said = {
        name: request.headers.get(f"x-agentmem-{name.removesuffix('_id')}") or None
        for name in Scope.__slots__
    }
    scope = grant.narrowed(Scope(**said))
    if scope.user_id is None and grant.admin:
        identifier = named.get("safety_identifier")
        user = identifier if isinstance(identifier, str) and identifier else named_user(named)
        return replace(scope, user_id=user)
    return scope


# ----------------------------------------------------------------------------
# Where the messages stand in a body, so that everything else stays as it was written (P47).


@dataclass(frozen=True, slots=True, kw_only=True)
class Located:
    """The messages in a body, a list or a text, and everything else that it says."""

    text: str
    found: Member
    named: Mapping[str, Any]

    @property
    def items(self) -> Any:
        value = self.found.value
        return value if isinstance(value, str) else [one.value for one in value.members]

    def spliced(self, sent: Any) -> str:
        """The body with `sent` for the messages; what was there keeps every character."""
        text, found = self.text, self.found
        if isinstance(found.value, str):
            if isinstance(sent, str):
                return text
            pair = [json.dumps(one, ensure_ascii=False) for one in sent[:-1]]
            mine = f'{{"role": "user", "content": {text[found.start : found.end]}}}'
            return f"{text[: found.start]}[{', '.join([*pair, mine])}]{text[found.end :]}"
        members: Sequence[Member] = found.value.members
        ends = [found.start + 1, *(one.end for one in members)]
        made: list[str] = []
        new: list[str] = []
        left = 0
        for one in sent:
            at = next((n for n in range(left, len(members)) if members[n].value is one), None)
            if at is None:
                new.append(json.dumps(one, ensure_ascii=False))
                continue
            before = at if made else 0  # the first one has no comma before it
            gap = text[ends[before] : members[before].start]
            own = text[members[at].start : members[at].end]
            made += [gap, *(f"{pair}, " for pair in new), own]
            new, left = [], at + 1
        made += [f", {one}" for one in new]
        return text[: ends[0]] + "".join(made) + text[ends[-1] :]


def locate(text: str, name: str) -> Located | None:
    """Where the messages `name` are in a JSON object; None where there are none.

    `ValueError` for what is no JSON object from its beginning to its end.
    """
    body = read_members(text, skip(text, 0), inside=name)
    if skip(text, body.end) != len(text):
        raise ValueError("something follows")
    found = body.get(name)
    if found is None or not isinstance(found.value, str | Members):
        return None
    named = {one.name: one.value for one in body.members if one.name != name}
    return Located(text=text, found=found, named=named)


# ----------------------------------------------------------------------------
# What came back, read while it is passed on.


class _Reading:
    """Gathers the answer from the bytes of a response: one JSON document, or events."""

    def __init__(self, response: httpx.Response) -> None:
        self._events = "event-stream" in response.headers.get("content-type", "")
        self._good = response.status_code < 400
        self._kept = bytearray()
        self._seen = 0
        self._gathering = Gathering()

    def add(self, block: bytes) -> None:
        """Read the next bytes; never raises."""
        self._seen += len(block)
        if not self._good or (self._seen > MOST_KEPT_BYTES and not self._events):
            return
        self._kept += block
        if self._events:
            *lines, rest = bytes(self._kept).split(b"\n")
            self._kept = bytearray(rest[-MOST_KEPT_BYTES:])
            for line in lines:
                self._event(line.strip())

    def _event(self, line: bytes) -> None:
        if line.startswith(b"data:"):
            try:
                self._gathering.add(json.loads(line[5:]))
            except (ValueError, RecursionError):
                return  # "[DONE]", or an event of another kind

    def reply(self) -> Reply:
        """The answer in what came."""
        if self._events:
            return self._gathering.reply()
        if not self._good or self._seen > MOST_KEPT_BYTES:
            return Reply()
        try:
            return read_reply(json.loads(self._kept))
        except (ValueError, RecursionError):
            return Reply()
