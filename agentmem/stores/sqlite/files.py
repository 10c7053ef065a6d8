"""The files of a store: what stands at a path, and whether the log beside it is whole.

SQLite reads its write-ahead log up to the first damaged frame and silently
leaves out the rest. After each durable commit the store therefore notes the
number of the commit in a small file, `<store>-mark`. It is not synced: it only
has to survive a killed process. When a log is found whose mark says that more
was committed than SQLite recovers, the store refuses to open.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import re
import stat
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

from agentmem.errors import (
    FileRefused,
    NotAStore,
    StoreCorrupt,
    StoreError,
    StoreReadOnly,
    StoreTooNew,
)
from agentmem.stores.open_files import is_open_here, reading
from agentmem.stores.sqlite.schema import APPLICATION_ID
from agentmem.stores.whole_files import NO_LINKS, new_file, sync_folder

_MAGIC = b"SQLite format 3\x00"
_MARK = struct.Struct("<q")
_LOG_HEADER_BYTES = 32
_INDEX_SUFFIX = re.compile(r"\.words|\.vectors-[0-9a-f]{12}")  # memory.db.words
_EMPTY_TREE = b"\x00\x00"


def beside(path: Path, suffix: str) -> Path:
    """The store's file with this suffix, such as `-wal`."""
    return path.with_name(path.name + suffix)


def is_index_file(path: Path, name: str) -> bool:
    """Whether `name` is that of an index file of the store at `path`, and of nothing else."""
    begins, rest = name[: len(path.name)], name[len(path.name) :]
    return begins == path.name and _INDEX_SUFFIX.fullmatch(rest) is not None


def index_files(path: Path) -> list[Path]:
    """The index files that lie beside the store at `path`."""
    try:
        names = sorted(os.listdir(path.parent))
    except OSError:
        return []
    found = [path.with_name(name) for name in names if is_index_file(path, name)]
    return [file for file in found if file.is_symlink() or not file.is_dir()]


def inspect(path: Path, *, known_version: int) -> bool:
    """Whether `path` holds something to open; refuses what is not ours or is too new.

    The file is only read. An empty one, or one SQLite has just begun, counts
    as nothing yet.
    """
    if is_open_here(path):
        return True  # it was looked at when it was opened
    try:
        if not stat.S_ISREG(path.stat().st_mode) and not path.is_dir():
            raise not_a_store(path, "it is a device or a pipe")  # reading it could take for ever
        with reading(path) as file:
            header = file.read(108)
    except FileRefused:
        return True  # another thread opens it at this moment
    except (FileNotFoundError, NotADirectoryError):
        return False
    except IsADirectoryError:
        raise not_a_store(path, "it is a folder") from None
    except PermissionError:
        raise StoreReadOnly(
            f"{path} cannot be read.", remedy="Check the permissions of the file."
        ) from None
    except OSError as error:
        raise StoreError(
            f"{path} cannot be read ({error.strerror}).", remedy="Use another path."
        ) from error
    logged = has_log(path)
    if not header:
        if logged or has_content(beside(path, ".words")):
            raise StoreCorrupt(
                f"{path} is empty, but was a store: other files of it are still there.",
                remedy=f"Restore a backup, or remove {path.name} and those to begin anew.",
            )
        return False
    if not header.startswith(_MAGIC) or len(header) < 108:
        if logged:
            return True  # a power cut may have torn what the log still has: SQLite will say
        raise not_a_store(path, "it is not a SQLite file")
    version, application = struct.unpack(">i4xI", header[60:72])
    if application == APPLICATION_ID:
        if version > known_version:
            raise too_new(path, version, known_version)
        return True
    if application == 0 and version == 0 and (logged or header[103:105] == _EMPTY_TREE):
        return True
    raise not_a_store(path, "it belongs to another program")


def not_a_store(path: Path, reason: str) -> NotAStore:
    return NotAStore(
        f"{path} is not an agentmem store: {reason}.",
        remedy="It was left as it is; use another path.",
    )


def too_new(path: Path, version: int, known_version: int) -> StoreTooNew:
    return StoreTooNew(
        f"{path} has schema version {version}, this agentmem knows up to {known_version}.",
        remedy="It was left as it is; install a newer agentmem.",
    )


def has_content(path: Path) -> bool:
    try:
        return path.stat().st_size > 0
    except OSError:
        return False


def create(path: Path, make: Callable[[Path], None]) -> None:
    """A file only its owner can read, and its folder; nothing if there is a file.

    `make` fills it under another name, so that it appears complete or not at
    all: a power cut leaves nothing that looks like something else.
    """
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    # When another process was first, its file is the one.
    with contextlib.suppress(FileExistsError), new_file(path, replace=False) as new:
        make(new)


def remove_bytes(path: Path) -> None:
    """Overwrite and remove a file; nothing if it is not there.

    A link, or one of several names of a file, is only removed: what it leads
    to may be somebody else's.
    """
    with contextlib.suppress(FileNotFoundError):
        found = path.lstat()
        if stat.S_ISREG(found.st_mode) and found.st_nlink == 1:
            with open(os.open(path, os.O_RDWR | NO_LINKS), "r+b") as file:
                left = os.fstat(file.fileno()).st_size
                while left > 0:
                    left -= file.write(bytes(min(left, 1 << 20)))
                file.flush()
                os.fsync(file.fileno())
        path.unlink()
        sync_folder(path.parent)


def has_log(path: Path) -> bool:
    """Whether the store at `path` has a log with something in it, whole or not."""
    try:
        return beside(path, "-wal").stat().st_size >= _LOG_HEADER_BYTES
    except OSError:
        return False


class Mark:
    """The number of the last commit that was acknowledged, kept outside SQLite."""

    def __init__(self, path: Path) -> None:
        self._path = beside(path, "-mark")
        self._memory: mmap.mmap | None = None

    def write(self, commits: int) -> None:
        """Note that `commits` are durable. Failing here loses nothing, so it is not an error."""
        with contextlib.suppress(OSError):
            if self._memory is None:
                self._memory = _map_file(self._path, _MARK.size + 4)
            body = _MARK.pack(commits)
            self._memory[:] = body + zlib.crc32(body).to_bytes(4, "little")

    def read(self) -> int:
        """The number that was noted; 0 when there is none that can be trusted."""
        try:
            content = self._path.read_bytes()
        except OSError:
            return 0
        body = content[: _MARK.size]
        if zlib.crc32(body).to_bytes(4, "little") != content[_MARK.size :]:
            return 0
        return int(_MARK.unpack(body)[0])

    def forget(self) -> None:
        """A store without a log has everything in its file: an old note says nothing about it."""
        with contextlib.suppress(OSError):
            descriptor = _open_own(self._path, os.O_RDWR)
            try:
                os.write(descriptor, bytes(_MARK.size + 4))
            finally:
                os.close(descriptor)

    def close(self, *, clean: bool) -> None:
        """Let go of the file; after a `clean` close there is no log, so no mark is needed."""
        if self._memory is not None:
            self._memory.close()
            self._memory = None
        if clean:
            with contextlib.suppress(OSError):
                self._path.unlink()


def _map_file(path: Path, size: int) -> mmap.mmap:
    """A small file as memory: writing to it costs no call, and it survives a killed process."""
    descriptor = _open_own(path, os.O_RDWR | os.O_CREAT)
    try:
        if os.fstat(descriptor).st_size != size:
            os.ftruncate(descriptor, size)
        return mmap.mmap(descriptor, size)
    finally:
        os.close(descriptor)


def _open_own(path: Path, flags: int) -> int:
    """Open a file that has this name only and is no link: what others lead to is not ours."""
    descriptor = os.open(path, flags | NO_LINKS, 0o600)
    if os.fstat(descriptor).st_nlink > 1:
        os.close(descriptor)
        raise OSError(f"{path} has other names")
    return descriptor
