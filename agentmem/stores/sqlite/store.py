"""The store of record: one SQLite file, safe against crashes, power cuts and other processes."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, get_args

from agentmem.base.checks import require_choice, require_count, require_number, require_path
from agentmem.base.errors import FileUnreadable, InvalidInput, StoreBusy, StoreCorrupt, StoreError
from agentmem.base.types import Scope
from agentmem.stores.base import BaseStore
from agentmem.stores.open_files import (
    final_path,
    is_open_here,
    new_file,
    sync,
    sync_folder,
    written_to,
)
from agentmem.stores.sqlite.connection import typed
from agentmem.stores.sqlite.opening import (
    Connect,
    beside,
    connect_sqlite,
    has_log,
    index_files,
    inspect,
    not_a_store,
    require_own_log,
    size_of,
)
from agentmem.stores.sqlite.pool import Database, MemoryDatabase
from agentmem.stores.sqlite.schema import MIGRATIONS, Step
from agentmem.stores.sqlite.transaction import forget_read
from agentmem.stores.sqlite.upkeep import (
    SqliteFeed,
    SqliteUpkeep,
    clean_files,
    problems,
    write_copy,
)
from agentmem.stores.tables import ANY, INDEX_FILES, OWNERS
from agentmem.stores.values import Durability, Entry, Receipt, Restored, Source, check_entries
from agentmem.stores.writing import note_source

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

CHECKED_BELOW_BYTES = 8 << 20
IN_MEMORY = ":memory:"
T = TypeVar("T")


_KEPT_READERS = 256


class SqliteStore(BaseStore):
    """A `Store` in one file.

    Nothing is created before the first write; until then every read finds
    nothing. A write that has returned survives a crash of the process and, with
    `durability="full"`, a power cut; with "normal" a power cut may take the last
    writes, never the file. Threads may share one store, processes may each open
    it. Files below `checked_below_bytes` are checked completely when opened.
    `":memory:"` is a store without a file that ends with this object.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        durability: Durability = "full",
        busy_seconds: float = 30.0,
        checked_below_bytes: int = CHECKED_BELOW_BYTES,
        connect: Connect = connect_sqlite,
        random_bytes: Callable[[int], bytes] = os.urandom,
        migrations: tuple[Step, ...] = MIGRATIONS,
    ) -> None:
        in_memory = path == IN_MEMORY
        self.path = Path(IN_MEMORY) if in_memory else Path(require_path(path)).absolute()
        require_choice(durability, get_args(Durability), "durability")
        require_number(busy_seconds, "busy_seconds", low=0)
        require_count(checked_below_bytes, "checked_below_bytes")
        self._database = (MemoryDatabase if in_memory else Database)(
            self.path,
            durability="normal" if in_memory else durability,
            busy_seconds=busy_seconds,
            connect=connect,
            new_secret=lambda: random_bytes(32),
            migrations=migrations,
            prepare=partial(_prepare, checked_below_bytes),
        )
        self._wire(self._database)
        self.feed = SqliteFeed(self._database)
        self.upkeep = SqliteUpkeep(self._database)
        self._visible: dict[Scope, tuple[tuple[int, ...], list[int]]] = {}

    @property
    def folder(self) -> Path:
        """Where the file is, and where index files belong."""
        return self.path.parent

    # Writing

    def load(self, batches: Iterable[Sequence[Entry]], *, sources: Iterable[Source] = ()) -> int:
        """Add many batches in one transaction, and the hashes of sources that are not known yet.

        Gives how many memories were added. Other writers wait meanwhile.
        """
        with self._database.writing() as write:
            added = 0
            for batch in batches:
                check_entries(batch)
                added += len(write.add_memories(batch))
            for source in sources:
                note_source(write, source)
            return added

    def close(self) -> None:
        """Close the store; a second time does nothing."""
        super().close()
        forget_read()  # what was read is kept no longer than the store

    def _cleaned(self, receipt: Receipt) -> Receipt:
        return replace(receipt, complete=clean_files(self._database))

    # Reading

    def visible_owners(self, scope: Scope, /) -> NDArray[np.int32]:
        """The owners whose rows the reader may see, as numbered in `IndexRows.owner`."""
        import numpy as np

        tally = tuple(self._database.ledger().tally(OWNERS.name))
        kept = self._visible.get(scope)
        if kept is None or kept[0] != tally:
            if len(self._visible) >= _KEPT_READERS:
                self._visible = {}
            kept = tally, self._database.read(lambda read: read.visible_owners(scope))
            self._visible[scope] = kept
        return np.asarray(kept[1], dtype=np.int32)


def _prepare(checked_below_bytes: int, database: Database) -> None:
    """Refuse a damaged store when it is opened, if it is small enough to look at all of it.

    An erasure that was cut short is finished.
    """
    if 0 < size_of(database.path) <= checked_below_bytes:
        with database.reading() as read:
            for problem in problems(read):
                raise StoreCorrupt(
                    f"{database.path} is damaged: {problem}.", remedy="Restore a backup."
                )
    if database.writable:
        clean_files(database, wait_seconds=0)


# ----------------------------------------------------------------------------
# A backup in the place of a store, so that nothing of the old one is mixed into it.


_PENDING_BYTE, _LOCK_BYTES = 0x40000000, 512
"""Where SQLite locks a file; every connection to a store holds a part of it."""
_MOVED = ("-wal", "-mark", "-journal")


def restore(backup: Path, path: Path) -> Restored:
    """Check `backup`, set the store at `path` aside and put a copy of `backup` there.

    Until the very last step the old store stays in its place, and a step that
    fails leaves it there.
    """
    target = final_path(path)
    _require_backup(backup, target)
    with contextlib.suppress(StoreCorrupt):  # a damaged store is one to replace
        inspect(target, known_version=len(MIGRATIONS))
    try:
        with written_to(target, "Check the folder."):
            target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            there = target.exists()
            with _held(target), new_file(target, replace=there) as temporary:
                _copy(backup, temporary)
                count = _checked(backup, temporary)
                sync(temporary)
                set_aside = _set_aside(target) if there else None
    except FileExistsError:
        raise _busy(target) from None
    return Restored(path=target, memories=count, set_aside=set_aside)


def _require_backup(backup: Path, target: Path) -> None:
    try:
        backup.stat()
    except FileNotFoundError:
        raise FileUnreadable(str(backup), "is not there", remedy="Check the path.") from None
    except OSError as error:  # a name that is too long, a folder that may not be read
        problem = f"cannot be read ({error.strerror})"
        raise FileUnreadable(str(backup), problem, remedy="Check the path.") from None
    if target.exists() and backup.samefile(target):
        raise InvalidInput("backup", str(backup), "is the store itself", remedy="Name a backup.")
    if not inspect(backup, known_version=len(MIGRATIONS)):
        raise not_a_store(backup, "it is empty")


def _copy(backup: Path, temporary: Path) -> None:
    """Copy a backup with its own log, without touching it."""
    logged = has_log(backup)
    uri = f"{backup.absolute().as_uri()}?mode=ro{'' if logged else '&immutable=1'}"
    with typed(str(backup)), contextlib.closing(connect_sqlite(uri)) as source:
        if logged:
            require_own_log(backup, source, connect_sqlite)
        write_copy(source, temporary)


def _checked(backup: Path, temporary: Path) -> int:
    """How many memories the copy has; refuses one with any damage.

    Its index files are not restored, so it forgets them.
    """
    try:
        with SqliteStore(temporary, checked_below_bytes=0) as store:
            report = store.upkeep.verify()
            if report.ok:
                store._tables.write(lambda write: write.remove(INDEX_FILES, ANY))
    except StoreError as error:
        if not isinstance(error, StoreCorrupt):
            raise
        raise _damaged(backup, error.message) from error
    if not report.ok:
        raise _damaged(backup, report.problems[0])
    return report.counts["memories"]


def _damaged(backup: Path, problem: str) -> StoreCorrupt:
    return StoreCorrupt(
        f"The backup {backup} is damaged: {problem}",
        remedy="Use an older one; the store was left as it is.",
    )


@contextmanager
def _held(target: Path) -> Iterator[None]:
    """Keep others from opening the store meanwhile; `StoreBusy` when somebody has it open."""
    if is_open_here(target):
        raise _busy(target)
    if sys.platform == "win32" or not target.exists():
        yield  # Windows refuses to replace a file that is open
        return
    import fcntl

    descriptor = os.open(target, os.O_RDWR)
    try:
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, _LOCK_BYTES, _PENDING_BYTE)
        except OSError:
            raise _busy(target) from None
        yield
    finally:
        os.close(descriptor)


def _busy(target: Path) -> StoreBusy:
    return StoreBusy(
        f"{target} is open.", remedy="Close every program that uses it, and restore again."
    )


def _set_aside(target: Path) -> Path:
    """Give the store a second name and move its log there; gives that name."""
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    aside = beside(target, f".before-{stamp}")
    number = 1
    while aside.exists():
        number += 1
        aside = beside(target, f".before-{stamp}-{number}")
    try:
        os.link(target, aside)
    except OSError:  # a file system without links
        target.rename(aside)
    for suffix in _MOVED:
        with contextlib.suppress(FileNotFoundError):
            beside(target, suffix).rename(beside(aside, suffix))
    for cache in (beside(target, "-shm"), *index_files(target)):
        cache.unlink(missing_ok=True)
    sync_folder(target.parent)
    return aside
