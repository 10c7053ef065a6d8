"""Removing memories for good: from every table, and what the server still has to do (P26)."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from agentmem.base.types import Memory, Scope
from agentmem.prompt.snapshot import TEXT_PREFIX, said_mention
from agentmem.prompt.strip import Names, Quotes, texts_in
from agentmem.stores.derived import DERIVED, STATED_IN, derived_rows
from agentmem.stores.postgres.connection import Transaction, digest
from agentmem.stores.postgres.reading import StoredRow, by_rows, find_where, visible_owners
from agentmem.stores.postgres.side import set_value, unpacked
from agentmem.stores.postgres.writing import (
    followers,
    forget_empty_sources,
    place,
    remove_terms,
    remove_vectors,
    rewrite,
)
from agentmem.stores.values import ERASED, Receipt

_VACUUM = (
    "Dead rows stay in the server's files until VACUUM takes them, by itself or by hand; "
    "VACUUM FULL gives their space back."
)
_COPIES = (
    "The write-ahead log, its archive, replicas and backups keep their own copies "
    "until they are recycled."
)
REMAINS = (_VACUUM, _COPIES)


def with_derived(
    transaction: Transaction, found: Sequence[StoredRow], reader: Scope
) -> list[StoredRow]:
    """`found`, and after it what goes with it."""
    origins = _Origins(transaction, found)
    more = derived_rows(origins, [one.row for one in found], reader)
    return [*found, *(origins.found[row] for row in more)]


def erase_rows(
    transaction: Transaction,
    found: Sequence[StoredRow],
    *,
    at: datetime,
    reader: Scope | None = None,
    all_of: Scope | None = None,
) -> Receipt:
    """Take memories out of every table.

    With a `reader`, what was made of them goes too, as far as the reader sees
    it. With `all_of`, so do the snapshots, artifacts and jobs that reader owns.
    """
    named = len(found)
    if reader is not None:
        found = with_derived(transaction, found, reader)
    rows = [one.row for one in found]
    ids = [one.memory.id for one in found]
    moved = followers(transaction, [place(one) for one in found])
    owners = {one.owner for one in found}
    quotes = Quotes(_texts(transaction, found))
    vectors = remove_vectors(transaction, rows)
    remove_terms(transaction, rows)
    versions = _delete(transaction, "history", "row", rows)
    for column in ("first", "second"):
        _delete(transaction, "links", column, rows)
    for column in ("row", "other"):
        _delete(transaction, "journal_items", column, rows)
    for table in ("usage", "memories"):
        _delete(transaction, table, "row", rows)
    _forget_contents(transaction, found)
    _forget_speakers(transaction, owners)
    _forget_references(transaction, ids)
    own = set() if all_of is None else set(visible_owners(transaction, all_of, ("private",)))
    owners |= own
    _delete(transaction, "journal", "owner", own)
    readers = _readers(transaction, [one.memory for one in found])
    counted = [
        _delete_mentioning(transaction, table, ids=ids, quotes=quotes, readers=readers, own=own)
        for table in ("snapshots", "artifacts", "jobs")
    ]
    forget_empty_sources(transaction, {(one.owner, one.memory.source_url) for one in found})
    _forget_strands(transaction, {one.strand for one in found if one.strand is not None})
    _forget_owners(transaction, owners)
    files = transaction.all("DELETE FROM index_files WHERE tenant = %(tenant)s RETURNING name")
    transaction.log("erase", rows)
    transaction.log("update", moved - set(rows))
    set_value(transaction, "erased_seq", str(transaction.seq()))
    snapshots, artifacts, jobs = counted
    return Receipt(
        ids=tuple(ids),
        derived=tuple(ids[named:]),
        vectors=vectors,
        versions=versions,
        snapshots=snapshots,
        artifacts=artifacts,
        jobs=jobs,
        index_files=tuple(name for (name,) in files),
        complete=False,
        remains=REMAINS,
        erased_at=at,
    )


def _delete(transaction: Transaction, table: str, column: str, keys: Collection[int]) -> int:
    if not keys:
        return 0
    return transaction.run(
        f"DELETE FROM {table} WHERE tenant = %(tenant)s AND {column} = ANY(%(keys)s)",  # noqa: S608 # our own names
        keys=list(keys),
    )


def _texts(transaction: Transaction, found: Sequence[StoredRow]) -> Iterator[str]:
    """What to look for inside other records: the texts of memories, and what they said before."""
    for one in found:
        memory = one.memory
        for text in (memory.text, memory.summary, memory.compressed, memory.index):
            if text is not None:
                yield text
    versions = transaction.all(
        "SELECT data FROM history WHERE tenant = %(tenant)s AND row = ANY(%(rows)s)",
        rows=[one.row for one in found],
    )
    for (data,) in versions:
        kept = json.loads(data)
        for name in ("text", "summary", "compressed", "index"):
            if isinstance(kept.get(name), str):
                yield kept[name]


def _readers(transaction: Transaction, memories: Sequence[Memory]) -> set[int]:
    """The owners whose records may quote these memories: the same user, or anybody if shared."""
    users = {memory.scope.user_id for memory in memories}
    shared = any(memory.visibility != "private" for memory in memories)
    found = transaction.all("SELECT owner, user_id FROM owners WHERE tenant = %(tenant)s")
    return {owner for owner, user in found if shared or user in users}


_WRITTEN = {
    "snapshots": "snapshot, owner, id, mentions, data",
    "artifacts": "artifact, owner, id, metadata, media_type, data",
    "jobs": "job, owner, kind, dedupe, payload, error",
}


def _delete_mentioning(
    transaction: Transaction,
    table: str,
    *,
    ids: Sequence[str],
    quotes: Quotes,
    readers: set[int],
    own: set[int],
) -> int:
    """Remove records that name one of `ids`, or that are `readers`' and quote an erased text.

    Texts that snapshots share are not counted: they are no records of their own.
    """
    names = Names(ids)
    exact = {*ids, *map(said_mention, ids)}
    gone: list[int] = []
    counted = 0
    for key, owner, *columns in transaction.all(
        f"SELECT {_WRITTEN[table]} FROM {table} WHERE tenant = %(tenant)s"  # noqa: S608 # our own names
    ):
        data = b""
        if table == "snapshots":
            columns[-1] = json.loads(unpacked(columns[-1]))
        elif table == "artifacts":
            data = columns.pop()
        texts = list(texts_in([_value(value) for value in columns]))
        if (
            owner in own
            or (table == "snapshots" and not exact.isdisjoint(columns[1]))
            or any(map(names.are_in, texts))
            or (owner in readers and any(map(quotes.are_in, texts)))
            or (owner in readers and data and quotes.are_in(data.decode("utf-8", "replace")))
        ):
            gone.append(key)
            counted += table != "snapshots" or not str(columns[0]).startswith(TEXT_PREFIX)
    _delete(transaction, table, _WRITTEN[table].partition(",")[0], gone)
    return counted


def _value(written: Any) -> Any:
    """A column as JSON has it, or else itself."""
    if not isinstance(written, str):
        return written
    try:
        return json.loads(written)
    except ValueError:
        return written


def _forget_contents(transaction: Transaction, found: Sequence[StoredRow]) -> None:
    for one in found:
        transaction.run(
            """DELETE FROM contents WHERE tenant = %(tenant)s AND owner = %(owner)s
            AND kind = %(kind)s AND hash = %(hash)s""",
            owner=one.owner,
            kind=digest(one.memory.kind),
            hash=digest(one.memory.content_hash),
        )


def _forget_speakers(transaction: Transaction, owners: Collection[int]) -> None:
    transaction.run(
        """DELETE FROM speakers AS s WHERE s.tenant = %(tenant)s AND s.owner = ANY(%(owners)s)
        AND NOT EXISTS (SELECT 1 FROM memories AS m WHERE m.tenant = %(tenant)s
            AND m.owner = s.owner AND m.speaker = s.speaker)""",
        owners=list(owners),
    )


def _forget_references(transaction: Transaction, ids: Sequence[str]) -> None:
    """Put a constant where other memories name an erased one."""
    gone = set(ids)
    condition = "(m.supersedes = ANY(%(ids)s) OR m.superseded_by = ANY(%(ids)s)) ORDER BY m.row"
    for one in find_where(transaction, condition, lock=True, ids=list(ids)):
        changes: dict[str, Any] = {
            name: ERASED
            for name in ("supersedes", "superseded_by")
            if getattr(one.memory, name) in gone
        }
        rewrite(transaction, one, replace(one.memory, **changes))
        transaction.log("update", [one.row])
    named = [json.dumps(one, ensure_ascii=False) for one in ids]
    for version, data in transaction.all(
        """SELECT h.version, h.data FROM history AS h WHERE h.tenant = %(tenant)s
        AND EXISTS (SELECT 1 FROM unnest(%(named)s::text[]) AS name
            WHERE position(name IN h.data) > 0)""",
        named=named,
    ):
        kept = json.loads(data)
        found = [n for n in ("supersedes", "superseded_by") if kept.get(n) in gone]
        if found:
            written = json.dumps(
                {**kept, **dict.fromkeys(found, ERASED)}, ensure_ascii=False, separators=(",", ":")
            )
            transaction.run(
                "UPDATE history SET data = %(data)s "
                "WHERE tenant = %(tenant)s AND version = %(version)s",
                data=written,
                version=version,
            )


def _forget_strands(transaction: Transaction, strands: Collection[int]) -> None:
    transaction.run(
        """DELETE FROM strands AS s WHERE s.tenant = %(tenant)s AND s.strand = ANY(%(strands)s)
        AND NOT EXISTS (SELECT 1 FROM memories AS m
            WHERE m.tenant = %(tenant)s AND m.strand = s.strand)""",
        strands=list(strands),
    )


def _forget_owners(transaction: Transaction, owners: Collection[int]) -> None:
    used = " ".join(
        f"AND NOT EXISTS (SELECT 1 FROM {table} AS t "  # noqa: S608 # our own names
        "WHERE t.tenant = %(tenant)s AND t.owner = o.owner)"
        for table in ("memories", "strands", "sources", "snapshots", "artifacts", "jobs", "journal")
    )
    transaction.run(
        f"DELETE FROM owners AS o WHERE o.tenant = %(tenant)s AND o.owner = ANY(%(owners)s) {used}",  # noqa: S608 # our own names
        owners=list(owners),
    )
    # What was said by somebody who is gone need not be told apart or counted any more.
    for table in ("contents", "scopes"):
        transaction.run(
            f"""DELETE FROM {table} AS c WHERE c.tenant = %(tenant)s AND c.owner = ANY(%(owners)s)
            AND NOT EXISTS (SELECT 1 FROM owners AS o
                WHERE o.tenant = %(tenant)s AND o.owner = c.owner)""",  # noqa: S608 # our own names
            owners=list(owners),
        )


class _Origins:
    """`Origins` over the database, in one transaction."""

    def __init__(self, transaction: Transaction, found: Sequence[StoredRow]) -> None:
        self._transaction = transaction
        self.found = {one.row: one for one in found}

    def memory(self, row: int, /) -> Memory | None:
        if row not in self.found:
            self.found |= by_rows(self._transaction, [row])
        kept = self.found.get(row)
        return None if kept is None else kept.memory

    def merged_into(self, survivor: Memory, /) -> Iterable[int]:
        found = find_where(self._transaction, "m.superseded_by = %(id)s", id=survivor.id)
        self.found |= {one.row: one for one in found if one.row not in self.found}
        return [one.row for one in found]

    def made_of(self, row: int, /) -> Iterable[tuple[int, str]]:
        return self._related("first", "second", row)

    def sources_of(self, row: int, /) -> Iterable[tuple[int, str]]:
        return self._related("second", "first", row)

    def _related(self, wanted: str, given: str, row: int) -> list[tuple[int, str]]:
        found = self._transaction.all(
            f"SELECT {wanted}, relation FROM links WHERE tenant = %(tenant)s "  # noqa: S608 # our own names
            f"AND family = 'link' AND {given} = %(row)s AND relation = ANY(%(relations)s)",
            row=row,
            relations=[DERIVED, *STATED_IN],
        )
        return [(int(one), str(relation)) for one, relation in found]
