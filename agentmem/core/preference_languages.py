"""The plainest statements of German, Spanish and French.

Only forms that can hardly mean anything else: "Ich bevorzuge …", "No me
gusta …", "Je préfère …", names, diets and the language of answers. Everything
else in these languages, and every other language, is left alone.
"""

from __future__ import annotations

from agentmem.core.patterns import LazyPattern
from agentmem.core.preference_lexicon import BLANK, LANGUAGE
from agentmem.core.preference_rules import Found, Rule, rule

_NAME = rf"(?P<about>[\w{BLANK}'-]+)(?=$|[.,!;])"
_REST = (
    r"(?P<about>(?!(?:es|das|dies|dich|euch|lo|la idea|eso|esto|te|que|ça|cela|ce|"
    r"toi|vous|l'idée|votre|ton|tu|deine?)\b)\w.+)"
)
_GERMAN_LANGUAGE = (
    r"(?:deutsch|englisch|französisch|spanisch|italienisch|niederländisch|polnisch|"
    r"türkisch|russisch)"
)
_SPANISH_LANGUAGE = r"(?:español|inglés|francés|alemán|italiano|portugués|castellano|catalán)"
_FRENCH_LANGUAGE = r"(?:français|anglais|allemand|espagnol|italien|portugais|néerlandais)"
_DIETS = (
    r"(?:vegetarier(?:in)?|vegetarisch|veganer(?:in)?|vegan|vegetarian[oa]|"
    r"vegan[oa]|végétarien(?:ne)?"
    r"|végane?|végétalien(?:ne)?|celíac[oa]|diabetiker(?:in)?|diabétique|diabétic[oa])"
)

_RULES: tuple[Rule, ...] = (
    # German
    rule(
        rf"(?:bitte )?(?:nenn|nenne|nennt|nennen sie) mich (?:bitte |einfach "
        rf")?{_NAME}",
        "custom",
        "neutral",
        slot="name",
        confidence=0.75,
    ),
    rule(rf"mein name ist {_NAME}", "custom", "neutral", slot="name", confidence=0.75),
    rule(rf"ich bevorzuge {_REST}", "custom", "for", confidence=0.75),
    rule(
        rf"ich (?:mag|liebe) (?:kein|keine|keinen|keinerlei) {_REST}",
        "custom",
        "against",
        confidence=0.75,
    ),
    rule(
        r"ich (?:mag|liebe) (?P<about>(?!das\b|es\b|dies)\w[^,.;]* (?:gar |"
        r"überhaupt |eigentlich )?nicht)\b",
        "custom",
        "against",
        confidence=0.75,
    ),
    rule(rf"ich (?:mag|liebe) (?!nicht\b){_REST}", "custom", "for", confidence=0.75),
    rule(
        rf"ich (?:hasse|verabscheue|vermeide|meide) {_REST}", "custom", "against", confidence=0.75
    ),
    rule(
        rf"ich (?:esse|trinke|benutze|verwende) (?:nie|niemals|kein|keine|keinen)"
        rf" {_REST}",
        "custom",
        "against",
        confidence=0.75,
    ),
    rule(rf"ich bin (?P<about>{_DIETS})\b", "custom", "neutral", slot="state", confidence=0.75),
    rule(rf"ich bin allergisch (?:gegen|auf) {_REST}", "custom", "against", confidence=0.75),
    rule(
        rf"(?:bitte )?(?:antworte|antworten sie|antwortet|schreib|schreibe|"
        rf"sprich)(?: mir| mit mir)?(?: bitte)?(?: immer| nur)? "
        rf"(?P<about>auf {_GERMAN_LANGUAGE})\b",
        "style",
        "for",
        confidence=0.75,
    ),
    # Spanish
    rule(
        rf"(?:por favor,? )?(?:llámame|llámeme) {_NAME}",
        "custom",
        "neutral",
        slot="name",
        confidence=0.75,
    ),
    rule(rf"me llamo {_NAME}", "custom", "neutral", slot="name", confidence=0.75),
    rule(rf"(?:yo )?prefiero {_REST}", "custom", "for", confidence=0.75),
    rule(rf"(?:a mí )?no me gustan? {_REST}", "custom", "against", confidence=0.75),
    rule(
        rf"(?:a mí )?me (?:gustan?|encantan?) (?:mucho )?{_REST}", "custom", "for", confidence=0.75
    ),
    rule(rf"(?:yo )?(?:odio|detesto|evito) {_REST}", "custom", "against", confidence=0.75),
    rule(rf"(?:yo )?nunca (?:como|bebo|uso) {_REST}", "custom", "against", confidence=0.75),
    rule(rf"(?:yo )?soy (?P<about>{_DIETS})\b", "custom", "neutral", slot="state", confidence=0.75),
    rule(
        rf"(?:yo )?soy alérgic[oa] (?:al?|a la|a los|a las) {_REST}",
        "custom",
        "against",
        confidence=0.75,
    ),
    rule(
        rf"(?:por favor,? )?(?:responde|responda|contesta|contéstame|respóndeme|"
        rf"escribe|habla)(?: siempre| solo| sólo)? "
        rf"(?P<about>en {_SPANISH_LANGUAGE})\b",
        "style",
        "for",
        confidence=0.75,
    ),
    # French
    rule(
        rf"(?:s'il te plaît,? |s'il vous plaît,? )?(?:appelle-moi|"
        rf"appelez-moi) {_NAME}",
        "custom",
        "neutral",
        slot="name",
        confidence=0.75,
    ),
    rule(rf"je m'appelle {_NAME}", "custom", "neutral", slot="name", confidence=0.75),
    rule(rf"je préfère {_REST}", "custom", "for", confidence=0.75),
    rule(rf"je n'aime (?:pas|plus)(?: du tout)? {_REST}", "custom", "against", confidence=0.75),
    rule(rf"j'(?:aime|adore)(?: beaucoup)? {_REST}", "custom", "for", confidence=0.75),
    rule(
        rf"(?:je déteste|j'évite|je ne supporte pas|je ne mange (?:pas|jamais)|"
        rf"je ne bois (?:pas|jamais)) {_REST}",
        "custom",
        "against",
        confidence=0.75,
    ),
    rule(rf"je suis (?P<about>{_DIETS})\b", "custom", "neutral", slot="state", confidence=0.75),
    rule(
        rf"je suis allergique (?:au|à la|à l'|aux|à) ?{_REST}", "custom", "against", confidence=0.75
    ),
    rule(
        rf"(?:s'il te plaît,? |s'il vous plaît,? )?(?:réponds|répondez|"
        rf"réponds-moi|répondez-moi|écris|écrivez|parle|parlez)(?: toujours| "
        rf"uniquement)? (?P<about>en {_FRENCH_LANGUAGE})\b",
        "style",
        "for",
        confidence=0.75,
    ),
    rule(
        rf"(?:always |please )?(?:sprich|habla|parle) (?P<about>{LANGUAGE})\b",
        "style",
        "for",
        confidence=0.75,
    ),
)
_HEADS = LazyPattern(
    r"(?:ich|bitte|nenn|mein|antwort|schreib|sprich|por|llám|me |yo|prefiero|a "
    r"mí|no me|odio|detesto|evito"
    r"|nunca|soy|respon|contest|escribe|habla|respónd|s'il|appel|je |j'|répon|écri|parle)"
)


def state_in_other_languages(text: str, start: int, end: int) -> Found | None:
    """What the clause at `start` states in German, Spanish or French."""
    if not _HEADS.match(text, start):
        return None
    for known in _RULES:
        if match := known.pattern.match(text, start, end):
            return Found(
                known.type, known.polarity, *match.span("about"), known.confidence, known.slot
            )
    return None
