"""What is taken from a text, and what is left alone."""

from __future__ import annotations

import pytest

from agentmem.core.living.extraction import extract
from agentmem.core.living.keys import fact_key

STATED = [
    ("We use Postgres 15.", "database", "Postgres 15"),
    ("Our database is Postgres 15", "database", "Postgres 15"),
    ("Postgres is our database.", "database", "Postgres"),
    ("We migrated from Postgres to MySQL 8 because of licensing.", "database", "MySQL 8"),
    ("Deploys go out on Thursdays", "day deploy", "Thursdays"),
    ("We deploy every Tuesday.", "day deploy", "Tuesday"),
    ("Ana lives in Lima", "ana location", "Lima"),
    ("Ana moved to Berlin.", "ana location", "Berlin"),
    ("The config lives in /etc/app/config.toml", "config location", "/etc/app/config.toml"),
    ("The limit is 900 seconds.", "limit", "900 seconds"),
    ("The rate limit of the API is 100 requests per minute", "api limit rate", None),
    ("The API's rate limit is 200 requests per minute", "api limit rate", None),
    ("My sister's name is Ana.", "name sister", "Ana"),
    ("My sister is called Ana", "name sister", "Ana"),
    ("I work at Acme", "employer", "Acme"),
    ("The service listens on port 8080.", "port service", "8080"),
    ("The platform team is led by Peter", "lead platform team", "Peter"),
    ("Maria leads the platform team", "lead platform team", "Maria"),
    ("We use Redis for caching", "cache", "Redis"),
    ("The deadline was moved to 5 May", "deadline", "5 May"),
    ("The retry limit was raised from 3 to 5", "limit retry", "5"),
    ("timeout: 30s", "timeout", "30s"),
    ("The `limit` is `900` seconds.", "limit", "900 seconds"),
    ('The project is called "Falcon".', "name project", "Falcon"),
]

NOT_STATED = [
    "Should we use Postgres?",
    "If we use MySQL, it breaks.",
    "Bob said we use MySQL.",
    "Bob: we use MySQL in production now",
    "> we use MySQL",
    "```\nwe use MySQL\n```",
    'She wrote "we use MySQL for everything here" yesterday.',
    "We don't use Redis.",
    "We might use Kafka.",
    "We will use Kafka next year.",
    "We used to live in Rome.",
    "The weather is nice.",
    "This is a test.",
    "We use the opportunity to say thanks.",
    "According to the vendor the limit is 500.",
    "Imagine the port is 99.",
    "<source>We use MySQL.</source>",
]


@pytest.mark.parametrize(("text", "key", "value"), STATED)
def test_a_stated_fact_is_found_under_one_key(text: str, key: str, value: str | None) -> None:
    (fact,) = extract(text).facts
    assert fact.key == key
    assert value is None or fact.value == value
    assert text[fact.start : fact.end] == fact.text


@pytest.mark.parametrize("text", NOT_STATED)
def test_what_is_not_asserted_gives_nothing(text: str) -> None:
    assert extract(text).facts == ()


def test_a_belief_is_less_sure_and_an_end_is_marked() -> None:
    (sure,) = extract("The port is 5432.").facts
    (belief,) = extract("I think the port is 5432.").facts
    (ended,) = extract("We no longer use Redis.").facts
    assert belief.confidence < sure.confidence
    assert (ended.key, ended.value, ended.ended) == ("cache", "Redis", True)


def test_two_facts_in_one_sentence_are_both_found() -> None:
    text = "The backup region is eu-west-1 and the primary region is us-east-1."
    assert [(fact.key, fact.value) for fact in extract(text).facts] == [
        ("backup region", "eu-west-1"),
        ("main region", "us-east-1"),
    ]


def test_decisions_come_with_their_reasons() -> None:
    text = "We decided to use FAISS because pgvector was too slow. Lunch was good."
    (decision,) = extract(text).decisions
    assert (decision.title, decision.reason) == ("use FAISS", "pgvector was too slow")
    two = "Decision: keep SQLite. Reason: one file is easy to back up."
    (decision,) = extract(two).decisions
    assert decision.reason == "one file is easy to back up"
    assert decision.to_episode().sort == "decision"
    assert extract("We haven't decided to move yet.").decisions == ()
    assert extract("We went to lunch.").decisions == ()


def test_errors_come_with_their_fixes() -> None:
    one = extract("The import failed with KeyError: 'id'; fixed by adding a default.").fixes[0]
    assert (one.error, one.fix) == ("The import failed with KeyError: 'id'", "adding a default")
    two = extract("The deploy crashed with OOM. Fixed it by raising the limit to 2 GB.").fixes[0]
    assert (two.error, two.fix) == ("The deploy crashed with OOM", "raising the limit to 2 GB")
    three = extract("Fixed the flaky login test by freezing the clock.").fixes[0]
    assert three.fix == "freezing the clock"
    assert three.to_episode().sort == "error"
    assert extract("The import failed with KeyError.").fixes == ()


def test_a_key_does_not_depend_on_how_the_attribute_is_said() -> None:
    assert fact_key("the API's rate limit") == fact_key("our rate limits of the API")
    assert fact_key("my primary db") == fact_key("the main database")
    assert fact_key("") == ""
