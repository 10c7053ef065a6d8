"""Contexts as they are built, by any process on the store."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Literal

from agentmem.core.checks import require_count
from agentmem.core.snapshot import Snapshot
from agentmem.core.values import dataclass
from agentmem.inspector.looking import trace_of
from agentmem.types import Scope

if TYPE_CHECKING:
    from agentmem.manager import MemoryManager

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
        self._seen: dict[str, bool] = {}
        self._unanswered: dict[str, datetime] = {}
        self._last: dict[Scope, Snapshot] = {}
        self._newest: datetime | None = None
        self._from: datetime | None = None

    def poll(self) -> tuple[Event, ...]:
        """What happened since the last call, oldest first; the first call gives the last few."""
        version = self._memory.store.feed.data_version()
        if version == self._version:
            return ()
        self._version = version
        found = self._begin() if self._from is None else self._since(self._from)
        events = [event for snapshot in found for event in self._events(snapshot)]
        if found:
            self._newest = max(snapshot.created_at for snapshot in found)
        while len(self._seen) > 2 * _REMEMBERED:
            self._seen.pop(next(iter(self._seen)))
        return tuple(events)

    def _begin(self) -> list[Snapshot]:
        """The last few, oldest first; those before them are not shown later either."""
        last = self._trace.list(limit=max(1, self._limit), scope=self._scope, texts=False)
        self._from = last[0].created_at - _LATE if last else _EARLIEST
        shown = last[: self._limit]
        for older in self._since(self._from) if last else ():
            if all(older.id != one.id for one in shown):
                self._seen[older.id] = True
        return list(reversed(shown))

    def _since(self, begin: datetime) -> list[Snapshot]:
        """What may be new: recent, or not answered when it was last seen; oldest first."""
        moments = list(self._unanswered.values())
        if self._newest is not None:
            moments.append(self._newest - _LATE)
            begin = max(begin, min(moments))
        return list(self._trace.since(begin, limit=_REMEMBERED, scope=self._scope, texts=False))

    def _events(self, snapshot: Snapshot) -> Iterator[Event]:
        answered = self._seen.get(snapshot.id)
        if answered is None:
            before = self._last.get(snapshot.scope)
            yield Event(kind="context", snapshot=snapshot, changed=changes(before, snapshot))
            self._last[snapshot.scope] = snapshot
        if snapshot.outcome is not None and not answered:
            yield Event(kind="response", snapshot=snapshot)
        self._seen[snapshot.id] = answered or snapshot.outcome is not None
        late = self._newest is not None and self._newest - snapshot.created_at > _LONGEST_ANSWER
        if self._seen[snapshot.id] or late:
            self._unanswered.pop(snapshot.id, None)
        else:
            self._unanswered[snapshot.id] = snapshot.created_at


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
