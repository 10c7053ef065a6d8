"""What is asked of tables and whom a reader may see, as PostgreSQL reads it."""

from __future__ import annotations

import hashlib
import json
import re
import zlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from agentmem.base.filters import ALL_VISIBILITIES
from agentmem.base.types import Scope
from agentmem.prompt.snapshot import TEXT_PREFIX
from agentmem.stores.tables import JOBS, SNAPSHOTS, Match, RowQuery, SeenBy, Table, seen_condition

TENANTS = Table(name="tenants", columns=("tenant", "seq", "log_from"))
CHANGES = Table(name="changes", columns=("seq", "operation", "first", "last"))
EMBEDDINGS = Table(name="embeddings", columns=("row", "embedder", "half", "wide"))
POSTINGS = Table(name="postings", columns=("row", "owner", "term", "count", "length", "flags"))
SPEAKERS = Table(name="speakers", columns=("owner", "key", "flags", "speaker", "rows"))
CONTENTS = Table(name="contents", columns=("owner", "kind", "hash"))
SCOPES = Table(name="scopes", columns=("owner", "flags", "rows", "length"))
_COLUMNS = {"setting": "key", "file": "name"}
"""Keys of tables that number no rows."""


def digest(*parts: str | None) -> bytes:
    """A key of sixteen bytes for texts of any length."""
    written = hashlib.blake2b(digest_size=16)
    for part in parts:
        data = b"" if part is None else part.encode("utf-8")
        written.update(f"{'-' if part is None else len(data)}:".encode() + data)
    return written.digest()


def seen_owners(
    scope: Scope, visibilities: Collection[str] = ALL_VISIBILITIES
) -> tuple[str, dict[str, Any]]:
    """The owners whose memories a reader may see: `base.types.visible`, in SQL (P24)."""
    told, values = in_sql(*seen_condition(scope, visibilities))
    return (
        f"ARRAY(SELECT o.owner FROM owners AS o WHERE o.tenant = %(tenant)s AND {told})",  # noqa: S608 # our own names
        values,
    )


@lru_cache(maxsize=512)
def _written(told: str) -> str:
    """A condition that every store reads as the server reads it."""
    told = told.replace("%", "%%")
    told = re.sub(r"\[(\w+)\]", r"\1.tenant = %(tenant)s", told)  # "[m] AND m.row = first"
    told = re.sub(r"\bIN :(\w+)", r"= ANY(%(\1)s)", told)  # "row IN :rows"
    return re.sub(r"(?<!:):(\w+)", r"%(\1)s", told)  # "row > :after"


def in_sql(told: str, values: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The same with what it asks for; a reader stands for the owners it may see."""
    told, given = _written(told), dict(values)
    for name, value in values.items():
        if isinstance(value, Scope | SeenBy):
            owners, asked = seen_owners(*([value] if isinstance(value, Scope) else value))
            told = told.replace(f"%({name})s", owners)
            del given[name]
            given |= asked
        elif isinstance(value, Collection) and not isinstance(value, str | bytes):
            given[name] = list(value)
    return told, given


def _by_key(table: Table, match: Match) -> dict[str, Any]:
    """`match` with the digest of texts in the place of the texts themselves."""
    if not table.hashed or any(name not in match for name in table.hashed):
        return dict(match)
    rest = {name: value for name, value in match.items() if name not in table.hashed}
    wanted = [match[name] for name in table.hashed]
    if len(wanted) == 1 and not isinstance(wanted[0], str):
        return {**rest, "key": [digest(one) for one in wanted[0]]}
    return {**rest, "key": digest(*(None if one is None else str(one) for one in wanted))}


def as_stored(table: Table, values: Mapping[str, Any]) -> dict[str, Any]:
    """Columns as the database has them: beside those of the file, digests of texts."""
    made = dict(values)
    if table.hashed and all(name in values for name in table.hashed):
        made["key"] = _by_key(table, {name: values[name] for name in table.hashed})["key"]
    if table is JOBS and not values.get("dedupe", "…"):
        made["key"] = None
    if table is SNAPSHOTS:
        if "mentions" in values:
            made["mentions"] = json.loads(values["mentions"])
        if isinstance(values.get("data"), str):
            made["data"] = zlib.compress(values["data"].encode("utf-8"), 1)
        if "id" in values:
            made["is_text"] = values["id"].startswith(TEXT_PREFIX)
    return made


def column_of(name: str) -> str:
    """What a column of a table is called here."""
    return _COLUMNS.get(name, name)


def condition(table: Table, asked: RowQuery) -> tuple[str, dict[str, Any]]:
    match = _by_key(table, asked.match)
    ours = asked._replace(match={column_of(name): one for name, one in match.items()})
    told, given = in_sql(ours.told, ours.given)
    return f"t.tenant = %(tenant)s{' AND ' if told else ''}{told}{asked.rest}", given


def insertion(table: Table, listed: Mapping[str, Any], otherwise: str = "NOTHING") -> str:
    columns, marks = ", ".join(listed), ", ".join(f"%({name})s" for name in listed)
    inserted = f"INSERT INTO {table.name} (tenant, {columns}) VALUES (%(tenant)s, {marks})"  # noqa: S608 # our own names
    if not table.unique:
        return inserted
    by = [name for name in table.unique if name not in table.hashed]
    target = ", ".join(["tenant", *by, *(["key"] if table.hashed else [])])
    among = "WHERE state = 'waiting' AND key IS NOT NULL" if table is JOBS else ""
    return f"{inserted} ON CONFLICT ({target}) {among} DO {otherwise}"


# ----------------------------------------------------------------------------
# Text of any kind: PostgreSQL has no NUL, our texts do.


def escaped(text: str) -> str:
    return text.replace("\x01", "\x01\x02").replace("\x00", "\x01\x03")


def plain(text: str) -> str:
    return text.replace("\x01\x03", "\x00").replace("\x01\x02", "\x01")


def as_sent(value: Any) -> Any:
    """A parameter as it is sent: texts without NUL, whatever they hold."""
    if isinstance(value, str):
        return escaped(value) if "\x00" in value or "\x01" in value else value
    if isinstance(value, list) and value and any(isinstance(one, str) for one in value):
        return [as_sent(one) for one in value]
    return value


def as_json(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows as the server's JSON functions read them."""
    written = [
        {
            name: f"\\x{value.hex()}" if isinstance(value, bytes) else as_sent(value)
            for name, value in row.items()
        }
        for row in rows
    ]
    return json.dumps(written, ensure_ascii=False)


def array_of(numbers: Iterable[int]) -> str:
    """Numbers as the server reads an array of them."""
    return f"{{{','.join(map(str, numbers))}}}"
