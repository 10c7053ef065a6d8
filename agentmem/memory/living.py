"""Keep a memory small, true and useful: learn, consolidate, resolve, predict; each can be undone.

Each call is a door to a module of its own, opened when it is used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack

from agentmem.base.checks import require_count, require_items, require_text
from agentmem.base.types import Memory, Whose
from agentmem.search.intake import Instant, instant, scope_of

if TYPE_CHECKING:
    from agentmem.base.config import LoopConfig
    from agentmem.living.consolidate import ConsolidationReport
    from agentmem.living.learn import Learned
    from agentmem.living.models import Model, Spend
    from agentmem.living.plans import ConsolidationSettings
    from agentmem.living.predict import Prediction, Signal, SignalKind
    from agentmem.living.settle import Contradiction, Resolution, Resolved
    from agentmem.living.tiers import Prefetched, Shares, TieredContext
    from agentmem.memory.manager import MemoryManager
    from agentmem.stores.rules import JournalEntry, Undone

    Signals = Sequence[Signal | tuple[str, str]]


class Living:
    """The calls that keep a memory in order: `memory.living`."""

    def __init__(self, memory: MemoryManager) -> None:
        self._memory = memory

    def learn(
        self,
        data: str | Mapping[str, Any] | Sequence[Mapping[str, Any]],
        *,
        model: Model | None = None,
        spend: Spend | None = None,
        dry_run: bool = False,
        **whose: Unpack[Whose],
    ) -> Learned:
        """Keep the facts, decisions and fixes that a user's text or turns state, in one step.

        A later value for the same key takes the earlier one's place (P38).
        Turns of others than the user teach nothing. `undo(result.journal_id)`
        takes it all back; a dry run changes nothing. A `model` (a litellm name
        or a chat-completions callable) finds what the rules miss, within
        `spend`; what it proposes is kept only if the text says it (L11). What
        users say about themselves reaches their profile too (P45).
        """
        from agentmem.living.learn import Learner

        learner, scope = Learner(self._memory), scope_of(whose)
        said = learner.read(scope, data)
        return learner.learn(scope, said, model=model, spend=spend, dry_run=dry_run)

    def history_of(
        self, key: str, *, as_of: Instant = None, **whose: Unpack[Whose]
    ) -> tuple[Memory, ...]:
        """Every value that a key ("API limit") ever had, earliest first; or the one as of then."""
        from agentmem.living.learn import Learner

        learner = Learner(self._memory)
        return learner.history(scope_of(whose), key, as_of=instant(as_of, "as_of"))

    def consolidate(
        self,
        *,
        dry_run: bool = False,
        settings: ConsolidationSettings | None = None,
        full: bool = False,
        model: Model | None = None,
        spend: Spend | None = None,
        **whose: Unpack[Whose],
    ) -> ConsolidationReport:
        """Merge, shorten, forget, link and look for contradictions, all in one step (P37).

        `undo(report.journal_id)` takes it back. A dry run changes nothing and
        reports what a run would do now. Only what changed since the last run
        is compared again, unless `full`. A `model` (a litellm name or a
        chat-completions callable) writes shorter summaries and looks at what
        the rules are not sure of, within `spend`; a dry run asks none.
        """
        from agentmem.living.consolidate import consolidate

        return consolidate(
            self._memory,
            scope_of(whose),
            dry_run=dry_run,
            settings=settings,
            full=full,
            model=model,
            spend=spend,
        )

    def undo(self, journal_id: str, **whose: Unpack[Whose]) -> Undone:
        """Take a run or what was learned back, in the profile too; what was changed since stays.

        What the background found out about it meanwhile goes with it.
        """
        from agentmem.living.learn import HEARD, take_back
        from agentmem.living.settle import JUDGE

        scope, journal = scope_of(whose), self._memory.store.journal
        heard = journal.get(scope, require_text(journal_id, "journal_id")).report.get(HEARD, ())
        now = self._memory.clock.now()
        undone = journal.undo(scope, journal_id, at=now, along=(JUDGE,))
        return replace(undone, removed=undone.removed + take_back(self._memory, scope, heard))

    def journal(self, limit: int = 20, **whose: Unpack[Whose]) -> tuple[JournalEntry, ...]:
        """The newest runs that can be undone, and those that were."""
        return self._memory.store.journal.recent(
            scope_of(whose), limit=require_count(limit, "limit")
        )

    def bring_back(self, memory_id: str | Sequence[str], **whose: Unpack[Whose]) -> JournalEntry:
        """Let memories that were forgotten or put away be found again; `undo` takes it back."""
        from agentmem.living.consolidate import bring_back

        ids = (
            [memory_id]
            if isinstance(memory_id, str)
            else require_items(memory_id, "memory_id", "ids")
        )
        return bring_back(self._memory, scope_of(whose), ids)

    def contradictions(
        self, *, open_only: bool = True, **whose: Unpack[Whose]
    ) -> tuple[Contradiction, ...]:
        """Memories that cannot both be true, oldest first; the resolved ones on request."""
        from agentmem.living.settle import Settler

        settler = Settler(self._memory)
        return settler.all(scope_of(whose), open_only=open_only)

    def contradiction(self, contradiction: str, **whose: Unpack[Whose]) -> Contradiction:
        """One contradiction by its id, or the beginning of it."""
        from agentmem.living.settle import Settler

        return Settler(self._memory).get(scope_of(whose), contradiction)

    def resolve(
        self,
        contradiction: str,
        resolution: Resolution,
        *,
        text: str = "",
        note: str = "",
        **whose: Unpack[Whose],
    ) -> Resolved:
        """Say what is true: `a_wins`, `b_wins`, `both_valid` or `merged`.

        The side that does not hold is superseded, and kept; `merged` with a
        `text` of yours puts that in the place of both. `undo` with the
        result's `journal_id` opens the contradiction again.
        """
        from agentmem.living.settle import Settler

        settler = Settler(self._memory)
        return settler.resolve(scope_of(whose), contradiction, resolution, text=text, note=note)

    def signal(self, kind: SignalKind, value: str, **whose: Unpack[Whose]) -> None:
        """Say what is going on; the turns and predictions of the next two hours know it.

        `kind` is `file`, `branch`, `error`, `time`, `collaborator`, `tool` or `task`.
        """
        from agentmem.living.predict import Signal

        self._memory.runtime.predictions.note(Signal(kind=kind, value=value), scope_of(whose))

    def predict(
        self, signals: Signals = (), limit: int = 10, **whose: Unpack[Whose]
    ) -> tuple[Prediction, ...]:
        """The memories most probably needed in this situation, best first, with a confidence."""
        from agentmem.living.predict import read_signals

        scope = scope_of(whose)
        require_count(limit, "limit")
        tiers = self._memory.runtime.tiers
        given = tiers.signals_for(read_signals(signals), scope)
        return tuple(self._memory.runtime.predictions.predict(given, scope, limit=limit))

    def prefetch(
        self,
        signals: Signals = (),
        *,
        budget_ms: float = 200.0,
        config: LoopConfig | None = None,
        **whose: Unpack[Whose],
    ) -> Prefetched:
        """Make ready what the next turn will need, within about `budget_ms`.

        Tasks and errors among the signals are searched for ahead: a turn that
        says the same is served from the cache. The embedder, the indexes and
        what counts tokens are loaded, so that any other turn is faster too;
        what takes longer than the budget goes on in the background.
        """
        from agentmem.living.predict import read_signals

        return self._memory.runtime.prefetcher.run(
            scope_of(whose),
            read_signals(signals),
            budget_ms=budget_ms,
            config=config or self._memory.settings.loop,
        )

    def assemble_context(
        self,
        budget: int = 8_000,
        *,
        signals: Signals = (),
        activity: str = "general",
        task: str = "",
        table: Mapping[str, Shares] | None = None,
        model: str = "",
        **whose: Unpack[Whose],
    ) -> TieredContext:
        """What is worth knowing now in four tiers, within `budget` tokens of `model` (P36).

        `task` says in words what is being done. `table` gives shares of your
        own by activity. A part that cannot be read is left out and named in
        `degradations`.
        """
        from agentmem.living.predict import read_signals

        return self._memory.runtime.tiers.assemble(
            scope_of(whose),
            budget_tokens=budget,
            signals=read_signals(signals),
            activity=activity,
            task=task,
            table=table,
            count=self._memory.runtime.tokenizer(model)[0],
        )
