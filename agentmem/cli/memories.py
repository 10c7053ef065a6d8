"""Remember, find, read and change memories."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from agentmem.base.errors import FileRefused, FileUnreadable, InvalidInput, RecordNotFound
from agentmem.base.time import relative_time
from agentmem.base.types import Hit, Memory, memory_to_dict
from agentmem.cli.common import (
    NOT_FOUND,
    NOTHING_FOUND,
    CommandRun,
    Group,
    argument,
    did_you_mean,
    one_line,
    read_pairs,
    read_text,
    resolve_id,
    visible,
    words_argument,
    wrap_line,
    yes_option,
)
from agentmem.inspector.layout import Column, fitting, many, pairs, table
from agentmem.stores.values import Receipt
from agentmem.text.clean import clean_line

if TYPE_CHECKING:
    from agentmem.living.preferences import Preference
    from agentmem.memory.manager import MemoryManager


KINDS = ("fact", "episode", "task", "workflow", "pattern", "message", "page", "preference")
"""The kinds that mean something here; any other word may be one too."""


id_argument = argument(
    "id", metavar="ID", help="A whole id, or its first or last 4 characters or more."
)
kind_option = click.option(
    "--kind", metavar="KIND", multiple=True, help="Only this kind; may be given several times."
)
metadata_option = click.option(
    "--metadata", metavar="KEY=VALUE", multiple=True, help="A field; may be given several times."
)


@words_argument()
@click.option(
    "--kind", metavar="KIND", default="fact", show_default=True, help="fact, episode, workflow, …"
)
@click.option(
    "--importance", metavar="0-1", type=float, default=0.5, show_default=True,
    help="How much it matters.",
)  # fmt: skip
@metadata_option
@click.option(
    "--visibility", default="private", show_default=True, help="private, project or system."
)
def add(
    at: CommandRun, text: str | None, *, kind: str, metadata: tuple[str, ...], **how: Any
) -> None:
    """Remember a text. The same text again adds nothing.

    For example: agentmem add Alice prefers Python for scripts
    """
    said = read_text(text).strip()
    if not said:
        raise InvalidInput("text", said, "is empty", remedy="Say what is to be remembered.")
    fields = read_metadata(metadata)
    with at.memory() as memory:
        added = memory.add(said, kind=kind, metadata=fields, **how, **at.whose)
    at.show(
        {"results": added["results"], "degradations": list(added.degradations)},
        [f"{'Added' if x.event == 'ADD' else 'Already there'}: {x.id}" for x in added.items],
    )
    if kind not in KINDS and (near := did_you_mean(kind, KINDS)):
        at.note(f"Note: {one_line(kind)} is a kind of your own.{near}")
    at.note_problems(added.degradations)


@words_argument("query")
@click.option("--limit", "-n", metavar="N", type=int, help="At most so many.")
@click.option("--threshold", metavar="0-1", type=float, help="The least score.")
@click.option("--mode", help="hybrid, vector or fulltext.")
@kind_option
@click.option("--since", metavar="WHEN", help="ISO 8601, included.")
@click.option("--until", metavar="WHEN", help="ISO 8601, not included.")
def search(
    at: CommandRun, query: str | None, *, limit: int | None, kind: tuple[str, ...], **how: Any
) -> None:
    """Find the memories that answer a query, best first. Exits with 5 when there are none.

    For example: agentmem search which language does Alice like --limit 3
    """

    asked = read_text(query, name="query")
    if not asked.strip():
        raise InvalidInput("query", asked, "is empty", remedy="Say what to look for.")
    with at.memory() as memory:
        found = memory.search(asked, top_k=limit, kinds=kind or None, **how, **at.whose)
        now = memory.clock.now()
        hint = "" if found else missing(at, memory, kind)
    problems = list(found.degradations)
    lines = [hit_lines(at, number, hit, now=now) for number, hit in enumerate(found, start=1)]
    document = {"query": asked, "results": found["results"], "degradations": problems}
    at.show(document, [line for hit in lines for line in hit])
    if not found:
        at.note(f"Nothing found{hint}")
    at.note_problems(problems)
    if not found:
        raise click.exceptions.Exit(NOTHING_FOUND)


@kind_option
@click.option(
    "--limit", "-n", metavar="N", type=int, default=20, show_default=True,
    help="At most so many; 0 for all.",
)  # fmt: skip
@click.option("--superseded", is_flag=True, help="Also what newer statements replaced.")
def list_(at: CommandRun, kind: tuple[str, ...], limit: int, superseded: bool) -> None:
    """List memories, newest first.

    For example: agentmem list --kind fact --limit 20
    """
    from agentmem.base.checks import require_count

    most = require_count(limit, "limit") or 2**31
    with at.memory() as memory:
        found = memory.get_all(kinds=kind or None, limit=most, superseded=superseded, **at.whose)
        more = len(found) == most
        now = memory.clock.now()
        hint = "" if found else missing(at, memory, kind)
    listed = [
        (
            one.id,
            one.kind + (" (superseded)" if one.superseded_by else ""),
            one.created_at,
            one.text,
        )
        for one in found
    ]
    shown = Column(name="Kind", least=6, optional=True)
    names = ("When" if at.on_terminal else "Date", "Text")
    at.show(
        {"memories": [memory_to_dict(one) for one in found], "count": len(found)},
        list_lines(at, listed, now=now, kind=shown, names=names),
    )
    if not found:
        at.note(f"There are no memories{hint}")
    elif more and at.on_terminal:
        at.note(f"The newest {most:,}; --limit shows more.")


def users(at: CommandRun) -> None:
    """List whose memories there are in the whole store.

    For example: agentmem users
    """
    with at.memory() as memory:
        found = memory.upkeep.users()
    columns = (Column(name="Memories", right=True), Column(name="User", least=10))
    rows = [
        (f"{count:,}", "(no name)" if name is None else one_line(name))
        for name, count in found.items()
    ]
    document = [{"user_id": name, "memories": count} for name, count in found.items()]
    at.show({"users": document}, table(at.pen, columns, rows, width=at.width))
    if not rows:
        at.note("There are no memories.")


@id_argument
@click.option("--text", is_flag=True, help="Only the text.")
@click.option(
    "--out", type=click.Path(dir_okay=False), metavar="FILE", help="Write its exact bytes there."
)
def get(at: CommandRun, id: str, text: bool, out: str | None) -> None:  # noqa: A002 - as typed
    """Show one memory, or write a tool result's exact bytes to a file.

    For example: agentmem get 9e2ab146
    """
    with at.memory() as memory:
        found = memory.get(resolve_id(memory, id, at.whose), **at.whose)
        now = memory.clock.now()
        if out is not None:
            data = exact_bytes(memory, found, at)
    if out is not None:
        save(out, data)
        written = {"id": found.id, "file": out, "bytes": len(data)}
        at.show(written, f"Wrote {many(len(data), 'byte')} to {out}")
    elif text and not at.json:
        at.print(text_lines(at, found.text) if at.on_terminal else found.text)
    else:
        at.show(memory_to_dict(found), detail_lines(at, found, now=now))


def exact_bytes(memory: MemoryManager, found: Memory, at: CommandRun) -> bytes:
    """What a tool gave, byte for byte; of any other memory its text."""
    try:
        return memory.store.artifacts.get(at.scope, found.id).data
    except RecordNotFound:
        return found.text.encode("utf-8")


def save(path: str, data: bytes) -> None:
    """Write a file for its owner alone, whole or not at all; one that is there stays."""
    from pathlib import Path

    from agentmem.stores.open_files import new_bytes

    try:
        if Path(path).exists():
            raise FileExistsError(path)
        with new_bytes(Path(path), replace=False) as file:
            file.write(data)
    except FileExistsError:
        raise FileRefused(path, "is there already", remedy="Name another file.") from None
    except OSError as error:
        problem = f"cannot be written: {error.strerror or error}"
        raise FileUnreadable(path, problem, remedy="Name another file.") from error


@id_argument
@words_argument()
@click.option("--importance", metavar="0-1", type=float, help="How much it matters.")
@click.option("--title", help="What it is called.")
@metadata_option
def update(
    at: CommandRun,
    id: str,  # noqa: A002 - it is the argument's name
    text: str | None,
    *,
    metadata: tuple[str, ...],
    **fields: Any,
) -> None:
    """Change what a memory says; what it said before stays in its history.

    For example: agentmem update 9e2ab146 Alice prefers Go for scripts
    """
    others = bool(metadata) or any(value is not None for value in fields.values())
    said = None if others and not text else read_text(text)
    if said is not None and not said.strip():
        raise InvalidInput("text", said, "is empty", remedy="Say it anew, or use `delete`.")
    more = read_metadata(metadata)
    with at.memory() as memory:
        meant = resolve_id(memory, id, at.whose)
        if more:
            fields["metadata"] = {**memory.get(meant, **at.whose).metadata, **more}
        changed = memory.update(meant, said, **fields, **at.whose)
    at.show(memory_to_dict(changed), f"Changed: {changed.id}")


@id_argument
def history(at: CommandRun, id: str) -> None:  # noqa: A002 - it is the argument's name
    """Show what a memory said before each change, oldest first, and what it says now.

    For example: agentmem history 9e2ab146
    """
    with at.memory() as memory:
        meant = resolve_id(memory, id, at.whose)
        versions = memory.history(meant, **at.whose)
        now = memory.get(meant, **at.whose)
    earlier = [
        {**memory_to_dict(v.memory), "replaced_at": v.replaced_at.isoformat()} for v in versions
    ]
    until = [(f"until {v.replaced_at.isoformat(timespec='seconds')}", v.memory) for v in versions]
    lines: list[str] = []
    for moment, version in (*until, ("now", now)):
        lines += [at.pen.paint(moment, "dim"), *indented(at, one_line(version.text))]
    at.show({"id": meant, "versions": earlier, "now": memory_to_dict(now)}, lines)


# -- inside ----------------------------------------------------------------------------


def read_metadata(pairs: tuple[str, ...]) -> dict[str, Any]:
    """`key=value` pairs; a value is a number, true, false, null or a list if it reads as one."""
    read = read_pairs(pairs, "--metadata", "is not KEY=VALUE", remedy="Write stars=3.", empty=True)
    return {name: _value(value) for name, value in read}


def _value(written: str) -> Any:
    """JSON only where nothing of what was typed is lost: 1.10 and 007 stay texts."""
    try:
        value = json.loads(written)
    except ValueError:
        return written
    if isinstance(value, list | dict):
        return value
    return value if json.dumps(value) == written else written


def missing(at: CommandRun, memory: MemoryManager, kinds: Sequence[str] = ()) -> str:
    """Why an answer is empty: no store at all, no such kind in it, or all of it is others'."""
    path = at.path
    if path is not None and not path.exists():
        return f": there is no store at {one_line(str(path))} yet."
    there = memory.store.upkeep.stats().kinds
    for kind in kinds:
        if there and kind not in (*there, *KINDS):
            near = did_you_mean(kind, {*there, *KINDS}) or f" There are: {', '.join(there)}."
            return f" of the kind {one_line(kind)}. {one_line(near)}"
    others = sum(memory.upkeep.users().values())
    if not others or memory.get_all(limit=1, **at.whose):
        return "."
    are = "memory here is" if others == 1 else "memories here are"
    return f": the {others:,} {are} of others; say whose with --user (`agentmem users` lists them)."


# ----------------------------------------------------------------------------
# Delete and erase memories.


_ids_argument = argument(
    "ids", nargs=-1, metavar="ID...", help="Whole ids, or their first or last 4 characters or more."
)
_all_option = click.option(
    "--all", "every", is_flag=True, help="Every private memory of this user."
)


@_ids_argument
@_all_option
@yes_option
def delete(at: CommandRun, ids: tuple[str, ...], every: bool, yes: bool) -> None:
    """Take memories out of every read. They are kept until they are erased.

    For example: agentmem delete 9e2ab146
    """
    with at.memory() as memory:
        meant = agreed(at, memory, ids, "Delete {}?", every=every, yes=yes)
        count = memory.delete_all(**at.whose) if meant is None else memory.delete(meant, **at.whose)
    at.show({"deleted": count, "ids": meant}, f"Deleted: {count:,}")


@_ids_argument
@_all_option
@yes_option
def erase(at: CommandRun, ids: tuple[str, ...], every: bool, yes: bool) -> None:
    """Remove memories, deleted ones too, so that their bytes are in no file of the store.

    For example: agentmem erase --user ana --all
    """

    question = "Erase {} for good? This cannot be undone."
    with at.memory() as memory:
        meant = agreed(at, memory, ids, question, every=every, yes=yes, deleted=True)
        receipt = (
            memory.upkeep.erase_all(**at.whose)
            if meant is None
            else memory.erase(meant, **at.whose)
        )
    history = at.history  # what was typed into `chat` may repeat what was erased
    typed = history is not None and history.exists()
    if history is not None and typed:
        history.unlink()
    at.show({**asdict(receipt), "chat_history_removed": typed}, receipt_lines(at, receipt))
    if typed:
        at.note("The lines typed into `agentmem chat` were removed too.")
    if meant is not None and not receipt.ids:
        raise click.exceptions.Exit(NOT_FOUND)


# -- inside ----------------------------------------------------------------------------


MOST_SHOWN = 10
"""So many memories are quoted before somebody is asked about them."""


def agreed(
    at: CommandRun,
    memory: MemoryManager,
    ids: tuple[str, ...],
    question: str,
    *,
    every: bool,
    yes: bool,
    deleted: bool = False,
) -> list[str] | None:
    """The ids that are meant, found and agreed to before anything is changed; `None` is all."""
    from agentmem.base.filters import Selection

    if bool(ids) == every:
        problem = "and --all exclude each other" if ids else "are missing"
        raise InvalidInput("ids", ids or [], problem, remedy="Give ids, or --all.")
    if every:
        selection = Selection(
            reader=at.scope,
            visibilities=("private",),
            deleted=deleted,
            superseded=True,
            forgotten=True,
        )
        count = memory.store.count(selection)
        name = f" of {at.user}" if at.user else ""
        said = f"{'the' if count == 1 else 'all'} {many(count, 'memory')}{name}"
        at.confirm(question.format(said), yes=yes)
        return None
    meant = [resolve_id(memory, one, at.whose, deleted=deleted) for one in ids]
    meant = list(dict.fromkeys(meant))
    if not yes:
        told = [f"{one}  {shown_text(at, memory, one)}\n" for one in meant[:MOST_SHOWN]]
        more = len(meant) - MOST_SHOWN
        told += [f"and {more:,} more\n"] if more > 0 else []
        said = "this memory" if len(meant) == 1 else f"these {len(meant):,} memories"
        at.confirm("".join(told) + question.format(said), yes=yes)
    return meant


def shown_text(at: CommandRun, memory: MemoryManager, memory_id: str) -> str:
    """The first words of a memory that somebody is asked about; deleted ones have theirs too."""
    try:
        found = memory.store.get(at.scope, memory_id, deleted=True)
    except RecordNotFound:
        return "(not there)"
    return clean_line(one_line(found.text), limit_characters=70)


# ----------------------------------------------------------------------------
# What users told about themselves: list, add, remove, clear.


@click.group(cls=Group, invoke_without_command=True)
@click.pass_context
def prefs(ctx: click.Context) -> None:
    """Show and change what users told about themselves; alone it lists.

    For example: agentmem prefs list --user ana
    """
    if ctx.invoked_subcommand is None:
        list_preferences.invoke(ctx)


@prefs.command("list")
def list_preferences(at: CommandRun) -> None:
    """List the preferences that hold now, newest first.

    For example: agentmem prefs list --user ana
    """
    with at.memory() as memory:
        found = memory.preferences.get_all(**at.whose)
        now = memory.clock.now()
    at.show({"preferences": [one.to_dict() for one in found]}, preference_lines(at, found, now=now))
    if not found:
        at.note("No preferences are known.")


@prefs.command("add")
@words_argument(help="In the user's words; - or nothing reads stdin.")
@click.option("--type", help="expertise, style, domain or custom.")
def preferring_add(at: CommandRun, text: str | None, **options: Any) -> None:
    """Keep a preference; a newer one about the same thing takes the older one's place.

    For example: agentmem prefs add --user ana I prefer short answers
    """
    said = read_text(text)
    with at.memory() as memory:
        kept = memory.preferences.add(said, **options, **at.whose)
    at.show(kept.to_dict(), f"Kept: {kept.id} ({kept.type})")
    if kept.replaced:
        at.note(f"It takes the place of {', '.join(kept.replaced)}.")


@prefs.command()
@argument("id", metavar="ID", help="A whole id, or 4 characters or more of an end.")
@click.option("--undo", is_flag=True, help="Let what it had replaced hold again.")
def remove(at: CommandRun, id: str, undo: bool) -> None:  # noqa: A002 - as typed
    """Take one preference back.

    For example: agentmem prefs remove 9e2ab146
    """
    with at.memory() as memory:
        meant = resolve_id(memory, id, at.whose)
        back: tuple[Preference, ...] = ()
        if undo:
            back = memory.preferences.undo(meant, **at.whose)
        elif not memory.preferences.remove(meant, **at.whose):
            raise RecordNotFound(meant)
    at.show(
        {"removed": meant, "restored": [one.to_dict() for one in back]},
        [f"Removed: {meant}", *(f"Holds again: {one_line(one.text)}" for one in back)],
    )


@prefs.command()
@yes_option
def clear(at: CommandRun, yes: bool) -> None:
    """Take every preference of this user back.

    For example: agentmem prefs clear --user ana
    """
    with at.memory() as memory:
        known = len(memory.preferences.get_all(**at.whose))
        at.confirm(f"Take back {many(known, 'preference')}?", yes=yes)
        count = memory.preferences.clear(**at.whose)
    at.show({"removed": count}, f"Removed: {count:,}")


def preference_lines(at: CommandRun, found: Sequence[Preference], *, now: datetime) -> list[str]:
    """One row a preference."""
    listed = [(one.id, one.type, one.memory.created_at, one.text) for one in found]
    kind = Column(name="Type", optional=True)
    return list_lines(at, listed, now=now, kind=kind, names=("Since", "Preference"))


# ----------------------------------------------------------------------------
# Memories as lines of a terminal and as JSON values.


SHORT_ID = 8
MOST_LINES = 4
VALUE_CHARACTERS = 400


def short_id(memory_id: str) -> str:
    """The end of an id, enough to name it: the beginning is the time, which neighbours share."""
    return memory_id[-SHORT_ID:]


def shown_id(at: CommandRun, memory_id: str) -> str:
    """An id as it is listed: only a terminal gets a short one."""
    return short_id(memory_id) if at.on_terminal else memory_id


def when(at: CommandRun, moment: datetime, now: datetime) -> str:
    """How long ago a moment was (P13) for people; its date for what reads a pipe."""
    return relative_time(moment, now) if at.on_terminal else moment.date().isoformat()


def list_lines(
    at: CommandRun,
    listed: Sequence[tuple[str, str, datetime, str]],
    *,
    now: datetime,
    kind: Column,
    names: tuple[str, str],
) -> list[str]:
    """An id, a kind, a moment and a text a row. Only a terminal gets short ids and cut texts."""
    rows = [
        (shown_id(at, one), sort, when(at, moment, now), one_line(text))
        for one, sort, moment, text in listed
    ]
    since, said = Column(name=names[0], optional=True), Column(name=names[1], least=10)
    longest = max((len(row[3]) for row in rows), default=0)
    width = at.width if at.on_terminal else 2 * longest + 200
    return table(at.pen, (Column(name="Id"), kind, since, said), rows, width=width)


def hit_lines(at: CommandRun, number: int, hit: Hit, *, now: datetime) -> list[str]:
    """A found memory: its score and id, its text, and where it is from."""
    memory, pen = hit.memory, at.pen
    moment = when(at, memory.created_at, now)
    head = f"{number:>2}  {hit.score:.2f}  {one_line(memory.kind)}  {moment}  "
    lines = [pen.paint(head, "dim") + pen.paint(shown_id(at, memory.id), "accent")]
    lines += indented(at, one_line(memory.text), most_lines=MOST_LINES)
    origin = place_of(memory)
    if origin:
        lines += [pen.paint(line, "dim") for line in indented(at, one_line(origin), most_lines=2)]
    return lines


def place_of(memory: Memory) -> str:
    """Where a memory is from, in words."""
    title = memory.title if memory.title not in (memory.source_url, "") else ""
    return " › ".join(part for part in (title, *memory.heading_path, memory.source_url) if part)


def indented(at: CommandRun, text: str, *, most_lines: int | None = None) -> list[str]:
    """`text` wrapped and indented on a terminal, on one whole line elsewhere."""
    space = " " * 4
    if not at.on_terminal:
        return [space + at.pen.clean(text)]
    lines = at.pen.wrap(text, at.width - 4)
    if most_lines is not None and len(lines) > most_lines:
        dots = " ..." if at.pen.ascii_only else " …"
        last = fitting(lines[most_lines - 1], at.width - 4 - len(dots))
        lines = [*lines[: most_lines - 1], last.rstrip() + dots]
    return [space + line for line in lines]


def text_lines(at: CommandRun, text: str) -> list[str]:
    """A whole text, line by line, wrapped on a terminal."""
    lines = visible(text).expandtabs(4).split("\n")
    if not at.on_terminal:
        return lines
    return [part for line in lines for part in wrap_line(at.pen, line, at.width)]


def detail_lines(at: CommandRun, memory: Memory, *, now: datetime) -> list[str]:
    """Everything about one memory, then its text."""
    created = memory.created_at.isoformat(timespec="seconds")
    if at.on_terminal:
        created += f" ({when(at, memory.created_at, now)})"
    said = [
        (name, str(value))
        for name, value in (
            ("Id", memory.id),
            ("Kind", memory.kind),
            ("Created", created),
            ("Origin", memory.origin),
            ("Importance", f"{memory.importance:g}"),
            ("User", memory.scope.user_id),
            ("Project", memory.scope.project_id),
            ("Agent", memory.scope.agent_id),
            ("Run", memory.scope.run_id),
            ("Visibility", memory.visibility if memory.visibility != "private" else None),
            ("Title", memory.title),
            ("Source", memory.source_url),
            ("Heading", " › ".join(memory.heading_path)),
            ("Speaker", memory.speaker),
            ("Session", memory.session),
            ("Valid from", memory.valid_from and memory.valid_from.isoformat(timespec="seconds")),
            ("Valid to", memory.valid_to and memory.valid_to.isoformat(timespec="seconds")),
            ("Supersedes", memory.supersedes),
            ("Superseded by", memory.superseded_by),
        )
        if value
    ]
    said += [(f"  {name}", _shortened(str(value))) for name, value in memory.metadata.items()]
    used = memory.usage
    if used.retrieved:
        said.append(("Used", f"found {used.retrieved}, cited {used.cited}, ignored {used.ignored}"))
    cleaned = [(one_line(name) or "?", one_line(text)) for name, text in said]
    width = at.width if at.on_terminal else 10_000
    return [*pairs(at.pen, cleaned, width=width), "", *text_lines(at, memory.text)]


def _shortened(value: str) -> str:
    """A long value by its beginning; `--json` has all of it."""
    if len(value) <= VALUE_CHARACTERS:
        return value
    return f"{value[:VALUE_CHARACTERS]}… ({len(value):,} characters)"


def receipt_lines(at: CommandRun, receipt: Receipt) -> list[str]:
    """What an erasure removed."""
    counted = [
        (name, f"{count:,}")
        for name, count in (
            ("Memories", len(receipt.ids)),
            ("Made of them", len(receipt.derived)),
            ("Vectors", receipt.vectors),
            ("Versions", receipt.versions),
            ("Contexts", receipt.snapshots),
            ("Tool results", receipt.artifacts),
            ("Waiting jobs", receipt.jobs),
            ("Index files", len(receipt.index_files)),
        )
    ]
    if receipt.remains:
        state = "in every table, not yet on disk"
    elif receipt.complete:
        state = "yes: the bytes are in no file of the store"
    else:
        state = "not yet: another process still reads an older state; run it again, or `doctor`"
    moment = receipt.erased_at.isoformat(timespec="seconds")
    left = [("Left to do", said) for said in receipt.remains]
    return pairs(
        at.pen, [("Erased at", moment), *counted, ("Complete", state), *left], width=at.width
    )
