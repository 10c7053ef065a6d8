"""Find contradictions of new memories in the background, show them, and resolve them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, get_args

from agentmem.base.checks import require_choice, require_text
from agentmem.base.errors import InvalidInput, RecordNotFound
from agentmem.base.filters import Compare, Selection
from agentmem.base.telemetry import span
from agentmem.base.types import JUDGED_KINDS, Memory, Scope, may_state
from agentmem.living.consolidate import plan_again, revision_of
from agentmem.living.facts import RECORD, Fact, extract, from_memory, to_memory_fields
from agentmem.living.plans import (
    ConsolidationPlan,
    ConsolidationSettings,
    LivingState,
    Planner,
    SimilarPair,
    choose_survivor,
    is_active,
    judged_pairs,
    key_of,
    mark_of,
    merge_metadata,
    merge_usage,
    pair_of,
    read_note,
    start_of,
    stated_text,
)
from agentmem.search.intake import Maker, from_text, prepare_all
from agentmem.search.retriever import Request
from agentmem.stores.journal import Relation, Revision
from agentmem.stores.values import LEARNED_FROM, Link

if TYPE_CHECKING:
    from agentmem.search.parts import Parts


# ----------------------------------------------------------------------------
# Contradictions as they are kept in a store, shown to people, and resolved.


Resolution = Literal["a_wins", "b_wins", "both_valid", "merged"]
ContradictionState = Literal["open", "a_wins", "b_wins", "both_valid", "merged"]
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
        told = {name: getattr(self, name) for name in self.__dataclass_fields__}
        for name, one in (("a", self.a), ("b", self.b)):
            told[name] = {"id": one.id, "text": one.text, "created_at": one.created_at.isoformat()}
        resolved_at = None if self.resolved_at is None else self.resolved_at.isoformat()
        return {**told, "found_at": self.found_at.isoformat(), "resolved_at": resolved_at}


def contradiction_id(first: str, second: str) -> str:
    """The same short id for two memories, whichever is named first."""
    written = "\x00".join(pair_of(first, second)).encode("utf-8")
    return "c" + hashlib.blake2b(written, digest_size=6).hexdigest()


def read_contradiction(link: Link, memories: Mapping[str, Memory]) -> Contradiction | None:
    """The contradiction behind a link, or None when one of its memories cannot be seen."""
    first, second = memories.get(link.first_id), memories.get(link.second_id)
    if first is None or second is None:
        return None
    fields = read_note(link.note)
    names = ("reason", "subject", "first_value", "second_value", "note", "resolution")
    said = {name: told if isinstance(told := fields.get(name), str) else "" for name in names}
    sides = [(first, said["first_value"]), (second, said["second_value"])]
    sides.sort(key=lambda side: (start_of(side[0]), side[0].id))
    state: ContradictionState = "open"
    if link.settled_at is not None:
        state = next((one for one in _RESOLUTIONS if one == said["resolution"]), "both_valid")
    confidence = fields.get("confidence")
    return Contradiction(
        id=contradiction_id(link.first_id, link.second_id),
        a=sides[0][0],
        b=sides[1][0],
        state=state,
        reason=said["reason"] or link.relation,
        subject=said["subject"],
        a_value=sides[0][1],
        b_value=sides[1][1],
        confidence=float(confidence) if isinstance(confidence, int | float) else 0.0,
        found_at=link.created_at,
        note=said["note"],
        resolved_at=link.settled_at,
    )


# ----------------------------------------------------------------------------
# The values of one key over time: where a new one belongs, and what that changes (P38).
#
# A timeline is the facts of one key of one owner. Each holds until the next one
# begins; the last one holds now.


def value_of(memory: Memory) -> tuple[str, bool]:
    """What a fact says of its key: the words of its value, and whether it ended."""
    record = from_memory(memory)
    if not isinstance(record, Fact):
        return memory.text.casefold(), False
    return " ".join(record.value.casefold().split()), record.ended


def in_order(facts: Iterable[Memory]) -> list[Memory]:
    """The facts of one key, earliest first."""
    return sorted(facts, key=lambda fact: (start_of(fact), fact.created_at, fact.id))


def already_said(known: Iterable[Memory], new: Memory) -> Memory | None:
    """The fact that held when `new` began and says the same, or None."""
    earlier = [fact for fact in in_order(known) if start_of(fact) <= start_of(new)]
    held = earlier[-1] if earlier else None
    return held if held is not None and value_of(held) == value_of(new) else None


def insert_fact(known: Sequence[Memory], new: Memory) -> list[Memory] | None:
    """What to write so that `new` has its place among the facts of its key.

    The new fact as it is to be stored comes first, then those right before and
    after it, changed. None when the fact that held then says the same, or when
    `new` says that another value held no longer: "we no longer use MySQL" ends
    no Postgres. A fact told late, about
    an earlier time, goes where it belongs; it does not become the current one.
    Facts that begin at the same moment take each other's place at once.
    """
    ordered, start = in_order(known), start_of(new)
    place = sum(start_of(fact) <= start for fact in ordered)
    held = ordered[place - 1] if place else None
    following = ordered[place] if place < len(ordered) else None
    if held is not None and (value_of(held) == value_of(new) or _ended_before(held, new)):
        return None
    placed = replace(
        new,
        supersedes=None if held is None else held.id,
        superseded_by=None if following is None else following.id,
        valid_from=start,
        valid_to=None if following is None else start_of(following),
    )
    written = [placed]
    if held is not None:
        ended = start if held.valid_to is None else min(held.valid_to, start)
        written.append(replace(held, superseded_by=new.id, valid_to=ended))
    if following is not None:
        written.append(replace(following, supersedes=new.id))
    return written


def _ended_before(held: Memory, new: Memory) -> bool:
    (value, _), (other, ended) = value_of(held), value_of(new)
    return ended and not (set(value.split()) & set(other.split()))


def held_at(facts: Iterable[Memory], moment: datetime) -> Memory | None:
    """The fact of a key that held at `moment`, or None."""
    for fact in reversed(in_order(facts)):
        if start_of(fact) <= moment and (fact.valid_to is None or moment < fact.valid_to):
            return fact
    return None


JUDGE = "judge"
RESOLVE = "resolve"
CANDIDATES = 8
"""So many memories that a search finds are compared with a new one."""
MOST_LOOKED_AT = 5_000
"""So many new rows, of whoever, are looked through for those of a reader."""
AT_ONCE = 200
"""Of more new memories the newest are judged at once; consolidation looks at all."""
LEAST_OF_AN_ID = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """A contradiction that was resolved, and what `undo` takes to open it again."""

    contradiction: Contradiction
    journal_id: str


SAVED_EVERY = 100
"""So many changes may be looked at again after a crash."""
MOST_MARKS = 1_000


class Settler:
    """Contradictions of one memory."""

    def __init__(self, memory: Parts, *, settings: ConsolidationSettings | None = None) -> None:
        self._memory = memory
        self._settings = settings or ConsolidationSettings(contradiction_kinds=JUDGED_KINDS)
        self._judged: dict[str, tuple[int, int]] = {}
        """How far each scope was judged: as it is saved, and in truth."""

    # -- what is known -----------------------------------------------------------------

    def all(self, scope: Scope, *, open_only: bool = True) -> tuple[Contradiction, ...]:
        """The contradictions whose both sides this reader sees, oldest first."""
        links = self._memory.store.contradictions.all(scope, open_only=open_only)
        # What was superseded since contradicts nobody.
        return tuple(
            one
            for one in self._read(scope, links)
            if not open_only or (is_active(one.a) and is_active(one.b))
        )

    def get(self, scope: Scope, contradiction: str) -> Contradiction:
        """The contradiction with this id, or with an id that begins so."""
        return self._found(scope, contradiction)[1]

    def _read(self, scope: Scope, links: Sequence[Link]) -> list[Contradiction]:
        """The contradictions behind links whose both sides this reader sees."""
        ids = [id_ for link in links for id_ in (link.first_id, link.second_id)]
        known = {one.id: one for one in self._memory.store.get_many(scope, ids)}
        found = (read_contradiction(link, known) for link in links)
        return [one for one in found if one is not None]

    def resolve(
        self,
        scope: Scope,
        contradiction: str,
        resolution: Resolution,
        *,
        text: str = "",
        note: str = "",
    ) -> Resolved:
        """Say which side holds; the other one is superseded. `undo` takes it back."""
        require_choice(resolution, get_args(Resolution), "resolution")
        require_text(note, "note")
        if require_text(text, "text") and resolution != "merged":
            raise InvalidInput("text", text, "is for `merged` only", remedy="Leave it out.")
        link, known = self._found(scope, contradiction)
        if link.settled_at is not None:
            raise InvalidInput(
                "contradiction", contradiction, f"is resolved already ({known.state})",
                remedy="Undo that resolution first.",
            )  # fmt: skip
        now = self._memory.clock.now()
        said = {**read_note(link.note), "resolution": resolution, "note": note}
        settled = replace(link, note=json.dumps(said, ensure_ascii=False), settled_at=now)
        revision = Revision(
            id=self._memory.ids.new(),
            kind=RESOLVE,
            **(self._one_text(known, text) if text.strip() else _sides(known, resolution)),
            relations=(Relation(family="contradiction", link=settled, replaces=link),),
            report={"contradiction": known.id, "resolution": resolution},
        )
        with span("update_memory", store_id=self._memory.telemetry_id, step=RESOLVE):
            entry = self._memory.store.journal.apply(scope, revision, at=now)
        return Resolved(contradiction=self.get(scope, known.id), journal_id=entry.id)

    def _one_text(self, known: Contradiction, text: str) -> dict[str, Any]:
        """What puts a text of the caller's in the place of both sides."""
        a, b = known.a, known.b
        now = self._memory.clock.now()
        maker = Maker(
            scope=b.scope, visibility=b.visibility, now=now, new_ids=self._memory.ids.take
        )
        record = next((fact for fact in extract(text).facts if fact.key), None)
        fields = None if record is None else to_memory_fields(record)
        said = {name: value for name, value in merge_metadata(b, a).items() if name != RECORD}
        made = from_text(
            maker, text, kind=b.kind, origin="user", valid_from=now, supersedes=b.id,
            title=fields.title if fields and b.kind == "fact" else "",
            importance=max(a.importance, b.importance),
            metadata={**said, **(fields.metadata if fields and b.kind == "fact" else {})},
        )  # fmt: skip
        ended = tuple(replace(one, superseded_by=made.id, valid_to=now) for one in (a, b))
        return {
            "before": (a, b),
            "after": ended,
            "added": tuple(prepare_all([made], self._memory.embedding.embed([made]))),
        }

    def _found(self, scope: Scope, given: str) -> tuple[Link, Contradiction]:
        """The link and what it says, of the one whose id this is or begins with."""
        begin = require_text(given, "contradiction").strip()
        links = [
            link
            for link in self._memory.store.contradictions.all(scope)
            if contradiction_id(link.first_id, link.second_id).startswith(begin)
        ]
        if len(begin) < LEAST_OF_AN_ID:
            links = []
        if len({pair_of(link.first_id, link.second_id) for link in links}) > 1:
            raise InvalidInput(
                "contradiction", given, "could be several", remedy="Give more of its id."
            )
        links = [link for link in links if link.settled_at is None] or links[-1:]
        for link in links[:1]:
            for one in self._read(scope, [link]):
                return link, one
        raise RecordNotFound(given, what="contradiction", seen_with="contradictions list")

    # -- what is new ---------------------------------------------------------------------

    def judge_new(self, scope: Scope) -> ConsolidationPlan:
        """Compare what came since the last time with what it may contradict; gives what was done.

        It may be called again and again: only new memories are looked at. When somebody
        else writes meanwhile, they are read and compared anew.
        """
        store = self._memory.store
        mark = mark_of("judged", scope)
        if mark not in self._judged:
            self._judged[mark] = 2 * (int(store.settings.get(mark) or 0),)
        saved, seen = self._judged[mark]
        now_at = store.feed.seq()
        changes = store.feed.changes(seen)
        rows = {
            row
            for change in changes.items
            if change.operation in ("put", "update")
            for row in range(max(change.first, change.last - MOST_LOOKED_AT), change.last + 1)
        }
        newest = sorted(rows, reverse=True)
        plan = plan_again(lambda: self.judge(scope, self._new_ones(scope, newest)), "what is new")
        self._judged[mark] = saved, now_at
        if now_at - saved >= SAVED_EVERY or len(self._judged) > MOST_MARKS:
            self.save()
        return plan

    def save(self) -> None:
        """Write down how far was judged, for the next process."""
        for mark, (saved, seen) in self._judged.items():
            if seen != saved:
                self._memory.store.settings.set(mark, str(seen))
        self._judged.clear()

    def _new_ones(self, scope: Scope, rows: Sequence[int]) -> list[Memory]:
        """Of the newest of these rows that this reader sees, those that state something."""
        found: list[Memory] = []
        for start in range(0, min(len(rows), MOST_LOOKED_AT), AT_ONCE):
            seen = self._memory.store.get_rows(scope, rows[start : start + AT_ONCE])
            found += (seen[row] for row in sorted(seen, reverse=True) if may_state(seen[row]))
            if len(found) >= AT_ONCE:
                break
        return [one for one in found[:AT_ONCE] if self._states(one)]

    def judge(self, scope: Scope, new: Sequence[Memory]) -> ConsolidationPlan:
        """Compare these memories with what they may contradict, and write down what was found."""
        if not new:
            return ConsolidationPlan()
        rows: dict[str, Memory] = {one.id: one for one in new}
        similar: list[SimilarPair] = []
        for one in new:
            for other, alike in self._candidates(scope, one):
                rows.setdefault(other.id, other)
                if other.id != one.id:
                    similar.append(SimilarPair(first=one.id, second=other.id, similarity=alike))
        links = self._memory.store.contradictions.among(scope, rows)
        contested, settled_pairs = judged_pairs(links)
        state = LivingState(
            memories=tuple(rows[name] for name in sorted(rows)),
            contested=contested,
            settled=settled_pairs,
        )
        now = self._memory.clock.now()
        planner = Planner(state, now, len, self._settings, {one.id for one in new})
        planner.contradict(similar)
        plan = ConsolidationPlan(operations=tuple(planner.operations))
        if not plan.empty:
            revision = revision_of(
                plan, state, revision_id=self._memory.ids.new(), now=now, kind=JUDGE
            )
            with span("update_memory", store_id=self._memory.telemetry_id, step=JUDGE) as told:
                self._memory.store.journal.apply(scope, revision, at=now)
                told.found(len(plan.operations))
        return plan

    def _states(self, one: Memory) -> bool:
        """Whether it states something itself: what was learned of a message speaks for it."""
        if one.kind not in self._settings.contradiction_kinds or not is_active(one):
            return False
        if one.kind != "message":
            return True
        if not stated_text(one):
            return False
        links = self._memory.store.links.of(one.scope, one.id)
        return not any(link.relation == LEARNED_FROM for link in links)

    def _candidates(self, scope: Scope, one: Memory) -> list[tuple[Memory, float]]:
        """What a search finds for it, and the facts of its key."""
        kinds = tuple(sorted(self._settings.contradiction_kinds))
        selection = Selection(reader=scope, kinds=kinds)
        request = Request(
            query=stated_text(one), selection=selection, top_k=CANDIDATES + 1, threshold=0.0
        )
        hits = self._memory.retriever.search(request)
        found = [(hit.memory, hit.score) for hit in hits if self._states(hit.memory)]
        key = key_of(one)
        if key:
            where = Compare(field="title", operator="eq", value=key)
            same = Selection(reader=scope, kinds=("fact",), where=where)
            found += [(other, 1.0) for other in self._memory.store.scan(same)]
        return found


def _sides(known: Contradiction, resolution: Resolution) -> dict[str, Any]:
    """What becomes of both sides: of one that was wrong, the right one takes the place."""
    a, b = known.a, known.b
    if resolution == "both_valid" or not (a.superseded_by is None and b.superseded_by is None):
        return {}
    if resolution == "merged":
        kept, gone = choose_survivor(a, b)
        usage = merge_usage(kept.usage, gone.usage)
        after = (
            replace(kept, metadata=merge_metadata(kept, gone), usage=usage),
            replace(gone, superseded_by=kept.id),
        )
    else:
        # The loser held until the winner began; if it began later, it never held.
        winner, loser = (a, b) if resolution == "a_wins" else (b, a)
        until = max(start_of(winner), start_of(loser))
        after = (
            replace(winner, supersedes=winner.supersedes or loser.id),
            replace(loser, superseded_by=winner.id, valid_to=until),
        )
    by_id: Mapping[str, Memory] = {one.id: one for one in after}
    return {"before": (a, b), "after": (by_id[a.id], by_id[b.id])}
