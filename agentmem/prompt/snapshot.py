"""The trace of one built context: what was looked at, what went in, what was left out and why."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from datetime import datetime
from operator import attrgetter
from types import MappingProxyType
from typing import Any, Literal, get_args

from agentmem.base.errors import InvalidInput
from agentmem.base.types import EMPTY, Hit, Memory, Scope, quoted, served_text, utc
from agentmem.prompt.budget import ContentPackage, make_package
from agentmem.prompt.build import BuiltBlock, SourceFate
from agentmem.prompt.trim import ContextPlan
from agentmem.text.secrets import without_keys

Decision = Literal["kept", "cut", "dropped"]
Section = Literal["knowledge", "profile", "working", "history", "media", "other"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """One thing that was offered to a context. Scores are `None` where a leg did not see it.

    `rank` is its place in the fused order, from 1; `merit` the composite score that
    decides between equally relevant ones. `reason` is written for people.
    `text` is the whole text that was offered, also when less of it went in;
    `url` to `speaker` are what its citation shows, so that the fill can be
    replayed to the token. `fixed` says that no setting would have changed its
    fate: it is in the conversation already, say, or stands in the profile.
    """

    id: str
    section: Section
    decision: Decision
    reason: str
    kind: str = ""
    title: str = ""
    text: str = ""
    tokens: int = 0
    rank: int | None = None
    score: float | None = None
    merit: float | None = None
    lexical: float | None = None
    vector: float | None = None
    lexical_rank: int | None = None
    vector_rank: int | None = None
    boosts: Mapping[str, float] = field(default_factory=lambda: EMPTY)
    url: str = ""
    origin: str = ""
    retrieved: str = ""
    heading: str = ""
    speaker: str = ""
    fixed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """How much of the window one component took."""

    name: str
    tokens: int
    items: int


LATE_STEPS = frozenset({"count", "plan", "trace"})
"""Steps that nothing that is sent waits for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came back from the model, once it is known.

    `calls` counts the tool calls of the turn: `made`, `succeeded`, `corrected`
    (a failed one after which the same tool succeeded), results that were `kept`
    and stood in for, and of those the ones `read_back`.
    """

    answer: str = ""
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None
    duration_ms: float | None = None
    usage: Mapping[str, Any] = field(default_factory=lambda: EMPTY)
    error: str = ""
    calls: Mapping[str, int] = field(default_factory=lambda: EMPTY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Everything about one built context; `outcome` is added after the model's answer.

    `settings` are those the context was built with, so that the plan can be
    replayed with others. `message` is the reference message as it was sent.
    `knowledge_limit` is the most the knowledge section could have had whatever
    its budget (worked out from the parts where it is not said); `total_found`
    what "Showing X of Y" named as Y.
    """

    id: str
    message_id: str
    created_at: datetime
    scope: Scope
    model: str
    query: str
    window_tokens: int
    reserve_tokens: int
    estimated_tokens: int
    settings: Mapping[str, Any] = field(default_factory=lambda: EMPTY)
    parts: tuple[Part, ...] = ()
    looked_at: tuple[Looked, ...] = ()
    message: str = ""
    warnings: tuple[str, ...] = ()
    degradations: tuple[str, ...] = ()
    timings_ms: Mapping[str, float] = field(default_factory=lambda: EMPTY)
    cached: bool = False
    outcome: Outcome | None = None
    knowledge_limit: int | None = None
    total_found: int = 0

    def __repr__(self) -> str:
        return f"Snapshot({quoted(self.query)}, {len(self.kept)} kept, id={self.id!r})"

    @property
    def kept(self) -> tuple[Looked, ...]:
        """What went in, whole or cut."""
        return tuple(looked for looked in self.looked_at if looked.decision != "dropped")

    @property
    def build_ms(self) -> float:
        """How long the request waited for it; what was counted afterwards took nobody's time."""
        return sum(spent for name, spent in self.timings_ms.items() if name not in LATE_STEPS)

    @property
    def room_tokens(self) -> int:
        """What the prompt may have: the window without what is reserved for the answer."""
        return max(0, self.window_tokens - self.reserve_tokens)

    @property
    def usage(self) -> float | None:
        """The share of that room the prompt takes; `None` where there is no room."""
        return self.estimated_tokens / self.room_tokens if self.room_tokens else None

    @property
    def estimate_error(self) -> float | None:
        """How far the estimate was off what the provider counted, as a share of it."""
        actual = self.outcome.prompt_tokens if self.outcome else None
        return (self.estimated_tokens - actual) / actual if actual else None


# ----------------------------------------------------------------------------
# The trace of a built context: what was looked at, and where the tokens went.


def packages_of(built: BuiltBlock) -> list[ContentPackage]:
    """The reference message as fixed packages, one for each thing it shows and one for its frame.

    It was cut to its own budget already; together they cost what it costs.
    """
    if built.text is None:
        return []
    sections = (
        ("", built.knowledge.fates),
        ("preference", built.profile),
        ("tool-result", built.pointers),
    )
    shown = [
        make_package(kind or fate.type, id=fate.id, tokens=fate.tokens, can_drop=False)
        for kind, fates in sections
        for fate in fates
        if fate.outcome != "dropped"
    ]
    frame = built.tokens - sum(package.tokens for package in shown)
    return [*shown, make_package("overhead", id="reference", tokens=max(0, frame))]


def parts_of_request(plan: ContextPlan | None) -> tuple[Part, ...]:
    """The components that the request is made of."""
    if plan is None:
        return ()
    return tuple(
        Part(name=use.name, tokens=use.tokens, items=use.items)
        for use in plan.budget.components
        if use.items
    )


def looked_at_knowledge(
    hits: Sequence[Hit],
    passed_over: Sequence[tuple[Hit, str]],
    built: BuiltBlock,
    *,
    factors: Mapping[str, float] = EMPTY,
    reasons: Mapping[str, str] = EMPTY,
    merits: Mapping[str, float] = EMPTY,
) -> list[Looked]:
    """What was found, with its scores and fate; tool results that are pointed to are `working`.

    `reasons` say why something was offered that no search found.
    """
    passed_by = {hit.memory.id: reason for hit, reason in passed_over}
    fates = {fate.id: fate for fate in (*built.knowledge.fates, *built.pointers)}
    pointers = {fate.id for fate in built.pointers}
    looked = []
    for rank, hit in enumerate(hits, start=1):
        memory = hit.memory
        fate = fates.get(memory.id, _NO_ROOM)
        passed = passed_by.get(memory.id, "")
        offered = f"{reasons[memory.id]}; " if memory.id in reasons else ""
        factor = factors.get(memory.id, 1.0)
        looked.append(
            looked_at(
                memory,
                fate,
                section="working" if memory.id in pointers else "knowledge",
                reason=passed or offered + fate.reason,
                text=served_text(memory),
                rank=rank,
                score=hit.score,
                merit=merits.get(memory.id),
                lexical=hit.lexical,
                vector=hit.vector,
                lexical_rank=hit.lexical_rank,
                vector_rank=hit.vector_rank,
                # What being cited or passed over does to the score, as a part of it.
                boosts=EMPTY if factor == 1.0 else {"use": factor - 1.0},
                fixed=bool(passed) and not passed.startswith(("below", "over")),
            )
        )
    return looked


def looked_at_profile(
    profile: Sequence[Memory], built: BuiltBlock, *, heard: Collection[str] = ()
) -> list[Looked]:
    """The preferences that were offered, and which of them had room; `heard` came just now."""
    fates = (*built.profile, *[_NO_ROOM] * len(profile))
    return [
        looked_at(
            memory,
            fate,
            section="profile",
            reason=f"{fate.reason}; heard in this turn" if memory.id in heard else fate.reason,
            text=memory.text,
        )
        for memory, fate in zip(profile, fates, strict=False)
    ]


_NO_ROOM = SourceFate(id="", outcome="dropped", reason="no room for a block")


def looked_at(memory: Memory, fate: SourceFate, **more: Any) -> Looked:
    """The trace of a memory that was offered; `more` are the other fields of `Looked`."""
    return Looked(
        id=memory.id,
        decision="kept" if fate.outcome == "included" else fate.outcome,
        tokens=fate.tokens,
        kind=memory.kind,
        title=memory.title,
        url=memory.source_url,
        origin=memory.origin,
        retrieved=utc(memory.created_at).date().isoformat(),
        heading=" › ".join(memory.heading_path),
        speaker=memory.speaker,
        **more,
    )


def looked_at_messages(plan: ContextPlan | None) -> list[Looked]:
    """The messages and media that had to stay behind."""
    if plan is None:
        return []
    return [
        Looked(
            id=fate.package.id,
            section="media" if fate.package.type.startswith("media-") else "history",
            decision="dropped",
            reason=fate.reason,
            kind=fate.package.type,
            tokens=fate.package.tokens,
        )
        for fate in plan.report.dropped
    ]


# ----------------------------------------------------------------------------
# Snapshots as JSON values, and packed for keeping: texts that repeat stand apart, by hash.
#
# Writing never fails: a number that is not finite becomes `None`, a letter that
# is not Unicode text becomes a question mark, a setting that is not JSON its
# text. For everything else reading gives back what was written (N1).


VERSION = 1
TEXT_PREFIX = "text:"
MESSAGE_PREFIX = "message:"
SAID_PREFIX = "said:"
ERASED_TEXT = "(erased)"
_SHARED_CHARACTERS = 1_000
"""Shorter texts cost more to share than to repeat: compressed with the others of its snapshot one
takes tens of bytes, and a row of its own hundreds and a millisecond for forty."""
_DEEPEST = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedText:
    """A text that snapshots point to by `id`; `memory_id` is whose text it is."""

    id: str
    memory_id: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed:
    """A snapshot as it is kept. `mentions` names memories, shared texts and the message.

    What was said in its turn is added to them by `said_mention` once it is remembered.
    """

    data: Mapping[str, Any]
    mentions: tuple[str, ...]
    shared: tuple[SharedText, ...]


def to_fields(snapshot: Snapshot) -> dict[str, Any]:
    """`snapshot` as JSON values, every field; never raises for a Snapshot."""
    return {"version": VERSION, **_fields_of(snapshot)}


def from_fields(written: Mapping[str, Any]) -> Snapshot:
    """The snapshot `to_fields` wrote; fields of a newer version are left out, bad ones refused."""
    try:
        values = _known(Snapshot, written)
        for name in ("settings", "timings_ms"):
            values[name] = _frozen(values.get(name))
        for name in ("warnings", "degradations"):
            values[name] = tuple(map(str, values.get(name) or ()))
        created_at = datetime.fromisoformat(written["created_at"])
        if created_at.utcoffset() is None:
            raise ValueError("created_at has no time zone")
        outcome = written.get("outcome")
        made = {
            "created_at": created_at,
            "scope": Scope(**(written.get("scope") or {})),
            "parts": tuple(Part(**_known(Part, part)) for part in written.get("parts") or ()),
            "looked_at": tuple(map(_looked, written.get("looked_at") or ())),
            "outcome": None if outcome is None else outcome_from_fields(outcome),
        }
        return Snapshot(**(values | made))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput("snapshot", str(error), "cannot be read") from None


def outcome_to_fields(outcome: Outcome) -> dict[str, Any]:
    """`outcome` as JSON values."""
    return _fields_of(outcome)


def outcome_from_fields(written: Mapping[str, Any]) -> Outcome:
    """The outcome `outcome_to_fields` wrote."""
    values = _known(Outcome, written)
    frozen = {name: _frozen(values.get(name)) for name in ("usage", "calls")}
    return Outcome(**(values | frozen))


def pack(snapshot: Snapshot) -> Packed:
    """`snapshot` with its longer memory texts taken out, to be kept once for all snapshots.

    A shared text belongs to one user and one memory, so that it is erased with
    either and never shown to anybody else.
    """
    data = {"version": VERSION, **_fields_of(snapshot, sparse=True)}
    shared: dict[str, SharedText] = {}
    looked_at = data.get("looked_at", ())
    for looked in looked_at:
        text = looked.get("text", "")
        if len(text) < _SHARED_CHARACTERS:
            continue
        key = _text_id(data["scope"].get("user_id"), looked["id"], text)
        shared[key] = SharedText(id=key, memory_id=looked["id"], text=text)
        del looked["text"]
        looked["text_id"] = key
    ids = dict.fromkeys(looked["id"] for looked in looked_at)
    message = [MESSAGE_PREFIX + data["message_id"]] if data["message_id"] else []
    return Packed(data=data, mentions=(*ids, *shared, *message), shared=tuple(shared.values()))


def said_mention(memory_id: str) -> str:
    """How the trace of a turn names a memory of what was said in it."""
    return SAID_PREFIX + memory_id


def unpack(data: Mapping[str, Any], texts: Mapping[str, str]) -> Snapshot:
    """The snapshot that was packed; a shared text that is gone reads `(erased)`."""
    try:
        looked_at = [
            {**looked, "text": texts.get(looked["text_id"], ERASED_TEXT)}
            if "text_id" in looked
            else looked
            for looked in data.get("looked_at") or ()
        ]
    except (KeyError, TypeError) as error:
        raise InvalidInput("snapshot", str(error), "cannot be read") from None
    return from_fields({**data, "looked_at": looked_at})


def text_ids(data: Mapping[str, Any]) -> tuple[str, ...]:
    """The shared texts a packed snapshot points to."""
    looked_at = data.get("looked_at") or ()
    return tuple(dict.fromkeys(looked["text_id"] for looked in looked_at if "text_id" in looked))


def without_texts_of(snapshot: Snapshot, erased: frozenset[str]) -> Snapshot:
    """`snapshot` as it may be kept after these memories were erased: nothing that quotes them."""
    if not any(looked.id in erased for looked in snapshot.looked_at):
        return snapshot
    outcome = snapshot.outcome
    return replace(
        snapshot,
        query=ERASED_TEXT,
        message=ERASED_TEXT,
        looked_at=tuple(looked for looked in snapshot.looked_at if looked.id not in erased),
        warnings=(*snapshot.warnings, "a memory was erased before this was written"),
        outcome=None if outcome is None else replace(outcome, answer=ERASED_TEXT),
    )


def without_keys_of(snapshot: Snapshot) -> Snapshot:
    """`snapshot` as it may be kept: what went wrong without the keys that providers repeat."""
    told = {
        name: tuple(map(without_keys, getattr(snapshot, name)))
        for name in ("warnings", "degradations")
    }
    outcome = snapshot.outcome
    kept = None if outcome is None else replace(outcome, error=without_keys(outcome.error))
    return replace(snapshot, **told, outcome=kept)  # type: ignore[arg-type]  # both are texts


_FIELDS: dict[type, tuple[tuple[str, Any], ...]] = {
    kind: tuple(
        (one.name, EMPTY if one.default_factory is not MISSING else one.default)
        for one in fields(kind)
    )
    for kind in (Snapshot, Scope, Part, Looked, Outcome)
}
"""The names and the defaults of what a snapshot is made of."""
_VALUES = {kind: attrgetter(*(name for name, _ in named)) for kind, named in _FIELDS.items()}


def _fields_of(value: Any, *, sparse: bool = False) -> dict[str, Any]:
    """The fields of a value as JSON has them; a `sparse` one leaves out what is as by default."""
    kind = type(value)
    found: dict[str, Any] = {}
    for (name, default), given in zip(_FIELDS[kind], _VALUES[kind](value), strict=True):
        if sparse and (given is default or given == default):
            continue
        sort = type(given)
        if sort is str:  # nearly all are plain texts and numbers
            plain = given.isascii()
        else:
            plain = sort is int or (sort is float and math.isfinite(given))
        found[name] = given if plain else _plain(given, sparse=sparse)
    return found


def _known(kind: type, written: Mapping[str, Any]) -> dict[str, Any]:
    return {name: written[name] for name, _ in _FIELDS[kind] if name in written}


def _looked(written: Mapping[str, Any]) -> Looked:
    values = _known(Looked, written)
    if values["section"] not in get_args(Section) or values["decision"] not in get_args(Decision):
        raise ValueError("an unknown section or decision")
    return Looked(**(values | {"boosts": _frozen(values.get("boosts"))}))


def _plain(value: Any, depth: int = 0, *, sparse: bool = False) -> Any:
    """`value` as JSON has it, whatever it is."""
    kind = type(value)
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode("utf-8")
    if value is None or isinstance(value, int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if kind in _FIELDS:
        return _fields_of(value, sparse=sparse)
    if isinstance(value, datetime):
        return utc(value).isoformat()
    if depth > _DEEPEST:
        return "…"
    if isinstance(value, Mapping):
        return {
            _plain(key if isinstance(key, str) else str(key)): _plain(item, depth + 1)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item, depth + 1, sparse=sparse) for item in value]
    return _plain(str(value))


def _frozen(value: Mapping[str, Any] | None) -> Mapping[str, Any]:
    return MappingProxyType(dict(value)) if value else EMPTY


def _text_id(user_id: str | None, memory_id: str, text: str) -> str:
    written = json.dumps([user_id, memory_id, text]).encode("ascii")
    return TEXT_PREFIX + hashlib.blake2b(written, digest_size=16).hexdigest()
