"""Files as documents: text, code, Markdown, HTML, PDF and notebooks."""

from __future__ import annotations

import io
import json
import logging
import os
import re
import stat
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from agentmem.base.checks import require_count, require_path
from agentmem.base.errors import (
    AgentMemError,
    FileRefused,
    FileUnreadable,
    InvalidInput,
    MissingExtra,
)
from agentmem.base.types import Document, Scope
from agentmem.search.results import PassedOver
from agentmem.sources.pages import looks_like_html, one_line, to_markdown
from agentmem.stores.open_files import reading
from agentmem.text.decode import binary_remedy, decode, first_heading, kind_of, sound, text_format

if TYPE_CHECKING:
    from agentmem.sources.fetch import Fetched
    from agentmem.stores.base import Store


LIMIT_BYTES = 20_000_000
_PDF_REMEDY = "Open it in a PDF viewer and print it to a new file, or convert it to text."


def read_file(path: str | Path, *, limit_bytes: int = LIMIT_BYTES) -> Document:
    """The file as a document whose url is its `file://` address.

    `FileRefused` when it is binary, too large or no file, `FileUnreadable` when
    it cannot be opened or is damaged; both name the remedy.
    """
    require_count(limit_bytes, "limit_bytes", least=1)
    where = Path(require_path(path))
    try:
        where = where.resolve(strict=True)
        if where.is_dir():
            raise FileRefused(where, "is a folder", remedy="Use index_path().")
        with open_file(where) as file:
            data = file.read(limit_bytes + 1)
    except (OSError, RuntimeError, ValueError) as error:
        if isinstance(error, AgentMemError):
            raise
        raise FileUnreadable(
            where, f"cannot be read: {_reason(error)}", remedy="Check that it is there and yours."
        ) from None
    if len(data) > limit_bytes:
        raise FileRefused(
            where, f"is larger than {limit_bytes:,} bytes",
            remedy="Raise limit_bytes, or cut the file into smaller ones.",
        )  # fmt: skip
    return document_of(data, url=where.as_uri(), name=where.name)


@contextmanager
def open_file(path: Path) -> Iterator[BinaryIO]:
    """The file, to read its bytes; `FileRefused` for a folder, a device, a socket, a pipe, and a
    file of a store that is open here.

    It never waits for somebody who writes to a pipe, not even to one that takes
    the place of a file while it is opened.
    """
    _require_file(path, os.stat(path))
    with reading(path, flags=getattr(os, "O_NONBLOCK", 0)) as file:  # Windows has no such flag
        _require_file(path, os.fstat(file.fileno()))
        yield file


def _require_file(path: Path, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise FileRefused(path, "is not a file", remedy="Name a file.")


def document_of(
    data: bytes, *, url: str, name: str = "", media_type: str = "", charset: str = ""
) -> Document:
    """Bytes as a document, by what their name, their type and they themselves say they are."""
    shown_name = sound(name)
    kind = kind_of(shown_name, data[:8192], media_type=media_type)
    if kind == "binary":
        raise FileRefused(shown_name or url, "is not text", remedy=binary_remedy(data[:16]))
    title = ""
    metadata: dict[str, str] = {}
    if kind == "pdf":
        text, title = _read_pdf(data, name=shown_name or url)
        metadata = {"media_type": "application/pdf"}
    else:
        text = decode(data, declared=charset)
        known = "." in shown_name or media_type not in ("", "text/plain")
        if kind == "html" or (kind == "text" and not known and looks_like_html(text)):
            page = to_markdown(text)
            text, title, metadata = page.text, page.title, page.facts
            kind = "html"
        elif kind == "notebook":
            text = _read_notebook(text)
        elif kind == "markdown":
            title = first_heading(text)
    return Document(
        text=text,
        url=url,
        title=one_line(title) or shown_name,
        format=text_format(kind),
        metadata=metadata,
    )


def fetched_document(found: Fetched) -> Document:
    """What was fetched as a document."""
    return document_of(
        found.content,
        url=found.url,
        name=found.url.split("?")[0].rsplit("/", 1)[-1],
        media_type=found.media_type,
        charset=found.charset,
    )


def _read_pdf(data: bytes, *, name: str) -> tuple[str, str]:
    """The text of a PDF under one heading a page, so that every chunk knows its page."""
    try:
        import pypdf
    except ImportError as error:
        raise MissingExtra("pypdf", extra="pdf", purpose="Reading a PDF") from error

    logging.getLogger("pypdf").setLevel(logging.CRITICAL)  # it reports every oddity of a file
    parts: list[str] = []
    title = ""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            reader = pypdf.PdfReader(io.BytesIO(data))
            if reader.is_encrypted and not reader.decrypt(""):
                raise FileUnreadable(
                    name, "is protected by a password", remedy="Save a copy without a password."
                )
            title = str((reader.metadata or {}).get("/Title") or "")
            for number, page in enumerate(reader.pages, start=1):
                text = sound(page.extract_text() or "").strip()
                if text:
                    parts.append(f"## Page {number}\n\n{text}")
    except AgentMemError:
        raise
    except Exception as error:
        # pypdf lets through what a damaged file makes of its own code: KeyError, RecursionError …
        raise FileUnreadable(name, f"is damaged: {_reason(error)}", remedy=_PDF_REMEDY) from error
    if not parts:
        raise FileRefused(
            name, "has no text, only pictures of it", remedy="Run OCR on it first, e.g. ocrmypdf."
        )
    return "\n\n".join(parts), sound(title)


def _read_notebook(text: str) -> str:
    """The cells of a notebook as Markdown; the JSON itself when it is none."""
    try:
        cells = json.loads(text)["cells"]
        return "\n\n".join(filter(None, (_cell(cell) for cell in cells)))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return text


def _cell(cell: dict[str, Any]) -> str:
    source = cell.get("source") or ""
    words = "".join(source) if isinstance(source, list) else str(source)
    if not words.strip():
        return ""
    return words if cell.get("cell_type") == "markdown" else f"```\n{words}\n```"


def _reason(error: BaseException) -> str:
    words = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return one_line(sound(str(words)), limit_characters=200)


# ----------------------------------------------------------------------------
# Which paths a `.gitignore` leaves out.


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
    line = re.sub(r"(?<!\\) +\Z", "", line.rstrip("\r"))
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
        pattern = re.compile(("" if anchored else r"(?:[^\n]*/)?") + _translate(line), re.DOTALL)
    except re.error:
        return None
    return IgnoreRule(pattern=pattern, keeps=keeps, folders_only=folders_only)


_TOKENS = re.compile(
    r"""(?P<folders> (?<![^/])\*{2,}/ )            # a/**/b, **/b
    | (?P<below> (?<![^/])\*{2,}\Z )              # a/**
    | (?P<some> \*+ ) | (?P<one> \? )            # *.py, a?c
    | \[ (?: [!^](?P<none_of> .[^]]* ) | (?P<any_of> [^!^][^]]* ) ) \]  # [!ab], [a-c]
    | \\?(?P<sign> . )""",
    re.VERBOSE | re.DOTALL,
)
_MEANING = {"folders": "(?:.*/)?", "some": "[^/]*", "one": "[^/]"}


def _translate(pattern: str) -> str:
    """A pattern of git as a regular expression; `*` and `?` stop at a slash, `**` does not."""

    def piece(token: re.Match[str]) -> str:
        kind = token.lastgroup or ""
        if kind == "below":
            return ".+" if token.start() else ".*"
        if kind in ("any_of", "none_of"):
            body = re.sub(r"[\\\[\]^&~|]", r"\\\g<0>", token[kind])
            return f"(?!/)[{'^' if kind == 'none_of' else ''}{body}]"
        return _MEANING.get(kind) or re.escape(token["sign"])

    return _TOKENS.sub(piece, pattern)


# ----------------------------------------------------------------------------
# The files of a folder that may be read, and those that are gone since the last time.


_LEFT_OUT = ("node_modules", "__pycache__", "site-packages")
_RULES_BYTES = 1_000_000


def existing(path: str | Path) -> Path:
    """Where a file or folder really is; `FileUnreadable` when it is not there."""
    if isinstance(path, str) and not path.strip():
        raise InvalidInput(
            "path", path, "is no path", remedy='Name a file or a folder; "." is this one.'
        )
    where = Path(require_path(path))
    try:
        return where.resolve(strict=True)
    except (OSError, RuntimeError, ValueError):
        raise FileUnreadable(path, "is not there", remedy="Check the path.") from None


def walk(root: Path, skipped: list[PassedOver]) -> Iterator[Path]:
    """The files below `root`; what is passed over is added to `skipped`."""
    waiting = [(root, _rules_above(root))]
    while waiting:
        folder, above = waiting.pop()
        rules = [*above, (folder, _rules_in(folder))]
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError as error:
            skipped.append(passed_over(folder, root, f"cannot be listed: {error.strerror}"))
            continue
        for entry in entries:
            path = folder / entry.name
            is_folder = entry.is_dir(follow_symlinks=False)
            reason = _reason_to_skip(entry, path, is_folder=is_folder, rules=rules)
            if reason == "hidden":
                continue
            if reason:
                skipped.append(passed_over(path, root, reason))
            elif is_folder:
                waiting.append((path, rules))
            else:
                yield path


def _reason_to_skip(
    entry: os.DirEntry[str],
    path: Path,
    *,
    is_folder: bool,
    rules: list[tuple[Path, tuple[IgnoreRule, ...]]],
) -> str:
    if entry.name.startswith("."):
        return "hidden"
    if entry.is_symlink():
        return "is a symbolic link"
    if is_folder and (entry.name in _LEFT_OUT or (path / "pyvenv.cfg").exists()):
        return "holds installed packages"
    if not is_folder and not entry.is_file(follow_symlinks=False):
        return "is not a file"
    for folder, own in reversed(rules):  # the nearest file that says anything decides
        said = says(path.relative_to(folder).as_posix(), is_folder=is_folder, rules=own)
        if said is not None:
            return "is in .gitignore" if said else ""
    return ""


def _rules_in(folder: Path) -> tuple[IgnoreRule, ...]:
    try:
        with open_file(folder / ".gitignore") as file:
            return read_ignore_rules(file.read(_RULES_BYTES).decode("utf-8", "replace"))
    except (OSError, FileRefused):
        return ()


def _rules_above(root: Path) -> list[tuple[Path, tuple[IgnoreRule, ...]]]:
    """The rules of the folders around `root`, up to the top of its repository if it is in one."""
    above: list[tuple[Path, tuple[IgnoreRule, ...]]] = []
    for folder in (root, *root.parents):
        if folder != root:
            above.insert(0, (folder, _rules_in(folder)))
        if (folder / ".git").exists():
            return above
    return []


def vanished(store: Store, root: Path, scope: Scope) -> tuple[str, ...]:
    """The addresses below `root` that this scope remembers and where no file is any more."""
    prefix = root.as_uri().rstrip("/") + "/"
    return tuple(
        source.url
        for source in store.upkeep.sources(scope)
        if source.scope == scope
        and source.visibility == "private"
        and source.url.startswith(prefix)
        and not _is_there(source.url)
    )


def _is_there(url: str) -> bool:
    from urllib.parse import unquote_to_bytes

    try:
        return Path(os.fsdecode(unquote_to_bytes(url.removeprefix("file://")))).exists()
    except (OSError, ValueError):
        return False


def passed_over(path: Path, root: Path, reason: str) -> PassedOver:
    """A path below `root`, and why it is left out."""
    return PassedOver(path=sound(str(path.relative_to(root))), reason=reason)
