"""Reading and writing rows so that the ledger always agrees with them."""

from __future__ import annotations

import hashlib
import re
import sqlite3
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Any, Protocol

from agentmem.base.errors import (
    InvalidInput,
    NotAStore,
    StoreBusy,
    StoreClosed,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreReadOnly,
)
from agentmem.base.filters import ALL_VISIBILITIES
from agentmem.base.types import FORGOTTEN_AT, Scope
from agentmem.stores.sqlite.schema import CHANGES, EMBEDDER_SHIFT, EMBEDDINGS, INSERT, select_sql
from agentmem.stores.tables import (
    MEMORIES,
    OWNERS,
    Lock,
    Match,
    Owner,
    Row,
    RowQuery,
    SeenBy,
    Table,
    TableReader,
    TableWriter,
    corrupt,
    owner_of,
    runs,
    scope_values,
)
from agentmem.stores.values import Operation

# ----------------------------------------------------------------------------
# How damage is noticed: a checksum in every row, and the sum of them in one place.
#
# SQLite does not check what it reads from the disk. Each row therefore ends with
# a checksum of its values, tested whenever the row is read, and the ledger holds
# for each table how many rows there are, the sum of their checksums, and the last
# key given out (keys are never given out twice). A changed row is seen when it is
# read; a row that has gone missing is seen when a whole table is read.
#
# Each ledger also names the one it was made from by its checksum, so that a log
# can be told from the log of another file (see `opening.py`).


SEAL = 4
_RESIDUE = 0x2144DF1C
"""The CRC-32 of anything followed by its own CRC-32, whatever it began with."""
_WRAP = (1 << 64) - 1


def checksum(table: Table, values: Sequence[Any]) -> int:
    """64 bits over a row's values with their types, as SQLite keeps an integer."""
    # `ascii` writes exact values of these types the same in every version of Python.
    if not _EXACT.issuperset(map(type, values)):
        values = [_plain(value) for value in values]
    return _digest(table, tuple(values))


def _digest(table: Table, values: Row) -> int:
    written = f"{table.name}{values!a}".encode("ascii")
    digest = hashlib.blake2b(written, digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


_EXACT = frozenset({str, int, float, bytes, type(None)})


def _plain(value: Any) -> Any:
    """`value` as it comes back from the file: an enum's member is its text or number."""
    for kind in (str, int, float):
        if isinstance(value, kind):
            return kind.__str__(value) if kind is str else kind(value)
    return value if value is None else bytes(value)


def seal(key: int, data: bytes) -> bytes:
    """`data` with a CRC of its key and content at the end, for tables read by the thousand."""
    return data + zlib.crc32(data, (key ^ key >> 32) & 0xFFFFFFFF).to_bytes(4, "little")


def opened(key: int, sealed: bytes) -> bytes:
    """What `seal` was given, or an error when one bit of it changed."""
    require_sealed([(key, sealed)])
    return sealed[:-SEAL]


def require_sealed(rows: Sequence[tuple[int, bytes]]) -> None:
    """Refuse a row whose blob is not the one that was sealed."""
    crc32 = zlib.crc32
    try:
        for key, sealed in rows:
            if crc32(sealed, (key ^ key >> 32) & 0xFFFFFFFF) != _RESIDUE or len(sealed) < SEAL:
                raise corrupt(f"row {key} of an index table does not match its checksum")
    except TypeError:
        raise corrupt("a row of an index table is not a blob") from None


def row_checksum(table: Table, stored: Row) -> int:
    """The checksum a stored row carries, not tested."""
    if table.packed:
        return int.from_bytes(stored[-1][-4:], "little")
    value: int = stored[-1]
    return value


def checked(table: Table, stored: Row) -> Row:
    """The values of a stored row without its checksum, or an error when they do not match it."""
    if table.packed:
        opened(stored[0], stored[1])
        return stored
    values = stored[:-1]
    if _digest(table, values) != stored[-1]:  # SQLite gives exact types
        raise corrupt(f"row {stored[0]} of {table.name} does not match its checksum")
    return values


class Ledger:
    """The counts, sums and last keys of all tables; one row of the file."""

    def __init__(self, data: str | None = None) -> None:
        self.tallies: dict[str, list[int]] = {}
        self.is_changed = False
        """Whether something was counted since it was read or written."""
        self.commits = 0
        self.previous = ""
        """The checksum of the ledger before the last commit; "" when that is not known."""
        self.check = ""
        """The checksum of this ledger as it was last read or written."""
        if data is not None:
            self._read(data)

    def _read(self, data: str) -> None:
        try:
            body, _, check = data.rpartition("#")
            if hashlib.blake2b(body.encode(), digest_size=8).hexdigest() != check:
                raise ValueError("checksum")
            commits, *tallies = body.split("|")
            number, _, self.previous = commits.partition(":")
            self.commits, self.check = int(number), check
            for written in filter(None, tallies):
                name, numbers = written.split("=")
                count, total, last = map(int, numbers.split(","))
                self.tallies[name] = [count, total, last]
        except (ValueError, UnicodeError):
            raise corrupt("its ledger cannot be read") from None

    def write(self) -> str:
        """The text that stands in the file."""
        self.is_changed = False
        tallies = [f"{name}={c},{total},{last}" for name, (c, total, last) in self.tallies.items()]
        body = f"{self.commits}:{self.previous}|{'|'.join(tallies)}"
        self.check = hashlib.blake2b(body.encode(), digest_size=8).hexdigest()
        return f"{body}#{self.check}"

    def step(self) -> None:
        """Count a commit: what is written next follows what was read or written last."""
        self.commits += 1
        self.previous = self.check

    def tally(self, name: str) -> list[int]:
        """`[count, sum of checksums, last key]` of a table, or of one embedder's vectors."""
        return self.tallies.get(name, [0, 0, 0])

    def _to_change(self, name: str) -> list[int]:
        self.is_changed = True
        return self.tallies.setdefault(name, [0, 0, 0])

    def add(self, name: str, checksums: Sequence[int]) -> None:
        tally = self._to_change(name)
        tally[0] += len(checksums)
        tally[1] = (tally[1] + sum(checksums)) & _WRAP

    def remove(self, name: str, checksums: Sequence[int]) -> None:
        tally = self._to_change(name)
        tally[0] -= len(checksums)
        tally[1] = (tally[1] - sum(checksums)) & _WRAP
        if tally[0] < 0:
            raise corrupt(f"{name} has fewer rows than were written")

    def take(self, name: str, count: int) -> range:
        """`count` keys that were never given out before."""
        tally = self._to_change(name)
        tally[2] += count
        return range(tally[2] - count + 1, tally[2] + 1)

    def give_out(self, name: str, last: int) -> None:
        """Count the keys up to `last` as given out, for rows that bring their own."""
        tally = self._to_change(name)
        tally[2] = max(tally[2], last)

    def seq(self) -> int:
        """How many rows and changes there ever were: grows with every write indexes must see."""
        return self.tally(MEMORIES.name)[2] + self.tally(CHANGES.name)[2]

    def require(self, name: str, count: int, total: int) -> None:
        """Refuse a whole table whose rows, counted and summed, are not those that were written."""
        written, wanted, _ = self.tally(name)
        if written != count or wanted != total & _WRAP:
            raise corrupt(
                f"{name} holds {count:,} rows that do not add up to the {written:,} written"
            )


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


class Read(TableReader):
    """One state of the store, to be read."""

    def __init__(self, connection: Connection, ledger: str) -> None:
        self.connection = connection
        self._written_ledger = ledger

    @cached_property
    def ledger(self) -> Ledger:
        """The tallies of this state; read when they are first asked for."""
        return Ledger(self._written_ledger)

    def rows(self, table: Table, condition: str, parameters: Sequence[Any] = ()) -> list[Row]:
        """The rows that meet `condition`, each tested against its checksum, without it."""
        found = self.connection.execute(select_sql(table, condition), parameters).fetchall()
        return [checked(table, row) for row in found]

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> list[Row]:
        return self.connection.execute(sql, parameters).fetchall()

    # `TableReader`

    blob = "BLOB"
    age = "t.embedder"
    current: Mapping[str, str] = MappingProxyType(
        {
            "deleted": "m.deleted_at IS NULL",
            "superseded": "m.superseded_by IS NULL",
            # Looked for in the text first: nearly all metadata need not be read as JSON.
            "forgotten": f"(NOT instr(m.metadata, '\"{FORGOTTEN_AT}\"') "
            f"OR json_type(m.metadata, '$.{FORGOTTEN_AT}') IS NULL)",
        }
    )
    in_metadata = "instr(m.metadata, :{})"
    most_values = 20_000
    mentions = "instr(t.mentions, :written)"

    def _find(self, table: Table, asked: RowQuery, lock: Lock, last: bool, /) -> list[Row]:
        """Tested rows; who writes has the whole file locked."""
        return self.rows(table, *self.sql_of(asked))

    def _ask(self, columns: str, table: Table, asked: RowQuery, /) -> list[Row]:
        told, given = self.sql_of(asked)
        return self.execute(f"SELECT {columns} FROM {table.name} AS t {told}", given)  # noqa: S608 # our own names

    def sql_of(self, asked: RowQuery) -> tuple[str, list[Any]]:
        """A condition as SQLite reads it, and what it asks for."""
        given = asked.given
        parameters: list[Any] = []

        def mark(found: re.Match[str]) -> str:
            value = given[found[2]]
            if not found[1]:
                parameters.append(value)
                return "?"
            ones = value
            if isinstance(value, Scope | SeenBy):
                ones = self.visible_owners(*([value] if isinstance(value, Scope) else value))
            if not isinstance(next(iter(ones), 0), str):
                parameters.append(integers(ones))
                return "IN (SELECT value FROM json_each(?))"
            # Bound one by one: SQLite ends a text from JSON at its first NUL.
            parameters.extend(ones)
            return f"IN ({', '.join('?' * len(ones))})"

        told = _NAMED.sub(mark, _OF_STORE.sub("true", asked.told))
        return f"{'WHERE' if told else ''} {told} {asked.rest}", parameters

    def owners(self, numbers: Collection[int], /) -> Mapping[int, Owner]:
        """Whom these numbers stand for."""
        found = {row[0]: owner_of(row) for row in self.find(OWNERS, {"owner": set(numbers)})}
        if len(found) != len(set(numbers)):
            raise corrupt("an owner that a row belongs to is missing")
        return found

    def visible_owners(
        self, scope: Scope, visibilities: Collection[str] = ALL_VISIBILITIES
    ) -> list[int]:
        """The owners whose memories a reader may see: `base.types.visible`, in SQL (P24)."""
        found = self.rows(OWNERS, _VISIBLE, scope_values(scope))
        return sorted(row[0] for row in found if row[1] in visibilities)

    def find_owner(self, owner: Owner, /) -> int | None:
        """The number of this owner, if it has one."""
        visibility, scope = owner
        values = (visibility, *scope_values(scope))
        found = self.find(OWNERS, dict(zip(OWNERS.unique, values, strict=True)))
        return found[0][0] if found else None


_NAMED = re.compile(r"(\bIN )?:(\w+)")  # "row IN :rows AND place > :after"
_OF_STORE = re.compile(r"\[\w+\]")  # "[m] AND m.row = first"
_VISIBLE = """
    WHERE visibility = 'system'
    OR (visibility = 'private' AND user_id IS ?1
        AND (?2 IS NULL OR project_id IS NULL OR project_id = ?2)
        AND (?3 IS NULL OR agent_id IS NULL OR agent_id = ?3)
        AND (?4 IS NULL OR run_id IS NULL OR run_id = ?4))
    OR (visibility = 'project' AND project_id IS ?2
        AND (?3 IS NULL OR agent_id IS NULL OR agent_id = ?3)
        AND (?4 IS NULL OR run_id IS NULL OR run_id = ?4))
"""


def integers(numbers: Iterable[int]) -> str:
    """Numbers as `json_each` reads them."""
    return f"[{','.join([str(int(number)) for number in numbers])}]"


Numbers = dict[str, tuple[list[int], dict[Row, int]]]
"""The tally of a table and the keys of its rows that are known, as long as that is its tally."""


class Write(Read, TableWriter):
    """A transaction that keeps the ledger in step with what it writes.

    One that changed nothing ends without a trace, unless it `must_commit`.
    """

    must_commit = False

    def __init__(
        self,
        connection: Connection,
        ledger: str,
        *,
        parsed: Ledger | None = None,
        numbers: Numbers | None = None,
    ) -> None:
        super().__init__(connection, ledger)
        if parsed is not None:
            self.ledger = parsed
        self._numbers: Numbers = {} if numbers is None else numbers

    def number(self, table: Table, values: Row) -> tuple[int, bool]:
        """The key of the row with these values, and whether it is a new one."""
        tally = self.ledger.tally(table.name)
        then, known = self._numbers.get(table.name, ([], {}))
        if then != tally or len(known) > 10_000:
            known = {}
        is_new = False
        if values not in known:
            named = dict(zip(table.columns[1:], values, strict=True))
            found = self.find(table, named)
            is_new = not found
            known[values] = found[0][0] if found else self._add(table, named)
        self._numbers[table.name] = (list(self.ledger.tally(table.name)), known)
        return known[values], is_new

    def take(self, table: Table, count: int = 1) -> range:
        """Keys for new rows."""
        return self.ledger.take(table.name, count)

    def insert(self, table: Table, rows: Sequence[Row], *, tally: str = "") -> None:
        """Add rows, given without checksums (or sealed, for packed tables)."""
        if table.packed:
            sums = [row_checksum(table, row) for row in rows]
        else:
            sums = [checksum(table, row) for row in rows]
            rows = [(*row, total) for row, total in zip(rows, sums, strict=True)]
        if len(rows) == 1:
            self.connection.execute(INSERT[table.name], rows[0])
        else:
            self.connection.executemany(INSERT[table.name], rows)
        self.ledger.add(tally or table.name, sums)

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
        if not keys:
            return []
        these = f"WHERE {table.key} IN (SELECT value FROM json_each(?))"  # noqa: S608 # our own names
        listed = (integers(keys),)
        found = self.execute(select_sql(table, these), listed)
        gone = [checked(table, row) for row in found]
        if gone:
            self.ledger.remove(tally or table.name, [row_checksum(table, row) for row in found])
            self.execute(f"DELETE FROM {table.name} {these}", listed)  # noqa: S608 # our own names
        return gone

    def log(self, operation: Operation, rows: Collection[int], /) -> None:
        """Tell indexes that old `rows` changed; neighbouring rows make one line.

        New rows need no line: the ledger's sequence counts rows and lines together.
        """
        lines = runs(rows)
        if not lines:
            return
        numbers = self.take(CHANGES, len(lines))
        rows_before = self.ledger.tally(MEMORIES.name)[2]
        self.insert(
            CHANGES,
            [
                (rows_before + number, number, operation, first, last)
                for number, (first, last) in zip(numbers, lines, strict=True)
            ],
        )
        if numbers[-1] // 4096 != (numbers[0] - 1) // 4096:
            self._forget_old_changes(numbers[-1] - KEPT_CHANGES)

    def _forget_old_changes(self, last: int) -> None:
        old = self.execute("SELECT seq FROM changes WHERE number <= ?", (last,))
        self.delete(CHANGES, [seq for (seq,) in old])

    def seq(self) -> int:
        """The number of the last change, those of this transaction included."""
        return self.ledger.seq()

    def changed(self) -> bool:
        """Whether there is anything to commit."""
        return self.must_commit or self.ledger.is_changed

    # `TableWriter`

    def add(self, table: Table, /, **values: Any) -> int | None:
        """The key of a new row; None when one with the same unique columns is there."""
        same = {name: values[name] for name in table.unique}
        if same and self.find(table, same, table.among):
            return None
        return self._add(table, values)

    def _add(self, table: Table, values: Mapping[str, Any]) -> int:
        (key,) = self.take(table)
        self.insert(table, [(key, *(values[name] for name in table.columns[1:]))])
        return key

    def add_all(self, table: Table, rows: Sequence[Mapping[str, Any]], /) -> None:
        """Add rows of a table in which nothing is unique."""
        for values in rows:
            self._add(table, values)

    def put(self, table: Table, /, **values: Any) -> None:
        """Add a row, or write over the one that has the same unique columns."""
        found = self.find(table, {name: values[name] for name in table.unique})
        if found:
            self.change(table, found[0], **values)
        else:
            self._add(table, values)

    def remove(self, table: Table, match: Match, where: str = "", /, **values: Any) -> int:
        """Remove rows for good; gives how many there were."""
        found = self.find(table, match, where, **values)
        return len(self.delete(table, [row[0] for row in found]))

    def hold(self, what: str, /) -> None:
        """Nothing: who writes has the whole file locked."""

    def owner_number(self, owner: Owner, /) -> int:
        """The number of this owner, new if it has none yet."""
        visibility, scope = owner
        return self.number(OWNERS, (visibility, *scope_values(scope)))[0]

    def finish(self) -> str:
        """Write the ledger; gives it as it was written."""
        self.ledger.step()
        written = self.ledger.write()
        self.connection.execute("UPDATE ledger SET data = ? WHERE one = 1", (written,))
        return written


def vectors_tally(embedder: int) -> str:
    """The ledger's name for one embedder's vectors."""
    return f"{EMBEDDINGS.name}:{embedder}"


def vector_key(embedder: int, row: int) -> int:
    return embedder << EMBEDDER_SHIFT | row


# ----------------------------------------------------------------------------
# SQLite's errors as ours, in one place.


BUSY, LOCKED, READONLY, IOERR, CORRUPT, FULL, CANTOPEN = 5, 6, 8, 10, 11, 13, 14
PROTOCOL, TOOBIG, NOTADB, CONSTRAINT = 15, 18, 26, 19
_GENERIC = 1


def code_of(error: BaseException) -> int:
    """SQLite's primary result code, or 0 when the error carries none."""
    return int(getattr(error, "sqlite_errorcode", 0) or 0) & 0xFF


def is_busy(error: BaseException) -> bool:
    """Whether trying again later can help."""
    return code_of(error) in (BUSY, LOCKED, PROTOCOL)


def translated(error: sqlite3.Error, where: str) -> StoreError | InvalidInput:
    """The typed error for what SQLite said about the store at `where`."""
    code, said = code_of(error), str(error)
    if is_busy(error):
        return StoreBusy(
            f"Another writer held {where} for too long.",
            remedy="Try again, or raise busy_seconds.",
        )
    if code == FULL:
        return StoreFull(
            f"There is no room left for {where}.",
            remedy="Free some space; everything acknowledged before is safe.",
        )
    if code == READONLY:
        return StoreReadOnly(
            f"{where} cannot be written.", remedy="Check the permissions of the file and folder."
        )
    if code == CANTOPEN:
        return StoreReadOnly(
            f"{where} cannot be opened ({said}).",
            remedy="Check that the folder exists and that you may write to it.",
        )
    if code == NOTADB:
        return NotAStore(
            f"{where} is not an agentmem store.", remedy="It was left as it is; use another path."
        )
    if code == TOOBIG:
        return InvalidInput("text", said, "is larger than SQLite can keep", remedy="Cut it.")
    if code == IOERR:
        return StoreError(
            f"The disk failed under {where} ({said}).",
            remedy="Check the device; everything acknowledged before is safe.",
        )
    if isinstance(error, sqlite3.ProgrammingError) and "closed" in said:
        return closed(where)
    # Our statements are fixed and our schema is checked, so what is left is damage:
    # a column that is gone, text that is not UTF-8, a constraint that cannot fail.
    if code in (CORRUPT, CONSTRAINT, _GENERIC) or isinstance(error, sqlite3.DatabaseError):
        return StoreCorrupt(
            f"{where} is damaged ({said}).", remedy="Restore a backup, or run `agentmem doctor`."
        )
    return StoreError(f"{where}: {said}.")


def closed(where: str) -> StoreClosed:
    return StoreClosed(f"{where} was closed.", remedy="Open it again with agentmem.open().")


class typed:  # noqa: N801 - used as `with typed(where):`, and cheaper than a generator
    """Raise our errors for SQLite's inside the block."""

    __slots__ = ("_where",)

    def __init__(self, where: str) -> None:
        self._where = where

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, sqlite3.Error):
            raise translated(error, self._where) from error
        if isinstance(error, UnicodeDecodeError):  # SQLite quotes the damaged text in its message
            raise StoreCorrupt(f"{self._where} is damaged.", remedy="Restore a backup.") from error
