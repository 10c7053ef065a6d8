"""Workflows from tool calls that worked: the steps that were the same, and what differed.

A run is the goal in the user's words and the calls that succeeded, in order.
Runs of the same sort of goal with the same tools become one workflow: an
argument that was the same each time stays, one that differed is a placeholder.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from types import MappingProxyType
from typing import Any

from agentmem.core.charsets import sound
from agentmem.core.checks import require_text
from agentmem.core.cleaning import clean_line
from agentmem.core.living.gathering import words_of
from agentmem.core.living.records import Workflow
from agentmem.core.values import dataclass
from agentmem.errors import InvalidInput

LEAST_CALLS = 2
LEAST_RUNS = 2
MOST_STEPS = 20
KEPT_RUNS = 60
"""So many runs that are no workflow yet are remembered, the newest."""
SAME_GOAL = 0.5
SAME_STEPS = 0.6
VALUE_CHARACTERS = 80
TRIGGER_WORDS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A tool call that worked: its name and its arguments in short, as text by name."""

    tool: str
    arguments: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def __post_init__(self) -> None:
        require_text(self.tool, "tool")
        for name, value in self.arguments.items():
            require_text(name, "arguments")
            require_text(value, "arguments")


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What was wanted, and the calls that succeeded, in order.

    `words` are the telling words of the goal. A run that is kept for later is
    `hidden`: words and values are digests, and the goal is not there.
    """

    words: frozenset[str]
    calls: tuple[Call, ...]
    goal: str = ""

    def __post_init__(self) -> None:
        require_text(self.goal, "goal")
        for word in self.words:
            require_text(word, "words")


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """A workflow, and how many runs it was made of."""

    workflow: Workflow
    runs: int


Digest = Callable[[str], str]
"""Gives the same digest for the same text, and tells nothing else of it."""


def read_call(tool: str, arguments: Mapping[str, Any]) -> Call:
    """A call as it is remembered: values on one line, long ones cut."""
    return Call(
        tool=clean_line(sound(str(tool)), limit_characters=100),
        arguments={
            clean_line(sound(str(name)), limit_characters=60): _short(value)
            for name, value in list(arguments.items())[:MOST_STEPS]
        },
    )


def read_run(goal: str, calls: Iterable[Call]) -> Run | None:
    """The run of a turn, a call repeated at once counted once; `None` when too few worked."""
    kept: list[Call] = []
    for call in calls:
        if not kept or kept[-1] != call:
            kept.append(call)
    words = words_of(goal)
    if len(kept) < LEAST_CALLS or not words:
        return None
    short = clean_line(sound(goal), limit_characters=300)
    return Run(goal=short, words=frozenset(words), calls=tuple(kept[:MOST_STEPS]))


def hide(run: Run, digest: Digest) -> Run:
    """A run as it is kept: the tools by name, everything else as digests."""
    return Run(
        words=frozenset(map(digest, run.words)),
        calls=tuple(
            Call(tool=c.tool, arguments={n: digest(v) for n, v in c.arguments.items()})
            for c in run.calls
        ),
    )


def alike(one: Run, other: Run) -> bool:
    """Whether two hidden runs are of the same sort: goals that share words, the same tools."""
    if not one.words or not other.words:
        return False
    shared = len(one.words & other.words) / min(len(one.words), len(other.words))
    first, second = _tools(one), _tools(other)
    steps = 2 * len(common(first, second)) / (len(first) + len(second))
    return shared >= SAME_GOAL and steps >= SAME_STEPS


def generalise(run: Run, others: Sequence[Run], *, digest: Digest) -> Workflow:
    """One workflow of a run and hidden ones that are like it.

    Its steps are the calls every run has, in their order; its trigger the
    words all goals share. What differed is a placeholder; `details` tell what
    it stood for this time.
    """
    if len(others) + 1 < LEAST_RUNS:
        raise InvalidInput("others", len(others), "are too few", remedy="One or more are needed.")
    hidden = hide(run, digest)
    tools = _tools(run)
    for other in others:
        tools = common(tools, _tools(other))
    aligned = [_align(one, tools) for one in (hidden, *others)]
    shown = _align(run, tools)
    names: dict[tuple[str, ...], str] = {}
    details: dict[str, str] = {}
    steps = []
    for at, tool in enumerate(tools):
        given = [calls[at].arguments for calls in aligned]
        written = []
        for name, value in shown[at].arguments.items():
            values = tuple(arguments.get(name, "") for arguments in given)
            if len(set(values)) == 1:
                written.append(f"{name}={value}")
                continue
            if values not in names:
                names[values] = _placeholder(name, names.values())
                details[names[values]] = f"such as {value}"
            written.append(f"{name}={names[values]}")
        steps.append(f"{tool}({', '.join(written)})")
    details["runs"] = str(len(others) + 1)
    shared = hidden.words.intersection(*(other.words for other in others))
    return Workflow(trigger=_trigger(run, shared, digest), steps=tuple(steps), details=details)


def learn(
    run: Run, before: Sequence[Run], *, digest: Digest
) -> tuple[Learned | None, tuple[Run, ...]]:
    """What a new run teaches, and the hidden runs to keep from now on.

    When it is like others, the workflow of them all; the runs stay, so that the
    next one makes it more general.
    """
    hidden = hide(run, digest)
    like = [other for other in before if alike(hidden, other)]
    kept = (*before, hidden)[-KEPT_RUNS:]
    if len(like) + 1 < LEAST_RUNS:
        return None, kept
    made = generalise(run, like, digest=digest)
    if len(made.steps) < LEAST_CALLS:
        return None, kept
    return Learned(workflow=made, runs=len(like) + 1), kept


def same_workflow(one: Workflow, other: Workflow) -> bool:
    """Whether one takes the other's place: the same tools for the same sort of goal."""
    ours, theirs = words_of(one.trigger), words_of(other.trigger)
    shared = len(ours & theirs) / max(1, min(len(ours), len(theirs)))
    first = [step.partition("(")[0] for step in one.steps]
    second = [step.partition("(")[0] for step in other.steps]
    steps = 2 * len(common(first, second)) / max(1, len(first) + len(second))
    return shared >= SAME_GOAL and steps >= SAME_STEPS


def run_to_json(run: Run) -> dict[str, Any]:
    """A hidden run as JSON values."""
    return {"words": sorted(run.words), "calls": [[c.tool, dict(c.arguments)] for c in run.calls]}


def run_from_json(data: Any) -> Run | None:
    """What `run_to_json` gave; anything else is none."""
    try:
        return Run(
            words=frozenset(data["words"]),
            calls=tuple(Call(tool=tool, arguments=dict(given)) for tool, given in data["calls"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


def common(first: Sequence[str], second: Sequence[str]) -> list[str]:
    """The longest sequence both have, in order."""
    lengths = [[0] * (len(second) + 1) for _ in range(len(first) + 1)]
    for i in range(len(first) - 1, -1, -1):
        for j in range(len(second) - 1, -1, -1):
            lengths[i][j] = (
                lengths[i + 1][j + 1] + 1
                if first[i] == second[j]
                else max(lengths[i + 1][j], lengths[i][j + 1])
            )
    found: list[str] = []
    i = j = 0
    while i < len(first) and j < len(second):
        if first[i] == second[j]:
            found.append(first[i])
            i, j = i + 1, j + 1
        elif lengths[i + 1][j] >= lengths[i][j + 1]:
            i += 1
        else:
            j += 1
    return found


def _tools(run: Run) -> list[str]:
    return [call.tool for call in run.calls]


def _align(run: Run, tools: Sequence[str]) -> list[Call]:
    """The calls of a run that are the steps `tools`, the earliest that fit."""
    calls = iter(run.calls)
    return [next(call for call in calls if call.tool == tool) for tool in tools]


def _trigger(run: Run, shared: frozenset[str], digest: Digest) -> str:
    """The words of a goal that all goals share, in its order."""
    words = [
        word for word in run.goal.split() if any(digest(one) in shared for one in words_of(word))
    ]
    return " ".join(words[:TRIGGER_WORDS]).strip(".,;:!?") or run.goal


def _placeholder(name: str, taken: Iterable[str]) -> str:
    known = set(taken)
    plain = "".join(c if c.isalnum() else "_" for c in name).strip("_").lower() or "value"
    number = 1
    while (wanted := f"<{plain}>" if number == 1 else f"<{plain}_{number}>") in known:
        number += 1
    return wanted


def _short(value: Any) -> str:
    try:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        text = type(value).__name__
    return clean_line(sound(text), limit_characters=VALUE_CHARACTERS)
