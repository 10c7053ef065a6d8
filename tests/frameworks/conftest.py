"""What the tests of every framework share: a memory that knows one thing, and its spans."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import agentmem
from agentmem.base import telemetry
from agentmem.memory.manager import MemoryManager
from agentmem.testing import HashEmbedder
from tests.frameworks.shared import FACT


@pytest.fixture
def memory() -> Iterator[MemoryManager]:
    with agentmem.open(":memory:", embedder=HashEmbedder()) as memory:
        memory.add(FACT, user_id="ann")
        yield memory


@pytest.fixture
def broken() -> MemoryManager:
    """A memory whose store is gone."""
    gone = agentmem.open(":memory:", embedder=HashEmbedder())
    gone.add(FACT, user_id="ann")
    gone.close()
    return gone


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    pytest.importorskip("opentelemetry.sdk")
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
