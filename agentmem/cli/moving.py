"""Write memories to a file and read them back."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, get_args

import click

from agentmem.base.errors import FileRefused, FileUnreadable, IncompleteExport, InvalidInput
from agentmem.cli.common import (
    CLOSED_PIPE,
    FAILED,
    CommandRun,
    argument,
    bar,
    close_quietly,
    escape_unseen,
    one_line,
    yes_option,
)
from agentmem.inspector.layout import many
from agentmem.sources.imports.load import Source, is_ours
from agentmem.stores.open_files import new_bytes
from agentmem.stores.values import is_dsn

if TYPE_CHECKING:
    from agentmem.memory.manager import MemoryManager
    from agentmem.stores.postgres.connection import PostgresDatabase
    from agentmem.stores.sqlite.store import SqliteStore


STREAM = "-"
STDOUT = (STREAM, "/dev/stdout")
SHOWN_BAD_LINES = 10


@argument("file", metavar="FILE", help="Where to; - is stdout.")
@click.option("--vectors", is_flag=True, help="With the vectors; they are made anew otherwise.")
@click.option("--yes", "-y", is_flag=True, help="Replace a file without asking.")
def export(at: CommandRun, file: str, *, vectors: bool, yes: bool) -> None:
    """Write memories to a file, one JSON object a line: of everybody, or of --user.

    From a damaged store all that can be read is written; what is missing is
    said, and the exit code is 4.

    For example: agentmem export memories.jsonl --user ana
    """
    if file in STDOUT:
        if at.json:
            remedy = "Name a file, or leave one out."
            raise InvalidInput("--json", True, f"and {file} both want stdout", remedy=remedy)
        with at.memory() as memory, TemporaryDirectory(prefix="agentmem-") as folder:
            path = Path(folder) / "memories.jsonl"
            try:
                memory.upkeep.export_jsonl(path, vectors=vectors, **at.whose)
            except IncompleteExport as error:
                copy_to_stdout(at, path)
                missing = error.missing
                raise IncompleteExport("stdout", exported=error.exported, missing=missing) from None
            copy_to_stdout(at, path)
        return
    target, store = Path(file), at.path
    if store is not None and target.exists() and store.exists() and target.samefile(store):
        raise InvalidInput("FILE", str(target), "is the store itself", remedy="Name another.")
    if target.exists() and not (target.is_fifo() or target.is_char_device()):  # nor a terminal
        at.confirm(f"{one_line(file)} exists. Replace it?", yes=yes)
    with at.memory() as memory:
        count = memory.upkeep.export_jsonl(target, vectors=vectors, **at.whose)
    at.show({"exported": count, "file": str(target)}, f"Exported: {count:,} to {one_line(file)}")


@argument("file", metavar="FILE", help="What was exported; - is stdin.")
@click.option(
    "--from", "source", type=click.Choice(get_args(Source), case_sensitive=False),
    default="auto", show_default=True, help="Which program exported it.",
)  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Say what would be taken; write nothing.")
@click.option("--skip-bad-lines", is_flag=True, help="Import the rest when some cannot be read.")
@click.option(
    "--own-words", is_flag=True,
    help="What the file says the user said is theirs, preferences too.",
)  # fmt: skip
@click.option(
    "--as-exported", is_flag=True,
    help="Keep every owner, visibility and kind: for a file you trust.",
)  # fmt: skip
def import_(
    at: CommandRun,
    file: str,
    *,
    source: Source,
    dry_run: bool,
    skip_bad_lines: bool,
    **how: Any,
) -> None:
    """Add memories that `export` wrote, or that another program exported.

    Everything becomes the user's (--user), private and marked as imported. To
    move a whole store, add --as-exported. What is there already is skipped.
    When a line of `export` cannot be read nothing is imported, unless such
    lines are to be skipped. ChatGPT and Claude exports may be the zip file.

    For example: agentmem import memories.jsonl --user ana
    """
    with at.memory(embed_in_background=False) as memory, readable(file) as path:
        ours = source == "agentmem" or (source == "auto" and is_ours(path))
        if dry_run or not ours:
            import_foreign(at, memory, path, source=source, dry_run=dry_run)
            return
        whose = {} if how["as_exported"] else at.whose
        report = memory.upkeep.import_jsonl(path, skip_bad_lines=skip_bad_lines, **how, **whose)
        if report.imported:
            embed(at, memory)
    refused = bool(report.bad_lines) and not skip_bad_lines
    if at.json:
        at.document(asdict(report))
    else:
        for bad in report.bad_lines[:SHOWN_BAD_LINES]:
            at.complain(f"line {bad.number}: {one_line(bad.reason)}")
        if len(report.bad_lines) > SHOWN_BAD_LINES:
            at.complain(f"and {len(report.bad_lines) - SHOWN_BAD_LINES:,} more")
        known = report.same_id + report.same_content
        there = f" ({known:,} were there already)" if known else ""
        at.print(f"Imported: {report.imported:,}{there}")
        if refused:
            at.complain("Nothing was imported; --skip-bad-lines imports the other lines.")
    if refused:
        raise click.exceptions.Exit(FAILED)


@argument("file", metavar="FILE", help="Where to; it must not exist yet.")
def backup(at: CommandRun, file: str) -> None:
    """Write a copy of the whole store, which may be in use meanwhile.

    For example: agentmem backup memory-monday.db
    """
    at.ask_for_folder(Path(file).parent, name="FILE")
    with at.memory() as memory:
        memory.upkeep.backup(file)
    at.show({"file": file}, f"Copied to {one_line(file)}")


@argument("file", metavar="BACKUP", help="What `backup` wrote.")
@yes_option
def restore(at: CommandRun, file: str, *, yes: bool) -> None:
    """Put a backup in the place of the store. Nobody may have the store open.

    The backup is checked first. The store that was there is kept under another
    name, with its log. Copying a backup by hand leaves the old log beside it.

    For example: agentmem restore memory-monday.db
    """
    from agentmem.memory.opening import restore as put_in_place

    path = at.path
    if path is None:
        remedy = "Name a file with --store."
        raise InvalidInput("--store", "memory", "is not kept in a file", remedy=remedy)
    if not Path(file).is_file():  # before anything is asked
        raise FileUnreadable(file, "is not there", remedy="Check the path.")
    at.ask_for_folder(path.parent, name="--store", yes=yes)
    if path.exists():
        at.confirm(f"Replace {one_line(str(path))} by {one_line(file)}?", yes=yes)
    done = put_in_place(file, path)
    aside = None if done.set_aside is None else str(done.set_aside)
    document = {"memories": done.memories, "store": str(done.path), "set_aside": aside}
    at.show(document, f"Restored: {many(done.memories, 'memory')}")
    if aside is not None:
        at.note(f"What was there is in {one_line(aside)}; remove it when you like.")


def migrate(at: CommandRun) -> None:
    """Bring the tables of a database up to date; a file is brought up to date when it is opened.

    Do this as a role that may create tables, the extension `vector` and a role; whoever opens
    the store afterwards needs no such rights. Several may do it at once.

    For example: agentmem migrate --store postgresql://admin@db/memory
    """
    if not is_dsn(at.store):
        with at.memory() as memory:
            before = after = memory.store.upkeep.stats().schema_version
    else:
        from agentmem.stores.postgres.store import migrate_dsn

        before, after = migrate_dsn(str(at.store))
    told = f"The tables went from version {before} to version {after}."
    if before == after:
        told = f"Nothing to do: the tables are of version {after}."
    at.show({"from_version": before, "to_version": after}, told)


@argument("source", metavar="FROM", help="A store's file, or postgresql://host/database.")
@argument("target", metavar="TO", help="An empty store of either kind.")
def migrate_store(at: CommandRun, source: str, target: str) -> None:
    """Copy a whole store into an empty one: from a file to PostgreSQL, or back.

    Everything goes: memories, vectors, history, traces, results, links, jobs, runs that can
    be undone, settings. Broken off, the same command goes on where it stopped; at the end both
    sides are read and compared. The source is only read.

    For example: agentmem migrate-store memory.db postgresql://app@db/memory?tenant=acme
    """
    from agentmem.stores.transfer import PARTS, copy_store

    if not is_dsn(source) and not Path(source).expanduser().is_file():
        raise FileUnreadable(source, "is no store that is there", remedy="Name a store's file.")
    if not is_dsn(target):
        at.ask_for_folder(Path(target).expanduser().parent, name="TO")

    def told(part: str, done: int, total: int) -> None:
        at.note(f"{part}: {done:,} of {total:,}")

    with ExitStack() as stack:
        ends = [_end(stack, name) for name in (source, target)]
        done = copy_store(*ends, progress=told)
    rows = sum(done.counts.values())
    at.show(
        {"counts": done.counts, "resumed": done.resumed, "verified": True},
        f"Copied {many(done.counts['memories'], 'memory')}, {many(rows, 'row')} in "
        f"{len(PARTS)} parts; both sides were read and are the same.",
    )


def _end(stack: ExitStack, name: str) -> SqliteStore | PostgresDatabase:
    """One end of a move, closed with the stack."""
    if is_dsn(name):
        from agentmem.stores.postgres.store import PostgresStore

        return stack.enter_context(PostgresStore(name)).database
    from agentmem.stores.sqlite.store import SqliteStore

    return stack.enter_context(SqliteStore(Path(name).expanduser()))


def import_foreign(
    at: CommandRun, memory: MemoryManager, path: Path, *, source: Source, dry_run: bool
) -> None:
    """Take over another program's export and say what was and was not taken."""
    try:
        with bar(at, "reading" if dry_run else "importing") as move:
            found = memory.upkeep.import_from(
                path, source, dry_run=dry_run, progress=move, **at.whose
            )
    except FileRefused as error:
        problem = error.problem
        if source == "auto" and problem.startswith(("is not JSON", "is not text")):
            problem = "is not an agentmem export"  # nor anybody else's
        remedy = error.remedy.replace("source=", "--from ")
        raise InvalidInput("path", str(path), problem, remedy=remedy) from None
    if found.taken and not dry_run:
        embed(at, memory)
    there = f" ({found.already:,} were there already)" if found.already else ""
    done = "Would import" if dry_run else "Imported"
    lines = [f"{done}: {found.taken:,} from {found.source}{there}"]
    lines += [f"  {one_line(kind)}: {count:,}" for kind, count in found.kinds.items()]
    if found.ended:
        lines.append(f"  no longer true: {found.ended:,}")
    if found.left_out:
        lines.append(f"Left out: {sum(found.left_out.values()):,}")
        lines += [f"  {one_line(reason)}: {n:,}" for reason, n in found.left_out.items()]
    at.show({name: getattr(found, name) for name in found.__slots__}, lines)


def embed(at: CommandRun, memory: MemoryManager) -> None:
    """Make the vectors that an import left out, with a bar where it can be seen."""
    with bar(at, "embedding") as move:
        memory.upkeep.reembed(progress=move)


@contextmanager
def readable(file: str) -> Iterator[Path]:
    """The file, or stdin as one: an import reads it twice."""
    if file != STREAM:
        if not Path(file).exists():
            raise FileUnreadable(file, "is not there", remedy="Check the path.")
        yield Path(file)
        return
    with TemporaryDirectory(prefix="agentmem-") as folder:  # only this user can read it
        path = Path(folder) / "memories.jsonl"
        with new_bytes(path) as copy:
            shutil.copyfileobj(sys.stdin.buffer, copy)
        try:
            yield path
        except InvalidInput as error:
            if path.name not in str(error.value):
                raise
            raise InvalidInput("stdin", STREAM, error.problem, remedy=error.remedy) from error


def copy_to_stdout(at: CommandRun, path: Path) -> None:
    """The bytes of a file of JSON lines on stdout, whatever the encoding is.

    On a terminal characters that cannot be seen are escaped: the JSON is the
    same, and a stored text moves no cursor and turns no line around.
    """
    try:
        at.out.flush()
        with path.open("rb") as file:
            if at.on_terminal:
                at.out.buffer.writelines(escape_unseen(line.decode()).encode() for line in file)
            else:
                shutil.copyfileobj(file, at.out.buffer)
        at.out.buffer.flush()
    except BrokenPipeError:
        close_quietly(at.out)
        raise click.exceptions.Exit(CLOSED_PIPE) from None
