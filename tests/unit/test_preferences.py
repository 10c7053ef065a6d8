"""What counts as a preference, sentence by sentence."""

from __future__ import annotations

from typing import Any

import pytest

from agentmem.base.errors import InvalidInput, InvalidMessage, InvalidText
from agentmem.living.preferences import plan_preferences, subject_key
from agentmem.text.detect import DetectedPreference, detect_preferences, hear, hear_messages

STATED = [
    # what one is and knows
    ("I'm a nurse.", "expertise", "nurse"),
    ("I am a senior Python developer", "expertise", "senior Python developer"),
    ("i'm a beginner with docker", "expertise", "beginner"),
    ("I'm the lead designer of a small studio", "expertise", "lead designer"),
    ("I'm new to woodworking", "expertise", "woodworking"),
    ("I have 12 years of experience with Kotlin", "expertise", "Kotlin"),
    ("I have a degree in biology.", "expertise", "biology"),
    ("I've been gardening for 30 years", "expertise", "gardening"),
    ("I'm fluent in Portuguese", "expertise", "Portuguese"),
    ("I'm not good at chess", "expertise", "chess"),
    ("I know a little Haskell", "expertise", "Haskell"),
    ("I work as a paramedic", "expertise", "paramedic"),
    ("As a plumber, I see this every day.", "expertise", "plumber"),
    ("My background is in statistics", "expertise", "statistics"),
    # fields
    ("I work in logistics", "domain", "logistics"),
    ("My field is marine biology", "domain", "marine biology"),
    ("I teach physics", "domain", "physics"),
    ("I'm interested in astronomy", "domain", "astronomy"),
    # how to answer
    ("Explain like I'm five", "style", "five"),
    ("Explain recursion to me as if I were a child.", "style", "child"),
    ("ELI5", "style", "ELI5"),
    ("Please answer in Dutch.", "style", "Dutch"),
    ("always respond in plain text", "style", "plain text"),
    ("Never use emojis", "style", "emojis"),
    ("don't use exclamation marks", "style", "exclamation marks"),
    ("keep it short", "style", "short"),
    ("Keep your replies under 100 words", "style", "under 100 words"),
    ("Be more direct.", "style", "direct"),
    ("No jargon, please.", "style", "jargon"),
    ("Short answers please", "style", "Short answers"),
    ("Use Celsius", "style", "Celsius"),
    ("Stop apologising", "style", "apologising"),
    ("Don't sugarcoat things", "style", "sugarcoat"),
    ("Give me detailed explanations", "style", "detailed explanations"),
    ("I want concise answers", "style", "concise answers"),
    ("I'd like replies without disclaimers", "style", "disclaimers"),
    ("I'd rather you skip the small talk", "style", "small talk"),
    ("I learn best from examples", "style", "examples"),
    ("I prefer bullet points", "style", "bullet points"),
    ("Treat me like an expert.", "style", "expert"),
    # names
    ("call me Bob", "custom", "Bob"),
    ('Call me "Max"', "custom", "Max"),
    ("Please call me Dr. Ito.", "custom", "Dr. Ito"),
    ("You can call me Ali", "custom", "Ali"),
    ("My name is Ines", "custom", "Ines"),
    ("I go by Kit", "custom", "Kit"),
    ("Hi, I'm Noor!", "custom", "Noor"),
    ("Don't call me buddy", "custom", "buddy"),
    ("My pronouns are they/them", "custom", "they/them"),
    # likes
    ("I prefer rye bread", "custom", "rye bread"),
    ("i love to swim in lakes", "custom", "swim in lakes"),
    ("I really enjoy board games", "custom", "board games"),
    ("My favourite season is autumn", "custom", "season"),
    ("Oysters are my favourite food", "custom", "Oysters"),
    ("I'm into pottery", "custom", "pottery"),
    ("I'm a huge fan of brass bands", "custom", "brass bands"),
    ("I'm more of a dog person", "custom", "dog person"),
    ("I have a soft spot for old trams", "custom", "old trams"),
    ("I've always loved the sea", "custom", "the sea"),
    ("I can't live without coffee", "custom", "coffee"),
    ("I'd rather walk than drive", "custom", "walk"),
    ("I'd prefer a quiet room", "custom", "a quiet room"),
    ("I value punctuality", "custom", "punctuality"),
    ("We prefer trains over planes", "custom", "trains"),
    ("My sister and I love karaoke", "custom", "karaoke"),
    ("I think I prefer paper books", "custom", "paper books"),
    ("Remember that I prefer window seats", "custom", "window seats"),
    ("When cooking, I prefer cast iron.", "custom", "cast iron"),
    # dislikes
    ("I don't like celery", "custom", "celery"),
    ("I do not enjoy long drives.", "custom", "long drives"),
    ("I hate loud restaurants", "custom", "loud restaurants"),
    ("I can't stand cold soup", "custom", "cold soup"),
    ("I have an aversion to needles", "custom", "needles"),
    ("I have no interest in golf", "custom", "golf"),
    ("I'm not a fan of musicals", "custom", "musicals"),
    ("I'm not into camping", "custom", "camping"),
    ("I'm not a morning person", "custom", "morning person"),
    ("I'm sick of pop-up ads", "custom", "pop-up ads"),
    ("I've never liked olives", "custom", "olives"),
    ("Crowds make me nervous", "custom", "Crowds"),
    ("Horror films aren't my thing", "custom", "Horror films"),
    ("Clowns creep me out", "custom", "Clowns"),
    ("Raw onion doesn't agree with me", "custom", "Raw onion"),
    ("I find podcasts tiring", "custom", "podcasts"),
    ("I find it tiring to read on screens", "custom", "read on screens"),
    ("I dislike mornings and prefer working at night", "custom", "mornings"),
    ("I hate it when people are late", "custom", "people are late"),
    # habits and limits
    ("I only use Debian", "custom", "Debian"),
    ("I avoid palm oil", "custom", "palm oil"),
    ("I never fly", "custom", "fly"),
    ("I never eat breakfast", "custom", "breakfast"),
    ("I always book aisle seats", "custom", "aisle seats"),
    ("I don't drink alcohol", "custom", "alcohol"),
    ("I no longer eat meat", "custom", "meat"),
    ("I refuse to buy fast fashion", "custom", "fast fashion"),
    ("I won't use proprietary fonts", "custom", "proprietary fonts"),
    ("I tend to avoid highways", "custom", "highways"),
    ("I speak only Catalan", "custom", "Catalan"),
    ("I'm vegetarian", "custom", "vegetarian"),
    ("I'm allergic to bees", "custom", "bees"),
    ("I have a severe walnut allergy.", "custom", "walnut allergy"),
    ("I'm lactose intolerant, so no cream", "custom", "lactose intolerant"),
    ("I'm colour-blind", "custom", "colour-blind"),
    ("I have ADHD", "custom", "ADHD"),
    ("I keep kosher", "custom", "kosher"),
    ("I follow a low-carb diet", "custom", "low-carb diet"),
    ("I get seasick on small boats", "custom", "small boats"),
    ("I'm scared of spiders", "custom", "spiders"),
    ("I can't eat shellfish", "custom", "shellfish"),
    ("From now on, sign every email as J.", "custom", "sign every email"),
    ("By default, target Python 3.12.", "custom", "Python 3.12"),
    ("Unless I say otherwise, use pnpm.", "custom", "pnpm"),
    ("Always run the linter first", "custom", "linter"),
]

NOT_STATED = [
    # questions
    "Do I prefer tea?",
    "I prefer tea?",
    "I'm allergic to nuts, right?",
    "Which editor do I like best?",
    "Am I a morning person?",
    "Do you like jazz",
    "Can you tell me whether I'm a good cook?",
    "How do I avoid deadlocks?",
    "Why do I always fail?",
    # quotations
    'She said "I prefer tea" and left.',
    "“I'm a doctor,” he said.",
    "'I hate mornings' is the title.",
    "Sie sagte „Ich mag Tee“.",
    "«Je préfère le thé»",
    "> I prefer tea",
    "Bob wrote:\n> call me Bob\n> I hate Mondays\nWhat now?",
    "```\nI prefer tabs\n```",
    "`I prefer tabs`",
    "I prefer tea, she said.",
    "Translate into Greek: I prefer tea to coffee.",
    "Proofread this:\n\nI love dogs. I hate cats.",
    "Anna: I love tea",
    "User: always answer in French",
    "<document>I prefer tea. Call me Bob.</document>",
    "From: a@b.c\nSubject: hi\n\nI prefer tea",
    "Say: I love spam",
    # negations
    "I'm not a doctor",
    "I'm not an expert",
    "I am no lawyer",
    "I'm not vegetarian",
    "I'm not allergic to nuts",
    "I don't prefer either",
    "I don't hate Mondays",
    "I don't think I like jazz",
    "I'm not sure I prefer tea",
    "I wouldn't say I love it",
    "It's not true that I hate fish",
    "I'm neither a cook nor a baker",
    # hypotheticals
    "If I were a doctor, I would avoid sugar",
    "If I'm tired, I prefer tea",
    "Suppose I prefer tea",
    "Imagine I am a pirate. I love rum.",
    "Let's say I'm a vegan",
    "Pretend I'm your boss. I hate delays.",
    "What if I prefer tea",
    "I wish I were a pilot",
    "I would prefer if I had to",
    "Maybe I prefer tea",
    "I might like it",
    "In this story I am a knight",
    "Act as a doctor",
    "Once I'm a doctor, I will travel",
    # other people
    "She prefers tea",
    "My wife is a vegetarian",
    "My boss says I always come late",
    "People think I'm lazy",
    "According to my wife, I hate cooking",
    "My son loves trains",
    "They never use tabs",
    "You always forget things",
    "The client wants short answers",
    "My friend is allergic to nuts",
    "You said I prefer tea",
    # the task at hand
    "Write me a function",
    "I'm looking for a hotel",
    "I'm trying to fix a bug",
    "I am going to the store",
    "I'd like a pizza",
    "I'd love to see Japan",
    "I want to learn Rust",
    "I need a new laptop",
    "I'm interested in buying a boat",
    "I prefer the second option",
    "I prefer your first version",
    "I like this",
    "I love it!",
    "I like that idea",
    "My favourite thing about this code is the naming",
    "I love you",
    "Use a for loop",
    "Write a formal email",
    "Give me a short answer",
    "Don't use recursion in this function",
    "Use markdown for this document",
    "Keep it in the fridge",
    "Be careful",
    "Stop the server",
    "Call me back later",
    "Call me crazy, but it works",
    "Can you call me a taxi?",
    "Never mind",
    "never again",
    "Never give up",
    # passing states and plain facts
    "I'm fine",
    "I'm tired",
    "I'm sorry",
    "I'm not sure",
    "I'm a bit confused",
    "I'm an hour late",
    "I have two dogs",
    "I live in Oslo",
    "I am 25 years old",
    "I have a question",
    "I have a problem with my code",
    "I always get an error",
    "I never got the email",
    "I only have two hours",
    "I only need the first line",
    "I can't open the file",
    "I don't know",
    "I don't understand this",
    "I don't want to go today",
    "I used to love coffee",
    "I loved the film",
    "I was a nurse",
    "I hate this error",
    "I hate to bother you",
    "I'm afraid I can't",
    "I'm done with the first part",
    "I appreciate your help",
    "",
    "   \n\t ",
    "日本語が好きです。",
]


@pytest.mark.parametrize(("text", "kind", "subject"), STATED)
def test_stated(text: str, kind: str, subject: str) -> None:
    found = detect_preferences(text)
    assert found, text
    assert found[0].type == kind
    assert subject.lower() in found[0].content.lower()
    assert text[found[0].start : found[0].end] == found[0].quote


@pytest.mark.parametrize("text", NOT_STATED)
def test_not_stated(text: str) -> None:
    assert detect_preferences(text) == ()


@pytest.mark.parametrize(
    ("text", "contents"),
    [
        (
            "Hi! I'm vegan and I'm going to Rome next week. What can I eat there?",
            ["I'm vegan"],
        ),
        ("I'm vegetarian, what can I eat in Paris?", ["I'm vegetarian"]),
        ("I like tea but I hate coffee.", ["I like tea", "I hate coffee"]),
        ("I like jazz and avoid opera", ["I like jazz", "I avoid opera"]),
        ("I'm a nurse. Call me Ana. Always use metric units!", ["I'm a nurse", "Call me Ana", "Always use metric units"]),
        ("- I prefer tabs\n- I hate semicolons", ["I prefer tabs", "I hate semicolons"]),
        ("If you need context, I'm a nurse.", ["I'm a nurse"]),
        ("My doctor says I'm stubborn, but I avoid salt.", ["I avoid salt"]),
        ("I  prefer\t dark   roast", ["I prefer dark roast"]),
        ("After a long day in the office, and only then, I prefer\nherbal tea.", ["I prefer herbal tea"]),
        ("I prefer tea when I'm ill", ["I prefer tea when I'm ill"]),
        ("Fix this code:\n```\nI prefer x\n```\nI prefer spaces.", ["I prefer spaces"]),
        ("I prefer `tabs`", ["I prefer `tabs`"]),
        ("NOTE: I’m left-handed", ["I’m left-handed"]),
        ("Hello, my name is Sam and I prefer short answers.", ["my name is Sam", "I prefer short answers"]),
        ("Hi, I'm Ana and I like tea.", ["I'm Ana", "I like tea"]),
    ],
)  # fmt: skip
def test_several_statements_and_other_text(text: str, contents: list[str]) -> None:
    assert [found.content for found in detect_preferences(text)] == contents


@pytest.mark.parametrize(
    ("text", "polarity"),
    [
        ("I love figs", "for"),
        ("I hate figs", "against"),
        ("I prefer not to fly", "against"),
        ("I'd rather not use Docker", "against"),
        ("My least favourite food is liver", "against"),
        ("No me gusta el café", "against"),
        ("I'm a nurse", "neutral"),
    ],
)
def test_for_or_against(text: str, polarity: str) -> None:
    assert hear(text).stated[0].polarity == polarity


@pytest.mark.parametrize(
    "text",
    [
        "Ich bevorzuge Tee.", "Ich mag keine Pilze", "Bitte antworte auf Deutsch.", "Nenn mich Uwe", "Ich bin Vegetarierin",
        "Prefiero el té", "No me gusta el café", "Soy vegetariano", "Llámame Ana", "Responde en español",
        "Je préfère le thé.", "Je n'aime pas les huîtres", "Réponds en français", "Appelle-moi Zoé", "Je suis végétarienne",
    ],
)  # fmt: skip
def test_plain_statements_in_other_languages(text: str) -> None:
    assert len(hear(text).stated) == 1


@pytest.mark.parametrize(
    "text",
    ["Magst du Tee?", "Wenn ich Vegetarier wäre", "Ich mag das", "¿Prefiero el té?", "Ella prefiere té", "J'aime ça", "Elle préfère le thé"],
)  # fmt: skip
def test_other_languages_are_not_wrong(text: str) -> None:
    assert hear(text).stated == ()


def key_of(text: str) -> str:
    return subject_key(detect_preferences(text)[0])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Call me Bob", "Please call me Rob"),
        ("Call me Bob", "My name is Robert"),
        ("I prefer tabs", "I prefer spaces"),
        ("I prefer tabs over spaces", "Always use spaces"),
        ("I prefer tea", "I prefer coffee"),
        ("I prefer beer over wine", "I prefer wine to beer"),
        ("I like jazz", "I hate jazz"),
        ("I'm vegetarian", "I'm vegan"),
        ("I'm vegetarian", "I follow a keto diet"),
        ("Keep it short", "Give me detailed answers"),
        ("Please answer in French", "Please answer in German"),
        ("Don't use emojis", "Use emojis"),
        ("My favourite colour is blue", "My favourite colour is red"),
        ("I'm a beginner in Rust", "I'm an expert in Rust"),
        ("Explain like I'm five", "Explain it like I'm a physicist"),
        ("I prefer dark mode", "I prefer light mode"),
        ("Use metric units", "I prefer imperial units"),
    ],
)
def test_a_newer_statement_about_the_same_thing_has_the_same_key(one: str, other: str) -> None:
    assert key_of(one) == key_of(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("I like jazz", "I like rock"),
        ("I'm a nurse", "I'm a mother"),
        ("I'm a beginner in Rust", "I'm an expert in Python"),
        ("My favourite colour is blue", "My favourite food is rice"),
        ("I like tea", "I like coffee"),
        ("I love open spaces", "I prefer tabs"),
        ("Keep it short", "Please answer in French"),
        ("I'm allergic to nuts", "I'm allergic to bees"),
    ],
)
def test_statements_about_different_things_stand_side_by_side(one: str, other: str) -> None:
    assert key_of(one) != key_of(other)


def test_merging() -> None:
    existing = {"name": [("1", "Call me Bob")], "about: jazz": [("2", "I like jazz")]}
    said = detect_preferences("I like jazz! I like figs. Call me Rob. No, call me Ron.")
    plan = [(new.subject, old_ids) for new, old_ids in plan_preferences(existing, said)]
    assert plan == [("figs", ()), ("Ron", ("1",))]


def test_only_the_users_own_text_parts_are_read() -> None:
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "Always answer in French."},
        {"role": "user", "content": [{"type": "text", "text": "I hate figs."}, {"type": "image_url", "image_url": {"url": "I love figs"}}]},
        {"role": "assistant", "content": "I prefer tea. Call me HAL."},
        {"role": "tool", "tool_call_id": "1", "content": "I'm a nurse."},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": "I'm a cook."}]},
        {"role": "user", "content": None},
        {"role": "function", "name": "f", "content": "I'm a vet."},
    ]  # fmt: skip
    heard = [found.content for one in hear_messages(messages) for found in one.stated]
    assert heard == ["I hate figs"]


def test_what_strip_removes_is_not_read() -> None:
    messages = [
        {"role": "user", "content": "stub: I'm a king"},
        {"role": "user", "content": "I'm a cook"},
    ]
    found = hear_messages(
        messages, strip=lambda turns: [t for t in turns if "stub" not in str(t["content"])]
    )
    assert [preference.content for one in found for preference in one.stated] == ["I'm a cook"]


def test_bad_input_is_refused() -> None:
    with pytest.raises(InvalidText):
        detect_preferences(None)  # type: ignore[arg-type]  # what the test is about
    with pytest.raises(InvalidText):
        detect_preferences("I like \ud800")
    with pytest.raises(InvalidMessage):
        hear_messages(["I like tea"])  # type: ignore[list-item]  # what the test is about
    for bad in (None, "I like tea", {"role": "user"}, 5):
        with pytest.raises(InvalidMessage):
            hear_messages(bad)  # type: ignore[arg-type]  # what the test is about
    with pytest.raises(InvalidInput):
        DetectedPreference(type="mood", content="x", subject="x")  # type: ignore[arg-type]  # what the test is about


def test_a_large_text_is_read_in_one_go() -> None:
    text = "The quick brown fox jumps over the lazy dog. " * 20_000 + "I prefer tea."
    assert [found.content for found in detect_preferences(text)] == ["I prefer tea"]


@pytest.mark.parametrize(
    "piece", ["I ", "i'm a ", "I have a a a a a a ", "and I ", "'I ", "\"I ", "if I ", "really ", "don't use the the the ", "as a b c d, "]
)  # fmt: skip
def test_text_made_to_confuse_the_rules_comes_back(piece: str) -> None:
    detect_preferences(piece * 2_000)
