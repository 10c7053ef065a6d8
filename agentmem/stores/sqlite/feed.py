"""What indexes are built from: rows as arrays, vectors as a matrix, and what changed since."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from agentmem.base.checks import require_count
from agentmem.base.errors import InvalidText
from agentmem.base.protocols import EmbedderId
from agentmem.stores.sqlite.connection import (
    SEAL,
    Read,
    Write,
    integers,
    require_sealed,
    row_checksum,
    vector_key,
    vectors_tally,
)
from agentmem.stores.sqlite.memories import INTEGERS, find_embedder, store_vectors
from agentmem.stores.sqlite.pool import Database
from agentmem.stores.sqlite.schema import CHANGES, COLD, EMBEDDINGS, INDEXED, select_sql
from agentmem.stores.sqlite.upkeep import Damaged, each_row
from agentmem.stores.tables import EMBEDDERS, MEMORIES, Reads, Row, corrupt
from agentmem.stores.upkeep import BaseFeed, updated_in
from agentmem.stores.values import (
    Change,
    Changes,
    IndexFile,
    IndexRows,
    read_vectors,
    to_index_rows,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


_SAME_PLACE = """
    SELECT p.row FROM memories AS m JOIN memories AS p
    ON p.owner = m.owner AND p.strand = m.strand AND p.place = m.place AND p.row < m.row
    WHERE m.row = ? AND m.deleted_at IS NULL AND p.deleted_at IS NULL
    ORDER BY p.row DESC LIMIT 1
"""
_EARLIER_PLACE = """
    SELECT p.row FROM memories AS m JOIN memories AS p
    ON p.owner = m.owner AND p.strand = m.strand AND p.place < m.place
    WHERE m.row = ? AND m.deleted_at IS NULL AND p.deleted_at IS NULL
    ORDER BY p.place DESC, p.row DESC LIMIT 1
"""
_LARGEST = (1 << 40) - 1
_VECTORS_AT_ONCE = 4096


class SqliteFeed(BaseFeed[Read, Write]):
    """`Feed` over the file."""

    def __init__(self, database: Database, reads: Reads[Read]) -> None:
        super().__init__(database, reads)
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
            lines = _lines_since(read, since_seq)
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
            number = find_embedder(read, embedder)
            if number is None:
                return np.empty(0, np.int64), np.empty((0, embedder.dimensions), np.float32)
            first = vector_key(number, 0)
            if rows is None:
                condition = "WHERE key BETWEEN ? AND ? ORDER BY key"
                asked: tuple[Any, ...] = (first + 1, first + _LARGEST)
            else:
                condition = f"WHERE key IN {INTEGERS} ORDER BY key"
                asked = (integers([first + int(row) for row in rows]),)
            found = iter(read.connection.execute(select_sql(EMBEDDINGS, condition), asked))
            keys: list[NDArray[np.int64]] = []
            parts: list[NDArray[np.float32]] = []
            count = total = 0
            # A part at a time: all blobs beside the matrix would take its memory three times.
            while stored := list(islice(found, _VECTORS_AT_ONCE)):
                require_sealed(stored)
                count += len(stored)
                total += sum([row_checksum(EMBEDDINGS, row) for row in stored])
                keys.append(np.array([key - first for key, _ in stored], dtype=np.int64))
                parts.append(_unpacked(stored, embedder))
            if rows is None:
                read.ledger.require(vectors_tally(number), count, total)
        if not parts:
            return np.empty(0, np.int64), np.empty((0, embedder.dimensions), np.float32)
        return np.concatenate(keys), _joined(parts, count)

    def _add_vectors(
        self, write: Write, embedder: EmbedderId, packed: Mapping[int, bytes], seq: int | None
    ) -> list[int]:
        there = {row for (row,) in write.ask("row", MEMORIES, {"row": packed})}
        new = there - (set() if seq is None else _updated_since(write, seq, packed))
        number = find_embedder(write, embedder)
        if number is not None:
            keys = [vector_key(number, row) for row in new]
            known = write.ask("key", EMBEDDINGS, {"key": keys})
            new -= {key - vector_key(number, 0) for (key,) in known}
        rows = sorted(new)
        if rows:
            store_vectors(write, embedder, [(row, packed[row]) for row in rows])
        return rows

    def missing_vectors(self, embedder: EmbedderId, *, limit: int = 256) -> tuple[int, ...]:
        """Rows that are not deleted and have no vector of this embedder, oldest first."""
        with self._database.reading() as read:
            number = find_embedder(read, embedder)
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
            number = find_embedder(write, embedder)
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


def _unpacked(stored: Sequence[Row], embedder: EmbedderId) -> NDArray[np.float32]:
    """The vectors of sealed rows, as lines of a matrix."""
    matrix = read_vectors([blob[:-SEAL] for _, blob in stored], embedder.dimensions)
    if matrix is None:
        raise corrupt(f"a vector of {embedder} has the wrong size")
    return matrix


def _joined(parts: list[NDArray[np.float32]], count: int) -> NDArray[np.float32]:
    """One matrix of all parts, each let go as soon as it is copied."""
    import numpy as np

    if len(parts) == 1:
        return parts[0]
    matrix = np.empty((count, parts[0].shape[1]), dtype=np.float32)
    start = 0
    parts.reverse()
    while parts:
        part = parts.pop()
        matrix[start : start + len(part)] = part
        start += len(part)
    return matrix


def _lines_since(read: Read, seq: int) -> tuple[int, list[Row]] | None:
    """How many lines of the change log stand before `seq`, and those after it.

    None when the log does not reach back that far. What is not in the log
    between two lines are new rows, one a number.
    """
    if seq > read.ledger.seq():
        return None
    earlier = read.rows(CHANGES, "WHERE seq <= ? ORDER BY seq DESC LIMIT 1", (seq,))
    later = read.rows(CHANGES, "WHERE seq > ? ORDER BY seq", (seq,))
    last = read.ledger.tally(CHANGES.name)[2]
    before = int(earlier[0][1]) if earlier else 0
    numbers = [row[1] for row in later]
    if numbers == list(range(before + 1, last + 1)):
        return before, later
    if earlier or numbers != list(range(last - len(numbers) + 1, last + 1)):
        raise corrupt("its change log has gaps")
    return None


def _updated_since(read: Read, seq: int, rows: Collection[int]) -> set[int]:
    lines = _lines_since(read, seq)
    if lines is None:
        return set(rows)
    return updated_in(rows, lines[1])


def _previous(read: Read, row: int) -> int:
    found = read.execute(_SAME_PLACE, (row,)) or read.execute(_EARLIER_PLACE, (row,))
    return int(found[0][0]) if found else 0
