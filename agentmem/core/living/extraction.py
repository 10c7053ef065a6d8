"""What a text states, found without a model: facts, decisions with reasons, errors with fixes.

Only plain assertions count. Questions, conditions and wishes, what somebody
else said, quotations, code blocks and denials give nothing: a fact that was
never stated is worse than one that is missed. Who may be believed is decided
elsewhere, by the origin of the text.
"""

from __future__ import annotations

from collections.abc import Iterator

from agentmem.core.checks import require_text
from agentmem.core.living.asserting import is_asserted, points_at_something
from agentmem.core.living.records import Fact
from agentmem.core.living.stated_decisions import Decision, stated_decision
from agentmem.core.living.stated_facts import clauses_of, stated_fact
from agentmem.core.living.stated_fixes import ErrorFix, stated_fix
from agentmem.core.patterns import compile_late
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
_BULLET = compile_late(r"^\s*(?:[-*+•]|\d{1,3}[.)])\s+|^\s*#{1,6}\s+")


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
        following = spans[place + 1] if place + 1 < len(spans) else None
        fix, used = stated_fix(own, spans, place)
        decision, used_too = stated_decision(own, spans[place], following)
        if fix is not None:
            fixes.append(fix)
        elif decision is not None:
            decisions.append(decision)
            used = used_too
        if fix is None:
            facts += _facts(own, *spans[place], text)
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


def _facts(own: str, start: int, end: int, text: str) -> Iterator[Fact]:
    sentence = own[start:end]
    if not is_asserted(sentence) or points_at_something(sentence):
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
