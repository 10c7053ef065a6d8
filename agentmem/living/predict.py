"""Guess which memories the next answer will cite, from what is going on.

Each signal ("this file is open", "that error was seen") becomes features; each
feature counts, with decay, which memories were cited while it was on. A memory
that names an open file needs no past to be guessed.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
import threading
import zlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar, get_args

from agentmem.base.checks import (
    require_choice,
    require_count,
    require_items,
    require_number,
    require_text,
)
from agentmem.base.errors import InvalidInput
from agentmem.base.filters import Selection
from agentmem.base.guards import TtlCache
from agentmem.base.types import EMPTY, LEARN_CITED, Memory, Scope
from agentmem.text.terms import mentions

if TYPE_CHECKING:
    from agentmem.search.parts import Parts


V = TypeVar("V")
SignalKind = Literal["file", "branch", "error", "time", "collaborator", "tool", "task", "cited"]

GUESSES = 10
KEPT_PER_FEATURE = 32
KEPT_FEATURES = 2_000
FADE = 0.97
"""What a feature has seen counts so much less each time it is seen again."""
DOUBT = 1.0
"""How many sightings a feature must outweigh before it is believed."""
ALWAYS = "always"
"""The feature that is on in every situation: what is cited often is cited again."""
NAMED = 0.5
"""How sure it is that a memory which names an open file is needed."""
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


class Predicted(NamedTuple):
    """A memory that will probably be needed; `because` are the features that say so."""

    id: str
    confidence: float
    because: tuple[str, ...] = ()


def features_of(
    signals: Iterable[Signal], *, related: Mapping[str, Sequence[str]] = EMPTY
) -> tuple[str, ...]:
    """The features of signals, as `sort:value`.

    A file also stands for its folder and for the files in `related` (those it
    imports, those that import it); an error for its message without numbers; a
    moment for its part of the day and its weekday.
    """
    found: dict[str, None] = {}
    for signal in signals:
        found |= dict.fromkeys(_features(signal, related))
    return tuple(found)


def _features(signal: Signal, related: Mapping[str, Sequence[str]]) -> list[str]:
    value = " ".join(signal.value.split())
    words = [word.lower() for word in _WORD.findall(value)]
    match signal.kind if value else "":
        case "":
            return []
        case "file":
            path = plain_path(value)
            folder = path.rpartition("/")[0]
            near = [f"near:{other}" for other in (path, *related.get(path, ()))]
            return [f"file:{path}", *([f"folder:{folder}"] if folder else []), *near]
        case "error":
            line = _NUMBER.sub("#", value)[:200]
            name = line.partition(":")[0].rpartition(" ")[2]
            return [f"error:{line}", f"error sort:{name}"]
        case "branch":
            return [f"branch:{value}", *(f"branch word:{word}" for word in words)]
        case "task":
            return [f"task:{value.lower()[:200]}", *(f"task word:{word}" for word in words[:12])]
        case "time":
            try:
                moment = datetime.fromisoformat(value)
            except ValueError:
                remedy = "A time signal is ISO 8601."
                raise InvalidInput("value", value, "is not a moment", remedy=remedy) from None
            return [f"time:{_DAY_PARTS[moment.hour // 6]}", f"weekday:{moment.strftime('%a')}"]
        case kind:
            return [f"{kind}:{value}"]


class Predictor:
    """Counts what was cited under which features; deterministic, and small enough to store."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[float, dict[str, float]]] = {}
        """By feature, the one seen last at the end: how often it was on, and what was cited."""

    def observe(self, features: Iterable[str], cited: Collection[str]) -> None:
        """Learn that `cited` were used while `features` were on."""
        if not cited:
            return
        for feature in dict.fromkeys((*features, ALWAYS)):
            times, before = self._seen.pop(feature, (0.0, {}))
            known = {memory_id: FADE * seen for memory_id, seen in before.items()}
            for memory_id in cited:
                known[memory_id] = known.get(memory_id, 0.0) + 1.0
            if len(known) > 2 * KEPT_PER_FEATURE:
                kept = sorted(known, key=lambda one: (-known[one], one))[:KEPT_PER_FEATURE]
                known = {memory_id: known[memory_id] for memory_id in kept}
            self._seen[feature] = (FADE * times + 1.0, known)
        if len(self._seen) > 2 * KEPT_FEATURES:
            self._seen = dict(list(self._seen.items())[-KEPT_FEATURES:])

    def predict(
        self, features: Iterable[str], *, limit: int = GUESSES, named: Mapping[str, str] = EMPTY
    ) -> tuple[Predicted, ...]:
        """The memories most probably cited next, best first; equal ones by id.

        `named` are memories that name what is open, each with the name.
        """
        require_count(limit, "limit")
        doubt: dict[str, float] = {}
        because: dict[str, list[tuple[float, str]]] = {}
        said = [
            (memory_id, min(1.0, seen / (times + DOUBT)), feature)
            for feature in dict.fromkeys((*features, ALWAYS))
            for times, known in [self._seen.get(feature, (0.0, {}))]
            for memory_id, seen in known.items()
        ]
        said += [(memory_id, NAMED, f"names {name}") for memory_id, name in named.items()]
        for memory_id, chance, reason in said:
            doubt[memory_id] = doubt.get(memory_id, 1.0) * (1.0 - chance)
            because.setdefault(memory_id, []).append((-chance, reason))
        ranked = sorted(doubt, key=lambda memory_id: (doubt[memory_id], memory_id))[:limit]
        reasons = {one: tuple(reason for _, reason in sorted(because[one])[:3]) for one in ranked}
        return tuple(Predicted(one, round(1.0 - doubt[one], 6), reasons[one]) for one in ranked)

    def forget(self, memory_ids: Iterable[str]) -> bool:
        """Know these no more: they were erased. Whether anything was known of them."""
        gone = set(memory_ids)
        before = len(self._seen)
        self._seen = {
            feature: seen
            for feature, seen in self._seen.items()
            if feature.removeprefix("cited:") not in gone
        }
        found = len(self._seen) < before
        for _, known in self._seen.values():
            for memory_id in gone & known.keys():
                del known[memory_id]
                found = True
        return found

    def to_dict(self) -> dict[str, Any]:
        """Everything learned, as JSON values."""
        return {"seen": [[name, times, known] for name, (times, known) in self._seen.items()]}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Predictor:
        """What `to_dict` gave, now or in an earlier version; anything else is refused."""
        made = cls()
        try:
            rows = data["seen"]
            if isinstance(rows, Mapping):  # before: weights that grew with the days
                rows = [
                    (name, 1.0, {m: w / data["times"][name] for m, w in known.items()})
                    for name, known in rows.items()
                ]
            for name, times, known in rows:
                counts = {str(m): require_number(w, "count", low=0) for m, w in known.items()}
                made._seen[str(name)] = (require_number(times, "times", low=0), counts)
        except (KeyError, TypeError, ValueError, AttributeError, ZeroDivisionError) as error:
            raise InvalidInput(
                "data", str(error), "is no predictor", remedy="Start a new one; it learns again."
            ) from error
        return made


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
LARGEST_BYTES = 64_000_000
_OPEN_SORTS = ("cited", "time", "weekday")
"""Features whose values are ids or parts of the day; all others are kept as digests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """A memory that will probably be needed, how sure that is, and what says so."""

    memory: Memory
    confidence: float
    because: tuple[str, ...] = ()


class Predictions:
    """The predictors of one memory, read when they are needed."""

    def __init__(self, memory: Parts) -> None:
        self._memory = memory
        self._lock = threading.RLock()
        self._known: dict[str, tuple[str | None, Any]] = {}
        self.lessons = 0
        lately = partial(TtlCache, memory.clock, capacity=1_000, ttl_seconds=SIGNAL_SECONDS)
        self._signals: TtlCache[tuple[Signal, ...]] = lately()
        self._cited: TtlCache[tuple[str, ...]] = lately()

    # -- signals -----------------------------------------------------------------------

    def note(self, signal: Signal, scope: Scope) -> None:
        """Remember that something is going on, for the turns of the next two hours."""
        replaced = {signal.kind} & {"branch", "task", "time"}  # one at a time
        with self._lock:
            known = [s for s in self.current(scope) if s != signal and s.kind not in replaced]
            self._signals.put(_whose(scope), (*known, signal)[-MOST_SIGNALS:])

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
        given = tuple(signals)
        digests = self._digests(self.features(given, scope))
        named = self._naming(given, scope)
        predictor = self._read(_name(scope), lambda raw: _parse(raw) or Predictor())
        guesses = predictor.predict(digests, limit=GUESSED * limit, named=named)
        seen = self._memory.store.get_many(scope, [guess.id for guess in guesses])
        memories = {memory.id: memory for memory in seen if memory.superseded_by is None}
        found = [guess for guess in guesses if guess.id in memories][:limit]
        reasons = [tuple(digests.get(name, name) for name in guess.because) for guess in found]
        return [
            Prediction(memory=memories[guess.id], confidence=guess.confidence, because=because)
            for guess, because in zip(found, reasons, strict=True)
        ]

    def _naming(self, signals: Iterable[Signal], scope: Scope) -> dict[str, str]:
        """The memories that name a file of `signals`, such as a decision about it."""
        from agentmem.search.retriever import Request, Retriever

        retriever = Retriever(self._memory.store, self._memory.index, self._memory.embedding)
        names = [plain_path(s.value).rpartition("/")[2] for s in signals if s.kind == "file"]
        found: dict[str, str] = {}
        for name in filter(None, names):
            request = Request(query=name, selection=Selection(reader=scope), mode="fulltext")
            hits = [hit for hit in retriever.search(request) if mentions(hit.memory.text, name)]
            found |= {hit.memory.id: name for hit in hits}
        return found

    def remember(self, features: Sequence[str], cited: Sequence[str], scope: Scope) -> None:
        """Learn in the background that `cited` were used while `features` were on."""
        if not cited:
            return
        self._cited.put(_whose(scope), tuple(cited)[:REMEMBERED_CITED])
        payload = {"features": list(self._digests(features)), "cited": list(cited)}
        self._memory.runtime.worker.submit(LEARN_CITED, payload, scope=scope)

    def learn(self, payload: Mapping[str, Any], scope: Scope) -> None:
        """Do what `remember` asked for; what was erased since is not learned."""
        name = _name(scope)
        features, cited = list(payload["features"]), list(payload["cited"])
        told = [f.removeprefix("cited:") for f in features if f.startswith("cited:")]

        def change(raw: str | None) -> str | None:
            there = {m.id for m in self._memory.store.get_many(scope, [*cited, *told])}
            still = [memory_id for memory_id in cited if memory_id in there]
            if not still:
                return raw
            predictor = _parse(raw) or Predictor()
            gone = {f"cited:{memory_id}" for memory_id in told if memory_id not in there}
            predictor.observe([f for f in features if f not in gone], still)
            return pack(predictor.to_dict())

        with self._lock:
            self._register(scope)
            self._memory.store.settings.update(name, change)
            self.lessons += 1

    # -- relations between files ---------------------------------------------------------

    def relate(self, graph: Mapping[str, Sequence[str]], scope: Scope) -> None:
        """Keep which files belong together; what was kept before is replaced."""
        self.replace_kept("relations", self.get_kept("relations", scope), pack(graph), scope)

    def related(self, signals: Iterable[Signal], scope: Scope) -> dict[str, tuple[str, ...]]:
        """For each file of `signals`, the files that import it or are imported by it."""
        files = [plain_path(signal.value) for signal in signals if signal.kind == "file"]
        if not files:
            return {}
        graph = self._read(_name(scope, "relations"), lambda raw: unpack(raw) if raw else {})
        found: dict[str, tuple[str, ...]] = {}
        for path in files:  # it may be absolute, or begin at another folder
            known = (one for one in sorted(graph) if path.endswith(f"/{one}"))
            near = graph.get(path if path in graph else next(known, ""), ())
            found[path] = tuple(str(other) for other in near)
        return found

    # -- what else is kept for a user and project ----------------------------------------

    def get_kept(self, sort: str, scope: Scope) -> str | None:
        """A setting of this user and project; it goes when all of the user's is erased."""
        return self._memory.store.settings.get(_name(scope, sort))

    def replace_kept(self, sort: str, before: str | None, value: str, scope: Scope) -> bool:
        """Keep a setting unless it is no longer what it was `before`; whether it was kept."""
        self._register(scope)
        update = self._memory.store.settings.update
        return value == update(_name(scope, sort), lambda raw: value if raw == before else raw)

    def digest(self, text: str) -> str:
        """What stands for a text where the text itself must not be kept."""
        secret = self._memory.store.settings.secret()
        return hmac.new(secret, text.encode(), hashlib.sha256).hexdigest()[:16]

    # -- forgetting --------------------------------------------------------------------

    def forget(self, scope: Scope, gone: Sequence[Memory], *, everything: bool = False) -> None:
        """Take memories that are about to be erased out of every predictor that may know them.

        With `everything` nothing learned of this user is left.
        """
        settings = self._memory.store.settings
        with self._lock:
            if everything:
                registered = self._registered(_digest(scope.user_id))
                named = None if scope.project_id is None else _digest(scope.project_id)
                mine = [name for name, project in registered.items() if named in (None, project)]
                for name in mine:
                    for sort in ("predictor", "relations", "runs"):
                        settings.set(name.replace("predictor", sort, 1), None)
                settings.update(_shard(scope.user_id), lambda raw: _unlisted(raw, mine))
                self._signals.clear()
                gone = [memory for memory in gone if memory.visibility != "private"]
            users = {_digest(memory.scope.user_id) for memory in gone}
            if any(memory.visibility != "private" for memory in gone):
                users = {f"{at:02x}" for at in range(256)}  # everybody
            ids = {memory.id for memory in gone}
            for name in sorted(name for user in users for name in self._registered(user)):
                settings.update(name, lambda raw: _without(raw, ids))
            self._known.clear()
            self._cited.clear()

    # -- in the store --------------------------------------------------------------------

    def _read(self, name: str, parse: Callable[[str | None], V]) -> V:
        """What `parse` makes of a setting, made anew when it has changed."""
        with self._lock:
            raw = self._memory.store.settings.get(name)
            known = self._known.get(name)
            if known is None or known[0] != raw:
                known = self._known[name] = (raw, parse(raw))
        made: V = known[1]
        return made

    def _register(self, scope: Scope) -> None:
        """Note that there is something of this user and project, to find it when it is erased."""
        name, project = _name(scope), _digest(scope.project_id)
        if name not in self._registered(_digest(scope.user_id)):
            self._memory.store.settings.update(
                _shard(scope.user_id), lambda raw: json.dumps({**_listed(raw), name: project})
            )

    def _registered(self, user: str) -> dict[str, str]:
        """The predictors of users whose digest begins so, two letters or more: their projects."""
        found = _listed(self._memory.store.settings.get(f"predictors {user[:2]}"))
        return {k: v for k, v in found.items() if k.startswith(f"predictor {user}")}

    def _digests(self, features: Iterable[str]) -> dict[str, str]:
        """Features as they are kept, to what they mean."""
        found = {}
        for feature in features:
            sort, _, value = feature.partition(":")
            kept = value if sort in _OPEN_SORTS else self.digest(f"{sort}\0{value}")
            found[f"{sort}:{kept}"] = feature
        return found


def read_signals(signals: object) -> tuple[Signal, ...]:
    """Signals as callers write them: `Signal`s, (kind, value) pairs, or one of them alone."""
    remedy = 'Pass Signal(kind="file", value="…") or ("file", "…").'
    if isinstance(signals, Signal):
        signals = [signals]
    read = []
    for one in require_items(signals, "signals", "signals", remedy=remedy):
        if isinstance(one, Sequence) and not isinstance(one, str) and len(one) == 2:
            read.append(Signal(kind=one[0], value=one[1]))
        elif isinstance(one, Signal):
            read.append(one)
        else:
            raise InvalidInput("signals", one, "is no signal", remedy=remedy)
    return tuple(replace(signal, value=signal.value[:2_000]) for signal in read)


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


def _parse(raw: str | None) -> Predictor | None:
    """A predictor as it is kept; None where there is none, or none that can be read."""
    try:
        return None if raw is None else Predictor.from_dict(unpack(raw))
    except InvalidInput:
        return None


def _without(raw: str | None, ids: Collection[str]) -> str | None:
    """A predictor as it is kept, without these memories; one that cannot be read goes."""
    predictor = _parse(raw)
    if predictor is None:
        return None
    return pack(predictor.to_dict()) if predictor.forget(ids) else raw


def _unlisted(raw: str | None, names: Collection[str]) -> str | None:
    """A list of what there is without these; none when nothing is left."""
    left = {name: project for name, project in _listed(raw).items() if name not in names}
    return json.dumps(left) if left else None


def _listed(raw: str | None) -> dict[str, str]:
    try:
        found = json.loads(raw) if raw else {}
    except ValueError:
        found = {}
    return {str(k): str(v) for k, v in found.items()} if isinstance(found, dict) else {}


def _whose(scope: Scope) -> tuple[str | None, str | None]:
    """Runs and agents come and go; what a user needs in a project stays."""
    return scope.user_id, scope.project_id


def _name(scope: Scope, sort: str = "predictor") -> str:
    return f"{sort} {_digest(scope.user_id)} {_digest(scope.project_id)}"


def _shard(user_id: str | None) -> str:
    return f"predictors {_digest(user_id)[:2]}"


def _digest(name: str | None) -> str:
    written = "-" if name is None else f"+{name}"
    return hashlib.blake2b(written.encode(), digest_size=8).hexdigest()
