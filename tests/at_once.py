"""A background without a thread, for tests of what is written in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentmem.agent.trace import Handler, Trace
from agentmem.base.lazy import Lazy
from agentmem.base.types import Scope
from agentmem.prompt.snapshot import Snapshot
from agentmem.stores.values import NO_SCOPE


class AtOnce:
    """A background that does the work in the caller's thread."""

    def __init__(self) -> None:
        self._handlers: dict[str, Handler] = {}

    def handle(self, kind: str, handler: Handler, /) -> None:
        self._handlers[kind] = handler

    def submit(
        self, kind: str, payload: Mapping[str, Any], *, scope: Scope = NO_SCOPE, key: str = ""
    ) -> bool:
        self._handlers[kind](payload, scope)
        return True

    def flush(self, timeout_seconds: float | None = None, /) -> bool:
        return True


def record(trace: Trace, snapshot: Snapshot) -> None:
    """Keep `snapshot` as a turn does."""
    late: Lazy[Snapshot | None] = Lazy(lambda: snapshot, characters=len(snapshot.message))
    trace.record_late(snapshot.id, late, snapshot.scope)
