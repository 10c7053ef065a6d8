"""Run the command line in this process, in another one, and on a terminal."""

from __future__ import annotations

import contextlib
import fcntl
import io
import json
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from agentmem.cli.app import command

ON_TERMINAL = (  # the terminal must be the session's own for Ctrl-C to arrive
    "import fcntl, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0)\n"
    "from agentmem.cli.app import main; main()"
)
ROOT = Path(__file__).resolve().parents[2]
VARIABLES = ("STORE", "USER", "PROJECT", "AGENT", "RUN", "MODEL", "EMBEDDER")


class TerminalStream(io.TextIOWrapper):
    """Bytes that say they are a terminal."""

    def isatty(self) -> bool:
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def error(self) -> dict[str, str]:
        found: dict[str, str] = json.loads(self.err)["error"]
        return found


class Cli:
    """The command line on one store, in this process."""

    def __init__(self, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.store = store
        self._patch = monkeypatch
        for name in VARIABLES:
            monkeypatch.delenv(f"AGENTMEM_{name}", raising=False)
        monkeypatch.setenv("AGENTMEM_STORE", str(store))
        monkeypatch.setenv("AGENTMEM_EMBEDDER", "none")

    def __call__(
        self,
        *args: str,
        stdin: str | bytes = b"",
        encoding: str = "utf-8",
        columns: int | None = None,
    ) -> Ran:
        """Run a command; with `columns`, as on a terminal so wide."""
        data = stdin.encode() if isinstance(stdin, str) else stdin
        out, err = io.BytesIO(), io.BytesIO()
        with self._patch.context() as patch:
            patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data), encoding="utf-8"))
            stream = io.TextIOWrapper if columns is None else TerminalStream
            patch.setattr(sys, "stdout", stream(out, encoding=encoding))
            patch.setattr(sys, "stderr", stream(err, encoding=encoding))
            patch.setenv("COLUMNS", str(columns or 80))
            patch.setenv("TERM", "xterm-256color")
            patch.delenv("NO_COLOR", raising=False)
            with pytest.raises(SystemExit) as ended:
                command().main(args, prog_name="agentmem")
            sys.stdout.flush()
            sys.stderr.flush()
            said = [written.getvalue().decode(encoding) for written in (out, err)]
        code = ended.value.code
        assert isinstance(code, int)
        return Ran(code=code, out=said[0], err=said[1])

    def add(self, text: str, *options: str) -> str:
        """Remember a text; its id."""
        found: str = self("add", text, "--json", *options).json["results"][0]["id"]
        return found


def environment(store: Path, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The variables of a process of its own."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("AGENTMEM_", "NO_COLOR"))}
    return {
        **kept,
        "AGENTMEM_STORE": str(store),
        "AGENTMEM_EMBEDDER": "none",
        "PYTHONPATH": str(ROOT),
        "PYTHONIOENCODING": "utf-8",
        "TERM": "xterm-256color",
        **(extra or {}),
    }


def start(store: Path, *args: str, **options: Any) -> subprocess.Popen[bytes]:
    """The command line in a process of its own, with pipes."""
    env = environment(store, options.pop("env", None))
    return subprocess.Popen(
        [sys.executable, "-m", "agentmem", *args],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=env,
        **options,
    )


class Terminal:
    """The command line on a pseudo-terminal of a given width."""

    def __init__(
        self, store: Path, *args: str, columns: int = 80, env: Mapping[str, str] | None = None
    ) -> None:
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        variables = environment(store, env)
        variables.pop("COLUMNS", None)
        self._process = subprocess.Popen(
            [sys.executable, "-c", ON_TERMINAL, *args],
            stdin=theirs, stdout=theirs, stderr=theirs, env=variables, start_new_session=True,
        )  # fmt: skip
        os.close(theirs)
        self._ours = ours
        self.shown = ""
        self._seen = 0

    def wait_for(self, text: str, *, seconds: float = 60) -> str:
        """Everything since the last wait, up to and including `text`."""
        until = time.monotonic() + seconds
        while (at := self.shown.find(text, self._seen)) < 0:
            assert self._read(until), f"{text!r} never came; there was {self.shown!r}"
        found = self.shown[self._seen : at + len(text)]
        self._seen = at + len(text)
        return found

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def interrupt(self, *, seconds: float = 60) -> int:
        """Press Ctrl-C, again where it came between a question and the reading of its answer:
        Python sees one that comes then only with the next; the exit code."""
        until = time.monotonic() + seconds
        while self._process.poll() is None and time.monotonic() < until:
            with contextlib.suppress(OSError):  # it has just ended
                self.type("\x03")
            while self._read(time.monotonic() + 2):
                pass
        return self.end()

    def end(self, *, seconds: float = 60) -> int:
        """Read to the end; the exit code."""
        until = time.monotonic() + seconds
        while self._read(until):
            pass
        code = self._process.wait(timeout=max(1, until - time.monotonic()))
        os.close(self._ours)
        return code

    def _read(self, until: float) -> bool:
        ready, _, _ = select.select([self._ours], [], [], max(0, until - time.monotonic()))
        if not ready:
            return False
        try:
            data = os.read(self._ours, 65536)
        except OSError:  # the other end is closed
            return False
        self.shown += data.decode("utf-8", "replace").replace("\r\n", "\n")
        return bool(data)
