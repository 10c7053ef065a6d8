"""Learn facts, decisions and fixes from what a user says, each with where it came from.

read what was said ─▶ rules, and a model if there is one ─▶ core plans ─▶ one transaction + journal

Only the user's own words are learned from; what an assistant, a tool or a page
says teaches nothing. A later value for the same key takes the earlier one's
place, and its history stays (P38).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from agentmem import remembering
from agentmem.core.checks import require_text
from agentmem.core.content import content_hash
from agentmem.core.filters import Compare, Selection
from agentmem.core.living.extraction import MAX_CHARACTERS, Extracted, extract
from agentmem.core.living.grounding import without_secrets
from agentmem.core.living.keys import fact_key
from agentmem.core.living.learning import (
    Candidate,
    LearnedFrom,
    LearningPlan,
    is_merged,
    plan_learning,
)
from agentmem.core.living.records import RECORD, Record, to_memory_fields
from agentmem.core.living.timelines import held_at, in_order, key_of
from agentmem.core.message_parts import text_of
from agentmem.core.strip import strip
from agentmem.core.values import dataclass
from agentmem.errors import ChangedMeanwhile, InvalidInput, RecordNotFound
from agentmem.preparing import prepare_all
from agentmem.stores.derived import LEARNED_FROM
from agentmem.stores.revisions import Relation, Revision
from agentmem.stores.values import Link
from agentmem.telemetry import span
from agentmem.types import Memory, Scope

if TYPE_CHECKING:
    from agentmem.living.asking import Model, Spend
    from agentmem.manager import MemoryManager

_log = logging.getLogger(__name__)

LEARN = "learn"
IMPORTANCE = 0.8
COUNTED_FOR = "gpt-4o"
"""Whose tokens are counted to know what a model was asked."""
TRIES = 3
_ASKED_AT_ONCE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """What was learned: new memories, those whose place they took, and what was known already.

    `journal_id` is what `undo` takes; it is empty when nothing was changed.
    `rejected` counts what a model proposed and the text does not say;
    `model_calls` and `model_tokens` say what a model was asked, and `notes`
    what was left to the rules, or out.
    """

    added: tuple[Memory, ...] = ()
    superseded: tuple[str, ...] = ()
    known: int = 0
    rejected: int = 0
    model_calls: int = 0
    model_tokens: int = 0
    notes: tuple[str, ...] = ()
    journal_id: str = ""
    dry_run: bool = False

    def __len__(self) -> int:
        return len(self.added)

    def to_dict(self) -> dict[str, Any]:
        """The same as JSON values; of each new memory what it says and what it is."""
        plain = {name: getattr(self, name) for name in self.__dataclass_fields__}
        added = [
            {
                "id": one.id,
                "kind": one.kind,
                "title": one.title,
                "text": one.text,
                "supersedes": one.supersedes,
                "record": dict(one.metadata.get(RECORD) or {}),
            }
            for one in self.added
        ]
        listed = {"superseded": list(self.superseded), "notes": list(self.notes)}
        return {**plain, "added": added, **listed}


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

    def learn(
        self,
        scope: Scope,
        said: Sequence[Said],
        *,
        model: Model | None = None,
        spend: Spend | None = None,
        dry_run: bool = False,
    ) -> Learned:
        """Keep what these texts state, in the order they were said, all of it in one step.

        When somebody else writes meanwhile, it is planned anew; a model is
        not asked again. What is new is compared with what it may contradict, in the
        background. A dry run changes nothing and says what would be learned.
        """
        ordered = sorted(said, key=lambda s: s.at)
        found, report = self._find(ordered, model, spend)
        report = replace(report, dry_run=dry_run)
        for attempt in range(TRIES):
            try:
                learned = self._once(scope, ordered, found, report)
                break
            except ChangedMeanwhile as error:
                if attempt == TRIES - 1:
                    raise
                _log.info("Planning what to learn again: %s", error)
        if learned.journal_id:
            self._memory.judge_later(scope)
        return learned

    def _find(
        self, said: Sequence[Said], model: Model | None, spend: Spend | None
    ) -> tuple[list[list[Record]], Learned]:
        """The records of each text, by rules and a model, and what is to be said of that."""
        texts = [one.text for one in said]
        found: Sequence[Extracted] = [extract(text) for text in texts]
        report, notes = Learned(), _unread(texts)
        if model is not None:
            from agentmem.living.asking import Asker, Spend
            from agentmem.living.proposing import find_more
            from agentmem.tokenizer import tokenizer_for

            count, limit = tokenizer_for(COUNTED_FOR), spend or Spend()
            asker = Asker(model, spend=limit, count=count)
            more = find_more(texts, found, asker, count=count, tokens=limit.tokens)
            found = more.found
            report = Learned(
                rejected=more.rejected, model_calls=asker.calls, model_tokens=asker.tokens
            )
            notes = (*notes, *asker.notes)
        kept = [without_secrets(one) for one in found]
        if hidden := sum(count for _, count in kept):
            notes = (*notes, f"{hidden} statements with a key or a password were not learned")
        records = [records_of(one) for one, _ in kept]
        return records, replace(report, notes=notes)

    def _once(
        self,
        scope: Scope,
        said: Sequence[Said],
        found: Sequence[Sequence[Record]],
        report: Learned,
    ) -> Learned:
        plan = self._plan(scope, said, found)
        journal_id = ""
        if not (plan.empty or report.dry_run):
            with span("create_memory", store_id=self._memory.telemetry_id) as told:
                journal_id = self._apply(scope, plan)
                told.found(len(plan.added))
        if not report.dry_run:
            for link in _links(plan.restated):
                with suppress(RecordNotFound):  # erased meanwhile
                    self._memory.store.links.put(scope, link)
        added = plan.added
        if journal_id:
            added = self._memory.store.get_many(scope, [one.id for one in added])
        return replace(
            report,
            added=added,
            superseded=plan.superseded,
            known=plan.known,
            journal_id=journal_id,
        )

    def _plan(
        self, scope: Scope, said: Sequence[Said], found: Sequence[Sequence[Record]]
    ) -> LearningPlan:
        store = self._memory.store
        sources = [one.source_id for one in said if one.source_id]
        kept = {one.id for one in store.get_many(scope, sources)} if sources else set()
        candidates = [
            Candidate(
                memory=self._make(scope, record, one),
                source_id=one.source_id if one.source_id in kept else "",
            )
            for one, records in zip(said, found, strict=True)
            for record in records
        ]
        return plan_learning(candidates, self._there(scope, [c.memory for c in candidates]))

    def _there(self, scope: Scope, made: Sequence[Memory]) -> list[Memory]:
        """What is kept of the keys of new facts, and of the words of what has no key."""
        keys = sorted({key for one in made if (key := key_of(one))})
        plain = [one for one in made if not key_of(one)]
        hashes = sorted({one.content_hash for one in plain})
        found = self._facts(scope, keys)
        for some in _parts(hashes):
            where = Compare(field="content_hash", operator="in", value=some)
            kinds = tuple(sorted({one.kind for one in plain}))
            selection = Selection(reader=scope, kinds=kinds, where=where, superseded=True)
            found += self._memory.store.scan(selection)
        return found

    def _apply(self, scope: Scope, plan: LearningPlan) -> str:
        memory = self._memory
        revision = Revision(
            id=memory.ids.new(),
            kind=LEARN,
            before=plan.before,
            after=plan.after,
            added=tuple(prepare_all(plan.added, memory.embedding.embed(plan.added))),
            relations=tuple(Relation(family="link", link=link) for link in _links(plan.links)),
            report={
                "added": len(plan.added),
                "superseded": len(plan.superseded),
                "known": plan.known,
            },
        )
        return memory.store.journal.apply(scope, revision, at=memory.clock.now()).id

    def history(
        self, scope: Scope, key: str, *, as_of: datetime | None = None
    ) -> tuple[Memory, ...]:
        """Every value a key ever had, earliest first; with `as_of`, the one that held then."""
        wanted = {require_text(key, "key"), fact_key(key)}
        ordered = in_order(self._facts(scope, sorted(filter(None, wanted))))
        if as_of is None:
            return tuple(ordered)
        held = held_at([one for one in ordered if not is_merged(one)], as_of)
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

    def _facts(self, scope: Scope, keys: Sequence[str]) -> list[Memory]:
        found: list[Memory] = []
        for some in _parts(keys):
            where = Compare(field="title", operator="in", value=some)
            selection = Selection(
                reader=scope, kinds=("fact",), where=where, superseded=True, forgotten=True
            )
            found += [one for one in self._memory.store.scan(selection) if key_of(one) in some]
        return found

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


def _links(stated: Iterable[LearnedFrom]) -> list[Link]:
    return [
        Link(
            first_id=one.memory_id,
            second_id=one.source_id,
            relation=LEARNED_FROM,
            created_at=one.at,
        )
        for one in stated
    ]


def _unread(texts: Sequence[str]) -> tuple[str, ...]:
    beyond = sum(max(0, len(text) - MAX_CHARACTERS) for text in texts)
    return (f"{beyond:,} characters at the end of long texts were not read",) if beyond else ()


def _parts(names: Sequence[str]) -> Iterable[tuple[str, ...]]:
    for start in range(0, len(names), _ASKED_AT_ONCE):
        yield tuple(names[start : start + _ASKED_AT_ONCE])


def _listed(data: object) -> Iterable[Any]:
    if isinstance(data, Sequence) and not isinstance(data, str | bytes):
        return data
    raise InvalidInput("data", data, "is nothing to learn from", remedy="Pass a str or messages.")
