"""Worked examples of counting messages, tools and text without a tokenizer."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from agentmem.base.errors import InvalidInput, InvalidMessage, InvalidNumber, InvalidText
from agentmem.tokens.counter import (
    Correction,
    correction_from,
    count_message,
    count_messages,
    count_tools,
    observe,
    render_tools,
)
from agentmem.tokens.encodings import estimate_tokens, split_runs
from agentmem.tokens.models import (
    ModelLimits,
    canonical,
    encoding_of,
    family_of,
    find_limits,
    names_of,
    reserve_for,
)


def words(text: str) -> int:
    return len(text.split())


def count(message: Any) -> int:
    return count_message(message, count=words, count_media=lambda media: 100)


def test_a_message_costs_its_role_text_and_three() -> None:
    assert count({"role": "user", "content": "one two"}) == 3 + 1 + 2
    assert count({"role": "user", "content": "", "name": "ann"}) == 3 + 1 + 1 + 1
    assert count_messages([], count=words, count_media=lambda m: 0) == 0


def test_a_tool_call_costs_name_arguments_and_frame() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{ 1 }"}}
    assert count({"role": "assistant", "content": None, "tool_calls": [call]}) == 4 + 6 + 1 + 3
    assert count({"role": "assistant", "tool_calls": [call, call]}) == 4 + 2 * 10
    assert count({"role": "assistant", "function_call": call["function"]}) == 4 + 10
    assert count({"role": "tool", "tool_call_id": "c1", "content": "ok then"}) == 4 + 1 + 2


def test_anthropic_blocks_are_counted() -> None:
    use = {"type": "tool_use", "id": "t", "name": "f", "input": {"city": "Rome"}}
    assert count({"role": "assistant", "content": [use]}) == 4 + 6 + 1 + 1
    result = {
        "type": "tool_result",
        "tool_use_id": "t",
        "content": [{"type": "text", "text": "a b"}, {"type": "image", "source": {"data": "x"}}],
    }
    assert count({"role": "user", "content": [result]}) == 4 + 1 + 2 + 100
    thought = [{"type": "thinking", "thinking": "hm hm"}, {"type": "redacted_thinking", "data": ""}]
    assert count({"role": "assistant", "content": thought}) == 4 + 2


def test_a_part_nobody_knows_counts_as_json() -> None:
    part = {"type": "weather", "of": "Rome today"}
    assert count({"role": "user", "content": [part, "and text"]}) == 4 + 2 + 2


@pytest.mark.parametrize(
    "message",
    [
        None,
        "hello",
        ["role", "user"],
        {},
        {"role": "robot", "content": "x"},
        {"role": 3, "content": "x"},
        {"role": "user"},
        {"role": "user", "content": None},
        {"role": "tool", "tool_call_id": "x"},
        {"role": "user", "content": 5},
        {"role": "user", "content": {"type": "text"}},
        {"role": "user", "content": [5]},
        {"role": "user", "content": [{"text": "no type"}]},
        {"role": "user", "content": [{"type": "text", "text": 5}]},
        {"role": "user", "content": "x", "name": 5},
        {"role": "tool", "content": "x", "tool_call_id": 5},
        {"role": "assistant", "content": "x", "tool_calls": "f"},
        {"role": "assistant", "content": "x", "tool_calls": ["f"]},
        {"role": "assistant", "content": "x", "tool_calls": [{"function": "f"}]},
        {"role": "assistant", "content": "x", "tool_calls": [{"function": {"name": 1}}]},
    ],
)
def test_messages_no_provider_takes_are_refused(message: Any) -> None:
    with pytest.raises(InvalidMessage):
        count(message)


def test_an_assistant_may_have_said_nothing() -> None:
    empty = count({"role": "assistant", "content": ""})
    assert count({"role": "assistant", "content": None}) == empty
    assert count({"role": "assistant", "content": None, "tool_calls": []}) == empty


def test_a_lone_surrogate_is_refused_by_name() -> None:
    with pytest.raises(InvalidText, match="surrogate"):
        count({"role": "user", "content": "a\ud800"})
    with pytest.raises(InvalidText, match="surrogate"):
        count({"role": "user", "content": [{"type": "odd", "x": "\udfff"}]})


def test_results_nested_without_end_are_refused() -> None:
    part: dict[str, Any] = {"type": "tool_result", "tool_use_id": "t", "content": "x"}
    # Hypothesis may have raised the limit in this process, so the depth follows it.
    for _ in range(5_000 + sys.getrecursionlimit()):
        part = {"type": "tool_result", "tool_use_id": "t", "content": [part]}
    with pytest.raises(InvalidMessage, match="nested"):
        count({"role": "user", "content": [part]})


@pytest.mark.parametrize("several", [None, 5, "hello", {"role": "user"}])
def test_what_is_no_list_of_messages_is_refused(several: Any) -> None:
    with pytest.raises(InvalidMessage):
        count_messages(several, count=words, count_media=lambda m: 0)


def test_a_message_that_holds_itself_is_refused() -> None:
    part: dict[str, Any] = {"type": "odd"}
    part["self"] = part
    with pytest.raises(InvalidMessage):
        count({"role": "user", "content": [part]})


WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather in a city",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "Name of the city"},
                "unit": {"type": "string", "enum": ["c", "f"]},
                "days": {"type": "array", "items": {"type": "integer"}, "maxItems": 7},
                "near": {"type": "object", "properties": {"km": {"type": "number"}}},
                "when": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
            },
            "required": ["city"],
        },
    },
}


def test_tools_are_rendered_as_the_model_reads_them() -> None:
    assert render_tools([WEATHER]).splitlines() == [
        "namespace functions {",
        "",
        "// The weather in a city",
        "type get_weather = (_: {",
        "// Name of the city",
        "city: string,",
        'unit?: "c" | "f",',
        '// {"maxItems": 7}',
        "days?: number[],",
        "near?: {",
        "km?: number,",
        "},",
        "when?: string | null, // default: null",
        "}) => any;",
        "",
        "} // namespace functions",
    ]


def test_tools_of_every_provider_count_alike() -> None:
    function = WEATHER["function"]
    assert isinstance(function, dict)
    anthropic = {
        "name": function["name"],
        "description": function["description"],
        "input_schema": function["parameters"],
    }
    gemini = {"function_declarations": [function]}
    counts = {count_tools([t], count=words) for t in (WEATHER, function, anthropic, gemini)}
    assert len(counts) == 1
    assert count_tools([], count=words) == 0
    assert count_tools([{"type": "web_search", "max": 3}], count=words) > 9


@pytest.mark.parametrize("tools", ["x", {"a": 1}, [1], [None]])
def test_tools_that_are_none_are_refused(tools: Any) -> None:
    with pytest.raises(InvalidMessage):
        count_tools(tools, count=words)


def test_schemas_that_refer_to_themselves_are_bounded() -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {}}
    schema["properties"]["child"] = schema
    with pytest.raises(InvalidMessage):
        count_tools([{"name": "f", "parameters": schema}], count=words)


@pytest.mark.parametrize("text", [None, 5, b"x", "a\udfff"])
def test_text_that_is_none_is_refused(text: Any) -> None:
    with pytest.raises(InvalidText):
        estimate_tokens(text)


def test_an_unknown_profile_is_refused() -> None:
    with pytest.raises(InvalidInput):
        estimate_tokens("x", encoding="latin-1")  # type: ignore[arg-type]  # the point of the test


def test_a_long_estimate_is_near_the_sum_of_its_parts() -> None:
    text = "The ferry leaves at seven. "
    once = estimate_tokens(text * 100)
    assert 0.95 < estimate_tokens(text * 1_000) / (10 * once) <= 1


def test_chinese_is_cut_between_clauses() -> None:
    text = "昨天下午我们去河边散步，孩子们放风筝。" * 60
    parts, cuts = split_runs(text)
    assert len(parts) > 1
    assert cuts == 0
    assert all(part[0] in "，。" for part in parts[1:])


@pytest.mark.parametrize(
    ("model", "family", "encoding", "own"),
    [
        ("gpt-4o-mini-2024-07-18", "openai", "o200k_base", True),
        ("openai/gpt-4.1", "openai", "o200k_base", True),
        ("GPT-5.1-Codex", "openai", "o200k_base", True),
        ("azure/o3-mini", "openai", "o200k_base", True),
        ("gpt-oss:120b", "openai", "o200k_base", True),
        ("ft:gpt-4o-mini:me::abc", "openai", "o200k_base", True),
        ("chatgpt-4o-latest", "openai", "o200k_base", True),
        ("gpt-4-0613", "openai", "cl100k_base", True),
        ("gpt-4-turbo", "openai", "cl100k_base", True),
        ("azure/gpt-35-turbo-16k", "openai", "cl100k_base", True),
        ("text-embedding-3-small", "openai", "cl100k_base", True),
        ("davinci-002", "openai", "cl100k_base", True),
        ("text-davinci-003", "openai", "p50k_base", True),
        ("text-curie-001", "openai", "p50k_base", False),
        ("anthropic/claude-3-5-sonnet-20241022", "claude", "p50k_base", False),
        ("gemini/gemini-2.0-flash", "gemini", "cl100k_base", False),
        ("meta-llama/Llama-2-7b-chat-hf", "llama2", "p50k_base", False),
        ("ollama/llama3.2:3b", "llama3", "cl100k_base", False),
        ("mistralai/Mistral-7B-Instruct-v0.3", "mistral", "p50k_base", False),
        ("mistral-large-latest", "mistral", "p50k_base", False),
        ("Qwen/Qwen2.5-7B-Instruct", "qwen", "cl100k_base", False),
        ("command-r-plus", "cohere", "cl100k_base", False),
        ("deepseek-chat", "other", "cl100k_base", False),
    ],
)
def test_names_tell_family_and_encoding(model: str, family: str, encoding: str, own: bool) -> None:
    assert family_of(model) == family
    assert encoding_of(model) == (encoding, own)


@pytest.mark.parametrize(
    ("model", "window", "max_output"),
    [
        ("claude-3-5-sonnet", 200_000, 8_192),
        ("bedrock/us.anthropic.claude-3-5-sonnet-20241022-v2:0", 200_000, 8_192),
        ("openrouter/anthropic/claude-3.7-sonnet", 200_000, 64_000),
        ("vertex_ai/claude-3-opus@20240229", 200_000, 4_096),
        ("groq/llama-3.1-8b-instant", 131_072, 8_192),
        ("groq/llama3-70b-8192", 8_192, 8_192),
        ("ollama/llama3.3:70b", 131_072, 32_768),
        ("ollama/qwen2.5:14b-instruct-q4_K_M", 32_768, 8_192),
        ("Qwen/Qwen2.5-Coder-32B-Instruct", 32_768, 8_192),
        ("mixtral-8x7b-instruct", 32_768, 8_192),
        ("gemini-1.5-pro-002", 2_097_152, 8_192),
        ("gemma-2-9b-it", 8_192, 8_192),
        ("nous-hermes-llama-3.1-8b", 131_072, 8_192),
        ("text-davinci-003", 4_097, 4_096),
        ("gpt-4-32k-0613", 32_768, 4_096),
        ("o1-mini-2024-09-12", 128_000, 65_536),
        ("grok-2-1212", 131_072, 8_192),
        ("phi-4", 16_384, 16_384),
        ("yi-34b-chat", 4_096, 4_096),
    ],
)
def test_our_own_table_knows_common_names(model: str, window: int, max_output: int) -> None:
    assert find_limits(model, {}) == ModelLimits(window=window, max_output=max_output)


def test_listed_names_win_and_a_prefix_does_not_matter() -> None:
    listed = {
        "gpt-4o": ModelLimits(window=1_000, max_output=10),
        "a/odd-one": ModelLimits(window=70, max_output=7),
        "b/odd-one": ModelLimits(window=50, max_output=5),
    }
    assert find_limits("OpenAI/GPT-4o-2024-08-06", listed) == listed["gpt-4o"]
    assert find_limits("c/odd-one", listed) == listed["b/odd-one"]
    assert find_limits("philosophy", listed) is None
    assert find_limits("o100", {}) is None


def test_names_are_listed_from_exact_to_general() -> None:
    assert names_of("Bedrock/US.Anthropic.Claude-3-5-Sonnet-20241022-v2:0") == (
        "bedrock/us.anthropic.claude-3-5-sonnet-20241022-v2:0",
        "us.anthropic.claude-3-5-sonnet-20241022-v2:0",
        "anthropic.claude-3-5-sonnet-20241022-v2:0",
        "claude-3-5-sonnet-20241022-v2:0",
        "claude-3-5-sonnet-20241022",
        "claude-3-5-sonnet",
    )
    assert canonical("meta-llama/Llama-3.1-8B") == canonical("ollama/llama3.1-8b")


@pytest.mark.parametrize("model", ["", "  ", "x" * 600, None, 7, "a\ud800"])
def test_names_that_are_none_are_refused(model: Any) -> None:
    with pytest.raises(InvalidText):
        names_of(model)


def test_the_reserve_of_common_windows() -> None:
    def reserve(window: int, max_output: int = 16_384) -> tuple[int, int]:
        kept = reserve_for(ModelLimits(window=window, max_output=max_output))
        return kept.completion, kept.margin

    assert reserve(128_000) == (3_000, 12_800)
    assert reserve(8_192) == (3_000, 1_000)
    assert reserve(128_000, 1_024) == (1_024, 12_800)
    assert reserve(4_096) == (1_536, 512)
    assert reserve(2) == (0, 1)


@pytest.mark.parametrize("window", [0, 1, -5, True, 3.5, None])
def test_windows_that_are_none_are_refused(window: Any) -> None:
    with pytest.raises(InvalidNumber):
        ModelLimits(window=window, max_output=1)


def test_a_correction_learns_from_the_first_call() -> None:
    learned = observe(Correction(), estimated=1_000, actual=1_180)
    assert learned.apply(1_000) == 1_180
    assert observe(learned, estimated=0, actual=5).ignored == 1
    assert observe(learned, estimated=10, actual=10**400).ignored == 1
    assert correction_from(learned.as_dict()) == learned


@pytest.mark.parametrize(
    "state", [{"ratio": 99.0}, {"ratio": float("nan")}, {"odd": 1}, [1], {"ratio": 1, "calls": -1}]
)
def test_damaged_corrections_are_refused(state: Any) -> None:
    with pytest.raises(InvalidInput):
        correction_from(state)
