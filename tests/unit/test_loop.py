"""The loop: models of every colour, tools, limits, stopping, and what is remembered."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

import agentmem
from agentmem.agent.loop import (
    BEST_ANSWER,
    NOT_ENDED,
    AgentLoopResult,
    Status,
    run_agent_loop,
    run_agent_loop_sync,
)
from agentmem.base.config import BudgetConfig, LoopConfig, RecallConfig
from agentmem.base.errors import BudgetError, InvalidInput, InvalidNumber
from agentmem.base.types import Scope
from agentmem.models.call import refuses_tools
from agentmem.models.extract import NOTED, NOTHING
from agentmem.testing import HashEmbedder, ManualClock, ScriptedModel

FACT = "Deploys go out on Thursdays at 10:00."


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[agentmem.MemoryManager]:
    with agentmem.open(tmp_path / "m.db", embedder=HashEmbedder(), clock=ManualClock()) as opened:
        opened.add(FACT, user_id="sam")
        yield opened


def call(name: str, arguments: str = "{}", call_id: str = "c1") -> dict[str, Any]:
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
        ],
    }


def run(goal: str, memory: Any, model: Any, **options: Any) -> AgentLoopResult:
    return run_agent_loop_sync(goal, memory=memory, model=model, user_id="sam", **options)


def test_the_answer_comes_with_what_it_was_made_from(memory: agentmem.MemoryManager) -> None:
    model = ScriptedModel("On Thursdays [1].")
    result = run("When do deploys go out?", memory, model)
    assert result.answer == "On Thursdays [1]."
    assert [c.quote for c in result.citations] == [FACT]
    assert result.usage["total_tokens"] > 0
    assert result.budget is not None
    assert result.snapshot_id
    assert result.degradations == ()
    sent = model.requests[0]["messages"]
    assert [m["role"] for m in sent] == ["user", "assistant", "user"]
    assert FACT in sent[1]["content"]
    assert [m["role"] for m in result.messages] == ["user", "assistant"]
    names = [tool["function"]["name"] for tool in model.requests[0]["tools"]]
    assert names == ["memory_read", "memory_search"]


def test_a_second_session_remembers_the_first(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    with agentmem.open(path) as memory:
        run("I prefer short answers. Our cat is called Deploy.", memory, ScriptedModel("Noted."))
    with agentmem.open(path) as memory:
        result = run("What is the name of our cat?", memory, "extractive")
    assert "Our cat is called Deploy." in result.answer
    assert "I prefer short answers" in result.block


def test_the_extractive_model_says_when_memory_has_nothing(memory: agentmem.MemoryManager) -> None:
    assert "On" not in run("How do I knit a scarf?", memory, "extractive").answer
    assert run("How do I knit a scarf?", None, "extractive").answer.startswith("Nothing in memory")


def test_tools_run_and_large_results_stay_out_of_the_prompt(
    memory: agentmem.MemoryManager,
) -> None:
    def read_log(lines: int) -> str:
        """Read the log."""
        return "\n".join(f"{n}: all is well" for n in range(lines))

    model = ScriptedModel(call("read_log", '{"lines": 500}'), "All is well.")
    result = run("What does the log say?", memory, model, tools=[read_log])
    (outcome,) = result.tool_calls
    assert outcome.ok
    answer = model.requests[1]["messages"][-1]
    assert answer["role"] == "tool"
    assert outcome.result_id in answer["content"]
    assert len(answer["content"]) < 600
    assert [m["role"] for m in result.messages] == ["user", "assistant", "tool", "assistant"]
    model = ScriptedModel(
        call("memory_read", f'{{"id": "{outcome.result_id}", "lines": "499-500"}}'), "It ends well."
    )
    run("How does that log end?", memory, model)
    assert "499: all is well" in model.requests[1]["messages"][-1]["content"]


def test_after_the_last_round_the_model_is_asked_for_its_best_answer(
    memory: agentmem.MemoryManager,
) -> None:
    def poke() -> str:
        return "nothing"

    calls = [call("poke", f'{{"n": {n}}}', f"c{n}") for n in range(3)]
    model = ScriptedModel(*calls[:2], "I do not know.")
    result = run("Poke it.", memory, model, tools=[poke], config=LoopConfig(max_iterations=2))
    assert (result.answer, result.why, result.iterations) == ("I do not know.", "limit", 3)
    # A provider that sees tool calls in the history wants to see the tools too.
    assert model.requests[2]["tools"] == model.requests[0]["tools"]
    assert model.requests[2]["tool_choice"] == "none"
    assert model.requests[2]["messages"][-1] == {"role": "user", "content": BEST_ANSWER}
    assert all(m.get("content") != BEST_ANSWER for m in result.messages)


def test_an_answer_streams_from_sync_and_async_models(memory: agentmem.MemoryManager) -> None:
    def chunk(text: str) -> dict[str, Any]:
        return {"choices": [{"index": 0, "delta": {"content": text}}]}

    def sync_model(*, messages: Any, stream: bool = False) -> Any:
        return iter([chunk("On "), chunk("Thursdays.")]) if stream else {"choices": []}

    async def async_model(*, messages: Any, **options: Any) -> AsyncIterator[Any]:
        async def chunks() -> AsyncIterator[Any]:
            for text in ("On ", "Thursdays."):
                yield chunk(text)

        assert options["stream"]
        return chunks()

    def whole(messages: Any) -> str:
        return "On Thursdays."

    for model, heard in (
        (sync_model, ["On ", "Thursdays."]),
        (async_model, ["On ", "Thursdays."]),
        (whole, ["On Thursdays."]),
    ):
        told: list[str] = []
        result = run("When do deploys go out?", memory, model, on_chunk=told.append)
        assert told == heard
        assert result.answer == "On Thursdays."


def test_a_signal_stops_at_once_and_keeps_what_was_learned(
    memory: agentmem.MemoryManager,
) -> None:
    started, let_go = threading.Event(), threading.Event()
    stop = threading.Event()

    def slow(*, messages: Any) -> str:
        started.set()
        let_go.wait(60)
        return "too late"

    def stop_once_started() -> None:
        started.wait(60)
        stop.set()

    def watch(status: Status) -> None:
        if status.step == "model":
            threading.Thread(target=stop_once_started, daemon=True).start()

    result = run("I prefer tea over coffee.", memory, slow, signal=stop, on_status=watch)
    assert (result.answer, result.why) == ("", "stopped")
    let_go.set()
    memory.flush(10)
    kinds = {m.kind: m.text for m in memory.get_all(user_id="sam")}
    assert kinds["preference"] == "I prefer tea over coffee"
    assert kinds["message"] == "I prefer tea over coffee."


def test_an_asyncio_event_stops_a_tool_too(memory: agentmem.MemoryManager) -> None:
    async def main() -> AgentLoopResult:
        stop = asyncio.Event()

        async def hang() -> str:
            stop.set()
            await asyncio.Event().wait()
            return "never"

        return await run_agent_loop(
            "Wait for it.", memory=memory, model=ScriptedModel(call("hang")), tools=[hang],
            signal=stop, user_id="sam",
        )  # fmt: skip

    assert asyncio.run(main()).why == "stopped"


def test_what_the_model_raises_is_raised_and_the_turn_is_kept(
    memory: agentmem.MemoryManager,
) -> None:
    with pytest.raises(ConnectionError):
        run("Our dog is called Rollback.", memory, ScriptedModel(ConnectionError("down")))
    memory.flush(10)
    assert "Our dog is called Rollback." in [m.text for m in memory.get_all(user_id="sam")]


def test_pages_are_indexed_in_the_background(memory: agentmem.MemoryManager) -> None:
    pages = [
        {"url": "https://wiki.example/a", "title": "A", "content": "<h1>A</h1><p>Alpha page.</p>"},
        ("https://wiki.example/b", "# B\n\nBeta page."),
        agentmem.Document(text="Gamma page.", url="https://wiki.example/c"),
    ]
    run("Hello there.", memory, ScriptedModel("Hi."), pages=pages)
    assert memory.flush(20)
    for name, word in (("a", "Alpha"), ("b", "Beta"), ("c", "Gamma")):
        (chunk,) = memory.sources.search_by_url(f"https://wiki.example/{name}", user_id="sam")
        assert word in chunk.text


def test_the_steps_are_told_in_order(memory: agentmem.MemoryManager) -> None:
    told: list[Status] = []
    run("I prefer tea. When do deploys go out?", memory, ScriptedModel("x"), on_status=told.append)
    assert [s.step for s in told] == [
        "ready", "preferences", "context", "model", "indexing", "answer"
    ]  # fmt: skip


def test_history_gives_way_to_a_small_window_and_the_goal_never_does(
    memory: agentmem.MemoryManager,
) -> None:
    model = ScriptedModel("ok")
    model.name = "groq/llama3-8b-8192"  # type: ignore[attr-defined]  # how a callable says it
    history = [
        {"role": role, "content": f"{number} " + "and so on " * 300}
        for number in range(20)
        for role in ("user", "assistant")
    ]
    result = run("When do deploys go out?", memory, model, messages=history)
    sent = model.requests[0]["messages"]
    assert len(sent) < len(history)
    assert sent[-1]["content"] == "When do deploys go out?"
    assert any("trimmed" in looked.reason for looked in looked_at(memory, result))
    with pytest.raises(BudgetError):
        run("long " * 20_000, memory, model)
    assert len(model.requests) == 1


def looked_at(memory: agentmem.MemoryManager, result: AgentLoopResult) -> Any:
    scope = agentmem.Scope(user_id="sam")
    return memory.runtime.trace.get(result.snapshot_id, scope=scope).looked_at


@pytest.mark.parametrize("goal", ["", "  ", [], None, 7])
def test_a_goal_is_needed(memory: agentmem.MemoryManager, goal: Any) -> None:
    with pytest.raises(InvalidInput, match="goal"):
        run(goal, memory, ScriptedModel("x"))


@pytest.mark.parametrize("model", ["", None, 3])
def test_a_model_is_needed(memory: agentmem.MemoryManager, model: Any) -> None:
    with pytest.raises(InvalidInput, match="is no model"):
        run("hi", memory, model)


def test_settings_are_checked() -> None:
    with pytest.raises(InvalidNumber):
        LoopConfig(recall=RecallConfig(top_k=-1))
    with pytest.raises(InvalidInput):
        LoopConfig(recall=RecallConfig(search_mode="psychic"))  # type: ignore[arg-type]  # on purpose


def test_without_memory_the_loop_still_answers() -> None:
    result = run("hi", None, ScriptedModel("hello"))
    assert (result.answer, result.degradations, result.snapshot_id) == ("hello", (), "")


def test_stopped_among_tools_each_call_has_an_answer_to_go_on_with(
    memory: agentmem.MemoryManager,
) -> None:
    async def go() -> AgentLoopResult:
        signal, quick_ended = asyncio.Event(), asyncio.Event()

        async def quick() -> str:
            quick_ended.set()
            return "quick result"

        async def slow() -> str:
            await quick_ended.wait()
            while not memory.store.artifacts.list(Scope(user_id="sam")):
                await asyncio.sleep(0.01)
            asyncio.get_running_loop().call_later(0.2, signal.set)
            await asyncio.Event().wait()
            return "never"

        both = call("quick", call_id="a")
        both["tool_calls"] += call("slow", call_id="b")["tool_calls"]
        return await run_agent_loop(
            "Do both.", memory=memory, model=ScriptedModel(both), tools=[quick, slow],
            signal=signal, user_id="sam",
        )  # fmt: skip

    result = asyncio.run(go())
    assert result.why == "stopped"
    assert [m["role"] for m in result.messages] == ["user", "assistant", "tool", "tool"]
    assert [m.get("tool_call_id") for m in result.messages[2:]] == ["a", "b"]
    assert result.messages[2]["content"] == "quick result"
    assert result.messages[3]["content"] == NOT_ENDED
    assert [outcome.name for outcome in result.tool_calls] == ["quick"]


def test_a_signal_that_is_set_already_asks_nobody_and_keeps_what_the_user_said(
    memory: agentmem.MemoryManager,
) -> None:
    signal = threading.Event()
    signal.set()
    model = ScriptedModel("never")
    assert run("My boat is called Ida.", memory, model, signal=signal).why == "stopped"
    assert model.requests == []


def test_a_signal_does_not_wait_for_a_search_and_what_the_user_said_is_kept(
    tmp_path: Path,
) -> None:
    released = threading.Event()

    class Slow(HashEmbedder):
        def embed_query(self, text: str, /) -> Any:
            released.wait(30)
            return super().embed_query(text)

    with agentmem.open(tmp_path / "slow.db", embedder=Slow()) as memory:
        memory.add(FACT, user_id="sam")
        signal = threading.Event()
        threading.Timer(0.1, signal.set).start()
        result = run("My boat is called Ida.", memory, ScriptedModel("x"), signal=signal)
        assert (result.why, released.is_set()) == ("stopped", False)
        released.set()
        for _ in range(500):
            if any(m.text == "My boat is called Ida." for m in memory.get_all(user_id="sam")):
                break
            memory.flush(0.02)
            threading.Event().wait(0.01)
        else:
            raise AssertionError


def test_of_a_stream_that_breaks_the_words_so_far_are_kept(memory: agentmem.MemoryManager) -> None:
    def breaks(messages: Any, stream: bool = False) -> Iterator[Any]:
        yield {"choices": [{"delta": {"content": "The ferry to Mull leaves at"}}]}
        raise ConnectionError

    with pytest.raises(ConnectionError):
        run("When does the ferry leave?", memory, breaks, on_chunk=lambda text: None)
    assert memory.flush(10)
    kept = [m.text for m in memory.get_all(user_id="sam")]
    assert "The ferry to Mull leaves at" in kept


@pytest.mark.parametrize(
    "model", [lambda m: "fine", lambda chat, /: "fine", lambda *chat: "fine" if chat else "none"]
)
def test_a_callable_without_messages_gets_them_first(model: Any) -> None:
    assert run("Hello.", None, model).answer == "fine"


def test_the_sync_form_says_what_to_write_where_a_loop_runs() -> None:
    async def go() -> None:
        with pytest.raises(InvalidInput, match="await run_agent_loop"):
            run("Hello.", None, "extractive")

    asyncio.run(go())


def test_the_extractive_model_knows_what_the_user_said_a_moment_ago(
    memory: agentmem.MemoryManager,
) -> None:
    told = run("The boiler room code is 4711.", memory, "extractive")
    assert told.answer == NOTED
    asked = run("What is the boiler room code?", memory, "extractive", messages=told.messages)
    assert asked.answer == "You told me: The boiler room code is 4711."
    other = run("When do deploys go out?", memory, "extractive", messages=asked.messages)
    assert other.answer == f"{FACT} [1]"
    thanks = run("Thanks", memory, "extractive", messages=told.messages)
    assert "4711" not in thanks.answer


@pytest.mark.parametrize(
    "asks", ["Tell me about the quarry.", "I want to know who owns the quarry.", "quarry opening"]
)
def test_the_extractive_model_takes_no_request_for_a_statement(
    memory: agentmem.MemoryManager, asks: str
) -> None:
    assert run(asks, memory, "extractive").answer == NOTHING


@pytest.mark.parametrize(
    "message",
    [
        {"content": None, "refusal": "I cannot help with that."},
        {"content": [{"type": "refusal", "refusal": "I cannot help with that."}]},
        {"content": [{"type": "thinking", "text": "Hm."}, {"type": "text", "text": "I cannot "},
                     {"type": "output_text", "text": "help with that."}]},
    ],
)  # fmt: skip
def test_a_refusal_is_an_answer_and_thoughts_are_not(message: dict[str, Any]) -> None:
    def whole(messages: Any) -> Any:
        return {"choices": [{"message": {"role": "assistant", **message}}]}

    def streamed(messages: Any, stream: bool = False) -> Any:
        return iter([{"choices": [{"index": 0, "delta": message}]}])

    with agentmem.open(":memory:", embedder=None) as memory:
        for model in (whole, streamed):
            heard: list[str] = []
            result = run_agent_loop_sync("Help?", memory=memory, model=model, on_chunk=heard.append)
            assert result.answer == "I cannot help with that."
            assert "".join(heard) == result.answer


@pytest.mark.parametrize(
    "wrong",
    [
        {"messages": "before"},
        {"messages": {"role": "user", "content": "before"}},
        {"messages": [1]},
        {"messages": 7},
        {"signal": 3},
        {"on_chunk": 3},
        {"on_status": "print"},
        {"config": {"top_k": 3}},
    ],
    ids=str,
)
def test_what_cannot_work_is_refused_before_anything_is_done(
    memory: agentmem.MemoryManager, wrong: dict[str, Any]
) -> None:
    model = ScriptedModel("never asked")
    for used in (memory, None):
        with pytest.raises(InvalidInput, match=next(iter(wrong))) as raised:
            run_agent_loop_sync("Hello?", memory=used, model=model, **wrong)
        assert raised.value.remedy
    assert memory.flush(5)
    assert not memory.get_all(kinds=["message"])


def test_what_was_said_in_a_turn_stopped_while_it_was_built_survives_closing(
    tmp_path: Path,
) -> None:
    stop, building = threading.Event(), threading.Event()

    class Slow(HashEmbedder):
        def embed_query(self, text: str, /) -> Any:
            building.set()
            stop.wait(10)
            return super().embed_query(text)

    def stopper() -> None:
        assert building.wait(10)
        stop.set()

    memory = agentmem.open(tmp_path / "late.db", embedder=Slow())
    memory.add(FACT, user_id="sam")
    threading.Thread(target=stopper).start()
    result = run_agent_loop_sync(
        "My cat is called Miso.", memory=memory, model=ScriptedModel("Hi."), signal=stop,
        user_id="sam",
    )  # fmt: skip
    assert result.why == "stopped"
    memory.close()
    with agentmem.open(tmp_path / "late.db", embedder=HashEmbedder()) as again:
        assert "My cat is called Miso." in [m.text for m in again.get_all(user_id="sam")]


@pytest.mark.parametrize("model", ["my-own-model", "gpt-4", ""])
def test_memory_refuses_nothing_that_the_model_may_take(
    memory: agentmem.MemoryManager, model: str
) -> None:
    asked = ScriptedModel("a summary")
    asked.name = model  # type: ignore[attr-defined]  # how a callable says it
    size = 130_000 if not model else 4_500
    result = run("Summarise: " + "word " * size, memory, asked)
    assert result.answer == "a summary"
    said = "is not known" if model == "my-own-model" else "too little room"
    assert any(said in problem for problem in result.degradations)
    assert len(asked.requests[0]["messages"]) == 1


def test_a_stated_window_is_believed(memory: agentmem.MemoryManager) -> None:
    asked = ScriptedModel("a summary")
    asked.name = "my-own-model"  # type: ignore[attr-defined]  # how a callable says it
    goal = "When do deploys go out? " + "word " * 5_000
    result = run(goal, memory, asked, config=LoopConfig(budget=BudgetConfig(context_window=32_000)))
    assert result.degradations == ()
    with pytest.raises(BudgetError):
        run(
            "word " * 40_000,
            memory,
            asked,
            config=LoopConfig(budget=BudgetConfig(context_window=32_000)),
        )


def test_a_loop_that_is_stopped_before_it_begins_keeps_what_was_said(
    memory: agentmem.MemoryManager,
) -> None:
    signal = threading.Event()
    signal.set()
    result = run("My cat is called Tom.", memory, ScriptedModel("x"), signal=signal)
    assert result.why == "stopped"
    assert memory.flush(10)
    said = [m.text for m in memory.get_all(user_id="sam", kinds=["message"])]
    assert said == ["My cat is called Tom."]


@pytest.mark.parametrize("wrong", [{"memory": "store.db"}, {"tools": len}, {"tools": "abc"}])
def test_a_loop_refuses_what_is_no_memory_and_no_list_of_tools(wrong: dict[str, Any]) -> None:
    options = {"memory": None, **wrong}
    with pytest.raises(InvalidInput):
        run_agent_loop_sync("hi", model=ScriptedModel("x"), user_id="sam", **options)


def test_the_loop_warns_when_memories_were_found_and_none_has_room(
    memory: agentmem.MemoryManager,
) -> None:
    config = LoopConfig(budget=BudgetConfig(knowledge=1))
    result = run("When do deploys go out?", memory, ScriptedModel("Whenever."), config=config)
    assert result.budget is not None
    assert [warning.code for warning in result.budget.warnings] == ["no_memories"]
    plenty = run("When do deploys go out?", memory, ScriptedModel("Whenever."))
    assert plenty.budget is not None
    assert plenty.budget.warnings == ()


class TakesNoTools(Exception):
    status_code = 400


class Small(ScriptedModel):
    """A model that refuses a request with tools, as Ollama does."""

    name = "ollama/gemma:2b"

    def __init__(self, *replies: Any) -> None:
        super().__init__(*replies)
        self.refused = 0

    def __call__(self, **request: Any) -> Any:
        if request.get("tools"):
            self.refused += 1
            raise TakesNoTools(
                '{"error": "registry.ollama.ai/library/gemma:2b does not support tools"}'
            )
        return super().__call__(**request)


def test_the_tools_of_memory_are_left_out_for_a_model_that_refuses_them_once(
    memory: agentmem.MemoryManager,
) -> None:
    model = Small("Hello.")
    results = [run("Hi there, you", memory, model) for _ in range(2)]
    assert [one.answer for one in results] == ["Hello.", "Hello."]
    assert model.refused == 1
    assert any("memory_tools=False" in one for one in results[0].degradations)
    assert not results[1].degradations
    assert [one.iterations for one in results] == [1, 1]
    assert run("Hi", memory, Small("Yes."), config=LoopConfig(memory_tools=False)).answer == "Yes."


def test_a_model_that_refuses_the_callers_own_tools_raises_what_it_says(
    memory: agentmem.MemoryManager,
) -> None:
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    model = Small("Hello.")
    with pytest.raises(TakesNoTools):
        run("Hi there, you", memory, model, tools=[add])
    assert model.refused == 2


@pytest.mark.parametrize(
    ("said", "status", "refuses"),
    [
        ("`tools` is not supported with this model", 400, True),
        ('"auto" tool choice requires --enable-auto-tool-choice to be set', 400, True),
        ("No endpoints found that support tool use.", 404, True),
        ("Unrecognized request argument supplied: tools", 400, True),
        ("Invalid schema for function 'add': 'strin' is no type", 400, False),
        ("the toolbox server does not support this model", 400, False),
        ("tools are not supported", 401, False),
    ],
)
def test_a_refusal_of_tools_is_told_from_other_errors(
    said: str, status: int, refuses: bool
) -> None:
    error = RuntimeError(said)
    error.status_code = status  # type: ignore[attr-defined]  # as SDKs have it
    assert refuses_tools(error) is refuses
