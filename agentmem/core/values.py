"""`dataclass` as in the standard library, at a fraction of what a class costs to define.

The standard one compiles six functions for each class when its module is
imported, and with a hundred values that took longer than a short command does.
Here a method is compiled when it is first asked for, and most never are.
`fields`, `replace`, `asdict`, `copy` and `inspect.signature` find what they
find in any dataclass.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

__all__ = ["dataclass"]


class _Later:
    """Stands where a method will be, and has it written when somebody looks."""

    def __init__(self, cls: type, write: Callable[[type], Any]) -> None:
        self._cls = cls
        self._write = write

    def __get__(self, value: object, owner: type | None = None) -> Any:
        written = self._write(self._cls)
        setattr(self._cls, written.__name__, written)
        return written if value is None else written.__get__(value)


class _Made:
    """What a signature shows as the default of a field that is made anew for each value."""

    def __repr__(self) -> str:
        return "<factory>"


_MADE = _Made()


def _dataclass(
    *, slots: bool, frozen: bool = False, kw_only: bool = False, eq: bool = True
) -> Callable[[type], Any]:
    """Make a dataclass of a class; what the class defines itself stays."""
    bare = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots, kw_only=kw_only)

    def define(given: type) -> Any:
        given.__doc__ = given.__doc__ or given.__name__  # else a signature is worked out for it
        cls: Any = bare(given)
        for name, chosen in (("init", True), ("repr", True), ("eq", eq), ("frozen", frozen)):
            setattr(cls.__dataclass_params__, name, chosen)
        own = dict(cls.__dict__)
        if "__eq__" in own and own["__hash__"] is None:
            del own["__hash__"]  # Python put it there, not the class
        for name, method in _methods(cls).items():
            if name not in own:
                setattr(cls, name, method)
        return cls

    return define


if TYPE_CHECKING:
    from dataclasses import dataclass  # to a type checker it is the very same
else:
    dataclass = _dataclass


def _methods(cls: Any) -> dict[str, Any]:
    chosen = cls.__dataclass_params__
    found: dict[str, Any] = {"__init__": _Later(cls, _write_init), "__repr__": _show}
    if chosen.eq:
        found["__eq__"] = _Later(cls, _write_eq)
        found["__hash__"] = _Later(cls, _write_hash) if chosen.frozen else None
    if chosen.frozen:
        found["__setattr__"] = _refuse(cls, "__setattr__", "assign to")
        found["__delattr__"] = _refuse(cls, "__delattr__", "delete")
        found |= {"__getstate__": _state, "__setstate__": _set_state}
    return found


# -- written when they are needed ---------------------------------------------------------


def _write_init(cls: Any) -> Any:
    """A parameter for each field, in their order; then what the class does with a new value."""
    known: dict[str, Any] = {"_MADE": _MADE}
    positional: list[str] = []
    named: list[str] = []
    lines: list[str] = []
    for field in dataclasses.fields(cls):
        name = field.name
        has_factory = field.default_factory is not dataclasses.MISSING
        has_default = field.default is not dataclasses.MISSING
        known |= {f"_make_{name}": field.default_factory, f"_default_{name}": field.default}
        value = f"_make_{name}()" if has_factory else f"_default_{name}"
        if field.init:
            otherwise = "=_MADE" if has_factory else f"=_default_{name}" if has_default else ""
            (named if field.kw_only else positional).append(name + otherwise)
            value = f"{value} if {name} is _MADE else {name}" if has_factory else name
        elif not (has_factory or has_default):
            continue  # `__post_init__` sets it
        if cls.__dataclass_params__.frozen:
            known[f"_set_{name}"] = getattr(cls, name).__set__  # the slot's, which never refuses
            lines.append(f"_set_{name}(self, {value})")
        else:
            lines.append(f"self.{name} = {value}")
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    parameters = ", ".join(["self", *positional, *(["*", *named] if named else [])])
    init = _compile(cls, f"__init__({parameters})", lines or ["pass"], known)
    init.__annotations__ = {f.name: f.type for f in dataclasses.fields(cls) if f.init}
    init.__annotations__["return"] = None
    return init


def _write_eq(cls: Any) -> Any:
    lines = (
        "if other.__class__ is not self.__class__: return NotImplemented",
        f"return {_compared(cls, 'self')} == {_compared(cls, 'other')}",
    )
    return _compile(cls, "__eq__(self, other)", lines)


def _write_hash(cls: Any) -> Any:
    return _compile(cls, "__hash__(self)", [f"return hash({_compared(cls, 'self')})"])


def _compared(cls: Any, value: str) -> str:
    """The fields that count when two values are compared, as a tuple."""
    return f"({''.join(f'{value}.{f.name}, ' for f in dataclasses.fields(cls) if f.compare)})"


def _compile(
    cls: type, head: str, lines: Iterable[str], known: Mapping[str, Any] | None = None
) -> Any:
    names = {"__name__": cls.__module__, **(known or {})}
    body = "".join(f"\n {line}" for line in lines)
    exec(f"def {head}:{body}", names)  # noqa: S102 - of the names of a class's own fields
    written = names[head[: head.index("(")]]
    written.__qualname__ = f"{cls.__qualname__}.{written.__name__}"
    return written


# -- the same for every class -------------------------------------------------------------


def _refuse(cls: Any, method: str, what: str) -> Callable[..., None]:
    """Instead of `method`: a value does not change, what a subclass adds to it may."""
    names = cls.__dataclass_fields__

    def refuse(self: Any, name: str, *new: Any) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot {what} field {name!r}")
        getattr(super(cls, self), method)(name, *new)

    return refuse


@recursive_repr()
def _show(self: Any) -> str:
    shown = (f"{f.name}={getattr(self, f.name)!r}" for f in dataclasses.fields(self) if f.repr)
    return f"{self.__class__.__qualname__}({', '.join(shown)})"


def _state(self: Any) -> list[Any]:
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)
