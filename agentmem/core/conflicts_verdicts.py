"""Statements and verdicts: what the judge is given and what it says."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, get_args

from agentmem.core.checks import require_choice, require_text, require_unit
from agentmem.core.values import dataclass
from agentmem.types import require_instant

VerdictKind = Literal["none", "contradicts", "supersedes", "unrelated"]
Reason = Literal["", "number", "date", "name", "negation", "version", "antonym", "value"]
Side = Literal["", "first", "second"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """A text somebody said, when, and about which key if that is known."""

    text: str
    date: datetime | None = None
    key: str = ""

    def __post_init__(self) -> None:
        require_text(self.text, "text")
        require_text(self.key, "key")
        require_instant(self.date, "date")


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """How two statements stand to each other.

    "unrelated" means about different things, "none" about the same thing
    without a contradiction. `newer` says which side holds after "supersedes".
    `subject` is what both speak of, in words of the first one.
    """

    kind: VerdictKind
    reason: Reason = ""
    subject: str = ""
    first_value: str = ""
    second_value: str = ""
    confidence: float = 0.0
    newer: Side = ""

    def __post_init__(self) -> None:
        require_choice(self.kind, get_args(VerdictKind), "kind")
        require_choice(self.reason, get_args(Reason), "reason")
        require_choice(self.newer, get_args(Side), "newer")
        require_unit(self.confidence, "confidence")

    @property
    def conflicting(self) -> bool:
        """Whether the two cannot both be true now."""
        return self.kind in ("contradicts", "supersedes")

    def swapped(self) -> Verdict:
        """The same verdict with the sides exchanged."""
        newer: Side = {"first": "second", "second": "first"}.get(self.newer, "")  # type: ignore[assignment]  # mypy widens the dict's values
        return Verdict(
            kind=self.kind,
            reason=self.reason,
            subject=self.subject,
            first_value=self.second_value,
            second_value=self.first_value,
            confidence=self.confidence,
            newer=newer,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """Two sentences that disagree: where they stand and how they do."""

    ours: Statement
    theirs: Statement
    verdict: Verdict
    our_index: int = 0
    their_index: int = 0
