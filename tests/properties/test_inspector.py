"""What the inspector says, of any context and at any width."""

from __future__ import annotations

import json
import tempfile
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

import agentmem
from agentmem.agent.trace import Trace
from agentmem.inspector import render as rendering
from agentmem.inspector.json import to_json
from agentmem.inspector.layout import Pen, width_of
from agentmem.inspector.look import Event
from agentmem.inspector.page import render_page
from agentmem.inspector.render import render_stats
from agentmem.inspector.replay import diff, replay, why
from agentmem.inspector.stats import QueueStats, StatsReport, summarise
from agentmem.prompt.build import SourceFate
from agentmem.prompt.snapshot import Outcome, Snapshot, looked_at
from agentmem.text.secrets import find_personal, mask_spans
from tests.at_once import AtOnce, record
from tests.properties.snapshots import plain_snapshot, snapshots
from tests.properties.strategies import texts, word_counter

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@given(snapshots(), snapshots())
def test_nothing_differs_between_a_context_and_itself(one: Snapshot, other: Snapshot) -> None:
    """N4 Diff. Nothing differs between a context and itself, and what differs between two is the same both ways."""
    assert diff(one, one).empty
    there, back = diff(one, other), diff(other, one)
    assert {d.name for d in there.fields} == {d.name for d in back.fields}
    assert len(there.memories) == len(back.memories)
    for change in there.memories:
        assert any(
            (change.id, change.before, change.after) == (one.id, one.after, one.before)
            for one in back.memories
        )


@given(
    st.lists(texts(80), max_size=4),
    st.lists(texts(40).filter(str.strip), min_size=1, max_size=3),
    texts(60).filter(str.strip),
)
def test_the_parts_are_the_whole(said: list[str], known: list[str], asked: str) -> None:
    """N5 Parts. The tokens of a context's parts add up to its estimate."""
    with agentmem.open(":memory:", embedder=None) as memory:
        for text in known:
            memory.add(text, user_id="ann")
        messages = [{"role": "user", "content": text} for text in [*said, asked]]
        turn = memory.turn(messages, model="gpt-4o", user_id="ann", dry=True)
        snapshot = turn.snapshot
    assert snapshot is not None
    assert sum(part.tokens for part in snapshot.parts) == snapshot.estimated_tokens


@given(
    st.text("abcdefgh ", min_size=12, max_size=300).filter(lambda text: len(set(text)) > 4),
    st.sampled_from(("looked at", "in the message", "in the question", "in the answer")),
)
def test_erased_memories_are_in_no_snapshot(needle: str, where: str) -> None:
    """N6 Snapshot erasure. After a memory is erased no snapshot, shared text or file holds its text or id."""
    secret = f"Zq{needle}Zq"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.db"
        with agentmem.open(path, embedder=None, durability="normal") as memory:
            trace = Trace(memory, worker=AtOnce())
            (memory_id,) = memory.add(secret).ids
            stored = memory.get(memory_id)
            fits = SourceFate(id=memory_id, outcome="included", reason="fits")
            seen = looked_at(stored, fits, section="knowledge", reason="fits", text=stored.text)
            places: dict[str, dict[str, Any]] = {
                "looked at": {"looked_at": (seen,)},
                "in the message": {"message": f"<source>{secret}</source>" * 9},
                "in the question": {"query": f"{secret}?" * 9},
                "in the answer": {},
            }
            record(trace, plain_snapshot(**places[where]))
            if where == "in the answer":
                trace.complete("s1", Outcome(answer=f"It is {secret}. " * 9))
            memory.erase(memory_id)
            assert trace.list(scope=None) == ()
        for file in Path(folder).iterdir():
            content = file.read_bytes()
            assert secret.encode() not in content
            assert memory_id.encode() not in content


def renderings(snapshot: Snapshot, other: Snapshot, width: int, pen: Pen) -> list[str]:
    report = stats_of([snapshot, other])
    return [
        rendering.render_explanation(snapshot, width=width, pen=pen, message=True),
        rendering.render_diff(diff(snapshot, other), width=width, pen=pen),
        rendering.render_why(why(snapshot, "m1"), width=width, pen=pen),
        rendering.render_replay(
            replay(snapshot, {"top_k": 1}, count=word_counter), width=width, pen=pen
        ),
        rendering.render_event(
            Event(kind="context", snapshot=snapshot, changed=("+m1",)), width=width, pen=pen
        ),
        rendering.render_event(Event(kind="response", snapshot=snapshot), width=width, pen=pen),
        render_stats(report, width=width, pen=pen),
    ]


def stats_of(found: list[Snapshot]) -> StatsReport:
    return StatsReport(
        at=NOW, last_seconds=86_400.0, contexts=summarise(found), queue=QueueStats(waiting=1, running=0, failed=2),
        memories=10, kinds={"fact": 10}, documents=1, superseded=0, deleted=0, bytes=10**7,
        vectors={"a": 1}, vectors_missing={"a": 0}, location="/tmp/<b>.db",
    )  # fmt: skip


@given(snapshots(), snapshots(), st.integers(40, 220), st.booleans())
@example(plain_snapshot(query="\x1b[31mred\x07", looked_at=()), plain_snapshot(), 60, False)
@example(plain_snapshot(settings={"\n": ["नमस्ते।"]}), plain_snapshot(settings={}), 40, True)
def test_every_line_fits_and_moves_no_cursor(
    snapshot: Snapshot, other: Snapshot, width: int, ascii_only: bool
) -> None:
    """N7 Width. Everything the inspector prints fits the terminal's width and holds nothing that moves its cursor."""
    for text in renderings(snapshot, other, width, Pen(ascii_only=ascii_only)):
        for line in text.split("\n"):
            assert width_of(line) <= width, line
            assert line.isprintable(), line
            assert not ascii_only or line.isascii() or any(mark in line for mark in "→—·←✓"), line


@given(snapshots(), snapshots())
def test_every_value_is_json_of_its_schema(snapshot: Snapshot, other: Snapshot) -> None:
    """N9 JSON. What a command prints with --json passes its documented schema, whatever was recorded."""
    values: dict[str, Any] = {
        "explain": snapshot,
        "diff": diff(snapshot, other),
        "why": why(snapshot, "m1"),
        "replay": replay(snapshot, {"top_k": 1}, count=word_counter),
        "monitor": Event(kind="context", snapshot=snapshot),
        "stats": stats_of([snapshot, other]),
    }
    for name, value in values.items():
        written = to_json(name, value)
        assert written["schema"] == f"agentmem.{name}/1"
        json.dumps(written, allow_nan=False)


@given(st.lists(snapshots(), max_size=3), st.randoms(use_true_random=False))
def test_figures_do_not_depend_on_the_order(found: list[Snapshot], random: Any) -> None:
    """N10 Figures. Statistics do not depend on the order of contexts, and the page made of them is one closed document."""
    unique = [replace(one, id=str(at)) for at, one in enumerate(found)]
    shuffled = list(unique)
    random.shuffle(shuffled)
    assert summarise(unique) == summarise(shuffled)
    page = render_page(stats_of(unique))
    assert not [tag for tag in ("<script", "<link", "<img", "<a ", "src=", "url(") if tag in page]
    assert page.endswith("</html>\n")


@given(texts(200))
@example("mail ann@example.com, card 4111 1111 1111 1111, DE89 3704 0044 0532 0130 00")
def test_masked_text_holds_no_personal_data(text: str) -> None:
    """N11 Masking. What was found as personal data does not stand in the masked text."""
    found = find_personal(text)
    masked = mask_spans(text, [(one.start, one.end) for one in found])
    for one in found:
        assert text[one.start : one.end] not in masked
