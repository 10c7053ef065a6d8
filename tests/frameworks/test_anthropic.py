"""Memory inside the Anthropic SDK: its own clients against loopback, its own tool as a twin."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import agentmem
from agentmem.base.errors import InvalidInput
from agentmem.memory.manager import MemoryManager
from agentmem.testing import HashEmbedder
from tests.frameworks.shared import ANSWER, FACT, KEPT, QUESTION, counted, kept, operations
from tests.noted_memory import references
from tests.servers.claude import ClaudeServer

anthropic = pytest.importorskip("anthropic", reason="needs agentmem-loop[anthropic]")

ASK: dict[str, Any] = {
    "model": "claude-sonnet-5-5",
    "max_tokens": 100,
    "system": "Be kind.",
    "messages": [{"role": "user", "content": QUESTION}],
}
CALL = [{"type": "tool_use", "id": "t1", "name": "hours", "input": {"day": "today"}}]


@pytest.fixture
def server() -> Iterator[ClaudeServer]:
    with ClaudeServer(ANSWER) as server:
        yield server


def connect(server: ClaudeServer, kind: Any = anthropic.Anthropic) -> Any:
    return kind(base_url=server.url, api_key="k", max_retries=0)


def test_the_reference_goes_before_the_question_and_the_answer_is_kept(
    memory: MemoryManager, server: ClaudeServer, spans: Any
) -> None:
    with connect(server) as client:
        wrapped = memory.wrap_anthropic(client)
        assert isinstance(wrapped, anthropic.Anthropic)
        answer = wrapped.messages.create(**ASK, metadata={"user_id": "ann"})
        bare = client.messages.create(**ASK)
    assert answer.content[0].text == ANSWER
    assert answer == bare
    sent = server.bodies[0]
    assert [m["role"] for m in sent["messages"]] == ["user", "assistant", "user"]
    assert FACT in sent["messages"][1]["content"]
    assert sent["messages"][2] == ASK["messages"][0]
    assert sent["system"] == "Be kind."
    assert server.bodies[1]["messages"] == ASK["messages"]
    assert kept(memory) == [KEPT, QUESTION]
    assert operations(spans) >= {"search_memory", "create_memory"}


@pytest.mark.parametrize("where", ["messages", "beta"])
def test_a_stream_gives_the_sdks_events_and_its_words_are_kept(
    memory: MemoryManager, server: ClaudeServer, where: str
) -> None:
    turns: list[Any] = []
    with connect(server) as client:
        wrapped = memory.wrap_anthropic(client, on_turn=turns.append)
        messages = wrapped.messages if where == "messages" else wrapped.beta.messages
        plain = client.messages if where == "messages" else client.beta.messages
        with messages.stream(**ASK, memory_scope="ann") as stream:
            events = [event.type for event in stream]
            final = stream.get_final_message()
        with plain.stream(**ASK) as stream:
            assert [event.type for event in stream] == events
    assert final.content[0].text == ANSWER
    assert references(server.bodies[0]["messages"]) == 1
    assert kept(memory) == [KEPT, QUESTION]
    assert counted(memory, turns[0]) == (12, 5)


def test_every_way_to_ask_opens_one_turn(memory: MemoryManager, server: ClaudeServer) -> None:
    with connect(server) as client:
        wrapped = memory.wrap_anthropic(client, scope="ann")
        assert memory.wrap_anthropic(wrapped) is wrapped
        again = wrapped.with_options(max_retries=1)
        assert list(again.messages.create(**ASK, stream=True))
        assert wrapped.messages.with_raw_response.create(**ASK).parse().content[0].text == ANSWER
        with wrapped.messages.with_streaming_response.create(**ASK) as raw:
            assert raw.parse().content[0].text == ANSWER
        with wrapped.messages.stream(**ASK) as stream:
            next(iter(stream))  # left early
        wrapped.messages.create(**ASK, memory_off=True)
    counts = [references(body["messages"]) for body in server.bodies]
    assert counts == [1, 1, 1, 1, 0]
    assert kept(memory) == [KEPT, QUESTION]


def test_an_async_client_is_served_too(memory: MemoryManager, server: ClaudeServer) -> None:
    async def main() -> str:
        async with connect(server, anthropic.AsyncAnthropic) as client:
            wrapped = memory.wrap_anthropic(client, scope="ann")
            await wrapped.messages.create(**ASK)
            async with wrapped.messages.stream(**ASK) as stream:
                said: str = await stream.get_final_text()
            return said

    assert asyncio.run(main()) == ANSWER
    assert [references(body["messages"]) for body in server.bodies] == [1, 1]
    assert kept(memory) == [KEPT, QUESTION]


def test_the_tool_runner_gets_one_reference_in_all_its_steps(memory: MemoryManager) -> None:
    @anthropic.beta_tool
    def hours(day: str) -> str:
        """When it is open."""
        return f"nine to nine {day}"

    with ClaudeServer(CALL, ANSWER) as server, connect(server) as client:
        runner = memory.wrap_anthropic(client, scope="ann").beta.messages.tool_runner(
            tools=[hours], **ASK
        )
        assert runner.until_done().content[0].text == ANSWER
    # The runner's thread is kept by the provider: a later step sends the tool's result alone.
    first, second = (body["messages"] for body in server.bodies)
    assert [block["type"] for message in second for block in message["content"]] == ["tool_result"]
    assert [references(messages) for messages in (first, second)] == [1, 0]
    assert kept(memory) == [KEPT, QUESTION]


def test_what_the_sdk_raises_is_raised_and_the_question_is_kept(memory: MemoryManager) -> None:
    with ClaudeServer(500) as server, connect(server) as client:
        wrapped = memory.wrap_anthropic(client, scope="ann")
        with pytest.raises(anthropic.InternalServerError):
            wrapped.messages.create(**ASK)
        with pytest.raises(anthropic.InternalServerError), wrapped.messages.stream(**ASK):
            pass
    assert kept(memory) == [QUESTION]


def test_a_store_that_is_gone_changes_no_answer(
    broken: MemoryManager, server: ClaudeServer
) -> None:
    with connect(server) as client:
        wrapped: Any = broken.wrap_anthropic(client, scope="ann")
        assert wrapped.messages.create(**ASK).content[0].text == ANSWER
        with wrapped.messages.stream(**ASK) as stream:
            assert stream.get_final_text() == ANSWER
    assert [body["messages"] for body in server.bodies] == [ASK["messages"]] * 2
    assert wrapped.degradations


def test_what_is_no_client_is_refused(memory: MemoryManager) -> None:
    with pytest.raises(InvalidInput, match="no client of the Anthropic SDK"):
        memory.wrap_anthropic(object())


# ----------------------------------------------------------------------------
# The memory tool.


@pytest.fixture
def tool(memory: MemoryManager) -> Any:
    from agentmem.compat.anthropic import MemoryTool

    return MemoryTool(memory, "ann")


def run(tool: Any, **command: Any) -> str:
    """What a command gives, its refusal too."""
    try:
        return str(tool.call(command))
    except anthropic.lib.tools.ToolError as error:
        return f"refused: {error}"


PATHS = st.sampled_from(
    ("/memories/a.txt", "/memories/b.txt", "/memories/d/c.txt", "/memories/d/e/f.md", "/memories/d")
)
TEXTS = st.sampled_from(
    ("", "one\ntwo\nthree\n", "one", "tea\ntea\n", "\n", " x \r\ny", "ünï\n", "]]>", "a\n\nb")
)
COMMANDS = st.one_of(
    st.fixed_dictionaries({"command": st.just("view"), "path": PATHS}, optional={"view_range": st.sampled_from(([1, 2], [2, -1], [2, 9], [3, 1]))}),
    st.fixed_dictionaries({"command": st.just("create"), "path": PATHS, "file_text": TEXTS}),
    st.fixed_dictionaries({"command": st.just("str_replace"), "path": PATHS, "old_str": st.sampled_from(("tea", "one", "two")), "new_str": TEXTS}),
    st.fixed_dictionaries({"command": st.just("insert"), "path": PATHS, "insert_line": st.integers(-1, 4), "insert_text": TEXTS}),
    st.fixed_dictionaries({"command": st.just("delete"), "path": PATHS}),
    st.fixed_dictionaries({"command": st.just("rename"), "old_path": PATHS, "new_path": PATHS}),
)  # fmt: skip


@given(st.lists(COMMANDS, max_size=8))
@settings(max_examples=25, deadline=None)
def test_the_tool_answers_as_the_sdks_own_file_tool_does(
    tmp_path_factory: pytest.TempPathFactory, commands: list[dict[str, Any]]
) -> None:
    """A file's name that is a folder of the other, or an emptied folder, is left out: ours has
    no folders of their own, and the SDK's stops at what the operating system says of them."""
    from anthropic.tools import BetaLocalFilesystemMemoryTool

    from agentmem.compat.anthropic import MemoryTool

    root = tmp_path_factory.mktemp("files")
    twin = BetaLocalFilesystemMemoryTool(str(root))
    folder = root / "memories"
    with agentmem.open(":memory:", embedder=HashEmbedder()) as memory:
        ours = MemoryTool(memory, "ann")
        for command in commands:
            try:
                expected = run(twin, **command)
            except OSError:
                break  # a file where a folder must be
            if command["command"] == "view" and "files and directories" in expected:
                assert _without_sizes(run(ours, **command)) == _without_sizes(expected)
            else:
                assert run(ours, **command) == expected
            for empty in sorted(folder.rglob("*"), reverse=True):
                if empty.is_dir() and not any(empty.iterdir()):
                    empty.rmdir()


def _without_sizes(listing: str) -> list[str]:
    return [line.split("\t")[-1] for line in listing.splitlines()]


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd", "/memories/../secret", "/memories/a/../../b", "/memoriesx/a", "memories/a",
        "/memories/%2e%2e/b", "/memories/..%2fb", "/memories/..\\b", "/memories/a\0b", "",
    ],
)  # fmt: skip
def test_a_path_that_leads_out_is_refused_by_every_command(tool: Any, path: str) -> None:
    run(tool, command="create", path="/memories/a", file_text="x")
    for command in (
        {"command": "view", "path": path},
        {"command": "create", "path": path, "file_text": "x"},
        {"command": "str_replace", "path": path, "old_str": "x", "new_str": "y"},
        {"command": "insert", "path": path, "insert_line": 0, "insert_text": "y"},
        {"command": "delete", "path": path},
        {"command": "rename", "old_path": path, "new_path": "/memories/b"},
        {"command": "rename", "old_path": "/memories/a", "new_path": path},
    ):
        assert run(tool, **command).startswith("refused: Path ")


def test_files_are_memories_of_one_scope(memory: MemoryManager, tool: Any) -> None:
    from agentmem.compat.anthropic import MemoryTool

    run(tool, command="create", path="/memories/tea.md", file_text="Ann drinks green tea.\n")
    assert memory.search("which tea?", user_id="ann")[0].memory.metadata["key"]
    other = MemoryTool(memory, "bob")
    assert "does not exist" in run(other, command="view", path="/memories/tea.md")
    run(other, command="create", path="/memories/tea.md", file_text="Bob drinks coffee.\n")
    other.clear_all_memory()
    assert "green tea" in run(tool, command="view", path="/memories/tea.md")
    assert FACT in [one.text for one in memory.get_all(user_id="ann")]


def test_the_async_tool_does_the_same(memory: MemoryManager) -> None:
    from agentmem.compat.anthropic import AsyncMemoryTool

    async def main() -> tuple[str, str]:
        tool = AsyncMemoryTool(memory, "ann", cache_control={"type": "ephemeral"})
        assert tool.to_dict()["cache_control"] == {"type": "ephemeral"}
        await tool.call({"command": "create", "path": "/memories/a", "file_text": "one\n"})
        seen = await tool.call({"command": "view", "path": "/memories/a"})
        return str(seen), str(await tool.clear_all_memory())

    assert asyncio.run(main()) == (
        "Here's the content of /memories/a with line numbers:\n     1\tone\n     2\t",
        "All memory cleared",
    )


def test_a_model_uses_the_tool_through_the_runner(memory: MemoryManager, tool: Any) -> None:
    wants = {"command": "create", "path": "/memories/tea.md", "file_text": "green tea"}
    call = [{"type": "tool_use", "id": "t1", "name": "memory", "input": wants}]
    with ClaudeServer(call, "Noted.") as server, connect(server) as client:
        client.beta.messages.tool_runner(tools=[tool], **ASK).until_done()
    result = server.bodies[1]["messages"][-1]["content"][0]
    assert "created successfully" in str(result)
    assert "green tea" in run(tool, command="view", path="/memories/tea.md")


def test_what_was_removed_is_gone_from_the_files(tool: Any, tmp_path: Path) -> None:
    run(tool, command="create", path="/memories/a", file_text="one")
    assert run(tool, command="delete", path="/memories/a") == "Successfully deleted /memories/a"
    assert run(tool, command="create", path="/memories/a", file_text="one").startswith("File cre")
