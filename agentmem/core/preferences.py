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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, get_args

from agentmem.core.checks import require_choice, require_count, require_text, require_unit
from agentmem.core.patterns import LazyPattern
from agentmem.core.preference_clauses import (
    Place,
    Sentence,
    asking,
    attributed,
    boundaries,
    own_words,
    places,
    sentences,
)
from agentmem.core.preference_instructions import instruct, opens_lasting
from agentmem.core.preference_lexicon import either
from agentmem.core.preference_rules import Found, Polarity, PreferenceType
from agentmem.core.preference_subjects import describe, introduce, state
from agentmem.core.values import dataclass

LONGEST_STATEMENT = 300

_OPENERS = LazyPattern(
    r"(?:(?:"
    + either(
        r"""and|but|so|also|well|oh|ok|okay|plus|because|since|as|although|though|even though
    while|yet|or|cause|'cause|cuz|bc|whereas|however|therefore|hence|then|that's why
    which is why|except|hi|hello|hey|thanks|thank you|sorry|yes|yeah|yep|no|nope|nah|sure
    haha|lol|hmm|ah|wow|actually|honestly|personally|frankly|basically|obviously|clearly
    truthfully|admittedly|generally|usually|normally|typically|overall|in general
    to be honest|tbh|imo|imho|in my opinion|for me|as for me|as a rule|for my part|btw
    by the way|fyi|ps|p\.s\.|for the record|for context|for what it's worth
    for your information|in fact|of course|sadly|unfortunately|luckily|fortunately|note
    note that|please note|please note that|remember|remember that|please remember
    please remember that|keep in mind|keep in mind that|bear in mind that
    please keep in mind that|please know that|don't forget|don't forget that
    just so you know|you should know|you should know that|you should know something
    i should mention|i should mention that|i should say|i should add|i should add that
    i want you to know|i want you to know that|i'd like you to know
    i'd like you to know that|i have to say|i have to say that|i must say|i must admit
    i must admit that|i have to admit|i'll admit|i admit|i confess|i told you
    i told you that|i said|i mentioned|i mentioned that|as i said|as i mentioned
    like i said|as you know|i forgot to mention|i forgot to mention that|i forgot to say
    let me tell you|the thing is|the truth is|truth is|fact is|thing is|it's just that
    you see|you know|see|look|listen|given that|considering|considering that|seeing as
    seeing that|at work|at home|these days|nowadays|in my free time|in my spare time
    for fun|most of the time|as a kid|always have|deep down|at heart|on weekends
    on the weekends|all in all|either way|anyway|anyways|one thing|first|second
    first of all|secondly|finally|lastly|also note|important|i am someone who
    i'm someone who|i'm the kind of person who|i'm the type of person who
    i am the type of person who|i'm a person who"""
    )
    + r",? )|(?:i (?:think|guess|feel|feel like|believe|suppose|realized|realised|"
    r"find)|i've realized)"
    r"(?: that)? (?=(?:i|we|my|im)\b))+"
)
_SUBJECT = LazyPattern(
    r"(?:(?:i|we)(?: (?:myself|personally|for one|too|definitely))?|(?:both "
    r")?(?:me|my [\w-]+(?: [\w-]+)?|[\w-]+) and i)(?:,? (?=[\w])|(?=')|(?=m ))"
)
_NEW_CLAUSE = LazyPattern(
    r"(?:(?:and|but|so|or|yet|plus|because|since|as|although|though|then|also|"
    r"however|therefore|hence|which is why|that's why) )*"
    r"(?:i|i'm|i've|i'd|i'll|im|we|we're|we've|you|you're|he|she|they|they're|"
    r"it|it's|my|your|please|what|what's|which|where|how|why|who|can|could|"
    r"would|will|should"
    r"|is|are|do|does|did|don't|let|let's|call|thanks|thank|always|never|any|"
    r"prefer|avoid|dislike|hate|love|enjoy|despise|detest|loathe"
    r"|tend to|refuse|can't|cannot|won't|will not|only|exclusively|keep|explain|"
    r"use|answer|find|have|am|strongly|strictly)\b"
)
_SUBORDINATE = LazyPattern(r"(?:when|whenever|if|unless|while|where)\b")
_SHARED_HEAD = LazyPattern(
    r"(?!(?:i|we|you|he|she|they|it|my|your|the|a|an|so|too|more|many|lots|such|"
    r"much (?!prefer))\b)[a-z']"
)
_AMBIGUOUS = LazyPattern(
    r"(?:(?:really|also|just|still|truly|do|absolutely|always) )*(?:love|like|"
    r"value|fear|fancy|favou?r|hate|dread|dislike|work|use|study|practice|find|"
    r"have|am|are) "
)
_JOINED = LazyPattern(r"(?:and|but|yet|or)\b")
_VERB_OBJECT = LazyPattern(r"(?:to|my|the|a|an|all|any|being|\w+ing|when|it when)\b")
_TRAILING = LazyPattern(
    r"(?:[\s,;:–—-]|\b(?:and|but|so|or|because|since|as|please|though|although)\b)+\Z",
    re.IGNORECASE,
)
_REASON = LazyPattern(
    r"[.;!]|,? (?:because|since|due to|so that|so|as (?:i|it|they|he|she|a "
    r"result)|when|whenever|while|if|unless|but|and i|rather than"
    r"|instead of|over|even|especially|particularly|though|although|which|"
    r"thanks to|for (?:ethical|health|medical|religious|environmental|personal) "
    r"reasons|in order to)\b"
)
_GREETING_NAME = LazyPattern(
    r"(?:hi|hello|hey|good (?:morning|afternoon|evening))(?: there| all| "
    r"everyone)?[,!.]? (?P<lead>i'm|i am|my name is|this is|im) "
    r"(?P<about>[\w'-]+)(?=$|[.,!]| and | from | here)"
)


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

    Linear in the text, and English only: `hearing.hear` reads other languages
    and other wordings.
    """
    require_text(text, "text")
    found: list[DetectedPreference] = []
    for sentence in sentences(own_words(text)):
        found += _in_sentence(text, sentence)
    return tuple(found)


def text_parts(content: Any) -> Iterator[str]:
    """The texts of a message's content; not its tool results, images and files."""
    if isinstance(content, str):
        yield content
    elif isinstance(content, Sequence):
        for part in content:
            if isinstance(part, str):
                yield part
            elif isinstance(part, Mapping) and part.get("type") in ("text", "input_text"):
                text = part.get("text")
                if isinstance(text, str):
                    yield text


def _in_sentence(text: str, sentence: Sentence) -> Iterator[DetectedPreference]:
    spoken = sentence.text
    if sentence.pretended or attributed(sentence):
        return
    edges = list(boundaries(spoken))
    self_named = stated = lasting = False
    done = 0
    if greeting := _greeting(text, sentence):
        found_name, done = greeting
        yield found_name
    for place in places(sentence):
        if place.start < done:
            continue
        if found := introduce(spoken, place.start):
            yield _detected(text, sentence, found, start=place.start, end=found.end)
            continue
        opener = _OPENERS.match(spoken, place.start)
        start = opener.end() if opener else place.start
        end = _clause_end(spoken, start, edges)
        lasting = lasting or opens_lasting(spoken, place.start)
        found = instruct(spoken, start, end, lasting=lasting)
        shared = False
        if subject := _SUBJECT.match(spoken, start):
            self_named = True
            plural = spoken.startswith("we", start)
            found = found or state(spoken, subject.end(), end, plural=plural)
        else:
            self_named = self_named or spoken.startswith(("i,", "i "), start)
            found = found or describe(spoken, start, end)
            if found is None and self_named and _continues(spoken, place, start, stated):
                found = state(spoken, start, end, shared=True)
                shared = found is not None
        if found is None:
            # The words skipped as an opening may have been the beginning after all.
            start = place.start
            if opener:
                found = instruct(spoken, start, end, lasting=lasting)
        if found is None or (sentence.asks and asking(spoken, start)):
            continue
        yield _detected(text, sentence, found, start=start, end=end, shared=shared)
        stated = True
        done = end


def _greeting(text: str, sentence: Sentence) -> tuple[DetectedPreference, int] | None:
    """The name in "Hi, I'm Ana", without the greeting it could be anything one is; and where
    the rest of the sentence begins."""
    match = None if sentence.asks else _GREETING_NAME.match(sentence.text)
    if match is None or not text[sentence.span(*match.span("about"))[0]].isupper():
        return None
    found = Found("custom", "neutral", *match.span("about"), 0.7, "name")
    detected = _detected(text, sentence, found, start=match.start("lead"), end=match.end())
    return detected, match.end()


def _continues(spoken: str, place: Place, start: int, stated: bool) -> bool:
    """Whether a predicate may stand here whose "I" came earlier: "I like tea and avoid coffee".

    Words such as "love" and "like" are as often a noun or a preposition, so
    they need a statement before them or an object that shows the verb.
    """
    if not place.start or not _SHARED_HEAD.match(spoken, start):
        return False
    ambiguous = _AMBIGUOUS.match(spoken, start)
    if ambiguous is None:
        return True
    joined = bool(_JOINED.match(spoken, place.start))
    return joined and (stated or bool(_VERB_OBJECT.match(spoken, ambiguous.end())))


def _clause_end(spoken: str, start: int, edges: list[tuple[int, int]]) -> int:
    """Where the clause at `start` gives way to one with words of its own."""
    limit = min(len(spoken), start + LONGEST_STATEMENT)
    for lead, following in edges:
        if lead <= start:
            continue
        if lead >= limit:
            break
        if _SUBORDINATE.match(spoken, following):
            continue
        if spoken[lead] == ";" or _NEW_CLAUSE.match(spoken, following):
            return lead
    return limit


def _detected(
    text: str, sentence: Sentence, found: Found, *, start: int, end: int, shared: bool = False
) -> DetectedPreference:
    spoken = sentence.text
    trailing = _TRAILING.search(spoken, start, end)
    stop = max(trailing.start() if trailing else end, start + 1)
    quote_start, quote_end = sentence.span(start, stop)
    content = _one_line(text[quote_start:quote_end]).rstrip(".!")
    return DetectedPreference(
        type=found.type,
        content=f"I {content}" if shared else content,
        subject=_subject(text, sentence, found, stop),
        polarity=found.polarity,
        quote=text[quote_start:quote_end],
        start=quote_start,
        end=quote_end,
        confidence=found.confidence,
        slot=found.slot,
    )


def _subject(text: str, sentence: Sentence, found: Found, stop: int) -> str:
    """What the statement is about, without its reason or condition."""
    end = min(found.end, stop)
    while found.start < end and sentence.text[found.start] == " ":
        found = replace(found, start=found.start + 1)
    reason = _REASON.search(sentence.text, found.start + 2, end) if end - found.start > 2 else None
    end = reason.start() if reason else end
    if found.start >= end:
        return ""
    first, last = sentence.span(found.start, end)
    return _one_line(text[first:last]).strip(" ,;:.!")


def _one_line(text: str) -> str:
    return " ".join(text.split())


__all__ = [
    "DetectedPreference",
    "Polarity",
    "PreferenceType",
    "detect_preferences",
    "text_parts",
]
