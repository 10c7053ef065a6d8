"""Memories as lines of a terminal and as JSON values."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from agentmem.cli.output import Screen, one_line, visible, wrap_line
from agentmem.core.layout import Column, fitting, pairs, table
from agentmem.core.reltime import relative_time
from agentmem.stores.values import Receipt
from agentmem.types import Hit, Memory

SHORT_ID = 8
MOST_LINES = 4
VALUE_CHARACTERS = 400


def short_id(memory_id: str) -> str:
    """The end of an id, enough to name it: the beginning is the time, which neighbours share."""
    return memory_id[-SHORT_ID:]


def when(at: Screen, moment: datetime, now: datetime) -> str:
    """How long ago a moment was (P13) for people; its date for what reads a pipe."""
    return relative_time(moment, now) if at.on_terminal else moment.date().isoformat()


def list_lines(at: Screen, memories: Sequence[Memory], *, now: datetime) -> list[str]:
    """One row a memory. Only a terminal gets short ids and cut texts."""
    rows = [
        (
            short_id(memory.id) if at.on_terminal else memory.id,
            memory.kind + (" (superseded)" if memory.superseded_by else ""),
            when(at, memory.created_at, now),
            one_line(memory.text),
        )
        for memory in memories
    ]
    columns = (
        Column(name="Id"),
        Column(name="Kind", least=6, optional=True),
        Column(name="When" if at.on_terminal else "Date", optional=True),
        Column(name="Text", least=10),
    )
    if at.on_terminal:
        return table(at.pen, columns, rows, width=at.width)
    longest = max((len(row[3]) for row in rows), default=0)
    return table(at.pen, columns, rows, width=2 * longest + 200)


def hit_lines(at: Screen, number: int, hit: Hit, *, now: datetime) -> list[str]:
    """A found memory: its score and id, its text, and where it is from."""
    memory, pen = hit.memory, at.pen
    moment = when(at, memory.created_at, now)
    head = f"{number:>2}  {hit.score:.2f}  {one_line(memory.kind)}  {moment}  "
    named = short_id(memory.id) if at.on_terminal else memory.id
    lines = [pen.paint(head, "dim") + pen.paint(named, "accent")]
    lines += indented(at, one_line(memory.text), most_lines=MOST_LINES)
    origin = place_of(memory)
    if origin:
        lines += [pen.paint(line, "dim") for line in indented(at, one_line(origin), most_lines=2)]
    return lines


def place_of(memory: Memory) -> str:
    """Where a memory is from, in words."""
    title = memory.title if memory.title not in (memory.source_url, "") else ""
    return " › ".join(part for part in (title, *memory.heading_path, memory.source_url) if part)


def indented(at: Screen, text: str, *, indent: int = 4, most_lines: int | None = None) -> list[str]:
    """`text` wrapped and indented on a terminal, on one whole line elsewhere."""
    space = " " * indent
    if not at.on_terminal:
        return [space + at.pen.clean(text)]
    lines = at.pen.wrap(text, at.width - indent)
    if most_lines is not None and len(lines) > most_lines:
        dots = " ..." if at.pen.ascii_only else " …"
        last = fitting(lines[most_lines - 1], at.width - indent - len(dots))
        lines = [*lines[: most_lines - 1], last.rstrip() + dots]
    return [space + line for line in lines]


def text_lines(at: Screen, text: str) -> list[str]:
    """A whole text, line by line, wrapped on a terminal."""
    lines = visible(text).expandtabs(4).split("\n")
    if not at.on_terminal:
        return lines
    return [part for line in lines for part in wrap_line(at.pen, line, at.width)]


def detail_lines(at: Screen, memory: Memory, *, now: datetime) -> list[str]:
    """Everything about one memory, then its text."""
    created = memory.created_at.isoformat(timespec="seconds")
    if at.on_terminal:
        created += f" ({when(at, memory.created_at, now)})"
    said: list[tuple[str, str]] = [
        ("Id", memory.id),
        ("Kind", memory.kind),
        ("Created", created),
        ("Origin", memory.origin),
        ("Importance", f"{memory.importance:g}"),
    ]
    said += [
        (name, str(value))
        for name, value in (
            ("User", memory.scope.user_id),
            ("Project", memory.scope.project_id),
            ("Agent", memory.scope.agent_id),
            ("Run", memory.scope.run_id),
            ("Visibility", memory.visibility if memory.visibility != "private" else None),
            ("Title", memory.title),
            ("Source", memory.source_url),
            ("Heading", " › ".join(memory.heading_path)),
            ("Speaker", memory.speaker),
            ("Session", memory.session),
            ("Valid from", memory.valid_from and memory.valid_from.isoformat(timespec="seconds")),
            ("Valid to", memory.valid_to and memory.valid_to.isoformat(timespec="seconds")),
            ("Supersedes", memory.supersedes),
            ("Superseded by", memory.superseded_by),
        )
        if value
    ]
    said += [(f"  {name}", _shortened(str(value))) for name, value in memory.metadata.items()]
    used = memory.usage
    if used.retrieved:
        said.append(("Used", f"found {used.retrieved}, cited {used.cited}, ignored {used.ignored}"))
    cleaned = [(one_line(name) or "?", one_line(text)) for name, text in said]
    width = at.width if at.on_terminal else 10_000
    return [*pairs(at.pen, cleaned, width=width), "", *text_lines(at, memory.text)]


def _shortened(value: str) -> str:
    """A long value by its beginning; `--json` has all of it."""
    if len(value) <= VALUE_CHARACTERS:
        return value
    return f"{value[:VALUE_CHARACTERS]}… ({len(value):,} characters)"


def receipt_lines(at: Screen, receipt: Receipt) -> list[str]:
    """What an erasure removed."""
    counted = [
        (name, f"{count:,}")
        for name, count in (
            ("Memories", len(receipt.ids)),
            ("Made of them", len(receipt.derived)),
            ("Vectors", receipt.vectors),
            ("Versions", receipt.versions),
            ("Contexts", receipt.snapshots),
            ("Tool results", receipt.artifacts),
            ("Waiting jobs", receipt.jobs),
            ("Index files", len(receipt.index_files)),
        )
    ]
    state = (
        "yes: the bytes are in no file of the store"
        if receipt.complete
        else "not yet: another process still reads an older state; run it again, or `doctor`"
    )
    moment = receipt.erased_at.isoformat(timespec="seconds")
    return pairs(at.pen, [("Erased at", moment), *counted, ("Complete", state)], width=at.width)


def receipt_to_dict(receipt: Receipt) -> dict[str, Any]:
    return {
        "ids": list(receipt.ids),
        "derived": list(receipt.derived),
        "vectors": receipt.vectors,
        "versions": receipt.versions,
        "snapshots": receipt.snapshots,
        "artifacts": receipt.artifacts,
        "jobs": receipt.jobs,
        "index_files": list(receipt.index_files),
        "complete": receipt.complete,
        "erased_at": receipt.erased_at.isoformat(),
    }
