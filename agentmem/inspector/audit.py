"""The health of what is stored: what to look at, with examples and the command that mends it."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Literal

from agentmem.base.filters import Selection
from agentmem.base.types import Memory, Scope
from agentmem.inspector.look import store_option
from agentmem.prompt.strip import strip
from agentmem.text.clean import clean_line
from agentmem.text.secrets import available, find_personal, find_secrets, mask_secrets, mask_spans

if TYPE_CHECKING:
    from agentmem.memory.manager import MemoryManager


Trouble = Literal[
    "duplicates", "echoes", "stale", "never used", "contradicted", "secrets", "personal data",
    "oversized",
]  # fmt: skip
EXAMPLES = 5
SHOWN_CHARACTERS = 160
_BATCH = 2_000
_TOLD_EVERY = 100
_OWN_KINDS = frozenset({"message", "preference"})
"""The same words of another kind are no duplicate of these: they have a part of their own."""
_DELETED = 1
# From when on something is worth a look.
_STALE = timedelta(days=365)
_UNUSED = timedelta(days=90)
_OVERSIZED_CHARACTERS = 8_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """One memory of a finding; secrets and personal data in `shown` are masked."""

    id: str
    shown: str
    note: str = ""
    user: str | None = None
    project: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFinding:
    """One sort of trouble: how many memories have it, some of them, and what to do."""

    name: Trouble
    meaning: str
    count: int
    examples: tuple[Example, ...]
    remedy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditReport:
    """What was looked at and what was found; every sort of trouble is listed, also with 0."""

    at: datetime
    memories: int
    findings: tuple[AuditFinding, ...]
    notes: tuple[str, ...] = ()

    @property
    def clean(self) -> bool:
        return not any(finding.count for finding in self.findings)


_OUR_SECRETS = (
    "Of secrets, only keys that begin in a known way and passwords in sentences or addresses were "
    "looked for. For more: pip install 'agentmem-loop[secrets]'"
)
_MEANINGS: dict[Trouble, str] = {
    "duplicates": "say the same as another memory of the same owner",
    "echoes": "hold a block that was injected by agentmem itself",
    "stale": "are past their validity, or old and not used since",
    "never used": "were never found by any search since they were stored",
    "contradicted": "say something that another memory contradicts",
    "secrets": "hold a key, token or password",
    "personal data": "hold an e-mail address, telephone, bank or card number",
    "oversized": "are too long to be shown whole in any context",
}


def audit(
    memory: MemoryManager,
    *,
    now: datetime,
    scope: Scope | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> AuditReport:
    """Look at every memory of one reader, or of the whole store. Nothing is changed.

    `on_progress` is told now and then how many were looked at.
    """
    counts: Counter[Trouble] = Counter()
    examples: dict[Trouble, list[Example]] = {name: [] for name in _MEANINGS}
    first: dict[tuple[object, str], str] = {}
    seen = 0
    owners: dict[Scope, None] = {}
    for one in memories_of(memory, scope):
        seen += 1
        if on_progress is not None and seen % _TOLD_EVERY == 0:
            on_progress(seen)
        owners[Scope(user_id=one.scope.user_id, project_id=one.scope.project_id)] = None
        hidden, personal = find_secrets(one.text), find_personal(one.text)
        troubles = [*_look(one, now=now, first=first)]
        if hidden:
            troubles.append(("secrets", ", ".join(dict.fromkeys(kind for kind, _ in hidden))))
        if personal:
            troubles.append(("personal data", ", ".join(dict.fromkeys(p.kind for p in personal))))
        shown = ""
        for name, note in troubles:
            counts[name] += 1
            if len(examples[name]) == EXAMPLES:
                continue
            shown = shown or _masked_text(one.text)
            project = one.scope.project_id if one.visibility == "project" else None
            user = one.scope.user_id
            examples[name].append(
                Example(id=one.id, shown=shown, note=note, user=user, project=project)
            )
    against = list(_contradictions(memory, [scope] if scope is not None else list(owners)))
    counts["contradicted"], examples["contradicted"] = len(against), against[:EXAMPLES]
    return AuditReport(
        at=now,
        memories=seen,
        notes=() if available() else (_OUR_SECRETS,),
        findings=tuple(
            AuditFinding(
                name=name,
                meaning=_MEANINGS[name],
                count=counts[name],
                examples=tuple(shown_of),
                remedy=_remedy(name, shown_of, store_option(memory)) if shown_of else "",
            )
            for name, shown_of in examples.items()
        ),
    )


def memories_of(memory: MemoryManager, scope: Scope | None) -> Iterator[Memory]:
    """Every memory that is not deleted: of a reader, or of the whole store for its operator."""
    if scope is not None:
        yield from memory.store.scan(Selection(reader=scope, superseded=True))
        return
    after = 0
    while True:
        rows = memory.store.feed.index_rows(after_row=after, limit=_BATCH)
        numbers = rows.rows.tolist()
        if not numbers:
            return
        after = numbers[-1]
        live = rows.rows[(rows.flags & _DELETED) == 0].tolist()
        texts = memory.store.feed.texts(live)
        yield from (texts[row] for row in live if row in texts)


def _look(
    one: Memory, *, now: datetime, first: dict[tuple[object, str], str]
) -> Iterator[tuple[Trouble, str]]:
    current = one.superseded_by is None
    if current:
        kind = one.kind if one.kind in _OWN_KINDS else ""
        owner = (one.visibility, one.scope.user_id, one.scope.project_id, kind)
        earlier = first.setdefault((owner, _words(one.text)), one.id)
        if earlier != one.id:
            yield "duplicates", f"the same as {earlier}"
    if strip(one.text) != one.text:
        yield "echoes", ""
    stale = _stale(one, now)
    if stale and current:
        yield "stale", stale
    elif current and not one.usage.retrieved and now - one.created_at > _UNUSED:
        yield "never used", f"stored on {one.created_at.date()}"
    if len(one.text) > _OVERSIZED_CHARACTERS:
        yield "oversized", f"{len(one.text):,} characters"


def _words(text: str) -> str:
    """What two texts share that differ only in case, spaces and the sign at their end."""
    return " ".join(text.casefold().split()).rstrip(".!;, ") or text


def _stale(one: Memory, now: datetime) -> str:
    if one.valid_to is not None and one.valid_to <= now:
        return f"no longer valid since {one.valid_to.date()}"
    last = max(filter(None, (one.created_at, one.usage.last_used_at)))
    if one.usage.retrieved and now - last > _STALE:
        return f"last used on {last.date()}"
    return ""


def _masked_text(text: str) -> str:
    # Secrets first: masking personal data may cut one in two, which would then be shown.
    text = mask_secrets(text, find_secrets(text))
    spans = [(piece.start, piece.end) for piece in find_personal(text)]
    return clean_line(mask_spans(text, spans), limit_characters=SHOWN_CHARACTERS)


def _contradictions(memory: MemoryManager, readers: list[Scope]) -> Iterator[Example]:
    from agentmem.living.plans import read_note

    seen: set[tuple[str, str]] = set()
    for reader in readers:
        for link in memory.store.contradictions.all(reader, open_only=True):
            pair = (link.first_id, link.second_id)
            if pair in seen:
                continue
            seen.add(pair)
            fields = read_note(link.note)  # one that somebody else wrote is just text
            said = fields.get("reason") or fields.get("note")
            note = _masked_text(said if isinstance(said, str) and said else link.relation)
            shown = f"against {link.second_id}"
            yield Example(id=link.first_id, shown=shown, note=note, user=reader.user_id)


def _remedy(name: Trouble, examples: Sequence[Example], store: str) -> str:
    """A command for the examples of the first owner; it can be copied as it stands."""
    user, project = examples[0].user, examples[0].project
    whose = f"{store} --user {shlex.quote(user)}" if user else store
    whose += f" --project {shlex.quote(project)}" if project else ""
    listed = [one.id for one in examples if (one.user, one.project) == (user, project)]
    ids = " ".join(map(shlex.quote, listed))
    if name in ("secrets", "personal data", "echoes"):
        return f"agentmem erase{whose} {ids}"
    if name == "contradicted":
        then = f"agentmem contradictions resolve{whose}"
        return f"agentmem contradictions list{whose}   # then: {then}"
    if name == "oversized":
        again = f"agentmem index{whose} FILE"
        return f"agentmem erase{whose} {ids}   # and store each again: {again}"
    return f"agentmem delete{whose} {ids}"
