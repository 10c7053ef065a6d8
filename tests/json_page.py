"""Write docs/json.md from the schemas of the inspector's documents.

python -m tests.json_page > docs/json.md
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any

from agentmem.inspector.json import NAMES, VERSION, schema_of

_HEAD = """<!-- Written by `python -m tests.json_page > docs/json.md`; change the dataclasses instead. -->

# JSON of the inspector

Every command of the [inspector](inspector.md) prints one document with `--json`; `monitor`
prints one a line. `schema` names the document and its version: fields may be added within a
version, and a field that changes or goes makes a new one. Moments are ISO 8601 in UTC, shares
are from 0 to 1, `null` means that it is not known. The schemas themselves come from
`agentmem.schema_of(name)`, as JSON Schema.
"""


def render() -> str:
    """The whole page."""
    schemas = {f"agentmem.{name}/{VERSION}": schema_of(name) for name in NAMES}
    parts: dict[str, Mapping[str, Any]] = {}
    for schema in schemas.values():
        parts |= {_name(title): part for title, part in schema.get("$defs", {}).items()}
    lines = [_HEAD]
    for title, one in (*schemas.items(), ("# Parts", {}), *sorted(parts.items())):
        if not one:
            lines += [title, ""]
            continue
        lines += [f"## {title}", "", _one_line(one["description"]), "", *_table(one)]
    return "\n".join(lines).rstrip() + "\n"


def _table(schema: Mapping[str, Any]) -> Iterator[str]:
    yield "| Field | Type | Meaning |"
    yield "|---|---|---|"
    for field, said in schema.get("properties", {}).items():
        yield f"| `{field}` | {_type(said)} | {_one_line(said.get('description', ''))} |"
    yield ""


def _type(said: Mapping[str, Any]) -> str:
    if "$ref" in said:
        name = _name(said["$ref"].rpartition("/")[2])
        return f"[{name}](#{name.lower()})"
    if "anyOf" in said:
        return " or ".join(_type(one) for one in said["anyOf"])
    if "enum" in said:
        return " or ".join(f"`{one}`" for one in said["enum"])
    kind = said.get("type", "anything")
    if kind == "array":
        return f"list of {_type(said.get('items', {}))}"
    if kind == "object":
        inner = said.get("additionalProperties")
        return f"object of {_type(inner)}" if isinstance(inner, Mapping) else "object"
    if said.get("format") == "date-time":
        return "moment"
    return str(kind)


def _name(title: str) -> str:
    return title.removesuffix("Json")


def _one_line(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("`None`", "`null`")


if __name__ == "__main__":
    sys.stdout.write(render())
