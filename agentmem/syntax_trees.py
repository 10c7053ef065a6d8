"""Syntax trees of tree-sitter as plain values."""

from __future__ import annotations

from typing import Any

from agentmem.core.living.syntax_patterns import Node

DEEPEST = 400


def to_node(parser: Any, text: str) -> Node:
    """The tree of a text; what is nested deeper than any code is left out."""
    data = text.encode("utf-8")
    tree = parser.parse(data)
    return _node(tree.root_node, data, 0)


def _node(node: Any, data: bytes, depth: int) -> Node:
    start, end = node.start_byte, node.end_byte
    if not node.child_count or depth >= DEEPEST:
        text = data[start:end].decode("utf-8", "replace")
        return Node(sort=node.type, text=text, start=start, end=end)
    children = tuple(_node(child, data, depth + 1) for child in node.children)
    return Node(sort=node.type, children=children, start=start, end=end)
