"""Each framework's adapter with the real package, in an environment of its own.

    nox                      all of them
    nox -s langchain         one

An environment takes half a minute to make the first time (uv makes it, where it is installed); the
tests of one take seconds.
"""

from __future__ import annotations

import nox

nox.options.reuse_existing_virtualenvs = True
nox.options.default_venv_backend = "uv|venv"

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
    "mem0": ["mem0ai>=2.0"],
}
FILES = {"google-adk": "adk"}
MORE = {
    "langchain": ["tests/frameworks/test_langchain_suites.py"],
    "mem0": ["tests/unit/test_mem0_calls.py"],
}
# What holds in every framework that asks a model; these two do not.
EVERY = ["tests/properties/test_frameworks.py", "tests/frameworks/test_awaited.py"]
STORES = ("langgraph", "mem0")
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
        page = f"tests/unit/test_docs.py::test_every_python_block_runs[docs/frameworks/{name}.md]"
        tests = [f"tests/frameworks/test_{file}.py", *MORE.get(name, ()), page]
        options = OPTIONS.get(name, ())
        session.run("pytest", "-q", *options, *tests)
        if name not in STORES:
            session.run("pytest", "-q", "--deep", *options, *EVERY, "-k", file)

    nox.session(run, name=name)


for each in FRAMEWORKS:
    _session(each)
