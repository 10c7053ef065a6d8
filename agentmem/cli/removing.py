"""Delete and erase memories."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from agentmem.cli.common import (
    NOT_FOUND,
    argument,
    common_of,
    confirm,
    history_path,
    open_memory,
    resolve_id,
    screen_of,
    whose_of,
)
from agentmem.errors import InvalidInput

if TYPE_CHECKING:
    from agentmem.manager import MemoryManager


def register(app: click.Group) -> None:
    """Add the commands of this module."""
    app.command()(delete)
    app.command()(erase)


@argument(
    "ids", nargs=-1, metavar="ID...", help="Whole ids, or their first or last 4 characters or more."
)
@click.option("--all", "every", is_flag=True, help="Every private memory of this user.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
def delete(
    ctx: click.Context, ids: tuple[str, ...] = (), every: bool = False, yes: bool = False
) -> None:
    """Take memories out of every read. They are kept until they are erased."""
    at = screen_of(ctx)
    with open_memory(ctx) as memory:
        meant = choose(ctx, memory, ids, every=every)
        confirm(at, f"Delete {counted(memory, ctx, meant)}?", yes=yes)
        if meant is None:
            count = memory.delete_all(**whose_of(ctx))
        else:
            count = memory.delete(meant, **whose_of(ctx))
    if at.json:
        at.document({"deleted": count, "ids": meant})
    else:
        at.print(f"Deleted: {count:,}")


@argument(
    "ids", nargs=-1, metavar="ID...", help="Whole ids, or their first or last 4 characters or more."
)
@click.option("--all", "every", is_flag=True, help="Every private memory of this user.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
def erase(
    ctx: click.Context, ids: tuple[str, ...] = (), every: bool = False, yes: bool = False
) -> None:
    """Remove memories, deleted ones too, so that their bytes are in no file of the store."""
    from agentmem.cli.showing import receipt_lines, receipt_to_dict

    at = screen_of(ctx)
    with open_memory(ctx) as memory:
        meant = choose(ctx, memory, ids, every=every, deleted=True)
        number = counted(memory, ctx, meant, deleted=True)
        confirm(at, f"Erase {number} for good? This cannot be undone.", yes=yes)
        if meant is None:
            receipt = memory.erase_all(**whose_of(ctx))
        else:
            receipt = memory.erase(meant, **whose_of(ctx))
    typed = forget_typed_lines(ctx)
    if at.json:
        at.document({**receipt_to_dict(receipt), "chat_history_removed": typed})
    else:
        at.print(receipt_lines(at, receipt))
        if typed:
            at.note("The lines typed into `agentmem chat` were removed too.")
    if meant is not None and not receipt.ids:
        raise click.exceptions.Exit(NOT_FOUND)


# -- inside ----------------------------------------------------------------------------


def choose(
    ctx: click.Context,
    memory: MemoryManager,
    ids: tuple[str, ...],
    *,
    every: bool,
    deleted: bool = False,
) -> list[str] | None:
    """The ids that are meant, each found before anything is changed; `None` means all."""
    if bool(ids) == every:
        raise InvalidInput(
            "ids", ids or [], "and --all exclude each other" if ids else "are missing",
            remedy="Give ids, or --all.",
        )  # fmt: skip
    if every:
        return None
    return list(
        dict.fromkeys(resolve_id(memory, one, whose_of(ctx), deleted=deleted) for one in ids or ())
    )


def forget_typed_lines(ctx: click.Context) -> bool:
    """Remove this user's lines that `chat` kept; whether there were any.

    They may repeat what was erased.
    """
    path = history_path(common_of(ctx))
    if path is None or not path.exists():
        return False
    path.unlink()
    return True


def counted(
    memory: MemoryManager, ctx: click.Context, meant: list[str] | None, *, deleted: bool = False
) -> str:
    """How many memories of whom, in words."""
    from agentmem.core.filters import Selection
    from agentmem.manager.whose import scope_of

    if meant is None:
        selection = Selection(
            reader=scope_of(whose_of(ctx)),
            visibilities=("private",),
            deleted=deleted,
            superseded=True,
            forgotten=True,
        )
        count = memory.store.count(selection)
        owner = common_of(ctx).user
        every = f"all {count:,} " if count != 1 else "the one "
        name = f" of {owner}" if owner else ""
        return f"{every}{'memory' if count == 1 else 'memories'}{name}"
    if len(meant) == 1:
        return f"memory {meant[0]}"
    return f"{len(meant):,} memories"
