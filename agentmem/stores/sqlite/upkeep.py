"""Looking after the file: statistics, a full check, a compact copy, a backup."""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from agentmem.errors import AgentMemError, InvalidInput, StoreCorrupt, StoreError
from agentmem.stores.entries import from_microseconds, to_microseconds
from agentmem.stores.sqlite import erasing, files
from agentmem.stores.sqlite.connection import Database
from agentmem.stores.sqlite.failures import translated
from agentmem.stores.sqlite.ledger import Ledger
from agentmem.stores.sqlite.names import NameCache, all_embedders, visible_owners
from agentmem.stores.sqlite.opening import require_our_schema
from agentmem.stores.sqlite.rows import read_memories, rows_by_key
from agentmem.stores.sqlite.schema import (
    EMBEDDER_SHIFT,
    EMBEDDINGS,
    SETTINGS,
    SOURCES,
    TABLES,
)
from agentmem.stores.sqlite.side import job_counts, set_value
from agentmem.stores.sqlite.transactions import Connection, Read
from agentmem.stores.sqlite.verifying import problems
from agentmem.stores.values import EmbedderCoverage, Source, StoreStats, VerifyReport
from agentmem.stores.whole_files import final_path, new_file
from agentmem.types import Scope

_LAST_SYNC = "last_sync"
_MOST_PROBLEMS = 10_000


class SqliteUpkeep:
    """`Upkeep` over the file."""

    def __init__(self, database: Database, names: NameCache) -> None:
        self._database = database
        self._names = names

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
        for file in (path, files.beside(path, "-wal"), *files.index_files(path)):
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
            owner_of = self._names.owners(read, [row[1] for row in found])
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

    def owners(self) -> tuple[Scope, ...]:
        """Everybody who has a memory."""
        with self._database.read() as read:
            found = [owner for (owner,) in read.execute("SELECT DISTINCT owner FROM memories")]
            named = self._names.owners(read, found)
            return tuple(dict.fromkeys(named[owner][1] for owner in found))

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
        erasing.empty_log(self._database, wait_seconds=0)

    def sync(self, *, at: datetime) -> None:
        """Move the log into the file, finish erasures, and note the moment."""
        erasing.clean_files(self._database, wait_seconds=0)
        with self._database.write() as write:
            set_value(write, _LAST_SYNC, str(to_microseconds(at, "at")))
        erasing.empty_log(self._database, wait_seconds=0)

    def backup(self, path: Path, /) -> None:
        """A consistent copy at `path`, made while others read and write; never half a file."""
        target = final_path(Path(path))
        if target.exists():
            raise _taken(target)
        try:
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
            memories = read_memories(write, self._names, rows)
            erasing.erase_rows(
                write,
                self._names,
                list(zip(rows, memories, strict=True)),
                at=deleted_before,
            )
        self._names.clear()
        erasing.clean_files(self._database, wait_seconds=self._database.busy_seconds)
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
