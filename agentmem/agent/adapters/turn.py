"""One call of a model with memory around it: open a turn, send, take the answer.

Memory never fails a call. Whatever goes wrong is noted as a degradation and
the caller's own messages are sent.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import logging
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
from functools import partial
from typing import (
    TYPE_CHECKING,
    Any,
    Literal,
    NamedTuple,
    ParamSpec,
    Protocol,
    TypedDict,
    TypeVar,
    Unpack,
    cast,
    overload,
)

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
    view_chat,
)
from agentmem.agent.adapters.streams import is_stream, watch
from agentmem.base.config import LoopConfig, require_config
from agentmem.base.errors import InvalidInput, NamelessCaller
from agentmem.base.telemetry import tell_degradation
from agentmem.base.threads import awaited
from agentmem.base.types import EMPTY, Scope, ScopeLike
from agentmem.prompt.messages import Conversation
from agentmem.search.intake import read_scope
from agentmem.text.messages import get

if TYPE_CHECKING:
    from agentmem.agent.turn import Turn

_log = logging.getLogger(__name__)
_OFF = b"off"
_inside: ContextVar[bytes] = ContextVar("agentmem_inside", default=b"")

Viewer = Callable[[Any], View]
P = ParamSpec("P")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


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
            if sent is None or [*map(id, sent)] == [*map(id, view.items)]:
                sent = messages
            return OpenTurn(self, turn, given=messages, sent=sent, view=view)
        except Exception as error:
            turn.__exit__(type(error), error, None)
            raise


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


# ----------------------------------------------------------------------------
# A chat-completions callable with memory: the same arguments and result, two more keywords.


Taker = Callable[[OpenTurn, Any], Any]


class Remembering(Protocol[P, T_co]):
    """A wrapped callable: its own parameters, and the two that are about memory."""

    @overload
    def __call__(
        self,
        *args: Any,
        stream: Literal[True],
        memory_scope: ScopeLike | None = None,
        memory_off: bool = False,
        **options: Any,
    ) -> Any: ...
    @overload
    def __call__(self, *args: P.args, **options: P.kwargs) -> T_co: ...
    @overload
    def __call__(
        self,
        *args: Any,
        memory_scope: ScopeLike | None,
        memory_off: bool = False,
        **options: Any,
    ) -> T_co: ...
    @overload
    def __call__(self, *args: Any, memory_off: bool, **options: Any) -> T_co: ...

    @property
    def memory(self) -> TurnMaker: ...
    @property
    def degradations(self) -> deque[str]: ...


def wrap(memory: TurnMaker, fn: Callable[P, T], **how: Unpack[TurnOptions]) -> Remembering[P, T]:
    """`fn` with memory: the same arguments, the same result, two more keywords.

    `fn` is any chat-completions callable: `litellm.completion`, `acompletion`,
    `client.chat.completions.create`, or one of your own; sync or async,
    streaming or not. Before the call the reference goes in before the last
    user message (A1); afterwards the answer is remembered in the background.

    Per call, `memory_scope=` says whose memory it is (a Scope, a mapping or a
    user's id; else `scope`, else the request's `metadata["user_id"]` or `user`)
    and `memory_off=True` leaves memory out. `on_turn` is shown each turn when
    it has ended. What `fn` raises is raised; what memory raises is in
    `degradations` of the wrapped function. Wrapping what is wrapped already
    gives it back.
    """
    if not callable(fn):
        raise InvalidInput("fn", fn, "cannot be called", remedy="Pass a chat-completions function.")
    if (
        not any(how.values())
        and getattr(fn, "memory", None) is memory
        and hasattr(fn, "degradations")
    ):
        return cast("Remembering[P, T]", fn)
    return cast("Remembering[P, T]", remembering(TurnKeeper(memory, **how), fn))


def remembering(
    keeper: TurnKeeper,
    fn: Callable[..., Any],
    *,
    argument: str = "messages",
    view_of: Viewer = view_chat,
    take: Taker = OpenTurn.take,
    is_async: bool | None = None,
) -> Callable[..., Any]:
    """`fn` with memory, sync or async as it is; `take` gets what it gives for its `argument`."""
    signature = signature_of(fn)

    def read(args: tuple[Any, ...], options: dict[str, Any]) -> _Call:
        scope, off = options.pop("memory_scope", None), options.pop("memory_off", False)
        names = _positions(signature)
        place = _place_of(argument, names, args, options)
        messages = args[place] if isinstance(place, int) else options.get(place or "")

        def ask(messages: Any) -> Any:
            if isinstance(place, int):
                return fn(*args[:place], messages, *args[place + 1 :], **options)
            return fn(*args, **(options if place is None else {**options, place: messages}))

        if off:
            return _Call(messages, ask, None, Inside())
        if isinstance(messages, Iterable) and not isinstance(messages, str | bytes | Mapping):
            if not isinstance(messages, list | tuple):  # an iterator can be read only once
                messages = list(messages)
        elif not (isinstance(messages, str) and argument == "input"):
            keeper.note(f"a call without {argument} went without memory")
            return _Call(messages, ask, None)
        named = {**dict(zip(names, args, strict=False)), **options}
        return _Call(messages, ask, {"view_of": view_of, "scope": scope, "named": named})

    async def awaited_later(call: _Call, opened: OpenTurn | None, result: Awaitable[Any]) -> Any:
        """What a plain function gave that has to be awaited."""
        if opened is None:
            with call.around:
                return await result
        asked: Awaitable[Any] | None = result

        def ask(messages: Any) -> Any:
            nonlocal asked
            answer, asked = asked or call.ask(messages), None
            return answer

        return take(opened, await opened.acall(ask))

    def synchronous(*args: Any, **options: Any) -> Any:
        call = read(args, options)
        opened = None if call.whose is None else keeper.open(call.messages, **call.whose)
        with call.around:
            result = call.ask(call.messages) if opened is None else opened.call(call.ask)
        if inspect.isawaitable(result):
            return awaited_later(call, opened, result)
        return result if opened is None else take(opened, result)

    async def asynchronous(*args: Any, **options: Any) -> Any:
        call = read(args, options)
        opened = None if call.whose is None else await keeper.aopen(call.messages, **call.whose)

        async def ask(messages: Any) -> Any:
            return await awaited(call.ask(messages))

        with call.around:
            result = await (ask(call.messages) if opened is None else opened.acall(ask))
        return result if opened is None else take(opened, result)

    async def flowing(*args: Any, **options: Any) -> AsyncIterator[Any]:
        call = read(args, options)
        opened = None if call.whose is None else await keeper.aopen(call.messages, **call.whose)
        stream = call.ask(call.messages if opened is None else opened.sent)
        if opened is not None:
            stream = opened.watch(stream)
        async with contextlib.aclosing(stream) as chunks:
            async for chunk in chunks:
                yield chunk

    made: Any = synchronous
    if inspect.isasyncgenfunction(fn):
        made = flowing
    elif _runs_async(fn) if is_async is None else is_async:
        made = asynchronous
    # functools.wraps, also for callables without a name.
    functools.update_wrapper(made, fn.func if isinstance(fn, partial) else fn, updated=())
    made.__wrapped__ = fn
    made.memory, made.degradations = keeper.memory, keeper.degradations
    if signature is not None:
        made.__signature__ = _with_ours(signature)
    return cast("Callable[..., Any]", made)


class _Call(NamedTuple):
    """One call: its messages, and what it is with others."""

    messages: Any
    ask: Callable[[Any], Any]
    whose: dict[str, Any] | None
    """What to open a turn with; None where it goes without memory."""
    around: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
    """What it is made in, so that hooks further in know that memory is off."""


def signature_of(fn: Callable[..., Any]) -> inspect.Signature | None:
    """The signature of `fn`, or None where Python cannot tell."""
    try:
        return inspect.signature(fn)
    except (TypeError, ValueError):
        return None


def _positions(signature: inspect.Signature | None) -> list[str]:
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [p.name for p in signature.parameters.values() if p.kind in kinds] if signature else []


def _place_of(
    name: str, positions: list[str], args: tuple[Any, ...], options: Mapping[str, Any]
) -> int | str | None:
    """Where the argument `name` stands, a keyword or a position; else the first of either that
    looks like messages."""
    if name in options:
        return name
    if name in positions and positions.index(name) < len(args):
        return positions.index(name)
    if name != "messages":
        return None
    places: tuple[tuple[int | str, Any], ...] = (*enumerate(args), *options.items())
    return next((place for place, given in places if _looks_like_messages(given)), None)


def _looks_like_messages(value: object) -> bool:
    return (
        isinstance(value, list | tuple)
        and bool(value)
        and all(isinstance(get(item, "role"), str) for item in value)
    )


def _runs_async(fn: Callable[..., Any]) -> bool:
    """Whether `fn` surely gives something to await.

    Some clients hide their coroutine functions behind a plain decorator; those
    bound to an async resource are known, the others are found out when they
    return.
    """
    inner = fn.func if isinstance(fn, partial) else fn
    if inspect.iscoroutinefunction(inner):
        return True
    call = getattr(inner, "__call__", None)  # noqa: B004  # an object may be async to call
    if not inspect.isroutine(inner) and inspect.iscoroutinefunction(call):
        return True
    hidden = of_async_client(getattr(inner, "__self__", None))
    return hidden and inspect.iscoroutinefunction(inspect.unwrap(inner))


def of_async_client(resource: object) -> bool:
    """Whether a resource of an SDK is that of an async client."""
    return any(base.__name__ == "AsyncAPIResource" for base in type(resource).__mro__)


def _with_ours(signature: inspect.Signature) -> inspect.Signature:
    """The signature with `memory_scope` and `memory_off`, before any `**options`."""
    keyword = inspect.Parameter.KEYWORD_ONLY
    ours = [
        inspect.Parameter("memory_scope", keyword, default=None, annotation="ScopeLike | None"),
        inspect.Parameter("memory_off", keyword, default=False, annotation="bool"),
    ]
    parameters = [
        p for p in signature.parameters.values() if p.name not in ("memory_scope", "memory_off")
    ]
    rest = [p for p in parameters if p.kind is inspect.Parameter.VAR_KEYWORD]
    first = [p for p in parameters if p.kind is not inspect.Parameter.VAR_KEYWORD]
    return signature.replace(parameters=[*first, *ours, *rest])
