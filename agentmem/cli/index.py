"""Remember files, folders, web pages and what is piped in."""

from __future__ import annotations

import contextlib
import re
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from agentmem.base.errors import AgentMemError, InvalidInput
from agentmem.cli.common import (
    EXTRACTIVE,
    FAILED,
    INTERRUPTED,
    NOTHING_FOUND,
    CommandRun,
    argument,
    bar,
    model_name,
    model_option,
    one_line,
    read_text,
    steps,
    words_argument,
)
from agentmem.inspector.layout import many

if TYPE_CHECKING:
    from agentmem.search.results import FolderReport, IndexingResult, PassedOver
    from agentmem.sources.web.enhanced import EnhancedSearchResult


SHOWN = 10
MANY_CHUNKS = 200
"""After so many new ones the indexes are saved, too."""
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


@argument("what", metavar="PATH|URL|-", help="A file, a folder, an address, or stdin.")
@click.option("--title", default="", help="For stdin: what it is called.")
@click.option(
    "--url", default="", help="For stdin: its address; the same one again replaces the content."
)
@click.option("--allow-private", is_flag=True, help="Also addresses of private networks.")
@click.option("--prune", is_flag=True, help="For a folder: forget files that are gone.")
def index(
    at: CommandRun, what: str, *, title: str, url: str, allow_private: bool, prune: bool
) -> None:
    """Remember a file, a folder, a web page or stdin. The same content again adds nothing.

    For example: agentmem index ./notes --prune
    """
    stdin = what == "-"
    if not stdin and (title or url):
        raise InvalidInput(
            "--title" if title else "--url", title or url, "is for stdin", remedy="Leave it out."
        )
    if stdin:
        from agentmem.base.types import content_hash

        content = sys.stdin.buffer.read()  # without an address it gets one from its content
        url = url or "stdin:" + content_hash(content.decode("utf-8", "replace"))[:16]
        with at.memory() as memory:
            found = memory.sources.index_page(content, url, title, **at.whose)
        show_page(at, found)
    elif _URL.match(what):
        with at.memory() as memory, steps(at, f"fetching {one_line(what)}"):
            found = memory.sources.index_url(what, allow_private=allow_private, **at.whose)
        show_page(at, found)
    else:
        show_folder(at, index_folder(at, what, prune=prune))


def index_folder(at: CommandRun, path: str, *, prune: bool) -> FolderReport:
    """Remember a file or a folder, with a bar where it can be seen."""
    with at.memory() as memory, bar(at, "indexing") as move:
        report = memory.sources.index_path(
            path,
            progress=lambda done, total, file: move(done, total, file.name),
            prune=prune,
            **at.whose,
        )
        if sum(one.chunks for one in report.results if one.status != "unchanged") > MANY_CHUNKS:
            with suppress(AgentMemError):  # it is saved on closing, so the next search finds it
                memory.index.catch_up()
        return report


def show_page(at: CommandRun, found: IndexingResult) -> None:
    """Print what became of a page, and exit with 1 if it failed."""
    if at.json:
        at.document({**asdict(found), "degradations": list(found.degradations)})
    elif found.ok:
        name = found.title or found.url
        at.print(f"{found.status.capitalize()}: {one_line(name)} {chunks(found.chunks)}".rstrip())
        at.note_problems(found.degradations)
    else:
        at.complain(f"Error: {one_line(found.url)}: {one_line(found.error)}")
    if not found.ok:
        raise click.exceptions.Exit(FAILED)


def show_folder(at: CommandRun, report: FolderReport) -> None:
    """Print what became of a folder, and exit with 1 if something in it failed."""
    if at.json:
        at.document(folder_to_dict(report))
    else:
        names = ("added", "replaced", "unchanged", "empty")
        counts = {name: getattr(report, name) for name in names}
        counts |= {"skipped": len(report.skipped), "failed": len(report.failed)}
        said = [f"{count:,} {name}" for name, count in counts.items() if count]
        became = ", ".join(said) or "nothing to read"
        at.print(f"{many(report.files, 'file')}: {became} {chunks(report.chunks)}".rstrip())
        for passed in report.failed[:SHOWN]:
            at.complain(f"failed: {one_line(passed.path)}: {one_line(passed.reason)}")
        for reason, count in reasons(report.skipped).items():
            at.note(f"skipped, {one_line(reason)}: {count:,}")
        if at.on_terminal:
            for passed in report.skipped[:SHOWN]:
                at.note(f"skipped: {one_line(passed.path)}: {one_line(passed.reason)}")
        for name, left in (("failed", report.failed), ("skipped", report.skipped)):
            if len(left) > SHOWN and (at.on_terminal or name == "failed"):
                at.note(f"and {len(left) - SHOWN:,} more {name}; --json lists all")
        gone = len(report.vanished)
        are, them = ("is", "it") if gone == 1 else ("are", "them")
        if report.pruned:
            pruned = chunks(report.pruned).strip("()")
            at.print(f"Forgotten: {pruned} of {many(gone, 'file')} that {are} gone")
        elif gone:
            at.note(f"{many(gone, 'file')} {are} gone since; --prune forgets {them}.")
    if report.failed:
        raise click.exceptions.Exit(FAILED)


def chunks(count: int) -> str:
    return f"({many(count, 'chunk')})" if count else ""


def reasons(skipped: Sequence[PassedOver]) -> dict[str, int]:
    """How many were passed over for each reason, the commonest first."""
    return dict(Counter(passed.reason for passed in skipped).most_common())


def folder_to_dict(report: FolderReport) -> dict[str, Any]:
    """The report as JSON values, with its counts."""
    names = ("files", "added", "replaced", "unchanged", "empty", "chunks")
    counts = {name: getattr(report, name) for name in names}
    return {**counts, "skipped_by_reason": reasons(report.skipped), **asdict(report)}


# ----------------------------------------------------------------------------
# Search the web and the memory together.


FLUSH_SECONDS = 30.0


@words_argument("query", help="Several words need no quotes; - or nothing is stdin.")
@click.option("--fetch", is_flag=True, help="Read the first pages; memory keeps them.")
@click.option("--no-memory", is_flag=True, help="Search the web alone.")
@model_option
@click.option(
    "--max-results", metavar="N", type=int, default=8, show_default=True,
    help="At most so many of the web.",
)  # fmt: skip
@click.option("--searxng", metavar="URL", default="", help="Ask this SearXNG, not DuckDuckGo.")
def websearch(
    at: CommandRun,
    query: str | None,
    *,
    no_memory: bool,
    model: str | None,
    searxng: str,
    **options: Any,
) -> None:
    """Search the web and your memory for one answer with numbered sources.

    Exits with 5 when no source answers. Sources of the web are links where
    the terminal has them; a source of your memory opens with `agentmem get ID`.

    For example: agentmem websearch --fetch newest release of SQLite
    """
    import asyncio

    from agentmem.cli.chat import run_until_stopped
    from agentmem.sources.web.enhanced import enhanced_search
    from agentmem.sources.web.services import SearXNG

    asked = read_text(query, name="query")
    name = model_name(model)
    options |= {"web": SearXNG(searxng) if searxng else None, **at.whose}
    options["model"] = None if name == EXTRACTIVE else name
    with contextlib.ExitStack() as stack:
        memory = None if no_memory else stack.enter_context(at.memory())
        runner = stack.enter_context(asyncio.Runner())
        say = stack.enter_context(steps(at, "searching"))
        options["on_step"] = lambda step, text: say(text or step)
        found, stopped = run_until_stopped(
            runner, lambda stop: enhanced_search(asked, memory=memory, signal=stop, **options)
        )
        if memory is not None and found.fetched:
            memory.flush(FLUSH_SECONDS)
    show(at, found)
    if stopped:
        raise click.exceptions.Exit(INTERRUPTED)
    if not found.found:
        raise click.exceptions.Exit(NOTHING_FOUND)


def show(at: CommandRun, found: EnhancedSearchResult) -> None:
    """Print the answer, where memory and web disagree, and the sources."""
    if at.json:
        at.document(found.to_dict())
        return
    from agentmem.cli.chat import Flow, source_lines

    flow = Flow(at)
    flow.add(found.marked_answer)
    flow.end()
    if found.conflict_disclaimer:
        at.print("")
        for line in found.conflict_disclaimer.split("\n"):
            wrapped = at.pen.wrap(one_line(line), at.width) if at.on_terminal else [one_line(line)]
            at.print([at.pen.paint(part, "warn") for part in wrapped])
    if found.citations:
        at.print(["", *source_lines(at, found.citations)])
    at.note_problems(found.degradations)
