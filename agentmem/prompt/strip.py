"""Take our own blocks out of text, so that nothing we injected is stored again (P21).

A block is known by its markup, without the secret, however it was quoted:
with prefixes, in a fence, escaped for HTML or JSON, with other line breaks, in
another case. Cut blocks are removed up to the end of whatever quotes them.
With `known` fingerprints, pieces that lost all markup are found as well.
"""

from __future__ import annotations

import hashlib
import json
import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any, TypeVar, overload
from unicodedata import normalize

from agentmem.base.checks import require_text
from agentmem.base.errors import InvalidMessage
from agentmem.base.lazy import compile_late
from agentmem.base.types import BEGIN_LINE
from agentmem.prompt.block import STUB, ContextBlock
from agentmem.prompt.messages import as_dict, is_reference, is_stub
from agentmem.text.clean import Seen, see
from agentmem.text.messages import makes_calls
from agentmem.text.regions import join_spans

# ----------------------------------------------------------------------------
# How far the text around a place is one quotation: the most that a cut block can fill.
#
# A block that lost its end runs on to the end of what quotes it: a JSON string,
# lines that all start with `>`, or else the whole text. A code fence
# is no limit, since fences in the quoted content look the same.


_QUOTE = compile_late(r'(\\*)"')
_PREFIX = compile_late(
    r"[ \t]*>[> \t]*"
)  # the block itself writes every ">" of its content as "&gt;"

Span = tuple[int, int]
T = TypeVar("T")


class Quotations:
    """The quotations of one text; each question costs a look-up, not a scan."""

    def __init__(self, text: str, seen: Seen) -> None:
        self._text = text
        self._seen = seen
        self._lines = [match.start() for match in re.finditer("\n", text)]

    def around(self, view: Span) -> Span:
        """The quotation around the place that the view shows at `view`."""
        place = self._seen.span(*view)
        escapes = self._escapes(view)
        if escapes:
            return self._string(place, escapes - 1)
        at = bisect_left(self._lines, place[0])
        line = self._lines[at - 1] + 1 if at else 0
        if _PREFIX.fullmatch(self._text, line, place[0]):
            return self._runs[bisect_right(self._runs, (place[0], len(self._text))) - 1]
        return 0, len(self._text)

    def _escapes(self, view: Span) -> int:
        """With how many backslashes a JSON string writes the line break next to our markup.

        0 where the line break is a real one, and where quotes are not escaped
        to the same depth, as in a Python literal.
        """
        seen = self._seen.text
        for at in (view[0] - 1, view[1]):
            if 0 <= at < len(seen) and seen[at] == "\n":
                start, end = self._seen.span(at, at + 1)
                escapes = end - start - 1 if self._text[end - 1] == "n" else 0
                return escapes if escapes and self._escapes_quotes(view, 2 * escapes - 1) else 0
        return 0

    def _escapes_quotes(self, view: Span, backslashes: int) -> bool:
        start, end = self._seen.span(*view)
        quote = self._text.find('"', start, end)
        if quote >= 0:
            written = self._text[max(start, quote - backslashes - 1) : quote]
            return len(written) - len(written.rstrip("\\")) == backslashes
        return self._is_json

    @cached_property
    def _is_json(self) -> bool:
        try:
            json.loads(self._text)
        except (ValueError, RecursionError):
            return False
        return True

    @cached_property
    def _strings(self) -> dict[int, list[Span]]:
        """The quotation marks, by how many backslashes stand before them."""
        found: dict[int, list[Span]] = defaultdict(list)
        for match in _QUOTE.finditer(self._text):
            found[len(match[1])].append(match.span())
        return found

    def _string(self, place: Span, backslashes: int) -> Span:
        quotes = self._strings.get(backslashes, [])
        after = bisect_left(quotes, (place[1], 0))
        before = bisect_right(quotes, (place[0], 0)) - 1
        start = quotes[before][1] if before >= 0 else 0
        return start, quotes[after][0] if after < len(quotes) else len(self._text)

    @cached_property
    def _runs(self) -> list[Span]:
        """The lines that all start with `>`, blank ones between them aside.

        Where a line without it follows directly, the quotation goes on in a
        way nobody can tell, as in Markdown: then it is the whole text.
        """
        runs: list[Span] = []
        start = 0
        blank = inside = False
        for end in (*self._lines, len(self._text)):
            line = self._text[start:end].strip()
            if line.startswith(">"):
                if inside:
                    runs[-1] = (runs[-1][0], end)
                else:
                    runs.append((start, end))
                inside = True
            elif line:
                if inside and not blank:
                    runs[-1] = (runs[-1][0], len(self._text))
                inside = False
            blank = not line
            start = end + 1
        return runs


# ----------------------------------------------------------------------------
# Recognise text that was injected, when nothing of the block's markup is left around it.
#
# A fingerprint is the hash of eight words in a row, read without case,
# punctuation and escapes. Eight words repeat by chance far more rarely than they
# are copied.


WORDS_IN_A_ROW = 8

# Scripts written without spaces count by the character.
_SIGNS = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003ffff"
)
_WORD = compile_late(rf"[{_SIGNS}]|[^\W_{_SIGNS}]+")


def fingerprints(shown: ContextBlock | Iterable[str]) -> frozenset[bytes]:
    """What to remember of a block, or of any texts, to find their echoes later.

    A text shorter than eight words is found again only where it is a whole line.
    """
    if isinstance(shown, ContextBlock):
        shown = (
            *shown.user_profile,
            *(source.text for source in shown.related_knowledge),
            *(pointer.summary for pointer in shown.working_memory),
            shown.summary,
        )
    found: set[bytes] = set()
    for text in (shown,) if isinstance(shown, str) else shown:
        words = list(map(str.casefold, _WORD.findall(see(text).text)))
        found.update(_row_hashes(words) or _whole_hash(words))
    return frozenset(found)


def echoes(text: str, known: Collection[bytes]) -> list[tuple[int, int]]:
    """The spans of `text` that repeat something known, in order."""
    spans: list[tuple[int, int]] = []
    seen = see(text)
    places, words = _words_of(seen)
    last = -1
    for at, row in enumerate(_row_hashes(words)):
        if row not in known:
            continue
        start, end = seen.span(places[at][0], places[at + WORDS_IN_A_ROW - 1][1])
        if at <= last:
            spans[-1] = (spans[-1][0], end)
        else:
            spans.append((start, end))
        last = at + WORDS_IN_A_ROW
    for line in re.finditer(r"[^\n]+", text):
        seen = see(line[0])
        places, words = _words_of(seen)
        if any(whole in known for whole in _whole_hash(words)):
            start, end = seen.span(places[0][0], places[-1][1])
            spans.append((line.start() + start, line.start() + end))
    return sorted(spans)


def _words_of(seen: Seen) -> tuple[list[Span], list[str]]:
    """Where the words of a view stand in it, and the words."""
    found = list(_WORD.finditer(seen.text))
    return [match.span() for match in found], [match[0].casefold() for match in found]


def _row_hashes(words: list[str]) -> list[bytes]:
    """What each eight words in a row are known by."""
    coded = [word.encode("utf-8", "replace") for word in words]
    return [
        hashlib.blake2b(b"\0".join(row), digest_size=8).digest()
        for row in _in_a_row(coded, WORDS_IN_A_ROW)
    ]


def _whole_hash(words: list[str]) -> list[bytes]:
    """What a text of fewer words is known by; nothing for others."""
    if not 0 < len(words) < WORDS_IN_A_ROW:
        return []
    text = "\n" + "\0".join(words)
    return [hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8).digest()]


_TAG = compile_late(
    r"""
    (?:<\s{0,4}!?[\s–—-]{0,8})?agentmem\W{1,24}reference\W{1,24}[0-9a-f]{16}\W{1,24}(?P<line>begins|ends)(?:[\s–—-]{0,8}>)?
    | <\s{0,8}(?P<close>/?)\s{0,8}
      (?P<name>knowledge_context|user_profile|related_knowledge|source|working_memory|stored_result
      |conversation_summary)
      (?P<attributes>\W{1,24}(?:count|total_found|index|url|id|tool)\b)? (?:[^<>]{0,4000}>)?
    """,
    re.VERBOSE | re.IGNORECASE,
)
_WORDS = ("agentmem", "knowledge", "source", "stored_result")
_LINE = "line"
_ROOT = "knowledge_context"
_DEPTH = MappingProxyType(
    {
        _LINE: 0,
        _ROOT: 1,
        "user_profile": 2,
        "related_knowledge": 2,
        "working_memory": 2,
        "conversation_summary": 2,
        "source": 3,
        "stored_result": 3,
    }
)
_DISTINCTIVE = (_ROOT, "related_knowledge")
_WITH_ATTRIBUTES = ("related_knowledge", "source", "stored_result")
_LETTER = compile_late(r"[^\W_]")
_REST_OF_LINE = compile_late(r"[ \t]*\n?")
_OPENING_FENCE = compile_late(r"[ \t>]*(?:`{3,}|~{3,})[^\n`]*\n")
_CLOSING_FENCE = compile_late(r"[ \t>]*(?:`{3,}|~{3,})[ \t]*(?:\n|\Z)")
_BEGIN_LETTERS = "".join(_LETTER.findall(BEGIN_LINE.format(boundary="")))
DEEPEST = 100
"""No message is nested deeper; what is, is refused before Python's own limit is met."""
_SKIPPED_KEYS = ("role", "type", "id", "name", "tool_call_id", "tool_use_id", "call_id")


@dataclass(slots=True)
class _Mark:
    """A piece of our markup, with its place in the view and in the text."""

    name: str
    opens: bool
    certain: bool
    view: tuple[int, int]
    place: tuple[int, int]


@overload
def strip(content: str, *, known: Collection[bytes] = ...) -> str: ...
@overload
def strip(content: Iterable[Any], *, known: Collection[bytes] = ...) -> list[dict[str, Any]]: ...
def strip(
    content: str | Iterable[Any], *, known: Collection[bytes] = ()
) -> str | list[dict[str, Any]]:
    """`content`, a text or chat messages, without anything our blocks said.

    Messages that hold nothing else are left out; in the others every text is
    stripped, tool arguments and results included. Text outside a block stays
    as it is; a tag that somebody merely mentions is not a block. `known` takes
    `fingerprints` of what was injected.
    """
    if isinstance(content, str):
        return _strip_text(require_text(content, "content"), known)
    kept: list[dict[str, Any]] = []
    for at, message in enumerate(content):
        plain = as_dict(message, at)
        if is_stub(plain) or is_reference(plain):
            continue
        stripped = _strip_value(plain, known)
        emptied = stripped.get("content") in ("", []) and plain.get("content") not in ("", [], None)
        if not emptied or makes_calls(stripped):
            kept.append(stripped)
    return kept


def _strip_value(value: Any, known: Collection[bytes], depth: int = 0) -> Any:
    if isinstance(value, str):
        return _strip_text(value, known)
    if depth > DEEPEST and isinstance(value, Mapping | list | tuple):
        raise InvalidMessage(
            "message", value, f"is nested deeper than {DEEPEST}", remedy="Flatten it."
        )
    if isinstance(value, Mapping):
        return {
            k: v if k in _SKIPPED_KEYS else _strip_value(v, known, depth + 1)
            for k, v in value.items()
        }
    if isinstance(value, list | tuple):
        stripped = [_strip_value(item, known, depth + 1) for item in value]
        return [new for new, old in zip(stripped, value, strict=True) if not _emptied(new, old)]
    return value


def _emptied(new: Any, old: Any) -> bool:
    """Whether a list item was our block and nothing else."""
    if isinstance(new, Mapping):
        new, old = new.get("text"), old.get("text")
    return isinstance(new, str) and not new and new != old


def _strip_text(text: str, known: Collection[bytes]) -> str:
    seen = see(text)
    lowered = seen.text.lower()
    if any(map(lowered.__contains__, _WORDS)):
        marks = _accepted(_marks(seen), seen.text)
        text = _without(text, _regions(marks, seen, text)) if marks else text
    if known:
        text = _without(text, echoes(text, known))
    return text.replace(STUB, "")


def _marks(seen: Seen) -> list[_Mark]:
    """Everything that could be our markup, in order."""
    marks: list[_Mark] = []
    for match in _TAG.finditer(seen.text):
        if line := match["line"]:
            name, opens, certain = _LINE, line.lower() == "begins", True
        else:
            name, opens = match["name"].lower(), not match["close"]
            certain = opens and name in _WITH_ATTRIBUTES and bool(match["attributes"])
        marks.append(_Mark(name, opens, certain, match.span(), seen.span(*match.span())))
    return marks


def _accepted(marks: list[_Mark], seen: str) -> list[_Mark]:
    """The marks that are ours: certain by themselves, or by what they touch or pair with.

    A tag alone in a sentence touches nothing and pairs with nothing certain.
    """
    beside: list[list[int]] = [[] for _ in marks]
    latest: dict[str, int] = {}
    for at, mark in enumerate(marks):
        if at and _touch(marks[at - 1], mark, seen):
            beside[at].append(at - 1)
            beside[at - 1].append(at)
            if mark.name in _DISTINCTIVE or marks[at - 1].name in _DISTINCTIVE:
                mark.certain = marks[at - 1].certain = True
        name = _ROOT if mark.name == _LINE else mark.name
        pair = latest.get(name)
        if pair is not None and marks[pair].opens and not mark.opens:
            beside[at].append(pair)
            beside[pair].append(at)
        latest[name] = at
    reached = [at for at, mark in enumerate(marks) if mark.certain]
    while reached:
        for other in beside[reached.pop()]:
            if not marks[other].certain:
                marks[other].certain = True
                reached.append(other)
    return [mark for mark in marks if mark.certain]


def _touch(before: _Mark, after: _Mark, seen: str) -> bool:
    """Whether two marks follow each other as they do in a block, with no word between them."""
    step = _DEPTH[after.name] - _DEPTH[before.name]
    if before.opens:
        follows = after.opens and step == 1
    else:
        siblings = step == 0 and _DEPTH[after.name] > _DEPTH[_ROOT]
        follows = siblings if after.opens else step == -1
    return follows and not _LETTER.search(seen, before.view[1], after.view[0])


def _regions(marks: list[_Mark], seen: Seen, text: str) -> list[tuple[int, int]]:
    """The spans of `text` that a block fills.

    What follows an opening mark or precedes a closing one belongs to a block,
    as far as the quotation reaches.
    """
    quotations = Quotations(text, seen)
    limits = [quotations.around(mark.view) for mark in marks]
    regions = [mark.place for mark in marks]
    for at in range(len(marks) + 1):
        before = marks[at - 1] if at else None
        after = marks[at] if at < len(marks) else None
        start = before.place[1] if before else 0
        end = after.place[0] if after else len(text)
        if before and before.opens:
            regions.append((start, min(end, limits[at - 1][1])))
        if after and not after.opens:
            regions.append((max(start, limits[at][0]), end))
        if before and after and _touch(before, after, seen.text):
            regions.append((start, end))
        if after and not before and _is_rest_of_line(seen.text, after):
            regions.append((start, end))
    return regions


def _is_rest_of_line(seen: str, mark: _Mark) -> bool:
    """Whether all that stands before the root is the end of a begin line that was cut off."""
    if mark.name != _ROOT or not mark.opens or mark.view[0] > 2 * len(BEGIN_LINE):
        return False
    before = seen[: mark.view[0]].rstrip()
    return before.endswith(">") and _BEGIN_LETTERS.endswith("".join(_LETTER.findall(before)))


def _without(text: str, regions: list[tuple[int, int]]) -> str:
    """`text` without the regions, their line prefixes and the fence that held nothing else."""
    kept: list[str] = []
    done = 0
    for start, end in join_spans(regions):
        before = text[done : max(done, start)]
        done = max(done, end)
        line = before.rpartition("\n")[2]
        if not line.strip(" \t>"):
            before = before.removesuffix(line) if line else before
            following = _REST_OF_LINE.match(text, done)
            done = following.end() if following else done
            opening = before.rfind("\n", 0, -1) + 1
            closing = _CLOSING_FENCE.match(text, done)
            if closing and _OPENING_FENCE.fullmatch(before, opening):
                before, done = before[:opening], closing.end()
        kept.append(before)
    return "".join((*kept, text[done:]))


# ----------------------------------------------------------------------------
# Whether a text repeats another one: the whole of a short one, or a run of words of a long one.
#
# Case, white space, punctuation and the numbers of sources do not count: what is
# kept of an answer differs from the answer in just these.


RUN_WORDS = 8
"""So many words in a row are a quote; of a shorter text all of it is."""
STRIDE = 4
LEAST_CHARACTERS = 4
"""Shorter texts stand in everything."""
_FEW_ANCHORS = 64
_MARK = re.compile(  # "[1]", "(source 2)", "【3†source】", "[1, 4-6]"
    r"[\[(【［][ ]?(?:[^\W\d_]{1,10}[ :#^]{0,3})?\d{1,3}"
    r"(?:[ ]?[-–,;&†][ ]?\w{1,20}){0,9}[ ]?[\])】］]"
)
_ID = re.compile(r"[\w-]{4,}")


class Quotes:
    """Texts to look for in other texts, all of them in one pass.

    They are read when they are first looked for. Of a long text every
    `STRIDE`th run is known, so that a quote of eleven words is always found
    and a shorter one mostly.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        self._texts = list(texts)

    def are_in(self, text: str) -> bool:
        """Whether `text` repeats one of them."""
        known_runs, anchors, known_bare = self._known
        if any(bare in text for bare in known_bare):
            return True
        if not known_runs:
            return False
        plain = _plain(text)
        if len(anchors) <= _FEW_ANCHORS and not any(word in plain for word in anchors):
            return False
        words = _WORD.findall(plain)
        return any(
            not runs.isdisjoint(map(hash, _in_a_row(words, length)))
            for length, runs in known_runs.items()
        )

    @cached_property
    def _known(self) -> tuple[dict[int, set[int]], set[str], set[str]]:
        """Runs of words as hashes, by length; words of which every quote has one, if these are
        few; and what has no words."""
        runs: dict[int, set[int]] = {}
        anchors: set[str] = set()
        bare: set[str] = set()
        for text in dict.fromkeys(self._texts):
            words = _WORD.findall(_plain(text))
            if sum(map(len, words)) < LEAST_CHARACTERS:  # signs, around a letter or two
                bare |= {text.strip()} if len(text.strip()) >= LEAST_CHARACTERS else set()
                continue
            length = min(len(words), RUN_WORDS)
            last = len(words) - length
            for start in {*range(0, last, STRIDE), last}:
                run = tuple(words[start : start + length])
                runs.setdefault(length, set()).add(hash(run))
                if len(anchors) <= _FEW_ANCHORS:
                    anchors.add(max(run, key=len))
        return runs, anchors, bare


class Names:
    """Ids to look for in texts; each only as a word of its own, unless it is no word."""

    def __init__(self, ids: Iterable[str]) -> None:
        telling = {one for one in ids if len(one) >= LEAST_CHARACTERS}
        self._words = {one for one in telling if _ID.fullmatch(one)}
        self._others = telling - self._words

    def are_in(self, text: str) -> bool:
        """Whether `text` names one of them."""
        if any(one in text for one in self._others):
            return True
        if len(self._words) <= _FEW_ANCHORS and not any(one in text for one in self._words):
            return False
        return not self._words.isdisjoint(_ID.findall(text))


def texts_in(value: Any) -> Iterator[str]:
    """Every text of a JSON value, the names of fields too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, one in value.items():
            yield str(key)
            yield from texts_in(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from texts_in(one)


def _plain(text: str) -> str:
    composed = text if text.isascii() else normalize("NFC", text)
    return _MARK.sub(" ", composed).casefold()


def _in_a_row(words: list[T], length: int) -> Iterable[tuple[T, ...]]:
    return zip(*[words[start:] for start in range(length)], strict=False)
