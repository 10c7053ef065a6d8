"""A conversation that is read once, and values that are made once."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentmem.base.errors import InvalidMessage, InvalidText
from agentmem.base.lazy import Lazy
from agentmem.base.types import content_hash
from agentmem.prompt.messages import Conversation, last_question, read_conversation
from agentmem.text.messages import text_of
from tests.properties.conversations import conversations
from tests.properties.strategies import texts

ASK = {"role": "user", "content": "When?"}


def test_a_conversation_is_not_read_again_and_shares_nothing_with_its_caller() -> None:
    given_messages: list[dict[str, Any]] = [{"role": "system", "content": "Be kind."}, dict(ASK)]
    conversation = Conversation(given_messages)
    assert read_conversation(conversation) is conversation
    given_messages[1]["content"] = "changed"
    conversation.copies()[1]["content"] = "changed"
    assert conversation.question == ASK
    assert conversation.asked == 1


@pytest.mark.parametrize(
    ("message", "error"),
    [
        ({"role": "nobody", "content": "x"}, InvalidMessage),
        ({"role": ["user"], "content": "x"}, InvalidMessage),
        ({"role": "user", "content": 3}, InvalidMessage),
        ({"role": "user"}, InvalidMessage),
        ({"role": "user", "content": "\ud800"}, InvalidText),
        ("x", InvalidMessage),
    ],
)
def test_what_no_provider_takes_is_refused_by_its_place(
    message: Any, error: type[Exception]
) -> None:
    with pytest.raises(error, match=r"messages\[1\]"):
        Conversation([ASK, message])


@given(conversations(), texts(30) | st.sampled_from(("a", " a\r\n\n", "e\u0301 b", "\xe9 b", "")))
def test_a_conversation_says_what_one_of_its_messages_says(
    messages: list[dict[str, Any]], text: str
) -> None:
    for said in ({"role": "user", "content": text}, ASK):
        conversation = Conversation([*messages, said])
        hashes = {content_hash(text_of(m)) for m in conversation if m.get("content")}
        assert conversation.says(text) == (content_hash(text) in hashes)
        assert conversation.asked == last_question([*messages, said])


def test_a_lazy_value_is_made_by_one_and_waited_for_by_the_others() -> None:
    begun, go = threading.Event(), threading.Event()
    calls: list[int] = []

    def make() -> str:
        calls.append(1)
        begun.set()
        assert go.wait(10)
        return "tea"

    lazy = Lazy(make)
    found: list[str] = []
    threads = [threading.Thread(target=lambda: found.append(lazy.value)) for _ in range(3)]
    for thread in threads:
        thread.start()
    assert begun.wait(10)
    go.set()
    for thread in threads:
        thread.join(10)
    assert found == ["tea"] * 3
    assert calls == [1]


def test_a_lazy_value_that_could_not_be_made_is_made_when_it_is_asked_for_again() -> None:
    answers = iter((OSError("not yet"), "tea"))

    def make() -> str:
        answer = next(answers)
        if isinstance(answer, OSError):
            raise answer
        return answer

    lazy = Lazy(make, write=str.upper)
    with pytest.raises(OSError, match="not yet"):
        _ = lazy.value
    assert lazy.value == "tea"
    assert lazy.written == "TEA"
