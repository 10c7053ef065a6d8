"""One text at four levels: full, summary, compressed, index; each no dearer than the one above.

The summary keeps whole sentences, the compressed text leaves out the words a
telegram leaves out. Both keep every number, name, negation and piece of code
(L2). The index is a title and the words to ask by, for a list of topics.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

from agentmem.base.protocols import TokenCounter
from agentmem.living.conflicts import SCALES, SMALL_NUMBERS, WORDS, P, stem_word
from agentmem.text.regions import all_code_spans
from agentmem.text.sentences import sentences
from agentmem.text.terms import STOP_WORDS, analyse

# ----------------------------------------------------------------------------
# What a text must not lose when it is shortened: its numbers, names, negations and code.


_PIECE = re.compile(r"[^\W_](?:[\w+#]|['’.,:/@\-](?=\w))*")
_NUMBER = re.compile(r"(?<![\w.])[-+]?\d+(?:,\d{3})*(?:\.\d+)*")
_ENDS = frozenset(".!?…。！？\n")
_ORDINARY = STOP_WORDS | WORDS.fillers | WORDS.negators | WORDS.interjections
_NEGATIONS = WORDS.negators - WORDS.doubtful_negators


class Essentials(NamedTuple):
    """The parts of a text that carry its truth, in comparable forms.

    Numbers are written one way ("1,000" and "one thousand" are "1000"), names
    are lower-case, negations are counted, code is verbatim.
    """

    numbers: frozenset[str]
    names: frozenset[str]
    negations: int
    code: tuple[str, ...]
    words: frozenset[str]
    """All words, lower-case, to look a name up in."""


@lru_cache(maxsize=32)  # while a text is shortened it is read several times in a row
def read_essentials(text: str) -> Essentials:
    """The essentials of `text`; any text has some, if only empty ones."""
    numbers: set[str] = set()
    names: set[str] = set()
    words: set[str] = set()
    negations = last_end = 0
    before = 0.0  # the number that stands right before, which "thousand" multiplies
    for match in _PIECE.finditer(text):
        piece = match[0]
        since, last_end = last_end, match.end()
        plain = piece.islower() and piece.isalpha()  # most words
        lower = piece if plain else piece.lower().replace("’", "'")
        base = lower if plain else lower.removesuffix("'s")
        words.add(base)
        negations += lower in _NEGATIONS or lower.endswith("n't")
        if plain and not before and base not in SMALL_NUMBERS:
            continue
        if piece[0].isdigit():
            number = _number(base)
            numbers.add(number)
            before = float(number) if number.isdecimal() and len(number) < 15 else 0.0
        elif base in SMALL_NUMBERS and base != "one":  # a number only before "thousand"
            before = SMALL_NUMBERS[base]
            numbers.add(_shown(before))
        else:
            if before and len(base) > 2 and base in SCALES:
                if before != 1.0:
                    numbers.discard(_shown(before))
                numbers.add(_shown(before * SCALES[base]))
            before = float(base == "one")
            first = since == 0 or not _ENDS.isdisjoint(text[since : match.start()])
            if not plain and _is_name(piece, base, first):
                names.add(base)
    spans = all_code_spans(text) if _may_have_code(text) else ()
    code = tuple(text[start:end] for start, end in spans)
    return Essentials(frozenset(numbers), frozenset(names), negations, code, frozenset(words))


def missing_essentials(original: Essentials, shorter: Essentials) -> tuple[str, ...]:
    """What `shorter` lost or made up, in words; empty when it may stand for `original`."""
    lost = _beyond(original, shorter, "")
    code = [f"code {code}" for code in original.code if code not in shorter.code]
    return (*lost, *code, *_beyond(shorter, original, " that was not there"))


def _beyond(one: Essentials, other: Essentials, how: str) -> list[str]:
    """The numbers, names and negation that `one` has and `other` has not."""
    numbers = [f"number{how} {number}" for number in sorted(one.numbers - other.numbers)]
    names = [name for name in sorted(one.names - other.names) if not has_word(other, name)]
    denied = [f"negation{how}"] if one.negations and not other.negations else []
    return [*numbers, *(f"name{how} {name}" for name in names), *denied]


def has_word(essentials: Essentials, name: str) -> bool:
    """Whether a name is a word of the text, in this form or another one."""
    if name in essentials.words:
        return True
    stem = stem_word(name)
    return any(word[:2] == name[:2] and stem_word(word) == stem for word in essentials.words)


def _may_have_code(text: str) -> bool:
    return any(mark in text for mark in ("\n", "`", "    ", "\t", "<"))


def _number(piece: str) -> str:
    digits = _NUMBER.match(piece)
    if digits is None:
        return piece
    plain = digits[0].replace(",", "").lstrip("+")
    if "." in plain and plain.count(".") == 1:
        plain = plain.rstrip("0").rstrip(".")
    rest = piece[digits.end() :]
    if rest in ("k", "m", "bn") and len(plain) < 15:
        return _shown(float(plain) * SCALES[rest])
    return plain + rest


def _shown(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)


def _is_name(piece: str, base: str, first: bool) -> bool:
    if any(c.isupper() or c.isdigit() for c in piece[1:]):
        return True
    if not piece[0].isupper() or len(piece) < 2:
        return False
    return not (first and base.split("'", maxsplit=1)[0] in _ORDINARY)


SUMMARY_SHARE = 0.6
MAX_SENTENCES = 2_000
INDEX_WORDS = 8
INDEX_CHARACTERS = 50
"""No index line is longer."""
_TITLE_WORDS = 8

_PIECES = re.compile(r"(\s+)")
_CORE = re.compile(r"[\"'“‘(\[]*([\w’']+)([\"'”’)\],;:.!?…]*)\Z")


@dataclass(frozen=True, slots=True)
class Levels:
    """What is shorter than a text, each no dearer in tokens than the one before (P35)."""

    summary: str
    compressed: str
    index: str
    summary_tokens: int
    compressed_tokens: int


def make_levels(text: str, count: TokenCounter, *, title: str = "", kind: str = "") -> Levels:
    """The three levels below `text`, for any text and any counter (P35).

    A level that would cost more than the one above is the one above. Sentences
    beyond `SUMMARY_SHARE` of the tokens leave the summary unless they bring a
    number, a name, a negation or code of their own. A `fact` is told in few words,
    an `episode` by its title and its most central sentence (`SHARES`, `EPISODE_TOKENS`):
    what they keep are the numbers, names and negations of those.
    """
    if kind in ("fact", "episode") and not _may_have_code(text.strip()):
        shorter, short, lines = _record_levels(text, count, title, kind)
    else:
        shorter = summarise(text, count)
        short = compress(cheaper(shorter, text, count)[0])
        lines = list(_index_lines(text, title, (INDEX_WORDS, INDEX_WORDS // 2, 0)))
    summary, summary_tokens = cheaper(shorter, text, count)
    compressed, compressed_tokens = cheaper(short, summary, count)
    index = next((one for one in lines if one and count(one) <= compressed_tokens), compressed)
    return Levels(summary, compressed, index, summary_tokens, compressed_tokens)


SHARES = (0.4, 0.27, 0.12)
EPISODE_TOKENS = (30, 8, 4)
"""What the levels of a fact cost of its tokens, and those of an episode in tokens, about."""


def _record_levels(
    text: str, count: TokenCounter, title: str, kind: str
) -> tuple[str, str, list[str]]:
    """Summary, compressed text and index line of a record."""
    if kind == "fact":
        most = [round(share * count(text)) for share in SHARES]
        head = told = text
    else:
        most = list(EPISODE_TOKENS)
        spans = [text[slice(*span)] for span in sentences(text)][:MAX_SENTENCES]
        frequency = Counter(term for one in spans for term in set(analyse(one)))
        head = title or next((s for s in spans if not P.pleasantry.match(s)), text)
        rest = [one for one in spans if one.strip(" .") != head.strip(" .")]
        best = max(rest, key=lambda one: _centrality(analyse(one), frequency), default="")
        told = f"{head}. {best}" if best else head
    short = shrink(head, count, most[1])
    return shrink(told, count, most[0]), short, [_index_of(short, count, most[2])]


def shrink(text: str, count: TokenCounter, limit_tokens: int) -> str:
    """The words of `text` that tell most, in their order, in about `limit_tokens`.

    Its numbers, names and negations always stay, so it may come to more.
    """
    whole = read_essentials(text)
    words = _telegram(text).split()
    kept = [not _bare(word) or _essential(word, whole) for word in words]
    kept = [k or (at > 0 and _denies(_bare(words[at - 1]))) for at, k in enumerate(kept)]
    fillers = [at for at, word in enumerate(words) if not kept[at] and _bare(word) in WORDS.fillers]
    others = [at for at in range(len(words)) if not kept[at] and at not in set(fillers)]
    others.sort(key=lambda at: (len(words[at]), -at))
    left = set(range(len(words)))
    for at in (*reversed(fillers), *others):
        if count(" ".join(words[i] for i in sorted(left))) <= limit_tokens:
            break
        left.discard(at)
    short = " ".join(words[at] for at in sorted(left)).strip(" .,:;")
    return text if missing_essentials(whole, read_essentials(short)) else short


def _bare(word: str) -> str:
    found = _PIECE.search(word)
    return found[0].lower().replace("’", "'") if found else ""


def _denies(base: str) -> bool:
    return base in _NEGATIONS or base.endswith("n't")


def _essential(word: str, whole: Essentials) -> bool:
    base = _bare(word)
    return (
        any(letter.isdigit() for letter in word)
        or _denies(base)
        or base in SMALL_NUMBERS
        or base in SCALES
        or base.removesuffix("'s") in whole.names
    )


def _index_of(short: str, count: TokenCounter, limit_tokens: int) -> str:
    words = short.split()
    while len(words) > 1 and count(" ".join(words)) > limit_tokens:
        words.pop()
    return _within(" ".join(words)).strip(" .,:;")


def summarise(text: str, count: TokenCounter, *, share: float = SUMMARY_SHARE) -> str:
    """The sentences of `text` that matter most, in their order, code and all.

    A sentence with a number, name, negation or code that no other kept one has
    is always kept; the others by how central their words are, while there is room.
    """
    spans = list(sentences(text))
    if len(spans) < 2 or len(spans) > MAX_SENTENCES or code_across(text, spans):
        return text
    said = [text[start:end] for start, end in spans]
    terms = [analyse(sentence) for sentence in said]
    frequency = Counter(term for found in terms for term in set(found))
    known: set[str] = set()
    kept: set[int] = set()
    for place, found in enumerate(map(read_essentials, said)):
        marks = {*found.numbers, *found.names, *found.code}
        if found.negations:
            marks.add(f"not {place}")
        if not marks <= known:
            known |= marks
            kept.add(place)
    room = share * count(text) - sum(count(said[place]) for place in kept)
    rest = [at for at, one in enumerate(said) if at not in kept and not P.pleasantry.match(one)]
    for place in sorted(rest, key=lambda place: -_centrality(terms[place], frequency)):
        cost = count(said[place])
        if cost <= room or not kept:
            room -= cost
            kept.add(place)
    if not kept or len(kept) == len(spans):
        return text
    summary = " ".join(said[place] for place in sorted(kept))
    lost = missing_essentials(read_essentials(text), read_essentials(summary))
    return text if lost else summary  # what is code may depend on the sentences around it


def compress(text: str) -> str:
    """`text` as a telegram: without articles, forms of "be" and fillers; code stays verbatim."""
    parts: list[str] = []
    position = 0
    for start, end in all_code_spans(text):
        parts += (_telegram(text[position:start]), text[start:end])
        position = end
    parts.append(_telegram(text[position:]))
    short = "".join(parts).strip()
    if not short or missing_essentials(read_essentials(text), read_essentials(short)):
        return text
    return short


def index_line(text: str, *, title: str = "") -> str:
    """A title and the words to ask by: what a list of topics shows of `text`."""
    (line,) = _index_lines(text, title, (INDEX_WORDS,))
    return line


def _index_lines(text: str, title: str, sizes: Sequence[int]) -> Iterator[str]:
    """The line of `index_line` with at most so many words, for each of `sizes`."""
    said = [text[slice(*span)] for span in islice(sentences(text), MAX_SENTENCES)]
    first = title or next((one for one in said if not P.pleasantry.match(one)), "".join(said[:1]))
    head = _within(" ".join(first.split()[:_TITLE_WORDS])).strip(" .,:;")
    found = read_essentials(text)
    shown = set(analyse(head)) if head else set()
    frequency = Counter(analyse(text))
    order = {term: place for place, term in enumerate(frequency)}
    ranked = sorted(
        (term for term in frequency if term not in shown and len(term) > 2),
        key=lambda term: (-(frequency[term] + 2 * (term in found.names)), order[term]),
    )
    surfaces = _surfaces(text, ranked[: max(sizes)])
    for most_words in sizes:
        terms = [term for term in ranked[:most_words] if term in surfaces]
        words = list(dict.fromkeys(surfaces[term] for term in terms))
        line = f"{head}: {', '.join(words)}" if head and words else head or ", ".join(words)
        yield line if len(line) <= INDEX_CHARACTERS else _within(line).rstrip(" ,:")


def _within(line: str) -> str:
    """The words of `line` that fit into an index line; of a longer word its beginning."""
    if len(line) <= INDEX_CHARACTERS:
        return line
    whole = line[: INDEX_CHARACTERS + 1].rpartition(" ")[0]
    return whole or line[:INDEX_CHARACTERS]


def find_problems(original: str, proposed: str, count: TokenCounter) -> tuple[str, ...]:
    """Why `proposed` may not replace `original`: not cheaper, something lost or invented."""
    empty = [] if proposed.strip() else ["empty"]
    longer = [] if count(proposed) < count(original) else ["not shorter"]
    missing = missing_essentials(read_essentials(original), read_essentials(proposed))
    return (*empty, *longer, *missing)


def code_across(text: str, spans: list[tuple[int, int]]) -> bool:
    """Whether a piece of code runs over the end of a sentence, so that no selection keeps it."""
    return not all(
        any(first <= start and end <= last for first, last in spans)
        for start, end in all_code_spans(text)
    )


def cheaper(candidate: str, above: str, count: TokenCounter) -> tuple[str, int]:
    """`candidate` if it says something for no more than the level `above`, else that; its cost."""
    limit = count(above)
    tokens = count(candidate)
    return (candidate, tokens) if candidate and tokens <= limit else (above, limit)


def _centrality(terms: list[str], frequency: Counter[str]) -> float:
    return sum(frequency[term] for term in set(terms)) / (len(terms) + 3) if terms else 0.0


def _telegram(text: str) -> str:
    """Prose without the words that say nothing; spaces collapse, lines stay lines."""
    kept: list[str] = []
    starts_sentence = True
    space = ""
    for piece in _PIECES.split(text):
        if not piece:
            continue
        if piece.isspace():
            space = "\n" if "\n" in piece else space or " "
            starts_sentence = starts_sentence or "\n" in piece
            continue
        match = _CORE.match(piece)
        core, tail = match.groups() if match else ("", "")
        opens = starts_sentence and (core[1:].islower() or len(core) == 1)
        ends = tail.endswith((".", "!", "?", "…"))
        if core.lower().replace("’", "'") in WORDS.filling and (core.islower() or opens):
            if ends and kept and not kept[-1].endswith((".", "!", "?", "…", "\n")):
                kept.append(tail)
            starts_sentence = ends or starts_sentence
            continue
        kept.append((space if kept else "") + piece)
        space = ""
        starts_sentence = ends
    if space and kept and text[-1:].isspace():
        kept.append(space)
    before = text[: len(text) - len(text.lstrip())]
    lead = "\n" if "\n" in before else " " if before else ""
    return (lead if kept else "") + "".join(kept)


def _surfaces(text: str, terms: list[str]) -> dict[str, str]:
    """The first word of the text for each term, as it was written."""
    wanted = set(terms)
    found: dict[str, str] = {}
    for match in re.finditer(r"[^\W_](?:\w|['’.\-](?=\w))*", text[:20_000]):
        if len(found) == len(wanted):
            break
        for term in wanted.intersection(analyse(match[0])):
            found.setdefault(term, match[0])
    return found
