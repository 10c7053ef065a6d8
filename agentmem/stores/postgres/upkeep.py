"""Looking after the database: statistics, a full check, VACUUM, a copy in a file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentmem.base.types import Scope
from agentmem.stores.postgres import reading, writing
from agentmem.stores.postgres.connection import PostgresDatabase
from agentmem.stores.postgres.reading import by_rows
from agentmem.stores.postgres.schema import MIGRATIONS, SCHEMA, TABLES
from agentmem.stores.postgres.tables import POSTINGS, Transaction, seen_owners
from agentmem.stores.tables import ANY, MEMORIES, OWNERS, Row
from agentmem.stores.upkeep import BaseUpkeep, tells_of
from agentmem.stores.values import DELETED, NO_SCOPE, unpack_terms

if TYPE_CHECKING:
    from psycopg import Connection

_HAS_ROWS = "EXISTS (SELECT 1 FROM memories AS m WHERE [m] AND m.owner = t.owner)"
_BYTES = """SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class AS c
    WHERE c.relnamespace = 'agentmem'::regnamespace AND c.relkind = 'r'"""


class PostgresUpkeep(BaseUpkeep[Transaction, Transaction]):
    """`Upkeep` over the database."""

    def __init__(self, database: PostgresDatabase) -> None:
        super().__init__(database, reading, writing, location=database.where)
        self._database = database

    def _size(self, read: Transaction) -> dict[str, Any]:
        ((size,),) = read.all(_BYTES)
        return {"bytes": size, "seq": read.log_span()[0], "schema_version": len(MIGRATIONS)}

    def _covered(self, read: Transaction, embedder: int, scope: Scope | None) -> tuple[int, int]:
        owners, asked = seen_owners(NO_SCOPE if scope is None else scope)
        whose = "" if scope is None else f"AND m.owner = ANY({owners})"
        ((vectors, rows),) = read.all(
            f"""SELECT count(e.row), count(*) FROM memories AS m
            LEFT JOIN embeddings AS e ON e.tenant = %(tenant)s AND e.embedder = %(embedder)s
                AND e.row = m.row
            WHERE m.tenant = %(tenant)s AND m.flags & {DELETED} = 0 {whose}""",  # noqa: S608 # our own names
            embedder=embedder,
            **asked,
        )
        return vectors, rows - vectors

    def _with_rows(self, read: Transaction) -> list[Row]:
        # An owner is sooner looked up than all rows are.
        return read.ask("t.owner", OWNERS, ANY, _HAS_ROWS, order="t.owner")

    def _problems(self, read: Transaction) -> Iterator[str]:
        """What is wrong with the rows of the tenant; pages are the server's."""
        yield from _untrue_terms(read)
        for what, sql in _CHECKS.items():
            for (row,) in read.all(sql):
                yield what.format(row)

    def _counts(self, read: Transaction) -> dict[str, int]:
        counts: dict[str, int] = {}
        for table in TABLES:
            ((counts[table],),) = read.all(
                f"SELECT count(*) FROM {table} WHERE tenant = %(tenant)s"  # noqa: S608 # our own names
            )
        return counts

    def vacuum(self) -> None:
        """Have the server take dead rows out of its tables, as far as this login may."""

        def apply(connection: Connection[Any]) -> None:
            listed = ", ".join(f"{SCHEMA}.{table}" for table in TABLES)
            connection.execute(f"VACUUM (ANALYZE, SKIP_LOCKED) {listed}")

        self._database.apart(apply)

    def backup(self, path: Path, /) -> None:
        """A consistent copy of the tenant as a SQLite store at `path`; never half a file."""
        from agentmem.stores.transfer import write_file

        write_file(self._database, Path(path))


_AT_ONCE = 1000


def _untrue_terms(transaction: Transaction) -> Iterator[str]:
    """Rows whose terms tell another story, or are not all in the table of postings."""
    words: dict[int, int] = dict(transaction.ask("row, count(*)", POSTINGS, group="row"))
    last = 0
    while True:
        told: dict[int, bytes] = dict(
            transaction.ask(
                "row, indexed",
                MEMORIES,
                ANY,
                "t.row > :after",
                order="row",
                limit=_AT_ONCE,
                after=last,
            )
        )
        if not told:
            return
        last = max(told)
        for row, one in by_rows(transaction, told).items():
            if not tells_of(told[row], one.columns):
                yield f"the terms of row {row} belong to another state of it"
            if len(unpack_terms(told[row])["terms"]) != 8 * words.get(row, 0):
                yield f"the words of row {row} are not all there"


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
    "the speakers of owner {} were not counted right": """
        SELECT DISTINCT coalesce(s.owner, m.owner) FROM (
            SELECT owner, flags, speaker, count(*) AS rows FROM memories
            WHERE tenant = %(tenant)s AND speaker <> '' GROUP BY 1, 2, 3) AS m
        FULL JOIN (SELECT owner, flags, speaker, rows FROM speakers
            WHERE tenant = %(tenant)s AND rows <> 0) AS s ON s.owner = m.owner
            AND s.flags = m.flags AND s.speaker = m.speaker
        WHERE s.rows IS DISTINCT FROM m.rows""",
}
