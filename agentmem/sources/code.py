"""Learn from a folder of code: how things are written there, and which files belong together."""

from __future__ import annotations

import ast
import os
import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentmem.base.checks import require_path
from agentmem.base.errors import FileRefused, FileUnreadable, MissingExtra
from agentmem.base.types import EMPTY, Scope, content_hash
from agentmem.living.facts import to_memory_fields
from agentmem.search.intake import Maker, prepare_all
from agentmem.sources.files import open_file
from agentmem.sources.patterns import (
    LANGUAGES,
    Node,
    Recurring,
    find_patterns,
    find_syntax_patterns,
    module_graph,
)
from agentmem.stores.values import Source

if TYPE_CHECKING:
    from agentmem.living.predict import Predictions
    from agentmem.search.parts import Parts


MOST_FILES = 3_000
MOST_BYTES = 500_000
PYTHON = (".py", ".pyi")
_LEFT_OUT = {"node_modules", "__pycache__", "site-packages", "venv", "build", "dist"}
SOURCE = "code://"
"""Patterns of a folder are kept under this and the folder's path, and replaced together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnedPatterns:
    """What was learned from a folder, and what could not be read in it."""

    patterns: tuple[Recurring, ...] = ()
    ids: tuple[str, ...] = ()
    files: int = 0
    related: int = 0
    left_out: Mapping[str, int] = field(default_factory=lambda: EMPTY)
    unchanged: bool = False


def learn_patterns(
    memory: Parts,
    path: str | os.PathLike[str],
    *,
    scope: Scope,
    predictions: Callable[[], Predictions],
    languages: bool = True,
) -> LearnedPatterns:
    """Keep the patterns of a folder or file; those learned from it before are replaced.

    Python is read as it is. Other languages are read when tree-sitter is
    installed; a folder with nothing but those raises `MissingExtra` otherwise.
    """
    root = Path(require_path(path))
    try:
        root = root.resolve(strict=True)
    except (OSError, RuntimeError, ValueError):
        raise FileUnreadable(path, "is not there", remedy="Check the path.") from None
    modules: dict[str, ast.Module] = {}
    others: dict[str, tuple[str, bytes]] = {}
    left_out: Counter[str] = Counter()
    for file in _files(root):
        name = file.relative_to(root).as_posix() if root.is_dir() else file.name
        try:
            with open_file(file) as opened:
                data = opened.read(MOST_BYTES + 1)
            if len(data) > MOST_BYTES:
                left_out["too large"] += 1
            elif file.suffix in PYTHON:
                modules[name] = _parse(data.decode("utf-8-sig"))
            else:
                others[name] = (LANGUAGES[file.suffix], data.decode("utf-8-sig").encode())
        except UnicodeDecodeError:
            left_out["not UTF-8"] += 1
        except (OSError, FileRefused):
            left_out["not readable"] += 1
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            left_out["not Python"] += 1
    found = list(find_patterns(modules))
    if others and languages:
        try:
            found += find_syntax_patterns(_parse_others(others, left_out))
        except MissingExtra:
            if not modules:
                raise
            left_out["needs tree-sitter"] = len(others)
    if not modules and not others:
        raise FileRefused(root, "holds no code that can be read", remedy="Name a folder of code.")
    graph = module_graph(modules)
    if graph:
        predictions().relate(graph, scope)
    ids, unchanged = _keep(memory, found, f"{SOURCE}{root.as_posix()}", scope)
    return LearnedPatterns(
        patterns=tuple(found),
        ids=ids,
        files=len(modules) + len(others),
        related=len(graph),
        left_out=dict(left_out),
        unchanged=unchanged,
    )


def _keep(
    memory: Parts, found: list[Recurring], url: str, scope: Scope
) -> tuple[tuple[str, ...], bool]:
    """Put the patterns in the place of those the folder had, in one transaction."""
    now = memory.clock.now()
    maker = Maker(scope=scope, visibility="private", now=now, new_ids=memory.ids.take)
    made = []
    for number, recurring in enumerate(found):
        fields = to_memory_fields(recurring.pattern)
        metadata = {**fields.metadata, "sort": recurring.sort, "times": recurring.times}
        made.append(
            maker.memory(
                fields.text, kind=fields.kind, title=fields.title[:300], origin="import",
                source_url=url, position=number, metadata=metadata,
            )
        )  # fmt: skip
    digest = content_hash("\n\n".join(m.text for m in made))
    source = Source(url=url, title="code patterns", content_hash=digest, scope=scope)
    entries = prepare_all(made, memory.embedding.embed(made)) if made else []
    report = memory.store.replace_source(source, entries, at=now)
    if report.unchanged:
        return tuple(m.id for m in memory.store.search_by_source_url(scope, url)), True
    return tuple(m.id for m in made), False


def _files(root: Path) -> list[Path]:
    """The code files of a folder, in order; hidden folders and links are left out."""
    if not root.is_dir():
        if root.suffix not in (*PYTHON, *LANGUAGES):
            raise FileRefused(root, "is no code that can be read", remedy="Name a source file.")
        return [root]
    found: list[Path] = []
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(f for f in folders if not f.startswith(".") and f not in _LEFT_OUT)
        for name in sorted(names):
            file = Path(folder, name)
            if file.suffix in (*PYTHON, *LANGUAGES) and not file.is_symlink():
                found.append(file)
        if len(found) > MOST_FILES:
            break
    return found[:MOST_FILES]


def _parse(text: str) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(text)


def _parse_others(
    files: Mapping[str, tuple[str, bytes]], left_out: Counter[str]
) -> dict[str, tuple[str, Node]]:
    """Syntax trees by tree-sitter, as plain values."""
    try:
        from tree_sitter_language_pack import get_parser
    except ImportError:
        raise MissingExtra(
            "tree-sitter-language-pack", extra="code", purpose="Reading other languages than Python"
        ) from None

    parsed: dict[str, tuple[str, Node]] = {}
    for name, (language, data) in files.items():
        try:
            parsed[name] = (language, _node(get_parser(language).parse(data).root_node, data, 0))
        except Exception:  # noqa: BLE001 - releases differ in what they raise without a grammar
            left_out[f"no {language} grammar"] += 1
    return parsed


DEEPEST = 400


def _node(node: Any, data: bytes, depth: int) -> Node:
    """A tree as plain values; what is nested deeper than any code is left out."""
    start, end = node.start_byte, node.end_byte
    if not node.child_count or depth >= DEEPEST:
        text = data[start:end].decode("utf-8", "replace")
        return Node(sort=node.type, text=text, start=start, end=end)
    children = tuple(_node(child, data, depth + 1) for child in node.children)
    return Node(sort=node.type, children=children, start=start, end=end)
