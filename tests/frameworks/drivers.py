"""One model call through each adapter: what was given to it, and what reached the model.

A conversation is a list of `(role, text)`, where the roles are `user`, `assistant`, `call`
(the assistant asks for a tool) and `result`. A driver builds the framework's own messages
and gives both lists, as objects that can be compared.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

Talk = Sequence[tuple[str, str]]
Driven = tuple[list[Any], list[Any]]


def _chat(talk: Talk) -> list[dict[str, Any]]:
    call = {"id": "c1", "type": "function", "function": {"name": "hours", "arguments": "{}"}}
    made: dict[str, Callable[[str], Any]] = {
        "user": lambda text: {"role": "user", "content": text},
        "assistant": lambda text: {"role": "assistant", "content": text, "refusal": None},
        "call": lambda text: {"role": "assistant", "content": None, "tool_calls": [call]},
        "result": lambda text: {"role": "tool", "tool_call_id": "c1", "content": text},
    }
    return [made[role](text) for role, text in talk]


def wrapped_callable(memory: Any, talk: Talk) -> Driven:
    from agentmem.agent.adapters.turn import wrap

    given: list[Any] = _chat(talk)
    got: list[Any] = []
    wrap(memory, got.extend)(given)
    return given, got


def anthropic(memory: Any, talk: Talk) -> Driven:
    sdk = pytest.importorskip("anthropic")
    from agentmem.agent.adapters.clients import wrap_anthropic

    use = {"type": "tool_use", "id": "c1", "name": "hours", "input": {}}
    made: dict[str, Callable[[str], Any]] = {
        "user": lambda text: {"role": "user", "content": text},
        "assistant": lambda text: {
            "role": "assistant",
            "content": [{"type": "text", "text": text}],
        },
        "call": lambda text: {"role": "assistant", "content": [use]},
        "result": lambda text: {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "c1", "content": text}],
        },
    }
    given: list[Any] = [made[role](text) for role, text in talk]
    got: list[Any] = []
    with sdk.Anthropic(api_key="k") as client:
        # What the SDK's request is made of, in the place of the connection.
        client.messages._post = lambda path, *, body, **options: got.extend(body["messages"])
        bare = client.messages
        ours = wrap_anthropic(client, memory)
        ours.__dict__["messages"] = bare
        ours.messages.create(model="claude-sonnet-5-5", max_tokens=9, messages=given)
    return given, got


def langchain(memory: Any, talk: Talk) -> Driven:
    pytest.importorskip("langchain")
    from langchain.agents.middleware.types import ModelRequest, ModelResponse
    from langchain_core.language_models import FakeListChatModel
    from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

    from agentmem.compat.langchain import MemoryMiddleware

    call: Any = {"id": "c1", "name": "hours", "args": {}}
    made: dict[str, Callable[[str], Any]] = {
        "user": HumanMessage,
        "assistant": AIMessage,
        "call": lambda text: AIMessage("", tool_calls=[call]),
        "result": lambda text: ToolMessage(text, tool_call_id="c1"),
    }
    given: list[Any] = [made[role](text) for role, text in talk]
    got: list[Any] = []

    def handler(request: Any) -> Any:
        got.extend(request.messages)
        return ModelResponse(result=[AIMessage("yes")])

    request = ModelRequest(model=FakeListChatModel(responses=["yes"]), messages=given)
    MemoryMiddleware(memory).wrap_model_call(request, handler)
    return given, got


def openai_agents(memory: Any, talk: Talk) -> Driven:
    pytest.importorskip("agents.run_config")
    from agents.run_config import CallModelData, ModelInputData

    from agentmem.compat.openai_agents import AgentsMemory

    made: dict[str, Callable[[str], Any]] = {
        "user": lambda text: {"role": "user", "content": text},
        "assistant": lambda text: {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]},
        "call": lambda text: {"type": "function_call", "call_id": "c1", "name": "hours", "arguments": "{}"},
        "result": lambda text: {"type": "function_call_output", "call_id": "c1", "output": text},
    }  # fmt: skip
    given: list[Any] = [made[role](text) for role, text in talk]
    data = CallModelData(
        model_data=ModelInputData(input=given, instructions="Be kind."),
        agent=SimpleNamespace(model="gpt-4o"),  # type: ignore[arg-type]
        context=None,
    )
    return given, list(asyncio.run(AgentsMemory(memory).filter(data)).input)


def pydantic_ai(memory: Any, talk: Talk) -> Driven:
    pytest.importorskip("pydantic_ai")
    from pydantic_ai.messages import (
        ModelRequest,
        ModelResponse,
        TextPart,
        ToolCallPart,
        ToolReturnPart,
        UserPromptPart,
    )
    from pydantic_ai.models import ModelRequestContext, ModelRequestParameters
    from pydantic_ai.models.test import TestModel

    from agentmem.compat.pydantic_ai import MemoryCapability

    made: dict[str, Callable[[str], Any]] = {
        "user": lambda text: ModelRequest([UserPromptPart(text)]),
        "assistant": lambda text: ModelResponse([TextPart(text)]),
        "call": lambda text: ModelResponse([ToolCallPart("hours", {}, "c1")]),
        "result": lambda text: ModelRequest([ToolReturnPart("hours", text, "c1")]),
    }
    given: list[Any] = [made[role](text) for role, text in talk]
    got: list[Any] = []

    async def handler(context: Any) -> Any:
        got.extend(context.messages)
        return ModelResponse([TextPart("yes")])

    request = ModelRequestContext(
        model=TestModel(),
        messages=list(given),
        model_settings=None,
        model_request_parameters=ModelRequestParameters(),
    )
    told: Any = SimpleNamespace(deps=None, metadata=None)
    asyncio.run(
        MemoryCapability(memory).wrap_model_request(told, request_context=request, handler=handler)
    )
    return given, got


def llamaindex(memory: Any, talk: Talk) -> Driven:
    pytest.importorskip("llama_index.core")
    from llama_index.core.llms import ChatMessage

    from agentmem.compat.llamaindex import AgentMemBlock

    roles = {"user": "user", "assistant": "assistant", "call": "assistant", "result": "tool"}
    given = [ChatMessage(role=roles[role], content=text) for role, text in talk]
    block: Any = AgentMemBlock(memory)
    return given, [*asyncio.run(block.aget(given, session_id="ann")), *given]


def adk(memory: Any, talk: Talk) -> Driven:
    pytest.importorskip("google.adk")
    from google.adk.models.llm_request import LlmRequest
    from google.genai import types

    from agentmem.compat.adk import MemoryPlugin

    made: dict[str, Callable[[str], Any]] = {
        "user": lambda text: types.Content(role="user", parts=[types.Part(text=text)]),
        "assistant": lambda text: types.Content(role="model", parts=[types.Part(text=text)]),
        "call": lambda text: types.Content(
            role="model",
            parts=[types.Part(function_call=types.FunctionCall(name="hours", args={}))],
        ),
        "result": lambda text: types.Content(
            role="user",
            parts=[
                types.Part(
                    function_response=types.FunctionResponse(name="hours", response={"r": text})
                )
            ],
        ),
    }
    given = [made[role](text) for role, text in talk]
    request = LlmRequest(contents=list(given))
    session = SimpleNamespace(user_id="ann", id="s")
    told: Any = SimpleNamespace(session=session, invocation_id="i", agent_name="a")
    asyncio.run(
        MemoryPlugin(memory).before_model_callback(callback_context=told, llm_request=request)
    )
    return given, list(request.contents)


def agent_framework(memory: Any, talk: Talk) -> Driven:
    pytest.importorskip("agent_framework")
    from agent_framework import AgentSession, Content, Message, SessionContext

    from agentmem.compat.agent_framework import MemoryProvider

    made: dict[str, Callable[[str], Any]] = {
        "user": lambda text: Message(role="user", contents=[text]),
        "assistant": lambda text: Message(role="assistant", contents=[text]),
        "call": lambda text: Message(
            role="assistant", contents=[Content.from_function_call("c1", "hours", arguments="{}")]
        ),
        "result": lambda text: Message(
            role="tool", contents=[Content.from_function_result("c1", result=text)]
        ),
    }
    given = [made[role](text) for role, text in talk]
    last = next((at for at, (role, _) in reversed(list(enumerate(talk))) if role == "user"), 0)
    context = SessionContext(
        input_messages=given[last:], context_messages={"history": given[:last]}
    )
    provider = MemoryProvider(memory)
    agent: Any = None
    asyncio.run(provider.before_run(agent=agent, session=AgentSession(), context=context, state={}))
    return given, [*context.get_messages(), *context.input_messages]


def strands(memory: Any, talk: Talk) -> Driven:
    pytest.importorskip("strands.middleware")
    from strands.middleware import InvokeModelContext

    from agentmem.compat.strands import MemoryPlugin

    use = {"toolUse": {"toolUseId": "c1", "name": "hours", "input": {}}}
    made: dict[str, Callable[[str], Any]] = {
        "user": lambda text: {"role": "user", "content": [{"text": text}]},
        "assistant": lambda text: {"role": "assistant", "content": [{"text": text}]},
        "call": lambda text: {"role": "assistant", "content": [use]},
        "result": lambda text: {
            "role": "user",
            "content": [
                {
                    "toolResult": {
                        "toolUseId": "c1",
                        "status": "success",
                        "content": [{"text": text}],
                    }
                }
            ],
        },
    }
    given: list[Any] = [made[role](text) for role, text in talk]
    got: list[Any] = []

    async def next_fn(context: Any) -> Any:
        got.extend(context.messages)
        nothing: list[Any] = []
        for event in nothing:
            yield event

    agent: Any = SimpleNamespace(state=None)
    model: Any = SimpleNamespace()
    context = InvokeModelContext(
        agent=agent, messages=given, system_prompt=None, tool_specs=[], tool_choice=None,
        invocation_state={}, model=model,
    )  # fmt: skip

    async def main() -> None:
        async for _ in MemoryPlugin(memory)._around(context, next_fn):
            raise AssertionError

    asyncio.run(main())
    return given, got


def autogen(memory: Any, talk: Talk) -> Driven:
    pytest.importorskip("autogen_core")
    from autogen_core import FunctionCall
    from autogen_core.models import (
        AssistantMessage,
        FunctionExecutionResult,
        FunctionExecutionResultMessage,
        UserMessage,
    )

    from agentmem.compat.autogen import MemoryContext

    call = FunctionCall(id="c1", name="hours", arguments="{}")
    made: dict[str, Callable[[str], Any]] = {
        "user": lambda text: UserMessage(content=text, source="user"),
        "assistant": lambda text: AssistantMessage(content=text, source="a"),
        "call": lambda text: AssistantMessage(content=[call], source="a"),
        "result": lambda text: FunctionExecutionResultMessage(
            content=[
                FunctionExecutionResult(content=text, call_id="c1", name="hours", is_error=False)
            ]
        ),
    }
    given = [made[role](text) for role, text in talk]
    context = MemoryContext(memory, scope="ann", initial_messages=given)
    return given, list(asyncio.run(context.get_messages()))


def crewai(memory: Any, talk: Talk) -> Driven:
    pytest.importorskip("crewai.hooks")
    from agentmem.compat.crewai import CrewMemory

    given = _chat(talk)
    got: list[Any] = []

    class Model:
        model = "m"

        def call(self, messages: Any) -> str:
            got.extend(messages)
            return "yes"

    bare = Model()
    kept = list(given)
    with CrewMemory(memory, scope="ann") as remembering:
        remembering._before(SimpleNamespace(messages=kept, llm=bare, task=None))
        bare.call(kept)
    assert kept == given
    assert type(bare) is Model
    return given, got


def agno(memory: Any, talk: Talk) -> Driven:
    pytest.importorskip("agno")
    from agno.models.message import Message

    from agentmem.compat.agno import remembering

    given = [Message(**{k: v for k, v in one.items() if k != "refusal"}) for one in _chat(talk)]
    got: list[Any] = []

    def invoke(*, messages: Any, **_: Any) -> Any:
        got.extend(messages)
        return SimpleNamespace(content="yes", response_usage=None, tool_calls=[])

    model: Any = SimpleNamespace(id="m", invoke=invoke)
    remembering(model, memory).invoke(messages=given)
    return given, got


DRIVERS = (
    wrapped_callable, anthropic, langchain, openai_agents, pydantic_ai, llamaindex, adk,
    agent_framework, strands, autogen, crewai, agno,
)  # fmt: skip
