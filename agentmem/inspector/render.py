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
    LEAST_WIDTH,
    Column,
    Pen,
    Sheet,
    Style,
    many,
    table,
    width_of,
)
from agentmem.inspector.stats import (
    ContextFigures,
    KindFigures,
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
    from agentmem.inspector.replay import Replay, SnapshotDiff, Why


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
_SECTIONS = {
    "knowledge": "Knowledge",
    "profile": "Profile",
    "working": "Stored results",
    "history": "History",
    "media": "Media",
    "other": "Other",
}


def render_inspection(inspection: Inspection, *, width: int = 80, pen: Pen | None = None) -> str:
    """The context that would be built now: where tokens go, which memories, how the store is."""
    sheet = Sheet(pen, width)
    snapshot = inspection.snapshot
    sheet.heading("Context now", snapshot.model if snapshot else "")
    sheet.pairs([("question", _line(inspection.query or "(no question)"))])
    if snapshot is None:
        sheet.add("", "No context would be built.")
    else:
        _usage(sheet, snapshot)
        kept = [seen for seen in snapshot.looked_at if seen.decision != "dropped"]
        shown = [seen for seen in kept if seen.section in ("knowledge", "profile", "working")]
        if shown:
            sheet.add("")
            _looked(sheet, shown, why=False)
        left_out = len(snapshot.looked_at) - len(kept)
        if left_out:
            sheet.add("", f"{left_out:,} more were looked at and left out.")
    for text in (*(snapshot.warnings if snapshot else ()), *inspection.degradations):
        sheet.write(_line(text), "! ", style="warn")
    sheet.add("")
    sheet.write(_status(inspection.status, sheet.pen), style="dim")
    return sheet.text


def render_explanation(
    snapshot: Snapshot, *, width: int = 80, pen: Pen | None = None, message: bool = False
) -> str:
    """Everything about a past context; with `message`, the reference as it was sent too."""
    require_instance(snapshot, Snapshot, "snapshot")
    pen = None if pen is None else require_instance(pen, Pen, "pen")
    sheet = Sheet(pen, require_count(width, "width"))
    sheet.heading(f"Context {snapshot.id}", _moment(snapshot.created_at))
    facts = [
        ("message", snapshot.message_id or "—"),
        ("who", _scope(snapshot)),
        ("model", snapshot.model or "—"),
        ("question", _line(snapshot.query) or "—"),
    ]
    sheet.pairs(facts)
    _usage(sheet, snapshot)
    for section, title in _SECTIONS.items():
        seen = [one for one in snapshot.looked_at if one.section == section]
        if seen:
            kept = sum(one.decision != "dropped" for one in seen)
            sheet.section(title, f"{kept:,} of {len(seen):,} went in")
            _looked(sheet, seen, why=True)
    if snapshot.settings:
        sheet.section("Settings")
        sheet.write(", ".join(f"{name} {_value(one)}" for name, one in snapshot.settings.items()))
    if snapshot.timings_ms:
        said = ", ".join(f"{name} {spent:.1f}" for name, spent in snapshot.timings_ms.items())
        sheet.section("Time", f"{snapshot.build_ms:.1f} ms")
        sheet.write(said + (" (answered from the cache)" if snapshot.cached else ""))
    _response(sheet, snapshot)
    for text in snapshot.warnings:
        sheet.write(_line(text), "! ", style="warn")
    for text in snapshot.degradations:
        sheet.write(_line(f"degraded: {text}"), "! ", style="bad")
    if message:
        sheet.section("The reference as it was sent")
        for line in snapshot.message.split("\n"):
            sheet.write(line)
    return sheet.text


def render_diff(changed: SnapshotDiff, *, width: int = 80, pen: Pen | None = None) -> str:
    """What changed between two contexts; one line when nothing did."""
    sheet = Sheet(pen, width)
    sheet.heading("What changed")
    sheet.pairs([("before", changed.before_id), ("after", changed.after_id)])
    if changed.empty:
        sheet.add("", "Nothing differs.")
    for title, found in (
        ("Context", changed.fields), ("Settings", changed.settings), ("Tokens", changed.parts),
    ):  # fmt: skip
        if found:
            sheet.section(title)
            sheet.pairs([(x.name.replace("_", " "), _moved(x.before, x.after)) for x in found])
    moved = [one for one in changed.memories if _fate(one.before) != _fate(one.after)]
    if changed.memories:
        sheet.section("Memories")
    for one in moved:
        scores = f"{_score(one.before) or '—'} → {_score(one.after) or '—'}"
        said = f"{_fate(one.before)} → {_fate(one.after)}  {scores}"
        _change(sheet, one.id, said, one.after or one.before)
    same = len(changed.memories) - len(moved)
    if same:
        sheet.write(f"{same:,} more have another score or reason and the same fate.")
    return sheet.text


def render_why(answer: Why, *, width: int = 80, pen: Pen | None = None) -> str:
    """One memory's fate, in a sentence and with what it was read from."""
    sheet = Sheet(pen, width)
    sheet.heading(f"Memory {answer.memory_id}")
    sheet.write(answer.answer)
    if answer.looked is not None:
        sheet.add("")
        sheet.pairs([("text", _line(answer.looked.text) or "—"), ("from", _origin(answer.looked))])
    if answer.details:
        sheet.add("")
        for part in answer.details:
            sheet.add(*(f"- {line}" for line in sheet.pen.wrap(part, sheet.width - 2)))
    return sheet.text


def render_replay(replayed: Replay, *, width: int = 80, pen: Pen | None = None) -> str:
    """What another choice of settings would have changed."""
    sheet = Sheet(pen, width)
    old = replayed.snapshot.settings
    sheet.heading("What if", f"context {replayed.snapshot.id}")
    said = [
        (name, _moved(old.get(name), value))
        for name, value in replayed.settings.items()
        if old.get(name) != value
    ]
    sheet.pairs(said or [("settings", "as they were")])
    sheet.add("")
    if not replayed.changes:
        sheet.add("Nothing would change.")
    for one in replayed.changes:
        fates = f"{one.before.decision} → {one.after.decision}  {_score(one.after)}"
        _change(sheet, one.before.id, fates, one.after)
    kept = sum(one.decision != "dropped" for one in replayed.looked_at)
    items = f"{len(replayed.snapshot.kept):,} → {many(kept, 'item')}"
    sheet.add("", f"{items}, {replayed.knowledge_tokens:,} tokens of knowledge.")
    for text in replayed.notes:
        sheet.write(_line(text), "! ", style="warn")
    return sheet.text


def render_event(event: Event, *, width: int = 80, pen: Pen | None = None) -> str:
    """One line of the monitor, and a second one for what changed where there is something."""
    sheet = Sheet(pen, width)
    snapshot = event.snapshot
    clock = snapshot.created_at.astimezone(UTC).strftime("%H:%M:%S")
    if event.kind == "response":
        return sheet.pen.cut(f"{clock}  ← {_outcome_line(snapshot)}", sheet.width)
    full = "" if snapshot.usage is None else f"{100 * snapshot.usage:.0f} %"
    known = [seen for seen in snapshot.kept if seen.section == "knowledge"]
    said = [
        snapshot.id[-SHORT_ID:],
        snapshot.scope.user_id or "—",
        snapshot.model or "—",
        f"{snapshot.estimated_tokens:,} tokens {full}".strip(),
        many(len(known), "memory"),
        *(["cached"] if snapshot.cached else []),
    ]
    sheet.cut(f"{clock}  → {'  '.join(said)}  {_line(snapshot.query)}")
    if event.changed:
        sheet.cut(f"{' ' * 10}{_changed(event.changed)}", style="accent")
    for text in snapshot.degradations:
        sheet.cut(f"{' ' * 10}! {text}", style="warn")
    return sheet.text


def _changed(changed: Sequence[str]) -> str:
    came = sum(text.startswith("+") for text in changed)
    went = sum(text.startswith("-") for text in changed)
    named = [text for text in changed if text[:1] not in "+-"]
    said = [f"{came:,} came in"] if came else []  # memories and preferences alike
    said += [f"{went:,} went"] if went else []
    short = [text[:1] + text[1:][-8:] for text in changed if text[:1] in "+-"][:6]
    return "  ".join([*said, *named, *short])


def _usage(sheet: Sheet, snapshot: Snapshot) -> None:
    """How full the window is, and of what."""
    usage = snapshot.usage or 0.0
    said = f"{snapshot.estimated_tokens:,} of {snapshot.room_tokens:,} tokens"
    share = "" if snapshot.usage is None else f"{100 * usage:.1f} %"
    style: Style = "bad" if usage > 1 else "warn" if usage > 0.8 else "good"
    sheet.add("")
    _gauge(sheet, usage, f"{share}  {said}".strip(), longest=60, style=style)
    total = max(1, sum(part.tokens for part in snapshot.parts))
    bar = max(0, min(30, sheet.width - 52))
    rows = [
        (
            part.name.replace("_", " "), f"{part.items:,}", f"{part.tokens:,}",
            f"{100 * part.tokens / total:.1f} %", sheet.pen.bar(part.tokens / total, bar),
        )
        for part in snapshot.parts
    ]  # fmt: skip
    sheet.add("")
    sheet.table(_figures(Column(name="Component", least=10), "Items", "Tokens", "Share"), rows)
    if not rows:
        sheet.add("No components were counted.")


def _gauge(sheet: Sheet, share: float, said: str, *, longest: int, style: Style) -> None:
    """A gauge with what is said of it beside it, or below it where there is no room."""
    pen, room = sheet.pen, sheet.width - len(said) - 4
    if room < 8:
        sheet.add(f"[{pen.gauge(share, sheet.width - 2)}]")
        sheet.write(said)
    else:
        sheet.add(f"[{pen.paint(pen.gauge(share, min(longest, room)), style)}]  {said}")


def _figures(first: Column, *numbers: str, last: Column = _BAR) -> list[Column]:
    """A name, numbers beside it, and a bar where there is room."""
    return [first, *(Column(name=name, right=True) for name in numbers), last]


def _looked(sheet: Sheet, seen: Sequence[Looked], *, why: bool) -> None:
    if sheet.width < _WIDE:
        for one in seen:
            _entry(sheet, one, why=why)
        return
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
            _mark(one, sheet.pen), _score(one) or "—", one.kind or "—", one.id,
            _leg(one.lexical, one.lexical_rank), _leg(one.vector, one.vector_rank),
            f"{one.tokens:,}" if one.tokens else "—", one.reason if why else "", _name(one),
        )
        for one in seen
    ]  # fmt: skip
    sheet.table(columns, rows, styles=[_style(one) for one in seen])


def _entry(sheet: Sheet, one: Looked, *, why: bool) -> None:
    """One thing on two or three lines, its id whole so that it can be asked about."""
    pen, style, room = sheet.pen, _style(one), sheet.width - 9
    said = [one.reason] if why else []
    said += [f"{one.tokens:,} tokens"] if one.tokens else []
    for name, score, rank in (
        ("words", one.lexical, one.lexical_rank), ("meaning", one.vector, one.vector_rank),
    ):  # fmt: skip
        said += [] if score is None else [f"{name} {_leg(score, rank)}"]
    said += [f"{name} {100 * part:+.1f} %" for name, part in one.boosts.items()]
    below = pen.wrap("; ".join(said), room) if any(said) else []
    sheet.cut(f"{_mark(one, pen)} {_score(one) or '—':>5}  {one.id}  {one.kind}", style=style)
    for line in (*below, *filter(None, [pen.cut(_name(one), room)])):
        sheet.add(pen.paint(f"{' ' * 9}{line}", style or "dim"))


def _style(looked: Looked) -> Style | None:
    return None if looked.decision == "kept" else _MARKS[looked.decision][2]


def _leg(score: float | None, rank: int | None) -> str:
    if score is None:
        return "—"
    return f"{score:.2f}" + ("" if rank is None else f" ({rank:,})")


def _response(sheet: Sheet, snapshot: Snapshot) -> None:
    outcome = snapshot.outcome
    sheet.section("Response", "not known" if outcome is None else _outcome_line(snapshot))
    if outcome is not None and outcome.answer:
        sheet.write(_line(outcome.answer))
    if outcome is not None and snapshot.estimate_error is not None:
        sheet.write(
            f"estimated {snapshot.estimated_tokens:,}, counted {outcome.prompt_tokens or 0:,} by "
            f"the provider: {100 * snapshot.estimate_error:+.1f} %"
        )


def _outcome_line(snapshot: Snapshot) -> str:
    outcome = snapshot.outcome
    if outcome is None:
        return "no response yet"
    if outcome.error:
        return f"failed: {_line(outcome.error)}"
    spent, out = outcome.duration_ms, outcome.completion_tokens
    facts = (
        (out, "{:,} tokens out"),
        (outcome.prompt_tokens, "{:,} in"),
        (outcome.total_tokens if out is None else None, "{:,} tokens"),
        (None if spent is None else spent / 1000, "{:.2f} s"),
    )
    return ", ".join(said.format(one) for one, said in facts if one is not None) or "answered"


def _status(status: MemoryStatus, pen: Pen) -> str:
    state = "degraded" if status.embedder_error or status.jobs_failed else "ok"
    last = status.last_context_at
    said = [
        f"STATUS {state}",
        many(status.memories, "memory"),
        f"{status.bytes / 1e6:,.1f} MB",
        status.embedder if status.embedder_ready else f"{status.embedder} (not ready)",
        f"embedder: {status.embedder_error}" if status.embedder_error else "",
        f"{many(status.jobs_waiting, 'job')} waiting" if status.jobs_waiting else "",
        f"{many(status.jobs_failed, 'job')} failed" if status.jobs_failed else "",
        "" if last is None else f"last context {_moment(last)}",
    ]
    return (" | " if pen.ascii_only else " · ").join(filter(None, said))


def _change(sheet: Sheet, memory_id: str, said: str, looked: Looked | None) -> None:
    """One memory whose fate is another: on one line where there is room, else on several."""
    reason = looked.reason if looked else ""
    if sheet.width >= _WIDE:
        sheet.cut(f"{memory_id}  {said}  {reason} — {_name(looked)}")
        return
    sheet.cut(f"{memory_id}  {looked.kind if looked else ''}")
    pen, room = sheet.pen, sheet.width - 2
    sheet.add(*(f"  {line}" for line in pen.wrap(said, room)))
    for line in (*pen.wrap(reason, room), pen.cut(_name(looked), room)):
        if line:
            sheet.add(pen.paint(f"  {line}", "dim"))


def _moved(before: Any, after: Any) -> str:
    return f"{_value(before)} → {_value(after)}"


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


_WIDEST_BAR = 60
_NARROWEST_BAR = 6


def render_budget(budget: Budget, *, columns: int = 80, ascii_only: bool = False) -> str:
    """The budget as text, at most `columns` wide (40 or more).

    The gauge shows how much of what is available is used; shares and bars in
    the table are of what is used, so they add up to 100 %. `ascii_only` draws
    with `#` and `.` for terminals without Unicode.
    """
    require_instance(budget, Budget, "budget")
    require_count(columns, "columns", least=LEAST_WIDTH)
    sheet = Sheet(Pen(ascii_only=bool(ascii_only)), columns)
    used = f"{budget.used_tokens:,} of {budget.available_tokens:,} tokens"
    left = f"{abs(budget.remaining_tokens):,} {'over' if budget.over_budget else 'left'}"
    left += f" {'|' if ascii_only else '·'} {budget.reserved_tokens:,} reserved"
    share = budget.used_tokens / max(1, budget.available_tokens)
    sheet.heading("Context budget", used)
    said = f"{budget.percent:,.1f} %  {left}"
    _gauge(sheet, share, said, longest=columns, style="good")
    sheet.add("")
    _budget_table(sheet, budget)
    if budget.warnings:
        sheet.add("")
        for warning in budget.warnings:
            sheet.write(warning.text, "! ")
    return "\n".join(line.rstrip() for line in sheet.lines)


def render_fates(
    fates: Sequence[Fate], *, columns: int = 80, ascii_only: bool = False, kept_too: bool = False
) -> str:
    """What was cut or left out and why, at most `columns` wide; `kept_too` lists everything.

    Neighbours of one type with one reason share a line that says how many
    they are and what they need together.
    """
    sheet = Sheet(Pen(ascii_only=ascii_only), require_count(columns, "columns", least=LEAST_WIDTH))
    pen = sheet.pen
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
    kinds, names = (
        min(max(width_of(pen.clean(row[i])) for row in rows), columns // 5 + 2) for i in (0, 1)
    )
    narrow = columns - kinds - names - number - 6 < 16
    for kind, name, tokens, why in rows[1:] if narrow else rows:
        if narrow:
            sheet.cut(f"{kind}  {name}  {tokens}")
            sheet.write(why, "  ")
        else:
            start = f"{pen.cell(kind, kinds)}  {pen.cell(name, names)}  {tokens.rjust(number)}  "
            sheet.write(why, start)
    return "\n".join(line if narrow else line.rstrip() for line in sheet.lines)


def _budget_table(sheet: Sheet, budget: Budget) -> None:
    used = max(1, budget.used_tokens)
    rows: list[tuple[str, str, str, str]] = []
    whole: list[tuple[int, float]] = []
    for part in budget.components:
        whole.append((len(rows) + 1, part.tokens / used))
        name, share = part.name.replace("_", " ").capitalize(), 100 * part.tokens / used
        rows.append((name, f"{part.items:,}", f"{part.tokens:,}", f"{share:.1f} %"))
        if len(part.by_type) > 1:
            rows += [(f"  {x.type}", f"{x.items:,}", f"{x.tokens:,}", "") for x in part.by_type]
    columns = _figures(Column(name="Component", least=8), "Items", "Tokens", "Share")[:-1]
    lines = table(sheet.pen, columns, rows, width=sheet.width)
    lines = lines or ["  ".join(column.name for column in columns)]
    bar = min(_WIDEST_BAR, sheet.width - width_of(lines[0]) - 2)
    if bar >= _NARROWEST_BAR:
        for place, share in whole:
            lines[place] += "  " + sheet.pen.bar(share, bar)
    sheet.add(*lines)


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
    sheet = Sheet(pen, width)
    figures = report.contexts
    sheet.heading("Statistics", span_text(report.last_seconds))
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
        ("tool calls", _calls_text(figures)),
        ("errors", f"{figures.errors:,}"),
    ]
    sheet.pairs(said)
    if figures.slots and figures.contexts > 1:
        period = f"{figures.begins:%Y-%m-%d %H:%M} to {figures.ends:%Y-%m-%d %H:%M}"
        sheet.section("Over time", period)
        _sparks(sheet, figures.slots)
    _figure_tables(sheet, figures)
    _tallies(sheet, "Warnings", figures.warnings)
    _tallies(sheet, "Degradations", figures.degradations)
    sheet.section("Store", report.location)
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
    sheet.pairs(said)
    if queue.last_error:
        sheet.pairs([("last error", queue.last_error)])
    return sheet.text


def render_audit(report: AuditReport, *, width: int = 80, pen: Pen | None = None) -> str:
    """Every sort of trouble with its count, some memories that have it, and what to do."""
    sheet = Sheet(pen, width)
    sheet.heading("Audit", many(report.memories, "memory"))
    for finding in report.findings:
        style: Style = "good" if not finding.count else "warn"
        said = f"{finding.name}: {finding.meaning}"
        sheet.write(said, "  ", mark=f"{finding.count:>6,}", style=style)
        for example in finding.examples:
            note = f" ({example.note})" if example.note else ""
            text = f"{example.id}{note}: {example.shown}"
            sheet.write(text, " " * 10, style="dim", most=3)
        if finding.remedy:
            _command(sheet, finding.remedy, indent=8)
    for note in report.notes:
        sheet.add("")
        sheet.write(f"! {note}")
    if report.clean:
        sheet.add("", "Nothing to mend.")
    return sheet.text


def render_doctor(report: DoctorReport, *, width: int = 80, pen: Pen | None = None) -> str:
    """Every check with its state and, where something is wrong, the remedy."""
    sheet = Sheet(pen, width)
    sheet.heading("Doctor", report.state)
    size = max((len(check.name) for check in report.checks), default=0)
    for check in report.checks:
        word, style = _STATES[check.state]
        sheet.write(check.found, f"  {check.name:<{size}}  ", mark=f"{word:<4}", style=style)
        if check.remedy.startswith(_PROGRAMS):
            _command(sheet, check.remedy, indent=size + 8)
        elif check.remedy:
            lines = sheet.pen.wrap(check.remedy, sheet.width - size - 10)
            sheet.add(*(f"{' ' * (size + 8)}> {line}" for line in lines))
    return sheet.text


def _command(sheet: Sheet, command: str, *, indent: int) -> None:
    """A command behind a `>`; a shell reads what is copied from there as one line.

    A quoted word is never broken, so a long path may stand out.
    """
    code, hash_sign, comment = command.partition("   # ")
    room, space = sheet.width - indent - 4, " " * indent
    lines: list[str] = []
    for word in map(shlex.quote, shlex.split(code)):
        if lines and width_of(lines[-1]) + 1 + width_of(word) <= room:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    sheet.add(f"{space}> " + f" \\\n{space}  ".join(lines))
    if hash_sign:
        sheet.add(*(f"{space}  # {line}" for line in sheet.pen.wrap(comment, room)))


def render_estimate(estimate: BudgetEstimate, *, width: int = 80, pen: Pen | None = None) -> str:
    """The dry run: the budget as it would be, what would be left out, what was assumed."""
    sheet = Sheet(pen, width)
    wide, plain = sheet.width, sheet.pen.ascii_only
    sheet.heading(f"Dry run for {estimate.model}", "estimates")
    sheet.add("", render_budget(estimate.budget, columns=wide, ascii_only=plain))
    if estimate.problem:
        sheet.add("")
        sheet.write(estimate.problem, style="bad")
    if estimate.dropped:
        sheet.add("", render_fates(estimate.dropped, columns=wide, ascii_only=plain))
    sizes = estimate.sizes
    sheet.add("")
    sheet.write(
        f"Budgets: knowledge {estimate.knowledge_budget:,}, preferences "
        f"{estimate.preference_budget:,}, history {estimate.history_budget:,}."
    )
    sheet.write(
        f"Assumed: {sizes.system:,} tokens for the system prompt, {sizes.message:,} a message, "
        f"{sizes.current:,} for the question, {sizes.memory:,} a memory, "
        f"{estimate.image_tokens:,} an image of 1,024 x 1,024; counted with "
        f"{estimate.counted_with}."
    )
    for note in estimate.notes:
        sheet.write(f"! {note}")
    return sheet.text


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


def kind_row(one: KindFigures) -> tuple[str, ...]:
    """What became of the candidates of one kind, as a table has it."""
    return one.kind, *(f"{n:,}" for n in (one.looked_at, one.kept, one.cut, one.dropped))


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


def _calls_text(figures: ContextFigures) -> str:
    """Such as "12, 91.7 % succeeded, 100.0 % of the failed corrected"."""
    calls = figures.calls
    said = [f"{calls.made:,}"]
    for rate, of in (
        (calls.success_rate, "succeeded"),
        (calls.correction_rate, "of the failed corrected"),
        (calls.read_back_rate, "of the kept results read"),
    ):
        said += [] if rate is None else [f"{100 * rate:.1f} % {of}"]
    return ", ".join(said)


def _sparks(sheet: Sheet, slots: Sequence[Slot]) -> None:
    marks = _PLAIN_SPARKS if sheet.pen.ascii_only else _SPARKS
    most = max(slot.contexts for slot in slots)
    cells = [max(1, round(8 * slot.contexts / most)) if slot.contexts else 0 for slot in slots]
    wide = 2 if sheet.width >= 2 * len(slots) + 22 else 1
    sheet.cut(f"contexts  {''.join(marks[cell] * wide for cell in cells)}  most {most:,}")
    shares: dict[str, list[float | None]] = {"usage": [slot.usage for slot in slots]}
    if any(slot.fallbacks or slot.breaker_openings for slot in slots):
        shares["fallbacks"] = [slot.fallbacks / max(1, slot.contexts) or None for slot in slots]
    for name, share in shares.items():
        drawn = (" " if one is None else marks[max(1, min(8, round(8 * one)))] for one in share)
        sheet.cut(f"{name:<9} {''.join(mark * wide for mark in drawn)}  of 100 %")


def _figure_tables(sheet: Sheet, figures: ContextFigures) -> None:
    """What tokens went to, what became of each kind, what each model took."""
    bar = sheet.pen.bar
    longest, shorter = max(0, min(40, sheet.width - 40)), max(0, min(30, sheet.width - 66))
    components = [
        (x.name.replace("_", " "), f"{x.tokens:,}", f"{100 * x.share:.1f} %", bar(x.share, longest))
        for x in figures.components
    ]
    kinds = [
        (*kind_row(x), mean_text(x.relevance), bar((x.kept + x.cut) / x.looked_at, shorter))
        for x in figures.kinds
    ]
    kind, model = Column(name="Kind", least=6), Column(name="Model", least=8)
    size = Column(name="Size", right=True, optional=True)
    for columns, rows in (
        (_figures(Column(name="Component", least=8), "Tokens", "Share"), components),
        (_figures(kind, "Looked at", "Kept", "Cut", "Dropped", "Relevance"), kinds),
        (
            _figures(model, "Contexts", "In", "Out", "Estimate off", last=size),
            [model_row(one) for one in figures.models],
        ),
    ):
        if rows:
            sheet.add("")
            sheet.table(columns, rows)


def _tallies(sheet: Sheet, title: str, found: Sequence[Tally]) -> None:
    if found:
        sheet.section(title, f"{sum(one.count for one in found):,}")
    for one in found:
        sheet.write(one.text, f"{one.count:>6,}  ")
