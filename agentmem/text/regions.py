"""Which parts of a text are code, quotation or markup: words in them are not the author's own.

All functions are linear in the text and return spans `(start, end)` in order,
without overlap. They read the forms people and models write in chats; they do
not parse Markdown or HTML in full.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from itertools import islice

from agentmem.base.lazy import compile_late
from agentmem.data import read_words

Span = tuple[int, int]

_FENCE_LINE = compile_late(r"^[ \t]*(?:>[ \t]*)*(`{3,}|~{3,})([^\n]*)$", re.MULTILINE)
_BACKTICKS = compile_late(r"`+|\n[ \t]*\n")
_INDENTED = compile_late(r"(?:\A|\n[ \t]*\n)((?:(?: {4}|\t)[^\n]*(?:\n|\Z))+)")
_LIST_LINE = compile_late(r"[ \t]*(?:[-*+•]|\d{1,9}[.)])[ \t]|[ \t]+\S")
_QUOTED_LINE = compile_late(r"^[ \t]{0,3}>[^\n]*$", re.MULTILINE)
_TAG = compile_late(r"<(/?)([A-Za-z][\w:.-]{0,60})((?:\s[^<>]*)?)>")


_PAIRS = {"“": "”", "„": "“”", "«": "»", "»": "«", "‹": "›", "「": "」", "『": "』", "《": "》"}
_CLOSING = {mark: compile_late(f"[{closing}]") for mark, closing in _PAIRS.items()}
_APOSTROPHE = compile_late("['’]")
_OPENING = compile_late(r"[“„«»‹「『《\"‘']")
_CLIPPED = compile_late(r"'(?:cause|cuz|em|til|till|bout|tis|twas|round|n|\d)\b", re.IGNORECASE)
_LONGEST_SINGLE_QUOTE = 400
_TRIED_APOSTROPHES = 8  # those inside the quotation are passed over


def code_spans(text: str) -> list[Span]:
    """Fenced blocks, `inline code`, indented blocks and <code> or <pre> elements."""
    fences = _fences(text)
    spans = fences + _inline_code(text, fences) + _indented_code(text)
    if "<" in text:
        spans += _elements(text, lambda name: name in ("code", "pre", "script", "style"))
    return join_spans(spans)


def quoted_line_spans(text: str) -> list[Span]:
    """Lines that begin with `>`, as mail and Markdown quote."""
    return [match.span() for match in _QUOTED_LINE.finditer(text)] if ">" in text else []


def element_spans(text: str) -> list[Span]:
    """Everything between an opening tag and its closing one, formatting tags aside.

    Of the names of blocks a lone half counts as well: to the end of the
    text after an opening tag, from its start before a closing one.
    """
    if "<" not in text:
        return []
    formatting = read_words("tags.txt")["formatting"]
    return _elements(text, lambda name: name not in formatting)


def quotation_spans(text: str) -> list[Span]:
    """Text in quotation marks, marks included; apostrophes and inch signs are none.

    A mark that is opened and not closed quotes up to the end of its line.
    """
    spans: list[Span] = []
    position, line_end = 0, -1
    while match := _OPENING.search(text, position):
        start, mark = match.start(), match[0]
        if line_end < start:
            line_end = text.find("\n", start)
            line_end = len(text) if line_end < 0 else line_end
        end = _closing(text, start, mark, line_end=line_end)
        if end is not None:
            spans.append((start, end))
        position = end or start + 1
    return spans


def join_spans(spans: Iterable[Span]) -> list[Span]:
    """The same ground covered by spans that are in order and do not touch."""
    joined: list[Span] = []
    for start, end in sorted(spans):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        elif start < end:
            joined.append((start, end))
    return joined


def cover(text: str, spans: Iterable[Span], character: str) -> str:
    """`text` with every character in `spans` replaced, so that offsets stay the same."""
    return replace_spans(text, join_spans(spans), lambda part: character * len(part))


def replace_spans(
    text: str,
    spans: Iterable[Span],
    change: Callable[[str], str],
    *,
    between: Callable[[str], str] = str,
) -> str:
    """`text` with what stands in `spans`, which are in order, changed, and what stands between."""
    parts: list[str] = []
    position = 0
    for start, end in spans:
        parts += (between(text[position:start]), change(text[start:end]))
        position = end
    return "".join((*parts, between(text[position:])))


def _fences(text: str) -> list[Span]:
    spans: list[Span] = []
    start, opened = 0, ""
    for match in _FENCE_LINE.finditer(text) if "```" in text or "~~~" in text else ():
        run, info = match[1], match[2]
        if opened and run.startswith(opened) and not info.strip():
            spans.append((start, match.end()))
            opened = ""
        elif not opened and (run[0] == "~" or "`" not in info):
            start, opened = match.start(), run
    return [*spans, (start, len(text))] if opened else spans


def _inline_code(text: str, fences: list[Span]) -> list[Span]:
    if "`" not in text:
        return []
    runs: list[tuple[int, int, int]] = []  # start, length, paragraph
    paragraph = 0
    for match in _BACKTICKS.finditer(cover(text, fences, " ")):
        if match[0][0] == "\n":
            paragraph += 1
            continue
        start = match.start()
        if text[start - 1 : start] == "\\":  # an escaped backtick opens nothing
            start += 1
        if start < match.end():
            runs.append((start, match.end() - start, paragraph))
    closing: list[int] = []  # where the run ends that closes each, from the last on
    latest: dict[tuple[int, int], int] = {}
    for start, length, within in reversed(runs):
        closing.append(latest.get((length, within), -1))
        latest[length, within] = start + length
    spans: list[Span] = []
    for (start, _, _), end in zip(runs, reversed(closing), strict=True):
        if end > 0 and (not spans or start >= spans[-1][1]):
            spans.append((start, end))
    return spans


def _indented_code(text: str) -> list[Span]:
    if "    " not in text and "\t" not in text:
        return []
    spans: list[Span] = []
    for match in _INDENTED.finditer(text):
        before = text[max(0, match.start() - 500) : match.start()].rstrip()
        if not _LIST_LINE.match(before[before.rfind("\n") + 1 :]):  # a list goes on indented
            spans.append(match.span(1))
    return spans


def _elements(text: str, wanted: Callable[[str], bool]) -> list[Span]:
    spans: list[Span] = []
    blocks = read_words("tags.txt")["blocks"]
    opened: list[tuple[str, int]] = []
    waiting: dict[str, int] = {}
    for match in _TAG.finditer(text):
        name = match[2].lower()
        if not wanted(name) or match[3].endswith("/"):
            continue
        if not match[1]:
            opened.append((name, match.start()))
            waiting[name] = waiting.get(name, 0) + 1
        elif waiting.get(name):
            other = ""
            while other != name:
                other, start = opened.pop()
                waiting[other] -= 1
            spans.append((start, match.end()))
        elif name in blocks:
            spans.append((0, match.end()))
    spans += [(start, len(text)) for name, start in opened if name in blocks][:1]
    return join_spans(spans)


def _closing(text: str, start: int, mark: str, *, line_end: int) -> int | None:
    """Where the quotation that `mark` opens at `start` ends, or None when it opens none."""
    before, after = text[start - 1 : start], text[start + 1 : start + 2]
    if mark in "‘'":
        if before.isalnum() or not after.isalnum() or _CLIPPED.match(text, start):
            return None
        return _closing_single(text, start, min(line_end, start + _LONGEST_SINGLE_QUOTE))
    if mark == '"':
        if before.isalnum() or after.isspace() or not after:
            return None
        end = text.find('"', start + 1, line_end)
        return line_end if end < 0 else end + 1
    if mark == "»":  # opens in some languages, ends a quotation in others
        line_end = min(line_end, start + _LONGEST_SINGLE_QUOTE)
    closing = _CLOSING[mark].search(text, start + 1, line_end)
    if closing is None:
        return None if mark == "»" else line_end
    return closing.end()


def _closing_single(text: str, start: int, limit: int) -> int | None:
    for closing in islice(_APOSTROPHE.finditer(text, start + 1, limit), _TRIED_APOSTROPHES):
        position = closing.end()
        if not text[position : position + 1].isalnum() and not text[position - 2].isspace():
            return position
    return None


# ----------------------------------------------------------------------------
# Code in a text, marked as such or pasted as it is.


_STRONG = compile_late(
    r"""\s*(?:
      (?:async\s+)?def\s+\w+\s*\(
    | class\s+\w+[^.!?]*[:{]\s*\Z
    | (?:if|elif|else|for|while|try|except|finally|with|match|case)\b.*:\s*(?:\#.*)?\Z
    | from\s+[\w.]+\s+import\s+\S
    | import\s+(?:[\w.]+(?:\s+as\s+\w+)?\s*\Z|[{*"'].*)
    | (?:export\s+)?(?:const|let|var)\s+[\w{}\[\],\s:]+=
    | (?:export\s+)?(?:async\s+)?function\b\s*\w*\s*\(
    | (?:public|private|protected|static|fn|func|impl|struct|interface)\s.*[({;]
    | \#include\s*[<"]
    | [\w.\[\]'"]+\s*(?:[-+*/|&]?=|:=)(?!=)\s*\S
    | [\w.:]+\([^)]*\)[;,]?\s*\Z
    | .*[()=<>{}\[\]].*[;{]\s*\Z
    | (?:SELECT|INSERT\s+INTO|UPDATE|DELETE\s+FROM|CREATE|ALTER|DROP)\s+\S
    | \$\s+\S
    | @[\w.]+(?:\(.*\))?\s*\Z
    | </?[a-zA-Z][^>]*>
    )""",
    re.VERBOSE,
)
"""A line that is code by itself."""
_WEAK = compile_late(
    r"\s*(?:(?:\#|//|--|/\*|\*/)|(?:return|raise|yield|assert|pass|break|continue|throw|end)\b"
    r"|[)\]}]+[;,]?\s*\Z|WHERE\b|FROM\b|ORDER\b|GROUP\b|JOIN\b|LIMIT\b)"
)
"""A line that is code beside such a one; so is one that is indented below it."""
_INDENT = compile_late(r"(?: {2,}|\t)\s*\S")
_MOST_CHARACTERS = 200_000
_MOST_LINE = 1_000


def all_code_spans(text: str) -> list[Span]:
    """What `code_spans` finds, and lines of code that nothing marks."""
    return join_spans(code_spans(text) + pasted_spans(text))


def pasted_spans(text: str) -> list[Span]:
    """Runs of whole lines that are code, without the blank lines around them."""
    if "\n" not in text or len(text) > _MOST_CHARACTERS:
        return []
    runs = [(-1, -1, False)]  # start, end and whether a line of it is code by itself
    position = 0
    for line in text.split("\n"):
        start, stop = runs[-1][0], position + len(line)
        strong = len(line) <= _MOST_LINE and _STRONG.match(line) is not None
        if strong or _WEAK.match(line) or (start >= 0 and _INDENT.match(line)):
            runs[-1] = (position if start < 0 else start, stop, strong or runs[-1][2])
        elif line.strip() and start >= 0:
            runs.append((-1, -1, False))
        position = stop + 1
    return [(start, end) for start, end, strong in runs if strong]
