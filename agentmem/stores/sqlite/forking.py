"""Let a process fork only between two writes.

SQLite keeps in its own memory which connection of the process writes. A child
forked in the middle of a write would take over that note, and with nobody left
to finish the write could never write itself.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from functools import cache
from weakref import WeakMethod

LONGEST_WAIT_SECONDS = 2.0
"""So long a fork waits for each write that is under way."""

Pause = Callable[[float], Callable[[], None] | None]
"""Waits up to so many seconds until nobody writes; what it gives lets writes go on."""

_pauses: set[WeakMethod[Pause]] = set()
_under_way = ExitStack()


def note_writer(pause: Pause) -> None:
    """Have `pause`, a method, called before each fork for as long as its object lives."""
    if hasattr(os, "register_at_fork"):
        _pauses.add(WeakMethod(pause, _pauses.discard))
        _register()


@cache
def _register() -> None:
    os.register_at_fork(
        before=_pause_all, after_in_parent=_under_way.close, after_in_child=_under_way.pop_all
    )


def _pause_all() -> None:
    for known in tuple(_pauses):
        pause = known()
        go_on = None if pause is None else pause(LONGEST_WAIT_SECONDS)
        if go_on is not None:
            _under_way.callback(go_on)
