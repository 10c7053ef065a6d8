"""Hear what a message says about its author: what stands from now on, and what is taken back.

Rules (`preferences.detect_preferences`) give the exact words, type and polarity of explicit
statements; the fitted models of `statements` hear the rest, in eight languages, and have a veto.
Whatever is about this answer only, about somebody else, pretended or a task is not kept.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from agentmem.core.preference_rules import Polarity, PreferenceType
from agentmem.core.preferences import DetectedPreference, detect_preferences, text_parts
from agentmem.core.values import dataclass
from agentmem.errors import InvalidMessage
from agentmem.statements import Clause, Embed, Kind, Told, clauses, tell, word_lists
from agentmem.types import Message

KEPT: tuple[Kind, ...] = ("like", "dislike", "instruct", "avoid", "identity")
AGAINST: tuple[Kind, ...] = ("dislike", "avoid")
SURE, SURE_IN_LONG = 0.7, 0.93
"""So likely must a clause be a statement to be kept, in a message and in a long one."""
LONGEST_TEXT = 30_000
"""The models read no further: what is longer is material."""
LONG = 400
"""From so many characters on a message is long: mostly a task with its material."""
SURE_BY_LETTERS = 0.74
"""The same where there are no vectors."""
VETO, VETO_OF_ROLES, VETO_IN_LONG = 0.05, 0.15, 0.5
"""What the rules find is not kept when the models think it less likely than this; what one
is ("I am a Java developer") often opens a task."""
TAKEN_BACK = 0.5
ONCE = 0.4
CHANGE = "change"
"""The slot of a statement that says it is a change, but not of what."""
_QUESTION = re.compile(
    r"(?:(?:also|and|so|but|ok|hey|btw) )*(?:what|whats|what's|how|where|which|why|who|who's|whens"
    r"|when's|any|was|wie|wo|warum|wer|wann|qué|cuál|cómo|dónde|quoi|quel\w*|comment|où|qual|quais"
    r"|onde|che|cosa|dove|should|do|does|did|is|are|can|could|would)\b"
)
_OTHER_SCRIPT = re.compile(r"[\u0370-\u03ff\u0400-\u052f\u0590-\u06ff\u0900-\u0e7f\uac00-\ud7af]")
_OTHER_LETTER = re.compile("[ąęłżśźćńřěůšžđőűğışőơưạảấầậắằặẹẻếềệịọỏốồộớờợụủứừựỳ]")
_FORMULA = re.compile(r"\w[=+*^/|\\]+\w|[{}\[\]<>$\\=^|]|\d\s*[=+*/]")
_ATTRIBUTED = re.compile(
    r"(?:.*, )?(?:he|she|they|the [\w-]+|my [\w-]+|[\w-]+) (?:said|says|replied|answered|whispered"
    r"|shouted|asked|wrote|thought|explained|added|muttered|exclaimed|laughed|yelled|admitted)\Z"
)
_WORD = re.compile(r"[^\W_][\w'+#/-]*")
_WIDE = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff]+")
_LEADS = re.compile(
    r"(?:(?:and|but|so|because|since(?= (?:i|i'm|im|my|we)\b)|although|though|also|plus|oh|hm+|ok"
    r"|okay|well|then|or|cause|bc|und|aber|also|weil|da"
    r"|así que|pero|porque|du coup|donc|mais|et|parce que|então|mas|quindi|ma"
    r"|因为|所以|但是|不过)[ ,]+|[yeo] )+", re.IGNORECASE,
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Retraction:
    """A clause that takes something back; `stems` say what.

    One that says only "that" (`latest`), or nothing, means the latest statement.
    """

    text: str
    stems: frozenset[str]
    latest: bool = False
    slot: str = ""
    start: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """What a text states and what it takes back, in the order of the text."""

    stated: tuple[DetectedPreference, ...] = ()
    retracted: tuple[Retraction, ...] = ()
    text: str = ""


def hear(text: str, embed: Embed | None = None) -> Heard:
    """What `text` says about its author; nothing for most texts (P10, P41)."""
    explicit = detect_preferences(text)
    message = clauses(text[:LONGEST_TEXT])
    if not message or _foreign(text):
        return Heard(stated=explicit, text=text)
    told = tell(message, embed)
    passing = _passing(text, told)
    short = SURE if embed is not None and embed([]) is not None else SURE_BY_LETTERS
    sure = short if len(text) < LONG else SURE_IN_LONG
    stated: list[DetectedPreference] = []
    retracted: list[Retraction] = []
    used: set[int] = set()
    for found in explicit:
        over = [
            one for one in told if one.clause.start < found.end and found.start < one.clause.end
        ]
        if any(one.clause.at in passing for one in over):
            continue
        veto = VETO_OF_ROLES if found.slot == "role" else VETO
        kept = _unless_vetoed(text, found, over, VETO_IN_LONG if len(text) >= LONG else veto)
        if kept is not None:
            stated.append(kept)
            used |= {one.clause.at for one in over if one.clause.start < kept.end}
    for one in told:
        clause = one.clause
        if clause.at in passing or clause.at in used:
            continue
        if one.kind == "retract" and one.chance("retract") > TAKEN_BACK:
            retracted.append(_retraction(text, clause))
            continue
        if _pattern("takes back").match(_unled(clause.words)):
            # It must name what: of "never mind" alone the models decide.
            named = replace(_retraction(text, clause), latest=False)
            retracted += [named] if named.stems else []
            continue
        needed = SURE_IN_LONG if _FORMULA.search(clause.words) else sure
        if one.kind in KEPT and one.chance(*KEPT) > needed and not _only_asks(one):
            stated.append(_stated(text, one))
    stated.sort(key=lambda one: (one.start, one.end))
    stated, retracted = _within(stated, retracted)
    for new in stated:
        retracted += _given_up(new)
    return Heard(stated=tuple(stated), retracted=tuple(retracted), text=text)


def _within(
    stated: Sequence[DetectedPreference], retracted: Sequence[Retraction]
) -> tuple[list[DetectedPreference], list[Retraction]]:
    """What stands of a message that takes back what it said itself, and what goes further back."""
    left = list(stated)
    further: list[Retraction] = []
    for one in retracted:
        said = [(str(p.start), p.content) for p in reversed(left) if p.start < one.start]
        meant = matching(one, said, recent=len(said))
        left = [p for p in left if str(p.start) not in meant]
        if not meant:
            further.append(one)
    return left, further


def _foreign(text: str) -> bool:
    """Whether a text is in none of the languages that the models know."""
    return bool(_OTHER_SCRIPT.search(text)) or len(_OTHER_LETTER.findall(text.lower())) > 2


def _passing(text: str, told: Sequence[Told]) -> set[int]:
    """The places of clauses that are pretended, ironic, somebody else's or for this answer only."""
    found: set[int] = set()
    pretended = ironic = once = others = False
    for at, one in enumerate(told):
        clause = one.clause
        follows = at > 0 and told[at - 1].clause.first == clause.first
        goes_on = at + 1 < len(told) and told[at + 1].clause.first == clause.first
        pretended = pretended or bool(_pattern("pretend").search(clause.words))
        ironic = ironic or bool(_pattern("sarcasm").match(clause.words))
        once = one.chance("once") > ONCE or (once and follows)
        others = (others and follows) or bool(_pattern("reported").match(clause.words))
        others = others or _speaks_for_another(text, clause)
        said = goes_on and bool(_ATTRIBUTED.match(told[at + 1].clause.words))
        hedged = bool(_pattern("hedged").match(clause.words)) and one.kind not in (
            "instruct",
            "avoid",
        )
        if (
            pretended
            or ironic
            or once
            or others
            or said
            or hedged
            or _ATTRIBUTED.search(clause.words)
        ):
            found.add(clause.at)
    return found


def _speaks_for_another(text: str, clause: Clause) -> bool:
    """Whether a clause is the "Anna" of a pasted line "Anna: I love tea"."""
    label = text[clause.start : clause.end]
    if len(label.split()) > 2 or not label[:1].isupper():
        return False
    follows = text[clause.end : clause.end + 2]
    before = text[: clause.start].rstrip(" \t")
    return (
        follows[:1] in (":", "：")
        and (not before or before.endswith("\n"))
        and not _pattern("own labels").fullmatch(clause.words)
    )


def _unled(words: str) -> str:
    lead = _LEADS.match(words)
    return (words[lead.end() :] if lead else words).removeprefix("please ")


def _only_asks(one: Told) -> bool:
    """Whether what is taken for a statement is worded as a question, or says what one is not."""
    asked = one.clause.asks or bool(_QUESTION.match(one.clause.words))
    if one.kind == "identity" and _pattern("denied").match(one.clause.words):
        return True
    return asked and one.kind not in ("instruct", "avoid")


def _given_up(new: DetectedPreference) -> Iterator[Retraction]:
    """What a statement of a change gives up: "it's Bea, not Beth", "from webpack to vite"."""
    words = new.content.lower()
    instead = _pattern("instead").search(words, 1)
    if instead and new.slot in ("", "name", "one name") and new.polarity != "against":
        given = words[instead.end() :].split(" to ")[0]
        if found := stems(given):
            yield Retraction(text=new.content, stems=found, start=new.start)
    changed = _pattern("changed").search(words)
    if changed and not new.slot.startswith("one ") and _pattern("job").search(words):
        yield Retraction(text=new.content, stems=frozenset(), slot="job", start=new.start)
    elif changed and not new.slot:
        yield Retraction(text=new.content, stems=frozenset(), slot=CHANGE, start=new.start)


def corrected_name(text: str, newest: str) -> DetectedPreference | None:
    """The name in "typo, Leo" or "no, it's Leo" when the `newest` statement was a name."""
    if slot_of(newest.lower()) != "name":
        return None
    match = _corrected().search(text)
    name = (match["name"] or match["other"]) if match else ""
    if match is None or name.lower() in _empty():
        return None
    return DetectedPreference(
        type="custom", content=f"My name is {name}", subject=name,
        quote=match[0], start=match.start(), end=match.end(), slot="one name",
    )  # fmt: skip


def settled(new: DetectedPreference, newest: str) -> DetectedPreference:
    """`new` as a name where it corrects the `newest` statement, which was one."""
    if new.slot or new.polarity == "against" or slot_of(newest.lower()) != "name":
        return new
    short = len(_WORD.findall(new.content)) <= 8
    if short and _pattern("corrects").search(new.content.lower()):
        return replace(new, slot="one name")
    return new


def hear_messages(
    messages: Iterable[Message],
    *,
    embed: Embed | None = None,
    strip: Callable[[Sequence[Message]], Sequence[Message]] | None = None,
) -> tuple[Heard, ...]:
    """What the user's own turns say, oldest first; only their text is read (P22)."""
    if not isinstance(messages, Iterable) or isinstance(messages, str | bytes | Mapping):
        raise InvalidMessage("messages", messages, "is not a list", remedy="Pass a list of dicts.")
    turns = list(messages)
    for turn in turns:
        if not isinstance(turn, Mapping):
            raise InvalidMessage("message", turn, "is not a mapping", remedy="Pass dict messages.")
    cleaned = turns if strip is None else strip(turns)
    return tuple(
        hear(part, embed)
        for turn in cleaned
        if turn.get("role") == "user" and not turn.get("tool_call_id")
        for part in text_parts(turn.get("content"))
    )


def matching(
    retraction: Retraction, standing: Sequence[tuple[str, str]], *, recent: int
) -> tuple[str, ...]:
    """The ids in `standing` (id and text, newest first) that `retraction` speaks of.

    Those that share most of its stems; failing that, the latest one when it
    says "that", if it is among the first `recent`; else those of its slot.
    """
    latest = tuple(id_ for id_, _ in standing[: min(1, recent)])
    if not retraction.stems and not retraction.slot:
        return latest
    shared = {id_: len(retraction.stems & stems(text)) for id_, text in standing}
    most = max(shared.values(), default=0)
    if most:
        return tuple(id_ for id_, count in shared.items() if count == most)
    if retraction.latest:
        return latest
    if retraction.slot == "job":
        return tuple(id_ for id_, text in standing if _pattern("job").search(text.lower()))[:1]
    if retraction.slot:
        return tuple(id_ for id_, text in standing if slot_of(text.lower()) == retraction.slot)
    return ()


def stems(text: str) -> frozenset[str]:
    """The beginnings of the words that carry `text`; pairs of characters in East Asian scripts."""
    lowered = text.lower().replace("’", "'")
    found = {
        word.strip("'")[:5] if len(word) > 5 else word.rstrip("s")
        for match in _WORD.finditer(_WIDE.sub(" ", lowered))
        if (word := match[0]) not in _empty()
    }
    for run in _WIDE.findall(lowered):
        found |= {run[at : at + 2] for at in range(len(run) - 1)} - _empty()
    return frozenset(found)


def slot_of(words: str) -> str:
    """The kind of thing of which one holds at a time that a clause speaks of; mostly none."""
    for name in word_lists()["slots"]:
        if _pattern(f"slots/{name}").search(words):
            return str(name)
    return ""


def _unless_vetoed(
    text: str, found: DetectedPreference, over: Sequence[Told], veto: float
) -> DetectedPreference | None:
    """What the rules found, cut where the models hear something else begin, or None when they
    refuse it; its polarity is theirs where the rules hear liking in a ban."""
    if not over:
        return found
    best = max(over, key=lambda one: one.chance(*KEPT))
    if best.chance(*KEPT) < veto or best.chance("retract", "once") > 0.5:
        return None
    last = max(
        (one for one in over if one.chance(*KEPT) > 0.5),
        default=best,
        key=lambda one: one.clause.at,
    )
    if found.start < last.clause.end < found.end:
        quote = text[found.start : last.clause.end]
        extra = len(" ".join(found.quote.split())) - len(" ".join(quote.split()))
        content = found.content[: max(1, len(found.content) - extra)].rstrip(" ,.;:") or quote
        subject = found.subject if found.subject in content else content
        found = replace(found, quote=quote, end=last.clause.end, content=content, subject=subject)
    against = best.chance(*AGAINST) / best.chance(*KEPT)
    if found.polarity == "for" and against > 0.8:  # "no" was no opening word of "no emojis"
        return replace(_stated(text, best), type=found.type)
    ill = found.polarity == "neutral" and _pattern("unwell").search(found.content.lower())
    if ill:
        found = replace(found, polarity="against")
    if not found.slot and best.kind == "identity" and (slot := slot_of(best.clause.words)):
        found = replace(found, slot=f"one {slot}")
    return found


def _stated(text: str, one: Told) -> DetectedPreference:
    clause = one.clause
    quote = text[clause.start : clause.end]
    content = " ".join(quote.split()).rstrip(".!")
    lead = _LEADS.match(content)
    content = (content[lead.end() :] if lead else content) or quote
    kind = one.kind
    polarity: Polarity = "neutral"
    words = _unled(clause.words)
    banned = (
        _pattern("bans").match(words)
        or _pattern("rather").match(words)
        or _pattern("banned").search(words)
    )
    if kind in AGAINST or banned or (kind == "identity" and _pattern("against").search(words)):
        polarity = "against"
    elif kind != "identity":
        polarity = "for"
    type_: PreferenceType = "style" if kind in ("instruct", "avoid") else "custom"
    slot = slot_of(clause.words) if kind not in AGAINST else ""
    if slot in ("diet", "name", "location") and kind in ("like", "instruct") and slot != "name":
        slot = ""  # "I love vegan food" is no diet
    return DetectedPreference(
        type=type_,
        content=content,
        subject=content,
        polarity=polarity,
        quote=quote,
        start=clause.start,
        end=clause.end,
        confidence=min(1.0, one.chance(*KEPT)),
        slot=f"one {slot}" if slot else "",
    )


def _retraction(text: str, clause: Clause) -> Retraction:
    said = " ".join(text[clause.start : clause.end].split())
    return Retraction(
        text=said,
        stems=stems(clause.words),
        latest=bool(_pattern("that").search(clause.words)),
        slot=slot_of(clause.words),
        start=clause.start,
    )


@lru_cache(maxsize=1)
def _empty() -> frozenset[str]:
    return frozenset(word_lists()["empty"])


@lru_cache(maxsize=1)
def _corrected() -> re.Pattern[str]:
    lead = word_lists()["corrected name"]
    it_is = r"(?:it's|its|it is|i meant|c'est|es|é|è|ist|das ist)"
    name = r"[A-Z\u00c0-\u00de][\w'-]+"
    lead = rf"(?:(?:oh|ah|uh|hey)\W+)?(?:{lead})"
    return re.compile(
        rf"\A\W*(?i:{lead})[\s,.!:;-]+(?i:{it_is}\s+)?(?P<name>{name})"  # "typo, Leo"
        r"(?i:\s+(?:actually|heiß\w* ich|is right))?\s*[.!]*\Z"
        rf"|\A\W*(?i:{lead}[\s,.!]+(?:{it_is}\s+)?|{it_is}\s+)(?P<other>{name}),?\s+"
        r"(?i:(?:and\s+|und\s+)?(?:not|nicht|no|pas|não|non))\s+[\w'-]+\s*[.!]*\Z"  # "…, not Teo"
    )


@lru_cache(maxsize=64)
def _pattern(name: str) -> re.Pattern[str]:
    words: Any = word_lists()
    for part in name.split("/"):
        words = words[part]
    letter = r"[a-zà-ÿ0-9_'’]"
    return re.compile(rf"(?<!{letter})(?:{words})(?!{letter})|(?:{_wide_only(words)})")


def _wide_only(words: str) -> str:
    """The alternatives of East Asian scripts, which have no spaces around words."""
    wide = [part for part in words.split("|") if _WIDE.match(part)]
    return "|".join(wide) or r"(?!)"
