"""Find keys, tokens and passwords in text with detect-secrets, without its network checks."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from agentmem.core.personal_data import mask

LONGEST_LINE = 2_000
LONGEST_TEXT = 100_000
# A public address is not a secret, and prose has many numbers that look like one.
_LEFT_OUT = frozenset({"IPPublicDetector"})
# What any of the detectors begins with; most lines have none of it and need no closer look.
_HINT = re.compile(
    r"(?i:key|secret|token|pass|pwd|private|begin|auth|bearer|credential|hooks\.slack|account"
    r"|\bpin\b|bot\d|\d:[\w-]{30})"
    r"|eyJ|gh[a-z]_|github_pat|glpat|gldt|glft|sk-|[sr]k_live|xox|AK[IC]|ASIA|A3T|SG\.|pypi-|npm_"
    r"|://[^\s/@]+:[^\s/@]+@|sq0|AP[\dA-F]\w{8}|A[CK]\w{20}|SK\w{20}|-us\d"
    r"|[\"'][^\"'\s]{16,}[\"']|[\w+/-]{24,}"
)
# People tell an assistant their password in a sentence; detectors made for code look for quotes.
_SAID = re.compile(
    r"\b(?:(?:pass(?:word|phrase|code)|passwort|pwd|api[ _-]?key|access[ _-]?token|secret[ _-]?key)"
    r"\b[^\w\n]{0,3}(?:is|ist|lautet|es|est)?[\s:=]{1,4}[\"'`]?"
    r"(?P<value>(?=[^\s\"'`]*[\d!@#$%^&*+=_~])(?=[^\s\"'`]*[A-Za-z])[^\s\"'`]{6,64})"
    r"|pin\b[^\w\n]{0,3}(?:is|ist|lautet|es|est)?[\s:=]{1,4}(?P<pin>\d{4,8})\b)",
    re.IGNORECASE,
)


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
    """Whether secrets can be looked for."""
    return _plugins() is not None


def find_secrets(text: str) -> tuple[tuple[str, str], ...]:
    """Each secret in `text` (its first 100,000 characters) with what sort it is, none twice."""
    plugins = _plugins()
    if plugins is None:
        return ()
    found: dict[str, str] = {}
    for line in text[:LONGEST_TEXT].splitlines():
        if _HINT.search(line) is None:
            continue
        for start in range(0, len(line), LONGEST_LINE):
            piece = line[start : start + LONGEST_LINE + 200]
            for plugin in plugins:
                for secret in plugin.analyze_string(piece):
                    if secret and _dense(plugin, secret) and not _harmless(secret):
                        found.setdefault(str(secret), str(plugin.secret_type))
            for match in _SAID.finditer(piece):
                said = (match["value"] or match["pin"]).rstrip(".,;:!?)")
                found.setdefault(said, "Password in prose")
    return tuple((kind, secret) for secret, kind in found.items())


def mask_secrets(text: str, secrets: tuple[tuple[str, str], ...]) -> str:
    """`text` with every secret masked, longest first."""
    for _, secret in sorted(secrets, key=lambda one: -len(one[1])):
        text = text.replace(secret, mask(secret))
    return text


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
