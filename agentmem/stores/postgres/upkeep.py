"""Looking after the database: a full check, VACUUM, a copy in a file; what indexes read."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentmem.base.checks import require_count
from agentmem.base.protocols import EmbedderId
from agentmem.base.types import Scope
from agentmem.stores.postgres.connection import PostgresDatabase
from agentmem.stores.postgres.schema import MIGRATIONS, SCHEMA, TABLES
from agentmem.stores.postgres.tables import EMBEDDINGS, POSTINGS, seen_owners
from agentmem.stores.postgres.transaction import Transaction, embedder_number, half_numbers
from agentmem.stores.tables import ANY, EMBEDDERS, MEMORIES, OWNERS, Row
from agentmem.stores.upkeep import BaseFeed, BaseUpkeep, tells_of
from agentmem.stores.values import (
    COLD,
    DELETED,
    NO_SCOPE,
    Change,
    Changes,
    IndexRows,
    to_index_rows,
    unpack_terms,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from psycopg import Connection

_HAS_ROWS = "EXISTS (SELECT 1 FROM memories AS m WHERE [m] AND m.owner = t.owner)"
_BYTES = """SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class AS c
    WHERE c.relnamespace = 'agentmem'::regnamespace AND c.relkind = 'r'"""


class PostgresUpkeep(BaseUpkeep[Transaction]):
    """`Upkeep` over the database."""

    def __init__(self, database: PostgresDatabase) -> None:
        super().__init__(database, location=database.where)
        self._database = database

    def _size(self, read: Transaction) -> dict[str, Any]:
        ((size,),) = read.all(_BYTES)
        return {"bytes": size, "seq": read.last_seq(), "schema_version": len(MIGRATIONS)}

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
        for row, one in transaction.by_rows(told).items():
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


# ----------------------------------------------------------------------------
# What indexes are built from: rows as arrays, vectors as a matrix, and what changed since.


_PREVIOUS = f"""LEFT JOIN LATERAL (
    SELECT p.row FROM memories AS p WHERE p.tenant = %(tenant)s AND p.owner = m.owner
    AND p.strand = m.strand AND (p.place, p.row) < (m.place, m.row)
    AND p.flags & {DELETED} = 0 AND m.flags & {DELETED} = 0
    ORDER BY p.place DESC, p.row DESC LIMIT 1) AS before ON true"""  # noqa: S608 # our own names


class PostgresFeed(BaseFeed):
    """`Feed` over the database."""

    def __init__(self, database: PostgresDatabase) -> None:
        super().__init__(database)
        self._database = database

    def seq(self) -> int:
        """The number of the last change that indexes must know of."""
        return self._database.read(lambda t: t.log_span(last=True))[0]

    def data_version(self) -> int:
        """Changes whenever a change was committed."""
        return self.seq()

    def changes(self, since_seq: int, /) -> Changes:
        """What was written after `since_seq`, in the order of the commits."""
        require_count(since_seq, "since_seq")

        def apply(transaction: Transaction) -> tuple[int, int, list[Row]]:
            return *transaction.log_span(), transaction.lines_since(since_seq)

        last, log_from, found = self._database.read(apply)
        if not log_from <= since_seq <= last:
            return Changes(seq=last, complete=False, items=())
        items = [
            Change(seq=seq, operation=operation, first=first, last=final)
            for seq, operation, first, final in found
        ]
        return Changes(seq=last, complete=True, items=tuple(items))

    def index_rows(
        self,
        *,
        after_row: int = 0,
        limit: int | None = None,
        rows: Collection[int] | None = None,
    ) -> IndexRows:
        """Everything an index needs of all rows, of those after one, or of these."""
        most = None if limit is None else require_count(limit, "limit")
        everything = rows is None and after_row == 0 and limit is None
        which = "m.row > %(after)s" if rows is None else "m.row = ANY(%(rows)s)"
        found = self._database.read(
            lambda transaction: transaction.all(
                f"SELECT m.row, m.indexed, {'0' if everything else 'before.row'} "  # noqa: S608 # our own names
                f"FROM memories AS m {'' if everything else _PREVIOUS} "
                f"WHERE m.tenant = %(tenant)s AND {which} ORDER BY m.row LIMIT %(limit)s",
                after=after_row,
                rows=[int(row) for row in rows or ()],
                limit=most,
            )
        )
        previous = None if everything else [before or 0 for _, _, before in found]
        return to_index_rows(
            [row for row, _, _ in found], [bytes(b) for _, b, _ in found], previous=previous
        )

    def vectors(
        self, embedder: EmbedderId, *, rows: Collection[int] | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """The rows that have a vector of this embedder, ascending, and the vectors."""
        only = {} if rows is None else {"row": [int(row) for row in rows]}
        found = self._tables.read(
            lambda read: read.ask(
                "row, half, wide",
                EMBEDDINGS,
                {"embedder": embedder_number(embedder), **only},
                order="row",
            )
        )
        return to_matrix(found, embedder.dimensions)

    def missing_vectors(self, embedder: EmbedderId, *, limit: int = 256) -> tuple[int, ...]:
        """Rows that are not deleted and have no vector of this embedder, oldest first."""
        count = require_count(limit, "limit")
        found = self._tables.read(
            lambda read: read.ask(
                "t.row",
                MEMORIES,
                ANY,
                f"t.flags & {DELETED} = 0 AND NOT EXISTS (SELECT 1 FROM embeddings AS e "  # noqa: S608 # our own names
                "WHERE [e] AND e.embedder = :embedder AND e.row = t.row)",
                order="t.row",
                limit=count,
                embedder=embedder_number(embedder),
            )
        )
        return tuple(row for (row,) in found)

    def readable_rows(self) -> tuple[NDArray[np.int64], tuple[str, ...]]:
        """The rows of all memories; the server itself tells of those it cannot read."""
        import numpy as np

        found = self._tables.read(lambda read: read.ask("row", MEMORIES, order="row"))
        return np.array([row for (row,) in found], np.int64), ()

    def cold_count(self) -> int:
        """How many memories were put away."""
        cold = f"t.flags & {COLD} <> 0 AND t.text <> ''"
        ((found,),) = self._tables.read(lambda read: read.ask("count(*)", MEMORIES, ANY, cold))
        return int(found)

    def drop_vectors(self, embedder: EmbedderId, /) -> int:
        """Remove every vector of an embedder that is no longer used."""
        number = embedder_number(embedder)

        def apply(transaction: Transaction) -> int:
            gone = transaction.ask("row", EMBEDDINGS, {"embedder": number})
            transaction.remove(EMBEDDINGS, {"embedder": number})
            transaction.remove(EMBEDDERS, {"embedder": number})
            transaction.log("vectors", [row for (row,) in gone])
            return len(gone)

        return self._database.write(apply)


def to_matrix(
    found: Sequence[Row], dimensions: int
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Rows of (row, halfvec as the server sends it or None, float32 or None) as arrays."""
    import numpy as np

    matrix = np.empty((len(found), dimensions), np.float32)
    for number, (_, half, wide) in enumerate(found):
        matrix[number] = np.frombuffer(wide, "<f4") if half is None else half_numbers(half)
    return np.array([row for row, *_ in found], np.int64), matrix
