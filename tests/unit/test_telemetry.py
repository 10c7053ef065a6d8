"""Log lines and spans."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import agentmem
from agentmem.agent.trace import log_context
from agentmem.base import telemetry
from agentmem.base.types import Scope
from agentmem.prompt.snapshot import Looked
from agentmem.testing import HashEmbedder
from tests.properties.snapshots import plain_snapshot

pytest.importorskip("opentelemetry.sdk")


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[object]:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(telemetry, "_make_tracer", lambda: provider.get_tracer("test"))
    monkeypatch.delenv(telemetry.CAPTURE_VARIABLE, raising=False)
    yield exporter
    provider.shutdown()


def test_a_search_is_a_span_without_its_text(spans: object) -> None:
    with telemetry.span("search_memory", store_id="s", query="my secret", top_k=5) as one:
        one.found(2, [{"id": "m1", "content": "secret"}])
    (span,) = spans.get_finished_spans()  # type: ignore[attr-defined]
    assert span.name == "search_memory"
    assert dict(span.attributes) == {
        "gen_ai.operation.name": "search_memory",
        "gen_ai.memory.store.id": "s",
        "gen_ai.memory.record.count": 2,
        "agentmem.top_k": 5,
    }


def test_text_is_in_a_span_only_by_choice(spans: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(telemetry.CAPTURE_VARIABLE, "true")
    with telemetry.span("search_memory", query="tea?") as one:
        one.found(1, [{"id": "m1", "content": "green tea"}])
    (span,) = spans.get_finished_spans()  # type: ignore[attr-defined]
    assert span.attributes["gen_ai.memory.query.text"] == "tea?"
    assert "green tea" in span.attributes["gen_ai.memory.records"]


def test_a_failure_is_noted_by_its_type_and_goes_on(spans: object) -> None:
    with pytest.raises(KeyError), telemetry.span("create_memory"):
        raise KeyError("somebody's words")
    (span,) = spans.get_finished_spans()  # type: ignore[attr-defined]
    assert span.attributes["error.type"] == "KeyError"
    assert not span.status.is_ok
    assert "words" not in str(span.to_json())


def test_what_keeps_a_memory_in_order_is_seen_step_by_step(spans: object, tmp_path: Path) -> None:
    export = tmp_path / "export.json"
    export.write_text(json.dumps([{"id": "1", "memory": "The limit is 600 seconds."}]))
    with agentmem.open(":memory:", embedder=HashEmbedder()) as memory:
        memory.add("The limit is 900 seconds.", user_id="ann")
        memory.upkeep.import_from(export, user_id="ann")
        memory.flush(30)
        (one,) = memory.living.contradictions(user_id="ann")
        memory.living.resolve(one.id, "both_valid", user_id="ann")
        memory.living.consolidate(user_id="ann")
        memory.upkeep.merge_from(user_id="ann", into="bob")
        memory.living.assemble_context(user_id="ann")
    finished = spans.get_finished_spans()  # type: ignore[attr-defined]
    steps = [span.attributes.get("agentmem.step") for span in finished]
    wanted = ["import", "judge", "resolve", "consolidate", "merge", "assemble"]
    assert [step for step in dict.fromkeys(steps) if step] == wanted
    assert "seconds" not in "".join(span.to_json() for span in finished)


def test_spans_cost_nothing_where_nobody_uses_them() -> None:
    script = (
        "import sys, agentmem.base.telemetry as t\n"
        "with t.span('search_memory', query='x') as s: s.found(1); s.set('a', 1)\n"
        "assert not [m for m in sys.modules if m.startswith('opentelemetry')]\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr


def test_a_context_is_one_line_with_figures_and_no_text(caplog: pytest.LogCaptureFixture) -> None:
    seen = Looked(id="m1", section="knowledge", decision="kept", reason="fits", text="my words")
    snapshot = plain_snapshot(
        scope=Scope(user_id="ann"), looked_at=(seen,), query="my words?", timings_ms={"search": 1.5}
    )
    log_context(snapshot)
    assert not caplog.records  # INFO is off by default
    caplog.set_level(logging.INFO, logger="agentmem")
    log_context(snapshot)
    (first,) = caplog.records
    assert first.getMessage() == "context s1: 0 tokens of 124000, 1 of 1 items, 1.5 ms"
    assert first.__dict__["agentmem_user_id"] == "ann"
    assert "my words" not in repr([record.__dict__ for record in caplog.records])
