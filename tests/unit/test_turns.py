"""A turn for loops of one's own: what is sent, what is kept, and what happens when memory fails."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import agentmem
from agentmem.agent.adapters.replies import read_usage as wrapped_usage
from agentmem.base.config import BudgetConfig, LearnConfig, LoopConfig, RecallConfig
from agentmem.base.errors import BudgetError, InvalidInput, InvalidScope
from agentmem.prompt.block import STUB
from agentmem.prompt.messages import is_reference
from agentmem.testing import HashEmbedder, ManualClock
from agentmem.text.messages import read_usage

SYSTEM = {"role": "system", "content": "You are the on-call assistant."}
ASK = {"role": "user", "content": "When do deploys go out?"}


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[agentmem.MemoryManager]:
    with agentmem.open(tmp_path / "m.db", embedder=HashEmbedder(), clock=ManualClock()) as opened:
        opened.add("Deploys go out on Thursdays at 10:00.", user_id="sam")
        opened.add("The ledger table belongs to the storage team.", user_id="sam")
        yield opened


def kinds(memory: agentmem.MemoryManager, kind: str) -> list[str]:
    return [m.text for m in memory.get_all(user_id="sam", kinds=[kind])]


def test_one_reference_stands_before_the_question_and_the_rest_is_untouched(
    memory: agentmem.MemoryManager,
) -> None:
    with memory.turn([SYSTEM, ASK], model="gpt-4o", user_id="sam") as turn:
        assert [m["role"] for m in turn.messages] == ["system", "user", "assistant", "user"]
        assert turn.messages[0] == SYSTEM
        assert turn.messages[1]["content"] == STUB
        assert is_reference(turn.messages[2])
        assert turn.messages[3] == ASK
        assert turn.citations[0].index == 1
        assert turn.degradations == []


def test_the_block_says_how_many_were_found_and_not_only_how_many_are_shown() -> None:
    asked = [{"role": "user", "content": "At how many degrees does each kiln fire?"}]
    with agentmem.open(":memory:", embedder=None, clock=ManualClock()) as memory:
        for number in range(12):
            memory.add(f"Kiln {number} fires at {900 + number} degrees.", user_id="sam")
        turn = memory.turn(asked, config=LoopConfig(recall=RecallConfig(top_k=5)), user_id="sam")
        assert "Showing 5 of 12 sources" in turn.block_text


def test_a_turn_is_remembered_and_the_next_one_finds_it(memory: agentmem.MemoryManager) -> None:
    with memory.turn(
        [{"role": "user", "content": "Our cat is called Deploy."}], user_id="sam"
    ) as t:
        t.done("A fine name for a cat.")
    assert memory.flush(10)
    assert set(kinds(memory, "message")) == {"Our cat is called Deploy.", "A fine name for a cat."}
    again = memory.turn([{"role": "user", "content": "What is our cat called?"}], user_id="sam")
    assert "Our cat is called Deploy." in again.block_text


def test_what_was_injected_is_never_stored_even_when_the_answer_quotes_it(
    memory: agentmem.MemoryManager,
) -> None:
    with memory.turn([ASK], user_id="sam") as turn:
        turn.done(f"{turn.block_text}\nAll of this I was shown.")
    memory.flush(10)
    assert kinds(memory, "message").count("All of this I was shown.") == 1
    assert not any("knowledge_context" in m.text for m in memory.get_all(user_id="sam"))


def test_a_turn_that_began_without_a_block_gets_none_later(memory: agentmem.MemoryManager) -> None:
    ask = {"role": "user", "content": "How do I knit a scarf?"}
    assert not memory.turn([ask], user_id="sam").injected
    memory.add("To knit a scarf, cast on forty stitches.", user_id="sam")
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    steps = [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "content": "ok"},
    ]
    assert memory.turn([ask, *steps], user_id="sam").messages == [ask, *steps]
    assert memory.turn([ask], user_id="sam").injected


@pytest.mark.parametrize(
    ("answer", "kept"),
    [
        ("Deploys go out on Thursdays at 10:00. [1]", None),
        ("Yes.", "Yes."),
        ("On Thursdays [1], as the team decided.", "On Thursdays, as the team decided."),
    ],
)
def test_an_answer_is_kept_without_quotes_and_numbers(
    memory: agentmem.MemoryManager, answer: str, kept: str | None
) -> None:
    memory.turn([ASK], user_id="sam").done(answer)
    memory.flush(10)
    assert kinds(memory, "message") == ([kept] if kept else []) + [ASK["content"]]


def test_the_steps_of_a_turn_get_the_block_that_was_built_for_it(
    memory: agentmem.MemoryManager,
) -> None:
    first = memory.turn([SYSTEM, ASK], user_id="sam")
    memory.add("Deploys go out on Mondays too.", user_id="sam")
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    steps = [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "content": "ok"},
    ]
    second = memory.turn([SYSTEM, ASK, *steps], user_id="sam")
    assert second.messages[:4] == first.messages
    assert second.messages[4:] == steps


def test_a_turn_that_never_reached_the_model_still_keeps_what_the_user_said(
    memory: agentmem.MemoryManager,
) -> None:
    with (
        pytest.raises(ConnectionError),
        memory.turn([{"role": "user", "content": "I prefer tea over coffee."}], user_id="sam"),
    ):
        raise ConnectionError("no network")
    memory.flush(10)
    assert kinds(memory, "message") == ["I prefer tea over coffee."]
    assert kinds(memory, "preference") == ["I prefer tea over coffee"]
    last = memory.runtime.trace.last(scope=agentmem.Scope(user_id="sam"))
    assert last is not None
    assert last.outcome is not None
    assert "no network" in last.outcome.error


def test_settings_turn_things_off(memory: agentmem.MemoryManager) -> None:
    config = LoopConfig(
        learn=LearnConfig(auto_index=False, preferences=False), recall=RecallConfig(top_k=0)
    )
    with memory.turn(
        [{"role": "user", "content": "I prefer tea. When do deploys go out?"}],
        user_id="sam",
        config=config,
    ) as turn:
        assert not turn.injected
        turn.done("On Thursdays.")
    memory.flush(10)
    assert kinds(memory, "message") == kinds(memory, "preference") == []


def test_a_dry_turn_keeps_nothing(memory: agentmem.MemoryManager) -> None:
    with memory.turn(
        [{"role": "user", "content": "I prefer tea. When do deploys go out?"}],
        user_id="sam",
        dry=True,
    ) as turn:
        assert turn.injected
        turn.done("On Thursdays.")
    memory.flush(10)
    assert kinds(memory, "message") == kinds(memory, "preference") == []
    assert memory.runtime.trace.last(scope=agentmem.Scope(user_id="sam")) is None


def test_what_the_conversation_says_already_is_not_said_again(
    memory: agentmem.MemoryManager,
) -> None:
    said = {"role": "user", "content": "Deploys go out on Thursdays at 10:00."}
    turn = memory.turn([said, {"role": "assistant", "content": "Noted."}, ASK], user_id="sam")
    assert "Thursdays" not in turn.block_text
    assert turn.snapshot is not None
    reasons = [looked.reason for looked in turn.snapshot.looked_at]
    assert "already in the conversation" in reasons


@pytest.mark.parametrize(
    "messages",
    [[], [SYSTEM], [{"role": "assistant", "content": "hi"}], [{"role": "user", "content": ""}]],
)
def test_where_nobody_asks_nothing_is_added(
    memory: agentmem.MemoryManager, messages: list[dict[str, Any]]
) -> None:
    turn = memory.turn(messages, user_id="sam")
    assert turn.messages == messages
    assert turn.degradations == []


@pytest.mark.parametrize("messages", [["hi"], [{"content": "no role"}], [None]])
def test_messages_nobody_can_read_pass_through_with_a_note(
    memory: agentmem.MemoryManager, messages: list[Any]
) -> None:
    turn = memory.turn(messages, user_id="sam")
    assert turn.messages == messages
    assert "InvalidMessage" in turn.degradations[0]
    turn.done("fine")


def test_a_closed_memory_leaves_the_messages_as_they_are(tmp_path: Path) -> None:
    memory = agentmem.open(tmp_path / "m.db", embedder=HashEmbedder())
    memory.add("Deploys go out on Thursdays.", user_id="sam")
    memory.close()
    with memory.turn([SYSTEM, ASK], user_id="sam") as turn:
        assert turn.messages == [SYSTEM, ASK]
        assert any("StoreClosed" in problem for problem in turn.degradations)
        turn.done("whatever")


def test_the_window_decides_how_much_memory_there_is(memory: agentmem.MemoryManager) -> None:
    for number in range(40):
        memory.add(f"Deploys go out, rule {number}: " + "and so on " * 60, user_id="sam")
    turn = memory.turn(
        [ASK], model="gpt-4o", user_id="sam", config=LoopConfig(recall=RecallConfig(top_k=40))
    )
    assert turn.context.built.knowledge.tokens <= 2_000
    small = memory.turn(
        [ASK], model="gpt-4o", user_id="sam", config=LoopConfig(budget=BudgetConfig(knowledge=100))
    )
    assert small.context.built.knowledge.tokens <= 100
    memory.preferences.add("I like tea", user_id="sam")
    none = memory.turn(
        [ASK], model="gpt-4o", user_id="sam", config=LoopConfig(budget=BudgetConfig(knowledge=0))
    )
    assert none.block is not None
    assert none.block.user_profile == ("I like tea",)
    assert none.block.related_knowledge == ()


def test_trimming_refuses_what_cannot_fit_before_any_model_is_asked(
    memory: agentmem.MemoryManager,
) -> None:
    huge = {"role": "user", "content": "deploy " * 20_000}
    with pytest.raises(BudgetError):
        memory.turn([huge], model="groq/llama3-8b-8192", user_id="sam", trim=True)
    turn = memory.turn([huge], model="groq/llama3-8b-8192", user_id="sam")
    assert turn.messages == [huge]
    assert any("do not fit" in problem for problem in turn.degradations)


def test_usage_teaches_the_counter_and_is_kept(memory: agentmem.MemoryManager) -> None:
    for _ in range(3):
        turn = memory.turn([SYSTEM, ASK], model="mistral/mistral-large-latest", user_id="sam")
        turn.done("ok", usage={"prompt_tokens": 2 * turn.context.estimated_tokens})
    memory.flush(10)
    counter = memory.runtime.tokenizer("mistral/mistral-large-latest")[0]
    assert counter.corrected(100) > 100
    assert "mistral" in (memory.store.settings.get("token corrections") or "")


def test_cited_and_ignored_memories_are_counted(memory: agentmem.MemoryManager) -> None:
    ask = {"role": "user", "content": "Deploys go out when? Who owns the ledger table?"}
    with memory.turn([ask], user_id="sam") as turn:
        assert len(turn.citations) == 2
        turn.done(f"On Thursdays [{turn.citations[0].index}].")
    memory.flush(10)
    cited = memory.get(turn.citations[0].memory_id, user_id="sam").usage
    ignored = memory.get(turn.citations[1].memory_id, user_id="sam").usage
    assert (cited.retrieved, cited.cited, cited.ignored) == (1, 1, 0)
    assert (ignored.retrieved, ignored.cited, ignored.ignored) == (1, 0, 1)


def test_scope_is_said_once_and_in_any_form(memory: agentmem.MemoryManager) -> None:
    for scope in ("sam", {"user_id": "sam"}, agentmem.Scope(user_id="sam")):
        assert memory.turn([ASK], scope=scope).injected
    assert not memory.turn([ASK], user_id="bob").injected
    with pytest.raises(InvalidInput, match="said twice"):
        memory.turn([ASK], scope="sam", user_id="bob")
    with pytest.raises(InvalidScope):
        memory.turn([ASK], scope={"user": "sam"})


def test_wrappers_and_turns_count_a_cached_prompt_alike() -> None:
    usage = {"input_tokens": 3, "output_tokens": 4, "cache_read_input_tokens": 100}
    assert read_usage(usage)["prompt"] == 103
    seen = wrapped_usage(usage)
    assert seen is not None
    assert (seen["prompt_tokens"], seen["total_tokens"]) == (103, 107)


def test_a_providers_usage_is_read_under_its_own_names() -> None:
    assert read_usage({"input_tokens": 3, "output_tokens": 4}) == {
        "prompt": 3, "completion": 4, "total": 7
    }  # fmt: skip
    assert read_usage(None) == read_usage("none") == read_usage({"prompt_tokens": "x"}) == {}


def test_the_same_words_again_are_not_kept_twice(memory: agentmem.MemoryManager) -> None:
    for _ in range(2):
        memory.turn([ASK], user_id="sam").done("On Thursdays, as ever.")
        memory.clock.advance(100_000)  # type: ignore[attr-defined]  # the clock of this test
    memory.flush(10)
    assert sorted(kinds(memory, "message")) == ["On Thursdays, as ever.", ASK["content"]]


def test_erasing_takes_the_turn_its_trace_and_what_waits_with_it(
    memory: agentmem.MemoryManager, tmp_path: Path
) -> None:
    secret = "Our safe opens with nineteen eighty-four."
    memory.add("The safe stands in the cellar.", user_id="sam")
    with memory.turn([{"role": "user", "content": secret}], user_id="sam") as turn:
        turn.done("I will remember that the safe opens with that number.")
    again = memory.turn([{"role": "user", "content": "How does our safe open?"}], user_id="sam")
    memory.upkeep.erase_all(user_id="sam")
    assert not memory.turn([ASK], user_id="sam").injected
    memory.upkeep.sync()
    files = [file.read_bytes() for file in tmp_path.iterdir() if file.is_file()]
    assert files
    assert not any(b"nineteen eighty-four" in data for data in files)
    assert again.snapshot is not None


def test_what_was_heard_is_in_the_trace_and_can_be_undone(memory: agentmem.MemoryManager) -> None:
    turn = memory.turn([{"role": "user", "content": "I prefer tea."}], user_id="sam")
    (heard,) = turn.preferences
    assert turn.snapshot is not None
    (seen,) = [seen for seen in turn.snapshot.looked_at if seen.section == "profile"]
    assert seen.id == heard.id
    assert seen.reason.endswith("heard in this turn")
    memory.preferences.undo(heard.id, user_id="sam")
    assert memory.preferences.get_all(user_id="sam") == ()


def test_questions_asked_before_do_not_crowd_out_the_answer(
    memory: agentmem.MemoryManager,
) -> None:
    memory.add("Boat number 7 is moored at pier 3 and is painted red.", user_id="sam")
    for number in range(60):
        with memory.turn(
            [{"role": "user", "content": f"Where is boat number {number} moored now?"}],
            user_id="sam",
        ) as turn:
            turn.done("No idea.")
    assert memory.flush(10)
    asked = [{"role": "user", "content": "Where is boat number 7 moored now?"}]
    with memory.turn(asked, user_id="sam") as turn:
        assert "Boat number 7 is moored at pier 3" in turn.block_text


def test_use_moves_the_order_and_the_trace_says_so(memory: agentmem.MemoryManager) -> None:
    ask = {"role": "user", "content": "Deploys go out when? Who owns the ledger table?"}
    with memory.turn([ask], user_id="sam") as turn:
        turn.done(f"It is so [{turn.citations[1].index}].")
    memory.flush(10)
    again = memory.turn([{"role": "user", "content": ask["content"] + " Say it."}], user_id="sam")
    assert again.snapshot is not None
    seen = {looked.id: looked for looked in again.snapshot.looked_at}
    assert seen[turn.citations[1].memory_id].boosts["use"] > 0
    assert turn.citations[0].memory_id in seen


def test_an_answer_that_was_nothing_does_not_cost_the_conversation_its_memory(
    memory: agentmem.MemoryManager,
) -> None:
    history = [{"role": "user", "content": "hm"}, {"role": "assistant", "content": None}]
    with memory.turn([*history, ASK], user_id="sam") as turn:
        assert "Deploys go out on Thursdays" in turn.block_text
        assert turn.degradations == []


def test_what_anthropic_read_from_its_cache_was_sent_too() -> None:
    usage = {"input_tokens": 10, "cache_read_input_tokens": 900, "output_tokens": 5}
    assert read_usage(usage) == {"prompt": 910, "completion": 5, "total": 915}
    both = {"prompt_tokens": 910, "cache_read_input_tokens": 900, "completion_tokens": 5}
    assert read_usage(both)["prompt"] == 910


def test_of_a_quote_that_is_left_out_no_full_stop_stays(memory: agentmem.MemoryManager) -> None:
    with memory.turn([ASK], user_id="sam") as turn:
        turn.done("Deploys go out on Thursdays at 10:00 [1]. Bring your own lunch and sunscreen.")
    assert memory.flush(10)
    assert "Bring your own lunch and sunscreen." in kinds(memory, "message")


@pytest.mark.parametrize("wrong", [None, "Hello?", 7, {"role": "user", "content": "Hello?"}])
def test_a_turn_is_refused_what_is_no_list_of_messages(wrong: Any) -> None:
    with (
        agentmem.open(":memory:", embedder=None) as memory,
        pytest.raises(InvalidInput, match="Pass a list of dicts"),
    ):
        memory.turn(wrong, user_id="ann")


def long_history(turns: int) -> list[dict[str, Any]]:
    return [
        message
        for number in range(turns)
        for message in (
            {"role": "user", "content": f"part {number} " + "some words said before " * 120},
            {"role": "assistant", "content": "ok"},
        )
    ]


def test_a_history_that_is_not_trimmed_is_counted_as_it_is_sent(
    memory: agentmem.MemoryManager,
) -> None:
    counter = memory.runtime.tokenizer("gpt-4")[0]
    available = counter.available_tokens
    for _ in range(4):
        turn = memory.turn([*long_history(12), ASK], model="gpt-4", user_id="sam")
        sent = counter.count_messages(turn.messages)
        assert turn.budget is not None
        assert abs(turn.budget.used_tokens - sent) <= 3  # what opens the answer
        assert turn.budget.over_budget
        assert turn.budget.window_tokens == counter.available_tokens + counter.reserve.total
        turn.done("ok", usage={"prompt_tokens": sent})
        memory.flush(10)
    assert abs(counter.available_tokens - available) <= 10


def test_blocks_of_earlier_turns_that_are_taken_out_cost_nothing(
    memory: agentmem.MemoryManager,
) -> None:
    first = memory.turn([ASK], model="gpt-4o", user_id="sam")
    history = [*first.messages, {"role": "assistant", "content": "On Thursdays."}]
    second = memory.turn(
        [*history, {"role": "user", "content": "And who owns the ledger table?"}],
        model="gpt-4o",
        user_id="sam",
    )
    counter = memory.runtime.tokenizer("gpt-4o")[0]
    assert sum(is_reference(message) for message in second.messages) == 1
    assert second.budget is not None
    assert abs(second.budget.used_tokens - counter.count_messages(second.messages)) <= 3


def test_a_lesson_that_comes_later_does_not_change_what_was_counted(
    memory: agentmem.MemoryManager,
) -> None:
    turn = memory.turn([*long_history(6), ASK], model="gpt-4", user_id="sam", dry=True)
    counter = memory.runtime.tokenizer("gpt-4")[0]
    window = counter.available_tokens + counter.reserve.total
    counter.observe(1_000, 1_500)
    assert turn.budget is not None
    assert turn.budget.window_tokens == window
    assert not any("trimmed" in looked.reason for looked in turn.snapshot.looked_at)  # type: ignore[union-attr]


def test_the_window_can_be_stated(memory: agentmem.MemoryManager) -> None:
    stated = memory.turn(
        [ASK],
        model="my-own-model",
        user_id="sam",
        config=LoopConfig(budget=BudgetConfig(context_window=32_000)),
    )
    assert stated.budget is not None
    assert stated.budget.window_tokens == 32_000
    with pytest.raises(InvalidInput):
        LoopConfig(budget=BudgetConfig(context_window=0))


@pytest.mark.parametrize("answer", [None, "cut \ud800 off"])
def test_what_the_user_said_is_kept_whatever_the_answer_is(
    memory: agentmem.MemoryManager, answer: str | None
) -> None:
    with memory.turn([{"role": "user", "content": "My cat is Tom."}], user_id="sam") as turn:
        turn.done(answer)
    assert turn.degradations == []
    assert memory.flush(10)
    assert "My cat is Tom." in kinds(memory, "message")


def test_what_is_erased_while_the_model_answers_does_not_come_back(
    memory: agentmem.MemoryManager,
) -> None:
    text = "The door code of the Zanzibar office is 4711 and nobody else knows it."
    kept = memory.add(text, user_id="sam")
    ask = {"role": "user", "content": "What is the door code of the Zanzibar office?"}
    with memory.turn([ask], user_id="sam") as turn:
        assert text in turn.block_text
        memory.erase(kept.ids[0], user_id="sam")
        turn.done(f"{text} [1]")
    assert memory.flush(10)
    assert not any(text in found.text for found in memory.get_all(user_id="sam"))


@pytest.mark.parametrize("wrong", [{"config": {"top_k": 1}}, {"message_id": 5}])
def test_arguments_that_make_no_sense_are_refused_at_once(
    memory: agentmem.MemoryManager, wrong: dict[str, Any]
) -> None:
    with pytest.raises(InvalidInput):
        memory.turn([ASK], user_id="sam", **wrong)
    if "config" in wrong:
        with pytest.raises(InvalidInput):
            memory.wrap(lambda **_: None, **wrong)


def test_what_nothing_waits_for_is_not_part_of_the_time_to_build(
    memory: agentmem.MemoryManager,
) -> None:
    turn = memory.turn([ASK], model="gpt-4o", user_id="sam")
    snapshot = turn.snapshot
    assert snapshot is not None
    assert {"search", "block", "count", "plan"} <= snapshot.timings_ms.keys()
    late = snapshot.timings_ms["count"] + snapshot.timings_ms["plan"]
    assert snapshot.build_ms == pytest.approx(sum(snapshot.timings_ms.values()) - late)
    packed = memory.turn([ASK], model="gpt-4o", user_id="sam", trim=True).snapshot
    assert packed is not None
    assert packed.build_ms == pytest.approx(sum(packed.timings_ms.values()))


def test_the_budget_of_a_turn_shows_tokens_by_memory_type(memory: agentmem.MemoryManager) -> None:
    memory.add("When deploys go out, ask in the deploys channel.", user_id="sam", kind="workflow")
    turn = memory.turn([SYSTEM, ASK], model="gpt-4o", user_id="sam")
    assert turn.budget is not None
    used = {use.type: use.tokens for use in turn.budget.component("memories").by_type}
    assert set(used) == {"memory-semantic", "memory-procedural"}
    assert all(used.values())
    assert not turn.budget.component("media").tokens


def test_an_image_in_the_question_of_a_turn_counts_as_media(memory: agentmem.MemoryManager) -> None:
    image = {"type": "image_url", "image_url": {"url": "https://example.com/chart.png"}}
    ask = {"role": "user", "content": [{"type": "text", "text": ASK["content"]}, image]}
    for trim in (False, True):
        turn = memory.turn([ask], model="gpt-4o", user_id="sam", trim=trim)
        assert turn.budget is not None
        assert turn.budget.component("media").tokens > 50
        assert turn.budget.component("current_message").tokens < 50


def test_two_conversations_that_ask_the_same_keep_their_own_blocks(
    memory: agentmem.MemoryManager,
) -> None:
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    steps = [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "content": "Thursday"},
    ]
    begun = [[SYSTEM, ASK], [{"role": "system", "content": "You are somebody else."}, ASK]]
    blocks = []
    for number, messages in enumerate(begun):
        blocks.append(memory.turn(messages, user_id="sam").block_text)
        memory.add(f"Deploys of team {number} go out on Fridays.", user_id="sam")
    assert blocks[0] != blocks[1]
    for messages, block in zip(begun, blocks, strict=True):
        assert memory.turn([*messages, *steps], user_id="sam").block_text == block
