"""Which statements are about the same thing, and what a newer one replaces."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from agentmem.core import preference_lexicon as lex
from agentmem.core.checks import require_text
from agentmem.core.patterns import LazyPattern
from agentmem.core.preference_lexicon import either
from agentmem.core.preferences import DetectedPreference
from agentmem.core.values import dataclass

# Settings of which one holds at a time, by the words for their values.
_SETTINGS: tuple[tuple[str, LazyPattern], ...] = tuple(
    (
        name,
        LazyPattern(
            r"(?:use |using |the |with |to use |indent(?:ing)? with |write |answer |in |my )*"
            rf"{either(words)}(?: (?:for|in|over|on|instead|everywhere|when|only|to)\b.*)?\Z"
        ),
    )
    for name, words in (
        (
            "indentation",
            "tabs|spaces|tab indentation|indent with tabs|indent with spaces|indentation",
        ),
        (
            "theme",
            "dark mode|light mode|dark theme|light theme|dark themes|light themes|dark backgrounds",
        ),
        ("units of temperature", "celsius|fahrenheit|kelvin"),
        (
            "units",
            "metric|imperial|si units|kilometers|kilometres|miles|metric units|imperial units",
        ),
        ("clock", "24-hour|12-hour|24 hour|12 hour|24h|12h|am/pm|military time"),
        (
            "spelling",
            "british spelling|american spelling|uk spelling|british english|american english",
        ),
        ("quotes in code", "single quotes|double quotes"),
        ("seat", "window seat|window seats|aisle seat|aisle seats|middle seat"),
    )
)
# Tastes that exclude each other only when one is preferred.
_TASTES: tuple[tuple[str, LazyPattern], ...] = tuple(
    (name, LazyPattern(rf"(?:the )?{either(words)}\Z"))
    for name, words in (
        ("hot drink", "tea|coffee"),
        ("pet", "cats|dogs|cat|dog"),
        ("operating system", "linux|windows|macos|mac|macs|ubuntu"),
        ("phone", "android|iphone|ios|iphones|android phones"),
        ("editor", "vim|neovim|emacs|vs code|vscode|nano|sublime|intellij|pycharm"),
    )
)
_STYLES: tuple[tuple[str, LazyPattern], ...] = (
    ("answers: emojis", LazyPattern(r"\b(?:emojis?|emoticons?|smileys)\b")),
    (
        "answers: language",
        LazyPattern(rf"\b(?:in|to|use|speak|only|switch to) {lex.LANGUAGE}\b|^{lex.LANGUAGE}\b"),
    ),
    (
        "answers: length",
        LazyPattern(
            rf"\b(?:{lex.BRIEF}|{lex.LONG}|(?:under|below|most|than|to|"
            rf"about|around) \w+ (?:words|sentences|lines|paragraphs?))"
            rf"\b"
        ),
    ),
    ("answers: lists", LazyPattern(r"\b(?:bullet\w*|bulleted lists?|numbered lists?|lists)\b")),
    ("answers: tone", LazyPattern(rf"\b(?:{lex.TONE}|tone)\b")),
    (
        "answers: jargon",
        LazyPattern(
            r"\b(?:jargon|technical terms|plain english|plain language|"
            r"simple language|simple terms|layman's terms)\b"
        ),
    ),
)
_DIET = LazyPattern(
    r"\b(?:vegan|vegetarian|pescatarian|flexitarian|carnivore|omnivore|"
    r"plant-based|keto|paleo|kosher|halal"
    r"|low-carb|mediterranean)\b"
)
_LEVEL = LazyPattern(
    rf"\b(?:{lex.LEVEL}|new|newish|experienced|familiar|unfamiliar|proficient|"
    rf"fluent|skilled|versed|knowledgeable|competent|good|great|bad|terrible|"
    rf"decent|advanced|inexperienced|rusty|experience|background|knowledge|"
    rf"degree|expertise)\b"
)
_LEVEL_OF = LazyPattern(r"\b(?:in|with|at|to|of|about|on|using|as)\b (.+)")
_COMPARED = LazyPattern(
    r"\b(?:prefer(?:red)?(?: to)?|rather|like|love|choose|pick|take|favou?r) "
    r"(.+?) (?:over|rather than|instead of|than|more than) (.+)"
)
_COMPARED_TO = LazyPattern(
    r"\bprefer ((?!to\b)(?:[\w'-]+ ){0,2}(?!\w+ing\b)[\w'-]+) to (?!the\b)([\w' -]+)"
)
_PREFERRED = LazyPattern(
    r"\b(?:prefer|rather|only use|always use|exclusively use|switched to|mainly use|mostly use)\b"
)
_TOKEN = LazyPattern(r"[^\W_][\w'+#.-]*")
_EMPTY = frozenset(
    [
        "the",
        "a",
        "an",
        "my",
        "our",
        "any",
        "all",
        "some",
        "of",
        "to",
        "in",
        "on",
        "with",
        "for",
        "by",
        "at",
        "very",
        "really",
        "using",
        "use",
        "being",
        "it",
        "that",
        "and",
        "or",
        "from",
        "as",
        "about",
        "when",
        "is",
        "are",
        "be",
        "do",
        "i",
        "you",
        "your",
        "me",
        "please",
        "always",
        "never",
    ]
)
_KEY_WORDS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownPreference:
    """A preference that is stored already, under the key of its statement."""

    id: str
    key: str
    content: str

    def __post_init__(self) -> None:
        for name in ("id", "key", "content"):
            require_text(getattr(self, name), name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """`new` takes the place of the stored preferences `old_ids`."""

    old_ids: tuple[str, ...]
    new: DetectedPreference


@dataclass(frozen=True, slots=True, kw_only=True)
class PreferencePlan:
    """What to store: `add` is new, `replace` supersedes, `repeated` are ids of what was said again.

    `overtaken` are statements that a later one in the same batch replaces.
    """

    add: tuple[DetectedPreference, ...] = ()
    replace: tuple[Replacement, ...] = ()
    repeated: tuple[str, ...] = ()
    overtaken: tuple[DetectedPreference, ...] = ()


def subject_key(preference: DetectedPreference) -> str:
    """What the statement is about; two with equal keys cannot both hold.

    One at a time: the name, the pronouns, the diet, the language, length and
    tone of answers, a setting such as the indentation, the favourite of each
    sort, the level in each skill. "I prefer tea over coffee" is about the pair
    and "I prefer coffee over tea" as well. Likes and dislikes are about their
    object, so "I hate jazz" replaces "I like jazz", and stands beside "I like
    rock".
    """
    slot, subject = preference.slot, preference.subject.lower()
    said = " ".join(preference.content.lower().replace("’", "'").split())
    if slot in ("name", "pronouns", "time-zone", "job"):
        return slot
    if slot.startswith("one "):
        return slot.removeprefix("one ")
    if slot == "level-of-answers":
        return "answers: level"
    if slot == "favourite":
        return f"favourite: {_words(subject) or 'thing'}"
    if slot in ("diet", "state", "role") and _DIET.search(subject):
        return "diet"
    if slot in ("level", "role") and _LEVEL.search(subject):
        of = _LEVEL_OF.search(subject)
        return f"level: {_words(of[1]) if of else 'general'}"
    for name, pattern in _SETTINGS:
        if pattern.match(subject):
            return name
    if preference.type == "style":
        for name, pattern in _STYLES:
            if pattern.search(said):
                return name
    compared = _COMPARED.search(said) or _COMPARED_TO.search(said)
    if compared:
        return "choice: " + " | ".join(sorted(_words(side) for side in compared.groups()))
    if _PREFERRED.search(said):
        for name, pattern in _TASTES:
            if pattern.match(subject):
                return name
    if slot in ("role", "field", "condition", "trait", "state", "language", "not-name", "level"):
        return f"{slot}: {_words(subject)}"
    return f"about: {_words(subject) or _words(said)}"


def merge_preferences(
    existing: Iterable[KnownPreference], new: Sequence[DetectedPreference]
) -> PreferencePlan:
    """What storing `new` beside `existing` comes to, oldest statement first in `new`.

    A statement with the key of a stored one replaces it, unless it says the
    same. Of several new ones with one key the last holds. Nothing is deleted:
    what is replaced stays as history.
    """
    stored: dict[str, list[KnownPreference]] = {}
    for known in existing:
        stored.setdefault(known.key, []).append(known)
    latest: dict[str, DetectedPreference] = {}
    overtaken: list[DetectedPreference] = []
    for preference in new:
        key = subject_key(preference)
        if key in latest:
            overtaken.append(latest.pop(key))
        latest[key] = preference
    add: list[DetectedPreference] = []
    replacements: list[Replacement] = []
    repeated: list[str] = []
    for key, preference in latest.items():
        known_ones = stored.get(key, [])
        said = _said(preference.content)
        same = [known.id for known in known_ones if _said(known.content) == said]
        other = tuple(known.id for known in known_ones if known.id not in same)
        if same and not other:
            repeated += same
        elif known_ones:
            replacements.append(Replacement(old_ids=(*other, *same), new=preference))
        else:
            add.append(preference)
    return PreferencePlan(
        add=tuple(add),
        replace=tuple(replacements),
        repeated=tuple(repeated),
        overtaken=tuple(overtaken),
    )


def _said(content: str) -> str:
    return " ".join(_tokens(content.lower().replace("’", "'")))


def _tokens(text: str) -> Iterator[str]:
    return (match[0].strip(".'") for match in _TOKEN.finditer(text))


def _words(text: str) -> str:
    """The words that carry `text`, without number, order kept; enough to tell subjects apart."""
    kept = [_singular(word) for word in _tokens(text) if word not in _EMPTY]
    return " ".join(kept[:_KEY_WORDS])


def _singular(word: str) -> str:
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    if len(word) > 4 and word.endswith(("ches", "shes", "sses", "xes")):
        return word[:-2]
    if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word
