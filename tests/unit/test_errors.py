"""One tree, drawn in the module's docstring, and messages that help."""

from __future__ import annotations

import re

import pytest

from agentmem.base import errors
from agentmem.base.checks import require_count, require_number, require_text, require_unit
from agentmem.base.types import Document, Memory, Scope
from agentmem.testing import ManualClock

NOW = ManualClock().now()


def leaves() -> dict[str, type]:
    return {
        name: value
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, errors.AgentMemError | Warning)
    }


def test_the_drawn_tree_lists_every_class_and_no_other() -> None:
    drawn = set(re.findall(r"\b([A-Z]\w+)\b(?= \(|  |$)", errors.__doc__ or "", re.MULTILINE))
    builtin = {
        "ValueError",
        "LookupError",
        "TimeoutError",
        "OSError",
        "ImportError",
        "PermissionError",
        "ConnectionError",
    }
    assert set(leaves()) <= drawn
    assert {name for name in drawn - builtin if hasattr(errors, name)} == set(leaves())


def test_a_leaf_is_also_the_builtin_people_would_catch() -> None:
    assert issubclass(errors.RecordNotFound, LookupError)
    assert issubclass(errors.InvalidText, ValueError)
    assert issubclass(errors.MissingExtra, ImportError)
    assert issubclass(errors.StoreBusy, TimeoutError)


@pytest.mark.parametrize("value", [None, b"bytes", 3, ["a"]])
def test_what_is_not_a_string_is_refused_by_name(value: object) -> None:
    with pytest.raises(errors.InvalidText, match="title is not a string"):
        require_text(value, "title")


def test_a_lone_surrogate_is_refused_with_its_place_and_a_remedy() -> None:
    with pytest.raises(errors.InvalidText, match=r"position 2.*replace") as caught:
        require_text("ab\ud800c", "text")
    str(caught.value).encode("utf-8")  # the message itself can be printed anywhere


def test_a_long_value_is_not_repeated_in_the_message() -> None:
    with pytest.raises(errors.InvalidInput) as caught:
        Document(text="x", format="y" * 10_000_000)  # type: ignore[arg-type]  # on purpose
    assert len(str(caught.value)) < 400
    assert "10,000,000 characters" in str(caught.value)


@pytest.mark.parametrize("value", [-1, 1.5, True, None, "3"])
def test_counts_are_whole_and_not_negative(value: object) -> None:
    with pytest.raises(errors.InvalidNumber, match="top_k"):
        require_count(value, "top_k")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), None, "1", True])
def test_numbers_are_finite(value: object) -> None:
    with pytest.raises(errors.InvalidNumber):
        require_number(value, "weight")


@pytest.mark.parametrize("value", [-0.01, 1.01, float("nan")])
def test_units_lie_between_zero_and_one(value: float) -> None:
    with pytest.raises(errors.InvalidNumber):
        require_unit(value, "importance")


def test_a_memory_refuses_what_cannot_be_kept() -> None:
    with pytest.raises(errors.InvalidInput, match="time zone"):
        Memory(id="1", text="x", created_at=NOW.replace(tzinfo=None))
    with pytest.raises(errors.InvalidNumber, match="importance"):
        Memory(id="1", text="x", created_at=NOW, importance=float("nan"))
    with pytest.raises(errors.InvalidScope, match="project"):
        Memory(id="1", text="x", created_at=NOW, visibility="project")
    with pytest.raises(errors.InvalidScope, match="empty"):
        Scope(user_id="")


def test_a_level_that_was_not_made_falls_back_to_a_fuller_one() -> None:
    memory = Memory(id="1", text="long", created_at=NOW, compressed="short")
    assert memory.at_level("index") == "short"
    assert memory.at_level("compressed") == "short"
    assert memory.at_level("summary") == "long"
