"""A sentence as tokens: words, and numbers, dates, times and versions as they are written."""

from __future__ import annotations

import re

from agentmem.core.conflicts_values import Value, month_number
from agentmem.core.conflicts_words import PHRASES
from agentmem.core.values import dataclass

_MONTH = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?"
    r"|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\b\.?"
)
_YEAR = r"(?:19|20)\d\d"
_TOKEN = re.compile(
    rf"""
      (?P<url>(?:https?://|www\.)\S+|[\w.+-]+@[\w-]+\.[\w.-]+)
    | (?P<iso>(?<![\w-]){_YEAR}-\d\d(?:-\d\d)?(?![\w-]))
    | (?P<slash>(?<!\w)\d{{1,2}}/\d{{1,2}}/(?:19|20)?\d\d(?!\w))
    | (?P<time>(?<![\w.])\d{{1,2}}(?::\d\d)?[ ]?[ap]\.?m\b\.?|(?<![\w.:])\d{{1,2}}:\d\d(?![\w:]))
    | (?P<daymonth>(?<![\w.])\d{{1,2}}(?:st|nd|rd|th)?(?:[ ]of)?[ ]{_MONTH}(?:,?[ ]{_YEAR}\b)?)
    | (?P<monthday>\b{_MONTH}[ ]\d{{1,2}}(?:st|nd|rd|th)?(?![\w:.]\d|\w)(?:,?[ ]{_YEAR}\b)?)
    | (?P<monthyear>\b{_MONTH},?(?:[ ]of)?[ ]{_YEAR}\b)
    | (?P<version>(?<![\w.])v\d+(?:\.\d+)*(?![\w])|(?<![\w.])\d+(?:\.\d+){{2,5}}(?![\w]))
    | (?P<code>(?<![\w.])\d+(?:-\d+){{2,8}}(?![\w-]))
    | (?P<range>(?<![\w.])\d+(?:\.\d+)?[ ]?[-–][ ]?\d+(?:\.\d+)?(?![\w-]|\.\d))
    | (?P<number>(?<![\w.])[-+]?[$€£¥₹]?(?:\d{{1,3}}(?:,\d\d\d)+|\d+)(?:\.\d+)?
        (?P<glued>(?:k|m|bn|mn)?(?:%|°[cf]?)|[a-zµ]{{1,4}})?(?![\w]))
    | (?P<word>[^\W\d_](?:[\w+#]|['’.\-/_](?=\w))*)
    | (?P<other>\w+)
    | (?P<mark>[;:,?()=%$€£~<>≥≤])
    """,
    re.VERBOSE | re.IGNORECASE,
)


@dataclass(slots=True)
class Token:
    """A piece of a sentence; `kind` is the group of the pattern that found it."""

    kind: str
    text: str
    lower: str
    glued: str = ""


def split_tokens(sentence: str) -> list[Token]:
    """The tokens in order; two words that are one term ("pull request") become one."""
    found: list[Token] = []
    for match in _TOKEN.finditer(sentence):
        text = match[0]
        if match["number"] is not None:
            found.append(Token("number", text, text.lower(), (match["glued"] or "").lower()))
            continue
        lower = text.lower().replace("’", "'")
        if found and (joined := PHRASES.get((found[-1].lower, lower))) is not None:
            found[-1] = Token("word", f"{found[-1].text} {text}", joined)
        else:
            found.append(Token(match.lastgroup or "word", text, lower))
    return found


def read_time(token: Token) -> Value | None:
    """The time of day a token says, None for 25:61."""
    numbers = [int(n) for n in re.findall(r"\d+", token.text)]
    hour, minute = numbers[0], numbers[1] if len(numbers) > 1 else 0
    lowered = token.lower
    if "p" in lowered and hour < 12:
        hour += 12
    elif "a" in lowered and hour == 12:
        hour = 0
    if hour > 24 or minute > 59:
        return None
    minutes = float(hour * 60 + minute)
    return Value("time", token.text.strip(), low=minutes, high=minutes)


def read_date(token: Token) -> Value | None:
    """The date a token says, as far as it says one; None for the 40th of May."""
    text = token.lower
    numbers = [int(n) for n in re.findall(r"\d+", text)]
    year: int | None = None
    month: int | None = None
    day: int | None = None
    swapped = 0
    if token.kind == "iso":
        year, month = numbers[0], numbers[1]
        day = numbers[2] if len(numbers) > 2 else None
    elif token.kind == "slash":
        month, day, year = numbers[0], numbers[1], numbers[2]
        year += 2000 if year < 100 else 0
        if month > 12:
            month, day = day, month
        elif day <= 12:
            swapped = 1
    else:
        month = next((n for word in re.findall(r"[a-z]+", text) if (n := month_number(word))), None)
        if token.kind == "monthyear":
            year = numbers[-1]
        else:
            day = numbers[0]
            year = numbers[1] if len(numbers) > 1 else None
    if (month is not None and not 1 <= month <= 12) or (day is not None and not 1 <= day <= 31):
        return None
    return Value("date", token.text.strip(), parts=(year, month, day, None, swapped))
