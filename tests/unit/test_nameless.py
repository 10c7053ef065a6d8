"""A caller who names no user: warned of once, refused where strictness is asked for."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

import agentmem
from agentmem.agent.adapters.replies import named_user
from agentmem.agent.loop import run_agent_loop_sync
from agentmem.base.config import LoopConfig
from agentmem.base.errors import NamelessCaller
from agentmem.testing import ScriptedModel

ASKED = [{"role": "user", "content": "I live in Piran."}]


def opened(path: Path, **settings: Any) -> agentmem.MemoryManager:
    return agentmem.open(path / "memory.db", embedder=None, **settings)


def test_a_nameless_turn_is_warned_of_once_and_a_named_one_never(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def said() -> list[logging.LogRecord]:
        return [one for one in caplog.records if "names no user" in one.getMessage()]

    with opened(tmp_path) as memory:
        ask = memory.wrap(ScriptedModel("Nice."))
        ask(messages=ASKED, user="ana")
        memory.turn(ASKED, user_id="ana")
        assert not said()
        for _ in range(2):
            ask(messages=ASKED)
            memory.turn(ASKED)
    assert [one.levelname for one in said()] == ["WARNING"]
    assert "safety_identifier" in said()[0].getMessage()


@pytest.mark.parametrize("strict", ["memory", "config"])
def test_strictness_refuses_a_nameless_turn_before_the_model_is_asked(
    tmp_path: Path, strict: str
) -> None:
    config = LoopConfig(strict_scope=strict == "config")
    with opened(tmp_path, strict_scope=strict == "memory") as memory:
        model = ScriptedModel("Nice.")
        ask = memory.wrap(model, config=config)
        with pytest.raises(NamelessCaller, match="user_id"):
            ask(messages=ASKED)
        with pytest.raises(NamelessCaller):
            memory.turn(ASKED, config=config)
        with pytest.raises(NamelessCaller):
            run_agent_loop_sync("Hello", memory=memory, model=model, config=config)
        assert not model.requests
        ask(messages=ASKED, user="ana")
        ask(messages=ASKED, memory_off=True)
        assert len(model.requests) == 2


@pytest.mark.parametrize(
    "options",
    [
        {"user": "ana"},
        {"safety_identifier": "ana"},
        {"metadata": {"user_id": "ana"}, "user": "somebody else"},
        {"safety_identifier": "ana", "user": "somebody else"},
        {"extra_body": {"safety_identifier": "ana"}},
        {"extra_body": {"metadata": {"user_id": "ana"}}},
    ],
)
def test_the_user_of_a_request_is_read_wherever_providers_take_one(options: dict[str, Any]) -> None:
    assert named_user(options) == "ana"


@pytest.mark.parametrize(
    "options", [{}, {"user": ""}, {"metadata": {"user_id": 7}}, {"extra_body": "user=ana"}]
)
def test_what_names_nobody_names_nobody(options: dict[str, Any]) -> None:
    assert named_user(options) is None
