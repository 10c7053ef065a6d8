"""How large the package is: files, lines of code, classes, the largest folder, each room.

    python benchmarks/size.py [--json]

A line of code is one that holds a token other than a comment or a docstring, of a name too.
`make size` prints the same, so that growth stays seen.
"""

from __future__ import annotations

import argparse
import ast
import collections
import io
import json
import tokenize
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "agentmem"
_QUIET = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
    tokenize.ENCODING, tokenize.ENDMARKER,
}  # fmt: skip


def lines_of_code(text: str) -> int:
    """Lines with code on them; docstrings, comments and blank lines are none."""
    documented: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        value = node.value if isinstance(node, ast.Expr) else None
        if isinstance(value, ast.Constant) and isinstance(value.value, str):  # of a name, too
            documented |= set(range(value.lineno, (value.end_lineno or value.lineno) + 1))
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _QUIET:
            lines |= set(range(token.start[0], token.end[0] + 1))
    return len(lines - documented)


def measure(package: Path = PACKAGE) -> dict[str, object]:
    """The figures of all Python files below `package`."""
    folders: collections.Counter[str] = collections.Counter()
    rooms: dict[str, list[int]] = {}
    names: collections.Counter[str] = collections.Counter()
    sizes: dict[str, int] = {}
    for path in sorted(package.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        sizes[str(path.relative_to(package.parent))] = lines_of_code(text)
        folders[str(path.parent.relative_to(package.parent))] += 1
        room, *inside = path.relative_to(package).parts
        rooms.setdefault(room if inside else "", []).append(lines_of_code(text))
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ClassDef):
                names[node.name] += 1
    folder, files = folders.most_common(1)[0]
    return {
        "files": len(sizes),
        "lines_of_code": sum(sizes.values()),
        "classes": sum(names.values()),
        "names_of_several_classes": sorted(name for name, count in names.items() if count > 1),
        "rooms": {
            room: {"files": len(lines), "lines_of_code": sum(lines)}
            for room, lines in sorted(rooms.items(), key=lambda item: -sum(item[1]))
        },
        "largest_folder": {"name": folder, "files": files},
        "largest_files": dict(sorted(sizes.items(), key=lambda item: -item[1])[:5]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON")
    wanted = parser.parse_args()
    figures = measure()
    if wanted.json:
        print(json.dumps(figures, indent=2))
        return
    shared = figures["names_of_several_classes"]
    folder, files = figures["largest_folder"], figures["largest_files"]
    assert isinstance(shared, list)
    assert isinstance(folder, dict)
    assert isinstance(files, dict)
    rooms = figures["rooms"]
    assert isinstance(rooms, dict)
    print(f"files           {figures['files']:>7,}")
    print(f"lines of code   {figures['lines_of_code']:>7,}")
    print(f"classes         {figures['classes']:>7,}, {len(shared)} names shared by several")
    print(f"largest folder  {folder['files']:>7,} files in {folder['name']}/")
    for name, lines in files.items():
        print(f"                {lines:>7,} lines in {name}")
    print("rooms")
    for name, room in rooms.items():
        where = f"agentmem/{name}/" if name else "agentmem/*.py"
        print(
            f"                {room['lines_of_code']:>7,} lines, {room['files']} files in {where}"
        )


if __name__ == "__main__":
    main()
