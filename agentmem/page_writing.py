"""A parsed page written down as Markdown: headings, lists, tables, code; links as their text."""

from __future__ import annotations

from typing import Any

from agentmem.core.page_text import words_in

HtmlElement = Any
"""An element of lxml, which has no types."""

_ASIDE = frozenset(
    "nav footer aside header form button select menu input textarea label option dialog".split()  # noqa: SIM905  # reads better
)
_HEADINGS = {f"h{level}": "#" * level + " " for level in range(1, 7)}
_BLOCKS = frozenset(
    """
    address article blockquote body center dd details div dl dt fieldset figcaption figure footer
    form h1 h2 h3 h4 h5 h6 header hr html legend li main menu nav ol option p pre section summary
    table tbody tfoot thead tr ul aside caption optgroup textarea
    """.split()  # noqa: SIM905  # a list of words reads better than a column of strings
)
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
