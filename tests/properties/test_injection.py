"""Properties of placing the reference message."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from datetime import date
from typing import Any, Literal

from hypothesis import given
from hypothesis import strategies as st

from agentmem.base.config import Framing, Placement, ReferenceRole
from agentmem.prompt.block import STUB, BlockSource, ContextBlock, render_context
from agentmem.prompt.messages import inject
from tests.properties.attacks import SECRET, any_texts
from tests.properties.strategies import texts

Messages = list[dict[str, Any]]
framings: st.SearchStrategy[Framing] = st.sampled_from(("pair", "single"))
roles: st.SearchStrategy[ReferenceRole] = st.sampled_from(("assistant", "user"))
placements: st.SearchStrategy[Placement] = st.sampled_from(("before_last_user", "append"))


def contents() -> st.SearchStrategy[Any]:
    parts = st.lists(texts(20).map(lambda t: {"type": "text", "text": t}), min_size=1, max_size=2)
    image = st.just([{"type": "image_url", "image_url": {"url": "data:,"}}])
    return texts(30) | parts | image


@st.composite
def turns(draw: st.DrawFn, number: int) -> Messages:
    """One user's message, some tool rounds in either common form, perhaps an answer."""
    found: Messages = [{"role": "user", "content": draw(contents())}]
    for step in range(draw(st.integers(0, 2))):
        ids = [f"call-{number}-{step}-{n}" for n in range(draw(st.integers(1, 2)))]
        form: Literal["calls", "blocks"] = draw(st.sampled_from(("calls", "blocks")))
        if form == "calls":
            calls = [
                {"id": i, "type": "function", "function": {"name": "f", "arguments": "{}"}}
                for i in ids
            ]
            found.append({"role": "assistant", "content": None, "tool_calls": calls})
            found += [{"role": "tool", "tool_call_id": i, "content": draw(texts(20))} for i in ids]
        else:
            uses = [{"type": "tool_use", "id": i, "name": "f", "input": {}} for i in ids]
            found.append({"role": "assistant", "content": uses})
            results = [{"type": "tool_result", "tool_use_id": i, "content": "x"} for i in ids]
            found.append({"role": "user", "content": results})
    if draw(st.booleans()):
        found.append({"role": "assistant", "content": draw(texts(20))})
    return found


@st.composite
def conversations(draw: st.DrawFn) -> Messages:
    """A system prompt or none, and some turns, the last of them perhaps unfinished."""
    found: Messages = draw(
        st.just([]) | contents().map(lambda c: [{"role": "system", "content": c}])
    )
    for number in range(draw(st.integers(1, 3))):
        found += draw(turns(number))
    return found


def rendered() -> st.SearchStrategy[str]:
    sources = st.builds(BlockSource, text=any_texts(), title=texts(10), retrieved=st.dates())
    return sources.map(
        lambda source: render_context(ContextBlock(related_knowledge=(source,)), secret=SECRET)
    )


def asked_at(messages: Messages) -> int:
    """Where the user spoke last, worked out the slow way."""
    return max(
        at
        for at, message in enumerate(messages)
        if message["role"] == "user"
        and not (
            isinstance(message["content"], list)
            and any(part["type"] == "tool_result" for part in message["content"])
        )
    )


def bytes_of(messages: list[Any]) -> bytes:
    return json.dumps(messages).encode()


@given(conversations(), rendered(), framings, roles)
def test_knowledge_stands_in_one_message_of_its_own(
    messages: Messages, text: str, framing: Framing, role: ReferenceRole
) -> None:
    """P2 Context isolation. Knowledge appears only inside one `<knowledge_context>` block in its own
    message; the system prompt's bytes are untouched.
    """
    out = inject(messages, text, framing=framing, role=role)
    carriers = [m for m in out if m["content"] == text]
    assert len(carriers) == 1
    assert carriers[0] == {"role": role, "content": text}
    stubs = [m for m in out if m["content"] == STUB]
    assert len(stubs) == (framing == "pair" and role == "assistant")
    assert [m for m in out if m not in carriers and m not in stubs] == messages
    assert bytes_of([m for m in out if m["role"] == "system"]) == bytes_of(
        [m for m in messages if m["role"] == "system"]
    )
    assert text.count("<knowledge_context>") == text.count("</knowledge_context>") == 1


@given(conversations(), rendered(), framings, roles, placements, st.data())
def test_what_stands_before_the_block_stays_as_it_was(  # noqa: PLR0917  # given by Hypothesis
    messages: Messages,
    text: str,
    framing: Framing,
    role: ReferenceRole,
    placement: Placement,
    data: st.DataObject,
) -> None:
    """P18 Cache-safe. Everything before the reference message is byte-identical to the input; same
    inputs, same bytes; one block per turn, unchanged over its tool iterations.
    """

    def put(given: Messages) -> Messages:
        return inject(given, text, framing=framing, role=role, placement=placement)

    out = put(messages)
    at = next(n for n, m in enumerate(out) if m["content"] == text)
    size = 2 if framing == "pair" and role == "assistant" else 1
    before = at - size + 1
    assert bytes_of(out[:before]) == bytes_of(messages[:before])
    assert before == asked_at(messages)  # directly before the user's message
    assert bytes_of(out) == bytes_of(put(messages))

    # The same turn goes on with tools: what was sent so far is a prefix of what is sent next.
    step: Messages = [
        {"role": "assistant", "content": None, "tool_calls": [{"id": "later", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "later", "content": data.draw(texts(20))},
    ]  # fmt: skip
    later = put(messages + step)
    assert bytes_of(later[: len(out)]) == bytes_of(out)
    fed_back = put(out + step)
    assert bytes_of(fed_back) == bytes_of(later)
    assert sum(m["content"] == text for m in fed_back) == 1


@given(conversations(), rendered(), rendered(), framings, roles, placements)
def test_injecting_again_replaces(  # noqa: PLR0917  # given by Hypothesis
    messages: Messages,
    first: str,
    second: str,
    framing: Framing,
    role: ReferenceRole,
    placement: Placement,
) -> None:
    """K7 Inject once. Injecting twice equals injecting the second block, and the input is not changed."""
    kept = copy.deepcopy(messages)
    once = inject(messages, first, framing=framing, role=role, placement=placement)
    assert messages == kept
    twice = inject(once, second, framing=framing, role=role, placement=placement)
    assert twice == inject(messages, second, framing=framing, role=role, placement=placement)
    assert inject(once, None, framing=framing, role=role, placement=placement) == messages


@given(conversations(), rendered(), framings, roles, st.integers(0, 12))
def test_the_block_never_parts_a_call_from_its_result(
    messages: Messages, text: str, framing: Framing, role: ReferenceRole, cut: int
) -> None:
    """K8 Never between. The block is never last and never between a tool call and its result, also
    when a user's message stands between the two.
    """
    calls = [
        {"id": i, "type": "function", "function": {"name": "f", "arguments": "{}"}} for i in "ab"
    ]
    tangled: Messages = [
        *messages,
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "tool_call_id": "a", "content": "1"},
        {"role": "tool", "tool_call_id": "b", "content": "2"},
    ]
    tangled.insert(len(tangled) - cut % 4, {"role": "user", "content": "hurry up"})
    out = inject(tangled, text, framing=framing, role=role)
    at = next(n for n, m in enumerate(out) if m["content"] == text)
    assert at < len(out) - 1
    for start, message in enumerate(out):
        for call in _calls(message):
            ends = [n for n, m in enumerate(out) if call in _results(m)]
            assert not (ends and start < at < max(ends)), (start, at, ends)
    assert inject(out, text, framing=framing, role=role) == out


def _calls(message: Mapping[str, Any]) -> list[str]:
    content = message["content"]
    blocks = content if isinstance(content, list) else []
    return [c["id"] for c in message.get("tool_calls", [])] + [
        b["id"] for b in blocks if b["type"] == "tool_use"
    ]


def _results(message: Mapping[str, Any]) -> list[str]:
    content = message["content"]
    blocks = content if isinstance(content, list) else []
    return [message.get("tool_call_id", "")] + [
        b["tool_use_id"] for b in blocks if b["type"] == "tool_result"
    ]


@given(conversations(), st.lists(texts(20), min_size=2, max_size=4), framings)
def test_placements_differ_in_what_they_do_with_the_past(
    messages: Messages, questions: list[str], framing: Framing
) -> None:
    """K9 One block or all. Over several turns whose output is fed back, the default leaves one block
    and `append` keeps every block where it was, each request beginning with the one before.
    """
    fresh, appended = list(messages), list(messages)
    for number, question in enumerate(questions):
        source = BlockSource(text=f"fact {number}", retrieved=date(2026, 1, 1))
        text = render_context(ContextBlock(related_knowledge=(source,)), secret=SECRET)
        ask = [{"role": "assistant", "content": "answer"}, {"role": "user", "content": question}]
        fresh = inject(fresh + ask, text, framing=framing)
        before = appended
        appended = inject(before + ask, text, framing=framing, placement="append")
        assert appended[: len(before)] == before
        assert _blocks(fresh) == 1
        assert _blocks(appended) == number + 1
        assert [m["content"] for m in appended if _is_block(m)][-1] == text


def _is_block(message: dict[str, Any]) -> bool:
    return str(message["content"]).startswith("<!-- agentmem reference")


def _blocks(messages: Messages) -> int:
    return sum(map(_is_block, messages))
