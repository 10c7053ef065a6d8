"""Keeping snapshots and reading them again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import agentmem
from agentmem.agent.trace import Trace
from agentmem.base.config import MemorySettings
from agentmem.base.errors import InvalidNumber, SnapshotNotFound
from agentmem.base.types import Memory, Scope
from agentmem.memory.manager import MemoryManager
from agentmem.prompt.build import SourceFate
from agentmem.prompt.snapshot import Looked, Outcome, Snapshot, looked_at
from agentmem.sources.background import Worker
from tests.at_once import AtOnce, record
from tests.properties.snapshots import plain_snapshot

ANN, BOB = Scope(user_id="ann"), Scope(user_id="bob")
NOW = datetime(2026, 1, 1, tzinfo=UTC)
SENTENCE = "The harbour at Zyxwvut opens at seven, and closes when the last of the boats is in. "
LONG = SENTENCE * 13


@pytest.fixture(params=["memory", "file"])
def memory(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    where = ":memory:" if request.param == "memory" else str(tmp_path / "m.db")
    with agentmem.open(where, embedder=None) as opened:
        yield opened


def seen(memory: Memory, **fields: Any) -> Looked:
    fits = SourceFate(id=memory.id, outcome="included", reason="fits")
    found = looked_at(memory, fits, section="knowledge", reason="fits", text=memory.text)
    return replace(found, **fields)


def remembered(memory: MemoryManager, text: str = LONG) -> Memory:
    return memory.get(memory.add(text, user_id="ann").ids[0], user_id="ann")


def test_what_was_recorded_is_read_back_whole(memory: MemoryManager) -> None:
    trace = Trace(memory, worker=AtOnce())
    first = seen(remembered(memory), score=0.8, rank=1)
    snapshot = plain_snapshot(
        scope=ANN, looked_at=(first,), message="<block>", settings={"top_k": 5}
    )
    record(trace, snapshot)
    assert trace.get("s1", scope=ANN) == snapshot
    assert trace.get("q1", scope=ANN) == snapshot  # by the message it belongs to
    assert trace.get("last", scope=ANN) == trace.last(scope=ANN) == snapshot
    assert trace.last(scope=BOB) is None
    assert trace.last(scope=None) == snapshot
    with pytest.raises(SnapshotNotFound, match="s1"):
        trace.get("s1", scope=BOB)


def test_the_outcome_is_added_when_it_is_known(memory: MemoryManager) -> None:
    trace = Trace(memory, worker=AtOnce())
    record(trace, plain_snapshot(scope=ANN, estimated_tokens=110))
    outcome = Outcome(answer="yes", prompt_tokens=100, completion_tokens=3, usage={"cached": 4})
    trace.complete("s1", outcome, scope=ANN)
    found = trace.get("s1", scope=ANN)
    assert found.outcome == outcome
    assert found.estimate_error == pytest.approx(0.1)
    trace.complete("gone", outcome, scope=ANN)  # erased or pruned since: nothing to add to
    assert trace.dropped == 0


def test_a_snapshot_that_still_waits_is_written_once_with_its_outcome(
    memory: MemoryManager,
) -> None:
    worker = Worker(memory.store, clock=memory.clock, threaded=False)
    trace = Trace(memory, worker=worker)
    record(trace, plain_snapshot(scope=ANN))
    trace.complete("s1", Outcome(answer="yes"), scope=ANN)
    assert worker.state.queued == 1
    found = trace.get("s1", scope=ANN)
    assert found.outcome == Outcome(answer="yes")
    assert worker.state.done == 1


def test_texts_that_repeat_are_kept_once(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    with agentmem.open(str(path), embedder=None) as memory:
        trace = Trace(memory, worker=AtOnce())
        text = "".join(chr(0x4E00 + (n * 7919) % 5000) for n in range(4000))
        one = seen(remembered(memory, text))
        for number in range(20):
            record(
                trace, plain_snapshot(id=f"s{number}", message_id="", scope=ANN, looked_at=(one,))
            )
        memory.upkeep.sync()
        assert memory.store.upkeep.verify().ok
        rows = memory.store.snapshots.list(None, limit=100)
        assert len(rows) == 20
        assert all("text" not in row.data["looked_at"][0] for row in rows)
        assert trace.get("s7", scope=ANN).looked_at == (one,)


def test_texts_of_usual_length_stay_in_their_snapshot(memory: MemoryManager) -> None:
    trace = Trace(memory, worker=AtOnce())
    first, second = seen(remembered(memory, 3 * SENTENCE)), seen(remembered(memory))
    record(trace, plain_snapshot(scope=ANN, looked_at=(first, second)))
    (row,) = memory.store.snapshots.list(ANN)
    assert [("text" in one, "text_id" in one) for one in row.data["looked_at"]] == [
        (True, False), (False, True),
    ]  # fmt: skip
    assert trace.get("s1", scope=ANN).looked_at == (first, second)


def test_erasing_a_memory_leaves_nothing_that_quotes_it(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    secret = "Zyxwvut-" + "Qqharbour" * 20
    with agentmem.open(str(path), embedder=None) as memory:
        trace = Trace(memory, worker=AtOnce())
        first, other = remembered(memory, secret), remembered(memory, LONG)
        record(
            trace,
            plain_snapshot(
                id="s1", scope=ANN, looked_at=(seen(first), seen(other)), message=f"<{secret}>" * 40
            ),
        )
        record(trace, plain_snapshot(id="s2", message_id="q2", scope=ANN, looked_at=(seen(other),)))
        # names no memory, but quotes one, inside what is compressed
        record(
            trace,
            plain_snapshot(id="s3", message_id="q3", scope=ANN, query=f"is it {secret}?" * 30),
        )
        receipt = memory.erase(first.id, user_id="ann")
        assert receipt.snapshots == 2
        assert [s.id for s in trace.list(scope=ANN)] == ["s2"]
        assert trace.get("s2", scope=ANN).looked_at[0].text == LONG
        stored = [
            s for record in memory.store.snapshots.list(None, limit=10) for s in record.mentions
        ]
        assert first.id not in stored
        assert memory.upkeep.verify().ok
    for file in tmp_path.iterdir():
        data = file.read_bytes()
        assert secret.encode() not in data
        assert first.id.encode() not in data


def test_a_snapshot_written_after_the_erasure_quotes_nothing(memory: MemoryManager) -> None:
    late: list[tuple[Mapping[str, Any], Scope]] = []

    class Late(AtOnce):
        def submit(
            self, kind: str, payload: Mapping[str, Any], /, *, scope: Scope = ANN, key: str = ""
        ) -> bool:
            late.append((payload, scope))
            return True

    worker = Late()
    trace = Trace(memory, worker=worker)
    first = remembered(memory)
    record(trace, plain_snapshot(scope=ANN, looked_at=(seen(first),), message=LONG, query=LONG))
    memory.erase(first.id, user_id="ann")
    for payload, scope in late:
        worker._handlers["snapshot"](payload, scope)
    found = trace.get("s1", scope=ANN)
    assert LONG.strip() not in repr(found)
    assert "erased" in found.warnings[-1]


def test_old_and_large_snapshots_go_first(memory: MemoryManager) -> None:
    one = seen(remembered(memory))

    def written(*, days: float | None, most: int | None, count: int = 5) -> list[str]:
        memory.store.snapshots.prune(keep=0)
        settings = MemorySettings(keep_contexts_days=days, keep_contexts_bytes=most)
        parts: Any = SimpleNamespace(store=memory.store, settings=settings)
        trace = Trace(parts, worker=AtOnce(), pruned_every=1)
        for day in range(count):
            moment = NOW + timedelta(days=day)
            record(
                trace,
                plain_snapshot(
                    id=f"d{day}", message_id="", created_at=moment, scope=ANN, looked_at=(one,)
                ),
            )
        return [s.id for s in trace.list(scope=ANN)]

    assert written(days=2, most=64 * 1024 * 1024) == ["d4", "d3", "d2"]
    assert written(days=None, most=1) == ["d4"]
    assert written(days=None, most=None) == ["d4", "d3", "d2", "d1", "d0"]
    assert memory.store.snapshots.prune(keep=0) == 5
    assert memory.store.snapshots.shared([one.id]) == {}


def test_a_full_queue_or_a_broken_store_never_reaches_the_turn(
    memory: MemoryManager, caplog: pytest.LogCaptureFixture
) -> None:
    class Full(AtOnce):
        def submit(
            self, kind: str, payload: Mapping[str, Any], /, *, scope: Scope = ANN, key: str = ""
        ) -> bool:
            return False

    trace = Trace(memory, worker=Full())
    for _ in range(3):
        record(trace, plain_snapshot())
    assert trace.dropped == 3
    assert [r.message for r in caplog.records] == [
        "A snapshot was not kept (the queue is full); 1 so far."
    ]
    broken = Trace(memory, worker=AtOnce())
    memory.close()
    record(broken, plain_snapshot())
    broken.complete("s1", Outcome())
    assert broken.dropped == 2


def test_what_is_not_json_is_written_as_near_as_can_be(memory: MemoryManager) -> None:
    trace = Trace(memory, worker=AtOnce())
    odd: Snapshot = plain_snapshot(
        query="a\ud800b",
        settings={
            "x": float("nan"),
            "y": {
                1,
            },
            3: Path("a"),
        },
    )
    record(trace, odd)
    found = trace.get("s1")
    assert found.query == "a?b"
    assert dict(found.settings) == {"x": None, "y": [1], "3": "a"}
    record(trace, replace(odd, id="s1"))  # the same again is written once
    assert len(trace.list()) == 1
    assert trace.dropped == 0


def test_how_long_contexts_are_kept_is_a_setting() -> None:
    with agentmem.open(":memory:", embedder=None, keep_contexts_days=1) as memory:
        trace = memory.runtime.trace
        record(trace, plain_snapshot(created_at=NOW))
        assert trace.last(scope=None) is not None  # it is written by now
        assert trace.prune(now=NOW + timedelta(hours=23)) == 0
        assert trace.prune(now=NOW + timedelta(hours=25)) == 1
    with agentmem.open(":memory:", embedder=None, keep_contexts_days=None) as memory:
        record(memory.runtime.trace, plain_snapshot(created_at=NOW))
        assert memory.runtime.trace.last(scope=None) is not None
        assert memory.runtime.trace.prune(now=NOW + timedelta(days=10_000)) == 0
    wrongs: tuple[dict[str, Any], ...] = ({"keep_contexts_days": -1}, {"keep_contexts_bytes": -1})
    for wrong in wrongs:
        with pytest.raises(InvalidNumber, match=next(iter(wrong))):
            agentmem.open(":memory:", embedder=None, **wrong)


FAKE = "a1B2" * 8
REFUSALS = (
    f"AuthenticationError: Incorrect API key provided: sk-proj-{FAKE}. Find yours in the console.",
    f"AuthenticationError: Incorrect API key provided: {FAKE}",
    f"APIError: POST https://host/v1/models/m:run?alt=sse&key={FAKE}&x=1 gave 403",
    f"HTTPError: 401 for {{'Authorization': 'Bearer {FAKE}', 'accept': '*/*'}}",
    f"HTTPError: headers were x-api-key: {FAKE}, content-type: json",
    f"ProxyError: https://robot:{FAKE}@proxy.example:8080 refused",
)


@pytest.mark.parametrize("error", REFUSALS)
def test_a_key_that_a_provider_repeats_is_not_kept(memory: MemoryManager, error: str) -> None:
    trace = Trace(memory, worker=AtOnce())
    told = replace(plain_snapshot(), id="s1", degradations=(error,), warnings=(error,))
    record(trace, told)
    trace.complete("s1", Outcome(error=error), scope=told.scope)
    kept = trace.get("s1", scope=None)
    assert kept.outcome is not None
    for said in (kept.outcome.error, *kept.degradations, *kept.warnings):
        assert FAKE not in said
        assert "(key removed)" in said
        assert said[:5] == error[:5]


@pytest.mark.parametrize(
    "error",
    [
        "RateLimitError: 429, retry after 20 s, request id req_011CSHoEeqs5C35K2UUqR7Fy",
        "ContextWindowExceededError: 200000 tokens, the key point is: send less",
        "TimeoutError: https://host/v1/chat?stream=true took 60 s",
    ],
)
def test_what_went_wrong_is_kept_in_its_own_words(memory: MemoryManager, error: str) -> None:
    trace = Trace(memory, worker=AtOnce())
    record(trace, replace(plain_snapshot(), id="s1", degradations=(error,)))
    assert trace.get("s1", scope=None).degradations == (error,)
