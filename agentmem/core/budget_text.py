"""The budget and the fates of packages as text that fits a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from agentmem.core.budget import Fate
from agentmem.core.budget_report import Budget
from agentmem.core.checks import require_count
from agentmem.core.layout import Pen, hang, width_of

LEAST_COLUMNS = 40
_WIDEST_BAR = 60
_NARROWEST_BAR = 6


def render_budget(budget: Budget, *, columns: int = 80, ascii_only: bool = False) -> str:
    """The budget as text, at most `columns` wide (40 or more).

    The gauge shows how much of what is available is used; shares and bars in
    the table are of what is used, so they add up to 100 %. `ascii_only` draws
    with `#` and `.` for terminals without Unicode.
    """
    require_count(columns, "columns", least=LEAST_COLUMNS)
    pen = Pen(ascii_only=ascii_only)
    used = f"{budget.used_tokens:,} of {budget.available_tokens:,} tokens"
    lines = [*_spread("Context budget", used, columns), *_gauge(budget, columns, pen), ""]
    lines += _table(budget, columns, pen)
    if budget.warnings:
        lines.append("")
        for warning in budget.warnings:
            lines += hang("! ", pen.wrap(warning.text, columns - 2))
    return "\n".join(line.rstrip() for line in lines)


def render_fates(
    fates: Sequence[Fate], *, columns: int = 80, ascii_only: bool = False, kept_too: bool = False
) -> str:
    """What was cut or left out and why, at most `columns` wide; `kept_too` lists everything.

    Neighbours of one type with one reason share a line that says how many
    they are and what they need together.
    """
    require_count(columns, "columns", least=LEAST_COLUMNS)
    pen = Pen(ascii_only=ascii_only)
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
        min(max(width_of(pen.clean(row[i])) for row in rows), columns // 5 + 2) for i in (0, 1)
    )
    left = columns - kind_columns - id_columns - number - 6
    if left < 16:
        return "\n".join(_narrow_fate(row, columns, pen) for row in rows[1:])
    lines: list[str] = []
    for kind, name, tokens, why in rows:
        start = f"{pen.cell(kind, kind_columns)}  {pen.cell(name, id_columns)}  "
        lines += hang(f"{start}{tokens.rjust(number)}  ", pen.wrap(why, left))
    return "\n".join(line.rstrip() for line in lines)


def _gauge(budget: Budget, columns: int, pen: Pen) -> list[str]:
    dot = "|" if pen.ascii_only else "·"
    left = f"{abs(budget.remaining_tokens):,} {'over' if budget.over_budget else 'left'}"
    said = f"{budget.percent:,.1f} %  {left} {dot} {budget.reserved_tokens:,} reserved"
    width = columns - len(said) - 4
    share = budget.used_tokens / max(1, budget.available_tokens)
    if width < 8:
        return [f"[{pen.gauge(share, columns - 2)}]", *pen.wrap(said, columns)]
    return [f"[{pen.gauge(share, width)}]  {said}"]


def _table(budget: Budget, columns: int, pen: Pen) -> list[str]:
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
    sizes = [max(width_of(pen.clean(row[i])) for row in (head, *cells)) for i in range(4)]
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


def _narrow_fate(row: tuple[str, str, str, str], columns: int, pen: Pen) -> str:
    kind, name, tokens, why = row
    first = pen.cut(f"{kind}  {name}  {tokens}", columns)
    return "\n".join([first, *("  " + line for line in pen.wrap(why, columns - 2))])


def _spread(left: str, right: str, columns: int) -> list[str]:
    gap = columns - len(left) - len(right)
    return [f"{left}{' ' * gap}{right}"] if gap >= 2 else [left, right]
