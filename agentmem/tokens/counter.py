"""Counts for one model: text, messages, media, window, reserve, and what usage taught us.

    tokenizer = Tokenizer("gpt-4o-mini")
    tokenizer.count_messages([{"role": "user", "content": "Hello"}])

Nothing here opens a connection: encodings, windows and prices come from files
that came with this package and with litellm, where that is installed.
"""

from __future__ import annotations

import hashlib
import json
import math
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import Any

from agentmem.base.checks import require_count, require_mapping, require_number, require_text
from agentmem.base.errors import (
    ApproximateCountWarning,
    InvalidInput,
    InvalidMessage,
    MediaWarning,
    UnknownModelWarning,
)
from agentmem.base.protocols import TokenCounter
from agentmem.base.types import Message
from agentmem.text.messages import ROLES, require_message
from agentmem.tokens.encodings import (
    CUT_TOKENS,
    LONGEST_RUN_CHARACTERS,
    SHA256,
    adjusted,
    estimate_tokens,
    family_counter,
    tiktoken_counter,
)
from agentmem.tokens.litellm import listed_limits
from agentmem.tokens.media import Media, estimate_media, media_of
from agentmem.tokens.models import (
    COMPLETION_TOKENS,
    UNKNOWN_WINDOW_TOKENS,
    EncodingName,
    ModelLimits,
    Reserve,
    adjustment_of,
    encoding_of,
    family_of,
    find_limits,
    names_of,
    reserve_for,
)

# ----------------------------------------------------------------------------
# How far our counts are from a provider's, learned from the usage it reports.


LEAST_RATIO = 0.2
MOST_RATIO = 5.0
RECENT_CALLS = 5
"""The newest call never weighs less than one in this many, so that a change is followed."""
SETTLED_CALLS = 3
LARGEST_SURPRISE = 2.0
"""Once settled, a call further off than this factor is taken as this far off."""
SMALLEST_WINDOW = 256
"""No model has less; a smaller figure in a refusal is about something else."""
_COUNTS = ("calls", "ignored", "window", "worked", "refused")


@dataclass(frozen=True, slots=True, kw_only=True)
class Correction:
    """What one of our tokens is at the provider (`ratio`), learned from `calls` calls.

    Of the window, in the provider's tokens and 0 where nothing is known: what a
    refusal said it is (`window`), the longest prompt that was taken (`worked`)
    and the shortest that was not (`refused`).
    """

    ratio: float = 1.0
    calls: int = 0
    ignored: int = 0
    window: int = 0
    worked: int = 0
    refused: int = 0

    def __post_init__(self) -> None:
        require_number(self.ratio, "ratio", low=LEAST_RATIO, high=MOST_RATIO)
        for name in _COUNTS:
            require_count(getattr(self, name), name)

    def apply(self, tokens: int) -> int:
        """`tokens` as the provider would count them, rounded up."""
        # The product of the floats may lie a hair above a whole number.
        return math.ceil(require_count(tokens, "tokens") * self.ratio - 1e-9)

    def window_beside(self, listed: int | None) -> int:
        """The window, from what was learned and from what a table says, if one does.

        What the provider said counts most. A window that nobody knows is taken
        for twice what was sent before, and no window for more than was refused.
        """
        if self.window:
            return self.window
        guess = max(UNKNOWN_WINDOW_TOKENS, 2 * self.worked) if listed is None else listed
        return min(guess, self.refused) if self.refused else guess

    def as_dict(self) -> dict[str, float | int]:
        """The same as plain JSON values."""
        return asdict(self)


def observe(
    correction: Correction, *, estimated: float, actual: float, taken: bool = True
) -> Correction:
    """`correction` after a call that we counted as `estimated` and the provider as `actual`.

    The first calls are averaged, in logarithms so that half and double weigh
    the same; from the fifth on the newest call counts for a fifth, and a wild
    one moves the ratio by at most 15 % (T5). What cannot be a count of the same
    request is not learned from, only counted in `ignored`: zero, negative, NaN
    or infinite numbers, and ratios outside 0.2 to 5. A request that was not
    `taken` says nothing of what the window holds.
    """
    sound = _is_count(estimated) and _is_count(actual)
    ratio = float(actual) / float(estimated) if sound else math.inf
    if not LEAST_RATIO <= ratio <= MOST_RATIO:
        return replace(correction, ignored=correction.ignored + 1)
    if taken and int(actual) > correction.worked:  # older limits below it are gone
        tokens = int(actual)
        correction = replace(
            correction,
            worked=tokens,
            window=0 if tokens > correction.window else correction.window,
            refused=0 if tokens >= correction.refused else correction.refused,
        )
    calls = correction.calls + 1
    weight = 1 / min(calls, RECENT_CALLS)
    surprise = math.log(ratio / correction.ratio)
    if correction.calls >= SETTLED_CALLS:
        largest = math.log(LARGEST_SURPRISE)
        surprise = min(max(surprise, -largest), largest)
    learned = correction.ratio * math.exp(weight * surprise)
    bounded = min(max(learned, LEAST_RATIO), MOST_RATIO)
    return replace(correction, ratio=bounded, calls=calls)


def refuse(
    correction: Correction, *, estimated: int, counted: int | None, window: int | None = None
) -> Correction:
    """`correction` after a request that we counted as `estimated` was refused as too long.

    `counted` and `window` are what the provider said it has and what is taken,
    where it did. A figure that cannot be a window is left aside.
    """
    if counted:
        correction = observe(correction, estimated=estimated, actual=counted, taken=False)
    tokens = counted or correction.apply(estimated)
    if window is not None and window >= SMALLEST_WINDOW:
        return replace(correction, window=window, worked=min(correction.worked, window))
    refused = max(tokens, SMALLEST_WINDOW)
    if correction.refused:
        refused = min(refused, correction.refused)
    # What was taken once and is refused now: the server has changed since.
    return replace(correction, refused=refused, worked=min(correction.worked, refused), window=0)


def correction_from(state: Mapping[str, Any]) -> Correction:
    """The correction that `as_dict` wrote."""
    if not isinstance(state, Mapping) or set(state) - {"ratio", *_COUNTS}:
        raise InvalidInput(
            "correction", state, "is not a saved correction", remedy="Pass what as_dict() gave."
        )
    return Correction(**state)


def _is_count(value: object) -> bool:
    try:
        return require_number(value, "tokens") > 0
    except InvalidInput:
        return False


# ----------------------------------------------------------------------------
# What a whole request costs: messages with roles, names, tool calls, tool schemas, media.
#
# The text of a message is counted by `count`, its media by `count_media`; what
# stands around them follows OpenAI's documented accounting: 3 tokens a message, 1
# more for a name, 3 that open the answer. Other providers frame messages in about
# as many. https://cookbook.openai.com/examples/how_to_count_tokens_with_tiktoken
#
# Tool definitions as the model reads them: a namespace of typed functions.
#
# OpenAI shows functions to the model as TypeScript declarations, not as JSON
# Schema; so they are counted in that form. Keywords that have no place in it
# (`minimum`, `pattern`, …) are kept in a comment, so that nothing is left out.


_DEEPEST = 32
# fmt: off
_WRITTEN = frozenset({
    "$ref", "$schema", "additionalProperties", "allOf", "anyOf", "const", "default", "description",
    "enum", "items", "nullable", "oneOf", "properties", "required", "strict", "title", "type",
})
# fmt: on
_TYPES = {"integer": "number", "object": "object", "array": "any[]"}


def render_tools(tools: Sequence[Mapping[str, Any]]) -> str:
    """The text the model sees for `tools`, in OpenAI's, Anthropic's or Gemini's form of them."""
    lines = ["namespace functions {", ""]
    for tool in tools:
        functions = tool.get("function_declarations") or tool.get("functionDeclarations")
        if not isinstance(functions, list | tuple):
            functions = [tool["function"] if isinstance(tool.get("function"), Mapping) else tool]
        for function in functions:
            if isinstance(function, Mapping):
                lines += _declaration(function)
    lines.append("} // namespace functions")
    return require_text("\n".join(lines), "tools")


def _declaration(function: Mapping[str, Any]) -> Iterator[str]:
    name = function.get("name")
    if not isinstance(name, str):  # a provider's own tool, such as web search
        yield _json(function)
        return
    yield from _comment(function.get("description"))
    schema = function.get("parameters") or function.get("input_schema") or {}
    if not isinstance(schema, Mapping):
        raise InvalidMessage(
            "tool parameters", schema, "is not a dict", remedy="Pass a JSON Schema object."
        )
    definitions = {k: schema[k] for k in ("$defs", "definitions") if k in schema}
    if schema.get("properties"):
        yield f"type {name} = (_: {{"
        yield from _members(schema, 0)
        yield "}) => any;"
    else:
        yield f"type {name} = () => any;"
    if definitions:
        yield _json(definitions)
    yield ""


def _members(schema: Mapping[str, Any], depth: int) -> Iterator[str]:
    properties = schema.get("properties") or {}
    required = schema.get("required") or ()
    if not isinstance(properties, Mapping) or depth > _DEEPEST:
        yield _json(properties)
        return
    for name, value in properties.items():
        inner = value if isinstance(value, Mapping) else {}
        yield from _comment(inner.get("description"))
        rest = {k: v for k, v in inner.items() if k not in _WRITTEN}
        if rest:
            yield f"// {_json(rest)}"
        default = f" // default: {_json(inner['default'])}" if "default" in inner else ""
        mark = "" if name in required else "?"
        yield f"{name}{mark}: {_type(inner, depth)},{default}"


def _type(schema: Mapping[str, Any], depth: int) -> str:
    if depth > _DEEPEST:
        return _json(schema)
    for key in ("enum", "anyOf", "oneOf", "allOf"):
        options = schema.get(key)
        if isinstance(options, list | tuple) and options:
            return " | ".join(
                _json(option)
                if key == "enum" or not isinstance(option, Mapping)
                else _type(option, depth + 1)
                for option in options
            )
    if "const" in schema:
        return _json(schema["const"])
    if "$ref" in schema:
        return str(schema["$ref"])
    kind = schema.get("type")
    if isinstance(kind, list | tuple):
        return " | ".join(str(k) for k in kind)
    if kind == "array" and isinstance(schema.get("items"), Mapping):
        return f"{_type(schema['items'], depth + 1)}[]"
    if schema.get("properties"):
        return "\n".join(("{", *_members(schema, depth + 1), "}"))
    return _TYPES.get(kind, kind) if isinstance(kind, str) else "any"


def _comment(description: object) -> Iterator[str]:
    if isinstance(description, str) and description:
        yield f"// {description}"


def _json(value: object, *, name: str = "tool", separators: tuple[str, str] | None = None) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, separators=separators, default=str)
    except (ValueError, RecursionError) as error:
        raise InvalidMessage(
            name, value, "cannot be written as JSON", remedy="Pass plain values."
        ) from error


MESSAGE_TOKENS = 3
NAME_TOKENS = 1
ANSWER_TOKENS = 3
CALL_TOKENS = 6
TOOLS_TOKENS = 9

MediaCounter = Callable[[Media], int]

# Text that a provider shows to the model as it is, by the key that holds it.
_TEXT_PARTS = {
    "text": "text",
    "input_text": "text",
    "output_text": "text",
    "refusal": "refusal",
    "thinking": "thinking",
    "reasoning": "text",
}
# Parts the provider reads and the model does not see.
_SILENT_PARTS = ("redacted_thinking",)


def count_messages(
    messages: Iterable[Message],
    *,
    count: TokenCounter,
    count_media: MediaCounter,
    tools: Sequence[Mapping[str, Any]] = (),
) -> int:
    """The tokens of a request with these messages and tools; without messages, of the tools."""
    if not isinstance(messages, Iterable):
        raise InvalidMessage("messages", messages, "is not a list", remedy="Pass a list of dicts.")
    total = sum(count_message(m, count=count, count_media=count_media) for m in messages)
    return (total + ANSWER_TOKENS if total else 0) + count_tools(tools, count=count)


def count_message(message: Message, *, count: TokenCounter, count_media: MediaCounter) -> int:
    """The tokens one message adds to a request."""
    role = require_message(message)["role"]
    total = MESSAGE_TOKENS + count(role)
    name = message.get("name")
    if name is not None:
        total += NAME_TOKENS + count(_text(name, "name"))
    if (call_id := message.get("tool_call_id")) is not None:
        total += count(_text(call_id, "tool_call_id"))
    calls = _calls(message)
    total += sum(_count_call(call, count) for call in calls)
    for key in ("refusal", "reasoning_content"):
        if message.get(key) is not None:
            total += count(_text(message[key], key))
    try:
        return total + _count_content(message.get("content") or "", count, count_media)
    except RecursionError as error:
        raise InvalidMessage(
            "content", role, "is nested too deeply in a message of", remedy="Flatten it."
        ) from error


def plain_message(message: Message) -> tuple[str, str] | None:
    """The role and the text of a message that has nothing else; most messages are such."""
    if len(message) != 2:
        return None
    role, content = message.get("role"), message.get("content")
    return (str(role), content) if isinstance(content, str) and role in ROLES else None


def count_tools(tools: Sequence[Mapping[str, Any]], *, count: TokenCounter) -> int:
    """The tokens of the tool definitions sent with a request; none for no tools."""
    if not tools:
        return 0
    if isinstance(tools, str | Mapping) or not all(isinstance(t, Mapping) for t in tools):
        raise InvalidMessage("tools", tools, "is not a list of dicts", remedy="Pass a list.")
    return TOOLS_TOKENS + count(render_tools(tools))


def _text(value: object, name: str) -> str:
    if not isinstance(value, str):
        raise InvalidMessage(name, value, "is not a string", remedy="Pass a str.")
    return require_text(value, name)


def _calls(message: Message) -> list[Mapping[str, Any]]:
    calls = message.get("tool_calls") or []
    if not isinstance(calls, list | tuple):
        raise InvalidMessage("tool_calls", calls, "is not a list", remedy="Pass a list of dicts.")
    legacy = message.get("function_call")
    found = [*calls, *([] if legacy is None else [{"function": legacy}])]
    for call in found:
        if not isinstance(call, Mapping) or not isinstance(call.get("function", {}), Mapping):
            raise InvalidMessage(
                "tool_calls", call, "is not a dict with a function", remedy="See the docs."
            )
    return found


def _count_call(call: Mapping[str, Any], count: TokenCounter) -> int:
    function = call.get("function") or call.get("custom") or call
    name = function.get("name")
    arguments = function.get("arguments", function.get("input", ""))
    total = CALL_TOKENS if name is None else CALL_TOKENS + count(_text(name, "function name"))
    if isinstance(arguments, str):
        return total + count(require_text(arguments, "arguments"))
    return total + count(_as_json(arguments))


def _count_content(content: object, count: TokenCounter, count_media: MediaCounter) -> int:
    if isinstance(content, str):
        return count(require_text(content, "content"))
    if not isinstance(content, list | tuple):
        raise InvalidMessage(
            "content", content, "is neither text nor a list of parts", remedy="Pass a str or list."
        )
    return sum(_count_part(part, count, count_media) for part in content)


def _count_part(part: object, count: TokenCounter, count_media: MediaCounter) -> int:
    if isinstance(part, str):
        return count(require_text(part, "content"))
    if not isinstance(part, Mapping) or not isinstance(part.get("type"), str):
        raise InvalidMessage(
            "content part", part, "has no type", remedy="Pass {'type': 'text', 'text': …}."
        )
    kind = part["type"]
    if kind in _TEXT_PARTS:
        return count(_text(part.get(_TEXT_PARTS[kind], ""), kind))
    if kind in _SILENT_PARTS:
        return 0
    if kind == "tool_use":
        return _count_call(part, count)
    if kind == "tool_result":
        inner = part.get("content") or ""
        call_id = part.get("tool_use_id") or ""
        return count(_text(call_id, "tool_use_id")) + _count_content(inner, count, count_media)
    media = media_of(part)
    if media is None:
        return count(_as_json(part))
    total = count_media(media) if media.text is None else count(require_text(media.text, kind))
    return total + sum(count(title) for title in media.titles)


def _as_json(value: object) -> str:
    """`value` as compact JSON; a part nobody knows is counted as it would be sent."""
    return require_text(_json(value, name="message", separators=(",", ":")), "message")


# ----------------------------------------------------------------------------
# A counter that remembers, and all of it for one model.


CACHED_TEXTS = 8_192
UNBOUNDED = 1 << 62
"""More tokens than anything has."""
CLAUDE_TOOL_PROMPT_TOKENS = 346
LEAST_TRUSTED_RATIO = 0.8
"""Some providers leave what they cached out of a prompt's count; the window is no larger for it."""
_KEPT_CHARACTERS = 512
DIGITS = ", digit by digit"


class CachedCounter:
    """A counter that remembers its last answers; safe from several threads.

    Long texts are remembered by their hash, so that the cache stays small.
    """

    def __init__(self, count: TokenCounter, *, size: int = CACHED_TEXTS) -> None:
        self._count = count
        self._size = require_count(size, "size", least=1)
        self._known: dict[str | bytes, int] = {}
        self._lock = threading.Lock()

    def __call__(self, text: str, /) -> int:
        key: str | bytes = require_text(text, "text")
        if len(text) > _KEPT_CHARACTERS:
            key = hashlib.blake2b(text.encode("utf-8"), digest_size=24).digest()
        tokens = self._known.get(key)
        if tokens is None:
            tokens = self._count(text)
            with self._lock:
                self._known[key] = tokens
                while len(self._known) > self._size:  # the one counted first makes room
                    del self._known[next(iter(self._known))]
        return tokens

    def __len__(self) -> int:
        return len(self._known)


class Corrections:
    """What provider usage taught about each model; safe from several threads."""

    def __init__(self) -> None:
        self._known: dict[str, Correction] = {}
        self._lock = threading.Lock()

    def observe(self, model: str, estimated: float, actual: float) -> Correction:
        """Learn that `estimated` of our tokens were `actual` tokens to the provider of `model`.

        Numbers that cannot be right are ignored; see `observe`.
        """
        return self._learn(model, lambda known: observe(known, estimated=estimated, actual=actual))

    def refuse(
        self, model: str, estimated: int, *, counted: int | None = None, window: int | None = None
    ) -> Correction:
        """Learn that `model` did not take a request, and what it says of it and of its window."""
        return self._learn(
            model, lambda known: refuse(known, estimated=estimated, counted=counted, window=window)
        )

    def _learn(self, model: str, lesson: Callable[[Correction], Correction]) -> Correction:
        name = names_of(model)[0]
        with self._lock:
            learned = self._known[name] = lesson(self._known.get(name, Correction()))
        return learned

    def of(self, model: str) -> Correction:
        """The correction of `model`; a ratio of 1 before anything was observed."""
        with self._lock:
            return self._known.get(names_of(model)[0], Correction())

    def export(self) -> dict[str, dict[str, float | int]]:
        """All that was learned, as plain JSON values."""
        with self._lock:
            return {name: known.as_dict() for name, known in sorted(self._known.items())}

    def load(self, state: Mapping[str, Mapping[str, Any]]) -> None:
        """Take over what `export` gave; models in it replace what is known of them."""
        saved = require_mapping(state, "corrections")
        loaded = {names_of(name)[0]: correction_from(one) for name, one in saved.items()}
        with self._lock:
            self._known.update(loaded)


class Tokenizer:
    """Counts tokens as `model` does, as near as can be had on this machine.

    `exact` says whether the model's own encoding counts; `counted_with` names
    what does. `context_window` and `max_output` override what the tables say; a
    model nobody lists gets 8,192 tokens and an `UnknownModelWarning` without.
    With `estimate` no vocabulary is loaded and tokens are estimated, which is
    for programs that run for less time than loading one takes.
    """

    def __init__(
        self,
        model: str,
        *,
        context_window: int | None = None,
        max_output: int | None = None,
        completion: int = COMPLETION_TOKENS,
        corrections: Corrections | None = None,
        estimate: bool = False,
    ) -> None:
        self.model = names_of(model)[0]
        self.corrections = Corrections() if corrections is None else corrections
        self._said = context_window is not None
        listed = find_limits(model, listed_limits())
        self._listed = listed is not None
        if not self.window_known:
            warnings.warn(
                f"The window of {model!a} is not known; {UNKNOWN_WINDOW_TOKENS:,} tokens are "
                "assumed until the provider refuses or takes more. Set context_window= to its "
                "real size.",
                UnknownModelWarning,
                stacklevel=2,
            )
        window, output = context_window, max_output
        if window is None:
            window = UNKNOWN_WINDOW_TOKENS if listed is None else listed.window
        if output is None:
            output = window if listed is None else listed.max_output
        self._limits = ModelLimits(window=window, max_output=output)
        self._max_output = max_output
        self._completion = completion
        self._is_claude = family_of(model) == "claude"
        counter = _estimate_for if estimate else _counter_for
        count, self.counted_with, self.exact = counter(self.model)
        self._count = count
        self._at_most = _bound_for(self.counted_with)

    @property
    def window_known(self) -> bool:
        """Whether somebody said how large the window is: the caller, a table or a refusal."""
        learned = self.corrections.of(self.model)
        return self._said or self._listed or bool(learned.window or learned.refused)

    @property
    def limits(self) -> ModelLimits:
        """Window and longest answer; what was learned counts unless the caller says the window."""
        if self._said:
            return self._limits
        listed = self._limits.window if self._listed else None
        window = self.corrections.of(self.model).window_beside(listed)
        if window == self._limits.window:
            return self._limits
        output = self._limits.max_output if self._listed or self._max_output else window
        return ModelLimits(window=window, max_output=output)

    @property
    def reserve(self) -> Reserve:
        return reserve_for(self.limits, completion=self._completion)

    def __repr__(self) -> str:
        return f"Tokenizer({self.model!r}, counted_with={self.counted_with!r})"

    def __call__(self, text: str, /) -> int:
        return self._count(text)

    def count(self, text: str) -> int:
        """The tokens of `text`."""
        return self._count(text)

    def count_message(self, message: Message, *, warn: bool = True) -> int:
        """The tokens one message adds to a request."""

        def quietly(media: Media) -> int:
            return estimate_media(media, self.model).tokens

        media = self.count_media if warn else quietly
        return count_message(message, count=self._count, count_media=media)

    def at_most(self, text: str) -> int:
        """No less than the tokens of `text`, told without counting them."""
        return self._at_most(text)

    def messages_at_most(self, messages: Iterable[Message]) -> list[int]:
        """For each no less than `count_message` gives; `UNBOUNDED` for more than role and text."""
        at_most = self._at_most
        framed = {role: MESSAGE_TOKENS + at_most(role) for role in ROLES}
        return [
            framed[plain[0]] + at_most(plain[1]) if (plain := plain_message(message)) else UNBOUNDED
            for message in messages
        ]

    def count_messages(
        self, messages: Iterable[Message], tools: Sequence[Mapping[str, Any]] = ()
    ) -> int:
        """The tokens of a whole request."""
        total = count_messages(
            messages, count=self._count, count_media=self.count_media, tools=tools
        )
        return total + (CLAUDE_TOOL_PROMPT_TOKENS if tools and self._is_claude else 0)

    def count_media(self, media: Media) -> int:
        """The tokens of an image, recording or document; warns when it cannot be read."""
        estimate = estimate_media(media, self.model)
        if estimate.warning:
            warnings.warn(estimate.warning, MediaWarning, stacklevel=2)
        return estimate.tokens

    @property
    def available_tokens(self) -> int:
        """How many of our tokens fit into a request, the reserve kept free.

        The correction is applied here, once, so that counts themselves never
        change. At least 1. A ratio below `LEAST_TRUSTED_RATIO` is not relied on.
        """
        limits = self.limits
        free = limits.window - reserve_for(limits, completion=self._completion).total
        ratio = max(self.corrections.of(self.model).ratio, LEAST_TRUSTED_RATIO)
        return max(1, int(free / ratio))

    def corrected(self, tokens: int) -> int:
        """`tokens` as the provider would count them, from what `observe` learned."""
        return self.corrections.of(self.model).apply(tokens)

    def observe(self, estimated: float, actual: float) -> Correction:
        """Learn from a call that we counted as `estimated` and the provider as `actual`."""
        return self.corrections.observe(self.model, estimated, actual)


def tokenizer_for(model: str) -> Tokenizer:
    """The tokenizer of `model`, made once a process and sharing what it learns."""
    return _tokenizer_for(names_of(model)[0])


_tokenizer_for = lru_cache(maxsize=64)(Tokenizer)


def _counter_for(model: str) -> tuple[CachedCounter, str, bool]:
    family = family_of(model)
    encoding, own = encoding_of(model)
    counter = family_counter(family)
    if counter is not None:
        # Claude's file is the one Anthropic published for Claude 2; newer models differ.
        return _shared(family, counter), family, family != "claude"
    counter = tiktoken_counter(encoding)
    if counter is not None:
        return (*_adjusted(model, counter, encoding, encoding), own)
    warnings.warn(
        f"No rank file of {encoding} is on this machine, so tokens for {model!a} are estimated. "
        "Reinstall agentmem-loop, or put the file into TIKTOKEN_CACHE_DIR.",
        ApproximateCountWarning,
        stacklevel=3,
    )
    return _estimate_for(model)


def _estimate_for(model: str) -> tuple[CachedCounter, str, bool]:
    profile = encoding_of(model)[0]

    def estimate(text: str, /) -> int:
        return estimate_tokens(text, encoding=profile)

    return (*_adjusted(model, estimate, profile, f"estimate:{profile}"), False)


def _adjusted(
    model: str, count: TokenCounter, encoding: EncodingName, name: str
) -> tuple[CachedCounter, str]:
    """The counter of an encoding, for a model whose vocabulary is only like it, and its name."""
    digits, factor = adjustment_of(model)
    if digits or factor != 1.0:
        count = adjusted(count, encoding, digits=digits, factor=factor)
        name += f"{' × ' + format(factor, 'g') if factor != 1.0 else ''}{DIGITS * digits}"
    return _shared(name, count), name


def _bound_for(counted_with: str) -> Callable[[str], int]:
    if counted_with.removesuffix(DIGITS) in SHA256:
        return _bytes_and_cuts
    known = counted_with.startswith(("estimate:", *SHA256))
    return _twice_the_bytes if known else _twice_if_ascii


def _bytes_and_cuts(text: str) -> int:
    """A token of a byte-pair encoding is a byte at least; a cut through a long word costs more."""
    size = len(text.encode("utf-8"))
    return size + CUT_TOKENS * (size // LONGEST_RUN_CHARACTERS)


def _twice_the_bytes(text: str) -> int:
    """An estimate, or an encoding whose tokens a factor makes more of; a digit is one more."""
    size = len(text.encode("utf-8"))
    return 2 * size + (sum(map(str.isdigit, text)) if text.isascii() else size) + 3


def _twice_if_ascii(text: str) -> int:
    """Other tokenizers bring characters to another form first, which may be many times longer."""
    return 2 * len(text) + 16 if text.isascii() else UNBOUNDED


_counters: dict[str, CachedCounter] = {}
_counters_lock = threading.Lock()


def _shared(name: str, count: TokenCounter) -> CachedCounter:
    """One cache for all models that count alike."""
    with _counters_lock:
        return _counters.setdefault(name, CachedCounter(count))
