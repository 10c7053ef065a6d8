"""Honest fakes for your tests and ours: no network, no clock, no randomness."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from agentmem.base.protocols import EmbedderId

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_WORD = re.compile(r"\w+")


class ManualClock:
    """A clock that stands still until it is moved."""

    def __init__(self, now: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        self._now = now

    def now(self) -> datetime:
        return self._now

    def advance(self, seconds: float) -> None:
        """Move by `seconds`; negative ones go back, as real clocks sometimes do."""
        self._now += timedelta(seconds=seconds)


class HashEmbedder:
    """Unit vectors from hashed words: texts that share words are near, nothing is learned."""

    def __init__(self, dimensions: int = 64) -> None:
        self.id = EmbedderId(name="hash", version="1", dimensions=dimensions)

    def embed_documents(self, texts: Sequence[str], /) -> NDArray[np.float32]:
        import numpy as np

        rows = np.zeros((len(texts), self.id.dimensions), dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            for word in _WORD.findall(text.casefold()) or [text]:
                digest = hashlib.blake2b(word.encode("utf-8", "replace"), digest_size=8).digest()
                number = int.from_bytes(digest, "big")
                row[number % self.id.dimensions] += 1.0 if number >> 63 else -1.0
            if not row.any():
                row[0] = 1.0
        unit: NDArray[np.float32] = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        return unit

    def embed_query(self, text: str, /) -> NDArray[np.float32]:
        row: NDArray[np.float32] = self.embed_documents([text])[0]
        return row


class ScriptedModel:
    """A chat-completions callable that answers from a list and keeps what it was sent.

    A reply is a text, a whole assistant message (for tool calls), an exception
    to raise, or a function that is given the request and makes one of these.
    When the script is used up the last reply repeats.
    """

    def __init__(
        self, *replies: str | Mapping[str, Any] | Exception | Callable[[dict[str, Any]], Any]
    ) -> None:
        self._replies = replies or ("ok",)
        self.requests: list[dict[str, Any]] = []

    def __call__(self, *, messages: Sequence[Mapping[str, Any]], **request: Any) -> dict[str, Any]:
        reply = self._replies[min(len(self.requests), len(self._replies) - 1)]
        self.requests.append({"messages": list(messages), **request})
        if callable(reply):
            reply = reply(self.requests[-1])
        if isinstance(reply, Exception):
            raise reply
        message = {"role": "assistant", "content": reply} if isinstance(reply, str) else dict(reply)
        calls = message.get("tool_calls")
        prompt = sum(len(str(m.get("content", ""))) // 4 + 4 for m in messages)
        completion = len(str(message.get("content") or "")) // 4 + 1
        return {
            "object": "chat.completion",
            "model": request.get("model", "scripted"),
            "choices": [
                {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}
            ],
            "usage": {
                "prompt_tokens": prompt,
                "completion_tokens": completion,
                "total_tokens": prompt + completion,
            },
        }


class FaultyStore:
    """A store in which chosen calls fail, to see what becomes of everything around it.

    `fails` is asked with the name of each call, such as `"put"` or
    `"feed.seq"`, and gives the error to raise or `None`. `failed` keeps the
    names of those that did.
    """

    def __init__(
        self, store: Any, fails: Callable[[str], Exception | None], *, prefix: str = ""
    ) -> None:
        self._store = store
        self._fails = fails
        self._prefix = prefix
        self.failed: list[str] = []

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._store, name)
        path = f"{self._prefix}{name}"
        if callable(value):
            return self._guarded(path, value)
        if name in _STORE_PARTS:
            part = FaultyStore(value, self._fails, prefix=f"{path}.")
            part.failed = self.failed
            return part
        return value

    def _guarded(self, path: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def guarded(*args: Any, **kwargs: Any) -> Any:
            error = self._fails(path)
            if error is not None:
                self.failed.append(path)
                raise error
            return call(*args, **kwargs)

        return guarded


_STORE_PARTS = (
    "feed", "upkeep", "settings", "jobs", "snapshots", "artifacts", "links",
    "contradictions", "journal",
)  # fmt: skip
