"""Keep what became of every built context, in the background, and read it again.

A turn hands its snapshot over in far less than a millisecond and never fails
because of it: what cannot be queued or written is counted and logged.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, fields, replace
from datetime import datetime, timedelta
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Protocol

from agentmem.base.checks import require_text
from agentmem.base.errors import (
    AgentMemError,
    DuplicateRecord,
    InvalidInput,
    RecordNotFound,
    SnapshotNotFound,
)
from agentmem.base.lazy import Lazy, made
from agentmem.base.types import EMPTY, Scope, utc
from agentmem.prompt.snapshot import (
    ERASED_TEXT,
    MESSAGE_PREFIX,
    TEXT_PREFIX,
    Looked,
    Outcome,
    Part,
    Snapshot,
    said_mention,
)
from agentmem.search.parts import Parts, Queue
from agentmem.sources.background import SNAPSHOT
from agentmem.stores.values import NO_SCOPE, SnapshotRecord
from agentmem.text.secrets import without_keys

if TYPE_CHECKING:
    from pydantic import TypeAdapter

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
            kept = replace(outcome, error=without_keys(outcome.error))
            later = Lazy(lambda: kept, characters=len(kept.answer), write=as_fields)
            said: dict[str, Any] = {"id": snapshot_id, "outcome": later}
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
        return next(iter(self.list(limit=1, scope=scope)), None)

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
        snapshot, outcome = made(payload.get("snapshot")), made(payload.get("outcome"))
        if isinstance(snapshot, Mapping):  # it waited in the store
            snapshot = from_fields(snapshot)
        if isinstance(outcome, Mapping):
            outcome = _read_as(Outcome, outcome)
        if snapshot is not None:
            try:
                self._write(replace(snapshot, outcome=outcome or snapshot.outcome))
                return
            except DuplicateRecord:  # taken up again, or completed while it was being written
                pass
        if outcome is not None:
            try:
                record = self._store.snapshots.get(scope, payload["id"])
            except RecordNotFound:
                return  # erased or pruned since
            data = {**record.data, "outcome": as_fields(outcome)}
            self._store.snapshots.replace(replace(record, data=data))

    def _write(self, snapshot: Snapshot) -> None:
        offered = {seen.id for seen in snapshot.looked_at if seen.section in _MEMORY_SECTIONS}
        erased = frozenset(offered - self._store.feed.taken(offered)) if offered else frozenset()
        record, shared = pack(without_keys_of(without_texts_of(snapshot, erased)))
        self._store.snapshots.put(record, shared=shared)
        self._written += 1
        if self._written % self._pruned_every == 1 % self._pruned_every:
            self.prune(now=snapshot.created_at)

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
        wanted = {
            looked["text_id"]
            for record in found
            for looked in record.data.get("looked_at") or ()
            if "text_id" in looked
        }
        shared = self._store.snapshots.shared(wanted) if texts and wanted else {}
        known = {text_id: str(record.data.get("text", "")) for text_id, record in shared.items()}
        return tuple(unpack(record.data, known) for record in found)


# ----------------------------------------------------------------------------
# Snapshots as JSON values, and packed for keeping: texts that repeat stand apart, by hash.
#
# Writing never fails: a number that is not finite becomes `None`, a letter that
# is not Unicode text becomes a question mark, a setting that is not JSON its
# text. For everything else reading gives back what was written (N1).


VERSION = 1
_SHARED_CHARACTERS = 1_000
"""Shorter texts cost more to share than to repeat: compressed with the others of its snapshot one
takes tens of bytes, and a row of its own hundreds and a millisecond for forty."""
_DEEPEST = 20
_AS_THEY_ARE = (int, bool, type(None))


def to_fields(snapshot: Snapshot) -> dict[str, Any]:
    """`snapshot` as JSON values, every field; never raises for a Snapshot."""
    return {"version": VERSION, **as_fields(snapshot)}


def fields_or_none(snapshot: Snapshot | None) -> dict[str, Any] | None:
    """A snapshot as it waits in a file."""
    return None if snapshot is None else to_fields(without_keys_of(snapshot))


def from_fields(written: Mapping[str, Any]) -> Snapshot:
    """The snapshot `to_fields` wrote; fields of a newer version are left out, bad ones refused."""
    snapshot: Snapshot = _read_as(Snapshot, written)
    if snapshot.created_at.utcoffset() is None:
        raise InvalidInput("snapshot", "created_at has no time zone", "cannot be read")
    return snapshot


def pack(snapshot: Snapshot) -> tuple[SnapshotRecord, tuple[SnapshotRecord, ...]]:
    """`snapshot` as it is kept, and its longer memory texts, kept once for all snapshots.

    A shared text belongs to one user and one memory, so that it is erased with
    either and never shown to anybody else.
    """
    data = {"version": VERSION, **as_fields(snapshot, sparse=True)}
    owner = Scope(user_id=snapshot.scope.user_id)
    shared: dict[str, SnapshotRecord] = {}
    looked_at = data.get("looked_at", ())
    for looked in looked_at:
        text = looked.get("text", "")
        if len(text) < _SHARED_CHARACTERS:
            continue
        whose = json.dumps([data["scope"].get("user_id"), looked["id"], text]).encode("ascii")
        key = TEXT_PREFIX + hashlib.blake2b(whose, digest_size=16).hexdigest()
        shared[key] = SnapshotRecord(
            id=key,
            created_at=snapshot.created_at,
            data={"text": text},
            mentions=(looked["id"],),
            scope=owner,
        )
        del looked["text"]
        looked["text_id"] = key
    ids = dict.fromkeys(looked["id"] for looked in looked_at)
    message = [MESSAGE_PREFIX + data["message_id"]] if data["message_id"] else []
    record = SnapshotRecord(
        id=snapshot.id,
        created_at=snapshot.created_at,
        data=data,
        mentions=(*ids, *shared, *message),
        scope=snapshot.scope,
    )
    return record, tuple(shared.values())


def unpack(data: Mapping[str, Any], texts: Mapping[str, str]) -> Snapshot:
    """The snapshot that was packed; a shared text that is gone reads `(erased)`."""
    looked_at = [
        {**looked, "text": texts.get(looked["text_id"], ERASED_TEXT)}
        if "text_id" in looked
        else looked
        for looked in data.get("looked_at") or ()
    ]
    return from_fields({**data, "looked_at": looked_at})


def without_texts_of(snapshot: Snapshot, erased: frozenset[str]) -> Snapshot:
    """`snapshot` as it may be kept after these memories were erased: nothing that quotes them."""
    if not any(looked.id in erased for looked in snapshot.looked_at):
        return snapshot
    outcome = snapshot.outcome
    return replace(
        snapshot,
        query=ERASED_TEXT,
        message=ERASED_TEXT,
        looked_at=tuple(looked for looked in snapshot.looked_at if looked.id not in erased),
        warnings=(*snapshot.warnings, "a memory was erased before this was written"),
        outcome=None if outcome is None else replace(outcome, answer=ERASED_TEXT),
    )


def without_keys_of(snapshot: Snapshot) -> Snapshot:
    """`snapshot` as it may be kept: what went wrong without the keys that providers repeat."""
    outcome = snapshot.outcome
    return replace(
        snapshot,
        warnings=tuple(map(without_keys, snapshot.warnings)),
        degradations=tuple(map(without_keys, snapshot.degradations)),
        outcome=None if outcome is None else replace(outcome, error=without_keys(outcome.error)),
    )


_FIELDS: dict[type, tuple[tuple[str, Any], ...]] = {
    kind: tuple(
        (one.name, EMPTY if one.default_factory is not MISSING else one.default)
        for one in fields(kind)
    )
    for kind in (Snapshot, Scope, Part, Looked, Outcome)
}
"""The names and the defaults of what a snapshot is made of."""
_VALUES = {kind: attrgetter(*(name for name, _ in named)) for kind, named in _FIELDS.items()}


def as_fields(value: Any, *, sparse: bool = False) -> dict[str, Any]:
    """The fields of a value as JSON has them; a `sparse` one leaves out what is as by default."""
    kind = type(value)
    return {
        # Nearly all are plain texts and numbers.
        name: given
        if type(given) in _AS_THEY_ARE or (type(given) is str and given.isascii())
        else _plain(given, sparse=sparse)
        for (name, default), given in zip(_FIELDS[kind], _VALUES[kind](value), strict=True)
        if not (sparse and (given is default or given == default))
    }


def _plain(value: Any, depth: int = 0, *, sparse: bool = False) -> Any:
    """`value` as JSON has it, whatever it is."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode("utf-8")
    if value is None or isinstance(value, int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if type(value) in _FIELDS:
        return as_fields(value, sparse=sparse)
    if isinstance(value, datetime):
        return utc(value).isoformat()
    if depth > _DEEPEST:
        return "…"
    if isinstance(value, Mapping):
        return {
            str(key).encode("utf-8", "replace").decode("utf-8"): item
            if type(item) in _AS_THEY_ARE
            else _plain(item, depth + 1)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item, depth + 1, sparse=sparse) for item in value]
    return _plain(str(value))


def _read_as(kind: type, written: Mapping[str, Any]) -> Any:
    """The value `as_fields` wrote; `InvalidInput` for anything else."""
    try:
        return _reader(kind).validate_python(written)
    except ValueError as error:
        raise InvalidInput("snapshot", str(error), "cannot be read") from None


@cache
def _reader(kind: type) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


# ----------------------------------------------------------------------------
# One line in the log for each built context.


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
