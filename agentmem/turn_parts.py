"""What a turn reads from its caller, and what it keeps of an answer."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from agentmem.config import LoopConfig
from agentmem.context_values import Context
from agentmem.core.conversation import Conversation
from agentmem.core.injection import inject
from agentmem.core.strip import strip
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


def again(kept: Context, given: Conversation, config: LoopConfig) -> Context:
    """The context of a later step: `given` with the block that the turn has already."""
    messages = inject(
        given,
        kept.text,
        framing=config.framing,
        role=config.reference_role,
        placement=config.placement,
    )
    return replace(kept, messages=messages)
