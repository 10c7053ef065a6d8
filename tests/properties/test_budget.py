"""The fill (P14), the budget arithmetic (P4), the accounts and their text."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import assume, event, example, given
from hypothesis import strategies as st

from agentmem.base.errors import FixedContentTooLarge, InvalidNumber
from agentmem.base.types import Hit, Memory
from agentmem.inspector.render import render_budget, render_fates
from agentmem.prompt.budget import (
    Budget,
    ContentPackage,
    ContextPlan,
    budget_to_dict,
    calculate_knowledge_budget,
    calculate_token_budgets,
    fate_to_dict,
    fill,
    make_package,
    pack_context,
    tally,
)
from agentmem.prompt.build import Room, memory_type, room_for
from agentmem.prompt.messages import last_question
from agentmem.text.messages import text_of
from tests.properties.conversations import conversations, hits, packages, size_of, users
from tests.properties.strategies import texts

counts = st.integers(0, 300_000) | st.integers(0, 50)


@given(window=counts, system=counts, query=counts, reserve=counts, preference=counts, base=counts)
def test_knowledge_budget_follows_its_formula(
    *, window: int, system: int, query: int, reserve: int, preference: int, base: int
) -> None:
    """P4 Budget arithmetic. knowledge budget = min(base, 0.3 × (available − preference budget)), never negative, where available = window − system − query − reserve."""
    budgets = calculate_token_budgets(
        window_tokens=window,
        system_tokens=system,
        query_tokens=query,
        reserve_tokens=reserve,
        preference_tokens=preference,
        base_knowledge_tokens=base,
    )
    available = window - system - query - reserve
    expected = max(0, min(base, (available - preference) * 3 // 10))
    assert budgets.available_tokens == available
    assert budgets.knowledge_tokens == expected
    assert (
        calculate_knowledge_budget(available, base_tokens=base, preference_tokens=preference)
        == expected
    )
    assert 0 <= budgets.preference_tokens <= preference
    assert budgets.preference_tokens + budgets.knowledge_tokens <= max(0, available)
    assert budgets.history_tokens >= 0


@given(window=counts, reserve=counts, budget=counts, cost=st.tuples(counts, counts, counts), less=st.tuples(counts, counts, counts))  # fmt: skip
def test_a_full_room_is_not_larger_beside_less(
    *, window: int, reserve: int, budget: int, cost: tuple[int, ...], less: tuple[int, ...]
) -> None:
    """B10 Full room. Where messages leave the block all the room that it may have, messages that
    cost less leave it the same; the room is never more than is left.
    """

    def room(tokens: tuple[int, ...]) -> Room:
        return room_for(
            window_tokens=window,
            reserve_tokens=reserve,
            system_tokens=tokens[0],
            query_tokens=tokens[1],
            other_tokens=tokens[2],
            preference_budget=500,
            knowledge_budget=budget,
            working_budget=200,
        )

    most = room(cost)
    assert 0 <= most.limit_tokens <= max(0, window - reserve - sum(cost))
    if most.full:
        assert room(tuple(map(min, cost, less))) == most


@given(st.lists(packages(), max_size=12), st.integers(0, 150), st.randoms())
def test_fill_keeps_within_the_limit_and_drops_only_what_did_not_fit(
    offered: list[ContentPackage], limit: int, random: Any
) -> None:
    """P14 One fill. Used ≤ available, always; fixed items always in; input order does not matter; a dropped flexible item did not fit at the moment it was tried."""
    fixed = [p for p in offered if not p.can_drop]
    if sum(p.tokens for p in fixed) > limit:
        with pytest.raises(FixedContentTooLarge) as caught:
            fill(offered, limit)
        assert caught.value.needed_tokens == sum(p.tokens for p in fixed)
        return
    report = fill(offered, limit)

    assert report.used_tokens == sum(p.tokens for p in report.kept) <= limit
    for package in fixed:
        assert package in report.kept
    assert len(report.fates) == len(offered)
    assert sorted(map(repr, (f.package for f in report.fates))) == sorted(map(repr, offered))

    flexible = [fate for fate in report.fates if fate.package.can_drop]
    left = limit - sum(p.tokens for p in fixed)
    order = [(-(fate.score or 0.0), fate.package.id) for fate in flexible]
    assert order == sorted(order)
    for fate in flexible:
        assert (fate.outcome == "kept") == (fate.package.tokens <= left)
        assert fate.reason
        left -= fate.tokens

    shuffled = list(offered)
    random.shuffle(shuffled)
    assert fill(shuffled, limit) == report


budgets = st.builds(
    lambda offered, window, reserve, asked: tally(
        offered,
        window_tokens=window,
        reserved_tokens=min(window, reserve),
        memories_asked=asked,
    ),
    st.lists(packages(max_tokens=10**12), max_size=12),
    st.integers(0, 10**13),
    st.integers(0, 10**6),
    st.integers(0, 20),
)


@given(budgets)
def test_accounts_add_up_and_survive_json(budget: Budget) -> None:
    """B4 Accounts. Components add up to what is used, used and remaining to what is available, and the JSON form says the same numbers."""
    assert budget.used_tokens == sum(c.tokens for c in budget.components)
    assert budget.used_tokens + budget.remaining_tokens == budget.available_tokens
    assert budget.available_tokens + budget.reserved_tokens == budget.window_tokens
    codes = {warning.code for warning in budget.warnings}
    assert ("over_budget" in codes) == budget.over_budget == (budget.remaining_tokens < 0)
    assert ("no_memories" in codes) == (
        budget.memories_asked > 0 and not budget.component("memories").items
    )
    assert codes.isdisjoint({"nearly_full"}) or budget.used_tokens > 0.8 * budget.available_tokens
    read = json.loads(json.dumps(budget_to_dict(budget)))
    assert read == budget_to_dict(budget)
    assert read["used_tokens"] == sum(c["tokens"] for c in read["components"].values())
    assert all(
        c["tokens"] == sum(t["tokens"] for t in c["by_type"].values())
        for c in read["components"].values()
    )


def width(line: str) -> int:
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in line
    )


@given(
    budgets,
    st.lists(packages(max_tokens=10**12), max_size=8),
    st.integers(40, 140),
    st.booleans(),
)
def test_reports_never_leave_their_columns(
    budget: Budget, offered: list[ContentPackage], columns: int, ascii_only: bool
) -> None:
    """B5 Report width. No line of a report is wider than asked for, whatever the names and numbers; the ASCII form is ASCII; nothing in it moves the cursor."""
    report = fill(offered, 10**14)
    tight = fill([p for p in offered if p.can_drop], 40)
    drawn = [
        render_budget(budget, columns=columns, ascii_only=ascii_only),
        render_fates(tight.fates, columns=columns, ascii_only=ascii_only),
        render_fates(report.fates, columns=columns, ascii_only=ascii_only, kept_too=True),
    ]
    for text in drawn:
        for line in text.split("\n"):
            assert width(line) <= columns
            assert line == line.rstrip()
            assert all(c.isprintable() for c in line)
            assert line.isascii() or not ascii_only
    json.dumps([*map(fate_to_dict, report.fates)])


def words_of(message: Mapping[str, Any]) -> list[str]:
    """What a message says, whatever stands in the place of its pictures."""
    return text_of(message).replace("[image left out]", " ").split()


@example(
    history=[
        {"role": "user", "content": ""},
        {"role": "assistant", "content": None},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "0"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}},
                {"type": "text", "text": "0"},
            ],
        },
    ],
    current={"role": "user", "content": ""},
    found=[],
    results={},
    window=49,
    reserve=0,
    as_they_are=False,
)
@given(
    history=conversations(),
    current=users(),
    found=st.lists(hits(), max_size=5, unique_by=lambda one: memory_of(one).id),
    results=st.dictionaries(st.sampled_from(("t1", "t2")), texts(max_size=20)),
    window=st.integers(0, 900),
    reserve=st.integers(0, 200),
    as_they_are=st.booleans(),
)
def test_a_packed_context_fits_and_accounts_for_everything(
    *,
    history: list[dict[str, Any]],
    current: dict[str, Any],
    found: list[Any],
    results: dict[str, str],
    window: int,
    reserve: int,
    as_they_are: bool,
) -> None:
    """B6 Packed context. The tokens of all kept messages and packages never exceed window − reserve, everything offered has exactly one fate, and kept messages are in their order."""
    system = {"role": "system", "content": "Be brief."}
    messages = [system, *history, current]
    assume(last_question(messages) == len(messages) - 1)
    beside = [
        *(
            make_package(memory_type(one), id=one.id, tokens=len(one.text), can_drop=False)
            for one in map(memory_of, found)
        ),
        *(
            make_package("tool-result", id=name, tokens=len(text), can_drop=False)
            for name, text in results.items()
        ),
        make_package("tool-schema", id="tool-schema", tokens=11),
    ]

    def pack() -> ContextPlan:
        return pack_context(
            messages,
            packages=beside,
            window_tokens=window,
            reserve_tokens=reserve,
            count_message=size_of,
            as_they_are=as_they_are,
        )

    if reserve > window:
        with pytest.raises(InvalidNumber):
            pack()
        return
    least = size_of(current) + size_of(system) + sum(package.tokens for package in beside)
    if least > window - reserve and not as_they_are:
        with pytest.raises(FixedContentTooLarge):
            pack()
        return
    try:
        plan = pack()
    except FixedContentTooLarge as error:
        # Only other system messages, or the calls that the current message answers, explain this.
        event(f"more is fixed than usual: {error.items}")
        return
    report = plan.report
    ours = {package.id for package in beside}
    spent = sum(p.tokens for p in report.kept if p.id in ours)
    assert sum(map(size_of, plan.messages)) + spent == report.used_tokens
    assert plan.budget.used_tokens == report.used_tokens
    offered = [fate.package.id for fate in report.fates if fate.package.id in ours]
    assert sorted(offered) == sorted(package.id for package in beside)
    if as_they_are:
        assert list(plan.messages) == messages
        assert report.dropped == ()
        return
    assert report.used_tokens <= window - reserve
    assert not plan.budget.over_budget
    assert plan.messages[0] == system
    assert current in plan.messages
    rest = iter(words_of(message) for message in messages)
    assert all(words_of(message) in rest for message in plan.messages)  # in their order


def memory_of(found: Hit | Memory) -> Memory:
    return found.memory if isinstance(found, Hit) else found
