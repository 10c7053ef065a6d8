"""The files of the stores this process has open: nobody else here opens them, no fork splits them.

POSIX locks belong to a process and a file. Closing any descriptor of the file
drops all of them, so a file of an open store is not read here a second time: it
is refused, and what was being read already when the store was opened is closed
after it. A forked child has none of its parent's locks, but SQLite's notes that
it has them; so before a fork every connection is closed, and afterwards parent
and child each open their own when they need one.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, TextIO
from weakref import WeakSet

from agentmem.base.errors import AgentMemError, FileRefused, StoreError, StoreFull

if TYPE_CHECKING:
    from agentmem.stores.sqlite.pool import Database

LONGEST_WAIT_SECONDS = 2.0
"""So long a fork waits for the reads and writes that are under way."""

_BESIDE = ("-wal", "-shm", "-journal", "-mark")

Key = tuple[int, int]
"""Device and inode: the file itself, whatever its names are."""


class OpenStore(NamedTuple):
    """A store's file that is open here."""

    path: Path
    key: Key


_lock = threading.RLock()
_stores: list[OpenStore] = []
_kept: list[BinaryIO] = []
_spoiled: dict[Key, StoreError] = {}
_leaked: list[object] = []
_holders: WeakSet[Database] = WeakSet()


def key_of(path: Path) -> Key | None:
    """The file that stands at `path`, or None."""
    try:
        return _key(path.stat())
    except OSError:
        return None


def note_holder(holder: Database) -> None:
    """Have `holder` asked before each fork, for as long as it lives."""
    with _lock:
        _holders.add(holder)
        _listen_to_forks()


def note_open(path: Path) -> OpenStore:
    """Count the file at `path` as open, from before it is opened until `note_closed`."""
    with _lock:
        store = OpenStore(path, _key(path.stat()))
        if store.key in _spoiled:
            raise _spoiled[store.key]
        _stores.append(store)
        return store


@contextmanager
def alone(store: OpenStore | None) -> Iterator[bool]:
    """Whether nobody else here has the file open; while this lasts, nobody can open it."""
    with _lock:
        yield store is not None and sum(other.key == store.key for other in _stores) == 1


def note_closed(store: OpenStore | None) -> None:
    """The opposite, once every connection is closed."""
    with _lock:
        if store in _stores:
            _stores.remove(store)
        for file in tuple(_kept):
            if _owner(_key(os.fstat(file.fileno()))) is None:
                _kept.remove(file)
                file.close()


def is_open_here(path: Path) -> bool:
    """Whether this process has the file at `path` open as a store."""
    key = key_of(path)
    with _lock:
        return any(store.key == key for store in _stores)


def spoil(key: Key, error: StoreError, *connections: object) -> None:
    """Refuse the file to this process from now on, and never close `connections`.

    SQLite keeps one note of its locks for each file and process. When that note
    is wrong, a new connection believes it too, and closing an old one writes.
    """
    import ctypes

    with _lock:
        _spoiled.setdefault(key, error)
        _leaked.extend(connections)
    for connection in connections:  # not even when the interpreter ends
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))


@contextmanager
def reading(path: Path, *, flags: int = 0) -> Iterator[BinaryIO]:
    """The file, to read its bytes; `FileRefused` when it belongs to a store that is open here.

    Whoever reads a file that could be a store's reads it with this.
    """
    require_not_open(path)
    file = open(path, "rb", opener=lambda name, mode: os.open(name, mode | flags))  # noqa: SIM115
    try:
        _require_free(path, _key(os.fstat(file.fileno())))
        yield file
    finally:
        _let_go(file)


def require_not_open(path: Path) -> None:
    """Refuse a path where a file of a store stands that is open here; nothing is opened."""
    _require_free(path, key_of(path))


def _require_free(path: Path, key: Key | None) -> None:
    with _lock:
        if key is None or _owner(key) is None:
            return
    raise FileRefused(
        path,
        "belongs to a store that is open here",
        remedy="Use upkeep.backup() or upkeep.export_jsonl() for a copy, or close it first.",
    )


def _let_go(file: BinaryIO) -> None:
    with _lock:
        if file.closed:
            return
        if _owner(_key(os.fstat(file.fileno()))) is None:
            file.close()
        else:
            _kept.append(file)


def _key(found: os.stat_result) -> Key:
    return found.st_dev, found.st_ino


def _owner(key: Key) -> OpenStore | None:
    for store in _stores:
        if key == store.key:
            return store
    for store in _stores:
        if any(key_of(store.path.with_name(store.path.name + end)) == key for end in _BESIDE):
            return store
    return None


# Forks

_turn = threading.Lock()
_under_way = ExitStack()


@cache
def _listen_to_forks() -> None:
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(
            before=_before_fork, after_in_parent=_in_parent, after_in_child=_in_child
        )


def _before_fork() -> None:
    _turn.acquire()
    _under_way.callback(_turn.release)
    deadline = time.monotonic() + LONGEST_WAIT_SECONDS
    held: list[Database] = []
    while True:
        _lock.acquire()  # kept when nobody is left: no store is opened until the fork is over
        new = [holder for holder in _holders if holder not in held]
        if not new:
            _under_way.callback(_lock.release)
            return
        _lock.release()
        held += new
        for hold in ("hold_writes", "hold_all"):
            # All writes first: who writes to one store may be reading another.
            for holder in new:
                go_on = getattr(holder, hold)(max(0.0, deadline - time.monotonic()))
                if go_on is not None:
                    _under_way.callback(go_on)


def _in_parent() -> None:
    _under_way.pop_all().close()  # the next fork may begin before the last lock is released


def _in_child() -> None:
    global _lock, _turn  # threads of the parent may have the old ones
    _lock, _turn = threading.RLock(), threading.Lock()
    _under_way.pop_all()  # the locks it would release are its parent's
    _stores.clear()
    for holder in tuple(_holders):
        holder.go_on_in_child()


# ----------------------------------------------------------------------------
# The one way files are written: whole or not at all, and readable for their owner only.


NO_LINKS: int = getattr(os, "O_NOFOLLOW", 0)  # Windows has no such flag
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


@contextmanager
def written_whole(path: Path) -> Iterator[TextIO]:
    """Text for `path`, which appears there when the block ends without an error.

    A link stays one and its target is replaced. A pipe or a device is written
    as the text comes. What cannot be written raises `StoreError`; the files of a
    store that is open here are refused.
    """
    require_not_open(path)
    with written_to(path, "Use another path."), ExitStack() as made:
        if is_special(path):
            opened = os.open(path, os.O_WRONLY)
        else:
            opened = _write_only(made.enter_context(new_file(final_path(path))))
        with open(opened, "w", encoding="utf-8", newline="\n") as file:
            yield file


@contextmanager
def written_to(path: Path, remedy: str) -> Iterator[None]:
    """Raise our errors for what the system says of a file that cannot be written.

    That a file is there already comes through.
    """
    try:
        yield
    except OSError as error:
        if isinstance(error, AgentMemError | FileExistsError):
            raise
        if error.errno in _NO_ROOM:
            raise StoreFull(
                f"There is no room left for {path}.", remedy="Free some space, or use another path."
            ) from error
        raise StoreError(f"{path} cannot be written ({error.strerror}).", remedy=remedy) from error


def is_special(path: Path) -> bool:
    """Whether something stands at `path` that is no ordinary file: a pipe, a device, a folder."""
    try:
        return not stat.S_ISREG(path.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False


def final_path(path: Path) -> Path:
    """The file that is meant once all links are followed; it need not exist."""
    return Path(os.path.realpath(path))


@contextmanager
def new_file(target: Path, *, replace: bool = True) -> Iterator[Path]:
    """A new, empty file to be filled, which takes the name `target` when the block ends.

    Everything that agentmem writes to a disk is written so. The file lies in the
    same folder under a name nobody can foresee, readable for its owner only, and
    is synced before it is renamed: `target` is the old file or the whole new one,
    whatever happens. Without `replace`, a `target` that is there by then raises
    `FileExistsError`. A failing block leaves nothing behind.
    """
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
    os.close(os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | NO_LINKS, 0o600))
    try:
        yield temporary
        sync(temporary)
        if replace:
            temporary.replace(target)
        else:
            _link(temporary, target)
        sync_folder(target.parent)
    finally:
        for suffix in ("", "-wal", "-shm", "-journal"):  # what SQLite puts beside a file
            with suppress(OSError):  # a read-only file system refuses even what is not there
                temporary.with_name(temporary.name + suffix).unlink()


@contextmanager
def new_bytes(target: Path, *, replace: bool = True) -> Iterator[BinaryIO]:
    """The bytes of a `new_file`."""
    with (
        new_file(target, replace=replace) as temporary,
        open(_write_only(temporary), "wb") as file,
    ):
        yield file


def _write_only(path: Path) -> int:
    return os.open(path, os.O_WRONLY | NO_LINKS)


def _link(new: Path, path: Path) -> None:
    """Give `new` the name `path`, unless that is taken."""
    try:
        os.link(new, path)
    except FileExistsError:
        raise
    except OSError:  # a file system without links
        if path.exists():
            raise FileExistsError(path) from None
        new.rename(path)


def sync(path: Path, flags: int = os.O_RDWR | NO_LINKS) -> None:
    """Make the content of a file that nobody has open survive a power cut."""
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(folder: Path) -> None:
    """Make a new name in `folder` survive a power cut, where the system can."""
    with suppress(OSError):
        sync(folder, os.O_RDONLY)
