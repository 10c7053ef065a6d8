"""Worked examples of tools made from functions and definitions."""

from __future__ import annotations

import asyncio
from datetime import datetime
from functools import partial
from typing import Any, Literal

import pytest

from agentmem.agent.tools import Tool, as_tool, as_tools, read_docstring
from agentmem.base.errors import InvalidInput

SCHEMA = {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]}


def find(
    query: str, *, unit: Literal["line", "file"] = "line", limit: int | None = None
) -> list[str]:
    """Find lines in the project.

    Looks everywhere.

    Args:
        query: what to look for
        unit (str): what to give back,
            lines or files
        limit: at most so many

    Returns:
        The lines.
    """
    return [query, unit, str(limit)]


def test_a_function_becomes_a_tool_by_its_hints_and_docstring() -> None:
    tool = as_tool(find)
    assert tool.name == "find"
    assert tool.description == "Find lines in the project.\n\nLooks everywhere."
    properties = tool.parameters["properties"]
    assert properties["query"] == {"type": "string", "description": "what to look for"}
    assert properties["unit"]["enum"] == ["line", "file"]
    assert properties["unit"]["description"] == "what to give back, lines or files"
    assert tool.parameters["required"] == ["query"]
    assert tool.parameters["additionalProperties"] is False
    assert tool.call(query="x") == ["x", "line", "None"]


def test_arguments_are_converted_to_what_the_hints_say() -> None:
    def when(at: datetime) -> int:
        return at.year

    assert as_tool(when).call(at="2024-05-01T10:00:00") == 2024


def test_async_functions_methods_partials_and_objects_are_tools() -> None:
    async def fetch(url: str) -> str:
        return url

    class Box:
        def get(self, key: str) -> str:
            return f"box {key}"

    assert asyncio.run(as_tool(fetch).call(url="u")) == "u"
    assert as_tool(Box().get).call(key="k") == "box k"
    assert as_tool(partial(find, unit="file")).call(query="x") == ["x", "file", "None"]


def test_a_definition_with_a_call_is_a_tool() -> None:
    written = {
        "type": "function",
        "function": {"name": "grep", "description": "Search.", "parameters": SCHEMA},
        "call": lambda q: q.upper(),
        "read_only": True,
    }
    tool = as_tool(written)
    assert (tool.name, tool.description, tool.read_only) == ("grep", "Search.", True)
    assert tool.call(q="x") == "X"
    assert tool.definition()["function"]["parameters"] == SCHEMA
    assert as_tool(tool) is tool
    assert not as_tool(tool, read_only=False).read_only


def test_the_strict_form_requires_everything_and_lets_the_optional_be_null() -> None:
    function = as_tool(find).definition(strict=True)["function"]
    assert function["strict"] is True
    assert function["parameters"]["required"] == ["query", "unit", "limit"]
    assert {"type": "null"} in function["parameters"]["properties"]["unit"]["anyOf"]
    assert "default" not in function["parameters"]["properties"]["unit"]


def positional(a: int, /) -> int:
    return a


class Opaque:
    pass


def opaque(thing: Opaque) -> None:
    return None


@pytest.mark.parametrize(
    "bad",
    [
        None,
        "find",
        3,
        {"type": "function", "function": {"name": "x"}},
        {"name": "x", "parameters": {"type": 3}, "call": find},
        {"name": "x", "parameters": {"type": "array"}, "call": find},
        {"name": "not a name", "call": find},
        positional,
        opaque,
        lambda x: x,
    ],
)
def test_what_is_no_tool_is_refused(bad: Any) -> None:
    with pytest.raises(InvalidInput):
        as_tool(bad)


def test_two_tools_of_one_name_are_refused() -> None:
    with pytest.raises(InvalidInput, match="one name"):
        as_tools([find, Tool(name="find", description="", parameters=SCHEMA, call=find)])
    with pytest.raises(InvalidInput):
        as_tools(find)  # type: ignore[arg-type]  # a list is asked for


def test_docstrings_of_three_styles_are_read() -> None:
    numpy = (
        "Do it.\n\nParameters\n----------\na : int\n    The first.\n\nReturns\n-------\nint\n    x"
    )
    sphinx = (
        "Do it.\n\n:param int a: The first.\n:param b: The second,\n    continued.\n:returns: x"
    )
    assert read_docstring(numpy) == ("Do it.", {"a": "The first."})
    assert read_docstring(sphinx) == ("Do it.", {"a": "The first.", "b": "The second, continued."})
    assert read_docstring(None) == ("", {})
    assert read_docstring("Find :a (int): it") == ("Find :a (int): it", {})
    assert read_docstring(":    :a (int): xParameters") == (":    :a (int): xParameters", {})
    assert read_docstring("Find: it\nso:\n  x") == ("Find: it\nso:\n  x", {})
