"""Looking after the file: a full check, what erasing leaves to do, a backup; what indexes read."""

from __future__ import annotations

import secrets
import sqlite3
import time
from collections import Counter
from collections.abc import Collection, Iterator
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from agentmem.base.checks import require_count
from agentmem.base.errors import InvalidInput, InvalidText, StoreBusy, StoreCorrupt, StoreError
from agentmem.base.protocols import EmbedderId
from agentmem.base.types import Scope
from agentmem.stores.open_files import final_path, new_file, written_to
from agentmem.stores.side import get_value, set_value
from agentmem.stores.sqlite.connection import (
    SEAL,
    Connection,
    Ledger,
    checked,
    require_sealed,
    row_checksum,
    translated,
    vector_key,
    vectors_tally,
)
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
    COLD,
    EMBEDDER_SHIFT,
    EMBEDDINGS,
    INDEXED,
    TABLES,
    select_sql,
)
from agentmem.stores.sqlite.transaction import ERASE_PENDING, INTEGERS, Read, forget_read, integers
from agentmem.stores.tables import (
    COLUMN,
    EMBEDDERS,
    INDEX_FILES,
    MEMORIES,
    OWNERS,
    STRANDS,
    Row,
    Table,
    corrupt,
)
from agentmem.stores.upkeep import BaseFeed, BaseUpkeep, tells_of
from agentmem.stores.values import (
    Change,
    Changes,
    IndexFile,
    IndexRows,
    read_vectors,
    to_index_rows,
    vector_sizes,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


# ----------------------------------------------------------------------------
# A full check: every page, every row against its checksum, every table against the ledger.


_ROW_MASK = (1 << EMBEDDER_SHIFT) - 1


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
    sizes = {row[0]: vector_sizes(row[3]) for row in _readable(read, EMBEDDERS)}
    for key, data in _readable(read, EMBEDDINGS):
        if key & _ROW_MASK not in keys:
            yield f"a vector belongs to row {key & _ROW_MASK}, which is not there"
        elif len(data) - SEAL not in sizes.get(key >> EMBEDDER_SHIFT, ()):
            yield f"the vector of row {key & _ROW_MASK} is not one of its embedder"


def _readable(read: Read, table: Table) -> Iterator[Row]:
    return (row for row in each_row(read, table) if not isinstance(row, Damaged))


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
    forget_read()
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


class SqliteUpkeep(BaseUpkeep[Read]):
    """`Upkeep` over the file."""

    def __init__(self, database: Database) -> None:
        super().__init__(database, location=str(database.path))
        self._database = database

    def _size(self, read: Read) -> dict[str, Any]:
        ((version,),) = read.execute("PRAGMA user_version")
        return {"bytes": self._bytes(read), "seq": read.last_seq(), "schema_version": version}

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


# ----------------------------------------------------------------------------
# What indexes are built from: rows as arrays, vectors as a matrix, and what changed since.


# In two parts, as `transaction._NEXT` is.
_PREVIOUS = """
    SELECT row FROM (
        SELECT row, 0 AS earlier FROM (SELECT p.row FROM memories AS m JOIN memories AS p
            ON p.owner = m.owner AND p.strand = m.strand AND p.place = m.place AND p.row < m.row
            WHERE m.row = ?1 AND m.deleted_at IS NULL AND p.deleted_at IS NULL
            ORDER BY p.row DESC LIMIT 1)
        UNION ALL SELECT row, 1 FROM (SELECT p.row FROM memories AS m JOIN memories AS p
            ON p.owner = m.owner AND p.strand = m.strand AND p.place < m.place
            WHERE m.row = ?1 AND m.deleted_at IS NULL AND p.deleted_at IS NULL
            ORDER BY p.place DESC, p.row DESC LIMIT 1))
    ORDER BY earlier LIMIT 1
"""
_LARGEST = (1 << 40) - 1
_VECTORS_AT_ONCE = 4096


class SqliteFeed(BaseFeed):
    """`Feed` over the file."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._database = database

    def seq(self) -> int:
        """The number of the last change that indexes must know of."""
        return self._database.ledger().seq()

    def data_version(self) -> int:
        """Changes whenever any process committed; cheaper than `seq`."""
        return self._database.data_version()

    def changes(self, since_seq: int, /) -> Changes:
        """What was written after `since_seq`, oldest first."""
        require_count(since_seq, "since_seq")
        if since_seq == self._database.ledger().seq():
            return Changes(seq=since_seq, complete=True, items=())
        with self._database.reading() as read:
            last, last_row = read.ledger.seq(), read.ledger.tally(MEMORIES.name)[2]
            lines = read.lines_since(since_seq)
        if lines is None:
            return Changes(seq=last, complete=False, items=())
        before, later = lines
        items = [
            Change(seq=seq, operation=operation, first=first, last=final)
            for seq, _, operation, first, final in later
        ]
        if since_seq - before < last_row:
            new = Change(seq=last, operation="put", first=since_seq - before + 1, last=last_row)
            items.insert(0, new)
        return Changes(seq=last, complete=True, items=tuple(items))

    def index_rows(
        self,
        *,
        after_row: int = 0,
        limit: int | None = None,
        rows: Collection[int] | None = None,
    ) -> IndexRows:
        """Everything an index needs of all rows, of those after one, or of these."""
        everything = rows is None and after_row == 0 and limit is None
        with self._database.reading() as read:
            condition = "WHERE row > ? ORDER BY row LIMIT ?"
            asked: Row = (after_row, -1 if limit is None else require_count(limit, "limit"))
            if rows is not None:
                condition, asked = f"WHERE row IN {INTEGERS} ORDER BY row", (integers(rows),)
            stored = read.execute(select_sql(INDEXED, condition), asked)
            require_sealed(stored)
            if everything:
                total = sum([row_checksum(INDEXED, row) for row in stored])
                read.ledger.require(INDEXED.name, len(stored), total)
            keys = [key for key, _ in stored]
            previous = None if everything else [_previous(read, key) for key in keys]
        blobs = [data for _, data in stored]
        return to_index_rows(keys, blobs, trailing=SEAL, previous=previous)

    def vectors(
        self, embedder: EmbedderId, *, rows: Collection[int] | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """The rows that have a vector of this embedder, ascending, and the vectors."""
        import numpy as np

        with self._database.reading() as read:
            number = read.find_embedder(embedder)
            if number is None:
                return np.empty(0, np.int64), np.empty((0, embedder.dimensions), np.float32)
            first, tally = vector_key(number, 0), vectors_tally(number)
            if rows is None:
                most = read.ledger.tally(tally)[0]
                condition = "WHERE key BETWEEN ? AND ? ORDER BY key"
                asked: tuple[Any, ...] = (first + 1, first + _LARGEST)
            else:
                most = len(rows)
                condition = f"WHERE key IN {INTEGERS} ORDER BY key"
                asked = (integers([first + int(row) for row in rows]),)
            keys = np.empty(most, np.int64)
            matrix = np.empty((most, embedder.dimensions), np.float32)
            found = iter(read.connection.execute(select_sql(EMBEDDINGS, condition), asked))
            count = total = 0
            # A part at a time: all blobs beside the matrix would take its memory three times.
            while stored := list(islice(found, _VECTORS_AT_ONCE)):
                require_sealed(stored)
                total += sum([row_checksum(EMBEDDINGS, row) for row in stored])
                part = slice(count, count + len(stored))
                count = part.stop
                if count > most:
                    break  # more than were written
                keys[part] = [key - first for key, _ in stored]
                vectors = read_vectors([blob[:-SEAL] for _, blob in stored], embedder.dimensions)
                if vectors is None:
                    raise corrupt(f"a vector of {embedder} has the wrong size")
                matrix[part] = vectors
            if rows is None:
                read.ledger.require(tally, count, total)
        return keys[:count], matrix[:count]

    def missing_vectors(self, embedder: EmbedderId, *, limit: int = 256) -> tuple[int, ...]:
        """Rows that are not deleted and have no vector of this embedder, oldest first."""
        with self._database.reading() as read:
            number = read.find_embedder(embedder)
            vectors = 0 if number is None else read.ledger.tally(vectors_tally(number))[0]
            if vectors == read.ledger.tally(MEMORIES.name)[0]:
                return ()  # every row has one: no need to look at each
            found = read.execute(
                "SELECT m.row FROM memories AS m LEFT JOIN embeddings AS e ON e.key = ? + m.row "
                "WHERE e.key IS NULL AND m.deleted_at IS NULL ORDER BY m.row LIMIT ?",
                (vector_key(number or 0, 0), require_count(limit, "limit")),
            )
        return tuple(row for (row,) in found)

    def readable_rows(self) -> tuple[NDArray[np.int64], tuple[str, ...]]:
        """The rows of all memories that can be read, and what is wrong with the others."""
        import numpy as np

        keys: list[int] = []
        problems: list[str] = []
        with self._database.reading() as read:
            for row in each_row(read, MEMORIES):
                if isinstance(row, Damaged):
                    problems.append(f"row {row.key}: {row.problem}")
                else:
                    keys.append(row[0])
            gone = read.ledger.tally(MEMORIES.name)[0] - len(keys) - len(problems)
        if gone > 0:
            problems.append(f"{gone:,} rows are gone")
        return np.array(keys, np.int64), tuple(problems)

    def cold_count(self) -> int:
        """How many memories were put away."""
        return self._database.ledger().tally(COLD.name)[0]

    def drop_vectors(self, embedder: EmbedderId, /) -> int:
        """Remove every vector of an embedder that is no longer used."""
        with self._database.writing() as write:
            number = write.find_embedder(embedder)
            if number is None:
                return 0
            first = vector_key(number, 0)
            span = (first, first + _LARGEST)
            found = write.execute("SELECT key FROM embeddings WHERE key BETWEEN ? AND ?", span)
            gone = write.delete(EMBEDDINGS, [key for (key,) in found], tally=vectors_tally(number))
            write.delete(EMBEDDERS, [number])
            write.log("vectors", [key - first for key, *_ in gone])
        return len(gone)

    def keep_index_file(self, file: IndexFile, /) -> bool:
        """Take note of a file saved beside the store; false when it may hold what was erased."""
        if self._database.path.name in (file.name, file.name.rpartition("-")[0]):
            raise InvalidText("name", file.name, "is a file of the store itself")
        return super().keep_index_file(file)


def _previous(read: Read, row: int) -> int:
    found = read.execute(_PREVIOUS, (row,))
    return int(found[0][0]) if found else 0
