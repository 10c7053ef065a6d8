"""The model that needs none: it answers by quoting the reference message."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from agentmem.config import EXTRACTIVE
from agentmem.core.asking import read_queries
from agentmem.core.choosing import is_only_asked
from agentmem.core.context import STUB, ContextBlock, parse_context
from agentmem.core.conversation import is_reference, last_question
from agentmem.core.extractive import ExtractSource, extract_answer
from agentmem.core.message_parts import text_of
from agentmem.core.replies import Reply
from agentmem.core.showing import show_quote
from agentmem.core.strip import strip
from agentmem.errors import MalformedBlock
from agentmem.hearing import hear

NOTHING = "Nothing in memory answers this."
NOTED = "Noted."
TOLD = "You told me: "
ASKING = frozenset(
    {
        "who", "whom", "whose", "what", "which", "when", "where", "why", "how", "tell", "show",
        "explain", "describe", "list", "find", "give", "say", "summarise", "summarize",
        "compare", "search", "look", "know", "wonder", "wondering", "want", "need", "please",
        "help"
    }
)  # fmt: skip
_WORD = re.compile(r"\w+")


class ExtractiveModel:
    """Answers with the best sentences of the reference message and their numbers.

    What the user said earlier in the conversation is not in that message, and
    is quoted too. It reads nothing else and invents nothing; where there is no
    answer it says so.
    """

    name = EXTRACTIVE

    async def __call__(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        tools: Sequence[Mapping[str, Any]] = (),
        tools_off: bool = False,
        on_chunk: Callable[[str], Awaitable[None] | None] | None = None,
        response_format: Mapping[str, Any] | None = None,
    ) -> Reply:
        text = answer_from(messages)
        if on_chunk is not None:
            told = on_chunk(text)
            if told is not None:
                await told
        return Reply(text=text, model=self.name, finish_reason="stop")


def answer_from(messages: Sequence[Mapping[str, Any]]) -> str:
    """The answer to the last question that the reference message or the user's own words hold."""
    given = [dict(message) for message in messages]
    if is_told(given):
        return NOTED
    block = find_block(given) or ContextBlock()
    sources = [
        ExtractSource(index=at, text=source.text, title=source.title, date=source.retrieved)
        for at, source in enumerate(block.related_knowledge, start=1)
    ]
    said = [
        ExtractSource(index=at, text=text)
        for at, text in enumerate(earlier_statements(given), start=len(sources) + 1)
    ]
    profile = [
        ExtractSource(index=at, text=line) for at, line in enumerate(block.user_profile, start=1)
    ]
    questions = read_queries(given)
    for question in questions[:1]:  # the others may hold words of the message before
        found = extract_answer(question, [*sources, *said])
        if found.found and found.sentences[0].index > len(sources):
            return TOLD + show_quote(found.sentences[0].quote)
    for question in questions:
        found = extract_answer(question, sources)
        if found.found:
            return found.text
    for question in questions:
        told = extract_answer(question, profile)
        if told.found:
            lines = [block.user_profile[sentence.index - 1] for sentence in told.sentences]
            return TOLD + "; ".join(dict.fromkeys(lines))
    asked = last_question(given)
    return NOTED if asked is not None and is_statement(text_of(given[asked])) else NOTHING


def earlier_statements(messages: Sequence[dict[str, Any]]) -> list[str]:
    """What the user said before the last question and did not ask, the newest first."""
    asked = last_question(messages)
    texts = [
        strip(text_of(message)).strip()
        for message in messages[: asked or 0]
        if message.get("role") == "user" and text_of(message) != STUB
    ]
    return [text for text in reversed(texts) if text and not is_only_asked(text)]


def is_statement(text: str) -> bool:
    """Whether a text says something rather than asks for it, as far as its form tells."""
    words = _WORD.findall(text.casefold())
    ends = text.rstrip().endswith((".", "!", "。"))
    return ends and "?" not in text and len(words) > 2 and not ASKING & {words[0], *words[1:6]}


def is_told(messages: Sequence[dict[str, Any]]) -> bool:
    """Whether the user last said something about themselves and asked nothing."""
    asked = last_question(messages)
    if asked is None:
        return False
    said = text_of(messages[asked])
    return "?" not in said and bool(hear(strip(said)).stated)


def find_block(messages: Sequence[dict[str, Any]]) -> ContextBlock | None:
    """The last reference message as a block, or none."""
    for message in reversed(messages):
        if is_reference(message):
            try:
                return parse_context(text_of(message))
            except MalformedBlock:
                return None
    return None
