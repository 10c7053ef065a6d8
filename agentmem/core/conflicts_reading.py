"""A statement read once, so that it can be compared with many others quickly."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from agentmem.core.conflicts_kinds import EXCLUSIVE, SORTS
from agentmem.core.conflicts_synonyms import canonical
from agentmem.core.conflicts_values import (
    NUMBER_WORDS,
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
from agentmem.core.conflicts_words import (
    ALL,
    ATTRIBUTES,
    AUXILIARIES,
    CHANGE_VERBS,
    CHANGE_WORDS,
    CLAUSE_BREAKS,
    DEFINITE,
    FEW,
    FILLERS,
    GENERIC_ACRONYMS,
    LEADING_VERBS,
    MANY_VERBS,
    NEGATORS,
    PARTICLES,
    PAST_WORDS,
    PERSONS,
    PHRASES,
    POSSESSIVES,
    SINGLE_VERBS,
    VERBS,
)
from agentmem.core.sentences import sentences

MAX_CLAUSES = 24
MAX_CHARACTERS = 8_000
"""Of a longer text the beginning is read: a statement is a sentence or a few."""

_MONTH = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?"
    r"|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\b\.?"
)
_YEAR = r"(?:19|20)\d\d"
_TOKEN = re.compile(
    rf"""
      (?P<url>(?:https?://|www\.)\S+|[\w.+-]+@[\w-]+\.[\w.-]+)
    | (?P<iso>(?<![\w-]){_YEAR}-\d\d(?:-\d\d)?(?![\w-]))
    | (?P<slash>(?<!\w)\d{{1,2}}/\d{{1,2}}/(?:19|20)?\d\d(?!\w))
    | (?P<time>(?<![\w.])\d{{1,2}}(?::\d\d)?[ ]?[ap]\.?m\b\.?|(?<![\w.:])\d{{1,2}}:\d\d(?![\w:]))
    | (?P<daymonth>(?<![\w.])\d{{1,2}}(?:st|nd|rd|th)?(?:[ ]of)?[ ]{_MONTH}(?:,?[ ]{_YEAR}\b)?)
    | (?P<monthday>\b{_MONTH}[ ]\d{{1,2}}(?:st|nd|rd|th)?(?![\w:.]\d|\w)(?:,?[ ]{_YEAR}\b)?)
    | (?P<monthyear>\b{_MONTH},?(?:[ ]of)?[ ]{_YEAR}\b)
    | (?P<version>(?<![\w.])v\d+(?:\.\d+)*(?![\w])|(?<![\w.])\d+(?:\.\d+){{2,5}}(?![\w]))
    | (?P<range>(?<![\w.])\d+(?:\.\d+)?[ ]?[-–][ ]?\d+(?:\.\d+)?(?![\w-]|\.\d))
    | (?P<number>(?<![\w.])[-+]?[$€£¥₹]?(?:\d{{1,3}}(?:,\d\d\d)+|\d+)(?:\.\d+)?
        (?P<glued>(?:k|m|bn|mn)?(?:%|°[cf]?)|[a-zµ]{{1,4}})?(?![\w]))
    | (?P<word>[^\W\d_](?:[\w+#]|['’.\-/_](?=\w))*)
    | (?P<other>\w+)
    | (?P<mark>[;:,?()=%$€£~<>≥≤])
    """,
    re.VERBOSE | re.IGNORECASE,
)
_HYPOTHESIS = re.compile(
    r"^\W*(?:if|suppose|imagine|assume|assuming|unless|what if|maybe|perhaps|let's say)\b", re.I
)
_USED_TO = re.compile(r"\bused to\b(?! (?:doing|it|that|this)\b)", re.IGNORECASE)
_LONG_DIGITS = 18
_CHANGE_PHRASE = re.compile(
    r"\b(?:no longer|any ?more|as of|from now on|starting|effective|moved (?:to|from|into|over)"
    r"|going forward|instead of|rather than|since (?:the |last |this )?(?:\w+)"
    r"|is now|are now|has been (?:changed|moved|replaced|raised|lowered)"
    r"|(?:went|gone|go) from \S+ to)\b",
    re.IGNORECASE,
)
_NEW = re.compile(r"\b(?:the|our|my|a) new\b", re.IGNORECASE)
_ABOUT = frozenset({"about", "around", "roughly", "approximately", "nearly", "almost", "circa"})
_YEAR_BEFORE = frozenset(
    {"in", "since", "until", "during", "year", "late", "early", "mid", "before", "after"}
)
_YEAR_BEFORE_END = frozenset({"by", "for", "of", "to", "from", "is", "was", "on", "around"})
_EFFECTIVE = frozenset({"since", "starting", "effective", "from"})
_LABELS = frozenset(
    {"port", "room", "floor", "gate", "level", "step", "chapter", "page", "line", "team", "phase",
     "section", "table", "figure", "issue", "ticket", "pr", "number", "no", "error", "code",
     "status", "building", "track", "season", "episode", "grade"}
)  # fmt: skip
_NOT_UNITS = FILLERS | NEGATORS | CLAUSE_BREAKS
_ONE_VALUED = ATTRIBUTES | DEFINITE
_HEADS = frozenset(canonical(word) for word in ATTRIBUTES)
_ADVERBS = frozenset({"now", "currently", "still", "also", "already", "actually", "officially"})
_COPULAS = frozenset({"is", "are", "was", "were", "be", "been", "am", "'s"})
_CASED_DATES = frozenset({"may", "mar", "march", "sun", "sat", "mon", "wed", "dec", "jan", "fri"})


@dataclass(frozen=True, slots=True)
class Clause:
    """What one clause says, as sets that are quick to compare."""

    bag: frozenset[str]
    order: tuple[str, ...]
    subject: frozenset[str]
    names: frozenset[str]
    particles: frozenset[str]
    values: tuple[Value, ...]
    since: tuple[Value, ...]
    sorts: frozenset[str]
    surfaces: dict[str, str]
    person: str
    single: bool
    negated: bool
    all: bool
    few: bool
    change: bool
    past: bool
    asserted: bool
    scene: bool
    verb: str
    copula: bool
    topics: frozenset[str]


@dataclass(frozen=True, slots=True)
class Reading:
    """A text as the judge needs it; made by `read_statement`."""

    text: str
    clauses: tuple[Clause, ...]
    words: frozenset[str]


def read_statement(text: str) -> Reading:
    """`text` read clause by clause; any text can be read, and most of the work is done here."""
    clauses: list[Clause] = []
    shortened = text[:MAX_CHARACTERS]
    for start, end in sentences(shortened):
        for clause in _read_sentence(shortened[start:end]):
            clauses.append(clause)
            if len(clauses) >= MAX_CLAUSES:
                break
        if len(clauses) >= MAX_CLAUSES:
            break
    words = frozenset(
        word for clause in clauses for group in (clause.bag, _marked(clause)) for word in group
    )
    return Reading(text=text, clauses=tuple(clauses), words=words)


def _marked(clause: Clause) -> Iterator[str]:
    """The sorts a clause names things of, in a form that no word has."""
    return (f" {topic}" for topic in clause.topics)


@dataclass(slots=True)
class _Token:
    kind: str
    text: str
    lower: str
    glued: str = ""


def _tokens(sentence: str) -> list[_Token]:
    found: list[_Token] = []
    for match in _TOKEN.finditer(sentence):
        text = match[0]
        if match["number"] is not None:
            found.append(_Token("number", text, text.lower(), (match["glued"] or "").lower()))
            continue
        lower = text.lower().replace("’", "'")
        if found and (joined := PHRASES.get((found[-1].lower, lower))) is not None:
            found[-1] = _Token("word", f"{found[-1].text} {text}", joined)
        else:
            found.append(_Token(match.lastgroup or "word", text, lower))
    return found


def _read_sentence(sentence: str) -> Iterator[Clause]:
    tokens = _tokens(sentence)
    asserted = not sentence.rstrip().endswith("?") and _HYPOTHESIS.match(sentence) is None
    start = 0
    inherited = ""
    for index in range(len(tokens) + 1):
        if index < len(tokens):
            token = tokens[index]
            if token.kind == "mark" and token.text == ";":
                pass
            elif token.lower not in CLAUSE_BREAKS or token.kind != "word":
                continue
        if index > start:
            clause = _read_clause(tokens[start:index], asserted, sentence, first=start == 0)
            if clause is not None:
                inherited = clause.person or inherited
                yield clause
        start = index + 1


def _read_clause(
    tokens: list[_Token], asserted: bool, sentence: str, *, first: bool
) -> Clause | None:
    builder = _Builder(tokens, first)
    builder.read()
    if not builder.order and not builder.values and not builder.since:
        return None
    piece = " ".join(token.text for token in tokens)
    change = builder.change or _CHANGE_PHRASE.search(piece) is not None
    past = builder.past or _USED_TO.search(piece) is not None
    return Clause(
        bag=frozenset(builder.order),
        order=tuple(builder.order),
        subject=frozenset(builder.subject),
        names=frozenset(builder.names),
        particles=frozenset(builder.particles),
        values=tuple(builder.values),
        since=tuple(builder.since),
        sorts=frozenset(builder.sorts),
        surfaces=builder.surfaces,
        person=builder.person,
        single=builder.is_single(),
        negated=builder.negated,
        all=builder.all,
        few=builder.few,
        change=change,
        past=past and not change,
        asserted=asserted,
        scene=builder.scene,
        verb=canonical(builder.main_word or builder.verb),
        copula=builder.verb in _COPULAS and not builder.main_verb,
        topics=frozenset(topic for topic in builder.topics if topic in EXCLUSIVE),
    )


class _Builder:
    """Collects one clause from its tokens, left to right."""

    def __init__(self, tokens: list[_Token], first: bool) -> None:
        self.tokens = tokens
        self.first = first
        self.order: list[str] = []
        self.subject: list[str] = []
        self.names: set[str] = set()
        self.particles: set[str] = set()
        self.values: list[Value] = []
        self.since: list[Value] = []
        self.sorts: set[str] = set()
        self.topics: set[str] = set()
        self.main_word = ""
        self.surfaces: dict[str, str] = {}
        self.person = ""
        self.verb = ""
        self.owned = False
        self.role = False
        self.single_verb = self.main_verb = self.scene = False
        self.verb_at = 0
        opener = tokens[0].lower if tokens else ""
        self.indefinite = opener in ("a", "an", "some", "another", "several", "people") or (
            opener in SMALL_NUMBERS
        )
        self.negated = self.all = self.few = self.change = self.past = False

    def read(self) -> None:
        tokens = self.tokens
        index = 0
        skip_to = self._old_value()
        definite_after = -1
        while index < len(tokens):
            if skip_to and skip_to[0] <= index < skip_to[1]:
                index = skip_to[1]
                continue
            token = tokens[index]
            if token.kind == "word":
                lower = token.lower
                if (
                    lower in ("instead", "rather", "opposed")
                    and self._next(index) in ("of", "than", "to")
                    and self.order
                ):
                    break
                if self.verb in _COPULAS and definite_after < 0:
                    definite_after = index
                index = self._word(index, token, lower)
            elif token.kind == "mark":
                if token.text in ":=" and self.order and not self.verb:
                    self.verb = "is"
                    self.owned = True
                    self.subject = list(self.order)
                    self.verb_at = index
                index += 1
            else:
                index = self._typed(index, token)
        self._turn_round(definite_after)

    def _old_value(self) -> tuple[int, int] | None:
        """The tokens of "from X" in a change "from X to Y": what was true before."""
        lowers = [token.lower for token in self.tokens]
        if "from" not in lowers or not any(
            word in CHANGE_VERBS or word in ("went", "gone") for word in lowers
        ):
            return None
        start = lowers.index("from")
        for end in range(start + 2, min(start + 8, len(lowers))):
            if lowers[end] == "to":
                return start, end + 1
        return None

    def _next(self, index: int) -> str:
        return self.tokens[index + 1].lower if index + 1 < len(self.tokens) else ""

    def _before(self, index: int) -> str:
        return self.tokens[index - 1].lower if index else ""

    def _word(self, index: int, token: _Token, lower: str) -> int:
        possessive = False
        if lower.endswith(("'s", "s'")):
            lower = lower[:-2] if lower.endswith("'s") else lower[:-1]
            possessive = lower not in ("it", "that", "there", "he", "she", "what", "let", "who")
        elif lower.endswith("n't"):
            self.negated = True
            self._note_verb({"ca": "can", "wo": "will"}.get(lower[:-3], lower[:-3]), index)
            return index + 1
        elif "'" in lower:
            lower = lower.split("'")[0]
        lower = lower.rstrip(".")
        if lower in PERSONS and not self.person and not self.order:
            self.person = PERSONS[lower]
        if lower in POSSESSIVES and not self.verb:
            self.owned = True
        if lower in NEGATORS:
            self._negate(lower, index)
            return index + 1
        if (end := self._date_word(index, token, lower)) is not None:
            return end
        if lower in NUMBER_WORDS and (end := self._number_words(index, lower)) is not None:
            return end
        if lower in CHANGE_WORDS:
            self.change = True
        if lower in PAST_WORDS:
            self.past = True
        if lower in ALL:
            self.all = True
        elif lower in FEW and not (lower == "few" and self._before(index) == "a"):
            self.few = True
        if lower in PARTICLES:
            self.particles.add(canonical(lower))
        if self.order or self.person or lower in SINGLE_VERBS:
            self._note_verb(lower, index)
        if lower in ("as", "for") and self.verb in MANY_VERBS:
            self.role = True
        if (
            lower in FILLERS
            and not possessive
            and not (index and token.text[0].isupper() and lower in SORTS)
        ):
            return index + 1
        self._add(token, lower, index, possessive=possessive)
        return index + 1

    def _negate(self, lower: str, index: int) -> None:
        after = self._next(index)
        if lower in ("stopped", "stops", "quit"):
            if not after.endswith("ing"):
                return
            self.change = True
        if lower == "no" and after in ("longer", "more"):
            self.change = True
        if lower == "not" and after in ("only", "just"):
            return
        if lower == "no" and not after:
            return
        self.negated = True
        if not self.order and lower != "not":
            self.scene = False

    def _note_verb(self, lower: str, index: int) -> None:
        if not self.verb and lower in VERBS:
            self.verb = lower
            self.subject = list(self.order)
            self.verb_at = index
            self.single_verb = lower in SINGLE_VERBS
            return
        if self.verb in AUXILIARIES and index - self.verb_at <= 3 and not self.main_verb:
            if lower in SINGLE_VERBS:
                self.main_verb = self.single_verb = True
                self.main_word = lower
            elif lower.endswith("ing") and lower not in MANY_VERBS and len(lower) > 5:
                self.main_verb = True
                self.main_word = lower
                self.scene = self.indefinite or self.scene

    def _add(self, token: _Token, lower: str, index: int, *, possessive: bool = False) -> None:
        word = canonical(lower)
        self.order.append(word)
        self.surfaces.setdefault(word, token.text)
        text = token.text
        inner = any(c.isupper() or c.isdigit() for c in text[1:])
        if lower in GENERIC_ACRONYMS:
            pass
        elif inner or (text[0].isupper() and (index > 0 or not self.first or possessive)):
            self.names.add(word)
        if possessive and not self.verb:
            self.owned = True
        if (sort := SORTS.get(lower)) is not None:
            self.sorts.add(f"{sort}:{word}")
            self.topics.add(sort)
        elif lower in EXCLUSIVE or word in EXCLUSIVE:
            self.topics.add(lower if lower in EXCLUSIVE else word)
        if self.verb and word in self.subject and word not in self.order[: len(self.subject)]:
            self.subject.remove(word)

    def is_single(self) -> bool:
        """Whether the value said here leaves no room for a second one."""
        if self.single_verb or self.role:
            return True
        if self.verb in _COPULAS or not self.verb:
            if self.main_verb:
                return False
            before = self.tokens[: self.verb_at] if self.verb_at else self.tokens
            lowered = {token.lower for token in before}
            lowered |= {word.removesuffix("s") for word in lowered}
            return self.owned or not lowered.isdisjoint(_ONE_VALUED)
        return False

    def _turn_round(self, definite_after: int) -> None:
        """ "Postgres is our database" says what our database is: the subject is the value."""
        if self.verb in LEADING_VERBS and self.subject:
            rest = self.order[len(self.subject) :]
            if (
                rest
                and set(self.subject) <= self.names | set(self.order[:1])
                and (self.tokens[0].text[:1].isupper() and self.tokens[0].lower not in FILLERS)
            ):
                self.order = rest + self.order[: len(self.subject)]
                self.subject = rest
                self.single_verb = True
            return
        if self.verb not in _COPULAS or definite_after < 0 or not 1 <= len(self.subject) <= 3:
            return
        opener = next(
            (
                t.lower
                for t in self.tokens[definite_after:]
                if t.lower not in _COPULAS and t.lower not in NEGATORS and t.lower not in _ADVERBS
            ),
            "",
        )
        if opener not in ("the", "our", "my", "your", "his", "her", "their", "its") and not (
            opener.endswith("'s")
        ):
            return
        rest = self.order[len(self.subject) :]
        if _HEADS.isdisjoint(rest) or not _HEADS.isdisjoint(self.subject):
            return
        self.order = rest + self.order[: len(self.subject)]
        self.subject = rest
        self.owned = True

    # typed values

    def _typed(self, index: int, token: _Token) -> int:
        if token.kind == "number":
            return self._number(index, token)
        if token.kind in ("url", "other"):
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
                Value("version", token.text, unit=name, parts=read_version(token.text))
            )
            return index + 1
        value = _read_time(token) if token.kind == "time" else _read_date(token)
        if value is None:
            self._add(token, token.lower, index)
        else:
            self._keep_date(index, value)
        return index + 1

    def _keep_date(self, index: int, value: Value) -> None:
        before = self._before(index)
        if before in _EFFECTIVE or (
            before == "of" and index > 1 and self._before(index - 1) == "as"
        ):
            self.since.append(value)
        else:
            self.values.append(value)

    def _date_word(self, index: int, token: _Token, lower: str) -> int | None:
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
        shown = " ".join(token.text for token in self.tokens[index:end])
        return self._finish_number(end - 1, total + current, total + current, shown, start=index)

    def _number(self, index: int, token: _Token) -> int:
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
                    Value("version", token.text, unit=name, raw=amount, parts=read_version(plain))
                )
                return index + 1
        if token.glued in ("st", "nd", "rd", "th"):
            self.values.append(Value("number", token.text, amount, amount, "ordinal", raw=amount))
            return index + 1
        return self._finish_number(
            index, amount, amount, token.text, glued=token.glued, symbol=symbol
        )

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
        self.values.append(
            Value(
                "number",
                words[:60] or shown,
                low * scale * factor,
                high * scale * factor,
                unit,
                label,
                self._comparison(start),
                raw=low * scale,
            )
        )
        return end

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

    def _comparison(self, start: int) -> Comparison:
        before, earlier = self._before(start), self._before(start - 1) if start else ""
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


def _read_time(token: _Token) -> Value | None:
    numbers = [int(n) for n in re.findall(r"\d+", token.text)]
    hour, minute = numbers[0], numbers[1] if len(numbers) > 1 else 0
    lowered = token.lower
    if "p" in lowered and hour < 12:
        hour += 12
    elif "a" in lowered and hour == 12:
        hour = 0
    if hour > 24 or minute > 59:
        return None
    minutes = float(hour * 60 + minute)
    return Value("time", token.text.strip(), low=minutes, high=minutes)


def _read_date(token: _Token) -> Value | None:
    text = token.lower
    numbers = [int(n) for n in re.findall(r"\d+", text)]
    year: int | None = None
    month: int | None = None
    day: int | None = None
    swapped = 0
    if token.kind == "iso":
        year, month = numbers[0], numbers[1]
        day = numbers[2] if len(numbers) > 2 else None
    elif token.kind == "slash":
        month, day, year = numbers[0], numbers[1], numbers[2]
        year += 2000 if year < 100 else 0
        if month > 12:
            month, day = day, month
        elif day <= 12:
            swapped = 1
    else:
        month = next((n for word in re.findall(r"[a-z]+", text) if (n := month_number(word))), None)
        if token.kind == "monthyear":
            year = numbers[-1]
        else:
            day = numbers[0]
            year = numbers[1] if len(numbers) > 1 else None
    if (month is not None and not 1 <= month <= 12) or (day is not None and not 1 <= day <= 31):
        return None
    return Value("date", token.text.strip(), parts=(year, month, day, None, swapped))
