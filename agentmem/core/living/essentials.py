"""What a text must not lose when it is shortened: its numbers, names, negations and code."""

from __future__ import annotations

import re
from functools import lru_cache

from agentmem.core.conflicts_synonyms import stem_word
from agentmem.core.conflicts_values import SCALES, SMALL_NUMBERS
from agentmem.core.conflicts_words import FILLERS, NEGATORS
from agentmem.core.lexical import STOP_WORDS
from agentmem.core.living.pasted_code import all_code_spans
from agentmem.core.values import dataclass

_PIECE = re.compile(r"[^\W_](?:[\w+#]|['’.,:/@\-](?=\w))*")
_NUMBER = re.compile(r"(?<![\w.])[-+]?\d+(?:,\d{3})*(?:\.\d+)*")
_ENDS = frozenset(".!?…。！？\n")
_INTERJECTIONS = (
    "yeah yes no wow hey hi hello thanks thank oh okay ok congrats great nice cool awesome sounds"
    " absolutely definitely sure hmm um uh gosh haha lol please sorry that's it's there's here's"
    " what's let's who's i'm i've i'll i'd you're we're they're"
)
_ORDINARY = STOP_WORDS | FILLERS | NEGATORS | frozenset(_INTERJECTIONS.split())
_NOT_NUMBERS = frozenset({"one"})
_DOUBTFUL_NEGATORS = frozenset({"stopped", "stops", "quit", "lack", "lacks", "lacking", "lacked"})
_NEGATIONS = NEGATORS - _DOUBTFUL_NEGATORS
_COUNTING = frozenset(SMALL_NUMBERS) | {"one"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Essentials:
    """The parts of a text that carry its truth, in comparable forms.

    Numbers are written one way ("1,000" and "one thousand" are "1000"), names
    are lower-case, negations are counted, code is verbatim.
    """

    numbers: frozenset[str]
    names: frozenset[str]
    negations: int
    code: tuple[str, ...]
    words: frozenset[str]
    """All words, lower-case, to look a name up in."""

    @property
    def negated(self) -> bool:
        """Whether anything is denied."""
        return self.negations > 0


def read_essentials(text: str) -> Essentials:
    """The essentials of `text`; any text has some, if only empty ones."""
    return _read_again(text) if len(text) <= _READ_AGAIN_CHARACTERS else _read(text)


def _read(text: str) -> Essentials:
    numbers: set[str] = set()
    names: set[str] = set()
    words: set[str] = set()
    negations = 0
    last_end = 0
    previous_number = 0.0
    for match in _PIECE.finditer(text):
        piece = match[0]
        before, last_end = last_end, match.end()
        if piece.islower() and piece.isalpha():  # most words
            words.add(piece)
            if piece in _NEGATIONS:
                negations += 1
            if previous_number or piece in _COUNTING:
                base, first = piece, False
            else:
                continue
        else:
            lower = piece.lower().replace("’", "'")
            first = before == 0 or not _ENDS.isdisjoint(text[before : match.start()])
            base = lower.removesuffix("'s")
            words.add(base)
            if lower in _NEGATIONS or lower.endswith("n't"):
                negations += 1
        if piece[0].isdigit():
            number = _number(base)
            numbers.add(number)
            previous_number = float(number) if number.isdecimal() and len(number) < 15 else 0.0
            continue
        if base in SMALL_NUMBERS and base not in _NOT_NUMBERS:
            numbers.add(_shown(SMALL_NUMBERS[base]))
            previous_number = SMALL_NUMBERS[base]
            continue
        if previous_number and len(base) > 2 and base in SCALES:
            if previous_number != 1.0:
                numbers.discard(_shown(previous_number))
            numbers.add(_shown(previous_number * SCALES[base]))
        previous_number = 1.0 if base == "one" else 0.0  # a number only before "thousand"
        if _is_name(piece, base, first):
            names.add(base)
    code = (
        tuple(text[start:end] for start, end in all_code_spans(text))
        if _may_have_code(text)
        else ()
    )
    return Essentials(
        numbers=frozenset(numbers),
        names=frozenset(names),
        negations=negations,
        code=code,
        words=frozenset(words),
    )


_READ_AGAIN_CHARACTERS = 2_000
# While a text is shortened it is read several times in a row.
_read_again = lru_cache(maxsize=32)(_read)


def missing_essentials(original: Essentials, shorter: Essentials) -> tuple[str, ...]:
    """What `shorter` lost or made up, in words; empty when it may stand for `original`."""
    missing = [f"number {number}" for number in sorted(original.numbers - shorter.numbers)]
    missing += [
        f"name {name}"
        for name in sorted(original.names - shorter.names)
        if not has_word(shorter, name)
    ]
    if original.negated and not shorter.negated:
        missing.append("negation")
    if shorter.negated and not original.negated:
        missing.append("negation that was not there")
    missing += [f"code {code}" for code in original.code if code not in shorter.code]
    missing += [
        f"number that was not there {number}"
        for number in sorted(shorter.numbers - original.numbers)
    ]
    missing += [
        f"name that was not there {name}"
        for name in sorted(shorter.names - original.names)
        if not has_word(original, name)
    ]
    return tuple(missing)


def has_word(essentials: Essentials, name: str) -> bool:
    """Whether a name is a word of the text, in this form or another one."""
    if name in essentials.words:
        return True
    stem = stem_word(name)
    return any(word[:2] == name[:2] and stem_word(word) == stem for word in essentials.words)


def _may_have_code(text: str) -> bool:
    return any(mark in text for mark in ("\n", "`", "    ", "\t", "<"))


def _number(piece: str) -> str:
    digits = _NUMBER.match(piece)
    if digits is None:
        return piece
    plain = digits[0].replace(",", "").lstrip("+")
    if "." in plain and plain.count(".") == 1:
        plain = plain.rstrip("0").rstrip(".")
    rest = piece[digits.end() :]
    if rest in ("k", "m", "bn") and len(plain) < 15:
        return _shown(float(plain) * SCALES[rest])
    return plain + rest


def _shown(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)


def _is_name(piece: str, base: str, first: bool) -> bool:
    if piece.islower() and piece.isalpha():
        return False  # most words
    if any(c.isupper() or c.isdigit() for c in piece[1:]):
        return True
    if not piece[0].isupper() or len(piece) < 2:
        return False
    return not (first and base.split("'", maxsplit=1)[0] in _ORDINARY)
