"""What the server promises whoever asks."""

from __future__ import annotations

import contextlib

from hypothesis import given
from hypothesis import strategies as st

from agentmem.base.errors import NotPermitted
from agentmem.base.types import Scope, may_see
from agentmem.server.tokens import Grant

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
