"""One key for one attribute, however it is said: "the API's limit" and "limit of the API".

A key is the normal forms of the words that name the subject and the attribute,
in alphabetical order: articles, possessives and "we" fall away, plurals become
singular, synonyms take the first word of their group. "my sister is called
Ana" and "my sister's name is Ana" both have the key "name sister".
"""

from __future__ import annotations

import re
from functools import lru_cache

from agentmem.core.conflicts_words import GENERIC_ACRONYMS, PERSONS

_WORD = re.compile(r"[^\W_](?:[\w+#]|['’.\-/_](?=\w))*")
_ARTICLES = (
    "a an the this that these those of for to in on at by with our my your his her its their"
    " we i us me is are was were be current currently actual now new all each every some any"
    " and used"
)
_DROPPED = frozenset(_ARTICLES.split()) | frozenset(PERSONS)
_SAME = """
database db databases|limit cap ceiling quota|price cost costs fee|deadline due-date|maximum max
meeting meetings call sync|standup stand-up|deploy deploys deployment deployments rollout rollouts
minimum min|main primary principal|application app|environment env|production prod
development dev|phone telephone|config configuration|email e-mail mail
favorite favourite|license licence|repo repository|birthday birthdate|job occupation profession
manager boss supervisor|lead leader head|location place|expiry expiration|headquarters hq
release releases|cache caching|timeout time-out|queue queueing queuing|test testing
authentication auth login|kubernetes k8s|retention keeping|salary pay wage|wife spouse
mother mom mum|father dad|child kid children|apartment flat|vacation holiday
documentation docs|on-call oncall|retro retrospective|color colour
"""
_HEADS = {
    word: group.split()[0]
    for group in _SAME.replace("\n", "|").split("|")
    for word in group.split()
}
_WORDS_IN_OS = "retros logos photos videos repos demos memos macros zoos radios"
_WORDS_IN_ICS = (
    "analytics physics mathematics economics logistics robotics ethics graphics politics"
)
_SCIENCES = frozenset(_WORDS_IN_ICS.split())
_PLURAL_OS = frozenset(_WORDS_IN_OS.split())
MOST_KEY_WORDS = 6


@lru_cache(maxsize=1 << 14)
def normal_word(word: str) -> str:
    """The form of a lower-case word that keys use; readable, unlike a stem."""
    return _HEADS.get(word) or _HEADS.get(_singular(word)) or _singular(word)


def _singular(word: str) -> str:
    if word in GENERIC_ACRONYMS or len(word) < 4 or not word.isalpha():
        return word
    if word in _PLURAL_OS:
        return word[:-1]
    if word in _SCIENCES:
        return word
    if word.endswith("ies"):
        return word[:-3] + "y"
    if word.endswith(("ss", "us", "is", "os")):
        return word
    if word.endswith(("ches", "shes", "xes", "sses")):
        return word[:-2]
    return word.removesuffix("s")


def key_words(text: str) -> list[str]:
    """The normal forms of the words in `text` that can stand in a key, in order."""
    found: list[str] = []
    for match in _WORD.finditer(text):
        word = match[0].lower().replace("’", "'")
        word = word.removesuffix("'s").removesuffix("'")
        if word not in _DROPPED:
            found.append(normal_word(word))
    return found


def fact_key(subject: str, attribute: str = "") -> str:
    """The key for a subject and an attribute in its normal form.

    Empty when they have no words, or more than can name an attribute.
    """
    words = sorted({*key_words(subject), *attribute.split()})
    return " ".join(words) if len(words) <= MOST_KEY_WORDS else ""
