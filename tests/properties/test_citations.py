"""Citations never point nowhere and never say where they did not come from."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import date

from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from agentmem.prompt.cite import (
    Citation,
    FoundSource,
    cited_numbers,
    clean,
    find_citation,
    format_citations,
    number_sources,
    page_key,
    resolve_citations,
    safe_url,
)
from tests.properties.strategies import texts

URLS = (
    "https://example.com/a",
    "http://www.example.com/a/#part",
    "https://example.com/a?utm_source=mail",
    "https://example.com/b?q=1&copy;=2",
    "https://example.com/a_(b)[c]",
    "javascript:alert(1)",
    "",
)
NASTY = (
    "[3] Forged",
    "a\n[9] b",
    "](http://evil)",
    "**Knowledge Base**",
    "<b>x</b>",
    "Knowledge Base",
    "`",
    "\u202e",
)


def sources() -> st.SearchStrategy[FoundSource]:
    return st.builds(
        FoundSource,
        source=st.sampled_from(("web", "memory")),
        url=st.sampled_from(URLS) | texts(max_size=20),
        title=st.sampled_from(NASTY) | texts(max_size=30),
        quote=st.sampled_from(NASTY) | texts(max_size=30),
        date=st.none() | st.dates(),
        memory_id=st.sampled_from(("", "m1", "m2")),
    )


def citation_lists() -> st.SearchStrategy[tuple[Citation, ...]]:
    return st.builds(
        lambda found, start: tuple(
            replace(one, index=one.index + start) for one in number_sources(found)
        ),
        st.lists(sources(), max_size=6),
        st.integers(0, 2),
    )


def answers() -> st.SearchStrategy[str]:
    """Text with marks of all forms, whole, nested and broken."""
    number = st.integers(0, 8).map(str)
    mark = st.one_of(
        number.map(lambda n: f"[{n}]"),
        st.lists(number, min_size=1, max_size=4).map(lambda n: f" [{', '.join(n)}]"),
        st.tuples(number, number).map(lambda n: f"[{n[0]}-{n[1]}]"),
        number.map(lambda n: f"【{n}†source】"),
        number.map(lambda n: f"[Source {n}]"),
        st.tuples(number, st.sampled_from(URLS)).map(lambda n: f"[{n[0]}]({n[1]})"),
        st.tuples(number, st.sampled_from(URLS)).map(lambda n: f"\n[{n[0]}]: {n[1]}\n"),
    )
    piece = (
        mark
        | st.sampled_from(("[", "]", "9", ", ", "Blue sky. ", "`a[7]`", "\n```\nx[7]\n```\n"))
        | texts(max_size=10)
    )
    return st.lists(piece, max_size=12).map("".join)


@given(answers(), citation_lists())
@example("[1[9]2] [1,[9]2]", ())
@example("[" * 40 + "9]" * 40, ())
def test_every_cited_number_resolves(answer: str, citations: tuple[Citation, ...]) -> None:
    """P12 Two kinds of citation. Every number cited in the resolved answer exists, none is invented, and each label says where its source came from."""
    resolved = resolve_citations(answer, citations)
    known = {citation.index: citation for citation in citations}
    assert set(cited_numbers(resolved.text)) <= set(known)
    if "`" not in answer and "<" not in answer and "    " not in answer and "\t" not in answer:
        # An obvious second opinion where nothing can be code.
        for number in re.findall(r"\[(\d{1,9})\]", re.sub(r"!\[\d+\]\(", "", resolved.text)):
            assert int(number) in known
    assert not set(resolved.missing) & set(known)
    assert set(resolved.cited) <= set(citations)
    for mark in resolved.marks:
        assert mark.indexes
        assert set(cited_numbers(resolved.text[mark.start : mark.end])) <= set(mark.indexes)
    assert {index for mark in resolved.marks for index in mark.indexes} == {
        citation.index for citation in resolved.cited
    }
    for citation in citations:
        assert ("Web Source" in citation.label) == (citation.source in ("web", "both"))
        assert ("Knowledge Base" in citation.label) == (citation.source in ("memory", "both"))


@given(answers(), citation_lists())
def test_resolving_twice_changes_nothing_more(answer: str, citations: tuple[Citation, ...]) -> None:
    """S6 Resolved stays resolved. Resolving a resolved answer again changes nothing, and an answer that cites only what exists keeps its bytes."""
    once = resolve_citations(answer, citations)
    again = resolve_citations(once.text, citations)
    assert again.text == once.text
    assert (again.missing, again.wrong_links) == ((), ())
    if not once.missing and not once.wrong_links:
        assert once.text == answer


@given(texts(), st.integers(1, 9), citation_lists())
def test_code_is_left_alone(code: str, number: int, citations: tuple[Citation, ...]) -> None:
    """S7 Code keeps its indexes. An index inside a code fence or span is never read as a citation."""
    inner = code.replace("`", "").replace("~", "")
    fenced = f"```\n{inner} a[{number}]\n```\n"
    spaced = re.sub(r"\n\s*\n", "\n", inner)
    for answer in (fenced, f"`{spaced}a[{number}]`"):
        resolved = resolve_citations(answer, citations)
        assert resolved.text == answer
        assert resolved.cited == ()


@given(st.lists(sources(), max_size=8))
def test_one_page_is_one_citation(found: list[FoundSource]) -> None:
    """S8 One page, one number. Sources are numbered without gaps, one number a page, and a page found by both says so."""
    citations = number_sources(found)
    assert [citation.index for citation in citations] == list(range(1, len(citations) + 1))
    pages = [page_key(citation.url) for citation in citations if citation.url.strip()]
    assert len(pages) == len(set(pages))
    for source in found:
        citation = find_citation(citations, source)
        assert citation is not None
        if source.url.strip():
            assert page_key(citation.url) == page_key(source.url)
            assert citation.source in (source.source, "both")
        if source.memory_id:
            assert source.memory_id in (citation.memory_id, *citation.more_memory_ids)
    for citation in citations:
        if citation.url:
            kinds = {s.source for s in found if page_key(s.url) == page_key(citation.url)}
            assert citation.source == "both" or kinds == {citation.source}
            assert len(kinds) == 1 or citation.source == "both"


@given(citation_lists())
def test_formats_cannot_be_broken(citations: tuple[Citation, ...]) -> None:
    """S9 Citation lists hold. Whatever a title, quote or address contains, each list shows exactly its citations, each under its own heading."""
    entries = json.loads(format_citations(citations, "json"))
    assert [(e["index"], e["title"], e["quote"], e["url"]) for e in entries] == [
        (c.index, c.title, c.quote, c.url) for c in citations
    ]
    listed: dict[int, str] = {}
    heading = ""
    for line in format_citations(citations, "text").split("\n"):
        if line in ("Web Source", "Knowledge Base"):
            heading = line
        elif match := re.match(r"\[(\d+)\] ", line):
            listed[int(match[1])] = heading
        else:
            assert line == "" or line.startswith('    "')
    assert set(cited_numbers(format_citations(citations, "text"))) <= set(listed)
    expected = {
        c.index: "Knowledge Base" if c.source == "memory" else "Web Source" for c in citations
    }
    assert listed == expected

    tokens = MarkdownIt("commonmark").parse(format_citations(citations, "markdown"))
    inline = [child for token in tokens for child in token.children or ()]
    assert sum(token.type == "list_item_open" for token in tokens) == len(citations)
    assert {child.type for child in inline} <= {
        "text", "link_open", "link_close", "strong_open", "strong_close", "text_special",
    }  # fmt: skip
    normal = MarkdownIt().normalizeLink
    wanted = sorted(
        normal(safe_url(c.url))
        for c in citations
        if re.match(r"https?://[^\s/?#]", safe_url(c.url))
    )
    assert (
        sorted(str(child.attrs["href"]) for child in inline if child.type == "link_open") == wanted
    )
    shown = "\n".join("".join(child.content for child in token.children or ()) for token in tokens)
    for citation in citations:
        assert clean(citation.title) in shown


@given(sources(), st.dates())
def test_cleaning_leaves_one_visible_line(source: FoundSource, day: date) -> None:
    """S10 One visible line. A cleaned title has no line break, control, bidi, zero-width or tag character."""
    line = clean(source.title + "\u200b\U000e0041" + day.isoformat())
    assert not re.search(
        "[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e007f]",
        line,
    )
    assert clean(line) == line
