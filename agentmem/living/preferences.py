"""What a user told about themselves, kept as memories and given to every prompt (P11)."""

from __future__ import annotations

import re
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, Protocol, Unpack, cast, get_args

from agentmem.base.checks import require_choice, require_messages, require_text
from agentmem.base.errors import InvalidInput, RecordNotFound
from agentmem.base.filters import Compare, Selection
from agentmem.base.guards import TtlCache
from agentmem.base.lazy import compile_late
from agentmem.base.types import PREFERENCES_URL, Memory, Message, Scope, Whose, content_hash, quoted
from agentmem.data import patterns_of
from agentmem.prompt.strip import strip
from agentmem.search.intake import Maker, prepare, scope_of
from agentmem.search.parts import Calls, Parts, changes_of
from agentmem.stores.values import HEARD_IN, Entry, Link
from agentmem.text.clean import clean_line
from agentmem.text.detect import (
    DetectedPreference,
    Heard,
    Polarity,
    PreferenceType,
    Retraction,
    correction,
    detect_preferences,
    hear_messages,
    is_need,
    matching,
    of_project,
    overlaps,
    stated_in,
    stems,
)
from agentmem.text.messages import text_of
from agentmem.text.replaced import ending
from agentmem.text.statements import Told

_USED = compile_late(r"\AI (?:always |usually |only |mostly )?(?:use|take|want|choose|go with) ")
MOST = 200
"""So many preferences of one user are read for a prompt, newest first."""
TOLD = "told"
"""In the metadata of what is shown only where the user's own world is asked about."""
RETRACTS = "retracts"
"""In the metadata of a taking back: the ids of what it ended. It stands for nothing itself."""
TAKES_BACK = "Taken back: "
"""Begins the text of such a record, so that "I'm at Lidl now" can end one and stand as well."""
RECENT = timedelta(hours=12)
"""A bare "scratch that" means the latest statement, if it is not older than this."""
TITLE_CHARACTERS = 60
TRIES = 5
"""So often a statement that other processes overtake is planned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preference:
    """One lasting statement of a user. `replaced` are ids of what it superseded.

    `updated_at` is when it was said or last changed. `title` and `heading_path`
    say where it stands in the profile, as a page's do.
    """

    id: str
    text: str
    type: PreferenceType
    memory: Memory
    replaced: tuple[str, ...] = ()
    polarity: Polarity = "neutral"
    changed_at: datetime | None = None

    def __repr__(self) -> str:
        return f"Preference({self.polarity} {quoted(self.text)}, id={self.id!r})"

    @property
    def title(self) -> str:
        """The memory's own title, else its first words."""
        return self.memory.title or clean_line(self.text, limit_characters=TITLE_CHARACTERS)

    @property
    def heading_path(self) -> tuple[str, ...]:
        return self.memory.heading_path or ("Preferences", self.type.capitalize())

    @property
    def updated_at(self) -> datetime:
        return self.changed_at or self.memory.created_at

    def to_dict(self) -> dict[str, Any]:
        """The preference as JSON values."""
        return {
            "id": self.id,
            "text": self.text,
            "type": self.type,
            "polarity": self.polarity,
            "about": self.memory.metadata.get("key", ""),
            "title": self.title,
            "heading_path": list(self.heading_path),
            "since": self.memory.created_at.isoformat(),
            "updated_at": self.updated_at.isoformat(),
            "replaced": list(self.replaced),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Listened:
    """What a user's words changed: statements that are new and those they took back.

    `undone_by` are the ids to give `undo` so that what was taken back holds again.
    """

    kept: tuple[Preference, ...] = ()
    taken_back: tuple[Preference, ...] = ()
    undone_by: tuple[str, ...] = ()


class PreferenceStore:
    """The preferences of the users of one memory.

    A newer statement about the same thing takes the older one's place; the
    older stays in the record. `user_id` and the like say whose is meant.
    """

    def __init__(
        self, memory: Parts, *, current: TtlCache[tuple[Memory, ...]] | None = None
    ) -> None:
        """Where `current` is given, what holds is kept there until some preference changes."""
        self._memory = memory
        self._keeping = threading.Lock()
        self._current = current

    def add(
        self,
        text: str,
        *,
        type: PreferenceType | None = None,  # noqa: A002 - the field's own name
        **whose: Unpack[Whose],
    ) -> Preference:
        """Keep a preference in the user's words, whatever they are.

        Its type and what it is about are read from the text where it can be
        understood; otherwise it is `custom` and about itself.
        """
        require_text(text, "text")
        said = " ".join(strip(text).split())
        if not said:
            raise InvalidInput("text", text, "is empty", remedy="Say what the user prefers.")
        _require_type(type)
        stated = _read(said)
        stated = replace(stated, type=type or stated.type, content=said, confidence=1.0)
        kept = self._keep([stated], scope_of(whose))
        if kept:
            return kept[0]
        same = subject_key(stated)
        return next(_preference(m) for m in self.current(scope_of(whose)) if _key(m) == same)

    def detect(self, messages: Iterable[Message], **whose: Unpack[Whose]) -> tuple[Preference, ...]:
        """Keep what the user's own turns in `messages` state; gives what is new (P10, P22).

        Where such a message is remembered, what it states is erased with it.
        """
        return self.listen(messages, **whose).kept

    def listen(self, messages: Iterable[Message], **whose: Unpack[Whose]) -> Listened:
        """Keep what the user's own turns state and end what they take back (P10, P22, P41).

        A taking back that speaks of nothing that stands changes nothing. What
        it ends stays in the record, and `undo` of one of `undone_by` lets it
        hold again. A newer value of what a standing statement gives takes its place:
        "the rent is 950 from July". What is said of a project ("we use pnpm here")
        holds in that project, if one is named.
        """
        scope = scope_of(whose)
        scope = Scope(user_id=scope.user_id, project_id=scope.project_id)
        kept: list[Preference] = []
        ended: list[tuple[str, Preference]] = []
        said = messages if isinstance(messages, Mapping | str) else require_messages(messages)
        states = False
        embed = self._memory.embedding.multilingual_vectors
        for said_so in hear_messages(said, embed=embed, strip=strip):
            heard, corrected = self._corrected(said_so, scope)
            kept += corrected
            stated = [*heard.stated]
            changes = self._changes(heard, scope)
            for retraction in heard.retracted:
                old = self._take_back(retraction, scope)
                ended += old
                # What ends another value of its slot is the newer one: "Dutch after all".
                same = any(stems(one.text) & retraction.stems for _, one in old)
                if retraction.otherwise and not same:
                    stated.append(retraction.otherwise)
            stated += _instead(heard, stated, changes)
            stated.sort(key=lambda one: one.start)
            states = states or bool(stated or corrected)
            new = self._keep(stated, scope)
            kept += new
            ended += self._end_changed(changes, stated, new, scope)
        if states:
            self._link_remembered(list(said), scope)
        return Listened(
            kept=tuple(kept),
            taken_back=tuple(old for _, old in ended),
            undone_by=tuple(dict.fromkeys(record_id for record_id, _ in ended)),
        )

    def heard(
        self, message: Message, message_id: str, scope: Scope, *, new: Collection[str] = ()
    ) -> None:
        """Note that a remembered message states the preferences `new`, and which others it states.

        They are erased with it when no other message states them.
        """
        said = strip(text_of(message)) if message.get("role") == "user" else ""
        keys = {subject_key(one) for one in detect_preferences(said)}
        stating = [m.id for m in self._own(scope) if _key(m) in keys] if keys else []
        now = self._memory.clock.now()
        for one in dict.fromkeys((*new, *stating)):
            link = Link(first_id=one, second_id=message_id, relation=HEARD_IN, created_at=now)
            with suppress(RecordNotFound):  # taken back or erased meanwhile
                self._memory.store.links.put(scope, link)

    def _link_remembered(self, messages: Sequence[Message], scope: Scope) -> None:
        for message in (one for one in messages if one.get("role") == "user"):
            digest = content_hash(text_of(message))
            where = Compare(field="content_hash", operator="eq", value=digest)
            selection = Selection(reader=scope, kinds=("message",), where=where)
            for remembered in self._memory.store.scan(selection):
                self.heard(message, remembered.id, scope)

    def get_all(
        self,
        *,
        type: PreferenceType | None = None,  # noqa: A002 - the field's own name
        **whose: Unpack[Whose],
    ) -> tuple[Preference, ...]:
        """The preferences that hold now, newest first: `MOST`, and needs however old they are."""
        _require_type(type)
        scope = scope_of(whose)
        found = (_preference(memory) for memory in self.current(scope))
        return tuple(self._dated(scope, p) for p in found if type in (None, p.type))

    def _dated(self, scope: Scope, preference: Preference) -> Preference:
        """The preference with when it was last changed, if it ever was."""
        with suppress(RecordNotFound):  # taken back meanwhile
            changes = self._memory.store.history(scope, preference.id)
            if changes:
                return replace(preference, changed_at=changes[-1].replaced_at)
        return preference

    def remove(self, preference_id: str, **whose: Unpack[Whose]) -> bool:
        """Take one preference back; what it had replaced stays replaced.

        Whether there was one: an id of nothing, of another user's preference or
        of another memory changes nothing.
        """
        scope = scope_of(whose)
        with suppress(RecordNotFound):
            self._require(scope, preference_id)
            now = self._memory.clock.now()
            return bool(self._memory.store.delete(scope, [preference_id], at=now))
        return False

    def undo(self, preference_id: str, **whose: Unpack[Whose]) -> tuple[Preference, ...]:
        """Take one preference back and let what it had replaced hold again; gives those.

        If it was replaced itself, what holds now goes on holding and nothing is
        given: what it had replaced is then replaced by the newer one, and holds
        again when that is taken back.
        """
        scope = scope_of(whose)
        newer_id = self._require(scope, preference_id).superseded_by
        store = self._memory.store
        everything = Selection(
            reader=scope,
            source_url=PREFERENCES_URL,
            kinds=("preference",),
            superseded=True,
            forgotten=True,
        )
        back: list[Preference] = []
        for old in [m for m in store.scan(everything) if m.superseded_by == preference_id]:
            # It may be taken back, or made to hold by somebody else.
            with suppress(RecordNotFound, InvalidInput):
                newer = store.get(scope, newer_id) if newer_id else None
                again = store.unsupersede(scope, old.id)
                if newer:
                    self._end(scope, old.id, newer)
                else:
                    back.append(_preference(again))
        store.delete(scope, [preference_id], at=self._memory.clock.now())
        return tuple(back)

    def clear(self, **whose: Unpack[Whose]) -> int:
        """Take every preference of this user back; gives how many there were."""
        scope = scope_of(whose)
        selection = Selection(reader=scope, kinds=("preference",), visibilities=("private",))
        return self._memory.store.delete_all(selection, at=self._memory.clock.now())

    # -- inside -----------------------------------------------------------------------

    def current(self, scope: Scope) -> tuple[Memory, ...]:
        """The memories behind `get_all`; read again only when some preference changed."""
        if self._current is None:
            return self._read_current(scope)
        key = (scope, changes_of(self._memory, "preference"))
        kept = self._current.get(key)
        if kept is None:
            self._current.put(key, kept := self._read_current(scope))
        return kept

    def _read_current(self, scope: Scope) -> tuple[Memory, ...]:
        # Found by their source, so that it costs no scan.
        found = self._memory.store.search_by_source_url(scope, PREFERENCES_URL)
        held = [
            m
            for m in found
            if m.kind == "preference" and m.superseded_by is None and RETRACTS not in m.metadata
        ]
        held.sort(key=lambda memory: (memory.created_at, memory.id), reverse=True)
        return (*held[:MOST], *(memory for memory in held[MOST:] if is_need(memory.text)))

    def _require(self, scope: Scope, preference_id: str) -> Memory:
        memory = self._memory.store.get(scope, require_text(preference_id, "preference_id"))
        if memory.kind != "preference":
            raise RecordNotFound(preference_id)
        return memory

    def _keep(self, stated: Sequence[DetectedPreference], scope: Scope) -> tuple[Preference, ...]:
        """Keep what is new; one at a time, so that two threads do not both find it new."""
        here = [one for one in stated if scope.project_id and of_project(one.quote)]
        with self._keeping:
            return (
                *self._keep_new([one for one in stated if one not in here], _everywhere(scope)),
                *self._keep_new(here, scope),
            )

    def _keep_new(
        self, stated: Sequence[DetectedPreference], scope: Scope
    ) -> tuple[Preference, ...]:
        """Keep what is new. What another process overtook is planned again as things are now."""
        kept: list[Preference] = []
        left = stated
        for tries in range(TRIES, 0, -1):
            if not left:
                break
            # The last time it is added beside whatever is there; `_settle` sees to the rest.
            known: dict[str, list[tuple[str, str]]] = {}
            for m in self._own(scope) if tries > 1 else ():
                if m.scope == scope:
                    known.setdefault(_key_beside(m, left), []).append((m.id, m.text))
            overtaken = []
            for new, old_ids in plan_preferences(known, left):
                try:
                    kept.append(self._put(new, old_ids, scope))
                except (InvalidInput, RecordNotFound):
                    if not old_ids:
                        raise
                    overtaken.append(new)  # what it replaces was replaced since it was read
            left = overtaken
        if kept:
            self._settle(scope, {_key(preference.memory) for preference in kept})
        return tuple(kept)

    def _changes(self, heard: Heard, scope: Scope) -> Sequence[tuple[Memory, Told]]:
        """The standing statements that a message ends, each with its clause, the surest first."""
        mine = self._own(scope) if heard.told else ()
        embed = self._memory.embedding.multilingual_vectors
        found = ending(heard.told, [memory.text for memory in mine], embed)
        return [(mine[at], said) for at, said in found]

    def _end_changed(
        self,
        changes: Sequence[tuple[Memory, Told]],
        stated: Sequence[DetectedPreference],
        new: Sequence[Preference],
        scope: Scope,
    ) -> Iterator[tuple[str, Preference]]:
        """End what a message changes, by what it says instead or by a record of the taking back."""
        own = self._own(scope) if changes else ()
        standing = {memory.id for memory in own} - {one.id for one in new}
        for memory, one in changes:
            said = {p.content for p in stated if overlaps(p, one)}
            newer = next((p.memory for p in new if p.text in said), None)
            if memory.id not in standing or (said and newer is None):
                continue  # ended already, or it was said before
            if newer is None:
                yield from self._end_by_record(one.clause.words, [memory], scope)
            else:
                self._end(scope, memory.id, newer)

    def _corrected(self, heard: Heard, scope: Scope) -> tuple[Heard, tuple[Preference, ...]]:
        """What is left of a message that corrects what was said just before, and the correction."""
        newest = next(iter(self._own(scope)), None)
        found = correction(heard.text, newest.text) if newest else None
        if newest is None or found is None:
            return heard, ()
        content, end = found
        before, slot = _preference(newest), newest.metadata.get("slot", "")
        right = DetectedPreference(
            type=before.type, content=content, subject=content,
            polarity=before.polarity, slot=slot if isinstance(slot, str) else "",
        )  # fmt: skip
        with self._keeping, suppress(InvalidInput, RecordNotFound):  # ended meanwhile
            kept = self._put(right, [newest.id], newest.scope)
            after = tuple(one for one in heard.stated if one.start >= end)
            return Heard(stated=after, text=heard.text), (kept,)
        return heard, ()

    def _take_back(self, retraction: Retraction, scope: Scope) -> list[tuple[str, Preference]]:
        """End what `retraction` speaks of; gives that, with the id of the record that says so."""
        with self._keeping:
            mine = self._own(scope)
            if retraction.former:  # "I used to hate olives" ends no liking
                against = retraction.former == "against"
                mine = tuple(m for m in mine if (_polarity(m) == "against") == against)
            now = self._memory.clock.now()
            recent = sum(now - m.created_at <= RECENT for m in mine)
            meant = matching(retraction, [(m.id, m.text) for m in mine], recent=recent)
            return self._end_by_record(retraction.text, [m for m in mine if m.id in meant], scope)

    def _end_by_record(
        self, said: str, old: Sequence[Memory], scope: Scope
    ) -> list[tuple[str, Preference]]:
        """End statements by a record that they were taken back; `undo` of it lets them hold."""
        if not old:
            return []
        fields = {"type": "custom", "key": "", RETRACTS: [memory.id for memory in old]}
        record = self._made(f"{TAKES_BACK}{said}", fields, old[0].scope)
        self._memory.store.put([record])
        for memory in old:
            self._end(scope, memory.id, record.memory)
        return [(record.memory.id, _preference(memory)) for memory in old]

    def _own(self, scope: Scope) -> tuple[Memory, ...]:
        """The user's own, private statements, of everywhere and of the project they are in."""
        whose = (_everywhere(scope), Scope(user_id=scope.user_id, project_id=scope.project_id))
        found = self.current(whose[1])
        return tuple(m for m in found if m.visibility == "private" and m.scope in whose)

    def _put(self, new: DetectedPreference, old_ids: Sequence[str], scope: Scope) -> Preference:
        """Keep a statement in the place of older ones; refused when the first is replaced.

        Where it replaces none, the one of the same words that another process just kept is given.
        """
        store = self._memory.store
        entry = self._made(new.content, _metadata(new, old_ids), scope)
        made = entry.memory
        if not old_ids:
            (there,) = store.put_new([entry], same="text")
            return _preference(made if there == made.id else store.get(scope, there))
        made = store.supersede(scope, old_ids[0], entry, at=made.created_at)
        for old_id in old_ids[1:]:
            self._end(scope, old_id, made)
        return _preference(made)

    def _settle(self, scope: Scope, keys: Collection[str]) -> None:
        """Let the newest hold where two processes added a statement about one thing at once."""
        newest: dict[str, Memory] = {}
        for memory in self._own(scope):
            key = _key(memory) if memory.scope == scope else ""
            if key in keys and newest.setdefault(key, memory) is not memory:
                self._end(scope, memory.id, newest[key])

    def _end(self, scope: Scope, old_id: str, newer: Memory) -> None:
        """Let `newer` stand for an older statement, unless that was ended meanwhile."""
        with suppress(InvalidInput, RecordNotFound):
            self._memory.store.mark_superseded(scope, old_id, newer.id, at=newer.created_at)

    def _made(self, text: str, metadata: Mapping[str, Any], scope: Scope) -> Entry:
        """A statement, or the record of a taking back, as it is stored."""
        memory, old_ids = self._memory, metadata.get("replaced")
        now = memory.clock.now()
        maker = Maker(scope=scope, visibility="private", now=now, new_ids=memory.ids.take)
        made = maker.memory(
            text,
            kind="preference",
            source_url=PREFERENCES_URL,
            origin="user",
            importance=0.1 if RETRACTS in metadata else 0.9,
            valid_from=now if old_ids else None,
            supersedes=old_ids[0] if old_ids else None,
            metadata=metadata,
        )
        (vector,) = memory.embedding.embed([made])
        return prepare(made, vector)


def _instead(
    heard: Heard, stated: Sequence[DetectedPreference], changes: Sequence[tuple[Memory, Told]]
) -> list[DetectedPreference]:
    """What the clauses that end something say instead of it, where that is not stated yet."""
    saying = {one.clause.at: one for _, one in changes}
    left = (one for one in saying.values() if not any(overlaps(p, one) for p in stated))
    return [found for one in left if (found := stated_in(heard.text, one))]


def _everywhere(scope: Scope) -> Scope:
    """Whose statements hold in every project, agent and run."""
    return Scope(user_id=scope.user_id)


def _require_type(kind: PreferenceType | None) -> None:
    if kind is not None:
        require_choice(kind, get_args(PreferenceType), "type")


def is_told(stated: DetectedPreference) -> bool:
    """Whether somebody was heard to tell of their life, and neither asked nor needs anything.

    "We found a house in Ruddington" helps where their own world is asked about, and nowhere else.
    """
    lasting = stated.type != "custom" or stated.polarity != "neutral" or bool(stated.slot)
    said = stated.confidence == 1.0 or is_need(stated.content) or of_project(stated.content)
    return not lasting and not said


def _metadata(stated: DetectedPreference, old_ids: Sequence[str]) -> Mapping[str, Any]:
    told = {"slot": stated.slot, TOLD: is_told(stated), "replaced": list(old_ids)}
    return {
        "type": stated.type,
        "key": subject_key(stated),
        "subject": stated.subject,
        "polarity": stated.polarity,
        **{name: value for name, value in told.items() if value},
    }


def _key(memory: Memory) -> str:
    """What a stored preference is about; one from elsewhere is read again."""
    key = memory.metadata.get("key")
    return key if isinstance(key, str) and key else subject_key(_read(memory.text))


def _key_beside(memory: Memory, stated: Sequence[DetectedPreference]) -> str:
    """The key of a stored preference; that of a new one which says the opposite of the same."""
    stood, about = _polarity(memory), stems(memory.text)
    for new in stated:
        turned = {stood, new.polarity} == {"for", "against"}
        if turned and about and about == stems(new.content):
            return subject_key(new)
    return _key(memory)


def _read(said: str) -> DetectedPreference:
    """One statement of a user, who means it as a preference however it is worded."""
    for worded in (said, _USED.sub("I prefer ", said), f"I prefer {said}"):
        found = detect_preferences(worded)
        if len(found) == 1:
            return found[0]
    return DetectedPreference(type="custom", content=said, subject=said)


def _preference(memory: Memory) -> Preference:
    kind = memory.metadata.get("type")
    return Preference(
        id=memory.id,
        text=memory.text,
        type=cast(PreferenceType, kind) if kind in get_args(PreferenceType) else "custom",
        memory=memory,
        replaced=tuple(memory.metadata.get("replaced", ())),
        polarity=_polarity(memory),
    )


def _polarity(memory: Memory) -> Polarity:
    found = memory.metadata.get("polarity")
    return cast(Polarity, found) if found in get_args(Polarity) else "neutral"


# ----------------------------------------------------------------------------
# Which statements are about the same thing, and what a newer one replaces.


P = patterns_of("preferences.json")


@lru_cache(maxsize=4)
def _named(group: str) -> tuple[tuple[str, re.Pattern[str]], ...]:
    """Things of which one holds at a time (`settings`, `styles`; of `tastes` where one is
    preferred), by the words for their values."""
    told = P.told["keys"][group].items()
    return tuple((name, compile_late(P.expand(template))) for name, template in told)


@lru_cache(maxsize=1)
def _empty() -> frozenset[str]:
    return frozenset(P.told["keys"]["empty"].split())


_KEY_WORDS = 6


def subject_key(preference: DetectedPreference) -> str:
    """What the statement is about; two with equal keys cannot both hold.

    One at a time: the name, the pronouns, the diet, the language, length and
    tone of answers, a setting such as the indentation, the favourite of each
    sort, the level in each skill. "I prefer tea over coffee" is about the pair
    and "I prefer coffee over tea" as well. Likes and dislikes are about their
    object, so "I hate jazz" replaces "I like jazz", and stands beside "I like
    rock".
    """
    slot, subject = preference.slot, preference.subject.lower()
    said = " ".join(preference.content.lower().replace("’", "'").split())
    if slot in ("name", "pronouns", "time-zone", "job") or slot.startswith("one "):
        return slot.removeprefix("one ")
    if slot == "level-of-answers":
        return "answers: level"
    if slot == "favourite":
        return f"favourite: {_words(subject) or 'thing'}"
    if slot in ("diet", "state", "role") and P.key_diet.search(subject):
        return "diet"
    if slot in ("level", "role") and P.key_level.search(subject):
        of = P.key_level_of.search(subject)
        return f"level: {_words(of[1]) if of else 'general'}"
    for name, pattern in _named("settings"):
        if pattern.match(subject):
            return name
    if preference.type == "style":
        for name, pattern in _named("styles"):
            if pattern.search(said):
                return name
    compared = P.key_compared.search(said) or P.key_compared_to.search(said)
    if compared:
        return "choice: " + " | ".join(sorted(_words(side) for side in compared.groups()))
    if P.key_preferred.search(said):
        for name, pattern in _named("tastes"):
            if pattern.match(subject):
                return name
    if slot in ("role", "field", "condition", "trait", "state", "language", "not-name", "level"):
        return f"{slot}: {_words(subject)}"
    return f"about: {_words(subject) or _words(said)}"


def plan_preferences(
    known: Mapping[str, Sequence[tuple[str, str]]], new: Sequence[DetectedPreference]
) -> list[tuple[DetectedPreference, tuple[str, ...]]]:
    """Which of `new` (oldest first) to store, and the ids of what each takes the place of.

    `known` are the ids and texts of what is stored, by their keys. A statement
    with the key of a stored one replaces it, unless it says the same. Of several
    new ones with one key the last holds. Those that replace nothing come first.
    """
    latest: dict[str, DetectedPreference] = {}
    for one in new:
        key = subject_key(one)
        latest.pop(key, None)
        latest[key] = one
    plan: list[tuple[DetectedPreference, tuple[str, ...]]] = []
    for key, one in latest.items():
        same = [id_ for id_, text in known.get(key, ()) if _said(text) == _said(one.content)]
        other = [id_ for id_, _ in known.get(key, ()) if id_ not in same]
        if other or not same:
            plan.append((one, (*other, *same)))
    return sorted(plan, key=lambda planned: bool(planned[1]))


def _said(content: str) -> str:
    return " ".join(_tokens(content.lower().replace("’", "'")))


def _tokens(text: str) -> Iterator[str]:
    return (match[0].strip(".'") for match in P.key_token.finditer(text))


def _words(text: str) -> str:
    """The words that carry `text`, without number, order kept; enough to tell subjects apart."""
    kept = [_singular(word) for word in _tokens(text) if word not in _empty()]
    return " ".join(kept[:_KEY_WORDS])


def _singular(word: str) -> str:
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    if len(word) > 4 and word.endswith(("ches", "shes", "sses", "xes")):
        return word[:-2]
    if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word


class Profiled(Calls, Protocol):
    """A memory that knows what users told about themselves."""

    @property
    def preferences(self) -> PreferenceStore: ...
