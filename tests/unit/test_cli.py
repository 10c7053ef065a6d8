"""The command line in one process: what each command does, prints and exits with."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import agentmem
from agentmem.cli import app as cli_app
from agentmem.cli.chat import source_lines
from agentmem.cli.common import make_run
from agentmem.prompt.cite import Citation
from tests.cli_page import render as render_cli
from tests.unit.cli_running import ROOT, Cli, start

EVIL = (
    "xylophone \x1b[31mred\x1b]0;title\x07\x1b]8;;http://x/\x1b\\link\x9b2Jend\u202e [bold]b[/bold]"
)


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    return Cli(tmp_path / "memory.db", monkeypatch)


# -- storing and finding ------------------------------------------------------------------


def test_what_was_added_is_found_listed_and_shown(cli: Cli) -> None:
    added = cli("add", "Alice", "likes", "Python")
    assert added.code == 0
    assert added.out.startswith("Added: ")
    memory_id = added.out.split()[-1]
    assert "Alice likes Python" in cli("search", "python").out
    assert memory_id in cli("list").out
    assert "Alice likes Python" in cli("get", memory_id).out
    assert cli("get", memory_id, "--text").out == "Alice likes Python\n"


def test_the_same_text_again_is_said_to_be_there(cli: Cli) -> None:
    first = cli.add("Alice likes Python")
    again = cli("add", "Alice likes Python")
    assert again.out == f"Already there: {first}\n"


def test_a_text_can_be_piped_in(cli: Cli) -> None:
    for args in (("add",), ("add", "-")):
        assert cli(*args, stdin="\ufeffpiped text\nof two lines\n").code == 0
    assert cli("list", "--json").json["memories"][0]["text"] == "piped text\nof two lines"
    assert cli("search", "-", stdin="piped").code == 0


@pytest.mark.parametrize("stdin", [b"", b"  \n", b"\xff\xfe\x00"])
def test_nothing_or_no_text_cannot_be_added(cli: Cli, stdin: bytes) -> None:
    ran = cli("add", "--json", stdin=stdin)
    assert (ran.code, ran.out) == (2, "")
    assert ran.error["remedy"]


def test_kind_importance_and_metadata_are_kept(cli: Cli) -> None:
    memory_id = cli.add(
        "deploy on Friday", "--kind", "workflow", "--importance", "0.9",
        "--metadata", "stars=3", "--metadata", "version=1.10", "--metadata", 'tags=["a","b"]',
        "--metadata", "note=a=b",
    )  # fmt: skip
    found = cli("get", memory_id, "--json").json
    assert (found["kind"], found["importance"]) == ("workflow", 0.9)
    assert found["metadata"] == {"stars": 3, "version": "1.10", "tags": ["a", "b"], "note": "a=b"}


@pytest.mark.parametrize(
    "args",
    [
        ("add", "x", "--importance", "7"),
        ("add", "x", "--metadata", "nothing"),
        ("add", "x", "--visibility", "everybody"),
        ("search", "x", "--mode", "magic"),
        ("search", "x", "--since", "yesterdayish"),
        ("search", "x", "--limit", "many"),
        ("list", "--limit", "-1"),
        ("delete",),
        ("delete", "abcd", "--all"),
        ("get",),
        ("get", "abc"),
        ("get", "abcd", "--nonsense"),
        ("list", "--user", ""),
        ("--store", "", "list"),
        ("nonsense",),
        ("index", "somewhere", "--title", "x"),
        ("ask", ""),
        ("prefs", "add", "x", "--type", "taste"),
        ("prefs", "nonsense"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_wrong_usage_exits_with_2_and_a_remedy(cli: Cli, args: tuple[str, ...]) -> None:
    ran = cli(*args)
    assert (ran.code, ran.out) == (2, "")
    assert "Error: " in ran.err
    assert "Traceback" not in ran.err
    with_json = cli(*args, "--json")
    assert (with_json.code, with_json.out) == (2, "")
    assert set(with_json.error) == {"type", "message", "remedy"}


def test_a_search_without_hits_exits_with_5(cli: Cli) -> None:
    ran = cli("search", "zebra")
    assert (ran.code, ran.out) == (5, "")
    assert "there is no store" in ran.err
    assert not cli.store.exists()
    cli.add("Alice likes Python")
    assert cli("search", "zebra").err == "Nothing found.\n"
    found = cli("search", "zebra", "--json")
    assert (found.code, found.json["results"]) == (5, [])


def test_list_takes_kinds_limits_and_superseded_ones(cli: Cli) -> None:
    for number in range(5):
        cli.add(f"fact {number}")
    cli.add("an episode", "--kind", "episode")
    assert cli("list", "--kind", "episode", "--json").json["count"] == 1
    assert cli("list", "--limit", "2", "--json").json["count"] == 2
    assert cli("list", "--limit", "0", "--json").json["count"] == 6
    cli("prefs", "add", "I like tabs")
    cli("prefs", "add", "I do not like tabs")
    now = cli("list", "--kind", "preference", "--json").json["count"]
    assert cli("list", "--kind", "preference", "--superseded", "--json").json["count"] == now + 1


def test_update_keeps_a_history(cli: Cli) -> None:
    memory_id = cli.add("Alice likes Python", "--metadata", "a=1")
    assert cli("update", memory_id, "Alice", "likes", "Rust").out == f"Changed: {memory_id}\n"
    assert cli("update", memory_id, "--metadata", "b=2").code == 0
    now = cli("get", memory_id, "--json").json
    assert (now["text"], now["metadata"]) == ("Alice likes Rust", {"a": 1, "b": 2})
    shown = cli("history", memory_id).out
    assert shown.index("Python") < shown.index("Rust")
    versions = cli("history", memory_id, "--json").json["versions"]
    assert versions[0]["text"] == "Alice likes Python"


def test_users_do_not_see_each_other(cli: Cli) -> None:
    memory_id = cli.add("alpha beta", "--user", "alice")
    assert cli("get", memory_id, "--user", "bob").code == 3
    assert cli("get", memory_id[-6:], "--user", "bob").code == 3
    assert cli("search", "alpha", "--user", "bob").code == 5
    assert cli("--user", "alice", "search", "alpha").code == 0
    assert cli("delete", memory_id, "--user", "bob", "--yes").code == 3


# -- ids ------------------------------------------------------------------------------------


def test_an_id_may_be_given_by_an_end_of_it(cli: Cli) -> None:
    memory_id = cli.add("Alice likes Python")
    for part in (
        memory_id,
        memory_id[-4:],
        memory_id[:12],
        memory_id[-8:].upper(),
        f"…{memory_id[-8:]}",
    ):
        assert cli("get", part, "--json").json["id"] == memory_id
    assert cli("get", memory_id[-3:]).code == 2
    assert cli("get", "zzzzzz").code == 3


def test_an_ambiguous_id_lists_what_it_could_mean(cli: Cli) -> None:
    ids = [cli.add("one"), cli.add("two")]
    ran = cli("delete", ids[0][:4], "--yes", "--json")
    assert ran.code == 2
    assert all(one in ran.error["remedy"] for one in ids)
    assert cli("list", "--json").json["count"] == 2


# -- destroying -----------------------------------------------------------------------------


def test_delete_and_erase_need_yes_where_nobody_can_be_asked(cli: Cli) -> None:
    memory_id = cli.add("a secret thing")
    for name in ("delete", "erase"):
        for what in (memory_id, "--all"):
            ran = cli(name, what)
            assert (ran.code, ran.out) == (2, "")
            assert "--yes" in ran.err
    assert cli("get", memory_id).code == 0


def test_deleted_memories_can_be_erased_by_their_end_and_leave_no_bytes(cli: Cli) -> None:
    memory_id = cli.add("the word xylophonist is secret")
    other = cli.add("something else")
    assert cli("delete", memory_id, "--yes").out == "Deleted: 1\n"
    assert cli("get", memory_id).code == 3
    receipt = cli("erase", memory_id[-8:], "--yes", "--json").json
    assert (receipt["ids"], receipt["complete"]) == ([memory_id], True)
    for file in cli.store.parent.iterdir():
        assert b"xylophonist" not in file.read_bytes()
    assert cli("erase", memory_id, "--yes").code == 3
    assert cli("get", other).code == 0


def test_removing_everything_makes_no_store(cli: Cli) -> None:
    assert cli("erase", "--all", "--yes", "--json").json["ids"] == []
    assert cli("delete", "--all", "--yes").out == "Deleted: 0\n"
    assert cli("prefs", "clear", "--yes").out == "Removed: 0\n"
    assert not cli.store.exists()


def test_erase_all_takes_the_typed_lines_too(cli: Cli) -> None:
    cli.add("mine", "--user", "alice")
    cli.add("theirs", "--user", "bob")
    mine, theirs, nobodys = (
        make_run(store=str(cli.store), user=user).history for user in ("alice", "bob", None)
    )
    for history in (mine, theirs, nobodys):
        assert history is not None
        assert "alice" not in history.name
        history.write_text("+line\n")
    ran = cli("erase", "--all", "--yes", "--user", "alice")
    assert ran.code == 0
    assert "Complete" in ran.out
    left = {path for path in cli.store.parent.iterdir() if ".history" in path.name}
    assert left == {theirs, nobodys}
    assert cli("list", "--user", "bob", "--json").json["count"] == 1
    assert cli("list", "--user", "alice", "--json").json["count"] == 0


def test_who_has_no_memories_is_told_that_others_have(cli: Cli) -> None:
    assert cli("users").out == ""
    cli.add("The harbour opens at six.", "--user", "alice")
    assert "the 1 memory here is of others; say whose with --user" in cli("list").err
    cli.add("The harbour closes at nine.", "--user", "alice")
    cli.add("The harbour is in Lisbon.", "--user", "bob")
    hint = ": the 3 memories here are of others; say whose with --user (`agentmem users` lists"
    assert f"There are no memories{hint}" in cli("list").err
    assert f"Nothing found{hint}" in cli("search", "harbour").err
    assert f"Nothing found{hint}" in cli("search", "harbour", "--user", "carol").err
    assert cli("list", "--user", "bob", "--kind", "episode").err == "There are no memories.\n"
    assert cli("users", "--json").json["users"] == [
        {"user_id": "alice", "memories": 2},
        {"user_id": "bob", "memories": 1},
    ]
    cli.add("Nobody in particular said this.")
    assert "(no name)" in cli("users").out


def test_deleting_several_finds_all_of_them_first(cli: Cli) -> None:
    first = cli.add("one")
    ran = cli("delete", first, "zzzzzz", "--yes")
    assert ran.code == 3
    assert cli("get", first).code == 0


# -- preferences ------------------------------------------------------------------------------


def test_preferences_are_listed_replaced_and_taken_back(cli: Cli) -> None:
    assert cli("prefs").code == 0
    first = cli("prefs", "add", "I like tabs", "--json").json
    second = cli("prefs", "add", "I do not like tabs", "--json").json
    assert second["replaced"] == [first["id"]]
    assert [one["id"] for one in cli("prefs", "list", "--json").json["preferences"]] == [
        second["id"]
    ]
    assert "I do not like tabs" in cli("prefs").out
    back = cli("prefs", "remove", second["id"][-8:], "--undo", "--json").json
    assert [one["text"] for one in back["restored"]] == ["I like tabs"]
    assert cli("prefs", "clear").code == 2
    assert cli("prefs", "clear", "--yes").out == "Removed: 1\n"
    assert cli("prefs", "--json").json == {"preferences": []}


# -- moving -----------------------------------------------------------------------------------


def test_an_export_can_be_imported_elsewhere(cli: Cli, tmp_path: Path) -> None:
    ids = {cli.add(f"fact {number}") for number in range(3)}
    file = tmp_path / "out.jsonl"
    assert cli("export", str(file)).code == 0
    assert cli("export", str(file)).code == 2
    assert cli("export", str(file), "--yes", "--json").json["exported"] == 3
    streamed = cli("export", "-").out
    assert streamed.splitlines()[0] == file.read_text().splitlines()[0]
    for source, stdin in ((str(file), ""), ("-", streamed)):
        other = tmp_path / f"other{len(stdin)}.db"
        report = cli("import", source, "--store", str(other), "--json", stdin=stdin).json
        assert report["imported"] == 3
        again = cli("import", source, "--store", str(other), stdin=stdin)
        assert again.out == "Imported: 0 (3 were there already)\n"
        listed = cli("list", "--store", str(other), "--json").json["memories"]
        assert {one["id"] for one in listed} == ids


def test_a_broken_import_changes_nothing_unless_asked(cli: Cli, tmp_path: Path) -> None:
    cli.add("fact")
    lines = cli("export", "-").out.splitlines()
    broken = "\n".join([*lines[:-1], "{broken", lines[-1]]) + "\n"
    other = ("--store", str(tmp_path / "other.db"))
    ran = cli("import", "-", *other, stdin=broken)
    assert ran.code == 1
    assert "line" in ran.err
    assert cli("list", *other, "--json").json["count"] == 0
    assert cli("import", "-", "--skip-bad-lines", *other, stdin=broken).code == 0
    assert cli("list", *other, "--json").json["count"] == 1
    assert cli("import", "-", *other, stdin="no export at all").code == 2
    assert cli("import", "missing.jsonl", *other).code == 1


def test_an_export_to_stdout_leaves_no_room_for_a_document(cli: Cli) -> None:
    ran = cli("export", "-", "--json")
    assert (ran.code, ran.out) == (2, "")


def test_an_export_never_replaces_the_store(cli: Cli) -> None:
    cli.add("fact")
    assert cli("export", str(cli.store), "--yes").code == 2
    assert cli("list", "--json").json["count"] == 1


def test_an_export_through_a_link_writes_its_target(cli: Cli, tmp_path: Path) -> None:
    cli.add("fact")
    target, link = tmp_path / "folder" / "target.jsonl", tmp_path / "link.jsonl"
    target.parent.mkdir()
    link.symlink_to(target)
    assert cli("export", str(link)).code == 0  # a new file, through a link that led nowhere
    target.write_text("old")
    assert cli("export", str(link)).code == 2
    assert cli("export", str(link), "--yes").code == 0
    assert link.is_symlink()
    assert "fact" in target.read_text()
    assert list(target.parent.iterdir()) == [target]


def test_an_export_goes_into_a_pipe_and_leaves_it_one(cli: Cli, tmp_path: Path) -> None:
    cli.add("fact")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    ran = cli("export", str(pipe))
    read = os.read(reader, 65_536)
    os.close(reader)
    assert ran.code == 0
    assert pipe.is_fifo()
    assert b"fact" in read
    assert read.splitlines()[-1] == b'{"end":1}'


def test_an_export_to_the_name_of_stdout_is_one_to_stdout(cli: Cli) -> None:
    cli.add("fact")
    assert cli("export", "/dev/stdout").out == cli("export", "-").out
    assert cli("export", "/dev/stdout", "--json").code == 2


# -- what is printed ----------------------------------------------------------------------------


def test_stored_escape_sequences_and_markup_stay_harmless(cli: Cli) -> None:
    memory_id = cli.add(EVIL)
    for args in (("list",), ("get", memory_id), ("search", "xylophone"), ("history", memory_id)):
        out = cli(*args).out
        assert not any(c in out for c in "\x1b\x07\x9b\u202e")
        assert "[bold]b[/bold]" in out
    ran = cli("get", memory_id, "--json")
    assert not any(c in ran.out for c in "\x1b\x07\x9b\u202e")
    assert ran.json["text"] == EVIL


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252"])
def test_a_terminal_without_unicode_gets_what_it_can_show(cli: Cli, encoding: str) -> None:
    memory_id = cli.add("naïve 漢字 🎉")
    for args in (("list",), ("get", memory_id), ("search", "naïve"), ("--help",)):
        assert cli(*args, encoding=encoding).code == 0
    assert cli("get", memory_id, "--json", encoding=encoding).json["text"] == "naïve 漢字 🎉"


def test_a_pipe_gets_whole_ids_and_whole_texts(cli: Cli) -> None:
    text = "word " * 200
    memory_id = cli.add(text)
    line = cli("list").out.splitlines()[1]
    assert line.startswith(memory_id)
    assert text.strip() in line


def test_a_folder_of_a_misspelt_store_is_not_made_unasked(cli: Cli, tmp_path: Path) -> None:
    store = tmp_path / "mispelt" / "deep" / "memory.db"
    for args in (("add", "Alice likes tea"), ("learn", "I use vim."), ("index", str(tmp_path))):
        ran = cli(*args, "--store", str(store), "--json")
        assert ran.code == 2
        assert "--store is in a folder that is not there" in ran.error["message"]
        assert "--yes" in ran.error["remedy"]
    assert cli("list", "--store", str(store)).code == 0
    assert not (tmp_path / "mispelt").exists()
    assert cli("add", "Alice likes tea", "--store", str(store), "--yes").code == 0
    assert cli("--store", str(store), "add", "Bob likes tea").code == 0
    assert "Bob" in cli("list", "--store", str(store)).out
    cli.add("Alice likes tea")
    written = tmp_path / "backups" / "monday.db"
    assert "FILE is in a folder that is not there" in cli("backup", str(written)).err
    assert not written.parent.exists()
    assert cli("backup", str(written), "--yes").code == 0
    assert written.exists()


@pytest.mark.parametrize("command", ["restore", "migrate-store"])
def test_no_folder_is_made_unasked_for_a_copy(cli: Cli, tmp_path: Path, command: str) -> None:
    copy, there = tmp_path / "copy.db", tmp_path / "misspelt" / "memory.db"
    cli("add", "The harbour is small.")
    cli("backup", str(copy))
    words = ["--store", str(there), str(copy)] if command == "restore" else [str(copy), str(there)]
    refused = cli(command, *words)
    assert refused.code == 2
    assert "add --yes to make the folder" in refused.err
    assert not there.parent.exists()
    assert cli(command, *words, "--yes").code == 0
    assert there.exists()


def test_a_backup_that_is_not_there_is_said_before_anything_is_asked(cli: Cli) -> None:
    cli("add", "The harbour is small.")
    refused = cli("restore", "monday.db")
    assert "'monday.db' is not there" in refused.err
    assert "--yes" not in refused.err


def test_options_count_before_and_after_the_name(cli: Cli, tmp_path: Path) -> None:
    cli.add("alpha", "--user", "alice")
    store = ("--store", str(tmp_path / "empty.db"))
    assert cli("--user", "alice", "--json", "list").json["count"] == 1
    assert cli("list", "--json", "--user", "alice").json["count"] == 1
    assert cli("--user", "bob", "list", "--user", "alice", "--json").json["count"] == 1
    assert cli("--user", "alice", *store, "list", "--json").json["count"] == 0
    assert cli("prefs", "--json", "list").json == cli("--json", "prefs", "list").json


def test_the_environment_gives_way_to_what_is_typed(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli.add("alpha", "--user", "alice")
    monkeypatch.setenv("AGENTMEM_USER", "bob")
    assert cli("--user", "alice", "list", "--json").json["count"] == 1
    assert cli("list", "--json").json["count"] == 0


# -- errors ---------------------------------------------------------------------------------


def test_a_store_problem_exits_with_4(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("these are notes, not a store, and long enough to be read as something\n" * 99)
    for path in (file, tmp_path):
        ran = cli("list", "--store", str(path), "--json")
        assert (ran.code, ran.out) == (4, "")
        assert ran.error["type"] == "NotAStore"


def test_a_bug_is_one_line_and_debug_shows_where(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def break_it(*_: object, **__: object) -> None:
        raise ZeroDivisionError("oh\x1b[31m no")

    monkeypatch.setattr("agentmem.cli.common.CommandRun.memory", break_it)
    ran = cli("list")
    assert ran.code == 1
    assert ran.err == "Error: ZeroDivisionError: oh no Run it again with --debug to see where.\n"
    debug = cli("list", "--debug")
    assert "Traceback" in debug.err
    assert "break_it" in debug.err
    assert "\x1b" not in debug.err
    assert cli("list", "--json").error["type"] == "ZeroDivisionError"


def test_a_lone_surrogate_is_wrong_usage(cli: Cli) -> None:
    assert cli("add", "a\udcffb").code == 2
    assert cli("search", "a\udcffb").code == 2
    assert cli("get", "abc\udcff").code == 2


# -- help, completion, the manual -------------------------------------------------------------


def test_the_list_of_commands_is_what_the_modules_have() -> None:
    root = cli_app.command()
    listed = {one.name for one in cli_app.COMMANDS}
    found: set[str] = set()
    for module in {one.module for one in cli_app.COMMANDS}:
        found |= set(cli_app._load(module))
    assert found == listed
    for name in listed:
        assert root.get_command(None, name).help


def test_every_command_has_help_and_the_shared_options(cli: Cli) -> None:
    for listed in cli_app.COMMANDS:
        ran = cli(listed.name, "--help")
        assert ran.code == 0
        for option in ("--store", "--user", "--json", "--debug", "--no-color"):
            assert option in ran.out
    assert cli("prefs", "add", "--help").code == 0
    top = cli("-h").out
    assert all(listed.help in " ".join(top.split()) for listed in cli_app.COMMANDS)


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("list", "--limit", "-1"), "--limit is below 0"),
        (("search", "x", "--limit", "-1"), "--limit is "),
        (("inspect", "--top-k", "-1"), "--top-k is "),
        (("add", "x", "--importance", "7"), "--importance is "),
        (("add", "x", "--user", "a\udc80"), "--user "),
        (("search", "x", "--mode", "magic"), "--mode is "),
    ],
    ids=lambda value: " ".join(value)[:30] if isinstance(value, tuple) else "",
)
def test_errors_speak_of_the_flag_that_was_typed(
    cli: Cli, args: tuple[str, ...], said: str
) -> None:
    ran = cli(*args)
    assert ran.code == 2
    assert said in ran.err
    assert said in cli(*args, "--json").error["message"]


@pytest.mark.parametrize(
    ("args", "meant"),
    [
        (("serach", "x"), "search"),
        (("search", "x", "--limt", "3"), "--limit"),
        (("search", "x", "--usr", "ana"), "--user"),
        (("search", "x", "--top-k", "3"), "--limit"),
        (("prefs", "remov", "x"), "remove"),
        (("--stor", "x", "list"), "--store"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_a_misspelt_command_or_flag_is_asked_back(
    cli: Cli, args: tuple[str, ...], meant: str
) -> None:
    ran = cli(*args)
    assert ran.code == 2
    assert f"Did you mean {meant}" in ran.err


def test_every_help_page_has_an_example(cli: Cli) -> None:
    root = cli_app.command()
    for listed in cli_app.COMMANDS:
        command = root.get_command(None, listed.name)
        pages = [(listed.name,)] + [(listed.name, inner) for inner in _inner(command)]
        for page in pages:
            assert f"For example: agentmem {listed.name}" in " ".join(cli(*page, "-h").out.split())
    assert "For example: agentmem" in cli("--help").out


def _inner(command: Any) -> list[str]:
    return list(getattr(command, "commands", {}))


def test_version(cli: Cli) -> None:
    for args in (("--version",), ("search", "--version"), ("prefs", "list", "--version")):
        assert cli(*args).out == f"agentmem {agentmem.__version__}\n"


def test_nothing_typed_is_a_request_for_help(cli: Cli) -> None:
    assert cli() == cli("--help")


def test_help_imports_nothing_heavy() -> None:
    script = (
        "import sys\n"
        "sys.argv = ['agentmem', '--help']\n"
        "from agentmem.cli.app import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "heavy = ('rich', 'numpy', 'pydantic', 'litellm', 'faiss', 'prompt_toolkit', 'httpx',\n"
        "         'asyncio', 'agentmem.memory.manager', 'agentmem.cli.memories', 'agentmem.inspector.look')\n"
        "print([name for name in heavy if name in sys.modules], file=sys.stderr)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert ran.stderr.splitlines()[-1] == "[]"


def test_shells_complete_commands_and_options(tmp_path: Path) -> None:
    def complete(words: str, number: int) -> list[str]:
        process = start(
            tmp_path / "memory.db",
            env={
                "_AGENTMEM_COMPLETE": "bash_complete",
                "COMP_WORDS": words,
                "COMP_CWORD": str(number),
            },
        )
        out, _ = process.communicate(timeout=60)
        return [line.partition(",")[2] for line in out.decode().split()]

    assert {"search", "stats"} <= set(complete("agentmem s", 1))
    assert "--threshold" in complete("agentmem search --", 2)
    assert "--store" in complete("agentmem search --", 2)
    assert complete("agentmem prefs cl", 2) == ["clear"]


@pytest.mark.parametrize(
    ("shell", "start_file"), [("bash", ".bashrc"), ("zsh", ".zshrc"), ("fish", "")]
)
def test_completion_is_installed_once(
    shell: str, start_file: str, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SHELL", f"/bin/{shell}")
    if start_file:
        (tmp_path / start_file).write_text("alias a=b")
    shown = cli("--show-completion")
    assert f"{shell}_complete" in shown.out
    for _ in range(2):
        assert cli("--install-completion").code == 0
    (written,) = (p for p in tmp_path.rglob("*agentmem*") if p.is_file())
    assert written.read_text().strip() == shown.out.strip()
    if start_file:
        lines = (tmp_path / start_file).read_text().splitlines()
        assert lines == ["alias a=b", f'. "$HOME/{written.name}"']


def test_completion_of_an_unknown_shell_is_wrong_usage(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHELL", "/bin/tcsh")
    ran = cli("--install-completion")
    assert ran.code == 2
    assert "bash, zsh, fish" in ran.err


def test_the_manual_is_fresh() -> None:
    page = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    assert page == render_cli(), "python -m tests.cli_page > docs/cli.md"


# -- indexing -----------------------------------------------------------------------------------


def test_a_folder_is_indexed_and_gone_files_are_pruned(cli: Cli, tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "a.md").write_text("# Alpha\n\nThe alpha launch is on Tuesday.\n")
    (notes / "b.txt").write_text("Beta is cancelled.\n")
    assert cli("index", str(notes)).out.startswith("2 files: 2 added")
    assert "Tuesday" in cli("search", "when is the alpha launch").out
    again = cli("index", str(notes), "--json").json
    assert (again["unchanged"], again["added"]) == (2, 0)
    (notes / "b.txt").unlink()
    assert cli("index", str(notes)).err == "1 file is gone since; --prune forgets it.\n"
    forgotten = "Forgotten: 1 chunk of 1 file that is gone\n"
    assert cli("index", str(notes), "--prune").out.endswith(forgotten)
    assert cli("search", "beta cancelled").code == 5


def test_what_a_folder_is_indexed_without_is_counted_by_reason(cli: Cli, tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    (notes / "node_modules").mkdir(parents=True)
    (notes / "a.md").write_text("The alpha launch is on Tuesday.\n")
    for name in ("b.bin", "c.bin"):
        (notes / name).write_bytes(bytes(range(256)))
    said = cli("index", str(notes)).err
    assert said == "skipped, is not text: 2\nskipped, holds installed packages: 1\n"
    counts = cli("index", str(notes), "--json").json["skipped_by_reason"]
    assert counts == {"is not text": 2, "holds installed packages": 1}


def test_a_bar_says_how_long_it_will_take(cli: Cli, tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "a.md").write_text("The alpha launch is on Tuesday.\n")
    assert re.search(r"\d:\d\d:\d\d|-:--:--", cli("index", str(notes), columns=100).err)


def test_chunks_of_one_page_are_told_apart_by_what_they_say() -> None:
    at = make_run()
    shown = [
        Citation(index=n, title="Notes", url="file:///n.md", source="memory", quote=q)
        for n, q in enumerate(("The launch is on Tuesday.", "Beta is cancelled."), 1)
    ]
    lines = source_lines(at, shown)
    assert lines[0].startswith("[1] Notes: The launch is on Tuesday. (")
    assert lines[2].startswith("[2] Notes: Beta is cancelled. (")


def test_a_misspelt_kind_is_asked_back(cli: Cli) -> None:
    assert cli("add", "Alice likes tea", "--kind", "fcat").err == (
        "Note: fcat is a kind of your own. Did you mean fact?\n"
    )
    assert cli("add", "Bob likes tea", "--kind", "recipe").err == ""
    for args in (("list",), ("search", "tea")):
        said = cli(*args, "--kind", "recipy").err
        assert said.endswith(" of the kind recipy. Did you mean recipe?\n")
        assert "There are: " in cli(*args, "--kind", "zzz").err


def test_one_of_a_thing_is_never_called_by_its_plural(cli: Cli) -> None:
    cli.add("Alice likes tea")
    said = [
        cli(*args)
        for args in (("audit",), ("doctor",), ("stats",), ("consolidate",), ("users",), ("list",),
                     ("predict", "tea"), ("assemble", "tea"), ("inspect", "-q", "tea"))
    ]  # fmt: skip
    wrong = re.compile(
        r"(?<![\d,.])1 (memories|contexts|files|chunks|users|times|items|jobs|lines)\b"
    )
    for ran in said:
        assert not wrong.search(ran.out + ran.err), ran.out


def test_indexes_are_saved_after_a_large_folder(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentmem.cli.index.MANY_CHUNKS", 3)
    monkeypatch.setattr("agentmem.search.local.FEW_ROWS", 3)
    monkeypatch.setattr("agentmem.inspector.doctor._FEW_WRITES", 3)
    for round_ in ("first", "second"):
        notes = tmp_path / round_
        notes.mkdir()
        for number in range(6):
            (notes / f"{number}.txt").write_text(f"The {round_} note, number {number}.\n")
        assert cli("index", str(notes)).code == 0
        checks = {one["name"]: one for one in cli("doctor", "--json").json["checks"]}
        assert "behind" not in checks["index"]["found"]
        assert cli("search", f"{round_} note").code == 0


def test_a_missing_path_fails_in_words(cli: Cli, tmp_path: Path) -> None:
    ran = cli("index", str(tmp_path / "missing"), "--json")
    assert (ran.code, ran.out) == (1, "")
    assert ran.error["message"]


def test_stdin_is_indexed_under_its_address(cli: Cli) -> None:
    page = "<html><title>Alpha</title><body><p>The alpha launch is on Tuesday.</p></body></html>"
    first = cli(
        "index", "-", "--url", "https://example.org/a", "--title", "A", "--json", stdin=page
    )
    assert (first.code, first.json["status"]) == (0, "added")
    assert cli(
        "index", "-", "--url", "https://example.org/a", "--title", "A", stdin=page
    ).out.startswith("Unchanged")
    for text in ("one text", "another text"):
        assert cli("index", "-", stdin=text).out.startswith("Added")
    assert cli("list", "--kind", "page", "--json").json["count"] == 3


def test_private_addresses_are_refused(cli: Cli) -> None:
    for url in ("http://127.0.0.1:9/", "file:///etc/passwd", "http://localhost/"):
        ran = cli("index", url, "--json")
        assert (ran.code, ran.out) == (1, "")
        assert json.loads(ran.err)["error"]["message"]


@pytest.mark.parametrize("path", ["", "  "])
def test_an_empty_path_does_not_index_the_working_folder(cli: Cli, path: str) -> None:
    ran = cli("index", path)
    assert (ran.code, "is no path" in ran.err) == (2, True)
    assert cli("list", "--json").json["memories"] == []


def test_an_empty_query_is_wrong_usage(cli: Cli) -> None:
    assert cli("search", stdin="\n").code == 2


def test_a_file_that_is_not_there_is_no_problem_of_the_store(cli: Cli, tmp_path: Path) -> None:
    ran = cli("import", str(tmp_path / "nowhere.jsonl"))
    assert (ran.code, "is not there" in ran.err) == (1, True)


def test_what_was_piped_in_and_cannot_be_imported_is_called_stdin(cli: Cli) -> None:
    ran = cli("import", "-", "--json", stdin="garbage\n")
    assert ran.code == 2
    assert ran.error["message"].startswith("stdin is not ")
    assert ran.error["message"].endswith(": '-'.")
    assert ran.error["remedy"]


def test_a_missing_yes_is_said_in_words(cli: Cli) -> None:
    ran = cli("delete", cli.add("Tea is hot."))
    assert (ran.code, "Add --yes" in ran.err, "''" in ran.err) == (2, True, False)


def test_a_long_field_is_shown_by_its_beginning(cli: Cli) -> None:
    known = cli.add("Short text.", "--metadata", f"note={'w ' * 3_000}")
    shown = cli("get", known).out
    assert "(6,000 characters)" in shown
    assert len(shown) < 2_000
    assert cli("get", known, "--json").json["metadata"]["note"] == "w " * 3_000


def test_the_command_that_takes_learning_back_can_be_copied(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    printed = cli("learn", "We use Redis 7 here.", "--user", "o'neil & co").out.splitlines()
    assert printed[0] == "cache: We use Redis 7 here.  (new fact)"
    command = shlex.split(printed[-1].removeprefix("Take it back with: "))
    monkeypatch.setenv("AGENTMEM_STORE", str(tmp_path / "another.db"))
    assert "Deleted: 2 memories" in cli(*command[1:]).out  # the fact, and the profile's line
    assert not (tmp_path / "another.db").exists()


def test_ages_are_told_to_people_and_dates_to_pipes(cli: Cli) -> None:
    known = cli.add("The deploy runs on Thursday")
    today = cli("get", known, "--json").json["created_at"][:10]
    for args in (("list",), ("search", "deploy")):
        assert "just now" in cli(*args, columns=80).out
        assert today not in cli(*args, columns=80).out
        assert today in cli(*args).out
        assert "just now" not in cli(*args).out
    assert f"{today}T" in cli("get", known, columns=80).out
    assert "(just now)" in cli("get", known, columns=80).out


def test_the_exact_bytes_of_a_tool_result_are_written_to_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, payload = tmp_path / "m.db", b"\x00\xff\r\nline\n" * 500
    with agentmem.open(store, embedder=None) as memory:
        turn = memory.turn([{"role": "user", "content": "Read it"}], user_id="ana")
        turn.tool_result("read", {}, payload)
        (kept,) = memory.get_all(user_id="ana", filters={"kind": "tool_result"})
        plain = memory.add("Café.", user_id="ana").ids[0]
    run = Cli(store, monkeypatch)
    target = tmp_path / "result.bin"
    done = run("--user", "ana", "get", kept.id, "--out", str(target))
    assert done.code == 0, done.err
    assert target.read_bytes() == payload
    assert "bytes to" in done.out
    assert target.stat().st_mode & 0o777 == 0o600
    again = run("--user", "ana", "get", plain, "--out", str(target))
    assert again.code != 0
    assert "is there already" in again.err
    other = run("--json", "--user", "ana", "get", plain, "--out", str(tmp_path / "text"))
    assert other.json["bytes"] == len("Café.".encode())
