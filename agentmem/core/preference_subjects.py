"""Read one clause by its subject: "I …", "My favourite …", "… is not for me", "As a nurse, I …"."""

from __future__ import annotations

from agentmem.core import preference_lexicon as lex
from agentmem.core.patterns import LazyPattern
from agentmem.core.preference_attitudes import ATTITUDES
from agentmem.core.preference_identity import IDENTITIES
from agentmem.core.preference_lexicon import NAME, WORD
from agentmem.core.preference_rules import Found, checked, is_role, role_type, rule

STATEMENTS = (*ATTITUDES, *IDENTITIES)
_MY = (
    rule(
        r"my (?:religion|faith|beliefs?|diet|culture|condition|allergy|doctor's orders?) "
        r"(?:strictly )?(?:forbids?|prohibits?|doesn't allow|does not allow|don't allow|rules? out|"
        r"prevents? me from) (?P<about>.+)",
        polarity="against",
        confidence=0.8,
    ),
    rule(
        rf"my (?:all-time |absolute |all time |number one |top |personal |least |"
        rf"second )*(?:favou?rites?|fave|fav|preferred|go-to|ideal|least favou?rite|"
        rf"least-favou?rite|usual|default) (?P<about>(?:{WORD} ){{0,6}}?)(?:is|are|"
        rf"would be|has always been|will always be|have always been|was always|"
        rf"remains|has to be|:) (?P<value>.+)",
        slot="favourite",
    ),
    rule(
        r"my (?:favou?rites?|preference|preferences|dislikes|likes|passion|passions|"
        r"pet peeve|pet peeves|biggest pet peeve|guilty pleasure|hobby|hobbies|"
        r"interests|dietary restrictions?|allergies|diet) (?:is|are|include|"
        r"includes|has always been|would be|lies in|lie in) (?P<about>(?!to know|"
        r"that you|not important|none).+)",
        confidence=0.85,
    ),
    rule(
        rf"my (?:(?:first|preferred|full|real|given|legal) )?(?:name is|name's|"
        rf"nickname is|handle is|name would be) {NAME}(?=$|[.,;!]| and | but | from "
        rf"| so )",
        slot="name",
    ),
    rule(r"my (?:preferred )?pronouns are (?P<about>.+)", slot="pronouns"),
    rule(
        r"my (?:native|first|mother|second|preferred|main|primary) (?:language|"
        r"tongue) is (?P<about>.+)",
        "custom",
        "neutral",
        slot="language",
    ),
    rule(r"my time ?zone is (?P<about>.+)", "custom", "neutral", slot="time-zone"),
    rule(
        r"my (?:job|profession|occupation|day job|current role|role|job title|title|"
        r"trade) is (?P<about>(?!to\b|so\b|too\b|very\b|really\b|not\b|boring|hard|"
        r"stressful|killing|important)(?:a |an |being a |being an |as a |as an "
        r")?\w.+)",
        "expertise",
        "neutral",
        confidence=0.75,
        slot="job",
    ),
    rule(
        r"my (?:background|expertise|specialty|speciality|specialization|training|"
        r"degree|phd|strength) (?:is|was|are|lies) (?:mainly |mostly |primarily "
        r")?(?P<about>(?:in |as )?\w.+)",
        "expertise",
        "neutral",
        confidence=0.8,
        slot="field",
    ),
    rule(
        r"my (?:field|area|area of expertise|area of interest|research|research "
        r"area|industry|domain|major|line of work|research focus|focus area) (?:is|"
        r"focuses on|concerns|was) (?P<about>.+)",
        "domain",
        "neutral",
        confidence=0.8,
        slot="field",
    ),
    rule(
        r"my (?P<about>(?:skin|stomach|eyes|knees?|back|body|teeth)) (?:is|are) "
        r"(?:\w+ )?(?:sensitive|intolerant|bad|allergic)\b.*",
        "custom",
        "against",
        confidence=0.7,
    ),
)

_ABOUT = (
    rf"(?P<about>(?!(?:still|also|always|really|never|just|would|could|can|will|to|"
    rf"it|this|that|these|those|he|she|they|you|i|we|there|what|which|who|how|if|"
    rf"when|where|why|and|but|so|because|don't|please|let|here)\b)(?:(?!me,? |my |i |"
    rf"us ){WORD},? ){{1,9}}?)"
)
OTHER_SUBJECTS = (
    rule(
        rf"{_ABOUT}(?:is|are|'s|has always been|have always been|will always be) "
        rf"(?:\w+ly |still |also |by far |definitely )*my (?:all-time |absolute |all "
        rf"time |least |number one |personal |go-to |second |new |biggest |guilty |"
        rf"main |secret )*(?:favou?rites?|fave|fav|thing|jam|passion|weakness|go-to|"
        rf"preferred|comfort food|pleasure|hobby|hobbies|pet peeve|kryptonite|"
        rf"preference|choice)\b.*",
        confidence=0.85,
    ),
    rule(
        rf"{_ABOUT}(?:is not|isn't|are not|aren't|was never|is never|has never been|"
        rf"have never been) (?:really |exactly |quite |just |necessarily |at all "
        rf")?(?:my (?:thing|style|cup of tea|jam|scene|favou?rite|taste|preference|"
        rf"vibe|strong suit|forte|idea of fun)|for me|to my taste|to my liking|up my "
        rf"alley)\b",
        polarity="against",
        confidence=0.88,
    ),
    rule(
        rf"{_ABOUT}(?:doesn't|don't|does not|do not|never|hardly|no longer|didn't "
        rf"ever) (?:really |particularly |much |quite |exactly |ever )?(?:appeals? "
        rf"to|interests?|excites?|suits?|agrees? with|do it for|does it for|sit well "
        rf"with|sit right with) (?:me|my stomach)\b",
        polarity="against",
        confidence=0.85,
    ),
    rule(
        rf"{_ABOUT}(?:\w+ly |always |just |totally |often )*(?:(?:annoys?|bothers?|"
        rf"bores?|irritates?|frustrates?|scares?|terrify|terrifies|disgusts?|"
        rf"overwhelms?|distracts?|nauseates?) me\b|(?:creeps?|grosses|gross|"
        rf"stress(?:es)?|freaks?) me out|(?:turns?|puts?) me off|drives? me (?:crazy|"
        rf"nuts|mad|insane|up the wall)|gets? on my nerves)(?! (?:today|right now|at "
        rf"the moment)).*",
        polarity="against",
        confidence=0.75,
    ),
    rule(
        rf"{_ABOUT}(?:\w+ly |always |just |totally |often )*(?:fascinates?|relaxes|"
        rf"relax|calms?|inspires?|delights?|motivates?) me\b.*",
        confidence=0.7,
    ),
    rule(
        rf"{_ABOUT}(?:always |usually |often |just |really |tend to |can )*makes? me "
        rf"(?:feel )?(?:really |so |very |quite |a bit |extremely |too |a little "
        rf")*{lex.FEELING}\b.*",
        polarity="against",
        confidence=0.75,
    ),
    rule(
        rf"{_ABOUT}(?:always |usually |often |just |really |tend to |can )*(?:gives?|"
        rf"trigger|triggers|causes?) (?:me |my )(?:really |bad |terrible |severe |"
        rf"awful )*(?:anxiety|headaches?|a headache|migraines?|the creeps|motion "
        rf"sickness|heartburn|hives|a rash|nightmares|stomach ?aches?|asthma|"
        rf"allergies|skin|panic attacks|the ick)\b.*",
        polarity="against",
        confidence=0.8,
    ),
    rule(
        rf"{_ABOUT}(?:works?|suits?|fits?) (?:me )?(?:best|better|well|great)(?: for "
        rf"me)\b.*",
        confidence=0.8,
    ),
    rule(
        r"(?:it|nothing) (?:\w+ly |always |just )*(?:annoys|bothers|irritates|"
        r"frustrates|scares|stresses|drives|freaks|gets on my nerves)(?: me)?(?: "
        r"\w+){0,2} (?P<about>(?:when|if|to)\b.+)",
        polarity="against",
        confidence=0.75,
    ),
)

_EXTREMES = (
    rule(
        r"(?:there's |there is )?nothing (?:i (?:hate|dislike|detest) more|"
        r"(?:annoys|bothers|irritates|"
        r"frustrates|bores|scares) me more) than (?P<about>.+)",
        polarity="against",
    ),
    rule(r"(?:there's |there is )?nothing i (?:love|like|enjoy) more than (?P<about>.+)"),
    rule(
        r"what i (?:really |most |absolutely )?(?:love|like|enjoy|prefer|value)(?: "
        r"the)?(?: most)? is (?P<about>.+)"
    ),
    rule(
        r"what i (?:really |most |absolutely )?(?:hate|dislike|can't stand|"
        r"detest)(?: the)?(?: most)? is (?P<about>.+)",
        polarity="against",
    ),
)

_AS_A = LazyPattern(
    rf"(?:as|being|speaking as) (?:a|an) (?!rule|example|instance|aside|"
    rf"alternative|experiment|afterthought|result|matter|last|side|follow|test|"
    rf"reminder|consequence|bonus|start|general|whole|kid|child|starting|way|"
    rf"means|user would|group|team|sign|joke|gift|present|treat|side note|quick|"
    rf"first step)(?P<about>(?:{WORD} ){{0,5}}?{WORD})(?=, )"
)
_AS_A_SELF = LazyPattern(
    r", (?:i\b|i'm|i've|i'd|my\b|(?:what|which|how|where|can|could|is|are|"
    r"do|does|should)\b[^,]*\b(?:i|me|my)\b)"
)


def state(
    text: str, start: int, end: int, *, shared: bool = False, plural: bool = False
) -> Found | None:
    """What the predicate at `start` says of its speaker.

    `shared` when its "I" was left out, `plural` when its subject is "we", which
    says nothing of what one person knows or studies.
    """
    for known in STATEMENTS:
        if (shared and not known.shared) or (plural and known.slot in ("field", "level", "job")):
            continue
        match = known.pattern.match(text, start, end)
        if match and (found := checked(known, match)):
            return found
    return None


def describe(text: str, start: int, end: int) -> Found | None:
    """What a clause with a subject other than "I" says of its speaker."""
    if text.startswith(("my ", "nothing ", "there's ", "there is ", "what i "), start):
        for known in (*_MY, *_EXTREMES):
            match = known.pattern.match(text, start, end)
            if match and (found := checked(known, match)):
                return found
        return None
    if " me" in text[start:end] or " my " in text[start:end]:
        for known in OTHER_SUBJECTS:
            match = known.pattern.match(text, start, end)
            if match and (found := checked(known, match)):
                return found
    return None


def introduce(text: str, start: int) -> Found | None:
    """What "As a …, I …" says its speaker is."""
    match = _AS_A.match(text, start)
    if match and is_role(match["about"]) and _AS_A_SELF.match(text, match.end()):
        return Found(role_type(match["about"]), "neutral", *match.span("about"), 0.7, "role")
    return None
