"""Search memory and web together and answer with numbered sources."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from agentmem.core.checks import require_choice, require_count, require_number, require_text
from agentmem.core.choosing import is_own_question
from agentmem.core.estimate import estimate_tokens
from agentmem.core.web_conflicts import SearchConflict, conflicts_between, write_disclaimer
from agentmem.core.web_merge import Finding, NumberedSource, focus, merge_findings
from agentmem.errors import AgentMemError, InvalidInput
from agentmem.manager.whose import Whose, read_scope
from agentmem.models import Model, as_model
from agentmem.results import SearchResults
from agentmem.threads import Stopped, awaited, in_thread, unless_stopped
from agentmem.types import Hit, Scope
from agentmem.web.chain import MOST_RESULTS, SearchChain, chain_of
from agentmem.web.pages import PageReader, read_pages
from agentmem.web.protocol import WebResult
from agentmem.web.result import EnhancedSearchResult, quoted
from agentmem.web.synthesis import EXTRACTIVE, Prompting, Synthesis, confirm, synthesize

if TYPE_CHECKING:
    from agentmem.async_manager import AsyncMemoryManager
    from agentmem.manager import MemoryManager

T = TypeVar("T")
ConflictCheck = Literal["rules", "model", "off"]
SearchStep = Literal["searching", "memory", "web", "reading", "answering", "done"]
OnStep = Callable[[SearchStep, str], Awaitable[None] | None]

DEFAULT_PAGES = 3
PAGE_CHARACTERS = 20_000
"""So much of a page is looked at for an answer, the passages that fit the question."""
MOST_SENTENCES = 4


async def enhanced_search(
    query: str,
    *,
    memory: MemoryManager | AsyncMemoryManager | None,
    web: object = None,
    model: str | Callable[..., Any] | None = None,
    scope: Whose = None,
    signal: Any = None,
    max_results: int = 8,
    top_k: int = 8,
    fetch: bool | int = False,
    reader: PageReader | None = None,
    conflicts: ConflictCheck = "rules",
    memory_timeout_seconds: float = 5.0,
    web_timeout_seconds: float = 20.0,
    page_timeout_seconds: float = 15.0,
    model_timeout_seconds: float = 60.0,
    limit_tokens: int = 6_000,
    most_sentences: int = MOST_SENTENCES,
    model_options: dict[str, Any] | None = None,
    on_step: OnStep | None = None,
    **whose: str | None,
) -> EnhancedSearchResult:
    """An answer to `query` from what the user knows and what the web says, with its sources.

    `web` is a web search, a function, the address of a SearXNG, the name of a
    `ddgs` engine, or several in a list; left out it is DuckDuckGo, `False` is
    none. `memory=None` searches the web alone. `fetch` reads the first pages
    (3, or as many as it says) and remembers them in the background. `model` is
    a litellm name or a chat-completions callable; without one the answer is
    made of the sources' own sentences. Either side, the pages and the model may
    fail: the others still answer, and `degradations` says what failed. A set
    `signal` ends the search at once with what there is.
    """
    require_text(query, "query")
    if not query.strip():
        raise InvalidInput("query", query, "is empty", remedy="Ask something.")
    require_choice(conflicts, ("rules", "model", "off"), "conflicts")
    for name, count in (("max_results", max_results), ("most_sentences", most_sentences)):
        require_count(count, name, least=1)
    require_count(top_k, "top_k")
    require_count(limit_tokens, "limit_tokens")
    for name, seconds in (
        ("memory_timeout_seconds", memory_timeout_seconds),
        ("web_timeout_seconds", web_timeout_seconds),
        ("page_timeout_seconds", page_timeout_seconds),
        ("model_timeout_seconds", model_timeout_seconds),
    ):
        require_number(seconds, name, low=0)
    pages = (DEFAULT_PAGES if fetch else 0) if isinstance(fetch, bool) else fetch
    require_count(pages, "fetch")
    chain = None if web is False else chain_of(web)
    search = _Search(
        query=query,
        memory=_manager(memory),
        scope=read_scope(scope, whose),
        signal=signal,
        on_step=on_step,
    )
    asked = None
    if model is not None and model != EXTRACTIVE:
        asked = as_model(model, options=model_options)
    try:
        await search.find(
            chain=chain,
            max_results=min(max_results, MOST_RESULTS),
            top_k=top_k,
            memory_seconds=memory_timeout_seconds,
            web_seconds=web_timeout_seconds,
        )
        if pages:
            await search.read(pages, reader, page_timeout_seconds)
        await search.answer(
            asked,
            check=conflicts,
            limit_tokens=limit_tokens,
            timeout_seconds=model_timeout_seconds,
            most_sentences=most_sentences,
        )
    except Stopped:
        search.stopped = True
        search.problems.append("stopped by its signal")
    return search.result()


def _manager(memory: MemoryManager | AsyncMemoryManager | None) -> MemoryManager | None:
    found: Any = memory
    return getattr(found, "manager", found)  # type: ignore[no-any-return]  # either kind


def enhanced_search_sync(
    query: str, *, memory: MemoryManager | AsyncMemoryManager | None, **options: Any
) -> EnhancedSearchResult:
    """`enhanced_search` for callers without an event loop, and on a thread for those with one."""
    from agentmem.web.running import run_anywhere

    return run_anywhere(lambda: enhanced_search(query, memory=memory, **options))


class _Search:
    """The state of one search: what each step found, and what went wrong."""

    def __init__(
        self,
        *,
        query: str,
        memory: MemoryManager | None,
        scope: Scope,
        signal: Any,
        on_step: OnStep | None,
    ) -> None:
        self.query = query
        self.memory = memory
        self.scope = scope
        self.signal = signal
        self.on_step = on_step
        self.hits: tuple[Hit, ...] = ()
        self.results: tuple[WebResult, ...] = ()
        self.sources: tuple[NumberedSource, ...] = ()
        self.conflicts: tuple[SearchConflict, ...] = ()
        self.synthesis: Synthesis | None = None
        self.fetched: tuple[str, ...] = ()
        self.problems: list[str] = []
        self.stopped = False

    # -- both sides at once ----------------------------------------------------------------

    async def find(
        self,
        *,
        chain: SearchChain | None,
        max_results: int,
        top_k: int,
        memory_seconds: float,
        web_seconds: float,
    ) -> None:
        """Search memory and web at the same time; memory's search is started first."""
        await self._say("searching", self.query)
        work: list[Awaitable[None]] = []
        if self.memory is not None and top_k:
            work.append(self._find_in_memory(self.memory, top_k, memory_seconds))
        if chain is not None:
            work.append(self._find_on_the_web(chain, max_results, web_seconds))
        try:
            await self._unless_stopped(asyncio.gather(*work))
        finally:
            self._merge()

    async def _find_in_memory(
        self, memory: MemoryManager, top_k: int, timeout_seconds: float
    ) -> None:
        names = {name: getattr(self.scope, name) for name in Scope.__slots__}

        def look() -> SearchResults:
            return memory.search(self.query, top_k=2 * top_k, **names)

        try:
            async with asyncio.timeout(timeout_seconds):
                found = await in_thread(look, name="agentmem-search")
        except TimeoutError:
            self.problems.append(f"memory: no answer within {timeout_seconds:g} seconds")
        except Exception as error:  # noqa: BLE001 - memory failing never breaks the answer (P30)
            self.problems.append(f"memory: {type(error).__name__}: {error}")
        else:
            telling = [hit for hit in found if not is_own_question(hit.memory)]
            self.hits = tuple(telling[:top_k])
            self.problems += [f"memory: {problem}" for problem in found.degradations]
        await self._say("memory", f"{len(self.hits)} found")

    async def _find_on_the_web(
        self, chain: SearchChain, count: int, timeout_seconds: float
    ) -> None:
        try:
            async with asyncio.timeout(timeout_seconds):
                report = await chain.find(self.query, max_results=count)
        except TimeoutError:
            self.problems.append(f"web: no answer within {timeout_seconds:g} seconds")
        except AgentMemError as error:
            self.problems.append(f"web: {error.message}")
        else:
            self.results = report.results
            self.problems += [f"web: {problem}" for problem in report.problems]
        await self._say("web", f"{len(self.results)} found")

    # -- pages -----------------------------------------------------------------------------

    async def read(self, most: int, reader: PageReader | None, timeout_seconds: float) -> None:
        """Read the first pages and remember them in the background."""
        if not self.results:
            return
        await self._say("reading", f"up to {most} pages")
        read = await self._unless_stopped(
            read_pages(self.results, most=most, reader=reader, timeout_seconds=timeout_seconds)
        )
        self.results = read.results
        self.problems += [f"pages: {problem}" for problem in read.problems]
        self.fetched = tuple(page.url for page in read.pages)
        self._merge()
        if self.memory is None:
            return
        names = {name: getattr(self.scope, name) for name in Scope.__slots__}
        for page in read.pages:
            try:
                kept = self.memory.index_page_async(page.text, page.url, page.title, **names)
                if not kept:
                    self.problems.append(f"pages: {page.url} is not remembered, the queue is full")
            except Exception as error:  # noqa: BLE001 - memory failing never breaks the answer
                self.problems.append(f"pages: {page.url} is not remembered: {error}")

    def _merge(self) -> None:
        self.sources = merge_findings(
            self.query, [from_hit(hit) for hit in self.hits], from_results(self.results, self.query)
        )

    # -- the answer ------------------------------------------------------------------------

    async def answer(
        self,
        model: Model | None,
        *,
        check: ConflictCheck,
        limit_tokens: int,
        timeout_seconds: float,
        most_sentences: int,
    ) -> None:
        """Look for disagreements, then answer."""
        await self._say("answering", f"from {len(self.sources)} sources")
        prompting = Prompting(
            secret=await self._secret(),
            count=estimate_tokens,
            limit_tokens=limit_tokens,
            today=self._now().date(),
            timeout_seconds=timeout_seconds,
        )
        if check != "off":
            self.conflicts = await self._unless_stopped(
                in_thread(lambda: conflicts_between(self.query, self.sources))
            )
        if check == "model" and model is not None and self.conflicts:
            self.conflicts, problem = await self._unless_stopped(
                confirm(self.conflicts, model=model, prompting=prompting)
            )
            self.problems += [problem] if problem else []
        self.synthesis = await self._unless_stopped(
            synthesize(
                self.query,
                self.sources,
                model=model,
                prompting=prompting,
                most_sentences=most_sentences,
            )
        )
        self.problems += self.synthesis.problems
        await self._say("done", self.synthesis.answered_by)

    async def _secret(self) -> bytes:
        memory = self.memory
        if memory is not None:
            try:
                return await in_thread(memory.store.settings.secret)
            except Exception as error:  # noqa: BLE001 - a boundary of this call alone does as well
                self.problems.append(f"memory: {type(error).__name__}: {error}")
        return secrets.token_bytes(32)

    def _now(self) -> datetime:
        return self.memory.clock.now() if self.memory is not None else datetime.now(UTC)

    def result(self) -> EnhancedSearchResult:
        """What was found until now."""
        made = self.synthesis
        citations = tuple(source.citation for source in self.sources)
        if made is not None:
            citations = quoted(citations, dict(made.quotes))
        cited = {citation.index for citation in (made.cited if made else ())}
        return EnhancedSearchResult(
            query=self.query,
            answer=made.answer if made else "",
            found=made.found if made else False,
            web_results=self.results,
            memory_results=self.hits,
            citations=citations,
            cited=tuple(citation for citation in citations if citation.index in cited),
            conflicts=self.conflicts,
            conflict_disclaimer=write_disclaimer(self.conflicts),
            uncited_sentences=made.uncited_sentences if made else (),
            removed_numbers=made.removed_numbers if made else (),
            removed_links=made.removed_links if made else (),
            fetched=self.fetched,
            degradations=tuple(dict.fromkeys(self.problems)),
            answered_by=made.answered_by if made else "",
            stopped=self.stopped,
        )

    async def _unless_stopped(self, work: Awaitable[T]) -> T:
        return await unless_stopped(work, self.signal)

    async def _say(self, step: SearchStep, text: str) -> None:
        if self.on_step is not None:
            await awaited(self.on_step(step, text))


def from_hit(hit: Hit) -> Finding:
    """A memory that was found, as a finding."""
    memory = hit.memory
    section = " › ".join(memory.heading_path)
    return Finding(
        side="memory",
        text=memory.text,
        url=memory.source_url,
        title=memory.title or memory.speaker or section or memory.kind,
        date=(memory.valid_from or memory.created_at).astimezone(UTC).date(),
        memory_id=memory.id,
        score=hit.score,
        origin=memory.origin,
    )


def from_results(results: Sequence[WebResult], question: str) -> list[Finding]:
    """Web results as findings, long pages by their fitting passages; the first is the best."""
    return [
        Finding(
            side="web",
            text=focus(question, result.text, limit_characters=PAGE_CHARACTERS),
            url=result.url,
            title=result.title,
            date=result.date,
            score=1.0 / place,
            origin="web",
        )
        for place, result in enumerate(results, start=1)
    ]
