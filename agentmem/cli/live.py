"""The monitor on a terminal: the last contexts, drawn again whenever one is added."""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING

from agentmem.inspector.monitoring import Event, Watcher
from agentmem.inspector.rendering import render_event

if TYPE_CHECKING:
    from agentmem.core.layout import Pen


def follow_live(watcher: Watcher, pen: Pen, *, poll_seconds: float) -> None:
    """Draw what happens until Ctrl-C; the last state stays on the screen."""
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    console = Console(no_color=not pen.colour, highlight=False)
    events: deque[Event] = deque(maxlen=500)
    contexts = responses = 0

    def draw() -> Text:
        width, height = console.size
        shown: list[str] = []
        for event in reversed(events):
            lines = render_event(event, width=width, pen=pen).split("\n")
            if len(shown) + len(lines) > height - 3:
                break
            shown = [*lines, *shown]
        head = pen.cut(f"agentmem monitor  {contexts:,} contexts, {responses:,} responses", width)
        foot = "Ctrl-C ends."
        return Text.from_ansi("\n".join([pen.paint(head, "bold"), *shown, pen.paint(foot, "dim")]))

    try:
        with Live(draw(), console=console, auto_refresh=False, screen=False) as live:
            while True:
                fresh = watcher.poll()
                for event in fresh:
                    events.append(event)
                    contexts += event.kind == "context"
                    responses += event.kind == "response"
                if fresh or console.size.width:
                    live.update(draw(), refresh=bool(fresh))
                time.sleep(poll_seconds)
    except KeyboardInterrupt:
        return
