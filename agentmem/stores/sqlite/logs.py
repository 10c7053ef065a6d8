"""Whether the log beside a store was written for that very file.

SQLite puts any log it finds beside a file into it. When a backup is copied over
a store whose process was killed, that mixes pages of two states. Each ledger
names the one before it, and each commit writes the ledger, so a log and its
file can be told from others: the file alone holds the ledger that the log's
first commit was made from, or, where part of the log was moved into it already,
one of those in the log.
"""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from agentmem.errors import StaleLog, StoreCorrupt
from agentmem.stores.sqlite.failures import is_busy
from agentmem.stores.sqlite.ledger import Ledger
from agentmem.stores.sqlite.transactions import Connection

_HEADER = struct.Struct(">IIII8sII")
_FRAME = struct.Struct(">II8sII")
_MAGICS = (0x377F0682, 0x377F0683)
_TABLE_LEAF = 0x0D
_ROOT = "SELECT rootpage FROM sqlite_master WHERE name = 'ledger' AND type = 'table'"
_TRIES = 5


class _Connect(Protocol):
    def __call__(self, uri: str, /) -> Connection: ...


def require_own_log(path: Path, reader: Connection, connect: _Connect) -> None:
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


def _file_alone(path: Path, connect: _Connect) -> tuple[int, Ledger] | None:
    """The root page of the ledger and the ledger itself, as they are without the log."""
    try:
        # Through SQLite, because closing the file otherwise drops the locks of this process.
        connection = connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1")
        try:
            connection.execute("PRAGMA trusted_schema = OFF").fetchall()
            root = connection.execute(_ROOT).fetchone()
            found = root and connection.execute("SELECT data FROM ledger").fetchone()
        finally:
            connection.close()
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
