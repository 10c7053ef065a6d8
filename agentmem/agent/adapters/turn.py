"""One call of a model with memory around it: open a turn, send, take the answer.

Memory never fails a call. Whatever goes wrong is noted as a degradation and
the caller's own messages are sent.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import operator
import threading
import time
from collections import deque
from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol, TypedDict, TypeVar

from agentmem.agent.adapters.replies import (
    NO_REPLY,
    Gathering,
    Reply,
    View,
    has_reference,
    is_reply,
    named_user,
    question_key,
    read_reply,
    splice,
)
from agentmem.agent.adapters.streams import is_stream, watch
from agentmem.base.config import LoopConfig, require_config
from agentmem.base.errors import NamelessCaller
from agentmem.base.telemetry import tell_degradation
from agentmem.base.types import EMPTY, Scope, ScopeLike
from agentmem.prompt.messages import Conversation
from agentmem.search.intake import read_scope

if TYPE_CHECKING:
    from agentmem.agent.turn import Turn

_log = logging.getLogger(__name__)
_OFF = b"off"
_inside: ContextVar[bytes] = ContextVar("agentmem_inside", default=b"")

Viewer = Callable[[Any], View]
T = TypeVar("T")


class TurnMaker(Protocol):
    """A memory, as far as a wrapper needs one."""

    @property
    def turn(self) -> Callable[..., Any]: ...
    @property
    def aturn(self) -> Callable[..., Coroutine[Any, Any, Any]]: ...


OnTurn = Callable[[Any], None]
Whose = ScopeLike | Callable[[Any], ScopeLike | None]
"""Whose memory a framework's calls are: always the same, or read from its own context."""


class OpenTurn:
    """A turn whose answer has not come yet. `sent` goes to the model, `given` is the caller's."""

    def __init__(
        self, keeper: TurnKeeper, turn: Turn, *, given: Any, sent: Any, view: View
    ) -> None:
        self.turn = turn
        self.given = given
        self.sent = sent
        self._keeper = keeper
        self._view = view
        self._heard = Gathering()
        self._started = time.perf_counter()
        self._over = threading.Lock()

    @property
    def added(self) -> list[Any]:
        """What memory put among the caller's own items, in the framework's form."""
        return [one for one in self.sent if not any(one is mine for mine in self._view.items)]

    def hear(self, chunk: Any) -> None:
        """Take the next piece of the answer: a chunk of a client's stream, or a `Reply`."""
        with self._keeper.failing_open("a chunk could not be read"):
            self._heard.add(chunk)

    def finish(self, reply: Reply = NO_REPLY, *, error: str = "") -> None:
        """Hand over the answer, else what was heard of it; only the first end counts."""
        if self._over.acquire(blocking=False):
            spent = (time.perf_counter() - self._started) * 1000
            with self._keeper.failing_open("the answer could not be remembered"):
                heard = self._heard.reply()
                self.turn.done(
                    reply.text or heard.text,
                    usage=reply.usage or heard.usage,
                    duration_ms=spent,
                    error=error,
                )
            with self._keeper.failing_open("the turn could not be ended"):
                self.turn.__exit__(None, None, None)
            self._keeper.ended(self.turn)

    def finish_with(self, read: Callable[[], Any]) -> None:
        """Hand over the answer in what `read` gives; where it fails there is none."""
        reply = NO_REPLY
        with contextlib.suppress(Exception):  # never read, or no JSON: there is no answer to keep
            reply = read_reply(read())
        self.finish(reply)

    def abandon(self, error: BaseException | None) -> None:
        """End with what came of the answer: what the user said is remembered all the same."""
        self.finish(error="" if error is None else f"{type(error).__name__}: {error}")

    def end_with_task(self) -> None:
        """End with the task this runs in, if nothing ends it before.

        For frameworks whose hooks are told of an answer and not of a failure.
        """
        task = asyncio.current_task()
        if task is not None:
            task.add_done_callback(
                lambda done: self.abandon(None if done.cancelled() else done.exception())
            )

    @contextlib.contextmanager
    def ending(self) -> Iterator[None]:
        """Whatever is raised in here ends the turn, and goes on its way."""
        try:
            yield
        except BaseException as error:
            self.abandon(error)
            raise

    def call(self, ask: Callable[[Any], T]) -> T:
        """What the model gives; asked again without memory where it finds that too long.

        An error ends the turn, and wrappers further in stay out.
        """
        with self.ending(), self.inside():
            try:
                return ask(self.sent)
            except Exception as error:
                if not self.refused(error):
                    raise
            return ask(self.given)

    async def acall(self, ask: Callable[[Any], Awaitable[T]]) -> T:
        """The same, without holding up the event loop."""
        with self.ending(), self.inside():
            try:
                return await ask(self.sent)
            except Exception as error:
                if not self.refused(error):
                    raise
            return await ask(self.given)

    def refused(self, error: BaseException) -> bool:
        """Whether the model found too long what may fit without the block."""
        with self._keeper.failing_open("a refusal could not be learned from"):
            if self.turn.refused(error) and self.turn.injected:
                self._keeper.note(
                    "the model refused the request as too long; it was sent again without memory"
                )
                return True
        return False

    def take(self, result: Any) -> Any:
        """`result` for the caller: a whole reply is read now, a stream while it is read."""
        if isinstance(result, list | tuple):
            for chunk in result:
                self.hear(chunk)
            self.finish()
        elif is_reply(result) or not is_stream(result):
            self.finish(self._keeper.read(result))
        else:
            return self.watch(result)
        return result

    def watch(self, stream: Any) -> Any:
        """`stream`, whose gathered text becomes the answer when it is over."""
        return watch(stream, on_chunk=self.hear, on_end=self.abandon, during=self.inside)

    def inside(self) -> contextlib.AbstractContextManager[None]:
        """While this is entered, wrappers and hooks further in leave this turn's calls alone."""
        return Inside(question_key(self._view.messages))


class TurnOptions(TypedDict, total=False):
    """What may be said where turns are opened for a client: whose, how, and who is shown them."""

    scope: ScopeLike | None
    config: LoopConfig | None
    on_turn: OnTurn | None


class TurnKeeper:
    """Opens turns for one wrapped client and keeps what went wrong."""

    def __init__(
        self,
        memory: TurnMaker,
        *,
        scope: Whose | None = None,
        config: LoopConfig | None = None,
        on_turn: OnTurn | None = None,
    ) -> None:
        self.memory = memory
        self.degradations: deque[str] = deque(maxlen=100)
        self._choose = scope if callable(scope) else None
        self._scope = None if scope is None or callable(scope) else read_scope(scope, {})
        require_config(config)
        self._config = config
        self._on_turn = on_turn
        self._said: set[str] = set()

    def open(self, messages: Any, view_of: Viewer, **whose: Any) -> OpenTurn | None:
        """A turn around `messages`, or None when this call goes without memory."""
        with self.failing_open("memory was left out of this call"):
            prepared = self._prepare(messages, view_of, **whose)
            if prepared is not None:
                view, options = prepared
                return self._opened(messages, view, self.memory.turn(view.messages, **options))
        return None

    async def aopen(self, messages: Any, view_of: Viewer, **whose: Any) -> OpenTurn | None:
        """The same, without holding up the event loop."""
        with self.failing_open("memory was left out of this call"):
            prepared = self._prepare(messages, view_of, **whose)
            if prepared is not None:
                view, options = prepared
                turn = await self.memory.aturn(view.messages, **options)
                return self._opened(messages, view, turn)
        return None

    def call(
        self,
        items: Any,
        ask: Callable[[Any], T],
        view_of: Viewer,
        *,
        read: Callable[[T], Reply] = read_reply,
        **whose: Any,
    ) -> T:
        """What `ask` gives for `items`, with the reference among them; the answer is kept."""
        opened = self.open(items, view_of, **whose)
        if opened is None:
            return ask(items)
        result = opened.call(ask)
        opened.finish(self.read(result, read))
        return result

    async def acall(
        self,
        items: Any,
        ask: Callable[[Any], Awaitable[T]],
        view_of: Viewer,
        *,
        read: Callable[[T], Reply] = read_reply,
        **whose: Any,
    ) -> T:
        """The same, without holding up the event loop."""
        opened = await self.aopen(items, view_of, **whose)
        if opened is None:
            return await ask(items)
        result = await opened.acall(ask)
        opened.finish(self.read(result, read))
        return result

    def stream(
        self,
        items: Any,
        ask: Callable[[Any], Iterable[T]],
        view_of: Viewer,
        *,
        read: Callable[[T], Reply],
        **whose: Any,
    ) -> Iterator[T]:
        """The chunks that `ask` gives, as they come; `read` finds the words in each."""
        opened = self.open(items, view_of, **whose)
        if opened is None:
            yield from ask(items)
            return
        with opened.ending():
            for chunk in ask(opened.sent):
                opened.hear(self.read(chunk, read))
                yield chunk
        opened.finish()

    async def astream(
        self,
        items: Any,
        ask: Callable[[Any], AsyncIterable[T]],
        view_of: Viewer,
        *,
        read: Callable[[T], Reply],
        **whose: Any,
    ) -> AsyncIterator[T]:
        """The same, without holding up the event loop."""
        opened = await self.aopen(items, view_of, **whose)
        if opened is None:
            async for chunk in ask(items):
                yield chunk
            return
        with opened.ending():
            async for chunk in ask(opened.sent):
                opened.hear(self.read(chunk, read))
                yield chunk
        opened.finish()

    def read(self, result: T, read: Callable[[T], Reply] = read_reply) -> Reply:
        """The reply in a whole response; one that cannot be read counts as empty."""
        with self.failing_open("the answer could not be read"):
            return read(result)
        return NO_REPLY

    def note(self, problem: str, error: BaseException | None = None) -> None:
        """Keep a degradation; the first of its kind is logged as a warning."""
        text = f"{problem}: {type(error).__name__}: {error}" if error else problem
        self.degradations.append(text)
        tell_degradation(problem, error)
        level = logging.DEBUG if problem in self._said else logging.WARNING
        self._said.add(problem)
        _log.log(level, "%s", text)

    @contextlib.contextmanager
    def failing_open(self, problem: str) -> Iterator[None]:
        """Whatever memory raises in here becomes a degradation, but for what strictness refuses."""
        try:
            yield
        except NamelessCaller:
            raise
        except Exception as error:  # noqa: BLE001  # the agent's answer never depends on memory
            self.note(problem, error)

    def ended(self, turn: Turn) -> None:
        """Take over what the turn noted, and show it to whoever asked to see turns.

        What only the exact plan of the request would tell is told when the
        background has made it.
        """
        with self.failing_open("a turn could not be looked at"):
            turn.tell_degradations(self.degradations.append)  # it has logged them itself
            if self._on_turn is not None:
                self._on_turn(turn)

    def _prepare(
        self,
        messages: Any,
        view_of: Viewer,
        *,
        scope: ScopeLike | None = None,
        named: Mapping[str, Any] = EMPTY,
        context: Any = None,
        names: Sequence[object] = (),
    ) -> tuple[View, dict[str, Any]] | None:
        view = view_of(messages)
        if has_reference(view.messages) or is_inside(view.messages):
            return None
        model, tools = named.get("model"), named.get("tools")
        options = {
            "model": model if isinstance(model, str) else "",
            "tools": list(tools) if isinstance(tools, list | tuple) and tools else None,
            "scope": self.whose(scope, named, context, names),
            "config": self._config,
        }
        return view, options

    def whose(
        self,
        scope: ScopeLike | None,
        named: Mapping[str, Any] = EMPTY,
        context: Any = None,
        names: Sequence[object] = (),
    ) -> Scope:
        """The scope said for this call, else the wrapper's, else the user the request names.

        The wrapper's may be a function of the framework's own `context`. `names`
        are the framework's user and thread; the first that is one is the user.
        """
        if scope is None and self._choose is not None:
            scope = self._choose(context)
        if scope is not None:
            return read_scope(scope, {})
        if self._scope is not None:
            return self._scope
        said = next((name for name in names if isinstance(name, str) and name), None)
        return Scope(user_id=said or named_user(named))

    def _opened(self, messages: Any, view: View, turn: Any) -> OpenTurn:
        turn = turn.__enter__()
        try:
            sent = splice(view, turn.messages)
            if sent is None:
                self.note("the built messages are not the caller's, which were sent instead")
            if sent is None or _are(sent, view.items):
                sent = messages
            return OpenTurn(self, turn, given=messages, sent=sent, view=view)
        except Exception as error:
            turn.__exit__(type(error), error, None)
            raise


def _are(some: Sequence[Any], others: Sequence[Any]) -> bool:
    """Whether both hold the very same objects."""
    return len(some) == len(others) and all(map(operator.is_, some, others))


class Remembers:
    """What a framework's adapter is made with; goes before the framework's own class.

    `scope` says whose memory it is, `config` how its turns go, and `on_turn` is shown
    each turn when it has ended. Other options are the framework's.
    """

    def __init__(
        self,
        memory: TurnMaker,
        *,
        scope: Whose | None = None,
        config: LoopConfig | None = None,
        on_turn: OnTurn | None = None,
        **theirs: Any,
    ) -> None:
        super().__init__(**theirs)
        self._keeper = TurnKeeper(memory, scope=scope, config=config, on_turn=on_turn)

    @property
    def degradations(self) -> Sequence[str]:
        """What did not work, newest last."""
        return self._keeper.degradations


def is_inside(messages: Conversation) -> bool:
    """Whether a wrapper further out has this turn already, or turned memory off."""
    current = _inside.get()
    return bool(current) and current in (_OFF, question_key(messages))


class Inside:
    """Marks what runs in it as belonging to the turn `key`; without one memory is off."""

    def __init__(self, key: bytes = _OFF) -> None:
        self._key = key

    def __enter__(self) -> None:
        self._token = _inside.set(self._key)

    def __exit__(self, *_: object) -> None:
        _inside.reset(self._token)
