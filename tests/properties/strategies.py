"""Strategies shared by the property tests, named in the plural.

`texts()` is unrestricted Unicode (surrogates aside) mixed with a small pool of
strings that collide, break fences or look alike, so that equal-but-different
inputs turn up often.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import strategies as st

COLLIDING = (
    "",
    " ",
    "\n",
    "a",
    "A",
    "\u00e9",
    "e\u0301",
    "]]>",
    "\x00",
    "\u200b",
    "\u202e",
    "<source>",
    "</knowledge_context>",
    "&amp;",
    "日本語。",
    "नमस्ते।",
    "مرحبا؟",
    "👩\u200d👩\u200d👧",
    "1.5",
    "e.g. ",
    "Dr. Smith",
    "https://example.com/a.b?c=d",
)


def texts(max_size: int | None = None) -> st.SearchStrategy[str]:
    """Any text, often made of pieces that collide."""
    free = st.text(max_size=max_size)
    pieces = st.lists(st.sampled_from(COLLIDING) | st.text(max_size=8), max_size=8).map("".join)
    if max_size is not None:
        pieces = pieces.map(lambda text: text[:max_size])
    return free | pieces


def instants() -> st.SearchStrategy[datetime]:
    """Moments in UTC, close together often enough to collide."""
    near = st.integers(0, 10**6).map(
        lambda s: datetime(2024, 1, 1, tzinfo=UTC) + timedelta(seconds=s)
    )
    return near | st.datetimes(
        min_value=datetime(1970, 1, 2), max_value=datetime(2200, 1, 1), timezones=st.just(UTC)
    )


def units() -> st.SearchStrategy[float]:
    """Numbers from 0 to 1, both often included."""
    return st.sampled_from((0.0, 0.5, 1.0)) | st.floats(0, 1)


def word_counter(text: str) -> int:
    """A plain additive-ish token count for tests: four characters a token, at least one a word."""
    return sum(1 + len(word) // 4 for word in text.split()) if text else 0
