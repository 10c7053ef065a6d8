"""Make the answer: ask a model and check it, or take the sources' own sentences."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import date

from agentmem.core.citations import Citation
from agentmem.core.extractive import NOTHING_FOUND, ExtractSource, extract_answer
from agentmem.core.synthesis import check_answer, request_answer
from agentmem.core.values import dataclass
from agentmem.core.web_conflicts import SearchConflict, read_check, request_check
from agentmem.core.web_merge import NumberedSource
from agentmem.models import Model
from agentmem.protocols import TokenCounter

EXTRACTIVE = "extractive"
TOLD_NUMBERS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompting:
    """What requests to a model are built with."""

    secret: bytes
    count: TokenCounter
    limit_tokens: int
    today: date
    timeout_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Synthesis:
    """An answer with what was checked about it."""

    answer: str
    found: bool
    answered_by: str
    cited: tuple[Citation, ...] = ()
    quotes: tuple[tuple[int, str], ...] = ()
    removed_numbers: tuple[int, ...] = ()
    removed_links: tuple[str, ...] = ()
    uncited_sentences: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


def extract(question: str, sources: Sequence[NumberedSource], *, most_sentences: int) -> Synthesis:
    """The sources' own best sentences."""
    answer = extract_answer(
        question,
        [
            ExtractSource(
                index=source.index,
                text=source.text,
                title=source.citation.title,
                date=source.citation.date,
            )
            for source in sources
        ],
        most_sentences=most_sentences,
    )
    by_index = {source.index: source.citation for source in sources}
    quotes: dict[int, str] = {}
    for sentence in answer.sentences:
        quotes.setdefault(sentence.index, sentence.quote)
    return Synthesis(
        answer=answer.text,
        found=answer.found,
        answered_by=EXTRACTIVE,
        cited=tuple(by_index[index] for index in quotes),
        quotes=tuple(quotes.items()),
    )


async def synthesize(
    question: str,
    sources: Sequence[NumberedSource],
    *,
    model: Model | None,
    prompting: Prompting,
    most_sentences: int,
) -> Synthesis:
    """The model's checked answer; without one, or when it fails, the extractive one."""
    extracted = extract(question, sources, most_sentences=most_sentences)
    if model is None or not sources:
        return extracted
    request = request_answer(
        question,
        sources,
        secret=prompting.secret,
        count=prompting.count,
        limit_tokens=prompting.limit_tokens,
        today=prompting.today,
    )
    if request is None:
        problem = f"no source fits into {prompting.limit_tokens:,} tokens"
        return replace(extracted, problems=(f"the model was not asked: {problem}",))
    try:
        async with asyncio.timeout(prompting.timeout_seconds):
            reply = await model(list(request.messages))
    except TimeoutError:
        problem = f"no answer within {prompting.timeout_seconds:g} seconds"
        return replace(extracted, problems=(f"the model failed: {problem}",))
    except Exception as error:  # noqa: BLE001 - a model may raise anything; the sources are there
        problem = f"{type(error).__name__}: {error}"
        return replace(extracted, problems=(f"the model failed: {problem}",))
    checked = check_answer(reply.text, request.offered)
    if not checked.text:
        return replace(extracted, problems=("the model gave an empty answer",))
    problems = []
    if checked.removed_numbers:
        numbers = ", ".join(map(str, checked.removed_numbers[:TOLD_NUMBERS]))
        if more := len(checked.removed_numbers) - TOLD_NUMBERS:
            numbers += f" and {more} more" if more > 0 else ""
        problems.append(f"the model cited sources that do not exist: {numbers}")
    return Synthesis(
        answer=checked.text,
        found=bool(checked.cited),
        answered_by=model.name or "model",
        cited=checked.cited,
        removed_numbers=checked.removed_numbers,
        removed_links=checked.removed_links,
        uncited_sentences=checked.uncited_sentences,
        problems=tuple(problems),
    )


async def confirm(
    conflicts: Sequence[SearchConflict], *, model: Model, prompting: Prompting
) -> tuple[tuple[SearchConflict, ...], str]:
    """The conflicts with what the model thinks of each, and what went wrong."""
    messages = request_check(
        conflicts,
        secret=prompting.secret,
        count=prompting.count,
        limit_tokens=prompting.limit_tokens,
        today=prompting.today,
    )
    if not messages:
        return tuple(conflicts), ""
    try:
        async with asyncio.timeout(prompting.timeout_seconds):
            reply = await model(list(messages))
    except Exception as error:  # noqa: BLE001 - unchecked conflicts are still shown
        return tuple(conflicts), f"the conflicts were not checked: {type(error).__name__}: {error}"
    verdicts = read_check(reply.text)
    checked = tuple(
        replace(conflict, confirmed=verdicts.get(at)) for at, conflict in enumerate(conflicts, 1)
    )
    return checked, ""


__all__ = ["NOTHING_FOUND", "Prompting", "Synthesis", "confirm", "extract", "synthesize"]
