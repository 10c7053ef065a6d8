"""What an editor and `mypy --strict` know of the calls: whose memory, and what is misspelt."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import get_type_hints

from mypy import api

import agentmem
from agentmem.base.types import Scope, Whose

SNIPPET = """
import openai
import agentmem
from agentmem import AsyncMemoryManager


def ask(messages: list[dict[str, str]], *, model: str) -> str:
    return "yes"


async def ask_later(messages: list[dict[str, str]], *, model: str) -> str:
    return "yes"


def sync(client: openai.OpenAI) -> None:
    with agentmem.open(":memory:") as memory:
        memory.add("The harbour closes at nine.", user_id="sam", project_id="p", kind="fact")
        memory.add([], session="s", user_id="sam")
        memory.search("harbour", top_k=3, user_id="sam", agent_id="a", run_id="r")
        memory.get_all(user_id="sam", limit=3)
        memory.delete("id", user_id="sam")
        memory.upkeep.erase_all(user_id="sam")
        memory.preferences.get_all(user_id="sam")
        memory.turn([], model="gpt-4o", user_id="sam")
        asked = memory.wrap(ask)
        text: str = asked([], model="gpt-4o")
        text = asked([], model="gpt-4o", memory_scope="sam")
        text = asked([], model="gpt-4o", memory_off=True)
        wrapped = memory.wrap_openai(client)
        said = wrapped.chat.completions.create(
            model="gpt-4o", messages=[], memory_scope={"user_id": "sam"}
        )
        print(text, said.choices[0].message.content)
        for chunk in wrapped.chat.completions.create(
            model="gpt-4o", messages=[], stream=True, memory_scope="sam"
        ):
            print(chunk.choices)
        wrapped.responses.create(model="gpt-4o", input="x", memory_scope="sam")
        agentmem.wrap_openai(client, memory).chat.completions.create(
            model="gpt-4o", messages=[], memory_scope="sam"
        )


async def later(memory: AsyncMemoryManager, client: openai.AsyncOpenAI) -> None:
    found = await memory.search("harbour", top_k=3, user_id="sam")
    print(found[0].score, (await memory.get("id", user_id="sam")).text)
    await memory.add("x", user_id="sam")
    text: str = await memory.manager.wrap(ask_later)([], model="m", memory_scope="sam")
    said = await memory.manager.wrap_openai(client).chat.completions.create(
        model="gpt-4o", messages=[], memory_scope="sam"
    )
    print(text, said.choices)
"""

WRONG = """
async def wrong(memory: AsyncMemoryManager) -> None:
    memory.manager.search("x", usr_id="sam")  # wrong
    memory.manager.add("x", usr_id="sam")  # wrong
    memory.manager.get_all(user_id=3)  # wrong
    memory.manager.preferences.clear(usr_id="sam")  # wrong
    memory.manager.turn([], usr_id="sam")  # wrong
    memory.manager.wrap(ask)([], modl="m")  # wrong
    await memory.search("x", usr_id="sam")  # wrong
    await memory.delete_all(user="sam")  # wrong
"""


def test_strict_checking_passes_what_is_right_and_finds_every_misspelt_name(
    tmp_path: Path,
) -> None:
    file = tmp_path / "typed.py"
    file.write_text(SNIPPET + WRONG, encoding="utf-8")
    root = Path(__file__).parents[2]  # with the project's settings, so that its cache is used
    settings = ["--config-file", str(root / "pyproject.toml")]
    cache = ["--cache-dir", str(root / ".mypy_cache")]
    out, err, _ = api.run([*settings, *cache, "--no-error-summary", str(file)])
    assert not err
    told = [line.split(":", 2) for line in out.splitlines() if ": error:" in line]
    lines = (SNIPPET + WRONG).split("\n")
    wrong = [number for number, line in enumerate(lines, 1) if line.endswith("# wrong")]
    assert len(wrong) == WRONG.count("# wrong")
    assert [(Path(name).name, int(number)) for name, number, _ in told] == [
        ("typed.py", number) for number in wrong
    ], out[:2000]


def test_whose_names_what_a_scope_has() -> None:
    assert get_type_hints(Whose) == get_type_hints(Scope)


def test_the_awaited_call_shows_the_parameters_of_the_call() -> None:
    for name in ("search", "get_all", "erase"):
        given = inspect.signature(getattr(agentmem.AsyncMemoryManager, name))
        assert given == inspect.signature(getattr(agentmem.MemoryManager, name))
