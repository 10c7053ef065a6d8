"""What a page is and what it hides, from its source alone."""

from __future__ import annotations

import re

_DOCUMENT = re.compile(
    r"(?:\s|<!--.{0,4000}?-->|<\?xml[^>]{0,400}>)*<(?:!doctype\s+html|html|head|body)\b",
    re.IGNORECASE | re.DOTALL,
)
_FRAGMENT = re.compile(
    r"\s*<(div|p|h[1-6]|article|section|main|table|ul|ol|span|title|header|nav|form|center|pre"
    r"|blockquote|dl|figure|aside|footer|details|a|b|strong|em|i)\b[^<>]{0,2000}>",
    re.IGNORECASE,
)
_MARKDOWN = re.compile(
    r"^(?:#{1,6}[ \t]|`{3}|~{3}|[-*+][ \t]+\S|\d{1,3}\.[ \t]+\S|\|.*\|[ \t]*$)", re.MULTILINE
)
_CSS_COMMENT = re.compile(r"/\*.{0,100000}?(?:\*/|\Z)", re.DOTALL)
_RULE = re.compile(r"([^{}]{0,4000})\{([^{}]{0,4000})\}")
_SELECTOR = re.compile(r"([a-z][a-z0-9]*)?([.#])([\w-]+)", re.IGNORECASE)
_HIDING = re.compile(
    r"""
    display\s*:\s*none | visibility\s*:\s*(?:hidden|collapse) | content-visibility\s*:\s*hidden
    | opacity\s*:\s*0*\.?0+%?\s*(?:;|!|$)
    | font-size\s*:\s*0*\.?0+\s*(?:px|em|rem|pt|%)?\s*(?:;|!|$)
    | (?:left|top|text-indent|margin-left|margin-top)\s*:\s*-\d{4,}
    | transform\s*:\s*scale\(\s*0*\.?0+\s*\)
    """,
    re.VERBOSE | re.IGNORECASE,
)
_BLANK_LINES = re.compile(r"\n{3,}")
_SPACES = re.compile(r"[^\S\n]+")
MOST_CSS = 300_000


def looks_like_html(text: str) -> bool:
    """Whether `text` is a page or a piece of one, rather than Markdown that begins with a tag."""
    if _DOCUMENT.match(text):
        return True
    first = _FRAGMENT.match(text)
    if first is None or f"</{first[1].lower()}" not in text.lower():
        return False
    return not _MARKDOWN.search(text)


def hides(style: str) -> bool:
    """Whether an inline style keeps its element from being seen."""
    return bool(style) and bool(_HIDING.search(style))


def hidden_selectors(css: str) -> tuple[frozenset[str], frozenset[str]]:
    """The classes and ids that a style sheet never shows.

    Only plain rules count, such as `.x` or `div#y`: one that depends on the
    medium, a state or another element may show it to somebody.
    """
    classes: set[str] = set()
    ids: set[str] = set()
    if "{" not in css or not _HIDING.search(css[:MOST_CSS]):
        return frozenset(), frozenset()
    for rule in _RULE.finditer(_top_level(_CSS_COMMENT.sub("", css[:MOST_CSS]))):
        if not hides(rule[2]):
            continue
        for selector in rule[1].split(","):
            plain = _SELECTOR.fullmatch(selector.strip())
            if plain:
                (classes if plain[2] == "." else ids).add(plain[3])
    return frozenset(classes), frozenset(ids)


def keeps_structure(text: str, whole: str) -> bool:
    """Whether `text` has headings, lists or tables, if the whole page has any.

    An extractor that takes a short page for nothing gives its bare words.
    """
    return bool(_MARKDOWN.search(text)) or not _MARKDOWN.search(whole)


def tidy(text: str) -> str:
    """Extracted text with at most one blank line in a row and none at either end."""
    lines = (line.rstrip() for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n"))
    return _BLANK_LINES.sub("\n\n", "\n".join(lines)).strip("\n")


def one_line(text: str, *, limit_characters: int = 300) -> str:
    """`text` with single spaces, cut when it is long."""
    line = " ".join(text.split())
    return line if len(line) <= limit_characters else line[: limit_characters - 1].rstrip() + "…"


def words_in(text: str) -> str:
    """A run of text of a page with its white space collapsed."""
    return _SPACES.sub(" ", text.replace("\n", " "))


def _top_level(css: str) -> str:
    """`css` without its @-blocks."""
    kept: list[str] = []
    depth = 0
    at_depth: int | None = None
    for piece in re.split(r"([{};])", css):
        if at_depth is None and piece.lstrip().startswith("@"):
            at_depth = depth
        if at_depth is None:
            kept.append(piece)
        if piece == "{":
            depth += 1
        elif piece == "}":
            depth = max(0, depth - 1)
            if at_depth is not None and depth <= at_depth:
                at_depth = None
        elif piece == ";" and at_depth is not None and depth == at_depth:
            at_depth = None
    return "".join(kept)
