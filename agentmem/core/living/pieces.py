"""Long texts in pieces a model can be asked about, cut between turns and sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from agentmem.core.checks import require_count
from agentmem.core.sentences import sentences
from agentmem.protocols import TokenCounter

Piece = tuple[tuple[int, str], ...]
"""Parts of turns, each with the number of its turn, from 1."""


def cut_pieces(
    texts: Sequence[str], *, limit_tokens: int, count: TokenCounter
) -> tuple[Piece, ...]:
    """`texts` in pieces of about `limit_tokens`, every visible character in one of them (L13).

    Turns share a piece while there is room. Only a sentence that is too long
    by itself is cut within, between words if it has some.
    """
    require_count(limit_tokens, "limit_tokens", least=1)
    pieces: list[Piece] = []
    piece: list[tuple[int, str]] = []
    used = 0
    for number, text in enumerate(texts, 1):
        for part in _parts(text, limit_tokens, count):
            cost = count(part)
            if piece and used + cost > limit_tokens:
                pieces.append(tuple(piece))
                piece, used = [], 0
            piece.append((number, part))
            used += cost
    return (*pieces, tuple(piece)) if piece else tuple(pieces)


def _parts(text: str, limit_tokens: int, count: TokenCounter) -> Iterator[str]:
    """One text in parts of whole sentences, each within the limit."""
    begin = last = None
    for start, end in sentences(text):
        if begin is not None and last is not None:
            if count(text[begin:end]) <= limit_tokens:
                last = end
                continue
            yield text[begin:last]
        begin, last = start, end
        if count(text[start:end]) > limit_tokens:
            yield from _shorter(text[start:end], limit_tokens, count)
            begin = last = None
    if begin is not None and last is not None:
        yield text[begin:last]


def _shorter(sentence: str, limit_tokens: int, count: TokenCounter) -> Iterator[str]:
    """An overlong sentence, halved at a word until its parts fit."""
    waiting = [sentence]
    while waiting:
        part = waiting.pop()
        if len(part) < 2 or count(part) <= limit_tokens:
            if part.strip():
                yield part.strip()
            continue
        middle = len(part) // 2
        cut = part.rfind(" ", 1, middle + 1)
        cut = cut if cut > 0 else middle
        waiting += [part[cut:], part[:cut]]
