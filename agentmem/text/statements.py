"""Read what a person says about themselves: split a message into clauses and tell their kinds.

A clause is a `like`, a `dislike`, something it asks of every answer (`instruct`) or wants
left out of them (`avoid`), what its author is, has or uses (`identity`), a taking back
(`retract`), a wish for this answer only (`once`) or none of these (`other`). The kinds are told
by two fitted linear models (benchmarks/fit_statements.py): one on letters and a few plain
features, which is always there, and one that sees the sentence's vector too.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from io import BytesIO
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, get_args

from agentmem.base.blas import one_thread
from agentmem.base.lazy import compile_late
from agentmem.data import patterns_of, read_bytes
from agentmem.text.regions import (
    code_spans,
    cover,
    element_spans,
    pasted_spans,
    quotation_spans,
    quoted_line_spans,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


Kind = Literal["like", "dislike", "instruct", "avoid", "identity", "retract", "once", "other"]
KINDS: tuple[Kind, ...] = get_args(Kind)
Embed = Callable[[Sequence[str]], "NDArray[np.float32] | None"]
"""Gives the vectors of the multilingual encoder, or None where there is none."""

BLANK = "\ufffc"
"""Stands for each letter of a quotation or of code."""
BUCKETS = 1 << 15
LONGEST_CLAUSE = 300
MOST_CLAUSES = 400
"""A message is read up to so many clauses; what follows is pasted text."""
S = patterns_of("statements.json")
"""The words that clauses, features and slots are told by, in eight languages."""
_END = re.compile(r"(?!(?<=\bno)\. ?\d)[.!?…]+[)\]*_\"]*(?=\s|\Z)|[。！？]+|\n+")
_BULLET = re.compile(r"\s*(?:[-*+•–—]|\(?\d{1,3}[.)]|#{1,6})\s+|\s+")
_WORD = re.compile(r"[^\W_][\w'’+#/-]*|[\u3040-\u30ff\u4e00-\u9fff]")
_COLON = re.compile(r":(?=\s)|：|->")
_WIDE = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff]")
_MAIL_HEAD = re.compile(
    r"^(?:from|to|subject|sent|date|cc): [^\n]*\n(?:from|to|subject|sent|date|cc): ", re.M
)
_SURELY_CODE = compile_late(r"[;{}][ \t]*$|\w\([^()\n]*\)|[\w\])] ?= ?[\w\"'\[({]", re.MULTILINE)
"""`user.name);`, `f(n - 1)`, `width = 3`; "for every answer:" begins a run of code and is none."""


@dataclass(frozen=True, slots=True)
class Clause:
    """The characters `start` to `end` of a message; `words` are its own, in lower case.

    `handed` says that a colon before it may have handed it over.
    """

    start: int
    end: int
    words: str
    asks: bool
    at: int
    first: str
    handed: bool = False


def own_words(text: str) -> str:
    """`text` in lower case, offsets kept, without what somebody else may have said.

    Quotations and inline code become `BLANK`s, which may still be the object of a
    statement; quoted lines, code blocks, marked-up blocks and what a message hands
    over ("Translate this: …") become line breaks.
    """
    code = code_spans(text)
    blocks = [span for span in code if "\n" in text[span[0] : span[1]]]
    inline = [span for span in code if "\n" not in text[span[0] : span[1]]]
    blocks += [span for span in pasted_spans(text) if _SURELY_CODE.search(text, *span)]
    blocks += quoted_line_spans(text) + element_spans(text)
    plain = cover(text, blocks, "\n")
    plain = cover(plain, [*inline, *quotation_spans(cover(plain, inline, BLANK))], BLANK)
    # "İ" is the one letter that grows when lowered.
    plain = plain.replace("’", "'").replace("\u02bc", "'").replace("İ", "I").lower()
    if mail := _MAIL_HEAD.search(plain):
        plain = cover(plain, [(mail.start(), len(plain))], "\n")
    return cover(plain, _handed_over(plain), "\n")


def _handed_over(plain: str) -> Iterator[tuple[int, int]]:
    """What follows "Translate this:" to the end of the paragraph, or of the message if the
    text begins on the next line."""
    for colon in re.finditer(r":(?=\s)|：", plain):
        begin = max(0, colon.start() - 200)
        head = re.split(r"[\n.!?]", plain[begin : colon.start()])[-1]
        if not S.handed_over.search(head):
            continue
        line_end, end = plain.find("\n", colon.end()), plain.find("\n\n", colon.end())
        if end < 0 or not plain[colon.end() : line_end].strip():
            yield colon.end(), len(plain)
            return
        yield colon.end(), end


def clauses(text: str) -> tuple[Clause, ...]:
    """The clauses of `text` that are its author's own words, in order."""
    plain = own_words(text)
    found: list[Clause] = []
    colon = _COLON.search(plain)
    handed_from = colon.end() if colon else len(plain)
    for start, end, stop in split(plain):
        first = plain[start : start + 40]
        asks = ("?" in stop or "？" in stop) and not S.assured.search(plain, start, end)
        cuts = [*_cuts(plain, start, end), end]
        for cut in zip([start, *cuts], cuts, strict=False):
            begin, until = _trimmed(plain, *cut)
            if begin < until and len(found) < MOST_CLAUSES:
                if cut[0] > start and found and S.tails.fullmatch(plain, begin, until):
                    begin = found.pop().start  # "British spelling, always"
                words = " ".join(plain[begin:until].split())[:LONGEST_CLAUSE]
                is_last = cut[1] == end
                asked, at, handed = asks and is_last, len(found), begin >= handed_from
                found.append(Clause(begin, until, words, asked, at, first, handed))
    return tuple(found)


def split(plain: str) -> Iterator[tuple[int, int, str]]:
    """Sentences as start, end and what ended them; not abbreviations or wrapped lines."""
    start = 0
    for match in _END.finditer(plain):
        at, end, stop = match.start(), match.end(), match[0]
        if stop == "." and S.abbreviated.search(plain, max(start, at - 8), at):
            continue
        if stop == "\n" and at - start > 50 and plain[end : end + 1].isalpha():
            continue  # only wraps a long line of prose
        yield start, at, stop
        start = end
    yield start, len(plain), ""


def _cuts(plain: str, start: int, end: int) -> Iterator[int]:
    """Where a sentence is cut into clauses; a condition keeps its consequence."""
    seen = start
    for match in S.boundary.finditer(plain, start, end):
        if match.start() - seen < 3:
            continue
        before = plain[seen : match.start()].strip()
        length, comma = len(before.split()), match[0].startswith(",")
        if S.condition.match(before) and (comma or "," not in before):
            seen = match.start() if comma and length >= 12 else seen
            continue
        cuts = match[0].startswith((",", ";", ":", "，", "(", ")", " -", " –", " —"))
        if cuts or length >= 2 or _WIDE.search(before):
            yield match.start()
            seen = match.end()


def _trimmed(plain: str, start: int, end: int) -> tuple[int, int]:
    while (bullet := _BULLET.match(plain, start, end)) and bullet.end() < end:
        start = bullet.end()
    start = end - len(plain[start:end].lstrip(" \t\n,;:：()-–—，、.!?"))
    return start, start + len(plain[start:end].rstrip(" \t\n,;:：(-–—，、"))


# -- features ---------------------------------------------------------------------------


@cache
def any_of(words: str) -> re.Pattern[str]:
    """A pattern of whole words; those of East Asian scripts, which have no spaces, anywhere."""
    letter = r"[a-zà-ÿ0-9_'’]"
    wide = "|".join(word for word in words.split("|") if _WIDE.match(word)) or "(?!)"
    return re.compile(rf"(?<!{letter})(?:{words})(?!{letter})|(?:{wide})")


def listed(name: str) -> re.Pattern[str]:
    """The words of a list of the data file: "now" is of `changed`."""
    return any_of(S.told[name])


@cache
def marks() -> dict[str, re.Pattern[str]]:
    """The words that clauses are marked by: "always" is `lasting`."""
    return {name: any_of(words) for name, words in S.told["marks"].items()}


def orders(sentence: str) -> bool:
    """Whether a sentence begins by giving a task: "Write …", "please explain …"."""
    return marks()["task"].match(sentence.lower().removeprefix("please ")) is not None


_LEADING = frozenset({"task", "if", "once", "kin", "fiction"})
_BEFORE = frozenset({"once", "if", "kin", "task", "else", "ended", "another"})
"""The marks that matter where a message begins, and in the clause before."""


def plain_features(message: Sequence[Clause]) -> list[list[float]]:
    """A few things about each clause and its place that letters do not tell."""
    length = message[-1].end
    held = [_held(clause.words) for clause in message]
    lead = _held(" ".join(one.words for one in message[:3])) if len(message) > 1 else held[0]
    rows = []
    ordered = [at for at, clause in enumerate(message) if orders(clause.words)]
    asked = [at for at, clause in enumerate(message) if clause.asks]
    for clause, found, before in zip(message, held, [frozenset[str](), *held], strict=False):
        words, at = clause.words, clause.at
        count = max(1, len(_WORD.findall(words)))
        rows.append([
            *[float(name in found) for name in marks()],
            *[float(name in found and bool(mark.match(words))) for name, mark in marks().items()],
            *[float(name in lead) for name in marks() if name in _LEADING],
            *[float(name in before) for name in marks() if name in _BEFORE],
            float(clause.asks), float(clause.at == 0), float(clause.at == len(message) - 1),
            float(BLANK in words), float(bool(_WIDE.search(words))),
            min(count, 30) / 10, float(count <= 2), float(count > 18),
            min(length, 1500) / 500, float(length > 300), float(length > 800),
            min(len(message), 20) / 10, float(any(letter in words for letter in "{}[]<>=;\\_|$")),
            float(clause.handed), float(clause.handed and bool(ordered) and ordered[0] == 0),
            float(len(message) == 1),
            float(any(one < at for one in ordered)), float(any(one > at for one in ordered)),
            float(any(one < at for one in asked)), float(any(one > at for one in asked)),
            1.0,
        ])  # fmt: skip
    return rows


def context_of(message: Sequence[Clause]) -> str:
    """What a message begins and ends with, where a task is mostly given; "" for one clause."""
    if len(message) == 1:
        return ""
    ends = [*message[:2], *message[2:][-1:]]
    return ". ".join(clause.words[:120].replace(BLANK, "") for clause in ends)


def _held(words: str) -> frozenset[str]:
    """The names of the marks that `words` hold."""
    return frozenset([name for name, mark in marks().items() if mark.search(words)])


def buckets(words: str) -> list[int]:
    """The hashed words, pairs of words and 2- to 4-grams of letters of a clause, each once."""
    shown = re.sub(f"{BLANK}+", BLANK, words)
    tokens = [match[0] for match in _WORD.finditer(shown)]
    grams = {f"w{token}" for token in tokens}
    grams |= {f"p{one} {other}" for one, other in pairwise(tokens)}
    if tokens:
        grams |= {f"^{tokens[0]}", f"^{' '.join(tokens[:2])}"}
    padded = f" {shown} "
    for size in (2, 3, 4):
        grams |= {padded[at : at + size] for at in range(len(padded) - size + 1)}
    return sorted({zlib.crc32(gram.encode("utf-8", "replace")) % BUCKETS for gram in grams})


# -- telling kinds ----------------------------------------------------------------------

PLAIN_SCALE, VECTOR_SCALE = 0.35, 2.0
"""How much plain features and vectors weigh beside letters; part of what was fitted."""
WORTH_A_VECTOR = 0.03
"""Clauses that the letters alone think less likely to matter get no vector."""
MOST_VECTORS = 24


@dataclass(frozen=True, slots=True)
class Told:
    """How likely each of `KINDS` is for a clause."""

    clause: Clause
    chances: tuple[float, ...]

    @property
    def kind(self) -> Kind:
        return KINDS[max(range(len(KINDS)), key=self.chances.__getitem__)]

    def among(self, kinds: Sequence[Kind]) -> Told:
        """The same clause if it is one of `kinds`."""
        chances = zip(KINDS, self.chances, strict=True)
        return Told(self.clause, tuple(one if kind in kinds else 0.0 for kind, one in chances))

    def chance(self, *kinds: Kind) -> float:
        return sum(self.chances[KINDS.index(kind)] for kind in kinds)


@lru_cache(maxsize=1)
def _weights() -> dict[str, NDArray[Any]]:
    import numpy as np

    with np.load(BytesIO(read_bytes("statements.npz"))) as stored:
        return {
            name: stored[name].astype(np.float32) if not name.endswith("_grams") else stored[name]
            for name in stored.files
        }


def tell(message: Sequence[Clause], embed: Embed | None = None) -> tuple[Told, ...]:
    """How likely each kind is for each clause of a message; with vectors where it may matter."""
    if not message:
        return ()
    import numpy as np

    rest = np.asarray(plain_features(message), dtype=np.float32) * PLAIN_SCALE
    told = [_by_letters(buckets(one.words), rest[one.at]) for one in message]
    mattering = sorted(
        (at for at, one in enumerate(told) if 1 - one[-1] > WORTH_A_VECTOR),
        key=lambda at: told[at][-1],
    )[:MOST_VECTORS]
    context = context_of(message)
    texts = [message[at].words.replace(BLANK, "") or " " for at in mattering]
    vectors = embed([*texts, *([context] if context and texts else [])]) if embed else None
    if vectors is not None:
        around = vectors[-1] if len(vectors) > len(texts) else None
        for at, vector in zip(mattering, vectors, strict=False):
            seen = _by_vector(rest[at], vector, around)
            told[at] = [(one + other) / 2 for one, other in zip(told[at], seen, strict=True)]
    return tuple(Told(clause, tuple(one)) for clause, one in zip(message, told, strict=True))


def _by_letters(hashed: list[int], rest: NDArray[np.float32]) -> list[float]:
    import numpy as np

    stored = _weights()
    summed = stored["letters_grams"][:, hashed].sum(axis=1, dtype=np.int64)
    score = stored["letters_scale"] * summed / max(1, len(hashed)) ** 0.5 + stored["letters_bias"]
    return _chances(score + stored["letters_rest"] @ rest)


def _by_vector(
    rest: NDArray[np.float32], vector: NDArray[np.float32], around: NDArray[np.float32] | None
) -> list[float]:
    import numpy as np

    stored = _weights()
    beside = np.zeros_like(vector) if around is None else around
    both = np.concatenate([vector, beside]).astype(np.float32)
    seen = np.concatenate([rest, both * VECTOR_SCALE])
    with one_thread:
        heard = np.maximum(seen @ stored["net_units"] + stored["net_start"], 0)
        return _chances(heard @ stored["net_counts"] + stored["net_offset"])


def _chances(score: NDArray[np.float32]) -> list[float]:
    import numpy as np

    raised = np.exp(score - score.max())
    return [float(one) for one in raised / raised.sum()]
