"""Preferences as memories: kept, replaced, taken back, and cut to a budget."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import agentmem
from agentmem.base.errors import InvalidInput, InvalidScope, RecordNotFound
from agentmem.base.types import PREFERENCES_URL, Scope
from agentmem.living.preferences import PreferenceStore
from agentmem.testing import HashEmbedder, ManualClock


@pytest.fixture(params=["memory", "sqlite"])
def memory(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[agentmem.MemoryManager]:
    path = ":memory:" if request.param == "memory" else tmp_path / "m.db"
    with agentmem.open(path, embedder=HashEmbedder(), clock=ManualClock()) as opened:
        yield opened


def texts(preferences: PreferenceStore, user: str = "ana") -> list[str]:
    return [p.text for p in preferences.get_all(user_id=user)]


def test_a_newer_statement_about_the_same_thing_takes_the_older_ones_place(
    memory: agentmem.MemoryManager,
) -> None:
    prefs = memory.preferences
    old = prefs.add("I prefer short answers", user_id="ana")
    memory.clock.advance(60)  # type: ignore[attr-defined]  # the clock of this test
    new = prefs.add("I prefer long, detailed answers", user_id="ana")
    assert texts(prefs) == ["I prefer long, detailed answers"]
    assert new.replaced == (old.id,)
    assert new.type == old.type == "style"
    kept = memory.get(old.id, user_id="ana")
    assert kept.superseded_by == new.id
    assert kept.source_url == PREFERENCES_URL


def test_taking_one_back_can_let_the_older_one_hold_again(memory: agentmem.MemoryManager) -> None:
    prefs = memory.preferences
    prefs.add("My name is Ana", user_id="ana")
    memory.clock.advance(60)  # type: ignore[attr-defined]  # the clock of this test
    wrong = prefs.add("My name is Maria", user_id="ana")
    (back,) = prefs.undo(wrong.id, user_id="ana")
    assert back.text == "My name is Ana"
    assert texts(prefs) == ["My name is Ana"]


def say_in_turn(memory: agentmem.MemoryManager, *said: str) -> list[str]:
    """The ids of what was said, a minute after each other."""
    ids = []
    for text in said:
        ids.append(memory.preferences.add(text, user_id="ana").id)
        memory.clock.advance(60)  # type: ignore[attr-defined]  # the clock of this test
    return ids


def test_taking_back_one_that_was_replaced_leaves_what_holds(
    memory: agentmem.MemoryManager,
) -> None:
    prefs = memory.preferences
    bob, rob, tom = say_in_turn(memory, "Call me Bob", "Call me Rob", "Call me Tom")
    assert prefs.undo(rob, user_id="ana") == ()
    assert texts(prefs) == ["Call me Tom"]
    ended = memory.get(bob, user_id="ana")
    assert ended.superseded_by == tom
    assert ended.valid_to == memory.get(tom, user_id="ana").created_at
    assert [p.text for p in prefs.undo(tom, user_id="ana")] == ["Call me Bob"]
    assert texts(prefs) == ["Call me Bob"]


def test_taking_back_several_that_were_replaced_leads_to_the_first(
    memory: agentmem.MemoryManager,
) -> None:
    prefs = memory.preferences
    _, rob, tom, tim = say_in_turn(
        memory, "Call me Bob", "Call me Rob", "Call me Tom", "Call me Tim"
    )
    for wrong in (rob, tom):
        assert prefs.undo(wrong, user_id="ana") == ()
        assert texts(prefs) == ["Call me Tim"]
    prefs.undo(tim, user_id="ana")
    assert texts(prefs) == ["Call me Bob"]


def test_taking_back_one_whose_replacement_was_removed_brings_nothing_back(
    memory: agentmem.MemoryManager,
) -> None:
    prefs = memory.preferences
    _, rob, tom = say_in_turn(memory, "Call me Bob", "Call me Rob", "Call me Tom")
    prefs.remove(tom, user_id="ana")
    assert prefs.undo(rob, user_id="ana") == ()
    assert texts(prefs) == []


def test_taking_one_back_leaves_what_another_replaced_since(
    memory: agentmem.MemoryManager,
) -> None:
    prefs = memory.preferences
    bob, rob = say_in_turn(memory, "Call me Bob", "Call me Rob")
    prefs.undo(rob, user_id="ana")
    (tom,) = say_in_turn(memory, "Call me Tom")
    memory.store.restore(Scope(user_id="ana"), [rob])
    assert prefs.undo(rob, user_id="ana") == ()
    assert texts(prefs) == ["Call me Tom"]
    assert memory.get(bob, user_id="ana").superseded_by == tom


def test_removing_leaves_what_was_replaced_replaced(memory: agentmem.MemoryManager) -> None:
    prefs = memory.preferences
    prefs.add("I use tabs for indentation", user_id="ana")
    memory.clock.advance(60)  # type: ignore[attr-defined]  # the clock of this test
    second = prefs.add("I use spaces for indentation", user_id="ana")
    prefs.remove(second.id, user_id="ana")
    assert texts(prefs) == []


def test_saying_it_again_adds_nothing(memory: agentmem.MemoryManager) -> None:
    prefs = memory.preferences
    one = prefs.add("I love jazz", user_id="ana")
    assert prefs.add("I love jazz", user_id="ana").id == one.id
    assert prefs.detect([{"role": "user", "content": "I love jazz."}], user_id="ana") == ()
    assert len(prefs.get_all(user_id="ana")) == 1


def test_only_the_users_own_turns_are_read(memory: agentmem.MemoryManager) -> None:
    found = memory.preferences.detect(
        [
            {"role": "system", "content": "I prefer French."},
            {"role": "assistant", "content": "I prefer tea."},
            {"role": "tool", "tool_call_id": "1", "content": "I am a vegan."},
            {"role": "user", "content": "I'm a backend engineer. What time is it?"},
        ],
        user_id="ana",
    )
    assert [p.type for p in found] == ["expertise"]
    assert texts(memory.preferences, "bob") == []


def test_a_statement_nobody_understands_is_kept_as_it_is(memory: agentmem.MemoryManager) -> None:
    odd = memory.preferences.add("tickets: always by train\nplease", user_id="ana")
    assert (odd.type, odd.text) == ("custom", "tickets: always by train please")
    assert memory.preferences.add("Talk like a pirate", type="style", user_id="ana").type == "style"
    assert [p.type for p in memory.preferences.get_all(type="style", user_id="ana")] == ["style"]


def test_an_unknown_type_is_refused_when_asked_for_as_when_kept(
    memory: agentmem.MemoryManager,
) -> None:
    wrong: Any = "nope"
    with pytest.raises(InvalidInput) as kept:
        memory.preferences.add("I love jazz", type=wrong, user_id="ana")
    with pytest.raises(InvalidInput) as asked:
        memory.preferences.get_all(type=wrong, user_id="ana")
    assert str(asked.value) == str(kept.value)


def test_they_hold_in_every_run_and_clear_takes_them_all(memory: agentmem.MemoryManager) -> None:
    prefs = memory.preferences
    prefs.add("I love jazz", user_id="ana", run_id="one")
    assert [p.text for p in prefs.get_all(user_id="ana", run_id="two")] == ["I love jazz"]
    assert prefs.clear(user_id="ana") == 1
    assert texts(prefs) == []


@pytest.mark.parametrize("text", ["", "   ", "\n"])
def test_nothing_is_no_preference(memory: agentmem.MemoryManager, text: str) -> None:
    with pytest.raises(InvalidInput):
        memory.preferences.add(text, user_id="ana")


def test_what_is_no_preference_cannot_be_removed_as_one(memory: agentmem.MemoryManager) -> None:
    fact = memory.add("Water is wet.", user_id="ana").ids[0]
    mine = memory.preferences.add("I love jazz", user_id="ana")
    for wrong in (fact, "no such id"):
        assert memory.preferences.remove(wrong, user_id="ana") is False
    assert memory.preferences.remove(mine.id, user_id="bob") is False
    with pytest.raises(RecordNotFound):
        memory.preferences.undo(mine.id, user_id="bob")
    with pytest.raises(InvalidScope):
        memory.preferences.get_all(username="ana")  # type: ignore[call-arg]  # on purpose


def test_what_several_threads_hear_at_once_is_kept_once(memory: agentmem.MemoryManager) -> None:
    prefs = memory.preferences
    together = threading.Barrier(8)

    def say(number: int) -> None:
        together.wait()
        prefs.detect([{"role": "user", "content": "I prefer short answers."}], user_id="ana")
        together.wait()
        prefs.add(f"I prefer {('short', 'long, detailed')[number % 2]} answers", user_id="ana")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(say, range(8)))
    assert len(texts(prefs)) == 1


def say_before(
    memory: agentmem.MemoryManager, monkeypatch: pytest.MonkeyPatch, name: str, *said: str
) -> None:
    """Let somebody else state one of `said` just before each of the next calls of `name`."""
    real = getattr(memory.store, name)
    others = PreferenceStore(memory)
    left = list(said)

    def late(*args: Any, **options: Any) -> Any:
        if left:
            text = left.pop(0)
            with monkeypatch.context() as calm:
                calm.setattr(memory.store, name, real)
                others.add(text, user_id="ana")
        memory.clock.advance(1)  # type: ignore[attr-defined]  # the clock of this test
        return real(*args, **options)

    monkeypatch.setattr(memory.store, name, late)


def test_a_statement_that_somebody_overtook_is_planned_again(
    memory: agentmem.MemoryManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefs = memory.preferences
    prefs.add("Call me Bob", user_id="ana")
    prefs.add("I prefer tabs", user_id="ana")
    say_before(memory, monkeypatch, "supersede", "Call me Rob", "Call me Rod")
    told = "Call me Tom. I prefer spaces."
    kept = prefs.detect([{"role": "user", "content": told}], user_id="ana")
    assert sorted(p.text for p in kept) == ["Call me Tom", "I prefer spaces"]
    assert sorted(texts(prefs)) == ["Call me Tom", "I prefer spaces"]
    tom = next(p for p in kept if p.text == "Call me Tom")
    assert [memory.get(old, user_id="ana").text for old in tom.replaced] == ["Call me Rod"]


def test_a_statement_that_is_overtaken_every_time_holds_in_the_end(
    memory: agentmem.MemoryManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefs = memory.preferences
    prefs.add("Call me Bob", user_id="ana")
    names = [f"Call me R{letter}b" for letter in "abcdefghijklmnop"]
    say_before(memory, monkeypatch, "supersede", *names)
    assert prefs.add("Call me Tom", user_id="ana").text == "Call me Tom"
    assert texts(prefs) == ["Call me Tom"]


def test_of_two_first_statements_at_once_one_holds(
    memory: agentmem.MemoryManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefs = memory.preferences
    say_before(memory, monkeypatch, "put_new", "Call me Rob")
    tom = prefs.add("Call me Tom", user_id="ana")
    assert len(texts(prefs)) == 1
    (holds,) = prefs.get_all(user_id="ana")
    assert {tom.text, holds.text} <= {"Call me Tom", "Call me Rob"}


def test_what_somebody_else_said_meanwhile_is_not_kept_twice(
    memory: agentmem.MemoryManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefs = memory.preferences
    prefs.add("Call me Bob", user_id="ana")
    say_before(memory, monkeypatch, "supersede", "Call me Tom")
    assert prefs.add("Call me Tom", user_id="ana").text == "Call me Tom"
    (holds,) = prefs.get_all(user_id="ana")
    assert holds.text == "Call me Tom"


def say(memory: agentmem.MemoryManager, *said: str) -> Any:
    """The last turn of a user who says these things, a minute after each other."""
    turns = []
    for text in said:
        with memory.turn([{"role": "user", "content": text}], user_id="ana") as turn:
            turn.done("Okay.")
        turns.append(turn)
        memory.clock.advance(60)  # type: ignore[attr-defined]  # the clock of this test
    return turns[-1]


@pytest.mark.parametrize(
    ("said", "standing"),
    [
        (["I'm vegan", "I'm no longer vegan"], []),
        (["I'm vegan", "forget that I'm vegan"], []),
        (["Call me Bea", "It's Beatrice, not Bea"], ["My name is Beatrice"]),
        (["no emojis please"], ["no emojis please"]),
        (["no emojis please", "you can use emojis again"], []),
        (["I love jazz", "scratch that"], []),
        (["ich bin vegetarier", "ich bin nicht mehr vegetarier"], []),
        (["soy vegana", "ya no soy vegana"], []),
        (["I live in Ghent", "I live in Antwerp now"], ["I live in Antwerp now"]),
        (["My name is Teo", "typo, Leo"], ["My name is Leo"]),
        (["My surname is Okafor", "Sorry, autocorrect. It's Okafar."], ["My surname is Okafar"]),
        (["I turned 34 in May", "I'm 35"], ["I'm 35"]),
        (["stop using em dashes"], ["stop using em dashes"]),
        (["Call me Captain", "you can stop calling me Captain"], []),
        (["I have no allergies"], []),
        (["I'm allergic to cats", "I have no allergies"], []),
        (["my doctor told me to stay off gluten"], ["my doctor told me to stay off gluten"]),
        (["given my asthma, which mask should I buy?"], ["given my asthma"]),
        (["I'm pregnant, is brie ok?"], ["I'm pregnant"]),
        (["Tengo alergia al marisco"], ["Tengo alergia al marisco"]),
        (["for this answer only use french"], []),
        (["my brother is vegan"], []),
        (["Write a poem about a nurse who hates rain."], []),
    ],
)
def test_the_right_profile_stands_after_what_was_said(
    memory: agentmem.MemoryManager, said: list[str], standing: list[str]
) -> None:
    say(memory, *said)
    assert texts(memory.preferences) == standing


def test_a_ban_is_against_what_it_bans(memory: agentmem.MemoryManager) -> None:
    say(memory, "no emojis please")
    (kept,) = memory.preferences.get_all(user_id="ana")
    assert (kept.polarity, kept.to_dict()["polarity"]) == ("against", "against")


def test_a_turn_says_what_it_took_back_and_undo_brings_it_back(
    memory: agentmem.MemoryManager,
) -> None:
    turn = say(memory, "I'm vegan", "I'm no longer vegan")
    assert [p.text for p in turn.taken_back] == ["I'm vegan"]
    old = memory.get(turn.taken_back[0].id, user_id="ana")
    assert old.superseded_by is not None
    (back,) = memory.preferences.undo(old.superseded_by, user_id="ana")
    assert back.text == "I'm vegan"
    assert texts(memory.preferences) == ["I'm vegan"]


def test_a_bare_taking_back_leaves_what_was_said_long_ago(memory: agentmem.MemoryManager) -> None:
    say(memory, "I love jazz")
    memory.clock.advance(2 * 24 * 3600)  # type: ignore[attr-defined]  # the clock of this test
    turn = say(memory, "scratch that")
    assert turn.taken_back == ()
    assert texts(memory.preferences) == ["I love jazz"]


@pytest.mark.parametrize("way", ["add", "learn", "turn"])
def test_what_a_user_says_reaches_the_profile_whichever_way_it_comes_in(
    memory: agentmem.MemoryManager, way: str
) -> None:
    said = {"role": "user", "content": "I'm allergic to peanuts."}
    if way == "add":
        memory.add([said], user_id="ana")
    elif way == "learn":
        memory.living.learn([said], user_id="ana")
    else:
        say(memory, said["content"])
    assert texts(memory.preferences) == ["I'm allergic to peanuts"]


def test_what_others_say_in_added_messages_reaches_no_profile(
    memory: agentmem.MemoryManager,
) -> None:
    memory.add(
        [
            {"role": "assistant", "content": "I'm allergic to peanuts."},
            {"role": "user", "name": "bob", "content": "I'm allergic to peanuts."},
        ],
        user_id="ana",
    )
    assert texts(memory.preferences) == []


def test_removing_says_whether_there_was_anything_to_remove(
    memory: agentmem.MemoryManager,
) -> None:
    jazz = memory.preferences.add("I love jazz", user_id="ana")
    assert memory.preferences.remove(jazz.id, user_id="ana") is True
    assert memory.preferences.remove(jazz.id, user_id="ana") is False
    assert memory.preferences.get_all(user_id="ana") == ()


def test_a_preference_says_what_it_is_called_where_it_stands_and_when_it_changed(
    memory: agentmem.MemoryManager,
) -> None:
    kept = memory.preferences.add("I prefer short answers", user_id="ana")
    assert (kept.title, kept.heading_path) == ("I prefer short answers", ("Preferences", "Style"))
    assert kept.updated_at == kept.memory.created_at
    memory.clock.advance(60)  # type: ignore[attr-defined]  # the clock of these tests
    changed = memory.update(kept.id, "I prefer very short answers", user_id="ana")
    (now,) = memory.preferences.get_all(user_id="ana")
    assert now.text == changed.text
    assert now.updated_at > now.memory.created_at
    assert set(now.to_dict()) >= {"title", "heading_path", "updated_at", "since"}


def hear(memory: agentmem.MemoryManager, *said: str, project: str | None = None) -> None:
    for text in said:
        memory.preferences.listen(
            [{"role": "user", "content": text}], user_id="ana", project_id=project
        )
        memory.clock.advance(60)  # type: ignore[attr-defined]  # the clock of this test


def shown(memory: agentmem.MemoryManager, question: str) -> str:
    with memory.turn([{"role": "user", "content": question}], user_id="ana") as turn:
        return "\n".join(str(message["content"]) for message in turn.messages)


@pytest.mark.parametrize("way", ["turn", "add", "messages", "learn"])
def test_an_allergy_is_in_every_block_whichever_way_it_came_in(
    memory: agentmem.MemoryManager, way: str
) -> None:
    said = "I'm allergic to peanuts."
    if way == "turn":
        hear(memory, said)
    elif way == "learn":
        memory.living.learn(said, user_id="ana")
    else:
        memory.add(said if way == "add" else [{"role": "user", "content": said}], user_id="ana")
    for question in ("Can I eat peanut butter?", "thanks!"):
        assert "- I'm allergic to peanuts" in shown(memory, question)


def test_needs_of_health_are_shown_before_newer_tastes_and_beyond_any_number(
    memory: agentmem.MemoryManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentmem.living.preferences.MOST", 2)
    hear(memory, "I have celiac disease.", "I love jazz.", "I love chess.", "I love tea.")
    first, *_ = memory.runtime.profile(Scope(user_id="ana"))
    assert "celiac" in first.text
    assert len(texts(memory.preferences)) == 3


def test_what_is_said_of_a_project_holds_in_that_project(memory: agentmem.MemoryManager) -> None:
    hear(memory, "We use pnpm here, not npm.", project="web")
    hear(memory, "I prefer short answers.", project="web")
    prefs = memory.preferences
    there = [p.text for p in prefs.get_all(user_id="ana", project_id="web")]
    elsewhere = [p.text for p in prefs.get_all(user_id="ana", project_id="api")]
    assert [t for t in there if "pnpm" in t]
    assert elsewhere == ["I prefer short answers"]
    hear(memory, "Forget what I said about pnpm.", project="web")
    assert not any("pnpm" in p.text for p in prefs.get_all(user_id="ana", project_id="web"))


@pytest.mark.parametrize(
    ("before", "after", "left"),
    [
        ("I live in Berlin.", "I used to live in Berlin.", "I live in Berlin"),
        ("I'm vegan.", "That was a mistake, I'm not vegan.", "I'm vegan"),
    ],
)
def test_a_change_leaves_nothing_outdated_in_the_profile(
    memory: agentmem.MemoryManager, before: str, after: str, left: str
) -> None:
    hear(memory, before)
    if not texts(memory.preferences):  # the small models did not take it for a statement
        memory.preferences.add(before.rstrip("."), user_id="ana")
        memory.clock.advance(60)  # type: ignore[attr-defined]  # the clock of this test
    hear(memory, after)
    assert not any(left in text for text in texts(memory.preferences))


@pytest.mark.parametrize(
    ("before", "after", "left"),
    [
        ("We rent a flat, 900 a month.", "The rent is 950 from July.", "900"),
        ("I use Python 3.10.", "I upgraded to Python 3.12.", "3.10"),
        ("I work at Aldi.", "I'm at Lidl now.", "Aldi"),
        ("I use webpack.", "We moved from webpack to vite.", "I use webpack"),
        ("I'm vegan.", "I eat meat again.", "vegan"),
        ("I don't drink coffee.", "Coffee is back on the menu.", "don't"),
    ],
)
def test_a_change_told_by_its_meaning_leaves_nothing_outdated_in_the_profile(
    before: str, after: str, left: str
) -> None:
    with agentmem.open(":memory:", clock=ManualClock()) as memory:
        hear(memory, before)
        assert any(left in text for text in texts(memory.preferences))
        hear(memory, after)
        assert not any(left in text for text in texts(memory.preferences))


def test_used_to_ends_only_what_says_the_same_of_now(memory: agentmem.MemoryManager) -> None:
    hear(memory, "I live in Berlin.", "I love olives.")
    hear(memory, "I used to live in Munich.", "I used to hate olives.")
    held = texts(memory.preferences)
    assert "I live in Berlin" in held
    assert "I love olives" in held


def test_used_to_ends_nothing_else_where_meanings_are_compared_too() -> None:
    with agentmem.open(":memory:", clock=ManualClock()) as memory:
        hear(memory, "I live in Oslo.", "I used to live in Rome.")
        assert texts(memory.preferences) == ["I live in Oslo"]
        hear(memory, "I used to live in Oslo.")
        assert texts(memory.preferences) == []


def test_undoing_what_was_learned_takes_the_profile_back_too(
    memory: agentmem.MemoryManager,
) -> None:
    hear(memory, "I live in Rome.")
    learned = memory.living.learn("I live in Lisbon. No emojis please.", user_id="ana")
    assert "I live in Lisbon" in texts(memory.preferences)
    memory.living.undo(learned.journal_id, user_id="ana")
    assert texts(memory.preferences) == ["I live in Rome"]
    only_heard = memory.living.learn("Always answer in French.", user_id="ana")
    assert only_heard.heard
    memory.living.undo(only_heard.journal_id, user_id="ana")
    assert texts(memory.preferences) == ["I live in Rome"]


def test_a_correction_and_an_opposite_take_the_place_of_what_was_said(
    memory: agentmem.MemoryManager,
) -> None:
    prefs = memory.preferences
    said = (("I budget in yen", "I hate olives"), ("wait no, euros", "jk i love olives"))
    for before, after in zip(*said, strict=True):
        (old,) = prefs.listen([{"role": "user", "content": before}], user_id="ana").kept
        (new,) = prefs.listen([{"role": "user", "content": after}], user_id="ana").kept
        assert new.replaced == (old.id,)
        prefs.undo(new.id, user_id="ana")
        assert texts(prefs)[0] == old.text
        prefs.clear(user_id="ana")
