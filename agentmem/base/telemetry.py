"""One log line a context, and spans for whoever collects them.

Lines go to the logger `agentmem.contexts` at INFO with the figures as extras.
Spans follow OpenTelemetry's conventions for memory operations
(`gen_ai.operation.name` of `search_memory`, `create_memory`, …). Without the
`opentelemetry` package, or without a collector set up by the application,
nothing is done. No text of anybody leaves the process unless it is asked for.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Literal

Operation = Literal[
    "search_memory", "create_memory", "update_memory", "upsert_memory", "delete_memory",
    "create_memory_store", "delete_memory_store",
]  # fmt: skip
CAPTURE_VARIABLE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
"""Set to `true` to have queries and memory texts in spans; off by default."""
_TRUE = ("1", "true", "yes", "on", "span_only", "span_and_event")


class Span:
    """What a memory operation may say of itself; everything is optional and never raises."""

    __slots__ = ("_capture", "_span")

    def __init__(self, span: Any = None, *, capture: bool = False) -> None:
        self._span = span
        self._capture = capture

    @property
    def wants_records(self) -> bool:
        """Whether texts may be told, so that nobody gathers them in vain."""
        return self._span is not None and self._capture

    def found(self, count: int, records: Sequence[Mapping[str, Any]] = ()) -> None:
        """How many records were found or written; `records` (id, score, content) by opt-in."""
        self.set("gen_ai.memory.record.count", count)
        if self._capture and records:
            self.set("gen_ai.memory.records", json.dumps(list(records), default=str))

    def set(self, name: str, value: Any) -> None:
        """Another attribute; `None` is left out."""
        if self._span is not None and value is not None:
            self._span.set_attribute(name, value)


_NO_SPAN = Span()


@contextmanager
def span(
    operation: Operation,
    *,
    store_id: str = "",
    record_id: str = "",
    query: str = "",
    **attributes: Any,
) -> Iterator[Span]:
    """A span around one memory operation; a free one that does nothing without OpenTelemetry.

    `query` is recorded only when the environment variable of the conventions
    says so. An error that passes through is noted by its type, not by its
    message, which may quote texts.
    """
    tracer = _tracer()
    if tracer is None:
        yield _NO_SPAN
        return
    from opentelemetry.trace import SpanKind, Status, StatusCode

    allowed = captures()
    named = {
        "gen_ai.operation.name": operation,
        "gen_ai.memory.store.id": store_id,
        "gen_ai.memory.record.id": record_id,
        "gen_ai.memory.query.text": query if allowed else "",
    }
    said: dict[str, Any] = {name: value for name, value in named.items() if value}
    said |= {f"agentmem.{name}": value for name, value in attributes.items() if value is not None}
    with tracer.start_as_current_span(
        operation,
        kind=SpanKind.INTERNAL,
        attributes=said,
        record_exception=False,
        set_status_on_exception=False,
    ) as current:
        try:
            yield Span(current, capture=allowed)
        except BaseException as error:
            current.set_attribute("error.type", type(error).__name__)
            current.set_status(Status(StatusCode.ERROR))
            raise


def tell_degradation(problem: str, error: BaseException | None = None) -> None:
    """Note on the application's own current span that memory did less; an error by its type."""
    if "opentelemetry.trace" in sys.modules:
        from opentelemetry.trace import get_current_span

        told = {"agentmem.problem": problem.partition(":")[0]}
        if error is not None:
            told["error.type"] = type(error).__name__
        get_current_span().add_event("agentmem.degraded", told)


def captures() -> bool:
    """Whether the environment asks for texts in spans."""
    return os.environ.get(CAPTURE_VARIABLE, "").strip().lower() in _TRUE


def _tracer() -> Any:
    """The application's tracer, or `None`: an application that uses OpenTelemetry imported it."""
    if "opentelemetry.trace" not in sys.modules:
        return None
    return _make_tracer()


@lru_cache(maxsize=1)
def _make_tracer() -> Any:
    from opentelemetry import trace

    from agentmem.base import __version__

    return trace.get_tracer("agentmem", __version__)
