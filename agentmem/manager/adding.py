"""Remember texts, messages, documents and chunks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from agentmem import remembering
from agentmem.core.checks import require_items, require_mapping, require_text
from agentmem.core.content import content_hash
from agentmem.core.filters import Compare, Selection
from agentmem.errors import BadVector, InvalidInput
from agentmem.manager.base import Base
from agentmem.manager.whose import scope_of
from agentmem.preparing import prepare_all
from agentmem.results import Added, AddResult
from agentmem.stores.rules import Sameness, split_new
from agentmem.stores.values import Entry, Source
from agentmem.telemetry import span
from agentmem.types import EMPTY, PREFERENCES_URL, Document, Memory, Scope, Visibility

if TYPE_CHECKING:
    from agentmem.core.living.records import Record
    from agentmem.embedding import Vectors
    from agentmem.manager import MemoryManager

FEW_CHUNKS = 8

Addable: TypeAlias = "str | Mapping[str, Any] | Sequence[Mapping[str, Any]] | Document | Record"


class Adding(Base):
    """The calls that remember."""

    def add(self, data: Addable, **options: Any) -> AddResult:
        """Remember a text, messages, a document or a record; see the call for each."""
        if isinstance(data, Document):
            return self.add_document(data, **options)
        if isinstance(data, str):
            return self.add_text(data, **options)
        if isinstance(data, Mapping):
            return self.add_messages([data], **options)
        if isinstance(data, Sequence) and not isinstance(data, str | bytes):
            return self.add_messages(data, **options)
        from agentmem.core.living.records import Record

        if isinstance(data, Record):
            return self.add_record(data, **options)
        raise InvalidInput(
            "data",
            data,
            "is nothing to remember",
            remedy="Pass a str, messages, a Document, or a Fact, Episode, Pattern or Workflow.",
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
        source_url = PREFERENCES_URL if kind == "preference" else ""
        memory = remembering.from_text(
            maker, text, kind=kind, importance=importance, source_url=source_url
        )
        return self._put_new(maker, [memory], same=lambda m: (m.content_hash, m.kind))

    def add_record(
        self,
        record: Record,
        *,
        visibility: Visibility = "private",
        metadata: Mapping[str, Any] = EMPTY,
        importance: float = 0.5,
        **whose: str | None,
    ) -> AddResult:
        """Remember a `Fact`, `Episode`, `Pattern` or `Workflow`; the same again adds nothing.

        `from_memory` (in `agentmem.core.living.records`) reads it back.
        """
        from agentmem.core.living.records import Record, to_memory_fields

        if not isinstance(record, Record):
            raise InvalidInput(
                "record", record, "is no record",
                remedy="Pass a Fact, Episode, Pattern or Workflow.",
            )  # fmt: skip
        fields = to_memory_fields(record)
        if not fields.title.strip():
            raise InvalidInput(
                "record", record, "has no name", remedy="Give its key, title or trigger."
            )
        told = {**require_mapping(metadata, "metadata"), **fields.metadata}
        maker = self._maker(whose, visibility, told)
        memory = remembering.from_text(
            maker, fields.text, kind=fields.kind, title=fields.title, importance=importance
        )
        kept = fields.metadata
        return self._put_new(
            maker,
            [memory],
            same=lambda m: (
                m.content_hash,
                m.kind,
                all(m.metadata.get(n) == kept[n] for n in kept),
            ),
        )

    def add_messages(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        session: str = "",
        once: bool = False,
        listen: bool = True,
        visibility: Visibility = "private",
        metadata: Mapping[str, Any] = EMPTY,
        **whose: str | None,
    ) -> AddResult:
        """Remember a conversation, one memory a message; a message already there adds nothing.

        The same words at another time are another message, unless `once`: then
        what a speaker said before is not kept again. What the user says about
        themselves in new messages reaches the profile unless `listen` is off (P45).
        """
        require_text(session, "session")
        maker = self._maker(whose, visibility, metadata)
        memories = remembering.from_messages(maker, messages, session=session)
        same = remembering.same_words if once else remembering.same_message
        result = self._put_new(maker, memories, same=same)
        if listen:
            new = {item.id for item in result.items if item.event == "ADD"}
            self._listen([memory for memory in memories if memory.id in new], maker.scope)
        return result

    def _listen(self, memories: Sequence[Memory], scope: Scope) -> None:
        """Let what the user says in new messages reach the profile; others' words do not."""
        own = (scope.user_id, "user", "")
        said = [m for m in memories if m.origin == "user" and m.speaker in own]
        if said and scope.user_id is not None:
            preferences = cast("MemoryManager", self).preferences
            ordered = sorted(said, key=lambda memory: memory.created_at)
            preferences.listen(
                [{"role": "user", "content": memory.text} for memory in ordered],
                user_id=scope.user_id,
            )

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
        if not isinstance(document, Document):
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
        chunks = require_items(chunks, "chunks", "texts")
        memories = remembering.from_chunks(maker, chunks, url=url, title=title)
        digest = content_hash("\n\n".join([title, *chunks]))
        return self._replace(maker, memories, digest, title=title, vectors=vectors)

    def _maker(
        self, whose: Mapping[str, str | None], visibility: Visibility, metadata: Mapping[str, Any]
    ) -> remembering.Maker:
        return remembering.Maker(
            scope=scope_of(whose),
            visibility=visibility,
            now=self.clock.now(),
            new_ids=self.ids.take,
            metadata=metadata,
        )

    def _put_new(
        self,
        maker: remembering.Maker,
        memories: Sequence[Memory],
        *,
        same: Sameness,
    ) -> AddResult:
        known = self._known(maker.scope, memories)
        unknown, ids = split_new([Entry(memory=m) for m in memories], known, same)
        added, degradations = self._put([entry.memory for entry in unknown], same=same)
        items = [
            Added(id=there, text=memory.text, event="ADD" if there == memory.id else "NONE")
            for memory, there in zip(memories, (added.get(i, i) for i in ids), strict=True)
        ]
        unchanged = all(item.event == "NONE" for item in items)
        return AddResult(items=tuple(items), unchanged=unchanged, degradations=degradations)

    def _known(self, scope: Scope, memories: Sequence[Memory]) -> list[Memory]:
        """What this owner may have of `memories` already: known before anything is embedded."""
        hashes = tuple({memory.content_hash for memory in memories})
        if not hashes:
            return []
        where = Compare(field="content_hash", operator="in", value=hashes)
        kinds = tuple({memory.kind for memory in memories})
        return list(self.store.scan(Selection(reader=scope, where=where, kinds=kinds)))

    def _put(
        self, memories: Sequence[Memory], *, same: Sameness
    ) -> tuple[dict[str, str], tuple[str, ...]]:
        """Store what nobody added meanwhile: the id that each has, and what went wrong."""
        if not memories:
            return {}, ()
        with span("create_memory", store_id=self.telemetry_id) as told:
            entries = self._entries(memories)
            ids = self.store.put_new(entries, same=same)
            told.found(len(entries))
        self._judge_later(memories)
        there = {memory.id: found for memory, found in zip(memories, ids, strict=True)}
        return there, self._after_write(entries)

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
        # Known before anything is embedded; a few ready vectors cost less than asking.
        ready = vectors is not None and len(memories) <= FEW_CHUNKS
        if not ready and self.store.has_source(source):
            return AddResult(unchanged=True)
        with span("upsert_memory", store_id=self.telemetry_id) as told:
            entries = self._entries(memories, vectors=vectors)
            report = self.store.replace_source(source, entries, at=maker.now)
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
