"""A real litellm proxy on loopback with memory as its callback; only in deep runs."""

from __future__ import annotations

import importlib.util
import itertools
import os
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import agentmem
from tests.servers.chat import ChatServer, Fault

ROOT = Path(__file__).resolve().parents[2]
KEY = "sk-master-of-this-test"
ABSENT = any(
    importlib.util.find_spec(name) is None for name in ("fastapi", "orjson", "backoff")
)  # what the extra brings that no other package of ours does
BEGIN = "agentmem reference"
OPENING = "When does the harbour in Oban close in winter?"
HOW = ("streamed", "once more", "as a response", "as Anthropic asks")


def asked(how: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": f"{OPENING} {how}"}]


CHAT, MASTER = "/v1/chat/completions", "default_user_id"
REQUESTS: tuple[tuple[str, dict[str, Any]], ...] = (
    (CHAT, {"messages": asked("whole"), "user": "ann"}),
    (CHAT, {"messages": asked("streamed"), "user": "ann", "stream": True}),
    (CHAT, {"messages": asked("once more"), "user": "ann", "num_retries": 2}),
    ("/v1/responses", {"input": f"{OPENING} as a response", "user": "ann"}),
    (
        "/v1/messages",
        {
            "messages": asked("as Anthropic asks"),
            "max_tokens": 50,
            "metadata": {"user_id": "ann"},
        },
    ),
    (CHAT, {"messages": asked("of bob"), "user": "bob"}),
    (CHAT, {"messages": asked("off"), "user": "ann", "metadata": {"memory_off": True}}),
)


class Proxy:
    """The proxy as its own process, with a store and a module that names our logger."""

    def __init__(self, folder: Path, upstream: str) -> None:
        self.store = folder / "memory.db"
        (folder / "remembering.py").write_text(
            textwrap.dedent(
                f"""
                import agentmem
                from agentmem.agent.adapters.turn import MemoryLogger

                logger = MemoryLogger(agentmem.open({str(self.store)!r}, embedder=None))
                """
            ),
            encoding="utf-8",
        )
        (folder / "config.yaml").write_text(
            textwrap.dedent(
                f"""
                model_list:
                  - model_name: small
                    litellm_params:
                      model: openai/small
                      api_base: {upstream}
                      api_key: upstream-key
                litellm_settings:
                  callbacks: remembering.logger
                general_settings:
                  master_key: {KEY}
                """
            ),
            encoding="utf-8",
        )
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.log = (folder / "proxy.log").open("wb")
        program = "from litellm.proxy.proxy_cli import run_server; run_server()"
        options = ("--config", "config.yaml", "--host", "127.0.0.1", "--port", str(self.port))
        self.process = subprocess.Popen(
            [sys.executable, "-c", program, *options],
            cwd=folder,
            stdout=self.log,
            stderr=self.log,
            env={
                **os.environ,
                "PYTHONPATH": f"{ROOT}{os.pathsep}{folder}",
                "LITELLM_LOCAL_MODEL_COST_MAP": "True",
            },
        )

    def wait(self, *, seconds: float = 120) -> None:
        until = time.monotonic() + seconds
        while True:
            assert self.process.poll() is None, "the proxy ended"
            assert time.monotonic() < until, "the proxy did not start"
            try:
                if httpx.get(f"{self.url}/health/liveliness", timeout=5).status_code == 200:
                    return
            except httpx.HTTPError:
                time.sleep(0.2)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def post(self, path: str, **body: Any) -> httpx.Response:
        headers = {"Authorization": f"Bearer {KEY}"}
        answer = httpx.post(f"{self.url}{path}", json=body, headers=headers, timeout=60)
        assert answer.status_code == 200, answer.text
        return answer

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(timeout=60)
        self.log.close()


@pytest.fixture
def upstream() -> Iterator[ChatServer]:
    numbers = itertools.count(1)
    failed: list[Any] = []

    def reply(body: Any) -> str | Fault:
        if "once more" in str(body) and not failed:
            failed.append(body)
            return Fault(status=500)
        return f"Answer {next(numbers)} of the harbour."

    with ChatServer(reply) as server:
        yield server


@pytest.mark.deep
@pytest.mark.skipif(ABSENT, reason="litellm[proxy] is not installed")
def test_a_proxy_adds_the_reference_once_and_remembers_the_answer(
    tmp_path: Path, upstream: ChatServer
) -> None:
    proxy = Proxy(tmp_path, upstream.url)
    with agentmem.open(proxy.store, embedder=None) as memory:
        memory.add("The harbour in Oban closes at nine in winter.", user_id=f"{MASTER}/ann")
        memory.add("The harbour in Oban closes at ten in winter.", user_id="ann")
    try:
        proxy.wait()
        for path, body in REQUESTS:
            assert "harbour" in proxy.post(path, model="small", **body).text, path
    finally:
        proxy.stop()
    sent = [repr(body) for body in upstream.bodies]
    assert [text.count(f"{BEGIN} ") // 2 for text in sent] == [1, 1, 1, 1, 1, 1, 0, 0], sent
    assert not any("closes at ten" in text for text in sent)  # another's, whatever was claimed
    with agentmem.open(proxy.store, embedder=None) as memory:
        kept = memory.get_all(kinds=["message"], user_id=f"{MASTER}/ann", limit=100)
    said = sorted(one.text for one in kept if one.origin == "user")
    assert said == sorted(f"{OPENING} {words}" for words in ("whole", *HOW))
    answers = sorted(one.text for one in kept if one.origin == "assistant")
    assert answers == [f"Answer {number} of the harbour." for number in range(1, 6)]
