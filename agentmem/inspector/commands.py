"""Commands to copy: each names the store that was looked at, wherever that is."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING

from agentmem.settings import default_path

if TYPE_CHECKING:
    from agentmem.manager import MemoryManager


def store_option(memory: MemoryManager) -> str:
    """`" --store PATH"` unless a command finds this store without being told."""
    if memory.path is None or memory.path == default_path():
        return ""
    return f" --store {shlex.quote(str(memory.path))}"


def undo_command(memory: MemoryManager, journal_id: str, whose: Mapping[str, str | None]) -> str:
    """What takes a run back, said for the store and the names it was made with."""
    names = "".join(
        f" --{name.removesuffix('_id')} {shlex.quote(value)}"
        for name, value in whose.items()
        if value is not None
    )
    return f"agentmem consolidate --undo {journal_id}{store_option(memory)}{names}"
