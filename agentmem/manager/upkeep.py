"""Look after a memory as a whole."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Self

from agentmem.core.checks import require_path
from agentmem.embedding import Progress
from agentmem.errors import AgentMemError, InvalidInput
from agentmem.manager.base import Base
from agentmem.manager.whose import scope_of
from agentmem.preparing import prepare
from agentmem.results import Stats
from agentmem.stores.values import VerifyReport

if TYPE_CHECKING:
    from agentmem.stores.jsonl import ImportReport

_log = logging.getLogger(__name__)
_LATE_SECONDS = 5.0


class Upkeep(Base):
    """The calls that keep a memory healthy, move it and close it."""

    def sync(self) -> None:
        """Make everything durable and save the indexes beside the store."""
        self.store.upkeep.sync(at=self.clock.now())
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
        self.store.upkeep.backup(Path(require_path(path)))

    def export_jsonl(self, path: str | Path, *, vectors: bool = False, **whose: str | None) -> int:
        """Write one JSON object a memory; of one reader if named. Gives how many there are."""
        from agentmem.stores.jsonl import export_jsonl

        scope = scope_of(whose) if any(whose.values()) else None
        return export_jsonl(self.store, path, scope=scope, vectors=vectors)

    def import_jsonl(
        self,
        path: str | Path,
        *,
        skip_bad_lines: bool = False,
        own_words: bool = False,
        as_exported: bool = False,
        **whose: str | None,
    ) -> ImportReport:
        """Add what `export_jsonl` wrote, in one transaction; what is there already is skipped.

        Everything becomes the caller's: private, of origin "import", preferences
        as facts. `own_words` says that the user's statements and preferences in
        the file are their own and stays so. `as_exported` is for moving a store
        you trust: every owner, visibility, origin and kind as the file has them.
        Missing vectors are made afterwards, in the background if the settings
        say so.
        """
        from agentmem.stores.jsonl import import_jsonl

        if as_exported and (own_words or any(whose.values())):
            raise InvalidInput(
                "as_exported", True, "keeps every owner and kind as they are in the file",
                remedy="Leave the name and own_words out, or as_exported.",
            )  # fmt: skip
        owner = None if as_exported else scope_of(whose)
        report = import_jsonl(
            self.store,
            path,
            analyse=prepare,
            scope=owner,
            own_words=own_words,
            skip_bad_lines=skip_bad_lines,
        )
        if report.imported and owner is not None:  # of everybody's, consolidation looks at it
            self.judge_later(owner)
        if report.imported and self.settings.embed_in_background:
            self.embedding.fill_gaps_in_background()
        return report

    def close(self) -> None:
        """Save what can be saved and close; again is harmless.

        A turn that was stopped while it was built is let finish: it keeps what
        the user said.
        """
        if self._closed:
            return
        self.under_way.wait(_LATE_SECONDS)
        self.early_pages.settle(_LATE_SECONDS)
        self._closed = True
        if self._runtime is not None:
            self._runtime.close()
        self.embedding.close()
        if self.settings.save_indexes:
            self._save_quietly()
        self.index.close()
        if "_cold_retriever" in self.__dict__:
            self._cold_retriever.index.close()
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
