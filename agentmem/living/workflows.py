"""Workflows from tool calls that worked: the steps that were the same, and what differed.

A run is the goal in the user's words and the calls that succeeded, in order.
Runs of the same sort of goal with the same tools become one workflow: an
argument that was the same each time stays, one that differed is a placeholder.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from contextlib import suppress
from functools import reduce
from itertools import chain, count
from typing import TYPE_CHECKING, Any, NamedTuple

from agentmem.base.errors import InvalidInput, RecordNotFound
from agentmem.base.filters import Compare, Selection
from agentmem.base.types import EMPTY, LEARN_WORKFLOW, Scope, content_hash
from agentmem.living.facts import Workflow, from_memory, to_memory_fields
from agentmem.living.predict import Predictions, pack, unpack
from agentmem.living.tiers import words_of
from agentmem.prompt.strip import strip
from agentmem.stores.values import DERIVED, Link
from agentmem.text.clean import clean_line
from agentmem.text.decode import sound

if TYPE_CHECKING:
    from agentmem.search.parts import Calls


LEAST_CALLS = 2
LEAST_RUNS = 2
MOST_STEPS = 20
KEPT_RUNS = 60
"""So many runs that are no workflow yet are remembered, the newest."""
SAME_GOAL = 0.5
SAME_STEPS = 0.6
VALUE_CHARACTERS = 80
TRIGGER_WORDS = 12


class Call(NamedTuple):
    """A tool call that worked: its name and its arguments in short, as text by name."""

    tool: str
    arguments: Mapping[str, str] = EMPTY


class Run(NamedTuple):
    """What was wanted, and the calls that succeeded, in order.

    `words` are the telling words of the goal. A run that is kept for later is
    `hidden`: words and values are digests, and the goal is not there.
    """

    words: frozenset[str]
    calls: tuple[Call, ...]
    goal: str = ""

    @property
    def tools(self) -> list[str]:
        """What was called, in order."""
        return [call.tool for call in self.calls]


Digest = Callable[[str], str]
"""Gives the same digest for the same text, and tells nothing else of it."""


def read_call(tool: str, arguments: Mapping[str, Any]) -> Call:
    """A call as it is remembered: values on one line, long ones cut."""
    given = list(arguments.items())[:MOST_STEPS]
    return Call(_line(tool, 100), {_line(name, 60): _short(value) for name, value in given})


def read_run(goal: str, calls: Iterable[Call]) -> Run | None:
    """The run of a turn, a call repeated at once counted once; `None` when too few worked."""
    kept: list[Call] = []
    for call in calls:
        if not kept or kept[-1] != call:
            kept.append(call)
    words = words_of(goal)
    if len(kept) < LEAST_CALLS or not words:
        return None
    return Run(goal=_line(goal, 300), words=frozenset(words), calls=tuple(kept[:MOST_STEPS]))


def hide(run: Run, digest: Digest) -> Run:
    """A run as it is kept: the tools by name, everything else as digests."""
    calls = [Call(c.tool, {n: digest(v) for n, v in c.arguments.items()}) for c in run.calls]
    return Run(words=frozenset(map(digest, run.words)), calls=tuple(calls))


def learn(
    run: Run, before: Sequence[Run], *, digest: Digest
) -> tuple[Workflow | None, tuple[Run, ...]]:
    """What a new run teaches, and the hidden runs to keep from now on.

    When it is like others, the workflow of them all; the runs stay, so that the
    next one makes it more general.
    """
    hidden = hide(run, digest)
    like = [one for one in before if _same_sort(hidden.words, hidden.tools, one.words, one.tools)]
    kept = (*before, hidden)[-KEPT_RUNS:]
    if len(like) + 1 < LEAST_RUNS:
        return None, kept
    made = _generalise(run, [hidden, *like], digest)
    return (None if len(made.steps) < LEAST_CALLS else made), kept


def _generalise(run: Run, hidden: Sequence[Run], digest: Digest) -> Workflow:
    """One workflow of a run, which is the first of the `hidden`, and others like it.

    Its steps are the calls every run has, in their order; its trigger the
    words all goals share. What differed is a placeholder; `details` tell what
    it stood for this time.
    """
    tools = reduce(common, (one.tools for one in hidden))
    aligned = [_align(one, tools) for one in hidden]
    names: dict[tuple[str, ...], str] = {}
    details: dict[str, str] = {}
    steps = []
    for at, call in enumerate(_align(run, tools)):
        written = []
        for name, value in call.arguments.items():
            values = tuple(calls[at].arguments.get(name, "") for calls in aligned)
            if len(set(values)) > 1 and values not in names:
                names[values] = _placeholder(name, names.values())
                details[names[values]] = f"such as {value}"
            written.append(f"{name}={names.get(values, value)}")
        steps.append(f"{call.tool}({', '.join(written)})")
    details["runs"] = str(len(hidden))
    shared = frozenset.intersection(*(one.words for one in hidden))
    words = [
        word for word in run.goal.split() if any(digest(one) in shared for one in words_of(word))
    ]
    trigger = " ".join(words[:TRIGGER_WORDS]).strip(".,;:!?") or run.goal
    return Workflow(trigger=trigger, steps=tuple(steps), details=details)


def same_workflow(one: Workflow, other: Workflow) -> bool:
    """Whether one takes the other's place: the same tools for the same sort of goal."""
    tools = ([step.partition("(")[0] for step in flow.steps] for flow in (one, other))
    return _same_sort(words_of(one.trigger), next(tools), words_of(other.trigger), next(tools))


def _same_sort(
    words: Set[str], tools: Sequence[str], other_words: Set[str], other_tools: Sequence[str]
) -> bool:
    shared = len(words & other_words) / max(1, min(len(words), len(other_words)))
    steps = 2 * len(common(tools, other_tools)) / max(1, len(tools) + len(other_tools))
    return shared >= SAME_GOAL and steps >= SAME_STEPS


def run_to_json(run: Run) -> dict[str, Any]:
    """A hidden run as JSON values."""
    return {"words": sorted(run.words), "calls": [[c.tool, dict(c.arguments)] for c in run.calls]}


def run_from_json(data: Any) -> Run | None:
    """What `run_to_json` gave; anything else is none."""
    try:
        return Run(
            words=frozenset(data["words"]),
            calls=tuple(Call(tool, dict(given)) for tool, given in data["calls"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


def common(first: Sequence[str], second: Sequence[str]) -> list[str]:
    """The longest sequence both have, in order."""
    best: list[list[str]] = [[] for _ in range(len(second) + 1)]
    for one in first:
        row: list[list[str]] = [[]]
        for at, other in enumerate(second):
            row.append([*best[at], one] if one == other else max(best[at + 1], row[at], key=len))
        best = row
    return best[-1]


def _align(run: Run, tools: Sequence[str]) -> list[Call]:
    """The calls of a run that are the steps `tools`, the earliest that fit."""
    calls = iter(run.calls)
    return [next(call for call in calls if call.tool == tool) for tool in tools]


def _placeholder(name: str, taken: Iterable[str]) -> str:
    known = set(taken)
    plain = "".join(c if c.isalnum() else "_" for c in name).strip("_").lower() or "value"
    wanted = chain([f"<{plain}>"], (f"<{plain}_{number}>" for number in count(2)))
    return next(one for one in wanted if one not in known)


def _short(value: Any) -> str:
    try:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        text = type(value).__name__
    return _line(text, VALUE_CHARACTERS)


def _line(value: object, limit_characters: int) -> str:
    return clean_line(sound(str(value)), limit_characters=limit_characters)


# ----------------------------------------------------------------------------
# Learn workflows from turns whose tool calls worked, in the background.


MOST_WORKFLOWS = 200
_SEEN = 20
"""So many runs are known by their id: a job may be done twice."""


class Workflows:
    """What worked before, for each user and project."""

    def __init__(self, memory: Calls, predictions: Predictions) -> None:
        self._memory = memory
        self._predictions = predictions

    def remember(
        self, goal: str, calls: Sequence[Call], scope: Scope, *, results: Sequence[str] = ()
    ) -> bool:
        """Learn from a turn in the background; whether there was anything to learn from.

        `results` are the ids of what the calls gave.
        """
        run = read_run(goal, calls)
        if run is None:
            return False
        payload = {
            "id": self._memory.ids.new(),
            "goal": run.goal,
            "said": content_hash(strip(goal)),
            "results": list(results),
            "calls": run_to_json(run)["calls"],
        }
        return self._memory.runtime.worker.submit(LEARN_WORKFLOW, payload, scope=scope)

    def learn(self, payload: Mapping[str, Any], scope: Scope) -> None:
        """Do what `remember` asked for."""
        calls = [Call(tool, dict(given)) for tool, given in payload["calls"]]
        run = read_run(str(payload["goal"]), calls)
        if run is None:
            return
        while True:
            raw = self._predictions.get_kept("runs", scope)
            kept = _read_kept(raw)
            seen = [str(one) for one in kept.get("seen", ())]
            if payload["id"] in seen:
                return
            before = [run for run in map(run_from_json, kept.get("runs", ())) if run is not None]
            learned, after = learn(run, before, digest=self._predictions.digest)
            if learned is not None:
                self._link(self._keep(learned, scope), payload, scope)
            runs = [run_to_json(one) for one in after]
            value = pack({"runs": runs, "seen": [*seen, payload["id"]][-_SEEN:]})
            if self._predictions.replace_kept("runs", raw, value, scope):
                return  # nobody else learned meanwhile

    def _keep(self, learned: Workflow, scope: Scope) -> str:
        """Remember a workflow, in place of the one it makes more general; gives its id."""
        fields = to_memory_fields(learned)
        whose: dict[str, Any] = {"user_id": scope.user_id, "project_id": scope.project_id}
        metadata = {**fields.metadata, "learned": True}
        for memory in self._memory.get_all(kinds=["workflow"], limit=MOST_WORKFLOWS, **whose):
            record = from_memory(memory)
            if (
                memory.visibility == "private"
                and memory.scope == Scope(**whose)
                and memory.metadata.get("learned") is True
                and isinstance(record, Workflow)
                and same_workflow(record, learned)
            ):
                self._memory.update(memory.id, fields.text, metadata=metadata, **whose)
                return memory.id
        added = self._memory.add(fields.text, kind="workflow", metadata=metadata, **whose)
        return added.ids[0]

    def _link(self, workflow_id: str, payload: Mapping[str, Any], scope: Scope) -> None:
        """Note of which message and results a workflow has its words: it is erased with them."""
        store, now = self._memory.store, self._memory.clock.now()
        where = Compare(field="content_hash", operator="eq", value=str(payload.get("said", "")))
        said = store.scan(Selection(reader=scope, kinds=("message",), where=where))
        for source in (*(one.id for one in said), *payload.get("results", ())):
            link = Link(first_id=workflow_id, second_id=source, relation=DERIVED, created_at=now)
            with suppress(RecordNotFound):  # erased meanwhile
                store.links.put(scope, link)


def _read_kept(raw: str | None) -> dict[str, Any]:
    try:
        return unpack(raw) if raw else {}
    except InvalidInput:
        return {}
