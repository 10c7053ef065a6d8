"""The jobs of a worker that wait in memory, in order, and how one is written down.

Nothing here runs, sleeps or stores anything: moments come in as arguments.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import field
from datetime import datetime
from itertools import islice
from typing import Any

from agentmem.core.charsets import sound_values
from agentmem.core.lazy import Lazy
from agentmem.core.values import dataclass
from agentmem.types import Scope

PAGE, MESSAGES, SNAPSHOT = "index page", "index messages", "snapshot"
"""Kinds of jobs that are done by what a worker's memory makes only when it is needed."""
REMEMBERED_KEYS = 10_000
MOST_CHARACTERS = 100_000_000
"""What the payloads in memory may hold together, whatever their number."""

_BYTES, _SET = "bytes as hex", "set of bytes as hex"

Identity = tuple[str, Scope, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerState:
    """What a worker has done and what is left.

    `queued` wait in memory, `retrying` of them for their next try; `stored`
    wait in the store because memory was full. `failed` were given up after
    their last try, `dropped` could not be taken or kept.
    """

    queued: int = 0
    running: int = 0
    retrying: int = 0
    stored: int = 0
    done: int = 0
    failed: int = 0
    dropped: int = 0
    alive: bool = False
    closed: bool = False
    last_error: str = ""


@dataclass(slots=True, kw_only=True, eq=False)
class Entry:
    """One job. `number` orders it for `flush`, `serial` is that of its latest payload."""

    kind: str
    scope: Scope
    key: str
    payload: Mapping[str, Any]
    submitted_at: datetime
    number: int = 0
    serial: int = 0
    worker: str = ""
    attempts: int = 0
    due_at: datetime | None = None
    stored_id: int | None = None
    characters: int = field(default=0)

    @property
    def identity(self) -> Identity:
        """What makes it the same job; without a key every job is one of its own."""
        return (self.kind, self.scope, self.key or f"\0{self.worker}\0{self.number}")


class Waiting:
    """The queue: first in, first out, one job an identity."""

    def __init__(self, *, capacity: int, worker: str) -> None:
        self.last_number = 0
        self._capacity = capacity
        self._worker = worker
        self._entries: OrderedDict[Identity, Entry] = OrderedDict()
        self._stored: dict[int, Entry] = {}
        self._newest: OrderedDict[Identity, tuple[int, datetime, int]] = OrderedDict()
        self._characters = 0

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def stored(self) -> int:
        """How many jobs of this worker wait in the store."""
        return sum(map(self._is_ours, self._stored.values()))

    def add(self, entry: Entry) -> bool:
        """Queue a job, or give its payload to the same job that waits; False when full."""
        entry.worker = self._worker
        entry.characters = weigh(entry.payload)
        same = self._entries.get(entry.identity) if entry.key else None
        full = len(self._entries) >= 2 * self._capacity and same is None
        before = same.characters if same is not None else 0
        if full or self._characters + entry.characters - before > MOST_CHARACTERS:
            return False
        self.last_number += 1
        entry.serial = self.last_number
        entry.number = entry.serial if same is None else same.number
        self._characters += entry.characters - before
        self._entries[entry.identity] = entry
        self._remember(entry)
        return True

    def take(self, now: datetime, kinds: Collection[str]) -> Entry | None:
        """The first job that is due and of one of these kinds; it waits no longer."""
        entry = next(self._due(now, kinds), None)
        return None if entry is None else self._pop(entry)

    def take_excess(self) -> list[Entry]:
        """The newest jobs, those that are over the capacity, in order."""
        over = list(islice(self._entries.values(), self._capacity, None))
        return [self._pop(entry) for entry in over]

    def take_all(self) -> list[Entry]:
        """Every job, in order."""
        return [self._pop(entry) for entry in tuple(self._entries.values())]

    def put_back(self, entry: Entry) -> None:
        """Let a job wait again, unless the same one was submitted anew meanwhile."""
        if entry.identity not in self._entries and not self.is_superseded(entry):
            self._entries[entry.identity] = entry
            self._characters += entry.characters

    def retry(self, entry: Entry, *, attempts: int, due_at: datetime) -> None:
        """Let a job that failed wait for its next try."""
        entry.attempts = attempts
        entry.due_at = due_at
        self.put_back(entry)

    def note_stored(self, entry: Entry, stored_id: int, *, due_at: datetime | None) -> None:
        """Remember that a job waits in the store."""
        entry.stored_id = stored_id
        entry.due_at = due_at
        self._stored[stored_id] = entry

    def nothing_stored(self, now: datetime, kinds: Collection[str]) -> None:
        """The store has none of these kinds that is due: somebody else has what was ours."""
        for stored_id, entry in tuple(self._stored.items()):
            if entry.kind in kinds and (entry.due_at is None or entry.due_at <= now):
                del self._stored[stored_id]

    def take_stale(self) -> list[int]:
        """Jobs in the store whose place a newer one has taken."""
        stale = [number for number, entry in self._stored.items() if self.is_superseded(entry)]
        for number in stale:
            del self._stored[number]
        return stale

    def settle(self, entry: Entry) -> None:
        """A job is done or given up; an older one of the same key is not to run after it."""
        if entry.stored_id is not None:
            self._stored.pop(entry.stored_id, None)
        self._remember(entry)

    def is_superseded(self, entry: Entry) -> bool:
        """Whether the same job was submitted later than this one."""
        newest = self._newest.get(entry.identity) if entry.key else None
        if newest is None:
            return False
        serial, moment, stored_id = newest
        if self._is_ours(entry):
            return serial > entry.serial
        if serial:  # of two submitted at one moment, ours is the newer
            return moment >= entry.submitted_at
        return (moment, stored_id) > (entry.submitted_at, entry.stored_id or 0)

    def unsettled(self, mark: int) -> bool:
        """Whether a job up to this number waits, here or in the store."""
        ours = (*self._entries.values(), *filter(self._is_ours, self._stored.values()))
        return any(entry.number <= mark for entry in ours)

    def has_due(self, now: datetime, kinds: Collection[str], *, mark: int | None = None) -> bool:
        """Whether a job (up to the number `mark`) could run now."""
        return any(mark is None or entry.number <= mark for entry in self._due(now, kinds))

    def stored_is_due(self, now: datetime) -> bool:
        """Whether a job in the store has waited long enough for its next try."""
        return any(e.due_at is not None and e.due_at <= now for e in self._stored.values())

    def next_due(self, kinds: Collection[str]) -> datetime | None:
        """When the next try is, of what waits here or in the store."""
        here = (e.due_at for e in self._entries.values() if e.kind in kinds)
        moments = [*here, *(e.due_at for e in self._stored.values())]
        return min((moment for moment in moments if moment is not None), default=None)

    @property
    def has_prospects(self) -> bool:
        """Whether anything waits that time alone will make due."""
        return bool(self._entries) or any(e.due_at is not None for e in self._stored.values())

    def retrying(self, now: datetime) -> int:
        """How many wait for their next try."""
        return sum(e.due_at is not None and e.due_at > now for e in self._entries.values())

    def drop(self, scope: Scope) -> int:
        """Forget the jobs of a user, or of the project, agent or run of theirs that is named."""
        gone = [entry for entry in self._entries.values() if _inside(entry.scope, scope)]
        for entry in gone:
            self._pop(entry)
        return len(gone)

    def _due(self, now: datetime, kinds: Collection[str]) -> Iterator[Entry]:
        for entry in self._entries.values():
            if entry.kind in kinds and (entry.due_at is None or entry.due_at <= now):
                yield entry

    def _is_ours(self, entry: Entry) -> bool:
        return entry.worker == self._worker

    def _pop(self, entry: Entry) -> Entry:
        del self._entries[entry.identity]
        self._characters -= entry.characters
        return entry

    def _remember(self, entry: Entry) -> None:
        if not entry.key:
            return
        serial = entry.serial if self._is_ours(entry) else 0
        this = (serial, entry.submitted_at, entry.stored_id or 0)
        self._newest[entry.identity] = max(this, self._newest.pop(entry.identity, this))
        if len(self._newest) > REMEMBERED_KEYS:
            self._newest.popitem(last=False)


def to_stored(entry: Entry) -> dict[str, Any]:
    """A job as JSON values, if its payload has only those, bytes and sets of bytes."""
    scope = entry.scope
    return {
        "job": 1,
        "payload": {name: as_json(value) for name, value in entry.payload.items()},
        "scope": [scope.user_id, scope.project_id, scope.agent_id, scope.run_id],
        "key": entry.key,
        "worker": entry.worker,
        "serial": entry.serial,
        "number": entry.number,
        "attempts": entry.attempts,
        "submitted_at": entry.submitted_at.isoformat(),
    }


def from_stored(
    kind: str, written: Mapping[str, Any], *, stored_id: int, claims: int, at: datetime
) -> Entry:
    """The job that `to_stored` wrote; what somebody else wrote is a payload without an owner.

    `claims` is how often the store gave it out, this time included.
    """
    if written.get("job") != 1:
        return Entry(
            kind=kind, scope=Scope(), key="", payload=written, submitted_at=at,
            attempts=claims - 1, stored_id=stored_id, number=0, worker=f"stored {stored_id}",
        )  # fmt: skip
    user, project, agent, run = written["scope"]
    return Entry(
        kind=kind,
        scope=Scope(user_id=user, project_id=project, agent_id=agent, run_id=run),
        key=written["key"],
        payload={name: from_json(value) for name, value in written["payload"].items()},
        submitted_at=datetime.fromisoformat(written["submitted_at"]),
        number=written["number"],
        serial=written["serial"],
        worker=written["worker"],
        attempts=written["attempts"] + claims - 1,
        stored_id=stored_id,
    )


def as_json(value: Any) -> Any:
    """A value of a payload as JSON: bytes and sets of bytes become hexadecimal digits."""
    value = value.written if isinstance(value, Lazy) else value
    if isinstance(value, bytes):
        return {_BYTES: value.hex()}
    if isinstance(value, set | frozenset) and all(isinstance(item, bytes) for item in value):
        return {_SET: sorted(item.hex() for item in value)}
    return sound_values(value)


def from_json(value: Any) -> Any:
    """The value that `as_json` wrote."""
    if isinstance(value, dict) and len(value) == 1:
        if _BYTES in value:
            return bytes.fromhex(value[_BYTES])
        if _SET in value:
            return frozenset(map(bytes.fromhex, value[_SET]))
    return value


def weigh(value: object, *, depth: int = 4) -> int:
    """About how many characters a payload holds; quick rather than exact."""
    if type(value) is str:
        return len(value)
    if isinstance(value, Lazy):
        return value.characters
    if value is None or type(value) is int:
        return 8
    if isinstance(value, str | bytes):
        return len(value)
    if isinstance(value, set | frozenset):
        return 8 * len(value)  # what is in it is usually shared with other payloads
    if depth and isinstance(value, Mapping):
        return sum(weigh(item, depth=depth - 1) for item in islice(value.values(), 200))
    if depth and isinstance(value, list | tuple):
        return sum(weigh(item, depth=depth - 1) for item in value[:200])
    return 8


def _inside(owner: Scope, scope: Scope) -> bool:
    if owner.user_id != scope.user_id:
        return False
    return all(
        getattr(scope, name) in (None, getattr(owner, name))
        for name in ("project_id", "agent_id", "run_id")
    )
