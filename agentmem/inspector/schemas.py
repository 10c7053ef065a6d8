"""Everything the inspector says as JSON, each under a schema with a name and a version.

The schemas are pydantic's, of the very values the functions give; docs/json.md
is written from them and a test keeps it so.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from agentmem.core.snapshot import Looked, Outcome, Part, Snapshot
from agentmem.core.snapshot_codec import to_fields
from agentmem.errors import InvalidInput

if TYPE_CHECKING:
    from pydantic import BaseModel

VERSION = 1
NAMES = (
    "inspect", "budget", "explain", "diff", "why", "replay", "monitor", "stats", "audit", "doctor",
)  # fmt: skip


def to_json(name: str, value: Any) -> dict[str, Any]:
    """`value` as the JSON of command `name`, checked against its schema; the key `schema` is first.

    Computed figures that are properties of the values (a share, a worst state)
    are among them.
    """
    model = model_of(name)
    return model.model_validate(_plain(name, value)).model_dump(mode="json", by_alias=True)


def schema_of(name: str) -> dict[str, Any]:
    """The JSON schema of command `name`."""
    return model_of(name).model_json_schema(by_alias=True, mode="serialization")


def model_of(name: str) -> type[BaseModel]:
    """The pydantic model of command `name`."""
    from agentmem.inspector import models

    if name not in NAMES:
        raise InvalidInput("name", name, "has no schema", remedy=f"Use one of: {', '.join(NAMES)}.")
    found: type[BaseModel] = models.MODELS[name]
    return found


def snapshot_json(snapshot: Snapshot) -> dict[str, Any]:
    """A snapshot with its computed figures."""
    return {
        **to_fields(snapshot),
        "room_tokens": snapshot.room_tokens,
        "usage": snapshot.usage,
        "estimate_error": snapshot.estimate_error,
    }


def _plain(name: str, value: Any) -> dict[str, Any]:
    from agentmem.core.budget_report import budget_to_dict, fates_to_list

    fields = _fields(value)
    if name == "explain":
        fields = {"context": fields}
    elif name == "budget":
        fields |= {
            "budget": budget_to_dict(value.budget),
            "dropped": fates_to_list(value.dropped),
        }
    elif name == "replay":
        fields["snapshot_id"] = value.snapshot.id
    elif name == "diff":
        fields["empty"] = value.empty
    elif name == "audit":
        fields["clean"] = value.clean
    elif name == "doctor":
        fields |= {"state": value.state, "exit_code": value.exit_code}
    return {"schema": f"agentmem.{name}/{VERSION}", **fields}


def _fields(value: Any) -> Any:
    """A value and all in it as dicts, lists and plain values; moments stay as they are."""
    if isinstance(value, Snapshot):
        return snapshot_json(value)
    if isinstance(value, Looked | Part | Outcome) or hasattr(value, "__dataclass_fields__"):
        return {name: _fields(getattr(value, name)) for name in value.__dataclass_fields__}
    if isinstance(value, Mapping):
        return {str(key): _fields(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_fields(item) for item in value]
    return value
