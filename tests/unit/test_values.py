"""`dataclass` of the core does what the standard library's does, only later."""

from __future__ import annotations

import ast
import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentmem.core import values

ROOT = Path(__file__).resolve().parents[2]
NAMES = ("a", "b", "self_", "made", "default", "x1", "_private")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Shape:
    """A class to be defined twice."""

    fields: tuple[tuple[str, str, bool, bool], ...]
    options: dict[str, bool]

    def define(self, dataclass: Callable[..., Any]) -> Any:
        body: dict[str, Any] = {"__doc__": "Some value.", "__annotations__": {}}
        for name, kind, compared, shown in self.fields:
            flags: dict[str, Any] = {"compare": compared, "repr": shown}
            body["__annotations__"][name] = "Any"
            if kind == "default":
                body[name] = dataclasses.field(default=(name, 1), **flags)
            elif kind == "made":
                body[name] = dataclasses.field(default_factory=tuple, **flags)
            elif kind == "fixed":
                body[name] = dataclasses.field(default=7, init=False, **flags)
            else:
                body[name] = dataclasses.field(**flags)
        return dataclass(slots=True, **self.options)(type("Some", (), body))


def ordered(fields: list[tuple[str, str, bool, bool]]) -> list[tuple[str, str, bool, bool]]:
    """Those without a default first, as positional parameters need it."""
    return sorted(fields, key=lambda field: field[1] != "given")


SHAPES = st.builds(
    Shape,
    fields=st.lists(
        st.tuples(
            st.sampled_from(NAMES),
            st.sampled_from(("given", "default", "made", "fixed")),
            st.booleans(),
            st.booleans(),
        ),
        unique_by=lambda field: field[0],
    )
    .map(ordered)
    .map(tuple),
    options=st.fixed_dictionaries(
        {"frozen": st.booleans(), "kw_only": st.booleans(), "eq": st.booleans()}
    ),
)


def outcome(call: Callable[[], Any]) -> Any:
    """What a call gives, or how it fails."""
    try:
        return call()
    except Exception as error:  # noqa: BLE001 - the failure is what is compared
        return type(error), str(error)


@given(shape=SHAPES, numbers=st.lists(st.integers(0, 1), min_size=14, max_size=14))
def test_a_class_behaves_as_the_standard_librarys(shape: Shape, numbers: list[int]) -> None:
    ours, theirs = shape.define(values.dataclass), shape.define(dataclasses.dataclass)
    given_names = [name for name, kind, *_ in shape.fields if kind in ("given", "default")]
    first = dict(zip(given_names, numbers, strict=False))
    second = dict(zip(given_names, numbers[7:], strict=False))

    def seen(cls: Any) -> list[Any]:
        one, other = cls(**first), cls(**second)
        kept = [getattr(one, name) for name, *_ in shape.fields]
        known = {one} if cls.__hash__ is not None else set()
        return [
            repr(one), one == other, one == cls(**first), one != other, one == kept,
            cls.__hash__ is None or one in known,
            shape.options["eq"] and shape.options["frozen"] and cls(**first) in known,
            dataclasses.asdict(one), cls.__match_args__, str(inspect.signature(cls)),
            [(f.name, f.init, f.compare) for f in dataclasses.fields(cls)],
            repr(dataclasses.replace(one, **second)), repr(copy.copy(one)),
            repr(copy.deepcopy(one)), repr(cls.__dataclass_params__), kept,
            outcome(lambda: cls(unknown=1)), outcome(lambda: cls(*numbers)),
            outcome(cls) if given_names and shape.fields[0][1] == "given" else None,
            *(outcome(partial(setattr, one, name, 5)) for name, *_ in shape.fields),
            *(outcome(partial(delattr, one, name)) for name, *_ in shape.fields),
        ]  # fmt: skip

    assert seen(ours) == seen(theirs)


@values.dataclass(frozen=True, slots=True, kw_only=True)
class Point:  # noqa: PLW1641 - the decorator hashes what is frozen
    """A value that checks itself and compares in its own way."""

    x: int
    y: int = 0

    def __post_init__(self) -> None:
        if self.x < 0:
            raise ValueError("x is negative")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Point) and other.x == self.x

    def __repr__(self) -> str:
        return f"<{self.x}>"


def test_what_a_class_defines_itself_stays() -> None:
    assert Point(x=1, y=2) == Point(x=1, y=3)
    assert repr(Point(x=1)) == "<1>"
    assert hash(Point(x=1, y=2)) == hash(Point(x=1, y=2))
    with pytest.raises(ValueError, match="negative"):
        Point(x=-1)


def test_a_frozen_value_survives_pickling() -> None:
    again = pickle.loads(pickle.dumps(Point(x=3, y=4)))
    assert (again.x, again.y) == (3, 4)


def test_a_value_that_holds_itself_can_be_shown() -> None:
    @values.dataclass(slots=True)
    class Knot:
        inside: list[Any] = dataclasses.field(default_factory=list)

    knot = Knot()
    knot.inside.append(knot)
    assert repr(knot).endswith("Knot(inside=[...])")


def test_a_subclass_may_add_what_can_change() -> None:
    class Marked(Point):
        pass

    marked: Any = Marked(x=1)
    marked.note = "new"
    assert marked.note == "new"
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'x'"):
        marked.x = 2


@pytest.mark.parametrize("path", sorted((ROOT / "agentmem").rglob("*.py")), ids=lambda p: p.name)
def test_every_value_of_the_package_is_cheap_to_define(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module == "dataclasses":
            names = {alias.name for alias in node.names}
            assert "dataclass" not in names or path.name == "values.py", (
                f"{path}: take it from agentmem.core.values"
            )
