"""Find what was decided in a sentence, and why, if that was said there or right after."""

from __future__ import annotations

import re

from agentmem.core.living.asserting import is_question, is_spoken_by_other
from agentmem.core.living.records import Episode
from agentmem.core.patterns import compile_late
from agentmem.core.regions import Span
from agentmem.core.values import dataclass

TITLE_CHARACTERS = 80
TRIMMED = " \t\n\r.,;:—–-"

_FLAGS = re.IGNORECASE
_WHO = (
    r"(?:we|i|the (?:\w+ )?(?:team|board|group|committee|company)|our team|everyone|my \w+ and i)"
)
_DECIDED = compile_late(
    rf"^(?P<lead>(?P<before>.{{0,80}}?)\b(?:{_WHO}|it was|it has been"
    r"|(?-i:(?!You|He|She|They|It|This|That|Who|If|What|When)[A-Z]\w+))"
    r"(?:['’]ve)?\s+(?:have |has |had |finally |just |then |all |both |also |ultimately |eventually"
    r" |jointly |unanimously )*"
    r"(?P<verb>(?:(?:decided|agreed|opted|resolved|voted|committed)(?= (?:not )?(?:to|on|for"
    r"|against|that)\b)"
    r"|settled(?= (?:on|for)\b)|went(?= (?:with|for)\b)|chose|picked|selected)"
    r"\s+)(?P<to>(?:to|that)\b\s*)?(?P<on>(?:on|for|with|against)\b\s*)?)(?P<what>.+)$",
    _FLAGS,
)
_GOING = compile_late(
    r"^(?P<before>.{0,60}?)\b(?:(?:we|i)(?:['’]re| are|['’]m"
    r"| am)\s+(?:now )?(?=(?P<sure>going with)"
    r"|sticking (?:with|to)\b|settling on\b|dropping\b|standardi[sz]ing on\b)"
    r"|(?:(?:we|i)(?:['’]ll| will)|let['’]?s)\s+(?=(?:go with|use|stick (?:with|to)|drop|pick"
    r"|stay (?:with|on)|adopt|keep (?!\w+ing\b))\b))(?P<what>.+)$",
    _FLAGS,
)
"""Said like a plan; a decision only when a reason comes with it, or "going with"."""
_CHANGED = compile_late(
    r"^(?P<before>.{0,40}?)\b(?:we|i)(?:['’]ve| have)?\s+(?:finally |just "
    r"|then )?(?P<what>(?:rejected"
    r"|ruled out|ended up (?:using|with)|switched|migrated|moved|adopted|dropped|abandoned|ditched"
    r"|replaced|stopped using)\s.+)$",
    _FLAGS,
)
"""What was done; with a reason, somebody decided it."""
_PASSIVE = compile_late(
    r"^(?P<lead>)(?P<before>)(?P<what>[^,;]{2,60}?)\s+(?:was|were|has been|got)\s+(?:finally )?"
    r"(?:chosen|picked|selected)\b(?P<rest>.+)$",
    _FLAGS,
)
_DECISION_LABEL = compile_late(
    r"^(?:(?:the |our |my |final )*decision(?:\s+(?:is|was)\s+(?:made )?(?:to|that we)|\s*[:–—-])"
    r"|decided\s*[:–—-]|we decided\s*[:–—-]|adr(?:[ -]?\d+)?\s*[:–—-])\s*(?P<what>.+)$",
    _FLAGS,
)
_WHY = (
    r"(?:because(?: of)?|since|due to|so that|so(?= (?:we|it|the)\b)|in order to|to avoid"
    r"|given that|given|as(?= (?:it|we|the|they|there|our|i|nobody|most|new ones|all|my|everyone"
    r"|no one)\b)|on the grounds that"
    r"|thanks to"
    r"|the reason (?:is|was|being)(?: that)?|for the sake of)"
)
_BECAUSE = compile_late(rf"[,;]?\s+{_WHY}\s+|:\s+(?=(?:we|it|the|they|our|i|there)\b)", _FLAGS)
_BECAUSE_BEFORE = compile_late(
    r"^(?:because(?: of)?|since|as|given that|given|due to)\s+(?P<why>[^,]{3,120}),\s*$", _FLAGS
)
_SO = compile_late(
    r"^(?P<why>.{6,120}?),?\s+(?:so|therefore|hence)(?: then| in the end)?\s*$", _FLAGS
)
_REASON = compile_late(
    r"^(?:the |our |my |main )*(?:reason|rationale|why|motivation)\s*(?:is|was|:|being|–|—"
    r"|-)\s*(?:that\s+|because\s+)?(?P<why>.+)$"
    r"|^(?:this is |that is |that's |it's |this was |that was )?because\s+(?P<why2>.+)$",
    _FLAGS,
)
_UNDECIDED = compile_late(
    r"\b(?:not|never|if|before|until|unless|yet|said|says|told|heard|claims?|claimed|thinks|might"
    r"|could|would|should|maybe|perhaps|wish|when|whether|how|why|what|that you|until|wonder"
    r"|pretend|imagine|suppose|read|have to|need to|used to|in the (?:book|novel|story|movie|film"
    r"|game))\b|n['’]t\b",
    _FLAGS,
)
_NO_DECISION = compile_late(
    r"(?:this|that|them|it|up|out|how|what|where|you|your|and|so|me|him|her|us|whether|between|if"
    r"|when|who|a lot|fun|well|home|go (?:home|out|to bed|for an?)|there|crazy|viral|great|nuts"
    r"|(?:a|the) (?:walk|run|hike|swim"
    r"|drive|coffee|ride|drink|bite))\b",
    _FLAGS,
)
_POINTING = compile_late(r"\b(?:this|these|those|that)(?! (?:week|month|year|quarter)\b)\b", _FLAGS)
_ASIDE = compile_late(r",\s+(?:which|who|even|although|though|but)\b|\s+[-—–]\s+", _FLAGS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Something that was decided, in words of the text, and why if that was said."""

    title: str
    narrative: str
    reason: str = ""
    start: int = 0
    end: int = 0

    def to_episode(self) -> Episode:
        """The same as an episode that can be stored."""
        return Episode(
            title=self.title, narrative=self.narrative, reason=self.reason, sort="decision"
        )


def stated_decision(text: str, span: Span, following: Span | None) -> tuple[Decision | None, int]:
    """The decision in a sentence, and how many sentences it takes with its reason."""
    sentence = text[slice(*span)]
    if is_question(sentence) or is_spoken_by_other(sentence):
        return None, 1
    read = _read(sentence)
    if read is None:
        return None, 1
    what, reason, needs_reason = read
    end, used = span[1], 1
    if not reason and following is not None and (why := _REASON.match(text[slice(*following)])):
        reason = why["why"] or why["why2"] or ""
        end, used = following[1], 2
    what, reason = what.strip(TRIMMED), reason.strip(TRIMMED)
    if (needs_reason and not reason) or not _is_decision(what, reason):
        return None, 1
    made = Decision(
        title=title_of(what), narrative=text[span[0] : end], reason=reason, start=span[0], end=end
    )
    return made, used


def _read(sentence: str) -> tuple[str, str, bool] | None:
    """What was decided, why, and whether it counts only with a reason."""
    if label := _DECISION_LABEL.match(sentence):
        return (*_parted(label["what"]), False)
    if decided := _DECIDED.match(sentence):
        lead = decided["lead"]
        before = decided["before"].strip()
        why = _BECAUSE_BEFORE.match(f"{before} ") or _SO.match(before)
        unsure = lead[len(decided["before"]) :] if why else lead
        if _UNDECIDED.search(unsure):
            return None
        what, reason = _parted(decided["what"])
        if not _is_decision(what.strip(TRIMMED), reason):
            return None
        plain = decided["to"] or what.startswith("not ")
        named = what if plain else f"{decided['verb']}{decided['on'] or ''}{what}"
        reason = reason or (why["why"] if why else "")
        return named, reason, _is_small(decided["verb"], what, lead)
    if going := _GOING.match(sentence):
        if _UNDECIDED.search(going["before"]):
            return None
        return (*_parted(going["what"]), going["sure"] is None)
    if changed := _CHANGED.match(sentence):
        if _UNDECIDED.search(changed["before"]):
            return None
        return (*_parted(changed["what"]), True)
    if passive := _PASSIVE.match(sentence):
        _, reason = _parted(passive["rest"])
        return passive["what"], reason, True
    return None


def _is_small(verb: str, what: str, lead: str) -> bool:
    """Whether it is a choice of the moment ("I picked a seat"), unless there is a reason for it."""
    if verb.split(maxsplit=1)[0].lower() not in ("chose", "picked", "selected", "went"):
        return False
    alone = re.search(r"\bi(?:['’]ve)?\s+\w+\s+(?:\w+\s+)?\Z", lead, _FLAGS) is not None
    return alone or what.islower()


def _parted(what: str) -> tuple[str, str]:
    """What was decided and the reason that follows it in the same sentence."""
    because = _BECAUSE.search(what)
    reason = what[because.end() :] if because else ""
    what = what[: because.start()] if because else what
    aside = _ASIDE.search(what)
    return (what[: aside.start()] if aside else what), reason


def _is_decision(what: str, reason: str) -> bool:
    """Whether the words name something that a later reader can understand."""
    words = what.split()
    if not words or _NO_DECISION.match(what) or _POINTING.search(what):
        return False
    if len(words) > 1:
        return True
    return bool(reason) or not what.islower()


def title_of(text: str) -> str:
    """`text` cut at a word to the length of a title."""
    if len(text) <= TITLE_CHARACTERS:
        return text
    cut = text.rfind(" ", 0, TITLE_CHARACTERS)
    return text[: cut if cut > TITLE_CHARACTERS // 2 else TITLE_CHARACTERS].rstrip(TRIMMED) + "…"
