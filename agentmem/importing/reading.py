"""Open an export: a JSON file, lines of JSON, or the zip file a chat program gives."""

from __future__ import annotations

import json
import os
import re
import stat
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from agentmem.core.checks import require_count, require_path
from agentmem.errors import AgentMemError, FileRefused, FileUnreadable
from agentmem.stores.open_files import reading

LIMIT_BYTES = 1_000_000_000
MOST_MEMBERS = 20_000
_CONVERSATIONS = re.compile(
    r"(?:conversations|projects|memories)(?:[-_.]?\d+)?\.jsonl?\Z", re.IGNORECASE
)
_ZIP = b"PK\x03\x04"


def read_export(path: str | os.PathLike[str], *, limit_bytes: int = LIMIT_BYTES) -> Iterator[Any]:
    """The JSON values of an export, one for each file in it.

    Of a zip file only the conversations and projects are read, in memory;
    nothing is unpacked, so the names in it lead nowhere. `FileRefused` when it
    is no export or larger than `limit_bytes`, unpacked too; `FileUnreadable`
    when it cannot be opened or is damaged.
    """
    require_count(limit_bytes, "limit_bytes", least=1)
    where = Path(require_path(path))
    try:
        with reading(where) as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise FileRefused(where, "is not a file", remedy="Name the exported file.")
            if found.st_size > limit_bytes:
                raise FileRefused(
                    where, f"is larger than {limit_bytes:,} bytes", remedy="Raise limit_bytes."
                )
            if file.read(4) == _ZIP:
                yield from _read_zip(where, file, limit_bytes)
                return
            file.seek(0)
            yield parse(where, file.read(limit_bytes + 1))
    except IsADirectoryError:
        raise FileRefused(where, "is a folder", remedy="Name the file in it.") from None
    except (OSError, ValueError, RuntimeError) as error:
        if isinstance(error, AgentMemError):
            raise
        reason = getattr(error, "strerror", None) or str(error)
        raise FileUnreadable(
            where, f"cannot be read: {reason}", remedy="Check that it is there and yours."
        ) from error


def _read_zip(where: Path, file: IO[bytes], limit_bytes: int) -> Iterator[Any]:
    try:
        with zipfile.ZipFile(file) as archive:
            members = archive.infolist()
            if len(members) > MOST_MEMBERS:
                raise FileRefused(where, f"holds more than {MOST_MEMBERS:,} files")
            wanted = sorted(
                (m for m in members if not m.is_dir() and _CONVERSATIONS.match(_name(m))),
                key=lambda member: member.filename,
            )
            if not wanted:
                raise FileRefused(
                    where, "holds no conversations.json", remedy="Name a ChatGPT or Claude export."
                )
            left = limit_bytes
            for member in wanted:
                with archive.open(member) as opened:
                    # The size a zip states of itself may be a lie: what comes out is counted.
                    data = opened.read(left + 1)
                if len(data) > left:
                    raise FileRefused(
                        where,
                        f"unpacks to more than {limit_bytes:,} bytes",
                        remedy="Raise limit_bytes.",
                    )
                left -= len(data)
                yield parse(where, data)
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, EOFError) as error:
        raise FileUnreadable(
            where, f"is a damaged zip file: {error}", remedy="Download it again."
        ) from error


def _name(member: zipfile.ZipInfo) -> str:
    return member.filename.replace("\\", "/").rpartition("/")[2]


def parse(where: Path, data: bytes) -> Any:
    """The value of a JSON document, or the list of those on the lines of one."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        try:
            text = data.decode("utf-16") if data[:2] in (b"\xff\xfe", b"\xfe\xff") else ""
        except UnicodeDecodeError:
            text = ""
        if not text:
            raise FileRefused(where, "is not text", remedy="Name a JSON export.") from None
    try:
        return _loads(text)
    except ValueError as whole:
        try:
            lines = [_loads(line) for line in text.splitlines() if line.strip()]
        except ValueError:
            lines = []
        if not lines:
            raise FileRefused(
                where, f"is not JSON ({whole})", remedy="Name a JSON export, or its zip file."
            ) from None
        return lines
    except RecursionError:
        raise FileRefused(where, "is nested too deeply") from None


def _loads(text: str) -> Any:
    return json.loads(text, parse_constant=lambda name: None)
