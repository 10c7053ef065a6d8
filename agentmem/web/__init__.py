"""Search the web and the memory together, and answer with numbered sources."""

from __future__ import annotations

from agentmem.web.callables import CallableSearch, as_web
from agentmem.web.chain import SearchChain, SearchReport, default_web
from agentmem.web.duckduckgo import DuckDuckGo
from agentmem.web.protocol import WebResult, WebSearch
from agentmem.web.searxng import SearXNG

__all__ = [
    "CallableSearch",
    "DuckDuckGo",
    "SearXNG",
    "SearchChain",
    "SearchReport",
    "WebResult",
    "WebSearch",
    "as_web",
    "default_web",
]
