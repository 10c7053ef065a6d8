"""The loop against a strict server on this machine, through litellm, with every rule on roles."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import agentmem
from agentmem.testing import HashEmbedder
from tests.servers.chat import Calls, ChatServer
from tests.servers.schemas import Roles

pytestmark = pytest.mark.filterwarnings(
    "ignore::UserWarning", "ignore::DeprecationWarning", "ignore::ResourceWarning"
)

FACT = "Deploys go out on Thursdays at 10:00."


def look(lines: int) -> str:
    """Read the log.

    Args:
        lines: How many.
    """
    return "\n".join(f"{n}: all is well" for n in range(lines))


@pytest.mark.parametrize("roles", ["openai", "anthropic", "gemini"])
@pytest.mark.parametrize("streaming", [False, True])
def test_a_whole_turn_with_tools_is_accepted_and_counted(
    tmp_path: Path, roles: Roles, streaming: bool
) -> None:
    replies = (Calls(calls=(("c1", "look", '{"lines": 300}'),)), "All is well [1].")
    told: list[str] = []
    with (
        agentmem.open(tmp_path / "m.db", embedder=HashEmbedder()) as memory,
        ChatServer(*replies, roles=roles) as server,
    ):
        memory.add(FACT, user_id="sam")
        options: dict[str, Any] = {"on_chunk": told.append} if streaming else {}
        result = agentmem.run_agent_loop_sync(
            "When do deploys go out, and what does the log say?",
            memory=memory,
            model="openai/gpt-4o",
            model_options={"api_base": server.url, "api_key": "not a key"},
            tools=[look],
            messages=[
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "Hello."},
                {"role": "assistant", "content": "Hello!"},
            ],
            user_id="sam",
            **options,
        )
        assert server.refusals == []
        assert result.answer == "All is well [1]."
        assert "".join(told) == ("All is well [1]." if streaming else "")
        assert result.degradations == ()
        assert result.usage["total_tokens"] > 0
        first, second = server.bodies
        assert first["messages"][:3] == list(result.messages[:3])
        assert FACT in first["messages"][4]["content"]
        assert second["messages"][: len(first["messages"])] == first["messages"]
        assert len(second["messages"][-1]["content"]) < 600
        assert memory.flush(20)
        snapshot = memory.runtime.trace.get(result.snapshot_id, scope=agentmem.Scope(user_id="sam"))
        assert snapshot.outcome is not None
        assert snapshot.outcome.total_tokens == result.usage["total_tokens"]


def test_a_server_that_refuses_is_the_callers_error_and_the_turn_is_kept(tmp_path: Path) -> None:
    with (
        agentmem.open(tmp_path / "m.db", embedder=HashEmbedder()) as memory,
        ChatServer("never", roles="openai") as server,
    ):
        with pytest.raises(Exception, match=r"(?i)bad ?request|400"):
            agentmem.run_agent_loop_sync(
                "Our cat is called Deploy.",
                memory=memory,
                model="openai/gpt-4o",
                model_options={
                    "api_base": server.url,
                    "api_key": "not a key",
                    "extra_body": {"no_such_option": 1},
                },
                user_id="sam",
            )
        memory.flush(20)
        kept = [m.text for m in memory.get_all(user_id="sam") if m.kind == "message"]
        assert kept == ["Our cat is called Deploy."]
