"""What all commands share: which store, whose memory, and how to say it."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer

from agentmem.types import Scope

if TYPE_CHECKING:
    from agentmem.core.layout import Pen
    from agentmem.manager import MemoryManager

EMBEDDER_VARIABLE = "AGENTMEM_EMBEDDER"
STORE_VARIABLE = "AGENTMEM_STORE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Common:
    """The options that stand before any command."""

    store: str | None = None
    user: str | None = None
    project: str | None = None
    agent: str | None = None
    run: str | None = None
    json: bool = False
    debug: bool = False
    colour: bool = True

    @property
    def named(self) -> bool:
        """Whether somebody's memory was asked for rather than the whole store."""
        return any((self.user, self.project, self.agent, self.run))

    @property
    def scope(self) -> Scope:
        return Scope(
            user_id=self.user, project_id=self.project, agent_id=self.agent, run_id=self.run
        )

    @property
    def reader(self) -> Scope | None:
        """The scope for commands that an operator may ask of the whole store."""
        return self.scope if self.named else None


def common_of(ctx: typer.Context) -> Common:
    """The common options of this call."""
    found = ctx.find_object(Common)
    return Common() if found is None else found


def open_memory(ctx: typer.Context) -> MemoryManager:
    """The memory this call is about; it must exist already."""
    from agentmem.opening import open as open_store

    store = common_of(ctx).store or os.environ.get(STORE_VARIABLE)
    embedder = os.environ.get(EMBEDDER_VARIABLE, "wordllama")
    return open_store(store, embedder=None if embedder in ("", "none") else embedder)


def columns() -> int:
    """How wide to write."""
    return shutil.get_terminal_size((80, 24)).columns


def pen_of(ctx: typer.Context) -> Pen:
    """Colour on a terminal unless it was declined; plain marks where Unicode cannot be written."""
    from agentmem.core.layout import Pen

    wanted = common_of(ctx).colour and sys.stdout.isatty() and "NO_COLOR" not in os.environ
    encoding = (sys.stdout.encoding or "").lower().replace("-", "")
    return Pen(colour=wanted, ascii_only=not encoding.startswith("utf"))


def print_json(value: Any) -> None:
    """`value` as indented JSON."""
    import json

    typer.echo(json.dumps(value, ensure_ascii=False, indent=2))
