"""The hook of a coding agent: hand an event to the helper beside the store, print what it says.

Agents wait for this, so nothing is imported that is not needed for it. Whatever goes wrong, it
ends with 0 and prints nothing: an agent works on without its memory.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time

WAIT_SECONDS = 20.0
"""How long a helper may take to start; agents give a hook a minute."""
REPLY_SECONDS = 8.0
LIMIT_TOKENS = 1_500
MOST_BYTES = 16 * 1024 * 1024
_SCOPE = ("user", "project", "agent", "run")
_TAKEN = ("--store", "--limit-tokens", *(f"--{name}" for name in _SCOPE))


def is_plain(arguments: list[str]) -> bool:
    """Whether an agent runs the hook; what people ask of it is answered by the command line."""
    asked = ("--help", "-h", "--stop", "--version")
    answered = hasattr(socket, "AF_UNIX") and not any(one in asked for one in arguments)
    return answered and arguments[:1] == ["hook"]


def main(arguments: list[str]) -> None:
    """Run the hook with what was typed after its name; never raises."""
    try:
        said: dict[str, str] = {}
        rest = list(arguments)
        event = ""
        while rest:
            name, separator, value = rest.pop(0).partition("=")
            if name in _TAKEN:
                said[name] = value if separator else rest.pop(0)
            elif not name.startswith("-"):
                event = name + separator + value  # Codex gives the event itself
        whose = {
            name: said.get(f"--{name}") or os.environ.get(f"AGENTMEM_{name.upper()}") or None
            for name in _SCOPE
        }
        run(
            store=said.get("--store") or os.environ.get("AGENTMEM_STORE") or "",
            scope={f"{name}_id": value for name, value in whose.items()},
            limit_tokens=int(said.get("--limit-tokens") or LIMIT_TOKENS),
            event=event,
        )
    except Exception as error:  # noqa: BLE001 - see above
        _explain(error)


def run(
    *, store: str, scope: dict[str, str | None], limit_tokens: int = LIMIT_TOKENS, event: str = ""
) -> None:
    """Print what memory has to say about the event, given or on stdin; never raises."""
    try:
        told = event or sys.stdin.buffer.read(MOST_BYTES).decode("utf-8", "replace")
        if not told.strip():
            return
        path = find_store(store)
        from agentmem import __version__

        asked = {
            "version": __version__,
            "scope": scope,
            "limit_tokens": limit_tokens,
            "event": told,
        }
        answer = ask(path, json.dumps(asked).encode())
        if answer:
            os.write(1, answer.encode())  # unbuffered: a reader that went away is no error later
    except Exception as error:  # noqa: BLE001 - see above
        _explain(error)


def find_store(given: str) -> str:
    """The absolute path of the store that is meant."""
    if not given:
        from agentmem.base.config import default_path

        return str(default_path())
    return os.path.abspath(os.path.expanduser(given))


def ask(path: str, asked: bytes) -> str:
    """What the helper of the store says; it is started if there is none."""
    folder, name = os.path.split(path)
    if os.path.isdir(folder):
        os.chdir(folder)  # a socket's name must be short, a folder's may be long
    until = time.monotonic() + float(os.environ.get("AGENTMEM_HOOK_WAIT_SECONDS", WAIT_SECONDS))
    started = 0
    while time.monotonic() < until:
        try:
            answer = send(f"{name}.hook", asked)
        except (FileNotFoundError, ConnectionError):
            answer = None
        if answer is not None:
            return answer
        if started % 100 == 0:  # now and then: the one before may have been on its way out
            start_helper(path)
            if os.path.isdir(folder):
                os.chdir(folder)
        started += 1
        time.sleep(0.02)
    return ""


def send(name: str, asked: bytes) -> str | None:
    """What is answered on the socket; None if whoever answers has just gone."""
    with socket.socket(socket.AF_UNIX) as helper:
        helper.settimeout(REPLY_SECONDS)
        helper.connect(name)
        helper.sendall(asked)
        helper.shutdown(socket.SHUT_WR)
        said = bytearray()
        while piece := helper.recv(65_536):
            said += piece
    text = said.decode("utf-8")
    return text[1:] if text.startswith("+") else None


def start_helper(path: str) -> None:
    """Start the helper of a store; one that is there already stays the only one."""
    import subprocess

    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    embedder = os.environ.get("AGENTMEM_EMBEDDER", "pair").strip()
    idle = os.environ.get("AGENTMEM_HOOK_IDLE_SECONDS", "1800")
    subprocess.Popen(  # noqa: S603 - our own module
        [sys.executable, "-P", "-m", "agentmem.server.hook", path, embedder, idle],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        start_new_session=True, close_fds=True,
    )  # fmt: skip


def stop_helper(path: str) -> bool:
    """End the helper of a store; whether there was one."""
    folder, name = os.path.split(path)
    try:
        os.chdir(folder)
        return send(f"{name}.hook", b'{"stop": true}') is not None
    except OSError:
        return False


def _explain(error: Exception) -> None:
    """Say what went wrong to who asked for it; an agent gets nothing."""
    if os.environ.get("AGENTMEM_DEBUG"):
        sys.stderr.write(f"agentmem hook: {type(error).__name__}: {error}\n")
