"""Search the web and the memory together."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentmem.cli.chatting import EXTRACTIVE, ModelName, model_name
from agentmem.cli.common import (
    INTERRUPTED,
    NOTHING_FOUND,
    common_of,
    open_memory,
    read_text,
    screen_of,
)
from agentmem.cli.output import Screen, one_line

if TYPE_CHECKING:
    from agentmem.manager import MemoryManager
    from agentmem.web import EnhancedSearchResult

FLUSH_SECONDS = 30.0


def register(app: typer.Typer) -> None:
    """Add the command of this module."""
    app.command("websearch")(websearch)


def websearch(
    ctx: typer.Context,
    query: Annotated[
        list[str] | None,
        typer.Argument(metavar="TEXT", help="Several words need no quotes; - or nothing is stdin."),
    ] = None,
    *,
    fetch: Annotated[
        bool, typer.Option("--fetch", help="Read the first pages; memory keeps them.")
    ] = False,
    no_memory: Annotated[bool, typer.Option("--no-memory", help="Search the web alone.")] = False,
    model: ModelName = None,
    max_results: Annotated[
        int, typer.Option("--max-results", metavar="N", help="At most so many of the web.")
    ] = 8,
    searxng: Annotated[
        str, typer.Option("--searxng", metavar="URL", help="Ask this SearXNG, not DuckDuckGo.")
    ] = "",
) -> None:
    """Search the web and your memory for one answer with numbered sources.

    Exits with 5 when no source answers. Sources of the web are links where
    the terminal has them; a source of your memory opens with `agentmem get ID`.
    """
    from agentmem.cli.progress import steps
    from agentmem.cli.running import Stoppable
    from agentmem.web import SearXNG

    at = screen_of(ctx)
    asked = read_text(" ".join(query) if query else None, name="query")
    name = model_name(model)
    options: dict[str, Any] = {
        "web": SearXNG(searxng) if searxng else None,
        "model": None if name == EXTRACTIVE else name,
        "fetch": fetch,
        "max_results": max_results,
        **common_of(ctx).whose,
    }
    with contextlib.ExitStack() as stack:
        memory = None if no_memory else stack.enter_context(open_memory(ctx))
        runner = stack.enter_context(Stoppable())
        say = stack.enter_context(steps(at, "searching"))
        found, stopped = runner.run(
            lambda stop: search(
                asked, memory, stop, on_step=lambda step, text: say(text or step), **options
            )
        )
        if memory is not None and found.fetched:
            memory.flush(FLUSH_SECONDS)
    show(at, found)
    if stopped:
        raise typer.Exit(INTERRUPTED)
    if not found.found:
        raise typer.Exit(NOTHING_FOUND)


async def search(
    query: str, memory: MemoryManager | None, stop: asyncio.Event, **options: Any
) -> EnhancedSearchResult:
    from agentmem.web import enhanced_search

    return await enhanced_search(query, memory=memory, signal=stop, **options)


def show(at: Screen, found: EnhancedSearchResult) -> None:
    """Print the answer, where memory and web disagree, and the sources."""
    if at.json:
        at.document(found.to_dict())
        return
    from agentmem.cli.flowing import Flow
    from agentmem.cli.sources import source_lines

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
    for problem in dict.fromkeys(found.degradations):
        at.note(f"Note: {one_line(problem)}")
