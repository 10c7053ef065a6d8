"""The budget and the fates of packages as text that fits a terminal."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from agentmem.core.budget import Fate
from agentmem.core.budget_report import Budget
from agentmem.core.checks import require_count

LEAST_COLUMNS = 40
_WIDEST_BAR = 60
_NARROWEST_BAR = 6
_EIGHTHS = " ▏▎▍▌▋▊▉█"


def render_budget(budget: Budget, *, columns: int = 80, ascii_only: bool = False) -> str:
    """The budget as text, at most `columns` wide (40 or more).

    The gauge shows how much of what is available is used; shares and bars in
    the table are of what is used, so they add up to 100 %. `ascii_only` draws
    with `#` and `.` for terminals without Unicode.
    """
    require_count(columns, "columns", least=LEAST_COLUMNS)
    pen = _Pen(ascii_only=ascii_only)
    used = f"{budget.used_tokens:,} of {budget.available_tokens:,} tokens"
    lines = [*_spread("Context budget", used, columns), *_gauge(budget, columns, pen), ""]
    lines += _table(budget, columns, pen)
    if budget.warnings:
        lines.append("")
        for warning in budget.warnings:
            lines += _hang("! ", pen.wrap(warning.text, columns - 2))
    return "\n".join(line.rstrip() for line in lines)


def render_fates(
    fates: Sequence[Fate], *, columns: int = 80, ascii_only: bool = False, kept_too: bool = False
) -> str:
    """What was cut or left out and why, at most `columns` wide; `kept_too` lists everything.

    Neighbours of one type with one reason share a line that says how many
    they are and what they need together.
    """
    require_count(columns, "columns", least=LEAST_COLUMNS)
    pen = _Pen(ascii_only=ascii_only)
    shown = [f for f in fates if kept_too or f.outcome in ("cut", "dropped")]
    if not shown:
        return "Nothing was cut or left out."
    rows = [("Type", "Id", "Tokens", "Why")]
    for (kind, why), group in groupby(shown, key=lambda f: (f.package.type, f.reason)):
        packages = [fate.package for fate in group]
        name = packages[0].id if len(packages) == 1 else f"{len(packages):,} items"
        rows.append((kind, name, f"{sum(p.tokens for p in packages):,}", why))
    number = max(len(row[2]) for row in rows)
    # Each name column gets a fifth of the line at most, the reason all that is left.
    kind_columns, id_columns = (
        min(max(_width(pen.clean(row[i])) for row in rows), columns // 5 + 2) for i in (0, 1)
    )
    left = columns - kind_columns - id_columns - number - 6
    if left < 16:
        return "\n".join(_narrow_fate(row, columns, pen) for row in rows[1:])
    lines: list[str] = []
    for kind, name, tokens, why in rows:
        start = f"{pen.cell(kind, kind_columns)}  {pen.cell(name, id_columns)}  "
        lines += _hang(f"{start}{tokens.rjust(number)}  ", pen.wrap(why, left))
    return "\n".join(line.rstrip() for line in lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pen:
    """Draws with Unicode marks, or with ASCII only."""

    ascii_only: bool

    def gauge(self, share: float, columns: int) -> str:
        on, off = ("#", ".") if self.ascii_only else ("█", "░")
        full = _cells(share, columns)
        return on * full + off * (columns - full)

    def bar(self, share: float, columns: int) -> str:
        if self.ascii_only:
            return "#" * _cells(share, columns)
        whole, eighths = divmod(_cells(share, columns * 8), 8)
        return "█" * whole + _EIGHTHS[eighths].strip()

    def clean(self, text: str) -> str:
        """`text` on one line, without characters that move the cursor."""
        if self.ascii_only:
            return text if text.isascii() and text.isprintable() else ascii(text)[1:-1]
        return "".join(c if c.isprintable() else "\ufffd" for c in text)

    def cut(self, text: str, columns: int) -> str:
        text = self.clean(text)
        if _width(text) <= columns:
            return text
        mark = "..." if self.ascii_only else "…"
        return _fitting(text, columns - len(mark)) + mark

    def cell(self, text: str, columns: int) -> str:
        text = self.cut(text, columns)
        return text + " " * (columns - _width(text))

    def wrap(self, text: str, columns: int) -> list[str]:
        lines: list[str] = []
        line = ""
        for word in self.clean(text).split(" "):
            longer = f"{line} {word}" if line else word
            if _width(longer) <= columns:
                line = longer
                continue
            if line:
                lines.append(line)
            while _width(word) > columns:
                lines.append(_fitting(word, columns))
                word = word[len(lines[-1]) :]  # noqa: PLW2901  # the rest of a word too long
            line = word
        return [*lines, line]


def _gauge(budget: Budget, columns: int, pen: _Pen) -> list[str]:
    dot = "|" if pen.ascii_only else "·"
    left = f"{abs(budget.remaining_tokens):,} {'over' if budget.over_budget else 'left'}"
    said = f"{budget.percent:,.1f} %  {left} {dot} {budget.reserved_tokens:,} reserved"
    width = columns - len(said) - 4
    share = budget.used_tokens / max(1, budget.available_tokens)
    if width < 8:
        return [f"[{pen.gauge(share, columns - 2)}]", *pen.wrap(said, columns)]
    return [f"[{pen.gauge(share, width)}]  {said}"]


def _table(budget: Budget, columns: int, pen: _Pen) -> list[str]:
    used = max(1, budget.used_tokens)
    rows: list[tuple[str, int, int, bool]] = []
    for part in budget.components:
        rows.append((part.name.replace("_", " ").capitalize(), part.items, part.tokens, True))
        if len(part.by_type) > 1:
            rows += [(f"  {use.type}", use.items, use.tokens, False) for use in part.by_type]
    head = ("Component", "Items", "Tokens", "Share")
    cells = [
        (name, f"{items:,}", f"{tokens:,}", f"{100 * tokens / used:.1f} %" if whole else "")
        for name, items, tokens, whole in rows
    ]
    sizes = [max(_width(pen.clean(row[i])) for row in (head, *cells)) for i in range(4)]
    numbers = sum(sizes[1:]) + 6
    name = max(8, min(sizes[0], columns - numbers))
    bar = min(_WIDEST_BAR, columns - numbers - name - 2)
    lines: list[str] = []
    for title, *said in (head, *cells):
        aligned = "  ".join(cell.rjust(size) for cell, size in zip(said, sizes[1:], strict=True))
        lines.append(f"{pen.cell(title, name)}  {aligned}")
    if bar >= _NARROWEST_BAR:
        for place, (_, _, tokens, whole) in enumerate(rows, start=1):
            if whole:
                lines[place] += "  " + pen.bar(tokens / used, bar)
    return [pen.cut(line, columns) for line in lines]


def _narrow_fate(row: tuple[str, str, str, str], columns: int, pen: _Pen) -> str:
    kind, name, tokens, why = row
    first = pen.cut(f"{kind}  {name}  {tokens}", columns)
    return "\n".join([first, *("  " + line for line in pen.wrap(why, columns - 2))])


def _hang(start: str, lines: Sequence[str]) -> list[str]:
    """`lines` after `start`, the later ones indented as far."""
    indent = " " * _width(start)
    return [start + lines[0], *(indent + line for line in lines[1:])]


def _spread(left: str, right: str, columns: int) -> list[str]:
    gap = columns - len(left) - len(right)
    return [f"{left}{' ' * gap}{right}"] if gap >= 2 else [left, right]


def _cells(share: float, columns: int) -> int:
    """How many cells of a bar are on; anything above nothing shows, and only all shows all."""
    share = min(1.0, max(0.0, share))
    if share in (0.0, 1.0):
        return int(share) * columns
    return min(max(1, round(share * columns)), max(1, columns - 1))


def _fitting(text: str, columns: int) -> str:
    kept = 0
    for place, character in enumerate(text):
        kept += _width(character)
        if kept > columns:
            return text[: max(1, place)]
    return text


def _width(text: str) -> int:
    """How many terminal cells a text takes: wide characters two, combining marks none."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )
