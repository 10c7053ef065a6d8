"""Chunks of any text, and of documents whose parts are known."""

from __future__ import annotations

from itertools import pairwise
from typing import get_args

from hypothesis import example, given
from hypothesis import strategies as st

from agentmem.base.types import Chunk, Document, TextFormat
from agentmem.text.chunks import chunk, format_of
from agentmem.text.markdown import markdown_blocks
from agentmem.text.sentences import sentence_ends
from tests.properties.counters import counters, quarter_characters
from tests.properties.strategies import texts
from tests.properties.test_sentences import prose

FORMATS = st.sampled_from(get_args(TextFormat))
WORDS = st.sampled_from(
    ("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa")
)
SENTENCES = st.lists(WORDS, min_size=1, max_size=12).map(lambda w: " ".join(w).capitalize() + ".")
PARAGRAPHS = st.lists(SENTENCES, min_size=1, max_size=6).map(" ".join)
HEADINGS = st.tuples(st.integers(1, 4), WORDS).map(lambda drawn: f"{'#' * drawn[0]} {drawn[1]}")
FENCES = st.lists(
    st.sampled_from(
        (
            "x = 1",
            "",
            "# no heading",
            "    return",
            "- no item",
            "| no | table |",
            "`x`",
            "```sh",
            "~~~",
        )
    ),
    min_size=1,
    max_size=12,
).map(lambda lines: "````python\n" + "\n".join(lines) + "\n````")
TABLES = st.integers(1, 8).map(lambda n: "| a | b |\n|---|---|" + "\n| one | two |" * n)
LISTS = st.lists(SENTENCES, min_size=1, max_size=6).map(
    lambda items: "\n".join(f"- {item}" for item in items)
)
PARTS = st.lists(HEADINGS | PARAGRAPHS | FENCES | TABLES | LISTS, min_size=1, max_size=14)
SCRAPS = st.lists(
    st.sampled_from(
        ("# H\n", "## ", "#\n", "- a\n", "  - b\n", "1. x\n", "```\n", "~~~ py\n", "| a |\n", "|---|\n", "> q\n",
         "---\n", "===\n", "\n", "\r\n", "\r", "    code\n", "\t", "word ", "A b. ", "Bob: hi\n", "[10:00] Al: x\n",
         "8 May 2023\n", "def f():\n", "}\n", "  return 1\n", "\u2029", "日本語。", "e\u0301", "\x1c", "\x85", "x" * 90)
    )
    | st.text(max_size=6),
    max_size=60,
).map("".join) | st.lists(WORDS, max_size=40).map("\n \n\n\n\n\n".join)  # fmt: skip
SIZES = st.tuples(st.integers(4, 60), st.integers(0, 60)).map(lambda s: (s[0], s[0] + s[1]))
COUNTERS = st.sampled_from(range(5))


def cut(text: str, text_format: TextFormat, sizes: tuple[int, int], counter: int) -> list[Chunk]:
    target, limit = sizes
    document = Document(text=text, format=text_format)
    count = counters()[counter]
    return list(chunk(document, count=count, target_tokens=target, limit_tokens=limit))


def assert_none_is_tiny_for_nothing(chunks: list[Chunk], text: str, sizes: tuple[int, int]) -> None:
    """A chunk below a quarter of the target has no neighbour that had room for it."""
    target, limit = sizes
    for left, right in pairwise(chunks):
        if min(left.tokens, right.tokens) < target // 4:
            joined = quarter_characters(text[left.start : right.end])
            assert joined > limit or left.tokens + right.tokens > 1.5 * target


@given(text=SCRAPS | prose() | texts(), text_format=FORMATS, sizes=SIZES, counter=COUNTERS)
@example(text=" \n\x1c a \x85", text_format="markdown", sizes=(4, 4), counter=0)
def test_chunks_cover_the_document(
    text: str, text_format: TextFormat, sizes: tuple[int, int], counter: int
) -> None:
    """C6 Chunk spans. Every visible character of a document is in exactly one chunk; spans are in
    order, and a chunk's text is the document's characters at its offsets."""
    position = 0
    for part in cut(text, text_format, sizes, counter):
        assert position <= part.start < part.end <= len(text)
        assert not text[position : part.start].strip()
        assert part.text == text[part.start : part.end]
        assert part.text.strip()
        assert part.text == part.text.rstrip()
        assert part.tokens == counters()[counter](part.text)
        position = part.end
    assert not text[position:].strip()


@given(
    text=SCRAPS
    | prose()
    | texts()
    | st.tuples(st.text(min_size=1, max_size=4), st.integers(1, 3000)).map(lambda d: d[0] * d[1]),
    text_format=FORMATS,
    sizes=SIZES,
    counter=COUNTERS,
)
@example(text=("alpha" + "\n" * 9) * 30, text_format="markdown", sizes=(30, 33), counter=2)
def test_no_chunk_is_above_the_limit(
    text: str, text_format: TextFormat, sizes: tuple[int, int], counter: int
) -> None:
    """C7 Hard limit. No chunk of any text has more tokens than the limit, as counted."""
    for part in cut(text, text_format, sizes, counter):
        assert counters()[counter](part.text) <= sizes[1]


@given(text=SCRAPS | prose(), text_format=FORMATS, sizes=SIZES, url=texts(max_size=9))
def test_equal_documents_have_equal_chunks(
    text: str, text_format: TextFormat, sizes: tuple[int, int], url: str
) -> None:
    """C8 Same chunks. The chunks depend on the text, its format and the sizes alone."""
    target, limit = sizes
    one, two = (
        chunk(document, count=quarter_characters, target_tokens=target, limit_tokens=limit)
        for document in (
            Document(text=text, format=text_format),
            Document(text=text, format=text_format, url=url, title=url, metadata={"a": 1}),
        )
    )
    assert one == two
    assert len({format_of(Document(text=text, url=where)) for where in ("", url)}) == 1


@given(parts=PARTS, sizes=SIZES, gap=st.sampled_from(("\n\n", "\n\n\n", "\r\n\r\n")))
def test_parts_of_a_markdown_document_stay_whole(
    parts: list[str], sizes: tuple[int, int], gap: str
) -> None:
    """C9 Whole parts. A fence or table that fits is in one chunk, so is a paragraph or list item
    of no more than the target; a heading is in the chunk of the text after it."""
    text = gap.join(part.replace("\n", "\r\n") if "\r" in gap else part for part in parts)
    target, limit = sizes
    chunks = cut(text, "markdown", sizes, 0)
    assert_none_is_tiny_for_nothing(chunks, text, sizes)
    position = 0
    headings = 0  # the tokens of the headings directly before this part
    for part in parts:
        lines = part.split("\n")
        own = "\r\n".join(lines) if "\r" in gap else part
        start = text.index(own, position)
        end = position = start + len(own)
        tokens = quarter_characters(own)
        if part.startswith("#"):
            headings += tokens + 4
            inside = end < len(text) and any(c.start <= start and end < c.end for c in chunks)
            last = not text[end:].strip() or text[end:].lstrip().startswith("#")
            following = text[end:].lstrip()[:5]
            if not last and not following.startswith(("```", "|")) and headings * 2 < limit:
                assert inside, f"{own!r} is apart from {following!r}"
            continue
        whole = part.startswith(("```", "|"))
        units = lines if part.startswith("- ") else [own]
        for unit in units:
            first = text.index(unit, start)
            size = quarter_characters(unit)
            room = (
                limit if whole else min(target, limit - headings if headings * 2 < limit else limit)
            )
            if size <= room:
                assert any(c.start <= first and first + len(unit) <= c.end for c in chunks), unit
            headings = 0
            start = first + len(unit)


@given(paragraphs=st.lists(PARAGRAPHS, min_size=1, max_size=8), sizes=SIZES)
def test_prose_is_cut_at_sentence_ends(paragraphs: list[str], sizes: tuple[int, int]) -> None:
    """C10 Chunk borders. Where every sentence fits the limit, every chunk of prose ends with a
    sentence, and none but a document that is small itself is a tiny one that its neighbours had
    room for."""
    text = "\n\n".join(paragraphs)
    ends = set(sentence_ends(text))
    limit = sizes[1]
    chunks = cut(text, "text", sizes, 0)
    longest = max(quarter_characters(s) for p in paragraphs for s in p.split(". "))
    if longest + 1 <= limit:
        assert all(part.end in ends for part in chunks)
    assert_none_is_tiny_for_nothing(chunks, text, sizes)


NAMES = st.sampled_from(("Alice", "bob", "Mary Ann", "User", "Dr. Who", "Åsa", "小明", "agent-7"))
DATES = st.sampled_from(
    ("", "2024-05-01 10:00", "2024-05-02 09:30", "8 May 2023", "1:56 pm on 9 May, 2023")
)
FORMS = st.sampled_from(
    ("[{date}] {name}: {said}", "{name} ({date}): {said}", "**{name}** [{date}]: {said}")
)
SAID = st.lists(
    SENTENCES | st.sampled_from(("see https://x.org/a:b", "at 10:30 we go")), min_size=1, max_size=5
)
TURNS = st.lists(st.tuples(NAMES, DATES, FORMS, SAID), min_size=1, max_size=12)


@given(turns=TURNS, sizes=SIZES, gap=st.sampled_from(("\n", "\n\n", "\r\n")))
def test_turns_keep_their_speaker_and_date(
    turns: list[tuple[str, str, str, list[str]]], sizes: tuple[int, int], gap: str
) -> None:
    """C11 Whole turns of a transcript. Every character of a chat belongs to a chunk that names the
    one who said it and the day; no chunk holds two speakers."""
    written = [
        form.format(name=name, date=date, said="\n".join(said))
        if date
        else f"{name}: {' '.join(said)}"
        for name, date, form, said in turns
    ]
    text = gap.join(written)
    chunks = cut(text, "chat", sizes, 0)
    position = 0
    for (name, date, _, _), turn in zip(turns, written, strict=True):
        start = text.index(turn, position)
        position = start + len(turn)
        touched = [c for c in chunks if c.start < position and start < c.end]
        assert touched
        for part in touched:
            assert part.speaker == name
            assert part.date == date


@given(parts=PARTS, gap=st.sampled_from(("\n", "\n\n")))
@example(parts=["Alpha.", "===", "a", "- b", "---", "c", "---"], gap="\n")
def test_headings_and_fences_are_those_of_a_markdown_parser(parts: list[str], gap: str) -> None:
    """C12 Markdown as others read it. Headings, their nesting and fences are where a CommonMark
    parser finds them."""
    from markdown_it import MarkdownIt

    text = gap.join(parts)
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    line_starts = [0]
    for line in text.split("\n"):
        line_starts.append(line_starts[-1] + len(line) + 1)
    expected = []
    stack: list[tuple[int, str]] = []
    for number, token in enumerate(tokens):
        if token.type == "heading_open" and token.level == 0:
            level = int(token.tag[1:])
            while stack and stack[-1][0] >= level:
                stack.pop()
            stack.append((level, tokens[number + 1].content))
            assert token.map is not None
            expected.append((line_starts[token.map[0]], tuple(title for _, title in stack)))
        elif token.type == "fence" and token.level == 0:
            assert token.map is not None
            expected.append((line_starts[token.map[0]], ("fence",)))
    found = [
        (block.start, block.path if block.kind == "heading" else ("fence",))
        for block in markdown_blocks(text)
        if block.kind in ("heading", "fence")
    ]
    assert found == expected
