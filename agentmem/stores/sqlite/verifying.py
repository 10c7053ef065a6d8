"""A full check: every page, every row against its checksum, every table against the ledger."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator

from agentmem.errors import StoreCorrupt
from agentmem.stores import packing
from agentmem.stores.sqlite.connection import Database
from agentmem.stores.sqlite.ledger import SEAL, checked, opened, row_checksum
from agentmem.stores.sqlite.names import all_embedders
from agentmem.stores.sqlite.rows import COLUMN
from agentmem.stores.sqlite.schema import (
    EMBEDDER_SHIFT,
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
    """What is wrong, one line each; nothing for a store that is whole."""
    for (said,) in read.execute("PRAGMA integrity_check"):
        if said != "ok":
            yield str(said)
    for table in TABLES:
        try:
            _check_table(read, table)
        except StoreCorrupt as error:
            yield error.message
    try:
        yield from _disagreements(read)
    except StoreCorrupt as error:
        yield error.message


def _check_table(read: Read, table: Table) -> None:
    """Test every row of a table, and all of them together against the ledger."""
    counts: Counter[str] = Counter()
    totals: Counter[str] = Counter()
    for row in read.connection.execute(table.select_sql("")):
        checked(table, row)
        name = vectors_tally(row[0] >> EMBEDDER_SHIFT) if table is EMBEDDINGS else table.name
        counts[name] += 1
        totals[name] += row_checksum(table, row)
    written = {name for name in read.ledger.tallies if name.split(":")[0] == table.name}
    for name in written | set(counts):
        read.ledger.require_total(name, counts[name], totals[name])


def _disagreements(read: Read) -> Iterator[str]:
    """Rows whose terms are missing or tell another story, and vectors without a row."""
    owners = {row[0] for row in read.rows(OWNERS, "")}
    strands = {row[0]: row[1] for row in read.rows(STRANDS, "")}
    keys: set[int] = set()
    terms = iter(read.connection.execute(INDEXED.select_sql("ORDER BY row")))
    for row in read.connection.execute(MEMORIES.select_sql("ORDER BY row")):
        keys.add(row[0])
        owner, strand, *fields = (row[index] for index in _COMPARED)
        if owner not in owners or (strand is not None and strands.get(strand) != owner):
            yield f"row {row[0]} belongs to nobody who is there"
        key, sealed = next(terms, (None, b""))
        if key != row[0]:
            yield f"row {row[0]} has no terms, or there are terms without a row"
            return
        written = row[COLUMN["metadata"]]
        metadata = {} if written == "{}" else json.loads(written)
        if not packing.describes(opened(key, sealed), owner, strand, *fields, metadata):
            yield f"the terms of row {row[0]} belong to another state of it"
    if next(terms, None) is not None:
        yield "there are terms without a row"
    yield from _stray_vectors(read, keys)


def _stray_vectors(read: Read, keys: set[int]) -> Iterator[str]:
    sizes = {n: (2 * e.dimensions, 4 * e.dimensions) for n, e in all_embedders(read).items()}
    for key, size in read.connection.execute("SELECT key, length(data) FROM embeddings"):
        if key & _ROW_MASK not in keys:
            yield f"a vector belongs to row {key & _ROW_MASK}, which is not there"
        elif size - SEAL not in sizes.get(key >> EMBEDDER_SHIFT, ()):
            yield f"the vector of row {key & _ROW_MASK} is not one of its embedder"
