"""Find personal data in text: addresses, telephone, bank and card numbers.

Numbers that carry a check digit are tested for it, so that order numbers and
the like are not taken for accounts. A name is not looked for: telling one from
a word takes a model.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

from agentmem.core.values import dataclass

PersonalKind = Literal["e-mail", "phone", "IBAN", "card", "social security number"]

_EMAIL = re.compile(
    r"(?<![\w.+-])[A-Za-z0-9][\w.+-]{0,63}@(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.){1,8}"
    r"[A-Za-z]{2,24}(?![\w-])"
)
_IBAN = re.compile(r"(?<![A-Za-z0-9])[A-Z]{2}\d{2}(?:[ -]?[A-Z0-9]){11,30}(?![A-Za-z0-9])")
_CARD = re.compile(r"(?<![\w.,-])\d(?:[ -]?\d){12,18}(?![\w-]|[.,]\d)")
_SSN = re.compile(r"(?<![\w-])(?!000|666|9\d\d)\d{3}-(?!00)\d{2}-(?!0000)\d{4}(?![\w-])")
_PHONE = re.compile(
    r"(?<![\w.,/:-])(?:"
    r"(?:\+|00)[1-9]\d{0,2}[ .\-/]?(?:\(0?\d{1,5}\)[ .\-/]?)?\d(?:[ .\-/]?\d){5,12}"
    r"|\(\d{3}\)[ .-]?\d{3}[ .-]\d{4}"
    r"|\d{3}[.-]\d{3}[.-]\d{4}"
    r"|0\d{2,5}[ /-]\d(?:[ -]?\d){4,9}"
    r")(?![\w-]|[.,/:]\d)"
)
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}|\d{2}-\d{2}-\d{4}")
# All numbers but an IBAN have seven digits with little between them; most texts have none.
_MANY_DIGITS = re.compile(r"\d(?:[ .\-/()+]{0,3}\d){6}")
_IBAN_START = re.compile(r"[A-Z]{2}\d{2}")
_CARD_STARTS = re.compile(r"3[0-9]|4|5[0-9]|6|2[2-7]")
_LONGEST = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Personal:
    """One piece of personal data: `text[start:end]`."""

    kind: PersonalKind
    start: int
    end: int


def find_personal(text: str) -> tuple[Personal, ...]:
    """What of `text` (its first 100,000 characters) is personal data, in order, none twice."""
    taken: list[Personal] = []
    for found in _all(text[:_LONGEST]):
        if not any(found.start < one.end and one.start < found.end for one in taken):
            taken.append(found)
    return tuple(sorted(taken, key=lambda one: one.start))


def mask(text: str) -> str:
    """`text` with all but its first two and last two characters hidden; short ones wholly."""
    if len(text) < 8:
        return "•" * len(text)
    return f"{text[:2]}{'•' * min(6, len(text) - 4)}{text[-2:]}"


def mask_spans(text: str, spans: Iterator[tuple[int, int]] | list[tuple[int, int]]) -> str:
    """`text` with each span masked; spans may touch but not overlap."""
    parts: list[str] = []
    at = 0
    for start, end in sorted(spans):
        if start < at:
            continue
        parts += [text[at:start], mask(text[start:end])]
        at = end
    return "".join([*parts, text[at:]])


def _all(text: str) -> Iterator[Personal]:
    if "@" in text:
        for match in _EMAIL.finditer(text):
            yield Personal(kind="e-mail", start=match.start(), end=match.end())
    for match in _IBAN.finditer(text) if _IBAN_START.search(text) else ():
        length = _iban_length(match[0])
        if length:
            yield Personal(kind="IBAN", start=match.start(), end=match.start() + length)
    if _MANY_DIGITS.search(text) is None:
        return
    for match in _CARD.finditer(text):
        digits = re.sub(r"\D", "", match[0])
        if _CARD_STARTS.match(digits) and len(set(digits)) > 1 and _luhn(digits):
            yield Personal(kind="card", start=match.start(), end=match.end())
    for match in _SSN.finditer(text):
        yield Personal(kind="social security number", start=match.start(), end=match.end())
    for match in _PHONE.finditer(text):
        digits = re.sub(r"\D", "", match[0])
        if 7 <= len(digits) <= 15 and len(set(digits)) > 2 and not _DATE.search(match[0]):
            yield Personal(kind="phone", start=match.start(), end=match.end())


def _iban_length(text: str) -> int:
    """How many characters of `text` are a valid IBAN, the longest way; 0 for none."""
    ends = [at for at in range(15, len(text) + 1) if text[at - 1].isalnum()]
    for end in reversed(ends):
        plain = re.sub(r"[ -]", "", text[:end])
        if 15 <= len(plain) <= 34 and _mod97(plain):
            following = text[end : end + 1]
            if not following or not following.isalnum():
                return end
    return 0


def _mod97(iban: str) -> bool:
    moved = iban[4:] + iban[:4]
    return int("".join(str(int(character, 36)) for character in moved)) % 97 == 1


def _luhn(digits: str) -> bool:
    total = 0
    for place, digit in enumerate(reversed(digits)):
        value = int(digit) * (1 + place % 2)
        total += value - 9 if value > 9 else value
    return total % 10 == 0
