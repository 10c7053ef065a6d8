"""The worker on its thread: at once, in order, again after failures, and kept at the end."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import agentmem
from agentmem.base.errors import StoreBusy
from agentmem.base.time import SystemClock
from agentmem.base.types import Scope
from agentmem.sources.background import QueuedJob, Waiting, Worker
from agentmem.stores.base import Store
from agentmem.stores.sqlite.store import SqliteStore
from agentmem.testing import HashEmbedder, ManualClock

ROOT = Path(__file__).resolve().parents[2]
ANA = Scope(user_id="ana")


class Seen:
    """A handler that keeps what it was given, fails on demand and can be held up."""

    def __init__(self, *, fails: int = 0) -> None:
        self.payloads: list[Mapping[str, Any]] = []
        self.scopes: list[Scope] = []
        self.threads: set[threading.Thread] = set()
        self.fails = fails
        self.gate = threading.Event()
        self.gate.set()
        self.reached = threading.Event()

    def __call__(self, payload: Mapping[str, Any], scope: Scope) -> None:
        self.threads.add(threading.current_thread())
        self.reached.set()
        assert self.gate.wait(30)
        if self.fails:
            self.fails -= 1
            raise OSError("no route \ud800 to host")
        self.payloads.append(payload)
        self.scopes.append(scope)


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    made: Store = (
        SqliteStore(":memory:") if request.param == "memory" else SqliteStore(tmp_path / "m.db")
    )
    yield made
    made.close()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def worker_of(store: Store, clock: ManualClock, seen: Seen, **options: Any) -> Worker:
    worker = Worker(store, clock=clock, **options)
    worker.handle("page", seen)
    return worker


def test_no_thread_and_no_file_before_the_first_submit(tmp_path: Path) -> None:
    before = threading.active_count()
    store = SqliteStore(tmp_path / "m.db")
    worker = worker_of(store, ManualClock(), seen := Seen())
    assert threading.active_count() == before
    assert not worker.state.alive
    assert worker.flush()
    assert not (tmp_path / "m.db").exists()
    assert worker.submit("page", {"n": 1})
    assert worker.flush()
    assert [t.name for t in seen.threads] == ["agentmem-worker"]
    worker.close()
    store.close()


def test_jobs_run_in_order_on_one_other_thread(store: Store, clock: ManualClock) -> None:
    worker = worker_of(store, clock, seen := Seen())
    for n in range(50):
        assert worker.submit("page", {"n": n}, scope=ANA)
    assert worker.flush()
    assert [p["n"] for p in seen.payloads] == list(range(50))
    assert set(seen.scopes) == {ANA}
    assert seen.threads.isdisjoint({threading.current_thread()})
    assert len(seen.threads) == 1
    assert worker.state.done == 50
    worker.close()


def test_what_is_to_be_done_when_idle_is_done_after_the_last_job(
    store: Store, clock: ManualClock
) -> None:
    worker = worker_of(store, clock, seen := Seen())
    done_by_then: list[int] = []

    def look() -> None:
        done_by_then.append(len(seen.payloads))
        raise RuntimeError("nobody's business")

    worker.when_idle(look)
    seen.gate.clear()
    for n in range(5):
        worker.submit("page", {"n": n})
    seen.gate.set()
    assert worker.flush()
    assert done_by_then[-1] == 5
    assert worker.state.done == 5
    assert worker.problem == ""
    worker.close()


def test_the_problem_is_what_failed_last(store: Store, clock: ManualClock) -> None:
    worker = Worker(store, clock=clock, threaded=False)

    def fail(payload: Any, scope: Scope) -> None:
        raise RuntimeError("no disk")

    worker.handle("page", fail)
    assert worker.problem == ""
    worker.submit("page", {})
    worker.run_due()
    assert worker.problem == "page: RuntimeError: no disk"
    worker.close()


def test_the_latest_payload_of_a_key_wins_while_it_waits(store: Store, clock: ManualClock) -> None:
    worker = worker_of(store, clock, seen := Seen())
    seen.gate.clear()
    worker.submit("page", {"n": "running"}, key="k")
    assert seen.reached.wait(30)
    for n in range(3):
        worker.submit("page", {"n": n}, key="k")
        worker.submit("page", {"n": f"ana {n}"}, key="k", scope=ANA)
    worker.submit("page", {"n": "no key"})
    worker.submit("page", {"n": "no key"})
    assert worker.state.queued == 4
    seen.gate.set()
    assert worker.flush()
    assert [p["n"] for p in seen.payloads] == ["running", 2, "ana 2", "no key", "no key"]
    worker.close()


def test_a_failure_is_tried_again_after_its_back_off_only(store: Store, clock: ManualClock) -> None:
    worker = worker_of(store, clock, seen := Seen(fails=2))
    worker.submit("page", {"n": 1})
    assert not worker.flush()
    assert not worker.flush()
    assert (worker.state.queued, worker.state.retrying, seen.fails) == (1, 1, 1)
    assert "no route" in worker.state.last_error
    clock.advance(2)
    assert not worker.flush()
    clock.advance(3.9)
    assert not worker.flush()
    assert seen.payloads == []
    clock.advance(0.1)
    assert worker.flush()
    assert seen.payloads == [{"n": 1}]
    worker.close()


def test_after_the_last_try_it_is_kept_as_failed(store: Store, clock: ManualClock) -> None:
    worker = worker_of(store, clock, Seen(fails=99), most_attempts=3)
    worker.submit("page", {"n": 1})
    for _ in range(3):
        worker.flush()
        clock.advance(1_000)
    assert worker.flush()
    assert worker.state.failed == 1
    assert store.jobs.counts() == {"waiting": 0, "running": 0, "failed": 1}
    worker.close()


def test_a_kind_of_failure_is_logged_once(
    store: Store, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    worker = worker_of(store, clock, Seen(fails=99))
    with caplog.at_level(logging.WARNING, "agentmem"):
        for n in range(20):
            worker.submit("page", {"n": n})
        worker.flush()
    assert len(caplog.records) == 1
    worker.close()


def test_flush_inside_a_job_says_what_waits_and_does_not_hang(
    store: Store, clock: ManualClock
) -> None:
    worker = Worker(store, clock=clock)
    answers: list[bool] = []

    def ask(payload: Mapping[str, Any], scope: Scope) -> None:
        if payload["more"]:
            worker.submit("ask", {"more": False})
        answers.append(worker.flush())

    worker.handle("ask", ask)
    worker.submit("ask", {"more": True})
    assert worker.flush()
    assert worker.flush()
    assert answers == [False, True]
    worker.close()


def test_closing_inside_a_job_does_not_hang(store: Store, clock: ManualClock) -> None:
    worker = Worker(store, clock=clock)
    closed = threading.Event()

    def close(payload: Mapping[str, Any], scope: Scope) -> None:
        worker.close(timeout_seconds=0.1)
        closed.set()

    worker.handle("close", close)
    worker.submit("close", {})
    assert closed.wait(30)
    assert not worker.submit("close", {})


def test_a_failed_job_gives_way_to_a_newer_one_of_its_key(store: Store, clock: ManualClock) -> None:
    worker = worker_of(store, clock, seen := Seen(fails=1))
    seen.gate.clear()
    worker.submit("page", {"n": "old"}, key="k")
    assert seen.reached.wait(30)
    worker.submit("page", {"n": "new"}, key="k")
    seen.gate.set()
    assert worker.flush()
    clock.advance(1_000)
    assert worker.flush()
    assert seen.payloads == [{"n": "new"}]
    worker.close()


def test_a_job_whose_payload_is_replaced_still_counts_for_an_earlier_flush() -> None:
    waiting = Waiting(capacity=5, worker="w")
    for key in ("k", "other", "k"):
        waiting.add(
            QueuedJob(kind="a", scope=ANA, key=key, payload={}, submitted_at=ManualClock().now())
        )
    assert len(waiting.entries) == 2
    assert waiting.unsettled(1)


def test_the_newer_of_two_workers_keeps_its_payload(store: Store, clock: ManualClock) -> None:
    first, second = (worker_of(store, clock, Seen(), threaded=False) for _ in range(2))
    assert second.flush()  # it has seen that the store is empty
    first.submit("page", {"n": "old"}, key="k")
    first.close(timeout_seconds=0)
    clock.advance(1)
    second.submit("page", {"n": "new"}, key="k")
    second.close(timeout_seconds=0)
    last = worker_of(store, clock, seen := Seen(), threaded=False)
    assert last.flush()
    assert seen.payloads == [{"n": "new"}]


def test_flush_gives_up_after_its_time(store: Store, clock: ManualClock) -> None:
    worker = worker_of(store, clock, seen := Seen())
    seen.gate.clear()
    worker.submit("page", {"n": 1})
    assert not worker.flush(0.01)
    seen.gate.set()
    assert worker.flush()
    worker.close()


def test_what_waits_at_close_is_done_by_the_next_worker(store: Store, clock: ManualClock) -> None:
    worker = worker_of(store, clock, seen := Seen())
    seen.gate.clear()
    for n in range(4):
        worker.submit("page", {"n": n}, scope=ANA, key=str(n))
    assert seen.reached.wait(30)
    worker.close(timeout_seconds=0)
    assert worker.state.closed
    assert worker.state.queued == 0
    worker.close()
    assert store.jobs.counts()["waiting"] == 4  # the one that did not end as well
    following = worker_of(store, clock, later := Seen())
    following.start()
    assert following.flush()
    assert [p["n"] for p in later.payloads] == [0, 1, 2, 3]
    assert set(later.scopes) == {ANA}
    assert store.jobs.counts()["waiting"] == 0
    following.close()
    seen.gate.set()


def test_a_job_that_ends_after_close_is_not_done_again(store: Store, clock: ManualClock) -> None:
    worker = worker_of(store, clock, seen := Seen())
    seen.gate.clear()
    worker.submit("page", {"n": 1})
    assert seen.reached.wait(30)
    worker.close(timeout_seconds=0)
    assert store.jobs.counts()["waiting"] == 1
    (thread,) = seen.threads
    seen.gate.set()
    thread.join(30)
    assert store.jobs.counts()["waiting"] == 0


def test_a_full_queue_moves_to_the_store_and_nothing_is_lost(
    store: Store, clock: ManualClock
) -> None:
    worker = worker_of(store, clock, seen := Seen(), capacity=5)
    seen.gate.clear()
    worker.submit("page", {"n": 0})
    assert seen.reached.wait(30)
    taken = [n for n in range(1, 30) if worker.submit("page", {"n": n})]
    assert taken == list(range(1, 11))
    assert worker.state.dropped == 19
    assert worker.state.last_error == "the queue is full"
    seen.gate.set()
    assert worker.flush()
    assert sorted(p["n"] for p in seen.payloads) == list(range(11))
    worker.close()


def test_payloads_together_are_bounded(store: Store, clock: ManualClock) -> None:
    worker = Worker(store, clock=clock, threaded=False)
    page = "x" * 30_000_000
    assert [worker.submit("page", {"text": page}, key=str(n)) for n in range(4)] == [
        True, True, True, False,
    ]  # fmt: skip
    assert worker.submit("page", {"text": "short"}, key="0")
    assert worker.submit("page", {"text": page}, key="3")


def test_a_kind_without_handler_waits_for_one(store: Store, clock: ManualClock) -> None:
    worker = Worker(store, clock=clock)
    worker.submit("page", {"n": 1})
    assert not worker.flush()
    worker.handle("page", seen := Seen())
    assert worker.flush()
    assert seen.payloads == [{"n": 1}]
    worker.close()


@pytest.mark.parametrize(
    ("kind", "payload", "options"),
    [
        (None, {}, {}),
        ("page", None, {}),
        ("page", 7, {}),
        ("page", {}, {"key": None}),
        ("page", {}, {"key": "\ud800"}),
        ("page", {}, {"scope": "ana"}),
        ("page", {}, {"scope": None}),
        ("\ud800", {}, {}),
    ],
)
def test_nonsense_is_refused_without_raising(kind: Any, payload: Any, options: Any) -> None:
    worker = Worker(SqliteStore(":memory:"), clock=ManualClock())
    assert not worker.submit(kind, payload, **options)
    assert worker.state.dropped == 1
    assert worker.state.last_error


def test_a_payload_that_is_not_json_runs_but_cannot_be_kept(clock: ManualClock) -> None:
    worker = worker_of(SqliteStore(":memory:"), clock, seen := Seen())
    worker.submit("page", {"n": object()})
    assert worker.flush()
    assert len(seen.payloads) == 1
    seen.fails = 1
    worker.submit("page", {"n": {1, 2}})
    worker.flush()
    worker.close()
    assert worker.state.dropped == 1


def test_a_broken_store_does_not_stop_the_work(
    clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SqliteStore(":memory:")

    def busy(*_: Any, **__: Any) -> Any:
        raise StoreBusy("Somebody writes.")

    for name in ("claim", "counts", "enqueue", "keep", "done", "fail"):
        monkeypatch.setattr(store.jobs, name, busy)
    worker = worker_of(store, clock, seen := Seen(fails=1), capacity=1)
    for n in range(2):
        assert worker.submit("page", {"n": n}, key=str(n))
    worker.flush()
    clock.advance(10)
    assert worker.flush()
    assert sorted(p["n"] for p in seen.payloads) == [0, 1]
    worker.close()


def test_jobs_of_somebody_else_are_run_or_marked_broken(clock: ManualClock) -> None:
    store = SqliteStore(":memory:")
    store.jobs.enqueue("page", {"n": 1}, at=clock.now())
    store.jobs.enqueue("page", {"job": 1, "scope": 7}, at=clock.now())
    store.jobs.enqueue("other", {"n": 3}, at=clock.now())
    worker = worker_of(store, clock, seen := Seen())
    worker.start()
    assert worker.flush()
    assert seen.payloads == [{"n": 1}]
    assert store.jobs.counts() == {"waiting": 1, "running": 0, "failed": 1}
    worker.close()


def test_a_job_that_kills_its_process_is_given_up(clock: ManualClock) -> None:
    store = SqliteStore(":memory:")
    store.jobs.enqueue("page", {"n": 1}, at=clock.now())
    for _ in range(5):
        assert store.jobs.claim(at=clock.now(), lease_seconds=1)
        clock.advance(2)
    worker = worker_of(store, clock, seen := Seen())
    worker.start()
    assert worker.flush()
    assert seen.payloads == []
    assert store.jobs.counts()["failed"] == 1
    worker.close()


def test_forgetting_a_user_drops_what_waits_for_them(store: Store, clock: ManualClock) -> None:
    worker = worker_of(store, clock, seen := Seen(), threaded=False)
    worker.submit("page", {"n": 1}, scope=ANA)
    worker.submit("page", {"n": 2}, scope=Scope(user_id="ana", project_id="p"))
    worker.submit("page", {"n": 3}, scope=Scope(user_id="ben"))
    worker.submit("page", {"n": 4})
    assert worker.forget(Scope(user_id="ana", project_id="p")) == 1
    assert worker.forget(ANA) == 1
    assert worker.flush()
    assert [p["n"] for p in seen.payloads] == [3, 4]


def test_many_threads_may_submit_at_once(store: Store, clock: ManualClock) -> None:
    worker = worker_of(store, clock, seen := Seen())
    senders = [
        threading.Thread(
            target=lambda t=t: [worker.submit("page", {"n": (t, n)}) for n in range(50)]
        )
        for t in range(8)
    ]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()
    assert worker.flush()
    assert len({p["n"] for p in seen.payloads}) == len(seen.payloads) == 400
    worker.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_has_a_queue_of_its_own(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "m.db")
    worker = worker_of(store, ManualClock(), seen := Seen())
    seen.gate.clear()
    worker.submit("page", {"n": "parent"})
    worker.submit("page", {"n": "parent"})
    assert seen.reached.wait(30)
    child = os.fork()
    if child == 0:
        seen.gate = threading.Event()
        seen.gate.set()
        fine = worker.state.queued == 0 and worker.submit("page", {"n": "child"})
        fine = fine and worker.flush(30) and [p["n"] for p in seen.payloads] == ["child"]
        worker.close()
        os._exit(0 if fine else 1)
    assert os.waitpid(child, 0)[1] == 0
    seen.gate.set()
    assert worker.flush()
    assert [p["n"] for p in seen.payloads] == ["parent", "parent"]
    worker.close()
    store.close()


LEAVING = """
import sys, time
from pathlib import Path
from agentmem.sources.background import Worker
from agentmem.base.time import SystemClock
from agentmem.stores.sqlite.store import SqliteStore
import agentmem.sources.background
agentmem.sources.background.EXIT_SECONDS = 0.2
worker = Worker(SqliteStore(Path(sys.argv[1])), clock=SystemClock())
worker.handle("slow", lambda payload, scope: time.sleep(3600))
worker.handle("late", lambda payload, scope: None)
worker.submit("slow", {"n": 1})
worker.submit("late", {"n": 2})
print("leaving")
"""


def test_a_process_that_just_ends_keeps_its_jobs(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    run = subprocess.run(
        [sys.executable, "-c", LEAVING, str(path)],
        capture_output=True, text=True, check=False, cwd=ROOT, timeout=60,
    )  # fmt: skip
    assert (run.returncode, run.stdout, run.stderr) == (0, "leaving\n", "")
    store = SqliteStore(path)
    assert store.jobs.counts()["waiting"] == 2
    worker = Worker(store, clock=SystemClock())
    worker.handle("late", seen := Seen())
    worker.start()
    worker.flush()
    assert seen.payloads == [{"n": 2}]
    worker.close()
    store.close()


def test_flush_waits_for_what_a_job_submits_itself(store: Store, clock: ManualClock) -> None:
    worker, done = Worker(store, clock=clock), list[int]()

    def count_down(payload: Mapping[str, Any], scope: Scope) -> None:
        left = payload["left"]
        if left:
            worker.submit("count", {"left": left - 1})
        done.append(left)

    worker.handle("count", count_down)
    worker.submit("count", {"left": 2})
    assert worker.flush(30)
    assert done == [2, 1, 0]
    worker.close()


def test_jobs_begin_at_once_while_somebody_waits_and_a_moment_later_otherwise(
    store: Store, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentmem.sources.background.LINGER_SECONDS", 3600.0)
    seen, worker = Seen(), Worker(store, clock=clock)
    worker.handle("job", seen)
    worker.submit("job", {"number": 1})
    assert not seen.reached.is_set()
    assert worker.flush(30)
    worker.submit("job", {"number": 2})
    assert worker.state.queued == 1
    worker.close(timeout_seconds=30)
    assert [payload["number"] for payload in seen.payloads] == [1, 2]


def test_a_busy_memory_closes_within_a_second_without_a_word_and_loses_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "m.db"
    gate = threading.Event()
    slow = Slow(gate)
    memory = agentmem.open(path, embedder=slow)
    for number in range(40):
        memory.sources.enqueue_page(
            f"Gate {number} is green.", f"https://x.test/{number}", user_id="a"
        )
    assert slow.begun.wait(30)
    began = time.perf_counter()
    memory.close()
    spent = time.perf_counter() - began
    gate.set()
    assert spent < 3  # about 0.5; machines that are shared take their time
    assert [record.getMessage() for record in caplog.records] == []
    with agentmem.open(path, embedder=HashEmbedder()) as again:
        again.runtime.worker.start()
        assert again.flush(60)
        urls = {one.source_url for one in again.get_all(user_id="a")}
        assert urls == {f"https://x.test/{number}" for number in range(40)}


class Slow(HashEmbedder):
    """An embedder that takes as long as somebody wants."""

    def __init__(self, gate: threading.Event) -> None:
        super().__init__()
        self.begun = threading.Event()
        self._gate = gate

    def embed_documents(self, texts: Sequence[str], /) -> NDArray[np.float32]:
        self.begun.set()
        self._gate.wait(60)
        return super().embed_documents(texts)
