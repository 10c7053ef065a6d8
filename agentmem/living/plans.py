"""What consolidation decides: operations as values, and the plan of them for many memories.

The plan is a value; nothing happens until it is applied. It does not depend on
the order of the memories (L5), and planning again after applying it gives an
empty plan (L6). Nothing pinned, cited, contested or young is forgotten (P39).
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cache
from itertools import chain, combinations
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from agentmem.base.checks import require_count, require_number, require_unit
from agentmem.base.errors import InvalidInput
from agentmem.base.lazy import compile_late
from agentmem.base.protocols import TokenCounter
from agentmem.base.types import (
    COLD_AT,
    FORGOTTEN_AT,
    WHOLE_KINDS,
    Memory,
    Usage,
    cognitive_type,
    is_cold,
    is_forgotten,
    is_pinned,
    require_instant,
    same_audience,
)
from agentmem.living.conflicts import (
    WORDS,
    JudgedClause,
    Statement,
    StatementReading,
    Verdict,
    judge,
    read_statement,
    same_stem,
    stem_word,
)
from agentmem.living.facts import Episode, Fact, extract, from_memory
from agentmem.living.levels import Essentials, has_word, make_levels, read_essentials
from agentmem.stores.values import Link
from agentmem.text.terms import analyse_query

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
        counts = ("most_links", "rare_entity_rows", "least_co_citations", "keep_words")
        for name in (*counts, "hot_memories"):
            require_count(getattr(self, name), name)


class SimilarPair(NamedTuple):
    """Two memories and how alike their embeddings are."""

    first: str
    second: str
    similarity: float


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


def opened(first: str, second: str, verdict: Verdict, *, at: datetime) -> Link:
    """An open contradiction as it is kept."""
    one, other = pair_of(first, second)
    said = verdict if one == first else verdict.swapped()
    names = ("reason", "subject", "first_value", "second_value", "confidence")
    note = json.dumps({name: getattr(said, name) for name in names}, ensure_ascii=False)
    return Link(first_id=one, second_id=other, relation="contradicts", created_at=at, note=note)


def read_note(note: str) -> Mapping[str, Any]:
    """What a contradiction's note says; a note somebody else wrote is just text."""
    try:
        found = json.loads(note) if note else {}
    except ValueError:
        found = None
    return found if isinstance(found, dict) else {"note": note}


def is_active(memory: Memory) -> bool:
    """Whether the memory is served: not deleted, forgotten or superseded."""
    return memory.deleted_at is None and memory.superseded_by is None and not is_forgotten(memory)


def apply_plan(state: LivingState, plan: ConsolidationPlan, *, now: datetime) -> LivingState:
    """The state after the plan: no row is removed, every text stays; the order of rows too.

    What the shell writes to a store is the difference between the two states.
    """
    rows = {memory.id: memory for memory in state.memories}
    for operation in plan.operations:
        _apply(operation, rows, now)
    new: dict[type, set[Pair]] = {AddLink: set(), OpenContradiction: set()}
    for one in plan.operations:
        if isinstance(one, AddLink | OpenContradiction):
            new[type(one)].add(pair_of(one.first, one.second))
    return replace(
        state,
        memories=tuple(rows[memory.id] for memory in state.memories),
        links=state.links | new[AddLink],
        contested=state.contested | new[OpenContradiction],
    )


def _apply(operation: Operation, rows: dict[str, Memory], now: datetime) -> None:
    """Change the rows that an operation is about."""
    match operation:
        case Merge():
            kept = rows[operation.survivor]
            rows[kept.id] = replace(kept, metadata=operation.metadata, usage=operation.usage)
            rows[operation.loser] = replace(rows[operation.loser], superseded_by=kept.id)
        case Supersede():
            old, new = rows[operation.old], rows[operation.new]
            until = max(start_of(new), start_of(old))
            rows[old.id] = replace(old, superseded_by=new.id, valid_to=old.valid_to or until)
            rows[new.id] = replace(new, supersedes=new.supersedes or old.id)
        case Summarise(id=id_):
            rows[id_] = replace(rows[id_], summary=operation.summary)
        case Compress(id=id_, compressed=short, index=index):
            rows[id_] = replace(rows[id_], compressed=short, index=index)
        case Forget(id=id_, reason=reason):
            marks = {FORGOTTEN_AT: now.isoformat(), "forgotten_because": reason}
            rows[id_] = _marked(rows[id_], marks)
        case Cool(id=id_):
            rows[id_] = _marked(rows[id_], {COLD_AT: now.isoformat()})
        case Rerank(id=id_):
            memory = _marked(rows[id_], {"base_importance": operation.base})
            rows[id_] = replace(memory, importance=operation.importance)


def start_of(memory: Memory) -> datetime:
    """When it began to hold."""
    return memory.valid_from or memory.created_at


def key_of(memory: Memory) -> str:
    """The key of the fact a memory holds, or ""."""
    record = from_memory(memory)
    return record.key if isinstance(record, Fact) else ""


def _marked(memory: Memory, marks: Mapping[str, Any]) -> Memory:
    return replace(memory, metadata=MappingProxyType({**memory.metadata, **marks}))


# ----------------------------------------------------------------------------
# Which memories can be contradicted, and by which of their words.
#
# A fact, a preference or an episode is a statement. In a message most words are
# none: greetings, questions, moods. Of a message only the sentences count that
# state a fact, and only in what a user says; the assistant repeats, and pages
# and tools speak of other things by the same names.


ONE_DAY = timedelta(days=1)
_THAT_DAY = compile_late(
    r"(?<!\bas of )(?<!\bsince )(?<!\bfrom )(?<!\bstarting )(?<!\beffective )"
    r"\b(?:today|tonight|tomorrow|this (?:morning|afternoon|evening|week|weekend|month))\b",
    re.IGNORECASE,
)


def stated_text(memory: Memory) -> str:
    """The words of a memory that can be contradicted; "" when it has none."""
    if memory.kind != "message":
        return memory.text
    if memory.origin != "user":
        return ""
    facts = extract(memory.text, beside_requests=True).facts
    return "\n".join(dict.fromkeys(fact.text for fact in facts))


def of_two_days(one: Memory, other: Memory) -> bool:
    """Whether they speak of different days: of what happened, or of what holds that day only."""
    first, second = start_of(one), start_of(other)
    if _is_event(one) and _is_event(other):
        return abs(first - second) >= ONE_DAY  # things happen again, and differently
    passing = _THAT_DAY.search(one.text) or _THAT_DAY.search(other.text)
    return first.date() != second.date() and passing is not None


def _is_event(memory: Memory) -> bool:
    record = from_memory(memory)
    decided = isinstance(record, Episode) and record.sort == "decision"
    return memory.kind == "episode" and not decided


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
    return (one.speaker or "user") == (other.speaker or "user")


# ----------------------------------------------------------------------------
# Whether two texts say the same, which of two memories stays, and what it takes over.
#
# A similarity alone merges "the limit is 900" with "the limit is 600". Two texts are the same
# here only when they are alike and agree in their numbers, names, negations and code, when no
# rule sees a contradiction, and when neither has a word in a place where the other has another.


MERGE_SIMILARITY = 0.92
MOST_EXTRA_WORDS = 3
"""How many words one text may have more than the other and still say the same."""

MergeReason = Literal[
    "same", "similarity", "number", "name", "negation", "code", "conflict", "words", "order", "time"
]
_BOOKKEEPING = frozenset({"base_importance", "forgotten_at", "forgotten_because", "cold_at"})
_SMALL = WORDS.modals | WORDS.small
"""Words that no comparison of telling words sees, and that change what is said."""
_WORD = compile_late(r"[a-z]+(?:'[a-z]+)?")
_SPECIFYING = frozenset(stem_word(word) for word in WORDS.specifiers)


def compare_texts(
    first: str,
    second: str,
    similarity: float,
    *,
    least: float = MERGE_SIMILARITY,
    read: Callable[[str], StatementReading] = read_statement,
    essentials: Callable[[str], Essentials] = read_essentials,
) -> MergeReason:
    """ "same" if two texts, this similar, say the same, or what speaks against it (L4).

    `read` and `essentials` may know what they read before.
    """
    if require_number(similarity, "similarity") < least:
        return "similarity"
    if first == second:
        return "same"
    one, other = essentials(first), essentials(second)
    if one.numbers != other.numbers:
        return "number"
    if one.negations != other.negations:
        return "negation"
    if set(one.code) != set(other.code):
        return "code"
    for names, text in ((one.names, other), (other.names, one)):
        if not all(has_word(text, name) for name in names):
            return "name"
    if judge(Statement(text=first), Statement(text=second), read=read).conflicting:
        return "conflict"
    if _small_words_swapped(first, second):
        return "words"
    return _compare_clauses(read(first).clauses, read(second).clauses)


def choose_survivor(first: Memory, second: Memory) -> tuple[Memory, Memory]:
    """The memory that stays and the one that goes, whichever way round they are given.

    A pinned one stays, then the one that says more, the one cited more often,
    the newer one, the more important one, and of equal ones the smaller id.
    """
    survivor, loser = sorted((first, second), key=rank_survivor)
    return survivor, loser


def merge_metadata(survivor: Memory, loser: Memory) -> Mapping[str, Any]:
    """The metadata of both: the survivor's word counts, lists are joined, `merged_from` grows."""
    theirs = {name: value for name, value in loser.metadata.items() if name not in _BOOKKEEPING}
    merged = {**theirs, **survivor.metadata}
    for name in theirs.keys() & survivor.metadata.keys():
        before, value = theirs[name], merged[name]
        if isinstance(value, list | tuple) and isinstance(before, list | tuple):
            merged[name] = [*value, *(item for item in before if item not in value)]
    listed = merged.get("merged_from")
    known = map(str, listed) if isinstance(listed, list | tuple) else ()
    merged["merged_from"] = sorted({loser.id, *known} - {survivor.id})
    return MappingProxyType(merged)


def merge_usage(survivor: Usage, loser: Usage) -> Usage:
    """What was counted for either, added up."""
    used = filter(None, (survivor.last_used_at, loser.last_used_at))
    return Usage(
        retrieved=survivor.retrieved + loser.retrieved,
        cited=survivor.cited + loser.cited,
        ignored=survivor.ignored + loser.ignored,
        last_used_at=max(used, default=None),
    )


def rank_survivor(memory: Memory) -> tuple[bool, int, int, float, float, str]:
    """What `choose_survivor` goes by: of several, the one that stays has the least."""
    return (
        not is_pinned(memory),
        -len(set(memory.text.lower().split())),
        -memory.usage.cited,
        -start_of(memory).timestamp(),
        -memory.importance,
        memory.id,
    )


def _small_words_swapped(first: str, second: str) -> bool:
    """Whether one has a small word that matters where the other has another, or a "must" alone."""
    one, other = (
        {word for word in _WORD.findall(text.lower().replace("’", "'")) if word in _SMALL}
        for text in (first, second)
    )
    only_one, only_other = one - other, other - one
    return bool(only_one and only_other) or not WORDS.modals.isdisjoint(only_one | only_other)


def _compare_clauses(ours: Sequence[JudgedClause], theirs: Sequence[JudgedClause]) -> MergeReason:
    if any(c.past for c in ours) != any(c.past for c in theirs):
        return "time"
    one_told, other_told = (
        (all(c.asserted for c in side), any(c.all for c in side), any(c.few for c in side))
        for side in (ours, theirs)
    )
    one_said, other_said = ([(c.particles, c.person) for c in side] for side in (ours, theirs))
    if one_told != other_told or (len(ours) == len(theirs) and one_said != other_said):
        return "words"
    one, other = ([word for clause in side for word in clause.order] for side in (ours, theirs))
    only_one, only_other = set(one) - set(other), set(other) - set(one)
    for word in sorted(only_one):
        twin = next((o for o in sorted(only_other) if same_stem(word, o)), None)
        if twin is not None:
            only_one.discard(word)
            only_other.discard(twin)
    both = set(one) & set(other)
    extra = only_one or only_other
    most = min(MOST_EXTRA_WORDS, max(1, len(both) // 2))
    if (only_one and only_other) or len(extra) > most or not extra.isdisjoint(_SPECIFYING):
        return "words"
    # Who chases whom is told by nothing but the order.
    one_order, other_order = (dict.fromkeys(w for w in said if w in both) for said in (one, other))
    return "same" if list(one_order) == list(other_order) else "order"


# ----------------------------------------------------------------------------
# Many memories to one plan: merge, supersede, contradict, forget, shorten, rank and link.


_SHORT_TOKENS = 12
_TELLING_CHARACTERS = 1_000
_STATING_KINDS = frozenset({"fact", "preference"})  # short enough to be read all
_RARE_WORD_ROWS = 20
_SHARED_RARE_WORDS = 2
_BOOST, _NEGLECT = 0.3, 0.2
_HALF_LIFE = timedelta(days=90)
_LEAST_CHANGE = 0.05


def plan_consolidation(
    state: LivingState,
    *,
    now: datetime,
    count: TokenCounter,
    similar: Iterable[SimilarPair] = (),
    settings: ConsolidationSettings | None = None,
    changed: Collection[str] | None = None,
) -> ConsolidationPlan:
    """What to do with `state` at `now`, as operations in the order to apply them.

    `similar` are the pairs an index found alike; pairs of one fact key, and
    pairs that share rare words, are looked at for contradictions as well.
    `changed` limits merging, linking and the search for contradictions to pairs
    with one of these ids, found by `similar` and by key: what was not touched
    since the last run is not read again.
    """
    require_instant(now, "now")
    pairs = tuple(similar)
    planner = Planner(state, now, count, settings or ConsolidationSettings(), changed)
    planner.merge(pairs)
    planner.contradict(pairs)
    planner.rerank()  # before forgetting, which asks for the importance
    planner.forget()
    planner.shorten()
    planner.cool()
    planner.link()
    return ConsolidationPlan(operations=tuple(planner.operations))


@dataclass
class Planner:
    """Plans stage by stage on a state that already has the stages before applied."""

    state: LivingState
    now: datetime
    count: TokenCounter
    settings: ConsolidationSettings
    changed: Collection[str] | None

    def __post_init__(self) -> None:
        self.operations: list[Operation] = []
        self.rows = {memory.id: memory for memory in self.state.memories}
        self.contested = set(self.state.contested)
        rows = self.rows  # not the planner itself: it would be freed by the collector only
        self._stated = cache(lambda id_: stated_text(rows[id_]))
        self._read, self._essentials = cache(read_statement), cache(read_essentials)

    def _do(self, operation: Operation) -> None:
        self.operations.append(operation)
        _apply(operation, self.rows, self.now)

    def _looked_at(self, pair: Pair) -> bool:
        return self.changed is None or pair[0] in self.changed or pair[1] in self.changed

    def _active(self) -> list[Memory]:
        return [memory for _, memory in sorted(self.rows.items()) if is_active(memory)]

    def _tokens(self, memory: Memory) -> int:
        return self.count(memory.at_level("compressed"))

    def merge(self, similar: Iterable[SimilarPair]) -> None:
        least = self.settings.merge_similarity
        best: dict[Pair, float] = {}
        for found in similar:
            pair = pair_of(found.first, found.second)
            if found.similarity >= least and pair[0] != pair[1] and self._looked_at(pair):
                best[pair] = max(best.get(pair, -1.0), found.similarity)
        for (first, second), similarity in sorted(best.items(), key=lambda p: (-p[1], p[0])):
            one, other = self.rows.get(first), self.rows.get(second)
            if one is None or other is None or not self._may_merge(one, other):
                continue
            alike = compare_texts(
                one.text, other.text, similarity, least=least, read=self._read,
                essentials=self._essentials,
            )  # fmt: skip
            if alike != "same":
                continue
            stays, goes = choose_survivor(one, other)
            metadata, usage = merge_metadata(stays, goes), merge_usage(stays.usage, goes.usage)
            self._do(
                Merge(
                    survivor=stays.id, loser=goes.id, similarity=similarity, metadata=metadata,
                    usage=usage, tokens_saved=self._tokens(goes),
                )
            )  # fmt: skip

    def _may_merge(self, one: Memory, other: Memory) -> bool:
        same = ("kind", "scope", "visibility", "origin", "speaker")
        return (
            is_active(one)
            and is_active(other)
            and all(getattr(one, name) == getattr(other, name) for name in same)
            and one.kind not in self.settings.unmerged_kinds
            and not (is_pinned(one) and is_pinned(other))
            and pair_of(one.id, other.id) not in self.contested
        )

    def contradict(self, similar: Iterable[SimilarPair]) -> None:
        # Rows that are not active count as well: which words are rare, and who is whose
        # neighbour, must not change because a plan was applied.
        rows = [
            memory
            for id_, memory in sorted(self.rows.items())
            if memory.kind in self.settings.contradiction_kinds and self._stated(id_)
        ]
        keys = {memory.id: key_of(memory) for memory in rows}
        pairs = {pair_of(p.first, p.second) for p in similar if {p.first, p.second} <= keys.keys()}
        by_key: dict[str, list[str]] = defaultdict(list)
        for id_, key in keys.items():
            by_key[key].append(id_)
        for ids in (ids for key, ids in by_key.items() if key):
            for at, first in enumerate(ids):
                pairs |= {(first, other) for other in ids[at + 1 : at + 1 + _RARE_WORD_ROWS]}
        if self.changed is None:
            pairs |= set(self._sharing_rare_words([m for m in rows if m.kind in _STATING_KINDS]))
        judged = self.contested | self.state.settled
        for first, second in sorted(pairs - judged):
            one, other = self.rows[first], self.rows[second]
            if (
                first != second
                and self._looked_at((first, second))
                and is_active(one)
                and is_active(other)
                and same_audience(one, other)
                and same_voice(one, other)
                and not of_two_days(one, other)
            ):
                self._judge(one, other, keys)

    def _judge(self, one: Memory, other: Memory, keys: Mapping[str, str]) -> None:
        first, second = (
            Statement(text=self._stated(m.id), date=start_of(m), key=keys[m.id])
            for m in (one, other)
        )
        verdict = judge(first, second, read=self._read)
        if not verdict.conflicting or verdict.confidence < self.settings.contradiction_confidence:
            return
        if verdict.kind == "supersedes" and one.kind == other.kind == "fact":
            new, old = (one, other) if verdict.newer == "first" else (other, one)
            if is_change_of(old, new) and not is_pinned(old):
                self._do(Supersede(old=old.id, new=new.id, verdict=verdict))
                return
        if verdict.kind == "supersedes" and one.kind != "fact":
            return  # an episode is not untrue because things changed later
        self.contested.add(pair_of(one.id, other.id))
        self._do(OpenContradiction(first=one.id, second=other.id, verdict=verdict))

    def _sharing_rare_words(self, rows: list[Memory]) -> Iterator[Pair]:
        """Pairs with two words in common that few rows have, or one when there are hardly more."""
        holders: dict[str, list[str]] = defaultdict(list)
        short: set[str] = set()
        for memory in rows:
            words = self._read(self._stated(memory.id)).words
            if len(words) <= _SHARED_RARE_WORDS:
                short.add(memory.id)
            for word in words:
                holders[word].append(memory.id)
        for pair, weights in _sharing(holders, _RARE_WORD_ROWS).items():
            if len(weights) >= _SHARED_RARE_WORDS or not short.isdisjoint(pair):
                yield pair

    def forget(self) -> None:
        contested = set(chain(*self.contested))
        for id_, memory in sorted(self.rows.items()):
            reason = None if id_ in contested else self._forgettable(memory)
            if reason is not None:
                saved = self._tokens(memory) if reason == "unused" else 0
                self._do(Forget(id=id_, reason=reason, tokens_saved=saved))

    def _forgettable(self, memory: Memory) -> ForgetReason | None:
        settings = self.settings
        if memory.deleted_at is not None or is_forgotten(memory) or is_pinned(memory):
            return None
        if memory.kind in settings.unforgettable_kinds or memory.usage.cited > 0:
            return None
        touched = (memory.created_at, memory.valid_from, memory.valid_to, memory.usage.last_used_at)
        if self.now - max(filter(None, touched)) < settings.forget_after:
            return None
        if memory.superseded_by is not None:
            return "superseded"
        if not settings.forget_unused or memory.usage.retrieved > 0:
            return None
        if memory.importance >= settings.keep_importance or self._tells(memory):
            return None
        return "unused"

    def _tells(self, memory: Memory) -> bool:
        """Whether something that happened has enough words that one could ask for it later."""
        if cognitive_type(memory.kind) != "episodic":
            return False
        words = {term for term, _ in analyse_query(memory.text[:_TELLING_CHARACTERS])}
        return len(words) >= self.settings.keep_words

    def shorten(self) -> None:
        for memory in self._active():
            if cognitive_type(memory.kind) != "episodic":
                continue
            age = self.now - memory.created_at
            wants_summary = memory.summary is None and age >= self.settings.summarise_after
            wants_compressed = memory.compressed is None and age >= self.settings.compress_after
            if not (wants_summary or wants_compressed):
                continue
            full_tokens = self.count(memory.text)
            if full_tokens < _SHORT_TOKENS:
                continue
            levels = make_levels(memory.text, self.count, title=memory.title, kind=memory.kind)
            served = full_tokens if memory.summary is None else self.count(memory.summary)
            if wants_summary and levels.summary_tokens < full_tokens:
                saved = full_tokens - levels.summary_tokens
                served = levels.summary_tokens
                self._do(Summarise(id=memory.id, summary=levels.summary, tokens_saved=saved))
            if wants_compressed and levels.compressed_tokens < served:
                saved = served - levels.compressed_tokens
                short, index = levels.compressed, levels.index
                self._do(Compress(id=memory.id, compressed=short, index=index, tokens_saved=saved))

    def cool(self) -> None:
        """Put away what is oldest, was never used, and has a shorter form to be known by.

        Only as much as there is beyond `hot_memories`: a small memory is
        searched whole in no time.
        """
        hot = [memory for memory in self._active() if not is_cold(memory)]
        too_many = len(hot) - self.settings.hot_memories
        if not self.settings.cool_unused or too_many <= 0:
            return
        contested = set(chain(*self.contested))
        unused = [memory for memory in hot if self._coolable(memory) and memory.id not in contested]
        unused.sort(key=lambda memory: (memory.created_at, memory.id))
        for memory in unused[:too_many]:
            self._do(Cool(id=memory.id))

    def _coolable(self, memory: Memory) -> bool:
        return (
            cognitive_type(memory.kind) == "episodic"
            and memory.kind not in WHOLE_KINDS
            and (memory.summary or memory.compressed) is not None
            and not is_pinned(memory)
            and not memory.usage.cited
            and not memory.usage.retrieved
            and memory.importance < self.settings.keep_importance
            and self.now - memory.created_at >= self.settings.cool_after
        )

    def rerank(self) -> None:
        for memory in self._active():
            base = _base_importance(memory)
            target = importance_after_use(memory, base=base, now=self.now)
            if abs(target - memory.importance) >= _LEAST_CHANGE:
                self._do(Rerank(id=memory.id, importance=target, base=base))

    def link(self) -> None:
        active = self._active()
        ids = {memory.id for memory in active}
        wanted: dict[Pair, tuple[LinkReason, float]] = {
            pair_of(*pair): ("co-citation", float(times))
            for pair, times in self.state.co_cited.items()
            if times >= self.settings.least_co_citations and ids.issuperset(pair)
        }
        for pair, weight in self._sharing_entities(active):
            if self._looked_at(pair):
                wanted.setdefault(pair, ("entity", weight))
        degree = Counter(chain(*self.state.links))
        ranked = sorted(wanted.items(), key=lambda item: (item[1][0], -item[1][1], item[0]))
        for (first, second), (reason, weight) in ranked:
            if (
                (first, second) not in self.state.links
                and max(degree[first], degree[second]) < self.settings.most_links
                and same_audience(self.rows[first], self.rows[second])  # P24
            ):
                degree.update((first, second))
                told = round(weight, 4)
                self._do(AddLink(first=first, second=second, reason=reason, weight=told))

    def _sharing_entities(self, active: list[Memory]) -> Iterator[tuple[Pair, float]]:
        """Pairs that name the same rare things, and how telling what they share is."""
        holders: dict[str, list[str]] = defaultdict(list)
        for memory in active:
            for name in self._essentials(memory.text).names:
                holders[name].append(memory.id)
        for pair, weights in _sharing(holders, self.settings.rare_entity_rows).items():
            total = math.fsum(weights)
            if len(weights) > 1 or total >= 0.5:
                yield pair, total


def _sharing(holders: Mapping[str, Sequence[str]], most_rows: int) -> dict[Pair, list[float]]:
    """Pairs that share what at most so many rows have, and how telling each such thing is."""
    weights: dict[Pair, list[float]] = defaultdict(list)
    for _, ids in sorted(holders.items()):
        if 1 < len(ids) <= most_rows:
            for first, second in combinations(sorted(ids), 2):
                weights[first, second].append(1.0 / math.log2(1 + len(ids)))
    return weights


def importance_after_use(memory: Memory, *, base: float, now: datetime) -> float:
    """`base` raised by citations and lowered by neglect, both bounded, fading over 90 days."""
    usage = memory.usage
    since = now - (usage.last_used_at or memory.created_at)
    fading = math.exp2(-(max(since, timedelta(0)) / _HALF_LIFE))
    boost = _BOOST * (1 - math.exp2(-usage.cited / 3)) * fading
    neglected = max(0, usage.ignored - 3 * usage.cited - 3)
    neglect = _NEGLECT * (1 - math.exp2(-neglected / 5)) * fading
    return round(min(1.0, max(0.05, base + boost - neglect)), 2)


def _base_importance(memory: Memory) -> float:
    base = memory.metadata.get("base_importance")
    if isinstance(base, int | float) and not isinstance(base, bool) and 0 <= base <= 1:
        return float(base)
    return memory.importance


def is_change_of(old: Memory, new: Memory) -> bool:
    """Whether the same owner and speaker speak of the same key in both (P42)."""
    theirs = (old.origin, old.scope, old.speaker) == (new.origin, new.scope, new.speaker)
    return theirs and not _stated_keys(old).isdisjoint(_stated_keys(new))


def _stated_keys(memory: Memory) -> set[str]:
    """The key of its record, or the keys of what its text states."""
    key = key_of(memory)
    return {key} if key else {one.key for one in extract(memory.text, beside_requests=True).facts}
