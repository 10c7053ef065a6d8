"""What memory has to say for one turn, as values: the block, its sources and pointers.

`clean` gives a block as it will be shown; the values themselves keep what came.
"""

from __future__ import annotations

from dataclasses import field, replace
from datetime import date, datetime
from typing import Literal, get_args

from agentmem.core.checks import all_ascii, require_choice, require_count, require_text
from agentmem.core.cleaning import clean_line, clean_text
from agentmem.core.values import dataclass
from agentmem.errors import InvalidInput
from agentmem.types import Memory, Origin, utc

Trust = Literal["user", "operator", "untrusted"]

TITLE_CHARACTERS = 200
URL_CHARACTERS = 500
LINE_CHARACTERS = 1_000
_ORIGINS: tuple[str, ...] = get_args(Origin)


def trust_of(origin: Origin) -> Trust:
    """How far a source may be believed: the user's own words, the operator's, or nobody's.

    What the assistant said counts as untrusted, since it may repeat a page.
    """
    if origin == "user":
        return "user"
    return "operator" if origin == "system" else "untrusted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One piece of knowledge and where it came from. `cut` says that the text goes on."""

    text: str
    retrieved: date
    url: str = ""
    title: str = ""
    origin: Origin = "web"
    id: str = ""
    kind: str = ""
    section: str = ""
    speaker: str = ""
    cut: bool = False

    def __post_init__(self) -> None:
        texts = self.text, self.url, self.title, self.id, self.kind, self.section, self.speaker
        if not all_ascii(texts):  # then each is looked at, to say which one is wrong
            for name in ("text", "url", "title", "id", "kind", "section", "speaker"):
                require_text(getattr(self, name), name)
        if self.origin not in _ORIGINS:
            require_choice(self.origin, _ORIGINS, "origin")
        if not isinstance(self.retrieved, date) or isinstance(self.retrieved, datetime):
            raise InvalidInput(
                "retrieved",
                self.retrieved,
                "is not a date",
                remedy="Pass a datetime.date: a clock time would change the bytes every second.",
            )
        if not isinstance(self.cut, bool):
            raise InvalidInput("cut", self.cut, "is not a boolean", remedy="Pass True or False.")

    @property
    def trust(self) -> Trust:
        return trust_of(self.origin)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pointer:
    """A tool result kept outside the prompt: what it is about and the id to read it by."""

    id: str
    summary: str = ""
    tool: str = ""
    tokens: int = 0

    def __post_init__(self) -> None:
        for name in ("id", "summary", "tool"):
            require_text(getattr(self, name), name)
        require_count(self.tokens, "tokens")


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextBlock:
    """What is worth knowing for one turn, best first.

    `total_found` is how many sources were found, shown or not; left out, it is
    how many are shown. `total_tokens`
    is what the rendered message costs, as counted by whoever built the block;
    it is not part of the text, so two blocks that differ only there are equal.
    """

    user_profile: tuple[str, ...] = ()
    related_knowledge: tuple[Source, ...] = ()
    working_memory: tuple[Pointer, ...] = ()
    summary: str = ""
    total_found: int = 0
    total_tokens: int = field(default=0, compare=False)

    def __post_init__(self) -> None:
        _require_all(self.user_profile, str, "user_profile")
        _require_all(self.related_knowledge, Source, "related_knowledge")
        _require_all(self.working_memory, Pointer, "working_memory")
        for line in self.user_profile:
            require_text(line, "user_profile")
        require_text(self.summary, "summary")
        require_count(self.total_tokens, "total_tokens")
        shown = len(self.related_knowledge)
        if require_count(self.total_found, "total_found") == 0:
            object.__setattr__(self, "total_found", shown)
        require_count(self.total_found, "total_found", least=shown)

    @property
    def empty(self) -> bool:
        """Whether there is nothing to show."""
        return not (
            self.user_profile or self.related_knowledge or self.working_memory or self.summary
        )


def source_of(memory: Memory, text: str | None = None) -> Source:
    """`memory` as a source, with `text` instead of its own when given (another level, a part)."""
    return Source(
        text=memory.text if text is None else text,
        retrieved=utc(memory.created_at).date(),
        url=memory.source_url,
        title=memory.title,
        origin=memory.origin,
        kind=memory.kind,
        section=" › ".join(memory.heading_path),
        speaker=memory.speaker,
    )


def clean(block: ContextBlock) -> ContextBlock:
    """The block as it will be shown: what `parse_context(render_context(block))` gives back.

    Texts are cleaned (docs/block.md has the table), attributes and profile
    lines put on one line, empty profile lines left out. Without a source
    `total_found` is not shown and becomes 0.
    """
    profile = tuple(filter(None, map(clean_profile_line, block.user_profile)))
    return replace(
        block,
        user_profile=profile,
        related_knowledge=tuple(map(clean_source, block.related_knowledge)),
        working_memory=tuple(map(clean_pointer, block.working_memory)),
        summary=clean_text(block.summary),
        total_found=block.total_found if block.related_knowledge else 0,
    )


def clean_profile_line(line: str) -> str:
    """A profile entry as it is shown; "" when nothing visible is left."""
    return clean_line(line, limit_characters=LINE_CHARACTERS)


def clean_source(source: Source) -> Source:
    """The source as it is shown."""
    shown = {
        "text": clean_text(source.text),
        "url": clean_line(source.url, limit_characters=URL_CHARACTERS),
    }
    for name in ("title", "id", "kind", "section", "speaker"):
        given = getattr(source, name)
        if given:
            shown[name] = clean_line(given, limit_characters=TITLE_CHARACTERS)
    if all(getattr(source, name) == text for name, text in shown.items()):
        return source
    return replace(source, **shown)  # type: ignore[arg-type]  # names of texts


def clean_pointer(pointer: Pointer) -> Pointer:
    """The pointer as it is shown."""
    return replace(
        pointer,
        id=clean_line(pointer.id, limit_characters=TITLE_CHARACTERS),
        tool=clean_line(pointer.tool, limit_characters=TITLE_CHARACTERS),
        summary=clean_text(pointer.summary),
    )


def _require_all(values: object, kind: type, name: str) -> None:
    if not isinstance(values, tuple) or not all(isinstance(value, kind) for value in values):
        raise InvalidInput(
            name, values, f"is not a tuple of {kind.__name__}", remedy="Pass a tuple, not a list."
        )
