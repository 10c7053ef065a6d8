"""Learn facts, decisions and fixes from what a user says, each with where it came from.

read what was said ─▶ rules, and a model if there is one ─▶ core plans ─▶ one transaction + journal

Only the user's own words are learned from; what an assistant, a tool or a page
says teaches nothing. A later value for the same key takes the earlier one's
place, and its history stays (P38).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

from agentmem.base.checks import require_count, require_text
from agentmem.base.errors import ChangedMeanwhile, InvalidInput, RecordNotFound
from agentmem.base.filters import Compare, Selection
from agentmem.base.protocols import TokenCounter
from agentmem.base.telemetry import span
from agentmem.base.types import Memory, Scope, content_hash
from agentmem.data import read_text
from agentmem.living.consolidate import plan_again
from agentmem.living.facts import (
    MAX_CHARACTERS,
    RECORD,
    Extracted,
    Fact,
    P,
    Record,
    StatedEpisode,
    W,
    clauses_of,
    episode_of,
    extract,
    fact_key,
    is_asserted,
    is_question,
    key_words,
    normal_word,
    own_words,
    scope_of_clause,
    statements,
    to_memory_fields,
)
from agentmem.living.levels import has_word, read_essentials
from agentmem.living.models import Asker, Model, Spend, find_json, json_format, strict_object
from agentmem.living.plans import key_of, start_of
from agentmem.living.settle import already_said, held_at, in_order, insert_fact
from agentmem.prompt.strip import strip
from agentmem.search.intake import Maker, from_messages, prepare_all
from agentmem.search.parts import judge_later
from agentmem.stores.journal import Relation, Revision
from agentmem.stores.values import LEARNED_FROM, Link
from agentmem.text.messages import text_of
from agentmem.text.regions import Span, cover
from agentmem.text.secrets import holds_secret, secret_spans
from agentmem.text.sentences import sentences

if TYPE_CHECKING:
    from agentmem.living.preferences import Profiled


# ----------------------------------------------------------------------------
# What learning is to change, as one plan: new memories, those whose place they take, links.
#
# The plan is made over memories as they were read; applying it is one step, and
# so is taking it back. Planning again over what was applied gives nothing (G5).


NewMemory = tuple[Memory, str]
"""A memory that may be added, and the id of the message that said it, if one is kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LearningPlan:
    """What is to be written, all of it together.

    `added` are as they are to be stored, later ones of the same plan counted
    in; `before` and `after` are memories that are there, as read and as they
    are to be. `superseded` are the ids whose place was taken, `known` counts
    what adds nothing; `restated` are the messages that say it once more.
    """

    added: tuple[Memory, ...] = ()
    before: tuple[Memory, ...] = ()
    after: tuple[Memory, ...] = ()
    links: tuple[Link, ...] = ()
    restated: tuple[Link, ...] = ()
    superseded: tuple[str, ...] = ()
    known: int = 0


def plan_learning(candidates: Sequence[NewMemory], there: Iterable[Memory]) -> LearningPlan:
    """How `candidates`, in the order they were said, find their place among what is `there`.

    A fact goes into the timeline of its key (P38); of several values of a key
    that were said at one moment the last one counts. An episode that is there
    in the same words adds nothing. `there` must hold the facts of the
    candidates' keys and the memories with their content.
    """
    read = {one.id: one for one in there}
    state = dict(read)
    alike: defaultdict[Hashable, list[str]] = defaultdict(list)
    for one in read.values():
        if not (key_of(one) and is_merged(one)):
            alike[_place_of(one)].append(one.id)
    added: dict[str, None] = {}
    superseded: list[str] = []
    links: dict[tuple[str, str], Link] = {}
    known = 0
    for made, source in _last_of_a_moment(candidates):
        near = alike[_place_of(made)]
        beside = [state[one] for one in near]
        if key_of(made):
            placed, said = insert_fact(beside, made), already_said(beside, made)
        else:
            placed, said = ([made], None) if not beside else (None, beside[-1])
        if placed is None:
            known += 1
        else:
            near.append(made.id)
            state |= {one.id: one for one in placed}
            superseded += filter(None, [placed[0].supersedes])
            added[made.id], said = None, made
        if said is not None and source:
            links[said.id, source] = Link(
                first_id=said.id,
                second_id=source,
                relation=LEARNED_FROM,
                created_at=said.created_at,
            )
    changed = [one for one in read.values() if state[one.id] != one]
    return LearningPlan(
        added=tuple(state[one] for one in added),
        before=tuple(changed),
        after=tuple(state[one.id] for one in changed),
        links=tuple(link for link in links.values() if link.first_id in added),
        restated=tuple(link for link in links.values() if link.first_id not in added),
        superseded=tuple(superseded),
        known=known,
    )


def is_merged(memory: Memory) -> bool:
    """Whether another memory says the same and stands for it; such a one has no time of its own."""
    return memory.superseded_by is not None and memory.valid_to is None


def _last_of_a_moment(candidates: Sequence[NewMemory]) -> list[NewMemory]:
    """Without values that were corrected in the same breath, which held for no time at all."""
    last = {(key, start_of(one)): one.id for one, _ in candidates if (key := key_of(one))}
    standing = set(last.values())
    return [(one, source) for one, source in candidates if not key_of(one) or one.id in standing]


def _place_of(memory: Memory) -> Hashable:
    """What the facts of one timeline have in common, and other records that say the same."""
    if key := key_of(memory):
        return memory.kind, key, memory.scope, memory.visibility, memory.origin
    return memory.kind, memory.content_hash, memory.scope


# ----------------------------------------------------------------------------
# What a model is asked when it is to find facts, decisions and fixes, and how it is read.
#
# What comes back are proposals, nothing more: `grounding` decides which of them
# the text says.


Sort = Literal["fact", "decision", "error"]
MOST_PROPOSALS = 200
"""Of one reply; who proposes more is not reading."""
UNSAID_CONFIDENCE = 0.7

_TEXTS = ("evidence", "key", "value", "reason", "fix")
_RECORD = strict_object(
    sort={"type": "string", "enum": list(get_args(Sort))},
    turn={"type": "integer"},
    **{name: {"type": "string"} for name in _TEXTS},
    ended={"type": "boolean"},
    confidence={"type": "number"},
)
RECORDS_FORMAT = json_format("records", strict_object(records={"type": "array", "items": _RECORD}))


class Proposal(NamedTuple):
    """A record as a model proposed it; what it left out is empty."""

    sort: str
    value: str
    key: str = ""
    reason: str = ""
    fix: str = ""
    evidence: str = ""
    turn: int = 0
    ended: bool = False
    confidence: float = UNSAID_CONFIDENCE


def read_proposals(reply: str) -> tuple[Proposal, ...] | None:
    """The proposals in a reply, or None when it is no answer; never raises (L12)."""
    found = find_json(reply, lambda value: _items(value) is not None)
    items = None if found is None else _items(found)
    if items is None:
        return None
    return tuple(_proposal(item, sort) for item, sort in items[:MOST_PROPOSALS])


def _items(found: Any) -> list[tuple[Mapping[str, Any], str]] | None:
    """The records in a value, each with the sort its list is named by; None if it is no answer."""
    if isinstance(found, Mapping) and "value" not in found:
        named = ((found.get(f"{sort}s"), sort) for sort in ("record", *get_args(Sort)))
        lists = [(listed, sort) for listed, sort in named if isinstance(listed, list)]
        told = [(item, sort) for listed, sort in lists for item in listed]
        return [one for one in told if isinstance(one[0], Mapping)] if lists else None
    items = found if isinstance(found, list) else [found]
    records = all(isinstance(item, Mapping) and "value" in item for item in items)
    return [(item, "") for item in items] if items and records else None


def _proposal(item: Mapping[str, Any], sort: str) -> Proposal:
    sure = item.get("confidence")
    return Proposal(
        sort=_text(item.get("sort")).lower() or sort,
        turn=int(_number(item.get("turn"), 0)),
        ended=str(item.get("ended")).strip().lower() == "true",
        confidence=UNSAID_CONFIDENCE if sure in (None, "") else _number(sure, -1),
        **{name: _text(item.get(name)) for name in _TEXTS},
    )


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value.strip()
    return repr(value) if isinstance(value, int | float) and abs(value) < 1e300 else ""


def _number(value: Any, otherwise: float) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return otherwise
    return number if abs(number) < 1e9 else otherwise


# ----------------------------------------------------------------------------
# Which of a model's proposals a text says: each word of a record is quoted from a sentence of it.
#
# A model may find what no rule does; it is not believed. Key, value, reason and
# fix must stand in the user's own words, word for word, in a sentence that
# asserts them, and what is denied there is not turned into its opposite (L11).


Statement = Fact | StatedEpisode

LEAST_CONFIDENCE = 0.5
"""A model that is less sure than this is guessing."""
LONGEST_KEY = 60
LONGEST_VALUE = 160
LONGEST_QUOTE = 400
MOST_SENTENCES = 3
SENTENCES_BEFORE = 2

_FLAGS = re.IGNORECASE
_COMMON = frozenset(map(normal_word, W.unsaid_attributes))
"""Words that may name an attribute though nobody said them: "Ana lives in Rome" is a location."""
_MARKS = " \t\r\n\"'“”‘’`…"


class Grounded(NamedTuple):
    """A proposal that a turn says, as the rules would have found it."""

    turn: int
    found: Statement


class GroundTurn:
    """One text to ground in: the user's own words in it, without secrets, at their places."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.own = readable(text)
        self.spans = list(statements(self.own))

    def words_up_to(self, span: Span) -> frozenset[str]:
        """The normal words of these sentences and of those right before, which "it" may mean."""
        before = [start for start, _ in self.spans if start < span[0]][-SENTENCES_BEFORE:]
        return frozenset(key_words(self.own[min((*before, span[0])) : span[1]]))


def readable(text: str) -> str:
    """`text` of the same length without code blocks, quotations, markup and secrets."""
    own = own_words(text)
    hidden = list(secret_spans(own))
    return cover(own, hidden, " ") if hidden else own


def ground(proposal: Proposal, turns: Sequence[GroundTurn]) -> Grounded | str:
    """The record that one of `turns` states for `proposal`, or why none does.

    The turn that it names is asked first.
    """
    problem = _malformed(proposal)
    if problem:
        return problem
    order = list(range(len(turns)))
    if 1 <= proposal.turn <= len(turns):
        order.insert(0, order.pop(proposal.turn - 1))
    reason = "is not in the text"
    for number in order:
        turn = turns[number]
        for place in _evidence(proposal, turn):
            found = _stated(proposal, turn, place)
            if isinstance(found, str):
                reason = found
            else:
                return Grounded(turn=number, found=found)
    return reason


def merge_found(rules: Extracted, proposed: Sequence[Statement]) -> Extracted:
    """What the rules found, with what only a model did; where both found it, the rules' stands."""
    facts, episodes = list(rules.facts), list(rules.episodes)
    for one in proposed:
        if isinstance(one, Fact):
            facts += [] if any(_same_fact(one, fact) for fact in facts) else [one]
        elif not any(other.sort == one.sort and _overlap(one, other) for other in episodes):
            episodes.append(one)
    facts.sort(key=lambda one: one.start)
    episodes.sort(key=lambda one: one.start)
    return Extracted(facts=tuple(facts), episodes=tuple(episodes))


def _malformed(proposal: Proposal) -> str:
    if proposal.sort not in ("fact", "decision", "error"):
        return "is of no known sort"
    if not 0 <= proposal.confidence <= 1:  # so is a confidence that is not a number
        return "has a confidence that is not between 0 and 1"
    if proposal.confidence < LEAST_CONFIDENCE:
        return "is not sure enough"
    longest = LONGEST_VALUE if proposal.sort == "fact" else LONGEST_QUOTE
    if not proposal.value or len(proposal.value) > longest:
        return "has no value, or a whole story for one"
    if proposal.sort == "error" and not proposal.fix:
        return "has no fix"
    if max(len(proposal.reason), len(proposal.fix), len(proposal.evidence) // 4) > LONGEST_QUOTE:
        return "is too long"
    if proposal.sort == "fact" and not 0 < len(fact_key(proposal.key)) <= LONGEST_KEY:
        return "has no key, or a whole story for one"
    return ""


def _evidence(proposal: Proposal, turn: GroundTurn) -> Iterator[Span]:
    """The sentences that a proposal quotes, or without a quote, the one its value stands in."""
    places = list(_places(proposal.evidence or proposal.value, turn.own))
    if not proposal.evidence and len(places) > 1:
        return
    for start, end in places:
        met = [span for span in turn.spans if span[0] < end and start < span[1]]
        if met and len(met) <= MOST_SENTENCES:
            yield met[0][0], met[-1][1]


def _stated(proposal: Proposal, turn: GroundTurn, span: Span) -> Statement | str:
    """The record in these sentences, or why they do not state it."""
    start, end = span
    said = turn.own[start:end]
    sentences = [turn.own[slice(*one)] for one in turn.spans if start <= one[0] < end]
    if any(map(is_question, sentences)):
        return "is a question"
    try:
        value = _quoted(proposal.value, said, ended=proposal.ended and proposal.sort == "fact")
        if proposal.sort == "fact":
            return _fact(proposal, value, turn, span, sentences)
        if proposal.sort == "error":
            fix = _quoted(proposal.fix, said)
            return episode_of(turn.own, span, value, error=value, fix=fix)
        reason = _quoted(proposal.reason, said) if proposal.reason else ""
    except _Unsaid as unsaid:
        return str(unsaid)
    return episode_of(turn.own, span, value, reason=reason)


def _fact(
    proposal: Proposal, value: str, turn: GroundTurn, span: Span, sentences: Sequence[str]
) -> Fact | str:
    if not all(map(is_asserted, sentences)):
        return "is not asserted"
    key = fact_key(proposal.key)
    near = turn.words_up_to(span)
    if not all(word in near or word in _COMMON for word in key.split()):
        return "has a key that is not in the text"
    if proposal.ended and not any(map(P.ending.search, sentences)):
        return "is not said to have ended"
    start, end = span
    return Fact(
        key=key,
        value=value,
        text=turn.text[start:end],
        confidence=round(proposal.confidence, 4),
        start=start,
        end=end,
        ended=proposal.ended,
        scope=scope_of_clause(turn.own[start:end]),
    )


class _Unsaid(Exception):
    """A quote that the text does not say; the message is why."""


def _quoted(quote: str, said: str, *, ended: bool = False) -> str:
    """`quote` as it stands in `said`."""
    places = list(_places(quote, said))
    if not places:
        raise _Unsaid("is not in the text")
    if not ended and any(_denied(said, place) for place in places):
        raise _Unsaid("is denied in the text")
    found = " ".join(said[slice(*places[0])].split())
    quoted, whole = read_essentials(found), read_essentials(said)
    if not quoted.numbers <= whole.numbers:
        raise _Unsaid("has a number that is not in the text")
    if not all(has_word(whole, name) for name in quoted.names):
        raise _Unsaid("has a name that is not in the text")
    return found


def _places(quote: str, text: str) -> Iterator[Span]:
    """Where `quote` stands in `text`, as whole words, whatever its spaces, case and marks."""
    words = _tidy(quote).split()
    if not words:
        return
    # Not within a word or a number: the 5 of "15", "1.5" or "-5" is none, nor that of "5%".
    before = r"(?<![\w+#])(?<!\w[.,:/@'’-])"
    if words[0][0].isdigit():
        before += r"(?<![\-−–$€£])"
    after = r"(?![\w+#])(?![.,:/@-]\w)(?!\s?[%‰])"
    pattern = r"\s+".join(map(re.escape, words))
    for match in re.finditer(before + pattern + after, text, _FLAGS):
        yield match.span()


def _tidy(quote: str) -> str:
    """A quote without the marks that were set around it."""
    return " ".join(quote.replace("`", " ").strip(_MARKS).rstrip(".,;:").split())


def _denied(said: str, place: Span) -> bool:
    """Whether the clause around `place` denies what stands there, or turns it down."""
    start, end = _clause(said, place)
    before, after = said[start : place[0]], said[place[1] : end]
    before = P.answered.sub("", before)
    after = P.contrast.sub("", after)
    if any(said.search(part) for said in (P.denial, P.ending) for part in (before, after)):
        return True
    if P.turned_down.search(before):
        return True
    return P.left_for.search(before) is not None and P.for_what.match(after) is not None


def _clause(said: str, place: Span) -> Span:
    """From where to where the clause or clauses around `place` go; "because" begins one."""
    first, last = place
    met = False
    for begin, end in statements(said):
        for start, stop in clauses_of(said[begin:end]):
            cuts = list(P.because_within.finditer(said, begin + start, begin + stop))
            starts = [begin + start, *(cut.end() for cut in cuts)]
            stops = [*(cut.start() for cut in cuts), begin + stop]
            for one, other in zip(starts, stops, strict=True):
                if one < place[1] and place[0] < other:
                    first, last, met = min(first, one), max(last, other), True
    return (first, last) if met else (0, len(said))


def _same_fact(one: Fact, other: Fact) -> bool:
    said, known = (" ".join(fact.value.casefold().split()) for fact in (one, other))
    if one.key == other.key and (said == known or _overlap(one, other)):
        return True
    return _overlap(one, other) and (said in known or known in said)


def _overlap(one: Statement, other: Statement) -> bool:
    return one.start < other.end and other.start < one.end


LEARN = "learn"
HEARD = "heard"
"""In the report of a run: the ids of what it wrote to the profile."""
IMPORTANCE = 0.8
COUNTED_FOR = "gpt-4o"
"""Whose tokens are counted to know what a model was asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """What was learned: new memories, those whose place they took, and what was known already.

    `journal_id` is what `undo` takes; it is empty when nothing was changed. `heard` are the
    ids of what the same words said for the profile, and of what they took back there.
    `rejected` counts what a model proposed and the text does not say;
    `model_calls` and `model_tokens` say what a model was asked, and `notes`
    what was left to the rules, or out.
    """

    added: tuple[Memory, ...] = ()
    superseded: tuple[str, ...] = ()
    heard: tuple[str, ...] = ()
    known: int = 0
    rejected: int = 0
    model_calls: int = 0
    model_tokens: int = 0
    notes: tuple[str, ...] = ()
    journal_id: str = ""
    dry_run: bool = False

    def __len__(self) -> int:
        return len(self.added)

    def to_dict(self) -> dict[str, Any]:
        """The same as JSON values; of each new memory what it says and what it is."""
        plain = {name: getattr(self, name) for name in self.__dataclass_fields__}
        names = ("id", "kind", "title", "text", "supersedes")
        added = [
            {n: getattr(one, n) for n in names} | {"record": dict(one.metadata.get(RECORD) or {})}
            for one in self.added
        ]
        listed = {name: list(plain[name]) for name in ("superseded", "heard", "notes")}
        return {**plain, "added": added, **listed}


class Said(NamedTuple):
    """A text of the user's, when it was said, and the memory that keeps it, if one does."""

    text: str
    at: datetime
    source_id: str = ""


class Learner:
    """Learns for one memory."""

    def __init__(self, memory: Profiled) -> None:
        self._memory = memory

    def learn(
        self,
        scope: Scope,
        said: Sequence[Said],
        *,
        model: Model | None = None,
        spend: Spend | None = None,
        dry_run: bool = False,
        listen: bool = True,
    ) -> Learned:
        """Keep what these texts state, in the order they were said, all of it in one step.

        What users say about themselves reaches their profile unless `listen` is off.
        When somebody else writes meanwhile, it is planned anew; a model is
        not asked again. What is new is compared with what it may contradict, in the
        background. A dry run changes nothing and says what would be learned.
        """
        ordered = sorted(said, key=lambda s: s.at)
        stated, report = self._find(ordered, model, spend)
        heard = self._listen(scope, ordered) if listen and not dry_run else ()
        report = replace(report, dry_run=dry_run, heard=heard)
        try:
            learned = plan_again(lambda: self._once(scope, stated, report), "what to learn")
        except ChangedMeanwhile:
            take_back(self._memory, scope, heard)
            raise
        if learned.journal_id:
            judge_later(self._memory, scope)
        return learned

    def _listen(self, scope: Scope, said: Sequence[Said]) -> tuple[str, ...]:
        """Let what users say about themselves reach their profile (P45); what that wrote."""
        if scope.user_id is None:
            return ()
        own: list[dict[str, Any]] = [{"role": "user", "content": one.text} for one in said]
        heard = self._memory.preferences.listen(
            own, user_id=scope.user_id, project_id=scope.project_id
        )
        return (*heard.undone_by, *(one.id for one in heard.kept))

    def _find(
        self, said: Sequence[Said], model: Model | None, spend: Spend | None
    ) -> tuple[list[tuple[Said, Record]], Learned]:
        """What each text states, by rules and a model, and what is to be said of that."""
        texts = [one.text for one in said]
        found: Sequence[Extracted] = [extract(text) for text in texts]
        report, notes = Learned(), tuple[str, ...]()
        if beyond := sum(max(0, len(text) - MAX_CHARACTERS) for text in texts):
            notes = (f"{beyond:,} characters at the end of long texts were not read",)
        if model is not None:
            from agentmem.tokens.counter import tokenizer_for

            count, limit = tokenizer_for(COUNTED_FOR), spend or Spend()
            asker = Asker(model, spend=limit, count=count)
            found, refused = find_more(texts, found, asker, count=count, tokens=limit.tokens)
            report = Learned(rejected=refused, model_calls=asker.calls, model_tokens=asker.tokens)
            notes = (*notes, *asker.notes)
        kept = [records_of(one) for one in found]
        if hidden := sum(count for _, count in kept):
            notes = (*notes, f"{hidden} statements with a key or a password were not learned")
        stated = [
            (one, record)
            for one, (records, _) in zip(said, kept, strict=True)
            for record in records
        ]
        return stated, replace(report, notes=notes)

    def _once(
        self, scope: Scope, stated: Sequence[tuple[Said, Record]], report: Learned
    ) -> Learned:
        memory, store = self._memory, self._memory.store
        plan = self._plan(scope, stated)
        learned = replace(report, added=plan.added, superseded=plan.superseded, known=plan.known)
        if report.dry_run:
            return learned
        if report.heard or plan.added:
            counts = {
                "added": len(plan.added), "superseded": len(plan.superseded), "known": plan.known,
            }  # fmt: skip
            with span("create_memory", store_id=memory.telemetry_id) as told:
                revision = Revision(
                    id=memory.ids.new(),
                    kind=LEARN,
                    before=plan.before,
                    after=plan.after,
                    added=tuple(prepare_all(plan.added, memory.embedding.embed(plan.added))),
                    relations=tuple(Relation(family="link", link=link) for link in plan.links),
                    report={**counts, **({HEARD: list(report.heard)} if report.heard else {})},
                )
                journal_id = store.journal.apply(scope, revision, at=memory.clock.now()).id
                told.found(len(plan.added))
            added = store.get_many(scope, [one.id for one in plan.added])
            learned = replace(learned, added=added, journal_id=journal_id)
        for link in plan.restated:
            with suppress(RecordNotFound):  # erased meanwhile
                store.links.put(scope, link)
        return learned

    def _plan(self, scope: Scope, stated: Sequence[tuple[Said, Record]]) -> LearningPlan:
        sources = list({said.source_id for said, _ in stated if said.source_id})
        kept = {one.id for one in self._memory.store.get_many(scope, sources)}
        maker = self._maker(scope)
        made = [_made(maker, record, said) for said, record in stated]
        plain = [one for one in made if not key_of(one)]
        there = self._facts(scope, {key_of(one) for one in made} - {""})
        same = Selection(reader=scope, kinds=tuple({one.kind for one in plain}), superseded=True)
        there += self._scan(same, "content_hash", {one.content_hash for one in plain})
        said_by = [said.source_id if said.source_id in kept else "" for said, _ in stated]
        return plan_learning(list(zip(made, said_by, strict=True)), there)

    def _maker(self, scope: Scope) -> Maker:
        now, ids = self._memory.clock.now(), self._memory.ids
        return Maker(scope=scope, visibility="private", now=now, new_ids=ids.take)

    def _facts(self, scope: Scope, keys: Collection[str]) -> list[Memory]:
        """What is kept of these keys, forgotten or not."""
        told = Selection(reader=scope, kinds=("fact",), superseded=True, forgotten=True)
        found = self._scan(told, "title", keys)
        return [one for one in found if key_of(one) in keys]

    def _scan(self, selection: Selection, field: str, values: Collection[str]) -> list[Memory]:
        """What is selected and has one of these values in a field."""
        where = Compare(field=field, operator="in", value=tuple(sorted(values)))
        return list(self._memory.store.scan(replace(selection, where=where))) if values else []

    def history(
        self, scope: Scope, key: str, *, as_of: datetime | None = None
    ) -> tuple[Memory, ...]:
        """Every value a key ever had, earliest first; with `as_of`, the one that held then."""
        wanted = {require_text(key, "key"), fact_key(key)}
        ordered = in_order(self._facts(scope, wanted - {""}))
        if as_of is None:
            return tuple(ordered)
        held = held_at([one for one in ordered if not is_merged(one)], as_of)
        return () if held is None else (held,)

    # -- what was said -------------------------------------------------------------------

    def read(self, scope: Scope, data: object) -> tuple[Said, ...]:
        """The user's own texts in a text, a message or several; our own blocks are left out."""
        if isinstance(data, str):
            now = self._memory.clock.now()
            require_text(data, "text")
            return (Said(text=strip(data), at=now, source_id=self._source(scope, data)),)
        messages = [data] if isinstance(data, Mapping) else data
        if not isinstance(messages, Sequence) or isinstance(messages, bytes):
            problem, remedy = "is nothing to learn from", "Pass a str or messages."
            raise InvalidInput("data", data, problem, remedy=remedy)
        own = [m for m in messages if isinstance(m, Mapping) and m.get("role") == "user"]
        return tuple(
            Said(text=one.text, at=one.created_at, source_id=self._source(scope, one.text))
            for one in from_messages(self._maker(scope), [m for m in own if text_of(m).strip()])
        )

    def _source(self, scope: Scope, text: str) -> str:
        where = Compare(field="content_hash", operator="eq", value=content_hash(text))
        selection = Selection(reader=scope, kinds=("message",), where=where)
        found = [one.id for one in self._memory.store.scan(selection)]
        return found[-1] if found else ""


def _made(maker: Maker, record: Record, said: Said) -> Memory:
    fields = to_memory_fields(record)
    sure = {"confidence": record.confidence} if isinstance(record, Fact) else {}
    return maker.memory(
        fields.text,
        kind=fields.kind,
        title=fields.title,
        origin="user",
        importance=IMPORTANCE,
        created_at=said.at,
        valid_from=said.at if fields.kind == "fact" else None,
        metadata={**fields.metadata, **sure},
    )


def take_back(memory: Profiled, scope: Scope, heard: Sequence[str]) -> int:
    """Undo what a run wrote to the profile, the latest first; how many were still there."""
    gone = 0
    for one in reversed(heard):
        with suppress(RecordNotFound):  # taken back or erased since
            memory.preferences.undo(one, user_id=scope.user_id, project_id=scope.project_id)
            gone += 1
    return gone


def records_of(found: Extracted) -> tuple[list[Record], int]:
    """What of an extraction is kept, and how much is not, for the key or password it quotes."""
    stated: list[tuple[Record, str]] = [(one, one.text) for one in found.facts]
    stated += [(one, one.narrative) for one in found.episodes]
    kept = [one for one, quote in stated if not holds_secret(quote)]
    return kept, len(stated) - len(kept)


# ----------------------------------------------------------------------------
# Long texts in pieces a model can be asked about, cut between turns and sentences.


Piece = tuple[tuple[int, str], ...]
"""Parts of turns, each with the number of its turn, from 1."""


def cut_pieces(
    texts: Sequence[str], *, limit_tokens: int, count: TokenCounter
) -> tuple[Piece, ...]:
    """`texts` in pieces of about `limit_tokens`, every visible character in one of them (L13).

    Turns share a piece while there is room. Only a sentence that is too long
    by itself is cut within, between words if it has some.
    """
    require_count(limit_tokens, "limit_tokens", least=1)
    pieces: list[dict[int, Span]] = []

    def told(piece: Mapping[int, Span]) -> Piece:
        return tuple((number, texts[number - 1][slice(*at)]) for number, at in piece.items())

    for number, text in enumerate(texts, 1):
        for place in _short_spans(text, limit_tokens, count):
            last = pieces[-1] if pieces else {}
            joined = {**last, number: (last.get(number, place)[0], place[1])}
            if last and sum(count(part) for _, part in told(joined)) <= limit_tokens:
                pieces[-1] = joined
            else:
                pieces.append({number: place})
    return tuple(map(told, pieces))


def _short_spans(text: str, limit_tokens: int, count: TokenCounter) -> Iterator[Span]:
    """Where the sentences of a text stand; an overlong one is halved at a word until it fits."""
    for sentence in sentences(text):
        waiting = [sentence]
        while waiting:
            start, end = waiting.pop()
            if end - start < 2 or count(text[start:end]) <= limit_tokens:
                if text[start:end].strip():
                    yield start, end
                continue
            middle = (start + end) // 2
            cut = text.rfind(" ", start + 1, middle + 1)
            cut = cut if cut > 0 else middle
            waiting += [(cut, end), (start, cut)]


# ----------------------------------------------------------------------------
# Let a model find what the rules miss in what was said, and keep what the text bears out.


PIECE_TOKENS = 1_500
"""What a model is given to read at once: little enough that it reads all of it."""
LEAST_PIECE_TOKENS = 50
GIVEN_UP_AFTER = 2
"""So many failures in a row, and the rest is left to the rules."""


def find_more(
    texts: Sequence[str],
    rules: Sequence[Extracted],
    asker: Asker,
    *,
    count: TokenCounter,
    tokens: int,
) -> tuple[tuple[Extracted, ...], int]:
    """What each text states by rules and model together, and how many proposals were refused.

    Whatever the model does, what the rules found is there; `tokens` is its limit.
    """
    turns = [GroundTurn(text[:MAX_CHARACTERS]) for text in texts]
    limit = max(LEAST_PIECE_TOKENS, min(PIECE_TOKENS, tokens // 4))
    pieces = cut_pieces([turn.own for turn in turns], limit_tokens=limit, count=count)
    accepted: list[list[Statement]] = [[] for _ in turns]
    rejected = read = 0
    for piece in pieces:
        told = {"turns": [{"turn": number, "text": text} for number, text in piece]}
        reply = asker.ask(read_text("learn_prompt.txt"), told, RECORDS_FORMAT)
        proposals = read_proposals(reply)
        if proposals is not None:
            read += 1
        elif reply:
            asker.say("a reply of the model could not be read")
        shown = {number for number, _ in piece}
        there = [turn if at in shown else _NOTHING for at, turn in enumerate(turns, 1)]
        for proposal in proposals or ():
            found = ground(proposal, there)
            if isinstance(found, str):
                rejected += 1
            else:
                accepted[found.turn].append(found.found)
        if asker.spent or asker.failures >= GIVEN_UP_AFTER:
            break
    if read < len(pieces):
        asker.say(f"{len(pieces) - read} of {len(pieces)} pieces were left to the rules alone")
    if rejected:
        asker.say(f"{rejected} proposals of the model were refused: the text does not say them")
    return tuple(map(merge_found, rules, accepted)), rejected


_NOTHING = GroundTurn("")
