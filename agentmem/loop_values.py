"""What a loop takes and gives: pages, statuses and the result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, Literal

from agentmem.core.budget_report import Budget
from agentmem.core.citations import Citation
from agentmem.core.values import dataclass
from agentmem.errors import InvalidInput
from agentmem.preferences import Preference
from agentmem.tool_runner import ToolOutcome
from agentmem.types import EMPTY, Document, Message

if TYPE_CHECKING:
    pass

Step = Literal[
    "ready", "preferences", "context", "model", "tool", "limit", "answer", "indexing", "stopped"
]
Why = Literal["answered", "limit", "stopped"]
Page = Document | Mapping[str, Any] | tuple[str, str]
"""A page that was seen: a document, `{"url": …, "title": …, "content": …}`, or (url, content)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """What the loop is doing now, in words for people and values for programs."""

    step: Step
    text: str
    data: Mapping[str, Any] = field(default_factory=lambda: EMPTY)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentLoopResult:
    """The answer and everything about how it came to be.

    `messages` is the conversation to go on with: what was passed in, the steps
    of this turn and the answer, without anything memory added. `sent` is what
    the model was sent last. `citations` are those the answer uses, `offered`
    all that it could have used. `why` says what ended the loop.
    """

    answer: str
    messages: tuple[Message, ...]
    citations: tuple[Citation, ...] = ()
    offered: tuple[Citation, ...] = ()
    usage: Mapping[str, int] = field(default_factory=lambda: EMPTY)
    budget: Budget | None = None
    snapshot_id: str = ""
    message_id: str = ""
    degradations: tuple[str, ...] = ()
    tool_calls: tuple[ToolOutcome, ...] = ()
    preferences: tuple[Preference, ...] = ()
    iterations: int = 0
    why: Why = "answered"
    sent: tuple[Message, ...] = ()
    block: str = ""


def read_page(page: Page) -> tuple[str, str, str]:
    """The url, title and content of a page in any of its forms."""
    if isinstance(page, Document):
        return page.url, page.title, page.text
    if isinstance(page, Mapping):
        content = page.get("content") or page.get("text") or page.get("html") or ""
        return str(page.get("url", "")), str(page.get("title") or ""), content
    if isinstance(page, tuple) and len(page) == 2:
        return page[0], "", page[1]
    raise InvalidInput(
        "page", page, "is no page", remedy='Pass {"url": …, "title": …, "content": …}.'
    )
