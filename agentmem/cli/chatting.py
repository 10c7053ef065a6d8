"""Talk to a model that remembers: a whole conversation, or one question."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from agentmem.cli.common import (
    FAILED,
    NOTHING_FOUND,
    Common,
    argument,
    common_of,
    history_path,
    open_memory,
    read_text,
    screen_of,
)
from agentmem.errors import InvalidInput

if TYPE_CHECKING:
    from agentmem.manager import MemoryManager

EXTRACTIVE = "extractive"


def register(app: click.Group) -> None:
    """Add the commands of this module."""
    app.command("chat")(chat)
    app.command("ask")(ask)


@click.option(
    "--model",
    "-m",
    metavar="NAME",
    envvar="AGENTMEM_MODEL",
    show_envvar=True,
    help="A litellm model name; `extractive` (the default) quotes what memory has.",
)
@click.option("--system", metavar="TEXT", default="", help="Instructions for the model.")
@click.option("--no-history", is_flag=True, help="Keep no file of the lines you type.")
def chat(
    ctx: click.Context,
    *,
    model: str | None = None,
    system: str = "",
    no_history: bool = False,
) -> None:
    """Talk to a model that remembers.

    Ctrl-C stops an answer, Ctrl-D or /quit leaves. /why shows what the last
    answer was given, /prefs what is known of you, /forget takes the last turn
    or one memory back. Lines that are piped in are answered one by one; it then
    exits with 1 when one of them failed.
    """
    from agentmem.cli.running import Stoppable
    from agentmem.cli.talking import Talk

    at = screen_of(ctx)
    said = common_of(ctx)
    name = model_name(model)
    with open_memory(ctx) as memory, Stoppable() as runner:
        check_readable(memory, said)
        talk = Talk(memory, at, runner, model=name, whose=said.whose, system=system)
        by_hand = at.talks and at.on_terminal and not at.json
        if by_hand:
            from agentmem.cli.prompting import typed_lines

            path = None if no_history else history_path(said)
            talk.greet()
            lines = typed_lines(talk, path)
        else:
            lines = piped_lines()
        for line in lines:
            if not talk.hear(line) or (talk.stopped and not by_hand):
                break
        if at.json:
            at.document({"model": talk.name, "turns": talk.turns})
    if by_hand:
        return
    if talk.stopped:
        raise KeyboardInterrupt
    if talk.failed:
        raise click.exceptions.Exit(FAILED)


@argument(
    "question",
    nargs=-1,
    metavar="TEXT",
    help="Several words need no quotes; - or nothing is stdin.",
)
@click.option(
    "--model",
    "-m",
    metavar="NAME",
    envvar="AGENTMEM_MODEL",
    show_envvar=True,
    help="A litellm model name; `extractive` (the default) quotes what memory has.",
)
@click.option("--system", metavar="TEXT", default="", help="Instructions for the model.")
@click.option("--no-remember", is_flag=True, help="Keep nothing of this turn.")
def ask(
    ctx: click.Context,
    question: tuple[str, ...] = (),
    *,
    model: str | None = None,
    system: str = "",
    no_remember: bool = False,
) -> None:
    """Ask one question and print the answer with its sources.

    Without a model, exits with 5 when memory has no answer.
    """
    from agentmem.cli.running import Stoppable
    from agentmem.cli.talking import Talk

    at = screen_of(ctx)
    name = model_name(model)
    asked = read_text(" ".join(question) if question else None, name="question").strip()
    if not asked:
        raise InvalidInput("question", asked, "is empty", remedy="Ask something.")
    with open_memory(ctx) as memory, Stoppable() as runner:
        check_readable(memory, common_of(ctx))
        talk = Talk(
            memory,
            at,
            runner,
            model=name,
            whose=common_of(ctx).whose,
            system=system,
            remembers=not no_remember,
        )
        found = talk.answer(asked)
        if at.json:
            at.document(talk.turns[-1])
    if talk.stopped:
        raise KeyboardInterrupt
    if not found:
        raise click.exceptions.Exit(NOTHING_FOUND)


def check_readable(memory: MemoryManager, said: Common) -> None:
    """Raise what is wrong with a store that cannot be read: a turn would go on without it."""
    memory.get_all(limit=1, **said.whose)


def model_name(given: str | None) -> str:
    """The model that was named; the one that needs none if none was."""
    if given is None:
        return EXTRACTIVE
    if not given.strip():
        raise InvalidInput("--model", given, "is empty", remedy="Leave it out, or name a model.")
    return given.strip()


def piped_lines() -> Iterator[str]:
    """The lines of stdin; what is not UTF-8 in them is replaced."""
    reconfigure = getattr(sys.stdin, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(encoding="utf-8", errors="replace")
    for line in sys.stdin:
        if line.strip():
            yield line.lstrip("\ufeff")
