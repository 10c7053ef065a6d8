"""Worked examples of who may see what."""

from __future__ import annotations

import pytest

from agentmem.base.types import Memory, Scope, Visibility, visible
from agentmem.testing import ManualClock

ALICE = Scope(user_id="alice")


def memory(visibility: Visibility = "private", **scope: str) -> Memory:
    now = ManualClock().now()
    return Memory(id="1", text="x", created_at=now, visibility=visibility, scope=Scope(**scope))


@pytest.mark.parametrize(
    ("kept", "reader", "seen"),
    [
        (memory(user_id="alice"), ALICE, True),
        (memory(user_id="alice"), Scope(user_id="Alice"), False),
        (memory(user_id="alice"), Scope(), False),
        (memory(), Scope(), True),
        (memory(), ALICE, False),
        (memory(user_id="alice", run_id="1"), ALICE, True),
        (memory(user_id="alice", run_id="1"), Scope(user_id="alice", run_id="2"), False),
        (memory(user_id="alice"), Scope(user_id="alice", run_id="2"), True),
        (memory("project", user_id="bob", project_id="p"), ALICE, False),
        (memory("project", user_id="bob", project_id="p"), Scope(project_id="p"), True),
        (
            memory("project", project_id="p", agent_id="a"),
            Scope(project_id="p", agent_id="b"),
            False,
        ),
        (memory("system", user_id="bob", run_id="1"), Scope(user_id="alice", run_id="2"), True),
    ],
)
def test_who_sees_what(kept: Memory, reader: Scope, seen: bool) -> None:
    assert visible(kept, reader) is seen
