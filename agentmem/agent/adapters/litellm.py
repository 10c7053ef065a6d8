"""Memory as a litellm callback: for `acompletion`, `aresponses`, Router and the proxy.

    litellm.callbacks = [MemoryLogger(memory)]

litellm asks callbacks to change a request only on its async paths; for
`litellm.completion` use `memory.wrap(litellm.completion)`. Both together are
harmless: whoever comes first opens the turn. A sync call that has no memory
around it is warned of and named in `degradations`.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import quote

from agentmem.agent.adapters.replies import (
    Reply,
    View,
    has_reference,
    is_ours,
    named_user,
    read_reply,
    view_chat,
    view_responses,
)
from agentmem.agent.adapters.streams import outside_collection, watch_collections
from agentmem.agent.adapters.turn import OnTurn, OpenTurn, Remembers, TurnMaker, is_inside
from agentmem.base.config import LoopConfig
from agentmem.base.types import Scope, ScopeLike
from agentmem.text.messages import get
from agentmem.tokens.litellm import import_litellm

import_litellm("Memory as a litellm callback")

from litellm.integrations.custom_logger import CustomLogger  # noqa: E402  # quietly, by the line above

_VIEWS = {"messages": view_chat, "input": view_responses}
_ARGUMENT_OF = {
    "completion": "messages",
    "acompletion": "messages",
    "anthropic_messages": "messages",
    "aanthropic_messages": "messages",
    "responses": "input",
    "aresponses": "input",
}
_MOST_WAITING = 1_000
_Key = tuple[str, str]
_numbers = itertools.count(1)
_REDACTED = "redacted-by-litellm"


class _Waiting:
    """A call that was prepared and has not ended."""

    def __init__(self, opened: OpenTurn, asked: bytes) -> None:
        self.opened = opened
        self.asked = asked
        self.failure = ""
        self._held: Any = None

    def end_with(self, holder: object, end: Callable[[], None]) -> None:
        """Call `end` when `holder` is gone: nobody can answer this call any more."""
        if self._held is not None:
            self._held.detach()
        try:
            self._held = weakref.finalize(holder, outside_collection, end)
        except TypeError:  # not every object can be watched
            self._held = None

    def answer(self, reply: Reply) -> None:
        """Hand over the reply; where its text is redacted, what the chunks said."""
        if self._held is not None:
            self._held.detach()
        self.opened.finish(replace(reply, text="") if reply.text == _REDACTED else reply)

    def give_up(self) -> None:
        """End with what came, if anything did."""
        self.opened.finish(error=self.failure)


class MemoryLogger(Remembers, CustomLogger):  # type: ignore[misc]  # litellm has no types
    """A litellm callback that adds the reference to a request and remembers the answer.

    Whose memory it is, is `scope`, else `metadata["user_id"]`, else `user`. On
    the proxy the user of the authenticated key comes first, so that a client
    cannot name somebody else's. `metadata={"memory_off": True}` leaves memory
    out of one call, `metadata={"memory_scope": {…}}` names another scope (not
    on the proxy). A call is prepared once, however often litellm runs its
    hooks, and no hook raises. Of a request only messages, model, tools, answer
    and token counts are looked at.
    """

    def __init__(
        self,
        memory: TurnMaker,
        *,
        scope: ScopeLike | None = None,
        config: LoopConfig | None = None,
        on_turn: OnTurn | None = None,
    ) -> None:
        super().__init__(memory, scope=scope, config=config, on_turn=on_turn)
        watch_collections()
        # litellm takes loggers of one class for the same unless a public text tells them apart.
        self.name = f"agentmem-{next(_numbers)}"
        self._waiting: OrderedDict[_Key, _Waiting] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def memory(self) -> TurnMaker:
        return self._keeper.memory

    # -- before the call -----------------------------------------------------------------

    async def async_pre_call_deployment_hook(
        self, kwargs: dict[str, Any], call_type: Any
    ) -> dict[str, Any] | None:
        """The request with the reference; None leaves it as it is."""
        with self._keeper.failing_open("memory was left out of this call"):
            return await self._prepare(kwargs, call_type, _proxy_user(kwargs, None))
        return None

    async def async_pre_call_hook(
        self, user_api_key_dict: Any, cache: Any, data: dict[str, Any], call_type: str
    ) -> dict[str, Any] | None:
        """The same for a request that reaches the proxy."""
        with self._keeper.failing_open("memory was left out of this call"):
            return await self._prepare(data, call_type, _proxy_user(data, user_api_key_dict))
        return None

    def log_pre_api_call(self, model: Any, messages: Any, kwargs: dict[str, Any]) -> None:
        """Say it where a sync call goes without memory: nobody can change it any more."""
        name = str(get(kwargs, "call_type") or "")
        if name not in ("completion", "responses"):
            return
        with self._keeper.failing_open("a call could not be looked at"):
            view = _VIEWS[_ARGUMENT_OF[name]](messages)
            off = get(_metadata_of(kwargs), "memory_off") is True
            if not (off or has_reference(view.messages) or is_inside(view.messages)):
                self._keeper.note(
                    f"litellm.{name} went without memory, for litellm lets callbacks change "
                    f"async calls only; use memory.wrap(litellm.{name}) or litellm.a{name}"
                )

    async def _prepare(
        self, request: dict[str, Any], call_type: Any, key_user: str | None
    ) -> dict[str, Any] | None:
        argument = _argument_of(request, call_type)
        metadata = _metadata_of(request)
        if argument is None or get(metadata, "memory_off") is True:
            return None
        if request.get(argument) is None:
            self._keeper.note(f"a call whose {argument} are not a keyword went without memory")
            return None
        content = request[argument]
        if not isinstance(content, str | list | tuple):
            content = list(content)
        view = _VIEWS[argument](content)
        scope = self._keeper.whose(
            _scope_of(metadata, request, key_user), {**request, "metadata": metadata}
        )
        key = _key_of(request)
        asked = _digest(view, scope)
        known = self._known(key, asked)
        if known is None:
            if has_reference(view.messages):
                return None
            opened = await self._keeper.aopen(content, _VIEWS[argument], scope=scope, named=request)
            if opened is None:
                return None
            known = _Waiting(opened, asked)
        self._keep(key, known)
        holder = request.get("litellm_logging_obj")
        if holder is not None:
            known.end_with(holder, functools.partial(self._drop, key, known))
        if has_reference(view.messages) or known.opened.sent is content:
            return None
        return {**request, argument: known.opened.sent}

    def _known(self, key: _Key, asked: bytes) -> _Waiting | None:
        """The turn of this very call, or of a failed attempt at the same one."""
        with self._lock:
            found = self._waiting.get(key)
            if found is not None and found.asked == asked:
                return found
            for other, waiting in self._waiting.items():
                if waiting.failure and waiting.asked == asked:
                    del self._waiting[other]
                    waiting.failure = ""
                    return waiting
        return None

    def _keep(self, key: _Key, waiting: _Waiting) -> None:
        with self._lock:
            pushed_out = [self._waiting.pop(key, None)]
            self._waiting[key] = waiting
            if len(self._waiting) > _MOST_WAITING:
                pushed_out.append(self._waiting.popitem(last=False)[1])
        for other in pushed_out:
            if other is not None and other is not waiting:
                other.give_up()

    def _drop(self, key: _Key, waiting: _Waiting) -> None:
        with self._lock:
            if self._waiting.get(key) is waiting:
                del self._waiting[key]
        waiting.give_up()

    # -- after the call ------------------------------------------------------------------

    async def async_post_call_success_deployment_hook(
        self, request_data: dict[str, Any], response: Any, call_type: Any
    ) -> None:
        """Remember a whole answer at once."""
        self._answered(request_data, response)

    async def async_post_call_streaming_deployment_hook(
        self, request_data: dict[str, Any], response_chunk: Any, call_type: Any
    ) -> None:
        """Gather a stream's words as they pass."""
        waiting = self._waiting.get(_key_of(request_data))
        if waiting is not None:
            waiting.opened.hear(response_chunk)

    async def async_log_success_event(
        self, kwargs: dict[str, Any], response_obj: Any, start_time: Any, end_time: Any
    ) -> None:
        """Remember the answer of a stream that has ended."""
        self._answered(kwargs, response_obj)

    def log_success_event(
        self, kwargs: dict[str, Any], response_obj: Any, start_time: Any, end_time: Any
    ) -> None:
        """The same, from litellm's sync paths."""
        self._answered(kwargs, response_obj)

    async def async_log_failure_event(
        self, kwargs: dict[str, Any], response_obj: Any, start_time: Any, end_time: Any
    ) -> None:
        """Keep the turn for a retry; without one it ends when litellm drops the call."""
        with self._keeper.failing_open("a failure could not be noted"):
            error = kwargs.get("exception")
            with self._lock:
                waiting = self._waiting.get(_key_of(kwargs))
                if waiting is not None:
                    # The text alone: the exception would keep the call alive, whose end is awaited.
                    waiting.failure = f"{type(error).__name__}: {error}"
            if waiting is not None and isinstance(error, BaseException):
                waiting.opened.turn.refused(error)

    def _answered(self, request: Mapping[str, Any], response: Any) -> None:
        with self._keeper.failing_open("the answer could not be remembered"):
            with self._lock:
                waiting = self._waiting.pop(_key_of(request), None)
            if waiting is not None:
                waiting.answer(read_reply(response))


def _argument_of(request: Mapping[str, Any], call_type: Any) -> str | None:
    name = getattr(call_type, "value", call_type)
    if name is None:
        return "messages" if "messages" in request else None
    return _ARGUMENT_OF.get(str(name))


def _metadata_of(request: Mapping[str, Any]) -> Mapping[str, Any]:
    merged: dict[str, Any] = {}
    for name in ("litellm_metadata", "metadata"):
        for place in (get(request.get("litellm_params"), name), request.get(name)):
            if isinstance(place, Mapping):
                merged.update(place)
    return merged


def _proxy_user(request: Mapping[str, Any], key: Any) -> str | None:
    """The user of the proxy key that sent this, or None outside of a proxy."""
    for user in (get(key, "user_id"), _metadata_of(request).get("user_api_key_user_id")):
        if isinstance(user, str) and user:
            return user
    return None


def _scope_of(
    metadata: Mapping[str, Any], request: Mapping[str, Any], key_user: str | None
) -> ScopeLike | None:
    named = named_user({**request, "metadata": metadata})
    if key_user is not None:
        own = quote(key_user, safe="@.")
        return Scope(user_id=own if named is None else f"{own}/{quote(named, safe='@.')}")
    asked: ScopeLike | None = metadata.get("memory_scope")  # checked where it is used
    return asked


def _key_of(request: Mapping[str, Any]) -> _Key:
    """Which call this is: its user too, since clients of a proxy may choose the call's id."""
    return str(request.get("litellm_call_id")), _proxy_user(request, None) or ""


def _digest(view: View, scope: Scope) -> bytes:
    """What was asked by whom, with or without a reference of ours."""
    asked = repr((scope, [m for m in view.messages if not is_ours(m)]))
    return hashlib.blake2b(asked.encode("utf-8", "replace"), digest_size=16).digest()
