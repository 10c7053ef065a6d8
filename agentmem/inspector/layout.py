"""Text laid out for a terminal: cells, bars, wrapped lines and tables of a given width."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

Style = Literal["bold", "dim", "good", "warn", "bad", "accent"]

_STYLES: Mapping[Style, str] = MappingProxyType(
    {"bold": "1", "dim": "2", "good": "32", "warn": "33", "bad": "31", "accent": "36"}
)
_EIGHTHS = " ▏▎▍▌▋▊▉█"
_GAP = 2
LEAST_WIDTH = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Pen:
    """Draws with Unicode marks, or with ASCII only; with colour, or without."""

    ascii_only: bool = False
    colour: bool = False

    def paint(self, text: str, style: Style) -> str:
        """`text` in a style, where there is colour; measure it before it is painted."""
        return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if self.colour and text else text

    def gauge(self, share: float, columns: int) -> str:
        on, off = ("#", ".") if self.ascii_only else ("█", "░")
        full = cells_of(share, columns)
        return on * full + off * (columns - full)

    def bar(self, share: float, columns: int) -> str:
        if not columns:
            return ""
        if self.ascii_only:
            return "#" * cells_of(share, columns)
        whole, eighths = divmod(cells_of(share, columns * 8), 8)
        return "█" * whole + _EIGHTHS[eighths].strip()

    def clean(self, text: str) -> str:
        """`text` on one line, without characters that move the cursor."""
        if self.ascii_only:
            return text if text.isascii() and text.isprintable() else ascii(text)[1:-1]
        return "".join(c if c.isprintable() else "\ufffd" for c in text)

    def cut(self, text: str, columns: int) -> str:
        text = self.clean(text)
        if width_of(text) <= columns:
            return text
        mark = "..." if self.ascii_only else "…"
        if columns <= len(mark):
            return fitting(text, columns)
        return fitting(text, columns - len(mark)) + mark

    def cell(self, text: str, columns: int) -> str:
        text = self.cut(text, columns)
        return text + " " * (columns - width_of(text))

    def wrap(self, text: str, columns: int) -> list[str]:
        lines: list[str] = []
        line = ""
        for word in self.clean(text).split(" "):
            longer = f"{line} {word}" if line else word
            if width_of(longer) <= columns:
                line = longer
                continue
            if line:
                lines.append(line)
            while width_of(word) > columns:
                lines.append(fitting(word, columns))
                word = word[len(lines[-1]) :]  # noqa: PLW2901  # the rest of a word too long
            line = word
        return [*lines, line]


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column of a table. `least` lets it be cut to so many cells, `optional` left out.

    Of several optional columns the last one goes first.
    """

    name: str
    right: bool = False
    least: int | None = None
    optional: bool = False


def table(
    pen: Pen, columns: Sequence[Column], rows: Sequence[Sequence[str]], *, width: int
) -> list[str]:
    """`rows` under the names of `columns`, no line wider than `width`.

    Columns that may be cut are, evenly; where that is not enough, optional
    ones are left out. Without rows there is no table.
    """
    if not rows:
        return []
    shown = list(range(len(columns)))
    cleaned = [[pen.clean(cell) for cell in row] for row in rows]
    natural = [
        max(width_of(column.name), *(width_of(row[at]) for row in cleaned))
        for at, column in enumerate(columns)
    ]
    while True:
        sizes = _shrunk([natural[at] for at in shown], [columns[at] for at in shown], width)
        optional = [at for at in shown if columns[at].optional]
        if sizes is not None or not optional:
            break
        shown.remove(optional[-1])
    if sizes is None:
        sizes = [natural[at] for at in shown]
    lines = []
    head = [column.name for column in columns]
    for number, row in enumerate([head, *cleaned]):
        cells = []
        for at, size in zip(shown, sizes, strict=True):
            text = pen.cut(row[at], size)
            space = " " * (size - width_of(text))
            cells.append(space + text if columns[at].right else text + space)
        line = pen.cut((" " * _GAP).join(cells).rstrip(), width)
        lines.append(pen.paint(line, "dim") if number == 0 else line)
    return lines


def _shrunk(natural: list[int], columns: list[Column], width: int) -> list[int] | None:
    """Sizes that fit, the widest column that may be cut giving way first; `None` if none do."""
    sizes = list(natural)
    over = sum(sizes) + _GAP * (len(sizes) - 1) - width
    while over > 0:
        loose = [
            at
            for at, column in enumerate(columns)
            if column.least is not None and sizes[at] > column.least
        ]
        if not loose:
            return None
        widest = max(loose, key=lambda at: sizes[at])
        sizes[widest] -= 1
        over -= 1
    return sizes


def pairs(pen: Pen, said: Sequence[tuple[str, str]], *, width: int) -> list[str]:
    """Names and what is said of them, one below the other, long ones wrapped."""
    if not said:
        return []
    cleaned = [(pen.clean(name), text) for name, text in said]
    size = min(max(width_of(name) for name, _ in cleaned), max(8, width // 3))
    lines: list[str] = []
    for name, text in cleaned:
        start = pen.cell(name, size) + " " * _GAP
        wrapped = pen.wrap(text, max(8, width - size - _GAP))
        lines += [
            pen.paint(start, "dim") + wrapped[0],
            *(" " * (size + _GAP) + line for line in wrapped[1:]),
        ]
    return lines


class Sheet:
    """Lines one below the other, written with one pen and no wider than the sheet."""

    def __init__(self, pen: Pen | None, width: int) -> None:
        self.pen = pen or Pen()
        self.width = max(LEAST_WIDTH, width)
        self.lines: list[str] = []

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    def add(self, *lines: str) -> None:
        """Lines as they are; they fit."""
        self.lines += lines

    def cut(self, line: str, *, style: Style | None = None) -> None:
        """One line, cut where it does not fit."""
        line = self.pen.cut(line, self.width)
        self.add(self.pen.paint(line, style) if style else line)

    def write(
        self, text: str, start: str = "", *, mark: str = "", style: Style | None = None,
        most: int | None = None,
    ) -> None:  # fmt: skip
        """`text` wrapped behind `mark` and `start`, `most` lines of it at most.

        Painted is the mark, or everything where there is none.
        """
        room = max(16, self.width - width_of(mark + start))
        lines = hang(mark + start, self.pen.wrap(text, room)[:most])
        if style and mark:
            lines[0] = self.pen.paint(mark, style) + lines[0][len(mark) :]
        elif style:
            lines = [self.pen.paint(line, style) for line in lines]
        self.add(*lines)

    def heading(self, left: str, right: str = "") -> None:
        """A title, with something said at the right end where there is room."""
        self.add(*heading(self.pen, left, right, width=self.width))

    def section(self, left: str, right: str = "") -> None:
        """A title after an empty line."""
        self.add("")
        self.heading(left, right)

    def pairs(self, said: Sequence[tuple[str, str]]) -> None:
        """Names and what is said of them."""
        self.add(*pairs(self.pen, said, width=self.width))

    def table(
        self, columns: Sequence[Column], rows: Sequence[Sequence[str]],
        styles: Sequence[Style | None] = (),
    ) -> None:  # fmt: skip
        """`rows` under the names of `columns`, each in its style."""
        lines = table(self.pen, columns, rows, width=self.width)
        for at, style in enumerate(styles, start=1):
            lines[at] = self.pen.paint(lines[at], style) if style else lines[at]
        self.add(*lines)


def many(count: int, noun: str) -> str:
    """A count with its noun: "1 memory", "2,000 memories", "3 matches"."""
    if count == 1:
        return f"1 {noun}"
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return f"{count:,} {noun[:-1]}ies"
    return f"{count:,} {noun}{'es' if noun.endswith(('s', 'x', 'ch', 'sh')) else 's'}"


def heading(pen: Pen, left: str, right: str = "", *, width: int) -> list[str]:
    """A title, with something said at the right end where there is room."""
    left, right = pen.cut(left, width), pen.clean(right)
    gap = width - width_of(left) - width_of(right)
    title = pen.paint(left, "bold")
    if not right:
        return [title]
    if gap >= _GAP:
        return [title + " " * gap + pen.paint(right, "dim")]
    return [title, *(pen.paint(line, "dim") for line in pen.wrap(right, width))]


def hang(start: str, lines: Sequence[str]) -> list[str]:
    """`lines` after `start`, the later ones indented as far."""
    indent = " " * width_of(start)
    return [start + lines[0], *(indent + line for line in lines[1:])]


def cells_of(share: float, columns: int) -> int:
    """How many cells of a bar are on; anything above nothing shows, and only all shows all."""
    share = min(1.0, max(0.0, share))
    if share in (0.0, 1.0):
        return int(share) * columns
    return min(max(1, round(share * columns)), max(1, columns - 1))


def fitting(text: str, columns: int) -> str:
    kept = 0
    for place, character in enumerate(text):
        kept += width_of(character)
        if kept > columns:
            return text[: max(1, place)]
    return text


def width_of(text: str) -> int:
    """How many terminal cells a text takes: wide characters two, combining marks none."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )
