"""Guess which memories the next answer will cite, from what is going on.

Each signal ("this file is open", "that error was seen") becomes features; each
feature remembers, with decay, which memories were cited while it was on. Every
sort of feature is an expert whose say is how often its own ten best guesses
came true, so a sort that tells nothing is soon ignored. How often and how
lately a memory was cited are two more experts.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import math
import re
import threading
import zlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, get_args

from agentmem.base.checks import require_choice, require_count, require_number, require_text
from agentmem.base.errors import InvalidInput
from agentmem.base.guards import TtlCache
from agentmem.base.types import LEARN_CITED, Memory, Scope, require_instant

if TYPE_CHECKING:
    from agentmem.search.parts import Parts


SignalKind = Literal["file", "branch", "error", "time", "collaborator", "tool", "task", "cited"]

HALF_LIFE_DAYS = 21.0
GUESSES = 10
KEPT_PER_FEATURE = 64
KEPT_FEATURES = 5_000
_DOUBT = 1.0
"""How many sightings a feature must outweigh before it is believed."""
_NUMBER = re.compile(r"0x[0-9a-fA-F]+|\d+")
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9]{2,}")
_DAY_PARTS = ("night", "morning", "afternoon", "evening")


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal:
    """One thing that is going on: a file opened, a branch checked out, an error seen …"""

    kind: SignalKind
    value: str

    def __post_init__(self) -> None:
        require_choice(self.kind, get_args(SignalKind), "kind")
        require_text(self.value, "value")


@dataclass(frozen=True, slots=True, kw_only=True)
class Predicted:
    """A memory that will probably be needed; `because` are the features that say so."""

    id: str
    confidence: float
    because: tuple[str, ...] = ()


def features_of(
    signals: Iterable[Signal], *, related: Mapping[str, Sequence[str]] | None = None
) -> tuple[str, ...]:
    """The features of signals, as `sort:value`.

    A file also stands for its folder and for the files in `related` (those it
    imports, those that import it); an error for its message without numbers; a
    moment for its part of the day and its weekday.
    """
    found: dict[str, None] = {}
    for signal in signals:
        found |= dict.fromkeys(_features(signal, related or {}))
    return tuple(found)


def _features(signal: Signal, related: Mapping[str, Sequence[str]]) -> list[str]:
    value = " ".join(signal.value.split())
    if not value:
        return []
    if signal.kind == "file":
        path = value.replace("\\", "/").removeprefix("./")
        folder = path.rpartition("/")[0]
        near = [f"near:{other}" for other in related.get(path, ())]
        return [f"file:{path}", *([f"folder:{folder}"] if folder else []), f"near:{path}", *near]
    if signal.kind == "error":
        line = _NUMBER.sub("#", value)[:200]
        name = line.partition(":")[0].rpartition(" ")[2]
        return [f"error:{line}", f"error sort:{name}"]
    if signal.kind == "branch":
        words = [word.lower() for word in _WORD.findall(value)]
        return [f"branch:{value}", *(f"branch word:{word}" for word in words)]
    if signal.kind == "time":
        return _time_features(value)
    if signal.kind == "task":
        words = [word.lower() for word in _WORD.findall(value)]
        return [f"task:{value.lower()[:200]}", *(f"task word:{word}" for word in words[:12])]
    return [f"{signal.kind}:{value}"]


def _time_features(value: str) -> list[str]:
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        raise InvalidInput(
            "value", value, "is not a moment", remedy="A time signal is ISO 8601."
        ) from None
    return [f"time:{_DAY_PARTS[moment.hour // 6]}", f"weekday:{moment.strftime('%a')}"]


class Predictor:
    """Learns from what was cited under which signals; deterministic, and small enough to store."""

    def __init__(self, *, half_life_days: float = HALF_LIFE_DAYS) -> None:
        self.half_life_days = require_number(half_life_days, "half_life_days", low=1e-6)
        self._seen: dict[str, dict[str, float]] = {}
        self._times: dict[str, float] = {}
        self._cited: dict[str, float] = {}
        self._last: dict[str, float] = {}
        self._skill: dict[str, tuple[float, float]] = {}
        self._start: datetime | None = None

    def observe(self, features: Sequence[str], cited: Sequence[str], *, now: datetime) -> None:
        """Learn that `cited` were used while `features` were on."""
        if not cited:
            return
        moment = self._days(now)
        weight = 2.0 ** (moment / self.half_life_days)
        if weight > 1e100:
            self._rescale(moment)
            moment, weight = 0.0, 1.0
        self._judge(features, set(cited), moment)
        for feature in features:
            known = self._seen.setdefault(feature, {})
            for memory_id in cited:
                known[memory_id] = known.get(memory_id, 0.0) + weight
            self._times[feature] = self._times.get(feature, 0.0) + weight
            if len(known) > 2 * KEPT_PER_FEATURE:
                self._seen[feature] = _best(known, KEPT_PER_FEATURE)
        for memory_id in cited:
            self._cited[memory_id] = self._cited.get(memory_id, 0.0) + weight
            self._last[memory_id] = moment
        if len(self._cited) > 2 * KEPT_FEATURES:
            self._cited = _best(self._cited, KEPT_FEATURES)
            self._last = {m: at for m, at in self._last.items() if m in self._cited}
        if len(self._times) > 2 * KEPT_FEATURES:
            kept = _best(self._times, KEPT_FEATURES)
            self._times = kept
            self._seen = {name: seen for name, seen in self._seen.items() if name in kept}

    def predict(
        self, features: Sequence[str], *, now: datetime, limit: int = GUESSES
    ) -> tuple[Predicted, ...]:
        """The memories most probably cited next, best first; equal ones by id."""
        require_count(limit, "limit")
        moment = self._days(now)
        doubt: dict[str, float] = {}
        because: dict[str, list[tuple[float, str]]] = {}
        for sort, said in self._experts(features, moment):
            trust = self._trust(sort)
            for name, chances in said:
                for memory_id, chance in chances.items():
                    share = trust * chance
                    doubt[memory_id] = doubt.get(memory_id, 1.0) * (1.0 - share)
                    because.setdefault(memory_id, []).append((share, name))
        ranked = sorted(doubt, key=lambda memory_id: (doubt[memory_id], memory_id))[:limit]
        return tuple(
            Predicted(
                id=memory_id,
                confidence=round(1.0 - doubt[memory_id], 6),
                because=tuple(
                    name for _, name in sorted(because[memory_id], key=lambda r: (-r[0], r[1]))[:3]
                ),
            )
            for memory_id in ranked
        )

    def forget(self, memory_ids: Iterable[str]) -> None:
        """Know these no more: they were erased."""
        for memory_id in set(memory_ids):
            self._cited.pop(memory_id, None)
            self._last.pop(memory_id, None)
            for known in self._seen.values():
                known.pop(memory_id, None)
            self._seen.pop(f"cited:{memory_id}", None)
            self._times.pop(f"cited:{memory_id}", None)

    def knows(self, memory_ids: Iterable[str]) -> bool:
        """Whether anything was learned about one of these."""
        known = set(memory_ids)
        return (
            not known.isdisjoint(self._cited)
            or any(f"cited:{memory_id}" in self._times for memory_id in known)
            or any(not known.isdisjoint(seen) for seen in self._seen.values())
        )

    # -- inside -----------------------------------------------------------------------

    def _experts(
        self, features: Sequence[str], moment: float
    ) -> Iterable[tuple[str, list[tuple[str, dict[str, float]]]]]:
        """Each sort of feature with what its features say, then how often and how lately."""
        by_sort: dict[str, list[tuple[str, dict[str, float]]]] = {}
        weight = 2.0 ** (moment / self.half_life_days)
        for feature in dict.fromkeys(features):
            known = self._seen.get(feature)
            if known:
                whole = self._times[feature] + _DOUBT * weight
                chances = {memory_id: min(1.0, seen / whole) for memory_id, seen in known.items()}
                by_sort.setdefault(feature.partition(":")[0], []).append((feature, chances))
        yield from sorted(by_sort.items())
        total = sum(self._cited.values())
        if total:
            often = {m: seen / total for m, seen in _best(self._cited, KEPT_PER_FEATURE).items()}
            yield "often", [("cited often", often)]
            last = _best(self._last, KEPT_PER_FEATURE)
            lately = {m: 1.0 / (2.0 + place) for place, m in enumerate(last)}
            yield "lately", [("cited lately", lately)]

    def _judge(self, features: Sequence[str], cited: set[str], moment: float) -> None:
        """Note for each sort whether its own best guesses were right."""
        for sort, said in self._experts(features, moment):
            best: dict[str, float] = {}
            for _, chances in said:
                for memory_id, chance in chances.items():
                    best[memory_id] = max(best.get(memory_id, 0.0), chance)
            guesses = set(_best(best, GUESSES))
            right, asked = self._skill.get(sort, (0.0, 0.0))
            fade = 0.99
            self._skill[sort] = (
                fade * right + len(guesses & cited) / len(cited),
                fade * asked + 1.0,
            )

    def _trust(self, sort: str) -> float:
        right, asked = self._skill.get(sort, (0.0, 0.0))
        return (right + 1.0) / (asked + 2.0)

    def _days(self, now: datetime) -> float:
        require_instant(now, "now")
        if self._start is None:
            self._start = now
        return (now - self._start).total_seconds() / 86_400

    def _rescale(self, moment: float) -> None:
        """Count from now, so that the weights of late days stay numbers."""
        factor = 2.0 ** (-min(moment / self.half_life_days, 1_000.0))
        for known in (*self._seen.values(), self._times, self._cited):
            for name in known:
                known[name] *= factor
        self._last = {memory_id: at - moment for memory_id, at in self._last.items()}
        if self._start is not None:
            self._start += timedelta(days=moment)

    # -- as JSON ------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Everything learned, as JSON values."""
        return {
            "half_life_days": self.half_life_days,
            "start": None if self._start is None else self._start.isoformat(),
            "seen": self._seen,
            "times": self._times,
            "cited": self._cited,
            "last": self._last,
            "skill": {name: list(pair) for name, pair in self._skill.items()},
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Predictor:
        """What `to_dict` gave; anything that does not fit is refused."""
        try:
            made = cls(half_life_days=float(data["half_life_days"]))
            made._start = None if data["start"] is None else datetime.fromisoformat(data["start"])
            made._seen = {
                str(name): {str(m): _finite(w) for m, w in known.items()}
                for name, known in data["seen"].items()
            }
            made._times = {str(name): _finite(w) for name, w in data["times"].items()}
            made._cited = {str(name): _finite(w) for name, w in data["cited"].items()}
            made._last = {str(name): _finite(w) for name, w in data["last"].items()}
            made._skill = {
                str(name): (_finite(pair[0]), _finite(pair[1]))
                for name, pair in data["skill"].items()
            }
            if not set(made._seen) <= set(made._times):
                raise ValueError("a feature without its count")
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            raise InvalidInput(
                "data", str(error), "is no predictor", remedy="Start a new one; it learns again."
            ) from error
        return made


def _best(weights: Mapping[str, float], limit: int) -> dict[str, float]:
    return dict(sorted(weights.items(), key=lambda item: (-item[1], item[0]))[:limit])


def _finite(value: Any) -> float:
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"{value!r} is not finite")
    return number


# ----------------------------------------------------------------------------
# Names shared.


def plain_path(path: str) -> str:
    """A path as files are compared: forward slashes, without a leading `./`."""
    return " ".join(path.split()).replace("\\", "/").removeprefix("./")


# ----------------------------------------------------------------------------
# Keep what is learned about which memory is needed when, and guess with it.
#
# One predictor for each user and project, in the store's settings. It holds ids
# and keyed digests of what was going on, never a word of it; what is erased is
# taken out of it before the store's files are cleaned (P26).


GUESSED = 3
"""So many times the wanted number are guessed: some may be gone, or not for this reader."""
SIGNAL_SECONDS = 7_200.0
MOST_SIGNALS = 12
REMEMBERED_CITED = 3
SAVE_EVERY = 10
SMALL_BYTES = 50_000
"""A predictor up to this size is saved after every turn, a larger one after several."""
LARGEST_BYTES = 64_000_000
_OPEN_SORTS = ("cited", "time", "weekday")
"""Features whose values are ids or parts of the day; all others are kept as digests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """A memory that will probably be needed, how sure that is, and what says so."""

    memory: Memory
    confidence: float
    because: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Lesson:
    """What was on and what was cited, once."""

    features: tuple[str, ...]
    cited: tuple[str, ...]
    at: datetime
    scope: Scope

    def without(self, ids: Collection[str]) -> _Lesson:
        """The same, as if these memories had never been."""
        return replace(
            self,
            features=tuple(f for f in self.features if f.removeprefix("cited:") not in ids),
            cited=tuple(memory_id for memory_id in self.cited if memory_id not in ids),
        )


class Predictions:
    """The predictors of one memory, read when they are needed."""

    def __init__(self, memory: Parts) -> None:
        self._memory = memory
        self._lock = threading.RLock()
        self._known: dict[str, tuple[str | None, Predictor]] = {}
        self._unsaved: dict[str, list[_Lesson]] = {}
        self._graph: tuple[str, dict[str, Any]] = ("", {})
        self.lessons = 0
        self._signals: TtlCache[tuple[Signal, ...]] = TtlCache(
            memory.clock, capacity=1_000, ttl_seconds=SIGNAL_SECONDS
        )
        self._cited: TtlCache[tuple[str, ...]] = TtlCache(
            memory.clock, capacity=1_000, ttl_seconds=SIGNAL_SECONDS
        )

    # -- signals -----------------------------------------------------------------------

    def note(self, signal: Signal, scope: Scope) -> None:
        """Remember that something is going on, for the turns of the next two hours."""
        whose = _whose(scope)
        with self._lock:
            known = [s for s in self.current(scope) if s != signal]
            if signal.kind in ("branch", "task", "time"):  # one at a time
                known = [s for s in known if s.kind != signal.kind]
            self._signals.put(whose, (*known, signal)[-MOST_SIGNALS:])

    def current(self, scope: Scope) -> tuple[Signal, ...]:
        """What was noted lately, oldest first."""
        return self._signals.get(_whose(scope)) or ()

    def features(self, signals: Iterable[Signal], scope: Scope) -> tuple[str, ...]:
        """The features of `signals`, with the time of day and what was cited last."""
        given = tuple(signals)
        if not any(signal.kind == "time" for signal in given):
            given = (*given, Signal(kind="time", value=self._memory.clock.now().isoformat()))
        cited = (Signal(kind="cited", value=m) for m in self._cited.get(_whose(scope)) or ())
        return features_of((*given, *cited), related=self.related(given, scope))

    # -- learning and guessing ---------------------------------------------------------

    def predict(self, signals: Iterable[Signal], scope: Scope, *, limit: int) -> list[Prediction]:
        """The memories most probably needed, that this reader may see, best first."""
        features = self.features(signals, scope)
        digests = self._digests(features)
        now = self._memory.clock.now()
        with self._lock:
            guesses = self._load(_name(scope)).predict(
                list(digests), now=now, limit=GUESSED * limit
            )
        seen = self._memory.store.get_many(scope, [guess.id for guess in guesses])
        memories = {memory.id: memory for memory in seen if memory.superseded_by is None}
        return [
            Prediction(
                memory=memories[guess.id],
                confidence=guess.confidence,
                because=tuple(digests.get(name, name) for name in guess.because),
            )
            for guess in guesses
            if guess.id in memories
        ][:limit]

    def remember(self, features: Sequence[str], cited: Sequence[str], scope: Scope) -> None:
        """Learn in the background that `cited` were used while `features` were on."""
        if not cited:
            return
        self._cited.put(_whose(scope), tuple(cited)[:REMEMBERED_CITED])
        payload = {
            "features": list(self._digests(features)),
            "cited": list(cited),
            "at": self._memory.clock.now().isoformat(),
        }
        self._memory.worker.submit(LEARN_CITED, payload, scope=scope)

    def learn(self, payload: Mapping[str, Any], scope: Scope) -> None:
        """Do what `remember` asked for; what was erased since is not learned."""
        now = datetime.fromisoformat(str(payload["at"]))
        name = _name(scope)
        with self._lock:
            there = {m.id for m in self._memory.store.get_many(scope, list(payload["cited"]))}
            cited = [memory_id for memory_id in payload["cited"] if memory_id in there]
            if not cited:
                return
            lesson = _Lesson(
                features=tuple(map(str, payload["features"])),
                cited=tuple(cited),
                at=now,
                scope=scope,
            )
            self._load(name).observe(lesson.features, lesson.cited, now=lesson.at)
            unsaved = self._unsaved.setdefault(name, [])
            unsaved.append(lesson)
            self.lessons += 1
            raw = self._known[name][0]
            if raw is None or len(raw) <= SMALL_BYTES or len(unsaved) >= SAVE_EVERY:
                self._save(name)
                if raw is None:
                    self._register(name, scope)

    def save(self) -> None:
        """Write what was learned and not written yet."""
        with self._lock:
            for name in [name for name, lessons in self._unsaved.items() if lessons]:
                self._save(name)

    # -- relations between files ---------------------------------------------------------

    def relate(self, graph: Mapping[str, Sequence[str]], scope: Scope) -> None:
        """Keep which files belong together; what was kept before is replaced."""
        self.set_kept("relations", pack(dict(graph)), scope)

    def related(self, signals: Iterable[Signal], scope: Scope) -> dict[str, tuple[str, ...]]:
        """For each file of `signals`, the files that import it or are imported by it."""
        files = [plain_path(signal.value) for signal in signals if signal.kind == "file"]
        if not files:
            return {}
        raw = self.get_kept("relations", scope) or ""
        known, graph = self._graph
        if raw != known:
            graph = unpack(raw) if raw else {}
            self._graph = (raw, graph)
        found: dict[str, tuple[str, ...]] = {}
        for path in files:
            near = graph.get(path)
            if near is None:  # an absolute path, or one that begins at another folder
                near = next(
                    (graph[known] for known in sorted(graph) if path.endswith(f"/{known}")), ()
                )
            found[path] = tuple(str(other) for other in near)
        return found

    # -- what else is kept for a user and project ----------------------------------------

    def get_kept(self, sort: str, scope: Scope) -> str | None:
        """A setting of this user and project; it goes when all of the user's is erased."""
        return self._memory.store.settings.get(_name(scope).replace("predictor", sort, 1))

    def set_kept(self, sort: str, value: str | None, scope: Scope) -> None:
        """Keep a setting of this user and project."""
        self._register(_name(scope), scope)
        self._memory.store.settings.set(_name(scope).replace("predictor", sort, 1), value)

    def replace_kept(self, sort: str, before: str | None, value: str, scope: Scope) -> bool:
        """Keep a setting unless it is no longer what it was `before`; whether it was kept."""
        self._register(_name(scope), scope)
        name = _name(scope).replace("predictor", sort, 1)
        kept = self._memory.store.settings.update(name, lambda raw: value if raw == before else raw)
        return kept == value

    def digest(self, text: str) -> str:
        """What stands for a text where the text itself must not be kept."""
        secret = self._memory.store.settings.secret()
        return hmac.new(secret, text.encode(), hashlib.sha256).hexdigest()[:16]

    # -- forgetting --------------------------------------------------------------------

    def forget(self, scope: Scope, gone: Sequence[Memory], *, everything: bool = False) -> None:
        """Take memories that are about to be erased out of every predictor that may know them.

        With `everything` nothing learned of this user is left.
        """
        if not everything:
            self._forget(gone)
            return
        with self._lock:
            for name, project in self._registered(scope.user_id).items():
                if scope.project_id is None or project == _digest(scope.project_id):
                    self._remove(name, scope.user_id)
        self._signals.clear()
        self._cited.clear()
        self._forget([memory for memory in gone if memory.visibility != "private"])

    def _forget(self, memories: Sequence[Memory]) -> None:
        ids = {memory.id for memory in memories}
        if not ids:
            return
        settings = self._memory.store.settings
        shared = any(memory.visibility != "private" for memory in memories)
        with self._lock:
            names: set[str] = set()
            if shared:
                for at in range(256):
                    names |= set(self._shard(f"{at:02x}"))
            for user in {memory.scope.user_id for memory in memories}:
                names |= set(self._registered(user))
            for name in sorted(names):
                if name not in self._known and settings.get(name) is None:
                    continue
                self._unsaved[name] = [one.without(ids) for one in self._unsaved.get(name, ())]
                if self._load(name).knows(ids):
                    self._save(name, forgotten=ids)
            self._cited.clear()

    def _remove(self, name: str, user_id: str | None) -> None:
        settings = self._memory.store.settings
        for sort in ("predictor", "relations", "runs"):
            settings.set(name.replace("predictor", sort, 1), None)
        self._known.pop(name, None)
        self._unsaved.pop(name, None)
        self._change_shard(user_id, lambda known: known.pop(name, None))

    # -- in the store --------------------------------------------------------------------

    def _load(self, name: str) -> Predictor:
        """The predictor as the store has it, and what was learned here since."""
        return self._current(name, self._memory.store.settings.get(name))

    def _current(self, name: str, raw: str | None) -> Predictor:
        known = self._known.get(name)
        if known is not None and known[0] == raw:
            return known[1]
        predictor = Predictor()
        if raw is not None:
            try:
                predictor = Predictor.from_dict(unpack(raw))
            except InvalidInput:
                predictor = Predictor()  # it learns again
        for lesson in self._unsaved.get(name, ()):
            predictor.observe(lesson.features, lesson.cited, now=lesson.at)
        self._known[name] = (raw, predictor)
        return predictor

    def _save(self, name: str, *, forgotten: Collection[str] = ()) -> None:
        """Write what was learned here to what others may have taught the predictor meanwhile."""

        def change(raw: str | None) -> str:
            unsaved = self._unsaved.get(name, [])
            gone = self._erased(unsaved)
            if gone:
                self._unsaved[name] = [lesson.without(gone) for lesson in unsaved]
                self._known.pop(name, None)
            predictor = self._current(name, raw)
            predictor.forget(forgotten)
            return pack(predictor.to_dict())

        raw = self._memory.store.settings.update(name, change)
        self._known[name] = (raw, self._known[name][1])
        self._unsaved[name] = []

    def _erased(self, lessons: Iterable[_Lesson]) -> set[str]:
        """The memories of lessons that are no longer there."""
        gone: set[str] = set()
        for lesson in lessons:
            there = self._memory.store.get_many(lesson.scope, lesson.cited)
            gone |= set(lesson.cited).difference(memory.id for memory in there)
        return gone

    def _register(self, name: str, scope: Scope) -> None:
        project = _digest(scope.project_id)
        if name not in self._shard(_digest(scope.user_id)[:2]):
            self._change_shard(scope.user_id, lambda known: known.setdefault(name, project))

    def _change_shard(
        self, user_id: str | None, change: Callable[[dict[str, str]], object]
    ) -> None:
        def changed(raw: str | None) -> str | None:
            known = _read_shard(raw)
            change(known)
            return json.dumps(known) if known else None

        self._memory.store.settings.update(f"predictors {_digest(user_id)[:2]}", changed)

    def _registered(self, user_id: str | None) -> dict[str, str]:
        digest = _digest(user_id)
        wanted = f"predictor {digest} "
        return {k: v for k, v in self._shard(digest[:2]).items() if k.startswith(wanted)}

    def _shard(self, part: str) -> dict[str, str]:
        return _read_shard(self._memory.store.settings.get(f"predictors {part}"))

    def _digests(self, features: Iterable[str]) -> dict[str, str]:
        """Features as they are kept, to what they mean."""
        secret = self._memory.store.settings.secret()
        found = {}
        for feature in features:
            sort, _, value = feature.partition(":")
            if sort in _OPEN_SORTS:
                found[feature] = feature
                continue
            code = hmac.new(secret, f"{sort}\0{value}".encode(), hashlib.sha256).hexdigest()
            found[f"{sort}:{code[:16]}"] = feature
        return found


def as_guess(prediction: Prediction) -> Predicted:
    """A prediction as the core knows it."""
    return Predicted(
        id=prediction.memory.id, confidence=prediction.confidence, because=prediction.because
    )


def read_signals(signals: object) -> tuple[Signal, ...]:
    """Signals as callers write them: `Signal`s, (kind, value) pairs, or one of them alone."""
    if isinstance(signals, Signal):
        return (signals,)
    if isinstance(signals, str | bytes | Mapping) or not isinstance(signals, Iterable):
        raise InvalidInput(
            "signals", signals, "is no list of signals",
            remedy='Pass Signal(kind="file", value="…") or ("file", "…").',
        )  # fmt: skip
    read = []
    for signal in signals:
        if isinstance(signal, Signal):
            read.append(signal)
        elif isinstance(signal, Sequence) and not isinstance(signal, str) and len(signal) == 2:
            read.append(Signal(kind=signal[0], value=signal[1]))
        else:
            raise InvalidInput(
                "signals", signal, "is no signal", remedy='Pass Signal(kind="file", value="…").'
            )
    return tuple(replace(s, value=s.value[:2_000]) if len(s.value) > 2_000 else s for s in read)


def pack(value: Mapping[str, Any]) -> str:
    """JSON, compressed, as text."""
    data = json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    return base64.b85encode(zlib.compress(data.encode(), 6)).decode("ascii")


def unpack(raw: str) -> dict[str, Any]:
    """What `pack` wrote; `InvalidInput` for anything else."""
    try:
        reader = zlib.decompressobj()
        data = reader.decompress(base64.b85decode(raw), LARGEST_BYTES)
        if reader.unconsumed_tail or not reader.eof:
            raise ValueError("too large or cut short")
        found = json.loads(data)
        if not isinstance(found, dict):
            raise ValueError("not an object")
    except (ValueError, zlib.error, RecursionError) as error:
        raise InvalidInput("setting", raw[:20], f"cannot be read ({error})") from error
    return found


def _read_shard(raw: str | None) -> dict[str, str]:
    try:
        found = json.loads(raw) if raw else {}
    except ValueError:
        found = {}
    return {str(k): str(v) for k, v in found.items()} if isinstance(found, dict) else {}


def _whose(scope: Scope) -> tuple[str | None, str | None]:
    """Runs and agents come and go; what a user needs in a project stays."""
    return scope.user_id, scope.project_id


def _name(scope: Scope) -> str:
    return f"predictor {_digest(scope.user_id)} {_digest(scope.project_id)}"


def _digest(name: str | None) -> str:
    written = "-" if name is None else f"+{name}"
    return hashlib.blake2b(written.encode(), digest_size=8).hexdigest()
