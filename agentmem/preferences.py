"""What a user told about themselves, kept as memories and given to every prompt (P11)."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast, get_args

from agentmem import remembering
from agentmem.core.checks import require_choice, require_text
from agentmem.core.content import content_hash
from agentmem.core.filters import Compare, Selection
from agentmem.core.message_parts import text_of
from agentmem.core.patterns import LazyPattern
from agentmem.core.values import dataclass
from agentmem.errors import EmbedderError, InvalidInput, RecordNotFound
from agentmem.manager.whose import scope_of
from agentmem.preparing import prepare
from agentmem.stores.derived import HEARD_IN
from agentmem.stores.values import Entry, Link
from agentmem.types import PREFERENCES_URL, Memory, Message, Scope

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from agentmem.core.preferences import DetectedPreference, Polarity, PreferenceType
    from agentmem.hearing import Heard, Retraction
    from agentmem.manager import MemoryManager

_USED = LazyPattern(r"\AI (?:always |usually |only |mostly )?(?:use|take|want|choose|go with) ")
MOST = 200
"""So many preferences of one user are read for a prompt, newest first."""
RETRACTS = "retracts"
"""In the metadata of a taking back: the ids of what it ended. It stands for nothing itself."""
ALIKE, ALIKE_CHANGED = 0.5, 0.55
"""So near must a taking back or a change be to the statement it ends, if no word is shared."""
RECENT = timedelta(hours=12)
"""A bare "scratch that" means the latest statement, if it is not older than this."""
TRIES = 5
"""So often a statement that other processes overtake is planned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preference:
    """One lasting statement of a user. `replaced` are ids of what it superseded."""

    id: str
    text: str
    type: PreferenceType
    memory: Memory
    replaced: tuple[str, ...] = ()
    polarity: Polarity = "neutral"

    def to_dict(self) -> dict[str, Any]:
        """The preference as JSON values."""
        return {
            "id": self.id,
            "text": self.text,
            "type": self.type,
            "polarity": self.polarity,
            "about": self.memory.metadata.get("key", ""),
            "since": self.memory.created_at.isoformat(),
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

    def __init__(self, memory: MemoryManager) -> None:
        self._memory = memory
        self._keeping = threading.Lock()

    def add(
        self,
        text: str,
        *,
        type: PreferenceType | None = None,  # noqa: A002 - the field's own name
        **whose: str | None,
    ) -> Preference:
        """Keep a preference in the user's words, whatever they are.

        Its type and what it is about are read from the text where it can be
        understood; otherwise it is `custom` and about itself.
        """
        from agentmem.core.preference_merge import subject_key
        from agentmem.core.strip import strip

        require_text(text, "text")
        said = " ".join(strip(text).split())
        if not said:
            raise InvalidInput("text", text, "is empty", remedy="Say what the user prefers.")
        _require_type(type)
        stated = _read(said)
        stated = replace(stated, type=type or stated.type, content=said)
        kept = self._keep([stated], scope_of(whose))
        if kept:
            return kept[0]
        same = subject_key(stated)
        return next(_preference(m) for m in self.current(scope_of(whose)) if _key(m) == same)

    def detect(self, messages: Iterable[Message], **whose: str | None) -> tuple[Preference, ...]:
        """Keep what the user's own turns in `messages` state; gives what is new (P10, P22).

        Where such a message is remembered, what it states is erased with it.
        """
        return self.listen(messages, **whose).kept

    def listen(self, messages: Iterable[Message], **whose: str | None) -> Listened:
        """Keep what the user's own turns state and end what they take back (P10, P22, P41).

        A taking back that speaks of nothing that stands changes nothing. What
        it ends stays in the record, and `undo` of one of `undone_by` lets it
        hold again.
        """
        from agentmem.core.strip import strip
        from agentmem.hearing import hear_messages

        scope = scope_of(whose)
        kept: list[Preference] = []
        ended: list[Preference] = []
        by: list[str] = []
        said = messages if isinstance(messages, Mapping | str) else list(messages)
        states = False
        for heard in hear_messages(said, embed=self._vectors, strip=strip):
            stated = self._settled(heard, scope)
            states = states or bool(stated)
            if heard.retracted:
                for record, old in self._take_back(heard.retracted, Scope(user_id=scope.user_id)):
                    by.append(record)
                    ended += old
            kept += self._keep(stated, scope)
        if states:
            self._link_remembered(list(said), scope)
        return Listened(kept=tuple(kept), taken_back=tuple(ended), undone_by=tuple(by))

    def heard(
        self, message: Message, message_id: str, scope: Scope, *, new: Collection[str] = ()
    ) -> None:
        """Note that a remembered message states the preferences `new`, and which others it states.

        They are erased with it when no other message states them.
        """
        from agentmem.core.preference_merge import subject_key
        from agentmem.core.preferences import detect_preferences
        from agentmem.core.strip import strip

        said = strip(text_of(message)) if message.get("role") == "user" else ""
        keys = {subject_key(one) for one in detect_preferences(said)}
        if not (keys or new):
            return
        own = self._own(Scope(user_id=scope.user_id)) if keys else ()
        now = self._memory.clock.now()
        for one in dict.fromkeys((*new, *(m.id for m in own if _key(m) in keys))):
            link = Link(first_id=one, second_id=message_id, relation=HEARD_IN, created_at=now)
            with suppress(RecordNotFound):  # taken back or erased meanwhile
                self._memory.store.links.put(scope, link)

    def _link_remembered(self, messages: Sequence[Message], scope: Scope) -> None:
        for message in messages:
            if message.get("role") != "user":
                continue
            where = Compare(
                field="content_hash", operator="eq", value=content_hash(text_of(message))
            )
            selection = Selection(reader=scope, kinds=("message",), where=where)
            for remembered in self._memory.store.scan(selection):
                self.heard(message, remembered.id, scope)

    def get_all(
        self,
        *,
        type: PreferenceType | None = None,  # noqa: A002 - the field's own name
        **whose: str | None,
    ) -> tuple[Preference, ...]:
        """The preferences that hold now, newest first, at most `MOST`."""
        _require_type(type)
        found = (_preference(memory) for memory in self.current(scope_of(whose)))
        return tuple(p for p in found if type is None or p.type == type)

    def remove(self, preference_id: str, **whose: str | None) -> None:
        """Take one preference back; what it had replaced stays replaced."""
        scope = scope_of(whose)
        self._require(scope, preference_id)
        self._memory.store.delete(scope, [preference_id], at=self._memory.clock.now())

    def undo(self, preference_id: str, **whose: str | None) -> tuple[Preference, ...]:
        """Take one preference back and let what it had replaced hold again; gives those.

        If it was replaced itself, what holds now goes on holding and nothing is
        given: what it had replaced is then replaced by the newer one, and holds
        again when that is taken back.
        """
        scope = scope_of(whose)
        memory = self._require(scope, preference_id)
        back: list[Preference] = []
        for old in self._replaced_by(scope, preference_id):
            back += self._hold_again(scope, old.id, instead_of=memory)
        self._memory.store.delete(scope, [preference_id], at=self._memory.clock.now())
        return tuple(back)

    def clear(self, **whose: str | None) -> int:
        """Take every preference of this user back; gives how many there were."""
        scope = scope_of(whose)
        selection = Selection(reader=scope, kinds=("preference",), visibilities=("private",))
        return self._memory.store.delete_all(selection, at=self._memory.clock.now())

    # -- inside -----------------------------------------------------------------------

    def current(self, scope: Scope) -> tuple[Memory, ...]:
        """The memories behind `get_all`. Found by their source, so that it costs no scan."""
        found = self._memory.store.search_by_source_url(scope, PREFERENCES_URL)
        held = [
            m
            for m in found
            if m.kind == "preference" and m.superseded_by is None and RETRACTS not in m.metadata
        ]
        held.sort(key=lambda memory: (memory.created_at, memory.id), reverse=True)
        return tuple(held[:MOST])

    def _require(self, scope: Scope, preference_id: str) -> Memory:
        memory = self._memory.store.get(scope, require_text(preference_id, "preference_id"))
        if memory.kind != "preference":
            raise RecordNotFound(preference_id)
        return memory

    def _replaced_by(self, scope: Scope, preference_id: str) -> tuple[Memory, ...]:
        everything = Selection(
            reader=scope,
            source_url=PREFERENCES_URL,
            kinds=("preference",),
            superseded=True,
            forgotten=True,
        )
        found = self._memory.store.scan(everything)
        return tuple(memory for memory in found if memory.superseded_by == preference_id)

    def _hold_again(
        self, scope: Scope, old_id: str, *, instead_of: Memory
    ) -> tuple[Preference, ...]:
        """Let an old statement hold again, or be replaced by what replaced `instead_of`."""
        store = self._memory.store
        try:
            newer = instead_of.superseded_by and store.get(scope, instead_of.superseded_by)
            again = store.unsupersede(scope, old_id)
        except (RecordNotFound, InvalidInput):  # taken back, or made to hold by somebody else
            return ()
        if newer:
            self._end(scope, old_id, newer)
            return ()
        return (_preference(again),)

    def _keep(self, stated: Sequence[DetectedPreference], scope: Scope) -> tuple[Preference, ...]:
        """Keep what is new; one at a time, so that two threads do not both find it new."""
        if not stated:
            return ()
        with self._keeping:
            return self._keep_new(stated, scope)

    def _keep_new(
        self, stated: Sequence[DetectedPreference], scope: Scope
    ) -> tuple[Preference, ...]:
        """Keep what is new. What another process overtook is planned again as things are now."""
        from agentmem.core.preference_merge import KnownPreference, merge_preferences

        scope = Scope(user_id=scope.user_id)  # they hold in every project, agent and run
        kept: list[Preference] = []
        left = stated
        for tries in range(TRIES, 0, -1):
            # The last time it is added beside whatever is there; `_settle` sees to the rest.
            mine = self._own(scope) if tries > 1 else ()
            known = [KnownPreference(id=m.id, key=_key(m), content=m.text) for m in mine]
            plan = merge_preferences(known, left)
            kept += [self._add_one(new, scope) for new in plan.add]
            overtaken = []
            for change in plan.replace:
                try:
                    kept.append(self._replace_with(change.new, change.old_ids, scope))
                except (InvalidInput, RecordNotFound):  # replaced or taken back since it was read
                    overtaken.append(change.new)
            left = overtaken
            if not left:
                break
        if kept:
            self._settle(scope, {_key(preference.memory) for preference in kept})
        return tuple(kept)

    def _vectors(self, texts: Sequence[str]) -> NDArray[np.float32] | None:
        """MiniLM vectors for the models that read statements; none from another embedder."""
        import numpy as np

        from agentmem.embedding import ask_documents

        embedder = self._memory.embedding.wanted
        if embedder is None or embedder.id.name != "minilm":
            return None
        if not texts:
            return np.zeros((0, embedder.id.dimensions), dtype=np.float32)
        try:
            return ask_documents(embedder, texts)
        except EmbedderError:
            return None

    def _alike(self, retraction: Retraction, mine: Sequence[Memory]) -> tuple[str, ...]:
        """The statement that means nearly the same; in English only, elsewhere vectors misfire."""
        from agentmem.hearing import CHANGE

        texts = [retraction.text, *(memory.text for memory in mine)]
        if not mine or not all(map(str.isascii, texts)):
            return ()
        vectors = self._vectors(texts)
        if vectors is None:
            return ()
        near = vectors[1:] @ vectors[0]
        best = int(near.argmax())
        enough = ALIKE_CHANGED if retraction.slot == CHANGE else ALIKE
        return (mine[best].id,) if near[best] > enough else ()

    def _settled(self, heard: Heard, scope: Scope) -> Sequence[DetectedPreference]:
        """What was stated, with a corrected name known as one by what was said just before."""
        from agentmem.hearing import corrected_name, settled

        newest = self._own(Scope(user_id=scope.user_id))[:1]
        if not newest:
            return heard.stated
        said = newest[0].text
        if name := corrected_name(heard.text, said):
            return [name]
        return [settled(new, said) for new in heard.stated]

    def _take_back(
        self, retractions: Sequence[Retraction], scope: Scope
    ) -> Iterator[tuple[str, list[Preference]]]:
        """End what `retractions` speak of; gives the record of each and what it ended."""
        from agentmem.hearing import matching

        for retraction in retractions:
            with self._keeping:
                mine = self._own(scope)
                now = self._memory.clock.now()
                recent = sum(now - m.created_at <= RECENT for m in mine)
                meant = matching(retraction, [(m.id, m.text) for m in mine], recent=recent)
                meant = meant or self._alike(retraction, mine)
                if not meant:
                    continue
                maker = remembering.Maker(
                    scope=scope, visibility="private", now=now, new_ids=self._memory.ids.take
                )
                record = maker.memory(
                    retraction.text,
                    kind="preference",
                    source_url=PREFERENCES_URL,
                    origin="user",
                    importance=0.1,
                    metadata={"type": "custom", "key": "", RETRACTS: list(meant)},
                )
                self._memory.store.put([self._entry(record)])
                for old_id in meant:
                    self._end(scope, old_id, record)
            yield record.id, [_preference(m) for m in mine if m.id in meant]

    def _own(self, scope: Scope) -> tuple[Memory, ...]:
        """The user's own, private statements: a project's are not theirs to replace."""
        found = self.current(scope)
        return tuple(m for m in found if m.visibility == "private" and m.scope == scope)

    def _add_one(self, new: DetectedPreference, scope: Scope) -> Preference:
        """Keep a statement, or give the one of the same words that another process just kept."""
        store = self._memory.store
        made = self._made(new, (), scope)
        (there,) = store.put_new([self._entry(made)], same=_same_words)
        return _preference(made if there == made.id else store.get(scope, there))

    def _replace_with(
        self, new: DetectedPreference, old_ids: Sequence[str], scope: Scope
    ) -> Preference:
        """Keep a statement in the place of older ones; refused when the first is replaced."""
        store = self._memory.store
        made = self._made(new, old_ids, scope)
        made = store.supersede(scope, old_ids[0], self._entry(made), at=made.created_at)
        for old_id in old_ids[1:]:
            self._end(scope, old_id, made)
        return _preference(made)

    def _settle(self, scope: Scope, keys: Collection[str]) -> None:
        """Let the newest hold where two processes added a statement about one thing at once."""
        newest: dict[str, Memory] = {}
        for memory in self._own(scope):
            key = _key(memory)
            if key in keys and newest.setdefault(key, memory) is not memory:
                self._end(scope, memory.id, newest[key])

    def _end(self, scope: Scope, old_id: str, newer: Memory) -> None:
        """Let `newer` stand for an older statement, unless that was ended meanwhile."""
        with suppress(InvalidInput, RecordNotFound):
            self._memory.store.mark_superseded(scope, old_id, newer.id, at=newer.created_at)

    def _made(self, new: DetectedPreference, old_ids: Sequence[str], scope: Scope) -> Memory:
        memory = self._memory
        now = memory.clock.now()
        maker = remembering.Maker(
            scope=scope, visibility="private", now=now, new_ids=memory.ids.take
        )
        return maker.memory(
            new.content,
            kind="preference",
            source_url=PREFERENCES_URL,
            origin="user",
            importance=0.9,
            valid_from=now if old_ids else None,
            supersedes=old_ids[0] if old_ids else None,
            metadata=_metadata(new, old_ids),
        )

    def _entry(self, memory: Memory) -> Entry:
        (vector,) = self._memory.embedding.embed([memory])
        return prepare(memory, vector)


def _require_type(kind: PreferenceType | None) -> None:
    if kind is not None:
        from agentmem.core.preferences import PreferenceType

        require_choice(kind, get_args(PreferenceType), "type")


def _same_words(memory: Memory) -> tuple[str, str]:
    return memory.kind, memory.text


def _metadata(stated: DetectedPreference, old_ids: Sequence[str]) -> Mapping[str, Any]:
    from agentmem.core.preference_merge import subject_key

    fields: dict[str, Any] = {
        "type": stated.type,
        "key": subject_key(stated),
        "subject": stated.subject,
        "polarity": stated.polarity,
    }
    if stated.slot:
        fields["slot"] = stated.slot
    if old_ids:
        fields["replaced"] = list(old_ids)
    return fields


def _key(memory: Memory) -> str:
    """What a stored preference is about; one from elsewhere is read again."""
    key = memory.metadata.get("key")
    if isinstance(key, str) and key:
        return key
    from agentmem.core.preference_merge import subject_key

    return subject_key(_read(memory.text))


def _read(said: str) -> DetectedPreference:
    """One statement of a user, who means it as a preference however it is worded."""
    from agentmem.core.preferences import DetectedPreference, detect_preferences

    for worded in (said, _USED.compiled().sub("I prefer ", said), f"I prefer {said}"):
        found = detect_preferences(worded)
        if len(found) == 1:
            return found[0]
    return DetectedPreference(type="custom", content=said, subject=said)


def _preference(memory: Memory) -> Preference:
    from agentmem.core.preferences import Polarity, PreferenceType

    kind, polarity = memory.metadata.get("type"), memory.metadata.get("polarity")
    return Preference(
        id=memory.id,
        text=memory.text,
        type=cast(PreferenceType, kind) if kind in get_args(PreferenceType) else "custom",
        memory=memory,
        replaced=tuple(memory.metadata.get("replaced", ())),
        polarity=cast(Polarity, polarity) if polarity in get_args(Polarity) else "neutral",
    )
