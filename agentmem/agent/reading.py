"""Pages of a stored result: each says what it covers and how to ask for the next."""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, is_dataclass
from enum import Enum
from itertools import islice
from typing import Any, Literal

from agentmem.agent.shapes import Shape, number, sniff
from agentmem.base.errors import InvalidInput
from agentmem.base.lazy import compile_late
from agentmem.base.protocols import TokenCounter
from agentmem.text.clean import clean_line
from agentmem.text.terms import MAX_WORD_CHARACTERS, STOP_WORDS, word_runs

# ----------------------------------------------------------------------------
# The lines of a result that match a model's pattern, in bounded time.
#
# `regex` alone takes a time limit, and lets other threads run meanwhile; it looks
# at the clock now and then, so long lines are searched window by window.


LONGEST_SECONDS = 1.0
PATTERN_CHARACTERS = 1_000
LONG_LINE_CHARACTERS = 2_000
_CONTEXT_CHARACTERS = 100
_MOST_IN_A_LINE = 50
_WINDOW = 20_000
_OVERLAP = 500
_SPECIAL = re.compile(r"[^\w\s\"'=,:;/<>@!%&~`-]")

_RECURSIVE = re.compile(r"\(\?(?:R|&|P>|[+-]?\d)")

_Spans = Callable[[str], Iterable[tuple[int, int]]]
_Shown = dict[int, str]
"""Matching lines as they are shown, by their number."""


def grep(text: str, pattern: str) -> Selected:
    """The lines that match, each with its number: `12: text`.

    Of a line longer than 2,000 characters only what stands around each match is
    shown, with its place in the whole text. A pattern that is no regular
    expression is looked for as plain text. When nothing matches, upper and
    lower case are taken as equal. A pattern too slow for a second stops there:
    what was found until then is given, and the plain text is looked for when
    nothing was.
    """
    if not pattern:
        raise InvalidInput("grep", pattern, "is empty", remedy="Give a word or a pattern.")
    if len(pattern) > PATTERN_CHARACTERS:
        raise InvalidInput("grep", pattern, "is too long", remedy="Look for a shorter text.")
    lines = text.removesuffix("\n").split("\n")
    shown, how = _search(lines, pattern)
    note = f"{number(len(shown), 'matching line')} of {len(lines):,}"
    return made_for("".join(shown.values()), f"{note} ({how})" if how else note)


def _search(lines: list[str], pattern: str) -> tuple[_Shown, str]:
    """What matches, and what had to be done otherwise than asked."""
    deadline = time.monotonic() + LONGEST_SECONDS if _SPECIAL.search(pattern) else None
    plain = _plain_spans(pattern, fold=True)
    spans = _spans_of(pattern, deadline)
    if spans is None:
        return _look(lines, plain)[0], "no pattern; looked for as plain text"
    shown, stopped = _look(lines, spans)
    if stopped:
        slow = f"the pattern is too slow, stopped at line {stopped:,}"
        if shown:
            return shown, slow
        return _look(lines, plain)[0], f"{slow}; looked for as plain text"
    folded = None if shown else _spans_of(pattern, deadline, fold=True)
    if folded is None:
        return shown, ""
    shown, _ = _look(lines, folded)
    return shown, "upper and lower case taken as equal" if shown else ""


def _look(lines: list[str], spans: _Spans) -> tuple[_Shown, int]:
    """What is shown of the lines that match, and at which line the time was over, if it was."""
    shown: _Shown = {}
    offset = 0
    for at, line in enumerate(lines, 1):
        is_long = len(line) > LONG_LINE_CHARACTERS
        try:
            matches = list(islice(spans(line), _MOST_IN_A_LINE if is_long else 1))
        except TimeoutError:
            return shown, at
        if matches:
            shown[at] = _around(at, line, matches, offset) if is_long else f"{at}: {line}\n"
        offset += len(line) + 1
    return shown, 0


def _around(number: int, line: str, matches: list[tuple[int, int]], offset: int) -> str:
    """What stands around each match in a long line."""
    shown = ""
    shown_to = -1
    for start, end in matches:
        if start < shown_to:
            continue  # it stands in what was shown around the match before
        first = max(start - _CONTEXT_CHARACTERS, 0)
        shown_to = min(end, start + _CONTEXT_CHARACTERS) + _CONTEXT_CHARACTERS
        shown += f"{number}: (character {offset + start}) …{line[first:shown_to]}…\n"
    return shown


def _plain_spans(wanted: str, *, fold: bool = False) -> _Spans:
    plain = re.compile(re.escape(wanted), re.IGNORECASE if fold else 0)
    return lambda line: map(re.Match.span, plain.finditer(line))


def _spans_of(pattern: str, deadline: float | None, *, fold: bool = False) -> _Spans | None:
    """Where a line matches, or None for what is no regular expression; without a deadline the
    pattern is plain text."""
    if deadline is None:
        return _plain_spans(pattern, fold=fold)
    if _RECURSIVE.search(pattern):
        return None  # a pattern that calls itself fills the memory before the time is over
    import regex  # type: ignore[import-untyped]

    try:
        compiled = regex.compile(pattern, regex.IGNORECASE if fold else 0)
    except (regex.error, OverflowError, RecursionError, MemoryError, ValueError):
        return None

    def spans(line: str) -> Iterator[tuple[int, int]]:
        start, last = 0, -1
        while True:
            end = min(start + _WINDOW, len(line))
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError
            for match in compiled.finditer(line, start, end, timeout=left, concurrent=True):
                at, to = match.span()
                cut_off = to == end < len(line)  # the next window sees all of it
                if at > last and not cut_off:
                    last = at
                    yield at, to
            if end == len(line):
                return
            start = end - _OVERLAP

    return spans


# ----------------------------------------------------------------------------
# The values at a JSONPath in a result, in bounded time: the path is a model's own words.


PATH_CHARACTERS = 1_000
MOST_VALUES = 10_000
_SLOW_PARTS = ("match(", "search(", "=~")


def find_json(text: str, path: str) -> Selected:
    """The values at a JSONPath: one as itself, several one a line. At most 10,000."""
    import jsonpath

    if not path.strip():
        raise InvalidInput("json_path", path, "is empty", remedy='Use "$.key[0]" or "$..name".')
    if len(path) > PATH_CHARACTERS or path.count("..") > 2:
        raise InvalidInput("json_path", path, "is too wide", remedy='Use at most two "..".')
    if any(part in path for part in _SLOW_PARTS):
        raise InvalidInput("json_path", path, "uses a pattern", remedy="Use grep for patterns.")
    values = _load(text)
    wanted = path if path.lstrip().startswith(("$", "@", "^", "/")) else f"$.{path.strip()}"
    found: list[Any] = []
    cut = ""
    deadline = time.monotonic() + LONGEST_SECONDS
    try:
        for match in jsonpath.finditer(wanted, values):
            found.append(match.value if hasattr(match, "value") else match.obj)
            if len(found) >= MOST_VALUES or time.monotonic() > deadline:
                cut = ", and more"
                break
    except (jsonpath.JSONPathError, ValueError, TypeError, RecursionError) as error:
        problem = " ".join(str(error).split())[:200]
        raise InvalidInput(
            "json_path", path, f"cannot be used ({problem})", remedy='Use "$.key[0]" or "$..name".'
        ) from None
    if not found:
        return made_for("", f"no value at {wanted}; {_keys_of(values)}")
    if len(found) == 1:
        (one,) = found
        written = one if isinstance(one, str) else json.dumps(one, ensure_ascii=False, indent=2)
        return made_for(written, "1 value")
    lines = "".join(json.dumps(value, ensure_ascii=False) + "\n" for value in found)
    return made_for(lines, f"{len(found):,} values{cut}, one a line")


def _load(text: str) -> Any:
    """The value a text is, or those of its lines as an array, up to the first that is none."""
    with suppress(ValueError, RecursionError):
        return json.loads(text)
    records: list[Any] = []
    with suppress(ValueError, RecursionError):
        for line in filter(str.strip, text.splitlines()):
            records.append(json.loads(line))  # noqa: PERF401 - what comes before a bad line stays
    if not records:
        raise InvalidInput(
            "json_path", text[:40], "cannot look into a result that is not JSON",
            remedy="Use lines, range or grep.",
        )  # fmt: skip
    return records


def _keys_of(value: Any) -> str:
    if isinstance(value, dict):
        return "the keys are " + ", ".join(list(value)[:20])
    if isinstance(value, list):
        return f"it is an array of {len(value):,} items"
    return f"it is one {type(value).__name__}"


# ----------------------------------------------------------------------------
# Which part of a result is meant: `range="0-500"`, `lines="10-20"`, `lines="-5"`.


_SPAN = compile_late(
    r"\s*(?:-\s*(?P<newest>\d{1,15})"
    r"|(?P<first>\d{1,15})\s*(?:(?P<to>-|:|–|\.\.|,)\s*(?P<last>\d{1,15})?)?)\s*"
)

Span = str | int | Sequence[int]


def read_range(value: Span, length: int) -> tuple[int, int]:
    """Start and end (not included) of a range: "0-500", "500-", "-200" for the last, (0, 500).

    What lies outside is cut off. A single number asks for everything from there.
    """
    asked = _read(value, "range", 'Use "0-500", "500-" or "-200" (the last 200).')
    if asked["newest"] is not None:
        return max(length - int(asked["newest"]), 0), length
    start = min(int(asked["first"]), length)
    return start, length if asked["last"] is None else min(int(asked["last"]), length)


def read_lines(value: Span, text: str) -> tuple[int, int]:
    """Where in `text` the lines asked for begin and end: "10-20" (both included), "10", "-5".

    Lines count from 1 and end with `\\n`, which belongs to them.
    """
    asked = _read(value, "lines", 'Use "10-20", "10", "10-" or "-5" (the last 5).')
    starts = [0, *(match.end() for match in re.finditer("\n", text))]
    starts += [len(text)] if starts[-1] < len(text) else []  # where each begins, and the end
    if asked["newest"] is not None:
        return starts[max(len(starts) - 1 - int(asked["newest"]), 0)], len(text)
    first = max(int(asked["first"]), 1)
    last = asked["last"] if asked["to"] else asked["first"]
    start = starts[min(first, len(starts)) - 1]
    end = len(text) if last is None else starts[min(int(last), len(starts) - 1)]
    return start, max(start, end)


def _read(value: Span, name: str, remedy: str) -> re.Match[str]:
    """What is asked for, however it is written: `newest`, or `first` and what follows it."""
    written = str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""
    if isinstance(value, list | tuple) and all(type(n) is int and n >= 0 for n in value):
        written = "-".join(map(str, value)) if len(value) == 2 else ""
    match = _SPAN.fullmatch(written)
    if match is None:
        raise InvalidInput(name, value, "is no range", remedy=remedy)
    if match["last"] is not None and int(match["last"]) < int(match["first"]):
        raise InvalidInput(name, value, "ends before it begins", remedy=remedy)
    return match


# ----------------------------------------------------------------------------
# Whatever a tool gave back, as exact bytes, and as text where it is text.


Form = Literal["text", "json", "binary"]
ENCODING = ("utf-8", "surrogatepass")
"""How text is written: a lone surrogate, which is no Unicode text, still reads back the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Payload:
    """A result as it is kept. `text` is None for binary data."""

    data: bytes
    text: str | None
    form: Form
    media_type: str

    @property
    def content(self) -> str | bytes:
        """What a summary is made from."""
        return self.data if self.text is None else self.text


def to_payload(output: object, *, media_type: str = "") -> Payload:
    """`output` as bytes: text as UTF-8, bytes as they are, everything else as JSON.

    None is the empty text. A value that JSON cannot write is kept as Python
    prints it. No value raises.
    """
    if isinstance(output, bytes | bytearray | memoryview):
        return from_bytes(bytes(output), media_type=media_type)
    form: Form = "text"
    if isinstance(output, str | None):
        text = str(output or "")
    else:
        text, form = _written(output)
    kind = media_type or ("application/json" if form == "json" else "text/plain")
    return Payload(data=text.encode(*ENCODING), text=text, form=form, media_type=kind)


def from_bytes(data: bytes, *, media_type: str = "", form: str = "") -> Payload:
    """Bytes as they were kept; without a `form`, text if they are UTF-8 without NUL."""
    if form != "binary":
        try:
            text = data.decode("utf-8") if not form else data.decode(*ENCODING)
        except UnicodeDecodeError:
            text = "\x00"
        if form or "\x00" not in text:
            kept: Form = "json" if form == "json" else "text"
            return Payload(data=data, text=text, form=kept, media_type=media_type or "text/plain")
    kind = media_type or sniff(data)[0]
    return Payload(data=data, text=None, form="binary", media_type=kind)


def plain(value: Any) -> Any:
    """`value` as JSON values a store takes: keys are texts, no NaN, no lone surrogate."""
    text, form = _written(value)
    clean = text.encode("utf-8", "replace").decode("utf-8")
    if form != "json":
        return clean
    try:
        return _finite(json.loads(clean), 0)
    except (ValueError, RecursionError):
        return clean


def _finite(value: Any, depth: int) -> Any:
    if depth > 50:
        return "…"
    if isinstance(value, dict):
        return {key: _finite(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item, depth + 1) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def _written(value: object) -> tuple[str, Form]:
    """`value` as JSON, or else as Python prints it."""
    with suppress(Exception):  # keys, cycles, depth, and whatever a foreign __str__ raises
        return json.dumps(value, ensure_ascii=False, default=_jsonable), "json"
    try:
        return repr(value), "text"
    except Exception as error:  # noqa: BLE001 - a foreign __repr__ may raise anything
        said = f"a {type(value).__name__} that cannot be printed ({type(error).__name__})"
        return said, "text"


def sendable(text: str) -> str:
    """`text` as UTF-8 can carry it: a lone surrogate becomes `?`."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def _jsonable(value: object) -> object:
    dump = getattr(value, "model_dump", None)
    if callable(dump) and not isinstance(value, type):
        return dump(mode="json")
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).decode("utf-8", "backslashreplace")
    if isinstance(value, set | frozenset | tuple):
        return sorted(value, key=repr)
    return str(value)


# ----------------------------------------------------------------------------
# Stand-ins for large tool results, their levels, and reading them page by page.
#
# A stand-in costs fewer tokens than its limit, for any counter under which the
# id alone fits (P33). Pages end where the limit is reached; put together they
# are the text, character for character (W1).


Detail = Literal["one", "five", "full"]
READ_TOOL = "memory_read"
NAME_CHARACTERS = 40
LINE_CHARACTERS = 200
_LINE_LENGTHS = (160, 130, 105, 85, 70, 55, 45, 35, 25, 15)
_CHARACTERS_A_TOKEN = 12


def stand_in(
    shape: Shape, *, result_id: str, tool: str, limit_tokens: int, count: TokenCounter
) -> str:
    """What goes to the model in place of a large result, below `limit_tokens`.

    The lines are shortened, then left out, until it fits; the id is always there.
    """
    text = result_id
    for text in _stand_ins(shape, result_id, tool):
        if count(text) < limit_tokens:
            break
    return text


def _stand_ins(shape: Shape, result_id: str, tool: str) -> Iterator[str]:
    name = clean_line(tool, limit_characters=NAME_CHARACTERS)
    read = f'{READ_TOOL}(id="{result_id}"'
    more = f"Kept whole. Read more: {read}, {' or '.join(shape.reads)})"
    facts = clean_line(", ".join(shape.counts), limit_characters=140)
    what = clean_line(f"{shape.what}: {facts}" if facts else shape.what, limit_characters=200)
    head = f"{name}: {what}" if name else what
    opening = "error" if shape.kind == "error" else "first"
    lines = [(name, line) for name, line in ((opening, shape.first), ("last", shape.last)) if line]
    for length in _LINE_LENGTHS:
        cleaned = ((name, clean_line(line, limit_characters=length)) for name, line in lines)
        told = (f"{name}: {shown}" for name, shown in cleaned if shown)
        yield "\n".join([head, *told, more])
    yield f"{head}\n{more}"
    yield f"{head}\n{read})"
    yield f"{what}\n{read})"
    yield f"{clean_line(shape.what, limit_characters=30)}\n{read})"
    yield f"{read})"
    yield f"{READ_TOOL} {result_id}"
    yield result_id


def one_line(shape: Shape, *, tool: str = "") -> str:
    """A result in one line: what it is, how much, and what it begins with."""
    facts = ", ".join(shape.counts)
    parts = [tool, f"{shape.what} ({facts})" if facts else shape.what, shape.first]
    return clean_line(": ".join(part for part in parts if part), limit_characters=LINE_CHARACTERS)


def five_lines(shape: Shape, *, tool: str = "") -> str:
    """A result in at most five lines: the one line, then what tells most of it."""
    lines = [one_line(shape, tool=tool)]
    further = [("", note) for note in shape.notes[:3]]
    for name, line in (*further, ("last: ", shape.last)):
        if shown := clean_line(line, limit_characters=LINE_CHARACTERS):
            lines.append(name + shown)
    return "\n".join(lines[:5])


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultPage:
    """One page. `content` goes to the model; `text` and `data` are exactly what it covers.

    `start` to `end` of `total` counts in `unit`s of what was asked for. `next`
    holds the arguments of the next read, or is None after the last page.
    """

    id: str
    content: str
    tokens: int
    ok: bool = True
    text: str = ""
    data: bytes = b""
    start: int = 0
    end: int = 0
    total: int = 0
    unit: str = "character"
    next: Mapping[str, Any] | None = None
    error: str = ""
    whole: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Selected:
    """What was asked for: consecutive characters or bytes of a whole, from `begin` to `end`.

    `note` tells of a whole that was made for the question, such as the lines that match.
    """

    whole: str | bytes
    begin: int
    end: int
    note: str = ""

    def show(self, first: int, last: int) -> str:
        """A piece as text; bytes in hexadecimal, or as text where they mostly are."""
        piece = self.whole[self.begin + first : self.begin + last]
        if isinstance(piece, str):
            return piece
        return piece.decode("utf-8", "backslashreplace") if self.readable else piece.hex(" ")

    @property
    def readable(self) -> bool:
        if isinstance(self.whole, str):
            return True
        sample = self.whole[:4_000]
        printable = sum(1 for byte in sample if 32 <= byte < 127 or byte in (9, 10, 13))
        return printable >= 0.85 * len(sample)

    def words(self, first: int, last: int) -> str:
        """What a piece is of the whole, in words."""
        begin, end, whole = self.begin + first, self.begin + last, self.whole
        if self.note:
            return self.note + (
                "" if (begin, end) == (0, self.end) else f", part {begin}-{end} of {self.end}"
            )
        if isinstance(whole, bytes):
            return f"bytes {begin}-{end} of {len(whole)}" + ("" if self.readable else " in hex")
        lines = whole.count("\n") + (0 if whole.endswith("\n") else 1)
        if first == last:
            size = f"{number(len(whole), 'character')}, {number(lines, 'line')}"
            return f"nothing there, the text has {size}"
        top = whole.count("\n", 0, begin) + 1
        bottom = whole.count("\n", 0, max(end - 1, 0)) + 1
        return f"characters {begin}-{end} of {len(whole)}, lines {top}-{bottom} of {lines}"


def made_for(text: str, note: str) -> Selected:
    """A text that was made for the question."""
    return Selected(whole=text, begin=0, end=len(text), note=note)


def turn_page(
    result_id: str,
    payload: Payload,
    asked: Mapping[str, Any],
    offset: int,
    *,
    limit_tokens: int,
    count: TokenCounter,
) -> ResultPage:
    """The page at `offset` in what is `asked` for (`range`, `lines`, `grep` or `json_path`).

    It has at most `limit_tokens`. Counters are not additive and may be odd, so every
    candidate is counted as it would be sent; the line above a page is left out where both
    do not fit. Where a page must be cut, it is cut after a line end if one is near.
    """
    if len(asked) > 1:
        raise InvalidInput(
            "arguments", " and ".join(asked), "cannot be used together",
            remedy="Give one of range, lines, grep, json_path.",
        )  # fmt: skip
    if isinstance(offset, bool) or not isinstance(offset, int) or offset < 0:
        raise InvalidInput("offset", offset, "is no offset", remedy="Use 0 or more.")
    chosen = _select(asked, payload)
    length = chosen.end - chosen.begin
    start = min(offset, length)

    def arguments(end: int) -> dict[str, Any]:
        """The same question from another offset, as a model would write it."""
        said = asked.items()
        shown = {k: f"{v[0]}-{v[1]}" if isinstance(v, tuple | list) else v for k, v in said}
        return {"id": result_id, **shown, **({"offset": end} if end else {})}

    def frame(end: int) -> str:
        pairs = arguments(end).items()
        again = ", ".join(f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in pairs)
        following = f"next: {READ_TOOL}({again})" if end < length else "end"
        return sendable(f"[{result_id}: {chosen.words(start, end)}; {following}]")

    def body(end: int) -> str:
        return sendable(chosen.show(start, end))

    def framed(end: int) -> str:
        return f"{frame(end)}\n{body(end)}"

    end, content = start, frame(start)
    if start == length:
        content = content if count(content) <= limit_tokens else ""
    for content_of in (framed, body) if start < length else ():
        size = min(length - start, limit_tokens * _CHARACTERS_A_TOKEN)
        while size and (tokens := count(content_of(start + size))) > limit_tokens:
            size = min(size * limit_tokens // tokens, size * 19 // 20)
        if not size:
            continue
        shown = body(start + size)
        line_end = shown.rfind("\n") + 1
        near = line_end > 0.6 * len(shown) and len(shown) == size < length - start
        if near and count(content_of(start + line_end)) <= limit_tokens:
            size = line_end
        end = start + size
        content = content_of(end)
        break
    if end == start < length:
        problem = "The token limit is too small to read."
        return refuse(result_id, problem, limit_tokens=limit_tokens, count=count)
    text = chosen.show(start, end)
    piece = chosen.whole[chosen.begin + start : chosen.begin + end]
    return ResultPage(
        id=result_id,
        content=content,
        tokens=count(content),
        text=text,
        data=piece if isinstance(piece, bytes) else text.encode(*ENCODING),
        start=start,
        end=end,
        total=length,
        unit="byte" if isinstance(piece, bytes) else "character",
        next=arguments(end) if end < length else None,
        whole=start == 0 and end == length,
    )


def refuse(result_id: str, problem: str, *, limit_tokens: int, count: TokenCounter) -> ResultPage:
    """A page that says what was wrong with the question, cut to the limit."""
    content = cut_to(sendable(problem), limit_tokens, count)
    return ResultPage(id=result_id, content=content, tokens=count(content), ok=False, error=problem)


def cut_to(text: str, limit_tokens: int, count: TokenCounter, *, note: str = "") -> str:
    """The beginning of a text that costs no more than it may, `note` included."""
    text = text[: _CHARACTERS_A_TOKEN * limit_tokens]
    while text and count(text + note) > limit_tokens:
        text = text[: len(text) * 4 // 5]
    return text + note


def _select(asked: Mapping[str, Any], payload: Payload) -> Selected:
    data, text = payload.data, payload.text
    way = next(iter(asked), "")
    value: Any = asked.get(way)
    if way in ("grep", "json_path") and not isinstance(value, str):
        raise InvalidInput(way, value, "is not a text", remedy="Pass a string.")
    if text is None and way == "json_path":
        raise InvalidInput(way, value, "cannot look into binary data", remedy="Use range.")
    whole: str | bytes = data if text is None else text
    if text is None and way in ("grep", "lines"):
        whole = data.decode("utf-8", "backslashreplace")
    if isinstance(whole, str):
        if way == "grep":
            return grep(whole, value)
        if way == "json_path":
            return find_json(whole, value)
        if way == "lines":
            begin, end = read_lines(value, whole)
            return Selected(whole=whole, begin=begin, end=end)
    begin, end = read_range(value, len(whole)) if way == "range" else (0, len(whole))
    return Selected(whole=whole, begin=begin, end=max(begin, end))


# ----------------------------------------------------------------------------
# The words in the middle of a long text, by which it is found though only its ends are kept.


READ_CHARACTERS = 400_000
KEPT_CHARACTERS = 12_000
_WINDOWS = 50
_SHARES = (1.0, 0.4, 0.2)
"""How much of the limit words of letters, mixed ones and numbers may take: each costs its time,
and every nth of a thousand ids is hardly ever the one that is looked for."""
_PIECE = 32


def spread(text: str) -> str:
    """`text`, or pieces from all over it that are `READ_CHARACTERS` together."""
    if len(text) <= READ_CHARACTERS:
        return text
    size = READ_CHARACTERS // _WINDOWS
    step = (len(text) - size) / (_WINDOWS - 1)
    starts = [round(step * number) for number in range(_WINDOWS)]
    return "\n".join(text[start : start + size] for start in starts)


def distinct_words(text: str, *, known: str = "", limit_characters: int = KEPT_CHARACTERS) -> str:
    """The different words of `text` that are not in `known`, separated by spaces.

    Where they are more than `limit_characters`, words of letters go before
    mixed ones and those before numbers, which have a smaller share, and of a
    sort that does not fit whole every nth stays.
    """
    seen = set(word_runs(known.lower()))
    seen |= STOP_WORDS
    sorts: tuple[list[str], list[str], list[str]] = ([], [], [])
    for word in dict.fromkeys(_pieces(text)):
        if word.lower() not in seen:
            sorts[_sort(word)].append(word)
    kept: list[str] = []
    left = limit_characters
    for words, share in zip(sorts, _SHARES, strict=True):
        chosen = _every_nth(words, min(left, int(share * limit_characters)))
        kept += chosen
        left -= sum(len(word) + 1 for word in chosen)
    return " ".join(kept)


def _pieces(text: str) -> Iterator[str]:
    tokens = dict.fromkeys(text.split())
    for word in word_runs(" ".join(tokens)):
        if 1 < len(word) <= MAX_WORD_CHARACTERS:
            yield word
        elif len(word) > MAX_WORD_CHARACTERS and not word.isascii():  # written without spaces
            yield from (word[at : at + _PIECE] for at in range(0, len(word), _PIECE))


def _sort(word: str) -> int:
    if word.isalpha():
        return 0
    return 2 if word.replace(".", "").replace(",", "").replace("-", "").isdigit() else 1


def _every_nth(words: list[str], limit_characters: int) -> list[str]:
    """All of them if they fit, else as many as surely do, from all over."""
    size = sum(len(word) + 1 for word in words)
    if size <= limit_characters:
        return words
    wanted = len(words) * limit_characters // size
    chosen = [words[number * len(words) // wanted] for number in range(wanted)]
    while sum(len(word) + 1 for word in chosen) > limit_characters:
        chosen.pop()
    return chosen
