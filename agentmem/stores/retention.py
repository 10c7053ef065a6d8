"""Which traces are too old to keep, and which shared texts nothing needs any more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agentmem.core.checks import require_count
from agentmem.core.snapshot_codec import TEXT_PREFIX
from agentmem.core.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """One stored trace or shared text: whose, from when, how large, and what it names."""

    key: Any
    id: str
    owner: Any
    moment: Any
    mentions: frozenset[str]
    bytes: int

    @property
    def is_text(self) -> bool:
        return self.id.startswith(TEXT_PREFIX)


def too_old(
    rows: Sequence[Kept],
    *,
    keep: int | None = None,
    before: Any = None,
    most_bytes: int | None = None,
) -> list[Kept]:
    """What has to go of `rows`, which are given newest first.

    The newest trace is kept however large it is, unless it is older than
    `before`. A text is counted with the newest trace that mentions it, and
    goes with the last one.
    """
    for name, value in (("keep", keep), ("most_bytes", most_bytes)):
        if value is not None:
            require_count(value, name)
    texts = {row.id: row for row in rows if row.is_text}
    needed: set[str] = set()
    gone: list[Kept] = []
    of_owner: dict[Any, int] = {}
    total = 0
    full = False
    for row in rows:
        if row.is_text:
            continue
        fresh = (row.mentions & texts.keys()) - needed
        size = row.bytes + sum(texts[text_id].bytes for text_id in fresh)
        place = of_owner[row.owner] = of_owner.get(row.owner, 0) + 1
        over = most_bytes is not None and total > 0 and total + size > most_bytes
        full = full or over
        if (
            full
            or (keep is not None and place > keep)
            or (before is not None and row.moment < before)
        ):
            gone.append(row)
            continue
        total += size
        needed |= fresh
    return [*gone, *(text for text_id, text in texts.items() if text_id not in needed)]
