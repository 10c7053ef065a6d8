"""Word lists, tables and fitted weights that the package reads, and their loaders."""

from __future__ import annotations

import importlib.resources
import json
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agentmem.core.gate import Gate, Words


def read_bytes(name: str) -> bytes:
    """The bytes of a file of this folder."""
    return importlib.resources.files(__name__).joinpath(name).read_bytes()


@cache
def question_words() -> Words:
    """The words by which a question is told from another, by language and sort."""
    table: dict[str, dict[str, str]] = json.loads(read_bytes("question_words.json"))
    return {
        language: {sort: frozenset(listed.split("|")) for sort, listed in sorts.items()}
        for language, sorts in table.items()
    }


@cache
def gate_of(name: str) -> Gate:
    """The fitted gate for an embedder; "none" for who is not known, or search by words."""
    import io

    import numpy as np

    from agentmem.core.gate import Gate

    with np.load(io.BytesIO(read_bytes("gates.npz"))) as file:
        family = name if f"{name}_words" in file else "none"
        parts: dict[str, Any] = {
            part: file[f"{family}_{part}"].astype(np.float32)
            for part in ("words", "memory", "grams", "vector")
        }
        return Gate(offset=float(file[f"{family}_offset"]), **parts)
