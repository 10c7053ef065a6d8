"""What a type checker sees of a wrapped OpenAI client: every asking method takes the two keywords.

Read by type checkers alone: there is no such module when a program runs.
"""

from collections import deque
from collections.abc import Coroutine
from functools import cached_property
from typing import Any, Literal, overload

from openai import AsyncOpenAI, AsyncStream, OpenAI, Stream
from openai.resources.chat.chat import AsyncChat, Chat
from openai.resources.chat.completions.completions import AsyncCompletions, Completions
from openai.resources.responses.responses import AsyncResponses, Responses
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseStreamEvent

from agentmem.agent.adapters.turn import TurnMaker
from agentmem.base.types import ScopeLike

class RememberingCompletions(Completions):
    @overload  # type: ignore[override]  # two keywords more, and options by name
    def create(
        self,
        *,
        stream: Literal[True],
        memory_scope: ScopeLike | None = ...,
        memory_off: bool = ...,
        **options: Any,
    ) -> Stream[ChatCompletionChunk]: ...
    @overload
    def create(
        self,
        *,
        stream: Literal[False] | None = ...,
        memory_scope: ScopeLike | None = ...,
        memory_off: bool = ...,
        **options: Any,
    ) -> ChatCompletion: ...
    @overload
    def create(self, *args: Any, **options: Any) -> Any: ...
    def parse(
        self, *, memory_scope: ScopeLike | None = ..., memory_off: bool = ..., **options: Any
    ) -> Any: ...
    def stream(
        self, *, memory_scope: ScopeLike | None = ..., memory_off: bool = ..., **options: Any
    ) -> Any: ...

class RememberingAsyncCompletions(AsyncCompletions):
    @overload  # type: ignore[override]  # two keywords more, and options by name
    def create(
        self,
        *,
        stream: Literal[True],
        memory_scope: ScopeLike | None = ...,
        memory_off: bool = ...,
        **options: Any,
    ) -> Coroutine[Any, Any, AsyncStream[ChatCompletionChunk]]: ...
    @overload
    def create(
        self,
        *,
        stream: Literal[False] | None = ...,
        memory_scope: ScopeLike | None = ...,
        memory_off: bool = ...,
        **options: Any,
    ) -> Coroutine[Any, Any, ChatCompletion]: ...
    @overload
    def create(self, *args: Any, **options: Any) -> Any: ...
    def parse(
        self, *, memory_scope: ScopeLike | None = ..., memory_off: bool = ..., **options: Any
    ) -> Any: ...
    def stream(
        self, *, memory_scope: ScopeLike | None = ..., memory_off: bool = ..., **options: Any
    ) -> Any: ...

class RememberingResponses(Responses):
    @overload  # type: ignore[override]  # two keywords more, and options by name
    def create(
        self,
        *,
        stream: Literal[True],
        memory_scope: ScopeLike | None = ...,
        memory_off: bool = ...,
        **options: Any,
    ) -> Stream[ResponseStreamEvent]: ...
    @overload
    def create(
        self,
        *,
        stream: Literal[False] | None = ...,
        memory_scope: ScopeLike | None = ...,
        memory_off: bool = ...,
        **options: Any,
    ) -> Response: ...
    @overload
    def create(self, *args: Any, **options: Any) -> Any: ...
    def parse(
        self, *, memory_scope: ScopeLike | None = ..., memory_off: bool = ..., **options: Any
    ) -> Any: ...
    def stream(
        self, *, memory_scope: ScopeLike | None = ..., memory_off: bool = ..., **options: Any
    ) -> Any: ...

class RememberingAsyncResponses(AsyncResponses):
    @overload  # type: ignore[override]  # two keywords more, and options by name
    def create(
        self,
        *,
        stream: Literal[True],
        memory_scope: ScopeLike | None = ...,
        memory_off: bool = ...,
        **options: Any,
    ) -> Coroutine[Any, Any, AsyncStream[ResponseStreamEvent]]: ...
    @overload
    def create(
        self,
        *,
        stream: Literal[False] | None = ...,
        memory_scope: ScopeLike | None = ...,
        memory_off: bool = ...,
        **options: Any,
    ) -> Coroutine[Any, Any, Response]: ...
    @overload
    def create(self, *args: Any, **options: Any) -> Any: ...
    def parse(
        self, *, memory_scope: ScopeLike | None = ..., memory_off: bool = ..., **options: Any
    ) -> Any: ...
    def stream(
        self, *, memory_scope: ScopeLike | None = ..., memory_off: bool = ..., **options: Any
    ) -> Any: ...

class RememberingChat(Chat):
    @cached_property
    def completions(self) -> RememberingCompletions: ...

class RememberingAsyncChat(AsyncChat):
    @cached_property
    def completions(self) -> RememberingAsyncCompletions: ...

class RememberingOpenAI(OpenAI):
    memory: TurnMaker
    degradations: deque[str]

    @cached_property
    def chat(self) -> RememberingChat: ...
    @cached_property
    def responses(self) -> RememberingResponses: ...

class RememberingAsyncOpenAI(AsyncOpenAI):
    memory: TurnMaker
    degradations: deque[str]

    @cached_property
    def chat(self) -> RememberingAsyncChat: ...
    @cached_property
    def responses(self) -> RememberingAsyncResponses: ...
