"""A memory for tests of adapters: it always knows one thing and notes what it is told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from typing import Any, Self

from agentmem.models.call import trouble_of
from agentmem.prompt.block import BlockSource, ContextBlock, render_context
from agentmem.prompt.messages import inject, is_reference
from agentmem.prompt.strip import strip

KNOWN = "The harbour closes at nine."
BLOCK = render_context(
    ContextBlock(
        related_knowledge=(
            BlockSource(text=KNOWN, url="https://example.com/harbour", title="Harbour", retrieved=date(2026, 1, 1), origin="web"),
        ),
        total_found=1,
    ),
    secret=b"0123456789abcdef",
)  # fmt: skip


class NotedTurn:
    """A turn as a memory makes it: `ends` holds what it was told, in order."""

    def __init__(self, memory: NotedMemory, messages: Sequence[Any], **options: Any) -> None:
        self.memory = memory
        self.options = options
        self.asked = [dict(m) for m in messages]
        self.messages = inject(messages, BLOCK if memory.knows else None)
        self.injected = memory.knows
        self.ends: list[dict[str, Any]] = []

    def tell_degradations(self, tell: Callable[[str], None]) -> None:
        """Nothing of this memory degrades a turn; it breaks."""

    def refused(self, error: BaseException) -> bool:
        return trouble_of(error) == "too long"

    def done(
        self,
        answer: str = "",
        *,
        usage: Mapping[str, Any] | None = None,
        duration_ms: float | None = None,
        error: str = "",
    ) -> None:
        if self.memory.breaks == "done":
            raise OSError("the disk is full")
        if not self.ends:
            self.ends.append({"answer": answer, "usage": usage, "error": error})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        self.done(error="" if error is None else f"{kind.__name__}: {error}")

    @property
    def end(self) -> dict[str, Any]:
        assert len(self.ends) == 1, self.ends
        return self.ends[0]


class NotedMemory:
    """`knows` nothing or one thing; `breaks` names the step that raises."""

    def __init__(self, *, knows: bool = True, breaks: str = "") -> None:
        self.knows = knows
        self.breaks = breaks
        self.turns: list[NotedTurn] = []

    def turn(self, messages: Any, **options: Any) -> NotedTurn:
        if self.breaks == "turn":
            raise OSError("the store cannot be read")
        made = NotedTurn(self, messages, **options)
        self.turns.append(made)
        return made

    async def aturn(self, messages: Any, **options: Any) -> NotedTurn:
        await asyncio.sleep(0)
        return self.turn(messages, **options)

    @property
    def only(self) -> NotedTurn:
        assert len(self.turns) == 1, len(self.turns)
        return self.turns[0]


def without_ours(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The messages as a caller wrote them."""
    return strip(messages)


def references(messages: Sequence[Mapping[str, Any]]) -> int:
    """How many reference messages there are."""
    return sum(is_reference(message) for message in messages)
