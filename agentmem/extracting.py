"""The model that needs none: it answers by quoting the reference message."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from agentmem.config import EXTRACTIVE
from agentmem.core.asking import read_queries
from agentmem.core.context import ContextBlock, parse_context
from agentmem.core.extractive import ExtractSource, extract_answer
from agentmem.core.injection import is_reference, last_question
from agentmem.core.message_parts import text_of
from agentmem.core.preferences import detect_preferences
from agentmem.core.replies import Reply
from agentmem.core.strip import strip
from agentmem.errors import MalformedBlock

NOTHING = "Nothing in memory answers this."
NOTED = "Noted."
TOLD = "You told me: "


class ExtractiveModel:
    """Answers with the best sentences of the reference message and their numbers.

    It reads nothing else and invents nothing; where memory has no answer it
    says so.
    """

    name = EXTRACTIVE

    async def __call__(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        tools: Sequence[Mapping[str, Any]] = (),
        tools_off: bool = False,
        on_chunk: Callable[[str], Awaitable[None] | None] | None = None,
    ) -> Reply:
        text = answer_from(messages)
        if on_chunk is not None:
            told = on_chunk(text)
            if told is not None:
                await told
        return Reply(text=text, model=self.name, finish_reason="stop")


def answer_from(messages: Sequence[Mapping[str, Any]]) -> str:
    """The answer that the reference message in `messages` holds to their last question."""
    given = [dict(message) for message in messages]
    if is_told(given):
        return NOTED
    block = find_block(given)
    if block is None:
        return NOTHING
    sources = [
        ExtractSource(index=at, text=source.text, title=source.title, date=source.retrieved)
        for at, source in enumerate(block.related_knowledge, start=1)
    ]
    profile = [
        ExtractSource(index=at, text=line) for at, line in enumerate(block.user_profile, start=1)
    ]
    questions = read_queries(given)
    for question in questions:
        found = extract_answer(question, sources)
        if found.found:
            return found.text
    for question in questions:
        told = extract_answer(question, profile)
        if told.found:
            lines = [block.user_profile[sentence.index - 1] for sentence in told.sentences]
            return TOLD + "; ".join(dict.fromkeys(lines))
    return NOTHING


def is_told(messages: Sequence[dict[str, Any]]) -> bool:
    """Whether the user last said something about themselves and asked nothing."""
    asked = last_question(list(messages))
    if asked is None:
        return False
    said = text_of(messages[asked])
    return "?" not in said and bool(detect_preferences(strip(said)))


def find_block(messages: Sequence[dict[str, Any]]) -> ContextBlock | None:
    """The last reference message as a block, or none."""
    for message in reversed(messages):
        if is_reference(message):
            try:
                return parse_context(text_of(message))
            except MalformedBlock:
                return None
    return None
