"""The page: what the model was told and why, what is remembered, and the care of it.

Templates and one script are in the package, nothing is fetched from elsewhere.
Every view is read without JavaScript; htmx only refreshes a block of it.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from agentmem.base.errors import AgentMemError, InvalidInput, MalformedRequest, NotPermitted
from agentmem.base.filters import Selection, parse_filter
from agentmem.base.types import Hit, Memory, Scope, Whose
from agentmem.inspector.doctor import examine
from agentmem.inspector.look import explain, replay_context, trace_of
from agentmem.inspector.stats import collect_stats, read_span
from agentmem.prompt.snapshot import Snapshot
from agentmem.server.http import (
    SESSION,
    door_of,
    error_fields,
    grant_of,
    say,
    status_of,
)
from agentmem.server.tokens import SESSION_SECONDS, Grant
from agentmem.text.clean import drop_invisible

HERE = Path(__file__).parent
SHOWN = 50
"""So many memories and contexts are on one page."""
OPEN_PATHS = ("/login", "/static/")
PAGE_PATHS = (
    "/", "/contexts/", "/memories", "/memories/", "/people", "/contradictions", "/care", "/page/",
    "/logout",
)  # fmt: skip
WHAT_IF = ("similarity_threshold", "top_k", "knowledge_budget")
_CITED = re.compile(r"\[(\d{1,3})\]")  # [2]
_KINDS = ("fact", "preference", "message", "page", "episode", "pattern", "workflow", "tool_result")

Values = dict[str, Any]
View = Callable[["PageRequest"], Values]
Action = Callable[["PageRequest"], tuple[str, str]]


class PageRequest:
    """One request to the page: who asks, whose memory is looked at, and what was typed."""

    def __init__(self, request: Request, said: Mapping[str, str]) -> None:
        self.memory = door_of(request).memory.manager
        self.grant: Grant = grant_of(request)
        self.said = said
        self.params = request.path_params
        self.partial = request.headers.get("hx-target", "")

    def text(self, name: str) -> str:
        return self.said.get(name, "").strip()

    @cached_property
    def scope(self) -> Scope:
        """Whose memory is looked at: the token's; an admin chooses, at first who has the most."""
        if not self.grant.admin:
            return self.grant.scope
        named = {f"{name}_id": self.text(name) or None for name in ("user", "project", "agent")}
        if not any(named.values()) and "user" not in self.said and self.grant.scope == Scope():
            named["user_id"] = next(iter(self.memory.upkeep.users()), None)
        return self.grant.narrowed(Scope(**named))

    @property
    def names(self) -> Whose:
        return self.scope.whose

    @property
    def everybody(self) -> Scope | None:
        """The scope for contexts: all of them for an admin who names nobody."""
        if not self.grant.admin:
            return self.grant.scope
        scope = self.grant.narrowed(Scope(user_id=self.text("user") or None))
        return self.grant.reader(scope)

    @property
    def carried(self) -> dict[str, str]:
        """Whose memory it is, as links and forms of an admin carry it."""
        scope = self.scope
        said = {"user": scope.user_id, "project": scope.project_id, "agent": scope.agent_id}
        named = {name: value for name, value in said.items() if value}
        return (named or {"user": ""}) if self.grant.admin else {}

    @property
    def whose(self) -> Values:
        """Whose memory it is and whose an admin may choose, for templates."""
        users = self.memory.upkeep.users() if self.grant.admin else ()
        return {
            "scope": self.scope,
            "users": [user for user in users if user],
            "carried": self.carried,
            "carry": f"?{urlencode(self.carried)}" if self.carried else "",
        }


# ----------------------------------------------------------------------------
# The views: each gives the values of its template.


def live(asked: PageRequest) -> Values:
    """Contexts as they happen."""
    found = trace_of(asked.memory).list(limit=SHOWN, scope=asked.everybody, texts=False)
    return {"contexts": found}


def one_context(asked: PageRequest) -> Values:
    """The exact message that was sent, each candidate's fate, and what other settings would do."""
    snapshot = explain(asked.memory, asked.params["context_id"], scope=asked.everybody)
    settings = {name: str(snapshot.settings.get(name, "")) for name in WHAT_IF}
    wanted = {name: asked.text(name) or settings[name] for name in WHAT_IF}
    replayed, problem = None, ""
    if any(name in asked.said for name in WHAT_IF):
        try:
            replayed = replay_context(asked.memory, wanted, snapshot.id, scope=asked.everybody)
        except InvalidInput as error:
            problem = str(error)
    knowledge = [seen for seen in snapshot.kept if seen.section == "knowledge"]
    return {
        "context": snapshot,
        "numbers": {seen.id: at for at, seen in enumerate(knowledge, 1)},
        "settings": settings,
        "wanted": wanted,
        "replayed": replayed,
        "problem": problem,
    }


def memories(asked: PageRequest) -> Values:
    """What is remembered: found by words and filters, or the newest."""
    kinds = (asked.text("kind"),) if asked.text("kind") else None
    url = asked.text("source") or None
    now = asked.memory.clock.now()
    since = now - read_span(asked.text("since")) if asked.text("since") else None
    contested = _contested(asked)
    wanted: Values = {"id": {"in": [*contested]}} if asked.text("contested") else {}
    candidates: Mapping[str, Any] = {}
    shown: list[tuple[Memory, Hit | None]]
    if asked.text("q"):
        found = asked.memory.search(
            asked.text("q"), top_k=SHOWN, explain=True, filters=wanted, kinds=kinds, url=url,
            since=since, **asked.names,
        )  # fmt: skip
        shown = [(hit.memory, hit) for hit in found]
        candidates = {one.id: one for one in found.candidates}
    else:
        selection = Selection(
            reader=asked.scope, where=parse_filter(wanted), kinds=kinds, source_url=url, since=since
        )
        shown = [(one, None) for one in asked.memory.store.recent(selection, limit=SHOWN)]
    return {
        "shown": shown,
        "candidates": candidates,
        "contested": contested,
        "kinds": _KINDS,
        "total": asked.memory.store.count(Selection(reader=asked.scope)),
        "query": asked.text("q"),
        "said": {n: asked.text(n) for n in ("q", "kind", "source", "since", "contested")},
        **asked.whose,
    }


def _contested(asked: PageRequest) -> dict[str, str]:
    """The memories that an open contradiction is about, each with its id."""
    found = asked.memory.living.contradictions(**asked.names)
    return {side.id: one.id for one in found for side in (one.a, one.b)}


def one_memory(asked: PageRequest) -> Values:
    """One memory: what it says, said before, and what can be done with it."""
    found = asked.memory.get(asked.params["memory_id"], **asked.names)
    return {
        "memory": found,
        "versions": asked.memory.history(found.id, **asked.names),
        "contradiction": _contested(asked).get(found.id),
        **asked.whose,
    }


def people(asked: PageRequest) -> Values:
    """Users and projects, and the profile of one."""
    store, projects = asked.memory.store, dict[str, int]()
    counts: Mapping[str | None, int] = {}
    if asked.grant.admin:
        counts = asked.memory.upkeep.users()
        for name in dict.fromkeys(owner.project_id for owner in store.upkeep.owners()):
            if name is not None:
                shared = Selection(reader=Scope(project_id=name), visibilities=("project",))
                projects[name] = store.count(shared)
    mine = store.upkeep.stats(asked.scope)
    return {
        "counts": counts or {asked.scope.user_id: mine.chunks},
        "projects": projects,
        "preferences": asked.memory.preferences.get_all(**asked.names),
        "kinds": mine.kinds,
        **asked.whose,
    }


def contradictions(asked: PageRequest) -> Values:
    """What cannot both be true, side by side."""
    every = asked.memory.living.contradictions(open_only=False, **asked.names)
    return {
        "open": [one for one in every if one.open],
        "settled": [one for one in every if not one.open][-SHOWN:],
        **asked.whose,
    }


def care(asked: PageRequest) -> Values:
    """Runs and their undo, the queue, the index, the disk; when it is asked for, the health.

    The health reads the whole store, so the page comes first and asks for it then.
    """
    now = asked.memory.clock.now()
    checked: dict[str, Any] = {"report": None, "week": None}
    if asked.text("check"):
        last = timedelta(days=7)
        checked = {
            "report": examine(asked.memory, now=now) if asked.grant.admin else None,
            "week": collect_stats(asked.memory, now=now, last=last, scope=asked.everybody).contexts,
        }
        if asked.partial == "health":
            return checked
    return {
        "runs": asked.memory.living.journal(SHOWN, **asked.names),
        "stats": collect_stats(asked.memory, now=now, last=timedelta(0), scope=asked.everybody),
        **checked,
        **asked.whose,
    }


VIEWS: Mapping[str, tuple[str, str, View]] = {
    "/": ("live.html", "Live", live),
    "/contexts/{context_id}": ("context.html", "One context", one_context),
    "/memories": ("memories.html", "Memories", memories),
    "/memories/{memory_id}": ("memory.html", "One memory", one_memory),
    "/people": ("people.html", "People", people),
    "/contradictions": ("contradictions.html", "Contradictions", contradictions),
    "/care": ("care.html", "Care", care),
}


# ----------------------------------------------------------------------------
# What the forms do; each gives where to go on, and what was done.


def edit(asked: PageRequest) -> tuple[str, str]:
    """Change what a memory says."""
    text = asked.said.get("text", "")
    if asked.text("version").isdecimal():  # as it was, to the character
        earlier = asked.memory.history(asked.params["id"], **asked.names)
        text = earlier[min(int(asked.text("version")), len(earlier) - 1)].memory.text
    asked.memory.update(asked.params["id"], text, **asked.names)
    return f"/memories/{asked.params['id']}", "Changed. What it said before is in its history."


def supersede(asked: PageRequest) -> tuple[str, str]:
    """Put a newer statement in its place."""
    new = asked.memory.living.supersede(asked.params["id"], asked.text("text"), **asked.names)
    return f"/memories/{new.id}", "This stands in its place now; the older one is kept."


def forget(asked: PageRequest) -> tuple[str, str]:
    """Take it out of every read."""
    asked.memory.delete(asked.params["id"], **asked.names)
    return "/memories", "Forgotten: no read shows it. Its bytes stay until it is erased."


def erase(asked: PageRequest) -> tuple[str, str]:
    """Remove its bytes."""
    receipt = asked.memory.erase(asked.params["id"], **asked.names)
    done = " from every file" if receipt.complete else "; the last bytes go when readers are done"
    return "/memories", f"Erased {number(len(receipt.ids), 'memory')}{done}."


def take_back(asked: PageRequest) -> tuple[str, str]:
    """Take a preference back."""
    asked.memory.preferences.undo(asked.params["id"], **asked.names)
    return "/people", "Taken back; what it had replaced holds again."


def resolve(asked: PageRequest) -> tuple[str, str]:
    """Say which of two is true."""
    wanted = asked.text("resolution")
    done = asked.memory.living.resolve(
        asked.params["id"],
        wanted,  # type: ignore[arg-type]  # what it is not is refused there
        note=asked.text("note"),
        text=asked.text("text") if wanted == "merged" else "",
        **asked.names,
    )
    return "/contradictions", f"Resolved. It can be undone under Care ({done.journal_id[-8:]})."


def undo(asked: PageRequest) -> tuple[str, str]:
    """Take a run back."""
    done = asked.memory.living.undo(asked.params["id"], **asked.names)
    return "/care", f"Undone: {number(done.restored, 'memory')} as before."


def consolidate(asked: PageRequest) -> tuple[str, str]:
    """Merge, shorten and forget now."""
    report = asked.memory.living.consolidate(**asked.names)
    return "/care", f"Looked at {number(report.looked_at, 'memory')}; see the run below."


ACTIONS: Mapping[str, Action] = {
    "/page/memories/{id}/edit": edit,
    "/page/memories/{id}/supersede": supersede,
    "/page/memories/{id}/forget": forget,
    "/page/memories/{id}/erase": erase,
    "/page/preferences/{id}/undo": take_back,
    "/page/contradictions/{id}/resolve": resolve,
    "/page/runs/{id}/undo": undo,
    "/page/consolidate": consolidate,
}


# ----------------------------------------------------------------------------
# The routes.


def routes() -> list[BaseRoute]:
    """Every view, every form, and what they are made of."""
    return [
        *(Route(path, partial(_show, *view), methods=["GET"]) for path, view in VIEWS.items()),
        *(Route(path, partial(_do, act), methods=["POST"]) for path, act in ACTIONS.items()),
        Route("/login", login, methods=["GET", "POST"]),
        Route("/logout", logout, methods=["POST"]),
        Mount("/static", StaticFiles(directory=HERE / "static")),
    ]


async def _show(template: str, title: str, view: View, request: Request) -> Response:
    door = door_of(request)
    asked = PageRequest(request, dict(request.query_params))
    try:
        values = await door.memory.run(view, asked)
    except AgentMemError as error:
        return _sorry(request, error)
    note, sign = (request.query_params.get(name, "") for name in ("note", "sign"))
    if note and door.tokens.is_signed("note", note, sign):
        values["said_done"] = note
    values |= {"title": title, "at": request.url.path, "partial": asked.partial}
    return await door.memory.run(_render, request, template, values)


async def _do(act: Action, request: Request) -> Response:
    door = door_of(request)
    try:
        asked = PageRequest(request, await _form(request))
        where, note, carried = await door.memory.run(lambda: (*act(asked), asked.carried))
    except AgentMemError as error:
        return _sorry(request, error)
    # What was done is signed, so that no link can put words on the page.
    query = urlencode({**carried, "note": note, "sign": door.tokens.signed("note", note)})
    return RedirectResponse(f"{where}?{query}", 303)


async def _form(request: Request) -> dict[str, str]:
    """What a form says, if it is one that this session was given."""
    raw = await request.body()
    try:
        said = dict(parse_qsl(raw.decode(), keep_blank_values=True, max_num_fields=50))
    except ValueError:
        raise MalformedRequest("The form cannot be read.") from None
    session = request.cookies.get(SESSION, "")
    if not door_of(request).tokens.is_signed("csrf", session, said.pop("csrf", "")):
        raise NotPermitted("This form is not of this session.", remedy="Reload the page.")
    return said


def _sorry(request: Request, error: AgentMemError) -> Response:
    values = {"title": "Not done", "error": error_fields(error)}
    return _render(request, "error.html", values, status=status_of(error))


def _render(request: Request, template: str, values: Values, *, status: int = 200) -> Response:
    """A template as an answer; for htmx only the block it asks for."""
    door = door_of(request)
    session = request.cookies.get(SESSION, "")
    context = {
        "now": door.memory.manager.clock.now(),
        "csrf": door.tokens.signed("csrf", session),
        "signed_in": bool(session) and door.auth,
        "said_done": "",
        "at": "",
        **values,
    }
    page = templates().get_template(template)
    block = page.blocks.get(values.get("partial", ""))
    if block is not None:
        return HTMLResponse("".join(block(page.new_context(context))), status)
    return HTMLResponse(page.render(context), status)


async def login(request: Request) -> Response:
    """Show a token once, and be known for half a day."""
    door = door_of(request)
    if not door.auth:
        return RedirectResponse("/", 303)
    grant, problem = None, ""
    if request.method == "POST":
        said = dict(parse_qsl((await request.body()).decode("utf-8", "replace")))
        door.rates.take("login")
        grant = await door.memory.run(door.tokens.find, said.get("token", "").strip())
        problem = "" if grant else "That token opens nothing."
    elif "code" in request.query_params:
        code = request.query_params["code"]
        grant = await door.memory.run(door.tokens.in_session, code)
    if grant is None:
        values = {"title": "Sign in", "problem": problem, "at": "/login"}
        return _render(request, "login.html", values, status=401 if problem else 200)
    return _with_session(request, "/", door.tokens.session_of(grant))


async def logout(request: Request) -> Response:
    """Forget the session."""
    await _form(request)
    return _with_session(request, "/login", "")


def _with_session(request: Request, where: str, session: str) -> Response:
    """Go on to `where` with this session's cookie; "" takes it away."""
    answer = RedirectResponse(where, 303)
    answer.set_cookie(
        SESSION,
        session,
        max_age=SESSION_SECONDS if session else 0,
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
    )
    return answer


# ----------------------------------------------------------------------------
# How values are shown.


@cache
def templates() -> Environment:
    """The templates, which escape everything they are given."""
    made = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "shown": shown, "ago": ago, "bar": bar, "cited": cited, "say": say,
        "short": short, "as_json": as_json, "score": score, "number": number,
    }  # fmt: skip
    return made


def shown(text: object) -> str:
    """A stored text as it may be seen: nothing invisible in it."""
    return drop_invisible(str(text))


def short(text: object, limit: int = 200) -> str:
    """The beginning of a text, on one line."""
    line = " ".join(shown(text).split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def score(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def number(count: int, one: str = "") -> str:
    """How many there are, and of what: "1 memory", "2,000 memories"."""
    several = f"{one[:-1]}ies" if one.endswith("y") else f"{one}s"
    return f"{count:,} {one if count == 1 else several}" if one else f"{count:,}"


def as_json(value: Mapping[str, Any]) -> str:
    return shown(json.dumps(dict(value), ensure_ascii=False, indent=2, default=str))


def ago(moment: datetime | None, now: datetime) -> Markup:
    """How long ago, with the exact moment on hover."""
    if moment is None:
        return Markup("–")
    seconds = (now - moment).total_seconds()
    exact = moment.strftime("%Y-%m-%d %H:%M:%S UTC")
    units = ((60, 1, "s"), (3600, 60, "min"), (86_400, 3600, "h"), (math.inf, 86_400, "d"))
    unit, name = next((unit, name) for limit, unit, name in units if abs(seconds) < limit)
    said = f"{abs(seconds) / unit:.0f} {name}"
    said = f"{said} ago" if seconds >= 0 else f"in {said}"
    made = Markup('<time datetime="{}" title="{}">{}</time>')
    return made.format(moment.isoformat(), exact, said)


def bar(parts: Sequence[Any]) -> Markup:
    """The tokens of a context by part, drawn; in words for who does not see it."""
    total = sum(part.tokens for part in parts) or 1
    drawn, at = Markup(""), 0.0
    piece = Markup(
        '<rect x="{:.2f}" y="0" width="{:.2f}" height="10" class="part-{}"><title>{}</title></rect>'
    )
    for place, part in enumerate(parts):
        wide = 100 * part.tokens / total
        said = f"{part.name.replace('_', ' ')}: {number(part.tokens, 'token')}"
        drawn += piece.format(at, wide, place % 6, said)
        at += wide
    words = ", ".join(f"{p.name.replace('_', ' ')} {p.tokens:,}" for p in parts) or "nothing"
    frame = Markup(
        '<svg class="bar" viewBox="0 0 100 10" preserveAspectRatio="none" role="img" '
        'aria-label="Tokens: {}">{}</svg>'
    )
    return frame.format(words, drawn)


def cited(answer: str, context: Snapshot) -> Markup:
    """An answer whose [n] lead to the sources they cite."""
    known = sum(seen.section == "knowledge" for seen in context.kept)
    made, done, text = Markup(""), 0, shown(answer)
    for match in _CITED.finditer(text):
        if 1 <= int(match[1]) <= known:
            made += escape(text[done : match.start()])
            made += Markup('<a href="#source-{0}">[{0}]</a>').format(int(match[1]))
            done = match.end()
    return made + escape(text[done:])
