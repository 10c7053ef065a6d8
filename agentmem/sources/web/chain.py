"""Several search services as one: the next is asked when one fails, answers are kept a while."""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from agentmem.base.checks import require_count, require_items, require_number, require_text
from agentmem.base.errors import (
    InvalidInput,
    MissingExtra,
    RateLimited,
    SearchFailed,
    WebSearchError,
)
from agentmem.base.guards import Breaker, BreakerSettings, TtlCache, allow, report
from agentmem.base.protocols import Clock
from agentmem.base.time import SystemClock
from agentmem.sources.web.search import WebResult, WebSearch, as_web, read_results
from agentmem.text.clean import clean_line

Sleep = Callable[[float], Awaitable[None]]

FIRST_WAIT_SECONDS = 1.0
LONGEST_BACK_OFF_SECONDS = 300.0
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
    breaker: Breaker = field(default_factory=Breaker)
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
        self._settings = breaker or BreakerSettings(cooldown_seconds=60.0)
        self._cache: TtlCache[SearchReport] = TtlCache(
            self._clock, capacity=capacity, ttl_seconds=ttl_seconds
        )
        self._services: list[_Service] = []
        for at, service in enumerate(require_items(services, "services", "searches"), start=1):
            web = as_web(service)
            name = str(getattr(web, "name", "") or f"service {at}")
            self._services.append(_Service(name=name, web=web))
        self.name = ", ".join(service.name for service in self._services)
        self._lock = threading.Lock()

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
            return SearchReport(results=kept.results, service=kept.service, cached=True)
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

        async def ask(service: _Service) -> SearchReport | None:
            try:
                results = await self._ask(service, query, count, problems)
            except WebSearchError as error:
                problems.append(_told(service, error.message))
                return None
            told = tuple(dict.fromkeys(problems))
            return SearchReport(results=results, service=service.name, problems=told)

        for service in self._services:
            report = await ask(service)
            if report is not None and report.results:
                return report
            answered = answered or report is not None
        # One more try with the service whose limit is over soonest, if that is soon.
        waits = [(self._wait_seconds(s), at) for at, s in enumerate(self._services)]
        for seconds, at in sorted(w for w in waits if 0 < w[0] <= self._longest_wait)[:1]:
            await self._sleep(seconds)
            self._services[at].not_before = None
            report = await ask(self._services[at])
            if report is not None:
                return report
        told = tuple(dict.fromkeys(problems))
        if answered:
            return SearchReport(problems=told)
        raise SearchFailed(
            f"No search service answered ({'; '.join(told)}).",
            remedy="Try again later, or name another service.",
        )

    async def _ask(
        self, service: _Service, query: str, count: int, problems: list[str]
    ) -> tuple[WebResult, ...]:
        for attempt in range(self._attempts):
            if attempt:
                await self._sleep(min(FIRST_WAIT_SECONDS * 2 ** (attempt - 1), self._longest_wait))
            ticket = self._enter(service)
            try:
                async with asyncio.timeout(self._timeout_seconds):
                    raw = await service.web.search(query, max_results=count)
                results = read_results(
                    raw,
                    max_results=count,
                    service=service.name,
                    allow_private=bool(getattr(service.web, "allow_private", False)),
                )
            except RateLimited as error:
                self._limited(service, error)
                self._report(service, ticket, failed=False)
                raise
            except asyncio.CancelledError:
                self._report(service, ticket, failed=True)  # it was silent for too long
                raise
            except Exception as error:
                self._report(service, ticket, failed=True)
                problem = _problem(error, self._timeout_seconds)
                if attempt + 1 == self._attempts or isinstance(error, InvalidInput | MissingExtra):
                    raise SearchFailed(problem) from error
                problems.append(_told(service, problem))
                continue
            self._report(service, ticket, failed=False)
            service.not_before, service.refusals = None, 0
            return results
        raise AssertionError("attempts is at least 1")

    def _enter(self, service: _Service) -> int:
        """The breaker's ticket; `SearchFailed` while the service is to be left alone."""
        if (wait := self._wait_seconds(service)) > 0:
            raise SearchFailed(f"limits how often it is asked; free in {wait:.0f} s.")
        with self._lock:
            decision, service.breaker = allow(
                service.breaker, self._clock.now(), settings=self._settings
            )
        if decision.ticket is None:
            raise SearchFailed(f"paused for {decision.retry_after_seconds:.0f} s after failures.")
        return decision.ticket

    def _report(self, service: _Service, ticket: int, *, failed: bool) -> None:
        with self._lock:
            service.breaker = report(
                service.breaker, ticket, self._clock.now(), failed=failed, settings=self._settings
            )

    def _limited(self, service: _Service, error: RateLimited) -> None:
        service.refusals += 1
        doubled = FIRST_WAIT_SECONDS * 2 ** min(service.refusals, 10)
        asked = error.retry_after_seconds
        seconds = min(doubled if asked is None else asked, LONGEST_BACK_OFF_SECONDS * 12)
        service.not_before = self._clock.now() + timedelta(seconds=seconds)

    def _wait_seconds(self, service: _Service) -> float:
        if service.not_before is None:
            return 0.0
        wait = (service.not_before - self._clock.now()).total_seconds()
        # A clock that jumped back must not make a wait of days.
        return min(max(0.0, wait), LONGEST_BACK_OFF_SECONDS * 12)


def _told(service: _Service, problem: str) -> str:
    """What went wrong with a service, which is named once."""
    said = clean_line(problem, limit_characters=PROBLEM_CHARACTERS).rstrip(".")
    return said if said.startswith(service.name) else f"{service.name}: {said}"


def _problem(error: Exception, timeout_seconds: float) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer within {timeout_seconds:g} seconds."
    if isinstance(error, WebSearchError | InvalidInput):
        return error.message
    if isinstance(error, MissingExtra):
        return str(error)
    return f"{type(error).__name__}: {error}"


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
