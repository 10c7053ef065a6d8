"""Read the pages behind the best results, within limits, and remember them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING

from agentmem.core.cleaning import clean_line
from agentmem.core.values import dataclass
from agentmem.errors import FetchFailed, FetchRefused
from agentmem.threads import awaited, in_thread, is_async
from agentmem.web.protocol import WebResult
from agentmem.web.reading import linkable, read_day

if TYPE_CHECKING:
    from agentmem.fetching import FetchLimits

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
        results=tuple(_filled(result, texts.get(result.url)) for result in results),
        pages=tuple(texts.values()),
        problems=tuple(problems),
    )


def _filled(result: WebResult, page: ReadPage | None) -> WebResult:
    if page is None:
        return result
    return replace(
        result,
        url=linkable(page.url, allow_private=True) or result.url,
        content=page.text,
        title=result.title or clean_line(_readable(page.title), limit_characters=300),
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
    text = _readable(page.text)[:MOST_CHARACTERS].strip()
    return replace(page, text=text) if text else "it has no readable text"


def read_safely(
    url: str,
    *,
    robots: bool = True,
    allow_private: bool = False,
    limits: FetchLimits | None = None,
) -> ReadPage:
    """The readable text of a page: HTML, PDF or plain.

    Fetched within size and time limits, with the site's robots.txt asked
    first, and never from a private network unless that is allowed.
    """
    from agentmem.fetching import fetch
    from agentmem.files import document_of

    found = fetch(url, robots=robots, allow_private=allow_private, limits=limits)
    name = found.url.split("?")[0].rsplit("/", 1)[-1]
    document = document_of(
        found.content,
        url=found.url,
        name=name,
        media_type=found.media_type,
        charset=found.charset,
    )
    return ReadPage(
        url=found.url,
        text=document.text,
        title=document.title,
        published=read_day(document.metadata.get("published")),
    )


def _readable(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")
