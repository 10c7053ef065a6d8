"""agentmem in two sessions with a restart in between: no key, no server, no network.

    python examples/demo.py            both sessions, each in a process of its own
    python examples/demo.py --store F  the same, on a store you can look at afterwards

Session one reads pages, hears what sam likes and keeps a large tool result by id. Session two is a
new process that knows all of it: every question is asked with and without memory, somebody else
asks the same and gets nothing of sam's, and what sam takes back is gone. The answers are made by
the extractive model, which only quotes memory; where a model has to call tools, a scripted one
stands in and says so.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import agentmem
from agentmem.testing import ScriptedModel

USER = "sam"
RUNBOOK = """<html><head><title>Payments runbook</title></head><body><article>
<h1>Deploying payments</h1>
<h2>When we deploy</h2>
<p>Deploys go out on Thursdays at 10:00. Outside that window ask the on-call engineer first.</p>
<h2>When a deploy fails</h2>
<p>Nine times of ten the migration step ran out of its 300 second limit. Look at the job log for
"lock timeout". Roll back with <code>tools/rollback.sh payments</code>, then run the migration by
hand at night, when the ledger table is quiet. Version 2.3.1 raised the limit to 900 seconds.</p>
<h2>Who to call</h2>
<p>The ledger table belongs to the storage team. Their pager is in the channel's topic.</p>
</article></body></html>"""
POSTGRES = """# Postgres at our place

We use Postgres 15. The ledger table has about 40 million rows, and an ALTER TABLE on it waits for
every running report. Reports start at 22:00 and take two hours. Never run a migration between
22:00 and midnight.
"""
PAGES = (
    {"url": "https://wiki.example/runbook", "title": "Payments runbook", "content": RUNBOOK},
    {"url": "https://wiki.example/postgres", "title": "Postgres notes", "content": POSTGRES},
)


QUESTIONS = (
    "When do deploys go out?",
    "How many rows does the ledger table have?",
    "How do I knit a scarf?",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--store", type=Path, help="where to keep the memory (default: nowhere)")
    parser.add_argument("--session", type=int, choices=(1, 2), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.session:
        with agentmem.open(asked.store) as memory:
            (session_one if asked.session == 1 else session_two)(memory)
        return
    with tempfile.TemporaryDirectory() as folder:
        store = asked.store or Path(folder) / "memory.db"
        for session in (1, 2):
            subprocess.run(
                [sys.executable, __file__, "--store", str(store), "--session", str(session)],
                check=True,
            )
        size = sum(file.stat().st_size for file in store.parent.glob(f"{store.name}*"))
        print(f"\nAll of it is in {store.name} and its index files: {size:,} bytes.")
    print("See a memory of your own in the browser: agentmem serve --open")


def session_one(memory: agentmem.MemoryManager) -> None:
    title("Session 1: pages are read, and sam says who he is")
    for page in PAGES:
        done = memory.sources.index_page(page["content"], page["url"], page["title"], user_id=USER)
        print(f"  indexed  {page['title']:<17} {done.status}, {done.chunks} chunks")
    again = memory.sources.index_page(RUNBOOK, PAGES[0]["url"], PAGES[0]["title"], user_id=USER)
    print(f"  again    {PAGES[0]['title']:<17} {again.status}")
    tell(memory, "I'm a backend engineer, I'm vegan, and I prefer short answers.")
    print("\n  The one message that memory adds to the prompt of the next question:\n")
    turn = memory.turn([{"role": "user", "content": QUESTIONS[0]}], user_id=USER, dry=True)
    indent(turn.block_text)
    if turn.budget is not None:
        print("\n  What that prompt costs:\n")
        indent(agentmem.render_budget(turn.budget))
    use_a_tool(memory)


def use_a_tool(memory: agentmem.MemoryManager) -> None:
    title("A large tool result stays out of the prompt")

    def read_job_log() -> str:
        """The log of last night's deploy job."""
        lines = [f"22:{40 + n // 60:02}:{n % 60:02} step {n} ok" for n in range(600)]
        lines[571] = "22:49:31 migration aborted: lock timeout on table ledger"
        return "\n".join(lines)

    first = ScriptedModel(
        call("read_job_log", {}),
        lambda request: call("memory_read", {"id": stored_id(request), "grep": "lock timeout"}),
        lambda request: "The migration was aborted at 22:49 by a lock timeout on the ledger table.",
    )
    result = agentmem.run_agent_loop_sync(
        "What does the job log say?",
        memory=memory,
        model=first,
        tools=[read_job_log],
        user_id=USER,
    )
    log = read_job_log()
    print(f"  (scripted model) asks for read_job_log, which gives {len(log):,} characters")
    print("  the model is sent, instead of the log:\n")
    indent(str(result.tool_calls[0].message["content"]))
    print("\n  it reads what it needs by id:\n")
    indent(str(result.tool_calls[1].message["content"]))
    print(f"\n  answer   {result.answer}")


def session_two(memory: agentmem.MemoryManager) -> None:
    title("Session 2: a new process, the same memory")
    for question in QUESTIONS:
        print(f"\n  sam              {question}")
        print(f"  without memory   {answer(None, question).answer}")
        found = answer(memory, question)
        print(f"  with memory      {found.answer}")
        for citation in found.citations:
            print(f"                   [{citation.index}] {citation.label}: {citation.title}")
    print(f"\n  bob              {QUESTIONS[0]}")
    print(f"  with memory      {answer(memory, QUESTIONS[0], user='bob').answer}")
    print("                   (what sam keeps is sam's)")

    title("What is taken back is gone")
    show_profile(memory)
    tell(memory, "I'm no longer vegan.")
    show_profile(memory)
    stats = memory.upkeep.get_stats(user_id=USER)
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(stats.store.kinds.items()))
    print(f"\n  sam's memory: {kinds}")


def tell(memory: agentmem.MemoryManager, said: str) -> None:
    print(f"\n  sam      {said}")
    heard = answer(memory, said)
    for preference in heard.preferences:
        print(f"  learned  {preference.text}  ({preference.type})")
    for preference in heard.taken_back:
        print(f"  dropped  {preference.text}")


def show_profile(memory: agentmem.MemoryManager) -> None:
    held = [preference.text for preference in memory.preferences.get_all(user_id=USER)]
    print(f"  every prompt of sam's says: {'; '.join(held)}")


def answer(
    memory: agentmem.MemoryManager | None, question: str, *, user: str = USER
) -> agentmem.AgentLoopResult:
    result = agentmem.run_agent_loop_sync(question, memory=memory, model="extractive", user_id=user)
    for problem in result.degradations:
        print(f"  degraded {problem}")
    if memory is not None:
        memory.flush()
    return result


def call(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": f"call_{name}", "type": "function", "function": function}],
    }


def stored_id(request: dict[str, Any]) -> str:
    """The id a stand-in names, as a model would read it."""
    found = re.search(r'id="([^"]+)"', str(request["messages"][-1]["content"]))
    return found[1] if found else ""


def indent(text: str) -> None:
    print("\n".join(f"    {line}" for line in text.splitlines()))


def title(text: str) -> None:
    print(f"\n{text}\n{'─' * min(len(text), 80)}")


if __name__ == "__main__":
    main()
