"""Inspecting, explaining, measuring, auditing and examining a memory."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import agentmem
from agentmem.agent.trace import Trace
from agentmem.base.errors import InvalidInput, InvalidNumber, SnapshotNotFound
from agentmem.base.types import Scope
from agentmem.inspector import look as looking
from agentmem.inspector.audit import audit
from agentmem.inspector.budget import estimate_budget
from agentmem.inspector.doctor import examine
from agentmem.inspector.json import NAMES, schema_of, to_json
from agentmem.inspector.look import Watcher, changes
from agentmem.inspector.page import render_page
from agentmem.inspector.render import (
    render_audit,
    render_doctor,
    render_estimate,
    render_explanation,
    render_inspection,
    render_replay,
    render_stats,
)
from agentmem.inspector.replay import read_setting, replay
from agentmem.inspector.stats import collect_stats, read_span, summarise
from agentmem.memory.manager import MemoryManager
from agentmem.prompt.build import SourceFate
from agentmem.prompt.snapshot import Looked, Outcome, Part, looked_at
from agentmem.testing import ManualClock
from agentmem.text import secrets
from tests.at_once import AtOnce, record
from tests.json_page import render as render_json
from tests.properties.snapshots import plain_snapshot
from tests.properties.strategies import word_counter

ANN = Scope(user_id="ann")
NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW)


@pytest.fixture
def memory(tmp_path: Path, clock: ManualClock) -> Iterator[MemoryManager]:
    with agentmem.open(tmp_path / "m.db", embedder=None, clock=clock) as opened:
        yield opened


def known(memory: MemoryManager) -> dict[str, str]:
    texts = {
        "tea": "I like green tea and never drink coffee.",
        "dog": "My dog is called Rex and he likes green tea too.",
        "deploy": "Deploys run on Fridays after the review.",
    }
    return {name: memory.add(text, user_id="ann").ids[0] for name, text in texts.items()}


def ask(memory: MemoryManager, question: str, **options: Any) -> str:
    turn = memory.turn(
        [{"role": "user", "content": question}], model="gpt-4o", user_id="ann", **options
    )
    turn.done(
        "Green tea [1].", usage={"prompt_tokens": 100, "completion_tokens": 5}, duration_ms=40
    )
    memory.runtime.worker.flush(5)
    return turn.snapshot_id


def test_inspecting_shows_the_context_and_keeps_nothing(memory: MemoryManager) -> None:
    ids = known(memory)
    found = looking.inspect_context(memory, "Which tea do I like?", model="gpt-4o", scope=ANN)
    assert found.snapshot is not None
    assert ids["tea"] in {seen.id for seen in found.snapshot.kept}
    assert found.status.kinds == {"fact": 3, "preference": 3}
    text = render_inspection(found, width=80)
    assert "green tea" in text
    assert "6 memories" in text
    assert memory.store.snapshots.list(None) == ()


def test_without_a_question_the_last_one_is_asked_again(memory: MemoryManager) -> None:
    known(memory)
    ask(memory, "Which tea do I like?")
    assert looking.inspect_context(memory, scope=ANN).query == "Which tea do I like?"


def test_a_past_context_is_explained_down_to_what_was_left_out(memory: MemoryManager) -> None:
    ids = known(memory)
    snapshot_id = ask(memory, "Which tea do I like?")
    found = looking.explain(memory, "last", scope=ANN)
    assert found.id == snapshot_id
    assert found.outcome is not None
    assert found.outcome.completion_tokens == 5
    text = render_explanation(found, width=80, message=True)
    for said in (
        "Which tea do I like?",
        ids["tea"],
        "5 tokens out, 100 in, 0.04 s",
        "Green tea [1].",
    ):
        assert said in text
    assert "<knowledge_context>" in text
    with pytest.raises(SnapshotNotFound, match="nowhere"):
        looking.explain(memory, "nowhere", scope=ANN)


def test_a_memory_is_told_why_it_is_in_or_not(memory: MemoryManager, clock: ManualClock) -> None:
    ids = known(memory)
    ask(memory, "Which tea do I like?")
    inside = looking.explain_memory(memory, ids["tea"], scope=ANN)
    assert inside.answer == "It is in the related knowledge: fits."
    assert any("score" in detail for detail in inside.details)
    clock.advance(60)
    (late,) = memory.add("Tea, tea and tea.", user_id="ann").ids
    assert "after this context" in looking.explain_memory(memory, late, scope=ANN).answer
    assert "no memory with this id" in looking.explain_memory(memory, "x", scope=ANN).answer
    (other,) = memory.add("Tea for Bob.", user_id="bob").ids
    assert "no memory with this id" in looking.explain_memory(memory, other, scope=ANN).answer


def test_a_replay_says_what_other_settings_would_have_done(memory: MemoryManager) -> None:
    known(memory)
    ask(memory, "Which green tea do I like?")
    none = looking.replay_context(memory, {"top_k": "0"}, scope=ANN)
    assert all(seen.decision == "dropped" for seen in none.looked_at if seen.section == "knowledge")
    assert none.knowledge_tokens == 0
    assert "over top_k 0" in render_replay(none, width=100)
    same = looking.replay_context(memory, {}, scope=ANN)
    assert same.changes == ()
    assert "Nothing would change." in render_replay(same)


@pytest.mark.parametrize(
    ("name", "value"),
    [("top_k", "ten"), ("top_k", "-1"), ("similarity_threshold", "2"), ("mode", "1")],
)
def test_settings_that_cannot_be_replayed_are_refused(name: str, value: str) -> None:
    with pytest.raises(InvalidInput):
        read_setting(name, value)


def test_a_larger_budget_lets_more_in() -> None:
    seen = tuple(
        Looked(id=f"m{at}", section="knowledge", decision="kept" if at == 1 else "dropped", reason="",
               text="Some words that stand here. " * 5, rank=at, score=1 / at, kind="fact")
        for at in (1, 2, 3)
    )  # fmt: skip
    snapshot = plain_snapshot(
        settings={"knowledge_budget": 70, "similarity_threshold": 0}, looked_at=seen
    )
    again = replay(snapshot, {"knowledge_budget": 10_000}, count=word_counter)
    assert [one.after.id for one in again.changes] == ["m2", "m3"]
    low = plain_snapshot(
        window_tokens=5_000, settings=snapshot.settings, looked_at=seen,
        parts=(Part(name="current_message", tokens=900, items=1), Part(name="knowledge", tokens=60, items=1)),
    )  # fmt: skip
    assert replay(low, {"knowledge_budget": 10_000}, count=word_counter).knowledge_tokens <= 30


def test_the_dry_run_needs_no_store() -> None:
    found = estimate_budget("gpt-4o", messages=20, memories=5, images=2)
    assert found.budget.component("recent_messages").tokens == 20 * 120
    assert found.budget.component("media").items == 2
    assert found.image_tokens == 765
    assert "Dry run for gpt-4o" in render_estimate(found, width=60)
    small = estimate_budget("gpt-4", messages=100, memories=5)
    assert small.dropped
    assert not small.budget.over_budget
    full = estimate_budget("gpt-4", window_tokens=500)
    assert "Fixed content" in full.problem
    assert estimate_budget("nobody-knows-it", window_tokens=10_000).budget.window_tokens == 10_000
    assert "assumed" in estimate_budget("nobody-knows-it").notes[0]
    for bad in (-1, 10**9):
        with pytest.raises(InvalidNumber):
            estimate_budget("gpt-4o", messages=bad)


def test_statistics_count_what_happened() -> None:
    seen = (
        Looked(id="a", section="knowledge", decision="kept", reason="fits", kind="fact", score=0.8),
        Looked(id="b", section="knowledge", decision="dropped", reason="", kind="page", score=0.2),
    )
    paused = ("memory search is paused for 30 s after failures",)
    found = [
        plain_snapshot(
            id=str(at), created_at=NOW + timedelta(hours=at), window_tokens=1_000, reserve_tokens=0,
            estimated_tokens=100 * (at + 1), looked_at=seen, cached=at == 1,
            parts=(Part(name="knowledge", tokens=75, items=1), Part(name="history", tokens=25, items=2)),
            degradations=paused if at in (1, 2) else (), warnings=(f"Over by {at} tokens.",),
            outcome=Outcome(prompt_tokens=100, completion_tokens=10, duration_ms=100.0 * at),
        )
        for at in range(4)
    ]  # fmt: skip
    figures = summarise(found, slots=4)
    assert (figures.usage.mean, figures.usage.low, figures.usage.high) == pytest.approx(
        (0.25, 0.1, 0.4)
    )
    assert [(one.name, one.share) for one in figures.components] == [
        ("knowledge", 0.75),
        ("history", 0.25),
    ]
    assert figures.relevance == pytest.approx(0.8)
    assert [(k.kind, k.kept, k.dropped) for k in figures.kinds] == [("fact", 4, 0), ("page", 0, 4)]
    assert figures.models[0].error == pytest.approx(1.5)
    assert (figures.breaker_openings, figures.cache_hits) == (1, 1)
    assert [(w.text, w.count) for w in figures.warnings] == [("Over by … tokens.", 4)]
    assert [slot.contexts for slot in figures.slots] == [1, 1, 1, 1]
    assert summarise([]).usage.mean is None


def test_statistics_reach_as_far_back_as_asked(memory: MemoryManager, clock: ManualClock) -> None:
    known(memory)
    ask(memory, "Which tea?")
    clock.advance(7_200)
    ask(memory, "Which dog?")
    all_of_it = collect_stats(memory, now=clock.now())
    assert all_of_it.contexts.contexts == 2
    recent = collect_stats(memory, now=clock.now(), last=timedelta(hours=1), scope=ANN)
    assert recent.contexts.contexts == 1
    assert collect_stats(memory, now=clock.now(), scope=Scope(user_id="bob")).contexts.contexts == 0
    text = render_stats(recent, width=80)
    assert "the last 60 minutes" in text
    page = render_page(recent)
    assert "<svg" in page
    assert "agentmem statistics" in page


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("90s", 90),
        ("15m", 900),
        ("24h", 86_400),
        ("7d", 604_800),
        (" 2 W", 1_209_600),
        ("1.5h", 5_400),
    ],
)
def test_a_stretch_of_time_is_read(written: str, seconds: float) -> None:
    assert read_span(written).total_seconds() == seconds


@pytest.mark.parametrize("written", ["", "h", "-1h", "1y", "24", "nan h", "٣h"])
def test_other_stretches_are_refused(written: str) -> None:
    with pytest.raises(InvalidInput):
        read_span(written)


def test_the_page_escapes_what_came_from_outside() -> None:
    from tests.properties.test_inspector import stats_of

    evil = plain_snapshot(
        model='<script>alert("x")</script>', warnings=("<b>&",), degradations=("\x1b[2J",)
    )
    page = render_page(stats_of([evil]))
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert "\x1b" not in page


def test_why_says_what_being_cited_did_to_the_score(memory: MemoryManager) -> None:
    known(memory)
    question = [{"role": "user", "content": "Which tea do I like?"}]
    for _ in range(3):
        with memory.turn(question, model="gpt-4o", user_id="ann") as turn:
            turn.done("Green tea [1].")
        memory.flush(10)
    snapshot = looking.explain(memory, "last", scope=ANN)
    cited = next(seen for seen in snapshot.looked_at if seen.decision == "kept")
    assert cited.boosts["use"] > 0
    told = looking.explain_memory(memory, cited.id, scope=ANN)
    assert any(detail.startswith("use +") for detail in told.details)


def test_the_audit_finds_each_sort_of_trouble(memory: MemoryManager, clock: ManualClock) -> None:
    memory.add("Rex is five years old.", user_id="ann")
    memory.add("Rex is six years old.", user_id="ann")
    memory.add("I like green tea.", user_id="ann")
    memory.flush()  # the contradiction is found in the background
    memory.add("My key is AKIAIOSFODNN7EXAMPLE, keep it.", user_id="ann")
    memory.add("Write to ann@example.com or +49 170 1234567.", user_id="ann")
    memory.add("long " * 2_000, user_id="ann")
    turn = memory.turn(
        [{"role": "user", "content": "Which tea do I like?"}], user_id="ann", dry=True
    )
    assert turn.block_text
    _store_raw(memory, f"He said: {turn.block_text}", "echo")
    _store_raw(memory, "Said twice.", "one")
    _store_raw(memory, "Said twice.", "two")
    _store_raw(memory, "Not valid.", "old", valid_to=NOW)
    clock.advance(100 * 86_400)
    report = audit(memory, now=clock.now())
    counts = {finding.name: finding.count for finding in report.findings}
    assert counts == {
        "duplicates": 1, "echoes": 1, "stale": 1, "never used": 10, "contradicted": 1, "secrets": 1,
        "personal data": 1, "oversized": 1,
    }  # fmt: skip
    text = render_audit(report, width=80)
    for hidden in ("AKIAIOSFODNN7EXAMPLE", "ann@example.com", "1234567"):
        assert hidden not in text
        assert hidden not in repr(to_json("audit", report))
    assert "{" not in text, "why two memories contradict each other is said in words"
    assert all(finding.remedy.startswith("agentmem ") for finding in report.findings)
    assert report.memories == audit(memory, now=clock.now(), scope=ANN).memories
    assert audit(memory, now=clock.now(), scope=Scope(user_id="bob")).clean
    before = audit(memory, now=clock.now() - timedelta(days=20))
    assert {f.name: f.count for f in before.findings}["never used"] == 0


def test_what_a_project_shares_is_mended_in_its_name(memory: MemoryManager) -> None:
    shared = memory.add(
        "Write to q@example.com.", user_id="ann", project_id="my shop", visibility="project"
    ).ids[0]
    memory.add("Write to p@example.com.", user_id="ann", project_id="my shop")
    found = {one.name: one for one in audit(memory, now=NOW).findings}["personal data"]
    assert found.count == 2
    assert found.remedy == (
        f"agentmem erase --store {memory.path} --user ann --project 'my shop' {shared}"
    )


def test_duplicates_may_differ_in_case_spaces_and_the_last_sign(memory: MemoryManager) -> None:
    first = memory.add("We use Postgres 15 for everything.", user_id="ann").ids[0]
    for text in ("we use  Postgres 15 for everything", "We use Postgres 15 for everything!"):
        memory.add(text, user_id="ann")
    memory.add("We use Postgres 15 for everything.", kind="episode", user_id="ann")
    memory.add("We use Postgres 16 for everything.", user_id="ann")
    memory.add("Do we use Postgres 15 for everything?", user_id="ann")
    memory.add("We use Postgres 15 for everything.", user_id="bob")
    told: list[int] = []
    report = audit(memory, now=NOW, on_progress=told.append)
    found = {finding.name: finding for finding in report.findings}["duplicates"]
    assert found.count == 3
    assert all(first in example.note for example in found.examples)
    # What follows the `>` can be copied into a shell as it stands.
    lines = render_audit(report, width=60).splitlines()
    at = next(at for at, line in enumerate(lines) if line.lstrip().startswith("> "))
    command = lines[at].replace("> ", "", 1)
    while command.endswith("\\"):
        at += 1
        command = command[:-1] + lines[at]
    assert " ".join(command.split()) == found.remedy


def _store_raw(memory: MemoryManager, text: str, name: str, **fields: Any) -> None:
    from agentmem.base.types import Memory
    from tests.entries import make_entry

    memory.store.put([make_entry(Memory(id=name, text=text, created_at=NOW, scope=ANN, **fields))])


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("token ghp_" + "a1B2" * 9, True),
        ("password = 'hunter2-Zq81x'", True),
        ("-----BEGIN RSA PRIVATE KEY-----", True),
        ("my password is hunter2-Zq, remember it", True),
        ("The PIN is 4711.", True),
        ("The password is what you forgot.", False),
        ("The key to the harbour is under the mat.", False),
        ('<source retrieved="2026-11-16" origin="user" api="x">', False),
        ("see 0190a1b2-1234-7abc-8def-0123456789ab for the api", False),
        ("aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYzzzzKEYQQQ", True),
        ("use sk-proj-" + "abcd1234EFGH5678ijkl9012MNOP3456", True),
        ("sk-ant-api03-" + "AbCdEfGhIjKlMnOpQrStUvWxYz-0123456789_AA", True),
        ("AIza" + "SyA1234567890abcdefGHIJKLMNOPqrstuvw", True),
        ("it is hf_" + "AbCdEfGhIjKlMnOpQrStUvWxYz01234567", True),
        ("ftp://bob:hunter2@files.example.org", True),
        ("The sk-learn-contrib-version-2 package, a task-force-for-1234567890.", False),
        ("Key findings, the author's account and a passenger began at the private pass.", False),
        ("commit 3f786850e387550fdab836ed7e6dc881de23001b", False),
    ],
)
def test_secrets_are_told_from_prose(text: str, found: bool) -> None:
    assert bool(secrets.find_secrets(text)) == found


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("my token is ghp_" + "a1B2" * 9 + ".", "a1B2a1B2"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKC\nQmFzZTY0\n-----END", "MIIEpAIBAAKC"),
        ("cut off: -----BEGIN PRIVATE KEY-----\nMIIEpAIBAAKCAQEA1", "MIIEpAIB"),
        ("aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYzzzzKEYQQQ", "K7MDENG"),
        ("xoxb-123456789012-1234567890123-AbCdEfGhIjKlMnOpQrStUvWx", "AbCdEfGh"),
    ],
)
def test_no_part_of_a_secret_is_shown(text: str, hidden: str) -> None:
    masked = secrets.mask_secrets(text, secrets.find_secrets(text))
    assert hidden in text
    assert hidden not in masked


def test_the_doctor_finds_a_healthy_memory_healthy(memory: MemoryManager) -> None:
    known(memory)
    report = examine(memory, now=NOW)
    assert report.state == "ok", report.checks
    assert report.exit_code == 0
    assert {check.name for check in report.checks} >= {
        "python",
        "sqlite",
        "packages",
        "store",
        "jobs",
        "index",
    }
    assert "every row and page checked" in render_doctor(report, width=100)


def test_the_doctor_says_what_is_wrong_and_what_to_do(
    memory: MemoryManager, tmp_path: Path
) -> None:
    known(memory)
    memory.flush()  # nothing else waits that could be claimed
    job = memory.store.jobs.enqueue("page", {}, at=NOW)
    memory.store.jobs.claim(at=NOW)
    memory.store.jobs.fail(job, "no network", retry_at=None)
    trace = Trace(memory, worker=AtOnce())
    record(trace, plain_snapshot(created_at=NOW, degradations=("search failed: broken",)))
    states = {check.name: check for check in examine(memory, now=NOW).checks}
    assert (states["jobs"].state, states["degradations"].state) == ("warn", "warn")
    assert states["jobs"].found == "0 waiting, 1 failed; the last one (page): no network"
    assert states["degradations"].remedy == f"agentmem explain --store {memory.path} s1"
    failed = examine(None, now=NOW, problem="The store is damaged.")
    assert (failed.state, failed.exit_code) == ("fail", 1)
    memory.close()
    closed = examine(memory, now=NOW)
    assert closed.exit_code == 1  # every check of a closed store fails, none raises


def test_the_watcher_sees_what_others_build(memory: MemoryManager, tmp_path: Path) -> None:
    known(memory)
    with agentmem.open(tmp_path / "m.db", embedder=None) as other:
        watcher = Watcher(other)
        assert watcher.poll() == ()
        ask(memory, "Which tea do I like?")
        first = watcher.poll()
        assert [event.kind for event in first] == ["context", "response"]
        assert watcher.poll() == ()
        ask(memory, "When do deploys run?")
        (context, response) = watcher.poll()
        assert any(text.startswith("+") for text in context.changed)
        assert response.snapshot.outcome is not None


def test_the_watcher_shows_no_older_contexts_once_it_began(memory: MemoryManager) -> None:
    trace = Trace(memory, worker=AtOnce())
    for minute in range(5):
        moment = NOW + timedelta(minutes=minute)
        record(trace, plain_snapshot(id=f"old{minute}", created_at=moment))
    record(trace, plain_snapshot(id="twin", created_at=NOW + timedelta(minutes=3, seconds=50)))
    watcher = Watcher(memory, limit=1)
    assert [event.snapshot.id for event in watcher.poll()] == ["old4"]
    record(trace, plain_snapshot(id="new", created_at=NOW + timedelta(minutes=9)))
    record(trace, plain_snapshot(id="late", created_at=NOW + timedelta(minutes=3, seconds=55)))
    trace.complete("old4", Outcome(answer="yes"))
    seen = [(event.kind, event.snapshot.id) for event in watcher.poll()]
    assert seen == [("context", "late"), ("response", "old4"), ("context", "new")]
    trace.complete("new", Outcome(answer="yes"))
    assert [event.kind for event in watcher.poll()] == ["response"]


def test_a_late_response_is_shown_when_it_comes(memory: MemoryManager) -> None:
    watcher = Watcher(memory)
    trace = Trace(memory, worker=AtOnce())
    record(trace, plain_snapshot(id="a"))
    assert [event.kind for event in watcher.poll()] == ["context"]
    record(trace, plain_snapshot(id="b", created_at=NOW + timedelta(seconds=1), model="other"))
    trace.complete("a", Outcome(answer="yes"))
    events = watcher.poll()
    assert [(event.kind, event.snapshot.id) for event in events] == [
        ("response", "a"),
        ("context", "b"),
    ]
    assert events[1].changed == ("model",)
    assert changes(None, plain_snapshot()) == ()


def test_every_command_has_a_schema() -> None:
    for name in NAMES:
        schema = schema_of(name)
        assert "schema" in schema["properties"]
        assert schema["description"]
    with pytest.raises(InvalidInput, match="has no schema"):
        schema_of("nothing")


def test_reports_are_json_of_their_schema(memory: MemoryManager) -> None:
    known(memory)
    ask(memory, "Which tea do I like?")
    values: dict[str, Any] = {
        "inspect": looking.inspect_context(memory, "tea", scope=ANN),
        "budget": estimate_budget("gpt-4", messages=100),
        "audit": audit(memory, now=NOW),
        "doctor": examine(memory, now=NOW),
        "stats": collect_stats(memory, now=NOW),
    }
    for name, value in values.items():
        assert to_json(name, value)["schema"] == f"agentmem.{name}/1"
    assert to_json("budget", values["budget"])["budget"]["components"]["memories"]["tokens"] == 0


def test_nobody_can_write_to_the_terminal_through_a_memory() -> None:
    seen = Looked(
        id="a\x1b[2J", section="knowledge", decision="kept", reason="\x07", text="\x1b]0;x\x07 hi"
    )
    text = render_explanation(plain_snapshot(looked_at=(seen,), query="\x1b[31m"), width=80)
    assert "\x1b" not in text
    assert "\x07" not in text


def test_looked_at_takes_over_what_a_citation_shows(memory: MemoryManager) -> None:
    ids = known(memory)
    seen = looked_at(
        memory.get(ids["tea"], user_id="ann"),
        SourceFate(id=ids["tea"], outcome="included", reason="fits"),
        section="profile",
        reason="fits",
        score=0.5,
    )
    assert (seen.origin, seen.retrieved, seen.score) == ("user", "2026-01-01", 0.5)


def test_the_page_of_schemas_is_up_to_date() -> None:
    page = Path(__file__).resolve().parents[2] / "docs" / "json.md"
    assert page.read_text(encoding="utf-8") == render_json(), (
        "python -m tests.json_page > docs/json.md"
    )
