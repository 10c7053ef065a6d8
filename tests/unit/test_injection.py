"""Worked examples of placing the block."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date
from typing import Any

import pytest

from agentmem.base.errors import InvalidInput, InvalidMessage, MalformedBlock, RoleRefused
from agentmem.prompt.block import STUB, BlockSource, ContextBlock, render_context
from agentmem.prompt.messages import inject

SECRET = b"sixteen bytes or more"
BLOCK = ContextBlock(related_knowledge=(BlockSource(text="Tea.", retrieved=date(2026, 1, 1)),))
TEXT = render_context(BLOCK, secret=SECRET)
SYSTEM = {"role": "system", "content": "Be kind."}
ASK = {"role": "user", "content": "What tea?"}
PAIR = [{"role": "user", "content": STUB}, {"role": "assistant", "content": TEXT}]
CALL = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
}
RESULT = {"role": "tool", "tool_call_id": "1", "content": "green"}


def test_the_pair_stands_before_the_user_s_message() -> None:
    assert inject([SYSTEM, ASK], TEXT) == [SYSTEM, *PAIR, ASK]


def test_a_single_reference_stands_alone() -> None:
    assert inject([SYSTEM, ASK], TEXT, framing="single") == [SYSTEM, PAIR[1], ASK]
    as_user = {"role": "user", "content": TEXT}
    assert inject([SYSTEM, ASK], TEXT, framing="single", role="user") == [SYSTEM, as_user, ASK]
    assert inject([SYSTEM, ASK], TEXT, role="user") == [SYSTEM, as_user, ASK]


def test_it_stays_where_it_was_while_tools_run() -> None:
    assert inject([SYSTEM, ASK, CALL, RESULT], TEXT) == [SYSTEM, *PAIR, ASK, CALL, RESULT]


def test_a_tool_result_in_a_user_turn_is_no_question() -> None:
    use = {
        "role": "assistant",
        "content": [{"type": "tool_use", "id": "1", "name": "f", "input": {}}],
    }
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": "x"}, {"type": "text", "text": "and?"}]}  # fmt: skip
    assert inject([ASK, use, result], TEXT) == [*PAIR, ASK, use, result]


def test_where_nobody_asks_nothing_is_added() -> None:
    for messages in ([], [SYSTEM], [SYSTEM, {"role": "assistant", "content": "Hello."}]):
        assert inject(messages, TEXT) == messages


def test_content_parts_are_recognised_too() -> None:
    cached = [
        {"role": "user", "content": [{"type": "text", "text": STUB}]},
        {"role": "assistant", "content": [{"type": "text", "text": TEXT, "cache_control": {"type": "ephemeral"}}]},
    ]  # fmt: skip
    assert inject([SYSTEM, *cached, ASK], TEXT) == [SYSTEM, *PAIR, ASK]


def test_a_user_who_pastes_a_whole_block_keeps_the_message() -> None:
    pasted = {"role": "user", "content": TEXT}
    assert inject([SYSTEM, pasted], TEXT) == [SYSTEM, *PAIR, pasted]
    answered = [pasted, {"role": "assistant", "content": "That is a block."}, ASK]
    assert inject(answered, None) == answered


def test_an_answer_that_repeats_the_block_is_not_dropped() -> None:
    answer = {"role": "assistant", "content": TEXT}
    history = [
        ASK,
        answer,
        {"role": "user", "content": "Thanks."},
        {"role": "assistant", "content": "!"},
        ASK,
    ]
    assert inject(history, None, framing="single") == history


class Model:
    """What a client library returns."""

    def model_dump(self, *, exclude_none: bool = False) -> dict[str, Any]:
        return {"role": "user", "content": "What tea?"} | ({} if exclude_none else {"name": None})


class Frozen(Mapping[str, Any]):
    def __getitem__(self, key: str) -> Any:
        return ASK[key]

    def __iter__(self) -> Iterator[str]:
        return iter(ASK)

    def __len__(self) -> int:
        return len(ASK)


def test_messages_may_be_objects() -> None:
    assert inject([SYSTEM, Model()], TEXT) == [SYSTEM, *PAIR, ASK]
    assert inject((m for m in [Frozen()]), TEXT) == [*PAIR, ASK]


@pytest.mark.parametrize("role", ["system", "developer", "tool", "", None])
def test_the_reference_never_speaks_as_the_system(role: Any) -> None:
    with pytest.raises(RoleRefused):
        inject([ASK], TEXT, role=role)
    with pytest.raises(RoleRefused):
        inject([ASK], None, role=role)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: inject([ASK], "just some text"), MalformedBlock),
        (lambda: inject([ASK], 5), MalformedBlock),  # type: ignore[arg-type]  # refused
        (lambda: inject([ASK], BLOCK), MalformedBlock),  # type: ignore[arg-type]  # refused
        (lambda: inject([ASK], TEXT, framing="triple"), InvalidInput),  # type: ignore[arg-type]  # refused
        (lambda: inject([ASK], TEXT, placement="first"), InvalidInput),  # type: ignore[arg-type]  # refused
        (lambda: inject([None], TEXT), InvalidMessage),
        (lambda: inject(["hello"], TEXT), InvalidMessage),
        (lambda: inject([{"role": "wizard", "content": "x"}], TEXT), InvalidMessage),
        (lambda: inject([{"role": "user", "content": 5}], TEXT), InvalidMessage),
        (lambda: inject([{"content": "x"}], TEXT), InvalidMessage),
    ],
)
def test_what_cannot_be_used_is_refused(call: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        call()
