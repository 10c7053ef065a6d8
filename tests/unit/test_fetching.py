"""Fetching: against a server on loopback that behaves badly, and addresses that are refused."""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Sequence
from typing import Any

import httpcore
import httpx
import pytest

from agentmem.base.errors import FetchFailed, FetchRefused, InvalidText
from agentmem.sources import fetch as dialing
from agentmem.sources.fetch import Fetched, FetchLimits, _unpacker, fetch
from agentmem.sources.files import fetched_document
from tests.servers.pages import CHARSET_TEXT, PAGE, PageServer

QUICK = FetchLimits(total_seconds=0.3)
PUBLIC = "93.184.216.34"


@pytest.fixture(scope="module")
def shared() -> Iterator[PageServer]:
    with PageServer() as running:
        yield running


@pytest.fixture
def server(shared: PageServer) -> PageServer:
    shared.state.requests.clear()
    shared.state.robots = None
    return shared


def get(server: PageServer, path: str, **options: Any) -> Fetched:
    return fetch(server.url(path), allow_private=True, **options)


class Internet:
    """Names with addresses of our choice; every public address is the server on loopback."""

    def __init__(self, server: PageServer, **names: Sequence[str]) -> None:
        self._server = server
        self._names = {name.replace("_", "."): list(found) for name, found in names.items()}
        self.asked: list[str] = []
        self.reached: list[str] = []

    def resolve(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(host)
        return self._names.get(host) or dialing.dialing_resolve(host, port)

    def connect(self, address: str, port: int, seconds: float) -> httpcore.NetworkStream:
        self.reached.append(address)
        return dialing.dialing_connect("127.0.0.1", self._server.port, seconds)

    def fetch(self, url: str, **options: Any) -> Fetched:
        return fetch(url, resolve=self.resolve, connect=self.connect, **options)


def test_a_page_comes_whole_with_its_type_and_title(server: PageServer) -> None:
    found = get(server, "/page#part")
    assert (found.media_type, found.charset) == ("text/html", "utf-8")
    assert found.content == PAGE.encode()
    assert found.url == server.url("/page")
    document = fetched_document(found)
    assert document.title == "The harbour"
    assert "permit" in document.text
    (request,) = server.requests
    assert request.headers["User-Agent"].startswith("agentmem/")
    assert request.headers["Host"] == f"127.0.0.1:{server.port}"
    assert "Cookie" not in request.headers


@pytest.mark.parametrize("path", ["/gzip", "/deflate", "/deflate?bare=1"])
def test_packed_pages_are_unpacked(server: PageServer, path: str) -> None:
    assert get(server, path).content == PAGE.encode()


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
def test_redirects_are_followed(server: PageServer, code: int) -> None:
    found = get(server, f"/redirect?to=/page&code={code}")
    assert found.url == server.url("/page")


def test_endless_redirects_end(server: PageServer) -> None:
    with pytest.raises(FetchFailed, match="more than 3 times"):
        get(server, "/loop", limits=FetchLimits(most_redirects=3))
    assert len(server.requests) == 4


def test_no_cookie_is_kept(server: PageServer) -> None:
    get(server, "/cookie")
    assert all("Cookie" not in request.headers for request in server.requests)


@pytest.mark.parametrize("path", ["/huge?bytes=1000000", "/claims?bytes=1000000000000"])
def test_too_much_is_refused_while_it_comes(server: PageServer, path: str) -> None:
    with pytest.raises(FetchFailed, match=r"larger than 100,000 bytes.*limit_bytes"):
        get(server, path, limits=FetchLimits(limit_bytes=100_000))


def test_a_small_answer_that_unpacks_to_much_is_refused(server: PageServer) -> None:
    with pytest.raises(FetchFailed, match="larger than"):
        get(server, "/bomb?bytes=50000000", limits=FetchLimits(limit_bytes=1_000_000))


def test_unpacking_stops_at_the_limit_and_not_after_it() -> None:
    unpack = _unpacker("gzip", httpx.URL("http://a/"))
    pieces = list(unpack(gzip.compress(bytes(10_000_000)), 1_000))
    assert len(pieces[0]) == 1_000


@pytest.mark.parametrize("path", ["/slow-headers", "/slow-body", "/silent"])
def test_one_time_limit_holds_for_everything(server: PageServer, path: str) -> None:
    with pytest.raises(FetchFailed, match=r"longer than 0\.3 s"):
        get(server, path, limits=QUICK)


@pytest.mark.parametrize("path", ["/cut", "/nonsense", "/packed", "/packed?name=gzip"])
def test_a_broken_answer_is_a_failure(server: PageServer, path: str) -> None:
    with pytest.raises(FetchFailed):
        get(server, path)


@pytest.mark.parametrize("code", [400, 401, 403, 404, 410, 429, 500, 503, 304])
def test_other_statuses_are_failures_with_their_number(server: PageServer, code: int) -> None:
    with pytest.raises(FetchFailed) as caught:
        get(server, f"/status?code={code}")
    assert caught.value.status == code
    assert ("wait: 30" in str(caught.value)) == (code in (429, 503))


@pytest.mark.parametrize("name", ["image/png", "application/zip", "video/mp4", "image/svg+xml"])
def test_what_is_not_text_is_refused_by_its_type(server: PageServer, name: str) -> None:
    with pytest.raises(FetchRefused, match=name.replace("+", r"\+")):
        get(server, f"/type?name={name.replace('+', '%2B')}")


@pytest.mark.parametrize("name", ["", "text/plain", "application/json", "application/feed%2Bxml"])
def test_text_of_any_sort_is_taken(server: PageServer, name: str) -> None:
    assert get(server, f"/type?name={name}").content == PAGE.encode()


@pytest.mark.parametrize(
    "query",
    [
        "name=utf-8",
        "name=utf-8&header=iso-8859-1",
        "name=utf-8&meta=windows-1252",
        "name=iso-8859-1&header=iso-8859-1",
        "name=iso-8859-1&header=utf-8",
        "name=cp1252&meta=windows-1252",
        "name=utf-16&header=utf-8",
        "name=utf-16-le",
        "name=utf-8-sig&header=latin1",
        "name=cp1252&header=no-such-charset",
    ],
)
def test_the_charset_is_found_whatever_the_labels_say(server: PageServer, query: str) -> None:
    found = get(server, f"/charset?{query}")
    assert CHARSET_TEXT in found.text
    assert fetched_document(found).title == "Köln"


def test_robots_txt_is_asked_on_request(server: PageServer) -> None:
    assert get(server, "/page", robots=True).content
    server.state.robots = "User-agent: agentmem\nDisallow: /page\n"
    with pytest.raises(FetchRefused, match="robots"):
        get(server, "/page", robots=True)
    assert get(server, "/page").content
    server.state.robots = "User-agent: *\nDisallow: /private\n"
    assert get(server, "/page", robots=True).content
    with pytest.raises(FetchRefused, match=r"its robots\.txt could not be read \(") as raised:
        fetch("http://127.0.0.1:9/page", robots=True, allow_private=True)
    assert "forbids" not in str(raised.value)
    with pytest.raises(FetchRefused, match="is not fetched: it leads to 169") as raised:
        fetch("http://169.254.169.254/latest", robots=True, allow_private=True)
    assert "robots" not in str(raised.value)


@pytest.mark.parametrize(
    "url",
    [
        "", "/etc/passwd", "file:///etc/passwd", "ftp://example.com/", "gopher://example.com",
        "javascript:alert(1)", "data:text/html,hi", "http://", "https:///path", "example.com",
        "http://user:hush@example.com/", "http://token@example.com/", "http://exa mple.com/",
        "http://example.com:99999/", "http://[::1", "http://\x00/", "http://a\nb/", "x" * 9_000,
    ],
)  # fmt: skip
def test_addresses_that_are_none_or_not_for_us_are_refused(url: str) -> None:
    with pytest.raises(FetchRefused) as caught:
        fetch(url)
    assert "hush" not in str(caught.value)


def test_an_address_that_is_no_text_is_a_typed_error() -> None:
    for url in (None, b"http://a/", 7, "http://\ud800/"):
        with pytest.raises(InvalidText):
            fetch(url)  # type: ignore[arg-type]  # on purpose


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1", "localhost", "127.1", "2130706433", "0x7f000001", "0177.0.0.1", "0", "0.0.0.0",
        "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "224.0.0.1",
        "255.255.255.255", "[::1]", "[::]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[fe80::1]",
        "[fc00::1]", "[ff02::1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "[::127.0.0.1]",
        "168.63.129.16", "[fd00:ec2::254]", "127.0.0.1.",
    ],
)  # fmt: skip
def test_no_way_of_writing_an_inner_address_gets_through(server: PageServer, host: str) -> None:
    internet = Internet(server)
    with pytest.raises((FetchRefused, FetchFailed)):
        internet.fetch(f"http://{host}/page")
    assert internet.reached == []
    assert server.requests == []


@pytest.mark.parametrize("host", ["169.254.169.254", "0.0.0.0", "224.0.0.1", "[fe80::1]"])
def test_some_addresses_are_refused_even_when_private_ones_are_allowed(
    server: PageServer, host: str
) -> None:
    internet = Internet(server)
    with pytest.raises(FetchRefused):
        internet.fetch(f"http://{host}/", allow_private=True)
    assert internet.reached == []


def test_a_public_name_is_fetched_from_the_address_that_was_checked(server: PageServer) -> None:
    internet = Internet(server, harbour_example=[PUBLIC])
    found = internet.fetch("http://harbour.example/page")
    assert found.content == PAGE.encode()
    assert internet.asked == ["harbour.example"]  # once: nothing can change in between
    assert internet.reached == [PUBLIC]
    assert server.requests[0].headers["Host"] == "harbour.example"


def test_a_name_with_one_inner_address_is_refused(server: PageServer) -> None:
    internet = Internet(server, mixed_example=[PUBLIC, "10.0.0.7"])
    with pytest.raises(FetchRefused, match=r"10\.0\.0\.7 \(private network\)"):
        internet.fetch("http://mixed.example/page")
    assert internet.reached == []


@pytest.mark.parametrize(
    "target",
    [
        "http://127.0.0.1/page", "http://inner.example/page", "http://169.254.169.254/latest",
        "file:///etc/passwd", "http://user:pw@harbour.example/page", "//[::1]/page",
    ],
)  # fmt: skip
def test_a_redirect_inwards_is_refused(server: PageServer, target: str) -> None:
    internet = Internet(server, harbour_example=[PUBLIC], inner_example=["192.168.0.9"])
    with pytest.raises(FetchRefused):
        internet.fetch(f"http://harbour.example/redirect?to={target}")
    assert internet.reached == [PUBLIC]


def test_a_name_that_cannot_be_resolved_is_a_failure(server: PageServer) -> None:
    def nowhere(host: str, port: int) -> Sequence[str]:
        raise OSError("no such name")

    with pytest.raises(FetchFailed, match="no such name"):
        fetch("http://nowhere.example/", resolve=nowhere)
    with pytest.raises(FetchFailed, match="no address"):
        fetch("http://nowhere.example/", resolve=lambda host, port: ())


def test_proxies_of_the_environment_are_not_used(
    server: PageServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert get(server, "/page").content


def test_nobody_listening_is_a_failure() -> None:
    with pytest.raises(FetchFailed):
        fetch("http://127.0.0.1:1/", allow_private=True)


def test_an_address_without_a_host_is_called_that() -> None:
    with pytest.raises(FetchRefused, match="names no host"):
        fetch("https://")
