"""Whose turn it is, for tools that are made once and used in the turns of many users."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from agentmem.types import Scope

_current: ContextVar[Scope | None] = ContextVar("agentmem_turn_scope", default=None)


def scope_of_turn() -> Scope | None:
    """The scope of the loop that this call belongs to; `None` outside of one."""
    return _current.get()


@contextmanager
def turn_of(scope: Scope) -> Iterator[None]:
    """Within this block, and in every task and thread begun in it, it is this scope's turn."""
    token = _current.set(scope)
    try:
        yield
    finally:
        _current.reset(token)
