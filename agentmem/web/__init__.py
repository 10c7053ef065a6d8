"""Search the web and the memory together, and answer with numbered sources."""

from __future__ import annotations

from agentmem.web.callables import CallableSearch, as_web
from agentmem.web.chain import SearchChain, SearchReport, default_web
from agentmem.web.duckduckgo import DuckDuckGo
from agentmem.web.enhanced import enhanced_search, enhanced_search_sync
from agentmem.web.pages import ReadPage, read_safely
from agentmem.web.protocol import WebResult, WebSearch
from agentmem.web.result import EnhancedSearchResult
from agentmem.web.searxng import SearXNG
from agentmem.web.tool import search_web_tool
from agentmem.web.wrapping import wrap_search

__all__ = [
    "CallableSearch",
    "DuckDuckGo",
    "EnhancedSearchResult",
    "ReadPage",
    "SearXNG",
    "SearchChain",
    "SearchReport",
    "WebResult",
    "WebSearch",
    "as_web",
    "default_web",
    "enhanced_search",
    "enhanced_search_sync",
    "read_safely",
    "search_web_tool",
    "wrap_search",
]
