"""Memory for Google's Agent Development Kit: a plugin for its runner, and a memory service.

The plugin's memory is `scope` (a scope, or a function of the `CallbackContext`), else
the session's `user_id`. The service keeps each user's sessions under the app's name as
`agent_id`, so that two apps of one user do not see each other's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from agentmem.agent.adapters.replies import Reply, as_chat, read_usage, view_items
from agentmem.agent.adapters.turn import OpenTurn, Remembers, TurnMaker
from agentmem.base.errors import MissingExtra
from agentmem.memory.facade import AsyncMemoryManager
from agentmem.memory.manager import MemoryManager

try:
    from google.adk.memory.base_memory_service import BaseMemoryService, SearchMemoryResponse
    from google.adk.memory.memory_entry import MemoryEntry
    from google.adk.plugins.base_plugin import BasePlugin
    from google.genai import types
except ModuleNotFoundError as error:
    raise MissingExtra("google-adk", extra="google-adk", purpose="Memory in Google ADK") from error

if TYPE_CHECKING:
    from google.adk.agents.callback_context import CallbackContext
    from google.adk.events.event import Event
    from google.adk.models.llm_request import LlmRequest
    from google.adk.models.llm_response import LlmResponse
    from google.adk.sessions.session import Session


class MemoryPlugin(Remembers, BasePlugin):
    """`App(name=…, root_agent=…, plugins=[MemoryPlugin(memory)])`.

    The reference goes into the request alone: no session has it as an event.
    """

    def __init__(self, memory: TurnMaker, *, name: str = "agentmem", **options: Any) -> None:
        super().__init__(memory, name=name, **options)
        self._open: dict[tuple[str, str], OpenTurn] = {}

    async def before_model_callback(
        self, *, callback_context: CallbackContext, llm_request: LlmRequest
    ) -> None:
        session = callback_context.session
        opened = await self._keeper.aopen(
            llm_request.contents,
            view,
            context=callback_context,
            names=[session.user_id, session.id],
            named={"model": llm_request.model},
        )
        self._end(callback_context)
        if opened is not None:
            llm_request.contents = opened.sent
            self._open[_key(callback_context)] = opened
            opened.end_with_task()

    async def after_model_callback(
        self, *, callback_context: CallbackContext, llm_response: LlmResponse
    ) -> None:
        opened = self._open.get(_key(callback_context))
        if opened is not None and llm_response.partial:
            opened.hear(self._keeper.read(llm_response, _read_response))
        elif opened is not None:
            del self._open[_key(callback_context)]
            opened.finish(self._keeper.read(llm_response, _read_response))

    async def on_model_error_callback(
        self, *, callback_context: CallbackContext, llm_request: LlmRequest, error: Exception
    ) -> None:
        self._end(callback_context, error)

    async def after_run_callback(self, *, invocation_context: Any) -> None:
        """A stream that was left has no last response: what came of it is the answer."""
        for key in [key for key in self._open if key[0] == invocation_context.invocation_id]:
            self._open.pop(key).finish()

    def _end(self, context: Any, error: BaseException | None = None) -> None:
        before = self._open.pop(_key(context), None)
        if before is not None:
            before.abandon(error)


def _key(context: CallbackContext) -> tuple[str, str]:
    return context.invocation_id, context.agent_name


def _read(content: types.Content) -> dict[str, Any]:
    parts: list[dict[str, Any]] = []
    calls: list[tuple[Any, Any, Any]] = []
    for part in content.parts or ():
        if part.text is not None:
            parts.append({"type": "text", "text": part.text})
        elif part.function_response is not None:
            told = part.function_response
            parts.append(
                {"type": "tool_result", "tool_use_id": told.id, "content": str(told.response)}
            )
        elif part.function_call is not None:
            called = part.function_call
            calls.append((called.id, called.name, called.args or {}))
        else:
            parts.append({"type": "file"})
    return as_chat("assistant" if content.role == "model" else "user", parts, calls=calls)


def _make(message: Mapping[str, Any]) -> types.Content:
    role = "user" if message["role"] == "user" else "model"
    return types.Content(role=role, parts=[types.Part(text=message["content"])])


view = partial(view_items, read=_read, make=_make)


def _text(content: types.Content | None) -> str:
    parts = (content.parts if content is not None else None) or ()
    return "".join(part.text for part in parts if part.text and not part.thought)


def _read_response(response: LlmResponse) -> Reply:
    return Reply(text=_text(response.content), usage=read_usage(response.usage_metadata))


class MemoryService(BaseMemoryService):
    """ADK's memory service: `Runner(memory_service=MemoryService(memory), …)`.

    Its `load_memory` and `preload_memory` tools find what sessions said, by meaning too.
    An event that is there already is not added again.
    """

    def __init__(self, memory: MemoryManager, *, top_k: int = 10) -> None:
        self._memory = AsyncMemoryManager(memory)
        self._top_k = top_k

    async def add_session_to_memory(self, session: Session) -> None:
        await self.add_events_to_memory(
            app_name=session.app_name,
            user_id=session.user_id,
            events=session.events,
            session_id=session.id,
        )

    async def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Event],
        session_id: str | None = None,
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        said = [
            {
                "role": "user" if event.author == "user" else "assistant",
                "name": event.author,
                "content": text,
                "created_at": datetime.fromtimestamp(event.timestamp, UTC),
            }
            for event in events
            if not event.partial and (text := _text(event.content))
        ]
        if said:
            await self._memory.add(
                said,
                session=session_id or "",
                listen=False,  # a profile is the user's, in whichever app
                metadata=dict(custom_metadata or {}),
                user_id=user_id,
                agent_id=app_name,
            )

    async def add_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        memories: Sequence[MemoryEntry],
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        for entry in memories:
            text = _text(entry.content)
            if text:
                await self._memory.add(
                    text,
                    metadata={**(entry.custom_metadata or {}), **(custom_metadata or {})},
                    user_id=user_id,
                    agent_id=app_name,
                )

    async def search_memory(
        self, *, app_name: str, user_id: str, query: str
    ) -> SearchMemoryResponse:
        found = await self._memory.search(
            query, top_k=self._top_k, user_id=user_id, agent_id=app_name
        )
        return SearchMemoryResponse(
            memories=[
                MemoryEntry(
                    id=hit.memory.id,
                    content=types.Content(
                        role="model" if hit.memory.origin == "assistant" else "user",
                        parts=[types.Part(text=hit.memory.text)],
                    ),
                    author=hit.memory.speaker or None,
                    timestamp=hit.memory.created_at.isoformat(),
                )
                for hit in found
            ]
        )

    async def delete_memory(
        self, *, app_name: str, user_id: str, memory_id: str | None = None
    ) -> None:
        if memory_id is not None:
            await self._memory.delete(memory_id, user_id=user_id, agent_id=app_name)
