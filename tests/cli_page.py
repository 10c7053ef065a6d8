"""Write docs/cli.md from the commands themselves.

python -m tests.cli_page > docs/cli.md
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from agentmem.cli.app import COMMANDS, command

INTRODUCTION = """\
# The command line

<!-- Written by `python -m tests.cli_page > docs/cli.md`; change the commands, not this page. -->

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

Also from the environment: `AGENTMEM_EMBEDDER` (`pair`; `none` searches by words alone),
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


def render() -> str:
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
    sys.stdout.write(render())
