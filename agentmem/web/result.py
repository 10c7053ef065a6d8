"""What an enhanced search gives back, and how it is printed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from agentmem.core.citations import Citation, CitationStyle, format_citations
from agentmem.core.showing import show_quote
from agentmem.core.synthesis import mark_uncited
from agentmem.core.values import dataclass
from agentmem.core.web_conflicts import SearchConflict
from agentmem.types import Hit
from agentmem.web.protocol import WebResult


@dataclass(frozen=True, slots=True, kw_only=True)
class EnhancedSearchResult:
    """An answer whose numbers all lead somewhere, and everything it was made from.

    `citations` are all sources by number, `cited` those the answer uses.
    `found` is False when no source answers; `answer` then says so.
    `uncited_sentences` are the model's without a number, `removed_numbers`
    those it cited that no source has, `removed_links` the addresses taken out
    of it. `degradations` names what did not work. `answered_by` is the model's
    name, `"extractive"`, or empty when a signal stopped the search.
    """

    query: str
    answer: str = ""
    found: bool = False
    web_results: tuple[WebResult, ...] = ()
    memory_results: tuple[Hit, ...] = ()
    citations: tuple[Citation, ...] = ()
    cited: tuple[Citation, ...] = ()
    conflicts: tuple[SearchConflict, ...] = ()
    conflict_disclaimer: str = ""
    uncited_sentences: tuple[str, ...] = ()
    removed_numbers: tuple[int, ...] = ()
    removed_links: tuple[str, ...] = ()
    fetched: tuple[str, ...] = ()
    degradations: tuple[str, ...] = ()
    answered_by: str = ""
    stopped: bool = False

    @property
    def marked_answer(self) -> str:
        """The answer with `[uncited]` behind every sentence without a number."""
        return mark_uncited(self.answer, self.uncited_sentences)

    def format(self, style: CitationStyle = "text", *, only_cited: bool = False) -> str:
        """Answer, disclaimer and numbered sources as text or Markdown; `json` for programs."""
        if style == "json":
            import json

            return json.dumps(self.to_dict(), ensure_ascii=False)
        citations = self.cited if only_cited else self.citations
        by_number = sorted(citations, key=lambda citation: citation.index)
        parts = (self.answer, self.conflict_disclaimer, format_citations(by_number, style))
        return "\n\n".join(part for part in parts if part)

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON values."""
        return {
            "query": self.query,
            "answer": self.answer,
            "found": self.found,
            "answered_by": self.answered_by,
            "citations": [citation_to_dict(c, self.cited) for c in self.citations],
            "conflict_disclaimer": self.conflict_disclaimer,
            "conflicts": [conflict.to_dict() for conflict in self.conflicts],
            "web_results": [result.to_dict() for result in self.web_results],
            "memory_results": [memory_to_json(hit) for hit in self.memory_results],
            "uncited_sentences": list(self.uncited_sentences),
            "removed_numbers": list(self.removed_numbers),
            "removed_links": list(self.removed_links),
            "fetched": list(self.fetched),
            "degradations": list(self.degradations),
            "stopped": self.stopped,
        }


def citation_to_dict(citation: Citation, cited: tuple[Citation, ...]) -> dict[str, Any]:
    """A citation as JSON values; `memory_ids` are what `agentmem get` opens."""
    ids = (citation.memory_id, *citation.more_memory_ids)
    return {
        "index": citation.index,
        "source": citation.source,
        "label": citation.label,
        "title": citation.title,
        "url": citation.url,
        "quote": citation.quote,
        "date": citation.date.isoformat()[:10] if citation.date else None,
        "memory_ids": [memory_id for memory_id in ids if memory_id],
        "cited": any(citation.index == one.index for one in cited),
    }


def memory_to_json(hit: Hit) -> dict[str, Any]:
    """A hit as JSON values."""
    memory = hit.memory
    return {
        "id": memory.id,
        "text": memory.text,
        "title": memory.title,
        "url": memory.source_url,
        "kind": memory.kind,
        "score": round(hit.score, 4),
        "date": memory.created_at.date().isoformat(),
    }


def quoted(citations: tuple[Citation, ...], quotes: dict[int, str]) -> tuple[Citation, ...]:
    """The citations with what the answer quotes of them."""
    return tuple(
        replace(citation, quote=quotes.get(citation.index, citation.quote))
        for citation in citations
    )


def lines_for_model(result: EnhancedSearchResult) -> Iterator[str]:
    """The result as a tool gives it to a model: answer, disagreement, numbered sources."""
    yield result.answer
    if result.conflict_disclaimer:
        yield result.conflict_disclaimer
    for citation in result.citations:
        day = f", {citation.date.isoformat()[:10]}" if citation.date else ""
        title = show_quote(citation.title) or "untitled"
        yield (
            f"[{citation.index}] {citation.label}{day}: {title} {citation.url}".rstrip()
            + f"\n    {show_quote(citation.quote)}"
        )
    for problem in result.degradations:
        yield f"(not everything worked: {show_quote(problem)})"
