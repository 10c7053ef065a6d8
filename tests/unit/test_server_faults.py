"""What a server meets: requests that are none, workers that are killed, and being stopped."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import agentmem
from agentmem.base.types import EMPTY
from agentmem.server.api import OPERATIONS
from agentmem.server.app import create_app
from agentmem.server.compat import OPERATIONS as OTHERS
from agentmem.server.http import SESSION, Limits
from agentmem.server.page import ACTIONS, VIEWS
from agentmem.server.proxy import PATHS, Upstream
from agentmem.server.tokens import Tokens
from tests.servers.chat import ChatServer
from tests.servers.serving import Serving

TRICKS = st.sampled_from(
    ["", "\x00", "\u202e", "é", "é", "]]>", "../../etc/passwd", "%00", "\U0001f600", "x" * 5_000,
     "' OR 1=1 --", "\ufeff", "null", "\r\nx-evil: 1", "9" * 400]
)  # fmt: skip
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | TRICKS
    | st.sampled_from([2**63, -(2**63) - 1, 10**30, 1e308, -1]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip
FIELDS = ("text", "messages", "query", "filters", "limit", "metadata", "kinds", "since", "cursor",
          "id", "user_id", "signals", "token_budget", "task", "settings", "lines", "data", "url",
          "content", "top_k", "threshold", "config", "memories", "importance", "last")  # fmt: skip
BODIES = (
    st.binary(max_size=60)
    | st.dictionaries(st.sampled_from(FIELDS) | st.text(max_size=5), VALUES, max_size=4).map(
        lambda value: json.dumps(value).encode()
    )
    | VALUES.map(lambda value: json.dumps(value).encode())
)


def urlencode_bytes(said: Mapping[str, str]) -> bytes:
    return urlencode(said, errors="surrogatepass").encode()


TYPED = st.dictionaries(
    st.sampled_from(("text", "version", "resolution", "note", "project", "agent")) | TRICKS,
    TRICKS | st.sampled_from(["a_wins", "merged", "0", "-1", "Tea is fine."]) | st.text(max_size=9),
    max_size=5,
)
FORMS = st.dictionaries(st.sampled_from(FIELDS) | TRICKS, TRICKS | st.text(max_size=9), max_size=4)
SPOKEN = st.fixed_dictionaries(
    {"jsonrpc": st.just("2.0"), "id": VALUES, "params": VALUES,
     "method": st.sampled_from(["initialize", "tools/call", "tools/list", "resources/read", "x"])}
).map(lambda value: json.dumps(value).encode())  # fmt: skip
ASKED = st.fixed_dictionaries(
    {"model": VALUES, "messages": VALUES | st.lists(st.fixed_dictionaries(
        {"role": st.just("user") | VALUES, "content": VALUES}), max_size=3)}
).map(lambda value: json.dumps(value).encode())  # fmt: skip
CALLS = [(one.method, one.path) for one in (*OPERATIONS, *OTHERS)]
PAGE = [
    *(("GET", path) for path in VIEWS),
    *(("POST", path) for path in (*ACTIONS, "/login", "/logout")),
]
PROXY = [(method, f"/v1{one.path}") for one in PATHS for method in one.methods]
MCP = [(method, "/mcp") for method in ("GET", "POST", "DELETE", "PUT")]


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[str, str]]:
    with agentmem.open(":memory:", embedder=None) as memory, ChatServer("ok") as chat:
        token, _ = Tokens(memory.store.settings).make(admin=True)
        limits = Limits(requests_per_second=0, body_seconds=0.2)
        upstream = Upstream.of(chat.url)
        with Serving(create_app(memory, limits=limits, upstream=upstream)) as serving:
            yield serving.url, token


@settings(max_examples=400, suppress_health_check=list(HealthCheck), deadline=None)
@given(st.sampled_from(CALLS), TRICKS | st.text(max_size=10), BODIES)
def test_what_makes_no_sense_is_never_the_servers_fault(
    served: tuple[str, str], call: tuple[str, str], name: str, body: bytes
) -> None:
    send(served, call, name, body)


@settings(max_examples=150, suppress_health_check=list(HealthCheck), deadline=None)
@given(
    st.sampled_from(PAGE), TRICKS | st.text(max_size=10), BODIES | FORMS.map(urlencode_bytes), FORMS
)
def test_no_form_or_address_breaks_the_page(
    served: tuple[str, str], call: tuple[str, str], name: str, body: bytes, said: dict[str, str]
) -> None:
    send(served, call, name, body, urlencode_bytes({**said, "user": name, "q": name}).decode())


@pytest.fixture(scope="module")
def signed_in() -> Iterator[SignedIn]:
    with agentmem.open(":memory:", embedder=None) as memory:
        for limit in (100, 500):
            memory.add(f"The API limit is {limit} requests per minute.", user_id="ann")
        memory.preferences.add("I prefer tea.", user_id="ann")
        memory.flush()
        tokens = Tokens(memory.store.settings)
        session = tokens.session_of(tokens.make(admin=True)[1])
        app = create_app(memory, limits=Limits(requests_per_second=0))
        with Serving(app) as serving:
            yield SignedIn(memory=memory, url=serving.url, session=session, tokens=tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedIn:
    """A browser that may use every form."""

    memory: agentmem.MemoryManager
    url: str
    session: str
    tokens: Tokens

    def ids(self, kind: str) -> list[str]:
        """What a form of this kind could be about, as it is now."""
        if kind == "contradictions":
            found = self.memory.living.contradictions(open_only=False, user_id="ann")
            return [one.id for one in found]
        if kind == "runs":
            return [one.id for one in self.memory.living.journal(user_id="ann")]
        if kind == "preferences":
            return [one.id for one in self.memory.preferences.get_all(user_id="ann")]
        return [one.id for one in self.memory.get_all(user_id="ann")]


@settings(max_examples=200, suppress_health_check=list(HealthCheck), deadline=None)
@given(st.sampled_from([*ACTIONS]), st.integers(0, 9) | TRICKS, st.just("ann") | TRICKS, TYPED)
def test_no_form_of_somebody_signed_in_breaks_the_server(
    signed_in: SignedIn, path: str, about: int | str, user: str, said: dict[str, str]
) -> None:
    known = signed_in.ids(path.split("/")[2])
    name = known[about % len(known)] if isinstance(about, int) and known else str(about)
    carried = {"user": user, "csrf": signed_in.tokens.signed("csrf", signed_in.session)}
    headers = {"cookie": f"{SESSION}={signed_in.session}",
               "content-type": "application/x-www-form-urlencoded"}  # fmt: skip
    body = urlencode_bytes({**said, **carried})
    status = send((signed_in.url, ""), ("POST", path), name, body, headers=headers)
    assert status != 403  # it got past the check of the form's own token


@settings(max_examples=150, suppress_health_check=list(HealthCheck), deadline=None)
@given(st.sampled_from(PROXY), TRICKS | st.text(max_size=10), BODIES | ASKED)
def test_the_proxy_passes_on_what_makes_no_sense(
    served: tuple[str, str], call: tuple[str, str], name: str, body: bytes
) -> None:
    send(served, call, name, body)


@settings(max_examples=100, suppress_health_check=list(HealthCheck), deadline=None)
@given(
    st.sampled_from(MCP), BODIES | SPOKEN, st.sampled_from(["application/json", "text/plain", "é"])
)
def test_what_is_no_protocol_is_refused_at_mcp(
    served: tuple[str, str], call: tuple[str, str], body: bytes, kind: str
) -> None:
    accepted = {"content-type": kind, "accept": "application/json, text/event-stream"}
    send(served, call, "", body, headers=accepted)


def send(
    served: tuple[str, str],
    call: tuple[str, str],
    name: str,
    body: bytes,
    asked: str = "",
    *,
    headers: Mapping[str, str] = EMPTY,
) -> int:
    """The status of one request; whatever it says, the answer is no fault of the server's."""
    url, token = served
    method, path = call
    escaped = quote(name.encode("utf-8", "surrogatepass"), safe="")
    for part in path.split("/"):
        if part.startswith("{"):
            path = path.replace(part, escaped or "x")
    query = f"?{asked or f'limit={escaped}&cursor={escaped}'}" if method == "GET" else ""
    host = urlsplit(url)
    connection = http.client.HTTPConnection(host.hostname or "", host.port, timeout=20)
    try:
        said_of = {**({"authorization": f"Bearer {token}"} if token else {}), **headers}
        connection.request(method, path + query, body=body, headers=said_of)
        answer = connection.getresponse()
        events = "event-stream" in (answer.getheader("content-type") or "")
        said = b"" if events and method == "GET" else answer.read()  # that one stays open
    finally:
        connection.close()
    assert answer.status < 500, (method, path, body, said)
    assert b"Traceback" not in said
    return answer.status


@pytest.mark.parametrize(
    "raw",
    [b"\x16\x03\x01\x02\x00\x01", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n",
     b"POST /v1/search HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
     b"POST /v1/search HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
     b"GET /" + b"x" * 100_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
     b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"y" * 100_000 + b"\r\n\r\n"],
)  # fmt: skip
def test_what_is_no_http_is_refused(served: tuple[str, str], raw: bytes) -> None:
    host = urlsplit(served[0])
    with socket.create_connection((host.hostname, host.port), timeout=20) as made:
        made.sendall(raw)
        made.shutdown(socket.SHUT_WR)
        said = made.recv(100)
    assert said.startswith(b"HTTP/1.1 4") or not said


def test_a_body_that_does_not_come_is_not_waited_for(served: tuple[str, str]) -> None:
    url, token = served
    host = urlsplit(url)
    with socket.create_connection((host.hostname, host.port), timeout=20) as made:
        head = (
            f"POST /v1/search HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n"
            "Content-Length: 50\r\n\r\n{"
        )
        made.sendall(head.encode())
        assert made.recv(100).startswith(b"HTTP/1.1 408")


class Started:
    """`agentmem serve` as a process of its own."""

    def __init__(self, store: Path, *options: str) -> None:
        environment = {**os.environ, "AGENTMEM_EMBEDDER": "none", "PYTHONPATH": os.getcwd()}
        command = [sys.executable, "-m", "agentmem", "--store", str(store), "serve", "--json",
                   "--port", "0", "--rate", "0", *options]  # fmt: skip
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
        )
        assert self.process.stdout is not None
        said = ""
        while "}" not in said:
            said += self.process.stdout.readline()
        told = json.loads(said)
        self.url, self.token = told["url"], told["token"]
        waiting = threading.Event()
        for _ in range(600):
            try:
                if httpx.get(f"{self.url}/healthz").is_success:
                    return
            except httpx.HTTPError:
                waiting.wait(0.1)
        raise AssertionError("the server did not start")

    def stop(self) -> tuple[int, float, str]:
        """Its exit code, the seconds it took, and what it said."""
        began = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        _, errors = self.process.communicate(timeout=30)
        return self.process.returncode, time.monotonic() - began, errors


def test_a_stopped_server_has_kept_what_it_acknowledged(tmp_path: Path) -> None:
    store = tmp_path / "m.db"
    server = Started(store)
    headers = {"authorization": f"Bearer {server.token}"}
    asked = {"messages": [{"role": "user", "content": "My sister lives in Bergen."}]}
    try:
        turn = httpx.post(f"{server.url}/v1/turns", json=asked, headers=headers, timeout=60).json()
        done = f"{server.url}/v1/turns/{turn['id']}/done"
        assert httpx.post(done, json={"answer": "Noted."}, headers=headers, timeout=60).is_success
    finally:
        code, _, errors = server.stop()
    assert (code, errors) == (0, "")
    again = Started(store)
    try:
        assert again.token == ""  # shown once
        flush = f"{again.url}/v1/upkeep/flush"
        assert httpx.post(flush, headers=headers, timeout=60).is_success
        listed = httpx.get(f"{again.url}/v1/memories", headers=headers, timeout=60)
    finally:
        again.stop()
    found = listed.json()["results"]
    assert {"My sister lives in Bergen.", "Noted."} <= {one["text"] for one in found}


@pytest.mark.deep
def test_a_killed_worker_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    server = Started(tmp_path / "m.db", "--workers", "2")
    headers = {"authorization": f"Bearer {server.token}"}
    kept: list[str] = []

    def write(number: int) -> None:
        with httpx.Client(base_url=server.url, headers=headers, timeout=10) as client:
            for at in range(60):
                text = f"fact {number} {at}"
                try:
                    if client.post("/v1/memories", json={"text": text}).is_success:
                        kept.append(text)
                except httpx.HTTPError:
                    continue

    writers = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    try:
        for writer in writers:
            writer.start()
        children = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children")
        while len(kept) < 40:
            threading.Event().wait(0.01)
        os.kill(int(children.read_text().split()[-1]), signal.SIGKILL)
        for writer in writers:
            writer.join()
    finally:
        server.stop()
    with agentmem.open(tmp_path / "m.db", embedder=None) as memory:
        there = {one.text for one in memory.get_all(limit=10_000)}
    assert len(kept) > 100
    assert set(kept) <= there
