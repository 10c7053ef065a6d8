"""Every readable file of a folder, remembered, and what is gone since the last time."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from agentmem.core.charsets import sound
from agentmem.core.checks import require_path
from agentmem.core.ignoring import IgnoreRule, read_ignore_rules, says
from agentmem.errors import AgentMemError, FileRefused, FileUnreadable, InvalidInput
from agentmem.files import open_file, read_file
from agentmem.indexed import FolderReport, IndexingResult, PassedOver, Progress
from agentmem.types import Document, Scope

if TYPE_CHECKING:
    from agentmem.manager import MemoryManager

Remember = Callable[[Document, Scope], IndexingResult]

_LEFT_OUT = ("node_modules", "__pycache__", "site-packages")
_RULES_BYTES = 1_000_000


def index_path(
    remember: Remember,
    memory: MemoryManager,
    path: str | Path,
    *,
    scope: Scope,
    progress: Progress | None,
    prune: bool,
    limit_bytes: int,
) -> FolderReport:
    """Remember one file, or a folder with everything in it that can be read.

    One file that cannot be read raises; in a folder it is listed. Hidden
    files, symbolic links and what `.gitignore` names are left out. With
    `prune` the files that were remembered and are gone are forgotten.
    """
    if isinstance(path, str) and not path.strip():
        raise InvalidInput(
            "path", path, "is no path", remedy='Name a file or a folder; "." is this one.'
        )
    began = time.perf_counter()
    root = Path(require_path(path))
    try:
        root = root.resolve(strict=True)
    except (OSError, RuntimeError, ValueError):
        raise FileUnreadable(path, "is not there", remedy="Check the path.") from None
    found: list[IndexingResult] = []
    skipped: list[PassedOver] = []
    failed: list[PassedOver] = []
    if not root.is_dir():
        document = read_file(root, limit_bytes=limit_bytes)
        found.append(remember(document, scope))
    else:
        files = sorted(_walk(root, skipped))
        for number, file in enumerate(files):
            if progress:
                progress(number, len(files), file)
            try:
                found.append(remember(read_file(file, limit_bytes=limit_bytes), scope))
            except FileRefused as error:
                skipped.append(PassedOver(path=_name(file, root), reason=error.problem))
            except (AgentMemError, OSError) as error:
                failed.append(PassedOver(path=_name(file, root), reason=sound(str(error))))
        if progress:
            progress(len(files), len(files), root)
    vanished = _vanished(memory, root, scope)
    pruned = 0
    if prune:
        names = {name: getattr(scope, name) for name in type(scope).__slots__}
        pruned = sum(memory.remove_by_source_url(url, **names) for url in vanished)
    return FolderReport(
        root=sound(str(root)),
        results=tuple(found),
        skipped=tuple(skipped),
        failed=tuple(failed),
        vanished=vanished,
        pruned=pruned,
        duration_ms=round(1000 * (time.perf_counter() - began), 3),
    )


def _walk(root: Path, skipped: list[PassedOver]) -> Iterator[Path]:
    """The files below `root`; what is passed over is added to `skipped`."""
    waiting = [(root, _rules_above(root))]
    while waiting:
        folder, above = waiting.pop()
        rules = [*above, (folder, _rules_in(folder))]
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError as error:
            reason = f"cannot be listed: {error.strerror}"
            skipped.append(PassedOver(path=_name(folder, root), reason=reason))
            continue
        for entry in entries:
            path = folder / entry.name
            is_folder = entry.is_dir(follow_symlinks=False)
            reason = _reason_to_skip(entry, path, is_folder=is_folder, rules=rules)
            if reason:
                if reason != "hidden":
                    skipped.append(PassedOver(path=_name(path, root), reason=reason))
            elif is_folder:
                waiting.append((path, rules))
            else:
                yield path


def _reason_to_skip(
    entry: os.DirEntry[str],
    path: Path,
    *,
    is_folder: bool,
    rules: list[tuple[Path, tuple[IgnoreRule, ...]]],
) -> str:
    if entry.name.startswith("."):
        return "hidden"
    if entry.is_symlink():
        return "is a symbolic link"
    if is_folder and (entry.name in _LEFT_OUT or (path / "pyvenv.cfg").exists()):
        return "holds installed packages"
    if not is_folder and not entry.is_file(follow_symlinks=False):
        return "is not a file"
    for folder, own in reversed(rules):  # the nearest file that says anything decides
        said = says(path.relative_to(folder).as_posix(), is_folder=is_folder, rules=own)
        if said is not None:
            return "is in .gitignore" if said else ""
    return ""


def _rules_in(folder: Path) -> tuple[IgnoreRule, ...]:
    try:
        with open_file(folder / ".gitignore") as file:
            return read_ignore_rules(file.read(_RULES_BYTES).decode("utf-8", "replace"))
    except (OSError, FileRefused):
        return ()


def _rules_above(root: Path) -> list[tuple[Path, tuple[IgnoreRule, ...]]]:
    """The rules of the folders around `root`, up to the top of its repository if it is in one."""
    above: list[tuple[Path, tuple[IgnoreRule, ...]]] = []
    for folder in (root, *root.parents):
        if folder != root:
            above.insert(0, (folder, _rules_in(folder)))
        if (folder / ".git").exists():
            return above
    return []


def _vanished(memory: MemoryManager, root: Path, scope: Scope) -> tuple[str, ...]:
    """The addresses below `root` that this scope remembers and where no file is any more."""
    prefix = root.as_uri().rstrip("/") + "/"
    return tuple(
        source.url
        for source in memory.store.upkeep.sources(scope)
        if source.scope == scope
        and source.visibility == "private"
        and source.url.startswith(prefix)
        and not _is_there(source.url)
    )


def _is_there(url: str) -> bool:
    from urllib.parse import unquote_to_bytes

    try:
        return Path(os.fsdecode(unquote_to_bytes(url.removeprefix("file://")))).exists()
    except (OSError, ValueError):
        return False


def _name(path: Path, root: Path) -> str:
    return sound(str(path.relative_to(root))) if path != root else "."
