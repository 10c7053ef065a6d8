"""Which language a short text is in, and whether it asks anything at all."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from agentmem.base.lazy import compile_late
from agentmem.data import read_json

Words = Mapping[str, Mapping[str, frozenset[str]]]
"""Words by language and sort, as `data/question_words.json` has them."""

LANGUAGES = ("en", "de", "es", "fr", "pt", "it", "ja", "zh")
UNSPACED = frozenset({"ja", "zh"})
READ_CHARACTERS = 1_000
GREETING_CHARACTERS = 60

_WORD = compile_late(r"[^\W_]+(?:['’\-][^\W_]+)*['’]?")
_SAID = compile_late(r"[^\W_]+(?:['’][^\W_]+)*")
_KANA = compile_late("[\u3040-\u30ff]")
_HAN = compile_late("[\u3400-\u4dbf\u4e00-\u9fff]")


@cache
def question_words() -> Words:
    """The words by which a question is told from another, by language and sort."""
    table: dict[str, dict[str, str]] = read_json("question_words.json")
    return {
        language: {sort: frozenset(listed.casefold().split("|")) for sort, listed in sorts.items()}
        for language, sorts in table.items()
    }


def words_of(text: str) -> list[str]:
    """The words of a text as they stand there, with their hyphens and apostrophes."""
    return _WORD.findall(text)


def is_unspaced(word: str) -> bool:
    """Whether a word is of a script that sets no spaces between words."""
    return bool(_KANA.search(word) or _HAN.search(word))


def detect_language(text: str) -> str:
    """The language whose small words a short text uses most; English when in doubt."""
    if _KANA.search(text):
        return "ja"
    if _HAN.search(text):
        return "zh"
    said = [word.casefold() for word in _WORD.findall(text[:READ_CHARACTERS])]
    counts = {
        language: sum(word in sorts["stop"] for word in said)
        for language, sorts in question_words().items()
        if "stop" in sorts
    }
    best = max(counts, key=lambda language: (counts[language], language == "en"))
    return best if counts[best] else "en"


def is_greeting(text: str) -> bool:
    """Whether a message only greets, thanks or agrees ("Hi there!", "ok", "ありがとう", "👍")."""
    if len(text) > GREETING_CHARACTERS:
        return False
    said = _SAID.findall(text.casefold().replace("’", "'"))
    known, with_it = _greetings()
    at = 0
    greeted = not said
    while at < len(said):
        for size in (4, 3, 2, 1):
            phrase = " ".join(said[at : at + size])
            if phrase in known or phrase in with_it:
                greeted = greeted or phrase in known
                at += size
                break
        else:
            return False
    return greeted


@cache
def _greetings() -> tuple[frozenset[str], frozenset[str]]:
    """What greets, thanks or agrees, and what may stand beside it ("there", "very much")."""
    tables = question_words().values()
    return (
        frozenset(phrase for sorts in tables for phrase in sorts["greeting"]),
        frozenset(phrase for sorts in tables for phrase in sorts.get("beside", ())),
    )
