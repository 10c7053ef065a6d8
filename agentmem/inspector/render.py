"""Contexts as text for a terminal, of any width from 40 columns, with colour or without."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import TYPE_CHECKING, Any

from agentmem.base.checks import require_count, require_instance
from agentmem.inspector.audit import AuditReport
from agentmem.inspector.budget import BudgetEstimate
from agentmem.inspector.doctor import DoctorReport
from agentmem.inspector.layout import (
    Column,
    Pen,
    Style,
    hang,
    heading,
    many,
    pairs,
    table,
    width_of,
)
from agentmem.inspector.stats import (
    CallFigures,
    ContextFigures,
    ModelFigures,
    Slot,
    Spread,
    StatsReport,
    Tally,
)
from agentmem.prompt.budget import Budget, Fate
from agentmem.prompt.snapshot import Looked, Snapshot
from agentmem.text.clean import clean_line

if TYPE_CHECKING:
    from agentmem.inspector.look import Event, Inspection, MemoryStatus
    from agentmem.inspector.replay import Difference, Replay, SnapshotDiff, Why


LEAST_WIDTH = 40
SHORT_ID = 8
"""So much of an id's end is shown where there is no room for all of it."""
_WIDE = 120
"""From so many columns on, things stand in a table; below, each has lines of its own."""
_TEXT_CHARACTERS = 400
_BAR = Column(name="", optional=True)
_MARKS: dict[str, tuple[str, str, Style]] = {
    "kept": ("✓", "+", "good"),
    "cut": ("✂", "~", "warn"),
    "dropped": ("✗", "-", "dim"),
}


def render_inspection(inspection: Inspection, *, width: int = 80, pen: Pen | None = None) -> str:
    """The context that would be built now: where tokens go, which memories, how the store is."""
    pen, width = pen or Pen(), max(LEAST_WIDTH, width)
    snapshot = inspection.snapshot
    lines = heading(pen, "Context now", snapshot.model if snapshot else "", width=width)
    asked = inspection.query or "(no question)"
    lines += pairs(pen, [("question", _line(asked))], width=width)
    if snapshot is None:
        lines += ["", "No context would be built."]
    else:
        lines += ["", *_gauge(snapshot, pen, width), "", *_parts(snapshot, pen, width)]
        kept = [seen for seen in snapshot.looked_at if seen.decision != "dropped"]
        shown = [seen for seen in kept if seen.section in ("knowledge", "profile", "working")]
        if shown:
            lines += ["", *_looked(shown, pen, width, why=False)]
        left_out = len(snapshot.looked_at) - len(kept)
        if left_out:
            lines += ["", f"{left_out:,} more were looked at and left out."]
    for text in (*(snapshot.warnings if snapshot else ()), *inspection.degradations):
        lines += _marked("!", text, pen, width, "warn")
    lines += ["", *_status(inspection.status, pen, width)]
    return "\n".join(lines)


def render_explanation(
    snapshot: Snapshot, *, width: int = 80, pen: Pen | None = None, message: bool = False
) -> str:
    """Everything about a past context; with `message`, the reference as it was sent too."""
    require_instance(snapshot, Snapshot, "snapshot")
    pen = Pen() if pen is None else require_instance(pen, Pen, "pen")
    width = max(LEAST_WIDTH, require_count(width, "width"))
    lines = heading(pen, f"Context {snapshot.id}", _moment(snapshot.created_at), width=width)
    facts = [
        ("message", snapshot.message_id or "—"),
        ("who", _scope(snapshot)),
        ("model", snapshot.model or "—"),
        ("question", _line(snapshot.query) or "—"),
    ]
    lines += pairs(pen, facts, width=width)
    lines += ["", *_gauge(snapshot, pen, width), "", *_parts(snapshot, pen, width)]
    for title, section in (
        ("Knowledge", "knowledge"), ("Profile", "profile"), ("Stored results", "working"),
        ("History", "history"), ("Media", "media"), ("Other", "other"),
    ):  # fmt: skip
        seen = [one for one in snapshot.looked_at if one.section == section]
        if seen:
            kept = sum(one.decision != "dropped" for one in seen)
            lines += ["", *heading(pen, title, f"{kept:,} of {len(seen):,} went in", width=width)]
            lines += _looked(seen, pen, width, why=True)
    if snapshot.settings:
        said = ", ".join(f"{name} {_value(value)}" for name, value in snapshot.settings.items())
        lines += ["", *heading(pen, "Settings", width=width), *pen.wrap(said, width)]
    if snapshot.timings_ms:
        total = snapshot.build_ms
        said = ", ".join(f"{name} {spent:.1f}" for name, spent in snapshot.timings_ms.items())
        lines += ["", *heading(pen, "Time", f"{total:.1f} ms", width=width)]
        lines += pen.wrap(said + (" (answered from the cache)" if snapshot.cached else ""), width)
    lines += _response(snapshot, pen, width)
    for text in snapshot.warnings:
        lines += _marked("!", text, pen, width, "warn")
    for text in snapshot.degradations:
        lines += _marked("!", f"degraded: {text}", pen, width, "bad")
    if message:
        lines += ["", *heading(pen, "The reference as it was sent", width=width)]
        lines += [part for line in snapshot.message.split("\n") for part in pen.wrap(line, width)]
    return "\n".join(lines)


def render_diff(changed: SnapshotDiff, *, width: int = 80, pen: Pen | None = None) -> str:
    """What changed between two contexts; one line when nothing did."""
    pen, width = pen or Pen(), max(LEAST_WIDTH, width)
    lines = heading(pen, "What changed", width=width)
    lines += pairs(pen, [("before", changed.before_id), ("after", changed.after_id)], width=width)
    if changed.empty:
        return "\n".join([*lines, "", "Nothing differs."])
    for title, found in (
        ("Context", changed.fields), ("Settings", changed.settings), ("Tokens", changed.parts),
    ):  # fmt: skip
        if found:
            lines += ["", *heading(pen, title, width=width), *_differences(found, pen, width)]
    moved = [one for one in changed.memories if _fate(one.before) != _fate(one.after)]
    if changed.memories:
        lines += ["", *heading(pen, "Memories", width=width)]
    for one in moved:
        scores = f"{_score(one.before) or '—'} → {_score(one.after) or '—'}"
        fates = f"{_fate(one.before)} → {_fate(one.after)}"
        looked = one.after or one.before
        lines += _change(
            one.id,
            f"{fates}  {scores}",
            reason=looked.reason if looked else "",
            looked=looked,
            pen=pen,
            width=width,
        )
    same = len(changed.memories) - len(moved)
    if same:
        lines += pen.wrap(f"{same:,} more have another score or reason and the same fate.", width)
    return "\n".join(lines)


def render_why(answer: Why, *, width: int = 80, pen: Pen | None = None) -> str:
    """One memory's fate, in a sentence and with what it was read from."""
    pen, width = pen or Pen(), max(LEAST_WIDTH, width)
    lines = heading(pen, f"Memory {answer.memory_id}", width=width)
    lines += pen.wrap(answer.answer, width)
    if answer.looked is not None:
        facts = [("text", _line(answer.looked.text) or "—"), ("from", _origin(answer.looked))]
        lines += ["", *pairs(pen, facts, width=width)]
    if answer.details:
        lines += [
            "",
            *(f"- {line}" for part in answer.details for line in pen.wrap(part, width - 2)),
        ]
    return "\n".join(lines)


def render_replay(replayed: Replay, *, width: int = 80, pen: Pen | None = None) -> str:
    """What another choice of settings would have changed."""
    pen, width = pen or Pen(), max(LEAST_WIDTH, width)
    old = replayed.snapshot.settings
    lines = heading(pen, "What if", f"context {replayed.snapshot.id}", width=width)
    said = [
        (name, f"{_value(old.get(name))} → {_value(value)}")
        for name, value in replayed.settings.items()
        if old.get(name) != value
    ]
    lines += pairs(pen, said or [("settings", "as they were")], width=width)
    lines.append("")
    if not replayed.changes:
        lines.append("Nothing would change.")
    for one in replayed.changes:
        fates = f"{one.before.decision} → {one.after.decision}  {_score(one.after)}"
        lines += _change(
            one.before.id, fates, reason=one.after.reason, looked=one.after, pen=pen, width=width
        )
    kept = sum(one.decision != "dropped" for one in replayed.looked_at)
    was = len(replayed.snapshot.kept)
    lines += [
        "",
        f"{was:,} → {many(kept, 'item')}, {replayed.knowledge_tokens:,} tokens of knowledge.",
    ]
    for text in replayed.notes:
        lines += _marked("!", text, pen, width, "warn")
    return "\n".join(lines)


def render_event(event: Event, *, width: int = 80, pen: Pen | None = None) -> str:
    """One line of the monitor, and a second one for what changed where there is something."""
    pen, width = pen or Pen(), max(LEAST_WIDTH, width)
    snapshot = event.snapshot
    clock = snapshot.created_at.astimezone(UTC).strftime("%H:%M:%S")
    if event.kind == "response":
        return pen.cut(f"{clock}  ← {_outcome_line(snapshot)}", width)
    full = "" if snapshot.usage is None else f"{100 * snapshot.usage:.0f} %"
    known = [seen for seen in snapshot.kept if seen.section == "knowledge"]
    said = [
        snapshot.id[-SHORT_ID:],
        snapshot.scope.user_id or "—",
        snapshot.model or "—",
        f"{snapshot.estimated_tokens:,} tokens {full}".strip(),
        many(len(known), "memory"),
    ]
    if snapshot.cached:
        said.append("cached")
    line = pen.cut(f"{clock}  → {'  '.join(said)}  {_line(snapshot.query)}", width)
    lines = [line]
    if event.changed:
        lines.append(pen.paint(pen.cut(f"{' ' * 10}{_changed(event.changed)}", width), "accent"))
    lines += [
        pen.paint(pen.cut(f"{' ' * 10}! {text}", width), "warn") for text in snapshot.degradations
    ]
    return "\n".join(lines)


def _changed(changed: Sequence[str]) -> str:
    came = sum(text.startswith("+") for text in changed)
    went = sum(text.startswith("-") for text in changed)
    named = [text for text in changed if text[:1] not in "+-"]
    said = [f"{came:,} came in"] if came else []  # memories and preferences alike
    said += [f"{went:,} went"] if went else []
    short = [text[:1] + text[1:][-8:] for text in changed if text[:1] in "+-"][:6]
    return "  ".join([*said, *named, *short])


def _gauge(snapshot: Snapshot, pen: Pen, width: int) -> list[str]:
    usage = snapshot.usage or 0.0
    said = f"{snapshot.estimated_tokens:,} of {snapshot.room_tokens:,} tokens"
    share = "" if snapshot.usage is None else f"{100 * usage:.1f} %"
    style: Style = "bad" if usage > 1 else "warn" if usage > 0.8 else "good"
    return _gauge_line(pen, usage, f"{share}  {said}".strip(), width, longest=60, style=style)


def _gauge_line(
    pen: Pen, share: float, said: str, width: int, *, longest: int, style: Style
) -> list[str]:
    """A gauge with what is said of it beside it, or below it where there is no room."""
    room = width - len(said) - 4
    if room < 8:
        return [f"[{pen.gauge(share, width - 2)}]", *pen.wrap(said, width)]
    return [f"[{pen.paint(pen.gauge(share, min(longest, room)), style)}]  {said}"]


def _parts(snapshot: Snapshot, pen: Pen, width: int) -> list[str]:
    total = max(1, sum(part.tokens for part in snapshot.parts))
    bar = max(0, min(30, width - 52))
    rows = [
        (
            part.name.replace("_", " "), f"{part.items:,}", f"{part.tokens:,}",
            f"{100 * part.tokens / total:.1f} %", pen.bar(part.tokens / total, bar) if bar else "",
        )
        for part in snapshot.parts
    ]  # fmt: skip
    columns = _figures(Column(name="Component", least=10), "Items", "Tokens", "Share")
    return table(pen, columns, rows, width=width) or ["No components were counted."]


def _figures(first: Column, *numbers: str, last: Column = _BAR) -> list[Column]:
    """A name, numbers beside it, and a bar where there is room."""
    return [first, *(Column(name=name, right=True) for name in numbers), last]


def _looked(seen: Sequence[Looked], pen: Pen, width: int, *, why: bool) -> list[str]:
    if width < _WIDE:
        return [line for one in seen for line in _entry(one, pen, width, why=why)]
    columns = [
        Column(name="", least=1),
        Column(name="Score", right=True),
        Column(name="Kind", least=4),
        Column(name="Memory", least=36),
        Column(name="Words", right=True),
        Column(name="Meaning", right=True),
        Column(name="Tokens", right=True),
        Column(name="Why" if why else "", least=14),
        Column(name="What", least=16),
    ]
    rows = [
        (
            _mark(one, pen), _score(one) or "—", one.kind or "—", one.id,
            _leg(one.lexical, one.lexical_rank), _leg(one.vector, one.vector_rank),
            f"{one.tokens:,}" if one.tokens else "—", one.reason if why else "", _name(one),
        )
        for one in seen
    ]  # fmt: skip
    lines = table(pen, columns, rows, width=width)
    return [
        lines[0],
        *(
            line if one.decision == "kept" else pen.paint(line, _MARKS[one.decision][2])
            for one, line in zip(seen, lines[1:], strict=True)
        ),
    ]


def _entry(one: Looked, pen: Pen, width: int, *, why: bool) -> list[str]:
    """One thing on two or three lines, its id whole so that it can be asked about."""
    first = f"{_mark(one, pen)} {_score(one) or '—':>5}  {one.id}  {one.kind}"
    cost = [f"{one.tokens:,} tokens"] if one.tokens else []
    legs = [
        f"{name} {_leg(score, rank)}"
        for name, score, rank in (
            ("words", one.lexical, one.lexical_rank),
            ("meaning", one.vector, one.vector_rank),
        )
        if score is not None
    ]
    legs += [f"{name} {100 * part:+.1f} %" for name, part in one.boosts.items()]
    said = "; ".join([*([one.reason] if why else []), *cost, *legs])
    below = pen.wrap(said, width - 9) if said else []
    below += filter(None, [pen.cut(_name(one), width - 9)])
    head = pen.cut(first, width)
    style: Style = "dim"
    if one.decision != "kept":
        style = _MARKS[one.decision][2]
        head = pen.paint(head, style)
    return [head, *(pen.paint(f"{' ' * 9}{line}", style) for line in below)]


def _leg(score: float | None, rank: int | None) -> str:
    if score is None:
        return "—"
    return f"{score:.2f}" + ("" if rank is None else f" ({rank:,})")


def _response(snapshot: Snapshot, pen: Pen, width: int) -> list[str]:
    outcome = snapshot.outcome
    if outcome is None:
        return ["", *heading(pen, "Response", "not known", width=width)]
    lines = ["", *heading(pen, "Response", _outcome_line(snapshot), width=width)]
    if outcome.answer:
        lines += pen.wrap(_line(outcome.answer), width)
    if snapshot.estimate_error is not None:
        counted = outcome.prompt_tokens or 0
        lines += pen.wrap(
            f"estimated {snapshot.estimated_tokens:,}, counted {counted:,} by the provider: "
            f"{100 * snapshot.estimate_error:+.1f} %",
            width,
        )
    return lines


def _outcome_line(snapshot: Snapshot) -> str:
    outcome = snapshot.outcome
    if outcome is None:
        return "no response yet"
    if outcome.error:
        return f"failed: {_line(outcome.error)}"
    said = []
    if outcome.completion_tokens is not None:
        said.append(f"{outcome.completion_tokens:,} tokens out")
    if outcome.prompt_tokens is not None:
        said.append(f"{outcome.prompt_tokens:,} in")
    if outcome.total_tokens is not None and outcome.completion_tokens is None:
        said.append(f"{outcome.total_tokens:,} tokens")
    if outcome.duration_ms is not None:
        said.append(f"{outcome.duration_ms / 1000:.2f} s")
    return ", ".join(said) or "answered"


def _status(status: MemoryStatus, pen: Pen, width: int) -> list[str]:
    state = "degraded" if status.embedder_error or status.jobs_failed else "ok"
    said = [f"STATUS {state}", many(status.memories, "memory"), f"{status.bytes / 1e6:,.1f} MB"]
    said.append(status.embedder if status.embedder_ready else f"{status.embedder} (not ready)")
    if status.embedder_error:
        said.append(f"embedder: {status.embedder_error}")
    if status.jobs_waiting:
        said.append(f"{many(status.jobs_waiting, 'job')} waiting")
    if status.jobs_failed:
        said.append(f"{many(status.jobs_failed, 'job')} failed")
    if status.last_context_at is not None:
        said.append(f"last context {_moment(status.last_context_at)}")
    dot = " | " if pen.ascii_only else " · "
    return [pen.paint(line, "dim") for line in pen.wrap(dot.join(said), width)]


def _change(
    memory_id: str, said: str, *, reason: str, looked: Looked | None, pen: Pen, width: int
) -> list[str]:
    """One memory whose fate is another: on one line where there is room, else on several."""
    if width >= _WIDE:
        return [pen.cut(f"{memory_id}  {said}  {reason} — {_name(looked)}", width)]
    lines = [pen.cut(f"{memory_id}  {looked.kind if looked else ''}", width)]
    lines += [f"  {line}" for line in pen.wrap(said, width - 2)]
    lines += [pen.paint(f"  {line}", "dim") for line in pen.wrap(reason, width - 2) if line]
    text = pen.cut(_name(looked), width - 2)
    return [*lines, *([pen.paint(f"  {text}", "dim")] if text else [])]


def _differences(found: Sequence[Difference], pen: Pen, width: int) -> list[str]:
    said = [
        (one.name.replace("_", " "), f"{_value(one.before)} → {_value(one.after)}") for one in found
    ]
    return pairs(pen, said, width=width)


def _marked(mark: str, text: str, pen: Pen, width: int, style: Style) -> list[str]:
    first, *rest = pen.wrap(_line(text), width - 2)
    return [pen.paint(f"{mark} {first}", style), *(pen.paint(f"  {line}", style) for line in rest)]


def _mark(looked: Looked, pen: Pen) -> str:
    mark, plain, _ = _MARKS[looked.decision]
    return plain if pen.ascii_only else mark


def _fate(looked: Looked | None) -> str:
    return "not looked at" if looked is None else looked.decision


def _score(looked: Looked | None) -> str:
    return "" if looked is None or looked.score is None else f"{looked.score:.3f}"


def _name(looked: Looked | None) -> str:
    if looked is None:
        return ""
    title = clean_line(looked.title, limit_characters=40)
    return clean_line(f"{title}: {looked.text}" if title else looked.text, limit_characters=120)


def _origin(looked: Looked) -> str:
    said = [looked.kind, looked.origin, looked.url, looked.heading, looked.speaker]
    return ", ".join(filter(None, (*said, looked.retrieved))) or "—"


def _scope(snapshot: Snapshot) -> str:
    scope = snapshot.scope
    named = (
        ("user", scope.user_id), ("project", scope.project_id), ("agent", scope.agent_id),
        ("run", scope.run_id),
    )  # fmt: skip
    return ", ".join(f"{name} {value}" for name, value in named if value) or "nobody in particular"


def _value(value: Any) -> str:
    if value is None:
        return "—"
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, tuple | list):
        return "; ".join(map(_value, value)) or "none"
    return clean_line(str(value), limit_characters=200)


def _line(text: str) -> str:
    return clean_line(text, limit_characters=_TEXT_CHARACTERS)


def _moment(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


# ----------------------------------------------------------------------------
# The budget and the fates of packages as text that fits a terminal.


LEAST_COLUMNS = 40
_WIDEST_BAR = 60
_NARROWEST_BAR = 6


def render_budget(budget: Budget, *, columns: int = 80, ascii_only: bool = False) -> str:
    """The budget as text, at most `columns` wide (40 or more).

    The gauge shows how much of what is available is used; shares and bars in
    the table are of what is used, so they add up to 100 %. `ascii_only` draws
    with `#` and `.` for terminals without Unicode.
    """
    require_instance(budget, Budget, "budget")
    require_count(columns, "columns", least=LEAST_COLUMNS)
    pen = Pen(ascii_only=bool(ascii_only))
    used = f"{budget.used_tokens:,} of {budget.available_tokens:,} tokens"
    dot = "|" if pen.ascii_only else "·"
    left = f"{abs(budget.remaining_tokens):,} {'over' if budget.over_budget else 'left'}"
    said = f"{budget.percent:,.1f} %  {left} {dot} {budget.reserved_tokens:,} reserved"
    share = budget.used_tokens / max(1, budget.available_tokens)
    lines = [
        *heading(pen, "Context budget", used, width=columns),
        *_gauge_line(pen, share, said, columns, longest=columns, style="good"),
        "",
        *_budget_table(budget, columns, pen),
    ]
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
    shown = [f for f in fates if kept_too or f.outcome == "dropped"]
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
        return "\n".join(
            line
            for kind, name, tokens, why in rows[1:]
            for line in (
                pen.cut(f"{kind}  {name}  {tokens}", columns),
                *(f"  {line}" for line in pen.wrap(why, columns - 2)),
            )
        )
    lines: list[str] = []
    for kind, name, tokens, why in rows:
        start = f"{pen.cell(kind, kind_columns)}  {pen.cell(name, id_columns)}  "
        lines += hang(f"{start}{tokens.rjust(number)}  ", pen.wrap(why, left))
    return "\n".join(line.rstrip() for line in lines)


def _budget_table(budget: Budget, columns: int, pen: Pen) -> list[str]:
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


# ----------------------------------------------------------------------------
# Reports as text for a terminal: statistics, audit, doctor and the dry-run budget.


_SPARKS = " ▁▂▃▄▅▆▇█"
_PLAIN_SPARKS = " .:-=+*#@"
_STATES: dict[str, tuple[str, Style]] = {
    "ok": ("ok", "good"),
    "warn": ("warn", "warn"),
    "fail": ("FAIL", "bad"),
}
_PROGRAMS = ("agentmem ", "pip ", "python ")


def render_stats(report: StatsReport, *, width: int = 80, pen: Pen | None = None) -> str:
    """All figures, with bars."""
    pen, width = pen or Pen(), max(LEAST_WIDTH, width)
    figures = report.contexts
    lines = heading(pen, "Statistics", span_text(report.last_seconds), width=width)
    relevance = "—" if figures.relevance is None else f"{figures.relevance:.3f} on average"
    fell = f"{figures.fallbacks:,} of {many(figures.contexts, 'context')}"
    if figures.fallback_rate is not None:
        fell += f" ({100 * figures.fallback_rate:.1f} %)"
    said = [
        ("contexts", f"{figures.contexts:,} built, {figures.injected:,} with a reference"),
        *spread_texts(figures),
        ("relevance", relevance),
        ("cache hits", f"{figures.cache_hits:,}"),
        ("breaker", f"opened {many(figures.breaker_openings, 'time')}"),
        ("fallbacks", fell),
        ("tool calls", _calls_text(figures.calls)),
        ("errors", f"{figures.errors:,}"),
    ]
    lines += pairs(pen, said, width=width)
    if figures.slots and figures.contexts > 1:
        lines += ["", *heading(pen, "Over time", _period(report), width=width)]
        lines += _sparks(figures.slots, pen, width)
    lines += _components(report, pen, width)
    lines += _kinds(report, pen, width)
    lines += _models(report, pen, width)
    lines += _tallies("Warnings", figures.warnings, pen, width)
    lines += _tallies("Degradations", figures.degradations, pen, width)
    lines += ["", *heading(pen, "Store", report.location, width=width)]
    kinds, queue = kinds_text(report), report.queue
    said = [
        ("memories", f"{report.memories:,}" + (f" ({kinds})" if kinds else "")),
        ("documents", f"{report.documents:,}"),
        ("superseded", f"{report.superseded:,}, deleted {report.deleted:,}"),
        ("size", f"{report.bytes / 1e6:,.2f} MB"),
        *vectors_texts(report),
        ("indexing", f"{queue.waiting:,} waiting, {queue.running:,} running"),
        ("failed jobs", f"{queue.failed:,}"),
    ]
    lines += pairs(pen, said, width=width)
    if queue.last_error:
        lines += pairs(pen, [("last error", queue.last_error)], width=width)
    return "\n".join(lines)


def render_audit(report: AuditReport, *, width: int = 80, pen: Pen | None = None) -> str:
    """Every sort of trouble with its count, some memories that have it, and what to do."""
    pen, width = pen or Pen(), max(LEAST_WIDTH, width)
    lines = heading(pen, "Audit", many(report.memories, "memory"), width=width)
    for finding in report.findings:
        style: Style = "good" if not finding.count else "warn"
        count = pen.paint(f"{finding.count:>6,}", style)
        said = f"{finding.name}: {finding.meaning}"
        first, *rest = pen.wrap(said, width - 8)
        lines += [f"{count}  {first}", *(f"{' ' * 8}{line}" for line in rest)]
        for example in finding.examples:
            note = f" ({example.note})" if example.note else ""
            text = f"{example.id}{note}: {example.shown}"
            shown = pen.wrap(text, width - 10)[:3]
            lines += [pen.paint(f"{' ' * 10}{line}", "dim") for line in shown]
        if finding.remedy:
            lines += _command(finding.remedy, pen, indent=8, width=width)
    for note in report.notes:
        lines += ["", *pen.wrap(f"! {note}", width)]
    if report.clean:
        lines += ["", "Nothing to mend."]
    return "\n".join(lines)


def render_doctor(report: DoctorReport, *, width: int = 80, pen: Pen | None = None) -> str:
    """Every check with its state and, where something is wrong, the remedy."""
    pen, width = pen or Pen(), max(LEAST_WIDTH, width)
    lines = heading(pen, "Doctor", report.state, width=width)
    size = max((len(check.name) for check in report.checks), default=0)
    for check in report.checks:
        word, style = _STATES[check.state]
        first, *rest = pen.wrap(check.found, max(16, width - size - 8))
        indent = " " * (size + 8)
        lines.append(f"{pen.paint(f'{word:<4}', style)}  {check.name:<{size}}  {first}")
        lines += [indent + line for line in rest]
        if check.remedy.startswith(_PROGRAMS):
            lines += _command(check.remedy, pen, indent=size + 8, width=width)
        elif check.remedy:
            lines += [f"{indent}> {line}" for line in pen.wrap(check.remedy, width - size - 10)]
    return "\n".join(lines)


def _command(command: str, pen: Pen, *, indent: int, width: int) -> list[str]:
    """A command behind a `>`; a shell reads what is copied from there as one line.

    A quoted word is never broken, so a long path may stand out.
    """
    code, hash_sign, comment = command.partition("   # ")
    lines = [f"{line} \\" for line in _shell_lines(code, width - indent - 4)]
    lines[-1] = lines[-1].removesuffix(" \\")
    shown = [f"{' ' * indent}{'> ' if at == 0 else '  '}{line}" for at, line in enumerate(lines)]
    if hash_sign:
        shown += [f"{' ' * indent}  # {line}" for line in pen.wrap(comment, width - indent - 4)]
    return shown


def _shell_lines(code: str, width: int) -> list[str]:
    lines: list[str] = []
    for word in map(shlex.quote, shlex.split(code)):
        if lines and width_of(lines[-1]) + 1 + width_of(word) <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


def render_estimate(estimate: BudgetEstimate, *, width: int = 80, pen: Pen | None = None) -> str:
    """The dry run: the budget as it would be, what would be left out, what was assumed."""
    pen, width = pen or Pen(), max(LEAST_WIDTH, width)
    lines = heading(pen, f"Dry run for {estimate.model}", "estimates", width=width)
    lines += ["", render_budget(estimate.budget, columns=width, ascii_only=pen.ascii_only)]
    if estimate.problem:
        lines += ["", *(pen.paint(line, "bad") for line in pen.wrap(estimate.problem, width))]
    if estimate.dropped:
        lines += ["", render_fates(estimate.dropped, columns=width, ascii_only=pen.ascii_only)]
    sizes = estimate.sizes
    assumed = (
        f"Assumed: {sizes.system:,} tokens for the system prompt, {sizes.message:,} a message, "
        f"{sizes.current:,} for the question, {sizes.memory:,} a memory, "
        f"{estimate.image_tokens:,} an image of 1,024 x 1,024; counted with "
        f"{estimate.counted_with}."
    )
    budgets = (
        f"Budgets: knowledge {estimate.knowledge_budget:,}, preferences "
        f"{estimate.preference_budget:,}, history {estimate.history_budget:,}."
    )
    lines += ["", *pen.wrap(budgets, width), *pen.wrap(assumed, width)]
    for note in estimate.notes:
        lines += pen.wrap(f"! {note}", width)
    return "\n".join(lines)


def span_text(seconds: float | None) -> str:
    """How far figures reach back, in words."""
    if seconds is None:
        return "all that is recorded"
    for name, size in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"the last {seconds / size:,.4g} {name}"
    return f"the last {seconds:,.4g} seconds"


def spread_texts(figures: ContextFigures) -> list[tuple[str, str]]:
    """How full contexts were, how large, and how long they and their answers took."""
    return [
        ("usage", _spread(figures.usage, " %", digits=1, times=100)),
        ("tokens", _spread(figures.tokens, "")),
        ("built in", _spread(figures.build_ms, " ms", digits=1)),
        ("answered in", _spread(figures.response_ms, " ms")),
    ]


def _spread(spread: Spread, unit: str, *, digits: int = 0, times: int = 1) -> str:
    """Mean, least and most of a number."""
    if spread.mean is None or spread.low is None or spread.high is None:
        return "—"
    mean, low, high = (
        f"{times * one:,.{digits}f}" for one in (spread.mean, spread.low, spread.high)
    )
    return f"{mean}{unit} on average, {low} to {high}{unit}"


def kinds_text(report: StatsReport) -> str:
    """How many memories there are of each kind."""
    return ", ".join(f"{count:,} {kind}" for kind, count in sorted(report.kinds.items()))


def vectors_texts(report: StatsReport) -> list[tuple[str, str]]:
    """How many vectors of each embedder there are, and how many are not."""
    missing = report.vectors_missing
    return [
        (f"vectors {name}", f"{count:,}, {missing.get(name, 0):,} missing")
        for name, count in report.vectors.items()
    ]


def model_row(one: ModelFigures) -> tuple[str, ...]:
    """One model's figures, as a table has them."""
    return (
        one.model, f"{one.contexts:,}", f"{one.prompt_tokens:,}", f"{one.completion_tokens:,}",
        "—" if one.error is None else f"{100 * one.error:+.1f} %",
        "—" if one.absolute is None else f"{100 * one.absolute:.1f} %",
    )  # fmt: skip


def mean_text(value: float | None) -> str:
    """A mean score, to three decimals."""
    return "—" if value is None else f"{value:.3f}"


def _period(report: StatsReport) -> str:
    figures = report.contexts
    if figures.begins is None or figures.ends is None:
        return ""
    return f"{figures.begins:%Y-%m-%d %H:%M} to {figures.ends:%Y-%m-%d %H:%M}"


def _calls_text(calls: CallFigures) -> str:
    """Such as "12, 91.7 % succeeded, 100.0 % of the failed corrected"."""
    said = [f"{calls.made:,}"]
    for rate, of in (
        (calls.success_rate, "succeeded"),
        (calls.correction_rate, "of the failed corrected"),
        (calls.read_back_rate, "of the kept results read"),
    ):
        said += [] if rate is None else [f"{100 * rate:.1f} % {of}"]
    return ", ".join(said)


def _sparks(slots: Sequence[Slot], pen: Pen, width: int) -> list[str]:
    marks = _PLAIN_SPARKS if pen.ascii_only else _SPARKS
    most = max(slot.contexts for slot in slots)
    cells = [max(1, round(8 * slot.contexts / most)) if slot.contexts else 0 for slot in slots]
    wide = 2 if width >= 2 * len(slots) + 22 else 1
    counts = "".join(marks[cell] * wide for cell in cells)
    lines = [f"contexts  {counts}  most {most:,}"]
    shares: dict[str, list[float | None]] = {"usage": [slot.usage for slot in slots]}
    if any(slot.fallbacks or slot.breaker_openings for slot in slots):
        shares["fallbacks"] = [slot.fallbacks / max(1, slot.contexts) or None for slot in slots]
    for name, share in shares.items():
        drawn = (" " if one is None else marks[max(1, min(8, round(8 * one)))] for one in share)
        lines.append(f"{name:<9} {''.join(mark * wide for mark in drawn)}  of 100 %")
    return [pen.cut(line, width) for line in lines]


def _components(report: StatsReport, pen: Pen, width: int) -> list[str]:
    bar = max(0, min(40, width - 40))
    rows = [
        (
            one.name.replace("_", " "), f"{one.tokens:,}", f"{100 * one.share:.1f} %",
            pen.bar(one.share, bar) if bar else "",
        )
        for one in report.contexts.components
    ]  # fmt: skip
    columns = _figures(Column(name="Component", least=8), "Tokens", "Share")
    return ["", *table(pen, columns, rows, width=width)] if rows else []


def _kinds(report: StatsReport, pen: Pen, width: int) -> list[str]:
    bar = max(0, min(30, width - 66))
    rows = [
        (
            one.kind, f"{one.looked_at:,}", f"{one.kept:,}", f"{one.cut:,}", f"{one.dropped:,}",
            mean_text(one.relevance),
            pen.bar((one.kept + one.cut) / one.looked_at, bar) if bar else "",
        )
        for one in report.contexts.kinds
    ]  # fmt: skip
    kind = Column(name="Kind", least=6)
    columns = _figures(kind, "Looked at", "Kept", "Cut", "Dropped", "Relevance")
    return ["", *table(pen, columns, rows, width=width)] if rows else []


def _models(report: StatsReport, pen: Pen, width: int) -> list[str]:
    rows = [model_row(one) for one in report.contexts.models]
    model, size = Column(name="Model", least=8), Column(name="Size", right=True, optional=True)
    columns = _figures(model, "Contexts", "In", "Out", "Estimate off", last=size)
    return ["", *table(pen, columns, rows, width=width)] if rows else []


def _tallies(title: str, found: Sequence[Tally], pen: Pen, width: int) -> list[str]:
    if not found:
        return []
    lines = ["", *heading(pen, title, f"{sum(one.count for one in found):,}", width=width)]
    for one in found:
        first, *rest = pen.wrap(one.text, width - 8)
        lines += [f"{one.count:>6,}  {first}", *(f"{' ' * 8}{line}" for line in rest)]
    return lines
