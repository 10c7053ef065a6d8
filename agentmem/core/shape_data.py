"""Structured results: JSON, JSON lines, CSV and other tables."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from agentmem.core.patterns import compile_late
from agentmem.core.shape_values import LINE_CHARACTERS, Shape, ends, number, share, some

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
    first = _compact(items[0]) if items else ""
    last = _compact(items[-1]) if len(items) > 1 else ""
    return Shape(
        kind="json", what=what, counts=tuple(counts), first=first, last=last, notes=notes,
        reads=('json_path="$[0]"', 'grep="…"'),
    )  # fmt: skip


def _object(value: Mapping[str, Any]) -> Shape:
    keys = list(value)
    sizes = [
        f"{key}: {number(len(value[key]), 'item')}"
        for key in keys[:200]
        if isinstance(value[key], list | dict)
    ]
    first = f"{keys[0]}: {_compact(value[keys[0]])}" if keys else ""
    last = f"{keys[-1]}: {_compact(value[keys[-1]])}" if len(keys) > 1 else ""
    wide = next(
        (key for key in keys if isinstance(value[key], list | dict)), keys[0] if keys else ""
    )
    path = json.dumps(f"$.{wide}" if wide.isidentifier() and len(wide) <= 30 else "$.*")
    return Shape(
        kind="json", what="JSON object", counts=(_named_keys(keys), *sizes[:2]),
        first=first, last=last, notes=(f"keys: {_listed(keys)}",),
        reads=(f"json_path={path}", 'grep="…"'),
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
        kind="json", what="JSON lines", counts=(number(count, "record"),),
        first=_compact(first), last=_compact(last), notes=(f"keys: {_listed(keys)}",),
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
    if not usual or sum(1 for width in widths if width == usual) < 0.95 * len(widths):
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
    first, last = ends(lines)
    counts = (number(max(rows, 0), "row"), number(columns, "column"))
    return Shape(kind="table", what=what, counts=counts, first=first, last=last)


def _kind(value: Any) -> str:
    if isinstance(value, dict):
        return "object"
    if isinstance(value, list):
        return "array"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    return "string" if isinstance(value, str) else "null"


def _compact(value: Any) -> str:
    """A value on one line; a long one is cut before it is written whole."""
    if isinstance(value, str):
        return json.dumps(value[:LINE_CHARACTERS], ensure_ascii=False)
    if isinstance(value, list):
        value = value[:20]
    elif isinstance(value, dict):
        value = dict(list(value.items())[:20])
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
