"""What users told about themselves: list, add, remove, clear."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentmem.cli.common import confirm, open_memory, read_text, resolve_id, screen_of, whose_of
from agentmem.cli.output import Screen, one_line

if TYPE_CHECKING:
    from datetime import datetime

    from agentmem.preferences import Preference


def register(app: typer.Typer) -> None:
    """Add `prefs` and what can be done with them."""
    prefs = typer.Typer(invoke_without_command=True, add_completion=False, rich_markup_mode=None)
    prefs.callback()(all_or_command)
    prefs.command("list")(list_preferences)
    prefs.command("add")(add)
    prefs.command("remove")(remove)
    prefs.command("clear")(clear)
    app.add_typer(prefs, name="prefs")


def all_or_command(ctx: typer.Context) -> None:
    """Show and change what users told about themselves; alone it lists."""
    if ctx.invoked_subcommand is None:
        list_preferences(ctx)


def list_preferences(ctx: typer.Context) -> None:
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


def add(
    ctx: typer.Context,
    text: Annotated[
        list[str] | None,
        typer.Argument(metavar="TEXT", help="In the user's words; - or nothing reads stdin."),
    ] = None,
    type: Annotated[  # noqa: A002 - the option's name
        str | None, typer.Option("--type", help="expertise, style, domain or custom.")
    ] = None,
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


def remove(
    ctx: typer.Context,
    id: Annotated[  # noqa: A002 - the argument's name
        str, typer.Argument(metavar="ID", help="A whole id, or 4 characters or more of an end.")
    ],
    undo: Annotated[
        bool, typer.Option("--undo", help="Let what it had replaced hold again.")
    ] = False,
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


def clear(
    ctx: typer.Context,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
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
