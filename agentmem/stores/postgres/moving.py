"""The database's side of moving a store: its rows as the file has them, and back."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from agentmem.base.protocols import EmbedderId
from agentmem.prompt.snapshot import TEXT_PREFIX
from agentmem.stores.postgres.connection import Row, Transaction, digest
from agentmem.stores.postgres.feed import all_embedders
from agentmem.stores.postgres.reading import COLUMNS
from agentmem.stores.postgres.schema import LOCK
from agentmem.stores.postgres.side import SECRET, get_value, packed, set_value, unpacked
from agentmem.stores.postgres.writing import (
    add_vectors,
    insert_columns,
    make_graphs,
    rows_with_owners,
)

_LISTED = {
    "owners": ("owner", "visibility", "user_id", "project_id", "agent_id", "run_id"),
    "strands": ("strand", "owner", "url", "session"),
    "sources": ("source", "owner", "url", "title", "content_hash", "synced_at"),
    "memories": ("row", *COLUMNS, "indexed"),
    "usage": ("row", "retrieved", "cited", "ignored", "last_used_at"),
    "history": ("version", "row", "replaced_at", "data"),
    "snapshots": ("snapshot", "id", "owner", "created_at", "mentions", "data"),
    "artifacts": ("artifact", "id", "owner", "created_at", "media_type", "metadata", "data"),
    "links": ("link", "family", "first", "second", "relation", "created_at", "note", "settled_at"),
    "jobs": (
        "job", "owner", "kind", "dedupe", "payload", "state", "attempts", "ready_at", "error",
        "created_at",
    ),
    "journal": ("entry", "id", "owner", "kind", "created_at", "undone_at", "report", "mark"),
    "journal_items": ("item", "entry", "row", "other", "relation", "data"),
}  # fmt: skip
_OWN = ("transfer", "erase_pending")


class PostgresSide:
    """`Side` over one transaction."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    def seq(self) -> int:
        found = self._transaction.one("SELECT seq FROM tenants WHERE tenant = %(tenant)s")
        return int(found[0]) if found else 0

    def secret(self) -> str:
        return get_value(self._transaction, SECRET) or ""

    def count(self, part: str) -> int:
        found = self._transaction.one(
            f"SELECT count(*) FROM {part} WHERE tenant = %(tenant)s"  # noqa: S608 # our own names
        )
        return int(found[0]) if found else 0

    def rows(self, part: str, after: list[Any] | None, limit: int) -> list[Row]:
        if part == "embeddings":
            return self._vectors(after, limit)
        if part == "settings":
            found = self._transaction.all(
                "SELECT name, value FROM settings WHERE tenant = %(tenant)s"
            )
            named = sorted(row for row in found if row[0] not in _OWN)
            return [row for row in named if after is None or row[0] > after[0]][:limit]
        columns = _LISTED[part]
        found = self._transaction.all(
            f"SELECT {', '.join(columns)} FROM {part} WHERE tenant = %(tenant)s "  # noqa: S608 # our own names
            f"AND {columns[0]} > %(after)s ORDER BY {columns[0]} LIMIT %(limit)s",
            after=0 if after is None else after[0],
            limit=limit,
        )
        if part == "snapshots":
            return [(*row[:5], json.loads(unpacked(row[5]))) for row in found]
        return found

    def _vectors(self, after: list[Any] | None, limit: int) -> list[Row]:
        found: list[Row] = []
        spaces = sorted(
            (space.name, space.version, space.dimensions, number)
            for number, space in all_embedders(self._transaction).items()
        )
        for *space, number in spaces:
            if after is not None and space < after[:3]:
                continue
            rows = self._transaction.all(
                "SELECT row, half, wide FROM embeddings WHERE tenant = %(tenant)s "
                "AND embedder = %(embedder)s AND row > %(after)s ORDER BY row LIMIT %(limit)s",
                embedder=number,
                after=after[3] if after is not None and space == after[:3] else 0,
                limit=limit - len(found),
            )
            found += [(*space, row, _vector(half, wide)) for row, half, wide in rows]
            if len(found) == limit:
                break
        return found

    # -- writing ----------------------------------------------------------------------

    def fill(self, part: str, rows: Sequence[Row], seq: int) -> None:
        """Add rows of a part as they are, and what the database keeps beside them."""
        if part == "settings":
            for name, value in rows:
                set_value(self._transaction, name, value)
            self._transaction.run(
                "UPDATE tenants SET seq = greatest(seq, %(seq)s), "
                "log_from = greatest(seq, %(seq)s) WHERE tenant = %(tenant)s",
                seq=seq,
            )
            make_graphs(self._transaction)
            return
        if part == "embeddings":
            self._add_vectors(rows)
            return
        if part == "memories":
            insert_columns(self._transaction, [(row[0], row[1:-1], row[-1]) for row in rows])
        else:
            self._add(part, rows)
        if part != "usage":
            self._give_out(part, _LISTED[part][0], max(row[0] for row in rows))

    def _add(self, part: str, rows: Sequence[Row]) -> None:
        columns = _LISTED[part]
        for row in rows:
            values = dict(zip(columns, row, strict=True)) | _beside(part, row)
            if part == "snapshots":
                values["data"] = packed(values["data"])
            listed = ", ".join(values)
            marks = ", ".join(f"%({name})s" for name in values)
            self._transaction.run(
                f"INSERT INTO {part} (tenant, {listed}) VALUES (%(tenant)s, {marks})",  # noqa: S608 # our own names
                **values,
            )

    def _add_vectors(self, rows: Sequence[Row]) -> None:
        found = rows_with_owners(self._transaction, [row[3] for row in rows])
        known = {stored["row"]: (stored, visibility) for stored, visibility in found}
        lines = []
        for name, version, dimensions, row, data in rows:
            space = EmbedderId(name=name, version=version, dimensions=dimensions)
            whole = data if len(data) == 4 * dimensions else _widened(data)
            lines.append((*known[row], ((space, whole),)))
        add_vectors(self._transaction, lines, graph=False)

    def _give_out(self, table: str, column: str, last: int) -> None:
        """Let the next number be above `last`, whoever else takes one meanwhile."""
        self._transaction.run("SELECT pg_advisory_xact_lock(%(lock)s)", lock=LOCK)
        found = self._transaction.one(
            f"SELECT last_value FROM {table}_{column}_seq WHERE %(tenant)s <> ''"  # noqa: S608 # our own names
        )
        if found is not None and found[0] <= last:
            self._transaction.run(
                f"SELECT setval('{table}_{column}_seq', %(last)s)",  # our own names
                last=last + 1000,
            )


def _beside(part: str, row: Row) -> dict[str, Any]:
    """The columns that the database has and the file has not."""
    if part == "owners":
        return {"key": digest(*row[1:])}
    if part == "strands":
        return {"key": digest(str(row[1]), *row[2:])}
    if part == "sources":
        return {"key": digest(row[2])}
    if part == "snapshots":
        return {"key": digest(row[1]), "is_text": row[1].startswith(TEXT_PREFIX)}
    if part in ("artifacts", "journal"):
        return {"key": digest(row[1])}
    if part == "links":
        return {"key": digest(row[4])}
    if part == "jobs" and row[3]:
        return {"key": digest(row[2], row[3])}
    return {}


def _widened(data: bytes) -> bytes:
    import numpy as np

    return np.frombuffer(data, "<f2").astype("<f4").tobytes()


def _vector(half: bytes | None, wide: bytes | None) -> bytes:
    """A vector as the file keeps it: in half precision where that holds it."""
    import numpy as np

    if half is None:
        return wide or b""
    return np.frombuffer(half, ">f2", offset=4).astype("<f2").tobytes()
