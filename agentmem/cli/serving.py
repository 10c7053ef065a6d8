"""Serve a memory to other programs, and make the tokens that open it."""

from __future__ import annotations

from typing import Any
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
)

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
    from agentmem.server.run import Served, listen
    from agentmem.server.run import serve as run

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
    from agentmem.server.http import make_session
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
            link = f"{url}/login?code={make_session(tokens, admin, seconds=60)}"
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
