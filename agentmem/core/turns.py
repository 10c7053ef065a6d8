"""The turns of a chat transcript, with who spoke and when."""

from __future__ import annotations

import re
from collections.abc import Iterator

from agentmem.core.patterns import compile_late
from agentmem.core.structure import Block, Line, lines_of

_MONTH = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?"
    r"|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\.?"
)
_DAY_NAME = r"(?:(?:mon|tues?|wed(?:nes)?|thu(?:rs)?|fri|sat(?:ur)?|sun)(?:day)?\.?,?[ ]+)?"
_TIME = r"\d{1,2}[:.]\d{2}(?:[:.]\d{2}(?:[.,]\d{1,6})?)?(?:[ \u00a0\u202f]?[ap]\.?m\.?)?"
_ZONE = r"(?:[ ]?(?:z|utc|gmt|[+-]\d{2}:?\d{2}))?"
_DAY = (
    rf"{_DAY_NAME}(?:\d{{4}}[-/.]\d{{1,2}}[-/.]\d{{1,2}}|\d{{1,2}}[-/.]\d{{1,2}}[-/.]\d{{2,4}}"
    rf"|\d{{1,2}}(?:st|nd|rd|th)?[ ]+(?:of[ ]+)?{_MONTH},?(?:[ ]+\d{{4}})?"
    rf"|{_MONTH}[ ]+\d{{1,2}}(?:st|nd|rd|th)?(?:,?[ ]+\d{{4}})?)"
)
_WHEN = (
    rf"(?:{_DAY}(?:(?:,[ ]*|[ ]+(?:at[ ]+|-[ ]+)?|t){_TIME}{_ZONE})?"
    rf"|{_TIME}{_ZONE}(?:(?:,[ ]*|[ ]+(?:on[ ]+)?){_DAY})?)"
)
# A name stands in one line, is short, and has no colon.
_NAME = r"(?:[^\W_](?:[^\n:<>\[\](){}|*`\"]{0,38}[^\s:<>\[\](){}|*`\"])?)"
_TURN = compile_late(
    rf"[ \t]{{0,3}}(?:[-*>][ ]+)?"
    rf"(?:[\[(](?P<before>{_WHEN})[\])][ ]*[-–—]?[ ]*|(?P<bare>{_WHEN})[ ]*[-–—|][ ]*)?"
    rf"(?:<(?P<irc>[^\s<>]{{1,40}})>(?=[ \t]|$)"
    rf"|(?P<bold>\*\*|__)?(?P<name>{_NAME})(?:\*\*|__)?"
    rf"(?:[ ]*[\[(](?P<after>{_WHEN})[\])])?[ ]*:(?:\*\*|__)?(?=\s|$))",
    re.IGNORECASE,
)
_DATE_LINE = compile_late(
    rf"[ \t#*=>_~-]*(?:(?:date|session(?:[ ]+\d+)?|day(?:[ ]+\d+)?|conversation)[ ]*[:,(–—-]?[ ]*)?"
    rf"[\[(]?(?P<when>{_WHEN})[\])]?[ \t*=_~:-]*$",
    re.IGNORECASE,
)
_CLOCK = compile_late(rf"(?:,[ ]*|[ ]+(?:at[ ]+|-[ ]+)?|(?<=\d)t|^){_TIME}{_ZONE}", re.IGNORECASE)
_FENCE = compile_late(r"[ \t]*(?:```|~~~)")
_SMALL_WORDS = frozenset("de da di do du van von der den la le el al bin ibn of the y e".split())  # noqa: SIM905  # reads better
_LONGEST_PREFIX = 160
# Words that label a line more often than they name somebody.
_LABELS = frozenset(
    """
    note notes warning caution tip hint todo fixme fyi ps edit update updated example examples
    summary conclusion subject date time from to cc bcc re http https ftp file mailto step steps
    error errors output input result results total price address phone email e-mail location where
    when agenda topic title description ingredients instructions important reminder source sources
    link links url see also website version status name key value default returns return args
    else try except finally case class def yes no ok okay so well but and btw imo remember reason
    problem solution pros cons goal goals plan idea option options day week breakfast lunch dinner
    """.split()  # noqa: SIM905  # a list of words reads better than a column of strings
)


def turn_blocks(text: str) -> Iterator[Block]:
    """The turns in order; lines without a speaker belong to the turn before them.

    A line that is only a date dates the turns after it. What stands before the
    first turn is a block without speaker.
    """
    speaker = date = day = ""
    start: int | None = None
    end = 0
    in_fence = False
    previous: tuple[str, str] | None = None

    def closed(first: int) -> Block:
        return Block(
            first, end, "turn", (), speaker, date, previous != (speaker, day_of(date)), True
        )

    for line in lines_of(text):
        if not line.text.strip():
            continue
        if _FENCE.match(line.text):
            in_fence = not in_fence
        elif not in_fence:
            turn = read_turn(line)
            dated = None if turn else read_date_line(line.text)
            if turn or dated:
                if start is not None and not _is_date_only(text, start, end):
                    yield closed(start)
                    previous = (speaker, day_of(date))
                    start = None
                if start is None:
                    start = line.start
                if turn:
                    speaker, said = turn
                    date = _full_date(said, day)
                elif dated:
                    day = date = dated
                    speaker = ""
        if start is None:
            start = line.start
        end = line.start + len(line.text)
    if start is not None:
        yield closed(start)


def read_turn(line: Line) -> tuple[str, str] | None:
    """Who begins to speak in this line and the date it gives ("" if none), or None."""
    match = _TURN.match(line.text[:_LONGEST_PREFIX])
    if match is None:
        return None
    when = match["before"] or match["bare"] or match["after"] or ""
    if match["irc"]:
        return match["irc"], when
    name = match["name"].strip()
    if not when and not _is_name(name):
        return None
    return name, when


def read_date_line(line: str) -> str:
    """The date of a line that says nothing else, or ""."""
    match = _DATE_LINE.match(line) if len(line) <= _LONGEST_PREFIX else None
    return match["when"].strip() if match else ""


def day_of(date: str) -> str:
    """The date without its clock time."""
    return _CLOCK.sub("", date).strip(" ,")


def _full_date(said: str, day: str) -> str:
    """A turn's own date, with the day of the last date line when it gives only a time."""
    if said and day_of(said):
        return said
    return f"{day} {said}".strip() if day else said


def _is_date_only(text: str, start: int, end: int) -> bool:
    return end - start <= _LONGEST_PREFIX and bool(read_date_line(text[start:end]))


def _is_name(name: str) -> bool:
    """Whether a word before a colon looks like somebody: one word, or each with a capital."""
    words = name.split()
    if name.casefold() in _LABELS or len(words) > 4:
        return False
    if len(words) == 1:
        return "/" not in name and "\\" not in name and not name.isdigit()
    return all(
        word[0].isupper()
        or word[0].isdigit()
        or word in _SMALL_WORDS
        or word[0].lower() == word[0].upper()
        for word in words
    )
