"""What to search for, read from a conversation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from agentmem.prompt.messages import last_question, read_conversation
from agentmem.prompt.strip import strip
from agentmem.text.language import (
    goes_on,
    is_greeting,
    is_unspaced,
    speaks_of_self,
    telling_words,
)
from agentmem.text.messages import text_of
from agentmem.text.sentences import sentences
from agentmem.text.terms import analyse_query

READ_CHARACTERS = 4_000
"""Of a longer message the beginning and the end are read: that is where people ask."""
MOST_SENTENCES = 3
FEW_WORDS = 3
FEW_CHARACTERS = 12
"""A question with fewer telling words leans on what was said before it; where no spaces part
the words, one with fewer characters."""


def read_queries(messages: Iterable[Any]) -> tuple[str, ...]:
    """The queries for the last thing the user said, the most important first.

    The whole message; the one before and it, when it goes on from it or has too
    few words of its own ("and why?"), and those alone when it has none and is not about the
    speaker; and, when it has several sentences, the questions among
    them or else the last ones: one half of a compound question must not hide
    what the other half finds. Nothing for a message without words, and for one
    that only greets, thanks or agrees (P44).
    """
    conversation = read_conversation(messages)
    asked = conversation.asked
    if asked is None:
        return ()
    whole = asked_text(conversation[asked])
    if is_greeting(whole):
        return ()
    queries = [whole]
    telling = telling_words(whole)
    short = len(telling) < FEW_WORDS
    if is_unspaced(whole):
        short = sum(map(len, telling)) < FEW_CHARACTERS
    if short or goes_on(whole):
        before = last_question(conversation[:asked])
        earlier = asked_text(conversation[before]) if before is not None else ""
        if earlier:
            queries.append(f"{earlier} {whole}")
            if not telling and not speaks_of_self(whole):
                del queries[0]
    parts = [whole[start:end].strip() for start, end in sentences(whole)]
    parts = [part for part in parts if analyse_query(part)]
    if len(parts) > 1:
        questions = [part for part in parts if part.endswith(("?", "？", "؟"))]
        queries += questions[:MOST_SENTENCES] or parts[-MOST_SENTENCES:]
    return tuple(dict.fromkeys(queries))


def asked_text(message: Mapping[str, Any]) -> str:
    """What a message asks: of a long one the beginning and the end."""
    text = strip(text_of(message)).strip()
    if len(text) <= READ_CHARACTERS:
        return text
    half = READ_CHARACTERS // 2
    return f"{text[:half]} {text[-half:]}"
