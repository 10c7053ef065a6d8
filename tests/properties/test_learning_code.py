"""Patterns and workflows say only what every place or run of them says."""

from __future__ import annotations

import ast

from hypothesis import assume, given
from hypothesis import strategies as st

from agentmem.living.workflows import Run, common, hide, learn, read_call, read_run
from agentmem.sources.patterns import find_patterns, module_graph
from tests.properties.strategies import texts

names = st.sampled_from(("alpha", "beta", "gamma", "delta", "epsilon", "zeta"))
statements = st.sampled_from(
    (
        "{a} = {b}({c!r})",
        "if {a} is None:\n        raise NotFound({c!r}, {b}, remedy={c!r})",
        "for {a} in {b}:\n        {b}.append({a})",
        "{b}[{c!r}] = {a} + 1",
        "with {a}() as {b}:\n        {b}.run(name={c!r})",
    )
)


@st.composite
def modules(draw: st.DrawFn) -> dict[str, ast.Module]:
    """Modules of a few functions, some of the same shape under other names."""
    shapes = draw(st.lists(st.lists(statements, min_size=2, max_size=4), min_size=1, max_size=3))
    found: dict[str, ast.Module] = {}
    for number in range(draw(st.integers(1, 5))):
        lines = [f"import {draw(names)}"]
        for _ in range(draw(st.integers(0, 4))):
            shape = draw(st.sampled_from(shapes))
            body = [
                one.format(a=draw(names), b=draw(names), c=draw(texts(max_size=5))) for one in shape
            ]
            lines.append(f"def {draw(names)}_{draw(st.integers(0, 9))}(x, y):")
            lines += [f"    {one}" for one in body]
        found[f"src/{draw(names)}{number or ''}.py"] = ast.parse("\n".join(lines))
    return found


@given(found=modules(), least=st.integers(2, 4))
def test_a_pattern_recurs(found: dict[str, ast.Module], least: int) -> None:
    """H5 Recurring patterns. A pattern is seen as often as it says, in files that exist, whatever their order, and a function's template is code; relations between files hold both ways."""
    patterns = find_patterns(found, least=least)
    assert patterns == find_patterns(dict(reversed(list(found.items()))), least=least)
    for one in patterns:
        assert one.times >= least
        assert set(one.files) <= set(found)
        if one.sort == "function":
            ast.parse(one.pattern.template)
    graph = module_graph(found)
    for path, near in graph.items():
        assert path not in near
        assert all(path in graph[other] for other in near)


tools = st.sampled_from(("read", "write", "test", "tag"))
calls = st.builds(
    read_call, tools, st.dictionaries(st.sampled_from("abc"), texts(max_size=6), max_size=3)
)
goals = st.lists(
    st.sampled_from(("release", "version", "app", "paint", "fence", "1.2", "quokka")),
    min_size=1,
    max_size=5,
).map(" ".join)


def digest(text: str) -> str:
    return f"digest{hash(text)}"


@given(given_=st.lists(st.tuples(goals, st.lists(calls, max_size=6)), max_size=8))
def test_a_workflow_is_what_its_runs_share(given_: list[tuple[str, list[object]]]) -> None:
    """H6 Shared steps. Each step of a learned workflow is a call of every run it was made of, in order; what is kept between runs holds no word of a goal and no argument."""
    runs = [run for goal, made in given_ if (run := read_run(goal, made)) is not None]  # type: ignore[arg-type]  # calls
    assume(runs)
    kept: tuple[Run, ...] = ()
    for run in runs:
        before = kept
        learned, kept = learn(run, before, digest=digest)
        assert kept[-1] == hide(run, digest)
        assert kept[-1].goal == ""
        for hidden in kept:
            assert all(word.startswith("digest") for word in hidden.words)
            assert all(v.startswith("digest") for c in hidden.calls for v in c.arguments.values())
        if learned is None:
            continue
        steps = [step.partition("(")[0] for step in learned.steps]
        assert len(steps) >= 2
        assert 2 <= int(learned.details["runs"]) <= len(before) + 1
        assert common(steps, [call.tool for call in run.calls]) == steps
        told = {word.strip(".,;:!?") for word in learned.trigger.split()}
        assert told <= {word.strip(".,;:!?") for word in run.goal.split()}
