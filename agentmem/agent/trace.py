"""Keep what became of every built context, in the background, and read it again.

A turn hands its snapshot over in far less than a millisecond and never fails
because of it: what cannot be queued or written is counted and logged.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Protocol

from agentmem.base.checks import require_text
from agentmem.base.errors import AgentMemError, DuplicateRecord, RecordNotFound, SnapshotNotFound
from agentmem.base.lazy import Lazy, made
from agentmem.base.types import Scope
from agentmem.prompt.snapshot import (
    MESSAGE_PREFIX,
    Outcome,
    Snapshot,
    from_fields,
    outcome_from_fields,
    outcome_to_fields,
    pack,
    said_mention,
    text_ids,
    to_fields,
    unpack,
    without_keys_of,
    without_texts_of,
)
from agentmem.search.parts import Parts, Queue
from agentmem.sources.background import SNAPSHOT
from agentmem.stores.values import NO_SCOPE, SnapshotRecord
from agentmem.text.secrets import without_keys

_log = logging.getLogger(__name__)

LAST = "last"
_FLUSH_SECONDS = 2.0
_WARN_EVERY = 100
_MEMORY_SECTIONS = ("knowledge", "profile")

Handler = Callable[[Mapping[str, Any], Scope], None]


class Background(Queue, Protocol):
    """The part of `background.Worker` that is used here."""

    def handle(self, kind: str, handler: Handler, /) -> None: ...
    def flush(self, timeout_seconds: float | None = None, /) -> bool: ...


class Trace:
    """The snapshots of one store, written by `worker`; without one they are only read.

    They are kept for the days and in the compressed bytes that the settings of the
    memory say, which is looked at again after every `pruned_every` snapshots. A scope
    of `None` means those of every reader.
    """

    def __init__(
        self, memory: Parts, *, worker: Background | None = None, pruned_every: int = 100
    ) -> None:
        self._store = memory.store
        self._settings = memory.settings
        self._worker = worker
        self._pruned_every = pruned_every
        self._lock = threading.Lock()
        self._unwritten: dict[str, Lazy[Snapshot | None]] = {}
        self._unsettled = False
        self._written = 0
        self.dropped = 0
        """How many snapshots and outcomes could not be kept."""
        if worker is not None:
            worker.handle(SNAPSHOT, self.handle)

    # Writing

    def record_late(self, snapshot_id: str, later: Lazy[Snapshot | None], scope: Scope) -> None:
        """Keep the snapshot that `later` gives when the background asks for it; never raises."""
        with self._lock:
            self._unwritten[snapshot_id] = later
        self._submit(scope, snapshot_id, lambda: {"id": snapshot_id, "snapshot": later})

    def complete(self, snapshot_id: str, outcome: Outcome, *, scope: Scope = NO_SCOPE) -> None:
        """Add what the model answered to a snapshot of `scope`, soon; never raises.

        One that still waits is written once, with its outcome. A key in what went
        wrong is not kept.
        """
        with self._lock:
            late = self._unwritten.get(snapshot_id)

        def payload() -> dict[str, Any]:
            kept = outcome_to_fields(replace(outcome, error=without_keys(outcome.error)))
            said: dict[str, Any] = {"id": snapshot_id, "outcome": kept}
            return said if late is None else {**said, "snapshot": late}

        self._submit(scope, f"{snapshot_id}:outcome" if late is None else snapshot_id, payload)

    def forget(self) -> None:
        """Keep nothing of snapshots that may quote what was erased; those that wait are checked
        when they are written."""
        with self._lock:
            self._unwritten.clear()

    def note_said(self, snapshot_id: str, ids: Sequence[str], *, scope: Scope = NO_SCOPE) -> None:
        """Note which memories keep what was said in a turn: its trace is erased with them."""
        self._store.snapshots.mention(scope, snapshot_id, [said_mention(one) for one in ids])

    def prune(self, *, now: datetime) -> int:
        """Remove what is past its retention; gives how many snapshots went."""
        days = self._settings.keep_contexts_days
        before = None if days is None else now - timedelta(days=days)
        most_bytes = self._settings.keep_contexts_bytes
        return self._store.snapshots.prune(before=before, most_bytes=most_bytes)

    # Reading

    def get(self, wanted: str, *, scope: Scope | None = NO_SCOPE) -> Snapshot:
        """The snapshot with this id, or of this message; `"last"` is the newest."""
        require_text(wanted, "wanted")
        self._settle()
        if wanted == LAST:
            found = self._store.snapshots.list(scope, limit=1)
        else:
            try:
                return self._read([self._store.snapshots.get(scope, wanted)])[0]
            except RecordNotFound:
                found = self._store.snapshots.mentioning(scope, MESSAGE_PREFIX + wanted, limit=1)
        if not found:
            raise SnapshotNotFound(wanted)
        return self._read(found)[0]

    def last(self, *, scope: Scope | None = NO_SCOPE) -> Snapshot | None:
        """The newest snapshot, or `None` when there is none."""
        found = self.list(limit=1, scope=scope)
        return found[0] if found else None

    def list(
        self, *, limit: int = 20, scope: Scope | None = NO_SCOPE, texts: bool = True
    ) -> tuple[Snapshot, ...]:
        """The newest snapshots, newest first; without `texts` long memory texts are left out."""
        self._settle()
        return self._read(self._store.snapshots.list(scope, limit=limit), texts=texts)

    def since(
        self,
        moment: datetime,
        *,
        limit: int = 10_000,
        scope: Scope | None = NO_SCOPE,
        texts: bool = True,
    ) -> tuple[Snapshot, ...]:
        """The newest `limit` snapshots from `moment` on, oldest first."""
        self._settle()
        found = self._store.snapshots.list(scope, limit=limit, since=moment)
        return self._read(found, texts=texts)[::-1]

    # In the background

    def _submit(self, scope: Scope, key: str, payload: Callable[[], dict[str, Any]]) -> None:
        self._unsettled = True
        try:
            worker = self._worker
            if worker is None or not worker.submit(SNAPSHOT, payload(), scope=scope, key=key):
                self._drop("the queue is full", key)
        except Exception as error:  # noqa: BLE001 - a trace must never break the turn it is about
            self._drop(str(error), key)

    def _drop(self, why: str, key: str) -> None:
        with self._lock:
            self._unwritten.pop(key, None)
            self.dropped += 1
        if self.dropped % _WARN_EVERY == 1:
            _log.warning("A snapshot was not kept (%s); %d so far.", why, self.dropped)

    def handle(self, payload: Mapping[str, Any], scope: Scope) -> None:
        with self._lock:
            self._unwritten.pop(payload.get("id", ""), None)
        snapshot = made(payload.get("snapshot"))
        if isinstance(snapshot, Mapping):  # it waited in the store
            snapshot = from_fields(snapshot)
        outcome = payload.get("outcome")
        if snapshot is None:
            if outcome is not None:
                self._write_outcome(payload, scope)
            return
        if outcome is not None:
            snapshot = replace(snapshot, outcome=outcome_from_fields(outcome))
        try:
            self._write(snapshot)
        except DuplicateRecord:  # taken up again, or completed while it was being written
            if outcome is not None:
                self._write_outcome(payload, scope)

    def _write(self, snapshot: Snapshot) -> None:
        offered = {seen.id for seen in snapshot.looked_at if seen.section in _MEMORY_SECTIONS}
        erased = frozenset(offered - self._store.feed.taken(offered)) if offered else frozenset()
        packed = pack(without_keys_of(without_texts_of(snapshot, erased)))
        owner = Scope(user_id=snapshot.scope.user_id)
        shared = [
            SnapshotRecord(
                id=text.id,
                created_at=snapshot.created_at,
                data={"text": text.text},
                mentions=(text.memory_id,),
                scope=owner,
            )
            for text in packed.shared
        ]
        record = SnapshotRecord(
            id=snapshot.id,
            created_at=snapshot.created_at,
            data=packed.data,
            mentions=packed.mentions,
            scope=snapshot.scope,
        )
        self._store.snapshots.put(record, shared=shared)
        self._written += 1
        if self._written % self._pruned_every == 1 % self._pruned_every:
            self.prune(now=snapshot.created_at)

    def _write_outcome(self, payload: Mapping[str, Any], scope: Scope) -> None:
        outcome = outcome_from_fields(payload["outcome"])
        try:
            record = self._store.snapshots.get(scope, payload["id"])
        except RecordNotFound:
            return  # erased or pruned since
        self._store.snapshots.replace(
            replace(record, data={**record.data, "outcome": outcome_to_fields(outcome)})
        )

    def _settle(self) -> None:
        """Let what this process recorded be written, so that reading sees it."""
        if self._unsettled and self._worker is not None:
            self._unsettled = False
            try:
                self._unsettled = not self._worker.flush(_FLUSH_SECONDS)
            except AgentMemError as error:
                _log.warning("Reading snapshots while some still wait: %s", error)

    def _read(
        self, records: Iterable[SnapshotRecord], *, texts: bool = True
    ) -> tuple[Snapshot, ...]:
        found = tuple(records)
        wanted = {text_id for record in found for text_id in text_ids(record.data)}
        shared = self._store.snapshots.shared(wanted) if texts and wanted else {}
        known = {text_id: str(record.data.get("text", "")) for text_id, record in shared.items()}
        return tuple(unpack(record.data, known) for record in found)


def fields_or_none(snapshot: Snapshot | None) -> dict[str, Any] | None:
    """A snapshot as it waits in a file."""
    return None if snapshot is None else to_fields(without_keys_of(snapshot))


contexts_log = logging.getLogger("agentmem.contexts")


def log_context(snapshot: Snapshot) -> None:
    """Say in one line at INFO that a context was built; its figures are the record's extras.

    Extras are named `agentmem_…` so that they collide with nobody's. Neither
    the line nor they hold text of the user.
    """
    if not contexts_log.isEnabledFor(logging.INFO):
        return
    figures = {
        "snapshot_id": snapshot.id,
        **{name: getattr(snapshot, name) for name in _LOGGED},
        **{name: getattr(snapshot.scope, name) for name in Scope.__slots__},
        "looked_at": len(snapshot.looked_at),
        "kept": len(snapshot.kept),
        "warnings": len(snapshot.warnings),
        "degradations": list(snapshot.degradations),
        "parts": {part.name: part.tokens for part in snapshot.parts},
        "timings_ms": dict(snapshot.timings_ms),
    }
    contexts_log.info(
        "context %s: %d tokens of %d, %d of %d items, %.1f ms%s",
        snapshot.id,
        snapshot.estimated_tokens,
        snapshot.room_tokens,
        len(snapshot.kept),
        len(snapshot.looked_at),
        snapshot.build_ms,
        f", degraded ({len(snapshot.degradations)})" if snapshot.degradations else "",
        extra={f"agentmem_{name}": value for name, value in figures.items()},
    )


_LOGGED = ("message_id", "model", "estimated_tokens", "window_tokens", "usage", "cached")
