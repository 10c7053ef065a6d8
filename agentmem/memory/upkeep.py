"""Keep a memory healthy and move it: counts, checks, copies, exports, imports and merges."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from agentmem.base.checks import require_path
from agentmem.base.errors import InvalidInput
from agentmem.base.types import Whose
from agentmem.search.embedding import Progress
from agentmem.search.intake import scope_of
from agentmem.search.results import Stats
from agentmem.stores.values import VerifyReport

if TYPE_CHECKING:
    from agentmem.living.merge import MergeReport
    from agentmem.memory.manager import MemoryManager
    from agentmem.sources.imports.load import ImportSummary
    from agentmem.sources.imports.load import Source as ImportSource
    from agentmem.stores.jsonl import ImportReport


class MemoryUpkeep:
    """The calls that look after a memory as a whole: `memory.upkeep`."""

    def __init__(self, memory: MemoryManager) -> None:
        self._memory = memory

    def get_stats(self, **whose: Unpack[Whose]) -> Stats:
        """How much there is, how it is indexed, and what is wrong; of one reader if named."""
        scope = scope_of(whose) if any(whose.values()) else None
        return Stats(
            store=self._memory.store.upkeep.stats(scope), embedding=self._memory.embedding.state
        )

    def verify(self) -> VerifyReport:
        """Read and check everything."""
        return self._memory.store.upkeep.verify()

    def sync(self) -> None:
        """Make everything durable and save the indexes beside the store."""
        self._memory.store.upkeep.sync(at=self._memory.clock.now())
        if self._memory.settings.save_indexes:
            self._memory.index.save(self._memory.embedding.serving_id)

    def backup(self, path: str | Path) -> None:
        """Write a consistent copy of the store while it is in use."""
        self._memory.store.upkeep.backup(Path(require_path(path)))

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
            raise InvalidInput(
                "as_exported", True, "keeps every owner and kind as they are in the file",
                remedy="Leave the name and own_words out, or as_exported.",
            )  # fmt: skip
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
