"""Text of others as an answer may show it: no live markup, no number that looks like a citation.

An answer is often rendered as Markdown. An image in it is fetched the moment
it is shown, so its address can carry away what the answer knows; a `[2]` that a
page wrote itself would be read as our second source.
"""

from __future__ import annotations

from agentmem.core.cleaning import clean_text
from agentmem.core.patterns import compile_late

_TAG = compile_late(r"<(?=[A-Za-z/!?])")
# Whatever a reader of citation marks could take for one: brackets with a number inside.
_MARK = compile_late(
    r"[\[［﹇【]([^\[\]［］﹇﹈【】]{0,400}?\d[^\[\]［］﹇﹈【】]{0,400})[\]］﹈】]"
)
_OPEN_MARK = compile_late(r"[\[［﹇【](?=\s{0,3}[\w#^ .:]{0,24}\d)")
_SPACES = compile_late(r"\s+")
_NESTED = 20


def show_quote(text: str) -> str:
    """`text` on one line with live images, links, tags and citation marks taken apart.

    Words stay as they are; only the punctuation that makes them live changes
    (`![a](b)` becomes `! [a] (b)`, `[1]` becomes `(1)`, `<img` becomes `< img`).
    Applying it again changes nothing.
    """
    for _ in range(_NESTED):
        line = _SPACES.sub(" ", clean_text(text)).strip()
        line = _TAG.sub("< ", _without_marks(line))
        if line.count("`") % 2 or "``" in line:
            line = line.replace("`", "'")  # an open code span would swallow what follows
        if line == text:
            return line
        text = line
    return text.translate(_FLAT)


_FLAT = str.maketrans({"[": "(", "]": ")", "<": "(", ">": ")", "!": ".", "`": "'"})


def _without_marks(text: str) -> str:
    for _ in range(_NESTED):
        changed = _MARK.sub(r"(\1)", text)
        if changed == text:
            break
        text = changed
    return _OPEN_MARK.sub("(", text)
