"""Rows of tables inside one transaction, and whom a reader may see: `stores/tables.py` in SQL."""

from __future__ import annotations

import hashlib
import json
import re
import zlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import nullcontext
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from agentmem.base.errors import StoreCorrupt
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
    runs,
    scope_values,
)
from agentmem.stores.values import DELETED, FORGOTTEN, SUPERSEDED, Operation

if TYPE_CHECKING:
    from psycopg import Connection, Cursor

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


# ----------------------------------------------------------------------------
# Text of any kind: PostgreSQL has no NUL, our texts do.


def escaped(text: str) -> str:
    return text.replace("\x01", "\x01\x02").replace("\x00", "\x01\x03")


def plain(text: str) -> str:
    return text.replace("\x01\x03", "\x00").replace("\x01\x02", "\x01")


def _sent(value: Any) -> Any:
    """A parameter as it is sent: texts without NUL, whatever they hold."""
    if isinstance(value, str):
        return escaped(value) if "\x00" in value or "\x01" in value else value
    if isinstance(value, list) and value and any(isinstance(one, str) for one in value):
        return [_sent(one) for one in value]
    return value


def as_json(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows as the server's JSON functions read them."""
    written = [
        {
            name: f"\\x{value.hex()}" if isinstance(value, bytes) else _sent(value)
            for name, value in row.items()
        }
        for row in rows
    ]
    return json.dumps(written, ensure_ascii=False)


def array_of(numbers: Iterable[int]) -> str:
    """Numbers as the server reads an array of them."""
    return f"{{{','.join(map(str, numbers))}}}"


# ----------------------------------------------------------------------------
# One transaction.


class Transaction(TableWriter):
    """Statements that happen together; the tenant is a parameter of every one of them.

    What nobody waits for travels with the next statement: how the transaction begins, what
    `later` is given, and how it ends. `log` says which rows indexes must look at again; the lines
    are numbered when the transaction ends, one transaction of a tenant after the other, so that
    the numbers come in the order of the commits.
    """

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

    def __init__(
        self, connection: Connection[Any], tenant: str, known: Numbers, begin: Sequence[str]
    ) -> None:
        self._whose: dict[int, Owner] = {}
        self._connection = connection
        self._tenant = tenant
        self._lines: list[tuple[Operation, int, int]] = []
        self._waiting: list[_Later] = [_Later(statement, {}) for statement in begin]
        self._known = known
        self._begun = self._ended = False
        self.added: dict[bytes, str] = {}
        """Ids of memories that are sent, by key: which of them was there already is heard late."""

    def numbers(self, kind: NumberKind, keys: Collection[bytes]) -> dict[bytes, int]:
        """The numbers of those owners or strands that have one.

        They are remembered from one transaction to the next: who refers to one
        that is gone by then is tried again, without the memory.
        """
        known = self._known[kind]
        if all(key in known for key in keys):
            return {key: known[key] for key in keys}
        found = self.all(
            f"SELECT key, {kind[:-1]} FROM {kind} "  # noqa: S608 # our own names
            "WHERE tenant = %(tenant)s AND key = ANY(%(keys)s)",
            keys=list(keys),
        )
        numbers = {bytes(key): int(number) for key, number in found}
        if not self._made:  # what this transaction made may never be committed
            known.update(numbers)
        return numbers

    def all(self, statement: str, /, **values: Any) -> list[Row]:
        """What a statement gives."""
        return self._execute(statement, values).fetchall()

    def one(self, statement: str, /, **values: Any) -> Row | None:
        """The first row a statement gives, if any."""
        found: Row | None = self._execute(statement, values).fetchone()
        return found

    def only(self, statement: str, /, **values: Any) -> list[Row]:
        """What the last statement gives: the transaction ends with it, in one round trip."""
        return self._execute(statement, values, last=True).fetchall()

    def run(self, statement: str, /, **values: Any) -> int:
        """How many rows a statement touched."""
        return int(self._execute(statement, values).rowcount)

    def later(self, statement: str, /, **values: Any) -> Callable[[], list[Row]]:
        """Send a statement together with the next one; what it gives can be had after that."""
        waiting = _Later(statement, values)
        self._waiting.append(waiting)
        return waiting.rows

    def log(self, operation: Operation, rows: Collection[int], /) -> None:
        """Tell indexes that `rows` changed; neighbouring rows make one line."""
        self._lines += [(operation, first, last) for first, last in runs(rows)]

    def seq(self) -> int:
        """Number the lines so far; whoever else changes this tenant waits from here on."""
        (seq,) = self._numbered(last=False).fetchone() or (None,)
        if seq is None:
            raise StoreCorrupt("The tenant's line is gone.", remedy="Open the store again.")
        return int(seq)

    def _numbered(self, *, last: bool) -> Cursor[Any]:
        lines, self._lines = self._lines, []
        return self._execute(
            _NUMBER_CHANGES,
            {
                "operations": [line[0] for line in lines],
                "firsts": [line[1] for line in lines],
                "lasts": [line[2] for line in lines],
            },
            last=last,
        )

    def finish(self) -> None:
        """Number what was not numbered yet, and end."""
        if self._lines:
            self._numbered(last=True)
        elif not self._ended and (self._begun or len(self._waiting) > _BEGINNING):
            self._execute("COMMIT", {})
        self._ended = True

    def _execute(
        self, statement: str, values: dict[str, Any], *, last: bool = False
    ) -> Cursor[Any]:
        asked = _Later(statement, values)
        sent, self._waiting = [*self._waiting, asked], []
        if last and not self._begun and self._may_stand_alone(sent):
            del sent[0]  # what is sent together is one transaction by itself
        elif last:
            sent.append(_Later("COMMIT", {}))
        with self._connection.pipeline() if len(sent) > 1 else nullcontext():
            for one in sent:
                cursor = one.cursor = self._connection.cursor(binary=True)
                given = {name: _sent(value) for name, value in one.values.items()}
                cursor.execute(one.statement, {**given, "tenant": _sent(self._tenant)})
        self._begun, self._ended = True, self._ended or last
        found: Cursor[Any] = asked.cursor
        return found

    @staticmethod
    def _may_stand_alone(sent: Sequence[_Later]) -> bool:
        """Whether it is all the same in which state of the database each statement is."""
        return len(sent) == _BEGINNING + 1 or WRITE in sent[0].statement

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


READ, WRITE = "REPEATABLE READ READ ONLY", "READ COMMITTED READ WRITE"
_BEGINNING = 2
"""So many statements begin a transaction."""
Numbers = dict[NumberKind, dict[bytes, int]]
_NUMBER_CHANGES = """SELECT log_changes(
    %(tenant)s, %(operations)s::text[], %(firsts)s::bigint[], %(lasts)s::bigint[])"""


class _Later:
    """A statement that is sent with the next one."""

    def __init__(self, statement: str, values: dict[str, Any]) -> None:
        self.statement = statement
        self.values = values
        self.cursor: Any = None

    def rows(self) -> list[Row]:
        found: list[Row] = self.cursor.fetchall()
        return found


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
