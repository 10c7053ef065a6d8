"""Take over what another memory system or chat program has exported."""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
import zipfile
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal, get_args
from uuid import UUID

from agentmem.base.checks import require_choice, require_count, require_path
from agentmem.base.errors import AgentMemError, FileRefused, FileUnreadable
from agentmem.base.filters import Compare, Selection
from agentmem.base.telemetry import span
from agentmem.base.types import EMPTY, Document, Memory, Scope, content_hash, may_state
from agentmem.prompt.strip import strip
from agentmem.search.intake import prepare
from agentmem.search.parts import judge_later
from agentmem.sources.imports.formats import (
    FOREIGN_REASONS,
    READERS,
    ExportedItem,
    Foreign,
    Item,
    LeftOut,
    detect_source,
    is_machine_prompt,
    unpacked,
)
from agentmem.stores.jsonl import FORMAT, ImportReport, import_jsonl
from agentmem.stores.open_files import reading
from agentmem.stores.values import ERASED, Version
from agentmem.text.chunks import chunk
from agentmem.text.decode import sound_values
from agentmem.tokens.encodings import estimate_tokens

if TYPE_CHECKING:
    from agentmem.living.preferences import Profiled
    from agentmem.search.parts import Parts


# ----------------------------------------------------------------------------
# Open an export: a JSON file, lines of JSON, or the zip file a chat program gives.


LIMIT_BYTES = 1_000_000_000
MOST_MEMBERS = 20_000
_CONVERSATIONS = re.compile(
    r"(?:conversations|projects|memories)(?:[-_.]?\d+)?\.jsonl?\Z", re.IGNORECASE
)
_ZIP = b"PK\x03\x04"


def read_export(path: str | os.PathLike[str], *, limit_bytes: int = LIMIT_BYTES) -> Iterator[Any]:
    """The JSON values of an export, one for each file in it.

    Of a zip file only the conversations and projects are read, in memory;
    nothing is unpacked, so the names in it lead nowhere. `FileRefused` when it
    is no export or larger than `limit_bytes`, unpacked too; `FileUnreadable`
    when it cannot be opened or is damaged.
    """
    require_count(limit_bytes, "limit_bytes", least=1)
    where = Path(require_path(path))
    try:
        with reading(where) as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise FileRefused(where, "is not a file", remedy="Name the exported file.")
            if found.st_size > limit_bytes:
                raise FileRefused(
                    where, f"is larger than {limit_bytes:,} bytes", remedy="Raise limit_bytes."
                )
            if file.read(4) == _ZIP:
                yield from _read_zip(where, file, limit_bytes)
                return
            file.seek(0)
            yield parse(where, file.read(limit_bytes + 1))
    except IsADirectoryError:
        raise FileRefused(where, "is a folder", remedy="Name the file in it.") from None
    except (OSError, ValueError, RuntimeError) as error:
        if isinstance(error, AgentMemError):
            raise
        reason = getattr(error, "strerror", None) or str(error)
        raise FileUnreadable(
            where, f"cannot be read: {reason}", remedy="Check that it is there and yours."
        ) from error


def _read_zip(where: Path, file: IO[bytes], limit_bytes: int) -> Iterator[Any]:
    try:
        with zipfile.ZipFile(file) as archive:
            members = archive.infolist()
            if len(members) > MOST_MEMBERS:
                raise FileRefused(where, f"holds more than {MOST_MEMBERS:,} files")
            wanted = sorted(
                (m for m in members if not m.is_dir() and _CONVERSATIONS.match(_name(m))),
                key=lambda member: member.filename,
            )
            if not wanted:
                raise FileRefused(
                    where, "holds no conversations.json", remedy="Name a ChatGPT or Claude export."
                )
            left = limit_bytes
            for member in wanted:
                with archive.open(member) as opened:
                    # The size a zip states of itself may be a lie: what comes out is counted.
                    data = opened.read(left + 1)
                if len(data) > left:
                    problem = f"unpacks to more than {limit_bytes:,} bytes"
                    raise FileRefused(where, problem, remedy="Raise limit_bytes.")
                left -= len(data)
                yield parse(where, data)
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, EOFError) as error:
        raise FileUnreadable(
            where, f"is a damaged zip file: {error}", remedy="Download it again."
        ) from error


def _name(member: zipfile.ZipInfo) -> str:
    return member.filename.replace("\\", "/").rpartition("/")[2]


def parse(where: Path, data: bytes) -> Any:
    """The value of a JSON document, or the list of those on the lines of one."""
    wide = data[:2] in (b"\xff\xfe", b"\xfe\xff")
    try:
        text = data.decode("utf-16" if wide else "utf-8-sig")
    except UnicodeDecodeError:
        raise FileRefused(where, "is not text", remedy="Name a JSON export.") from None
    try:
        return unpacked(_loads(text))
    except ValueError as whole:
        with suppress(ValueError):
            if lines := [_loads(line) for line in text.splitlines() if line.strip()]:
                return lines
        raise FileRefused(
            where, f"is not JSON ({whole})", remedy="Name a JSON export, or its zip file."
        ) from None
    except RecursionError:
        raise FileRefused(where, "is nested too deeply") from None


def _loads(text: str) -> Any:
    return json.loads(text, parse_constant=lambda name: None)


# ----------------------------------------------------------------------------
# Put what an export holds into a memory, in batches, the same thing only once.


Source = Literal["auto", "agentmem", "mem0", "letta", "zep", "chatgpt", "claude"]
Progress = Callable[[int, int], None]
"""Called with how many were looked at, and how many there are."""

BATCH = 500
LONGEST_TEXT = 200_000
"""Longer texts are cut into pages; no system exports single memories of that size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportSummary:
    """What an import took and what it did not, with the reasons.

    `found` counts everything that was looked at: what was `taken`, what was
    there `already`, and what was `left_out` by reason (H4). `ended` counts those
    taken that hold no longer. A dry run counts what it would take.
    """

    source: str
    found: int = 0
    taken: int = 0
    already: int = 0
    ended: int = 0
    left_out: Mapping[str, int] = field(default_factory=lambda: EMPTY)
    kinds: Mapping[str, int] = field(default_factory=lambda: EMPTY)
    sessions: int = 0
    dry_run: bool = False


def import_from(
    memory: Profiled,
    path: str | os.PathLike[str],
    *,
    source: Source = "auto",
    scope: Scope | None = None,
    dry_run: bool = False,
    progress: Progress | None = None,
    limit_bytes: int = LIMIT_BYTES,
) -> ImportSummary:
    """Add what another system exported; what is there already is skipped.

    With `scope` everything becomes that owner's; without, what names its user
    is that user's. Each batch is one transaction, so an interrupted import is
    finished by doing it again. A dry run writes nothing.
    """
    require_choice(source, get_args(Source), "source")
    if source == "agentmem" or (source == "auto" and is_ours(path)):
        return _import_ours(memory, path, scope=scope, dry_run=dry_run)
    values = list(read_export(path, limit_bytes=limit_bytes))
    wanted = _detected(values) if source == "auto" else source
    if wanted is None:
        raise FileRefused(
            os.fspath(path), "is no export that is known",
            remedy=f"Say which it is: source={', '.join(get_args(Foreign))}.",
        )  # fmt: skip
    items = [item for value in values for item in READERS[wanted](value)]
    if not any(isinstance(item, ExportedItem) for item in items):
        _require_export(path, values, items, wanted)
    loading = _Loading(memory, wanted, scope, dry_run=dry_run)
    if progress:
        progress(0, len(items))
    for start in range(0, len(items), BATCH):
        loading.take(items[start : start + BATCH])
        if progress:
            progress(loading.found, len(items))
    if loading.taken and not dry_run and memory.settings.embed_in_background:
        memory.embedding.fill_gaps_in_background()
    return loading.summary()


def _require_export(
    path: str | os.PathLike[str], values: Sequence[Any], items: Sequence[Item], wanted: Foreign
) -> None:
    """Refuse a file of which nothing was taken because it is no export of `wanted`."""
    looks_like = _detected(values)
    foreign = all(isinstance(item, LeftOut) and item.reason in FOREIGN_REASONS for item in items)
    if looks_like == wanted or (looks_like is None and not foreign) or all(map(_empty, values)):
        return
    raise FileRefused(
        os.fspath(path), f"is no {wanted} export",
        remedy=f"It looks like {looks_like}: name that." if looks_like
        else f"Name the program it is from: {', '.join(get_args(Foreign))}.",
    )  # fmt: skip


def _detected(values: Sequence[Any]) -> Foreign | None:
    return next(filter(None, map(detect_source, values)), None)


def _empty(value: Any) -> bool:
    """Whether it is an export with nothing in it: every list that it has is empty."""
    if not isinstance(value, Mapping):
        return isinstance(value, list) and not value
    lists = [inner for inner in value.values() if isinstance(inner, list)]
    return bool(lists) and not any(lists)


_Made = tuple[Memory, tuple[Version, ...]]
"""A memory, and what it said before."""


class _Loading:
    def __init__(
        self, memory: Profiled, source: str, scope: Scope | None, *, dry_run: bool
    ) -> None:
        self._memory = memory
        self._source = source
        self._scope = scope
        self._dry_run = dry_run
        self._now = memory.clock.now()
        self._seen: set[str] = set()
        self._sessions: set[str] = set()
        self._left_out: Counter[str] = Counter()
        self._kinds: Counter[str] = Counter()
        self.found = self.taken = self._already = self._ended = 0

    def take(self, batch: Sequence[Item]) -> None:
        """Put the new ones of a batch into the store, all or none."""
        self.found += len(batch)
        made: list[list[_Made]] = []
        for item in batch:
            if isinstance(item, LeftOut):
                self._left_out[item.reason] += 1
            elif item.origin == "user" and is_machine_prompt(item.text):
                self._left_out["a prompt of a machine"] += 1
            elif memories := self._memories(item):
                made.append(memories)
            else:
                self._left_out["no text"] += 1
        fresh = self._fresh([one for memories in made for one in memories])
        if fresh and not self._dry_run:
            with span("create_memory", store_id=self._memory.telemetry_id, step="import") as told:
                self._memory.store.put([replace(prepare(m), versions=v) for m, v in fresh])
                told.found(len(fresh))
            for scope in {memory.scope for memory, _ in fresh if may_state(memory)}:
                judge_later(self._memory, scope)
            self._listen([memory for memory, _ in fresh])
        new = {id(memory) for memory, _ in fresh}
        for memories in made:
            if not any(id(memory) in new for memory, _ in memories):
                self._already += 1
                continue
            first = memories[0][0]
            self.taken += 1
            self._kinds[first.kind] += 1
            self._ended += first.superseded_by is not None
            if first.session:
                self._sessions.add(first.session)

    def _listen(self, fresh: Sequence[Memory]) -> None:
        """Let what users said about themselves in messages reach their profiles (P45)."""
        own = defaultdict[str, list[dict[str, Any]]](list)
        for memory in sorted(fresh, key=lambda memory: memory.created_at):
            user = memory.scope.user_id
            mine = memory.kind == "message" and memory.speaker in ("", "user", user)
            if user is not None and mine and memory.origin == "user" and not memory.superseded_by:
                own[user].append({"role": "user", "content": memory.text})
        for user, said in own.items():
            self._memory.preferences.listen(said, user_id=user)

    def summary(self) -> ImportSummary:
        return ImportSummary(
            source=self._source,
            found=self.found,
            taken=self.taken,
            already=self._already,
            ended=self._ended,
            left_out=dict(sorted(self._left_out.items(), key=lambda x: (-x[1], x[0]))),
            kinds=dict(sorted(self._kinds.items())),
            sessions=len(self._sessions),
            dry_run=self._dry_run,
        )

    def _fresh(self, made: Sequence[_Made]) -> list[_Made]:
        """Those that are not there: neither under their id nor, facts, with the same words."""
        taken = self._memory.store.feed.taken([memory.id for memory, _ in made]) | self._seen
        known = self._known([memory for memory, _ in made])
        fresh = []
        for memory, versions in made:
            same = (memory.scope, memory.kind, memory.content_hash)
            if memory.id in taken or (memory.kind != "message" and same in known):
                continue
            taken.add(memory.id)
            known.add(same)
            self._seen.add(memory.id)
            fresh.append((memory, versions))
        return fresh

    def _known(self, memories: Sequence[Memory]) -> set[tuple[Scope, str, str]]:
        statements = [memory for memory in memories if memory.kind != "message"]
        hashes = tuple({memory.content_hash for memory in statements})
        where = Compare(field="content_hash", operator="in", value=hashes)
        return {
            (memory.scope, memory.kind, memory.content_hash)
            for scope in {memory.scope for memory in statements}
            for memory in self._memory.store.scan(
                Selection(reader=scope, where=where, superseded=True)
            )
            if memory.visibility == "private"
        }

    def _memories(self, item: ExportedItem) -> list[_Made]:
        """What is remembered of one thing: one memory, or several of a long text."""
        text = strip(item.text).strip()
        if not text:
            return []
        scope = self._scope or Scope(**item.whose)
        if item.kind == "page" or len(text) > LONGEST_TEXT:
            parts = chunk(
                Document(text=text, title=item.title),
                count=estimate_tokens,
                target_tokens=self._memory.settings.chunk_tokens,
                limit_tokens=self._memory.settings.chunk_limit_tokens,
            )
            return [
                (self._memory_of(item, part.text, scope, part=number), ())
                for number, part in enumerate(parts)
            ]
        made = self._memory_of(item, text, scope)
        earlier = [(strip(old), at or made.created_at) for old, at in item.earlier]
        versions = [
            Version(memory=replace(made, text=old, content_hash=content_hash(old)), replaced_at=at)
            for old, at in earlier
            if old.strip()
        ]
        return [(made, tuple(versions))]

    def _memory_of(
        self, item: ExportedItem, text: str, scope: Scope, *, part: int | None = None
    ) -> Memory:
        created = item.created_at or self._now
        ended = item.ended and (item.valid_to is None or item.valid_to <= self._now)
        replaced = self._id(item.replaced_by, scope) if item.replaced_by else ERASED
        return Memory(
            id=self._id(self._key(item, text, part), scope),
            text=text,
            kind=item.kind,
            scope=scope,
            origin=item.origin,
            title=item.title[:500],
            speaker=item.speaker[:200],
            session=item.session[:200],
            position=part if part is not None else item.position,
            source_url=f"import:{self._source}/{item.key}"[:500] if item.kind == "page" else "",
            created_at=created,
            valid_from=item.valid_from,
            valid_to=item.valid_to,
            superseded_by=replaced if ended else None,
            content_hash=content_hash(text),
            metadata={
                **sound_values(dict(item.metadata)),
                "imported_from": self._source,
                **({"foreign_id": item.key[:200]} if item.key else {}),
            },
        )

    def _key(self, item: ExportedItem, text: str, part: int | None) -> str:
        if item.key:
            return item.key if part is None else f"{item.key} {part}"
        moment: datetime | None = item.created_at
        place = None if moment else item.position  # a later export may begin elsewhere
        return ascii((item.session, place, text, moment and moment.isoformat(), part))

    def _id(self, key: str, scope: Scope) -> str:
        """An id that is the same whenever the same thing is imported for the same owner."""
        owner = [getattr(scope, name) for name in Scope.__slots__]
        written = ascii((self._source, key, owner)).encode()
        return str(UUID(bytes=hashlib.blake2b(written, digest_size=16).digest()))


def is_ours(path: str | os.PathLike[str]) -> bool:
    """Whether a file begins as `export_jsonl` begins one."""
    try:
        with reading(Path(require_path(path))) as file:
            return FORMAT.encode() in file.read(200)
    except (OSError, ValueError):
        return False


def _count_lines(path: str | os.PathLike[str]) -> tuple[int, int]:
    """How many memories a file of ours holds, and how many lines are no JSON."""
    values = [value if isinstance(value, list) else [value] for value in read_export(path)]
    lines = [line for value in values for line in value]
    objects = [line for line in lines if isinstance(line, Mapping)]
    return sum("memory" in line for line in objects), len(lines) - len(objects)


def import_ours(
    memory: Parts,
    path: str | os.PathLike[str],
    *,
    scope: Scope | None,
    own_words: bool = False,
    skip_bad_lines: bool = False,
) -> ImportReport:
    """Add what `export_jsonl` wrote, in one transaction; without a scope as it was exported."""
    report = import_jsonl(
        memory.store,
        path,
        analyse=prepare,
        scope=scope,
        own_words=own_words,
        skip_bad_lines=skip_bad_lines,
    )
    if report.imported and scope is not None:  # of everybody's, consolidation looks at it
        judge_later(memory, scope)
    if report.imported and memory.settings.embed_in_background:
        memory.embedding.fill_gaps_in_background()
    return report


def _import_ours(
    memory: Profiled, path: str | os.PathLike[str], *, scope: Scope | None, dry_run: bool
) -> ImportSummary:
    """What `export_jsonl` wrote; lines that cannot be read are left out and counted."""
    if dry_run:
        found, unreadable = _count_lines(path)
        return ImportSummary(
            source="agentmem",
            found=found + unreadable,
            taken=found,
            left_out={"not readable": unreadable} if unreadable else {},
            dry_run=True,
        )
    report = import_ours(memory, path, scope=scope, skip_bad_lines=True)
    already = report.same_id + report.same_content
    bad = len(report.bad_lines)
    return ImportSummary(
        source="agentmem",
        found=report.imported + already + bad,
        taken=report.imported,
        already=already,
        left_out={"not readable": bad} if bad else {},
    )
