"""A page's own words, as Markdown: no menus, no scripts, nothing that a reader does not see.

The page is parsed once. What is hidden goes first; then trafilatura finds the
main text, and where it finds none or loses most of it, the page is written
down plainly, without its navigation.
"""

from __future__ import annotations

import logging
import warnings
from typing import Any, Literal

from agentmem.core.charsets import charsets_of, decode, sound
from agentmem.core.page_text import hidden_selectors, hides, keeps_structure, one_line, tidy
from agentmem.core.values import dataclass
from agentmem.errors import InvalidText, MissingExtra
from agentmem.page_writing import HtmlElement, write_markdown

_log = logging.getLogger(__name__)

Extractor = Literal["trafilatura", "plain", "none"]

MOST_CHARACTERS = 20_000_000
LEAST_TO_GUESS = 64
"""Bytes whose charset is worth guessing; fewer tell nothing."""
MOST_ELEMENTS, DEEPEST = 20_000, 200
LEAST_SHARE = 0.3
"""Of the page's plain text that the main text must hold; less means that it was missed."""
_UNSEEN = (
    "script", "style", "noscript", "template", "svg", "iframe", "object", "embed", "canvas",
    "audio", "video", "head", "datalist", "map",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """What a page says. `text` is Markdown and "" when there are no words; `url` as given."""

    text: str
    title: str = ""
    url: str = ""
    language: str = ""
    published: str = ""
    extractor: Extractor = "none"


def to_markdown(html: str | bytes, url: str = "", *, charset: str = "") -> Page:
    """The page in readable Markdown; for any text or bytes, and without raising for them.

    `charset` is what the server said. More than 20 million characters are cut.
    """
    if isinstance(html, bytes | bytearray):
        html = decode_page(bytes(html), charset=charset)
    if not isinstance(html, str):
        raise InvalidText("html", html, "is neither text nor bytes", remedy="Pass a str or bytes.")
    tree = _parse(sound(html[:MOST_CHARACTERS]))
    if tree is None:
        return Page(text="", url=url)
    facts = _facts(tree)
    _drop_unseen(tree)
    plain = tidy(write_markdown(tree))
    main = tidy(_main_text(tree)) if plain and _is_ordinary(tree) else ""
    if main and len(main) >= LEAST_SHARE * len(plain) and keeps_structure(main, plain):
        return Page(text=main, url=url, extractor="trafilatura", **facts)
    if not plain:
        plain = tidy(write_markdown(tree, everything=True))
    return Page(text=plain, url=url, extractor="plain" if plain else "none", **facts)


def decode_page(data: bytes, *, charset: str = "") -> str:
    """The bytes of a page as text: byte order mark, UTF-8, header, `<meta>`, then a guess."""
    return decode(data, declared=charset, last=_guess(data, charset))


def _guess(data: bytes, charset: str) -> str:
    for name in charsets_of(data, declared=charset):
        try:
            data.decode(name)
        except (UnicodeDecodeError, LookupError):
            continue
        return name
    from charset_normalizer import from_bytes

    best = from_bytes(data[:20_000]).best() if len(data) >= LEAST_TO_GUESS else None
    return best.encoding if best is not None else "cp1252"


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
        data = html.replace("\0", "").encode("utf-8")
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
        *(one.text_content() for one in tree.iter("title") if not _in_svg(one)),
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


def _in_svg(element: HtmlElement) -> bool:
    return any(parent.tag == "svg" for parent in element.iterancestors())


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
        found = _extract(tree)
    except ImportError as error:
        _log.info("trafilatura cannot be used, pages are written down plainly: %s", error)
        return ""
    except Exception as error:  # noqa: BLE001 - a page is anybody's markup; it may fail in any way
        _log.info("trafilatura failed on a page: %r", error)
        return ""
    return found if isinstance(found, str) else ""


def _extract(tree: HtmlElement) -> Any:
    from copy import deepcopy

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import trafilatura

        return trafilatura.extract(
            deepcopy(tree),
            output_format="markdown",
            include_comments=False,
            include_tables=True,
            include_links=False,
            include_formatting=True,
            favor_recall=True,
        )
