"""What users hand over, as memories: texts, messages and documents, each with its owner."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from datetime import UTC, datetime
from typing import Any

from agentmem.core.checks import require_mapping, require_messages
from agentmem.core.content import content_hash
from agentmem.core.message_parts import require_message, text_of
from agentmem.core.values import dataclass
from agentmem.errors import InvalidInput, InvalidMessage, InvalidText
from agentmem.types import EMPTY, Document, Memory, Origin, Scope, Visibility

_ORIGINS: Mapping[str, Origin] = {
    "user": "user", "assistant": "assistant", "tool": "tool", "function": "tool",
}  # fmt: skip
_DATES = ("created_at", "timestamp", "date")


@dataclass(frozen=True, slots=True, kw_only=True)
class Maker:
    """Whose the new memories are, when they were made, and where their ids come from."""

    scope: Scope
    visibility: Visibility
    now: datetime
    new_ids: Callable[[int], list[str]]
    metadata: Mapping[str, Any] = field(default_factory=lambda: EMPTY)

    def __post_init__(self) -> None:
        require_mapping(self.metadata, "metadata")

    def memory(
        self,
        text: str,
        *,
        memory_id: str = "",
        created_at: datetime | None = None,
        metadata: Mapping[str, Any] | None = None,
        **fields: Any,
    ) -> Memory:
        """A new memory of this owner, its content hash included."""
        return Memory(
            id=memory_id or self.new_ids(1)[0],
            text=text,
            scope=self.scope,
            visibility=self.visibility,
            content_hash=content_hash(text),
            created_at=self.now if created_at is None else created_at,
            metadata=self.metadata if metadata is None else metadata,
            **fields,
        )


def from_text(maker: Maker, text: str, **fields: Any) -> Memory:
    """One memory of a plain text; our own blocks inside it are left out (P21)."""
    from agentmem.core.strip import strip

    kept = strip(require_something(text))
    return maker.memory(require_something(kept), **fields)


def from_messages(
    maker: Maker, messages: Sequence[Mapping[str, Any]], *, session: str = ""
) -> list[Memory]:
    """One memory a message: who spoke, when, and its place in the session.

    System prompts are instructions, not memories, and are left out; so are
    our own blocks and messages without any text. A message may carry `name`
    (or `speaker`), `created_at` (or `timestamp`, `date`), `session`, `id`,
    `position` and `metadata` beside the usual keys.
    """
    from agentmem.core.strip import strip

    made: list[Memory] = []
    for number, message in enumerate(strip(require_messages(messages))):
        require_message(message, f"messages[{number}]")
        said = require_mapping(message.get("metadata") or EMPTY, f"messages[{number}].metadata")
        role = str(message["role"])
        text = text_of(message)
        caption = str(said.get("caption") or "")
        if role not in _ORIGINS or not (text.strip() or caption):
            continue
        made.append(
            maker.memory(
                text or caption,
                kind="message",
                origin=_ORIGINS[role],
                speaker=str(message.get("name") or message.get("speaker") or role),
                session=str(message.get("session") or session),
                position=message.get("position"),
                created_at=_moment(message, maker.now),
                metadata={**maker.metadata, **said},
            )
        )
    return made


def from_document(
    maker: Maker, document: Document, *, target_tokens: int, limit_tokens: int, **fields: Any
) -> list[Memory]:
    """One memory a chunk; each carries the page's url and title and its heading path (P5)."""
    from agentmem.core.chunker import chunk
    from agentmem.core.estimate import estimate_tokens

    require_something(document.text)
    chunks = chunk(
        document, count=estimate_tokens, target_tokens=target_tokens, limit_tokens=limit_tokens
    )
    return [
        maker.memory(
            part.text,
            **{
                "kind": "page",
                "origin": "web" if document.url.startswith(("http://", "https://")) else "import",
                "source_url": document.url or document_url(document),
                "title": document.title,
                "heading_path": part.heading_path,
                "speaker": part.speaker,
                "position": number,
                "metadata": {**maker.metadata, **document.metadata},
                **fields,
            },
        )
        for number, part in enumerate(chunks)
    ]


def from_chunks(maker: Maker, chunks: Sequence[str], *, url: str, title: str = "") -> list[Memory]:
    """One memory a text that somebody else cut."""
    if not chunks:
        raise InvalidInput("chunks", chunks, "is not a list of texts", remedy="Pass some texts.")
    require_something(url)
    ids = maker.new_ids(len(chunks))
    return [
        maker.memory(
            require_something(text),
            memory_id=memory_id,
            kind="page",
            origin="import",
            source_url=url,
            title=title,
            position=number,
        )
        for number, (text, memory_id) in enumerate(zip(chunks, ids, strict=True))
    ]


def document_url(document: Document) -> str:
    """A name for a document that has none: the same text gets the same one."""
    return f"text:{content_hash(document.text)[:24]}"


def same_message(one: Memory) -> tuple[str, ...]:
    """What makes a message the same message when it is added again."""
    moment = one.created_at.astimezone(UTC).isoformat()
    return (one.content_hash, one.kind, one.speaker, one.session, moment, str(one.position))


def same_words(one: Memory) -> tuple[str, ...]:
    """What makes a message the same as one said at another time."""
    return (one.content_hash, one.kind, one.speaker)


def require_something(text: str) -> str:
    if not isinstance(text, str) or not text.strip():
        raise InvalidText("text", text, "is empty", remedy="There is nothing to remember in it.")
    return text


def _moment(message: Mapping[str, Any], now: datetime) -> datetime:
    for name in _DATES:
        value = message.get(name)
        if value is None:
            continue
        moment = read_moment(value)
        if moment is None:
            raise InvalidMessage(
                name, value, "is not a moment", remedy="Use ISO 8601, a datetime, or seconds."
            )
        return moment
    return now


def read_moment(value: object) -> datetime | None:
    """A moment from a datetime, ISO 8601 or seconds since 1970; without a zone it is UTC."""
    try:
        if isinstance(value, datetime):
            found = value
        elif isinstance(value, str):
            found = datetime.fromisoformat(value)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            found = datetime.fromtimestamp(value, UTC)
        else:
            return None
    except (ValueError, OverflowError, OSError):
        return None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)
