"""The first calls of something that takes longer to load than its callers may wait."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

_log = logging.getLogger(__name__)
_HEAD_START_SECONDS = 0.001
"""What the caller gets to go on before loading takes the interpreter."""


class Early:
    """Keeps calls in order while a thread loads what makes them, then makes them."""

    def __init__(self, load: Callable[[], Callable[..., object]]) -> None:
        self._load = load
        self._waiting: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    @property
    def busy(self) -> bool:
        """Whether calls wait, or are being made."""
        return self._thread is not None

    def call(self, *arguments: Any, **named: Any) -> None:
        """Have the call made soon; nothing it gives or raises comes back."""
        with self._lock:
            self._waiting.append((arguments, named))
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._work, name="agentmem-early", daemon=True
                )
                self._thread.start()

    def settle(self, timeout_seconds: float | None = None) -> bool:
        """Wait until every call was made; whether that was in time."""
        thread = self._thread
        if thread is None or thread is threading.current_thread():
            return True
        thread.join(timeout_seconds)
        return not thread.is_alive()

    def _work(self) -> None:
        threading.Event().wait(_HEAD_START_SECONDS)
        while (next_call := self._next()) is not None:
            arguments, named = next_call
            try:
                self._load()(*arguments, **named)
            except Exception:  # noqa: BLE001 - nobody is there to catch it
                _log.exception("A call that was put off could not be made")

    def _next(self) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        with self._lock:
            if self._waiting:
                return self._waiting.pop(0)
            self._thread = None  # from here on a call finds everything loaded
            return None
