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
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

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
K = TypeVar("K", bound=Hashable)


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
        found += _most_frequent(sort(ordered, least))
    return tuple(found[:MOST_PATTERNS])


def _most_frequent(found: Iterable[Recurring]) -> list[Recurring]:
    return sorted(found, key=lambda r: (-r.times, r.pattern.trigger))[:MOST_OF_A_SORT]


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
                yield from (alias.name, alias.name.rpartition(".")[0])
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = [*above, *([node.module] if node.module else [])]
            yield from (".".join([*base, alias.name]) for alias in node.names)
            yield ".".join(base)


# -- shapes that recur -----------------------------------------------------------------


def _raises(modules: Mapping[str, ast.Module], least: int) -> Iterator[Recurring]:
    def call_of(node: ast.Raise) -> tuple[str, int, tuple[str, ...]] | None:
        call = node.exc
        if not isinstance(call, ast.Call) or any(isinstance(a, ast.Starred) for a in call.args):
            return None
        keywords = tuple(sorted(k.arg or "**" for k in call.keywords))
        return ast.unparse(call.func), len(call.args), keywords

    for (name, *_), paths, nodes in _alike(modules, ast.Raise, call_of, least):
        template = _raise_template([node.exc for node in nodes])
        yield _recurring("error", f"raising {name}", template, paths, "How errors are raised here")


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
    def decorated(node: Function | ast.ClassDef) -> tuple[str, ...] | None:
        written = [ast.unparse(decorator) for decorator in node.decorator_list]
        if len(written) < 2 and not any("(" in one for one in written):
            return None
        return ("class" if isinstance(node, ast.ClassDef) else "function", *written)

    for key, paths, nodes in _alike(modules, (*_FUNCTIONS, ast.ClassDef), decorated, least):
        sort, *written = key
        head = "class <Name>:" if sort == "class" else "def <name>(…):"
        template = "\n".join([*(f"@{one}" for one in written), head])
        trigger = f"writing a {sort} with @{written[0].partition('(')[0]}"
        yield _recurring("decorators", trigger, template, paths, f"As on {_listed(nodes)}")


def _bases(modules: Mapping[str, ast.Module], least: int) -> Iterator[Recurring]:
    def built_on(node: ast.ClassDef) -> str | None:
        return ", ".join(ast.unparse(base) for base in node.bases) or None

    for bases, paths, nodes in _alike(modules, ast.ClassDef, built_on, least):
        methods: Counter[str] = Counter()
        for node in nodes:
            methods.update({item.name for item in node.body if isinstance(item, _FUNCTIONS)})
        shared = [name for name, times in methods.items() if times >= 0.8 * len(nodes)]
        body = [f"    def {name}(self, …): …" for name in sorted(shared)] or ["    …"]
        template = "\n".join([f"class <Name>({bases}):", *body])
        yield _recurring(
            "class", f"writing a class of {bases}", template, paths, f"As in {_listed(nodes)}"
        )


def _test_names(modules: Mapping[str, ast.Module], least: int) -> Iterator[Recurring]:
    def is_test(node: Function) -> str | None:
        return "test" if _TEST.match(node.name) and len(node.name) > len("test_") else None

    for _, paths, nodes in _alike(modules, _FUNCTIONS, is_test, 1):
        if len(nodes) < least:
            continue
        lengths = sorted(len(node.name.split("_")) - 1 for node in nodes)
        usual = lengths[(len(lengths) - 1) // 2]
        if sum("_" in node.name for node in nodes) < len(nodes) / 2:
            template = "def test<WhatIsTested>(…):"
        elif usual >= 5:
            template = "def test_<a_sentence_about_behaviour>(…):"
        else:
            template = "def test_<what_is_tested>(…):"
        hint = f"About {usual} words, as {_listed(nodes)}"
        yield _recurring("test names", "naming a test", template, paths, hint)


def _beginnings(modules: Mapping[str, ast.Module], least: int) -> Iterator[Recurring]:
    """The lines that most modules begin with."""
    full = {path: tree for path, tree in modules.items() if tree.body}
    texts = {
        path for path, tree in full.items() if ast.get_docstring(tree, clean=False) is not None
    }
    written: Counter[str] = Counter()
    for path, tree in full.items():
        heads = tree.body[1:4] if path in texts else tree.body[:3]
        written.update(
            {ast.unparse(node) for node in heads if isinstance(node, ast.Import | ast.ImportFrom)}
        )
    first = '"""What this module gives."""\n\n' if len(texts) >= 0.6 * len(full) else ""
    for line, times in written.items():
        if times >= least and times >= 0.6 * len(full):
            hint = f"{times} of {len(full)} modules begin so"
            pattern = Pattern(trigger="beginning a module", template=f"{first}{line}", hint=hint)
            files = tuple(list(full)[:EXAMPLES])
            yield Recurring(pattern=pattern, sort="module", times=times, files=files)


def _skeletons(modules: Mapping[str, ast.Module], least: int) -> Iterator[Recurring]:
    def shape_of(node: Function) -> tuple[object, ...] | None:
        size = sum(1 for _ in ast.walk(node))
        fits = LEAST_NODES <= size <= MOST_NODES and not _TEST.match(node.name)
        return _shape(_without_docstring(node)) if fits else None

    for _, paths, nodes in _alike(modules, _FUNCTIONS, shape_of, least):
        template = _template([_without_docstring(node) for node in nodes])
        hint = f"{len(nodes)} functions have this shape"
        trigger = f"writing a function like {_listed(nodes)}"
        yield _recurring("function", trigger, template, paths, hint)


# -- templates -------------------------------------------------------------------------

_HELD = ("id", "attr", "arg", "name", "value", "module", "asname")
"""The fields of nodes that hold names and values."""


def _shape(node: ast.AST) -> tuple[object, ...]:
    """A tree without its names and values, equal for equal shapes."""
    inner: list[object] = [type(node)]
    if isinstance(node, ast.Constant):
        inner.append(type(node.value))
    for name, value in ast.iter_fields(node):
        if isinstance(value, ast.AST) and name != "ctx":
            inner.append(_shape(value))
        elif isinstance(value, list):
            inner.append(tuple(_shape(item) for item in value if isinstance(item, ast.AST)))
    return tuple(inner)


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


def _alike(
    modules: Mapping[str, ast.Module],
    wanted: type | tuple[type, ...],
    key_of: Callable[[Any], K | None],
    least: int,
) -> Iterator[tuple[K, list[str], list[Any]]]:
    """The `wanted` nodes with one key, and their files, where they have `least` names or more.

    Those without a key are passed over; of nodes without a name each counts.
    """
    seen: dict[K, list[tuple[str, Any]]] = defaultdict(list)
    for path, tree in modules.items():
        for node in ast.walk(tree):
            if isinstance(node, wanted) and (key := key_of(node)) is not None:
                seen[key].append((path, node))
    for key, places in seen.items():
        paths, nodes = [path for path, _ in places], [node for _, node in places]
        if len({getattr(node, "name", at) for at, node in enumerate(nodes)}) >= least:
            yield key, paths, nodes


def _recurring(
    sort: str, trigger: str, template: str, paths: Sequence[str], hint: str = ""
) -> Recurring:
    files = tuple(dict.fromkeys(paths))
    where = ", ".join(files[:EXAMPLES])
    told = f"{hint}{'; ' if hint else ''}{len(paths)} times in {len(files)} files ({where})."
    pattern = Pattern(trigger=trigger, template=template[:TEMPLATE_CHARACTERS], hint=told)
    return Recurring(pattern=pattern, sort=sort, times=len(paths), files=files[:EXAMPLES])


def _listed(nodes: Iterable[Any]) -> str:
    return ", ".join(list(dict.fromkeys(node.name for node in nodes))[:EXAMPLES])


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
    seen: dict[tuple[str, str, str], list[tuple[str, Node]]] = defaultdict(list)
    for path, (language, tree) in sorted(files.items()):
        for node in walk(tree):
            if node.sort in _ERRORS:
                seen["error", language, shape(node)].append((path, node))
            elif node.sort in _SYNTAX_FUNCTIONS and LEAST_NODES <= _size(node) <= MOST_NODES:
                seen["function", language, shape(node)].append((path, node))
    found: dict[str, list[Recurring]] = {"error": [], "function": []}
    for (sort, language, _), places in seen.items():
        names = tuple(dict.fromkeys(_name(node) for _, node in places))
        if len(places if sort == "error" else names) < LEAST:
            continue
        what = "throwing an error" if sort == "error" else "writing a function"
        like = f" like {', '.join(filter(None, names[:EXAMPLES]))}" if any(names) else ""
        template = _syntax_template([node for _, node in places])
        paths = [path for path, _ in places]
        found[sort].append(_recurring(sort, f"{what} in {language}{like}", template, paths))
    return tuple(one for of_sort in found.values() for one in _most_frequent(of_sort))


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
