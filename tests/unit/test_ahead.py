"""The thread that scans codes while words are looked up, or embeds while a turn listens."""

from __future__ import annotations

import os
import threading

import numpy as np
import pytest
from numpy.typing import NDArray

import agentmem
from agentmem.base.errors import EmbedderError
from agentmem.base.guards import Ahead
from agentmem.search import embedding
from agentmem.search.indexes import vector
from agentmem.testing import HashEmbedder
from tests.unit.test_indexes_vector import clustered, index_of


def test_a_call_is_made_by_another_thread_and_its_answer_waited_for() -> None:
    ahead = Ahead(cores=2)
    answer = ahead.start(threading.get_ident)
    assert answer() != threading.get_ident()


def test_what_a_call_raises_is_raised_where_its_answer_is_wanted() -> None:
    ahead = Ahead(cores=2)

    def fail() -> None:
        raise ValueError("no codes")

    wait = ahead.start(fail)
    with pytest.raises(ValueError, match="no codes"):
        wait()
    assert ahead.start(lambda: 3)() == 3


def test_a_second_call_does_not_wait_for_the_first() -> None:
    ahead = Ahead(cores=2)
    gate = threading.Event()
    first = ahead.start(lambda: gate.wait(30))
    assert ahead.start(threading.get_ident)() == threading.get_ident()
    gate.set()
    assert first()


def test_one_core_does_everything_itself() -> None:
    assert Ahead(cores=1).start(threading.get_ident)() == threading.get_ident()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_starts_a_thread_of_its_own() -> None:
    ahead = Ahead(cores=2)
    assert ahead.start(lambda: 1)() == 1
    child = os.fork()
    if not child:
        os._exit(ahead.start(lambda: 7)())
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_scanning_ahead_finds_what_scanning_at_once_does(monkeypatch: pytest.MonkeyPatch) -> None:
    index, _ = index_of(4000, approximate_from=1000, exact_scope=500)
    for query in clustered(10, seed=3):
        at_once = index.search(query, 20)
        monkeypatch.setattr(vector, "SCANNED_AHEAD", 0)
        monkeypatch.setattr(vector, "ahead", Ahead(cores=2))
        rows, cosines = index.search(query, 20)
        assert np.array_equal(rows, at_once[0])
        assert np.array_equal(cosines, at_once[1])
        monkeypatch.undo()


def test_a_busy_thread_begins_nothing() -> None:
    ahead = Ahead(cores=2)
    gate = threading.Event()
    first = ahead.begin(lambda: gate.wait(30))
    assert first is not None
    assert ahead.begin(threading.get_ident) is None
    gate.set()
    assert first()
    assert Ahead(cores=1).begin(threading.get_ident) is None


class Asked(HashEmbedder):
    """Notes who asks for what."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[tuple[str, bool]] = []
        self.broken = False

    def embed_query(self, text: str, /) -> NDArray[np.float32]:
        self.asked.append((text, threading.current_thread() is threading.main_thread()))
        if self.broken:
            raise ValueError("out of order")
        return super().embed_query(text)


def test_the_vector_of_a_question_is_begun_beside_and_asked_for_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(embedding, "_ahead", Ahead(cores=2))
    embedder = Asked()
    with agentmem.open(":memory:", embedder=embedder) as memory:
        memory.embedding.expect("nothing is known of a store that nobody asked")
        memory.add("The lamp is red.", user_id="ann")
        memory.flush()
        memory.search("lamp", user_id="ann")
        del embedder.asked[:]
        memory.embedding.expect("which lamp")
        found = memory.embedding.query("which lamp")
        assert found is not None
        assert np.array_equal(found[1], HashEmbedder().embed_query("which lamp"))
        memory.embedding.expect("which lamp")  # known by now
        assert embedder.asked == [("which lamp", False)]
        memory.embedding.expect("what nobody asks")
        memory.embedding.expect("what is asked")  # what was expected last was not: not begun
        memory.embedding.query("what is asked")
        assert ("what is asked", True) in embedder.asked


def test_a_vector_that_cannot_be_begun_is_told_where_it_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(embedding, "_ahead", Ahead(cores=2))
    embedder = Asked()
    with agentmem.open(":memory:", embedder=embedder) as memory:
        memory.add("The lamp is red.", user_id="ann")
        memory.flush()
        memory.search("lamp", user_id="ann")
        del embedder.asked[:]
        embedder.broken = True
        memory.embedding.expect("which lamp")
        with pytest.raises(EmbedderError, match="out of order"):
            memory.embedding.query("which lamp")
        assert embedder.asked == [("which lamp", False)]


def test_a_turn_asks_for_the_vector_of_its_question_once() -> None:
    embedder = Asked()
    with agentmem.open(":memory:", embedder=embedder) as memory:
        memory.add("The lamp in the hall is red.", user_id="ann")
        memory.flush()
        memory.search("lamp", user_id="ann")
        del embedder.asked[:]
        said = [{"role": "user", "content": "What colour has the lamp in the hall?"}]
        turn = memory.turn(said, user_id="ann")
        assert not turn.degradations
        assert [text for text, _ in embedder.asked] == [said[0]["content"]]
