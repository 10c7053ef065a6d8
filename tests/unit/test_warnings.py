"""What fails in a turn is said: one WARNING with its cause, however it is called."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import agentmem
from agentmem.agent.loop import run_agent_loop_sync
from agentmem.base.config import LoopConfig, RecallConfig
from agentmem.testing import HashEmbedder, ManualClock, ScriptedModel

ASKED = [{"role": "user", "content": "Where is the harbour of Piran?"}]


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[agentmem.MemoryManager]:
    path = tmp_path / "memory.db"
    with agentmem.open(
        path, embedder=HashEmbedder(), clock=ManualClock(), judge_new=False
    ) as opened:
        opened.add("The harbour of Piran is small.", user_id="ana")
        yield opened


def warned(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]


def broken(*_: Any, **__: Any) -> Any:
    raise OSError("the disk is gone")


@pytest.mark.parametrize("way", ["turn", "wrap", "loop"])
def test_a_search_that_fails_is_one_warning_with_its_cause(
    memory: agentmem.MemoryManager,
    way: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(memory.retriever, "search", broken)
    for _ in range(2):
        if way == "turn":
            memory.turn(ASKED, user_id="ana").done("I do not know.")
        elif way == "wrap":
            memory.wrap(ScriptedModel("?"), scope={"user_id": "ana"})(messages=ASKED)
        else:
            run_agent_loop_sync("Where?", memory=memory, model=ScriptedModel("?"), user_id="ana")
    said = warned(caplog)
    assert len(said) == 1
    assert "the disk is gone" in said[0]
    memory.clock.advance(61)  # type: ignore[attr-defined]  # the clock of this test
    memory.turn(ASKED, user_id="ana")
    assert len(warned(caplog)) == 2


def test_a_search_that_takes_too_long_is_one_warning(
    memory: agentmem.MemoryManager,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    free = threading.Event()
    monkeypatch.setattr(memory.retriever, "search", lambda *_, **__: free.wait(30))
    turn = memory.turn(
        ASKED, user_id="ana", config=LoopConfig(recall=RecallConfig(timeout_seconds=0.01))
    )
    free.set()
    assert len(warned(caplog)) == 1
    assert "TimedOut" in warned(caplog)[0]
    assert any("TimedOut" in one for one in turn.degradations)


class Broken(HashEmbedder):
    def embed_query(self, text: str, /) -> Any:
        raise OSError("the model file is gone")


def test_an_embedder_that_fails_is_one_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with agentmem.open(tmp_path / "memory.db", embedder=Broken()) as memory:
        memory.add("The harbour of Piran is small.", user_id="ana")
        for _ in range(2):
            turn = memory.turn(ASKED, user_id="ana")
    assert len(warned(caplog)) == 1
    assert "the model file is gone" in warned(caplog)[0]
    assert any("the model file is gone" in one for one in turn.degradations)
