"""Whatever a caller passes to a public name, the answer is a result or one of our errors."""

from __future__ import annotations

import asyncio
import inspect
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import agentmem
from agentmem.base.errors import AgentMemError

DEEP: dict[str, Any] = {}
_inner = DEEP
for _ in range(2_000):
    _inner["a"] = {}
    _inner = _inner["a"]


class Unprintable:
    def __repr__(self) -> str:
        raise RuntimeError("nobody may see me")


VALUES: tuple[Any, ...] = (
    None, True, 0, -1, 3, 10**400, 1.5, float("nan"), float("inf"), "", "a", "\ud800", "\0", "x" * 300,
    b"x", b"\xff", [], ["a"], [None], [DEEP], {}, {"a": 1}, {1: DEEP}, DEEP, set(), object(),
    Unprintable(), len, lambda *a, **k: None, [{"role": "user", "content": "hi"}],
    [{"role": "user", "content": [DEEP]}], iter("a"), Path("a"), Path("\0"), range(3),
)  # fmt: skip
PARTS = ("", "preferences", "upkeep", "sources", "living")
PLACES = (*PARTS, *(f"async {part}".rstrip() for part in PARTS))
LEFT_ALONE = frozenset({"close", "flush", "worker", "runtime", "aturn", "find", "current", "heard"})
"""They end the memory, wait for as long as they are told to, or take what our own parts made."""
NOT_CALLED = frozenset({"MemoryManager", "AsyncMemoryManager", "DuckDuckGo"})
"""They open what a test must close; the last one reads the environment by its own package."""


def part_of(memory: agentmem.MemoryManager, place: str) -> Any:
    owner: Any = memory
    if place.startswith("async"):
        owner, place = agentmem.AsyncMemoryManager(memory), place.removeprefix("async").strip()
    return getattr(owner, place) if place else owner


def public() -> list[tuple[str, str]]:
    found = [
        ("agentmem", name)
        for name in sorted(set(agentmem.__all__) - NOT_CALLED)
        if callable(getattr(agentmem, name)) and not is_error(getattr(agentmem, name))
    ]
    with closing(agentmem.open(":memory:", embedder=None)) as memory:
        for place in PLACES:
            part = part_of(memory, place)
            for name in dir(part):
                if not name.startswith("_") and name not in LEFT_ALONE | {"manager", "run"}:
                    with suppress(Exception):
                        if callable(getattr(part, name)):
                            found.append((place, name))
    return found


def is_error(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, BaseException)


PUBLIC = public()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    before = Path.cwd()
    made = tmp_path_factory.mktemp("any_value")
    os.chdir(made)  # "a" is a path, too
    yield made
    os.chdir(before)


def call_with(target: Callable[..., Any], values: dict[str, Any]) -> Any:
    """Call with those of the values that the signature takes, by name or by place."""
    parameters = inspect.signature(target).parameters
    args, named = [], {}
    for name, parameter in parameters.items():
        if parameter.kind is parameter.POSITIONAL_ONLY:
            args.append(values.get(name))
        elif parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            if name in values or parameter.default is parameter.empty:
                named[name] = values.get(name)
        elif parameter.kind is parameter.VAR_KEYWORD and "user_id" in values:
            named["user_id"] = values["user_id"]
    return target(*args, **named)


@pytest.fixture(scope="module")
def memory(folder: Path) -> Iterator[agentmem.MemoryManager]:
    with agentmem.open(":memory:", embedder=None, judge_new=False) as opened:
        yield opened


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
@example(data=None)
def test_any_value_gives_a_result_or_one_of_our_errors(
    memory: agentmem.MemoryManager, data: Any
) -> None:
    """Q2 Any value. Whatever a caller passes to a public name, the call gives a result or raises an AgentMemError."""
    known = memory.add("The harbour of Piran is small.", user_id="ana").ids
    plans = everything() if data is None else [drawn(data, known[0] if known else "a")]
    for (place, name), values in plans:
        owner: Any = agentmem if place == "agentmem" else part_of(memory, place)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                found = call_with(getattr(owner, name), values)
                if place.startswith("async") and inspect.isawaitable(found):
                    asyncio.run(awaited(found))
                elif inspect.iscoroutine(found) or (
                    hasattr(found, "close") and place == "agentmem"
                ):
                    found.close()
            except AgentMemError:
                continue


async def awaited(found: Any) -> Any:
    return await found


def everything() -> Iterator[tuple[tuple[str, str], dict[str, Any]]]:
    """Every name with what is nested too deeply, in place of what it needs."""
    for place, name in PUBLIC:
        yield (place, name), _Every(DEEP)


class _Every(dict[str, Any]):
    """Has one value under every name that has no default."""

    def __init__(self, value: Any) -> None:
        super().__init__()
        self._value = value

    def get(self, name: str, default: Any = None) -> Any:
        return self._value


def drawn(data: Any, known: str) -> tuple[tuple[str, str], dict[str, Any]]:
    place, name = data.draw(st.sampled_from(PUBLIC))
    values = st.sampled_from((*VALUES, known))
    names = st.sampled_from(
        ("text", "user_id", "limit", "filters", "metadata", "top_k", "threshold", "messages",
         "query", "memory_id", "path", "config", "scope", "type", "as_of", "session", "kind",
         "url", "content", "title", "source", "model", "tools", "progress", "importance")
    )  # fmt: skip
    needed = {}
    owner: Any = agentmem if place == "agentmem" else agentmem.MemoryManager
    if place.startswith("async"):
        owner = agentmem.AsyncMemoryManager
    target = getattr(owner, name, None)
    if target is not None:
        needed = {
            one: data.draw(values)
            for one, p in inspect.signature(target).parameters.items()
            if p.default is p.empty and one != "self"
        }
    return (place, name), {**needed, **data.draw(st.dictionaries(names, values, max_size=3))}
