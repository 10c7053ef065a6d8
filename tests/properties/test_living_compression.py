"""What the four levels of a text promise, for any text and any counter."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from agentmem.living.levels import (
    compress,
    find_problems,
    make_levels,
    missing_essentials,
    read_essentials,
    shrink,
    summarise,
)
from tests.properties.counters import counters, quarter_characters
from tests.properties.strategies import texts, units

PHRASES = (
    "The upload limit is 900 seconds.", "It is not on.", "Ana lives in the Hague.", "Thanks!",
    "We run `make the thing` there.", "That is so very nice.", "It was 1,000 or one thousand.",
    "```\nthe code is a b\n```", "There is no way.", "I painted that lake.", "GitHub is the host.",
    "the", "Is it?", "\n\n", "    the indented is code\n", "It's really just a test of the thing.",
)  # fmt: skip


def prose() -> st.SearchStrategy[str]:
    """Sentences with numbers, names, negations and code, and any text at all."""
    return st.lists(st.sampled_from(PHRASES), max_size=6).map(" ".join) | texts()


@given(
    prose(),
    st.sampled_from(counters()),
    texts(max_size=20),
    st.sampled_from(("", "fact", "episode")),
)
@example("The the.", quarter_characters, "", "")
def test_each_level_costs_no_more_than_the_one_above(
    text: str, count: object, title: str, kind: str
) -> None:
    """P35 Levels. Each compression level costs no more tokens than the one above it."""
    assert callable(count)
    levels = make_levels(text, count, title=title, kind=kind)
    costs = [count(text), count(levels.summary), count(levels.compressed), count(levels.index)]
    assert costs == sorted(costs, reverse=True)
    assert costs[1:3] == [levels.summary_tokens, levels.compressed_tokens]


@given(prose(), units())
@example("There, Berlin is the place. No.", 0.0)
@example("Is it? ```\nthe code is a b\n```", 0.0)
def test_shortening_keeps_what_carries_the_truth(text: str, share: float) -> None:
    """L2 Essentials stay. Summary and compressed text keep every number, name, negation, code."""
    essentials = read_essentials(text)
    told = shrink(text, quarter_characters, 3)
    for shorter in (summarise(text, quarter_characters, share=share), compress(text), told):
        found = read_essentials(shorter)
        assert essentials.numbers <= found.numbers
        assert not [n for n in missing_essentials(essentials, found) if not n.startswith("name ")]
        assert all(name in shorter.lower() for name in essentials.names)


@given(prose(), prose(), st.sampled_from(counters()))
def test_a_model_text_is_taken_only_when_it_is_shorter_and_true(
    original: str, proposed: str, count: object
) -> None:
    """L3 Model checked. A model's text is accepted only if cheaper and nothing essential is lost."""
    assert callable(count)
    if not find_problems(original, proposed, count):
        assert count(proposed) < count(original)
        assert read_essentials(original).numbers == read_essentials(proposed).numbers
        denied = [bool(read_essentials(text).negations) for text in (original, proposed)]
        assert denied[0] == denied[1]
    assert find_problems(original, original, count)
