"""Memory for the OpenAI Agents SDK: a run's hooks and input filter, and a session.

Whose memory a run has is `scope` (a scope, or a function of the run's context), else
the `user_id`, `session_id` or `thread_id` of the context it was given.
"""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
from collections.abc import Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from agentmem.agent.adapters.replies import view_responses
from agentmem.agent.adapters.turn import OpenTurn, Remembers
from agentmem.base.errors import MissingExtra
from agentmem.base.types import Memory, ScopeLike
from agentmem.compat.records import Records, thawed
from agentmem.memory.manager import MemoryManager
from agentmem.text.messages import get

try:
    from agents import Agent, RunConfig, RunContextWrapper, RunHooks
    from agents.memory.session_settings import SessionSettings, resolve_session_limit
    from agents.run_config import CallModelData, ModelInputData
except ModuleNotFoundError as error:
    raise MissingExtra(
        "openai-agents", extra="openai-agents", purpose="Memory in the OpenAI Agents SDK"
    ) from error

if TYPE_CHECKING:
    from agents.items import ModelResponse, TResponseInputItem

_open: ContextVar[OpenTurn | None] = ContextVar("agentmem_agents_turn", default=None)


class AgentsMemory(Remembers, RunHooks[Any]):
    """`Runner.run(agent, question, run_config=remembering.run_config(), hooks=remembering)`.

    The reference goes to the model alone: neither the run's items nor its session see
    it. Without the hooks the questions are remembered, and the answers are not.
    """

    def run_config(self, config: RunConfig | None = None) -> RunConfig:
        """`config` with memory; an input filter it has already runs first."""
        config = config or RunConfig()
        theirs = config.call_model_input_filter

        async def both(data: CallModelData[Any]) -> ModelInputData:
            if theirs is not None:
                made = theirs(data)
                data.model_data = await made if inspect.isawaitable(made) else made
            return await self.filter(data)

        return dataclasses.replace(config, call_model_input_filter=both)

    async def filter(self, data: CallModelData[Any]) -> ModelInputData:
        """What goes to the model: the run's items, and the reference among them."""
        names = [get(data.context, name) for name in ("user_id", "session_id", "thread_id")]
        model = data.agent.model
        opened = await self._keeper.aopen(
            data.model_data.input,
            view_responses,
            context=data.context,
            names=names,
            named={"model": model if isinstance(model, str) else get(model, "model")},
        )
        before = _open.get()
        if before is not None:
            before.abandon(None)  # no answer came; where one did, it has ended already
        _open.set(opened)
        if opened is None:
            return data.model_data
        opened.end_with_task()
        return ModelInputData(input=opened.sent, instructions=data.model_data.instructions)

    async def on_llm_end(
        self, context: RunContextWrapper[Any], agent: Agent[Any], response: ModelResponse
    ) -> None:
        """Remember what the model answered."""
        opened = _open.get()
        if opened is not None:
            opened.finish(self._keeper.read(response))


class MemorySession:
    """The SDK's `Session` in a memory: a conversation's items, as they were and in their order.

    `scope` says whose they are; without it the session is a user of its own. The items
    are in no search: what was said in them is remembered by the turns.
    """

    def __init__(
        self,
        session_id: str,
        memory: MemoryManager,
        *,
        scope: ScopeLike | None = None,
        session_settings: SessionSettings | None = None,
    ) -> None:
        self.session_id = session_id
        self.session_settings = session_settings or SessionSettings()
        own = session_id if scope is None else scope
        self._records = Records(memory, own, kind="session-item")

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """The last `limit` items in their order, or all of them."""
        wanted = resolve_session_limit(limit, self.session_settings)
        stored = await asyncio.to_thread(self._stored)
        if wanted is not None and wanted >= 0:  # as in the SDK's own sessions
            stored = stored[len(stored) - min(wanted, len(stored)) :]
        return [thawed(one.metadata["item"]) for one in stored]

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        await asyncio.to_thread(self._add, items)

    async def pop_item(self) -> TResponseInputItem | None:
        """Take the last item out."""
        return await asyncio.to_thread(self._pop)

    async def clear_session(self) -> None:
        await asyncio.to_thread(lambda: self._records.delete(self._stored()))

    def _stored(self) -> list[Memory]:
        """The items in their order: keys are ids that sort by the time they were made."""
        stored = self._records.all({"metadata.session": self.session_id})
        return sorted(stored, key=lambda one: str(one.metadata["key"]))

    def _add(self, items: Sequence[Any]) -> None:
        for item in items:
            told = {"session": self.session_id, "item": dict(item)}
            self._records.put(None, "", told, findable=False)

    def _pop(self) -> Any:
        while stored := self._stored():
            if self._records.delete(stored[-1:]):  # nobody else had taken it
                return thawed(stored[-1].metadata["item"])
        return None
