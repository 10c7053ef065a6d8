"""Filters: what users write is read, means one thing, and SQL means the same."""

from __future__ import annotations

import shutil
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentmem.base.errors import InvalidFilter, InvalidInput
from agentmem.base.filters import (
    MEMORY_FIELDS,
    And,
    Compare,
    Filter,
    Not,
    Or,
    Selection,
    conditions,
    field_of,
    matches,
    parse_filter,
    selected,
)
from agentmem.base.types import Memory, Scope
from agentmem.stores.sqlite.store import SqliteStore
from agentmem.stores.values import Entry
from tests.properties.store_model import fresh_folder
from tests.properties.store_strategies import entries, filters, json_values, memories, scopes
from tests.properties.strategies import instants


@given(parts=st.lists(filters(), max_size=3), memory=memories())
def test_filters_combine_as_logic_does(parts: list[dict[str, Any]], memory: Memory) -> None:
    """D6 Filter logic. AND, OR and NOT of filters mean what they say for any memory, and several keys of one filter must all hold."""
    each = [matches(parse_filter(part), memory) for part in parts]
    assert matches(parse_filter({"AND": parts}), memory) == all(each)
    assert matches(parse_filter({"OR": parts}), memory) == any(each)
    assert matches(parse_filter({"NOT": parts}), memory) == (not any(each))
    for part, held in zip(parts, each, strict=True):
        by_key = [matches(parse_filter({key: value}), memory) for key, value in part.items()]
        assert held == all(by_key)
        assert matches(parse_filter({"not": {"not": part}}), memory) == held
        assert matches(parse_filter(parse_filter(part)), memory) == held


@given(
    batch=st.lists(entries(), min_size=1, max_size=6, unique_by=lambda e: e.memory.id),
    written=st.lists(filters(), min_size=1, max_size=4),
    reader=scopes(),
    moment=st.none() | instants(),
    flags=st.tuples(st.booleans(), st.booleans()),
    own=st.booleans(),
)
def test_the_database_selects_what_the_rule_says(  # noqa: PLR0917 # drawn by name
    batch: list[Entry],
    written: list[dict[str, Any]],
    reader: Scope,
    moment: Any,
    flags: tuple[bool, bool],
    own: bool,
) -> None:
    """D7 Same selection. A selection inside SQLite finds exactly the memories that the plain rule chooses one by one."""
    folder = fresh_folder()
    try:
        with SqliteStore(folder / "store.db") as store:
            rows = store.put(batch)
            reader = batch[0].memory.scope if own else reader
            for part in written:
                selection = Selection(
                    reader=reader,
                    where=parse_filter(part),
                    as_of=moment,
                    superseded=flags[0],
                    deleted=flags[1],
                )
                expected = [
                    row
                    for row, entry in zip(rows, batch, strict=True)
                    if selected(selection, entry.memory)
                ]
                assert store.select_rows(selection).tolist() == expected
                assert store.count(selection) == len(expected)
    finally:
        shutil.rmtree(folder)


operands = json_values() | instants() | st.binary(max_size=3) | st.builds(object)
words = st.sampled_from(
    ("AND", "or", "NOT", "$and", "tag", "eq", "$gt", "in", "created_at", "*", 5)
)
anything = st.recursive(
    operands,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=6,
)


@given(written=anything, memory=memories())
def test_any_value_is_a_filter_or_a_typed_error(written: Any, memory: Memory) -> None:
    """D8 Filter totality. Whatever is given as a filter is read, or refused with an error that names it; a filter that was read never fails."""
    try:
        parsed = parse_filter(written)
    except InvalidInput:
        return
    assert matches(parsed, memory) in (True, False)
    assert all(isinstance(part, Compare) for part in conditions(parsed))


FACT = Memory(
    id="1",
    text="Tea at five",
    created_at=parse_filter({"created_at": "2026-05-01T00:00:00Z"}).value,  # type: ignore[union-attr]
    metadata={"n": 5, "flag": True, "none": None, "tags": ["a", "B"], "AND": 1, "kind": "shadow"},
)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (None, True),
        ({}, True),
        ({"n": 5}, True),
        ({"n": 5.0}, True),
        ({"n": "5"}, False),
        ({"flag": 1}, False),
        ({"flag": True}, True),
        ({"none": None}, True),
        ({"missing": None}, False),
        ({"missing": {"ne": 3}}, True),
        ({"missing": {"nin": [3]}}, True),
        ({"missing": {"lt": 3}}, False),
        ({"none": "*"}, True),
        ({"missing": {"exists": False}}, True),
        ({"n": {"gt": 4, "lt": 6}}, True),
        ({"n": {"gt": 4, "lt": 5}}, False),
        ({"n": {"gt": "4"}}, False),
        ({"tags": {"contains": "a"}}, True),
        ({"tags": {"contains": "b"}}, False),
        ({"tags": {"icontains": "b"}}, True),
        ({"tags": {"eq": ["a", "B"]}}, True),
        ({"text": {"contains": "five"}}, True),
        ({"text": {"contains": 5}}, False),
        ({"kind": "fact"}, True),  # a memory's own field comes first
        ({"metadata.kind": "shadow"}, True),
        ({"created_at": {"gte": "2026-05-01T02:00:00+02:00"}}, True),
        ({"created_at": {"in": ["2026-05-01T00:00:00Z"]}}, True),
        ({"OR": []}, False),
        ({"AND": []}, True),
        ({"NOT": []}, True),
        ({"NOT": [{"n": 5}, {"n": 6}]}, False),
        ({"$or": [{"n": 1}, {"n": 5}]}, True),
        ({"n": [1, 5]}, True),
        ({"n": []}, False),
    ],
)
def test_worked_examples(written: Any, expected: bool) -> None:
    assert matches(parse_filter(written), FACT) is expected


@pytest.mark.parametrize(
    "written",
    [
        5,
        "kind",
        [("kind", "fact")],
        {"kind": {}},
        {"kind": {"like": "x"}},
        {"kind": {5: "x"}},
        {5: "x"},
        {"AND": 5},
        {"AND": [5]},
        {"n": {"in": "abc"}},
        {"n": {"in": 5}},
        {"n": {"exists": "yes"}},
        {"n": object()},
        {"n": "\ud800"},
        {"created_at": "yesterday"},
        {"created_at": "2026-05-01"},
        {"created_at": {"gt": 5}},
    ],
)
def test_what_cannot_be_read_is_refused(written: Any) -> None:
    with pytest.raises(InvalidInput):
        parse_filter(written)


def test_depth_and_size_are_bounded() -> None:
    deep: dict[str, Any] = {"n": 1}
    for _ in range(100_000):
        deep = {"NOT": deep}
    with pytest.raises(InvalidFilter, match="deeper"):
        parse_filter(deep)
    with pytest.raises(InvalidFilter, match="too many"):
        parse_filter({"OR": [{"n": number} for number in range(2000)]})
    nested: Any = 1
    for _ in range(100_000):
        nested = [nested]
    with pytest.raises(InvalidFilter, match="deeper"):
        parse_filter({"n": {"eq": nested}})


def test_every_listed_field_can_be_read() -> None:
    for field in MEMORY_FIELDS:
        field_of(FACT, field)
    parts: tuple[Filter, ...] = (And(parts=()), Or(parts=()), Not(part=Or(parts=())))
    assert [matches(part, FACT) for part in parts] == [True, False, True]
