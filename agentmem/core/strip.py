"""Take our own blocks out of text, so that nothing we injected is stored again (P21).

A block is known by its markup, without the secret, however it was quoted:
with prefixes, in a fence, escaped for HTML or JSON, with other line breaks, in
another case. Cut blocks are removed up to the end of whatever quotes them.
With `known` fingerprints, pieces that lost all markup are found as well.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, overload

from agentmem.core.checks import require_text
from agentmem.core.context import BEGIN_LINE, STUB
from agentmem.core.echoes import echoes
from agentmem.core.injection import as_dict, is_reference, is_stub
from agentmem.core.message_parts import makes_calls
from agentmem.core.skeleton import Seen, see

_TAG = re.compile(
    r"""
    (?:<\W{0,8})?agentmem\W{1,24}reference\W{1,24}[0-9a-f]{16}\W{1,24}(?P<line>begins|ends)(?:[\s–—-]{0,8}>)?
    | <\s{0,8}(?P<close>/?)\s{0,8}
      (?P<name>knowledge_context|user_profile|related_knowledge|source|working_memory|stored_result
      |conversation_summary)
      (?P<attributes>\W{1,24}(?:count|total_found|index|url|id|tool)\b)? (?:[^<>]{0,4000}>)?
    """,
    re.VERBOSE | re.IGNORECASE,
)
_WORDS = ("agentmem", "knowledge", "source", "stored_result")
_DISTINCTIVE = ("knowledge_context", "related_knowledge")
_WITH_ATTRIBUTES = ("related_knowledge", "source", "stored_result")
_LETTER = re.compile(r"[^\W_]")
_FENCE = re.compile(r"^[ \t>]*(?:`{3,}|~{3,})[^\n]*$", re.MULTILINE)
_PREFIX = re.compile(r"[ \t]*((?:[>|#;*]|//)[ \t]?)+")
_REST_OF_LINE = re.compile(r"[ \t]*\n?")
_EMPTY_FENCE = re.compile(r"(^[ \t>]*(`{3,}|~{3,})[^\n`]*\n)\Z", re.MULTILINE)
_BEGIN_LETTERS = "".join(_LETTER.findall(BEGIN_LINE.format(boundary="")))
_SKIPPED_KEYS = ("role", "type", "id", "name", "tool_call_id", "tool_use_id", "call_id")


@dataclass(slots=True)
class _Mark:
    """A piece of our markup, with its place in the view and in the text."""

    name: str
    opens: bool
    start: int
    end: int
    text_start: int
    text_end: int
    certain: bool


@overload
def strip(content: str, *, known: Collection[bytes] = ...) -> str: ...
@overload
def strip(content: Iterable[Any], *, known: Collection[bytes] = ...) -> list[dict[str, Any]]: ...
def strip(
    content: str | Iterable[Any], *, known: Collection[bytes] = ()
) -> str | list[dict[str, Any]]:
    """`content`, a text or chat messages, without anything our blocks said.

    Messages that hold nothing else are left out; in the others every text is
    stripped, tool arguments and results included. Text outside a block stays
    as it is; a tag that somebody merely mentions is not a block. `known` takes
    `fingerprints` of what was injected.
    """
    if isinstance(content, str):
        return _strip_text(require_text(content, "content"), known)
    kept: list[dict[str, Any]] = []
    for at, message in enumerate(content):
        plain = as_dict(message, at)
        if is_stub(plain) or is_reference(plain):
            continue
        stripped = {
            key: value if key in _SKIPPED_KEYS else _strip_value(value, known)
            for key, value in plain.items()
        }
        emptied = stripped.get("content") in ("", []) and plain.get("content") not in ("", [], None)
        if not emptied or makes_calls(stripped):
            kept.append(stripped)
    return kept


def _strip_value(value: Any, known: Collection[bytes]) -> Any:
    if isinstance(value, str):
        return _strip_text(value, known)
    if isinstance(value, Mapping):
        return {k: v if k in _SKIPPED_KEYS else _strip_value(v, known) for k, v in value.items()}
    if isinstance(value, list | tuple):
        stripped = [_strip_value(item, known) for item in value]
        return [new for new, old in zip(stripped, value, strict=True) if not _emptied(new, old)]
    return value


def _emptied(new: Any, old: Any) -> bool:
    """Whether a list item was our block and nothing else."""
    if isinstance(new, Mapping):
        new, old = new.get("text"), old.get("text")
    return isinstance(new, str) and not new and new != old


def _strip_text(text: str, known: Collection[bytes]) -> str:
    seen = see(text)
    lowered = seen.text.lower()
    regions: list[tuple[int, int]] = []
    if any(word in lowered for word in _WORDS):
        marks = _accepted(_marks(seen), seen.text)
        regions = _regions(marks, seen, text)
    text = _without(text, regions)
    if known:
        text = _without(text, echoes(text, known))
    return text.replace(STUB, "")


def _marks(seen: Seen) -> list[_Mark]:
    """Everything that could be our markup, in order."""
    marks: list[_Mark] = []
    for match in _TAG.finditer(seen.text):
        if line := match["line"]:
            name, opens, certain = "line", line.lower() == "begins", True
        else:
            name, opens = match["name"].lower(), not match["close"]
            certain = opens and name in _WITH_ATTRIBUTES and bool(match["attributes"])
        marks.append(_Mark(name, opens, *match.span(), *seen.span(*match.span()), certain))
    return marks


def _accepted(marks: list[_Mark], seen: str) -> list[_Mark]:
    """The marks that are ours: certain by themselves, or by what they touch or pair with.

    A tag alone in a sentence touches nothing and pairs with nothing certain.
    """
    touching = [
        not _LETTER.search(seen, before.end, after.start) for before, after in pairwise(marks)
    ]
    for at, touches in enumerate(touching):
        pair = marks[at : at + 2]
        if touches and any(mark.name in _DISTINCTIVE for mark in pair):
            for mark in pair:
                mark.certain = True
    changed = True
    while changed:
        changed = False
        for at, mark in enumerate(marks):
            if mark.certain:
                continue
            beside = (at > 0 and touching[at - 1] and marks[at - 1].certain) or (
                at < len(touching) and touching[at] and marks[at + 1].certain
            )
            if beside or _pairs(marks, at):
                mark.certain = changed = True
    return [mark for mark in marks if mark.certain]


def _pairs(marks: list[_Mark], at: int) -> bool:
    """Whether the nearest mark of the same name, on the side this one faces, is certainly ours."""
    mark = marks[at]
    others = marks[at + 1 :] if mark.opens else marks[:at][::-1]
    root = mark.name == "knowledge_context"
    for other in others:
        if other.name == mark.name or (root and other.name == "line"):
            return other.certain and other.opens != mark.opens
    return False


def _regions(marks: list[_Mark], seen: Seen, text: str) -> list[tuple[int, int]]:
    """The spans of `text` that a block fills.

    What follows an opening mark or precedes a closing one belongs to a block,
    as far as the quotation reaches.
    """
    regions = [(mark.text_start, mark.text_end) for mark in marks]
    for before, after in zip([None, *marks], [*marks, None], strict=True):
        start = before.text_end if before else 0
        end = after.text_start if after else len(text)
        if before and before.opens:
            regions.append((start, min(end, _quoted(before, marks, seen, text)[1])))
        if after and not after.opens:
            regions.append((max(start, _quoted(after, marks, seen, text)[0]), end))
        if before and after and not _LETTER.search(seen.text, before.end, after.start):
            regions.append((start, end))
        if after and after.opens and _is_rest_of_begin_line(seen.text[: after.start]):
            regions.append((start, end))
    return sorted(regions)


def _is_rest_of_begin_line(text: str) -> bool:
    letters = "".join(_LETTER.findall(text[-2 * len(BEGIN_LINE) :]))
    return len(text) <= 2 * len(BEGIN_LINE) and bool(letters) and _BEGIN_LETTERS.endswith(letters)


def _quoted(mark: _Mark, marks: list[_Mark], seen: Seen, text: str) -> tuple[int, int]:
    """From where to where the text around a mark is one quotation: the most a cut block fills."""
    if escapes := _newline_escapes(mark, seen, text):
        delimiter = re.compile(r"(?<!\\)" + r"\\" * (escapes - 1) + '"')
        ends = [m.start() for m in delimiter.finditer(text, mark.text_end)][:1]
        starts = [m.end() for m in delimiter.finditer(text, 0, mark.text_start)][-1:]
        return (starts or [0])[0], (ends or [len(text)])[0]
    line_start = text.rfind("\n", 0, mark.text_start) + 1
    if prefix := _PREFIX.match(text, line_start, mark.text_start):
        return _prefixed(text, mark, prefix[1].strip())
    return _fenced(text, mark, marks)


def _newline_escapes(mark: _Mark, seen: Seen, text: str) -> int:
    """How many backslashes write a line break around the mark: 0 where it is a real one."""
    after, before = seen.text.find("\n", mark.end), seen.text.rfind("\n", 0, mark.start)
    for at in (after, before) if mark.opens else (before, after):
        if at >= 0:
            start, end = seen.span(at, at + 1)
            written = text[start:end]
            return written.count("\\") if written[-1:] in ("n", "r") else 0
    return 0


def _prefixed(text: str, mark: _Mark, symbol: str) -> tuple[int, int]:
    """The run of lines around the mark that have the prefix; a blank line ends it.

    A line without prefix that is not blank continues a paragraph of the
    quotation, as in Markdown.
    """
    start = text.rfind("\n", 0, mark.text_start) + 1
    while start > 0:
        above = text.rfind("\n", 0, start - 1) + 1
        line = text[above : start - 1].strip()
        if not line.startswith(symbol):
            break
        start = above
    end = mark.text_end
    while (line_end := text.find("\n", end)) >= 0:
        below = text.find("\n", line_end + 1)
        if not text[line_end : below if below >= 0 else len(text)].strip():
            return start, line_end
        end = line_end + 1
    return start, len(text)


def _fenced(text: str, mark: _Mark, marks: list[_Mark]) -> tuple[int, int]:
    """The code fence that a block fills from its first line or to its last, else the whole text.

    Fences in the quoted content look like the real one, so the farthest counts.
    """
    start, end = 0, len(text)
    for other in marks:
        if other.text_start <= mark.text_start and (above := _fence_above(text, other)):
            start = above
            end = max((m.start() for m in _FENCE.finditer(text, other.text_end)), default=end)
        elif other.text_start >= mark.text_start and not start and _fence_below(text, other):
            first = _FENCE.search(text, 0, mark.text_start)
            start = min(first.end() + 1, mark.text_start) if first else 0
    return start, end


def _fence_above(text: str, mark: _Mark) -> int:
    """Where the mark's line starts if the line above it is a fence, else 0."""
    line_start = text.rfind("\n", 0, mark.text_start) + 1
    above = text.rfind("\n", 0, max(0, line_start - 1)) + 1
    return line_start if line_start and _FENCE.match(text, above, line_start - 1) else 0


def _fence_below(text: str, mark: _Mark) -> bool:
    below = text.find("\n", mark.text_end) + 1
    return bool(below and _FENCE.match(text, below))


def _without(text: str, regions: list[tuple[int, int]]) -> str:
    """`text` without the regions, their line prefixes and the fence that held nothing else."""
    kept = ""
    done = 0
    for start, end in _merged(regions):
        before = text[done:start]
        line = before.rpartition("\n")[2]
        if not line.strip(" \t>"):
            before = before[: len(before) - len(line)]
            following = _REST_OF_LINE.match(text, end)
            done = following.end() if following else end
        else:
            done = end
        kept += before
        closing = _FENCE.match(text, done)
        opening = _EMPTY_FENCE.search(kept)
        if closing and opening:
            kept, done = kept[: opening.start()], min(len(text), closing.end() + 1)
    return kept + text[done:]


def _merged(regions: list[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, end in sorted(regions):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        elif start < end:
            merged.append((start, end))
    return merged
