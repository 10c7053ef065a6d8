"""What indexing gives back: one page, or a whole folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal

from agentmem.core.values import dataclass

IndexStatus = Literal["added", "replaced", "unchanged", "empty", "failed"]

Progress = Callable[[int, int, Path], None]
"""Called with how many files are done, how many there are, and the one that comes next."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexingResult:
    """What became of one page.

    `empty` is a page without words; what was remembered of it before stays.
    `removed` are the chunks of the older content. `degradations` names what
    did not work although the page was remembered, such as missing vectors.
    """

    url: str
    status: IndexStatus
    title: str = ""
    chunks: int = 0
    removed: int = 0
    tokens: int = 0
    error: str = ""
    duration_ms: float = 0.0
    degradations: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        return self.status != "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class PassedOver:
    """A file or folder that was not remembered, and why."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderReport:
    """What became of a file or of everything in a folder.

    `skipped` is what was left out on purpose (binary, ignored, too large),
    `failed` what should have worked. `vanished` are files that were remembered
    earlier and are gone; `pruned` says how many chunks of them were removed.
    """

    root: str
    results: tuple[IndexingResult, ...] = ()
    skipped: tuple[PassedOver, ...] = ()
    failed: tuple[PassedOver, ...] = ()
    vanished: tuple[str, ...] = ()
    pruned: int = 0
    duration_ms: float = 0.0

    @property
    def files(self) -> int:
        """How many files were read and remembered, or were there already."""
        return len(self.results)

    @property
    def added(self) -> int:
        return self._count("added")

    @property
    def replaced(self) -> int:
        return self._count("replaced")

    @property
    def unchanged(self) -> int:
        return self._count("unchanged")

    @property
    def empty(self) -> int:
        return self._count("empty")

    @property
    def chunks(self) -> int:
        """How many chunks were written."""
        return sum(result.chunks for result in self.results)

    def _count(self, status: IndexStatus) -> int:
        return sum(result.status == status for result in self.results)
