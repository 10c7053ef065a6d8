"""What follows "I": names, ways of learning, likes and dislikes as verbs and as nouns."""

from __future__ import annotations

from agentmem.core import preference_lexicon as lex
from agentmem.core.preference_lexicon import (
    ADVERBS,
    HAVE,
    MODIFIERS,
    NAME,
    OF_SOMETHING,
    REST,
    SOME,
    WORD,
    WOULD,
)
from agentmem.core.preference_rules import Rule, rule

ATTITUDES: tuple[Rule, ...] = (
    # Names.
    rule(
        rf"(?:usually |also |normally )?go by {NAME}(?=$|[.,;!]| and | but | now| "
        rf"so | at )",
        slot="name",
    ),
    rule(
        rf"(?:want|wish|like|prefer|{WOULD}like|{WOULD}prefer|{WOULD}rather) "
        rf"(?:to be|be|being) (?:called|addressed as|referred to as) {NAME}(?=$|"
        rf"[.,;!]| and | but | instead| rather)",
        slot="name",
        shared=True,
    ),
    rule(
        r"(?:use|go by|prefer|'m using|am using) (?P<about>(?:they|she|he|ze|xe|it)"
        r"/\w+(?:/\w+)?)(?: pronouns)?",
        slot="pronouns",
    ),
    # How one learns and works.
    rule(
        rf"{ADVERBS}(?:learn|understand|work|think|concentrate|focus|study|perform|"
        rf"retain information|remember things|remember|absorb information|process "
        rf"information|grasp \w+|respond|do|code|write|sleep)(?: things| concepts| "
        rf"new things| information)? (?:best|better|much better|more easily|most "
        rf"easily|faster|more effectively|most effectively|well (?=with|when|by|"
        rf"under|in|alone|from|through)) ?{REST}",
        "style",
        confidence=0.85,
        shared=True,
    ),
    # Attitudes.
    rule(rf"{ADVERBS}(?:would much )?prefer (?:that )?{REST}", shared=True),
    rule(
        rf"{ADVERBS}{lex.LIKE} (?!to (?:think|know if|say|ask|see if|see how|hear|"
        rf"point out)\b){REST}",
        confidence=0.9,
        shared=True,
    ),
    rule(
        rf"{ADVERBS}appreciate (?!you|your|it|the|this|that|any|all|if|everything|"
        rf"everyone|our|having|being|a |an |his|her|their|my)(?P<about>.+)",
        confidence=0.75,
        shared=True,
    ),
    rule(
        rf"{ADVERBS}{lex.DISLIKE} (?!to (?:say|admit|bother|ask|break|be|do|"
        rf"interrupt|disagree|tell)\b|that |the (?:worst|day|delay|"
        rf"inconvenience)){REST}",
        polarity="against",
        confidence=0.95,
        shared=True,
    ),
    rule(
        rf"{ADVERBS}(?:refuse|decline) (?:to |ever to |outright to )(?!believe|"
        rf"accept (?:that|it|this)|give up|admit|comment|answer (?:that|"
        rf"this)){REST}",
        polarity="against",
        shared=True,
    ),
    rule(
        rf"{ADVERBS}(?:can't|cannot|can not|cant|couldn't) (?:{lex.ADVERB} "
        rf")?(?:stand|bear|tolerate|stomach|abide|deal with) {REST}",
        polarity="against",
        confidence=0.95,
        shared=True,
    ),
    rule(
        rf"{ADVERBS}(?:can't|cannot|can not|cant) (?:live without|get enough of|"
        rf"resist|do without|function without|start my day without) {REST}",
        confidence=0.85,
        shared=True,
    ),
    rule(
        rf"{ADVERBS}{lex.NOT} {ADVERBS}{lex.WANTED} (?!to think|to say){REST}",
        polarity="against",
        confidence=0.93,
        shared=True,
    ),
    rule(
        rf"{ADVERBS}(?:don't|do not|dont|never) {ADVERBS}want (?!to (?:bother|be "
        rf"rude|know|hear|talk|lose|waste|go|leave|miss|see this|spend|have to|sound|"
        rf"offend|wait|think|worry|break|die|forget|argue|fail|make a mistake|do "
        rf"(?:this|that|it)|be|let|get|hurt|disappoint|upset|give up|keep|start|stop|"
        rf"end up|rush|risk|impose|take|ruin|mess|seem|look|feel|make|change|come|"
        rf"put|say|ask|sit)\b|you to think|any(?=$|[.,])|anyone|people|\w+ \w+ to\b|\w+ to "
        rf"(?!\w+ing))(?P<about>.+)",
        polarity="against",
        confidence=0.6,
    ),
    rule(rf"(?:could|can|would) do without {REST}", polarity="against", confidence=0.8),
    rule(rf"couldn't care less (?:about|for) {REST}", polarity="against", confidence=0.85),
    rule(
        r"(?:have |'ve )?(?:quit|given up|gave up|stopped|sworn off|cut out) (?:on )"
        r"?(?P<about>(?:(?:eating|drinking|using|smoking|watching|wearing|buying|"
        r"playing|reading) )?(?!trying|hoping|looking|working|on )\w.+)",
        polarity="against",
        confidence=0.6,
    ),
    rule(
        rf"(?:have |'ve )(?:always |long |always been )+(?:hated|disliked|avoided|"
        rf"despised|detested|feared|loathed|afraid of|scared of|allergic to|averse "
        rf"to|uncomfortable with) {REST}",
        polarity="against",
        confidence=0.85,
    ),
    rule(
        rf"(?:have |'ve )(?:honestly |just |really )?never (?:really |much |quite |"
        rf"been )*(?:loved|liked|preferred|enjoyed|cared for|cared about|appreciated|"
        rf"into|a fan of|fond of|interested in|keen on) {REST}",
        polarity="against",
        confidence=0.85,
    ),
    rule(
        rf"(?:have |'ve )(?:always |long |only ever |always really )+(?:loved|liked|"
        rf"preferred|enjoyed|favou?red|appreciated|been into|been a fan of|been "
        rf"fascinated by|been fond of|been passionate about|admired|adored|valued|"
        rf"used|eaten|worn) {REST}",
        confidence=0.85,
    ),
    rule(
        rf"{WOULD}(?:much |far |really )?(?:rather|prefer(?: it)?(?: if| that)?) "
        rf"(?P<about>you (?!were|had been|could see)\w+ .+)",
        "style",
        confidence=0.75,
        vague=True,
    ),
    rule(
        rf"(?:{WOULD}|had )(?:much |far |really )?rather (?!not say|be |die|go |"
        rf"wait)(?P<about>.+)",
        confidence=0.7,
        shared=True,
    ),
    rule(
        rf"{WOULD}(?:really |much |strongly |definitely )?prefer (?!if i (?:had|"
        rf"were|was|could)\b)(?P<about>.+)",
        confidence=0.75,
        shared=True,
    ),
    rule(
        rf"(?:have |'ve )(?:grown|come|learned|learnt) to (?:love|like|enjoy|prefer|value) {REST}",
        confidence=0.8,
    ),
    rule(
        rf"(?:have |'ve )(?:grown|come|learned|learnt) to (?:hate|dislike|avoid|dread) {REST}",
        polarity="against",
        confidence=0.8,
    ),
    rule(
        rf"{ADVERBS}(?:want|need|have|'ve got) to (?:strictly |completely "
        rf")?(?:avoid|stay away from) "
        r"(?!the (?:error|bug|crash|problem|issue|situation|case)|using (?:a|the)\b)(?P<about>.+)",
        polarity="against",
        confidence=0.6,
        shared=True,
    ),
    rule(
        rf"(?:don't|do not|dont) wish to (?!be rude|know|intrude|offend|bother){REST}",
        polarity="against",
        confidence=0.7,
    ),
    rule(
        rf"(?:don't|do not|dont) find (?!it\b|that|this|any|the (?:file|answer|"
        rf"option|setting|button))"
        rf"(?P<about>(?:{WORD},? ){{0,5}}?{WORD}) (?:to be )?{lex.JUDGED}(?=$|"
        rf"[.,;!]| (?:or|and|at|when)\b)",
        polarity="against",
        confidence=0.75,
        shared=True,
    ),
    rule(
        rf"{ADVERBS}(?:require|demand) (?!help|your|assistance|more|a |an |the |some |further|"
        r"information|you\b)(?P<about>.+)",
        confidence=0.6,
        shared=True,
    ),
    rule(
        rf"{ADVERBS}(?:need|require|want) (?:only |to have )?(?P<about>(?:vegan|"
        rf"vegetarian|halal|kosher|"
        r"gluten-free|dairy-free|nut-free|sugar-free|lactose-free|fragrance-free|hypoallergenic|"
        r"wheelchair|accessible|cruelty-free)\b.+)",
        confidence=0.75,
        shared=True,
    ),
    rule(
        rf"{ADVERBS}(?:limit|restrict) (?P<about>my .+)",
        polarity="against",
        confidence=0.7,
        shared=True,
    ),
    # Aversion and fondness as nouns.
    rule(
        rf"{HAVE}{SOME}(?:\w+ly )?(?P<about>(?:strict |firm )?(?:no|zero)-[\w-]+ "
        rf"(?:policy|rule))\b",
        polarity="against",
        confidence=0.8,
    ),
    rule(
        rf"{HAVE}(?:\w+ )?(?:ethical|moral|religious|environmental|health|serious ethical) "
        rf"(?:concerns|qualms|reservations|objections|issues) (?:about|with|"
        rf"regarding|against|to) {REST}",
        polarity="against",
        confidence=0.8,
        shared=True,
    ),
    rule(
        rf"{HAVE}(?:a lot of |real |some |great |a )?(?:trouble|difficulty|difficulties|hard time) "
        r"(?P<about>(?:sleeping|seeing|hearing|reading|concentrating|focusing|breathing|walking|"
        r"climbing|standing|digesting|swallowing|remembering|falling asleep)"
        r"\b(?! (?:the|this|your|my "
        r"(?:file|code|screen))).*)",
        polarity="neutral",
        confidence=0.7,
    ),
    rule(
        rf"{ADVERBS}{HAVE}(?:absolutely |really |basically )?(?:no|zero|little|very "
        rf"little|not much|(?:a )?(?:very )?low|(?:a "
        rf")?limited) {MODIFIERS}{lex.WANTING} (?:in|for|to|of|"
        rf"with|towards?)(?P<about> .+)",
        polarity="against",
        confidence=0.9,
        shared=True,
    ),
    rule(rf"{ADVERBS}{HAVE}{SOME}(?:\w+ )?thing (?:for|about){OF_SOMETHING}", confidence=0.8),
    rule(
        rf"{ADVERBS}{HAVE}{SOME}{MODIFIERS}{lex.AVERSION}(?: (?:to|for|of|with|"
        rf"against|about|towards?|in|when it comes to))(?!\w)(?P<about> .+)",
        polarity="against",
        confidence=0.95,
        shared=True,
    ),
    rule(
        rf"{ADVERBS}{HAVE}{SOME}{MODIFIERS}{lex.FONDNESS}(?: (?:for|to|of|with|in|"
        rf"towards?|when it comes to))(?!\w)(?P<about> .+)",
        confidence=0.88,
        shared=True,
    ),
    rule(
        rf"{ADVERBS}{HAVE}{SOME}(?P<about>(?:(?!to |no |in |of |for |with "
        rf"){WORD},? ){{0,5}}?(?:{lex.CONDITION}|(?:{WORD} )?{lex.CONDITION_HEAD}))"
        rf"(?=$|[.,;!]| )",
        polarity="neutral",
        confidence=0.85,
        slot="condition",
        shared=True,
    ),
    rule(rf"{ADVERBS}{HAVE}(?P<about>(?:a )?sweet tooth)", confidence=0.85),
)
