"""What coding agents tell in their hooks, prompts, tool results, answers; and what they get back.

At the start of a session and before a prompt they are given what memory knows; what is said
and what tools gave is stored behind their back. Loading a memory takes longer than an agent
should wait, so a small helper stays: one process a store, on a socket beside it that only its
owner may use, started by the first hook (`agentmem.cli.hook`) and gone when nothing comes.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import stat
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from agentmem.agent.turn import Turn, own_words, session_of, working_for
from agentmem.base.errors import MalformedBlock
from agentmem.base.types import Scope
from agentmem.data import read_json
from agentmem.memory.manager import MemoryManager
from agentmem.prompt.block import parse_context, source_of
from agentmem.prompt.build import OfferedSource, build_block
from agentmem.prompt.strip import fingerprints, strip
from agentmem.text.clean import clean_line
from agentmem.text.secrets import LONGEST_TEXT, REMOVED, find_secrets, redact

_log = logging.getLogger(__name__)

# ----------------------------------------------------------------------------
# What an event says, whichever program it is from.


Kind = Literal["session", "prompt", "tool", "answer", "end"]

_TOLD = read_json("hooks.json")
_KINDS: Mapping[str, Kind] = _TOLD["kinds"]
"""What the events of Claude Code, Codex and Cursor are called there."""
_OWN_TOOLS: Sequence[str] = _TOLD["own_tools"]
"""What memory answered is not stored again."""
_FILE_TOOLS: Sequence[str] = _TOLD["file_tools"]
"""What these show lies in the files themselves."""
TAIL_BYTES = 262_144


@dataclass(frozen=True, slots=True, kw_only=True)
class HookEvent:
    """What a hook was told."""

    kind: Kind
    name: str
    session: str = ""
    prompt: str = ""
    answer: str = ""
    tool: str = ""
    arguments: Mapping[str, Any] | None = None
    output: str = ""
    error: str = ""


def read_event(raw: str | bytes) -> HookEvent | None:
    """The event in a JSON text; None for what is none, or is of no interest here."""
    try:
        told = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    if not isinstance(told, dict):
        return None
    name = _text(told, "hook_event_name", "type")
    kind = _KINDS.get(name)
    if kind is None:
        return None
    shell, asked = name == "afterShellExecution", told.get("input-messages")
    given = {"command": _text(told, "command")} if shell else told.get("tool_input")
    if isinstance(given, str):
        with suppress(ValueError, RecursionError):
            given = json.loads(given)
    prompt = _text(told, "prompt") if kind == "prompt" else ""
    answer = _text(told, "last_assistant_message", "last-assistant-message", "text")
    if kind == "answer" and not answer:
        answer = last_answer(_text(told, "transcript_path"))
    output = next((told[key] for key in _OUTPUTS if told.get(key) not in (None, "")), "")
    return HookEvent(
        kind=kind,
        name=name,
        session=_text(told, "session_id", "conversation_id", "thread-id"),
        prompt="\n".join(map(str, asked)) if isinstance(asked, list) else prompt,
        answer=answer,
        tool=_text(told, "tool_name") or ("Shell" if shell else ""),
        arguments=given if isinstance(given, dict) else None,
        output=_written(output),
        error=_text(told, "error", "error_message"),
    )


_OUTPUTS = ("tool_response", "tool_output", "result_json", "output")


def _text(told: Mapping[str, Any], *names: str) -> str:
    return next((told[name] for name in names if isinstance(told.get(name), str)), "")


def _written(output: Any) -> str:
    """A tool's output as a text: what it printed or said where it says so, or its JSON."""
    if isinstance(output, dict) and isinstance(output.get("stdout"), str):
        return "\n".join(filter(None, (output["stdout"], str(output.get("stderr") or ""))))
    parts = output.get("content") if isinstance(output, dict) else output
    if isinstance(parts, list) and all(isinstance(one, dict) and "type" in one for one in parts):
        said = [one["text"] for one in parts if isinstance(one.get("text"), str)]
        if said:
            return "\n".join(said)
    return output if isinstance(output, str) else json.dumps(output, ensure_ascii=False)


def last_answer(transcript: str) -> str:
    """What the assistant said last in a transcript of JSON lines; "" if that cannot be told."""
    try:
        with open(transcript, "rb", opener=_no_special_file) as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - TAIL_BYTES))
            lines = file.read(TAIL_BYTES).splitlines()
    except (OSError, ValueError):
        return ""
    for line in reversed(lines):
        with suppress(ValueError, RecursionError, AttributeError, TypeError):
            message = json.loads(line).get("message")
            if message.get("role") == "assistant":
                content = message.get("content")
                parts = [content] if isinstance(content, str) else content
                said = [part if isinstance(part, str) else part.get("text", "") for part in parts]
                if text := "\n".join(filter(None, said)):
                    return text
    return ""


def _no_special_file(path: str, flags: int) -> int:
    """Opened without waiting, and refused if it is a pipe or a device."""
    number = os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise OSError("no file")
    return number


def render(event: HookEvent, text: str) -> str:
    """What the program that sent `event` reads `text` from; nothing where there is none."""
    if not text:
        return ""
    said: dict[str, Any]
    if event.name[:1].isupper():
        said = {"hookSpecificOutput": {"hookEventName": event.name, "additionalContext": text}}
    elif event.kind == "prompt":
        said = {"continue": True, "additional_context": text}
    else:
        said = {"additional_context": text}
    return json.dumps(said, ensure_ascii=True) + "\n"


# ----------------------------------------------------------------------------
# What is told, and what is kept.


MOST_TOKENS = 2_500
MOST_CHARACTERS = 9_500
"""Claude Code cuts at 10,000."""
RECENT = 12
LINE_CHARACTERS = 300
_FRAME_TOKENS = 150
MOST_SECRETS = 1_000
_LEAST_OF_A_SECRET = 6
_KNOWN = ("fact", "episode", "pattern", "workflow", "task")


class Hooks:
    """The events of coding agents on one memory. `answer` never raises and never waits for long."""

    def __init__(self, memory: MemoryManager) -> None:
        self.memory = memory
        self._turns: dict[str, Turn] = {}
        self._shown: dict[bytes, None] = {}
        self._secrets: dict[str, None] = {}
        self._lock = threading.Lock()
        self._later = ThreadPoolExecutor(1, thread_name_prefix="agentmem-hook")

    def answer(self, raw: str | bytes, scope: Scope, *, limit_tokens: int = MOST_TOKENS) -> str:
        """What to print for an event; storing goes on afterwards."""
        try:
            event = read_event(raw)
            if event is None:
                return ""
            limit = max(0, min(limit_tokens, MOST_TOKENS))
            if event.kind == "session":
                return render(event, self._begin(scope, limit))
            if event.kind == "prompt":
                return render(event, self._ask(event, scope, limit))
            self._later.submit(_quietly, self._keep, event, scope)
        except Exception:  # noqa: BLE001 - an agent works on, whatever is wrong with its memory
            _log.warning("A hook failed", exc_info=True)
        return ""

    def close(self) -> None:
        """Store what is waiting; turns that were not answered are kept without an answer."""
        self._later.shutdown()
        for key in list(self._turns):
            self._finish(key, "")

    def _begin(self, scope: Scope, limit_tokens: int) -> str:
        """Who the user is and what was learned last."""
        recent = self.memory.get_all(limit=RECENT, kinds=_KNOWN, **scope.whose)
        lines = [clean_line(one.text, limit_characters=LINE_CHARACTERS) for one in recent]
        candidates = [
            OfferedSource(id=str(at), source=source_of(memory, line), score=float(-at))
            for at, (memory, line) in enumerate(zip(recent, lines, strict=True))
        ]
        runtime = self.memory.runtime
        while limit_tokens > _FRAME_TOKENS:
            built = build_block(
                secret=runtime.secret(),
                limit_tokens=limit_tokens,
                count=runtime.tokenizer("")[0],
                user_profile=[memory.text for memory in runtime.profile(scope)],
                candidates=candidates,
                framing="single",
            )
            if built.block is None or built.text is None:
                return ""
            if len(built.text) <= MOST_CHARACTERS:
                self._shown |= dict.fromkeys(fingerprints(built.block))
                return built.text
            limit_tokens = limit_tokens * 3 // 4
        return ""

    def _ask(self, event: HookEvent, scope: Scope, limit_tokens: int) -> str:
        """What memory knows about a prompt; a turn is open until its answer comes."""
        prompt = self._redact(event.prompt).strip()
        if not prompt or prompt.startswith("/"):  # a command to the program itself
            return ""
        with self._lock:
            unanswered = self._turns.pop(event.session, None)
        if unanswered is not None:
            self._later.submit(_quietly, unanswered.done)
        usual, room = self.memory.settings.loop, max(0, limit_tokens - _FRAME_TOKENS)
        while True:
            budget = replace(
                usual.budget, knowledge=room * 3 // 5, preferences=room // 5, working=room // 5
            )
            learn = replace(usual.learn, nightly=False)
            config = replace(usual, budget=budget, learn=learn, framing="single")
            turn = self.memory.turn(
                [{"role": "user", "content": prompt}], scope=scope, config=config
            )  # fmt: skip
            text = turn.block_text or ""
            count = self.memory.runtime.tokenizer("")[0]
            if not text or (len(text) <= MOST_CHARACTERS and count(text) <= limit_tokens):
                break
            room = room * 3 // 4
        with self._lock:
            self._turns[event.session] = turn
        return text

    def _keep(self, event: HookEvent, scope: Scope) -> None:
        if event.kind == "tool":
            self._keep_result(event, scope)
        elif event.kind == "answer":
            self._keep_answer(event, scope)
        else:
            self._finish(event.session, "")

    def _keep_result(self, event: HookEvent, scope: Scope) -> None:
        ours = any(name in event.tool for name in _OWN_TOOLS)
        output = strip(self._redact(event.output)).strip()
        if ours or event.tool in _FILE_TOOLS or not (output or event.error):
            return
        working = working_for(self.memory, scope=scope, model="", config=self.memory.settings.loop)
        working.keep(
            event.tool, self._redacted(event.arguments), output, error=self._redact(event.error)
        )

    def _keep_answer(self, event: HookEvent, scope: Scope) -> None:
        answer = own_words(self._redact(event.answer), self._shown)
        if self._finish(event.session, answer):
            return
        # The turn was opened by a helper that is gone, or by nobody.
        prompt = strip(self._redact(event.prompt)).strip()
        said = [{"role": "user", "content": prompt}] if prompt else []
        if answer := own_words(answer, self._shown_before(scope)):
            said.append({"role": "assistant", "content": answer})
        if said:
            runtime = self.memory.runtime
            session = session_of(scope, runtime.now())
            runtime.indexer.enqueue_messages(said, session=session, scope=scope)

    def _finish(self, session: str, answer: str) -> bool:
        with self._lock:
            turn = self._turns.pop(session, None)
        if turn is not None:
            turn.done(answer)
        return turn is not None

    def _redact(self, text: str) -> str:
        """`text` without keys and passwords, nor those that were told here before."""
        text = text[:LONGEST_TEXT]
        found = [secret for _, secret in find_secrets(text) if len(secret) >= _LEAST_OF_A_SECRET]
        with self._lock:
            self._secrets |= dict.fromkeys(found)
            while len(self._secrets) > MOST_SECRETS:
                self._secrets.pop(next(iter(self._secrets)))
            known = sorted(self._secrets, key=len, reverse=True)
        for secret in known:
            text = text.replace(secret, REMOVED)
        return redact(text)

    def _redacted(self, value: Any) -> Any:
        """The same of a value that came as JSON."""
        if isinstance(value, dict):
            return {self._redact(str(name)): self._redacted(one) for name, one in value.items()}
        if isinstance(value, list):
            return [self._redacted(one) for one in value]
        return self._redact(value) if isinstance(value, str) else value

    def _shown_before(self, scope: Scope) -> dict[bytes, None]:
        """What the last blocks of this reader are recognised by, whoever built them."""
        known: dict[bytes, None] = {}
        for snapshot in self.memory.runtime.trace.list(limit=5, scope=scope):
            with suppress(MalformedBlock):
                known |= dict.fromkeys(fingerprints(parse_context(snapshot.message)))
        return known


def _quietly(job: Callable[..., object], *told: Any) -> None:
    try:
        job(*told)
    except Exception:  # noqa: BLE001 - the next one is tried all the same
        _log.warning("What a hook told could not be stored", exc_info=True)


# ----------------------------------------------------------------------------
# The helper that stays.


IDLE_SECONDS = 1_800.0
MOST_BYTES = 32 * 1024 * 1024
_PATIENCE_SECONDS = 5.0


def serve(store: Path, *, embedder: str | None, idle_seconds: float = IDLE_SECONDS) -> None:
    """Answer hooks until none came for `idle_seconds`; at once if somebody does so already."""
    import fcntl

    from agentmem import __version__
    from agentmem.memory.opening import open as open_store

    store.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    os.chdir(store.parent)  # the name of a socket may have a hundred characters, a path has more
    os.umask(0o077)
    name = f"{store.name}.hook"
    lock = os.open(f"{name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return
    with suppress(FileNotFoundError):
        os.unlink(name)
    with open_store(store, embedder=embedder) as memory, socket.socket(socket.AF_UNIX) as door:
        hooks = Hooks(memory)
        _warm_up(memory)
        door.bind(name)
        door.listen(64)
        door.settimeout(1.0)
        stopping = threading.Event()
        signal.signal(signal.SIGTERM, lambda *_: stopping.set())
        last = time.monotonic()
        while not stopping.is_set() and time.monotonic() - last < idle_seconds:
            try:
                client, _ = door.accept()
            except TimeoutError:
                continue
            with client, suppress(OSError, ValueError, KeyError, TypeError):
                if not _is_mine(client):
                    continue
                last = time.monotonic()
                asked = _read(client)
                if asked.get("stop") or asked["version"] != __version__:
                    stopping.set()
                    client.sendall(b"+" if asked.get("stop") else b"")
                    continue
                scope = Scope(**asked["scope"])
                said = hooks.answer(asked["event"], scope, limit_tokens=int(asked["limit_tokens"]))
                client.sendall(b"+" + said.encode())
        with suppress(FileNotFoundError):
            os.unlink(name)
        hooks.close()


def _warm_up(memory: MemoryManager) -> None:
    """Load what the first prompt would wait for."""
    with suppress(Exception):
        memory.turn([{"role": "user", "content": "What do you know?"}], dry=True)
        redact("api_key = x")


def _is_mine(client: socket.socket) -> bool:
    """Whether the other end is a process of the same user, where the system tells."""
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return True
    import struct

    _, uid, _ = struct.unpack("3i", client.getsockopt(socket.SOL_SOCKET, option, 12))
    return bool(uid == os.getuid())


def _read(client: socket.socket) -> dict[str, Any]:
    client.settimeout(_PATIENCE_SECONDS)
    data = bytearray()
    while piece := client.recv(65_536):
        data += piece
        if len(data) > MOST_BYTES:
            raise ValueError("too long")
    asked = json.loads(data)
    if not isinstance(asked, dict):
        raise TypeError("no object")
    return asked


if __name__ == "__main__":
    _, _store, _embedder, _idle = sys.argv
    _none = _embedder.lower() in ("", "none")
    serve(Path(_store), embedder=None if _none else _embedder, idle_seconds=float(_idle))
