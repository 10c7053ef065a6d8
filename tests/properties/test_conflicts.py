"""What the judge of contradictions promises for any two statements."""

from __future__ import annotations

from datetime import datetime, timedelta

from hypothesis import example, given
from hypothesis import strategies as st

from agentmem.living.conflicts import (
    Statement,
    find_conflicts,
    judge,
    read_statement,
)
from tests.properties.strategies import instants, texts

SUBJECTS = ("The upload limit", "Ana's flight", "The database", "Our office", "Bob", "We")
PREDICATES = (
    "is 900 seconds", "is 15 minutes", "is 1,000", "is 1k", "is now 600 seconds", "lives in Lima",
    "lives in Berlin", "is not open", "is open", "is closed", "use Postgres 15", "moved to MySQL",
    "no longer works", "works", "is on 3 May", "is on 2024-05-03", "has all keys", "never fails",
    "is one's own", "has hundreds', two", "is at 3pm", "is about 5 km", "costs $3 per day", "?", "is v2.3 instead of v2.2", "is 10-20%",
)  # fmt: skip


def sentences_about() -> st.SearchStrategy[str]:
    """Statements that often meet in subject or value, some of several clauses."""
    one = st.builds("{} {}".format, st.sampled_from(SUBJECTS), st.sampled_from(PREDICATES))
    joined = st.lists(one, min_size=1, max_size=3).map(lambda parts: ". ".join(parts) + ".")
    return one | joined | texts()


def statements() -> st.SearchStrategy[Statement]:
    """Statements with and without a date and a key."""
    return st.builds(
        Statement,
        text=sentences_about(),
        date=st.none() | instants(),
        key=st.sampled_from(("", "", "limit", "database")),
    )


@given(statements(), statements())
def test_both_directions_say_the_same(first: Statement, second: Statement) -> None:
    """J1 Both ways. judge(a, b) and judge(b, a) are the same verdict with the sides exchanged."""
    assert judge(first, second) == judge(second, first).swapped()


@given(statements(), st.none() | instants())
def test_nothing_contradicts_itself(statement: Statement, date: datetime | None) -> None:
    """J2 Not itself. No statement contradicts or supersedes the same words, whenever said."""
    again = Statement(text=statement.text, date=date, key=statement.key)
    assert not judge(statement, again).conflicting


@given(st.text(), st.text(), st.sampled_from(("", "k")))
@example("0" * 400, "1" * 400, "")
@example("1,000.5.6-7/8/9", "v1..2", "k")
@example("It is one's own, not the million's.", "one's", "")  # once read for ever
@example("\x00 is ٣", "\x00 is not ٣", "")
def test_any_texts_get_a_verdict(first: str, second: str, key: str) -> None:
    """J3 Total. Any two texts get a verdict, with a confidence exactly when they conflict."""
    found = judge(Statement(text=first, key=key), Statement(text=second, key=key))
    assert (found.confidence > 0) == found.conflicting
    assert bool(found.reason) == found.conflicting
    assert bool(found.newer) == (found.kind == "supersedes")


@given(st.sampled_from(SUBJECTS), st.integers(1, 10**6), st.integers(1, 10**6), st.data())
def test_a_number_is_the_same_however_it_is_written(
    subject: str, one: int, other: int, data: st.DataObject
) -> None:
    """J4 Same number. Two amounts contradict exactly when they differ, however each is written."""
    forms = ("{:d}", "{:,d}", "{:d}.0")
    first = data.draw(st.sampled_from(forms)).format(one)
    second = data.draw(st.sampled_from(forms)).format(other)
    found = judge(
        Statement(text=f"{subject} limit is {first} bytes."),
        Statement(text=f"{subject} limit is {second} bytes."),
    )
    bytes_agree = abs(one - other) <= 0.03 * max(one, other)  # 1,000 or 1,024 to the kilobyte
    assert found.conflicting == (not bytes_agree)


@given(
    instants(),
    st.integers(1, 10**6),
    st.sampled_from(("is now {}", "was changed to {}", "is {} as of today")),
)
def test_only_a_later_change_supersedes(start: datetime, seconds: int, change: str) -> None:
    """J5 Later change. Of two dated values the one worded as a change supersedes only if later."""
    end = start + timedelta(seconds=seconds)
    old = "The retry limit is 3"
    new = "The retry limit " + change.format(5)
    after = judge(Statement(text=old, date=start), Statement(text=new, date=end))
    assert (after.kind, after.newer) == ("supersedes", "second")
    before = judge(Statement(text=old, date=end), Statement(text=new, date=start))
    assert before.kind == "contradicts"


@given(statements(), statements())
def test_a_statement_read_before_is_judged_the_same(first: Statement, second: Statement) -> None:
    """J6 Read once. Judging texts that were read before gives what judging the texts gives."""
    readings = {text: read_statement(text) for text in (first.text, second.text)}
    assert judge(first, second) == judge(first, second, read=readings.__getitem__)


@given(st.lists(statements(), max_size=4), st.lists(statements(), max_size=4))
def test_conflicts_are_what_the_judge_says_of_two_sentences(
    ours: list[Statement], theirs: list[Statement]
) -> None:
    """J7 Found are judged. Each conflict found quotes both texts and is what the judge says."""
    found = find_conflicts(ours, theirs, least_confidence=0.0, most=5)
    assert len(found) <= 5
    for conflict in found:
        assert conflict.verdict == judge(conflict.ours, conflict.theirs)
        assert conflict.verdict.conflicting
        assert conflict.ours.text in ours[conflict.our_index].text
        assert conflict.theirs.text in theirs[conflict.their_index].text
    confidences = [conflict.verdict.confidence for conflict in found]
    assert confidences == sorted(confidences, reverse=True)
