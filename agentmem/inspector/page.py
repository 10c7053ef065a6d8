"""The statistics as one page that opens offline: no script, no font, no address but its own."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from agentmem.data import read_text
from agentmem.inspector.render import (
    kind_row,
    kinds_text,
    mean_text,
    model_row,
    span_text,
    spread_texts,
    vectors_texts,
)
from agentmem.inspector.stats import Slot, StatsReport, Tally
from agentmem.text.clean import clean_line

_NAME_CHARACTERS = 200
_WIDTH, _HEIGHT, _BOTTOM = 440, 140, 22
_KINDS_HEAD = ("Kind", "Looked at", "Kept", "Cut", "Dropped", "Mean score", "Relevance")
_MODELS_HEAD = ("Model", "Contexts", "Tokens in", "Tokens out", "Estimate off", "Size of that")


def render_page(report: StatsReport) -> str:
    """A whole HTML document; everything that came from outside is escaped."""
    figures = report.contexts
    usage = "—" if figures.usage.mean is None else f"{100 * figures.usage.mean:.1f} %"
    relevance = "—" if figures.relevance is None else f"{figures.relevance:.2f}"
    cards = (
        (f"{figures.contexts:,}", "contexts built"),
        (usage, "of the window on average"),
        (relevance, "mean relevance"),
        (f"{report.memories:,}", "memories"),
        (f"{report.bytes / 1e6:,.1f} MB", "store"),
        (f"{figures.cache_hits:,}", "cache hits"),
        (f"{figures.breaker_openings:,}", "breaker openings"),
        (f"{100 * (figures.fallback_rate or 0.0):.1f} %", "without a search"),
        (f"{report.queue.waiting:,} / {report.queue.failed:,}", "jobs waiting / failed"),
    )
    tokens = [
        (one.name.replace("_", " "), one.share, f"{100 * one.share:.1f} %")
        for one in figures.components
    ]
    kept = [
        (
            one.kind,
            (one.kept + one.cut) / one.looked_at,
            f"{one.kept + one.cut:,} of {one.looked_at:,}",
        )
        for one in figures.kinds
    ]
    rows = [
        ("with a reference", f"{figures.injected:,}"),
        *spread_texts(figures),
        ("errors", f"{figures.errors:,}"),
        ("memories by kind", kinds_text(report) or "—"),
        ("documents", f"{report.documents:,}"),
        ("superseded / deleted", f"{report.superseded:,} / {report.deleted:,}"),
        *vectors_texts(report),
        ("last error in the background", report.queue.last_error or "—"),
    ]
    kinds = [(*kind_row(x), mean_text(x.score), mean_text(x.relevance)) for x in figures.kinds]
    models = [model_row(one) for one in figures.models]
    body = [
        "<h1>agentmem statistics</h1>",
        (
            f'<p class="about">{_text(span_text(report.last_seconds))}, as of '
            f"{report.at:%Y-%m-%d %H:%M} UTC · {_text(report.location)}</p>"
        ),
        '<div class="cards">',
        *(f"<div><b>{_text(value)}</b><span>{_text(name)}</span></div>" for value, name in cards),
        "</div>",
        '<div class="charts">',
        _section("Contexts over time", _time_chart(figures.slots, "contexts")),
        _section("Usage over time", _time_chart(figures.slots, "usage")),
        _section("Without a search, over time", _time_chart(figures.slots, "fallbacks")),
        _section("Where tokens go", _bars(tokens, "one")),
        _section("Kept of what was looked at", _bars(kept, "two")),
        "</div>",
        _section("Figures", _table(("", ""), rows, numbers=())),
        _section("Retrieval by kind", _table(_KINDS_HEAD, kinds, numbers=range(1, 7))),
        _section("Models", _table(_MODELS_HEAD, models, numbers=range(1, 6))),
        _section("Warnings", _tallies(figures.warnings)),
        _section("Degradations", _tallies(figures.degradations)),
    ]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta http-equiv="Content-Security-Policy" '
        "content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<title>agentmem statistics</title><style>\n{read_text('stats.css')}</style></head>"
        f"<body><main>{''.join(body)}</main></body></html>\n"
    )


def _section(title: str, inside: str) -> str:
    return f"<section><h2>{_text(title)}</h2>{inside}</section>"


def _time_chart(slots: Sequence[Slot], what: str) -> str:
    if not slots:
        return "<p>Nothing is recorded.</p>"
    values = [
        slot.fallbacks / max(1, slot.contexts)
        if what == "fallbacks"
        else float(getattr(slot, what) or 0)
        for slot in slots
    ]
    most = max(values)
    room = _HEIGHT - _BOTTOM - 14
    step = _WIDTH / len(slots)
    bars = []
    for at, (slot, value) in enumerate(zip(slots, values, strict=True)):
        tall = room * value / most if most else 0.0
        said = f"{value:,.0f} contexts" if what == "contexts" else f"{100 * value:.1f} %"
        bars.append(
            f'<rect class="{"one" if what == "contexts" else "two"}" x="{at * step + 1:.1f}" '
            f'y="{14 + room - tall:.1f}" width="{max(1.0, step - 2):.1f}" height="{tall:.1f}">'
            f"<title>{slot.begins:%Y-%m-%d %H:%M}: {said}</title></rect>"
        )
    top = f"{most:,.0f}" if what == "contexts" else f"{100 * most:.3g} %"
    first, last = slots[0].begins, slots[-1].begins
    pattern = "%H:%M" if first.date() == last.date() else "%m-%d %H:%M"
    base = 14 + room
    return (
        f'<figure><svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{_text(what)}">'
        f'<text x="0" y="10">{top}</text>{"".join(bars)}'
        f'<line class="axis" x1="0" y1="{base}" x2="{_WIDTH}" y2="{base}"/>'
        f'<text x="0" y="{_HEIGHT - 6}">{first:{pattern}}</text>'
        f'<text x="{_WIDTH}" y="{_HEIGHT - 6}" text-anchor="end">{last:{pattern}}</text>'
        "</svg></figure>"
    )


def _bars(rows: Sequence[tuple[str, float, str]], style: str) -> str:
    if not rows:
        return "<p>Nothing is recorded.</p>"
    name, said, tall = 120, 76, 24
    room = _WIDTH - name - said
    drawn = []
    for at, (label, share, text) in enumerate(rows):
        y = at * tall
        short = clean_line(label, limit_characters=19)
        drawn.append(
            f'<text x="0" y="{y + 15}">{_text(short)}</text>'
            f'<rect class="track" x="{name}" y="{y + 4}" width="{room}" height="14" rx="3"/>'
            f'<rect class="{style}" x="{name}" y="{y + 4}" '
            f'width="{room * min(1.0, max(0.0, share)):.1f}" height="14" rx="3">'
            f"<title>{_text(label)}: {_text(text)}</title></rect>"
            f'<text x="{_WIDTH}" y="{y + 15}" text-anchor="end">{_text(text)}</text>'
        )
    return (
        f'<figure><svg viewBox="0 0 {_WIDTH} {len(rows) * tall}" role="img">'
        f"{''.join(drawn)}</svg></figure>"
    )


def _tallies(found: Sequence[Tally]) -> str:
    rows = [(f"{one.count:,}", one.text) for one in found]
    return _table(("Times", "What"), rows, numbers=()) if rows else "<p>None.</p>"


def _table(
    head: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: Sequence[int] | range
) -> str:
    if not rows:
        return "<p>Nothing is recorded.</p>"
    marked = ' class="n"'

    def cells(row: Sequence[str], tag: str) -> str:
        return "".join(
            f"<{tag}{marked if at in numbers else ''}>{_text(cell)}</{tag}>"
            for at, cell in enumerate(row)
        )

    top = f"<tr>{cells(head, 'th')}</tr>" if any(head) else ""
    inside = "".join(f"<tr>{cells(row, 'td')}</tr>" for row in rows)
    return f'<div class="scroll"><table>{top}{inside}</table></div>'


def _text(value: str) -> str:
    return escape(clean_line(value, limit_characters=_NAME_CHARACTERS))
