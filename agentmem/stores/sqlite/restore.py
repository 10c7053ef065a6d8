"""Put a backup in the place of a store, so that nothing of the old one is mixed into it."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from agentmem.base.errors import (
    AgentMemError,
    FileUnreadable,
    InvalidInput,
    StoreBusy,
    StoreCorrupt,
    StoreError,
)
from agentmem.stores.open_files import final_path, is_open_here, new_file, sync, sync_folder
from agentmem.stores.sqlite.connection import typed
from agentmem.stores.sqlite.opening import (
    beside,
    connect_sqlite,
    has_log,
    index_files,
    inspect,
    not_a_store,
    require_own_log,
)
from agentmem.stores.sqlite.schema import MIGRATIONS
from agentmem.stores.sqlite.store import SqliteStore
from agentmem.stores.sqlite.upkeep import write_copy
from agentmem.stores.values import Restored

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
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        there = target.exists()
        with _held(target), new_file(target, replace=there) as temporary:
            indexes = _copy(backup, temporary)
            memories = _checked(backup, temporary, indexes)
            sync(temporary)
            set_aside = _set_aside(target) if there else None
    except FileExistsError:
        raise _busy(target) from None
    except OSError as error:
        if isinstance(error, AgentMemError):
            raise
        raise StoreError(
            f"{target} cannot be written ({error.strerror}).", remedy="Check the folder."
        ) from error
    return Restored(path=target, memories=memories, set_aside=set_aside)


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


def _copy(backup: Path, temporary: Path) -> list[str]:
    """Copy a backup with its own log, without touching it; gives the names of its index files."""
    logged = has_log(backup)
    uri = f"{backup.absolute().as_uri()}?mode=ro{'' if logged else '&immutable=1'}"
    with typed(str(backup)), contextlib.closing(connect_sqlite(uri)) as source:
        if logged:
            require_own_log(backup, source, connect_sqlite)
        write_copy(source, temporary)
        return [str(name) for (name,) in source.execute("SELECT name FROM index_files")]


def _checked(backup: Path, temporary: Path, indexes: Iterable[str]) -> int:
    """How many memories the copy has; refuses one with any damage.

    Its index files are not restored, so it forgets them.
    """
    try:
        with SqliteStore(temporary, checked_below_bytes=0) as store:
            report = store.upkeep.verify()
            if report.ok:
                for name in indexes:
                    store.feed.drop_index_file(name)
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
