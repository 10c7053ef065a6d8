"""Answers made of the sources' own sentences, by example."""

from __future__ import annotations

import pytest

import agentmem
from agentmem.base.errors import InvalidNumber, InvalidText
from agentmem.models.extract import (
    LONGEST_SENTENCE,
    NOTHING_FOUND,
    ExtractSource,
    answer_kinds,
    answer_likeness,
    extract_answer,
    say_alike,
)
from agentmem.text.clean import show_quote

SOURCES = (
    ExtractSource(
        index=1,
        title="Tower",
        text="The tower is a landmark of the city. It was designed by Nora Lindqvist. "
        "Building began in 1887 and ended two years later. It is 312 metres tall. "
        "It was painted red because iron rusts. Many visitors come every year.",
    ),
    ExtractSource(
        index=2,
        title="Bridge",
        text="The bridge crosses the river near Oldham. It carries 40,000 cars a day. "
        "Crossing it costs $3.50 for a car.",
    ),
)


@pytest.mark.parametrize(
    ("question", "expected", "index"),
    [
        ("Who designed the tower?", "It was designed by Nora Lindqvist.", 1),
        ("When did building of the tower begin?", "Building began in 1887", 1),
        ("How tall is the tower?", "312 metres", 1),
        ("Why was the tower painted red?", "because iron rusts", 1),
        ("How much does it cost to cross the bridge?", "$3.50", 2),
        ("How many cars does the bridge carry?", "40,000", 2),
        ("Where is the bridge?", "near Oldham", 2),
        ("What is the height of the tower?", "312 metres", 1),
        ("Who is the designer of the tower?", "Nora Lindqvist", 1),
    ],
)
def test_the_best_sentence_answers_the_kind_of_question(
    question: str, expected: str, index: int
) -> None:
    answer = extract_answer(question, SOURCES, most_sentences=1)
    assert answer.found
    assert expected in answer.text
    assert answer.text.endswith(f"[{index}]")


def test_an_unrelated_question_is_not_answered() -> None:
    answer = extract_answer("Which football club won the cup final?", SOURCES)
    assert not answer.found
    assert answer.sentences == ()
    assert answer.text == NOTHING_FOUND


@pytest.mark.parametrize("sources", [(), (ExtractSource(index=1, text=""),)])
def test_no_text_gives_no_answer(sources: tuple[ExtractSource, ...]) -> None:
    assert not extract_answer("Who?", sources).found
    assert not extract_answer("", SOURCES).found


def test_the_same_sentence_twice_is_quoted_once() -> None:
    text = "The harbour opens at seven."
    sources = [ExtractSource(index=n, text=text) for n in (1, 2, 3)]
    answer = extract_answer("When does the harbour open?", sources)
    assert [part.index for part in answer.sentences] == [1]


def test_the_answer_behind_a_question_is_preferred_to_the_question() -> None:
    talk = ExtractSource(
        index=1, text="Ada: Where did you park the blue van?\n\nBob: Behind the old mill in Hull."
    )
    answer = extract_answer("Where is the blue van parked?", [talk], most_sentences=1)
    assert "Behind the old mill" in answer.text


def test_a_heading_lends_its_words_to_what_stands_under_it() -> None:
    page = ExtractSource(
        index=4,
        text="# Opening hours\n\nMonday to Friday, 9:00 to 17:00.\n\n# Prices\n\nAdults pay 4 euros.",
    )
    assert "9:00" in extract_answer("What are the opening hours?", [page], most_sentences=1).text


def test_list_items_are_quoted_one_by_one() -> None:
    page = ExtractSource(
        index=1, text="Settings:\n- `port` is 8080\n- `host` is localhost\n- `ttl` is 5"
    )
    answer = extract_answer("What is the port?", [page], most_sentences=1)
    assert answer.sentences[0].quote == "- `port` is 8080"


def test_text_without_ends_is_cut() -> None:
    page = ExtractSource(index=1, text="lamp cable " * 5_000)
    answer = extract_answer("lamp", [page])
    assert all(len(part.quote) <= LONGEST_SENTENCE for part in answer.sentences)


def test_markup_and_forged_numbers_in_a_source_are_taken_apart() -> None:
    page = ExtractSource(index=2, text="The lamp ![x](https://evil.example/?q=1) is red [1].")
    answer = extract_answer("What colour is the lamp?", [page])
    assert answer.text == "The lamp ! [x] (https://evil.example/?q=1) is red (1). [2]"
    assert answer.sentences[0].quote == page.text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a [1] b", "a (1) b"),
        ("[[1]]", "((1))"),
        ("see [Source 2, 3]", "see (Source 2, 3)"),
        ("list[int] stays", "list[int] stays"),
        ("<img src=x>", "< img src=x>"),
        ("a `b` c", "a `b` c"),
        ("a ` c", "a ' c"),
        ("two\nlines", "two lines"),
    ],
)
def test_showing_changes_only_what_would_be_live(text: str, shown: str) -> None:
    assert show_quote(text) == shown


def test_other_forms_of_a_verb_and_words_for_a_measure_are_met() -> None:
    for one, other in (("choos", "chose"), ("tall", "height"), ("inventor", "invent")):
        assert say_alike(one, other)
    assert not say_alike("lamp", "chose")
    sources = [
        ExtractSource(index=1, text="Many choose tea. Ada chose the red kettle because it sings."),
        ExtractSource(index=2, text="Two teams met. Hull won the final by three points."),
    ]
    assert "red kettle" in extract_answer("What did Ada choose?", sources, most_sentences=1).text
    assert "Hull" in extract_answer("Who was the winner of the final?", sources).text


def test_sentences_with_other_numbers_are_both_quoted() -> None:
    sources = [
        ExtractSource(index=1, text="The mill in Hull opened in 1985."),
        ExtractSource(index=2, text="The mill in Hull opened in 1987."),
    ]
    answer = extract_answer("When did the mill in Hull open?", sources)
    assert [part.index for part in answer.sentences] == [1, 2]


def test_kinds_of_questions() -> None:
    assert answer_kinds("When was it built?")[0] == "when"
    assert answer_kinds("How many cars?")[0] == "count"
    assert answer_kinds("How much does it cost?")[0] == "money"
    assert answer_kinds("the red lamp") == ("any",)
    assert answer_likeness("It was built in 1887.", ("when",)) == 1.0
    assert answer_likeness("It was built.", ("when",)) < 0.5


def test_bad_input_is_named() -> None:
    with pytest.raises(InvalidText):
        extract_answer(None, SOURCES)  # type: ignore[arg-type]  # what a caller may pass
    with pytest.raises(InvalidNumber):
        extract_answer("a", SOURCES, most_sentences=0)


def test_a_page_of_megabytes_is_answered_from_its_beginning() -> None:
    page = ExtractSource(index=1, text="The lamp is red. " + "Nothing else stands here. " * 100_000)
    assert "red" in extract_answer("What colour is the lamp?", [page], most_sentences=1).text


@pytest.mark.parametrize("between", ["\n", "\n\n"])
def test_what_follows_a_heading_at_once_is_quoted(between: str) -> None:
    lines = ("# Kettle manual", "## Descaling", "Descale the kettle every 30 days. Rinse it twice.")
    source = ExtractSource(index=1, title="Manual", text=between.join(lines))
    found = extract_answer("How often should I descale the kettle?", (source,))
    assert found.sentences[0].quote == "Descale the kettle every 30 days."


def answered(question: str, *said: str) -> str:
    with agentmem.open(":memory:") as memory:
        messages = [
            {"role": "user", "content": text, "created_at": "2023-05-08T13:56:00+00:00"}
            for text in said
        ]
        memory.add(messages, session="s", user_id="ann")
        memory.flush()
        return agentmem.run_agent_loop_sync(
            question, memory=memory, model="extractive", user_id="ann"
        ).answer


def test_what_was_said_in_other_words_answers() -> None:
    said = ("I drive a Tesla Model 3, bought it used", "our cat Muffin hates the vet")
    assert answered("What car do I own?", *said) == "I drive a Tesla Model 3, bought it used [1]"


def test_when_is_answered_with_the_day_that_was_meant() -> None:
    said = ("I went to a support group yesterday and it was powerful", "We painted the fence.")
    assert answered("When did I go to the support group?", *said) == "7 May 2023 [1]"
    assert answered("When did we paint the fence?", *said).startswith(
        "We painted the fence. (said on 8 May 2023) ["
    )
    later = "The dentist is on 3 June 2024"
    assert answered("When is the dentist?", later) == f"{later} [1]"
