"""Talk to a model that remembers: a whole conversation, or one question."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from agentmem.base.config import LearnConfig, LoopConfig
from agentmem.base.errors import AgentMemError, InvalidInput, RecordNotFound
from agentmem.cli.common import (
    FAILED,
    NOTHING_FOUND,
    CommandRun,
    model_name,
    model_option,
    one_line,
    read_text,
    resolve_id,
    steps,
    visible,
    words_argument,
    wrap_line,
)
from agentmem.cli.memories import preference_lines, short_id, shown_id
from agentmem.inspector.layout import hang, heading, many, pairs, width_of
from agentmem.inspector.render import render_budget
from agentmem.prompt.cite import Citation, citation_to_dict, safe_url
from agentmem.stores.open_files import new_file

if TYPE_CHECKING:
    from agentmem.agent.loop import AgentLoopResult, Status
    from agentmem.memory.manager import MemoryManager
    from agentmem.prompt.snapshot import Looked, Snapshot


T = TypeVar("T")


_system_option = click.option(
    "--system", metavar="TEXT", default="", help="Instructions for the model."
)


@model_option
@_system_option
@click.option("--no-history", is_flag=True, help="Keep no file of the lines you type.")
def chat(at: CommandRun, *, model: str | None, system: str, no_history: bool) -> None:
    """Talk to a model that remembers.

    Ctrl-C stops an answer, Ctrl-D or /quit leaves. /why shows what the last
    answer was given, /prefs what is known of you, /forget takes the last turn
    or one memory back. Lines that are piped in are answered one by one; it then
    exits with 1 when one of them failed.

    For example: agentmem chat --model gpt-4o
    """
    name = model_name(model)
    with talking(at, model=name, system=system) as talk:
        by_hand = at.talks and at.on_terminal and not at.json
        if by_hand:
            path = None if no_history else at.history
            talk.greet()
            lines = typed_lines(talk, path)
        else:
            lines = piped_lines()
        for line in lines:
            if not talk.hear(line) or (talk.stopped and not by_hand):
                break
        if at.json:
            at.document({"model": talk.name, "turns": talk.turns})
    if by_hand:
        return
    if talk.stopped:
        raise KeyboardInterrupt
    if talk.failed:
        raise click.exceptions.Exit(FAILED)


@words_argument("question", help="Several words need no quotes; - or nothing is stdin.")
@model_option
@_system_option
@click.option("--no-remember", is_flag=True, help="Keep nothing of this turn.")
def ask(
    at: CommandRun, question: str | None, *, model: str | None, system: str, no_remember: bool
) -> None:
    """Ask one question and print the answer with its sources.

    Without a model, exits with 5 when memory has no answer.

    For example: agentmem ask "Which language does Alice prefer?"
    """
    name = model_name(model)
    asked = read_text(question, name="question").strip()
    if not asked:
        raise InvalidInput("question", asked, "is empty", remedy="Ask something.")
    with talking(at, model=name, system=system, remembers=not no_remember) as talk:
        found = talk.answer(asked)
        if at.json:
            at.document(talk.turns[-1])
    if talk.stopped:
        raise KeyboardInterrupt
    if not found:
        raise click.exceptions.Exit(NOTHING_FOUND)


def run_until_stopped(
    runner: asyncio.Runner, work: Callable[[asyncio.Event], Awaitable[T]]
) -> tuple[T, bool]:
    """What `work` gives, and whether Ctrl-C stopped it: it is told, and gives what it has."""

    async def run() -> tuple[T, bool]:
        stop, loop = asyncio.Event(), asyncio.get_running_loop()
        try:
            loop.add_signal_handler(signal.SIGINT, stop.set)
        except (NotImplementedError, RuntimeError, ValueError):
            # Not on this platform, or not in the main thread: Ctrl-C raises as usual.
            return await work(stop), False
        try:
            return await work(stop), stop.is_set()
        finally:
            loop.remove_signal_handler(signal.SIGINT)

    return runner.run(run())


@contextlib.contextmanager
def talking(at: CommandRun, **how: Any) -> Iterator[Talk]:
    """A conversation with the memory that is meant."""
    with at.memory() as memory, asyncio.Runner() as runner:
        memory.get_all(limit=1, **at.whose)  # a turn would go on without a store it cannot read
        yield Talk(memory=memory, at=at, runner=runner, whose=at.whose, **how)


def piped_lines() -> Iterator[str]:
    """The lines of stdin; what is not UTF-8 in them is replaced."""
    reconfigure = getattr(sys.stdin, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(encoding="utf-8", errors="replace")
    for line in sys.stdin:
        if line.strip():
            yield line.lstrip("\ufeff")


# ----------------------------------------------------------------------------
# A text that arrives in pieces, written as it comes and wrapped between words.


class Flow:
    """Writes pieces of a text to the screen.

    On a terminal lines break between words; elsewhere the text stays as it
    is. Escape sequences never get through, also when a piece ends inside one:
    without their first character they are plain text.
    """

    def __init__(self, at: CommandRun) -> None:
        self._at = at
        self._column = 0
        self._space = ""
        self._word = ""
        self.began = False

    def add(self, piece: str) -> None:
        """Write a piece; the last word waits until it is whole."""
        shown = visible(piece)
        if not shown:
            return
        self.began = True
        if not self._at.on_terminal:
            self._at.write(shown)
            self._column = 0 if shown.endswith("\n") else 1
            return
        out: list[str] = []
        for character in shown:
            if character in " \t\n":
                out.append(self._take_word())
                if character == "\n":
                    out.append("\n")
                    self._column, self._space = 0, ""
                else:
                    self._space += " "
            else:
                if width_of(self._word + character) > self._at.width:
                    out.append(self._take_word())
                self._word += character
        self._at.write("".join(out))

    def end(self) -> None:
        """Write what waits, and end the line."""
        rest = self._take_word()
        if rest or self._column:
            self._at.write(rest + "\n")
        self._column, self._space = 0, ""

    def _take_word(self) -> str:
        word, space = self._word, self._space
        if not word:
            return ""
        self._word = self._space = ""
        size = width_of(word)
        if self._column and self._column + len(space) + size > self._at.width:
            self._column = size
            return "\n" + word
        space = space[: max(0, self._at.width - self._column - size)]
        self._column += len(space) + size
        return space + word


# ----------------------------------------------------------------------------
# The numbered sources under an answer, as links where a terminal has them.


SNIPPET = 60
"""So many columns of what a chunk says stand behind the title of its page."""


def source_lines(at: CommandRun, citations: Sequence[Citation]) -> list[str]:
    """One source or two lines each: number, title, where it is from; then its address."""
    lines: list[str] = []
    for citation in sorted(citations, key=lambda one: one.index):
        facts = [citation.label]
        if citation.date is not None:
            facts.append(citation.date.isoformat()[:10])
        if citation.memory_id:
            facts.append(shown_id(at, citation.memory_id))
        number = f"[{citation.index}] "
        said = f"({', '.join(facts)})"
        named: tuple[str, ...] = (citation.title, citation.quote, citation.url, "untitled")
        if citation.source == "memory" and not citation.url:  # its own words say more than "fact"
            named = (citation.quote, *named)
        title = next(filter(None, map(one_line, named)))
        if citation.source == "memory" and citation.url and citation.quote:
            snippet = at.pen.cut(one_line(citation.quote), SNIPPET)
            title = title if title == snippet else f"{title}: {snippet}"
        apart = at.on_terminal and width_of(f"{number}{title} {said}") > at.width
        if apart:
            title = at.pen.cut(title, at.width - len(number))
        start = number + link(at, title, citation.url)
        if apart:
            lines += [start, "    " + at.pen.paint(at.pen.cut(said, at.width - 4), "dim")]
        else:
            lines.append(f"{start} {at.pen.paint(said, 'dim')}")
        url = one_line(citation.url)
        if url and url != title:
            shown = at.pen.cut(url, at.width - 4) if at.on_terminal else url
            lines.append("    " + at.pen.paint(shown, "dim"))
    return lines


def link(at: CommandRun, text: str, url: str) -> str:
    """`text` that opens `url` when it is clicked, on terminals with colours; else just `text`."""
    target = safe_url(url)
    if not at.pen.colour or not target.startswith(("http://", "https://")):
        return text
    return f"\x1b]8;;{target}\x1b\\{text}\x1b]8;;\x1b\\"


# ----------------------------------------------------------------------------
# A conversation: questions go to the loop, answers to the screen, commands are obeyed.


HELP = (
    ("/why", "what the last answer was given, and what was left out"),
    ("/prefs", "what is known of you"),
    ("/forget", "take the last turn back; again, the one before it"),
    ("/forget ID", "take one memory back; the conversation starts anew, without it"),
    ("/help", "this list"),
    ("/quit", "leave; Ctrl-D too"),
)
_LATEST = 50
_WAIT_SECONDS = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Turn:
    """A question that was answered, and the conversation before it."""

    question: str
    began: datetime
    before: tuple[Any, ...]
    result: AgentLoopResult


@dataclass(kw_only=True)
class Talk:
    """One conversation with a memory and a model, on one screen."""

    memory: MemoryManager
    at: CommandRun
    runner: asyncio.Runner
    model: str | Callable[..., Any]
    whose: Mapping[str, Any]
    system: str = ""
    remembers: bool = True
    turns: list[dict[str, Any]] = field(default_factory=list)
    stopped: bool = False
    failed: bool = False
    """Whether some turn ended in an error."""

    def __post_init__(self) -> None:
        self.name = self.model if isinstance(self.model, str) else "a callable"
        system = {"role": "system", "content": self.system}
        self._start: tuple[Any, ...] = (system,) if self.system else ()
        self._messages: tuple[Any, ...] = self._start
        self._said: list[_Turn] = []
        learn = LearnConfig(auto_index=self.remembers, preferences=self.remembers)
        self._config = LoopConfig(learn=learn)
        self.commands: dict[str, Callable[[str], None] | None] = {
            "/why": self._why,
            "/prefs": self._prefs,
            "/forget": self._forget,
            "/help": self._help,
            "/quit": None,
            "/exit": None,
        }

    def greet(self) -> None:
        """Say who answers."""
        who = "no model: answers quote your memory" if self.name == "extractive" else self.name
        self.at.note(f"agentmem chat ({one_line(who)}). /help lists the commands.")

    def hear(self, line: str) -> bool:
        """Obey a command or answer a question; whether the conversation goes on."""
        said = line.strip()
        name, _, rest = said.partition(" ")
        try:
            if name in self.commands:
                obey = self.commands[name]
                if obey is None:
                    return False
                obey(rest.strip())
            elif name.startswith("/") and name[1:].isalpha():
                self.at.complain(f"There is no {one_line(name)}; /help lists the commands.")
            else:
                self.answer(said)
        except click.exceptions.Exit:  # nobody reads any more
            raise
        except Exception as error:  # noqa: BLE001 - a failing model must not end the conversation
            self._complain(error)
        return True

    def answer(self, question: str) -> bool:
        """Ask the loop and print what it says as it comes; whether there was an answer."""
        from agentmem.models.extract import NOTHING

        at, flow = self.at, Flow(self.at)
        began = self.memory.clock.now()
        with contextlib.ExitStack() as until_heard:
            if at.on_terminal and self.name != "extractive":
                until_heard.enter_context(steps(at, f"asking {self.name}"))

            def hear(piece: str) -> None:
                until_heard.close()
                flow.add(piece)

            result, self.stopped = run_until_stopped(
                self.runner, lambda stop: self._ask(question, hear, stop)
            )
        if not at.json:
            if not flow.began:
                flow.add(result.answer)
            flow.end()
            self._after(result)
        turn = _Turn(question=question, began=began, before=self._messages, result=result)
        self._said.append(turn)
        self._messages = result.messages
        self.turns.append(turn_to_dict(question, result, self.name))
        return result.answer.strip() not in ("", NOTHING)

    async def _ask(
        self, question: str, hear: Callable[[str], None], stop: asyncio.Event
    ) -> AgentLoopResult:
        from agentmem.agent.loop import AgentLoopResult, run_agent_loop
        from agentmem.base.threads import Stopped

        try:
            await self._get_ready(stop)
        except Stopped:
            return AgentLoopResult(answer="", messages=self._messages, why="stopped")

        def say(status: Status) -> None:
            if status.step == "tool" and self.at.on_terminal and not self.at.json:
                self.at.note(f"using {one_line(status.text)}")

        return await run_agent_loop(
            question,
            memory=self.memory,
            model=self.model,
            messages=self._messages,
            config=self._config,
            on_status=say,
            on_chunk=None if self.at.json else hear,
            signal=stop,
            **self.whose,
        )

    async def _get_ready(self, stop: asyncio.Event) -> None:
        """Load what asks models: it takes seconds, during which Ctrl-C must work."""
        if isinstance(self.model, str) and self.model != "extractive":
            from agentmem.base.threads import in_thread, unless_stopped
            from agentmem.tokens.litellm import import_litellm

            await unless_stopped(in_thread(import_litellm), stop)

    def _after(self, result: AgentLoopResult) -> None:
        """Sources, what was learned, what went wrong."""
        at = self.at
        if result.why == "stopped":
            at.note("(stopped)")
        if result.citations:
            at.print(source_lines(at, result.citations))
        for preference in result.preferences:
            at.note(f"Noted: {one_line(preference.text)} (/forget takes it back)")
        at.note_problems(result.degradations)

    # -- commands ----------------------------------------------------------------------

    def _why(self, rest: str) -> None:
        from agentmem.inspector.look import store_option

        if not self._said:
            self.at.complain("Nothing was asked yet.")
            return
        last, snapshot = self._said[-1].result, None
        if last.snapshot_id:
            snapshot = self.memory.runtime.trace.get(last.snapshot_id, scope=None)
        self._say(why_lines(self.at, last, snapshot, store=store_option(self.memory)))

    def _prefs(self, rest: str) -> None:
        found = self.memory.preferences.get_all(**self.whose)
        known = preference_lines(self.at, found, now=self.memory.clock.now())
        self._say(known or ["No preferences are known."])

    def _forget(self, rest: str) -> None:
        if rest and rest != "last":
            self._forget_memory(rest)
        elif self._said:
            self._forget_turn()
        else:
            self.at.complain("Nothing was said yet.")

    def _forget_memory(self, given: str) -> None:
        """Take a memory back, and every turn out of the conversation: any may repeat it."""
        meant = resolve_id(self.memory, given, self.whose)
        self._take_back(meant)
        anew = " (the conversation starts anew)" if self._messages != self._start else ""
        self._messages = self._start
        self._said = [replace(turn, before=self._start) for turn in self._said]
        self._say([f"Forgotten: {meant}{anew}"])

    def _forget_turn(self) -> None:
        """Take the last turn back, and what was learned from it."""
        turn = self._said[-1]
        self.memory.flush(_WAIT_SECONDS)
        learned = [preference.id for preference in turn.result.preferences]
        count = 0
        for memory_id in (*learned, *self._stored_of(turn)):
            with suppress(RecordNotFound):  # taken back elsewhere meanwhile
                self._take_back(memory_id)
                count += 1
        self._said.pop()
        self._messages = turn.before
        self._say([f"Forgotten: the last turn ({many(count, 'memory')})"])

    def _stored_of(self, turn: _Turn) -> list[str]:
        """The messages of the last turn: of one moment, since the same user may talk elsewhere."""
        latest = self.memory.get_all(kinds=["message"], limit=_LATEST, **self.whose)
        since = [one for one in latest if one.created_at >= turn.began]
        question = one_line(turn.question)
        own = [one for one in since if one.origin == "user" and one_line(one.text) in question]
        moments = {one.created_at for one in own}
        return [one.id for one in since if one.created_at in moments]

    def _help(self, rest: str) -> None:
        self._say(pairs(self.at.pen, HELP, width=self.at.width))

    def _take_back(self, memory_id: str) -> None:
        found = self.memory.get(memory_id, **self.whose)
        if found.kind == "preference":
            self.memory.preferences.undo(memory_id, **self.whose)
        else:
            self.memory.delete(memory_id, **self.whose)

    def _say(self, lines: list[str]) -> None:
        if not self.at.json:  # stdout is for the document
            self.at.print(lines)

    def _complain(self, error: Exception) -> None:
        self.failed = True
        message = str(error) or type(error).__name__
        kind = "" if isinstance(error, AgentMemError) else f"{type(error).__name__}: "
        self.at.complain(f"Error: {kind}{one_line(message)}")
        if self.at.json:
            self.turns.append({"error": {"type": type(error).__name__, "message": message}})


def turn_to_dict(question: str, result: AgentLoopResult, model: str) -> dict[str, Any]:
    """A turn as JSON values."""
    budget, shown = result.budget, ("used_tokens", "available_tokens", "percent")
    return {
        "question": question,
        "answer": result.answer,
        "model": model,
        "why": result.why,
        "citations": list(map(citation_to_dict, result.citations)),
        "offered": list(map(citation_to_dict, result.offered)),
        "preferences": [one.to_dict() for one in result.preferences],
        "tool_calls": [
            {"name": one.name, "ok": one.ok, "result_id": one.result_id}
            for one in result.tool_calls
        ],
        "usage": dict(result.usage),
        "budget": budget and {name: getattr(budget, name) for name in shown},
        "iterations": result.iterations,
        "message_id": result.message_id,
        "snapshot_id": result.snapshot_id,
        "degradations": list(result.degradations),
    }


# ----------------------------------------------------------------------------
# Lines typed at a prompt, with history and completion.


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


# ----------------------------------------------------------------------------
# The last context in full: what was sent, what it cost, what was kept and dropped and why.


MOST_DROPPED = 5
_MARKS = {"kept": ("+", "good"), "cut": ("~", "warn"), "dropped": ("-", "dim")}


def why_lines(
    at: CommandRun, result: AgentLoopResult, snapshot: Snapshot | None, *, store: str = ""
) -> list[str]:
    """The block, the budget and the fate of every candidate; `store` is the option naming it."""
    pen, width = at.pen, at.width
    problems: list[str] = []
    lines = heading(pen, "What memory added", width=width)
    for line in visible(result.block or "Nothing.").split("\n"):
        lines += wrap_line(pen, line.expandtabs(4), width)
    if result.budget is not None:
        lines += ["", render_budget(result.budget, columns=width, ascii_only=pen.ascii_only)]
    if snapshot is not None:
        seen = [
            one for one in snapshot.looked_at if one.section in ("knowledge", "profile", "working")
        ]
        lines += ["", *heading(pen, "What was looked at", f"{len(seen):,}", width=width)]
        for reason, alike in groupby(seen, key=lambda one: (one.decision, one.reason)):
            group = list(alike)
            shown = group if reason[0] != "dropped" else group[:MOST_DROPPED]
            for one in shown:
                lines += _fate(at, one)
            if more := len(group) - len(shown):
                lines.append(pen.paint(f"    and {more:,} more like these", "dim"))
        if not seen:
            lines.append("Nothing was found.")
        problems += snapshot.warnings
    problems += result.degradations
    for text in dict.fromkeys(problems):
        lines += hang("! ", pen.wrap(one_line(text), width - 2))
    if result.message_id:
        lines += ["", pen.paint(f"agentmem explain{store} {result.message_id}", "dim")]
    return lines


def _fate(at: CommandRun, one: Looked) -> list[str]:
    pen = at.pen
    mark, style = _MARKS[one.decision]
    score = "    " if one.score is None else f"{one.score:.2f}"
    head = f"{mark} {score} {short_id(one.id)} "
    text = pen.cut(one_line(one.text or one.title) or one.id, max(10, at.width - len(head)))
    reason = pen.wrap(f"{one.decision}: {one_line(one.reason)}", at.width - 4)
    return [
        pen.paint(head, style) + text,  # type: ignore[arg-type]  # one of Style
        *("    " + pen.paint(line, "dim") for line in reason),
    ]
