"""Lines typed at a prompt, with history and completion."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from agentmem.cli.output import one_line
from agentmem.stores.whole_files import new_file

if TYPE_CHECKING:
    from agentmem.cli.talking import Talk

PROMPT = "you> "


def typed_lines(talk: Talk, history: Path | None) -> Iterator[str]:
    """What is typed, line by line, until Ctrl-D; Ctrl-C clears the line.

    `history` is the file earlier lines are kept in, readable for its owner
    only; without one they are forgotten at the end.
    """
    from prompt_toolkit import PromptSession
    from prompt_toolkit.completion import WordCompleter
    from prompt_toolkit.history import FileHistory, History, InMemoryHistory

    kept: History = InMemoryHistory()
    if history is not None and make_private(talk, history):
        kept = FileHistory(str(history))
    commands = WordCompleter(list(talk.commands), sentence=True)
    session: PromptSession[str] = PromptSession(
        history=kept, completer=commands, complete_while_typing=False
    )
    while True:
        try:
            line = session.prompt(PROMPT)
        except KeyboardInterrupt:
            continue
        except EOFError:
            return
        if line.strip():
            yield line


def make_private(talk: Talk, path: Path) -> bool:
    """Make the file, or take others' rights on it away; whether it can be used."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_symlink():
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
        if not path.exists():
            with suppress(FileExistsError), new_file(path, replace=False):
                pass
        path.chmod(0o600)
    except OSError as error:
        talk.at.note(f"Note: no history is kept: {one_line(str(error))}")
        return False
    return True
