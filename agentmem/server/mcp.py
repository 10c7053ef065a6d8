"""Memory for programs that speak the Model Context Protocol: a few tools, and recent contexts.

Whose memory is meant is fixed from outside, by the command line or by a token; nothing in a
request names anybody. Every text out of memory comes in one sealed block, cleaned and
marked untrusted like the one in a prompt, and an answer never has more tokens than its limit.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import Annotated, Any, Literal, TypeAlias, cast, get_args

from pydantic import Field, ValidationError

from agentmem.agent.tools import Tool, as_tool
from agentmem.agent.turn import working_for
from agentmem.base.errors import AgentMemError, InvalidInput, MissingExtra, RecordNotFound
from agentmem.base.types import Memory, Origin, Scope
from agentmem.data import read_text
from agentmem.inspector.look import trace_of
from agentmem.memory.manager import MemoryManager
from agentmem.prompt.block import BlockSource, clean_source, source_of
from agentmem.prompt.build import BuiltBlock, OfferedSource, build_block
from agentmem.prompt.snapshot import Looked, Snapshot
from agentmem.prompt.strip import strip
from agentmem.text.clean import clean_line
from agentmem.text.secrets import find_secrets, holds_secret

try:
    from mcp import types
    from mcp.server.lowlevel import Server
    from mcp.server.stdio import stdio_server
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
    from mcp.shared.exceptions import MCPError
except ImportError as error:
    raise MissingExtra("mcp", extra="mcp", purpose="The Model Context Protocol") from error

_log = logging.getLogger(__name__)

INSTRUCTIONS = read_text("mcp_instructions.txt").rstrip()

ANSWER_TOKENS = 2_000
LEAST_TOKENS, MOST_TOKENS = 200, 20_000
MOST_HITS = 20
RECENT_CONTEXTS = 20
LINE_CHARACTERS = 160
SHORTENED = (1_000_000, 16_000, 4_000, 1_000, 250, 80)
SCHEME = "agentmem://contexts/"
NOTHING = "Nothing in memory answers that."
NO_ROOM = "Not even one sentence fits into an answer: read it in parts with read_result."

Whose: TypeAlias = Callable[[Any], Scope]
"""Whose memory is meant, given the HTTP request (Starlette's); None for what came by stdio."""

Kind = Literal["fact", "episode", "task", "workflow"]
Ids = Annotated[list[str], Field(min_length=1, max_length=MOST_HITS)]
Limit = Annotated[int, Field(ge=1, le=MOST_HITS)]
Offset = Annotated[int, Field(ge=0)]

TOOLS = ("search_memories", "get_memories", "add_memory", "update_memory", "read_result")
_WRITING = ("add_memory", "update_memory")


class Tools:
    """What may be asked of one person's memory; each call gives the text of the answer."""

    def __init__(self, memory: MemoryManager, scope: Scope, *, limit_tokens: int) -> None:
        self.memory = memory
        self.scope = scope
        self.limit_tokens = limit_tokens
        self.whose = scope.whose

    def tool(self, name: str) -> Tool:
        """One of `TOOLS` as a client lists and calls it."""
        return as_tool(getattr(self, name))

    def search_memories(  # noqa: PLR0917 - clients name every argument
        self,
        query: str,
        limit: Limit | None = None,
        kinds: list[str] | None = None,
        since: str | None = None,
        until: str | None = None,
        full: bool = False,
    ) -> str:
        """Search the user's memory. Gives one line a memory with its id; get_memories has the rest.

        Args:
            query: What to look for, in plain words.
            limit: At most so many.
            kinds: Only these, such as fact, message, page, tool_result, preference.
            since: Only what came at or after this time (ISO 8601).
            until: Only what came before this time (ISO 8601).
            full: Whole texts instead of lines.
        """
        found = self.memory.search(
            query, top_k=limit, kinds=kinds or None, since=since, until=until, **self.whose
        )
        if not found:
            return NOTHING
        show = _whole if full else _line
        return self._block([show(hit.memory) for hit in found])

    def get_memories(self, ids: Ids) -> str:
        """Whole texts of memories by their ids. A text marked cut goes on: see read_result.

        Args:
            ids: Ids that search_memories gave.
        """
        found, missing = [], []
        for one in dict.fromkeys(ids):
            try:
                found.append(_whole(self.memory.get(one, **self.whose)))
            except RecordNotFound:
                missing.append(clean_line(one, limit_characters=60))
        lost = f"No such memory: {', '.join(missing)}." if missing else ""
        return "\n".join(part for part in (self._block(found) if found else "", lost) if part)

    def add_memory(self, text: str, kind: Kind = "fact") -> str:
        """Remember one statement for later conversations. Not for keys or passwords.

        Args:
            text: A sentence or two that can be understood alone.
            kind: What sort of memory it is.
        """
        _refuse_secrets(text)
        memory, new = self._working().save(text, kind=kind)
        return f"Remembered as {memory.id}." if new else f"Already known as {memory.id}."

    def update_memory(self, id: str, text: str) -> str:  # noqa: A002 - the client's word for it
        """Change what a memory says. What it said before stays in its history.

        Args:
            id: The memory's id.
            text: What it says from now on.
        """
        _refuse_secrets(text)
        old = self.memory.get(id, **self.whose)
        if old.kind in ("preference", "tool_result") or old.visibility != "private":
            raise InvalidInput(
                "id", id, "cannot be changed from here",
                remedy="What users prefer is theirs to say, tool results stay as they came, and "
                "what is shared is changed by `agentmem update`.",
            )  # fmt: skip
        # It is the assistant's word from now on, whoever said it before.
        new = self.memory.update(id, strip(text), origin="assistant", **self.whose)
        return f"Changed {new.id}."

    def read_result(  # noqa: PLR0917 - clients name every argument
        self,
        id: str,  # noqa: A002 - the client's word for it
        range: str | None = None,  # noqa: A002 - the client's word for it
        lines: str | None = None,
        grep: str | None = None,
        json_path: str | None = None,
        offset: Offset = 0,
    ) -> str:
        """Read a stored tool result or a long memory by its id: whole, in pages, or a part of it.

        Args:
            id: The id of a stored result or of a memory.
            range: Characters "0-500", "500-", or "-200" (the last).
            lines: Lines "10-20", "10", or "-5" (the last five).
            grep: Lines that match a pattern or hold a text.
            json_path: Values in JSON, such as "$.items[0].name".
            offset: Where the next page begins.
        """
        asked = {"range": range, "lines": lines, "grep": grep, "json_path": json_path}
        working, day = self._working(), self.memory.clock.now().date()
        limit = self.limit_tokens
        while True:  # what is escaped is longer: a page is whole, and says where the next begins
            limit //= 2
            page = working.read(id, offset=offset, limit_tokens=max(1, limit), **asked)
            source = BlockSource(
                text=page.content, retrieved=day, origin="tool", kind="tool_result"
            )
            built = self._built([source])
            if limit <= 1 or (built.block and not built.block.related_knowledge[0].cut):
                return built.text or NO_ROOM

    # -- recent contexts ---------------------------------------------------------------

    def contexts(self) -> tuple[Snapshot, ...]:
        """The newest contexts that were built for this reader."""
        return trace_of(self.memory).list(limit=RECENT_CONTEXTS, scope=self.scope, texts=False)

    def context(self, snapshot_id: str) -> str:
        """One context: the question, what went into the prompt, and the answer."""
        found = trace_of(self.memory).get(snapshot_id, scope=self.scope)
        day = found.created_at.date()
        asked = BlockSource(text=found.query, retrieved=day, origin="user", kind="question")
        told = [_seen(one, day) for one in found.kept if one.section in ("profile", "knowledge")]
        answer = found.outcome.answer if found.outcome else ""
        said = BlockSource(text=answer, retrieved=day, origin="assistant", kind="answer")
        return self._block([asked, *([said] if answer else []), *told])

    # -- inside ------------------------------------------------------------------------

    def _working(self) -> Any:
        return working_for(
            self.memory, scope=self.scope, model="", config=self.memory.settings.loop
        )

    def _block(self, sources: Sequence[BlockSource]) -> str:
        """All of the sources, the longest ones shortened until there is room for each."""
        for length in SHORTENED:
            offered = [_shortened(source, length) for source in sources]
            built = self._built(offered)
            if built.block is not None and built.block.related_knowledge == tuple(
                map(clean_source, offered)
            ):
                break
        return built.text or NO_ROOM

    def _built(self, offered: Sequence[BlockSource]) -> BuiltBlock:
        """The sources in their order, as many as the limit has room for."""
        return build_block(
            secret=self.memory.runtime.secret(),
            limit_tokens=self.limit_tokens,
            count=self.memory.runtime.tokenizer("")[0],
            candidates=[
                OfferedSource(id=str(at), source=source, score=float(len(offered) - at))
                for at, source in enumerate(offered)
            ],
            framing="single",
        )


def _whole(memory: Memory) -> BlockSource:
    return replace(source_of(memory), id=memory.id)


def _line(memory: Memory) -> BlockSource:
    """A memory by its first words."""
    said = clean_line(memory.text, limit_characters=len(memory.text) + 1)
    text = clean_line(memory.index or said, limit_characters=LINE_CHARACTERS)
    return replace(_whole(memory), text=text, section="", cut=text != said)


def _shortened(source: BlockSource, length: int) -> BlockSource:
    if len(source.text) <= length:
        return source
    return replace(source, text=source.text[:length], cut=True)


def _seen(looked: Looked, day: date) -> BlockSource:
    """What a context held, as it was offered to it."""
    origin = looked.origin if looked.origin in get_args(Origin) else "web"
    return BlockSource(
        text=looked.text, retrieved=day, url=looked.url, title=looked.title, id=looked.id,
        kind=looked.kind, origin=cast("Origin", origin), cut=looked.decision == "cut",
    )  # fmt: skip


def _refuse_secrets(text: str) -> None:
    if holds_secret(text) or find_secrets(text):
        raise InvalidInput(
            "text", "…", "holds a key or a password", remedy="Leave it out: it is not kept."
        )


# ----------------------------------------------------------------------------
# The protocol.


def make_server(
    memory: MemoryManager, whose: Whose, *, limit_tokens: int = ANSWER_TOKENS
) -> Server[Any]:
    """A server of the protocol over `memory`; `whose` says for each request whose it may see."""
    from agentmem import __version__
    from agentmem.base.checks import require_count

    if require_count(limit_tokens, "limit_tokens", least=LEAST_TOKENS) > MOST_TOKENS:
        raise InvalidInput(
            "limit_tokens", limit_tokens, "is too much for one answer",
            remedy=f"Use {LEAST_TOKENS} to {MOST_TOKENS:,}.",
        )  # fmt: skip

    def tools_for(context: Any) -> Tools:
        return Tools(memory, whose(context.request), limit_tokens=limit_tokens)

    nobodys = Tools(memory, Scope(), limit_tokens=limit_tokens)
    listed = [_listed(nobodys.tool(name)) for name in TOOLS]

    async def list_tools(_: Any, __: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=listed)

    async def call_tool(context: Any, asked: types.CallToolRequestParams) -> types.CallToolResult:
        if asked.name not in TOOLS:
            raise MCPError(code=types.INVALID_PARAMS, message="There is no such tool.")
        call = tools_for(context).tool(asked.name).call
        text, failed = await asyncio.to_thread(_answer, call, asked.arguments or {})
        return types.CallToolResult(
            content=[types.TextContent(type="text", text=text)], is_error=failed
        )

    async def list_resources(context: Any, _: Any) -> types.ListResourcesResult:
        found = await asyncio.to_thread(tools_for(context).contexts)
        return types.ListResourcesResult(resources=[_resource(one) for one in found])

    async def list_templates(_: Any, __: Any) -> types.ListResourceTemplatesResult:
        template = types.ResourceTemplate(
            uri_template=SCHEME + "{id}", name="context", mime_type="text/plain",
            description="What one prompt was told from memory, by its id; `last` is the newest.",
        )  # fmt: skip
        return types.ListResourceTemplatesResult(resource_templates=[template])

    async def read_resource(
        context: Any, asked: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        uri = str(asked.uri)
        wanted = uri.removeprefix(SCHEME)
        read = tools_for(context).context
        text, failed = "There is no such resource.", True
        if wanted != uri:
            text, failed = await asyncio.to_thread(_answer, read, {"snapshot_id": wanted})
        if failed:
            raise MCPError(code=types.INVALID_PARAMS, message=text, data={"uri": uri})
        contents = types.TextResourceContents(uri=uri, text=text, mime_type="text/plain")
        return types.ReadResourceResult(contents=[contents])

    return Server(
        "agentmem",
        title="agentmem",
        version=__version__,
        description="The memory of one user or agent, searched and kept on your own machine.",
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_list_resource_templates=list_templates,
        on_read_resource=read_resource,
    )


def _listed(tool: Tool) -> types.Tool:
    return types.Tool(
        name=tool.name,
        title=tool.name.replace("_", " ").capitalize(),
        description=tool.description,
        input_schema=dict(tool.parameters),
        annotations=types.ToolAnnotations(
            read_only_hint=tool.name not in _WRITING,
            destructive_hint=False,
            idempotent_hint=True,
            open_world_hint=False,
        ),
    )


def _answer(call: Callable[..., Any], arguments: Mapping[str, Any]) -> tuple[str, bool]:
    """What a call says, and whether that is why it failed."""
    try:
        return str(call(**arguments)), False
    except ValidationError as error:
        wrong = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, wrong["loc"])) or "the arguments"
        return clean_line(f"{place}: {wrong['msg']}", limit_characters=300), True
    except AgentMemError as error:
        return clean_line(str(error), limit_characters=500), True
    except Exception:  # noqa: BLE001 - a client is told that it failed, and nothing of ours
        _log.exception("A tool failed")
        return "The memory could not answer; its log says why.", True


def _resource(found: Snapshot) -> types.Resource:
    """A context in a list: when it was built and how much is in it, none of its words."""
    when = found.created_at.isoformat(sep=" ", timespec="seconds")
    shown = sum(1 for one in found.kept if one.section in ("profile", "knowledge"))
    return types.Resource(
        uri=SCHEME + found.id,
        name=f"context of {when}",
        description=f"{shown} from memory, {found.estimated_tokens:,} tokens in all.",
        mime_type="text/plain",
    )


async def serve_stdio(
    memory: MemoryManager, scope: Scope, *, limit_tokens: int = ANSWER_TOKENS
) -> None:
    """Answer one client on stdin and stdout until it goes away."""
    server = make_server(memory, lambda _: scope, limit_tokens=limit_tokens)
    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())


async def serve_http(server: Server[Any], scope: Any, receive: Any, send: Any) -> None:
    """Answer one request over streamable HTTP, as an ASGI application does.

    No session outlives its request, so that any worker may answer. Somebody else has
    looked at its Host and its Origin.
    """
    manager = StreamableHTTPSessionManager(app=server, json_response=True, stateless=True)
    failed: Exception | None = None
    async with manager.run():
        try:
            await manager.handle_request(scope, receive, send)
        except Exception as error:  # noqa: BLE001 - it is raised below, outside of its group
            failed = error
    if failed is not None:
        raise failed
