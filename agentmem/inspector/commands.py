"""Commands to copy: each names the store that was looked at, wherever that is."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from agentmem.settings import default_path

if TYPE_CHECKING:
    from agentmem.manager import MemoryManager


def store_option(memory: MemoryManager) -> str:
    """`" --store PATH"` unless a command finds this store without being told."""
    if memory.path is None or memory.path == default_path():
        return ""
    return f" --store {shlex.quote(str(memory.path))}"
