"""Learn facts, decisions and fixes from a text or a conversation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agentmem.cli.common import argument, open_memory, read_text, screen_of, whose_of
from agentmem.cli.output import one_line
from agentmem.cli.storing import join
from agentmem.errors import InvalidInput
from agentmem.inspector.commands import undo_command

if TYPE_CHECKING:
    from agentmem.living.asking import Spend
    from agentmem.living.learning import Learned

MESSAGE_FILES = (".json", ".jsonl")


def register(app: click.Group) -> None:
    """Add the commands of this module."""
    app.command("learn")(learn)


@argument(
    "text", nargs=-1, metavar="TEXT", help="Several words need no quotes; - or nothing reads stdin."
)
@click.option("--file", metavar="PATH", help="Read a file; .json and .jsonl are messages.")
@click.option("--model", metavar="NAME", help="A litellm model that helps; none by default.")
@click.option("--max-calls", metavar="N", type=int, help="Ask the model at most so often.")
@click.option(
    "--max-tokens", metavar="N", type=int, help="At most so many tokens, in and out together."
)
@click.option("--dry-run", is_flag=True, help="Say what would be learned; change nothing.")
def learn(
    ctx: click.Context,
    text: tuple[str, ...] = (),
    *,
    file: str | None = None,
    model: str | None = None,
    max_calls: int | None = None,
    max_tokens: int | None = None,
    dry_run: bool = False,
) -> None:
    """Keep the facts, decisions and fixes that a text of the user's states.

    A later value takes the earlier one's place; all of it is one step that
    `agentmem consolidate --undo ID` takes back. Of messages only the user's are
    read. A model finds more than the rules do; what it proposes is kept only if
    the text says it. Exits with 0 also when there was nothing to learn.
    """
    at = screen_of(ctx)
    if file is not None and text:
        raise InvalidInput("--file", file, "and a text exclude each other", remedy="Give one.")
    data = read_text(join(text)) if file is None else read_said(Path(file))
    if isinstance(data, str) and not data.strip():
        raise InvalidInput("text", data, "is empty", remedy="Say what is to be learned from.")
    with open_memory(ctx) as memory:
        learned = memory.learn(
            data,
            model=model,
            spend=spend_of(model, max_calls, max_tokens),
            dry_run=dry_run,
            **whose_of(ctx),
        )
    if at.json:
        at.document(learned.to_dict())
        return
    at.print(learned_lines(learned))
    if learned.journal_id and not learned.dry_run:
        at.print(f"Take it back with: {undo_command(memory, learned.journal_id, whose_of(ctx))}")
    for note in learned.notes:
        at.note(one_line(note))


def spend_of(model: str | None, calls: int | None, tokens: int | None) -> Spend | None:
    """The limit that was typed; `None` where nothing was said of it."""
    from agentmem.living.asking import Spend

    said = {name: n for name, n in (("calls", calls), ("tokens", tokens)) if n is not None}
    if not said:
        return None
    if model is None:
        raise InvalidInput(
            "--max-calls" if calls is not None else "--max-tokens",
            calls if calls is not None else tokens,
            "limits a model, and none was named",
            remedy="Add --model NAME, or leave it out.",
        )
    return Spend(**said)


def read_said(path: Path) -> str | list[Any]:
    """What a file says: its text, or the messages in it."""
    from agentmem.files import read_file

    text = read_file(path).text
    if path.suffix.lower() not in MESSAGE_FILES:
        return text
    try:
        found = _messages(text, lines=path.suffix.lower() == ".jsonl")
    except ValueError as error:
        raise InvalidInput(
            "--file", str(path), f"is not JSON ({error})", remedy="Name a text file, or mend it."
        ) from None
    return found


def _messages(text: str, *, lines: bool) -> list[Any]:
    if lines:
        return [json.loads(line) for line in text.splitlines() if line.strip()]
    found = json.loads(text)
    if isinstance(found, dict) and isinstance(found.get("messages"), list):
        found = found["messages"]
    return found if isinstance(found, list) else [found]


def learned_lines(learned: Learned) -> list[str]:
    """What was learned, one line a memory."""
    lines = []
    for one in learned.added:
        mark = "replaces the earlier value" if one.supersedes else f"new {one.kind}"
        text = one_line(one.text.removeprefix(one.title).strip() or one.text)
        lines.append(f"{one_line(one.title)}: {text}  ({mark})")
    if learned.known:
        lines.append(f"Known already: {learned.known:,}")
    if not lines:
        lines.append("Nothing to learn.")
    if learned.model_calls:
        lines.append(
            f"Asked the model {learned.model_calls:,} times, {learned.model_tokens:,} tokens; "
            f"{learned.rejected:,} proposals refused."
        )
    if learned.dry_run:
        lines.append("Nothing was changed.")
    return lines
