"""A real small model behind a real server: counts, streams and budgets; only in deep runs."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import openai
import pytest

import agentmem
from agentmem.base.config import BudgetConfig, LoopConfig
from agentmem.testing import HashEmbedder

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "local_model.py"
ASK: list[Any] = [{"role": "user", "content": "When does the harbour in Oban close in winter?"}]


def load_example() -> Any:
    spec = importlib.util.spec_from_file_location("local_model_example", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


local = load_example()


@pytest.mark.deep
@pytest.mark.skipif(bool(local.why_not()), reason=local.why_not() or "runs")
def test_a_real_model_is_counted_streamed_and_kept_within_its_budgets() -> None:
    turns: list[Any] = []
    config = LoopConfig(budget=BudgetConfig(knowledge=150, preferences=50, working=0))
    with local.serve() as url, agentmem.open(":memory:", embedder=HashEmbedder()) as memory:
        for n in range(30):
            memory.add(
                f"The harbour in Oban closes at nine in winter, says notice {n}.", user_id="ann"
            )
        plain = openai.OpenAI(base_url=url, api_key="none", max_retries=0)
        request: dict[str, Any] = {
            "model": local.MODEL,
            "messages": ASK,
            "temperature": 0,
            "max_tokens": 6,
        }
        bare = plain.chat.completions.create(**request)
        client: Any = memory.wrap_openai(plain, scope="ann", config=config, on_turn=turns.append)
        answer = client.chat.completions.create(**request)
        chunks = list(
            client.chat.completions.create(
                **request, stream=True, stream_options={"include_usage": True}
            )
        )
        plain.close()
        assert memory.flush(30)
        said = {m.text for m in memory.get_all(user_id="ann") if m.origin == "assistant"}
    first, second = turns
    assert any(c.choices and c.choices[0].delta.content for c in chunks)
    assert said
    estimates = [turn.context.estimated_tokens for turn in turns]
    counted = answer.usage.prompt_tokens
    assert counted == answer.usage.total_tokens - answer.usage.completion_tokens
    assert chunks[-1].usage.prompt_tokens > bare.usage.prompt_tokens
    # The block costs the model what was budgeted for it: its tokenizer is not ours, so with slack.
    assert counted - bare.usage.prompt_tokens < 2 * (150 + 50) + 200
    assert all(0.5 < estimated / counted < 2 for estimated in estimates)
    assert first.injected
    assert second.injected
    assert not first.degradations
