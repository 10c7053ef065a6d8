"""Clients that others wrote, against our server."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import httpx
import openai
import pytest

import agentmem
from agentmem.base.types import Scope
from agentmem.server.app import create_app
from agentmem.server.tokens import Tokens
from agentmem.tokens.litellm import import_litellm
from tests.servers.chat import ChatServer
from tests.servers.serving import Serving


@pytest.fixture
def memory() -> Iterator[agentmem.MemoryManager]:
    with agentmem.open(":memory:", embedder=None) as opened:
        yield opened


@pytest.fixture
def url(memory: agentmem.MemoryManager) -> Iterator[str]:
    with Serving(create_app(memory)) as served:
        yield served.url


def token_for(memory: agentmem.MemoryManager, user: str | None = None) -> str:
    tokens = Tokens(memory.store.settings)
    return (tokens.make(scope=Scope(user_id=user)) if user else tokens.make(admin=True))[0]


@pytest.mark.parametrize("who", ["ann", None])
def test_the_calls_of_mem0s_client_work_as_it_sends_them(
    memory: agentmem.MemoryManager, url: str, who: str | None
) -> None:
    headers = {"authorization": f"Token {token_for(memory, who)}"}
    with httpx.Client(base_url=url, headers=headers) as client:

        def ask(method: str, path: str, **said: Any) -> Any:
            answer = client.request(method, path, **said)
            assert answer.status_code == 200, answer.text
            return answer.json()

        assert ask("GET", "/v1/ping/")["status"] == "ok"
        said = {"messages": [{"role": "user", "content": "The harbour closes at nine."}], "user_id": "ann",
                "metadata": {"tag": "car"}, "infer": True, "output_format": "v1.1"}  # fmt: skip
        (made,) = ask("POST", "/v3/memories/add/", json=said)["results"]
        body: dict[str, Any] = {
            "query": "harbour closes nine",
            "filters": {"user_id": "ann"},
            "top_k": 3,
        }
        (found,) = ask("POST", "/v3/memories/search/", json=body)["results"]
        assert (found["id"], found["memory"]) == (made["id"], "The harbour closes at nine.")
        assert found["metadata"]["tag"] == "car"
        where = {"filters": {"AND": [{"user_id": "ann"}, {"app_id": "*"}]}}
        page = ask("POST", "/v3/memories/", json=where, params={"page": 1, "page_size": 1})
        assert ask("POST", "/v3/memories/", json={**where, "page": "1", "page_size": "1"}) == page
        assert page["results"][0]["user_id"] == "ann"
        one = f"/v1/memories/{made['id']}/"
        assert ask("GET", one)["memory"] == "The harbour closes at nine."
        assert (
            ask("PUT", one, json={"text": "The harbour closes at ten."})["memory"]
            == "The harbour closes at ten."
        )
        events = ask("GET", f"{one}history/")
        assert [event["event"] for event in events] == ["ADD", "UPDATE"]
        assert events[1]["old_memory"] == "The harbour closes at nine."
        assert ask("GET", "/v1/entities/")["results"][0]["name"] == "ann"
        batch = {"memories": [{"memory_id": made["id"], "text": "The harbour is closed."}]}
        assert "updated 1" in ask("PUT", "/v1/batch/", json=batch)["message"]
        assert "deleted 1" in ask("DELETE", "/v1/batch/", json=batch)["message"]
        assert client.get(one).status_code == 404
        ask(
            "POST",
            "/v3/memories/add/",
            json={**said, "messages": [{"role": "user", "content": "x y"}]},
        )
        assert ask("DELETE", "/v1/memories/", params={"user_id": "ann"})["message"]
        left = ask("POST", "/v3/memories/", json=where)["results"]
        assert [one for one in left if one["kind"] == "message"] == []
        assert ask("DELETE", "/v2/entities/user/ann/")["message"]


@pytest.mark.parametrize("who", ["ann", None])
def test_what_mem0s_client_lets_end_is_hidden_and_what_it_deletes_has_a_history(
    memory: agentmem.MemoryManager, url: str, who: str | None
) -> None:
    headers = {"authorization": f"Token {token_for(memory, who)}"}
    with httpx.Client(base_url=url, headers=headers) as client:

        def post(path: str, **said: Any) -> Any:
            answer = client.post(f"/v3/memories/{path}", json={"user_id": "ann", **said})
            assert answer.status_code == 200, answer.text
            return answer.json()["results"]

        said = [{"role": "user", "content": "I love green tea."}]
        (over,) = post("add/", messages=said, infer=False, expiration_date="2001-01-01")
        assert memory.preferences.get_all(user_id="ann") == ()
        assert post("search/", query="green tea", threshold=0.0) == post("") == []
        (kept,) = post("add/", messages=said, infer=False, expiration_date="2999-01-01")
        assert [one["id"] for one in post("search/", query="green tea")] == [kept["id"]]
        assert post("")[0]["expiration_date"] == "2999-01-01"
        soon = {"messages": said, "user_id": "ann", "expiration_date": "soon"}
        assert client.post("/v3/memories/add/", json=soon).status_code == 422
        assert client.delete(f"/v1/memories/{over['id']}/").status_code == 200
        events = client.get(f"/v1/memories/{over['id']}/history/").json()
        assert [one["event"] for one in events] == ["ADD", "DELETE"]
        assert client.get("/v1/memories/nobody-knows/history/").status_code == 404


def test_a_token_of_mem0s_client_reaches_nobody_else(
    memory: agentmem.MemoryManager, url: str
) -> None:
    memory.add("Ann's plan is gold.", user_id="ann")
    (gold,) = memory.get_all(user_id="ann")
    headers = {"authorization": f"Token {token_for(memory, 'bob')}"}
    with httpx.Client(base_url=url, headers=headers) as client:
        for filters in ({"user_id": "ann"}, {"AND": [{"user_id": "ann"}]},
                        {"type": "eq", "user_id": "ann"}, {"app_id": "p"}):  # fmt: skip
            body = {"query": "gold plan", "filters": filters}
            assert client.post("/v3/memories/search/", json=body).status_code == 403
        body = {"query": "gold plan", "filters": {"type": "eq", "user_id": "ann"}}
        assert client.post("/v1/search", json=body).status_code == 403
        body = {"query": "gold plan", "filters": {"OR": [{"user_id": "ann"}, {"user_id": "*"}]}}
        assert client.post("/v3/memories/search/", json=body).json()["results"] == []
        assert client.get(f"/v1/memories/{gold.id}/").status_code == 404
        assert client.delete("/v2/entities/user/ann/").status_code == 404
        assert client.delete("/v1/memories/", params={"user_id": "ann"}).status_code == 403
        batch = {"memories": [{"memory_id": gold.id}]}
        assert client.request("DELETE", "/v1/batch/", json=batch).status_code == 404
        store = "/v1/vector_stores/ann/search"
        assert client.post(store, json={"query": "gold"}).status_code == 404
        wanted = {"type": "eq", "key": "user_id", "value": "ann"}
        refused = client.post(
            "/v1/vector_stores/default/search", json={"query": "gold", "filters": wanted}
        )
        assert refused.status_code == 422
    assert memory.get(gold.id, user_id="ann") == gold


@pytest.mark.filterwarnings("default")
def test_mem0s_own_client_works(
    memory: agentmem.MemoryManager, url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.setenv("MEM0_TELEMETRY", "False")
    monkeypatch.setenv("MEM0_DIR", str(tmp_path))
    mem0 = pytest.importorskip("mem0", reason="mem0ai is not installed")
    with httpx.Client(timeout=30) as http:
        client = mem0.MemoryClient(api_key=token_for(memory), host=url, client=http)
        (made,) = client.add("The harbour closes at nine.", user_id="ann")["results"]
        assert (
            client.search("harbour closes nine", filters={"user_id": "ann"})["results"][0]["id"]
            == made["id"]
        )
        assert client.get_all(filters={"user_id": "ann"})["count"] >= 1
        assert client.get(made["id"])["memory"] == "The harbour closes at nine."
        assert (
            client.update(made["id"], text="The harbour is closed.")["memory"]
            == "The harbour is closed."
        )
        assert len(client.history(made["id"])) == 2
        assert client.users()["results"][0]["name"] == "ann"
        assert client.batch_update([{"memory_id": made["id"], "text": "The harbour is gone."}])
        assert client.delete(made["id"])["message"]
        assert client.delete_all(user_id="ann")["message"]


def test_openais_client_searches_it_as_a_vector_store(
    memory: agentmem.MemoryManager, url: str
) -> None:
    memory.add("Ann's cat is called Miso.", user_id="ann", metadata={"tag": "pet"})
    memory.add("Ann's cat hates rain.", user_id="ann")
    with openai.OpenAI(base_url=f"{url}/v1", api_key=token_for(memory, "ann")) as client:
        found = client.vector_stores.search("default", query="cat called Miso")
        assert found.data[0].content[0].text == "Ann's cat is called Miso."
        assert found.data[0].attributes == {"kind": "fact", "url": "", "tag": "pet"}
        wanted: Any = {"type": "and", "filters": [{"type": "eq", "key": "tag", "value": "pet"}]}
        only = client.vector_stores.search("ann", query=["cat", "rain"], filters=wanted)
        assert [one.attributes["tag"] for one in only.data if one.attributes] == ["pet"]
        with pytest.raises(openai.NotFoundError):
            client.vector_stores.search("bob", query="cat")


@pytest.mark.filterwarnings("ignore")  # litellm's own
def test_litellms_registry_of_vector_stores_searches_it(
    memory: agentmem.MemoryManager, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    litellm = import_litellm("the test")
    from litellm.vector_stores.vector_store_registry import (
        LiteLLM_ManagedVectorStore,
        VectorStoreRegistry,
    )

    memory.add("Ann's cat is called Miso.", user_id="ann")
    reached = {"api_base": f"{url}/v1", "api_key": token_for(memory, "ann")}
    found = litellm.vector_stores.search(
        vector_store_id="default", query="cat called Miso", custom_llm_provider="openai", **reached
    )
    assert found["data"][0]["content"][0]["text"] == "Ann's cat is called Miso."
    store = LiteLLM_ManagedVectorStore(
        vector_store_id="default", custom_llm_provider="openai", litellm_params=reached
    )
    registry = VectorStoreRegistry(vector_stores=[store])
    monkeypatch.setattr(litellm, "vector_store_registry", registry, raising=False)
    asked = [{"role": "user", "content": "What is the cat called?"}]
    tools = [{"type": "file_search", "vector_store_ids": ["default"]}]
    with ChatServer("Miso.") as chat:
        asyncio.run(
            litellm.acompletion(
                model="openai/gpt-4o", messages=asked, tools=tools, api_base=chat.url, api_key="k"
            )
        )
    assert "Ann's cat is called Miso." in chat.bodies[0]["messages"][0]["content"]
