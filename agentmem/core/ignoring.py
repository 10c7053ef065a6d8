"""Which paths a `.gitignore` leaves out."""

from __future__ import annotations

import re
from collections.abc import Sequence

from agentmem.core.values import dataclass

LONGEST_PATTERN = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class IgnoreRule:
    """One line: paths that match are left out, or kept again when `keeps`."""

    pattern: re.Pattern[str]
    keeps: bool
    folders_only: bool


def read_ignore_rules(text: str) -> tuple[IgnoreRule, ...]:
    """The rules of a `.gitignore`, in order; lines that mean nothing are passed over."""
    rules = (_read_rule(line) for line in text.removeprefix("\ufeff").splitlines())
    return tuple(rule for rule in rules if rule is not None)


def says(path: str, *, is_folder: bool, rules: Sequence[IgnoreRule]) -> bool | None:
    """Whether the last rule that matches `path` leaves it out; None when none matches.

    `path` is relative to the folder of the `.gitignore`, with `/`. What lies
    in an ignored folder is ignored with it; the caller does not look there.
    """
    for rule in reversed(rules):
        if (is_folder or not rule.folders_only) and rule.pattern.fullmatch(path):
            return not rule.keeps
    return None


def _read_rule(line: str) -> IgnoreRule | None:
    line = _without_trailing_spaces(line.rstrip("\r"))
    if not line or line.startswith("#") or len(line) > LONGEST_PATTERN:
        return None
    keeps = line.startswith("!")
    line = line[1:] if keeps else line
    folders_only = line.endswith("/")
    line = line.removesuffix("/")  # one of them: what ends in two matches nothing
    anchored = "/" in line
    line = line.removeprefix("/")
    if not line:
        return None
    try:
        source = _translate(line)
        prefix = "" if anchored else r"(?:[^\n]*/)?"
        return IgnoreRule(
            pattern=re.compile(prefix + source, re.DOTALL), keeps=keeps, folders_only=folders_only
        )
    except re.error:
        return None


def _without_trailing_spaces(line: str) -> str:
    while line.endswith(" ") and not line.endswith("\\ "):
        line = line[:-1]
    return line


def _translate(pattern: str) -> str:
    """A pattern of git as a regular expression; `*` and `?` stop at a slash, `**` does not."""
    out: list[str] = []
    at = 0
    while at < len(pattern):
        if pattern.startswith("**", at):
            end = at
            while end < len(pattern) and pattern[end] == "*":
                end += 1
            alone = at == 0 or pattern[at - 1] == "/"
            if alone and end < len(pattern) and pattern[end] == "/":
                out.append("(?:.*/)?")
                at = end + 1
            elif alone and end == len(pattern):
                out.append(".+" if at else ".*")
                at = end
            else:
                out.append("[^/]*")
                at = end
            continue
        char = pattern[at]
        at += 1
        if char == "*":
            out.append("[^/]*")
        elif char == "?":
            out.append("[^/]")
        elif char == "[" and (found := _char_set(pattern, at)) is not None:
            piece, at = found
            out.append(piece)
        elif char == "\\" and at < len(pattern):
            out.append(re.escape(pattern[at]))
            at += 1
        else:
            out.append(re.escape(char))
    return "".join(out)


def _char_set(pattern: str, at: int) -> tuple[str, int] | None:
    """The set that begins at `at`, and where it ends; None for a bracket that is only one."""
    start = at + 1 if at < len(pattern) and pattern[at] in "!^" else at
    end = pattern.find("]", start + 1)
    if end < 0:
        return None
    inside = pattern[start:end]
    body = "".join("\\" + char if char in "\\[]^&~|" else char for char in inside)
    negated = "^" if start > at else ""
    return f"(?!/)[{negated}{body}]", end + 1
