"""The parts of a memory that are not of every day: what it learns, its sources, its upkeep.

Each call is a door to a module of its own, opened when it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from agentmem.base.checks import require_count, require_items, require_path, require_text
from agentmem.base.errors import InvalidInput
from agentmem.base.telemetry import span
from agentmem.base.types import EMPTY, Document, Memory, Visibility, Whose, content_hash
from agentmem.search.embedding import Progress
from agentmem.search.intake import (
    Instant,
    from_chunks,
    from_document,
    instant,
    require_something,
    scope_of,
)
from agentmem.search.results import (
    Added,
    AddResult,
    FolderReport,
    IndexingResult,
    Memories,
    Stats,
)
from agentmem.search.results import Progress as FolderProgress
from agentmem.stores.values import Receipt, Source, VerifyReport

if TYPE_CHECKING:
    from agentmem.base.config import LoopConfig
    from agentmem.living.consolidate import ConsolidationReport
    from agentmem.living.learn import Learned
    from agentmem.living.merge import MergeReport
    from agentmem.living.models import Model, Spend
    from agentmem.living.plans import ConsolidationSettings
    from agentmem.living.predict import Prediction, Signal, SignalKind
    from agentmem.living.settle import Contradiction, Resolution, Resolved
    from agentmem.living.tiers import Prefetched, Shares, TieredContext
    from agentmem.memory.manager import MemoryManager
    from agentmem.search.embedding import Vectors
    from agentmem.sources.code import LearnedPatterns
    from agentmem.sources.fetch import FetchLimits
    from agentmem.sources.imports.load import ImportSummary
    from agentmem.sources.imports.load import Source as ImportSource
    from agentmem.stores.journal import JournalEntry, Undone
    from agentmem.stores.jsonl import ImportReport

    Signals = Sequence[Signal | tuple[str, str]]


FEW_CHUNKS = 8


def saying(text: str) -> dict[str, Any]:
    """What changes in a memory that says something else: what was made of its text goes."""
    said = {"text": require_something(text), "content_hash": content_hash(text)}
    return {**said, "summary": None, "compressed": None, "index": None}


class ManagerPart:
    """Calls of a memory under a name of their own."""

    def __init__(self, memory: MemoryManager) -> None:
        self._memory = memory


class Living(ManagerPart):
    """The calls that keep a memory in order: `memory.living`."""

    def learn(
        self,
        data: str | Mapping[str, Any] | Sequence[Mapping[str, Any]],
        *,
        model: Model | None = None,
        spend: Spend | None = None,
        dry_run: bool = False,
        **whose: Unpack[Whose],
    ) -> Learned:
        """Keep the facts, decisions and fixes that a user's text or turns state, in one step.

        A later value for the same key takes the earlier one's place (P38).
        Turns of others than the user teach nothing. `undo(result.journal_id)`
        takes it all back; a dry run changes nothing. A `model` (a litellm name
        or a chat-completions callable) finds what the rules miss, within
        `spend`; what it proposes is kept only if the text says it (L11). What
        users say about themselves reaches their profile too (P45).
        """
        from agentmem.living.learn import Learner

        learner, scope = Learner(self._memory), scope_of(whose)
        said = learner.read(scope, data)
        return learner.learn(scope, said, model=model, spend=spend, dry_run=dry_run)

    def history_of(
        self, key: str, *, as_of: Instant = None, **whose: Unpack[Whose]
    ) -> tuple[Memory, ...]:
        """Every value that a key ("API limit") ever had, earliest first; or the one as of then."""
        from agentmem.living.learn import Learner

        moment = instant(as_of, "as_of")
        return Learner(self._memory).history(scope_of(whose), key, as_of=moment)

    def consolidate(
        self,
        *,
        dry_run: bool = False,
        settings: ConsolidationSettings | None = None,
        full: bool = False,
        model: Model | None = None,
        spend: Spend | None = None,
        **whose: Unpack[Whose],
    ) -> ConsolidationReport:
        """Merge, shorten, forget, link and look for contradictions, all in one step (P37).

        `undo(report.journal_id)` takes it back. A dry run changes nothing and
        reports what a run would do now. Only what changed since the last run
        is compared again, unless `full`. A `model` (a litellm name or a
        chat-completions callable) writes shorter summaries and looks at what
        the rules are not sure of, within `spend`; a dry run asks none.
        """
        from agentmem.living.consolidate import consolidate

        return consolidate(
            self._memory,
            scope_of(whose),
            dry_run=dry_run,
            settings=settings,
            full=full,
            model=model,
            spend=spend,
        )

    def supersede(self, memory_id: str, text: str, **whose: Unpack[Whose]) -> Memory:
        """Put a newer statement in a memory's place; the older one stays in the record."""
        memory, scope = self._memory, scope_of(whose)
        now = memory.clock.now()
        old = memory.store.get(scope, require_text(memory_id, "memory_id"))
        new = replace(
            old,
            **saying(text),
            id=memory.ids.new(),
            created_at=now,
            valid_from=now,
            valid_to=None,
            supersedes=old.id,
            superseded_by=None,
        )
        with span("update_memory", store_id=memory.telemetry_id, record_id=old.id):
            (entry,) = memory._entries([new])
            kept = memory.store.supersede(scope, old.id, entry, at=now)
        memory._judge_later([kept])
        return kept

    def undo(self, journal_id: str, **whose: Unpack[Whose]) -> Undone:
        """Take a run or what was learned back, in the profile too; what was changed since stays.

        What the background found out about it meanwhile goes with it.
        """
        from agentmem.living.learn import HEARD, take_back
        from agentmem.living.settle import JUDGE

        scope, journal = scope_of(whose), self._memory.store.journal
        heard = journal.get(scope, require_text(journal_id, "journal_id")).report.get(HEARD, ())
        now = self._memory.clock.now()
        undone = journal.undo(scope, journal_id, at=now, along=(JUDGE,))
        return replace(undone, removed=undone.removed + take_back(self._memory, scope, heard))

    def journal(self, limit: int = 20, **whose: Unpack[Whose]) -> tuple[JournalEntry, ...]:
        """The newest runs that can be undone, and those that were."""
        return self._memory.store.journal.recent(
            scope_of(whose), limit=require_count(limit, "limit")
        )

    def bring_back(self, memory_id: str | Sequence[str], **whose: Unpack[Whose]) -> JournalEntry:
        """Let memories that were forgotten or put away be found again; `undo` takes it back."""
        from agentmem.living.consolidate import bring_back

        given = [memory_id] if isinstance(memory_id, str) else memory_id
        return bring_back(self._memory, scope_of(whose), require_items(given, "memory_id", "ids"))

    def contradictions(
        self, *, open_only: bool = True, **whose: Unpack[Whose]
    ) -> tuple[Contradiction, ...]:
        """Memories that cannot both be true, oldest first; the resolved ones on request."""
        from agentmem.living.settle import Settler

        return Settler(self._memory).all(scope_of(whose), open_only=open_only)

    def contradiction(self, contradiction: str, **whose: Unpack[Whose]) -> Contradiction:
        """One contradiction by its id, or the beginning of it."""
        from agentmem.living.settle import Settler

        return Settler(self._memory).get(scope_of(whose), contradiction)

    def resolve(
        self,
        contradiction: str,
        resolution: Resolution,
        *,
        text: str = "",
        note: str = "",
        **whose: Unpack[Whose],
    ) -> Resolved:
        """Say what is true: `a_wins`, `b_wins`, `both_valid` or `merged`.

        The side that does not hold is superseded, and kept; `merged` with a
        `text` of yours puts that in the place of both. `undo` with the
        result's `journal_id` opens the contradiction again.
        """
        from agentmem.living.settle import Settler

        settler = Settler(self._memory)
        return settler.resolve(scope_of(whose), contradiction, resolution, text=text, note=note)

    def signal(self, kind: SignalKind, value: str, **whose: Unpack[Whose]) -> None:
        """Say what is going on; the turns and predictions of the next two hours know it.

        `kind` is `file`, `branch`, `error`, `time`, `collaborator`, `tool` or `task`.
        """
        from agentmem.living.predict import Signal

        self._memory.runtime.predictions.note(Signal(kind=kind, value=value), scope_of(whose))

    def predict(
        self, signals: Signals = (), limit: int = 10, **whose: Unpack[Whose]
    ) -> tuple[Prediction, ...]:
        """The memories most probably needed in this situation, best first, with a confidence."""
        from agentmem.living.predict import read_signals

        scope = scope_of(whose)
        require_count(limit, "limit")
        tiers = self._memory.runtime.tiers
        given = tiers.signals_for(read_signals(signals), scope)
        return tuple(self._memory.runtime.predictions.predict(given, scope, limit=limit))

    def prefetch(
        self,
        signals: Signals = (),
        *,
        budget_ms: float = 200.0,
        config: LoopConfig | None = None,
        **whose: Unpack[Whose],
    ) -> Prefetched:
        """Make ready what the next turn will need, within about `budget_ms`.

        Tasks and errors among the signals are searched for ahead: a turn that
        says the same is served from the cache. The embedder, the indexes and
        what counts tokens are loaded, so that any other turn is faster too;
        what takes longer than the budget goes on in the background.
        """
        from agentmem.living.predict import read_signals

        return self._memory.runtime.tiers.prefetch(
            scope_of(whose),
            read_signals(signals),
            budget_ms=budget_ms,
            config=config or self._memory.settings.loop,
        )

    def assemble_context(
        self,
        budget: int = 8_000,
        *,
        signals: Signals = (),
        activity: str = "general",
        task: str = "",
        table: Mapping[str, Shares] | None = None,
        model: str = "",
        **whose: Unpack[Whose],
    ) -> TieredContext:
        """What is worth knowing now in four tiers, within `budget` tokens of `model` (P36).

        `task` says in words what is being done. `table` gives shares of your
        own by activity. A part that cannot be read is left out and named in
        `degradations`.
        """
        from agentmem.living.predict import read_signals

        return self._memory.runtime.tiers.assemble(
            scope_of(whose),
            budget_tokens=budget,
            signals=read_signals(signals),
            activity=activity,
            task=task,
            table=table,
            count=self._memory.runtime.tokenizer(model)[0],
        )


# ----------------------------------------------------------------------------
# Remember pages, files, addresses and code: where knowledge comes from.


LIMIT_BYTES = 20_000_000
"""Larger files are refused unless the caller allows more."""


class Sources(ManagerPart):
    """The calls that remember pages, files and addresses: `memory.sources`."""

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
        memory = self._memory
        maker = memory._maker(whose, visibility, metadata)
        maker = replace(maker, now=instant(created_at, "created_at") or maker.now)
        if isinstance(document, str | bytes):
            document = Document(text=document, url=url, title=title)
        if isinstance(document, Document):
            title = document.title
            digest = content_hash(f"{title}\n\n{document.text}")
            settings = memory.settings
            made = from_document(
                maker,
                document,
                target_tokens=settings.chunk_tokens,
                limit_tokens=settings.chunk_limit_tokens,
            )
        else:
            chunks = require_items(document, "chunks", "texts")
            digest = content_hash("\n\n".join([title, *chunks]))
            made = from_chunks(maker, chunks, url=url, title=title)
        source = Source(
            url=made[0].source_url,
            title=title,
            content_hash=digest,
            scope=maker.scope,
            visibility=visibility,
        )
        # Known before anything is embedded; a few ready vectors cost less than asking.
        ready = vectors is not None and len(made) <= FEW_CHUNKS
        if not ready and memory.store.has_source(source):
            return AddResult(unchanged=True)
        with span("upsert_memory", store_id=memory.telemetry_id) as told:
            entries = memory._entries(made, vectors=vectors)
            report = memory.store.replace_source(source, entries, at=memory.clock.now())
            told.found(len(entries))
        return AddResult(
            items=tuple(
                Added(id=one.id, text=one.text, event="ADD")
                for one in (() if report.unchanged else made)
            ),
            unchanged=report.unchanged,
            replaced=report.removed,
            degradations=memory._after_write(entries),
        )

    def index_page(
        self, content: str | bytes, url: str, title: str = "", **whose: Unpack[Whose]
    ) -> IndexingResult:
        """Remember a page now, HTML or text; what went wrong is in the result."""
        return self._memory.runtime.indexer.index_page(content, url, title, **whose)

    def enqueue_page(
        self, content: str | bytes, url: str, title: str = "", **whose: Unpack[Whose]
    ) -> bool:
        """Remember a page in the background; returns at once and never raises."""
        early, sound = self._memory.early_pages, isinstance(content, str | bytes)
        if sound and (early.busy or self._memory._runtime is None) and not self._memory._closed:
            # The first must not wait for what it loads.
            early.call(content, url, title, at=self._memory.clock.now(), **whose)
            return True
        return self._memory.runtime.indexer.enqueue_page(content, url, title, **whose)

    def index_path(
        self,
        path: str | Path,
        *,
        progress: FolderProgress | None = None,
        prune: bool = False,
        limit_bytes: int = LIMIT_BYTES,
        **whose: Unpack[Whose],
    ) -> FolderReport:
        """Remember a file, or every readable file of a folder."""
        return self._memory.runtime.indexer.index_path(
            path, progress=progress, prune=prune, limit_bytes=limit_bytes, **whose
        )

    def index_url(
        self,
        url: str,
        *,
        allow_private: bool = False,
        robots: bool = False,
        limits: FetchLimits | None = None,
        **whose: Unpack[Whose],
    ) -> IndexingResult:
        """Fetch a page and remember it; private addresses are refused unless allowed."""
        return self._memory.runtime.indexer.index_url(
            url, allow_private=allow_private, robots=robots, limits=limits, **whose
        )

    def learn_patterns(
        self, path: str | Path, *, languages: bool = True, **whose: Unpack[Whose]
    ) -> LearnedPatterns:
        """Remember how code is written in a folder, and which files belong together.

        Python is read as it is; other languages when tree-sitter is installed
        (`agentmem-loop[code]`). What was learned of the folder before is replaced.
        """
        from agentmem.sources.code import learn_patterns

        return learn_patterns(
            self._memory,
            path,
            scope=scope_of(whose),
            predictions=lambda: self._memory.runtime.predictions,
            languages=languages,
        )

    def search_by_url(
        self, url: str, *, limit: int | None = None, **whose: Unpack[Whose]
    ) -> Memories:
        """Every chunk of a page, or the first `limit` of them, in its order."""
        if limit is not None:
            require_count(limit, "limit")
        found = self._memory.store.search_by_source_url(scope_of(whose), require_text(url, "url"))
        return Memories(found[:limit])

    def remove_by_url(self, url: str, **whose: Unpack[Whose]) -> int:
        """Delete every chunk of a page."""
        scope = scope_of(whose)
        return self._memory.store.remove_by_source_url(
            scope, require_text(url, "url"), at=self._memory.clock.now()
        )


# ----------------------------------------------------------------------------
# Keep a memory healthy and move it: counts, checks, copies, exports, imports and merges.


class MemoryUpkeep(ManagerPart):
    """The calls that look after a memory as a whole: `memory.upkeep`."""

    def get_stats(self, **whose: Unpack[Whose]) -> Stats:
        """How much there is, how it is indexed, and what is wrong; of one reader if named."""
        scope = scope_of(whose) if any(whose.values()) else None
        return Stats(
            store=self._memory.store.upkeep.stats(scope), embedding=self._memory.embedding.state
        )

    def verify(self) -> VerifyReport:
        """Read and check everything."""
        return self._memory.store.upkeep.verify()

    def erase_all(
        self, *, filters: Mapping[str, Any] | None = None, **whose: Unpack[Whose]
    ) -> Receipt:
        """Erase every private memory of this reader, deleted ones too, or those `filters` pass.

        What was made of them goes with them, as with `erase`.
        """
        memory = self._memory
        selection = replace(
            memory._selection(whose, filters),
            visibilities=("private",),
            deleted=True,
            superseded=True,
        )
        return memory._erase(
            selection.reader,
            find=lambda: memory.store.to_erase_all(selection),
            erase=lambda: memory.store.erase_all(selection, at=memory.clock.now()),
            everything=selection.is_everything,
        )

    def sync(self) -> None:
        """Make everything durable and save the indexes beside the store."""
        self._memory.store.upkeep.sync(at=self._memory.clock.now())
        if self._memory.settings.save_indexes:
            self._memory.index.save(self._memory.embedding.serving_id)

    def backup(self, path: str | Path) -> None:
        """Write a consistent copy of the store while it is in use."""
        self._memory.store.upkeep.backup(Path(require_path(path)))

    def users(self) -> Mapping[str | None, int]:
        """How many memories each user has, most first, in the whole store.

        `None` has those that were added without a user's name. It is for who
        runs the store, as `get_stats` without a name is; no reader needs it.
        """
        return self._memory.store.upkeep.users()

    def vacuum(self) -> None:
        """Give unused space back."""
        self._memory.store.upkeep.vacuum()

    def reembed(self, *, progress: Progress | None = None) -> int:
        """Make every missing vector now; an interrupted run goes on where it stopped (P29)."""
        return self._memory.embedding.fill_gaps(progress=progress)

    def export_jsonl(
        self, path: str | Path, *, vectors: bool = False, **whose: Unpack[Whose]
    ) -> int:
        """Write one JSON object a memory; of one reader if named. Gives how many there are."""
        from agentmem.stores.jsonl import export_jsonl

        scope = scope_of(whose) if any(whose.values()) else None
        return export_jsonl(self._memory.store, path, scope=scope, vectors=vectors)

    def import_jsonl(
        self,
        path: str | Path,
        *,
        skip_bad_lines: bool = False,
        own_words: bool = False,
        as_exported: bool = False,
        **whose: Unpack[Whose],
    ) -> ImportReport:
        """Add what `export_jsonl` wrote, in one transaction; what is there already is skipped.

        Everything becomes the caller's: private, of origin "import", preferences
        as facts. `own_words` says that the user's statements and preferences in
        the file are their own and stays so. `as_exported` is for moving a store
        you trust: every owner, visibility, origin and kind as the file has them.
        Missing vectors are made afterwards, in the background if the settings
        say so.
        """
        from agentmem.sources.imports.load import import_ours

        if as_exported and (own_words or any(whose.values())):
            problem = "keeps every owner and kind as they are in the file"
            remedy = "Leave the name and own_words out, or as_exported."
            raise InvalidInput("as_exported", True, problem, remedy=remedy)
        return import_ours(
            self._memory,
            path,
            scope=None if as_exported else scope_of(whose),
            own_words=own_words,
            skip_bad_lines=skip_bad_lines,
        )

    def import_from(
        self,
        path: str | Path,
        source: ImportSource = "auto",
        *,
        dry_run: bool = False,
        progress: Callable[[int, int], None] | None = None,
        **whose: Unpack[Whose],
    ) -> ImportSummary:
        """Add what mem0, Letta, Zep, ChatGPT, Claude or `export_jsonl` exported.

        With a name everything becomes that owner's. What is there already is
        skipped; what was not taken is counted by reason.
        """
        from agentmem.sources.imports.load import import_from

        return import_from(
            self._memory,
            path,
            source=source,
            scope=scope_of(whose) if any(whose.values()) else None,
            dry_run=dry_run,
            progress=progress,
        )

    def merge_from(
        self, path: str | Path | None = None, *, user_id: str | None = None, into: str | None = None
    ) -> MergeReport:
        """Take in another store (`path`), or give a copy of `user_id`'s memories to `into`.

        Nothing is lost and the other side stays as it is. What both have is
        kept once; where they disagree the report says what was done.
        """
        from agentmem.living.merge import StoreMerger

        merger = StoreMerger(self._memory)
        if path is None:
            return merger.merge_user(user_id, into)
        if user_id is not None or into is not None:
            raise InvalidInput(
                "path", str(path), "and users are two different merges", remedy="Pass one of them."
            )
        from agentmem.stores.sqlite.store import SqliteStore

        if not Path(path).is_file():
            raise InvalidInput("path", str(path), "is no store", remedy="Name a store's file.")
        with SqliteStore(path) as other:
            report = merger.merge_store(other)
        if report.added and self._memory.settings.embed_in_background:
            self._memory.embedding.fill_gaps_in_background()
        return report
