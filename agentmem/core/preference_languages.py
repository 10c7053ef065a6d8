"""The plainest statements of German, Spanish and French.

Only forms that can hardly mean anything else: "Ich bevorzuge …", "No me
gusta …", "Je préfère …", names, diets and the language of answers. Everything
else in these languages, and every other language, is left alone.
"""

from __future__ import annotations

import re

from agentmem.core.preference_lexicon import BLANK, LANGUAGE
from agentmem.core.preference_rules import Found, Polarity, PreferenceType

_NAME = rf"(?P<about>[\w{BLANK}'-]+)(?=$|[.,!;])"
_REST = r"(?P<about>(?!(?:es|das|dies|dich|euch|lo|la idea|eso|esto|te|que|ça|cela|ce|toi|vous|l'idée|votre|ton|tu|deine?)\b)\w.+)"
_GERMAN_LANGUAGE = r"(?:deutsch|englisch|französisch|spanisch|italienisch|niederländisch|polnisch|türkisch|russisch)"
_SPANISH_LANGUAGE = r"(?:español|inglés|francés|alemán|italiano|portugués|castellano|catalán)"
_FRENCH_LANGUAGE = r"(?:français|anglais|allemand|espagnol|italien|portugais|néerlandais)"
_DIETS = (
    r"(?:vegetarier(?:in)?|vegetarisch|veganer(?:in)?|vegan|vegetarian[oa]|vegan[oa]|végétarien(?:ne)?"
    r"|végane?|végétalien(?:ne)?|celíac[oa]|diabetiker(?:in)?|diabétique|diabétic[oa])"
)

_RULES: tuple[tuple[re.Pattern[str], PreferenceType, Polarity, str], ...] = tuple(
    (re.compile(pattern), kind, polarity, slot)
    for pattern, kind, polarity, slot in (
        # German
        (rf"(?:bitte )?(?:nenn|nenne|nennt|nennen sie) mich (?:bitte |einfach )?{_NAME}", "custom", "neutral", "name"),
        (rf"mein name ist {_NAME}", "custom", "neutral", "name"),
        (rf"ich bevorzuge {_REST}", "custom", "for", ""),
        (rf"ich (?:mag|liebe) (?:kein|keine|keinen|keinerlei) {_REST}", "custom", "against", ""),
        (r"ich (?:mag|liebe) (?P<about>(?!das\b|es\b|dies)\w[^,.;]* (?:gar |überhaupt |eigentlich )?nicht)\b", "custom", "against", ""),
        (rf"ich (?:mag|liebe) (?!nicht\b){_REST}", "custom", "for", ""),
        (rf"ich (?:hasse|verabscheue|vermeide|meide) {_REST}", "custom", "against", ""),
        (rf"ich (?:esse|trinke|benutze|verwende) (?:nie|niemals|kein|keine|keinen) {_REST}", "custom", "against", ""),
        (rf"ich bin (?P<about>{_DIETS})\b", "custom", "neutral", "state"),
        (rf"ich bin allergisch (?:gegen|auf) {_REST}", "custom", "against", ""),
        (rf"(?:bitte )?(?:antworte|antworten sie|antwortet|schreib|schreibe|sprich)(?: mir| mit mir)?(?: bitte)?(?: immer| nur)? (?P<about>auf {_GERMAN_LANGUAGE})\b", "style", "for", ""),
        # Spanish
        (rf"(?:por favor,? )?(?:llámame|llámeme) {_NAME}", "custom", "neutral", "name"),
        (rf"me llamo {_NAME}", "custom", "neutral", "name"),
        (rf"(?:yo )?prefiero {_REST}", "custom", "for", ""),
        (rf"(?:a mí )?no me gustan? {_REST}", "custom", "against", ""),
        (rf"(?:a mí )?me (?:gustan?|encantan?) (?:mucho )?{_REST}", "custom", "for", ""),
        (rf"(?:yo )?(?:odio|detesto|evito) {_REST}", "custom", "against", ""),
        (rf"(?:yo )?nunca (?:como|bebo|uso) {_REST}", "custom", "against", ""),
        (rf"(?:yo )?soy (?P<about>{_DIETS})\b", "custom", "neutral", "state"),
        (rf"(?:yo )?soy alérgic[oa] (?:al?|a la|a los|a las) {_REST}", "custom", "against", ""),
        (rf"(?:por favor,? )?(?:responde|responda|contesta|contéstame|respóndeme|escribe|habla)(?: siempre| solo| sólo)? (?P<about>en {_SPANISH_LANGUAGE})\b", "style", "for", ""),
        # French
        (rf"(?:s'il te plaît,? |s'il vous plaît,? )?(?:appelle-moi|appelez-moi) {_NAME}", "custom", "neutral", "name"),
        (rf"je m'appelle {_NAME}", "custom", "neutral", "name"),
        (rf"je préfère {_REST}", "custom", "for", ""),
        (rf"je n'aime (?:pas|plus)(?: du tout)? {_REST}", "custom", "against", ""),
        (rf"j'(?:aime|adore)(?: beaucoup)? {_REST}", "custom", "for", ""),
        (rf"(?:je déteste|j'évite|je ne supporte pas|je ne mange (?:pas|jamais)|je ne bois (?:pas|jamais)) {_REST}", "custom", "against", ""),
        (rf"je suis (?P<about>{_DIETS})\b", "custom", "neutral", "state"),
        (rf"je suis allergique (?:au|à la|à l'|aux|à) ?{_REST}", "custom", "against", ""),
        (rf"(?:s'il te plaît,? |s'il vous plaît,? )?(?:réponds|répondez|réponds-moi|répondez-moi|écris|écrivez|parle|parlez)(?: toujours| uniquement)? (?P<about>en {_FRENCH_LANGUAGE})\b", "style", "for", ""),
        (rf"(?:always |please )?(?:sprich|habla|parle) (?P<about>{LANGUAGE})\b", "style", "for", ""),
    )
)  # fmt: skip
_HEADS = re.compile(
    r"(?:ich|bitte|nenn|mein|antwort|schreib|sprich|por|llám|me |yo|prefiero|a mí|no me|odio|detesto|evito"
    r"|nunca|soy|respon|contest|escribe|habla|respónd|s'il|appel|je |j'|répon|écri|parle)"
)


def state_in_other_languages(text: str, start: int, end: int) -> Found | None:
    """What the clause at `start` states in German, Spanish or French."""
    if not _HEADS.match(text, start):
        return None
    for pattern, kind, polarity, slot in _RULES:
        if match := pattern.match(text, start, end):
            return Found(kind, polarity, *match.span("about"), 0.75, slot)
    return None
