"""Each framework's adapter with the real package, in an environment of its own.

    nox                      all of them
    nox -s langchain         one

An environment takes half a minute to make the first time; the tests of one take seconds.
"""

from __future__ import annotations

import nox

nox.options.reuse_existing_virtualenvs = True
nox.options.default_venv_backend = "venv"

OURS = ["pytest>=8.2", "hypothesis>=6.110", "opentelemetry-sdk>=1.27", "sybil>=8.0"]
# The extra, and what only its tests need.
FRAMEWORKS: dict[str, list[str]] = {
    "anthropic": [],
    "langchain": ["langchain-tests>=1.0"],
    "langgraph": [],
    "openai-agents": [],
    "pydantic-ai": [],
    "llamaindex": [],
    "google-adk": [],
    "agent-framework": [],
    "strands": [],
    "autogen": ["autogen-agentchat>=0.7"],
    "crewai": [],
    "agno": ["openai"],
    "mem0": [],
}
FILES = {"google-adk": "adk", "mem0": "mem0_calls"}
# langchain-tests brings a plugin that must be told; LlamaIndex leaves its in-memory database open.
OPTIONS: dict[str, list[str]] = {
    "langchain": ["-o", "asyncio_mode=auto", "-o", "asyncio_default_fixture_loop_scope=function"],
    "llamaindex": ["-p", "no:unraisableexception"],
}


def _session(name: str) -> None:
    file = FILES.get(name, name.replace("-", "_"))

    def run(session: nox.Session) -> None:
        extra = "otel" if name == "mem0" else f"{name},otel"
        session.install("-q", "-e", f".[{extra}]", *OURS, *FRAMEWORKS[name])
        tests = ["tests/unit/test_mem0_calls.py"] if name == "mem0" else [
            f"tests/frameworks/test_{file}.py", "tests/properties/test_frameworks.py"
        ]  # fmt: skip
        if name == "langchain":
            tests.append("tests/frameworks/test_langchain_suites.py")
        page = f"docs/frameworks/{name}.md"
        session.run("pytest", "-q", *OPTIONS.get(name, ()), *tests)
        session.run(
            "pytest", "-q", *OPTIONS.get(name, ()),
            f"tests/unit/test_docs.py::test_every_python_block_runs[{page}]",
        )  # fmt: skip

    nox.session(run, name=name)


for each in FRAMEWORKS:
    _session(each)
