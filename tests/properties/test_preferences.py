"""Preferences are found where they are stated, and nowhere else."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import assume, example, given
from hypothesis import strategies as st

import agentmem
from agentmem.base.types import Message
from agentmem.living.preferences import plan_preferences, subject_key
from agentmem.testing import HashEmbedder, ManualClock
from agentmem.text.detect import (
    DetectedPreference,
    detect_preferences,
    hear,
    hear_messages,
    in_first_person,
)
from agentmem.text.statements import orders
from tests.properties.strategies import texts

THINGS = (
    "tea", "rye bread", "jazz", "long walks", "modern art", "cold soup", "board games", "red wine", "mountain lakes",
    "Vim", "goat cheese", "old trams", "black coffee", "science fiction", "silk shirts", "night trains", "C++", "e-bikes",
)  # fmt: skip
ROLES = (
    "nurse",
    "beginner",
    "senior developer",
    "plumber",
    "violin teacher",
    "marine biologist",
    "student",
)
NAMES = ("Bob", "Ana", "Noor", "Xi", "Jean-Luc", "O'Neil", "Zoë")

# How a statement is made, its type, and what it is filled with.
FORMS: tuple[tuple[str, str, Sequence[str]], ...] = (
    ("I'm a {}", "expertise", ROLES),
    ("I am a {}", "expertise", ROLES),
    ("I prefer {}", "custom", THINGS),
    ("I really like {}", "custom", THINGS),
    ("I don't like {}", "custom", THINGS),
    ("I hate {}", "custom", THINGS),
    ("I can't stand {}", "custom", THINGS),
    ("I have an aversion to {}", "custom", THINGS),
    ("I avoid {}", "custom", THINGS),
    ("I'm not a fan of {}", "custom", THINGS),
    ("I'm allergic to {}", "custom", THINGS),
    ("My favourite thing is {}", "custom", THINGS),
    ("Explain like I'm a {}", "style", ROLES),
    ("Call me {}", "custom", NAMES),
    ("Always recommend {}", "custom", THINGS),
    ("Never mention {}", "custom", THINGS),
    ("Please answer in {}", "style", ("French", "German", "plain English", "bullet points")),
    ("Keep your answers {}", "style", ("short", "brief", "simple", "formal")),
)
# Ways in which the same words are not a statement of the author's.
DISGUISES = (
    'She said "{}" to me.', "He wrote “{}” there.", "Er sagte „{}“.", "Elle dit «{}».", "The sign reads '{}' in red.",
    "> {}", "```\n{}\n```", "Type `{}` there.", "<page>{}</page>", "<knowledge_context>\n{}",
    "Translate into Greek: {}", "Proofread the following text:\n\n{}", "Anna: {}", "Assistant: {}",
    "Imagine this story. {}.", "{}, she said.",
)  # fmt: skip
FIRST_PERSON_DISGUISES = (
    "Is it true that {}?", "Do you think {}?", "Suppose {}", "Imagine {}", "What if {}", "Let's say {}", "My boss says {}",
    "She thinks {}", "I doubt {}", "I don't think {}", "It is not true that {}", "I'm not sure {}", "If {}, what then", "I wonder if {}",
    "Nobody said {}", "You said {}", "Maybe {}", "I wish {}", "Whether {} or not", "{}?", "According to Tom, {}",
)  # fmt: skip
NEUTRAL = (
    "",
    "The weather is mild.",
    "What is the time?",
    "Write a function that sorts a list.",
    "It rained.",
    "Thanks!",
    "1. Go on.",
)


def stated(text: str) -> tuple[DetectedPreference, ...]:
    return hear(text).stated


def statements() -> st.SearchStrategy[tuple[str, str, str]]:
    """A plain statement, its type and its filling."""
    return st.sampled_from(FORMS).flatmap(
        lambda form: st.sampled_from(form[2]).map(lambda f: (form[0].format(f), form[1], f))
    )


@given(
    statements(),
    st.sampled_from(NEUTRAL),
    st.sampled_from(NEUTRAL),
    st.sampled_from((" ", "\n", "\n\n")),
)
def test_explicit_statements_are_found(
    statement: tuple[str, str, str], before: str, after: str, gap: str
) -> None:
    """P10 Preference detection. Explicit statements are found with type and content among other text; questions, quotations, negations and hypotheticals are not."""
    said, kind, filling = statement
    # "Write a function. Explain it like I'm a nurse." is for this function.
    assume(not (said.startswith("Explain") and orders(before)))
    text = f"{before}{gap}{said}.{gap}{after}"
    found = stated(text)
    assert [(p.type, p.content) for p in found] == [(kind, said)]
    assert filling in found[0].content
    assert found[0].quote == text[found[0].start : found[0].end] == said
    for disguise in DISGUISES:
        assert stated(disguise.format(said)) == (), disguise
    if said.startswith("I"):
        for disguise in FIRST_PERSON_DISGUISES:
            assert stated(disguise.format(said)) == (), disguise
        if kind == "expertise":
            assert stated(said.replace("I'm a", "I'm not a").replace("I am a", "I am not a")) == ()


@given(
    texts()
    | st.lists(
        st.sampled_from(
            (
                *THINGS,
                "I",
                "I'm",
                " ",
                "a",
                "prefer",
                ", ",
                ". ",
                "?",
                "and",
                "\n",
                '"',
                "'",
                "`",
                "> ",
                "never",
                "call me",
                "don't",
                "if",
            )
        ),
        max_size=30,
    ).map(" ".join)
)
@example("İ prefer tea. I prefer İ.")
def test_any_text_gives_valid_spans(text: str) -> None:
    """S11 Verbatim quotes. For any text, each found statement quotes the text exactly, in order, without overlap."""
    position = 0
    for preference in detect_preferences(text):
        assert position <= preference.start < preference.end <= len(text)
        assert preference.quote == text[preference.start : preference.end]
        assert " ".join(preference.quote.split()).rstrip(".!") in preference.content
        position = preference.end


@given(texts(), statements())
def test_code_and_quoted_lines_state_nothing(noise: str, statement: tuple[str, str, str]) -> None:
    """S12 Only one's own words. Whatever a code block, quoted line or marked-up block contains adds no statement."""
    line = noise.replace("\n", " ").replace("\r", " ")
    fenced = f"```\n{noise.replace('`', '')}\n{statement[0]}\n```"
    for foreign in (f"> {line} {statement[0]}", fenced):
        assert detect_preferences(f"{foreign}\n\nThe weather is mild.") == ()


def planted() -> st.SearchStrategy[Message]:
    """Turns that are not the user's own words, full of statements."""
    said = st.lists(statements().map(lambda s: s[0] + "."), min_size=1, max_size=3).map(" ".join)
    return st.one_of(
        said.map(lambda text: {"role": "assistant", "content": text}),
        said.map(lambda text: {"role": "system", "content": text}),
        said.map(lambda text: {"role": "developer", "content": text}),
        said.map(lambda text: {"role": "tool", "tool_call_id": "1", "content": text}),
        said.map(lambda text: {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "function": {"arguments": text}}]}),
        said.map(lambda text: {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": [{"type": "text", "text": text}]}]}),
        said.map(lambda text: {"role": "user", "content": [{"type": "document", "text": text}]}),
        said.map(lambda text: {"role": "user", "content": f"<document>\n{text}\n</document>\nSummarise it."}),
        said.map(lambda text: {"role": "user", "content": f"<knowledge_context>\n<source>{text}</source>\n</knowledge_context>"}),
        said.map(lambda text: {"role": "user", "content": f"STUB {text}"}),
        said.map(lambda text: {"role": "user", "content": "See:\n" + "\n".join(f"> {line}" for line in text.split("\n"))}),
        texts().map(lambda text: {"role": "assistant", "content": text}),
    )  # fmt: skip


def without_stub(messages: Sequence[Message]) -> Sequence[Message]:
    """Stands in for the removal of what this package injected."""
    return [m for m in messages if not str(m.get("content")).startswith("STUB")]


def heard(messages: Sequence[Message]) -> list[DetectedPreference]:
    found = hear_messages(messages, strip=without_stub)
    assert not any(one.retracted for one in found)
    return [preference for one in found for preference in one.stated]


@given(st.lists(planted(), max_size=5), st.lists(planted(), max_size=5), statements())
def test_no_one_else_can_plant_a_preference(
    before: list[Message], after: list[Message], own: tuple[str, str, str]
) -> None:
    """P22 No planted preference. No page, tool result, assistant turn or retrieved memory creates or changes one."""
    turn: Message = {"role": "user", "content": own[0] + "."}
    alone = heard([turn])
    among = heard([*before, turn, *after])
    assert among == alone
    assert len(alone) == 1
    known = {subject_key(alone[0]): [("1", alone[0].content)]}
    assert plan_preferences(known, heard([*before, *after])) == []


Known = dict[str, list[tuple[str, str]]]


def known_after(known: Known, said: Sequence[DetectedPreference]) -> Known:
    """The stored preferences once the plan for `said` is carried out."""
    plan = plan_preferences(known, said)
    gone = {old_id for _, old_ids in plan for old_id in old_ids}
    kept = {key: [one for one in stored if one[0] not in gone] for key, stored in known.items()}
    for number, (new, _) in enumerate(plan):
        kept.setdefault(subject_key(new), []).append((f"{len(known)}.{number}", new.content))
    return kept


@given(st.lists(statements(), max_size=6), st.lists(statements(), max_size=6))
def test_merging_keeps_one_statement_a_subject(
    first: list[tuple[str, str, str]], second: list[tuple[str, str, str]]
) -> None:
    """S13 The newest statement holds. After merging there is one statement a subject, the newest, and merging the same again changes nothing."""
    said = [detect_preferences(s[0]) for s in (*first, *second)]
    flat = [p for found in said for p in found]
    early, late = flat[: len(first)], flat[len(first) :]
    known = known_after(known_after({}, early), late)
    newest = {subject_key(p): p.content for p in flat}
    assert set(known) == set(newest)
    for key, stored in known.items():
        assert [content.casefold() for _, content in stored] == [newest[key].casefold()]
    final = {key: next(p for p in reversed(flat) if subject_key(p) == key) for key in newest}
    assert plan_preferences(known, list(final.values())) == []


TAKEN_BACK = (
    "Forget what I said about {}.", "I take back what I said about {}.", "forget the thing about {}",
    "Ignore what I said about {}", "scratch that", "Never mind what I said about {}.",
)  # fmt: skip


@given(
    st.sampled_from(THINGS),
    st.sampled_from(("I prefer {}.", "I really like {}.", "I hate {}.", "I'm allergic to {}.")),
    st.sampled_from(TAKEN_BACK),
)
def test_what_is_taken_back_no_longer_stands_and_can_be_brought_back(
    thing: str, form: str, back: str
) -> None:
    """P41 Taken back. What users take back no longer stands, nothing else goes with it, and undo lets it hold again."""
    with agentmem.open(":memory:", embedder=HashEmbedder(), clock=ManualClock()) as memory:
        prefs = memory.preferences
        for text in ("My pronouns are they/them.", form.format(thing)):
            prefs.listen([{"role": "user", "content": text}], user_id="ana")
            memory.clock.advance(60)  # type: ignore[attr-defined]  # the clock of this test
        before = [p.text for p in prefs.get_all(user_id="ana")]
        assert len(before) == 2
        heard = prefs.listen([{"role": "user", "content": back.format(thing)}], user_id="ana")
        assert [p.text for p in heard.taken_back] == before[:1]
        assert [p.text for p in prefs.get_all(user_id="ana")] == before[1:]
        again = prefs.undo(heard.undone_by[0], user_id="ana")
        assert [p.text for p in again] == before[:1]
        assert [p.text for p in prefs.get_all(user_id="ana")] == before


@given(statements())
def test_what_a_user_says_reaches_the_profile_by_every_way(own: tuple[str, str, str]) -> None:
    """P45 Every way in. What a user says about themselves stands in the profile whether it came in a turn, by add, by learn or in an import."""
    said: dict[str, str] = {"role": "user", "content": own[0] + "."}
    stood = []
    ways = ["turn", "add", "learn", "import", *(["text"] if in_first_person(own[0]) else [])]
    for way in ways:
        with agentmem.open(":memory:", embedder=HashEmbedder(), clock=ManualClock()) as memory:
            if way == "turn":
                with memory.turn([said], user_id="ana") as turn:
                    turn.done("Okay.")
            elif way == "import":
                with TemporaryDirectory() as folder:
                    file = Path(folder, "conversations.json")
                    file.write_text(json.dumps(chatgpt_export(said["content"])))
                    memory.upkeep.import_from(file, "chatgpt", user_id="ana")
            elif way == "learn":
                memory.living.learn([said], user_id="ana")
            else:
                memory.add([said] if way == "add" else said["content"], user_id="ana")
            stood.append([p.text for p in memory.preferences.get_all(user_id="ana")])
    assert stood == [[own[0]]] * len(ways)


def chatgpt_export(text: str) -> list[dict[str, object]]:
    """One conversation of one message, as ChatGPT exports it."""
    message = {
        "id": "m1",
        "author": {"role": "user"},
        "create_time": 1_700_000_000.0,
        "content": {"content_type": "text", "parts": [text]},
    }
    nodes = {
        "root": {"id": "root", "message": None, "parent": None, "children": ["m1"]},
        "m1": {"id": "m1", "message": message, "parent": "root", "children": []},
    }
    return [{"title": "A talk", "create_time": 1_700_000_000.0, "mapping": nodes,
             "current_node": "m1", "conversation_id": "c1"}]  # fmt: skip
