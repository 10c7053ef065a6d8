"""Number sources, print them, and check the numbers an answer cites (P12).

A page that both the web search and the memory found is one citation and says
so. In an answer, `[1]`, `[1, 2]`, `[1-3]`, `【1】`, `[^1]`, `[Source 1]` and links
such as `[1](https://…)` are citations; `(1)` is not, since lists and asides
look the same, and nothing inside code is.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from itertools import accumulate, pairwise
from typing import Literal, get_args

from agentmem.base.checks import require_choice, require_text
from agentmem.base.errors import InvalidInput
from agentmem.base.lazy import compile_late
from agentmem.text.regions import Span, code_spans, cover, replace_spans
from agentmem.text.sentences import sentences

SourceKind = Literal["web", "memory", "both"]
CitationStyle = Literal["text", "markdown", "json"]

LABELS: dict[str, str] = {
    "web": "Web Source",
    "memory": "Knowledge Base",
    "both": "Web Source, also in the Knowledge Base",
}
LONGEST_URL = 2_000
WIDEST_RANGE = 1_000

_INVISIBLE = compile_late(
    "[\x00-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e0fff]+"
)
_MARKDOWN = compile_late(r"([\\`*_{}\[\]()<>#+\-.!|~&:@^=\"'$])")
_WEB_URL = compile_late(r"https?://[^\s/?#]+", re.IGNORECASE)
_URL_PARTS = compile_late(r"(?:([a-z][a-z0-9+.-]*):)?//([^/?#]*)([^?#]*)(\?[^#]*)?", re.IGNORECASE)
_TRACKING = compile_late(
    r"(?:utm_\w+|gclid|fbclid|msclkid|mc_[ce]id|igshid)(?:=|\Z)", re.IGNORECASE
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundSource:
    """Something that was found and may be cited, before it has a number."""

    source: SourceKind
    url: str = ""
    title: str = ""
    quote: str = ""
    date: date | None = None
    memory_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Citation(FoundSource):
    """A numbered source; `more_memory_ids` are further memories of the same page."""

    index: int
    more_memory_ids: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """Where it came from, in the words shown to people."""
        return LABELS[self.source]


def number_sources(found: Iterable[FoundSource]) -> tuple[Citation, ...]:
    """One citation a page, numbered from 1 in the order of their first appearance.

    Two sources are the same page when `page_key` of their urls agrees; where
    one has no url, when their memory ids do; with neither, when title and quote
    do. The first one's title, quote and date stand; what it left empty a later
    one fills.
    """
    numbered: list[Citation] = []
    places: dict[tuple[str, ...], int] = {}
    for source in found:
        place = _place(numbered, places, source)
        if place is None:
            place = len(numbered)
            given = {name: getattr(source, name) for name in FoundSource.__slots__}
            given["url"] = source.url.strip()
            numbered.append(Citation(index=place + 1, **given))
        else:
            numbered[place] = _join(numbered[place], source)
        for key in _keys(source):
            places.setdefault(key, place)
    return tuple(numbered)


def page_key(url: str) -> str:
    """What two addresses of one page share: no scheme, fragment, default port or tracking."""
    match = _URL_PARTS.match(url.strip())
    if match is None:
        return url.strip()
    scheme, host, path, query = match.groups(default="")
    host = host.rpartition("@")[2].lower()
    host = re.sub(r":(?:80|443)\Z", "", host).removeprefix("www.")
    kept = [part for part in query[1:].split("&") if part and not _TRACKING.match(part)]
    prefix = "" if scheme.lower() in ("", "http", "https") else scheme.lower() + ":"
    return prefix + host + path.rstrip("/") + ("?" + "&".join(kept) if kept else "")


def find_citation(citations: Sequence[Citation], source: FoundSource) -> Citation | None:
    """The citation `source` became, or None."""
    places: dict[tuple[str, ...], int] = {}
    for place, citation in enumerate(citations):
        for key in _keys(citation):
            places.setdefault(key, place)
    found = _place(citations, places, source)
    return None if found is None else citations[found]


def format_citations(citations: Sequence[Citation], style: CitationStyle = "text") -> str:
    """The list of sources under "Web Source" and "Knowledge Base"; empty for none.

    Titles and quotes are one line each and cannot be read as markup, a further
    source or a heading. In text, square brackets become round ones; Markdown
    escapes them and links only http addresses; JSON keeps every character.
    """
    require_choice(style, get_args(CitationStyle), "style")
    require_distinct(citations)
    if style == "json":
        written = [{**citation_to_dict(one), "date": _day(one)} for one in citations]
        return json.dumps(written, ensure_ascii=False)
    lines: list[str] = []
    for heading, kinds in (("Web Source", ("web", "both")), ("Knowledge Base", ("memory",))):
        listed = [citation for citation in citations if citation.source in kinds]
        if listed:
            lines += [""] if lines else []
            lines += [f"**{heading}**", ""] if style == "markdown" else [heading]
            write = _markdown_line if style == "markdown" else _text_line
            lines += [write(citation) for citation in listed]
    return "\n".join(lines)


def require_distinct(citations: Sequence[Citation]) -> None:
    """Refuse two citations with one number: nobody could tell which one is cited."""
    seen: set[int] = set()
    for citation in citations:
        if citation.index in seen:
            raise InvalidInput(
                "citations",
                citation.index,
                "use a number twice",
                remedy="Number them together with number_sources().",
            )
        seen.add(citation.index)


def clean(text: str) -> str:
    """`text` on one line, without characters that are not seen or change direction."""
    return " ".join(_INVISIBLE.sub(" ", text).split())


def safe_url(url: str) -> str:
    """`url` with everything percent-encoded that could end it or be read as markup."""
    kept = "".join(
        character
        if character.isalnum() or character in "-._~:/?#@!$&*+,;=%"
        else "".join(f"%{byte:02X}" for byte in character.encode("utf-8"))
        for character in clean(url)
    )
    return kept if len(kept) <= LONGEST_URL else ""


def _keys(source: FoundSource | Citation) -> list[tuple[str, ...]]:
    """What identifies the page of `source`, the surest first."""
    more = source.more_memory_ids if isinstance(source, Citation) else ()
    ids = [("memory", memory_id) for memory_id in (source.memory_id, *more) if memory_id]
    if source.url.strip():
        return [("url", page_key(source.url)), *ids]
    return list(ids) or [("text", source.title, source.quote)]


def _place(
    citations: Sequence[Citation], places: dict[tuple[str, ...], int], source: FoundSource
) -> int | None:
    for key in _keys(source):
        place = places.get(key)
        if place is None:
            continue
        # One memory under two addresses is two pages; under one or none it is one.
        if key[0] == "memory" and source.url.strip() and citations[place].url:
            continue
        return place
    return None


def _join(known: Citation, source: FoundSource) -> Citation:
    ids = dict.fromkeys((known.memory_id, *known.more_memory_ids, source.memory_id))
    memory_id, *more = [memory_id for memory_id in ids if memory_id] or [""]
    return replace(
        known,
        source=known.source if known.source == source.source else "both",
        url=known.url or source.url.strip(),
        title=known.title or source.title,
        quote=known.quote or source.quote,
        date=known.date or source.date,
        memory_id=memory_id,
        more_memory_ids=tuple(more),
    )


def _day(citation: Citation) -> str:
    if citation.date is None:
        return ""
    return date(citation.date.year, citation.date.month, citation.date.day).isoformat()


def _notes(citation: Citation) -> list[str]:
    both = ["also in the Knowledge Base"] if citation.source == "both" else []
    return [note for note in (_day(citation), *both) if note]


def _text_line(citation: Citation) -> str:
    def plain(text: str) -> str:
        return clean(text).translate(str.maketrans("[]【】", "()()"))

    title = plain(citation.title)
    url = safe_url(citation.url)
    parts = [part for part in (title, url) if part] or [citation.label]
    line = f"[{citation.index}] " + " – ".join(parts)
    if notes := _notes(citation):
        line += f" ({', '.join(notes)})"
    quote = plain(citation.quote)
    return f'{line}\n    "{quote}"' if quote else line


def _markdown_line(citation: Citation) -> str:
    def escaped(text: str) -> str:
        return _MARKDOWN.sub(r"\\\1", clean(text))

    url = safe_url(citation.url)
    title = escaped(citation.title) or escaped(url) or citation.label
    if _WEB_URL.match(url):
        address = url.replace("&", "&amp;")  # Markdown reads entities in addresses too
        title = f"[{title}](<{address}>)"
    elif citation.title and url:
        title = f"{title} {escaped(url)}"
    line = f"- \\[{citation.index}\\] {title}"
    if notes := _notes(citation):
        line += f" ({', '.join(notes)})"
    quote = escaped(citation.quote)
    return f"{line}: “{quote}”" if quote else line


def citation_to_dict(citation: Citation) -> dict[str, object]:
    """A citation as JSON values; `memory_ids` are what `agentmem get` opens."""
    return {
        "index": citation.index,
        "source": citation.source,
        "label": citation.label,
        "title": citation.title,
        "url": citation.url,
        "quote": citation.quote,
        "date": _day(citation) or None,
        "memory_ids": [
            memory_id for memory_id in (citation.memory_id, *citation.more_memory_ids) if memory_id
        ],
    }


# ----------------------------------------------------------------------------
# Find the numbers an answer cites, keep those that exist, remove the rest (P12).


_NUMBER = r"\d{1,9}"
_ITEM = rf"{_NUMBER}(?:\s?[-–—‑]\s?{_NUMBER})?"
_NAMED = r"(?:(?:web |knowledge )?(?:sources?|base|citations?|refs?\.?|references?)\s?:?\s?#?|[#^])"
_LIST = rf"{_NAMED}?{_ITEM}(?:\s?(?:[,;，、&]|and)\s?{_NAMED}?{_ITEM}){{0,50}}"
_URL = rf"(?:[^()\s]|\([^()\s]{{0,200}}\)){{0,{LONGEST_URL}}}"
_MARK = compile_late(
    rf"(?m:^) {{0,3}}\[\^?(?P<defined>{_NUMBER})"
    rf"\]:[ \t]+<?(?P<target>(?:https?://|www\.)[^\s>]{{1,{LONGEST_URL}}})"
    rf"[^\n]{{0,300}}"
    rf"|(?P<image>!)?[\[［]\s?(?P<list>{_LIST})\s?[\]］]"
    rf"(?P<link>\(\s?<?(?P<url>{_URL})>?(?:\s+(?:\"[^\"\n]{{0,300}}\"|'[^'\n]{{0,300}}'))?\s?\))?"
    rf"|【\s?(?P<lens>{_LIST})(?:†[^【】\n]{{0,80}})?\s?】",
    re.IGNORECASE,
)
_RANGE = compile_late(rf"({_NUMBER})(?:\s?[-–—‑]\s?({_NUMBER}))?")
_NEEDS_NO_BLANK = compile_late(r"[\s.,;:!?)\]}»”。，、！？]|\Z")
_LINE = compile_late(r"[^\n]+")
_LISTED = compile_late(r"\s{0,6}(?:[-*]\s)?\[?(?P<number>\d{1,3})(?:\][:.]?|[.)])\s")
_ADDRESS = compile_late(rf"https?://[^\s<>\"')\]]{{1,{LONGEST_URL}}}", re.IGNORECASE)
_LISTED_WORD = compile_late(r"\w+")
_PASSES = 21
_LETTER = compile_late(r"[^\W\d_]")


@dataclass(frozen=True, slots=True, kw_only=True)
class CitationMark:
    """The citations that the characters `start` to `end` of the resolved text stand for."""

    start: int
    end: int
    indexes: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedAnswer:
    """An answer in which every number cited exists.

    `cited` are its sources in the order they are first cited, `missing` the
    numbers that were removed because no source has them, `wrong_links` the
    addresses that were taken off a number because its source has another one.
    `uncited_sentences` are those without a number, code and headings aside.
    """

    text: str
    cited: tuple[Citation, ...] = ()
    missing: tuple[int, ...] = ()
    wrong_links: tuple[str, ...] = ()
    marks: tuple[CitationMark, ...] = ()
    uncited_sentences: tuple[str, ...] = ()


def resolve_citations(answer: str, citations: Sequence[Citation]) -> ResolvedAnswer:
    """`answer` without the numbers that no citation has, and what the others stand for.

    Marks whose numbers all exist stay byte for byte. Of a mixed one the
    existing numbers stay (`[1, 9]` becomes `[1]`); one without any goes,
    together with the blank before it and the address behind it. A link on a
    number keeps its address only when it is the source's own. Code is left
    alone.
    """
    require_text(answer, "answer")
    require_distinct(citations)
    by_index = {citation.index: citation for citation in citations}
    missing: dict[int, None] = {}
    wrong: dict[str, None] = {}
    text = answer
    # Taking out a mark may join what stood around it to another: "[1[9]2]".
    for _ in range(_PASSES):
        before = text
        text, marks = _rewrite(before, by_index, missing, wrong)
        if text == before:
            break
    else:
        text, marks = _rewrite(_unbracketed(text, by_index), by_index, missing, wrong)
    cited = dict.fromkeys(index for mark in marks for index in mark.indexes)
    return ResolvedAnswer(
        text=text,
        cited=tuple(by_index[index] for index in cited),
        missing=tuple(missing),
        wrong_links=tuple(wrong),
        marks=marks,
        uncited_sentences=tuple(_uncited(text, marks)),
    )


def renumber(answer: str, numbers: Mapping[int, int]) -> str:
    """`answer` with every number it cites replaced by what `numbers` has for it; others go."""
    known = [Citation(index=index, source="web") for index in numbers]
    resolved = resolve_citations(answer, known)
    written = iter([", ".join(str(numbers[i]) for i in mark.indexes) for mark in resolved.marks])
    spans = [(mark.start, mark.end) for mark in resolved.marks]
    return replace_spans(resolved.text, spans, lambda _: f"[{next(written)}]")


def listed_sources(text: str) -> tuple[Citation, ...]:
    """The numbered web sources that a tool's result lists, such as `[1] Title https://…`.

    The address stands in the line of the number or in one of the next two. Of
    a number that is listed twice the first counts.
    """
    require_text(text, "text")
    found: dict[int, Citation] = {}
    lines = text.splitlines()
    for at, line in enumerate(lines):
        numbered = _LISTED.match(line)
        if numbered is None or int(numbered["number"]) in found or not int(numbered["number"]):
            continue
        near = [line[numbered.end() :]]
        for following in lines[at + 1 : at + 3]:
            if _LISTED.match(following):
                break
            near.append(following)
        address = next(filter(None, map(_ADDRESS.search, near)), None)
        if address is not None:
            title = near[0].replace(address[0], "").strip(" \t:–—-|()[]")
            index, rest = int(numbered["number"]), " ".join(near[1:]).replace(address[0], "")
            found[index] = Citation(
                index=index, source="web", url=address[0], title=title, quote=rest.strip()
            )
    return tuple(found.values())


def told_apart(
    answer: str, known: Sequence[Citation], listed: Sequence[Citation]
) -> tuple[Citation, ...]:
    """One citation a number: of what is `known` and what a tool `listed` under the same number,
    the one whose words the sentences that cite it share; the tool's, which the model read last,
    where both are as near."""
    by_index = {citation.index: citation for citation in known}
    for citation in listed:
        other = by_index.get(citation.index)
        if other is None or page_key(other.url) == page_key(citation.url) != "":
            by_index.setdefault(citation.index, citation)
            continue
        parts = (answer[start:end] for start, end in _sentences(answer, _marks(answer)))
        said = _words(" ".join(part for part in parts if citation.index in cited_numbers(part)))
        shared = [len(said & _words(f"{one.title} {one.quote}")) for one in (citation, other)]
        if shared[0] >= shared[1]:
            by_index[citation.index] = citation
    return tuple(by_index[index] for index in sorted(by_index))


def _words(text: str) -> set[str]:
    return {word for word in map(str.casefold, _LISTED_WORD.findall(text)) if len(word) > 3}


def cited_numbers(answer: str) -> tuple[int, ...]:
    """Every number `answer` cites, in order and once each; of a wide range both ends."""
    require_text(answer, "answer")
    numbers: dict[int, None] = {}
    for match in _marks(answer):
        for first, last in _ranges(match["list"] or match["lens"] or match["defined"]):
            inside = range(first, last + 1) if last - first < WIDEST_RANGE else (first, last)
            numbers.update(dict.fromkeys(inside))
    return tuple(numbers)


def _rewrite(
    answer: str, by_index: dict[int, Citation], missing: dict[int, None], wrong: dict[str, None]
) -> tuple[str, tuple[CitationMark, ...]]:
    """One pass over the marks of `answer`; what had to go is added to `missing` and `wrong`."""
    pieces: list[tuple[str, list[int]]] = []  # texts, and what is cited by each
    position = 0
    for match in _marks(answer):
        if match.start() > position:
            pieces.append((answer[position : match.start()], []))
        position = match.end()
        kept, lost = _existing(match["list"] or match["lens"] or match["defined"], by_index)
        missing.update(dict.fromkeys(lost))
        url = match["url"] if match["link"] else match["target"]
        own = url is None or any(page_key(url) == page_key(by_index[i].url) for i in kept)
        if kept and not own:
            wrong[url] = None
        if kept and own and not lost:
            pieces.append((match[0], kept))
        elif kept and not match["defined"]:
            pieces.append(("[" + ", ".join(map(str, kept)) + "]", kept))
        elif pieces and _NEEDS_NO_BLANK.match(answer, position):  # nor the blank before it
            last, cited = pieces[-1]
            pieces[-1] = (last[:-50] + last[-50:].rstrip(" \t"), cited)
    pieces.append((answer[position:], []))
    ends = list(accumulate(len(text) for text, _ in pieces))
    marks = [
        CitationMark(start=end - len(text), end=end, indexes=tuple(cited))
        for (text, cited), end in zip(pieces, ends, strict=True)
        if cited
    ]
    return "".join(text for text, _ in pieces), tuple(marks)


def _unbracketed(answer: str, by_index: dict[int, Citation]) -> str:
    """`answer` with round brackets around numbers that do not exist: no mark can come of them."""
    rounded = str.maketrans("[]［］【】", "()()()")
    wrong = [
        match.span()
        for match in _marks(answer)
        if _existing(match["list"] or match["lens"] or match["defined"], by_index)[1]
    ]
    return replace_spans(answer, wrong, lambda mark: mark.translate(rounded))


def _marks(answer: str) -> Iterator[re.Match[str]]:
    """The citation marks outside of code; images with a number for a name are none."""
    code = code_spans(answer)
    starts = [start for start, _ in code]
    position = 0
    while match := _MARK.search(answer, position):
        place = bisect_right(starts, match.start()) - 1
        if place >= 0 and match.start() < code[place][1]:
            position = code[place][1]
            continue
        position = match.end()
        if match["image"] is None or match["link"] is None:
            yield match


def _ranges(listed: str) -> Iterator[Span]:
    for match in _RANGE.finditer(listed):
        first, last = int(match[1]), int(match[2] or match[1])
        yield min(first, last), max(first, last)


def _existing(listed: str, by_index: dict[int, Citation]) -> tuple[list[int], list[int]]:
    """Of the numbers in a mark those that exist and those that do not."""
    kept: dict[int, None] = {}
    lost: dict[int, None] = {}
    for first, last in _ranges(listed):
        if last - first < WIDEST_RANGE:
            inside: Sequence[int] = range(first, last + 1)
        else:
            inside = sorted({first, last, *(i for i in by_index if first <= i <= last)})
        for index in inside:
            (kept if index in by_index else lost)[index] = None
    return list(kept), list(lost)


def _uncited(text: str, marks: Sequence[CitationMark]) -> Iterator[str]:
    prose = cover(text, code_spans(text), " ")
    starts = [mark.start for mark in marks]
    for start, end in _sentences(text, _marks(text)):
        place = bisect_left(starts, start)
        cited = place < len(starts) and starts[place] < end
        sentence = text[start:end].strip()
        if not cited and _LETTER.search(prose, start, end) and not sentence.startswith("#"):
            yield sentence


def _sentences(text: str, marks: Iterable[re.Match[str]]) -> Iterator[Span]:
    """The sentences of each line, with the marks that stand in them and behind their full stop."""
    for line in _LINE.finditer(cover(text, (mark.span() for mark in marks), " ")):
        begins = [line.start() + start for start, _ in sentences(line[0])]
        yield from pairwise((line.start(), *begins[1:], line.end()))
