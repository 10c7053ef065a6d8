"""A page's own words, as Markdown: no menus, no scripts, nothing that a reader does not see.

The page is parsed once. What is hidden goes first; then trafilatura finds the
main text, and where it finds none or loses most of it, the page is written
down plainly, without its navigation.
"""

from __future__ import annotations

import logging
import re
import warnings
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from agentmem.base.errors import InvalidText, MissingExtra
from agentmem.data import read_words
from agentmem.text.decode import decode, sound

# ----------------------------------------------------------------------------
# What a page is and what it hides, from its source alone.


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
_BRACES = re.compile(r"([{}])")
_STATEMENT = re.compile(r"@[^;{}]*;")  # @import "print.css";
_SELECTOR = re.compile(r"(?:[a-z][a-z0-9]*)?([.#])([\w-]+)", re.IGNORECASE)
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
    hidden: dict[str, set[str]] = {".": set(), "#": set()}
    css = css[:MOST_CSS]
    opened: list[str] = []
    said = ""
    for piece in _BRACES.split(_CSS_COMMENT.sub("", css)) if _HIDING.search(css) else ():
        if piece == "{":
            opened.append(_STATEMENT.sub("", said))
        elif piece == "}" and opened:
            selectors = opened.pop()
            if not opened and hides(said):
                for selector in selectors.split(","):
                    if plain := _SELECTOR.fullmatch(selector.strip()):
                        hidden[plain[1]].add(plain[2])
        said = piece
    return frozenset(hidden["."]), frozenset(hidden["#"])


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


# ----------------------------------------------------------------------------
# A parsed page written down as Markdown: headings, lists, tables, code; links as their text.


HtmlElement = Any
"""An element of lxml, which has no types."""

_ASIDE, _BLOCKS, _UNSEEN = read_words("page_tags.txt").values()
_HEADINGS = {f"h{level}": "#" * level + " " for level in range(1, 7)}
_CELLS = ("td", "th")


def write_markdown(tree: HtmlElement, *, everything: bool = False) -> str:
    """The words of the tree in order; without navigation and forms unless `everything`."""
    return _Writer(everything=everything).write(tree)


class _Writer:
    """Walks the tree with a stack of its own: pages nest deeper than Python's."""

    def __init__(self, *, everything: bool) -> None:
        self._everything = everything
        self._out: list[str] = []
        self._line: list[str] = []
        self._lists: list[int | None] = []
        self._prefix = ""
        self._quotes = 0

    def write(self, tree: HtmlElement) -> str:
        stack: list[tuple[HtmlElement, bool]] = [(tree, True)]
        while stack:
            element, opening = stack.pop()
            if not opening:
                self._close(element)
                self._say(element.tail)
                continue
            if self._skip(element) and element is not tree:
                self._say(element.tail)
                continue
            if element.tag in ("table", "pre"):
                self._end_line()
                whole = _table(element) if element.tag == "table" else _code(element)
                self._out += ["", whole, ""] if whole else []
                self._say(element.tail)
                continue
            self._open(element)
            self._say(element.text)
            stack.append((element, False))
            stack.extend((child, True) for child in reversed(element))
        self._end_line()
        return "\n".join(self._out)

    def _skip(self, element: HtmlElement) -> bool:
        tag = element.tag
        if not isinstance(tag, str):
            return True
        if self._everything or tag not in _ASIDE:
            return (element.get("role") or "") == "navigation" and not self._everything
        inside = {parent.tag for parent in element.iterancestors()}
        return tag != "header" or inside.isdisjoint({"article", "main"})

    def _open(self, element: HtmlElement) -> None:
        tag = element.tag
        if tag in _BLOCKS:
            self._end_line()
        if tag in _HEADINGS:
            self._out.append("")
            self._prefix = _HEADINGS[tag]
        elif tag in ("ul", "ol", "menu"):
            self._lists.append(0 if tag == "ol" else None)
        elif tag == "li":
            self._prefix = self._bullet()
        elif tag == "blockquote":
            self._quotes += 1
        elif tag == "dd":
            self._prefix = ": "
        elif tag == "br":
            self._end_line()
        elif tag in ("p", "dt"):
            self._out.append("")

    def _close(self, element: HtmlElement) -> None:
        tag = element.tag
        if tag in _BLOCKS:
            self._end_line()
            self._prefix = ""
        if tag in _HEADINGS or tag in ("p", "blockquote", "dl", "article", "section"):
            self._out.append("")
        if tag in ("ul", "ol", "menu"):
            self._lists.pop()
            if not self._lists:
                self._out.append("")
        elif tag == "blockquote":
            self._quotes -= 1

    def _bullet(self) -> str:
        if not self._lists:
            return "- "
        indent = "  " * (min(len(self._lists), 10) - 1)
        count = self._lists[-1]
        if count is None:
            return f"{indent}- "
        self._lists[-1] = count + 1
        return f"{indent}{count + 1}. "

    def _say(self, text: str | None) -> None:
        if text:
            self._line.append(words_in(text))

    def _end_line(self) -> None:
        line = words_in("".join(self._line)).strip()
        self._line.clear()
        if line:
            self._out.append("> " * min(self._quotes, 5) + self._prefix + line)
            self._prefix = " " * len(self._prefix) if self._prefix.strip() not in _MARKS else ""


_MARKS = frozenset(mark.strip() for mark in _HEADINGS.values())


def _words(element: HtmlElement) -> str:
    return words_in(" ".join(element.itertext())).strip()


def _table(table: HtmlElement) -> str:
    """A table as Markdown; one that only lays the page out becomes its paragraphs."""
    rows: list[list[str]] = []
    for row in table.iter("tr"):
        cells = [_words(cell).replace("|", "\\|") for cell in row if cell.tag in _CELLS]
        if any(cells):
            rows.append(cells)
    width = max(map(len, rows), default=0)
    if width < 2 or any(True for inner in table.iter("table") if inner is not table):
        return "\n\n".join(filter(None, (" ".join(filter(None, row)) for row in rows)))
    lines = ["| " + " | ".join(row + [""] * (width - len(row))) + " |" for row in rows]
    lines.insert(1, "|" + " --- |" * width)
    caption = table.find("caption")
    heading = [_words(caption), ""] if caption is not None else []
    return "\n".join([*heading, *lines])


def _code(element: HtmlElement) -> str:
    code = "".join(element.itertext()).strip("\n")
    fence = "```"
    while fence in code:
        fence += "`"
    return f"{fence}\n{code}\n{fence}" if code.strip() else ""


_log = logging.getLogger(__name__)

MOST_CHARACTERS = 20_000_000
MOST_ELEMENTS, DEEPEST = 20_000, 200
LEAST_SHARE = 0.3
"""Of the page's plain text that the main text must hold; less means that it was missed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """What a page says. `text` is Markdown and "" when there are no words."""

    text: str
    title: str = ""
    language: str = ""
    published: str = ""

    @property
    def facts(self) -> dict[str, str]:
        """What it says of itself beside its title."""
        facts = {"language": self.language, "published": self.published}
        return {name: fact for name, fact in facts.items() if fact}


def to_markdown(html: str | bytes, *, charset: str = "") -> Page:
    """The page in readable Markdown; for any text or bytes, and without raising for them.

    `charset` is what the server said. More than 20 million characters are cut.
    """
    if isinstance(html, bytes | bytearray):
        html = decode(bytes(html), declared=charset)
    if not isinstance(html, str):
        raise InvalidText("html", html, "is neither text nor bytes", remedy="Pass a str or bytes.")
    tree = _parse(sound(html[:MOST_CHARACTERS]))
    if tree is None:
        return Page(text="")
    facts = _facts(tree)
    _drop_unseen(tree)
    plain = tidy(write_markdown(tree))
    main = tidy(_main_text(tree)) if plain and _is_ordinary(tree) else ""
    # An extractor that takes a short page for nothing gives its bare words.
    bare = _MARKDOWN.search(plain) and not _MARKDOWN.search(main)
    if main and len(main) >= LEAST_SHARE * len(plain) and not bare:
        return Page(text=main, **facts)
    if not plain:
        plain = tidy(write_markdown(tree, everything=True))
    return Page(text=plain, **facts)


_NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
"""What lxml reads and then refuses to write into its own tree: a form feed, `\\x1f`."""


def _parse(html: str) -> HtmlElement | None:
    try:
        from lxml import etree
        from lxml import html as lxml_html
    except ImportError as error:
        raise MissingExtra("lxml", extra="web", purpose="Reading HTML") from error

    parser = lxml_html.HTMLParser(
        encoding="utf-8", remove_comments=True, remove_pis=True, huge_tree=True
    )
    try:
        data = _NOT_XML.sub("", html).encode("utf-8")
        return lxml_html.document_fromstring(data, parser=parser) if data.strip() else None
    except (etree.LxmlError, ValueError, AssertionError):
        return None


def _facts(tree: HtmlElement) -> dict[str, str]:
    """Title, language and date, from where pages say them."""
    named: dict[str, str] = {}
    for meta in tree.iter("meta"):
        name = (meta.get("property") or meta.get("name") or meta.get("itemprop") or "").lower()
        if name and meta.get("content"):
            named.setdefault(name, meta.get("content", ""))
    heading = next(tree.iter("h1"), None)
    titles = (
        named.get("og:title", ""),
        *(
            one.text_content()
            for one in tree.iter("title")
            if "svg" not in {parent.tag for parent in one.iterancestors()}
        ),
        "" if heading is None else heading.text_content(),
    )
    published = (
        named.get("article:published_time") or named.get("datepublished") or named.get("date") or ""
    )
    return {
        "title": next(filter(None, map(one_line, titles)), ""),
        "language": one_line(tree.get("lang") or "", limit_characters=20),
        "published": one_line(published, limit_characters=40),
    }


def _drop_unseen(tree: HtmlElement) -> None:
    """Take out of the tree what a browser would not show."""
    css = "\n".join(style.text or "" for style in tree.iter("style"))
    classes, ids = hidden_selectors(css)
    doomed = []
    for element in tree.iter():
        if not isinstance(element.tag, str):
            doomed.append(element)
            continue
        hidden = (
            element.tag in _UNSEEN
            or element.get("hidden") is not None
            or (element.get("aria-hidden") or "").lower() == "true"
            or hides(element.get("style") or "")
            or (element.tag == "input" and (element.get("type") or "").lower() == "hidden")
            or (bool(ids) and element.get("id") in ids)
            or (bool(classes) and not classes.isdisjoint((element.get("class") or "").split()))
        )
        if hidden and element.tag not in ("html", "body"):
            doomed.append(element)
    for element in doomed:
        if element.getparent() is not None:
            element.drop_tree()


def _is_ordinary(tree: HtmlElement) -> bool:
    """Whether trafilatura may be asked: on very large or deep pages it takes tens of seconds."""
    from lxml import etree

    elements = depth = 0
    for event, _ in etree.iterwalk(tree, events=("start", "end")):
        elements += event == "start"
        depth += 1 if event == "start" else -1
        if elements > MOST_ELEMENTS or depth > DEEPEST:
            return False
    return True


def _main_text(tree: HtmlElement) -> str:
    """What trafilatura takes for the page's own text, or ""."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import trafilatura

            found = trafilatura.extract(
                deepcopy(tree),
                output_format="markdown",
                include_comments=False,
                include_tables=True,
                include_links=False,
                include_formatting=True,
                favor_recall=True,
            )
    except Exception as error:  # noqa: BLE001 - it may be missing, and a page is anybody's markup
        _log.info("trafilatura could not be used, a page is written down plainly: %r", error)
        return ""
    return found if isinstance(found, str) else ""
