"""Reports as text for a terminal: statistics, audit, doctor and the dry-run budget."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from agentmem.core.budget_text import render_budget, render_fates
from agentmem.core.layout import Column, Pen, Style, heading, pairs, table, width_of
from agentmem.core.snapshot_stats import Slot, Spread, Tally
from agentmem.inspector.auditing import AuditReport
from agentmem.inspector.budgeting import BudgetEstimate
from agentmem.inspector.checks import DoctorReport
from agentmem.inspector.rendering import LEAST_WIDTH
from agentmem.inspector.statistics import StatsReport

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
    lines += pairs(
        pen,
        [
            ("contexts", f"{figures.contexts:,} built, {figures.injected:,} with a reference"),
            ("usage", percent_text(figures.usage)),
            ("tokens", spread_text(figures.tokens, "")),
            ("built in", spread_text(figures.build_ms, " ms", digits=1)),
            ("answered in", spread_text(figures.response_ms, " ms")),
            (
                "relevance",
                "—" if figures.relevance is None else f"{figures.relevance:.3f} on average",
            ),
            ("cache hits", f"{figures.cache_hits:,}"),
            ("breaker", f"opened {figures.breaker_openings:,} times"),
            ("errors", f"{figures.errors:,}"),
        ],
        width=width,
    )
    if figures.slots and figures.contexts > 1:
        lines += ["", *heading(pen, "Over time", _period(report), width=width)]
        lines += _sparks(figures.slots, pen, width)
    lines += _components(report, pen, width)
    lines += _kinds(report, pen, width)
    lines += _models(report, pen, width)
    lines += _tallies("Warnings", figures.warnings, pen, width)
    lines += _tallies("Degradations", figures.degradations, pen, width)
    lines += ["", *heading(pen, "Store", report.location, width=width)]
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in sorted(report.kinds.items()))
    queue = report.queue
    lines += pairs(
        pen,
        [
            ("memories", f"{report.memories:,}" + (f" ({kinds})" if kinds else "")),
            ("documents", f"{report.documents:,}"),
            ("superseded", f"{report.superseded:,}, deleted {report.deleted:,}"),
            ("size", f"{report.bytes / 1e6:,.2f} MB"),
            *(
                (f"vectors {name}", f"{count:,}, {report.vectors_missing.get(name, 0):,} missing")
                for name, count in report.vectors.items()
            ),
            ("indexing", f"{queue.waiting:,} waiting, {queue.running:,} running"),
            ("failed jobs", f"{queue.failed:,}"),
        ],
        width=width,
    )
    if queue.last_error:
        lines += pairs(pen, [("last error", queue.last_error)], width=width)
    return "\n".join(lines)


def render_audit(report: AuditReport, *, width: int = 80, pen: Pen | None = None) -> str:
    """Every sort of trouble with its count, some memories that have it, and what to do."""
    pen, width = pen or Pen(), max(LEAST_WIDTH, width)
    lines = heading(pen, "Audit", f"{report.memories:,} memories", width=width)
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


def percent_text(spread: Spread) -> str:
    """Mean, least and most as percentages."""
    if spread.mean is None or spread.low is None or spread.high is None:
        return "—"
    return (
        f"{100 * spread.mean:.1f} % on average, {100 * spread.low:.1f} to {100 * spread.high:.1f} %"
    )


def spread_text(spread: Spread, unit: str, *, digits: int = 0) -> str:
    """Mean, least and most of a number."""
    if spread.mean is None or spread.low is None or spread.high is None:
        return "—"
    return (
        f"{spread.mean:,.{digits}f}{unit} on average, {spread.low:,.{digits}f} to "
        f"{spread.high:,.{digits}f}{unit}"
    )


def _period(report: StatsReport) -> str:
    figures = report.contexts
    if figures.begins is None or figures.ends is None:
        return ""
    return f"{figures.begins:%Y-%m-%d %H:%M} to {figures.ends:%Y-%m-%d %H:%M}"


def _sparks(slots: Sequence[Slot], pen: Pen, width: int) -> list[str]:
    marks = _PLAIN_SPARKS if pen.ascii_only else _SPARKS
    most = max(slot.contexts for slot in slots)
    cells = [max(1, round(8 * slot.contexts / most)) if slot.contexts else 0 for slot in slots]
    wide = 2 if width >= 2 * len(slots) + 22 else 1
    counts = "".join(marks[cell] * wide for cell in cells)
    full = "".join(
        marks[max(1, min(8, round(8 * slot.usage)))] * wide
        if slot.usage is not None
        else " " * wide
        for slot in slots
    )
    return [
        pen.cut(f"contexts  {counts}  most {most:,}", width),
        pen.cut(f"usage     {full}  of 100 %", width),
    ]


def _components(report: StatsReport, pen: Pen, width: int) -> list[str]:
    bar = max(0, min(40, width - 40))
    rows = [
        (
            one.name.replace("_", " "), f"{one.tokens:,}", f"{100 * one.share:.1f} %",
            pen.bar(one.share, bar) if bar else "",
        )
        for one in report.contexts.components
    ]  # fmt: skip
    columns = (
        Column(name="Component", least=8),
        Column(name="Tokens", right=True),
        Column(name="Share", right=True),
        Column(name="", optional=True),
    )
    return ["", *table(pen, columns, rows, width=width)] if rows else []


def _kinds(report: StatsReport, pen: Pen, width: int) -> list[str]:
    bar = max(0, min(30, width - 66))
    rows = [
        (
            one.kind, f"{one.looked_at:,}", f"{one.kept:,}", f"{one.cut:,}", f"{one.dropped:,}",
            "—" if one.relevance is None else f"{one.relevance:.3f}",
            pen.bar((one.kept + one.cut) / one.looked_at, bar) if bar else "",
        )
        for one in report.contexts.kinds
    ]  # fmt: skip
    columns = (
        Column(name="Kind", least=6),
        Column(name="Looked at", right=True),
        Column(name="Kept", right=True),
        Column(name="Cut", right=True),
        Column(name="Dropped", right=True),
        Column(name="Relevance", right=True),
        Column(name="", optional=True),
    )
    return ["", *table(pen, columns, rows, width=width)] if rows else []


def _models(report: StatsReport, pen: Pen, width: int) -> list[str]:
    rows = [
        (
            one.model, f"{one.contexts:,}", f"{one.prompt_tokens:,}", f"{one.completion_tokens:,}",
            "—" if one.error is None else f"{100 * one.error:+.1f} %",
            "—" if one.absolute is None else f"{100 * one.absolute:.1f} %",
        )
        for one in report.contexts.models
    ]  # fmt: skip
    columns = (
        Column(name="Model", least=8),
        Column(name="Contexts", right=True),
        Column(name="In", right=True),
        Column(name="Out", right=True),
        Column(name="Estimate off", right=True),
        Column(name="Size", right=True, optional=True),
    )
    return ["", *table(pen, columns, rows, width=width)] if rows else []


def _tallies(title: str, found: Sequence[Tally], pen: Pen, width: int) -> list[str]:
    if not found:
        return []
    lines = ["", *heading(pen, title, f"{sum(one.count for one in found):,}", width=width)]
    for one in found:
        first, *rest = pen.wrap(one.text, width - 8)
        lines += [f"{one.count:>6,}  {first}", *(f"{' ' * 8}{line}" for line in rest)]
    return lines
