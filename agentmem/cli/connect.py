"""Let coding agents and other programs use this memory."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import click

from agentmem.base.errors import InvalidInput
from agentmem.cli.common import (
    IN_PROCESS,
    CommandRun,
    Group,
    argument,
    embedder_name,
    one_line,
    visible,
    yes_option,
)
from agentmem.cli.hook import LIMIT_TOKENS

if TYPE_CHECKING:
    from agentmem.inspector.doctor import Check
    from agentmem.server.programs import ProgramChange


@click.option(
    "--limit-tokens", metavar="N", type=int, default=2_000, show_default=True,
    help="The most tokens of one answer, 200 to 20,000.",
)  # fmt: skip
def mcp(at: CommandRun, limit_tokens: int = 2_000) -> None:
    """Serve this memory to one program by the Model Context Protocol, on stdin and stdout.

    Whose memory it is, --user and --project say; the program cannot ask for anybody else's.
    `agentmem connect` writes this command into a program's configuration.

    For example: agentmem mcp --user ana --project app
    """
    import asyncio
    from contextlib import suppress

    from agentmem.server.mcp import serve_stdio

    with at.memory() as memory, suppress(KeyboardInterrupt):
        asyncio.run(serve_stdio(memory, at.scope, limit_tokens=limit_tokens))


@argument(
    "program", metavar="PROGRAM", help="claude-code, codex, cursor, claude-desktop or vscode."
)
@click.option("--here", is_flag=True, help="Only for the current folder, not for all you do.")
@click.option("--no-hooks", is_flag=True, help="Only the server: nothing is shown or kept unasked.")
@click.option("--undo", is_flag=True, help="Take the entries out again.")
@click.option("--dry-run", is_flag=True, help="Show the change and write nothing.")
@yes_option
def connect(
    at: CommandRun,
    program: str,
    *,
    here: bool,
    no_hooks: bool,
    undo: bool,
    dry_run: bool,
    yes: bool,
) -> None:
    """Connect a program to this memory by its own configuration; the change is shown first.

    It gets the server of `agentmem mcp` and, where it has hooks, `agentmem hook`. All else in the
    files stays as it is. --store, --user and --project are written into the commands.

    For example: agentmem connect claude-code --dry-run
    """
    from dataclasses import replace

    from agentmem.server.programs import program_of

    meant = program_of(program, home=Path.home(), here=Path.cwd() if here else None)
    if no_hooks:
        meant = replace(meant, hooks=None)
    options, own = options_of(at), own_command()
    if undo:
        changes = meant.disconnect()
    else:
        changes = meant.connect([*own, "mcp", *options], [*own, "hook", *options])
    changed = [change for change in changes if change.before != change.after]
    diffs = {change.path: diff_of(change) for change in changed}
    for path, lines in () if at.json else diffs.items():
        at.print([f"{one_line(str(path))}:", *(f"  {visible(line)}" for line in lines), ""])
    writes = bool(changed) and not dry_run
    if writes:
        at.confirm("" if at.json else "Write this?", yes=yes)
        for change in changed:
            write(change)
    files = [{"path": str(path), "diff": "\n".join(lines)} for path, lines in diffs.items()]
    at.show(
        {"program": program, "written": writes, "files": files},
        _outcome(program, bool(changed), dry_run=dry_run, undo=undo),
    )
    if not undo:
        for line in _advice(program, hooks=not no_hooks):
            at.note(line)


@argument("event", required=False, metavar="EVENT", help="A hook event as JSON; stdin otherwise.")
@click.option(
    "--limit-tokens", metavar="N", type=int, default=LIMIT_TOKENS, show_default=True,
    help="The most tokens of what is printed, 2,500 at most.",
)  # fmt: skip
@click.option("--stop", is_flag=True, help="End the helper that stays for this store.")
def hook(at: CommandRun, event: str | None, *, limit_tokens: int, stop: bool) -> None:
    """Take an event of a coding agent: print what memory knows, keep what was said.

    A small helper stays beside the store, so that an agent does not wait, and ends by itself after
    half an hour without events. Whatever goes wrong, the exit code is 0 and nothing is printed.

    For example: agentmem hook --stop
    """
    import socket

    from agentmem.cli.hook import run, stop_helper

    if stop:
        ended = at.path is not None and stop_helper(str(at.path.absolute()))
        told = "The helper ends." if ended else "There is no helper."
        at.show({"stopped": ended}, told)
        return
    if hasattr(socket, "AF_UNIX"):
        run(store=at.store or "", scope=at.whose, limit_tokens=limit_tokens, event=event or "")
        return
    _answer_here(at, event or "", limit_tokens)


def _answer_here(at: CommandRun, event: str, limit_tokens: int) -> None:
    """Answer without a helper, where there are no sockets for one."""
    try:
        from agentmem.server.hook import Hooks

        with at.memory() as memory:
            hooks = Hooks(memory)
            told = event or sys.stdin.buffer.read()
            answer = hooks.answer(told, at.scope, limit_tokens=limit_tokens)
            hooks.close()
        click.echo(answer, nl=False)
    except Exception:  # noqa: BLE001 - an agent works on without its memory
        return


# -- inside ----------------------------------------------------------------------------


def own_command() -> list[str]:
    """How to start agentmem from anywhere, also from a program without this shell's PATH."""
    import shutil

    typed = Path(sys.argv[0])
    if typed.stem == "agentmem" and typed.is_file() and os.access(typed, os.X_OK):
        return [str(typed.absolute())]
    found = shutil.which("agentmem")
    # -P: agents work in folders of others, and nothing is imported from there
    return [found] if found else [sys.executable, "-P", "-m", "agentmem"]


def options_of(at: CommandRun) -> list[str]:
    """The shared options that say which memory is meant, as they are typed."""
    path = at.path
    store = [("store", str(path.absolute()))] if at.store and path is not None else []
    names = [(name, getattr(at, name)) for name in ("user", "project", "agent", "run")]
    return [part for name, value in (*store, *names) if value for part in (f"--{name}", value)]


def diff_of(change: ProgramChange) -> list[str]:
    """What would be changed in a file, a few lines around it."""
    from difflib import unified_diff

    before, after = (change.before or "").splitlines(), change.after.splitlines()
    return list(unified_diff(before, after, lineterm="", n=2))[2:]


def write(change: ProgramChange) -> None:
    """Write a file whole; who may read it stays the same."""
    from agentmem.stores.open_files import final_path, written_whole

    target = final_path(change.path)
    mode = target.stat().st_mode & 0o777 if target.exists() else None
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with written_whole(target) as file:
        file.write(change.after)
    if mode is not None:
        target.chmod(mode)


def _outcome(program: str, changed: bool, *, dry_run: bool, undo: bool) -> str:
    if not changed:
        return f"{program} is {'not' if undo else 'already'} connected: there is nothing to change."
    if dry_run:
        return "Nothing was written."
    return f"{program} is {'no longer ' if undo else ''}connected."


def _advice(program: str, *, hooks: bool) -> Iterator[str]:
    import importlib.util

    if importlib.util.find_spec("mcp") is None:
        yield "The server needs a package: pip install 'agentmem-loop[mcp]'"
    if program == "codex" and hooks:
        yield "Codex asks once whether it may run the hooks: see /hooks there."
    yield f"Start {program} anew to use it; `agentmem doctor` checks it."


def examine_programs() -> Iterator[Check]:
    """Whether the programs that are connected could start what stands in their configuration."""
    import shutil

    from agentmem.base.errors import AgentMemError
    from agentmem.inspector.doctor import Check
    from agentmem.server.programs import PROGRAMS, program_of

    for name in PROGRAMS:
        try:
            program = program_of(name, home=Path.home())
            command, hooked = program.command(), program.hooked()
        except (AgentMemError, OSError, RuntimeError) as error:
            yield Check(name=name, state="warn", found=f"its configuration cannot be read: {error}")
            continue
        if command is None:
            continue
        again = f"Run `agentmem connect {name}` again, or with --undo."
        if shutil.which(command[0]) is None:
            found = f"connected to {command[0]}, which is not there"
            yield Check(name=name, state="fail", found=found, remedy=again)
        elif not hooked:
            yield Check(name=name, state="ok", found="connected, without hooks")
        else:
            hooks = "with hooks" if program.hooks is not None else "it has no hooks"
            yield Check(name=name, state="ok", found=f"connected, {hooks}")


# ----------------------------------------------------------------------------
# Serve a memory over HTTP, and make the tokens that open it.


LOOPBACK = ("127.0.0.1", "localhost", "::1")


@click.option("--host", default="127.0.0.1", metavar="ADDRESS", help="Where to listen.")
@click.option("--port", default=7077, type=click.IntRange(0, 65_535), help="0 takes a free one.")
@click.option("--workers", default=1, type=click.IntRange(1, 64), help="How many processes.")
@click.option("--open", "open_page", is_flag=True, help="Open the page in a browser.")
@click.option("--no-auth", is_flag=True, help="Answer everybody who reaches it, as an admin.")
@click.option("--upstream", default="", metavar="URL", help="Be a proxy in front of this provider.")
@click.option(
    "--anthropic", default="", metavar="URL",
    help="Where /v1/messages goes, if not to --upstream.",
)  # fmt: skip
@click.option(
    "--allow-host", multiple=True, metavar="NAME", help="A name it is reached by; may be repeated."
)
@click.option(
    "--rate", default=200.0, type=click.FloatRange(min=0), metavar="N",
    help="Requests a second for each token; 0 sets no limit.",
)  # fmt: skip
def serve(
    at: CommandRun,
    *,
    host: str,
    port: int,
    open_page: bool,
    no_auth: bool,
    allow_host: tuple[str, ...],
    rate: float,
    **options: Any,
) -> None:
    """Serve the memory over HTTP: its API, its page, a proxy in front of a model.

    The first start makes an admin's token and shows it once. Ctrl-C stops it:
    what is under way ends, and what waits in the queue is kept.

    For example: agentmem serve --port 8080 --open
    """
    from agentmem.server.app import Served, listen
    from agentmem.server.app import serve as run

    served = Served(
        store=_store(at), embedder=embedder_name(), host=host, port=port, auth=not no_auth,
        hosts=allow_host, requests_per_second=rate, **options,
    )  # fmt: skip
    listening = listen(host, port)
    shown = f"[{host}]" if ":" in host else host
    url = f"http://{shown}:{listening.getsockname()[1]}"
    token, link = _first_token(at, served.store, auth=not no_auth, url=url)
    lines = [f"agentmem serves {_shown(served.store)} on {url}"]
    lines += [f"Token, shown this once: {token}"] if token else []
    at.show({"url": url, "token": token, "auth": not no_auth}, lines)
    if no_auth:
        at.complain("Warning: --no-auth lets everybody who reaches it read and change everything.")
        if host not in LOOPBACK:
            at.complain("Warning: it listens beyond this machine, without tokens.")
    if open_page:
        import webbrowser

        webbrowser.open(link)
    run(served, listening)


def _store(at: CommandRun) -> str:
    if at.store and "://" in at.store:
        return at.store
    return IN_PROCESS if at.path is None else str(at.path)


def _shown(store: str) -> str:
    """The store as it may be printed: of a database, its name without who opens it."""
    if "://" not in store:
        return store
    parts = urlsplit(store)
    return f"{parts.scheme}://{parts.hostname or ''}{parts.path}"


def _first_token(at: CommandRun, store: str, *, auth: bool, url: str) -> tuple[str, str]:
    """The token of a first start, or "", and a link that signs in once."""
    from agentmem.server.tokens import Tokens

    if not auth:
        return "", url
    if store == IN_PROCESS:
        raise InvalidInput(
            "--store", store, "keeps no tokens from one process to the next",
            remedy="Name a file, or say --no-auth.",
        )  # fmt: skip
    with at.memory() as memory:
        tokens = Tokens(memory.store.settings)
        made = ""
        if not tokens.list():
            made, _ = tokens.make(admin=True, name="first")
        admin = next((grant for grant in tokens.list() if grant.admin), None)
        link = url
        if admin is not None:
            link = f"{url}/login?code={tokens.session_of(admin, seconds=60)}"
    return made, link


@click.group(cls=Group)
def token() -> None:
    """Make, list and revoke the tokens that open a served memory.

    A token is shown once and kept as a digest. It fixes whose memory it opens
    (`--user`, `--project`, `--agent`), or is an admin's, who may name anybody.

    For example: agentmem token make --user ana
    """


@token.command()
@click.option("--admin", is_flag=True, help="May name anybody, and look after the store.")
@click.option("--name", default="", metavar="TEXT", help="What to call it in the list.")
def make(at: CommandRun, *, admin: bool, name: str) -> None:
    """Make a token for `--user`, `--project`, `--agent`, or for an admin, and show it once.

    For example: agentmem token make --user ana --name laptop
    """
    from agentmem.server.tokens import Tokens

    with at.memory() as memory:
        made, grant = Tokens(memory.store.settings).make(scope=at.scope, admin=admin, name=name)
    at.show({"token": made, **grant.to_dict()}, made)
    at.note(f"It opens {_opens(grant.to_dict())}. It is not shown again.")


@token.command("list")
def list_tokens(at: CommandRun) -> None:
    """List the tokens that open something; none of them can be read again.

    For example: agentmem token list
    """
    from agentmem.server.tokens import Tokens

    with at.memory() as memory:
        found = [grant.to_dict() for grant in Tokens(memory.store.settings).list()]
    lines = [
        f"{one['id']}  {str(one['created_at'])[:10]}  {_opens(one)}"
        + (f"  {one_line(one['name'])}" if one["name"] else "")
        for one in found
    ]
    at.show({"tokens": found}, lines or "No tokens. Make one: agentmem token make --user NAME")


@token.command()
@argument("token_id", metavar="ID", help="Its id, as the list shows it; or the token itself.")
def revoke(at: CommandRun, *, token_id: str) -> None:
    """Let a token open nothing from now on, in running servers too.

    For example: agentmem token revoke 9e2ab146
    """
    from agentmem.server.tokens import PREFIX, Tokens

    if token_id.startswith(f"{PREFIX}_"):
        token_id = token_id.split("_")[1]
    with at.memory() as memory:
        gone = Tokens(memory.store.settings).revoke(token_id)
    at.show({"revoked": gone.to_dict()}, f"Revoked {gone.id}.")


def _opens(grant: dict[str, Any]) -> str:
    names = (("user", "user_id"), ("project", "project_id"), ("agent", "agent_id"))
    said = [f"{label} {one_line(grant[name])}" for label, name in names if grant[name]]
    if grant["admin"]:
        said.insert(0, "everything")
    return ", ".join(said)
