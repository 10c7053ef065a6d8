"""A store as lines of JSON, and back.

The first line names the format and its version, then come sources and
memories, one a line, and a last line with their number, so that a file cut
short is noticed. Every field of a memory is there, its earlier versions too,
and with `vectors=True` its vectors. Terms are not: they are made anew on import.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from agentmem.base.checks import require_path
from agentmem.base.errors import IncompleteExport, InvalidInput, StoreCorrupt, StoreError
from agentmem.base.filters import Selection
from agentmem.base.protocols import EmbedderId
from agentmem.base.types import Memory, Scope, memory_to_fields
from agentmem.stores.base import Store
from agentmem.stores.open_files import reading, written_whole
from agentmem.stores.values import (
    Entry,
    Source,
    Version,
    check_entry,
    memory_from_fields,
    write_json,
)

FORMAT = "agentmem-jsonl"
VERSION = 1
_BATCH = 500
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class BadLine:
    """A line that cannot be imported, counted from 1, and why."""

    number: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportReport:
    """What an import did. With bad lines nothing was written, unless they were to be skipped."""

    imported: int
    same_id: int
    same_content: int
    bad_lines: tuple[BadLine, ...]


def export_jsonl(
    store: Store,
    path: str | os.PathLike[str],
    *,
    scope: Scope | None = None,
    deleted: bool = False,
    vectors: bool = False,
) -> int:
    """Write what `scope` sees, or everything, to a new file; gives the number of memories.

    The file appears under its name only when it is complete. Through a link its
    target is written, and a pipe or a device is written as the lines come. From a
    damaged store everything that can be read is written; then `IncompleteExport`
    names what is missing.
    """
    count = 0
    missing: list[str] = []
    target = Path(require_path(path))
    with written_whole(target) as file:
        for line in _lines(store, scope, deleted=deleted, vectors=vectors, missing=missing):
            file.write(write_json(line, "export") + "\n")
            count += "memory" in line
    if missing:
        found = tuple(dict.fromkeys(missing))
        raise IncompleteExport(str(target), exported=count, missing=found)
    return count


def import_jsonl(
    store: Store,
    path: str | os.PathLike[str],
    *,
    analyse: Callable[[Memory], Entry],
    scope: Scope | None = None,
    own_words: bool = False,
    skip_bad_lines: bool = False,
) -> ImportReport:
    """Add the memories of an exported file, all in one transaction.

    A memory whose id is taken, or whose owner has the same content already, is
    left out and counted, so importing twice changes nothing. `analyse` makes the
    terms. With `scope` everything becomes that owner's and private, whatever the
    file says, and is marked as imported; preferences become facts. `own_words`
    leaves what the file says the user said theirs. Without `scope` everything is
    taken as it was exported, by whoever may write for everybody. The file is
    read twice: first to find lines that cannot be read, then to write.
    """
    source = Path(require_path(path))
    bad: list[BadLine] = []
    try:
        memories = (line.memory for line in _read(source, bad) if isinstance(line, Entry))
        owners = {scope or memory.scope for memory in memories}
    except OSError as error:
        raise StoreError(
            f"{source} cannot be read ({error.strerror}).", remedy="Check the path."
        ) from error
    if bad and not skip_bad_lines:
        return ImportReport(imported=0, same_id=0, same_content=0, bad_lines=tuple(bad))
    intake = _Intake(store, owners, analyse=analyse, scope=scope, own_words=own_words)
    imported = store.load(intake.batches(source), sources=intake.sources(source))
    return ImportReport(
        imported=imported,
        same_id=intake.same_id,
        same_content=intake.same_content,
        bad_lines=tuple(bad),
    )


class _Intake:
    """Decides which lines are new, while they are being written."""

    def __init__(
        self,
        store: Store,
        owners: set[Scope],
        *,
        analyse: Callable[[Memory], Entry],
        scope: Scope | None,
        own_words: bool,
    ) -> None:
        self._analyse = analyse
        self._scope = scope
        self._own_words = own_words
        self.same_id = 0
        self.same_content = 0
        self._ids: set[str] = set()
        self._contents: set[bytes] = set()
        for owner in owners:
            every = Selection(reader=owner, deleted=True, superseded=True, forgotten=True)
            kept = (memory for memory in store.scan(every) if memory.deleted_at is None)
            self._contents.update(map(_content, kept))
        self._store = store

    def sources(self, path: Path) -> Iterator[Source]:
        owner: dict[str, Any] = {"scope": self._scope, "visibility": "private"}
        for line in _read(path, []):
            if isinstance(line, Source):
                yield line if self._scope is None else replace(line, **owner)

    def batches(self, path: Path) -> Iterator[list[Entry]]:
        lines = (self._owned(line) for line in _read(path, []) if isinstance(line, Entry))
        while batch := list(islice(lines, _BATCH)):
            yield self._entries(batch)

    def _owned(self, line: Entry) -> Entry:
        if self._scope is None:
            return line
        given = partial(_given_to, self._scope, own_words=self._own_words)
        versions = tuple(replace(v, memory=given(v.memory)) for v in line.versions)
        return replace(line, memory=given(line.memory), versions=versions)

    def _entries(self, batch: list[Entry]) -> list[Entry]:
        entries = []
        self._ids |= self._store.feed.taken([line.memory.id for line in batch])
        for line in batch:
            memory = line.memory
            if memory.id in self._ids:
                self.same_id += 1
            elif memory.content_hash and _content(memory) in self._contents:
                self.same_content += 1
            else:
                self._ids.add(memory.id)
                # Twice the same within one file was twice the same in the store it came from.
                made = self._analyse(memory)
                vectors = line.vectors or made.vectors
                entries.append(
                    replace(made, memory=memory, versions=line.versions, vectors=vectors)
                )
        return entries


def _given_to(scope: Scope, memory: Memory, *, own_words: bool) -> Memory:
    """`memory` as `scope` may take it over: a file can claim anything of itself."""
    given = replace(memory, scope=scope, visibility="private")
    if own_words and memory.origin == "user":
        return given
    given = replace(given, origin="import")
    if given.kind != "preference":
        return given
    return replace(given, kind="fact", source_url="", position=None)


def _content(memory: Memory) -> bytes:
    parts = (
        memory.visibility, memory.scope, memory.content_hash, memory.text, memory.source_url,
        memory.session, memory.position,
    )  # fmt: skip
    return hashlib.blake2b(ascii(parts).encode(), digest_size=16).digest()


def _lines(
    store: Store, scope: Scope | None, *, deleted: bool, vectors: bool, missing: list[str]
) -> Iterator[dict[str, Any]]:
    embedders: tuple[EmbedderId, ...] = ()
    if vectors:
        embedders = _unless_damaged(store.feed.embedders, "the embedders", missing)
    yield {
        "format": FORMAT,
        "version": VERSION,
        "embedders": [asdict(embedder) for embedder in embedders],
    }
    count = 0
    for source in _unless_damaged(lambda: store.upkeep.sources(scope), "the sources", missing):
        count += 1
        yield {"source": _source_fields(source)}
    rows, known = _rows(store, scope, missing)
    for start in range(0, len(rows), _BATCH):
        part = rows[start : start + _BATCH]
        memories = _memories(store, scope, part, missing, known=known)
        found = {e: _vectors(store, e, part, missing) for e in embedders}
        for row in part:
            memory = memories.get(row)
            if memory is None or (memory.deleted_at is not None and not deleted):
                continue
            count += 1
            line: dict[str, Any] = {"memory": memory_to_fields(memory)}
            versions = _unless_damaged(
                partial(store.history, scope or memory.scope, memory.id),
                f"row {row}: its earlier versions",
                missing,
            )
            if versions:
                line["versions"] = [_version_fields(version) for version in versions]
            packed = {
                str(number): base64.b64encode(found[e][row]).decode()
                for number, e in enumerate(embedders)
                if row in found[e]
            }
            if packed:
                line["vectors"] = packed
            yield line
    yield {"end": count}


def _unless_damaged(
    ask: Callable[[], tuple[T, ...]], what: str, missing: list[str]
) -> tuple[T, ...]:
    """What `ask` gives; nothing, and a note of `what` is missing, where it is damaged."""
    try:
        return ask()
    except (StoreCorrupt, ValueError, TypeError, KeyError):
        missing.append(f"{what} cannot be read")
        return ()


def _rows(store: Store, scope: Scope | None, missing: list[str]) -> tuple[list[int], bool]:
    """The rows to export, and whether each of them is known to be one the reader sees.

    They are found without looking at the memories, so that one that is gone is
    missed; where that cannot be done, all that can be read are tried.
    """
    try:
        table = store.feed.index_rows()
        store.upkeep.owners()  # each of them must be there to say what a reader sees
        if scope is None:
            return [int(row) for row in table.rows], True
        visible = {int(owner) for owner in store.visible_owners(scope)}
        pairs = zip(table.rows, table.owner, strict=True)
        return [int(row) for row, owner in pairs if int(owner) in visible], True
    except StoreCorrupt:
        rows, problems = store.feed.readable_rows()
        missing += problems
        return [int(row) for row in rows], False


def _memories(
    store: Store, scope: Scope | None, rows: list[int], missing: list[str], *, known: bool
) -> dict[int, Memory]:
    """The memories of some rows; one by one where not all of them can be read."""

    def read(some: list[int]) -> Mapping[int, Memory]:
        return store.feed.texts(some) if scope is None else store.get_rows(scope, some)

    said: set[int] = set()
    try:
        found = dict(read(rows))
    except StoreCorrupt:
        found = {}
        for row in rows:
            try:
                found.update(read([row]))
            except StoreCorrupt as error:
                reason = error.message.removeprefix("The store is damaged: ").rstrip(".")
                missing.append(f"row {row}: {reason}")
                said.add(row)
    gone = [row for row in rows if row not in found and row not in said] if known else []
    if gone:  # those that indexes know were not erased meanwhile
        there = store.feed.index_rows(rows=gone).rows
        missing += [f"row {int(row)}: it is gone" for row in there]
    return found


def _vectors(
    store: Store, embedder: EmbedderId, rows: list[int], missing: list[str]
) -> dict[int, bytes]:
    """The vectors of some rows; where they are damaged they are made anew on import."""
    try:
        found, matrix = store.feed.vectors(embedder, rows=rows)
    except StoreCorrupt:
        missing.append(f"vectors of {embedder.name} cannot be read")
        return {}
    return {
        int(row): vector.astype("<f4").tobytes() for row, vector in zip(found, matrix, strict=True)
    }


def _version_fields(version: Version) -> dict[str, Any]:
    return {
        "memory": memory_to_fields(version.memory),
        "replaced_at": version.replaced_at.astimezone(UTC).isoformat(),
    }


def _source_fields(source: Source) -> dict[str, Any]:
    return {
        "url": source.url,
        "title": source.title,
        "content_hash": source.content_hash,
        "visibility": source.visibility,
        "scope": asdict(source.scope),
        "synced_at": source.synced_at and source.synced_at.astimezone(UTC).isoformat(),
    }


def _read(path: Path, bad: list[BadLine]) -> Iterator[Entry | Source]:
    """The lines that can be read; the others go to `bad`."""
    embedders: tuple[EmbedderId, ...] = ()
    count, ended, number = 0, False, 0
    with reading(path) as file:
        for number, raw in enumerate(file, start=1):
            try:
                line = json.loads(raw.decode("utf-8"))
                if not isinstance(line, dict):
                    raise InvalidInput("line", line, "is not a JSON object")
                if number == 1:
                    embedders = _header(line)
                elif ended:
                    raise InvalidInput("line", "…", "stands after the last one")
                elif "end" in line:
                    ended = True
                    if line["end"] != count + len(bad):
                        bad.append(BadLine(number=number, reason="lines are missing"))
                else:
                    read = _source(line["source"]) if "source" in line else _entry(line, embedders)
                    count += 1
                    yield read
            except (ValueError, TypeError, KeyError, IndexError, RecursionError) as error:
                known = isinstance(error, InvalidInput)
                if number == 1 and known:
                    raise
                if number == 1:
                    problem = "is not an agentmem export"
                    remedy = "Export it again."
                    raise InvalidInput("path", str(path), problem, remedy=remedy) from error
                reason = str(error) if known else f"not readable: {error}"
                bad.append(BadLine(number=number, reason=reason))
    if not ended:
        if number == 0:
            raise InvalidInput("path", str(path), "is empty", remedy="Export it again.")
        bad.append(BadLine(number=number + 1, reason="the file was cut short"))


def _header(line: Mapping[str, Any]) -> tuple[EmbedderId, ...]:
    if line.get("format") != FORMAT:
        raise InvalidInput(
            "format", line.get("format"), f"is not {FORMAT}",
            remedy="Name a file that `agentmem export` wrote, or the program that wrote this one.",
        )  # fmt: skip
    if line.get("version") != VERSION:
        raise InvalidInput(
            "version", line.get("version"), "is not known", remedy="Install a newer agentmem."
        )
    return tuple(EmbedderId(**fields) for fields in line.get("embedders", ()))


def _source(fields: Mapping[str, Any]) -> Source:
    synced = fields.get("synced_at")
    told = {name: fields[name] for name in ("url", "title", "content_hash", "visibility")}
    return Source(
        **told,
        scope=Scope(**fields["scope"]),
        synced_at=None if synced is None else datetime.fromisoformat(synced),
    )


def _entry(line: Mapping[str, Any], embedders: tuple[EmbedderId, ...]) -> Entry:
    """The memory of a line with its versions and vectors; its terms are not there yet."""
    if "memory" not in line:
        raise InvalidInput("line", sorted(line), "has no memory")
    entry = Entry(
        memory=memory_from_fields(line["memory"]),
        vectors=tuple(
            (embedders[int(number)], base64.b64decode(written, validate=True))
            for number, written in line.get("vectors", {}).items()
        ),
        versions=tuple(
            Version(
                memory=memory_from_fields(version["memory"]),
                replaced_at=datetime.fromisoformat(version["replaced_at"]),
            )
            for version in line.get("versions", ())
        ),
    )
    check_entry(entry)
    return entry
