"""Write a file that a user named: whole or not at all, and into what stands there."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from agentmem.errors import AgentMemError, StoreError, StoreFull
from agentmem.stores.open_files import require_not_open

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


@contextmanager
def written_whole(path: Path) -> Iterator[TextIO]:
    """Text for `path`, which appears there when the block ends without an error.

    A link stays one and its target is replaced. A pipe or a device is written
    as the text comes. What cannot be written raises `StoreError`; the files of a
    store that is open here are refused.
    """
    require_not_open(path)
    try:
        with _into(path) if is_special(path) else _in_place_of(final_path(path)) as file:
            yield file
    except OSError as error:
        if isinstance(error, AgentMemError):
            raise
        if error.errno in _NO_ROOM:
            raise StoreFull(
                f"There is no room left for {path}.", remedy="Free some space, or use another path."
            ) from error
        raise StoreError(
            f"{path} cannot be written ({error.strerror}).", remedy="Use another path."
        ) from error


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
def _into(path: Path) -> Iterator[TextIO]:
    with os.fdopen(os.open(path, os.O_WRONLY), "w", encoding="utf-8", newline="\n") as file:
        yield file


@contextmanager
def _in_place_of(target: Path) -> Iterator[TextIO]:
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    finally:
        with suppress(OSError):  # a file system that is read-only refuses even what is not there
            temporary.unlink()
