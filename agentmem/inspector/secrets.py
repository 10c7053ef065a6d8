"""Find keys, tokens and passwords in text with detect-secrets, without its network checks.

Where that package is not installed, our own patterns look alone: keys that
begin in a known way, private keys, passwords in addresses and in sentences.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from agentmem.core.personal_data import mask
from agentmem.core.secrets_said import KNOWN_KEYS, MORE_KEYS, PRIVATE_KEY, SAID

LONGEST_LINE = 2_000
LONGEST_TEXT = 100_000
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
    plugins = _plugins()
    text = text[:LONGEST_TEXT]
    if not _worth_a_look(text):
        return ()
    found: dict[str, str] = {}
    for line in text.splitlines():
        if not _worth_a_look(line):
            continue
        for start in range(0, len(line), LONGEST_LINE):
            for kind, secret in _of_piece(line[start : start + LONGEST_LINE + 200], plugins):
                whole = _with_its_body(text, secret) if kind == PRIVATE_KEY else secret
                found.setdefault(whole, kind)
    return tuple((kind, secret) for secret, kind in found.items())


def mask_secrets(text: str, secrets: tuple[tuple[str, str], ...]) -> str:
    """`text` with every secret masked, longest first."""
    for _, secret in sorted(secrets, key=lambda one: -len(one[1])):
        text = text.replace(secret, mask(secret))
    return text


def _worth_a_look(text: str) -> bool:
    return _names_one(text) or _may_hold_a_key(text)


def _names_one(text: str) -> bool:
    lowered = text.lower()
    return any(name in lowered for name in _NAMES)


def _may_hold_a_key(text: str) -> bool:
    return (
        any(sign in text for sign in _TELLING)
        or any(map(_like_a_key, text.split()))
        or ("AP" in text and _SHORT_KEY.search(text) is not None)
    )


def _like_a_key(word: str) -> bool:
    size = len(word)
    return size >= _LONG_WORD and (size >= _LONGER_WORD or _DIGIT.search(word) is not None)


def _of_piece(piece: str, plugins: tuple[Any, ...] | None) -> Iterator[tuple[str, str]]:
    named, keyed = _names_one(piece), _may_hold_a_key(piece)
    assigned = named and _NAMED.search(piece) and _ASSIGNED.search(piece)
    for plugin in plugins or ():
        if not (assigned if type(plugin).__name__ == _BY_NAME else keyed):
            continue
        for secret in plugin.analyze_string(piece):
            if secret and _dense(plugin, secret) and not _harmless(secret):
                whole = _whole(piece, str(secret)) if hasattr(plugin, "denylist") else str(secret)
                yield str(plugin.secret_type), whole
    if keyed:
        ours = KNOWN_KEYS if plugins is not None else KNOWN_KEYS | MORE_KEYS
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
