"""Move everything a store holds into another kind of store: in parts, resumed, and verified.

Both kinds keep the same rows under the same numbers, so a row is copied as it is: a part is
read by key, written with a note of how far it came in the same transaction, and at the end
both sides are read once more and compared.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentmem.base.errors import InvalidInput, StoreCorrupt
from agentmem.base.protocols import EmbedderId
from agentmem.base.types import COLD_AT
from agentmem.stores.side import (
    SECRET,
    StoredSettings,
    get_value,
    mentioned,
    pack_data,
    plain_data,
    set_value,
)
from agentmem.stores.sqlite.connection import Read, Write, opened, seal, vector_key
from agentmem.stores.sqlite.memories import by_rows, pack_text, store_vectors
from agentmem.stores.sqlite.pool import Database
from agentmem.stores.sqlite.schema import CHANGES, COLD, EMBEDDINGS, INDEXED, TABLES
from agentmem.stores.sqlite.store import SqliteStore
from agentmem.stores.tables import ANY, COLUMN, MEMORIES, Row, TableReader, corrupt
from agentmem.stores.upkeep import all_embedders
from agentmem.stores.values import read_vectors, shorten

if TYPE_CHECKING:
    from agentmem.stores.postgres.connection import PostgresDatabase
    from agentmem.stores.postgres.tables import Transaction

Key = list[Any]
"""Where a part was left: the key of its last row."""
Progress = Callable[[str, int, int], None]
"""Told after each batch: the part, how many of its rows are there, how many there are."""
PARTS = (
    "owners", "strands", "sources", "memories", "usage", "embeddings", "history", "snapshots",
    "artifacts", "links", "jobs", "settings", "journal", "journal_items",
)  # fmt: skip
AT_ONCE = 500
_NOTE = "transfer"
_OWN = frozenset({_NOTE, "erase_pending"})
"""Settings that say something about one store only."""
KEPT = {table.name: table for table in TABLES}


@dataclass(frozen=True, slots=True, kw_only=True)
class Transferred:
    """What was copied: how many rows of each part there are now, the same on both sides."""

    counts: dict[str, int]
    resumed: bool


class Side(ABC):
    """One state of a store as rows of parts: numbers first, texts and bytes as they are."""

    def __init__(self, tables: TableReader) -> None:
        self._tables = tables

    @abstractmethod
    def seq(self) -> int: ...
    @abstractmethod
    def _memories(self, after: int, limit: int) -> list[Row]:
        """Rows of the table of memories, each with what indexes need of it."""

    @abstractmethod
    def _vectors(self, embedder: int, dimensions: int, after: int, limit: int) -> list[Row]:
        """Rows of one embedder, each with its vector in as few bytes as every store can give."""

    @abstractmethod
    def fill(self, part: str, rows: Sequence[Row], seq: int) -> None:
        """Add rows of a part as they are, and what the store keeps beside them."""

    def secret(self) -> str:
        return get_value(self._tables, SECRET) or ""

    def count(self, part: str) -> int:
        ((found,),) = self._tables.ask("count(*)", KEPT[part])
        return int(found)

    def rows(self, part: str, after: Key | None, limit: int) -> list[Row]:
        if part == "embeddings":
            return self._all_vectors(after, limit)
        if part == "settings":
            found = self._tables.find(KEPT[part])
            named = sorted((name, value) for _, name, value in found if name not in _OWN)
            return [row for row in named if after is None or row[0] > after[0]][:limit]
        last = 0 if after is None else after[0]
        if part == "memories":
            return self._memories(last, limit)
        key = f"t.{KEPT[part].key}"
        found = self._tables.find(
            KEPT[part], ANY, f"{key} > :beyond", order=key, limit=limit, beyond=last
        )
        if part == "snapshots":
            return [(*row[:4], mentioned(row[4]), json.loads(plain_data(row[5]))) for row in found]
        return found

    def _all_vectors(self, after: Key | None, limit: int) -> list[Row]:
        found: list[Row] = []
        spaces = sorted(
            (space.name, space.version, space.dimensions, number)
            for number, space in all_embedders(self._tables).items()
        )
        for name, version, dimensions, number in spaces:
            space = [name, version, dimensions]
            if after is not None and space < after[:3]:
                continue
            last = after[3] if after is not None and space == after[:3] else 0
            rows = self._vectors(number, dimensions, last, limit - len(found))
            found += [(*space, *row) for row in rows]
            if len(found) == limit:
                break
        return found


def written(part: str, rows: Sequence[Row]) -> Sequence[Row]:
    """Rows that `Side.rows` gave as they are stored."""
    if part != "snapshots":
        return rows
    return [
        (*row[:4], json.dumps(row[4], ensure_ascii=False, separators=(",", ":")), pack_data(row[5]))
        for row in rows
    ]


def copy_store(
    source: SqliteStore | PostgresDatabase,
    target: SqliteStore | PostgresDatabase,
    *,
    progress: Progress | None = None,
) -> Transferred:
    """Copy everything into an empty store, or go on where an earlier copy of it stopped.

    `InvalidInput` when the target has something of its own, or the source was
    changed since the copy began; `StoreCorrupt` when the sides differ at the end.
    """
    from_, to = _database(source), _database(target)
    StoredSettings(from_).secret()  # a database makes it when it is first asked for
    with _reading(from_) as given:
        name = hashlib.blake2b(given.secret().encode(), digest_size=8).hexdigest()
        seq = given.seq()
        note = _noted(to, name, seq)
        resumed = bool(note["at"])
        for part in PARTS:
            total = given.count(part)
            after, done = note["at"].get(part, (None, 0))
            while rows := given.rows(part, after, AT_ONCE):
                after, done = key_of(part, rows[-1]), done + len(rows)
                note["at"][part] = (after, done)
                to.write(partial(_fill, part, rows, seq, json.dumps(note)))
                if progress is not None:
                    progress(part, done, total)
        counts = {}
        with _reading(to) as copied:
            for part in PARTS:
                counts[part], expected = _digest(copied, part), _digest(given, part)
                if counts[part] != expected:
                    raise StoreCorrupt(
                        f"The copy differs in its {part}: {counts[part][0]:,} rows for "
                        f"{expected[0]:,}, or other ones.",
                        remedy="Nothing was changed at the source; copy into an empty store.",
                    )
    StoredSettings(to).set(_NOTE, None)
    return Transferred(counts={part: count for part, (count, _) in counts.items()}, resumed=resumed)


def _fill(part: str, rows: Sequence[Row], seq: int, note: str, write: Write | Transaction) -> None:
    """Add rows of a part, and note in the same transaction how far the copy came."""
    _side(write).fill(part, rows, seq)
    set_value(write, _NOTE, note)


def write_file(database: PostgresDatabase, path: Path) -> None:
    """A copy of a tenant as a SQLite file at `path`; never half a file."""
    from agentmem.stores.open_files import final_path

    target = final_path(path)
    if target.exists():
        raise InvalidInput("path", str(target), "exists already", remedy="Use a new name.")
    target.parent.mkdir(parents=True, exist_ok=True)
    beside = target.with_name(f"{target.name}.part")
    if beside.exists():
        beside.unlink()
    with SqliteStore(beside) as copy:
        copy_store(database, copy)
    beside.rename(target)


def key_of(part: str, row: Row) -> Key:
    """What comes after this row is asked for with this key."""
    return list(row[:4]) if part == "embeddings" else [row[0]]


def _noted(target: Database | PostgresDatabase, name: str, seq: int) -> dict[str, Any]:
    written = StoredSettings(target).get(_NOTE)
    if written is not None:
        note: dict[str, Any] = json.loads(written)
        if note["source"] != name:
            problem = "holds half a copy of another store"
        elif note["seq"] != seq:
            problem = "holds half a copy of what the source was before it changed"
        else:
            return note
    else:
        with _reading(target) as side:
            if not any(map(side.count, ("memories", "snapshots", "artifacts", "jobs"))):
                return {"source": name, "seq": seq, "at": {}}
        problem = "has memories of its own"
    raise InvalidInput("target", "…", problem, remedy="Give an empty store, or use `merge`.")


def _digest(side: Side, part: str) -> tuple[int, int]:
    """How many rows a part has, and a sum over them that no order changes."""
    count = total = 0
    after: Key | None = None
    while rows := side.rows(part, after, AT_ONCE):
        after = key_of(part, rows[-1])
        count += len(rows)
        for row in rows:
            digest = hashlib.blake2b(repr(row).encode("utf-8", "surrogatepass"), digest_size=8)
            total += int.from_bytes(digest.digest(), "little")
    return count, total & 0xFFFF_FFFF_FFFF_FFFF


def _database(store: SqliteStore | PostgresDatabase) -> Database | PostgresDatabase:
    return store._database if isinstance(store, SqliteStore) else store


@contextmanager
def _reading(database: Database | PostgresDatabase) -> Iterator[Side]:
    """One state of a store, however long it takes to read it."""
    one_state = database.reading if isinstance(database, Database) else database.one_state
    with one_state() as read:
        yield _side(read)


def _side(read: Read | Transaction) -> Side:
    if isinstance(read, Read):
        return _SqliteSide(read)
    from agentmem.stores.postgres.moving import PostgresSide

    return PostgresSide(read)


# ----------------------------------------------------------------------------
# The file's side.


class _SqliteSide(Side):
    """`Side` over one state of a file."""

    def __init__(self, read: Read) -> None:
        super().__init__(read)
        self._read = read

    def seq(self) -> int:
        return self._read.ledger.seq()

    def _memories(self, after: int, limit: int) -> list[Row]:
        found = self._read.ask(
            "row", MEMORIES, ANY, "row > :after", order="row", limit=limit, after=after
        )
        keys = [row for (row,) in found]
        at = COLUMN["text"]
        blobs: dict[int, bytes] = dict(self._read.find(INDEXED, {"row": keys}))
        return [
            (*columns[:at], memory.text, *columns[at + 1 :], opened(row, blobs[row]))
            for row, (columns, memory) in by_rows(self._read, keys).items()
        ]

    def _vectors(self, embedder: int, dimensions: int, after: int, limit: int) -> list[Row]:
        rows = self._read.rows(
            EMBEDDINGS,
            "WHERE key > ? AND key < ? ORDER BY key LIMIT ?",
            (vector_key(embedder, after), vector_key(embedder + 1, 0), limit),
        )
        first = vector_key(embedder, 0)
        return [
            (key - first, shorten(_read_vector(opened(key, data), dimensions)))
            for key, data in rows
        ]

    def fill(self, part: str, rows: Sequence[Row], seq: int) -> None:
        """Add rows of a part as they are."""
        write = self._read
        if not isinstance(write, Write):
            raise TypeError("a state that is read cannot be filled")
        if part == "settings":
            for name, value in rows:
                set_value(write, name, value)
            write.ledger.give_out(CHANGES.name, seq - write.ledger.tally(MEMORIES.name)[2])
            return
        if part == "embeddings":
            for name, version, dimensions, row, data in rows:
                space = EmbedderId(name=name, version=version, dimensions=dimensions)
                store_vectors(write, space, [(row, _read_vector(data, dimensions))])
            return
        if part == "memories":
            rows = self._put_away(write, rows)
        write.ledger.give_out(part, max(row[0] for row in rows))
        write.insert(KEPT[part], written(part, rows))

    def _put_away(self, write: Write, rows: Sequence[Row]) -> list[Row]:
        at = COLUMN["text"]
        stored: list[Row] = []
        for *columns, blob in rows:
            row = columns[0]
            if columns[at] and COLD_AT in json.loads(columns[COLUMN["metadata"]]):
                write.insert(COLD, [pack_text(row, columns[at])])
                columns[at] = ""
            write.insert(INDEXED, [(row, seal(row, blob))])
            stored.append(tuple(columns))
        return stored


def _read_vector(stored: bytes, dimensions: int) -> bytes:
    matrix = read_vectors([stored], dimensions)
    if matrix is None:
        raise corrupt("a vector has the wrong size")
    return matrix.tobytes()
