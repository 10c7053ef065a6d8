"""Worked examples of shortening."""

from __future__ import annotations

import pytest

from agentmem.living.levels import compress, find_problems, index_line, make_levels
from agentmem.text.regions import pasted_spans


def words(text: str) -> int:
    return len(text.split())


TEXT = (
    "Hello there! The deploy on Thursday was really slow. We looked at it for a while. "
    "It was not the database. Ana found that the cache held only 900 entries. "
    "That was a nice find. The fix is in `cache.toml`."
)


def test_a_text_at_four_levels() -> None:
    levels = make_levels(TEXT, words, title="Slow deploy")
    assert "Hello" not in levels.summary
    for essential in ("Thursday", "not", "Ana", "900", "`cache.toml`"):
        assert essential in levels.summary
        assert essential in levels.compressed
    assert levels.index.startswith("Slow deploy: ")
    assert words(TEXT) > levels.summary_tokens > levels.compressed_tokens
    assert levels.compressed_tokens > words(levels.index)


def test_a_telegram_leaves_out_what_says_nothing() -> None:
    assert compress("The limit is not really a problem of the API.") == "limit not problem API."
    assert compress("We met in The Hague.") == "We met in The Hague."
    assert compress("Run `is the a b` on the box.") == "Run `is the a b` on box."


def test_the_index_line_starts_with_the_title() -> None:
    assert index_line("", title="") == ""
    assert index_line("We use Postgres.", title="Database") == "Database: use, Postgres"


@pytest.mark.parametrize(
    ("proposed", "problem"),
    [
        ("The limit is 900.", None),
        ("The upload limit for guests is not really 900 seconds, as I said.", "not shorter"),
        ("The limit is short.", "number 900"),
        ("The limit is 900 or 600.", "number that was not there 600"),
        ("The limit is never 900.", "negation that was not there"),
        ("Bob says: 900.", "name that was not there bob"),
        ("  ", "empty"),
    ],
)
def test_what_a_model_proposes_is_checked(proposed: str, problem: str | None) -> None:
    original = "The upload limit for guests is 900 seconds."
    found = find_problems(original, proposed, words)
    assert (problem in found) if problem else not found


def test_a_denial_may_not_be_lost() -> None:
    found = find_problems("Ana does not eat meat at all.", "Ana eats meat.", words)
    assert found == ("negation",)


PASTED = (
    "I had a look at this, and to be honest it was a really long afternoon for all of us.\n"
    "def total(rows):\n"
    "    # never call it with None\n"
    "    if not rows:\n"
    "        return 0\n"
    "\n"
    "    return sum(row.price for row in rows)\n"
    "\n"
    "That was the function that was slow. It is the one that is in the billing module."
)


@pytest.mark.parametrize(
    "code",
    [
        PASTED[PASTED.index("def") : PASTED.index("\n\nThat")],
        "const rows = await db.all(\n  'select * from the orders',\n);",
        "SELECT the_total\nFROM orders\nWHERE is_paid = 1",
        "total = a + the_rest",
        "$ rm -rf ./the/build",
        '<div class="the">\n  <a href="/is">x</a>\n</div>',
        "@cached\nclass A(Base):\n    is_on = True",
    ],
)
def test_code_that_nothing_marks_is_kept_as_it_is(code: str) -> None:
    text = f"Well, this is the thing that I was talking about.\n{code}\nIt is a part of the module."
    levels = make_levels(text, words)
    for level in (levels.summary, levels.compressed):
        assert code in level
    assert levels.compressed_tokens < words(text)


@pytest.mark.parametrize(
    "prose",
    [
        "Dear all,\nlet me know (soon).\nThanks;\nAna",
        "The plan:\n- the first is to pay;\n- the second is to wait.",
        "# The title\nIt is the first of the lines.\n\nfor Ana, who is the boss",
        "import taxes are the problem\nin the end",
    ],
)
def test_prose_on_several_lines_is_no_code(prose: str) -> None:
    assert pasted_spans(prose) == []


def test_an_index_line_has_at_most_fifty_characters_and_ends_with_a_whole_word() -> None:
    text = (
        "The quarterly planning meeting about infrastructure migration was moved to Thursday. "
        "Ana and Bo bring the capacity figures of the Rotterdam warehouse."
    )
    line = index_line(text)
    assert len(line) <= 50
    assert line.split()[-1].strip(",:") in text
    assert len(index_line("x" * 200)) == 50


def test_the_levels_of_a_record_really_get_shorter() -> None:
    fact = (
        "The main production database that our billing team uses for all of the invoices is "
        "Postgres 15, which is not hosted in the Frankfurt region any more."
    )
    levels = make_levels(fact, words, kind="fact")
    assert words(fact) >= 24
    assert levels.summary_tokens <= 11
    assert levels.compressed_tokens <= 8
    assert words(levels.index) <= 3
    for text in (levels.summary, levels.compressed):
        assert {"Postgres", "15", "not", "Frankfurt"} <= set(text.replace(",", "").split())
    story = "We moved billing to Postgres. " + "The team copied a table and checked it. " * 200
    told = make_levels(story, words, title="Move billing to Postgres 15", kind="episode")
    assert words(story) > 1_500
    assert told.summary_tokens <= 32
    assert told.compressed_tokens <= 9
    assert words(told.index) <= 4
    assert {"Postgres", "15"} <= set(told.compressed.split())
    assert len(told.index) <= 50
