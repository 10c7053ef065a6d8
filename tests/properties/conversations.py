"""Strategies for conversations and packages, named in the plural."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from hypothesis import strategies as st

from agentmem.base.types import Hit, Memory, Message
from agentmem.prompt.budget import ContentPackage
from agentmem.text.messages import media_parts, text_of
from tests.properties.strategies import instants, texts, units

NOW = datetime(2026, 1, 1, tzinfo=UTC)
IMAGE: dict[str, Any] = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}
IDS = ("a", "b", "call_1", "call_2")
TYPES = (
    "memory-semantic",
    "memory-procedural",
    "memory-episodic",
    "message-recent",
    "media-image",
    "tool-result",
    "preference",
    "my-own-type",
)


def size_of(message: Message) -> int:
    """A plain message count for tests: words cost their letters, an image 85, a call 7."""
    calls = message.get("tool_calls") or ()
    return 3 + len(text_of(message)) + 85 * len(media_parts(message)) + 7 * len(calls)


def _call(call_id: str) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": "look", "arguments": "{}"}}


def _content(max_size: int = 12) -> st.SearchStrategy[Any]:
    text = texts(max_size=max_size)
    part = text.map(lambda t: {"type": "text", "text": t}) | st.just(IMAGE)
    return text | st.lists(part, min_size=1, max_size=3)


def users() -> st.SearchStrategy[dict[str, Any]]:
    return st.builds(lambda content: {"role": "user", "content": content}, _content())


def answers() -> st.SearchStrategy[dict[str, Any]]:
    return st.builds(
        lambda content: {"role": "assistant", "content": content}, _content() | st.none()
    )


def single_messages() -> st.SearchStrategy[dict[str, Any]]:
    """Any one message, with ids that collide and results that may have no call."""
    one = st.sampled_from(IDS)
    text = texts(max_size=8)
    return st.one_of(
        users(),
        answers(),
        st.builds(lambda t: {"role": "system", "content": t}, text),
        st.builds(lambda t: {"role": "developer", "content": t}, text),
        st.builds(
            lambda ids: {
                "role": "assistant",
                "content": None,
                "tool_calls": [_call(i) for i in ids],
            },
            st.lists(one, min_size=1, max_size=3),
        ),
        st.builds(lambda i, c: {"role": "tool", "tool_call_id": i, "content": c}, one, _content()),
        st.builds(lambda t: {"role": "tool", "content": t}, text),
        st.builds(
            lambda ids: {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": i, "name": "x", "input": {}} for i in ids],
            },
            st.lists(one, min_size=1, max_size=2),
        ),
        st.builds(
            lambda ids, tail: {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": i, "content": [IMAGE]} for i in ids
                ]
                + tail,
            },
            st.lists(one, min_size=1, max_size=2),
            st.just([]) | st.just([{"type": "text", "text": "and now?"}]),
        ),
        st.just({"role": "assistant", "content": None, "function_call": {"name": "f"}}),
        st.just({"role": "function", "name": "f", "content": "done"}),
    )


@st.composite
def tool_rounds(draw: st.DrawFn) -> list[dict[str, Any]]:
    """A question, parallel tool calls with their results in any order, and an answer."""
    ids = draw(st.lists(st.sampled_from(IDS), min_size=1, max_size=3, unique=True))
    results = draw(st.permutations(ids))
    blocks = draw(st.booleans())
    asked = draw(users())
    if blocks:
        call: dict[str, Any] = {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": i, "name": "x", "input": {}} for i in ids],
        }
        found: list[dict[str, Any]] = [
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": i, "content": draw(texts(max_size=9))}
                    for i in results
                ],
            }
        ]
    else:
        call = {"role": "assistant", "content": None, "tool_calls": [_call(i) for i in ids]}
        found = [{"role": "tool", "tool_call_id": i, "content": draw(_content())} for i in results]
    last = [draw(answers())] if draw(st.booleans()) else []
    return [asked, call, *found, *last]


def conversations(max_size: int = 6) -> st.SearchStrategy[list[dict[str, Any]]]:
    """Message lists as loops build them, and lists in any order at all."""
    turn = st.one_of(
        st.builds(lambda u, a: [u, a], users(), answers()),
        tool_rounds(),
        single_messages().map(lambda m: [m]),
    )
    nothing: st.SearchStrategy[list[dict[str, Any]]] = st.just([])
    system = nothing | texts(max_size=20).map(lambda t: [{"role": "system", "content": t}])
    realistic = st.builds(
        lambda first, turns: first + [message for turn in turns for message in turn],
        system,
        st.lists(turn, max_size=max_size),
    )
    return realistic | st.lists(single_messages(), max_size=2 * max_size)


def packages(
    *, can_drop: st.SearchStrategy[bool] | None = None, max_tokens: int = 60
) -> st.SearchStrategy[ContentPackage]:
    """Packages whose ids, sizes and scores collide often."""
    anything = st.builds(
        ContentPackage,
        id=st.sampled_from(("a", "b", "c", "A")) | texts(max_size=6).filter(bool),
        type=st.sampled_from(TYPES) | texts(max_size=9).filter(bool),
        tokens=st.integers(0, max_tokens),
        items=st.integers(1, 3),
        relevance=st.none() | units(),
        can_drop=can_drop if can_drop is not None else st.integers(0, 4).map(bool),
        priority=st.integers(1, 10),
    )
    equal = st.builds(
        ContentPackage,
        id=st.sampled_from(("a", "b", "c", "d", "A")),
        type=st.sampled_from(TYPES),
        tokens=st.integers(20, 30),
        can_drop=can_drop if can_drop is not None else st.just(True),
    )
    return anything | equal


def memories(kinds: Sequence[str] = ("fact", "episode", "workflow")) -> st.SearchStrategy[Memory]:
    return st.builds(
        Memory,
        id=st.sampled_from(("m1", "m2", "m3", "m4")) | texts(max_size=5).filter(bool),
        text=texts(max_size=60),
        created_at=instants(),
        kind=st.sampled_from(kinds),
        importance=units(),
    )


def hits() -> st.SearchStrategy[Hit | Memory]:
    return memories() | st.builds(Hit, memory=memories(), score=units())
