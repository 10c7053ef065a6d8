"""How calls become routes: what a request may say, what is answered, and how both are described.

All of it is read from the call's own signature, so the description in
`/openapi.json` cannot say something else than what is done.
"""

from __future__ import annotations

import base64
import inspect
import json
import math
import re
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from datetime import datetime
from functools import cache
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError, create_model
from pydantic.errors import PydanticUserError
from starlette.requests import Request

from agentmem.agent.reading import ResultPage
from agentmem.base.config import LoopConfig
from agentmem.base.errors import InvalidInput, MalformedRequest
from agentmem.base.types import Hit, Memory, Scope, memory_to_dict
from agentmem.data import read_json as read_data
from agentmem.inspector.json import snapshot_json, written_type
from agentmem.living.consolidate import ConsolidationReport
from agentmem.living.learn import Learned
from agentmem.living.predict import Signal, SignalKind
from agentmem.living.preferences import Preference, PreferenceStore
from agentmem.living.settle import Contradiction, Resolution, Resolved
from agentmem.living.tiers import Prefetched
from agentmem.memory.manager import MemoryManager
from agentmem.memory.parts import Living, MemoryUpkeep, Sources
from agentmem.prompt.snapshot import Snapshot
from agentmem.search.results import AddResult, Memories, SearchResults
from agentmem.server.http import read_json, say
from agentmem.stores.journal import JournalEntry, Undone


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One route: `call` is a function, or the name of a call of the memory.

    Of somebody else's client, `adapt` turns what it says into what the call
    takes, and what the call does not know is left aside. `bare` answers a list
    as it is.
    """

    method: str
    path: str
    call: str | Callable[..., Any]
    skip: tuple[str, ...] = ()
    adapt: Callable[[dict[str, Any]], dict[str, Any]] | None = None
    bare: bool = False


Signals = list[Signal | tuple[str, str]]
_DEFERRED: Mapping[str, Any] = {
    **{one.__name__: one for one in (ConsolidationReport, Contradiction, JournalEntry, Learned,
                                     LoopConfig, Prefetched, Preference, Resolved, Undone)},
    "Resolution": Resolution, "SignalKind": SignalKind, "Signals": Signals,
    **dict.fromkeys(("ConsolidationSettings", "Model", "Spend"), Any),  # no request says them
}  # fmt: skip
"""Names that the signatures use and their modules import for type checkers alone."""

_PARTS: Mapping[str, Any] = {
    "": MemoryManager, "living": Living, "sources": Sources, "upkeep": MemoryUpkeep,
    "preferences": PreferenceStore,
}  # fmt: skip


def function_of(operation: Operation) -> Callable[..., Any]:
    """What is called, as it was written."""
    if callable(operation.call):
        return operation.call
    part, _, name = operation.call.rpartition(".")
    found: Callable[..., Any] = getattr(_PARTS[part], name)
    return found


@cache
def hints_of(operation: Operation) -> dict[str, Any]:
    """The types of an operation's parameters and of what it gives."""
    return typing.get_type_hints(function_of(operation), localns=_DEFERRED)


@cache
def request_model(operation: Operation) -> type[BaseModel]:
    """What a request may say, made of the call's own signature."""
    call, hints = function_of(operation), hints_of(operation)
    said: dict[str, Any] = {}
    for name, parameter in inspect.signature(call).parameters.items():
        hidden = name in ("self", "asked", *operation.skip)
        if hidden or parameter.kind is parameter.VAR_KEYWORD:
            continue
        default = ... if parameter.default is parameter.empty else parameter.default
        said[name] = (hints[name], default)
    said |= dict.fromkeys(Scope.__slots__, (str | None, None))
    words = re.sub(r"[{}_/]+", " ", f"{operation.method} {operation.path}")
    extra: Literal["forbid", "ignore"] = "forbid" if operation.adapt is None else "ignore"
    config = ConfigDict(extra=extra, arbitrary_types_allowed=True)
    made: type[BaseModel] = create_model(words.title().replace(" ", ""), __config__=config, **said)
    return made


async def read_request(operation: Operation, request: Request) -> dict[str, Any]:
    """What the request says: its path and query, or its path and body, as the call takes it."""
    model = request_model(operation)
    values: dict[str, Any] = {}
    if operation.method in ("GET", "DELETE") or operation.adapt is not None:
        values = _read_query(request, model)
    if operation.method not in ("GET", "DELETE") or operation.adapt is not None:
        raw = await request.body()
        read = read_json(raw) if raw.strip() else {}
        if not isinstance(read, dict):
            raise MalformedRequest("The body is no JSON object.")
        values = {**values, **read}
    if operation.adapt is not None:
        values = operation.adapt(values)
    values = {**values, **request.path_params}
    try:
        # As JSON: lists become tuples and texts moments, but no text becomes a number.
        checked = model.model_validate_json(json.dumps(values), strict=True)
    except ValidationError as error:
        raise _refusal(error) from None
    return {name: getattr(checked, name) for name in checked.model_fields_set}


def _read_query(request: Request, model: type[BaseModel]) -> dict[str, Any]:
    """The query as JSON values: of what is no text in the call, JSON or a list by commas."""
    values: dict[str, Any] = {}
    for name, text in request.query_params.multi_items():
        field = model.model_fields.get(name)
        wanted = "" if field is None else str(field.annotation)
        if name in values or "list[str]" in wanted or "Sequence[str]" in wanted:
            values[name] = [*values.get(name, []), *text.split(",")]
        elif field is None or field.annotation in (str, str | None) or "Literal" in wanted:
            values[name] = text
        else:
            try:
                values[name] = json.loads(text)
            except ValueError:
                values[name] = text
    return values


def _refusal(error: ValidationError) -> MalformedRequest | InvalidInput:
    first = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(map(str, first["loc"])) or "body"
    cause = first.get("ctx", {}).get("error")
    if isinstance(cause, InvalidInput):
        return cause
    return MalformedRequest(f"{where}: {first['msg']}.", remedy="See /openapi.json.")


# ----------------------------------------------------------------------------
# What is answered.


_SAID_OF_THIS_MACHINE = frozenset(
    {"degradations", "error", "notes", "warnings", "location", "last_error", "found", "remedy",
     "index_files", "missing", "problem"}
)  # fmt: skip
"""Fields that may hold a path or an error's own words."""


def plain(value: Any) -> Any:
    """A value as JSON has it: dataclasses by their fields, moments as ISO 8601."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Memory):
        return memory_to_dict(value)
    if isinstance(value, Hit):
        return {**memory_to_dict(value.memory), **_fields(value, but="memory")}
    if isinstance(value, Snapshot):
        return plain(snapshot_json(value))
    if isinstance(value, SearchResults):
        return {"results": [plain(hit) for hit in value.hits], **_fields(value, but="hits")}
    if isinstance(value, AddResult):
        return {"results": value["results"], **_fields(value, but="items")}
    if isinstance(value, ResultPage):
        return _fields(value, but="data")
    if is_dataclass(value):
        return _fields(value)
    if isinstance(value, Mapping):
        return {str(key): _one(str(key), item) for key, item in value.items()}
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Sequence | set | frozenset):
        return [plain(item) for item in value]
    return str(value)


def _fields(value: Any, but: str = "") -> dict[str, Any]:
    return {f.name: _one(f.name, getattr(value, f.name)) for f in fields(value) if f.name != but}


def _one(name: str, value: Any) -> Any:
    made = plain(value)
    if name not in _SAID_OF_THIS_MACHINE:
        return made
    if isinstance(made, str):
        return say(made)
    return [say(x) if isinstance(x, str) else x for x in made] if isinstance(made, list) else made


def write(found: Any, *, bare: bool = False) -> bytes:
    """An answer: an object, unless `bare`; a list under `results`, a number under `count`."""
    value = plain(found)
    if isinstance(value, bool) or value is None:
        value = {"ok": value is not False}
    elif isinstance(value, int):
        value = {"count": value}
    elif isinstance(value, list) and not bare:
        value = {"results": value}
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


# ----------------------------------------------------------------------------
# The description, written from the same types.


def openapi(operations: Sequence[Operation]) -> dict[str, Any]:
    """OpenAPI 3.1 of the operations, and of what every server has besides."""
    from agentmem import __version__

    document: dict[str, Any] = read_data("openapi.json")
    document["info"]["version"] = __version__
    paths: dict[str, Any] = {}
    for one in operations:
        described = _describe(one, document["components"]["schemas"])
        paths.setdefault(one.path, {})[one.method.lower()] = described
    document["paths"] = paths | document["paths"]
    return document


def _describe(operation: Operation, components: dict[str, Any]) -> dict[str, Any]:
    model = request_model(operation)
    template = "#/components/schemas/{model}"
    schema = model.model_json_schema(ref_template=template)
    components.update(schema.pop("$defs", {}))
    in_path = [part[1:-1] for part in operation.path.split("/") if part.startswith("{")]
    properties: dict[str, Any] = schema.get("properties", {})
    parameters: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "schema": properties.pop(name)}
        for name in in_path
    ]
    doc = inspect.getdoc(function_of(operation)) or ""
    made: dict[str, Any] = {
        "operationId": model.__name__,
        "summary": doc.split("\n")[0],
        "description": doc,
        "parameters": parameters,
        "responses": {
            "200": {
                "description": "Done.",
                "content": {"application/json": {"schema": _answer_schema(operation, components)}},
            },
            "default": {
                "description": "What went wrong.",
                "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
            },
        },
    }
    required = [name for name in schema.get("required", []) if name not in in_path]
    if operation.method in ("GET", "DELETE"):
        parameters += [
            {"name": name, "in": "query", "required": name in required, "schema": one}
            for name, one in properties.items()
        ]
    else:
        schema["required"] = required
        components[model.__name__] = schema
        made["requestBody"] = {
            "required": bool(required),
            "content": {
                "application/json": {"schema": {"$ref": template.format(model=model.__name__)}}
            },
        }
    return made


def _answer_schema(operation: Operation, components: dict[str, Any]) -> dict[str, Any]:
    """The schema of what an operation answers, from what its call says it gives."""
    gives = hints_of(operation).get("return", Any)
    if gives in (int, bool, type(None)):
        name, kind = ("count", "integer") if gives is int else ("ok", "boolean")
        return {"type": "object", "required": [name], "properties": {name: {"type": kind}}}
    listed = {Memories: Memory, SearchResults: Memory, AddResult: Any}.get(gives)
    if typing.get_origin(gives) in (tuple, list):
        listed = typing.get_args(gives)[0]
    if listed is None:
        return _value_schema(gives, components)
    results = {"type": "array", "items": _value_schema(listed, components)}
    return {"type": "object", "required": ["results"], "properties": {"results": results}}


def _value_schema(kind: Any, components: dict[str, Any]) -> dict[str, Any]:
    if kind in (Snapshot, Snapshot | None):
        kind = written_type(Snapshot)
    if typing.get_origin(kind) is not None or kind is Any:
        return {"type": "object"}
    try:
        schema = TypeAdapter(kind).json_schema(
            mode="serialization", ref_template="#/components/schemas/{model}"
        )
    except (PydanticUserError, TypeError, NameError):
        return {"type": "object"}
    components.update(schema.pop("$defs", {}))
    name = kind.__name__
    components[name] = schema
    return {"$ref": f"#/components/schemas/{name}"}
