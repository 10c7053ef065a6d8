"""Put two memories together: another store's into this one, or one user's into another's.

Nothing is lost and nothing of the other side is changed. What both have is
kept once; an id that means two things gets a new one; a page both have with
other content stays as it is here, and the other version is kept as deleted;
facts that disagree become contradictions, for somebody to resolve.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from agentmem.base.errors import ChangedMeanwhile, InvalidInput
from agentmem.base.filters import Selection
from agentmem.base.telemetry import span
from agentmem.base.types import Memory, Scope, Visibility, may_state
from agentmem.living.plans import OpenContradiction, Supersede, is_active, start_of
from agentmem.living.settle import AT_ONCE, Settler
from agentmem.search.intake import prepare
from agentmem.stores.base import Store
from agentmem.stores.journal import Family, Relation, Revision
from agentmem.stores.side import StoredLinks
from agentmem.stores.values import ERASED, Entry, Link, Source
from agentmem.stores.writing import what_is_same

if TYPE_CHECKING:
    from agentmem.search.parts import Parts


T = TypeVar("T")
MERGE = "merge"
BATCH = 500
ConflictKind = Literal["id", "page", "supersession", "contradiction"]
Owner = Callable[[Scope], Scope]
_Page = tuple[Visibility, Scope, str]
_FAMILIES: tuple[tuple[Family, Callable[[Store], StoredLinks]], ...] = (
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
    """Merges into one memory, once."""

    def __init__(self, memory: Parts) -> None:
        self._memory = memory
        self._store = self._other = memory.store
        self._owner: Owner = lambda scope: scope
        self._theirs: dict[int, Memory] = {}
        """What is merged, by its row on the other side."""
        self._conflicts: list[MergeConflict] = []
        self._ids: dict[str, str] = {}
        """What an id of the other side is called here: another id, or that of the same memory."""
        self._there: set[str] = set()
        """Ids of the other side whose memory was here already."""
        self._edges: list[tuple[Memory, Memory]] = []
        """What is new as it is written first, and tied to what was here."""

    def merge_store(self, other: Store) -> MergeReport:
        """Take in everything of another store, each memory under its owner."""
        self._other = other
        rows = [int(row) for row in other.feed.index_rows().rows]
        return self._merge(rows, sources=other.upkeep.sources())

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
        self._owner = lambda scope: replace(scope, user_id=into)
        return self._merge([int(row) for row in self._store.select_rows(everything)], sources=())

    def _merge(self, rows: Sequence[int], *, sources: Iterable[Source]) -> MergeReport:
        for part in _batches(rows):
            self._theirs.update(self._other.feed.texts(part))
        self._name()
        kept, disputed = self._pages(sources)
        new: list[Memory] = []
        with span("create_memory", store_id=self._memory.telemetry_id, step=MERGE) as told:
            added = self._store.load(self._entries(disputed, new), sources=kept)
            told.found(added)
        self._supersede()
        links, contradictions = self._relate()
        return MergeReport(
            added=added,
            same=len(self._there),
            renamed=len(self._ids) - len(self._there),
            sources=len(kept),
            links=links,
            contradictions=contradictions + self._judge(new),
            conflicts=tuple(self._conflicts),
        )

    # -- which memories are the same ------------------------------------------------------

    def _known_contents(self) -> dict[tuple[Any, ...], str]:
        """What the owners concerned have here, by content."""
        owners = {(self._owner(one.scope), one.visibility) for one in self._theirs.values()}
        known: dict[tuple[Any, ...], str] = {}
        for scope in {scope for scope, _ in owners}:
            everything = Selection(reader=scope, superseded=True, forgotten=True, deleted=True)
            for one in self._store.scan(everything):
                if (one.scope, one.visibility) in owners:
                    content = _content(one)
                    if one.deleted_at is None or content not in known:
                        known[content] = one.id
        return known

    def _name(self) -> None:
        """Decide for each what it is called here."""
        known = self._known_contents()
        taken: set[str] = set()
        for part in _batches([one.id for one in self._theirs.values()]):
            taken |= {*self._store.feed.taken(part)}
        for one in self._theirs.values():
            scope = self._owner(one.scope)
            there = known.get(_content(replace(one, scope=scope)))
            if there is not None:
                self._ids[one.id] = there
                self._there.add(one.id)
            elif one.id in taken:
                self._ids[one.id] = self._memory.ids.new()
                if scope == one.scope:
                    self._note("id", one.id, f"the other memory became {self._ids[one.id]}")

    def _pages(self, sources: Iterable[Source]) -> tuple[list[Source], set[_Page]]:
        """The sources to take over, and the pages that have other content here."""
        ours = {_page(one): one.content_hash for one in self._store.upkeep.sources()}
        kept: list[Source] = []
        disputed: set[_Page] = set()
        for source in sources:
            mine = replace(source, scope=self._owner(source.scope))
            if ours.get(_page(mine), mine.content_hash) == mine.content_hash:
                kept.append(mine)
            else:
                disputed.add(_page(mine))
                self._note("page", mine.url, "ours stays; the other version is kept as deleted")
        return kept, disputed

    # -- writing ----------------------------------------------------------------------------

    def _entries(self, disputed: set[_Page], new: list[Memory]) -> Iterator[list[Entry]]:
        embedders = self._other.feed.embedders()
        for part in _batches([r for r, one in self._theirs.items() if one.id not in self._there]):
            vectors = {e: _vectors(self._other, e, part) for e in embedders}
            entries = []
            for row in part:
                one = self._theirs[row]
                made, whole = self._owned(one)
                if (made.visibility, made.scope, made.source_url) in disputed:
                    gone_at = made.deleted_at or self._memory.clock.now()
                    made, whole = (replace(m, deleted_at=gone_at) for m in (made, whole))
                if whole != made:
                    self._edges.append((made, whole))
                versions = tuple(
                    replace(v, memory=self._owned(v.memory)[0])
                    for v in self._other.history(one.scope, one.id)
                )
                entry = prepare(made)
                kept = tuple((e, held[row]) for e, held in vectors.items() if row in held)
                entries.append(replace(entry, versions=versions, vectors=kept or entry.vectors))
                new.append(made)
            yield entries

    def _owned(self, one: Memory) -> tuple[Memory, Memory]:
        """`one` as it is called here: without what ties it to memories that were here, and with."""
        whole = replace(
            one,
            id=self._called(one.id),
            scope=self._owner(one.scope),
            supersedes=one.supersedes and self._called(one.supersedes),
            superseded_by=one.superseded_by and self._called(one.superseded_by),
        )
        free = replace(
            whole,
            supersedes=None if one.supersedes in self._there else whole.supersedes,
            superseded_by=None if one.superseded_by in self._there else whole.superseded_by,
        )
        return free, whole

    def _called(self, memory_id: str) -> str:
        return self._ids.get(memory_id, memory_id)

    def _supersede(self) -> None:
        """Tie what is new to what was here, as far as that makes no circle."""
        for free, whole in self._edges:
            before, after = [free], [whole]
            if whole.supersedes is not None and whole.supersedes != ERASED:
                for old in self._store.get_many(free.scope, [whole.supersedes]):
                    if old.superseded_by is None:
                        until = max(start_of(whole), start_of(old))
                        before.append(old)
                        after.append(replace(old, superseded_by=whole.id, valid_to=until))
            revision = Revision(
                id=self._memory.ids.new(), kind=MERGE, before=tuple(before), after=tuple(after)
            )
            try:
                self._store.journal.apply(free.scope, revision, at=self._memory.clock.now())
            except (InvalidInput, ChangedMeanwhile):
                self._note("supersession", free.id, "it would go round in a circle; left as is")

    def _relate(self) -> tuple[int, int]:
        """Copy links and contradictions, each reader's in one step; gives how many of each."""
        counts: Counter[str] = Counter()
        wanted = {one.id for one in self._theirs.values()}
        for scope in dict.fromkeys(one.scope for one in self._theirs.values()):
            owner, now = self._owner(scope), self._memory.clock.now()
            new: list[Relation] = []
            for family, known in _FAMILIES:
                there = set(map(_ends, known(self._store).all(owner)))
                for link in known(self._other).all(scope):
                    if {link.first_id, link.second_id} <= wanted:
                        first, second = self._called(link.first_id), self._called(link.second_id)
                        copy = replace(link, first_id=first, second_id=second)
                        new.append(Relation(family=family, link=copy))
                        counts[family] += _ends(copy) not in there
            if new:
                revision = Revision(id=self._memory.ids.new(), kind=MERGE, relations=tuple(new))
                self._store.journal.apply(owner, revision, at=now)
        return counts["link"], counts["contradiction"]

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


def _ends(link: Link) -> tuple[str, str, str]:
    return link.first_id, link.second_id, link.relation


def _page(source: Source) -> _Page:
    return source.visibility, source.scope, source.url


def _vectors(store: Store, embedder: Any, rows: Sequence[int]) -> dict[int, bytes]:
    found, matrix = store.feed.vectors(embedder, rows=rows)
    return {
        int(row): vector.astype("<f4").tobytes() for row, vector in zip(found, matrix, strict=True)
    }


def _batches(many: Sequence[T]) -> Iterator[Sequence[T]]:
    for start in range(0, len(many), BATCH):
        yield many[start : start + BATCH]
