"""A text that arrives in pieces, written as it comes and wrapped between words."""

from __future__ import annotations

from agentmem.cli.output import Screen, visible
from agentmem.core.layout import width_of


class Flow:
    """Writes pieces of a text to the screen.

    On a terminal lines break between words; elsewhere the text stays as it
    is. Escape sequences never get through, also when a piece ends inside one:
    without their first character they are plain text.
    """

    def __init__(self, at: Screen) -> None:
        self._at = at
        self._column = 0
        self._space = ""
        self._word = ""
        self.began = False

    def add(self, piece: str) -> None:
        """Write a piece; the last word waits until it is whole."""
        shown = visible(piece)
        if not shown:
            return
        self.began = True
        if not self._at.on_terminal:
            self._at.write(shown)
            self._column = 0 if shown.endswith("\n") else 1
            return
        out: list[str] = []
        for character in shown:
            if character in " \t\n":
                out.append(self._take_word())
                if character == "\n":
                    out.append("\n")
                    self._column, self._space = 0, ""
                else:
                    self._space += " "
            else:
                if width_of(self._word + character) > self._at.width:
                    out.append(self._take_word())
                self._word += character
        self._at.write("".join(out))

    def end(self) -> None:
        """Write what waits, and end the line."""
        rest = self._take_word()
        if rest or self._column:
            self._at.write(rest + "\n")
        self._column, self._space = 0, ""

    def _take_word(self) -> str:
        word, space = self._word, self._space
        if not word:
            return ""
        self._word = self._space = ""
        size = width_of(word)
        if self._column and self._column + len(space) + size > self._at.width:
            self._column = size
            return "\n" + word
        space = space[: max(0, self._at.width - self._column - size)]
        self._column += len(space) + size
        return space + word
