"""The words in the middle of a long text, by which it is found though only its ends are kept."""

from __future__ import annotations

from collections.abc import Iterator

from agentmem.core.lexical import MAX_WORD_CHARACTERS, STOP_WORDS, word_runs

READ_CHARACTERS = 400_000
KEPT_CHARACTERS = 12_000
_WINDOWS = 50
_SHARES = (1.0, 0.4, 0.2)
"""How much of the limit words of letters, mixed ones and numbers may take: each costs its time,
and every nth of a thousand ids is hardly ever the one that is looked for."""
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
    mixed ones and those before numbers, which have a smaller share, and of a
    sort that does not fit whole every nth stays.
    """
    seen = set(word_runs(known.lower()))
    seen |= STOP_WORDS
    sorts: tuple[list[str], list[str], list[str]] = ([], [], [])
    for word in dict.fromkeys(_pieces(text)):
        if word.lower() not in seen:
            sorts[_sort(word)].append(word)
    kept: list[str] = []
    left = limit_characters
    for words, share in zip(sorts, _SHARES, strict=True):
        chosen = _every_nth(words, min(left, int(share * limit_characters)))
        kept += chosen
        left -= sum(len(word) + 1 for word in chosen)
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
    wanted = len(words) * limit_characters // size
    chosen = [words[number * len(words) // wanted] for number in range(wanted)]
    while sum(len(word) + 1 for word in chosen) > limit_characters:
        chosen.pop()
    return chosen
