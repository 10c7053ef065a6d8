"""Ask a model within a limit, for JSON of a shape where it knows such, and never fail for it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agentmem.core.checks import require_count
from agentmem.core.values import dataclass
from agentmem.model_errors import refuses_parameter
from agentmem.protocols import TokenCounter

Model = str | Callable[..., Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Spend:
    """The most a run may ask of a model: calls, tokens in and out together, and seconds a call."""

    calls: int = 50
    tokens: int = 50_000
    timeout_seconds: float = 30.0

    def __post_init__(self) -> None:
        require_count(self.calls, "calls")
        require_count(self.tokens, "tokens")


class Asker:
    """One model for one run; counts what it was asked, and stops at the limit."""

    def __init__(self, model: Model, *, spend: Spend, count: TokenCounter) -> None:
        from agentmem.models import as_model

        self._model = as_model(model)
        self._spend = spend
        self._count = count
        self._structured = True
        self.calls = self.tokens = 0
        self.spent = False
        self.failures = 0
        self.notes: list[str] = []

    def ask(
        self, messages: Sequence[Mapping[str, Any]], form: Mapping[str, Any] | None = None
    ) -> str:
        """The reply, or "" once the limit is reached or when the model fails.

        A model that refuses the `form` (a `response_format`) is asked once
        more without, and from then on without.
        """
        asked = form if self._structured else None
        try:
            return self._answer(messages, asked)
        except Exception as error:  # noqa: BLE001 - the rules' own work stands without a model
            if asked is None or not refuses_parameter(error, "response_format"):
                return self._failed(error)
        self._structured = False
        try:
            return self._answer(messages, None)
        except Exception as error:  # noqa: BLE001 - as above
            return self._failed(error)

    def say(self, note: str) -> None:
        """Keep a note for the report, once."""
        if note not in self.notes:
            self.notes.append(note)

    def _answer(self, messages: Sequence[Mapping[str, Any]], form: Mapping[str, Any] | None) -> str:
        from agentmem.web.running import run_anywhere

        cost = sum(self._count(message["content"]) for message in messages)
        cost += self._count(json.dumps(form)) if form is not None else 0
        if self.calls >= self._spend.calls or self.tokens + cost > self._spend.tokens:
            self.spent = True
            self.say("the spend limit of the model was reached; rules did the rest")
            return ""
        self.calls += 1
        self.tokens += cost

        async def ask() -> str:
            reply = await asyncio.wait_for(
                self._model(messages, response_format=form), timeout=self._spend.timeout_seconds
            )
            return reply.text

        text = run_anywhere(ask)
        self.failures = 0
        self.tokens += self._count(text)
        return text

    def _failed(self, error: Exception) -> str:
        self.failures += 1
        self.say(f"the model failed: {type(error).__name__}: {error}")
        return ""
