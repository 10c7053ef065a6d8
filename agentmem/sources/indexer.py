"""Remember what a loop sees: pages, turns, files and fetched addresses.

Everything ends in `add` of the memory, so the same
content twice adds nothing and changed content replaces the old in one
transaction (P5, P6). The `enqueue_` calls only put work in the worker's queue.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Unpack

from agentmem.base.checks import require_text
from agentmem.base.errors import (
    AgentMemError,
    FetchRefused,
    FileRefused,
    InvalidInput,
    InvalidText,
)
from agentmem.base.lazy import Lazy, made
from agentmem.base.types import EMPTY, Document, Scope, Whose
from agentmem.living.preferences import Profiled
from agentmem.prompt.strip import strip
from agentmem.search.intake import scope_of
from agentmem.search.results import FolderReport, IndexingResult, IndexStatus, PassedOver, Progress
from agentmem.sources.background import MESSAGES, PAGE, Worker, describe
from agentmem.sources.files import (
    LIMIT_BYTES,
    document_of,
    existing,
    fetched_document,
    passed_over,
    read_file,
    vanished,
    walk,
)
from agentmem.sources.pages import looks_like_html, one_line, to_markdown
from agentmem.text.decode import sound, sound_values
from agentmem.text.messages import is_question, is_result, require_message, text_of
from agentmem.tokens.encodings import estimate_tokens

if TYPE_CHECKING:
    from agentmem.sources.fetch import FetchLimits


MOST_CHARACTERS = 20_000_000


NoteSaid = Callable[[str, Sequence[str], Scope], None]
"""Takes the id of a trace, and the ids of what was said in its turn."""


class Indexer:
    """What a memory remembers of pages, turns, files and addresses."""

    def __init__(
        self, memory: Profiled, *, worker: Worker, note_said: NoteSaid | None = None
    ) -> None:
        self._memory = memory
        self._note_said = note_said
        self._worker = worker
        self._worker.handle(PAGE, self.handle_page)
        self._worker.handle(MESSAGES, self.handle_messages)

    def index_page(
        self, content: str | bytes, url: str, title: str = "", **whose: Unpack[Whose]
    ) -> IndexingResult:
        """Remember a page now: HTML (it is recognised), Markdown or plain text; bytes also PDF.

        A mistake in the arguments raises; whatever else goes wrong is in the
        result. Content that is there already is not even embedded.
        """
        _require_page(content, url, title)
        scope = scope_of(whose)
        return _reported(lambda: self._index(content, url, title, scope), url, title)

    def enqueue_page(
        self,
        content: str | bytes,
        url: str,
        title: str = "",
        *,
        at: datetime | None = None,
        **whose: Unpack[Whose],
    ) -> bool:
        """Remember a page in the background; whether it was taken. At once, and never raises.

        While it waits, newer content of the same url takes its place. It is
        dated when it was handed over, `at` if that was before now (P5).
        """
        try:
            _require_page(content, url, title)
            payload = {
                "content": bytes(content) if isinstance(content, bytearray) else content,
                "url": url,
                "title": title,
                "at": (at or self._memory.clock.now()).isoformat(),
            }
            scope = scope_of(whose)
        except (AgentMemError, TypeError, ValueError) as error:
            return self._worker.refuse(describe(error))
        if not content or content.isspace():
            return True  # a page without words changes nothing
        return self._worker.submit(PAGE, payload, scope=scope, key=url)

    def enqueue_messages(
        self,
        messages: Sequence[Mapping[str, Any]] | Lazy[list[dict[str, Any]]],
        *,
        session: str = "",
        known: Collection[bytes] = (),
        scope: Scope | None = None,
        metadata: Mapping[str, Any] = EMPTY,
        trace: str = "",
        heard: Sequence[str] | None = None,
        **whose: Unpack[Whose],
    ) -> bool:
        """Remember what was said, in the background; whether it was taken. Never raises.

        Only what the user and the assistant said themselves: tool results and
        instructions are left out, and so are our own blocks; with `known`
        fingerprints also their echoes (P21). A message without a date gets
        the present moment, unless the messages are made `Lazy`. `trace` is the
        snapshot of the turn they are of, `heard` the preferences that were new in
        it (None: nobody listened); both are erased with the messages.
        """
        try:
            moment = self._memory.clock.now().isoformat()
            dated = (
                messages
                if isinstance(messages, Lazy)
                else [{"created_at": moment, **message} for message in messages]
            )
            payload = {
                "messages": dated,
                "session": require_text(session, "session"),
                "known": known if isinstance(known, set | frozenset) else frozenset(known),
                "metadata": dict(metadata),
                "trace": require_text(trace, "trace"),
                "heard": None if heard is None else list(heard),
            }
            owner = scope_of(whose) if scope is None else scope
        except (AgentMemError, TypeError, ValueError) as error:
            return self._worker.refuse(describe(error))
        if not payload["messages"]:
            return True
        return self._worker.submit(MESSAGES, payload, scope=owner)

    def flush(self, timeout_seconds: float | None = None) -> bool:
        """Wait for what was submitted before; see `Worker.flush`."""
        return self._worker.flush(timeout_seconds)

    def index_path(
        self,
        path: str | Path,
        *,
        progress: Progress | None = None,
        prune: bool = False,
        limit_bytes: int = LIMIT_BYTES,
        **whose: Unpack[Whose],
    ) -> FolderReport:
        """Remember a file, or every readable file of a folder.

        One file that cannot be read raises; in a folder it is listed in the
        report. Hidden files, symbolic links and what `.gitignore` names are left
        out. With `prune` the files that were remembered and are gone are forgotten.
        """
        began, scope, store = time.perf_counter(), scope_of(whose), self._memory.store
        root = existing(path)
        found: list[IndexingResult] = []
        skipped: list[PassedOver] = []
        failed: list[PassedOver] = []
        files = sorted(walk(root, skipped)) if root.is_dir() else [root]
        for number, file in enumerate(files):
            if progress and file != root:
                progress(number, len(files), file)
            try:
                found.append(self.remember(read_file(file, limit_bytes=limit_bytes), scope))
            except (AgentMemError, OSError) as error:
                if file == root:
                    raise
                if isinstance(error, FileRefused):
                    skipped.append(passed_over(file, root, error.problem))
                else:
                    failed.append(passed_over(file, root, sound(str(error))))
        if progress and root.is_dir():
            progress(len(files), len(files), root)
        gone, now = vanished(store, root, scope), self._memory.clock.now()
        pruned = [store.remove_by_source_url(scope, url, at=now) for url in gone] if prune else []
        return FolderReport(
            root=sound(str(root)),
            results=tuple(found),
            skipped=tuple(skipped),
            failed=tuple(failed),
            vanished=gone,
            pruned=sum(pruned),
            duration_ms=round(1000 * (time.perf_counter() - began), 3),
        )

    def index_url(
        self,
        url: str,
        *,
        allow_private: bool = False,
        robots: bool = False,
        limits: FetchLimits | None = None,
        **whose: Unpack[Whose],
    ) -> IndexingResult:
        """Fetch an address and remember what is there, under the address it led to.

        An address that may not be fetched raises `FetchRefused`; when nothing
        usable comes, or it cannot be remembered, the result says so.
        """
        from agentmem.sources.fetch import fetch

        scope = scope_of(whose)

        def index() -> IndexingResult:
            found = fetch(url, allow_private=allow_private, robots=robots, limits=limits)
            return self.remember(fetched_document(found), scope)

        return _reported(index, url)

    # -- what the worker does ----------------------------------------------------------

    def handle_page(self, payload: Mapping[str, Any], scope: Scope) -> None:
        at = payload.get("at")  # not in what an earlier version left
        self._index(payload["content"], payload["url"], payload["title"], scope, at=at)

    def handle_messages(self, payload: Mapping[str, Any], scope: Scope) -> None:
        said = list(filter(is_talk, sound_values(made(payload["messages"]))))
        kept = [m for m in strip(said, known=payload["known"]) if text_of(m).strip()]
        if not kept:
            return
        done = self._memory.add(
            kept,
            session=payload["session"],
            once=True,
            listen=False,  # a turn heard it when it was said
            metadata=payload["metadata"],
            **scope.whose,
        )
        if payload.get("trace") and self._note_said is not None:
            self._note_said(payload["trace"], done.ids, scope)
        heard = payload.get("heard")
        if heard is not None:
            for message, item in zip(kept, done.items, strict=True):
                if message["role"] == "user":
                    self._memory.preferences.heard(message, item.id, scope, new=heard)

    def _index(
        self, content: str | bytes, url: str, title: str, scope: Scope, *, at: str | None = None
    ) -> IndexingResult:
        if isinstance(content, str):
            document = _read_text(sound(content), url)
        else:
            document = document_of(bytes(content), url=url)
        titled = replace(document, title=one_line(title or document.title))
        return self.remember(titled, scope, at=at)

    def remember(
        self, document: Document, scope: Scope, *, at: str | None = None
    ) -> IndexingResult:
        """Remember a document that was made already; our own blocks in it are left out."""
        text = strip(document.text)
        if not text.strip():
            return IndexingResult(url=document.url, status="empty", title=document.title)
        done = self._memory.add(replace(document, text=text), created_at=at, **scope.whose)
        status: IndexStatus = "replaced" if done.replaced else "added"
        return IndexingResult(
            url=document.url,
            status="unchanged" if done.unchanged else status,
            title=document.title,
            chunks=len(done),
            removed=done.replaced,
            tokens=sum(estimate_tokens(item.text) for item in done.items),
            degradations=done.degradations,
        )


def _reported(index: Callable[[], IndexingResult], url: str, title: str = "") -> IndexingResult:
    """What `index` did and how long that took; other than a mistake, a failure is in the result."""
    began = time.perf_counter()
    try:
        done = index()
    except (FetchRefused, InvalidInput):
        raise
    except (AgentMemError, OSError) as error:
        done = IndexingResult(url=url, status="failed", title=title, error=describe(error))
    return replace(done, duration_ms=round(1000 * (time.perf_counter() - began), 3))


def _read_text(text: str, url: str) -> Document:
    """A page that is text already, HTML or not."""
    if not looks_like_html(text):
        return Document(text=text, url=url)
    page = to_markdown(text)
    return Document(text=page.text, url=url, title=page.title, metadata=page.facts)


def is_talk(message: Any) -> bool:
    """Whether a user or the assistant says something here, in words of their own."""
    try:
        require_message(message)
    except InvalidInput:
        return False
    if message["role"] == "user":
        return is_question(message)
    return message["role"] == "assistant" and not is_result(message)


def _require_page(content: object, url: object, title: object) -> None:
    if not isinstance(content, str | bytes | bytearray):
        raise InvalidText(
            "content", content, "is neither text nor bytes", remedy="Pass the page's source."
        )
    if len(content) > MOST_CHARACTERS:
        raise InvalidText(
            "content", content[:20], f"has more than {MOST_CHARACTERS:,} characters",
            remedy="Cut it into several pages.",
        )  # fmt: skip
    require_text(url, "url")
    require_text(title, "title")


class Pages(Protocol):
    """Takes pages for the background."""

    def enqueue_page(
        self, content: str | bytes, url: str, title: str = "", **whose: Unpack[Whose]
    ) -> bool: ...


class Paged(Profiled, Protocol):
    """A memory that takes pages."""

    @property
    def sources(self) -> Pages: ...
