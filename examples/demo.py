"""What agentmem does for one question, on your machine: no key, no server, no network.

It remembers two pages and a conversation, finds what answers a question, packs everything into
three very different model windows, and shows the one message it would add, and what was left out.
"""

from __future__ import annotations

import tempfile
import warnings
from datetime import UTC, datetime
from pathlib import Path

import agentmem
import agentmem.errors
from agentmem.core.assembly import BuiltBlock, build_block
from agentmem.core.block import source_of
from agentmem.core.budget_text import render_budget, render_fates
from agentmem.core.injection import inject
from agentmem.core.knowledge import Candidate
from agentmem.core.packages import ContentPackage
from agentmem.core.packing import ContextPlan, pack_context
from agentmem.core.preferences import detect_preferences
from agentmem.core.sentences import truncate_at_sentence

NOW = datetime(2026, 3, 2, 9, 30, tzinfo=UTC)
QUESTION = "Why did last night's deploy fail?"
MESSAGE = f"{QUESTION} The end of the log is in this screenshot."
SYSTEM = (
    "You are the on-call assistant of the payments team. Be brief and say what you are sure of."
)

RUNBOOK = """# Deploying payments

## When we deploy

Deploys go out on Thursdays at 10:00. Outside that window ask the on-call engineer first.

## When a deploy fails

Nine times of ten the migration step ran out of its 300 second limit. Look at the job log for
"lock timeout". Roll back with `tools/rollback.sh payments`, then run the migration by hand at
night, when the ledger table is quiet. Version 2.3.1 raised the limit to 900 seconds.

## Who to call

The ledger table belongs to the storage team. Their pager is in the channel's topic.
"""

POSTGRES = """# Postgres at our place

We use Postgres 15. The ledger table has about 40 million rows, and an ALTER TABLE on it waits for
every running report. Reports start at 22:00 and take two hours. Never run a migration between
22:00 and midnight.
"""

TALK = [
    ("user", "I'm a backend engineer, new in this team. Please keep answers short.", "2026-02-27"),
    ("assistant", "Welcome! Short answers it is.", "2026-02-27"),
    (
        "user",
        "We moved the nightly reports from 20:00 to 22:00 because of the audit.",
        "2026-02-27",
    ),
    ("assistant", "Noted: reports now run from 22:00.", "2026-02-27"),
    ("user", "Lunch was great, the new place makes good noodles.", "2026-02-28"),
    (
        "user",
        "Yesterday's deploy started at 22:40 and the migration hit a lock timeout.",
        "2026-03-02",
    ),
]
SCREENSHOT = {
    "type": "image_url",
    "image_url": {"url": "https://ci.example/log.png", "detail": "high"},
}
WINDOWS = (("gpt-4o", None), ("groq/llama3-8b-8192", None), ("a model of your own", 3_000))


def main() -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        agentmem.open(Path(folder) / "memory.db") as memory,
    ):
        remember(memory)
        hits = find(memory)
        for model, window in WINDOWS:
            pack(memory, hits, model=model, window=window)


def remember(memory: agentmem.MemoryManager) -> None:
    title("1. Remember")
    pages = (("runbook", "Payments runbook", RUNBOOK), ("postgres", "Postgres notes", POSTGRES))
    for name, page_title, text in pages:
        added = memory.add(
            agentmem.Document(text=text, url=f"https://wiki.example/{name}", title=page_title),
            user_id="sam",
        )
        print(f"  page    {page_title:<18} {len(added)} chunk{'s' * (len(added) > 1)}")
    again = memory.add(
        agentmem.Document(
            text=RUNBOOK, url="https://wiki.example/runbook", title="Payments runbook"
        ),
        user_id="sam",
    )
    print(f"  page    Payments runbook   again: {'nothing to do' if again.unchanged else 'oops'}")
    messages = [
        {"role": role, "content": text, "created_at": f"{day}T10:00:00+00:00", "session": day}
        for role, text, day in TALK
    ]
    print(f"  talk    {len(memory.add(messages, user_id='sam'))} messages of three days")
    for preference in preferences():
        memory.add_text(preference, kind="preference", user_id="sam")
        print(f"  prefers {preference}")
    memory.add("Bob's cat is called Deploy.", user_id="bob")
    print("  bob     a memory of somebody else, which sam will never see")


def preferences() -> list[str]:
    said = " ".join(text for role, text, _ in TALK if role == "user")
    return [found.content for found in detect_preferences(said)]


def find(memory: agentmem.MemoryManager) -> list[agentmem.Hit]:
    title(f"2. Find: {QUESTION}")
    kinds = ("page", "message")
    hits = memory.search(QUESTION, top_k=8, kinds=kinds, user_id="sam")
    for hit in hits:
        first = " ".join(hit.memory.text.split())[:58]
        print(f"  {hit.score:.2f}  {hit.memory.kind:<8} {first}")
    nothing = memory.search("How do I knit a scarf?", kinds=kinds, user_id="sam")
    print(f"  and for a question about knitting: {len(nothing)} hits")
    return list(hits)


def pack(
    memory: agentmem.MemoryManager,
    hits: list[agentmem.Hit],
    *,
    model: str,
    window: int | None,
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", agentmem.errors.AgentMemWarning)
        tokenizer = agentmem.Tokenizer(model, context_window=window)
    size = tokenizer.limits.window
    title(f"3. Pack into {model}: {size:,} tokens, {tokenizer.reserve.total:,} kept for the answer")
    built = build(memory, hits, tokenizer)
    plan = pack_context(
        system=SYSTEM,
        history=[{"role": role, "content": text} for role, text, _ in TALK * 12],
        current={"role": "user", "content": MESSAGE},
        media=[SCREENSHOT],
        window_tokens=size,
        reserve_tokens=tokenizer.reserve.total,
        extra=[reference(built)] if built.text else [],
        count=tokenizer,
        count_message=tokenizer.count_message,
        count_media=tokenizer.count_part,
        now=NOW,
        memories_asked=0,
    )
    show(plan, built, small=size < 10_000)


def build(
    memory: agentmem.MemoryManager, hits: list[agentmem.Hit], tokenizer: agentmem.Tokenizer
) -> BuiltBlock:
    room = tokenizer.available_tokens
    return build_block(
        secret=memory.store.settings.secret(),
        limit_tokens=min(2_500, room // 4),
        count=tokenizer,
        user_profile=preferences(),
        profile_tokens=500,
        candidates=[
            Candidate(id=hit.memory.id, source=source_of(hit.memory), score=hit.score)
            for hit in hits
        ],
        truncate=truncate_at_sentence,
    )


def reference(built: BuiltBlock) -> ContentPackage:
    """The block as one fixed package: it was cut to its own budget already."""
    return ContentPackage(
        id="reference",
        type="memory-reference",
        content=built.text or "",
        tokens=built.tokens,
        can_drop=False,
    )


def show(plan: ContextPlan, built: BuiltBlock, *, small: bool) -> None:
    print(render_budget(plan.budget))
    if small:
        print("\nWhat was left out, and why:")
        print(render_fates(plan.report.fates))
        for fate in built.knowledge.fates:
            if fate.outcome != "included":
                print(f"  memory {fate.id[-8:]}: {fate.outcome}, {fate.reason}")
        return
    sent = inject(plan.messages, built.text)
    roles = " ".join(message["role"] for message in sent[-4:])
    print(f"\nThe request has {len(sent)} messages and ends with: {roles}")
    print(f"The one message that was added ({built.tokens:,} tokens with its stub):\n")
    print("\n".join(f"  {line}" for line in (built.text or "").splitlines()))


def title(text: str) -> None:
    print(f"\n{text}\n{'─' * min(len(text), 80)}")


if __name__ == "__main__":
    main()
