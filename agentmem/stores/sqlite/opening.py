"""What stands at the path of a store: whether it is ours, whole, and has its own log."""

from __future__ import annotations

import os
import re
import sqlite3
import stat
import struct
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from functools import cache, lru_cache
from pathlib import Path

from agentmem.base.errors import (
    FileRefused,
    NotAStore,
    StaleLog,
    StoreCorrupt,
    StoreError,
    StoreReadOnly,
    StoreTooNew,
)
from agentmem.stores.open_files import NO_LINKS, is_open_here, reading, sync_folder
from agentmem.stores.sqlite.connection import Connection, Ledger, is_busy
from agentmem.stores.sqlite.schema import APPLICATION_ID, MIGRATIONS, Step
from agentmem.stores.tables import Row, corrupt

# ----------------------------------------------------------------------------
# The files of a store: what stands at a path, and whether the log beside it is whole.
#
# SQLite reads its write-ahead log up to the first damaged frame and silently
# leaves out the rest. After each durable commit the store therefore notes the
# number of the commit in a small file, `<store>-mark`. It is not synced: it only
# has to survive a killed process. When a log is found whose mark says that more
# was committed than SQLite recovers, the store refuses to open.


_MAGIC = b"SQLite format 3\x00"
_MARK = struct.Struct("<q")
_LOG_HEADER_BYTES = 32
_INDEX_SUFFIX = r"(\.words|\.vectors-[0-9a-f]{12})"  # memory.db.words
_EMPTY_TREE = b"\x00\x00"


@lru_cache(maxsize=64)  # every transaction looks for the log
def beside(path: Path, suffix: str) -> Path:
    """The store's file with this suffix, such as `-wal`."""
    return path.with_name(path.name + suffix)


def index_files(path: Path) -> list[Path]:
    """The index files that lie beside the store at `path`, told by their names."""
    try:
        names = sorted(os.listdir(path.parent))
    except OSError:
        return []
    own = re.compile(re.escape(path.name) + _INDEX_SUFFIX)
    found = [path.with_name(name) for name in names if own.fullmatch(name)]
    return [file for file in found if file.is_symlink() or not file.is_dir()]


def inspect(path: Path, *, known_version: int) -> bool:
    """Whether `path` holds something to open; refuses what is not ours or is too new.

    The file is only read. An empty one, or one SQLite has just begun, counts
    as nothing yet.
    """
    if is_open_here(path):
        return True  # it was looked at when it was opened
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise not_a_store(path, "it is a folder")
        if not stat.S_ISREG(mode):
            raise not_a_store(path, "it is a device or a pipe")  # reading it could take for ever
        with reading(path) as file:
            header = file.read(108)
    except FileRefused:
        return True  # another thread opens it at this moment
    except (FileNotFoundError, NotADirectoryError):
        return False
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
        if logged or size_of(beside(path, ".words")):
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


def size_of(path: Path) -> int:
    """How many bytes a file has; none if it is not there."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def remove_bytes(path: Path) -> None:
    """Overwrite and remove a file; nothing if it is not there.

    A link, or one of several names of a file, is only removed: what it leads
    to may be somebody else's.
    """
    with suppress(FileNotFoundError):
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
    return size_of(beside(path, "-wal")) >= _LOG_HEADER_BYTES


class Mark:
    """The number of the last commit that was acknowledged, kept outside SQLite."""

    def __init__(self, path: Path) -> None:
        self._path = beside(path, "-mark")

    def write(self, commits: int) -> None:
        """Note that `commits` are durable. Failing here loses nothing, so it is not an error."""
        body = _MARK.pack(commits)
        with suppress(OSError):
            self._put(body + zlib.crc32(body).to_bytes(4, "little"), os.O_CREAT)

    def read(self) -> int:
        """The number that was noted; 0 when there is none that can be trusted."""
        try:
            content = self._path.read_bytes()
        except OSError:
            return 0
        body, check = content[: _MARK.size], content[_MARK.size :]
        return int(_MARK.unpack(body)[0]) if zlib.crc32(body).to_bytes(4, "little") == check else 0

    def forget(self) -> None:
        """A store without a log has everything in its file: an old note says nothing about it."""
        with suppress(OSError):
            self._put(bytes(_MARK.size + 4))

    def _put(self, content: bytes, flags: int = 0) -> None:
        opened = _open_own(self._path, os.O_RDWR | flags)
        with open(opened, "wb", buffering=0) as file:
            file.write(content)

    def remove(self) -> None:
        """After a clean close there is no log, so no mark is needed."""
        with suppress(OSError):
            self._path.unlink()


def _open_own(path: Path, flags: int) -> int:
    """Open a file that has this name only and is no link: what others lead to is not ours."""
    descriptor = os.open(path, flags | NO_LINKS, 0o600)
    if os.fstat(descriptor).st_nlink > 1:
        os.close(descriptor)
        raise OSError(f"{path} has other names")
    return descriptor


# ----------------------------------------------------------------------------
# Whether the log beside a store was written for that very file.
#
# SQLite puts any log it finds beside a file into it. When a backup is copied over
# a store whose process was killed, that mixes pages of two states. Each ledger
# names the one before it, and each commit writes the ledger, so a log and its
# file can be told from others: the file alone holds the ledger that the log's
# first commit was made from, or, where part of the log was moved into it already,
# one of those in the log.


_HEADER = struct.Struct(">IIII8sII")
_FRAME = struct.Struct(">II8sII")
_MAGICS = (0x377F0682, 0x377F0683)
_TABLE_LEAF = 0x0D
_ROOT = "SELECT rootpage FROM sqlite_master WHERE name = 'ledger' AND type = 'table'"
_TRIES = 5


def require_own_log(path: Path, reader: Connection, connect: Connect) -> None:
    """Refuse the store at `path` when its log follows another state than the file holds.

    `reader` sees file and log together. While it looks, nobody can begin the
    log anew. What cannot be told, because a power cut tore the file or the log,
    passes: the checks of what is read decide.
    """
    reader.execute("BEGIN")
    try:
        (root,) = reader.execute(_ROOT).fetchone()
        (shown,) = reader.execute("SELECT data FROM ledger").fetchone()
        # A page may be moved from the log into the file while it is being read.
        for _ in range(_TRIES):
            alone = _file_alone(path, connect)
            if alone is None:
                return
            file_root, kept = alone
            if kept.check == Ledger(str(shown)).check:
                return
            logged = list(_ledgers(path, {root, file_root}))
            if not logged or not logged[0].previous:
                return
            if kept.check in {logged[0].previous, *(ledger.check for ledger in logged)}:
                return
    except StoreCorrupt:
        return
    finally:
        reader.execute("ROLLBACK")
    name = path.name
    raise StaleLog(
        f"{name}-wal is not the log of this {name} but of another one: most likely a copy was put "
        "in the place of a store that had not been closed.",
        remedy=f"Nothing was changed. Put the copy in place with `agentmem restore`, or remove "
        f"{name}-wal, {name}-shm and {name}-mark to use {name} without them.",
    )


def _file_alone(path: Path, connect: Connect) -> tuple[int, Ledger] | None:
    """The root page of the ledger and the ledger itself, as they are without the log."""
    try:
        # Through SQLite, because closing the file otherwise drops the locks of this process.
        with closing(connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1")) as connection:
            connection.execute("PRAGMA trusted_schema = OFF").fetchall()
            root = connection.execute(_ROOT).fetchone()
            found = root and connection.execute("SELECT data FROM ledger").fetchone()
        return (int(root[0]), Ledger(str(found[0]))) if found else None
    except sqlite3.Error as error:
        if is_busy(error):
            raise
        return None
    except (StoreCorrupt, UnicodeDecodeError):
        return None


def _ledgers(path: Path, roots: set[int]) -> Iterator[Ledger]:
    """The ledgers in the log, in the order of its frames; those that are torn left out."""
    try:
        file = path.with_name(f"{path.name}-wal").open("rb")
    except OSError:
        return
    with file:
        head = file.read(_HEADER.size)
        if len(head) < _HEADER.size:
            return
        magic, _, page_bytes, _, salts, _, _ = _HEADER.unpack(head)
        if magic not in _MAGICS:
            return
        while len(frame := file.read(_FRAME.size)) == _FRAME.size:
            number, _, frame_salts, _, _ = _FRAME.unpack(frame)
            if frame_salts != salts:
                return  # what follows is left from an earlier round of the log
            if number not in roots:
                file.seek(page_bytes, 1)
                continue
            ledger = _ledger_on(file.read(page_bytes))
            if ledger is not None:
                yield ledger


def _ledger_on(page: bytes) -> Ledger | None:
    """The ledger on a page of its table: one row, whose key takes no room in it."""
    try:
        if page[0] != _TABLE_LEAF:
            return None
        payload, at = _varint(page, int.from_bytes(page[8:10], "big"))
        _, at = _varint(page, at)
        if payload > len(page) - 35:
            return None  # it goes on on other pages
        record = page[at : at + payload]
        header, _ = _varint(record, 0)
        return Ledger(record[header:].decode("ascii"))
    except (IndexError, UnicodeDecodeError, StoreCorrupt):
        return None


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number as SQLite writes it, and where it ends."""
    value = 0
    for place in range(at, at + 8):
        value = value << 7 | data[place] & 0x7F
        if data[place] < 0x80:
            return value, place + 1
    return value << 8 | data[at + 8], at + 9


Connect = Callable[[str], Connection]
"""Opens the database at a URI such as `file:/a/b.db?mode=rw`."""


def connect_sqlite(uri: str) -> Connection:
    """A connection of Python's own SQLite, in autocommit and without waits: both are ours."""
    return sqlite3.connect(
        uri, uri=True, timeout=0, isolation_level=None, check_same_thread=False,
        cached_statements=256,
    )  # fmt: skip


def require_our_schema(
    connection: Connection, path: Path, migrations: tuple[Step, ...] = MIGRATIONS
) -> None:
    """Refuse a file with any table, index, trigger or view that its version does not have.

    Asked before anything else is read from a file: a statement on a table that
    somebody made a view, or gave a trigger, runs what they wrote.
    """
    connection.execute("PRAGMA trusted_schema = OFF").fetchall()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > len(migrations):
        raise too_new(path, version, len(migrations))
    found = schema_of(connection)
    if found and version < 1:
        raise corrupt("its schema version is missing, and it has tables")
    if found != _expected_schema(migrations[:version]):
        raise StoreCorrupt(
            f"{path} has other tables, indexes, triggers or views than agentmem made.",
            remedy="Nothing in it was run or changed. Restore a backup, and do not use it if "
            "somebody sent it to you.",
        )


def schema_of(connection: Connection) -> list[Row]:
    """Everything in the file's schema as it was made; the figures of ANALYZE left out."""
    return [
        row
        for row in connection.execute(
            "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY name"
        ).fetchall()
        if row not in _STATISTICS
    ]


_STATISTICS = tuple(
    ("table", name, name, f"CREATE TABLE {name}({columns})")
    for name, columns in (
        ("sqlite_stat1", "tbl,idx,stat"),
        ("sqlite_stat4", "tbl,idx,neq,nlt,ndlt,sample"),
    )
)


@cache
def _expected_schema(migrations: tuple[Step, ...]) -> list[Row]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        for step in migrations:
            for statement in step:
                connection.execute(statement)
        return schema_of(connection)


def close_quietly(connection: Connection) -> None:
    with suppress(sqlite3.Error):
        connection.close()
