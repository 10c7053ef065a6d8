"""Search the web and the memory together."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import click

from agentmem.cli.chatting import EXTRACTIVE, model_name
from agentmem.cli.common import (
    INTERRUPTED,
    NOTHING_FOUND,
    argument,
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


def register(app: click.Group) -> None:
    """Add the command of this module."""
    app.command("websearch")(websearch)


@argument(
    "query", nargs=-1, metavar="TEXT", help="Several words need no quotes; - or nothing is stdin."
)
@click.option("--fetch", is_flag=True, help="Read the first pages; memory keeps them.")
@click.option("--no-memory", is_flag=True, help="Search the web alone.")
@click.option(
    "--model",
    "-m",
    metavar="NAME",
    envvar="AGENTMEM_MODEL",
    show_envvar=True,
    help="A litellm model name; `extractive` (the default) quotes what memory has.",
)
@click.option(
    "--max-results",
    metavar="N",
    type=int,
    default=8,
    show_default=True,
    help="At most so many of the web.",
)
@click.option("--searxng", metavar="URL", default="", help="Ask this SearXNG, not DuckDuckGo.")
def websearch(
    ctx: click.Context,
    query: tuple[str, ...] = (),
    *,
    fetch: bool = False,
    no_memory: bool = False,
    model: str | None = None,
    max_results: int = 8,
    searxng: str = "",
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
        raise click.exceptions.Exit(INTERRUPTED)
    if not found.found:
        raise click.exceptions.Exit(NOTHING_FOUND)


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
