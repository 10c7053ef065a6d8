"""A SearXNG instance by its address."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import urljoin, urlsplit

from agentmem.base.checks import require_count, require_number, require_text
from agentmem.base.errors import InvalidInput, RateLimited, SearchFailed
from agentmem.base.threads import retry_after_seconds
from agentmem.sources.web.search import WebResult, read_results

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

        parameters = {**self._options, "q": query, "format": "json"}
        try:
            async with httpx.AsyncClient(timeout=self._timeout_seconds) as client:
                body = await self._get(client, self.url, parameters)
        except httpx.TimeoutException as error:
            raise SearchFailed(f"{self.name} did not answer in time.") from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            problem = str(error) or type(error).__name__
            raise SearchFailed(f"{self.name} cannot be reached: {problem}.") from error
        answer = self._read(body)
        return read_results(
            answer.get("results") or [],
            max_results=max_results,
            service=self.name,
            allow_private=self.allow_private,
        )

    async def _get(self, client: Any, url: str, parameters: Mapping[str, str] | None) -> bytes:
        for _ in range(MOST_REDIRECTS + 1):
            async with client.stream(
                "GET", url, params=parameters, headers=self._headers
            ) as response:
                location = response.headers.get("location", "")
                if response.is_redirect and location:
                    url, parameters = self._redirected(url, location), None
                    continue
                self._require_answer(response)
                return await self._body(response)
        raise SearchFailed(f"{self.name} redirects again and again.")

    def _redirected(self, url: str, location: str) -> str:
        target = urljoin(url, location)
        if urlsplit(target).hostname != urlsplit(self.url).hostname:
            raise SearchFailed(f"{self.name} redirects to another host, which is not followed.")
        return target

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

    async def _body(self, response: Any) -> bytes:
        body = bytearray()
        async for piece in response.aiter_bytes():
            body += piece
            if len(body) > self._most_bytes:
                raise SearchFailed(f"{self.name} sent more than {self._most_bytes:,} bytes.")
        return bytes(body)

    def _read(self, body: bytes) -> Mapping[str, Any]:
        answer = None
        with suppress(ValueError, RecursionError):
            answer = json.loads(body.decode("utf-8", "replace"))
        if not isinstance(answer, Mapping):
            raise SearchFailed(
                f"{self.name} did not answer with JSON.",
                remedy="Check the address, and that its json format is allowed.",
            )
        return answer
