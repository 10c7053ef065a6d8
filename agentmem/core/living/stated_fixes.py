"""Find an error and what fixed it, in one sentence or in two or three that follow each other."""

from __future__ import annotations

import re
from collections.abc import Sequence

from agentmem.core.living.asserting import is_own
from agentmem.core.living.records import Episode
from agentmem.core.living.stated_decisions import TRIMMED, title_of
from agentmem.core.patterns import compile_late
from agentmem.core.regions import Span
from agentmem.core.values import dataclass

_FLAGS = re.IGNORECASE
_FAILED = compile_late(
    r"\b(?:fail(?:ed|s|ing|ures?)?|crash(?:ed|es|ing)?|broke|breaks|broken|errors? out|threw|throws"
    r"|raised? (?:an? )?(?-i:[A-Z])\w+|raises|time[sd] out|timing out|hung|hangs|died|dies"
    r"|got an? (?:\w+ ){0,2}error|\w*Error\b|\w*Exception\b|exceptions?|errors?|errored|bugs?"
    r"|segfault(?:s|ed)?|stack trace|traceback|panick?(?:ed|s)|regressions?|exit code \d+"
    r"|(?:http |status )?[45]\d\d(?=\b(?! ?(?:ms|mb|gb|kb|s\b|px|users|rows|euros)))"
    r"|(?-i:E[A-Z]{4,})"
    r"|(?-i:OOM)\w*|flaky|stuck|freezes|froze|frozen|leak(?:s|ed|ing)?|deadlock(?:s|ed)?|timeouts?"
    r"|(?:was|were|went|is) down|corrupt(?:ed)?|refused|denied|unable to|out of (?:memory|space"
    r"|disk)"
    r"|(?:would|could|did|does|do|was|were|is|are|can)(?:n['’]t| not)(?= \w)|cannot"
    r"|(?:stopped|not) working|jam(?:s|med|ming)?|conflicts?|mismatch(?:es|ed)?|rejected|expired"
    r"|blank|kept (?!up\b)\w+ing|warnings?|overflow(?:ed|s)?|race condition"
    r"|out of sync|missing|too slow|slow|outage|incident|faults?|loop|garbled|not found|blocked"
    r"|lost|wrong|issue|problem|glitch(?:es)?)\b",
    _FLAGS,
)
_CURED = r"(?:fixed|solved|resolved|cured|repaired|sorted(?: out)?|mitigated|addressed)"
_IT = r"(?:it|this|that|them|these|the (?:issue|problem|error|bug|crash|failure|thing))"
_FIX = compile_late(
    r"(?:^|[,;.:—–-]\s*|\band\s+|\bwhich\s+|\bso\s+|\bit\s+|\bwas\s+|\bwere\s+|\bwe\s+|\bi\s+"
    r"|\bthen\s+)"
    r"(?:(?:was |were |got |is |finally |eventually |we |i |have |has |been |['’]ve |which |this "
    rf"|that |it |the (?:problem|issue|error|bug) )*(?:{_CURED}|worked around"
    rf"|got around)(?:\s+{_IT})?"
    r"\s+(?:by|with|after|via|through)\s+"
    r"|(?:the |our |my |a |temporary |quick )*(?:fix|solution|workaround|remedy|cure)"
    r"\s*(?:was|is|:|turned out to be|for (?:it|this|that) (?:was|is))\s*(?:to\s+)?)"
    r"(?P<fix>.+)$",
    _FLAGS,
)
_HELPED = (
    rf"(?:{_CURED}\s+{_IT}|(?:made|let) (?:it|this|the \w+) (?:go away|work(?: again)?|disappear)"
    r"|helped|did the trick|did it|worked|(?<=and it )(?:recovered|came back|passed"
    r"|works)(?: again| now)?|got rid of (?:it|them|the (?:error|problem|issue))"
    r"|brought (?:it|the \w+) back(?: up)?)"
)
_FIXED_IT = compile_late(
    r"^(?:but |then |so |and |in the end,? |finally,? |eventually,? |turns out |it turned out )*"
    r"(?P<fix>[^;]+?)(?:,? (?:and|which) (?:that |this |it )?)?(?:\s+(?:finally |just "
    r"|immediately )?|"
    rf"(?<=which )){_HELPED}\W*$",
    _FLAGS,
)
_FIXED_FIRST = compile_late(
    r"^(?:(?:we|i|(?-i:[A-Z])\w+)(?:['’]ve| have| has)?\s+(?:finally |just )?)?"
    rf"{_CURED}\s+(?P<error>.+?)\s+(?:by|with|via)\s+(?P<fix>.+)$",
    _FLAGS,
)
_FIX_OF = compile_late(
    rf"^(?P<fix>[^;]+?)\s+(?:finally )?(?:{_CURED}|got rid of|eliminated|stopped|put an end to)\s+"
    r"(?P<error>(?:the|our|my|all|those|a|an)\s+[^;]+)$",
    _FLAGS,
)
_WENT_AWAY = compile_late(
    r"^(?P<error>[^;]+?)\s+(?:went away|disappeared|vanished|stopped|(?:is|are|was|were) gone"
    r"|no longer (?:occurs?|happens?|appears?))\s+(?:after|once|when|by)\s+(?P<fix>.+)$",
    _FLAGS,
)
_TO_FIX = compile_late(
    r"^to (?:fix|solve|resolve|work around|get rid of)\s+(?P<error>[^,;]+?),?\s+(?:we|i)\s+"
    r"(?P<fix>(?:just |simply |finally )?\w+(?:ed|t|w|n|an|et|ut|id|ote|ade|ook|ave)\b.+)$",
    _FLAGS,
)
_AFTER = compile_late(
    r"^after (?P<fix>\w+ing .+?),? (?P<error>(?:the|our|my|all) [^,;]+?) (?:went away|disappeared"
    r"|vanished|stopped|was gone|were gone|was fixed|were fixed|was resolved)\W*$",
    _FLAGS,
)
_FIX_FOR = compile_late(
    r"^the (?:fix|solution|workaround|remedy|cure) (?:for|to) (?P<error>(?!it\b|this\b"
    r"|that\b)[^,;]+?)"
    r"\s+(?:was|is)\s+(?:to\s+)?(?P<fix>.+)$",
    _FLAGS,
)
_UNTIL = compile_late(
    r"^(?P<error>[^;]*?\bkept\b[^;]+?|[^;]*?\b(?:failed|crashed|broke)\b[^;]*?)\s+until\s+(?:we"
    r"|i)\s+"
    r"(?P<fix>[^;]+)$",
    _FLAGS,
)
_WITHIN = compile_late(r"\s*;\s+|\s+[—–]\s+|\s+-\s+|,\s+(?:and|but|so)\s+|\.\s+", _FLAGS)
_BARE = compile_late(
    r"(?:the |our |my |an? |this |that |some )*(?:it|them|this|that|issue|problem|error|bug"
    r"|thing)s?"
    r"\W*\Z",
    _FLAGS,
)
_OPEN = compile_late(
    r"\b(?:if|maybe|perhaps|might|should|shall|will|try|let['’]?s|need to|needs to|want to|going to"
    r"|hope|wish|what if|whether|suppose|imagine|nothing|nobody|none|neither|have to|has to|please"
    r"|could (?!not)|would (?!not))\b|['’]ll\b",
    _FLAGS,
)
_NOT_YET = compile_late(
    r"\b(?:not|never|no|nothing|none|nobody|neither|yet|hardly)\b|n['’]t\b|\A(?:how|what|this"
    r"|that|it"
    r"|they|he|she|you|and|the next|tomorrow|friday|monday|tuesday|thursday|next)\b",
    _FLAGS,
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


def stated_fix(text: str, spans: Sequence[Span], place: int) -> tuple[ErrorFix | None, int]:
    """The error and its fix that begin with a sentence, and how many sentences that took."""
    span = spans[place]
    sentence = text[slice(*span)]
    if not is_own(sentence) or _OPEN.search(sentence):
        return None, 1
    if found := _in_one(sentence):
        return _made(text, span, *found), 1
    if not _FAILED.search(sentence):
        return None, 1
    for further, following in enumerate(spans[place + 1 : place + 3], 1):
        after = text[slice(*following)]
        if not is_own(after) or _OPEN.search(after):
            return None, 1
        fix = _FIX.match(after) or _FIXED_IT.match(after)
        if fix is not None:
            made = _made(text, (span[0], following[1]), sentence, fix["fix"])
            return made, 1 if made is None else further + 1
    return None, 1


def _in_one(sentence: str) -> tuple[str, str] | None:
    """An error and its fix in one sentence."""
    for pattern in (_FIX_FOR, _FIXED_FIRST, _TO_FIX):
        match = pattern.match(sentence)
        if match is not None and not _BARE.match(match["error"]):
            return match["error"], match["fix"]
    for cut in _WITHIN.finditer(sentence):
        before, after = sentence[: cut.start()], sentence[cut.end() :]
        if _FAILED.search(before) and (fix := _FIX.match(after) or _FIXED_IT.match(after)):
            return before, fix["fix"]
    fix = _FIX.search(sentence)
    if fix is not None and _FAILED.search(sentence[: fix.start()]):
        before = sentence[: fix.start()].strip(TRIMMED)
        return None if _BARE.match(before) else (before, fix["fix"])
    for pattern in (_FIX_OF, _WENT_AWAY, _AFTER, _UNTIL):
        match = pattern.match(sentence)
        if match is None or _BARE.match(match["error"]):
            continue
        if _FAILED.search(match["error"]):
            return match["error"], match["fix"]
    return None


def _made(text: str, span: Span, error: str, fix: str) -> ErrorFix | None:
    error = re.sub(r"^(?:problem|error|issue|bug|symptom)\s*:\s*", "", error, flags=_FLAGS)
    error = re.sub(
        r"(?:,?\s+(?:and|which|but|it|was|were|we|i|so))+$", "", error.strip(TRIMMED), flags=_FLAGS
    )
    fix = re.sub(r"^(?:(?:we|i)\s+|by\s+|to\s+)", "", fix.strip(TRIMMED), flags=_FLAGS)
    fix = re.sub(r",?\s+(?:and|which)(?: that| this| it)?$", "", fix, flags=_FLAGS).strip(TRIMMED)
    if not error or not fix or _NOT_YET.search(fix):
        return None
    return ErrorFix(error=error, fix=fix, narrative=text[slice(*span)], start=span[0], end=span[1])
