"""Pages of a stored result: each says what it covers and how to ask for the next."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any

from agentmem.core.payloads import ENCODING, Payload, sendable
from agentmem.core.shape_values import number
from agentmem.core.spans import Span, line_number, read_lines, read_range
from agentmem.core.values import dataclass
from agentmem.core.working import READ_TOOL, cut_page
from agentmem.errors import InvalidInput
from agentmem.protocols import TokenCounter
from agentmem.result_grep import grep
from agentmem.result_json import find_json

_WAYS = ("range", "lines", "grep", "json_path")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What to read of which result; `offset` is where in what was asked for the page begins."""

    id: str
    range: Span | None = None
    lines: Span | None = None
    grep: str | None = None
    json_path: str | None = None
    offset: int = 0

    def arguments(self, offset: int) -> dict[str, Any]:
        """The same question from another offset, as a model would write it."""
        ways = {name: getattr(self, name) for name in _WAYS if getattr(self, name) is not None}
        shown = {k: f"{v[0]}-{v[1]}" if isinstance(v, tuple | list) else v for k, v in ways.items()}
        return {"id": self.id, **shown, **({"offset": offset} if offset else {})}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadPage:
    """One page. `content` goes to the model; `text` and `data` are exactly what it covers.

    `start` to `end` of `total` counts in `unit`s of what was asked for. `next`
    holds the arguments of the next read, or is None after the last page.
    """

    id: str
    content: str
    tokens: int
    ok: bool = True
    text: str = ""
    data: bytes = b""
    start: int = 0
    end: int = 0
    total: int = 0
    unit: str = "character"
    next: Mapping[str, Any] | None = None
    error: str = ""
    whole: bool = field(default=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Selected:
    """What was asked for: its length, its parts, and words about them."""

    length: int
    text_of: Callable[[int, int], str]
    data_of: Callable[[int, int], bytes]
    words: Callable[[int, int], str]
    unit: str = "character"


def turn_page(
    asked: Asked, payload: Payload, *, limit_tokens: int, count: TokenCounter
) -> ReadPage:
    """The page at `asked.offset`, in at most `limit_tokens`."""
    ways = [name for name in _WAYS if getattr(asked, name) is not None]
    if len(ways) > 1:
        raise InvalidInput(
            "arguments", " and ".join(ways), "cannot be used together",
            remedy=f"Give one of {', '.join(_WAYS)}.",
        )  # fmt: skip
    if isinstance(asked.offset, bool) or not isinstance(asked.offset, int) or asked.offset < 0:
        raise InvalidInput("offset", asked.offset, "is no offset", remedy="Use 0 or more.")
    chosen = _select(asked, payload)
    start = min(asked.offset, chosen.length)

    def frame(end: int) -> str:
        following = _next_words(asked, end) if end < chosen.length else "end"
        return sendable(f"[{asked.id}: {chosen.words(start, end)}; {following}]")

    def show(first: int, last: int) -> str:
        return sendable(chosen.text_of(first, last))

    cut = cut_page(
        start=start, length=chosen.length, show=show, frame=frame, limit_tokens=limit_tokens,
        count=count,
    )  # fmt: skip
    if cut.end == start < chosen.length:
        return refuse(
            asked, "The token limit is too small to read.", limit_tokens=limit_tokens, count=count
        )
    return ReadPage(
        id=asked.id,
        content=cut.content,
        tokens=count(cut.content),
        text=chosen.text_of(start, cut.end),
        data=chosen.data_of(start, cut.end),
        start=start,
        end=cut.end,
        total=chosen.length,
        unit=chosen.unit,
        next=asked.arguments(cut.end) if cut.end < chosen.length else None,
        whole=start == 0 and cut.end == chosen.length,
    )


def refuse(asked: Asked, problem: str, *, limit_tokens: int, count: TokenCounter) -> ReadPage:
    """A page that says what was wrong with the question, cut to the limit."""
    content = sendable(problem)
    while content and count(content) > limit_tokens:
        content = content[: len(content) * 3 // 4]
    return ReadPage(id=asked.id, content=content, tokens=count(content), ok=False, error=problem)


def _select(asked: Asked, payload: Payload) -> _Selected:
    for name in ("grep", "json_path"):
        value = getattr(asked, name)
        if value is not None and not isinstance(value, str):
            raise InvalidInput(name, value, "is not a text", remedy="Pass a string.")
    if payload.text is None and asked.grep is None and asked.lines is None:
        return _bytes(asked, payload.data)
    text = payload.text
    if text is None:
        text = payload.data.decode("utf-8", "backslashreplace")
    if asked.grep is not None:
        view = grep(text, asked.grep)
        return _made(view.text, view.note)
    if asked.json_path is not None:
        view = find_json(text, asked.json_path)
        return _made(view.text, view.note)
    if asked.lines is not None:
        return _part(text, *read_lines(asked.lines, text))
    if asked.range is not None:
        return _part(text, *read_range(asked.range, len(text)))
    return _part(text, 0, len(text))


def _part(text: str, begin: int, end: int) -> _Selected:
    """Consecutive characters of a text."""
    lines = text.count("\n") + (0 if text.endswith("\n") else 1)

    def words(first: int, last: int) -> str:
        if first == last:
            size = f"{number(len(text), 'character')}, {number(lines, 'line')}"
            return f"nothing there, the text has {size}"
        top = line_number(text, begin + first)
        bottom = line_number(text, max(begin + last - 1, 0))
        return (
            f"characters {begin + first}-{begin + last} of {len(text)}, "
            f"lines {top}-{bottom} of {lines}"
        )

    return _Selected(
        length=end - begin,
        text_of=lambda first, last: text[begin + first : begin + last],
        data_of=lambda first, last: text[begin + first : begin + last].encode(*ENCODING),
        words=words,
    )


def _bytes(asked: Asked, data: bytes) -> _Selected:
    """Consecutive bytes of binary data, shown in hexadecimal, or as text where they mostly are."""
    if asked.json_path is not None:
        raise InvalidInput(
            "json_path", asked.json_path, "cannot look into binary data", remedy="Use range."
        )
    begin, end = (0, len(data)) if asked.range is None else read_range(asked.range, len(data))
    sample = data[:4_000]
    printable = sum(1 for byte in sample if 32 <= byte < 127 or byte in (9, 10, 13))
    readable = printable >= 0.85 * len(sample)

    def shown(first: int, last: int) -> str:
        part = data[begin + first : begin + last]
        return part.decode("utf-8", "backslashreplace") if readable else part.hex(" ")

    return _Selected(
        length=end - begin,
        text_of=shown,
        data_of=lambda first, last: data[begin + first : begin + last],
        words=lambda first, last: (
            f"bytes {begin + first}-{begin + last} of {len(data)}" + ("" if readable else " in hex")
        ),
        unit="byte",
    )


def _made(text: str, note: str) -> _Selected:
    """A text made for the question, such as the lines that match."""
    return _Selected(
        length=len(text),
        text_of=lambda first, last: text[first:last],
        data_of=lambda first, last: text[first:last].encode(*ENCODING),
        words=lambda first, last: (
            note
            if (first, last) == (0, len(text))
            else f"{note}, part {first}-{last} of {len(text)}"
        ),
    )


def _next_words(asked: Asked, end: int) -> str:
    written = ", ".join(
        f"{key}={json.dumps(value, ensure_ascii=False)}"
        for key, value in asked.arguments(end).items()
    )
    return f"next: {READ_TOOL}({written})"
