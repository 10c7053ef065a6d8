"""What a model's errors lead to: waiting for rate limits, one smaller request, a typed error."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import agentmem
from agentmem.agent.loop import AgentLoopResult, run_agent_loop_sync
from agentmem.base.errors import BudgetError, RequestTooLong
from agentmem.models.call import (
    RETRIES,
    Figures,
    figures_of,
    repack_limit,
    trouble_of,
    wait_seconds,
)
from agentmem.testing import HashEmbedder, ManualClock, ScriptedModel


class ProviderError(Exception):
    def __init__(self, said: str, status: int | None = 400, **headers: str) -> None:
        super().__init__(said)
        self.status_code = status
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


class RateLimitError(ProviderError):
    """Named as litellm's and OpenAI's are."""


BUSY = RateLimitError("Slow down.", 429, retry_after="0")
LONG = [
    {"role": role, "content": f"{role} {n} " + "lorem ipsum dolor sit amet " * 40}
    for n in range(20)
    for role in ("user", "assistant")
]


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[agentmem.MemoryManager]:
    with agentmem.open(tmp_path / "m.db", embedder=HashEmbedder(), clock=ManualClock()) as opened:
        yield opened


def run(memory: Any, model: Any, **options: Any) -> AgentLoopResult:
    return run_agent_loop_sync("How are you?", memory=memory, model=model, **options)


@pytest.mark.parametrize(
    ("said", "figures"),
    [
        (
            "maximum context length is 8192 tokens. However, your messages resulted in 9021 tokens.",
            Figures(counted_tokens=9_021, window_tokens=8_192),
        ),
        (
            "context length is 4097 tokens. You requested 5123 tokens (4099 in the messages, 1024 …",
            Figures(counted_tokens=4_099, window_tokens=4_097),
        ),
        (
            "prompt is too long: 210123 tokens > 200000 maximum",
            Figures(counted_tokens=210_123, window_tokens=200_000),
        ),
        (
            "request (5021 tokens) exceeds the available context size (4096 tokens)",
            Figures(counted_tokens=5_021, window_tokens=4_096),
        ),
        (
            "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)",
            Figures(counted_tokens=1_200_000, window_tokens=1_048_576),
        ),
        ("Input is too long for requested model.", Figures()),
        ("context_length_exceeded", Figures()),
    ],
)
def test_refusals_of_many_providers_are_understood(said: str, figures: Figures) -> None:
    error = ProviderError(said)
    assert trouble_of(error) == "too long"
    assert figures_of(error) == figures
    assert 1 <= repack_limit(figures, estimated_tokens=9_000, reserve_tokens=1_000) < 9_000


@pytest.mark.parametrize(
    "error",
    [
        ProviderError("Invalid value for temperature"),
        ProviderError("maximum context length", 500),
        ProviderError("You exceeded your current quota (insufficient_quota)", 429),
        ValueError(),
    ],
)
def test_other_errors_are_left_alone(error: Exception) -> None:
    assert trouble_of(error) == "other"
    model = ScriptedModel(error, "never")
    with pytest.raises(type(error)):
        run(None, model)
    assert len(model.requests) == 1


def test_waiting_doubles_follows_the_provider_and_has_an_end() -> None:
    assert [wait_seconds(ProviderError(""), n) for n in (1, 2, 3)] == [1, 2, 4]
    assert wait_seconds(ProviderError("", retry_after="7"), 1) == 7
    assert wait_seconds(ProviderError("", retry_after_ms="250"), 1) == 0.25
    assert wait_seconds(ProviderError("", retry_after="Wed, 21 Oct 2026"), 2) == 2
    assert wait_seconds(ProviderError("", retry_after="3600"), 1) is None


def test_a_rate_limit_is_waited_for(memory: agentmem.MemoryManager) -> None:
    told: list[str] = []
    model = ScriptedModel(BUSY, BUSY, "Well.")
    result = run(memory, model, on_status=lambda status: told.append(status.text))
    assert (result.answer, result.iterations, len(model.requests)) == ("Well.", 1, 3)
    assert "the model is busy; asking again in 0 s" in told


def test_a_rate_limit_that_stays_is_raised() -> None:
    model = ScriptedModel(BUSY)
    with pytest.raises(RateLimitError):
        run(None, model)
    assert len(model.requests) == RETRIES + 1


def test_a_signal_ends_the_wait_for_a_rate_limit() -> None:
    busy = RateLimitError("Slow down.", 429, retry_after="50")

    async def go() -> AgentLoopResult:
        signal = asyncio.Event()
        asyncio.get_running_loop().call_later(0.1, signal.set)
        return await agentmem.run_agent_loop(
            "Hello.", memory=None, model=ScriptedModel(busy), signal=signal
        )

    assert asyncio.run(go()).why == "stopped"


def test_nothing_is_asked_twice_of_which_words_were_told() -> None:
    calls: list[int] = []

    def breaks(messages: Any, stream: bool = False) -> Iterator[Any]:
        calls.append(1)
        yield {"choices": [{"delta": {"content": "Half"}}]}
        raise BUSY

    with pytest.raises(RateLimitError):
        run(None, breaks, on_chunk=lambda text: None)
    assert len(calls) == 1


@pytest.mark.parametrize("with_memory", [True, False])
def test_what_is_too_long_is_sent_once_more_and_smaller(
    memory: agentmem.MemoryManager, with_memory: bool
) -> None:
    too_long = ProviderError(
        "This model's maximum context length is 4096 tokens. However, your messages resulted "
        "in 9000 tokens."
    )
    model = ScriptedModel(too_long, "Well.")
    model.name = "gpt-4o"  # type: ignore[attr-defined]
    result = run(memory if with_memory else None, model, messages=LONG)
    assert result.answer == "Well."
    first, second = (request["messages"] for request in model.requests)
    assert 0 < len(second) < len(first)
    assert second[-1] == first[-1]
    assert second == first[len(first) - len(second) :]
    assert any("refused the request as too long" in note for note in result.degradations)
    if with_memory:
        assert result.budget is not None
        counter = memory.runtime.tokenizer("gpt-4o")[0]
        sent = counter.count_messages(second, tools=model.requests[1]["tools"])
        assert abs(result.budget.used_tokens - sent) <= 3  # what opens the answer
        assert memory.flush()
        assert memory.runtime.corrections.of("gpt-4o").calls == 2  # the refusal and the answer
        assert memory.runtime.corrections.of("gpt-4o").ratio > 0.8


def test_what_is_too_long_again_is_a_typed_error(memory: agentmem.MemoryManager) -> None:
    too_long = ProviderError("context_length_exceeded")
    model = ScriptedModel(too_long)
    with pytest.raises(RequestTooLong, match="larger window") as raised:
        run(memory, model, messages=LONG)
    assert raised.value.__cause__ is too_long
    assert isinstance(raised.value, BudgetError)
    assert len(model.requests) == 2


def test_a_question_that_alone_is_too_long_is_not_sent_again(
    memory: agentmem.MemoryManager,
) -> None:
    model = ScriptedModel(ProviderError("context_length_exceeded"))
    with pytest.raises(RequestTooLong):
        run(memory, model)
    assert len(model.requests) == 1
