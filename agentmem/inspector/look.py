"""Explain every token: what was looked at, what went in, what it cost, and how the store is.

Each function gives a value; `render` writes values as text, `json` as
JSON. All of it reads snapshots and stored memories; nothing is recomputed to
please.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

from agentmem.agent.trace import Trace
from agentmem.base.checks import require_count, require_instance, require_messages, require_text
from agentmem.base.config import default_path
from agentmem.base.errors import RecordNotFound, SnapshotNotFound, StoreError
from agentmem.base.types import Scope
from agentmem.prompt.messages import Conversation
from agentmem.prompt.snapshot import Snapshot
from agentmem.search.parts import memory_of
from agentmem.stores.values import NO_SCOPE
from agentmem.text.messages import text_of

if TYPE_CHECKING:
    from agentmem.base.config import LoopConfig
    from agentmem.inspector.replay import Replay, SnapshotDiff, Why
    from agentmem.memory.manager import MemoryManager


# ----------------------------------------------------------------------------
# The context that would be built now, and the ones that were.


DEFAULT_MODEL = "gpt-4o"
ESTIMATED = "tokens are estimated; --exact counts them"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryStatus:
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
    status: MemoryStatus
    degradations: tuple[str, ...] = ()


def trace_of(memory: MemoryManager) -> Trace:
    """The snapshots of a memory; the running one where turns have been taken in this process."""
    runtime = getattr(memory, "_runtime", None)
    return Trace(memory) if runtime is None else runtime.trace


def inspect_context(
    memory: MemoryManager,
    query: str = "",
    *,
    model: str = "",
    scope: Scope = NO_SCOPE,
    config: LoopConfig | None = None,
    messages: Sequence[Any] = (),
    exact: bool = True,
) -> Inspection:
    """What a turn with `query` would send now; nothing of it is kept.

    Without a query, the last one that this scope asked; without that, only
    what goes into every context. `messages` are a whole conversation, with its
    system prompt, history and images; a query is then asked after them. Without
    `exact`, tokens are estimated unless this process counts for the model
    already: loading a vocabulary takes as long as all the rest together. The
    context's warnings say so.
    """
    from concurrent.futures import ThreadPoolExecutor

    require_text(query, "query")
    last = None
    with suppress(StoreError, SnapshotNotFound):
        last = trace_of(memory).last(scope=scope)  # before there is a runtime with a worker
    if not exact:
        memory.runtime.tokenizer(model, estimated_for=ESTIMATED)
    said = require_messages(messages)
    asked = query or (last.query if last and not said else "")
    if asked or not said:
        said.append({"role": "user", "content": asked or "…"})
    else:
        question = Conversation(said).question
        asked = "" if question is None else text_of(question)
    with ThreadPoolExecutor(1) as beside:  # counting reads the whole store, outside of Python
        counting = beside.submit(memory.store.upkeep.stats, scope)
        turn = memory.turn(said, model=model, scope=scope, config=config, dry=True)
    stats, state = counting.result(), memory.embedding.state
    return Inspection(
        query=asked,
        snapshot=turn.snapshot,
        status=MemoryStatus(
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
        ),
        degradations=tuple(turn.degradations),
    )


def explain(
    memory: MemoryManager, wanted: str = "last", *, scope: Scope | None = NO_SCOPE
) -> Snapshot:
    """Everything about a past context, by its id or its message's; `"last"` is the newest."""
    if scope is not None:
        require_instance(scope, Scope, "scope")
    return trace_of(memory_of(memory)).get(require_text(wanted, "wanted"), scope=scope)


def compare(
    memory: MemoryManager, before: str, after: str, *, scope: Scope | None = NO_SCOPE
) -> SnapshotDiff:
    """What changed between two past contexts."""
    from agentmem.inspector.replay import diff

    return diff(explain(memory, before, scope=scope), explain(memory, after, scope=scope))


def explain_memory(
    memory: MemoryManager,
    memory_id: str,
    wanted: str = "last",
    *,
    scope: Scope | None = NO_SCOPE,
) -> Why:
    """Why a memory was in a past context, or was not."""
    from agentmem.inspector.replay import why

    require_text(memory_id, "memory_id")
    snapshot = explain(memory, wanted, scope=scope)
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

    from agentmem.base.errors import AgentMemWarning
    from agentmem.inspector.replay import replay
    from agentmem.tokens.counter import tokenizer_for

    snapshot = explain(memory, wanted, scope=scope)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AgentMemWarning)
        count = tokenizer_for(snapshot.model or DEFAULT_MODEL)
    return replay(snapshot, changes, count=count)


# ----------------------------------------------------------------------------
# Contexts as they are built, by any process on the store.


EventKind = Literal["context", "response"]
_REMEMBERED = 1_000
_LATE = timedelta(minutes=1)
"""So much later than a newer one may a context be written and still be seen."""
_LONGEST_ANSWER = timedelta(hours=1)
_EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A context was built, or its response came. `changed` names what is new since the last one
    of the same scope: memories that came in (`+ID`) or went (`-ID`), a model, a setting."""

    kind: EventKind
    snapshot: Snapshot
    changed: tuple[str, ...] = ()


class Watcher:
    """Reads what is new in a store each time it is asked; costs next to nothing when nothing is."""

    def __init__(
        self, memory: MemoryManager, *, scope: Scope | None = None, limit: int = 20
    ) -> None:
        self._memory = memory
        self._trace = trace_of(memory)
        self._scope = scope
        self._limit = require_count(limit, "limit")
        self._version: int | None = None
        self._seen: dict[str, tuple[datetime, bool]] = {}
        """Of each context, when it was built and whether its response was seen."""
        self._last: dict[Scope, Snapshot] = {}
        self._from: datetime | None = None

    def poll(self) -> tuple[Event, ...]:
        """What happened since the last call, oldest first; the first call gives the last few."""
        version = self._memory.store.feed.data_version()
        if version == self._version:
            return ()
        self._version = version
        found = self._begin() if self._from is None else self._since(self._from)
        events = [event for snapshot in found for event in self._events(snapshot)]
        while len(self._seen) > 2 * _REMEMBERED:
            self._seen.pop(next(iter(self._seen)))
        return tuple(events)

    def _begin(self) -> Sequence[Snapshot]:
        """The last few, oldest first; those before them are not shown later either."""
        last = self._trace.list(limit=max(1, self._limit), scope=self._scope, texts=False)
        self._from = last[0].created_at - _LATE if last else _EARLIEST
        shown = {one.id: one for one in reversed(last[: self._limit])}
        for one in self._since(self._from) if last else ():
            if one.id not in shown:
                self._seen[one.id] = (one.created_at, True)
        return tuple(shown.values())

    def _since(self, begin: datetime) -> Sequence[Snapshot]:
        """What may be new: recent, or not answered when it was last seen; oldest first."""
        if self._seen:
            newest = max(built for built, _ in self._seen.values())
            waiting = [
                built
                for built, answered in self._seen.values()
                if not answered and newest - built <= _LONGEST_ANSWER
            ]
            begin = max(begin, min([newest - _LATE, *waiting]))
        return self._trace.since(begin, limit=_REMEMBERED, scope=self._scope, texts=False)

    def _events(self, snapshot: Snapshot) -> Iterator[Event]:
        seen = self._seen.get(snapshot.id)
        if seen is None:
            before = self._last.get(snapshot.scope)
            yield Event(kind="context", snapshot=snapshot, changed=changes(before, snapshot))
            self._last[snapshot.scope] = snapshot
        answered = seen is not None and seen[1]
        if snapshot.outcome is not None and not answered:
            yield Event(kind="response", snapshot=snapshot)
        self._seen[snapshot.id] = (snapshot.created_at, snapshot.outcome is not None or answered)


def changes(before: Snapshot | None, after: Snapshot) -> tuple[str, ...]:
    """What is new in a context: `+id` and `-id` for memories, `model`, and settings by name."""
    if before is None:
        return ()
    old = {seen.id for seen in before.kept if seen.section in ("knowledge", "profile")}
    new = {seen.id for seen in after.kept if seen.section in ("knowledge", "profile")}
    said = [f"+{memory_id}" for memory_id in sorted(new - old)]
    said += [f"-{memory_id}" for memory_id in sorted(old - new)]
    if before.model != after.model:
        said.append("model")
    names = sorted({*before.settings, *after.settings})
    said += [name for name in names if before.settings.get(name) != after.settings.get(name)]
    return tuple(said)


# ----------------------------------------------------------------------------
# Commands to copy: each names the store that was looked at, wherever that is.


def store_option(memory: MemoryManager) -> str:
    """`" --store PATH"` unless a command finds this store without being told."""
    if memory.path is None or memory.path == default_path():
        return ""
    return f" --store {shlex.quote(str(memory.path))}"


def undo_command(memory: MemoryManager, journal_id: str, whose: Mapping[str, str | None]) -> str:
    """What takes a run back, said for the store and the names it was made with."""
    names = "".join(
        f" --{name.removesuffix('_id')} {shlex.quote(value)}"
        for name, value in whose.items()
        if value is not None
    )
    return f"agentmem consolidate --undo {journal_id}{store_option(memory)}{names}"
