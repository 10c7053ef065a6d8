"""Keys and passwords that can be told by how they look or by what is said before them.

Two sorts only: keys that begin in a known way, and passwords told in a
sentence. `agentmem audit` looks for more, with a package made for it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from agentmem.text.regions import join_spans, replace_spans

KNOWN_KEYS = {
    "AWS Secret Key": re.compile(
        r"(?i:aws.{0,20}?(?:key|secret|token|pass)).{0,20}?(?<![\w/+])([\w/+]{40})(?![\w/+])",
    ),
    "API Key": re.compile(
        r"(?<![\w-])(sk-(?:[\w-]{0,40}?[_-])?(?=[A-Za-z]*\d|[\w-]*?[A-Z])[A-Za-z0-9]{16}[\w-]*"
        r"|AIza[\w-]{35}|hf_[A-Za-z0-9]{30,}|gsk_\w{40,}|xai-\w{40,}|github_pat_\w{40,}"
        r"|dop_v1_[0-9a-f]{64}|ya29\.[\w-]{30,})"
    ),
}
"""Keys told by how they begin."""
PRIVATE_KEY = "Private Key"
MORE_KEYS = {
    "Service Token": re.compile(
        r"(?<![\w-])((?:gh[opsu]_\w{30,}|glpat-[\w-]{18,}|xox[abprs]-[\w-]{10,}|AKIA[A-Z\d]{16}))"
    ),
    PRIVATE_KEY: re.compile(r"(-----BEGIN [A-Z ]{0,20}PRIVATE KEY)"),
    "Basic Auth Credentials": re.compile(r"://[^\s/:@]{1,64}:([^\s/@]{1,64})@"),
}
"""What detect-secrets knows as well, and is looked for here where it is not installed."""
# People tell an assistant their password in a sentence; detectors made for code look for quotes.
SAID = re.compile(
    r"\b(?:(?:pass(?:word|phrase|code)|passwort|pwd|api[ _-]?key|access[ _-]?token|secret[ _-]?key)"
    r"\b[^\w\n]{0,3}(?:is|ist|lautet|es|est)?[\s:=]{1,4}[\"'`]?"
    r"(?P<value>(?=[^\s\"'`]*[\d!@#$%^&*+=_~])(?=[^\s\"'`]*[A-Za-z])[^\s\"'`]{6,64})"
    r"|pin\b[^\w\n]{0,3}(?:is|ist|lautet|es|est)?[\s:=]{1,4}(?P<pin>\d{4,8})\b)",
    re.IGNORECASE,
)

# Errors of providers and proxies repeat the request: its headers, its address, the refused key.
_SENT = re.compile(
    r"\b(?:bearer|basic)[ :]{1,3}(?P<header>[\w.+/=~-]{8,4096})"  # Authorization: Bearer eyJ…
    r"|[?&](?:key|sig|signature|(?:api|access|auth)?[_-]?(?:key|token|secret))="
    r"(?P<query>[^\s&\"'<>]{4,4096})"  # …?key=AIza…
    r"|\b(?:x-)?(?:api|auth|access|secret|subscription)[ _-]?(?:key|token)[\"']?"
    r"(?:\s(?:provided|given|used|supplied|is|was)){0,2}\s?[:=]\s?[\"']?"
    r"(?P<field>[^\s\"'<>,;)}\]]{6,4096})",  # Incorrect API key provided: …
    re.IGNORECASE,
)
REMOVED = "(key removed)"
LONGEST_TEXT = 100_000


def without_keys(text: str) -> str:
    """`text`, which an error said, without the keys and passwords in it."""
    spans = [*secret_spans(text)]
    spans += [match.span(match.lastgroup or 0) for match in _SENT.finditer(text)]
    return replace_spans(text, join_spans(spans), lambda _: REMOVED)


def secret_spans(text: str) -> Iterator[tuple[int, int]]:
    """Where secrets stand in `text`, with the words that tell them; in no order."""
    for pattern in (*KNOWN_KEYS.values(), *MORE_KEYS.values(), SAID):
        for match in pattern.finditer(text):
            yield match.span()


def holds_secret(text: str) -> bool:
    """Whether a key or a password stands in `text`."""
    return next(secret_spans(text), None) is not None


# ----------------------------------------------------------------------------
# Find personal data in text: addresses, telephone, bank and card numbers.
#
# Numbers that carry a check digit are tested for it, so that order numbers and
# the like are not taken for accounts. A name is not looked for: telling one from
# a word takes a model.


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Personal:
    """One piece of personal data: `text[start:end]`."""

    kind: PersonalKind
    start: int
    end: int


def find_personal(text: str) -> tuple[Personal, ...]:
    """What of `text` (its first 100,000 characters) is personal data, in order, none twice."""
    text = text[:LONGEST_TEXT]
    taken: list[Personal] = []
    for kind, sign, pattern, length_of in _PERSONAL:
        for match in pattern.finditer(text) if sign.search(text) else ():
            start, end = match.start(), match.start() + length_of(match[0])
            if start < end and not any(start < one.end and one.start < end for one in taken):
                taken.append(Personal(kind=kind, start=start, end=end))
    return tuple(sorted(taken, key=lambda one: one.start))


def mask(text: str) -> str:
    """`text` with all but its first two and last two characters hidden; short ones wholly."""
    if len(text) < 8:
        return "•" * len(text)
    return f"{text[:2]}{'•' * min(6, len(text) - 4)}{text[-2:]}"


def mask_spans(text: str, spans: Iterable[tuple[int, int]]) -> str:
    """`text` with each span masked; spans may touch but not overlap."""
    return replace_spans(text, sorted(spans), mask)


def _iban_length(text: str) -> int:
    """How many characters of `text` are a valid IBAN, the longest way; 0 for none."""
    for end in range(len(text), 14, -1):
        plain = re.sub(r"[ -]", "", text[:end])
        whole = text[end - 1].isalnum() and not text[end : end + 1].isalnum()
        if whole and 15 <= len(plain) <= 34:
            number = "".join(str(int(character, 36)) for character in plain[4:] + plain[:4])
            if int(number) % 97 == 1:
                return end
    return 0


def _card_length(text: str) -> int:
    """The length of a card's number whose check digit fits, else 0."""
    digits = re.sub(r"\D", "", text)
    doubled = (int(digit) * (1 + place % 2) for place, digit in enumerate(reversed(digits)))
    fits = sum(value - 9 if value > 9 else value for value in doubled) % 10 == 0
    return len(text) if _CARD_STARTS.match(digits) and len(set(digits)) > 1 and fits else 0


def _phone_length(text: str) -> int:
    digits = re.sub(r"\D", "", text)
    likely = 7 <= len(digits) <= 15 and len(set(digits)) > 2 and not _DATE.search(text)
    return len(text) if likely else 0


_PERSONAL: tuple[tuple[PersonalKind, re.Pattern[str], re.Pattern[str], Callable[[str], int]], ...]
_PERSONAL = (
    ("e-mail", re.compile("@"), _EMAIL, len),
    ("IBAN", _IBAN_START, _IBAN, _iban_length),
    ("card", _MANY_DIGITS, _CARD, _card_length),
    ("social security number", _MANY_DIGITS, _SSN, len),
    ("phone", _MANY_DIGITS, _PHONE, _phone_length),
)
"""Each kind: what every text with one has, how one looks, and how much of such a match is one."""


# ----------------------------------------------------------------------------
# Find keys, tokens and passwords in text with detect-secrets, without its network checks.
#
# Where that package is not installed, our own patterns look alone: keys that
# begin in a known way, private keys, passwords in addresses and in sentences.


LONGEST_LINE = 2_000
# A public address is not a secret, and prose has many numbers that look like one.
_LEFT_OUT = frozenset({"IPPublicDetector"})
_BY_NAME = "KeywordDetector"

# The detectors are slow, and most lines have nothing that any of them could find: a long word,
# an address with a password, or one of these. Looking for plain words is a hundred times faster
# than looking for one pattern of them all.
_LONG_WORD = 16
_LONGER_WORD = 24
_TELLING = ("://", "BEGIN ")
_SHORT_KEY = re.compile(r"\bAP[\dA-F]\w{8}")
_NAMES = ("key", "pass", "pwd", "secret", "token", "contrase", "pin")
_NAMED = re.compile(
    r"(?:api|auth|service|account|db|database|priv|private|client)_?key|(?:db|database|key)_?pass"
    r"|password|passwd|pwd|secret|contrase",
    re.IGNORECASE,
)
_ASSIGNED = re.compile(r"[=:\"'`(<]")
_DIGIT = re.compile(r"\d")
_KEY_END = re.compile(r"-{2,}END[^\n]{0,80}")


@lru_cache(maxsize=1)
def _plugins() -> tuple[Any, ...] | None:
    """The detectors, or `None` when the package is not installed."""
    try:
        from detect_secrets.core.plugins.util import get_mapping_from_secret_type_to_class
        from detect_secrets.settings import default_settings
    except ImportError:
        return None
    with default_settings():
        kinds = get_mapping_from_secret_type_to_class()
    return tuple(kind() for kind in kinds.values() if kind.__name__ not in _LEFT_OUT)


def available() -> bool:
    """Whether detect-secrets is there to look."""
    return _plugins() is not None


def find_secrets(text: str) -> tuple[tuple[str, str], ...]:
    """Each secret in `text` (its first 100,000 characters) with what sort it is, none twice."""
    text = text[:LONGEST_TEXT]
    found: dict[str, str] = {}
    for line in filter(_worth_a_look, text.splitlines() if _worth_a_look(text) else ()):
        for start in range(0, len(line), LONGEST_LINE):
            for kind, secret in _of_piece(line[start : start + LONGEST_LINE + 200]):
                whole = _with_its_body(text, secret) if kind == PRIVATE_KEY else secret
                found.setdefault(whole, kind)
    return tuple((kind, secret) for secret, kind in found.items())


def redact(text: str) -> str:
    """`text` (its first 100,000 characters) without the keys and passwords in it."""
    text = text[:LONGEST_TEXT]
    return without_keys(mask_secrets(text, find_secrets(text), lambda _: REMOVED))


def mask_secrets(
    text: str, secrets: tuple[tuple[str, str], ...], hide: Callable[[str], str] = mask
) -> str:
    """`text` with every secret masked, longest first."""
    for _, secret in sorted(secrets, key=lambda one: -len(one[1])):
        text = text.replace(secret, hide(secret))
    return text


def _worth_a_look(text: str) -> bool:
    return _names_one(text) or _may_hold_a_key(text)


def _names_one(text: str) -> bool:
    lowered = text.lower()
    return any(name in lowered for name in _NAMES)


def _may_hold_a_key(text: str) -> bool:
    return (
        any(sign in text for sign in _TELLING)
        or any(
            len(word) >= _LONGER_WORD or (len(word) >= _LONG_WORD and _DIGIT.search(word))
            for word in text.split()
        )
        or ("AP" in text and _SHORT_KEY.search(text) is not None)
    )


def _of_piece(piece: str) -> Iterator[tuple[str, str]]:
    named, keyed = _names_one(piece), _may_hold_a_key(piece)
    assigned = named and _NAMED.search(piece) and _ASSIGNED.search(piece)
    for plugin in _plugins() or ():
        if not (assigned if type(plugin).__name__ == _BY_NAME else keyed):
            continue
        for secret in plugin.analyze_string(piece):
            if secret and _dense(plugin, secret) and not _harmless(secret):
                whole = _whole(piece, str(secret)) if hasattr(plugin, "denylist") else str(secret)
                yield str(plugin.secret_type), whole
    if keyed:
        ours = KNOWN_KEYS if available() else KNOWN_KEYS | MORE_KEYS
        for kind, pattern in ours.items():
            yield from ((kind, match[1]) for match in pattern.finditer(piece))
    if named:
        for match in SAID.finditer(piece):
            yield "Password in prose", (match["value"] or match["pin"]).rstrip(".,;:!?)")


def _whole(piece: str, secret: str) -> str:
    """The word that `secret` stands in: some detectors give only how a token begins."""
    around = re.search(rf"[\w+/~-]*{re.escape(secret)}[\w+/~=.-]*", piece)
    return around[0].rstrip(".") if around else secret


def _with_its_body(text: str, header: str) -> str:
    """A private key from its first line to its last one, or to the end of what there is."""
    start = text.find(header)
    if start < 0:
        return header
    end = _KEY_END.search(text, start)
    return text[start : end.end() if end else len(text)].rstrip()


def _dense(plugin: Any, secret: str) -> bool:
    """Whether a string that is told by its entropy alone has enough of it."""
    limit = getattr(plugin, "entropy_limit", None)
    return limit is None or plugin.calculate_shannon_entropy(secret) > limit


def _harmless(secret: str) -> bool:
    from detect_secrets.filters import heuristic

    return bool(
        heuristic.is_potential_uuid(secret)
        or heuristic.is_sequential_string(secret)
        or heuristic.is_templated_secret(secret)
    )
