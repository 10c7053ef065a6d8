"""What is made ready ahead serves questions like the expected one, and never slows a turn down."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import agentmem
import agentmem.agent.runtime
from agentmem import LoopConfig, RecallConfig
from agentmem.living import tiers
from agentmem.living.predict import Signal
from agentmem.living.tiers import Tiers, question_of
from agentmem.memory.manager import MemoryManager
from agentmem.testing import HashEmbedder, ManualClock

ASKED = "How many columns has the ledger table?"
FILE = ("file", "src/billing/ledger.py")


class Watched(HashEmbedder):
    """Counts the questions it is asked, and can be held up."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []
        self.go_on = threading.Event()
        self.go_on.set()

    def embed_query(self, text: str) -> NDArray[np.float32]:
        self.go_on.wait(30)
        self.asked.append(text)
        return super().embed_query(text)


def opened(embedder: Watched) -> MemoryManager:
    memory = agentmem.open(":memory:", embedder=embedder, clock=ManualClock(), judge_new=False)
    memory.add("The ledger table has 14 columns.", user_id="ana")
    memory.add("Tokens last an hour.", user_id="ana")
    return memory


def turn(memory: MemoryManager, text: str, **options: Any) -> Any:
    said = [{"role": "user", "content": text}]
    return memory.turn(said, user_id="ana", dry=True, **options)


@pytest.mark.parametrize(
    ("kind", "value", "words"),
    [
        ("file", "src/billing/ledger_rows.py", "billing ledger rows"),
        ("file", "C:\\work\\Ledger.tsx", "work Ledger"),
        ("branch", "feature/ABC-12-export-csv", "ABC 12 export csv"),
        ("task", " why did it fail? ", "why did it fail?"),
        ("error", "KeyError: 'x'", "KeyError: 'x'"),
        ("time", "2026-01-01T10:00:00", ""),
        ("collaborator", "noah", ""),
        ("tool", "run_tests", "run tests"),
        ("file", "", ""),
    ],
)
def test_a_signal_says_what_will_be_asked(kind: Any, value: str, words: str) -> None:
    assert question_of(Signal(kind=kind, value=value)) == words


def test_a_file_alone_warms_the_search_and_the_counter(monkeypatch: pytest.MonkeyPatch) -> None:
    embedder = Watched()
    with opened(embedder) as memory:
        ready = memory.living.prefetch([FILE], budget_ms=60_000, user_id="ana")
        (ledger,) = [m for m in memory.get_all(user_id="ana") if "ledger" in m.text]
        assert ledger.id in ready.found
        assert ready.questions == ()
        assert embedder.asked == ["billing ledger"]
        monkeypatch.delattr(agentmem.agent.runtime, "Tokenizer")  # nothing is left to be loaded
        assert "14 columns" in turn(memory, ASKED, signals=[FILE]).block_text


def test_an_expected_question_among_others_is_not_searched_again() -> None:
    embedder = Watched()
    with opened(embedder) as memory:
        memory.living.prefetch([("task", ASKED)], budget_ms=60_000, user_id="ana")
        hits = memory.runtime.recaller.cache.hits
        found = turn(memory, f"Good morning, all. {ASKED}")
        assert "14 columns" in found.block_text
        assert memory.runtime.recaller.cache.hits > hits
        assert embedder.asked.count(ASKED) == 1
        assert not found.snapshot.cached  # the rest of it was searched for


def test_what_is_not_ready_in_time_becomes_ready_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is predicted takes nearly all of the time, and the search would take more than is left:
    by a clock of its own, since a busy machine may be late with either."""
    embedder, seconds = Watched(), [0.0]
    fetch = Tiers.fetch

    def fetch_for_long(*given: Any) -> Any:
        fetched = fetch(*given)
        seconds[0] += 59.95
        return fetched

    def look_at_the_clock() -> float:
        seconds[0] += 0.02
        return seconds[0]

    monkeypatch.setattr(tiers, "time", SimpleNamespace(perf_counter=look_at_the_clock))
    monkeypatch.setattr(Tiers, "fetch", fetch_for_long)
    with opened(embedder) as memory:
        embedder.go_on.clear()
        for number in range(8):
            late = memory.living.prefetch(
                [("task", f"{ASKED} {number}")], budget_ms=60_000, user_id="ana"
            )
            assert late.skipped == (f"{ASKED} {number}",)
        assert memory.runtime.recaller.guard.state == "closed"
        embedder.go_on.set()
        found = turn(memory, ASKED)
        assert "14 columns" in found.block_text
        assert found.snapshot.degradations == ()


def test_no_time_is_no_work() -> None:
    embedder = Watched()
    with opened(embedder) as memory:
        late = memory.living.prefetch([FILE, ("task", ASKED)], budget_ms=0, user_id="ana")
        assert late.skipped == ("predicted memories", FILE[1], ASKED)
        assert (late.found, late.questions, embedder.asked) == ((), (), [])


def test_a_scope_is_kept_to() -> None:
    with opened(Watched()) as memory:
        ready = memory.living.prefetch([FILE], budget_ms=60_000, user_id="bob")
        assert ready.found == ready.predicted == ()


def test_settings_of_the_turn_are_those_of_the_prefetch() -> None:
    signals: Sequence[tuple[str, str]] = [("task", ASKED)]
    with opened(Watched()) as memory:
        memory.living.prefetch(
            signals,
            budget_ms=60_000,
            config=LoopConfig(recall=RecallConfig(top_k=9)),
            user_id="ana",
        )
        assert turn(memory, ASKED, config=LoopConfig(recall=RecallConfig(top_k=9))).snapshot.cached
