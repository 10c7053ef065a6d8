"""How many of the memories cited next were among the predicted ten.

    python benchmarks/prediction.py [--trace FILE | --repo FOLDER] [--seed N] [--json]

Without a trace, a year of work is simulated: tasks with files, branches, errors and people, each
with memories it needs; tasks come and go, one in five citations has nothing to do with the task.
`--trace` replays JSON lines of {"at": ISO 8601, "signals": [{"kind": …, "value": …}], "cited":
[ids]}. `--repo` replays a git history: the first file of a commit is the signal, what is known
about the other files is what gets cited; files that import each other stand for each other. Every
line is predicted before it is learned from. Baselines: a counter of what was cited together with
each signal (ten lines, `Counted`), the ten cited most often, and the ten cited last. What was never
cited before cannot be predicted: that share is printed too.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import json
import random
import subprocess
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from rich.progress import track

from agentmem.living.predict import Predictor, Signal, features_of
from agentmem.sources.patterns import module_graph

Step = tuple[datetime, list[Signal], list[str]]
TEN = 10


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--trace", type=Path)
    parser.add_argument("--repo", type=Path)
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--steps", type=int, default=3_000)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    if asked.trace:
        steps = list(read_trace(asked.trace))
    elif asked.repo:
        steps = list(read_repository(asked.repo))
    else:
        steps = list(simulate(asked.steps, seed=asked.seed))
    related = read_relations(asked.repo) if asked.repo else {}
    figures = replay(steps, quiet=asked.json, related=related)
    if asked.json:
        print(json.dumps(figures, indent=2))
        return
    for name, value in figures.items():
        print(f"{name:<36} {value}")


class Counted:
    """The ten-line counter: what was cited most often under the same signals, then at all."""

    def __init__(self) -> None:
        self.under: dict[Signal, Counter[str]] = defaultdict(Counter)
        self.often: Counter[str] = Counter()

    def predict(self, signals: Sequence[Signal]) -> set[str]:
        score = Counter({one: n / 1e6 for one, n in self.often.items()})
        for signal in signals:
            score.update(self.under[signal])
        return {one for one, _ in score.most_common(TEN)}

    def observe(self, signals: Sequence[Signal], cited: Sequence[str]) -> None:
        self.often.update(cited)
        for signal in signals:
            self.under[signal].update(cited)


def replay(
    steps: list[Step], *, quiet: bool, related: Mapping[str, Sequence[str]] | None = None
) -> dict[str, Any]:
    predictor = Predictor()
    counted, often = Counted(), Counter[str]()
    last: dict[str, int] = {}
    found = Counter[str]()
    wanted = 0
    warm_up = len(steps) // 10
    before: list[str] = []
    for number, (_, signals, cited) in enumerate(
        track(steps, description="replaying", disable=quiet)
    ):
        now = [*signals, *(Signal(kind="cited", value=memory_id) for memory_id in before)]
        features = features_of(now, related=related or {})
        guesses = {p.id for p in predictor.predict(features)}
        if number >= warm_up:
            wanted += len(cited)
            found["known"] += sum(memory_id in last for memory_id in cited)
            found["predicted"] += len(guesses & set(cited))
            found["counted"] += len(counted.predict(signals) & set(cited))
            found["most often"] += len({m for m, _ in often.most_common(TEN)} & set(cited))
            newest = sorted(last, key=lambda memory_id: -last[memory_id])[:TEN]
            found["last"] += len(set(newest) & set(cited))
        predictor.observe(features, cited)
        counted.observe(signals, cited)
        often.update(cited)
        last |= dict.fromkeys(cited, number)
        before = cited[:3]
    share = {name: round(hits / max(1, wanted), 3) for name, hits in found.items()}
    return {
        "steps": len(steps),
        "memories": len(often),
        "cited after the first tenth": wanted,
        "among the predicted 10": share.get("predicted", 0.0),
        "among the 10 of a counter": share.get("counted", 0.0),
        "among the 10 cited most often": share.get("most often", 0.0),
        "among the 10 cited last": share.get("last", 0.0),
        "cited before, the most one can reach": share.get("known", 0.0),
        "goal": 0.7,
    }


def simulate(steps: int, *, seed: int) -> Iterator[Step]:
    """Work on tasks that come and go; each needs its own memories, some are needed by all."""
    draw = random.Random(seed)
    common = [f"convention-{n}" for n in range(6)]
    at = datetime(2025, 1, 1, 9, tzinfo=UTC)
    tasks: list[dict[str, Any]] = []
    for step in range(steps):
        at += timedelta(minutes=draw.expovariate(1 / 60))
        if not tasks or draw.random() < 0.01:
            tasks.append(new_task(draw, step))
        task = draw.choice(tasks[-6:]) if draw.random() < 0.8 else draw.choice(tasks)
        signals = [
            Signal(kind="file", value=draw.choice(task["files"])),
            Signal(kind="branch", value=task["branch"]),
            Signal(kind="time", value=at.isoformat()),
            Signal(kind="collaborator", value=draw.choice(task["people"])),
            Signal(kind="tool", value=draw.choice(("grep", "pytest", "git"))),
        ]
        if draw.random() < 0.3:
            signals.append(Signal(kind="error", value=f"{task['error']} at line {step}"))
        cited = {draw.choice(task["memories"]) for _ in range(draw.randint(1, 3))}
        if draw.random() < 0.2:
            cited.add(
                draw.choice(common) if draw.random() < 0.5 else f"random-{draw.randint(0, 300)}"
            )
        yield at, signals, sorted(cited)


def new_task(draw: random.Random, number: int) -> dict[str, Any]:
    folder = f"src/{draw.choice(('billing', 'search', 'auth', 'reports'))}"
    return {
        "branch": f"feature/{number}-{draw.choice(('fix', 'add', 'drop'))}",
        "files": [f"{folder}/part_{draw.randint(0, 40)}.py" for _ in range(5)],
        "people": draw.sample(("ana", "bob", "cy", "dee"), 2),
        "error": f"{draw.choice(('KeyError', 'Timeout', 'LockError'))}: {folder}",
        "memories": [f"memory-{number}-{n}" for n in range(8)],
    }


def read_trace(file: Path) -> Iterator[Step]:
    for line in file.read_text("utf-8").splitlines():
        if line.strip():
            data = json.loads(line)
            signals = [Signal(kind=s["kind"], value=s["value"]) for s in data["signals"]]
            moment = datetime.fromisoformat(data["at"])
            yield moment if moment.tzinfo else moment.replace(tzinfo=UTC), signals, data["cited"]


def read_relations(folder: Path) -> dict[str, tuple[str, ...]]:
    """Which Python files of a folder import each other, as they are now."""
    modules = {}
    for file in sorted(folder.rglob("*.py")):
        if not any(part.startswith(".") for part in file.relative_to(folder).parts):
            with contextlib.suppress(SyntaxError, ValueError, OSError):
                modules[file.relative_to(folder).as_posix()] = ast.parse(file.read_bytes())
    return module_graph(modules)


def read_repository(folder: Path) -> Iterator[Step]:
    log = subprocess.run(
        ["git", "-C", str(folder), "log", "--reverse", "--no-merges", "--name-only",
         "--format=%x01%cI"],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    for commit in log.split("\x01")[1:]:
        moment, *files = [line for line in commit.splitlines() if line.strip()]
        if 2 <= len(files) <= 12:
            signal = Signal(kind="file", value=files[0])
            yield datetime.fromisoformat(moment), [signal], [f"about {name}" for name in files[1:]]


if __name__ == "__main__":
    main()
