"""The page in a real browser, over ten thousand memories."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import agentmem
from agentmem.server.app import create_app
from agentmem.server.tokens import Tokens
from tests.servers.browser import chromium
from tests.servers.serving import Serving

pytestmark = pytest.mark.deep
AXE = Path(__file__).parents[1] / "vendor" / "axe.min.js"
NASTY = "<script>document.title='owned'</script> ![x](https://evil.example/a.png) \x1b[31mred"


@pytest.fixture(scope="module")
def opened() -> Iterator[tuple[Any, agentmem.MemoryManager, str, list[str]]]:
    """A page that is signed in, the memory behind it, its address, and the hosts it asked."""
    try:
        started = chromium()
        browser = started.__enter__()
    except (ImportError, FileNotFoundError) as missing:
        pytest.skip(f"no browser: {missing}")
    with agentmem.open(":memory:", embedder=None) as memory:
        texts = [f"Note {n}: the shelf {n % 97} holds box {n * 7 % 1009}." for n in range(10_000)]
        memory.sources.add_document(texts, url="https://example.org/shelves", user_id="ann")
        memory.add("The API limit is 100 requests per minute.", user_id="ann")
        memory.add("The API limit is 500 requests per minute.", user_id="ann")
        memory.add(NASTY, user_id="ann")
        memory.preferences.add("I prefer tea.", user_id="ann")
        question = "What is the API limit, requests per minute?"
        with memory.turn([{"role": "user", "content": question}], user_id="ann") as turn:
            turn.done("500 [1].")
        memory.flush()
        token, _ = Tokens(memory.store.settings).make(admin=True)
        with Serving(create_app(memory)) as served:
            hosts: list[str] = []
            page = browser.new_page(viewport={"width": 1280, "height": 900})
            page.on("request", lambda request: hosts.append(request.url))
            page.goto(f"{served.url}/login")
            page.fill("#token", token)
            page.keyboard.press("Enter")
            page.wait_for_url(f"{served.url}/")
            yield page, memory, served.url, hosts
        started.__exit__(None, None, None)


def views(memory: agentmem.MemoryManager) -> list[str]:
    context = memory.runtime.trace.last(scope=None)
    assert context is not None
    (nasty,) = [one for one in memory.get_all(user_id="ann", limit=10) if one.text == NASTY]
    return ["/", f"/contexts/{context.id}", "/memories", f"/memories/{nasty.id}", "/people",
            "/contradictions", "/care"]  # fmt: skip


def test_axe_finds_nothing_on_any_view_light_or_dark_small_or_large(opened: Any) -> None:
    page, memory, url, _ = opened
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        for width in (360, 1600):
            page.set_viewport_size({"width": width, "height": 800})
            for view in views(memory):
                page.goto(url + view)
                page.evaluate(AXE.read_text("utf-8"))  # not a script tag: the CSP refuses those
                found = page.evaluate("async () => (await axe.run()).violations")
                assert found == [], (scheme, width, view, json.dumps(found)[:2_000])
                wide = page.evaluate("document.documentElement.scrollWidth")
                assert wide <= width, (view, wide)
    page.set_viewport_size({"width": 1280, "height": 900})


def test_search_and_what_if_work_by_keyboard(opened: Any) -> None:
    page, memory, url, _ = opened
    page.goto(f"{url}/memories")
    page.keyboard.press("/")
    page.keyboard.type("API limit requests")
    page.wait_for_selector("#found:has-text('best first')")
    assert "score" in page.inner_text("#found")
    page.goto(url + views(memory)[1])
    page.focus("#k")
    page.keyboard.press("Control+A")
    page.keyboard.type("0")
    page.wait_for_selector("#fates:has-text('was kept')")


def test_a_memory_is_edited_and_a_contradiction_resolved_and_undone(opened: Any) -> None:
    page, memory, url, _ = opened
    page.goto(url + views(memory)[3])
    page.fill("#text", f"{NASTY} edited")
    page.click("text=Save")
    page.wait_for_selector("text=Changed.")
    page.click("text=Undo to this")
    page.wait_for_selector("text=Changed.")
    assert memory.living.contradictions(user_id="ann")
    page.goto(f"{url}/contradictions")
    page.click("text=B is true")
    page.wait_for_selector("text=Resolved.")
    page.goto(f"{url}/care")
    page.click("button:has-text('Undo') >> nth=0")
    page.wait_for_selector("text=Undone:")
    assert memory.living.contradictions(user_id="ann")


def test_stored_text_does_nothing_and_no_request_leaves_the_host(opened: Any) -> None:
    page, memory, url, hosts = opened
    for view in views(memory):
        page.goto(url + view)
        assert "agentmem" in page.title()
        assert page.query_selector("main img") is None
    assert hosts
    assert all(one.startswith(f"{url}/") for one in hosts)
