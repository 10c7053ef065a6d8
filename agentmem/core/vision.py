"""Whether a message needs vision: the rule that decides if images enter a prompt.

A message needs vision when it carries an image, when its words point at one
("what is in this picture?"), or when it goes on about the image sent just
before ("and what colour is it?"). The words are judged strictly: an image that
is merely talked about (a container image, the big picture, "resize an image in
Python", "draw me a picture") is not one to look at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from agentmem.core.checks import require_text
from agentmem.core.message_parts import has_image, is_question, require_message, text_of
from agentmem.core.vision_words import (
    ASKING,
    CODE,
    CREATING,
    DEFINITE,
    FILE_NAME,
    FOLLOW_UP,
    IDIOM,
    LOOKING,
    OTHER_LANGUAGES,
    POINTED_IMAGE,
    POINTED_PHOTO,
    SHARED,
    TECHNICAL,
)
from agentmem.types import Message

VisionReason = Literal["attached", "mentioned", "follows"]

_SCANNED_CHARACTERS = 4_000
"""People point at an image at the start or the end of what they write, not inside a paste."""


def needs_vision(message: Message | str, *, history: Sequence[Message] = ()) -> bool:
    """Whether images should be sent with `message`, given the messages before it."""
    return vision_reason(message, history=history) is not None


def vision_reason(
    message: Message | str, *, history: Sequence[Message] = ()
) -> VisionReason | None:
    """Why `message` needs vision, or `None`.

    `attached`: it carries an image. `mentioned`: its words point at one.
    `follows`: an image came since the user's last message, and the words go on
    about it ("it", "there", "what about the left one"). Only the first and the
    last 4,000 characters are read, and code is not.
    """
    if isinstance(message, Mapping):
        require_message(message)
        if has_image(message):
            return "attached"
        text = text_of(message)
    else:
        text = require_text(message, "message")
    if mentions_image(text):
        return "mentioned"
    words = _readable(text)
    if FOLLOW_UP.search(words) and not TECHNICAL.search(words) and _image_just_before(history):
        return "follows"
    return None


def mentions_image(text: str) -> bool:
    """Whether the words alone point at an image that is there to be looked at."""
    words = IDIOM.sub(" ", _readable(text))
    if any(p.search(words) for p in (OTHER_LANGUAGES, LOOKING, SHARED, POINTED_PHOTO)):
        return True
    if TECHNICAL.search(words):
        return False
    if POINTED_IMAGE.search(words):
        return True
    if CREATING.search(words) or not ASKING.search(words):
        return False
    return bool(DEFINITE.search(words) or FILE_NAME.search(words))


def _readable(text: str) -> str:
    if len(text) > 2 * _SCANNED_CHARACTERS:
        text = text[:_SCANNED_CHARACTERS] + "\n" + text[-_SCANNED_CHARACTERS:]
    return CODE.sub(" ", text).replace("\u2019", "'").casefold()


def _image_just_before(history: Sequence[Message]) -> bool:
    for message in reversed(history):
        if has_image(message):
            return True
        if is_question(message):
            return False
    return False
