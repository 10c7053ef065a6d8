"""What the Model Context Protocol's tools promise: the same answers, bounded, marked and cleaned."""

from __future__ import annotations

import asyncio
import json
import re
import sys
import tempfile
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

import agentmem
from agentmem.base.types import Memory, Scope
from agentmem.cli.app import command
from agentmem.prompt.block import parse_context
from agentmem.search.intake import prepare
from agentmem.server.app import create_app
from agentmem.server.mcp import NO_ROOM, NOTHING, Tools
from agentmem.server.tokens import Tokens
from tests.properties.attacks import any_texts

WORDS = st.sampled_from(
    [
        "the",
        "boat",
        "is",
        "blue",
        "red",
        "Ana",
        "harbour",
        "in",
        "a",
        "nine",
        "Boot",
        "ボート",
        "&lt;",
    ]
)
SENTENCES = st.lists(WORDS, min_size=1, max_size=8).map(" ".join)
STORED = st.lists(st.tuples(SENTENCES, st.sampled_from(["ana", "bob"])), max_size=8)


def ids_in(answer: str) -> list[str]:
    return re.findall(r' id="([^"]+)"', answer)


def run_cli(*arguments: str) -> str:
    """What the command line prints, run in this process."""
    out = BytesIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AGENTMEM_EMBEDDER", "none")
        patch.setattr(sys, "stdout", TextIOWrapper(out, encoding="utf-8"))
        patch.setattr(sys, "stderr", TextIOWrapper(BytesIO(), encoding="utf-8"))
        with pytest.raises(SystemExit):
            command().main(arguments, prog_name="agentmem")
        sys.stdout.flush()
        return out.getvalue().decode()


async def ask_http(memory: agentmem.MemoryManager, question: str, limit: int) -> Any:
    """What the server answers ana."""
    token, _ = Tokens(memory.store.settings).make(scope=Scope(user_id="ana"))
    transport = httpx.ASGITransport(app=create_app(memory))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        said = {"query": question, "top_k": limit}
        headers = {"authorization": f"Bearer {token}"}
        return (await client.post("/v1/search", json=said, headers=headers)).json()["results"]


@given(STORED, SENTENCES, st.integers(1, 10))
def test_every_door_gives_the_same_memories(
    stored: list[tuple[str, str]], question: str, limit: int
) -> None:
    """P48 Parity. The same data and question give the same memories in the same order through Python, HTTP, MCP and the command line."""
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "memory.db"
        with agentmem.open(store, embedder=None, durability="normal") as memory:
            for text, user in stored:
                memory.add(text, user_id=user)
            hits = memory.search(question, top_k=limit, user_id="ana")
            tools = Tools(memory, Scope(user_id="ana"), limit_tokens=20_000)
            lines = tools.search_memories(question, limit=limit)
            answered = asyncio.run(ask_http(memory, question, limit))
            whole = tools.get_memories(ids_in(lines)) if ids_in(lines) else ""
        wanted = [hit.memory.id for hit in hits]
        assert ids_in(lines) == ids_in(whole) == wanted
        assert [(one["id"], one["score"]) for one in answered] == [
            (hit.memory.id, hit.score) for hit in hits
        ]
        assert (lines == NOTHING) == (not wanted)
        printed = json.loads(
            run_cli(
                "search", "--json", "-n", str(limit), "--store", str(store), "--user", "ana",
                "--", question,
            )
        )  # fmt: skip
        assert [one["id"] for one in printed["results"]] == wanted
        assert [one["score"] for one in printed["results"]] == [hit.score for hit in hits]
        for hit in hits[:1]:
            got = json.loads(
                run_cli("get", hit.memory.id, "--json", "--store", str(store), "--user", "ana")
            )
            assert got["text"] == hit.memory.text


@given(
    st.lists(any_texts() | st.text(min_size=500), min_size=1, max_size=4),
    st.integers(200, 1_500),
    st.booleans(),
)
def test_an_answer_is_bounded_marked_and_cleaned(
    stored: list[str], limit_tokens: int, full: bool
) -> None:
    """M1 Answers. Whatever is stored, an answer has at most the tokens it may have, is one sealed block of untrusted data or a sentence of ours, and holds nothing of others."""
    with agentmem.open(":memory:", embedder=None, judge_new=False) as memory:
        for at, text in enumerate(stored):  # past `add`, which takes out what looks like a block
            for user, said in (("ana", f"boat {text}"), ("bob", f"secretword boat {text}")):
                scope = Scope(user_id=user)
                kept = Memory(
                    id=f"{user}{at}", text=said, created_at=memory.clock.now(), scope=scope
                )
                memory.store.put([prepare(kept, ())])
        ids = [f"ana{at}" for at in range(len(stored))]
        tools = Tools(memory, Scope(user_id="ana"), limit_tokens=limit_tokens)
        answers = [tools.search_memories("boat", full=full)]
        answers += [tools.get_memories(ids), tools.read_result(ids[0])]
        count = memory.runtime.tokenizer("")[0]
        for answer in answers:
            assert count(answer) <= limit_tokens
            if answer not in (NOTHING, NO_ROOM):
                shown = parse_context(answer, secret=memory.runtime.secret())
                assert all("secretword" not in source.text for source in shown.related_knowledge)
