"""A store in PostgreSQL: the same promises as the file, for any number of machines."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Self
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from agentmem.base.checks import require_count, require_number, require_text
from agentmem.base.errors import RecordNotFound
from agentmem.base.filters import Selection
from agentmem.base.types import Memory, Scope, require_instant, visible
from agentmem.stores.postgres import reading, writing
from agentmem.stores.postgres.connection import PostgresDatabase, Transaction
from agentmem.stores.postgres.erasing import erase_rows, with_derived
from agentmem.stores.postgres.feed import PostgresFeed
from agentmem.stores.postgres.journal import PostgresJournal
from agentmem.stores.postgres.reading import StoredRow, by_rows, find, get_many, select
from agentmem.stores.postgres.side import (
    PostgresArtifacts,
    PostgresJobs,
    PostgresLinks,
    PostgresSettings,
    PostgresSnapshots,
    add_artifact,
    remove_artifacts,
)
from agentmem.stores.postgres.upkeep import PostgresUpkeep
from agentmem.stores.rules import Sameness, check_source_entries, split_new, wipes_owner
from agentmem.stores.values import (
    Artifact,
    Durability,
    Entry,
    Receipt,
    Source,
    SourceReport,
    Version,
    check_entries,
    require_ids,
    to_microseconds,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

DEFAULT_TENANT = "default"
AT_ONCE = 500


def split_dsn(dsn: str) -> tuple[str, str]:
    """A DSN as the server knows it, and the tenant: `…?tenant=acme`."""
    parts = urlsplit(dsn)
    asked = parse_qsl(parts.query, keep_blank_values=True)
    tenant = dict(asked).get("tenant", DEFAULT_TENANT)
    rest = urlencode([(name, value) for name, value in asked if name != "tenant"])
    return urlunsplit(parts._replace(query=rest)), tenant


def migrate_dsn(dsn: str) -> tuple[int, int]:
    """Bring the tables of a database up to date; from which version, to which."""
    asked, tenant = split_dsn(dsn)
    database = PostgresDatabase(asked, tenant=tenant)
    try:
        return database.migrate()
    finally:
        database.close()


class PostgresStore:
    """A `Store` in a database, of one tenant.

    Nothing is connected before the first call; tables that are missing are made then.
    Threads share one store with at most `connections` connections, each for one
    transaction at a time. A write that has returned survives a crash of the client
    and of the server; with `durability="normal"` the server's last moments may be
    lost. With `read_dsn`, reads go to a replica as soon as it has what was written here.
    """

    def __init__(
        self,
        dsn: str,
        *,
        tenant: str | None = None,
        read_dsn: str | None = None,
        connections: int = 10,
        busy_seconds: float = 30.0,
        replica_seconds: float = 1.0,
        durability: Durability = "full",
        migrate: bool = True,
    ) -> None:
        self._closed = True  # until there is something to close
        asked, named = split_dsn(require_text(dsn, "dsn"))
        require_count(connections, "connections", least=1)
        require_number(busy_seconds, "busy_seconds", low=0)
        require_number(replica_seconds, "replica_seconds", low=0)
        self._wire(
            PostgresDatabase(
                asked,
                tenant=require_text(tenant if tenant is not None else named, "tenant"),
                read_dsn=None if read_dsn is None else split_dsn(read_dsn)[0],
                connections=connections,
                busy_seconds=busy_seconds,
                replica_seconds=replica_seconds,
                migrate=migrate,
                durable=durability == "full",
            )
        )

    def _wire(self, database: PostgresDatabase) -> None:
        self.database = database
        self.feed = PostgresFeed(database)
        self.upkeep = PostgresUpkeep(database)
        self.settings = PostgresSettings(database)
        self.jobs = PostgresJobs(database)
        self.snapshots = PostgresSnapshots(database)
        self.artifacts = PostgresArtifacts(database)
        self.links = PostgresLinks(database, family="link")
        self.contradictions = PostgresLinks(database, family="contradiction")
        self.journal = PostgresJournal(database)
        self._closed = False

    # Writing

    def put(
        self, entries: Iterable[Entry], /, *, artifacts: Sequence[Artifact] = ()
    ) -> tuple[int, ...]:
        """Add memories and `artifacts`, all or none; gives the rows of the memories."""
        batch = list(entries)
        check_entries(batch)
        if not batch and not artifacts:
            return ()

        def apply(transaction: Transaction) -> tuple[int, ...]:
            rows = None if artifacts else writing.put(transaction, batch)
            if rows is not None:
                return rows
            rows = writing.add(transaction, batch)
            for artifact in artifacts:
                add_artifact(transaction, artifact)
            return rows

        return self.database.write(apply)

    def put_new(self, entries: Iterable[Entry], /, *, same: Sameness) -> tuple[str, ...]:
        """Add the memories whose owner has no current one that is the same, all or none.

        Gives the id of each, or of the one that was there, however many
        threads, processes and machines say the same at once.
        """
        batch = list(entries)
        check_entries(batch)
        if not batch:
            return ()

        def apply(transaction: Transaction) -> tuple[str, ...]:
            known = writing.hold_contents(transaction, batch)
            fresh, ids = split_new(batch, known, same)
            writing.add(transaction, fresh)
            return ids

        ids = tuple(entry.memory.id for entry in batch)
        alone = len({entry.memory.content_hash for entry in batch}) == len(batch)
        if alone and self.database.write(lambda t: writing.put(t, batch, unsaid=True)) is not None:
            return ids
        return self.database.write(apply)

    def load(self, batches: Iterable[Sequence[Entry]], *, sources: Iterable[Source] = ()) -> int:
        """Add many batches in one transaction, and the hashes of sources that are not known yet.

        Gives how many memories were added.
        """
        waiting, noted = iter(batches), tuple(sources)
        kept: list[Sequence[Entry]] = []

        def given() -> Iterator[Sequence[Entry]]:
            yield from kept  # a second try needs again what the first one took
            for batch in waiting:
                check_entries(batch)
                kept.append(batch)
                yield batch

        def apply(transaction: Transaction) -> int:
            added = sum(len(writing.add(transaction, b, graph=False)) for b in given())
            for source in noted:
                writing.note_source(transaction, source)
            writing.make_graphs(transaction)
            return added

        return self.database.write(apply)

    def has_source(self, source: Source, /) -> bool:
        """Whether the owner's page with this url has this very content."""
        return self.database.read(lambda t: writing.has_source(t, source))

    def replace_source(
        self, source: Source, entries: Sequence[Entry], *, at: datetime
    ) -> SourceReport:
        """Make `entries` the chunks of a source; its old ones are deleted at `at` (P6).

        When the source has this content hash already, nothing happens, however
        many threads, processes and machines say so at once.
        """
        check_entries(entries)
        check_source_entries(source, entries)
        require_instant(at, "at")
        to_microseconds(at, "at")
        return self.database.write(lambda t: writing.replace_source(t, source, entries, at=at))

    def update(
        self, scope: Scope, entry: Entry, *, at: datetime, was: Memory | None = None
    ) -> Memory:
        """Replace the memory that has the entry's id; what it was goes to its history.

        Usage, supersession and deletion stay as they are. When the text changes,
        vectors that are not given anew are removed. `ChangedMeanwhile` if it is
        no longer what it `was` when the entry was made of it.
        """
        check_entries([entry])
        require_instant(at, "at")
        return self.database.write(lambda t: writing.update(t, scope, entry, at=at, was=was))

    def supersede(self, scope: Scope, old_id: str, entry: Entry, *, at: datetime) -> Memory:
        """Add a memory that stands for `old_id` from `at` on."""
        check_entries([entry])
        require_instant(at, "at")
        return self.database.write(lambda t: writing.supersede(t, scope, old_id, entry, at=at))

    def mark_superseded(self, scope: Scope, old_id: str, new_id: str, *, at: datetime) -> Memory:
        """Let `new_id` stand for `old_id` from `at` on; gives the old memory as it is now."""
        require_instant(at, "at")
        return self.database.write(
            lambda t: writing.mark_superseded(t, scope, old_id, new_id, at=at)
        )

    def unsupersede(self, scope: Scope, old_id: str, /) -> Memory:
        """Make a superseded memory current again."""
        return self.database.write(lambda t: writing.unsupersede(t, scope, old_id))

    def delete(
        self, scope: Scope, ids: Sequence[str], *, at: datetime, artifacts: bool = False
    ) -> int:
        """Hide memories, all or none; `restore` brings them back.

        With `artifacts` the bytes under the same ids are removed, for good.
        """
        require_instant(at, "at")
        wanted = require_ids(ids)

        def apply(transaction: Transaction) -> int:
            found = find(transaction, scope, wanted, deleted=False, lock=True)
            if artifacts:
                remove_artifacts(transaction, scope, wanted)
            return writing.hide(transaction, found, at)

        return self.database.write(apply)

    def restore(self, scope: Scope, ids: Sequence[str], /) -> int:
        """Bring deleted memories back, all or none."""
        wanted = require_ids(ids)
        return self.database.write(
            lambda t: writing.hide(t, find(t, scope, wanted, deleted=True, lock=True), None)
        )

    def delete_all(self, selection: Selection, *, at: datetime) -> int:
        """Hide everything selected; gives how many."""
        require_instant(at, "at")
        chosen = replace(selection, deleted=False, forgotten=True)
        return self.database.write(lambda t: writing.hide(t, select(t, chosen, lock=True), at))

    def remove_by_source_url(
        self, scope: Scope, url: str, *, at: datetime, visibilities: tuple[str, ...] = ("private",)
    ) -> int:
        """Hide every chunk of a source, so that it can be added again."""
        selection = Selection(
            reader=scope, source_url=url, superseded=True, visibilities=visibilities
        )
        return self.delete_all(selection, at=at)

    def to_erase(self, scope: Scope, ids: Sequence[str], /) -> tuple[Memory, ...]:
        """What `erase` would remove: the memories with these ids, and what was made of them."""
        wanted = require_ids(ids)
        found = self.database.read(
            lambda t: with_derived(t, find(t, scope, wanted, deleted=None), scope)
        )
        return tuple(one.memory for one in found)

    def to_erase_all(self, selection: Selection, /) -> tuple[Memory, ...]:
        """What `erase_all` would remove."""
        found = self.database.read(
            lambda t: with_derived(t, select(t, _with_hidden(selection)), selection.reader)
        )
        return tuple(one.memory for one in found)

    def erase(self, scope: Scope, ids: Sequence[str], *, at: datetime) -> Receipt:
        """Remove memories for good, all or none: no table holds them after (P26).

        Their merged duplicates and what was learned from nothing else go with
        them; so does every trace and job that quotes one of them. The receipt
        says what the server still has to do on disk.
        """
        require_instant(at, "at")
        wanted = require_ids(ids)
        return self.database.write(
            lambda t: erase_rows(
                t, find(t, scope, wanted, deleted=None, lock=True), at=at, reader=scope
            )
        )

    def erase_all(self, selection: Selection, *, at: datetime) -> Receipt:
        """Remove everything selected for good, deleted and superseded memories included.

        What goes with a memory goes here too. When nothing narrows the
        selection, the reader's snapshots, artifacts and jobs go as well: nothing
        of that user is left.
        """
        require_instant(at, "at")
        return self.database.write(
            lambda t: erase_rows(
                t,
                select(t, _with_hidden(selection), lock=True),
                at=at,
                reader=selection.reader,
                all_of=selection.reader if wipes_owner(selection) else None,
            )
        )

    def record_usage(
        self,
        scope: Scope,
        ids: Collection[str],
        *,
        at: datetime,
        retrieved: int = 0,
        cited: int = 0,
        ignored: int = 0,
    ) -> int:
        """Add to the counts of those `ids` that are there and visible; gives how many."""
        require_instant(at, "at")
        for name, value in (("retrieved", retrieved), ("cited", cited), ("ignored", ignored)):
            require_count(value, name)
        wanted = require_ids(ids)
        moment = to_microseconds(at, "at")

        def apply(transaction: Transaction) -> int:
            rows = [one.row for one in get_many(transaction, scope, wanted)]
            writing.count_usage(
                transaction, rows, retrieved=retrieved, cited=cited, ignored=ignored, at=moment
            )
            return len(rows)

        return self.database.write(apply)

    # Reading

    def get(self, scope: Scope, memory_id: str, *, deleted: bool = False) -> Memory:
        """The memory with this id; superseded ones too, deleted ones only when asked for."""
        return self._one(scope, memory_id, deleted=deleted).memory

    def row_of(self, scope: Scope, memory_id: str, /) -> int:
        """The row of an id, as indexes know it."""
        return self._one(scope, memory_id, deleted=True).row

    def _one(self, scope: Scope, memory_id: str, *, deleted: bool) -> StoredRow:
        require_text(memory_id, "id")
        found = self.database.read(lambda t: reading.by_ids(t, [memory_id], last=True)).get(
            memory_id
        )
        hidden = found is None or (found.memory.deleted_at is not None and not deleted)
        if found is None or hidden or not visible(found.memory, scope):
            raise RecordNotFound(memory_id)
        return found

    def get_many(self, scope: Scope, ids: Sequence[str], /) -> tuple[Memory, ...]:
        """The memories among `ids` that are there, visible and not deleted, in that order."""
        wanted = require_ids(ids)
        return tuple(one.memory for one in self.database.read(lambda t: get_many(t, scope, wanted)))

    def get_rows(self, scope: Scope, rows: Collection[int], /) -> Mapping[int, Memory]:
        """The memories of those rows the reader may see, deleted ones included."""
        found = self.database.read(lambda t: by_rows(t, rows, reader=scope, last=True))
        return {row: one.memory for row, one in found.items()}

    def history(self, scope: Scope, memory_id: str, /) -> tuple[Version, ...]:
        """What the memory was before each update, oldest first."""
        row = self.row_of(scope, memory_id)
        return self.database.read(lambda t: reading.versions(t, scope, row))

    def scan(self, selection: Selection, /) -> Iterator[Memory]:
        """The selected memories, oldest row first.

        Which ones is decided at once; each is read when its turn comes, and
        left out if it was deleted or erased by then.
        """
        first = self.database.read(
            lambda t: select(t, selection, limit=AT_ONCE + 1, last=True)
        )  # mostly all there is
        if len(first) <= AT_ONCE:
            yield from (one.memory for one in first)
            return
        rows = self.database.read(lambda t: reading.select_rows(t, selection))
        for start in range(0, len(rows), AT_ONCE):
            found = self.get_rows(selection.reader, rows[start : start + AT_ONCE])
            for row in rows[start : start + AT_ONCE]:
                memory = found.get(row)
                if memory is not None and (memory.deleted_at is None or selection.deleted):
                    yield memory

    def select_rows(self, selection: Selection, /) -> NDArray[np.int64]:
        """The selected rows, ascending."""
        import numpy as np

        return np.asarray(
            self.database.read(lambda t: reading.select_rows(t, selection)), dtype=np.int64
        )

    def count(self, selection: Selection, /) -> int:
        """How many memories are selected."""
        return self.database.read(lambda t: reading.count(t, selection))

    def recent(self, selection: Selection, *, limit: int) -> tuple[Memory, ...]:
        """The newest selected memories, newest first; of equal age, the later row first."""
        require_count(limit, "limit")
        order = "m.created_at DESC, m.row DESC"
        found = self.database.read(
            lambda t: select(t, selection, order=order, limit=limit, last=True)
        )
        return tuple(one.memory for one in found)

    def search_by_source_url(self, scope: Scope, url: str, /) -> tuple[Memory, ...]:
        """The current chunks of a source, in their order."""
        selection = Selection(reader=scope, source_url=url)
        found = [one.memory for one in self.database.read(lambda t: select(t, selection))]
        return tuple(sorted(found, key=lambda m: (m.position is None, m.position or 0)))

    def visible_owners(self, scope: Scope, /) -> NDArray[np.int32]:
        """The owners whose rows the reader may see, as numbered in `IndexRows.owner`."""
        import numpy as np

        found = self.database.read(lambda t: reading.visible_owners(t, scope))
        return np.asarray(found, dtype=np.int32)

    # Closing

    def close(self) -> None:
        """Close every connection; a second time does nothing."""
        self._closed = True
        self.database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if not self._closed and self.database.has_connections():
            warnings.warn(f"unclosed store {self.database.where}", ResourceWarning, stacklevel=1)
            self.close()


def _with_hidden(selection: Selection) -> Selection:
    return replace(selection, deleted=True, superseded=True, forgotten=True)
