"""What hooks and configurations of other programs are promised."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

import agentmem
from agentmem.base.types import Scope
from agentmem.server.hook import MOST_CHARACTERS, MOST_TOKENS, Hooks
from agentmem.server.programs import drop_json, read_json, set_json

NAMES = st.text(max_size=6) | st.sampled_from(["mcpServers", "agentmem", "hooks", "a", "//", "]"])
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8) | st.sampled_from(["//", "/*", '"', "},", "\\"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=10,
)  # fmt: skip
GAPS = st.sampled_from(["", " ", "\n", "  ", "\t", " // why\n", "/* } */", "\r\n"])


@st.composite
def written(draw: st.DrawFn, value: Any) -> str:
    """A value as JSON with comments, spread in any way."""

    def gap() -> str:
        return str(draw(GAPS))

    def comma(last: bool) -> str:
        return "," if not last or draw(st.booleans()) else ""

    def write(one: Any) -> str:
        if isinstance(one, dict) and one:
            inside = "".join(
                f"{gap()}{json.dumps(name)}{gap()}:{gap()}{write(inner)}{gap()}{comma(at == len(one))}"
                for at, (name, inner) in enumerate(one.items(), 1)
            )
            return f"{{{inside}{gap()}}}"
        if isinstance(one, list) and one:
            inside = "".join(
                f"{gap()}{write(inner)}{gap()}{comma(at == len(one))}"
                for at, inner in enumerate(one, 1)
            )
            return f"[{inside}{gap()}]"
        return json.dumps(one, ensure_ascii=draw(st.booleans()))

    return gap() + write(value) + gap()


@given(
    st.dictionaries(NAMES, PLAIN, max_size=4),
    st.dictionaries(NAMES.filter(lambda name: name != "agentmem"), PLAIN, max_size=3) | st.none(),
    st.data(),
)
def test_a_configuration_keeps_all_that_is_not_ours(
    others: dict[str, Any], servers: dict[str, Any] | None, data: st.DataObject
) -> None:
    """M3 Configurations. Connecting a program adds our entry to its file and changes nothing else in it; undoing takes out just that, comments and order included."""
    others.pop("mcpServers", None)
    if servers:
        others["mcpServers"] = servers
    text = data.draw(written(others))
    entry = {"command": "agentmem", "args": ["mcp"]}
    new = set_json(text, ("mcpServers", "agentmem"), entry)
    read = read_json(new)
    assert read["mcpServers"].pop("agentmem") == entry
    if not servers:
        assert read.pop("mcpServers") == {}
    assert read == read_json(text) == others
    back = drop_json(new, ("mcpServers", "agentmem"), lambda _: True)
    assert read_json(back) == others
    if others:
        assert "".join(back.split()) == "".join(text.split())


EVENTS = st.fixed_dictionaries(
    {
        "hook_event_name": st.sampled_from(
            ["SessionStart", "UserPromptSubmit", "PostToolUse", "Stop", "SessionEnd", "sessionStart",
             "beforeSubmitPrompt", "postToolUse", "afterAgentResponse", "stop", "PreToolUse"]
        ),
        "session_id": st.sampled_from(["a", "b"]),
    },
    optional={
        name: PLAIN | st.sampled_from(["boat", "Where is the boat?", "I always moor at nine."])
        for name in ("prompt", "tool_name", "tool_input", "tool_response", "text",
                     "last_assistant_message", "error")
    },
)  # fmt: skip


@given(
    st.lists(st.tuples(EVENTS | PLAIN, st.sampled_from(["ana", "bob"])), max_size=6),
    st.integers(-5, 3_000),
)
def test_hooks_never_fail_and_stay_within_their_limit(
    events: list[tuple[Any, str]], limit_tokens: int
) -> None:
    """M2 Hooks. Whatever events come in whatever order, none raises, what is told has at most 2,500 tokens and what it may have, and nobody is told another's memory."""
    with agentmem.open(":memory:", embedder=None, judge_new=False) as memory:
        for user in ("ana", "bob"):
            memory.add(f"The boat of {user} is {user}coloured.", user_id=user)
        hooks = Hooks(memory)
        count = memory.runtime.tokenizer("")[0]
        for event, user in events:
            said = hooks.answer(json.dumps(event), Scope(user_id=user), limit_tokens=limit_tokens)
            if said:
                read = json.loads(said)
                told = (
                    read.get("additional_context")
                    or read["hookSpecificOutput"]["additionalContext"]
                )
                assert count(told) <= min(limit_tokens, MOST_TOKENS)
                assert len(told) <= MOST_CHARACTERS
                assert {"ana": "bobcoloured", "bob": "anacoloured"}[user] not in told
        hooks.close()
