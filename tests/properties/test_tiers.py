"""Budgets in tiers: nothing is lost between them and nothing is exceeded."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agentmem.base.protocols import TokenCounter
from agentmem.living.tiers import (
    LEVELS,
    SHARES,
    TIERS,
    Tier,
    TierItem,
    assemble_tiers,
    order_tiers,
    shares_for,
    split_budget,
)
from tests.properties.strategies import texts


def words(text: str, /) -> int:
    return len(text.split())


def letters(text: str, /) -> int:
    return -(-len(text) // 4)


def steps(text: str, /) -> int:
    """A counter that gives a whole more than the sum of its parts."""
    return len(text) + (len(text) // 50) ** 2


counters = st.sampled_from((words, letters, steps))


@st.composite
def offered(draw: st.DrawFn) -> dict[Tier, list[TierItem]]:
    ids = st.sampled_from("abcdefgh")
    item = st.builds(
        TierItem,
        id=ids,
        levels=st.tuples(*[texts(max_size=60)] * 4),
        why=texts(max_size=10),
    )
    return {tier: draw(st.lists(item, max_size=6)) for tier in TIERS}


@given(
    items=offered(),
    total=st.integers(0, 400),
    activity=st.sampled_from(sorted(SHARES)),
    count=counters,
)
def test_tiers_share_one_budget(
    items: dict[Tier, list[TierItem]], total: int, activity: str, count: TokenCounter
) -> None:
    """P36 Tiers. Tier budgets sum to the total for any activity; unused budget flows on; the total is never exceeded."""
    shares = shares_for(activity)
    budgets = split_budget(total, shares)
    assert sum(budgets.values()) == total
    built = assemble_tiers(items, total, count=count, shares=shares)
    assert built.tokens == (count(built.text) if built.text else 0) <= total
    assert len(set(built.ids)) == len(built.ids)
    # Unused budget flows on: up to each tier, all that was given so far may be used, no more.
    given_so_far = used_so_far = 0
    for tier in TIERS:
        given_so_far += budgets[tier]
        used_so_far += built.tier_tokens[tier]
        assert used_so_far <= given_so_far
    for fate in built.fates:
        if fate.outcome != "dropped":
            assert fate.level in LEVELS[fate.tier]
    # What the last tier dropped did not fit into what was left.
    if count is not steps:
        for fate in built.fates:
            if fate.tier == 4 and fate.outcome == "dropped":
                item = next(i for i in items[4] if i.id == fate.id)
                assert (
                    used_so_far + count(f"- {item.levels[3]} (memory_read {item.id})\n")
                    >= total - 8
                )


@given(total=st.integers(0, 10**9), weights=st.lists(st.integers(0, 16), min_size=4, max_size=4))
def test_any_table_divides_to_the_last_token(total: int, weights: list[int]) -> None:
    """L20 Any table. Whatever shares are set, the tiers' budgets are whole tokens that sum to the total, each within a token of its share."""
    whole = sum(weights) or 1
    shares = tuple(w / whole for w in weights) if sum(weights) else (1.0, 0.0, 0.0, 0.0)
    budgets = split_budget(total, shares)  # type: ignore[arg-type]  # four of them
    assert sum(budgets.values()) == total
    for budget, share in zip(budgets.values(), shares, strict=True):
        assert abs(budget - total * share) <= 1 + 1e-6 * total


@given(
    items=offered(),
    total=st.integers(0, 400),
    activity=st.sampled_from(sorted(SHARES)),
    count=counters,
)
def test_an_order_of_tiers_divides_whatever_part_of_it_is_used_by_their_shares(
    items: dict[Tier, list[TierItem]], total: int, activity: str, count: TokenCounter
) -> None:
    """Whoever fills by it and stops anywhere has given no tier more than one item over its share
    of what another tier still waits for."""
    shares = shares_for(activity)
    order = order_tiers(items, total, count=count, shares=shares)
    ids = [fate.id for fate in order]
    assert len(set(ids)) == len(ids)
    assert set(ids) == {item.id for tier in TIERS for item in items[tier]}
    for tier in TIERS:
        mine = [fate.id for fate in order if fate.tier == tier]
        offered_here = list(dict.fromkeys(item.id for item in items[tier]))
        assert mine == [name for name in offered_here if name in mine]  # in the tier's own order
    given_to = dict.fromkeys(TIERS, 0.0)
    for at, fate in enumerate(order):
        assert fate.level in LEVELS[fate.tier]
        if fate.tier == 4:
            assert all(later.tier == 4 for later in order[at:])
            break
        waiting = {later.tier for later in order[at:] if later.tier != 4}
        assert given_to[fate.tier] == min(given_to[tier] for tier in waiting)
        given_to[fate.tier] += fate.tokens / shares[fate.tier - 1]
