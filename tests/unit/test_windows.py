"""A model that no table lists: its window is assumed out loud, and learned from its provider."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import agentmem
from agentmem.agent.loop import run_agent_loop_sync
from agentmem.base.config import BudgetConfig, LoopConfig
from agentmem.inspector.doctor import Check, examine
from agentmem.testing import HashEmbedder, ScriptedModel
from agentmem.tokens.counter import Correction, observe, refuse

DEPLOYMENT = "prod-chat-eastus"
LIKES = "I prefer answers in metric units."
LONG = "The minutes of the meeting say little of interest. " * 700  # some 7,000 tokens


class TooLong(Exception):
    status_code = 400

    def __init__(self, window: int = 6_000, counted: int = 9_000) -> None:
        super().__init__(
            f"This model's maximum context length is {window} tokens. However, your messages "
            f"resulted in {counted} tokens. Please reduce the length of the messages."
        )


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[agentmem.MemoryManager]:
    with agentmem.open(tmp_path / "memory.db", embedder=HashEmbedder()) as opened:
        opened.preferences.add(LIKES, user_id="ana")
        yield opened


def asked(text: str = "How far is it?", before: str = LONG) -> list[dict[str, Any]]:
    return [
        {"role": "user", "content": before},
        {"role": "assistant", "content": "Noted."},
        {"role": "user", "content": text},
    ]


def test_preferences_reach_a_model_that_nobody_lists_however_long_the_messages_are(
    memory: agentmem.MemoryManager,
) -> None:
    turn = memory.turn(asked(), model=DEPLOYMENT, user_id="ana")
    assert "metric units" in turn.block_text
    assert any("not known" in one and "context_window" in one for one in turn.degradations)
    again = memory.turn(asked("And how high?"), model=DEPLOYMENT, user_id="ana")
    assert any("tokens are sent though the window" in one for one in again.degradations)


def test_an_assumed_window_is_logged_once_with_what_to_do(
    memory: agentmem.MemoryManager, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "agentmem"):
        for number in range(3):
            memory.turn(asked(f"How far is {number}?", "Hi."), model=DEPLOYMENT, user_id="ana")
    said = [one.getMessage() for one in caplog.records if DEPLOYMENT in one.getMessage()]
    assert len(said) == 1
    assert "context_window=" in said[0]


def test_a_window_that_is_said_is_believed(memory: agentmem.MemoryManager) -> None:
    turn = memory.turn(
        asked(),
        model=DEPLOYMENT,
        user_id="ana",
        config=LoopConfig(budget=BudgetConfig(context_window=6_000)),
    )
    assert turn.block_text == ""
    assert any("no room for memory" in one for one in turn.degradations)


def test_a_refusal_teaches_the_window_also_to_the_next_process(
    memory: agentmem.MemoryManager, tmp_path: Path
) -> None:
    turn = memory.turn(asked(), model=DEPLOYMENT, user_id="ana")
    assert turn.refused(TooLong(window=16_385))
    assert not turn.refused(ValueError("something else"))
    assert memory.runtime.tokenizer(DEPLOYMENT)[0].limits.window == 16_385
    memory.close()
    with agentmem.open(tmp_path / "memory.db", embedder=HashEmbedder()) as again:
        tokenizer, notes = again.runtime.tokenizer(DEPLOYMENT)
        assert (tokenizer.limits.window, tokenizer.window_known) == (16_385, True)
        assert not notes


def test_success_widens_what_is_assumed(memory: agentmem.MemoryManager) -> None:
    turn = memory.turn(asked(), model=DEPLOYMENT, user_id="ana")
    turn.done("Ten kilometres.", usage={"prompt_tokens": 9_000, "completion_tokens": 3})
    assert memory.flush(10)
    assert memory.runtime.tokenizer(DEPLOYMENT)[0].limits.window == 18_000


def test_a_wrapped_call_refused_for_its_length_is_sent_again_as_it_came(
    memory: agentmem.MemoryManager,
) -> None:
    model = ScriptedModel(TooLong(), "Ten kilometres.")
    remembering = memory.wrap(model, scope={"user_id": "ana"})
    mine = asked()
    reply = remembering(messages=mine, model=DEPLOYMENT)
    assert reply["choices"][0]["message"]["content"] == "Ten kilometres."
    assert len(model.requests[0]["messages"]) > len(mine)
    assert model.requests[1]["messages"] == mine
    assert any("sent again without memory" in one for one in remembering.degradations)
    remembering(messages=mine, model=DEPLOYMENT)
    assert model.requests[2]["messages"] == mine  # what it takes is known now


def test_an_async_call_is_sent_again_too(memory: agentmem.MemoryManager) -> None:
    model = ScriptedModel(TooLong(), "Ten kilometres.")

    async def ask(*, messages: list[Any], model_name: str = DEPLOYMENT) -> Any:
        return model(messages=messages, model=model_name)

    reply = asyncio.run(memory.wrap(ask, scope={"user_id": "ana"})(messages=asked()))
    assert reply["choices"][0]["message"]["content"] == "Ten kilometres."


def test_a_call_that_fails_for_another_reason_is_made_once(memory: agentmem.MemoryManager) -> None:
    model = ScriptedModel(ValueError("no such model"))
    with pytest.raises(ValueError, match="no such model"):
        memory.wrap(model, scope={"user_id": "ana"})(messages=asked(), model=DEPLOYMENT)
    assert len(model.requests) == 1


class Named(ScriptedModel):
    name = DEPLOYMENT


def test_the_loop_sends_all_to_a_model_nobody_knows_until_it_refuses(
    memory: agentmem.MemoryManager,
) -> None:
    model = Named(TooLong(), "Ten kilometres.")
    result = run_agent_loop_sync(
        "How far is it?", memory=memory, model=model, messages=asked()[:2], user_id="ana"
    )
    assert result.answer == "Ten kilometres."
    assert LONG in str(model.requests[0]["messages"])
    assert LONG not in str(model.requests[1]["messages"])
    assert memory.runtime.tokenizer(DEPLOYMENT)[0].limits.window == 6_000


def test_what_was_taken_is_no_longer_refused_and_the_other_way_round() -> None:
    taught = refuse(Correction(), estimated=10_000, counted=None)
    assert taught.window_beside(128_000) == 10_000
    taught = observe(taught, estimated=12_000, actual=12_000)
    assert (taught.refused, taught.window_beside(None)) == (0, 24_000)
    taught = refuse(taught, estimated=20_000, counted=21_000, window=16_000)
    assert (taught.window, taught.worked) == (16_000, 12_000)
    assert observe(taught, estimated=20_000, actual=20_000).window == 0
    assert refuse(Correction(), estimated=9_000, counted=None, window=12).window == 0


def test_doctor_names_the_models_whose_window_is_assumed(memory: agentmem.MemoryManager) -> None:
    turn = memory.turn(asked(), model=DEPLOYMENT, user_id="ana")
    turn.done("Ten kilometres.")
    memory.flush(10)

    def found() -> Check:
        report = examine(memory, now=memory.clock.now())
        return next(one for one in report.checks if one.name == "window")

    assert (found().state, DEPLOYMENT in found().found) == ("warn", True)
    assert "context_window" in found().remedy
    turn.refused(TooLong())
    assert (found().state, "6,000" in found().found) == ("ok", True)
