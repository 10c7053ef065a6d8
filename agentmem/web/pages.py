"""Read the pages behind the best results, within limits, and remember them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from agentmem.errors import SearchFailed
from agentmem.models import is_async
from agentmem.threads import awaited, in_thread
from agentmem.web.protocol import WebResult

MOST_CHARACTERS = 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadPage:
    """A page that was read: its readable text, and what is to be remembered of it."""

    url: str
    text: str
    title: str = ""
    content: str | bytes = ""


PageReader = Callable[[str], Awaitable[ReadPage] | ReadPage]
"""Reads one address, sync or async; it decides what may be fetched."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PagesRead:
    """The results with the text of those that were read, the pages, and what went wrong."""

    results: tuple[WebResult, ...]
    pages: tuple[ReadPage, ...] = ()
    problems: tuple[str, ...] = ()


async def read_pages(
    results: Sequence[WebResult],
    *,
    most: int,
    reader: PageReader | None,
    timeout_seconds: float,
) -> PagesRead:
    """Read the first `most` results that have an address, at the same time.

    A page that fails or takes longer than `timeout_seconds` keeps its snippet.
    """
    read = reader or read_safely
    wanted = [result for result in results if result.url][:most]
    outcomes = await asyncio.gather(
        *(_read(read, result.url, timeout_seconds) for result in wanted)
    )
    texts: dict[str, ReadPage] = {}
    problems: list[str] = []
    for result, outcome in zip(wanted, outcomes, strict=True):
        if isinstance(outcome, str):
            problems.append(f"{result.url} was not read: {outcome}")
        else:
            texts[result.url] = outcome
    return PagesRead(
        results=tuple(
            replace(
                result,
                content=texts[result.url].text,
                title=result.title or _readable(texts[result.url].title)[:300],
            )
            if result.url in texts
            else result
            for result in results
        ),
        pages=tuple(texts.values()),
        problems=tuple(problems),
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
        return str(getattr(error, "message", "") or f"{type(error).__name__}: {error}")
    text = _readable(page.text)[:MOST_CHARACTERS].strip()
    return replace(page, text=text) if text else "it has no readable text"


def read_safely(url: str) -> ReadPage:
    """The readable text of a page, fetched within limits and never from a private network."""
    from agentmem.fetching import fetch
    from agentmem.pages import to_markdown

    fetched: Any = fetch(url)
    body = fetched.text
    if not 200 <= fetched.status < 300:
        raise SearchFailed(f"it answered with {fetched.status}")
    if "html" in fetched.media_type:
        page = to_markdown(body, fetched.url)
        return ReadPage(url=fetched.url, text=page.text, title=page.title, content=body)
    return ReadPage(url=fetched.url, text=body, title=fetched.title, content=body)


def _readable(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")
