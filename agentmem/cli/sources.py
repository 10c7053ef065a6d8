"""The numbered sources under an answer, as links where a terminal has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agentmem.cli.output import Screen, one_line
from agentmem.cli.showing import short_id
from agentmem.core.citations import Citation, safe_url
from agentmem.core.layout import width_of


def source_lines(at: Screen, citations: Sequence[Citation]) -> list[str]:
    """One source or two lines each: number, title, where it is from; then its address."""
    lines: list[str] = []
    for citation in sorted(citations, key=lambda one: one.index):
        facts = [citation.label]
        if citation.date is not None:
            facts.append(citation.date.isoformat()[:10])
        if citation.memory_id:
            facts.append(short_id(citation.memory_id) if at.on_terminal else citation.memory_id)
        number = f"[{citation.index}] "
        said = f"({', '.join(facts)})"
        named: tuple[str, ...] = (citation.title, citation.quote, citation.url, "untitled")
        if citation.source == "memory" and not citation.url:  # its own words say more than "fact"
            named = (citation.quote, *named)
        title = next(filter(None, map(one_line, named)))
        apart = at.on_terminal and width_of(f"{number}{title} {said}") > at.width
        if apart:
            title = at.pen.cut(title, at.width - len(number))
        start = number + link(at, title, citation.url)
        if apart:
            lines += [start, "    " + at.pen.paint(at.pen.cut(said, at.width - 4), "dim")]
        else:
            lines.append(f"{start} {at.pen.paint(said, 'dim')}")
        url = one_line(citation.url)
        if url and url != title:
            shown = at.pen.cut(url, at.width - 4) if at.on_terminal else url
            lines.append("    " + at.pen.paint(shown, "dim"))
    return lines


def link(at: Screen, text: str, url: str) -> str:
    """`text` that opens `url` when it is clicked, on terminals with colours; else just `text`."""
    target = safe_url(url)
    if not at.pen.colour or not target.startswith(("http://", "https://")):
        return text
    return f"\x1b]8;;{target}\x1b\\{text}\x1b]8;;\x1b\\"


def citation_to_dict(citation: Citation) -> dict[str, Any]:
    """A citation as JSON values."""
    ids = (citation.memory_id, *citation.more_memory_ids)
    return {
        "index": citation.index,
        "source": citation.source,
        "title": citation.title,
        "url": citation.url,
        "quote": citation.quote,
        "date": citation.date.isoformat()[:10] if citation.date else None,
        "memory_ids": [one for one in ids if one],
    }
