"""What a file is, by its name and its first bytes."""

from __future__ import annotations

import re
from typing import Literal

from agentmem.core.charsets import looks_binary
from agentmem.types import TextFormat

FileKind = Literal["markdown", "text", "code", "html", "pdf", "notebook", "binary"]

_WORDS: dict[FileKind, str] = {
    "markdown": "md markdown mdx mdown mkd qmd",
    "html": "html htm xhtml shtml",
    "pdf": "pdf",
    "notebook": "ipynb",
    "text": """
        txt text rst adoc asciidoc org log csv tsv json jsonl ndjson json5 toml yaml yml ini cfg
        conf properties xml tex bib srt vtt eml diff patch po pot rtf
    """,
    "code": """
        py pyi pyx js mjs cjs jsx ts mts cts tsx go rs java kt kts scala c h cc cpp cxx hh hpp hxx
        cs fs vb swift m mm rb php pl pm lua r jl hs ex exs erl clj cljs elm ml mli nim zig d dart
        sh bash zsh fish ps1 bat sql graphql proto thrift tf css scss sass less vue svelte cmake
        gradle groovy awk asm s v sv vhd sol
    """,
}
_KINDS: dict[str, FileKind] = {
    extension: kind for kind, names in _WORDS.items() for extension in names.split()
}
_MEDIA: dict[str, FileKind] = {
    "text/html": "html",
    "application/xhtml+xml": "html",
    "application/pdf": "pdf",
    "text/markdown": "markdown",
    "text/x-markdown": "markdown",
}
_CODE_NAMES = ("makefile", "dockerfile", "gemfile", "rakefile", "jenkinsfile", "vagrantfile")
_OFFICE = re.compile(rb"PK\x03\x04|\xd0\xcf\x11\xe0")
_FIRST_HEADING = re.compile(r"\s{0,3}#[ \t]+([^\n]{1,300})")


def kind_of(name: str, head: bytes, *, media_type: str = "") -> FileKind:
    """What a file with this name, these first bytes and this declared type is."""
    if b"%PDF-" in head[:1024]:
        return "pdf"
    lowered = name.lower()
    extension = lowered.rsplit(".", 1)[-1] if "." in lowered else ""
    kind = _MEDIA.get(media_type) or _KINDS.get(extension)
    if looks_binary(head):
        return "binary"
    if kind is None and lowered in _CODE_NAMES:
        return "code"
    return kind or "text"


def text_format(kind: FileKind) -> TextFormat:
    """How a chunker should read text of this kind."""
    if kind in ("markdown", "html", "pdf", "notebook"):
        return "markdown"
    return "code" if kind == "code" else "text"


def binary_remedy(head: bytes) -> str:
    """What to do about a file that is no text."""
    if _OFFICE.match(head):
        return "Save it as PDF, HTML or Markdown (an archive: unpack it) and index that."
    return "Only text, code, HTML, PDF and notebooks can be read; convert it to one of these."


def first_heading(text: str) -> str:
    """The title that a Markdown text begins with, or ""."""
    found = _FIRST_HEADING.match(text)
    return found[1].strip(" #\t") if found else ""
