"""What a web search is, and what it gives back."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Any, Protocol, runtime_checkable

from agentmem.core.checks import require_text
from agentmem.core.values import dataclass
from agentmem.errors import InvalidInput


@dataclass(frozen=True, slots=True, kw_only=True)
class WebResult:
    """One thing the web search found, cleaned.

    `url` is empty where the address may not be shown as a link (a script, a
    private network). `content` is the page's readable text once it was read.
    """

    title: str = ""
    url: str = ""
    snippet: str = ""
    date: date | None = None
    service: str = ""
    content: str = ""

    def __post_init__(self) -> None:
        for name in ("title", "url", "snippet", "service", "content"):
            require_text(getattr(self, name), name)
        if self.date is not None and not isinstance(self.date, date):
            raise InvalidInput("date", self.date, "is not a date", remedy="Pass a date or None.")

    @property
    def text(self) -> str:
        """The most that is known of the page."""
        return self.content or self.snippet

    def to_dict(self) -> dict[str, Any]:
        """The result as JSON values."""
        return {
            "title": self.title,
            "url": self.url,
            "snippet": self.snippet,
            "date": self.date.isoformat() if self.date else None,
            "service": self.service,
            "fetched": bool(self.content),
        }


@runtime_checkable
class WebSearch(Protocol):
    """Something that searches the web.

    No results is an empty sequence. `RateLimited` says that it was asked too
    often; any other error counts as a failure, and the next service is tried.
    """

    async def search(self, query: str, *, max_results: int) -> Sequence[WebResult]: ...
