"""Whatever a tool gave back, as exact bytes, and as text where it is text."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from enum import Enum
from typing import Any, Literal

from agentmem.core.shapes import sniff
from agentmem.core.values import dataclass

Form = Literal["text", "json", "binary"]
ENCODING = ("utf-8", "surrogatepass")
"""How text is written: a lone surrogate, which is no Unicode text, still reads back the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Payload:
    """A result as it is kept. `text` is None for binary data."""

    data: bytes
    text: str | None
    form: Form
    media_type: str

    @property
    def content(self) -> str | bytes:
        """What a summary is made from."""
        return self.data if self.text is None else self.text


def to_payload(output: object, *, media_type: str = "") -> Payload:
    """`output` as bytes: text as UTF-8, bytes as they are, everything else as JSON.

    None is the empty text. A value that JSON cannot write is kept as Python
    prints it. No value raises.
    """
    if isinstance(output, bytes | bytearray | memoryview):
        return from_bytes(bytes(output), media_type=media_type)
    if output is None:
        output = ""
    if isinstance(output, str):
        text = str(output)
        kind = media_type or "text/plain"
        return Payload(data=text.encode(*ENCODING), text=text, form="text", media_type=kind)
    text, written = _written(output)
    return Payload(
        data=text.encode(*ENCODING),
        text=text,
        form="json" if written else "text",
        media_type=media_type or ("application/json" if written else "text/plain"),
    )


def from_bytes(data: bytes, *, media_type: str = "", form: str = "") -> Payload:
    """Bytes as they were kept; without a `form`, text if they are UTF-8 without NUL."""
    if form != "binary":
        try:
            text = data.decode("utf-8") if not form else data.decode(*ENCODING)
        except UnicodeDecodeError:
            text = "\x00"
        if form or "\x00" not in text:
            kept: Form = "json" if form == "json" else "text"
            return Payload(data=data, text=text, form=kept, media_type=media_type or "text/plain")
    kind = media_type or sniff(data)[0]
    return Payload(data=data, text=None, form="binary", media_type=kind)


def plain(value: Any) -> Any:
    """`value` as JSON values a store takes: keys are texts, no NaN, no lone surrogate."""
    text, written = _written(value)
    clean = text.encode("utf-8", "replace").decode("utf-8")
    if not written:
        return clean
    try:
        return _finite(json.loads(clean), 0)
    except (ValueError, RecursionError):
        return clean


def _finite(value: Any, depth: int) -> Any:
    if depth > 50:
        return "…"
    if isinstance(value, dict):
        return {key: _finite(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item, depth + 1) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def _written(value: object) -> tuple[str, bool]:
    """`value` as text, and whether that text is JSON."""
    try:
        return json.dumps(value, ensure_ascii=False, default=_jsonable), True
    except Exception:  # noqa: BLE001 - keys, cycles, depth, and whatever a foreign __str__ raises
        return _printed(value), False


def _printed(value: object) -> str:
    try:
        return repr(value)
    except Exception as error:  # noqa: BLE001 - a foreign __repr__ may raise anything
        return f"a {type(value).__name__} that cannot be printed ({type(error).__name__})"


def sendable(text: str) -> str:
    """`text` as UTF-8 can carry it: a lone surrogate becomes `?`."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def _jsonable(value: object) -> object:
    dump = getattr(value, "model_dump", None)
    if callable(dump) and not isinstance(value, type):
        return dump(mode="json")
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).decode("utf-8", "backslashreplace")
    if isinstance(value, set | frozenset | tuple):
        return sorted(value, key=repr)
    return str(value)
