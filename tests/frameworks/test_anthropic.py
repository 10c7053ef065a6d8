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


SEEN = "Here's the content of {} with line numbers:\n{}"
EDITED = "The memory file has been edited. Here is the snippet showing the change (with line numbers):\n{}"
MISSING = "refused: The path {} does not exist. Please provide a valid path."
CASES: dict[str, tuple[dict[str, str], dict[str, Any], str, dict[str, str | None]]] = {
    # What there is, a command, what it says, and what has changed then.
    "a file is made": ({}, {"command": "create", "path": "a.txt", "file_text": "Green tea"}, "File created successfully at: /memories/a.txt", {"a.txt": "Green tea"}),
    "folders are made with it": ({}, {"command": "create", "path": "x/y/a.txt", "file_text": "tea"}, "File created successfully at: /memories/x/y/a.txt", {"x/y/a.txt": "tea"}),
    "a file is not made twice": ({"a.txt": "old"}, {"command": "create", "path": "a.txt", "file_text": "new"}, "refused: File /memories/a.txt already exists", {}),
    "a file may be empty": ({}, {"command": "create", "path": "a.txt", "file_text": ""}, "File created successfully at: /memories/a.txt", {"a.txt": ""}),
    "a file is shown with numbers": ({"a.txt": "one\ntwo"}, {"command": "view", "path": "a.txt"}, SEEN.format("/memories/a.txt", "     1\tone\n     2\ttwo"), {}),
    "a part of it": ({"a.txt": "1\n2\n3\n4"}, {"command": "view", "path": "a.txt", "view_range": [2, 3]}, SEEN.format("/memories/a.txt", "     2\t2\n     3\t3"), {}),
    "from a line to the end": ({"a.txt": "1\n2\n3"}, {"command": "view", "path": "a.txt", "view_range": [2, -1]}, SEEN.format("/memories/a.txt", "     2\t2\n     3\t3"), {}),
    "what is not there is not shown": ({}, {"command": "view", "path": "no.txt"}, MISSING.format("/memories/no.txt"), {}),
    "line ends are shown as they are": ({"a.txt": "one\r\ntwo\r\n"}, {"command": "view", "path": "a.txt"}, SEEN.format("/memories/a.txt", "     1\tone\r\n     2\ttwo\r\n     3\t"), {}),
    "a text is replaced": ({"a.txt": "one\nold\nthree"}, {"command": "str_replace", "path": "a.txt", "old_str": "old", "new_str": "new"}, EDITED.format("     1\tone\n     2\tnew\n     3\tthree"), {"a.txt": "one\nnew\nthree"}),
    "its neighbours are shown": ({"a.txt": "1\n2\n3\nold\n5\n6\n7"}, {"command": "str_replace", "path": "a.txt", "old_str": "old", "new_str": "4"}, EDITED.format("     2\t2\n     3\t3\n     4\t4\n     5\t5\n     6\t6"), {"a.txt": "1\n2\n3\n4\n5\n6\n7"}),
    "a text is taken out": ({"a.txt": "green tea"}, {"command": "str_replace", "path": "a.txt", "old_str": "green ", "new_str": ""}, EDITED.format("     1\ttea"), {"a.txt": "tea"}),
    "a text that is not there": ({"a.txt": "tea"}, {"command": "str_replace", "path": "a.txt", "old_str": "milk", "new_str": "x"}, "refused: No replacement was performed, old_str `milk` did not appear verbatim in /memories/a.txt.", {}),
    "a text that is there twice": ({"a.txt": "tea\nmilk\ntea"}, {"command": "str_replace", "path": "a.txt", "old_str": "tea", "new_str": "x"}, "refused: No replacement was performed. Multiple occurrences of old_str `tea` in lines: 1, 3. Please ensure it is unique", {}),
    "a replacement in no file": ({}, {"command": "str_replace", "path": "no.txt", "old_str": "a", "new_str": "b"}, MISSING.format("/memories/no.txt"), {}),
    "a replacement keeps line ends": ({"a.txt": "1\r\n2\r\n3\r\n"}, {"command": "str_replace", "path": "a.txt", "old_str": "2", "new_str": "two"}, EDITED.format("     1\t1\r\n     2\ttwo\r\n     3\t3\r\n     4\t"), {"a.txt": "1\r\ntwo\r\n3\r\n"}),
    "a line goes in between": ({"a.txt": "1\n2"}, {"command": "insert", "path": "a.txt", "insert_line": 1, "insert_text": "x"}, "The file /memories/a.txt has been edited.", {"a.txt": "1\nx\n2\n"}),
    "a line goes first": ({"a.txt": "1\n2"}, {"command": "insert", "path": "a.txt", "insert_line": 0, "insert_text": "x"}, "The file /memories/a.txt has been edited.", {"a.txt": "x\n1\n2\n"}),
    "a line goes last": ({"a.txt": "1\n2"}, {"command": "insert", "path": "a.txt", "insert_line": 2, "insert_text": "x"}, "The file /memories/a.txt has been edited.", {"a.txt": "1\n2\nx\n"}),
    "lines go in together": ({"a.txt": "1\n"}, {"command": "insert", "path": "a.txt", "insert_line": 1, "insert_text": "x\ny\n"}, "The file /memories/a.txt has been edited.", {"a.txt": "1\nx\ny\n"}),
    "a line goes into an empty file": ({"a.txt": ""}, {"command": "insert", "path": "a.txt", "insert_line": 0, "insert_text": "x"}, "The file /memories/a.txt has been edited.", {"a.txt": "x\n"}),
    "other lines keep their ends": ({"a.txt": "1\r\n2\r\n"}, {"command": "insert", "path": "a.txt", "insert_line": 1, "insert_text": "x"}, "The file /memories/a.txt has been edited.", {"a.txt": "1\r\nx\n2\r\n"}),
    "a line past the end": ({"a.txt": "1\n2"}, {"command": "insert", "path": "a.txt", "insert_line": 9, "insert_text": "x"}, "refused: Invalid `insert_line` parameter: 9. It should be within the range [0, 2].", {}),
    "a line before the start": ({"a.txt": "1\n2"}, {"command": "insert", "path": "a.txt", "insert_line": -1, "insert_text": "x"}, "refused: Invalid `insert_line` parameter: -1. It should be within the range [0, 2].", {}),
    "a line for no file": ({}, {"command": "insert", "path": "no.txt", "insert_line": 0, "insert_text": "x"}, MISSING.format("/memories/no.txt"), {}),
    "a file is deleted": ({"a.txt": "1", "b.txt": "2"}, {"command": "delete", "path": "a.txt"}, "Successfully deleted /memories/a.txt", {"a.txt": None}),
    "a folder is deleted with all in it": ({"d/a.txt": "1", "d/e/b.txt": "2", "dd.txt": "3"}, {"command": "delete", "path": "d"}, "Successfully deleted /memories/d", {"d/a.txt": None, "d/e/b.txt": None}),
    "what is not there is not deleted": ({}, {"command": "delete", "path": "no.txt"}, "refused: The path /memories/no.txt does not exist", {}),
    "the root stays": ({"a.txt": "1"}, {"command": "delete", "path": ""}, "refused: Cannot delete the /memories directory itself", {}),
    "a file is renamed": ({"a.txt": "1"}, {"command": "rename", "old_path": "a.txt", "new_path": "b.txt"}, "Successfully renamed /memories/a.txt to /memories/b.txt", {"a.txt": None, "b.txt": "1"}),
    "it may move into new folders": ({"a.txt": "1"}, {"command": "rename", "old_path": "a.txt", "new_path": "d/e/b.txt"}, "Successfully renamed /memories/a.txt to /memories/d/e/b.txt", {"a.txt": None, "d/e/b.txt": "1"}),
    "a folder is renamed with all in it": ({"d/a.txt": "1", "d/e/b.txt": "2"}, {"command": "rename", "old_path": "d", "new_path": "f"}, "Successfully renamed /memories/d to /memories/f", {"d/a.txt": None, "d/e/b.txt": None, "f/a.txt": "1", "f/e/b.txt": "2"}),
    "what is not there is not renamed": ({}, {"command": "rename", "old_path": "no.txt", "new_path": "b.txt"}, "refused: The path /memories/no.txt does not exist", {}),
    "nothing is renamed over another": ({"a.txt": "1", "b.txt": "2"}, {"command": "rename", "old_path": "a.txt", "new_path": "b.txt"}, "refused: The destination /memories/b.txt already exists", {}),
    "a path out of the root": ({}, {"command": "create", "path": "/elsewhere/a.txt", "file_text": "x"}, "refused: Path must start with /memories, got: /elsewhere/a.txt", {}),
    "a path up and out": ({}, {"command": "create", "path": "/memories/../../etc/passwd", "file_text": "x"}, "refused: Path /memories/../../etc/passwd would escape /memories directory", {}),
}  # fmt: skip
FOLDER_CASES = {
    "a folder lists its files": ({"d/b.txt": "22", "d/a.txt": "1"}, "d", ["/memories/d", "/memories/d/a.txt", "/memories/d/b.txt"]),
    "two levels and no more": ({"d/e/f/g.txt": "1", "a.txt": "2"}, "", ["/memories", "/memories/a.txt", "/memories/d/", "/memories/d/e/"]),
    "hidden ones are left out": ({".secret": "1", "d/.git/x": "2", "a.txt": "3", "d/b.txt": "4"}, "", ["/memories", "/memories/a.txt", "/memories/d/", "/memories/d/b.txt"]),
}  # fmt: skip


def at(path: str) -> str:
    return path if path.startswith("/") else f"/memories/{path}".rstrip("/")


def placed(command: dict[str, Any]) -> dict[str, Any]:
    return {name: at(value) if name.endswith("path") else value for name, value in command.items()}


class Awaited:
    """The async tool, called as the other."""

    def __init__(self, tool: Any) -> None:
        self._tool = tool

    def call(self, command: Any) -> Any:
        return asyncio.run(self._tool.call(command))


@pytest.fixture(params=["the SDK's own", "ours", "ours, awaited"])
def any_tool(request: pytest.FixtureRequest, memory: MemoryManager, tmp_path: Path) -> Any:
    """The SDK's own tool stands beside ours, so that what is expected is what it does."""
    from anthropic.tools import BetaLocalFilesystemMemoryTool

    from agentmem.compat.anthropic import AsyncMemoryTool, MemoryTool

    if request.param == "the SDK's own":
        return BetaLocalFilesystemMemoryTool(str(tmp_path))
    return MemoryTool(memory, "ann") if request.param == "ours" else Awaited(AsyncMemoryTool(memory, "ann"))  # fmt: skip


def texts(tool: Any, paths: Any) -> dict[str, str | None]:
    """What files say, read through the tool itself."""
    found: dict[str, str | None] = {}
    for path in paths:
        seen = run(tool, command="view", path=at(path))
        lines = None if seen.startswith("refused") else seen.split("\n")[1:]
        found[path] = None if lines is None else "\n".join(line[7:] for line in lines)
    return found


@pytest.mark.parametrize("case", CASES)
def test_a_command_does_what_the_sdk_says(any_tool: Any, case: str) -> None:
    there, command, said, changed = CASES[case]
    for path, text in there.items():
        run(any_tool, command="create", path=at(path), file_text=text)
    assert run(any_tool, **placed(command)) == said
    expected = {**there, **changed}
    assert texts(any_tool, expected) == expected


@pytest.mark.parametrize("case", FOLDER_CASES)
def test_a_folder_is_listed_as_the_sdk_lists_it(any_tool: Any, case: str) -> None:
    there, path, listed = FOLDER_CASES[case]
    for name, text in there.items():
        run(any_tool, command="create", path=at(name), file_text=text)
    seen = run(any_tool, command="view", path=at(path)).split("\n")
    assert seen[0] == (
        f"Here're the files and directories up to 2 levels deep in {at(path)}, excluding hidden items:"
    )
    assert [line.split("\t")[1] for line in seen[1:]] == listed


def test_a_file_with_too_many_lines_is_not_shown(
    tool: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from agentmem.compat import anthropic as ours

    assert ours.MOST_LINES == 999_999
    monkeypatch.setattr(ours, "MOST_LINES", 3)
    run(tool, command="create", path="/memories/a", file_text="1\n2\n3\n4")
    said = run(tool, command="view", path="/memories/a")
    assert said == "refused: File /memories/a exceeds maximum line limit of 3 lines."


def test_no_command_leaves_a_file_on_the_disk(
    tool: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So there is no link to follow and no folder that others may read."""
    monkeypatch.chdir(tmp_path)
    run(tool, command="create", path="/memories/link", file_text="/etc/passwd")
    assert "/etc/passwd" in run(tool, command="view", path="/memories/link")
    assert "does not exist" in run(tool, command="view", path="/memories/link/secret")
    assert "is a file" in run(tool, command="create", path="/memories/link/x", file_text="y")
    run(tool, command="create", path="/memories/b", file_text="y")
    assert "is a file" in run(tool, command="rename", old_path="/memories/b", new_path="/memories/link/x")  # fmt: skip
    assert list(tmp_path.iterdir()) == []


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
