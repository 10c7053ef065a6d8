"""Memory for CrewAI: hooks around its model calls.

CrewAI has no notion of a user: `scope` says whose memory a crew has, as a scope or as a
function of the call's context (its `agent`, `task` and `crew`).
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from typing import Any, Self

from agentmem.agent.adapters.replies import Reply, View, is_ours, view_items
from agentmem.agent.adapters.turn import OpenTurn, Remembers, TurnMaker, Whose
from agentmem.base.errors import MissingExtra
from agentmem.text.messages import get

try:
    from crewai.hooks import (
        register_after_llm_call_hook,
        register_before_llm_call_hook,
        unregister_after_llm_call_hook,
        unregister_before_llm_call_hook,
    )
except ModuleNotFoundError as error:
    raise MissingExtra("crewai", extra="crewai", purpose="Memory in CrewAI") from error

_FINAL = "Final Answer:"
_ACTION = "Action:"


class CrewMemory(Remembers):
    """`with CrewMemory(memory, scope="ann"): crew.kickoff()`.

    Within the block every model call of this process's crews gets the one reference; it
    is taken out again when the answer is there. A call that fails leaves it in the
    messages until the next one of the same list.
    """

    def __init__(self, memory: TurnMaker, *, scope: Whose, **options: Any) -> None:
        super().__init__(memory, scope=scope, **options)
        self._open: ContextVar[OpenTurn | None] = ContextVar("agentmem_crew_turn", default=None)

    def __enter__(self) -> Self:
        self._hooks: Any = (self._before, self._after)  # the very objects, to be found again
        register_before_llm_call_hook(self._hooks[0])
        register_after_llm_call_hook(self._hooks[1])
        return self

    def __exit__(self, *_: object) -> None:
        unregister_before_llm_call_hook(self._hooks[0])
        unregister_after_llm_call_hook(self._hooks[1])
        self._end(None)

    def _before(self, context: Any) -> None:
        self._end(None)
        self._take_out(context.messages)
        opened = self._keeper.open(
            context.messages,
            functools.partial(view, task=get(context.task, "description")),
            context=context,
            named={"model": get(context.llm, "model")},
        )
        if opened is not None:
            context.messages[:] = opened.sent
            self._open.set(opened)

    def _after(self, context: Any) -> None:
        self._take_out(context.messages)
        self._end(context.response)

    def _end(self, response: Any) -> None:
        opened = self._open.get()
        self._open.set(None)
        if opened is not None:
            opened.finish(Reply(text=_answer(response)))

    def _take_out(self, messages: list[Any]) -> None:
        with self._keeper.failing_open("the reference could not be taken out"):
            kept = [message for message in messages if not is_ours(message)]
            if len(kept) < len(messages):
                messages[:] = kept


def view(messages: Iterable[Mapping[str, Any]], task: Any = None) -> View:
    """A crew's messages as a conversation; what is asked is the task, not the form around it."""

    def read(message: Mapping[str, Any]) -> dict[str, Any]:
        asked = message.get("content")
        if message.get("role") == "user" and isinstance(asked, str) and task and task in asked:
            return {"role": "user", "content": str(task)}
        return dict(message)

    return view_items(messages, read)


def _answer(response: Any) -> str:
    """The words of an answer; a step that asks for a tool in CrewAI's own format has none."""
    if not isinstance(response, str):
        return ""
    if _FINAL in response:
        return response.rpartition(_FINAL)[2].strip()
    return "" if _ACTION in response else response
