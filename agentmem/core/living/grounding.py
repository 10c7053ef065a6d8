"""Which of a model's proposals a text says: each word of a record is quoted from a sentence of it.

A model may find what no rule does; it is not believed. Key, value, reason and
fix must stand in the user's own words, word for word, in a sentence that
asserts them, and what is denied there is not turned into its opposite (L11).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from agentmem.core.living.asserting import is_asserted
from agentmem.core.living.essentials import has_word, read_essentials
from agentmem.core.living.extraction import Extracted, own_words, statements
from agentmem.core.living.keys import fact_key, key_words, normal_word
from agentmem.core.living.proposals import Proposal
from agentmem.core.living.records import Fact
from agentmem.core.living.stated_decisions import Decision, title_of
from agentmem.core.living.stated_facts import clauses_of
from agentmem.core.living.stated_fixes import ErrorFix
from agentmem.core.regions import Span, cover
from agentmem.core.secrets_said import holds_secret, secret_spans
from agentmem.core.values import dataclass

Statement = Fact | Decision | ErrorFix

LEAST_CONFIDENCE = 0.5
"""A model that is less sure than this is guessing."""
UNSAID_CONFIDENCE = 0.7
LONGEST_KEY = 60
LONGEST_VALUE = 160
LONGEST_QUOTE = 400
MOST_SENTENCES = 3
SENTENCES_BEFORE = 2

_FLAGS = re.IGNORECASE
_ATTRIBUTES = (
    "name location port version owner manager employer job language license host price weight"
    " timeout expiry duration start end opening closing default birthplace birth date time day"
    " schedule deadline database limit size count number address email phone color status role"
    " team tool framework library editor provider region environment url path format frequency"
    " length age city country home maintainer lead preference favorite pet partner child diet"
    " allergy birthday hobby policy convention deploy release meeting maximum minimum type model"
)
_COMMON = frozenset(map(normal_word, _ATTRIBUTES.split()))
"""Words that may name an attribute though nobody said them: "Ana lives in Rome" is a location."""
_NEGATION = re.compile(
    r"\b(?:not|no|never|none|nobody|nothing|nowhere|neither|nor|without|cannot|cant|dont|doesnt"
    r"|didnt|isnt|arent|wasnt|werent|wont|hasnt|havent|hadnt|lacks?|lacking|hardly|barely)\b"
    r"|n['’]t\b",
    _FLAGS,
)
_ENDING = re.compile(
    r"\b(?:no longer|any ?more|stop(?:s|ped)?|quit|drop(?:s|ped)?|remov(?:es|ed)|retired?|ended"
    r"|cancell?ed|discontinued|abandoned|ditched|gave up|got rid of|shut down|left|sunset)\b",
    _FLAGS,
)
_TURNED_DOWN = re.compile(
    r"\b(?:instead of|rather than|against|except(?: for)?|avoid(?:s|ed|ing)?|apart from|away from"
    r"|replac(?:es|ed|ing)|(?:chose|chosen|prefer\w*|picked)\b[^,;]*\bover)"
    r"\W+(?:(?:the|a|an|our|my|using|old|plain)\W+){0,2}\Z",
    _FLAGS,
)
_LEFT_FOR = re.compile(r"\bfrom\W+(?:(?:the|our|my|old)\W+){0,2}\Z", _FLAGS)
_FOR_WHAT = re.compile(r"\A\W*(?:to|in favou?r of|with)\b", _FLAGS)
_CONTRAST = re.compile(r",\s*(?:and\s+)?(?:not|never|rather than|instead of)\s+[^,;]*", _FLAGS)
_ANSWERED = re.compile(r"\A\W*(?:no|nope|yes|yeah)\s*[,.!:;—–-]+\s*", _FLAGS)
_BECAUSE = re.compile(r"[,;]?\s+(?:because(?: of)?|since|due to|so that|given that)\s+", _FLAGS)
_MARKS = " \t\r\n\"'“”‘’`…"


@dataclass(frozen=True, slots=True, kw_only=True)
class Grounded:
    """A proposal that a turn says, as the rules would have found it."""

    turn: int
    found: Statement


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A proposal that no turn says, and why not."""

    reason: str


class Turn:
    """One text to ground in: the user's own words in it, without secrets, at their places."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.own = readable(text)
        self.spans = list(statements(self.own))

    def words_up_to(self, span: Span) -> frozenset[str]:
        """The normal words of these sentences and of those right before, which "it" may mean."""
        before = [start for start, _ in self.spans if start < span[0]][-SENTENCES_BEFORE:]
        return frozenset(key_words(self.own[min((*before, span[0])) : span[1]]))


def readable(text: str) -> str:
    """`text` of the same length without code blocks, quotations, markup and secrets."""
    own = own_words(text)
    hidden = list(secret_spans(own))
    return cover(own, hidden, " ") if hidden else own


def ground(proposal: Proposal, turns: Sequence[Turn]) -> Grounded | Refused:
    """The record that one of `turns` states for `proposal`; the turn it names is asked first."""
    problem = _malformed(proposal)
    if problem:
        return Refused(reason=problem)
    order = list(range(len(turns)))
    if 1 <= proposal.turn <= len(turns):
        order.insert(0, order.pop(proposal.turn - 1))
    reason = "is not in the text"
    for number in order:
        turn = turns[number]
        for place in _evidence(proposal, turn):
            found = _stated(proposal, turn, place)
            if isinstance(found, str):
                reason = found
            else:
                return Grounded(turn=number, found=found)
    return Refused(reason=reason)


def merge_found(rules: Extracted, proposed: Sequence[Statement]) -> Extracted:
    """What the rules found, with what only a model did; where both found it, the rules' stands."""
    facts, decisions, fixes = list(rules.facts), list(rules.decisions), list(rules.fixes)
    for one in proposed:
        if isinstance(one, Fact):
            if not any(_same_fact(one, fact) for fact in facts):
                facts.append(one)
        elif isinstance(one, Decision):
            if not any(_overlap(one, other) for other in decisions):
                decisions.append(one)
        elif not any(_overlap(one, other) for other in fixes):
            fixes.append(one)
    return Extracted(
        facts=tuple(sorted(facts, key=lambda fact: fact.start)),
        decisions=tuple(sorted(decisions, key=lambda decision: decision.start)),
        fixes=tuple(sorted(fixes, key=lambda fix: fix.start)),
    )


def without_secrets(found: Extracted) -> tuple[Extracted, int]:
    """`found` without what quotes a key or a password, and how many that were."""
    kept = Extracted(
        facts=tuple(one for one in found.facts if not holds_secret(one.text)),
        decisions=tuple(one for one in found.decisions if not holds_secret(one.narrative)),
        fixes=tuple(one for one in found.fixes if not holds_secret(one.narrative)),
    )
    return kept, _count(found) - _count(kept)


def _count(found: Extracted) -> int:
    return len(found.facts) + len(found.decisions) + len(found.fixes)


def _malformed(proposal: Proposal) -> str:
    if proposal.sort not in ("fact", "decision", "error"):
        return "is of no known sort"
    sure = UNSAID_CONFIDENCE if proposal.confidence is None else proposal.confidence
    if not 0 <= sure <= 1:  # so is a confidence that is not a number
        return "has a confidence that is not between 0 and 1"
    if sure < LEAST_CONFIDENCE:
        return "is not sure enough"
    longest = LONGEST_VALUE if proposal.sort == "fact" else LONGEST_QUOTE
    if not proposal.value or len(proposal.value) > longest:
        return "has no value, or a whole story for one"
    if proposal.sort == "error" and not proposal.fix:
        return "has no fix"
    if max(len(proposal.reason), len(proposal.fix), len(proposal.evidence) // 4) > LONGEST_QUOTE:
        return "is too long"
    if proposal.sort == "fact" and not 0 < len(fact_key(proposal.key)) <= LONGEST_KEY:
        return "has no key, or a whole story for one"
    return ""


def _evidence(proposal: Proposal, turn: Turn) -> Iterator[Span]:
    """The sentences that a proposal quotes, or without a quote, the one its value stands in."""
    places = list(_places(proposal.evidence or proposal.value, turn.own))
    if not proposal.evidence and len(places) > 1:
        return
    for start, end in places:
        met = [span for span in turn.spans if span[0] < end and start < span[1]]
        if met and len(met) <= MOST_SENTENCES:
            yield met[0][0], met[-1][1]


def _stated(proposal: Proposal, turn: Turn, span: Span) -> Statement | str:
    """The record in these sentences, or why they do not state it."""
    start, end = span
    said = turn.own[start:end]
    sentences = [turn.own[slice(*one)] for one in turn.spans if start <= one[0] < end]
    if any(one.rstrip("\"'”’)*_ ").endswith(("?", "？")) for one in sentences):
        return "is a question"
    try:
        value = _quoted(proposal.value, said, ended=proposal.ended and proposal.sort == "fact")
        if proposal.sort == "fact":
            return _fact(proposal, value, turn, span, sentences)
        if proposal.sort == "error":
            fix = _quoted(proposal.fix, said)
            return ErrorFix(error=value, fix=fix, narrative=said, start=start, end=end)
        reason = _quoted(proposal.reason, said) if proposal.reason else ""
    except _Unsaid as unsaid:
        return str(unsaid)
    return Decision(title=title_of(value), narrative=said, reason=reason, start=start, end=end)


def _fact(
    proposal: Proposal, value: str, turn: Turn, span: Span, sentences: Sequence[str]
) -> Fact | str:
    if not all(map(is_asserted, sentences)):
        return "is not asserted"
    key = fact_key(proposal.key)
    near = turn.words_up_to(span)
    if not all(word in near or word in _COMMON for word in key.split()):
        return "has a key that is not in the text"
    if proposal.ended and not any(map(_ENDING.search, sentences)):
        return "is not said to have ended"
    start, end = span
    sure = UNSAID_CONFIDENCE if proposal.confidence is None else proposal.confidence
    return Fact(
        key=key,
        value=value,
        text=turn.text[start:end],
        confidence=round(float(sure), 4),
        start=start,
        end=end,
        ended=proposal.ended,
    )


class _Unsaid(Exception):
    """A quote that the text does not say; the message is why."""


def _quoted(quote: str, said: str, *, ended: bool = False) -> str:
    """`quote` as it stands in `said`."""
    places = list(_places(quote, said))
    if not places:
        raise _Unsaid("is not in the text")
    if not ended and any(_denied(said, place) for place in places):
        raise _Unsaid("is denied in the text")
    found = " ".join(said[slice(*places[0])].split())
    quoted, whole = read_essentials(found), read_essentials(said)
    if not quoted.numbers <= whole.numbers:
        raise _Unsaid("has a number that is not in the text")
    if not all(has_word(whole, name) for name in quoted.names):
        raise _Unsaid("has a name that is not in the text")
    return found


def _places(quote: str, text: str) -> Iterator[Span]:
    """Where `quote` stands in `text`, as whole words, whatever its spaces, case and marks."""
    words = _tidy(quote).split()
    if not words:
        return
    # Not within a word or a number: the 5 of "15", "1.5" or "-5" is none, nor that of "5%".
    before = r"(?<![\w+#])(?<!\w[.,:/@'’-])"
    if words[0][0].isdigit():
        before += r"(?<![\-−–$€£])"
    after = r"(?![\w+#])(?![.,:/@-]\w)(?!\s?[%‰])"
    pattern = r"\s+".join(map(re.escape, words))
    for match in re.finditer(before + pattern + after, text, _FLAGS):
        yield match.span()


def _tidy(quote: str) -> str:
    """A quote without the marks that were set around it."""
    return " ".join(quote.replace("`", " ").strip(_MARKS).rstrip(".,;:").split())


def _denied(said: str, place: Span) -> bool:
    """Whether the clause around `place` denies what stands there, or turns it down."""
    start, end = _clause(said, place)
    before, after = said[start : place[0]], said[place[1] : end]
    before = _ANSWERED.sub("", before)
    after = _CONTRAST.sub("", after)
    if _NEGATION.search(before) or _NEGATION.search(after):
        return True
    if _ENDING.search(before) or _ENDING.search(after):
        return True
    if _TURNED_DOWN.search(before):
        return True
    return _LEFT_FOR.search(before) is not None and _FOR_WHAT.match(after) is not None


def _clause(said: str, place: Span) -> Span:
    """From where to where the clause or clauses around `place` go."""
    met = [one for one in _clauses(said) if one[0] < place[1] and place[0] < one[1]]
    if not met:
        return 0, len(said)
    return min(met[0][0], place[0]), max(met[-1][1], place[1])


def _clauses(said: str) -> Iterator[Span]:
    """Sentences, their clauses, and what comes after "because" each for itself."""
    for first, last in statements(said):
        for begin, stop in clauses_of(said[first:last]):
            at = first + begin
            for cut in _BECAUSE.finditer(said, first + begin, first + stop):
                yield at, cut.start()
                at = cut.end()
            yield at, first + stop


def _same_fact(one: Fact, other: Fact) -> bool:
    said, known = (" ".join(fact.value.casefold().split()) for fact in (one, other))
    if one.key == other.key and (said == known or _overlap(one, other)):
        return True
    return _overlap(one, other) and (said in known or known in said)


def _overlap(one: Statement, other: Statement) -> bool:
    return one.start < other.end and other.start < one.end
