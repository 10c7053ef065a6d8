"""The shipped fakes behave as they say."""

from __future__ import annotations

import numpy as np
import pytest

from agentmem.testing import HashEmbedder, ManualClock, ScriptedModel


def test_hash_vectors_have_unit_length_and_do_not_change() -> None:
    embedder = HashEmbedder(32)
    rows = embedder.embed_documents(["red apple", "red car", "", "\x00", "日本"])
    assert rows.shape == (5, 32)
    assert np.allclose(np.linalg.norm(rows, axis=1), 1)
    assert np.array_equal(rows[0], HashEmbedder(32).embed_query("red apple"))


def test_texts_that_share_words_are_nearer() -> None:
    one, near, far = HashEmbedder(256).embed_documents(["red apple", "apple red pie", "blue sky"])
    assert one @ near > one @ far


def test_a_manual_clock_moves_only_when_told() -> None:
    clock = ManualClock()
    start = clock.now()
    assert clock.now() == start
    clock.advance(90)
    assert (clock.now() - start).total_seconds() == 90


def test_a_scripted_model_answers_in_order_and_keeps_requests() -> None:
    model = ScriptedModel("one", RuntimeError("rate limit"), "three")
    ask = [{"role": "user", "content": "hi"}]
    assert model(messages=ask)["choices"][0]["message"]["content"] == "one"
    with pytest.raises(RuntimeError, match="rate limit"):
        model(messages=ask)
    assert model(messages=ask, temperature=0)["choices"][0]["message"]["content"] == "three"
    assert model(messages=ask)["choices"][0]["message"]["content"] == "three"
    assert model.requests[2]["temperature"] == 0
    assert model.requests[0]["messages"] == ask


def test_a_scripted_tool_call_says_so() -> None:
    call = {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]}
    reply = ScriptedModel(call)(messages=[])
    assert reply["choices"][0]["finish_reason"] == "tool_calls"
