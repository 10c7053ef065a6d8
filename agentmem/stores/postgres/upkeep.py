"""Looking after the database: statistics, a full check, VACUUM, a copy in a file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentmem.base.checks import require_text
from agentmem.base.types import Scope
from agentmem.stores.postgres.connection import PostgresDatabase, Row, Transaction
from agentmem.stores.postgres.erasing import erase_rows
from agentmem.stores.postgres.feed import all_embedders
from agentmem.stores.postgres.reading import find_where, visible_owners
from agentmem.stores.postgres.schema import MIGRATIONS, SCHEMA, TABLES
from agentmem.stores.postgres.side import get_value, job_counts, scope_of, set_value
from agentmem.stores.values import (
    DELETED,
    EmbedderCoverage,
    Source,
    StoreStats,
    VerifyReport,
    describes,
    from_microseconds,
    to_microseconds,
    unpack_terms,
)

if TYPE_CHECKING:
    from psycopg import Connection

_LAST_SYNC = "last_sync"
_MOST_PROBLEMS = 10_000


class PostgresUpkeep:
    """`Upkeep` over the database."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database

    def stats(self, scope: Scope | None = None) -> StoreStats:
        """Sizes and counts, of what `scope` can see; without one, of the whole tenant."""

        def apply(transaction: Transaction) -> StoreStats:
            owners = None if scope is None else visible_owners(transaction, scope)
            counted = _counted(transaction, owners)
            sync = get_value(transaction, _LAST_SYNC)
            documents = _first(
                transaction,
                f"SELECT count(*) FROM sources WHERE tenant = %(tenant)s {_of(owners)}",  # noqa: S608 # our own names
                owners,
            )
            seq = transaction.one("SELECT seq FROM tenants WHERE tenant = %(tenant)s")
            return StoreStats(
                documents=documents,
                chunks=sum(counted["kinds"].values()),
                kinds=counted["kinds"],
                deleted=counted["deleted"],
                superseded=counted["superseded"],
                bytes=_first(transaction, _BYTES, owners),
                last_sync=None if sync is None else from_microseconds(int(sync)),
                embedders=tuple(_coverage(transaction, owners)),
                jobs=job_counts(transaction, owners),
                seq=int(seq[0]) if seq else 0,
                schema_version=len(MIGRATIONS),
                location=self._database.where,
            )

        return self._database.read(apply)

    def verify(self) -> VerifyReport:
        """A check of every row of the tenant and what belongs to it; pages are the server's."""

        def apply(transaction: Transaction) -> VerifyReport:
            found = [p for p, _ in zip(problems(transaction), range(_MOST_PROBLEMS), strict=False)]
            counts = {
                table: _first(
                    transaction, f"SELECT count(*) FROM {table} WHERE tenant = %(tenant)s"  # noqa: S608 # our own names
                )
                for table in TABLES
            }  # fmt: skip
            return VerifyReport(problems=tuple(found), counts=counts)

        return self._database.read(apply)

    def vacuum(self) -> None:
        """Have the server take dead rows out of its tables, as far as this login may."""

        def apply(connection: Connection[Any]) -> None:
            listed = ", ".join(f"{SCHEMA}.{table}" for table in TABLES)
            connection.execute(f"VACUUM (ANALYZE, SKIP_LOCKED) {listed}")

        self._database.apart(apply)

    def sync(self, *, at: datetime) -> None:
        """Note the moment; everything acknowledged is in the server's log already."""
        moment = str(to_microseconds(at, "at"))
        self._database.write(lambda transaction: set_value(transaction, _LAST_SYNC, moment))

    def backup(self, path: Path, /) -> None:
        """A consistent copy of the tenant as a SQLite store at `path`; never half a file."""
        from agentmem.stores.transfer import write_file

        write_file(self._database, Path(path))

    def purge(self, *, deleted_before: datetime) -> int:
        """Remove for good what was deleted before a moment; gives how many rows went."""
        moment = to_microseconds(deleted_before, "deleted_before")

        def apply(transaction: Transaction) -> int:
            found = find_where(
                transaction, "m.deleted_at < %(moment)s ORDER BY m.row", lock=True, moment=moment
            )
            if found:
                erase_rows(transaction, found, at=deleted_before)
            return len(found)

        return self._database.write(apply)

    def sources(self, scope: Scope | None = None) -> tuple[Source, ...]:
        """The sources `scope` can see, with the hash of their newest content."""

        def apply(transaction: Transaction) -> list[Row]:
            owners = None if scope is None else visible_owners(transaction, scope)
            return transaction.all(
                f"""SELECT s.url, s.title, s.content_hash, s.synced_at, o.visibility, o.user_id,
                    o.project_id, o.agent_id, o.run_id
                FROM sources AS s JOIN owners AS o ON o.tenant = %(tenant)s AND o.owner = s.owner
                WHERE s.tenant = %(tenant)s {_of(owners, "s.")} ORDER BY s.source""",  # noqa: S608 # our own names
                owners=owners,
            )

        return tuple(
            Source(
                url=url,
                title=title,
                content_hash=content_hash,
                synced_at=from_microseconds(synced),
                visibility=visibility,
                scope=scope_of(whose),
            )
            for url, title, content_hash, synced, visibility, *whose in self._database.read(apply)
        )

    def owners(self, memory_id: str | None = None, /) -> tuple[Scope, ...]:
        """Everybody who has a memory, or who has that one, be it deleted."""
        one = {} if memory_id is None else {"id": require_text(memory_id, "id")}
        which = "AND m.id = %(id)s" if one else ""
        found = self._database.read(
            lambda transaction: transaction.all(
                f"""SELECT user_id, project_id, agent_id, run_id FROM owners AS o
                WHERE tenant = %(tenant)s AND EXISTS (SELECT 1 FROM memories AS m
                    WHERE m.tenant = %(tenant)s AND m.owner = o.owner {which}) ORDER BY owner""",  # noqa: S608 # our own names
                **one,
            )
        )
        return tuple(dict.fromkeys(map(scope_of, found)))

    def users(self) -> dict[str | None, int]:
        """How many memories hold of each user, most first; `None` has those of nobody named."""
        found = self._database.read(
            lambda transaction: transaction.all(
                """SELECT o.user_id, count(*) FROM memories AS m
                JOIN owners AS o ON o.tenant = %(tenant)s AND o.owner = m.owner
                WHERE m.tenant = %(tenant)s AND m.deleted_at IS NULL AND m.superseded_by IS NULL
                GROUP BY o.user_id"""
            )
        )
        return dict(sorted(found, key=lambda one: (-one[1], one[0] or "")))


_BYTES = """SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0) FROM pg_class AS c
    WHERE c.relnamespace = 'agentmem'::regnamespace AND c.relkind = 'r'"""


def _of(owners: Collection[int] | None, prefix: str = "") -> str:
    return "" if owners is None else f"AND {prefix}owner = ANY(%(owners)s)"


def _first(transaction: Transaction, sql: str, owners: Collection[int] | None = None) -> int:
    found = transaction.one(sql, owners=None if owners is None else list(owners))
    return int(found[0]) if found else 0


def _counted(transaction: Transaction, owners: Collection[int] | None) -> dict[str, Any]:
    kinds: Counter[str] = Counter()
    deleted = superseded = 0
    for kind, is_deleted, is_superseded, count in transaction.all(
        "SELECT kind, deleted_at IS NOT NULL, superseded_by IS NOT NULL, count(*) "  # noqa: S608 # our own names
        f"FROM memories WHERE tenant = %(tenant)s {_of(owners)} GROUP BY 1, 2, 3",
        owners=None if owners is None else list(owners),
    ):
        if is_deleted:
            deleted += count
        elif is_superseded:
            superseded += count
        else:
            kinds[kind] += count
    return {"kinds": dict(kinds), "deleted": deleted, "superseded": superseded}


def _coverage(
    transaction: Transaction, owners: Collection[int] | None
) -> Iterator[EmbedderCoverage]:
    for number, embedder in all_embedders(transaction).items():
        found = transaction.one(
            f"""SELECT count(e.row), count(*) - count(e.row) FROM memories AS m
            LEFT JOIN embeddings AS e ON e.tenant = %(tenant)s AND e.embedder = %(embedder)s
                AND e.row = m.row
            WHERE m.tenant = %(tenant)s AND m.flags & {DELETED} = 0 {_of(owners, "m.")}""",  # noqa: S608 # our own names
            embedder=number,
            owners=None if owners is None else list(owners),
        )
        vectors, missing = found or (0, 0)
        yield EmbedderCoverage(embedder=embedder, vectors=vectors, missing=missing)


def problems(transaction: Transaction) -> Iterator[str]:
    """What is wrong, one line each; nothing for a tenant that is whole."""
    yield from _untrue_terms(transaction)
    for what, sql in _CHECKS.items():
        for (row,) in transaction.all(sql):
            yield what.format(row)


_AT_ONCE = 1000


def _untrue_terms(transaction: Transaction) -> Iterator[str]:
    """Rows whose terms tell another story, or are not all in the table of postings."""
    words: dict[int, int] = dict(
        transaction.all("SELECT row, count(*) FROM postings WHERE tenant = %(tenant)s GROUP BY row")
    )
    last = 0
    while True:
        found = find_where(
            transaction,
            "m.row > %(after)s ORDER BY m.row LIMIT %(limit)s",
            after=last,
            limit=_AT_ONCE,
        )
        if not found:
            return
        last = found[-1].row
        told: dict[int, bytes] = dict(
            transaction.all(
                "SELECT row, indexed FROM memories WHERE tenant = %(tenant)s "
                "AND row BETWEEN %(first)s AND %(last)s",
                first=found[0].row,
                last=last,
            )
        )
        for one in found:
            memory = one.memory
            moments = [
                None if moment is None else to_microseconds(moment)
                for moment in (memory.created_at, memory.valid_from, memory.valid_to)
            ]
            if not describes(
                bytes(told[one.row]), one.owner, one.strand, one.place, memory.speaker,
                memory.kind, *moments, memory.deleted_at, memory.superseded_by, memory.metadata,
            ):  # fmt: skip
                yield f"the terms of row {one.row} belong to another state of it"
            if len(unpack_terms(bytes(told[one.row]))["terms"]) != 8 * words.get(one.row, 0):
                yield f"the words of row {one.row} are not all there"


_CHECKS = {
    "a vector of row {} has the wrong owner, state or size": """
        SELECT e.row FROM embeddings AS e
        JOIN memories AS m ON m.tenant = %(tenant)s AND m.row = e.row
        LEFT JOIN embedders AS d ON d.tenant = %(tenant)s AND d.embedder = e.embedder
        WHERE e.tenant = %(tenant)s AND (e.owner <> m.owner OR e.flags <> m.flags
            OR d.embedder IS NULL
            OR coalesce(vector_dims(e.half::vector), length(e.wide) / 4) <> d.dimensions)""",
    "the words of row {} belong to another state of it": """
        SELECT DISTINCT p.row FROM postings AS p
        LEFT JOIN memories AS m ON m.tenant = %(tenant)s AND m.row = p.row AND m.owner = p.owner
            AND m.flags = p.flags AND m.length = p.length
        WHERE p.tenant = %(tenant)s AND m.row IS NULL""",
    "the rows of owner {} were not counted right": """
        SELECT coalesce(s.owner, m.owner) FROM (
            SELECT owner, flags, count(*) AS rows, sum(length) AS length FROM memories
            WHERE tenant = %(tenant)s GROUP BY 1, 2) AS m
        FULL JOIN (SELECT owner, flags, rows, length FROM scopes
            WHERE tenant = %(tenant)s AND rows <> 0) AS s ON s.owner = m.owner
            AND s.flags = m.flags
        WHERE (s.rows, s.length) IS DISTINCT FROM (m.rows, m.length)""",
}
