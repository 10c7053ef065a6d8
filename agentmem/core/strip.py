"""Take our own blocks out of text, so that nothing we injected is stored again (P21).

A block is known by its markup, without the secret, however it was quoted:
with prefixes, in a fence, escaped for HTML or JSON, with other line breaks, in
another case. Cut blocks are removed up to the end of whatever quotes them.
With `known` fingerprints, pieces that lost all markup are found as well.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Any, overload

from agentmem.core.checks import require_text
from agentmem.core.context import BEGIN_LINE, STUB
from agentmem.core.conversation import as_dict, is_reference, is_stub
from agentmem.core.echoes import echoes
from agentmem.core.message_parts import makes_calls
from agentmem.core.patterns import compile_late
from agentmem.core.quotations import Quotations
from agentmem.core.skeleton import Seen, see
from agentmem.core.values import dataclass

_TAG = compile_late(
    r"""
    (?:<\s{0,4}!?[\s–—-]{0,8})?agentmem\W{1,24}reference\W{1,24}[0-9a-f]{16}\W{1,24}(?P<line>begins|ends)(?:[\s–—-]{0,8}>)?
    | <\s{0,8}(?P<close>/?)\s{0,8}
      (?P<name>knowledge_context|user_profile|related_knowledge|source|working_memory|stored_result
      |conversation_summary)
      (?P<attributes>\W{1,24}(?:count|total_found|index|url|id|tool)\b)? (?:[^<>]{0,4000}>)?
    """,
    re.VERBOSE | re.IGNORECASE,
)
_WORDS = ("agentmem", "knowledge", "source", "stored_result")
_LINE = "line"
_ROOT = "knowledge_context"
_DEPTH = MappingProxyType(
    {
        _LINE: 0,
        _ROOT: 1,
        "user_profile": 2,
        "related_knowledge": 2,
        "working_memory": 2,
        "conversation_summary": 2,
        "source": 3,
        "stored_result": 3,
    }
)
_DISTINCTIVE = (_ROOT, "related_knowledge")
_WITH_ATTRIBUTES = ("related_knowledge", "source", "stored_result")
_LETTER = compile_late(r"[^\W_]")
_REST_OF_LINE = compile_late(r"[ \t]*\n?")
_OPENING_FENCE = compile_late(r"[ \t>]*(?:`{3,}|~{3,})[^\n`]*\n")
_CLOSING_FENCE = compile_late(r"[ \t>]*(?:`{3,}|~{3,})[ \t]*(?:\n|\Z)")
_BEGIN_LETTERS = "".join(_LETTER.findall(BEGIN_LINE.format(boundary="")))
_SKIPPED_KEYS = ("role", "type", "id", "name", "tool_call_id", "tool_use_id", "call_id")


@dataclass(slots=True)
class _Mark:
    """A piece of our markup, with its place in the view and in the text."""

    name: str
    opens: bool
    certain: bool
    view: tuple[int, int]
    place: tuple[int, int]


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
    if any(word in lowered for word in _WORDS):
        marks = _accepted(_marks(seen), seen.text)
        text = _without(text, _regions(marks, seen, text)) if marks else text
    if known:
        text = _without(text, echoes(text, known))
    return text.replace(STUB, "")


def _marks(seen: Seen) -> list[_Mark]:
    """Everything that could be our markup, in order."""
    marks: list[_Mark] = []
    for match in _TAG.finditer(seen.text):
        if line := match["line"]:
            name, opens, certain = _LINE, line.lower() == "begins", True
        else:
            name, opens = match["name"].lower(), not match["close"]
            certain = opens and name in _WITH_ATTRIBUTES and bool(match["attributes"])
        marks.append(_Mark(name, opens, certain, match.span(), seen.span(*match.span())))
    return marks


def _accepted(marks: list[_Mark], seen: str) -> list[_Mark]:
    """The marks that are ours: certain by themselves, or by what they touch or pair with.

    A tag alone in a sentence touches nothing and pairs with nothing certain.
    """
    beside: list[list[int]] = [[] for _ in marks]
    latest: dict[str, int] = {}
    for at, mark in enumerate(marks):
        if at and _touch(marks[at - 1], mark, seen):
            beside[at].append(at - 1)
            beside[at - 1].append(at)
            if mark.name in _DISTINCTIVE or marks[at - 1].name in _DISTINCTIVE:
                mark.certain = marks[at - 1].certain = True
        name = _ROOT if mark.name == _LINE else mark.name
        pair = latest.get(name)
        if pair is not None and marks[pair].opens and not mark.opens:
            beside[at].append(pair)
            beside[pair].append(at)
        latest[name] = at
    reached = [at for at, mark in enumerate(marks) if mark.certain]
    while reached:
        for other in beside[reached.pop()]:
            if not marks[other].certain:
                marks[other].certain = True
                reached.append(other)
    return [mark for mark in marks if mark.certain]


def _touch(before: _Mark, after: _Mark, seen: str) -> bool:
    """Whether two marks follow each other as they do in a block, with no word between them."""
    step = _DEPTH[after.name] - _DEPTH[before.name]
    if before.opens:
        follows = after.opens and step == 1
    else:
        siblings = step == 0 and _DEPTH[after.name] > _DEPTH[_ROOT]
        follows = siblings if after.opens else step == -1
    return follows and not _LETTER.search(seen, before.view[1], after.view[0])


def _regions(marks: list[_Mark], seen: Seen, text: str) -> list[tuple[int, int]]:
    """The spans of `text` that a block fills.

    What follows an opening mark or precedes a closing one belongs to a block,
    as far as the quotation reaches.
    """
    quotations = Quotations(text, seen)
    limits = [quotations.around(mark.view) for mark in marks]
    regions = [mark.place for mark in marks]
    for at in range(len(marks) + 1):
        before = marks[at - 1] if at else None
        after = marks[at] if at < len(marks) else None
        start = before.place[1] if before else 0
        end = after.place[0] if after else len(text)
        if before and before.opens:
            regions.append((start, min(end, limits[at - 1][1])))
        if after and not after.opens:
            regions.append((max(start, limits[at][0]), end))
        if before and after and _touch(before, after, seen.text):
            regions.append((start, end))
        if after and not before and _is_rest_of_line(seen.text, after):
            regions.append((start, end))
    return regions


def _is_rest_of_line(seen: str, mark: _Mark) -> bool:
    """Whether all that stands before the root is the end of a begin line that was cut off."""
    if mark.name != _ROOT or not mark.opens or mark.view[0] > 2 * len(BEGIN_LINE):
        return False
    before = seen[: mark.view[0]].rstrip()
    return before.endswith(">") and _BEGIN_LETTERS.endswith("".join(_LETTER.findall(before)))


def _without(text: str, regions: list[tuple[int, int]]) -> str:
    """`text` without the regions, their line prefixes and the fence that held nothing else."""
    kept: list[str] = []
    done = 0
    for start, end in _merged(regions):
        before = text[done : max(done, start)]
        done = max(done, end)
        line = before.rpartition("\n")[2]
        if not line.strip(" \t>"):
            before = before.removesuffix(line) if line else before
            following = _REST_OF_LINE.match(text, done)
            done = following.end() if following else done
            opening = before.rfind("\n", 0, -1) + 1
            closing = _CLOSING_FENCE.match(text, done)
            if closing and _OPENING_FENCE.fullmatch(before, opening):
                before, done = before[:opening], closing.end()
        kept.append(before)
    return "".join((*kept, text[done:]))


def _merged(regions: list[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, end in sorted(regions):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        elif start < end:
            merged.append((start, end))
    return merged
