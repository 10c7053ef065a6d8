"""A store in PostgreSQL: the same promises as the file, for any number of machines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from agentmem.base.checks import require_count, require_number, require_text
from agentmem.base.filters import Selection
from agentmem.base.types import Memory, Scope
from agentmem.stores.base import BaseStore
from agentmem.stores.postgres.connection import PostgresDatabase
from agentmem.stores.postgres.transaction import Transaction
from agentmem.stores.postgres.upkeep import PostgresFeed, PostgresUpkeep
from agentmem.stores.tables import OWNERS
from agentmem.stores.values import Durability, Entry, Receipt, Source, check_entries
from agentmem.stores.writing import AT_ONCE, Sameness, note_source

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

DEFAULT_TENANT = "default"
_VACUUM = (
    "Dead rows stay in the server's files until VACUUM takes them, by itself or by hand; "
    "VACUUM FULL gives their space back."
)
_COPIES = (
    "The write-ahead log, its archive, replicas and backups keep their own copies "
    "until they are recycled."
)
REMAINS = (_VACUUM, _COPIES)


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


class PostgresStore(BaseStore):
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
        asked, named = split_dsn(require_text(dsn, "dsn"))
        require_count(connections, "connections", least=1)
        require_number(busy_seconds, "busy_seconds", low=0)
        require_number(replica_seconds, "replica_seconds", low=0)
        self.database = PostgresDatabase(
            asked,
            tenant=require_text(tenant if tenant is not None else named, "tenant"),
            read_dsn=None if read_dsn is None else split_dsn(read_dsn)[0],
            connections=connections,
            busy_seconds=busy_seconds,
            replica_seconds=replica_seconds,
            migrate=migrate,
            durable=durability == "full",
        )
        self._wire(self.database)
        self.feed = PostgresFeed(self.database)
        self.upkeep = PostgresUpkeep(self.database)

    # Writing

    def put_new(self, entries: Iterable[Entry], /, *, same: Sameness) -> tuple[str, ...]:
        """Add the memories whose owner has no current one that is the same, all or none.

        Mostly nobody has said any of it, and one round trip does.
        """
        batch = list(entries)
        check_entries(batch)
        alone = len({entry.memory.content_hash for entry in batch}) == len(batch)
        if (
            batch
            and alone
            and self.database.write(lambda t: t.put_memories(batch, unsaid=True)) is not None
        ):
            return tuple(entry.memory.id for entry in batch)
        return super().put_new(batch, same=same)

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

        def apply(write: Transaction) -> int:
            added = sum(len(write.add_memories(batch, graph=False)) for batch in given())
            for source in noted:
                note_source(write, source)
            write.make_graphs()
            return added

        return self.database.write(apply)

    def _cleaned(self, receipt: Receipt) -> Receipt:
        return replace(receipt, remains=REMAINS)

    # Reading

    def scan(self, selection: Selection, /) -> Iterator[Memory]:
        """The selected memories, oldest row first.

        Which ones is decided at once; each is read when its turn comes, and
        left out if it was deleted or erased by then.
        """
        first = self.database.read(
            lambda t: t.select(selection, limit=AT_ONCE + 1, last=True)
        )  # mostly all there is
        if len(first) <= AT_ONCE:
            yield from (one.memory for one in first)
            return
        yield from super().scan(selection)

    def visible_owners(self, scope: Scope, /) -> NDArray[np.int32]:
        """The owners whose rows the reader may see, as numbered in `IndexRows.owner`."""
        import numpy as np

        found = self.database.read(lambda t: t.ask("owner", OWNERS, {"owner": scope}))
        return np.asarray(sorted(owner for (owner,) in found), dtype=np.int32)
