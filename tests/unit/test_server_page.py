"""The page, read as a browser without JavaScript reads it."""

from __future__ import annotations

import re
from collections.abc import Iterator

import httpx
import pytest

import agentmem
from agentmem.base.types import Scope
from agentmem.server.app import create_app
from agentmem.server.tokens import Tokens
from tests.servers.serving import Serving

NASTY = "<script>alert(1)</script> ![x](https://evil.example/a.png) \x1b[31mred\x1b[0m \u202egold"
VIEWS = ("/", "/memories", "/people", "/contradictions", "/care")


@pytest.fixture
def memory() -> Iterator[agentmem.MemoryManager]:
    with agentmem.open(":memory:", embedder=None) as opened:
        yield opened


@pytest.fixture
def client(memory: agentmem.MemoryManager) -> Iterator[httpx.Client]:
    with Serving(create_app(memory)) as served, httpx.Client(follow_redirects=True) as made:
        made.base_url = httpx.URL(served.url)
        yield made


def sign_in(client: httpx.Client, memory: agentmem.MemoryManager, user: str | None = None) -> None:
    tokens = Tokens(memory.store.settings)
    token, _ = tokens.make(scope=Scope(user_id=user)) if user else tokens.make(admin=True)
    answer = client.post("/login", data={"token": token})
    assert answer.status_code == 200
    assert "agentmem" in answer.text


def csrf_in(text: str) -> str:
    found = re.search(r'name="csrf" value="(\w+)"', text)
    assert found is not None
    return found[1]


def post(client: httpx.Client, at: str, path: str, **said: str) -> httpx.Response:
    return client.post(path, data={"csrf": csrf_in(client.get(at).text), **said})


def test_every_view_teaches_the_first_step_when_there_is_nothing(
    client: httpx.Client, memory: agentmem.MemoryManager
) -> None:
    assert "Your token" in client.get("/").text
    sign_in(client, memory)
    for view in (*VIEWS, "/memories?contested=1", "/memories?contested=1&q=tea"):
        answer = client.get(view)
        assert answer.status_code == 200
        assert 'class="empty"' in answer.text
        assert "<script>" not in answer.text
        assert "style=" not in answer.text


def test_contested_memories_are_found_behind_any_number_of_newer_ones(
    client: httpx.Client, memory: agentmem.MemoryManager
) -> None:
    for limit in (100, 500):
        memory.add(f"The API limit is {limit} requests per minute.", user_id="ann")
    memory.flush()
    assert memory.living.contradictions(user_id="ann")
    memory.sources.add_document(
        [f"The API limit page {n} is long." for n in range(60)], url="x://", user_id="ann"
    )
    sign_in(client, memory, "ann")
    for asked in ({}, {"q": "API limit"}, {"kind": "fact"}):
        found = client.get("/memories", params={"contested": "1", **asked}).text
        assert "is 100 requests" in found
        assert "is 500 requests" in found
        assert "is long" not in found
    assert "is 100" not in client.get("/memories", params={"contested": "1", "kind": "page"}).text


def test_care_comes_before_its_health_which_is_asked_for_then(
    client: httpx.Client, memory: agentmem.MemoryManager
) -> None:
    sign_in(client, memory)
    first = client.get("/care").text
    assert 'hx-get="/care?user=&amp;check=1"' in first
    assert "sqlite" not in first
    for answer in (
        client.get("/care?user=&check=1"),
        client.get("/care?user=&check=1", headers={"hx-target": "health"}),
    ):
        assert "<td>sqlite</td>" in answer.text
        assert "0 contexts in the last 7 days" in answer.text
    assert "<html" not in answer.text
    assert "hx-trigger" not in answer.text


def test_a_users_health_says_nothing_of_the_machine(
    client: httpx.Client, memory: agentmem.MemoryManager
) -> None:
    sign_in(client, memory, "ann")
    answer = client.get("/care?check=1").text
    assert "0 contexts in the last 7 days" in answer
    assert "sqlite" not in answer


def test_a_session_is_known_by_a_cookie_that_no_script_reads(
    client: httpx.Client, memory: agentmem.MemoryManager
) -> None:
    tokens = Tokens(memory.store.settings)
    token, grant = tokens.make(admin=True)
    assert client.post("/login", data={"token": "amem_x_y"}).status_code == 401
    answer = client.post("/login", data={"token": token}, follow_redirects=False)
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert token not in cookie
    assert client.get("/care").url.path == "/care"
    assert client.get("/v1/memories").status_code == 401  # the cookie opens the page alone
    tokens.revoke(grant.id)
    assert client.get("/care").url.path == "/login"
    client.cookies.set("agentmem_session", tokens.session_of(grant, seconds=-1))
    assert client.get("/care").url.path == "/login"


def test_forms_of_other_sites_do_nothing(
    client: httpx.Client, memory: agentmem.MemoryManager
) -> None:
    memory.add("Ann's cat is called Miso.", user_id="ann")
    (kept,) = memory.get_all(user_id="ann")
    sign_in(client, memory, "ann")
    where = f"/page/memories/{kept.id}/erase"
    assert client.post(where).status_code == 403
    assert client.post(where, data={"csrf": "0" * 32}).status_code == 403
    real = csrf_in(client.get(f"/memories/{kept.id}").text)
    evil = {"origin": "http://evil.example"}
    assert client.post(where, data={"csrf": real}, headers=evil).status_code == 403
    assert memory.get(kept.id, user_id="ann") == kept
    faked = client.get("/memories", params={"note": "You were hacked", "sign": "0" * 16})
    assert "hacked" not in faked.text


def test_a_context_shows_what_was_sent_and_what_other_settings_would_do(
    client: httpx.Client, memory: agentmem.MemoryManager
) -> None:
    memory.add("Ann's cat is called Miso.", user_id="ann")
    asked = [{"role": "user", "content": "What is my cat called, Miso?"}]
    with memory.turn(asked, user_id="ann", model="gpt-4o") as turn:
        turn.done("Miso [1].")
    memory.flush()
    sign_in(client, memory)
    assert "What is my cat called" in client.get("/").text
    where = f"/contexts/{turn.snapshot_id}"
    page = client.get(where).text
    assert "agentmem reference" in page
    assert '<a href="#source-1">[1]</a>' in page
    assert 'id="source-1"' in page
    changed = client.get(where, params={"similarity_threshold": "1", "top_k": "0"}).text
    assert "(was kept)" in changed
    part = client.get(where, params={"top_k": "0"}, headers={"hx-target": "fates"}).text
    assert part.lstrip().startswith('<div id="fates"')
    assert "<html" not in part
    assert "is not a number" in client.get(where, params={"top_k": "many"}).text
    assert client.get("/contexts/nothing").status_code == 404


def test_memories_are_found_changed_undone_and_erased(
    client: httpx.Client, memory: agentmem.MemoryManager
) -> None:
    memory.add("Ann's cat is called Miso.", user_id="ann")
    memory.add("The harbour closes at nine.", user_id="ann", kind="episode")
    sign_in(client, memory, "ann")
    found = client.get("/memories", params={"q": "cat called Miso"}).text
    assert "Miso" in found
    assert "score" in found
    assert "harbour" not in client.get("/memories", params={"kind": "fact"}).text
    (kept,) = memory.get_all(user_id="ann", kinds=["fact"])
    at = f"/memories/{kept.id}"
    done = post(client, at, f"/page{at}/edit", text="Ann's cat is called Moss.")
    assert "Changed." in done.text
    assert "Undo to this" in done.text
    assert memory.get(kept.id, user_id="ann").text == "Ann's cat is called Moss."
    post(client, at, f"/page{at}/edit", text="Ann's cat is called Miso.")
    newer = post(client, at, f"/page{at}/supersede", text="Ann has no cat.")
    assert "Ann has no cat." in newer.text
    (now,) = memory.get_all(user_id="ann", kinds=["fact"])
    assert "Erased" in post(client, f"/memories/{now.id}", f"/page/memories/{now.id}/erase").text
    (episode,) = memory.get_all(user_id="ann", kinds=["episode"])
    where = f"/memories/{episode.id}"
    assert "Forgotten" in post(client, where, f"/page{where}/forget").text
    assert memory.get_all(user_id="ann", kinds=["episode"]) == ()


def test_contradictions_and_preferences_are_settled_and_runs_undone(
    client: httpx.Client, memory: agentmem.MemoryManager
) -> None:
    memory.add("The API limit is 100 requests per minute.", user_id="ann")
    memory.add("The API limit is 500 requests per minute.", user_id="ann")
    memory.preferences.add("I prefer tea.", user_id="ann")
    memory.flush()
    sign_in(client, memory)
    (found,) = memory.living.contradictions(user_id="ann")
    assert "contested" in client.get("/memories", params={"contested": "1"}).text
    where = f"/page/contradictions/{found.id}/resolve"
    assert post(client, "/contradictions", where, resolution="x", user="ann").status_code == 422
    done = post(client, "/contradictions", where, resolution="b_wins", note="n", user="ann")
    assert "Resolved." in done.text
    (run,) = [one for one in memory.living.journal(user_id="ann") if one.undone_at is None][:1]
    assert "Undone" in post(client, "/care", f"/page/runs/{run.id}/undo", user="ann").text
    assert memory.living.contradictions(user_id="ann")
    both = "The API limit is 100 requests per minute, for partners 500."
    post(client, "/contradictions", where, resolution="merged", text=both, user="ann")
    assert both in [one.text for one in memory.get_all(user_id="ann")]
    (tea,) = memory.preferences.get_all(user_id="ann")
    page = client.get("/people").text
    assert "I prefer tea." in page
    assert (
        "Taken back" in post(client, "/people", f"/page/preferences/{tea.id}/undo", user="ann").text
    )
    assert "Looked at" in post(client, "/care", "/page/consolidate", user="ann").text


def test_counts_are_said_as_people_say_them(
    client: httpx.Client, memory: agentmem.MemoryManager
) -> None:
    memory.add("Bob keeps bees.", user_id="bob")
    sign_in(client, memory)
    assert "1 shown of 1 memory," in client.get("/memories?user=bob").text
    assert ">1 memory<" in client.get("/people?user=bob").text
    assert ">0 jobs<" in client.get("/care?user=bob").text
    memory.add("Bob keeps wasps, too.", user_id="bob")
    assert "2 shown of 2 memories," in client.get("/memories?user=bob").text


def test_what_is_stored_stays_text(client: httpx.Client, memory: agentmem.MemoryManager) -> None:
    memory.add(NASTY, user_id="<b>ann", metadata={"<i>": NASTY})
    asked = [{"role": "user", "content": f"red gold {NASTY}"}]
    with memory.turn(asked, user_id="<b>ann") as turn:
        turn.done(f"[1] {NASTY}")
    memory.flush()
    sign_in(client, memory)
    one = memory.get_all(user_id="<b>ann", kinds=["fact"])[0]
    views = [*VIEWS, f"/contexts/{turn.snapshot_id}", f"/memories/{one.id}", "/memories?q=red+gold"]
    for view in views:
        text = client.get(view).text
        for raw in ("<script>alert", "<img", "<b>", "<i>", "\x1b", "\u202e"):
            assert raw not in text, (view, raw)
    assert "&lt;script&gt;alert(1)" in client.get(f"/memories/{one.id}").text


def test_a_user_sees_no_other_person_on_any_view(
    client: httpx.Client, memory: agentmem.MemoryManager
) -> None:
    memory.add("Ann's plan is gold.", user_id="ann")
    with memory.turn([{"role": "user", "content": "gold plan?"}], user_id="ann") as turn:
        turn.done("Yes.")
    memory.flush()
    (one, *_) = memory.get_all(user_id="ann", kinds=["fact"])
    sign_in(client, memory, "bob")
    for view in (*VIEWS, *(f"{view}?user=ann" for view in VIEWS)):
        text = client.get(view).text
        assert "gold" not in text
        assert ">ann<" not in text
    for path in (f"/contexts/{turn.snapshot_id}", f"/memories/{one.id}?user=ann"):
        assert client.get(path).status_code == 404
