"""Rows of tables inside one transaction, and whom a reader may see: `stores/tables.py` in SQL."""

from __future__ import annotations

import hashlib
import json
import re
import zlib
from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Literal

from agentmem.base.filters import ALL_VISIBILITIES
from agentmem.base.types import Scope
from agentmem.prompt.snapshot import TEXT_PREFIX
from agentmem.stores.tables import (
    JOBS,
    OWNERS,
    SNAPSHOTS,
    Lock,
    Match,
    Owner,
    Row,
    RowQuery,
    SeenBy,
    Table,
    TableWriter,
    scope_values,
)
from agentmem.stores.values import DELETED, FORGOTTEN, SUPERSEDED

TENANTS = Table(name="tenants", columns=("tenant", "seq", "log_from"))
CHANGES = Table(name="changes", columns=("seq", "operation", "first", "last"))
EMBEDDINGS = Table(name="embeddings", columns=("row", "embedder", "half", "wide"))
POSTINGS = Table(name="postings", columns=("row", "owner", "term", "count", "length", "flags"))
SPEAKERS = Table(name="speakers", columns=("owner", "key", "flags", "speaker", "rows"))
CONTENTS = Table(name="contents", columns=("owner", "kind", "hash"))
SCOPES = Table(name="scopes", columns=("owner", "flags", "rows", "length"))
NumberKind = Literal["owners", "strands"]
_LOCKS = {False: "", True: "FOR NO KEY UPDATE OF t", "skip": "FOR NO KEY UPDATE OF t SKIP LOCKED"}
_NUMBERS = {"setting": "key", "file": "name"}
"""Keys of tables that number no rows."""
_WHOSE = "o.visibility, o.user_id, o.project_id, o.agent_id, o.run_id"


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
    told, values = seen_condition(scope, visibilities)
    return (
        f"ARRAY(SELECT o.owner FROM owners AS o WHERE o.tenant = %(tenant)s AND {told})",  # noqa: S608 # our own names
        values,
    )


def seen_condition(
    scope: Scope, visibilities: Collection[str] = ALL_VISIBILITIES
) -> tuple[str, dict[str, Any]]:
    """SQL for "this owner `o` is one of them"."""
    user, project, agent, run = scope_values(scope)

    def is_(column: str, value: str | None) -> str:
        return f"o.{column} IS NULL" if value is None else f"o.{column} = %(of_{column})s"

    def open_(column: str, value: str | None) -> str:
        return "true" if value is None else f"(o.{column} IS NULL OR {is_(column, value)})"

    inner = f"{open_('agent_id', agent)} AND {open_('run_id', run)}"
    parts = {
        "system": "o.visibility = 'system'",
        "private": f"(o.visibility = 'private' AND {is_('user_id', user)} "
        f"AND {open_('project_id', project)} AND {inner})",
        "project": f"(o.visibility = 'project' AND {is_('project_id', project)} AND {inner})",
    }
    chosen = [sql for name, sql in parts.items() if name in visibilities] or ["false"]
    values = {
        "of_user_id": user, "of_project_id": project, "of_agent_id": agent, "of_run_id": run,
    }  # fmt: skip
    return f"({' OR '.join(chosen)})", values


def owner_key(owner: Owner) -> bytes:
    visibility, scope = owner
    return digest(visibility, *scope_values(scope))


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


def stored(table: Table, values: Mapping[str, Any]) -> dict[str, Any]:
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


class TableRows(TableWriter):
    """`TableWriter` of `stores/tables.py`; the tenant stands in every statement."""

    blob = "bytea"
    age = "t.since"
    current: Mapping[str, str] = MappingProxyType(
        {
            "deleted": f"m.flags & {DELETED} = 0",
            "superseded": f"m.flags & {SUPERSEDED} = 0",
            "forgotten": f"m.flags & {FORGOTTEN} = 0",
        }
    )
    in_metadata = "position(:{} IN m.metadata) > 0"
    most_values = 1 << 30
    mentions = ":mention = ANY(t.mentions)"
    _made = False

    def __init__(self) -> None:
        self._whose: dict[int, Owner] = {}

    @abstractmethod
    def all(self, statement: str, /, **values: Any) -> list[Row]:
        """What a statement gives."""

    @abstractmethod
    def only(self, statement: str, /, **values: Any) -> list[Row]:
        """What the last statement gives."""

    @abstractmethod
    def run(self, statement: str, /, **values: Any) -> int:
        """How many rows a statement touched."""

    @abstractmethod
    def later(self, statement: str, /, **values: Any) -> Callable[[], list[Row]]:
        """Send a statement together with the next one."""

    @abstractmethod
    def numbers(self, kind: NumberKind, keys: Collection[bytes]) -> dict[bytes, int]:
        """The numbers of those owners or strands that have one."""

    @staticmethod
    def looked_up(column: str, wanted: Sequence[str]) -> tuple[str, Sequence[Any]]:
        """By which column of memories, and what in it, these texts are found."""
        return ("key", [digest(one) for one in wanted]) if column == "id" else (column, wanted)

    # -- reading ----------------------------------------------------------------------

    def _find(self, table: Table, asked: RowQuery, lock: Lock, last: bool, /) -> list[Row]:
        """Rows; whose they are is remembered for `owners`."""
        told, given = _condition(table, asked)
        listed = ", ".join(f"t.{_NUMBERS.get(name, name)}" for name in table.columns)
        joined = "JOIN owners AS o ON o.tenant = %(tenant)s AND o.owner = t.owner"
        found = (self.only if last else self.all)(
            f"SELECT {listed}{f', {_WHOSE}' if table.owned else ''} FROM {table.name} AS t "  # noqa: S608 # our own names
            f"{joined if table.owned else ''} WHERE {told} {_LOCKS[lock]}",
            **given,
        )
        if not table.owned:
            return found
        width, at = len(table.columns), table.columns.index("owner")
        self._whose |= {row[at]: owner_of(row[width:]) for row in found}
        return [row[:width] for row in found]

    def _ask(self, columns: str, table: Table, asked: RowQuery, /) -> list[Row]:
        told, given = _condition(table, asked)
        return self.all(f"SELECT {columns} FROM {table.name} AS t WHERE {told}", **given)  # noqa: S608 # our own names

    def owners(self, numbers: Collection[int], /) -> Mapping[int, Owner]:
        """Whom these numbers stand for."""
        unknown = {number for number in numbers if number not in self._whose}
        if unknown:
            self._whose |= {
                row[0]: owner_of(row[1:]) for row in self.find(OWNERS, {"owner": unknown})
            }
        return {number: self._whose[number] for number in numbers}

    def log_span(self, *, last: bool = False) -> tuple[int, int]:
        """The number of the last change, and of the one that the log reaches back to."""
        for _, seq, log_from in self.find(TENANTS, last=last):
            return seq, log_from
        return 0, 0

    def find_owner(self, owner: Owner, /) -> int | None:
        """The number of this owner, if it has one."""
        key = owner_key(owner)
        return self.numbers("owners", [key]).get(key)

    # -- writing ----------------------------------------------------------------------

    def add(self, table: Table, /, **values: Any) -> int | None:
        """The key of a new row; None when one with the same unique columns is there."""
        given = stored(table, values)
        found = self.all(f"{_insert(table, given)} RETURNING {table.key}", **given)
        return int(found[0][0]) if found else None

    def add_all(self, table: Table, rows: Sequence[Mapping[str, Any]], /) -> None:
        """Add rows of a table in which nothing is unique."""
        for values in rows:
            given = stored(table, values)
            self.later(_insert(table, given), **given)

    def put(self, table: Table, /, **values: Any) -> None:
        """Add a row, or write over the one that has the same unique columns."""
        changed = [name for name in values if name not in table.unique]
        sets = ", ".join(f"{name} = excluded.{name}" for name in changed)
        given = stored(table, values)
        self.run(_insert(table, given, f"UPDATE SET {sets}"), **given)

    def change(self, table: Table, row: Row, /, **values: Any) -> None:
        """Write `values` over those of a row that was found."""
        given = stored(table, values)
        if any(name in values for name in table.hashed):
            whole = dict(zip(table.columns, row, strict=True)) | values
            given["key"] = stored(table, {name: whole[name] for name in table.hashed})["key"]
        sets = ", ".join(f"{name} = %({name})s" for name in given)
        self.run(
            f"UPDATE {table.name} SET {sets} "  # noqa: S608 # our own names
            f"WHERE tenant = %(tenant)s AND {_NUMBERS.get(table.key, table.key)} = %(that)s",
            that=row[0],
            **given,
        )

    def remove(self, table: Table, match: Match, where: str = "", /, **values: Any) -> int:
        """Remove rows for good; gives how many there were."""
        if [] in (list(one) for one in match.values() if isinstance(one, list | set | tuple)):
            return 0
        told, given = _condition(table, RowQuery(match, where, values))
        return self.run(f"DELETE FROM {table.name} AS t WHERE {told}", **given)  # noqa: S608 # our own names

    def hold(self, what: str, /) -> None:
        """Wait for others who hold the same, and keep them waiting until the end."""
        # In a statement of its own: what comes next sees what those wrote who were waited for.
        self.later(
            "SELECT pg_advisory_xact_lock(hashtextextended("
            "'agentmem ' || %(what)s || ' ' || %(tenant)s, 0))",
            what=what,
        )

    def owner_number(self, owner: Owner, /) -> int:
        """The number of this owner, new if it has none yet."""
        visibility, scope = owner
        names = dict(zip(OWNERS.columns[1:], (visibility, *scope_values(scope)), strict=True))
        return self.number_of("owners", OWNERS, names)

    def number_of(self, kind: NumberKind, table: Table, values: Mapping[str, Any]) -> int:
        """The number of an owner or strand, new if it has none yet."""
        key: bytes = stored(table, values)["key"]
        while True:  # somebody else may make it, or remove it, at this moment
            found = self.numbers(kind, [key]).get(key)
            if found is not None:
                return found
            self._made = True
            self.add(table, **values)


def owner_of(columns: Sequence[Any]) -> Owner:
    """Whose a row is, from the columns of the table of owners after the number."""
    visibility, user, project, agent, run = columns
    return visibility, Scope(user_id=user, project_id=project, agent_id=agent, run_id=run)


def _condition(table: Table, asked: RowQuery) -> tuple[str, dict[str, Any]]:
    match = _by_key(table, asked.match)
    ours = asked._replace(match={_NUMBERS.get(name, name): one for name, one in match.items()})
    told, given = in_sql(ours.told, ours.given)
    return f"t.tenant = %(tenant)s{' AND ' if told else ''}{told}{asked.rest}", given


def _insert(table: Table, listed: Mapping[str, Any], otherwise: str = "NOTHING") -> str:
    columns, marks = ", ".join(listed), ", ".join(f"%({name})s" for name in listed)
    inserted = f"INSERT INTO {table.name} (tenant, {columns}) VALUES (%(tenant)s, {marks})"  # noqa: S608 # our own names
    if not table.unique:
        return inserted
    by = [name for name in table.unique if name not in table.hashed]
    target = ", ".join(["tenant", *by, *(["key"] if table.hashed else [])])
    among = "WHERE state = 'waiting' AND key IS NOT NULL" if table is JOBS else ""
    return f"{inserted} ON CONFLICT ({target}) {among} DO {otherwise}"
