"""What every call of a memory stands on, and the calls that remember, change and remove."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, Unpack, cast

from agentmem.base.checks import require_items, require_mapping, require_text
from agentmem.base.config import MemorySettings
from agentmem.base.errors import BadVector, ChangedMeanwhile, DuplicateRecord, InvalidInput
from agentmem.base.filters import Compare, Selection
from agentmem.base.guards import Early, UnderWay
from agentmem.base.protocols import Clock, Embedder
from agentmem.base.telemetry import span
from agentmem.base.time import SystemClock
from agentmem.base.types import (
    EMPTY,
    PREFERENCES_URL,
    Document,
    Ids,
    Memory,
    Origin,
    Scope,
    Visibility,
    Whose,
    content_hash,
    may_state,
)
from agentmem.search.embedding import Embedding
from agentmem.search.intake import (
    Instant,
    Maker,
    from_chunks,
    from_document,
    from_messages,
    from_text,
    instant,
    prepare_all,
    require_something,
    scope_and_filter,
    scope_of,
)
from agentmem.search.local import LocalSearch
from agentmem.search.parts import judge_later
from agentmem.search.protocol import Search
from agentmem.search.results import Added, AddResult
from agentmem.search.retriever import Reranker, Retriever
from agentmem.stores.base import Store
from agentmem.stores.rules import Sameness, split_new
from agentmem.stores.values import Entry, Receipt, Source

if TYPE_CHECKING:
    from agentmem.agent.runtime import Runtime
    from agentmem.living.facts import Record
    from agentmem.memory.manager import MemoryManager
    from agentmem.search.embedding import Vectors


FEW_CHUNKS = 8

Addable: TypeAlias = "str | Mapping[str, Any] | Sequence[Mapping[str, Any]] | Document | Record"


class AddOptions(Whose, total=False):
    """What `add` may be told; which of it goes with what is added, its own call says."""

    id: str | None
    kind: str
    title: str
    url: str
    session: str
    once: bool
    visibility: Visibility
    metadata: Mapping[str, Any]
    importance: float


class Keeper:
    """The parts of a memory, wired, and the calls that remember, change and remove."""

    def __init__(
        self,
        store: Store,
        *,
        embedder: Embedder | None = None,
        clock: Clock | None = None,
        settings: MemorySettings | None = None,
        path: Path | None = None,
        search: Search | None = None,
        rerank: Reranker | None = None,
        load_embedder: Callable[[str], Embedder | None] | None = None,
    ) -> None:
        self.settings = settings or MemorySettings()
        self.store = store
        self.embedding = Embedding(
            store, embedder, load=load_embedder, background=self.settings.embed_in_background
        )
        self.index: Search = LocalSearch(store, path=path) if search is None else search
        self._closed = False
        self.path = path
        self._runtime: Runtime | None = None
        self.under_way = UnderWay()
        self.early_pages = Early(lambda: cast("MemoryManager", self).runtime.indexer.enqueue_page)
        self.clock = clock or SystemClock()
        self.ids = Ids(self.clock)
        self.retriever = Retriever(store, self.index, self.embedding, rerank=rerank)

    def __repr__(self) -> str:
        where = ":memory:" if self.path is None else str(self.path)
        return f"MemoryManager({where!r}{', closed' if self._closed else ''})"

    def _selection(
        self,
        whose: Mapping[str, object],
        filters: Mapping[str, Any] | None,
        *,
        kinds: Sequence[str] | None = None,
        as_of: Instant = None,
    ) -> Selection:
        scope, where = scope_and_filter(whose, filters)
        kept = None if kinds is None else tuple(require_items(kinds, "kinds", "kinds"))
        return Selection(reader=scope, where=where, kinds=kept, as_of=instant(as_of, "as_of"))

    def _settle(self, scope: Scope) -> None:
        """Let the background finish what it holds of `scope`, which would come back otherwise."""
        self.early_pages.settle()
        if self._runtime is not None:
            self._runtime.settle(scope)

    def _judge_later(self, memories: Sequence[Memory]) -> None:
        """Have new memories compared with what they may contradict."""
        for scope in {one.scope for one in memories if may_state(one)}:
            judge_later(cast("MemoryManager", self), scope)

    def _forget(self) -> None:
        self.index.forget()
        self.embedding.forget()
        if self._runtime is not None:
            self._runtime.forget()

    def _unlearn(self, scope: Scope, gone: Sequence[Memory], *, everything: bool = False) -> None:
        """Take what will be erased out of what was learned, before the files are cleaned (P26)."""
        from agentmem.living.predict import Predictions

        if self._runtime is not None:
            self._runtime.tiers.forget()
            predictions = self._runtime.predictions
        else:
            predictions = Predictions(cast("MemoryManager", self))
        predictions.forget(scope, gone, everything=everything)

    @property
    def telemetry_id(self) -> str:
        """What spans call this memory: the name of its file, without its folder."""
        return self.path.name if self.path is not None else "memory"

    def add(self, data: Addable, **said: Unpack[AddOptions]) -> AddResult:
        """Remember a text, messages, a document, or a `Fact`, `Episode`, `Pattern` or `Workflow`.

        One text is one memory, and the same again adds nothing. What a private fact
        in the first person says about its user reaches the profile (P45). With an
        `id` of your own only the same text under that id is the same; another text
        under it raises `DuplicateRecord`. Messages and documents are added as by
        `add_messages` and `add_document`. `from_memory` (in `agentmem.living.facts`)
        reads a record back.
        """
        options: dict[str, Any] = {**said}
        if isinstance(data, Document):
            return self.add_document(data, **options)
        if isinstance(data, str):
            return self._add_text(data, **options)
        if isinstance(data, Mapping):
            return self.add_messages([data], **options)
        if isinstance(data, Sequence) and not isinstance(data, str | bytes):
            return self.add_messages(data, **options)
        from agentmem.living.facts import Record

        if isinstance(data, Record):
            return self._add_record(data, **options)
        remedy = "Pass a str, messages, a Document, or a Fact, Episode, Pattern or Workflow."
        raise InvalidInput("data", data, "is nothing to remember", remedy=remedy)

    def _add_text(
        self,
        text: str,
        *,
        kind: str = "fact",
        visibility: Visibility = "private",
        metadata: Mapping[str, Any] = EMPTY,
        importance: float = 0.5,
        id: str | None = None,  # noqa: A002 - the field's own name
        **whose: Unpack[Whose],
    ) -> AddResult:
        maker = self._maker(whose, visibility, metadata)
        memory = from_text(
            maker,
            text,
            memory_id="" if id is None else require_something(id, "id"),
            kind=kind,
            importance=importance,
            source_url=PREFERENCES_URL if kind == "preference" else "",
        )
        new = id is None
        result = self._put_new(maker, [memory], same="text") if new else self._put_named(memory)
        from agentmem.text.detect import in_first_person

        own = kind == "fact" and visibility == "private" and not result.unchanged
        if own and in_first_person(text):
            self._listen([memory], maker.scope)
        return result

    def _add_record(
        self,
        record: Record,
        *,
        visibility: Visibility = "private",
        metadata: Mapping[str, Any] = EMPTY,
        importance: float = 0.5,
        **whose: Unpack[Whose],
    ) -> AddResult:
        from agentmem.living.facts import to_memory_fields

        fields = to_memory_fields(record)
        if not fields.title.strip():
            remedy = "Give its key, title or trigger."
            raise InvalidInput("record", record, "has no name", remedy=remedy)
        told = {**require_mapping(metadata, "metadata"), **fields.metadata}
        maker = self._maker(whose, visibility, told)
        memory = from_text(
            maker, fields.text, kind=fields.kind, title=fields.title, importance=importance
        )
        return self._put_new(maker, [memory], same="record")

    def add_messages(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        session: str = "",
        once: bool = False,
        listen: bool = True,
        visibility: Visibility = "private",
        metadata: Mapping[str, Any] = EMPTY,
        **whose: Unpack[Whose],
    ) -> AddResult:
        """Remember a conversation, one memory a message; a message already there adds nothing.

        The same words at another time are another message, unless `once`: then
        what a speaker said before is not kept again. What the user says about
        themselves in new messages reaches the profile unless `listen` is off (P45).
        """
        require_text(session, "session")
        maker = self._maker(whose, visibility, metadata)
        memories = from_messages(maker, messages, session=session)
        result = self._put_new(maker, memories, same="words" if once else "message")
        if listen:
            new = {item.id for item in result.items if item.event == "ADD"}
            self._listen([memory for memory in memories if memory.id in new], maker.scope)
        return result

    def _listen(self, memories: Sequence[Memory], scope: Scope) -> None:
        """Let what the user says in new messages reach the profile; others' words do not."""
        own = (scope.user_id, "user", "")
        said = [m for m in memories if m.origin == "user" and m.speaker in own]
        if said and scope.user_id is not None:
            ordered = sorted(said, key=lambda memory: memory.created_at)
            messages = [{"role": "user", "content": memory.text} for memory in ordered]
            cast("MemoryManager", self).preferences.listen(
                messages, user_id=scope.user_id, project_id=scope.project_id
            )

    def add_document(
        self,
        document: Document | str | Sequence[str],
        *,
        url: str = "",
        title: str = "",
        created_at: Instant = None,
        vectors: Vectors | None = None,
        visibility: Visibility = "private",
        metadata: Mapping[str, Any] = EMPTY,
        **whose: Unpack[Whose],
    ) -> AddResult:
        """Remember a page in chunks. The same url with other content replaces the page (P6).

        Texts that are cut already stay as they are, and may bring vectors of the
        memory's embedder. `created_at` is when the page was got, if that was before now.
        """
        maker = self._maker(whose, visibility, metadata)
        maker = replace(maker, now=instant(created_at, "created_at") or maker.now)
        if isinstance(document, str | bytes):
            document = Document(text=document, url=url, title=title)
        if isinstance(document, Document):
            title = document.title
            digest = content_hash(f"{title}\n\n{document.text}")
            cut = (self.settings.chunk_tokens, self.settings.chunk_limit_tokens)
            memories = from_document(maker, document, target_tokens=cut[0], limit_tokens=cut[1])
        else:
            chunks = require_items(document, "chunks", "texts")
            digest = content_hash("\n\n".join([title, *chunks]))
            memories = from_chunks(maker, chunks, url=url, title=title)
        return self._replace(maker, memories, digest, title=title, vectors=vectors)

    def _maker(
        self, whose: Mapping[str, object], visibility: Visibility, metadata: Mapping[str, Any]
    ) -> Maker:
        return Maker(
            scope=scope_of(whose),
            visibility=visibility,
            now=self.clock.now(),
            new_ids=self.ids.take,
            metadata=metadata,
        )

    def _put_new(self, maker: Maker, memories: Sequence[Memory], *, same: Sameness) -> AddResult:
        known = self._known(maker.scope, memories)
        unknown, ids = split_new([Entry(memory=m) for m in memories], known, same)
        added, degradations = self._put([entry.memory for entry in unknown], same=same)
        items = [
            Added(id=there, text=memory.text, event="ADD" if there == memory.id else "NONE")
            for memory, there in zip(memories, (added.get(i, i) for i in ids), strict=True)
        ]
        unchanged = all(item.event == "NONE" for item in items)
        return AddResult(items=tuple(items), unchanged=unchanged, degradations=degradations)

    def _put_named(self, memory: Memory) -> AddResult:
        """Store a memory under its caller's id, unless it is there, also since a moment ago."""
        there = Added(id=memory.id, text=memory.text, event="NONE")
        unchanged = AddResult(items=(there,), unchanged=True)
        if self._is_there(memory):
            return unchanged
        try:
            _, degradations = self._put([memory])
        except DuplicateRecord:
            if self._is_there(memory):
                return unchanged
            raise
        return AddResult(items=(replace(there, event="ADD"),), degradations=degradations)

    def _is_there(self, memory: Memory) -> bool:
        known = self._known(memory.scope, [memory])
        return any((m.id, m.visibility) == (memory.id, memory.visibility) for m in known)

    def _known(self, scope: Scope, memories: Sequence[Memory]) -> list[Memory]:
        """What this owner may have of `memories` already: known before anything is embedded."""
        hashes = tuple({memory.content_hash for memory in memories})
        if not hashes:
            return []
        where = Compare(field="content_hash", operator="in", value=hashes)
        kinds = tuple({memory.kind for memory in memories})
        return list(self.store.scan(Selection(reader=scope, where=where, kinds=kinds)))

    def _put(
        self, memories: Sequence[Memory], *, same: Sameness | None = None
    ) -> tuple[dict[str, str], tuple[str, ...]]:
        """Store what nobody added meanwhile: the id that each has, and what went wrong.

        Without `same` each is new, or its id is taken.
        """
        if not memories:
            return {}, ()
        ids = tuple(memory.id for memory in memories)
        with span("create_memory", store_id=self.telemetry_id) as told:
            entries = self._entries(memories)
            if same is None:
                self.store.put(entries)
            else:
                ids = self.store.put_new(entries, same=same)
            told.found(len(entries))
        self._judge_later(memories)
        there = {memory.id: found for memory, found in zip(memories, ids, strict=True)}
        return there, self._after_write(entries)

    def _replace(
        self,
        maker: Maker,
        memories: Sequence[Memory],
        digest: str,
        *,
        title: str,
        vectors: Vectors | None = None,
    ) -> AddResult:
        source = Source(
            url=memories[0].source_url,
            title=title,
            content_hash=digest,
            scope=maker.scope,
            visibility=maker.visibility,
        )
        # Known before anything is embedded; a few ready vectors cost less than asking.
        ready = vectors is not None and len(memories) <= FEW_CHUNKS
        if not ready and self.store.has_source(source):
            return AddResult(unchanged=True)
        with span("upsert_memory", store_id=self.telemetry_id) as told:
            entries = self._entries(memories, vectors=vectors)
            report = self.store.replace_source(source, entries, at=self.clock.now())
            told.found(len(entries))
        items = () if report.unchanged else memories
        return AddResult(
            items=tuple(Added(id=m.id, text=m.text, event="ADD") for m in items),
            unchanged=report.unchanged,
            replaced=report.removed,
            degradations=self._after_write(entries),
        )

    def _entries(
        self, memories: Sequence[Memory], *, vectors: Vectors | None = None
    ) -> list[Entry]:
        if vectors is None:
            made = self.embedding.embed(memories)
        elif len(vectors) == len(memories):
            made = self.embedding.given(vectors)
        else:
            raise BadVector(f"There are {len(vectors)} vectors for {len(memories)} texts.")
        return prepare_all(memories, made)

    def _after_write(self, entries: Sequence[Entry]) -> tuple[str, ...]:
        self.index.expect(len(entries), lambda: self.embedding.serving_id)
        if all(entry.vectors for entry in entries) or not self.embedding.wanted:
            return ()
        problem = self.embedding.embed_rest()
        return (f"not embedded yet: {problem}",) if problem else ()

    def update(
        self,
        memory_id: str,
        text: str | None = None,
        *,
        metadata: Mapping[str, Any] | None = None,
        importance: float | None = None,
        title: str | None = None,
        data: str | None = None,
        origin: Origin | None = None,
        **whose: Unpack[Whose],
    ) -> Memory:
        """Change a memory in place; what it said before is in `history`.

        `data` is another name for `text`; `origin` says whose words it has now.
        """
        if text is not None and data is not None:
            raise InvalidInput("data", data, "is text said twice", remedy="Give one of them.")
        text = data if text is None else text
        scope = scope_of(whose)
        require_text(memory_id, "memory_id")
        if metadata is not None:
            require_mapping(metadata, "metadata")
        said = {"metadata": metadata, "importance": importance, "title": title, "origin": origin}
        changes: dict[str, Any] = {name: one for name, one in said.items() if one is not None}
        if text is not None:
            changes |= _saying(text)
        with span("update_memory", store_id=self.telemetry_id, record_id=memory_id):
            new = self._changed(scope, memory_id, changes)
        if text is not None:
            self._judge_later([new])
        return new

    def _changed(self, scope: Scope, memory_id: str, changes: Mapping[str, Any]) -> Memory:
        """Change a memory, and what somebody else changed meanwhile stays changed."""
        while True:
            old = self.store.get(scope, memory_id)
            (entry,) = self._entries([replace(old, **changes)])
            with suppress(ChangedMeanwhile):
                return self.store.update(scope, entry, at=self.clock.now(), was=old)

    def supersede(self, memory_id: str, text: str, **whose: Unpack[Whose]) -> Memory:
        """Put a newer statement in a memory's place; the older one stays in the record."""
        scope = scope_of(whose)
        now = self.clock.now()
        old = self.store.get(scope, require_text(memory_id, "memory_id"))
        new = replace(
            old,
            **_saying(text),
            id=self.ids.new(),
            created_at=now,
            valid_from=now,
            valid_to=None,
            supersedes=old.id,
            superseded_by=None,
        )
        with span("update_memory", store_id=self.telemetry_id, record_id=old.id):
            (entry,) = self._entries([new])
            kept = self.store.supersede(scope, old.id, entry, at=now)
        self._judge_later([kept])
        return kept

    def delete(self, memory_id: str | Sequence[str], **whose: Unpack[Whose]) -> int:
        """Take memories out of every read; they are kept until `erase` or `purge`."""
        ids = _ids(memory_id)
        with span("delete_memory", store_id=self.telemetry_id) as told:
            told.found(len(ids))
            return self.store.delete(scope_of(whose), ids, at=self.clock.now())

    def delete_all(
        self, *, filters: Mapping[str, Any] | None = None, **whose: Unpack[Whose]
    ) -> int:
        """Delete every private memory of this reader, or those that pass `filters`."""
        selection = replace(self._selection(whose, filters), visibilities=("private",))
        with span("delete_memory", store_id=self.telemetry_id):
            return self.store.delete_all(selection, at=self.clock.now())

    def erase(self, memory_id: str | Sequence[str], **whose: Unpack[Whose]) -> Receipt:
        """Remove memories so that their bytes are in no file of the store (P26).

        Their merged duplicates go with them, and so does what was made of them:
        facts and preferences that no other message states, and what a tool
        result was promoted to. What is pinned stays. The receipt's `derived`
        lists what went.
        """
        scope, ids = scope_of(whose), _ids(memory_id)
        self._settle(scope)
        with span("delete_memory", store_id=self.telemetry_id) as told:
            self._unlearn(scope, self.store.to_erase(scope, ids))
            receipt = self.store.erase(scope, ids, at=self.clock.now())
            told.found(len(receipt.ids))
        self._forget()
        return receipt

    def erase_all(
        self, *, filters: Mapping[str, Any] | None = None, **whose: Unpack[Whose]
    ) -> Receipt:
        """Erase every private memory of this reader, deleted ones too, or those `filters` pass.

        What was made of them goes with them, as with `erase`.
        """
        selection = replace(
            self._selection(whose, filters),
            visibilities=("private",),
            deleted=True,
            superseded=True,
        )
        self._settle(selection.reader)
        with span("delete_memory", store_id=self.telemetry_id) as told:
            gone = self.store.to_erase_all(selection)
            self._unlearn(selection.reader, gone, everything=selection.is_everything)
            receipt = self.store.erase_all(selection, at=self.clock.now())
            told.found(len(receipt.ids))
        self._forget()
        return receipt


def _saying(text: str) -> dict[str, Any]:
    """What changes in a memory that says something else: what was made of its text goes."""
    said = {"text": require_something(text), "content_hash": content_hash(text)}
    return {**said, "summary": None, "compressed": None, "index": None}


def _ids(memory_id: str | Sequence[str]) -> list[str]:
    return [memory_id] if isinstance(memory_id, str) else require_items(memory_id, "ids", "ids")
