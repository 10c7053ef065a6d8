"""A disk that loses power: what was not synced is torn, sector by sector.

`Disk` keeps files as the device has them and the writes that were not synced
yet. `connect_to(disk)` gives connections for `SqliteStore` that run its very
statements on that disk (through apsw, because Python's sqlite3 cannot take a
VFS). All of them share one connection in exclusive locking mode: a VFS written
in Python has no shared memory for the log's index.
"""

from __future__ import annotations

import itertools
import random
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import apsw

SECTOR = 512
_names = itertools.count()


class File:
    """One file: what is on the device, what programs see, and what lies between."""

    def __init__(self, content: bytes = b"") -> None:
        self.durable = bytearray(content)
        self.current = bytearray(content)
        self.pending: list[tuple[int, bytes | None]] = []

    def write(self, offset: int, data: bytes) -> None:
        self.pending.append((offset, data))
        place(self.current, offset, data)

    def truncate(self, size: int) -> None:
        self.pending.append((size, None))
        del self.current[size:]

    def sync(self) -> None:
        self.durable = bytearray(self.current)
        self.pending.clear()

    def torn(self, source: random.Random) -> bytes:
        """What may be on the device after the power went: any of the sectors not synced."""
        content = bytearray(self.durable)
        kept = source.random()
        for offset, data in self.pending:
            if data is None:
                if source.random() < kept:
                    del content[offset:]
                continue
            start = offset
            while start < offset + len(data):
                end = min((start // SECTOR + 1) * SECTOR, offset + len(data))
                part = data[start - offset : end - offset]
                if source.random() < kept:
                    if source.random() < 0.05:
                        part = source.randbytes(len(part))
                    place(content, start, part)
                start = end
        return bytes(content)


def place(content: bytearray, offset: int, data: bytes) -> None:
    if len(content) < offset:
        content.extend(bytes(offset - len(content)))
    content[offset : offset + len(data)] = data


class Disk:
    """Files by path; after `operations_left` writes and syncs the power goes."""

    def __init__(self, folder: Path, *, operations_left: int) -> None:
        self.files: dict[str, File] = {
            str(path): File(path.read_bytes()) for path in folder.iterdir() if path.is_file()
        }
        self.left = operations_left
        self.dead = False
        self.syncs = 0

    def spend(self) -> None:
        self.left -= 1
        if self.left < 0 or self.dead:
            self.dead = True
            raise apsw.IOError("the power is gone")

    def save_torn(self, folder: Path, source: random.Random) -> None:
        """Write what is left of the files after the cut to a real folder."""
        for path, file in self.files.items():
            (folder / Path(path).name).write_bytes(file.torn(source))


class _OpenFile:
    """The methods SQLite calls on an open file."""

    def __init__(self, disk: Disk, file: File, path: str) -> None:
        self._disk = disk
        self._file = file
        self._path = path

    def xRead(self, amount: int, offset: int) -> bytes:
        return bytes(self._file.current[offset : offset + amount])

    def xWrite(self, data: bytes, offset: int) -> None:
        self._disk.spend()
        self._file.write(offset, bytes(data))
        if self._path.endswith("-wal") and offset < 32:
            Path(self._path).write_bytes(self._file.current[:32])  # the mark names this log

    def xTruncate(self, size: int) -> None:
        self._disk.spend()
        self._file.truncate(size)

    def xSync(self, flags: int) -> None:
        del flags
        self._disk.spend()
        self._disk.syncs += 1
        self._file.sync()

    def xFileSize(self) -> int:
        return len(self._file.current)

    def xLock(self, level: int) -> None: ...
    def xUnlock(self, level: int) -> None: ...
    def xCheckReservedLock(self) -> bool:
        return False

    def xFileControl(self, operation: int, pointer: int) -> bool:
        del operation, pointer
        return False

    def xSectorSize(self) -> int:
        return SECTOR

    def xDeviceCharacteristics(self) -> int:
        return int(apsw.SQLITE_IOCAP_POWERSAFE_OVERWRITE)  # as the ordinary unix VFS says

    def xClose(self) -> None: ...


class _DiskVFS(apsw.VFS):
    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self.vfs_name = f"power-cut-{next(_names)}"
        super().__init__(self.vfs_name, base="")

    def xOpen(self, name: Any, flags: list[int]) -> Any:
        path = name.filename() if isinstance(name, apsw.URIFilename) else str(name)
        if path not in self._disk.files:
            real = Path(path)
            self._disk.files[path] = File(real.read_bytes() if real.exists() else b"")
        flags[1] = flags[0]
        return _OpenFile(self._disk, self._disk.files[path], path)

    def xDelete(self, name: str, sync_folder: bool) -> None:
        del sync_folder
        self._disk.spend()
        self._disk.files.pop(name, None)

    def xAccess(self, name: str, flags: int) -> bool:
        del flags
        return name in self._disk.files

    def xFullPathname(self, name: str) -> str:
        return name


class _Cursor:
    def __init__(self, rows: list[Any]) -> None:
        self._rows = rows

    def fetchone(self) -> Any:
        return self._rows[0] if self._rows else None

    def fetchall(self) -> list[Any]:
        return self._rows

    def __iter__(self) -> Iterator[Any]:
        return iter(self._rows)


class DiskConnection:
    """What `SqliteStore` needs of a connection; errors look as those of sqlite3 do."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    @property
    def in_transaction(self) -> bool:
        return bool(self._connection.in_transaction)

    def execute(self, sql: str, parameters: Sequence[Any] = (), /) -> _Cursor:
        if "query_only" in sql:
            return _Cursor([])
        try:
            return _Cursor(self._connection.execute(sql, tuple(parameters)).fetchall())
        except apsw.Error as error:
            raise as_sqlite3(error) from error

    def executemany(self, sql: str, parameters: Iterable[Sequence[Any]], /) -> None:
        try:
            self._connection.executemany(sql, parameters)
        except apsw.Error as error:
            raise as_sqlite3(error) from error

    def close(self) -> None:
        """Left to `Driver.close`: the others share it."""


def as_sqlite3(error: Any) -> sqlite3.Error:
    kind = (
        sqlite3.IntegrityError
        if isinstance(error, apsw.ConstraintError)
        else sqlite3.OperationalError
    )
    translated = kind(str(error))
    translated.sqlite_errorcode = int(getattr(error, "result", apsw.SQLITE_IOERR))
    return translated


class Driver:
    """Connections of a store to a disk."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._vfs = _DiskVFS(disk)
        self._connection: Any = None

    def __call__(self, uri: str, /) -> DiskConnection:
        if ":memory:" in uri:
            return DiskConnection(apsw.Connection(":memory:"))
        if self._connection is None:
            path = uri.removeprefix("file://").split("?")[0]
            self._connection = apsw.Connection(path, vfs=self._vfs.vfs_name)
            self._connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        return DiskConnection(self._connection)

    def close(self) -> None:
        """Cut the power, if it is still there, and let go."""
        self._disk.dead = True
        if self._connection is not None:
            with suppress(apsw.Error):
                self._connection.close(True)
        self._vfs.unregister()
