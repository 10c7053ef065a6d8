"""A conversation: questions go to the loop, answers to the screen, commands are obeyed."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from agentmem.cli.common import resolve_id
from agentmem.cli.flowing import Flow
from agentmem.cli.output import Screen, one_line
from agentmem.cli.progress import steps
from agentmem.cli.running import Stoppable
from agentmem.cli.sources import citation_to_dict, source_lines
from agentmem.config import LoopConfig
from agentmem.core.values import dataclass
from agentmem.errors import AgentMemError, RecordNotFound

if TYPE_CHECKING:
    from agentmem.loop import AgentLoopResult, Status
    from agentmem.manager import MemoryManager

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


class Talk:
    """One conversation with a memory and a model, on one screen."""

    def __init__(
        self,
        memory: MemoryManager,
        at: Screen,
        runner: Stoppable,
        *,
        model: str | Callable[..., Any],
        whose: Mapping[str, Any],
        system: str = "",
        remembers: bool = True,
    ) -> None:
        self.memory = memory
        self.at = at
        self.model = model
        self.name = model if isinstance(model, str) else "a callable"
        self.whose = dict(whose)
        self.turns: list[dict[str, Any]] = []
        self.stopped = False
        self.failed = False
        """Whether some turn ended in an error."""
        self._runner = runner
        self._start: tuple[Any, ...] = ({"role": "system", "content": system},) if system else ()
        self._messages: tuple[Any, ...] = self._start
        self._said: list[_Turn] = []
        self._config = LoopConfig(enable_auto_index=remembers, detect_preferences=remembers)
        self.commands: dict[str, Callable[[str], bool]] = {
            "/why": self._why,
            "/prefs": self._prefs,
            "/forget": self._forget,
            "/help": self._help,
            "/quit": lambda _: False,
            "/exit": lambda _: False,
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
                return self.commands[name](rest.strip())
            if name.startswith("/") and name[1:].isalpha():
                self.at.complain(f"There is no {one_line(name)}; /help lists the commands.")
                return True
            self.answer(said)
        except click.exceptions.Exit:  # nobody reads any more
            raise
        except Exception as error:  # noqa: BLE001 - a failing model must not end the conversation
            self._complain(error)
        return True

    def answer(self, question: str) -> bool:
        """Ask the loop and print what it says as it comes; whether there was an answer."""
        from agentmem.extracting import NOTHING

        at, flow = self.at, Flow(self.at)
        began = self.memory.clock.now()
        with contextlib.ExitStack() as until_heard:
            if at.on_terminal and self.name != "extractive":
                until_heard.enter_context(steps(at, f"asking {self.name}"))

            def hear(piece: str) -> None:
                until_heard.close()
                flow.add(piece)

            result, self.stopped = self._runner.run(lambda stop: self._ask(question, hear, stop))
        if not at.json:
            if not flow.began:
                flow.add(result.answer)
            flow.end()
            self._after(result)
        self._said.append(
            _Turn(question=question, began=began, before=self._messages, result=result)
        )
        self._messages = result.messages
        self.turns.append(turn_to_dict(question, result, self.name))
        return result.answer.strip() not in ("", NOTHING)

    async def _ask(
        self, question: str, hear: Callable[[str], None], stop: asyncio.Event
    ) -> AgentLoopResult:
        from agentmem.loop import AgentLoopResult, run_agent_loop
        from agentmem.threads import Stopped

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
            from agentmem.litellm_loader import import_litellm
            from agentmem.threads import in_thread, unless_stopped

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
        for problem in dict.fromkeys(result.degradations):
            at.note(f"Note: {one_line(problem)}")

    # -- commands ----------------------------------------------------------------------

    def _why(self, rest: str) -> bool:
        from agentmem.cli.why import why_lines
        from agentmem.inspector.commands import store_option

        if not self._said:
            self.at.complain("Nothing was asked yet.")
            return True
        last, snapshot = self._said[-1].result, None
        if last.snapshot_id:
            snapshot = self.memory.runtime.trace.get(last.snapshot_id, scope=None)
        store = store_option(self.memory)
        self._say(why_lines(self.at, last, snapshot, store=store))
        return True

    def _prefs(self, rest: str) -> bool:
        from agentmem.cli.preferring import preference_lines

        found = self.memory.preferences.get_all(**self.whose)
        now = self.memory.clock.now()
        known = preference_lines(self.at, found, now=now)
        self._say(known if found else ["No preferences are known."])
        return True

    def _forget(self, rest: str) -> bool:
        if rest and rest != "last":
            self._forget_memory(rest)
        elif self._said:
            self._forget_turn()
        else:
            self.at.complain("Nothing was said yet.")
        return True

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
            with contextlib.suppress(RecordNotFound):  # taken back elsewhere meanwhile
                self._take_back(memory_id)
                count += 1
        self._said.pop()
        self._messages = turn.before
        self._say(
            [f"Forgotten: the last turn ({count:,} {'memory' if count == 1 else 'memories'})"]
        )

    def _stored_of(self, turn: _Turn) -> list[str]:
        """The messages of the last turn: of one moment, since the same user may talk elsewhere."""
        latest = self.memory.get_all(kinds=["message"], limit=_LATEST, **self.whose)
        since = [one for one in latest if one.created_at >= turn.began]
        question = one_line(turn.question)
        moments = {
            one.created_at
            for one in since
            if one.origin == "user" and one_line(one.text) in question
        }
        return [one.id for one in since if one.created_at in moments]

    def _help(self, rest: str) -> bool:
        from agentmem.core.layout import pairs

        self._say(pairs(self.at.pen, HELP, width=self.at.width))
        return True

    def _take_back(self, memory_id: str) -> None:
        found = self.memory.get(memory_id, **self.whose)
        if found.kind == "preference":
            self.memory.preferences.undo(memory_id, **self.whose)
        else:
            self.memory.delete(memory_id, **self.whose)

    def _say(self, lines: list[str]) -> None:
        if self.at.json:
            return  # stdout is for the document
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
    budget = result.budget
    return {
        "question": question,
        "answer": result.answer,
        "model": model,
        "why": result.why,
        "citations": [citation_to_dict(one) for one in result.citations],
        "offered": [citation_to_dict(one) for one in result.offered],
        "preferences": [one.to_dict() for one in result.preferences],
        "tool_calls": [
            {"name": one.name, "ok": one.ok, "result_id": one.result_id}
            for one in result.tool_calls
        ],
        "usage": dict(result.usage),
        "budget": None
        if budget is None
        else {
            "used_tokens": budget.used_tokens,
            "available_tokens": budget.available_tokens,
            "percent": budget.percent,
        },
        "iterations": result.iterations,
        "message_id": result.message_id,
        "snapshot_id": result.snapshot_id,
        "degradations": list(result.degradations),
    }
