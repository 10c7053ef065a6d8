"""The one safe writer, and that nothing else writes files."""

from __future__ import annotations

import ast
import os
import shutil
from pathlib import Path

import pytest

import agentmem
from agentmem.base.errors import StoreError
from agentmem.stores.open_files import new_bytes, new_file, written_whole
from tests.unit.cli_running import Cli

PACKAGE = Path(agentmem.__file__).parent
WRITERS = {
    "server/api.py",  # what is on its way in or out, under a name of the system's own
    "server/hook.py",  # the lock of the helper
    "cli/app.py",  # adds a line to the start file of a shell
    "stores/open_files.py",  # the one
    "stores/sqlite/opening.py",  # overwrites what is erased, and writes the mark
}
READ_ONLY = {"r", "rb"}


def test_a_link_planted_where_the_export_is_prepared_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / f".out.jsonl.{os.getpid()}").symlink_to(victim)
    with agentmem.open(":memory:", embedder=None) as memory:
        memory.add("The boiler is serviced in May.", user_id="ana")
        memory.upkeep.export_jsonl(tmp_path / "out.jsonl")
    assert victim.read_text() == "precious"
    assert not (tmp_path / "out.jsonl").is_symlink()


def test_a_file_planted_where_the_export_is_prepared_lends_it_no_rights(tmp_path: Path) -> None:
    planted = tmp_path / f".out.jsonl.{os.getpid()}"
    planted.touch()
    planted.chmod(0o666)
    with written_whole(tmp_path / "out.jsonl") as file:
        file.write("private")
    assert (tmp_path / "out.jsonl").stat().st_mode & 0o777 == 0o600
    assert planted.read_text() == ""


def test_a_file_others_could_read_is_private_once_written(tmp_path: Path) -> None:
    target = tmp_path / "out.jsonl"
    target.touch()
    target.chmod(0o666)
    with written_whole(target) as file:
        file.write("private")
    assert target.stat().st_mode & 0o777 == 0o600


def test_a_block_that_fails_leaves_what_was_there_and_nothing_else(tmp_path: Path) -> None:
    target = tmp_path / "a"
    target.write_bytes(b"old")
    with pytest.raises(TypeError), new_bytes(target) as file:
        file.writelines([b"half", None])  # type: ignore[list-item]  # it is to fail halfway
    assert target.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a"]


def test_a_file_that_appears_meanwhile_is_kept_where_none_may_be_replaced(tmp_path: Path) -> None:
    target, theirs = tmp_path / "a", tmp_path / "theirs"
    theirs.write_bytes(b"theirs")
    with pytest.raises(FileExistsError), new_file(target, replace=False):
        shutil.copy(theirs, target)
    assert target.read_bytes() == b"theirs"
    assert sorted(os.listdir(tmp_path)) == ["a", "theirs"]


def test_what_cannot_be_written_is_said(tmp_path: Path) -> None:
    with (
        pytest.raises(StoreError, match="cannot be written"),
        written_whole(tmp_path / "no" / "folder") as file,
    ):
        file.write("x")


def test_the_page_of_figures_is_private_and_replaces_no_half(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli = Cli(tmp_path / "store.db", monkeypatch)
    cli.add("The boiler is serviced in May.")
    page = tmp_path / "stats.html"
    assert cli("stats", "--html", str(page)).code == 0
    assert page.stat().st_mode & 0o777 == 0o600


def test_nothing_else_in_the_package_writes_files() -> None:
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        if name in WRITERS:
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
        found += [f"{name}:{call.lineno}" for call in calls if _writes(call)]
    assert not found


def _writes(node: ast.Call) -> bool:
    """Whether a call opens a file to write to it; `os.open` with flags that create one too."""
    called = node.func
    name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
    if name in ("write_text", "write_bytes", "mkstemp", "NamedTemporaryFile", "copyfile"):
        return True
    if name != "open":
        return False
    owner = called.value if isinstance(called, ast.Attribute) else None
    written = [*node.args, *(k.value for k in node.keywords if k.arg in ("mode", "flags"))]
    if isinstance(owner, ast.Name) and owner.id == "os":
        return any("O_CREAT" in ast.unparse(one) for one in written)
    modes = [one.value for one in written if isinstance(one, ast.Constant)]
    return any(
        isinstance(mode, str) and len(mode) <= 3 and set(mode) & set("wax+") and mode.isascii()
        for mode in modes
        if mode not in READ_ONLY
    )
