"""LangChain's own standard suites for vector stores and retrievers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import agentmem
from agentmem.testing import HashEmbedder

suites = pytest.importorskip("langchain_tests.integration_tests", reason="needs langchain-tests")

from agentmem.compat.langchain import MemoryRetriever, MemoryVectorStore


class TestVectorStore(suites.VectorStoreIntegrationTests):  # type: ignore[misc, name-defined]
    @pytest.fixture
    def vectorstore(self) -> Iterator[MemoryVectorStore]:
        with agentmem.open(":memory:", embedder=HashEmbedder()) as memory:
            yield MemoryVectorStore(memory, scope="ann")


class TestRetriever(suites.RetrieversIntegrationTests):  # type: ignore[misc, name-defined]
    @property
    def retriever_constructor(self) -> type[MemoryRetriever]:
        return MemoryRetriever

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        memory = agentmem.open(":memory:", embedder=HashEmbedder())
        for port in ("Oban", "Mallaig", "Ullapool", "Stornoway"):
            memory.add(f"The harbour in {port} closes at nine.", user_id="ann")
        return {"memory": memory, "scope": "ann", "threshold": 0.0}

    @property
    def retriever_query_example(self) -> str:
        return "When does the harbour close?"
