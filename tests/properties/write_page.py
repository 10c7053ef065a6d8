"""Write the tables of docs/properties.md from the tests that quote them.

python -m tests.properties.write_page
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "properties.md"
QUOTED = re.compile(r"([A-Z])(\d+) ([^.]+)\. (.*)", re.DOTALL)
SECTIONS = {
    "P": "The promises",
    "T": "Counting tokens",
    "C": "Text: cutting, chunks, content",
    "B": "Packages and budgets",
    "K": "The block",
    "S": "Time, citations, both legs",
    "R": "Words and ranking",
    "I": "Indexes",
    "D": "The store",
    "Q": "Turns and the loop",
    "A": "Wrapping what exists",
    "W": "Tool results and tools",
    "X": "Background work, pages, files, addresses",
    "E": "Web search",
    "N": "The inspector",
    "Y": "The command line",
    "M": "Programs that use a memory",
    "J": "Conflicts between statements",
    "L": "Living memory, decided",
    "G": "Living memory, done",
    "H": "Tiers, prediction and moving",
}


def main() -> None:
    intro = PAGE.read_text("utf-8").split("\n## ", 1)[0].rstrip()
    rows: dict[str, list[tuple[int, str]]] = {letter: [] for letter in SECTIONS}
    for file in sorted((ROOT / "tests" / "properties").glob("test_*.py")):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                quoted = QUOTED.match(ast.get_docstring(node) or "")
                if quoted:
                    rows[quoted[1]].append((int(quoted[2]), row_of(quoted, file.name)))
    parts = [intro]
    for letter, title in SECTIONS.items():
        if rows[letter]:
            table = "\n".join(row for _, row in sorted(rows[letter]))
            parts.append(
                f"## {title}\n\n| id | name | promise | test |\n|---|---|---|---|\n{table}"
            )
    PAGE.write_text("\n\n".join(parts) + "\n", "utf-8")


def row_of(quoted: re.Match[str], file: str) -> str:
    promise = " ".join(quoted[4].split()).replace("|", "\\|")
    link = f"[{file}](../tests/properties/{file})"
    return f"| {quoted[1]}{quoted[2]} | {quoted[3]} | {promise} | {link} |"


if __name__ == "__main__":
    main()
