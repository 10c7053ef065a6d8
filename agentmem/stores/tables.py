"""The tables every store has, and the few things a transaction does with their rows.

A file and a database keep the same rows under the same numbers. What is kept beside the
memories, the journal and erasing are therefore written once, over `TableReader` and `TableWriter`;
a back end says how a row is found, added, changed and removed.

Conditions are SQL that every back end reads: `:name` stands for a value, `IN :name` for one of
several, or for the owners that a `Scope` may see; `[m]` says that the rows of the table `m` are
of this store. The table that is asked is `t`.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

from agentmem.base.errors import StoreCorrupt
from agentmem.base.filters import (
    ALL_VISIBILITIES,
    ALWAYS,
    INSTANT_FIELDS,
    MEMORY_FIELDS,
    MISSING,
    SCOPE_FIELDS,
    And,
    Compare,
    Filter,
    Selection,
    conditions,
    holds,
    matches,
    metadata_field,
)
from agentmem.base.protocols import EmbedderId
from agentmem.base.types import EMPTY, UNUSED, Memory, Scope, Usage, Visibility, visible
from agentmem.stores.values import (
    NO_POSITION,
    Entry,
    Operation,
    freeze_metadata,
    from_microseconds,
    place_of,
    to_microseconds,
    write_json,
)

Row = tuple[Any, ...]
Owner = tuple[Visibility, Scope]
Strand = tuple[int, str, str]
"""Owner, url and session: rows of one strand follow each other by place."""
NO_STRAND: Strand = (0, "", "")
Match = Mapping[str, Any]
"""Columns and what they must be: a value, None, one of several, or of a reader's owners."""
ANY: Match = MappingProxyType({})
MOST_ROWS = 2**62
"""No database counts further than twice this."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """One table; its first column is its key.

    No two rows have the same `unique` columns, among those that meet `among`. Those of them
    that are `hashed` may be texts of any length: a database looks them up by their digest.
    A row of a table that is `owned` is asked for together with whose it is. `packed` tables
    of a file keep their checksum inside their blob.
    """

    name: str
    columns: tuple[str, ...]
    unique: tuple[str, ...] = ()
    hashed: tuple[str, ...] = ()
    among: str = ""
    owned: bool = False
    packed: bool = False

    @property
    def key(self) -> str:
        return self.columns[0]


def _table(
    name: str,
    columns: str,
    unique: str = "",
    hashed: str = "",
    *,
    among: str = "",
    owned: bool = False,
) -> Table:
    return Table(
        name=name,
        columns=tuple(columns.split()),
        unique=tuple(unique.split()),
        hashed=tuple(hashed.split()),
        among=among,
        owned=owned,
    )


_WHOSE, _STRAND_OF = "visibility user_id project_id agent_id run_id", "owner url session"
OWNERS = _table("owners", f"owner {_WHOSE}", _WHOSE, _WHOSE)
STRANDS = _table("strands", f"strand {_STRAND_OF}", _STRAND_OF, _STRAND_OF)
SOURCES = _table(
    "sources", "source owner url title content_hash synced_at", "owner url", "url", owned=True
)
MEMORIES = _table(
    "memories",
    """row id owner strand place kind origin speaker created_at valid_from valid_to supersedes
    superseded_by deleted_at importance content_hash title heading_path metadata text summary
    compressed index_text""",
    "id",
    "id",
)
USAGE = _table("usage", "row retrieved cited ignored last_used_at")
EMBEDDERS = _table("embedders", "embedder name version dimensions")
HISTORY = _table("history", "version row replaced_at data")
SNAPSHOTS = _table(
    "snapshots", "snapshot id owner created_at mentions data", "id", "id", owned=True
)
ARTIFACTS = _table(
    "artifacts", "artifact id owner created_at media_type metadata data", "id", "id", owned=True
)
LINKS = _table(
    "links",
    "link family first second relation created_at note settled_at",
    "family first second relation",
    "relation",
)
_WAITING = "state = 'waiting' AND dedupe <> ''"
JOBS = _table(
    "jobs",
    "job owner kind dedupe payload state attempts ready_at error created_at",
    "owner kind dedupe",
    "kind dedupe",
    among=_WAITING,
)
SETTINGS = _table("settings", "setting name value", "name", "name")
INDEX_FILES = _table("index_files", "file name sha256 embedder seq", "name")
JOURNAL = _table(
    "journal", "entry id owner kind created_at undone_at report mark", "id", "id", owned=True
)
JOURNAL_ITEMS = _table("journal_items", "item entry row other relation data")
SHARED = (
    OWNERS, STRANDS, SOURCES, MEMORIES, USAGE, EMBEDDERS, HISTORY, SNAPSHOTS, ARTIFACTS, LINKS,
    JOBS, SETTINGS, INDEX_FILES, JOURNAL, JOURNAL_ITEMS,
)  # fmt: skip
COLUMN = {name: index for index, name in enumerate(MEMORIES.columns)}
_OWNER, _STRAND, _PLACE = COLUMN["owner"], COLUMN["strand"], COLUMN["place"]


class Found(NamedTuple):
    """A row of the table of memories, and the memory it holds."""

    columns: Row
    memory: Memory

    @property
    def row(self) -> int:
        return int(self.columns[0])

    @property
    def owner(self) -> int:
        return int(self.columns[_OWNER])

    @property
    def strand(self) -> int | None:
        strand: int | None = self.columns[_STRAND]
        return strand

    @property
    def place(self) -> Place:
        return place_in(self.columns)


Place = tuple[int, int | None, int, int]
"""Owner, strand, place and row: where a memory stands among its neighbours."""


def place_in(columns: Sequence[Any]) -> Place:
    """Where a row of the table of memories stands."""
    return columns[_OWNER], columns[_STRAND], columns[_PLACE], columns[0]


# ----------------------------------------------------------------------------
# A memory as the columns of a row and back.


def scope_values(scope: Scope) -> tuple[str | None, ...]:
    return scope.user_id, scope.project_id, scope.agent_id, scope.run_id


def owned_by(memory: Memory) -> Owner:
    return memory.visibility, memory.scope


def owner_of(row: Row) -> Owner:
    """Whom a row of the table of owners stands for."""
    _, visibility, user, project, agent, run = row
    return visibility, Scope(user_id=user, project_id=project, agent_id=agent, run_id=run)


def in_strand(memory: Memory) -> tuple[Owner, str, str]:
    """Whose a memory is and what it belongs to: memories that agree in it follow each other."""
    return owned_by(memory), memory.source_url, memory.session


_FIELDS = tuple(
    {"place": "position", "index_text": "index"}.get(name, name) for name in MEMORIES.columns[4:]
)
"""What the columns from `place` on are called in a memory."""
_values_of = attrgetter(*_FIELDS)


def memory_values(memory: Memory) -> Row:
    """The columns of a memory from `place` on; the row, id, owner and strand stand before."""
    values = dict(zip(_FIELDS, _values_of(memory), strict=True))
    for name in INSTANT_FIELDS:
        if values[name] is not None:
            values[name] = to_microseconds(values[name], name)
    values["position"] = place_of(memory)
    values["importance"] = float(memory.importance)
    headings = memory.heading_path
    values["heading_path"] = write_json(headings, "heading_path") if headings else "[]"
    values["metadata"] = write_json(memory.metadata, "metadata") if memory.metadata else "{}"
    return tuple(values.values())


def usage_values(usage: Usage) -> tuple[Any, ...]:
    last = usage.last_used_at
    return (
        usage.retrieved,
        usage.cited,
        usage.ignored,
        None if last is None else to_microseconds(last, "last_used_at"),
    )


def usage_of(row: tuple[Any, ...]) -> Usage:
    """The counts in a row of the table of usage."""
    _, retrieved, cited, ignored, last = row
    return Usage(
        retrieved=retrieved,
        cited=cited,
        ignored=ignored,
        last_used_at=None if last is None else from_microseconds(last),
    )


def memory_of(
    row: tuple[Any, ...], owner: Owner, strand: Strand, usage: Usage | None, text: str | None = None
) -> Memory:
    """The memory of a row of the table of memories; `text` if it stands somewhere else."""
    values: dict[str, Any] = dict(zip(_FIELDS, row[4:], strict=True))
    for name in INSTANT_FIELDS:
        if values[name] is not None:
            values[name] = from_microseconds(values[name])
    values["id"] = row[1]
    values["visibility"], values["scope"] = owner
    _, values["source_url"], values["session"] = strand
    if values["position"] == NO_POSITION:
        values["position"] = None
    if text is not None:
        values["text"] = text
    headings, metadata = values["heading_path"], values["metadata"]
    values["heading_path"] = () if headings == "[]" else tuple(json.loads(headings))
    values["metadata"] = EMPTY if metadata == "{}" else freeze_metadata(json.loads(metadata))
    values["usage"] = UNUSED if usage is None else usage
    return Memory(**values)


def runs(rows: Collection[int]) -> list[tuple[int, int]]:
    """The first and last of neighbouring rows."""
    found: list[tuple[int, int]] = []
    for row in sorted(set(rows)):
        if found and found[-1][1] == row - 1:
            found[-1] = (found[-1][0], row)
        else:
            found.append((row, row))
    return found


def corrupt(what: str) -> StoreCorrupt:
    """The error for a damaged store, with what was found."""
    return StoreCorrupt(
        f"The store is damaged: {what}.",
        remedy="Restore a backup, or run `agentmem doctor` to see all of it.",
    )


Lock = bool | Literal["skip"]


class SeenBy(NamedTuple):
    """The owners of some visibilities that a reader may see."""

    reader: Scope
    visibilities: tuple[str, ...] = ALL_VISIBILITIES


def seen_condition(
    scope: Scope, visibilities: Collection[str] = ALL_VISIBILITIES
) -> tuple[str, dict[str, Any]]:
    """SQL for "a reader may see memories of this owner `o`": `base.types.visible` (P24)."""
    user, project, agent, run = scope_values(scope)

    def is_(column: str, value: str | None) -> str:
        return f"o.{column} IS NULL" if value is None else f"o.{column} = :of_{column}"

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


class RowQuery(NamedTuple):
    """Which rows are meant, in which order and how many."""

    match: Match
    where: str = ""
    values: Match = ANY
    rest: str = ""

    @property
    def told(self) -> str:
        """`match` and `where` as one condition."""
        parts = [_compared(column, value) for column, value in self.match.items()]
        return " AND ".join([*parts, *([f"({self.where})"] if self.where else [])])

    @property
    def given(self) -> dict[str, Any]:
        """What the condition asks for, by name."""
        return {**self.match, **self.values}


class TableReader(ABC):
    """One state of a store."""

    blob: str
    """What SQL calls bytes here."""
    mentions: str
    """SQL for "this trace mentions that": `:mention`, and as JSON `:written`."""
    age: str
    """SQL that embedders are ordered by, the oldest first."""
    current: Mapping[str, str]
    """SQL for "the memory `m` is not deleted", or superseded, or forgotten."""
    in_metadata: str
    """SQL for "the metadata of `m` hold this text", whose name is put in."""
    most_values: int
    """So many values one statement takes."""

    def find(
        self,
        table: Table,
        match: Match = ANY,
        where: str = "",
        /,
        *,
        order: str = "",
        limit: int | None = None,
        lock: Lock = False,
        last: bool = False,
        **values: Any,
    ) -> list[Row]:
        """The rows that meet `match` and `where`, all columns of each.

        With `lock` nobody else changes them until the transaction ends; "skip" leaves out what
        others have locked. After what is asked with `last` nothing more is asked.
        """
        return self._find(table, RowQuery(match, where, values, _ordered(order, limit)), lock, last)

    def ask(
        self,
        columns: str,
        table: Table,
        match: Match = ANY,
        where: str = "",
        /,
        *,
        group: str = "",
        order: str = "",
        limit: int | None = None,
        **values: Any,
    ) -> list[Row]:
        """The same of chosen columns, or of what is counted over groups of rows."""
        rest = (f" GROUP BY {group}" if group else "") + _ordered(order, limit)
        return self._ask(columns, table, RowQuery(match, where, values, rest))

    @staticmethod
    def looked_up(column: str, wanted: Sequence[str]) -> tuple[str, Sequence[Any]]:
        """By which column of memories, and what in it, these texts are found."""
        return column, wanted

    def by_ids(
        self, ids: Sequence[str], /, *, lock: bool = False, last: bool = False
    ) -> dict[str, Found]:
        """What these ids stand for, whoever owns it; ids nobody has are left out."""
        wanted = list(dict.fromkeys(ids))
        found: dict[str, Found] = {}
        for start in range(0, len(wanted), self.most_values):
            column, keys = self.looked_up("id", wanted[start : start + self.most_values])
            asked = RowQuery(ANY, f"m.{column} IN :ids", {"ids": keys}, _ordered("m.row"))
            alone = last and len(wanted) <= self.most_values
            found |= {one.memory.id: one for one in self._memories(asked, lock, alone)}
        if not found.keys() <= set(wanted):
            raise corrupt("the index of ids points to another memory")
        return found

    def by_rows(
        self,
        rows: Collection[int],
        /,
        *,
        reader: Scope | None = None,
        lock: bool = False,
        last: bool = False,
    ) -> dict[int, Found]:
        """What stands in these rows, whoever owns it, or what `reader` may see of it."""
        if not rows:
            return {}
        wanted = {"rows": [int(row) for row in rows]}
        asked = RowQuery(ANY, "m.row IN :rows", wanted, _ordered("m.row"))
        found = self._memories(asked, lock, last)
        return {one.row: one for one in found if reader is None or visible(one.memory, reader)}

    def find_where(self, where: str, /, *, lock: bool = False, **values: Any) -> list[Found]:
        """The memories `m` that meet a condition, by row."""
        return self._memories(RowQuery(ANY, where, values, _ordered("m.row")), lock)

    def select(
        self,
        selection: Selection,
        /,
        *,
        order: str = "m.row",
        limit: int | None = None,
        lock: bool = False,
        last: bool = False,
    ) -> list[Found]:
        """The memories `base.filters.selected` would choose, found inside SQL (P24).

        What SQL cannot say exactly as Python does is narrowed there and decided here.
        """
        asked = Conditions(selection, type(self))
        where = asked.sql
        if asked.exact and limit is not None:  # nothing else is read of rows that are not chosen
            where = (
                f"m.row IN (SELECT m.row FROM memories AS m WHERE [m] AND {where}"  # noqa: S608 # our own names
                f"{_ordered(order, limit)})"
            )
        found = self._memories(RowQuery(ANY, where, asked.values, _ordered(order)), lock, last)
        if not asked.exact:
            found = [one for one in found if matches(selection.where, one.memory)]
        return found if limit is None else found[:limit]

    def select_rows(self, selection: Selection, /, *, last: bool = False) -> list[int]:
        """The rows of a selection, ascending."""
        asked = Conditions(selection, type(self))
        query = RowQuery(ANY, asked.sql, asked.values, _ordered("m.row"))
        if asked.exact:
            return [row for (row,) in self._of_memories("m.row", query, last=last)]
        fields = {part.field for part in conditions(selection.where)}
        if "text" in fields:  # of a cold memory it stands somewhere else
            return [one.row for one in self.select(selection, last=last)]
        columns = sorted({"m.row", *(_COLUMN_OF.get(name, "m.metadata") for name in fields)})
        found = self._of_memories(", ".join(columns), query, joined=True, last=last)
        try:
            rows = (dict(zip(columns, row, strict=True)) for row in found)
            return [row["m.row"] for row in rows if holds(selection.where, partial(_field, row))]
        except ValueError as error:
            raise corrupt(f"a row cannot be read ({error})") from error

    def count(self, selection: Selection, /, *, last: bool = False) -> int:
        """How many memories a selection chooses."""
        asked = Conditions(selection, type(self))
        if not asked.exact:
            return len(self.select_rows(selection, last=last))
        query = RowQuery(ANY, asked.sql, asked.values)
        ((found,),) = self._of_memories("count(*)", query, last=last)
        return int(found)

    @abstractmethod
    def _find(self, table: Table, asked: RowQuery, lock: Lock, last: bool, /) -> list[Row]: ...
    @abstractmethod
    def _ask(self, columns: str, table: Table, asked: RowQuery, /) -> list[Row]: ...
    @abstractmethod
    def _memories(
        self, asked: RowQuery, lock: bool = False, last: bool = False, /
    ) -> list[Found]: ...
    @abstractmethod
    def _of_memories(
        self, columns: str, asked: RowQuery, /, *, joined: bool = False, last: bool = False
    ) -> list[Row]:
        """Columns of memories `m`; `joined` with their owner `o` and their strand `s`."""

    @abstractmethod
    def owners(self, numbers: Collection[int], /) -> Mapping[int, Owner]:
        """Whom these numbers stand for."""

    @abstractmethod
    def find_owner(self, owner: Owner, /) -> int | None:
        """The number of this owner, if it has one."""

    @abstractmethod
    def last_seq(self) -> int:
        """The number of the last change in this state."""

    # What is moved to another kind of store

    @abstractmethod
    def kept_memories(self, after: int, limit: int, /) -> list[Row]:
        """Rows of the table of memories, each with what indexes need of it."""

    @abstractmethod
    def kept_vectors(self, embedder: int, dimensions: int, after: int, limit: int, /) -> list[Row]:
        """Rows of one embedder, each with its vector in as few bytes as every store can give."""


def _ordered(order: str, limit: int | None = None) -> str:
    ordered = f" ORDER BY {order}" if order else ""
    return ordered if limit is None else f"{ordered} LIMIT {min(int(limit), MOST_ROWS)}"


_COLUMN_OF = {
    **{name: f"m.{name}" for name in MEMORY_FIELDS},
    **{name: f"o.{name}" for name in ("visibility", *SCOPE_FIELDS)},
    "index": "m.index_text",
    "position": "m.place",
    "source_url": "s.url",
    "session": "s.session",
}


def _field(values: Mapping[str, Any], name: str) -> Any:
    """A field of the memory that has these columns, as Python compares it."""
    column = _COLUMN_OF.get(name)
    if column is None:
        written = values["m.metadata"]
        return MISSING if written == "{}" else metadata_field(json.loads(written), name)
    value = values[column]
    if value is None:
        return "" if column.startswith("s.") else MISSING  # a row of no strand has neither
    if name in INSTANT_FIELDS:
        return from_microseconds(value)
    if name == "heading_path":
        return tuple(json.loads(value))
    return MISSING if name == "position" and value == NO_POSITION else value


class TableWriter(TableReader):
    """A transaction that writes; one that changed nothing leaves no trace."""

    @abstractmethod
    def add(self, table: Table, /, **values: Any) -> int | None:
        """The key of a new row; None when one with the same unique columns is there."""

    @abstractmethod
    def add_all(self, table: Table, rows: Sequence[Mapping[str, Any]], /) -> None:
        """Add rows that nobody else has added."""

    @abstractmethod
    def put(self, table: Table, /, **values: Any) -> None:
        """Add a row, or write over the one that has the same unique columns."""

    @abstractmethod
    def change(self, table: Table, row: Row, /, **values: Any) -> object:
        """Write `values` over those of a row that was found."""

    @abstractmethod
    def remove(self, table: Table, match: Match, where: str = "", /, **values: Any) -> int:
        """Remove rows for good; gives how many there were."""

    @abstractmethod
    def log(self, operation: Operation, rows: Collection[int], /) -> None:
        """Tell indexes that `rows` changed."""

    @abstractmethod
    def seq(self) -> int:
        """The number of the last change, those of this transaction included."""

    @abstractmethod
    def hold(self, what: str, /) -> None:
        """Wait for others who hold the same, and keep them waiting until the end."""

    @abstractmethod
    def owner_number(self, owner: Owner, /) -> int:
        """The number of this owner, new if it has none yet."""

    @abstractmethod
    def strand_number(self, strand: Strand, /) -> int:
        """The number of this strand, new if it has none yet."""

    # Memories, with their words, vectors and counts

    @abstractmethod
    def add_memories(self, entries: Sequence[Entry], /, *, last: bool = False) -> tuple[int, ...]:
        """Store checked entries under new rows; with `last` nothing more is done."""

    def same_content(self, entries: Sequence[Entry], /) -> list[Memory]:
        """What the owners of `entries` have with the content of one of them, not deleted.

        Who writes the same content at the same moment waits until this transaction ends.
        """
        memories = [entry.memory for entry in entries]
        where = f"m.content_hash IN :hashes AND m.owner IN :owners AND {self.current['deleted']}"
        if all(memory.kind != "page" for memory in memories):
            where += " AND m.kind <> 'page'"  # so that the index, which leaves them out, will do
        owners = self.hold_contents(memories)
        hashes = list({memory.content_hash for memory in memories})
        found: list[Found] = []
        for start in range(0, len(hashes), self.most_values):
            part = hashes[start : start + self.most_values]
            found += self.find_where(where, hashes=part, owners=owners)
        return [one.memory for one in found]

    @abstractmethod
    def hold_contents(self, memories: Sequence[Memory], /) -> list[int]:
        """Wait for others who write the same contents, as `hold` does; gives the owners."""

    def rewrite(
        self, old: Found, memory: Memory, /, *, entry: Entry | None = None, relink: bool = True
    ) -> None:
        """Store `memory` in the place of `old`, with an entry its terms and vectors too.

        When the text changes, vectors that are not given anew are removed. With `relink`, the
        rows that follow its old and new place are logged.
        """
        owner, strand = old.owner, old.strand
        if in_strand(memory) != in_strand(old.memory):
            ((owner, strand),) = self.numbers_of([memory])
        columns = (old.row, memory.id, owner, strand, *memory_values(memory))
        places = {old.place, place_in(columns)}
        hidden = (memory.deleted_at is None) != (old.memory.deleted_at is None)
        after = self.followers(places) if relink and (hidden or len(places) > 1) else set()
        self._rewrite(old, columns, memory, entry)
        if memory.usage != old.memory.usage:
            self.set_usage(old.row, memory.usage)
        self.log("update", after - {old.row})

    @abstractmethod
    def _rewrite(self, old: Found, columns: Row, memory: Memory, entry: Entry | None, /) -> None:
        """Write the columns of a memory over those of `old`, and what else is kept of it."""

    def numbers_of(self, memories: Sequence[Memory], /) -> list[tuple[int, int | None]]:
        """The owner and the strand of each of these memories, new where there are none yet."""
        known: dict[tuple[Owner, str, str], tuple[int, int | None]] = {}
        wanted = [in_strand(memory) for memory in memories]
        for one in dict.fromkeys(wanted):
            whose, url, session = one
            owner = self.owner_number(whose)
            strand = self.strand_number((owner, url, session)) if url or session else None
            known[one] = owner, strand
        return [known[one] for one in wanted]

    @abstractmethod
    def followers(self, places: Collection[Place], /) -> set[int]:
        """The rows that come right after these places, among those not deleted."""

    @abstractmethod
    def set_usage(self, row: int, usage: Usage, /) -> None:
        """Write the counts of a row over those that stand there."""

    @abstractmethod
    def count_usage(
        self, found: Sequence[Found], /, *, retrieved: int, cited: int, ignored: int, at: int
    ) -> None:
        """Add to the counts; the moment never goes back."""

    @abstractmethod
    def remove_memories(self, found: Sequence[Found], /) -> int:
        """Take memories out with all that is kept of them alone; gives how many vectors went."""

    @abstractmethod
    def after_erasing(self, owners: Collection[int], /) -> None:
        """Do what else a back end has to when rows of `owners` were taken out."""

    @abstractmethod
    def add_vectors(
        self, embedder: EmbedderId, packed: Mapping[int, bytes], /, *, seq: int | None
    ) -> Collection[int]:
        """Store vectors of rows that were there, not updated since `seq`, and had none; which."""

    # What was moved here from another kind of store, under the numbers it had there

    @abstractmethod
    def fill(self, table: Table, rows: Sequence[Row], /) -> None:
        """Add rows as they are; numbers given out from here on are above theirs."""

    @abstractmethod
    def fill_memories(self, rows: Sequence[Row], /) -> None:
        """The same of memories, as `kept_memories` gives them."""

    @abstractmethod
    def fill_vectors(self, rows: Iterable[tuple[EmbedderId, int, bytes]], /) -> None:
        """Add vectors of rows that are there, as `kept_vectors` gives them."""

    @abstractmethod
    def end_filling(self, seq: int, /) -> None:
        """Go on counting changes from `seq`, and do what was left for the end."""


R_co = TypeVar("R_co", bound=TableReader, covariant=True)


class Tables(Protocol[R_co]):
    """Where transactions are made."""

    @property
    def name(self) -> str:
        """Where the store is, for people."""

    @property
    def in_memory(self) -> bool:
        """Whether what is kept ends with this process."""

    def read(self, call: Callable[[R_co], T], /) -> T:
        """What `call` gives of one state of the store."""

    def reading(self) -> AbstractContextManager[R_co]:
        """One state of the store, for as long as it takes; nothing is tried again."""

    def write(self, call: Callable[[TableWriter], T], /) -> T:
        """What `call` gives, all of it written or nothing; it may be called more than once."""

    def exists(self) -> bool:
        """Whether there is something to read yet."""

    def has_connections(self) -> bool:
        """Whether there is something to close."""

    def close(self) -> None:
        """Close every connection; a second time does nothing."""

    def first_secret(self, there: str | None, /) -> str:
        """The secret of a store, `there` if it has one."""


def _compared(column: str, value: Any) -> str:
    if value is None:
        return f"t.{column} IS NULL"
    return f"t.{column} IN :{column}" if are_several(value) else f"t.{column} = :{column}"


def are_several(value: Any) -> bool:
    """Whether `IN` is meant: several values, or the owners that a reader may see."""
    if isinstance(value, str | bytes):
        return False
    return isinstance(value, Scope | Collection)


# ----------------------------------------------------------------------------
# What a selection asks of memories, as SQL that every store reads.


_PLAIN = frozenset({"kind", "origin", "speaker", "title", "content_hash", "id"})
"""Text columns that are never empty in the sense of "missing", and compare in SQL as in Python."""


class Conditions:
    """A condition on memories `m`; `exact` unless a filter is left for Python to decide."""

    def __init__(self, selection: Selection, of: type[TableReader]) -> None:
        self._of = of
        self.exact = selection.where == ALWAYS
        self.values: dict[str, Any] = {
            "owners": SeenBy(selection.reader, tuple(selection.visibilities))
        }
        # A hash is rarer than any owner: the plus keeps SQLite from an owner's whole index.
        by_hash = getattr(selection.where, "field", "") == "content_hash"
        owned = "+m.owner IN :owners" if by_hash else "m.owner IN :owners"
        clauses = [owned, *self._strands(selection)]
        if selection.kinds is not None:
            clauses.append("m.kind IN :kinds")
            self.values["kinds"] = selection.kinds
            if "page" not in selection.kinds:
                clauses.append("m.kind <> 'page'")  # lets the index of hashes be used
        clauses += self._moments(selection)
        clauses += self._necessary(selection.where)
        self.sql = " AND ".join(clauses)

    def _strands(self, selection: Selection) -> list[str]:
        named = {"url": selection.source_url, "session": selection.session}
        wanted = {name: value for name, value in named.items() if value is not None}
        if not wanted:
            return []
        self.values |= wanted
        asked = " AND ".join(f"s.{name} = :{name}" for name in wanted)
        inside = (
            f"m.strand IN (SELECT s.strand FROM strands AS s WHERE [s] AND {asked} "  # noqa: S608 # our own names
            "AND s.owner IN :owners)"
        )
        # A row of no strand has neither url nor session.
        return [inside if any(wanted.values()) else f"(m.strand IS NULL OR {inside})"]

    def _moments(self, selection: Selection) -> list[str]:
        clauses = []
        current = self._of.current
        for name, comparison in (("since", ">="), ("until", "<")):
            moment = getattr(selection, name)
            if moment is not None:
                clauses.append(f"m.created_at {comparison} :{name}")
                self.values[name] = to_microseconds(moment, name)
        if not selection.deleted:
            clauses.append(current["deleted"])
        if not selection.forgotten:
            spared = f"NOT {current['superseded']} OR " if selection.as_of is not None else ""
            clauses.append(f"({spared}{current['forgotten']})")
        if selection.as_of is None:
            if not selection.superseded:
                clauses.append(current["superseded"])
            return clauses
        self.values["as_of"] = to_microseconds(selection.as_of, "as_of")
        clauses.append(
            "m.created_at <= :as_of AND (m.valid_from IS NULL OR m.valid_from <= :as_of)"
        )
        clauses.append("(m.valid_to IS NULL OR :as_of < m.valid_to)")
        if not selection.superseded:
            clauses.append(f"({current['superseded']} OR m.valid_to IS NOT NULL)")
        return clauses

    def _necessary(self, where: Filter) -> list[str]:
        """SQL that everything matching `where` meets, so that less has to be looked at."""
        clauses = []
        for number, part in enumerate(where.parts if isinstance(where, And) else (where,)):
            if not isinstance(part, Compare):
                continue
            name, wanted = f"w{number}", [part.value] if part.operator == "eq" else part.value
            if part.operator not in ("eq", "in") or len(wanted) > self._of.most_values:
                continue
            if not all(isinstance(one, str) for one in wanted):
                continue
            if part.field in _PLAIN:
                column, found = self._of.looked_up(part.field, wanted)
                one = part.operator == "eq"
                clauses.append(f"m.{column} {'=' if one else 'IN'} :{name}")
                self.values[name] = found[0] if one else found
            elif part.operator == "eq" and part.field not in MEMORY_FIELDS:
                clauses.append(self._of.in_metadata.format(name))
                self.values[name] = f":{json.dumps(part.value, ensure_ascii=False)}"
        return clauses
