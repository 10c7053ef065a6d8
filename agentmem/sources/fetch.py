"""Get one page from the web, carefully.

Only http and https, only public addresses unless private ones are allowed (at
every redirect), one time limit for everything, a size limit for what is sent
and for what it unpacks to. No cookies, no credentials, no proxy from the
environment, and nothing but text, PDF and the like.
"""

from __future__ import annotations

import ipaddress
import re
import socket
import ssl
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

import httpcore

from agentmem.base.checks import require_count, require_number, require_text
from agentmem.base.errors import AgentMemError, FetchFailed, FetchRefused
from agentmem.base.threads import begin
from agentmem.data import read_lists
from agentmem.text.decode import charset_of, decode, is_readable, media_type_of

if TYPE_CHECKING:
    import httpx


AGENT = "agentmem"
_REDIRECTS = (301, 302, 303, 307, 308)
_LONGEST_URL = 8_000
_ROBOTS_BYTES = 500_000
_HOST = re.compile(r"[\w.:~-]{1,253}", re.ASCII)
_ACCEPT = b"text/html,application/xhtml+xml,text/*;q=0.9,application/pdf;q=0.8,*/*;q=0.5"


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchLimits:
    """How long a fetch may take in all, how much may come, and how often it may be sent on."""

    total_seconds: float = 20.0
    limit_bytes: int = 10_000_000
    most_redirects: int = 5

    def __post_init__(self) -> None:
        require_number(self.total_seconds, "total_seconds", low=0)
        require_count(self.limit_bytes, "limit_bytes", least=1)
        require_count(self.most_redirects, "most_redirects")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """What an address gave; `url` is where it was found in the end."""

    url: str
    media_type: str
    content: bytes
    charset: str = ""

    @property
    def text(self) -> str:
        """The content as text, as it was sent."""
        return decode(self.content, declared=self.charset)


def fetch(
    url: str,
    *,
    allow_private: bool = False,
    robots: bool = False,
    limits: FetchLimits | None = None,
    resolve: Resolve | None = None,
    connect: Connect | None = None,
) -> Fetched:
    """What is at `url`.

    `FetchRefused` says that the address, or one it led to, may not be fetched
    or holds nothing readable; `FetchFailed` that no usable answer came. With
    `robots` the site's robots.txt is asked first.
    """

    limits = limits or FetchLimits()
    dialer = Dialer(
        deadline=time.monotonic() + limits.total_seconds,
        allow_private=allow_private,
        resolve=resolve or dialing_resolve,
        connect=connect or dialing_connect,
    )
    return _follow(require_text(url, "url"), dialer, limits, robots=robots)


def _follow(url: str, dialer: Dialer, limits: FetchLimits, *, robots: bool) -> Fetched:
    import httpx

    here = _checked_url(url, url)
    for _ in range(limits.most_redirects + 1):
        if robots:
            _require_robots(here, dialer, limits)
        answer = _get(here, dialer, limits)
        if isinstance(answer, Fetched):
            return answer
        try:
            here = _checked_url(str(here.join(answer)), url)
        except httpx.InvalidURL:
            raise FetchFailed(url, "it leads to an address that is none") from None
    raise FetchFailed(url, f"it was sent on more than {limits.most_redirects} times")


def _checked_url(url: str, asked: str) -> httpx.URL:
    import httpx

    if len(url) > _LONGEST_URL:
        raise FetchRefused(asked, f"it has more than {_LONGEST_URL:,} characters")
    try:
        parsed = httpx.URL(url.strip())
    except (httpx.InvalidURL, UnicodeError, ValueError, TypeError) as error:
        raise FetchRefused(asked, f"it is no address ({error})") from None
    if parsed.scheme in ("http", "https") and not parsed.host:
        raise FetchRefused(asked, "it names no host", remedy="Write https://host/path.")
    if parsed.scheme not in ("http", "https"):
        raise FetchRefused(
            asked, f"its scheme is {parsed.scheme or 'missing'}",
            remedy="Only http:// and https:// addresses are fetched; a file is read by its path.",
        )  # fmt: skip
    if parsed.userinfo:
        raise FetchRefused(
            f"{parsed.scheme}://…@{parsed.host}",
            "it has a user name or password in it",
            remedy="Credentials are never sent; leave them out.",
        )
    if not _HOST.fullmatch(parsed.raw_host.decode("ascii", "replace")):
        raise FetchRefused(asked, "its host is no name")
    if parsed.port is not None and not 0 < parsed.port < 65_536:
        raise FetchRefused(asked, "its port is none")
    return parsed.copy_with(fragment=None)


def _get(url: httpx.URL, dialer: Dialer, limits: FetchLimits) -> Fetched | str:
    """The answer of one address, or where it sends us."""
    pool = httpcore.ConnectionPool(
        ssl_context=_ssl_context() if url.scheme == "https" else None,
        network_backend=dialer,
        max_connections=1,
        retries=0,
    )
    raw = httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path)
    try:
        with pool, pool.stream("GET", raw, headers=_headers(url)) as response:
            headers = {name.lower(): value for name, value in response.headers}
            if response.status in _REDIRECTS and b"location" in headers:
                return headers[b"location"].decode("utf-8", "replace")
            _require_success(url, response.status, headers)
            media_type = _require_readable(url, headers, limits)
            body = b"".join(_bounded(response.iter_stream(), headers, url, limits.limit_bytes))
    except AgentMemError:
        raise
    except httpcore.TimeoutException:
        raise FetchFailed(
            str(url), f"it took longer than {limits.total_seconds:g} s",
            remedy="Try again later, or raise total_seconds.",
        ) from None  # fmt: skip
    except (httpcore.NetworkError, httpcore.ProtocolError, ssl.SSLError, OSError) as error:
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise FetchFailed(str(url), reason) from None
    content_type = headers.get(b"content-type", b"").decode("latin-1")
    charset = charset_of(content_type)
    return Fetched(url=str(url), media_type=media_type, content=body, charset=charset)


def _require_success(url: httpx.URL, status: int, headers: dict[bytes, bytes]) -> None:
    if 200 <= status < 300:
        return
    wait = headers.get(b"retry-after", b"").decode("latin-1").strip()[:40]
    remedy = f"The server asks to wait: {wait}." if wait else ""
    if not remedy and status in (401, 403):
        remedy = "The server wants to know who asks; no credentials are ever sent."
    raise FetchFailed(str(url), f"the server said {status}", status=status, remedy=remedy)


def _require_readable(url: httpx.URL, headers: dict[bytes, bytes], limits: FetchLimits) -> str:
    media_type = media_type_of(headers.get(b"content-type", b"").decode("latin-1"))
    if not is_readable(media_type):
        raise FetchRefused(
            str(url), f"it is {media_type}", remedy="Only text, HTML, JSON, XML and PDF are read."
        )
    length = headers.get(b"content-length", b"")
    if length.isdigit() and len(length) < 20 and int(length) > limits.limit_bytes:
        raise _too_large(url, limits.limit_bytes)
    return media_type


def _bounded(
    chunks: Iterable[bytes], headers: dict[bytes, bytes], url: httpx.URL, limit_bytes: int
) -> Iterator[bytes]:
    """The unpacked body; neither what comes nor what it unpacks to may be over the limit."""
    coding = headers.get(b"content-encoding", b"").decode("latin-1").strip().lower()
    unpack = _unpacker(coding, url)
    received = produced = 0
    for chunk in chunks:
        received += len(chunk)
        if received > limit_bytes:
            raise _too_large(url, limit_bytes)
        try:
            for piece in unpack(chunk, limit_bytes - produced + 1):
                produced += len(piece)
                if produced > limit_bytes:
                    raise _too_large(url, limit_bytes)
                yield piece
        except zlib.error as error:
            raise FetchFailed(str(url), f"its {coding} is damaged ({error})") from None


def _unpacker(coding: str, url: httpx.URL) -> Any:
    if coding in ("", "identity"):
        return lambda chunk, room: (chunk,)
    if coding not in ("gzip", "x-gzip", "deflate"):
        raise FetchFailed(str(url), f"it came packed as {coding!a}, which was not asked for")
    # 47: gzip or zlib, told apart by their heads.
    state = [zlib.decompressobj(47)]

    def unpack(chunk: bytes, room: int) -> Iterator[bytes]:
        while chunk and room > 0:
            try:
                piece = state[0].decompress(chunk, room)
            except zlib.error:
                if coding != "deflate" or len(state) > 1:
                    raise
                state.append(state[0])  # some servers send deflate without its head
                state[0] = zlib.decompressobj(-zlib.MAX_WBITS)
                continue
            room -= len(piece)
            yield piece
            if state[0].eof:
                return
            chunk = state[0].unconsumed_tail

    return unpack


def _too_large(url: httpx.URL, limit_bytes: int) -> FetchFailed:
    return FetchFailed(
        str(url), f"it is larger than {limit_bytes:,} bytes", remedy="Raise limit_bytes."
    )


def _require_robots(url: httpx.URL, dialer: Dialer, limits: FetchLimits) -> None:
    """Let robots.txt refuse: a missing one does not, one that fails does (RFC 9309)."""
    from urllib.robotparser import RobotFileParser

    remedy = "robots=False does not ask it."
    place = url.copy_with(path="/robots.txt", query=None, fragment=None)
    small = replace(limits, limit_bytes=min(limits.limit_bytes, _ROBOTS_BYTES))
    try:
        found = _follow(str(place), dialer, small, robots=False)
    except FetchRefused as error:
        raise FetchRefused(str(url), error.problem, remedy=error.remedy) from None
    except FetchFailed as error:
        if error.status is not None and 400 <= error.status < 500:
            return
        problem = f"its robots.txt could not be read ({error.problem})"
        raise FetchRefused(str(url), problem, remedy=remedy) from None
    parser = RobotFileParser()
    parser.parse(found.text.splitlines())
    if not parser.can_fetch(AGENT, str(url)):
        raise FetchRefused(str(url), "robots.txt forbids it", remedy=remedy)


def _headers(url: httpx.URL) -> list[tuple[bytes, bytes]]:
    from agentmem.base import __version__

    return [
        (b"Host", url.netloc),
        (b"User-Agent", f"{AGENT}/{__version__}".encode("ascii")),
        (b"Accept", _ACCEPT),
        (b"Accept-Encoding", b"gzip, deflate"),
        (b"Connection", b"close"),
    ]


@lru_cache(maxsize=1)
def _ssl_context() -> ssl.SSLContext:
    """The certificates that httpx trusts; `SSL_CERT_FILE` may name others."""
    import httpx

    return httpx.create_ssl_context()


# ----------------------------------------------------------------------------
# Which network addresses a fetch may go to: the public internet, unless more is allowed.
#
# Which is which stands in `data/addresses.txt`.


AddressClass = Literal["public", "private", "refused"]

_CARRIERS = (0xFFFF, 0x0064_FF9B << 64)
"""What stands before an IPv4 address in IPv6: mapped, NAT64."""


@lru_cache(maxsize=1)
def _networks() -> list[tuple[Any, AddressClass, str]]:
    lists: Any = read_lists("addresses.txt")
    ranges = [(kind, *line.split(" ", 1)) for kind, lines in lists.items() for line in lines]
    return [(ipaddress.ip_network(written), kind, name) for kind, written, name in ranges]


def classify(address: str | bytes) -> tuple[AddressClass, str]:
    """What an address, as numbers or in 4 or 16 bytes, is, and the name of its range.

    `private` may be allowed by somebody who means it; `refused` never is.
    IPv4 inside IPv6 (mapped, NAT64) is judged by the IPv4 address.
    """
    try:
        found: Any = ipaddress.ip_address(address)
    except ValueError:
        return "refused", "no address"
    if found.version == 6 and int(found) >> 32 in _CARRIERS:
        found = ipaddress.IPv4Address(int(found) & 0xFFFF_FFFF)
    fitting = ((kind, name) for network, kind, name in _networks() if found in network)
    return next(fitting, ("refused", "reserved"))


# ----------------------------------------------------------------------------
# Connections that go only where they may, and never longer than they may.
#
# A name is resolved once, every address it has is checked, and the connection is
# made to one of the checked addresses; a name that changes its mind in between
# changes nothing. TLS still verifies the name.


Resolve = Callable[[str, int], Sequence[str]]
"""Every address of a host name, as numbers."""
Connect = Callable[[str, int, float], httpcore.NetworkStream]
"""A connection to an address that is a number already."""

MOST_ADDRESSES = 4


def dialing_resolve(host: str, port: int) -> Sequence[str]:
    """The addresses the system knows for a name; odd spellings of numbers come out plain."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return tuple(dict.fromkeys(str(address[0]) for *_, address in found))


def dialing_connect(address: str, port: int, timeout_seconds: float) -> httpcore.NetworkStream:
    """A TCP connection."""
    return httpcore.SyncBackend().connect_tcp(address, port, timeout=timeout_seconds)


class Dialer(httpcore.NetworkBackend):
    """What httpcore connects through: checked addresses, one deadline for everything."""

    def __init__(
        self, *, deadline: float, allow_private: bool, resolve: Resolve, connect: Connect
    ) -> None:
        self._deadline = deadline
        self._allow_private = allow_private
        self._resolve = resolve
        self._connect = connect

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        last: Exception | None = None
        for address in self._checked(host, port):
            try:
                left = seconds_left(self._deadline)
                return DeadlineStream(self._connect(address, port, left), self._deadline)
            except (httpcore.ConnectError, httpcore.ConnectTimeout, OSError) as error:
                last = error
        raise httpcore.ConnectError(str(last) or type(last).__name__)

    def _checked(self, host: str, port: int) -> Sequence[str]:
        """The addresses of `host`; one that may not be reached refuses the name."""
        addresses = self._ask(host, port)
        for address in addresses:
            kind, name = classify(address.split("%", maxsplit=1)[0])
            if kind == "refused" or (kind == "private" and not self._allow_private):
                raise FetchRefused(
                    host,
                    f"it leads to {address} ({name})",
                    remedy="Addresses of this machine and its networks are refused; "
                    "allow_private=True (--allow-private) allows private ones.",
                )
        if not addresses:
            raise FetchFailed(host, "the name has no address")
        return addresses[:MOST_ADDRESSES]

    def _ask(self, host: str, port: int) -> Sequence[str]:
        """Resolve on a thread: the system's resolver knows no time limit."""
        answer = begin(lambda: tuple(self._resolve(host, port)), "agentmem-resolve")
        try:
            error = answer.exception(seconds_left(self._deadline))
        except TimeoutError:
            raise httpcore.ConnectTimeout("the name was not resolved in time") from None
        if isinstance(error, OSError | ValueError):
            problem = f"the name cannot be resolved ({error})"
            raise FetchFailed(host, problem, remedy="Check the address.")
        return answer.result()


class DeadlineStream(httpcore.NetworkStream):
    """A connection whose every wait ends at the deadline."""

    def __init__(self, inner: httpcore.NetworkStream, deadline: float) -> None:
        self._inner = inner
        self._deadline = deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._inner.read(max_bytes, seconds_left(self._deadline))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._inner.write(buffer, seconds_left(self._deadline))

    def close(self) -> None:
        self._inner.close()

    def start_tls(
        self, ssl_context: Any, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        left = seconds_left(self._deadline)
        inner = self._inner.start_tls(ssl_context, server_hostname, left)
        return DeadlineStream(inner, self._deadline)

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)


def seconds_left(deadline: float) -> float:
    """Seconds until `deadline` (of `time.monotonic`); none left is a timeout."""
    left = deadline - time.monotonic()
    if left <= 0:
        raise httpcore.ReadTimeout("the time is over")
    return left
