"""What is searched for, read from a conversation."""

from __future__ import annotations

from agentmem.prompt.query import MOST_SENTENCES, READ_CHARACTERS, read_queries


def said(*texts: str) -> list[dict[str, str]]:
    """The user's messages, each but the last with an answer behind it."""
    messages = []
    for text in texts:
        messages += [{"role": "user", "content": text}, {"role": "assistant", "content": "Yes."}]
    return messages[:-1]


def test_a_question_with_words_of_its_own_is_asked_alone() -> None:
    asked = "Which database does the billing service use?"
    assert read_queries(said("Where is the harbour office?", asked)) == (asked,)


def test_a_follow_up_leans_on_the_question_before_it() -> None:
    before = "Which database does the billing service use?"
    assert read_queries(said(before, "and the port?")) == (
        "and the port?",
        f"{before} and the port?",
    )
    assert read_queries(said(before, "and why?")) == (f"{before} and why?",)
    assert read_queries(said("and why?")) == ("and why?",)
    assert read_queries(said(before, "Who am I?")) == ("Who am I?", f"{before} Who am I?")


def test_follow_ups_are_known_in_other_languages() -> None:
    for before, asked in (
        ("Wann haben wir geschleudert?", "und wie viel ist dabei rausgekommen?"),
        ("J'ai racheté la voiture de Solange ?", "et elle m'a coûté combien ?"),
        ("¿Cuándo se rompió el horno?", "¿y cuánto me cobraron?"),
        ("倉庫の端末が止まったら何を見る？", "それで直らなかったら？"),
        ("我女儿是九月上的幼儿园吧", "那老师姓什么？"),
    ):
        assert f"{before} {asked}" in read_queries(said(before, asked))


def test_a_follow_up_leans_on_the_nearest_question_only() -> None:
    queries = read_queries(said("Who runs the harbour office?", "Where is Lisbon?", "and when?"))
    assert queries == ("Where is Lisbon? and when?",)


def test_several_questions_are_also_asked_one_by_one() -> None:
    first, second = "Which database does billing use?", "Who runs the harbour office?"
    whole = f"{first} Thanks for the help so far. {second}"
    assert read_queries(said(whole)) == (whole, first, second)


def test_of_several_sentences_without_a_question_the_last_ones_are_asked() -> None:
    sentences = [f"The harbour office number {n} needs a new lock." for n in range(5)]
    whole = " ".join(sentences)
    assert read_queries(said(whole)) == (whole, *sentences[-MOST_SENTENCES:])


def test_a_long_message_is_read_at_both_ends() -> None:
    (query,) = read_queries(said("a" * READ_CHARACTERS + "b" * READ_CHARACTERS))
    half = READ_CHARACTERS // 2
    assert query == f"{'a' * half} {'b' * half}"


def test_nothing_is_asked_without_words() -> None:
    assert read_queries([]) == ()
    assert read_queries(said("  \n ")) == ()
    assert read_queries([{"role": "assistant", "content": "Which one?"}]) == ()
