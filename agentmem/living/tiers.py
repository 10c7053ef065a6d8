"""Divide a budget among four tiers, each shown at the level it affords (P36).

    1 critical      what must be known now: in full
    2 relevant      what will probably be needed: summaries
    3 background    how things are done here: compressed
    4 index         what can be asked for: one line and an id

Tiers are an order of candidates with budgets, and what one tier leaves is the next
one's to use: a turn fills its block by that order, a text by tiers is filled tier by tier.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Literal, NamedTuple, ParamSpec, TypeVar, get_args

from agentmem.base.checks import require_choice, require_count, require_number, require_text
from agentmem.base.config import LoopConfig
from agentmem.base.errors import InvalidInput, TimedOut
from agentmem.base.filters import Selection
from agentmem.base.guards import Lanes, TtlCache
from agentmem.base.lazy import compile_late
from agentmem.base.protocols import TokenCounter
from agentmem.base.telemetry import span
from agentmem.base.types import Hit, Level, Memory, Scope
from agentmem.living.facts import Episode, Workflow, from_memory
from agentmem.living.levels import INDEX_CHARACTERS, compress, index_line, make_levels
from agentmem.living.predict import GUESSES, Prediction, Predictions, Signal, plain_path
from agentmem.prompt.block import Pointer, source_of
from agentmem.prompt.budget import ContentPackage, fill
from agentmem.prompt.build import Chosen, OfferedSource, memory_type
from agentmem.text.clean import clean_line, clean_text
from agentmem.text.terms import analyse_query, mentions

if TYPE_CHECKING:
    from agentmem.living.preferences import Profiled


Tier = Literal[1, 2, 3, 4]
Shares = tuple[float, float, float, float]
Levels = tuple[str, str, str, str]
Outcome = Literal["included", "lowered", "dropped"]
T = TypeVar("T")
P = ParamSpec("P")

TIERS: tuple[Tier, ...] = (1, 2, 3, 4)
NAMES: Mapping[int, str] = {
    1: "Critical", 2: "Relevant", 3: "Background", 4: "Can be asked for",
}  # fmt: skip
ALL_LEVELS: tuple[Level, ...] = get_args(Level)
LEVELS: Mapping[Tier, tuple[Level, ...]] = {tier: ALL_LEVELS[tier - 1 :] for tier in TIERS}
SHARES: Mapping[str, Shares] = {
    "general": (0.25, 0.375, 0.25, 0.125),
    "debugging": (0.375, 0.3125, 0.1875, 0.125),
    "feature": (0.1875, 0.4375, 0.25, 0.125),
    "review": (0.25, 0.3125, 0.3125, 0.125),
    "writing": (0.125, 0.375, 0.375, 0.125),
}


class TierItem(NamedTuple):
    """A memory that may be shown: its text at each level, full to index, and why it is here.

    The nearest fuller text stands where a level was not made. Items are tried in
    the order given.
    """

    id: str
    levels: Levels
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TierFate:
    """What became of an item, at which level, and what it costs."""

    id: str
    tier: Tier
    outcome: Outcome
    level: Level | None = None
    tokens: int = 0
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TieredContext:
    """The assembled text, what each tier costs, and what could not be read for it."""

    text: str = ""
    tokens: int = 0
    budget_tokens: int = 0
    tier_budgets: Mapping[int, int] = field(default_factory=dict)
    tier_tokens: Mapping[int, int] = field(default_factory=dict)
    fates: tuple[TierFate, ...] = ()
    degradations: tuple[str, ...] = ()

    @property
    def ids(self) -> tuple[str, ...]:
        """What is shown, in order."""
        return tuple(fate.id for fate in self.fates if fate.outcome != "dropped")


def shares_for(activity: str, table: Mapping[str, Shares] = SHARES) -> Shares:
    """The shares of an activity; they are parts of one whole."""
    require_choice(activity, tuple(table), "activity")
    shares = table[activity]
    for share in shares:
        require_number(share, "share", low=0.0, high=1.0)
    if len(shares) != len(TIERS) or abs(sum(shares) - 1.0) > 1e-9:
        raise InvalidInput("shares", shares, "are not four parts of one whole")
    return shares


def split_budget(total_tokens: int, shares: Shares) -> dict[int, int]:
    """`total_tokens` divided by `shares`, to the last token."""
    require_count(total_tokens, "total_tokens")
    whole = [int(total_tokens * share) for share in shares]
    rest = sorted(range(len(shares)), key=lambda at: (-(total_tokens * shares[at] - whole[at]), at))
    for at in rest[: total_tokens - sum(whole)]:
        whole[at] += 1
    return dict(enumerate(whole, start=1))


def _each_once(
    items: Mapping[Tier, Sequence[TierItem]],
) -> Iterator[tuple[Tier, list[TierItem]]]:
    """The tiers with their items; one that an earlier tier has is not given again."""
    there: set[str] = set()
    for tier in TIERS:
        new: list[TierItem] = []
        for item in items.get(tier, ()):
            if item.id not in there:
                there.add(item.id)
                new.append(item)
        yield tier, new


def order_tiers(
    items: Mapping[Tier, Sequence[TierItem]],
    total_tokens: int,
    *,
    count: TokenCounter,
    shares: Shares,
) -> tuple[TierFate, ...]:
    """The items of all tiers as one order of candidates, for a fill that keeps to it.

    However early that fill stops, what is in has been divided by about these
    shares: next comes the tier that is furthest behind its share, of equals the
    more urgent one, and a tier that has no more leaves its share to the others.
    The last tier, whose items are only named, comes last. An item has the
    fullest level of its tier that fits the tier's share by itself, else its
    shortest. Nothing is dropped; one that an earlier tier has is not given again.
    """
    budgets = split_budget(total_tokens, shares)
    ordered: list[tuple[float, TierFate]] = []
    for tier, offered in _each_once(items):
        given, share = 0.0, shares[tier - 1]
        for item in offered:
            costs = (count(text) for text in item.levels[tier - 1 :])
            for at, tokens in enumerate(costs):  # noqa: B007 - the last one stays
                if tokens <= budgets[tier]:
                    break
            ordered.append((math.inf if tier == 4 else given, _shown(item, tier, at, tokens)))
            given += tokens / share if share else math.inf
    ordered.sort(key=lambda pair: (pair[0], pair[1].tier))
    return tuple(fate for _, fate in ordered)


def assemble_tiers(
    items: Mapping[Tier, Sequence[TierItem]],
    total_tokens: int,
    *,
    count: TokenCounter,
    shares: Shares,
) -> TieredContext:
    """The items that fit, tier by tier, each at the fullest level its tier affords.

    Each tier is one `fill` of its budget and of what the tiers before it left, so an item
    that fits at no level is dropped and the ones after it are still tried. One that an
    earlier tier has is not given again. The whole text never costs more than
    `total_tokens`, headings included.
    """
    budgets = split_budget(total_tokens, shares)
    fates: list[TierFate] = []
    lines: dict[str, str] = {}
    left = 0
    for tier, offered in _each_once(items):
        left += budgets[tier]
        heading = count(_heading(tier))
        written = {item.id: _lines(item, tier) for item in offered}
        costs = {name: [count(line) for line in forms] for name, forms in written.items()}
        packages = [
            ContentPackage(
                id=item.id,
                type="memory",
                tokens=costs[item.id][0],
                shorter=tuple(costs[item.id][1:]),
                relevance=1.0 - at / len(offered),
            )
            for at, item in enumerate(offered)
        ]
        filled = fill(packages, max(0, left - heading))
        for item, fate in zip(offered, filled.fates, strict=True):
            if fate.outcome == "dropped":
                fates.append(TierFate(id=item.id, tier=tier, outcome="dropped", why=fate.reason))
                continue
            at = costs[item.id].index(fate.tokens)
            lines[item.id] = written[item.id][at]
            fates.append(_shown(item, tier, at, fate.tokens))
        left -= filled.used_tokens + heading if filled.kept else 0
    # Counters may give a whole more than its parts: the last and least goes first.
    while count(text := _render(fates, lines)) > total_tokens:
        at = max(at for at, fate in enumerate(fates) if fate.outcome != "dropped")
        fates[at] = replace(
            fates[at], outcome="dropped", level=None, tokens=0, why="no room in the whole"
        )
    used = {int(t): [f.tokens for f in fates if f.tier == t and f.level] for t in TIERS}
    return TieredContext(
        text=text,
        tokens=count(text) if text else 0,
        budget_tokens=total_tokens,
        tier_budgets=budgets,
        tier_tokens={
            tier: sum(costs) + count(_heading(tier)) if costs else 0 for tier, costs in used.items()
        },
        fates=tuple(fates),
    )


def _lines(item: TierItem, tier: Tier) -> list[str]:
    """An item as it may be shown in a tier, from its fullest level there to its shortest."""
    if tier == 4:
        name = clean_line(item.levels[3], limit_characters=300)
        return [f"- {name} (memory_read {item.id})\n"]
    why = f" [{clean_line(item.why, limit_characters=80)}]" if item.why else ""
    bodies = (clean_text(text).replace("\n", "\n  ") for text in item.levels[tier - 1 :])
    return [f"- {body}{why}\n" for body in bodies]


def _shown(item: TierItem, tier: Tier, at: int, tokens: int) -> TierFate:
    """The fate of an item that is there at a level of its tier, the first or a shorter one."""
    how: Outcome = "lowered" if at else "included"
    level = LEVELS[tier][at]
    return TierFate(id=item.id, tier=tier, outcome=how, level=level, tokens=tokens, why=item.why)


def _heading(tier: int) -> str:
    return f"\n## {NAMES[tier]}\n"


def _render(fates: Iterable[TierFate], lines: Mapping[str, str]) -> str:
    shown: dict[Tier, str] = {}
    for fate in fates:
        if fate.outcome != "dropped":
            shown[fate.tier] = shown.get(fate.tier, _heading(fate.tier)) + lines[fate.id]
    return "".join(shown.values()).strip("\n")


# ----------------------------------------------------------------------------
# Sort what a memory holds into the four tiers, for what is going on now.
#
# The shell fetches (`TierMaterial`); here is decided which of it is critical,
# relevant, background, or only named. Nothing is dropped for its size: the
# budget does that.


ERROR_AGE = timedelta(hours=24)
MOST: dict[Tier, int] = {1: 100, 2: 100, 3: 100, 4: 120}
"""So many are offered to a tier; more would hardly fit, and each costs time."""
READ_CHARACTERS = 4_000
NEW_DECISIONS = 5
"""So many decisions are relevant when nobody says what is being worked on."""
SHARED_WORDS = 2
SHARED_PART = 0.5
_NAME_WORD = compile_late(r"[^\W_]+")
_MOST_NAME_WORDS = 6
_BEGINNINGS = (
    "src lib app apps packages home users c d feature feat fix bugfix hotfix chore main master"
    " develop"
)
_PLACES = frozenset(_BEGINNINGS.split())
"""Names that files and branches begin with, and that say nothing of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TierMaterial:
    """What was fetched for a reader, each kind newest or best first.

    `contradictions` are open ones, both sides; `results` are tool results of
    the last day; `recent` is anything, to be named as topics.
    """

    episodes: tuple[Memory, ...] = ()
    contradictions: tuple[tuple[Memory, Memory], ...] = ()
    results: tuple[Memory, ...] = ()
    predicted: tuple[Prediction, ...] = ()
    hits: tuple[Hit, ...] = ()
    preferences: tuple[Memory, ...] = ()
    patterns: tuple[Memory, ...] = ()
    workflows: tuple[Memory, ...] = ()
    recent: tuple[Memory, ...] = ()


Placed = tuple[Memory, str]
"""A memory in its tier, and why it is there."""


class Situation:
    """What signals and a task say is going on, and whether a record is about it.

    `related` are files that import the open ones or are imported by them.
    """

    def __init__(
        self, signals: Iterable[Signal], *, now: datetime, task: str, related: Iterable[str]
    ) -> None:
        said: dict[str, list[str]] = {}
        for signal in signals:
            if signal.value.strip():
                said.setdefault(signal.kind, []).append(signal.value)
        words = filter(None, [task, *said.get("task", ()), *said.get("branch", ())])
        told = " ".join(dict.fromkeys(words))[:READ_CHARACTERS]
        errors = said.get("error", ())
        self.now = now
        self.people = frozenset(said.get("collaborator", ()))
        self._files = {path: _name(path) for path in map(plain_path, said.get("file", ()))}
        self._task = words_of(told)
        self._errors = [words_of(error) for error in errors]
        self._folders = {path.rpartition("/")[0] for path in self._files} - {""}
        self._near = {_name(plain_path(path)).lower() for path in related}
        self.told = bool(self._files or told.strip() or errors)

    def decision(self, record: Episode) -> tuple[str, bool]:
        """Why a decision holds for what is being done now, "" when it does not, and whether it
        is near: it shares a word of the task, or is about a file beside an open one."""
        named = [plain_path(one.reference) for one in record.artifacts if one.kind == "file"]
        text = f"{record.title}\n{record.narrative}\n{record.reason}"[:READ_CHARACTERS]
        shared = len(self._task & words_of(text)) if self._task else 0
        near = shared > 0 or any(
            path.rpartition("/")[0] in self._folders or _name(path).lower() in self._near
            for path in named
        )
        for path, name in self._files.items():
            # One path ends with the other: the same file, as far as one can tell.
            same = any(f"/{path}".endswith(f"/{o}") or f"/{o}".endswith(f"/{path}") for o in named)
            if same or mentions(text, name):
                return f"for {name}", near
        enough = max(min(SHARED_WORDS, len(self._task)), SHARED_PART * min(4, len(self._task)))
        return ("for this task" if self._task and shared >= enough else ""), near

    def error(self, record: Episode) -> bool:
        """Whether an error of the past is one that is seen now."""
        told = words_of(f"{record.title} {record.error}") if self._errors else set()
        return any(
            seen and len(seen & told) >= max(1, round(SHARED_PART * len(seen)))
            for seen in self._errors
        )

    def nearest(self, memories: Sequence[Memory]) -> list[Memory]:
        """Those that share the most words with what is going on first, then as they came."""
        wanted = self._task.union(*self._errors, *map(words_of, self._files.values()))

        def shared(memory: Memory) -> int:
            record = from_memory(memory)
            steps = isinstance(record, Workflow) and f"{record.trigger} {' '.join(record.steps)}"
            return len(wanted & words_of(steps or memory.text))

        return sorted(memories, key=lambda memory: -shared(memory)) if wanted else list(memories)


def question_of(signal: Signal) -> str:
    """What will probably be asked about, in words; "" when a signal names nothing one asks for."""
    if signal.kind in ("task", "error"):
        return signal.value.strip()
    named = signal.value
    if signal.kind == "file":
        named = plain_path(signal.value)
        named = named.removesuffix(f".{named.rpartition('.')[2]}") if "." in named else named
    elif signal.kind not in ("branch", "tool"):
        return ""
    words = [word for word in _NAME_WORD.findall(named) if word.lower() not in _PLACES]
    return " ".join(words[-_MOST_NAME_WORDS:])


def sort_into_tiers(
    fetched: TierMaterial, situation: Situation, *, reader: Scope, without: Collection[str] = ()
) -> dict[Tier, list[Placed]]:
    """Each memory once, in the most urgent tier that wants it, the most telling first.

    Those `without` are told already.
    """
    tiers: dict[Tier, list[Placed]] = {tier: [] for tier in TIERS}
    there = set(without)
    for tier, memory, why in _wanted(fetched, situation, reader):
        if memory.id not in there and len(tiers[tier]) < MOST[tier]:
            there.add(memory.id)
            tiers[tier].append((memory, why))
    return tiers


def _wanted(
    fetched: TierMaterial, situation: Situation, reader: Scope
) -> Iterator[tuple[Tier, Memory, str]]:
    """Every tier that wants a memory, the most urgent first, and why."""
    told = [(m, record) for m in fetched.episodes if isinstance(record := from_memory(m), Episode)]
    errors = [(memory, record) for memory, record in told if record.sort == "error"]
    decisions = [
        (m, *situation.decision(record)) for m, record in told if record.sort == "decision"
    ]
    for memory, why, _ in decisions:
        if why:
            yield 1, memory, f"decision {why}"
    for first, second in fetched.contradictions:
        yield 1, first, "contradicted, not settled: one of two"
        yield 1, second, "contradicted, not settled: the other of two"
    for memory, record in errors:
        if situation.now - memory.created_at <= ERROR_AGE:
            fixed = "and its fix" if record.fix else "no fix known"
            yield 1, memory, f"error of the last 24 hours, {fixed}"
    for memory, why in _failures(fetched.results, situation.now):
        yield 1, memory, why

    for hit in fetched.hits:
        yield 2, hit.memory, f"found by what is asked ({hit.score:.2f})"
    for guess in fetched.predicted:
        because = f": {guess.because[0].partition(':')[0]}" if guess.because else ""
        yield 2, guess.memory, f"needed before in this situation ({guess.confidence:.2f}{because})"
    for memory, record in errors:
        if situation.error(record):
            yield 2, memory, "the same error before"
    for memory, _, near in decisions:
        if near:
            yield 2, memory, "related decision"
    for memory, _, _ in () if situation.told else decisions[:NEW_DECISIONS]:
        yield 2, memory, "recent decision"

    def place(memory: Memory) -> int:
        """The people who are here come first, then others, then the reader."""
        owner = memory.scope.user_id
        here = owner in situation.people or memory.speaker in situation.people
        return 0 if here else 2 if owner == reader.user_id else 1

    for memory in sorted(fetched.preferences, key=place):
        mine = memory.visibility == "private" and memory.scope.user_id == reader.user_id
        who = memory.speaker or memory.scope.user_id or "a collaborator"
        yield 2, memory, "preference" if mine else f"preference of {who}"

    for memory in situation.nearest(fetched.patterns):
        yield 3, memory, "convention"
    apart = {memory.id for memory, record in told if record.sort != "event"}
    for memory in fetched.episodes:
        if memory.id not in apart:
            yield 3, memory, "history"
    for memory in situation.nearest(fetched.workflows):
        yield 3, memory, "worked before"

    pages: set[str] = set()
    for memory in (*fetched.episodes, *fetched.patterns, *fetched.workflows, *fetched.recent):
        if not memory.source_url or memory.source_url not in pages:
            pages.add(memory.source_url)
            yield 4, memory, "a topic"


def told_text(memory: Memory) -> str:
    """What a memory tells, with the reason or the fix that its record has and its text has not."""
    record = from_memory(memory)
    if not isinstance(record, Episode):
        return memory.text
    parts = [memory.text]
    for name, said in (("Reason", record.reason), ("Error", record.error), ("Fix", record.fix)):
        if said and said.lower() not in memory.text.lower():
            parts.append(f"{name}: {said}")
    return "\n".join(parts)


def words_of(text: str) -> set[str]:
    """The telling words of a text, stemmed."""
    return {term for term, _ in analyse_query(text[:READ_CHARACTERS], max_terms=400)}


def _failures(results: Sequence[Memory], now: datetime) -> list[tuple[Memory, str]]:
    """Calls that failed in the last day, newest first, each with the call that worked after it."""
    recent = [m for m in results if now - m.created_at <= ERROR_AGE]
    recent.sort(key=lambda memory: (memory.created_at, memory.id))
    found: list[tuple[Memory, str]] = []
    for at, memory in enumerate(recent):
        if memory.metadata.get("success") is not False:
            continue
        tool = memory.metadata.get("name")
        worked = (m for m in recent[at + 1 :] if m.metadata.get("success"))
        fix = next((m for m in worked if m.metadata.get("name") == tool), None)
        if fix is not None:
            found.append((fix, "worked after the call that failed"))
        found.append((memory, "call that failed in the last 24 hours"))
    return found[::-1]


def _name(path: str) -> str:
    return path.rpartition("/")[2]


# ----------------------------------------------------------------------------
# Assemble a context by tiers, offer a turn an order to fill by, or make either ready ahead.
#
# Whatever part cannot be fetched is left out and named; nothing here raises
# because memory failed (P30).


EPISODES = 300
MOST_RULES = 100
RULES = ("pattern", "workflow")
"""Kinds that tell how things are done."""
RESULTS = 50
RECENT = 150
FOUND = 20
CONTRADICTIONS = 20
LEVEL_CHARACTERS = 6_000
"""Shorter forms are made of so much of a text; a long one is cut before it is shortened."""
SOURCE_TOKENS = 45
"""About what the frame of one source costs inside the block."""
ASKED = ("task", "error")
"""What a user will say in these words; of the others only the words are telling."""
PREDICTED = "predicted memories"


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """What the tiers offer to a turn in place of what search chose.

    `hits` are the memories as they are offered, at the level their tier affords,
    and behind them what search found beside; `reasons` say what tier each is in
    and why.
    """

    chosen: Chosen
    hits: tuple[Hit, ...]
    reasons: Mapping[str, str]
    degradations: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Prefetched:
    """What `prefetch` made ready: the memories it expects, the questions answered ahead.

    `found` are memories that speak of what the signals name. `skipped` names
    what there was no time for.
    """

    predicted: tuple[str, ...] = ()
    questions: tuple[str, ...] = ()
    found: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    spent_ms: float = 0.0
    degradations: tuple[str, ...] = ()


class Tiers:
    """Assembles contexts by tiers from one memory, and makes ready what they will need.

    `expect` gives what a turn will recall for a text, or None when that fails.
    """

    def __init__(
        self,
        memory: Profiled,
        predictions: Predictions,
        *,
        count: Callable[[], TokenCounter],
        expect: Callable[[str, Scope, LoopConfig], Sequence[Hit] | None],
    ) -> None:
        self._memory = memory
        self._predictions = predictions
        self._count = count
        self._expect = expect
        self._fetched: TtlCache[TierMaterial] = TtlCache(memory.clock)
        self._levels: TtlCache[Levels] = TtlCache(memory.clock, capacity=2_000, ttl_seconds=86_400)
        self._lanes = Lanes("agentmem-prefetch")

    def assemble(
        self,
        scope: Scope,
        *,
        budget_tokens: int,
        signals: Sequence[Signal],
        activity: str,
        task: str,
        table: Mapping[str, Shares] | None,
        count: TokenCounter,
    ) -> TieredContext:
        """What is worth knowing now, within `budget_tokens`, headings included (P36)."""
        require_count(budget_tokens, "budget")
        require_text(task, "task")
        shares = shares_for(activity, SHARES if table is None else table)
        with span("search_memory", store_id=self._memory.telemetry_id, step="assemble") as told:
            given = self.signals_for(signals, scope)
            parts = Attempts()
            hits = parts.read("search", self._search, task, scope) if task.strip() else ()
            placed = self._place(scope, given, task, parts, hits=hits or ())
            context = assemble_tiers(
                {tier: self._items(placed[tier], tier, count) for tier in TIERS},
                budget_tokens,
                count=count,
                shares=shares,
            )
            told.found(len(context.ids))
        return replace(context, degradations=tuple(parts.problems))

    def offer(
        self,
        scope: Scope,
        *,
        budget_tokens: int,
        signals: Sequence[Signal],
        task: str,
        chosen: Chosen,
        hits: Sequence[Hit],
        profile: Sequence[Memory],
        config: LoopConfig,
        count: TokenCounter,
    ) -> Offer:
        """The tiers of a turn: what was `chosen` by search stands in the second one.

        What the profile or the conversation says is not said again. Without the tools to
        read a memory, nothing is pointed to.
        """
        parts = Attempts()
        by_id = {hit.memory.id: hit for hit in hits}
        said = {memory.id for memory in profile} | {
            hit.memory.id
            for hit, why in chosen.passed_over
            if why.startswith(("already", "a question", "a preference"))
        }
        found = tuple(by_id[candidate.id] for candidate in chosen.candidates)
        placed = self._place(scope, signals, task, parts, hits=found, without=said)
        memories = {memory.id: memory for tier in TIERS for memory, _ in placed[tier]}
        tiers = TIERS if config.memory_tools else TIERS[:3]
        items = {tier: self._items(placed[tier], tier, count) for tier in tiers}
        levels = {item.id: item.levels for tier in tiers for item in items[tier]}
        order = order_tiers(
            items,
            budget_tokens,
            count=lambda text: count(text) + SOURCE_TOKENS,
            shares=shares_for(config.recall.activity),
        )
        candidates: list[OfferedSource] = []
        pointers = list(chosen.pointers)
        offered: list[Hit] = []
        for at, fate in enumerate(order):
            memory = replace(
                memories[fate.id],
                text=levels[fate.id][ALL_LEVELS.index(fate.level or "full")],
                heading_path=(f"{NAMES[fate.tier]}: {fate.why}",),
            )
            score = 1.0 - at / 1_000
            known = by_id.pop(fate.id, Hit(memory=memory, score=score))
            offered.append(replace(known, memory=memory, score=score))
            if fate.tier == 4:
                pointers.append(Pointer(id=fate.id, summary=memory.text, tool="memory_read"))
                continue
            candidates.append(
                OfferedSource(
                    id=fate.id,
                    source=source_of(memory),
                    score=score,
                    merit=score,
                    type=memory_type(memory),
                    timestamp=memory.created_at,
                )
            )
        return Offer(
            chosen=Chosen(
                candidates=tuple(candidates),
                pointers=tuple(pointers),
                passed_over=tuple(one for one in chosen.passed_over if one[0].memory.id in by_id),
                related=len(candidates),
                merits={hit.memory.id: hit.score for hit in offered},
            ),
            hits=(*offered, *by_id.values()),
            reasons={
                one.id: f"tier {one.tier}, {NAMES[one.tier].lower()}: {one.why}; as {one.level}"
                for one in order
            },
            degradations=tuple(parts.problems),
        )

    def prefetch(
        self, scope: Scope, signals: Sequence[Signal], *, budget_ms: float, config: LoopConfig
    ) -> Prefetched:
        """Search for what the signals say, fetch what is predicted, and load what counts tokens.

        Tasks and errors are searched for as if they were asked: a turn that
        asks the same, with nothing stored in between, is served from the cache
        (P32). Any other turn finds the embedder and the indexes loaded. What takes longer
        than the budget is not stopped: it goes on in the background and is there for
        whoever asks next, so a small budget never makes a turn think that memory fails.
        """
        require_number(budget_ms, "budget_ms", low=0)
        until = time.perf_counter() + budget_ms / 1000
        parts = Attempts()
        given = self.signals_for(signals, scope)

        def in_time(call: Callable[[], T]) -> T | None:
            """What `call` gives, if there is time and it needs no more than there is."""
            left = until - time.perf_counter()
            with suppress(TimedOut):
                return self._lanes.run(call, left) if left > 0 else None
            return None

        fetched = parts.read(PREDICTED, in_time, partial(self.fetch, scope, given, parts))
        predicted = [guess.memory for guess in fetched.predicted] if fetched else []
        answered: list[str] = []
        found: dict[str, None] = {}
        skipped = [] if fetched is not None else [PREDICTED]
        for signal in given:
            question = question_of(signal)
            if not question:
                continue
            hits = parts.read("search", in_time, partial(self._expect, question, scope, config))
            if hits is None:
                skipped.append(signal.value)
                continue
            if signal.kind in ASKED:
                answered.append(signal.value)
            least, most = config.recall.similarity_threshold, config.recall.turn_top_k
            found |= dict.fromkeys([h.memory.id for h in hits if h.score >= least][:most])
        # The texts that what is predicted will have in the second tier.
        expected = [(memory, "") for memory in predicted]
        parts.read("counting", in_time, lambda: self._items(expected, 2, self._count()))
        return Prefetched(
            predicted=tuple(memory.id for memory in predicted),
            questions=tuple(answered),
            found=tuple(found),
            skipped=tuple(skipped),
            spent_ms=round(budget_ms + 1000 * (time.perf_counter() - until), 3),
            degradations=tuple(dict.fromkeys(parts.problems)),
        )

    def forget(self) -> None:
        """Keep nothing that may have been erased."""
        self._fetched.clear()
        self._levels.clear()

    def close(self) -> None:
        """Let go of the threads."""
        self._lanes.close()

    # -- fetching ------------------------------------------------------------------------

    def signals_for(self, signals: Sequence[Signal], scope: Scope) -> tuple[Signal, ...]:
        """What a caller says is going on, and what was noted before."""
        return tuple(dict.fromkeys((*signals, *self._predictions.current(scope))))

    def fetch(self, scope: Scope, signals: Sequence[Signal], parts: Attempts) -> TierMaterial:
        """Everything the tiers are made of but what a search finds; `parts` notes what failed."""
        store, now = self._memory.store, self._memory.clock.now()
        began = len(parts.problems)
        seq = parts.read("store", store.feed.seq)
        hour = now.replace(minute=0, second=0, microsecond=0)
        key = (scope, tuple(signals), seq, self._predictions.lessons, hour)
        # Links have no sequence of their own, so they are read every time.
        contradictions = parts.read("contradictions", self._contradictions, scope) or ()
        kept = self._fetched.get(key) if seq is not None else None
        if kept is not None:
            return replace(kept, contradictions=contradictions)

        def recent(
            name: str, *kinds: str, limit: int, since: datetime | None = None
        ) -> tuple[Memory, ...]:
            selection = Selection(reader=scope, kinds=kinds or None, since=since)
            return parts.read(name, store.recent, selection, limit=limit) or ()

        guesses = parts.read("prediction", self._predictions.predict, signals, scope, limit=GUESSES)
        fetched = TierMaterial(
            episodes=recent("episodes", "episode", limit=EPISODES),
            contradictions=contradictions,
            results=recent("tool results", "tool_result", limit=RESULTS, since=now - ERROR_AGE),
            predicted=tuple(guesses or ()),
            preferences=parts.read("preferences", self._memory.preferences.current, scope) or (),
            patterns=recent("patterns", "pattern", limit=MOST_RULES),
            workflows=recent("workflows", "workflow", limit=MOST_RULES),
            recent=tuple(filter(_is_topic, recent("recent memories", limit=RECENT))),
        )
        if len(parts.problems) == began:
            self._fetched.put(key, fetched)
        return fetched

    def _contradictions(self, scope: Scope) -> tuple[tuple[Memory, Memory], ...]:
        store = self._memory.store
        links = store.contradictions.all(scope, open_only=True)
        newest = sorted(links, key=lambda link: link.created_at, reverse=True)[:CONTRADICTIONS]
        pairs = [(link.first_id, link.second_id) for link in newest]
        ids = list(dict.fromkeys(id_ for pair in pairs for id_ in pair))
        known = {memory.id: memory for memory in store.get_many(scope, ids)}
        return tuple((known[a], known[b]) for a, b in pairs if a in known and b in known)

    def _search(self, task: str, scope: Scope) -> tuple[Hit, ...]:
        found = self._memory.search(task, top_k=FOUND, **scope.whose)
        # A search is generous with a small memory; conventions that no word of the task
        # names are background, where they have a tier of their own.
        named = [hit for hit in found if hit.lexical is not None or hit.memory.kind not in RULES]
        return tuple(h for h in named if h.memory.kind not in ("preference", "tool_result"))

    def _place(
        self,
        scope: Scope,
        signals: Sequence[Signal],
        task: str,
        parts: Attempts,
        *,
        hits: tuple[Hit, ...],
        without: Collection[str] = (),
    ) -> Mapping[Tier, Sequence[Placed]]:
        """What is fetched and found, in its tiers, `without` what is told already."""
        fetched = replace(self.fetch(scope, signals, parts), hits=hits)
        related = parts.read("relations", self._predictions.related, signals, scope) or {}
        near, now = chain(*related.values()), self._memory.clock.now()
        situation = Situation(signals, now=now, task=task, related=near)
        placed = parts.read(
            "sorting", sort_into_tiers, fetched, situation, reader=scope, without=without
        )
        return placed or dict.fromkeys(TIERS, ())

    def _items(self, placed: Sequence[Placed], tier: Tier, count: TokenCounter) -> list[TierItem]:
        """The memories with their four texts: those they have, the others made as far as needed."""
        items = []
        for memory, why in placed:
            key = (memory.id, memory.content_hash or memory.text, memory.summary, tier)
            levels = self._levels.get(key)
            if levels is None:
                levels = _make_levels(memory, tier, count)
                self._levels.put(key, levels)
            items.append(TierItem(memory.id, levels, why))
        return items


def _make_levels(memory: Memory, tier: Tier, count: TokenCounter) -> Levels:
    told = told_text(memory)
    text = told[:LEVEL_CHARACTERS]
    summary = short = text
    index = index_line(text, title=memory.title) or text[:INDEX_CHARACTERS]
    if tier < 4 and memory.kind not in RULES:  # steps and templates are short already
        if tier == 3:
            short = compress(text)
        else:
            made = make_levels(text, count, title=memory.title, kind=memory.kind)
            summary, short, index = made.summary, made.compressed, made.index
    return told, memory.summary or summary, memory.compressed or short, memory.index or index


def _is_topic(memory: Memory) -> bool:
    """Whether it is worth naming: no small result, no preference, no single message."""
    if memory.kind == "tool_result":
        return bool(memory.metadata.get("large"))
    return memory.kind not in ("preference", "message")


class Attempts:
    """Reads the parts of a context; one that fails is left out and named."""

    def __init__(self) -> None:
        self.problems: list[str] = []

    def read(self, name: str, call: Callable[P, T], *given: P.args, **named: P.kwargs) -> T | None:
        """What `call` gives for what is `given`, or nothing when it fails."""
        try:
            return call(*given, **named)
        except Exception as error:  # noqa: BLE001 - a part that fails is left out (P30)
            self.problems.append(f"{name} failed: {type(error).__name__}: {error}")
            return None
