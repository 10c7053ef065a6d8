"""How fast the server answers: search and turns, what the proxy adds to a call, and each view.

    python benchmarks/serve.py [--memories 10000] [--seconds 5] [--workers 1] [--turns 0]

Prints a table: requests a second and the 50th, 95th and 99th percentile in
milliseconds, at 1, 8 and 64 clients; then the proxy against the bare provider,
call by call in turn, so that both meet the same machine; then the views of the
page. Clients and provider run in processes of their own; on few cores they take
part of what the server could have.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
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
from agentmem.server.run import listen  # noqa: E402
from agentmem.server.tokens import Tokens  # noqa: E402

Call = Callable[[httpx.AsyncClient, int], Awaitable[None]]

CLIENTS = (1, 8, 64)
PLACES = ("harbour", "bakery", "museum", "library", "station", "school", "market", "chapel")
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


def fill(path: Path, memories: int) -> str:
    """A store with so many memories of one user, and an admin's token."""
    with agentmem.open(path) as memory:
        for start in range(0, memories, 2_000):
            texts = [
                f"The {PLACES[n % 8]} number {n} in street {n * 7 % 1009} opens at {n % 12 + 1}."
                for n in range(start, min(start + 2_000, memories))
            ]
            memory.add_chunks(texts, url=f"https://example.org/{start}", user_id="ann")
        memory.upkeep.reembed()
        memory.upkeep.sync()
        return Tokens(memory.store.settings).make(admin=True)[0]


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
    print(f"{name:<34}{clients:>8}{figures}", flush=True)


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


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--memories", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--turns", type=int, default=0, help="so many turns for flat memory")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, providing() as provider:
        path = Path(folder) / "m.db"
        token = fill(path, asked.memories)
        process, url = start(path, asked.workers, "--upstream", provider)
        headers = {"authorization": f"Bearer {token}", "x-agentmem-user": "ann"}

        def question(at: int) -> str:
            return f"When does the {PLACES[at % 8]} number {at % asked.memories} open?"

        async def search(client: httpx.AsyncClient, at: int) -> None:
            said = {"query": question(at), "user_id": "ann"}
            (await client.post(f"{url}/v1/search", json=said, headers=headers)).raise_for_status()

        async def turn(client: httpx.AsyncClient, at: int) -> None:
            body: dict[str, Any] = {"messages": [{"role": "user", "content": question(at)}]}
            body |= {"model": "gpt-4o", "user_id": "ann"}
            made = await client.post(f"{url}/v1/turns", json=body, headers=headers)
            done = f"{url}/v1/turns/{made.raise_for_status().json()['id']}/done"
            said = {"answer": "At nine.", "user_id": "ann"}
            (await client.post(done, json=said, headers=headers)).raise_for_status()

        def completion(base: str) -> Call:
            async def ask(client: httpx.AsyncClient, at: int) -> None:
                body = {"model": "gpt-4o", "messages": [{"role": "user", "content": question(at)}]}
                where = f"{base}/chat/completions"
                (await client.post(where, json=body, headers=headers)).raise_for_status()

            return ask

        def view(path: str) -> Call:
            async def look(client: httpx.AsyncClient, at: int) -> None:
                (await client.get(f"{url}{path}", headers=headers)).raise_for_status()

            return look

        try:
            asyncio.run(measure(search, 1, 3.0))  # the index and the embedder are loaded
            print(f"{asked.memories:,} memories, {asked.workers} worker(s)")
            head = "".join(f"{name:>12}" for name in ("per second", "p50 ms", "p95 ms", "p99 ms"))
            print(f"{'':<34}{'clients':>8}{head}")
            for name, call in (("search", search), ("turn and done", turn)):
                for clients in CLIENTS:
                    show(name, clients, asyncio.run(measure(call, clients, asked.seconds)))
            calls = [completion(provider), completion(f"{url}/v1")]
            for said, pause in ((", calls in a row", 0.0), ("", PAUSE_SECONDS)):
                rest(url, headers)
                used = cpu_ms(process.pid)
                bare, through = asyncio.run(alternate(calls, 97, pause))
                used = (cpu_ms(process.pid) - used) / 100
                show(f"provider alone{said}", 1, bare)
                show(f"through the proxy{said}", 1, through)
                adds = through["p50"] - bare["p50"]
                print(f"the proxy adds {adds:.1f} ms at the median; {used:.1f} ms of CPU a call")
            rest(url, headers)
            for name, address in views_of(url, headers).items():
                show(f"page: {name}", 1, asyncio.run(alternate([view(address)], 20, 0.0))[0])
            if asked.turns:
                before = resident_mb(process.pid)
                for part in range(4):
                    asyncio.run(_repeat(turn, asked.turns // 4))
                    held, done = resident_mb(process.pid), (part + 1) * asked.turns // 4
                    print(f"{done:,} turns: {held:,.0f} MB (before: {before:,.0f} MB)", flush=True)
        finally:
            process.terminate()
            process.wait(30)


async def _repeat(call: Call, times: int) -> None:
    async with connect() as client:
        for at in range(times):
            await call(client, at)


if __name__ == "__main__":
    main()
