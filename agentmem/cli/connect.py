"""Let coding agents and other programs use this memory."""

from __future__ import annotations

import click

from agentmem.cli.common import common_of, open_memory


def register(app: click.Group) -> None:
    """Add the commands of this module."""
    app.command()(mcp)


@click.option(
    "--limit-tokens", metavar="N", type=int, default=2_000, show_default=True,
    help="The most tokens of one answer, 200 to 20,000.",
)  # fmt: skip
def mcp(ctx: click.Context, limit_tokens: int = 2_000) -> None:
    """Serve this memory to one program by the Model Context Protocol, on stdin and stdout.

    Whose memory it is, --user and --project say; the program cannot ask for anybody else's.
    `agentmem connect` writes this command into a program's configuration.
    """
    import asyncio
    from contextlib import suppress

    from agentmem.server.mcp import serve_stdio

    with open_memory(ctx) as memory, suppress(KeyboardInterrupt):
        asyncio.run(serve_stdio(memory, common_of(ctx).scope, limit_tokens=limit_tokens))
