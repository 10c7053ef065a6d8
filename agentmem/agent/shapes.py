"""Say what any tool result is: its kind, its counts, its first and last telling line.

Nothing raises, whatever the bytes are (W2), and every step is linear in them.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import cache
from typing import Any, cast

from agentmem.base.lazy import compile_late
from agentmem.data import read_lists
from agentmem.tokens.media import image_size, recording_seconds

# ----------------------------------------------------------------------------
# What a tool result looks like, as a value, and the words all shapes share.


SAMPLE_LINES = 200
LINE_CHARACTERS = 400
MOST_LINES = 2_000
"""How far from either end a telling line is looked for."""
_TELLING = re.compile(r"[^\W_]")


@dataclass(frozen=True, slots=True)
class Shape:
    """What a result is (`what`), how much of it there is, and its most telling lines.

    `notes` are further lines worth showing when there is room. `reads` are the
    arguments of a read that suit it. Everything here is raw text of the result:
    whoever shows it cleans it first.
    """

    kind: str
    what: str
    _: KW_ONLY
    counts: tuple[str, ...] = ()
    first: str = ""
    last: str = ""
    notes: tuple[str, ...] = ()
    reads: tuple[str, ...] = ('lines="1-40"', 'grep="…"')


def number(count: int, noun: str, *, plural: str = "") -> str:
    """`1 line`, `1,204 lines`, `2 matches`."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def telling(lines: Sequence[str]) -> str:
    """The first line that says something, or the first that is not blank, or ""."""
    shown = next((line for line in lines if _TELLING.search(line[:LINE_CHARACTERS])), "")
    shown = shown or next((line for line in lines if line.strip()), "")
    shown = shown.strip().rpartition("\r")[2]  # a progress bar's last state
    return shown.strip()[:LINE_CHARACTERS]


def last_telling(lines: Sequence[str]) -> str:
    """The last line that says something, as far as one looks for it."""
    return telling(lines[: -MOST_LINES - 1 : -1])


def shape_of_lines(
    kind: str, what: str, lines: Sequence[str], *counts: str, notes: tuple[str, ...] = ()
) -> Shape:
    """A shape that shows the first and the last telling line, once if they are the same."""
    first, last = telling(lines[:MOST_LINES]), last_telling(lines)
    last = "" if last == first else last
    return Shape(kind, what, counts=counts, first=first, last=last, notes=notes)


def some(lines: Sequence[str]) -> list[str]:
    """Lines from the beginning, the middle and the end: enough to tell what a text is."""
    if len(lines) <= SAMPLE_LINES:
        return [line for line in lines if line.strip()]
    third, middle = SAMPLE_LINES // 3, len(lines) // 2
    chosen = [*lines[:third], *lines[middle : middle + third], *lines[-third:]]
    return [line for line in chosen if line.strip()]


def share(pattern: re.Pattern[str], lines: Sequence[str]) -> float:
    """Which part of the lines `pattern` matches at their beginning."""
    if not lines:
        return 0.0
    return sum(1 for line in lines if pattern.match(line[:LINE_CHARACTERS])) / len(lines)


# ----------------------------------------------------------------------------
# Results that programmers' tools print: matches, diffs, stack traces, pages of markup.


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
        named = "files: " + ", ".join(list(files)[:8]) + (", …" if len(files) > 8 else "")
        counts = number(len(found), "match", plural="matches"), number(len(files), "file")
        return shape_of_lines("grep", "matching lines", lines, *counts, notes=(named,))
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
    hunks = number(len(_HUNK.findall(text)), "hunk")
    names = ", ".join(files[:8]) + (", …" if len(files) > 8 else "")
    changed = [s for s in lines[start:] if s[:1] in ("+", "-") and s[:4] not in ("+++ ", "--- ")]
    added = sum(line[0] == "+" for line in changed)
    return Shape(
        "diff",
        "diff",
        counts=(number(len(files), "file"), f"+{added:,}", f"-{len(changed) - added:,}", hunks),
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
        error = causes[-1] if causes else errors[0]
        raised = _AT_FRAME.search(text, text.find(error))
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
    return covered >= 0.3 * len(lines) or first < 200 or text.count("\n", ending) <= 5


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
        error = last_telling(lines)
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
        "trace",
        f"{language} stack trace",
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
        shown = [line for line in text[:_MARKUP_END].split("\n") if "<?xml" not in line]
        return shape_of_lines("markup", "XML", shown, number(tags, "element"))
    if not _MARKUP.match(opening) and not (
        opening.lstrip().startswith("<") and len(_ELEMENT.findall(opening)) >= 3
    ):
        return None
    title = _TITLE.search(text[:_MARKUP_END])
    begin, end = visible_lines(text[:_MARKUP_END]), visible_lines(text[-_MARKUP_END:])
    named = " ".join(html.unescape(title[1]).split()) if title else ""
    return Shape(
        "markup",
        "HTML page" if _MARKUP.match(opening) else "HTML",
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


# ----------------------------------------------------------------------------
# Structured results: JSON, JSON lines, CSV and other tables.


MOST_JSON_CHARACTERS = 30_000_000
_SHOWN_KEYS = 12
_DELIMITED = (("\t", "TSV table"), (",", "CSV table"), (";", "CSV table"), ("|", "table"))
_QUOTED = compile_late(r'"(?:[^"]|"")*"')
_MARKDOWN_ROW = compile_late(r"\s*\|.*\|\s*$")
_MARKDOWN_RULE = compile_late(r"\s*\|?[\s:|-]*-{3,}[\s:|-]*$")
_RULE = compile_late(r"\s*[-=+]{2,}(?:[\s+|-]+[-=+]{2,})*\s*$")
_OPENS_RECORD = compile_late(r"\s*\{")


def json_shape(text: str) -> Shape | None:
    """The shape of one JSON array or object, or of many lines with one object each."""
    stripped = text.strip() if len(text) <= MOST_JSON_CHARACTERS else ""
    if not stripped or stripped[0] not in "{[" or stripped[-1] not in "}]":
        return None
    try:
        value = json.loads(stripped)
    except (ValueError, RecursionError):
        return _records(stripped)
    if isinstance(value, list):
        return _array(value)
    return _object(value)


def _array(items: list[Any]) -> Shape:
    counts = [number(len(items), "item")]
    kinds = {_kind(item) for item in items[:1_000]}
    notes: tuple[str, ...] = ()
    if kinds == {"object"}:
        keys = list(dict.fromkeys(key for item in items[:50] for key in item))
        notes = (f"keys: {_listed(keys)}",)
        counts.append(_named_keys(keys))
    what = "JSON array" if len(kinds) != 1 else f"JSON array of {kinds.pop()}s"
    return Shape(
        "json", what, counts=tuple(counts), first=_compact(items[0]) if items else "",
        last=_compact(items[-1]) if len(items) > 1 else "", notes=notes,
        reads=('json_path="$[0]"', 'grep="…"'),
    )  # fmt: skip


def _object(value: Mapping[str, Any]) -> Shape:
    keys = list(value)
    wides = [key for key in keys if isinstance(value[key], list | dict)]
    sizes = [f"{key}: {number(len(value[key]), 'item')}" for key in wides[:2]]
    first = f"{keys[0]}: {_compact(value[keys[0]])}" if keys else ""
    last = f"{keys[-1]}: {_compact(value[keys[-1]])}" if len(keys) > 1 else ""
    wide = next(iter((*wides, *keys)), "")
    path = json.dumps(f"$.{wide}" if wide.isidentifier() and len(wide) <= 30 else "$.*")
    return Shape(
        "json", "JSON object", counts=(_named_keys(keys), *sizes), first=first, last=last,
        notes=(f"keys: {_listed(keys)}",), reads=(f"json_path={path}", 'grep="…"'),
    )  # fmt: skip


def _records(text: str) -> Shape | None:
    lines = text.splitlines()
    if len(lines) < 2 or share(_OPENS_RECORD, some(lines)) < 1:
        return None
    try:
        first, last = json.loads(lines[0]), json.loads(lines[-1])
    except (ValueError, RecursionError):
        return None
    count = sum(1 for line in lines if line.strip())
    keys = list(first) if isinstance(first, dict) else []
    return Shape(
        "json", "JSON lines", counts=(number(count, "record"),), first=_compact(first),
        last=_compact(last), notes=(f"keys: {_listed(keys)}",),
    )  # fmt: skip


def table_shape(lines: Sequence[str]) -> Shape | None:
    """The shape of a Markdown table, a ruled listing, or delimited values."""
    sample = some(lines)
    if len(sample) < 3:
        return None
    if share(_MARKDOWN_ROW, sample) >= 0.6 and any(map(_MARKDOWN_RULE.match, sample[:10])):
        rows = [line for line in lines if _MARKDOWN_ROW.match(line[:LINE_CHARACTERS])]
        cells = rows[0].strip().strip("|").split("|")
        return _table("Markdown table", len(rows) - 2, len(cells), lines)
    rule = next((n for n, line in enumerate(sample[:4]) if _RULE.match(line)), 0)
    if rule and len(sample) > rule + 1:
        columns = len(re.split(r"\s{2,}|\t| (?=[A-Z])", sample[rule - 1].strip()))
        filled = sum(1 for line in lines if line.strip())
        return _table("table", filled - rule - 1, columns, lines)
    for delimiter, name in _DELIMITED:
        columns = _columns(sample, delimiter)
        if columns:
            filled = sum(1 for line in _unquoted("\n".join(lines)).split("\n") if line.strip())
            return _table(name, filled - 1, columns, lines)
    return None


def _columns(sample: Sequence[str], delimiter: str) -> int:
    """How many columns nearly all lines agree on; 0 when they do not, or look like prose."""
    plain = [_unquoted(line[:4_000]) for line in sample]
    widths = [line.count(delimiter) for line in plain]
    usual = widths[0]
    if not usual or widths.count(usual) < 0.95 * len(widths):
        return 0
    sentences = sum(1 for line in sample if line.rstrip().endswith((".", ",", ";", "!", "?", "{")))
    spaced = sum(1 for line in plain if f"{delimiter} " in line)
    if delimiter in ",;" and (
        sentences > 0.5 * len(sample) or (usual < 2 and spaced > 0.3 * len(sample))
    ):
        return 0
    return usual + 1


def _unquoted(text: str) -> str:
    return _QUOTED.sub('""', text) if '"' in text else text


def _table(what: str, rows: int, columns: int, lines: Sequence[str]) -> Shape:
    counts = number(max(rows, 0), "row"), number(columns, "column")
    return shape_of_lines("table", what, lines, *counts)


_KINDS = {
    dict: "object", list: "array", bool: "boolean", int: "number", float: "number", str: "string",
}  # fmt: skip


def _kind(value: Any) -> str:
    return _KINDS.get(type(value), "null")


def _compact(value: Any) -> str:
    """A value on one line; a long one is cut before it is written whole."""
    if isinstance(value, str):
        return json.dumps(value[:LINE_CHARACTERS], ensure_ascii=False)
    value = value[:20] if isinstance(value, list) else value
    value = dict(list(value.items())[:20]) if isinstance(value, dict) else value
    try:
        return json.dumps(value, ensure_ascii=False, default=str)[:LINE_CHARACTERS]
    except (ValueError, RecursionError):
        return _kind(value)


def _named_keys(keys: Sequence[str]) -> str:
    named = ", ".join(key[:20] for key in keys[:5]) + (", …" if len(keys) > 5 else "")
    return f"{number(len(keys), 'key')} ({named})" if keys else number(0, "key")


def _listed(keys: Sequence[str]) -> str:
    shown = ", ".join(key[:40] for key in keys[:_SHOWN_KEYS])
    return shown + (f", … ({len(keys):,})" if len(keys) > _SHOWN_KEYS else "")


_MOST_CHARACTERS = 20_000_000
_DATA_URL = compile_late(
    r"\s*data:(?P<type>(?:image|audio|video)/[\w.+-]{1,40})[;,]", re.IGNORECASE
)
_LEVEL = compile_late(
    r"\b(?:(?P<error>ERROR|FATAL|CRITICAL|SEVERE|[Ee]rror(?=:))|(?P<warning>WARN(?:ING)?|[Ww]arning)"
    r"|INFO|DEBUG|TRACE|NOTICE)\b"
)
_STAMPED = compile_late(
    r"\W{0,3}(?:\d{4}[-/]\d\d[-/]\d\d|\d\d:\d\d:\d\d|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d"
    r"|\d\d/[A-Z][a-z]{2}/\d{4}|\d{10,13}\b)"
    r"|\W{0,3}(?:ERROR|FATAL|CRITICAL|SEVERE|WARN(?:ING)?|INFO|DEBUG|TRACE)\b"
    r"|\S{1,60} - - \[\d\d/"
)
# Colours and cursor moves of terminals, and what they set as a title or link.
_ANSI = compile_late(r"\x1b(?:\[[0-?]{0,40}[ -/]{0,8}[@-~]|\][^\x07\x1b]{0,2000}(?:\x07|\x1b\\))")
_PATH = compile_late(r"(?:\.{0,2}/|[A-Za-z]:\\)?(?:[\w.@+~-]+[/\\])+[\w.@+~-]*$|\./\S+$")


@cache
def _signatures() -> dict[str, list[tuple[str, str, str]]]:
    """How files of a kind begin, in hexadecimal, and what media of a type are called."""
    lists = read_lists("file_signatures.txt")
    rows = {name: [tuple(line.split(None, 2)) for line in lines] for name, lines in lists.items()}
    return cast("dict[str, list[tuple[str, str, str]]]", rows)


def _name_of(media_type: str) -> str:
    found = (name for start, _, name in _signatures()["names"] if media_type.startswith(start))
    return next(found, "")


def sniff(data: bytes) -> tuple[str, str]:
    """The media type and the name of a kind of file, from its first bytes."""
    opening = bytes(data[:16])
    for begins, media_type, name in _signatures()["signatures"]:
        parts = (part.rpartition("@") for part in begins.split("+"))
        if all(
            opening.startswith(bytes.fromhex(digits), int(at or 0)) for at, _, digits in parts
        ) and (name != "BMP image" or image_size(data[:64])):
            return media_type, name
    return "application/octet-stream", "binary data"


def shape_of(content: str | bytes, *, media_type: str = "") -> Shape:
    """What `content` is; bytes are taken as a file, text is looked at line by line."""
    if isinstance(content, bytes):
        return _binary(content, media_type)
    if match := _DATA_URL.match(content[:200]):
        return _media(content.strip(), match["type"].lower(), "", f"{len(content):,} characters")
    if media_type == "image/svg+xml" or content[:400].lstrip().startswith("<svg"):
        return _media(content.encode("utf-8", "replace"), "image/svg+xml", "", _size(content))
    if len(content) > _MOST_CHARACTERS:  # its ends say what it is
        half = _MOST_CHARACTERS // 2
        shape = _text(content[:half] + "\n" + content[-half:])
        counts = number(content.count("\n") + 1, "line"), _size(content)
        return replace(shape, what=f"very large {shape.what}", counts=counts)
    return _text(content)


def failed_shape(error: str, shape: Shape) -> Shape:
    """The shape of a call that failed: the error first, then what its output was."""
    last = shape.last if shape.kind == "trace" else shape.first
    return replace(
        shape, kind="error", what="failed", first=error, last="" if last == error else last
    )


def _text(whole: str) -> Shape:
    text = _ANSI.sub("", whole) if "\x1b" in whole else whole
    text = text.replace("\r\n", "\n") if "\r" in text else text
    shape = json_shape(text) or markup_shape(text)
    lines = text.split("\n")
    if shape is None:
        shape = diff_shape(text, lines) or trace_shape(text, lines) or grep_shape(lines)
    if shape is None:
        shape = _log(lines) or table_shape(lines) or _paths(lines) or _plain(text, lines)
    count = whole.count("\n") + (0 if whole.endswith("\n") or not whole else 1)
    counted = (number(count, "line"),) if count > 1 else ()
    return replace(shape, counts=(*shape.counts, *counted, _size(whole)))


def _log(lines: Sequence[str]) -> Shape | None:
    sample = some(lines)
    if len(sample) < 3 or share(_STAMPED, sample) < 0.5:
        return None
    levels = [(line, match) for line in lines if (match := _LEVEL.search(line[:200]))]
    errors = sum(1 for _, match in levels if match["error"])
    warnings = sum(1 for _, match in levels if match["warning"])
    first_error = next((line for line, match in levels if match["error"]), "")
    counts = [number(n, noun) for n, noun in ((errors, "error"), (warnings, "warning")) if n]
    notes = (f"first error: {first_error.strip()[:LINE_CHARACTERS]}",) if first_error else ()
    return shape_of_lines("log", "log", lines, *counts, notes=notes)


def _paths(lines: Sequence[str]) -> Shape | None:
    sample = some(lines)
    if len(sample) < 3 or share(_PATH, sample) < 0.9:
        return None
    count = sum(1 for line in lines if line.strip())
    return shape_of_lines("paths", "list of paths", lines, number(count, "path"))


def _plain(text: str, lines: Sequence[str]) -> Shape:
    inside = python_trace(text, lines)
    notes = (f"holds a Python traceback: {inside.first}",) if inside else ()
    looked = lines if len(lines) <= 2 * MOST_LINES else (*lines[:MOST_LINES], *lines[-MOST_LINES:])
    flagged = next((s for s in looked if (m := _LEVEL.search(s[:200])) and m["error"]), "")
    if flagged:
        notes = (*notes, f"first error: {flagged.strip()[:LINE_CHARACTERS]}")
    if len(lines) > 4:
        notes = (*notes, telling(lines[len(lines) // 2 :][:MOST_LINES]))
    shape = shape_of_lines("text", "text", lines, notes=notes[:2])
    return shape if len(lines) > 1 else replace(shape, reads=('range="0-2000"', 'grep="…"'))


def _binary(data: bytes, media_type: str) -> Shape:
    found, name = sniff(data)
    size = number(len(data), "byte")
    if found == "application/octet-stream" and (named := _name_of(media_type)):
        return _media(data, media_type, named, size)
    if found.startswith(("image/", "audio/", "video/")):
        return _media(data, found, name, size)
    first = f"begins with {data[:16].hex(' ')}" if data else ""
    return Shape("binary", name, counts=(size,), first=first, reads=('range="0-500"',))


def _media(source: str | bytes, media_type: str, name: str, size: str) -> Shape:
    kind, counts = "media", [size]
    if media_type.startswith("image/"):
        kind, pixels = "image", image_size(source)
        wide = f"{pixels[0]:,} x {pixels[1]:,} pixels" if pixels else "size in pixels unknown"
        counts = [wide, size]
    elif seconds := recording_seconds(source):
        counts = [f"{seconds:,.1f} seconds", size]
    named = name or _name_of(media_type) or "media"
    return Shape(kind, named, counts=tuple(counts), first=media_type, reads=('range="0-500"',))


def _size(text: str) -> str:
    return number(len(text), "character")
