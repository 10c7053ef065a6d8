"""Learn facts, decisions and fixes from a text or a conversation."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_args

import click

from agentmem.base.errors import InvalidInput
from agentmem.cli.common import (
    LEAST_OF_AN_ID,
    CommandRun,
    F,
    Group,
    argument,
    one_line,
    read_pairs,
    read_text,
    visible,
    words_argument,
)
from agentmem.cli.memories import short_id
from agentmem.inspector.layout import many
from agentmem.inspector.look import undo_command

if TYPE_CHECKING:
    from agentmem.living.consolidate import ConsolidationReport
    from agentmem.living.learn import Learned
    from agentmem.living.settle import Contradiction
    from agentmem.memory.manager import MemoryManager


MESSAGE_FILES = (".json", ".jsonl")


_MODEL_OPTIONS = (
    click.option("--model", metavar="NAME", help="A litellm model that helps; none by default."),
    click.option("--max-calls", metavar="N", type=int, help="Ask the model at most so often."),
    click.option(
        "--max-tokens", metavar="N", type=int, help="At most so many tokens, in and out together."
    ),
)


def model_options(command: F) -> F:
    """Give a command the options of a model that helps; `helped_by` reads them."""
    for option in reversed(_MODEL_OPTIONS):
        command = option(command)
    return command


@words_argument()
@click.option("--file", metavar="PATH", help="Read a file; .json and .jsonl are messages.")
@model_options
@click.option("--dry-run", is_flag=True, help="Say what would be learned; change nothing.")
def learn(
    at: CommandRun,
    text: str | None,
    *,
    file: str | None,
    dry_run: bool,
    **asked: Any,
) -> None:
    """Keep the facts, decisions and fixes that a text of the user's states.

    A later value takes the earlier one's place; all of it is one step that
    `agentmem consolidate --undo ID` takes back. Of messages only the user's are
    read. A model finds more than the rules do; what it proposes is kept only if
    the text says it. Exits with 0 also when there was nothing to learn.

    For example: agentmem learn --file notes.txt --dry-run
    """
    if file is not None and text:
        raise InvalidInput("--file", file, "and a text exclude each other", remedy="Give one.")
    data = read_text(text) if file is None else read_said(Path(file))
    if isinstance(data, str) and not data.strip():
        raise InvalidInput("text", data, "is empty", remedy="Say what is to be learned from.")
    with at.memory() as memory:
        learned = memory.living.learn(data, dry_run=dry_run, **helped_by(**asked), **at.whose)
    lines = learned_lines(learned)
    if learned.journal_id and not learned.dry_run:
        lines.append(f"Take it back with: {undo_command(memory, learned.journal_id, at.whose)}")
    at.show(learned.to_dict(), lines)
    for note in learned.notes:
        at.note(one_line(note))


_task_argument = argument("task", nargs=-1, metavar="TASK", help="What is being done, in words.")
_signal_option = click.option(
    "--signal", "signals", multiple=True, metavar="KIND=VALUE",
    help="What is going on: file, branch, error, time, collaborator, tool or task; repeatable.",
)  # fmt: skip


@_task_argument
@_signal_option
@click.option("--budget", default=8_000, metavar="N", type=int, help="At most so many tokens.")
@click.option("--activity", default="general", metavar="NAME", help="How the tiers are divided.")
@click.option("--model", default="", metavar="NAME", help="Whose tokens are counted.")
def assemble(
    at: CommandRun, task: tuple[str, ...], *, signals: tuple[str, ...], budget: int, **how: Any
) -> None:
    """Show what is worth knowing for a task, in four tiers, within a token budget.

    For example: agentmem assemble fix the parser --budget 2000
    """
    with at.memory() as memory:
        found = memory.living.assemble_context(
            budget, signals=read_signals(signals), task=" ".join(task), **how, **at.whose
        )
    shown = [fate for fate in found.fates if fate.outcome != "dropped"]
    tiers = [
        {"tier": n, "budget_tokens": of, "tokens": found.tier_tokens.get(n, 0)}
        for n, of in found.tier_budgets.items()
    ]
    sources = [{"id": f.id, "tier": f.tier, "tokens": f.tokens, "why": f.why} for f in shown]
    document = {
        "text": found.text, "tokens": found.tokens, "budget_tokens": found.budget_tokens,
        "tiers": tiers, "sources": sources, "degradations": list(found.degradations),
    }  # fmt: skip
    at.show(document, visible(found.text) or "Nothing is known that would help.")
    at.note(f"{found.tokens:,} of {found.budget_tokens:,} tokens, {many(len(shown), 'memory')}")
    for problem in found.degradations:
        at.note(one_line(problem))


@_task_argument
@_signal_option
@click.option("--limit", default=10, metavar="N", type=int, help="At most so many memories.")
def predict(at: CommandRun, task: tuple[str, ...], *, signals: tuple[str, ...], limit: int) -> None:
    """Show the memories most probably needed in this situation, the surest first.

    For example: agentmem predict fix the parser --limit 5
    """
    said = [*read_signals(signals), *([("task", " ".join(task))] if task else [])]
    with at.memory() as memory:
        found = memory.living.predict(said, limit, **at.whose)
    document = [
        {"id": p.memory.id, "text": p.memory.text, "confidence": p.confidence,
         "because": list(p.because)} for p in found
    ]  # fmt: skip
    lines = [
        f"{p.confidence:.2f}  {one_line(p.memory.text)}  ({short_id(p.memory.id)})" for p in found
    ]
    at.show({"predictions": document}, lines or "Nothing was used in such a situation yet.")


def read_signals(written: tuple[str, ...]) -> list[tuple[str, str]]:
    """Signals as they are typed: `file=app.py`."""
    remedy = "Write KIND=VALUE, such as file=app.py."
    return read_pairs(written, "--signal", "is no signal", remedy=remedy)


def helped_by(model: str | None, max_calls: int | None, max_tokens: int | None) -> dict[str, Any]:
    """The model that helps and what it may spend, as the memory's calls take them."""
    from agentmem.living.models import Spend

    limits = {"calls": max_calls, "tokens": max_tokens}
    typed = {name: most for name, most in limits.items() if most is not None}
    if model is None and typed:
        name, most = next(iter(typed.items()))
        problem, remedy = "limits a model, and none was named", "Add --model NAME, or leave it out."
        raise InvalidInput(f"--max-{name}", most, problem, remedy=remedy)
    return {"model": model, "spend": Spend(**typed) if typed else None}


def read_said(path: Path) -> str | list[Any]:
    """What a file says: its text, or the messages in it."""
    from agentmem.sources.files import read_file

    text = read_file(path).text
    if path.suffix.lower() not in MESSAGE_FILES:
        return text
    try:
        if path.suffix.lower() == ".jsonl":
            return [json.loads(line) for line in text.splitlines() if line.strip()]
        found = json.loads(text)
    except ValueError as error:
        raise InvalidInput(
            "--file", str(path), f"is not JSON ({error})", remedy="Name a text file, or mend it."
        ) from None
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
            f"Asked the model {many(learned.model_calls, 'time')}, "
            f"{many(learned.model_tokens, 'token')}; "
            f"{learned.rejected:,} proposals refused."
        )
    if learned.dry_run:
        lines.append("Nothing was changed.")
    return lines


# ----------------------------------------------------------------------------
# Keep a memory in order: consolidate and undo, resolve contradictions, merge.


COUNTED = (
    ("deduped", "merged"),
    ("superseded", "superseded by a later value"),
    ("summarised", "summarised"),
    ("compressed", "compressed"),
    ("forgotten", "forgotten"),
    ("cooled", "put away"),
    ("contradictions", "contradictions opened"),
    ("links", "links found"),
    ("reranked", "ranked anew by use"),
)


@click.option("--dry-run", is_flag=True, help="Say what a run would do; change nothing.")
@click.option("--undo", metavar="ID", help="Take this run back.")
@click.option("--full", is_flag=True, help="Compare everything, not only what is new.")
@click.option("--everyone", is_flag=True, help="Of every user, one run each.")
@click.option("--log", is_flag=True, help="List the runs that were made.")
@model_options
def consolidate(
    at: CommandRun,
    *,
    undo: str | None,
    everyone: bool,
    log: bool,
    dry_run: bool,
    full: bool,
    **asked: Any,
) -> None:
    """Merge duplicates, shorten what is old, forget what nobody needs, find contradictions.

    A run changes everything in one step and can be taken back with --undo, as
    what `agentmem learn` added can. A model writes shorter summaries and looks
    at what the rules are not sure of; each user's run may spend as much.

    For example: agentmem consolidate --dry-run
    """
    with at.memory() as memory:
        if undo is not None:
            _undo(at, memory, undo, at.whose)
        elif log:
            _log(at, memory, at.whose)
        else:
            readers = _readers(at, memory, everyone)
            _run(at, memory, readers, dry_run=dry_run, full=full, **helped_by(**asked))


def _readers(at: CommandRun, memory: MemoryManager, everyone: bool) -> list[dict[str, Any]]:
    if not everyone:
        return [at.whose]
    if at.named:
        raise InvalidInput("--everyone", True, "and a name exclude each other", remedy="Use one.")
    return [
        {name: getattr(scope, name) for name in scope.__slots__}
        for scope in memory.store.upkeep.owners()
    ]


def _run(
    at: CommandRun, memory: MemoryManager, readers: list[dict[str, Any]], **options: Any
) -> None:
    reports = [memory.living.consolidate(**options, **whose) for whose in readers]
    lines = []
    for whose, report in zip(readers, reports, strict=True):
        if len(readers) > 1:
            lines.append(at.pen.paint(one_line(whose["user_id"] or "without a user"), "accent"))
        lines += report_lines(report)
        if report.journal_id and not (report.empty or report.dry_run):
            lines.append(f"Take it back with: {undo_command(memory, report.journal_id, whose)}")
    shown = [report.to_dict() for report in reports]
    at.show(shown[0] if len(shown) == 1 else {"runs": shown}, lines)


def report_lines(report: ConsolidationReport) -> list[str]:
    """What a run did, one line a sort."""
    looked = f"{many(report.memories, 'memory')}, {report.looked_at:,} new to consolidation"
    if report.empty:
        return [f"Nothing to do ({looked}, {report.duration_seconds:.1f} s)."]
    counts = [(getattr(report, name), said) for name, said in COUNTED]
    lines = [f"{count:>7,}  {said}" for count, said in counts if count]
    lines.append(f"{report.tokens_saved:>7,}  tokens saved where memories are shown")
    lines += [f"         {one_line(note)}" for note in report.notes]
    lines.append(f"{looked}, {report.duration_seconds:.1f} s")
    if report.dry_run:
        lines.append("Nothing was changed.")
    return lines


def _undo(at: CommandRun, memory: MemoryManager, given: str, whose: dict[str, Any]) -> None:
    if len(given.strip()) < LEAST_OF_AN_ID:
        remedy = "See them with `agentmem consolidate --log`."
        raise InvalidInput("--undo", given, "is no id of a run", remedy=remedy)
    meant = [
        run.id for run in memory.living.journal(limit=1_000, **whose) if run.id.endswith(given)
    ]
    undone = memory.living.undo(meant[0] if len(meant) == 1 else given, **whose)
    restored, relations = many(undone.restored, "memory"), many(undone.relations, "relation")
    lines = [f"Undone: {restored} and {relations} are back."]
    if undone.removed:
        lines.append(f"Deleted: {many(undone.removed, 'memory')} that it had added.")
    told = dataclasses.asdict(undone)
    at.show({"journal_id": told.pop("id"), **told}, lines)
    if undone.left:
        at.note(f"Changed since and left as they are: {', '.join(undone.left[:10])}")


def _log(at: CommandRun, memory: MemoryManager, whose: dict[str, Any]) -> None:
    runs = memory.living.journal(**whose)
    document = [
        {"id": run.id, "kind": run.kind, "at": run.created_at, "undone": run.undone_at,
         "changes": run.items, "report": dict(run.report)} for run in runs
    ]  # fmt: skip
    lines = [
        f"{run.id}  {run.created_at:%Y-%m-%d %H:%M}  {run.kind}  "
        + ("undone" if run.undone_at is not None else f"{run.items:,} changes")
        for run in runs
    ]
    at.show({"runs": document}, lines)
    if not runs:
        at.note("No runs were made.")


@click.group(cls=Group, invoke_without_command=True)
@click.pass_context
def contradictions(ctx: click.Context) -> None:
    """Show and resolve what cannot both be true; alone it lists what is open.

    For example: agentmem contradictions list
    """
    if ctx.invoked_subcommand is None:
        list_contradictions.invoke(ctx)


@contradictions.command("list")
@click.option("--all", "everything", is_flag=True, help="The resolved ones too.")
def list_contradictions(at: CommandRun, *, everything: bool = False) -> None:
    """List contradictions, oldest first: the open ones, or all.

    For example: agentmem contradictions list --all
    """
    with at.memory() as memory:
        found = memory.living.contradictions(open_only=not everything, **at.whose)
    lines = [line for one in found for line in contradiction_lines(at, one)]
    at.show({"contradictions": [one.to_dict() for one in found]}, lines)
    if not found:
        at.note("Nothing contradicts anything that is known.")


@contradictions.command()
@argument("id", metavar="ID", help="An id from `list`, or how it begins.")
def show(at: CommandRun, id: str) -> None:  # noqa: A002 - as it is shown
    """Show one contradiction with both memories.

    For example: agentmem contradictions show 9e2ab146
    """
    with at.memory() as memory:
        found = memory.living.contradiction(id, **at.whose)
    at.show(found.to_dict(), contradiction_lines(at, found))


@contradictions.command()
@argument("id", metavar="ID", help="An id from `list`, or how it begins.")
@argument("resolution", metavar="HOW", help="a_wins, b_wins, both_valid or merged.")
@click.option("--text", default="", help="With merged: what stands in the place of both.")
@click.option("--note", default="", help="Why, for later.")
def resolve(at: CommandRun, id: str, resolution: str, **said: str) -> None:  # noqa: A002 - as it is shown
    """Say which memory is true; the other one is superseded, and kept.

    For example: agentmem contradictions resolve 9e2ab146 b_wins
    """
    from agentmem.living.settle import Resolution

    how = resolution.replace("-", "_").lower()
    if how not in get_args(Resolution):
        remedy = f"Use one of: {', '.join(get_args(Resolution))}."
        raise InvalidInput("HOW", resolution, "is no resolution", remedy=remedy)
    with at.memory() as memory:
        done = memory.living.resolve(id, cast("Resolution", how), **said, **at.whose)
    written = {**done.contradiction.to_dict(), "journal_id": done.journal_id}
    at.show(written, f"Resolved: {done.contradiction.id} ({how})")
    at.note(f"Take it back with: {undo_command(memory, done.journal_id, at.whose)}")


def contradiction_lines(at: CommandRun, one: Contradiction) -> list[str]:
    """A contradiction: what it is about, both sides, and what became of it."""
    about = f"{one.subject}: {one.a_value} / {one.b_value}" if one.subject else one.reason
    head = f"{one.id}  {one.state}  {about}"
    lines = [at.pen.paint(one_line(head), "accent")]
    for name, side in (("a", one.a), ("b", one.b)):
        lines.append(f"  {name}  {side.created_at:%Y-%m-%d}  {one_line(side.text)}")
    if one.note:
        lines.append(f"     {one_line(one.note)}")
    return lines


@argument("a", metavar="A", help="Into which: a store's file, or a user.")
@argument("b", metavar="B", help="What is taken in: a file, or a user.")
def merge(at: CommandRun, a: str, b: str) -> None:
    """Merge the store B into the store A, or a copy of user B's memories into user A's.

    What both have is kept once, B stays as it is, and where they disagree it
    is said what was done.

    For example: agentmem merge memory.db laptop.db
    """
    files = [Path(name).is_file() for name in (a, b)]
    if all(files):
        from agentmem.memory.opening import open as open_store

        with open_store(a, embedder=None) as memory:
            report = memory.upkeep.merge_from(b)
    elif any(files):
        name, missing = ("B", b) if files[0] else ("A", a)
        remedy = "Name two stores that are there, or two users of --store."
        raise InvalidInput(name, missing, "is no store's file, and the other one is", remedy=remedy)
    else:
        with at.memory() as memory:
            known = {scope.user_id for scope in memory.store.upkeep.owners()}
            if b not in known:
                problem = "is neither a store nor a user with memories"
                remedy = "Name two files, or two users of --store."
                raise InvalidInput("B", b, problem, remedy=remedy)
            report = memory.upkeep.merge_from(user_id=b, into=a)
    counts = (
        f"Added: {report.added:,}. There already: {report.same:,}. Renamed: {report.renamed:,}. "
        f"Contradictions: {report.contradictions:,}."
    )
    shown = [
        f"  {one.kind}  {one_line(one.about)}: {one_line(one.done)}"
        for one in report.conflicts[:20]
    ]
    at.show(report.to_dict(), [counts, *shown])
    if len(report.conflicts) > 20:
        at.note(f"and {len(report.conflicts) - 20:,} more; --json shows all")
