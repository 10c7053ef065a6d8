"""Every disguise once, so that none depends on being drawn."""

from __future__ import annotations

import unicodedata
from datetime import date

import pytest
from markdown_it import MarkdownIt

from agentmem.prompt.block import BlockSource, ContextBlock, Pointer, parse_context, render_context
from agentmem.text.clean import clean_text, escape_text
from tests.properties.attacks import (
    CHAT_TOKENS,
    MUTATORS,
    PAYLOADS,
    SECRET,
    lenient,
    seen_tags,
    shape,
    smuggled,
)


@pytest.mark.parametrize("name", sorted(MUTATORS))
def test_no_disguise_gets_out(name: str) -> None:
    hostile = MUTATORS[name](PAYLOADS[len(name) % len(PAYLOADS)], "0123456789abcdef")
    source = BlockSource(
        text=hostile, title=hostile, url=hostile, speaker=hostile, retrieved=date(2026, 1, 1)
    )
    block = ContextBlock(
        user_profile=(hostile,),
        related_knowledge=(source,),
        working_memory=(Pointer(id=hostile, tool=hostile, summary=hostile),),
        summary=hostile,
    )
    text = render_context(block, secret=SECRET)
    elements = [tag for tag, _ in shape(text)]
    calm = ContextBlock(
        user_profile=("x",) if clean_text(hostile) else (),
        related_knowledge=(
            BlockSource(text="", title="", url="", speaker="x", retrieved=date(2026, 1, 1)),
        ),
        working_memory=(Pointer(id=""),),
        summary="x" if clean_text(hostile) else "",
    )
    assert elements == [tag for tag, _ in shape(render_context(calm, secret=SECRET))]
    for form in ("NFC", "NFD", "NFKC", "NFKD"):
        assert shape(unicodedata.normalize(form, text)) == shape(text)
    assert sorted(seen_tags(text)) == sorted(elements * 2)
    assert not smuggled(text)
    parse_context(text, secret=SECRET)

    shown = clean_text(hostile)
    for token in CHAT_TOKENS:
        assert token not in f"\n\n{shown}"
        assert unicodedata.normalize("NFKC", token) not in f"\n\n{lenient(shown)}"
    for part in MarkdownIt("commonmark").parse(escape_text(shown)):
        assert not [c for c in part.children or () if c.type in ("image", "link_open")]
