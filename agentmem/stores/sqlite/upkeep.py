"""Looking after the file: a full check, erasing what was freed, a compact copy, a backup."""

from __future__ import annotations

import secrets
import sqlite3
import time
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from agentmem.base.errors import InvalidInput, StoreBusy, StoreCorrupt, StoreError
from agentmem.base.types import Scope
from agentmem.stores.open_files import final_path, new_file, written_to
from agentmem.stores.side import get_value, set_value
from agentmem.stores.sqlite import memories
from agentmem.stores.sqlite.connection import (
    SEAL,
    Connection,
    Ledger,
    Read,
    Write,
    checked,
    integers,
    row_checksum,
    translated,
    vectors_tally,
)
from agentmem.stores.sqlite.memories import ERASE_PENDING, INTEGERS
from agentmem.stores.sqlite.opening import (
    beside,
    index_files,
    remove_bytes,
    require_our_schema,
    size_of,
)
from agentmem.stores.sqlite.pool import Database
from agentmem.stores.sqlite.schema import (
    CHANGES,
    EMBEDDER_SHIFT,
    EMBEDDINGS,
    INDEXED,
    TABLES,
    select_sql,
)
from agentmem.stores.tables import (
    COLUMN,
    EMBEDDERS,
    INDEX_FILES,
    MEMORIES,
    OWNERS,
    STRANDS,
    Row,
    Table,
)
from agentmem.stores.upkeep import BaseUpkeep, tells_of
from agentmem.stores.values import vector_sizes

# ----------------------------------------------------------------------------
# A full check: every page, every row against its checksum, every table against the ledger.


_ROW_MASK = (1 << EMBEDDER_SHIFT) - 1


def check_small(database: Database, *, below_bytes: int) -> None:
    """Refuse a damaged store when it is opened, if it is small enough to look at all of it."""
    if not 0 < size_of(database.path) <= below_bytes:
        return
    with database.reading() as read:
        for problem in problems(read):
            raise StoreCorrupt(
                f"{database.path} is damaged: {problem}.", remedy="Restore a backup."
            )


def problems(read: Read) -> Iterator[str]:
    """What is wrong, one line each; nothing for a store that is whole.

    A row that cannot be read is named, and the rest is looked at all the same.
    """
    try:
        for (said,) in read.execute("PRAGMA integrity_check"):
            if said != "ok":
                yield str(said)
    except sqlite3.Error as error:
        yield f"the pages cannot all be read ({error})"
    for table in TABLES:
        yield from _table_problems(read, table)
    yield from _disagreements(read)


class Damaged(NamedTuple):
    """A row that cannot be read, and why."""

    key: int
    problem: str


def each_row(read: Read, table: Table) -> Iterator[Row | Damaged]:
    """Every row of a table as it is stored, tested, by key; what is damaged is said and passed.

    Where a page cannot be read, each key that was ever given out is asked for by itself.
    """
    last = 0
    while True:
        try:
            for row in read.connection.execute(
                select_sql(table, f"WHERE {table.key} > ? ORDER BY {table.key}"), (last,)
            ):
                last = row[0]
                yield _tested(table, row)
            return
        except (sqlite3.Error, UnicodeDecodeError):
            pass
        for key in _keys_after(read, table, last):
            last = key
            try:
                found = read.connection.execute(
                    select_sql(table, f"WHERE {table.key} = ?"), (key,)
                ).fetchone()
            except (sqlite3.Error, UnicodeDecodeError) as error:
                yield Damaged(key=key, problem=f"cannot be read ({_short(error)})")
                continue
            if found is not None:
                yield _tested(table, found)
                break  # from here on many can be read at once again
        else:
            return


def _tested(table: Table, row: Row) -> Row | Damaged:
    try:
        checked(table, row)
    except StoreCorrupt:
        return Damaged(key=row[0], problem="does not match its checksum")
    return row


def _short(error: Exception) -> str:
    """SQLite quotes the whole text that is no text in its message."""
    return str(error).partition(" with text")[0]


def _keys_after(read: Read, table: Table, last: int) -> Iterator[int]:
    given = read.ledger.tally(table.name)[2]
    if table is EMBEDDINGS:
        rows = read.ledger.tally(MEMORIES.name)[2]
        for embedder in range(1, read.ledger.tally(EMBEDDERS.name)[2] + 1):
            first = embedder << EMBEDDER_SHIFT
            yield from range(max(last, first) + 1, first + rows + 1)
        return
    if table is CHANGES:  # numbered among the rows
        given = read.ledger.seq()
    elif not given:
        given = read.ledger.tally(MEMORIES.name)[2]
    yield from range(last + 1, given + 1)


def _table_problems(read: Read, table: Table) -> Iterator[str]:
    """Test every row of a table, and all of them together against the ledger."""
    counts: Counter[str] = Counter()
    totals: Counter[str] = Counter()
    whole = True
    for row in each_row(read, table):
        if isinstance(row, Damaged):
            whole = False
            yield f"row {row.key} of {table.name} {row.problem}"
            continue
        name = vectors_tally(row[0] >> EMBEDDER_SHIFT) if table is EMBEDDINGS else table.name
        counts[name] += 1
        totals[name] += row_checksum(table, row)
    if not whole:
        return  # that they do not add up then says nothing new
    written = {name for name in read.ledger.tallies if name.split(":")[0] == table.name}
    for name in written | set(counts):
        try:
            read.ledger.require(name, counts[name], totals[name])
        except StoreCorrupt as error:
            yield error.message


def _disagreements(read: Read) -> Iterator[str]:
    """Rows whose terms are missing or tell another story, and vectors without a row."""
    owners = {row[0] for row in _readable(read, OWNERS)}
    strands = {row[0]: row[1] for row in _readable(read, STRANDS)}
    keys: set[int] = set()
    terms = each_row(read, INDEXED)
    term = next(terms, None)
    for row in each_row(read, MEMORIES):
        key = row[0]
        keys.add(key)
        while term is not None and term[0] < key:
            yield f"row {term[0]} has terms and is not there"
            term = next(terms, None)
        own = None
        if term is not None and term[0] == key:
            own, term = term, next(terms, None)
        if isinstance(row, Damaged) or isinstance(own, Damaged):
            continue  # said before
        if own is None:
            yield f"row {key} has no terms"
            continue
        owner, strand = row[COLUMN["owner"]], row[COLUMN["strand"]]
        if owner not in owners or (strand is not None and strands.get(strand) != owner):
            yield f"row {key} belongs to nobody who is there"
        if not tells_of(own[1][:-SEAL], row):
            yield f"the terms of row {key} belong to another state of it"
    while term is not None:
        yield f"row {term[0]} has terms and is not there"
        term = next(terms, None)
    yield from _stray_vectors(read, keys)


def _readable(read: Read, table: Table) -> Iterator[Row]:
    return (row for row in each_row(read, table) if not isinstance(row, Damaged))


def _stray_vectors(read: Read, keys: set[int]) -> Iterator[str]:
    sizes = {row[0]: vector_sizes(row[3]) for row in _readable(read, EMBEDDERS)}
    for key, data in _readable(read, EMBEDDINGS):
        if key & _ROW_MASK not in keys:
            yield f"a vector belongs to row {key & _ROW_MASK}, which is not there"
        elif len(data) - SEAL not in sizes.get(key >> EMBEDDER_SHIFT, ()):
            yield f"the vector of row {key & _ROW_MASK} is not one of its embedder"


# ----------------------------------------------------------------------------
# What erasing leaves to do in the files: every free page, the log and index files (P26).


def clean_files(database: Database, *, wait_seconds: float | None = None) -> bool:
    """Finish an erasure: forget names, remove index files, rewrite the file, empty the log.

    Freed cells are overwritten with zeros as they are freed, but pages that
    SQLite rearranged may hold copies in their unused parts; only writing the
    whole file anew is certain. False when a reader of an older state kept the
    log from being emptied within `wait_seconds`; the note that this is to be
    done stays.
    """
    memories.forget_read()
    wait_seconds = database.busy_seconds if wait_seconds is None else wait_seconds
    with database.reading() as read:
        pending = get_value(read, ERASE_PENDING) is not None
        kept = {row[1] for row in read.find(INDEX_FILES)}
    if not pending:
        return True
    if not database.in_memory:
        # Found by their own names: what stands in the file may have been written by anybody.
        for file in index_files(database.path):
            if file.name not in kept:
                remove_bytes(file)
    try:
        database.vacuum(wait_seconds=wait_seconds)
        if not empty_log(database, wait_seconds=wait_seconds):
            return False
        with database.writing(wait_seconds=wait_seconds) as write:
            set_value(write, ERASE_PENDING, None)
    except StoreBusy:
        return False
    return empty_log(database, wait_seconds=wait_seconds)


def empty_log(database: Database, *, wait_seconds: float) -> bool:
    """Move the log into the file and cut it to nothing; false when somebody else prevented it."""
    deadline = time.monotonic() + wait_seconds
    while True:
        try:
            with database.alone(wait_seconds=wait_seconds) as connection:
                busy, *_ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        except StoreBusy:
            return False
        if not busy:
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)


class SqliteUpkeep(BaseUpkeep[Read, Write]):
    """`Upkeep` over the file."""

    def __init__(self, database: Database) -> None:
        super().__init__(database, memories, memories, location=str(database.path))
        self._database = database

    def _size(self, read: Read) -> dict[str, Any]:
        ((version,),) = read.execute("PRAGMA user_version")
        return {"bytes": self._bytes(read), "seq": read.ledger.seq(), "schema_version": version}

    def _bytes(self, read: Read) -> int:
        if self._database.in_memory:
            ((pages,),) = read.execute("PRAGMA page_count")
            ((size,),) = read.execute("PRAGMA page_size")
            return int(pages * size)
        path = self._database.path
        return sum(map(size_of, (path, beside(path, "-wal"), *index_files(path))))

    def _covered(self, read: Read, embedder: int, scope: Scope | None) -> tuple[int, int]:
        whose = "" if scope is None else f"AND m.owner IN {INTEGERS}"
        owners = () if scope is None else (integers(read.visible_owners(scope)),)
        ((vectors, rows),) = read.execute(
            "SELECT count(e.key), count(*) FROM memories AS m LEFT JOIN embeddings AS e "  # noqa: S608 # our own names
            f"ON e.key = ? + m.row WHERE m.deleted_at IS NULL {whose}",
            (embedder << EMBEDDER_SHIFT, *owners),
        )
        return vectors, rows - vectors

    def _problems(self, read: Read) -> Iterator[str]:
        return problems(read)

    def _counts(self, read: Read) -> dict[str, int]:
        counts = dict.fromkeys((table.name for table in TABLES), 0)
        for name, (count, *_) in read.ledger.tallies.items():
            counts[name.partition(":")[0]] += count  # vectors are counted by embedder
        return counts

    def vacuum(self) -> None:
        """Give unused space back to the device."""
        self._database.vacuum()
        empty_log(self._database, wait_seconds=0)

    def sync(self, *, at: datetime) -> None:
        """Move the log into the file, finish erasures, and note the moment."""
        clean_files(self._database, wait_seconds=0)
        super().sync(at=at)
        empty_log(self._database, wait_seconds=0)

    def backup(self, path: Path, /) -> None:
        """A consistent copy at `path`, made while others read and write; never half a file."""
        target = final_path(Path(path))
        try:
            with written_to(target, "Use another folder."):
                if target.exists():
                    raise FileExistsError
                target.parent.mkdir(parents=True, exist_ok=True)
                with self._database.reading() as read, new_file(target, replace=False) as temporary:
                    write_copy(read.connection, temporary)
        except FileExistsError:
            raise InvalidInput(
                "path", str(target), "exists already", remedy="Use a new name."
            ) from None

    def _cleaned(self) -> None:
        clean_files(self._database)


def write_copy(source: Connection, target: Path) -> None:
    """Fill an empty file with what `source` sees, as a state of its own.

    The copy's ledger is marked, so that a log of the original is never taken
    for the copy's (see `opening.py`).
    """
    if not isinstance(source, sqlite3.Connection):
        raise StoreError("This store's driver cannot make backups.")
    copy = sqlite3.connect(target, isolation_level=None)
    try:
        source.backup(copy)
        require_our_schema(copy, target)
        copy.execute("PRAGMA journal_mode = DELETE").fetchall()
        written = copy.execute("SELECT data FROM ledger").fetchone()
        ledger = Ledger(str(written[0]) if written else "")
        ledger.previous = secrets.token_hex(8)
        copy.execute("UPDATE ledger SET data = ?", (ledger.write(),))
        found = copy.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.Error as error:
        raise translated(error, str(target)) from error
    finally:
        copy.close()
    if found[0] != "ok":
        raise StoreCorrupt(f"The copy is damaged ({found[0]}).", remedy="Check the device.")
