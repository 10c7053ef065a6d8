"""How fast the server answers: search and turns, what the proxy adds to a call, and each view.

    python benchmarks/serve.py   # 10,000 memories: load, proxy, page
    python benchmarks/serve.py --memories 100000 --only load   # and with --workers 2
    python benchmarks/serve.py --only proxy
    python benchmarks/serve.py --only turns --turns 20000

`load` is requests a second and the 50th, 95th and 99th percentile in milliseconds of search and
of turns, at 1, 8 and 64 clients. `proxy` is the bare provider, the proxy with memory left out and
the proxy with memory, call by call in turn, so that all three meet the same machine. `page` is
each view. `turns` is what the server holds in memory while it takes so many turns, and what one
started afresh on the same store holds: what is stored takes room, what leaks would not come back.

A store is filled once and kept under `.bench/` (`--fill-only` does no more). Clients and provider
run in processes of their own; on few cores they take part of what the server could have. Each part
ends by itself: `load` after six times `--seconds` and what 64 clients still wait for, `turns`
after `--most-seconds`. Each figure is printed as soon as it is known.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import uvicorn

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import agentmem  # noqa: E402 - found beside this folder
from agentmem.search.embedders.base import DEFAULT  # noqa: E402
from agentmem.server.app import listen  # noqa: E402
from agentmem.server.tokens import Tokens  # noqa: E402

Call = Callable[[httpx.AsyncClient, int], Awaitable[None]]
_named = os.environ.get("AGENTMEM_EMBEDDER", DEFAULT)
EMBEDDER = None if _named.lower() in ("", "none") else _named
"""What the server reads, too."""

CLIENTS = (1, 8, 64)
PLACES = ("harbour", "bakery", "museum", "library", "station", "school", "market", "chapel")
PARTS = ("load", "proxy", "page", "turns")
KEPT = ROOT / ".bench"
PAUSE_SECONDS = 0.1
"""Between two calls of the proxy: whoever asks reads the answer before asking on."""
_ANSWER = json.dumps(
    {
        "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "gpt-4o",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "At nine."},
                     "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12},
    }
).encode()  # fmt: skip


def fill(path: Path, memories: int) -> None:
    """A store with so many memories of one user, in the folder of `path`."""
    with agentmem.open(path, embedder=EMBEDDER) as memory:
        for start in range(0, memories, 2_000):
            texts = [
                f"The {PLACES[n % 8]} number {n} in street {n * 7 % 1009} opens at {n % 12 + 1}."
                for n in range(start, min(start + 2_000, memories))
            ]
            memory.sources.add_document(texts, url=f"https://example.org/{start}", user_id="ann")
        if EMBEDDER is not None:
            memory.upkeep.reembed()
        memory.upkeep.sync()


def filled(folder: Path, memories: int) -> Path:
    """A copy in `folder` of the store with so many memories, which is filled once."""
    kept = KEPT / f"serve-{memories}-{EMBEDDER or 'none'}"
    if not kept.exists():
        part = kept.with_suffix(".part")
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        began = time.perf_counter()
        fill(part / "m.db", memories)
        part.rename(kept)
        print(f"filled with {memories:,} memories in {time.perf_counter() - began:.0f} s")
    shutil.copytree(kept, folder, dirs_exist_ok=True)
    return folder / "m.db"


def start(path: Path, workers: int, *options: str) -> tuple[subprocess.Popen[str], str]:
    """The server as a process of its own, and its address."""
    command = [sys.executable, "-m", "agentmem", "--store", str(path), "serve", "--json", "--port",
               "0", "--rate", "0", "--workers", str(workers), *options]  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdout is not None
    said = ""
    while "}" not in said:
        said += process.stdout.readline()
    url = json.loads(said)["url"]
    while True:
        try:
            if httpx.get(f"{url}/healthz").is_success:
                return process, url
        except httpx.HTTPError:
            time.sleep(0.1)


async def _answer_at_once(scope: Any, receive: Any, send: Any) -> None:
    """A provider that costs next to nothing: the same answer to everything."""
    if scope["type"] != "http":
        return
    while (await receive()).get("more_body"):
        pass
    length = str(len(_ANSWER)).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", length)]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": _ANSWER})


def _provide(listening: socket.socket) -> None:
    config = uvicorn.Config(_answer_at_once, log_level="error", access_log=False, lifespan="off")
    uvicorn.Server(config).run(sockets=[listening])


@contextmanager
def providing() -> Iterator[str]:
    """The address of a provider in a process of its own."""
    with listen("127.0.0.1", 0) as listening:
        process = multiprocessing.Process(target=_provide, args=(listening,))
        process.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}/v1"
        finally:
            process.terminate()
            process.join(10)


def connect() -> httpx.AsyncClient:
    return httpx.AsyncClient(timeout=60, verify=False)


async def timed(call: Call, client: httpx.AsyncClient, at: int) -> float:
    """The seconds one call takes."""
    began = time.perf_counter()
    await call(client, at)
    return time.perf_counter() - began


async def measure(call: Call, clients: int, seconds: float) -> dict[str, float]:
    """`call` over and over by so many clients, for so long."""
    spent: list[float] = []
    connected = [connect() for _ in range(clients)]
    began = time.perf_counter()

    async def one(number: int) -> None:
        async with connected[number] as client:
            at = number
            while time.perf_counter() < began + seconds:
                spent.append(await timed(call, client, at))
                at += clients

    await asyncio.gather(*(one(number) for number in range(clients)))
    return figures_of(spent, time.perf_counter() - began)


async def alternate(calls: list[Call], times: int, pause: float) -> list[dict[str, float]]:
    """Each of `calls` so often, one after the other: what each takes on the same machine."""
    spent: list[list[float]] = [[] for _ in calls]
    async with connect() as client:
        for at in range(-3, times):  # the first ones open connections
            for call, taken in zip(calls, spent, strict=True):
                seconds = await timed(call, client, at + 3)
                if at >= 0:
                    taken.append(seconds)
                await asyncio.sleep(pause)
    return [figures_of(taken, sum(taken)) for taken in spent]


def figures_of(spent: list[float], seconds: float) -> dict[str, float]:
    """Calls a second and percentiles in milliseconds."""
    spent.sort()

    def percentile(share: float) -> float:
        return 1000 * spent[min(len(spent) - 1, int(share * len(spent)))]

    return {"per second": len(spent) / seconds, "p50": percentile(0.5), "p95": percentile(0.95),
            "p99": percentile(0.99)}  # fmt: skip


def rest(url: str, headers: dict[str, str]) -> None:
    """Wait until the server has learned from the turns before; it is not measured with them."""
    httpx.post(f"{url}/v1/upkeep/flush", headers=headers, timeout=600).raise_for_status()


def views_of(url: str, headers: dict[str, str]) -> dict[str, str]:
    """Every view of the page by its name, about what the store holds."""
    with httpx.Client(base_url=url, headers=headers, timeout=60) as client:
        memory = client.get("/v1/memories", params={"user_id": "ann", "limit": 1}).json()
        context = client.get("/v1/contexts", params={"user_id": "ann", "limit": 1}).json()
    return {
        "Live": "/",
        "One context": f"/contexts/{context['results'][0]['id']}",
        "Memories": "/memories?user=ann",
        "Memories, searched": "/memories?user=ann&q=harbour+in+street+17",
        "One memory": f"/memories/{memory['results'][0]['id']}?user=ann",
        "People": "/people?user=ann",
        "Contradictions": "/contradictions?user=ann",
        "Care": "/care?user=ann",
        "Care, checked": "/care?user=ann&check=1",
    }


def show(name: str, clients: int, found: dict[str, float]) -> None:
    figures = "".join(f"{found[key]:>12.1f}" for key in ("per second", "p50", "p95", "p99"))
    print(f"{name:<40}{clients:>8}{figures}", flush=True)


def resident_mb(process_id: int) -> float:
    """What a process and its children hold in memory."""
    total = 0
    ids = [
        process_id,
        *map(int, Path(f"/proc/{process_id}/task/{process_id}/children").read_text().split()),
    ]
    for one in ids:
        lines = Path(f"/proc/{one}/status").read_text().splitlines()
        total += sum(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))
    return total / 1000


def cpu_ms(process_id: int) -> float:
    """What a process has used of the processors so far."""
    fields = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()
    return 1000 * (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Questions:
    """What is asked of one server about its memories."""

    def __init__(self, url: str, token: str, memories: int) -> None:
        self.url = url
        self.headers = {"authorization": f"Bearer {token}", "x-agentmem-user": "ann"}
        self._memories = memories

    def question(self, at: int) -> str:
        return f"When does the {PLACES[at % 8]} number {at % self._memories} open?"

    async def search(self, client: httpx.AsyncClient, at: int) -> None:
        await self._post(client, "/v1/search", {"query": self.question(at)})

    async def turn(self, client: httpx.AsyncClient, at: int) -> None:
        messages = [{"role": "user", "content": self.question(at)}]
        made = await self._post(client, "/v1/turns", {"messages": messages, "model": "gpt-4o"})
        await self._post(client, f"/v1/turns/{made['id']}/done", {"answer": "At nine."})

    async def _post(self, client: httpx.AsyncClient, path: str, said: dict[str, Any]) -> Any:
        said = {**said, "user_id": "ann"}
        answer = await client.post(f"{self.url}{path}", json=said, headers=self.headers)
        return answer.raise_for_status().json()

    def completion(self, base: str, **more: str) -> Call:
        async def ask(client: httpx.AsyncClient, at: int) -> None:
            messages = [{"role": "user", "content": self.question(at)}]
            said = {"model": "gpt-4o", "messages": messages}
            where, headers = f"{base}/chat/completions", {**self.headers, **more}
            (await client.post(where, json=said, headers=headers)).raise_for_status()

        return ask

    def view(self, path: str) -> Call:
        async def look(client: httpx.AsyncClient, at: int) -> None:
            answer = await client.get(f"{self.url}{path}", headers=self.headers)
            answer.raise_for_status()

        return look


def measure_load(asked: Questions, seconds: float) -> None:
    """Search and turns by 1, 8 and 64 clients."""
    for name, call in (("search", asked.search), ("turn and done", asked.turn)):
        for clients in CLIENTS:
            show(name, clients, asyncio.run(measure(call, clients, seconds)))


def measure_proxy(asked: Questions, provider: str, process_id: int) -> None:
    """What the proxy adds to a call, with memory and without."""
    ours = f"{asked.url}/v1"
    calls = {
        "provider alone": asked.completion(provider),
        "proxy, memory off": asked.completion(ours, **{"x-agentmem-off": "1"}),
        "proxy": asked.completion(ours),
    }
    for said, pause in (("calls in a row", 0.0), ("a pause between calls", PAUSE_SECONDS)):
        rest(asked.url, asked.headers)
        used = cpu_ms(process_id)
        found = asyncio.run(alternate([*calls.values()], 97, pause))
        rest(asked.url, asked.headers)
        used = (cpu_ms(process_id) - used) / 100
        for name, figures in zip(calls, found, strict=True):
            show(f"{name}, {said}", 1, figures)
        bare, off, on = (figures["p50"] for figures in found)
        print(
            f"the proxy adds {on - bare:.1f} ms at the median, {on - off:.1f} of them memory; "
            f"{used:.1f} ms of CPU a call, learning from it included"
        )


def measure_page(asked: Questions) -> None:
    """Each view of the page."""
    asyncio.run(_repeat(asked.turn, 3))  # so that there are contexts to look at
    rest(asked.url, asked.headers)
    for name, address in views_of(asked.url, asked.headers).items():
        show(f"page: {name}", 1, asyncio.run(alternate([asked.view(address)], 20, 0.0))[0])


def measure_turns(asked: Questions, process_id: int, turns: int, most_seconds: float) -> None:
    """What the server holds in memory while it takes so many turns."""
    began, done = time.perf_counter(), 0
    step = max(1, min(turns // 10, 500))
    print(f"before: {resident_mb(process_id):,.0f} MB", flush=True)
    while done < turns and time.perf_counter() < began + most_seconds:
        asyncio.run(_repeat(asked.turn, step, done))
        done += step
        rest(asked.url, asked.headers)
        spent = time.perf_counter() - began
        print(f"{done:,} turns: {resident_mb(process_id):,.0f} MB, {spent:.0f} s", flush=True)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--memories", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=5.0, help="for each line of `load`")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--only", choices=PARTS, action="append", help="may be repeated")
    parser.add_argument("--turns", type=int, default=20_000, help="of `turns`")
    parser.add_argument("--most-seconds", type=float, default=1_200, help="of `turns`")
    parser.add_argument("--fill-only", action="store_true", help="fill the store and end")
    said = parser.parse_args()
    parts = said.only or PARTS[:3]
    with tempfile.TemporaryDirectory() as folder, providing() as provider:
        path = filled(Path(folder), said.memories)
        if said.fill_only:
            return
        with agentmem.open(path, embedder=None) as memory:
            token = Tokens(memory.store.settings).make(admin=True)[0]
        process, url = start(path, said.workers, "--upstream", provider)
        asked = Questions(url, token, said.memories)
        try:
            asyncio.run(measure(asked.search, 1, 3.0))  # the index and the embedder are loaded
            print(f"{said.memories:,} memories, {said.workers} worker(s), {EMBEDDER} embedder")
            head = "".join(f"{name:>12}" for name in ("per second", "p50 ms", "p95 ms", "p99 ms"))
            print(f"{'':<40}{'clients':>8}{head}")
            if "load" in parts:
                measure_load(asked, said.seconds)
            if "proxy" in parts:
                measure_proxy(asked, provider, process.pid)
            if "page" in parts:
                measure_page(asked)
            if "turns" in parts:
                measure_turns(asked, process.pid, said.turns, said.most_seconds)
                stop(process)
                process, asked.url = start(path, said.workers, "--upstream", provider)
                asyncio.run(_repeat(asked.turn, 200))
                rest(asked.url, asked.headers)
                print(f"started afresh, 200 turns: {resident_mb(process.pid):,.0f} MB")
        finally:
            stop(process)


def stop(process: subprocess.Popen[str]) -> None:
    """End the server, and wait until it has."""
    process.terminate()
    process.wait(30)


async def _repeat(call: Call, times: int, first: int = 0) -> None:
    async with connect() as client:
        for at in range(first, first + times):
            await call(client, at)


if __name__ == "__main__":
    main()
