"""Pages to Markdown: what a reader sees comes through, what they do not see stays out."""

from __future__ import annotations

import pytest

from agentmem.base.errors import InvalidText
from agentmem.sources.pages import (
    hidden_selectors,
    hides,
    looks_like_html,
    to_markdown,
    write_markdown,
)
from agentmem.text.decode import decode, looks_binary

LONG = "The service runs every night and writes its results to the shared store. " * 3
PAGE = f"""
<!doctype html><html lang="en"><head><title> Deploying&nbsp;Foo </title>
<meta property="article:published_time" content="2024-05-01">
<style>.promo {{ color: red; display:none }} @media print {{ .shown {{ display:none }} }}</style>
<script>var secret = "scripted words";</script></head>
<body>
<nav><a href="/">Home</a> <a href="/jobs">Careers</a></nav>
<article><h1>Deploying Foo</h1><p>{LONG}It was built by <a href="/t">the team</a>.</p>
<!-- commented words -->
<h2>Steps</h2><ol><li>Install it<ul><li>with pip</li></ul></li><li>Start it</li></ol>
<table><tr><th>Name</th><th>Port</th></tr><tr><td>foo</td><td>8080</td></tr></table>
<pre>foo run \\
  --now</pre>
<p style="display : none">inline words</p><p hidden>attribute words</p>
<p class="promo">sheet words</p><p class="shown">Printed differently, but seen.</p>
<p aria-hidden="true">aria words</p><div style="opacity:0">clear words</div>
<div style="font-size:0px">tiny words</div><div style="left:-9999px">far words</div>
<noscript>noscript words</noscript><template>template words</template>
</article><footer>Imprint</footer></body></html>
"""
HIDDEN = (
    "scripted", "commented", "inline words", "attribute words", "sheet words", "aria words",
    "clear words", "tiny words", "far words", "noscript words", "template words", "Careers",
)  # fmt: skip


def test_a_page_becomes_clean_markdown() -> None:
    page = to_markdown(PAGE)
    assert (page.title, page.language, page.published) == ("Deploying Foo", "en", "2024-05-01")
    for expected in (
        "# Deploying Foo", "built by the team.", "## Steps", "1. Install it", "with pip",
        "2. Start it", "| Name | Port |", "| foo | 8080 |", "foo run \\\n  --now",
        "Printed differently, but seen.",
    ):  # fmt: skip
        assert expected in page.text, expected
    for hidden in HIDDEN:
        assert hidden not in page.text, hidden
    assert "/t)" not in page.text


def test_the_plain_way_hides_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentmem.sources.pages._main_text", lambda tree: "")
    page = to_markdown(PAGE)
    assert "| foo | 8080 |" in page.text
    for hidden in (*HIDDEN, "Imprint"):
        assert hidden not in page.text, hidden


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        ("<p>one<p>two", "one\n\ntwo"),
        ("<div>a <b>bold</b> word</div>", "a bold word"),
        ("<ul><li>a<li>b</ul>", "- a\n- b"),
        ("<ul><li>a<ul><li>b</ul></ul>", "- a\n  - b"),
        ("<blockquote>wise</blockquote>", "> wise"),
        ("<dl><dt>Port</dt><dd>8080</dd></dl>", "Port\n: 8080"),
        ("<p>a<br>b</p>", "a\nb"),
        ("<pre>x\n  ```\ny</pre>", "````\nx\n  ```\ny\n````"),
        ("<table><tr><td>only one column</td></tr></table>", "only one column"),
        ("<table><tr><td>a|b</td><td>c</td></tr></table>", "| a\\|b | c |\n| --- | --- |"),
        ("plain words", "plain words"),
        ("<p>caf&eacute; &#x4e2d; &amp;lt;</p>", "café 中 &lt;"),
    ],
)
def test_the_plain_way_keeps_structure(
    html: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentmem.sources.pages._main_text", lambda tree: "")
    assert to_markdown(html).text == expected


def test_a_page_of_nothing_but_navigation_still_gives_its_words() -> None:
    assert "Opening hours" in to_markdown("<nav><p>Opening hours: 9 to 5</p></nav>").text


def test_a_main_text_that_misses_most_of_the_page_is_not_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("agentmem.sources.pages._main_text", lambda tree: "a line")
    assert "every night" in to_markdown(PAGE).text


def test_a_main_text_without_the_headings_of_the_page_is_not_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("agentmem.sources.pages._main_text", lambda tree: "Foo\nFoo is here.")
    assert to_markdown("<h1>Foo</h1><p>Foo is here.</p>").text == "# Foo\n\nFoo is here."


def test_a_parser_that_fails_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(tree: object, **options: object) -> str:
        raise ZeroDivisionError

    monkeypatch.setattr("trafilatura.extract", broken)
    assert "every night" in to_markdown(PAGE).text


@pytest.mark.parametrize(
    "html", ["", " ", "\0", "<!-- only -->", "<script>x</script>", b"", b"\xff"]
)
def test_pages_without_words_are_empty_or_harmless(html: str | bytes) -> None:
    assert to_markdown(html).text in ("", "ÿ", "\ufffd")


def test_what_is_no_page_is_a_typed_error() -> None:
    for value in (None, 7, ["<p>"]):
        with pytest.raises(InvalidText):
            to_markdown(value)  # type: ignore[arg-type]  # on purpose


def test_deep_and_long_pages_are_read() -> None:
    deep = "<div>" * 3_000 + "deep words" + "</div>" * 3_000
    assert to_markdown(deep).text in ("deep words", "")
    wide = "<p>" + "word " * 200_000 + "</p>"
    assert len(to_markdown(wide).text) > 900_000


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("<!DOCTYPE html><p>x", True),
        ("\ufeff \n<html><body>x", True),
        ("<!-- c --><html>", True),
        ("<?xml version='1.0'?><html>", True),
        ("<div><p>hello</p></div>", True),
        ("<p>hello</p>", True),
        ("# Title\n\n<div>html inside</div>", False),
        ("<p align='center'>logo</p>\n\n# Project\n\n- item", False),
        ("a < b and c > d", False),
        ("<user> said: hi", False),
        ("", False),
        ("plain", False),
        ("```html\n<html></html>\n```", False),
    ],
)
def test_html_is_told_from_markdown(text: str, html: bool) -> None:
    assert looks_like_html(text.removeprefix("\ufeff")) is html


def test_style_sheets_hide_by_plain_rules_only() -> None:
    css = """
    /* .c1 { display:none } */
    .a, div.b , #c { display: none }
    .d:hover { display:none } .e .f { display:none } .g { display:block }
    @media (max-width: 1px) { .h { display:none } .i { visibility:hidden } }
    @import url(x.css);
    .j { visibility: hidden }
    """
    assert hidden_selectors(css) == (frozenset({"a", "b", "j"}), frozenset({"c"}))


@pytest.mark.parametrize(
    "style", ["opacity:0.5", "opacity: 0.05", "display:block", "left:-10px", ""]
)
def test_what_is_merely_pale_or_shifted_is_seen(style: str) -> None:
    assert not hides(style)


@pytest.mark.parametrize(
    ("text", "name", "label"),
    [
        ("Grüße", "utf-8", ""),
        ("Grüße", "utf-8", "iso-8859-1"),
        ("Grüße “quoted”", "cp1252", "iso-8859-1"),
        ("日本語のページ", "shift_jis", "Shift_JIS"),
        ("日本語のページ", "iso-2022-jp", "iso-2022-jp"),
        ("中文网页内容", "gb2312", "gb2312"),
        ("Привет, мир", "koi8-r", "koi8-r"),
        ("Grüße aus Köln", "utf-16", ""),
        ("plain latin text", "utf-16-be", ""),
    ],
)
def test_bytes_are_read_by_what_they_are(text: str, name: str, label: str) -> None:
    assert decode(text.encode(name), declared=label) == text


def test_meta_and_xml_declarations_are_believed() -> None:
    for head in ('<meta charset="windows-1251">', '<meta content="text/html; charset=cp1251">'):
        assert "Привет" in decode((head + "<p>Привет").encode("cp1251"))
    xml = '<?xml version="1.0" encoding="iso-8859-2"?><p>łódź</p>'
    assert "łódź" in decode(xml.encode("iso-8859-2"))


@pytest.mark.parametrize("label", ["utf-7", "punycode", "rot13", "zlib", "idna", "x" * 1000, "\0"])
def test_odd_labels_are_not_followed(label: str) -> None:
    assert decode(b"+ADw-script+AD4-", declared=label) == "+ADw-script+AD4-"


def test_binary_is_told_from_text() -> None:
    assert looks_binary(b"\x89PNG\r\n\x1a\n\0\0\0")
    assert looks_binary(bytes(range(256)) * 4)
    assert not looks_binary(b"")
    assert not looks_binary("Grüße\n\t".encode("latin-1"))
    assert not looks_binary("text".encode("utf-16"))


def test_writing_a_tree_does_not_change_it() -> None:
    from lxml import html

    tree = html.fromstring("<div><p>a</p><table><tr><td>b</td><td>c</td></tr></table></div>")
    assert write_markdown(tree) == write_markdown(tree)
