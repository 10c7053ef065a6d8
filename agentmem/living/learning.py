"""Learn facts, decisions and fixes from what a user says, each with where it came from.

Only the user's own words are learned from; what an assistant, a tool or a page
says teaches nothing. A later value for the same key takes the earlier one's
place, and its history stays (P38).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from agentmem import remembering
from agentmem.core.checks import require_text
from agentmem.core.content import content_hash
from agentmem.core.filters import Compare, Selection
from agentmem.core.living.extraction import Extracted, extract
from agentmem.core.living.keys import fact_key
from agentmem.core.living.records import Record, to_memory_fields
from agentmem.core.living.timelines import held_at, in_order, insert_fact, key_of
from agentmem.core.message_parts import text_of
from agentmem.core.strip import strip
from agentmem.errors import InvalidInput, RecordNotFound
from agentmem.preparing import prepare_all
from agentmem.stores.revisions import Revision
from agentmem.stores.values import Link
from agentmem.types import Memory, Scope

if TYPE_CHECKING:
    from agentmem.manager import MemoryManager

LEARN = "learn"
LEARNED_FROM = "learned from"
"""The relation of a fact to the message that said it."""
IMPORTANCE = 0.8
_OWNER = ("scope", "visibility", "origin")


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """What was learned: new memories, those whose place they took, and what was known already."""

    added: tuple[Memory, ...] = ()
    superseded: tuple[str, ...] = ()
    known: int = 0

    def __len__(self) -> int:
        return len(self.added)


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """A text of the user's, when it was said, and the memory that keeps it, if one does."""

    text: str
    at: datetime
    source_id: str = ""


class Learner:
    """Learns for one memory."""

    def __init__(self, memory: MemoryManager) -> None:
        self._memory = memory

    def learn(self, scope: Scope, said: Sequence[Said]) -> Learned:
        """Keep what these texts state, in the order they were said."""
        added: list[Memory] = []
        superseded: list[str] = []
        known = 0
        for one in sorted(said, key=lambda s: s.at):
            found = extract(one.text)
            for record in records_of(found):
                made = self._make(scope, record, one)
                replaced = self._keep(scope, made)
                if replaced is None:
                    known += 1
                    continue
                added.append(made)
                superseded += replaced
                self._link(scope, made, one)
        fresh = tuple(self._memory.store.get_many(scope, [one.id for one in added]))
        return Learned(added=fresh, superseded=tuple(superseded), known=known)

    def history(
        self, scope: Scope, key: str, *, as_of: datetime | None = None
    ) -> tuple[Memory, ...]:
        """Every value a key ever had, earliest first; with `as_of`, the one that held then."""
        wanted = {require_text(key, "key"), fact_key(key)}
        facts = [one for name in sorted(wanted) if name for one in self._facts(scope, name)]
        ordered = in_order({one.id: one for one in facts}.values())
        if as_of is None:
            return tuple(ordered)
        held = held_at([one for one in ordered if not _is_merged(one)], as_of)
        return () if held is None else (held,)

    def _make(self, scope: Scope, record: Record, said: Said) -> Memory:
        fields = to_memory_fields(record)
        metadata = dict(fields.metadata)
        confidence = getattr(record, "confidence", None)
        if confidence is not None:
            metadata["confidence"] = confidence
        maker = remembering.Maker(
            scope=scope,
            visibility="private",
            now=self._memory.clock.now(),
            new_ids=self._memory.ids.take,
        )
        return maker.memory(
            fields.text,
            kind=fields.kind,
            title=fields.title,
            origin="user",
            importance=IMPORTANCE,
            created_at=said.at,
            valid_from=said.at if fields.kind == "fact" else None,
            metadata=metadata,
        )

    def _keep(self, scope: Scope, made: Memory) -> list[str] | None:
        """Store it in its place; the ids it superseded, or None when it was known already."""
        store, key = self._memory.store, key_of(made)
        if not key:
            return None if self._is_kept(scope, made) else self._put(made)
        known = [
            one
            for one in self._facts(scope, key)
            if all(getattr(one, name) == getattr(made, name) for name in _OWNER)
            and not _is_merged(one)
        ]
        placed = insert_fact(known, made)
        if placed is None:
            return None
        new = placed.new
        (entry,) = self._entries([new])
        start = new.valid_from or new.created_at
        if len(placed.before) == 1 and new.superseded_by is None:
            (held,) = placed.before
            if held.superseded_by is None:
                store.supersede(scope, held.id, entry, at=start)
                return [held.id]
        store.put([entry])
        if placed.before:
            revision = Revision(
                id=self._memory.ids.new(),
                kind=LEARN,
                before=placed.before,
                after=placed.after,
                report={"learned": new.id},
            )
            store.journal.apply(scope, revision, at=self._memory.clock.now())
        return [] if new.supersedes is None else [new.supersedes]

    def _put(self, made: Memory) -> list[str]:
        self._memory.store.put(self._entries([made]))
        return []

    def _entries(self, memories: Sequence[Memory]) -> Any:
        return prepare_all(memories, self._memory.embedding.embed(memories))

    def _is_kept(self, scope: Scope, made: Memory) -> bool:
        where = Compare(field="content_hash", operator="eq", value=made.content_hash)
        selection = Selection(reader=scope, kinds=(made.kind,), where=where, superseded=True)
        return any(one.scope == made.scope for one in self._memory.store.scan(selection))

    def _facts(self, scope: Scope, key: str) -> list[Memory]:
        where = Compare(field="title", operator="eq", value=key)
        selection = Selection(
            reader=scope, kinds=("fact",), where=where, superseded=True, forgotten=True
        )
        return [one for one in self._memory.store.scan(selection) if key_of(one) == key]

    def _link(self, scope: Scope, made: Memory, said: Said) -> None:
        if not said.source_id:
            return
        link = Link(
            first_id=made.id, second_id=said.source_id, relation=LEARNED_FROM, created_at=said.at
        )
        try:
            self._memory.store.links.put(scope, link)
        except RecordNotFound:
            return  # the message was erased meanwhile

    # -- what was said -------------------------------------------------------------------

    def read(self, scope: Scope, data: object) -> tuple[Said, ...]:
        """The user's own texts in a text, a message or several; our own blocks are left out."""
        now = self._memory.clock.now()
        if isinstance(data, str):
            require_text(data, "text")
            return (Said(text=strip(data), at=now, source_id=self._source(scope, data)),)
        messages: Iterable[Any] = [data] if isinstance(data, Mapping) else _listed(data)
        maker = remembering.Maker(
            scope=scope, visibility="private", now=now, new_ids=self._memory.ids.take
        )
        own = [m for m in messages if isinstance(m, Mapping) and m.get("role") == "user"]
        return tuple(
            Said(text=one.text, at=one.created_at, source_id=self._source(scope, one.text))
            for one in remembering.from_messages(maker, [m for m in own if text_of(m).strip()])
        )

    def _source(self, scope: Scope, text: str) -> str:
        where = Compare(field="content_hash", operator="eq", value=content_hash(text))
        selection = Selection(reader=scope, kinds=("message",), where=where)
        found = [one.id for one in self._memory.store.scan(selection)]
        return found[-1] if found else ""


def records_of(found: Extracted) -> list[Record]:
    """What of an extraction is kept, in the order of its kinds: facts, decisions, fixes."""
    facts: list[Record] = [fact for fact in found.facts if fact.key]
    return [
        *facts,
        *(decision.to_episode() for decision in found.decisions),
        *(fix.to_episode() for fix in found.fixes),
    ]


def _is_merged(memory: Memory) -> bool:
    """Whether another memory says the same and stands for it; such a one has no time of its own."""
    return memory.superseded_by is not None and memory.valid_to is None


def _listed(data: object) -> Iterable[Any]:
    if isinstance(data, Sequence) and not isinstance(data, str | bytes):
        return data
    raise InvalidInput("data", data, "is nothing to learn from", remedy="Pass a str or messages.")
