"""What a question asks and whom it names."""

from __future__ import annotations

from agentmem.search.question import read_question

PEOPLE = ("Caroline", "Mary Ann", "Will", "user", "assistant", "Ada Byron", "Ada Smith", "Bob Lee")


def test_a_speaker_is_named_and_left_out_of_the_terms() -> None:
    question = read_question("When did Caroline's friend paint?", PEOPLE)
    assert question.named == ("Caroline",)
    assert question.terms == ("friend", "paint")
    assert question.vector_text == "When did friend paint?"
    assert question.asks_when
    assert not question.asks_count


def test_names_of_several_words_and_unambiguous_first_names() -> None:
    assert read_question("what does mary ann like", PEOPLE).named == ("Mary Ann",)
    assert read_question("what does Bob like", PEOPLE).named == ("Bob Lee",)
    assert read_question("what does Ada like", PEOPLE).named == ()


def test_a_name_that_is_a_common_word_counts_only_with_its_capital() -> None:
    assert read_question("what will happen", PEOPLE).named == ()
    assert read_question("what does Will like", PEOPLE).named == ("Will",)


def test_chat_roles_are_words() -> None:
    question = read_question("which user interface did the assistant suggest", PEOPLE)
    assert question.named == ()
    assert "user" in question.terms


def test_a_question_of_nothing_but_a_name_is_asked_by_it() -> None:
    question = read_question("Caroline?", PEOPLE)
    assert question.terms == ("carolin",)
    assert question.vector_text == "Caroline?"
    assert question.named == ("Caroline",)


def test_capitalised_words_inside_the_question_are_names() -> None:
    question = read_question("Did she visit Lima with Joe?")
    assert dict(zip(question.terms, question.term_is_name, strict=True)) == {
        "visit": False,
        "lima": True,
        "joe": True,
    }


def test_sorts_of_answer() -> None:
    assert read_question("How many cats are there?").asks_count
    assert read_question("In which year was it?").asks_when
    assert read_question("Who was it?").asks_name
    assert not read_question("Tell me about cats").asks_name


def test_odd_questions_are_read() -> None:
    for text in ("", " ", "😀", "\x00", '"AND" OR NEAR(', "the of and", "a" * 10**6, "ab " * 10**5):
        question = read_question(text, PEOPLE)
        assert len(question.hashes()) == len(question.weights()) <= 64
    assert read_question("the of and").terms == ("the", "of", "and")
