"""The database's side of moving a store: its rows as the file has them, and back."""

from __future__ import annotations

from collections.abc import Sequence

from agentmem.base.protocols import EmbedderId
from agentmem.stores.postgres.schema import LOCK
from agentmem.stores.postgres.tables import EMBEDDINGS, Transaction
from agentmem.stores.postgres.writing import (
    add_vectors,
    insert_columns,
    make_graphs,
    rows_with_owners,
)
from agentmem.stores.side import set_value
from agentmem.stores.tables import MEMORIES, Match, Row, Table
from agentmem.stores.transfer import KEPT, Side, written


class PostgresSide(Side):
    """`Side` over one transaction."""

    def __init__(self, transaction: Transaction) -> None:
        super().__init__(transaction)
        self._transaction = transaction

    def seq(self) -> int:
        return self._transaction.log_span()[0]

    def _memories(self, after: int, limit: int) -> list[Row]:
        columns = ", ".join((*MEMORIES.columns, "indexed"))
        return self._after(columns, MEMORIES, {}, after, limit)

    def _vectors(self, embedder: int, dimensions: int, after: int, limit: int) -> list[Row]:
        match = {"embedder": embedder}
        rows = self._after("row, half, wide", EMBEDDINGS, match, after, limit)
        return [(row, _vector(half, wide)) for row, half, wide in rows]

    def _after(
        self, columns: str, table: Table, match: Match, after: int, limit: int, /
    ) -> list[Row]:
        return self._transaction.ask(
            columns, table, match, "t.row > :after", order="row", limit=limit, after=after
        )

    # -- writing ----------------------------------------------------------------------

    def fill(self, part: str, rows: Sequence[Row], seq: int) -> None:
        """Add rows of a part as they are, and what the database keeps beside them."""
        if part == "settings":
            for name, value in rows:
                set_value(self._transaction, name, value)
            self._transaction.run(
                "UPDATE tenants SET seq = greatest(seq, %(seq)s), "
                "log_from = greatest(seq, %(seq)s) WHERE tenant = %(tenant)s",
                seq=seq,
            )
            make_graphs(self._transaction)
            return
        if part == "embeddings":
            self._add_vectors(rows)
            return
        table = KEPT[part]
        if part == "memories":
            insert_columns(self._transaction, [(row[0], row[1:-1], row[-1]) for row in rows])
        else:
            named = [dict(zip(table.columns, row, strict=True)) for row in written(part, rows)]
            self._transaction.add_all(table, named)
        if part != "usage":
            self._give_out(part, table.key, max(row[0] for row in rows))

    def _add_vectors(self, rows: Sequence[Row]) -> None:
        found = rows_with_owners(self._transaction, [row[3] for row in rows])
        known = {stored["row"]: (stored, visibility) for stored, visibility in found}
        lines = []
        for name, version, dimensions, row, data in rows:
            space = EmbedderId(name=name, version=version, dimensions=dimensions)
            whole = data if len(data) == 4 * dimensions else _widened(data)
            lines.append((*known[row], ((space, whole),)))
        add_vectors(self._transaction, lines, graph=False)

    def _give_out(self, table: str, column: str, last: int) -> None:
        """Let the next number be above `last`, whoever else takes one meanwhile."""
        self._transaction.run("SELECT pg_advisory_xact_lock(%(lock)s)", lock=LOCK)
        found = self._transaction.one(
            f"SELECT last_value FROM {table}_{column}_seq WHERE %(tenant)s <> ''"  # noqa: S608 # our own names
        )
        if found is not None and found[0] <= last:
            self._transaction.run(
                f"SELECT setval('{table}_{column}_seq', %(last)s)",  # our own names
                last=last + 1000,
            )


def _widened(data: bytes) -> bytes:
    import numpy as np

    return np.frombuffer(data, "<f2").astype("<f4").tobytes()


def _vector(half: bytes | None, wide: bytes | None) -> bytes:
    """A vector as the file keeps it: in half precision where that holds it."""
    import numpy as np

    if half is None:
        return wide or b""
    return np.frombuffer(half, ">f2", offset=4).astype("<f2").tobytes()
