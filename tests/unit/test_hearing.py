"""How a message is cut into clauses, and which statement a taking back speaks of."""

from __future__ import annotations

import pytest

from agentmem.text.detect import Retraction, hear, matching, stems
from agentmem.text.statements import clauses, tell


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (
            "we use pnpm here so dont give me yarn commands",
            ["we use pnpm here", "so dont give me yarn commands"],
        ),
        (
            "since I'm lactose intolerant I was wondering what to bake",
            ["since I'm lactose intolerant", "I was wondering what to bake"],
        ),
        ("I hate olives, capers and anchovies", ["I hate olives, capers and anchovies"]),
        (
            "我不吃香菜，以后别放",
            ["我不吃香菜", "以后别放"],
        ),
        ("Fix this:\n```\n# always use tabs\n```\nthanks", ["Fix this", "thanks"]),
        ("translate to german: I hate mondays", ["translate to german"]),
        ("> I love ideas\nis that rude", ["is that rude"]),
    ],
)
def test_a_message_is_cut_into_the_authors_own_clauses(text: str, parts: list[str]) -> None:
    assert [text[one.start : one.end] for one in clauses(text)] == parts


@pytest.mark.parametrize("text", ["", " ", "...", "？！", "\ufffc", "```\ncode\n```", "İ" * 50])
def test_text_without_a_clause_says_nothing(text: str) -> None:
    heard = hear(text)
    assert (heard.stated, heard.retracted) == ((), ())


def test_chances_of_a_clause_add_up() -> None:
    for one in tell(clauses("I love tea. No emojis! Forget that.")):
        assert sum(one.chances) == pytest.approx(1.0)


def test_vectors_are_asked_for_only_where_they_may_matter() -> None:
    asked: list[str] = []

    def embed(texts: object) -> None:
        asked.extend(texts)  # type: ignore[arg-type]  # what the test is about

    hear("What is a monad? Prove that 2 is prime. I love tea.", embed)
    assert "i love tea" in asked
    assert "what is a monad" not in asked


def test_a_taking_back_means_the_statement_that_shares_its_words() -> None:
    standing = [("3", "I love jazz"), ("2", "call me Kit"), ("1", "I'm vegan")]
    taken = Retraction(text="i'm no longer vegan", stems=stems("i'm no longer vegan"))
    assert matching(taken, standing, recent=3) == ("1",)
    bare = Retraction(text="scratch that", stems=frozenset(), latest=True)
    assert matching(bare, standing, recent=3) == ("3",)
    assert matching(bare, standing, recent=0) == ()
    nothing = Retraction(text="i quit golf", stems=stems("i quit golf"))
    assert matching(nothing, standing, recent=3) == ()


def test_what_a_message_takes_back_itself_does_not_stand() -> None:
    heard = hear("I love jazz. Scratch that.")
    assert (heard.stated, heard.retracted) == ((), ())


@pytest.mark.parametrize(
    "text",
    [
        "You are a senior Python developer who hates classes. Write a parser.",
        "Write an email to my landlord. I have been without water for two days.",
        "Расскажи историю. Я люблю чай.",
        "my therapist says 'i should avoid alcohol' is a thought not a rule",
        "just this once give me the long version",
    ],
)
def test_tasks_roles_and_others_words_leave_nothing(text: str) -> None:
    assert hear(text).stated == ()


def test_the_denial_of_one_allergy_leaves_another_alone() -> None:
    standing = [("nuts", "I'm allergic to nuts"), ("cats", "I'm allergic to cats")]
    denied = Retraction(text="not allergic to cats", stems=stems("not allergic to cats"))
    assert matching(denied, standing, recent=2) == ("cats",)
    assert matching(denied, standing[:1], recent=1) == ()
    every = Retraction(text="no allergies", stems=stems("no allergies"))
    assert matching(every, standing, recent=2) == ("nuts", "cats")


def test_a_statement_about_them_keeps_what_they_are() -> None:
    (stated,) = hear("I tried figs once and now I love them").stated
    assert "figs" in stated.content


def test_what_may_be_a_taking_back_or_a_statement_is_heard_as_both() -> None:
    (taken,) = hear("I'm done with caffeine").retracted
    assert taken.otherwise is not None
    assert taken.otherwise.content == "I'm done with caffeine"
    (denied,) = hear("I have no allergies").retracted
    assert denied.otherwise is None
