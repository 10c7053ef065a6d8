"""What may become one memory and what may not."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from agentmem.base.errors import InvalidInput
from agentmem.base.types import Memory, Usage
from agentmem.living.plans import choose_survivor, merge_metadata, merge_usage
from tests.properties.living_samples import same_meaning

NOW = datetime(2024, 5, 3, tzinfo=UTC)


def memory(id_: str, text: str = "x", **fields: object) -> Memory:
    return Memory(id=id_, text=text, created_at=NOW, **fields)  # type: ignore[arg-type]  # test data


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("We use Postgres 15.", "we use Postgres 15"),
        ("The limit is 1,000 bytes.", "The limit is one thousand bytes"),
        ("The big database is slow.", "The large db is slow."),
        ("Ana lives in Lima.", "Ana really lives in Lima"),
    ],
)
def test_the_same_in_other_words_may_merge(first: str, second: str) -> None:
    assert same_meaning(first, second, 0.97) == "same"


@pytest.mark.parametrize(
    ("first", "second", "reason"),
    [
        ("The limit is 900 seconds.", "The limit is 600 seconds.", "number"),
        ("Ana lives in Lima.", "Ana lives in Cusco.", "name"),
        ("Ana lives in Lima.", "Ana lives in Lima, Peru.", "name"),
        ("The API is public.", "The API is not public.", "negation"),
        ("The API is public.", "The API is private.", "conflict"),
        ("Run `make test` first.", "Run `make tests` first.", "code"),
        ("The cat chases the dog.", "The dog chases the cat.", "order"),
        ("The dog is in the park.", "The dog is in the garden.", "conflict"),
        ("We like the park.", "We like the garden.", "words"),
        ("The read timeout is long.", "The timeout is long.", "words"),
        ("We used to like tea here.", "We like tea here.", "conflict"),
        ("All tests pass.", "Tests pass.", "words"),
    ],
)
def test_one_difference_that_matters_forbids_it(first: str, second: str, reason: str) -> None:
    verdict = same_meaning(first, second, 0.99)
    assert verdict == reason != "same"


def test_below_the_threshold_nothing_merges() -> None:
    assert same_meaning("a", "a", 0.91) == "similarity"
    assert same_meaning("a", "a", 0.5, threshold=0.4) == "same"
    with pytest.raises(InvalidInput):
        same_meaning("a", "a", float("nan"))


def test_the_pinned_the_fuller_the_cited_and_the_newer_one_stays() -> None:
    plain = memory("b", "We use Postgres")
    pinned = memory("c", "We use it", metadata={"pinned": True})
    fuller = memory("d", "We use Postgres a lot")
    cited = memory("e", "We use Postgres", usage=Usage(cited=2))
    newer = Memory(id="f", text="We use Postgres", created_at=NOW + timedelta(days=1))
    for better in (pinned, fuller, cited, newer):
        assert choose_survivor(plain, better) == (better, plain)
        assert choose_survivor(better, plain) == (better, plain)
    assert choose_survivor(plain, memory("a", "We use Postgres"))[0].id == "a"


def test_metadata_and_usage_of_both_are_kept() -> None:
    survivor = memory("a", metadata={"tags": ["x"], "source": "chat"})
    loser = memory(
        "b", metadata={"tags": ["y", "x"], "source": "mail", "note": 1, "merged_from": ["c"]}
    )
    assert dict(merge_metadata(survivor, loser)) == {
        "tags": ["x", "y"],
        "source": "chat",
        "note": 1,
        "merged_from": ["b", "c"],
    }
    united = merge_usage(Usage(cited=1, last_used_at=NOW), Usage(cited=2, retrieved=3))
    assert united == Usage(cited=3, retrieved=3, last_used_at=NOW)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Use tabs and spaces.", "Use tabs or spaces."),
        ("Send the report to Ann.", "Send the report from Ann."),
        ("Tests must pass.", "Tests may pass."),
        ("Tests pass at night.", "Tests must pass at night."),
        ("Wait until the build ends.", "Wait since the build ends."),
        ("He has more coins than Ida.", "He has less coins than Ida."),
        ("I gave it to her.", "She gave it to me."),
        ("It is on.", "It is off."),
        ("The server was down.", "The server is down."),
    ],
)
def test_small_words_that_change_what_is_said_keep_two_texts_apart(first: str, second: str) -> None:
    assert same_meaning(first, second, 0.99) != "same"
    assert same_meaning(second, first, 0.99) != "same"


def test_a_small_word_more_says_the_same() -> None:
    assert same_meaning("The cat is at home.", "The cat is home.", 0.99) == "same"
