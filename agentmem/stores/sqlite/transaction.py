"""One transaction on the file: rows of its tables, and memories, so that the ledger agrees."""

from __future__ import annotations

import json
import re
import sqlite3
import zlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from itertools import accumulate, groupby
from operator import itemgetter
from types import MappingProxyType
from typing import Any

from agentmem.base.errors import DuplicateRecord, InvalidInput
from agentmem.base.filters import ALL_VISIBILITIES
from agentmem.base.protocols import EmbedderId
from agentmem.base.types import COLD_AT, FORGOTTEN_AT, UNUSED, Memory, Scope, Usage, is_cold
from agentmem.stores.side import set_value
from agentmem.stores.sqlite.connection import (
    CONSTRAINT,
    Connection,
    Ledger,
    checked,
    checksum,
    code_of,
    in_transaction,
    opened,
    row_checksum,
    seal,
    vector_key,
    vectors_tally,
)
from agentmem.stores.sqlite.schema import (
    CHANGES,
    COLD,
    EMBEDDINGS,
    INDEXED,
    INSERT,
    STORED,
    select_sql,
)
from agentmem.stores.tables import (
    ANY,
    COLUMN,
    EMBEDDERS,
    MEMORIES,
    NO_STRAND,
    OWNERS,
    STRANDS,
    USAGE,
    Found,
    Lock,
    Match,
    Owner,
    Place,
    Row,
    RowQuery,
    SeenBy,
    Strand,
    Table,
    TableReader,
    TableWriter,
    corrupt,
    memory_of,
    memory_values,
    owned_by,
    owner_of,
    place_in,
    runs,
    scope_values,
    seen_condition,
    usage_of,
    usage_values,
)
from agentmem.stores.upkeep import all_embedders, updated_in
from agentmem.stores.values import (
    Entry,
    Operation,
    flags_of,
    pack,
    read_vectors,
    shorten,
    shortest,
    unpack_terms,
)
from agentmem.stores.writing import keep_version, refuse_circles, supersession_edges

KEPT_CHANGES = 100_000
ERASE_PENDING = "erase_pending"
"""The setting that says that what was erased is still to be taken out of the files."""
INTEGERS = "(SELECT value FROM json_each(?))"
"""SQL for "one of these", with `integers(...)` as its parameter."""
_FEW = 32
"""So many numbers are sooner bound one by one than read from a list."""
_MOST_NUMBERS = 20_000
"""The numbers of so many owners, strands and embedders are remembered."""
_OWNER, _STRAND, _TEXT = COLUMN["owner"], COLUMN["strand"], COLUMN["text"]
_JOINS = """
    FROM memories AS m LEFT JOIN usage AS u ON u.row = m.row
    LEFT JOIN owners AS o ON o.owner = m.owner LEFT JOIN strands AS s ON s.strand = m.strand
    LEFT JOIN cold AS c ON c.row = m.row """
_JOINED = {
    "m": STORED["memories"], "u": STORED["usage"][1:], "o": STORED["owners"][1:],
    "s": STORED["strands"][2:], "c": STORED["cold"][1:],
}  # fmt: skip
"""What is read of each; the numbers that they begin with stand in the memory."""
_ENDS = tuple(accumulate(map(len, _JOINED.values())))
_PARTS = tuple(map(slice, (0, *_ENDS), _ENDS))
_SELECT = "SELECT {}{}".format(
    ", ".join(f"{alias}.{name}" for alias, names in _JOINED.items() for name in names), _JOINS
)
"""A memory with its usage, whose it is, what it belongs to, and its text if that was put away."""
_NAMED = re.compile(r"(\bIN )?:(\w+)")  # "row IN :rows AND place > :after"
_OF_STORE = re.compile(r"\[\w+\]")  # "[m] AND m.row = first"
_OWNERS = f"SELECT {', '.join(STORED['owners'])} FROM owners AS o"  # noqa: S608 # our own names
# In two parts: SQLite would go through all rows of the same place to compare both at once.
_NEXT = """
    SELECT row FROM (
        SELECT row, 0 AS later FROM (SELECT row FROM memories
            WHERE owner = ?1 AND strand = ?2 AND place = ?3 AND row > ?4 AND deleted_at IS NULL
            ORDER BY row LIMIT 1)
        UNION ALL SELECT row, 1 FROM (SELECT row FROM memories
            WHERE owner = ?1 AND strand = ?2 AND place > ?3 AND deleted_at IS NULL
            ORDER BY place, row LIMIT 1))
    ORDER BY later LIMIT 1
"""


def integers(numbers: Iterable[int]) -> str:
    """Numbers as `json_each` reads them."""
    return f"[{','.join([str(int(number)) for number in numbers])}]"


@lru_cache(maxsize=512)
def _split(told: str) -> tuple[str, ...]:
    """A condition cut at its names: what stands before each, whether it is one of several, it."""
    return tuple(_NAMED.split(_OF_STORE.sub("true", told)))


# ----------------------------------------------------------------------------
# A memory as it is read.


@lru_cache(maxsize=2_000)
def _memory_of(stored: Row) -> Memory:
    """The memory of a row that `_SELECT` found, tested; the same row needs no second look."""
    memory, usage, owner, strand, (cold,) = (stored[part] for part in _PARTS)
    row = checked(MEMORIES, memory)
    try:
        return memory_of(
            row,
            _owner_of((row[_OWNER], *owner)),
            NO_STRAND if row[_STRAND] is None else _strand_of((row[_STRAND], row[_OWNER], *strand)),
            UNUSED if usage[0] is None else usage_of(checked(USAGE, (row[0], *usage))),
            row[_TEXT] or _unpack_text(row[0], cold),
        )
    except (InvalidInput, ValueError, OverflowError, TypeError, KeyError) as error:
        raise corrupt(f"a row cannot be read ({error})") from error


@lru_cache(maxsize=10_000)
def _owner_of(stored: Row) -> Owner:
    return owner_of(checked(OWNERS, stored))


@lru_cache(maxsize=10_000)
def _strand_of(stored: Row) -> Strand:
    _, owner, url, session = checked(STRANDS, stored)
    return owner, url, session


def forget_read() -> None:
    """Keep nothing of what was read, as after an erasure."""
    for cache in (_memory_of, _owner_of, _strand_of):
        cache.cache_clear()


def _unpack_text(key: int, data: bytes | None) -> str:
    """The text in a row of the table of cold texts; none where there is no row."""
    if data is None:
        return ""
    try:
        return zlib.decompress(opened(key, data)).decode("utf-8")
    except (zlib.error, UnicodeDecodeError):
        raise corrupt("a cold text cannot be unpacked") from None


class Read(TableReader):
    """One state of the store, to be read; it is begun with the first question.

    A question that is the last one, too, sees one state by itself: then nothing is begun.
    """

    _begun = False
    _written_ledger = ""

    def __init__(
        self,
        connection: Connection,
        retrying: Callable[[Callable[[], Any]], Any] = lambda attempt: attempt(),
    ) -> None:
        self._connection = connection
        self._retrying = retrying

    @property
    def connection(self) -> Connection:
        """What this state is read with."""
        self._require_begun()
        return self._connection

    def _require_begun(self) -> None:
        if not self._begun:
            self._written_ledger = self._retrying(self._begin)
            self._begun = True

    def _begin(self) -> str:
        if not in_transaction(self._connection):
            self._connection.execute("BEGIN")
        return written_ledger(self._connection)

    @cached_property
    def ledger(self) -> Ledger:
        """The tallies of this state; read when they are first asked for."""
        self._require_begun()
        return Ledger(self._written_ledger)

    def rows(
        self, table: Table, condition: str, parameters: Sequence[Any] = (), *, last: bool = False
    ) -> list[Row]:
        """The rows that meet `condition`, each tested against its checksum, without it."""
        found = self.execute(select_sql(table, condition), parameters, last=last)
        return [checked(table, row) for row in found]

    def execute(self, sql: str, parameters: Sequence[Any] = (), *, last: bool = False) -> list[Row]:
        """What a statement gives."""
        found: list[Row]
        if last and not self._begun:
            found = self._retrying(lambda: self._connection.execute(sql, parameters).fetchall())
        else:
            found = self.connection.execute(sql, parameters).fetchall()
        return found

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
        return self.rows(table, *self._sql_of(asked), last=last)

    def _ask(self, columns: str, table: Table, asked: RowQuery, /) -> list[Row]:
        told, given = self._sql_of(asked)
        return self.execute(f"SELECT {columns} FROM {table.name} AS t {told}", given)  # noqa: S608 # our own names

    def _memories(self, asked: RowQuery, lock: bool = False, last: bool = False, /) -> list[Found]:
        told, given = self._sql_of(asked)
        found = self.execute(f"{_SELECT}{told}", given, last=last)
        return [Found(stored[: len(MEMORIES.columns)], _memory_of(stored)) for stored in found]

    def _of_memories(
        self, columns: str, asked: RowQuery, /, *, joined: bool = False, last: bool = False
    ) -> list[Row]:
        told, given = self._sql_of(asked)
        source = _JOINS if joined else "FROM memories AS m"
        return self.execute(f"SELECT {columns} {source} {told}", given, last=last)

    def _sql_of(self, asked: RowQuery) -> tuple[str, list[Any]]:
        """A condition as SQLite reads it, and what it asks for."""
        given = asked.given
        parameters: list[Any] = []
        told, *names = _split(asked.told)
        for several, name, rest in zip(names[::3], names[1::3], names[2::3], strict=True):
            value = given[name]
            if isinstance(value, Scope | SeenBy):
                value = self.visible_owners(*([value] if isinstance(value, Scope) else value))
            if not several:
                parameters.append(value)
                told += "?"
            elif len(value) > _FEW and not isinstance(next(iter(value)), str):
                parameters.append(integers(value))
                told += f"IN {INTEGERS}"
            else:  # texts always: SQLite ends one from JSON at its first NUL
                parameters.extend(value)
                told += f"IN ({', '.join('?' * len(value))})"
            told += rest
        return f"{'WHERE ' if told else ''}{told}{asked.rest}", parameters

    def owners(self, numbers: Collection[int], /) -> Mapping[int, Owner]:
        """Whom these numbers stand for."""
        found = {row[0]: owner_of(row) for row in self.find(OWNERS, {"owner": set(numbers)})}
        if len(found) != len(set(numbers)):
            raise corrupt("an owner that a row belongs to is missing")
        return found

    def visible_owners(
        self, scope: Scope, visibilities: Collection[str] = ALL_VISIBILITIES
    ) -> list[int]:
        """The owners whose memories a reader may see (P24)."""
        told, values = seen_condition(scope, visibilities)
        where, given = self._sql_of(RowQuery(ANY, told, values))
        found = self.execute(f"{_OWNERS} {where}", given)
        return sorted(checked(OWNERS, row)[0] for row in found)

    def find_owner(self, owner: Owner, /) -> int | None:
        """The number of this owner, if it has one."""
        visibility, scope = owner
        return self._number_of(OWNERS, (visibility, *scope_values(scope)))

    def find_embedder(self, embedder: EmbedderId) -> int | None:
        """The number of this vector space, if it has one."""
        return self._number_of(EMBEDDERS, _space(embedder))

    def _number_of(self, table: Table, values: Row) -> int | None:
        found = self.find(table, dict(zip(table.columns[1:], values, strict=True)))
        return found[0][0] if found else None

    def lines_since(self, seq: int) -> tuple[int, list[Row]] | None:
        """How many lines of the change log stand before `seq`, and those after it.

        None when the log does not reach back that far. What is not in the log
        between two lines are new rows, one a number.
        """
        if seq > self.ledger.seq():
            return None
        earlier = self.rows(CHANGES, "WHERE seq <= ? ORDER BY seq DESC LIMIT 1", (seq,))
        later = self.rows(CHANGES, "WHERE seq > ? ORDER BY seq", (seq,))
        last = self.ledger.tally(CHANGES.name)[2]
        before = int(earlier[0][1]) if earlier else 0
        numbers = [row[1] for row in later]
        if numbers == list(range(before + 1, last + 1)):
            return before, later
        if earlier or numbers != list(range(last - len(numbers) + 1, last + 1)):
            raise corrupt("its change log has gaps")
        return None

    def last_seq(self) -> int:
        """The number of the last change in this state."""
        return self.ledger.seq()

    def kept_memories(self, after: int, limit: int, /) -> list[Row]:
        """Rows of the table of memories, each with what indexes need of it."""
        found = self.ask(
            "row", MEMORIES, ANY, "row > :after", order="row", limit=limit, after=after
        )
        keys = [row for (row,) in found]
        blobs: dict[int, bytes] = dict(self.find(INDEXED, {"row": keys}))
        return [
            (*one[:_TEXT], memory.text, *one[_TEXT + 1 :], opened(row, blobs[row]))
            for row, (one, memory) in self.by_rows(keys).items()
        ]

    def kept_vectors(self, embedder: int, dimensions: int, after: int, limit: int, /) -> list[Row]:
        """Rows of one embedder, each with its vector in as few bytes as every store can give."""
        rows = self.rows(
            EMBEDDINGS,
            "WHERE key > ? AND key < ? ORDER BY key LIMIT ?",
            (vector_key(embedder, after), vector_key(embedder + 1, 0), limit),
        )
        first = vector_key(embedder, 0)
        return [
            (key - first, shorten(_whole_vector(opened(key, data), dimensions)))
            for key, data in rows
        ]


def _whole_vector(stored: bytes, dimensions: int) -> bytes:
    matrix = read_vectors([stored], dimensions)
    if matrix is None:
        raise corrupt("a vector has the wrong size")
    return matrix.tobytes()


def written_ledger(connection: Connection) -> str:
    """The ledger as it stands in the file."""
    found = connection.execute("SELECT data FROM ledger WHERE one = 1").fetchone()
    if found is None:
        raise corrupt("its ledger is missing")
    return str(found[0])


def _space(embedder: EmbedderId) -> Row:
    return embedder.name, embedder.version, embedder.dimensions


class Write(Read, TableWriter):
    """A transaction that keeps the ledger in step with what it writes.

    One that changed nothing ends without a trace, unless it `must_commit`.
    """

    must_commit = False
    _begun = True
    written: str
    """The ledger as it stands in the file."""
    _numbers: dict[tuple[str, Row], int]

    def __init__(self, connection: Connection, written: str, last: Write | None = None) -> None:
        super().__init__(connection)
        if last is not None and last.written == written:  # nobody wrote anything since
            self.ledger, self._numbers = last.ledger, last._numbers
        else:
            self.ledger, self._numbers = Ledger(written), {}
        self.written = written

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

    def change(self, table: Table, row: Row, /, **values: Any) -> None:
        """Write `values` over those of `row` (as read, without checksum)."""
        names = [name for name in values if row[table.columns.index(name)] != values[name]]
        if not names:
            return
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

    def delete(self, table: Table, keys: Sequence[int], *, tally: str = "") -> list[Row]:
        """Remove the rows with these keys; gives what they were, tested."""
        if not keys:
            return []
        self._numbers.clear()
        these = f"WHERE {table.key} IN {INTEGERS}"
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
            too_old = (numbers[-1] - KEPT_CHANGES,)
            old = self.execute("SELECT seq FROM changes WHERE number <= ?", too_old)
            self.delete(CHANGES, [seq for (seq,) in old])

    seq = Read.last_seq

    def changed(self) -> bool:
        """Whether there is anything to commit."""
        return self.must_commit or self.ledger.is_changed

    def finish(self) -> None:
        """Write the ledger."""
        self.ledger.step()
        self.written = self.ledger.write()
        self.connection.execute("UPDATE ledger SET data = ? WHERE one = 1", (self.written,))

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

    def hold_contents(self, memories: Sequence[Memory], /) -> list[int]:
        """Whose these memories are; nobody else writes."""
        return [self.owner_number(owner) for owner in dict.fromkeys(map(owned_by, memories))]

    def owner_number(self, owner: Owner, /) -> int:
        """The number of this owner, new if it has none yet."""
        visibility, scope = owner
        return self._number(OWNERS, (visibility, *scope_values(scope)))

    def strand_number(self, strand: Strand, /) -> int:
        """The number of this strand, new if it has none yet."""
        return self._number(STRANDS, strand)

    def _number(self, table: Table, values: Row) -> int:
        number = self._numbers.get((table.name, values))
        if number is None:
            number = self._number_of(table, values)
            if number is None:
                number = self._add(table, dict(zip(table.columns[1:], values, strict=True)))
            if len(self._numbers) > _MOST_NUMBERS:
                self._numbers.clear()
            self._numbers[table.name, values] = number
        return number

    # Memories

    def add_memories(self, entries: Sequence[Entry], /, *, last: bool = False) -> tuple[int, ...]:
        """Store checked entries under new rows."""
        if not entries:
            return ()
        memories = [entry.memory for entry in entries]
        refuse_circles(self, [edge for memory in memories for edge in supersession_edges(memory)])
        numbers = self.numbers_of(memories)
        rows = self.take(MEMORIES, len(entries))
        stored: list[Row] = []
        blobs: list[Row] = []
        for row, entry, (owner, strand) in zip(rows, entries, numbers, strict=True):
            columns = (row, entry.memory.id, owner, strand, *memory_values(entry.memory))
            stored.append(self.put_away(columns, cold=is_cold(entry.memory)))
            blobs.append((row, seal(row, pack(entry, owner=owner, strand=strand or 0))))
        moved = self.followers([place_in(row) for row in stored])
        self._insert_memories(stored)
        self.insert(INDEXED, blobs)
        used = [
            (row, *usage_values(memory.usage))
            for row, memory in zip(rows, memories, strict=True)
            if memory.usage != UNUSED
        ]
        if used:
            self.insert(USAGE, used)
        self._insert_all_vectors(rows, entries)
        for row, entry in zip(rows, entries, strict=True):
            for version in entry.versions:
                keep_version(self, row, version.memory, version.replaced_at)
        self.log("update", moved)
        return tuple(rows)

    def put_away(self, columns: Row, *, cold: bool) -> Row:
        """The columns of a memory as they are kept: a cold one's text stands apart, compressed."""
        row, text = columns[0], columns[_TEXT]
        if not cold or not text:
            return columns
        self.insert(COLD, [(row, seal(row, zlib.compress(text.encode("utf-8"), 9)))])
        return (*columns[:_TEXT], "", *columns[_TEXT + 1 :])

    def _insert_memories(self, stored: Sequence[Row]) -> None:
        try:
            self.insert(MEMORIES, stored)
        except sqlite3.Error as error:
            if code_of(error) != CONSTRAINT:
                raise
            ids = [row[1] for row in stored]
            # Some of this batch are in the table by now: only older rows are in the way.
            taken = [i for i, one in self.by_ids(ids).items() if one.row < stored[0][0]]
            raise (DuplicateRecord(taken[0]) if taken else error) from None

    def followers(self, places: Collection[Place], /) -> set[int]:
        """The rows that come right after these places, before anything is changed there."""
        found: set[int] = set()
        known = sorted(place for place in places if place[1] is not None)
        for _, here in groupby(known, key=itemgetter(0, 1)):
            for place in here:
                after = self.execute(_NEXT, place)
                if not after:
                    break  # as nearly always: at the end, where nothing follows the others either
                found.add(after[0][0])
        return found

    def _rewrite(self, old: Found, columns: Row, memory: Memory, entry: Entry | None, /) -> None:
        row, _, owner, strand, *_ = columns
        if not old.columns[_TEXT]:
            self.delete(COLD, [row])
        kept = self.put_away(columns, cold=is_cold(memory))
        self.change(MEMORIES, old.columns, **dict(zip(MEMORIES.columns, kept, strict=True)))
        if (
            entry is not None
            or place_in(columns) != old.place
            or _told(memory) != _told(old.memory)
        ):
            blob = self._terms(row)
            terms = entry or Entry(memory=memory, **unpack_terms(opened(*blob)))
            packed = pack(replace(terms, memory=memory), owner=owner, strand=strand or 0)
            self.change(INDEXED, blob, data=seal(row, packed))
        if entry is not None:
            given = {embedder for embedder, _ in entry.vectors}
            for number, embedder in all_embedders(self).items():
                if embedder in given or memory.text != old.memory.text:
                    keys = [vector_key(number, row)]
                    self.delete(EMBEDDINGS, keys, tally=vectors_tally(number))
            self._insert_all_vectors([row], [entry])

    def _terms(self, row: int) -> Row:
        found = self.rows(INDEXED, "WHERE row = ?", (row,))
        if not found:
            raise corrupt(f"the terms of row {row} are missing")
        return found[0]

    def set_usage(self, row: int, usage: Usage, /) -> None:
        """Write the counts of a row over those that stand there."""
        self.delete(USAGE, [row])
        if usage != UNUSED:
            self.insert(USAGE, [(row, *usage_values(usage))])

    def count_usage(
        self, found: Sequence[Found], /, *, retrieved: int, cited: int, ignored: int, at: int
    ) -> None:
        """Add to the counts; the moment never goes back."""
        rows: list[Row] = []
        for row, memory in found:
            before = usage_values(memory.usage)
            last = at if before[3] is None else max(at, before[3])
            rows.append(
                (row[0], before[0] + retrieved, before[1] + cited, before[2] + ignored, last)
            )
        self.delete(USAGE, [row[0] for row in rows])
        self.insert(USAGE, rows)

    def remove_memories(self, found: Sequence[Found], /) -> int:
        """Take memories out with all that is kept of them alone; gives how many vectors went."""
        rows = [one.row for one in found]
        for table in (USAGE, INDEXED, COLD, MEMORIES):
            self.delete(table, rows)
        vectors = 0
        for number in all_embedders(self):
            keys = [vector_key(number, row) for row in rows]
            vectors += len(self.delete(EMBEDDINGS, keys, tally=vectors_tally(number)))
        return vectors

    def after_erasing(self, owners: Collection[int], /) -> None:
        """Note that the files are to be cleaned: see `clean_files`."""
        set_value(self, ERASE_PENDING, "yes")

    # Vectors

    def add_vectors(
        self, embedder: EmbedderId, packed: Mapping[int, bytes], /, *, seq: int | None
    ) -> list[int]:
        """Store vectors of rows that were there, not updated since `seq`, and had none; which."""
        new = {row for (row,) in self.ask("row", MEMORIES, {"row": packed})}
        if seq is not None:
            lines = self.lines_since(seq)
            new -= set(packed) if lines is None else updated_in(packed, lines[1])
        number = self.find_embedder(embedder)
        if number is not None:
            keys = [vector_key(number, row) for row in new]
            known = self.ask("key", EMBEDDINGS, {"key": keys})
            new -= {key - vector_key(number, 0) for (key,) in known}
        rows = sorted(new)
        if rows:
            self.insert_vectors(embedder, [(row, packed[row]) for row in rows])
        return rows

    def _insert_all_vectors(self, rows: Iterable[int], entries: Sequence[Entry]) -> None:
        by_embedder: dict[EmbedderId, list[tuple[int, bytes]]] = {}
        for row, entry in zip(rows, entries, strict=True):
            for embedder, vector in entry.vectors:
                by_embedder.setdefault(embedder, []).append((row, vector))
        for embedder, given in by_embedder.items():
            self.insert_vectors(embedder, given)

    def insert_vectors(self, embedder: EmbedderId, given: Sequence[tuple[int, bytes]]) -> None:
        """Keep packed vectors of rows that have none in this space."""
        number = self._number(EMBEDDERS, _space(embedder))
        short = shortest([vector for _, vector in given])
        keys = [vector_key(number, row) for row, _ in given]
        packed = [(key, seal(key, data)) for key, data in zip(keys, short, strict=True)]
        self.insert(EMBEDDINGS, packed, tally=vectors_tally(number))

    # Moved from another kind of store

    def fill(self, table: Table, rows: Sequence[Row], /) -> None:
        """Add rows as they are; numbers given out from here on are above theirs."""
        self.ledger.give_out(table.name, max(row[0] for row in rows))
        self.insert(table, rows)

    def fill_memories(self, rows: Sequence[Row], /) -> None:
        """The same of memories, as `kept_memories` gives them."""
        self.insert(INDEXED, [(row, seal(row, blob)) for row, *_, blob in rows])
        at = COLUMN["metadata"]
        self.fill(
            MEMORIES,
            [self.put_away(row[:-1], cold=COLD_AT in json.loads(row[at])) for row in rows],
        )

    def fill_vectors(self, rows: Iterable[tuple[EmbedderId, int, bytes]], /) -> None:
        """Add vectors of rows that are there, as `kept_vectors` gives them."""
        for embedder, row, data in rows:
            self.insert_vectors(embedder, [(row, _whole_vector(data, embedder.dimensions))])

    def end_filling(self, seq: int, /) -> None:
        """Go on counting changes from `seq`."""
        self.ledger.give_out(CHANGES.name, seq - self.ledger.tally(MEMORIES.name)[2])


def _told(memory: Memory) -> tuple[Any, ...]:
    """What the terms of a row tell of its memory beside where it stands."""
    moments = memory.created_at, memory.valid_from, memory.valid_to
    return flags_of(memory), memory.kind, memory.speaker, *moments
