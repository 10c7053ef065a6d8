"""What a text states, found without a model: facts, decisions with reasons, errors with fixes.

Only plain assertions count. Questions, conditions and wishes, what somebody
else said, quotations, code blocks and denials give nothing: a fact that was
never stated is worse than one that is missed. Who may be believed is decided
elsewhere, by the origin of the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from agentmem.core.checks import require_text
from agentmem.core.living.records import Episode, Fact
from agentmem.core.living.stated_facts import clauses_of, stated_fact
from agentmem.core.regions import (
    Span,
    code_spans,
    cover,
    element_spans,
    quotation_spans,
    quoted_line_spans,
)
from agentmem.core.sentences import sentences
from agentmem.core.values import dataclass

LONGEST_SENTENCE = 600
MAX_CHARACTERS = 200_000
"""Of a longer text the beginning is read."""
_SHORT_QUOTE_WORDS = 4
_TITLE_CHARACTERS = 80

_FLAGS = re.IGNORECASE
_UNCERTAIN = re.compile(
    r"\b(?:if|unless|suppose|imagine|assume|assuming|maybe|perhaps|probably|possibly|might|may be"
    r"|could|would|should|shall|let's|lets|wish|hope|hopefully|what if|wonder|whether|going to"
    r"|plan to|plans to|want to|wants to|considering|thinking about|thinking of|proposal|propose"
    r"|propose[sd]?|for example|for instance|e\.g\.|hypothetically|pretend|used to|previously"
    r"|formerly|as if|as though|in theory|will|won't|in the past)\b",
    _FLAGS,
)
_REPORTED = re.compile(
    r"\b(?:said|says|told|claims?|claimed|thinks|thought|believes|believed|argues|argued|wrote"
    r"|writes|heard|asked|asks|insists|suggests|suggested|mentioned|according to|reportedly"
    r"|allegedly|rumou?rs?)\b",
    _FLAGS,
)
_SPEAKER = re.compile(r"^\s*(?:[-*•]\s*)?[A-Z][\w.-]*(?: [A-Z][\w.-]*)?:\s+(?=\S+\s+\S+\s+\S+)")
_LABELLED = re.compile(
    r"^\s*(?:note|update|fyi|reminder|decision|decided|reason|rationale|fix|error|context"
    r"|info|tl;dr"
    r"|summary|fact|bug|cause|root cause|solution|problem|issue)\b",
    _FLAGS,
)
_BULLET = re.compile(r"^\s*(?:[-*+•]|\d{1,3}[.)])\s+|^\s*#{1,6}\s+")

_DECIDED = re.compile(
    r"^(?P<lead>.{0,60}?\b(?:we|i|the team|our team|they|everyone|it was|[A-Z]\w+)\s+"
    r"(?:have |has |had |finally |just |then |all |also |'ve )*(?:decided|chose|agreed"
    r"|opted|settled|went)"
    r"\s+(?:to|on|for|with|against|that)?\s*)(?P<what>.+)$",
    _FLAGS,
)
_DECISION_LABEL = re.compile(
    r"^(?:decision|decided|we decided|adr)\s*[:–—-]\s*(?P<what>.+)$", _FLAGS
)
_BECAUSE = re.compile(
    r"[,;]?\s+(?:because(?: of)?|since|due to|so that|so (?=we|it|the)|in order to"
    r"|to avoid|given that"
    r"|as (?=it|we|the|they)|on the grounds that|the reason (?:is|was|being)(?: that)?)\s+",
    _FLAGS,
)
_REASON = re.compile(
    r"^(?:the )?(?:reason|rationale|why|motivation)\s*(?:is|was|:|being|–|—"
    r"|-)\s*(?:that\s+)?(?P<why>.+)$"
    r"|^(?:this is |that is |that's |it's )?because\s+(?P<why2>.+)$",
    _FLAGS,
)
_FAILED = re.compile(
    r"\b(?:failed|fails|failing|crashed|crashes|broke|breaks|broken|errors? out|threw|throws|raised"
    r"|raises|timed out|hung|died|got an? (?:\w+ ){0,2}error|\w*Error\b|\w*Exception\b|exception"
    r"|error|bug|segfault(?:s|ed)?|stack trace|traceback|panicked|regression|exit code \d+)",
    _FLAGS,
)
_FIX = re.compile(
    r"(?:^|[,;.:—–-]\s*|\band\s+|\bit\s+|\bwas\s+|\bwe\s+|\bi\s+|\bthen\s+)"
    r"(?:(?:was |got |is |finally |we |i )*(?:fixed|solved|resolved|worked around|repaired|cured)"
    r"(?:\s+(?:it|this|that|the (?:issue|problem|error|bug)))?"
    r"\s+(?:by|with|after|via|through|in)\s+"
    r"|(?:the )?(?:fix|solution|workaround|remedy|cure)\s*(?:was|is|:"
    r"|turned out to be)\s*(?:to\s+)?)"
    r"(?P<fix>.+)$",
    _FLAGS,
)
_FIXED_FIRST = re.compile(
    r"^(?:(?:we|i)(?:'ve| have)?\s+)?(?:fixed|solved|resolved)\s+(?P<error>.+?)\s+(?:by"
    r"|with|via)\s+(?P<fix>.+)$",
    _FLAGS,
)
_FIXED_IT = re.compile(
    r"^(?P<fix>.+?)\s+(?:fixed|solved|resolved|cured)\s+(?:it|this|that|the (?:issue"
    r"|problem|error|bug|crash))\W*$",
    _FLAGS,
)
_TRIMMED = " \t\n\r.,;:—–-"


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


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorFix:
    """An error that was met and what fixed it."""

    error: str
    fix: str
    narrative: str = ""
    start: int = 0
    end: int = 0

    def to_episode(self) -> Episode:
        """The same as an episode that can be stored."""
        return Episode(
            title=title_of(self.error),
            narrative=self.narrative,
            sort="error",
            error=self.error,
            fix=self.fix,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Extracted:
    """All that one text states; offsets are positions in that text."""

    facts: tuple[Fact, ...] = ()
    decisions: tuple[Decision, ...] = ()
    fixes: tuple[ErrorFix, ...] = ()


def extract(text: str) -> Extracted:
    """The facts, decisions and fixed errors that `text` states, in order.

    Any text may be given; the same text always gives the same. A fact's `text`
    is the sentence it stands in, `start` and `end` are that sentence's place.
    """
    require_text(text, "text")
    read = text[:MAX_CHARACTERS]
    own = own_words(read)
    spans = list(statements(own))
    facts: list[Fact] = []
    decisions: list[Decision] = []
    fixes: list[ErrorFix] = []
    place = 0
    while place < len(spans):
        start, end = spans[place]
        following = spans[place + 1] if place + 1 < len(spans) else None
        fix, used = _error_fix(own, (start, end), following)
        decision, used_too = _decision(own, (start, end), following)
        if fix is not None:
            fixes.append(fix)
        elif decision is not None:
            decisions.append(decision)
            used = used_too
        if fix is None:
            facts += _facts(own, start, end, text)
        place += used
    return Extracted(facts=tuple(facts), decisions=tuple(decisions), fixes=tuple(fixes))


def own_words(text: str) -> str:
    """`text` with code blocks, quoted lines, markup and longer quotations blanked out."""
    blocks = [span for span in code_spans(text) if _is_block(text, span)]
    hidden = [*blocks, *quoted_line_spans(text), *element_spans(text)]
    for start, end in quotation_spans(text):
        if len(text[start:end].split()) > _SHORT_QUOTE_WORDS:
            hidden.append((start, end))
    shown = cover(text, hidden, "\n") if hidden else text
    return shown.replace("`", " ")


def _is_block(text: str, span: Span) -> bool:
    """Whether a code span is a block of its own and not a word in a sentence."""
    start, end = span
    if "\n" in text[start:end]:
        return True
    line_start = text.rfind("\n", 0, start) + 1
    line_end = text.find("\n", end)
    line = text[line_start : len(text) if line_end < 0 else line_end]
    return line.strip() == text[start:end].strip()


def statements(text: str) -> Iterator[Span]:
    """Where the sentences of own words are, line by line, without bullets; none too long."""
    for start, end in sentences(text):
        position = start
        for line in text[start:end].split("\n"):
            begin = position
            position += len(line) + 1
            bullet = _BULLET.match(line)
            said = line[bullet.end() :] if bullet else line
            stripped = said.strip()
            if stripped and len(stripped) <= LONGEST_SENTENCE:
                begin += len(line) - len(said.lstrip())
                yield begin, begin + len(stripped)


def is_asserted(sentence: str) -> bool:
    """Whether a sentence is a plain assertion of its writer's: no question, wish or report."""
    if sentence.rstrip("\"'”’)*_ ").endswith(("?", "？")):
        return False
    if _SPEAKER.match(sentence) and not _LABELLED.match(sentence):
        return False
    return _UNCERTAIN.search(sentence) is None and _REPORTED.search(sentence) is None


def _facts(own: str, start: int, end: int, text: str) -> Iterator[Fact]:
    sentence = own[start:end]
    if not is_asserted(sentence):
        return
    for begin, stop in clauses_of(sentence):
        found = stated_fact(sentence[begin:stop].rstrip())
        if found is not None:
            yield Fact(
                key=found.key,
                value=found.value,
                text=text[start:end],
                confidence=round(found.confidence, 4),
                start=start,
                end=end,
                ended=found.ended,
            )


def _decision(text: str, span: Span, following: Span | None) -> tuple[Decision | None, int]:
    """The decision in a sentence, and how many sentences it takes with its reason."""
    sentence = text[slice(*span)]
    match = _DECISION_LABEL.match(sentence) or _DECIDED.match(sentence)
    if match is None or sentence.rstrip().endswith("?"):
        return None, 1
    lead = match.groupdict().get("lead") or ""
    if re.search(r"\b(?:not|never|n't|if|before|until|unless|haven't|yet)\b", lead, _FLAGS):
        return None, 1
    if re.search(r"\bwent\s+(?:to|on|for)?\s*$", lead, _FLAGS):
        return None, 1  # "we went to lunch"; only "went with" decides
    what, end, used, reason = match["what"], span[1], 1, ""
    if because := _BECAUSE.search(what):
        what, reason = what[: because.start()], what[because.end() :]
    elif following is not None and (why := _REASON.match(text[slice(*following)])):
        reason = why["why"] or why["why2"] or ""
        end, used = following[1], 2
    what = what.strip(_TRIMMED)
    if len(what.split()) < 2 or re.match(
        r"(?:this|that|them|it|up|out|how|what|where|you|your|and|so)\b", what, _FLAGS
    ):
        return None, 1
    return (
        Decision(
            title=title_of(what),
            narrative=text[span[0] : end],
            reason=reason.strip(_TRIMMED),
            start=span[0],
            end=end,
        ),
        used,
    )


def _error_fix(text: str, span: Span, following: Span | None) -> tuple[ErrorFix | None, int]:
    """The error and its fix in a sentence or in two, and how many sentences that took."""
    sentence = text[slice(*span)]
    if sentence.rstrip().endswith("?") or re.match(r"\s*(?:if|to fix|how to)\b", sentence, _FLAGS):
        return None, 1
    fixed = _FIXED_FIRST.match(sentence)
    if fixed is not None:
        return _made(text, span, fixed["error"], fixed["fix"]), 1
    fix = _FIX.search(sentence)
    if fix is not None and _FAILED.search(sentence[: fix.start()]):
        return _made(text, span, sentence[: fix.start()], fix["fix"]), 1
    if following is None or not _FAILED.search(sentence) or _UNCERTAIN.search(sentence):
        return None, 1
    after = text[slice(*following)]
    fix = _FIX.match(after) or _FIXED_IT.match(after)
    if fix is None or after.rstrip().endswith("?"):
        return None, 1
    return _made(text, (span[0], following[1]), sentence, fix["fix"]), 2


def _made(text: str, span: Span, error: str, fix: str) -> ErrorFix | None:
    error = re.sub(r"\s+(?:and|which|but|it|was|we|i)$", "", error.strip(_TRIMMED), flags=_FLAGS)
    fix = fix.strip(_TRIMMED)
    if not error or not fix:
        return None
    return ErrorFix(error=error, fix=fix, narrative=text[slice(*span)], start=span[0], end=span[1])


def title_of(text: str) -> str:
    """`text` cut at a word to the length of a title."""
    if len(text) <= _TITLE_CHARACTERS:
        return text
    cut = text.rfind(" ", 0, _TITLE_CHARACTERS)
    return text[: cut if cut > _TITLE_CHARACTERS // 2 else _TITLE_CHARACTERS].rstrip(_TRIMMED) + "…"
