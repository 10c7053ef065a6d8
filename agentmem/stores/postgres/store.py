"""A store in PostgreSQL: the same promises as the file, for any number of machines."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from agentmem.base.checks import require_count, require_number, require_text
from agentmem.base.filters import Selection
from agentmem.base.types import Memory, Scope
from agentmem.stores.base import AT_ONCE, BaseStore
from agentmem.stores.postgres import erasing, reading, writing
from agentmem.stores.postgres.connection import PostgresDatabase, Transaction
from agentmem.stores.postgres.feed import PostgresFeed
from agentmem.stores.postgres.journal import PostgresJournal
from agentmem.stores.postgres.reading import StoredRow, by_rows, select
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
from agentmem.stores.rules import Sameness, split_new
from agentmem.stores.values import Artifact, Durability, Entry, Source, check_entries

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

DEFAULT_TENANT = "default"
T = TypeVar("T")


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


class PostgresStore(BaseStore[Transaction, Transaction, StoredRow]):
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

    _reading = _holding = reading
    _writing = writing
    _erasing = erasing

    def _read(self, call: Callable[[Transaction], T], /) -> T:
        return self.database.read(call)

    def _write(self, call: Callable[[Transaction], T], /) -> T:
        return self.database.write(call)

    def _remove_artifacts(self, write: Transaction, scope: Scope, ids: Collection[str], /) -> None:
        remove_artifacts(write, scope, ids)

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

    # Reading

    def get_rows(self, scope: Scope, rows: Collection[int], /) -> Mapping[int, Memory]:
        """The memories of those rows the reader may see, deleted ones included."""
        found = self.database.read(lambda t: by_rows(t, rows, reader=scope, last=True))
        return {row: one.memory for row, one in found.items()}

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
        yield from super().scan(selection)

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

    def __del__(self) -> None:
        if not self._closed and self.database.has_connections():
            warnings.warn(f"unclosed store {self.database.where}", ResourceWarning, stacklevel=1)
            self.close()
