"""Which language a short text is in, and whether it asks anything at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from io import BytesIO
from itertools import pairwise
from typing import TYPE_CHECKING
from zlib import crc32

from agentmem.base.lazy import compile_late
from agentmem.data import read_bytes, read_json

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Words = Mapping[str, Mapping[str, frozenset[str]]]
"""Words by language and sort, as `data/question_words.json` has them."""

LANGUAGES = ("en", "de", "es", "fr", "pt", "it", "ja", "zh")
UNSPACED = frozenset({"ja", "zh"})
READ_CHARACTERS = 1_000
GREETING_CHARACTERS = 60
GRAMS = 32_768
"""Places for the character n-grams of a message; which one a gram gets is its hash."""
ASKED_CHARACTERS = 400
"""What is longer tells something, whatever it asks."""
ASKS = 3.5
"""From this sum of weights on a text is taken to ask and to tell nothing: of what people told and
were asked about later less than one in a hundred is (benchmarks/fit_asked.py)."""
QUESTION_MARKS = ("?", "？", "؟")

_WORD = compile_late(r"[^\W_]+(?:['’\-][^\W_]+)*['’]?")
_SAID = compile_late(r"[^\W_]+(?:['’][^\W_]+)*")
_RUN = compile_late(r"\w+")
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


@lru_cache(maxsize=32)  # one turn asks for the same question several times
def find_language(text: str) -> str | None:
    """The language whose words and letters a short text uses most; None where it uses none."""
    if _KANA.search(text):
        return "ja"
    if _HAN.search(text):
        return "zh"
    read = text[:READ_CHARACTERS].casefold()
    known = _words_by_language()
    sums = dict.fromkeys(LANGUAGES, 0.0)
    for word in (*_RUN.findall(read), *(letter for letter in read if not letter.isascii())):
        for language, weight in known.get(word, ()):
            sums[language] += weight
    best = max(sums, key=sums.__getitem__)  # LANGUAGES has English first
    return best if sums[best] else None


@cache
def _words_by_language() -> Mapping[str, Sequence[tuple[str, float]]]:
    """What each word or letter says for which language.

    A small word counts the less the more languages have it, any other listed one half.
    """
    weights: dict[str, dict[str, float]] = {}
    for language, sorts in question_words().items():
        for word in frozenset().union(*sorts.values()):
            weights.setdefault(word, {})[language] = 0.0
    for word, found in weights.items():
        small = [one for one in found if word in question_words()[one].get("stop", ())]
        for language in found:
            sorts = question_words()[language]
            other = any(word in listed for sort, listed in sorts.items() if sort != "stop")
            found[language] = other / 2 + (1 / len(small) if language in small else 0)
    return {word: tuple(found.items()) for word, found in weights.items()}


def detect_language(text: str) -> str:
    """The language of a short text; English when in doubt."""
    return find_language(text) or "en"


def language_number(text: str) -> int:
    """The language of a text as a number of four bits; 0 when it cannot be told."""
    found = find_language(text)
    return 0 if found is None else 1 + LANGUAGES.index(found)


def telling_text(text: str) -> str:
    """A text without the words that its language uses everywhere; an English one as it is.

    `analyse` leaves out the English ones by itself.
    """
    language = find_language(text)
    small = question_words()[language].get("stop") if language not in (None, "en") else None
    if not small:
        return text
    return _RUN.sub(lambda word: "" if word[0].casefold() in small else word[0], text)


def telling_words(text: str) -> list[str]:
    """The words of a text that its language does not use everywhere, without single letters."""
    small = question_words()[detect_language(text)].get("stop", frozenset())
    words = _RUN.findall(text.casefold())
    return [w for w in words if w not in small and (w[1:] or w.isdigit() or is_unspaced(w))]


def speaks_of_self(text: str) -> bool:
    """Whether a text has words of the first person: I, me, my, our, …"""
    read = text[:READ_CHARACTERS].casefold().replace("’", "'")
    language = detect_language(read)
    sorts = question_words()[language]
    listed = frozenset(word for sort in ("own", "i", "me") for word in sorts.get(sort, ()))
    if language in UNSPACED:
        return any(word in read for word in listed)
    return not listed.isdisjoint(words_of(read))


def goes_on(text: str) -> bool:
    """Whether a text begins as one that goes on from what was said: "and …", "und …", 那…"""
    read = text.casefold().lstrip("¿¡\"' ")
    language = detect_language(read)
    joining = question_words()[language]["join"]
    if language in UNSPACED:
        return read.startswith(tuple(joining))
    return read.partition(" ")[0].rstrip(",") in joining


def is_greeting(text: str) -> bool:
    """Whether a message only greets, thanks or agrees ("Hi there!", "ok", "ありがとう", "👍")."""
    if len(text) > GREETING_CHARACTERS:
        return False
    said = _SAID.findall(text.casefold().replace("’", "'"))
    known = _greetings()
    greeted = not said
    while said:
        size = next((size for size in (4, 3, 2, 1) if " ".join(said[:size]) in known), 0)
        if not size:
            return False
        greeted = greeted or known[" ".join(said[:size])]
        said = said[size:]
    return greeted


@cache
def _greetings() -> Mapping[str, bool]:
    """What greets, thanks or agrees, and what may only stand beside it ("there", "very much")."""
    tables = question_words().values()
    beside = (phrase for sorts in tables for phrase in sorts.get("beside", ()))
    greeting = (phrase for sorts in tables for phrase in sorts["greeting"])
    return {**dict.fromkeys(beside, False), **dict.fromkeys(greeting, True)}


@lru_cache(maxsize=4_096)
def only_asks(text: str) -> bool:
    """Whether a text without question marks asks or orders and tells nothing: "how do u get wine
    out of a carpet". Fitted on messages of many people, in eight languages."""
    if len(text) > ASKED_CHARACTERS:
        return False
    weights, offset = _asking()
    places = gram_places(text)
    return offset + float(weights[places].sum()) * gram_scale(text) >= ASKS


@cache
def _asking() -> tuple[NDArray[np.float32], float]:
    import numpy as np

    with np.load(BytesIO(read_bytes("asked.npz"))) as file:
        return file["grams"].astype(np.float32), float(file["offset"])


def gram_places(text: str) -> NDArray[np.intp]:
    """Where the distinct n-grams of a message are among GRAMS.

    Words, neighbouring words, those it begins with and pieces of three or four
    letters; of scripts without spaces one to three characters and its ends.
    """
    import numpy as np

    read = text.strip()[:READ_CHARACTERS].casefold().replace("’", "'")
    words = words_of(read)
    spaced = [word for word in words if not is_unspaced(word)]
    found = {f"{one} {other}" for one, other in pairwise(spaced)}
    found.update("^" + " ".join(spaced[:size]) for size in (1, 2) if len(spaced) >= size)
    for word in words:
        if is_unspaced(word):
            found.update(word[at : at + size] for size in (1, 2, 3) for at in range(len(word)))
            found.update((f"^{word[:2]}", f"{word[-2:]}$", f"{word[-1:]}$"))
        else:
            found.add(f" {word} ")
            found.update(f" {word} "[at : at + 4] for at in range(len(word) - 1))
    return np.array(sorted({crc32(gram.encode()) % GRAMS for gram in found}), dtype=np.intp)


def gram_scale(text: str) -> float:
    """What each n-gram counts: a long message has many, and must not say more for it."""
    return float(1.0 / max(4.0, min(len(text), READ_CHARACTERS)) ** 0.5)
