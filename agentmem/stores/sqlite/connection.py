"""What SQLite is asked and what it says: how damage is noticed, and its errors as ours."""

from __future__ import annotations

import hashlib
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Sequence
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
from agentmem.stores.sqlite.schema import CHANGES, EMBEDDER_SHIFT, EMBEDDINGS
from agentmem.stores.tables import MEMORIES, Row, Table, corrupt

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


def in_transaction(connection: Connection) -> bool:
    return bool(getattr(connection, "in_transaction", False))


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
