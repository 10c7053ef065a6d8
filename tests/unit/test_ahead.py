"""The thread that scans codes while the words are looked up."""

from __future__ import annotations

import os
import threading

import numpy as np
import pytest

from agentmem.search.indexes import vector
from agentmem.search.indexes.vector import Ahead
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
