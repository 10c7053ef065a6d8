"""The Model Context Protocol: what its tools answer, to whom, and how clients of others see it."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.shared.exceptions import MCPError

import agentmem
from agentmem.base.errors import InvalidInput
from agentmem.base.types import Scope
from agentmem.prompt.block import parse_context
from agentmem.server.app import create_app
from agentmem.server.mcp import INSTRUCTIONS, NOTHING, Tools, make_server
from agentmem.server.tokens import Tokens
from tests.servers.mcp_suite import over_http, with_fixtures
from tests.servers.serving import Serving
from tests.unit.cli_running import ROOT, environment

EXPECTED = ROOT / "tests" / "servers" / "mcp_expected.yml"
NODE = ROOT / ".node" / "node_modules" / ".bin"
ANA, BOB = Scope(user_id="ana"), Scope(user_id="bob")


@pytest.fixture
def memory() -> Iterator[agentmem.MemoryManager]:
    with agentmem.open(":memory:", embedder=None) as opened:
        yield opened


def tools(memory: agentmem.MemoryManager, scope: Scope = ANA, limit_tokens: int = 2_000) -> Tools:
    return Tools(memory, scope, limit_tokens=limit_tokens)


def ids_in(answer: str) -> list[str]:
    return re.findall(r' id="([^"]+)"', answer)


def call(memory: agentmem.MemoryManager, name: str, **arguments: Any) -> tuple[str, bool]:
    """What a client is answered, and whether as an error."""

    async def ask() -> tuple[str, bool]:
        async with Client(make_server(memory, lambda _: ANA)) as client:
            try:
                answer = await client.call_tool(name, arguments)
            except MCPError as error:
                return str(error), True
            (content,) = answer.content
            assert content.type == "text"
            return content.text, bool(answer.is_error)

    return asyncio.run(ask())


def test_a_search_gives_lines_and_the_whole_texts_on_demand(memory: agentmem.MemoryManager) -> None:
    long = "The garden shed holds " + "many rakes and spades and pots, " * 20 + "and a boat."
    memory.add(long, user_id="ana")
    lines = tools(memory).search_memories("garden shed")
    assert "and a boat" not in lines
    assert 'cut="yes"' in lines
    whole = tools(memory).get_memories(ids_in(lines))
    assert "and a boat." in whole
    assert "cut=" not in whole
    assert "and a boat." in tools(memory).search_memories("garden shed", full=True)


def test_nothing_found_is_said_in_words(memory: agentmem.MemoryManager) -> None:
    assert tools(memory).search_memories("garden") == NOTHING
    assert tools(memory).get_memories(["no-such-id"]) == "No such memory: no-such-id."


def test_one_long_memory_does_not_hide_the_others(memory: agentmem.MemoryManager) -> None:
    long = memory.add("boat " * 30_000, user_id="ana").items[0].id
    short = memory.add("The boat is blue.", user_id="ana").items[0].id
    answer = tools(memory).get_memories([long, short])
    assert ids_in(answer) == [long, short]
    assert "The boat is blue." in answer


def test_a_long_memory_is_read_in_pages_to_its_end(memory: agentmem.MemoryManager) -> None:
    text = "".join(f"<line {number}>\n" for number in range(2_000))
    named = memory.add(text, user_id="ana").items[0].id
    seen, offset = 0, 0
    while offset is not None:
        page = tools(memory, limit_tokens=1_000).read_result(named, offset=offset)
        parse_context(page, secret=memory.runtime.secret())
        seen += page.count("&lt;line ")
        after = re.search(r"offset=(\d+)", page)
        assert after is None or int(after[1]) > offset
        offset = int(after[1]) if after else None  # type: ignore[assignment]  # ends the loop
    assert seen == 2_000


def test_whose_memory_it_is_no_argument_can_change(memory: agentmem.MemoryManager) -> None:
    theirs = memory.add("Bob keeps a boat.", user_id="bob").items[0].id
    assert tools(memory).search_memories("boat") == NOTHING
    assert tools(memory).get_memories([theirs]) == f"No such memory: {theirs}."
    assert "Bob keeps" not in tools(memory).read_result(theirs)
    said, failed = call(memory, "update_memory", id=theirs, text="Bob keeps nothing.")
    assert failed
    missing, _ = call(memory, "update_memory", id="0" * 36, text="x")
    assert said.replace(theirs, "") == missing.replace("0" * 36, "")
    assert call(memory, "search_memories", query="boat", user_id="bob")[1]


def test_what_the_assistant_adds_is_not_taken_for_the_users_words(
    memory: agentmem.MemoryManager,
) -> None:
    said = tools(memory).add_memory("I prefer tabs over spaces.")
    kept = memory.get(said.removeprefix("Remembered as ").rstrip("."), user_id="ana")
    assert (kept.origin, kept.kind) == ("assistant", "fact")
    assert memory.preferences.get_all(user_id="ana") == ()
    assert tools(memory).add_memory("I prefer tabs over spaces.").startswith("Already known as")
    stated = memory.add("The shop opens at nine.", user_id="ana").items[0].id
    tools(memory).update_memory(stated, "The shop opens at ten.")
    changed = memory.get(stated, user_id="ana")
    assert (changed.text, changed.origin) == ("The shop opens at ten.", "assistant")
    assert [v.memory.text for v in memory.history(stated, user_id="ana")] == [
        "The shop opens at nine."
    ]


def test_preferences_results_and_shared_memories_cannot_be_changed(
    memory: agentmem.MemoryManager,
) -> None:
    preferred = memory.preferences.add("I prefer tabs.", user_id="ana").id
    shared = memory.add("The rule.", user_id="ana", visibility="system").items[0].id
    for one in (preferred, shared):
        with pytest.raises(InvalidInput, match="cannot be changed from here"):
            tools(memory).update_memory(one, "something else")


def test_a_key_is_refused_and_not_repeated(memory: agentmem.MemoryManager) -> None:
    key = "sk-abcdefghij1234567890ABCD"
    for arguments in (("add_memory", {}), ("update_memory", {"id": "x"})):
        said, failed = call(memory, arguments[0], text=f"The key is {key}", **arguments[1])
        assert failed
        assert key not in said
    assert not memory.get_all(user_id="ana")


def test_an_answer_of_memory_is_not_remembered_again(memory: agentmem.MemoryManager) -> None:
    memory.add("The boat is blue.", user_id="ana")
    answer = tools(memory).search_memories("boat")
    with pytest.raises(InvalidInput, match="is empty"):
        tools(memory).add_memory(answer)
    tools(memory).add_memory(f"I looked it up. {answer}")
    assert sorted(one.text for one in memory.get_all(user_id="ana")) == [
        "I looked it up.",
        "The boat is blue.",
    ]


def test_recent_contexts_are_resources(memory: agentmem.MemoryManager) -> None:
    memory.add("The boat is blue.", user_id="ana")
    question = [{"role": "user", "content": "Which colour is the boat?"}]
    memory.turn(question, user_id="ana").done("It is blue.")
    memory.turn(question, user_id="bob").done("I do not know.")
    memory.flush()

    async def read() -> tuple[list[str], str, str]:
        async with Client(make_server(memory, lambda _: ANA)) as client:
            listed = (await client.list_resources()).resources
            (contents,) = (await client.read_resource(str(listed[0].uri))).contents
            with pytest.raises(MCPError) as refused:
                await client.read_resource("agentmem://contexts/nobody")
            shown = " ".join(str(one.description) + one.name for one in listed)
            return [str(one.uri) for one in listed], contents.text, shown + str(refused.value)  # type: ignore[union-attr]  # it is text

    uris, text, shown = asyncio.run(read())
    assert len(uris) == 1
    shown_block = parse_context(text, secret=memory.runtime.secret())
    said = [source.text for source in shown_block.related_knowledge]
    assert said == ["Which colour is the boat?", "It is blue.", "The boat is blue."]
    assert "boat" not in shown


def test_a_client_is_told_when_to_use_which_tool(memory: agentmem.MemoryManager) -> None:
    async def look() -> None:
        async with Client(make_server(memory, lambda _: ANA)) as client:
            assert client.instructions == INSTRUCTIONS
            listed = (await client.list_tools()).tools
        names = ["search_memories", "get_memories", "add_memory", "update_memory", "read_result"]
        assert [tool.name for tool in listed] == names
        assert all(name in INSTRUCTIONS for name in names)
        assert all("user_id" not in str(tool.input_schema) for tool in listed)
        reading = [
            tool.name for tool in listed if tool.annotations and tool.annotations.read_only_hint
        ]
        assert reading == ["search_memories", "get_memories", "read_result"]

    asyncio.run(look())


def test_wrong_arguments_are_answered_with_what_is_wrong(memory: agentmem.MemoryManager) -> None:
    said, failed = call(memory, "search_memories", query="x", limit=1_000)
    assert failed
    assert "limit" in said
    assert call(memory, "drop_everything") == ("There is no such tool.", True)
    with pytest.raises(InvalidInput, match="too much"):
        make_server(memory, lambda _: ANA, limit_tokens=1_000_000)


def test_over_http_a_foreign_host_or_origin_is_refused(memory: agentmem.MemoryManager) -> None:
    memory.add("The boat is blue.", user_id="ana")
    asked = {
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "search_memories", "arguments": {"query": "boat"}},
    }  # fmt: skip
    accepted = {"accept": "application/json, text/event-stream"}
    with over_http(make_server(memory, lambda _: ANA)) as url, httpx.Client() as client:
        good = client.post(url, json=asked, headers=accepted)
        assert "The boat is blue." in good.json()["result"]["content"][0]["text"]
        for header in ({"host": "evil.example"}, {"origin": "http://evil.example"}):
            refused = client.post(url, json=asked, headers={**accepted, **header})
            assert refused.status_code == 403
            assert "boat" not in refused.text


def test_over_http_each_request_sees_what_its_own_token_may_see(
    memory: agentmem.MemoryManager,
) -> None:
    memory.add("Ana's boat is blue.", user_id="ana")
    memory.add("Bob's boat is red.", user_id="bob")

    async def ask(url: str, user: str) -> str:
        from mcp.client.streamable_http import streamable_http_client

        async with (
            httpx2.AsyncClient(headers={"x-user": user}) as http,
            Client(streamable_http_client(url, http_client=http)) as client,
        ):
            answer = await client.call_tool("search_memories", {"query": "boat"})
            return str(answer.content[0])

    with over_http(
        make_server(memory, lambda request: Scope(user_id=request.headers["x-user"]))
    ) as url:
        ana, bob = asyncio.run(ask(url, "ana")), asyncio.run(ask(url, "bob"))
    assert ("blue" in ana, "red" in ana) == (True, False)
    assert ("blue" in bob, "red" in bob) == (False, True)


def test_the_server_answers_at_mcp_for_the_owner_of_the_token(
    memory: agentmem.MemoryManager,
) -> None:
    from mcp.client.streamable_http import streamable_http_client

    memory.add("Ana's boat is blue.", user_id="ana")
    memory.add("Bob's boat is red.", user_id="bob")
    token, _ = Tokens(memory.store.settings).make(scope=BOB)

    async def ask(url: str) -> str:
        async with (
            httpx2.AsyncClient(headers={"authorization": f"Bearer {token}"}) as http,
            Client(streamable_http_client(f"{url}/mcp", http_client=http)) as client,
        ):
            return str((await client.call_tool("search_memories", {"query": "boat"})).content[0])

    with Serving(create_app(memory)) as serving:
        answer = asyncio.run(ask(serving.url))
        assert ("blue" in answer, "red" in answer) == (False, True)
        asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        for headers in ({}, {"authorization": "Bearer amem_x_y"}):
            refused = httpx.post(f"{serving.url}/mcp", json=asked, headers=headers)
            assert refused.status_code == 401
        with_token = {"authorization": f"Bearer {token}", "origin": "http://evil.example"}
        assert httpx.post(f"{serving.url}/mcp", json=asked, headers=with_token).status_code == 403


def test_the_command_serves_one_users_memory_on_stdin_and_stdout(tmp_path: Path) -> None:
    store = tmp_path / "memory.db"
    with agentmem.open(store, embedder=None) as memory:
        memory.add("Ana's boat is blue.", user_id="ana")
        memory.add("Bob's boat is red.", user_id="bob")
    command = StdioServerParameters(
        command=sys.executable, args=["-m", "agentmem", "mcp", "--user", "ana"],
        env=environment(store),
    )  # fmt: skip

    async def ask() -> str:
        async with Client(command) as client:
            await client.call_tool("add_memory", {"text": "The mooring is number nine."})
            return str((await client.call_tool("search_memories", {"query": "boat"})).content[0])

    answer = asyncio.run(ask())
    assert ("blue" in answer, "red" in answer) == (True, False)
    with agentmem.open(store, embedder=None) as memory:
        assert "The mooring is number nine." in [m.text for m in memory.get_all(user_id="ana")]


# -- clients and suites of others ----------------------------------------------------------


def run_node(*command: str, seconds: float = 240) -> str:
    if not (NODE / "node").exists():
        pytest.skip("Node 22 and the suites are not here: `make node` installs them into .node")
    env = {**os.environ, "PATH": f"{NODE}{os.pathsep}{os.environ['PATH']}"}
    ran = subprocess.run(
        [str(NODE / command[0]), *command[1:]],
        env=env, cwd=ROOT, capture_output=True, text=True, encoding="utf-8", timeout=seconds,
        check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout[-3_000:] + ran.stderr[-2_000:]
    return ran.stdout


def test_the_conformance_suite_passes_but_for_what_is_explained(
    memory: agentmem.MemoryManager,
) -> None:
    with over_http(with_fixtures(make_server(memory, lambda _: ANA))) as url:
        said = run_node("conformance", "server", "--url", url, "--expected-failures", str(EXPECTED))
    assert "dns-rebinding-protection: 2 passed, 0 failed" in said
    assert len(re.findall(r"[1-9]\d* passed, 0 failed", said)) >= 20


def test_every_expected_failure_is_explained() -> None:
    lines = EXPECTED.read_text("utf-8").splitlines()
    listed = [at for at, line in enumerate(lines) if line.startswith("  - ")]
    assert listed
    assert all(lines[at - 1].lstrip().startswith("#") for at in listed)


def test_the_inspector_finds_what_is_stored(tmp_path: Path) -> None:
    store = tmp_path / "memory.db"
    with agentmem.open(store, embedder=None) as memory:
        memory.add("The boat is blue.", user_id="ana")
    said = run_node(
        "mcp-inspector", "--cli", "-e", "AGENTMEM_EMBEDDER=none", "-e", f"PYTHONPATH={ROOT}",
        sys.executable, "-m", "agentmem", "mcp", "--store", str(store), "--user", "ana",
        "--method", "tools/call", "--tool-name", "search_memories", "--tool-arg", "query=boat",
    )  # fmt: skip
    assert "The boat is blue." in said
