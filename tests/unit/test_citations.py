"""Worked examples of citations."""

from __future__ import annotations

import json
from datetime import date

import pytest

import agentmem
from agentmem.base.errors import InvalidInput, InvalidText
from agentmem.prompt.build import quote_of
from agentmem.prompt.cite import (
    Citation,
    FoundSource,
    cited_numbers,
    format_citations,
    number_sources,
    page_key,
    resolve_citations,
)

CITATIONS = number_sources(
    [
        FoundSource(
            source="web", url="https://example.com/a", title="Sky [blue]", date=date(2024, 5, 1)
        ),
        FoundSource(source="memory", memory_id="m1", title="Grass", quote="Grass is green."),
        FoundSource(source="memory", url="http://example.com/a#top", memory_id="m2"),
    ]
)


def test_a_page_found_by_both_is_one_citation_that_says_so() -> None:
    assert [(c.index, c.source, c.memory_id) for c in CITATIONS] == [
        (1, "both", "m2"),
        (2, "memory", "m1"),
    ]
    assert CITATIONS[0].label == "Web Source, also in the Knowledge Base"


def test_text_form() -> None:
    assert format_citations(CITATIONS) == (
        "Web Source\n"
        "[1] Sky (blue) – https://example.com/a (2024-05-01, also in the Knowledge Base)\n"
        "\n"
        "Knowledge Base\n"
        "[2] Grass\n"
        '    "Grass is green."'
    )


def test_markdown_form() -> None:
    assert format_citations(CITATIONS, "markdown") == (
        "**Web Source**\n"
        "\n"
        "- \\[1\\] [Sky \\[blue\\]](<https://example.com/a>) (2024-05-01, also in the Knowledge Base)\n"
        "\n"
        "**Knowledge Base**\n"
        "\n"
        "- \\[2\\] Grass: “Grass is green\\.”"
    )


def test_json_form() -> None:
    first = json.loads(format_citations(CITATIONS, "json"))[0]
    assert first == {
        "index": 1,
        "source": "both",
        "label": "Web Source, also in the Knowledge Base",
        "title": "Sky [blue]",
        "url": "https://example.com/a",
        "quote": "",
        "date": "2024-05-01",
        "memory_ids": ["m2"],
    }


def test_a_script_address_is_not_linked() -> None:
    citation = Citation(index=1, source="web", url="javascript:alert(1)", title="Click")
    assert "](" not in format_citations([citation], "markdown")


def test_nothing_found_prints_nothing() -> None:
    assert format_citations([]) == ""
    assert format_citations([], "json") == "[]"


@pytest.mark.parametrize(
    ("answer", "text", "cited", "missing"),
    [
        ("Blue [1]. Green [2].", "Blue [1]. Green [2].", [1, 2], ()),
        ("Blue [9].", "Blue.", [], (9,)),
        ("Blue [1, 9] sky", "Blue [1] sky", [1], (9,)),
        ("Blue [1-3].", "Blue [1, 2].", [1, 2], (3,)),
        ("Blue【1】 and【2†source】", "Blue【1】 and【2†source】", [1, 2], ()),
        ("Blue [1][2]", "Blue [1][2]", [1, 2], ()),
        ("Blue [9][1]", "Blue [1]", [1], (9,)),
        ("See (1) and a list\n1. one", "See (1) and a list\n1. one", [], ()),
        ("`a[1] = b[9]`", "`a[1] = b[9]`", [], ()),
        ("```py\nx[9]\n```", "```py\nx[9]\n```", [], ()),
        ("Code:\n\n    x[9] = 1\n", "Code:\n\n    x[9] = 1\n", [], ()),
        ("[1](https://www.example.com/a/)", "[1](https://www.example.com/a/)", [1], ()),
        ("[1](https://evil.example)", "[1]", [1], ()),
        ("Green [9](https://evil.example/x_(y)).", "Green.", [], (9,)),
        ("Blue [1].\n\n[9]: https://evil.example", "Blue [1].\n\n", [1], (9,)),
        ("[Source 2] [^1]", "[Source 2] [^1]", [2, 1], ()),
        ("[0] [01]", " [01]", [1], (0,)),
        ("- [ ] todo\n- [x] done", "- [ ] todo\n- [x] done", [], ()),
        ("Range [1-999999999].", "Range [1, 2].", [1, 2], (999999999,)),
        ("![1](a.png)", "![1](a.png)", [], ()),
        ("［１］", "［１］", [1], ()),
    ],
)
def test_resolving(answer: str, text: str, cited: list[int], missing: tuple[int, ...]) -> None:
    resolved = resolve_citations(answer, CITATIONS)
    assert resolved.text == text
    assert [citation.index for citation in resolved.cited] == cited
    assert resolved.missing == missing


def test_a_foreign_address_on_a_number_is_reported() -> None:
    assert resolve_citations("[1](https://evil.example)", CITATIONS).wrong_links == (
        "https://evil.example",
    )


def test_uncited_sentences_are_listed() -> None:
    answer = "# Colours\nThe sky is blue. [1] Dr. Who disagrees. Grass is green [2].\n`x = 1`\nIt is 1.5 m tall."
    assert resolve_citations(answer, CITATIONS).uncited_sentences == (
        "Dr. Who disagrees.",
        "It is 1.5 m tall.",
    )


def test_cited_numbers() -> None:
    assert cited_numbers("a [3] b [1-2, 3] `c[7]`") == (3, 1, 2)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("https://Example.com/a/", "http://www.example.com:80/a#x", True),
        ("https://example.com/a?utm_source=x&q=1", "https://example.com/a?q=1", True),
        ("https://example.com/a", "https://example.com/A", False),
        ("https://example.com/a?q=1", "https://example.com/a?q=2", False),
        ("ftp://example.com/a", "https://example.com/a", False),
    ],
)
def test_the_same_page(one: str, other: str, same: bool) -> None:
    assert (page_key(one) == page_key(other)) is same


def test_other_bad_input_is_refused() -> None:
    with pytest.raises(InvalidText):
        resolve_citations(None, ())  # type: ignore[arg-type]  # what the test is about
    with pytest.raises(InvalidInput, match="twice"):
        resolve_citations("", [Citation(index=1, source="web"), Citation(index=1, source="web")])
    with pytest.raises(InvalidInput, match="style"):
        format_citations((), "html")  # type: ignore[arg-type]  # what the test is about


def test_a_citation_is_never_titled_by_an_id() -> None:
    (citation,) = number_sources(
        [FoundSource(source="memory", memory_id="0198-ab", quote="I moved.")]
    )
    for written in (format_citations([citation]), format_citations([citation], "markdown")):
        assert "0198-ab" not in written
        assert "I moved" in written


PAGE = (
    "Our handbook begins with a welcome to everybody who works here, old or new. "
    "Deploys go out on Thursdays at 10:00, after the release notes were read by two people. "
    "Lunch is at noon, and the kitchen belongs to whoever cleans it. "
)


def test_a_citation_quotes_the_sentence_that_is_used_and_not_the_beginning() -> None:
    assert quote_of(PAGE, {"deploy", "thursday"}).startswith("Deploys go out on Thursdays")
    assert quote_of(PAGE, set()).startswith("Our handbook begins")
    assert quote_of("Short.", {"anything"}) == "Short."
    with agentmem.open(":memory:", embedder=None) as memory:
        memory.sources.add_document(PAGE, user_id="ann")
        result = agentmem.run_agent_loop_sync(
            "When do deploys go out?", memory=memory, model="extractive", user_id="ann"
        )
        (cited,) = result.citations
        assert cited.quote.startswith("Deploys go out on Thursdays")
        assert cited.url == ""
        answered = "Lunch is at noon. [1]"
        turn = memory.turn(
            [{"role": "user", "content": "When do deploys go out?"}], user_id="ann", dry=True
        )
        assert turn.citations_for(answered)[0].quote.startswith("Lunch is at noon")
