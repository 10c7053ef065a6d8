"""The context that would be built now, and the ones that were."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from agentmem.core.checks import require_text
from agentmem.core.snapshot import Snapshot
from agentmem.core.values import dataclass
from agentmem.errors import RecordNotFound, SnapshotNotFound, StoreError
from agentmem.stores.values import NO_SCOPE, StoreStats
from agentmem.tracing import AtOnce, Trace
from agentmem.types import Scope

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agentmem.config import LoopConfig
    from agentmem.core.snapshot_diff import SnapshotDiff, Why
    from agentmem.core.snapshot_replay import Replay
    from agentmem.manager import MemoryManager

DEFAULT_MODEL = "gpt-4o"
ESTIMATED = "tokens are estimated; --exact counts them"


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """The state of a memory in a line: how much, who answers, what waits."""

    memories: int
    kinds: Mapping[str, int]
    embedder: str
    embedder_ready: bool
    embedder_error: str
    jobs_waiting: int
    jobs_failed: int
    bytes: int
    location: str
    last_context_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """The context that would be built now for `query`, and the state of the memory."""

    query: str
    snapshot: Snapshot | None
    status: Status
    degradations: tuple[str, ...] = ()


def trace_of(memory: MemoryManager) -> Trace:
    """The snapshots of a memory; the running one where turns have been taken in this process."""
    runtime = getattr(memory, "_runtime", None)
    return Trace(memory, worker=AtOnce()) if runtime is None else runtime.trace


def inspect_context(
    memory: MemoryManager,
    query: str = "",
    *,
    model: str = "",
    scope: Scope = NO_SCOPE,
    config: LoopConfig | None = None,
    exact: bool = True,
) -> Inspection:
    """What a turn with `query` would send now; nothing of it is kept.

    Without a query, the last one that this scope asked; without that, only
    what goes into every context. Without `exact`, tokens are estimated unless
    this process counts for the model already: loading a vocabulary takes as
    long as all the rest together. The context's warnings say so.
    """
    from concurrent.futures import ThreadPoolExecutor

    require_text(query, "query")
    last = _last(memory, scope)  # before there is a runtime, whose trace has a worker
    if not exact:
        memory.runtime.estimate_tokens(model, ESTIMATED)
    asked = query or (last.query if last else "")
    messages = [{"role": "user", "content": asked or "…"}]
    with ThreadPoolExecutor(1) as beside:  # counting reads the whole store, outside of Python
        counting = beside.submit(memory.store.upkeep.stats, scope)
        turn = memory.turn(messages, model=model, scope=scope, config=config, dry=True)
    return Inspection(
        query=asked,
        snapshot=turn.snapshot,
        status=status(memory, scope=scope, last=last, stats=counting.result()),
        degradations=tuple(turn.degradations),
    )


def status(
    memory: MemoryManager,
    *,
    scope: Scope | None = None,
    last: Snapshot | None,
    stats: StoreStats | None = None,
) -> Status:
    """How the memory is, of one reader or as a whole; `stats` if they are known already."""
    stats = stats or memory.store.upkeep.stats(scope)
    state = memory.embedding.state
    return Status(
        memories=stats.chunks,
        kinds=dict(stats.kinds),
        embedder=state.serving or "none",
        embedder_ready=state.ready,
        embedder_error=state.error,
        jobs_waiting=stats.jobs.get("waiting", 0) + stats.jobs.get("running", 0),
        jobs_failed=stats.jobs.get("failed", 0),
        bytes=stats.bytes,
        location=stats.location,
        last_context_at=last.created_at if last else None,
    )


def explain(
    memory: MemoryManager, wanted: str = "last", *, scope: Scope | None = NO_SCOPE
) -> Snapshot:
    """Everything about a past context, by its id or its message's; `"last"` is the newest."""
    return trace_of(memory).get(wanted, scope=scope)


def compare(
    memory: MemoryManager, before: str, after: str, *, scope: Scope | None = NO_SCOPE
) -> SnapshotDiff:
    """What changed between two past contexts."""
    from agentmem.core.snapshot_diff import diff

    trace = trace_of(memory)
    return diff(trace.get(before, scope=scope), trace.get(after, scope=scope))


def explain_memory(
    memory: MemoryManager,
    memory_id: str,
    wanted: str = "last",
    *,
    scope: Scope | None = NO_SCOPE,
) -> Why:
    """Why a memory was in a past context, or was not."""
    from agentmem.core.snapshot_diff import why

    require_text(memory_id, "memory_id")
    snapshot = trace_of(memory).get(wanted, scope=scope)
    reader = snapshot.scope if scope is None else scope
    try:
        stored = memory.store.get(reader, memory_id, deleted=True)
    except RecordNotFound:
        stored = None
    return why(snapshot, memory_id, memory=stored)


def replay_context(
    memory: MemoryManager,
    changes: Mapping[str, object],
    wanted: str = "last",
    *,
    scope: Scope | None = NO_SCOPE,
) -> Replay:
    """A past context decided again with other settings; nothing is asked or searched."""
    import warnings

    from agentmem.core.snapshot_replay import replay
    from agentmem.errors import AgentMemWarning
    from agentmem.tokenizer import tokenizer_for

    snapshot = trace_of(memory).get(wanted, scope=scope)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AgentMemWarning)
        count = tokenizer_for(snapshot.model or DEFAULT_MODEL)
    return replay(snapshot, changes, count=count)


def _last(memory: MemoryManager, scope: Scope) -> Snapshot | None:
    try:
        return trace_of(memory).last(scope=scope)
    except (StoreError, SnapshotNotFound):
        return None
