"""Shapes that recur in languages other than Python, from syntax trees as plain values."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from agentmem.core.living.patterns import (
    EXAMPLES,
    LEAST,
    LEAST_NODES,
    MOST_NODES,
    MOST_OF_A_SORT,
    TEMPLATE_CHARACTERS,
    Recurring,
)
from agentmem.core.living.records import Pattern
from agentmem.core.values import dataclass

LANGUAGES: Mapping[str, str] = {
    ".c": "c", ".cc": "cpp", ".cpp": "cpp", ".cs": "csharp", ".go": "go", ".h": "c",
    ".java": "java", ".js": "javascript", ".jsx": "javascript", ".kt": "kotlin", ".php": "php",
    ".rb": "ruby", ".rs": "rust", ".scala": "scala", ".swift": "swift", ".ts": "typescript",
    ".tsx": "tsx",
}  # fmt: skip
_FUNCTIONS = frozenset(
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
            elif node.sort in _FUNCTIONS and LEAST_NODES <= _size(node) <= MOST_NODES:
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
            of_sort.append(_recurring(sort, f"{what} in {language}{like}", places))
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


def _leaves(node: Node) -> Iterator[Node]:
    for at in walk(node):
        if not at.children and "comment" not in at.sort:
            yield at


def _name(node: Node) -> str:
    return next((leaf.text for leaf in _leaves(node) if "identifier" in leaf.sort), "")


def _recurring(sort: str, trigger: str, places: Sequence[tuple[str, Node]]) -> Recurring:
    files = tuple(dict.fromkeys(path for path, _ in places))
    return Recurring(
        pattern=Pattern(
            trigger=trigger,
            template=_template([node for _, node in places]),
            hint=f"{len(places)} times in {len(files)} files ({', '.join(files[:EXAMPLES])}).",
        ),
        sort=sort,
        times=len(places),
        files=files[:EXAMPLES],
    )


def _template(nodes: Sequence[Node]) -> str:
    """The first of the nodes with placeholders where the others differ from it.

    Spaces between words are as they were written, as far as positions tell.
    """
    columns = [list(_leaves(node)) for node in nodes]
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
