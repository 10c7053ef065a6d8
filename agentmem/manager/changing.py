"""Change, supersede, delete and erase what is remembered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from agentmem.core.checks import require_items, require_mapping, require_text
from agentmem.core.content import content_hash
from agentmem.errors import ChangedMeanwhile, InvalidInput
from agentmem.manager.adding import Adding
from agentmem.manager.whose import scope_of
from agentmem.remembering import require_something
from agentmem.stores.values import Receipt
from agentmem.telemetry import span
from agentmem.types import Memory, Scope


class Changing(Adding):
    """The calls that change and remove."""

    def update(
        self,
        memory_id: str,
        text: str | None = None,
        *,
        metadata: Mapping[str, Any] | None = None,
        importance: float | None = None,
        title: str | None = None,
        data: str | None = None,
        **whose: str | None,
    ) -> Memory:
        """Change a memory in place; what it said before is in `history`.

        `data` is another name for `text`.
        """
        if text is not None and data is not None:
            raise InvalidInput("data", data, "is text said twice", remedy="Give one of them.")
        text = data if text is None else text
        scope = scope_of(whose)
        require_text(memory_id, "memory_id")
        if metadata is not None:
            require_mapping(metadata, "metadata")
        changes: dict[str, Any] = {
            name: value
            for name, value in (
                ("metadata", metadata), ("importance", importance), ("title", title)
            )
            if value is not None
        }  # fmt: skip
        if text is not None:
            changes |= {
                "text": require_something(text),
                "content_hash": content_hash(text),
                "summary": None,
                "compressed": None,
                "index": None,
            }
        with span("update_memory", store_id=self.telemetry_id, record_id=memory_id):
            new = self._changed(scope, memory_id, changes)
        if text is not None:
            self._judge_later([new])
        return new

    def _changed(self, scope: Scope, memory_id: str, changes: Mapping[str, Any]) -> Memory:
        """Change a memory, and what somebody else changed meanwhile stays changed."""
        while True:
            old = self.store.get(scope, memory_id)
            (entry,) = self._entries([replace(old, **changes)])
            with suppress(ChangedMeanwhile):
                return self.store.update(scope, entry, at=self.clock.now(), was=old)

    def supersede(self, memory_id: str, text: str, **whose: str | None) -> Memory:
        """Put a newer statement in a memory's place; the older one stays in the record."""
        scope = scope_of(whose)
        now = self.clock.now()
        old = self.store.get(scope, require_text(memory_id, "memory_id"))
        new = replace(
            old,
            id=self.ids.new(),
            text=require_something(text),
            content_hash=content_hash(text),
            created_at=now,
            valid_from=now,
            valid_to=None,
            summary=None,
            compressed=None,
            index=None,
            supersedes=old.id,
            superseded_by=None,
        )
        with span("update_memory", store_id=self.telemetry_id, record_id=old.id):
            (entry,) = self._entries([new])
            kept = self.store.supersede(scope, old.id, entry, at=now)
        self._judge_later([kept])
        return kept

    def delete(self, memory_id: str | Sequence[str], **whose: str | None) -> int:
        """Take memories out of every read; they are kept until `erase` or `purge`."""
        ids = _ids(memory_id)
        with span("delete_memory", store_id=self.telemetry_id) as told:
            told.found(len(ids))
            return self.store.delete(scope_of(whose), ids, at=self.clock.now())

    def delete_all(self, *, filters: Mapping[str, Any] | None = None, **whose: str | None) -> int:
        """Delete every private memory of this reader, or those that pass `filters`."""
        selection = replace(self._selection(whose, filters), visibilities=("private",))
        with span("delete_memory", store_id=self.telemetry_id):
            return self.store.delete_all(selection, at=self.clock.now())

    def remove_by_source_url(self, url: str, **whose: str | None) -> int:
        """Delete every chunk of a page."""
        scope = scope_of(whose)
        return self.store.remove_by_source_url(scope, require_text(url, "url"), at=self.clock.now())

    def erase(self, memory_id: str | Sequence[str], **whose: str | None) -> Receipt:
        """Remove memories so that their bytes are in no file of the store (P26).

        Their merged duplicates go with them, and so does what was made of them:
        facts and preferences that no other message states, and what a tool
        result was promoted to. What is pinned stays. The receipt's `derived`
        lists what went.
        """
        scope, ids = scope_of(whose), _ids(memory_id)
        self._settle(scope)
        with span("delete_memory", store_id=self.telemetry_id) as told:
            self._unlearn(scope, self.store.to_erase(scope, ids))
            receipt = self.store.erase(scope, ids, at=self.clock.now())
            told.found(len(receipt.ids))
        self._forget()
        return receipt

    def erase_all(
        self, *, filters: Mapping[str, Any] | None = None, **whose: str | None
    ) -> Receipt:
        """Erase every private memory of this reader, deleted ones too, or those `filters` pass.

        What was made of them goes with them, as with `erase`.
        """
        selection = replace(
            self._selection(whose, filters),
            visibilities=("private",),
            deleted=True,
            superseded=True,
        )
        self._settle(selection.reader)
        with span("delete_memory", store_id=self.telemetry_id) as told:
            gone = self.store.to_erase_all(selection)
            self._unlearn(selection.reader, gone, everything=selection.is_everything)
            receipt = self.store.erase_all(selection, at=self.clock.now())
            told.found(len(receipt.ids))
        self._forget()
        return receipt


def _ids(memory_id: str | Sequence[str]) -> list[str]:
    return [memory_id] if isinstance(memory_id, str) else require_items(memory_id, "ids", "ids")
