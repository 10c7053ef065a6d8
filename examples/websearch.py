"""One cited answer from what you know and what the web says.

python examples/websearch.py "When did …?"        searches DuckDuckGo
python examples/websearch.py                       answers a canned question offline
"""

from __future__ import annotations

import sys
from typing import Any

import agentmem
from agentmem import enhanced_search_sync


def canned_search(query: str) -> list[dict[str, str]]:
    """What a web search might give for the question below."""
    return [
        {
            "title": "Comet facts",
            "url": "https://comets.example.org/halley",
            "snippet": "Halley's comet returns every 76 years. It was last seen in 1986.",
            "date": "2026-03-01",
        }
    ]


def main() -> None:
    query = " ".join(sys.argv[1:])
    web: Any = None if query else canned_search
    with agentmem.open(":memory:") as memory:
        memory.add("My grandfather saw Halley's comet in 1910.")
        result = enhanced_search_sync(
            query or "When was Halley's comet last seen?", memory=memory, web=web
        )
    print(result.format())
    for problem in result.degradations:
        print(f"note: {problem}", file=sys.stderr)


if __name__ == "__main__":
    main()
