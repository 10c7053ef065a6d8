"""Worked examples of contradictions, changes and statements that only look alike."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from agentmem.base.errors import InvalidInput
from agentmem.living.conflicts import (
    Statement,
    Verdict,
    find_conflicts,
    find_unvetoed,
    judge,
)


def verdict(first: str, second: str) -> Verdict:
    return judge(Statement(text=first), Statement(text=second))


CONTRADICTIONS = [
    ("The upload limit is 900 seconds.", "The upload limit is 10 minutes.", "number"),
    ("Revenue in 2022 was $3 million.", "Revenue in 2022 was $4M.", "number"),
    ("The deadline is 3 May.", "The deadline is May 5th.", "date"),
    ("Deploys go out on Thursdays.", "We deploy every Tuesday.", "date"),
    ("The meeting is at 3pm.", "The meeting is at 16:00.", "date"),
    ("The cluster runs Kubernetes 1.29.", "The cluster runs Kubernetes v1.27.", "version"),
    ("The latest release is v2.3.", "The latest release is 2.4.0.", "version"),
    ("Ana lives in Lima.", "Ana lives in Berlin.", "name"),
    ("Jane Doe is the CEO of Acme.", "Acme's CEO is John Smith.", "name"),
    ("We use Postgres.", "We use MySQL.", "name"),
    ("The API supports XML.", "The API doesn't support XML.", "negation"),
    ("Bob always reviews pull requests.", "Bob never reviews pull requests.", "negation"),
    ("Backups are encrypted.", "Backups are unencrypted.", "antonym"),
    ("Dark mode is on by default.", "Dark mode is off by default.", "antonym"),
    ("Merging to main is allowed.", "Merging to main is forbidden.", "antonym"),
    ("The wifi password is hunter2.", "The wifi password is swordfish.", "value"),
]

COMPATIBLE = [
    ("I have 3 cats.", "I'm 34."),
    ("I run 5 km.", "I'm 182 cm tall."),
    ("Postgres runs on port 5432.", "We moved to MySQL."),
    ("We cache sessions in Valkey.", "We no longer use Redis."),
    ("Let's use SQLite for tests, because it starts instantly.", "We moved to MySQL."),
    ("Table 5 ordered 2 coffees.", "Table 6 ordered 3 coffees."),
    ("Note 0: pallets of tea are in aisle 0.", "Note 1: pallets of tea are in aisle 1."),
    ("The upload limit is 900 seconds.", "The upload limit is 15 minutes."),
    ("Revenue was $3 million.", "Revenue was $3,000,000."),
    ("The team has five engineers.", "The team has 5 engineers."),
    ("The deadline is 3 May 2024.", "The deadline is 2024-05-03."),
    ("The cluster runs Kubernetes 1.29.", "The cluster runs Kubernetes 1.29.3."),
    ("Backups are not encrypted.", "Backups are unencrypted."),
    ("The tower is about 330 metres tall.", "The tower is 324 metres tall."),
    ("The plan costs $20 per month.", "The plan costs $240 per year."),
    ("The staging limit is 100 MB.", "The production limit is 500 MB."),
    ("Revenue in 2022 was 3 million.", "Revenue in 2023 was 4 million."),
    ("Redis runs on port 6379.", "Postgres runs on port 5432."),
    ("We use Postgres.", "We use Redis."),
    ("I like tea.", "I like coffee."),
    ("Ana lives in Lima.", "Ana works at Acme."),
    ("My sister's name is Ana.", "My brother's name is Bo."),
    ("Should we use Postgres 15?", "We use Postgres 14."),
    ("If the limit is 900 seconds, uploads fail.", "The limit is 600 seconds."),
    ("A man is sitting on a bench.", "A man is standing on a bench."),
]

CHANGES = [
    ("The limit is 900 seconds.", "The limit is now 600 seconds."),
    ("We use Postgres as our database.", "We switched to MySQL as our database."),
    ("Ana lives in Lima.", "Ana moved to Berlin."),
    ("Ana works at Acme.", "Ana no longer works at Acme."),
    ("Deploys go out on Thursdays.", "Since May deploys go out on Mondays."),
    ("We used to host on AWS.", "We host on Azure."),
    ("The team lead is Maria.", "Peter is now the team lead."),
]


@pytest.mark.parametrize(("first", "second", "reason"), CONTRADICTIONS)
def test_two_values_for_one_attribute_contradict(first: str, second: str, reason: str) -> None:
    found = verdict(first, second)
    assert (found.kind, found.reason) == ("contradicts", reason)
    assert found.confidence >= 0.5


@pytest.mark.parametrize(("first", "second"), COMPATIBLE)
def test_what_can_both_be_true_does_not_contradict(first: str, second: str) -> None:
    assert not verdict(first, second).conflicting


@pytest.mark.parametrize(("first", "second"), CHANGES)
def test_a_statement_worded_as_a_change_supersedes(first: str, second: str) -> None:
    assert (verdict(first, second).kind, verdict(first, second).newer) == ("supersedes", "second")
    assert (verdict(second, first).kind, verdict(second, first).newer) == ("supersedes", "first")


def test_a_change_that_is_older_than_what_it_contradicts_does_not_supersede() -> None:
    change = Statement(text="We moved to MySQL.", date=datetime(2023, 1, 1, tzinfo=UTC))
    later = Statement(text="We use Postgres.", date=datetime(2024, 1, 1, tzinfo=UTC))
    assert judge(change, later).kind == "contradicts"


def test_a_key_says_that_two_statements_are_about_one_attribute() -> None:
    first = Statement(text="Postgres 15", key="database")
    assert judge(first, Statement(text="MySQL 8", key="database")).kind == "contradicts"
    assert judge(first, Statement(text="Postgres 15.2", key="database")).kind == "none"
    assert judge(first, Statement(text="MySQL 8", key="old database")).kind == "unrelated"


def test_unrelated_texts_are_called_unrelated() -> None:
    assert verdict("The sky is blue.", "Deploys go out on Thursdays.").kind == "unrelated"


def test_conflicts_are_found_sentence_by_sentence() -> None:
    ours = [Statement(text="Acme was founded in 1999. Its CEO is Jane Doe. It sells anvils.")]
    theirs = [
        Statement(text="Anvils are heavy. Acme was founded in 2001."),
        Statement(text="Acme sells anvils."),
    ]
    (conflict,) = find_conflicts(ours, theirs)
    assert conflict.verdict.reason == "date"
    assert (conflict.verdict.first_value, conflict.verdict.second_value) == ("1999", "2001")
    assert conflict.theirs.text == "Acme was founded in 2001."
    assert (conflict.our_index, conflict.their_index) == (0, 0)


def test_a_statement_without_a_time_zone_is_refused() -> None:
    with pytest.raises(InvalidInput, match="time zone"):
        Statement(text="x", date=datetime(2024, 1, 1))


@pytest.mark.parametrize(
    ("first", "second", "conflicting"),
    [
        ("Our database is Postgres 15.", "We run Postgres 15 in production.", False),
        ("Deploys go out on Thursdays.", "We deploy every Thursday.", False),
        ("Ana lives in Lima.", "Home is Berlin for Ana.", True),
        ("The limit is 900 seconds.", "Uploads may take 10 minutes.", True),
    ],
)
def test_under_one_key_only_the_values_count(first: str, second: str, conflicting: bool) -> None:
    found = judge(Statement(text=first, key="k"), Statement(text=second, key="k"))
    assert found.conflicting == conflicting


@pytest.mark.parametrize(
    ("first", "second", "kind"),
    [
        ("Torvane requires Python 3.8 or newer.", "Torvane requires Python 3.11.", "none"),
        ("Torvane needs Python >= 3.8.", "Torvane needs Python 3.11.", "none"),
        ("Torvane needs Python 3.8 or later.", "Torvane needs Python 3.6.", "contradicts"),
        ("Torvane needs Python 3.8 or newer.", "Torvane needs Python 3.9 or newer.", "contradicts"),
        ("The flight takes about 3 hours.", "The flight takes 2 hours 55 minutes.", "none"),
        ("The flight takes 175 minutes.", "The flight takes 2 hours and 55 minutes.", "none"),
        ("The flight takes 2 hours 55 minutes.", "The flight takes 3 hours.", "contradicts"),
        ("The plank is 5 feet 10 inches long.", "The plank is 70 inches long.", "none"),
        ("The museum is open on Monday.", "The museum is open on Tuesday.", "none"),
        ("It is open on Monday from 9:00.", "It is open on Sunday from 10:00.", "none"),
        (
            "The museum opens at 9:00 on Monday.",
            "The museum opens at 8:00 on Monday.",
            "contradicts",
        ),
        ("The retro is on Monday.", "The retro is on Tuesday.", "contradicts"),
        ("Members must be 18 or older.", "Members must be 21.", "none"),
        ("The limit is 100 requests or more.", "The limit is 60 requests.", "contradicts"),
    ],
)
def test_bounds_leave_room_and_lengths_may_have_parts(first: str, second: str, kind: str) -> None:
    verdict = judge(Statement(text=first), Statement(text=second))
    assert (verdict.kind == "contradicts") == (kind == "contradicts"), verdict


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("The launch is on Monday.", "The launch was pushed to Friday."),
        ("We use Postgres 15.", "We upgraded to Postgres 16."),
        ("I live in Lima.", "I used to live in Lima."),
        ("I'm vegan.", "I'm no longer vegan."),
    ],
)
def test_a_change_in_any_of_these_words_supersedes(old: str, new: str) -> None:
    found = judge(Statement(text=old), Statement(text=new))
    assert (found.kind, found.newer) == ("supersedes", "second")


def test_two_things_a_person_made_are_no_contradiction() -> None:
    one = "Theo painted a large mural inspired by his village school."
    other = "Theo painted a small portrait inspired by an old photograph."
    assert find_unvetoed(one, other) is not None  # the rules alone would say so
    assert not judge(Statement(text=one), Statement(text=other)).conflicting
