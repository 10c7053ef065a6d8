"""Remember, find, read and change memories."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from agentmem.cli.common import (
    NOTHING_FOUND,
    argument,
    common_of,
    open_memory,
    read_text,
    resolve_id,
    screen_of,
    whose_of,
)
from agentmem.cli.output import Screen
from agentmem.errors import InvalidInput

if TYPE_CHECKING:
    pass


def register(app: click.Group) -> None:
    """Add the commands of this module."""
    app.command()(add)
    app.command()(search)
    app.command("list")(list_memories)
    app.command()(get)
    app.command()(update)
    app.command()(history)


@argument(
    "text", nargs=-1, metavar="TEXT", help="Several words need no quotes; - or nothing reads stdin."
)
@click.option(
    "--kind", metavar="KIND", default="fact", show_default=True, help="fact, episode, workflow, …"
)
@click.option(
    "--importance",
    metavar="0-1",
    type=float,
    default=0.5,
    show_default=True,
    help="How much it matters.",
)
@click.option(
    "--metadata", metavar="KEY=VALUE", multiple=True, help="A field; may be given several times."
)
@click.option(
    "--visibility", default="private", show_default=True, help="private, project or system."
)
def add(
    ctx: click.Context,
    text: tuple[str, ...] = (),
    *,
    kind: str = "fact",
    importance: float = 0.5,
    metadata: tuple[str, ...] = (),
    visibility: str = "private",
) -> None:
    """Remember a text. The same text again adds nothing."""
    at = screen_of(ctx)
    said = read_text(join(text)).strip()
    if not said:
        raise InvalidInput("text", said, "is empty", remedy="Say what is to be remembered.")
    fields = read_metadata(metadata)
    with open_memory(ctx) as memory:
        added = memory.add_text(
            said, kind=kind, importance=importance, metadata=fields,
            visibility=visibility,  # type: ignore[arg-type]  # checked where it is used
            **whose_of(ctx),
        )  # fmt: skip
    if at.json:
        at.document({"results": added["results"], "degradations": list(added.degradations)})
        return
    for item in added.items:
        at.print(f"{'Added' if item.event == 'ADD' else 'Already there'}: {item.id}")
    note_problems(at, added.degradations)


@argument(
    "query",
    nargs=-1,
    metavar="TEXT",
    help="Several words need no quotes; - or nothing reads stdin.",
)
@click.option("--limit", "-n", metavar="N", type=int, help="At most so many.")
@click.option("--threshold", metavar="0-1", type=float, help="The least score.")
@click.option("--mode", help="hybrid, vector or fulltext.")
@click.option(
    "--kind", metavar="KIND", multiple=True, help="Only this kind; may be given several times."
)
@click.option("--since", metavar="WHEN", help="ISO 8601, included.")
@click.option("--until", metavar="WHEN", help="ISO 8601, not included.")
def search(
    ctx: click.Context,
    query: tuple[str, ...] = (),
    *,
    limit: int | None = None,
    threshold: float | None = None,
    mode: str | None = None,
    kind: tuple[str, ...] = (),
    since: str | None = None,
    until: str | None = None,
) -> None:
    """Find the memories that answer a query, best first. Exits with 5 when there are none."""
    from agentmem.cli.showing import hit_lines

    at = screen_of(ctx)
    asked = read_text(join(query), name="query")
    if not asked.strip():
        raise InvalidInput("query", asked, "is empty", remedy="Say what to look for.")
    with open_memory(ctx) as memory:
        found = memory.search(
            asked, top_k=limit, threshold=threshold, kinds=kind or None, since=since, until=until,
            mode=mode,  # type: ignore[arg-type]  # checked where it is used
            **whose_of(ctx),
        )  # fmt: skip
        now = memory.clock.now()
    if at.json:
        at.document(
            {
                "query": asked,
                "results": found["results"],
                "degradations": list(found.degradations),
            }
        )
    else:
        for number, hit in enumerate(found, start=1):
            at.print(hit_lines(at, number, hit, now=now))
        if not found:
            at.note(f"Nothing found{missing(ctx)}.")
        note_problems(at, found.degradations)
    if not found:
        raise click.exceptions.Exit(NOTHING_FOUND)


@click.option(
    "--kind", metavar="KIND", multiple=True, help="Only this kind; may be given several times."
)
@click.option(
    "--limit",
    "-n",
    metavar="N",
    type=int,
    default=20,
    show_default=True,
    help="At most so many; 0 for all.",
)
@click.option("--superseded", is_flag=True, help="Also what newer statements replaced.")
def list_memories(
    ctx: click.Context,
    kind: tuple[str, ...] = (),
    limit: int = 20,
    superseded: bool = False,
) -> None:
    """List memories, newest first."""
    from agentmem.cli.showing import list_lines
    from agentmem.core.checks import require_count
    from agentmem.results import memory_to_dict

    at = screen_of(ctx)
    most = require_count(limit, "limit") or 2**31
    with open_memory(ctx) as memory:
        found = memory.get_all(
            kinds=kind or None, limit=most, superseded=superseded, **whose_of(ctx)
        )
        more = len(found) == most
        now = memory.clock.now()
    if at.json:
        at.document({"memories": [memory_to_dict(one) for one in found], "count": len(found)})
        return
    at.print(list_lines(at, found, now=now), end="\n" if found else "")
    if not found:
        at.note(f"There are no memories{missing(ctx)}.")
    elif more and at.on_terminal:
        at.note(f"The newest {most:,}; --limit shows more.")


@argument("id", metavar="ID", help="A whole id, or its first or last 4 characters or more.")
@click.option("--text", is_flag=True, help="Only the text.")
def get(
    ctx: click.Context,
    id: str,  # noqa: A002 - it is the argument's name
    text: bool = False,
) -> None:
    """Show one memory."""
    from agentmem.cli.showing import detail_lines, text_lines
    from agentmem.results import memory_to_dict

    at = screen_of(ctx)
    with open_memory(ctx) as memory:
        found = memory.get(resolve_id(memory, id, whose_of(ctx)), **whose_of(ctx))
        now = memory.clock.now()
    if at.json:
        at.document(memory_to_dict(found))
    elif text:
        at.print(text_lines(at, found.text) if at.on_terminal else found.text)
    else:
        at.print(detail_lines(at, found, now=now))


@argument("id", metavar="ID", help="A whole id, or its first or last 4 characters or more.")
@argument(
    "text", nargs=-1, metavar="TEXT", help="Several words need no quotes; - or nothing reads stdin."
)
@click.option("--importance", metavar="0-1", type=float, help="How much it matters.")
@click.option("--title", help="What it is called.")
@click.option(
    "--metadata", metavar="KEY=VALUE", multiple=True, help="A field; may be given several times."
)
def update(
    ctx: click.Context,
    id: str,  # noqa: A002 - it is the argument's name
    text: tuple[str, ...] = (),
    *,
    importance: float | None = None,
    title: str | None = None,
    metadata: tuple[str, ...] = (),
) -> None:
    """Change what a memory says; what it said before stays in its history."""
    from agentmem.results import memory_to_dict

    at = screen_of(ctx)
    others = importance is not None or title is not None or bool(metadata)
    said = None if others and not text else read_text(join(text))
    if said is not None and not said.strip():
        raise InvalidInput("text", said, "is empty", remedy="Say it anew, or use `delete`.")
    fields = read_metadata(metadata)
    with open_memory(ctx) as memory:
        meant = resolve_id(memory, id, whose_of(ctx))
        if fields:
            fields = {**memory.get(meant, **whose_of(ctx)).metadata, **fields}
        changed = memory.update(
            meant,
            said,
            metadata=fields or None,
            importance=importance,
            title=title,
            **whose_of(ctx),
        )
    if at.json:
        at.document(memory_to_dict(changed))
    else:
        at.print(f"Changed: {changed.id}")


@argument("id", metavar="ID", help="A whole id, or its first or last 4 characters or more.")
def history(ctx: click.Context, id: str) -> None:  # noqa: A002 - it is the argument's name
    """Show what a memory said before each change, oldest first, and what it says now."""
    from agentmem.cli.showing import indented
    from agentmem.results import memory_to_dict

    at = screen_of(ctx)
    with open_memory(ctx) as memory:
        meant = resolve_id(memory, id, whose_of(ctx))
        versions = memory.history(meant, **whose_of(ctx))
        now = memory.get(meant, **whose_of(ctx))
    if at.json:
        earlier = [
            {**memory_to_dict(v.memory), "replaced_at": v.replaced_at.isoformat()} for v in versions
        ]
        at.document({"id": meant, "versions": earlier, "now": memory_to_dict(now)})
        return
    from agentmem.cli.output import one_line

    for version in versions:
        moment = version.replaced_at.isoformat(timespec="seconds")
        at.print(at.pen.paint(f"until {moment}", "dim"))
        at.print(indented(at, one_line(version.memory.text)))
    at.print(at.pen.paint("now", "dim"))
    at.print(indented(at, one_line(now.text)))


# -- inside ----------------------------------------------------------------------------


def join(words: tuple[str, ...]) -> str | None:
    """The words of an argument as one text; `None` when there are none."""
    return " ".join(words) if words else None


def read_metadata(pairs: tuple[str, ...]) -> dict[str, Any]:
    """`key=value` pairs; a value is a number, true, false, null or a list if it reads as one."""
    fields: dict[str, Any] = {}
    for pair in pairs or ():
        name, separator, value = pair.partition("=")
        if not separator or not name.strip():
            raise InvalidInput("--metadata", pair, "is not KEY=VALUE", remedy="Write stars=3.")
        fields[name.strip()] = _value(value)
    return fields


def _value(written: str) -> Any:
    """JSON only where nothing of what was typed is lost: 1.10 and 007 stay texts."""
    try:
        value = json.loads(written)
    except ValueError:
        return written
    if isinstance(value, list | dict):
        return value
    return value if json.dumps(value) == written else written


def note_problems(at: Screen, degradations: tuple[str, ...] | list[str]) -> None:
    """Say what did not work on the way."""
    from agentmem.cli.output import one_line

    for problem in dict.fromkeys(degradations):
        at.note(f"Note: {one_line(problem)}")


def missing(ctx: click.Context) -> str:
    """A hint for an empty answer when the store is not there at all."""
    from agentmem.cli.output import one_line

    path = common_of(ctx).path
    if path is None or path.exists():
        return ""
    return f": there is no store at {one_line(str(path))} yet"
