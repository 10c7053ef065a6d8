"""Memory for CrewAI: the models of its crews, asked with memory.

CrewAI tells a hook which model it is about to ask. That model gets memory there, so that a
crew's own list of messages never has the reference and an awaited crew waits for its memory
as for its model. CrewAI has no notion of a user: `scope` says whose memory a crew has, as a
scope or as a function of the hook's context (its `agent`, `task` and `crew`).
"""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from functools import partial
from typing import Any, Self

from agentmem.agent.adapters.replies import Reply, View, view_items
from agentmem.agent.adapters.turn import Remembers, TurnMaker, Whose
from agentmem.base.errors import MissingExtra
from agentmem.text.messages import get

try:
    from crewai.hooks import register_before_llm_call_hook, unregister_before_llm_call_hook
except ModuleNotFoundError as error:
    raise MissingExtra("crewai", extra="crewai", purpose="Memory in CrewAI") from error

_FINAL = "Final Answer:"
_ACTION = "Action:"


class CrewMemory(Remembers):
    """`with CrewMemory(memory, scope="ann"): crew.kickoff()`.

    Within the block the models of this process's crews are asked with memory, however the
    crew is started; afterwards they are what they were.
    """

    def __init__(self, memory: TurnMaker, *, scope: Whose, **options: Any) -> None:
        super().__init__(memory, scope=scope, **options)
        self._context: ContextVar[Any] = ContextVar("agentmem_crew_call", default=None)
        self._equipped: list[tuple[Any, type]] = []

    def __enter__(self) -> Self:
        self._hook: Any = self._before  # the very object, to be found again
        register_before_llm_call_hook(self._hook)
        return self

    def __exit__(self, *_: object) -> None:
        unregister_before_llm_call_hook(self._hook)
        while self._equipped:
            model, base = self._equipped.pop()
            model.__class__ = base

    def _before(self, context: Any) -> None:
        """Know for whom the next call is, and have its model ask with memory."""
        self._context.set(context)
        model = context.llm
        with self._keeper.failing_open("a model could not be given memory"):
            if not any(model is one for one, _ in self._equipped):
                base = type(model)
                model.__class__ = self._remembering(base)
                self._equipped.append((model, base))

    def _remembering(self, base: Any) -> Any:
        """A model's class, whose calls open a turn."""
        keeper = self._keeper

        def call(model: Any, messages: Any, *args: Any, **options: Any) -> Any:
            def ask(sent: Any) -> Any:
                return base.call(model, sent, *args, **options)

            return keeper.call(messages, ask, **self._asked(model))

        async def acall(model: Any, messages: Any, *args: Any, **options: Any) -> Any:
            async def ask(sent: Any) -> Any:
                return await base.acall(model, sent, *args, **options)

            return await keeper.acall(messages, ask, **self._asked(model))

        own = {"call": call, "acall": acall, "__module__": base.__module__, "__doc__": base.__doc__}
        return type(base)(base.__name__, (base,), own)

    def _asked(self, model: Any) -> dict[str, Any]:
        context = self._context.get()
        return {
            "view_of": partial(view, task=get(get(context, "task"), "description")),
            "read": _read_answer,
            "context": context,
            "named": {"model": get(model, "model")},
        }


def view(messages: Any, task: Any = None) -> View:
    """A crew's messages as a conversation; what is asked is the task, not the form around it."""

    def read(message: Mapping[str, Any]) -> dict[str, Any]:
        asked = message.get("content")
        if message.get("role") == "user" and isinstance(asked, str) and task and task in asked:
            return {"role": "user", "content": str(task)}
        return dict(message)

    if isinstance(messages, str):
        messages = [{"role": "user", "content": messages}]
    return view_items(messages, read)


def _read_answer(response: Any) -> Reply:
    """The words of an answer; a step that asks for a tool in CrewAI's own format has none."""
    if not isinstance(response, str):
        return Reply()
    if _FINAL in response:
        return Reply(text=response.rpartition(_FINAL)[2].strip())
    return Reply(text="" if _ACTION in response else response)
