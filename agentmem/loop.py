"""A whole agent loop with memory: recall, ask, run tools, answer, remember."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from agentmem.config import LoopConfig, require_config
from agentmem.core.checks import require_messages
from agentmem.core.living.prediction import Signal
from agentmem.errors import InvalidInput, InvalidMessage
from agentmem.loop_run import BEST_ANSWER, LoopRun
from agentmem.loop_values import AgentLoopResult, Page, Status
from agentmem.manager.whose import Whose, read_scope
from agentmem.models import as_model
from agentmem.predicting import read_signals
from agentmem.tools import Tool, as_tool

if TYPE_CHECKING:
    from agentmem.async_manager import AsyncMemoryManager
    from agentmem.manager import MemoryManager

__all__ = [
    "BEST_ANSWER",
    "AgentLoopResult",
    "Page",
    "Status",
    "run_agent_loop",
    "run_agent_loop_sync",
]


async def run_agent_loop(
    goal: str | Sequence[Mapping[str, Any]],
    *,
    memory: MemoryManager | AsyncMemoryManager | None,
    model: str | Callable[..., Any],
    tools: Sequence[Any] = (),
    messages: Sequence[Any] = (),
    pages: Sequence[Page] = (),
    scope: Whose = None,
    config: LoopConfig | None = None,
    signals: Sequence[Signal | tuple[str, str]] = (),
    on_status: Callable[[Status], Awaitable[None] | None] | None = None,
    on_chunk: Callable[[str], Awaitable[None] | None] | None = None,
    signal: Any = None,
    model_options: Mapping[str, Any] | None = None,
    **whose: str | None,
) -> AgentLoopResult:
    """Answer `goal` with the tools and what memory knows, and remember the turn.

    `goal` is what the user says now, a text or content parts; `messages` what
    was said before. `model` is a litellm name, a chat-completions callable, or
    `"extractive"`. `signals` say what is going on (a file that is open, an
    error seen). With `on_chunk` the answer streams. A set `signal` ends the
    loop at once; what was said and seen until then is kept. A failing memory
    never fails the loop: see `degradations`. What the model raises is raised.
    """
    _check(config=config, signal=signal, on_status=on_status, on_chunk=on_chunk)
    loop = LoopRun(
        memory=_manager(memory),
        model=as_model(model, options=model_options),
        config=config or LoopConfig(),
        on_status=on_status,
        on_chunk=on_chunk,
        signal=signal,
        signals=read_signals(signals),
    )
    given = [*_said_before(messages), {"role": "user", "content": _goal(goal)}]
    return await loop.run(given, _own_tools(tools), tuple(pages), read_scope(scope, whose))


def run_agent_loop_sync(
    goal: str | Sequence[Mapping[str, Any]],
    *,
    memory: MemoryManager | AsyncMemoryManager | None,
    model: str | Callable[..., Any],
    **options: Any,
) -> AgentLoopResult:
    """`run_agent_loop` for scripts without an event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(run_agent_loop(goal, memory=memory, model=model, **options))
    raise InvalidInput(
        "call", "run_agent_loop_sync", "is made where an event loop runs already",
        remedy="Write `await run_agent_loop(…)`.",
    )  # fmt: skip


def _manager(memory: Any) -> Any:
    """The memory itself, also behind its async facade."""
    found = getattr(memory, "manager", memory)
    if found is not None and not hasattr(found, "runtime"):
        raise InvalidInput(
            "memory", memory, "is no memory", remedy="Pass what agentmem.open() gives, or None."
        )
    return found


def _own_tools(tools: Any) -> list[Tool]:
    if isinstance(tools, str | bytes | Mapping) or not isinstance(tools, Iterable):
        raise InvalidInput("tools", tools, "is no list", remedy="Pass a list of functions.")
    return [as_tool(tool) for tool in tools]


def _check(*, config: object, signal: object, **callbacks: object) -> None:
    """Refuse at once what would fail in the middle of a turn."""
    require_config(config)
    if signal is not None and not callable(getattr(signal, "is_set", None)):
        raise InvalidInput(
            "signal", signal, "cannot be asked", remedy="Pass an asyncio.Event or threading.Event."
        )
    for name, callback in callbacks.items():
        if callback is not None and not callable(callback):
            raise InvalidInput(
                name, callback, "is no function", remedy="Pass one, or leave it out."
            )


def _said_before(messages: Any) -> list[Any]:
    given = require_messages(messages)
    for at, message in enumerate(given):
        if not isinstance(message, Mapping) and not hasattr(message, "model_dump"):
            raise InvalidMessage(
                f"messages[{at}]",
                message,
                "is not a mapping",
                remedy="Pass dicts with role and content, or objects with model_dump().",
            )
    return given


def _goal(goal: Any) -> Any:
    if isinstance(goal, str) and goal.strip():
        return goal
    if isinstance(goal, Sequence) and not isinstance(goal, str | bytes) and goal:
        return list(goal)
    raise InvalidInput("goal", goal, "is empty", remedy="Say what the user wants.")
