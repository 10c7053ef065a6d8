"""A memory made ready for the store: its terms, its flags and its vectors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, cast

from agentmem.base.checks import require_mapping, require_messages
from agentmem.base.errors import InvalidInput, InvalidMessage, InvalidScope, InvalidText
from agentmem.base.filters import ALWAYS, Filter, parse_filter
from agentmem.base.protocols import EmbedderId
from agentmem.base.types import (
    EMPTY,
    Document,
    Memory,
    Origin,
    Scope,
    ScopeLike,
    Visibility,
    Whose,
    content_hash,
)
from agentmem.search.rank import embedded_text, indexed_text, row_flags
from agentmem.stores.values import Entry
from agentmem.text.messages import require_message, text_of
from agentmem.text.terms import pack_terms

TEXT_KINDS = ("page", "tool_result")
"""Whole texts; every other kind is a statement, ranked as a turn of a conversation is."""
WORDS = "indexed_words"
"""Metadata with words that a memory is found by and that its text does not show."""


Terms = tuple[bytes, bytes, int]
"""A text's terms and how often each occurs, as they are written, and its length."""

Packed = tuple[tuple[EmbedderId, bytes], ...]
"""A memory's vectors as they are written, each with the embedder it is of."""


def prepare(memory: Memory, vectors: Packed = ()) -> Entry:
    """The entry of a memory whose vectors were made and packed."""
    (entry,) = prepare_all([memory], [vectors])
    return entry


def prepare_all(memories: Sequence[Memory], vectors: Sequence[Packed]) -> list[Entry]:
    """The entries of memories whose vectors were made and packed, in their order."""
    found = pack_terms([text_to_index(memory) for memory in memories])
    return [
        Entry(
            memory=memory,
            terms=terms,
            frequencies=frequencies,
            length=length,
            text_flags=0 if memory.kind in TEXT_KINDS else row_flags(memory.text),
            vectors=packed,
        )
        for memory, packed, (terms, frequencies, length) in zip(
            memories, vectors, map(_with_words, memories, found), strict=True
        )
    ]


def _with_words(memory: Memory, found: Terms) -> Terms:
    """The terms with those of the words that are not shown; they make the row no longer.

    A list of different words says nothing often: counted with it, a long
    result would be outranked by every short row that shares a word.
    """
    words = memory.metadata.get(WORDS) if memory.metadata else None
    if not words:
        return found
    ((terms, frequencies, _),) = pack_terms([f"{text_to_index(memory)}\n{words}"])
    return terms, frequencies, found[2]


def text_to_index(memory: Memory) -> str:
    """What a memory is found by: its text with title, headings and caption."""
    if not (memory.title or memory.heading_path or memory.metadata) and memory.text:
        return memory.text
    return indexed_text(memory.text, **_beside(memory))


def text_to_embed(memory: Memory) -> str:
    """What stands for a memory in vector space."""
    return embedded_text(memory.text, speaker=memory.speaker, **_beside(memory))


def _beside(memory: Memory) -> dict[str, Any]:
    caption = str(memory.metadata.get("caption") or "") if memory.metadata else ""
    return {"title": memory.title, "heading_path": memory.heading_path, "extra": caption}


# ----------------------------------------------------------------------------
# What users hand over, as memories: texts, messages and documents, each with its owner.


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
    from agentmem.prompt.strip import strip

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
    from agentmem.prompt.strip import strip

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
    from agentmem.text.chunks import chunk
    from agentmem.tokens.encodings import estimate_tokens

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


def require_something(text: str, name: str = "text") -> str:
    if not isinstance(text, str) or not text.strip():
        raise InvalidText(name, text, "is empty", remedy="There is nothing to remember in it.")
    return text


def _moment(message: Mapping[str, Any], now: datetime) -> datetime:
    for name in _DATES:
        moment = instant(message.get(name), name, error=InvalidMessage)
        if moment is not None:
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


# ----------------------------------------------------------------------------
# Who is meant and when, as callers say it.


Instant = datetime | str | float | None
SCOPE_NAMES = tuple(Scope.__slots__)

_BOTH = ("AND", "and", "$and")
_DEEPEST = 8


def scope_of(whose: Mapping[str, object]) -> Scope:
    """The scope named by `user_id=` and the like; another name is refused."""
    for name in whose:
        if name not in SCOPE_NAMES:
            raise InvalidScope(
                name, whose[name], "is no parameter of this call",
                remedy=f"Whose memory it is is said with {', '.join(SCOPE_NAMES)}.",
            )  # fmt: skip
    return Scope(**cast("Whose", whose))


def scope_and_filter(
    whose: Mapping[str, object], filters: Mapping[str, Any] | None
) -> tuple[Scope, Filter]:
    """Who reads, and the other conditions.

    `filters={"user_id": "alice"}` says who reads, as `user_id="alice"` does,
    inside an `AND` too; a project, agent or run there must also match exactly.
    """
    if filters is None:
        return scope_of(whose), ALWAYS
    named = dict(whose)
    written = dict(require_mapping(filters, "filters"))
    condition = parse_filter(_take_names(written, named))
    return scope_of(named), condition


def _take_names(
    written: dict[str, Any], named: dict[str, object], *, depth: int = 0
) -> dict[str, Any]:
    """`written` without the user, who goes into `named` with the other names."""
    left: dict[str, Any] = {}
    for name, value in written.items():
        if name == "user_id" and isinstance(value, str):
            if named.get(name) not in (None, value):
                raise InvalidScope(name, value, "is said twice, differently")
            named[name] = value
            continue
        if name in SCOPE_NAMES and isinstance(value, str) and named.get(name) is None:
            named[name] = value
        left[name] = value
        if name in _BOTH and isinstance(value, list | tuple) and depth < _DEEPEST:
            left[name] = [
                _take_names(dict(part), named, depth=depth + 1)
                if isinstance(part, Mapping)
                else part
                for part in value
            ]
    return left


def instant(
    value: Instant, name: str, *, error: type[InvalidInput] = InvalidInput
) -> datetime | None:
    """A moment as users write it: a datetime, ISO 8601, or seconds since 1970."""
    if value is None:
        return None
    found = read_moment(value)
    if found is None:
        raise error(name, value, "is not a moment", remedy="Use ISO 8601, a datetime, or seconds.")
    return found


def read_scope(scope: ScopeLike | None, whose: Mapping[str, object]) -> Scope:
    """The scope a caller means: a `Scope`, a mapping, a user's id, or `user_id=` and the like."""
    named = {name: value for name, value in whose.items() if value is not None}
    if scope is None:
        return scope_of(whose)
    if named:
        raise InvalidInput(
            "scope", scope, "is said twice", remedy="Pass scope=, or user_id= and the like."
        )
    if isinstance(scope, Scope):
        return scope
    if isinstance(scope, str):
        return Scope(user_id=scope)
    if isinstance(scope, Mapping):
        return scope_of(scope)
    raise InvalidScope(
        "scope", scope, "is no scope", remedy='Pass Scope(user_id="…"), a mapping, or a user id.'
    )
