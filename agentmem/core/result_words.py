"""The words in the middle of a long text, by which it is found though only its ends are kept."""

from __future__ import annotations

from collections.abc import Iterator

from agentmem.core.lexical import MAX_WORD_CHARACTERS, STOP_WORDS, word_runs

READ_CHARACTERS = 400_000
KEPT_CHARACTERS = 12_000
_WINDOWS = 50
_PIECE = 32


def spread(text: str) -> str:
    """`text`, or pieces from all over it that are `READ_CHARACTERS` together."""
    if len(text) <= READ_CHARACTERS:
        return text
    size = READ_CHARACTERS // _WINDOWS
    step = (len(text) - size) / (_WINDOWS - 1)
    starts = [round(step * number) for number in range(_WINDOWS)]
    return "\n".join(text[start : start + size] for start in starts)


def distinct_words(text: str, *, known: str = "", limit_characters: int = KEPT_CHARACTERS) -> str:
    """The different words of `text` that are not in `known`, separated by spaces.

    Where they are more than `limit_characters`, words of letters go before
    mixed ones and those before numbers, and of the sort that does not fit
    whole, every nth stays.
    """
    seen = set(word_runs(known.lower()))
    seen |= STOP_WORDS
    sorts: tuple[list[str], list[str], list[str]] = ([], [], [])
    for word in dict.fromkeys(_pieces(text)):
        if word.lower() not in seen:
            sorts[_sort(word)].append(word)
    kept: list[str] = []
    left = limit_characters
    for words in sorts:
        chosen = _every_nth(words, left)
        kept += chosen
        left -= sum(len(word) + 1 for word in chosen)
        if len(chosen) < len(words):
            break
    return " ".join(kept)


def _pieces(text: str) -> Iterator[str]:
    tokens = dict.fromkeys(text.split())
    for word in word_runs(" ".join(tokens)):
        if 1 < len(word) <= MAX_WORD_CHARACTERS:
            yield word
        elif len(word) > MAX_WORD_CHARACTERS and not word.isascii():  # written without spaces
            yield from (word[at : at + _PIECE] for at in range(0, len(word), _PIECE))


def _sort(word: str) -> int:
    if word.isalpha():
        return 0
    return 2 if word.replace(".", "").replace(",", "").replace("-", "").isdigit() else 1


def _every_nth(words: list[str], limit_characters: int) -> list[str]:
    """All of them if they fit, else as many as surely do, from all over."""
    size = sum(len(word) + 1 for word in words)
    if size <= limit_characters:
        return words
    wanted = len(words) * max(limit_characters, 0) // size
    chosen = [words[number * len(words) // wanted] for number in range(wanted)]
    while sum(len(word) + 1 for word in chosen) > limit_characters:
        chosen.pop()
    return chosen
