"""What indexes are built from: rows as arrays, vectors as a matrix, and what changed since."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from agentmem.base.checks import require_count
from agentmem.base.protocols import EmbedderId
from agentmem.stores.postgres.connection import Transaction
from agentmem.stores.postgres.writing import add_vectors, embedder_number, rows_with_owners
from agentmem.stores.tables import Row
from agentmem.stores.upkeep import BaseFeed
from agentmem.stores.values import (
    COLD,
    DELETED,
    Change,
    Changes,
    IndexRows,
    pack_vector,
    to_index_rows,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


_PREVIOUS = f"""LEFT JOIN LATERAL (
    SELECT p.row FROM memories AS p WHERE p.tenant = %(tenant)s AND p.owner = m.owner
    AND p.strand = m.strand AND (p.place, p.row) < (m.place, m.row)
    AND p.flags & {DELETED} = 0 AND m.flags & {DELETED} = 0
    ORDER BY p.place DESC, p.row DESC LIMIT 1) AS before ON true"""  # noqa: S608 # our own names


class PostgresFeed(BaseFeed[Transaction, Transaction]):
    """`Feed` over the database."""

    def seq(self) -> int:
        """The number of the last change that indexes must know of."""
        return self._tables.read(lambda t: _seq(t, last=True))[0]

    def data_version(self) -> int:
        """Changes whenever a change was committed."""
        return self.seq()

    def changes(self, since_seq: int, /) -> Changes:
        """What was written after `since_seq`, in the order of the commits."""
        require_count(since_seq, "since_seq")

        def apply(transaction: Transaction) -> tuple[int, int, list[Row]]:
            last, log_from = _seq(transaction)
            found = transaction.all(
                "SELECT seq, operation, first, last FROM changes "
                "WHERE tenant = %(tenant)s AND seq > %(since)s ORDER BY seq",
                since=since_seq,
            )
            return last, log_from, found

        last, log_from, found = self._tables.read(apply)
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
        found = self._tables.read(
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
        only = "" if rows is None else "AND row = ANY(%(rows)s)"
        found = self._tables.read(
            lambda transaction: transaction.all(
                "SELECT row, half, wide FROM embeddings WHERE tenant = %(tenant)s "  # noqa: S608 # our own names
                f"AND embedder = %(embedder)s {only} ORDER BY row",
                embedder=embedder_number(embedder),
                rows=[int(row) for row in rows or ()],
            )
        )
        return to_matrix(found, embedder.dimensions)

    def put_vectors(
        self,
        embedder: EmbedderId,
        rows: Sequence[int],
        vectors: NDArray[np.float32],
        *,
        seq: int | None = None,
    ) -> int:
        """Store vectors of rows that are there and have none yet; gives how many were stored.

        With `seq`, the state the texts were read in, rows updated since are
        left out: their vectors would be those of another text.
        """
        packed = {
            int(row): pack_vector(embedder, vector)
            for row, vector in zip(rows, vectors, strict=True)
        }

        def apply(transaction: Transaction) -> int:
            keys = sorted(packed)
            # Locked first: an update that comes now waits, and removes what is stored here.
            there = rows_with_owners(transaction, keys, lock=True)
            stale = set() if seq is None else _updated_since(transaction, seq, keys)
            given = [
                (stored, visibility, ((embedder, packed[stored["row"]]),))
                for stored, visibility in there
                if stored["row"] not in stale
            ]
            new = add_vectors(transaction, given)
            transaction.log("vectors", new)
            return len(new)

        return self._tables.write(apply)

    def missing_vectors(self, embedder: EmbedderId, *, limit: int = 256) -> tuple[int, ...]:
        """Rows that are not deleted and have no vector of this embedder, oldest first."""
        count = require_count(limit, "limit")
        found = self._tables.read(
            lambda transaction: transaction.all(
                f"""SELECT m.row FROM memories AS m WHERE m.tenant = %(tenant)s
                AND m.flags & {DELETED} = 0 AND NOT EXISTS (
                    SELECT 1 FROM embeddings AS e WHERE e.tenant = %(tenant)s
                    AND e.embedder = %(embedder)s AND e.row = m.row)
                ORDER BY m.row LIMIT %(limit)s""",  # noqa: S608 # our own names
                embedder=embedder_number(embedder),
                limit=count,
            )
        )
        return tuple(row for (row,) in found)

    def readable_rows(self) -> tuple[NDArray[np.int64], tuple[str, ...]]:
        """The rows of all memories; the server itself tells of those it cannot read."""
        import numpy as np

        found = self._tables.read(
            lambda transaction: transaction.all(
                "SELECT row FROM memories WHERE tenant = %(tenant)s ORDER BY row"
            )
        )
        return np.array([row for (row,) in found], np.int64), ()

    def cold_count(self) -> int:
        """How many memories were put away."""
        found = self._tables.read(
            lambda transaction: transaction.one(
                f"SELECT count(*) FROM memories WHERE tenant = %(tenant)s AND flags & {COLD} <> 0 "  # noqa: S608 # our own names
                "AND text <> ''"
            )
        )
        return int(found[0]) if found else 0

    def drop_vectors(self, embedder: EmbedderId, /) -> int:
        """Remove every vector of an embedder that is no longer used."""
        number = embedder_number(embedder)

        def apply(transaction: Transaction) -> int:
            gone = transaction.all(
                "DELETE FROM embeddings WHERE tenant = %(tenant)s AND embedder = %(embedder)s "
                "RETURNING row",
                embedder=number,
            )
            transaction.run(
                "DELETE FROM embedders WHERE tenant = %(tenant)s AND embedder = %(embedder)s",
                embedder=number,
            )
            transaction.log("vectors", [row for (row,) in gone])
            return len(gone)

        return self._tables.write(apply)


def to_matrix(
    found: Sequence[Row], dimensions: int
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Rows of (row, halfvec as the server sends it or None, float32 or None) as arrays."""
    import numpy as np

    matrix = np.empty((len(found), dimensions), np.float32)
    for number, (_, half, wide) in enumerate(found):
        # A halfvec is its number of dimensions, two empty bytes, then the numbers.
        matrix[number] = (
            np.frombuffer(wide, "<f4") if half is None else np.frombuffer(half, ">f2", offset=4)
        )
    return np.array([row for row, *_ in found], np.int64), matrix


def _seq(transaction: Transaction, *, last: bool = False) -> tuple[int, int]:
    ask = transaction.only if last else transaction.all
    found = ask("SELECT seq, log_from FROM tenants WHERE tenant = %(tenant)s")
    return (int(found[0][0]), int(found[0][1])) if found else (0, 0)


def _updated_since(transaction: Transaction, seq: int, rows: Sequence[int]) -> set[int]:
    last, log_from = _seq(transaction)
    if not log_from <= seq <= last:
        return set(rows)
    found: list[Any] = transaction.all(
        """SELECT given.row FROM unnest(%(rows)s::bigint[]) AS given(row)
        WHERE EXISTS (SELECT 1 FROM changes WHERE tenant = %(tenant)s AND seq > %(seq)s
            AND operation = 'update' AND given.row BETWEEN first AND last)""",
        rows=list(rows),
        seq=seq,
    )
    return {row for (row,) in found}
