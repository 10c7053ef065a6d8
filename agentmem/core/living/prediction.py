"""Guess which memories the next answer will cite, from what is going on.

Each signal ("this file is open", "that error was seen") becomes features; each
feature remembers, with decay, which memories were cited while it was on. Every
sort of feature is an expert whose say is how often its own ten best guesses
came true, so a sort that tells nothing is soon ignored. How often and how
lately a memory was cited are two more experts.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Literal, get_args

from agentmem.core.checks import require_choice, require_count, require_number, require_text
from agentmem.core.values import dataclass
from agentmem.errors import InvalidInput
from agentmem.types import require_instant

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
