"""The operations of a consolidation as values, what they report, and what they leave behind."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any, Literal, get_args

from agentmem.base.checks import require_choice, require_count, require_text, require_unit
from agentmem.base.errors import InvalidInput
from agentmem.base.lazy import compile_late
from agentmem.base.types import COLD_AT, Memory, Usage, is_forgotten
from agentmem.living.conflicts import Verdict
from agentmem.stores.values import Link

ForgetReason = Literal["superseded", "unused"]
LinkReason = Literal["entity", "co-citation"]
Pair = tuple[str, str]
"""Two ids, the smaller first."""


def pair_of(first: str, second: str) -> Pair:
    """The two ids in their order."""
    return (first, second) if first <= second else (second, first)


def mark_of(name: str, looked_at: object) -> str:
    """The setting that keeps how far somebody looked; names nobody."""
    written = ascii(looked_at).encode("ascii")
    return f"{name} {hashlib.blake2b(written, digest_size=12).hexdigest()}"


def judged_pairs(links: Iterable[Link]) -> tuple[frozenset[Pair], frozenset[Pair]]:
    """The pairs whose contradictions are open, and those whose were resolved."""
    pairs = [(pair_of(one.first_id, one.second_id), one.settled_at) for one in links]
    contested = frozenset(pair for pair, settled_at in pairs if settled_at is None)
    return contested, frozenset(pair for pair, settled_at in pairs if settled_at is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsolidationSettings:
    """When things are summarised, compressed, merged, linked and forgotten.

    Something that happened is forgotten for not being used only if it tells
    little: if it has fewer than `keep_words` words that one could ask for.
    Nothing is put away while there are at most `hot_memories`.
    """

    summarise_after: timedelta = timedelta(days=7)
    compress_after: timedelta = timedelta(days=30)
    forget_after: timedelta = timedelta(days=90)
    cool_after: timedelta = timedelta(days=180)
    merge_similarity: float = 0.92
    contradiction_confidence: float = 0.6
    keep_importance: float = 0.8
    forget_unused: bool = True
    cool_unused: bool = True
    hot_memories: int = 20_000
    keep_words: int = 6
    unmerged_kinds: frozenset[str] = frozenset({"preference", "tool_result"})
    unforgettable_kinds: frozenset[str] = frozenset({"preference"})
    contradiction_kinds: frozenset[str] = frozenset({"fact", "preference", "episode"})
    most_links: int = 8
    rare_entity_rows: int = 20
    least_co_citations: int = 2

    def __post_init__(self) -> None:
        for name in ("summarise_after", "compress_after", "forget_after", "cool_after"):
            value = getattr(self, name)
            if not isinstance(value, timedelta) or value < timedelta(0):
                raise InvalidInput(name, value, "is no length of time", remedy="Use a timedelta.")
        for name in ("merge_similarity", "contradiction_confidence", "keep_importance"):
            require_unit(getattr(self, name), name)
        for name in ("most_links", "rare_entity_rows", "least_co_citations", "keep_words"):
            require_count(getattr(self, name), name)
        require_count(self.hot_memories, "hot_memories")


@dataclass(frozen=True, slots=True, kw_only=True)
class SimilarPair:
    """Two memories and how alike their embeddings are."""

    first: str
    second: str
    similarity: float

    def __post_init__(self) -> None:
        require_text(self.first, "first")
        require_text(self.second, "second")


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """`loser` is superseded by `survivor`, which takes over its metadata and usage."""

    survivor: str
    loser: str
    similarity: float
    metadata: Mapping[str, Any]
    usage: Usage
    tokens_saved: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Summarise:
    """The memory gets this summary."""

    id: str
    summary: str
    tokens_saved: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Compress:
    """The memory gets this compressed text and this index line."""

    id: str
    compressed: str
    index: str
    tokens_saved: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Forget:
    """The memory leaves search; it is kept and can be brought back."""

    id: str
    reason: ForgetReason
    tokens_saved: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenContradiction:
    """Two memories that cannot both be true; somebody should say which one is."""

    first: str
    second: str
    verdict: Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Supersede:
    """`old` held until `new`, which is worded as a change."""

    old: str
    new: str
    verdict: Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class AddLink:
    """Two memories belong together."""

    first: str
    second: str
    reason: LinkReason
    weight: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Rerank:
    """The memory's importance after how it was used; `base` is what it was given at first."""

    id: str
    importance: float
    base: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Cool:
    """The memory leaves the indexes that are kept ready; a search for cold ones finds it."""

    id: str


Operation = (
    Merge | Summarise | Compress | Forget | OpenContradiction | Supersede | AddLink | Rerank | Cool
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsolidationPlan:
    """Operations in the order in which they are to be applied, all or none."""

    operations: tuple[Operation, ...] = ()

    @property
    def empty(self) -> bool:
        """Whether there is nothing to do."""
        return not self.operations

    def counts(self) -> dict[str, int]:
        """How much the plan does, and the tokens saved at the levels that will be served."""
        found: Counter[type] = Counter(type(operation) for operation in self.operations)
        return {
            "deduped": found[Merge],
            "superseded": found[Supersede],
            "summarised": found[Summarise],
            "compressed": found[Compress],
            "forgotten": found[Forget],
            "contradictions": found[OpenContradiction],
            "links": found[AddLink],
            "reranked": found[Rerank],
            "cooled": found[Cool],
            "tokens_saved": sum(getattr(op, "tokens_saved", 0) for op in self.operations),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class LivingState:
    """What a consolidation looks at: the rows, and what earlier runs and people decided.

    `contested` are pairs whose contradiction is open, `settled` those whose
    contradiction was resolved: neither is opened again. `co_cited` counts how
    often two memories were cited in one answer.
    """

    memories: tuple[Memory, ...] = ()
    links: frozenset[Pair] = frozenset()
    contested: frozenset[Pair] = frozenset()
    settled: frozenset[Pair] = frozenset()
    co_cited: Mapping[Pair, int] = field(default_factory=lambda: MappingProxyType({}))


def is_active(memory: Memory) -> bool:
    """Whether the memory is served: not deleted, forgotten or superseded."""
    return memory.deleted_at is None and memory.superseded_by is None and not is_forgotten(memory)


def apply_plan(state: LivingState, plan: ConsolidationPlan, *, now: datetime) -> LivingState:
    """The state after the plan: no row is removed, every text stays; the order of rows too.

    What the shell writes to a store is the difference between the two states.
    """
    rows = {memory.id: memory for memory in state.memories}
    links, contested = set(state.links), set(state.contested)
    for operation in plan.operations:
        match operation:
            case Merge():
                kept = rows[operation.survivor]
                rows[kept.id] = replace(kept, metadata=operation.metadata, usage=operation.usage)
                rows[operation.loser] = replace(rows[operation.loser], superseded_by=kept.id)
            case Supersede():
                old, new = rows[operation.old], rows[operation.new]
                until = max(new.valid_from or new.created_at, old.valid_from or old.created_at)
                rows[old.id] = replace(old, superseded_by=new.id, valid_to=old.valid_to or until)
                rows[new.id] = replace(new, supersedes=new.supersedes or old.id)
            case Summarise():
                rows[operation.id] = replace(rows[operation.id], summary=operation.summary)
            case Compress():
                rows[operation.id] = replace(
                    rows[operation.id], compressed=operation.compressed, index=operation.index
                )
            case Forget():
                marks = {"forgotten_at": now.isoformat(), "forgotten_because": operation.reason}
                rows[operation.id] = _marked(rows[operation.id], marks)
            case Cool():
                rows[operation.id] = _marked(rows[operation.id], {COLD_AT: now.isoformat()})
            case OpenContradiction():
                contested.add(pair_of(operation.first, operation.second))
            case AddLink():
                links.add(pair_of(operation.first, operation.second))
            case Rerank():
                memory = _marked(rows[operation.id], {"base_importance": operation.base})
                rows[memory.id] = replace(memory, importance=operation.importance)
    return replace(
        state,
        memories=tuple(rows[memory.id] for memory in state.memories),
        links=frozenset(links),
        contested=frozenset(contested),
    )


def _marked(memory: Memory, marks: Mapping[str, Any]) -> Memory:
    return replace(memory, metadata=MappingProxyType({**memory.metadata, **marks}))


# ----------------------------------------------------------------------------
# Which memories can be contradicted, and by which of their words.
#
# A fact, a preference or an episode is a statement. In a message most words are
# none: greetings, questions, moods. Of a message only the sentences count that
# state a fact, and only in what a user says; the assistant repeats, and pages
# and tools speak of other things by the same names.


JUDGED_KINDS = frozenset({"fact", "episode", "preference", "message"})
"""What is compared with what is known as soon as it comes in."""
ONE_DAY = timedelta(days=1)
_USER = "user"
_THAT_DAY = compile_late(
    r"(?<!\bas of )(?<!\bsince )(?<!\bfrom )(?<!\bstarting )(?<!\beffective )"
    r"\b(?:today|tonight|tomorrow|this (?:morning|afternoon|evening|week|weekend|month))\b",
    re.IGNORECASE,
)


def may_state(memory: Memory) -> bool:
    """Whether it may state something, as far as one can tell without reading it."""
    if memory.kind == "message":
        return memory.origin == _USER
    return memory.kind in JUDGED_KINDS


def stated_text(memory: Memory) -> str:
    """The words of a memory that can be contradicted; "" when it has none."""
    if memory.kind != "message":
        return memory.text
    if memory.origin != _USER:
        return ""
    from agentmem.living.facts import extract  # many patterns: only where it is read

    return "\n".join(
        dict.fromkeys(fact.text for fact in extract(memory.text, beside_requests=True).facts)
    )


def of_two_days(one: Memory, other: Memory) -> bool:
    """Whether they speak of different days: of what happened, or of what holds that day only."""
    first, second = (memory.valid_from or memory.created_at for memory in (one, other))
    if _is_event(one) and _is_event(other):
        return abs(first - second) >= ONE_DAY  # things happen again, and differently
    if first.date() == second.date():
        return False
    return any(_THAT_DAY.search(memory.text) for memory in (one, other))


def _is_event(memory: Memory) -> bool:
    if memory.kind != "episode":
        return False
    from agentmem.living.facts import Episode, from_memory

    record = from_memory(memory)
    return not (isinstance(record, Episode) and record.sort == "decision")


def same_voice(one: Memory, other: Memory) -> bool:
    """Whether "I" is the same person in both: what one person says binds nobody else.

    A preference and a message are not compared: preferences are taken from
    messages, where a newer one replaces an older one already.
    """
    kinds = {one.kind, other.kind}
    if "message" not in kinds:
        return True
    if "preference" in kinds:
        return False
    return (one.speaker or _USER) == (other.speaker or _USER)


# ----------------------------------------------------------------------------
# Contradictions as they are kept in a store, shown to people, and resolved.


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
    return replace(link, note=json.dumps(fields, ensure_ascii=False), settled_at=at)


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
