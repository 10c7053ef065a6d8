"""Put two memories together: another store's into this one, or one user's into another's.

Nothing is lost and nothing of the other side is changed. What both have is
kept once; an id that means two things gets a new one; a page both have with
other content stays as it is here, and the other version is kept as deleted;
facts that disagree become contradictions, for somebody to resolve.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from agentmem.base.errors import ChangedMeanwhile, InvalidInput
from agentmem.base.filters import Selection
from agentmem.base.telemetry import span
from agentmem.base.types import Memory, Scope, may_state
from agentmem.living.plans import OpenContradiction, Supersede, is_active
from agentmem.living.settle import AT_ONCE, Settler
from agentmem.search.intake import prepare
from agentmem.stores.base import Store
from agentmem.stores.rules import Family, Relation, Revision, what_is_same
from agentmem.stores.side import StoredLinks
from agentmem.stores.values import ERASED, Entry, Link, Source

if TYPE_CHECKING:
    from agentmem.search.parts import Parts


MERGE = "merge"
BATCH = 500
ConflictKind = Literal["id", "page", "supersession", "contradiction"]
Owner = Callable[[Scope], Scope]
_FAMILIES: tuple[tuple[Family, Callable[[Store], StoredLinks[Any, Any]]], ...] = (
    ("link", lambda store: store.links),
    ("contradiction", lambda store: store.contradictions),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeConflict:
    """Where the two sides disagree, and what was done about it."""

    kind: ConflictKind
    about: str
    done: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeReport:
    """What a merge did: `same` were there already, `renamed` got another id."""

    added: int = 0
    same: int = 0
    renamed: int = 0
    sources: int = 0
    links: int = 0
    contradictions: int = 0
    conflicts: tuple[MergeConflict, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The report as JSON values."""
        counts = {n: getattr(self, n) for n in self.__dataclass_fields__ if n != "conflicts"}
        listed = [{"kind": c.kind, "about": c.about, "done": c.done} for c in self.conflicts]
        return {**counts, "conflicts": listed}


class StoreMerger:
    """Merges into one memory."""

    def __init__(self, memory: Parts) -> None:
        self._memory = memory
        self._store = memory.store
        self._conflicts: list[MergeConflict] = []
        self._ids: dict[str, str] = {}
        """What an id of the other side is called here: another id, or that of the same memory."""
        self._there: set[str] = set()
        """Ids of the other side whose memory was here already."""
        self._same = self._renamed = 0

    def merge_store(self, other: Store) -> MergeReport:
        """Take in everything of another store, each memory under its owner."""
        rows = [int(row) for row in other.feed.index_rows().rows]
        return self._merge(other, rows, owner=lambda scope: scope, sources=other.upkeep.sources())

    def merge_user(self, user_id: str | None, into: str | None) -> MergeReport:
        """Give a copy of one user's private memories to another user of this store."""
        if user_id == into:
            raise InvalidInput("into", into, "is the same user", remedy="Name two users.")
        everything = Selection(
            reader=Scope(user_id=user_id),
            visibilities=("private",),
            superseded=True,
            forgotten=True,
        )
        rows = [int(row) for row in self._store.select_rows(everything)]
        return self._merge(
            self._store, rows, owner=lambda scope: replace(scope, user_id=into), sources=()
        )

    def _merge(
        self, other: Store, rows: Sequence[int], *, owner: Owner, sources: Iterable[Source]
    ) -> MergeReport:
        known = self._known_contents(other, rows, owner)
        for part in _batches(rows):
            self._name(other.feed.texts(part).values(), known, owner)
        pages = self._disputed_pages(sources, owner)
        kept = [s for s in pages if pages[s] is None]
        new: list[Memory] = []
        edges: list[tuple[Memory, Memory]] = []
        with span("create_memory", store_id=self._memory.telemetry_id, step=MERGE) as told:
            entries = self._entries(other, rows, owner, pages, new, edges)
            added = self._store.load(entries, sources=kept)
            told.found(added)
        self._supersede(edges)
        links, contradictions = self._relate(other, rows, owner)
        contradictions += self._judge(new)
        return MergeReport(
            added=added,
            same=self._same,
            renamed=self._renamed,
            sources=len(kept),
            links=links,
            contradictions=contradictions,
            conflicts=tuple(self._conflicts),
        )

    # -- which memories are the same ------------------------------------------------------

    def _known_contents(
        self, other: Store, rows: Sequence[int], owner: Owner
    ) -> dict[tuple[Any, ...], str]:
        """What the owners concerned have here, by content."""
        owners: set[tuple[Scope, str]] = set()
        for part in _batches(rows):
            owners |= {(owner(m.scope), m.visibility) for m in other.feed.texts(part).values()}
        known: dict[tuple[Any, ...], str] = {}
        for scope in {scope for scope, _ in owners}:
            everything = Selection(reader=scope, superseded=True, forgotten=True, deleted=True)
            for one in self._store.scan(everything):
                if (one.scope, one.visibility) in owners:
                    content = _content(one)
                    if one.deleted_at is None or content not in known:
                        known[content] = one.id
        return known

    def _name(
        self, memories: Iterable[Memory], known: Mapping[tuple[Any, ...], str], owner: Owner
    ) -> None:
        """Decide for each what it is called here."""
        found = list(memories)
        taken = self._store.feed.taken([one.id for one in found])
        for one in found:
            there = known.get(_content(replace(one, scope=owner(one.scope))))
            if there is not None:
                self._ids[one.id] = there
                self._there.add(one.id)
                self._same += 1
            elif one.id in taken:
                self._ids[one.id] = self._memory.ids.new()
                self._renamed += 1
                if owner(one.scope) == one.scope:
                    self._note("id", one.id, f"the other memory became {self._ids[one.id]}")

    def _disputed_pages(
        self, sources: Iterable[Source], owner: Owner
    ) -> dict[Source, Source | None]:
        """Each source of theirs, and ours of the same url if it has other content."""
        ours = {(s.visibility, s.scope, s.url): s for s in self._store.upkeep.sources()}
        disputed: dict[Source, Source | None] = {}
        for source in sources:
            mine = replace(source, scope=owner(source.scope))
            here = ours.get((mine.visibility, mine.scope, mine.url))
            other = here is not None and here.content_hash != mine.content_hash
            disputed[mine] = here if other else None
            if other:
                self._note("page", mine.url, "ours stays; the other version is kept as deleted")
        return disputed

    # -- writing ----------------------------------------------------------------------------

    def _entries(  # noqa: PLR0917 - one step of a merge, with its ingredients
        self,
        other: Store,
        rows: Sequence[int],
        owner: Owner,
        pages: Mapping[Source, Source | None],
        new: list[Memory],
        edges: list[tuple[Memory, Memory]],
    ) -> Iterator[list[Entry]]:
        disputed = {(s.visibility, s.scope, s.url) for s, here in pages.items() if here is not None}
        embedders = other.feed.embedders()
        for part in _batches(rows):
            found = other.feed.texts(part)
            vectors = {e: _vectors(other, e, part) for e in embedders}
            entries = []
            for row in part:
                one = found.get(row)
                if one is None or one.id in self._there:
                    continue
                made = self._owned(one, owner, edges)
                if (made.visibility, made.scope, made.source_url) in disputed:
                    made = replace(made, deleted_at=made.deleted_at or self._memory.clock.now())
                versions = tuple(
                    replace(v, memory=self._owned(v.memory, owner, []))
                    for v in other.history(one.scope, one.id)
                )
                entry = prepare(made)
                kept = tuple((e, held[row]) for e, held in vectors.items() if row in held)
                entries.append(replace(entry, versions=versions, vectors=kept or entry.vectors))
                new.append(made)
            yield entries

    def _owned(self, one: Memory, owner: Owner, edges: list[tuple[Memory, Memory]]) -> Memory:
        """`one` as it is called here; what ties it to memories that were here waits in `edges`."""
        free = replace(
            one,
            id=self._ids.get(one.id, one.id),
            scope=owner(one.scope),
            supersedes=self._new_name(one.supersedes),
            superseded_by=self._new_name(one.superseded_by),
        )
        whole = replace(
            free,
            supersedes=self._renamed_id(one.supersedes),
            superseded_by=self._renamed_id(one.superseded_by),
        )
        if whole != free:
            edges.append((free, whole))
        return free

    def _renamed_id(self, memory_id: str | None) -> str | None:
        return None if memory_id is None else self._ids.get(memory_id, memory_id)

    def _new_name(self, memory_id: str | None) -> str | None:
        if memory_id == ERASED:
            return memory_id
        return None if memory_id in self._there else self._renamed_id(memory_id)

    def _supersede(self, edges: Sequence[tuple[Memory, Memory]]) -> None:
        """Tie what is new to what was here, as far as that makes no circle."""
        for free, whole in edges:
            before, after = [free], [whole]
            if whole.supersedes is not None and whole.supersedes != ERASED:
                for old in self._store.get_many(free.scope, [whole.supersedes]):
                    if old.superseded_by is None:
                        until = max(
                            whole.valid_from or whole.created_at, old.valid_from or old.created_at
                        )
                        before.append(old)
                        after.append(replace(old, superseded_by=whole.id, valid_to=until))
            revision = Revision(
                id=self._memory.ids.new(), kind=MERGE, before=tuple(before), after=tuple(after)
            )
            try:
                self._store.journal.apply(free.scope, revision, at=self._memory.clock.now())
            except (InvalidInput, ChangedMeanwhile):
                self._note("supersession", free.id, "it would go round in a circle; left as is")

    def _relate(self, other: Store, rows: Sequence[int], owner: Owner) -> tuple[int, int]:
        """Copy links and contradictions, each reader's in one step; gives how many of each."""
        counts: dict[str, int] = {"link": 0, "contradiction": 0}
        scopes: dict[Scope, None] = {}
        wanted: set[str] = set()
        for part in _batches(rows):
            found = other.feed.texts(part).values()
            scopes |= dict.fromkeys(one.scope for one in found)
            wanted |= {one.id for one in found}
        for scope in scopes:
            new = [
                Relation(family=family, link=self._linked(link))
                for family, known in _FAMILIES
                for link in known(other).all(scope)
                if {link.first_id, link.second_id} <= wanted
            ]
            for relation in new:
                counts[relation.family] += not self._is_linked(owner(scope), relation)
            if new:
                revision = Revision(id=self._memory.ids.new(), kind=MERGE, relations=tuple(new))
                self._store.journal.apply(owner(scope), revision, at=self._memory.clock.now())
        return counts["link"], counts["contradiction"]

    def _is_linked(self, scope: Scope, relation: Relation) -> bool:
        known = dict(_FAMILIES)[relation.family](self._store)
        return any(
            (link.second_id, link.relation) == (relation.link.second_id, relation.link.relation)
            for link in known.of(scope, relation.link.first_id)
            if link.first_id == relation.link.first_id
        )

    def _linked(self, link: Link) -> Link:
        return replace(
            link,
            first_id=self._ids.get(link.first_id, link.first_id),
            second_id=self._ids.get(link.second_id, link.second_id),
        )

    def _judge(self, new: Sequence[Memory]) -> int:
        """Look for contradictions of what is new; of very much, consolidation looks at the rest."""
        settler = Settler(self._memory)
        by_scope: dict[Scope, list[Memory]] = {}
        for one in new:
            if may_state(one) and is_active(one):
                by_scope.setdefault(one.scope, []).append(one)
        count = 0
        for scope, told_by in by_scope.items():
            plan = settler.judge(scope, told_by[-AT_ONCE:])
            count += plan.counts()["contradictions"]
            for operation in plan.operations:
                if isinstance(operation, OpenContradiction):
                    said = operation.verdict
                    values = f"{said.first_value} / {said.second_value}"
                    done = f"contradicts {operation.second}, open ({values})"
                    self._note("contradiction", operation.first, done)
                elif isinstance(operation, Supersede):
                    self._note("contradiction", operation.old, f"superseded by {operation.new}")
        return count

    def _note(self, kind: ConflictKind, about: str, done: str) -> None:
        self._conflicts.append(MergeConflict(kind=kind, about=about, done=done))


def _content(one: Memory) -> tuple[Any, ...]:
    """What makes two memories of one owner the same."""
    said = what_is_same(one, "message" if one.kind == "message" else "text")
    return one.visibility, one.scope, one.source_url, one.position, one.text, said


def _vectors(store: Store, embedder: Any, rows: Sequence[int]) -> dict[int, bytes]:
    found, matrix = store.feed.vectors(embedder, rows=rows)
    return {
        int(row): vector.astype("<f4").tobytes() for row, vector in zip(found, matrix, strict=True)
    }


def _batches(rows: Sequence[int]) -> Iterator[Sequence[int]]:
    for start in range(0, len(rows), BATCH):
        yield rows[start : start + BATCH]
