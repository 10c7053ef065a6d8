"""Snapshots as JSON values, and packed for keeping: texts that repeat stand apart, by hash.

Writing never fails: a number that is not finite becomes `None`, a letter that
is not Unicode text becomes a question mark, a setting that is not JSON its
text. For everything else reading gives back what was written (N1).
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import fields, replace
from datetime import datetime
from types import MappingProxyType
from typing import Any, get_args

from agentmem.core.secrets_said import without_keys
from agentmem.core.snapshot import Decision, Looked, Outcome, Part, Section, Snapshot
from agentmem.core.values import dataclass
from agentmem.errors import InvalidInput
from agentmem.types import EMPTY, Scope, utc

VERSION = 1
TEXT_PREFIX = "text:"
MESSAGE_PREFIX = "message:"
SAID_PREFIX = "said:"
ERASED_TEXT = "(erased)"
_SHARED_CHARACTERS = 80
"""Shorter texts cost more to share than to repeat."""
_DEEPEST = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedText:
    """A text that snapshots point to by `id`; `memory_id` is whose text it is."""

    id: str
    memory_id: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed:
    """A snapshot as it is kept. `mentions` names memories, shared texts and the message.

    What was said in its turn is added to them by `said_mention` once it is remembered.
    """

    data: Mapping[str, Any]
    mentions: tuple[str, ...]
    shared: tuple[SharedText, ...]


def to_fields(snapshot: Snapshot) -> dict[str, Any]:
    """`snapshot` as JSON values, every field; never raises for a Snapshot."""
    written = {name: _plain(getattr(snapshot, name)) for name in _SIMPLE}
    return {
        "version": VERSION,
        **written,
        "created_at": utc(snapshot.created_at).isoformat(),
        "scope": {name: _plain(getattr(snapshot.scope, name)) for name in Scope.__slots__},
        "parts": [_fields_of(part) for part in snapshot.parts],
        "looked_at": [_fields_of(looked) for looked in snapshot.looked_at],
        "outcome": None if snapshot.outcome is None else _fields_of(snapshot.outcome),
    }


def from_fields(written: Mapping[str, Any]) -> Snapshot:
    """The snapshot `to_fields` wrote; fields of a newer version are left out, bad ones refused."""
    try:
        values = {name: written[name] for name in _SIMPLE if name in written}
        for name in ("settings", "timings_ms"):
            values[name] = _frozen(values.get(name) or {})
        for name in ("warnings", "degradations"):
            values[name] = tuple(map(str, values.get(name) or ()))
        created_at = datetime.fromisoformat(written["created_at"])
        if created_at.utcoffset() is None:
            raise ValueError("created_at has no time zone")
        outcome = written.get("outcome")
        return Snapshot(
            created_at=created_at,
            scope=Scope(**(written.get("scope") or {})),
            parts=tuple(Part(**_known(Part, part)) for part in written.get("parts") or ()),
            looked_at=tuple(map(_looked, written.get("looked_at") or ())),
            outcome=None if outcome is None else outcome_from_fields(outcome),
            **values,
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput("snapshot", str(error), "cannot be read") from None


def outcome_to_fields(outcome: Outcome) -> dict[str, Any]:
    """`outcome` as JSON values."""
    return _fields_of(outcome)


def outcome_from_fields(written: Mapping[str, Any]) -> Outcome:
    """The outcome `outcome_to_fields` wrote."""
    values = _known(Outcome, written)
    return Outcome(**(values | {"usage": _frozen(values.get("usage") or {})}))


def pack(snapshot: Snapshot) -> Packed:
    """`snapshot` with its longer memory texts taken out, to be kept once for all snapshots.

    A shared text belongs to one user and one memory, so that it is erased with
    either and never shown to anybody else.
    """
    data = to_fields(snapshot)
    shared: dict[str, SharedText] = {}
    for looked in data["looked_at"]:
        text = looked["text"]
        if len(text) < _SHARED_CHARACTERS:
            continue
        key = _text_id(data["scope"]["user_id"], looked["id"], text)
        shared[key] = SharedText(id=key, memory_id=looked["id"], text=text)
        del looked["text"]
        looked["text_id"] = key
    for looked in data["looked_at"]:
        for name in [
            name for name, default in _LOOKED_DEFAULTS.items() if looked.get(name) == default
        ]:
            del looked[name]
    ids = dict.fromkeys(looked["id"] for looked in data["looked_at"])
    message = [MESSAGE_PREFIX + data["message_id"]] if data["message_id"] else []
    return Packed(data=data, mentions=(*ids, *shared, *message), shared=tuple(shared.values()))


def said_mention(memory_id: str) -> str:
    """How the trace of a turn names a memory of what was said in it."""
    return SAID_PREFIX + memory_id


def unpack(data: Mapping[str, Any], texts: Mapping[str, str]) -> Snapshot:
    """The snapshot that was packed; a shared text that is gone reads `(erased)`."""
    try:
        looked_at = [
            {**looked, "text": texts.get(looked["text_id"], ERASED_TEXT)}
            if "text_id" in looked
            else looked
            for looked in data["looked_at"]
        ]
    except (KeyError, TypeError) as error:
        raise InvalidInput("snapshot", str(error), "cannot be read") from None
    return from_fields({**data, "looked_at": looked_at})


def text_ids(data: Mapping[str, Any]) -> tuple[str, ...]:
    """The shared texts a packed snapshot points to."""
    looked_at = data.get("looked_at") or ()
    return tuple(dict.fromkeys(looked["text_id"] for looked in looked_at if "text_id" in looked))


def without_texts_of(snapshot: Snapshot, erased: frozenset[str]) -> Snapshot:
    """`snapshot` as it may be kept after these memories were erased: nothing that quotes them."""
    if not any(looked.id in erased for looked in snapshot.looked_at):
        return snapshot
    outcome = snapshot.outcome
    return replace(
        snapshot,
        query=ERASED_TEXT,
        message=ERASED_TEXT,
        looked_at=tuple(looked for looked in snapshot.looked_at if looked.id not in erased),
        warnings=(*snapshot.warnings, "a memory was erased before this was written"),
        outcome=None if outcome is None else replace(outcome, answer=ERASED_TEXT),
    )


def without_keys_of(snapshot: Snapshot) -> Snapshot:
    """`snapshot` as it may be kept: what went wrong without the keys that providers repeat."""
    told = {
        name: tuple(map(without_keys, getattr(snapshot, name)))
        for name in ("warnings", "degradations")
    }
    outcome = snapshot.outcome
    kept = None if outcome is None else replace(outcome, error=without_keys(outcome.error))
    return replace(snapshot, **told, outcome=kept)  # type: ignore[arg-type]  # both are texts


_SIMPLE = tuple(
    field.name
    for field in fields(Snapshot)
    if field.name not in ("created_at", "scope", "parts", "looked_at", "outcome")
)
_LOOKED_DEFAULTS: Mapping[str, Any] = MappingProxyType(
    {
        "kind": "", "title": "", "text": "", "tokens": 0, "rank": None, "score": None,
        "lexical": None, "vector": None, "lexical_rank": None, "vector_rank": None, "boosts": {},
        "url": "", "origin": "", "retrieved": "", "heading": "", "speaker": "",
        "fixed": False,
    }
)  # fmt: skip
_NAMES = {kind: tuple(field.name for field in fields(kind)) for kind in (Looked, Part, Outcome)}


def _fields_of(value: Looked | Part | Outcome) -> dict[str, Any]:
    return {name: _plain(getattr(value, name)) for name in _NAMES[type(value)]}


def _known(kind: type[Looked | Part | Outcome], written: Mapping[str, Any]) -> dict[str, Any]:
    return {name: written[name] for name in _NAMES[kind] if name in written}


def _looked(written: Mapping[str, Any]) -> Looked:
    values = _known(Looked, written)
    if values["section"] not in get_args(Section) or values["decision"] not in get_args(Decision):
        raise ValueError("an unknown section or decision")
    return Looked(**(values | {"boosts": _frozen(values.get("boosts") or {})}))


def _plain(value: Any, depth: int = 0) -> Any:
    """`value` as JSON has it, whatever it is."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode("utf-8")
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if depth > _DEEPEST:
        return "…"
    if isinstance(value, Mapping):
        return {
            _plain(key if isinstance(key, str) else str(key)): _plain(item, depth + 1)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item, depth + 1) for item in value]
    return _plain(str(value))


def _frozen(value: Mapping[str, Any]) -> Mapping[str, Any]:
    return MappingProxyType(dict(value)) if value else EMPTY


def _text_id(user_id: str | None, memory_id: str, text: str) -> str:
    written = json.dumps([user_id, memory_id, text]).encode("ascii")
    return TEXT_PREFIX + hashlib.blake2b(written, digest_size=16).hexdigest()
