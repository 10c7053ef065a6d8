"""What the commands print: lines for people, one JSON document for programs.

Stored text was written by anybody. Nothing of it reaches a terminal that could
move the cursor, change colours, set a title or hide other text.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Iterable
from datetime import date, datetime
from typing import Any, TextIO

import click

from agentmem.core.layout import Pen, Style
from agentmem.core.values import dataclass

CLOSED_PIPE = 141
"""What a shell reports of a command whose reader went away (128 + SIGPIPE)."""
NARROWEST, WIDEST, WITHOUT_TERMINAL = 40, 200, 80

# CSI, OSC and other string sequences of ECMA-48, in their 7-bit and 8-bit forms. An
# unfinished string ends at the line's end: a terminal would swallow what follows it.
_SEQUENCES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)?"
    r"|\x1b[ -/]*[0-~]?"
)
_BREAKS = re.compile("\r\n?|[\v\f\x1c-\x1e\x85\u2028\u2029]")
_UNUSUAL = re.compile(r"[^\n -~]")
_JOINERS = "\u200c\u200d"
_STAYING = "\n\t" + _JOINERS
_NO_JOINERS = dict.fromkeys(map(ord, _JOINERS))
_MARKS = "█░…›"
_PIECE = 16_384


def visible(text: str) -> str:
    """`text` without escape sequences and invisible characters (Y1).

    Line breaks, tabs and the joiners of emoji and some scripts stay.
    """
    text = _BREAKS.sub("\n", text)
    while True:
        shown = _UNUSUAL.sub(_shown, _SEQUENCES.sub("", text))
        if shown == text:
            return shown
        text = shown


def _shown(match: re.Match[str]) -> str:
    character = match[0]
    if character.isprintable() or character in _STAYING:
        return character
    return " " if character.isspace() else ""


def one_line(text: str) -> str:
    """`text` as `visible` gives it, on one line and without joiners."""
    return " ".join(visible(text).translate(_NO_JOINERS).split())


def to_json(value: Any, *, ascii_only: bool = False) -> str:
    """`value` as an indented JSON document; characters that cannot be seen are escaped."""
    return escape_unseen(json.dumps(value, indent=2, ensure_ascii=ascii_only, default=_plain))


def escape_unseen(written: str) -> str:
    """The same JSON with an escape for every character that cannot be seen."""
    return _UNUSUAL.sub(_escaped, written)


def _escaped(match: re.Match[str]) -> str:
    return match[0] if match[0].isprintable() else json.dumps(match[0])[1:-1]


def _plain(value: Any) -> Any:
    if isinstance(value, datetime | date):
        return value.isoformat()
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if hasattr(value, "items"):
        return dict(value.items())
    if hasattr(value, "__iter__"):
        return list(value)
    return str(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Screen:
    """Where a command prints.

    `width` is the terminal's, within bounds, or 80 where there is none;
    `on_terminal` says whether stdout is one. `json` keeps stdout for one document.
    """

    out: TextIO
    err: TextIO
    pen: Pen
    width: int
    json: bool = False
    on_terminal: bool = False
    talks: bool = False
    """Whether a person can be asked: stdin and stderr are a terminal."""

    def print(self, lines: str | Iterable[str] = "", *, end: str = "\n") -> None:
        """Write lines that are fit to be seen: stored text has gone through `visible`."""
        text = lines if isinstance(lines, str) else "\n".join(lines)
        self.write(text + end)

    def document(self, value: Any) -> None:
        """Write the one JSON document of this command."""
        self.write(to_json(value, ascii_only=not is_utf8(self.out)) + "\n")

    def write(self, text: str) -> None:
        """Write and flush; a reader that went away ends the command quietly."""
        try:
            # In pieces: a buffered write that is cut off half way does not always raise.
            for start in range(0, len(text), _PIECE):
                self.out.write(text[start : start + _PIECE])
                self.out.flush()
        except BrokenPipeError:
            close_quietly(self.out)
            raise click.exceptions.Exit(CLOSED_PIPE) from None

    def note(self, text: str) -> None:
        """Say something beside the output, on stderr; not with `--json`."""
        if not self.json:
            self.complain(text, style="dim")

    def complain(self, text: str, *, style: Style | None = None, whole: bool = False) -> None:
        """Write to stderr; where that is a terminal lines are wrapped, unless `whole`."""
        lines = text.split("\n")
        if self.err.isatty() and not whole:
            lines = [part for line in lines for part in wrap_line(self.pen, line, self.width)]
        if style is not None and self.err.isatty():
            lines = [self.pen.paint(line, style) for line in lines]
        try:
            self.err.write("\n".join(lines) + "\n")
            self.err.flush()
        except BrokenPipeError:
            close_quietly(self.err)


def wrap_line(pen: Pen, line: str, width: int) -> list[str]:
    """A line wrapped between words, each part indented as the line is."""
    text = line.translate(_NO_JOINERS)
    indent = min(len(text) - len(text.lstrip(" ")), width // 2)
    return [" " * indent + part for part in pen.wrap(text[indent:].rstrip(), width - indent)]


def columns() -> int:
    """How wide to write: the terminal's width, 80 where there is none, within bounds."""
    found = shutil.get_terminal_size((WITHOUT_TERMINAL, 24)).columns
    return min(WIDEST, max(NARROWEST, found))


def print_json(value: Any) -> None:
    """Write `value` as the one JSON document of this command."""
    make_screen(json=True).document(value)


def make_screen(*, json: bool = False, colour: bool = True) -> Screen:
    """The screen of this process, as its streams, NO_COLOR and COLUMNS say."""
    out, err = sys.stdout, sys.stderr
    for stream in (out, err):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:  # what the terminal cannot show is written as \x…
            reconfigure(errors="backslashreplace")
    on_terminal = out.isatty()
    plain = not colour or bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
    return Screen(
        out=out,
        err=err,
        pen=Pen(ascii_only=not can_show(out, _MARKS), colour=on_terminal and not plain),
        width=columns(),
        json=json,
        on_terminal=on_terminal,
        talks=sys.stdin is not None and sys.stdin.isatty() and err.isatty(),
    )


def can_show(stream: TextIO, text: str) -> bool:
    """Whether the stream's encoding has every character of `text`."""
    try:
        text.encode(stream.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def is_utf8(stream: TextIO) -> bool:
    return can_show(stream, "\U0001f600é漢")


def open_closed_streams() -> None:
    """Give each standard stream that was closed before we began a place: nowhere.

    What is written there is dropped, and there is nothing to read. In this order
    each gets its own number, so that no file of ours is taken for a stream.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 - stays open


def close_quietly(stream: TextIO) -> None:
    """Let nothing more be written to a stream whose reader went away, not even at exit."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
    except (OSError, ValueError):
        return
