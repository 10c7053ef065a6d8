"""Hear what a message says about its author: what stands from now on, and what is taken back.

Rules (`preferences.detect_preferences`) give the exact words, type and polarity of explicit
statements; the fitted models of `statements` hear the rest, in eight languages, and have a veto.
Whatever is about this answer only, about somebody else, pretended or a task is not kept.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from importlib import resources
from typing import Any

from agentmem.core.preferences import DetectedPreference, detect_preferences, text_parts
from agentmem.core.preference_rules import Polarity, PreferenceType
from agentmem.core.statements import Clause, Embed, Kind, Told, clauses, tell
from agentmem.core.values import dataclass
from agentmem.errors import InvalidMessage
from agentmem.types import Message

KEPT: tuple[Kind, ...] = ("like", "dislike", "instruct", "avoid", "identity")
AGAINST: tuple[Kind, ...] = ("dislike", "avoid")
SURE, SURE_IN_LONG = 0.72, 0.93
"""So likely must a clause be a statement to be kept, in a message and in a long one."""
LONG = 400
"""From so many characters on a message is long: mostly a task with its material."""
VETO = 0.25
"""What the rules find is not kept when the models think it less likely than this."""
TAKEN_BACK = 0.5
ONCE = 0.4
_QUESTION = re.compile(
    r"(?:(?:also|and|so|but|ok|hey|btw) )*(?:what|whats|what's|how|where|which|why|who|who's|whens|when's"
    r"|was|wie|wo|warum|wer|wann|qué|cuál|cómo|dónde|quoi|quel\w*|comment|où|qual|quais|onde|che|cosa|dove"
    r"|should|do|does|did|is|are|can|could|would)\b"
)
_LETTERS = re.compile(r"[^\W\d_]")
_OTHER_SCRIPT = re.compile(r"[\u0370-\u03ff\u0400-\u052f\u0590-\u06ff\u0900-\u0e7f\uac00-\ud7af]")
_WORD = re.compile(r"[^\W_][\w'+#/-]*")
_WIDE = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff]+")
_LEADS = re.compile(
    r"(?:(?:and|but|so|because|since|although|though|also|plus|oh|hm+|ok|okay|well|then|or|cause|bc"
    r"|und|aber|also|weil|da|así que|pero|porque|du coup|donc|mais|et|parce que|então|mas|quindi|ma"
    r"|因为|所以|但是|不过)[ ,]+|[yeo] )+", re.IGNORECASE,
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Retraction:
    """A clause that takes something back; `stems` say what, none takes the latest statement."""

    text: str
    stems: frozenset[str]
    slot: str = ""
    start: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """What a text states and what it takes back, in the order of the text."""

    stated: tuple[DetectedPreference, ...] = ()
    retracted: tuple[Retraction, ...] = ()


def hear(text: str, embed: Embed | None = None) -> Heard:
    """What `text` says about its author; nothing for most texts (P10, P41)."""
    explicit = detect_preferences(text)
    message = clauses(text)
    if not message or _OTHER_SCRIPT.search(text):
        return Heard(stated=explicit)
    told = tell(message, embed)
    passing = _passing(told)
    sure = SURE if len(text) < LONG else SURE_IN_LONG
    stated: list[DetectedPreference] = []
    retracted: list[Retraction] = []
    used: set[int] = set()
    for found in explicit:
        over = [one for one in told if one.clause.start < found.end and found.start < one.clause.end]
        if any(one.clause.at in passing for one in over):
            continue
        kept = _unless_vetoed(text, found, over)
        if kept is not None:
            stated.append(kept)
            used |= {one.clause.at for one in over if one.clause.start < kept.end}
    for one in told:
        clause = one.clause
        if clause.at in passing or clause.at in used:
            continue
        if one.kind == "retract" and one.chance("retract") > TAKEN_BACK:
            retracted.append(_retraction(text, clause))
        elif one.kind in KEPT and one.chance(*KEPT) > sure and not _only_asks(one):
            stated.append(_stated(text, one))
    stated.sort(key=lambda one: (one.start, one.end))
    for new in stated:
        retracted += _given_up(new)
    return Heard(stated=tuple(stated), retracted=tuple(retracted))


def _passing(told: Sequence[Told]) -> set[int]:
    """The clauses that are pretended, ironic or meant for this answer only, by their place."""
    found: set[int] = set()
    pretended = ironic = once = False
    for one in told:
        clause = one.clause
        follows = bool(clause.at) and told[clause.at - 1].clause.first == clause.first
        pretended = pretended or bool(_pattern("pretend").search(clause.words))
        ironic = ironic or bool(_pattern("sarcasm").match(clause.words))
        once = one.chance("once") > ONCE or (once and follows)
        if pretended or ironic or once:
            found.add(clause.at)
    return found


def _only_asks(one: Told) -> bool:
    """Whether a clause that is worded as a question is taken for a statement."""
    asked = one.clause.asks or bool(_QUESTION.match(one.clause.words))
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


def settled(new: DetectedPreference, newest: str) -> DetectedPreference:
    """`new` as a name where it corrects the `newest` statement, which was one."""
    if new.slot or new.polarity != "neutral" or slot_of(newest.lower()) != "name":
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


def matching(retraction: Retraction, standing: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    """The ids in `standing` (id and text, newest first) that `retraction` speaks of.

    Those that share most of its stems; failing that, those of the same slot.
    Without stems it means the latest one.
    """
    if not retraction.stems and not retraction.slot:
        return tuple(id_ for id_, _ in standing[:1])
    shared = {id_: len(retraction.stems & stems(text)) for id_, text in standing}
    most = max(shared.values(), default=0)
    if most:
        return tuple(id_ for id_, count in shared.items() if count == most)
    if retraction.slot == "job":
        return tuple(id_ for id_, text in standing if _pattern("job").search(text.lower()))[:1]
    if retraction.slot:
        return tuple(id_ for id_, text in standing if slot_of(text.lower()) == retraction.slot)
    return ()


def stems(text: str) -> frozenset[str]:
    """The beginnings of the words that carry `text`; pairs of characters where there are no words."""
    lowered = text.lower().replace("’", "'")
    found = {
        word.strip("'")[:5] if len(word) > 5 else word.rstrip("s")
        for match in _WORD.finditer(_WIDE.sub(" ", lowered))
        if (word := match[0]) not in _empty()
    }
    for run in _WIDE.findall(lowered):
        found |= {run[at : at + 2] for at in range(len(run) - 1)} - _EMPTY_PAIRS
    return frozenset(found)


_EMPTY_PAIRS = frozenset(
    "です ます した いる てい いま ます もう ない なか かっ った して くだ ださ さい 忘れ れて の話 の件 ません ませ せん では じゃ ゃな "
    "我不 不是 我的 了我 我说 说的 的事 忘了 忘掉 现在 不再 再也 其实 刚才 已经".split()
)


def slot_of(words: str) -> str:
    """The kind of thing of which one holds at a time that a clause speaks of; mostly none."""
    for name in _lists()["slots"]:
        if _pattern(f"slots/{name}").search(words):
            return str(name)
    return ""


def _unless_vetoed(
    text: str, found: DetectedPreference, over: Sequence[Told]
) -> DetectedPreference | None:
    """What the rules found, cut where the models hear something else begin, or None when they
    refuse it; its polarity is theirs where the rules hear liking in a ban."""
    if not over:
        return found
    best = max(over, key=lambda one: one.chance(*KEPT))
    if best.chance(*KEPT) < VETO or best.chance("retract", "once") > 0.5:
        return None
    last = max((one for one in over if one.chance(*KEPT) > 0.5), default=best, key=lambda one: one.clause.at)
    if found.start < last.clause.end < found.end:
        quote = text[found.start : last.clause.end]
        extra = len(" ".join(found.quote.split())) - len(" ".join(quote.split()))
        content = found.content[: max(1, len(found.content) - extra)].rstrip(" ,.;:") or quote
        subject = found.subject if found.subject in content else content
        found = replace(found, quote=quote, end=last.clause.end, content=content, subject=subject)
    against = best.chance(*AGAINST) / best.chance(*KEPT)
    ill = found.polarity == "neutral" and _pattern("unwell").search(found.content.lower())
    if ill or (found.polarity == "for" and against > 0.8):
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
    if kind in AGAINST or (kind == "identity" and _pattern("against").search(clause.words)):
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
        text=said, stems=stems(clause.words), slot=slot_of(clause.words), start=clause.start
    )


@lru_cache(maxsize=1)
def _lists() -> dict[str, Any]:
    path = resources.files("agentmem") / "data" / "statements.json"
    loaded: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return loaded


@lru_cache(maxsize=1)
def _empty() -> frozenset[str]:
    return frozenset(_lists()["empty"])


@lru_cache(maxsize=64)
def _pattern(name: str) -> re.Pattern[str]:
    words: Any = _lists()
    for part in name.split("/"):
        words = words[part]
    return re.compile(rf"(?<![\w])(?:{words})(?![\w])|(?:{_wide_only(words)})")


def _wide_only(words: str) -> str:
    """The alternatives of East Asian scripts, which have no spaces around words."""
    wide = [part for part in words.split("|") if _WIDE.match(part)]
    return "|".join(wide) or r"(?!)"
