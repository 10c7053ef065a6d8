"""The memory over HTTP: a table of routes over the calls of a memory.

Each line names a method, an address and a call. What the call's signature says
is what a request may say, checked by pydantic and written into `/openapi.json`;
whose memory is meant is narrowed by the token (P46) before the call is made.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache, partial
from operator import attrgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from agentmem.agent.reading import ResultPage
from agentmem.agent.turn import session_of, working_for
from agentmem.base.config import LoopConfig
from agentmem.base.errors import InvalidInput, NotPermitted, RecordNotFound
from agentmem.base.filters import Selection
from agentmem.base.types import Document, Memory, Scope, Visibility, Whose
from agentmem.inspector.doctor import DoctorReport, examine
from agentmem.inspector.look import (
    explain,
    explain_memory,
    inspect_context,
    replay_context,
    trace_of,
)
from agentmem.inspector.replay import Replay, Why
from agentmem.inspector.stats import StatsReport, collect_stats, read_span
from agentmem.living.predict import Prediction
from agentmem.living.tiers import TierFate
from agentmem.memory.manager import MemoryManager
from agentmem.prompt.snapshot import Outcome, Snapshot
from agentmem.search.intake import instant, scope_and_filter, scope_of
from agentmem.search.results import AddResult, IndexingResult
from agentmem.server.http import Door, Turns, door_of, grant_of
from agentmem.server.tokens import Grant
from agentmem.server.wire import Operation, Signals, openapi, plain, read_request, write
from agentmem.stores.jsonl import ImportReport
from agentmem.stores.values import Source

MOST = 1_000
"""So many memories are listed at once."""
Span = str | int | list[int]
# ----------------------------------------------------------------------------
# Calls that are not simply one of the memory's: each takes the memory, whose it is, and what is
# said in the request.


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestScope:
    """Who asks, whose memory is meant, and what that token allows."""

    memory: MemoryManager
    scope: Scope
    grant: Grant
    turns: Turns

    @property
    def names(self) -> Whose:
        return self.scope.whose

    def may_write(self, visibility: str) -> None:
        """Refuse memories that everybody sees to who is no admin."""
        if visibility == "system" and not self.grant.admin:
            raise NotPermitted("Only an admin's token writes what everybody sees.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """Memories, newest first; `cursor` is what the next page is asked with, or null."""

    results: tuple[Memory, ...]
    cursor: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnOpened:
    """The messages to send, and what to say `done` with."""

    id: str
    messages: tuple[Mapping[str, Any], ...]
    injected: bool
    reference: str
    citations: tuple[Mapping[str, Any], ...]
    degradations: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TierUse:
    """What one tier may cost and costs."""

    tier: int
    budget_tokens: int
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Assembled:
    """What is worth knowing now: the text, what it costs, by tier, and where it is from."""

    text: str
    tokens: int
    budget_tokens: int
    tiers: tuple[TierUse, ...]
    sources: tuple[TierFate, ...]
    degradations: tuple[str, ...] = ()


def add(
    asked: RequestScope,
    *,
    text: str | None = None,
    messages: list[dict[str, Any]] | None = None,
    document: Document | None = None,
    chunks: list[str] | None = None,
    id: str | None = None,  # noqa: A002 - the field's own name
    kind: str = "fact",
    url: str = "",
    title: str = "",
    session: str = "",
    once: bool = False,
    listen: bool = True,
    visibility: Visibility = "private",
    metadata: dict[str, Any] | None = None,
    importance: float = 0.5,
) -> AddResult:
    """Remember a text, a conversation, a document, or a page cut already."""
    asked.may_write(visibility)
    given = {"text": text, "messages": messages, "document": document, "chunks": chunks}
    said = [name for name, value in given.items() if value is not None]
    if len(said) != 1:
        raise InvalidInput(
            "body", said, "holds not one thing to remember",
            remedy="Give text, messages, document or chunks.",
        )  # fmt: skip
    common: Any = {"visibility": visibility, "metadata": metadata or {}, **asked.names}
    if text is not None:
        return asked.memory.add(text, kind=kind, importance=importance, id=id, **common)
    if messages is not None:
        return asked.memory.add(messages, session=session, once=once, listen=listen, **common)
    if document is not None:
        return asked.memory.add(document, **common)
    return asked.memory.sources.add_document(chunks or [], url=url, title=title, **common)


def list_memories(
    asked: RequestScope,
    *,
    limit: int = 50,
    cursor: str = "",
    kinds: list[str] | None = None,
    url: str | None = None,
    session: str | None = None,
    filters: dict[str, Any] | None = None,
    since: str | None = None,
    until: str | None = None,
    superseded: bool = False,
    forgotten: bool = False,
) -> Listed:
    """Memories, newest first; the answer's `cursor` asks for the next ones."""
    limit = _at_most(limit)
    reader, where = scope_and_filter(asked.names, filters)
    at, last_id, seen = _read_cursor(cursor)
    end = instant(until, "until")
    selection = Selection(
        reader=reader,
        where=where,
        kinds=None if kinds is None else tuple(kinds),
        source_url=url,
        session=session,
        since=instant(since, "since"),
        until=end if at is None else at + timedelta(microseconds=1),
        superseded=superseded,
        forgotten=forgotten,
    )
    found = list(asked.memory.store.recent(selection, limit=limit + seen + 1))
    if at is not None:
        ids = [one.id for one in found]
        found = found[ids.index(last_id) + 1 if last_id in ids else seen :]
    page = found[:limit]
    following = None
    if len(found) > limit and page:
        same = sum(one.created_at == page[-1].created_at for one in page)
        more = seen if at == page[-1].created_at else 0
        following = _write_cursor(page[-1], same + more)
    return Listed(results=tuple(page), cursor=following)


def _at_most(limit: int) -> int:
    if not 1 <= limit <= MOST:
        raise InvalidInput("limit", limit, f"is not from 1 to {MOST:,}")
    return limit


def _write_cursor(last: Memory, seen: int) -> str:
    said = f"{last.created_at.isoformat()}|{seen}|{last.id}"
    return base64.urlsafe_b64encode(said.encode()).decode().rstrip("=")


def _read_cursor(cursor: str) -> tuple[datetime | None, str, int]:
    if not cursor:
        return None, "", 0
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        at, seen, last = base64.urlsafe_b64decode(padded).decode().split("|", 2)
        found = datetime.fromisoformat(at), last, int(seen)
        if found[0].utcoffset() is None or not 0 <= found[2] <= 1_000_000:
            raise ValueError(cursor)
    except ValueError:
        raise InvalidInput(
            "cursor", cursor, "is none that was given", remedy="Begin without one."
        ) from None
    return found


def delete(asked: RequestScope, *, memory_id: str) -> int:
    """Take a memory out of every read; it is kept until it is erased."""
    count = asked.memory.delete(memory_id, **asked.names)
    if not count:
        raise RecordNotFound(memory_id)
    return count


def list_sources(asked: RequestScope) -> tuple[Source, ...]:
    """The pages and documents that are remembered."""
    return asked.memory.store.upkeep.sources(asked.scope)


def index_file(
    asked: RequestScope, *, name: str, content: str = "", base64_content: str = "", title: str = ""
) -> IndexingResult:
    """Remember a file that is sent: its text, or its bytes in base64 (HTML, Markdown, PDF …)."""
    data: str | bytes = content
    if base64_content:
        try:
            data = base64.b64decode(base64_content, validate=True)
        except ValueError:
            raise InvalidInput("base64_content", "…", "is not base64") from None
    url = name if "://" in name else f"file:///{name.lstrip('/')}"
    return asked.memory.sources.index_page(data, url, title or name, **asked.names)


def index_url(asked: RequestScope, *, url: str) -> IndexingResult:
    """Fetch a page and remember it; addresses of private networks are refused."""
    return asked.memory.sources.index_url(url, **asked.names)


def contexts(asked: RequestScope, *, limit: int = 20) -> tuple[Snapshot, ...]:
    """The newest contexts that were built, newest first, without long texts."""
    return trace_of(asked.memory).list(limit=_at_most(limit), scope=asked.scope, texts=False)


def context(asked: RequestScope, *, context_id: str) -> Snapshot:
    """Everything about one context: what was looked at, what was sent and why; `last` too."""
    return explain(asked.memory, context_id, scope=asked.scope)


def context_why(asked: RequestScope, *, context_id: str, memory_id: str) -> Why:
    """Why a memory was in a context, or was not."""
    return explain_memory(asked.memory, memory_id, context_id, scope=asked.scope)


def context_replay(asked: RequestScope, *, context_id: str, settings: dict[str, Any]) -> Replay:
    """A context decided again with other settings, such as `top_k`; nothing is searched."""
    return replay_context(asked.memory, settings, context_id, scope=asked.scope)


def preview(asked: RequestScope, *, query: str, model: str = "") -> Snapshot | None:
    """The context that a question would get now; nothing of it is kept."""
    return inspect_context(asked.memory, query, model=model, scope=asked.scope).snapshot


def results(asked: RequestScope, *, limit: int = 20) -> tuple[Memory, ...]:
    """The newest tool results that are kept."""
    selection = Selection(reader=asked.scope, kinds=("tool_result",))
    return asked.memory.store.recent(selection, limit=_at_most(limit))


def keep_result(
    asked: RequestScope,
    *,
    name: str,
    output: Any,
    arguments: dict[str, Any] | None = None,
    error: str = "",
    model: str = "",
) -> Mapping[str, Any]:
    """Keep a tool's result whole; gives what to tell the model in its place."""
    working = working_for(asked.memory, scope=asked.scope, model=model, config=LoopConfig())
    kept = working.keep(name, arguments, output, error=error)
    return {"id": kept.id, "content": kept.content, "tokens": kept.tokens, "whole": kept.whole}


def read_result(
    asked: RequestScope,
    *,
    result_id: str,
    range: Span | None = None,  # noqa: A002 - the name the memory's tool has for it
    lines: Span | None = None,
    grep: str | None = None,
    json_path: str | None = None,
    offset: int = 0,
    limit_tokens: int = 1_000,
) -> ResultPage:
    """One page of a tool result: by characters, by lines, by a pattern or by a JSON path."""
    working = working_for(asked.memory, scope=asked.scope, model="", config=LoopConfig())
    working.describe(result_id)  # what is not there is not there, rather than explained
    return working.read(
        result_id, range=range, lines=lines, grep=grep, json_path=json_path, offset=offset,
        limit_tokens=limit_tokens,
    )  # fmt: skip


def assemble(
    asked: RequestScope,
    *,
    task: str = "",
    signals: Signals | None = None,
    token_budget: int = 8_000,
    activity: str = "general",
    model: str = "",
) -> Assembled:
    """What is worth knowing for a task, within a token budget, in tiers."""
    found = asked.memory.living.assemble_context(
        token_budget, signals=signals or (), activity=activity, task=task, model=model,
        **asked.names,
    )  # fmt: skip
    tiers = tuple(
        TierUse(tier=tier, budget_tokens=budget, tokens=found.tier_tokens.get(tier, 0))
        for tier, budget in found.tier_budgets.items()
    )
    return Assembled(
        text=found.text, tokens=found.tokens, budget_tokens=found.budget_tokens, tiers=tiers,
        sources=tuple(fate for fate in found.fates if fate.outcome != "dropped"),
        degradations=found.degradations,
    )  # fmt: skip


def predict(
    asked: RequestScope, *, signals: Signals | None = None, limit: int = 10
) -> tuple[Prediction, ...]:
    """The memories most probably needed in this situation, with a confidence."""
    return asked.memory.living.predict(signals or (), _at_most(limit), **asked.names)


def stats(asked: RequestScope, *, last: str = "") -> StatsReport:
    """Figures of the contexts and of what is remembered; `last` is how far back (`24h`, `7d`)."""
    return collect_stats(
        asked.memory,
        now=asked.memory.clock.now(),
        last=read_span(last) if last else None,
        scope=asked.grant.reader(asked.scope),
    )


def users(asked: RequestScope) -> list[dict[str, Any]]:
    """Whose memories there are, and how many."""
    asked.grant.require_admin()
    return [
        {"user_id": user, "memories": count} for user, count in asked.memory.upkeep.users().items()
    ]


def doctor(asked: RequestScope) -> DoctorReport:
    """How the server's environment and store are."""
    asked.grant.require_admin()
    return examine(asked.memory, now=asked.memory.clock.now())


def upkeep(
    asked: RequestScope, *, task: Literal["verify", "sync", "vacuum", "reembed", "flush"]
) -> Mapping[str, Any]:
    """Look after the store as a whole."""
    asked.grant.require_admin()
    if task == "flush":
        return {"result": asked.memory.flush(30.0)}
    return {"result": getattr(asked.memory.upkeep, task)()}


def import_lines(asked: RequestScope, *, lines: str, own_words: bool = False) -> ImportReport:
    """Add what an export wrote, as the caller's own; what is there already is skipped."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "import.jsonl"
        path.write_text(lines, "utf-8", newline="")
        return asked.memory.upkeep.import_jsonl(path, own_words=own_words, **asked.names)


# ----------------------------------------------------------------------------
# Turns: one call gives what to send, another is told the answer.


def open_turn(
    asked: RequestScope,
    *,
    messages: list[dict[str, Any]],
    model: str = "",
    tools: list[dict[str, Any]] | None = None,
    config: LoopConfig | None = None,
    message_id: str = "",
    trim: bool = False,
    signals: Signals | None = None,
) -> TurnOpened:
    """Open a turn: the messages to send to the model, with what memory knows among them."""
    turn = asked.memory.turn(
        messages, model=model, tools=tools, scope=asked.scope, config=config,
        message_id=message_id or asked.memory.ids.new(), trim=trim, signals=signals or (),
    )  # fmt: skip
    asked.turns.put(asked.scope, turn)
    return TurnOpened(
        id=turn.snapshot_id or turn.message_id,
        messages=tuple(turn.messages),
        injected=turn.injected,
        reference=turn.block_text,
        citations=tuple(plain(one) for one in turn.citations),
        degradations=tuple(turn.degradations),
    )


def end_turn(
    asked: RequestScope,
    *,
    turn_id: str,
    answer: str = "",
    usage: dict[str, Any] | None = None,
    duration_ms: float | None = None,
    error: str = "",
) -> None:
    """Tell a turn its answer: both sides are remembered in the background."""
    turn = asked.turns.take(asked.scope, turn_id)
    if turn is not None:
        turn.done(answer, usage=usage, duration_ms=duration_ms, error=error)
        return
    # Another worker opened it: its trace says what was asked.
    trace = asked.memory.runtime.trace
    traced = trace.get(turn_id, scope=asked.scope)
    if traced.outcome is not None:
        return
    outcome = Outcome(answer=answer, usage=usage or {}, duration_ms=duration_ms, error=error)
    trace.complete(traced.id, outcome, scope=asked.scope)
    now = asked.memory.clock.now()
    said = (("user", traced.query), ("assistant", answer))
    asked.memory.runtime.indexer.enqueue_messages(
        [{"role": r, "content": c, "created_at": now.isoformat()} for r, c in said if c.strip()],
        session=session_of(asked.scope, now),
        scope=asked.scope,
        trace=traced.id,
    )


# ----------------------------------------------------------------------------
# The table.


def _on(method: str, path: str, call: str | Callable[..., Any], skip: str = "") -> Operation:
    return Operation(method=method, path=path, call=call, skip=tuple(skip.split()))


_NOT_SAID = "settings model spend"
OPERATIONS = (
    _on("POST", "/v1/memories", add),
    _on("GET", "/v1/memories", list_memories),
    _on("DELETE", "/v1/memories", "delete_all"),
    _on("GET", "/v1/memories/{memory_id}", "get"),
    _on("PATCH", "/v1/memories/{memory_id}", "update", "data"),
    _on("DELETE", "/v1/memories/{memory_id}", delete),
    _on("GET", "/v1/memories/{memory_id}/history", "history"),
    _on("POST", "/v1/memories/{memory_id}/supersede", "living.supersede"),
    _on("POST", "/v1/memories/{memory_id}/erase", "erase"),
    _on("POST", "/v1/memories/{memory_id}/bring_back", "living.bring_back"),
    _on("POST", "/v1/erase", "upkeep.erase_all"),
    _on("POST", "/v1/search", "search", "limit"),
    _on("POST", "/v1/turns", open_turn),
    _on("POST", "/v1/turns/{turn_id}/done", end_turn),
    _on("GET", "/v1/preferences", "preferences.get_all"),
    _on("POST", "/v1/preferences", "preferences.add"),
    _on("DELETE", "/v1/preferences", "preferences.clear"),
    _on("DELETE", "/v1/preferences/{preference_id}", "preferences.remove"),
    _on("POST", "/v1/preferences/{preference_id}/undo", "preferences.undo"),
    _on("GET", "/v1/sources", list_sources),
    _on("DELETE", "/v1/sources", "sources.remove_by_url"),
    _on("GET", "/v1/sources/chunks", "sources.search_by_url"),
    _on("POST", "/v1/sources/pages", "sources.index_page"),
    _on("POST", "/v1/sources/urls", index_url),
    _on("POST", "/v1/sources/files", index_file),
    _on("GET", "/v1/contexts", contexts),
    _on("POST", "/v1/contexts", preview),
    _on("GET", "/v1/contexts/{context_id}", context),
    _on("GET", "/v1/contexts/{context_id}/why", context_why),
    _on("POST", "/v1/contexts/{context_id}/replay", context_replay),
    _on("GET", "/v1/results", results),
    _on("POST", "/v1/results", keep_result),
    _on("GET", "/v1/results/{result_id}", read_result),
    _on("GET", "/v1/contradictions", "living.contradictions"),
    _on("GET", "/v1/contradictions/{contradiction}", "living.contradiction"),
    _on("POST", "/v1/contradictions/{contradiction}/resolve", "living.resolve"),
    _on("POST", "/v1/consolidations", "living.consolidate", _NOT_SAID),
    _on("GET", "/v1/consolidations", "living.journal"),
    _on("POST", "/v1/consolidations/{journal_id}/undo", "living.undo"),
    _on("POST", "/v1/learn", "living.learn", _NOT_SAID),
    _on("GET", "/v1/facts", "living.history_of"),
    _on("POST", "/v1/signals", "living.signal"),
    _on("POST", "/v1/prefetch", "living.prefetch"),
    _on("POST", "/v1/predict", predict),
    _on("POST", "/v1/assemble", assemble),
    _on("POST", "/v1/import", import_lines),
    _on("GET", "/v1/stats", stats),
    _on("GET", "/v1/users", users),
    _on("GET", "/v1/doctor", doctor),
    _on("POST", "/v1/upkeep/{task}", upkeep),
    _on("POST", "/context/assemble", assemble),
    _on("POST", "/context/predict", predict),
    _on("POST", "/consolidate", "living.consolidate", _NOT_SAID),
    _on("POST", "/contradictions/{contradiction}/resolve", "living.resolve"),
)


def routes(operations: Sequence[Operation]) -> list[Route]:
    """A route for each operation."""
    return [Route(one.path, partial(_answer, one), methods=[one.method]) for one in operations]


async def _answer(operation: Operation, request: Request) -> Response:
    door = door_of(request)
    said = await read_request(operation, request)
    async with asyncio.timeout(door.limits.request_seconds or None):
        found = await door.memory.run(run, operation, door, grant_of(request), said)
    return Response(found, media_type="application/json")


def run(operation: Operation, door: Door, grant: Grant, said: dict[str, Any]) -> bytes:
    """Make the call for who asks, and write what it gives."""
    named = {name: said.pop(name, None) for name in Scope.__slots__}
    scope = grant.narrowed(scope_of({n: v for n, v in named.items() if v is not None}))
    if said.get("filters"):  # a user named in there is who reads, too
        scope = grant.narrowed(_both(scope, scope_and_filter({}, said["filters"])[0]))
    if callable(operation.call):
        asked = RequestScope(memory=door.memory.manager, scope=scope, grant=grant, turns=door.turns)
        found = operation.call(asked, **said)
    else:
        found = attrgetter(operation.call)(door.memory.manager)(**said, **scope.whose)
    return write(found, bare=operation.bare)


def _both(scope: Scope, named: Scope) -> Scope:
    """Both scopes as one; where they differ, the one named later."""
    return Scope(**{n: getattr(named, n) or getattr(scope, n) for n in Scope.__slots__})


async def export(request: Request) -> Response:
    """What the caller sees, one JSON object a line, as `agentmem import` reads it."""
    door, grant = door_of(request), grant_of(request)
    known = {n: v for n, v in request.query_params.items() if n in Scope.__slots__}
    reader = grant.reader(grant.narrowed(scope_of(known)))
    names = Whose() if reader is None else reader.whose
    with ExitStack() as stack:
        stack.enter_context(door.rates.streaming(grant.id))
        path = Path(stack.enter_context(TemporaryDirectory())) / "export.jsonl"
        await door.memory.run(door.memory.manager.upkeep.export_jsonl, path, **names)
        held = stack.pop_all()  # until the last line is sent

    def lines() -> Iterator[bytes]:
        with held, path.open("rb") as file:
            while block := file.read(65_536):
                yield block

    return StreamingResponse(lines(), media_type="application/x-ndjson")


async def describe(request: Request) -> Response:
    """The description of this API."""
    return JSONResponse(description())


@cache
def description() -> dict[str, Any]:
    """OpenAPI of the table."""
    return openapi(OPERATIONS)
