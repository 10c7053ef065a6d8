"""Memory for LangChain: a middleware for agents, a vector store and a retriever.

Whose memory the middleware serves is `scope` (a scope, or a function of the run's
`Runtime`), else the `user_id` of the run's context, else `user_id` or `thread_id` of
the run's `configurable`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from agentmem.agent.adapters.replies import Reply, as_chat, read_usage, view_items
from agentmem.agent.adapters.turn import Remembers
from agentmem.base.errors import MissingExtra
from agentmem.base.types import Memory, ScopeLike
from agentmem.compat.records import Records, text_of
from agentmem.memory.manager import MemoryManager
from agentmem.search.intake import read_scope
from agentmem.text.messages import get

try:
    from langchain.agents.middleware import AgentMiddleware
    from langchain.agents.middleware.types import AgentState, ModelRequest, ModelResponse
    from langchain_core.documents import Document
    from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
    from langchain_core.retrievers import BaseRetriever
    from langchain_core.vectorstores import VectorStore
    from langgraph.config import get_config
except ModuleNotFoundError as error:
    raise MissingExtra("langchain", extra="langchain", purpose="Memory in LangChain") from error

if TYPE_CHECKING:
    from langchain_core.callbacks import CallbackManagerForRetrieverRun
    from langchain_core.embeddings import Embeddings

_ROLES = {"human": "user", "ai": "assistant", "system": "system", "tool": "tool"}


class MemoryMiddleware(Remembers, AgentMiddleware):
    """`create_agent(model, tools, middleware=[MemoryMiddleware(memory)])`.

    Each model call of a turn gets the same one reference pair; nothing of it is
    written into the agent's state. What memory could not do is in `degradations`,
    in the log, and in the stream mode "custom" when the agent ends.
    """

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        def ask(messages: Any) -> ModelResponse[Any]:
            return handler(request.override(messages=messages))

        return self._keeper.call(request.messages, ask, view, read=_read_answer, **_asked(request))

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any]:
        async def ask(messages: Any) -> ModelResponse[Any]:
            return await handler(request.override(messages=messages))

        return await self._keeper.acall(
            request.messages, ask, view, read=_read_answer, **_asked(request)
        )

    def after_agent(self, state: AgentState[Any], runtime: Any) -> None:
        """Tell whoever streams the agent what memory could not do."""
        if self.degradations:
            runtime.stream_writer({"agentmem": {"degradations": list(self.degradations)}})

    async def aafter_agent(self, state: AgentState[Any], runtime: Any) -> None:
        self.after_agent(state, runtime)


def _asked(request: ModelRequest[Any]) -> dict[str, Any]:
    """Which model is asked, and by whom."""
    try:
        configurable = get_config().get("configurable") or {}
    except RuntimeError:  # not inside a graph
        configurable = {}
    user = get(get(request.runtime, "context"), "user_id")
    names = (user, configurable.get("user_id"), configurable.get("thread_id"))
    model = get(request.model, "model_name") or get(request.model, "model")
    return {"context": request.runtime, "names": names, "named": {"model": model}}


def _read(message: BaseMessage) -> dict[str, Any] | None:
    role = _ROLES.get(message.type)
    if role is None:
        return None
    calls = get(message, "tool_calls") or () if role == "assistant" else ()
    return as_chat(
        role,
        message.content,
        calls=[(call.get("id"), call.get("name"), call.get("args")) for call in calls],
        answers=get(message, "tool_call_id"),
    )


def _make(message: Mapping[str, Any]) -> BaseMessage:
    kind = HumanMessage if message["role"] == "user" else AIMessage
    return kind(content=message["content"])


view = partial(view_items, read=_read, make=_make)


def _read_answer(response: Any) -> Reply:
    """The answer in what a handler gives: a response, one with a command, or a message."""
    response = getattr(response, "model_response", response)
    said = getattr(response, "result", None) or [response]
    answers = [one for one in said if isinstance(one, AIMessage)]
    if not answers:
        return Reply()
    return Reply(text=str(answers[-1].text), usage=read_usage(answers[-1].usage_metadata))


class MemoryVectorStore(VectorStore):
    """LangChain's vector store over one scope of a memory, whose own embedder is used.

    Documents are memories of the kind `document`: what is added here is known to the
    turns of the same scope. Adding under an id that is there replaces it.
    """

    def __init__(self, memory: MemoryManager, *, scope: ScopeLike) -> None:
        self._records = Records(memory, scope, kind="document")

    @property
    def embeddings(self) -> Embeddings | None:
        return None

    def add_texts(
        self,
        texts: Iterable[str],
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: list[str] | None = None,
        **kwargs: Any,
    ) -> list[str]:
        listed = list(texts)
        given: Sequence[str | None] = ids if ids is not None else [None] * len(listed)
        told = metadatas if metadatas is not None else [{} for _ in listed]
        return [
            self._records.put(key, text, {"document": dict(metadata)})
            for key, text, metadata in zip(given, listed, told, strict=True)
        ]

    def delete(self, ids: list[str] | None = None, **kwargs: Any) -> bool:
        self._records.delete(self._records.all(keys=ids))
        return True

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        return [_document(one) for one in self._records.all(keys=ids)]

    def similarity_search(self, query: str, k: int = 4, **kwargs: Any) -> list[Document]:
        return [found for found, _ in self.similarity_search_with_score(query, k, **kwargs)]

    def similarity_search_with_score(
        self, query: str, k: int = 4, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        """The best `k`, with scores from 0 to 1; `filter` is on the documents' metadata."""
        chosen = kwargs.get("filter")
        where = {f"metadata.document.{name}": value for name, value in (chosen or {}).items()}
        found = self._records.search(query, limit=k, where=where or None)
        return [(_document(hit.memory), hit.score) for hit in found]

    def _select_relevance_score_fn(self) -> Callable[[float], float]:
        return lambda score: score

    @classmethod
    def from_texts(
        cls,
        texts: list[str],
        embedding: Embeddings | None = None,
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: list[str] | None = None,
        **kwargs: Any,
    ) -> MemoryVectorStore:
        """`memory=` and `scope=` say where; `embedding` is not used, the memory has its own."""
        store = cls(kwargs["memory"], scope=kwargs["scope"])
        store.add_texts(texts, metadatas, ids=ids)
        return store


def _document(memory: Memory) -> Document:
    key, metadata = memory.metadata["key"], memory.metadata["document"]
    return Document(id=key, page_content=text_of(memory), metadata=dict(metadata))


class MemoryRetriever(BaseRetriever):
    """Everything that a scope remembers, for chains: `MemoryRetriever(memory=…, scope=…)`.

    Each document's metadata has the memory's `id`, `kind`, `score` and `source`.
    """

    memory: Any
    scope: Any
    k: int = 4
    threshold: float | None = None

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, **kwargs: Any
    ) -> list[Document]:
        whose = read_scope(self.scope, {}).whose
        found = self.memory.search(
            query, top_k=kwargs.get("k", self.k), threshold=self.threshold, **whose
        )
        return [_hit(hit.memory, hit.score) for hit in found]


def _hit(memory: Memory, score: float) -> Document:
    told = {"id": memory.id, "kind": memory.kind, "score": score, "source": memory.source_url}
    return Document(id=memory.id, page_content=memory.text, metadata=told)
