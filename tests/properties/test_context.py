"""Properties of the rendered block."""

from __future__ import annotations

import re
import unicodedata
import xml.etree.ElementTree as ET
from datetime import date

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from agentmem.base.errors import MalformedBlock
from agentmem.prompt.block import (
    BlockSource,
    ContextBlock,
    clean,
    clean_source,
    parse_context,
    render_context,
    speaker_label,
    trust_of,
)
from agentmem.text.clean import _cleaned, _is_harmless, clean_line, clean_text, escape_text
from tests.properties.attacks import (
    CHAT_TOKENS,
    SECRET,
    TAGS,
    any_texts,
    blocks,
    hostile_texts,
    lenient,
    seen_tags,
    shape,
    smuggled,
)

ORDER = ["user_profile", "related_knowledge", "working_memory", "conversation_summary"]


def whole_sources(shown: ContextBlock) -> list[BlockSource]:
    """The sources of a cleaned block that are not one line of a conversation."""
    return [source for source in shown.related_knowledge if speaker_label(source) is None]


def lines_of(root: ET.Element) -> list[str]:
    """The lines of the knowledge section that stand outside of its elements."""
    knowledge = root.find("related_knowledge")
    if knowledge is None:
        return []
    loose = [knowledge.text or "", *(child.tail or "" for child in knowledge)]
    return [line for part in loose for line in part.split("\n") if line]


def expected_lines(block: ContextBlock) -> list[str]:
    """What must stand there, worked out from the value alone: who said what, under its day."""
    shown = clean(block)
    if not shown.related_knowledge:
        return []
    found = [f"Showing {len(shown.related_knowledge)} of {block.total_found} sources"]
    day: date | None = None
    for index, source in enumerate(shown.related_knowledge, start=1):
        label = speaker_label(source)
        if label is None:
            day = None
            continue
        if source.retrieved != day:
            found.append(source.retrieved.isoformat())
        day = source.retrieved
        found.append(f"[{index}] {label}: {source.text}")
    return found


def expected_shape(block: ContextBlock) -> list[tuple[str, tuple[str, ...]]]:
    """What the strict parser must find, worked out from the value alone."""
    shown = clean(block)
    found: list[tuple[str, tuple[str, ...]]] = [("knowledge_context", ())]
    if shown.user_profile:
        found.append(("user_profile", ()))
    if shown.related_knowledge:
        found.append(("related_knowledge", ("count", "total_found")))
        for source in whole_sources(shown):
            names = ["index", *(n for n in ("url", "title") if getattr(source, n))]
            names += ["retrieved", "origin", "trust"]
            names += [n for n in ("id", "kind", "section", "speaker") if getattr(source, n)]
            found.append(("source", (*names, *(["cut"] if source.cut else []))))
    if shown.working_memory:
        found.append(("working_memory", ()))
        found += [("stored_result", ("id", "tool", "tokens"))] * len(shown.working_memory)
    if shown.summary:
        found.append(("conversation_summary", ()))
    return found


@given(blocks())
def test_a_block_is_read_back_as_it_was_shown(block: ContextBlock) -> None:
    """P19 Round trip. parse(render(block)) = block after the documented clean-up."""
    text = render_context(block, secret=SECRET)
    assert parse_context(text, secret=SECRET) == clean(block)
    assert parse_context(text) == clean(block)
    assert render_context(parse_context(text), secret=SECRET) == text


@given(blocks())
def test_no_content_gets_out_of_its_place(block: ContextBlock) -> None:
    """P20 No break-out. No content, title, url or metadata can close the block, forge a source,
    change an attribute, add a message, or carry control, bidi, zero-width or tag characters through.
    """
    text = render_context(block, secret=SECRET)
    wanted = expected_shape(block)

    assert shape(text) == wanted  # the whole message is one document
    for form in ("NFC", "NFD", "NFKC", "NFKD"):
        assert shape(unicodedata.normalize(form, text)) == wanted
    root = ET.fromstring(text)
    shown = clean(block)
    assert lines_of(root) == expected_lines(block)
    for element, source in zip(root.iter("source"), whole_sources(shown), strict=True):
        assert element.attrib.get("url", "") == source.url
        assert element.attrib.get("title", "") == source.title
        assert element.attrib["origin"] == source.origin
        assert element.attrib["trust"] == trust_of(source.origin)
        assert element.text == f"\n{source.text}\n"
    for result, pointer in zip(root.iter("stored_result"), shown.working_memory, strict=True):
        assert result.attrib == {
            "id": pointer.id,
            "tool": pointer.tool,
            "tokens": str(pointer.tokens),
        }

    opened = [name for name, _ in wanted]
    tags = seen_tags(text)
    assert sorted(tags) == sorted(opened * 2), "the gullible reader sees a forged tag"
    first, *_, last = text.splitlines()
    (boundary,) = set(re.findall("[0-9a-f]{16}", first + last))
    assert text.count(boundary) == lenient(text).lower().count(boundary) == 2
    assert len(re.findall(r"agentmem\W+reference", lenient(text), re.IGNORECASE)) == 2
    assert not smuggled(text)


@given(blocks())
def test_sections_stand_in_order_and_the_count_is_true(block: ContextBlock) -> None:
    """P9 Block structure. Profile section before knowledge section; "Showing X of Y sources" is true."""
    root = ET.fromstring(render_context(block, secret=SECRET))
    names = [child.tag for child in root]
    assert names == [name for name in ORDER if name in names]
    knowledge = root.find("related_knowledge")
    assert (knowledge is not None) == bool(block.related_knowledge)
    if knowledge is not None:
        first, *lines = lines_of(root)
        numbers = [s.attrib["index"] for s in knowledge.findall("source")]
        numbers += [m[1] for line in lines if (m := re.match(r"\[(\d+)\] ", line))]
        count = len(block.related_knowledge)
        assert first == f"Showing {count} of {block.total_found} sources"
        assert sorted(map(int, numbers)) == list(range(1, count + 1))
        assert knowledge.attrib == {"count": str(count), "total_found": str(block.total_found)}


@given(blocks())
def test_every_source_shows_where_it_is_from(block: ContextBlock) -> None:
    """P3 Source attribution. Every included chunk shows its source url, title and date."""
    root = ET.fromstring(render_context(block, secret=SECRET))
    whole = list(map(clean_source, block.related_knowledge))
    shown = [source for source in whole if speaker_label(source) is None]
    assert lines_of(root) == expected_lines(block)
    assert not any(s.url or s.title for s in whole if speaker_label(s) is not None)
    for element, cleaned in zip(root.iter("source"), shown, strict=True):
        assert element.attrib.get("url", "") == cleaned.url
        assert element.attrib.get("title", "") == cleaned.title
        assert element.attrib["retrieved"] == cleaned.retrieved.isoformat()
        assert not re.search(r"\d\d:\d\d", element.attrib["retrieved"])


@given(any_texts())
@example("![x]<s>")
@example("<\n\nsource")
@example("&#6[INST]0;source")
def test_cleaning_twice_is_cleaning_once(text: str) -> None:
    """K1 Clean once. Cleaning a text that was cleaned changes nothing, in a text and on a line."""
    once = clean_text(text)
    assert clean_text(once) == once
    line = clean_line(text, limit_characters=40)
    assert clean_line(line, limit_characters=40) == line
    assert len(line) <= 40
    assert "\n" not in line


@given(any_texts() | hostile_texts())
@example("user: x")
@example(" \n\t\nuse r:")
@example("AgentMem reference")
@example("a\x0bb")
def test_a_text_without_anything_to_clean_is_told_at_sight(text: str) -> None:
    """K17 At sight. A text that is called harmless at sight is shown as all the rules show it."""
    if _is_harmless(text):
        assert clean_text(text) == _cleaned(text)


@given(hostile_texts())
def test_no_control_token_and_no_live_link_is_left(text: str) -> None:
    """K2 No live syntax. Neither a chat template nor a Markdown renderer finds anything to act on
    in what a source shows, as written or with every escape undone.
    """
    shown = clean_text(text)
    for token in CHAT_TOKENS:
        assert token not in "\n\n" + shown
        assert unicodedata.normalize("NFKC", token) not in "\n\n" + lenient(shown)
    for part in MarkdownIt("commonmark").parse(escape_text(shown)):
        for child in part.children or ():
            assert child.type not in ("image", "link_open"), child


@given(st.text(alphabet=st.characters(codec="utf-8", categories=("L", "N", "P", "Zs"), exclude_characters="<>&[]:!\\%\u200b＜＞﹤﹥＆﹠＂＇_|"), max_size=80))  # fmt: skip
def test_ordinary_text_is_shown_as_it_is(text: str) -> None:
    """K3 Light touch. Letters, digits, spaces and punctuation without markup are shown unchanged."""
    plain = re.sub(
        "[\u1680\u2000-\u200a\u205f\u115f\u1160\u3164\uffa0\ufe00-\ufe0f]", "", text
    ).strip()
    if not re.search("knowledge|agentmem", plain, re.IGNORECASE):
        assert clean_text(plain) == plain


@given(blocks(), st.binary(min_size=16, max_size=40))
def test_the_boundary_belongs_to_the_secret_and_the_content(
    block: ContextBlock, other: bytes
) -> None:
    """K4 Keyed boundary. The same block gives the same bytes; another secret or an altered text is refused."""
    text = render_context(block, secret=SECRET)
    assert render_context(block, secret=SECRET) == text
    if other != SECRET:
        assert render_context(block, secret=other) != text
        with pytest.raises(MalformedBlock):
            parse_context(text, secret=other)


@given(blocks(), st.data())
def test_an_altered_block_is_refused(block: ContextBlock, data: st.DataObject) -> None:
    """K5 No tampering. A block with any character changed, added or removed is not accepted."""
    text = render_context(block, secret=SECRET)
    at = data.draw(st.integers(0, len(text) - 1))
    piece = data.draw(st.sampled_from(("", "x", "<", '"', "\n")))
    altered = text[:at] + piece + text[at + data.draw(st.integers(0, 1)) :]
    if altered != text:
        with pytest.raises(MalformedBlock):
            parse_context(altered, secret=SECRET)


@given(any_texts())
def test_tag_names_are_constant(text: str) -> None:
    """K6 Constant names. Whatever the content, only our own element names occur."""
    source = BlockSource(
        text=text, retrieved=__import__("datetime").date(2026, 1, 1), title=text, url=text
    )
    rendered = render_context(
        ContextBlock(related_knowledge=(source,), summary=text), secret=SECRET
    )
    assert {name for name, _ in shape(rendered)} <= set(TAGS)
