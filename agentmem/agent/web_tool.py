"""The enhanced search as a tool for a loop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from agentmem.agent.tools import Tool, own_tool
from agentmem.base.types import scope_of_turn, sources_of_turn
from agentmem.prompt.cite import Citation, find_citation, renumber
from agentmem.sources.web.enhanced import EnhancedSearchResult, enhanced_search, lines_for_model
from agentmem.sources.web.services import chain_of

if TYPE_CHECKING:
    from agentmem.base.types import ScopeLike
    from agentmem.sources.indexer import Paged


TOOL_NAME = "search_web_for_info"


def _among_others(result: EnhancedSearchResult) -> EnhancedSearchResult:
    """`result` with numbers that nothing else of this turn has; one page has one number."""
    sources: list[Citation] | None = sources_of_turn()
    if sources is None:
        return result
    numbers: dict[int, int] = {}
    renumbered = []
    for citation in result.citations:
        same = find_citation(sources, citation)
        # What the block shows of a page is not what the web says of it.
        if same is None or (same.source == "memory" != citation.source):
            same = replace(citation, index=max((one.index for one in sources), default=0) + 1)
            sources.append(same)
        numbers[citation.index] = same.index
        renumbered.append(replace(citation, index=same.index))
    return replace(
        result,
        answer=renumber(result.answer, numbers),
        conflict_disclaimer=renumber(result.conflict_disclaimer, numbers),
        citations=tuple(renumbered),
    )


def search_web_tool(
    web: object = None,
    memory: Paged | None = None,
    *,
    scope: ScopeLike | None = None,
    model: str | Callable[..., Any] | None = None,
    name: str = TOOL_NAME,
    **options: Any,
) -> Tool:
    """A tool `search_web_for_info` for `run_agent_loop(tools=[…])` and other loops.

    `web` is as for `enhanced_search`; `options` are passed on to it. Without a
    `scope` it is the memory of whoever `run_agent_loop` runs for. The loop keeps
    the result as working memory; its sources have numbers of their own beside
    those of the reference.
    """
    chain = chain_of(web)

    async def search_web_for_info(
        query: str, max_results: int = 8, read_pages: bool = False
    ) -> str:
        result = await enhanced_search(
            query,
            memory=memory,
            web=chain,
            model=model,
            scope=scope_of_turn() if scope is None else scope,
            **{"fetch": read_pages, **options, "max_results": max_results},
        )
        return "\n".join(lines_for_model(_among_others(result)))

    tool = own_tool(TOOL_NAME, search_web_for_info, read_only=True)
    return tool if name == TOOL_NAME else replace(tool, name=name)
