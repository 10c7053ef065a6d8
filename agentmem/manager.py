"""The everyday API: one object that wires store, indexes and embedder, and decides nothing."""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from agentmem import remembering
from agentmem.clock import SystemClock
from agentmem.core.checks import require_count, require_text
from agentmem.core.content import content_hash
from agentmem.core.filters import Compare, Filter, Selection, parse_filter
from agentmem.embedding import Embedding, Progress
from agentmem.errors import AgentMemError, BadVector, InvalidInput, InvalidScope
from agentmem.ids import Ids
from agentmem.indexes.live import LiveIndex
from agentmem.preparing import prepare
from agentmem.protocols import Clock, Embedder
from agentmem.results import Added, AddResult, SearchResults, Stats
from agentmem.retrieval import Request, Reranker, Retriever
from agentmem.settings import SearchMode, Settings
from agentmem.stores.base import Store
from agentmem.stores.jsonl import ImportReport, export_jsonl, import_jsonl
from agentmem.stores.values import Entry, Receipt, Source, VerifyReport, Version
from agentmem.types import EMPTY, Document, Memory, Scope, Visibility

if TYPE_CHECKING:
    from agentmem.embedding import Vectors

_log = logging.getLogger(__name__)

Addable = str | Mapping[str, Any] | Sequence[Mapping[str, Any]] | Document
Instant = datetime | str | float | None
SCOPE_NAMES = tuple(Scope.__slots__)


class MemoryManager:
    """A memory.

    Every call may say whose memory is meant with `user_id`, `project_id`,
    `agent_id` and `run_id`; somebody not named is the one user of a memory
    without users. What is returned, counted, changed or ranked is only what
    that reader may see (P24).
    """

    def __init__(
        self,
        store: Store,
        *,
        embedder: Embedder | None = None,
        clock: Clock | None = None,
        settings: Settings | None = None,
        path: Path | None = None,
        rerank: Reranker | None = None,
        load_embedder: Callable[[str], Embedder | None] | None = None,
    ) -> None:
        self.settings = settings or Settings()
        self.store = store
        self.embedding = Embedding(
            store, embedder, load=load_embedder, background=self.settings.embed_in_background
        )
        self.index = LiveIndex(store, path=path)
        self._closed = False
        self._clock = clock or SystemClock()
        self._ids = Ids(self._clock)
        self._retriever = Retriever(store, self.index, self.embedding, rerank=rerank)

    # -- adding -----------------------------------------------------------------------

    def add(self, data: Addable, **options: Any) -> AddResult:
        """Remember a text, a message, several messages or a document; see the call for each."""
        if isinstance(data, Document):
            return self.add_document(data, **options)
        if isinstance(data, str):
            return self.add_text(data, **options)
        if isinstance(data, Mapping):
            return self.add_messages([data], **options)
        if isinstance(data, Sequence) and not isinstance(data, str | bytes):
            return self.add_messages(data, **options)
        raise InvalidInput(
            "data", data, "is nothing to remember", remedy="Pass a str, messages or a Document."
        )

    def add_text(
        self,
        text: str,
        *,
        kind: str = "fact",
        visibility: Visibility = "private",
        metadata: Mapping[str, Any] = EMPTY,
        importance: float = 0.5,
        **whose: str | None,
    ) -> AddResult:
        """Remember one text as one memory; the same text again adds nothing."""
        maker = self._maker(whose, visibility, metadata)
        memory = remembering.from_text(maker, text, kind=kind, importance=importance)
        return self._put_new(maker, [memory], same=lambda m: (m.content_hash, m.kind))

    def add_messages(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        session: str = "",
        visibility: Visibility = "private",
        metadata: Mapping[str, Any] = EMPTY,
        **whose: str | None,
    ) -> AddResult:
        """Remember a conversation, one memory a message; a message already there adds nothing."""
        require_text(session, "session")
        maker = self._maker(whose, visibility, metadata)
        memories = remembering.from_messages(maker, messages, session=session)
        return self._put_new(maker, memories, same=remembering.same_message)

    def add_document(
        self,
        document: Document | str,
        *,
        url: str = "",
        title: str = "",
        visibility: Visibility = "private",
        metadata: Mapping[str, Any] = EMPTY,
        **whose: str | None,
    ) -> AddResult:
        """Remember a page in chunks. The same url with other content replaces the page (P6)."""
        if isinstance(document, str):
            document = Document(text=document, url=url, title=title)
        maker = self._maker(whose, visibility, metadata)
        memories = remembering.from_document(
            maker,
            document,
            target_tokens=self.settings.chunk_tokens,
            limit_tokens=self.settings.chunk_limit_tokens,
        )
        digest = content_hash(f"{document.title}\n\n{document.text}")
        return self._replace(maker, memories, digest, title=document.title)

    def add_chunks(
        self,
        chunks: Sequence[str],
        *,
        url: str,
        title: str = "",
        vectors: Vectors | None = None,
        visibility: Visibility = "private",
        metadata: Mapping[str, Any] = EMPTY,
        **whose: str | None,
    ) -> AddResult:
        """Remember texts already cut, with vectors of the memory's embedder if there are any."""
        maker = self._maker(whose, visibility, metadata)
        memories = remembering.from_chunks(maker, chunks, url=url, title=title)
        digest = content_hash("\n\n".join([title, *chunks]))
        return self._replace(maker, memories, digest, title=title, vectors=vectors)

    def _maker(
        self, whose: Mapping[str, str | None], visibility: Visibility, metadata: Mapping[str, Any]
    ) -> remembering.Maker:
        return remembering.Maker(
            scope=scope_of(whose),
            visibility=visibility,
            now=self._clock.now(),
            new_id=self._ids.new,
            metadata=metadata,
        )

    def _put_new(
        self,
        maker: remembering.Maker,
        memories: Sequence[Memory],
        *,
        same: Callable[[Memory], Hashable],
    ) -> AddResult:
        hashes = tuple({memory.content_hash for memory in memories})
        known: dict[Hashable, str] = {}
        if hashes:
            where = Compare(field="content_hash", operator="in", value=hashes)
            for memory in self.store.scan(Selection(reader=maker.scope, where=where)):
                if (memory.scope, memory.visibility) == (maker.scope, maker.visibility):
                    known[same(memory)] = memory.id
        items: list[Added] = []
        fresh: list[Memory] = []
        for memory in memories:
            there = known.setdefault(same(memory), memory.id)
            new = there == memory.id
            items.append(Added(id=there, text=memory.text, event="ADD" if new else "NONE"))
            if new:
                fresh.append(memory)
        degradations = self._put(fresh)
        return AddResult(items=tuple(items), unchanged=not fresh, degradations=degradations)

    def _put(self, memories: Sequence[Memory]) -> tuple[str, ...]:
        if not memories:
            return ()
        entries = self._entries(memories)
        self.store.put(entries)
        return self._after_write(entries)

    def _replace(
        self,
        maker: remembering.Maker,
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
        if self.store.has_source(source):  # known before anything is embedded
            return AddResult(unchanged=True)
        entries = self._entries(memories, vectors=vectors)
        report = self.store.replace_source(source, entries, at=maker.now)
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
        entries = []
        for memory, vector in zip(memories, made, strict=True):
            entries.append(prepare(memory, vector))
        return entries

    def _after_write(self, entries: Sequence[Entry]) -> tuple[str, ...]:
        if all(entry.vectors for entry in entries) or not self.embedding.wanted:
            return ()
        return (f"not embedded yet: {self.embedding.error}",)

    # -- finding ----------------------------------------------------------------------

    def search(
        self,
        query: str,
        *,
        top_k: int | None = None,
        threshold: float | None = None,
        mode: SearchMode | None = None,
        filters: Mapping[str, Any] | None = None,
        kinds: Sequence[str] | None = None,
        source_url: str | None = None,
        session: str | None = None,
        since: Instant = None,
        until: Instant = None,
        as_of: Instant = None,
        explain: bool = False,
        limit: int | None = None,
        **whose: str | None,
    ) -> SearchResults:
        """The memories that answer `query`, best first, none below `threshold` (P1).

        `limit` is another name for `top_k`. A query without words finds nothing.
        """
        if top_k is not None and limit is not None:
            raise InvalidInput("limit", limit, "is top_k said twice", remedy="Give one of them.")
        wanted = top_k if top_k is not None else limit
        settings = self.settings
        return self._retriever.search(
            Request(
                query=query,
                selection=self._selection(
                    whose,
                    filters,
                    kinds=kinds,
                    source_url=source_url,
                    session=session,
                    since=since,
                    until=until,
                    as_of=as_of,
                ),
                top_k=settings.top_k if wanted is None else wanted,
                threshold=settings.similarity_threshold if threshold is None else threshold,
                mode=mode or settings.search_mode,
                explain=explain,
                now=self._clock.now(),
            )
        )

    def get(self, memory_id: str, **whose: str | None) -> Memory:
        """The memory with this id; `RecordNotFound` if this reader has none."""
        return self.store.get(scope_of(whose), require_text(memory_id, "memory_id"))

    def get_all(
        self,
        *,
        filters: Mapping[str, Any] | None = None,
        kinds: Sequence[str] | None = None,
        limit: int = 100,
        superseded: bool = False,
        as_of: Instant = None,
        **whose: str | None,
    ) -> tuple[Memory, ...]:
        """Up to `limit` memories of this reader, newest first."""
        selection = self._selection(whose, filters, kinds=kinds, as_of=as_of)
        selection = replace(selection, superseded=superseded)
        return self.store.recent(selection, limit=require_count(limit, "limit"))

    def recent(self, limit: int = 10, **whose: str | None) -> tuple[Memory, ...]:
        """The newest memories of this reader."""
        return self.get_all(limit=limit, **whose)  # type: ignore[arg-type]  # the rest are names

    def search_by_source_url(self, url: str, **whose: str | None) -> tuple[Memory, ...]:
        """Every chunk of a page, in its order."""
        return self.store.search_by_source_url(scope_of(whose), require_text(url, "url"))

    def history(self, memory_id: str, **whose: str | None) -> tuple[Version, ...]:
        """What a memory said before each change, oldest first."""
        return self.store.history(scope_of(whose), require_text(memory_id, "memory_id"))

    def _selection(
        self,
        whose: Mapping[str, str | None],
        filters: Mapping[str, Any] | None,
        *,
        kinds: Sequence[str] | None = None,
        source_url: str | None = None,
        session: str | None = None,
        since: Instant = None,
        until: Instant = None,
        as_of: Instant = None,
    ) -> Selection:
        scope, where = scope_and_filter(whose, filters)
        if isinstance(kinds, str):
            raise InvalidInput("kinds", kinds, "is one text", remedy="Pass a list of kinds.")
        return Selection(
            reader=scope,
            where=where,
            kinds=None if kinds is None else tuple(kinds),
            source_url=source_url,
            session=session,
            since=instant(since, "since"),
            until=instant(until, "until"),
            as_of=instant(as_of, "as_of"),
        )

    # -- changing ---------------------------------------------------------------------

    def update(
        self,
        memory_id: str,
        text: str | None = None,
        *,
        metadata: Mapping[str, Any] | None = None,
        importance: float | None = None,
        title: str | None = None,
        **whose: str | None,
    ) -> Memory:
        """Change a memory in place; what it said before is in `history`."""
        scope = scope_of(whose)
        old = self.store.get(scope, require_text(memory_id, "memory_id"))
        changes: dict[str, Any] = {
            name: value
            for name, value in (
                ("metadata", metadata), ("importance", importance), ("title", title)
            )
            if value is not None
        }  # fmt: skip
        if text is not None:
            changes |= {
                "text": require_text(text, "text"),
                "content_hash": content_hash(text),
                "summary": None,
                "compressed": None,
                "index": None,
            }
        (entry,) = self._entries([replace(old, **changes)])
        return self.store.update(scope, entry, at=self._clock.now())

    def supersede(self, memory_id: str, text: str, **whose: str | None) -> Memory:
        """Put a newer statement in a memory's place; the older one stays in the record."""
        scope = scope_of(whose)
        now = self._clock.now()
        old = self.store.get(scope, require_text(memory_id, "memory_id"))
        new = replace(
            old,
            id=self._ids.new(),
            text=require_text(text, "text"),
            content_hash=content_hash(text),
            created_at=now,
            valid_from=now,
            valid_to=None,
            summary=None,
            compressed=None,
            index=None,
            supersedes=old.id,
            superseded_by=None,
        )
        (entry,) = self._entries([new])
        return self.store.supersede(scope, old.id, entry, at=now)

    def delete(self, memory_id: str | Sequence[str], **whose: str | None) -> int:
        """Take memories out of every read; they are kept until `erase` or `purge`."""
        ids = [memory_id] if isinstance(memory_id, str) else list(memory_id)
        return self.store.delete(scope_of(whose), ids, at=self._clock.now())

    def delete_all(self, *, filters: Mapping[str, Any] | None = None, **whose: str | None) -> int:
        """Delete every private memory of this reader, or those that pass `filters`."""
        selection = replace(self._selection(whose, filters), visibilities=("private",))
        return self.store.delete_all(selection, at=self._clock.now())

    def remove_by_source_url(self, url: str, **whose: str | None) -> int:
        """Delete every chunk of a page."""
        scope = scope_of(whose)
        return self.store.remove_by_source_url(
            scope, require_text(url, "url"), at=self._clock.now()
        )

    def erase(self, memory_id: str | Sequence[str], **whose: str | None) -> Receipt:
        """Remove memories so that their bytes are in no file of the store (P26)."""
        ids = [memory_id] if isinstance(memory_id, str) else list(memory_id)
        receipt = self.store.erase(scope_of(whose), ids, at=self._clock.now())
        self._forget()
        return receipt

    def erase_all(
        self, *, filters: Mapping[str, Any] | None = None, **whose: str | None
    ) -> Receipt:
        """Erase every private memory of this reader, deleted ones too, or those `filters` pass."""
        selection = replace(
            self._selection(whose, filters),
            visibilities=("private",),
            deleted=True,
            superseded=True,
        )
        receipt = self.store.erase_all(selection, at=self._clock.now())
        self._forget()
        return receipt

    def _forget(self) -> None:
        self.index.forget()
        self.embedding.forget()

    # -- looking after it --------------------------------------------------------------

    def sync(self) -> None:
        """Make everything durable and save the indexes beside the store."""
        self.store.upkeep.sync(at=self._clock.now())
        if self.settings.save_indexes:
            self.index.save(self.embedding.serving_id)

    def get_stats(self, **whose: str | None) -> Stats:
        """How much there is, how it is indexed, and what is wrong; of one reader if named."""
        scope = scope_of(whose) if any(whose.values()) else None
        return Stats(store=self.store.upkeep.stats(scope), embedding=self.embedding.state)

    def reembed(self, *, progress: Progress | None = None) -> int:
        """Make every missing vector now; an interrupted run goes on where it stopped (P29)."""
        return self.embedding.fill_gaps(progress=progress)

    def verify(self) -> VerifyReport:
        """Read and check everything."""
        return self.store.upkeep.verify()

    def vacuum(self) -> None:
        """Give unused space back."""
        self.store.upkeep.vacuum()

    def backup(self, path: str | Path) -> None:
        """Write a consistent copy of the store while it is in use."""
        self.store.upkeep.backup(Path(path))

    def export_jsonl(self, path: str | Path, *, vectors: bool = False, **whose: str | None) -> int:
        """Write one JSON object a memory; of one reader if named. Gives how many there are."""
        scope = scope_of(whose) if any(whose.values()) else None
        return export_jsonl(self.store, path, scope=scope, vectors=vectors)

    def import_jsonl(
        self, path: str | Path, *, skip_bad_lines: bool = False, **whose: str | None
    ) -> ImportReport:
        """Add what `export_jsonl` wrote, in one transaction; what is there already is skipped.

        With a name, everything becomes that owner's. Missing vectors are made
        afterwards, in the background if the settings say so.
        """
        report = import_jsonl(
            self.store,
            path,
            analyse=lambda memory: prepare(memory, {}),
            scope=scope_of(whose) if any(whose.values()) else None,
            skip_bad_lines=skip_bad_lines,
        )
        if report.imported and self.settings.embed_in_background:
            self.embedding.fill_gaps_in_background()
        return report

    def close(self) -> None:
        """Save what can be saved and close; again is harmless."""
        if self._closed:
            return
        self._closed = True
        self.embedding.close()
        if self.settings.save_indexes:
            self._save_quietly()
        self.index.close()
        self.store.close()

    def _save_quietly(self) -> None:
        try:
            if self.index.worth_saving:
                self.index.save(self.embedding.serving_id)
        except (AgentMemError, OSError) as error:
            _log.warning(
                "The indexes could not be saved; they are built at the next open: %s", error
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def scope_of(whose: Mapping[str, str | None]) -> Scope:
    """The scope named by `user_id=` and the like; another name is refused."""
    for name in whose:
        if name not in SCOPE_NAMES:
            raise InvalidScope(
                name, whose[name], "is no parameter of this call",
                remedy=f"Whose memory it is is said with {', '.join(SCOPE_NAMES)}.",
            )  # fmt: skip
    return Scope(**whose)


def scope_and_filter(
    whose: Mapping[str, str | None], filters: Mapping[str, Any] | None
) -> tuple[Scope, Filter]:
    """Who reads, and the other conditions.

    `filters={"user_id": "alice"}` says who reads, as `user_id="alice"` does;
    a project, agent or run there must also match exactly.
    """
    written = dict(filters or {})
    user = written.get("user_id")
    named = dict(whose)
    if isinstance(user, str):
        if named.get("user_id") not in (None, user):
            raise InvalidScope("user_id", user, "is said twice, differently")
        named["user_id"] = user
        del written["user_id"]
    for name in SCOPE_NAMES[1:]:
        value = written.get(name)
        if isinstance(value, str) and named.get(name) is None:
            named[name] = value
    return scope_of(named), parse_filter(written)


def instant(value: Instant, name: str) -> datetime | None:
    """A moment as users write it: a datetime, ISO 8601, or seconds since 1970."""
    if value is None:
        return None
    found = remembering.read_moment(value)
    if found is None:
        raise InvalidInput(
            name, value, "is not a moment", remedy="Use ISO 8601, a datetime, or seconds."
        )
    return found
