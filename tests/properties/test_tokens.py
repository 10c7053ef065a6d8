"""What counting promises, for any text and any request."""

from __future__ import annotations

import json
import warnings
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from agentmem.base.errors import AgentMemWarning
from agentmem.text.messages import ROLES
from agentmem.tokens.counter import (
    ANSWER_TOKENS,
    UNBOUNDED,
    CachedCounter,
    Correction,
    Corrections,
    Tokenizer,
    count_message,
    count_messages,
    observe,
)
from agentmem.tokens.encodings import (
    CUT_TOKENS,
    LONGEST_RUN_CHARACTERS,
    estimate_tokens,
    split_runs,
    tiktoken_counter,
)
from agentmem.tokens.models import EncodingName, ModelLimits, reserve_for
from tests.properties.strategies import texts, word_counter
from tests.token_texts import TEXTS

ENCODINGS: tuple[EncodingName, ...] = ("o200k_base", "cl100k_base", "p50k_base")


def real_counts(text: str) -> dict[EncodingName, int]:
    counts: dict[EncodingName, int] = {}
    for name in ENCODINGS:
        counter = tiktoken_counter(name)
        assert counter is not None, f"litellm's wheel carries the ranks of {name}"
        counts[name] = counter(text)
    return counts


def documents() -> st.SearchStrategy[str]:
    """Natural texts of many languages, alone and mixed, whole and cut."""
    one = st.sampled_from(sorted(TEXTS.values()))
    cut = st.tuples(one, st.integers(0, 200), st.integers(20, 200)).map(
        lambda p: p[0][p[1] : p[1] + p[2]]
    )
    return one | cut | st.lists(one | cut, min_size=1, max_size=8).map("\n\n".join)


def messages(max_size: int = 4) -> st.SearchStrategy[list[dict[str, Any]]]:
    content = texts(max_size=40)
    parts = st.lists(
        content.map(lambda t: {"type": "text", "text": t})
        | st.just({"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}),
        max_size=3,
    )
    said = st.fixed_dictionaries(
        {"role": st.sampled_from(ROLES), "content": content | parts},
        optional={"name": content, "tool_call_id": content},
    )
    called = st.builds(
        lambda name, arguments: {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": name, "arguments": arguments}}
            ],
        },
        content,
        content,
    )
    return st.lists(said | called, max_size=max_size)


@given(text=documents() | texts())
@example(text="नमस्ते।" * 4)
@example(text="\x1c\x1d\nh")
@example(text=" \r\r\r")
@example(text=" \r\n\r\n")
@example(text="Ivermectin is used to treat onchocerciasis.")
def test_the_estimate_is_never_more_than_five_percent_low(text: str) -> None:
    """T1 Careful estimate. Without a tokenizer, a text counts at most 5 % (and one token) low."""
    for name, real in real_counts(text).items():
        assert estimate_tokens(text, encoding=name) >= 0.95 * real - 1, name


@given(
    text=texts(),
    unit=texts(max_size=3),
    times=st.sampled_from((0, 200, LONGEST_RUN_CHARACTERS, 1_500)),
    tail=texts(),
)
def test_long_runs_are_counted_whole_and_never_low(
    text: str, unit: str, times: int, tail: str
) -> None:
    """T2 Linear counting. Cutting endless words loses no character and never lowers the count."""
    whole = text + unit * times + tail
    parts, cuts = split_runs(whole)
    assert "".join(parts) == whole
    import tiktoken

    for name, counted in real_counts(whole).items():
        real = len(tiktoken.get_encoding(name).encode_ordinary(whole))
        assert real <= counted <= real + 2 * CUT_TOKENS * cuts + cuts
        if not cuts:
            assert counted == real


@given(
    window=st.integers(2, 2_000_000) | st.integers(2, 20_000),
    more=st.integers(0, 5_000),
    max_output=st.integers(1, 200_000),
    completion=st.integers(0, 20_000),
)
def test_the_reserve_leaves_half_of_every_window(
    window: int, more: int, max_output: int, completion: int
) -> None:
    """T3 Reserve. Something is always left: the reserve takes at most half of any window."""
    limits = ModelLimits(window=window, max_output=max_output)
    reserve = reserve_for(limits, completion=completion)
    available = window - reserve.total
    assert available > 0
    assert available >= window // 2
    assert 0 <= reserve.completion <= min(completion, max_output)
    assert reserve.margin >= 0
    if min(completion, max_output) + max(window // 10, 1_000) <= window // 2:
        assert reserve.completion == min(completion, max_output)
        assert reserve.margin == max(window // 10, 1_000)
    larger = ModelLimits(window=window + more, max_output=max_output)
    assert window + more - reserve_for(larger, completion=completion).total >= available


@given(
    ratio=st.floats(0.25, 4.0),
    change=st.floats(1 / 3, 3.0),
    drift=st.floats(-0.008, 0.008),
    sizes=st.lists(st.integers(50, 100_000), min_size=20, max_size=20),
    noise=st.lists(st.floats(-0.02, 0.02), min_size=20, max_size=20),
)
def test_the_correction_converges_and_follows_a_drift(
    ratio: float, change: float, drift: float, sizes: list[int], noise: list[float]
) -> None:
    """T4 Learned correction. After 20 calls the corrected count is within 5 % of the provider's.

    New provider or one that changed to a third or the triple. One that drifts and scatters is
    followed with a lag of five calls' drift on top.
    """
    before = Correction()
    for _ in range(10):
        before = observe(before, estimated=1_000, actual=1_000 * ratio * change)
    for known in (Correction(), before):
        steady = known
        for size in sizes:
            steady = observe(steady, estimated=size, actual=size * ratio)
        assert abs(steady.ratio / ratio - 1) < 0.05
        assert abs(steady.apply(10_000) / (10_000 * ratio) - 1) < 0.05
    moving, now = before, ratio
    for size, error in zip(sizes, noise, strict=True):
        now *= 1 + drift
        moving = observe(moving, estimated=size, actual=size * now * (1 + error))
    assert abs(moving.ratio / now - 1) < 0.05 + abs(drift) * 5


@given(
    ratio=st.floats(0.3, 3.0),
    wild=st.floats(allow_nan=True, allow_infinity=True) | st.integers() | st.none(),
    estimated=st.floats(allow_nan=True, allow_infinity=True) | st.integers(-5, 5) | st.none(),
)
def test_one_wild_report_changes_little(ratio: float, wild: Any, estimated: Any) -> None:
    """T5 Wild reports. Numbers that cannot be counts are ignored; one outlier moves at most 15 %."""
    learned = Correction()
    for _ in range(5):
        learned = observe(learned, estimated=1_000, actual=1_000 * ratio)
    after = observe(learned, estimated=1_000, actual=wild)
    assert 0.87 < after.ratio / learned.ratio < 1.15
    assert (after.calls, after.ignored) in (
        (learned.calls + 1, learned.ignored),
        (learned.calls, learned.ignored + 1),
    )
    other = observe(learned, estimated=estimated, actual=wild)
    assert 0.87 < other.ratio / learned.ratio < 1.15


@given(conversation=messages(), more=messages(max_size=1))
def test_a_request_is_the_sum_of_its_messages(
    conversation: list[dict[str, Any]], more: list[dict[str, Any]]
) -> None:
    """T6 Additive. A request costs its messages and the opening of the answer, in any order."""

    def one(message: dict[str, Any]) -> int:
        return count_message(message, count=word_counter, count_media=lambda media: 7)

    def whole(several: list[dict[str, Any]]) -> int:
        return count_messages(several, count=word_counter, count_media=lambda media: 7)

    both = conversation + more
    expected = sum(map(one, both)) + (ANSWER_TOKENS if both else 0)
    assert whole(both) == whole(both[::-1]) == expected
    assert all(one(message) >= 3 for message in both)


@given(asked=st.lists(texts(max_size=300), max_size=30), size=st.integers(1, 5))
def test_the_cache_answers_as_the_counter_does(asked: list[str], size: int) -> None:
    """T7 Cached counts. A remembered count equals a fresh one, and the memory stays bounded."""
    cached = CachedCounter(word_counter, size=size)
    for text in asked * 2:
        assert cached(text) == word_counter(text)
        assert len(cached) <= size


@given(
    text=texts(max_size=2_000) | st.text("a漢ﷺ\n 1", max_size=3_000), role=st.sampled_from(ROLES)
)
@example(text="ﷺ" * 40, role="user")
@example(text="a" * 5_000, role="user")
@pytest.mark.parametrize("model", ["gpt-4o", "gpt-4", "claude-3-5-sonnet", "some-model"])
def test_no_text_costs_more_than_it_may(model: str, text: str, role: str) -> None:
    """T17 At most. No text and no message has more tokens than is said without counting them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AgentMemWarning)
        known = (Tokenizer(model), Tokenizer(model, estimate=True))
    for tokenizer in known:
        assert len(text) <= tokenizer.at_most(text) >= tokenizer.count(text)
        message = {"role": role, "content": text}
        most, unknown = tokenizer.messages_at_most([message, {**message, "name": "x"}])
        assert most >= tokenizer.count_message(message)
        assert unknown == UNBOUNDED


@given(
    reports=st.lists(
        st.tuples(
            st.sampled_from(("gpt-4o", "OpenAI/GPT-4o", "claude-3-5-sonnet", "x")),
            st.integers(1, 10_000),
            st.integers(1, 10_000),
        ),
        max_size=20,
    )
)
def test_corrections_survive_export_and_load(reports: list[tuple[str, int, int]]) -> None:
    """T8 Kept corrections. What was learned is the same after export, JSON and load."""
    first = Corrections()
    for model, estimated, actual in reports:
        first.observe(model, estimated, actual)
    second = Corrections()
    second.load(json.loads(json.dumps(first.export())))
    assert second.export() == first.export()
    for model, _, _ in reports:
        assert second.of(model) == first.of(model)


@given(text=texts(max_size=200), first=texts(max_size=50))
def test_the_estimate_grows_with_the_text(text: str, first: str) -> None:
    """T9 Plain estimate. Nothing is 0, any text at least 1 and at most two a byte and some."""
    assume(text)
    size = len(text.encode())
    for name in ENCODINGS:
        estimate = estimate_tokens(text, encoding=name)
        assert 1 <= estimate <= 2 * size + 3
        assert estimate == estimate_tokens(text, encoding=name)
    assert estimate_tokens("") == 0


@pytest.mark.deep
@pytest.mark.parametrize("name", ENCODINGS)
@pytest.mark.parametrize("language", sorted(TEXTS))
def test_every_sample_is_estimated_within_bounds(language: str, name: EncodingName) -> None:
    text = TEXTS[language]
    real = real_counts(text)[name]
    assert 0.95 * real <= estimate_tokens(text, encoding=name) <= 3 * real
