"""Worked fills, budgets and reports."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from agentmem.base.errors import FixedContentTooLarge, InvalidNumber
from agentmem.inspector.render import render_budget, render_fates
from agentmem.prompt.budget import (
    Budget,
    ContentPackage,
    budget_to_dict,
    calculate_knowledge_budget,
    calculate_token_budgets,
    fate_to_dict,
    fill,
    make_package,
    tally,
)


def package(id_: str, tokens: int, **fields: Any) -> ContentPackage:
    return ContentPackage(**{"id": id_, "type": "x", "tokens": tokens, **fields})


def test_a_smaller_package_is_still_tried_after_one_that_did_not_fit() -> None:
    report = fill([package("big", 90, priority=9), package("small", 5, priority=1)], 50)
    assert [p.id for p in report.kept] == ["small"]
    assert [f.reason for f in report.fates] == [
        "did not fit: needs 90, 50 left",
        "kept: needs 5, 50 left",
    ]


def test_what_has_shorter_forms_goes_out_in_the_first_that_fits() -> None:
    note = package("note", 60, shorter=(30, 10, 5))
    for limit, tokens in ((60, 60), (59, 30), (12, 10), (5, 5)):
        (fate,) = fill([note], limit).fates
        assert (fate.outcome, fate.tokens, fate.package.id) == ("kept", tokens, "note")
    (fate,) = fill([note], 4).fates
    assert (fate.outcome, fate.reason) == ("dropped", "did not fit: needs 5, 4 left")


def test_fixed_packages_come_first_whatever_their_score() -> None:
    report = fill(
        [package("best", 10, priority=10), package("must", 10, priority=1, can_drop=False)],
        10,
    )
    assert [p.id for p in report.kept] == ["must"]


def test_equal_scores_keep_the_order_of_their_ids() -> None:
    report = fill([package("b", 10), package("a", 10)], 10)
    assert [p.id for p in report.kept] == ["a"]


def test_fixed_content_that_does_not_fit_is_an_error_that_names_the_items() -> None:
    with pytest.raises(FixedContentTooLarge, match="prompt 9,000") as caught:
        fill([package("prompt", 9_000, can_drop=False)], 8_192)
    assert (caught.value.needed_tokens, caught.value.limit_tokens) == (9_000, 8_192)


def test_bad_arguments_of_a_fill_are_typed_errors() -> None:
    for limit in (-1, math.nan, 1.5, None, "9"):
        with pytest.raises(InvalidNumber, match="limit_tokens"):
            fill([], limit)  # type: ignore[arg-type]  # what a caller may do
    assert fill([], 0).fates == ()


def test_the_knowledge_budget_of_a_small_window() -> None:
    budgets = calculate_token_budgets(
        window_tokens=8_192, system_tokens=500, query_tokens=192, reserve_tokens=2_500
    )
    assert budgets.available_tokens == 5_000
    assert budgets.preference_tokens == 500
    assert budgets.knowledge_tokens == 1_350
    assert budgets.history_tokens == 3_150


def test_the_base_caps_the_knowledge_budget_of_a_large_window() -> None:
    assert calculate_knowledge_budget(100_000, base_tokens=2_000) == 2_000


def test_ten_tokens_are_worth_exactly_three() -> None:
    assert [calculate_knowledge_budget(n) for n in (0, 3, 4, 9, 10, 11)] == [0, 0, 1, 2, 3, 3]
    assert calculate_knowledge_budget(10**20, base_tokens=10**21) == 3 * 10**19


def test_a_window_smaller_than_the_system_prompt_leaves_budgets_of_zero() -> None:
    budgets = calculate_token_budgets(
        window_tokens=1_000, system_tokens=5_000, query_tokens=10, reserve_tokens=100
    )
    assert budgets.available_tokens == -4_110
    assert (budgets.preference_tokens, budgets.knowledge_tokens, budgets.history_tokens) == (
        0,
        0,
        0,
    )


def example() -> Budget:
    rows = [
        ("system-prompt", "s", 1_200),
        ("tool-schema", "f", 640),
        ("preference", "p", 120),
        ("memory-semantic", "m1", 900),
        ("memory-episodic", "m2", 1_500),
        ("message-recent", "r", 3_500),
        ("media-image", "i", 765),
        ("message-current", "c", 48),
    ]
    return tally(
        [make_package(kind, id=name, tokens=tokens) for kind, name, tokens in rows],
        window_tokens=16_384,
        reserved_tokens=4_639,
        memories_asked=4,
    )


def test_a_budget_says_what_is_used_reserved_and_left() -> None:
    budget = example()
    assert budget.available_tokens == 11_745
    assert budget.used_tokens == 8_673
    assert budget.remaining_tokens == 3_072
    assert budget.percent == 73.8
    assert not budget.over_budget
    assert budget.warnings == ()
    memories = budget.component("memories")
    assert (memories.tokens, memories.items) == (2_400, 2)
    assert [use.type for use in memories.by_type] == ["memory-episodic", "memory-semantic"]


def warned(used: int, *, asked: int = 0, memories: int = 0) -> list[str]:
    packages = [package("a", used - memories)]
    if memories:
        packages.append(make_package("memory-semantic", id="m", tokens=memories))
    budget = tally(packages, window_tokens=120, reserved_tokens=20, memories_asked=asked)
    return [warning.code for warning in budget.warnings]


def test_warnings_come_at_their_thresholds() -> None:
    assert warned(80) == []
    assert warned(81) == ["nearly_full"]
    assert warned(100) == ["nearly_full"]
    assert warned(101) == ["over_budget"]
    assert warned(10, asked=3) == ["no_memories"]
    assert warned(10, asked=3, memories=5) == []


def test_an_empty_budget_of_an_empty_window_works() -> None:
    budget = tally([], window_tokens=0, reserved_tokens=0)
    assert (budget.percent, budget.over_budget, budget.warnings) == (0.0, False, ())
    assert "0 of 0 tokens" in render_budget(budget)


@pytest.mark.parametrize(
    ("window", "reserve"), [(-1, 0), (10, 11), (math.nan, 0), (10, -1), (None, 0)]
)
def test_a_budget_refuses_impossible_windows(window: Any, reserve: Any) -> None:
    with pytest.raises(InvalidNumber):
        tally([], window_tokens=window, reserved_tokens=reserve)


def test_the_report_at_80_columns() -> None:
    assert render_budget(example()) == (
        """\
Context budget                                            8,673 of 11,745 tokens
[██████████████████████████████░░░░░░░░░░░]  73.8 %  3,072 left · 4,639 reserved

Component          Items  Tokens   Share
System prompt          1   1,200  13.8 %  █████▎
Tool schemas           1     640   7.4 %  ██▊
Preferences            1     120   1.4 %  ▌
Memories               2   2,400  27.7 %  ██████████▌
  memory-episodic      1   1,500
  memory-semantic      1     900
Recent messages        1   3,500  40.4 %  ███████████████▍
Tool results           0       0   0.0 %
Media                  1     765   8.8 %  ███▍
Current message        1      48   0.6 %  ▎"""
    )


def test_the_report_at_60_columns_in_ascii() -> None:
    drawn = render_budget(example(), columns=60, ascii_only=True)
    assert drawn.isascii()
    assert drawn.splitlines()[:2] == [
        "Context budget                        8,673 of 11,745 tokens",
        "[################.....]  73.8 %  3,072 left | 4,639 reserved",
    ]


def test_a_report_narrower_than_40_columns_is_refused() -> None:
    with pytest.raises(InvalidNumber, match="columns"):
        render_budget(example(), columns=39)


def test_fates_are_listed_with_their_reasons() -> None:
    report = fill([package("a", 900, priority=9), package("b", 20), package("c\n", 3_000)], 100)
    assert render_fates(report.fates) == (
        """\
Type  Id  Tokens  Why
x     a      900  did not fit: needs 900, 100 left
x     c\ufffd   3,000  did not fit: needs 3,000, 80 left"""
    )
    assert "kept: needs 20" in render_fates(report.fates, kept_too=True)
    assert render_fates([]) == "Nothing was cut or left out."


def test_neighbours_with_one_reason_share_a_line() -> None:
    report = fill([package(i, 50) for i in "abc"], 0)
    assert "3 items     150  did not fit: needs 50, 0 left" in render_fates(report.fates)


def test_the_json_form_is_plain() -> None:
    data = json.loads(json.dumps(budget_to_dict(example())))
    assert data["used_tokens"] == 8_673
    assert data["components"]["memories"]["by_type"]["memory-semantic"] == {
        "tokens": 900,
        "items": 1,
    }
    fates = list(map(fate_to_dict, fill([package("a", 9)], 5).fates))
    assert fates == [
        {
            "id": "a",
            "type": "x",
            "outcome": "dropped",
            "reason": "did not fit: needs 9, 5 left",
            "score": pytest.approx(0.5),
            "tokens": 9,
            "sent_tokens": 0,
        }
    ]
