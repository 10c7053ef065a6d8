"""The one way files are written: whole or not at all, and readable for their owner only."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, TextIO

from agentmem.errors import AgentMemError, StoreError, StoreFull
from agentmem.stores.open_files import require_not_open

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
    with (
        new_file(target) as temporary,
        open(_write_only(temporary), "w", encoding="utf-8", newline="\n") as file,
    ):
        yield file


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
def new_bytes(target: Path) -> Iterator[BinaryIO]:
    """The bytes of a `new_file`."""
    with new_file(target) as temporary, open(_write_only(temporary), "wb") as file:
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


def sync(path: Path) -> None:
    """Make the content of a file that nobody has open survive a power cut."""
    descriptor = os.open(path, os.O_RDWR | NO_LINKS)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(folder: Path) -> None:
    """Make a new name in `folder` survive a power cut, where the system can."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
