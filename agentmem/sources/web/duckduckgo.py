"""DuckDuckGo and the other engines that `ddgs` knows, without a key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from agentmem.base.checks import require_choice, require_number
from agentmem.base.errors import InvalidInput, MissingExtra, RateLimited, SearchFailed
from agentmem.base.threads import in_thread, retry_after_seconds
from agentmem.sources.web.search import WebResult, read_results

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
