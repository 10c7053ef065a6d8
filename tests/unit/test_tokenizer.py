"""The tokenizer as it is used: offline, cached, for models known and unknown."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import pytest

import agentmem.tokens.counter
from agentmem.base.errors import (
    ApproximateCountWarning,
    InvalidInput,
    InvalidText,
    UnknownModelWarning,
)
from agentmem.tokens.counter import (
    LEAST_TRUSTED_RATIO,
    CachedCounter,
    Corrections,
    Tokenizer,
    tokenizer_for,
)
from agentmem.tokens.encodings import SHA256, rank_file, tiktoken_counter
from agentmem.tokens.litellm import environment, listed_limits, litellm_folder

ROOT = Path(__file__).resolve().parents[2]

# Run before anything else: every attempt to reach another machine ends the process.
BLOCKED = """
import os, socket, sys
def refuse(*args, **kwargs):
    os.write(2, b"reached for the network\\n")
    os._exit(77)
socket.socket.connect = socket.socket.connect_ex = refuse
socket.create_connection = socket.getaddrinfo = socket.gethostbyname = refuse
"""


def run(script: str, **variables: str) -> str:
    """What a fresh process prints that has no network and no tiktoken cache."""
    kept = {k: v for k, v in os.environ.items() if k not in ("TIKTOKEN_CACHE_DIR", "HF_HOME")}
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", BLOCKED + script],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={**kept, **variables},
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_counts_offline_without_importing_litellm(tmp_path: Path) -> None:
    script = """
import os, sys
from agentmem.tokens.counter import Tokenizer
before = dict(os.environ)
for model in ("gpt-4o", "gpt-4", "text-davinci-003", "claude-3-5-sonnet", "groq/llama-3.1-8b"):
    tokenizer = Tokenizer(model)
    print(model, tokenizer.counted_with, tokenizer.exact, tokenizer.count("Hello, world!"))
assert dict(os.environ) == before
assert "litellm" not in sys.modules
assert "requests" not in sys.modules
"""
    assert run(script, TMPDIR=str(tmp_path)).splitlines() == [
        "gpt-4o o200k_base True 4",
        "gpt-4 cl100k_base True 4",
        "text-davinci-003 p50k_base True 4",
        "claude-3-5-sonnet claude False 4",
        "groq/llama-3.1-8b cl100k_base False 4",
    ]
    assert list(tmp_path.iterdir()) == []


def test_a_cache_without_ranks_does_not_matter(tmp_path: Path) -> None:
    script = """
import os
from agentmem.tokens.counter import Tokenizer
print(Tokenizer("gpt-4o").counted_with, os.environ["TIKTOKEN_CACHE_DIR"])
"""
    assert run(script, TIKTOKEN_CACHE_DIR=str(tmp_path)).split() == ["o200k_base", str(tmp_path)]
    assert run(script, TIKTOKEN_CACHE_DIR="").split() == ["o200k_base"]


def test_without_any_ranks_tokens_are_estimated_with_a_warning(tmp_path: Path) -> None:
    (tmp_path / "fb374d419588a4632f3f557e76b4b70aebbca790").write_bytes(b"damaged")
    script = """
import warnings
from pathlib import Path
import agentmem.tokens.encodings
from agentmem.base.errors import ApproximateCountWarning
from agentmem.tokens.counter import Tokenizer
agentmem.tokens.encodings.OUR_RANKS = Path('nowhere')
agentmem.tokens.encodings.claude_tokenizer = lambda: None
for model in ("gpt-4o", "claude-3-5-sonnet"):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        tokenizer = Tokenizer(model)
    assert [w.category for w in caught] == [ApproximateCountWarning], caught
    assert "TIKTOKEN_CACHE_DIR" in str(caught[0].message)
    assert not tokenizer.exact
    print(tokenizer.counted_with, tokenizer.count("The ferry leaves at seven.") >= 6)
"""
    out = run(script, TIKTOKEN_CACHE_DIR=str(tmp_path))
    assert out.splitlines() == ["estimate:o200k_base True", "estimate:p50k_base True"]
    assert (tmp_path / "fb374d419588a4632f3f557e76b4b70aebbca790").exists()


def test_our_hashes_are_those_of_the_installed_tiktoken() -> None:
    spec = importlib.util.find_spec("tiktoken_ext.openai_public")
    assert spec is not None
    assert spec.origin is not None
    source = Path(spec.origin).read_text("utf-8")
    for name, digest in SHA256.items():
        assert f"{name}.tiktoken" in source
        assert digest in source
        assert rank_file(name) is not None  # type: ignore[arg-type]  # the keys are the names


def test_litellm_is_imported_quietly_and_agrees() -> None:
    """litellm's own counter is the reference: ours is never below it, and near it."""
    script = """
import json, os, sys
before = dict(os.environ)
from agentmem.tokens.litellm import import_litellm
litellm = import_litellm()
assert litellm is import_litellm()
assert dict(os.environ) == before, set(os.environ.items()) ^ set(before.items())
assert litellm.disable_hf_tokenizer_download is True
from tests.unit.test_tokens import WEATHER
from agentmem.tokens.counter import Tokenizer
call = {"id": "call_1", "type": "function",
        "function": {"name": "get_weather", "arguments": '{"city": "Paris", "unit": "c"}'}}
plain = [
    {"role": "system", "content": "You are a helpful assistant."},
    {"role": "user", "content": "What is the weather in Paris?", "name": "ann"},
]
tools = plain + [
    {"role": "assistant", "content": None, "tool_calls": [call]},
    {"role": "tool", "tool_call_id": "call_1", "content": "Sunny, 24 degrees."},
]
rows = []
for model in ("gpt-4o", "gpt-4", "groq/llama-3.1-8b-instant"):
    ours = Tokenizer(model)
    rows.append((litellm.token_counter(model=model, messages=plain), ours.count_messages(plain)))
    rows.append((litellm.token_counter(model=model, messages=tools), ours.count_messages(tools)))
    rows.append((litellm.token_counter(model=model, messages=plain, tools=[WEATHER]),
                 ours.count_messages(plain, tools=[WEATHER])))
print(json.dumps(rows))
"""
    rows = json.loads(run(script).splitlines()[-1])
    for i, (theirs, ours) in enumerate(rows):
        if i % 3 == 0:
            assert ours == theirs
        assert theirs <= ours <= 1.35 * theirs, rows


def test_openai_documented_request() -> None:
    """The example in OpenAI's cookbook: 129 tokens by gpt-3.5 and gpt-4, 124 by gpt-4o."""
    messages = [
        {
            "role": "system",
            "content": "You are a helpful, pattern-following assistant that translates corporate "
            "jargon into plain English.",
        },
        {"role": "system", "name": "example_user", "content": "New synergies will help drive "
         "top-line growth."},
        {"role": "system", "name": "example_assistant", "content": "Things working well together "
         "will increase revenue."},
        {
            "role": "system",
            "name": "example_user",
            "content": "Let's circle back when we have more bandwidth to touch base on "
            "opportunities for increased leverage.",
        },
        {
            "role": "system",
            "name": "example_assistant",
            "content": "Let's talk later when we're less busy about how to do better.",
        },
        {
            "role": "user",
            "content": "This late pivot means we don't have time to boil the ocean for the client "
            "deliverable.",
        },
    ]  # fmt: skip
    assert Tokenizer("gpt-4").count_messages(messages) == 129
    assert Tokenizer("gpt-4o").count_messages(messages) == 124


@pytest.mark.parametrize("text", ["<|endoftext|>", "<|im_start|>system", "a\x00b", "\n" * 5_000])
def test_control_tokens_in_text_are_plain_text(text: str) -> None:
    for model in ("gpt-4o", "gpt-4", "claude-3-5-sonnet"):
        assert Tokenizer(model).count(text) >= 1


def test_ten_megabytes_are_counted() -> None:
    tokens = Tokenizer("gpt-4o").count("a" * 10_000_000)
    assert 1_250_000 <= tokens <= 1_400_000


@pytest.mark.parametrize("text", [None, 3, b"x", "\ud800"])
def test_what_is_not_text_is_refused(text: object) -> None:
    with pytest.raises(InvalidText):
        Tokenizer("gpt-4o").count(text)  # type: ignore[arg-type]  # the point of the test


def test_unknown_models_get_a_small_window_and_a_warning() -> None:
    with pytest.warns(UnknownModelWarning, match="context_window="):
        limits = Tokenizer("acme/frobnicator-9000").limits
    assert limits.window == 8_192
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tokenizer = Tokenizer("acme/frobnicator-9000", context_window=50_000, max_output=500)
    assert (tokenizer.limits.window, tokenizer.limits.max_output) == (50_000, 500)
    assert tokenizer.reserve.completion == 500


def test_the_warning_points_at_the_caller() -> None:
    with pytest.warns(UnknownModelWarning) as caught:
        Tokenizer("acme/frobnicator-9000")
    assert caught[0].filename == __file__


def test_the_caller_may_override_a_known_window() -> None:
    limits = Tokenizer("gpt-4o", context_window=16_000).limits
    assert (limits.window, limits.max_output) == (16_000, 16_384)


def test_litellms_table_is_read_as_data() -> None:
    table = listed_limits()
    assert table["gpt-4o"].window == 128_000
    assert table["gpt-4o"].max_output == 16_384
    assert "sample_spec" not in table
    assert all(key == key.lower() for key in table)
    assert litellm_folder() is not None


def test_a_damaged_table_leaves_our_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import agentmem.tokens.litellm as loader

    (tmp_path / "model_prices_and_context_window_backup.json").write_text("{]")
    monkeypatch.setattr(loader, "litellm_folder", lambda: tmp_path)
    assert dict(listed_limits.__wrapped__()) == {}


def test_the_available_tokens_follow_what_usage_teaches() -> None:
    tokenizer = Tokenizer("gpt-4o")
    assert tokenizer.available_tokens == 128_000 - 3_000 - 12_800
    tokenizer.observe(1_000, 1_250)
    assert tokenizer.corrected(100) == 125
    assert tokenizer.available_tokens == int(112_200 / 1.25)
    assert tokenizer.count("Hello") == Tokenizer("gpt-4o").count("Hello")


def test_tools_cost_claude_a_system_prompt() -> None:
    tokenizer = Tokenizer("claude-3-5-sonnet")
    messages = [{"role": "user", "content": "hi"}]
    tool = {"name": "f", "input_schema": {"type": "object", "properties": {}}}
    assert tokenizer.count_messages(messages, tools=[tool]) > (
        tokenizer.count_messages(messages) + 346
    )


def test_corrections_are_kept_by_provider_and_model() -> None:
    corrections = Corrections()
    corrections.observe("openai/gpt-4o", 100, 120)
    assert corrections.of("OpenAI/GPT-4o").ratio == pytest.approx(1.2)
    assert corrections.of("azure/gpt-4o").ratio == 1.0
    with pytest.raises(InvalidInput):
        corrections.load([("gpt-4o", 1)])  # type: ignore[arg-type]  # the point of the test


def test_many_threads_count_and_learn_together() -> None:
    tokenizer = Tokenizer("gpt-4o")
    texts = [f"text number {i % 50} " * 20 for i in range(200)]
    expected = [tokenizer.count(text) for text in texts]
    found: list[list[int]] = []

    def work() -> None:
        found.append([tokenizer.count(text) for text in texts])
        for _ in range(100):
            tokenizer.observe(100, 110)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 8
    assert tokenizer.corrections.of("gpt-4o").calls == 800


def test_long_texts_are_remembered_by_hash() -> None:
    asked: list[str] = []

    def count(text: str, /) -> int:
        asked.append(text)
        return len(text)

    cached = CachedCounter(count, size=2)
    for text in ("a" * 10_000, "a" * 10_000, "b", "c", "a" * 10_000):
        cached(text)
    assert [len(text) for text in asked] == [10_000, 1, 1, 10_000]
    assert all(len(key) < 300 for key in cached._known)


def test_one_tokenizer_a_model() -> None:
    assert tokenizer_for("gpt-4o") is tokenizer_for("gpt-4o")
    assert "o200k_base" in repr(tokenizer_for("gpt-4o"))
    assert tokenizer_for("gpt-4o")("Hello") == 1


def test_a_tokenizer_somebody_downloaded_is_used(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = litellm_folder()
    assert folder is not None
    name = "litellm_core_utils/tokenizers/anthropic_tokenizer.json"
    snapshot = tmp_path / "models--Xenova--llama-3-tokenizer" / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    (snapshot / "tokenizer.json").write_bytes((folder / name).read_bytes())
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    tokenizer = Tokenizer("llama-3.1-8b")
    assert (tokenizer.counted_with, tokenizer.exact) == ("llama3", True)
    (snapshot / "tokenizer.json").write_text("{}")
    agentmem.tokens.encodings._hugging_face_tokenizer.cache_clear()
    assert Tokenizer("llama-3.1-8b").counted_with == "cl100k_base"


def test_environment_is_put_back_after_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTMEM_TEST", "before")

    def fail() -> None:
        with environment(AGENTMEM_TEST="now", AGENTMEM_NEW="1"):
            assert os.environ["AGENTMEM_TEST"] == "now"
            raise ValueError("x")

    with pytest.raises(ValueError, match="x"):
        fail()
    assert os.environ["AGENTMEM_TEST"] == "before"
    assert "AGENTMEM_NEW" not in os.environ


def test_the_estimate_warning_names_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agentmem.tokens.counter, "tiktoken_counter", lambda name: None)
    with pytest.warns(ApproximateCountWarning, match="TIKTOKEN_CACHE_DIR") as caught:
        Tokenizer("gpt-4o")
    assert caught[0].filename == __file__
    assert tiktoken_counter("o200k_base") is not None


def test_a_provider_that_counts_too_little_does_not_widen_the_window() -> None:
    tokenizer = Tokenizer("gpt-4o")
    for _ in range(50):
        tokenizer.observe(1_000, 250)
    assert tokenizer.corrections.of("gpt-4o").ratio < 0.5
    assert tokenizer.available_tokens == int(112_200 / LEAST_TRUSTED_RATIO)
    assert tokenizer.available_tokens < 160_000


@pytest.mark.parametrize(
    "model", ["qwen2.5-72b-instruct", "gemma-2-9b-it", "mistral-nemo", "mixtral-8x7b", "llama2"]
)
def test_models_that_read_digit_by_digit_are_counted_so(model: str) -> None:
    tokenizer = Tokenizer(model)
    table = "| 2026 | 14502 | 1830.75 |\n" * 20
    digits = sum(map(str.isdigit, table))
    assert tokenizer.counted_with.endswith("digit by digit")
    assert tokenizer("31415926535") >= 11
    assert tokenizer(table) >= digits + table.count("|")
    assert tokenizer(table) <= tokenizer.at_most(table)
    assert tokenizer(table) > 1.4 * Tokenizer("gpt-4")(table)


@pytest.mark.parametrize("model", ["gpt-4o", "deepseek-chat", "llama-3.1-8b"])
def test_models_that_read_numbers_in_groups_are_counted_so(model: str) -> None:
    assert Tokenizer(model)("314159") == 2


@pytest.mark.parametrize(
    ("model", "small"),
    [
        ("mistral/mistral-large-2407", True),
        ("codestral-2405", True),
        ("open-mistral-7b", True),
        ("mistral-small-2409", True),
        ("mistral-small-3.2", False),
        ("mistral-nemo", False),
        ("magistral-medium", False),
    ],
)
def test_small_vocabularies_of_mistral_are_told_from_the_larger_one(
    model: str, small: bool
) -> None:
    words = "The ferry leaves at seven, so we packed the night before. " * 20
    counted = Tokenizer(model, context_window=32_000)
    assert counted.counted_with.startswith("p50k_base" if small else "cl100k_base")
    if small:
        assert counted(words) >= 1.1 * Tokenizer("text-davinci-003")(words)
