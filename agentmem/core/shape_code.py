"""Results that programmers' tools print: matches, diffs, stack traces, pages of markup."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence

from agentmem.core.patterns import compile_late
from agentmem.core.shape_values import (
    LINE_CHARACTERS,
    MOST_LINES,
    Shape,
    ends,
    number,
    share,
    some,
    telling,
)

# `path:12:text` and `path-12-text`; a clock time or a date is no path.
_NUMBERED = compile_late(
    r"(?!\d{1,4}[-:/.]\d)(?P<path>(?:[A-Za-z]:[\\/])?[^\s:]{1,300}):\d{1,7}(?::\d{1,5})?[:\s]"
)
_UNNUMBERED = compile_late(r"(?P<path>[\w.@~+-]*[/.][\w./@~+-]{0,300}):(?!//)")
_CONTEXT = compile_late(r"\S{1,300}-\d{1,7}-|--$")
_DIFF_START = compile_late(r"diff --git |diff -|Index: |--- \S")
_DIFF_FILE = compile_late(r"^\+\+\+ (?:b/)?([^\t\n]{1,300})", re.MULTILINE)
_DIFF_RENAME = compile_late(r"^diff --git (?:a/)?\S{1,300} (?:b/)?(\S{1,300})$", re.MULTILINE)
_HUNK = compile_late(r"^@@ ", re.MULTILINE)
_PYTHON_HEAD = "Traceback (most recent call last):"
_PYTHON_FRAME = compile_late(r'^\s*File "[^"\n]{1,400}", line \d+', re.MULTILINE)
_LONG_PATH = compile_late(r'"[^"\n]{20,400}?((?:[\\/][^"\\/\n]{1,80}){1,2})"')
_PYTHON_ERROR = compile_late(r"^[A-Za-z_][\w.]{0,200}(?:: |:?$)")
_AT_FRAME = compile_late(r"^\s{1,12}at \S[^\n]{0,400}$", re.MULTILINE)
_AT_ERROR = compile_late(
    r"^(?:Caused by: |Exception in thread [^\n]{0,80}? |Uncaught )?"
    r"(?:[\w$.]{0,200}(?:Error|Exception|Throwable)\b[^\n]{0,400})$",
    re.MULTILINE,
)
_GO_PANIC = compile_late(r"^panic: [^\n]{1,400}$", re.MULTILINE)
_GO_FRAME = compile_late(r"^\t\S{1,400}\.go:\d+", re.MULTILINE)
_MARKUP = compile_late(
    r"\s*(?:<!--.{0,2000}?-->\s*)?<(?:!doctype\s+html|html|head|body)\b", re.IGNORECASE | re.DOTALL
)
_ELEMENT = compile_late(r"<(?:p|div|a|ul|li|table|tr|td|h[1-6]|span|br|img|script|section)\b", re.I)
_XML = compile_late(r"\s*<\?xml\b", re.IGNORECASE)
_TITLE = compile_late(r"<title[^>]{0,200}>(.{0,400}?)</title", re.IGNORECASE | re.DOTALL)
_HIDDEN = compile_late(r"<(script|style)\b.*?(?:</\1\s*>|\Z)", re.IGNORECASE | re.DOTALL)
_COMMENT = compile_late(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_TAG = compile_late(r"<[^<>]{0,2000}>")
_HEADING = compile_late(r"<h[1-6]\b", re.IGNORECASE)
_LINK = compile_late(r"<a\s", re.IGNORECASE)
_MARKUP_END = 100_000
_TRACE_CHARACTERS = 200_000


def grep_shape(lines: Sequence[str]) -> Shape | None:
    """The shape of `path:line:text` lines."""
    sample = some(lines)
    if len(sample) < 2:
        return None
    for pattern, least in ((_NUMBERED, 0.7), (_UNNUMBERED, 0.9)):
        plain = [line for line in sample if not _CONTEXT.match(line)]
        if len(plain) < max(1, 0.2 * len(sample)) or share(pattern, plain) < least:
            continue
        found = [m for line in lines if (m := pattern.match(line[:LINE_CHARACTERS]))]
        files = dict.fromkeys(match["path"] for match in found)
        first, last = ends(lines)
        return Shape(
            kind="grep",
            what="matching lines",
            counts=(number(len(found), "match", plural="matches"), number(len(files), "file")),
            first=first,
            last=last,
            notes=("files: " + ", ".join(list(files)[:8]) + (", …" if len(files) > 8 else ""),),
        )
    return None


def diff_shape(text: str, lines: Sequence[str]) -> Shape | None:
    """The shape of a unified diff, also behind the header of a commit."""
    if "diff --git " not in text and ("@@ " not in text or not _HUNK.search(text)):
        return None
    start = next((n for n, line in enumerate(lines) if _DIFF_START.match(line)), None)
    if start is None or (start > 60 and start > len(lines) // 4):
        return None
    files = list(dict.fromkeys([*_DIFF_RENAME.findall(text), *_DIFF_FILE.findall(text)]))
    files = [name for name in files if name != "/dev/null"]
    added = sum(1 for s in lines[start:] if s.startswith("+") and not s.startswith("+++ "))
    removed = sum(1 for s in lines[start:] if s.startswith("-") and not s.startswith("--- "))
    hunks = len(_HUNK.findall(text))
    names = ", ".join(files[:8]) + (", …" if len(files) > 8 else "")
    changed = [s for s in lines[start:] if s[:1] in "+-" and s[:4] not in ("+++ ", "--- ")]
    return Shape(
        kind="diff",
        what="diff",
        counts=(number(len(files), "file"), f"+{added:,}", f"-{removed:,}", number(hunks, "hunk")),
        first=f"files: {names}",
        last=telling(changed[::-1]),
        notes=(telling(changed),) if start == 0 else (telling(lines), telling(changed)),
    )


def trace_shape(text: str, lines: Sequence[str]) -> Shape | None:
    """The shape of a stack trace: the exception, and the frame that raised it."""
    python = python_trace(text, lines)
    if python is not None and _is_about(text, lines):
        return python
    frames = _AT_FRAME.findall(text) if " at " in text or "\tat " in text else []
    errors = [match[0] for match in _AT_ERROR.finditer(text)] if len(frames) >= 2 else []
    if errors and len(frames) + len(errors) >= 0.3 * len(lines):
        java = any(".java:" in frame or "(Native Method)" in frame for frame in frames[:20])
        causes = [error for error in errors if error.startswith("Caused by: ")]
        error = (causes or errors)[-1 if causes else 0]
        at = text.find(error)
        raised = _AT_FRAME.search(text, at)
        frame = raised[0] if raised else frames[0]
        language = "Java" if java else "JavaScript"
        return _trace(language, len(frames), error, frame.strip(), errors)
    panic = _GO_PANIC.search(text) if "panic: " in text else None
    if panic:
        frames = _GO_FRAME.findall(text)
        return _trace("Go", len(frames), panic[0], frames[0].strip() if frames else "", [])
    return None


def _is_about(text: str, lines: Sequence[str]) -> bool:
    """Whether a Python traceback is what a text is about: most of it, or how it begins or ends."""
    first, last = text.find(_PYTHON_HEAD), text.rfind(_PYTHON_HEAD)
    ending = last + sum(len(s) + 1 for s in _frames_of(text, last)) + 1
    covered = text.count("\n", first, ending)
    after = text.count("\n", ending)
    return covered >= 0.3 * len(lines) or first < 200 or after <= 5


def _frames_of(text: str, start: int) -> list[str]:
    """The lines of a traceback from its head to the line before the exception."""
    part = text[start : start + _TRACE_CHARACTERS].split("\n")
    ending = 1
    while ending < len(part) and (not part[ending].strip() or part[ending][0] in " \t|+"):
        ending += 1
    return part[:ending]


def python_trace(text: str, lines: Sequence[str]) -> Shape | None:
    """The shape of the last Python traceback in a text, wherever it stands."""
    start = text.rfind(_PYTHON_HEAD)
    if start < 0:
        return None
    above = _frames_of(text, start)
    ending = start + sum(len(line) + 1 for line in above)
    error = text[ending : ending + LINE_CHARACTERS].split("\n", 1)[0]
    if not _PYTHON_ERROR.match(error):
        error = telling(lines[: -MOST_LINES - 1 : -1])
    frames = [line for line in above if _PYTHON_FRAME.match(line)]
    every = len(_PYTHON_FRAME.findall(text))
    chained = text.count(_PYTHON_HEAD)
    notes = (number(chained, "chained traceback"),) if chained > 1 else ()
    shown = code = ""
    if frames:
        shown = _LONG_PATH.sub(r'"…\1"', frames[-1].strip())
        below = len(above) - above[::-1].index(frames[-1])
        code = above[below].strip() if below < len(above) else ""
    return _trace("Python", every, error, f"{shown}: {code}" if code else shown, notes)


def _trace(language: str, frames: int, error: str, raised: str, others: Sequence[str]) -> Shape:
    notes = tuple(other.strip()[:LINE_CHARACTERS] for other in others if other != error)[:2]
    return Shape(
        kind="trace",
        what=f"{language} stack trace",
        counts=(number(frames, "frame"),),
        first=error.strip()[:LINE_CHARACTERS],
        last=raised[:LINE_CHARACTERS],
        notes=notes,
    )


def markup_shape(text: str) -> Shape | None:
    """The shape of an HTML page or fragment, or of an XML document."""
    opening = text[:4_000]
    if _XML.match(opening) and not re.search(r"<html\b", opening, re.IGNORECASE):
        tags = text.count("</") + text.count("/>")
        first, last = ends([line for line in text[:_MARKUP_END].split("\n") if "<?xml" not in line])
        return Shape(
            kind="markup", what="XML", counts=(number(tags, "element"),), first=first, last=last
        )
    if not _MARKUP.match(opening) and not (
        opening.lstrip().startswith("<") and len(_ELEMENT.findall(opening)) >= 3
    ):
        return None
    title = _TITLE.search(text[:_MARKUP_END])
    begin, end = visible_lines(text[:_MARKUP_END]), visible_lines(text[-_MARKUP_END:])
    named = " ".join(html.unescape(title[1]).split()) if title else ""
    return Shape(
        kind="markup",
        what="HTML page" if _MARKUP.match(opening) else "HTML",
        counts=(
            number(len(_HEADING.findall(text)), "heading"),
            number(len(_LINK.findall(text)), "link"),
        ),
        first=named or telling(begin),
        last=telling(end[::-1]),
        notes=(telling(begin),) if named else (),
    )


def visible_lines(markup: str) -> list[str]:
    """What a reader of a page would see, roughly; enough to name it."""
    if "<" not in markup:
        return markup.split("\n")
    markup = _COMMENT.sub(" ", _HIDDEN.sub(" ", markup))
    if (cut := markup.rfind("<")) > markup.rfind(">"):
        markup = markup[:cut]
    lines = html.unescape(_TAG.sub("\n", markup)).split("\n")
    return [" ".join(line.split()) for line in lines if line.strip()]
