"""A document's parts, from its lines: headings, paragraphs, list items, fences, tables, code.

One pass over the lines. A full Markdown parser costs seconds a megabyte and
minutes on a long list (docs/decisions/0003-chunking.md); a chunker only needs
to know where a part begins and ends.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

from agentmem.core.patterns import compile_late

BlockKind = Literal["heading", "text", "item", "fence", "table", "code", "turn"]

_ATX = compile_late(r"[ ]{0,3}(#{1,6})(?=[ \t]|$)")
_FENCE = compile_late(r"[ \t]*(`{3,}(?=[^`]*$)|~{3,})")
_ITEM = compile_late(r"([ \t]*)([-*+•‣◦]|\d{1,9}[.)])([ \t]+|$)")
_RULE = compile_late(r"[ ]{0,3}(?:(?:-[ \t]*+){3,}+|(?:\*[ \t]*+){3,}+|(?:_[ \t]*+){3,}+)$")
_UNDERLINE = compile_late(r"[ ]{0,3}(=+|-+)[ \t]*$")
_TABLE_RULE = compile_late(
    r"[ \t]*+\|?[ \t]*+:?-++:?[ \t]*+(?:\|[ \t]*+:?-++:?[ \t]*+)*+\|?[ \t]*+$"
)
_LINK = compile_late(r"!?\[([^\[\]]*)\]\([^()\s]*\)")
_DEFINITION = compile_late(
    r"(?:@|(?:export |default |public |private |protected |static |abstract |async |final |pub"
    r"(?:\([a-z]+\))? |unsafe )*(?:def|class|function|func|fn|struct|enum|trait|impl|interface|type"
    r"|module|namespace|CREATE|create)\b)"
)
_CONTINUES = compile_late(r"[)\]}]|(?:else|elif|except|finally|catch|then|end|fi|done|esac)\b|\*/")
_COMMENT = compile_late(r"(?:#|//|/\*|\*|--|;|@)")
_LONGEST_FRONT_MATTER = 200


class Block(NamedTuple):
    """A part of the document from `start` to `end`, its line breaks left out.

    `apart` asks for a chunk border before it (another speaker); `strong` says
    a border before it is a good one (a definition in code).
    """

    start: int
    end: int
    kind: BlockKind
    path: tuple[str, ...] = ()
    speaker: str = ""
    date: str = ""
    apart: bool = False
    strong: bool = True


class Line(NamedTuple):
    """One line and where it begins, without its line break."""

    start: int
    text: str


def lines_of(text: str) -> list[Line]:
    """The lines of `text`; a lone carriage return breaks lines only where nothing else does."""
    mark = "\n" if "\n" in text else "\r"
    lines = []
    position = 0
    for line in text.split(mark):
        lines.append(Line(position, line[:-1] if line.endswith("\r") else line))
        position += len(line) + 1
    return lines


class _Open:
    """The block being read: its kind, first character, and the end of its last line."""

    def __init__(self, kind: BlockKind, line: Line, indent: int = 0) -> None:
        self.kind: BlockKind = kind
        self.start = line.start
        self.end = line.start + len(line.text)
        self.indent = indent

    def take(self, line: Line) -> None:
        self.end = line.start + len(line.text)


def markdown_blocks(text: str) -> Iterator[Block]:
    """The parts of a Markdown text in order, each with the headings it stands under."""
    lines = lines_of(text)
    stack: list[tuple[int, str]] = []
    path: tuple[str, ...] = ()
    opened: _Open | None = None
    fence = ""
    blank_before = True

    def closed(block: _Open) -> Block:
        return Block(block.start, block.end, block.kind, path)

    number = _front_matter_lines(lines)
    if number:
        yield Block(0, lines[number - 1].start + len(lines[number - 1].text), "fence")
    for number in range(number, len(lines)):  # noqa: B020  # goes on after the front matter
        line = lines[number]
        bare = line.text.strip()
        if fence and bare and opened is not None and _width(line.text) < opened.indent:
            fence = ""  # the item ends, and its fence with it
        if fence and opened is not None:
            opened.take(line)
            if bare.startswith(fence) and not bare.strip(fence[0]):
                fence = ""
                if opened.kind == "fence":
                    yield closed(opened)
                    opened = None
            continue
        if not bare:
            blank_before = True
            if opened is not None and opened.kind in ("text", "table"):
                yield closed(opened)
                opened = None
            continue
        was_blank, blank_before = blank_before, False
        first = bare[0]
        if first.isalpha() and opened is not None and opened.kind == "text":
            opened.take(line)  # by far the most lines
            if "|" not in bare:
                continue
        indent = _width(line.text)
        if opened is not None and opened.kind == "code":
            if indent >= 4:
                opened.take(line)
                continue
            yield closed(opened)
            opened = None
        if opened is not None and opened.kind == "item" and indent >= opened.indent:
            opened.take(line)
            match = _FENCE.match(line.text) if first in "`~" else None
            fence = match.group(1) if match else ""
            continue
        if first == "#" and (heading := _ATX.match(line.text)):
            if opened is not None:
                yield closed(opened)
                opened = None
            path = _enter(stack, len(heading.group(1)), line.text[heading.end() :])
            yield Block(line.start, line.start + len(line.text), "heading", path)
            blank_before = True
            continue
        if first in "`~" and indent < 4 and (match := _FENCE.match(line.text)):
            if opened is not None:
                yield closed(opened)
            opened, fence = _Open("fence", line), match.group(1)
            continue
        if (
            opened is not None
            and opened.kind == "text"
            and _underlines(line.text, text[opened.start])
        ):
            title = " ".join(text[opened.start : opened.end].split())
            path = _enter(stack, 1 if first == "=" else 2, title)
            yield Block(opened.start, line.start + len(line.text), "heading", path)
            opened, blank_before = None, True
            continue
        if first in "-*_" and _RULE.match(line.text):
            if opened is not None:
                yield closed(opened)
            opened = _Open("text", line)
            yield closed(opened)
            opened, blank_before = None, True
            continue
        if (item := _ITEM.match(line.text)) and _begins_item(item, opened):
            if opened is not None:
                yield closed(opened)
            opened = _Open("item", line, _item_indent(item))
            continue
        if "|" in bare and number + 1 < len(lines) and _opens_table(lines[number + 1].text):
            if opened is not None:
                if opened.kind == "text" and opened.end == line.start + len(line.text):
                    opened.end = _end_before(lines, number)
                if opened.end > opened.start:
                    yield closed(opened)
            opened = _Open("table", line)
            continue
        if opened is not None and opened.kind == "table" and "|" not in bare:
            yield closed(opened)
            opened = None
        if opened is not None and opened.kind == "item" and was_blank:
            yield closed(opened)
            opened = None
        if opened is None:
            opened = _Open("code" if indent >= 4 else "text", line)
        else:
            opened.take(line)
    if opened is not None:
        yield closed(opened)


def plain_blocks(text: str) -> Iterator[Block]:
    """Paragraphs and list items of a text without markup."""
    opened: _Open | None = None
    for line in lines_of(text):
        if not line.text.strip():
            if opened is not None and opened.kind == "text":
                yield Block(opened.start, opened.end, opened.kind)
                opened = None
            elif opened is not None:
                opened.indent = max(opened.indent, 1)  # past a blank line only indented text joins
            continue
        item = _ITEM.match(line.text)
        if item and (opened is None or opened.kind == "text" or len(item.group(1)) < opened.indent):
            if opened is not None:
                yield Block(opened.start, opened.end, opened.kind)
            opened = _Open("item", line, _item_indent(item))
        elif opened is not None and (opened.kind == "text" or _width(line.text) >= opened.indent):
            opened.take(line)
        else:
            if opened is not None:
                yield Block(opened.start, opened.end, opened.kind)
            opened = _Open("text", line)
    if opened is not None:
        yield Block(opened.start, opened.end, opened.kind)


def code_blocks(text: str) -> Iterator[Block]:
    """Top-level parts of source code: a definition with the comments and decorators above it."""
    opened: _Open | None = None
    blank_before = True
    strong = lead = False
    for line in lines_of(text):
        if not line.text.strip():
            blank_before = True
            continue
        top = not line.text[0].isspace() and not _CONTINUES.match(line.text)
        definition = top and _DEFINITION.match(line.text) is not None
        if opened is None or (top and (blank_before or definition) and not (lead and definition)):
            if opened is not None:
                yield Block(opened.start, opened.end, "code", strong=strong)
            opened, strong = _Open("code", line), definition
            lead = top and _COMMENT.match(line.text) is not None
        else:
            opened.take(line)
            strong = strong or definition
            lead = lead and _COMMENT.match(line.text) is not None
        blank_before = False
    if opened is not None:
        yield Block(opened.start, opened.end, "code", strong=strong)


def heading_title(raw: str) -> str:
    """A heading's text as a reader sees it: no closing hashes, links, anchors or emphasis."""
    title = raw.strip()
    if title.endswith("}") and (anchor := title.rfind("{#")) >= 0:
        title = title[:anchor].rstrip()
    without = title.rstrip("#")
    if not without or without[-1].isspace():
        title = without
    return " ".join(_LINK.sub(r"\1", title).replace("**", "").replace("`", "").split())


def _enter(stack: list[tuple[int, str]], level: int, raw: str) -> tuple[str, ...]:
    while stack and stack[-1][0] >= level:
        stack.pop()
    stack.append((level, heading_title(raw)))
    return tuple(title for _, title in stack)


def _width(line: str) -> int:
    """How far a line is indented, a tab going to the next multiple of four."""
    width = 0
    for char in line:
        if char == " ":
            width += 1
        elif char == "\t":
            width += 4 - width % 4
        else:
            break
    return width


def _item_indent(item: re.Match[str]) -> int:
    """How far a line must be indented to belong to this item."""
    space = len(item.group(3))
    return _width(item.group(1)) + len(item.group(2)) + (space if 1 <= space <= 4 else 1)


def _begins_item(item: re.Match[str], opened: _Open | None) -> bool:
    """In the middle of a paragraph only a bullet or a first number starts a list."""
    if _width(item.group(1)) >= 4 and (opened is None or opened.kind != "item"):
        return False
    if opened is None or opened.kind != "text":
        return True
    return bool(item.group(3)) and (not item.group(2)[0].isdigit() or int(item.group(2)[:-1]) == 1)


def _underlines(line: str, paragraph_first: str) -> bool:
    """Whether the line makes a heading of the paragraph above it; a quotation is none."""
    return paragraph_first != ">" and _UNDERLINE.match(line) is not None


def _opens_table(line: str) -> bool:
    return "-" in line and "|" in line and _TABLE_RULE.match(line) is not None


def _end_before(lines: list[Line], number: int) -> int:
    return lines[number - 1].start + len(lines[number - 1].text) if number else 0


def _front_matter_lines(lines: list[Line]) -> int:
    if lines[0].text.rstrip() != "---":
        return 0
    for number in range(1, min(len(lines), _LONGEST_FRONT_MATTER)):
        if lines[number].text.rstrip() in ("---", "..."):
            return number + 1
        if not lines[number].text.strip():
            return 0
    return 0
