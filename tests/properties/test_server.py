"""What the server promises whoever asks."""

from __future__ import annotations

import contextlib
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agentmem.agent.adapters.replies import view_chat
from agentmem.agent.adapters.turn import TurnKeeper
from agentmem.base.errors import NotPermitted
from agentmem.base.types import Scope, may_see
from agentmem.server.proxy import locate
from agentmem.server.tokens import Grant
from tests.noted_memory import NotedMemory
from tests.properties.conversations import conversations

NAMES = st.none() | st.sampled_from(["a", "A", "b", "é", "é"])
SCOPES = st.builds(Scope, user_id=NAMES, project_id=NAMES, agent_id=NAMES, run_id=NAMES)
VISIBILITIES = st.sampled_from(["private", "project", "system"])


@given(SCOPES, SCOPES, st.lists(st.tuples(VISIBILITIES, SCOPES), min_size=1, max_size=30))
def test_a_request_only_narrows_its_token(
    fixed: Scope, asked: Scope, kept: list[tuple[str, Scope]]
) -> None:
    """P46 Tokens bound requests. Whatever scope a request names, a token shows nothing that its own scope does not show, and writes only as who it was made for."""
    grant = Grant(id="1", scope=fixed)
    with contextlib.suppress(NotPermitted):
        got = grant.narrowed(asked)
        for visibility, owner in kept:
            assert not may_see(got, visibility, owner) or may_see(fixed, visibility, owner)
        for name in Scope.__slots__:
            own = getattr(fixed, name)
            assert own is None or getattr(got, name) == own
        assert (got.user_id, got.project_id) == (fixed.user_id, fixed.project_id)
        assert grant.narrowed(got) == got
    assert grant.narrowed(Scope()) == fixed


OTHER = st.dictionaries(
    st.text(max_size=8).filter(lambda name: name != "messages"),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
        max_leaves=6,
    ),
    max_size=4,
)
GAPS = st.sampled_from(["", " ", "\n\t ", "\r\n"])


@st.composite
def bodies(draw: st.DrawFn) -> tuple[str, list[dict[str, Any]]]:
    """A request as some client writes it, and its messages."""
    messages = draw(conversations())
    ascii_only = draw(st.booleans())
    gap = draw(GAPS)
    between = f"{draw(GAPS)},{draw(GAPS)}"

    def write(value: Any) -> str:
        return json.dumps(value, ensure_ascii=ascii_only)

    fields = [(name, write(value)) for name, value in draw(OTHER).items()]
    at = draw(st.integers(0, len(fields)))
    fields.insert(at, ("messages", f"[{gap}{between.join(map(write, messages))}{gap}]"))
    inside = between.join(f"{write(name)}{gap}:{gap}{value}" for name, value in fields)
    return f"{gap}{{{gap}{inside}{gap}}}{gap}", messages


@given(bodies())
def test_what_goes_through_the_proxy_is_what_was_sent(
    body: tuple[str, list[dict[str, Any]]],
) -> None:
    """P47 Unchanged on the wire. The provider behind the proxy receives every character that the client sent, in its order, with at most the one reference pair put in."""
    text, messages = body
    found = locate(text, "messages")
    assert found is not None
    assert found.items == messages
    assert found.spliced(found.items) == text
    opened = TurnKeeper(NotedMemory()).open(found.items, view_chat, scope="ann", named={})
    if opened is None:
        return
    sent = found.spliced(opened.sent)
    assert json.loads(sent)["messages"] == opened.sent
    more = len(sent) - len(text)
    ours = [one for one in opened.sent if not any(one is mine for mine in found.items)]
    kept = [one for one in opened.sent if any(one is mine for mine in found.items)]
    if len(kept) == len(messages):
        at = next((n for n, (a, b) in enumerate(zip(sent, text, strict=False)) if a != b), 0)
        places = range(max(0, at - more), at + 1)
        assert any(sent[:n] == text[:n] and sent[n + more :] == text[n:] for n in places)
        assert len(ours) <= 2
