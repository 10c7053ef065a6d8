"""What a memory does to keep itself in order: consolidate, undo, contradictions, learning.

Each call is a door to a module of its own, opened when it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from agentmem.core.checks import require_count, require_text
from agentmem.manager.base import Base
from agentmem.manager.whose import scope_of

if TYPE_CHECKING:
    from agentmem.core.living.plans import ConsolidationSettings
    from agentmem.living.reports import ConsolidationReport
    from agentmem.manager import MemoryManager
    from agentmem.stores.revisions import JournalEntry, Undone


class Living(Base):
    """The calls that keep a memory small, true and useful."""

    def consolidate(
        self,
        *,
        dry_run: bool = False,
        settings: ConsolidationSettings | None = None,
        full: bool = False,
        **whose: str | None,
    ) -> ConsolidationReport:
        """Merge, shorten, forget, link and look for contradictions, all in one step (P37).

        `undo(report.journal_id)` takes it back. A dry run changes nothing and
        reports what a run would do now. Only what changed since the last run
        is compared again, unless `full`.
        """
        from agentmem.living.consolidating import Consolidator

        consolidator = Consolidator(cast("MemoryManager", self))
        return consolidator.run(scope_of(whose), dry_run=dry_run, settings=settings, full=full)

    def undo(self, journal_id: str, **whose: str | None) -> Undone:
        """Take a consolidation or a resolution back; what was changed since stays as it is."""
        require_text(journal_id, "journal_id")
        return self.store.journal.undo(scope_of(whose), journal_id, at=self.clock.now())

    def journal(self, limit: int = 20, **whose: str | None) -> tuple[JournalEntry, ...]:
        """The newest runs that can be undone, and those that were."""
        return self.store.journal.recent(scope_of(whose), limit=require_count(limit, "limit"))
