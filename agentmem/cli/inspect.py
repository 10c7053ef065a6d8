"""inspect, budget, explain, monitor, stats, audit and doctor."""

from __future__ import annotations

import importlib
import os
import sys
import time
from collections import Counter, deque
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agentmem.base import errors
from agentmem.base.errors import InvalidInput
from agentmem.cli.common import (
    CommandRun,
    argument,
    fits,
    model_name,
    model_option,
    only_one,
    part_of_id,
    read_pairs,
    resolve_context,
    resolve_id,
    steps,
)
from agentmem.inspector import look, render
from agentmem.inspector.layout import many
from agentmem.inspector.look import Event, Watcher

if TYPE_CHECKING:
    from collections.abc import Callable

    from agentmem.base.types import Scope
    from agentmem.inspector.layout import Pen
    from agentmem.memory.manager import MemoryManager


POLL_SECONDS = 0.25
MOST_IDS = 5
_BLAS_THREADS = "OPENBLAS_NUM_THREADS"


def say(at: CommandRun, name: str, value: Any, write: Callable[..., str]) -> None:
    """Print `value` as JSON if asked for, else as text for this terminal."""
    if at.json:
        from agentmem.inspector.json import to_json

        at.document(to_json(name, value))
    else:
        click.echo(write(value, width=at.width, pen=at.pen))


@click.option("--query", "-q", default="", help="What the user would ask.")
@click.option("--model", "-m", default="", help="Whose window and tokens.")
@click.option("--top-k", type=int, help="How many memories at most.")
@click.option(
    "--messages",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True),
    metavar="FILE",
    help="A whole conversation: a JSON list, or a request.",
)
@click.option("--exact", is_flag=True, help="Count tokens, not estimate.")
def inspect(
    at: CommandRun, *, query: str, top_k: int | None, messages: str | None, **how: Any
) -> None:
    """Show the context that would be built now.

    For example: agentmem inspect --query "Which language?" --model gpt-4o
    """
    said = read_messages(messages) if messages else []
    import_numpy_alone()
    from agentmem.base.config import LoopConfig, RecallConfig

    config = None if top_k is None else LoopConfig(recall=RecallConfig(top_k=top_k))
    how |= {"scope": at.scope, "config": config, "messages": said}
    with at.memory() as memory:
        found = look.inspect_context(memory, query, **how)
    say(at, "inspect", found, render.render_inspection)


def read_messages(path: str) -> list[Any]:
    """The messages in a file (`-` is the standard input): a list of them, one a line, or what is
    sent to a provider, with the system prompt beside them where that is Anthropic's."""
    import json

    remedy = 'Write [{"role": "user", "content": "…"}].'
    try:
        with click.open_file(path, encoding="utf-8-sig") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise errors.FileUnreadable(
            path, f"cannot be read: {error}", remedy="Name a JSON file."
        ) from None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        try:
            found = [json.loads(line) for line in text.splitlines() if line.strip()]
        except (ValueError, RecursionError):
            raise errors.FileRefused(path, f"is not JSON ({error})", remedy=remedy) from None
    system: list[Any] = []
    if isinstance(found, dict) and "messages" in found:
        if found.get("system"):
            system = [{"role": "system", "content": found["system"]}]
        found = found["messages"]
    if not isinstance(found, list):
        raise errors.FileRefused(path, "holds no list of messages", remedy=remedy)
    return [*system, *found]


def import_numpy_alone() -> None:
    """Import numpy without a thread for every processor, which a question has no work for."""
    if "numpy" in sys.modules or _BLAS_THREADS in os.environ:
        return
    os.environ[_BLAS_THREADS] = "1"
    try:
        importlib.import_module("numpy")
    finally:
        del os.environ[_BLAS_THREADS]  # what this process starts decides for itself


@click.option("--model", "-m", default="gpt-4o", show_default=True, help="Whose window and tokens.")
@click.option("--messages", type=int, default=20, show_default=True, help="Messages of history.")
@click.option("--memories", type=int, default=5, show_default=True, help="Memories.")
@click.option("--images", type=int, default=0, show_default=True, help="Images.")
@click.option("--preferences", type=int, default=0, show_default=True, help="Preferences.")
@click.option("--tools", type=int, default=0, show_default=True, help="Tools.")
@click.option("--window", type=int, help="The model's window, if not known.")
def budget(at: CommandRun, *, model: str, window: int | None, **counts: Any) -> None:
    """Estimate where tokens would go, without a store or a request.

    For example: agentmem budget --model gpt-4o --memories 20
    """
    from agentmem.inspector.budget import estimate_budget

    say(
        at, "budget", estimate_budget(model, window_tokens=window, **counts), render.render_estimate
    )


@argument(
    "wanted", default="last", help="The id of a message or a context, or an end of it, or `last`."
)
@click.option("--diff", "other", default="", help="What changed since this one.")
@click.option("--why", "memory_id", default="", help="Why this memory is in or not.")
@click.option("--if", "changes", multiple=True, help="Decide again, such as top_k=10.")
@click.option("--message", is_flag=True, help="Show the reference too.")
def explain(
    at: CommandRun,
    wanted: str,
    *,
    other: str,
    memory_id: str,
    changes: tuple[str, ...],
    message: bool,
) -> None:
    """Explain a past context, down to what was left out.

    For example: agentmem explain last
    """
    from functools import partial

    if at.json and sum(map(bool, (other, memory_id, changes))) > 1:
        raise InvalidInput(
            "--json", "--diff, --why and --if", "is one document", remedy="Ask for one at a time."
        )
    scope = at.reader
    settings = read_pairs(changes, "--if", "is not NAME=VALUE", remedy="Write --if top_k=10.")
    with at.memory() as memory:
        wanted = resolve_context(memory, wanted, scope)
        if other:
            other = resolve_context(memory, other, scope)
            say(at, "diff", look.compare(memory, other, wanted, scope=scope), render.render_diff)
        if memory_id:
            memory_id = looked_at_id(memory, memory_id, wanted, scope)
            answer = look.explain_memory(memory, memory_id, wanted, scope=scope)
            say(at, "why", answer, render.render_why)
        if changes:
            replayed = look.replay_context(memory, dict(settings), wanted, scope=scope)
            say(at, "replay", replayed, render.render_replay)
        if not (other or memory_id or changes):
            found = look.explain(memory, wanted, scope=scope)
            say(at, "explain", found, partial(render.render_explanation, message=message))


def looked_at_id(memory: MemoryManager, given: str, wanted: str, scope: Scope | None) -> str:
    """The whole id of a memory: what the context looked at goes before what else is stored."""

    snapshot = look.explain(memory, wanted, scope=scope)
    part = part_of_id(given)
    ids = list(dict.fromkeys(seen.id for seen in snapshot.looked_at))
    if given in ids:
        return given
    if meant := [one for one in ids if fits(part, one)]:
        return only_one(given, meant)
    reader = snapshot.scope if scope is None else scope
    whose = {name: getattr(reader, name) for name in reader.__slots__}
    try:
        return resolve_id(memory, given, whose, deleted=True)
    except errors.RecordNotFound:
        raise errors.RecordNotFound(given, remedy=_ids_to_name(part, ids, wanted)) from None


def _ids_to_name(part: str, ids: list[str], wanted: str) -> str:
    """What to ask for instead: the ids a context looked at, those most like `part` first."""
    from difflib import SequenceMatcher

    if not ids:
        return f"Context {wanted} looked at no memory; see what is stored with `agentmem list`."
    ranked = sorted(ids, key=lambda one: -SequenceMatcher(None, part, one.lower()).ratio())
    listed = ", ".join(ranked[:MOST_IDS]) + (", …" if len(ids) > MOST_IDS else "")
    return f"Context {wanted} looked at: {listed}"


@click.option("--follow", "-f", is_flag=True, help="Go on until Ctrl-C.")
@click.option("--limit", type=int, default=20, show_default=True, help="How many to begin with.")
def monitor(at: CommandRun, follow: bool, limit: int) -> None:
    """Show contexts as any process builds them.

    For example: agentmem monitor --follow
    """
    with at.memory() as memory, suppress(KeyboardInterrupt):
        watcher = Watcher(memory, scope=at.reader, limit=limit)
        if follow and at.on_terminal and not at.json:
            follow_live(watcher, at.pen, poll_seconds=POLL_SECONDS)
        else:
            _print_lines(at, watcher, follow=follow)


def _print_lines(at: CommandRun, watcher: Watcher, *, follow: bool) -> None:
    while True:
        for event in watcher.poll():
            if at.json:
                import json

                from agentmem.inspector.json import to_json

                click.echo(json.dumps(to_json("monitor", event), ensure_ascii=False))
            else:
                click.echo(render.render_event(event, width=at.width, pen=at.pen))
        sys.stdout.flush()
        if not follow:
            return
        time.sleep(POLL_SECONDS)


@click.option("--last", default="", help="How far back: 90s, 15m, 24h, 7d.")
@click.option("--html", type=Path, help="Write a page to this file.")
def stats(at: CommandRun, last: str, html: Path | None) -> None:
    """Show figures of contexts, retrieval, indexing and the store.

    For example: agentmem stats --html stats.html
    """
    from agentmem.inspector.stats import collect_stats, read_span

    span = read_span(last) if last else None
    with at.memory() as memory:
        found = collect_stats(memory, now=datetime.now(UTC), last=span, scope=at.reader)
    if html is None:
        say(at, "stats", found, render.render_stats)
        return
    from agentmem.inspector.page import render_page
    from agentmem.stores.open_files import written_whole

    try:
        with written_whole(html) as page:
            page.write(render_page(found))
    except errors.StoreFull:
        raise
    except errors.StoreError as error:
        problem = "cannot be written"
        raise InvalidInput("--html", str(html), problem, remedy="Use another.") from error
    say(at, "stats", found, lambda *_, **__: f"Written to {html}")


def audit(at: CommandRun) -> None:
    """Look for trouble in what is stored; nothing is changed.

    For example: agentmem audit --user ana
    """
    from agentmem.inspector.audit import audit as look_through

    with at.memory() as memory, steps(at, "looking") as tell:
        found = look_through(
            memory,
            now=datetime.now(UTC),
            scope=at.reader,
            on_progress=lambda seen: tell(f"{many(seen, 'memory')} looked at"),
        )
    say(at, "audit", found, render.render_audit)


@model_option
def doctor(at: CommandRun, *, model: str | None) -> None:
    """Check environment, models, store, indexes, jobs and connected programs.

    The exit code is 1 when something failed. The model is the one that `chat` and `ask` would
    use; it is not asked anything.

    For example: agentmem doctor --model gpt-4o
    """
    from dataclasses import replace

    from agentmem.cli.connect import examine_programs
    from agentmem.inspector.doctor import examine

    now, asked = datetime.now(UTC), model_name(model)
    try:
        with at.memory() as memory:
            found = examine(memory, now=now, model=asked)
    except errors.AgentMemError as error:
        about = getattr(error, "name", "")
        name = "embedder" if about == "embedder" else "store"
        remedy = error.remedy or "Check the path, or restore a backup."
        found = examine(None, now=now, problem=error.message, remedy=remedy, name=name, model=asked)
    found = replace(found, checks=(*found.checks, *examine_programs()))
    say(at, "doctor", found, render.render_doctor)
    raise click.exceptions.Exit(found.exit_code)


# ----------------------------------------------------------------------------
# The monitor on a terminal: the last contexts, drawn again whenever one is added.


def follow_live(watcher: Watcher, pen: Pen, *, poll_seconds: float) -> None:
    """Draw what happens until Ctrl-C; the last state stays on the screen."""
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    console = Console(no_color=not pen.colour, highlight=False)
    events: deque[Event] = deque(maxlen=500)
    seen = Counter[str]()

    def draw() -> Text:
        width, height = console.size
        shown: list[str] = []
        for event in reversed(events):
            lines = render.render_event(event, width=width, pen=pen).split("\n")
            if len(shown) + len(lines) > height - 3:
                break
            shown = [*lines, *shown]
        counts = [many(seen[kind], kind) for kind in ("context", "response")]
        head = pen.paint(pen.cut(f"agentmem monitor  {', '.join(counts)}", width), "bold")
        return Text.from_ansi("\n".join([head, *shown, pen.paint("Ctrl-C ends.", "dim")]))

    with Live(draw(), console=console, auto_refresh=False, screen=False) as live:
        while True:
            fresh = watcher.poll()
            events.extend(fresh)
            seen.update(event.kind for event in fresh)
            live.update(draw(), refresh=bool(fresh))
            time.sleep(poll_seconds)
