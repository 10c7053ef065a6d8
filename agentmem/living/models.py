"""Ask a model within a limit, for JSON of a shape where it knows such, and never fail for it."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

from agentmem.base.checks import require_count
from agentmem.base.protocols import TokenCounter
from agentmem.models.call import as_model, refuses_parameter

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
        self._model = as_model(model)
        self._spend = spend
        self._count = count
        self._structured = True
        self.calls = self.tokens = 0
        self.spent = False
        self.failures = 0
        self.notes: list[str] = []

    def ask(self, system: str, data: Mapping[str, Any], form: Mapping[str, Any]) -> str:
        """The reply, or "" once the limit is reached or when the model fails.

        The `data` stand in JSON, so that nothing in them can pass for an
        instruction of ours. A model that refuses the `form` (a
        `response_format`) is asked once more without, and from then on without.
        """
        from agentmem.base.threads import run_anywhere

        messages = [
            {"role": "system", "content": system},
            {"role": "user", "content": json.dumps(data, ensure_ascii=False)},
        ]

        async def answer(asked: Mapping[str, Any] | None) -> str:
            call = self._model(messages, response_format=asked)
            return (await asyncio.wait_for(call, timeout=self._spend.timeout_seconds)).text

        while True:
            asked = form if self._structured else None
            cost = sum(self._count(message["content"]) for message in messages)
            cost += self._count(json.dumps(asked)) if asked is not None else 0
            if self.calls >= self._spend.calls or self.tokens + cost > self._spend.tokens:
                self.spent = True
                self.say("the spend limit of the model was reached; rules did the rest")
                return ""
            self.calls += 1
            self.tokens += cost
            try:
                text = run_anywhere(partial(answer, asked))
            except Exception as error:  # noqa: BLE001 - the rules' own work stands without a model
                if asked is None or not refuses_parameter(error, "response_format"):
                    self.failures += 1
                    self.say(f"the model failed: {type(error).__name__}: {error}")
                    return ""
                self._structured = False
                continue
            self.failures = 0
            self.tokens += self._count(text)
            return text

    def say(self, note: str) -> None:
        """Keep a note for the report, once."""
        if note not in self.notes:
            self.notes.append(note)


# ----------------------------------------------------------------------------
# Ask a model for JSON of a given shape, and read what it makes of that.
#
# The shape is a strict JSON schema as chat-completions providers take it in
# `response_format`. Not every model keeps to it, so replies are read for
# whatever JSON they hold: in a fence, amid prose, or cut off in the middle.


LONGEST_REPLY = 200_000
_STARTS_TRIED = 40
_MENDED = 4


def strict_object(**properties: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of an object that has exactly these properties."""
    return {
        "type": "object",
        "properties": {name: dict(schema) for name, schema in properties.items()},
        "required": list(properties),
        "additionalProperties": False,
    }


def json_format(name: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    """The `response_format` that asks for JSON of this shape and nothing else."""
    return {
        "type": "json_schema",
        "json_schema": {"name": name, "strict": True, "schema": dict(schema)},
    }


def find_json(reply: str, wanted: Callable[[Any], bool]) -> Any:
    """The first JSON value in `reply` that is `wanted`, or None; never raises (L12).

    Of a value that was cut off, what was complete by then.
    """
    from pydantic_core import from_json

    text = reply[:LONGEST_REPLY]
    starts = [m.start() for m in islice(re.finditer(r"[{[]", text), _STARTS_TRIED)]
    whole = json.JSONDecoder().raw_decode

    def cut_off(text: str, start: int) -> tuple[Any]:
        return (from_json(text[start:], allow_partial=True),)

    for read, tried in ((whole, starts), (cut_off, starts[:_MENDED])):
        for start in tried:
            with suppress(ValueError, RecursionError):  # no JSON there
                value = read(text, start)[0]
                if value is not None and wanted(value):
                    return value
    return None
