"""Figures of a memory over a stretch of time: its contexts, its queue, its size."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from agentmem.core.checks import require_text
from agentmem.core.snapshot_stats import ContextFigures, summarise
from agentmem.core.values import dataclass
from agentmem.errors import InvalidInput
from agentmem.inspector.looking import trace_of
from agentmem.types import Scope

if TYPE_CHECKING:
    from agentmem.manager import MemoryManager

MOST_CONTEXTS = 50_000
_SPAN = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)\s*(s|m|min|h|d|w)", re.ASCII)
_SECONDS = {"s": 1, "m": 60, "min": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_LONGEST = timedelta(days=36_500)


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
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
    queue: Queue
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
    stats = memory.store.upkeep.stats(scope)
    return StatsReport(
        at=now,
        last_seconds=None if last is None else last.total_seconds(),
        contexts=summarise(found, slots=24),
        queue=_queue(memory, stats.jobs),
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


def _queue(memory: MemoryManager, jobs: Mapping[str, int]) -> Queue:
    runtime = getattr(memory, "_runtime", None)
    state = runtime.worker.state if runtime is not None else None
    return Queue(
        waiting=jobs.get("waiting", 0) + (state.queued if state else 0),
        running=jobs.get("running", 0) + (state.running if state else 0),
        failed=jobs.get("failed", 0),
        done=state.done if state else 0,
        dropped=state.dropped if state else 0,
        last_error=state.last_error if state else "",
    )
