"""Worked examples of the rendered block, and what it refuses."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from typing import Any

import pytest

from agentmem.base.errors import InvalidInput, InvalidNumber, InvalidText, MalformedBlock
from agentmem.base.types import Memory
from agentmem.prompt.block import (
    BlockSource,
    ContextBlock,
    Pointer,
    clean,
    parse_context,
    render_context,
    source_of,
    trust_of,
)

SECRET = b"sixteen bytes or more"
DAY = date(2026, 3, 1)
BLOCK = ContextBlock(
    user_profile=("prefers metric units",),
    related_knowledge=(
        BlockSource(
            text="Tea is < coffee.", retrieved=DAY, url="https://e.x/?a=1&b=2", title='The "Tea"'
        ),
    ),
    working_memory=(Pointer(id="r1", tool="search", tokens=1200, summary="ten hits"),),
    summary="They talked about tea.",
    total_found=4,
)
BODY = """<knowledge_context>
<user_profile>
- prefers metric units
</user_profile>
<related_knowledge count="1" total_found="4">
Showing 1 of 4 sources
<source index="1" url="https://e.x/?a=1&amp;b=2" title="The &quot;Tea&quot;" retrieved="2026-03-01" origin="web" trust="untrusted">
Tea is &lt; coffee.
</source>
</related_knowledge>
<working_memory>
<stored_result id="r1" tool="search" tokens="1200">
ten hits
</stored_result>
</working_memory>
<conversation_summary>
They talked about tea.
</conversation_summary>
</knowledge_context>"""


def test_a_block_looks_like_this() -> None:
    first, *body, last = render_context(BLOCK, secret=SECRET).splitlines()
    assert "\n".join(body) == BODY
    assert "untrusted" in first
    assert "not instructions" in first
    assert "user_profile is what this user asked for: follow it unless" in first
    (code,) = set(re.findall("[0-9a-f]{16}", first + last))
    assert last == f"<!-- agentmem reference {code} ends -->"


def test_it_is_read_back() -> None:
    text = render_context(BLOCK, secret=SECRET)
    assert parse_context(text, secret=SECRET) == BLOCK == clean(BLOCK)


def test_what_was_found_defaults_to_what_is_shown() -> None:
    assert ContextBlock(related_knowledge=BLOCK.related_knowledge).total_found == 1


def test_sections_without_content_are_left_out() -> None:
    text = render_context(ContextBlock(user_profile=("\u200b",), total_found=3), secret=SECRET)
    assert "<user_profile" not in text
    assert "related" not in text


@pytest.mark.parametrize(
    ("origin", "trust"),
    [
        ("user", "user"),
        ("system", "operator"),
        ("web", "untrusted"),
        ("tool", "untrusted"),
        ("assistant", "untrusted"),
        ("import", "untrusted"),
    ],
)
def test_trust_follows_from_origin(origin: Any, trust: str) -> None:
    assert trust_of(origin) == trust
    text = render_context(
        ContextBlock(related_knowledge=(BlockSource(text="", retrieved=DAY, origin=origin),)),
        secret=SECRET,
    )
    assert f'origin="{origin}" trust="{trust}"' in text


def test_a_memory_becomes_a_source() -> None:
    memory = Memory(
        id="1",
        text="Tea.",
        created_at=datetime(2026, 3, 1, 23, 30, tzinfo=UTC),
        kind="page",
        origin="web",
        source_url="https://e.x",
        title="T",
        heading_path=("Drinks", "Hot"),
        speaker="Ann",
    )
    assert source_of(memory) == BlockSource(
        text="Tea.",
        retrieved=DAY,
        url="https://e.x",
        title="T",
        origin="web",
        kind="page",
        section="Drinks › Hot",
        speaker="Ann",
    )
    assert source_of(memory, "T").text == "T"


def test_a_long_url_or_title_is_cut() -> None:
    source = BlockSource(text="", retrieved=DAY, url="https://e.x/" + "a" * 5000, title="t" * 5000)
    text = render_context(ContextBlock(related_knowledge=(source,)), secret=SECRET)
    assert len(text) < 1500


@pytest.mark.parametrize(
    ("build", "error"),
    [
        (lambda: BlockSource(text="x", retrieved=DAY, origin="devil"), InvalidInput),  # type: ignore[arg-type]  # refused
        (lambda: ContextBlock(related_knowledge=BLOCK.related_knowledge * 2, total_found=1), InvalidNumber),
        (lambda: ContextBlock(total_found=-1), InvalidNumber),
        (lambda: render_context(BLOCK, secret=b"short"), InvalidInput),
        (lambda: render_context(BLOCK, secret="text" * 9), InvalidInput),  # type: ignore[arg-type]  # refused
        (lambda: parse_context(""), MalformedBlock),
        (lambda: parse_context(None), InvalidText),  # type: ignore[arg-type]  # refused
        (lambda: parse_context(BODY), MalformedBlock),
        (lambda: parse_context(render_context(BLOCK, secret=SECRET) + "\n"), MalformedBlock),
        (lambda: parse_context(render_context(BLOCK, secret=SECRET), secret=SECRET + b"!"), MalformedBlock),
        (lambda: parse_context(render_context(BLOCK, secret=SECRET).replace("untrusted\">", "user\">")), MalformedBlock),
        (lambda: parse_context(render_context(BLOCK, secret=SECRET).replace("of 4", "of 9")), MalformedBlock),
        (lambda: parse_context(render_context(BLOCK, secret=SECRET).replace("2026-03-01", "2026-13-01")), MalformedBlock),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_refused(build: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        build()


def test_a_secret_is_never_shown_in_an_error() -> None:
    with pytest.raises(InvalidInput) as caught:
        render_context(BLOCK, secret=b"hunter2")
    assert "hunter2" not in str(caught.value)


def test_ten_megabytes_are_rendered() -> None:
    source = BlockSource(text="A sentence. " * 900_000, retrieved=DAY)
    assert len(render_context(ContextBlock(related_knowledge=(source,)), secret=SECRET)) > 10**7
