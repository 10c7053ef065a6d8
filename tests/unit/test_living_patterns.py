"""Patterns read from code, and which files belong together."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

import agentmem
from agentmem.base.errors import FileRefused, FileUnreadable, InvalidNumber, MissingExtra
from agentmem.sources.patterns import (
    Node,
    Recurring,
    find_patterns,
    find_syntax_patterns,
    module_graph,
)
from agentmem.testing import HashEmbedder, ManualClock

SHOP = '''
"""Prices."""
from __future__ import annotations
from dataclasses import dataclass

@dataclass(frozen=True, slots=True)
class Price:
    amount: int

def load_price(name):
    """The price."""
    path = FOLDER / f"{name}.json"
    if not path.exists():
        raise NotFound("price", name, remedy="Add it.")
    return Price(**json.loads(path.read_text()))
'''


def modules(**sources: str) -> dict[str, ast.Module]:
    return {name.replace("__", "/") + ".py": ast.parse(text) for name, text in sources.items()}


def shop() -> dict[str, ast.Module]:
    return modules(
        a=SHOP,
        b=SHOP.replace("Price", "Order").replace("price", "order").replace("Add it", "Order it"),
        c=SHOP.replace("Price", "User").replace("price", "user"),
    )


def of_sort(found: tuple[Recurring, ...], sort: str) -> list[Recurring]:
    return [one for one in found if one.sort == sort]


def test_functions_that_differ_in_names_become_one_template() -> None:
    (one,) = of_sort(find_patterns(shop()), "function")
    assert one.times == 3
    assert "load_price, load_order, load_user" in one.pattern.trigger
    assert "def NAME_1(name):" in one.pattern.template
    assert "json.loads(path.read_text())" in one.pattern.template
    assert "The price" not in one.pattern.template
    ast.parse(one.pattern.template)


def test_how_errors_are_raised_keeps_what_is_always_the_same() -> None:
    (one,) = of_sort(find_patterns(shop()), "error")
    assert one.pattern.trigger == "raising NotFound"
    assert one.pattern.template == 'raise NotFound("<text>", name, remedy="<text>")'


def test_decorators_and_beginnings_are_conventions() -> None:
    found = find_patterns(shop())
    (decorators,) = of_sort(found, "decorators")
    assert decorators.pattern.template == "@dataclass(frozen=True, slots=True)\nclass <Name>:"
    assert any("from __future__" in one.pattern.template for one in of_sort(found, "module"))


def test_test_names_tell_their_style() -> None:
    sentences = "\n".join(f"def test_a_cart_of_{n}_things_is_not_empty(): pass" for n in range(4))
    (one,) = of_sort(find_patterns(modules(t=sentences)), "test names")
    assert one.pattern.template == "def test_<a_sentence_about_behaviour>(…):"
    short = "\n".join(f"def test_cart{n}(): pass" for n in range(4))
    (one,) = of_sort(find_patterns(modules(t=short)), "test names")
    assert one.pattern.template == "def test_<what_is_tested>(…):"


def test_bases_show_the_methods_all_have() -> None:
    text = "\n".join(
        f"class Handler{n}(Base):\n    def run(self): ...\n    def extra{n}(self): ..."
        for n in range(3)
    )
    (one,) = of_sort(find_patterns(modules(a=text)), "class")
    assert one.pattern.template == "class <Name>(Base):\n    def run(self, …): …"


def test_what_is_seen_twice_is_no_pattern() -> None:
    two = dict(list(shop().items())[:2])
    assert not of_sort(find_patterns(two), "function")
    assert of_sort(find_patterns(two, least=2), "function")
    assert find_patterns({}) == ()
    with pytest.raises(InvalidNumber):
        find_patterns({}, least=1)


def test_the_module_graph_knows_imports_both_ways() -> None:
    graph = module_graph(
        modules(
            src__shop__prices="import json",
            src__shop__orders="from shop.prices import Price\nfrom . import users",
            src__shop__users="from .prices import x",
            src__shop____init__="",
            tests__test_orders="import shop.orders as o",
        )
    )
    assert graph["src/shop/orders.py"] == (
        "src/shop/prices.py", "src/shop/users.py", "tests/test_orders.py",
    )  # fmt: skip
    assert set(graph["src/shop/prices.py"]) == {"src/shop/orders.py", "src/shop/users.py"}
    assert graph["tests/test_orders.py"][0] == "src/shop/orders.py"


def write(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def open_memory() -> agentmem.MemoryManager:
    return agentmem.open(":memory:", embedder=HashEmbedder(), clock=ManualClock())


def test_patterns_of_a_folder_are_remembered_and_replaced(tmp_path: Path) -> None:
    names = {"a": "price", "b": "order", "c": "user"}
    write(tmp_path, **{f"{k}_dot_py": SHOP.replace("price", v) for k, v in names.items()})
    write(tmp_path, bad_dot_py="def (:", _dot_venv__x_dot_py="import a", d_dot_py="import a")
    with open_memory() as memory:
        found = memory.sources.learn_patterns(tmp_path, user_id="ana")
        assert (found.files, found.related) == (4, 2)
        assert found.left_out == {"not Python": 1}
        kept = memory.get_all(kinds=["pattern"], user_id="ana")
        assert len(kept) == len(found.patterns) == len(found.ids) > 0
        assert memory.sources.learn_patterns(tmp_path, user_id="ana").unchanged
        context = memory.living.assemble_context(user_id="ana")
        assert "raise NotFound(" in context.text
        assert "[convention]" in context.text
        (tmp_path / "c.py").unlink()
        (tmp_path / "b.py").unlink()
        again = memory.sources.learn_patterns(tmp_path, user_id="ana")
        assert len(memory.get_all(kinds=["pattern"], user_id="ana")) == len(again.patterns)
        assert memory.get_all(kinds=["pattern"], user_id="bob") == ()


def test_what_holds_no_code_is_refused(tmp_path: Path) -> None:
    with open_memory() as memory:
        with pytest.raises(FileUnreadable):
            memory.sources.learn_patterns(tmp_path / "nowhere")
        with pytest.raises(FileRefused):
            memory.sources.learn_patterns(tmp_path)
        write(tmp_path, notes_dot_txt="x")
        with pytest.raises(FileRefused):
            memory.sources.learn_patterns(tmp_path / "notes.txt")


def test_other_languages_without_their_grammars_say_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "tree_sitter_language_pack", None)
    write(tmp_path, a_dot_js="function a() { return 1; }")
    with open_memory() as memory:
        with pytest.raises(MissingExtra, match="code"):
            memory.sources.learn_patterns(tmp_path)
        write(tmp_path, a_dot_py="x = 1")
        assert memory.sources.learn_patterns(tmp_path).left_out == {"needs tree-sitter": 1}


def leaf(sort: str, text: str, start: int) -> Node:
    return Node(sort=sort, text=text, start=start, end=start + len(text))


def function(name: str) -> Node:
    children = [leaf("function", "function", 0), leaf("identifier", name, 9)]
    at = 9 + len(name)
    for number in range(12):
        children += [leaf("identifier", f"{name}{number}", at), leaf(";", ";", at + 20)]
        at += 21
    return Node(sort="function_declaration", children=tuple(children), end=at)


def test_shapes_of_other_languages_are_found_in_plain_trees() -> None:
    files: dict[str, Any] = {f"{n}.js": ("javascript", function(n)) for n in ("one", "two", "six")}
    (found,) = find_syntax_patterns(files)
    assert found.times == 3
    assert found.pattern.trigger == "writing a function in javascript like one, six, two"
    assert found.pattern.template.startswith("function <NAME_1>")


def test_javascript_is_read_with_tree_sitter(tmp_path: Path) -> None:
    pytest.importorskip("tree_sitter_language_pack")
    code = (
        "export function loadNAME(id) {\n  const found = store.get(id);\n"
        '  if (!found) {\n    throw new NotFound("NAME", id);\n  }\n  return found;\n}\n'
    )
    for name in ("Price", "Order", "User"):
        (tmp_path / f"{name}.js").write_text(code.replace("NAME", name))
    with open_memory() as memory:
        found = memory.sources.learn_patterns(tmp_path)
        sorts = {one.sort: one.pattern.template for one in found.patterns}
        assert set(sorts) == {"function", "error"}
        assert "function <NAME_1>(id)" in sorts["function"]
        assert "throw new NotFound(" in sorts["error"]
