"""Tools a model may call: a name, a JSON schema and a callable, however they were written."""

from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from inspect import cleandoc
from typing import TYPE_CHECKING, Any, get_type_hints

from agentmem.agent.reading import cut_to
from agentmem.base.errors import AgentMemError, InvalidInput
from agentmem.base.threads import is_async
from agentmem.base.types import Hit, Scope, scope_of_turn, sources_of_turn, utc
from agentmem.data import read_json
from agentmem.prompt.cite import Citation, find_citation, renumber
from agentmem.text.clean import clean_line

if TYPE_CHECKING:
    from agentmem.agent.tool_results import WorkingMemory
    from agentmem.base.types import ScopeLike
    from agentmem.search.parts import Calls
    from agentmem.sources.indexer import Paged
    from agentmem.sources.web.enhanced import EnhancedSearchResult


def read_docstring(docstring: str | None) -> tuple[str, Mapping[str, str]]:
    """The description before the first section, and a text for each parameter named.

    Google, NumPy and Sphinx styles are read; anything else is description.
    """
    from docstring_parser import ParseError, parse

    text = cleandoc(docstring or "")
    try:
        found = parse(text)
    except (ParseError, LookupError):  # the latter of fields that stand apart from their names
        return text, {}
    if not found.meta:  # kept to the letter
        return text, {}
    said = {one.arg_name.lstrip("*"): " ".join((one.description or "").split())
            for one in found.params}  # fmt: skip
    return (found.description or "").strip(), said


NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_NO_PARAMETERS: Mapping[str, Any] = {
    "type": "object", "properties": {}, "additionalProperties": False,
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """What the model sees of a tool, and what is called for it.

    `call` gets the arguments by name and may be async. A `read_only` tool
    changes nothing, so the same call twice in a turn is answered once. A
    `pure` one always gives the same for the same arguments, so a call of an
    earlier turn answers it too. What a tool with `keep=False` gives back is
    not stored: it is read already.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]
    call: Callable[..., Any]
    read_only: bool = False
    keep: bool = True
    pure: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not NAME.fullmatch(self.name):
            raise InvalidInput(
                "name", self.name, "is no name for a tool",
                remedy="Use 1 to 64 letters, digits, _ or -.",
            )  # fmt: skip
        if not callable(self.call):
            raise InvalidInput("call", self.call, "cannot be called", remedy="Pass a function.")
        _require_schema(self.parameters, self.name)

    def definition(self, *, strict: bool = False) -> dict[str, Any]:
        """The tool as chat completions take it.

        With `strict`, in the form of OpenAI's structured outputs: every
        property is required, and one that may be left out may be null.
        """
        parameters = deepcopy(dict(self.parameters))
        function: dict[str, Any] = {"name": self.name, "description": self.description}
        if strict:
            _make_strict(parameters)
            function["strict"] = True
        return {"type": "function", "function": {**function, "parameters": parameters}}


def as_tool(
    obj: Tool | Callable[..., Any] | Mapping[str, Any],
    *,
    read_only: bool | None = None,
    pure: bool | None = None,
) -> Tool:
    """A tool from a `Tool`, a function, or a chat-completions definition with a `call`.

    A function's parameters, hints and docstring make its schema. A mapping is
    `{"type": "function", "function": {…}, "call": fn}`; it may say
    `"read_only": True` or `"pure": True`. A function may be marked
    `fn.read_only = True` or `fn.pure = True`.
    """
    if isinstance(obj, Tool):
        tool = obj
    elif isinstance(obj, Mapping):
        tool = _from_mapping(obj)
    elif callable(obj):
        tool = _from_function(obj)
    else:
        raise InvalidInput(
            "tool", obj, "is no tool", remedy="Pass a function, a Tool or a dict with a call."
        )
    said = {"read_only": read_only, "pure": pure}
    changed: dict[str, Any] = {name: one for name, one in said.items() if one is not None}
    return replace(tool, **changed) if changed else tool


def as_tools(objects: Iterable[Any]) -> tuple[Tool, ...]:
    """Tools with different names; two of one name are refused."""
    if isinstance(objects, Mapping | str | Tool) or not isinstance(objects, Iterable):
        raise InvalidInput("tools", objects, "is not a list of tools", remedy="Pass a list.")
    tools: dict[str, Tool] = {}
    for obj in objects:
        tool = as_tool(obj)
        if tool.name in tools:
            raise InvalidInput(
                "tools", tool.name, "has two tools of one name", remedy="Rename one of them."
            )
        tools[tool.name] = tool
    return tuple(tools.values())


def _from_mapping(written: Mapping[str, Any]) -> Tool:
    function = written.get("function")
    described = function if isinstance(function, Mapping) else written
    call = next(
        (c for c in (written.get("call"), described.get("call"), function) if callable(c)), None
    )
    if call is None:
        raise InvalidInput(
            "tool", dict(written), "has nothing to call",
            remedy='Add the function: {"type": "function", "function": {…}, "call": fn}.',
        )  # fmt: skip
    name = described.get("name") or getattr(call, "__name__", "")
    parameters = described.get("parameters") or described.get("input_schema")
    return Tool(
        name=str(name),
        description=str(described.get("description") or inspect.getdoc(call) or ""),
        parameters=_NO_PARAMETERS if parameters is None else parameters,
        call=call,
        read_only=bool(written.get("read_only") or described.get("read_only")),
        pure=bool(written.get("pure") or described.get("pure")),
    )


def _from_function(function: Callable[..., Any]) -> Tool:
    """A tool whose arguments are checked and converted by the function's own hints."""
    from pydantic import TypeAdapter
    from pydantic.errors import PydanticUserError
    from pydantic_core import ArgsKwargs

    inner = function.func if isinstance(function, partial) else type(function)
    name = str(getattr(function, "__name__", "") or getattr(inner, "__name__", ""))
    signature = _signature(function, name)
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(
            _bare(function, signature)  # type: ignore[arg-type]  # a function is a form too
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a default that JSON cannot write is left out
            schema = adapter.json_schema()
    except (PydanticUserError, NameError, TypeError, ValueError) as error:
        problem = str(error).split("\n", 1)[0][:200]
        raise InvalidInput(
            "tool", name, f"has hints that give no JSON schema ({problem})",
            remedy="Pass a Tool with your own parameters.",
        ) from error  # fmt: skip
    description, parameters = read_docstring(inspect.getdoc(function))
    for key, property_schema in schema.get("properties", {}).items():
        property_schema.pop("title", None)
        if parameters.get(key):
            property_schema.setdefault("description", parameters[key])
    schema.setdefault("type", "object")
    schema.setdefault("properties", {})

    def call(**arguments: Any) -> Any:
        return adapter.validate_python(ArgsKwargs((), arguments))

    async def call_async(**arguments: Any) -> Any:  # awaited on the loop and not in a thread
        return await call(**arguments)

    return Tool(
        name=name,
        description=description or name.replace("_", " "),
        parameters=schema,
        call=call_async if is_async(function) else call,
        read_only=bool(getattr(function, "read_only", False)),
        pure=bool(getattr(function, "pure", False)),
    )


def _signature(function: Callable[..., Any], name: str) -> inspect.Signature:
    """The parameters with their hints resolved; one that cannot be is taken as anything."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        raise InvalidInput(
            "tool", name, "has no signature", remedy="Pass a Tool with your own parameters."
        ) from None
    found = []
    for parameter in signature.parameters.values():
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL):
            raise InvalidInput(
                "tool", f"{name}({parameter})", "has a parameter without a name for the model",
                remedy="Models call by name: drop the / or the *args.",
            )  # fmt: skip
        hint = parameter.annotation
        found.append(parameter.replace(annotation=_resolved(hint, function)))
    return signature.replace(parameters=found, return_annotation=inspect.Signature.empty)


def _resolved(hint: Any, function: Callable[..., Any]) -> Any:
    if not isinstance(hint, str):
        return hint
    inner: Any = function
    while isinstance(inner, partial):
        inner = inner.func
    inner = inspect.unwrap(inner if inspect.isroutine(inner) else type(inner).__call__)
    names = getattr(inner, "__globals__", {})

    def carrier() -> None: ...

    carrier.__annotations__ = {"hint": hint}
    try:
        return get_type_hints(carrier, globalns=names, include_extras=True)["hint"]
    except (NameError, TypeError, SyntaxError, AttributeError):
        return Any


def _bare(function: Callable[..., Any], signature: inspect.Signature) -> Callable[..., Any]:
    """A plain function with that signature: methods, partials and objects look alike then."""

    def call(**arguments: Any) -> Any:
        return function(**arguments)

    call.__signature__ = signature  # type: ignore[attr-defined]  # inspect reads it
    call.__annotations__ = {
        name: parameter.annotation
        for name, parameter in signature.parameters.items()
        if parameter.annotation is not parameter.empty
    }
    return call


def _require_schema(parameters: object, name: str) -> None:
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import SchemaError
    from jsonschema.validators import validator_for

    if not isinstance(parameters, Mapping):
        raise InvalidInput("parameters", parameters, "is no JSON schema", remedy="Pass a dict.")
    kind = parameters.get("type", "object")
    if kind != "object":
        raise InvalidInput(
            "parameters", kind, f"of {name} has another type than object",
            remedy='Arguments come by name: use {"type": "object", …}.',
        )  # fmt: skip
    try:
        validator_for(parameters, default=Draft202012Validator).check_schema(dict(parameters))
    except SchemaError as error:
        raise InvalidInput(
            "parameters", name, f"is no JSON schema ({error.message[:200]})",
            remedy="See json-schema.org.",
        ) from None  # fmt: skip


def _make_strict(schema: Any) -> None:
    """Require every property of every object, in place; what was optional may be null."""
    if isinstance(schema, list):
        for item in schema:
            _make_strict(item)
    if not isinstance(schema, dict):
        return
    properties = schema.get("properties")
    if isinstance(properties, dict):
        required = schema.get("required") or []
        for key, value in properties.items():
            _make_strict(value)
            if key not in required and isinstance(value, dict):
                properties[key] = _nullable(value)
        schema["required"] = list(properties)
        schema["additionalProperties"] = False
    for key in ("items", "anyOf", "allOf", "oneOf", "$defs"):
        inner = schema.get(key)
        _make_strict(list(inner.values()) if key == "$defs" and isinstance(inner, dict) else inner)


def _nullable(schema: dict[str, Any]) -> dict[str, Any]:
    schema = {key: value for key, value in schema.items() if key != "default"}
    kind = schema.get("type")
    if isinstance(kind, str) and "enum" not in schema:
        return {**schema, "type": kind if kind == "null" else [kind, "null"]}
    if isinstance(kind, list):
        return {**schema, "type": [*kind, *([] if "null" in kind else ["null"])]}
    choices = schema.get("anyOf")
    if isinstance(choices, list):
        if {"type": "null"} in choices:
            return schema
        return {**schema, "anyOf": [*choices, {"type": "null"}]}
    return {"anyOf": [schema, {"type": "null"}]}


# ----------------------------------------------------------------------------
# The tools a model gets for its own memory: read a result, search, save.


MOST_HITS = 20
MOST_LOOKED_AT = 200
SHARE_WORDS = "Nothing in memory clearly answers that. These share words with it:"
_HIT_CHARACTERS = 500


def own_tool(name: str, call: Callable[..., Any], **how: Any) -> Tool:
    """One of our own tools: what a model is told of it stands in `data/tools.json`."""
    return Tool(name=name, **read_json("tools.json")[name], call=call, **how)


def memory_tools(manager: Calls, working: WorkingMemory, *, save: bool = False) -> tuple[Tool, ...]:
    """`memory_read`, `memory_search` and, with `save`, `memory_save`; none of them raises."""

    def read(id: str, **asked: Any) -> str:  # noqa: A002 - the model's word for it
        try:
            return working.read(id, **asked).content
        except AgentMemError as error:
            return f"The result cannot be read: {error}"

    def search(query: str, top_k: int = 5) -> str:
        whose: dict[str, Any] = {n: getattr(working.scope, n) for n in Scope.__slots__}
        most = min(max(top_k, 1), MOST_HITS)
        try:
            hits = list(manager.search(query, top_k=most, by_question=False, **whose))
            if hits:
                return _listed(hits, working)
            # A few keywords seldom reach the threshold; the model can judge what shares them,
            # and what was told of the user's own world in other words.
            near = manager.search(
                query, top_k=MOST_LOOKED_AT, threshold=0.0, by_question=False, **whose
            )
            sharing = [hit for hit in near if hit.lexical is not None]
            sharing.sort(key=lambda hit: -(hit.lexical or 0.0))
            told = manager.search(query, top_k=most, **whose)
            best = (*(sharing[: max(1, most // 2)] if told else sharing), *told)
            hits = list({hit.memory.id: hit for hit in best}.values())[:most]
        except AgentMemError as error:
            return f"Memory cannot be searched: {error}"
        listed = _listed(hits, working)
        return f"{SHARE_WORDS}\n{listed}" if hits else listed

    def remember(text: str, kind: str = "fact") -> str:
        try:
            memory, new = working.save(text, kind=kind)
        except AgentMemError as error:
            return f"Nothing was saved: {error}"
        return f"Saved as {memory.id}." if new else f"Already known as {memory.id}."

    found = [
        own_tool("memory_read", read, read_only=True, keep=False),
        own_tool("memory_search", search, read_only=True, keep=False),
    ]
    if save:
        found.append(own_tool("memory_save", remember, keep=False))
    return tuple(found)


def _listed(hits: list[Hit], working: WorkingMemory) -> str:
    """The hits best first, shortened until they fit the limit of a read."""
    if not hits:
        return "Nothing in memory answers that."
    limit = working.read_limit_tokens
    for length in (_HIT_CHARACTERS, 250, 120, 60):
        lines = [_line(hit, length) for hit in hits]
        if working.count("\n".join(lines)) <= limit:
            break
    while len(lines) > 1 and working.count("\n".join(lines)) > limit:
        lines.pop()
    return cut_to("\n".join(lines), limit, working.count)


def _line(hit: Hit, length: int) -> str:
    memory = hit.memory
    where = clean_line(memory.title or memory.source_url, limit_characters=min(length, 100))
    facts = [memory.kind, f"{utc(memory.created_at).date()}", where]
    if memory.origin != "user":
        facts.insert(1, f"from {memory.origin}")
    text = clean_line(memory.text, limit_characters=length)
    return f"{memory.id} ({', '.join(fact for fact in facts if fact)}): {text}"


# ----------------------------------------------------------------------------
# The enhanced search as a tool for a loop.


SEARCH_TOOL = "search_web_for_info"


def _among_others(result: EnhancedSearchResult) -> EnhancedSearchResult:
    """`result` with numbers that nothing else of this turn has; one page has one number."""
    sources: list[Citation] | None = sources_of_turn()
    if sources is None:
        return result
    numbers: dict[int, int] = {}
    renumbered = []
    for citation in result.citations:
        same = find_citation(sources, citation)
        # What the block shows of a page is not what the web says of it.
        if same is None or (same.source == "memory" != citation.source):
            same = replace(citation, index=max((one.index for one in sources), default=0) + 1)
            sources.append(same)
        numbers[citation.index] = same.index
        renumbered.append(replace(citation, index=same.index))
    return replace(
        result,
        answer=renumber(result.answer, numbers),
        conflict_disclaimer=renumber(result.conflict_disclaimer, numbers),
        citations=tuple(renumbered),
    )


def search_web_tool(
    web: object = None,
    memory: Paged | None = None,
    *,
    scope: ScopeLike | None = None,
    model: str | Callable[..., Any] | None = None,
    name: str = SEARCH_TOOL,
    **options: Any,
) -> Tool:
    """A tool `search_web_for_info` for `run_agent_loop(tools=[…])` and other loops.

    `web` is as for `enhanced_search`; `options` are passed on to it. Without a
    `scope` it is the memory of whoever `run_agent_loop` runs for. The loop keeps
    the result as working memory; its sources have numbers of their own beside
    those of the reference.
    """
    from agentmem.sources.web.enhanced import enhanced_search, lines_for_model
    from agentmem.sources.web.services import chain_of

    chain = chain_of(web)

    async def search_web_for_info(
        query: str, max_results: int = 8, read_pages: bool = False
    ) -> str:
        result = await enhanced_search(
            query,
            memory=memory,
            web=chain,
            model=model,
            scope=scope_of_turn() if scope is None else scope,
            **{"fetch": read_pages, **options, "max_results": max_results},
        )
        return "\n".join(lines_for_model(_among_others(result)))

    tool = own_tool(SEARCH_TOOL, search_web_for_info, read_only=True)
    return tool if name == SEARCH_TOOL else replace(tool, name=name)
