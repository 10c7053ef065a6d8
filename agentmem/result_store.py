"""Where results lie: an artifact and a memory under one id, and when they were last read."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from hashlib import blake2b
from typing import TYPE_CHECKING
from urllib.parse import quote

from agentmem.core.checks import require_text
from agentmem.core.cleaning import clean_line
from agentmem.core.filters import Selection
from agentmem.core.payloads import Payload, from_bytes, to_payload
from agentmem.core.working import Stored
from agentmem.errors import DuplicateRecord, InvalidInput, RecordNotFound, StoreError
from agentmem.preparing import prepare
from agentmem.stores.derived import DERIVED
from agentmem.stores.values import Artifact, Link
from agentmem.types import Memory, Scope

if TYPE_CHECKING:
    from agentmem.manager import MemoryManager

_log = logging.getLogger(__name__)

KIND = "tool_result"
_ID_DIGITS = 15
_ATTEMPTS = 3
_WRITE_READS_SECONDS = 60


class ResultStore:
    """The stored results of one scope; safe to use from several threads."""

    def __init__(self, manager: MemoryManager, *, scope: Scope, session: str = "") -> None:
        self._manager = manager
        self.scope = scope
        self.session = session
        self._lock = threading.Lock()
        self._noted: dict[str, datetime] = {}
        self._written: dict[str, datetime] = {}

    def now(self) -> datetime:
        """What time it is for the memory."""
        return self._manager.clock.now()

    def new_id(self) -> str:
        """An id for a memory that is no result."""
        return self._manager.ids.new()

    def put_result(self, memory: Memory, payload: Payload) -> Memory:
        """Keep a result and its bytes under a new id, both or neither."""
        attempt = 1
        while True:
            memory = _named(memory, self._short_id())
            artifact = Artifact(
                id=memory.id,
                data=payload.data,
                created_at=memory.created_at,
                scope=memory.scope,
                media_type=str(memory.metadata["media_type"]),
                metadata={"form": payload.form},
            )
            try:
                self.put(memory, artifact)
            except DuplicateRecord:
                if attempt == _ATTEMPTS:
                    raise
                attempt += 1
            else:
                return memory

    def put(self, memory: Memory, *artifacts: Artifact) -> None:
        """Keep a memory so that it is found, and `artifacts` with it."""
        (vectors,) = self._manager.embedding.embed([memory])
        self._manager.store.put([prepare(memory, vectors)], artifacts=artifacts)

    def update(self, memory: Memory) -> Memory:
        """Change a memory in place."""
        (vectors,) = self._manager.embedding.embed([memory])
        entry = prepare(memory, vectors)
        return self._manager.store.update(self.scope, entry, at=self.now())

    def link(self, derived: Memory, source: Memory) -> None:
        """Say that one memory was made from another."""
        made = Link(
            first_id=derived.id,
            second_id=source.id,
            relation=DERIVED,
            created_at=derived.created_at,
        )
        self._manager.store.links.put(self.scope, made)

    def find(self, result_id: str) -> tuple[Memory, Payload]:
        """A result and its bytes; of any other memory, its text. Else `RecordNotFound`."""
        store = self._manager.store
        memory = store.get(self.scope, require_text(result_id, "id"))
        if memory.kind != KIND:
            return memory, to_payload(memory.text)
        artifact = store.artifacts.get(self.scope, memory.id)
        form = str(artifact.metadata.get("form", ""))
        return memory, from_bytes(artifact.data, media_type=artifact.media_type, form=form)

    def why_missing(self, result_id: str) -> str:
        """What to tell somebody who asked for an id that cannot be read."""
        shown = clean_line(result_id, limit_characters=60)
        try:
            memory = self._manager.store.get(self.scope, result_id, deleted=True)
        except (RecordNotFound, InvalidInput):
            newest = ", ".join(memory.id for memory in self.recent(3))
            told = f" The newest results are {newest}." if newest else ""
            return f'There is no result "{shown}" here.{told}'
        if memory.deleted_at is not None:
            tool = clean_line(str(memory.metadata.get("name", "the tool")), limit_characters=64)
            return f'The result "{shown}" was let go. Call {tool} again if it is needed.'
        return f'The bytes of "{shown}" are gone. It was: {memory.index or memory.title}'

    def recent(self, limit: int) -> tuple[Memory, ...]:
        """The newest results, of this session if there is one."""
        selection = replace(self._mine(), session=self.session or None)
        return self._manager.store.recent(selection, limit=limit)

    def known(self, kind: str, digest: str) -> Memory | None:
        """A recent memory of this owner that says the same."""
        selection = Selection(reader=self.scope, kinds=(kind,))
        for memory in self._manager.store.recent(selection, limit=200):
            if memory.content_hash == digest and memory.scope == self.scope:
                return memory
        return None

    def stored(self) -> Iterator[Stored]:
        """Every result, as eviction looks at it."""
        self._write_reads(everything=True)
        for memory in self._manager.store.scan(self._mine()):
            last = memory.usage.last_used_at or memory.created_at
            yield Stored(
                id=memory.id,
                bytes=int(memory.metadata.get("bytes", 0)),
                last_read_at=max(memory.created_at, last),
                pinned=bool(memory.metadata.get("pinned")),
            )

    def let_go(self, ids: list[str], *, at: datetime) -> None:
        """Remove the bytes of results and delete their memories."""
        if ids:
            self._manager.store.delete(self.scope, ids, at=at, artifacts=True)

    def note_read(self, result_id: str) -> None:
        """Remember when a result was read: written the first time, then once a minute."""
        with self._lock:
            self._noted[result_id] = self.now()
        self._write_reads(everything=False)

    def _write_reads(self, *, everything: bool) -> None:
        with self._lock:
            due = {
                result_id: at
                for result_id, at in self._noted.items()
                if everything or self._is_due(result_id, at)
            }
            for result_id in due:
                del self._noted[result_id]
            self._written |= due
        for result_id, at in sorted(due.items(), key=lambda item: item[1]):
            try:
                self._manager.store.record_usage(self.scope, [result_id], at=at, retrieved=1)
            except StoreError as error:  # a store that cannot be written can still be read
                _log.debug("The read of %s was not noted: %s", result_id, error)

    def _is_due(self, result_id: str, at: datetime) -> bool:
        before = self._written.get(result_id)
        return before is None or abs((at - before).total_seconds()) >= _WRITE_READS_SECONDS

    def _mine(self) -> Selection:
        return Selection(reader=self.scope, kinds=(KIND,), visibilities=("private",))

    def _short_id(self) -> str:
        """A short id: a model writes it back, and every token of it counts in each stand-in."""
        digest = blake2b(self._manager.ids.new().encode(), digest_size=8).digest()
        return f"r{int.from_bytes(digest, 'big') % 10**_ID_DIGITS:0{_ID_DIGITS}d}"


def _named(memory: Memory, result_id: str) -> Memory:
    tool = quote(str(memory.metadata.get("name", "")), safe="")[:200]
    return replace(memory, id=result_id, source_url=f"tool://{tool}/{result_id}")
