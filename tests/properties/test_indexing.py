"""Pages, charsets, addresses and ignore rules: any input, and against an obvious twin."""

from __future__ import annotations

import ipaddress
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

import agentmem
from agentmem.memory.manager import MemoryManager
from agentmem.sources.background import Worker
from agentmem.sources.fetch import classify
from agentmem.sources.files import read_ignore_rules, says
from agentmem.sources.indexer import Indexer
from agentmem.sources.pages import to_markdown
from agentmem.testing import HashEmbedder, ManualClock
from agentmem.text.decode import decode
from tests.properties.strategies import texts

MARKUP = (
    "<p>", "</p>", "<div hidden>", "<div>", "</div>", "<script>", "</script>", "<!--", "-->",
    "<![CDATA[", "]]>", "<table>", "<tr>", "<td>", "<li>", "<ul>", "</ul>", "<pre>", "<style>",
    ".a{display:none}", "</style>", "<html>", "<body>", "&lt;", "&#0;", "&#xD800;", "<?xml",
    "<svg><title>", "<h1>", "words here", "<meta charset=utf-7>", "\x00", "\ufeff", "<template>",
)  # fmt: skip

# Not the internet by the registries, although `ipaddress` of some Python versions says so.
EXTRA = tuple(
    map(
        ipaddress.ip_network,
        (
            "100.64.0.0/10", "168.63.129.16/32", "192.0.0.0/24", "192.31.196.0/24",
            "192.52.193.0/24", "192.88.99.0/24", "192.175.48.0/24", "224.0.0.0/4", "2001::/23",
            "2002::/16", "2620:4f:8000::/48", "3fff::/20", "::/3", "4000::/2", "8000::/1",
        ),
    )
)  # fmt: skip


def soups() -> st.SearchStrategy[str]:
    """Markup in any order, with any text between."""
    return st.lists(st.sampled_from(MARKUP) | texts(max_size=20), max_size=25).map("".join)


def packed_addresses() -> st.SearchStrategy[bytes]:
    """Any address, often near the edge of a special range."""
    edges = [
        int(network[offset]) + step
        for network in map(
            ipaddress.ip_network,
            ("10.0.0.0/8", "127.0.0.0/8", "172.16.0.0/12", "169.254.0.0/16", "192.168.0.0/16"),
        )
        for offset, step in ((0, -1), (0, 0), (-1, 0), (-1, 1))
    ]
    v4 = (st.sampled_from(edges) | st.integers(0, 2**32 - 1)).map(lambda n: n.to_bytes(4, "big"))
    prefixes = st.sampled_from(
        [
            0,
            0xFFFF << 32,
            0x64FF9B << 96,
            0x2002 << 112,
            0xFE80 << 112,
            0xFC00 << 112,
            0x2600 << 112,
        ]
    )
    v6 = st.builds(
        lambda prefix, low: (prefix | low).to_bytes(16, "big"), prefixes, st.integers(0, 2**32 - 1)
    ) | st.binary(min_size=16, max_size=16)
    return v4 | v6


@given(packed_addresses())
def test_only_the_internet_is_public(packed: bytes) -> None:
    """X3 Addresses. An address counts as public exactly when the standard library calls it global and no stricter range of ours holds it; IPv4 inside IPv6 counts as that IPv4 address."""
    address = ipaddress.ip_address(packed)
    if isinstance(address, ipaddress.IPv6Address):
        number = int(address)
        if address.ipv4_mapped is not None or number >> 32 == 0x64FF9B << 64:
            assert classify(packed) == classify((number & 0xFFFFFFFF).to_bytes(4, "big"))
            return
    stricter = any(address in network for network in EXTRA if network.version == address.version)
    unusual = address.is_multicast or address.is_reserved or address.is_unspecified
    public = address.is_global and not stricter and not unusual
    assert (classify(packed)[0] == "public") == public
    if address.is_loopback:
        assert classify(packed)[0] == "private"
    if address.is_link_local or address.is_multicast or address.is_unspecified:
        assert classify(packed)[0] == "refused"


@given(soups() | st.binary(max_size=400))
@example("<![x" * 50)
@example("\x1f<script></script>&lt;")
@example("<p>&#xD800;</p>")
@example(b"\xff\xfe\x00\xd8")
def test_any_page_becomes_text_that_can_be_stored(html: str | bytes) -> None:
    """X4 Any page. Whatever bytes or markup a page consists of, reading it raises nothing and gives text and a title that can be stored; the same page gives the same text."""
    page = to_markdown(html)
    for text in (page.text, page.title, page.language, page.published):
        text.encode("utf-8")
        assert "\0" not in text
    assert page.text == page.text.strip("\n")
    assert to_markdown(html) == page


@given(
    secret=st.from_regex(r"[a-z]{12}", fullmatch=True),
    shown=st.from_regex(r"[A-Z]{12}", fullmatch=True),
    hidden=st.sampled_from(
        (
            "<p style='display:none'>{}</p>", "<p style='DISPLAY : NONE !important'>{}</p>",
            "<div hidden><p>{}</p></div>", "<!-- {} -->", "<script>{}</script>",
            "<style>{}</style>", "<p class='h'>{}</p>", "<p id='i'>{}</p>",
            "<div style='visibility:hidden'><ul><li>{}</li></ul></div>",
            "<template><p>{}</p></template>", "<noscript>{}</noscript>",
            "<table hidden><tr><td>{}</td><td>x</td></tr></table>", "<p aria-hidden=true>{}</p>",
            "<svg><text>{}</text></svg>", "<input type=hidden value='{}'>", "<p title='{}'></p>",
        )
    ),
    around=st.sampled_from(("{}", "<div>{}</div>", "<ul><li>{}</li></ul>", "<article>{}</article>")),
)  # fmt: skip
def test_hidden_text_stays_out(secret: str, shown: str, hidden: str, around: str) -> None:
    """X5 Hidden text. What a page hides (display:none inline or in its style sheet, hidden, comments, scripts, templates) is not in its text, and what stands beside it is."""
    sheet = "<style>.h, #i { color: red; display: none }</style>"
    inner = around.format(f"<p>{shown} first</p>{hidden.format(secret)}<p>last {shown}</p>")
    text = to_markdown(f"<html><head>{sheet}</head><body>{inner}</body></html>").text
    assert secret not in text
    assert text.count(shown) == 2


LABELS = ("", "latin1", "utf-16", "UTF-8", "iso-2022-jp", "hz", "shift_jis", "utf-7", "rot13", "x")


@given(
    text=texts(),
    name=st.sampled_from(("utf-8", "utf-16", "utf-8-sig")),
    label=texts(max_size=20),
    noise=st.binary(max_size=100),
)
def test_unicode_bytes_are_read_back(text: str, name: str, label: str, noise: bytes) -> None:
    """X6 Charset. Text in UTF-8, or with a byte order mark, is read back exactly, whatever its label says; and any bytes under any label give text that can be stored."""
    marked = name != "utf-8"
    assume(not text.startswith("\ufeff"))
    for each in (*LABELS, label):
        decode(noise, declared=each).encode("utf-8")
        if marked or not any(sign in text for sign in ("\0", "\x1b", "~{")):
            assert decode(text.encode(name), declared=each) == text


def open_memory() -> tuple[MemoryManager, Indexer]:
    memory = agentmem.open(":memory:", embedder=HashEmbedder(), clock=ManualClock())
    return memory, Indexer(memory, worker=Worker(memory.store, clock=memory.clock, threaded=False))


@given(
    st.lists(
        st.tuples(
            st.sampled_from(("https://a/", "https://A/", "file:///b")),
            st.sampled_from(("Some words.", "Other words.")) | texts().map("Some words {}".format),
            st.sampled_from((None, "ana", "ben")),
        ),
        max_size=6,
    )
)
def test_background_indexing_equals_adding_now(pages: list[tuple[str, str, str | None]]) -> None:
    """X7 Background pages. Pages indexed in the background leave the same memories as pages indexed one by one and waited for, however often and in whatever order a url comes."""
    now, later = open_memory(), open_memory()
    for url, content, user in pages:
        now[1].index_page(content, url, user_id=user)
        assert later[1].enqueue_page(content, url, user_id=user)
    assert later[1].flush()
    for user in (None, "ana", "ben"):
        for url in {url for url, _, _ in pages}:
            expected = now[0].sources.search_by_url(url, user_id=user)
            found = later[0].sources.search_by_url(url, user_id=user)
            assert [m.text for m in found] == [m.text for m in expected]
            assert bool(found) == any((url, user) == (u, w) for u, _, w in pages)
    now[0].close()
    later[0].close()


PATTERN_PIECES = (
    "a", "b", "*", "**", "?", "/", "!", ".", "[ab]", "[!a]", "[^b]", "x.log", "a/", " ", "#", "[",
    "\\", "/**", "**/", "]", "-",
)  # fmt: skip


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("repository")
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    return folder


@pytest.mark.skipif(shutil.which("git") is None, reason="git is the reference here")
@given(
    lines=st.lists(
        st.lists(st.sampled_from(PATTERN_PIECES), min_size=1, max_size=5).map("".join), max_size=5
    ),
    files=st.lists(
        st.lists(st.sampled_from(("a", "b", "ab", "x.log", "c")), min_size=1, max_size=4).map(
            "/".join
        ),
        min_size=1,
        max_size=5,
    ),
)
@example(lines=["aa", "a//"], files=["a/a"])
def test_ignore_rules_agree_with_git(repository: Path, lines: list[str], files: list[str]) -> None:
    """X8 Ignore rules. A file is left out of a folder exactly when git, given the same .gitignore, ignores it or a folder above it."""
    (repository / ".gitignore").write_text("\n".join(lines))
    asked = subprocess.run(
        ["git", "-C", str(repository), "check-ignore", "--no-index", "-z", "--stdin"],
        input="\0".join(files), capture_output=True, text=True, check=False,
    )  # fmt: skip
    theirs = set(filter(None, asked.stdout.split("\0")))
    assert {file for file in files if is_left_out(file, lines)} == theirs


def is_left_out(file: str, lines: list[str]) -> bool:
    """As a walk finds it: from the top, and nothing below an ignored folder is looked at."""
    rules = read_ignore_rules("\n".join(lines))
    parts = file.split("/")
    return any(
        says("/".join(parts[:depth]), is_folder=depth < len(parts), rules=rules)
        for depth in range(1, len(parts) + 1)
    )
