"""The command line as a whole: which commands there are, and how each ends.

A command's module is imported when the command is used, so that help and
completion cost little. Errors are caught here, and nowhere else, and become a
message, a remedy and an exit code.
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NoReturn

import click

from agentmem.cli.common import (
    BAD_USAGE,
    FAILED,
    INTERRUPTED,
    Group,
    exit_code,
    shared_options,
)
from agentmem.cli.completion import completion_options
from agentmem.cli.output import (
    CLOSED_PIPE,
    make_screen,
    one_line,
    open_closed_streams,
    to_json,
    visible,
)
from agentmem.core.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A command: where it is written and what the list of commands says of it."""

    name: str
    module: str
    section: str
    help: str


def _section(section: str, module: str, **commands: str) -> tuple[Listed, ...]:
    return tuple(
        Listed(name=name.rstrip("_"), module=module, section=section, help=text)
        for name, text in commands.items()
    )


COMMANDS = (
    *_section(
        "Talk", "chatting",
        chat="Talk to a model that remembers.",
        ask="Ask one question and print the answer.",
    ),
    *_section(
        "Talk", "websearching",
        websearch="Search the web and your memory for one cited answer.",
    ),
    *_section(
        "Remember and find", "storing",
        add="Remember a text.",
        search="Find the memories that answer a query.",
        list="List memories, newest first.",
        get="Show one memory.",
        update="Change what a memory says.",
        history="Show what a memory said before.",
    ),
    *_section(
        "Remember and find", "learning",
        learn="Keep the facts, decisions and fixes a text states.",
    ),
    *_section(
        "Remember and find", "removing",
        delete="Take memories out of every read; they can still be erased.",
        erase="Remove memories so that their bytes are in no file.",
    ),
    *_section(
        "Remember and find", "preferring",
        prefs="Show and change what users told about themselves.",
    ),
    *_section(
        "Remember and find", "indexing",
        index="Remember a file, a folder, a web page or stdin.",
    ),
    *_section(
        "Explain", "inspecting",
        inspect="Show the context that would be built now.",
        budget="Show how a window would be filled; needs no store.",
        explain="Show everything about a past context.",
        monitor="Watch contexts as they are built.",
        stats="Show figures over many contexts.",
    ),
    *_section(
        "Look after", "inspecting",
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
        "Look after", "moving",
        export="Write memories to a file, one JSON object a line.",
        import_="Add memories that `export` wrote.",
        backup="Copy the whole store while it is in use.",
        restore="Put a backup in the place of the store.",
    ),
)  # fmt: skip

_HELP = """\
Memory for LLM agents, on this machine: no key and no network needed.

The options below can stand before a command or after it.
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
    from agentmem.cli.output import Screen

    message = one_line(error.format_message())
    context = getattr(error, "ctx", None)
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
