"""Figures of a memory over a stretch of time: its contexts, its queue, its size."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from agentmem.agent.context import PAUSED, SEARCH
from agentmem.base.checks import require_count, require_text
from agentmem.base.errors import InvalidInput
from agentmem.base.types import Scope
from agentmem.inspector.look import trace_of
from agentmem.prompt.snapshot import Outcome, Snapshot

if TYPE_CHECKING:
    from agentmem.memory.manager import MemoryManager


# ----------------------------------------------------------------------------
# Figures over many contexts: how full, what of, how good, how slow.


_NUMBER = re.compile(r"\d[\d,.]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """How a number was distributed; all `None` when there was none."""

    count: int = 0
    mean: float | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What one component took of all tokens sent."""

    name: str
    tokens: int
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class KindFigures:
    """What became of the candidates of one kind. `relevance` is the mean score of those kept."""

    kind: str
    looked_at: int
    kept: int
    cut: int
    dropped: int
    score: float | None
    relevance: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFigures:
    """One model's contexts. `error` is the mean of estimate ÷ count − 1, `absolute` of its size."""

    model: str
    contexts: int
    prompt_tokens: int
    completion_tokens: int
    counted: int
    error: float | None
    absolute: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """How often something was said."""

    text: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """One stretch of time: how many contexts, how full they were on average, for how many of
    them memory was not searched, and how often its breaker opened."""

    begins: datetime
    contexts: int
    usage: float | None
    fallbacks: int = 0
    breaker_openings: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CallFigures:
    """Tool calls: how many succeeded, how many failed ones were put right in the same turn, and
    how many of the kept results were read. `None` where there was nothing to count."""

    made: int = 0
    success_rate: float | None = None
    correction_rate: float | None = None
    read_back_rate: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextFigures:
    """All figures over the contexts from `begins` to `ends`."""

    contexts: int
    injected: int
    begins: datetime | None
    ends: datetime | None
    usage: Spread
    tokens: Spread
    build_ms: Spread
    response_ms: Spread
    components: tuple[Share, ...]
    kinds: tuple[KindFigures, ...]
    relevance: float | None
    models: tuple[ModelFigures, ...]
    warnings: tuple[Tally, ...]
    degradations: tuple[Tally, ...]
    errors: int
    breaker_openings: int
    fallbacks: int
    fallback_rate: float | None
    calls: CallFigures
    cache_hits: int
    slots: tuple[Slot, ...]


def summarise(snapshots: Sequence[Snapshot], *, slots: int = 24) -> ContextFigures:
    """Figures over `snapshots`, whatever their order; without any, everything is 0 or `None`."""
    require_count(slots, "slots", least=1)
    ordered = sorted(snapshots, key=lambda one: (one.created_at, one.id))
    outcomes = [one.outcome for one in ordered if one.outcome is not None]
    fallbacks = sum(map(_fell_back, ordered))
    return ContextFigures(
        contexts=len(ordered),
        injected=sum(bool(one.message) for one in ordered),
        begins=ordered[0].created_at if ordered else None,
        ends=ordered[-1].created_at if ordered else None,
        usage=spread([one.usage for one in ordered]),
        tokens=spread([float(one.estimated_tokens) for one in ordered]),
        build_ms=spread([one.build_ms for one in ordered if one.timings_ms]),
        response_ms=spread([outcome.duration_ms for outcome in outcomes]),
        components=_components(ordered),
        kinds=_kinds(ordered),
        relevance=_mean(
            [seen.score for one in ordered for seen in one.kept if seen.section == "knowledge"]
        ),
        models=_models(ordered),
        warnings=_tallies(text for one in ordered for text in one.warnings),
        degradations=_tallies(text for one in ordered for text in one.degradations),
        errors=sum(bool(outcome.error) for outcome in outcomes),
        breaker_openings=len(_openings(ordered)),
        fallbacks=fallbacks,
        fallback_rate=_rate(fallbacks, len(ordered)),
        calls=_calls(outcomes),
        cache_hits=sum(one.cached for one in ordered),
        slots=_slots(ordered, slots),
    )


def spread(values: Sequence[float | None]) -> Spread:
    """Mean, least and most of the numbers among `values`."""
    numbers = [value for value in values if value is not None]
    if not numbers:
        return Spread()
    return Spread(count=len(numbers), mean=_mean(numbers), low=min(numbers), high=max(numbers))


def _mean(values: Sequence[float | None]) -> float | None:
    numbers = [value for value in values if value is not None]
    # Dividing first: the sum of very large numbers would be infinite.
    return sum(number / len(numbers) for number in numbers) if numbers else None


def _components(ordered: Sequence[Snapshot]) -> tuple[Share, ...]:
    used: Counter[str] = Counter()
    for one in ordered:
        for part in one.parts:
            used[part.name] += part.tokens
    total = sum(used.values())
    return tuple(
        Share(name=name, tokens=tokens, share=tokens / total if total else 0.0)
        for name, tokens in sorted(used.items(), key=lambda item: (-item[1], item[0]))
    )


def _kinds(ordered: Sequence[Snapshot]) -> tuple[KindFigures, ...]:
    found: dict[str, list[tuple[str, float | None]]] = {}
    for one in ordered:
        for seen in one.looked_at:
            if seen.section in ("knowledge", "profile", "working"):
                found.setdefault(seen.kind or "other", []).append((seen.decision, seen.score))
    return tuple(
        KindFigures(
            kind=kind,
            looked_at=len(seen),
            kept=sum(decision == "kept" for decision, _ in seen),
            cut=sum(decision == "cut" for decision, _ in seen),
            dropped=sum(decision == "dropped" for decision, _ in seen),
            score=_mean([score for _, score in seen]),
            relevance=_mean([score for decision, score in seen if decision != "dropped"]),
        )
        for kind, seen in sorted(found.items(), key=lambda item: (-len(item[1]), item[0]))
    )


def _models(ordered: Sequence[Snapshot]) -> tuple[ModelFigures, ...]:
    found: dict[str, list[Snapshot]] = {}
    for one in ordered:
        found.setdefault(one.model or "(not said)", []).append(one)
    figures = []
    for model, ones in sorted(found.items(), key=lambda item: (-len(item[1]), item[0])):
        outcomes = [one.outcome for one in ones if one.outcome is not None]
        errors = [one.estimate_error for one in ones if one.estimate_error is not None]
        figures.append(
            ModelFigures(
                model=model,
                contexts=len(ones),
                prompt_tokens=sum(outcome.prompt_tokens or 0 for outcome in outcomes),
                completion_tokens=sum(outcome.completion_tokens or 0 for outcome in outcomes),
                counted=len(errors),
                error=_mean(errors),
                absolute=_mean([abs(error) for error in errors]),
            )
        )
    return tuple(figures)


def _tallies(texts: Iterable[str], most: int = 20) -> tuple[Tally, ...]:
    """The same said with other numbers counts as the same."""
    alike = Counter(_NUMBER.sub("…", text) for text in texts)
    return tuple(Tally(text=text, count=count) for text, count in alike.most_common(most))


def _openings(ordered: Sequence[Snapshot]) -> set[str]:
    """The contexts at which the breaker opened: the failure that did it, or, where that was not
    recorded, the first one that was not searched for."""
    found, closed = set(), True
    for one in ordered:
        said = [text for text in one.degradations if text.startswith(SEARCH)]
        opens = any(text.endswith(PAUSED) for text in said)
        paused = any(text.startswith(f"{SEARCH}is paused") for text in said)
        if opens or (paused and closed):
            found.add(one.id)
        closed = not (opens or paused)
    return found


def _fell_back(one: Snapshot) -> bool:
    """Whether memory was not searched for this context, or in vain."""
    return any(text.startswith(SEARCH) for text in one.degradations)


def _rate(some: int, all_: int) -> float | None:
    return some / all_ if all_ else None


def _calls(outcomes: Sequence[Outcome]) -> CallFigures:
    total: Counter[str] = Counter()
    for outcome in outcomes:
        total.update(outcome.calls)
    return CallFigures(
        made=total["made"],
        success_rate=_rate(total["succeeded"], total["made"]),
        correction_rate=_rate(total["corrected"], total["made"] - total["succeeded"]),
        read_back_rate=_rate(total["read_back"], total["kept"]),
    )


def _slots(ordered: Sequence[Snapshot], count: int) -> tuple[Slot, ...]:
    if not ordered:
        return ()
    first, last = ordered[0].created_at, ordered[-1].created_at
    step = max((last - first) / count, timedelta(seconds=1))
    filled: list[list[Snapshot]] = [[] for _ in range(count)]
    openings = _openings(ordered)
    for one in ordered:
        filled[min(count - 1, int((one.created_at - first) / step))].append(one)
    return tuple(
        Slot(
            begins=first + at * step,
            contexts=len(ones),
            usage=spread([one.usage for one in ones]).mean,
            fallbacks=sum(map(_fell_back, ones)),
            breaker_openings=sum(one.id in openings for one in ones),
        )
        for at, ones in enumerate(filled)
    )


MOST_CONTEXTS = 50_000
_SPAN = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)\s*(s|m|min|h|d|w)", re.ASCII)
_SECONDS = {"s": 1, "m": 60, "min": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_LONGEST = timedelta(days=36_500)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueStats:
    """Work in the background: what waits in the store, and what this process has done."""

    waiting: int
    running: int
    failed: int
    done: int = 0
    dropped: int = 0
    last_error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatsReport:
    """All figures of a memory; `last_seconds` is how far they reach back, `None` for all."""

    at: datetime
    last_seconds: float | None
    contexts: ContextFigures
    queue: QueueStats
    memories: int
    kinds: Mapping[str, int]
    documents: int
    superseded: int
    deleted: int
    bytes: int
    vectors: Mapping[str, int]
    vectors_missing: Mapping[str, int]
    location: str


def read_span(written: str) -> timedelta:
    """A stretch of time as people write it: `90s`, `15m`, `24h`, `7d`, `2w`."""
    match = _SPAN.fullmatch(require_text(written, "span").strip().lower())
    if match is None:
        raise InvalidInput(
            "span", written, "is not a stretch of time", remedy="Write 90s, 15m, 24h, 7d or 2w."
        )
    try:
        return min(timedelta(seconds=float(match[1]) * _SECONDS[match[2]]), _LONGEST)
    except OverflowError:
        return _LONGEST


def collect_stats(
    memory: MemoryManager,
    *,
    now: datetime,
    last: timedelta | None = None,
    scope: Scope | None = None,
) -> StatsReport:
    """The figures of the contexts built within `last` before `now`, and of the store as it is."""
    trace = trace_of(memory)
    if last is None:
        found = trace.list(limit=MOST_CONTEXTS, scope=scope, texts=False)
    else:
        found = trace.since(now - last, limit=MOST_CONTEXTS, scope=scope, texts=False)
    from agentmem.sources.background import WorkerState

    runtime = getattr(memory, "_runtime", None)
    worker = WorkerState() if runtime is None else runtime.worker.state
    stats = memory.store.upkeep.stats(scope)
    return StatsReport(
        at=now,
        last_seconds=None if last is None else last.total_seconds(),
        contexts=summarise(found, slots=24),
        queue=QueueStats(
            waiting=stats.jobs.get("waiting", 0) + worker.queued,
            running=stats.jobs.get("running", 0) + worker.running,
            failed=stats.jobs.get("failed", 0),
            done=worker.done,
            dropped=worker.dropped,
            last_error=worker.last_error,
        ),
        memories=stats.chunks,
        kinds=dict(stats.kinds),
        documents=stats.documents,
        superseded=stats.superseded,
        deleted=stats.deleted,
        bytes=stats.bytes,
        vectors={str(one.embedder): one.vectors for one in stats.embedders},
        vectors_missing={str(one.embedder): one.missing for one in stats.embedders},
        location=stats.location,
    )
