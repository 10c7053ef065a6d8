"""Find what people say about themselves and how they want to be answered (P10, P22).

A preference is what its author states for themselves and for more than this
turn. `expertise` is what they are or know, `domain` the field they work in or
follow, `style` how answers should be, `custom` everything else: likes and
dislikes, habits, diets, names. Questions, quotations, conditions, reports about
others and plain requests are none. docs/preferences.md draws the line with
examples.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from typing import Any, Literal, get_args

from agentmem.base.checks import require_choice, require_count, require_text, require_unit
from agentmem.base.errors import InvalidMessage
from agentmem.base.lazy import compile_late
from agentmem.base.types import Message
from agentmem.data import patterns_of
from agentmem.text.language import is_greeting
from agentmem.text.statements import (
    Clause,
    Embed,
    Kind,
    S,
    Told,
    any_of,
    clauses,
    listed,
    marks,
    own_words,
    split,
    tell,
)

P = patterns_of("preferences.json")
"""What rules match: lower-case text in which runs of white space are one space."""


# ----------------------------------------------------------------------------
# Sentences and the places in them where somebody may state something for themselves.
#
# A statement is only looked for at the beginning of a clause, so "do I prefer
# tea" and "she knows I prefer tea" have none: there the clause begins with another
# word. Whether a clause is meant, and its author's own, `_passing` tells of all clauses.


LONGEST_SENTENCE = 1_200


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence of `source` with single spaces, lower-case, and the way back to it."""

    source: str
    text: str
    offsets: tuple[int, ...]
    asks: bool

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Where the characters `start` to `end` of the sentence stand in the source."""
        return self.offsets[start], self.offsets[end - 1] + 1


def sentences(text: str) -> Iterator[Sentence]:
    """The sentences of `text` in its author's own words that may hold a statement, in order."""
    words = own_words(text)
    for start, end, stop in split(words):
        if P.cue.search(words[start:end]):
            asks = "?" in stop or "？" in stop
            for at in range(start, end, LONGEST_SENTENCE):
                spoken, offsets = _single_spaced(words, at, min(end, at + LONGEST_SENTENCE))
                if spoken:
                    yield Sentence(text, spoken, offsets, asks)


def _candidates(text: str) -> Iterator[tuple[int, int]]:
    """Each place where a clause may end and another begin."""
    yield 0, 0
    yield from (match.span() for match in P.boundary.finditer(text))


def _statement_end(sentence: Sentence) -> int:
    """Up to where a sentence states; a question that begins later leaves its front a statement."""
    text = sentence.text
    if not sentence.asks or (P.assent.search(text) and not P.asking.match(text)):
        return len(text) + 1
    for lead, start in _candidates(text):
        if P.asking.match(text, start):
            tag = text[start:].rstrip("? ")
            return 0 if tag in ("right", "correct", "no", "huh", "eh", "really", "yes") else lead
    return 0


def _single_spaced(words: str, start: int, end: int) -> tuple[str, tuple[int, ...]]:
    """A sentence without its bullets, and where each of its characters stands."""
    while (bullet := P.bullet.match(words, start, end)) and bullet.end() < end:
        start = bullet.end()
    found = [*P.word.finditer(words, start, end)]
    offsets = (at for word in found for at in range(word.start(), word.end() + 1))
    return " ".join(word[0] for word in found), tuple(offsets)


# ----------------------------------------------------------------------------
# What a rule for a statement about oneself is, and when its match counts.
#
# The rules are data: `attitudes` and `identities` (what follows "I"), `my` and `other_subjects`
# ("My favourite …", "… is not for me"), `instructions` (what is said to the assistant).


PreferenceType = Literal["expertise", "style", "domain", "custom"]
Polarity = Literal["for", "against", "neutral"]


@dataclass(frozen=True, slots=True)
class RecognisedStatement:
    """A recognised statement: what it is about stands from `start` to `end` of the sentence."""

    type: PreferenceType = "custom"
    polarity: Polarity = "for"
    confidence: float = 0.9
    slot: str = ""
    start: int = 0
    end: int = 0

    def about(self, span: tuple[int, int]) -> RecognisedStatement:
        """The same of what stands in `span`."""
        return replace(self, start=span[0], end=span[1])


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule(RecognisedStatement):
    """A statement with the pattern that tells it, whose group `about` is the subject.

    `shared` rules also hold for a second predicate with the subject left out,
    as in "I like tea and avoid coffee". `vague` ones take any object.
    """

    pattern: re.Pattern[str]
    shared: bool = False
    vague: bool = False


@lru_cache(maxsize=8)
def rules_of(group: str) -> tuple[Rule, ...]:
    """The rules of a group of the data file, in order: the first that fits decides."""
    return tuple(
        Rule(**{**fields, "pattern": compile_late(P.expand(fields["pattern"]))})
        for fields in P.told["rules"][group]
    )


def checked(rule: Rule, match: re.Match[str]) -> RecognisedStatement | None:
    """What `match` found, or None when it is about this turn only or about nothing."""
    about = match["about"].strip()
    value = match.groupdict().get("value")
    if value and P.of_this.search(about):
        return None
    if value and not about:  # "My favourite is tea" is about tea
        return replace(rule, slot="").about(match.span("value"))
    if not rule.vague and P.deictic.match(about) and not P.generic_it.match(about):
        return None
    kind, polarity = rule.type, rule.polarity
    if rule.slot == "role":
        kind = role_type(about)
    elif polarity == "for" and (P.turned.match(about) or match[0].startswith("my least")):
        polarity = "against"
    if kind == "custom" and not rule.slot and P.about_answers.search(about):
        kind = "style"
    return replace(rule, type=kind, polarity=polarity).about(match.span("about"))


def role_type(about: str) -> PreferenceType:
    """Whether being `about` says what one knows (`expertise`) or how one lives (`custom`)."""
    knows = P.expert.match(about) and not P.not_expert.match(about)
    return "expertise" if knows else "custom"


# ----------------------------------------------------------------------------
# What is said to the assistant about every answer: names, language, length, tone, form.


def instruct(
    text: str, start: int, end: int, *, lasting: bool = False
) -> RecognisedStatement | None:
    """What the clause at `start` asks of every answer; `lasting` after "From now on, …"."""
    for rule in rules_of("instructions"):
        if match := rule.pattern.match(text, start, end):
            return rule.about(match.span("about"))
    for pattern in (P.forbidden, P.styled, P.wish):
        if match := pattern.match(text, start, end):
            less = pattern is P.forbidden or match["about"].startswith(("use fewer ", "use less "))
            return _asked("style", "against" if less else "for", match, 0.8)
    bare = P.bare_end.search(text, max(start, end - 20), end)
    if bare and (match := P.bare_form.match(text, start, end)):
        less = match["about"].startswith(("no ", "zero ", "less ", "fewer "))
        return _asked("style", "against" if less else "for", match, 0.75)
    if match := P.always.match(text, start, end):
        if P.proverbial.search(match["about"]):
            return None
        return _asked(None, "for" if match["how"] == "always" else "against", match, 0.85)
    # An order marked as lasting: "From now on, …", "… by default".
    head = P.durable_head.match(text, start, end)
    if head or lasting or P.durable.search(text, start, end):
        match = P.order.match(text, head.end() if head else start, end)
        return _asked(None, "neutral", match, 0.85) if match else None
    return None


def _asked(
    kind: PreferenceType | None, polarity: Polarity, match: re.Match[str], confidence: float
) -> RecognisedStatement:
    """An order; of style where its kind is not told and its words say so."""
    kind = kind or ("style" if P.style.match(match["about"]) else "custom")
    return RecognisedStatement(kind, polarity, confidence).about(match.span("about"))


# ----------------------------------------------------------------------------
# Read one clause by its subject: "I …", "My favourite …", "… is not for me", "As a nurse, I …".


ABOUT_ONESELF = ("attitudes", "identities")
"""The rules of what follows "I"."""


def state(
    text: str, start: int, end: int, groups: Sequence[str], *, shared: bool = False
) -> RecognisedStatement | None:
    """What the first fitting rule of `groups` tells of the speaker of the clause at `start`;
    of the `shared` rules where its "I" was left out."""
    for rule in chain.from_iterable(map(rules_of, groups)):
        match = rule.pattern.match(text, start, end) if rule.shared or not shared else None
        if match and (found := checked(rule, match)):
            return found
    return None


def introduce(text: str, start: int) -> RecognisedStatement | None:
    """What "As a …, I …" says its speaker is."""
    match = P.as_a.match(text, start)
    if match is None or not P.as_a_self.match(text, match.end()):
        return None
    about = match["about"]
    if not (P.expert.match(about) or P.not_expert.match(about) or is_need(about)):
        return None
    found = RecognisedStatement(role_type(about), "neutral", 0.7, "role")
    return found.about(match.span("about"))


LONGEST_STATEMENT = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class DetectedPreference:
    """One statement, as its author made it.

    `content` is the statement with single spaces, its subject restored where
    it was left out; `subject` what it is about; `quote` the characters `start`
    to `end` of the text. `slot` names the kind of thing of which there is one
    at a time, such as the name; it is empty for most.
    """

    type: PreferenceType
    content: str
    subject: str
    polarity: Polarity = "neutral"
    quote: str = ""
    start: int = 0
    end: int = 0
    confidence: float = 1.0
    slot: str = ""

    def __post_init__(self) -> None:
        require_choice(self.type, get_args(PreferenceType), "type")
        require_choice(self.polarity, get_args(Polarity), "polarity")
        for name in ("content", "subject", "quote", "slot"):
            require_text(getattr(self, name), name)
        require_count(self.start, "start")
        require_count(self.end, "end", least=self.start)
        require_unit(self.confidence, "confidence")


def detect_preferences(text: str) -> tuple[DetectedPreference, ...]:
    """The lasting statements in `text`, in order; none for a text without one.

    Linear in the text, and English only: `hear` reads other languages and other wordings.
    """
    require_text(text, "text")
    stated = tuple(_explicit(text))
    told = tell(clauses(text[:LONGEST_TEXT])) if stated else ()
    passing = _passing(text, told)
    unmeant = [one for one in told if one.clause.at in passing]
    return tuple(
        found
        for found in stated
        if found.slot == "level-of-answers" or not any(overlaps(found, one) for one in unmeant)
    )


def _explicit(text: str) -> Iterator[DetectedPreference]:
    """What the rules find in a text, whether it is meant or not."""
    for sentence in sentences(text):
        yield from _in_sentence(sentence)


def text_parts(content: Any) -> Iterator[str]:
    """The texts of a message's content; not its tool results, images and files."""
    if isinstance(content, str):
        content = [content]
    for part in content if isinstance(content, Sequence) else ():
        typed = isinstance(part, Mapping) and part.get("type") in ("text", "input_text")
        text = part.get("text") if typed else part
        if isinstance(text, str):
            yield text


def _in_sentence(sentence: Sentence) -> Iterator[DetectedPreference]:
    spoken, limit = sentence.text, _statement_end(sentence)
    candidates = list(_candidates(spoken))
    self_named = lasting = False
    done = 0
    greeting = None if sentence.asks else P.greeting_name.match(spoken)
    if greeting and sentence.source[sentence.span(*greeting.span("about"))[0]].isupper():
        # Without the greeting it could be anything that one is: "Hi, I'm Ana".
        name = RecognisedStatement("custom", "neutral", 0.7, "name").about(greeting.span("about"))
        done = greeting.end()
        yield _detected(sentence, name, greeting.start("lead"), done)
    for _, place in candidates:
        if not done <= place < limit:
            continue
        if found := introduce(spoken, place):
            yield _detected(sentence, found, place, found.end)
            continue
        opener = P.openers.match(spoken, place)
        start = opener.end() if opener else place
        end = _clause_end(spoken, start, candidates[1:])
        lasting = lasting or bool(P.durable_head.match(spoken, place))  # "From now on"
        found = instruct(spoken, start, end, lasting=lasting)
        shared = False
        if subject := P.subject.match(spoken, start):
            self_named = True
            found = found or state(spoken, subject.end(), end, ABOUT_ONESELF)
        else:
            self_named = self_named or spoken.startswith(("i,", "i "), start)
            mine, said = spoken.startswith("my ", start), spoken[start:end]
            if mine or " me" in said or " my " in said:
                found = found or state(spoken, start, end, ("my" if mine else "other_subjects",))
            if found is None and self_named and place and P.shared_head.match(spoken, start):
                found = state(spoken, start, end, ABOUT_ONESELF, shared=True)
                shared = found is not None
        if found is None and opener:
            # The words skipped as an opening may have been the beginning after all.
            start = place
            found = instruct(spoken, start, end, lasting=lasting)
        if found is None or (sentence.asks and P.asking.match(spoken, start)):
            continue
        if start and listed("hedged").match(spoken):
            continue  # "If I write in Polish, answer in Polish" says one thing, not two
        yield _detected(sentence, found, start, end, shared=shared)
        done = end


def _clause_end(spoken: str, start: int, edges: list[tuple[int, int]]) -> int:
    """Where the clause at `start` gives way to one with words of its own."""
    limit = min(len(spoken), start + LONGEST_STATEMENT)
    for lead, following in edges:
        if not start < lead < limit or P.subordinate.match(spoken, following):
            continue
        if spoken[lead] == ";" or P.new_clause.match(spoken, following):
            return lead
    return limit


def _detected(
    sentence: Sentence, found: RecognisedStatement, start: int, end: int, *, shared: bool = False
) -> DetectedPreference:
    trailing = P.trailing.search(sentence.text, start, end)
    stop = max(trailing.start() if trailing else end, start + 1)
    first, last = sentence.span(start, stop)
    quote = sentence.source[first:last]
    content = _one_line(quote).rstrip(".!")
    return DetectedPreference(
        type=found.type,
        content=f"I {content}" if shared else content,
        subject=_subject(sentence, found, stop),
        polarity=found.polarity,
        quote=quote,
        start=first,
        end=last,
        confidence=found.confidence,
        slot=found.slot,
    )


def _subject(sentence: Sentence, found: RecognisedStatement, stop: int) -> str:
    """What the statement is about, without its reason or condition."""
    end = min(found.end, stop)
    start = end - len(sentence.text[found.start : end].lstrip(" "))
    reason = P.reason.search(sentence.text, start + 2, end) if end - start > 2 else None
    end = reason.start() if reason else end
    if start >= end:
        return ""
    first, last = sentence.span(start, end)
    return _one_line(sentence.source[first:last]).strip(" ,;:.!")


def _one_line(text: str) -> str:
    return " ".join(text.split())


# ----------------------------------------------------------------------------
# Hear what a message says about its author: what stands from now on, and what is taken back.
#
# Rules (`preferences.detect_preferences`) give the exact words, type and polarity of explicit
# statements; the fitted models of `statements` hear the rest, in eight languages, and have a veto.
# Whatever is about this answer only, about somebody else, pretended or a task is not kept.


KEPT: tuple[Kind, ...] = ("like", "dislike", "instruct", "avoid", "identity")
AGAINST: tuple[Kind, ...] = ("dislike", "avoid")
SURE, SURE_IN_LONG = 0.48, 0.93
"""So likely must a clause be a statement to be kept, in a short message and in a long one."""
LONGEST_TEXT = 30_000
"""The models read no further: what is longer is material."""
HEARING_SHORT, HEARING_LONG = 120, 400
"""Up to so many characters a message is short; from so many on it is long: mostly a task with
its material. Between the two a clause must be the likelier the longer the message is."""
SURE_BY_LETTERS = 0.62
"""The same where there are no vectors."""
SURE_OF_NEEDS = 0.3
"""Of an allergy, a diet, an illness: missing one is worse than keeping one too many."""
VETO, VETO_IN_LONG = 0.3, 0.7
"""What the rules find is not kept when the models think it less likely than this."""
VETO_ALONE, VETO_OF_ROLES = 0.02, 0.1
"""The same of what is the whole message, and where there are no vectors."""
TAKEN_BACK = 0.4
MAY_BE_STATED = 0.17
"""From this chance on a taking back of nothing that stands is a statement itself."""
ENDS_TOO = 0.2
"""From this chance on a statement also ends what it shares words with: "I quit logistics"."""
ONCE = 0.4


@dataclass(frozen=True, slots=True, kw_only=True)
class Retraction:
    """A clause that takes something back; `stems` say what.

    One that says only "that" (`latest`), or nothing, means the latest statement. A
    `former` one says that something "used to" hold; it ends what says the same of now.
    `everything` takes back all that stands: "forget everything I told you about myself".
    What may be a taking back or a statement ("stop using emojis", "I quit smoking") stands
    as `otherwise` where there is nothing to take back.
    """

    text: str
    stems: frozenset[str]
    latest: bool = False
    start: int = 0
    former: Literal["", "for", "against"] = ""
    everything: bool = False
    otherwise: DetectedPreference | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """What a text states and what it takes back, in the order of the text; `told` are its clauses
    that are its author's own and for more than this answer."""

    stated: tuple[DetectedPreference, ...] = ()
    retracted: tuple[Retraction, ...] = ()
    text: str = ""
    told: tuple[Told, ...] = ()


def hear(text: str, embed: Embed | None = None) -> Heard:
    """What `text` says about its author; nothing for most texts (P10, P41)."""
    if is_greeting(text):
        return Heard(text=text)
    message = clauses(text[:LONGEST_TEXT])
    foreign = P.other_script.search(text) or len(P.other_letter.findall(text.lower())) > 2
    if not message or foreign:  # in none of the languages that the models know
        return Heard(stated=detect_preferences(text), text=text)
    told = tell(message, embed)
    passing = _passing(text, told) | {one.clause.at for one in told if _heads_a_task(text, one)}
    short = SURE if embed is not None and embed([]) is not None else SURE_BY_LETTERS
    length = min(1.0, max(0.0, (len(text) - HEARING_SHORT) / (HEARING_LONG - HEARING_SHORT)))
    sure = short + (SURE_IN_LONG - short) * length
    stated: list[DetectedPreference] = []
    retracted: list[Retraction] = []
    used: set[int] = set()
    for found in _explicit(text):
        over = [one for one in told if overlaps(found, one)]
        if any(one.clause.at in passing for one in over):
            continue
        alone = len(message) == 1 or short == SURE_BY_LETTERS
        veto = VETO if not alone else VETO_OF_ROLES if found.slot == "role" else VETO_ALONE
        kept = _unless_vetoed(
            text, found, over, VETO_IN_LONG if len(text) >= HEARING_LONG else veto
        )
        if kept is not None:
            stated.append(kept)
            used |= {one.clause.at for one in over if one.clause.start < kept.end}
    for one in told:
        clause = one.clause
        if clause.at in passing or clause.at in used:
            continue
        if former := _former(text, clause):
            retracted.append(former)
            if one.kind != "dislike" or former.former == "against":
                passing.add(clause.at)  # it says nothing of now: "I live in Oslo" goes on standing
                continue  # "I used to love beer" may be a dislike
        elif one.chance("retract") > TAKEN_BACK:
            likely = one.chance(*KEPT) > MAY_BE_STATED and one.chance("other", "once") < 1 - sure
            maybe = likely and not is_need(clause.words)  # "no known allergies"
            otherwise = _stated(text, one.among(KEPT)) if maybe else None
            retracted.append(replace(_retraction(text, clause), otherwise=otherwise))
            continue
        formula = P.formula.search(clause.words) and slot_of(clause.words) != "pronouns"
        needed = SURE_IN_LONG if formula else sure
        needed = min(needed, SURE_OF_NEEDS) if is_need(clause.words) else needed
        nothing = one.chance("other", "once")
        stating = one.chance(*KEPT) > one.chance("retract") and 1 - nothing > needed
        if stating and not _is_not_theirs(one):
            stated.append(_stated(text, _with_object(one.among(KEPT), told)))
            if one.chance("retract") > ENDS_TOO:
                ended = _retraction(text, clause)
                retracted += [replace(ended, latest=False)] if ended.stems else []
    stated.sort(key=lambda one: (one.start, one.end))
    stated, retracted = _within(stated, retracted)
    own = tuple(one for one in told if one.clause.at not in passing)
    return Heard(stated=tuple(stated), retracted=tuple(retracted), text=text, told=own)


def overlaps(stated: DetectedPreference, one: Told) -> bool:
    """Whether a statement and a clause share some of the text."""
    return stated.start < one.clause.end and one.clause.start < stated.end


def stated_in(text: str, one: Told) -> DetectedPreference | None:
    """What a clause that ends a standing statement says instead of it: "Ghent now"."""
    kept = one.chance(*KEPT)
    if kept < MAY_BE_STATED or kept < one.chance("retract") or _is_not_theirs(one):
        return None
    return _stated(text, one.among(KEPT))


def _with_object(one: Told, told: Sequence[Told]) -> Told:
    """A clause with the one before it where it speaks of "them": "I tried figs and I love them"."""
    before = told[one.clause.at - 1].clause if one.clause.at else one.clause
    if before.first != one.clause.first or not P.ends_in_pronoun.search(one.clause.words):
        return one
    return replace(one, clause=replace(one.clause, start=before.start))


def _within(
    stated: Sequence[DetectedPreference], retracted: Sequence[Retraction]
) -> tuple[list[DetectedPreference], list[Retraction]]:
    """What stands of a message that takes back what it said itself, and what goes further back."""
    left = list(stated)
    further: list[Retraction] = []
    for one in retracted:
        said = [(str(p.start), p.content) for p in reversed(left) if p.start < one.start]
        meant = () if one.former else matching(one, said, recent=len(said))
        left = [p for p in left if str(p.start) not in meant]
        if not meant or one.everything:
            further.append(one)
    return left, further


def _passing(text: str, told: Sequence[Told]) -> set[int]:
    """The places of clauses that are pretended, ironic, somebody else's or for this answer only."""
    found: set[int] = set()
    pretended = ironic = once = others = False
    for at, one in enumerate(told):
        clause = one.clause
        follows = at > 0 and told[at - 1].clause.first == clause.first
        goes_on = at + 1 < len(told) and told[at + 1].clause.first == clause.first
        pretended = pretended or names("pretend", clause.words)
        ironic = ironic or bool(listed("sarcasm").match(clause.words))
        once = one.chance("once") > ONCE or (once and follows)
        others = (others and follows) or bool(listed("reported").match(clause.words))
        others = others or _speaks_for_another(text, clause)
        said = goes_on and bool(P.hearing_attributed.match(told[at + 1].clause.words))
        hedged = bool(listed("hedged").match(clause.words)) and (
            one.kind not in ("instruct", "avoid") or clause.words.startswith("whether ")
        )
        if pretended or ironic or once or others or said or hedged:
            found.add(clause.at)
    return found


def _heads_a_task(text: str, one: Told) -> bool:
    """Whether a wish is for what stands after its colon: "Yes or no only: is a whale a fish?"."""
    wish = one.kind in ("instruct", "avoid") or one.chance("once") > ONCE / 2
    after = text[one.clause.end : one.clause.end + 1] in (":", "：")
    return wish and after and not marks()["lasting"].search(one.clause.words)


def _speaks_for_another(text: str, clause: Clause) -> bool:
    """Whether a clause is the "Anna" of a pasted line "Anna: I love tea"."""
    label = text[clause.start : clause.end]
    named = [word[:1].isupper() for word in label.split()]  # "Quick thing: …" is nobody
    words = clause.words.split()  # nor is "Kleines Update: …"
    if len(named) > 2 or not all(named):
        return False
    before = text[: clause.start].rstrip(" \t")
    if text[clause.end : clause.end + 1] not in (":", "：") or (before and before[-1] != "\n"):
        return False
    return not any(listed("own labels").fullmatch(one) for one in (clause.words, *words))


def _unled(words: str) -> str:
    lead = P.leads.match(words)
    return (words[lead.end() :] if lead else words).removeprefix("please ")


def _is_not_theirs(one: Told) -> bool:
    """Whether what is taken for a statement is a question, a denial, or what somebody of the
    family likes, wants or needs."""
    words = _unled(one.clause.words)
    kin = marks()["kin"].match(words)
    of_kin = kin and not marks()["me"].search(words[kin.end() :])
    denied = one.kind == "identity" and listed("denied").match(words)
    if denied or (of_kin and (one.kind != "identity" or is_need(words))):
        return True
    wish = one.kind in ("instruct", "avoid")
    return not wish and (one.clause.asks or bool(P.question.match(words)))


def _former(text: str, clause: Clause) -> Retraction | None:
    """What "I used to live in Rome" ends, if "I live in Rome" stands."""
    used = listed("used to").match(_unled(clause.words))
    left = stems(_unled(clause.words)[used.end() :]) if used else frozenset()
    if not left:
        return None
    said, start = _one_line(text[clause.start : clause.end]), clause.start
    turned = names("disliked", clause.words)
    return Retraction(text=said, stems=left, start=start, former="against" if turned else "for")


@lru_cache(2_048)
def is_need(text: str) -> bool:
    """Whether a statement is of health, diet or access, which every answer must know."""
    return names("needs", text.lower())


def names(list_: str, words: str) -> bool:
    """Whether lower-case `words` hold one of a list of the data file: "now" is of `changed`."""
    return listed(list_).search(words) is not None


def in_first_person(text: str) -> bool:
    """Whether a text begins with its author: "I", "my", "we", in six languages."""
    return P.author.match(text) is not None


def of_project(text: str) -> bool:
    """Whether a statement holds in the project at hand: "we use pnpm here"."""
    return names("project", text.lower())


def correction(text: str, newest: str) -> tuple[str, int] | None:
    """The `newest` statement as `text` corrects it: "typo, Leo", "it's Bonn, not Köln".

    With it, up to where in the text the correction goes.
    """
    slot = slot_of(newest.lower())
    if slot in ("name", "surname") and (match := P.corrected.search(text)):
        name = next(filter(None, match.groups()), "")
        if name.lower() not in _empty():
            return f"My {slot} is {name}", match.end()
    if match := P.swapped.match(text):
        old = re.compile(rf"(?<!\w){re.escape(match['old'] or match['older'])}(?!\w)", re.I)
        new = match["new"] or match["newer"]
        named = match["new"] or match["older"][0].isupper()  # not "not bad, thanks"
        if named and old.search(newest) and new.lower() not in _empty():
            return old.sub(lambda _: new, newest, count=1), match.end()
    match = P.rather.match(text)
    if match and len(newest.split()) <= 10 and match["new"].lower() not in _empty():
        return f"{newest.rsplit(' ', 1)[0]} {match['new']}", match.end()
    return None


def hear_messages(
    messages: Iterable[Message],
    *,
    embed: Embed | None = None,
    strip: Callable[[Sequence[Message]], Sequence[Message]] | None = None,
) -> tuple[Heard, ...]:
    """What the user's own turns say, oldest first; only their text is read (P22)."""
    if not isinstance(messages, Iterable) or isinstance(messages, str | bytes | Mapping):
        raise InvalidMessage("messages", messages, "is not a list", remedy="Pass a list of dicts.")
    turns = list(messages)
    for turn in turns:
        if not isinstance(turn, Mapping):
            raise InvalidMessage("message", turn, "is not a mapping", remedy="Pass dict messages.")
    cleaned = turns if strip is None else strip(turns)
    return tuple(
        hear(part, embed)
        for turn in cleaned
        if turn.get("role") == "user" and not turn.get("tool_call_id")
        for part in text_parts(turn.get("content"))
    )


def matching(
    retraction: Retraction, standing: Sequence[tuple[str, str]], *, recent: int
) -> tuple[str, ...]:
    """The ids in `standing` (id and text, newest first) that `retraction` speaks of.

    Those that share most of its stems; failing that, the latest one when it
    says "that" or nothing, if it is among the first `recent`.
    """
    if retraction.everything:
        return tuple(id_ for id_, _ in standing)
    latest = tuple(id_ for id_, _ in standing[: min(1, recent)])
    if not retraction.stems:
        return latest
    held = {id_: stems(text) for id_, text in standing}
    # "I'm not allergic to cats" leaves an allergy to nuts alone.
    named = retraction.stems.difference(S.told["general"])
    shared = {
        id_: len(retraction.stems & said)
        for id_, said in held.items()
        if not named or not said.isdisjoint(named)
    }
    most = max(shared.values(), default=0)
    if most and (not retraction.former or 2 * most > len(retraction.stems)):
        return tuple(id_ for id_, count in shared.items() if count == most)
    return latest if retraction.latest and not retraction.former else ()


def stems(text: str) -> frozenset[str]:
    """The beginnings of the words that carry `text`; pairs of characters in East Asian scripts."""
    lowered = text.lower().replace("’", "'")
    found = {
        word.strip("'")[:5] if len(word) > 5 else word.rstrip("s")
        for match in P.hearing_word.finditer(P.wide.sub(" ", lowered))
        if (word := match[0]) not in _empty()
    }
    for run in P.wide.findall(lowered):
        found |= {run[at : at + 2] for at in range(len(run) - 1)} - _empty()
    return frozenset(found)


def slot_of(words: str) -> str:
    """The kind of thing of which one holds at a time that a clause speaks of; mostly none."""
    slots = S.told["slots"].items()
    return next((name for name, listing in slots if any_of(listing).search(words)), "")


def _unless_vetoed(
    text: str, found: DetectedPreference, over: Sequence[Told], veto: float
) -> DetectedPreference | None:
    """What the rules found, cut where the models hear something else begin, or None when they
    refuse it; its polarity is theirs where the rules hear liking in a ban."""
    if not over:
        return found
    best = max(over, key=lambda one: one.chance(*KEPT))
    if best.chance(*KEPT) < veto or best.chance("retract", "once") > 0.5:
        return None
    last = ([one for one in over if one.chance(*KEPT) > 0.5] or [best])[-1]
    if found.start < last.clause.end < found.end:
        quote = text[found.start : last.clause.end]
        extra = len(_one_line(found.quote)) - len(_one_line(quote))
        content = found.content[: max(1, len(found.content) - extra)].rstrip(" ,.;:") or quote
        subject = found.subject if found.subject in content else content
        found = replace(found, quote=quote, end=last.clause.end, content=content, subject=subject)
    against = best.chance(*AGAINST) / best.chance(*KEPT)
    if found.polarity == "for" and against > 0.8:  # "no" was no opening word of "no emojis"
        return replace(_stated(text, best), type=found.type)
    ill = names("unwell", found.content.lower())
    if found.polarity == "neutral" and (ill or against > 0.8 or _bans(best.clause)):
        found = replace(found, polarity="against")
    if not found.slot and best.kind in ("identity", "instruct"):
        found = replace(found, slot=_one_slot(best))
    return found


def _stated(text: str, one: Told) -> DetectedPreference:
    clause = one.clause
    quote = text[clause.start : clause.end]
    content = _one_line(quote).rstrip(".!")
    lead = P.leads.match(content)
    content = (content[lead.end() :] if lead else content) or quote
    kind = one.kind
    said = _unled(clause.words).split(", not ")[0]  # "we use pnpm here, not npm"
    usual: Polarity = "for"
    against = kind in AGAINST or one.chance(*AGAINST) > one.chance("like", "instruct")
    if kind == "identity":
        usual, against = "neutral", names("against", said)
    return DetectedPreference(
        type="style" if kind in ("instruct", "avoid") else "custom",
        content=content,
        subject=content,
        polarity="against" if against or _bans(clause) else usual,
        quote=quote,
        start=clause.start,
        end=clause.end,
        confidence=min(1.0, one.chance(*KEPT)),
        slot=_one_slot(one),
    )


def _bans(clause: Clause) -> bool:
    """Whether a clause begins by forbidding something, or calls it forbidden."""
    words = _unled(clause.words)
    led = listed("bans").match(words) or listed("rather").match(words)
    return bool(led) or names("banned", words)


def _one_slot(one: Told) -> str:
    slot = slot_of(one.clause.words) if one.kind not in AGAINST else ""
    if slot in ("diet", "location") and one.kind in ("like", "instruct"):
        slot = ""  # "I love vegan food" is no diet
    return f"one {slot}" if slot else ""


def _retraction(text: str, clause: Clause) -> Retraction:
    return Retraction(
        text=_one_line(text[clause.start : clause.end]),
        stems=stems(clause.words),
        latest=names("that", clause.words),
        start=clause.start,
        everything=names("everything", clause.words),
    )


@lru_cache(maxsize=1)
def _empty() -> frozenset[str]:
    return frozenset(S.told["empty"])
