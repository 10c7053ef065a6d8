"""What users told about themselves: list, add, remove, clear."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from agentmem.cli.common import (
    argument,
    confirm,
    open_memory,
    read_text,
    resolve_id,
    screen_of,
    whose_of,
)
from agentmem.cli.output import Screen, one_line

if TYPE_CHECKING:
    from datetime import datetime

    from agentmem.preferences import Preference


def register(app: click.Group) -> None:
    """Add `prefs` and what can be done with them."""
    prefs = app.group("prefs", invoke_without_command=True)(click.pass_context(all_or_command))
    prefs.command("list")(list_preferences)
    prefs.command("add")(add)
    prefs.command("remove")(remove)
    prefs.command("clear")(clear)


def all_or_command(ctx: click.Context) -> None:
    """Show and change what users told about themselves; alone it lists."""
    if ctx.invoked_subcommand is None:
        list_preferences(ctx)


def list_preferences(ctx: click.Context) -> None:
    """List the preferences that hold now, newest first."""
    at = screen_of(ctx)
    with open_memory(ctx) as memory:
        found = memory.preferences.get_all(**whose_of(ctx))
        now = memory.clock.now()
    if at.json:
        at.document({"preferences": [one.to_dict() for one in found]})
    elif found:
        at.print(preference_lines(at, found, now=now))
    else:
        at.note("No preferences are known.")


@argument("text", nargs=-1, metavar="TEXT", help="In the user's words; - or nothing reads stdin.")
@click.option("--type", help="expertise, style, domain or custom.")
def add(
    ctx: click.Context,
    text: tuple[str, ...] = (),
    type: str | None = None,  # noqa: A002  # as it is typed
) -> None:
    """Keep a preference; a newer one about the same thing takes the older one's place."""
    at = screen_of(ctx)
    said = read_text(" ".join(text) if text else None)
    with open_memory(ctx) as memory:
        options: dict[str, Any] = {"type": type, **whose_of(ctx)}
        kept = memory.preferences.add(said, **options)
    if at.json:
        at.document(kept.to_dict())
        return
    at.print(f"Kept: {kept.id} ({kept.type})")
    if kept.replaced:
        at.note(f"It takes the place of {', '.join(kept.replaced)}.")


@argument("id", metavar="ID", help="A whole id, or 4 characters or more of an end.")
@click.option("--undo", is_flag=True, help="Let what it had replaced hold again.")
def remove(
    ctx: click.Context,
    id: str,  # noqa: A002  # as it is shown
    undo: bool = False,
) -> None:
    """Take one preference back."""
    at = screen_of(ctx)
    with open_memory(ctx) as memory:
        meant = resolve_id(memory, id, whose_of(ctx))
        back: tuple[Preference, ...] = ()
        if undo:
            back = memory.preferences.undo(meant, **whose_of(ctx))
        else:
            memory.preferences.remove(meant, **whose_of(ctx))
    if at.json:
        at.document({"removed": meant, "restored": [one.to_dict() for one in back]})
        return
    at.print(f"Removed: {meant}")
    for one in back:
        at.print(f"Holds again: {one_line(one.text)}")


@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
def clear(
    ctx: click.Context,
    yes: bool = False,
) -> None:
    """Take every preference of this user back."""
    at = screen_of(ctx)
    with open_memory(ctx) as memory:
        known = len(memory.preferences.get_all(**whose_of(ctx)))
        confirm(at, f"Take back {known:,} preferences?", yes=yes)
        count = memory.preferences.clear(**whose_of(ctx))
    if at.json:
        at.document({"removed": count})
    else:
        at.print(f"Removed: {count:,}")


def preference_lines(at: Screen, found: Sequence[Preference], *, now: datetime) -> list[str]:
    """One row a preference."""
    from agentmem.cli.showing import short_id, when
    from agentmem.core.layout import Column, table

    rows = [
        (
            short_id(one.id) if at.on_terminal else one.id,
            one.type,
            when(at, one.memory.created_at, now),
            one_line(one.text),
        )
        for one in found
    ]
    columns = (
        Column(name="Id"),
        Column(name="Type", optional=True),
        Column(name="Since", optional=True),
        Column(name="Preference", least=10),
    )
    return table(at.pen, columns, rows, width=at.width if at.on_terminal else 100_000)
