"""One transaction on the database: rows of its tables, and memories with words and vectors."""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from agentmem.base.errors import InvalidInput, StoreCorrupt
from agentmem.base.filters import Selection
from agentmem.base.protocols import EmbedderId
from agentmem.base.types import UNUSED, Memory, Usage
from agentmem.stores.postgres.schema import LOCK
from agentmem.stores.postgres.tables import (
    CHANGES,
    CONTENTS,
    EMBEDDINGS,
    SCOPES,
    SPEAKERS,
    TENANTS,
    array_of,
    as_json,
    as_sent,
    as_stored,
    column_of,
    condition,
    digest,
    in_sql,
    insertion,
)
from agentmem.stores.tables import (
    ANY,
    MEMORIES,
    OWNERS,
    STRANDS,
    USAGE,
    Conditions,
    Found,
    Lock,
    Match,
    Owner,
    Place,
    Row,
    RowQuery,
    Strand,
    Table,
    TableWriter,
    corrupt,
    memory_of,
    memory_values,
    owned_by,
    owner_of,
    runs,
    scope_values,
    usage_of,
    usage_values,
)
from agentmem.stores.upkeep import updated_in
from agentmem.stores.values import (
    COUNT_LIMIT,
    DELETED,
    FORGOTTEN,
    SUPERSEDED,
    Entry,
    Operation,
    flags_of,
    index_head,
    pack,
    shorten,
    unpack_terms,
)
from agentmem.stores.writing import keep_version, refuse_circles, supersession_edges

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from psycopg import Connection, Cursor

READ, WRITE = "REPEATABLE READ READ ONLY", "READ COMMITTED READ WRITE"
_BEGINNING = 2
"""So many statements begin a transaction."""
Numbers = dict[tuple[str, str, Row], int]
"""The numbers of owners and strands, by tenant, table and what they stand for."""
_LOCKS = {False: "", True: "FOR NO KEY UPDATE OF t", "skip": "FOR NO KEY UPDATE OF t SKIP LOCKED"}
_WHOSE = "o.owner, o.visibility, o.user_id, o.project_id, o.agent_id, o.run_id"
_WIDTH = len(MEMORIES.columns)
_JOINS = """
    JOIN owners AS o ON o.tenant = %(tenant)s AND o.owner = m.owner
    LEFT JOIN strands AS s ON s.tenant = %(tenant)s AND s.strand = m.strand"""
_SELECT = f"""
    SELECT {", ".join(f"m.{name}" for name in MEMORIES.columns)}, {_WHOSE}, s.url, s.session,
        u.row, u.retrieved, u.cited, u.ignored, u.last_used_at FROM memories AS m {_JOINS}
    LEFT JOIN usage AS u ON u.tenant = %(tenant)s AND u.row = m.row
    WHERE m.tenant = %(tenant)s AND """  # noqa: S608 # our own names
_NUMBER_CHANGES = """SELECT log_changes(
    %(tenant)s, %(operations)s::text[], %(firsts)s::bigint[], %(lasts)s::bigint[])"""
_GIVEN = "%(given)s::json, %(terms)s::bigint[], %(counts)s::smallint[], %(term_of)s::integer[]"
_VECTORS = """%(embedders)s::integer[], %(halves)s::halfvec[], %(wides)s::bytea[],
    %(shared)s::boolean[], %(vector_of)s::integer[]"""
_ADD = f"""SELECT added, after FROM add_memories(
    %(tenant)s, {_GIVEN}, %(spaces)s::json, %(graph)s, {_VECTORS})"""  # noqa: S608 # our own names
_PUT = f"""SELECT put_memories(%(tenant)s, %(owners)s::integer[], %(kinds)s::bytea[],
    %(held)s::bytea[], %(contents)s::text[], {_GIVEN}, %(spaces)s::json, {_VECTORS})"""
_ROWS = "%(tenant)s, %(rows)s::bigint[], %(owners)s::integer[]"
_KEPT = (*MEMORIES.columns[1:], "flags", "length", "indexed")
_UPDATE = (
    f"UPDATE memories SET {', '.join(f'{name} = %({name})s' for name in _KEPT)} "  # noqa: S608 # our own names
    "WHERE tenant = %(tenant)s AND row = %(row)s"
)
_REMOVE_TERMS = """DELETE FROM postings AS p
    USING unnest(%(owners)s::integer[], %(terms)s::bigint[], %(rows)s::bigint[])
        AS gone(owner, term, row)
    WHERE p.tenant = %(tenant)s AND p.owner = gone.owner AND p.term = gone.term
    AND p.row = gone.row"""
_FOLLOWING = f"""SELECT DISTINCT after.row FROM unnest(
        %(owners)s::integer[], %(strands)s::bigint[], %(places)s::bigint[], %(rows)s::bigint[])
        AS here(owner, strand, place, row)
    CROSS JOIN LATERAL (
        SELECT m.row FROM memories AS m WHERE m.tenant = %(tenant)s AND m.owner = here.owner
        AND m.strand = here.strand AND (m.place, m.row) > (here.place, here.row)
        AND m.flags & {DELETED} = 0 ORDER BY m.place, m.row LIMIT 1) AS after"""  # noqa: S608 # our own names
_USED = """INSERT INTO usage AS u (tenant, row, retrieved, cited, ignored, last_used_at)
    SELECT %(tenant)s, row, %(retrieved)s, %(cited)s, %(ignored)s, %(at)s
    FROM unnest(%(rows)s::bigint[]) AS used(row) ORDER BY row
    ON CONFLICT (tenant, row) DO UPDATE SET
        retrieved = u.retrieved + excluded.retrieved, cited = u.cited + excluded.cited,
        ignored = u.ignored + excluded.ignored,
        last_used_at = greatest(u.last_used_at, excluded.last_used_at)"""
_HOLD_CONTENTS = """INSERT INTO contents (tenant, owner, kind, hash)
    SELECT %(tenant)s, * FROM unnest(%(owners)s::integer[], %(kinds)s::bytea[], %(hashes)s::bytea[])
    ON CONFLICT (tenant, owner, kind, hash) DO UPDATE SET hash = excluded.hash"""


def _found(row: Row) -> Found:
    columns, owner, (url, session) = row[:_WIDTH], row[_WIDTH : _WIDTH + 6], row[_WIDTH + 6 : -5]
    used = row[-5:]
    try:
        usage = None if used[0] is None else usage_of(used)
        strand = columns[2], url or "", session or ""
        return Found(columns, memory_of(columns, owner_of(owner), strand, usage))
    except (InvalidInput, ValueError, OverflowError, TypeError) as error:
        raise corrupt(f"a row cannot be read ({error})") from error


def told_of(selection: Selection) -> Conditions:
    """What a selection asks of memories `m`, as the server reads it."""
    asked = Conditions(selection, Transaction)
    asked.sql, asked.values = in_sql(asked.sql, asked.values)
    return asked


class _Later:
    """A statement that is sent with the next one."""

    def __init__(self, statement: str, values: dict[str, Any]) -> None:
        self.statement = statement
        self.values = values
        self.cursor: Any = None

    def rows(self) -> list[Row]:
        found: list[Row] = self.cursor.fetchall()
        return found


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

    def __init__(
        self, connection: Connection[Any], tenant: str, known: Numbers, begin: Sequence[str]
    ) -> None:
        self._whose: dict[int, Owner] = {}
        self._made: Numbers = {}
        """Numbers that were made, or found after one was: these may never be committed."""
        self._connection = connection
        self._tenant = tenant
        self._lines: list[tuple[Operation, int, int]] = []
        self._waiting: list[_Later] = [_Later(statement, {}) for statement in begin]
        self._known = known
        self._begun = self._ended = False
        self.added: dict[bytes, str] = {}
        """Ids of memories that are sent, by key: which of them was there already is heard late."""

    def all(self, statement: str, /, **values: Any) -> list[Row]:
        """What a statement gives."""
        return self._execute(statement, values).fetchall()

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
                given = {name: as_sent(value) for name, value in one.values.items()}
                cursor.execute(one.statement, {**given, "tenant": as_sent(self._tenant)})
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
        told, given = condition(table, asked)
        listed = ", ".join(f"t.{column_of(name)}" for name in table.columns)
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
        told, given = condition(table, asked)
        return self.all(f"SELECT {columns} FROM {table.name} AS t WHERE {told}", **given)  # noqa: S608 # our own names

    def owners(self, numbers: Collection[int], /) -> Mapping[int, Owner]:
        """Whom these numbers stand for."""
        unknown = {number for number in numbers if number not in self._whose}
        if unknown:
            self._whose |= {row[0]: owner_of(row) for row in self.find(OWNERS, {"owner": unknown})}
        return {number: self._whose[number] for number in numbers}

    def log_span(self, *, last: bool = False) -> tuple[int, int]:
        """The number of the last change, and of the one that the log reaches back to."""
        for _, seq, log_from in self.find(TENANTS, last=last):
            return seq, log_from
        return 0, 0

    def find_owner(self, owner: Owner, /) -> int | None:
        """The number of this owner, if it has one."""
        visibility, scope = owner
        return self._number_of(OWNERS, (visibility, *scope_values(scope)))

    def _number_of(self, table: Table, values: Row) -> int | None:
        """The number of an owner or strand, if it has one.

        It is remembered from one transaction to the next: who refers to one
        that is gone by then is tried again, without the memory.
        """
        key = self._tenant, table.name, values
        for known in (self._known, self._made):
            if key in known:
                return known[key]
        named = dict(zip(table.columns[1:], values, strict=True))
        found = self.ask(table.key, table, named)
        if found:
            (self._made or self._known)[key] = found[0][0]
        return found[0][0] if found else None

    def last_seq(self) -> int:
        """The number of the last change in this state."""
        return self.log_span()[0]

    def kept_memories(self, after: int, limit: int, /) -> list[Row]:
        """Rows of the table of memories, each with what indexes need of it."""
        columns = ", ".join((*MEMORIES.columns, "indexed"))
        return self._after(columns, MEMORIES, ANY, after, limit)

    def kept_vectors(self, embedder: int, dimensions: int, after: int, limit: int, /) -> list[Row]:
        """Rows of one embedder, each with its vector in as few bytes as every store can give."""
        space = {"embedder": embedder}
        found = self._after("row, half, wide", EMBEDDINGS, space, after, limit)
        return [
            (row, wide or b"" if half is None else half_numbers(half).astype("<f2").tobytes())
            for row, half, wide in found
        ]

    def _after(
        self, columns: str, table: Table, match: Match, after: int, limit: int, /
    ) -> list[Row]:
        where = "t.row > :after"
        return self.ask(columns, table, match, where, order="row", limit=limit, after=after)

    # -- memories ---------------------------------------------------------------------

    def _memories(self, asked: RowQuery, lock: bool = False, last: bool = False, /) -> list[Found]:
        told, given = in_sql(asked.told, asked.given)
        statement = f"{_SELECT}{told}{asked.rest}{' FOR NO KEY UPDATE OF m' if lock else ''}"
        return [_found(row) for row in (self.only if last else self.all)(statement, **given)]

    def _of_memories(
        self, columns: str, asked: RowQuery, /, *, joined: bool = False, last: bool = False
    ) -> list[Row]:
        told, given = in_sql(asked.told, asked.given)
        return (self.only if last else self.all)(
            f"SELECT {columns} FROM memories AS m {_JOINS if joined else ''} "  # noqa: S608 # our own names
            f"WHERE m.tenant = %(tenant)s AND {told}{asked.rest}",
            **given,
        )

    # -- writing ----------------------------------------------------------------------

    def add(self, table: Table, /, **values: Any) -> int | None:
        """The key of a new row; None when one with the same unique columns is there."""
        given = as_stored(table, values)
        found = self.all(f"{insertion(table, given)} RETURNING {table.key}", **given)
        return int(found[0][0]) if found else None

    def add_all(self, table: Table, rows: Sequence[Mapping[str, Any]], /) -> None:
        """Add rows of a table in which nothing is unique."""
        for values in rows:
            given = as_stored(table, values)
            self.later(insertion(table, given), **given)

    def put(self, table: Table, /, **values: Any) -> None:
        """Add a row, or write over the one that has the same unique columns."""
        changed = [name for name in values if name not in table.unique]
        sets = ", ".join(f"{name} = excluded.{name}" for name in changed)
        given = as_stored(table, values)
        self.run(insertion(table, given, f"UPDATE SET {sets}"), **given)

    def change(self, table: Table, row: Row, /, **values: Any) -> None:
        """Write `values` over those of a row that was found."""
        given = as_stored(table, values)
        if any(name in values for name in table.hashed):
            whole = dict(zip(table.columns, row, strict=True)) | values
            given["key"] = as_stored(table, {name: whole[name] for name in table.hashed})["key"]
        sets = ", ".join(f"{name} = %({name})s" for name in given)
        self.run(
            f"UPDATE {table.name} SET {sets} "  # noqa: S608 # our own names
            f"WHERE tenant = %(tenant)s AND {column_of(table.key)} = %(that)s",
            that=row[0],
            **given,
        )

    def remove(self, table: Table, match: Match, where: str = "", /, **values: Any) -> int:
        """Remove rows for good; gives how many there were."""
        if [] in (list(one) for one in match.values() if isinstance(one, list | set | tuple)):
            return 0
        told, given = condition(table, RowQuery(match, where, values))
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
        return self._number(OWNERS, (visibility, *scope_values(scope)))

    def strand_number(self, strand: Strand, /) -> int:
        """The number of this strand, new if it has none yet."""
        return self._number(STRANDS, strand)

    def _number(self, table: Table, values: Row) -> int:
        number = self._number_of(table, values)
        while number is None:  # somebody else may make it, or remove it, at this moment
            number = self.add(table, **dict(zip(table.columns[1:], values, strict=True)))
            if number is None:
                number = self._number_of(table, values)
            else:
                self._made[self._tenant, table.name, values] = number
        return number

    # -- memories, with their words and vectors ---------------------------------------

    def put_memories(
        self, entries: Sequence[Entry], *, unsaid: bool = False
    ) -> tuple[int, ...] | None:
        """Store checked entries and end the transaction, mostly in one round trip.

        None, and nothing is stored, where more is to be done than adding: an entry has a past,
        or, with `unsaid`, its owner has something of the same content.
        """
        memories = [entry.memory for entry in entries]
        if any(map(_has_past, entries)) or (unsaid and any(m.kind == "page" for m in memories)):
            return None
        held = self._contents(memories) if unsaid else []
        ((rows,),) = self.only(
            _PUT,
            owners=array_of([owner for owner, _, _ in held]),
            kinds=[kind for _, kind, _ in held],
            held=[content for _, _, content in held],
            contents=[memory.content_hash for memory in memories],
            **self._given(entries),
        )
        return None if rows is None else tuple(rows)

    def add_memories(
        self, entries: Sequence[Entry], /, *, last: bool = False, graph: bool = True
    ) -> tuple[int, ...]:
        """Store checked entries under new rows, inside a transaction; `last` may end it.

        Without `graph` those over new spaces' shared vectors are left for later: `make_graphs`.
        """
        if not entries:
            return ()
        if last and (put_rows := self.put_memories(entries)) is not None:
            return put_rows
        refuse_circles(self, [edge for e in entries for edge in supersession_edges(e.memory)])
        ((rows, after),) = self.all(_ADD, graph=graph, **self._given(entries))
        for row, entry in zip(rows, entries, strict=True):
            if entry.memory.usage != UNUSED:
                self.set_usage(row, entry.memory.usage)
            for version in entry.versions:
                keep_version(self, row, version.memory, version.replaced_at)
        self.log("put", rows)
        self.log("update", after)
        return tuple(rows)

    def _given(self, entries: Sequence[Entry]) -> dict[str, Any]:
        memories = [entry.memory for entry in entries]
        stored = [
            _row(
                (None, memory.id, owner, strand, *memory_values(memory)),
                pack(entry, owner=owner, strand=strand or 0),
            )
            for entry, memory, (owner, strand) in zip(
                entries, memories, self.numbers_of(memories), strict=True
            )
        ]
        return self._sent_rows(stored, entries)

    def _sent_rows(
        self, stored: Sequence[dict[str, Any]], entries: Sequence[Entry]
    ) -> dict[str, Any]:
        """Rows as they are sent, with their words and the vectors of the `entries` they were
        made of. Which id was taken is heard when they are sent."""
        self.added |= {one["key"]: one["id"] for one in stored}
        vectors = [(entry.memory.visibility, entry.vectors) for entry in entries]
        return {"given": as_json(stored), **_terms(stored), **_vectors(vectors)}

    def _contents(self, memories: Sequence[Memory]) -> list[tuple[int, bytes, bytes]]:
        """Owner, kind and content of memories, in the order in which everybody waits for them."""
        return sorted(
            {
                (self.owner_number(owned_by(m)), digest(m.kind), digest(m.content_hash))
                for m in memories
            }
        )

    def hold_contents(self, memories: Sequence[Memory], /) -> list[int]:
        """Wait for others who write the same contents, as `hold` does; gives the owners."""
        held = self._contents(memories)
        owners, kinds, hashes = (list(column) for column in zip(*held, strict=True))
        # In a statement of its own: what comes after must see what those wrote who were waited for.
        self.later(_HOLD_CONTENTS, owners=owners, kinds=kinds, hashes=hashes)
        return owners

    def followers(self, places: Collection[Place], /) -> set[int]:
        """The rows that come right after these places, among those not deleted."""
        known = [place for place in set(places) if place[1] is not None]
        if not known:
            return set()
        owners, strands, at, rows = (list(column) for column in zip(*known, strict=True))
        found = self.all(_FOLLOWING, owners=owners, strands=strands, places=at, rows=rows)
        return {row for (row,) in found}

    def _rewrite(self, old: Found, columns: Row, memory: Memory, entry: Entry | None, /) -> None:
        row, _, owner, strand, *_ = columns
        ((told,),) = self.ask("indexed", MEMORIES, {"row": row})
        terms = entry or Entry(memory=memory, **unpack_terms(told))
        packed = pack(replace(terms, memory=memory), owner=owner, strand=strand or 0)
        values = _row(columns, packed)
        moved = owner != old.owner or values["flags"] != flags_of(old.memory)
        if entry is not None:
            same = memory.text == old.memory.text
            spaces = [embedder_number(embedder) for embedder, _ in entry.vectors]
            self.remove(EMBEDDINGS, {"row": row, **({"embedder": spaces} if same else {})})
        if moved or entry is not None:
            self._remove_terms([(row, old.owner, told)])
        self.run(_UPDATE, **values)
        if moved or entry is not None:
            self.later(
                f"SELECT add_terms({_ROWS}, %(lengths)s::integer[], %(states)s::integer[], "
                "%(terms)s::bigint[], %(counts)s::smallint[], %(term_of)s::integer[])",
                rows=[row],
                owners=[owner],
                lengths=[values["length"]],
                states=[values["flags"]],
                **_terms([values]),
            )
        if moved:
            self.run(
                "UPDATE embeddings SET owner = %(owner)s, shared = %(shared)s, flags = %(flags)s "
                "WHERE tenant = %(tenant)s AND row = %(row)s",
                owner=owner,
                shared=memory.visibility != "private",
                flags=values["flags"],
                row=row,
            )
        if entry is not None:
            self.insert_vectors([(values, memory.visibility, entry.vectors)])

    def set_usage(self, row: int, usage: Usage, /) -> None:
        """Write the counts of a row over those that stand there."""
        self.remove(USAGE, {"row": row})
        if usage != UNUSED:
            self._add_usage([row], usage_values(usage))

    def count_usage(
        self, found: Sequence[Found], /, *, retrieved: int, cited: int, ignored: int, at: int
    ) -> None:
        """Add to the counts, in one statement; the moment never goes back."""
        self._add_usage([one.row for one in found], (retrieved, cited, ignored, at))

    def _add_usage(self, rows: list[int], usage: tuple[Any, ...]) -> None:
        names = ("retrieved", "cited", "ignored", "at")
        self.run(_USED, rows=rows, **dict(zip(names, usage, strict=True)))

    def remove_memories(self, found: Sequence[Found], /) -> int:
        """Take memories out with all that is kept of them alone; gives how many vectors went."""
        rows = [one.row for one in found]
        vectors = self.remove(EMBEDDINGS, {"row": rows})
        self._remove_terms(self.ask("row, owner, indexed", MEMORIES, {"row": rows}))
        for table in (USAGE, MEMORIES):
            self.remove(table, {"row": rows})
        for one in found:
            said = {"kind": digest(one.memory.kind), "hash": digest(one.memory.content_hash)}
            self.remove(CONTENTS, {"owner": one.owner, **said})
        return vectors

    def _remove_terms(self, found: Iterable[Row]) -> None:
        """Take the words of rows out, each given with its owner and what holds its terms."""
        lines = [
            (owner, term, row)
            for row, owner, indexed in found
            for (term,) in struct.iter_unpack("<q", unpack_terms(indexed)["terms"])
        ]
        if lines:
            owners, terms, rows = map(array_of, zip(*lines, strict=True))
            self.run(_REMOVE_TERMS, owners=owners, terms=terms, rows=rows)

    def after_erasing(self, owners: Collection[int], /) -> None:
        """Forget who speaks no more, and what need not be told apart or counted any more."""
        self.remove(SPEAKERS, {"owner": owners}, "t.rows = 0")
        gone = "NOT EXISTS (SELECT 1 FROM owners AS o WHERE [o] AND o.owner = t.owner)"
        for table in (CONTENTS, SCOPES):
            self.remove(table, {"owner": owners}, gone)

    # -- vectors and changes ----------------------------------------------------------

    def add_vectors(
        self, embedder: EmbedderId, packed: Mapping[int, bytes], /, *, seq: int | None
    ) -> list[int]:
        """Store vectors of rows that were there, not updated since `seq`, and had none; which."""
        # Locked first: an update that comes now waits, and removes what is stored here.
        there = self.rows_with_owners(sorted(packed), lock=True)
        stale: set[int] = set()
        if seq is not None:
            last, log_from = self.log_span()
            known = log_from <= seq <= last
            stale = updated_in(packed, self.lines_since(seq)) if known else set(packed)
        return self.insert_vectors(
            [
                (stored, visibility, ((embedder, packed[stored["row"]]),))
                for stored, visibility in there
                if stored["row"] not in stale
            ]
        )

    def insert_vectors(
        self,
        found: Sequence[tuple[dict[str, Any], str, tuple[tuple[EmbedderId, bytes], ...]]],
        *,
        graph: bool = True,
    ) -> list[int]:
        """Store the vectors of rows that have none yet, each given with its visibility; which."""
        if not any(vectors for _, _, vectors in found):
            return []
        stored = [one for one, _, _ in found]
        added = self.all(
            f"SELECT add_vectors({_ROWS}, %(states)s::integer[], %(spaces)s::json, %(graph)s, "
            f"{_VECTORS})",
            rows=array_of([one["row"] for one in stored]),
            owners=array_of([one["owner"] for one in stored]),
            states=array_of([one["flags"] for one in stored]),
            graph=graph,
            **_vectors([(visibility, vectors) for _, visibility, vectors in found]),
        )
        return [row for (row,) in added]

    def make_graphs(self) -> None:
        """Make the graphs over shared vectors that were left for after a large load."""
        self.run(
            "SELECT index_vectors(embedder, dimensions) FROM embedders WHERE tenant = %(tenant)s"
        )

    def rows_with_owners(
        self, rows: Sequence[int], *, lock: bool = False
    ) -> list[tuple[dict[str, Any], str]]:
        """Those of `rows` that are there, as `insert_vectors` takes them; `lock` keeps them so."""
        found = self.all(
            f"""SELECT m.row, m.owner, m.flags, o.visibility FROM memories AS m
            JOIN owners AS o ON o.tenant = %(tenant)s AND o.owner = m.owner
            WHERE m.tenant = %(tenant)s AND m.row = ANY(%(rows)s) ORDER BY m.row
            {"FOR SHARE OF m" if lock else ""}""",  # noqa: S608 # our own names
            rows=list(rows),
        )
        return [({"row": r, "owner": o, "flags": flags}, seen) for r, o, flags, seen in found]

    # -- moved from another kind of store ---------------------------------------------

    def fill(self, table: Table, rows: Sequence[Row], /) -> None:
        """Add rows as they are; numbers given out from here on are above theirs."""
        self.add_all(table, [dict(zip(table.columns, row, strict=True)) for row in rows])
        if table is not USAGE:
            self._give_out(table, max(row[0] for row in rows))

    def fill_memories(self, rows: Sequence[Row], /) -> None:
        """The same of memories, as `kept_memories` gives them."""
        stored = [_row(row[:-1], row[-1]) for row in rows]
        self.run(_ADD, graph=False, **self._sent_rows(stored, ()))
        self._give_out(MEMORIES, max(row[0] for row in rows))

    def fill_vectors(self, rows: Iterable[tuple[EmbedderId, int, bytes]], /) -> None:
        """Add vectors of rows that are there, as `kept_vectors` gives them."""
        import numpy as np

        given = {(row, space): data for space, row, data in rows}
        known = {
            one["row"]: (one, seen) for one, seen in self.rows_with_owners([r for r, _ in given])
        }
        lines = []
        for (row, space), data in given.items():
            is_whole = len(data) == 4 * space.dimensions
            whole = data if is_whole else np.frombuffer(data, "<f2").astype("<f4").tobytes()
            lines.append((*known[row], ((space, whole),)))
        self.insert_vectors(lines, graph=False)

    def end_filling(self, seq: int, /) -> None:
        """Go on counting changes from `seq`, and make the graphs that were left for the end."""
        self.run(
            "UPDATE tenants SET seq = greatest(seq, %(seq)s), "
            "log_from = greatest(seq, %(seq)s) WHERE tenant = %(tenant)s",
            seq=seq,
        )
        self.make_graphs()

    def _give_out(self, table: Table, last: int) -> None:
        """Let the next number be above `last`, whoever else takes one meanwhile."""
        numbers = f"{table.name}_{table.key}_seq"
        self.run("SELECT pg_advisory_xact_lock(%(lock)s)", lock=LOCK)
        ((given,),) = self.all(f"SELECT last_value FROM {numbers} WHERE %(tenant)s <> ''")  # noqa: S608 # our own names
        if given <= last:
            self.run(f"SELECT setval('{numbers}', %(last)s)", last=last + 1000)

    def lines_since(self, seq: int) -> list[Row]:
        """The lines of the log of changes after this one."""
        return self.find(CHANGES, ANY, "t.seq > :since", order="t.seq", since=seq)


# ----------------------------------------------------------------------------
# New rows, their words and their vectors, as they are sent.


def _has_past(entry: Entry) -> bool:
    memory = entry.memory
    return memory.usage != UNUSED or bool(entry.versions or supersession_edges(memory))


def _row(columns: Sequence[Any], indexed: bytes) -> dict[str, Any]:
    """The columns of a memory and what indexes need of it; a new one has no row yet."""
    return {
        "key": digest(columns[1]),
        **dict(zip(MEMORIES.columns, columns, strict=True)),
        **index_head(indexed),
        "indexed": indexed,
    }


def _terms(stored: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The words of rows, and which of the rows each is of, in the order of their index."""
    import numpy as np

    held = [unpack_terms(one["indexed"]) for one in stored]
    terms = np.frombuffer(b"".join([one["terms"] for one in held]), "<i8")
    counts = np.frombuffer(b"".join([one["frequencies"] for one in held]), "<u2")
    sizes = [len(one["terms"]) // 8 for one in held]
    of = np.repeat(np.arange(1, len(stored) + 1), sizes)
    order = np.lexsort((of, terms, np.repeat([one["owner"] for one in stored], sizes)))
    return {
        "terms": array_of(terms[order].tolist()),
        "counts": array_of(np.clip(counts, 1, COUNT_LIMIT)[order].tolist()),
        "term_of": array_of(of[order].tolist()),
    }


def half_numbers(half: bytes) -> NDArray[Any]:
    """A halfvec as the server sends it: its number of dimensions, two empty bytes, the numbers."""
    import numpy as np

    return np.frombuffer(half, ">f2", offset=4)


class Halves:
    """A column of vectors in half precision, each as `<f2` or None."""

    def __init__(self, vectors: Sequence[bytes | None]) -> None:
        self.vectors = vectors


def embedder_number(embedder: EmbedderId) -> int:
    """The number of a vector space, the same in every tenant, so that they share an index."""
    key = digest(embedder.name, embedder.version, str(embedder.dimensions))
    return int.from_bytes(key[:4], "little") >> 1


def _vectors(
    found: Iterable[tuple[str, tuple[tuple[EmbedderId, bytes], ...]]],
) -> dict[str, Any]:
    """The vectors of rows, given with the visibility of each row, and their spaces."""
    spaces: dict[EmbedderId, int] = {}
    lines: list[tuple[Any, ...]] = []
    for number, (visibility, vectors) in enumerate(found, start=1):
        for embedder, vector in vectors:
            if embedder not in spaces:
                spaces[embedder] = embedder_number(embedder)
            short = shorten(vector)  # half precision, where that holds it exactly
            half, wide = (None, vector) if len(short) == len(vector) else (short, None)
            lines.append((spaces[embedder], half, wide, visibility != "private", number))
    numbers, halves, wides, shared, of = (
        [list(column) for column in zip(*lines, strict=True)] if lines else [[]] * 5
    )
    named = [
        {"embedder": number, "name": one.name, "version": one.version, "dimensions": one.dimensions}
        for one, number in spaces.items()
    ]
    return {
        "spaces": as_json(named),
        "embedders": array_of(numbers),
        "halves": Halves(halves),
        "wides": wides,
        "shared": shared,
        "vector_of": array_of(of),
    }
