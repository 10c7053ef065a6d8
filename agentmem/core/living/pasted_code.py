"""Code in a text, marked as such or pasted as it is."""

from __future__ import annotations

import re

from agentmem.core.patterns import compile_late
from agentmem.core.regions import Span, code_spans, join_spans

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
    spans: list[Span] = []
    start = end = -1  # of the run that is open
    strong = False
    position = 0
    for line in text.split("\n"):
        stop = position + len(line)
        is_strong = len(line) <= _MOST_LINE and _STRONG.match(line) is not None
        if is_strong or _WEAK.match(line) or (start >= 0 and _INDENT.match(line)):
            start = position if start < 0 else start
            end, strong = stop, strong or is_strong
        elif line.strip():
            if strong:
                spans.append((start, end))
            start, strong = -1, False
        position = stop + 1
    if strong:
        spans.append((start, end))
    return spans
