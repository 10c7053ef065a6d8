"""The web searches there are: functions, DuckDuckGo, SearXNG, and several of them as one."""

from __future__ import annotations

import asyncio
import inspect
import json
import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Literal
from urllib.parse import urljoin, urlsplit

from agentmem.base.checks import (
    require_choice,
    require_count,
    require_items,
    require_number,
    require_text,
)
from agentmem.base.errors import (
    InvalidInput,
    MissingExtra,
    RateLimited,
    SearchFailed,
    WebSearchError,
)
from agentmem.base.guards import Breaker, BreakerSettings, TtlCache
from agentmem.base.protocols import Clock
from agentmem.base.threads import (
    LONGEST_WAIT_SECONDS,
    awaited,
    in_thread,
    is_async,
    retry_after_seconds,
)
from agentmem.base.time import SystemClock
from agentmem.models.call import parameters_of
from agentmem.sources.web.search import WebResult, WebSearch, read_results
from agentmem.text.clean import clean_line

# ----------------------------------------------------------------------------
# Any function as a web search.


COUNT_NAMES = (
    "max_results", "num_results", "n_results", "count", "limit", "k", "top_k", "n", "num",
)  # fmt: skip


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


# ----------------------------------------------------------------------------
# DuckDuckGo and the other engines that `ddgs` knows, without a key.


SafeSearch = Literal["on", "moderate", "off"]

# DuckDuckGo answers 202 with a page that asks whether one is a robot; 403 is the others' way.
_TOO_OFTEN = frozenset({202, 403, 418, 429, 503})


class DuckDuckGo:
    """Searches through `ddgs`, by default with DuckDuckGo alone.

    `engine` is one engine or several with commas ("duckduckgo, brave");
    `proxy` an http or socks5 address.
    """

    def __init__(
        self,
        engine: str = "duckduckgo",
        *,
        region: str = "us-en",
        safesearch: SafeSearch = "moderate",
        timelimit: Literal["d", "w", "m", "y"] | None = None,
        proxy: str | None = None,
        timeout_seconds: float = 8.0,
    ) -> None:
        require_choice(safesearch, ("on", "moderate", "off"), "safesearch")
        require_number(timeout_seconds, "timeout_seconds", low=0.1)
        names = [name.strip() for name in engine.split(",") if name.strip()]
        if not names:
            raise InvalidInput("engine", engine, "names no engine", remedy='Use "duckduckgo".')
        self.name = ", ".join(names)
        self._names = names
        self._options = {"region": region, "safesearch": safesearch, "timelimit": timelimit}
        self._proxy = proxy
        self._timeout_seconds = timeout_seconds

    async def search(self, query: str, *, max_results: int = 8) -> Sequence[WebResult]:
        """What the engine finds; nothing found is empty, not an error."""
        raw = await in_thread(lambda: self._ask(query, max_results), name="agentmem-web")
        return read_results(raw, max_results=max_results, service=self.name)

    def _ask(self, query: str, max_results: int) -> list[dict[str, Any]]:
        ddgs, exceptions, engines = _import()
        if unknown := [name for name in self._names if name not in engines]:
            remedy = f"Use one of: {', '.join(sorted(engines))}."
            raise InvalidInput("engine", unknown[0], "is no engine of ddgs", remedy=remedy)
        refusals: list[tuple[int, float | None]] = []
        # The timeout is for the connection as well; whole seconds, since older clients cut it.
        client = ddgs(proxy=self._proxy, timeout=max(1, round(self._timeout_seconds)))
        _watch(client, ",".join(self._names), refusals)
        try:
            found = client.text(
                query, max_results=max_results, backend=",".join(self._names), **self._options
            )
        except exceptions.RatelimitException as error:
            raise RateLimited(self.name) from error
        except exceptions.TimeoutException as error:
            raise SearchFailed(f"{self.name} did not answer in time.") from error
        except exceptions.DDGSException as error:
            limits = [wait for status, wait in refusals if status in _TOO_OFTEN]
            if limits:
                raise RateLimited(self.name, retry_after_seconds=limits[-1]) from error
            if refusals:
                raise SearchFailed(f"{self.name} answered with {refusals[-1][0]}.") from error
            if "no results" in str(error).lower():
                return []
            raise SearchFailed(f"{self.name} failed: {error}") from error
        except Exception as error:  # parsers meet whatever a page holds
            raise SearchFailed(f"{self.name} failed: {type(error).__name__}: {error}") from error
        return list(found or [])


def _watch(client: Any, backend: str, refusals: list[tuple[int, float | None]]) -> None:
    """Keep the refusals of the client's engines: ddgs itself takes a 429 for "no results"."""
    find = getattr(client, "_get_engines", None)
    if find is None:
        return
    for engine in find("text", backend):
        http = getattr(engine, "http_client", None)
        if http is None:
            continue

        def request(*args: Any, http: Any = http, **kwargs: Any) -> Any:
            response = http.request(*args, **kwargs)
            if response.status_code == 200:
                return response.text
            headers = getattr(getattr(response, "_resp", None), "headers", None) or {}
            wait = retry_after_seconds(headers.get("retry-after"))
            refusals.append((response.status_code, wait))
            return None

        engine.request = request


def _import() -> tuple[Any, Any, Any]:
    try:
        from ddgs import DDGS, exceptions
        from ddgs.engines import ENGINES
    except ImportError as error:
        raise MissingExtra("ddgs", extra="web", purpose="Searching DuckDuckGo") from error
    return DDGS, exceptions, ENGINES["text"]


# ----------------------------------------------------------------------------
# A SearXNG instance by its address.


MOST_BYTES = 4_000_000
MOST_REDIRECTS = 3


class SearXNG:
    """Searches a SearXNG instance, which has to allow the `json` format (`search.formats`).

    `options` are further parameters of its API (`language`, `categories`,
    `engines`, `time_range`). Redirects are followed within its own host only.
    With `allow_private` results of your own network keep their links.
    """

    def __init__(
        self,
        url: str,
        *,
        options: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_seconds: float = 8.0,
        most_bytes: int = MOST_BYTES,
        allow_private: bool = False,
    ) -> None:
        require_text(url, "url")
        require_number(timeout_seconds, "timeout_seconds", low=0.1)
        require_count(most_bytes, "most_bytes", least=1)
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InvalidInput(
                "url", url, "is no web address", remedy="Use https://your-searxng.example."
            )
        base = url.split("?", 1)[0].rstrip("/")
        self.url = base if base.endswith("/search") else f"{base}/search"
        self.name = f"SearXNG at {parts.hostname}"
        self._options = dict(options or {})
        self._headers = {"accept": "application/json", **(headers or {})}
        self._timeout_seconds = timeout_seconds
        self._most_bytes = most_bytes
        self.allow_private = allow_private

    async def search(self, query: str, *, max_results: int = 8) -> Sequence[WebResult]:
        """What the instance finds, the best first."""
        import httpx

        async def stay(response: httpx.Response) -> None:
            target = urljoin(str(response.url), response.headers.get("location", ""))
            if response.is_redirect and urlsplit(target).hostname != urlsplit(self.url).hostname:
                raise SearchFailed(f"{self.name} redirects to another host, which is not followed.")

        client = httpx.AsyncClient(
            timeout=self._timeout_seconds,
            follow_redirects=True,
            max_redirects=MOST_REDIRECTS,
            event_hooks={"response": [stay]},
        )
        parameters = {**self._options, "q": query, "format": "json"}
        asked = client.stream("GET", self.url, params=parameters, headers=self._headers)
        try:
            async with client, asked as response:
                self._require_answer(response)
                body = bytearray()
                async for piece in response.aiter_bytes():
                    body += piece
                    if len(body) > self._most_bytes:
                        problem = f"{self.name} sent more than {self._most_bytes:,} bytes."
                        raise SearchFailed(problem)
        except httpx.TooManyRedirects as error:
            raise SearchFailed(f"{self.name} redirects again and again.") from error
        except httpx.TimeoutException as error:
            raise SearchFailed(f"{self.name} did not answer in time.") from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            problem = str(error) or type(error).__name__
            raise SearchFailed(f"{self.name} cannot be reached: {problem}.") from error
        answer = None
        with suppress(ValueError, RecursionError):
            answer = json.loads(body.decode("utf-8", "replace"))
        if not isinstance(answer, Mapping):
            raise SearchFailed(
                f"{self.name} did not answer with JSON.",
                remedy="Check the address, and that its json format is allowed.",
            )
        return read_results(
            answer.get("results") or [],
            max_results=max_results,
            service=self.name,
            allow_private=self.allow_private,
        )

    def _require_answer(self, response: Any) -> None:
        status = response.status_code
        if status == 429 or (status == 503 and response.headers.get("retry-after")):
            wait = retry_after_seconds(response.headers.get("retry-after"))
            raise RateLimited(self.name, retry_after_seconds=wait)
        if status == 403:
            raise SearchFailed(
                f"{self.name} refuses (403).",
                remedy="Allow the json format in its settings: search: formats: [html, json].",
            )
        if status != 200:
            raise SearchFailed(f"{self.name} answered with {status}.")


# ----------------------------------------------------------------------------
# Several services as one: the next is asked when one fails, answers are kept a while.


def as_web(web: object) -> WebSearch:
    """A web search from one, from a function, from the address of a SearXNG, or from a list.

    `"duckduckgo"` and the names of other `ddgs` engines are understood too; a
    list is a chain that tries them in turn.
    """
    if isinstance(web, str):
        return SearXNG(web) if web.startswith(("http://", "https://")) else DuckDuckGo(web)
    if isinstance(web, list | tuple):
        return SearchChain(web)
    if isinstance(web, WebSearch):
        return web
    if callable(web):
        return CallableSearch(web)
    remedy = "Pass DuckDuckGo(), SearXNG(url), a function, or a list of them."
    raise InvalidInput("web", web, "is no web search", remedy=remedy)


Sleep = Callable[[float], Awaitable[None]]

FIRST_WAIT_SECONDS = 1.0
MOST_RESULTS = 100

PROBLEM_CHARACTERS = 120
"""What a service says of its failure is told in so many characters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchReport:
    """What a chain found, which service found it, and what went wrong on the way."""

    results: tuple[WebResult, ...] = ()
    service: str = ""
    problems: tuple[str, ...] = ()
    cached: bool = False


@dataclass(slots=True)
class _Service:
    """One service with its breaker, and until when it wants to be left alone."""

    name: str
    web: WebSearch
    breaker: Breaker
    not_before: datetime | None = None
    refusals: int = 0


class SearchChain:
    """Asks its services in turn until one gives results.

    A failing service is asked again up to `attempts` times, with waits that
    double; after three failures in a row it is left alone for a while. One that
    limits its rate is left alone for as long as it says, or waited for when no
    other is left and the wait is at most `longest_wait_seconds`. Results are
    kept for `ttl_seconds`, by query and number.
    """

    def __init__(
        self,
        services: Sequence[object],
        *,
        clock: Clock | None = None,
        sleep: Sleep = asyncio.sleep,
        timeout_seconds: float = 10.0,
        attempts: int = 2,
        longest_wait_seconds: float = 5.0,
        ttl_seconds: float = 600.0,
        capacity: int = 256,
        breaker: BreakerSettings | None = None,
    ) -> None:
        if not services or isinstance(services, str):
            raise InvalidInput("services", services, "names none", remedy="Pass a list of them.")
        self._clock = clock or SystemClock()
        self._sleep = sleep
        self._timeout_seconds = require_number(timeout_seconds, "timeout_seconds", low=0.01)
        self._attempts = require_count(attempts, "attempts", least=1)
        self._longest_wait = require_number(longest_wait_seconds, "longest_wait_seconds", low=0)
        settings = breaker or BreakerSettings(cooldown_seconds=60.0)
        self._cache: TtlCache[SearchReport] = TtlCache(
            self._clock, capacity=capacity, ttl_seconds=ttl_seconds
        )
        self._services: list[_Service] = []
        for at, service in enumerate(require_items(services, "services", "searches"), start=1):
            web = as_web(service)
            name = str(getattr(web, "name", "") or f"service {at}")
            self._services.append(_Service(name=name, web=web, breaker=Breaker(settings)))
        self.name = ", ".join(service.name for service in self._services)

    async def search(self, query: str, *, max_results: int = 8) -> Sequence[WebResult]:
        """The results of the first service that has any; `WebSearchError` when all fail."""
        return (await self.find(query, max_results=max_results)).results

    async def find(self, query: str, *, max_results: int = 8) -> SearchReport:
        """As `search`, with the name of the service and what went wrong before it."""
        require_text(query, "query")
        count = min(require_count(max_results, "max_results", least=1), MOST_RESULTS)
        key = (" ".join(query.split()).casefold(), count)
        kept = self._cache.get(key)
        if kept is not None:
            return replace(kept, problems=(), cached=True)
        report = await self._ask_in_turn(query, count)
        if report.results:
            self._cache.put(key, report)
        return report

    def clear(self) -> None:
        """Forget the kept results; breakers and waits stay."""
        self._cache.clear()

    async def _ask_in_turn(self, query: str, count: int) -> SearchReport:
        problems: list[str] = []
        answered = False

        def report(service: str, results: tuple[WebResult, ...]) -> SearchReport:
            told = tuple(dict.fromkeys(problems))
            return SearchReport(results=results, service=service, problems=told)

        for service in self._services:
            results = await self._ask(service, query, count, problems)
            if results:
                return report(service.name, results)
            answered = answered or results is not None
        # One more try with the service whose limit is over soonest, if that is soon.
        waits = ((self._wait_seconds(s), at) for at, s in enumerate(self._services))
        for seconds, at in sorted(w for w in waits if 0 < w[0] <= self._longest_wait)[:1]:
            await self._sleep(seconds)
            service = self._services[at]
            service.not_before = None
            results = await self._ask(service, query, count, problems)
            if results is not None:
                return report(service.name, results)
        if answered:
            return report("", ())
        raise SearchFailed(
            f"No search service answered ({'; '.join(dict.fromkeys(problems))}).",
            remedy="Try again later, or name another service.",
        )

    async def _ask(
        self, service: _Service, query: str, count: int, problems: list[str]
    ) -> tuple[WebResult, ...] | None:
        """What a service finds; None when it fails or is left alone, which is told."""
        for attempt in range(self._attempts):
            if attempt:
                await self._sleep(min(FIRST_WAIT_SECONDS * 2 ** (attempt - 1), self._longest_wait))
            if (wait := self._wait_seconds(service)) > 0:
                problem = f"limits how often it is asked; free in {wait:.0f} s"
                problems.append(_told(service, problem))
                return None
            ticket, pause = service.breaker.allow(self._clock.now())
            if ticket is None:
                problems.append(_told(service, f"paused for {pause:.0f} s after failures"))
                return None
            failed = True  # also when it is silent for so long that nobody waits for it any more
            try:
                async with asyncio.timeout(self._timeout_seconds):
                    raw = await service.web.search(query, max_results=count)
                results = read_results(
                    raw,
                    max_results=count,
                    service=service.name,
                    allow_private=bool(getattr(service.web, "allow_private", False)),
                )
                failed, service.not_before, service.refusals = False, None, 0
            except RateLimited as error:
                failed = False
                self._leave_alone(service, error.retry_after_seconds)
                problems.append(_told(service, error.message))
                return None
            except TimeoutError:
                problem = f"no answer within {self._timeout_seconds:g} seconds"
                problems.append(_told(service, problem))
            except WebSearchError as error:
                problems.append(_told(service, error.message))
            except (InvalidInput, MissingExtra) as error:  # which another try will not mend
                message = error.message if isinstance(error, InvalidInput) else str(error)
                problems.append(_told(service, message))
                return None
            except Exception as error:  # noqa: BLE001 - the next service is asked
                problems.append(_told(service, f"{type(error).__name__}: {error}"))
            else:
                return results
            finally:
                service.breaker.report(ticket, self._clock.now(), failed=failed)
        return None

    def _leave_alone(self, service: _Service, asked_seconds: float | None) -> None:
        """Do not ask for as long as the service says, or for twice as long as the last time."""
        service.refusals += 1
        doubled = FIRST_WAIT_SECONDS * 2 ** min(service.refusals, 10)
        seconds = min(doubled if asked_seconds is None else asked_seconds, LONGEST_WAIT_SECONDS)
        service.not_before = self._clock.now() + timedelta(seconds=seconds)

    def _wait_seconds(self, service: _Service) -> float:
        if service.not_before is None:
            return 0.0
        wait = (service.not_before - self._clock.now()).total_seconds()
        # A clock that jumped back must not make a wait of days.
        return min(max(0.0, wait), LONGEST_WAIT_SECONDS)


def _told(service: _Service, problem: str) -> str:
    """What went wrong with a service, which is named once."""
    said = clean_line(problem, limit_characters=PROBLEM_CHARACTERS).rstrip(".")
    return said if said.startswith(service.name) else f"{service.name}: {said}"


_KEPT_CHAINS = 64
_DEFAULT = ("duckduckgo", "brave", "mojeek")
_chains: OrderedDict[str | int | None, tuple[object, SearchChain]] = OrderedDict()
_chains_lock = threading.Lock()


def chain_of(web: object) -> SearchChain:
    """The chain around `web`; the same object or name gets the same one, so that limits hold.

    Without one it is DuckDuckGo, then two other engines without a key.
    """
    if isinstance(web, SearchChain):
        return web
    if isinstance(web, list | tuple):
        return SearchChain(web)
    key = web if web is None or isinstance(web, str) else id(web)
    made = SearchChain(_DEFAULT if web is None else (web,))
    with _chains_lock:  # the object is kept too, so its id stays its own
        _, chain = _chains.setdefault(key, (web, made))
        _chains.move_to_end(key)
        while len(_chains) > _KEPT_CHAINS:
            _chains.popitem(last=False)
    return chain
