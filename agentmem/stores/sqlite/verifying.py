"""A full check: every page, every row against its checksum, every table against the ledger."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterator
from struct import error as StructError  # noqa: N812 - it is a class
from typing import Any

from agentmem.core.values import dataclass
from agentmem.errors import StoreCorrupt
from agentmem.stores import packing
from agentmem.stores.sqlite.connection import Database
from agentmem.stores.sqlite.ledger import SEAL, Row, checked, opened, row_checksum
from agentmem.stores.sqlite.rows import COLUMN
from agentmem.stores.sqlite.schema import (
    CHANGES,
    EMBEDDER_SHIFT,
    EMBEDDERS,
    EMBEDDINGS,
    INDEXED,
    MEMORIES,
    OWNERS,
    STRANDS,
    TABLES,
    Table,
)
from agentmem.stores.sqlite.transactions import Read, vectors_tally

_ROW_MASK = (1 << EMBEDDER_SHIFT) - 1
_COMPARED = tuple(
    COLUMN[name]
    for name in (
        "owner", "strand", "place", "speaker", "kind", "created_at", "valid_from", "valid_to",
        "deleted_at", "superseded_by",
    )
)  # fmt: skip


def check_small(database: Database, *, below_bytes: int) -> None:
    """Refuse a damaged store when it is opened, if it is small enough to look at all of it."""
    try:
        if database.path.stat().st_size > below_bytes:
            return
    except OSError:
        return
    with database.read() as read:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Damaged:
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
                table.select_sql(f"WHERE {table.key} > ? ORDER BY {table.key}"), (last,)
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
                    table.select_sql(f"WHERE {table.key} = ?"), (key,)
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
            read.ledger.require_total(name, counts[name], totals[name])
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
        key = row.key if isinstance(row, Damaged) else row[0]
        keys.add(key)
        while term is not None and _key_of(term) < key:
            yield f"row {_key_of(term)} has terms and is not there"
            term = next(terms, None)
        own = None
        if term is not None and _key_of(term) == key:
            own, term = term, next(terms, None)
        if isinstance(row, Damaged) or isinstance(own, Damaged):
            continue  # said before
        if own is None:
            yield f"row {key} has no terms"
            continue
        owner, strand, *fields = (row[index] for index in _COMPARED)
        if owner not in owners or (strand is not None and strands.get(strand) != owner):
            yield f"row {key} belongs to nobody who is there"
        if not _described(row, own, owner, strand, *fields):
            yield f"the terms of row {key} belong to another state of it"
    while term is not None:
        yield f"row {_key_of(term)} has terms and is not there"
        term = next(terms, None)
    yield from _stray_vectors(read, keys)


def _readable(read: Read, table: Table) -> Iterator[Row]:
    return (row for row in each_row(read, table) if not isinstance(row, Damaged))


def _key_of(row: Row | Damaged) -> int:
    return row.key if isinstance(row, Damaged) else int(row[0])


def _described(row: Row, terms: Row, owner: int, strand: int | None, *fields: Any) -> bool:
    written = row[COLUMN["metadata"]]
    try:
        metadata = {} if written == "{}" else json.loads(written)
        return packing.describes(opened(*terms), owner, strand, *fields, metadata)
    except (ValueError, TypeError, RecursionError, StructError):
        return False


def _stray_vectors(read: Read, keys: set[int]) -> Iterator[str]:
    sizes = {row[0]: (2 * row[3] + SEAL, 4 * row[3] + SEAL) for row in _readable(read, EMBEDDERS)}
    for key, data in _readable(read, EMBEDDINGS):
        if key & _ROW_MASK not in keys:
            yield f"a vector belongs to row {key & _ROW_MASK}, which is not there"
        elif len(data) not in sizes.get(key >> EMBEDDER_SHIFT, ()):
            yield f"the vector of row {key & _ROW_MASK} is not one of its embedder"
