"""Move everything a store holds into another kind of store: in parts, resumed, and verified.

Both kinds keep the same rows under the same numbers, so a row is copied as it is: a part is
read by key, written with a note of how far it came in the same transaction, and at the end
both sides are read once more and compared.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentmem.base.errors import InvalidInput, StoreCorrupt
from agentmem.base.protocols import EmbedderId
from agentmem.stores.open_files import final_path
from agentmem.stores.side import (
    SECRET,
    StoredSettings,
    get_value,
    mentioned,
    pack_data,
    plain_data,
    set_value,
)
from agentmem.stores.sqlite.schema import TABLES
from agentmem.stores.sqlite.store import SqliteStore
from agentmem.stores.tables import ANY, Row, TableReader, Tables, TableWriter
from agentmem.stores.upkeep import all_embedders

if TYPE_CHECKING:
    from agentmem.stores.postgres.connection import PostgresDatabase

Key = list[Any]
"""Where a part was left: the key of its last row."""
Progress = Callable[[str, int, int], None]
"""Told after each batch: the part, how many of its rows are there, how many there are."""
PARTS = (
    "owners", "strands", "sources", "memories", "usage", "embeddings", "history", "snapshots",
    "artifacts", "links", "jobs", "settings", "journal", "journal_items",
)  # fmt: skip
AT_ONCE = 500
_NOTE = "transfer"
_OWN = frozenset({_NOTE, "erase_pending"})
"""Settings that say something about one store only."""
_ITS_OWN = ("memories", "snapshots", "artifacts", "jobs")
"""A store that has none of these is empty."""
KEPT = {table.name: table for table in TABLES}


@dataclass(frozen=True, slots=True, kw_only=True)
class Transferred:
    """What was copied: how many rows of each part there are now, the same on both sides."""

    counts: dict[str, int]
    resumed: bool


# ----------------------------------------------------------------------------
# One state of a store as rows of parts: numbers first, texts and bytes as they are.


def _count(read: TableReader, part: str) -> int:
    ((found,),) = read.ask("count(*)", KEPT[part])
    return int(found)


def _rows(read: TableReader, part: str, after: Key | None, limit: int) -> list[Row]:
    if part == "embeddings":
        return _all_vectors(read, after, limit)
    if part == "settings":
        found = read.find(KEPT[part])
        named = sorted((name, value) for _, name, value in found if name not in _OWN)
        return [row for row in named if after is None or row[0] > after[0]][:limit]
    last = 0 if after is None else after[0]
    if part == "memories":
        return read.kept_memories(last, limit)
    key = f"t.{KEPT[part].key}"
    found = read.find(KEPT[part], ANY, f"{key} > :beyond", order=key, limit=limit, beyond=last)
    if part == "snapshots":
        return [(*row[:4], mentioned(row[4]), json.loads(plain_data(row[5]))) for row in found]
    return found


def _all_vectors(read: TableReader, after: Key | None, limit: int) -> list[Row]:
    found: list[Row] = []
    spaces = sorted(
        (space.name, space.version, space.dimensions, number)
        for number, space in all_embedders(read).items()
    )
    for name, version, dimensions, number in spaces:
        space = [name, version, dimensions]
        if after is not None and space < after[:3]:
            continue
        last = after[3] if after is not None and space == after[:3] else 0
        rows = read.kept_vectors(number, dimensions, last, limit - len(found))
        found += [(*space, *row) for row in rows]
        if len(found) == limit:
            break
    return found


def _fill(part: str, rows: Sequence[Row], seq: int, note: str, write: TableWriter) -> None:
    """Add rows of a part, and note in the same transaction how far the copy came."""
    if part == "settings":
        for name, value in rows:
            set_value(write, name, value)
        write.end_filling(seq)
    elif part == "embeddings":
        write.fill_vectors(
            (EmbedderId(name=name, version=version, dimensions=dimensions), row, data)
            for name, version, dimensions, row, data in rows
        )
    elif part == "memories":
        write.fill_memories(rows)
    elif part == "snapshots":
        named = [json.dumps(row[4], ensure_ascii=False, separators=(",", ":")) for row in rows]
        stored = [(*r[:4], names, pack_data(r[5])) for r, names in zip(rows, named, strict=True)]
        write.fill(KEPT[part], stored)
    else:
        write.fill(KEPT[part], rows)
    set_value(write, _NOTE, note)


# ----------------------------------------------------------------------------
# A copy.


def copy_store(
    source: SqliteStore | PostgresDatabase,
    target: SqliteStore | PostgresDatabase,
    *,
    progress: Progress | None = None,
) -> Transferred:
    """Copy everything into an empty store, or go on where an earlier copy of it stopped.

    `InvalidInput` when the target has something of its own, or the source was
    changed since the copy began; `StoreCorrupt` when the sides differ at the end.
    """
    from_, to = _database(source), _database(target)
    StoredSettings(from_).secret()  # a database makes it when it is first asked for
    with from_.reading() as given:
        name = hashlib.blake2b((get_value(given, SECRET) or "").encode(), digest_size=8).hexdigest()
        seq = given.last_seq()
        note = _noted(to, name, seq)
        resumed = bool(note["at"])
        for part in PARTS:
            total = _count(given, part)
            after, done = note["at"].get(part, (None, 0))
            while rows := _rows(given, part, after, AT_ONCE):
                after, done = key_of(part, rows[-1]), done + len(rows)
                note["at"][part] = (after, done)
                to.write(partial(_fill, part, rows, seq, json.dumps(note)))
                if progress is not None:
                    progress(part, done, total)
        counts = {}
        with to.reading() as copied:
            for part in PARTS:
                counts[part], expected = _digest(copied, part), _digest(given, part)
                if counts[part] != expected:
                    raise StoreCorrupt(
                        f"The copy differs in its {part}: {counts[part][0]:,} rows for "
                        f"{expected[0]:,}, or other ones.",
                        remedy="Nothing was changed at the source; copy into an empty store.",
                    )
    StoredSettings(to).set(_NOTE, None)
    return Transferred(counts={part: count for part, (count, _) in counts.items()}, resumed=resumed)


def write_file(database: PostgresDatabase, path: Path) -> None:
    """A copy of a tenant as a SQLite file at `path`; never half a file."""
    target = final_path(path)
    if target.exists():
        raise InvalidInput("path", str(target), "exists already", remedy="Use a new name.")
    target.parent.mkdir(parents=True, exist_ok=True)
    beside = target.with_name(f"{target.name}.part")
    if beside.exists():
        beside.unlink()
    with SqliteStore(beside) as copy:
        copy_store(database, copy)
    beside.rename(target)


def key_of(part: str, row: Row) -> Key:
    """What comes after this row is asked for with this key."""
    return list(row[:4]) if part == "embeddings" else [row[0]]


def _noted(target: Tables[TableReader], name: str, seq: int) -> dict[str, Any]:
    written = StoredSettings(target).get(_NOTE)
    if written is not None:
        note: dict[str, Any] = json.loads(written)
        if note["source"] != name:
            problem = "holds half a copy of another store"
        elif note["seq"] != seq:
            problem = "holds half a copy of what the source was before it changed"
        else:
            return note
    else:
        with target.reading() as read:
            if not any(
                _count(read, part) for part in ("memories", "snapshots", "artifacts", "jobs")
            ):
                return {"source": name, "seq": seq, "at": {}}
        problem = "has memories of its own"
    raise InvalidInput("target", "…", problem, remedy="Give an empty store, or use `merge`.")


def _digest(read: TableReader, part: str) -> tuple[int, int]:
    """How many rows a part has, and a sum over them that no order changes."""
    count = total = 0
    after: Key | None = None
    while rows := _rows(read, part, after, AT_ONCE):
        after = key_of(part, rows[-1])
        count += len(rows)
        for row in rows:
            digest = hashlib.blake2b(repr(row).encode("utf-8", "surrogatepass"), digest_size=8)
            total += int.from_bytes(digest.digest(), "little")
    return count, total & 0xFFFF_FFFF_FFFF_FFFF


def _database(store: SqliteStore | PostgresDatabase) -> Tables[TableReader]:
    return store._database if isinstance(store, SqliteStore) else store
