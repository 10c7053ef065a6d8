"""The server: who may ask, what is answered, and how errors are said."""

from __future__ import annotations

import json
import runpy
import signal
import socket
import warnings
from dataclasses import asdict
from typing import Any

import pytest
import uvicorn

import agentmem
from agentmem.base import errors
from agentmem.base.errors import AgentMemError, InvalidScope, RecordNotFound
from agentmem.base.types import Scope
from agentmem.server.app import VARIABLE, Served, listen
from agentmem.server.http import STATUS, status_of
from agentmem.server.tokens import Tokens

TREE = {
    value
    for value in vars(errors).values()
    if isinstance(value, type) and issubclass(value, AgentMemError)
}


def test_every_error_has_a_status_and_every_status_an_error() -> None:
    assert set(STATUS) == TREE
    assert all(400 <= status <= 599 for status in STATUS.values())


def test_an_error_of_a_kind_nobody_listed_has_the_status_of_the_one_above() -> None:
    class Odd(RecordNotFound):
        pass

    assert status_of(Odd("x")) == 404


def test_a_token_is_kept_as_a_digest_and_opens_until_it_is_revoked() -> None:
    with agentmem.open(":memory:", embedder=None) as memory:
        tokens = Tokens(memory.store.settings)
        token, grant = tokens.make(scope=Scope(user_id="ann"), name="laptop")
        assert tokens.find(token) == grant
        assert tokens.list() == (grant,)
        kept = memory.store.settings.get("server_tokens") or ""
        assert token.rsplit("_", 1)[1] not in kept
        for wrong in ("", "x", token[:-1], token + "x", f"amem_{grant.id}_", "amem__\ud800"):
            assert tokens.find(wrong) is None
        assert tokens.revoke(grant.id) == grant
        assert tokens.find(token) is None
        with pytest.raises(RecordNotFound):
            tokens.revoke(grant.id)


def test_a_token_for_nobody_is_not_made() -> None:
    with agentmem.open(":memory:", embedder=None) as memory, pytest.raises(InvalidScope):
        Tokens(memory.store.settings).make()


def test_the_socket_says_it_is_tcp_so_that_small_answers_go_out_at_once() -> None:
    with listen("127.0.0.1", 0) as listening:
        assert listening.proto == socket.IPPROTO_TCP


def test_workers_answer_on_a_socket_that_sends_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """asyncio turns the waiting for acknowledgements off only where a socket names its protocol."""
    bound: list[socket.socket] = []

    def run(app: str, *, host: str, port: int, **_: Any) -> None:
        bound.append(uvicorn.Config(app, host=host, port=port).bind_socket())

    monkeypatch.setattr(uvicorn, "run", run)
    monkeypatch.setattr(uvicorn.Config, "bind_socket", uvicorn.Config.bind_socket)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    said = Served(store="memory.db", host="127.0.0.1", port=0, workers=2)
    monkeypatch.setenv(VARIABLE, json.dumps(asdict(said)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # it was imported before it is run
        runpy.run_module("agentmem.server.app", run_name="__main__")
    with bound[0] as listening:
        assert listening.proto == socket.IPPROTO_TCP
