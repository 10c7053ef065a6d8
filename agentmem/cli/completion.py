"""Completion of commands and options in bash, zsh and fish."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

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
