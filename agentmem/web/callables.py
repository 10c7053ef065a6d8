"""Any function as a web search, and whatever a caller names as one."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from agentmem.errors import InvalidInput
from agentmem.models import parameters_of
from agentmem.threads import awaited, in_thread, is_async
from agentmem.web.protocol import WebResult, WebSearch
from agentmem.web.reading import read_results

COUNT_NAMES = (
    "max_results",
    "num_results",
    "n_results",
    "count",
    "limit",
    "k",
    "top_k",
    "n",
    "num",
)


class CallableSearch:
    """A function as a web search: sync or async, called with the query.

    The number of results is passed too when the function has a parameter for
    it under a usual name (`max_results`, `num_results`, `count`, `limit`, …).
    It gives a list of dicts with the usual keys (title; href, url or link;
    body, snippet or content), or something that holds one. A sync function
    runs on a thread.
    """

    def __init__(
        self, call: Callable[..., Any], *, name: str = "", allow_private: bool = False
    ) -> None:
        if not callable(call):
            raise InvalidInput("call", call, "cannot be called", remedy="Pass a function.")
        self.name = name or str(getattr(call, "__name__", "") or type(call).__name__)
        self._call = call
        self.allow_private = allow_private
        takes = parameters_of(call)
        self._count_name = next((n for n in COUNT_NAMES if takes is not None and n in takes), "")

    async def search(self, query: str, *, max_results: int = 8) -> Sequence[WebResult]:
        """What the function gives, cleaned."""
        options = {self._count_name: max_results} if self._count_name else {}
        if is_async(self._call):
            raw = await awaited(self._call(query, **options))
        else:
            raw = await awaited(await in_thread(lambda: self._call(query, **options)))
        if hasattr(raw, "__aiter__"):
            raw = [row async for row in raw]
        elif inspect.isgenerator(raw):
            raw = await in_thread(lambda: list(raw))
        return read_results(
            raw, max_results=max_results, service=self.name, allow_private=self.allow_private
        )


def as_web(web: object) -> WebSearch:
    """A web search from one, from a function, from the address of a SearXNG, or from a list.

    `"duckduckgo"` and the names of other `ddgs` engines are understood too; a
    list is a chain that tries them in turn.
    """
    from agentmem.web.chain import SearchChain
    from agentmem.web.duckduckgo import DuckDuckGo
    from agentmem.web.searxng import SearXNG

    if isinstance(web, str):
        return SearXNG(web) if web.startswith(("http://", "https://")) else DuckDuckGo(web)
    if isinstance(web, list | tuple):
        return SearchChain(web)
    if isinstance(web, WebSearch):
        return web
    if callable(web):
        return CallableSearch(web)
    raise InvalidInput(
        "web",
        web,
        "is no web search",
        remedy="Pass DuckDuckGo(), SearXNG(url), a function, or a list of them.",
    )
