"""What erasing leaves to do in the files: every free page, the log and index files (P26)."""

from __future__ import annotations

import time

from agentmem.base.errors import StoreBusy
from agentmem.stores.side import get_value, set_value
from agentmem.stores.sqlite import opening
from agentmem.stores.sqlite.opening import remove_bytes
from agentmem.stores.sqlite.pool import Database
from agentmem.stores.sqlite.writing import ERASE_PENDING
from agentmem.stores.tables import INDEX_FILES


def clean_files(database: Database, *, wait_seconds: float | None = None) -> bool:
    """Finish an erasure: forget names, remove index files, rewrite the file, empty the log.

    Freed cells are overwritten with zeros as they are freed, but pages that
    SQLite rearranged may hold copies in their unused parts; only writing the
    whole file anew is certain. False when a reader of an older state kept the
    log from being emptied within `wait_seconds`; the note that this is to be
    done stays.
    """
    database.names.clear()
    wait_seconds = database.busy_seconds if wait_seconds is None else wait_seconds
    with database.reading() as read:
        pending = get_value(read, ERASE_PENDING) is not None
        kept = {row[1] for row in read.find(INDEX_FILES)}
    if not pending:
        return True
    if not database.in_memory:
        # Found by their own names: what stands in the file may have been written by anybody.
        for file in opening.index_files(database.path):
            if file.name not in kept:
                remove_bytes(file)
    try:
        database.vacuum(wait_seconds=wait_seconds)
        if not empty_log(database, wait_seconds=wait_seconds):
            return False
        with database.writing(wait_seconds=wait_seconds) as write:
            set_value(write, ERASE_PENDING, None)
    except StoreBusy:
        return False
    return empty_log(database, wait_seconds=wait_seconds)


def empty_log(database: Database, *, wait_seconds: float) -> bool:
    """Move the log into the file and cut it to nothing; false when somebody else prevented it."""
    deadline = time.monotonic() + wait_seconds
    while True:
        try:
            with database.alone(wait_seconds=wait_seconds) as connection:
                busy, *_ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        except StoreBusy:
            return False
        if not busy:
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
