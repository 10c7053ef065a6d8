"""Sentences and the places in them where somebody may state something for themselves.

A statement is only looked for at the beginning of a clause, so "do I prefer
tea", "suppose I prefer tea" and "she knows I prefer tea" have none: there the
clause begins with another word. What a sentence's earlier words say about its
later ones (a condition, a report, a game of pretending) is kept as well.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator

from agentmem.core.patterns import LazyPattern
from agentmem.core.preference_lexicon import BLANK, either
from agentmem.core.regions import (
    code_spans,
    cover,
    element_spans,
    quotation_spans,
    quoted_line_spans,
)
from agentmem.core.values import dataclass

LONGEST_SENTENCE = 1_200

_END = LazyPattern(r"[.!?…。！？]+[)\]*_]*(?=\s|\Z)|[。！？]+|\n+")
_ABBREVIATION = LazyPattern(
    r"(?:\b(?:e\.g|i\.e|dr|mr|mrs|ms|vs|st|approx|prof|jr|sr|inc|a\.m|p\.m|no)|\b[a-hj-z])\Z"
)
_WORD = LazyPattern(r"\S+")
_BULLET = LazyPattern(r"\s*(?:[-*+•–—]|\(?\d{1,3}[.)]|[a-z]\)|#{1,6})\s+|\s+")
_LABEL = LazyPattern(rf"([\w{BLANK}'. -]{{1,30}}?)\s?:\s+")
_OWN_LABEL = either(
    r"""note|ps|p\.s\.|p\.s|fyi|btw|preference|preferences|my preference|my preferences
    reminder|context|background|about me|also|update|edit|info|important|requirement
    requirements|constraint|constraints|style|tone|format|rules?|settings?|tl;dr
    instructions?|me|myself|bio|profile|one thing|one more thing|first|second|two things
    heads up|disclaimer|warning|for the record|remember|diet|language|custom|instructions?
    my rules?|my profile|my background|quick note|side note|just so you know|facts?
    user preferences?|general|task|question|query|request|goal
    dietary|food|coding|work|hobbies|interests|editor|thing is
    the thing is|truth is|fun fact|confession|answer|hi|hello|hey"""
)
_OWN_LABEL_RE = LazyPattern(_OWN_LABEL + r"\Z")
_NO_SPEAKER = LazyPattern(
    r"(?:a|an|the|my|our|one|two|some|here|this|that|so|but|and|i|i'm|we|you|"
    r"please|because|it|if|for"
    r"|also|always|never|call|keep|use)\b"
)
_PASTED = LazyPattern(
    r"\b(?:translate|translation|summari[sz]e|repeat|print|echo|type|pronounce|"
    r"recite|copy|write|rewrite|rephrase|paraphrase|"
    r"proofread|reword|edit|correct|fix"
    r"|check|improve|polish|grammar|analy[sz]e|classify|parse|extract|annotate|"
    r"transcribe|complete|continue"
    r"|respond to|reply to|following|text|sentence|sentences|paragraph|email|"
    r"e-mail|letter|tweet|review"
    r"|lyrics|quote|quotation|excerpt|passage|transcript|dialogue|dialog|story|"
    r"poem|essay|bio|caption|post"
    r"|article|log|chat|conversation|example|input|prompt|phrase|statement|line|lines|quiz|survey"
    r"|says?|said|wrote|writes|written|posted|replied|asked|told|goes|reads|"
    r"sings?|character|meaning of)\b"
)
_OWN_LIST = LazyPattern(
    r"\b(?:prefer\w*|rules?|about me|instructions?|background|context|"
    r"requirements?|guidelines?|know about me)\b"
)
_PRETENDED = LazyPattern(
    r"\b(?:imagine|suppose|supposing|pretend|pretending|hypothetical(?:ly)?|"
    r"let's say|lets say|let us say|what if"
    r"|role-?play(?:ing)?|role play|fictional|in character|act as|act like|play "
    r"the role|in (?:the|this|a|my)"
    r" (?:story|scenario|game|novel|play|dream|movie|film|book|hypothetical|"
    r"thought experiment)|make-believe"
    r"|once upon a time|assume (?:that )?(?:i|we|my)|assuming (?:that )?(?:i|we|"
    r"my)|say (?:that )?(?:i|we)(?:'m| am| are| was| were)?)\b"
)
_SUPPOSED = LazyPattern(
    r"\b(?:if|unless|whether|as if|as though|wish|in case|were|had|should|even "
    r"if|only if|as long as|provided)"
    r" (?:that )?(?:only )?(?:i|we|my|i'm|i'd|i've|we're)\b(?! (?:may|might ask|"
    r"remember|recall|understand|say|ask|tell|specify|request|state|explicitly))"
    r"|\b(?:for example|for instance|e\.g\.?)"
)
_REPORTED = LazyPattern(
    r"\b(?:(?!(?:i|we|to|always|often|also|just|never|ever|not|have|has|had|"
    r"would|will|\w+ly)\b)[\w'-]+)"
    r" (?:\w+ly |always |often |also |once |just |has |have |had |would |will )?"
    r"(?:says?|said|thinks?|thought|claims?|claimed|told (?:me|us|everyone|"
    r"people|him|her|them|you)|tells (?:me|us|everyone|people)"
    r"|believes?|insists?|insisted|wrote|writes|asks|asked|replied|answered|"
    r"announced|assumes?|assumed|suggests?"
    r"|mentioned|complains?|complained|jokes?|joked|argues?|argued|swears?|"
    r"swore|knows|hopes|wishes|guessed|guesses|sagt|sagte|meint|glaubt|dice|"
    r"dijo|cree|dit|pense)\b"
    r"|\baccording to\b|\bin (?:his|her|their) (?:words|opinion|view)\b|\bquote\b"
)
_REPORTED_BY_ME = LazyPattern(
    r"\b(?:as i|i|like i) (?:\w+ )?(?:said|told|mentioned|say|wrote|think|thought)\b"
)
_ATTRIBUTED = LazyPattern(
    r",? (?:he|she|they|it|the [\w-]+|my [\w-]+|[\w-]+) (?:said|says|replied|"
    r"answered|whispered|shouted|asked"
    r"|wrote|thought|explained|added|muttered|told (?:me|us|him|her|them)|"
    r"exclaimed|laughed|yelled|admitted)\b(?: \w+)?[.!,]?\Z"
)
_BOUNDARY = LazyPattern(
    r"[,;:()\u2013\u2014/]+ ?| -{1,2} "
    r"| (?=(?:and|but|so|because|since|as|although|though|while|yet|or|plus|"
    r"cause|'cause|cuz|bc|whereas"
    r"|except|that's why|which is why|therefore|hence|however|when|whenever|where|if|unless)\b)"
)
_CONTRAST = LazyPattern(r"(?:but|so|because|since|although|though|yet|however|whereas|while|;)\b")
_ASKING = LazyPattern(
    r"(?:(?:so|and|but|then|also|or|well|ok|okay|hey|hi|hello|given that|please) )*"
    r"(?:what|what's|whats|which|where|where's|how|how's|why|who|who's|whom|"
    r"whose|can|could|would|will|shall|should"
    r"|do|does|did|is|are|am|was|were|has|may|might|isn't|aren't|don't you|"
    r"doesn't|won't|wouldn't|couldn't|can't you"
    r"|have you|any|got any|know any|is it|is there|are there|when (?:do|does|"
    r"did|is|are|should|can|will|would)"
    r"|when's|really|right|correct|no|huh|eh|anyone|thoughts|ideas|suggestions|recommendations)\b"
)
_ASSENT = LazyPattern(
    r"(?:,| -)? (?:ok|okay|alright|all right|please|got it|will you|would you|"
    r"if you can|thanks)\W*\Z"
)
_MAIL_HEAD = LazyPattern(
    r"^(?:from|to|subject|sent|date|cc): [^\n]*\n(?:from|to|subject|sent|date|cc): ", re.MULTILINE
)
_LINE_BREAKS = LazyPattern(r"[ \t]*\n[\s]*")
_BLANK_LINES = 6
_CUE = LazyPattern(
    r"\b(?:default|future|otherwise|henceforth|i|im|ive|i'm|i've|i'd|we|we're|"
    r"we've|my|me|always|never|please|don't|"
    r"dont|avoid|keep|be|answer|respond"
    r"|reply|speak|talk|write|use|no|stop|skip|from now on|going forward|"
    r"explain|eli5|only|give|make|format"
    r"|limit|include|short|brief|concise|as a|as an|ich|bitte|nenn|prefiero|me|"
    r"soy|odio|por favor|je|j|s'il|"
    r"llámame|responde|contesta|réponds|répondez|appelle|appelez|mein|mi|mon|ma|antworte|no)\b"
)


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence with single spaces, lower-case, and the way back to the text it came from."""

    text: str
    starts: tuple[int, ...]
    offsets: tuple[int, ...]
    asks: bool
    pretended: bool

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Where the characters `start` to `end` of the sentence stand in the text."""
        return self._place(start), self._place(end - 1) + 1

    def _place(self, position: int) -> int:
        word = bisect_right(self.starts, position) - 1
        return self.offsets[word] + position - self.starts[word]


@dataclass(frozen=True, slots=True)
class Place:
    """A position where a clause begins; `lead` is where the words before it end."""

    lead: int
    start: int


def own_words(text: str) -> str:
    """`text` in lower case, offsets kept, without what somebody else may have said.

    Quotations and inline code become `BLANK`s, which may still be the object
    of a statement; quoted lines, code blocks and marked-up blocks become line
    breaks.
    """
    code = code_spans(text)
    blocks = [span for span in code if "\n" in text[span[0] : span[1]]]
    inline = [span for span in code if "\n" not in text[span[0] : span[1]]]
    blocks += quoted_line_spans(text) + element_spans(text)
    plain = cover(text, blocks, "\n")
    plain = cover(plain, [*inline, *quotation_spans(cover(plain, inline, BLANK))], BLANK)
    # "İ" is the one letter that grows when lowered.
    return plain.replace("’", "'").replace("\u02bc", "'").replace("İ", "I").lower()


def sentences(words: str) -> Iterator[Sentence]:
    """The sentences of `own_words` that may hold a statement, in order.

    What follows "Translate this:" is somebody's text, to the end of the
    paragraph when it begins on the same line and to the end of the message
    when it begins on the next, as is what follows the head of a mail. What
    follows "imagine …" is pretended to the end of the paragraph.
    """
    pasted_until = pretended_until = 0
    mail = _MAIL_HEAD.search(words)
    words = words[: mail.start()] if mail else words
    for start, end, stop in _pieces(words):
        piece = words[start:end]
        if end > pretended_until and _PRETENDED.search(piece):
            pretended_until = _paragraph_end(words, end)
        if start >= pasted_until and _CUE.search(piece):
            asks = "?" in stop or "？" in stop
            yield from _sentence(words, start, end, asks, start < pretended_until)
        if end > pasted_until:
            pasted_until = _pasted_until(words, end, piece)


def places(sentence: Sentence) -> Iterator[Place]:
    """Where clauses of `sentence` begin that speak for the author, first to last."""
    text = sentence.text
    limit = _statement_end(sentence)
    label = _LABEL.match(text)
    if label and not _OWN_LABEL_RE.match(label[1].strip()) and _speaks_for_another(label[1]):
        return
    seen = 0
    blocked = False
    for lead, start in _candidates(text):
        if start >= limit:
            return
        before = text[seen:lead]
        if text[lead : lead + 1] == ":" and announces_text(text[:lead]):
            return
        contrast = bool(_CONTRAST.match(text, start)) or text[lead : lead + 1] == ";"
        if _SUPPOSED.search(before + " " + text[lead:start]) or _SUPPOSED.match(text, start):
            blocked = True
        elif before and _REPORTED.search(before) and not _REPORTED_BY_ME.search(before):
            blocked = not contrast
        elif contrast and not _SUPPOSED.search(text[:lead]):
            blocked = False
        seen = lead
        if not blocked:
            yield Place(lead, start)


def attributed(sentence: Sentence) -> bool:
    """Whether the sentence ends in "…, she said": then its words are not the author's."""
    return bool(_ATTRIBUTED.search(sentence.text))


def asking(text: str, position: int) -> bool:
    """Whether a question begins at `position`."""
    return bool(_ASKING.match(text, position))


def boundaries(text: str) -> Iterator[tuple[int, int]]:
    """Each place where a clause may end and another begin."""
    for match in _BOUNDARY.finditer(text):
        yield match.start(), match.end()


def _candidates(text: str) -> Iterator[tuple[int, int]]:
    yield 0, 0
    yield from boundaries(text)


def _statement_end(sentence: Sentence) -> int:
    """Up to where a sentence states; a question that begins later leaves its front a statement."""
    if not sentence.asks:
        return len(sentence.text) + 1
    if _ASSENT.search(sentence.text) and not asking(sentence.text, 0):
        return len(sentence.text) + 1
    for lead, start in _candidates(sentence.text):
        if asking(sentence.text, start):
            tag = sentence.text[start:].rstrip("? ")
            return 0 if tag in ("right", "correct", "no", "huh", "eh", "really", "yes") else lead
    return 0


def _speaks_for_another(label: str) -> bool:
    """Whether "Name: …" begins a line of a pasted dialogue."""
    return len(label.split()) <= 2 and not _NO_SPEAKER.match(label)


def announces_text(text: str) -> bool:
    """Whether `text` before a colon hands over to somebody's text, as "Translate this" does."""
    return (
        bool(_PASTED.search(text))
        and not _OWN_LIST.search(text)
        and not _OWN_LABEL_RE.match(text.strip())
    )


def _pasted_until(words: str, end: int, piece: str) -> int:
    head, colon, rest = piece.partition(":")
    if not colon or not announces_text(head):
        return 0
    if rest.strip():
        return _paragraph_end(words, end)
    gap = _LINE_BREAKS.match(words, end)
    if gap is None or len(gap[0]) > _BLANK_LINES:  # a code block or quotation, covered already
        return 0
    return len(words)


def _paragraph_end(words: str, position: int) -> int:
    found = words.find("\n\n", position)
    return len(words) if found < 0 else found


def _pieces(words: str) -> Iterator[tuple[int, int, str]]:
    """Sentences as start, end and what ended them; not abbreviations or wrapped lines."""
    start = 0
    for match in _END.finditer(words):
        stop = match[0]
        if stop == "." and _ABBREVIATION.search(
            words, max(start, match.start() - 8), match.start()
        ):
            continue
        if stop == "\n" and _wrapped(words, start, match):
            continue
        end = match.start()
        yield from _in_reach(words, start, end, stop)
        start = match.end()
    yield from _in_reach(words, start, len(words), "")


def _in_reach(words: str, start: int, end: int, stop: str) -> Iterator[tuple[int, int, str]]:
    while end - start > LONGEST_SENTENCE:
        cut = words.rfind(" ", start + LONGEST_SENTENCE // 2, start + LONGEST_SENTENCE)
        cut = start + LONGEST_SENTENCE if cut < 0 else cut
        yield start, cut, ""
        start = cut
    yield start, end, stop


def _wrapped(words: str, start: int, line_break: re.Match[str]) -> bool:
    """Whether a single line break only wraps a long line of prose."""
    line_start = max(
        start, words.rfind("\n", max(0, line_break.start() - 200), line_break.start()) + 1
    )
    following = words[line_break.end() : line_break.end() + 2]
    return (
        line_break.start() - line_start > 50
        and following[:1].isalpha()
        and not re.match(r"[a-z]\)", following)
        and words[line_break.start() - 1] not in ":;"
    )


def _sentence(words: str, start: int, end: int, asks: bool, pretended: bool) -> Iterator[Sentence]:
    bullet = _BULLET.match(words, start, end)
    while bullet and bullet.end() < end:
        start = bullet.end()
        bullet = _BULLET.match(words, start, end)
    parts: list[str] = []
    starts: list[int] = []
    offsets: list[int] = []
    length = 0
    for match in _WORD.finditer(words, start, end):
        starts.append(length)
        offsets.append(match.start())
        parts.append(match[0])
        length += len(match[0]) + 1
    if parts:
        yield Sentence(" ".join(parts), tuple(starts), tuple(offsets), asks, pretended)
