"""How damage is noticed: a checksum in every row, and the sum of them in one place.

SQLite does not check what it reads from the disk. Each row therefore ends with
a checksum of its values, tested whenever the row is read, and the ledger holds
for each table how many rows there are, the sum of their checksums, and the last
key given out (keys are never given out twice). A changed row is seen when it is
read; a row that has gone missing is seen when a whole table is read.

Each ledger also names the one it was made from by its checksum, so that a log
can be told from the log of another file (see `logs.py`).
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Sequence
from typing import Any

from agentmem.errors import StoreCorrupt
from agentmem.stores.sqlite.schema import CHANGES, MEMORIES, Table

SEAL = 4
_RESIDUE = 0x2144DF1C
"""The CRC-32 of anything followed by its own CRC-32, whatever it began with."""
_WRAP = (1 << 64) - 1
Row = tuple[Any, ...]


def corrupt(what: str) -> StoreCorrupt:
    """The error for a damaged file, with what was found."""
    return StoreCorrupt(
        f"The store is damaged: {what}.",
        remedy="Restore a backup, or run `agentmem doctor` to see all of it.",
    )


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
    return data + zlib.crc32(data, _seed(key)).to_bytes(4, "little")


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


def _seed(key: int) -> int:
    return (key ^ key >> 32) & 0xFFFFFFFF


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
        self._written: dict[str, str] = {}
        self._changed: set[str] = set()
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
                self._written[name] = written
                count, total, last = map(int, numbers.split(","))
                self.tallies[name] = [count, total, last]
        except (ValueError, UnicodeError):
            raise corrupt("its ledger cannot be read") from None

    def write(self) -> str:
        """The text that stands in the file."""
        for name in self._changed:
            count, total, last = self.tallies[name]
            self._written[name] = f"{name}={count},{total},{last}"
        self._changed.clear()
        body = f"{self.commits}:{self.previous}|{'|'.join(self._written.values())}"
        self.check = hashlib.blake2b(body.encode(), digest_size=8).hexdigest()
        return f"{body}#{self.check}"

    def step(self) -> None:
        """Count a commit: what is written next follows what was read or written last."""
        self.commits += 1
        self.previous = self.check

    def tally(self, name: str) -> list[int]:
        """`[count, sum of checksums, last key]` of a table, or of one embedder's vectors."""
        tally = self.tallies.get(name)
        if tally is None:
            tally = self.tallies[name] = [0, 0, 0]
        return tally

    def _to_change(self, name: str) -> list[int]:
        self._changed.add(name)
        return self.tally(name)

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

    def seq(self) -> int:
        """How many rows and changes there ever were: grows with every write indexes must see."""
        return self.tally(MEMORIES.name)[2] + self.tally(CHANGES.name)[2]

    def require(self, name: str, checksums: Sequence[int]) -> None:
        """Refuse a whole table whose rows are not those that were written."""
        self.require_total(name, len(checksums), sum(checksums))

    def require_total(self, name: str, count: int, total: int) -> None:
        """The same for a table that was counted and summed while it was read."""
        written, wanted, _ = self.tallies.get(name, (0, 0, 0))
        if written != count or wanted != total & _WRAP:
            raise corrupt(
                f"{name} holds {count:,} rows that do not add up to the {written:,} written"
            )
