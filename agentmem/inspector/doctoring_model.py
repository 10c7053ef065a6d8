"""Whether the model that `chat` and `ask` would use can be asked; no request is made."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from agentmem.config import EXTRACTIVE
from agentmem.core.cleaning import clean_line
from agentmem.core.models import UNKNOWN_WINDOW_TOKENS, find_limits
from agentmem.inspector.checks import Check
from agentmem.litellm_loader import import_litellm, listed_limits

NAME = "model"
_LONGEST_NAME = 80
_OWN_MACHINE = ("localhost", "127.0.0.1", "::1")


def examine_model(model: str) -> Check:
    """What is known of `model`, its window and its provider's key, which is never shown.

    A name that nobody serves is a failure. A missing key only warns: some
    providers find theirs in a file.
    """
    if model == EXTRACTIVE:
        return Check(
            name=NAME,
            state="ok",
            found=f"{EXTRACTIVE}: no model is asked, answers quote what memory has",
        )
    shown = clean_line(model, limit_characters=_LONGEST_NAME)
    try:
        litellm = import_litellm()
    except ImportError as error:
        return Check(
            name=NAME,
            state="fail",
            found=f"{shown} cannot be asked: litellm cannot be imported ({error})",
            remedy="pip install 'agentmem-loop[litellm]'",
        )
    provider, address = _provider(litellm, model)
    if not provider:
        return Check(
            name=NAME,
            state="fail",
            found=f"litellm knows no provider of {shown}",
            remedy="Put the provider before the name, as in openai/NAME or ollama/NAME.",
        )
    missing = _missing(litellm, model, address)
    key = f"not set: {', '.join(missing)}" if missing else "its key is set or not needed"
    return Check(
        name=NAME,
        state="warn" if missing else "ok",
        found=f"{shown} at {provider}, {_window(model)}; {key}",
        remedy=f"Set what {provider} asks for: {', '.join(missing)}." if missing else "",
    )


def _provider(litellm: Any, model: str) -> tuple[str, str]:
    """Who serves a model and where, both empty when litellm cannot tell."""
    try:
        _, provider, _, address = litellm.get_llm_provider(model)
    except Exception:  # noqa: BLE001 - it raises its own errors, and others for odd names
        return "", ""
    return str(provider or ""), str(address or "")


def _missing(litellm: Any, model: str, address: str) -> list[str]:
    """The variables that litellm would look for in vain."""
    try:
        missing = [str(one) for one in litellm.validate_environment(model)["missing_keys"]]
    except Exception:  # noqa: BLE001 - what it cannot tell is no reason to complain
        return []
    if urlsplit(address).hostname in _OWN_MACHINE:  # it says where, so nothing need be set
        return [one for one in missing if not one.endswith("_API_BASE")]
    return missing


def _window(model: str) -> str:
    limits = find_limits(model, listed_limits())
    if limits is None:
        return f"window not known, {UNKNOWN_WINDOW_TOKENS:,} tokens assumed"
    return f"window of {limits.window:,} tokens"
