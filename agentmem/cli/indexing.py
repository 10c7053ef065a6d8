"""Remember files, folders, web pages and what is piped in."""

from __future__ import annotations

import re
import sys
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agentmem.cli.common import FAILED, argument, open_memory, screen_of, whose_of
from agentmem.cli.output import Screen, one_line
from agentmem.errors import AgentMemError, InvalidInput

if TYPE_CHECKING:
    from agentmem.indexer import FolderReport, IndexingResult

SHOWN = 10
MANY_CHUNKS = 200
"""After so many new ones the indexes are saved, too."""
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def register(app: click.Group) -> None:
    """Add the command of this module."""
    app.command("index")(index)


@argument("what", metavar="PATH|URL|-", help="A file, a folder, an address, or stdin.")
@click.option("--title", default="", help="For stdin: what it is called.")
@click.option(
    "--url", default="", help="For stdin: its address; the same one again replaces the content."
)
@click.option("--allow-private", is_flag=True, help="Also addresses of private networks.")
@click.option("--prune", is_flag=True, help="For a folder: forget files that are gone.")
def index(
    ctx: click.Context,
    what: str,
    *,
    title: str = "",
    url: str = "",
    allow_private: bool = False,
    prune: bool = False,
) -> None:
    """Remember a file, a folder, a web page or stdin. The same content again adds nothing."""
    at = screen_of(ctx)
    stdin = what == "-"
    if not stdin and (title or url):
        raise InvalidInput(
            "--title" if title else "--url", title or url, "is for stdin", remedy="Leave it out."
        )
    if stdin:
        show_page(at, index_stdin(ctx, url=url, title=title))
    elif _URL.match(what):
        from agentmem.cli.progress import steps

        with open_memory(ctx) as memory, steps(at, f"fetching {one_line(what)}"):
            found = memory.index_url(what, allow_private=allow_private, **whose_of(ctx))
        show_page(at, found)
    else:
        show_folder(at, index_folder(ctx, at, what, prune=prune))


def index_stdin(ctx: click.Context, *, url: str, title: str) -> IndexingResult:
    """Remember what is piped in; without an address it gets one from its content."""
    from agentmem.core.content import content_hash

    content = sys.stdin.buffer.read()
    if not url:
        url = "stdin:" + content_hash(content.decode("utf-8", "replace"))[:16]
    with open_memory(ctx) as memory:
        return memory.index_page(content, url, title, **whose_of(ctx))


def index_folder(ctx: click.Context, at: Screen, path: str, *, prune: bool) -> FolderReport:
    """Remember a file or a folder, with a bar where it can be seen."""
    from agentmem.cli.progress import bar

    with open_memory(ctx) as memory, bar(at, "indexing") as move:

        def progress(done: int, total: int, file: Path) -> None:
            move(done, total, file.name)

        report = memory.index_path(path, progress=progress, prune=prune, **whose_of(ctx))
        if sum(one.chunks for one in report.results if one.status != "unchanged") > MANY_CHUNKS:
            with suppress(AgentMemError):  # it is saved on closing, so the next search finds it
                memory.index.catch_up()
        return report


def show_page(at: Screen, found: IndexingResult) -> None:
    """Print what became of a page, and exit with 1 if it failed."""
    if at.json:
        at.document({**asdict(found), "degradations": list(found.degradations)})
    elif found.ok:
        name = found.title or found.url
        at.print(f"{found.status.capitalize()}: {one_line(name)} {chunks(found.chunks)}".rstrip())
        for problem in found.degradations:
            at.note(f"Note: {one_line(problem)}")
    else:
        at.complain(f"Error: {one_line(found.url)}: {one_line(found.error)}")
    if not found.ok:
        raise click.exceptions.Exit(FAILED)


def show_folder(at: Screen, report: FolderReport) -> None:
    """Print what became of a folder, and exit with 1 if something in it failed."""
    if at.json:
        at.document(folder_to_dict(report))
    else:
        counts = [
            f"{count:,} {name}"
            for name, count in (
                ("added", report.added),
                ("replaced", report.replaced),
                ("unchanged", report.unchanged),
                ("empty", report.empty),
                ("skipped", len(report.skipped)),
                ("failed", len(report.failed)),
            )
            if count
        ]
        became = ", ".join(counts) or "nothing to read"
        at.print(f"{files(report.files)}: {became} {chunks(report.chunks)}".rstrip())
        for passed in report.failed[:SHOWN]:
            at.complain(f"failed: {one_line(passed.path)}: {one_line(passed.reason)}")
        if at.on_terminal:
            for passed in report.skipped[:SHOWN]:
                at.note(f"skipped: {one_line(passed.path)}: {one_line(passed.reason)}")
        for name, left in (("failed", report.failed), ("skipped", report.skipped)):
            if len(left) > SHOWN and (at.on_terminal or name == "failed"):
                at.note(f"and {len(left) - SHOWN:,} more {name}; --json lists all")
        show_gone(at, report)
    if report.failed:
        raise click.exceptions.Exit(FAILED)


def show_gone(at: Screen, report: FolderReport) -> None:
    """Print which files are no longer there, and whether their chunks are."""
    gone = len(report.vanished)
    are, them = ("is", "it") if gone == 1 else ("are", "them")
    if report.pruned:
        pruned = chunks(report.pruned).strip("()")
        at.print(f"Forgotten: {pruned} of {files(gone)} that {are} gone")
    elif gone:
        at.note(f"{files(gone)} {are} gone since; --prune forgets {them}.")


def files(count: int) -> str:
    return f"{count:,} {'file' if count == 1 else 'files'}"


def chunks(count: int) -> str:
    return f"({count:,} {'chunk' if count == 1 else 'chunks'})" if count else ""


def folder_to_dict(report: FolderReport) -> dict[str, Any]:
    """The report as JSON values, with its counts."""
    names = ("files", "added", "replaced", "unchanged", "empty", "chunks")
    return {**{name: getattr(report, name) for name in names}, **asdict(report)}
