"""Removing memories for good: from every table, every free page, the log and index files (P26)."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from agentmem.base.errors import StoreBusy
from agentmem.base.types import Memory, Scope
from agentmem.prompt.snapshot import TEXT_PREFIX, said_mention
from agentmem.prompt.strip import Names, Quotes, texts_in
from agentmem.stores.derived import DERIVED, STATED_IN, derived_rows
from agentmem.stores.sqlite import opening
from agentmem.stores.sqlite.connection import Read, Row, Write
from agentmem.stores.sqlite.opening import remove_bytes
from agentmem.stores.sqlite.pool import Database
from agentmem.stores.sqlite.reading import (
    COLUMN,
    INTEGERS,
    Found,
    found_in,
    integers,
    rows_by_key,
    visible_owners,
)
from agentmem.stores.sqlite.schema import (
    ARTIFACTS,
    COLD,
    HISTORY,
    INDEX_FILES,
    INDEXED,
    JOBS,
    JOURNAL,
    JOURNAL_ITEMS,
    LINKS,
    MEMORIES,
    OWNERS,
    SETTINGS,
    SNAPSHOTS,
    SOURCES,
    STRANDS,
    USAGE,
    Table,
)
from agentmem.stores.sqlite.side import plain_data, set_value
from agentmem.stores.sqlite.writing import (
    followers,
    forget_empty_sources,
    place,
    remove_vectors,
    rewrite,
)
from agentmem.stores.values import ERASED, Receipt

_PENDING = "erase_pending"
_REFERENCES = """
    WHERE supersedes = ?1 OR superseded_by = ?1
"""


def with_derived(read: Read, found: Sequence[Found], reader: Scope) -> list[Found]:
    """`found`, and after it what goes with it."""
    origins = _Origins(read, found)
    more = derived_rows(origins, [row[0] for row, _ in found], reader)
    return [*found, *(origins.found[row] for row in more)]


def erase_rows(
    write: Write,
    found: Sequence[Found],
    *,
    at: datetime,
    reader: Scope | None = None,
    all_of: Scope | None = None,
) -> Receipt:
    """Take memories out of every table; the files are cleaned afterwards by `clean_files`.

    With a `reader`, what was made of them goes too, as far as the reader sees
    it. With `all_of`, so do the snapshots, artifacts and jobs that reader owns.
    """
    named = len(found)
    if reader is not None:
        found = with_derived(write, found, reader)
    rows = [row[0] for row, _ in found]
    ids = [memory.id for _, memory in found]
    moved = followers(write, [place(row) for row, _ in found])
    owners = {row[COLUMN["owner"]] for row, _ in found}
    strands = {row[COLUMN["strand"]] for row, _ in found} - {None}
    vectors = remove_vectors(write, rows)
    quotes = Quotes(_texts(write, found))
    versions = write.delete(HISTORY, _keys(write, HISTORY, "row", rows))
    write.delete(LINKS, _keys(write, LINKS, "first", rows))
    write.delete(LINKS, _keys(write, LINKS, "second", rows))
    for column in ("row", "other"):
        write.delete(JOURNAL_ITEMS, _keys(write, JOURNAL_ITEMS, column, rows))
    for table in (USAGE, INDEXED, COLD, MEMORIES):
        write.delete(table, rows)
    _forget_references(write, ids)
    own = set() if all_of is None else _private_owners(write, all_of)
    owners |= own
    runs = [row[0] for row in write.delete(JOURNAL, _keys(write, JOURNAL, "owner", own))]
    write.delete(JOURNAL_ITEMS, _keys(write, JOURNAL_ITEMS, "entry", runs))
    readers = _readers(write, found)
    snapshots, artifacts, jobs = (
        _count(table, write.delete(table, _keys(write, table, "owner", own)))
        + _delete_mentioning(write, table, ids=ids, quotes=quotes, readers=readers)
        for table in (SNAPSHOTS, ARTIFACTS, JOBS)
    )
    forget_empty_sources(write, strands)
    _forget_strands(write, strands)
    _forget_owners(write, owners)
    index_files = write.delete(INDEX_FILES, [row[0] for row in write.rows(INDEX_FILES, "")])
    write.log("erase", rows)
    write.log("update", moved - set(rows))
    set_value(write, "erased_seq", str(write.ledger.seq()))
    set_value(write, _PENDING, "yes")
    return Receipt(
        ids=tuple(ids),
        derived=tuple(ids[named:]),
        vectors=vectors,
        versions=len(versions),
        snapshots=snapshots,
        artifacts=artifacts,
        jobs=jobs,
        index_files=tuple(row[1] for row in index_files),
        complete=False,
        erased_at=at,
    )


def erased_nothing(at: datetime) -> Receipt:
    """The receipt where there is no file yet, hence nothing to remove."""
    return Receipt(
        ids=(),
        vectors=0,
        versions=0,
        snapshots=0,
        artifacts=0,
        jobs=0,
        index_files=(),
        complete=True,
        erased_at=at,
    )


def clean_files(database: Database, *, wait_seconds: float) -> bool:
    """Finish an erasure: remove index files, rewrite the file, empty the log.

    Freed cells are overwritten with zeros as they are freed, but pages that
    SQLite rearranged may hold copies in their unused parts; only writing the
    whole file anew is certain. False when a reader of an older state kept the
    log from being emptied within `wait_seconds`; the note that this is to be
    done stays.
    """
    with database.read() as read:
        found = read.rows(SETTINGS, "WHERE name = ?", (_PENDING,))
        kept = {row[1] for row in read.rows(INDEX_FILES, "")}
    if not found:
        return True
    if not database.in_memory:
        # Found by their own names: what stands in the file may have been written by anybody.
        for file in opening.index_files(database.path):
            if file.name not in kept:
                remove_bytes(file)
    try:
        database.vacuum(wait_seconds=wait_seconds)
        if not empty_log(database, wait_seconds=wait_seconds):
            return False
        with database.write(wait_seconds=wait_seconds) as write:
            set_value(write, _PENDING, None)
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


def _keys(write: Write, table: Table, column: str, rows: Collection[int]) -> list[int]:
    found = write.execute(
        f"SELECT {table.key} FROM {table.name} WHERE {column} IN {INTEGERS}",  # noqa: S608 # our own names
        (integers(rows),),
    )
    return [key for (key,) in found]


def _texts(read: Read, found: Sequence[Found]) -> Iterator[str]:
    """What to look for inside other records: the texts of memories, and what they said before."""
    for _, memory in found:
        for text in (memory.text, memory.summary, memory.compressed, memory.index):
            if text is not None:
                yield text
    versions = read.execute(
        f"SELECT data FROM history WHERE row IN {INTEGERS}",  # noqa: S608 # our own names
        (integers([row[0] for row, _ in found]),),
    )
    for (data,) in versions:
        kept = json.loads(data)
        for name in ("text", "summary", "compressed", "index"):
            if isinstance(kept.get(name), str):
                yield kept[name]


def _readers(write: Write, found: Sequence[Found]) -> set[int]:
    """The owners whose records may quote these memories: the same user, or anybody if shared."""
    users = {memory.scope.user_id for _, memory in found}
    shared = any(memory.visibility != "private" for _, memory in found)
    return {row[0] for row in write.rows(OWNERS, "") if shared or row[2] in users}


def _delete_mentioning(
    write: Write, table: Table, *, ids: Sequence[str], quotes: Quotes, readers: set[int]
) -> int:
    """Remove records that name one of `ids`, or that are `readers`' and quote an erased text."""
    names = Names(ids)
    owner, exact = table.columns.index("owner"), {*ids, *map(said_mention, ids)}
    gone = []
    for row in write.rows(table, ""):
        written = [_value(value) for value in row if isinstance(value, str)]
        if table is SNAPSHOTS:
            written.append(json.loads(plain_data(row[5])))
        texts = list(texts_in(written))
        if (
            (table is SNAPSHOTS and not exact.isdisjoint(json.loads(row[4])))
            or any(map(names.are_in, texts))
            or (row[owner] in readers and any(map(quotes.are_in, texts)))
            or (
                row[owner] in readers
                and table is ARTIFACTS
                and quotes.are_in(row[-1].decode("utf-8", "replace"))
            )
        ):
            gone.append(row[0])
    return _count(table, write.delete(table, gone))


def _value(written: str) -> Any:
    """A column as JSON has it, or else the text itself."""
    try:
        return json.loads(written)
    except ValueError:
        return written


def _count(table: Table, gone: Sequence[Row]) -> int:
    """How many records went; texts that snapshots share are not records of their own."""
    return sum(table is not SNAPSHOTS or not row[1].startswith(TEXT_PREFIX) for row in gone)


def _forget_references(write: Write, ids: Sequence[str]) -> None:
    """Put a constant where other memories name an erased one."""
    gone = set(ids)
    for memory_id in ids:
        for one in found_in(write, write.rows(MEMORIES, _REFERENCES, (memory_id,))):
            changes: dict[str, Any] = {
                name: ERASED
                for name in ("supersedes", "superseded_by")
                if getattr(one.memory, name) in gone
            }
            rewrite(write, one, replace(one.memory, **changes))
            write.log("update", [one.row])
    for row in write.rows(HISTORY, ""):
        data = json.loads(row[3])
        named = [n for n in ("supersedes", "superseded_by") if data.get(n) in gone]
        if named:
            written = json.dumps(
                {**data, **dict.fromkeys(named, ERASED)}, ensure_ascii=False, separators=(",", ":")
            )
            write.change(HISTORY, row, data=written)


def _forget_strands(write: Write, strands: set[int]) -> None:
    for strand in strands:
        used = write.execute(
            "SELECT 1 FROM strands AS s JOIN memories AS m ON m.owner = s.owner "
            "AND m.strand = s.strand WHERE s.strand = ? LIMIT 1",
            (strand,),
        )
        if not used:
            write.delete(STRANDS, [strand])


def _private_owners(write: Write, reader: Scope) -> set[int]:
    private = write.execute("SELECT owner FROM owners WHERE visibility = 'private'")
    return set(visible_owners(write, reader)) & {owner for (owner,) in private}


def _forget_owners(write: Write, owners: set[int]) -> None:
    tables = (MEMORIES, STRANDS, SOURCES, SNAPSHOTS, ARTIFACTS, JOBS, JOURNAL)
    unused = [o for o in owners if not any(_has(write, table, o) for table in tables)]
    write.delete(OWNERS, unused)


def _has(write: Write, table: Table, owner: int) -> bool:
    return bool(
        write.execute(f"SELECT 1 FROM {table.name} WHERE owner = ? LIMIT 1", (owner,))  # noqa: S608 # our own names
    )


class _Origins:
    """`Origins` over the file, in one transaction."""

    def __init__(self, read: Read, found: Sequence[Found]) -> None:
        self._read = read
        self.found = {one.row: one for one in found}
        self._made: dict[int, list[tuple[int, str]]] = {}
        self._sources: dict[int, list[tuple[int, str]]] = {}
        for link in read.rows(
            LINKS, "WHERE family = 'link' AND relation IN (?, ?, ?)", (DERIVED, *STATED_IN)
        ):
            _, _, first, second, relation, *_ = link
            self._made.setdefault(second, []).append((first, relation))
            self._sources.setdefault(first, []).append((second, relation))

    def memory(self, row: int, /) -> Memory | None:
        if row not in self.found:
            self._add(rows_by_key(self._read, [row]))
        kept = self.found.get(row)
        return None if kept is None else kept.memory

    def merged_into(self, survivor: Memory, /) -> Iterable[int]:
        rows = self._read.rows(MEMORIES, "WHERE superseded_by = ?", (survivor.id,))
        self._add(rows)
        return [row[0] for row in rows]

    def made_of(self, row: int, /) -> Iterable[tuple[int, str]]:
        return self._made.get(row, ())

    def sources_of(self, row: int, /) -> Iterable[tuple[int, str]]:
        return self._sources.get(row, ())

    def _add(self, rows: Sequence[Row]) -> None:
        self.found |= {one.row: one for one in found_in(self._read, rows)}
