"""Worked examples of taking our blocks out."""

from __future__ import annotations

import html
import json
from datetime import date

import pytest

from agentmem.base.errors import InvalidMessage, InvalidText
from agentmem.prompt.block import STUB, BlockSource, ContextBlock, render_context
from agentmem.prompt.messages import inject
from agentmem.prompt.strip import fingerprints, strip

FACT = "The tea house on the hill opens at nine and closes when the kettle is empty."
BLOCK = ContextBlock(
    user_profile=("likes green tea",),
    related_knowledge=(BlockSource(text=FACT, retrieved=date(2026, 1, 1), title="Tea"),),
)
TEXT = render_context(BLOCK, secret=b"sixteen bytes or more")
HALF = TEXT[: TEXT.index("kettle")]
TAIL = TEXT[TEXT.index("kettle") :]


def quoted(text: str) -> str:
    return "\n".join(f"> {line}" for line in text.split("\n"))


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (f"before\n{TEXT}\nafter", "before\nafter"),
        (f"before {TEXT} after", "before  after"),
        (f"before\n\n{quoted(TEXT)}\n\nafter", "before\n\n\nafter"),
        (f"before\n```xml\n{TEXT}\n```\nafter", "before\nafter"),
        (f"before\n{html.escape(TEXT)}\nafter", "before\nafter"),
        (json.dumps({"a": f"x {TEXT} y", "b": 1}), '{"a": "x  y", "b": 1}'),
        (f"before {' '.join(TEXT.split())} after", "before  after"),
        (f"one\n{TEXT}\ntwo\n{TEXT}\nthree", "one\ntwo\nthree"),
        (f"{TEXT}\n:\n{TEXT}", ":\n"),
        (f"before\n{HALF}", "before\n"),
        (f"{TAIL}\nafter", "after"),
        (f"before\n\n{quoted(HALF)}\n\nafter", "before\n\n\nafter"),
        (json.dumps({"a": HALF, "b": "kept"}), '{"a": "", "b": "kept"}'),
        (json.dumps({"a": TAIL, "b": "kept"}), '{"a": "", "b": "kept"}'),
        (json.dumps(json.dumps({"a": TEXT, "b": "kept"})), json.dumps(json.dumps({"a": "", "b": "kept"}))),
        (f"{STUB}\nhello", "\nhello"),
    ],
)  # fmt: skip
def test_a_block_goes_and_the_rest_stays(text: str, left: str) -> None:
    assert strip(text) == left


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nothing here",
        "What is <knowledge_context>?",
        "Close it with </knowledge_context> or </source>.",
        "My prompt has <user_profile>name: Ann</user_profile> in it.",
        '<video><source src="a.mp4"></video>',
        "agentmem reference manual, chapter 3 begins here",
        "the source index 1 of the url list",
        "x" * 10_000_000,
    ],
)
def test_what_only_mentions_us_is_not_touched(text: str) -> None:
    assert strip(text) == text


def test_every_cut_of_a_block_is_recognised() -> None:
    for at in range(len(TEXT) + 1):
        for part in (TEXT[:at], TEXT[at:]):
            left = strip(part)
            for needle in ("green tea", "hill", "kettle", "empty"):
                assert needle not in left, part


def test_transcripts_come_back_as_they_were() -> None:
    plain = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "When?"}]
    sent = inject(plain, TEXT)
    answer = {"role": "assistant", "content": f"It says:\n{TEXT}\nSo at nine."}
    echo = {"role": "assistant", "content": TEXT}
    assert strip([*sent, answer, echo]) == [
        *plain,
        {"role": "assistant", "content": "It says:\nSo at nine."},
    ]


def test_parts_arguments_and_results_are_stripped() -> None:
    call = {
        "id": "1",
        "type": "function",
        "function": {"name": "f", "arguments": json.dumps({"q": TEXT})},
    }
    messages = [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {
            "role": "user",
            "content": [{"type": "text", "text": TEXT}, {"type": "text", "text": "ok"}],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": HALF}]},
    ]
    left = strip(messages)
    assert left[0]["tool_calls"][0]["function"]["arguments"] == '{"q": ""}'
    assert left[1]["content"] == [{"type": "text", "text": "ok"}]
    assert left[2]["content"][0]["content"] == ""
    assert messages[1]["content"][0]["text"] == TEXT  # type: ignore[index]  # the input is not changed


def test_a_piece_without_markup_needs_its_fingerprint() -> None:
    piece = FACT[10:60]
    text = f"I read that {piece} there."
    assert strip(text) == text
    assert piece.split()[3] not in strip(text, known=fingerprints(BLOCK))


def test_short_texts_are_known_only_as_whole_lines() -> None:
    known = fingerprints(BLOCK)
    assert strip("She likes green tea too.", known=known) == "She likes green tea too."
    assert strip("a\n- likes green tea\nb", known=known).split() == ["a", "-", "b"]


def test_bad_input_is_refused() -> None:
    with pytest.raises(InvalidText):
        strip("\ud800")
    with pytest.raises(InvalidMessage):
        strip([None])
