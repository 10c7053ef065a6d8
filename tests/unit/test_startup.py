"""What a command must not pay for: modules it does not use, rules it does not apply."""

from __future__ import annotations

import gc
import importlib
import json
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import agentmem
from agentmem.base.lazy import Lazy, LazyPattern, compile_late, made
from agentmem.search.embedders import wordllama
from agentmem.search.embedders.base import package_folder
from agentmem.search.embedders.wordllama import BytePairs, WordLlamaEmbedder
from agentmem.search.indexes.rows import distinct
from agentmem.sources.background import as_json, weigh
from agentmem.tokens.litellm import ListedLimits, listed_limits

ROOT = Path(__file__).resolve().parents[2]

NOT_FOR_INSPECT = (
    "asyncio", "httpx", "litellm", "markdown_it", "numpy.ma", "openai", "pydantic", "rich", "ssl",
    "tiktoken", "tokenizers", "trafilatura",
    "agentmem.text.chunks", "agentmem.models.extract", "agentmem.living.predict",
    "agentmem.living.tiers", "agentmem.living.workflows", "agentmem.inspector.replay",
    "agentmem.search.embedders.minilm", "agentmem.sources.indexer", "agentmem.agent.loop",
    "agentmem.search.rerank", "agentmem.stores.jsonl", "agentmem.agent.tools",
    "agentmem.sources.web.search", "agentmem.agent.tool_results",
)  # fmt: skip


def test_inspect_imports_only_what_a_search_and_a_page_need(tmp_path: Path) -> None:
    store = tmp_path / "memory.db"
    with agentmem.open(store, embedder="wordllama") as memory:
        memory.add("Sam drinks green tea in the morning.", user_id="sam")
        memory.preferences.add("I prefer short answers", user_id="sam")
    script = (
        "import sys\n"
        "sys.argv = ['agentmem', 'inspect', '--store', sys.argv[1], '--user', 'sam',\n"
        "            '--query', 'which tea does Sam drink?']\n"
        "from agentmem.cli.app import main\n"
        "try: main()\n"
        "except SystemExit as ended: assert not ended.code, ended.code\n"
        f"print([name for name in {NOT_FOR_INSPECT!r} if name in sys.modules])\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script, str(store)],
        capture_output=True,
        text=True,
        encoding="utf-8",
        env={
            "PYTHONIOENCODING": "utf-8",
            "PYTHONPATH": str(ROOT),
            "HOME": str(tmp_path),
            "AGENTMEM_EMBEDDER": "wordllama",
        },
        check=False,
        cwd=ROOT,
    )
    assert ran.returncode == 0, ran.stderr
    assert "green tea" in ran.stdout
    assert ran.stdout.splitlines()[-1] == "[]"


# -- rules --------------------------------------------------------------------------------


def test_every_rule_can_be_compiled() -> None:
    for room in ("base", "text", "tokens", "prompt", "models", "search", "living", "agent"):
        for path in sorted((ROOT / "agentmem" / room).glob("*.py")):
            importlib.import_module(f"agentmem.{room}.{path.stem}".removesuffix(".__init__"))
    rules = [found for found in gc.get_objects() if isinstance(found, LazyPattern)]
    assert len(rules) > 200
    for rule in rules:
        re.compile(rule.pattern, rule.flags)


def test_a_late_pattern_is_compiled_by_its_first_use_and_then_is_the_pattern() -> None:
    late = compile_late(r"(\d)(\w)?", re.IGNORECASE)
    assert vars(late).keys() == {"pattern", "flags"}
    whole = re.compile(r"(\d)(\w)?", re.IGNORECASE)
    for name in ("findall", "split"):
        assert getattr(late, name)("a1b 2") == getattr(whole, name)("a1b 2")
    assert late.findall is late.findall
    assert compile_late("a+").sub("b", "caat") == "cbt"
    found = compile_late("a").search("bab", 1, 2)
    assert found is not None
    assert found.span() == (1, 2)
    assert compile_late("ab").pattern == "ab"
    with pytest.raises(AttributeError):
        _ = late.nothing  # type: ignore[attr-defined]  # nor has the pattern


def test_a_bad_late_pattern_is_refused_when_it_is_used() -> None:
    late = compile_late("(")
    with pytest.raises(re.error):
        late.match("x")


# -- tables and numbers ---------------------------------------------------------------------


def test_limits_read_alone_are_those_of_the_whole_table() -> None:
    whole = dict(listed_limits())
    assert len(whole) > 500
    text = listed_limits()._text  # type: ignore[attr-defined]
    for name in list(whole)[::25]:
        assert ListedLimits(text)[name] == whole[name]
    fresh = ListedLimits(text)
    assert fresh["gpt-4o"] == whole["gpt-4o"]
    assert "_all" not in vars(fresh)
    assert "no such model" not in fresh


@pytest.mark.parametrize("text", ["", "{]", "[]", '{\n    "a": {"max_tokens": 9000'])
def test_a_damaged_table_has_no_limits(text: str) -> None:
    assert "a" not in ListedLimits(text)
    assert dict(ListedLimits(text)) == {}


@given(st.lists(st.integers(-(2**62), 2**62) | st.integers(-3, 3)))
def test_distinct_values_are_those_of_numpy(values: list[int]) -> None:
    given_ = np.array(values, dtype=np.int64)
    assert distinct(given_).tolist() == np.unique(given_).tolist()


def test_few_texts_and_many_get_the_same_vectors() -> None:
    texts = [f"green tea number {number} – 東京 {'x' * number}" for number in range(40)]
    few, many = WordLlamaEmbedder(), WordLlamaEmbedder()
    batch = many.embed_documents(texts)
    assert all(
        (few.embed_documents([text])[0] == row).all()
        for text, row in zip(texts, batch, strict=True)
    )


@cache
def both_tokenizers() -> tuple[BytePairs, Any]:
    from tokenizers import Tokenizer

    folder = package_folder("wordllama")
    assert folder is not None
    path = folder / "tokenizers/l2_supercat_tokenizer_config.json"
    pairs = BytePairs(json.loads(path.read_bytes()))
    return pairs, Tokenizer.from_file(str(path))


WORDS = st.sampled_from(
    ["deploy", "Anna's", "ababab", "  ", "▁", "▁▁", "<0x0A>", "naïve", "東京", "é", "e\u0301", "don’t",
     "https://example.org/a?b=1", "aaaaaaaa", "\n\t", "🏳️‍🌈", "1234567", "<s", "unk>"]
)  # fmt: skip


@given(
    text=st.text(max_size=300) | st.lists(WORDS | st.text(max_size=8), max_size=12).map(" ".join)
)
@example("")
@example(" ")
@example("When did Anna finish the deploy?")
def test_tokens_of_a_short_text_are_those_of_the_library(text: str) -> None:
    pairs, library = both_tokenizers()
    ids = pairs.encode(text)
    if any(mark in text for mark in ("<s>", "</s>", "<unk>")) or len(text) > 400:
        assert ids is None
    else:
        assert ids == library.encode(text, add_special_tokens=False).ids


@pytest.mark.parametrize("text", ["a <s> b", "<unk>", "x" * 401])
def test_texts_that_only_the_library_can_read_are_left_to_it(text: str) -> None:
    pairs, library = both_tokenizers()
    assert pairs.encode(text) is None
    static = WordLlamaEmbedder()
    table = static._loaded.value[2]
    mean = table[library.encode(text, add_special_tokens=False).ids].astype(np.float32).mean(axis=0)
    assert np.allclose(static.embed_documents([text])[0], mean / np.linalg.norm(mean), atol=1e-6)


def test_a_tokenizer_file_of_another_digest_is_left_to_the_library(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    expected = WordLlamaEmbedder().embed_query("green tea")
    monkeypatch.setattr(wordllama, "KNOWN_SHA256", "another")
    static = WordLlamaEmbedder()
    assert (static.embed_query("green tea") == expected).all()
    assert static._loaded.value[1]._pairs is None


def test_the_first_questions_do_not_load_the_tokenizers_library() -> None:
    script = (
        "import sys\n"
        "from agentmem.search.embedders.wordllama import WordLlamaEmbedder\n"
        "static = WordLlamaEmbedder()\n"
        "first = static.embed_query('green tea')\n"
        "assert 'tokenizers' not in sys.modules\n"
        "static.embed_documents(['green tea'] * 40)\n"
        "assert 'tokenizers' in sys.modules\n"
        "assert (static.embed_query('green tea') == first).all()\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert ran.returncode == 0, ran.stderr


# -- payloads made late -----------------------------------------------------------------------


def test_a_lazy_value_is_made_once_and_written_down_as_itself() -> None:
    calls = []

    def make() -> dict[str, str]:
        calls.append(1)
        return {"text": "tea"}

    late = Lazy(make, characters=3)
    assert weigh({"a": late, "b": "four"}) == 7
    assert calls == []
    assert made(late) == {"text": "tea"}
    assert json.dumps(as_json(late)) == '{"text": "tea"}'
    assert calls == [1]
    assert made("as it is") == "as it is"
