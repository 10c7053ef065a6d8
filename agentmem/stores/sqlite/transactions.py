"""Reading and writing rows so that the ledger always agrees with them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol

from agentmem.stores.sqlite.ledger import Ledger, Row, checked, checksum, row_checksum
from agentmem.stores.sqlite.schema import CHANGES, EMBEDDER_SHIFT, EMBEDDINGS, Table
from agentmem.stores.values import Operation

KEPT_CHANGES = 100_000


class Cursor(Protocol):
    """What a statement gives."""

    def fetchone(self) -> Any: ...
    def fetchall(self) -> list[Any]: ...
    def __iter__(self) -> Iterator[Any]: ...


class Connection(Protocol):
    """The part of a SQLite connection the store uses; errors are `sqlite3.Error`s."""

    def execute(self, sql: str, parameters: Sequence[Any] = (), /) -> Cursor: ...
    def executemany(self, sql: str, parameters: Iterable[Sequence[Any]], /) -> object: ...
    def close(self) -> None: ...


class Read:
    """One state of the store, to be read."""

    def __init__(self, connection: Connection, ledger: str) -> None:
        self.connection = connection
        self._ledger = ledger
        self._parsed: Ledger | None = None

    @property
    def ledger(self) -> Ledger:
        if self._parsed is None:
            self._parsed = Ledger(self._ledger)
        return self._parsed

    def rows(self, table: Table, condition: str, parameters: Sequence[Any] = ()) -> list[Row]:
        """The rows that meet `condition`, each tested against its checksum, without it."""
        found = self.connection.execute(table.select_sql(condition), parameters).fetchall()
        return [checked(table, row) for row in found]

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> list[Row]:
        return self.connection.execute(sql, parameters).fetchall()


class Write(Read):
    """A transaction that keeps the ledger in step with what it writes.

    Setting `abandoned` ends it without a trace: nothing had to be changed.
    """

    abandoned = False

    def take(self, table: Table, count: int = 1) -> range:
        """Keys for new rows."""
        return self.ledger.take(table.name, count)

    def insert(self, table: Table, rows: Sequence[Row], *, tally: str = "") -> None:
        """Add rows, given without checksums (or sealed, for packed tables)."""
        if not table.packed:
            rows = [(*row, checksum(table, row)) for row in rows]
        if len(rows) == 1:
            self.connection.execute(table.insert_sql(), rows[0])
        else:
            self.connection.executemany(table.insert_sql(), rows)
        self.ledger.add(tally or table.name, [row_checksum(table, row) for row in rows])

    def change(self, table: Table, row: Row, /, **values: Any) -> Row:
        """Write `values` over those of `row` (as read, without checksum); gives the new row."""
        names = [name for name in values if row[table.columns.index(name)] != values[name]]
        if not names:
            return row
        new = tuple(values.get(name, old) for name, old in zip(table.columns, row, strict=True))
        sums = [] if table.packed else [checksum(table, new)]
        sets = ", ".join(f"{name} = ?" for name in (*names, *(["checksum"] if sums else [])))
        self.connection.execute(
            f"UPDATE {table.name} SET {sets} WHERE {table.key} = ?",  # noqa: S608 # our own names
            (*(values[name] for name in names), *sums, row[0]),
        )
        before = row_checksum(table, row) if table.packed else checksum(table, row)
        after = row_checksum(table, new) if table.packed else sums[0]
        self.ledger.remove(table.name, [before])
        self.ledger.add(table.name, [after])
        return new

    def delete(self, table: Table, keys: Sequence[int], *, tally: str = "") -> list[Row]:
        """Remove the rows with these keys; gives what they were, tested."""
        gone: list[Row] = []
        for key in keys:
            for row in self.connection.execute(
                table.select_sql(f"WHERE {table.key} = ?"), (key,)
            ).fetchall():
                gone.append(checked(table, row))
                self.ledger.remove(tally or table.name, [row_checksum(table, row)])
                self.connection.execute(
                    f"DELETE FROM {table.name} WHERE {table.key} = ?",  # noqa: S608 # our own names
                    (key,),
                )
        return gone

    def log(self, operation: Operation, rows: Iterable[int]) -> None:
        """Tell indexes that `rows` changed; neighbouring rows make one line."""
        runs: list[list[int]] = []
        for row in sorted(set(rows)):
            if runs and runs[-1][1] == row - 1:
                runs[-1][1] = row
            else:
                runs.append([row, row])
        keys = self.take(CHANGES, len(runs))
        if not runs:
            return
        self.insert(
            CHANGES,
            [(seq, operation, first, last) for seq, (first, last) in zip(keys, runs, strict=True)],
        )
        if keys[-1] // 4096 != (keys[0] - 1) // 4096:
            self._forget_old_changes(keys[-1] - KEPT_CHANGES)

    def _forget_old_changes(self, last: int) -> None:
        old = self.connection.execute(CHANGES.select_sql("WHERE seq <= ?"), (last,)).fetchall()
        self.ledger.remove(CHANGES.name, [row_checksum(CHANGES, row) for row in old])
        self.connection.execute("DELETE FROM changes WHERE seq <= ?", (last,))

    def finish(self) -> int:
        """Write the ledger; gives the number of this commit."""
        self.ledger.commits += 1
        self.connection.execute("UPDATE ledger SET data = ? WHERE one = 1", (self.ledger.write(),))
        return self.ledger.commits


def vectors_tally(embedder: int) -> str:
    """The ledger's name for one embedder's vectors."""
    return f"{EMBEDDINGS.name}:{embedder}"


def vector_key(embedder: int, row: int) -> int:
    return embedder << EMBEDDER_SHIFT | row
