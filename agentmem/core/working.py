"""Stand-ins for large tool results, their levels, and reading them page by page.

A stand-in costs fewer tokens than its limit, for any counter under which the
id alone fits (P33). Pages end where the limit is reached; put together they
are the text, character for character (W1).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Literal

from agentmem.core.cleaning import clean_line
from agentmem.core.payloads import sendable
from agentmem.core.shape_values import Shape
from agentmem.core.values import dataclass
from agentmem.protocols import TokenCounter

Detail = Literal["one", "five", "full"]
READ_TOOL = "memory_read"
NAME_CHARACTERS = 40
LINE_CHARACTERS = 200
_LINE_LENGTHS = (160, 130, 105, 85, 70, 55, 45, 35, 25, 15)
_CHARACTERS_A_TOKEN = 12
_ATTEMPTS = 6


def is_small(text: str, *, limit_tokens: int, count: TokenCounter) -> bool:
    """Whether `text` may go to the model as it is; a long one is not even counted."""
    return len(text) <= 40 * limit_tokens and count(sendable(text)) <= limit_tokens


def stand_in(
    shape: Shape, *, result_id: str, tool: str, limit_tokens: int, count: TokenCounter
) -> str:
    """What goes to the model in place of a large result, below `limit_tokens`.

    The lines are shortened, then left out, until it fits; the id is always there.
    """
    text = result_id
    for text in _stand_ins(shape, result_id, tool):
        if count(text) < limit_tokens:
            break
    return text


def _stand_ins(shape: Shape, result_id: str, tool: str) -> Iterator[str]:
    name = clean_line(tool, limit_characters=NAME_CHARACTERS)
    read = f'{READ_TOOL}(id="{result_id}"'
    more = f"Kept whole. Read more: {read}, {' or '.join(shape.reads)})"
    facts = clean_line(", ".join(shape.counts), limit_characters=140)
    what = clean_line(f"{shape.what}: {facts}" if facts else shape.what, limit_characters=200)
    head = f"{name}: {what}" if name else what
    for length in _LINE_LENGTHS:
        yield "\n".join([head, *_telling_lines(shape, length), more])
    yield f"{head}\n{more}"
    yield f"{head}\n{read})"
    yield f"{what}\n{read})"
    yield f"{clean_line(shape.what, limit_characters=30)}\n{read})"
    yield f"{read})"
    yield f"{READ_TOOL} {result_id}"
    yield result_id


def _telling_lines(shape: Shape, length: int) -> list[str]:
    lines = []
    opening = "error" if shape.kind == "error" else "first"
    for name, line in ((opening, shape.first), ("last", shape.last)):
        if shown := clean_line(line, limit_characters=length):
            lines.append(f"{name}: {shown}")
    return lines


def one_line(shape: Shape, *, tool: str = "", length: int = 200) -> str:
    """A result in one line: what it is, how much, and what it begins with."""
    facts = ", ".join(shape.counts)
    parts = [tool, f"{shape.what} ({facts})" if facts else shape.what, shape.first]
    return clean_line(": ".join(part for part in parts if part), limit_characters=length)


def five_lines(shape: Shape, *, tool: str = "") -> str:
    """A result in at most five lines: the one line, then what tells most of it."""
    lines = [one_line(shape, tool=tool, length=LINE_CHARACTERS)]
    further = [("", note) for note in shape.notes[:3]]
    for name, line in (*further, ("last: ", shape.last)):
        if shown := clean_line(line, limit_characters=LINE_CHARACTERS):
            lines.append(name + shown)
    return "\n".join(lines[:5])


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """Where a page ends, and what is sent for it; `end == start` when not even one fitted."""

    end: int
    content: str


def cut_page(
    *,
    start: int,
    length: int,
    show: Callable[[int, int], str],
    frame: Callable[[int], str],
    limit_tokens: int,
    count: TokenCounter,
) -> Cut:
    """The longest page from `start` found whose content is at most `limit_tokens`.

    `show(start, end)` gives the body, `frame(end)` the line above it. Counters
    are not additive and may be odd, so every candidate is counted as it would
    be sent. Where a page must be cut, it is cut after a line end if one is near.
    """
    left = length - start
    if left <= 0:
        content = frame(start)
        return Cut(end=start, content=content if count(content) <= limit_tokens else "")

    def content_of(size: int) -> str:
        return f"{frame(start + size)}\n{show(start, start + size)}"

    size = min(left, limit_tokens * _CHARACTERS_A_TOKEN)
    best = 0
    low, high = 0, size + 1
    for _ in range(_ATTEMPTS):
        tokens = count(content_of(size))
        if tokens <= limit_tokens:
            best = low = size
            if size + 1 >= high or tokens >= 0.9 * limit_tokens:
                break
        else:
            high = size
        guess = size * limit_tokens // max(tokens, 1)
        size = min(max(guess, low + 1), high - 1)
        if not low < size < high:
            break
    size = best
    while not size and high > 1:  # the guesses were all too large
        high //= 2
        if count(content_of(high)) <= limit_tokens:
            size = high
    if size and start + size < length:
        body = show(start, start + size)
        line_end = body.rfind("\n") + 1
        near = line_end > 0.6 * len(body) and len(body) == size
        if near and count(content_of(line_end)) <= limit_tokens:
            size = line_end
    if size:
        return Cut(end=start + size, content=content_of(size))
    return _bare(start, left, show, limit_tokens, count)


def _bare(
    start: int, left: int, show: Callable[[int, int], str], limit: int, count: TokenCounter
) -> Cut:
    """A page without the line above it, for limits so small that it does not fit."""
    size = min(left, limit)
    while size and count(show(start, start + size)) > limit:
        size //= 2
    return Cut(end=start + size, content=show(start, start + size) if size else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """What eviction needs to know of a stored result."""

    id: str
    bytes: int
    last_read_at: datetime
    pinned: bool = False


def plan_eviction(
    results: Sequence[Stored],
    *,
    at: datetime,
    max_age: timedelta | None = None,
    max_bytes: int | None = None,
) -> tuple[Stored, ...]:
    """The results to let go: those not read for `max_age`, then the least recently read.

    Pinned ones are never among them, though their bytes count (W3). What is
    left is at most `max_bytes`, unless the pinned ones alone are more.
    """
    order = sorted((r for r in results if not r.pinned), key=lambda r: (r.last_read_at, r.id))
    held = sum(result.bytes for result in results)
    gone = []
    for result in order:
        too_old = max_age is not None and at - result.last_read_at > max_age
        if too_old or (max_bytes is not None and held > max_bytes):
            gone.append(result)
            held -= result.bytes
    return tuple(gone)
