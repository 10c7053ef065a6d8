"""The memory over HTTP: every call, for whom, and as it is described."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import jsonschema
import pytest
from openapi_spec_validator import validate
from openapi_spec_validator.schemas import schema_v31

import agentmem
from agentmem.base.errors import TooManyRequests
from agentmem.base.types import Scope
from agentmem.server import api
from agentmem.server.api import OPERATIONS
from agentmem.server.app import create_app
from agentmem.server.http import Limits
from agentmem.server.tokens import Tokens
from tests.servers.serving import Serving


class Caller:
    """A client that checks each answer against what `/openapi.json` says of it."""

    def __init__(self, client: httpx.Client, token: str) -> None:
        self.client = client
        self.headers = {"authorization": f"Bearer {token}"}
        self.described = api.description()

    def __call__(self, method: str, path: str, /, *, status: int = 200, **body: Any) -> Any:
        query = method in ("GET", "DELETE")
        said: dict[str, Any] = {"params" if query else "json": body}
        answer = self.client.request(method, path, headers=self.headers, **said)
        assert answer.status_code == status, answer.text
        found = answer.json()
        schema = self._schema(method, path.partition("?")[0], status)
        if schema is not None:
            jsonschema.validate(found, schema)
        return found

    def _schema(self, method: str, path: str, status: int) -> dict[str, Any] | None:
        for one in OPERATIONS:
            mine, yours = one.path.split("/"), path.split("/")
            fits = len(mine) == len(yours) and all(
                a == b or a.startswith("{") for a, b in zip(mine, yours, strict=True)
            )
            if fits and one.method == method:
                described = self.described["paths"][one.path][method.lower()]["responses"]
                answer = described["200" if status == 200 else "default"]
                schema = answer["content"]["application/json"]["schema"]
                return {**schema, "components": self.described["components"]}
        return None


@pytest.fixture
def memory() -> Iterator[agentmem.MemoryManager]:
    with agentmem.open(":memory:", embedder=None) as opened:
        yield opened


@pytest.fixture
def client(memory: agentmem.MemoryManager) -> Iterator[httpx.Client]:
    with Serving(create_app(memory)) as served, httpx.Client(base_url=served.url) as made:
        yield made


@pytest.fixture
def ann(memory: agentmem.MemoryManager, client: httpx.Client) -> Caller:
    return Caller(client, Tokens(memory.store.settings).make(scope=Scope(user_id="ann"))[0])


@pytest.fixture
def bob(memory: agentmem.MemoryManager, client: httpx.Client) -> Caller:
    return Caller(client, Tokens(memory.store.settings).make(scope=Scope(user_id="bob"))[0])


@pytest.fixture
def admin(memory: agentmem.MemoryManager, client: httpx.Client) -> Caller:
    return Caller(client, Tokens(memory.store.settings).make(admin=True)[0])


def test_the_description_is_openapi_3_1(admin: Caller) -> None:
    described = admin("GET", "/openapi.json")
    assert described["openapi"] == "3.1.0"
    jsonschema.validate(described, schema_v31)
    assert {one.path for one in OPERATIONS} <= set(described["paths"])


@pytest.mark.deep
def test_every_schema_of_the_description_is_sound() -> None:
    validate(api.description())


def test_a_memory_is_added_found_changed_and_erased(ann: Caller) -> None:
    (made,) = ann("POST", "/v1/memories", text="Ann drives a Tesla.")["results"]
    assert made["event"] == "ADD"
    assert ann("POST", "/v1/memories", text="Ann drives a Tesla.")["unchanged"] is True
    where = f"/v1/memories/{made['id']}"
    assert ann("GET", where)["user_id"] == "ann"
    found = ann("POST", "/v1/search", query="Ann drives a Tesla", explain=True)
    assert found["results"][0]["id"] == made["id"]
    assert found["candidates"][0]["fate"] == "returned"
    assert ann("PATCH", where, text="Ann drives a Volvo.")["text"] == "Ann drives a Volvo."
    (before,) = ann("GET", f"{where}/history")["results"]
    assert before["memory"]["text"] == "Ann drives a Tesla."
    newer = ann("POST", f"{where}/supersede", text="Ann cycles.")
    assert newer["supersedes"] == made["id"]
    assert ann("DELETE", f"/v1/memories/{newer['id']}") == {"count": 1}
    ann("DELETE", f"/v1/memories/{newer['id']}", status=404)
    receipt = ann("POST", f"{where}/erase")
    assert made["id"] in receipt["ids"]
    ann("GET", where, status=404)


def test_messages_documents_and_chunks_are_remembered(ann: Caller) -> None:
    said = [{"role": "user", "content": "I moved to Oslo in May."}]
    assert len(ann("POST", "/v1/memories", messages=said, session="s")["results"]) == 1
    page = {"text": "# Rooms\n\nThe attic is cold.", "url": "https://example.org/a"}
    assert ann("POST", "/v1/memories", document=page)["results"]
    cut = ann("POST", "/v1/memories", chunks=["one part", "two part"], url="https://example.org/b")
    assert len(cut["results"]) == 2
    ann("POST", "/v1/memories", text="a", messages=said, status=422)
    ann("POST", "/v1/memories", status=422)


def test_a_list_is_walked_by_its_cursor_and_misses_nothing(
    ann: Caller, memory: agentmem.MemoryManager
) -> None:
    for number in range(7):
        memory.add(
            [{"role": "user", "content": f"line {number} {part}", "created_at": 1_700_000_000}
             for part in "abc"],
            user_id="ann",
        )  # fmt: skip
    seen: list[str] = []
    cursor = ""
    while True:
        page = ann("GET", "/v1/memories", limit=4, cursor=cursor)
        seen += [one["id"] for one in page["results"]]
        cursor = page["cursor"]
        if not cursor:
            break
    assert len(seen) == len(set(seen)) == 21
    ann("GET", "/v1/memories", cursor="nonsense", status=422)
    assert len(ann("GET", "/v1/memories", kinds="fact,message", limit=5)["results"]) == 5
    assert ann("GET", "/v1/memories", kinds="fact")["results"] == []


def test_a_turn_gives_the_messages_to_send_and_takes_the_answer(
    ann: Caller, memory: agentmem.MemoryManager
) -> None:
    ann("POST", "/v1/memories", text="Ann's cat is called Miso.")
    asked = [{"role": "user", "content": "What is my cat called, Miso or not?"}]
    turn = ann("POST", "/v1/turns", messages=asked, model="gpt-4o")
    assert turn["injected"]
    assert turn["messages"][-1] == asked[0]
    assert "Miso" in turn["reference"]
    assert ann("POST", f"/v1/turns/{turn['id']}/done", answer="Miso [1].") == {"ok": True}
    memory.flush()
    context = ann("GET", f"/v1/contexts/{turn['id']}")
    assert context["outcome"]["answer"] == "Miso [1]."
    assert ann("GET", "/v1/contexts", limit=5)["results"][0]["id"] == turn["id"]
    replay = ann("POST", f"/v1/contexts/{turn['id']}/replay", settings={"top_k": 0})
    assert any(one["after"]["decision"] == "dropped" for one in replay["changes"])
    shown = next(one for one in context["looked_at"] if one["section"] == "knowledge")
    why = ann("GET", f"/v1/contexts/{turn['id']}/why", memory_id=shown["id"])
    assert why["looked"]["id"] == shown["id"]
    assert ann("POST", "/v1/contexts", query="Is Miso a cat?")["query"] == "Is Miso a cat?"


def test_a_turn_opened_by_another_worker_is_ended_all_the_same(
    memory: agentmem.MemoryManager, ann: Caller
) -> None:
    asked = [{"role": "user", "content": "My sister lives in Bergen."}]
    turn = ann("POST", "/v1/turns", messages=asked)
    memory.flush()
    with Serving(create_app(memory)) as served, httpx.Client(base_url=served.url) as other:
        elsewhere = Caller(other, "")
        elsewhere.headers = ann.headers
        elsewhere("POST", f"/v1/turns/{turn['id']}/done", answer="Noted.")
    memory.flush()
    assert ann("GET", f"/v1/contexts/{turn['id']}")["outcome"]["answer"] == "Noted."
    texts = {one["text"] for one in ann("GET", "/v1/memories")["results"]}
    assert {"My sister lives in Bergen.", "Noted."} <= texts
    ann("POST", "/v1/turns/nobody/done", answer="x", status=404)


def test_preferences_are_kept_listed_and_taken_back(ann: Caller) -> None:
    ann("POST", "/v1/preferences", text="I prefer tea.")
    (kept,) = ann("GET", "/v1/preferences")["results"]
    assert kept["text"] == "I prefer tea."
    ann("POST", f"/v1/preferences/{kept['id']}/undo")
    assert ann("GET", "/v1/preferences")["results"] == []
    second = ann("POST", "/v1/preferences", text="I prefer coffee.")
    assert ann("DELETE", f"/v1/preferences/{second['id']}") == {"ok": True}
    assert ann("DELETE", "/v1/preferences") == {"count": 0}


def test_pages_and_files_are_sources(ann: Caller) -> None:
    page = ann("POST", "/v1/sources/pages", content="<h1>Tea</h1><p>Green tea is green.</p>",
               url="https://example.org/tea", title="Tea")  # fmt: skip
    assert page["status"] == "added"
    file = ann(
        "POST", "/v1/sources/files", name="notes.md", base64_content="IyBOb3RlcwoKQnV5IG1pbGsu"
    )
    assert file["status"] == "added"
    urls = {one["url"] for one in ann("GET", "/v1/sources")["results"]}
    assert urls == {"https://example.org/tea", "file:///notes.md"}
    assert ann("GET", "/v1/sources/chunks", url="file:///notes.md")["results"]
    assert ann("DELETE", "/v1/sources", url="file:///notes.md")["count"] == 1
    ann("POST", "/v1/sources/urls", url="http://127.0.0.1/x", status=422)
    ann("POST", "/v1/sources/files", name="x", base64_content="???", status=422)


def test_tool_results_are_read_by_id_and_range(ann: Caller, bob: Caller) -> None:
    long = "\n".join(f"line {n}" for n in range(400))
    kept = ann("POST", "/v1/results", name="ls", output=long, arguments={"path": "."})
    assert not kept["whole"]
    assert ann("GET", f"/v1/results/{kept['id']}", lines="2-3")["text"] == "line 1\nline 2\n"
    assert ann("GET", f"/v1/results/{kept['id']}", range="[0,6]")["text"] == "line 0"
    assert ann("GET", "/v1/results")["results"][0]["id"] == kept["id"]
    bob("GET", f"/v1/results/{kept['id']}", status=404)


def test_contradictions_are_listed_and_resolved(
    ann: Caller, memory: agentmem.MemoryManager
) -> None:
    ann("POST", "/v1/memories", text="The API limit is 100 requests per minute.")
    ann("POST", "/v1/memories", text="The API limit is 500 requests per minute.")
    memory.flush()
    (found,) = ann("GET", "/v1/contradictions")["results"]
    assert ann("GET", f"/v1/contradictions/{found['id']}")["id"] == found["id"]
    ann("POST", f"/contradictions/{found['id']}/resolve", resolution="a wins", status=400)
    ann("POST", f"/contradictions/{found['id']}/resolve", resolution="a_wins", text="x", status=422)
    said: dict[str, Any] = {
        "resolution": "merged",
        "note": "asked",
        "text": "The API limit is 500 since May.",
    }
    resolved = ann("POST", f"/contradictions/{found['id']}/resolve", **said)
    assert resolved["contradiction"]["state"] == "merged"
    assert ann("GET", "/v1/contradictions")["results"] == []
    texts = [one["text"] for one in ann("GET", "/v1/memories")["results"]]
    assert texts == ["The API limit is 500 since May."]


def test_consolidation_is_tried_run_and_taken_back(ann: Caller) -> None:
    for text in ("Ann likes the blue mug.", "Ann likes the blue mug!"):
        ann("POST", "/v1/memories", text=text)
    assert ann("POST", "/consolidate", dry_run=True)["dry_run"] is True
    report = ann("POST", "/v1/consolidations", full=True)
    assert report["journal_id"]
    assert ann("GET", "/v1/consolidations")["results"][0]["id"] == report["journal_id"]
    assert ann("POST", f"/v1/consolidations/{report['journal_id']}/undo")["restored"] >= 1
    ann("POST", f"/v1/consolidations/{report['journal_id']}/undo", status=409)


def test_contexts_are_assembled_and_predicted_by_the_names_of_the_specification(
    ann: Caller,
) -> None:
    ann("POST", "/v1/memories", text="Deploys go through the staging cluster first.")
    signals = [["file", "deploy.py"], {"kind": "task", "value": "deploy"}]
    found = ann("POST", "/context/assemble", task="How do deploys go?", signals=signals,
                token_budget=500)  # fmt: skip
    assert "staging" in found["text"]
    assert found["tokens"] <= found["budget_tokens"] == 500
    assert {one["tier"] for one in found["tiers"]} == {1, 2, 3, 4}
    assert found["sources"]
    assert ann("POST", "/v1/signals", kind="file", value="deploy.py") == {"ok": True}
    assert "results" in ann("POST", "/context/predict", signals=signals, limit=3)
    ann("POST", "/context/predict", signals=[["weather", "rain"]], status=422)
    ann("POST", "/v1/prefetch", budget_ms=5)
    learned = ann("POST", "/v1/learn", data="We decided to use Postgres for billing.")
    assert learned["journal_id"] or learned["dry_run"] is False


def test_figures_exports_and_imports_are_of_who_asks(
    ann: Caller, bob: Caller, admin: Caller, client: httpx.Client
) -> None:
    ann("POST", "/v1/memories", text="Ann's secret garden.")
    assert ann("GET", "/v1/stats", last="24h")["memories"] == 1
    assert bob("GET", "/v1/stats")["memories"] == 0
    assert admin("GET", "/v1/stats")["memories"] == 1
    lines = client.get("/v1/export", headers=ann.headers).text
    assert "secret garden" in lines
    assert "garden" not in client.get("/v1/export", headers=bob.headers).text
    assert admin("GET", "/v1/users")["results"] == [{"user_id": "ann", "memories": 1}]
    ann("POST", "/v1/erase")
    assert bob("POST", "/v1/import", lines=lines)["imported"] == 1
    assert admin("GET", "/v1/users")["results"] == [{"user_id": "bob", "memories": 1}]
    assert admin("GET", "/v1/doctor")["checks"]
    assert admin("POST", "/v1/upkeep/verify")["result"]
    for path in ("/v1/users", "/v1/doctor", "/metrics"):
        ann("GET", path, status=403)
    ann("POST", "/v1/upkeep/vacuum", status=403)


def test_nobody_reaches_another_ones_memory(ann: Caller, bob: Caller, admin: Caller) -> None:
    (made,) = ann("POST", "/v1/memories", text="Ann's plan is gold.")["results"]
    theirs, nowhere = f"/v1/memories/{made['id']}", "/v1/memories/" + "0" * len(made["id"])
    for method, end in (("GET", ""), ("DELETE", ""), ("GET", "/history"), ("POST", "/erase")):
        one = bob.client.request(method, theirs + end, headers=bob.headers)
        other = bob.client.request(method, nowhere + end, headers=bob.headers)
        assert one.status_code == other.status_code
        assert one.text.replace(made["id"], "0" * len(made["id"])) == other.text
    for said in ({"user_id": "ann"}, {"filters": {"user_id": "ann"}},
                 {"filters": {"AND": [{"user_id": "ann"}]}}, {"project_id": "p"}):  # fmt: skip
        bob("POST", "/v1/search", query="gold plan", status=403, **said)
    bob("POST", "/v1/erase", status=403, filters={"user_id": "ann"})
    bob("POST", "/v1/memories", text="Read me.", visibility="system", status=403)
    assert bob("POST", "/v1/search", query="gold plan")["results"] == []
    assert admin("POST", "/v1/search", query="gold plan", user_id="ann")["results"]
    assert bob("POST", "/v1/search", query="gold", agent_id="a", run_id="r")["results"] == []


def test_no_token_no_answer(client: httpx.Client, memory: agentmem.MemoryManager) -> None:
    for path in ("/v1/memories", "/metrics", "/openapi.json", "/nowhere", "/v1/memories/x"):
        refused = client.get(path)
        assert refused.status_code == 401
        assert refused.headers["www-authenticate"] == "Bearer"
        for wrong in (b"amem_00000000_x", b"\xc3\xa9", b"amem_"):
            again = client.get(path, headers={b"authorization": b"Bearer " + wrong})
            assert (again.status_code, again.text) == (401, refused.text)
    token, grant = Tokens(memory.store.settings).make(admin=True)
    headers = {"authorization": f"Token {token}"}
    assert client.get("/v1/memories", headers=headers).status_code == 200
    assert client.get("/v1/memories", headers={"x-api-key": token}).status_code == 200
    Tokens(memory.store.settings).revoke(grant.id)
    assert client.get("/v1/memories", headers=headers).status_code == 401
    assert client.get("/healthz").json() == {"status": "ok"}
    assert client.get("/readyz").json() == {"status": "ready"}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "evil.example"}, 403),
        ({"host": "evil.example:80"}, 403),
        ({"host": "127.0.0.1:7077"}, 200),
        ({"host": "[::1]:7077"}, 200),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"host": "localhost", "origin": "http://localhost"}, 200),
    ],
)
def test_strange_hosts_origins_and_headers_are_refused(
    client: httpx.Client, headers: dict[str, str], status: int
) -> None:
    answer = client.get("/healthz", headers=headers)
    assert answer.status_code == status
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_bodies_rates_and_streams_have_limits(memory: agentmem.MemoryManager) -> None:
    limits = Limits(body_bytes=1_000, requests_per_second=2, streams=1)
    app = create_app(memory, limits=limits)
    token, _ = Tokens(memory.store.settings).make(admin=True)
    with Serving(app) as served, httpx.Client(base_url=served.url) as client:
        client.headers["authorization"] = f"Bearer {token}"
        large = client.post("/v1/memories", json={"text": "x" * 2_000})
        assert (large.status_code, large.json()["error"]["type"]) == (413, "RequestTooLarge")

        def pieces() -> Iterator[bytes]:
            yield b'{"text": "'
            yield b"x" * 2_000

        assert client.post("/v1/memories", content=pieces()).status_code == 413
        codes = [client.get("/v1/memories").status_code for _ in range(8)]
        assert 429 in codes
        rates = app.state.door.rates
        with rates.streaming("a"), pytest.raises(TooManyRequests), rates.streaming("a"):
            pass


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"null", b'{"text": NaN}', b'{"text": "\\ud800"}', b'{"text": 3}',
     b'{"text": "a", "importance": "1"}', b'{"text": "a", "colour": 1}', b'{"text": "\xff"}',
     b'{"text": "a", "metadata": ' + b"[" * 90_000 + b"]" * 90_000 + b"}",
     b'{"text": "a", "metadata": ' + b'{"a":' * 80 + b"1" + b"}" * 81,
     b'{"text": "a", "importance": 1e999}', b'{"text": "a", "id": ""}',
     b'{"text": "a", "importance": ' + b"9" * 5_000 + b"}"],
)  # fmt: skip
def test_what_cannot_be_read_is_refused_in_words(ann: Caller, body: bytes) -> None:
    answer = ann.client.post("/v1/memories", content=body, headers=ann.headers)
    assert 400 <= answer.status_code < 500
    assert answer.json()["error"]["message"]


def test_what_fails_inside_says_nothing_of_where(
    ann: Caller, memory: agentmem.MemoryManager, monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("/home/ann/store.db sk-abcdefghijklmnopqrstuvwxyz012345")

    monkeypatch.setattr(memory.store, "get", fail)
    answer = ann.client.get("/v1/memories/x", headers=ann.headers)
    assert answer.status_code == 500
    said = answer.text + caplog.text
    assert "ServerFailed" in said
    for secret in ("/home", "sk-abc", "Traceback"):
        assert secret not in said
