"""Looking after the file: statistics, a full check, a compact copy, a backup."""

from __future__ import annotations

import json
import secrets
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from struct import error as StructError  # noqa: N812 - it is a class
from typing import Any

from agentmem.base.checks import require_text
from agentmem.base.errors import AgentMemError, InvalidInput, StoreCorrupt, StoreError
from agentmem.base.types import Scope
from agentmem.stores.open_files import final_path, new_file
from agentmem.stores.sqlite.connection import (
    SEAL,
    Connection,
    Ledger,
    Read,
    Row,
    checked,
    opened,
    row_checksum,
    translated,
    vectors_tally,
)
from agentmem.stores.sqlite.erasing import clean_files, empty_log, erase_rows
from agentmem.stores.sqlite.opening import beside, index_files, require_our_schema
from agentmem.stores.sqlite.pool import Database
from agentmem.stores.sqlite.reading import (
    COLUMN,
    all_embedders,
    found_in,
    rows_by_key,
    visible_owners,
)
from agentmem.stores.sqlite.schema import (
    CHANGES,
    EMBEDDER_SHIFT,
    EMBEDDERS,
    EMBEDDINGS,
    INDEXED,
    MEMORIES,
    OWNERS,
    SETTINGS,
    SOURCES,
    STRANDS,
    TABLES,
    Table,
)
from agentmem.stores.sqlite.side import job_counts, set_value
from agentmem.stores.values import (
    EmbedderCoverage,
    Source,
    StoreStats,
    VerifyReport,
    describes,
    from_microseconds,
    to_microseconds,
    vector_sizes,
)

# ----------------------------------------------------------------------------
# A full check: every page, every row against its checksum, every table against the ledger.


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
        return describes(opened(*terms), owner, strand, *fields, metadata)
    except (ValueError, TypeError, RecursionError, StructError):
        return False


def _stray_vectors(read: Read, keys: set[int]) -> Iterator[str]:
    sizes = {row[0]: vector_sizes(row[3]) for row in _readable(read, EMBEDDERS)}
    for key, data in _readable(read, EMBEDDINGS):
        if key & _ROW_MASK not in keys:
            yield f"a vector belongs to row {key & _ROW_MASK}, which is not there"
        elif len(data) - SEAL not in sizes.get(key >> EMBEDDER_SHIFT, ()):
            yield f"the vector of row {key & _ROW_MASK} is not one of its embedder"


_LAST_SYNC = "last_sync"
_MOST_PROBLEMS = 10_000


class SqliteUpkeep:
    """`Upkeep` over the file."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def stats(self, scope: Scope | None = None) -> StoreStats:
        """Sizes and counts, of what `scope` can see; without one, of the whole store."""
        with self._database.read() as read:
            owners = None if scope is None else visible_owners(read, scope)
            counted = _count_rows(read, owners)
            sync = read.rows(SETTINGS, "WHERE name = ?", (_LAST_SYNC,))
            ((version,),) = read.execute("PRAGMA user_version")
            return StoreStats(
                documents=sum(1 for s in read.rows(SOURCES, "") if _within(s[1], owners)),
                chunks=sum(counted["kinds"].values()),
                kinds=counted["kinds"],
                deleted=counted["deleted"],
                superseded=counted["superseded"],
                bytes=self._bytes(read),
                last_sync=from_microseconds(int(sync[0][2])) if sync else None,
                embedders=tuple(_coverage(read, owners)),
                jobs=job_counts(read, owners),
                seq=read.ledger.seq(),
                schema_version=version,
                location=str(self._database.path),
            )

    def _bytes(self, read: Read) -> int:
        if self._database.in_memory:
            ((pages,),) = read.execute("PRAGMA page_count")
            ((size,),) = read.execute("PRAGMA page_size")
            return int(pages * size)
        path = self._database.path
        total = 0
        for file in (path, beside(path, "-wal"), *index_files(path)):
            with suppress(OSError):
                total += file.stat().st_size
        return total

    def sources(self, scope: Scope | None = None) -> tuple[Source, ...]:
        """The sources `scope` can see, with the hash of their newest content."""
        with self._database.read() as read:
            owners = None if scope is None else visible_owners(read, scope)
            found = [
                row for row in read.rows(SOURCES, "ORDER BY source") if _within(row[1], owners)
            ]
            owner_of = read.names.owners(read, [row[1] for row in found])
            return tuple(
                Source(
                    url=url,
                    title=title,
                    content_hash=content_hash,
                    visibility=owner_of[owner][0],
                    scope=owner_of[owner][1],
                    synced_at=from_microseconds(synced),
                )
                for _, owner, url, title, content_hash, synced in found
            )

    def owners(self, memory_id: str | None = None, /) -> tuple[Scope, ...]:
        """Everybody who has a memory, or who has that one, be it deleted."""
        with self._database.read() as read:
            if memory_id is None:
                rows = read.execute("SELECT DISTINCT owner FROM memories")
            else:
                wanted = require_text(memory_id, "id")
                rows = read.execute("SELECT owner FROM memories WHERE id = ?", (wanted,))
            found = [owner for (owner,) in rows]
            named = read.names.owners(read, found)
            return tuple(dict.fromkeys(named[owner][1] for owner in found))

    def users(self) -> dict[str | None, int]:
        """How many memories hold of each user, most first; `None` has those of nobody named."""
        with self._database.read() as read:
            found = read.execute(
                "SELECT owner, count(*) FROM memories "
                "WHERE deleted_at IS NULL AND superseded_by IS NULL GROUP BY owner"
            )
            counts: dict[int, int] = dict(found)
            named = read.names.owners(read, list(counts))
        users: Counter[str | None] = Counter()
        for owner, number in counts.items():
            users[named[owner][1].user_id] += number
        return dict(sorted(users.items(), key=lambda one: (-one[1], one[0] or "")))

    def verify(self) -> VerifyReport:
        """A check of every page, row, checksum and cross-reference."""
        try:
            with self._database.read() as read:
                found = tuple(problem for problem, _ in zip(
                    problems(read), range(_MOST_PROBLEMS), strict=False
                ))  # fmt: skip
                tallies = read.ledger.tallies
                counts = {table.name: tallies.get(table.name, [0])[0] for table in TABLES}
                counts[EMBEDDINGS.name] = sum(
                    tally[0]
                    for name, tally in tallies.items()
                    if name.startswith(f"{EMBEDDINGS.name}:")
                )
        except StoreCorrupt as error:
            return VerifyReport(problems=(error.message,), counts={})
        return VerifyReport(problems=found, counts=counts)

    def vacuum(self) -> None:
        """Give unused space back to the device."""
        self._database.vacuum()
        empty_log(self._database, wait_seconds=0)

    def sync(self, *, at: datetime) -> None:
        """Move the log into the file, finish erasures, and note the moment."""
        clean_files(self._database, wait_seconds=0)
        with self._database.write() as write:
            set_value(write, _LAST_SYNC, str(to_microseconds(at, "at")))
        empty_log(self._database, wait_seconds=0)

    def backup(self, path: Path, /) -> None:
        """A consistent copy at `path`, made while others read and write; never half a file."""
        target = final_path(Path(path))
        try:
            if target.exists():
                raise _taken(target)
            target.parent.mkdir(parents=True, exist_ok=True)
            with self._database.read() as read, new_file(target, replace=False) as temporary:
                write_copy(read.connection, temporary)
        except FileExistsError:
            raise _taken(target) from None
        except OSError as error:
            if isinstance(error, AgentMemError):
                raise
            raise StoreError(
                f"{target} cannot be written ({error.strerror}).", remedy="Use another folder."
            ) from error

    def purge(self, *, deleted_before: datetime) -> int:
        """Remove for good what was deleted before a moment; gives how many rows went."""
        moment = to_microseconds(deleted_before, "deleted_before")
        with self._database.write() as write:
            found = write.execute(
                "SELECT row FROM memories WHERE deleted_at IS NOT NULL AND deleted_at < ?",
                (moment,),
            )
            rows = rows_by_key(write, [row for (row,) in found])
            if not rows:
                write.abandoned = True
                return 0
            erase_rows(write, found_in(write, rows), at=deleted_before)
        self._database.names.clear()
        clean_files(self._database, wait_seconds=self._database.busy_seconds)
        return len(rows)


def write_copy(source: Connection, target: Path) -> None:
    """Fill an empty file with what `source` sees, as a state of its own.

    The copy's ledger is marked, so that a log of the original is never taken
    for the copy's (see `logs.py`).
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


def _taken(target: Path) -> InvalidInput:
    return InvalidInput("path", str(target), "exists already", remedy="Use a new name.")


def _within(owner: int, owners: list[int] | None) -> bool:
    return owners is None or owner in owners


def _count_rows(read: Read, owners: list[int] | None) -> dict[str, Any]:
    kinds: dict[str, int] = {}
    deleted = superseded = 0
    for owner, kind, is_deleted, is_superseded, count in read.execute(
        "SELECT owner, kind, deleted_at IS NOT NULL, superseded_by IS NOT NULL, count(*) "
        "FROM memories GROUP BY 1, 2, 3, 4"
    ):
        if not _within(owner, owners):
            continue
        if is_deleted:
            deleted += count
        elif is_superseded:
            superseded += count
        else:
            kinds[kind] = kinds.get(kind, 0) + count
    return {"kinds": kinds, "deleted": deleted, "superseded": superseded}


def _coverage(read: Read, owners: list[int] | None) -> Iterator[EmbedderCoverage]:
    for number, embedder in all_embedders(read).items():
        vectors = missing = 0
        for owner, has, count in read.execute(
            "SELECT m.owner, e.key IS NOT NULL, count(*) FROM memories AS m LEFT JOIN embeddings "
            "AS e ON e.key = ? + m.row WHERE m.deleted_at IS NULL GROUP BY 1, 2",
            (number << EMBEDDER_SHIFT,),
        ):
            if _within(owner, owners):
                vectors += count if has else 0
                missing += 0 if has else count
        yield EmbedderCoverage(embedder=embedder, vectors=vectors, missing=missing)
