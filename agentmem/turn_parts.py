"""What a turn reads from its caller, and what it keeps of an answer."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from agentmem.config import LoopConfig
from agentmem.contexts import Context
from agentmem.core.injection import inject
from agentmem.core.strip import strip
from agentmem.errors import InvalidInput
from agentmem.manager.whose import scope_of
from agentmem.types import Scope

if TYPE_CHECKING:
    from agentmem.manager import MemoryManager
    from agentmem.working import WorkingMemory

LEFT_OVER_WORDS = 4
LEFT_OVER_CHARACTERS = 20
WHOLE_TOKENS = 4_000
"""What goes to a model whole that has no tool to read more."""
_WORD = re.compile(r"[^\W\d_]{2,}")
_LOOSE_ENDS = re.compile(r"\A[\s.,;:!?)\]]+")

Whose = Scope | Mapping[str, str | None] | str | None
"""A scope, its names in a mapping, or just a user's id."""


def own_words(answer: str, shown: Collection[bytes]) -> str:
    """What of an answer is worth keeping: without what it repeats from a block, and without the
    numbers of sources, which mean nothing later. A few words that are left over are nothing.
    """
    from agentmem.core.citation_marks import resolve_citations

    kept = strip(answer, known=shown) if shown else answer
    kept = resolve_citations(kept, ()).text.strip()
    if not answer.strip().startswith(kept[:LEFT_OVER_CHARACTERS]):
        kept = _LOOSE_ENDS.sub("", kept)  # the full stop of a quote that is gone
    if kept != answer.strip() and len(_WORD.findall(kept)) < LEFT_OVER_WORDS:
        return ""
    return kept


def session_of(scope: Scope, now: datetime) -> str:
    """What a turn belongs to: its run, or else the day."""
    return scope.run_id or now.date().isoformat()


def working_for(
    memory: MemoryManager, *, scope: Scope, model: str, config: LoopConfig
) -> WorkingMemory:
    """The working memory of a scope, counting as `model` does."""
    from agentmem.working import WorkingMemory

    runtime = memory.runtime
    return WorkingMemory(
        memory,
        scope=scope,
        count=runtime.tokenizer(model)[0],
        stand_in_tokens=config.stand_in_tokens if config.memory_tools else WHOLE_TOKENS,
        read_limit_tokens=config.read_limit_tokens,
        session=session_of(scope, runtime.now()),
    )


def again(kept: Context, given: Sequence[dict[str, Any]], config: LoopConfig) -> Context:
    """The context of a later step: `given` with the block that the turn has already."""
    messages = inject(
        given,
        kept.built.text,
        framing=config.framing,
        role=config.reference_role,
        placement=config.placement,
    )
    return replace(kept, messages=messages)


def read_scope(scope: Whose, whose: Mapping[str, str | None]) -> Scope:
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
    raise InvalidInput(
        "scope", scope, "is no scope", remedy='Pass Scope(user_id="…"), a mapping, or a user id.'
    )


def read_usage(usage: Any) -> dict[str, int]:
    """Prompt, completion and total tokens under whichever names a provider has for them."""
    values = plain(usage or {})
    names = {
        "prompt": ("prompt_tokens", "input_tokens"),
        "completion": ("completion_tokens", "output_tokens"),
        "total": ("total_tokens",),
    }
    found = {
        ours: value
        for ours, theirs in names.items()
        for name in theirs
        if isinstance(value := values.get(name), int) and value >= 0
    }
    if "prompt" in found and "prompt_tokens" not in values:  # Anthropic counts these apart
        for name in ("cache_read_input_tokens", "cache_creation_input_tokens"):
            if isinstance(value := values.get(name), int):
                found["prompt"] += max(0, value)
    if "total" not in found and len(found) == 2:
        found["total"] = found["prompt"] + found["completion"]
    return found


def plain(value: Any) -> dict[str, Any]:
    """A provider's usage object as JSON values; what cannot be read is left out."""
    if not isinstance(value, Mapping):
        dump = getattr(value, "model_dump", None)
        value = {}
        with contextlib.suppress(Exception):
            value = dump() if callable(dump) else {}
    return {
        str(name): item
        for name, item in value.items()
        if isinstance(item, int | float | str | bool) or item is None
    }
