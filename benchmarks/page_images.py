"""Pictures of every view of the page, light and dark, into docs/images.

    python benchmarks/page_images.py
    python benchmarks/page_images.py --width 400 --into /tmp/narrow   # as on a phone

It needs Chromium and Playwright; nothing leaves the machine.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import agentmem  # noqa: E402 - found beside this folder
from agentmem.server.app import create_app  # noqa: E402
from tests.servers.browser import chromium  # noqa: E402
from tests.servers.serving import Serving  # noqa: E402

FACTS = (
    "The staging cluster is rebuilt every Monday at six.",
    "Deploys go through the staging cluster first.",
    "Ann's cat is called Miso and hates rain.",
    "The invoice run starts on the third working day.",
    "The API limit is 100 requests per minute.",
    "The API limit is 500 requests per minute.",
)
ASKED = (
    ("How do deploys to the staging cluster go?", "They go through staging first [1]."),
    ("What is my cat called?", "Miso [1]."),
    ("When is the staging cluster rebuilt?", "On Mondays at six [1]."),
)


def main() -> None:
    """Fill a memory, serve it, and take the pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--width", type=int, default=1180, help="of the window, in pixels")
    parser.add_argument("--into", type=Path, default=ROOT / "docs" / "images")
    chosen = parser.parse_args()
    folder: Path = chosen.into
    folder.mkdir(exist_ok=True)
    with agentmem.open(":memory:", embedder=None) as memory:
        for fact in FACTS:
            memory.add(fact, user_id="ann")
        memory.add("Bob keeps bees.", user_id="bob")
        for said in ("I prefer tea.", "I like short answers."):
            memory.preferences.add(said, user_id="ann")
        for question, answer in ASKED:
            asked = [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": question},
            ]
            with memory.turn(asked, user_id="ann", model="gpt-4o") as turn:
                turn.done(answer)
        memory.flush()
        kept = next(m for m in memory.get_all(user_id="ann", limit=50) if "Miso" in m.text)
        views = {
            "live": "/", "context": f"/contexts/{turn.snapshot_id}",
            "memories": "/memories?user=ann",
            "memory": f"/memories/{kept.id}?user=ann", "people": "/people?user=ann",
            "contradictions": "/contradictions?user=ann", "care": "/care?user=ann",
        }  # fmt: skip
        with Serving(create_app(memory, auth=False)) as served, chromium() as browser:
            for scheme in ("light", "dark"):
                page = browser.new_page(
                    viewport={"width": chosen.width, "height": 720}, color_scheme=scheme
                )
                for name, path in views.items():
                    page.goto(served.url + path)
                    if name == "care":  # its health comes after the page
                        page.wait_for_selector("#health table")
                    page.screenshot(path=folder / f"page-{name}-{scheme}.png")
    print(f"{2 * len(views)} pictures in {folder}")


if __name__ == "__main__":
    main()
