"""litellm, as data without importing it, and imported without its side effects."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import sys
import threading
import warnings
from collections.abc import Iterator, Mapping
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from agentmem.base.errors import MissingExtra
from agentmem.tokens.models import LEAST_WINDOW_TOKENS, ModelLimits

_TABLE = "model_prices_and_context_window_backup.json"
_CLAUDE = Path("litellm_core_utils", "tokenizers", "anthropic_tokenizer.json")
_environment = threading.RLock()


@lru_cache(maxsize=1)
def litellm_folder() -> Path | None:
    """Where litellm is installed, or `None`; it is not imported for that."""
    try:
        spec = importlib.util.find_spec("litellm")
    except (ImportError, ValueError):
        return None
    places = list(spec.submodule_search_locations or ()) if spec else []
    return Path(places[0]) if places else None


def claude_tokenizer() -> Path | None:
    """Anthropic's tokenizer file in litellm's wheel, or `None`."""
    folder = litellm_folder()
    path = folder / _CLAUDE if folder else None
    return path if path and path.is_file() else None


@lru_cache(maxsize=1)
def listed_limits() -> Mapping[str, ModelLimits]:
    """Windows and longest answers by lower-case name, from the table in litellm's wheel.

    In that table `max_input_tokens` is the window and `max_tokens` the longest
    answer, except in entries that have only `max_tokens`. Empty when the table
    is missing or cannot be read.
    """
    folder = litellm_folder()
    try:
        return ListedLimits((folder / _TABLE).read_text("utf-8") if folder else "")
    except (OSError, ValueError):
        return ListedLimits("")


class ListedLimits(Mapping[str, ModelLimits]):
    """Limits by lower-case name out of a JSON text of a few thousand entries.

    A name that stands in it as it is asked for is read alone; only what needs
    all names parses everything.
    """

    def __init__(self, text: str) -> None:
        self._text = text

    def __getitem__(self, name: str) -> ModelLimits:
        if "_all" not in self.__dict__:
            alone = self._read_alone(name)
            if alone is not None:
                return alone
        return self._all[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)

    def _read_alone(self, name: str) -> ModelLimits | None:
        opening = f"\n    {json.dumps(name)}: "
        at = self._text.find(opening)
        if at < 0:
            return None
        try:
            return _limits(json.JSONDecoder().raw_decode(self._text, at + len(opening))[0])
        except ValueError:
            return None

    @cached_property
    def _all(self) -> dict[str, ModelLimits]:
        try:
            table = json.loads(self._text)
        except ValueError:
            table = {}
        found: dict[str, ModelLimits] = {}
        for name, entry in table.items() if isinstance(table, dict) else ():
            limits = _limits(entry)
            if limits is not None:
                found.setdefault(name.lower(), limits)
        return found


def _limits(entry: object) -> ModelLimits | None:
    if not isinstance(entry, dict):
        return None
    window, output, legacy = (
        value if isinstance(value := entry.get(key), int) and value > 0 else None
        for key in ("max_input_tokens", "max_output_tokens", "max_tokens")
    )
    window = window or legacy
    if window is None or window < LEAST_WINDOW_TOKENS:
        return None
    return ModelLimits(window=window, max_output=output or legacy or window)


@contextlib.contextmanager
def environment(**values: str | None) -> Iterator[None]:
    """Set environment variables for a moment; one thread at a time.

    With `None` one is left as it is; what is set in that moment is put back too.
    """
    with _environment:
        before = {name: os.environ.get(name) for name in values}
        os.environ.update({name: value for name, value in values.items() if value is not None})
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value


def import_litellm(purpose: str = "Asking a model by its name") -> Any:
    """The litellm module, imported quietly and without touching the network.

    `MissingExtra`, with what it is for, when it is not installed.

    It costs seconds of CPU, so nothing that only counts calls this. A litellm
    that the caller imported before is returned as it is; otherwise it reads its
    own price table, downloads no tokenizers and prints no advice. Variables it
    sets while importing are put back.
    """
    loaded = sys.modules.get("litellm")
    if loaded is not None and hasattr(loaded, "completion"):
        return loaded
    quiet = environment(LITELLM_LOCAL_MODEL_COST_MAP="True", TIKTOKEN_CACHE_DIR=None)
    with quiet, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            import litellm
        except ModuleNotFoundError as error:
            if error.name != "litellm":
                raise
            raise MissingExtra("litellm", extra="litellm", purpose=purpose) from None
    litellm.disable_hf_tokenizer_download = True
    litellm.suppress_debug_info = True
    litellm.telemetry = False
    return litellm
