"""Reads the words of one clause: what it is about, who says it, and how it is worded."""

from __future__ import annotations

from agentmem.core.conflicts_amounts import ValueReader
from agentmem.core.conflicts_kinds import EXCLUSIVE, SORTS
from agentmem.core.conflicts_synonyms import canonical
from agentmem.core.conflicts_tokens import Token
from agentmem.core.conflicts_values import NUMBER_WORDS, SMALL_NUMBERS
from agentmem.core.conflicts_words import (
    ALL,
    ATTRIBUTES,
    AUXILIARIES,
    CHANGE_VERBS,
    CHANGE_WORDS,
    DEFINITE,
    FEW,
    FILLERS,
    GENERIC_ACRONYMS,
    LEADING_VERBS,
    MANY_PARTICIPLES,
    MANY_VERBS,
    NEGATORS,
    PARTICLES,
    PAST_WORDS,
    PERSONS,
    PLACES,
    POSSESSIVES,
    SINGLE_VERBS,
    VERBS,
)

_ONE_VALUED = ATTRIBUTES | DEFINITE
_HEADS = frozenset(canonical(word) for word in ATTRIBUTES)
_ADVERBS = frozenset({"now", "currently", "still", "also", "already", "actually", "officially"})
_PERIODS = frozenset({"hour", "day", "week", "month", "quarter", "year"})
_LINKING = frozenset({"is", "are", "was", "were", "be", "been", "am", "became", "becomes"})
COPULAS = frozenset({"is", "are", "was", "were", "be", "been", "am", "'s"})


class ClauseReader(ValueReader):
    """Collects one clause from its tokens, left to right."""

    def __init__(self, tokens: list[Token], first: bool) -> None:
        super().__init__(tokens)
        self.first = first
        self.subject: list[str] = []
        self.names: set[str] = set()
        self.particles: set[str] = set()
        self.sorts: set[str] = set()
        self.topics: set[str] = set()
        self.main_word = ""
        self.surfaces: dict[str, str] = {}
        self.person = ""
        self.owned = False
        self.role = False
        self.single_verb = self.main_verb = self.scene = False
        self.verb_at = 0
        self.firm = False
        opener = tokens[0].lower if tokens else ""
        self.indefinite = opener in ("a", "an", "some", "another", "several", "people") or (
            opener in SMALL_NUMBERS
        )
        self.negated = self.all = self.few = self.change = self.past = False
        self.only = opener == "only"

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
                if self.verb in _LINKING and definite_after < 0:
                    definite_after = index
                index = max(index + 1, self._word(index, token, lower))
            elif token.kind == "mark":
                if token.text in ":=" and self.order and not self.verb:
                    self.verb = "is"
                    self.owned = True
                    self.subject = list(self.order)
                    self.verb_at = index
                index += 1
            else:
                index = max(index + 1, self._typed(index, token))
        self._name_labels()
        self._turn_round(definite_after)

    def _name_labels(self) -> None:
        """Numbers that name the subject ("sensor 3 reads …") are no values but names."""
        for place, index in reversed(self.labels):
            if self.verb and index < self.verb_at:
                word = f"#{self.values.pop(place).shown}"
                self.order.insert(0, word)
                self.subject.insert(0, word)
                self.names.add(word)

    def _old_value(self) -> tuple[int, int] | None:
        """The tokens of the old value in "from X to Y" and "replaced X with Y"."""
        lowers = [token.lower for token in self.tokens]
        for verb, link in (("replaced", "with"), ("replaced", "by"), ("swapped", "for")):
            if verb in lowers and link in lowers[lowers.index(verb) :]:
                start = lowers.index(verb) + 1
                return start, lowers.index(link, start)
        if "from" not in lowers or not any(
            word in CHANGE_VERBS or word in ("went", "gone") for word in lowers
        ):
            return None
        start = lowers.index("from")
        for end in range(start + 2, min(start + 8, len(lowers))):
            if lowers[end] == "to":
                return start, end + 1
        return None

    def _word(self, index: int, token: Token, lower: str) -> int:
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
        if lower in ("a", "an") and self._one_unit(index):
            return self._finish_number(index, 1.0, 1.0, token.text)
        if lower in NUMBER_WORDS and (end := self._number_words(index, lower)) is not None:
            return end
        if lower in _PERIODS and self._before(index) in ("every", "each"):
            self.sorts.add(f"frequency:{canonical(lower)}")
            self.topics.add("frequency")
        if lower == "old" and self.values and self.values[-1].unit == "duration":
            return index + 1  # "34 years old" is an age
        if lower in CHANGE_WORDS:
            self.change = True
        if lower in PAST_WORDS and not (lower == "used-to" and self._before(index) in COPULAS):
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
        capital = bool(index) and token.text[0].isupper()
        if (
            lower in FILLERS
            and not possessive
            and not (capital and (lower in SORTS or token.text == "A"))
            and not (lower == "longer" and self._before(index) not in ("no", "any"))
        ):
            return index + 1
        self._add(token, lower, index, possessive=possessive)
        return index + 1

    def _negate(self, lower: str, index: int) -> None:
        after = self._next(index)
        if lower in ("stopped", "stops") and not after.endswith("ing"):
            return
        if lower in ("stopped", "stops", "quit"):
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
        if (
            self.verb
            and lower in AUXILIARIES
            and self.verb not in AUXILIARIES
            and not self.firm
            and self._before(index) not in ("that", "which", "who", "what", "where", "and")
        ):
            self.verb = ""  # "quarterly reports are due": a noun was taken for the verb
        if not self.verb and lower in VERBS:
            self.verb = lower
            self.subject = list(self.order)
            self.verb_at = index
            past_habit = self.past and f"{lower}s" in SINGLE_VERBS
            self.single_verb = lower in SINGLE_VERBS or lower in CHANGE_VERBS or past_habit
            if self.indefinite and lower in COPULAS and self._next(index) in PLACES:
                self.scene = True
            self.firm = bool(self.person) and not self.order
            return
        if self.verb in AUXILIARIES and index - self.verb_at <= 3 and not self.main_verb:
            passive = (
                lower.endswith(("ed", "en"))
                and len(lower) > 4
                and self.verb in COPULAS
                and self._next(index) in PLACES
                and lower not in MANY_PARTICIPLES
            )
            if lower in SINGLE_VERBS or passive:
                self.main_verb = self.single_verb = True
                self.main_word = lower
            elif lower.endswith("ed") and self.verb in COPULAS and len(lower) > 5:
                self.main_verb = True
                self.main_word = lower
            elif lower.endswith("ing") and lower not in MANY_VERBS and len(lower) > 5:
                self.main_verb = True
                self.main_word = lower
                self.scene = self.indefinite or self.scene

    def _add(self, token: Token, lower: str, index: int, *, possessive: bool = False) -> None:
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
        if self.verb in COPULAS or not self.verb:
            if self.main_verb:
                return False
            if self._next(self.verb_at) in PLACES and self.verb:
                return True
            if not self.verb and len(self.order) > 2:
                return False
            before = self.tokens[: self.verb_at] if self.verb_at else self.tokens
            lowered = {token.lower for token in before}
            lowered |= {word.removesuffix("s") for word in lowered}
            return self.owned or not lowered.isdisjoint(_ONE_VALUED)
        return False

    def _turn_round(self, definite_after: int) -> None:
        """ "Postgres is our database" says what our database is: the subject is the value."""
        after = self._next(self.verb_at)
        if (
            self.verb in LEADING_VERBS
            and self.subject
            and (after in ("the", "our", "my", "their", "his", "her") or after.endswith("'s"))
        ):
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
        if self.verb not in _LINKING or definite_after < 0 or not 1 <= len(self.subject) <= 3:
            return
        opener = next(
            (
                t.lower
                for t in self.tokens[definite_after:]
                if t.lower not in COPULAS and t.lower not in NEGATORS and t.lower not in _ADVERBS
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
