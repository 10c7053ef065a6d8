"""What the turns of one memory share: background work, the breaker, token counters, the trace."""

from __future__ import annotations

import json
import logging
import os
import re
import threading
import warnings
from collections import ChainMap, deque
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from agentmem.agent.context import Recaller
from agentmem.base.config import EXTRACTIVE, LoopConfig
from agentmem.base.errors import NAME_THE_USER, AgentMemWarning
from agentmem.base.filters import Selection
from agentmem.base.guards import TtlCache
from agentmem.base.lazy import Lazy, made
from agentmem.base.types import LEARN_CITED, LEARN_WORKFLOW, Hit, Memory, Scope
from agentmem.living.preferences import PreferenceStore
from agentmem.prompt.build import is_only_asked
from agentmem.prompt.query import FEW_WORDS, asked_text, read_queries
from agentmem.prompt.strip import fingerprints
from agentmem.search.parts import changes_of
from agentmem.text.detect import is_need
from agentmem.tokens.counter import Correction, Corrections, Tokenizer

if TYPE_CHECKING:
    from agentmem.agent.context import Context
    from agentmem.agent.trace import Trace
    from agentmem.base.guards import UnderWay
    from agentmem.living.consolidate import Nightly
    from agentmem.living.predict import Predictions, Signal
    from agentmem.living.settle import Settler
    from agentmem.living.tiers import Tiers
    from agentmem.living.workflows import Workflows
    from agentmem.prompt.messages import Conversation
    from agentmem.sources.background import Worker
    from agentmem.sources.indexer import Indexer, Paged


if TYPE_CHECKING:

    class Host(Paged, Protocol):
        """A memory that serves a loop."""

        @property
        def runtime(self) -> Runtime: ...
        @property
        def under_way(self) -> UnderWay: ...


_log = logging.getLogger(__name__)

DEFAULT_MODEL = "gpt-4o"
"""Whose tokens are counted when a caller does not say the model, or asks none."""
CORRECTIONS = "token corrections"
NOTABLE = 0.01
"""By so much has a correction to change before it is written; the rest is written at the end."""
WIDER = 1.25
"""By this factor has a prompt to be longer than any before to be written down at once."""
LOGGED = ("embedder: ", "background work failed: ")
_NUMBER = re.compile(r"\d+")
SETTLE_SECONDS = 10.0
TURN_SECONDS = 600.0
"""How long the steps of one turn find the block that was built for it."""
SHOWN_BLOCKS = 50
"""The echoes of so many blocks are recognised when an answer is remembered."""


Lesson = Callable[[Corrections], object]
"""Teaches corrections what one call showed: what the provider counted, or what it refused."""


class Runtime:
    """Made by the first turn of a memory and closed with it."""

    def __init__(self, memory: Paged) -> None:
        self.memory = memory
        self.recaller = Recaller(memory)
        self._profiles: TtlCache[tuple[Memory, ...]] = TtlCache(memory.clock)
        self.preferences = PreferenceStore(memory, current=self._profiles)
        self.blocks: TtlCache[tuple[Conversation, Context]] = TtlCache(
            memory.clock, ttl_seconds=TURN_SECONDS
        )
        self._without_results: TtlCache[bool] = TtlCache(memory.clock)
        self._tokenizers: dict[tuple[str, int | None], tuple[Tokenizer, tuple[str, ...]]] = {}
        self._shown: deque[tuple[Scope, Lazy[dict[bytes, None]]]] = deque(maxlen=SHOWN_BLOCKS)
        self._tidied: TtlCache[bool] = TtlCache(memory.clock, ttl_seconds=3_600)
        self._warned: TtlCache[bool] = TtlCache(memory.clock, ttl_seconds=60)
        self._lock = threading.Lock()
        self._closed = False
        self._saved: dict[str, Correction] = {}
        self._unsaved: list[Lesson] = []
        self._said: set[str] = set()
        self.without_tools: set[str] = set()
        """The models that refused the tools of the memory."""
        self.problems: tuple[str, ...] = ()

    @cached_property
    def worker(self) -> Worker:
        """The one queue of this memory; its thread starts with the first job."""
        from agentmem.sources.background import MESSAGES, PAGE, SNAPSHOT, Worker

        worker = Worker(self.memory.store, clock=self.memory.clock)
        # What an earlier process left is done also where nobody has asked for these parts yet.
        jobs: dict[str, Callable[[Mapping[str, Any], Scope], Any]] = {
            "observed": self._observe,
            "usage": self._count_use,
            "judge": lambda _, scope: self.settler.judge_new(scope),
            "learn": self._learn,
            "consolidate": self._consolidate,
            "evict": self._evict,
            LEARN_CITED: lambda payload, scope: self.predictions.learn(payload, scope=scope),
            LEARN_WORKFLOW: lambda payload, scope: self.workflows.learn(payload, scope=scope),
            PAGE: lambda payload, scope: self.indexer.handle_page(payload, scope=scope),
            MESSAGES: lambda payload, scope: self.indexer.handle_messages(payload, scope=scope),
            SNAPSHOT: lambda payload, scope: self.trace.handle(payload, scope=scope),
        }
        for kind, job in jobs.items():
            worker.handle(kind, job)
        worker.when_idle(self.memory.index.keep_up)
        if self._closed:
            worker.close()
        return worker

    @cached_property
    def indexer(self) -> Indexer:
        from agentmem.sources.indexer import Indexer

        return Indexer(
            self.memory,
            worker=self.worker,
            note_said=lambda trace, ids, scope: self.trace.note_said(trace, ids, scope=scope),
        )

    @cached_property
    def trace(self) -> Trace:
        from agentmem.agent.trace import Trace

        return Trace(self.memory, worker=self.worker)

    @cached_property
    def predictions(self) -> Predictions:
        """What is needed when, as far as it was learned."""
        from agentmem.living.predict import Predictions

        return Predictions(self.memory)

    @cached_property
    def tiers(self) -> Tiers:
        from agentmem.living.tiers import Tiers

        return Tiers(
            self.memory,
            self.predictions,
            count=lambda: self.tokenizer("")[0],
            expect=self.expect,
        )

    @cached_property
    def settler(self) -> Settler:
        """Finds what contradicts what is new."""
        from agentmem.living.settle import Settler

        return Settler(self.memory)

    @cached_property
    def workflows(self) -> Workflows:
        """What worked before."""
        from agentmem.living.workflows import Workflows

        return Workflows(self.memory, self.predictions)

    @cached_property
    def corrections(self) -> Corrections:
        """What providers' counts taught about ours, from the store."""
        found = Corrections()
        try:
            found.load(json.loads(self.memory.store.settings.get(CORRECTIONS) or "{}"))
        except Exception as error:  # noqa: BLE001 - counting goes on without what was learned
            self.problems = (f"token corrections failed: {type(error).__name__}: {error}",)
            _log.warning("The token corrections could not be read and start anew: %s", error)
        return found

    def readiness(self) -> tuple[str, ...]:
        """What is known to be wrong before a turn begins: the store's place, the background."""
        problems = list(self.problems)
        if self.memory.path is not None:
            problems += _problems_of(self.memory.path)
        if "worker" in self.__dict__ and (problem := self.worker.problem):
            problems.append(f"background work failed: {problem}")
        return tuple(problems)

    def warn(self, problem: str) -> None:
        """Log what did not work, with its cause; once a minute, however many turns it hurts.

        What the embedder and the background say, they have logged themselves.
        """
        cause = _NUMBER.sub("#", problem)
        if not problem.startswith(LOGGED) and self._warned.get(cause) is None:
            self._warned.put(cause, True)
            _log.warning("memory degraded: %s", problem)

    def warn_of_the_nameless(self) -> None:
        """Log once that a caller names no user, so that callers share what is remembered."""
        if self.first_time("a turn names no user"):
            _log.warning(
                "A turn names no user: all turns without one share one memory. %s "
                "With strict_scope=True such turns are refused.",
                NAME_THE_USER,
            )

    def now(self) -> datetime:
        return self.memory.clock.now()

    def new_id(self) -> str:
        return self.memory.ids.new()

    def secret(self) -> bytes:
        """What block boundaries are made from."""
        return self.memory.store.settings.secret()

    def noted_signals(self, scope: Scope) -> tuple[Signal, ...]:
        """What was said to be going on lately; nothing is loaded to find that nothing was."""
        return self.predictions.current(scope) if "predictions" in self.__dict__ else ()

    def expect(self, text: str, scope: Scope, config: LoopConfig) -> Sequence[Hit] | None:
        """What a turn that says `text` will recall, kept for it in the cache; None if it fails."""
        asked = read_queries(({"role": "user", "content": text},))
        recalled = self.recaller.recall(asked, scope, config)
        return None if recalled.degradations else recalled.hits

    def expect_question(self, message: Mapping[str, Any], config: LoopConfig) -> None:
        """Have the vector of what is asked made while the turn listens to it."""
        words = asked_text(message).split()
        if config.recall.search_mode != "fulltext" and len(words) > FEW_WORDS:
            self.memory.embedding.expect(" ".join(words))

    def profile(self, scope: Scope) -> tuple[Memory, ...]:
        """The user's preferences, needs of health and access first, then newest first."""
        found = self.preferences.current(scope)
        return tuple(sorted(found, key=lambda memory: not is_need(memory.text)))

    def has_results(self, scope: Scope, session: str) -> bool:
        """Whether this session has tool results to point at; most have none."""
        key = (scope, session, changes_of(self.memory, "tool_result"))
        if self._without_results.get(key):
            return False
        results = Selection(
            reader=scope, kinds=("tool_result",), visibilities=("private",), session=session
        )
        if self.memory.store.recent(results, limit=1):
            return True
        self._without_results.put(key, True)
        return False

    def tokenizer(
        self, model: str, context_window: int | None = None, *, estimated_for: str | None = None
    ) -> tuple[Tokenizer, tuple[str, ...]]:
        """The counter for `model`, and what had to be assumed about it.

        Made with `estimated_for`, it estimates, and that is why.
        """
        known = self._tokenizers.get((model, context_window))
        if known is None:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always", AgentMemWarning)
                made = Tokenizer(
                    DEFAULT_MODEL if model in ("", EXTRACTIVE) else model,
                    context_window=context_window,
                    corrections=self.corrections,
                    estimate=estimated_for is not None,
                )
            notes = [str(warning.message) for warning in caught]
            notes = notes if estimated_for is None else [estimated_for]
            known = self._tokenizers[model, context_window] = (made, tuple(notes))
        return known

    def first_time(self, what: str) -> bool:
        """Whether nobody asked this before: what had to be assumed of a model is said once."""
        with self._lock:
            known = what in self._said
            self._said.add(what)
        return not known

    def observe(self, model: str, *, estimated: int | Lazy[int], actual: int) -> None:
        """Learn from what a provider counted, in the background, and keep it in the store."""
        self.worker.submit("observed", {"model": model, "estimated": estimated, "actual": actual})

    def refused(self, model: str, *, estimated: int, error: BaseException) -> None:
        """Learn from a refusal how much `model` takes: for the next call at once, and for good."""
        from agentmem.models.call import figures_of

        figures, name = figures_of(error), self.tokenizer(model)[0].model
        counted, window = figures.counted_tokens, figures.window_tokens
        self._teach(lambda known: known.refuse(name, estimated, counted=counted, window=window))
        self.worker.submit("observed", {"model": model, "estimated": 0, "actual": None})

    def remember_shown(self, scope: Scope, context: Context) -> None:
        """Keep the block of a context, to know its echoes in what comes back."""

        def prints() -> dict[bytes, None]:
            block = context.built.block
            return {} if block is None else dict.fromkeys(fingerprints(block))

        self._shown.append((scope, Lazy(prints)))

    def shown_to(self, scope: Scope) -> Collection[bytes]:
        """The fingerprints of the blocks this scope was shown lately."""
        # Copied together they would cost more than whatever is looked up in them.
        return ChainMap(*(prints.value for whose, prints in (*self._shown,) if whose == scope))

    def _observe(self, payload: Mapping[str, Any], scope: Scope) -> None:
        estimated, actual = made(payload["estimated"]), payload["actual"]
        name = self.tokenizer(payload["model"])[0].model
        if estimated and actual:
            self._teach(lambda known: known.observe(name, estimated, actual))
        learned, saved = self.corrections.of(name), self._saved.get(name, Correction())
        if (  # most calls teach nothing new
            abs(learned.ratio - saved.ratio) > NOTABLE * saved.ratio
            or learned.worked > WIDER * saved.worked
            or (learned.window, learned.refused) != (saved.window, saved.refused)
        ):
            self._save_corrections()
            self._saved[name] = learned

    def _teach(self, lesson: Lesson) -> None:
        lesson(self.corrections)
        with self._lock:
            self._unsaved.append(lesson)

    def _save_corrections(self) -> None:
        """Add what was learned here to what is kept, in one step, whoever learned the rest."""
        with self._lock:
            lessons, self._unsaved = self._unsaved, []
        kept = self.memory.store.settings.update(CORRECTIONS, lambda raw: _corrected(raw, lessons))
        self.corrections.load(json.loads(kept or "{}"))

    def _count_use(self, payload: Mapping[str, Any], scope: Scope) -> None:
        """Count what the answer of a turn cited and what it passed over."""
        store, now = self.memory.store, self.now()
        for name in ("cited", "ignored"):
            ids = made(payload.get(name))
            if ids:
                store.record_usage(scope, ids, at=now, retrieved=1, **{name: 1})
        cited = made(payload.get("cited")) or ()
        if len(cited) > 1:
            from agentmem.living.usage import count_co_citations

            count_co_citations(store, scope, cited, at=now)

    def tidy_results(self, scope: Scope, config: LoopConfig) -> None:
        """Let old tool results of this scope go, in the background and at most once an hour."""
        if self._tidied.get(scope) is None:
            self._tidied.put(scope, True)
            payload = {"days": config.results.keep_days, "bytes": config.results.keep_bytes}
            self.worker.submit("evict", payload, scope=scope, key="evict")

    def _evict(self, payload: Mapping[str, Any], scope: Scope) -> None:
        from agentmem.agent.tool_results import WorkingMemory

        working = WorkingMemory(self.memory, scope=scope, count=self.tokenizer("")[0])
        working.evict(timedelta(days=float(payload["days"])), int(payload["bytes"]), at=self.now())

    def settle(self, scope: Scope) -> None:
        """Finish what waits; what cannot be finished in time is dropped, since it is to be erased.

        Called by the worker itself it only drops.
        """
        if "worker" in self.__dict__ and not self.worker.flush(SETTLE_SECONDS):
            self.worker.forget(scope)

    def forget(self) -> None:
        """Keep nothing in memory that quotes what was erased."""
        self.recaller.cache.clear()
        self.blocks.clear()
        self._profiles.clear()
        is_only_asked.cache_clear()
        is_need.cache_clear()
        self._without_results.clear()
        if "trace" in self.__dict__:
            self.trace.forget()
        for _, prints in (*self._shown,):
            _ = prints.value  # an answer may still repeat what was erased while it was made

    @cached_property
    def nightly(self) -> Nightly:
        """Consolidates every night while the process lives; started by a turn."""
        from agentmem.living.consolidate import Nightly

        return Nightly(self.memory)

    def _consolidate(self, payload: Mapping[str, Any], scope: Scope) -> None:
        """Consolidate everybody's memories."""
        from agentmem.living.consolidate import run_nightly

        run_nightly(self.memory)

    def _learn(self, payload: Mapping[str, Any], scope: Scope) -> None:
        """Keep what the user's turns state."""
        from agentmem.living.learn import Learner

        learner = Learner(self.memory)
        said = learner.read(scope, payload["messages"])
        asked: dict[str, Any] = {}
        if payload.get("model"):
            from agentmem.living.models import Spend

            spend = Spend(calls=int(payload["calls"]), tokens=int(payload["tokens"]))
            asked = {"model": payload["model"], "spend": spend}
        learned = learner.learn(scope, said, listen=False, **asked)  # the turn heard it
        for note in learned.notes:
            _log.info("While learning from a turn: %s", note)

    def close(self) -> None:
        """Finish or put away what waits in the background, and let go of what leads back here."""
        self._closed = True
        if "nightly" in self.__dict__:
            self.nightly.close()
        if "worker" in self.__dict__:
            self.worker.close()
        if self._unsaved:
            self._quietly(self._save_corrections)
        if "settler" in self.__dict__:
            self._quietly(self.settler.save)
        if "tiers" in self.__dict__:
            self.tiers.close()
        self.recaller.close()
        self.blocks.clear()
        self._shown.clear()
        for name in ("worker", "indexer", "trace", "tiers"):
            self.__dict__.pop(name, None)

    def _quietly(self, save: Callable[[], object]) -> None:
        try:
            save()
        except Exception as error:  # noqa: BLE001 - closing goes on; a few lessons are lost
            _log.warning("What was learned last could not be saved: %s", error)


def _corrected(raw: str | None, lessons: Sequence[Lesson]) -> str:
    """The kept corrections with a few calls more, whoever taught them the others."""
    known = Corrections()
    with suppress(ValueError):  # what cannot be read starts anew
        known.load(json.loads(raw or "{}"))
    for lesson in lessons:
        lesson(known)
    return json.dumps(known.export())


def _problems_of(path: Path) -> list[str]:
    """Why a store could not be written at `path`; nothing is touched to find out."""
    if os.access(path, os.R_OK | os.W_OK) and os.path.isfile(path):
        return []
    if path.exists():
        return [f"the store {path.name} cannot be read and written"]
    folder = next(parent for parent in path.absolute().parents if parent.exists())
    if folder.is_dir() and os.access(folder, os.W_OK | os.X_OK):
        return []
    return [f"the store {path.name} cannot be created here: {folder} is no writable folder"]
