"""Keys and passwords that can be told by how they look or by what is said before them.

Two sorts only: keys that begin in a known way, and passwords told in a
sentence. `agentmem audit` looks for more, with a package made for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

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


def without_keys(text: str) -> str:
    """`text`, which an error said, without the keys and passwords in it."""
    spans = [*secret_spans(text)]
    spans += [match.span(match.lastgroup or 0) for match in _SENT.finditer(text)]
    pieces: list[str] = []
    done = 0
    for start, end in sorted(spans):
        if end > done:
            pieces += (text[done : max(start, done)], REMOVED if start >= done else "")
            done = end
    return "".join((*pieces, text[done:]))


def secret_spans(text: str) -> Iterator[tuple[int, int]]:
    """Where secrets stand in `text`, with the words that tell them; in no order."""
    for pattern in (*KNOWN_KEYS.values(), *MORE_KEYS.values(), SAID):
        for match in pattern.finditer(text):
            yield match.span()


def holds_secret(text: str) -> bool:
    """Whether a key or a password stands in `text`."""
    return next(secret_spans(text), None) is not None
