"""Run a consolidation against a store: read, plan, apply in one step that can be undone.

read what the reader sees ─▶ pairs that are alike ─▶ core plans ─▶ one transaction + journal
"""

from __future__ import annotations

import json
import logging
import math
import threading
import time
import weakref
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import reduce
from itertools import combinations
from typing import TYPE_CHECKING, Any, TypeVar, cast

from agentmem.base.errors import AgentMemError, ChangedMeanwhile, InvalidInput
from agentmem.base.filters import Selection
from agentmem.base.protocols import TokenCounter
from agentmem.base.telemetry import span
from agentmem.base.types import (
    COLD_AT,
    FORGOTTEN_AT,
    WHOLE_KINDS,
    Memory,
    Scope,
    audience,
    cognitive_type,
    is_cold,
    is_forgotten,
    is_pinned,
    require_instant,
    same_audience,
)
from agentmem.living.conflicts import Statement, StatementReading, judge_readings, read_statement
from agentmem.living.facts import Fact, extract, from_memory
from agentmem.living.levels import make_levels, read_essentials
from agentmem.living.merge import (
    MergeReading,
    choose_survivor,
    merge_metadata,
    merge_usage,
    read_for_merging,
    same_readings,
)
from agentmem.living.models import Model, ModelHelp, Spend
from agentmem.living.plans import (
    AddLink,
    Compress,
    ConsolidationPlan,
    ConsolidationSettings,
    Cool,
    Forget,
    LinkReason,
    LivingState,
    Merge,
    OpenContradiction,
    Operation,
    Pair,
    Rerank,
    SimilarPair,
    Summarise,
    Supersede,
    apply_plan,
    is_active,
    judged_pairs,
    mark_of,
    of_two_days,
    opened,
    pair_of,
    same_voice,
    stated_text,
)
from agentmem.living.usage import co_cited
from agentmem.stores.rules import JournalEntry, Relation, Revision, Undone
from agentmem.stores.values import Link
from agentmem.text.terms import analyse_query
from agentmem.tokens.counter import tokenizer_for

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from agentmem.search.parts import Parts


# ----------------------------------------------------------------------------
# Many memories to one plan: merge, supersede, contradict, forget, shorten, rank and link.
#
# The plan is a value; nothing happens until it is applied. It does not depend on
# the order of the memories (L5), and planning again after applying it gives an
# empty plan (L6). Nothing pinned, cited, contested or young is forgotten (P39).


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
    chosen = settings or ConsolidationSettings()
    pairs = tuple(similar)
    planner = Planner(state, now, count, chosen, changed)
    planner.merge(pairs)
    planner.contradict(pairs)
    planner.rerank()  # before forgetting, which asks for the importance
    planner.forget()
    planner.shorten()
    planner.cool()
    planner.link()
    return ConsolidationPlan(operations=tuple(planner.operations))


class Planner:
    """Plans stage by stage on a state that already has the stages before applied."""

    def __init__(
        self,
        state: LivingState,
        now: datetime,
        count: TokenCounter,
        settings: ConsolidationSettings,
        changed: Collection[str] | None,
    ) -> None:
        self.state = state
        self.now = now
        self.count = count
        self.settings = settings
        self.changed = None if changed is None else frozenset(changed)
        self.operations: list[Operation] = []
        self.rows = {memory.id: memory for memory in state.memories}
        self.contested = set(state.contested)
        self._merging: dict[str, MergeReading] = {}
        self._readings: dict[str, StatementReading] = {}
        self._said: dict[str, str] = {}

    def _do(self, operation: Operation) -> None:
        self.operations.append(operation)
        touched = {
            name: self.rows[id_]
            for name in ("survivor", "loser", "old", "new", "id")
            if (id_ := getattr(operation, name, None)) is not None
        }
        small = LivingState(memories=tuple({m.id: m for m in touched.values()}.values()))
        after = apply_plan(small, ConsolidationPlan(operations=(operation,)), now=self.now)
        for memory in after.memories:
            self.rows[memory.id] = memory

    def _looked_at(self, first: str, second: str) -> bool:
        return self.changed is None or first in self.changed or second in self.changed

    def _active(self) -> list[Memory]:
        return [memory for _, memory in sorted(self.rows.items()) if is_active(memory)]

    def _tokens(self, memory: Memory) -> int:
        return self.count(memory.at_level("compressed"))

    def merge(self, similar: Iterable[SimilarPair]) -> None:
        best: dict[Pair, float] = {}
        for found in similar:
            if found.first == found.second or not self._looked_at(found.first, found.second):
                continue
            pair = pair_of(found.first, found.second)
            best[pair] = max(best.get(pair, -1.0), found.similarity)
        for (first, second), similarity in sorted(best.items(), key=lambda p: (-p[1], p[0])):
            one, other = self.rows.get(first), self.rows.get(second)
            if similarity < self.settings.merge_similarity or one is None or other is None:
                continue
            if not self._may_merge(one, other):
                continue
            verdict = same_readings(
                self._for_merging(one),
                self._for_merging(other),
                similarity,
                threshold=self.settings.merge_similarity,
            )
            if not verdict.same:
                continue
            survivor, loser = choose_survivor(one, other)
            self._do(
                Merge(
                    survivor=survivor.id,
                    loser=loser.id,
                    similarity=similarity,
                    metadata=merge_metadata(survivor, loser),
                    usage=merge_usage(survivor.usage, loser.usage),
                    tokens_saved=self._tokens(loser),
                )
            )

    def _may_merge(self, one: Memory, other: Memory) -> bool:
        return (
            is_active(one)
            and is_active(other)
            and one.kind == other.kind
            and one.kind not in self.settings.unmerged_kinds
            and one.scope == other.scope
            and one.visibility == other.visibility
            and one.origin == other.origin
            and one.speaker == other.speaker
            and not (is_pinned(one) and is_pinned(other))
            and pair_of(one.id, other.id) not in self.contested
        )

    def _for_merging(self, memory: Memory) -> MergeReading:
        if memory.id not in self._merging:
            self._merging[memory.id] = read_for_merging(memory.text)
        return self._merging[memory.id]

    def contradict(self, similar: Iterable[SimilarPair]) -> None:
        # Rows that are not active count as well: which words are rare, and who is whose
        # neighbour, must not change because a plan was applied.
        rows = [
            memory
            for _, memory in sorted(self.rows.items())
            if memory.kind in self.settings.contradiction_kinds and self._stated(memory)
        ]
        ids = {memory.id for memory in rows}
        pairs = {pair_of(p.first, p.second) for p in similar if p.first in ids and p.second in ids}
        keys = {memory.id: _key_of(memory) for memory in rows}
        by_key: dict[str, list[str]] = defaultdict(list)
        for id_, key in keys.items():
            if key:
                by_key[key].append(id_)
        for group in by_key.values():
            pairs |= set(_neighbours(group))
        if self.changed is None:
            pairs |= set(self._sharing_rare_words([m for m in rows if m.kind in _STATING_KINDS]))
        for first, second in sorted(pairs):
            if first == second or not self._looked_at(first, second):
                continue
            if (first, second) in self.contested or (first, second) in self.state.settled:
                continue
            one, other = self.rows[first], self.rows[second]
            if not (is_active(one) and is_active(other)) or not same_audience(one, other):
                continue
            if not same_voice(one, other) or of_two_days(one, other):
                continue
            self._judge(one, other, keys)

    def _judge(self, one: Memory, other: Memory, keys: dict[str, str]) -> None:
        verdict = judge_readings(
            self._statement(one, keys[one.id]),
            self._reading(one),
            second=self._statement(other, keys[other.id]),
            second_reading=self._reading(other),
        )
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
        self.operations.append(OpenContradiction(first=one.id, second=other.id, verdict=verdict))

    def _reading(self, memory: Memory) -> StatementReading:
        stated = self._stated(memory)
        if memory.id in self._merging and stated == memory.text:
            return self._merging[memory.id].reading
        if memory.id not in self._readings:
            self._readings[memory.id] = read_statement(stated)
        return self._readings[memory.id]

    def _stated(self, memory: Memory) -> str:
        if memory.kind != "message":
            return memory.text
        if memory.id not in self._said:
            self._said[memory.id] = stated_text(memory)
        return self._said[memory.id]

    def _statement(self, memory: Memory, key: str) -> Statement:
        date = memory.valid_from or memory.created_at
        return Statement(text=self._stated(memory), date=date, key=key)

    def _sharing_rare_words(self, rows: list[Memory]) -> Iterator[Pair]:
        """Pairs with two words in common that few rows have, or one when there are hardly more."""
        holders: dict[str, list[str]] = defaultdict(list)
        short: set[str] = set()
        for memory in rows:
            words = self._reading(memory).words
            if len(words) <= _SHARED_RARE_WORDS:
                short.add(memory.id)
            for word in words:
                holders[word].append(memory.id)
        for pair, weights in _sharing(holders, _RARE_WORD_ROWS).items():
            if len(weights) >= _SHARED_RARE_WORDS or not short.isdisjoint(pair):
                yield pair

    def forget(self) -> None:
        contested = {id_ for pair in self.contested for id_ in pair}
        for id_, memory in sorted(self.rows.items()):
            reason = self._forgettable(memory)
            if reason is None or id_ in contested:
                continue
            saved = self._tokens(memory) if memory.superseded_by is None else 0
            self._do(Forget(id=id_, reason=reason, tokens_saved=saved))  # type: ignore[arg-type]  # one of the two reasons

    def _forgettable(self, memory: Memory) -> str | None:
        settings = self.settings
        if memory.deleted_at is not None or is_forgotten(memory) or is_pinned(memory):
            return None
        if memory.kind in settings.unforgettable_kinds or memory.usage.cited > 0:
            return None
        touched = [memory.created_at, memory.valid_from, memory.valid_to, memory.usage.last_used_at]
        latest = max(at for at in touched if at is not None)
        if self.now - latest < settings.forget_after:
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
                self._do(
                    Compress(
                        id=memory.id,
                        compressed=levels.compressed,
                        index=levels.index,
                        tokens_saved=served - levels.compressed_tokens,
                    )
                )

    def cool(self) -> None:
        """Put away what is oldest, was never used, and has a shorter form to be known by.

        Only as much as there is beyond `hot_memories`: a small memory is
        searched whole in no time.
        """
        hot = [memory for memory in self._active() if not is_cold(memory)]
        too_many = len(hot) - self.settings.hot_memories
        if not self.settings.cool_unused or too_many <= 0:
            return
        contested = {id_ for pair in self.contested for id_ in pair}
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
        wanted: dict[Pair, tuple[LinkReason, float]] = {}
        ids = {memory.id for memory in active}
        for pair, times in self.state.co_cited.items():
            ordered = pair_of(*pair)
            if times >= self.settings.least_co_citations and ids.issuperset(ordered):
                wanted[ordered] = ("co-citation", float(times))
        for pair, weight in self._sharing_entities(active):
            if self._looked_at(*pair):
                wanted.setdefault(pair, ("entity", weight))
        degree: Counter[str] = Counter()
        for pair in self.state.links:
            degree.update(pair)
        ranked = sorted(wanted.items(), key=lambda item: (item[1][0], -item[1][1], item[0]))
        for pair, (reason, weight) in ranked:
            if pair in self.state.links or max(degree[pair[0]], degree[pair[1]]) >= (
                self.settings.most_links
            ):
                continue
            if not same_audience(self.rows[pair[0]], self.rows[pair[1]]):  # P24
                continue
            degree.update(pair)
            self.operations.append(
                AddLink(first=pair[0], second=pair[1], reason=reason, weight=round(weight, 4))
            )

    def _sharing_entities(self, active: list[Memory]) -> Iterator[tuple[Pair, float]]:
        """Pairs that name the same rare things, and how telling what they share is."""
        holders: dict[str, list[str]] = defaultdict(list)
        for memory in active:
            found = (
                self._merging[memory.id].essentials
                if memory.id in self._merging
                else read_essentials(memory.text)
            )
            for name in found.names:
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


def _key_of(memory: Memory) -> str:
    record = from_memory(memory)
    return record.key if isinstance(record, Fact) else ""


def is_change_of(old: Memory, new: Memory) -> bool:
    """Whether the same owner and speaker speak of the same key in both (P42)."""
    theirs = (old.origin, old.scope, old.speaker) == (new.origin, new.scope, new.speaker)
    return theirs and not _stated_keys(old).isdisjoint(_stated_keys(new))


def _stated_keys(memory: Memory) -> frozenset[str]:
    """The key of its record, or the keys of what its text states."""
    key = _key_of(memory)
    return (
        frozenset((key,))
        if key
        else frozenset(one.key for one in extract(memory.text, beside_requests=True).facts)
    )


def _neighbours(ids: list[str]) -> Iterator[Pair]:
    ordered = sorted(ids)
    for place, first in enumerate(ordered):
        yield from ((first, other) for other in ordered[place + 1 : place + 1 + _RARE_WORD_ROWS])


# ----------------------------------------------------------------------------
# What consolidation did, as values.


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsolidationReport:
    """What a run did, or what a dry run would do.

    `tokens_saved` counts what contexts are spared at the levels that are
    served. `journal_id` is what `undo` takes; it is empty when nothing was
    changed. `looked_at` is how many memories were new or changed since the
    last run. `model_calls` and `model_tokens` say what a model was asked.
    """

    deduped: int = 0
    superseded: int = 0
    summarised: int = 0
    compressed: int = 0
    forgotten: int = 0
    contradictions: int = 0
    links: int = 0
    reranked: int = 0
    cooled: int = 0
    tokens_saved: int = 0
    memories: int = 0
    looked_at: int = 0
    dry_run: bool = False
    journal_id: str = ""
    duration_seconds: float = 0.0
    model_calls: int = 0
    model_tokens: int = 0
    notes: tuple[str, ...] = ()
    operations: tuple[Operation, ...] = ()

    @property
    def empty(self) -> bool:
        """Whether there was nothing to do."""
        return not self.operations

    def to_dict(self) -> dict[str, Any]:
        """The report as JSON values; each operation with its sort."""
        plain = {
            name: getattr(self, name)
            for name in self.__dataclass_fields__
            if name not in ("operations", "notes")
        }
        operations = [operation_fields(operation) for operation in self.operations]
        return {**plain, "notes": list(self.notes), "operations": operations}


def operation_fields(operation: Operation) -> dict[str, Any]:
    """An operation as JSON values."""
    fields: dict[str, Any] = {"operation": type(operation).__name__}
    for name in operation.__dataclass_fields__:
        value = getattr(operation, name)
        if name == "usage":
            value = {n: getattr(value, n) for n in ("retrieved", "cited", "ignored")}
        elif name == "verdict":
            value = {n: getattr(value, n) for n in value.__dataclass_fields__}
        elif isinstance(value, Mapping):
            value = dict(value)
        fields[name] = value
    return fields


def undone_fields(undone: Undone) -> dict[str, Any]:
    """What an undo did, as JSON values."""
    return {
        "journal_id": undone.id,
        "restored": undone.restored,
        "relations": undone.relations,
        "removed": undone.removed,
        "left": list(undone.left),
    }


# ----------------------------------------------------------------------------
# Which memories of one audience are alike: by their vectors, by their words, by their hash.


BLOCK_ROWS = 1_024
WHOLE_ROWS = 50_000
"""Up to so many vectors of one audience are compared each with each; beyond, the index is asked."""
MOST_ALIKE = 16
"""So many neighbours of one memory are looked at."""
ALIKE_WORDS = 0.92
BESIDE = 32
"""So many rows that share a rare term with one are compared with it."""

Row = int
Audience = tuple[Any, ...]


def find_similar(
    memory: Parts,
    rows: Mapping[Row, Memory],
    *,
    changed: Collection[Row] | None = None,
    least: float,
    related: float = 1.0,
    related_kinds: Collection[str] = (),
) -> tuple[SimilarPair, ...]:
    """Pairs at least `least` alike among memories that the same people see.

    Of `related_kinds`, pairs that are at least `related` alike, too. With
    `changed`, only pairs with one of these rows. Memories with a vector are
    compared by it, the others by their words. The same text is alike in any
    case.
    """
    audiences: dict[Audience, list[Row]] = defaultdict(list)
    for row, one in rows.items():
        if is_active(one):
            audiences[audience(one)].append(row)
    touched = None if changed is None else set(changed)
    found: dict[tuple[Row, Row], float] = {}
    for members in audiences.values():
        if touched is not None and touched.isdisjoint(members):
            continue
        for first, second in _same_text(members, rows, touched):
            found[first, second] = 1.0
        near: dict[tuple[Row, Row], float] = {}
        lowest = min(least, related) if related_kinds else least
        seen = _by_vector(memory, sorted(members), touched, lowest, near)
        for (first, second), alike in near.items():
            kinds = {rows[first].kind, rows[second].kind}
            if alike >= least or kinds.issubset(related_kinds):
                found[first, second] = max(found.get((first, second), -1.0), alike)
        rest = [row for row in members if row not in seen]
        _by_words(memory, sorted(rest), touched, max(least, ALIKE_WORDS), found)
    return tuple(
        SimilarPair(first=rows[first].id, second=rows[second].id, similarity=min(1.0, value))
        for (first, second), value in sorted(found.items())
    )


def _same_text(
    members: Sequence[Row], rows: Mapping[Row, Memory], changed: set[Row] | None
) -> Iterator[tuple[Row, Row]]:
    """Each memory with the one of the same text that would stay."""
    groups: dict[tuple[str, ...], list[Row]] = defaultdict(list)
    for row in members:
        one = rows[row]
        groups[one.text, one.kind, one.origin, one.speaker].append(row)
    for group in groups.values():
        if len(group) < 2 or (changed is not None and changed.isdisjoint(group)):
            continue
        by_id = {rows[row].id: row for row in group}
        best = by_id[reduce(lambda a, b: choose_survivor(a, b)[0], (rows[r] for r in group)).id]
        for row in group:
            if row != best:
                yield min(row, best), max(row, best)


def _by_vector(
    memory: Parts,
    members: Sequence[Row],
    changed: set[Row] | None,
    least: float,
    found: dict[tuple[Row, Row], float],
) -> set[Row]:
    """Adds what is near in the served embedder's space; gives the rows that have a vector."""
    import numpy as np

    embedder = memory.embedding.serving_id
    if embedder is None or len(members) < 2:
        return set()
    if len(members) > WHOLE_ROWS:
        return _by_index(memory, members, changed, least, found)
    keys, vectors = memory.store.feed.vectors(embedder, rows=members)
    if not len(keys):
        return set()
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    units = (vectors / np.where(lengths > 0, lengths, 1)).astype(np.float32)
    asking = (
        np.arange(len(keys))
        if changed is None
        else np.flatnonzero(np.isin(keys, np.fromiter(changed, np.int64, len(changed))))
    )
    for start in range(0, len(asking), BLOCK_ROWS):
        here = asking[start : start + BLOCK_ROWS]
        cosines: NDArray[np.float32] = units[here] @ units.T
        cosines[np.arange(len(here)), here] = -1
        _add_nearest(keys, here, cosines, least, found)
    return {int(key) for key in keys}


def _add_nearest(
    keys: NDArray[np.int64],
    here: NDArray[np.int64],
    cosines: NDArray[np.float32],
    least: float,
    found: dict[tuple[Row, Row], float],
) -> None:
    import numpy as np

    most = min(MOST_ALIKE, cosines.shape[1])
    near = np.argpartition(-cosines, most - 1, axis=1)[:, :most]
    values = np.take_along_axis(cosines, near, axis=1)
    for own, place in zip(*(axis.tolist() for axis in np.nonzero(values >= least)), strict=True):
        one, other = int(keys[here[own]]), int(keys[near[own, place]])
        pair = (min(one, other), max(one, other))
        found[pair] = max(found.get(pair, -1.0), float(values[own, place]))


def _by_index(
    memory: Parts,
    members: Sequence[Row],
    changed: set[Row] | None,
    least: float,
    found: dict[tuple[Row, Row], float],
) -> set[Row]:
    """The same, row by row through the index: exact comparison would take too long."""
    embedder = memory.embedding.serving_id
    if embedder is None:
        return set()
    asking = members if changed is None else [row for row in members if row in changed]
    for key, near, cosines in memory.index.nearest(embedder, asking, MOST_ALIKE + 1, among=members):
        for other, value in zip(near.tolist(), cosines.tolist(), strict=True):
            if other != key and value >= least:
                pair = (min(key, other), max(key, other))
                found[pair] = max(found.get(pair, -1.0), value)
    return set(members)


def _by_words(
    memory: Parts,
    members: Sequence[Row],
    changed: set[Row] | None,
    least: float,
    found: dict[tuple[Row, Row], float],
) -> None:
    """Adds pairs whose sets of terms are alike: the shared ones over the root of both counts.

    Two sets that are at least `least` alike share one of their rarest terms: of a
    set of n, one of the first n − least² n + 1. Of many rows that have such a term
    each is compared with those right before it.
    """
    if len(members) < 2:
        return
    indexed = memory.store.feed.index_rows(rows=members)
    places = indexed.term_offsets.tolist()
    terms: dict[Row, frozenset[int]] = {
        int(row): frozenset(indexed.terms[start:end].tolist())
        for row, start, end in zip(indexed.rows, places, places[1:], strict=False)
    }
    rows_with = Counter(term for held in terms.values() for term in held)
    holders: dict[int, list[Row]] = defaultdict(list)
    for row, held in sorted(terms.items()):
        rarest = sorted(held, key=lambda term: (rows_with[term], term))
        for term in rarest[: len(held) - math.ceil(least * least * len(held)) + 1]:
            for other in holders[term][-BESIDE:]:
                pair = (other, row)
                if pair in found or (changed is not None and changed.isdisjoint(pair)):
                    continue
                alike = len(held & terms[other]) / math.sqrt(len(held) * len(terms[other]))
                if alike >= least:
                    found[pair] = alike
            holders[term].append(row)


_log = logging.getLogger(__name__)

KIND = "consolidate"
COUNTED_FOR = "gpt-4o"
"""Whose tokens are counted to know what a level saves."""
RELATED = "related"
"""The relation of links that consolidation discovers."""
MARKS = frozenset({FORGOTTEN_AT, COLD_AT, "forgotten_because"})
CONTRADICTION_SIMILARITY = 0.75
"""Pairs at least so alike are looked at for contradictions, though not merged."""


TRIES = 3
T = TypeVar("T")


def plan_again(once: Callable[[], T], what: str) -> T:
    """What `once` gives, which plans and applies; planned anew where somebody wrote meanwhile."""
    for left in reversed(range(TRIES)):
        try:
            return once()
        except ChangedMeanwhile as error:
            if not left:
                raise
            _log.info("Planning %s again: %s", what, error)
    raise AssertionError("unreachable")


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """What a run looks at: memories by row, what is known of them, and which are new to it."""

    rows: Mapping[int, Memory]
    state: LivingState
    changed: frozenset[int] | None
    seq: int


class Consolidator:
    """Plans and applies consolidations of one memory."""

    def __init__(self, memory: Parts) -> None:
        self._memory = memory

    def run(
        self,
        scope: Scope,
        *,
        dry_run: bool = False,
        settings: ConsolidationSettings | None = None,
        full: bool = False,
        model: Model | None = None,
        spend: Spend | None = None,
    ) -> ConsolidationReport:
        """Consolidate what `scope` sees.

        Only what changed since the last run with these settings is compared
        again, unless `full`. When somebody else writes meanwhile, it is
        planned anew. A dry run asks no model.
        """
        chosen = settings or ConsolidationSettings()
        if not isinstance(chosen, ConsolidationSettings):
            raise InvalidInput("settings", chosen, "are no ConsolidationSettings")
        began = time.perf_counter()

        def once() -> ConsolidationReport:
            help_ = None
            if model is not None and not dry_run:
                count, kept = tokenizer_for(COUNTED_FOR), self._memory.store.settings
                help_ = ModelHelp(model, spend=spend or Spend(), count=count, kept=kept)
            with span(
                "update_memory", store_id=self._memory.telemetry_id, step=KIND, dry_run=dry_run
            ) as told:
                report = self._once(scope, chosen, dry_run=dry_run, full=full, help_=help_)
                told.found(len(report.operations))
            return report

        report = plan_again(once, "the consolidation")
        return replace(report, duration_seconds=round(time.perf_counter() - began, 3))

    def _once(
        self,
        scope: Scope,
        settings: ConsolidationSettings,
        *,
        dry_run: bool,
        full: bool,
        help_: ModelHelp | None = None,
    ) -> ConsolidationReport:
        memory, now = self._memory, self._memory.clock.now()
        mark = mark_of("consolidated", (scope, settings))
        loaded = self._load(scope, mark, full=full)
        notes: tuple[str, ...] = ()
        if not _is_used(loaded.state.memories):
            settings = replace(settings, forget_unused=False, cool_unused=False)
            notes = ("use was never counted, so nothing is forgotten for not being used",)
        plan, similar = self._plan(loaded, settings, now)
        if help_ is not None:
            plan = help_.improve(plan, loaded.state, similar=similar, settings=settings, now=now)
            notes += tuple(help_.asker.notes)
        looked = loaded.rows if loaded.changed is None else loaded.changed
        report = ConsolidationReport(
            operations=plan.operations,
            memories=len(loaded.rows),
            looked_at=len(looked),
            dry_run=dry_run,
            notes=notes,
            model_calls=0 if help_ is None else help_.asker.calls,
            model_tokens=0 if help_ is None else help_.asker.tokens,
            **cast(dict[str, Any], plan.counts()),
        )
        if dry_run:
            return report
        if plan.empty:
            if loaded.rows and memory.store.settings.get(mark) != str(loaded.seq):
                memory.store.settings.set(mark, str(loaded.seq))
            return report
        revision = revision_of(plan, loaded.state, revision_id=memory.ids.new(), now=now, mark=mark)
        entry = memory.store.journal.apply(scope, revision, at=now)
        return replace(report, journal_id=entry.id)

    def _load(self, scope: Scope, mark: str, *, full: bool) -> Loaded:
        store = self._memory.store
        seq = store.feed.seq()
        changed = None if full else _changed_since(self._memory, mark)
        selection = Selection(reader=scope, superseded=True, forgotten=True)
        rows = {
            row: one
            for row, one in read_rows(self._memory, scope, selection).items()
            if one.visibility != "system"
            or one.scope == scope  # everybody's are not ours to change
        }
        links = store.links.all(scope)
        contested, settled = judged_pairs(store.contradictions.all(scope))
        state = LivingState(
            memories=tuple(rows.values()),
            links=frozenset(
                pair_of(link.first_id, link.second_id) for link in links if link.relation == RELATED
            ),
            contested=contested,
            settled=settled,
            co_cited=co_cited(links),
        )
        touched = None if changed is None else frozenset(changed & rows.keys())
        return Loaded(rows=rows, state=state, changed=touched, seq=seq)

    def _plan(
        self, loaded: Loaded, settings: ConsolidationSettings, now: datetime
    ) -> tuple[ConsolidationPlan, tuple[SimilarPair, ...]]:
        similar = find_similar(
            self._memory,
            loaded.rows,
            changed=loaded.changed,
            least=settings.merge_similarity,
            related=CONTRADICTION_SIMILARITY,
            related_kinds=settings.contradiction_kinds,
        )
        changed = loaded.changed
        plan = plan_consolidation(
            loaded.state,
            now=now,
            count=tokenizer_for(COUNTED_FOR),
            similar=similar,
            settings=settings,
            changed=None if changed is None else frozenset(loaded.rows[r].id for r in changed),
        )
        return plan, similar


def revision_of(
    plan: ConsolidationPlan,
    state: LivingState,
    *,
    revision_id: str,
    now: datetime,
    mark: str = "",
    kind: str = KIND,
) -> Revision:
    """What a store has to write for a plan: the difference between the two states."""
    after = apply_plan(state, plan, now=now)
    pairs = [
        (old, new)
        for old, new in zip(state.memories, after.memories, strict=True)
        if old is not new and old != new
    ]
    relations: list[Relation] = []
    for operation in plan.operations:
        if isinstance(operation, AddLink):
            first, second = pair_of(operation.first, operation.second)
            note = json.dumps({"reason": operation.reason, "weight": operation.weight})
            link = Link(
                first_id=first, second_id=second, relation=RELATED, created_at=now, note=note
            )
            relations.append(Relation(family="link", link=link))
        elif isinstance(operation, OpenContradiction):
            link = opened(operation.first, operation.second, operation.verdict, at=now)
            relations.append(Relation(family="contradiction", link=link))
    return Revision(
        id=revision_id,
        kind=kind,
        before=tuple(old for old, _ in pairs),
        after=tuple(new for _, new in pairs),
        relations=tuple(relations),
        mark=mark,
        report=plan.counts(),
    )


def bring_back(memory: Parts, scope: Scope, ids: Sequence[str]) -> JournalEntry:
    """Take the marks of forgetting and of cold from memories."""
    before = [memory.store.get(scope, one) for one in ids]
    after = [
        replace(one, metadata={k: v for k, v in one.metadata.items() if k not in MARKS})
        for one in before
    ]
    revision = Revision(
        id=memory.ids.new(),
        kind="bring back",
        before=tuple(before),
        after=tuple(after),
        report={"memories": len(before)},
    )
    return memory.store.journal.apply(scope, revision, at=memory.clock.now())


def read_rows(memory: Parts, scope: Scope, selection: Selection) -> dict[int, Memory]:
    """The selected memories by row, oldest row first."""
    wanted = memory.store.select_rows(selection).tolist()
    found: dict[int, Memory] = {}
    for start in range(0, len(wanted), 1_000):
        part = wanted[start : start + 1_000]
        there = memory.store.get_rows(scope, part)
        found.update((row, there[row]) for row in part if row in there)
    return found


def _is_used(memories: Iterable[Memory]) -> bool:
    """Whether use is counted here at all: who searches without a loop counts none."""
    return any(one.usage.retrieved or one.usage.cited or one.usage.ignored for one in memories)


def _changed_since(memory: Parts, mark: str) -> set[int] | None:
    seen = memory.store.settings.get(mark)
    if seen is None:
        return None
    changes = memory.store.feed.changes(int(seen))
    if not changes.complete:
        return None
    return {row for change in changes.items for row in range(change.first, change.last + 1)}


# ----------------------------------------------------------------------------
# Consolidation every night, in the background, while the process lives.
#
# A timer of its own thread sleeps until the hour; the work is done by the
# memory's worker, one run for each owner, and stops after `LIMIT_SECONDS`.


CONSOLIDATE = "consolidate"
HOUR = 3
"""Local time; a night begins late for those who work at night."""
LIMIT_SECONDS = 600.0


class Nightly:
    """Starts a consolidation at `HOUR` of every day until it is closed."""

    def __init__(self, memory: Parts, *, hour: int = HOUR) -> None:
        self._memory = weakref.ref(memory)  # a night to come keeps no memory alive
        self._hour = hour
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None
        self._closed = False

    def start(self) -> None:
        """Wait for the next night; again is harmless."""
        with self._lock:
            memory = self._memory()
            if self._timer is None and not self._closed and memory is not None:
                seconds = seconds_until(memory.clock.now(), self._hour)
                self._timer = threading.Timer(seconds, self._fire)
                self._timer.name, self._timer.daemon = "agentmem-nightly", True
                self._timer.start()

    def close(self) -> None:
        """Wait no longer."""
        with self._lock:
            self._closed = True
            if self._timer is not None:
                self._timer.cancel()

    def _fire(self) -> None:
        memory = self._memory()
        if memory is not None:
            memory.worker.submit(CONSOLIDATE, {}, key=CONSOLIDATE)
        with self._lock:
            self._timer = None
        self.start()


def run_nightly(memory: Parts, *, limit_seconds: float = LIMIT_SECONDS) -> int:
    """Consolidate owner by owner until the time is over; gives how many were reached.

    One that fails keeps nobody else from it.
    """

    deadline = time.monotonic() + limit_seconds
    reached = 0
    for scope in memory.store.upkeep.owners():
        if time.monotonic() > deadline:
            _log.warning("The nightly consolidation ran out of time; the next one goes on.")
            break
        try:
            report = Consolidator(memory).run(scope)
        except AgentMemError as error:
            _log.warning("One owner's memories were not consolidated tonight: %s", error)
            continue
        reached += 1
        if report.journal_id:
            _log.info(
                "Consolidated: %d merged, %d shortened, %d forgotten, %d tokens saved (undo: %s).",
                report.deduped, report.summarised + report.compressed, report.forgotten,
                report.tokens_saved, report.journal_id,
            )  # fmt: skip
    return reached


def seconds_until(now: datetime, hour: int) -> float:
    """How long it is until the clock on the wall shows `hour` again."""
    local = now.astimezone()
    night = local.replace(hour=hour, minute=0, second=0, microsecond=0)
    if night <= local:
        night += timedelta(days=1)
    return (night - local).total_seconds()
