"""Cut a text where a tokenizer cuts it anyway, so that endless words cost linear time.

Byte-pair encoders look at one word at a time, and their work grows faster than
its length: a megabyte of one letter takes minutes or overflows. A cut inside a
word may hide a token or two, so each such cut is paid for.
"""

from __future__ import annotations

from collections.abc import Iterator

from agentmem.core.patterns import compile_late

LONGEST_RUN_CHARACTERS = 512
LONGEST_PART_CHARACTERS = 32_768
CUT_TOKENS = 3

# What may become one word of an encoder: letters and marks of any script, digits, ASCII marks,
# or whitespace.
_KINDS = (r"[^\s0-9!-/:-@\[-`{-~]", r"[0-9]", r"[!-/:-@\[-`{-~]", r"\s")
_RUN = compile_late("|".join(f"{kind}{{{LONGEST_RUN_CHARACTERS}}}" for kind in _KINDS))
# Before one of these, after a letter, every encoding begins a new word.
_CLAUSE = compile_late(r"(?<=[^\W\d_])[、。，！？；：「（]")
_NEXT_WORD = compile_late(r"(?<=\w) (?=[^\W\d_])")


def split_runs(text: str) -> tuple[list[str], int]:
    """`text` in parts whose words are short, and how many cuts went through a word."""
    if not _may_have_runs(text):
        return list(_shorter(text, 0, len(text))), 0
    parts: list[str] = []
    start = cuts = 0
    while (run := _RUN.search(text, start)) is not None:
        end = run.end()
        clauses = [m.start() for m in _CLAUSE.finditer(text, run.start() + 1, end)]
        if clauses:
            end = clauses[-1]
        elif end < len(text):
            cuts += 1
        parts += _shorter(text, start, end)
        start = end
    return [*parts, *_shorter(text, start, len(text))], cuts


def _may_have_runs(text: str) -> bool:
    """A quick look, since hardly any text has one."""
    if len(text) < LONGEST_RUN_CHARACTERS:
        return False
    words = text.split()
    spare = len(text) - sum(map(len, words)) - len(words)
    return spare + 2 > LONGEST_RUN_CHARACTERS or max(map(len, words)) >= LONGEST_RUN_CHARACTERS


def _shorter(text: str, start: int, end: int) -> Iterator[str]:
    """The text from `start` to `end`, cut between words where it is long."""
    while end - start > LONGEST_PART_CHARACTERS:
        word = _NEXT_WORD.search(text, start + LONGEST_PART_CHARACTERS, end)
        if word is None:
            break
        yield text[start : word.start()]
        start = word.start()
    if start < end:
        yield text[start:end]
