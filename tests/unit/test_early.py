"""Calls that come before there is anything to make them."""

from __future__ import annotations

import threading

import pytest

import agentmem
from agentmem.base.guards import Early


def test_calls_are_made_in_order_once_everything_is_loaded() -> None:
    gate, made = threading.Event(), list[int]()

    def load() -> object:
        gate.wait(30)
        return made.append

    early = Early(load)  # type: ignore[arg-type]  # a callable, later
    for number in range(5):
        early.call(number)
    assert early.busy
    assert made == []
    gate.set()
    assert early.settle(30)
    assert made == [0, 1, 2, 3, 4]
    assert not early.busy
    early.call(5)
    assert early.settle(30)
    assert made[-1] == 5


def test_one_that_fails_is_logged_and_the_next_is_made(caplog: pytest.LogCaptureFixture) -> None:
    made: list[int] = []

    def take(number: int) -> None:
        if not number:
            raise ValueError("no page")
        made.append(number)

    early = Early(lambda: take)
    early.call(0)
    early.call(1)
    assert early.settle(30)
    assert made == [1]
    assert "could not be made" in caplog.text


def test_the_first_pages_of_a_memory_are_kept_in_their_order() -> None:
    with agentmem.open(":memory:", embedder=None) as memory:
        assert memory.sources.enqueue_page("The harbour opens at six.", "https://x.example/a")
        assert memory.sources.enqueue_page("The harbour opens at seven.", "https://x.example/a")
        assert memory.sources.enqueue_page("", "https://x.example/b")
        assert memory.flush(30)
        found = memory.sources.search_by_url("https://x.example/a")
        assert [chunk.text for chunk in found] == ["The harbour opens at seven."]


def test_closing_at_once_loses_no_page(tmp_path: object) -> None:
    path = f"{tmp_path}/memory.db"
    with agentmem.open(path, embedder=None) as memory:
        memory.sources.enqueue_page("The harbour opens at six.", "https://x.example/a")
    with agentmem.open(path, embedder=None) as memory:
        assert memory.flush(30)
        assert memory.search("harbour")


def test_what_is_no_page_is_refused_even_as_the_first() -> None:
    with agentmem.open(":memory:", embedder=None) as memory:
        assert not memory.sources.enqueue_page(7, "https://x.example/a")  # type: ignore[arg-type]
