"""What the server promises whoever asks."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import urlsplit

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import agentmem
from agentmem.agent.turn import working_for
from agentmem.base.config import LoopConfig
from agentmem.base.errors import NotPermitted
from agentmem.base.types import Scope, may_see
from agentmem.prompt.messages import is_reference, is_stub
from agentmem.server.api import OPERATIONS
from agentmem.server.app import create_app
from agentmem.server.compat import OPERATIONS as OTHERS
from agentmem.server.http import Limits
from agentmem.server.page import ACTIONS, VIEWS
from agentmem.server.proxy import Upstream, locate
from agentmem.server.tokens import Grant, Tokens
from agentmem.server.wire import Operation, request_model
from tests.properties.conversations import conversations
from tests.servers.serving import Serving

NAMES = st.none() | st.sampled_from(["a", "A", "b", "é", "é"])
SCOPES = st.builds(Scope, user_id=NAMES, project_id=NAMES, agent_id=NAMES, run_id=NAMES)
VISIBILITIES = st.sampled_from(["private", "project", "system"])


@given(SCOPES, SCOPES, st.lists(st.tuples(VISIBILITIES, SCOPES), min_size=1, max_size=30))
def test_a_request_only_narrows_its_token(
    fixed: Scope, asked: Scope, kept: list[tuple[str, Scope]]
) -> None:
    grant = Grant(id="1", scope=fixed)
    with contextlib.suppress(NotPermitted):
        got = grant.narrowed(asked)
        for visibility, owner in kept:
            assert not may_see(got, visibility, owner) or may_see(fixed, visibility, owner)
        for name in Scope.__slots__:
            own = getattr(fixed, name)
            assert own is None or getattr(got, name) == own
        assert (got.user_id, got.project_id) == (fixed.user_id, fixed.project_id)
        assert grant.narrowed(got) == got
    assert grant.narrowed(Scope()) == fixed


SECRET = "xyzzyplugh"
SHARED = "boat"
VALUES: dict[str, Any] = {
    "messages": [{"role": "user", "content": SHARED}], "settings": {"top_k": 3}, "output": SHARED,
    "resolution": "a_wins", "task": "flush", "signals": [["task", SHARED]], "lines": SHARED,
    "chunks": [SHARED], "type": "style", "kind": "fact", "url": "https://bob.example/page",
    "data": [{"text": SHARED}], "memories": [{"memory_id": "x", "text": SHARED}],
}  # fmt: skip
"""What each field may well say; the others say a word that both users' memories have."""


def said_in(operation: Operation) -> tuple[str, ...]:
    """What a request must say to be understood; of other people's clients, all they may."""
    fields = request_model(operation).model_fields.items()
    in_path = re.findall(r"\{(\w+)\}", operation.path)
    wanted = [name for name, field in fields if field.is_required() and name not in in_path]
    if operation.path == "/v1/memories" and operation.method == "POST":
        return ("text",)
    return tuple(wanted) if operation.adapt is None else ("query", "messages", "text", "memories")


NAMED: st.SearchStrategy[dict[str, str]] = st.just({}) | st.fixed_dictionaries(
    {}, optional={name: st.sampled_from(["ann", "bob", "", "*"]) for name in Scope.__slots__}
)
FILTERS = st.sampled_from(
    [None, {}, {"user_id": "bob"}, {"OR": [{"user_id": "bob"}, {"user_id": "ann"}]},
     {"AND": [{"user_id": "bob"}]}, {"NOT": [{"user_id": "ann"}]}, {"kind": "fact"}]
)  # fmt: skip
FILTERED = {one.path for one in OPERATIONS if "filters" in request_model(one).model_fields}
CALLS = [
    *((one.method, one.path, said_in(one))
      for one in (*OPERATIONS, *OTHERS) if one.path != "/v1/sources/urls"),
    *(("GET", path, ("q",)) for path in (*VIEWS, "/v1/export", "/metrics")),
    *(("POST", path, ("text", "resolution")) for path in ACTIONS),
]  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Doors:
    """A server with memories of bob, and a token of ann's."""

    memory: agentmem.MemoryManager
    client: httpx.Client
    csrf: str
    ids: Mapping[str, Sequence[str]]

    def send(self, call: tuple[str, str, tuple[str, ...]], one: str, **said: Any) -> httpx.Response:
        """A request about `one`, which says what its call takes."""
        method, path, fields = call
        path = re.sub(r"\{[^}]+\}", one, path)
        body = {**{name: VALUES.get(name, SHARED) for name in fields}, **said}
        shown = {k: v if isinstance(v, str) else json.dumps(v) for k, v in body.items()}
        query = method in ("GET", "DELETE")
        sent: Any = {"params": shown} if query else {"json": body}
        if path.startswith("/page/"):
            sent = {"data": {**shown, "csrf": self.csrf}}
        return self.client.request(method, path, headers={"x-agentmem-user": "bob"}, **sent)

    def of_bob(self) -> list[tuple[str, str]]:
        return [(one.id, one.text) for one in self.memory.get_all(user_id="bob", limit=100)]


@pytest.fixture(scope="module")
def doors() -> Iterator[Doors]:
    with agentmem.open(":memory:", embedder=None) as memory:
        for limit in (100, 500):
            text = f"The {SHARED} {SECRET} carries {limit} tons of sand."
            memory.add(text, user_id="bob")
            memory.add(f"Ann's {SHARED} carries {limit} tons of sand.", user_id="ann")
        memory.preferences.add(f"I prefer the {SHARED} {SECRET}.", user_id="bob")
        memory.sources.add_document([f"{SHARED} {SECRET}"], url=VALUES["url"], user_id="bob")
        with memory.turn([{"role": "user", "content": f"{SHARED}?"}], user_id="bob") as turn:
            turn.done(f"{SECRET}.")
        bob = Scope(user_id="bob")
        kept = working_for(memory, scope=bob, model="", config=LoopConfig()).keep(
            "look", {}, f"{SHARED} {SECRET} " * 500
        )
        memory.flush()
        memory.living.consolidate(user_id="bob")
        ids = {
            "contexts": [turn.snapshot_id or ""],
            "turns": [turn.snapshot_id or ""],
            "contradictions": [
                one.id for one in memory.living.contradictions(open_only=False, user_id="bob")
            ],
            "consolidations": [one.id for one in memory.living.journal(user_id="bob")],
            "preferences": [one.id for one in memory.preferences.get_all(user_id="bob")],
            "results": [kept.id],
            "vector_stores": ["bob"],
            "": [one.id for one in memory.get_all(user_id="bob")],
        }
        ids["runs"] = ids["consolidations"]
        assert all(ids.values())
        tokens = Tokens(memory.store.settings)
        token, _ = tokens.make(scope=Scope(user_id="ann"))
        app = create_app(memory, limits=Limits(requests_per_second=0))
        with Serving(app) as serving, httpx.Client(base_url=serving.url, timeout=60) as client:
            client.headers["authorization"] = f"Bearer {token}"
            yield Doors(memory=memory, client=client, csrf=tokens.signed("csrf", ""), ids=ids)


@pytest.mark.parametrize("call", CALLS, ids=lambda call: f"{call[0]} {call[1]}")
@given(st.integers(0, 9), NAMED, FILTERS)
@settings(max_examples=8)
def test_no_request_sees_more_than_its_token(
    doors: Doors,
    call: tuple[str, str, tuple[str, ...]],
    at: int,
    named: dict[str, str],
    filters: dict[str, Any] | None,
) -> None:
    """P46 Narrowing. A request sees and changes at most what its token may see, whatever scope, id, filter or header it names; what it may not see is told apart from what does not exist by nothing."""
    before = doors.of_bob()
    ids = next((doors.ids[name] for name in doors.ids if name and name in call[1]), doors.ids[""])
    theirs = ids[at % len(ids)]
    nobodys = "".join(chr(ord("a") + ord(sign) % 6) if sign != "-" else sign for sign in theirs)
    said = {**named, **({"filters": filters} if filters and call[1] in FILTERED else {})}
    answers = [doors.send(call, one, **said) for one in (theirs, nobodys)]
    for answer in answers:
        assert SECRET not in answer.text
        assert answer.status_code < 500
    assert doors.of_bob() == before
    if "{" in call[1]:
        one, other = answers
        assert one.status_code == other.status_code
        assert one.text.replace(theirs, "") == other.text.replace(nobodys, "")


OTHER = st.dictionaries(
    st.text(max_size=8).filter(lambda name: name != "messages"),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
        max_leaves=6,
    ),
    max_size=4,
)
GAPS = st.sampled_from(["", " ", "\n\t ", "\r\n"])


@st.composite
def bodies(draw: st.DrawFn) -> tuple[str, list[dict[str, Any]]]:
    """A request as some client writes it, and its messages."""
    messages = draw(conversations())
    ascii_only = draw(st.booleans())
    gap = draw(GAPS)
    between = f"{draw(GAPS)},{draw(GAPS)}"

    def write(value: Any) -> str:
        return json.dumps(value, ensure_ascii=ascii_only)

    fields = [(name, write(value)) for name, value in draw(OTHER).items()]
    at = draw(st.integers(0, len(fields)))
    fields.insert(at, ("messages", f"[{gap}{between.join(map(write, messages))}{gap}]"))
    inside = between.join(f"{write(name)}{gap}:{gap}{value}" for name, value in fields)
    return f"{gap}{{{gap}{inside}{gap}}}{gap}", messages


STATUSES = st.sampled_from([200, 201, 400, 404, 429, 500, 503])
KINDS = st.sampled_from(["application/json", "text/event-stream", "application/octet-stream"])
ANSWERS = st.tuples(STATUSES, KINDS, st.lists(st.binary(max_size=40), max_size=4))


@pytest.fixture(scope="module")
def wire() -> Iterator[tuple[Provider, http.client.HTTPConnection, str]]:
    with agentmem.open(":memory:", embedder=None) as memory, Provider() as provider:
        memory.preferences.add("I prefer tea.", user_id="ann")
        token, _ = Tokens(memory.store.settings).make(scope=Scope(user_id="ann"))
        app = create_app(
            memory, upstream=Upstream.of(provider.url), limits=Limits(requests_per_second=0)
        )
        with Serving(app) as serving:
            host = urlsplit(serving.url)
            made = http.client.HTTPConnection(host.hostname or "", host.port, timeout=60)
            with contextlib.closing(made):
                yield provider, made, token


@given(bodies(), ANSWERS)
def test_what_goes_through_the_proxy_is_what_was_sent(
    wire: tuple[Provider, http.client.HTTPConnection, str],
    body: tuple[str, list[dict[str, Any]]],
    answer: tuple[int, str, list[bytes]],
) -> None:
    """P47 Transparent. What the provider behind the proxy receives differs from what the client sent by the one reference pair alone; what the client receives differs from what the provider sent by nothing."""
    text, messages = body
    provider, connection, token = wire
    provider.answer = answer
    headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
    connection.request("POST", "/v1/chat/completions", body=text.encode(), headers=headers)
    got = connection.getresponse()
    assert (got.status, got.getheader("content-type")) == answer[:2]
    assert got.getheader("x-request-id") == "r1"
    assert got.read() == b"".join(answer[2])
    sent = provider.received.decode()
    arrived = json.loads(sent)["messages"]
    ours = [one for one in arrived if is_stub(one) or is_reference(one)]
    theirs = [one for one in messages if not (is_stub(one) or is_reference(one))]
    assert [one for one in arrived if one not in ours] == theirs
    if len(theirs) == len(messages):  # else the pair of an earlier call gave way to this one's
        assert len(ours) in (0, 2)
        more = len(sent) - len(text)
        at = next((n for n, (a, b) in enumerate(zip(sent, text, strict=False)) if a != b), 0)
        places = range(max(0, at - more), at + 1)
        assert any(sent[:n] == text[:n] and sent[n + more :] == text[n:] for n in places)


class Provider:
    """A provider that answers as it is told, piece by piece, and keeps what it received."""

    def __init__(self) -> None:
        self.answer: tuple[int, str, list[bytes]] = (200, "application/json", [b"{}"])
        self.received = b""

    def __enter__(self) -> Self:
        provider = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # the name of the base
                """Say nothing."""

            def do_POST(self) -> None:
                length = int(self.headers.get("content-length") or 0)
                provider.received = self.rfile.read(length)
                status, kind, pieces = provider.answer
                self.send_response(status)
                self.send_header("content-type", kind)
                self.send_header("x-request-id", "r1")
                self.send_header("transfer-encoding", "chunked")
                self.end_headers()
                for piece in filter(None, pieces):
                    self.wfile.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
                    self.wfile.flush()
                self.wfile.write(b"0\r\n\r\n")

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        threading.Thread(target=self._http.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}/v1"


@given(bodies())
def test_where_the_messages_stand_is_found_in_every_spelling(
    body: tuple[str, list[dict[str, Any]]],
) -> None:
    text, messages = body
    found = locate(text, "messages")
    assert found is not None
    assert found.items == messages
    assert found.spliced(list(found.items)) == text
    assert found.named == {n: v for n, v in json.loads(text).items() if n != "messages"}
    for broken in (text.rstrip()[:-1], f"{text}]", text.replace("]", ",]"), text.replace(":", ";")):
        with contextlib.suppress(ValueError):
            json.loads(broken)
            continue
        with pytest.raises(ValueError):  # noqa: PT011 - any: it is no JSON
            locate(broken, "messages")
