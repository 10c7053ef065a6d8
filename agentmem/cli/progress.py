"""Progress on a terminal, and silence elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from agentmem.cli.output import Screen, one_line

if TYPE_CHECKING:
    from rich.console import Console

Move = Callable[[int, int, str], None]
"""Called with how much is done, how much there is, and what comes next."""


@contextmanager
def bar(at: Screen, what: str) -> Iterator[Move]:
    """A bar on stderr while something is done; nothing when stderr is not a terminal."""
    if at.json or not at.err.isatty():
        yield lambda done, total, name: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    with Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[name]}", markup=False),
        console=console(at),
        transient=True,
    ) as shown:
        task = shown.add_task(what, total=None, name="")

        def move(done: int, total: int, name: str) -> None:
            short = at.pen.cut(one_line(name), max(8, at.width - 50))
            shown.update(task, completed=done, total=total, name=short)

        yield move


@contextmanager
def steps(at: Screen, what: str) -> Iterator[Callable[[str], None]]:
    """A line on stderr that says what is being done; nothing when stderr is not a terminal."""
    if at.json or not at.err.isatty():
        yield lambda text: None
        return
    from rich.text import Text

    with console(at).status(Text(what)) as shown:
        yield lambda text: shown.update(Text(at.pen.cut(one_line(text), at.width - 4)))


def console(at: Screen) -> Console:
    """A rich console on stderr, with colours where the screen has them."""
    from rich.console import Console as RichConsole

    return RichConsole(
        file=at.err, no_color=not at.pen.colour, highlight=False, markup=False, width=at.width
    )
