"""What a rule for a statement about oneself is, and when its match counts.

The rules themselves are in `preference_attitudes` and `preference_identity`
(what follows "I"), `preference_subjects` ("My favourite …", "… is not for me")
and `preference_instructions` (what is said to the assistant).
"""

from __future__ import annotations

import re
from typing import Literal

from agentmem.core import preference_lexicon as lex
from agentmem.core.patterns import LazyPattern
from agentmem.core.preference_lexicon import BLANK
from agentmem.core.values import dataclass

PreferenceType = Literal["expertise", "style", "domain", "custom"]
Polarity = Literal["for", "against", "neutral"]


@dataclass(frozen=True, slots=True)
class Found:
    """A recognised statement: what it is about stands from `start` to `end` of the sentence."""

    type: PreferenceType
    polarity: Polarity
    start: int
    end: int
    confidence: float
    slot: str = ""


@dataclass(frozen=True, slots=True)
class Rule:
    """A pattern whose group `about` is the subject of the statement.

    `shared` rules also hold for a second predicate with the subject left out,
    as in "I like tea and avoid coffee". `vague` ones take any object.
    """

    pattern: LazyPattern
    type: PreferenceType = "custom"
    polarity: Polarity = "for"
    confidence: float = 0.9
    slot: str = ""
    shared: bool = False
    vague: bool = False


def rule(
    pattern: str,
    type: PreferenceType = "custom",  # noqa: A002  # the field's name
    polarity: Polarity = "for",
    *,
    confidence: float = 0.9,
    slot: str = "",
    shared: bool = False,
    vague: bool = False,
) -> Rule:
    return Rule(LazyPattern(pattern), type, polarity, confidence, slot, shared, vague)


_SOMETHING = LazyPattern(rf"[\w{BLANK}]")
_DEICTIC = LazyPattern(lex.DEICTIC)
_GENERIC_IT = LazyPattern(lex.GENERIC_IT)
_PASSING = LazyPattern(rf"\b{lex.PASSING}\b")
_ABOUT_ANSWERS = LazyPattern(
    rf"\b(?:(?:{lex.MANNER},? )+(?:answers?|responses?|replies|explanations?|"
    rf"summaries|feedback|messages|writing|communication|instructions)"
    r"|you(?:r)? (?:to )?(?:answer|respond|reply|explain|use|write|keep|give)"
    r"\w*|emojis?|emoticons|jargon|markdown|bullet points?"
    r"|bulleted lists|step[ -]by[ -]step|explanations?|answers|responses|"
    r"replies|analogies|examples|when you \w+|exclamation marks"
    r"|abbreviations|acronyms|disclaimers|plain english|simple language|metric "
    r"units|imperial units|british spelling"
    r"|american spelling|technical terms|small talk|straight to the point|to the point)\b"
)
_EXPERT = LazyPattern(rf"(?:[\w-]+[ ,/]+(?:and )?){{0,6}}?(?:{lex.ROLE_HEAD}|{lex.LEVEL})\b")
_NOT_EXPERT = LazyPattern(
    r"(?:[\w-]+ ){0,3}?(?:mother|father|mom|dad|mum|parent|brother|sister|wife|"
    r"husband|son|daughter|owner|lover|hater|person|sleeper|member|owl|bird|"
    r"vegan|vegetarian|pescatarian|christian|american|canadian|european|asian|"
    r"african|australian|minor|adult|teen|teenager|citizen|immigrant|republican|"
    r"democrat|homeowner|renter|smoker|non-smoker|nonsmoker|drinker|eater|"
    r"reader|watcher|gamer|traveler|traveller|early riser|introvert|extrovert|"
    r"twin|widow|bachelor|libertarian|humanitarian|millennial|boomer|senior "
    r"citizen|perfectionist|minimalist|environmentalist|feminist|procrastinator|"
    r"believer|survivor|loner|homebody|romantic|optimist|pessimist|realist|"
    r"collector)\b"
)
_OF_THIS = LazyPattern(r"\b(?:this|that|these|those|your)\b")
_LASTING = LazyPattern(lex.LASTING)
_TURNED = LazyPattern(
    r"(?:not|no|to not|to avoid|avoiding|to stay away|staying away|to steer "
    r"clear|you (?:not|don't|didn't|never|avoid|avoided|skip|skipped))\b"
)
_NO_ROLE = LazyPattern(
    r"(?:[\w-]+ ){0,2}?(?:bit|little|lot|few|while|ago|away|behind|late|early|"
    r"short|into|over|from finishing|old|years? old|month old|year-old|looking|"
    r"trying|going|hoping|wondering|struggling|confused|lost)\b"
)


def checked(rule: Rule, match: re.Match[str]) -> Found | None:
    """What `match` found, or None when it is about this turn only or about nothing."""
    about = match["about"].strip()
    start, end = match.span("about")
    value = match.groupdict().get("value")
    if value and _OF_THIS.search(about):
        return None
    if value and not about:  # "My favourite is tea" is about tea
        return Found(rule.type, rule.polarity, *match.span("value"), rule.confidence)
    if not _SOMETHING.search(about):
        return None
    if not rule.vague and _DEICTIC.match(about) and not _GENERIC_IT.match(about):
        return None
    if _PASSING.search(match.string, match.start(), match.end()):
        return None
    if rule.slot == "role":
        kind = role_type(about)
        trimmed = _trim_role(about)
        if trimmed is None:
            return None
        return Found(
            kind, rule.polarity, start, start + len(match["about"]), rule.confidence, "role"
        )
    turned = _TURNED.match(about) or match[0].startswith("my least")
    polarity = "against" if rule.polarity == "for" and turned else rule.polarity
    if rule.type == "custom" and not rule.slot and _ABOUT_ANSWERS.search(about):
        return Found("style", polarity, start, end, rule.confidence, rule.slot)
    return Found(rule.type, polarity, start, end, rule.confidence, rule.slot)


def _trim_role(about: str) -> str | None:
    first = re.split(r"[,.;]| (?:who|that|which|and|but|with|at|in|for|so|from|of)\b", about)[0]
    words = first.split()
    if not words or len(words) > 7 or _NO_ROLE.match(first):
        return None
    return first


def is_role(about: str) -> bool:
    """Whether `about` names what a person can be, so that "as a …" introduces its author."""
    return bool(_EXPERT.match(about) or _NOT_EXPERT.match(about) or _LASTING.match(about))


def role_type(about: str) -> PreferenceType:
    """Whether being `about` says what one knows (`expertise`) or how one lives (`custom`)."""
    if _NOT_EXPERT.match(about):
        return "custom"
    return "expertise" if _EXPERT.match(about) else "custom"
