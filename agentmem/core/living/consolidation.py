"""Many memories to one plan: merge, supersede, contradict, forget, shorten, rank and link.

The plan is a value; nothing happens until it is applied. It does not depend on
the order of the memories (L5), and planning again after applying it gives an
empty plan (L6). Nothing pinned, cited, contested or young is forgotten (P39).
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator
from datetime import datetime, timedelta

from agentmem.core.conflicts import Reading, Statement, judge_readings, read_statement
from agentmem.core.lexical import analyse_query
from agentmem.core.living.compression import make_levels
from agentmem.core.living.essentials import read_essentials
from agentmem.core.living.merging import (
    MergeReading,
    choose_survivor,
    merge_metadata,
    merge_usage,
    read_for_merging,
    same_readings,
)
from agentmem.core.living.plans import (
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
    is_forgotten,
    pair_of,
)
from agentmem.core.living.records import Fact, from_memory
from agentmem.core.living.serving import WHOLE_KINDS
from agentmem.core.living.stating import of_two_days, same_voice, stated_text
from agentmem.core.marks import is_cold, is_pinned
from agentmem.core.scope import same_audience
from agentmem.protocols import TokenCounter
from agentmem.types import Memory, cognitive_type, require_instant

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
        self._readings: dict[str, Reading] = {}
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
            if one is None or other is None or similarity < self.settings.merge_similarity:
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
            if old.origin == new.origin and old.scope == new.scope and not is_pinned(old):
                self._do(Supersede(old=old.id, new=new.id, verdict=verdict))
                return
        if verdict.kind == "supersedes" and one.kind != "fact":
            return  # an episode is not untrue because things changed later
        self.contested.add(pair_of(one.id, other.id))
        self.operations.append(OpenContradiction(first=one.id, second=other.id, verdict=verdict))

    def _reading(self, memory: Memory) -> Reading:
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
        shared: Counter[Pair] = Counter()
        for ids in holders.values():
            if 1 < len(ids) <= _RARE_WORD_ROWS:
                ids.sort()
                for place, first in enumerate(ids):
                    for second in ids[place + 1 :]:
                        shared[first, second] += 1
        for pair, times in shared.items():
            if times >= _SHARED_RARE_WORDS or not short.isdisjoint(pair):
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
            levels = make_levels(memory.text, self.count, title=memory.title)
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
        weights: dict[Pair, list[float]] = defaultdict(list)
        for _, ids in sorted(holders.items()):
            if 1 < len(ids) <= self.settings.rare_entity_rows:
                weight = 1.0 / math.log2(1 + len(ids))
                for place, first in enumerate(ids):
                    for second in ids[place + 1 :]:
                        weights[pair_of(first, second)].append(weight)
        for pair, found_weights in weights.items():
            total = math.fsum(found_weights)
            if len(found_weights) > 1 or total >= 0.5:
                yield pair, total


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


def _neighbours(ids: list[str]) -> Iterator[Pair]:
    ordered = sorted(ids)
    for place, first in enumerate(ordered):
        for second in ordered[place + 1 : place + 1 + _RARE_WORD_ROWS]:
            yield first, second


__all__ = [
    "ConsolidationPlan",
    "ConsolidationSettings",
    "LivingState",
    "SimilarPair",
    "apply_plan",
    "importance_after_use",
    "plan_consolidation",
]
