"""Byte-pair tokens of a short text, from a tokenizer's own file.

The library that does this for many texts takes longer to load its tables than
a short command takes for everything else; for one question they need not be
built. The ids are the library's, or there are none and the library is asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

MAX_CHARACTERS = 400
"""Each merge looks at every pair again, so a long text is for the library."""

_SPACE = "▁"
_NORMALIZER = {
    "type": "Sequence",
    "normalizers": [
        {"type": "Prepend", "prepend": _SPACE},
        {"type": "Replace", "pattern": {"String": " "}, "content": _SPACE},
    ],
}
_MODEL = {
    "type": "BPE",
    "dropout": None,
    "continuing_subword_prefix": None,
    "end_of_word_suffix": None,
    "byte_fallback": True,
    "ignore_merges": False,
}
_BYTES = tuple(f"<0x{byte:02X}>" for byte in range(256))


class BytePairs:
    """The pieces a tokenizer knows, and which two become one before which others."""

    def __init__(self, pieces: Mapping[str, int], merges: list[str], special: tuple[str, ...]):
        self._pieces = pieces
        self._rank = dict(zip(merges, range(len(merges)), strict=True))
        self._special = special

    def encode(self, text: str) -> list[int] | None:
        """The ids of the text's tokens; `None` if only the library can tell."""
        if len(text) > MAX_CHARACTERS or any(mark in text for mark in self._special):
            return None
        if not text:
            return []
        parts: list[str] = []
        for character in _SPACE + text.replace(" ", _SPACE):
            known = character in self._pieces
            parts += [character] if known else [_BYTES[byte] for byte in character.encode()]
        return [self._pieces[part] for part in self._merged(parts)]

    def _merged(self, parts: list[str]) -> list[str]:
        """Join the pair that ranks first, the leftmost of equals, until no two belong together."""
        never = len(self._rank)
        ranks = [self._rank.get(f"{one} {two}", never) for one, two in pairwise(parts)]
        while ranks and (best := min(ranks)) < never:
            at = ranks.index(best)
            parts[at : at + 2] = [parts[at] + parts[at + 1]]
            del ranks[at]
            for pair in (at - 1, at):
                if 0 <= pair < len(ranks):
                    ranks[pair] = self._rank.get(f"{parts[pair]} {parts[pair + 1]}", never)
        return parts


def read_byte_pairs(table: Any) -> BytePairs | None:
    """What a tokenizer's file says, if it is of the kind that is read here; else `None`."""
    try:
        model = table["model"]
        pieces, merges = model["vocab"], model["merges"]
        special = tuple(token["content"] for token in table["added_tokens"])
        as_expected = (
            table["normalizer"] == _NORMALIZER
            and table["pre_tokenizer"] is None
            and all(model.get(name) == value for name, value in _MODEL.items())
            and all(byte in pieces for byte in _BYTES)
            and all(special)
            and type(merges[0]) is str
        )
    except (KeyError, TypeError, IndexError, AttributeError):
        return None
    return BytePairs(pieces, merges, special) if as_expected else None
