"""Take over what another memory system or chat program has exported."""

from __future__ import annotations

from agentmem.importing.loading import ImportSummary, Source, import_from, is_ours

__all__ = ["ImportSummary", "Source", "import_from", "is_ours"]
