"""What memory has to say for one turn, as values: the block, its sources and pointers.

`clean` gives a block as it will be shown; the values themselves keep what came.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

from agentmem.base.checks import require_choice, require_count, require_text
from agentmem.base.errors import InvalidInput, MalformedBlock
from agentmem.base.lazy import compile_late
from agentmem.base.types import BEGIN_LINE, BOUNDARY_CHARACTERS, Memory, Origin, utc
from agentmem.text.clean import clean_line, clean_text, escape_attribute, escape_text

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

Trust = Literal["user", "operator", "untrusted"]

TITLE_CHARACTERS = 200
URL_CHARACTERS = 500
LINE_CHARACTERS = 1_000
_LINES = ("url", "title", "id", "kind", "section", "speaker")


def trust_of(origin: Origin) -> Trust:
    """How far a source may be believed: the user's own words, the operator's, or nobody's.

    What the assistant said counts as untrusted, since it may repeat a page.
    """
    if origin == "user":
        return "user"
    return "operator" if origin == "system" else "untrusted"


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockSource:
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
        require_choice(self.origin, get_args(Origin), "origin")

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


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextBlock:
    """What is worth knowing for one turn, best first.

    `total_found` is how many sources were found, shown or not; left out, it is
    how many are shown. `total_tokens`
    is what the block costs as it is sent; 0 before it was counted.
    """

    user_profile: tuple[str, ...] = ()
    related_knowledge: tuple[BlockSource, ...] = ()
    working_memory: tuple[Pointer, ...] = ()
    summary: str = ""
    total_found: int = 0
    total_tokens: int = field(default=0, compare=False)

    def __post_init__(self) -> None:
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


def source_of(memory: Memory, text: str | None = None) -> BlockSource:
    """`memory` as a source, with `text` instead of its own when given (another level, a part)."""
    return BlockSource(
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


def clean_source(source: BlockSource) -> BlockSource:
    """The source as it is shown."""
    shown = {"text": clean_text(source.text)} if source.text else {}
    for name in _LINES:
        if given := getattr(source, name):
            limit = URL_CHARACTERS if name == "url" else TITLE_CHARACTERS
            shown[name] = clean_line(given, limit_characters=limit)
    changed: dict[str, Any] = {n: text for n, text in shown.items() if getattr(source, n) != text}
    return replace(source, **changed) if changed else source


def clean_pointer(pointer: Pointer) -> Pointer:
    """The pointer as it is shown."""
    return replace(
        pointer,
        id=clean_line(pointer.id, limit_characters=TITLE_CHARACTERS),
        tool=clean_line(pointer.tool, limit_characters=TITLE_CHARACTERS),
        summary=clean_text(pointer.summary),
    )


# ----------------------------------------------------------------------------
# The context block as one text, and back.
#
# `render_context` writes a block, `parse_context` reads it (P19). The text is
# one well-formed XML document whose first and last line are comments that carry
# a boundary: a keyed hash of the content, which nobody can write in advance.


STUB = "[agentmem] Before my next message, show the reference data that may belong to it."
"""What the `user` turn of the pair says: constant, so that caches stay warm."""

SECRET_BYTES = 16

END_LINE = "<!-- agentmem reference {boundary} ends -->"


def render_context(block: ContextBlock, *, secret: bytes) -> str:
    """The block as the content of one message; equal blocks give equal bytes (P18)."""
    return seal(render_body(clean(block)), secret=secret)


def render_body(block: ContextBlock, *, knowledge: str = "") -> str:
    """The part between the boundary lines, of a block that was cleaned already.

    `knowledge` is its knowledge section where that was rendered before.
    """
    lines = ["<knowledge_context>"]
    if block.user_profile:
        lines.append("<user_profile>")
        lines += [render_profile_line(line) for line in block.user_profile]
        lines.append("</user_profile>")
    if block.related_knowledge:
        lines.append(knowledge or render_knowledge(block.related_knowledge, block.total_found))
    if block.working_memory:
        lines.append("<working_memory>")
        lines += map(render_pointer, block.working_memory)
        lines.append("</working_memory>")
    if block.summary:
        lines += ("<conversation_summary>", escape_text(block.summary), "</conversation_summary>")
    lines.append("</knowledge_context>")
    return "\n".join(lines)


def render_knowledge(sources: Sequence[BlockSource], total_found: int) -> str:
    """The knowledge section of cleaned sources, in the order given.

    What somebody said in one line is written as one, `[3] Ann: …`, under a line
    with the day it was said on, which stands once for what follows.
    """
    lines = [
        f'<related_knowledge count="{len(sources)}" total_found="{total_found}">',
        f"Showing {len(sources)} of {total_found} sources",
    ]
    day: date | None = None
    for index, source in enumerate(sources, start=1):
        said = speaker_label(source)
        if said is None:
            day = None
            lines.append(render_source(source, index))
            continue
        if source.retrieved != day:
            day = source.retrieved
            lines.append(day.isoformat())
        lines.append(render_line(source, index, said))
    lines.append("</related_knowledge>")
    return "\n".join(lines)


_SPEAKER = compile_late(r"[^\W\d_](?:[\w .'’\-]{0,38}[\w.])?")
_OWN_KINDS = ("fact",)
_ORIGIN_OF = {"assistant": "assistant"}
_NOT_SPEAKERS = frozenset({*_OWN_KINDS, "system", "tool", "developer", "web", "operator"})


def speaker_label(source: BlockSource) -> str | None:
    """Who says a cleaned source, where one line `speaker: text` says all there is to say of it.

    An origin that the speaker's name does not tell stands in brackets. None for
    what has a url, a title, several lines or a name that a line could not hold.
    """
    if source.url or source.title or source.id or source.section or source.cut:
        return None
    if not source.text or "\n" in source.text:
        return None
    if source.kind == "message" and _SPEAKER.fullmatch(source.speaker):
        label = source.speaker
        if label.casefold() in _NOT_SPEAKERS:
            return None
    elif source.kind in _OWN_KINDS and not source.speaker:
        label = source.kind
    else:
        return None
    usual = _ORIGIN_OF.get(label, "user")
    return label if source.origin == usual else f"{label} ({source.origin})"


def render_line(source: BlockSource, index: int, label: str) -> str:
    """One cleaned source as a line of a conversation."""
    return f"[{index}] {escape_text(label)}: {escape_text(source.text)}"


def render_profile_line(line: str) -> str:
    """One cleaned profile entry."""
    return f"- {escape_text(line)}"


def render_source(source: BlockSource, index: int) -> str:
    """One cleaned source with its citation (P3)."""
    found = (
        ("url", source.url), ("title", source.title), ("retrieved", source.retrieved.isoformat()),
        ("origin", source.origin), ("trust", source.trust), ("id", source.id),
        ("kind", source.kind), ("section", source.section), ("speaker", source.speaker),
        ("cut", "yes" if source.cut else ""),
    )  # fmt: skip
    attributes = _attributes([one for one in found if one[1]])
    return f'<source index="{index}"{attributes}>\n{escape_text(source.text)}\n</source>'


def render_pointer(pointer: Pointer) -> str:
    """One cleaned pointer."""
    attributes = [("id", pointer.id), ("tool", pointer.tool), ("tokens", str(pointer.tokens))]
    text = escape_text(pointer.summary)
    return f"<stored_result{_attributes(attributes)}>\n{text}\n</stored_result>"


def seal(body: str, *, secret: bytes) -> str:
    """`body` between its two boundary lines."""
    boundary = boundary_of(body, secret=secret)
    return "\n".join(
        (BEGIN_LINE.format(boundary=boundary), body, END_LINE.format(boundary=boundary))
    )


def boundary_of(body: str, *, secret: bytes) -> str:
    """The code that opens and closes `body`: only who has the secret can know it beforehand."""
    if not isinstance(secret, bytes) or len(secret) < SECRET_BYTES:
        raise InvalidInput(
            "secret",
            type(secret).__name__ if not isinstance(secret, bytes) else f"{len(secret)} bytes",
            f"is not {SECRET_BYTES} or more bytes",
            remedy="Pass the store's own secret, or secrets.token_bytes(32).",
        )
    message = body.encode("utf-8")
    for attempt in range(256):
        code = hmac.new(secret, b"agentmem block %d\0" % attempt + message, hashlib.sha256)
        boundary = code.hexdigest()[:BOUNDARY_CHARACTERS]
        if boundary not in body:
            return boundary
    raise MalformedBlock("The content holds every boundary it could get.")  # 2**-14000


_FRAME = compile_late(
    re.escape(BEGIN_LINE).replace(r"\{boundary\}", "(?P<begin>[0-9a-f]{16})")
    + "\n(?P<body><knowledge_context>\n.*</knowledge_context>)\n"
    + re.escape(END_LINE).replace(r"\{boundary\}", "(?P<end>[0-9a-f]{16})"),
    re.DOTALL,
)
_DAY = compile_late(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_SAID = compile_late(r"\[[0-9]+\] ([^:\n()]+)(?: \(([a-z]+)\))?: (.*)")


def parse_context(text: str, *, secret: bytes | None = None) -> ContextBlock:
    """The block that `text` shows, exactly as it shows it.

    Raises MalformedBlock for anything `render_context` would not have written.
    With `secret` the boundary is checked too, so an accepted text was written
    by the holder of the secret; without it only its two ends are compared.
    """
    frame = _FRAME.fullmatch(require_text(text, "text"))
    if frame is None or frame["begin"] != frame["end"]:
        raise MalformedBlock(
            "The text is not one whole context block.",
            remedy="Pass the content of the reference message as render_context wrote it.",
        )
    body = frame["body"]
    if secret is not None and not hmac.compare_digest(
        frame["begin"], boundary_of(body, secret=secret)
    ):
        raise MalformedBlock(
            "The boundary does not belong to this content and secret.",
            remedy="The text was altered, or comes from another store.",
        )
    block = _read_body(body)
    if block is None or render_body(block) != body or clean(block) != block:
        raise MalformedBlock(
            "The content is not as render_context writes it.",
            remedy="The text was altered after it was rendered.",
        )
    return block


def is_rendered(text: str) -> bool:
    """Whether `text` has the two lines of a whole block; what is between is not looked at."""
    frame = _FRAME.fullmatch(text)
    return frame is not None and frame["begin"] == frame["end"]


def _read_body(body: str) -> ContextBlock | None:
    from xml.etree import ElementTree

    try:
        # No document type, and so no entity of its own, can stand inside an element.
        root = ElementTree.fromstring(body)  # noqa: S314 - see above
        knowledge = root.find("related_knowledge")
        return ContextBlock(
            user_profile=tuple(
                line[2:] for line in (root.findtext("user_profile") or "").split("\n")[1:-1]
            ),
            related_knowledge=() if knowledge is None else tuple(_read_sources(knowledge)),
            working_memory=tuple(
                Pointer(
                    id=one.attrib["id"],
                    summary=(one.text or "")[1:-1],
                    tool=one.attrib["tool"],
                    tokens=int(one.attrib["tokens"]),
                )
                for one in root.iterfind("working_memory/stored_result")
            ),
            summary=(root.findtext("conversation_summary") or "")[1:-1],
            total_found=0 if knowledge is None else int(knowledge.attrib["total_found"]),
        )
    except (SyntaxError, KeyError, ValueError):  # no XML; a missing attribute, a bad number or date
        return None


def _read_sources(knowledge: Element) -> Iterator[BlockSource]:
    """The sources with elements of their own, and those that are lines between these."""
    day = ""
    for source in (None, *knowledge):
        if source is not None:
            said: dict[str, Any] = {name: source.get(name, "") for name in _LINES}
            yield BlockSource(
                text=(source.text or "")[1:-1],
                retrieved=date.fromisoformat(source.attrib["retrieved"]),
                origin=cast("Origin", source.attrib["origin"]),
                cut="cut" in source.attrib,
                **said,
            )
        between = knowledge.text if source is None else source.tail
        for line in (between or "").split("\n"):
            if _DAY.fullmatch(line):
                day = line
            elif match := _SAID.fullmatch(line):
                speaker, origin, text = match.groups(default="")
                own = speaker in _OWN_KINDS
                yield BlockSource(
                    text=text,
                    retrieved=date.fromisoformat(day),
                    origin=cast("Origin", origin or _ORIGIN_OF.get(speaker, "user")),
                    kind=speaker if own else "message",
                    speaker="" if own else speaker,
                )


def _attributes(pairs: Iterable[tuple[str, str]]) -> str:
    return "".join([f' {name}="{escape_attribute(value)}"' for name, value in pairs])
