"""Preferences are found where they are stated, and nowhere else."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import example, given
from hypothesis import strategies as st

from agentmem.core.preference_merge import KnownPreference, merge_preferences, subject_key
from agentmem.core.preferences import (
    DetectedPreference,
    detect_preferences,
    preferences_from_messages,
)
from agentmem.types import Message
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
    text = f"{before}{gap}{said}.{gap}{after}"
    found = detect_preferences(text)
    assert [(p.type, p.content) for p in found] == [(kind, said)]
    assert filling in found[0].content
    assert found[0].quote == text[found[0].start : found[0].end] == said
    for disguise in DISGUISES:
        assert detect_preferences(disguise.format(said)) == (), disguise
    if said.startswith("I"):
        for disguise in FIRST_PERSON_DISGUISES:
            assert detect_preferences(disguise.format(said)) == (), disguise
        if kind == "expertise":
            assert (
                detect_preferences(
                    said.replace("I'm a", "I'm not a").replace("I am a", "I am not a")
                )
                == ()
            )


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


@given(st.lists(planted(), max_size=5), st.lists(planted(), max_size=5), statements())
def test_no_one_else_can_plant_a_preference(
    before: list[Message], after: list[Message], own: tuple[str, str, str]
) -> None:
    """P22 No planted preference. No page, tool result, assistant turn or retrieved memory creates or changes one."""
    turn: Message = {"role": "user", "content": own[0] + "."}
    alone = preferences_from_messages([turn], strip=without_stub)
    among = preferences_from_messages([*before, turn, *after], strip=without_stub)
    assert among == alone
    assert len(alone) == 1
    known = [KnownPreference(id="1", key=subject_key(alone[0]), content=alone[0].content)]
    plan = merge_preferences(
        known, preferences_from_messages([*before, *after], strip=without_stub)
    )
    assert (plan.add, plan.replace) == ((), ())


def known_after(
    known: list[KnownPreference], said: Sequence[DetectedPreference]
) -> list[KnownPreference]:
    """The stored preferences once the plan for `said` is carried out."""
    plan = merge_preferences(known, said)
    gone = {old for replacement in plan.replace for old in replacement.old_ids}
    fresh = [*plan.add, *(replacement.new for replacement in plan.replace)]
    kept = [k for k in known if k.id not in gone]
    return kept + [
        KnownPreference(id=f"{len(known)}.{n}", key=subject_key(p), content=p.content)
        for n, p in enumerate(fresh)
    ]


@given(st.lists(statements(), max_size=6), st.lists(statements(), max_size=6))
def test_merging_keeps_one_statement_a_subject(
    first: list[tuple[str, str, str]], second: list[tuple[str, str, str]]
) -> None:
    """S13 The newest statement holds. After merging there is one statement a subject, the newest, and merging the same again changes nothing."""
    said = [detect_preferences(s[0]) for s in (*first, *second)]
    flat = [p for found in said for p in found]
    early, late = flat[: len(first)], flat[len(first) :]
    known = known_after(known_after([], early), late)
    assert len({k.key for k in known}) == len(known)
    newest = {subject_key(p): p.content for p in flat}
    assert {k.key for k in known} == set(newest)
    for k in known:
        assert k.content.casefold() == newest[k.key].casefold()
    final = {key: next(p for p in reversed(flat) if subject_key(p) == key) for key in newest}
    again = merge_preferences(known, list(final.values()))
    assert (again.add, again.replace) == ((), ())
