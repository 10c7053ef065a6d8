"""SQLite's errors as ours, in one place."""

from __future__ import annotations

import sqlite3

from agentmem.errors import (
    InvalidInput,
    NotAStore,
    StoreBusy,
    StoreClosed,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreReadOnly,
)

BUSY, LOCKED, READONLY, IOERR, CORRUPT, FULL, CANTOPEN = 5, 6, 8, 10, 11, 13, 14
PROTOCOL, TOOBIG, NOTADB, CONSTRAINT = 15, 18, 26, 19
_GENERIC = 1


def code_of(error: BaseException) -> int:
    """SQLite's primary result code, or 0 when the error carries none."""
    return int(getattr(error, "sqlite_errorcode", 0) or 0) & 0xFF


def is_busy(error: BaseException) -> bool:
    """Whether trying again later can help."""
    return code_of(error) in (BUSY, LOCKED, PROTOCOL)


def translated(error: sqlite3.Error, where: str) -> StoreError | InvalidInput:
    """The typed error for what SQLite said about the store at `where`."""
    code, said = code_of(error), str(error)
    if is_busy(error):
        return StoreBusy(
            f"Another writer held {where} for too long.",
            remedy="Try again, or raise busy_seconds.",
        )
    if code == FULL:
        return StoreFull(
            f"There is no room left for {where}.",
            remedy="Free some space; everything acknowledged before is safe.",
        )
    if code == READONLY:
        return StoreReadOnly(
            f"{where} cannot be written.", remedy="Check the permissions of the file and folder."
        )
    if code == CANTOPEN:
        return StoreReadOnly(
            f"{where} cannot be opened ({said}).",
            remedy="Check that the folder exists and that you may write to it.",
        )
    if code == NOTADB:
        return NotAStore(
            f"{where} is not an agentmem store.", remedy="It was left as it is; use another path."
        )
    if code == TOOBIG:
        return InvalidInput("text", said, "is larger than SQLite can keep", remedy="Cut it.")
    if code == IOERR:
        return StoreError(
            f"The disk failed under {where} ({said}).",
            remedy="Check the device; everything acknowledged before is safe.",
        )
    if isinstance(error, sqlite3.ProgrammingError) and "closed" in said:
        return closed(where)
    # Our statements are fixed and our schema is checked, so what is left is damage:
    # a column that is gone, text that is not UTF-8, a constraint that cannot fail.
    if code in (CORRUPT, CONSTRAINT, _GENERIC) or isinstance(error, sqlite3.DatabaseError):
        return StoreCorrupt(
            f"{where} is damaged ({said}).", remedy="Restore a backup, or run `agentmem doctor`."
        )
    return StoreError(f"{where}: {said}.")


def closed(where: str) -> StoreClosed:
    return StoreClosed(f"{where} was closed.", remedy="Open it again with agentmem.open().")


class typed:  # noqa: N801 - used as `with typed(where):`, and cheaper than a generator
    """Raise our errors for SQLite's inside the block."""

    __slots__ = ("_where",)

    def __init__(self, where: str) -> None:
        self._where = where

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, sqlite3.Error):
            raise translated(error, self._where) from error
        if isinstance(error, UnicodeDecodeError):  # SQLite quotes the damaged text in its message
            raise StoreCorrupt(f"{self._where} is damaged.", remedy="Restore a backup.") from error
