"""What is said to the assistant about every answer: names, language, length, tone, form."""

from __future__ import annotations

from agentmem.core import preference_lexicon as lex
from agentmem.core.patterns import LazyPattern
from agentmem.core.preference_lexicon import BLANK, NAME, WOULD
from agentmem.core.preference_rules import Found, Polarity, PreferenceType

_POLITE_START = r"(?:(?:please|pls|just|always|and|so|but|also) )*"
_LIKE_I_AM = LazyPattern(
    r"(?:please |just |can you |could you )?(?:explain|talk|speak|answer|treat|"
    r"teach|write|describe|respond|break|tell|walk|reply)\b(?P<what>(?: [^ "
    r"]+){0,8}?) (?:like|as if|as though) (?:i'm|i am|i were|i was|im|we're|we "
    r"are) (?P<about>.+)"
)
_TREAT_ME = LazyPattern(rf"{_POLITE_START}treat me (?:like|as) (?P<about>(?:a|an) .+)")
_PRONOUNS = LazyPattern(rf"{_POLITE_START}use (?P<about>(?:they|she|he|ze|xe)/\w+(?:/\w+)?)")
_ELI5 = LazyPattern(r"(?:please |just )?(?P<about>eli ?5)\b")
_CALL_ME = LazyPattern(
    rf"(?:(?:you|u) (?:can|may|should|could) |(?:just|please|pls|simply|always|"
    rf"kindly|so|do|instead|then) )*"
    rf"(?:call me|refer to me as|address me as|address me by|greet me as|name me)"
    rf" (?:by my (?:first )?name,? |by the name |as |just )?"
    rf"(?!back\b|later|tomorrow|maybe|crazy|old|when|if|at\b|on\b|asap|a\b|an\b|"
    rf"the\b|by\b|after|before|once|in\b|for\b|to\b|and\b|or\b|anytime|any\b|"
    rf"tonight|today|again|first\b(?!$)|out\b|up\b|that\b|it\b|this\b|stupid|"
    rf"names|anything|whatever|whenever|soon|now\b|over\b|via\b|with\b|selfish|"
    rf"skeptical|biased|naive|lazy|weird|picky){NAME}"
    rf"(?=$|[.,;!?)]| and | but | from now| instead| please| not | in | when | "
    rf"rather| because| if you| for short| going| or | thanks)"
)
_DONT_CALL_ME = LazyPattern(
    rf"(?:please |pls |just )?(?:don't|do not|never|stop) (?:ever "
    rf")?(?:call(?:ing)? me|refer(?:ring)? to me as|address(?:ing)? me as) "
    rf"(?!back|later|tomorrow|when|if|at\b|on\b|after|before|again|in\b|out\b|"
    rf"for\b|during)(?P<about>(?:an? )?[\w{BLANK}'.-]+(?: [\w{BLANK}'.-]+)?)(?=$|"
    rf"[.,;!]| and | but | anymore| please| or )"
)
_DURABLE = LazyPattern(rf"\b{lex.LASTINGLY}\b")
_DURABLE_HEAD = LazyPattern(rf"(?:(?:and|so|also|ok|okay|but|please) )*{lex.LASTINGLY}\b[, ]*")
_ALWAYS = LazyPattern(
    rf"(?:(?:please|just|pls|kindly|you should|you must|remember to|make sure to|"
    rf"be sure to|make sure you|i want you to|i need you to|i'd like you to|i "
    rf"would like you to|try to|do) )*(?P<how>always|never|don't ever|do not "
    rf"ever|never ever) (?P<about>{lex.INSTRUCTION}\b .+)"
)
_POLITE = (
    r"(?:(?:please|pls|plz|just|kindly|also|and|so|but|then|ok|okay|always|only|"
    r"simply|i want you to|i need you to|i'd like you to"
    r"|i would like you to|i expect you to|i'd prefer you to|i prefer you to|"
    r"i'd prefer (?:it )?if you|you should|you can|you may|you must|try to|"
    r"remember to|make sure to|do|next time|could you please|feel free to),? )*"
)
_LENGTHS = (
    r"(?:under|below|within|at most|max|maximum|no more than|less than|fewer than|"
    r"up to|to|between|about|around) (?:a |an |one |two |three |four |five |\d+)"
)
_STYLED = LazyPattern(
    _POLITE
    + r"(?P<about>"
    + rf"keep (?:it|things|everything|this|(?:all )?(?:of )?(?:your |the |my |our )"
    rf"?(?:code )?{lex.ANSWERS})(?: all| always| very| as| more| nice and| "
    rf"really| relatively| fairly| pretty| super)* (?:{lex.MANNER}|{_LENGTHS}|in "
    rf"{lex.LANGUAGE}|free of)\b.*"
    + rf"|be (?:more |less |very |as |a bit |extremely |always |really |a little |"
    rf"super |so |completely |brutally )*{lex.MANNER}\b(?! (?:me|to the|when you "
    rf"see|with the)).*" + rf"|(?:answer|respond|reply|speak|talk|communicate|chat|converse|write|"
    rf"explain|text|correspond|write back)(?: to me| back| with me| your answers|"
    rf" everything| me| things| all answers| all questions| your responses| it| "
    rf"concepts)?(?: only| always| exclusively| strictly| mainly)? (?:in|with|"
    rf"using|without|at) (?:a |an |the |my |very |more |only |simple,? |clear,? |"
    rf"short,? |proper |plain )*(?:[\w-]+ ){{0,2}}?(?:{lex.STYLE}|{_LENGTHS}|"
    rf"manner|style|voice|way|register|words|level|pirate speak|points|form|"
    rf"terms|one sentence|haikus?)\b.*"
    + r"|(?:answer|respond|reply|speak|talk|write)(?: to me| back| with me| "
    r"everything)? (?:like|as) (?:a|an|if you (?:are|were))\b.+"
    + rf"|use (?:only |more |less |fewer |lots of |a lot of |plenty of |simple |"
    rf"short |a |an |the |very |proper )*(?:[\w-]+ "
    rf")?(?:{lex.FORM}|{lex.LANGUAGE}|(?:{lex.MANNER}) (?:{lex.ANSWERS}|language|"
    rf"tone|words|sentences|english|style|wording|terms)|(?:tone|language))\b(?! "
    rf"(?:from|called|named|in the|in this|to (?:solve|query|store))).*"
    + rf"|(?:give|provide|send|show|write|offer|want|prefer)(?: me)? (?:only |"
    rf"always |more |very |really )*(?:{lex.MANNER},? (?:and |but |or "
    rf")?)+(?:answers|responses|replies|explanations|summaries|examples|feedback|"
    rf"sentences|messages|instructions|descriptions|code examples|paragraphs)"
    rf"\b.*" + rf"|(?:make|ensure) (?:sure )?(?:your |the |all |all your |that your "
    rf")?{lex.ANSWERS} (?:are |stay |remain )?(?:more |less |very |always "
    rf")*{lex.MANNER}\b.*"
    + rf"|format (?:your |the |all |all your )?(?:{lex.ANSWERS}|code|dates|numbers)"
    rf" (?:as|in|with|using)\b.+"
    + rf"|(?:limit|restrict|confine) (?:your |all |all your |the )?{lex.ANSWERS} to\b.+"
    + r"|(?:sugar-?coat|get straight|get right|cut) (?:to the point|to the chase|"
    r"the fluff|the crap)\b.*"
    + r"|(?:stick|switch) to (?:the metric system|metric|english|german|french|"
    r"spanish|bullet points|plain text|the facts|british spelling|american "
    r"spelling)\b.*" + r")"
)
_FORBIDDEN = LazyPattern(
    _POLITE
    + r"(?P<about>"
    + rf"(?:no|no more|zero|less|fewer|without)(?: unnecessary| excessive| overly)?"
    rf"(?: [\w-]+)?? {lex.FORM}(?=$|[.,;!)]| (?:please|pls|thanks|at all|ever|"
    rf"when|if|unless|and|or|"
    rf"in (?:your|any|the) (?:answers?|responses?|replies|output))\b).*"
    + rf"|(?:avoid|skip|drop|omit|leave out|cut|cut out|lose|ditch|"
    rf"refrain from|stop|quit|enough with|go easy on|minimi[sz]e|"
    rf"limit)(?: the| all| any| your| using| adding| giving me| "
    rf"including| writing| with| so many| so much| unnecessary| excessive| "
    rf"overly| too much| too many)*(?: [\w-]+)?? {lex.FORM}\b(?! (?:from|in the|"
    rf"in this|on (?:line|page)|table|column|called|field)).*"
    + rf"|(?:don't|do not|dont|never|stop|quit|no need to|you don't need to|you "
    rf"don't have to|there's no need to|there is no need to) (?:ever |always |"
    rf"just |bother to |have to )*(?:us(?:e|ing)|includ(?:e|ing)|add(?:ing)?|"
    rf"giv(?:e|ing)|writ(?:e|ing)|send(?:ing)?|put(?:ting)?|start(?:ing)?|"
    rf"end(?:ing)?|mak(?:e|ing)|show(?:ing)?|respond(?:ing)?|answer(?:ing)?|"
    rf"reply(?:ing)?|speak(?:ing)?|talk(?:ing)?|output(?:ting)?|opening|open|"
    rf"clos(?:e|ing)|begin(?:ning)?|offer(?:ing)?|provid(?:e|ing))\b(?: [^ "
    rf"]+){{0,4}}? (?:{lex.FORM}|{lex.LANGUAGE}|(?:{lex.MANNER}) "
    rf"(?:{lex.ANSWERS}))\b(?! (?:from|in the (?:file|table|code|function)|in "
    rf"this|table|column|called|field)).*"
    + r"|(?:don't|do not|dont|never|stop|quit|no need to) (?:ever |always |just "
    r")*(?:sugar-?coat(?:ing)?|lectur(?:e|ing)|apologi[sz](?:e|ing)|"
    r"patroni[sz](?:e|ing)|hold(?:ing)? back|rambl(?:e|ing)|hedg(?:e|ing)|"
    r"repeat(?:ing)? (?:yourself|my question|the question|what i)|"
    r"over-?explain(?:ing)?|flatter(?:ing)?|morali[sz](?:e|ing)|dumb(?:ing)? "
    r"(?:it|things) down|beat(?:ing)? around the bush|thank(?:ing)? me|"
    r"mention(?:ing)? (?:that )?you(?:'re| are) an? (?:ai|assistant|language "
    r"model|bot)|saying sorry|say sorry|summari[sz]ing at the end|"
    r"asking (?:me )?(?:follow-up )?questions|ask me follow-up "
    r"questions|praising|praise)\b.*"
    + rf"|(?:don't|do not|dont|never|stop) be(?:ing)? (?:so |too |overly |that |"
    rf"very |such )*{lex.MANNER}\b.*" + r")"
)
_BARE_FORM = LazyPattern(
    rf"(?P<about>(?:(?:only|just|no|zero|more|less|fewer|please) )?(?:[\w-]+ "
    rf"){{0,2}}?(?:{lex.FORM}|{lex.MANNER} {lex.ANSWERS}|"
    rf"{lex.LANGUAGE}|{lex.BRIEF} {lex.ANSWERS}))(?: only|,? please|,? pls|,? "
    rf"thanks| whenever possible| always| if possible)+[.!]*\Z"
)
_BARE_END = LazyPattern(r"(?:only|please|pls|thanks|possible|always)\W*\Z")
_ASKED = LazyPattern(
    r"(?:i|we)(?:'d|d)? (?:would|want|need|expect|like|love|prefer|appreciate|"
    r"only|just|really|still|always)\b"
)
_WISH = LazyPattern(
    rf"(?:i|we)(?: |(?='))(?:only |always |just |really |still )?(?:want|need|"
    rf"expect|like|{WOULD}like|{WOULD}love|{WOULD}appreciate) (?:only |always "
    rf"|just |your |all |the |my )*(?P<about>(?:{lex.MANNER},? (?:and |but |or "
    rf")?)+(?:to-the-point )?(?:answers|responses|replies|explanations|summaries|"
    rf"feedback|messages|code examples|instructions)\b.*|{lex.ANSWERS} (?:to be |"
    rf"in |with |without |that are )(?:[\w-]+ ){{0,2}}?{lex.STYLE}\b.*)"
)
_STYLE = LazyPattern(
    r"(?:answer|respond|reply|speak|talk|explain|be|cite|greet|address|"
    r"apologi[sz]e|summari[sz]e|spell)\b"
    rf"|.*\b(?:{lex.FORM}|{lex.ANSWERS}|{lex.LANGUAGE})\b"
)
_ONCE = LazyPattern(
    r"\b(?:for|in|on|of|to|about|with) (?:this|that|the following|the attached|"
    r"the (?:email|document|file|article|essay|readme|report|table|letter|story|"
    r"title|page|post|function|code)) ?(?!chat|conversation|session|thread)\b"
    r"|\b(?:this time|just once|right now)\b"
)
_PROVERBIAL = LazyPattern(
    r"(?:give up|say never|let (?:us|me|you|them|him|her|it)|be afraid|look "
    r"back|be the same|forget|lose|make (?:us|me|it|them)|remind (?:me|us)|"
    r"leave (?:home|me|us|my)|say die|think about|do (?:that|this|it) again|run "
    r"out|ask (?:for|why))\b|\b(?:in this (?:function|file|script|case|code|"
    r"class)|here)\b"
)
_ORDER = LazyPattern(
    rf"{_POLITE}(?!let me|let's|let us|tell me|be (?:sure|well|safe))"
    rf"(?P<about>(?:{lex.INSTRUCTION}|you (?:should|must|will|have to|need to|"
    rf"are to|can|may)|i (?:want|need|expect|will only|only want|would like)|no|"
    rf"all|only|any)\b .+)"
)


def instruct(text: str, start: int, end: int, *, lasting: bool = False) -> Found | None:
    """What the clause at `start` asks of every answer; `lasting` after "From now on, …"."""
    about_oneself = text.startswith(("i ", "i'", "we "), start) and not lasting
    if about_oneself and not _ASKED.match(text, start, end):
        return None  # one instructs only through what one wants
    for pattern in (_LIKE_I_AM, _ELI5, _TREAT_ME):
        if match := pattern.match(text, start, end):
            return Found("style", "neutral", *match.span("about"), 0.85, "level-of-answers")
    if match := _PRONOUNS.match(text, start, end):
        return Found("custom", "neutral", *match.span("about"), 0.85, "pronouns")
    if match := _CALL_ME.match(text, start, end):
        return Found("custom", "neutral", *match.span("about"), 0.95, "name")
    if match := _DONT_CALL_ME.match(text, start, end):
        return Found("custom", "against", *match.span("about"), 0.8, "not-name")
    for pattern in (_FORBIDDEN, _STYLED, _WISH):
        if (match := pattern.match(text, start, end)) and not _ONCE.search(match["about"]):
            less = pattern is _FORBIDDEN or match["about"].startswith(("use fewer ", "use less "))
            return Found("style", "against" if less else "for", *match.span("about"), 0.8)
    if _BARE_END.search(text, max(start, end - 20), end) and (
        match := _BARE_FORM.match(text, start, end)
    ):
        less = match["about"].startswith(("no ", "zero ", "less ", "fewer "))
        return Found("style", "against" if less else "for", *match.span("about"), 0.75)
    if match := _ALWAYS.match(text, start, end):
        if _PROVERBIAL.search(match["about"]):
            return None
        polarity: Polarity = "for" if match["how"] == "always" else "against"
        return Found(_kind(match["about"]), polarity, *match.span("about"), 0.85)
    return _lasting_instruction(text, start, end, lasting)


def opens_lasting(text: str, start: int) -> bool:
    """Whether "From now on" or its like begins at `start`, so that what follows is for good."""
    return bool(_DURABLE_HEAD.match(text, start))


def _lasting_instruction(text: str, start: int, end: int, lasting: bool) -> Found | None:
    """An order marked as lasting: "From now on, …", "… by default"."""
    head = _DURABLE_HEAD.match(text, start, end)
    position = head.end() if head else start
    if not head and not lasting and not _DURABLE.search(text, start, end):
        return None
    match = _ORDER.match(text, position, end)
    if not match:
        return None
    return Found(_kind(match["about"]), "neutral", *match.span("about"), 0.85)


def _kind(order: str) -> PreferenceType:
    return "style" if _STYLE.match(order) else "custom"
