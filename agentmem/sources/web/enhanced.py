"""Search memory and web together and answer with numbered sources."""

from __future__ import annotations

import asyncio
import functools
import inspect
import secrets
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Unpack, cast

from agentmem.base.checks import require_choice, require_count, require_number, require_text
from agentmem.base.config import EXTRACTIVE
from agentmem.base.errors import AgentMemError, FetchFailed, FetchRefused, InvalidInput
from agentmem.base.threads import (
    Stopped,
    awaited,
    in_thread,
    is_async,
    run_anywhere,
    unless_stopped,
)
from agentmem.base.types import Hit, Scope, ScopeLike, Whose
from agentmem.models.call import Model, as_model
from agentmem.prompt.cite import Citation, CitationStyle, citation_to_dict, format_citations
from agentmem.search.intake import read_scope
from agentmem.search.parts import memory_of
from agentmem.sources.web.answer import (
    Answer,
    Finding,
    NumberedSource,
    Prompting,
    SearchConflict,
    answer_from,
    confirm,
    conflicts_between,
    focus,
    mark_uncited,
    merge_findings,
    write_disclaimer,
)
from agentmem.sources.web.search import WebResult, linkable, read_day
from agentmem.sources.web.services import MOST_RESULTS, CallableSearch, SearchChain, chain_of
from agentmem.text.clean import clean_line, show_quote
from agentmem.text.decode import sound

if TYPE_CHECKING:
    from agentmem.search.parts import Facade
    from agentmem.sources.fetch import FetchLimits
    from agentmem.sources.indexer import Paged


# ----------------------------------------------------------------------------
# Read the pages behind the best results, within limits, and remember them.


MOST_CHARACTERS = 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadPage:
    """A page that was read: where it was found in the end, its readable text, its date."""

    url: str
    text: str
    title: str = ""
    published: date | None = None


PageReader = Callable[[str], Awaitable[ReadPage] | ReadPage]
"""Reads one address, sync or async; it decides what may be fetched."""


def _filled(result: WebResult, page: ReadPage | str | None) -> WebResult:
    """A result with what was read of its page; one that was not read keeps its snippet."""
    if not isinstance(page, ReadPage):
        return result
    return replace(
        result,
        url=linkable(page.url, allow_private=True) or result.url,
        content=page.text,
        title=result.title or clean_line(sound(page.title), limit_characters=300),
        date=result.date or page.published,
    )


async def _read(reader: PageReader, url: str, timeout_seconds: float) -> ReadPage | str:
    try:
        async with asyncio.timeout(timeout_seconds):
            if is_async(reader):
                page = await awaited(reader(url))
            else:
                page = await awaited(await in_thread(lambda: reader(url), name="agentmem-fetch"))
    except TimeoutError:
        return f"no answer within {timeout_seconds:g} seconds"
    except Exception as error:  # noqa: BLE001 - whatever a page does, the search goes on
        if isinstance(error, FetchFailed | FetchRefused):
            return error.problem  # the address is named by whoever tells it
        return str(getattr(error, "message", "") or f"{type(error).__name__}: {error}")
    text = sound(page.text)[:MOST_CHARACTERS].strip()
    return replace(page, text=text) if text else "it has no readable text"


def read_safely(
    url: str, *, robots: bool = True, allow_private: bool = False, limits: FetchLimits | None = None
) -> ReadPage:
    """The readable text of a page: HTML, PDF or plain.

    Fetched within size and time limits, with the site's robots.txt asked
    first, and never from a private network unless that is allowed.
    """
    from agentmem.sources.fetch import fetch
    from agentmem.sources.files import fetched_document

    found = fetch(url, robots=robots, allow_private=allow_private, limits=limits)
    document = fetched_document(found)
    return ReadPage(
        url=found.url,
        text=document.text,
        title=document.title,
        published=read_day(document.metadata.get("published")),
    )


# ----------------------------------------------------------------------------
# What an enhanced search gives back, and how it is printed.


@dataclass(frozen=True, slots=True, kw_only=True)
class EnhancedSearchResult(Answer):
    """An answer whose numbers all lead somewhere, and everything it was made from.

    `citations` are all sources by number, `cited` those the answer uses.
    `found` is False when no source answers; `answer` then says so.
    `degradations` names what did not work. `answered_by` is empty when a signal
    stopped the search.
    """

    query: str
    web_results: tuple[WebResult, ...] = ()
    memory_results: tuple[Hit, ...] = ()
    citations: tuple[Citation, ...] = ()
    conflicts: tuple[SearchConflict, ...] = ()
    conflict_disclaimer: str = ""
    fetched: tuple[str, ...] = ()
    degradations: tuple[str, ...] = ()
    stopped: bool = False

    @property
    def marked_answer(self) -> str:
        """The answer with `[uncited]` behind every sentence without a number."""
        return mark_uncited(self.answer, self.uncited_sentences)

    def format(self, style: CitationStyle = "text", *, only_cited: bool = False) -> str:
        """Answer, disclaimer and numbered sources as text or Markdown; `json` for programs."""
        if style == "json":
            import json

            return json.dumps(self.to_dict(), ensure_ascii=False)
        citations = self.cited if only_cited else self.citations
        by_number = sorted(citations, key=lambda citation: citation.index)
        parts = (self.answer, self.conflict_disclaimer, format_citations(by_number, style))
        return "\n\n".join(part for part in parts if part)

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON values."""
        cited = {citation.index for citation in self.cited}
        plain = ("query", "answer", "found", "answered_by", "conflict_disclaimer", "stopped")
        listed = (
            "uncited_sentences", "removed_numbers", "removed_links", "fetched", "degradations",
        )  # fmt: skip
        return {
            **{name: getattr(self, name) for name in plain},
            **{name: list(getattr(self, name)) for name in listed},
            "citations": [
                {**citation_to_dict(one), "cited": one.index in cited} for one in self.citations
            ],
            "conflicts": [conflict.to_dict() for conflict in self.conflicts],
            "web_results": [result.to_dict() for result in self.web_results],
            "memory_results": [
                {
                    "id": hit.memory.id,
                    "text": hit.memory.text,
                    "title": hit.memory.title,
                    "url": hit.memory.source_url,
                    "kind": hit.memory.kind,
                    "score": round(hit.score, 4),
                    "date": hit.memory.created_at.date().isoformat(),
                }
                for hit in self.memory_results
            ],
        }


def lines_for_model(result: EnhancedSearchResult) -> Iterator[str]:
    """The result as a tool gives it to a model: answer, disagreement, numbered sources."""
    yield result.answer
    if result.conflict_disclaimer:
        yield result.conflict_disclaimer
    for citation in result.citations:
        day = f", {citation.date.isoformat()[:10]}" if citation.date else ""
        title = show_quote(citation.title) or "untitled"
        yield (
            f"[{citation.index}] {citation.label}{day}: {title} {citation.url}".rstrip()
            + f"\n    {show_quote(citation.quote)}"
        )
    for problem in result.degradations:
        yield f"(not everything worked: {show_quote(problem)})"


T = TypeVar("T")
ConflictCheck = Literal["rules", "model", "off"]
SearchStep = Literal["searching", "memory", "web", "reading", "answering", "done"]
OnStep = Callable[[SearchStep, str], Awaitable[None] | None]

DEFAULT_PAGES = 3
PAGE_CHARACTERS = 20_000
"""So much of a page is looked at for an answer, the passages that fit the question."""
MOST_SENTENCES = 4


class SearchOptions(Whose, total=False):
    """What `enhanced_search` may be told, for the calls that pass it on."""

    model: str | Callable[..., Any] | None
    scope: ScopeLike | None
    signal: Any
    max_results: int
    top_k: int
    fetch: bool | int
    reader: PageReader | None
    conflicts: ConflictCheck
    memory_timeout_seconds: float
    web_timeout_seconds: float
    page_timeout_seconds: float
    model_timeout_seconds: float
    limit_tokens: int
    most_sentences: int
    model_options: dict[str, Any] | None
    on_step: OnStep | None


async def enhanced_search(
    query: str,
    *,
    memory: Paged | Facade[Paged] | None,
    web: object = None,
    model: str | Callable[..., Any] | None = None,
    scope: ScopeLike | None = None,
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
    **whose: Unpack[Whose],
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
        ("memory", memory_timeout_seconds), ("web", web_timeout_seconds),
        ("page", page_timeout_seconds), ("model", model_timeout_seconds),
    ):  # fmt: skip
        require_number(seconds, f"{name}_timeout_seconds", low=0)
    pages = (DEFAULT_PAGES if fetch else 0) if isinstance(fetch, bool) else fetch
    require_count(pages, "fetch")
    search = _Search(query, memory_of(memory, or_none=True), signal, on_step)
    asked = None
    if model is not None and model != EXTRACTIVE:
        asked = as_model(model, options=model_options)
    chain = None if web is False else chain_of(web)
    owner = read_scope(scope, whose)
    try:
        try:
            await search.say("searching", query)
            await search.step(
                asyncio.gather(
                    search.ask_memory(top_k, owner, memory_timeout_seconds),
                    search.ask_web(chain, min(max_results, MOST_RESULTS), web_timeout_seconds),
                )
            )
            if pages and search.results:
                await search.read(pages, reader or read_safely, page_timeout_seconds, owner)
        finally:
            search.merge()
        await search.answer(
            asked,
            conflicts,
            most_sentences,
            limit_tokens=limit_tokens,
            seconds=model_timeout_seconds,
        )
    except Stopped:
        search.stopped = True
        search.problems.append("stopped by its signal")
    return search.result()


def enhanced_search_sync(
    query: str,
    *,
    memory: Paged | Facade[Paged] | None,
    web: object = None,
    **options: Unpack[SearchOptions],
) -> EnhancedSearchResult:
    """`enhanced_search` for callers without an event loop, and on a thread for those with one."""
    return run_anywhere(lambda: enhanced_search(query, memory=memory, web=web, **options))


@dataclass(slots=True)
class _Search:
    """What each step of one search found, and what went wrong."""

    query: str
    memory: Paged | None
    signal: Any
    on_step: OnStep | None
    hits: tuple[Hit, ...] = ()
    results: tuple[WebResult, ...] = ()
    sources: tuple[NumberedSource, ...] = ()
    conflicts: tuple[SearchConflict, ...] = ()
    made: Answer = field(default_factory=Answer)
    fetched: tuple[str, ...] = ()
    problems: list[str] = field(default_factory=list)
    stopped: bool = False

    async def say(self, step: SearchStep, text: str) -> None:
        if self.on_step is not None:
            await awaited(self.on_step(step, text))

    async def step(self, work: Awaitable[T]) -> T:
        return await unless_stopped(work, self.signal)

    async def _within(self, side: str, seconds: float, work: Awaitable[T]) -> T | None:
        """What one side finds in its time; that it fails is told and breaks nothing (P30)."""
        try:
            async with asyncio.timeout(seconds):
                return await work
        except TimeoutError:
            problem = f"no answer within {seconds:g} seconds"
        except Exception as error:  # noqa: BLE001 - the other side still answers
            problem = f"{type(error).__name__}: {error}"
            if side == "web" and isinstance(error, AgentMemError):
                problem = error.message
        self.problems.append(f"{side}: {problem}")
        return None

    async def ask_memory(self, top_k: int, owner: Scope, seconds: float) -> None:
        memory = self.memory
        if memory is None or not top_k:
            return
        looking = in_thread(
            lambda: memory.search(self.query, top_k=top_k, **owner.whose), name="agentmem-search"
        )
        found = await self._within("memory", seconds, looking)
        if found is not None:
            self.hits = tuple(found[:top_k])
            self.problems += [f"memory: {problem}" for problem in found.degradations]
        await self.say("memory", f"{len(self.hits)} found")

    async def ask_web(self, chain: SearchChain | None, most: int, seconds: float) -> None:
        if chain is None:
            return
        report = await self._within("web", seconds, chain.find(self.query, max_results=most))
        if report is not None:
            self.results = report.results
            self.problems += [f"web: {problem}" for problem in report.problems]
        await self.say("web", f"{len(self.results)} found")

    async def read(self, most: int, reader: PageReader, seconds: float, owner: Scope) -> None:
        """Read the first pages and remember them in the background."""
        await self.say("reading", f"up to {most} pages")
        urls = [result.url for result in self.results if result.url][:most]
        outcomes = await self.step(asyncio.gather(*(_read(reader, url, seconds) for url in urls)))
        read = dict(zip(urls, outcomes, strict=True))
        self.results = tuple(_filled(result, read.get(result.url)) for result in self.results)
        for url, page in read.items():
            if isinstance(page, str):
                self.problems.append(f"pages: {url} was not read: {page}")
                continue
            self.fetched += (page.url,)
            try:
                if self.memory is not None and not self.memory.sources.enqueue_page(
                    page.text, page.url, page.title, **owner.whose
                ):
                    self.problems.append(f"pages: {page.url} is not remembered, the queue is full")
            except Exception as error:  # noqa: BLE001 - memory failing never breaks the answer
                self.problems.append(f"pages: {page.url} is not remembered: {error}")

    def merge(self) -> None:
        """Number what both sides found, long pages by their fitting passages."""
        on_the_web = (
            Finding(
                source="web",
                text=focus(self.query, result.text, limit_characters=PAGE_CHARACTERS),
                url=result.url,
                title=result.title,
                date=result.date,
                score=1.0 / place,
            )
            for place, result in enumerate(self.results, start=1)
        )
        self.sources = merge_findings(self.query, [*map(_remembered, self.hits), *on_the_web])

    async def answer(
        self,
        model: Model | None,
        check: ConflictCheck,
        most_sentences: int,
        *,
        limit_tokens: int,
        seconds: float,
    ) -> None:
        """Look for disagreements, then answer."""
        await self.say("answering", f"from {len(self.sources)} sources")
        now = datetime.now(UTC) if self.memory is None else self.memory.clock.now()
        prompting = Prompting(
            secret=await self._secret(),
            limit_tokens=limit_tokens,
            today=now.date(),
            timeout_seconds=seconds,
        )
        if check != "off":
            self.conflicts = await self.step(
                in_thread(lambda: conflicts_between(self.query, self.sources))
            )
        if check == "model" and model is not None and self.conflicts:
            self.conflicts, problem = await self.step(
                confirm(self.conflicts, model=model, prompting=prompting)
            )
            self.problems += [problem] if problem else []
        self.made, problem = await self.step(
            answer_from(
                self.query,
                self.sources,
                model=model,
                prompting=prompting,
                most_sentences=most_sentences,
            )
        )
        self.problems += [problem] if problem else []
        await self.say("done", self.made.answered_by)

    async def _secret(self) -> bytes:
        memory = self.memory
        if memory is not None:
            try:
                return await in_thread(memory.store.settings.secret)
            except Exception as error:  # noqa: BLE001 - a boundary of this call alone does as well
                self.problems.append(f"memory: {type(error).__name__}: {error}")
        return secrets.token_bytes(32)

    def result(self) -> EnhancedSearchResult:
        """What was found until now."""
        answer = {name: getattr(self.made, name) for name in Answer.__slots__}
        cited = {citation.index: citation for citation in self.made.cited}
        citations = [cited.get(one.index, one.citation) for one in self.sources]
        answer["cited"] = tuple(one for one in citations if one.index in cited)
        return EnhancedSearchResult(
            **answer,
            query=self.query,
            web_results=self.results,
            memory_results=self.hits,
            citations=tuple(citations),
            conflicts=self.conflicts,
            conflict_disclaimer=write_disclaimer(self.conflicts),
            fetched=self.fetched,
            degradations=tuple(dict.fromkeys(self.problems)),
            stopped=self.stopped,
        )


def _remembered(hit: Hit) -> Finding:
    """A memory that was found, as a finding."""
    memory = hit.memory
    return Finding(
        source="memory",
        text=memory.text,
        url=memory.source_url,
        title=memory.title or memory.speaker or " › ".join(memory.heading_path) or memory.kind,
        date=(memory.valid_from or memory.created_at).astimezone(UTC).date(),
        memory_id=memory.id,
        score=hit.score,
        origin=memory.origin,
    )


# ----------------------------------------------------------------------------
# Any search function, with memory beside what it finds.


F = TypeVar("F", bound=Callable[..., Any])

QUERY_NAMES = ("query", "q", "keywords", "text", "search_query", "question")


class Enhanced:
    """What memory adds beside a search's own results."""

    enhanced: EnhancedSearchResult | None = None
    memory_results: tuple[Hit, ...] = ()
    answer: str = ""
    citations: tuple[Citation, ...] = ()
    conflict_disclaimer: str = ""
    degradations: tuple[str, ...] = ()


_ADDED = ("memory_results", "answer", "citations", "conflict_disclaimer", "degradations")


class EnhancedList(list[Any], Enhanced):
    """The search's own results, unchanged, with what memory adds beside them."""


class EnhancedDict(dict[str, Any], Enhanced):
    """The search's own answer, unchanged, with what memory adds beside it."""


class EnhancedText(str, Enhanced):
    """The search's own text, unchanged, with what memory adds beside it."""


def wrap_search(
    memory: Paged, fn: F, *, allow_private: bool = False, **options: Unpack[SearchOptions]
) -> F:
    """`fn` with memory: the same parameters, sync or async, and the same results.

    What it returns is a list (a dict, a text) equal to what `fn` returned that also
    has `.memory_results`, `.answer`, `.citations`, `.conflict_disclaimer`,
    `.degradations` and all of it as `.enhanced`. What `fn` raises is raised.
    Memory failing changes nothing about the results. A call may say
    `memory_scope=`; `options` are those of `enhanced_search`. Addresses in a
    private network are shown in citations only with `allow_private`.
    """
    if not callable(fn):
        raise InvalidInput("fn", fn, "cannot be called", remedy="Pass a search function.")
    settings: dict[str, Any] = {**options}
    own_scope = settings.pop("scope", None)
    name = str(getattr(fn, "__name__", "") or type(fn).__name__)

    async def beside(found: Any, query: str, scope: Any) -> Any:
        kept = _as_enhanced(found)
        if kept is None:
            return found
        rows = [str(kept)] if isinstance(kept, str) else kept
        web = CallableSearch(lambda _: rows, name=name, allow_private=allow_private)
        chain = SearchChain([web], attempts=1)
        with suppress(InvalidInput):  # an empty query: the function may mean something by it
            added = await enhanced_search(
                query, memory=memory, web=chain, scope=scope or own_scope, **settings
            )
            kept.enhanced = added
            for part in _ADDED:
                setattr(kept, part, getattr(added, part))
        return kept

    @functools.wraps(fn)
    async def awaiting(*args: Any, memory_scope: Any = None, **kwargs: Any) -> Any:
        found = await awaited(fn(*args, **kwargs))
        return await beside(found, _query_of(fn, args, kwargs), memory_scope)

    @functools.wraps(fn)
    def calling(*args: Any, memory_scope: Any = None, **kwargs: Any) -> Any:
        found = fn(*args, **kwargs)
        return run_anywhere(lambda: beside(found, _query_of(fn, args, kwargs), memory_scope))

    return cast("F", awaiting if is_async(fn) else calling)


def _as_enhanced(found: Any) -> EnhancedList | EnhancedDict | EnhancedText | None:
    """`found` as something that can carry more; `None` when it is no list, dict or text."""
    if isinstance(found, Mapping):
        return EnhancedDict(found)
    if isinstance(found, str):
        return EnhancedText(found)
    if isinstance(found, Iterable) and not isinstance(found, bytes):
        return EnhancedList(found)
    return EnhancedList() if found is None else None


def _query_of(fn: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    try:
        bound = inspect.signature(fn).bind_partial(*args, **kwargs).arguments
    except (TypeError, ValueError):
        bound = {}
    kwargs = {**bound, **kwargs}
    named = [kwargs[name] for name in QUERY_NAMES if isinstance(kwargs.get(name), str)]
    texts = [value for value in args if isinstance(value, str)]
    return next(iter((*named, *texts)), "")
