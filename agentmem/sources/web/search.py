"""What a web search is, and what it gives back."""

from __future__ import annotations

import html
import ipaddress
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime
from typing import Any, Protocol, runtime_checkable
from urllib.parse import unquote, urlsplit

from agentmem.base.checks import require_text
from agentmem.base.errors import InvalidInput, SearchFailed, shown
from agentmem.prompt.cite import page_key, safe_url
from agentmem.text.clean import clean_line
from agentmem.text.decode import sound
from agentmem.text.messages import get


@dataclass(frozen=True, slots=True, kw_only=True)
class WebResult:
    """One thing the web search found, cleaned.

    `url` is empty where the address may not be shown as a link (a script, a
    private network). `content` is the page's readable text once it was read.
    """

    title: str = ""
    url: str = ""
    snippet: str = ""
    date: date | None = None
    service: str = ""
    content: str = ""

    def __post_init__(self) -> None:
        for name in ("title", "url", "snippet", "service", "content"):
            require_text(getattr(self, name), name)
        if self.date is not None and not isinstance(self.date, date):
            raise InvalidInput("date", self.date, "is not a date", remedy="Pass a date or None.")

    @property
    def text(self) -> str:
        """The most that is known of the page."""
        return self.content or self.snippet

    def to_dict(self) -> dict[str, Any]:
        """The result as JSON values."""
        said = asdict(self)
        fetched = bool(said.pop("content"))
        return {**said, "date": self.date.isoformat() if self.date else None, "fetched": fetched}


@runtime_checkable
class WebSearch(Protocol):
    """Something that searches the web.

    No results is an empty sequence. `RateLimited` says that it was asked too
    often; any other error counts as a failure, and the next service is tried.
    """

    async def search(self, query: str, *, max_results: int) -> Sequence[WebResult]: ...


# ----------------------------------------------------------------------------
# Whatever a search service gives back, as clean results.
#
# Nothing of it is trusted: titles and snippets lose invisible characters, markup
# and anything that imitates our block; an address that is not plain http, or that
# leads into a private network, is not kept as a link.


TITLE_CHARACTERS = 300
SNIPPET_CHARACTERS = 2_000
_LEAST_SECONDS = 1e8
MOST_READ = 200
"""So many rows of an answer are read at most; a service that sends a million is not followed."""

TITLE_KEYS = ("title", "name", "heading")
URL_KEYS = ("href", "url", "link", "source_url", "uri")
SNIPPET_KEYS = ("body", "snippet", "content", "description", "text", "summary", "abstract")
DATE_KEYS = ("date", "published", "published_date", "publishedDate", "page_age", "age")
LIST_KEYS = ("results", "organic", "organic_results", "items", "web", "webPages", "value", "data")

_DAY = re.compile(r"(\d{4})-(\d\d)-(\d\d)")
_LOCAL_NAME = re.compile(
    r"(?:^|\.)(?:localhost|local|internal|intranet|lan|home|corp|private|localdomain|home\.arpa"
    r"|test|invalid|onion)$",
    re.IGNORECASE,
)
_COUNTED = re.compile(r"https?://(?:[\w-]+\.)?duckduckgo\.com/l/\?(?:[^#]*&)?uddg=([^&#]+)")
_TAG = re.compile(r"</?(?:b|em|strong|mark|i|span|br)(?:\s[^<>]{0,200})?/?>", re.IGNORECASE)


def read_results(
    raw: object, *, max_results: int, service: str = "", allow_private: bool = False
) -> tuple[WebResult, ...]:
    """At most `max_results` results, one a page, in the order they came.

    `raw` is a list of mappings, objects, texts or `WebResult`s, or a mapping
    that holds such a list under a usual name. Rows without a title, a text and
    an address are left out. `SearchFailed` when there is no list, or when its
    rows are of a sort that cannot be read.
    """
    found: dict[str, WebResult] = {}
    strange = ""
    for at, row in enumerate(_rows(raw)):
        if at >= MOST_READ or len(found) >= max_results:
            break
        result = read_result(row, service=service, allow_private=allow_private)
        if result is None:
            if not isinstance(row, Mapping | str | None):
                strange = strange or shown(row)
            continue
        key = page_key(result.url) if result.url else f"\0{result.title}\0{result.snippet}"
        found.setdefault(key, result)
    if strange and not found:
        raise SearchFailed(
            f"A search gave rows with no title, address or text: {strange}.",
            remedy="Return a list of dicts with title, url and snippet.",
        )
    return tuple(found.values())


def read_result(row: object, *, service: str = "", allow_private: bool = False) -> WebResult | None:
    """One row as a result; `None` when there is nothing to see in it."""
    if isinstance(row, str):
        row = {"snippet": row}
    encoded = not isinstance(row, WebResult)  # what was read before is not decoded again
    if isinstance(row, WebResult):
        said = asdict(row)
        row = {"full": said.pop("content"), **said}
    address = _unwrapped(_first_text(row, URL_KEYS))
    result = WebResult(
        title=_line(_first_text(row, TITLE_KEYS), TITLE_CHARACTERS, encoded=encoded),
        url=linkable(address, allow_private=allow_private),
        snippet=_line(_first_text(row, SNIPPET_KEYS), SNIPPET_CHARACTERS, encoded=encoded),
        date=read_day(_first(row, DATE_KEYS)),
        service=_line(str(get(row, "service") or service), 80),
        content=_first_text(row, ("full",)),
    )
    return result if result.title or result.snippet or result.url else None


def linkable(url: str, *, allow_private: bool = False) -> str:
    """`url` if it may be shown as a link, else nothing.

    Only http and https with a host, without a user name in it, and not an
    address or name of a private network unless `allow_private`.
    """
    address = safe_url(url)
    try:
        parts = urlsplit(address)
        host = parts.hostname or ""
        _ = parts.port  # an impossible port raises here
    except ValueError:
        return ""
    if parts.scheme.lower() not in ("http", "https") or not host or "@" in parts.netloc:
        return ""
    return address if allow_private or not is_private_host(host) else ""


def is_private_host(host: str) -> bool:
    """Whether a host name or address belongs to a private network, as far as its text tells."""
    host = host.strip("[]").rstrip(".")
    if _LOCAL_NAME.search(host) or ("." not in host and ":" not in host):
        return True
    number = _as_address(host)
    if number is None:
        return False
    mapped = getattr(number, "ipv4_mapped", None) or getattr(number, "sixtofour", None)
    return not number.is_global or (mapped is not None and not mapped.is_global)


def read_day(value: object) -> date | None:
    """The day a service names for a page: a date, ISO 8601, or (milli)seconds since 1970."""
    if isinstance(value, datetime):
        return value.date()
    if isinstance(value, date):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        if not value >= _LEAST_SECONDS:
            return None  # a year, or an age in days
        try:
            return datetime.fromtimestamp(value if value < 1e11 else value / 1000, UTC).date()
        except (OverflowError, OSError, ValueError):
            return None
    match = _DAY.search(value[:200]) if isinstance(value, str) else None
    if match is None:
        return None
    try:
        return date(int(match[1]), int(match[2]), int(match[3]))
    except ValueError:
        return None


def _unwrapped(url: str) -> str:
    """The page behind DuckDuckGo's own counting link."""
    url = f"https:{url}" if url.startswith("//") else url
    match = _COUNTED.match(url)
    return unquote(match[1]) if match else url


def _as_address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The address a host is written as, in the ways that browsers understand too (0x7f.1)."""
    from socket import inet_aton

    host = unicodedata.normalize("NFKC", host)
    with suppress(ValueError):
        return ipaddress.ip_address(host.partition("%")[0])
    with suppress(OSError, ValueError):
        return ipaddress.IPv4Address(inet_aton(host))
    return None


def _rows(raw: object) -> Iterable[object]:
    for _ in range(3):
        if isinstance(raw, Mapping):
            key = next((key for key in LIST_KEYS if key in raw), None)
            if key is None:
                raise SearchFailed(f"A search gave a mapping without results: {shown(dict(raw))}.")
            raw = raw[key]
    if raw is None:
        return ()
    if isinstance(raw, str | bytes) or not isinstance(raw, Iterable):
        raise SearchFailed(
            f"A search gave no list of results: {shown(raw)}.",
            remedy="Return a list of dicts with title, url and snippet.",
        )
    return raw


def _first(row: object, keys: Sequence[str]) -> object:
    return next((value for key in keys if (value := get(row, key))), None)


def _first_text(row: object, keys: Sequence[str]) -> str:
    for key in keys:
        value = get(row, key)
        if isinstance(value, bytes):
            value = value.decode("utf-8", "replace")
        if isinstance(value, str) and value.strip():
            return sound(value)
    return ""


def _line(text: str, limit: int, *, encoded: bool = False) -> str:
    """One clean line; services send emphasis as tags and, some, signs as `&amp;`."""
    whole = _TAG.sub("", sound(text[: 20 * limit]))
    return clean_line(html.unescape(whole) if encoded else whole, limit_characters=limit)
