"""Reading and writing rows so that the ledger always agrees with them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, Protocol

from agentmem.stores.sqlite.ledger import Ledger, Row, checked, checksum, row_checksum
from agentmem.stores.sqlite.schema import CHANGES, EMBEDDER_SHIFT, EMBEDDINGS, MEMORIES, Table
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

    def __init__(
        self, connection: Connection, ledger: str, *, parsed: Ledger | None = None
    ) -> None:
        self.connection = connection
        self._written_ledger = ledger
        self._ledger = parsed

    @property
    def ledger(self) -> Ledger:
        """The tallies of this state; read when they are first asked for."""
        if self._ledger is None:
            self._ledger = Ledger(self._written_ledger)
        return self._ledger

    def rows(self, table: Table, condition: str, parameters: Sequence[Any] = ()) -> list[Row]:
        """The rows that meet `condition`, each tested against its checksum, without it."""
        found = self.connection.execute(table.select_sql(condition), parameters).fetchall()
        return [checked(table, row) for row in found]

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> list[Row]:
        return self.connection.execute(sql, parameters).fetchall()


class Numbers:
    """The numbers of owners, strands and embedders, as long as their tables do not change.

    The ledger's tally of a table says whether it is still the same; a
    transaction that has changed the table itself looks everything up.
    """

    def __init__(self) -> None:
        self._known: dict[str, tuple[list[int], dict[Any, int]]] = {}

    def of(self, name: str, tally: list[int] | None) -> dict[Any, int]:
        then, known = self._known.get(name, (None, {}))
        if then != tally or len(known) > 10_000:
            known = {}
            self._known[name] = (list(tally or ()), known)
        return known

    def forget(self) -> None:
        self._known = {}


class Write(Read):
    """A transaction that keeps the ledger in step with what it writes.

    Setting `abandoned` ends it without a trace: nothing had to be changed.
    """

    abandoned = False

    def __init__(
        self,
        connection: Connection,
        ledger: str,
        *,
        parsed: Ledger | None = None,
        numbers: Numbers | None = None,
    ) -> None:
        super().__init__(connection, ledger, parsed=parsed)
        self._numbers = Numbers() if numbers is None else numbers
        self._touched: set[str] = set()

    def numbers(self, table: Table) -> dict[Any, int]:
        """Numbers of this table that are known from before, to be looked up and added to."""
        if table.name in self._touched:
            return {}
        return self._numbers.of(table.name, self.ledger.tallies.get(table.name))

    def take(self, table: Table, count: int = 1) -> range:
        """Keys for new rows."""
        return self.ledger.take(table.name, count)

    def insert(self, table: Table, rows: Sequence[Row], *, tally: str = "") -> None:
        """Add rows, given without checksums (or sealed, for packed tables)."""
        self._touched.add(table.name)
        if table.packed:
            sums = [row_checksum(table, row) for row in rows]
        else:
            sums = [checksum(table, row) for row in rows]
            rows = [(*row, total) for row, total in zip(rows, sums, strict=True)]
        if len(rows) == 1:
            self.connection.execute(table.insert_sql, rows[0])
        else:
            self.connection.executemany(table.insert_sql, rows)
        self.ledger.add(tally or table.name, sums)

    def change(self, table: Table, row: Row, /, **values: Any) -> Row:
        """Write `values` over those of `row` (as read, without checksum); gives the new row."""
        self._touched.add(table.name)
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
        if keys:
            self._touched.add(table.name)
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

    def log(self, operation: Operation, rows: Collection[int]) -> None:
        """Tell indexes that old `rows` changed; neighbouring rows make one line.

        New rows need no line: the ledger's sequence counts rows and lines together.
        """
        runs = _runs(rows)
        if not runs:
            return
        numbers = self.take(CHANGES, len(runs))
        rows_before = self.ledger.tally(MEMORIES.name)[2]
        self.insert(
            CHANGES,
            [
                (rows_before + number, number, operation, first, last)
                for number, (first, last) in zip(numbers, runs, strict=True)
            ],
        )
        if numbers[-1] // 4096 != (numbers[0] - 1) // 4096:
            self._forget_old_changes(numbers[-1] - KEPT_CHANGES)

    def _forget_old_changes(self, last: int) -> None:
        old = self.connection.execute(CHANGES.select_sql("WHERE number <= ?"), (last,)).fetchall()
        self.ledger.remove(CHANGES.name, [row_checksum(CHANGES, row) for row in old])
        self.connection.execute("DELETE FROM changes WHERE number <= ?", (last,))

    def finish(self) -> str:
        """Write the ledger; gives it as it was written."""
        self.ledger.step()
        written = self.ledger.write()
        self.connection.execute("UPDATE ledger SET data = ? WHERE one = 1", (written,))
        return written


def _runs(rows: Collection[int]) -> list[list[int]]:
    runs: list[list[int]] = []
    for row in sorted(set(rows)):
        if runs and runs[-1][1] == row - 1:
            runs[-1][1] = row
        else:
            runs.append([row, row])
    return runs


def vectors_tally(embedder: int) -> str:
    """The ledger's name for one embedder's vectors."""
    return f"{EMBEDDINGS.name}:{embedder}"


def vector_key(embedder: int, row: int) -> int:
    return embedder << EMBEDDER_SHIFT | row
