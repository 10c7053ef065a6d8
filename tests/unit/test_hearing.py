"""How a message is cut into clauses, and which statement a taking back speaks of."""

from __future__ import annotations

import numpy as np
import pytest

from agentmem.search.embedders.use import UseEmbedder
from agentmem.text.detect import Retraction, correction, hear, matching, stems
from agentmem.text.replaced import Trees
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
        ("British spelling, always. Now go", ["British spelling, always", "Now go"]),
        ("we're on Bun here, not Node", ["we're on Bun here, not Node"]),
        ("只回答是或否：鲸鱼是鱼吗？", ["只回答是或否", "鲸鱼是鱼吗"]),
        ("My knee said no. I swim now", ["My knee said no", "I swim now"]),
        ("see no. 7 in the list", ["see no. 7 in the list"]),
        ("News from the GP: I eat fish", ["News from the GP", "I eat fish"]),
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
        "Answer with yes or no only: is a whale a fish?",
        "Speak to me like I'm five: why is the sky blue?",
        "Anna: I love tea",
    ],
)
def test_tasks_roles_and_others_words_leave_nothing(text: str) -> None:
    assert hear(text).stated == ()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("I go by they/them now", "I go by they/them now"),
        ("Kleines Update: sind umgezogen, ab jetzt Rostock", "sind umgezogen, ab jetzt Rostock"),
    ],
)
def test_pronouns_and_what_follows_a_label_of_ones_own_are_heard(text: str, said: str) -> None:
    heard = hear(text, UseEmbedder().embed_documents)
    assert said in [one.content for one in heard.stated]


def test_forgetting_everything_takes_back_all_that_stands() -> None:
    standing = [("1", "I'm Jo"), ("2", "a plumber down in Kent")]
    (everything,) = hear("Forget everything I've told you about myself.").retracted
    assert matching(everything, standing, recent=0) == ("1", "2")
    about = hear("Forget everything I told you about coffee.").retracted
    assert all(matching(one, standing, recent=0) == () for one in about)


def test_the_denial_of_one_allergy_leaves_another_alone() -> None:
    standing = [("nuts", "I'm allergic to nuts"), ("cats", "I'm allergic to cats")]
    denied = Retraction(text="not allergic to cats", stems=stems("not allergic to cats"))
    assert matching(denied, standing, recent=2) == ("cats",)
    assert matching(denied, standing[:1], recent=1) == ()
    every = Retraction(text="no allergies", stems=stems("no allergies"))
    assert matching(every, standing, recent=2) == ("nuts", "cats")


def test_a_statement_about_them_keeps_what_they_are() -> None:
    (stated,) = hear("I tried figs once and now I love them", UseEmbedder().embed_documents).stated
    assert "figs" in stated.content


def test_what_may_be_a_taking_back_or_a_statement_is_heard_as_both() -> None:
    (taken,) = hear("I'm done with caffeine").retracted
    assert taken.otherwise is not None
    assert taken.otherwise.content == "I'm done with caffeine"
    (denied,) = hear("I have no allergies").retracted
    assert denied.otherwise is None


@pytest.mark.parametrize(
    ("newest", "text", "right"),
    [
        ("call me Bea", "It's Beatrice, not Bea", "My name is Beatrice"),
        ("i go by Theo", "nobody calls me that, make it Teddy", "My name is Teddy"),
        ("Ich heiße Annegret", "Quatsch, Annegrit, mit i.", "My name is Annegrit"),
        ("叫我小林就行", "不对，是晓琳", "My name is 晓琳"),
        ("we moved to Leeds", "not Leeds, Bradford", "we moved to Bradford"),
        ("vivo en Zaragoza", "es Huesca, no Zaragoza", "vivo en Huesca"),
        ("I budget in yen", "wait no, euros", "I budget in euros"),
    ],
)
def test_a_correction_says_what_the_newest_statement_should_have_said(
    newest: str, text: str, right: str
) -> None:
    found = correction(text, newest)
    assert found is not None
    assert found[0] == right


@pytest.mark.parametrize(
    "text",
    ["no thanks", "not bad, thanks", "scratch that", "use tabs, not spaces", "no, it's fine"],
)
def test_what_corrects_nothing_leaves_the_newest_statement(text: str) -> None:
    assert correction(text, "I live in Rome") is None
    assert correction(text, "I'm not bad with spaces") is None


def test_a_label_of_small_letters_is_nobody_who_speaks() -> None:
    assert [p.content for p in hear("Quick thing: British spelling, always.").stated] == [
        "British spelling, always"
    ]


@pytest.mark.parametrize(
    ("text", "banned"),
    [
        ("i love horror films, cant stand musicals", "musicals"),
        ("Bitte verzichten Sie künftig auf Anglizismen.", "anglizismen"),
    ],
)
def test_what_is_given_up_is_not_heard_as_wanted(text: str, banned: str) -> None:
    heard = {p.content.lower(): p.polarity for p in hear(text).stated}
    assert [polarity for said, polarity in heard.items() if banned in said] == ["against"]


@pytest.mark.parametrize(
    "pasted",
    [
        "what does this do?\n\n// I always prefer tabs\nconst user = {name: 'Gregor'};\nlog(user.name);",
        "what does this do\n\n# I always prefer recursion - jk\ndef f(n): return 1 if n < 2 else f(n - 1)",
    ],
)
def test_a_comment_in_pasted_code_is_nobodys_preference(pasted: str) -> None:
    assert hear(pasted).stated == ()


def test_a_line_that_only_begins_like_code_is_heard() -> None:
    heard = hear("for all future answers:\n  no emojis, never use bullet points")
    assert [one.content for one in heard.stated] == ["no emojis", "never use bullet points"]
    around = hear("Always answer in German.\n\nx = 5\nprint(x)\n\nI'm a nurse.")
    assert [one.content for one in around.stated] == ["Always answer in German", "I'm a nurse"]


@pytest.mark.parametrize(
    "text", ["I find football unbearable, just so you know.", "Leave VBA out of your answers."]
)
def test_what_the_rules_call_neither_is_against_where_the_models_or_its_words_say_so(
    text: str,
) -> None:
    assert [one.polarity for one in hear(text).stated] == ["against"]


def test_a_tree_leads_each_row_to_its_leaf() -> None:
    trees = Trees(
        feature=np.array([0, 1, 0, 0, 0, 0], dtype=np.int16),
        threshold=np.array([0.5, 2.0, 0, 0, 0, 0], dtype=np.float32),
        left=np.array([2, 4, 2, 3, 4, 5], dtype=np.int16),
        right=np.array([3, 5, 2, 3, 4, 5], dtype=np.int16),
        value=np.array([0, 0, 1, 2, 10, 20], dtype=np.float32),
        trees=2, deep=1, base=0.5,
    )  # fmt: skip
    rows = np.array([[0.5, 2.0], [0.6, 2.0], [0.5, 2.1]], dtype=np.float32)
    assert trees.scores(rows).tolist() == [11.5, 12.5, 21.5]
