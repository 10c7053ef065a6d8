"""The command line: `agentmem` and `python -m agentmem`."""

from __future__ import annotations

import gc
import importlib
import importlib.util
import logging
import os
import sys
import traceback
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

import click

from agentmem.cli.common import (
    BAD_USAGE,
    CLOSED_PIPE,
    FAILED,
    INTERRUPTED,
    Group,
    exit_code,
    make_screen,
    one_line,
    open_closed_streams,
    shared_options,
    to_json,
    unknown_option,
    visible,
)


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
    return [
        click.Option(
            ["--install-completion"], is_flag=True, is_eager=True, expose_value=False,
            callback=_install, help="Install completion for the current shell.",
        ),
        click.Option(
            ["--show-completion"], is_flag=True, is_eager=True, expose_value=False,
            callback=_show, help="Show completion for the current shell, to copy it or "
            "customize the installation.",
        ),
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedCommand:
    """A command: where it is written and what the list of commands says of it."""

    name: str
    module: str
    section: str
    help: str


def _section(section: str, module: str, **commands: str) -> tuple[ListedCommand, ...]:
    return tuple(
        ListedCommand(
            name=name.rstrip("_").replace("_", "-"), module=module, section=section, help=text
        )
        for name, text in commands.items()
    )


COMMANDS = (
    *_section(
        "Talk", "chat",
        chat="Talk to a model that remembers.",
        ask="Ask one question and print the answer.",
    ),
    *_section(
        "Talk", "index",
        websearch="Search the web and your memory for one cited answer.",
    ),
    *_section(
        "Remember and find", "memories",
        add="Remember a text.",
        search="Find the memories that answer a query.",
        list="List memories, newest first.",
        users="List whose memories there are in the whole store.",
        get="Show one memory.",
        update="Change what a memory says.",
        history="Show what a memory said before.",
    ),
    *_section(
        "Remember and find", "living",
        learn="Keep the facts, decisions and fixes a text states.",
        assemble="Show what is worth knowing for a task, in tiers.",
        predict="Show the memories most probably needed now.",
    ),
    *_section(
        "Remember and find", "memories",
        delete="Take memories out of every read; they can still be erased.",
        erase="Remove memories so that their bytes are in no file.",
    ),
    *_section(
        "Remember and find", "memories",
        prefs="Show and change what users told about themselves.",
    ),
    *_section(
        "Remember and find", "index",
        index="Remember a file, a folder, a web page or stdin.",
    ),
    *_section(
        "Explain", "inspect",
        inspect="Show the context that would be built now.",
        budget="Show how a window would be filled; needs no store.",
        explain="Show everything about a past context.",
        monitor="Watch contexts as they are built.",
        stats="Show figures over many contexts.",
    ),
    *_section(
        "Look after", "inspect",
        audit="Look for what should not be stored.",
        doctor="Check the environment, the store and its indexes.",
    ),
    *_section(
        "Look after", "living",
        consolidate="Merge, shorten and forget; all of it can be undone.",
        contradictions="Show and resolve what cannot both be true.",
        merge="Put two stores, or two users' memories, together.",
    ),
    *_section(
        "Serve", "serving",
        serve="Serve the memory over HTTP, with a page and a proxy.",
        token="Make, list and revoke the tokens that open it.",  # noqa: S106 - a command's help
    ),
    *_section(
        "Look after", "moving",
        export="Write memories to a file, one JSON object a line.",
        import_="Add memories that `export` wrote.",
        backup="Copy the whole store while it is in use.",
        restore="Put a backup in the place of the store.",
        migrate="Bring the tables of a database up to date.",
        migrate_store="Copy a whole store into one of another kind.",
    ),
    *_section(
        "Connect", "connect",
        connect="Connect a coding agent or another program to this memory.",
        mcp="Serve this memory to a program by the Model Context Protocol.",
        hook="Take an event of a coding agent: show what is known, keep what is said.",
    ),
)  # fmt: skip

_HELP = """\
Memory for LLM agents, on this machine: no key and no network needed.

The options below can stand before a command or after it.

For example: agentmem add Alice prefers Python for scripts
"""
_BY_NAME = {listed.name: listed for listed in COMMANDS}


class LazyCommands(Group):
    """The commands of `COMMANDS`, each loaded when it is asked for; and how a command ends."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [listed.name for listed in COMMANDS if _is_there(listed.module)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        listed = _BY_NAME.get(cmd_name)
        if listed is None or not _is_there(listed.module):
            return None
        return _load(listed.module).get(cmd_name)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        there = [listed for listed in COMMANDS if _is_there(listed.module)]
        for section in dict.fromkeys(listed.section for listed in there):
            with formatter.section(section):
                formatter.write_dl([(x.name, x.help) for x in there if x.section == section])

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
    from agentmem.cli.common import Screen

    message = one_line(error.format_message())
    context = getattr(error, "ctx", None)
    if isinstance(error, click.NoSuchOption) and context is not None:
        message = one_line(unknown_option(error.option_name, context.command))
    path = context.command_path if context is not None else "agentmem"
    remedy = f"See `{path} --help`."
    at: Screen = make_screen(colour=not _flag(args, "--no-color"))
    if _flag(args, "--json"):
        _complain_json(at, "UsageError", message, remedy)
    else:
        usage = context.get_usage() + "\n" if context is not None else ""
        at.complain(f"{usage}Error: {message} {remedy}")
    return int(getattr(error, "exit_code", BAD_USAGE))


def _report(error: Exception, args: Sequence[str]) -> int:
    at = make_screen(colour=not _flag(args, "--no-color"))
    if _flag(args, "--debug"):
        at.complain(visible("".join(traceback.format_exception(error)).rstrip()), whole=True)
    message = str(getattr(error, "message", "")) or str(error) or type(error).__name__
    remedy = str(getattr(error, "remedy", ""))
    code = exit_code(error)
    if code == FAILED and not hasattr(error, "remedy"):
        message = f"{type(error).__name__}: {message}"
        remedy = "" if _flag(args, "--debug") else "Run it again with --debug to see where."
    if _flag(args, "--json"):
        _complain_json(at, type(error).__name__, message, remedy)
    else:
        words = " ".join(part for part in ("Error:", one_line(message), one_line(remedy)) if part)
        at.complain(words, style="bad")
    return code


def _complain_json(at: Any, kind: str, message: str, remedy: str) -> None:
    error = {"type": kind, "message": message, "remedy": remedy}
    at.complain(to_json({"error": error}, ascii_only=True), whole=True)


@cache
def _is_there(module: str) -> bool:
    return importlib.util.find_spec(f"agentmem.cli.{module}") is not None


@cache
def _load(module: str) -> Mapping[str, click.Command]:
    """The commands of a module by name, with the shared options."""
    app = Group()
    importlib.import_module(f"agentmem.cli.{module}").register(app)
    for name, command in app.commands.items():
        for one in _walk(command):
            _share_options(one)
        if name in _BY_NAME:
            command.short_help = _BY_NAME[name].help
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


# ----------------------------------------------------------------------------
# Write docs/cli.md from the commands themselves: `python -m agentmem.cli.app > docs/cli.md`.


INTRODUCTION = """\
# The command line

<!-- Written by `python -m agentmem.cli.app`; change the commands, not this page. -->

`agentmem` works on one store: a file, or a tenant of a PostgreSQL database. Nothing is sent
anywhere else unless you name a model, an address or a web search.

```sh
agentmem add Alice prefers Python for scripts
agentmem search which language does Alice like
agentmem index ./notes                 # a file, a folder, a URL, or - for stdin
agentmem ask "Which language does Alice prefer?"
agentmem chat --model gpt-4o           # without --model, answers quote what is stored
agentmem explain last                  # why did it say that?
```

A text may be piped in where a command takes one: `git log -1 | agentmem add`. An id may be given
by its first or last four characters or more, as long as only one memory is meant; lists on a
terminal show the last eight.

## Options of every command

They can stand before the command's name or after it; the one typed last wins, and both win over
the environment.

"""

CONVENTIONS = """\

Also from the environment: `AGENTMEM_EMBEDDER` (`minilm`; `none` searches by words alone),
`NO_COLOR`, `COLUMNS`. The store is the file
`memory.db` in your data folder unless `--store` or `AGENTMEM_STORE` names another, or a database:
`postgresql://user@host/database?tenant=acme`.

**Output.** People get lines, cut and coloured only on a terminal; a pipe gets whole ids and texts.
Escape sequences and invisible characters of stored texts are never printed. With `--json` stdout
holds exactly one JSON document. Notes and errors go to stderr; with `--json` an error is
`{"error": {"type": "…", "message": "…", "remedy": "…"}}`. (`agentmem monitor --json` is a stream:
one document a line.)

**Destructive commands** (`delete`, `erase`, `prefs clear`, `export` over a file) ask on a terminal
and need `--yes` elsewhere. `erase` also removes the file beside the store in which `chat` keeps the
lines you typed. There is one for each `--user`, and one for when none is named; only that user's is
removed.

**Exit codes**

| Code | Meaning |
| --- | --- |
| 0 | done |
| 1 | failed: the model, the network, a file, a check of `doctor` |
| 2 | wrong usage, or a value that cannot be used |
| 3 | no such memory or context |
| 4 | the store has a problem: damaged, busy, full, read-only, not a store |
| 5 | nothing found: `search` without a hit, `ask` and `websearch` without an answer |
| 130 | interrupted by Ctrl-C |
| 141 | whoever read the output went away, as in a pipe to `head` |

`agentmem --install-completion` sets up completion for bash, zsh or fish.
"""


def render_manual() -> str:
    """The page."""
    root = command()
    shared = [param for param in root.params if param.name not in _COMPLETION]
    lines = [INTRODUCTION + "\n".join(_options(shared)), CONVENTIONS]
    section = ""
    for listed in COMMANDS:
        found = root.get_command(None, listed.name)
        if found is None:
            continue
        if listed.section != section:
            section = listed.section
            lines.append(f"## {section}\n")
        lines += _command(found, f"agentmem {listed.name}", {param.name for param in shared})
    return "\n".join(lines).rstrip() + "\n"


_COMPLETION = ("install_completion", "show_completion")


def _command(found: Any, path: str, shared: set[str], level: int = 3) -> Iterator[str]:
    arguments = [param for param in found.params if param.param_type_name == "argument"]
    own = [
        param
        for param in found.params
        if param.param_type_name == "option" and param.name not in shared
    ]
    inner = getattr(found, "commands", {})
    usage = " ".join([path, *map(_argument, arguments), *(["COMMAND"] if inner else [])])
    yield f"{'#' * level} `{usage}`\n"
    yield _paragraphs(found.help or found.short_help or "") + "\n"
    rows = [*(f"| `{_metavar(one)}` | {_cell(one.help)} |" for one in arguments), *_rows(own)]
    if rows:
        yield "\n".join(["| | |", "| --- | --- |", *rows]) + "\n"
    for name, one in inner.items():
        yield from _command(one, f"{path} {name}", shared, level + 1)


def _paragraphs(text: str) -> str:
    return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n"))


def _options(params: list[Any]) -> list[str]:
    return ["| | |", "| --- | --- |", *_rows(params)]


def _rows(params: list[Any]) -> list[str]:
    rows = []
    for param in params:
        names = ", ".join(f"`{name}`" for name in (*param.opts, *param.secondary_opts))
        value = "" if param.is_flag else f" `{_metavar(param)}`"
        variable = f" (`{param.envvar}`)" if param.envvar else ""
        default = param.to_info_dict()["default"]
        said = f" Default: `{default}`." if default not in (None, "", False, True, [], ()) else ""
        rows.append(f"| {names}{value} | {_cell(param.help)}{variable}{said} |")
    return rows


def _cell(text: str | None) -> str:
    return " ".join((text or "").split()).replace("|", "\\|")


def _metavar(param: Any) -> str:
    return str(param.metavar or (param.name or "").upper()).removesuffix("...")


def _argument(param: Any) -> str:
    name = _metavar(param) + ("..." if param.nargs == -1 else "")
    return name if param.required else f"[{name}]"


if __name__ == "__main__":
    sys.stdout.write(render_manual())
