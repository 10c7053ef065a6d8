"""What every command has: the shared options, the memory they name, ids and texts as typed."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TextIO, TypeVar

import click

from agentmem.base import errors
from agentmem.base.errors import InvalidInput, RecordNotFound, SnapshotNotFound
from agentmem.inspector.layout import Pen, Style
from agentmem.search.embedders.base import DEFAULT
from agentmem.stores.values import is_dsn

if TYPE_CHECKING:
    from rich.console import Console

    from agentmem.base.types import Scope
    from agentmem.memory.manager import MemoryManager


# ----------------------------------------------------------------------------
# What the commands print: lines for people, one JSON document for programs.
#
# Stored text was written by anybody. Nothing of it reaches a terminal that could
# move the cursor, change colours, set a title or hide other text.


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
_MARKS, _EVERYWHERE = "█░…›", "\U0001f600é漢"
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


def wrap_line(pen: Pen, line: str, width: int) -> list[str]:
    """A line wrapped between words, each part indented as the line is."""
    text = line.translate(_NO_JOINERS)
    indent = min(len(text) - len(text.lstrip(" ")), width // 2)
    return [" " * indent + part for part in pen.wrap(text[indent:].rstrip(), width - indent)]


def make_run(*, colour: bool = True, **said: Any) -> CommandRun:
    """A run on the streams of this process, as these, NO_COLOR and COLUMNS say."""
    out, err = sys.stdout, sys.stderr
    for stream in (out, err):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:  # what the terminal cannot show is written as \x…
            reconfigure(errors="backslashreplace")
    on_terminal = out.isatty()
    plain = not colour or bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
    columns = shutil.get_terminal_size((WITHOUT_TERMINAL, 24)).columns
    return CommandRun(
        out=out,
        err=err,
        pen=Pen(ascii_only=not can_show(out, _MARKS), colour=on_terminal and not plain),
        width=min(WIDEST, max(NARROWEST, columns)),
        on_terminal=on_terminal,
        talks=sys.stdin is not None and sys.stdin.isatty() and err.isatty(),
        **said,
    )


def can_show(stream: TextIO, text: str) -> bool:
    """Whether the stream's encoding has every character of `text`."""
    try:
        text.encode(stream.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


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


OK, FAILED, BAD_USAGE, NOT_FOUND, STORE_PROBLEM, NOTHING_FOUND, INTERRUPTED = 0, 1, 2, 3, 4, 5, 130

LEAST_OF_AN_ID = 4
SEARCHED_CONTEXTS = 2_000
EMBEDDER_VARIABLE = "AGENTMEM_EMBEDDER"
IN_PROCESS = ":memory:"
_META = "agentmem.said"
_KEEPING = ("add", "learn", "index", "websearch", "chat", "ask", "import", "serve", "make")
"""The commands that make the store if it is not there."""
_OWNERS = ("user", "project", "agent", "run")
_SAID_OTHERWISE = {"top_k": "limit", "kinds": "kind", "limit_tokens": "budget"}
"""What Python calls something that commands have another word for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandRun:
    """A command under way: where it prints, and what the shared options say; unsaid is `None`.

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
    store: str | None = None
    user: str | None = None
    project: str | None = None
    agent: str | None = None
    run: str | None = None
    yes: bool = False
    keeps: bool = False
    """Whether it makes the store that was typed, if that is not there."""

    def print(self, lines: str | Iterable[str]) -> None:
        """Write lines that are fit to be seen: stored text has gone through `visible`."""
        text = lines if isinstance(lines, str) else "\n".join(lines)
        self.write(text + "\n")

    def show(self, value: Any, lines: str | Sequence[str] = ()) -> None:
        """Write `value` as the JSON document where that is wanted, else the lines, if any."""
        if self.json:
            self.document(value)
        elif lines:
            self.print(lines)

    def document(self, value: Any) -> None:
        """Write the one JSON document of this command."""
        self.write(to_json(value, ascii_only=not can_show(self.out, _EVERYWHERE)) + "\n")

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

    def note_problems(self, degradations: Iterable[str]) -> None:
        """Say what did not work on the way."""
        for problem in dict.fromkeys(degradations):
            self.note(f"Note: {one_line(problem)}")

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

    @property
    def named(self) -> bool:
        """Whether somebody's memory was asked for rather than the whole store."""
        return any((self.user, self.project, self.agent, self.run))

    @property
    def whose(self) -> dict[str, Any]:
        """The names as the manager's calls take them."""
        return {f"{name}_id": getattr(self, name) for name in _OWNERS}

    @property
    def scope(self) -> Scope:
        from agentmem.base.types import Scope

        return Scope(**self.whose)

    @property
    def reader(self) -> Scope | None:
        """The scope for commands that an operator may ask of the whole store."""
        return self.scope if self.named else None

    @property
    def path(self) -> Path | None:
        """The store's file; `None` when it is kept in this process or in a database."""
        from agentmem.base.config import default_path

        if self.store == IN_PROCESS or is_dsn(self.store):
            return None
        return Path(self.store).expanduser() if self.store else default_path()

    @property
    def history(self) -> Path | None:
        """Where the lines this user types into `chat` are kept: beside the store, if it is a file.

        The name of the file does not say the user's.
        """
        import hashlib

        path = self.path
        if path is None:
            return None
        data = (self.user or "").encode("utf-8", "surrogatepass")
        whose = f"-{hashlib.blake2b(data, digest_size=6).hexdigest()}" if data else ""
        return path.with_name(f"{path.name}.history{whose}")

    def memory(self, **settings: Any) -> MemoryManager:
        """The memory the options name, to be used as a context; created by its first write."""
        from agentmem.memory.opening import open as open_store

        path = self.path
        if path is not None and self.keeps:
            self.ask_for_folder(path.parent, name="--store")
        if path is not None and not path.exists():
            settings.setdefault("save_indexes", False)  # a search must not leave files behind
        elsewhere = self.store if is_dsn(self.store) else IN_PROCESS
        return open_store(path or elsewhere, embedder=embedder_name(), **settings)

    def ask_for_folder(self, folder: Path, *, name: str, yes: bool = False) -> None:
        """Ask whether a folder that is not there may be made: its name may be misspelt."""
        if folder.exists() or yes or self.yes:
            return
        shown = one_line(str(folder))
        if not self.talks:
            remedy = "Check the path, or add --yes to make the folder."
            raise InvalidInput(name, shown, "is in a folder that is not there", remedy=remedy)
        self.confirm(f"There is no folder {shown}. Make it?", yes=False)

    def confirm(self, question: str, *, yes: bool) -> None:
        """Go on only if `--yes` was given or a person agrees; `NotConfirmed` otherwise."""
        if yes:
            return
        if not self.talks:
            problem = "is needed, and nobody can be asked here"
            raise InvalidInput("answer", "none", problem, remedy="Add --yes to go on.")
        if not click.confirm(question, err=True):
            raise NotConfirmed("Nothing was changed.")


def remember(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
    """Keep a shared option for every level: the last one typed wins, then the environment."""
    source = ctx.get_parameter_source(param.name or "")
    typed = getattr(source, "name", "") == "COMMANDLINE"
    if typed and value == "":  # --user "$UNSET" must not mean somebody else
        raise click.BadParameter(
            "is empty; leave it out or give a value", ctx=ctx, param_hint=param.opts[0]
        )
    said = ctx.meta.setdefault(_META, {})
    if typed and param.name == "store":
        said["keeps"] = True
    if value not in (None, False, "") and (typed or param.name not in said):
        said[param.name] = value
    return value


def show_version(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    """Print the version and end."""
    if not value or ctx.resilient_parsing:
        return
    from agentmem import __version__

    json = "--json" in sys.argv  # it may stand further on, where it is not read yet
    make_run(json=json).show({"version": __version__}, f"agentmem {__version__}")
    raise click.exceptions.Exit


def shared_options() -> list[click.Option]:
    """The options every command takes, before its name or after it."""

    def shared(name: str, text: str, **how: Any) -> click.Option:
        said: dict[str, Any] = {"callback": remember, "expose_value": False, "help": text, **how}
        if "metavar" in how:
            said |= {"envvar": f"AGENTMEM_{name.upper()}", "show_envvar": True}
        return click.Option([f"--{name}"], is_flag="metavar" not in how, **said)

    return [
        shared("store", "A file, or postgresql://host/db.", metavar="PATH"),
        shared("user", "Whose memory is meant.", metavar="NAME"),
        shared("project", "In which project.", metavar="NAME"),
        shared("agent", "Of which agent.", metavar="NAME"),
        shared("run", "Of which run.", metavar="NAME"),
        shared("json", "One JSON document on stdout."),
        shared("debug", "Show tracebacks and log lines."),
        shared("no-color", "No colours; NO_COLOR does it too."),
        shared("yes", "Do not ask before a folder is made."),
        shared("version", "Print the version.", callback=show_version, is_eager=True),
    ]


class Argument(click.Argument):
    """An argument that says what it is, in help and in the manual."""

    def __init__(self, names: Sequence[str], *, explained: str, **settings: Any) -> None:
        super().__init__(names, **settings)
        self.help = explained  # older releases of click take no help of an argument

    def make_metavar(self, *_: Any) -> str:
        name = self.get_help_record()[0]
        shown = name if self.required else f"[{name}]"
        return f"{shown}..." if self.nargs == -1 else shown

    def get_help_record(self, *_: Any) -> tuple[str, str]:
        return self.metavar or (self.name or "").upper(), self.help or ""


F = TypeVar("F", bound=Callable[..., Any])


def argument(name: str, *, help: str, **settings: Any) -> Callable[[F], F]:  # noqa: A002  # click's own word
    """`click.argument` that takes a help text."""
    return click.argument(name, cls=Argument, explained=help, **settings)


def words_argument(
    name: str = "text",
    *,
    help: str = "Several words need no quotes; - or nothing reads stdin.",  # noqa: A002
) -> Callable[[F], F]:
    """A text of several words, which need no quotes; `None` when there are none."""
    return argument(
        name,
        nargs=-1,
        metavar="TEXT",
        help=help,
        callback=lambda ctx, param, words: " ".join(words) if words else None,
    )


yes_option = click.option("--yes", "-y", is_flag=True, help="Do not ask.")
model_option = click.option(
    "--model",
    "-m",
    metavar="NAME",
    envvar="AGENTMEM_MODEL",
    show_envvar=True,
    help="A litellm model name; `extractive` (the default) quotes what memory has.",
)


class Command(click.Command):
    """A command whose function is given its run first, and that explains its arguments."""

    def invoke(self, ctx: click.Context) -> Any:
        assert self.callback is not None  # noqa: S101 - each is made of a function
        try:
            return ctx.invoke(self.callback, run_of(ctx), **ctx.params)
        except InvalidInput as error:
            error.message = self._as_typed(error)
            raise

    def _as_typed(self, error: InvalidInput) -> str:
        """What the error says, of the flag that was typed and not of a parameter in Python."""
        flags = {
            str(p.name): max(p.opts, key=len) for p in self.params if isinstance(p, click.Option)
        }
        said = (error.name, error.name.removesuffix("_id"), _SAID_OTHERWISE.get(error.name, ""))
        flag = next((flags[name] for name in said if name in flags), None)
        if flag is None or not error.message.startswith(f"{error.name} "):
            return error.message
        return flag + error.message[len(error.name) :]

    def format_arguments(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Nothing: releases of click that know it would write them a second time."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, kind in (("Arguments", click.Argument), ("Options", click.Option)):
            params = [param for param in self.get_params(ctx) if isinstance(param, kind)]
            records = [param.get_help_record(ctx) for param in params]
            if said := [record for record in records if record is not None]:
                with formatter.section(title):
                    formatter.write_dl(said)


class Group(click.Group):
    """Commands of ours under one name."""

    command_class = Command
    group_class = type

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if not ctx.resilient_parsing and self.get_command(ctx, args[0]) is None:
            near = did_you_mean(args[0], self.list_commands(ctx))
            raise click.UsageError(f"There is no command {args[0]!r}.{near}", ctx=ctx)
        return super().resolve_command(ctx, args)


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """A question that names what was perhaps meant, such as " Did you mean fact?"; else ""."""
    from difflib import get_close_matches

    near = get_close_matches(given.casefold(), list(known), n=2, cutoff=0.6)
    return f" Did you mean {' or '.join(near)}?" if near else ""


def unknown_option(given: str, command: click.Command) -> str:
    """Say that a command has no such option, and which one was perhaps meant."""
    known = [flag for param in command.params for flag in param.opts if flag.startswith("-")]
    other = _SAID_OTHERWISE.get(given.lstrip("-").replace("-", "_"), "")
    meant = f"--{other}" if f"--{other}" in known else given
    return f"There is no option {given!r}.{did_you_mean(meant, known)}"


def run_of(ctx: click.Context) -> CommandRun:
    """The run that the shared options say, wherever they stood."""
    said = {"keeps": False, **ctx.meta.get(_META, {})}
    said["keeps"] &= ctx.info_name in _KEEPING
    said.pop("debug", None)
    return make_run(colour=not said.pop("no_color", False), **said)


def embedder_name() -> str | None:
    """The embedder that the environment names, or the default one; `None` for words alone."""
    name = os.environ.get(EMBEDDER_VARIABLE, DEFAULT).strip()
    return None if name.lower() in ("", "none") else name


def resolve_id(
    memory: MemoryManager, given: str, whose: Mapping[str, Any], *, deleted: bool = False
) -> str:
    """The id meant by `given`: a whole one, or what only one id begins or ends with (Y2).

    Superseded memories are looked through too, and deleted ones on request.
    """
    from agentmem.base.filters import Compare, Selection
    from agentmem.search.intake import scope_of

    try:
        return memory.get(given, **whose).id
    except RecordNotFound:
        part = part_of_id(given)
        if len(part) < LEAST_OF_AN_ID:
            remedy = f"Give {LEAST_OF_AN_ID} characters or more of its beginning or end."
            raise InvalidInput("id", given, "is no whole id", remedy=remedy) from None
    selection = Selection(
        reader=scope_of(whose),
        where=Compare(field="id", operator="icontains", value=part),
        superseded=True,
        deleted=deleted,
        forgotten=True,
    )
    ids = [found.id for found in memory.store.scan(selection)]
    whole = [one for one in ids if one.lower() == part]
    return only_one(given, whole or [one for one in ids if fits(part, one)])


def part_of_id(given: str) -> str:
    """What was typed of an id, without the dots of one that was cut."""
    return given.strip().strip("….").lower()


def fits(part: str, *ids: str) -> bool:
    """Whether one of the ids begins or ends with `part`, which must be long enough to mean it."""
    ends = (one.lower() for one in ids)
    return len(part) >= LEAST_OF_AN_ID and any(
        one.startswith(part) or one.endswith(part) for one in ends
    )


def only_one(given: str, meant: Sequence[str], *, of: str = "memories") -> str:
    """The one id that is meant; an error where there is none or there are several."""
    if not meant:
        raise RecordNotFound(given) if of == "memories" else SnapshotNotFound(given)
    if len(meant) > 1:
        raise AmbiguousId(given, tuple(meant), of=of)
    return meant[0]


def resolve_context(memory: MemoryManager, given: str, scope: Scope | None) -> str:
    """The id of the context meant by `given`, or `given` where that says it all.

    That is its id or its message's, whole or what only one of the last
    contexts begins or ends with.
    """
    from agentmem.inspector.look import trace_of

    trace = trace_of(memory)
    try:
        return trace.get(given, scope=scope).id
    except SnapshotNotFound:
        part = part_of_id(given)
        latest = trace.list(limit=SEARCHED_CONTEXTS, scope=scope, texts=False)
    meant = [found.id for found in latest if fits(part, found.id, found.message_id or "")]
    return only_one(given, meant, of="contexts")


class AmbiguousId(InvalidInput):
    """Several ids begin or end like this."""

    def __init__(self, given: str, ids: tuple[str, ...], *, of: str = "memories") -> None:
        listed = ", ".join(ids[:8]) + (", …" if len(ids) > 8 else "")
        super().__init__(
            "id", given, f"could be {len(ids)} {of}", remedy=f"Give more of it: {listed}"
        )
        self.ids = ids


def read_text(given: str | None, *, name: str = "text") -> str:
    """What was typed, or all of stdin when that is `-` or nothing and stdin is not a terminal."""
    if given is not None and given != "-":
        return given
    if given is None and (sys.stdin is None or sys.stdin.isatty()):
        remedy = "Type it after the command, or pipe it in."
        raise InvalidInput(name, "", "is missing", remedy=remedy)
    data = sys.stdin.buffer.read()
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        remedy = "Convert it, with iconv for example."
        raise errors.InvalidText(name, data[:20], "is not UTF-8 text", remedy=remedy) from error


def read_pairs(
    written: Sequence[str], option: str, problem: str, *, remedy: str, empty: bool = False
) -> list[tuple[str, str]]:
    """`NAME=VALUE` as it was typed for an option; a value may be empty where that is said."""
    pairs = []
    for one in written:
        name, equals, value = one.partition("=")
        if not (equals and name.strip() and (empty or value.strip())):
            raise InvalidInput(option, one, problem, remedy=remedy)
        pairs.append((name.strip(), value))
    return pairs


class NotConfirmed(errors.AgentMemError):
    """A command that destroys was not confirmed."""


def exit_code(error: BaseException) -> int:
    """The exit code that tells what went wrong."""
    if isinstance(error, RecordNotFound | SnapshotNotFound):
        return NOT_FOUND
    if isinstance(error, InvalidInput):
        return BAD_USAGE
    if isinstance(error, errors.StoreError):
        return STORE_PROBLEM
    return FAILED


# ----------------------------------------------------------------------------
# Progress on a terminal, and silence elsewhere.


class Move(Protocol):
    """Called with how much is done, how much there is, and what comes next."""

    def __call__(self, done: int, total: int, name: str = "") -> None: ...


@contextmanager
def bar(at: CommandRun, what: str) -> Iterator[Move]:
    """A bar on stderr while something is done; nothing when stderr is not a terminal."""
    if at.json or not at.err.isatty():
        yield lambda done, total, name="": None
        return
    from rich import progress

    columns = (
        progress.TextColumn("{task.description}", markup=False),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TimeRemainingColumn(),
        progress.TextColumn("{task.fields[name]}", markup=False),
    )
    with progress.Progress(*columns, console=console(at), transient=True) as shown:
        task = shown.add_task(what, total=None, name="")

        def move(done: int, total: int, name: str = "") -> None:
            short = at.pen.cut(one_line(name), max(8, at.width - 60))
            shown.update(task, completed=done, total=total, name=short)

        yield move


@contextmanager
def steps(at: CommandRun, what: str) -> Iterator[Callable[[str], None]]:
    """A line on stderr that says what is being done; nothing when stderr is not a terminal."""
    if at.json or not at.err.isatty():
        yield lambda text: None
        return
    from rich.text import Text

    with console(at).status(Text(what)) as shown:
        yield lambda text: shown.update(Text(at.pen.cut(one_line(text), at.width - 4)))


def console(at: CommandRun) -> Console:
    """A rich console on stderr, with colours where the screen has them."""
    from rich.console import Console as RichConsole

    return RichConsole(
        file=at.err, no_color=not at.pen.colour, highlight=False, markup=False, width=at.width
    )


# ----------------------------------------------------------------------------
# Names shared.


EXTRACTIVE = "extractive"


def model_name(given: str | None) -> str:
    """The model that was named; the one that needs none if none was."""
    if given is None:
        return EXTRACTIVE
    if not given.strip():
        raise InvalidInput("--model", given, "is empty", remedy="Leave it out, or name a model.")
    return given.strip()
