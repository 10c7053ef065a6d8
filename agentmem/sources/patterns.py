"""How code is written here: shapes that recur, and which files belong together.

Everything is read from syntax trees that somebody else parsed; names, numbers
and texts that differ between the places become placeholders, what is the same
everywhere stays.
"""

from __future__ import annotations

import ast
import copy
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentmem.base.checks import require_count
from agentmem.living.facts import Pattern
from agentmem.living.predict import plain_path

LEAST = 3
"""A shape recurs when it is seen this often."""
MOST_PATTERNS = 40
MOST_OF_A_SORT = 10
LEAST_NODES = 25
MOST_NODES = 400
TEMPLATE_CHARACTERS = 1_500
EXAMPLES = 3
_TEST = re.compile(r"tests?[_A-Z]\w*\Z")
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True, kw_only=True)
class Recurring:
    """A pattern, how often it was seen, and where."""

    pattern: Pattern
    sort: str
    times: int
    files: tuple[str, ...] = ()


def find_patterns(
    modules: Mapping[str, ast.Module], *, least: int = LEAST
) -> tuple[Recurring, ...]:
    """The shapes seen `least` times or more in Python modules, the most frequent of a sort first.

    Sorts: how errors are raised, decorators that go together, what classes are
    built on, how tests are named, how modules begin, and functions that differ
    in names and values only.
    """
    require_count(least, "least", least=2)
    ordered = {path: modules[path] for path in sorted(modules)}
    found: list[Recurring] = []
    for sort in (_raises, _decorators, _bases, _test_names, _beginnings, _skeletons):
        of_sort = sorted(sort(ordered, least), key=lambda r: (-r.times, r.pattern.trigger))
        found += of_sort[:MOST_OF_A_SORT]
    return tuple(found[:MOST_PATTERNS])


def module_graph(modules: Mapping[str, ast.Module]) -> dict[str, tuple[str, ...]]:
    """For each file the files it imports and those that import it, among those given."""
    by_name: dict[str, str] = {}
    for path in sorted(modules):
        for name in _module_names(path):
            by_name.setdefault(name, path)
    near: dict[str, dict[str, None]] = {path: {} for path in sorted(modules)}
    for path, tree in sorted(modules.items()):
        for name in _imported(path, tree):
            other = by_name.get(name)
            if other is not None and other != path:
                near[path][other] = None
                near[other][path] = None
    return {path: tuple(others) for path, others in near.items() if others}


# -- what files import -----------------------------------------------------------------


def _module_names(path: str) -> Iterator[str]:
    """The names a file can be imported by, whichever folder the path begins at."""
    parts = plain_path(path).removesuffix(".pyi").removesuffix(".py").split("/")
    if parts[-1] == "__init__":
        parts = parts[:-1]
    for at in range(len(parts)):
        if all(part.isidentifier() for part in parts[at:]):
            yield ".".join(parts[at:])


def _imported(path: str, tree: ast.Module) -> Iterator[str]:
    package = plain_path(path).removesuffix(".py").split("/")[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _with_parents(alias.name)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package[: len(package) - node.level + 1]
                base = ".".join([*above, *([base] if base else [])])
            for alias in node.names:
                yield f"{base}.{alias.name}" if base else alias.name
            if base:
                yield base


def _with_parents(name: str) -> Iterator[str]:
    yield name
    if "." in name:
        yield name.rpartition(".")[0]


# -- shapes that recur -----------------------------------------------------------------


def _raises(modules: Mapping[str, ast.Module], least: int) -> Iterator[Recurring]:
    seen: dict[tuple[object, ...], list[tuple[str, ast.Raise]]] = defaultdict(list)
    for path, node in _nodes(modules, ast.Raise):
        call = node.exc
        if isinstance(call, ast.Call) and not any(isinstance(a, ast.Starred) for a in call.args):
            keywords = tuple(sorted(k.arg or "**" for k in call.keywords))
            seen[ast.unparse(call.func), len(call.args), keywords].append((path, node))
    for (name, *_), places in seen.items():
        if len(places) >= least:
            template = _raise_template([node.exc for _, node in places])
            yield _recurring(
                "error", f"raising {name}", template, [path for path, _ in places],
                "How errors are raised here",
            )  # fmt: skip


def _raise_template(calls: Sequence[Any]) -> str:
    """`raise` with the arguments that are the same everywhere, and what stands for the others."""
    first = calls[0]
    given = [_argument([call.args[at] for call in calls]) for at in range(len(first.args))]
    for name in sorted(keyword.arg for keyword in first.keywords if keyword.arg):
        values = [k.value for call in calls for k in call.keywords if k.arg == name]
        given.append(f"{name}={_argument(values)}")
    return f"raise {ast.unparse(first.func)}({', '.join(given)})"


def _argument(values: Sequence[ast.expr]) -> str:
    written = {ast.unparse(value) for value in values}
    if len(written) == 1:
        return written.pop()
    said = sum(
        isinstance(value, ast.JoinedStr)
        or (isinstance(value, ast.Constant) and isinstance(value.value, str))
        for value in values
    )
    return '"<text>"' if said >= 0.6 * len(values) else "<value>"


def _decorators(modules: Mapping[str, ast.Module], least: int) -> Iterator[Recurring]:
    seen: dict[tuple[str, tuple[str, ...]], list[tuple[str, str]]] = defaultdict(list)
    for path, node in _nodes(modules, (*_FUNCTIONS, ast.ClassDef)):
        written = tuple(ast.unparse(decorator) for decorator in node.decorator_list)
        together = len(written) > 1 or any("(" in one for one in written)
        if together:
            sort = "class" if isinstance(node, ast.ClassDef) else "function"
            seen[sort, written].append((path, node.name))
    for (sort, written), places in seen.items():
        if len({name for _, name in places}) >= least:
            lines = [f"@{one}" for one in written]
            head = "class <Name>:" if sort == "class" else "def <name>(…):"
            yield _recurring(
                "decorators", f"writing a {sort} with @{written[0].partition('(')[0]}",
                "\n".join([*lines, head]), [path for path, _ in places],
                f"As on {_listed(name for _, name in places)}",
            )  # fmt: skip


def _bases(modules: Mapping[str, ast.Module], least: int) -> Iterator[Recurring]:
    seen: dict[str, list[tuple[str, ast.ClassDef]]] = defaultdict(list)
    for path, node in _nodes(modules, ast.ClassDef):
        if node.bases:
            seen[", ".join(ast.unparse(base) for base in node.bases)].append((path, node))
    for bases, places in seen.items():
        if len({node.name for _, node in places}) < least:
            continue
        methods: Counter[str] = Counter()
        for _, node in places:
            methods.update({item.name for item in node.body if isinstance(item, _FUNCTIONS)})
        shared = [name for name, times in methods.items() if times >= 0.8 * len(places)]
        body = [f"    def {name}(self, …): …" for name in sorted(shared)] or ["    …"]
        yield _recurring(
            "class", f"writing a class of {bases}",
            "\n".join([f"class <Name>({bases}):", *body]), [path for path, _ in places],
            f"As in {_listed(node.name for _, node in places)}",
        )  # fmt: skip


def _test_names(modules: Mapping[str, ast.Module], least: int) -> Iterator[Recurring]:
    names = [
        (path, node.name)
        for path, node in _nodes(modules, _FUNCTIONS)
        if _TEST.match(node.name) and len(node.name) > len("test_")
    ]
    if len(names) < least:
        return
    lengths = [len(name.split("_")) - 1 for _, name in names]
    usual = sorted(lengths)[(len(lengths) - 1) // 2]
    snake = sum("_" in name for _, name in names) >= len(names) / 2
    if not snake:
        template = "def test<WhatIsTested>(…):"
    elif usual >= 5:
        template = "def test_<a_sentence_about_behaviour>(…):"
    else:
        template = "def test_<what_is_tested>(…):"
    yield _recurring(
        "test names", "naming a test", template, [path for path, _ in names],
        f"About {usual} words, as {_listed(name for _, name in names)}",
    )  # fmt: skip


def _beginnings(modules: Mapping[str, ast.Module], least: int) -> Iterator[Recurring]:
    """The lines that most modules begin with."""
    written: Counter[str] = Counter()
    full = {path: tree for path, tree in modules.items() if tree.body}
    for tree in full.values():
        heads = (
            tree.body[1:4] if ast.get_docstring(tree, clean=False) is not None else tree.body[:3]
        )
        written.update(
            {ast.unparse(node) for node in heads if isinstance(node, ast.Import | ast.ImportFrom)}
        )
    for line, times in written.items():
        if times >= least and times >= 0.6 * len(full):
            texts = sum(ast.get_docstring(tree) is not None for tree in full.values())
            first = '"""What this module gives."""\n\n' if texts >= 0.6 * len(full) else ""
            yield Recurring(
                pattern=Pattern(
                    trigger="beginning a module", template=f"{first}{line}",
                    hint=f"{times} of {len(full)} modules begin so",
                ),
                sort="module", times=times, files=tuple(list(full)[:EXAMPLES]),
            )  # fmt: skip


def _skeletons(modules: Mapping[str, ast.Module], least: int) -> Iterator[Recurring]:
    seen: dict[str, list[tuple[str, Function]]] = defaultdict(list)
    for path, node in _nodes(modules, _FUNCTIONS):
        size = sum(1 for _ in ast.walk(node))
        if LEAST_NODES <= size <= MOST_NODES and not _TEST.match(node.name):
            seen[_shape(_without_docstring(node))].append((path, node))
    for places in seen.values():
        names = {node.name for _, node in places}
        if len(names) < least:
            continue
        template = _template([_without_docstring(node) for _, node in places])
        listed = _listed(node.name for _, node in places)
        yield _recurring(
            "function", f"writing a function like {listed}", template,
            [path for path, _ in places], f"{len(places)} functions have this shape",
        )  # fmt: skip


# -- templates -------------------------------------------------------------------------

_HELD = ("id", "attr", "arg", "name", "value", "module", "asname")
"""The fields of nodes that hold names and values."""


def _shape(node: ast.AST) -> str:
    """A tree without its names and values, as text that is equal for equal shapes."""
    parts: list[str] = []

    def walk(at: ast.AST) -> None:
        parts.append(type(at).__name__)
        if isinstance(at, ast.Constant):
            parts.append(type(at.value).__name__)
        for name, value in ast.iter_fields(at):
            if name in ("type_comment", "kind", "ctx"):
                continue
            if isinstance(value, ast.AST):
                walk(value)
            elif isinstance(value, list):
                parts.append(f"{name}[")
                for item in value:
                    if isinstance(item, ast.AST):
                        walk(item)
                parts.append("]")
        parts.append(")")

    walk(node)
    return " ".join(parts)


def _without_docstring(node: Function) -> Function:
    if ast.get_docstring(node, clean=False) is None or len(node.body) < 2:
        return node
    fields = dict(ast.iter_fields(node)) | {"body": node.body[1:]}
    return type(node)(**fields)


def _template(nodes: Sequence[ast.AST]) -> str:
    """The nodes, equal in shape, as one text with placeholders where they differ.

    The same difference has the same placeholder. Where shapes differ after
    all, the first one stands for all.
    """
    columns = [list(_leaves(node)) for node in nodes]
    first = columns[0]
    if any(len(column) != len(first) for column in columns):
        return ast.unparse(nodes[0])[:TEMPLATE_CHARACTERS]
    names: dict[tuple[object, ...], str] = {}
    shown = copy.deepcopy(nodes[0])
    for at, (owner, field, value) in enumerate(list(_leaves(shown))):
        values = tuple(repr(column[at][2]) for column in columns)
        constant = isinstance(owner, ast.Constant)
        if len(set(values)) > 1:
            sort = "VALUE" if constant else "NAME"
            if (sort, *values) not in names:
                number = sum(name.startswith(sort) for name in names.values()) + 1
                names[(sort, *values)] = f"{sort}_{number}"
            name = names[(sort, *values)]
        elif isinstance(value, str) and len(value) > 80:
            name = "TEXT"
        else:
            continue
        quoted = f"<{name}>" if isinstance(value, str) else _Bare(name)
        setattr(owner, field, quoted if constant else name)
    return ast.unparse(ast.fix_missing_locations(shown))[:TEMPLATE_CHARACTERS]


class _Bare(str):
    """A placeholder that is written without quotes."""

    __slots__ = ()
    __repr__ = str.__str__


def _leaves(node: ast.AST) -> Iterator[tuple[ast.AST, str, object]]:
    """The names and values of a tree, in its order."""
    for name, value in ast.iter_fields(node):
        if isinstance(value, ast.AST):
            yield from _leaves(value)
        elif isinstance(value, list):
            for item in value:
                if isinstance(item, ast.AST):
                    yield from _leaves(item)
        elif name in _HELD:
            yield node, name, value


# -- inside ----------------------------------------------------------------------------


def _nodes(
    modules: Mapping[str, ast.Module], wanted: type | tuple[type, ...]
) -> Iterator[tuple[str, Any]]:
    for path, tree in modules.items():
        for node in ast.walk(tree):
            if isinstance(node, wanted):
                yield path, node


def _recurring(
    sort: str, trigger: str, template: str, paths: Sequence[str], hint: str = ""
) -> Recurring:
    files = tuple(dict.fromkeys(paths))
    where = ", ".join(files[:EXAMPLES])
    return Recurring(
        pattern=Pattern(
            trigger=trigger,
            template=template[:TEMPLATE_CHARACTERS],
            hint=f"{hint}{'; ' if hint else ''}{len(paths)} times in {len(files)} files ({where}).",
        ),
        sort=sort,
        times=len(paths),
        files=files[:EXAMPLES],
    )


def _listed(names: Iterable[str]) -> str:
    return ", ".join(list(dict.fromkeys(names))[:EXAMPLES])


# ----------------------------------------------------------------------------
# Shapes that recur in languages other than Python, from syntax trees as plain values.


LANGUAGES: Mapping[str, str] = {
    ".c": "c", ".cc": "cpp", ".cpp": "cpp", ".cs": "csharp", ".go": "go", ".h": "c",
    ".java": "java", ".js": "javascript", ".jsx": "javascript", ".kt": "kotlin", ".php": "php",
    ".rb": "ruby", ".rs": "rust", ".scala": "scala", ".swift": "swift", ".ts": "typescript",
    ".tsx": "tsx",
}  # fmt: skip
_SYNTAX_FUNCTIONS = frozenset(
    {
        "arrow_function", "constructor_declaration", "function_declaration",
        "function_definition", "function_item", "generator_function_declaration", "method",
        "method_declaration", "method_definition",
    }
)  # fmt: skip
_ERRORS = frozenset({"raise_statement", "throw_expression", "throw_statement"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node of a syntax tree: its sort, its own text if it has no children, and those.

    `start` and `end` are positions in the text it was parsed from.
    """

    sort: str
    text: str = ""
    children: tuple[Node, ...] = ()
    start: int = 0
    end: int = 0


def find_syntax_patterns(files: Mapping[str, tuple[str, Node]]) -> tuple[Recurring, ...]:
    """Functions that differ in names and values only, and how errors are thrown."""
    functions: dict[tuple[str, str], list[tuple[str, Node]]] = defaultdict(list)
    errors: dict[tuple[str, str], list[tuple[str, Node]]] = defaultdict(list)
    for path in sorted(files):
        language, tree = files[path]
        for node in walk(tree):
            if node.sort in _ERRORS:
                errors[language, shape(node)].append((path, node))
            elif node.sort in _SYNTAX_FUNCTIONS and LEAST_NODES <= _size(node) <= MOST_NODES:
                functions[language, shape(node)].append((path, node))
    found: list[Recurring] = []
    for sort, seen in (("error", errors), ("function", functions)):
        of_sort = []
        for (language, _), places in seen.items():
            names = tuple(dict.fromkeys(_name(node) for _, node in places))
            if len(places) < LEAST or (sort == "function" and len(names) < LEAST):
                continue
            what = "throwing an error" if sort == "error" else "writing a function"
            like = f" like {', '.join(filter(None, names[:EXAMPLES]))}" if any(names) else ""
            template = _syntax_template([node for _, node in places])
            paths = [path for path, _ in places]
            of_sort.append(_recurring(sort, f"{what} in {language}{like}", template, paths))
        of_sort.sort(key=lambda one: (-one.times, one.pattern.trigger))
        found += of_sort[:MOST_OF_A_SORT]
    return tuple(found)


def walk(node: Node) -> Iterator[Node]:
    """A node and all below it."""
    waiting = [node]
    while waiting:
        at = waiting.pop()
        yield at
        waiting += reversed(at.children)


def shape(node: Node) -> str:
    """A tree without names and values; comments are no part of a shape."""
    if not node.children:
        return node.text if not _varies(node) else node.sort
    inner = " ".join(shape(child) for child in node.children if "comment" not in child.sort)
    return f"({node.sort} {inner})"


def _size(node: Node) -> int:
    return sum(1 for _ in walk(node))


def _varies(leaf: Node) -> bool:
    """Whether a leaf is a name or a value; keywords and signs are not."""
    return leaf.sort != leaf.text and bool(leaf.text) and any(map(str.isalnum, leaf.text))


def _syntax_leaves(node: Node) -> Iterator[Node]:
    for at in walk(node):
        if not at.children and "comment" not in at.sort:
            yield at


def _name(node: Node) -> str:
    return next((leaf.text for leaf in _syntax_leaves(node) if "identifier" in leaf.sort), "")


def _syntax_template(nodes: Sequence[Node]) -> str:
    """The first of the nodes with placeholders where the others differ from it.

    Spaces between words are as they were written, as far as positions tell.
    """
    columns = [list(_syntax_leaves(node)) for node in nodes]
    if any(len(column) != len(columns[0]) for column in columns):
        columns = columns[:1]
    names: dict[tuple[str, ...], str] = {}
    written = ""
    end = columns[0][0].start if columns[0] else 0
    for at, leaf in enumerate(columns[0]):
        values = tuple(column[at].text for column in columns)
        text = leaf.text
        if len(set(values)) > 1:
            text = names.setdefault(values, f"<NAME_{len(names) + 1}>")
        gap = leaf.start - end
        written += ("\n" if gap > 1 else " " if gap else "") + text
        end = leaf.end
    return written[:TEMPLATE_CHARACTERS]
