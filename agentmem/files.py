"""Files as documents: text, code, Markdown, HTML, PDF and notebooks."""

from __future__ import annotations

import io
import json
import logging
import os
import stat
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from agentmem.core.charsets import sound
from agentmem.core.checks import require_count, require_path
from agentmem.core.file_kinds import binary_remedy, first_heading, kind_of, text_format
from agentmem.core.page_text import looks_like_html, one_line
from agentmem.errors import AgentMemError, FileRefused, FileUnreadable, MissingExtra
from agentmem.pages import Page, decode_page, to_markdown
from agentmem.stores.open_files import reading
from agentmem.types import Document

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
        text = decode_page(data, charset=charset)
        known = "." in shown_name or media_type not in ("", "text/plain")
        if kind == "html" or (kind == "text" and not known and looks_like_html(text)):
            page = to_markdown(text, url)
            text, title, metadata = page.text, page.title, facts_of(page)
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


def facts_of(page: Page) -> dict[str, str]:
    """What a page says of itself beside its title."""
    facts = {"language": page.language, "published": page.published}
    return {name: fact for name, fact in facts.items() if fact}


def _read_pdf(data: bytes, *, name: str) -> tuple[str, str]:
    """The text of a PDF under one heading a page, so that every chunk knows its page."""
    try:
        import pypdf
        from pypdf.errors import PyPdfError
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
    except (PyPdfError, MemoryError) as error:
        raise FileUnreadable(name, f"is damaged: {_reason(error)}", remedy=_PDF_REMEDY) from None
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
