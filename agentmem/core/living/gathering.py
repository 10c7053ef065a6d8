"""Sort what a memory holds into the four tiers, for what is going on now.

The shell fetches (`Fetched`); here is decided which of it is critical, relevant,
background, or only named. Nothing is dropped for its size: the budget does that.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from agentmem.core.checks import require_text
from agentmem.core.lexical import analyse_query
from agentmem.core.living.prediction import Predicted, Signal
from agentmem.core.living.records import Episode, Workflow, from_memory
from agentmem.core.living.tiers import Tier
from agentmem.core.patterns import compile_late
from agentmem.core.values import dataclass
from agentmem.types import Hit, Memory, Scope, require_instant

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
class Situation:
    """What is being worked on: the files open, the task in words, the errors seen, who is there.

    `related` are files that import the open ones or are imported by them.
    """

    now: datetime
    files: tuple[str, ...] = ()
    related: tuple[str, ...] = ()
    task: str = ""
    errors: tuple[str, ...] = ()
    people: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        require_instant(self.now, "now")
        for text in (*self.files, *self.related, self.task, *self.errors, *self.people):
            require_text(text, "situation")

    @property
    def told(self) -> bool:
        """Whether anything is known of what is being worked on."""
        return bool(self.files or self.task.strip() or self.errors)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """What was fetched for a reader, each kind newest or best first.

    `contradictions` are open ones, both sides; `results` are tool results of
    the last day; `recent` is anything, to be named as topics.
    """

    episodes: tuple[Memory, ...] = ()
    contradictions: tuple[tuple[Memory, Memory], ...] = ()
    results: tuple[Memory, ...] = ()
    predicted: tuple[tuple[Memory, Predicted], ...] = ()
    hits: tuple[Hit, ...] = ()
    preferences: tuple[Memory, ...] = ()
    patterns: tuple[Memory, ...] = ()
    workflows: tuple[Memory, ...] = ()
    recent: tuple[Memory, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """A memory in its tier, and why it is there."""

    memory: Memory
    why: str


def read_situation(
    signals: Iterable[Signal], *, now: datetime, task: str = "", related: Sequence[str] = ()
) -> Situation:
    """What signals and a task in words say is going on."""
    said: dict[str, list[str]] = {}
    for signal in signals:
        if signal.value.strip():
            said.setdefault(signal.kind, []).append(signal.value)
    words = [task, *said.get("task", ()), *said.get("branch", ())]
    return Situation(
        now=now,
        files=tuple(dict.fromkeys(map(plain_path, said.get("file", ())))),
        related=tuple(dict.fromkeys(map(plain_path, related))),
        task=" ".join(dict.fromkeys(filter(None, words)))[:READ_CHARACTERS],
        errors=tuple(said.get("error", ())),
        people=tuple(said.get("collaborator", ())),
    )


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
    fetched: Fetched, situation: Situation, *, reader: Scope
) -> dict[Tier, tuple[Placed, ...]]:
    """Each memory once, in the most urgent tier that wants it, the most telling first."""
    placing = _Placing()
    decisions, errors, history = _by_sort(fetched.episodes)
    about = _About(situation)
    active = [(memory, why) for memory, record in decisions if (why := about.decision(record))]
    for memory, why in active:
        placing.put(1, memory, f"decision {why}")
    for first, second in fetched.contradictions:
        placing.put(1, first, "contradicted, not settled: one of two")
        placing.put(1, second, "contradicted, not settled: the other of two")
    for memory, record in errors:
        if situation.now - memory.created_at <= ERROR_AGE:
            fixed = "and its fix" if record.fix else "no fix known"
            placing.put(1, memory, f"error of the last 24 hours, {fixed}")
    for memory, why in _failures(fetched.results, situation.now):
        placing.put(1, memory, why)

    for hit in fetched.hits:
        placing.put(2, hit.memory, f"found by what is asked ({hit.score:.2f})")
    for memory, guess in fetched.predicted:
        because = f": {guess.because[0].partition(':')[0]}" if guess.because else ""
        placing.put(2, memory, f"needed before in this situation ({guess.confidence:.2f}{because})")
    for memory, record in errors:
        if about.error(record):
            placing.put(2, memory, "the same error before")
    for memory, record in decisions:
        if about.touches(record):
            placing.put(2, memory, "related decision")
    if not situation.told:
        for memory, _ in decisions[:NEW_DECISIONS]:
            placing.put(2, memory, "recent decision")
    for memory in _others_first(fetched.preferences, situation, reader):
        mine = memory.visibility == "private" and memory.scope.user_id == reader.user_id
        placing.put(2, memory, "preference" if mine else _preferred_by(memory))

    for memory in about.nearest(fetched.patterns):
        placing.put(3, memory, "convention")
    for memory in history:
        placing.put(3, memory, "history")
    for memory in about.nearest(fetched.workflows):
        placing.put(3, memory, "worked before")

    pages: set[str] = set()
    for memory in (*fetched.episodes, *fetched.patterns, *fetched.workflows, *fetched.recent):
        if memory.source_url:
            if memory.source_url in pages:
                continue
            pages.add(memory.source_url)
        placing.put(4, memory, "a topic")
    return {tier: tuple(placed) for tier, placed in placing.tiers.items()}


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


def plain_path(path: str) -> str:
    """A path as files are compared: forward slashes, without a leading `./`."""
    return " ".join(path.split()).replace("\\", "/").removeprefix("./")


class _Placing:
    def __init__(self) -> None:
        self.tiers: dict[Tier, list[Placed]] = {1: [], 2: [], 3: [], 4: []}
        self._there: set[str] = set()

    def put(self, tier: Tier, memory: Memory, why: str) -> None:
        if memory.id in self._there or len(self.tiers[tier]) >= MOST[tier]:
            return
        self._there.add(memory.id)
        self.tiers[tier].append(Placed(memory=memory, why=why))


class _About:
    """Whether a record is about the files, the task or the errors of a situation."""

    def __init__(self, situation: Situation) -> None:
        self._situation = situation
        self._task = words_of(situation.task)
        self._errors = [words_of(error) for error in situation.errors]
        self._names = [_name(path) for path in situation.files]
        self._folders = {path.rpartition("/")[0] for path in situation.files} - {""}
        self._near = {_name(path).lower() for path in situation.related}
        self._words: dict[str, set[str]] = {}

    def decision(self, record: Episode) -> str:
        """Why a decision holds for what is being done now; "" when it does not."""
        named = _files(record)
        text = _told(record)
        for path, name in zip(self._situation.files, self._names, strict=True):
            if any(_same_file(path, other) for other in named) or mentions(text, name):
                return f"for {name}"
        shared = self._task & self._words_of(text)
        enough = min(SHARED_WORDS, len(self._task)) if self._task else 0
        if (
            enough
            and len(shared) >= enough
            and len(shared) >= SHARED_PART * min(4, len(self._task))
        ):
            return "for this task"
        return ""

    def touches(self, record: Episode) -> bool:
        """Whether a decision is near: a word of the task, a file beside an open one."""
        named = _files(record)
        if any(path.rpartition("/")[0] in self._folders for path in named):
            return True
        if any(_name(path).lower() in self._near for path in named):
            return True
        return bool(self._task & self._words_of(_told(record)))

    def _words_of(self, text: str) -> set[str]:
        if not self._task:
            return set()
        if text not in self._words:
            self._words[text] = words_of(text)
        return self._words[text]

    def error(self, record: Episode) -> bool:
        told = words_of(f"{record.title} {record.error}")
        return any(
            seen and len(seen & told) >= max(1, round(SHARED_PART * len(seen)))
            for seen in self._errors
        )

    def nearest(self, memories: Sequence[Memory]) -> list[Memory]:
        """Those that share the most words with what is going on first, then as they came."""
        wanted = self._task.union(*self._errors, *(words_of(name) for name in self._names))
        if not wanted:
            return list(memories)
        shared = {memory.id: len(wanted & words_of(_trigger(memory))) for memory in memories}
        return sorted(memories, key=lambda memory: -shared[memory.id])


def words_of(text: str) -> set[str]:
    """The telling words of a text, stemmed."""
    return {term for term, _ in analyse_query(text[:READ_CHARACTERS], max_terms=400)}


def mentions(text: str, name: str) -> bool:
    """Whether `text` names a file, as a whole word."""
    if len(name) < 3:
        return False
    low, wanted = text.lower(), name.lower()
    at = low.find(wanted)
    while at >= 0:
        before = low[at - 1] if at else " "
        after = low[at + len(wanted)] if at + len(wanted) < len(low) else " "
        if not (before.isalnum() or before in "_-") and not (after.isalnum() or after in "_-"):
            return True
        at = low.find(wanted, at + 1)
    return False


def _by_sort(
    episodes: Sequence[Memory],
) -> tuple[list[tuple[Memory, Episode]], list[tuple[Memory, Episode]], list[Memory]]:
    """Decisions and errors with their records, and what else happened."""
    decisions: list[tuple[Memory, Episode]] = []
    errors: list[tuple[Memory, Episode]] = []
    rest: list[Memory] = []
    for memory in episodes:
        record = from_memory(memory)
        if isinstance(record, Episode) and record.sort == "decision":
            decisions.append((memory, record))
        elif isinstance(record, Episode) and record.sort == "error":
            errors.append((memory, record))
        else:
            rest.append(memory)
    return decisions, errors, rest


def _failures(results: Sequence[Memory], now: datetime) -> list[tuple[Memory, str]]:
    """Calls that failed in the last day, newest first, each with the call that worked after it."""
    recent = [m for m in results if now - m.created_at <= ERROR_AGE]
    recent.sort(key=lambda memory: (memory.created_at, memory.id))
    found: list[tuple[Memory, str]] = []
    for at, memory in enumerate(recent):
        if memory.metadata.get("success") is not False:
            continue
        tool = memory.metadata.get("name")
        after = recent[at + 1 :]
        fix = next(
            (m for m in after if m.metadata.get("name") == tool and m.metadata.get("success")),
            None,
        )
        if fix is not None:
            found.append((fix, "worked after the call that failed"))
        found.append((memory, "call that failed in the last 24 hours"))
    return found[::-1]


def _others_first(
    preferences: Sequence[Memory], situation: Situation, reader: Scope
) -> list[Memory]:
    """Preferences of the people who are here, then of others, then the reader's own."""
    here = set(situation.people)

    def place(memory: Memory) -> int:
        owner = memory.scope.user_id
        if owner in here or memory.speaker in here:
            return 0
        return 2 if owner == reader.user_id else 1

    return sorted(preferences, key=place)


def _preferred_by(memory: Memory) -> str:
    return f"preference of {memory.speaker or memory.scope.user_id or 'a collaborator'}"


def _trigger(memory: Memory) -> str:
    record = from_memory(memory)
    if isinstance(record, Workflow):
        return f"{record.trigger} {' '.join(record.steps)}"
    return memory.text


def _told(record: Episode) -> str:
    return f"{record.title}\n{record.narrative}\n{record.reason}"[:READ_CHARACTERS]


def _files(record: Episode) -> list[str]:
    return [plain_path(a.reference) for a in record.artifacts if a.kind == "file"]


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _same_file(one: str, other: str) -> bool:
    """Whether two paths mean the same file as far as one can tell: one ends with the other."""
    return one == other or one.endswith(f"/{other}") or other.endswith(f"/{one}")
