"""Owners, strands and embedders as numbers, so that a row names each in a few bytes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, TypeVar

from agentmem.protocols import EmbedderId
from agentmem.stores.sqlite.ledger import Row, corrupt
from agentmem.stores.sqlite.schema import EMBEDDERS, OWNERS, STRANDS, Table
from agentmem.stores.sqlite.transactions import Read, Write
from agentmem.types import Memory, Scope, Visibility

Owner = tuple[Visibility, Scope]
Strand = tuple[int, str, str]
"""Owner, url and session: rows of one strand follow each other by place."""
NO_STRAND: Strand = (0, "", "")

_VISIBLE = """
    WHERE visibility = 'system'
    OR (visibility = 'private' AND user_id IS ?1
        AND (?2 IS NULL OR project_id IS NULL OR project_id = ?2)
        AND (?3 IS NULL OR agent_id IS NULL OR agent_id = ?3)
        AND (?4 IS NULL OR run_id IS NULL OR run_id = ?4))
    OR (visibility = 'project' AND project_id IS ?2
        AND (?3 IS NULL OR agent_id IS NULL OR agent_id = ?3)
        AND (?4 IS NULL OR run_id IS NULL OR run_id = ?4))
"""
_SAME_OWNER = """
    WHERE visibility = ? AND user_id IS ? AND project_id IS ? AND agent_id IS ? AND run_id IS ?
"""
_T = TypeVar("_T")
KEPT_READERS = 256


def scope_values(scope: Scope) -> tuple[str | None, ...]:
    return scope.user_id, scope.project_id, scope.agent_id, scope.run_id


def visible_owners(read: Read, scope: Scope) -> list[int]:
    """The owners whose memories a reader may see: `core.scope.visible`, in SQL (P24)."""
    found = read.rows(OWNERS, _VISIBLE, scope_values(scope))
    return sorted(row[0] for row in found)


def owned_by(memory: Memory) -> Owner:
    return memory.visibility, memory.scope


def find_owner(read: Read, owner: Owner) -> int | None:
    visibility, scope = owner
    found = read.rows(OWNERS, _SAME_OWNER, (visibility, *scope_values(scope)))
    return found[0][0] if found else None


def intern_owner(write: Write, owner: Owner) -> int:
    """The number of this owner, new if it has none yet."""
    known = write.numbers(OWNERS)
    if owner in known:
        return known[owner]
    found = find_owner(write, owner)
    if found is not None:
        known[owner] = found
        return found
    (key,) = write.take(OWNERS)
    visibility, scope = owner
    write.insert(OWNERS, [(key, visibility, *scope_values(scope))])
    return key


def intern_strands(
    write: Write, strands: Iterable[Strand], *, all_new: bool = False
) -> tuple[dict[Strand, int], set[int]]:
    """The numbers of these strands, and which of them are new; `all_new` if that is known."""
    numbers: dict[Strand, int] = {}
    new: list[Row] = []
    known = write.numbers(STRANDS)
    for strand in dict.fromkeys(strands):
        if strand in known:
            numbers[strand] = known[strand]
            continue
        owner, url, session = strand
        found = (
            []
            if all_new
            else write.rows(
                STRANDS, "WHERE url = ? AND session = ? AND owner = ?", (url, session, owner)
            )
        )
        if found:
            numbers[strand] = known[strand] = found[0][0]
        else:
            (numbers[strand],) = write.take(STRANDS)
            new.append((numbers[strand], *strand))
    if new:
        write.insert(STRANDS, new)
    return numbers, {row[0] for row in new}


class NameCache:
    """Owners and strands by number. They never change, so what was read once stays true."""

    def __init__(self, limit: int = 50_000) -> None:
        self._limit = limit
        self._owners: dict[int, Owner] = {}
        self._strands: dict[int, Strand] = {}
        self._visible: dict[Scope, tuple[tuple[int, ...], list[int]]] = {}

    def visible(self, scope: Scope, tally: tuple[int, ...]) -> list[int] | None:
        """Whom this reader may see, if it is known of the table with this tally."""
        kept = self._visible.get(scope)
        return kept[1] if kept is not None and kept[0] == tally else None

    def keep_visible(self, scope: Scope, tally: tuple[int, ...], owners: list[int]) -> list[int]:
        if len(self._visible) >= KEPT_READERS:
            self._visible = {}
        self._visible[scope] = (tally, owners)
        return owners

    def known_owner(self, number: int) -> Owner | None:
        """The owner with this number, if it was read before."""
        return self._owners.get(number)

    def known_strand(self, number: int | None) -> Strand | None:
        """The strand with this number, if it was read before; none is one too."""
        return NO_STRAND if number is None else self._strands.get(number)

    def owners(self, read: Read, numbers: Collection[int]) -> dict[int, Owner]:
        found, rows = _known(read, self._owners, OWNERS, numbers)
        for key, visibility, user, project, agent, run in rows:
            scope = Scope(user_id=user, project_id=project, agent_id=agent, run_id=run)
            found[key] = (visibility, scope)
        return self._keep(self._owners, found, numbers)

    def strands(self, read: Read, numbers: Collection[int]) -> dict[int, Strand]:
        found, rows = _known(read, self._strands, STRANDS, numbers)
        for key, owner, url, session in rows:
            found[key] = (owner, url, session)
        return self._keep(self._strands, found, numbers)

    def clear(self) -> None:
        """Forget everything, as after an erasure."""
        self._owners = {}
        self._strands = {}
        self._visible = {}

    def _keep(
        self, known: dict[int, _T], found: dict[int, _T], numbers: Collection[int]
    ) -> dict[int, _T]:
        if len(found) != len(set(numbers)):
            raise corrupt("an owner or source that a row belongs to is missing")
        if len(known) > self._limit:
            known.clear()
        known.update(found)
        return found


def _known(
    read: Read, known: dict[int, _T], table: Table, numbers: Collection[int]
) -> tuple[dict[int, _T], list[Row]]:
    """What is known of `numbers`, and the rows of those that are not."""
    found = {n: value for n in set(numbers) if (value := known.get(n)) is not None}
    wanted = [number for number in set(numbers) if number not in found]
    if not wanted:
        return found, []
    return found, read.rows(table, f"WHERE {table.key} IN {INTEGERS}", (integers(wanted),))


INTEGERS = "(SELECT value FROM json_each(?))"
"""SQL for "one of these", with `integers(...)` as its parameter."""
FEW = 32
"""So many numbers are sooner bound one by one than read from a list."""
_MARKS = tuple(f"({', '.join('?' * size)})" for size in range(FEW + 1))


def among(numbers: Sequence[int]) -> tuple[str, Sequence[Any]]:
    """SQL for "one of these", and its parameters."""
    if len(numbers) <= FEW:
        return _MARKS[len(numbers)], numbers
    return INTEGERS, (integers(numbers),)


def integers(numbers: Collection[int]) -> str:
    return f"[{','.join([str(int(number)) for number in numbers])}]"


def find_embedder(read: Read, embedder: EmbedderId) -> int | None:
    found = read.rows(
        EMBEDDERS,
        "WHERE name = ? AND version = ? AND dimensions = ?",
        (embedder.name, embedder.version, embedder.dimensions),
    )
    return found[0][0] if found else None


def intern_embedder(write: Write, embedder: EmbedderId) -> int:
    """The number of this vector space, new if it has none yet."""
    known = write.numbers(EMBEDDERS)
    if embedder in known:
        return known[embedder]
    found = find_embedder(write, embedder)
    if found is not None:
        known[embedder] = found
    else:
        (found,) = write.take(EMBEDDERS)
        write.insert(EMBEDDERS, [(found, embedder.name, embedder.version, embedder.dimensions)])
    return found


def all_embedders(read: Read) -> dict[int, EmbedderId]:
    return {
        key: EmbedderId(name=name, version=version, dimensions=dimensions)
        for key, name, version, dimensions in read.rows(EMBEDDERS, "ORDER BY embedder")
    }
