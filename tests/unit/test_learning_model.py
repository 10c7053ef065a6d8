"""A model proposes, the text decides: learning with a model, on both stores."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from agentmem.base.config import LearnConfig, LoopConfig
from agentmem.base.errors import InvalidInput
from agentmem.living.consolidate import read_judgement, read_shorter
from agentmem.living.facts import Fact
from agentmem.living.learn import (
    Grounded,
    GroundTurn,
    Learned,
    Proposal,
    ground,
    read_proposals,
    readable,
)
from agentmem.living.models import Spend
from agentmem.memory.manager import MemoryManager
from agentmem.models.call import refuses_parameter
from agentmem.stores.sqlite.store import SqliteStore
from agentmem.testing import HashEmbedder, ManualClock, ScriptedModel
from tests.servers.chat import ChatServer
from tests.unit.cli_running import Cli

NOW = datetime(2026, 1, 1, tzinfo=UTC)
TEXT = (
    "Our main store sits on Postgres 16 these days, not MySQL. We do not deploy on Fridays. "
    "We moved from Jenkins to Buildkite. We went with gRPC since REST was too chatty. "
    "The importer kept dying; what helped was raising the heap to 4 GB. Should we use Redis? "
    "No, the port is 5433. We stopped using Travis. The quota is 1.5 GB and 15% is free. "
    "My api key is sk-abcdefgh12345678ABCDEFGH."
)


def record(sort: str = "fact", **fields: Any) -> dict[str, Any]:
    empty = {"turn": 1, "evidence": "", "key": "", "reason": "", "fix": "", "ended": False}
    return {"sort": sort, **empty, "confidence": 0.9, **fields}


def reply(*records: Mapping[str, Any]) -> str:
    return json.dumps({"records": list(records)})


STORE = record(
    key="main store",
    value="Postgres 16",
    evidence="Our main store sits on Postgres 16 these days, not MySQL.",
)
GRPC = record("decision", value="went with gRPC", reason="REST was too chatty")
HEAP = record("error", value="The importer kept dying", fix="raising the heap to 4 GB")


@pytest.fixture(params=["memory", "sqlite"])
def memory(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MemoryManager]:
    path = None if request.param == "memory" else tmp_path / "store.db"
    store = SqliteStore(":memory:") if path is None else SqliteStore(path)
    with MemoryManager(
        store, embedder=HashEmbedder(), clock=ManualClock(NOW), path=path
    ) as made:  # fmt: skip
        yield made


def kinds(memory: MemoryManager) -> list[tuple[str, str]]:
    return sorted((m.kind, m.title) for m in memory.get_all(user_id="ann"))


def test_a_model_finds_what_the_rules_miss(memory: MemoryManager) -> None:
    rules = memory.living.learn(TEXT, user_id="ann", dry_run=True)
    assert "main store" not in [one.title for one in rules.added]
    lie = record(key="main store", value="Postgres 17", evidence="It is Postgres 17.")
    model = ScriptedModel(reply(STORE, GRPC, HEAP, lie))
    learned = memory.living.learn(TEXT, model=model, user_id="ann")
    assert (learned.rejected, learned.model_calls) == (1, 1)
    assert learned.model_tokens > 100
    assert any("1 proposals" in note for note in learned.notes)
    found = kinds(memory)
    assert ("fact", "main store") in found
    assert ("episode", "went with gRPC") in found
    assert ("episode", "The importer kept dying") in found
    assert len(learned) == len(rules) + 2  # the decision is found by the rules as well
    again = memory.living.learn(TEXT, model=model, user_id="ann")
    assert (len(again), again.journal_id) == (0, "")
    memory.living.undo(learned.journal_id, user_id="ann")
    assert kinds(memory) == []


def test_a_model_is_asked_for_json_of_a_strict_shape_and_shown_data(memory: MemoryManager) -> None:
    model = ScriptedModel(reply())
    memory.living.learn([{"role": "user", "content": TEXT}], model=model, user_id="ann")
    (request,) = model.requests
    form = request["response_format"]
    assert form["type"] == "json_schema"
    assert form["json_schema"]["strict"] is True
    check_strict(form["json_schema"]["schema"])
    system, user = request["messages"]
    assert "data to read" in system["content"]
    assert json.loads(user["content"])["turns"][0]["turn"] == 1
    assert "sk-abcdefgh" not in user["content"]


def check_strict(schema: Mapping[str, Any]) -> None:
    if schema["type"] == "object":
        assert schema["additionalProperties"] is False
        assert schema["required"] == list(schema["properties"])
        for one in schema["properties"].values():
            check_strict(one)
    if schema["type"] == "array":
        check_strict(schema["items"])


@pytest.mark.parametrize(
    "answer",
    [
        RuntimeError("no network"),
        "I cannot help with that.",
        "{",
        '{"records": 7}',
        reply(record(value="")),
        reply({"sort": "fact"}),
        "",
        "[" * 5_000,
    ],
)
def test_rules_stand_whatever_a_model_does(memory: MemoryManager, answer: Any) -> None:
    rules = memory.living.learn(TEXT, user_id="ann", dry_run=True)
    learned = memory.living.learn(TEXT, model=ScriptedModel(answer), user_id="ann")
    assert [m.text for m in learned.added] == [m.text for m in rules.added]
    assert learned.notes[len(rules.notes) :] != ()


def test_a_model_that_knows_no_shapes_is_asked_again_without(memory: MemoryManager) -> None:
    calls: list[dict[str, Any]] = []

    def old(*, messages: Sequence[Mapping[str, Any]], **more: Any) -> str:
        calls.append(more)
        if "response_format" in more:
            raise TypeError("create() got an unexpected keyword argument 'response_format'")
        return f"Here you are:\n```json\n{reply(STORE)}\n```\nAnything else?"

    long = " ".join([TEXT, *(f"The river has {n} bends near the old town." for n in range(300))])
    learned = memory.living.learn(long, model=old, user_id="ann")
    assert "main store" in [one.title for one in learned.added]
    assert [("response_format" in call) for call in calls] == [True, False, *[False] * 2]
    assert learned.model_calls == len(calls)


def test_an_async_callable_and_one_without_options_will_do(memory: MemoryManager) -> None:
    async def awaited(messages: Sequence[Mapping[str, Any]]) -> str:
        return reply(STORE)

    async def inside_a_loop() -> Learned:
        return memory.living.learn(TEXT, model=awaited, user_id="ann", dry_run=True)

    for learned in (
        memory.living.learn(TEXT, model=awaited, user_id="ann", dry_run=True),
        asyncio.run(inside_a_loop()),
    ):
        assert "main store" in [one.title for one in learned.added]
        assert learned.model_calls == 1


def test_what_is_not_read_for_lack_of_money_is_said(memory: MemoryManager) -> None:
    turns = [
        {"role": "user", "content": f"{TEXT} The river has {n} bends. " * 8} for n in range(12)
    ]
    model = ScriptedModel(reply())
    learned = memory.living.learn(turns, model=model, spend=Spend(calls=2), user_id="ann")
    assert len(model.requests) == learned.model_calls == 2
    assert any("spend limit" in note for note in learned.notes)
    assert any("pieces were left to the rules alone" in note for note in learned.notes)
    assert len(learned) > 0
    none = memory.living.learn(TEXT, model=model, spend=Spend(tokens=0), user_id="ann")
    assert none.model_calls == len(model.requests) - 2 == 0


def test_a_model_that_fails_twice_is_left_alone(memory: MemoryManager) -> None:
    turns = [{"role": "user", "content": f"{TEXT} " * 10} for _ in range(8)]
    model = ScriptedModel(RuntimeError("down"))
    learned = memory.living.learn(turns, model=model, user_id="ann")
    assert learned.model_calls == 2
    assert any("down" in note for note in learned.notes)


def test_secrets_are_neither_sent_nor_learned(memory: MemoryManager) -> None:
    said = "The database password is hunter2!x9. Our api key: sk-abcdefgh12345678ABCDEFGH."
    model = ScriptedModel(
        reply(record(key="database password", value="hunter2!x9", evidence=said[:35]))
    )
    learned = memory.living.learn(said, model=model, user_id="ann")
    assert learned.rejected == 1
    assert "hunter2" not in str(model.requests)
    assert not any("hunter2" in m.text or "sk-abc" in m.text for m in learned.added)
    assert len(readable(said)) == len(said)


@pytest.mark.parametrize(
    ("proposed", "why"),
    [
        (record(key="main store", value="MySQL"), "denied"),
        (record(key="deploy day", value="Fridays"), "denied"),
        (record(key="tool", value="Jenkins"), "denied"),
        (record(key="tool", value="Redis"), "question"),
        (record(key="quota", value="5"), "not in the text"),
        (record(key="quota", value="15"), "not in the text"),
        (record(key="quota", value="1"), "not in the text"),
        (record(key="tool", value="Travis"), "denied"),
        (record(key="main store", value="Postgres 16", ended=True), "ended"),
        (record(key="quarterly revenue", value="Postgres 16"), "key"),
        (record(key="", value="Postgres 16"), "key"),
        (record(key="a b c d e f g h i j k l", value="Postgres 16"), "key"),
        (record(key="main store", value="Postgres 16", confidence=7), "confidence"),
        (record(key="main store", value="Postgres 16", confidence="high"), "confidence"),
        (record(key="main store", value="Postgres 16", confidence=0.1), "sure"),
        (record(key="main store", value="Postgres 16", evidence="Somewhere else."), "not in"),
        (record("decision", value="went with gRPC", reason="it is faster"), "not in"),
        (record("error", value="The importer kept dying"), "fix"),
        (record("wish", value="Postgres 16"), "sort"),
    ],
)
def test_what_the_text_does_not_say_is_refused(proposed: dict[str, Any], why: str) -> None:
    (proposal,) = read_proposals(reply(proposed)) or ()
    found = ground(proposal, [GroundTurn(TEXT)])
    assert isinstance(found, str)
    assert why in found


@pytest.mark.parametrize(
    "proposed",
    [
        STORE,
        GRPC,
        HEAP,
        record(key="tool", value="Buildkite"),
        record(key="deploy day", value="not deploy on Fridays"),
        record(key="port", value="5433"),
        record(key="port", value=5433),
        record(key="tool", value="Travis", ended=True),
        record(key="Quota", value="1.5 gb", turn=99),
    ],
)
def test_what_the_text_says_is_kept_in_its_own_words(proposed: dict[str, Any]) -> None:
    (proposal,) = read_proposals(reply(proposed)) or ()
    found = ground(proposal, [GroundTurn("Nothing here."), GroundTurn(TEXT)])
    assert isinstance(found, Grounded)
    assert found.turn == 1
    assert TEXT[found.found.start : found.found.end].endswith(".")
    if isinstance(found.found, Fact):
        assert found.found.value in TEXT


@pytest.mark.parametrize(
    "answer",
    [
        reply(STORE),
        f"Sure! [1] Here:\n```json\n{reply(STORE)}\n```",
        json.dumps([STORE]),
        json.dumps(STORE),
        json.dumps({"facts": [{k: v for k, v in STORE.items() if k != "sort"}]}),
        reply(STORE)[:-2],
        reply(STORE, GRPC)[:-40],
        json.dumps({"extra": 1, "records": [None, 7, {**STORE, "turn": "one", "more": []}]}),
    ],
)
def test_a_reply_is_read_for_what_it_holds(answer: str) -> None:
    (first, *_) = read_proposals(answer) or ()
    assert (first.sort, first.key, first.value) == ("fact", "main store", "Postgres 16")


def test_a_value_that_was_cut_off_is_not_read() -> None:
    cut = reply(STORE, {**GRPC, "value": "went with gRPC and more"})
    found = read_proposals(cut[: cut.index(" and more")]) or ()
    assert [one.value for one in found if one.value] == ["Postgres 16"]
    assert Proposal(sort="fact", value="x").confidence == 0.7


def test_judgements_and_summaries_are_read_from_json_and_from_words() -> None:
    for said in ('{"verdict": "yes"}', "Yes.", '```json\n{"verdict": true}\n```', "yes, both"):
        assert read_judgement(said) == "yes"
    for said in ('{"verdict": "no"}', "no", '{"verdict": "No."}'):
        assert read_judgement(said) == "no"
    assert read_judgement('{"verdict": 3}') == ""
    assert read_shorter('{"note": "Short."}') == "Short."
    assert read_shorter("Short {note}.") == "Short {note}."


def test_a_refused_parameter_is_told_from_other_errors() -> None:
    class UnsupportedParamsError(Exception):
        pass

    class BadRequestError(Exception):
        status_code = 400

    told = "response_format"
    assert refuses_parameter(TypeError(f"unexpected keyword argument '{told}'"), told)
    assert refuses_parameter(UnsupportedParamsError("gpt-3 takes no such thing"), told)
    assert refuses_parameter(BadRequestError("Invalid parameter: json_schema"), told)
    assert not refuses_parameter(BadRequestError("context too long"), told)
    assert not refuses_parameter(TypeError("'NoneType' object is not callable"), told)
    assert not refuses_parameter(ValueError(told), told)


@pytest.mark.filterwarnings(
    "ignore::UserWarning", "ignore::DeprecationWarning", "ignore::ResourceWarning"
)
def test_the_shape_arrives_on_the_wire(
    memory: MemoryManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "not a key")
    with ChatServer(reply(STORE)) as server:
        monkeypatch.setenv("OPENAI_API_BASE", server.url)
        learned = memory.living.learn(TEXT, model="openai/gpt-4o", user_id="ann")
    assert server.refusals == []
    assert "main store" in [one.title for one in learned.added]
    (body,) = server.bodies
    form = body["response_format"]
    assert (form["type"], form["json_schema"]["name"]) == ("json_schema", "records")
    assert form["json_schema"]["strict"] is True


@pytest.mark.filterwarnings(
    "ignore::UserWarning", "ignore::DeprecationWarning", "ignore::ResourceWarning"
)
def test_a_loop_learns_with_a_model_only_when_one_is_named(
    memory: MemoryManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages = [{"role": "user", "content": TEXT}]
    monkeypatch.setenv("OPENAI_API_KEY", "not a key")
    with ChatServer(reply(STORE)) as server:
        monkeypatch.setenv("OPENAI_API_BASE", server.url)
        for named, asked in (("", 0), ("openai/gpt-4o", 1)):
            config = LoopConfig(learn=LearnConfig(facts=True, model=named))
            with memory.turn(messages, user_id="ann", config=config) as turn:
                turn.done("Noted.")
            assert memory.flush(30)
            assert len(server.bodies) == asked
            assert (("fact", "main store") in kinds(memory)) == bool(asked)


def test_a_bad_model_is_refused(memory: MemoryManager) -> None:
    with pytest.raises(InvalidInput, match="model"):
        memory.living.learn(TEXT, model=7, user_id="ann")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput):
        LoopConfig(learn=LearnConfig(tokens=-1))


@pytest.mark.filterwarnings(
    "ignore::UserWarning", "ignore::DeprecationWarning", "ignore::ResourceWarning"
)
def test_the_command_learns_and_takes_it_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Cli(tmp_path / "s.db", monkeypatch)
    assert "Nothing was changed" in run("learn", "--dry-run", "The API limit is 9 MB.").out
    assert run("list", "--json").json["memories"] == []
    said = tmp_path / "said.json"
    said.write_text(
        json.dumps({
            "messages": [
                {"role": "user", "content": TEXT},
                {"role": "assistant", "content": "The upload limit is 3 MB."},
            ]
        }),
        "utf-8",
    )  # fmt: skip
    monkeypatch.setenv("OPENAI_API_KEY", "not a key")
    with ChatServer(reply(STORE)) as server:
        monkeypatch.setenv("OPENAI_API_BASE", server.url)
        options = ("--model", "openai/gpt-4o", "--max-calls", "3", "--json")
        learned = run("learn", "--file", str(said), *options).json
    assert learned["model_calls"] == 1
    assert "main store" in [one["title"] for one in learned["added"]]
    assert not any("upload" in one["text"] for one in learned["added"])
    undone = run("consolidate", "--undo", learned["journal_id"], "--json").json
    assert undone["removed"] == len(learned["added"])
    assert run("learn", "x", "--max-calls", "3").code == 2
    assert run("learn", "x", "--file", str(said)).code == 2
    (tmp_path / "bad.json").write_text("{", "utf-8")
    assert run("learn", "--file", str(tmp_path / "bad.json")).code == 2
    assert run("learn", "Hello.").out.startswith("Nothing to learn.")
