"""The command line: `agentmem` and `python -m agentmem`."""

from __future__ import annotations

import gc
import importlib
import logging
import os
import sys
import traceback
import warnings
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import click

from agentmem.cli.common import (
    BAD_USAGE,
    CLOSED_PIPE,
    FAILED,
    INTERRUPTED,
    Group,
    exit_code,
    make_run,
    one_line,
    open_closed_streams,
    shared_options,
    to_json,
    unknown_option,
    visible,
)
from agentmem.inspector.layout import Style


def main() -> None:
    """Run the command that was typed and exit with its code."""
    gc.set_threshold(100_000)  # what is imported stays: looking for garbage in it is a tenth of it

    if not sys.warnoptions and "--debug" not in sys.argv:
        from agentmem.base.errors import AgentMemWarning

        warnings.simplefilter("ignore")
        warnings.simplefilter("default", AgentMemWarning)
        warnings.formatwarning = lambda message, *_, **__: f"Note: {message}\n"
    try:
        command().main(prog_name="agentmem")
    finally:
        gc.freeze()  # nor is there need to look for garbage while the process ends


# ----------------------------------------------------------------------------
# Completion of commands and options in bash, zsh and fish.


SHELLS = ("bash", "zsh", "fish")
_VARIABLE = "_AGENTMEM_COMPLETE"
# A start file may not have loaded what the script needs.
_ZSH = "(( $+functions[compdef] )) || { autoload -Uz compinit && compinit }\n"


def completion_options() -> list[click.Parameter]:
    """The options that show and install completion."""
    shows = "Show completion for the current shell, to copy it or customize the installation."
    installs = "Install completion for the current shell."
    return [
        click.Option(
            [name], is_flag=True, is_eager=True, expose_value=False, callback=call, help=said
        )
        for name, call, said in (
            ("--install-completion", _install, installs), ("--show-completion", _show, shows),
        )
    ]  # fmt: skip


def _show(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    if value and not ctx.resilient_parsing:
        click.echo(_script(ctx, _shell(ctx)))
        ctx.exit()


def _install(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    """Write the script where fish looks for it, or where the start file of bash or zsh is told."""
    if not value or ctx.resilient_parsing:
        return
    shell = _shell(ctx)
    home = Path.home()
    script = home / ".config" / "fish" / "completions" / "agentmem.fish"
    if shell != "fish":
        script = home / f".agentmem-completion.{shell}"
    script.parent.mkdir(parents=True, exist_ok=True)
    script.write_text(_script(ctx, shell), encoding="utf-8")
    if shell != "fish":
        start, line = home / f".{shell}rc", f'. "$HOME/{script.name}"'
        said = start.read_text("utf-8") if start.exists() else ""
        if line not in said.splitlines():
            start.write_text(f"{said.rstrip()}\n{line}\n".lstrip(), encoding="utf-8")
    click.echo(f"{shell} completion installed in {script}; it works in the next shell.")
    ctx.exit()


def _shell(ctx: click.Context) -> str:
    name = Path(os.environ.get("SHELL", "")).name
    if name not in SHELLS:
        raise click.UsageError(
            f"completion is for {', '.join(SHELLS)}; the variable SHELL names none of them", ctx=ctx
        )
    return name


def _script(ctx: click.Context, shell: str) -> str:
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None  # noqa: S101 - click knows all of SHELLS
    script = kind(ctx.command, {}, "agentmem", _VARIABLE).source()
    return _ZSH + script if shell == "zsh" else script


# ----------------------------------------------------------------------------
# The command line as a whole: which commands there are, and how each ends.
#
# A command's module is imported when the command is used, so that help and
# completion cost little. Errors are caught here, and nowhere else, and become a
# message, a remedy and an exit code.


class ListedCommand(NamedTuple):
    """A command: where it is written and what the list of commands says of it."""

    section: str
    module: str
    name: str
    help: str


_FIND = "Remember and find"
COMMANDS = tuple(ListedCommand(*listed) for listed in (
    ("Talk", "chat", "chat", "Talk to a model that remembers."),
    ("Talk", "chat", "ask", "Ask one question and print the answer."),
    ("Talk", "index", "websearch", "Search the web and your memory for one cited answer."),
    (_FIND, "memories", "add", "Remember a text."),
    (_FIND, "memories", "search", "Find the memories that answer a query."),
    (_FIND, "memories", "list", "List memories, newest first."),
    (_FIND, "memories", "users", "List whose memories there are in the whole store."),
    (_FIND, "memories", "get", "Show one memory."),
    (_FIND, "memories", "update", "Change what a memory says."),
    (_FIND, "memories", "history", "Show what a memory said before."),
    (_FIND, "living", "learn", "Keep the facts, decisions and fixes a text states."),
    (_FIND, "living", "assemble", "Show what is worth knowing for a task, in tiers."),
    (_FIND, "living", "predict", "Show the memories most probably needed now."),
    (_FIND, "memories", "delete", "Take memories out of every read; they can still be erased."),
    (_FIND, "memories", "erase", "Remove memories so that their bytes are in no file."),
    (_FIND, "memories", "prefs", "Show and change what users told about themselves."),
    (_FIND, "index", "index", "Remember a file, a folder, a web page or stdin."),
    ("Explain", "inspect", "inspect", "Show the context that would be built now."),
    ("Explain", "inspect", "budget", "Show how a window would be filled; needs no store."),
    ("Explain", "inspect", "explain", "Show everything about a past context."),
    ("Explain", "inspect", "monitor", "Watch contexts as they are built."),
    ("Explain", "inspect", "stats", "Show figures over many contexts."),
    ("Look after", "inspect", "audit", "Look for what should not be stored."),
    ("Look after", "inspect", "doctor", "Check the environment, the store and its indexes."),
    ("Look after", "living", "consolidate", "Merge, shorten and forget; all of it can be undone."),
    ("Look after", "living", "contradictions", "Show and resolve what cannot both be true."),
    ("Look after", "living", "merge", "Put two stores, or two users' memories, together."),
    ("Serve", "connect", "serve", "Serve the memory over HTTP, with a page and a proxy."),
    ("Serve", "connect", "token", "Make, list and revoke the tokens that open it."),
    ("Look after", "moving", "export", "Write memories to a file, one JSON object a line."),
    ("Look after", "moving", "import", "Add memories that `export` wrote."),
    ("Look after", "moving", "backup", "Copy the whole store while it is in use."),
    ("Look after", "moving", "restore", "Put a backup in the place of the store."),
    ("Look after", "moving", "migrate", "Bring the tables of a database up to date."),
    ("Look after", "moving", "migrate-store", "Copy a whole store into one of another kind."),
    ("Connect", "connect", "connect", "Connect a coding agent or another program to this memory."),
    ("Connect", "connect", "mcp", "Serve this memory to a program by the Model Context Protocol."),
    ("Connect", "connect", "hook",
     "Take an event of a coding agent: show what is known, keep what is said."),
))  # fmt: skip

_HELP = """\
Memory for LLM agents, on this machine: no key and no network needed.

The options below can stand before a command or after it.

For example: agentmem add Alice prefers Python for scripts
"""
_BY_NAME = {listed.name: listed for listed in COMMANDS}


class LazyCommands(Group):
    """The commands of `COMMANDS`, each loaded when it is asked for; and how a command ends."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(_BY_NAME)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        listed = _BY_NAME.get(cmd_name)
        return None if listed is None else _load(listed.module).get(cmd_name)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        for section in dict.fromkeys(listed.section for listed in COMMANDS):
            with formatter.section(section):
                formatter.write_dl([(x.name, x.help) for x in COMMANDS if x.section == section])

    def main(self, args: Sequence[str] | None = None, **extra: Any) -> NoReturn:  # type: ignore[override]  # it always exits
        """Run, report what went wrong, and exit with the code that says it."""
        typed = list(sys.argv[1:] if args is None else args) or ["--help"]
        extra["standalone_mode"] = False
        open_closed_streams()
        set_up_logging(_flag(typed, "--debug"))
        try:
            code = super().main(args=typed, **extra)
        except click.Abort:
            code = INTERRUPTED
        except click.ClickException as error:
            code = _report_usage(error, typed)
        except BrokenPipeError:
            code = CLOSED_PIPE
        except Exception as error:  # noqa: BLE001 - the edge: whatever it is, say it in words
            code = _report(error, typed)
        except SystemExit as ended:
            # click met a closed pipe in its own output, and says it by wrapping stdout
            code = CLOSED_PIPE if type(sys.stdout).__name__ == "PacifyFlushWrapper" else ended.code
        sys.exit(code if isinstance(code, int) else 0)


def _flag(args: Sequence[str], name: str) -> bool:
    """Whether a flag stands among the arguments, also when they could not be parsed."""
    end = args.index("--") if "--" in args else len(args)
    return name in args[:end]


def _report_usage(error: Any, args: Sequence[str]) -> int:
    message = one_line(error.format_message())
    context = getattr(error, "ctx", None)
    if isinstance(error, click.NoSuchOption) and context is not None:
        message = one_line(unknown_option(error.option_name, context.command))
    path = context.command_path if context is not None else "agentmem"
    remedy = f"See `{path} --help`."
    usage = context.get_usage() + "\n" if context is not None else ""
    words = f"{usage}Error: {message} {remedy}"
    _complain(args, words, type="UsageError", message=message, remedy=remedy)
    return int(getattr(error, "exit_code", BAD_USAGE))


def _report(error: Exception, args: Sequence[str]) -> int:
    if _flag(args, "--debug"):
        told = visible("".join(traceback.format_exception(error)).rstrip())
        make_run().complain(told, whole=True)
    message = str(getattr(error, "message", "")) or str(error) or type(error).__name__
    remedy = str(getattr(error, "remedy", ""))
    code = exit_code(error)
    if code == FAILED and not hasattr(error, "remedy"):
        message = f"{type(error).__name__}: {message}"
        remedy = "" if _flag(args, "--debug") else "Run it again with --debug to see where."
    words = " ".join(part for part in ("Error:", one_line(message), one_line(remedy)) if part)
    kind = type(error).__name__
    _complain(args, words, style="bad", type=kind, message=message, remedy=remedy)
    return code


def _complain(args: Sequence[str], words: str, *, style: Style | None = None, **error: str) -> None:
    """Say what went wrong in words, or as the JSON that `--json` promises."""
    at = make_run(colour=not _flag(args, "--no-color"))
    if _flag(args, "--json"):
        at.complain(to_json({"error": error}, ascii_only=True), whole=True)
    else:
        at.complain(words, style=style)


@cache
def _load(module: str) -> Mapping[str, click.Command]:
    """The commands of a module by name, with the shared options."""
    written = importlib.import_module(f"agentmem.cli.{module}")
    app = Group()
    for listed in (one for one in COMMANDS if one.module == module):
        name = listed.name.replace("-", "_")
        found = getattr(written, name, None) or getattr(written, f"{name}_")
        command = found if isinstance(found, click.Command) else app.command(listed.name)(found)
        app.add_command(command, listed.name)
        command.short_help = listed.help
        for one in _walk(command):
            _share_options(one)
    return app.commands


def _walk(command: Any) -> Iterator[Any]:
    yield command
    for inner in getattr(command, "commands", {}).values():
        yield from _walk(inner)


def _share_options(command: click.Command) -> None:
    """Add the shared options that the command does not have itself."""
    own = {option for param in command.params for option in param.opts}
    command.params += [param for param in shared_options() if own.isdisjoint(param.opts)]


@cache
def command() -> LazyCommands:
    """The whole command line, ready to run."""
    made = LazyCommands(
        name="agentmem",
        callback=lambda: None,
        help=_HELP,
        params=completion_options(),
        context_settings={"help_option_names": ["-h", "--help"]},
        epilog="Exit codes: 0 done, 1 failed, 2 wrong usage, 3 no such memory, 4 the store has a "
        "problem, 5 nothing found, 130 interrupted.",
    )
    _share_options(made)
    return made


def set_up_logging(debug: bool) -> None:
    """Log lines on stderr with `--debug`; without, what must be known is in the output."""
    log = logging.getLogger("agentmem")
    for handler in list(log.handlers):
        log.removeHandler(handler)
    log.setLevel(logging.DEBUG if debug else logging.NOTSET)
    handler = logging.StreamHandler(sys.stderr) if debug else logging.NullHandler()
    handler.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
    log.addHandler(handler)
