"""Reads the typed values of a clause: amounts with their units, dates, times, versions."""

from __future__ import annotations

import re
from dataclasses import replace

from agentmem.core.conflicts_kinds import SORTS
from agentmem.core.conflicts_synonyms import canonical
from agentmem.core.conflicts_tokens import Token, read_date, read_time
from agentmem.core.conflicts_values import (
    SCALES,
    SMALL_NUMBERS,
    UNITS,
    Comparison,
    Value,
    month_number,
    read_float,
    read_version,
    weekday_number,
)
from agentmem.core.conflicts_words import CLAUSE_BREAKS, FILLERS, NEGATORS, VERBS

_LONG_DIGITS = 18
_ABOUT = frozenset({"about", "around", "roughly", "approximately", "nearly", "almost", "circa"})
_YEAR_BEFORE = frozenset(
    {"in", "since", "until", "during", "year", "late", "early", "mid", "before", "after"}
)
_YEAR_BEFORE_END = frozenset({"by", "for", "of", "to", "from", "is", "was", "on", "around"})
_BEFORE_ONE = frozenset({"for", "within", "after", "in", "than", "about", "to", "of"})
_EFFECTIVE = frozenset({"since", "starting", "effective", "from"})
_LABELS = frozenset(
    {"port", "room", "floor", "gate", "level", "step", "chapter", "page", "line", "team", "phase",
     "section", "table", "figure", "issue", "ticket", "pr", "number", "no", "error", "code",
     "status", "building", "track", "season", "episode", "grade"}
)  # fmt: skip
_OR_MORE = frozenset(
    {"newer", "later", "higher", "above", "more", "greater", "up", "upwards", "over", "onwards"}
)
_OR_LESS = frozenset({"less", "fewer", "below", "lower", "earlier", "under", "younger"})
_IN_PARTS = frozenset({"duration", "length", "mass"})
_NOT_UNITS = FILLERS | NEGATORS | CLAUSE_BREAKS
_CASED_DATES = frozenset({"may", "mar", "march", "sun", "sat", "mon", "wed", "dec", "jan", "fri"})


class ValueReader:
    """Collects the typed values of one clause; the words are left to the class built on it."""

    def __init__(self, tokens: list[Token]) -> None:
        self.tokens = tokens
        self.order: list[str] = []
        self.values: list[Value] = []
        self.since: list[Value] = []
        self.labels: list[tuple[int, int]] = []
        self.verb = ""
        self.ended, self.factor = -1, 0.0  # where the last number ended, and its unit

    def _add(self, token: Token, lower: str, index: int, *, possessive: bool = False) -> None:
        raise NotImplementedError

    def _next(self, index: int) -> str:
        return self.tokens[index + 1].lower if index + 1 < len(self.tokens) else ""

    def _before(self, index: int) -> str:
        return self.tokens[index - 1].lower if index else ""

    def _typed(self, index: int, token: Token) -> int:
        if token.kind == "number":
            return self._number(index, token)
        if token.kind in ("url", "other", "code"):
            self._add(token, token.lower, index)
            return index + 1
        if token.kind == "range":
            ends = [len(part) for part in re.findall(r"[0-9]+", token.text)]
            if len(ends) == 2 and min(ends) > 2 and ends[0] != ends[1]:
                self._add(token, token.lower, index)  # a telephone number
                return index + 1
            low, high = (
                read_float(part) for part in re.split(r"[ ]?[-–][ ]?", token.text, maxsplit=1)
            )
            return self._finish_number(index, min(low, high), max(low, high), token.text)
        if token.kind == "version":
            name = self.order[-1] if self.order and self._before(index).isalpha() else ""
            if self._before(index) in ("version", "release", "v"):
                name = ""
            self.values.append(
                Value(
                    "version",
                    token.text,
                    unit=name,
                    comparison=self._comparison(index, index + 1, of_version=True),
                    parts=read_version(token.text),
                )
            )
            return index + 1
        value = read_time(token) if token.kind == "time" else read_date(token)
        if value is None:
            self._add(token, token.lower, index)
        else:
            self._keep_date(index, value)
        return index + 1

    def _keep_date(self, index: int, value: Value) -> None:
        before = self._before(index)
        earlier = self._before(index - 1) if index else ""
        if (
            before in _EFFECTIVE
            or earlier in ("starting", "effective")
            or ((earlier, before) == ("as", "of"))
        ):
            self.since.append(value)
        else:
            self.values.append(value)

    def _date_word(self, index: int, token: Token, lower: str) -> int | None:
        if lower in _CASED_DATES and not token.text[0].isupper():
            return None
        if lower == "second" or len(lower) < 3:
            return None
        parts: tuple[int | None, ...] | None = None
        if lower in ("noon", "midday"):
            self._keep_date(index, Value("time", token.text, low=720.0, high=720.0))
            return index + 1
        if lower == "midnight":
            self._keep_date(index, Value("time", token.text, low=0.0))
            return index + 1
        if month := month_number(lower):
            parts = (None, month, None, None, 0)
        elif (weekday := weekday_number(lower)) is not None and lower != "marry":
            parts = (None, None, None, weekday, 0)
        if parts is None:
            return None
        self._keep_date(index, Value("date", token.text, parts=parts))
        return index + 1

    def _number_words(self, index: int, lower: str) -> int | None:
        before = self._before(index)
        if lower == "one" and before == "no":
            return index + 1
        if lower == "one" and before in ("the", "this", "that", "any", "which", "each", "another"):
            return None
        if lower == "half":
            if before in ("a", "an", "in", "and"):
                return None
            self.values.append(Value("number", "half", 50.0, 50.0, "percent", raw=50.0))
            return index + 1
        total = current = 0.0
        end = index
        while end < len(self.tokens):
            word = self.tokens[end].lower
            pieces = word.split("-") if "-" in word else [word]
            if all(piece in SMALL_NUMBERS for piece in pieces):
                current += sum(SMALL_NUMBERS[piece] for piece in pieces)
            elif word in SCALES and len(word) > 2:
                current = max(current, 1.0) * SCALES[word]
                if SCALES[word] >= 1000:
                    total, current = total + current, 0.0
            elif (
                word == "and"
                and end > index
                and self._next(end) in SMALL_NUMBERS
                and (self._before(end) in SCALES)
            ):
                pass
            else:
                break
            end += 1
        if end == index:  # "one's": the word is a number, the token is not
            return None
        shown = " ".join(token.text for token in self.tokens[index:end])
        return self._finish_number(end - 1, total + current, total + current, shown, start=index)

    def _number(self, index: int, token: Token) -> int:
        digits = token.lower.removesuffix(token.glued) if token.glued else token.lower
        symbol = next((c for c in digits if c in "$€£¥₹"), "")
        plain = digits.replace(symbol, "") if symbol else digits
        if len(plain) > _LONG_DIGITS:  # an identifier, not an amount
            self._add(token, token.lower, index)
            return index + 1
        amount = read_float(plain.lstrip("+"))
        if not token.glued and not symbol:
            if len(plain) == 4 and plain[:2] in ("19", "20") and self._is_year(index):
                self._keep_date(
                    index, Value("date", token.text, parts=(int(plain), None, None, None, 0))
                )
                return index + 1
            if (name := self._version_of(index, plain)) is not None:
                self.values.append(
                    Value(
                        "version",
                        token.text,
                        unit=name,
                        comparison=self._comparison(index, index + 1, of_version=True),
                        parts=read_version(plain),
                        raw=amount,
                    )
                )
                return index + 1
        if token.glued in ("st", "nd", "rd", "th"):
            self.values.append(Value("number", token.text, amount, amount, "ordinal", raw=amount))
            return index + 1
        return self._finish_number(
            index, amount, amount, token.text, glued=token.glued, symbol=symbol
        )

    def _one_unit(self, index: int) -> bool:
        """Whether "a" or "an" counts: "takes an hour", but not "twice a day"."""
        unit = UNITS.get(self._next(index), ("", 0.0))[0]
        before = self._before(index)
        return unit == "duration" and (before in VERBS or before in _BEFORE_ONE)

    def _is_year(self, index: int) -> bool:
        before = self._before(index)
        if before in _YEAR_BEFORE:
            return True
        at_end = index + 1 >= len(self.tokens) or self.tokens[index + 1].kind == "mark"
        return before in _YEAR_BEFORE_END and at_end

    def _version_of(self, index: int, plain: str) -> str | None:
        """The name a version belongs to, "" for "version 3", None for a plain number."""
        before = self._before(index)
        if before in ("version", "release", "v"):
            return ""
        if not before or before in _LABELS or before in FILLERS or before in UNITS:
            return None
        previous = self.tokens[index - 1]
        if previous.kind != "word" or month_number(before) or weekday_number(before) is not None:
            return None
        following = self._next(index)
        if following and following not in _NOT_UNITS and self.tokens[index + 1].kind == "word":
            return None
        known = before in SORTS
        if known or (previous.text[0].isupper() and (index > 1 or "." in plain)):
            return self.order[-1] if self.order else ""
        return None

    def _finish_number(
        self,
        index: int,
        low: float,
        high: float,
        shown: str,
        *,
        glued: str = "",
        symbol: str = "",
        start: int | None = None,
    ) -> int:
        start = index if start is None else start
        scale, unit, factor = 1.0, "", 1.0
        end = index + 1
        if symbol:
            unit = UNITS[symbol][0]
        if glued:
            if glued in UNITS and not (symbol and glued in SCALES) and glued not in ("b", "k"):
                unit, factor = UNITS[glued]
            elif glued in SCALES:
                scale = SCALES[glued]
            elif glued.rstrip("%") in SCALES:
                scale, unit = SCALES[glued.rstrip("%")], "percent"
            else:
                unit = canonical(glued)
        if end < len(self.tokens) and self.tokens[end].lower in SCALES:
            word = self.tokens[end].lower
            if len(word) > 2 or word in ("bn", "mn"):
                scale *= SCALES[word]
                end += 1
        following = self.tokens[end] if end < len(self.tokens) else None
        while following is not None and following.lower in ("of", "more", "extra"):
            end += 1
            following = self.tokens[end] if end < len(self.tokens) else None
            break
        if following is not None and not unit:
            plain = following.lower.rstrip(".")
            name = plain.split("-")[0]
            if plain in UNITS:
                unit, factor = UNITS[plain]
                end += 1
            elif name in UNITS and "-" in plain:
                unit, factor = UNITS[name]
                end += 1
            elif plain == "times":
                unit = "times"
                end += 1
            elif plain in VERBS and self._before(start).isalpha() and not self.verb:
                pass  # "sensor 3 reads": the number belongs to the word before it
            elif following.kind == "word" and plain not in _NOT_UNITS and len(plain) > 1:
                unit = canonical(plain)  # "100 requests": the noun counts and is a word too
        elif (
            following is not None and following.lower in UNITS and unit == UNITS[following.lower][0]
        ):
            end += 1
        rate, end = self._rate(end, unit)
        if rate is not None:
            unit, factor = f"{unit}/s", factor / rate
        before = self._before(start)
        label = before if before in _LABELS else ""
        shown_end = max(end, index + 1)
        words = " ".join(token.text for token in self.tokens[start:shown_end])
        if not unit and before.isalpha() and before not in _NOT_UNITS and not self.verb:
            self.labels.append((len(self.values), start))
        value = Value(
            "number",
            words[:60] or shown,
            low * scale * factor,
            high * scale * factor,
            unit,
            label,
            self._comparison(start, end),
            raw=low * scale,
        )
        whole = self._joined(value, start, factor) if rate is None else None
        if whole is not None:
            self.values[-1] = whole
        else:
            self.values.append(value)
        self.ended, self.factor = end, factor if rate is None else 0.0
        return end

    def _joined(self, part: Value, start: int, factor: float) -> Value | None:
        """ "2 hours 55 minutes" is one length: `part` with the larger unit right before it."""
        if not self.values or part.unit not in _IN_PARTS or not 0 < factor < self.factor:
            return None
        whole, gap = self.values[-1], start - self.ended
        linked = gap == 0 or (gap == 1 and self._before(start) == "and")
        if not linked or whole.unit != part.unit or part.high >= self.factor:
            return None
        return replace(
            whole,
            shown=f"{whole.shown} {part.shown}"[:60],
            low=whole.low + part.low,
            high=whole.high + part.high,
        )

    def _rate(self, end: int, unit: str) -> tuple[float | None, int]:
        """Seconds in "per minute" after a number, and where it ends."""
        for place in (end, end + 1):
            if place + 1 >= len(self.tokens):
                break
            word, following = self.tokens[place].lower, self.tokens[place + 1].lower
            if word in ("per", "a", "an", "every", "each") and UNITS.get(following, ("",))[0] == (
                "duration"
            ):
                if place > end:  # the counted noun in between is a word of the statement
                    noun = self.tokens[end]
                    if noun.kind != "word" or noun.lower in _NOT_UNITS:
                        break
                    self._add(noun, noun.lower, end)
                return UNITS[following][1], place + 2
        return None, end

    def _comparison(self, start: int, end: int, *, of_version: bool = False) -> Comparison:
        before, earlier = self._before(start), self._before(start - 1) if start else ""
        if before == "=" and earlier in (">", "<"):
            return "least" if earlier == ">" else "most"
        link, word = self._next(end - 1), self._next(end)
        if link in ("or", "and"):
            if word in _OR_MORE or (word == "older" and not of_version):
                return "least"
            if word in _OR_LESS or (word == "older" and of_version):
                return "most"
        if before in _ABOUT or before == "~":
            return "about"
        if (earlier, before) in (("at", "least"), ("more", "than"), ("greater", "than")):
            return "least"
        if before in ("over", "above", "exceeds", "minimum", "≥", ">"):
            return "least"
        if (earlier, before) in (("at", "most"), ("less", "than"), ("fewer", "than"), ("up", "to")):
            return "most"
        if before in ("under", "below", "≤", "<"):
            return "most"
        return "exact"
