"""Which memories are meant: conditions on fields and metadata, as users write them.

    {"kind": "fact"}                                 equal
    {"stars": {"gt": 3, "lt": 9}}                    several operators, all must hold
    {"tag": ["a", "b"]}                              one of, the same as {"in": [...]}
    {"city": "*"}                                    the field is there, whatever it holds
    {"OR": [{"kind": "fact"}, {"NOT": {"tag": {"contains": "x"}}}]}

Several keys in one dictionary must all hold. A name that is no field of a
memory is looked up in its metadata; `metadata.a.b` reaches inside. A field
that is missing equals nothing: every comparison with it is false, so `ne`,
`nin` and `NOT` are true. Values of different types are never equal, and never
ordered; true is not 1.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from operator import ge, gt, le, lt
from types import MappingProxyType
from typing import Any, Literal, get_args

from agentmem.base.checks import require_text
from agentmem.base.errors import InvalidFilter
from agentmem.base.types import Memory, Scope, is_forgotten, require_instant, visible

Operator = Literal[
    "eq", "ne", "in", "nin", "gt", "gte", "lt", "lte", "contains", "icontains", "exists"
]
MAX_DEPTH = 32
MAX_CONDITIONS = 1000

SCOPE_FIELDS = frozenset({"user_id", "project_id", "agent_id", "run_id"})
INSTANT_FIELDS = frozenset({"created_at", "valid_from", "valid_to", "deleted_at"})
MEMORY_FIELDS = frozenset(
    {
        *SCOPE_FIELDS, *INSTANT_FIELDS, "id", "text", "kind", "visibility", "origin", "summary",
        "compressed", "index", "source_url", "title", "heading_path", "speaker", "session",
        "position", "importance", "supersedes", "superseded_by", "content_hash",
    }
)  # fmt: skip

MISSING: Any = object()
FieldReader = Callable[[str], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Compare:
    """One field against one value."""

    field: str
    operator: Operator
    value: Any = None

    def __post_init__(self) -> None:
        require_text(self.field, "filter field")
        if self.operator not in get_args(Operator):
            raise InvalidFilter(
                "operator",
                self.operator,
                "is not known",
                remedy=f"Use one of: {', '.join(get_args(Operator))}.",
            )
        value = self.value
        if self.field in INSTANT_FIELDS and self.operator != "exists":
            value = _as_instants(self.field, value)
        if self.operator in ("in", "nin"):
            if isinstance(value, str | bytes | Mapping) or not isinstance(value, Collection):
                raise InvalidFilter(self.field, value, f"needs a list for {self.operator!r}")
            value = tuple(_frozen(item) for item in value)
        else:
            value = _frozen(value)
        object.__setattr__(self, "value", value)


@dataclass(frozen=True, slots=True, kw_only=True)
class And:
    """All parts hold; with no parts, always."""

    parts: tuple[Filter, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Or:
    """Some part holds; with no parts, never."""

    parts: tuple[Filter, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Not:
    """The part does not hold."""

    part: Filter


Filter = Compare | And | Or | Not
ALWAYS = And(parts=())
ALL_VISIBILITIES = ("private", "project", "system")


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which memories a reader asks for; the parts that are left out exclude nothing.

    `since` is included, `until` is not. Without `as_of` the memories that are
    current: neither deleted nor superseded nor forgotten. With it, what was current
    then: created by that moment and inside its validity, whether superseded later,
    and forgotten for that, or not.
    """

    reader: Scope
    where: Filter = ALWAYS
    kinds: tuple[str, ...] | None = None
    source_url: str | None = None
    session: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    as_of: datetime | None = None
    superseded: bool = False
    deleted: bool = False
    forgotten: bool = False
    visibilities: tuple[str, ...] = ALL_VISIBILITIES

    def __post_init__(self) -> None:
        for name in ("since", "until", "as_of"):
            require_instant(getattr(self, name), name)
        for name in ("source_url", "session"):
            if getattr(self, name) is not None:
                require_text(getattr(self, name), name)
        for kind in self.kinds or ():
            require_text(kind, "kinds")

    @property
    def is_everything(self) -> bool:
        """Whether nothing but the owner narrows it: "all that is mine"."""
        return self.where == ALWAYS and not any(
            part is not None
            for part in (
                self.kinds, self.source_url, self.session, self.since, self.until, self.as_of,
            )
        )  # fmt: skip


def selected(selection: Selection, memory: Memory) -> bool:
    """Whether `memory` is one of those `selection` asks for: the rule every store follows."""
    return (
        visible(memory, selection.reader)
        and memory.visibility in selection.visibilities
        and (selection.kinds is None or memory.kind in selection.kinds)
        and selection.source_url in (None, memory.source_url)
        and selection.session in (None, memory.session)
        and (selection.since is None or memory.created_at >= selection.since)
        and (selection.until is None or memory.created_at < selection.until)
        and _is_current(selection, memory)
        and matches(selection.where, memory)
    )


def _is_current(selection: Selection, memory: Memory) -> bool:
    if memory.deleted_at is not None and not selection.deleted:
        return False
    replaced = memory.superseded_by is not None
    at = selection.as_of
    if is_forgotten(memory) and not selection.forgotten and (at is None or not replaced):
        return False
    if at is None:
        return selection.superseded or not replaced
    return (
        memory.created_at <= at
        and (memory.valid_from is None or memory.valid_from <= at)
        and (memory.valid_to is None or at < memory.valid_to)
        and (selection.superseded or not replaced or memory.valid_to is not None)
    )


def parse_filter(written: object) -> Filter:
    """The filter a user wrote as a dictionary; `None` and `{}` mean no condition."""
    parsed = _parse(written, 0)
    if sum(1 for _ in conditions(parsed)) > MAX_CONDITIONS:
        raise InvalidFilter(
            "filters", MAX_CONDITIONS, "has too many conditions", remedy="Use `in` with a list."
        )
    return parsed


def matches(condition: Filter, memory: Memory) -> bool:
    """Whether `memory` meets `condition`."""
    return holds(condition, lambda field: field_of(memory, field))


def holds(condition: Filter, read: FieldReader) -> bool:
    """Whether `condition` holds for something whose fields `read` gives, or `MISSING`."""
    if isinstance(condition, And):
        return all(holds(part, read) for part in condition.parts)
    if isinstance(condition, Or):
        return any(holds(part, read) for part in condition.parts)
    if isinstance(condition, Not):
        return not holds(condition.part, read)
    return _compare(condition, read(condition.field))


def conditions(condition: Filter) -> Iterator[Compare]:
    """Every single comparison inside `condition`."""
    if isinstance(condition, Compare):
        yield condition
    elif isinstance(condition, Not):
        yield from conditions(condition.part)
    else:
        for part in condition.parts:
            yield from conditions(part)


def field_of(memory: Memory, field: str) -> Any:
    """The value of a field, of the scope, or of the metadata; `MISSING` when there is none."""
    if field in SCOPE_FIELDS:
        value = getattr(memory.scope, field)
    elif field in MEMORY_FIELDS:
        value = getattr(memory, field)
    else:
        return metadata_field(memory.metadata, field)
    return MISSING if value is None else value


def metadata_field(metadata: Mapping[str, Any], field: str) -> Any:
    """The metadata under exactly this name, or down a dotted `metadata.` path."""
    if field in metadata:
        return metadata[field]
    if not field.startswith("metadata."):
        return MISSING
    name = field.removeprefix("metadata.")
    if name in metadata:
        return metadata[name]
    value: Any = metadata
    for step in name.split("."):
        if not isinstance(value, Mapping) or step not in value:
            return MISSING
        value = value[step]
    return value


def _parse(written: object, depth: int) -> Filter:
    if written is None:
        return ALWAYS
    if isinstance(written, Compare | And | Or | Not):
        return written
    if not isinstance(written, Mapping):
        raise InvalidFilter(
            "filters", written, "is not a dictionary", remedy='Write {"field": value}.'
        )
    if depth > MAX_DEPTH:
        raise InvalidFilter("filters", "…", f"is nested deeper than {MAX_DEPTH}")
    parts = tuple(_parse_item(key, value, depth + 1) for key, value in written.items())
    return parts[0] if len(parts) == 1 else And(parts=parts)


def _parse_item(key: object, value: object, depth: int) -> Filter:
    if not isinstance(key, str):
        raise InvalidFilter("filters", key, "has a key that is not a string")
    word = key.removeprefix("$").lower() if key.removeprefix("$").isascii() else key
    if key in ("AND", "OR", "NOT", "$and", "$or", "$not", "and", "or", "not"):
        parts = tuple(_parse(part, depth) for part in _listed(key, value))
        if word == "not":
            # Several parts under NOT are all refused, as in other memory layers.
            return Not(part=parts[0] if len(parts) == 1 else Or(parts=parts))
        return And(parts=parts) if word == "and" else Or(parts=parts)
    if value == "*" and isinstance(value, str):
        return Compare(field=key, operator="exists", value=True)
    if isinstance(value, Mapping):
        return _parse_operators(key, value)
    if isinstance(value, list | tuple | set | frozenset):
        return Compare(field=key, operator="in", value=tuple(value))
    return Compare(field=key, operator="eq", value=value)


def _parse_operators(field: str, written: Mapping[Any, Any]) -> Filter:
    if not written:
        raise InvalidFilter(field, written, "has no operator", remedy='Write {"eq": value}.')
    parts = []
    for name, value in written.items():
        operator: Any = name.removeprefix("$") if isinstance(name, str) else name
        if operator == "exists" and not isinstance(value, bool):
            raise InvalidFilter(field, value, "needs true or false for 'exists'")
        parts.append(Compare(field=field, operator=operator, value=value))
    return parts[0] if len(parts) == 1 else And(parts=tuple(parts))


def _listed(key: str, value: object) -> Collection[object]:
    if isinstance(value, Mapping):
        return (value,)
    if not isinstance(value, list | tuple):
        raise InvalidFilter(key, value, "needs a list of filters")
    return value


def _compare(condition: Compare, found: Any) -> bool:
    wanted, operator = condition.value, condition.operator
    if operator == "exists":
        return (found is not MISSING) == bool(wanted)
    negated = operator in ("ne", "nin")
    if found is MISSING:
        return negated
    if operator in ("eq", "ne"):
        return _equal(found, wanted) != negated
    if operator in ("in", "nin"):
        return any(_equal(found, item) for item in wanted) != negated
    if operator == "contains":
        return _contains(found, wanted, str)
    if operator == "icontains":
        return _contains(found, wanted, str.casefold)
    family = _family(found)
    return (
        family == _family(wanted)
        and family in ("number", "text", "instant")
        and bool(_ORDERS[operator](found, wanted))
    )


_ORDERS: Mapping[str, Callable[[Any, Any], object]] = MappingProxyType(
    {"gt": gt, "gte": ge, "lt": lt, "lte": le}
)


def _equal(left: Any, right: Any) -> bool:
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(
            _equal(a, b) for a, b in zip(left, right, strict=True)
        )
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(_equal(left[key], right[key]) for key in left)
    return _family(left) == _family(right) and bool(left == right)


def _contains(found: Any, wanted: Any, fold: Callable[[str], str]) -> bool:
    if isinstance(found, str):
        return isinstance(wanted, str) and fold(wanted) in fold(found)
    if isinstance(found, list | tuple):
        if isinstance(wanted, str):
            return any(isinstance(item, str) and fold(item) == fold(wanted) for item in found)
        return any(_equal(item, wanted) for item in found)
    return False


def _family(value: Any) -> str:
    if isinstance(value, bool):
        return "truth"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, str):
        return "text"
    if isinstance(value, datetime):
        return "instant"
    return "nothing" if value is None else type(value).__name__


def _frozen(value: Any, depth: int = 0) -> Any:
    """`value` as something that cannot change: JSON values and moments, nothing else."""
    if depth > MAX_DEPTH:
        raise InvalidFilter("filter value", "…", f"is nested deeper than {MAX_DEPTH}")
    if value is None or isinstance(value, bool | int | float | datetime):
        return value
    if isinstance(value, str):
        return require_text(value, "filter value")
    if isinstance(value, list | tuple | set | frozenset):
        return tuple(_frozen(item, depth + 1) for item in value)
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        frozen = {key: _frozen(item, depth + 1) for key, item in value.items()}
        return MappingProxyType(frozen)
    raise InvalidFilter(
        "filter value", value, "cannot be compared", remedy="Use text, numbers, dates or lists."
    )


def _as_instants(field: str, value: Any) -> Any:
    if isinstance(value, list | tuple | set | frozenset):
        return tuple(_as_instants(field, item) for item in value)
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            value = None
    if not isinstance(value, datetime) or value.tzinfo is None:
        raise InvalidFilter(
            field,
            value,
            "is not a moment with a time zone",
            remedy="Write it as '2026-05-01T00:00:00Z' or pass an aware datetime.",
        )
    return value
