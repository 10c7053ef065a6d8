"""One awaited run through each framework, whose model says what `reply` gives.

Each takes the memory, an async `reply()` that may wait or raise, and the adapter's options.
What comes back is the answer as the framework's caller gets it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from tests.frameworks.shared import QUESTION

Answer = Callable[[], Coroutine[Any, Any, str]]


async def wrapped_callable(memory: Any, reply: Answer, **options: Any) -> str:
    async def model(messages: list[Any]) -> dict[str, Any]:
        return {"choices": [{"message": {"role": "assistant", "content": await reply()}}]}

    ask = memory.wrap(model, **options)
    answer = await ask([{"role": "user", "content": QUESTION}])
    return str(answer["choices"][0]["message"]["content"])


async def anthropic(memory: Any, reply: Answer, **options: Any) -> str:
    import anthropic as sdk

    async def post(path: str, *, body: Any, **_: Any) -> Any:
        return {"role": "assistant", "content": [{"type": "text", "text": await reply()}]}

    async with sdk.AsyncAnthropic(api_key="k") as client:
        bare: Any = client.messages
        bare._post = post
        ours = memory.wrap_anthropic(client, **options)
        ours.__dict__["messages"] = bare
        asked: Any = [{"role": "user", "content": QUESTION}]
        answer = await ours.messages.create(model="m", max_tokens=9, messages=asked)
    return str(answer["content"][0]["text"])


async def langchain(memory: Any, reply: Answer, **options: Any) -> str:
    from langchain.agents import create_agent
    from langchain_core.language_models import FakeListChatModel
    from langchain_core.messages import AIMessage, HumanMessage
    from langchain_core.outputs import ChatGeneration, ChatResult

    from agentmem.compat.langchain import MemoryMiddleware

    class Model(FakeListChatModel):
        async def _agenerate(self, *args: Any, **kwargs: Any) -> ChatResult:
            said = AIMessage(content=await reply())
            return ChatResult(generations=[ChatGeneration(message=said)])

    agent = create_agent(
        Model(responses=[""]), [], middleware=[MemoryMiddleware(memory, **options)]
    )
    done = await agent.ainvoke({"messages": [HumanMessage(QUESTION)]})
    return str(done["messages"][-1].content)


async def openai_agents(memory: Any, reply: Answer, **options: Any) -> str:
    from agents import Agent, Model, ModelResponse, RunConfig, Runner, Usage
    from agents.testing import assistant_message

    from agentmem.compat.openai_agents import AgentsMemory

    class Waiting(Model):
        async def get_response(self, *args: Any, **kwargs: Any) -> ModelResponse:
            said = assistant_message(await reply())
            return ModelResponse(output=[said], usage=Usage(), response_id=None)

        def stream_response(self, *args: Any, **kwargs: Any) -> Any:
            raise NotImplementedError

    remembering = AgentsMemory(memory, **options)
    config = remembering.run_config(RunConfig(tracing_disabled=True))
    agent: Agent[Any] = Agent(name="harbour", model=Waiting())
    done = await Runner.run(agent, QUESTION, run_config=config, hooks=remembering)
    return str(done.final_output)


async def pydantic_ai(memory: Any, reply: Answer, **options: Any) -> str:
    from pydantic_ai import Agent, ModelResponse, TextPart
    from pydantic_ai.models.function import FunctionModel

    from agentmem.compat.pydantic_ai import MemoryCapability

    async def model(messages: Any, info: Any) -> ModelResponse:
        return ModelResponse(parts=[TextPart(await reply())])

    agent = Agent(FunctionModel(model), capabilities=[MemoryCapability(memory, **options)])
    return (await agent.run(QUESTION)).output


async def llamaindex(memory: Any, reply: Answer, **options: Any) -> str:
    from llama_index.core.memory import Memory

    from agentmem.compat.llamaindex import AgentMemBlock

    block = AgentMemBlock(memory, **options)
    await Memory.from_defaults(session_id="chat", memory_blocks=[block]).aget(input=QUESTION)
    return await reply()


async def adk(memory: Any, reply: Answer, **options: Any) -> str:
    from google.adk.agents import LlmAgent
    from google.adk.apps.app import App
    from google.adk.models.base_llm import BaseLlm
    from google.adk.models.llm_response import LlmResponse
    from google.adk.runners import InMemoryRunner
    from google.genai import types

    from agentmem.compat.adk import MemoryPlugin

    class Model(BaseLlm):
        async def generate_content_async(self, llm_request: Any, stream: bool = False) -> Any:
            said = types.Content(role="model", parts=[types.Part(text=await reply())])
            yield LlmResponse(content=said)

    agent = LlmAgent(name="port", model=Model(model="waiting"))
    app = App(name="port", root_agent=agent, plugins=[MemoryPlugin(memory, **options)])
    runner = InMemoryRunner(app=app)
    session = await runner.session_service.create_session(app_name="port", user_id="ann")
    asked = types.Content(role="user", parts=[types.Part(text=QUESTION)])
    said = ""
    async for event in runner.run_async(user_id="ann", session_id=session.id, new_message=asked):
        said = event.content.parts[0].text if event.content else said
    await runner.close()
    return said


async def agent_framework(memory: Any, reply: Answer, **options: Any) -> str:
    from agent_framework import Agent, BaseChatClient, ChatResponse, Message

    from agentmem.compat.agent_framework import MemoryProvider

    class Client(BaseChatClient):  # type: ignore[type-arg]
        def _inner_get_response(self, **_: Any) -> Any:
            async def whole() -> ChatResponse[Any]:
                return ChatResponse(messages=[Message(role="assistant", contents=[await reply()])])

            return whole()

    agent = Agent(Client(), context_providers=[MemoryProvider(memory, **options)])
    return str((await agent.run(QUESTION)).text)


async def strands(memory: Any, reply: Answer, **options: Any) -> str:
    from strands import Agent
    from strands.models.model import Model

    from agentmem.compat.strands import MemoryPlugin

    class Waiting(Model):
        def update_config(self, **config: Any) -> None:
            """Nothing to set."""

        def get_config(self) -> Any:
            return {}

        def structured_output(self, *args: Any, **kwargs: Any) -> Any:
            raise NotImplementedError

        async def stream(self, *args: Any, **kwargs: Any) -> Any:
            text = await reply()
            yield {"messageStart": {"role": "assistant"}}
            yield {"contentBlockDelta": {"delta": {"text": text}}}
            yield {"contentBlockStop": {}}
            yield {"messageStop": {"stopReason": "end_turn"}}

    plugin = MemoryPlugin(memory, **options)
    agent = Agent(model=Waiting(), plugins=[plugin], callback_handler=None)
    return str(await agent.invoke_async(QUESTION)).strip()


async def autogen(memory: Any, reply: Answer, **options: Any) -> str:
    from autogen_agentchat.agents import AssistantAgent

    from agentmem.compat.autogen import MemoryContext
    from tests.frameworks.test_autogen import Client

    class Waiting(Client):
        async def create(self, messages: Any, **kwargs: Any) -> Any:
            self.replies = [await reply()]
            return await super().create(messages, **kwargs)

    agent = AssistantAgent("port", Waiting(), model_context=MemoryContext(memory, **options))
    return str((await agent.run(task=QUESTION)).messages[-1].content)  # type: ignore[union-attr]


async def crewai(memory: Any, reply: Answer, **options: Any) -> str:
    from agentmem.compat.crewai import CrewMemory
    from tests.frameworks.test_crewai import Scripted, crew_of

    class Waiting(Scripted):
        """An awaited crew asks its model on a thread of its own, where nobody can cancel it."""

        def call(self, messages: Any, *args: Any, **kwargs: Any) -> Any:
            return f"Thought: I know\nFinal Answer: {asyncio.run(reply())}"

        async def acall(self, messages: Any, *args: Any, **kwargs: Any) -> Any:
            return f"Thought: I know\nFinal Answer: {await reply()}"

    _, crew = crew_of(kind=Waiting, task=QUESTION)
    with CrewMemory(memory, **options):
        return str(await crew.akickoff())


async def agno(memory: Any, reply: Answer, **options: Any) -> str:
    from agno.agent import Agent
    from agno.models.response import ModelResponse
    from agno.run.base import RunStatus

    from agentmem.compat.agno import remembering
    from tests.frameworks.test_agno import Scripted

    class Waiting(Scripted):
        async def ainvoke(self, **_: Any) -> Any:
            return ModelResponse(role="assistant", content=await reply())

    agent = Agent(model=remembering(Waiting(), memory, **options), telemetry=False)
    done = await agent.arun(QUESTION)
    if done.status == RunStatus.error:  # Agno raises nothing: a run tells that it failed
        raise RuntimeError(done.content)
    return str(done.content)


ASKS: dict[Any, str] = {
    wrapped_callable: "agentmem",
    anthropic: "anthropic",
    langchain: "langchain",
    openai_agents: "agents.testing",
    pydantic_ai: "pydantic_ai",
    llamaindex: "llama_index.core",
    adk: "google.adk",
    agent_framework: "agent_framework",
    strands: "strands.middleware",
    autogen: "autogen_agentchat",
    crewai: "crewai.hooks",
    agno: "agno",
}
"""Each with the package it wants."""
NAMELESS = (wrapped_callable, anthropic, langchain, openai_agents, pydantic_ai, strands)
"""Those whose framework may name nobody at all."""
