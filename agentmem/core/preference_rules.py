"""Rules that recognise a statement about oneself, or an instruction for all answers.

Each rule looks at a clause from its first word. `state` reads what follows "I"
or "we", `instruct` what is said to the assistant, and `describe` clauses with
another subject ("My favourite …", "… is not for me").
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from agentmem.core import preference_lexicon as lex
from agentmem.core.preference_lexicon import ADVERBS, BLANK, WORD

PreferenceType = Literal["expertise", "style", "domain", "custom"]
Polarity = Literal["for", "against", "neutral"]


@dataclass(frozen=True, slots=True)
class Found:
    """A recognised statement: what it is about stands from `start` to `end` of the sentence."""

    type: PreferenceType
    polarity: Polarity
    start: int
    end: int
    confidence: float
    slot: str = ""


@dataclass(frozen=True, slots=True)
class Rule:
    """A pattern whose group `about` is the subject of the statement.

    `shared` rules also hold for a second predicate with the subject left out,
    as in "I like tea and avoid coffee". `vague` ones take any object.
    """

    pattern: re.Pattern[str]
    type: PreferenceType = "custom"
    polarity: Polarity = "for"
    confidence: float = 0.9
    slot: str = ""
    shared: bool = False
    vague: bool = False


def _rule(
    pattern: str,
    type: PreferenceType = "custom",  # noqa: A002  # the field's name
    polarity: Polarity = "for",
    *,
    confidence: float = 0.9,
    slot: str = "",
    shared: bool = False,
    vague: bool = False,
) -> Rule:
    return Rule(re.compile(pattern), type, polarity, confidence, slot, shared, vague)


_BE = r"(?:am |are |'m |'re |m |re |have been |'ve been |'ve always been |have always been |was born )"
_HAVE = r"(?:have |'ve got |have got |'ve |hold |harbor |harbour |suffer from |got )"
_SOME = r"(?:(?:a|an|some|such a|quite a|my|this|the|certain|several|both|any) )?"
_MODIFIERS = rf"(?:(?!to |in |of |for |with |on |at |is |that |and i ){WORD},? ){{0,4}}?"
_NAME = rf"(?P<about>(?:(?:dr|mr|mrs|ms|prof|professor|sir|captain|doctor|master|lady)\.? )?[\w{BLANK}'.-]+(?: [\w{BLANK}'.-]+){{0,2}}?)"
_REST = r"(?P<about>.+)"

_WOULD = r"(?:would |'d |d )"

STATEMENTS: tuple[Rule, ...] = (
    # Names.
    _rule(rf"(?:usually |also |normally )?go by {_NAME}(?=$|[.,;!]| and | but | now| so | at )", slot="name"),
    _rule(
        rf"(?:want|wish|like|prefer|{_WOULD}like|{_WOULD}prefer|{_WOULD}rather) (?:to be|be|being) (?:called|addressed as|known as|referred to as) {_NAME}(?=$|[.,;!]| and | but | instead| rather)",
        slot="name", shared=True,
    ),
    _rule(r"(?:use|go by|prefer|'m using|am using) (?P<about>(?:they|she|he|ze|xe|it)/\w+(?:/\w+)?)(?: pronouns)?", slot="pronouns"),
    # How one learns and works.
    _rule(rf"{ADVERBS}(?:learn|understand|work|think|concentrate|focus|study|perform|retain information|remember things|remember|absorb information|process information|grasp \w+|respond|do|code|write|sleep)(?: things| concepts| new things| information)? (?:best|better|well|much better|more easily|most easily|faster|more effectively|most effectively) {_REST}", "style", confidence=0.85, shared=True),
    # Attitudes.
    _rule(rf"{ADVERBS}(?:would much )?prefer (?:that )?{_REST}", shared=True),
    _rule(rf"{ADVERBS}{lex.LIKE} (?!to (?:think|know if|say|ask|see if|see how|hear|point out)\b){_REST}", confidence=0.9, shared=True),
    _rule(rf"{ADVERBS}appreciate (?!you|your|it|the|this|that|any|all|if|everything|everyone)(?P<about>.+)", confidence=0.75, shared=True),
    _rule(rf"{ADVERBS}{lex.DISLIKE} (?!to (?:say|admit|bother|ask|break|be|do|interrupt|disagree|tell)\b|that |the (?:worst|day|delay|inconvenience)){_REST}", polarity="against", confidence=0.95, shared=True),
    _rule(rf"{ADVERBS}(?:refuse|decline) (?:to |ever to |outright to )(?!believe|accept (?:that|it|this)|give up|admit|comment|answer (?:that|this)){_REST}", polarity="against", shared=True),
    _rule(rf"{ADVERBS}(?:can't|cannot|can not|cant|couldn't) (?:{lex.ADVERB} )?(?:stand|bear|tolerate|stomach|abide|deal with) {_REST}", polarity="against", confidence=0.95, shared=True),
    _rule(rf"{ADVERBS}(?:can't|cannot|can not|cant) (?:live without|get enough of|resist|do without|function without|start my day without) {_REST}", confidence=0.85, shared=True),
    _rule(rf"{ADVERBS}{lex.NOT} {ADVERBS}{lex.WANTED} (?!to think|to say){_REST}", polarity="against", confidence=0.93, shared=True),
    _rule(rf"{ADVERBS}(?:don't|do not|dont|never) {ADVERBS}want (?!to (?:bother|be rude|know|hear|talk|lose|waste|go|leave|miss|see this|spend|have to|sound|offend|wait|think|worry|break|die|forget|argue|fail|make a mistake|do (?:this|that|it)|be (?:late|alone|here))\b|you to think)(?P<about>.+)", polarity="against", confidence=0.6),
    _rule(rf"(?:could|can|would) do without {_REST}", polarity="against", confidence=0.8),
    _rule(rf"couldn't care less (?:about|for) {_REST}", polarity="against", confidence=0.85),
    _rule(rf"(?:have |'ve )?(?:quit|given up|gave up|stopped|sworn off|cut out) (?:on )?(?P<about>(?:(?:eating|drinking|using|smoking|watching|wearing|buying|playing|reading) )?(?!trying|hoping|looking|working|on )\w.+)", polarity="against", confidence=0.6),
    _rule(rf"(?:have |'ve )(?:always |long |always been )+(?:hated|disliked|avoided|despised|detested|feared|loathed|afraid of|scared of|allergic to|averse to|uncomfortable with) {_REST}", polarity="against", confidence=0.85),
    _rule(rf"(?:have |'ve )(?:honestly |just |really )?never (?:really |much |quite |been )*(?:loved|liked|preferred|enjoyed|cared for|cared about|appreciated|into|a fan of|fond of|interested in|keen on) {_REST}", polarity="against", confidence=0.85),
    _rule(rf"(?:have |'ve )(?:always |long |only ever |always really )+(?:loved|liked|preferred|enjoyed|favou?red|appreciated|been into|been a fan of|been fascinated by|been fond of|been passionate about|admired|adored|valued|used|eaten|worn) {_REST}", confidence=0.85),
    _rule(rf"{_WOULD}(?:much |far |really )?(?:rather|prefer(?: it)?(?: if| that)?) (?P<about>you (?!were|had been|could see)\w+ .+)", "style", confidence=0.75, vague=True),
    _rule(rf"(?:{_WOULD}|had )(?:much |far |really )?rather (?!not say|be |die|go |wait)(?P<about>.+)", confidence=0.7, shared=True),
    _rule(rf"{_WOULD}(?:really |much |strongly |definitely )?prefer (?!if i (?:had|were|was|could)\b)(?P<about>.+)", confidence=0.75, shared=True),
    # Aversion and fondness as nouns.
    _rule(rf"{ADVERBS}{_HAVE}(?:absolutely |really |basically )?(?:no|zero|little|very little|not much|low|limited) {_MODIFIERS}{lex.WANTING}(?P<about> (?:in|for|to|of|with|when)\b.+| .+)", polarity="against", confidence=0.9, shared=True),
    _rule(rf"{ADVERBS}{_HAVE}{_SOME}{_MODIFIERS}{lex.AVERSION}(?: (?:to|for|of|with|against|about|towards?|in|when it comes to))(?!\w)(?P<about> .+)", polarity="against", confidence=0.95, shared=True),
    _rule(rf"{ADVERBS}{_HAVE}{_SOME}{_MODIFIERS}{lex.FONDNESS}(?: (?:for|to|of|with|in|towards?|when it comes to))(?!\w)(?P<about> .+)", confidence=0.88, shared=True),
    _rule(rf"{ADVERBS}{_HAVE}{_SOME}(?P<about>(?:(?!to |no |in |of |for |with ){WORD},? ){{0,5}}?(?:{lex.CONDITION}|(?:{WORD} )?{lex.CONDITION_HEAD}))(?=$|[.,;!]| )", polarity="neutral", confidence=0.85, slot="condition", shared=True),
    _rule(rf"{ADVERBS}{_HAVE}(?P<about>(?:a )?sweet tooth)", confidence=0.85),
    # What one is, is not, knows, does.
    _rule(rf"{_BE}{ADVERBS}(?:not|never)(?: {lex.ADVERB})* {lex.UNWANTED} {_REST}", polarity="against", confidence=0.93),
    _rule(rf"(?:ain't|aren't) (?:\w+ly )?{lex.UNWANTED} {_REST}", polarity="against", confidence=0.93),
    _rule(rf"{_BE}{ADVERBS}not(?: {lex.ADVERB})* (?:much of a|a|an) (?P<about>(?:[\w-]+ ){{0,2}}[\w-]+ (?:person|drinker|eater|reader|gamer|fan|lover|guy|girl|kind of person))\b", polarity="against", confidence=0.75),
    _rule(rf"{_BE}{ADVERBS}not(?: {lex.ADVERB})* (?:familiar with|good at|experienced with|experienced in|well versed in) {_REST}", "expertise", "neutral", confidence=0.7),
    _rule(rf"{_BE}{ADVERBS}(?P<about>{lex.LASTING})(?! (?:to|with|by|right now|today|at the moment|because i'm tired)\b)(?=$|\W)", polarity="neutral", slot="state", vague=True, shared=True),
    _rule(rf"{_BE}{ADVERBS}{lex.REPELLED} (?!being (?:late|here)|waiting|having to|trying|dealing with this){_REST}", polarity="against", confidence=0.9, shared=True),
    _rule(rf"{_BE}{ADVERBS}{lex.DRAWN} {_REST}", confidence=0.85, shared=True),
    _rule(rf"{_BE}{ADVERBS}interested in (?!a |an |the |some |any |your |this |that |it|(?:starting|buying|learning more|trying|getting|finding|exploring|taking|hearing|knowing|joining|seeing|purchasing|visiting|attending|doing|making|improving|incorporating|adding|upgrading|booking|checking|understanding|pursuing|becoming|developing|creating|building|adopting|planning|going|hiring|investing|selling|moving|working)\b)(?P<about>.+)", "domain", confidence=0.65),
    _rule(rf"{_BE}{ADVERBS}(?:a|an|such a|quite the|the world's biggest) {_MODIFIERS}(?:fan|lover|admirer|believer|supporter|follower|advocate|proponent|devotee|sucker|connoisseur|aficionado|stickler|collector) (?:of|in|for) {_REST}", confidence=0.88),
    _rule(rf"{_BE}{ADVERBS}(?:more of |very much |definitely |mostly |strictly |kind of )?(?:a|an) (?P<about>(?:[\w-]+ ){{0,2}}[\w-]+(?:[ -](?:person|lover|addict|fan|fanatic|eater|drinker|hater|junkie|learner|thinker|buff|snob|type)))\b", confidence=0.85, slot="trait"),
    _rule(rf"{_BE}(?:currently |now )?on (?:a|an|the) (?P<about>(?:[\w-]+ ){{1,3}}diet)\b", polarity="neutral", slot="diet"),
    _rule(rf"{_BE}{ADVERBS}(?:relatively |completely |totally |brand |quite )?(?P<about>(?:new|newish) to (?!this\b|it\b|here\b|the (?:team|area|city|company|group))\w.+)", "expertise", "neutral", confidence=0.8, slot="level"),
    _rule(rf"{_BE}{ADVERBS}(?:already |quite |well |highly |not yet )?(?P<about>(?:experienced|familiar|unfamiliar|proficient|fluent|skilled|well versed|well-versed|versed|knowledgeable|competent|good|great|bad|terrible|decent|comfortable|advanced|trained|certified|specialized|specialised|qualified|inexperienced|rusty|self-taught) (?:in|with|at|about|as|on) (?!this\b|that\b|it\b|them\b|the (?:idea|results?|answer|moment)).+)", "expertise", "neutral", confidence=0.75, slot="level"),
    _rule(rf"(?:consider|call|describe|identify|see|think of|regard|{_WOULD}(?:consider|call|describe)) (?:myself |ourselves )?(?:as )?(?:to be )?(?:a|an) (?P<about>.+)", "expertise", "neutral", confidence=0.75, slot="role"),
    _rule(rf"{_BE}{ADVERBS}(?:a|an|the|one of the) (?!{lex.NOT_ROLES}(?: |$|[.,!])|(?:[\w-]+ ){{0,2}}?(?:mess|idiot|failure|wreck|bit|hurry|fan|victim)\b)(?P<about>.+)", "expertise", "neutral", confidence=0.8, slot="role"),
    _rule(rf"(?:work|worked|am working|'m working|have worked|have been working|'ve worked|'ve been working|trained|moonlight|freelance|volunteer|serve) (?:\w+ly |full time |part time |full-time |part-time )?as (?P<about>(?:a|an|the|head|chief|lead)\b.+)", "expertise", "neutral", slot="role"),
    _rule(rf"{ADVERBS}(?:work|am working|'m working|have worked|have been working|'ve worked|'ve been working|specialize|specialise|major|majored|am majoring|'m majoring|am specializing|'m specializing) (?:\w+ly )?in (?!the (?:morning|evening|afternoon|office|middle|field$|garden|yard|basement)|a (?:team|group|hurry|small (?:room|office))|this|that|it\b|my (?:room|bed)|shifts|person|teams|pairs|groups|here)(?P<about>.+)", "domain", "neutral", confidence=0.85, slot="field"),
    _rule(rf"{ADVERBS}(?:study|teach|research|practice|practise|am studying|'m studying|am teaching|'m teaching|am researching|'m researching|am learning|'m learning) (?!for\b|to\b|how\b|about\b|a lot|the\b|this|that|it\b|some\b|new\b|more\b|hard|at\b|in\b|with\b|on\b|my\b|all\b|every\b)(?P<about>.+)", "domain", "neutral", confidence=0.65, slot="field"),
    _rule(rf"{_HAVE}(?P<about>(?:(?:about |over |more than |around |almost |nearly |some |extensive |plenty of |a lot of |limited |basic |little |very little |no |zero |prior |a bit of |a little |lots of |years of |decades of |solid |strong |hands-on |many years of |a |an |\d+\+? years?'? (?:of )?|\w+ years?'? (?:of )?|\w+ )*)(?:experience|background|degree|phd|ph\.d\.?|doctorate|master's|masters|bachelor's|bachelors|mba|expertise|certification|diploma|knowledge|training|familiarity|understanding) (?:in|with|of|using|as|on|doing|programming|coding)\b.+)", "expertise", "neutral", confidence=0.85, slot="level"),
    _rule(r"(?:have |'ve )been (?P<about>(?:coding|programming|writing|developing|using|working with|teaching|practicing|practising|playing|cooking|doing|studying|learning|investing|running|building|in)\b.+ (?:for|since)\b.+)", "expertise", "neutral", confidence=0.65, slot="level"),
    _rule(r"(?:only |already |barely |hardly )?know (?P<about>(?:some|a little|a bit of|basic|only basic|only a little|no|very little|nothing about|next to nothing about|almost nothing about|a lot about|a fair bit of|the basics of|enough)\b.+)", "expertise", "neutral", confidence=0.7, slot="level"),
    _rule(r"(?:don't|do not|dont) (?:really |actually )?know (?P<about>(?:any|much|a lot of|a lot about|anything about|the first thing about) .+)", "expertise", "neutral", confidence=0.65, slot="level"),
    # Habits by choice.
    _rule(rf"{ADVERBS}(?:only|exclusively|solely|strictly|purely) (?:ever |really )?(?:want to|like to|need to)? ?{lex.CHOICE}\b (?!once|one|two|\d|for the (?:first|last)){_REST}", confidence=0.85, shared=True),
    _rule(rf"{ADVERBS}(?:only|exclusively|really only) (?:want to|like|love|enjoy|prefer|trust|do|believe in|care about) (?!know|see|the first|ask|say|make sure){_REST}", confidence=0.75, shared=True),
    _rule(rf"(?:always|almost always|nearly always|invariably|mainly|mostly|primarily|usually|typically|generally|normally|religiously|tend to|prefer to|try to|make sure to|like to) (?:{lex.ADVERB} )?{lex.CHOICE}\b (?!into|from the same|to (?:a|the) point|out of|it\b){_REST}", confidence=0.75, shared=True),
    _rule(rf"(?:{lex.ADVERB} )?(?:never|never ever|rarely|seldom|hardly ever|almost never|no longer|don't ever|do not ever|won't|will not|will never|would never|refuse to|try not to|tend not to|try never to|prefer not to) (?:{lex.ADVERB} )?{lex.CHOICE}\b (?!this|that|it\b|you|until|till|long|on (?:this|that)){_REST}", polarity="against", confidence=0.85, shared=True),
    _rule(rf"(?:{lex.ADVERB} )?(?:will|can|could|would) (?:only|exclusively) (?:{lex.ADVERB} )?(?:{lex.CHOICE}|have|get|do)\b (?!once|one|two|\d|see){_REST}", confidence=0.8, shared=True),
    _rule(rf"{ADVERBS}(?:don't|do not|dont) {ADVERBS}{lex.ABSTAINED}\b (?!this|that|it\b|them|any more than|to much|the (?:same|above|code|docs|file|output|output)){_REST}", polarity="against", confidence=0.8, shared=True),
    _rule(rf"{ADVERBS}(?:don't|do not|dont) (?P<about>(?:smoke|drink|drive|gamble|swim|fly|cook|eat meat|eat out))(?=$|[.,;!]| (?:at all|alcohol|because|so|due|and)\b)", polarity="against", confidence=0.85, shared=True),
    _rule(rf"{ADVERBS}(?:can't|cannot|can not|cant|mustn't|am not allowed to|'m not allowed to|am unable to|'m unable to|am not able to|'m not able to) (?:{lex.ADVERB} )?(?P<about>{lex.INCAPABLE}\b (?!this|that|it\b|the (?:file|error|page|request|load|case|exception)).+)", polarity="against", confidence=0.8, shared=True),
    _rule(rf"{ADVERBS}(?:follow|adhere to|keep|keep to|observe|maintain|practice|practise|stick to|eat|am following|'m following|live) (?P<about>(?:(?:a|an|the|my|this) )?(?:(?!with |at |in |for ){WORD} ){{0,4}}?(?:diet|lifestyle|kosher|halal|vegan|vegetarian|gluten-free|plant-based|paleo|keto|low-carb|dairy-free|clean|sharia|shabbat|sabbath|lent)(?: diet| lifestyle)?)\b", polarity="neutral", slot="diet", shared=True),
    _rule(rf"{ADVERBS}{lex.CHOICE} (?:only|exclusively|strictly|nothing but|mostly|mainly|almost exclusively) (?!if|when|once|one|two|\d|because|for|to|on|in){_REST}", confidence=0.75, shared=True),
    _rule(rf"{ADVERBS}(?:get|feel|become|start feeling) {ADVERBS}{lex.UNPLEASANT} (?P<about>(?:by|in|on|with|when|whenever|from|around|at|about|if|while|during|\w+ing)\b(?! (?:this|that|my (?:code|boss)|the (?:error|bug|result))).+)", polarity="against", confidence=0.8),
    _rule(rf"{ADVERBS}find (?!that |out|myself|this|that|the (?:answer|error|bug|problem|file)|my |your |any |no |a |an |it (?:hard to believe|strange that|odd that|weird that))(?P<about>\S.*?) (?:to be )?{lex.JUDGED}(?=$|[.,;!]| )", "custom", "neutral", confidence=0.8, shared=True),
    _rule(rf"{ADVERBS}(?:identify|sympathi[sz]e) (?:strongly )?with (?P<about>.+)", confidence=0.5),
)  # fmt: skip

_MY = (
    _rule(rf"my (?:all-time |absolute |all time |number one |top |personal |least |second )*(?:favou?rites?|fave|fav|preferred|go-to|ideal|least favou?rite|least-favou?rite|usual|default) (?P<about>(?:{WORD} ){{0,6}}?)(?:is|are|would be|has always been|will always be|have always been|was always|remains|has to be|:) (?P<value>.+)", slot="favourite"),
    _rule(rf"my (?:favou?rites?|preference|preferences|dislikes|likes|passion|passions|pet peeve|pet peeves|biggest pet peeve|guilty pleasure|hobby|hobbies|interests|dietary restrictions?|allergies|diet) (?:is|are|include|includes|has always been|would be|lies in|lie in) (?P<about>(?!to know|that you|not important|none).+)", confidence=0.85),
    _rule(rf"my (?:(?:first|preferred|full|real|given|legal) )?(?:name is|name's|nickname is|handle is|name would be) {_NAME}(?=$|[.,;!]| and | but | from | so )", slot="name"),
    _rule(r"my (?:preferred )?pronouns are (?P<about>.+)", slot="pronouns"),
    _rule(r"my (?:native|first|mother|second|preferred|main|primary) (?:language|tongue) is (?P<about>.+)", "custom", "neutral", slot="language"),
    _rule(r"my time ?zone is (?P<about>.+)", "custom", "neutral", slot="time-zone"),
    _rule(r"my (?:job|profession|occupation|day job|current role|role|job title|title|trade) is (?P<about>(?!to\b|so\b|too\b|very\b|really\b|not\b|boring|hard|stressful|killing|important)(?:a |an |being a |being an |as a |as an )?\w.+)", "expertise", "neutral", confidence=0.75, slot="job"),
    _rule(r"my (?:background|expertise|specialty|speciality|specialization|training|degree|phd|strength) (?:is|was|are|lies) (?:mainly |mostly |primarily )?(?P<about>(?:in |as )?\w.+)", "expertise", "neutral", confidence=0.8, slot="field"),
    _rule(r"my (?:field|area|area of expertise|area of interest|research|research area|industry|domain|major|line of work|research focus|focus area) (?:is|focuses on|concerns|was) (?P<about>.+)", "domain", "neutral", confidence=0.8, slot="field"),
    _rule(r"my (?P<about>(?:skin|stomach|eyes|knees?|back|body|teeth)) (?:is|are) (?:\w+ )?(?:sensitive|intolerant|bad|allergic)\b.*", "custom", "against", confidence=0.7),
)  # fmt: skip

_ABOUT = rf"(?P<about>(?!(?:it|this|that|these|those|he|she|they|you|i|we|there|what|which|who|how|if|when|where|why|and|but|so|because|don't|please|let|here)\b)(?:{WORD},? ){{1,9}}?)"
OTHER_SUBJECTS = (
    _rule(rf"{_ABOUT}(?:is|are|'s|has always been|have always been|will always be) (?:\w+ly |still |also |by far |definitely )*my (?:all-time |absolute |all time |least |number one |personal |go-to |second |new |biggest |guilty |main |secret )*(?:favou?rites?|fave|fav|thing|jam|passion|weakness|go-to|preferred|comfort food|pleasure|hobby|hobbies|pet peeve|kryptonite|preference|choice)\b.*", confidence=0.85),
    _rule(rf"{_ABOUT}(?:is not|isn't|are not|aren't|was never|is never|has never been|have never been) (?:really |exactly |quite |just |necessarily |at all )?(?:my (?:thing|style|cup of tea|jam|scene|favou?rite|taste|preference|vibe|strong suit|forte|idea of fun)|for me|to my taste|to my liking|up my alley)\b", polarity="against", confidence=0.88),
    _rule(rf"{_ABOUT}(?:doesn't|don't|does not|do not|never|hardly|no longer|didn't ever) (?:really |particularly |much |quite |exactly |ever )?(?:appeals? to|interests?|excites?|suits?|agrees? with|do it for|does it for|sit well with|sit right with) (?:me|my stomach)\b", polarity="against", confidence=0.85),
    _rule(rf"{_ABOUT}(?:\w+ly |always |just |totally |often )*(?:annoys?|bothers?|bores?|irritates?|frustrates?|scares?|terrify|terrifies|disgusts?|overwhelms?|distracts?|creeps?|grosses|gross|stress(?:es)?|turns?|puts?|freaks?|drives?|nauseates?) me\b(?! (?:today|right now|at the moment)).*", polarity="against", confidence=0.75),
    _rule(rf"{_ABOUT}(?:\w+ly |always |just |totally |often )*(?:fascinates?|relaxes|relax|calms?|inspires?|delights?|motivates?) me\b.*", confidence=0.7),
    _rule(rf"{_ABOUT}(?:always |usually |often |just |really |tend to |can )*makes? me (?:feel )?(?:really |so |very |quite |a bit |extremely |too |a little )*{lex.FEELING}\b.*", polarity="against", confidence=0.75),
    _rule(rf"{_ABOUT}(?:always |usually |often |just |really |tend to |can )*(?:gives?|trigger|triggers|causes?) (?:me |my )(?:really |bad |terrible |severe |awful )*(?:anxiety|headaches?|a headache|migraines?|the creeps|motion sickness|heartburn|hives|a rash|nightmares|stomach ?aches?|asthma|allergies|skin|panic attacks|the ick)\b.*", polarity="against", confidence=0.8),
    _rule(rf"{_ABOUT}(?:works?|suits?|fits?) (?:me )?(?:best|better|well|great)(?: for me)\b.*", confidence=0.8),
    _rule(r"(?:it|nothing) (?:\w+ly |always |just )*(?:annoys|bothers|irritates|frustrates|scares|stresses|drives|freaks|gets on my nerves)(?: me)?(?: \w+){0,2} (?P<about>(?:when|if|to)\b.+)", polarity="against", confidence=0.75),
)  # fmt: skip

_AS_A = re.compile(
    rf"(?:as|being|speaking as) (?:a|an) (?!rule|result|matter|last|side|follow|test|reminder|consequence|bonus|start|general|whole|kid|child|starting|way|means|user would|group|team|sign|joke|gift|present|treat|side note|quick|first step)(?P<about>(?:{WORD} ){{0,5}}?{WORD})(?=, )"
)
_AS_A_SELF = re.compile(
    r", (?:i\b|i'm|i've|i'd|my\b|we\b|(?:what|which|how|where|can|could|is|are|do|does|should)\b[^,]*\b(?:i|me|my)\b)"
)

_LIKE_I_AM = re.compile(
    r"(?:please |just |can you |could you )?(?:explain|talk|speak|answer|treat|teach|write|describe|respond|break|tell|walk|reply)\b(?P<what>(?: [^ ]+){0,8}?) (?:like|as if|as though) (?:i'm|i am|i were|i was|im|we're|we are) (?P<about>.+)"
)
_ELI5 = re.compile(r"(?:please |just )?(?P<about>eli ?5)\b")
_CALL_ME = re.compile(
    rf"(?:(?:you|u) (?:can|may|should|could) |(?:just|please|pls|simply|always|kindly|so|do|instead|then) )*"
    rf"(?:call me|refer to me as|address me as|address me by|greet me as|name me) (?:by my (?:first )?name,? |by the name |as |just )?"
    rf"(?!back\b|later|tomorrow|maybe|crazy|old|when|if|at\b|on\b|asap|a\b|an\b|the\b|by\b|after|before|once|in\b|for\b|to\b|and\b|or\b|anytime|any\b|tonight|today|again|first\b(?!$)|out\b|up\b|that\b|it\b|this\b|stupid|names|anything|whatever|whenever|soon|now\b|over\b|via\b|with\b|selfish|skeptical|biased|naive|lazy|weird|picky){_NAME}"
    rf"(?=$|[.,;!?)]| and | but | from now| instead| please| not | in | when | rather| because| if you| for short| going| or | thanks)"
)
_DONT_CALL_ME = re.compile(
    rf"(?:please |pls |just )?(?:don't|do not|never|stop) (?:ever )?(?:call(?:ing)? me|refer(?:ring)? to me as|address(?:ing)? me as) (?!back|later|tomorrow|when|if|at\b|on\b|after|before|again|in\b|out\b|for\b|during)(?P<about>(?:an? )?[\w{BLANK}'.-]+(?: [\w{BLANK}'.-]+)?)(?=$|[.,;!]| and | but | anymore| please| or )"
)
_DURABLE = re.compile(rf"\b{lex.LASTINGLY}\b")
_DURABLE_HEAD = re.compile(rf"(?:(?:and|so|also|ok|okay|but|please) )*{lex.LASTINGLY}\b[, ]*")
_ALWAYS = re.compile(
    rf"(?:(?:please|just|pls|kindly|you should|you must|remember to|make sure to|be sure to|make sure you|i want you to|i need you to|i'd like you to|i would like you to|try to|do) )*(?P<how>always|never|don't ever|do not ever|never ever) (?P<about>{lex.INSTRUCTION}\b .+)"
)
_POLITE = (
    r"(?:(?:please|pls|plz|just|kindly|also|and|so|but|then|ok|okay|always|only|simply|i want you to|i need you to|i'd like you to"
    r"|i would like you to|i expect you to|i'd prefer you to|i prefer you to|i'd prefer (?:it )?if you|you should|you can|you may|you must|try to|remember to|make sure to|do|next time|could you please|feel free to),? )*"
)
_LENGTHS = r"(?:under|below|within|at most|max|maximum|no more than|less than|fewer than|up to|to|between|about|around) (?:a |an |one |two |three |four |five |\d)"
_STYLED = re.compile(
    _POLITE
    + r"(?P<about>"
    + rf"keep (?:it|things|everything|this|(?:all )?(?:of )?(?:your |the |my |our )?(?:code )?{lex.ANSWERS})(?: all| always| very| as| more| nice and| really| relatively| fairly| pretty| super)* (?:{lex.MANNER}|{_LENGTHS}|in {lex.LANGUAGE}|free of)\b.*"
    + rf"|be (?:more |less |very |as |a bit |extremely |always |really |a little |super |so |completely |brutally )*{lex.MANNER}\b(?! (?:me|to the|when you see|with the)).*"
    + rf"|(?:answer|respond|reply|speak|talk|communicate|chat|converse|write|explain|text|correspond|write back)(?: to me| back| with me| your answers| everything| me| things| all answers| all questions| your responses| it| concepts)?(?: only| always| exclusively| strictly| mainly)? (?:in|with|using|without|at) (?:a |an |the |my |very |more |only |simple,? |clear,? |short,? |proper |plain )*(?:[\w-]+ ){{0,2}}?(?:{lex.STYLE}|{_LENGTHS}|manner|style|voice|way|register|words|level|pirate speak|points|form|terms|one sentence|haikus?)\b.*"
    + r"|(?:answer|respond|reply|speak|talk|write)(?: to me| back| with me| everything)? (?:like|as) (?:a|an|if you (?:are|were))\b.+"
    + rf"|use (?:only |more |less |fewer |lots of |a lot of |plenty of |simple |short |a |an |the |very |proper )*(?:[\w-]+ )?(?:{lex.FORM}|{lex.LANGUAGE}|(?:{lex.MANNER}) (?:{lex.ANSWERS}|language|tone|words|sentences|english|style|wording|terms)|(?:tone|language))\b(?! (?:from|called|named|in the|in this|to (?:solve|query|store))).*"
    + rf"|(?:give|provide|send|show|write|offer|want|prefer)(?: me)? (?:only |always |more |very |really )*(?:{lex.MANNER},? (?:and |but |or )?)+(?:answers|responses|replies|explanations|summaries|examples|feedback|sentences|messages|instructions|descriptions|code examples|paragraphs)\b.*"
    + rf"|(?:make|ensure) (?:sure )?(?:your |the |all |all your |that your )?{lex.ANSWERS} (?:are |stay |remain )?(?:more |less |very |always )*{lex.MANNER}\b.*"
    + rf"|format (?:your |the |all |all your )?(?:{lex.ANSWERS}|code|dates|numbers) (?:as|in|with|using)\b.+"
    + rf"|(?:limit|restrict|confine) (?:your |all |all your |the )?{lex.ANSWERS} to\b.+"
    + r"|(?:sugar-?coat|get straight|get right|cut) (?:to the point|to the chase|the fluff|the crap)\b.*"
    + r"|(?:stick|switch) to (?:the metric system|metric|english|german|french|spanish|bullet points|plain text|the facts|british spelling|american spelling)\b.*"
    + r")"
)  # fmt: skip
_FORBIDDEN = re.compile(
    _POLITE
    + r"(?P<about>"
    + rf"(?:avoid|skip|drop|omit|no|no more|zero|leave out|cut|cut out|lose|ditch|refrain from|stop|quit|enough with|go easy on|less|fewer|minimi[sz]e|limit|without)(?: the| all| any| your| using| adding| giving me| including| writing| with| so many| so much| unnecessary| excessive| overly| too much| too many)*(?: [\w-]+)?? {lex.FORM}\b(?! (?:from|in the|in this|on (?:line|page)|table|column|called|field)).*"
    + rf"|(?:don't|do not|dont|never|stop|quit|no need to|you don't need to|you don't have to|there's no need to|there is no need to) (?:ever |always |just |bother to |have to )*(?:us(?:e|ing)|includ(?:e|ing)|add(?:ing)?|giv(?:e|ing)|writ(?:e|ing)|send(?:ing)?|put(?:ting)?|start(?:ing)?|end(?:ing)?|mak(?:e|ing)|show(?:ing)?|respond(?:ing)?|answer(?:ing)?|reply(?:ing)?|speak(?:ing)?|talk(?:ing)?|output(?:ting)?|open(?:ing)?|clos(?:e|ing)|begin(?:ning)?|offer(?:ing)?|provid(?:e|ing))\b(?: [^ ]+){{0,4}}? (?:{lex.FORM}|{lex.LANGUAGE}|(?:{lex.MANNER}) (?:{lex.ANSWERS}))\b(?! (?:from|in the (?:file|table|code|function)|in this|table|column|called|field)).*"
    + r"|(?:don't|do not|dont|never|stop|quit|no need to) (?:ever |always |just )*(?:sugar-?coat(?:ing)?|lectur(?:e|ing)|apologi[sz](?:e|ing)|patroni[sz](?:e|ing)|hold(?:ing)? back|rambl(?:e|ing)|hedg(?:e|ing)|repeat(?:ing)? (?:yourself|my question|the question|what i)|over-?explain(?:ing)?|flatter(?:ing)?|morali[sz](?:e|ing)|dumb(?:ing)? (?:it|things) down|beat(?:ing)? around the bush|thank(?:ing)? me|mention(?:ing)? (?:that )?you(?:'re| are) an? (?:ai|assistant|language model|bot)|saying sorry|say sorry|summari[sz]ing at the end|asking (?:me )?(?:follow-up )?questions|ask me follow-up questions|praising|praise)\b.*"
    + rf"|(?:don't|do not|dont|never|stop) be(?:ing)? (?:so |too |overly |that |very |such )*{lex.MANNER}\b.*"
    + r")"
)  # fmt: skip
_BARE_FORM = re.compile(
    rf"(?P<about>(?:(?:only|just|no|zero|more|less|fewer|please) )?(?:[\w-]+ ){{0,2}}?(?:{lex.FORM}|{lex.MANNER} {lex.ANSWERS}|{lex.LANGUAGE}|{lex.BRIEF} {lex.ANSWERS}))(?: only|,? please|,? pls|,? thanks| whenever possible| always| if possible)+[.!]*\Z"
)
_WISH = re.compile(
    rf"(?:i|we) (?:only |always |just |really |still )?(?:want|need|expect|like|{_WOULD}like|{_WOULD}love|{_WOULD}appreciate) (?:only |always |just |your |all |the |my )*(?P<about>(?:{lex.MANNER},? (?:and |but |or )?)+(?:to-the-point )?(?:answers|responses|replies|explanations|summaries|feedback|messages|code examples|instructions)\b.*|{lex.ANSWERS} (?:to be |in |with |without |that are )(?:[\w-]+ ){{0,2}}?{lex.STYLE}\b.*)"
)
_SOMETHING = re.compile(rf"[\w{BLANK}]")
_DEICTIC = re.compile(lex.DEICTIC)
_GENERIC_IT = re.compile(lex.GENERIC_IT)
_PASSING = re.compile(rf"\b{lex.PASSING}\b")
_STYLE_WORDS = re.compile(
    rf"\b(?:{lex.ANSWERS}|{lex.FORM}|explain\w*|examples?|you(?:r)? (?:to )?(?:answer|respond|reply|explain|use|write)\w*|bullet|concise|verbose|tone|formal|informal|casual|step[ -]by[ -]step|dark mode|light mode|code comments?|jargon|analogies)\b"
)
_ABOUT_ANSWERS = re.compile(
    rf"\b(?:(?:{lex.MANNER},? )+(?:{lex.ANSWERS})|you(?:r)? (?:to )?(?:answer|respond|reply|explain|use|write|keep|give)\w*|{lex.FORM}|step[ -]by[ -]step|explanations?|answers|responses|replies|analogies|code examples)\b"
)
_EXPERT = re.compile(rf"(?:[\w-]+[ ,/]+(?:and )?){{0,6}}?(?:{lex.ROLE_HEAD}|{lex.LEVEL})\b")
_NOT_EXPERT = re.compile(
    r"(?:[\w-]+ ){0,3}?(?:mother|father|mom|dad|mum|parent|brother|sister|wife|husband|son|daughter|owner|lover|hater|person|sleeper|member|owl|bird|vegan|vegetarian|pescatarian|christian|american|canadian|european|asian|african|australian|minor|adult|teen|teenager|citizen|immigrant|republican|democrat|homeowner|renter|smoker|non-smoker|nonsmoker|drinker|eater|reader|watcher|gamer|traveler|traveller|early riser|introvert|extrovert|twin|widow|bachelor|libertarian|humanitarian|millennial|boomer|senior citizen|perfectionist|minimalist|environmentalist|feminist|procrastinator|believer|survivor|loner|homebody|romantic|optimist|pessimist|realist|collector)\b"
)


def state(text: str, start: int, end: int, *, shared: bool) -> Found | None:
    """What the predicate at `start` says of its speaker; `shared` when its "I" was left out."""
    for rule in STATEMENTS:
        if shared and not rule.shared:
            continue
        match = rule.pattern.match(text, start, end)
        if match and (found := _checked(rule, match)):
            return found
    return None


def describe(text: str, start: int, end: int) -> Found | None:
    """What a clause with a subject other than "I" says of its speaker."""
    if text.startswith("my ", start):
        for rule in _MY:
            match = rule.pattern.match(text, start, end)
            if match and (found := _checked(rule, match)):
                return found
        return None
    if " me" in text[start:end] or " my " in text[start:end]:
        for rule in OTHER_SUBJECTS:
            match = rule.pattern.match(text, start, end)
            if match and (found := _checked(rule, match)):
                return found
    return None


def introduce(text: str, start: int) -> Found | None:
    """What "As a …, I …" says its speaker is."""
    match = _AS_A.match(text, start)
    if match and _AS_A_SELF.match(text, match.end()):
        return Found(_role_type(match["about"]), "neutral", *match.span("about"), 0.7, "role")
    return None


def instruct(text: str, start: int, end: int) -> Found | None:
    """What the clause at `start` asks of every answer."""
    for pattern, slot in ((_LIKE_I_AM, "level-of-answers"), (_ELI5, "level-of-answers")):
        if match := pattern.match(text, start, end):
            return Found("style", "neutral", *match.span("about"), 0.85, slot)
    if match := _CALL_ME.match(text, start, end):
        return Found("custom", "neutral", *match.span("about"), 0.95, "name")
    if match := _DONT_CALL_ME.match(text, start, end):
        return Found("custom", "against", *match.span("about"), 0.8, "not-name")
    for pattern, polarity in ((_FORBIDDEN, "against"), (_STYLED, "for"), (_WISH, "for")):
        if match := pattern.match(text, start, end):
            return Found("style", _as_polarity(polarity), *match.span("about"), 0.8)
    if match := _BARE_FORM.match(text, start, end):
        polarity = (
            "against" if match["about"].startswith(("no ", "zero ", "less ", "fewer ")) else "for"
        )
        return Found("style", _as_polarity(polarity), *match.span("about"), 0.75)
    if match := _ALWAYS.match(text, start, end):
        if _DEICTIC_NOW.search(match["about"]):
            return None
        polarity = "for" if match["how"] == "always" else "against"
        style = bool(re.search(rf"\b{lex.STYLE}\b", match["about"]))
        return Found(
            "style" if style else "custom", _as_polarity(polarity), *match.span("about"), 0.85
        )
    return _lasting_instruction(text, start, end)


_DEICTIC_NOW = re.compile(r"\b(?:in this (?:function|file|script|case|code|class)|here)\b")


def _lasting_instruction(text: str, start: int, end: int) -> Found | None:
    """An order marked as lasting: "From now on, …", "… by default"."""
    head = _DURABLE_HEAD.match(text, start, end)
    position = head.end() if head else start
    if not head and not _DURABLE.search(text, start, end):
        return None
    match = _ORDER.match(text, position, end)
    if not match:
        return None
    style = bool(re.search(rf"\b{lex.STYLE}\b", match["about"]))
    return Found("style" if style else "custom", "neutral", *match.span("about"), 0.85)


_ORDER = re.compile(
    rf"{_POLITE}(?P<about>(?:{lex.INSTRUCTION}|you (?:should|must|will|have to|need to|are to|can|may)|i (?:want|need|expect|will only|only want|would like)|no|all|only|any)\b .+)"
)


def _checked(rule: Rule, match: re.Match[str]) -> Found | None:
    about = match["about"].strip()
    start, end = match.span("about")
    value = match.groupdict().get("value")
    if not _SOMETHING.search(about) and not value:
        return None
    if not rule.vague and _DEICTIC.match(about) and not _GENERIC_IT.match(about):
        return None
    if _PASSING.search(match.string, match.start(), match.end()):
        return None
    if rule.slot == "role":
        kind = _role_type(about)
        trimmed = _trim_role(about)
        if trimmed is None:
            return None
        return Found(
            kind, rule.polarity, start, start + len(match["about"]), rule.confidence, "role"
        )
    polarity = "against" if rule.polarity == "for" and _TURNED.match(about) else rule.polarity
    if rule.type == "custom" and not rule.slot and _ABOUT_ANSWERS.search(about):
        return Found("style", polarity, start, end, rule.confidence, rule.slot)
    return Found(rule.type, polarity, start, end, rule.confidence, rule.slot)


_TURNED = re.compile(
    r"(?:not|no|to not|to avoid|avoiding|to stay away|staying away|to steer clear|you (?:not|don't|didn't|never|avoid|avoided|skip|skipped))\b"
)
_NO_ROLE = re.compile(
    r"(?:[\w-]+ ){0,2}?(?:bit|little|lot|few|while|ago|away|behind|late|early|short|into|over|from finishing|old|years? old|month old|year-old|looking|trying|going|hoping|wondering|struggling|confused|lost)\b"
)


def _trim_role(about: str) -> str | None:
    first = re.split(r"[,.;]| (?:who|that|which|and|but|with|at|in|for|so|from|of)\b", about)[0]
    words = first.split()
    if not words or len(words) > 7 or _NO_ROLE.match(first):
        return None
    return first


def _role_type(about: str) -> PreferenceType:
    if _NOT_EXPERT.match(about):
        return "custom"
    return "expertise" if _EXPERT.match(about) else "custom"


def _as_polarity(value: str) -> Polarity:
    return "against" if value == "against" else "for"


def is_level_request(text: str) -> bool:
    """Whether `text` is "explain … like I am …", whose pretending is meant."""
    return bool(_LIKE_I_AM.match(text))
