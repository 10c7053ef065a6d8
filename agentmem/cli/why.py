"""The last context in full: what was sent, what it cost, what was kept and dropped and why."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from agentmem.cli.output import Screen, one_line, visible, wrap_line
from agentmem.cli.showing import short_id
from agentmem.core.budget_text import render_budget
from agentmem.core.layout import hang, heading

if TYPE_CHECKING:
    from agentmem.core.snapshot import Looked, Snapshot
    from agentmem.loop import AgentLoopResult

MOST_DROPPED = 5
_MARKS = {"kept": ("+", "good"), "cut": ("~", "warn"), "dropped": ("-", "dim")}


def why_lines(
    at: Screen, result: AgentLoopResult, snapshot: Snapshot | None, *, store: str = ""
) -> list[str]:
    """The block, the budget and the fate of every candidate; `store` is the option naming it."""
    pen, width = at.pen, at.width
    problems: list[str] = []
    lines = heading(pen, "What memory added", width=width)
    if result.block:
        for line in visible(result.block).split("\n"):
            lines += wrap_line(pen, line.expandtabs(4), width)
    else:
        lines.append("Nothing.")
    if result.budget is not None:
        lines += [
            "",
            *render_budget(result.budget, columns=width, ascii_only=pen.ascii_only).split("\n"),
        ]
    if snapshot is not None:
        seen = [
            one for one in snapshot.looked_at if one.section in ("knowledge", "profile", "working")
        ]
        lines += ["", *heading(pen, "What was looked at", f"{len(seen):,}", width=width)]
        for reason, alike in groupby(seen, key=lambda one: (one.decision, one.reason)):
            group = list(alike)
            shown = group if reason[0] != "dropped" else group[:MOST_DROPPED]
            for one in shown:
                lines += _fate(at, one)
            if len(group) > len(shown):
                lines.append(
                    pen.paint(f"    and {len(group) - len(shown):,} more like these", "dim")
                )
        if not seen:
            lines.append("Nothing was found.")
        problems += snapshot.warnings
    problems += result.degradations
    for text in dict.fromkeys(problems):
        lines += hang("! ", pen.wrap(one_line(text), width - 2))
    if result.message_id:
        lines += ["", pen.paint(f"agentmem explain{store} {result.message_id}", "dim")]
    return lines


def _fate(at: Screen, one: Looked) -> list[str]:
    pen = at.pen
    mark, style = _MARKS[one.decision]
    score = "    " if one.score is None else f"{one.score:.2f}"
    head = f"{mark} {score} {short_id(one.id)} "
    text = pen.cut(one_line(one.text or one.title) or one.id, max(10, at.width - len(head)))
    reason = pen.wrap(f"{one.decision}: {one_line(one.reason)}", at.width - 4)
    return [
        pen.paint(head, style) + text,  # type: ignore[arg-type]  # one of Style
        *("    " + pen.paint(line, "dim") for line in reason),
    ]
