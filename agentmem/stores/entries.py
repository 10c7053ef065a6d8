"""Memories with their terms and vectors, checked and made ready to be written."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from agentmem.core.checks import require_count, require_number, require_text
from agentmem.errors import BadVector, InvalidInput, InvalidNumber, InvalidText
from agentmem.protocols import EmbedderId
from agentmem.stores.values import ERASED, Entry
from agentmem.types import EMPTY, UNUSED, Memory, Scope, Usage

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
_FIRST_MOMENT = (datetime.min.replace(tzinfo=UTC) - EPOCH) // MICROSECOND
_LAST_MOMENT = (datetime.max.replace(tzinfo=UTC) - EPOCH) // MICROSECOND
NO_POSITION = 1 << 62
"""Stands for "no position": after all that have one, in the order they came."""
_REMEDY = "Use agentmem.preparing.prepare()."
_JSON = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=dict)


def pack_vector(embedder: EmbedderId, vector: NDArray[np.float32]) -> bytes:
    """`vector` as little-endian float32, refused unless it belongs to this embedder's space.

    Its numbers are rounded to half precision, in which a store keeps them, unless
    that would not do: some too large or all too small for it.
    """
    import numpy as np

    array = np.asarray(vector)
    if array.shape != (embedder.dimensions,):
        raise BadVector(
            f"A vector of shape {array.shape} is not one of {embedder}.",
            remedy=f"Pass {embedder.dimensions} numbers, or name the embedder they came from.",
        )
    if array.dtype.kind not in "fiu":
        raise BadVector(
            f"A vector of {array.dtype} is not numbers.", remedy="Pass an array of float32."
        )
    with np.errstate(over="ignore"):
        packed = array.astype("<f4")
    if not np.isfinite(packed).all():
        raise BadVector(
            "A vector holds NaN or infinity.", remedy="Embed the text again, or leave it out."
        )
    return _rounded(packed[None, :]).tobytes()


def _rounded(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """The vectors in half precision, those as they are of which more than a rounding was lost."""
    import numpy as np

    with np.errstate(over="ignore"):
        rounded: NDArray[np.float32] = vectors.astype("<f2").astype("<f4")
    with np.errstate(invalid="ignore"):
        lost = np.abs(rounded - vectors).max(axis=1, initial=0.0)
    kept = ~(lost <= np.abs(vectors).max(axis=1, initial=0.0) / 1024)
    rounded[kept] = vectors[kept]
    return rounded


def shorten(vector: bytes) -> bytes:
    """The same numbers in half precision if nothing is lost by it: half as many bytes."""
    import numpy as np

    with np.errstate(over="ignore"):
        short = np.frombuffer(vector, "<f4").astype("<f2")
    return short.tobytes() if short.astype("<f4").tobytes() == vector else vector


def pack_vectors(embedder: EmbedderId, vectors: Any) -> list[bytes]:
    """Each of `vectors` as `pack_vector` gives it, looked at together when they are a matrix."""
    import numpy as np

    if isinstance(vectors, np.ndarray) and vectors.ndim == 2 and vectors.dtype.kind in "fiu":
        size = 4 * embedder.dimensions
        with np.errstate(over="ignore"):
            packed = vectors.astype("<f4", copy=False)
        if vectors.shape[1] == embedder.dimensions and np.isfinite(packed).all():
            data = _rounded(packed).tobytes()
            return [data[at : at + size] for at in range(0, size * len(vectors), size)]
    try:
        return [pack_vector(embedder, np.asarray(vector, np.float32)) for vector in vectors]
    except BadVector:
        raise
    except (TypeError, ValueError) as error:
        raise BadVector(f"A vector is not numbers: {error}.") from None


@lru_cache(maxsize=4096)
def name_id(name: str) -> int:
    """A speaker or kind as a number for index arrays; the empty name is 0."""
    if not name:
        return 0
    digest = hashlib.blake2b(name.encode("utf-8"), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True) or 1


def to_microseconds(moment: datetime, name: str = "moment") -> int:
    """Microseconds since 1970 UTC, exact."""
    count = _microseconds(moment)
    if not _FIRST_MOMENT <= count <= _LAST_MOMENT:
        raise InvalidInput(
            name, moment, "is outside the years 1 to 9999 in UTC", remedy="Use a nearer moment."
        )
    return count


@lru_cache(maxsize=256)
def _microseconds(moment: datetime) -> int:
    return (moment - EPOCH) // MICROSECOND


def from_microseconds(count: int) -> datetime:
    """The moment `to_microseconds` was given, in UTC."""
    return EPOCH + timedelta(microseconds=count)


def write_json(value: Any, name: str) -> str:
    """`value` as compact JSON that reads back equal, or a typed error."""
    try:
        _require_json(value, name, 0)
        return require_text(_JSON.encode(value), name)
    except InvalidText as error:
        raise InvalidText(name, value, error.problem, remedy=error.remedy) from None
    except (TypeError, ValueError, RecursionError) as error:
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput(
            name, type(value).__name__, f"is not JSON ({error})", remedy="Use JSON values only."
        ) from None


def _require_json(value: Any, name: str, depth: int) -> None:
    if depth > 100:
        raise InvalidInput(name, "…", "is nested deeper than 100", remedy="Flatten it.")
    if isinstance(value, Mapping):
        for key, item in value.items():
            if not isinstance(key, str):
                raise InvalidInput(
                    name, key, "has a key that is not a string", remedy="Use str keys."
                )
            _require_json(item, name, depth + 1)
    elif isinstance(value, list | tuple):
        for item in value:
            _require_json(item, name, depth + 1)


def check_entry(entry: Entry) -> None:
    """Refuse what could not be read back as it was given."""
    memory = entry.memory
    if not memory.id:
        raise InvalidText("id", memory.id, "is empty", remedy="Use agentmem.ids.Ids to make one.")
    if memory.id == ERASED:
        raise InvalidText("id", memory.id, "stands for erased memories", remedy="Use another.")
    position = memory.position
    if position is not None and not (type(position) is int and 0 <= position < NO_POSITION):
        require_count(position, "position", least=-NO_POSITION)
        if position >= NO_POSITION:
            raise InvalidNumber("position", position, "is too large")
    if memory.usage is not UNUSED:
        for count in ("retrieved", "cited", "ignored"):
            require_number(require_count(getattr(memory.usage, count), count), count, high=2**62)
    if len(entry.terms) != 4 * len(entry.frequencies) or len(entry.frequencies) % 2:
        raise InvalidInput(
            "terms",
            len(entry.terms),
            "and frequencies differ",
            remedy=_REMEDY,
        )
    if type(entry.length) is not int or entry.length < 0:
        require_count(entry.length, "length")
    if entry.text_flags and not 0 <= require_count(entry.text_flags, "text_flags") < 256:
        raise InvalidNumber("text_flags", entry.text_flags, "is more than eight bits")
    for embedder, vector in entry.vectors:
        if len(vector) != 4 * embedder.dimensions:
            raise BadVector(
                f"{len(vector) // 4} numbers are not a vector of {embedder}.",
                remedy="Use agentmem.stores.entries.pack_vector(), which checks vectors.",
            )


def memory_to_fields(memory: Memory) -> dict[str, Any]:
    """`memory` as JSON values: every field, moments as ISO 8601 in UTC."""
    fields: dict[str, Any] = {
        name: getattr(memory, name)
        for name in Memory.__slots__
        if name not in ("scope", "usage", "metadata", "heading_path")
    }
    for name in ("created_at", "valid_from", "valid_to", "deleted_at"):
        fields[name] = _iso(fields[name])
    fields["heading_path"] = list(memory.heading_path)
    fields["metadata"] = dict(memory.metadata)
    fields["scope"] = {name: getattr(memory.scope, name) for name in Scope.__slots__}
    usage = memory.usage
    fields["usage"] = {
        "retrieved": usage.retrieved,
        "cited": usage.cited,
        "ignored": usage.ignored,
        "last_used_at": _iso(usage.last_used_at),
    }
    return fields


def memory_from_fields(fields: Mapping[str, Any]) -> Memory:
    """The memory `memory_to_fields` wrote; anything else is a typed error."""
    try:
        values = dict(fields)
        for name in ("created_at", "valid_from", "valid_to", "deleted_at"):
            values[name] = _moment(values.get(name))
        usage = dict(values.get("usage") or {})
        usage["last_used_at"] = _moment(usage.get("last_used_at"))
        headings = values.get("heading_path") or []
        if not isinstance(headings, list):
            raise TypeError("heading_path is not a list")
        values["heading_path"] = tuple(headings)
        values["scope"] = Scope(**(values.get("scope") or {}))
        values["usage"] = Usage(**usage)
        values["metadata"] = freeze_metadata(dict(values.get("metadata") or {}))
        return Memory(**values)
    except (TypeError, AttributeError, OverflowError, ValueError) as error:
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput("memory", str(error), "cannot be read") from None


def freeze_metadata(metadata: dict[str, Any]) -> Mapping[str, Any]:
    """`metadata` as it stands in a memory: not to be written to."""
    from types import MappingProxyType

    return MappingProxyType(metadata) if metadata else EMPTY


def check_entries(entries: Sequence[Entry]) -> None:
    """Refuse a batch with a bad entry or the same id twice, before anything is written."""
    from agentmem.errors import DuplicateRecord

    seen: set[str] = set()
    for entry in entries:
        if not isinstance(entry, Entry):
            raise InvalidInput("entry", entry, "is not an Entry", remedy=_REMEDY)
        check_entry(entry)
        if entry.memory.id in seen:
            raise DuplicateRecord(entry.memory.id)
        seen.add(entry.memory.id)


def require_ids(ids: Collection[str]) -> list[str]:
    """`ids` as a list of texts; one text alone is refused, it would be read letter by letter."""
    if isinstance(ids, str | bytes):
        raise InvalidInput("ids", ids, "is one id, not several", remedy="Pass a list of ids.")
    return [require_text(memory_id, "id") for memory_id in ids]


def require_file_name(name: str) -> str:
    """`name` if it can stand beside a store and nowhere else."""
    require_text(name, "name")
    if not name or name.startswith(".") or not name.isprintable() or {"/", "\\", ":"} & {*name}:
        raise InvalidText("name", name, "is not a plain file name", remedy="Use letters and dots.")
    return name


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.astimezone(UTC).isoformat()


def _moment(written: object) -> datetime | None:
    if written is None:
        return None
    if not isinstance(written, str):
        raise InvalidInput("moment", written, "is not an ISO 8601 text")
    return datetime.fromisoformat(written)
