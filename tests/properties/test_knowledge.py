"""Properties of filling the knowledge section and of building the whole block."""

from __future__ import annotations

import random
import warnings
from dataclasses import replace
from datetime import date
from itertools import pairwise
from typing import Any

from hypothesis import event, example, given
from hypothesis import strategies as st

from agentmem.base.config import Framing, ReferenceRole
from agentmem.base.errors import AgentMemWarning
from agentmem.base.protocols import TokenCounter
from agentmem.prompt.block import (
    BlockSource,
    ContextBlock,
    Pointer,
    clean_profile_line,
    clean_source,
    parse_context,
    render_knowledge,
)
from agentmem.prompt.build import (
    OfferedSource,
    build_block,
    fill_knowledge,
    message_tokens,
    write_whole,
)
from agentmem.prompt.messages import inject, reference_messages
from agentmem.text.sentences import sentence_ends
from agentmem.tokens.counter import tokenizer_for
from tests.properties.attacks import SECRET, any_texts, blocks
from tests.properties.strategies import texts, units, word_counter


def by_character(text: str, /) -> int:
    return len(text)


def by_byte(text: str, /) -> int:
    return len(text.encode("utf-8"))


def by_halves(text: str, /) -> int:
    """Counts a whole as more than its parts, which a real tokenizer does now and then."""
    return len(text) // 3 + len(text) ** 2 // 50_000


COUNTERS: tuple[TokenCounter, ...] = (word_counter, by_character, by_byte, by_halves)
counters = st.sampled_from(COUNTERS)
prose = st.lists(st.sampled_from(("One two three. ", "It rains! ", "Dr. Smith left at 1.5 p.m. ", "日本語。", "x < y & z. ")), max_size=20).map("".join)  # fmt: skip


def candidates(most: int = 8) -> st.SearchStrategy[list[OfferedSource]]:
    sources = st.builds(
        BlockSource, text=prose | any_texts(), url=texts(20), title=texts(20), retrieved=st.dates()
    )
    few = st.sampled_from((0.5, 0.501, 0.4999, 0.51))  # which are equal to the second decimal
    rows = st.lists(st.tuples(sources, units() | few, units()), max_size=most)
    return rows.map(
        lambda found: [
            OfferedSource(id=f"c{at}", source=source, score=score, merit=merit)
            for at, (source, score, merit) in enumerate(found)
        ]
    )


limits = st.integers(0, 400) | st.integers(0, 4000)


@given(candidates(), limits, counters, st.randoms(use_true_random=False))
def test_no_lower_score_is_in_while_a_higher_one_is_out(
    found: list[OfferedSource], limit: int, count: TokenCounter, shuffled: random.Random
) -> None:
    """P7 Score order. Under a tight budget no lower-scored chunk is in while a higher-scored one is out."""
    fill = fill_knowledge(found, limit, count=count)
    scores = {c.id: round(c.score, 2) for c in found}  # finer differences say nothing (P40)
    fates = {fate.id: fate for fate in fill.fates}
    assert set(fates) == set(scores)  # every candidate has one fate and a reason
    assert len(fill.fates) == len(found)
    assert all(fate.reason for fate in fill.fates)
    inside = [i for i, fate in fates.items() if fate.outcome != "dropped"]
    outside = [i for i, fate in fates.items() if fate.outcome == "dropped"]
    assert min((scores[i] for i in inside), default=1) >= max(
        (scores[i] for i in outside), default=0
    )

    originals = {c.id: c.source.text for c in found}
    shown_ids = [fate.id for fate in fill.fates if fate.outcome != "dropped"]
    for number, (source, shown_id) in enumerate(zip(fill.sources, shown_ids, strict=True), start=1):
        last = number == len(fill.sources)
        assert source.cut == (fates[shown_id].outcome == "cut")
        assert not source.cut or last  # only the last one may be cut
        assert (
            originals[shown_id].startswith(source.text)
            if source.cut
            else source.text == originals[shown_id]
        )
    assert fill.tokens <= limit
    if fill.shown:
        assert fill.tokens == count(render_knowledge(fill.shown, len(found)))

    shuffled.shuffle(found)
    assert fill_knowledge(found, limit, count=count) == fill


@given(candidates(), limits, counters, st.randoms(use_true_random=False))
def test_among_equally_relevant_memories_the_composite_score_decides(
    found: list[OfferedSource], limit: int, count: TokenCounter, shuffled: random.Random
) -> None:
    """P40 Ties. Among memories of equal relevance (to the second decimal) the composite score
    decides; shuffling the input or the ids changes nothing.
    """
    fill = fill_knowledge(found, limit, count=count)
    by_id = {c.id: c for c in found}
    fates = [by_id[fate.id] for fate in fill.fates]
    for one, other in pairwise(fates):
        relevant, less = round(one.score, 2), round(other.score, 2)
        assert relevant >= less
        assert relevant > less or one.merit >= other.merit

    ids = [c.id for c in found]
    shuffled.shuffle(ids)
    again = [replace(c, id=name) for c, name in zip(found, ids, strict=True)]
    shuffled.shuffle(again)
    renamed = fill_knowledge(again, limit, count=count)
    assert renamed.text == fill.text
    assert renamed.shown == fill.shown


@given(candidates(5), st.integers(0, 3000), counters)
def test_the_first_to_be_left_out_did_not_fit(
    found: list[OfferedSource], limit: int, count: TokenCounter
) -> None:
    """K10 No waste. With a counter that adds up, the best source left out did not fit into what was left."""
    if count is by_halves:
        count = by_character
    fill = fill_knowledge(found, limit, count=count)
    out = [fate for fate in fill.fates if fate.outcome == "dropped"]
    if out and not (fill.sources and fill.sources[-1].cut):
        source = next(c.offered for c in found if c.id == out[0].id)
        assert count(render_knowledge((*fill.shown, clean_source(source)), len(found))) > limit - 8


@given(candidates(5), st.integers(0, 600), counters)
def test_a_cut_source_is_never_empty_and_fits(
    found: list[OfferedSource], limit: int, count: TokenCounter
) -> None:
    """B3 Cut to fit. A text is sent cut only to what is left, never empty and never more of it than
    there is, and the fill stays within the limit whatever the counter says of parts and whole.
    """
    fill = fill_knowledge(found, limit, count=count)
    assert fill.tokens <= limit
    assert fill.tokens == (count(fill.text) if fill.sources else 0)
    whole = {c.id: c.source.text for c in found}
    for source, name in zip(fill.sources, fill.ids, strict=True):
        if source.cut:
            assert source.text.strip()
            assert whole[name].startswith(source.text)
            assert len(source.text) < len(whole[name])
        else:
            assert source.text == whole[name]


@given(
    blocks(),
    candidates(5),
    st.integers(0, 600) | st.integers(0, 6000),
    counters,
    st.sampled_from(("pair", "single")),
    st.sampled_from(("assistant", "user")),
)
def test_the_message_never_costs_more_than_its_budget(  # noqa: PLR0917  # given by Hypothesis
    offered: ContextBlock,
    found: list[OfferedSource],
    limit: int,
    count: TokenCounter,
    framing: Framing,
    role: ReferenceRole,
) -> None:
    """P16 Hard cap. The tokens of the whole rendered message, wrapper and citations included, never
    exceed the budget given for it.
    """
    built = build_block(
        secret=SECRET,
        limit_tokens=limit,
        count=count,
        user_profile=offered.user_profile,
        profile_tokens=limit // 3,
        candidates=found,
        total_found=offered.total_found,
        working_memory=offered.working_memory,
        framing=framing,
        role=role,
    )
    question = [{"role": "user", "content": "?"}]
    if built.text is None:
        assert built.block is None
        assert built.tokens == 0
        assert inject(question, None) == question
    else:
        sent = inject(question, built.text, framing=framing, role=role)[:-1]
        assert sent == reference_messages(built.text, framing=framing, role=role)
        assert message_tokens(sent, count) == built.tokens <= limit
        assert parse_context(built.text, secret=SECRET) == built.block
        assert built.block is not None
        assert built.block.total_tokens == built.tokens
        assert built.block is not None


@given(
    blocks(),
    candidates(5),
    st.integers(0, 3_000) | st.integers(3_000, 60_000),
    st.integers(0, 3_000) | st.integers(3_000, 60_000),
    st.sampled_from(("gpt-4o", "gpt-4", "claude-3-5-sonnet", "some-model")),
    st.sampled_from(("pair", "single")),
    st.sampled_from(("assistant", "user")),
)
def test_a_block_written_without_counting_is_the_one_that_counting_gives(  # noqa: PLR0917
    offered: ContextBlock,
    found: list[OfferedSource],
    limit: int,
    knowledge_limit: int,
    model: str,
    framing: Framing,
    role: ReferenceRole,
) -> None:
    """K18 Whole without counting. A block that is written without counting, because all of it fits
    for certain, is byte for byte the one that counting everything gives.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AgentMemWarning)
        tokenizer = tokenizer_for(model)
    given_to_both: dict[str, Any] = {
        "secret": SECRET,
        "limit_tokens": limit,
        "user_profile": offered.user_profile,
        "profile_tokens": limit,
        "candidates": found,
        "knowledge_tokens": knowledge_limit,
        "total_found": offered.total_found,
        "working_memory": offered.working_memory,
        "framing": framing,
        "role": role,
    }
    written = write_whole(at_most=tokenizer.at_most, **given_to_both)
    event(f"written: {written is not None}")
    if written is not None:
        counted = build_block(
            count=tokenizer,
            count_messages=lambda m: sum(map(tokenizer.count_message, m)),
            **given_to_both,
        )
        assert counted.text == written
        assert counted.tokens <= limit
        shown = [fate for fate in counted.knowledge.fates if fate.outcome == "included"]
        assert len(shown) == len(found)


@given(
    st.lists(any_texts(), max_size=4), candidates(4), candidates(4), st.integers(0, 300), counters
)
@example(["likes tea"], [], [], 300, word_counter)
def test_the_profile_is_there_whatever_the_query_found(
    profile: list[str],
    one: list[OfferedSource],
    other: list[OfferedSource],
    profile_tokens: int,
    count: TokenCounter,
) -> None:
    """P11 Preference inclusion. Stored preferences are in the profile whatever the query, within
    their own budget, deducted before the knowledge budget.
    """
    kept = []
    for found in (one, other, []):
        built = build_block(
            secret=SECRET,
            limit_tokens=1_000_000,
            count=count,
            user_profile=profile,
            profile_tokens=profile_tokens,
            candidates=found,
            working_memory=[Pointer(id="r1", summary="kept")],
        )
        assert built.block is not None
        kept.append(built.block.user_profile)
        spent = sum(fate.tokens for fate in built.profile if fate.outcome != "dropped")
        assert spent <= profile_tokens
        assert len(built.profile) == len(profile)
        shown = [clean_profile_line(f.id) for f in built.profile if f.outcome == "included"]
        cut = [clean_profile_line(f.id) for f in built.profile if f.outcome == "cut"]
        if cut:  # where none fits whole, one is cut at the end of a sentence
            assert not shown
            (line,) = built.block.user_profile
            assert cut[0].startswith(line)
            assert len(line) in set(sentence_ends(cut[0]))
        else:
            assert list(built.block.user_profile) == shown
    assert kept[0] == kept[1] == kept[2]


@given(st.lists(prose, min_size=1, max_size=4), st.integers(0, 5000), counters)
def test_the_profile_comes_before_knowledge(
    lines: list[str], limit: int, count: TokenCounter
) -> None:
    """K11 Profile first. What knowledge is found never takes a preference's place, however tight it is."""
    found = [
        OfferedSource(
            id=str(n), score=1.0, source=BlockSource(text="word " * 50, retrieved=date(2026, 1, 1))
        )
        for n in range(5)
    ]
    with_knowledge, without = (
        build_block(
            secret=SECRET, limit_tokens=limit, count=count, user_profile=lines, candidates=c
        ).block
        for c in (found, [])
    )
    if without is not None:
        assert with_knowledge is not None
        assert with_knowledge.user_profile == without.user_profile
