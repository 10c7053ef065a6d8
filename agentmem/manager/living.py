"""What a memory does to keep itself in order: consolidate, undo, contradictions, learning.

Each call is a door to a module of its own, opened when it is used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from agentmem.core.checks import require_count, require_text
from agentmem.errors import InvalidInput
from agentmem.manager.base import Base
from agentmem.manager.whose import Instant, instant, scope_of

if TYPE_CHECKING:
    from agentmem.core.living.plans import ConsolidationSettings
    from agentmem.living.asking import Model, Spend
    from agentmem.living.contradictions import Contradiction, Resolution
    from agentmem.living.learning import Learned
    from agentmem.living.merging_stores import MergeReport
    from agentmem.living.reports import ConsolidationReport
    from agentmem.living.settling import Resolved
    from agentmem.manager import MemoryManager
    from agentmem.results import SearchResults
    from agentmem.searches import Request
    from agentmem.stores.revisions import JournalEntry, Undone
    from agentmem.types import Memory


class Living(Base):
    """The calls that keep a memory small, true and useful."""

    def consolidate(
        self,
        *,
        dry_run: bool = False,
        settings: ConsolidationSettings | None = None,
        full: bool = False,
        model: Model | None = None,
        spend: Spend | None = None,
        **whose: str | None,
    ) -> ConsolidationReport:
        """Merge, shorten, forget, link and look for contradictions, all in one step (P37).

        `undo(report.journal_id)` takes it back. A dry run changes nothing and
        reports what a run would do now. Only what changed since the last run
        is compared again, unless `full`. A `model` (a litellm name or a
        chat-completions callable) writes shorter summaries and looks at what
        the rules are not sure of, within `spend`; a dry run asks none.
        """
        from agentmem.living.consolidating import Consolidator

        consolidator = Consolidator(cast("MemoryManager", self))
        return consolidator.run(
            scope_of(whose),
            dry_run=dry_run,
            settings=settings,
            full=full,
            model=model,
            spend=spend,
        )

    def undo(self, journal_id: str, **whose: str | None) -> Undone:
        """Take a run or what was learned back; what was changed since stays as it is."""
        require_text(journal_id, "journal_id")
        return self.store.journal.undo(scope_of(whose), journal_id, at=self.clock.now())

    def journal(self, limit: int = 20, **whose: str | None) -> tuple[JournalEntry, ...]:
        """The newest runs that can be undone, and those that were."""
        return self.store.journal.recent(scope_of(whose), limit=require_count(limit, "limit"))

    def bring_back(self, memory_id: str | Sequence[str], **whose: str | None) -> JournalEntry:
        """Let memories that were forgotten or put away be found again; `undo` takes it back."""
        from agentmem.living.consolidating import bring_back

        ids = [memory_id] if isinstance(memory_id, str) else list(memory_id)
        return bring_back(cast("MemoryManager", self), scope_of(whose), ids)

    def contradictions(
        self, *, open_only: bool = True, **whose: str | None
    ) -> tuple[Contradiction, ...]:
        """Memories that cannot both be true, oldest first; the resolved ones on request."""
        from agentmem.living.settling import Settler

        settler = Settler(cast("MemoryManager", self))
        return settler.all(scope_of(whose), open_only=open_only)

    def contradiction(self, contradiction: str, **whose: str | None) -> Contradiction:
        """One contradiction by its id, or the beginning of it."""
        from agentmem.living.settling import Settler

        return Settler(cast("MemoryManager", self)).get(scope_of(whose), contradiction)

    def resolve(
        self, contradiction: str, resolution: Resolution, *, note: str = "", **whose: str | None
    ) -> Resolved:
        """Say what is true: `a_wins`, `b_wins`, `both_valid` or `merged`.

        The side that does not hold is superseded, and kept; `undo` with the
        result's `journal_id` opens the contradiction again.
        """
        from agentmem.living.settling import Settler

        settler = Settler(cast("MemoryManager", self))
        return settler.resolve(scope_of(whose), contradiction, resolution, note=note)

    def learn(
        self,
        data: str | Mapping[str, Any] | Sequence[Mapping[str, Any]],
        *,
        model: Model | None = None,
        spend: Spend | None = None,
        dry_run: bool = False,
        **whose: str | None,
    ) -> Learned:
        """Keep the facts, decisions and fixes that a user's text or turns state, in one step.

        A later value for the same key takes the earlier one's place (P38).
        Turns of others than the user teach nothing. `undo(result.journal_id)`
        takes it all back; a dry run changes nothing. A `model` (a litellm name
        or a chat-completions callable) finds what the rules miss, within
        `spend`; what it proposes is kept only if the text says it (L11). What
        users say about themselves reaches their profile too (P45); that is
        taken back with `preferences.undo`.
        """
        from agentmem.living.learning import Learner

        memory = cast("MemoryManager", self)
        learner, scope = Learner(memory), scope_of(whose)
        said = learner.read(scope, data)
        learned = learner.learn(scope, said, model=model, spend=spend, dry_run=dry_run)
        if scope.user_id is not None and not dry_run:
            ordered = sorted(said, key=lambda one: one.at)
            own: list[dict[str, Any]] = [{"role": "user", "content": one.text} for one in ordered]
            memory.preferences.listen(own, user_id=scope.user_id)
        return learned

    def history_of(
        self, key: str, *, as_of: Instant = None, **whose: str | None
    ) -> tuple[Memory, ...]:
        """Every value that a key ("API limit") ever had, earliest first; or the one as of then."""
        from agentmem.living.learning import Learner

        learner = Learner(cast("MemoryManager", self))
        return learner.history(scope_of(whose), key, as_of=instant(as_of, "as_of"))

    def merge_from(
        self, path: str | Path | None = None, *, user_id: str | None = None, into: str | None = None
    ) -> MergeReport:
        """Take in another store (`path`), or give a copy of `user_id`'s memories to `into`.

        Nothing is lost and the other side stays as it is. What both have is
        kept once; where they disagree the report says what was done.
        """
        from agentmem.living.merging_stores import StoreMerger

        merger = StoreMerger(cast("MemoryManager", self))
        if path is None:
            return merger.merge_user(user_id, into)
        if user_id is not None or into is not None:
            raise InvalidInput(
                "path", str(path), "and users are two different merges", remedy="Pass one of them."
            )
        from agentmem.stores.sqlite import SqliteStore

        if not Path(path).is_file():
            raise InvalidInput("path", str(path), "is no store", remedy="Name a store's file.")
        with SqliteStore(path) as other:
            report = merger.merge_store(other)
        if report.added and self.settings.embed_in_background:
            self.embedding.fill_gaps_in_background()
        return report

    def find(self, request: Request) -> SearchResults:
        """What a search finds that was put together already."""
        return self._retriever.search(request)
