"""Tool results kept whole and read by id: what goes to the model is a stand-in.

A result is an artifact (its exact bytes) and a `tool_result` memory of the
same id, by which it is found; erasing the memory erases the bytes (P26).
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Literal, get_args
from urllib.parse import quote

from agentmem.agent.reading import (
    Detail,
    Payload,
    ResultPage,
    Span,
    distinct_words,
    five_lines,
    from_bytes,
    one_line,
    plain,
    refuse,
    sendable,
    spread,
    stand_in,
    to_payload,
    turn_page,
)
from agentmem.agent.shapes import Shape, failed_shape, shape_of
from agentmem.base.checks import require_choice, require_count, require_number, require_text
from agentmem.base.errors import InvalidInput, RecordNotFound, StoreError
from agentmem.base.filters import Compare, Selection
from agentmem.base.lazy import compile_late
from agentmem.base.protocols import TokenCounter
from agentmem.base.types import Memory, Scope, content_hash
from agentmem.prompt.block import Pointer
from agentmem.prompt.strip import strip
from agentmem.search.intake import WORDS, prepare
from agentmem.stores.values import DERIVED, Artifact, Link
from agentmem.text.clean import clean_line

if TYPE_CHECKING:
    from agentmem.agent.tools import Tool
    from agentmem.search.parts import Calls


_log = logging.getLogger(__name__)

KIND = "tool_result"
_ID_DIGITS = 15
_LOOKED_AT = 200
_COUNT_READS_SECONDS = 60


def is_important(memory: Memory) -> bool:
    """Whether an answer cited a result, or it was read back in two turns; `unpin` denies it.

    Reads of one turn count once a minute.
    """
    used = memory.usage
    reads = used.retrieved - used.cited - used.ignored  # each of those was counted as found, too
    return bool(memory.metadata.get("pinned", used.cited > 0 or reads >= READS_OF_IMPORTANT))


READS_OF_IMPORTANT = 2
PromotedKind = Literal["fact", "episode", "task", "pin"]
SEARCHED_CHARACTERS = 4_000
ARGUMENT_CHARACTERS = 10_000
_TAIL_CHARACTERS = 1_000
_SHORT_CHARACTERS = 500
_STRIPPED_CHARACTERS = 100_000
_COUNTED_CHARACTERS = 200_000
_MAY_QUOTE = compile_late(
    r"knowledge[\W_]{1,4}context|related[\W_]{1,4}knowledge|agentmem\W{1,24}reference",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptResult:
    """A stored result: its id, and what goes to the model for it (`whole`, or a stand-in)."""

    id: str
    content: str
    tokens: int
    whole: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Evicted:
    """What an eviction let go: the ids, their bytes, and the bytes that are left."""

    ids: tuple[str, ...] = ()
    bytes: int = 0
    left_bytes: int = 0


class WorkingMemory:
    """The tool results of one scope. Every call is synchronous and safe in threads."""

    def __init__(
        self,
        manager: Calls,
        *,
        scope: Scope | None = None,
        count: TokenCounter,
        stand_in_tokens: int = 100,
        read_limit_tokens: int = 1_000,
        session: str = "",
    ) -> None:
        self._manager = manager
        self.scope = scope or Scope()
        self.count = count
        self.stand_in_tokens = require_count(stand_in_tokens, "stand_in_tokens", least=1)
        self.read_limit_tokens = require_count(read_limit_tokens, "read_limit_tokens", least=1)
        self.session = require_text(session, "session")
        self._mine = Selection(reader=self.scope, kinds=(KIND,), visibilities=("private",))
        self._counted: dict[str, datetime] = {}

    def keep(
        self,
        name: str,
        arguments: Mapping[str, Any] | None,
        output: object,
        *,
        error: str = "",
        media_type: str = "",
    ) -> KeptResult:
        """Store a result whole; what goes to the model is it, or a stand-in if it is large.

        `output` may be anything: text, bytes, or a value that is kept as JSON.
        With an `error` the call counts as failed and the stand-in begins with it.
        """
        name, error = sendable(str(name)), sendable(str(error))
        payload = to_payload(output, media_type=sendable(media_type))
        shape = shape_of(payload.content, media_type=payload.media_type)
        if error:
            shape = failed_shape(error, shape)
        small = self._is_small(payload)
        memory = self._memory(name, arguments, payload, shape=shape, error=error, large=not small)
        artifact = Artifact(
            id=memory.id,
            data=payload.data,
            created_at=memory.created_at,
            scope=memory.scope,
            media_type=payload.media_type,
            metadata={"form": payload.form},
        )
        self._put(memory, artifact)
        return self._kept(memory.id, name, payload, shape, whole=small and not error)

    def earlier(self, name: str, arguments: Mapping[str, Any] | None) -> KeptResult | None:
        """What the same call of that tool gave before, as `keep` gives it to the model.

        The newest that succeeded and was not let go, of this scope alone. Arguments
        too long to be kept whole are never taken for the same.
        """
        name, given = sendable(str(name)), _arguments(arguments)
        wanted = json.dumps(given, sort_keys=True)
        if wanted != json.dumps(plain(dict(arguments or {})), sort_keys=True):
            return None
        same_tool = Compare(field="metadata.name", operator="eq", value=name)
        newest = self._manager.store.recent(replace(self._mine, where=same_tool), limit=_LOOKED_AT)
        for memory in newest:
            said = memory.metadata
            if (
                memory.scope == self.scope
                and memory.origin == "tool"
                and said.get("success") is True
                and json.dumps(plain(said.get("arguments")), sort_keys=True) == wanted
            ):
                _, payload = self._find(memory.id)
                shape = shape_of(payload.content, media_type=payload.media_type)
                self._note_read(memory.id)
                return self._kept(memory.id, name, payload, shape, whole=self._is_small(payload))
        return None

    def _is_small(self, payload: Payload) -> bool:
        """Whether a result may go to the model as it is; a long one is not even counted."""
        text = payload.text
        if text is None or len(text) > 40 * self.stand_in_tokens:
            return False
        return self.count(sendable(text)) <= self.stand_in_tokens

    def _kept(
        self, result_id: str, name: str, payload: Payload, shape: Shape, *, whole: bool
    ) -> KeptResult:
        if whole:
            content = sendable(payload.text or "")
        else:
            content = stand_in(
                shape,
                result_id=result_id,
                tool=name,
                limit_tokens=self.stand_in_tokens,
                count=self.count,
            )
        return KeptResult(id=result_id, content=content, tokens=self.count(content), whole=whole)

    def data(self, result_id: str) -> bytes:
        """The exact bytes of a result; `RecordNotFound` if this scope has none."""
        memory, payload = self._find(result_id)
        self._note_read(memory.id)
        return payload.data

    def read(
        self,
        result_id: str,
        *,
        range: Span | None = None,  # noqa: A002 - the model's word for it
        lines: Span | None = None,
        grep: str | None = None,
        json_path: str | None = None,
        offset: int = 0,
        limit_tokens: int | None = None,
    ) -> ResultPage:
        """One page of a result, at most `limit_tokens` long; a model's mistake is answered.

        `range` counts characters of a text and bytes of anything else, from 0,
        end not included. `lines` count from 1, both ends included. One of the
        four may be given; `offset` continues where the page before ended.
        """
        limit = self.read_limit_tokens if limit_tokens is None else limit_tokens
        require_count(limit, "limit_tokens", least=1)
        result_id = sendable(str(result_id)).strip()
        ways = {"range": range, "lines": lines, "grep": grep, "json_path": json_path}
        asked = {name: way for name, way in ways.items() if way is not None}
        try:
            memory, payload = self._find(result_id)
            page = turn_page(
                result_id, payload, asked, offset, limit_tokens=limit, count=self.count
            )
        except RecordNotFound:
            problem = self._why_missing(result_id)
        except InvalidInput as error:
            problem = str(error)
        else:
            self._note_read(memory.id)
            return page
        return refuse(result_id, problem, limit_tokens=limit, count=self.count)

    def describe(self, result_id: str, *, level: Detail = "one") -> str:
        """A result in one line, in five, or in full; each costs no more than the next (W4)."""
        require_choice(level, get_args(Detail), "level")
        memory, payload = self._find(result_id)
        full = payload.text
        if full is None:
            full = payload.data.decode("utf-8", "backslashreplace")
        full = sendable(full)
        if level == "full":
            return full
        five = memory.summary or memory.text
        if len(full) <= _COUNTED_CHARACTERS and self.count(full) <= self.count(five):
            five = full
        if level == "five":
            return five
        one = memory.index or five
        return five if self.count(five) <= self.count(one) else one

    def pointers(self, limit: int = 5) -> tuple[Pointer, ...]:
        """The newest large results as lines of the block, pinned and important ones first."""
        require_count(limit, "limit")
        found = self._recent(limit * 8)
        large = [m for m in found if m.metadata.get("large") or m.metadata.get("pinned")]
        large.sort(key=lambda memory: not is_important(memory))
        return tuple(
            Pointer(
                id=memory.id,
                summary=memory.index or memory.title,
                tool=str(memory.metadata.get("name", "")),
                tokens=int(memory.metadata.get("tokens", 0)),
            )
            for memory in large[:limit]
        )

    def promote(
        self, result_id: str, to: PromotedKind = "fact", *, text: str | None = None
    ) -> Memory:
        """Turn a result into a memory of that kind, linked to it; "pin" keeps it from eviction.

        Without `text` the memory says what a short result says, or the five
        lines of a long one. It is as little trusted as the tool it came from.
        """
        require_choice(to, get_args(PromotedKind), "to")
        memory, payload = self._find(result_id)
        if to == "pin":
            return self._pin(memory, pinned=True)
        if text is None:
            text = sendable(payload.text or "")
            if not text.strip() or len(text) > _SHORT_CHARACTERS:
                text = f"{memory.title}\n{memory.summary or memory.text}".strip()
        kept = _something(text)
        new = Memory(
            id=self._manager.ids.new(),
            text=kept,
            created_at=self._now(),
            kind=to,
            scope=memory.scope,
            origin="tool",
            source_url=memory.source_url,
            title=memory.title,
            session=memory.session,
            content_hash=content_hash(kept),
            metadata={"source_id": memory.id, "tool": memory.metadata.get("name", "")},
        )
        self._put(new)
        link = Link(
            first_id=new.id, second_id=memory.id, relation=DERIVED, created_at=new.created_at
        )
        self._manager.store.links.put(self.scope, link)
        return new

    def unpin(self, result_id: str) -> Memory:
        """Let a result be evicted again that was pinned, or is important by how it is used."""
        return self._pin(self._find(result_id)[0], pinned=False)

    def evict(
        self,
        max_age: timedelta | float | None = None,
        max_bytes: int | None = None,
        at: datetime | None = None,
    ) -> Evicted:
        """Let go of results not read for `max_age` (seconds), then of the least recently read.

        Until at most `max_bytes` are left; never of pinned ones (W3). Important ones
        (cited, or read back in two turns) count as pinned until they were not read
        for `max_age`. The bytes are removed at once, the memories deleted.
        """
        if max_age is not None and not isinstance(max_age, timedelta):
            max_age = timedelta(seconds=require_number(max_age, "max_age", low=0, high=1e11))
        if max_bytes is not None:
            require_count(max_bytes, "max_bytes")
        moment = at or self._now()
        since = None if max_age is None else moment - max_age
        held = 0
        loose: list[tuple[datetime, str, int]] = []
        for memory in self._manager.store.scan(self._mine):
            size = int(memory.metadata.get("bytes", 0))
            last = max(memory.created_at, memory.usage.last_used_at or memory.created_at)
            promoted = is_important(memory) and (since is None or last > since)
            held += size
            if not memory.metadata.get("pinned", promoted):
                loose.append((last, memory.id, size))
        left, gone = held, []
        for last, result_id, size in sorted(loose):
            too_old = since is not None and last < since
            if too_old or (max_bytes is not None and left > max_bytes):
                gone.append(result_id)
                left -= size
        if gone:
            self._manager.store.delete(self.scope, gone, at=moment, artifacts=True)
        return Evicted(ids=tuple(gone), bytes=held - left, left_bytes=left)

    def save(self, text: str, *, kind: str = "fact") -> tuple[Memory, bool]:
        """Remember what the assistant wants kept, and whether it is new.

        It counts as the assistant's words, never as the user's preference.
        """
        if require_text(kind, "kind") == "preference":
            raise InvalidInput(
                "kind", kind, "is only for what users say themselves", remedy='Use "fact".'
            )
        kept = _something(text)
        digest = content_hash(kept)
        selection = Selection(reader=self.scope, kinds=(kind,))
        for known in self._manager.store.recent(selection, limit=_LOOKED_AT):
            if known.content_hash == digest and known.scope == self.scope:
                return known, False
        new = Memory(
            id=self._manager.ids.new(),
            text=kept,
            created_at=self._now(),
            kind=kind,
            scope=self.scope,
            origin="assistant",
            session=self.session,
            content_hash=digest,
        )
        self._put(new)
        return new, True

    def tools(self, *, save: bool = False) -> tuple[Tool, ...]:
        """The tools by which a model reads results, searches memory and, on request, saves."""
        from agentmem.agent.tools import memory_tools

        return memory_tools(self._manager, self, save=save)

    def _pin(self, memory: Memory, *, pinned: bool) -> Memory:
        changed = replace(memory, metadata={**memory.metadata, "pinned": pinned})
        (vectors,) = self._manager.embedding.embed([changed])
        entry = prepare(changed, vectors)
        return self._manager.store.update(self.scope, entry, at=self._now())

    # -- the store ---------------------------------------------------------------------

    def _now(self) -> datetime:
        return self._manager.clock.now()

    def _put(self, memory: Memory, *artifacts: Artifact) -> None:
        """Keep a memory so that it is found, and `artifacts` with it: all or nothing."""
        (vectors,) = self._manager.embedding.embed([memory])
        self._manager.store.put([prepare(memory, vectors)], artifacts=artifacts)

    def _find(self, result_id: str) -> tuple[Memory, Payload]:
        """A result and its bytes; of any other memory, its text. Else `RecordNotFound`."""
        store = self._manager.store
        memory = store.get(self.scope, require_text(result_id, "id"))
        if memory.kind != KIND:
            return memory, to_payload(memory.text)
        artifact = store.artifacts.get(self.scope, memory.id)
        form = str(artifact.metadata.get("form", ""))
        return memory, from_bytes(artifact.data, media_type=artifact.media_type, form=form)

    def _why_missing(self, result_id: str) -> str:
        """What to tell somebody who asked for an id that cannot be read."""
        shown = clean_line(result_id, limit_characters=60)
        try:
            memory = self._manager.store.get(self.scope, result_id, deleted=True)
        except (RecordNotFound, InvalidInput):
            newest = ", ".join(memory.id for memory in self._recent(3))
            told = f" The newest results are {newest}." if newest else ""
            return f'There is no result "{shown}" here.{told}'
        if memory.deleted_at is not None:
            tool = clean_line(str(memory.metadata.get("name", "the tool")), limit_characters=64)
            return f'The result "{shown}" was let go. Call {tool} again if it is needed.'
        return f'The bytes of "{shown}" are gone. It was: {memory.index or memory.title}'

    def _recent(self, limit: int) -> tuple[Memory, ...]:
        """The newest results, of this session if there is one."""
        selection = replace(self._mine, session=self.session or None)
        return self._manager.store.recent(selection, limit=limit)

    def _note_read(self, result_id: str) -> None:
        """Remember when a result was read; it is counted at first, then once a minute."""
        now = self._now()
        before = self._counted.get(result_id)
        counts = before is None or abs((now - before).total_seconds()) >= _COUNT_READS_SECONDS
        if counts:
            self._counted[result_id] = now
        try:
            self._manager.store.record_usage(self.scope, [result_id], at=now, retrieved=int(counts))
        except StoreError as error:  # a store that cannot be written can still be read
            _log.debug("The read of %s was not noted: %s", result_id, error)

    def _memory(
        self,
        name: str,
        arguments: Mapping[str, Any] | None,
        payload: Payload,
        *,
        shape: Shape,
        error: str,
        large: bool,
    ) -> Memory:
        """What a result is found by. Its id is short: a model writes it back, and each of its
        tokens counts."""
        digest = blake2b(self._manager.ids.new().encode(), digest_size=8).digest()
        short = f"r{int.from_bytes(digest, 'big') % 10**_ID_DIGITS:0{_ID_DIGITS}d}"
        given = _arguments(arguments)
        shape = _own_shape(payload, shape)
        text = _searched(payload, shape, error)
        words = _middle_words(payload, text)
        told = list(given.items())[:6] if isinstance(given, Mapping) else []
        first = (f"{key}={json.dumps(value, ensure_ascii=False)[:80]}" for key, value in told)
        return Memory(
            id=short,
            source_url=f"tool://{quote(name, safe='')[:200]}/{short}",
            text=text,
            created_at=self._now(),
            kind=KIND,
            scope=self.scope,
            origin="tool",
            index=one_line(shape),
            summary=five_lines(shape),
            title=clean_line(f"{name} {' '.join(first)}", limit_characters=200),
            session=self.session,
            content_hash=content_hash(text),
            metadata={
                "name": name,
                "arguments": given,
                "success": not error,
                "error": error[:ARGUMENT_CHARACTERS],
                "bytes": len(payload.data),
                "media_type": payload.media_type,
                "form": payload.form,
                "shape": shape.kind,
                "large": large,
                "tokens": self._about_tokens(payload),
                **({WORDS: words} if words else {}),
            },
        )

    def _about_tokens(self, payload: Payload) -> int:
        """About how many tokens the whole is; a long text is judged by its beginning."""
        if payload.text is None:
            return len(payload.data) // 3
        sample = payload.text[:8_000]
        if not sample:
            return 0
        return max(round(self.count(sendable(sample)) * len(payload.text) / len(sample)), 0)


def _own_shape(payload: Payload, shape: Shape) -> Shape:
    """The shape of what is left of a result without our own blocks, which are not stored (P21)."""
    text = sendable(payload.text or "")
    if len(text) > _STRIPPED_CHARACTERS:  # what is shown of it comes from its ends
        text = f"{text[: _STRIPPED_CHARACTERS // 2]}\n{text[-_STRIPPED_CHARACTERS // 2 :]}"
    left = strip(text)
    if left == text:
        return shape
    found = shape_of(left, media_type=payload.media_type)
    return failed_shape(shape.first, found) if shape.kind == "error" else found


def _searched(payload: Payload, shape: Shape, error: str) -> str:
    """What a result says of itself: what it is, its beginning and its end; never our own blocks."""
    parts = [one_line(replace(shape, first="")), error[:_TAIL_CHARACTERS]]
    if payload.text is not None:
        text = sendable(payload.text.replace("\x00", ""))
        parts.append(text[:SEARCHED_CHARACTERS])
        parts.append(text[SEARCHED_CHARACTERS:][-_TAIL_CHARACTERS:])
    kept = strip("\n".join(part for part in parts if part))
    return kept.strip() or shape.what


def _middle_words(payload: Payload, searched: str) -> str:
    """The different words of what lies between the searched ends; never those of our own blocks."""
    text = payload.text or ""
    if len(text) <= SEARCHED_CHARACTERS + _TAIL_CHARACTERS:
        return ""
    middle = spread(text[SEARCHED_CHARACTERS:-_TAIL_CHARACTERS])
    middle = sendable(middle.replace("\x00", " "))
    if _MAY_QUOTE.search(middle):
        middle = strip(middle)
    return distinct_words(middle, known=searched)


def _something(text: str) -> str:
    """`text` without our own blocks (P21), refused when nothing is left."""
    kept = strip(require_text(text, "text")).strip()
    if not kept:
        raise InvalidInput("text", text, "is empty", remedy="Say what is to be remembered.")
    return kept


def _arguments(arguments: Mapping[str, Any] | None) -> Any:
    """The arguments as they can be kept beside the memory, cut when they are huge."""
    given = plain(dict(arguments) if isinstance(arguments, Mapping) else arguments or {})
    written = json.dumps(given, ensure_ascii=False)
    if len(written) <= ARGUMENT_CHARACTERS:
        return given
    return {"cut": written[:ARGUMENT_CHARACTERS], "characters": len(written)}
