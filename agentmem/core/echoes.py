"""Recognise text that was injected, when nothing of the block's markup is left around it.

A fingerprint is the hash of eight words in a row, read without case,
punctuation and escapes. Eight words repeat by chance far more rarely than they
are copied.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Iterator

from agentmem.core.block import ContextBlock
from agentmem.core.patterns import compile_late
from agentmem.core.skeleton import Seen, see

WORDS_IN_A_ROW = 8

# Scripts written without spaces count by the character.
_WORD = compile_late(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003ffff]|[^\\W_]+?(?=[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]|[\\W_]|\\Z)"
)


def fingerprints(shown: ContextBlock | Iterable[str]) -> frozenset[bytes]:
    """What to remember of a block, or of any texts, to find their echoes later.

    A text shorter than eight words is found again only where it is a whole line.
    """
    texts: Iterable[str]
    if isinstance(shown, ContextBlock):
        texts = (
            *shown.user_profile,
            *(source.text for source in shown.related_knowledge),
            *(pointer.summary for pointer in shown.working_memory),
            shown.summary,
        )
    else:
        texts = (shown,) if isinstance(shown, str) else shown
    found: set[bytes] = set()
    for text in texts:
        words = [word for word, _, _ in _words(see(text))]
        if len(words) < WORDS_IN_A_ROW:
            found |= {_hash(words, whole=True)} if words else set()
        else:
            found |= {_hash(row) for row in _rows(words)}
    return frozenset(found)


def echoes(text: str, known: Collection[bytes]) -> list[tuple[int, int]]:
    """The spans of `text` that repeat something known, in order."""
    spans: list[tuple[int, int]] = []
    words = list(_words(see(text)))
    last = -1
    for at in range(len(words) - WORDS_IN_A_ROW + 1):
        row = words[at : at + WORDS_IN_A_ROW]
        if _hash([word for word, _, _ in row]) not in known:
            continue
        if at <= last:
            spans[-1] = (spans[-1][0], row[-1][2])
        else:
            spans.append((row[0][1], row[-1][2]))
        last = at + WORDS_IN_A_ROW
    for line in re.finditer(r"[^\n]+", text):
        short = list(_words(see(line[0])))
        if 0 < len(short) < WORDS_IN_A_ROW and _hash([w[0] for w in short], whole=True) in known:
            spans.append((line.start() + short[0][1], line.start() + short[-1][2]))
    return sorted(spans)


def _words(seen: Seen) -> Iterator[tuple[str, int, int]]:
    for match in _WORD.finditer(seen.text):
        yield match[0].casefold(), *seen.span(*match.span())


def _rows(words: list[str]) -> Iterator[list[str]]:
    for at in range(len(words) - WORDS_IN_A_ROW + 1):
        yield words[at : at + WORDS_IN_A_ROW]


def _hash(words: list[str], *, whole: bool = False) -> bytes:
    text = ("\n" if whole else "") + "\0".join(words)
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8).digest()
