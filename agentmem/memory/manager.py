"""The everyday API: one object that wires store, indexes and embedder, remembers and finds.

What serves a loop is a door to a module of its own, opened when it is used.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Any,
    ParamSpec,
    Self,
    TypeAlias,
    TypeVar,
    Unpack,
    cast,
    overload,
)

from agentmem.base.checks import require_count, require_items, require_mapping, require_text
from agentmem.base.config import MemorySettings, SearchMode
from agentmem.base.errors import (
    AgentMemError,
    BadVector,
    ChangedMeanwhile,
    DuplicateRecord,
    InvalidInput,
)
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
    ScopeLike,
    Visibility,
    Whose,
    may_state,
)
from agentmem.memory.parts import Living, MemoryUpkeep, Sources, saying
from agentmem.search.embedding import Embedding
from agentmem.search.intake import (
    Instant,
    Maker,
    from_messages,
    from_text,
    instant,
    prepare_all,
    read_scope,
    require_something,
    scope_and_filter,
    scope_of,
)
from agentmem.search.local import LocalSearch
from agentmem.search.parts import judge_later
from agentmem.search.protocol import Search
from agentmem.search.results import Added, AddResult, Memories, SearchResults
from agentmem.search.retriever import Request, Reranker, Retriever
from agentmem.stores.base import Store
from agentmem.stores.values import Entry, Receipt, Version
from agentmem.stores.writing import Sameness, split_new

if TYPE_CHECKING:
    from openai import AsyncOpenAI, OpenAI

    from agentmem.agent.adapters.openai_types import RememberingAsyncOpenAI, RememberingOpenAI
    from agentmem.agent.adapters.turn import Remembering, TurnOptions
    from agentmem.agent.runtime import Runtime
    from agentmem.agent.turn import Turn
    from agentmem.base.config import LoopConfig
    from agentmem.living.facts import Record
    from agentmem.living.predict import Signal
    from agentmem.living.preferences import PreferenceStore
    from agentmem.memory.parts import Signals
    from agentmem.search.embedding import Vectors
    from agentmem.sources.web.enhanced import SearchOptions

P = ParamSpec("P")
T = TypeVar("T")
C = TypeVar("C")

_log = logging.getLogger(__name__)
_LATE_SECONDS = 5.0
_MAKING = threading.Lock()


def on_a_thread(call: Callable[P, T]) -> Callable[P, Coroutine[Any, Any, T]]:
    """`call` for callers that await."""

    @wraps(call)
    async def run(*args: P.args, **kwargs: P.kwargs) -> T:
        import asyncio

        return await asyncio.to_thread(call, *args, **kwargs)

    return run


Addable: TypeAlias = "str | Mapping[str, Any] | Sequence[Mapping[str, Any]] | Document | Record"


class AddOptions(Whose, total=False):
    """What `add` may be told; which of it goes with what is added, its own call says."""

    id: str | None
    kind: str
    title: str
    url: str
    session: str
    once: bool
    listen: bool
    created_at: Instant
    visibility: Visibility
    metadata: Mapping[str, Any]
    importance: float


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
        self.telemetry_id = "memory" if path is None else path.name
        self._runtime: Runtime | None = None
        self.under_way = UnderWay()
        self.early_pages = Early(lambda: self.runtime.indexer.enqueue_page)
        self.clock = clock or SystemClock()
        self.ids = Ids(self.clock)
        self.retriever = Retriever(store, self.index, self.embedding, rerank=rerank)

    def __repr__(self) -> str:
        where = ":memory:" if self.path is None else str(self.path)
        return f"MemoryManager({where!r}{', closed' if self._closed else ''})"

    def add(self, data: Addable, **said: Unpack[AddOptions]) -> AddResult:
        """Remember a text, messages, a document, or a `Fact`, `Episode`, `Pattern` or `Workflow`.

        One text is one memory, and the same again adds nothing. What a private fact
        in the first person says about its user reaches the profile (P45). With an
        `id` of your own only the same text under that id is the same; another text
        under it raises `DuplicateRecord`. `from_memory` (in `agentmem.living.facts`)
        reads a record back.

        A message is one memory; one that is there already adds nothing. The same
        words at another time are another message, unless `once`: then what a speaker
        said before is not kept again. What the user says about themselves in new
        messages reaches the profile unless `listen` is off (P45).

        A document is cut into chunks, as by `sources.add_document`. `created_at` is
        when it was got, if that was before now.
        """
        options: dict[str, Any] = {**said}
        if isinstance(data, Document):
            return self.sources.add_document(data, **options)
        if isinstance(data, str):
            return self._add_text(data, **options)
        if isinstance(data, Mapping):
            return self._add_messages([data], **options)
        if isinstance(data, Sequence) and not isinstance(data, str | bytes):
            return self._add_messages(data, **options)
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

    def _add_messages(
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
            self.preferences.listen(messages, user_id=scope.user_id, project_id=scope.project_id)

    def search(
        self,
        query: str,
        *,
        top_k: int | None = None,
        threshold: float | None = None,
        mode: SearchMode | None = None,
        filters: Mapping[str, Any] | None = None,
        kinds: Sequence[str] | None = None,
        url: str | None = None,
        session: str | None = None,
        since: Instant = None,
        until: Instant = None,
        as_of: Instant = None,
        explain: bool = False,
        cold: bool | None = None,
        questions: bool = False,
        by_question: bool = True,
        limit: int | None = None,
        **whose: Unpack[Whose],
    ) -> SearchResults:
        """The memories that answer `query`, best first, none below `threshold` (P1).

        `limit` is another name for `top_k`. A query without words finds nothing.
        Memories that were put away are searched when the others do not answer
        well, always with `cold=True` and never with `cold=False`. What a user
        only asked answers nothing and is found with `questions=True` alone. A
        question about the user's own world raises what was told to at least what it
        would be worth in a turn; `by_question=False` gives the ranking's own scores.
        """
        if top_k is not None and limit is not None:
            raise InvalidInput("limit", limit, "is top_k said twice", remedy="Give one of them.")
        wanted = limit if top_k is None else top_k
        usual = self.settings.recall
        request = Request(
            query=query,
            selection=replace(
                self._selection(whose, filters, kinds=kinds, as_of=as_of),
                source_url=url,
                session=session,
                since=instant(since, "since"),
                until=instant(until, "until"),
            ),
            top_k=usual.search_top_k if wanted is None else wanted,
            threshold=usual.similarity_threshold if threshold is None else threshold,
            mode=mode or usual.search_mode,
            explain=explain,
            cold=cold,
            questions=questions,
            by_question=by_question,
            now=self.clock.now(),
        )
        with span("search_memory", query=query, store_id=self.telemetry_id) as told:
            found = self.retriever.search(request)
            shown = found if told.wants_records else ()
            told.found(
                len(found),
                [{"id": h.memory.id, "score": h.score, "content": h.memory.text} for h in shown],
            )
        return found

    def get(self, memory_id: str, **whose: Unpack[Whose]) -> Memory:
        """The memory with this id; `RecordNotFound` if this reader has none."""
        return self.store.get(scope_of(whose), require_text(memory_id, "memory_id"))

    def get_all(
        self,
        *,
        filters: Mapping[str, Any] | None = None,
        kinds: Sequence[str] | None = None,
        limit: int = 100,
        superseded: bool = False,
        forgotten: bool = False,
        as_of: Instant = None,
        **whose: Unpack[Whose],
    ) -> Memories:
        """Up to `limit` memories of this reader, newest first; the forgotten ones on request."""
        selection = self._selection(whose, filters, kinds=kinds, as_of=as_of)
        selection = replace(selection, superseded=superseded, forgotten=forgotten)
        return Memories(self.store.recent(selection, limit=require_count(limit, "limit")))

    def history(self, memory_id: str, **whose: Unpack[Whose]) -> tuple[Version, ...]:
        """What a memory said before each change, oldest first."""
        return self.store.history(scope_of(whose), require_text(memory_id, "memory_id"))

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
            changes |= saying(text)
        with span("update_memory", store_id=self.telemetry_id, record_id=memory_id):
            while True:  # what somebody else changed meanwhile stays changed
                old = self.store.get(scope, memory_id)
                (entry,) = self._entries([replace(old, **changes)])
                with suppress(ChangedMeanwhile):
                    new = self.store.update(scope, entry, at=self.clock.now(), was=old)
                    break
        if text is not None:
            self._judge_later([new])
        return new

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
        return self._erase(
            scope,
            find=lambda: self.store.to_erase(scope, ids),
            erase=lambda: self.store.erase(scope, ids, at=self.clock.now()),
        )

    @property
    def upkeep(self) -> MemoryUpkeep:
        """Look after the memory as a whole: check it, copy it, move it."""
        return MemoryUpkeep(self)

    @property
    def sources(self) -> Sources:
        """Remember pages, files and addresses."""
        return Sources(self)

    @property
    def living(self) -> Living:
        """Learn, consolidate, resolve and predict."""
        return Living(self)

    @property
    def preferences(self) -> PreferenceStore:
        """What users told about themselves."""
        return self.runtime.preferences

    def turn(
        self,
        messages: Sequence[Any],
        *,
        model: str = "",
        tools: Sequence[Mapping[str, Any]] | None = None,
        scope: ScopeLike | None = None,
        config: LoopConfig | None = None,
        message_id: str = "",
        trim: bool = False,
        dry: bool = False,
        signals: Signals = (),
        **whose: Unpack[Whose],
    ) -> Turn:
        """One turn of a loop of your own: send `turn.messages`, then say `turn.done(answer)`.

        It never raises because memory failed. With `trim` old messages give
        way when the window is too small, and `BudgetError` is raised when what
        must be sent does not fit. `dry` keeps nothing of the turn. `signals`
        say what is going on (a file that is open, an error seen): what is cited
        under them is predicted the next time.
        """
        from agentmem.agent.turn import Turn

        said: tuple[Signal, ...] = ()
        if signals != ():
            from agentmem.living.predict import read_signals

            said = read_signals(signals)
        return Turn(
            self,
            messages,
            model=model,
            tools=tools,
            scope=read_scope(scope, whose),
            config=config,
            message_id=message_id,
            trim=trim,
            dry=dry,
            signals=said,
        )

    aturn = on_a_thread(turn)

    def wrap(self, fn: Callable[P, T], **how: Unpack[TurnOptions]) -> Remembering[P, T]:
        """A chat-completions callable with memory: the same signature, the same return type.

        Sync or async, streaming or not. `scope` says whose memory it is, `config` how its
        turns go, and `on_turn` is shown each turn when it has ended. Each call may say
        `memory_scope=` and `memory_off=`.
        """
        from agentmem.agent.adapters.turn import wrap

        memory = self
        return wrap(memory, fn, **how)

    @overload
    def wrap_openai(self, client: OpenAI, **how: Unpack[TurnOptions]) -> RememberingOpenAI: ...
    @overload
    def wrap_openai(
        self, client: AsyncOpenAI, **how: Unpack[TurnOptions]
    ) -> RememberingAsyncOpenAI: ...
    @overload
    def wrap_openai(self, client: C, **how: Unpack[TurnOptions]) -> C: ...
    def wrap_openai(self, client: Any, **how: Unpack[TurnOptions]) -> Any:
        """An OpenAI client with memory; yours stays as it is. Options as in `wrap`."""
        from agentmem.agent.adapters.clients import wrap_openai

        memory = self
        return wrap_openai(client, memory, **how)

    def wrap_anthropic(self, client: C, **how: Unpack[TurnOptions]) -> C:
        """An Anthropic client with memory; yours stays as it is. Options as in `wrap`."""
        from agentmem.agent.adapters.clients import wrap_anthropic

        memory = self
        return wrap_anthropic(client, memory, **how)

    def wrap_search(
        self,
        fn: Callable[P, T],
        *,
        allow_private: bool = False,
        **options: Unpack[SearchOptions],
    ) -> Remembering[P, T]:
        """A web-search function with memory beside its results.

        Each call may say `memory_scope=`; `options` are those of `enhanced_search`.
        Addresses in a private network are shown in citations only with `allow_private`.
        """
        from agentmem.sources.web.enhanced import wrap_search

        found = wrap_search(self, fn, allow_private=allow_private, **options)
        return cast("Remembering[P, T]", found)

    def flush(self, timeout_seconds: float | None = None) -> bool:
        """Wait for the background work; whether all of it was done in time."""
        began = time.monotonic()
        if not (self.under_way.wait(timeout_seconds) and self.early_pages.settle(timeout_seconds)):
            return False

        def left() -> float | None:
            if timeout_seconds is None:
                return None
            return max(0.0, timeout_seconds - (time.monotonic() - began))

        if self._runtime is not None and not self._runtime.worker.flush(left()):
            return False
        return self.embedding.wait(left())

    def close(self) -> None:
        """Save what can be saved and close; again is harmless.

        A turn that was stopped while it was built is let finish: it keeps what
        the user said.
        """
        if self._closed:
            return
        self.under_way.wait(_LATE_SECONDS)
        self.early_pages.close(_LATE_SECONDS)
        self._closed = True
        if self._runtime is not None:
            self._runtime.close()
        self.embedding.close()
        if self.settings.save_indexes:
            try:
                self.index.save(self.embedding.serving_id, if_worth=True)
            except (AgentMemError, OSError) as error:
                _log.warning(
                    "The indexes could not be saved; they are built at the next open: %s", error
                )
        self.index.close()
        self.store.close()
        # It holds this memory: what was closed is freed now, not when the collector comes round.
        self._runtime = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def runtime(self) -> Runtime:
        """What the turns of this memory share; made when it is first needed.

        After `close` whoever asks gets one of their own that takes no work.
        """
        found = self._runtime
        if found is None:
            from agentmem.agent.runtime import Runtime

            with _MAKING:
                found = self._runtime or Runtime(self)
                if self._closed:
                    found.close()
                else:
                    self._runtime = found
        return found

    def _erase(
        self,
        scope: Scope,
        *,
        find: Callable[[], Sequence[Memory]],
        erase: Callable[[], Receipt],
        everything: bool = False,
    ) -> Receipt:
        """Erase what `find` finds, also from what was learned and what is kept in memory."""
        from agentmem.living.predict import Predictions

        self.early_pages.settle()
        if self._runtime is not None:  # what it holds of `scope` would come back otherwise
            self._runtime.settle(scope)
        with span("delete_memory", store_id=self.telemetry_id) as told:
            if self._runtime is not None:
                self._runtime.tiers.forget()
                predictions = self._runtime.predictions
            else:
                predictions = Predictions(self)
            predictions.forget(scope, find(), everything=everything)  # before files are cleaned
            receipt = erase()
            told.found(len(receipt.ids))
        self.index.forget()
        self.embedding.forget()
        if self._runtime is not None:
            self._runtime.forget()
        return receipt

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

    def _judge_later(self, memories: Sequence[Memory]) -> None:
        """Have new memories compared with what they may contradict."""
        for scope in {one.scope for one in memories if may_state(one)}:
            judge_later(self, scope)


def _ids(memory_id: str | Sequence[str]) -> list[str]:
    return [memory_id] if isinstance(memory_id, str) else require_items(memory_id, "ids", "ids")
