"""What indexes are built from: rows as arrays, vectors as a matrix, and what changed since."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from agentmem.base.checks import require_count
from agentmem.base.protocols import EmbedderId
from agentmem.stores.postgres.tables import CHANGES, EMBEDDINGS, Transaction
from agentmem.stores.postgres.writing import add_vectors, embedder_number, rows_with_owners
from agentmem.stores.tables import ANY, EMBEDDERS, MEMORIES, Row
from agentmem.stores.upkeep import BaseFeed, updated_in
from agentmem.stores.values import COLD, DELETED, Change, Changes, IndexRows, to_index_rows

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
        return self._tables.read(lambda t: t.log_span(last=True))[0]

    def data_version(self) -> int:
        """Changes whenever a change was committed."""
        return self.seq()

    def changes(self, since_seq: int, /) -> Changes:
        """What was written after `since_seq`, in the order of the commits."""
        require_count(since_seq, "since_seq")

        def apply(transaction: Transaction) -> tuple[int, int, list[Row]]:
            return *transaction.log_span(), _lines_since(transaction, since_seq)

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

    def _add_vectors(
        self, write: Transaction, embedder: EmbedderId, packed: Mapping[int, bytes], seq: int | None
    ) -> list[int]:
        keys = sorted(packed)
        # Locked first: an update that comes now waits, and removes what is stored here.
        there = rows_with_owners(write, keys, lock=True)
        stale = set() if seq is None else _updated_since(write, seq, keys)
        given = [
            (stored, visibility, ((embedder, packed[stored["row"]]),))
            for stored, visibility in there
            if stored["row"] not in stale
        ]
        return add_vectors(write, given)

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


def _lines_since(transaction: Transaction, seq: int) -> list[Row]:
    return transaction.find(CHANGES, ANY, "t.seq > :since", order="t.seq", since=seq)


def _updated_since(transaction: Transaction, seq: int, rows: Sequence[int]) -> set[int]:
    last, log_from = transaction.log_span()
    if not log_from <= seq <= last:
        return set(rows)
    return updated_in(rows, _lines_since(transaction, seq))
