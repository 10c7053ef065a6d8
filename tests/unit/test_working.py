"""Worked examples of tool results kept by id."""

from __future__ import annotations

import json
from datetime import timedelta
from enum import Enum
from pathlib import Path
from typing import Any

import pytest

import agentmem
from agentmem.agent.reading import distinct_words, spread, to_payload
from agentmem.agent.shapes import shape_of
from agentmem.agent.tool_results import WorkingMemory
from agentmem.base.errors import InvalidInput, InvalidNumber, RecordNotFound, StoreReadOnly
from agentmem.base.types import Scope
from agentmem.prompt.block import ContextBlock, render_context
from agentmem.stores.sqlite.store import SqliteStore
from agentmem.testing import ManualClock
from agentmem.tokens.encodings import estimate_tokens

ALICE = Scope(user_id="alice")
LINES = "".join(f"src/file{n}.py:{n}: value = {n}\n" for n in range(1, 301))
PEOPLE = {"people": [{"name": f"p{n}", "age": n} for n in range(200)], "total": 200}


def opened(path: Path | str = ":memory:", **options: Any) -> agentmem.MemoryManager:
    return agentmem.open(path, embedder=None, clock=ManualClock(), **options)


def working_of(
    memory: agentmem.MemoryManager, scope: Scope = ALICE, **options: Any
) -> WorkingMemory:
    return WorkingMemory(memory, scope=scope, count=estimate_tokens, **options)


@pytest.fixture(name="memory")
def _memory() -> agentmem.MemoryManager:
    return opened()


@pytest.fixture(name="working")
def _working(memory: agentmem.MemoryManager) -> WorkingMemory:
    return working_of(memory)


def test_a_small_result_goes_on_as_it_is(working: WorkingMemory) -> None:
    kept = working.keep("add", {"a": 1}, "3")
    assert kept.whole
    assert kept.content == "3"
    assert working.data(kept.id) == b"3"


def test_a_result_and_its_bytes_come_and_go_in_one_write(tmp_path: Path) -> None:
    """Killed between two writes, a memory would be left that points at missing bytes."""
    with agentmem.open(tmp_path / "m.db", embedder=None, clock=ManualClock()) as memory:
        working = working_of(memory)
        working.keep("add", {"a": 1}, "3")
        store = memory.store
        assert isinstance(store, SqliteStore)

        def commits() -> int:
            return store._database.ledger().commits

        before = commits()
        kept = working.keep("grep", {"pattern": "value"}, LINES)
        assert commits() == before + 1
        assert working.data(kept.id) == LINES.encode()
        before = commits()
        assert len(working.evict(max_bytes=0).ids) == 2
        assert commits() == before + 1
        assert store.artifacts.list(ALICE) == ()


def test_a_large_result_becomes_a_stand_in(working: WorkingMemory) -> None:
    kept = working.keep("grep", {"pattern": "value"}, LINES)
    assert not kept.whole
    assert kept.tokens < 100
    assert "300 matches, 300 files" in kept.content
    assert "first: src/file1.py:1: value = 1" in kept.content
    assert "last: src/file300.py:300: value = 300" in kept.content
    assert f'memory_read(id="{kept.id}"' in kept.content


def test_the_memory_says_what_was_called_and_what_came(
    memory: agentmem.MemoryManager, working: WorkingMemory
) -> None:
    kept = working.keep("fetch page", {"url": "u", "bad": float("nan")}, b"\x89PNG\r\n\x1a\n" + bytes(300), error="broken \ud800")  # fmt: skip
    row = memory.get(kept.id, user_id="alice")
    assert (row.kind, row.origin, row.source_url) == ("tool_result", "tool", f"tool://fetch%20page/{kept.id}")  # fmt: skip
    said = {key: row.metadata[key] for key in ("name", "success", "error", "bytes", "media_type")}
    assert said == {
        "name": "fetch page",
        "success": False,
        "error": "broken ?",
        "bytes": 308,
        "media_type": "image/png",
    }
    assert row.metadata["arguments"] == {"url": "u", "bad": "nan"}


@pytest.mark.parametrize(
    ("output", "data"),
    [
        ({"é": [1, None]}, '{"é": [1, null]}'.encode()),
        (None, b""),
        (3, b"3"),
        ("\ud800", b"\xed\xa0\x80"),
        (b"\xff\x00", b"\xff\x00"),
        (bytearray(b"ab"), b"ab"),
        ({(1, 2): 3}, b"{(1, 2): 3}"),
        ({"at": timedelta(days=1)}, b'{"at": "1 day, 0:00:00"}'),
    ],
)
def test_every_output_is_kept_exactly(working: WorkingMemory, output: Any, data: bytes) -> None:
    kept = working.keep("t", {}, output)
    assert working.data(kept.id) == data
    kept.content.encode("utf-8")


def test_an_output_that_cannot_be_printed_is_still_kept(working: WorkingMemory) -> None:
    class Broken:
        def __repr__(self) -> str:
            raise RuntimeError("no")

        __str__ = __repr__

    cycle: list[Any] = []
    cycle.append(cycle)
    assert b"cannot be printed" in working.data(working.keep("t", {}, Broken()).id)
    assert working.data(working.keep("t", {}, cycle).id) == b"[[...]]"


def test_reads_by_lines_range_and_from_the_end(working: WorkingMemory) -> None:
    kept = working.keep("grep", {}, LINES)
    read = working.read
    assert (
        read(kept.id, lines="2-3").text == "src/file2.py:2: value = 2\nsrc/file3.py:3: value = 3\n"
    )
    assert read(kept.id, lines="7").text == "src/file7.py:7: value = 7\n"
    assert read(kept.id, lines="-1").text == "src/file300.py:300: value = 300\n"
    assert read(kept.id, lines="299-").text.startswith("src/file299.py")
    assert read(kept.id, range="4-8").text == "file"
    assert read(kept.id, range=(4, 8)).text == "file"
    assert read(kept.id, range="-4").text == "300\n"
    assert read(kept.id, lines="900-901").text == ""
    assert "nothing there" in read(kept.id, lines="900-901").content


def test_pages_say_what_they_cover_and_how_to_go_on(working: WorkingMemory) -> None:
    kept = working.keep("grep", {}, LINES)
    page = working.read(kept.id, lines="10-200", limit_tokens=200)
    assert page.tokens <= 200
    assert page.next is not None
    assert page.next == {"id": kept.id, "lines": "10-200", "offset": page.end}
    start = LINES.index("src/file10.py")
    assert f"characters {start}-{start + page.end} of {len(LINES)}, lines 10-" in page.content
    assert f'next: memory_read(id="{kept.id}", lines="10-200", offset={page.end})' in page.content
    assert page.text.endswith("\n")


def test_grep_takes_patterns_words_and_mistakes(working: WorkingMemory) -> None:
    kept = working.keep("grep", {}, LINES + "Odd [line here\n")
    assert working.read(kept.id, grep=r"value = 2\d$").text.count("\n") == 10
    assert working.read(kept.id, grep="[line").text == "301: Odd [line here\n"
    assert "plain text" in working.read(kept.id, grep="[line").content
    insensitive = working.read(kept.id, grep="odd .line")
    assert insensitive.text == "301: Odd [line here\n"
    assert "case" in insensitive.content
    assert "0 matching lines" in working.read(kept.id, grep="nowhere").content
    assert "plain text" in working.read(kept.id, grep="(?R)").content


def test_a_pattern_that_would_run_for_ever_stops(working: WorkingMemory) -> None:
    kept = working.keep("t", {}, "a" * 5_000 + "b\n")
    page = working.read(kept.id, grep="(a|aa)+$")
    assert page.ok
    assert "too slow" in page.content


def test_grep_shows_what_stands_around_a_match_in_a_long_line(working: WorkingMemory) -> None:
    text = "short\n" + "x" * 50_000 + " Needle here " + "y" * 50_000 + " needle too\n"
    kept = working.keep("cat", {}, text)
    for pattern in ("Needle", "Ne+dle"):
        page = working.read(kept.id, grep=pattern)
        place = text.index("Needle")
        assert page.text.startswith(f"2: (character {place}) …xxx")
        assert " Needle here " in page.text
        assert len(page.text) < 500
    assert working.read(kept.id, range=f"{place}-{place + 6}").text == "Needle"
    assert working.read(kept.id, grep="^x+ Ne").text == ""
    assert "too" in working.read(kept.id, grep="t[o]+$").text


def test_json_paths_give_values(working: WorkingMemory) -> None:
    kept = working.keep("api", {}, PEOPLE)
    assert working.read(kept.id, json_path="$.people[3].name").text == "p3"
    assert working.read(kept.id, json_path="total").text == "200"
    assert json.loads(working.read(kept.id, json_path="$.people[1]").text) == {
        "name": "p1",
        "age": 1,
    }
    names = working.read(kept.id, json_path="$..name")
    assert names.text.startswith('"p0"\n"p1"\n')
    missing = working.read(kept.id, json_path="$.nope")
    assert "the keys are people, total" in missing.content
    broken = working.read(kept.id, json_path="$[")
    assert not broken.ok
    assert "cannot be used" in broken.content


def test_json_lines_can_be_asked_by_path(working: WorkingMemory) -> None:
    kept = working.keep("log", {}, "".join(json.dumps({"n": n}) + "\n" for n in range(50)))
    assert working.read(kept.id, json_path="$[7].n").text == "7"


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"range": "x"}, 'Use "0-500"'),
        ({"lines": "9-3"}, "ends before"),
        ({"lines": True}, "is no range"),
        ({"range": "1-2", "grep": "x"}, "together"),
        ({"json_path": "$[?match(@.a, '(a+)+$')]"}, "grep"),
        ({"json_path": "$.a"}, "not JSON"),
        ({"grep": ""}, "empty"),
        ({"grep": 7}, "not a text"),
        ({"offset": -1}, "offset"),
    ],
)
def test_mistakes_are_answered_and_not_raised(
    working: WorkingMemory, asked: dict[str, Any], said: str
) -> None:
    kept = working.keep("grep", {}, LINES)
    page = working.read(kept.id, **asked)
    assert not page.ok
    assert said in page.content


def test_unknown_and_foreign_ids_are_told_apart_from_nothing(
    memory: agentmem.MemoryManager, working: WorkingMemory
) -> None:
    kept = working.keep("grep", {}, LINES)
    assert kept.id in working.read("r000").content
    bob = working_of(memory, Scope(user_id="bob"))
    page = bob.read(kept.id)
    assert not page.ok
    assert "value" not in page.content
    with pytest.raises(RecordNotFound):
        bob.data(kept.id)
    assert bob.pointers() == ()
    assert bob.evict(max_bytes=0).ids == ()
    assert working.data(kept.id)


def test_bytes_are_read_by_range(working: WorkingMemory) -> None:
    data = bytes(range(256)) * 8
    kept = working.keep("download", {}, data)
    assert working.read(kept.id, range="2-6").data == data[2:6]
    assert "02 03 04 05" in working.read(kept.id, range="2-6").content
    latin = "naïve text, café\n".encode("latin-1") * 40
    readable = working.keep("download", {}, latin)
    assert "na\\xefve text" in working.read(readable.id).content
    assert working.read(readable.id, grep="caf").text.startswith("1: ")


def test_memory_search_finds_results_and_reads_any_memory(
    memory: agentmem.MemoryManager, working: WorkingMemory
) -> None:
    kept = working.keep("weather", {"city": "Lisbon"}, {"forecast": "thunderstorm " * 60})
    fact = memory.add("The thunderstorm siren is tested on Mondays", user_id="alice")
    read, search, save = working.tools(save=True)
    found = search.call(query="thunderstorm forecast", top_k=5)
    assert kept.id in found
    assert "from tool" in found
    assert "siren" in read.call(id=fact.ids[0])
    assert "Nothing in memory" in search.call(query="zebra")
    assert "Saved as" in save.call(text="The deploy runs on Fridays")
    assert "Already known" in save.call(text="The deploy runs on Fridays")
    (row,) = [m for m in memory.get_all(user_id="alice") if "Fridays" in m.text]
    assert (row.origin, row.kind) == ("assistant", "fact")
    assert "Nothing was saved" in save.call(text="x", kind="preference")


def test_our_own_block_in_a_result_is_kept_but_not_indexed(
    memory: agentmem.MemoryManager, working: WorkingMemory
) -> None:
    block = render_context(ContextBlock(user_profile=("likes heliotropes",)), secret=b"s" * 32)
    kept = working.keep("echo", {}, f"before\n{block}\nafter")
    assert b"heliotropes" in working.data(kept.id)
    row = memory.get(kept.id, user_id="alice")
    assert "heliotropes" not in row.text
    assert "heliotropes" not in (row.summary or "")


@pytest.mark.parametrize("place", ["memory", "file"])
def test_erasing_the_memory_erases_the_bytes(place: str, tmp_path: Path) -> None:
    path: Path | str = tmp_path / "m.db" if place == "file" else ":memory:"
    needle = b"\x00\xfeNEEDLE-IN-BYTES\xfe\x00" * 50
    with opened(path) as memory:
        working = working_of(memory)
        kept = working.keep("download", {"token": "SECRET-ARGUMENT"}, needle)
        long = working.keep("log", {}, "x\n" * 5_000 + "NEEDLE-IN-THE-MIDDLE\n" + "y\n" * 5_000)
        memory.store.upkeep.sync(at=memory.clock.now())
        receipt = memory.erase([kept.id, long.id], user_id="alice")
        assert receipt.artifacts == 2
        assert memory.store.artifacts.list(ALICE) == ()
        assert not working.read(kept.id).ok
    for file in tmp_path.rglob("*"):
        if file.is_file():
            for word in (b"NEEDLE-IN-BYTES", b"SECRET-ARGUMENT", b"NEEDLE-IN-THE-MIDDLE"):
                assert word not in file.read_bytes()


def test_levels_are_one_line_five_lines_and_all(working: WorkingMemory) -> None:
    kept = working.keep("grep", {}, LINES)
    assert "\n" not in working.describe(kept.id)
    assert len(working.describe(kept.id, level="five").split("\n")) <= 5
    assert working.describe(kept.id, level="full") == LINES
    with pytest.raises(InvalidInput):
        working.describe(kept.id, level="ten")  # type: ignore[arg-type]  # a wrong choice


@pytest.mark.parametrize("kind", ["fact", "episode", "task"])
def test_promoting_makes_a_linked_memory_that_is_trusted_no_more(
    memory: agentmem.MemoryManager, working: WorkingMemory, kind: Any
) -> None:
    kept = working.keep("grep", {"pattern": "value"}, LINES)
    made = working.promote(kept.id, kind, text="All values are defined in src")
    assert (made.kind, made.origin) == (kind, "tool")
    assert made.metadata["source_id"] == kept.id
    (link,) = memory.store.links.of(ALICE, made.id)
    assert (link.relation, link.second_id) == ("derived_from", kept.id)
    assert "300 matches" in working.promote(kept.id, kind).text
    with pytest.raises(RecordNotFound):
        working.promote("r0", kind)
    with pytest.raises(InvalidInput):
        working.promote(kept.id, kind, text="  ")
    with pytest.raises(InvalidInput):
        working.promote(kept.id, "preference")  # type: ignore[arg-type]  # a wrong choice


def test_eviction_spares_the_pinned_and_tells_what_is_gone() -> None:
    clock = ManualClock()
    memory = agentmem.open(":memory:", embedder=None, clock=clock)
    working = working_of(memory)
    ids = []
    for n in range(4):
        clock.advance(1)
        ids.append(working.keep("t", {"n": n}, f"{n} " * 500).id)
    working.promote(ids[0], "pin")
    clock.advance(1)
    working.read(ids[1])
    evicted = working.evict(max_bytes=2_000)
    assert evicted.ids == (ids[2], ids[3])
    assert evicted.left_bytes == 2_000
    assert "was let go. Call t again" in working.read(ids[2]).content
    assert ids[2] not in [hit.memory.id for hit in memory.search("2", user_id="alice")]
    clock.advance(100)
    assert working.evict(max_age=timedelta(seconds=50)).ids == (ids[1],)
    assert working.unpin(ids[0]).metadata["pinned"] is False
    assert working.evict(max_age=50.0).ids == (ids[0],)
    with pytest.raises(InvalidNumber):
        working.evict(max_bytes=-1)


def test_a_result_that_was_cited_or_read_back_in_two_turns_is_promoted() -> None:
    memory = opened()
    turns = [working_of(memory) for _ in range(3)]
    ids = [turns[0].keep("grep", {"n": n}, LINES).id for n in range(4)]
    cited, read, once, plain = ids
    for turn in turns[:2]:
        for _ in range(3):
            turn.read(read)
    for _ in range(3):
        turns[0].read(once)
    now = memory.clock.now()
    memory.store.record_usage(ALICE, [cited], at=now, retrieved=1, cited=1)
    memory.store.record_usage(ALICE, [plain], at=now, retrieved=1, ignored=1)
    memory.store.record_usage(ALICE, [plain], at=now, retrieved=1, ignored=1)
    assert {pointer.id for pointer in turns[2].pointers(2)} == {cited, read}
    assert set(turns[2].evict(max_bytes=0).ids) == {once, plain}
    turns[2].unpin(cited)
    assert turns[2].evict(max_bytes=0).ids == (cited,)
    assert turns[2].evict(max_age=0, at=now + timedelta(days=1)).ids == (read,)


def test_pointers_name_large_results_newest_and_pinned_first(working: WorkingMemory) -> None:
    first = working.keep("grep", {}, LINES)
    working.keep("add", {}, "3")
    second = working.keep("api", {}, PEOPLE)
    assert [p.id for p in working.pointers()] == [second.id, first.id]
    working.promote(first.id, "pin")
    (pointer,) = working.pointers(1)
    assert (pointer.id, pointer.tool) == (first.id, "grep")
    assert "300 matches" in pointer.summary
    assert pointer.tokens > 1_000


def test_a_store_that_cannot_be_written_can_still_be_read(
    memory: agentmem.MemoryManager, working: WorkingMemory
) -> None:
    kept = working.keep("grep", {}, LINES)

    def refuse(*_: object, **__: object) -> int:
        raise StoreReadOnly("The folder cannot be written.")

    memory.store.record_usage = refuse  # type: ignore[method-assign]  # a folder without rights
    assert working.read(kept.id, lines="1").text == "src/file1.py:1: value = 1\n"


def test_a_failed_result_shows_its_error(working: WorkingMemory) -> None:
    kept = working.keep("run", {}, "Traceback\n" * 200, error="ValueError: no </source> here")
    assert "error: ValueError: no (/source) here" in kept.content
    assert kept.tokens < 100


def test_results_survive_a_restart(tmp_path: Path) -> None:
    with opened(tmp_path / "m.db") as memory:
        kept = working_of(memory).keep("grep", {}, LINES)
    with opened(tmp_path / "m.db") as memory:
        working = working_of(memory)
        assert working.data(kept.id) == LINES.encode()
        assert working.pointers()[0].id == kept.id


def test_keywords_that_miss_the_threshold_still_find_what_shares_them(tmp_path: Path) -> None:
    with agentmem.open(tmp_path / "m.db", embedder=None) as memory:
        working = WorkingMemory(memory, scope=Scope(user_id="u"), count=estimate_tokens)
        log = "".join(f"step {n} of the start-up was done\n" for n in range(60))
        kept = working.keep("start", {}, f"{log}ValueError: the pump is not primed\n")
        search = next(tool for tool in working.tools() if tool.name == "memory_search")
        assert kept.id in search.call(query="pump pressure valves 2024")
        assert search.call(query="quantum lattice") == "Nothing in memory answers that."


def test_an_enum_is_told_by_its_value() -> None:
    class Colour(Enum):
        RED = "red"

    assert to_payload([Colour.RED]).text == '["red"]'


def test_of_one_endless_line_a_range_is_offered() -> None:
    assert shape_of("A" * 50_000).reads[0].startswith("range=")


@pytest.mark.parametrize("place", ["memory", "file"])
def test_a_rare_word_in_the_middle_of_a_log_leads_to_its_line(place: str, tmp_path: Path) -> None:
    def line(number: int) -> str:
        return f"2024-05-01T10:{number % 60:02d}Z INFO worker-{number} done id={number * 7919:x}\n"

    middle = "2024-05-01T11:00Z WARN Überlauf in the quokkaBridge of 漢字テスト\n"
    log = "".join(map(line, range(2_000))) + middle + "".join(map(line, range(2_000, 4_000)))
    assert len(log) > 200_000
    with opened(":memory:" if place == "memory" else tmp_path / "m.db") as memory:
        working = working_of(memory)
        read, search = working.tools()
        for number in range(30):
            memory.add(f"Note {number}: the bridge was painted.", user_id="alice")
        kept = working.keep("tail", {"file": "worker.log"}, log)
        for query in ("quokkaBridge", "quokka", "uberlauf", "漢字テスト"):
            assert kept.id in search.call(query=query), query
        assert "quokka" not in search.call(query="painted bridge")
        assert "quokkaBridge of" in read.call(id=kept.id, grep="quokka")
        pinned = working.promote(kept.id, "pin")  # written again, and still found
        assert pinned.metadata["pinned"]
        assert kept.id in search.call(query="quokka")
        assert "quokka" not in memory.get(kept.id, user_id="alice").text


def test_the_middle_of_a_result_is_kept_by_its_words_within_a_limit() -> None:
    numbers = " ".join(map(str, range(100_000, 130_000)))
    text = f"{numbers} Errors: connection_reset_by_peer {'QUFB' * 50} the Errors {numbers}"
    assert distinct_words(text, known="nothing").split()[:2] == [
        "Errors",
        "connection_reset_by_peer",
    ]
    assert distinct_words(text, known="errors: peer").split()[0] == "connection_reset_by_peer"
    kept = distinct_words(text, limit_characters=500)
    assert len(kept) <= 500
    kept_numbers = [int(word) for word in kept.split() if word.isdigit()]
    assert kept_numbers[0] == 100_000
    assert kept_numbers[-1] > 125_000  # from all over it
    assert len(spread("x" * 5_000_000)) < 500_000


def test_our_own_block_in_the_middle_of_a_result_is_not_found(
    memory: agentmem.MemoryManager, working: WorkingMemory
) -> None:
    turn_of = memory.add("The zebra crossing is closed.", user_id="alice")
    assert turn_of.ids
    turn = memory.turn(
        [{"role": "user", "content": "Which zebra crossing is closed?"}], user_id="alice", dry=True
    )
    assert "zebra" in turn.block_text
    kept = working.keep("cat", {}, f"{'one two ' * 1_000}{turn.block_text}{' end of it' * 1_000}")
    assert "zebra" not in memory.get(kept.id, user_id="alice").metadata.get("indexed_words", "")
