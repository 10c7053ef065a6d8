"""Run the tool calls of one turn: checked, in parallel, bounded, and never blindly again."""

from __future__ import annotations

import ast
import asyncio
import inspect
import json
import operator
import re
import time
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import partial, reduce
from typing import Any

from agentmem.agent.reading import READ_TOOL, cut_to, one_line, sendable, to_payload
from agentmem.agent.shapes import shape_of
from agentmem.agent.tool_results import KeptResult, WorkingMemory
from agentmem.agent.tools import Tool, as_tools
from agentmem.base.checks import require_count, require_number, require_text
from agentmem.base.errors import InvalidInput, shown
from agentmem.base.protocols import TokenCounter
from agentmem.base.threads import in_thread, is_async
from agentmem.base.types import EMPTY
from agentmem.text.clean import clean_line
from agentmem.text.messages import get
from agentmem.tokens.encodings import estimate_tokens

# ----------------------------------------------------------------------------
# Read a model's tool call, and say in plain words how it differs from the tool's schema.


_FENCE = re.compile(r"\A\s*```[\w-]*\s*\n?(.*?)\n?\s*```\s*\Z", re.DOTALL)
_TRAILING_COMMA = re.compile(r",(\s*[}\]])")
_MOST_DIFFERENCES = 8
_VALUE_CHARACTERS = 80
_ID_NAMES = ("id", "call_id", "tool_call_id")
_ARGUMENT_NAMES = ("arguments", "input", "args")


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedCall:
    """A call as it can be looked up; `problem` when its arguments could not be read."""

    call_id: str
    name: str
    arguments: Mapping[str, Any] = field(default_factory=lambda: EMPTY)
    raw: str = ""
    problem: str = ""

    @property
    def key(self) -> str:
        """Equal for calls that ask for the same: same tool, same arguments in any order."""
        if self.problem:
            return f"{self.name}\n!{self.raw}"
        written = json.dumps(
            self.arguments, sort_keys=True, ensure_ascii=True, separators=(",", ":"), default=repr
        )
        return f"{self.name}\n{written}"


def parse_call(call: Any, number: int) -> ParsedCall:
    """A call of chat completions, as a dict or an SDK's object, also with broken arguments."""
    function = get(call, "function") or call
    call_id = next(filter(None, (get(call, name) for name in _ID_NAMES)), f"call_{number}")
    name = get(function, "name")
    found = (get(function, name) for name in _ARGUMENT_NAMES)
    given = next((one for one in found if one is not None), None)
    arguments, problem = read_arguments(given)
    return ParsedCall(
        call_id=sendable(str(call_id)),
        name=sendable(name) if isinstance(name, str) else "",
        arguments=arguments,
        raw=given if isinstance(given, str) else repr(given),
        problem=problem,
    )


def read_arguments(given: Any) -> tuple[Mapping[str, Any], str]:
    """The arguments, or what is wrong with them.

    Nothing is an empty object. Read as well: a code fence around the object, line
    breaks inside strings, a trailing comma, a Python literal, JSON inside a
    JSON string. What was cut off is not guessed.
    """
    if isinstance(given, Mapping):
        return {str(key): value for key, value in given.items()}, ""
    if not isinstance(given, str | None):
        return {}, f"the arguments are a {type(given).__name__}, not a JSON object"
    text = (given or "").strip() or "{}"
    value = _loaded(text)
    if isinstance(value, ValueError | RecursionError):
        value, problem = _repaired(text), value
        if value is None:
            return {}, f"the arguments are not valid JSON ({problem})"
    if isinstance(value, str):
        value = _loaded(value)
        if isinstance(value, ValueError | RecursionError):
            return {}, "the arguments are a text, not a JSON object"
    if value is None:
        return {}, ""
    if not isinstance(value, dict):
        return {}, f"the arguments are a JSON {_type_name(value)}, not an object"
    try:
        require_text(json.dumps(value, ensure_ascii=False, default=str), "arguments")
    except (InvalidInput, ValueError, RecursionError):
        return {}, "the arguments hold characters that are no Unicode text"
    return {str(key): item for key, item in value.items()}, ""


def _loaded(text: str) -> Any:
    """What JSON says, line breaks inside strings allowed; the error where it is none."""
    try:
        return json.loads(text, strict=False)
    except (ValueError, RecursionError) as error:
        return error


def _repaired(text: str) -> Any:
    fenced = _FENCE.match(text)
    text = fenced[1] if fenced else text
    for candidate in (text, _TRAILING_COMMA.sub(r"\1", text)):
        if not isinstance(value := _loaded(candidate), ValueError | RecursionError):
            return value
    if len(text) > 100_000 or not text.startswith("{"):
        return None
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def without_nulls(tool: Tool, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """The arguments without the nulls by which strict schemas say "left out", nested ones too.

    Those are the nulls that the schema refuses, where it does not ask for the field.
    """
    validator = _validator(tool.parameters)
    try:
        pruned = deepcopy(dict(arguments))
        refused = [error for error in validator.iter_errors(pruned) if error.instance is None]
        for *above, name in (error.absolute_path for error in refused):
            holder = reduce(operator.getitem, above, pruned)
            if isinstance(holder, dict) and holder.pop(name, None) is None:
                missing = (e for e in validator.iter_errors(pruned) if e.validator == "required")
                if any([*e.absolute_path] == above and name in e.validator_value for e in missing):
                    holder[name] = None
    except Exception:  # noqa: BLE001 - a schema that cannot be followed forbids nothing
        return arguments
    return pruned


def differences(tool: Tool, arguments: Mapping[str, Any]) -> tuple[str, ...]:
    """What the arguments have that the schema does not want, and the other way round.

    A schema that cannot be followed (a reference to nowhere) forbids nothing.
    """
    try:
        errors = sorted(
            _validator(tool.parameters).iter_errors(dict(arguments)),
            key=lambda error: [str(part) for part in error.absolute_path],
        )
        found = [text for error in errors for text in _say(error)]
    except Exception:  # noqa: BLE001 - a foreign schema may fail in any way while it is followed
        return ()
    found += _unknown_to_function(tool, arguments)
    return tuple(dict.fromkeys(found))[:_MOST_DIFFERENCES]


def _validator(schema: Mapping[str, Any]) -> Any:
    from jsonschema import Draft202012Validator
    from jsonschema.validators import validator_for
    from referencing import Registry

    kind = validator_for(schema, default=Draft202012Validator)
    return kind(schema, registry=Registry())  # an empty registry: references are never fetched


def _say(error: Any) -> Iterable[str]:
    parts = (f"[{p}]" if isinstance(p, int) else f".{p}" for p in error.absolute_path)
    where = _clean("".join(parts).lstrip("."))
    rule, instance = error.validator, error.instance
    schema = error.schema if isinstance(error.schema, Mapping) else {}
    properties = schema.get("properties") or {}
    if rule == "required":
        return [
            f"missing field {_field(where, name)}{_expected(properties.get(name))}"
            for name in error.validator_value
            if name not in instance
        ]
    if rule in ("additionalProperties", "unevaluatedProperties") and isinstance(instance, Mapping):
        patterns = schema.get("patternProperties") or {}
        return [
            _unknown(_field(where, name), name, list(properties))
            for name in instance
            if name not in properties and not any(re.search(p, name) for p in patterns)
        ]
    what = where or "the arguments"
    if rule == "type":
        wanted, got = _types(error.validator_value), _type_name(instance)
        return [f"{what} must be {wanted}, not {got} {_value(instance)}"]
    if rule in ("enum", "const"):
        allowed = error.validator_value if rule == "enum" else [error.validator_value]
        near = get_close_matches(str(instance), [str(a) for a in allowed], n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        listed = ", ".join(_value(a) for a in list(allowed)[:10])
        return [f"{where} must be one of {listed}, not {_value(instance)}{hint}"]
    if rule in ("anyOf", "oneOf"):
        choices = [_expected(choice).strip(" ()") for choice in error.validator_value]
        listed = " or ".join(dict.fromkeys(filter(None, choices))) or "one of several forms"
        return [f"{what} must be {listed}, not {_value(instance)}"]
    message = clean_line(str(error.message), limit_characters=160)
    return [f"{where}: {message}" if where else message]


def _unknown_to_function(tool: Tool, arguments: Mapping[str, Any]) -> list[str]:
    """Fields the schema lets pass and the function has no parameter for."""
    try:
        parameters = inspect.signature(tool.call).parameters
    except (TypeError, ValueError):
        return []
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return []
    names = [n for n, p in parameters.items() if p.kind is not p.POSITIONAL_ONLY]
    missing = [
        f"missing field {name}"
        for name, p in parameters.items()
        if p.default is p.empty
        and p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
        and name not in arguments
    ]
    return [_unknown(name, name, names) for name in arguments if name not in names] + missing


def nearest(name: str, names: Sequence[str]) -> list[str]:
    """The names that look most like `name`, best first."""
    folded = {known.casefold(): known for known in names}
    found = get_close_matches(name.casefold(), list(folded), n=3, cutoff=0.5)
    wanted = name.casefold()
    inside = [k for k in folded if len(wanted) > 2 and (wanted in k or k in wanted)]
    return [folded[key] for key in dict.fromkeys([*found, *inside])][:3]


def _unknown(where: str, name: str, known: Sequence[str]) -> str:
    near = nearest(name, known)
    if near:
        return f"unknown field {_clean(where)}; did you mean {near[0]}?"
    listed = ", ".join(known[:10])
    return f"unknown field {_clean(where)}" + (f"; known fields: {listed}" if listed else "")


def _expected(schema: Any) -> str:
    if not isinstance(schema, Mapping):
        return ""
    if "enum" in schema:
        return f" (one of {', '.join(_value(v) for v in list(schema['enum'])[:6])})"
    kind = schema.get("type")
    return f" ({_types(kind)})" if kind else ""


def _types(kind: Any) -> str:
    return " or ".join(map(str, kind)) if isinstance(kind, list | tuple) else str(kind)


_TYPE_NAMES = {
    type(None): "null", bool: "boolean", int: "integer", float: "number", str: "string",
    list: "array", tuple: "array",
}  # fmt: skip


def _type_name(value: Any) -> str:
    return _TYPE_NAMES.get(type(value), "object")


def _value(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str | int | float | bool):
        return _clean(json.dumps(value, ensure_ascii=False)[: _VALUE_CHARACTERS * 2])
    return _clean(shown(value))


def _clean(text: str) -> str:
    return clean_line(sendable(text), limit_characters=_VALUE_CHARACTERS)


def _field(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name


def example_of(tool: Tool, call: ParsedCall) -> dict[str, Any]:
    """Arguments that fit the tool: those of the call that do, and an example of each other one."""
    schemas = tool.parameters.get("properties") or {}
    needed = dict.fromkeys((*call.arguments, *(tool.parameters.get("required") or ())))
    found: dict[str, Any] = {}
    for name in needed:
        if name not in schemas:
            continue
        given = {name: call.arguments[name]} if name in call.arguments else {}
        alone = replace(
            tool,
            parameters={**tool.parameters, "properties": {name: schemas[name]}, "required": [name]},
        )
        fits = given and not differences(alone, given)
        found[name] = call.arguments[name] if fits else _example(schemas[name], name)
    return found


_EXAMPLES: dict[str, Any] = {
    "integer": 10, "number": 1.5, "boolean": True, "array": [], "object": {}, "null": None
}  # fmt: skip


def _example(schema: Any, name: str) -> Any:
    """A value that fits a schema, as far as a few lines can find one."""
    if not isinstance(schema, Mapping):
        return name
    for key in ("default", "const"):
        if key in schema:
            return schema[key]
    for key in ("enum", "examples"):
        if schema.get(key):
            return schema[key][0]
    for key in ("anyOf", "oneOf", "allOf"):
        if schema.get(key):
            return _example(schema[key][0], name)
    kind = schema.get("type")
    kind = kind[0] if isinstance(kind, list) and kind else kind
    if kind in ("integer", "number"):
        return schema.get("minimum", schema.get("maximum", _EXAMPLES[kind]))
    return _EXAMPLES.get(str(kind), f"<{name}>")


def _written(arguments: Mapping[str, Any]) -> str:
    try:
        text = json.dumps(arguments, ensure_ascii=False, default=str)
    except (ValueError, RecursionError):
        return "(cannot be written)"
    return clean_line(text, limit_characters=4 * _VALUE_CHARACTERS)


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
    said once is not asked again, and what a pure one said in an earlier turn
    is answered from what working memory kept. `degradations` lists what memory could not do.
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
        self._room = asyncio.Semaphore(self._parallel)
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
        return tuple(await asyncio.gather(*(self._outcome(call) for call in parsed)))

    async def _outcome(self, call: ParsedCall) -> ToolOutcome:
        tool = self._tools.get(call.name)
        if tool is not None and not call.problem:
            call = replace(call, arguments=without_nulls(tool, call.arguments))
        key = call.key
        async with self._locks.setdefault(key, asyncio.Lock()):
            outcome: ToolOutcome | None = None
            if (earlier := self._record.get(key)) is not None:
                outcome = self._from_record(call, earlier)
                self.outcomes.append(outcome)
                return outcome
            started = time.perf_counter()
            outcome = self._refused(call, tool)
            if outcome is None and tool is not None:
                outcome = await self._earlier(call, tool) or await self._execute(call, tool)
            assert outcome is not None  # noqa: S101 - an unknown tool is always refused
            spent = round((time.perf_counter() - started) * 1_000, 3)
            outcome = replace(outcome, duration_ms=spent)
            if not outcome.ok or (tool is not None and (tool.read_only or tool.pure)):
                self._record[key] = outcome
            self.outcomes.append(outcome)
            return outcome

    def _from_record(self, call: ParsedCall, earlier: ToolOutcome) -> ToolOutcome:
        text = earlier.content
        if not earlier.ok:
            again = f"exactly this call of {_name(call)} failed before in this turn"
            advice = "" if CHANGE_SOMETHING in text else f"\n{CHANGE_SOMETHING}"
            text = f"Not executed: {again}.\n{text}{advice}"
        return replace(
            earlier, call_id=call.call_id, executed=False, duration_ms=0.0,
            message=_message(call, text),
        )  # fmt: skip

    async def _earlier(self, call: ParsedCall, tool: Tool) -> ToolOutcome | None:
        """What an earlier turn was answered to the same call of a pure tool."""
        if self._working is None or not (tool.pure and tool.keep):
            return None
        look = partial(self._working.earlier, call.name, call.arguments)
        kept = await self._of_memory(f"earlier results of {_name(call)} were not looked for", look)
        if kept is None:
            return None
        return _outcome(call, kept.content, ok=True, executed=False, result_id=kept.id)

    async def _of_memory(
        self, failure: str, ask: Callable[[], KeptResult | None]
    ) -> KeptResult | None:
        """What working memory gives; None, and a degradation, where it fails or is late."""
        try:
            return await asyncio.wait_for(in_thread(ask), _KEEP_SECONDS)
        except Exception as error:  # noqa: BLE001 - memory failing never breaks the answer
            reason = str(error) or type(error).__name__
            self.degradations.append(f"{failure}: {clean_line(reason, limit_characters=200)}")
            return None

    def _refused(self, call: ParsedCall, tool: Tool | None) -> ToolOutcome | None:
        """The answer to a call that cannot be executed as it is."""
        if tool is None:
            near = nearest(call.name, list(self._tools))
            known = ", ".join(list(self._tools)[:20]) or "none"
            hint = f"Did you mean {' or '.join(near)}?" if near else f"The tools are: {known}."
            return self._failure(call, f"There is no tool {_name(call)}.", hint)
        if call.problem:
            fields = ", ".join(tool.parameters.get("properties") or {})
            hint = f"Send one JSON object with the fields: {fields or 'none'}.\n"
            hint += f"Wrong: {clean_line(call.raw, limit_characters=_VALUE_CHARACTERS)}\n"
            hint += f"Right: {_written(example_of(tool, call))}"
            return self._failure(call, f"{_name(call)}: {call.problem}.", hint)
        found = differences(tool, call.arguments)
        if found:
            listed = "\n".join(f"- {difference}" for difference in found)
            return self._failure(
                call, f"The arguments do not fit the schema of {_name(call)}:\n{listed}",
                f"Wrong: {_written(call.arguments)}\nRight: {_written(example_of(tool, call))}\n"
                "Correct these fields and call again.",
            )  # fmt: skip
        return None

    async def _execute(self, call: ParsedCall, tool: Tool) -> ToolOutcome:
        try:
            async with self._room:
                output = await self._call(tool, call.arguments)
        except _Failed as failed:
            kept = await self._keep(call, tool, failed.details or failed.line, failed.line)
            result_id = "" if kept is None else kept.id
            traced = result_id and failed.details
            told = f'\nThe traceback: {READ_TOOL}(id="{result_id}")' if traced else ""
            problem = f"{_name(call)} failed: {failed.line}{told}"
            outcome = self._failure(call, problem, CHANGE_SOMETHING)
            return replace(outcome, executed=True, result_id=result_id, error=failed.line)
        kept = await self._keep(call, tool, output)
        content = self._whole(output) if kept is None else kept.content
        result_id = "" if kept is None else kept.id
        return _outcome(call, content, ok=True, executed=True, result_id=result_id)

    async def _call(self, tool: Tool, arguments: Mapping[str, Any]) -> Any:
        """What the tool gives back; `_Failed` for whatever it raises, and for its being late."""
        work = asyncio.ensure_future(_invoke(tool.call, arguments))
        # Look at its exception, so that a tool given up on does not complain later.
        work.add_done_callback(lambda ended: None if ended.cancelled() else ended.exception())
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

    async def _keep(
        self, call: ParsedCall, tool: Tool, output: Any, error: str = ""
    ) -> KeptResult | None:
        """What working memory keeps of a call that gave `output`, or failed with `error`."""
        if self._working is None or not tool.keep:
            return None
        keep = partial(self._working.keep, call.name, call.arguments, output, error=error)
        what = "failure" if error else "result"
        return await self._of_memory(f"the {what} of {_name(call)} was not kept", keep)

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
        return cut_to(text, limit, self._count, note=note)

    def _failure(self, call: ParsedCall, problem: str, hint: str) -> ToolOutcome:
        text = self._cut(f"Error: {problem}\n{hint}")
        return _outcome(call, text, ok=False, executed=False, error=problem)


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


def _line_of(error: BaseException) -> str:
    try:
        found = getattr(error, "errors", None)
        if type(error).__name__ == "ValidationError" and callable(
            found
        ):  # pydantic's, a field each
            said = "; ".join(
                f"{'.'.join(map(str, one.get('loc', ())))}: {one.get('msg', '')}"
                for one in found()[:5]
            )
        else:
            said = str(error)
    except Exception:  # noqa: BLE001 - a foreign __str__ may raise anything
        said = ""
    name = type(error).__name__
    return clean_line(
        sendable(f"{name}: {said}" if said else name), limit_characters=_ERROR_CHARACTERS
    )


def _details_of(error: BaseException) -> str:
    """The traceback from the tool's own frames on."""
    try:
        frames = "".join(traceback.format_exception(error))
    except Exception:  # noqa: BLE001 - formatting calls the exception's own methods
        return ""
    return frames[-_TRACEBACK_CHARACTERS:]


def _outcome(call: ParsedCall, content: str, **became: Any) -> ToolOutcome:
    return ToolOutcome(
        call_id=call.call_id, name=call.name, arguments=call.arguments,
        message=_message(call, content), **became,
    )  # fmt: skip


def _message(call: ParsedCall, content: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call.call_id, "content": content}


def _name(call: ParsedCall) -> str:
    return clean_line(call.name, limit_characters=64) or "(no name)"
