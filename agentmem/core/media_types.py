"""Which answers of a web server hold text worth reading."""

from __future__ import annotations

_TEXTUAL = frozenset(
    """
    application/json application/ld+json application/x-ndjson application/jsonl application/xml
    application/xhtml+xml application/rss+xml application/atom+xml application/pdf
    application/javascript application/ecmascript application/x-javascript application/yaml
    application/x-yaml application/toml application/sql application/x-sh application/x-tex
    application/rtf application/graphql application/x-ipynb+json
    """.split()  # noqa: SIM905  # a list of words reads better than a column of strings
)


def media_type_of(content_type: str) -> str:
    """The type without its parameters, in lower case; "" when there is none."""
    return content_type.split(";", maxsplit=1)[0].strip().lower()


def is_readable(media_type: str) -> bool:
    """Whether text may be in it; a missing type is settled by looking at the bytes."""
    return (
        not media_type
        or media_type.startswith("text/")
        or media_type in _TEXTUAL
        or media_type.endswith(("+json", "+xml"))
    ) and media_type != "image/svg+xml"
