"""Contradictions as they are kept in a store, shown to people, and resolved."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal, get_args

from agentmem.core.checks import require_choice, require_text
from agentmem.core.conflicts import Verdict
from agentmem.core.living.plans import pair_of
from agentmem.core.values import dataclass
from agentmem.stores.values import Link
from agentmem.types import Memory

Resolution = Literal["a_wins", "b_wins", "both_valid", "merged"]
ContradictionState = Literal["open", "a_wins", "b_wins", "both_valid", "merged"]
CONTRADICTS = "contradicts"
_RESOLUTIONS: tuple[Resolution, ...] = get_args(Resolution)


@dataclass(frozen=True, slots=True, kw_only=True)
class Contradiction:
    """Two memories that cannot both be true, and what became of them.

    `reason` is the sort of difference ("number", "negation", …), `subject`
    what both speak of, the values what each says of it. `a` was there first.
    """

    id: str
    a: Memory
    b: Memory
    state: ContradictionState = "open"
    reason: str = ""
    subject: str = ""
    a_value: str = ""
    b_value: str = ""
    confidence: float = 0.0
    found_at: datetime
    note: str = ""
    resolved_at: datetime | None = None

    @property
    def open(self) -> bool:
        """Whether somebody still has to say which one is true."""
        return self.state == "open"

    def to_dict(self) -> dict[str, Any]:
        """The contradiction as JSON values."""
        plain = {
            name: getattr(self, name)
            for name in ("id", "state", "reason", "subject", "a_value", "b_value", "confidence",
                         "note")
        }  # fmt: skip
        sides = {
            name: {"id": one.id, "text": one.text, "created_at": one.created_at.isoformat()}
            for name, one in (("a", self.a), ("b", self.b))
        }
        moments = {
            "found_at": self.found_at.isoformat(),
            "resolved_at": None if self.resolved_at is None else self.resolved_at.isoformat(),
        }
        return {**plain, **sides, **moments}


def contradiction_id(first: str, second: str) -> str:
    """The same short id for two memories, whichever is named first."""
    written = "\x00".join(pair_of(first, second)).encode("utf-8")
    return "c" + hashlib.blake2b(written, digest_size=6).hexdigest()


def opened(first: str, second: str, verdict: Verdict, *, at: datetime) -> Link:
    """An open contradiction as it is kept."""
    one, other = pair_of(first, second)
    said = verdict if (one, other) == (first, second) else verdict.swapped()
    fields = {
        "reason": said.reason,
        "subject": said.subject,
        "first_value": said.first_value,
        "second_value": said.second_value,
        "confidence": said.confidence,
    }
    note = json.dumps(fields, ensure_ascii=False)
    return Link(first_id=one, second_id=other, relation=CONTRADICTS, created_at=at, note=note)


def settled(link: Link, resolution: Resolution, *, at: datetime, note: str = "") -> Link:
    """The same contradiction, resolved."""
    require_choice(resolution, get_args(Resolution), "resolution")
    fields = {**read_note(link.note), "resolution": resolution, "note": require_text(note, "note")}
    return Link(
        first_id=link.first_id,
        second_id=link.second_id,
        relation=link.relation,
        created_at=link.created_at,
        note=json.dumps(fields, ensure_ascii=False),
        settled_at=at,
    )


def read_note(note: str) -> Mapping[str, Any]:
    """What a contradiction's note says; a note somebody else wrote is just text."""
    try:
        found = json.loads(note) if note else {}
    except ValueError:
        found = None
    return found if isinstance(found, dict) else {"note": note}


def read_contradiction(link: Link, memories: Mapping[str, Memory]) -> Contradiction | None:
    """The contradiction behind a link, or None when one of its memories cannot be seen."""
    first, second = memories.get(link.first_id), memories.get(link.second_id)
    if first is None or second is None:
        return None
    fields = read_note(link.note)
    values = (_text(fields, "first_value"), _text(fields, "second_value"))
    sides = sorted(((first, values[0]), (second, values[1])), key=lambda s: _age(s[0]))
    state: ContradictionState = "open"
    if link.settled_at is not None:
        said = fields.get("resolution")
        state = next((one for one in _RESOLUTIONS if one == said), "both_valid")
    confidence = fields.get("confidence")
    return Contradiction(
        id=contradiction_id(link.first_id, link.second_id),
        a=sides[0][0],
        b=sides[1][0],
        state=state,
        reason=_text(fields, "reason") or link.relation,
        subject=_text(fields, "subject"),
        a_value=sides[0][1],
        b_value=sides[1][1],
        confidence=float(confidence) if isinstance(confidence, int | float) else 0.0,
        found_at=link.created_at,
        note=_text(fields, "note"),
        resolved_at=link.settled_at,
    )


def _age(memory: Memory) -> tuple[datetime, str]:
    return memory.valid_from or memory.created_at, memory.id


def _text(fields: Mapping[str, Any], name: str) -> str:
    value = fields.get(name, "")
    return value if isinstance(value, str) else ""
