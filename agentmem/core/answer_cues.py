"""What kind of answer a question wants, and whether a sentence looks like one."""

from __future__ import annotations

import re
from typing import Literal

from agentmem.core.patterns import compile_late

AnswerKind = Literal["when", "count", "money", "who", "where", "why", "how", "what", "any"]

_ASKED: tuple[tuple[AnswerKind, str], ...] = (
    (
        "money",
        (
            r"\bhow (?:much|expensive)\b.{0,60}\b(?:cost|pay|paid|price|charge|spend|spent|earn"
            r"|worth|fee|salary|raise[ds]?|budget)|\bwhat (?:is|was|are|were|does|did)\b.{0,40}"
            r"\b(?:price|cost|fee|salary|budget|revenue)\b"
        ),
    ),
    (
        "when",
        (
            r"\b(?:since |until |by )?when\b|\b(?:what|which) (?:day|date|week|month|year|time"
            r"|century|decade|season)\b|\bhow (?:long ago|recently|soon|early|late)\b"
        ),
    ),
    (
        "count",
        (
            r"\bhow (?:many|much|often|long|old|far|big|tall|high|deep|large|heavy|fast|wide|hot"
            r"|cold|strong|frequently)\b|\bwhat (?:number|percentage|percent|share|fraction"
            r"|proportion|rate|age|size|height|length|weight|speed|distance|temperature|version"
            r"|score|amount|population|port)\b|\b(?:population|height|length|speed|size|age"
            r"|version|limit|rate|port number|phone number|temperature) of\b"
        ),
    ),
    (
        "where",
        r"\bwhere\b|\b(?:what|which) (?:city|country|place|town|state|location|region)\b",
    ),
    (
        "why",
        r"\bwhy\b|\bwhat (?:caused|causes|made|makes|led|motivated|inspired)\b|\breasons?\b",
    ),
    ("who", r"\bwho(?:se|m)?\b|\b(?:what|which) (?:person|people|author|team|company|band)\b"),
    ("how", r"^\W*how\b|\bhow (?:do|does|did|can|to|should|is|are|was|were)\b"),
    ("what", r"\b(?:what|which)\b"),
)
_QUESTION_KINDS = tuple((kind, compile_late(asked, re.IGNORECASE)) for kind, asked in _ASKED)

_MONTH = (
    r"jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?"
    r"|sep(?:t(?:ember)?)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?"
)
_NUMBER_WORD = (
    r"two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|dozen|twenty|thirty|forty|fifty"
    r"|sixty|seventy|eighty|ninety|hundreds?|thousands?|millions?|billions?|once|twice|half"
    r"|several|couple"
)
_ANSWER_MARKS: dict[str, tuple[tuple[re.Pattern[str], float], ...]] = {
    kind: tuple((compile_late(pattern, flags), worth) for pattern, flags, worth in marks)
    for kind, marks in {
        "when": (
            ((rf"\b(?:1\d|20)\d\d\b|\b\d{{4}}-\d\d|\b(?:{_MONTH})\.? \d|\d(?:st|nd|rd|th)? (?:of )?"
             rf"(?:{_MONTH})\b"), re.IGNORECASE, 1.0),
            ((r"\b(?:yesterday|today|tonight|tomorrow|ago|(?:last|next|this|past|previous) "
             r"(?:\w+ )?(?:week|weekend|month|year|night|spring|summer|autumn|fall|winter|\w+day)"
             r"|\w+day\b|century|recently|just|\d\d?:\d\d|\d ?[ap]\.?m)\b"), re.IGNORECASE, 0.7),
            (rf"\b(?:{_MONTH})\b|\b(?:since|during|after|before|until) ", re.IGNORECASE, 0.3),
        ),
        "count": (
            (r"\d", 0, 1.0),
            (rf"\b(?:{_NUMBER_WORD})\b", re.IGNORECASE, 0.7),
            (r"\b(?:one|every|each|always|never|often|usually|daily|weekly|all|none)\b",
             re.IGNORECASE, 0.3),
        ),
        "money": (
            ((r"[$€£¥₹]\s?\d|\d[\d.,]*\s?(?:[kmb]\b|million|billion|thousand)?\s?(?:dollars?|euros?"
             r"|pounds?|usd|eur|gbp|yen|rupees?|cents?|[€£¥₹])"), re.IGNORECASE, 1.0),
            (r"\d|\b(?:free|gratis)\b", re.IGNORECASE, 0.5),
        ),
        "who": (
            (r"(?<=[a-z,;] )[\"“]?[A-Z][a-z]+(?: [A-Z][\w.]*)+|^(?:[A-Z][\w.]+ ){2,3}[a-z]",
             0, 0.7),
            (r"\bby [A-Z]|\b(?:Mr|Mrs|Ms|Dr|Prof)\b", 0, 0.4),
            ((r"\b(?:mother|father|mom|mum|dad|sister|brother|friends?|wife|husband|son|daughter"
             r"|grand\w+|aunt|uncle|cousin|colleague|boss|team|founder|author|director|president"
             r"|teacher|family|kids?)\b"), re.IGNORECASE, 0.4),
            (r"(?<=[a-z,;] )[A-Z][a-z]+", 0, 0.3),
        ),
        "where": (
            (r"\b(?:in|at|near|from|to|outside|around|of|on) (?:the )?[A-Z]\w+", 0, 0.8),
            ((r"\b(?:located|based|lives?|moved|headquarter\w*|situated|born in|street|avenue|north"
             r"|south|east|west|city|town|village|country|province|county|island|coast|park|beach"
             r"|border|between|home|school"
             r"|office|caf[eé]|shelter|museum|shop|store|folder|directory|file)\b"),
             re.IGNORECASE, 0.4),
            (r"\b(?:in|at|on|near|inside|under) (?:the|a|an|our|my|his|her|their) \w", 0, 0.4),
        ),
        "why": (
            ((r"\b(?:because|since|due to|owing to|thanks to|as a result|so that|in order to"
             r"|therefore|reasons?|caused?|led to|leads to|results? (?:in|from)|why|inspired"
             r"|motivat\w+|wanted to|hence|thus|helps?|so i|makes?|made)\b"), re.IGNORECASE, 0.9),
            (r"\bto \w+|\bfor \w+|\bso\b", re.IGNORECASE, 0.2),
        ),
        "how": (
            ((r"\b(?:by \w+ing|using|use|run|with|through|via|first|then|steps?|install|set|click"
             r"|open|add|call|pass|must|should|can|need to)\b"), re.IGNORECASE, 0.5),
            (r"`[^`]+`", 0, 0.3),
        ),
        "what": (
            (r"\b(?:is|are|was|were|means?|refers? to|called|known as|named|consists? of) ",
             0, 0.3),
        ),
    }.items()
}  # fmt: skip


def answer_kinds(question: str) -> tuple[AnswerKind, ...]:
    """What `question` asks for, the first thing asked first; `("any",)` when it does not say."""
    found = [
        (match.start(), kind)
        for kind, pattern in _QUESTION_KINDS
        if (match := pattern.search(question))
    ]
    if not found:
        return ("any",)
    kinds = [kind for _, kind in found]
    # "How much does it cost" is a count as well as money; "what" is in nearly all of them.
    return tuple(dict.fromkeys(kinds[:2]))


def answer_likeness(sentence: str, kinds: tuple[AnswerKind, ...]) -> float:
    """How much `sentence` looks like such an answer, 0 to 1; 0 when nothing is known of it."""
    best = 0.0
    for rank, kind in enumerate(kinds):
        marks = _ANSWER_MARKS.get(kind, ())
        worth = sum(value for pattern, value in marks if pattern.search(sentence))
        best = max(best, min(1.0, worth) * (1.0 if rank == 0 else 0.5))
    return best
