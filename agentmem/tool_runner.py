"""Run the tool calls of one turn: checked, in parallel, bounded, and never blindly again."""

from __future__ import annotations

import asyncio
import inspect
import time
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from typing import Any

from agentmem.core.checks import require_count, require_number
from agentmem.core.cleaning import clean_line
from agentmem.core.estimate import estimate_tokens
from agentmem.core.payloads import sendable, to_payload
from agentmem.core.shapes import shape_of
from agentmem.core.values import dataclass
from agentmem.core.working import READ_TOOL, one_line
from agentmem.protocols import TokenCounter
from agentmem.threads import in_thread, is_async
from agentmem.tool_checks import ParsedCall, differences, nearest, parse_call, without_nulls
from agentmem.tools import Tool, as_tools
from agentmem.types import EMPTY
from agentmem.working import WorkingMemory

CHANGE_SOMETHING = (
    "Do not repeat this call unchanged: it will not be executed again. Change the arguments, "
    "use another tool, or answer with what you have."
)
_ERROR_CHARACTERS = 600
_KEEP_SECONDS = 10.0
_TRACEBACK_CHARACTERS = 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOutcome:
    """What became of one call; `message` goes to the model.

    `executed` is false for a call that was refused or answered from the
    record. `result_id` reads the stored result, "" when there is none.
    """

    call_id: str
    name: str
    arguments: Mapping[str, Any] = field(default_factory=lambda: EMPTY)
    message: Mapping[str, Any] = field(default_factory=lambda: EMPTY)
    ok: bool
    executed: bool
    result_id: str = ""
    error: str = ""
    duration_ms: float = 0.0

    @property
    def content(self) -> str:
        """The text of the message."""
        return str(self.message.get("content", ""))


class _Failed(Exception):
    """A call that did not give a result: one line for the model, details for the record."""

    def __init__(self, line: str, *, details: str = "") -> None:
        super().__init__(line)
        self.line = line
        self.details = details


class ToolRunner:
    """The tools of one turn; make a new one for the next.

    A call is checked against the tool's schema before it is executed. What
    failed once is not executed again unchanged (P34); what a read-only tool
    said once is not asked again. `degradations` lists what memory could not do.
    """

    def __init__(
        self,
        tools: Iterable[Any],
        working: WorkingMemory | None = None,
        *,
        timeout_seconds: float | None = 60.0,
        count: TokenCounter | None = None,
        limit_tokens: int = 4_000,
        parallel: int = 16,
    ) -> None:
        self._tools = {tool.name: tool for tool in as_tools(tools)}
        self._working = working
        if timeout_seconds is not None:
            require_number(timeout_seconds, "timeout_seconds", low=0)
        self._timeout_seconds = timeout_seconds
        self._count = count or (working.count if working is not None else estimate_tokens)
        self._limit_tokens = require_count(limit_tokens, "limit_tokens", least=1)
        self._parallel = require_count(parallel, "parallel", least=1)
        self._record: dict[str, ToolOutcome] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        self._room: asyncio.Semaphore | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self.degradations: list[str] = []
        self.outcomes: list[ToolOutcome] = []
        """All so far, in the order in which they ended; also of a run that was cancelled."""

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tools, in the order they were given."""
        return tuple(self._tools.values())

    def definitions(self, *, strict: bool = False) -> list[dict[str, Any]]:
        """The tools as chat completions take them."""
        return [tool.definition(strict=strict) for tool in self._tools.values()]

    async def run(self, calls: Sequence[Any] | None) -> tuple[ToolOutcome, ...]:
        """The outcome of each call, in their order; they run at the same time.

        Nothing a tool, a model or the store does wrong is raised; cancelling is.
        """
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._loop, self._locks = loop, {}
            self._room = asyncio.Semaphore(self._parallel)
        parsed = [parse_call(call, number) for number, call in enumerate(calls or (), 1)]
        return tuple(await asyncio.gather(*(self._answer(call) for call in parsed)))

    async def _answer(self, call: ParsedCall) -> ToolOutcome:
        outcome = await self._outcome(call)
        self.outcomes.append(outcome)
        return outcome

    async def _outcome(self, call: ParsedCall) -> ToolOutcome:
        tool = self._tools.get(call.name)
        if tool is not None and not call.problem:
            call = replace(call, arguments=without_nulls(tool, call.arguments))
        key = call.key
        async with self._locks.setdefault(key, asyncio.Lock()):
            earlier = self._record.get(key)
            if earlier is not None:
                return self._from_record(call, earlier)
            started = time.perf_counter()
            outcome = self._refused(call, tool)
            if outcome is None and tool is not None:
                outcome = await self._execute(call, tool)
            assert outcome is not None  # noqa: S101 - an unknown tool is always refused
            spent = round((time.perf_counter() - started) * 1_000, 3)
            outcome = replace(outcome, duration_ms=spent)
            if not outcome.ok or (tool is not None and tool.read_only):
                self._record[key] = outcome
            return outcome

    def _from_record(self, call: ParsedCall, earlier: ToolOutcome) -> ToolOutcome:
        if earlier.ok:
            return replace(
                earlier, call_id=call.call_id, executed=False, duration_ms=0.0,
                message=_message(call, earlier.content),
            )  # fmt: skip
        text = (
            f"Not executed: exactly this call of {_name(call)} failed before in this turn.\n"
            f"{earlier.content}"
        )
        if CHANGE_SOMETHING not in text:
            text = f"{text}\n{CHANGE_SOMETHING}"
        return replace(
            earlier, call_id=call.call_id, executed=False, duration_ms=0.0,
            message=_message(call, text),
        )  # fmt: skip

    def _refused(self, call: ParsedCall, tool: Tool | None) -> ToolOutcome | None:
        """The answer to a call that cannot be executed as it is."""
        if tool is None:
            near = nearest(call.name, list(self._tools))
            known = ", ".join(list(self._tools)[:20]) or "none"
            hint = f"Did you mean {' or '.join(near)}?" if near else f"The tools are: {known}."
            return self._failure(call, f"There is no tool {_name(call)}.", hint)
        if call.problem:
            fields = ", ".join(tool.parameters.get("properties") or {})
            hint = f"Send one JSON object with the fields: {fields or 'none'}."
            return self._failure(call, f"{_name(call)}: {call.problem}.", hint)
        found = differences(tool, call.arguments)
        if found:
            listed = "\n".join(f"- {difference}" for difference in found)
            return self._failure(
                call, f"The arguments do not fit the schema of {_name(call)}:\n{listed}",
                "Correct these fields and call again.",
            )  # fmt: skip
        return None

    async def _execute(self, call: ParsedCall, tool: Tool) -> ToolOutcome:
        room = self._room or asyncio.Semaphore(self._parallel)
        try:
            async with room:
                output = await self._call(tool, call.arguments)
        except _Failed as failed:
            result_id = await self._keep_failure(call, tool, failed)
            traced = result_id and failed.details
            told = f'\nThe traceback: {READ_TOOL}(id="{result_id}")' if traced else ""
            outcome = self._failure(
                call, f"{_name(call)} failed: {failed.line}{told}", CHANGE_SOMETHING
            )
            return replace(outcome, executed=True, result_id=result_id, error=failed.line)
        content, result_id = await self._keep(call, tool, output)
        return ToolOutcome(
            call_id=call.call_id, name=call.name, arguments=call.arguments, ok=True,
            executed=True, result_id=result_id, message=_message(call, content),
        )  # fmt: skip

    async def _call(self, tool: Tool, arguments: Mapping[str, Any]) -> Any:
        """What the tool gives back; `_Failed` for whatever it raises, and for its being late."""
        work = asyncio.ensure_future(_invoke(tool.call, arguments))
        work.add_done_callback(_look_at)
        try:
            done, _ = await asyncio.wait({work}, timeout=self._timeout_seconds)
        except asyncio.CancelledError:
            work.cancel()
            raise
        if not done:
            work.cancel()  # not awaited: a tool that holds on to its life must not hold us up
            raise _Failed(f"no answer within {self._timeout_seconds:g} seconds.")
        if work.cancelled():
            raise _Failed("the tool cancelled itself.")
        error = work.exception()
        if error is None:
            return work.result()
        raise _Failed(_line_of(error), details=_details_of(error)) from error

    async def _keep(self, call: ParsedCall, tool: Tool, output: Any) -> tuple[str, str]:
        """What goes to the model, and the id it is kept under."""
        if self._working is not None and tool.keep:
            keep = partial(self._working.keep, call.name, call.arguments, output)
            try:
                kept = await asyncio.wait_for(in_thread(keep), _KEEP_SECONDS)
            except Exception as error:  # noqa: BLE001 - memory failing never breaks the answer
                self._degrade(f"the result of {_name(call)} was not kept", error)
            else:
                return kept.content, kept.id
        return self._whole(output), ""

    async def _keep_failure(self, call: ParsedCall, tool: Tool, failed: _Failed) -> str:
        if self._working is None or not tool.keep:
            return ""
        keep = partial(
            self._working.keep, call.name, call.arguments, failed.details or failed.line,
            error=failed.line,
        )  # fmt: skip
        try:
            kept = await asyncio.wait_for(in_thread(keep), _KEEP_SECONDS)
        except Exception as error:  # noqa: BLE001 - memory failing never breaks the answer
            self._degrade(f"the failure of {_name(call)} was not kept", error)
            return ""
        return str(kept.id)

    def _degrade(self, what: str, error: Exception) -> None:
        reason = str(error) or type(error).__name__
        self.degradations.append(f"{what}: {clean_line(reason, limit_characters=200)}")

    def _whole(self, output: Any) -> str:
        """The output itself, cut to the limit; of binary data, what it is."""
        payload = to_payload(output)
        if payload.text is None:
            return one_line(shape_of(payload.data, media_type=payload.media_type))
        return self._cut(sendable(payload.text))

    def _cut(self, text: str) -> str:
        limit = self._limit_tokens
        if len(text) <= 12 * limit and self._count(text) <= limit:
            return text
        note = f"\n… cut: {len(text):,} characters in all."
        kept = text[: 12 * limit]
        while kept and self._count(kept + note) > limit:
            kept = kept[: len(kept) * 4 // 5]
        return kept + note

    def _failure(self, call: ParsedCall, problem: str, hint: str) -> ToolOutcome:
        text = self._cut(f"Error: {problem}\n{hint}")
        return ToolOutcome(
            call_id=call.call_id, name=call.name, arguments=call.arguments, ok=False,
            executed=False, error=problem, message=_message(call, text),
        )  # fmt: skip


async def _invoke(call: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
    """Call a tool: an async one here, any other in a thread of its own."""
    try:
        if is_async(call) or inspect.isasyncgenfunction(call):
            result = call(**arguments)
        else:
            result = await in_thread(partial(_call_whole, call, arguments), name="agentmem-tool")
        while inspect.isawaitable(result):
            result = await result
        if inspect.isasyncgen(result):
            result = _joined([item async for item in result])
    except SystemExit as error:
        raise RuntimeError(f"the tool tried to exit with {error.code!r}") from error
    return result


def _call_whole(call: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
    """What a tool gives back; one that yields is run to its end where it may block."""
    result = call(**arguments)
    return _joined(list(result)) if inspect.isgenerator(result) else result


def _joined(items: list[Any]) -> Any:
    return "".join(items) if all(isinstance(item, str) for item in items) else items


def _look_at(work: asyncio.Future[Any]) -> None:
    """Mark an exception as seen, so that a tool given up on does not complain later."""
    if not work.cancelled():
        work.exception()


def _line_of(error: BaseException) -> str:
    try:
        said = _validation(error) or str(error)
    except Exception:  # noqa: BLE001 - a foreign __str__ may raise anything
        said = ""
    name = type(error).__name__
    return clean_line(
        sendable(f"{name}: {said}" if said else name), limit_characters=_ERROR_CHARACTERS
    )


def _validation(error: BaseException) -> str:
    """What pydantic has against the arguments, a field each; "" for any other error."""
    found = getattr(error, "errors", None)
    if type(error).__name__ != "ValidationError" or not callable(found):
        return ""
    return "; ".join(
        f"{'.'.join(map(str, one.get('loc', ())))}: {one.get('msg', '')}" for one in found()[:5]
    )


def _details_of(error: BaseException) -> str:
    """The traceback from the tool's own frames on."""
    try:
        frames = "".join(traceback.format_exception(error))
    except Exception:  # noqa: BLE001 - formatting calls the exception's own methods
        return ""
    return frames[-_TRACEBACK_CHARACTERS:]


def _message(call: ParsedCall, content: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call.call_id, "content": content}


def _name(call: ParsedCall) -> str:
    return clean_line(call.name, limit_characters=64) or "(no name)"
