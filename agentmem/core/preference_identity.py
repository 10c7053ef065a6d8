"""What follows "I": what one is, is not, knows, and does by choice."""

from __future__ import annotations

from agentmem.core import preference_lexicon as lex
from agentmem.core.preference_lexicon import ADVERBS, BE, HAVE, MODIFIERS, REST, WORD, WOULD
from agentmem.core.preference_rules import Rule, rule

IDENTITIES: tuple[Rule, ...] = (
    # What one is, is not, knows, does.
    rule(
        rf"{BE}{ADVERBS}(?:not|never)(?: {lex.ADVERB})* {lex.UNWANTED} {REST}",
        polarity="against",
        confidence=0.93,
    ),
    rule(
        rf"(?:ain't|aren't) (?:\w+ly )?{lex.UNWANTED} {REST}", polarity="against", confidence=0.93
    ),
    rule(
        rf"{BE}{ADVERBS}not(?: {lex.ADVERB})* (?:much of a|a|an) "
        rf"(?P<about>(?:[\w-]+ ){{0,2}}[\w-]+ (?:person|drinker|eater|reader|gamer|"
        rf"fan|lover|guy|girl|kind of person))\b",
        polarity="against",
        confidence=0.75,
    ),
    rule(
        rf"{BE}{ADVERBS}not(?: {lex.ADVERB})* (?:familiar with|good at|experienced "
        rf"with|experienced in|well versed in) {REST}",
        "expertise",
        "neutral",
        confidence=0.7,
    ),
    rule(
        rf"{BE}{ADVERBS}(?P<about>{lex.LASTING}s?)(?! (?:to|with|by|right now|today|"
        rf"at the moment|no more|no longer|anymore)\b)(?=$|\W)",
        polarity="neutral",
        slot="state",
        vague=True,
        shared=True,
    ),
    rule(
        rf"{BE}{ADVERBS}{lex.REPELLED} (?!being (?:late|here)|waiting|having to|"
        rf"trying|dealing with this){REST}",
        polarity="against",
        confidence=0.9,
        shared=True,
    ),
    rule(rf"{BE}{ADVERBS}{lex.DRAWN} {REST}", confidence=0.85, shared=True),
    rule(
        rf"{BE}{ADVERBS}interested in (?!a |an |the |some |any |your |this |that |"
        rf"it|(?:starting|buying|learning more|trying|getting|finding|exploring|"
        rf"taking|hearing|knowing|joining|seeing|purchasing|visiting|attending|doing|"
        rf"making|improving|incorporating|adding|upgrading|booking|checking|"
        rf"understanding|pursuing|becoming|developing|creating|building|adopting|"
        rf"planning|going|hiring|investing|selling|moving|working)\b)(?P<about>.+)",
        "domain",
        confidence=0.65,
    ),
    rule(
        rf"{BE}{ADVERBS}(?:a|an|such a|quite the|the world's "
        rf"biggest) {MODIFIERS}(?:fan|lover|admirer|believer|supporter|follower|"
        rf"advocate|proponent|devotee|sucker|connoisseur|aficionado|stickler|"
        rf"collector) (?:of|in|for) {REST}",
        confidence=0.88,
    ),
    rule(
        rf"{BE}{ADVERBS}(?:more of |very much |definitely |mostly |strictly |kind "
        rf"of )?(?:a|an) (?P<about>(?:(?!fan)[\w-]+ ){{0,2}}?(?!(?:huge|big|total|"
        rf"massive|real|great|true|longtime|long-time|major|bigger|proud|such) )"
        rf"[\w-]+(?:[ -](?:person|lover|addict|fan|fanatic|eater|drinker|hater|"
        rf"junkie|learner|thinker|buff|snob|type)))\b",
        confidence=0.85,
        slot="trait",
    ),
    rule(
        rf"{BE}(?:currently |now )?on (?:a|an|the) (?P<about>(?:[\w-]+ ){{1,3}}diet)"
        rf"\b",
        polarity="neutral",
        slot="diet",
    ),
    rule(
        rf"{BE}{ADVERBS}(?:relatively |completely |totally |brand |quite "
        rf")?(?P<about>(?:new|newish) to (?!this\b|it\b|here\b|the (?:team|area|city|"
        rf"company|group))\w.+)",
        "expertise",
        "neutral",
        confidence=0.8,
        slot="level",
    ),
    rule(
        rf"{BE}{ADVERBS}(?:already |quite |well |highly |not yet "
        rf")?(?P<about>(?:experienced|familiar|unfamiliar|proficient|fluent|skilled|"
        rf"well versed|well-versed|versed|knowledgeable|competent|good|great|bad|"
        rf"terrible|decent|comfortable|advanced|trained|certified|specialized|"
        rf"specialised|qualified|inexperienced|rusty|self-taught) (?:in|with|at|"
        rf"about|as|on) (?!this\b|that\b|it\b|them\b|the (?:idea|results?|answer|"
        rf"moment)).+)",
        "expertise",
        "neutral",
        confidence=0.75,
        slot="level",
    ),
    rule(
        rf"(?:(?:{WOULD}|do )?(?:consider|call|describe|see|think of|regard) (?:myself|ourselves) "
        r"(?:as |to be )*|identify as )(?:a|an) (?P<about>.+)",
        "expertise",
        "neutral",
        confidence=0.75,
        slot="role",
    ),
    rule(
        rf"{BE}(?!hardly|barely|scarcely|almost|nearly|practically|far from|"
        rf"supposedly|apparently){ADVERBS}(?:a|an|the|one of the) "
        rf"(?!{lex.NOT_ROLES}(?: |$|[.,!])|(?:[\w-]+ ){{0,2}}?(?:mess|idiot|failure|"
        rf"wreck|bit|hurry|fan|victim)\b)(?P<about>.+)",
        "expertise",
        "neutral",
        confidence=0.8,
        slot="role",
    ),
    rule(
        r"(?:work|worked|am working|'m working|have worked|have been working|'ve "
        r"worked|'ve been working|trained|moonlight|freelance|volunteer|serve) "
        r"(?:\w+ly |full time |part time |full-time |part-time )?as (?P<about>(?:a|"
        r"an|the|head|chief|lead)\b.+)",
        "expertise",
        "neutral",
        slot="job",
    ),
    rule(
        rf"{ADVERBS}(?:work|am working|'m working|have worked|have been working|'ve "
        rf"worked|'ve been working|specialize|specialise|major|majored|am majoring|"
        rf"'m majoring|am specializing|'m specializing) (?:\w+ly )?in (?!the "
        rf"(?:morning|evening|afternoon|office|middle|field$|garden|yard|basement)|a "
        rf"(?:team|group|hurry|small (?:room|office))|this|that|it\b|my (?:room|bed)|"
        rf"shifts|person|teams|pairs|groups|here)(?P<about>.+)",
        "domain",
        "neutral",
        confidence=0.85,
        slot="field",
    ),
    rule(
        rf"{ADVERBS}(?:study|teach|research|practice|practise|am studying|'m "
        rf"studying|am teaching|'m teaching|am learning|'m learning) (?!a ton|lots|"
        rf"so |and\b|every\b|daily|together|for\b|to\b|how\b|about\b|a lot|the\b|"
        rf"this|that|it\b|some\b|new\b|more\b|hard|at\b|in\b|with\b|on\b|my\b|all\b|"
        rf"every\b)(?P<about>.+)",
        "domain",
        "neutral",
        confidence=0.65,
        slot="field",
    ),
    rule(
        rf"{HAVE}(?P<about>(?:(?!to |not ){WORD} ){{0,6}}?(?:experience|background|"
        rf"degree|phd|ph\.d\.?|doctorate|master's|masters|bachelor's|bachelors|mba|"
        rf"expertise|certification|diploma|knowledge|training|familiarity) (?:in|"
        rf"with|of|using|as|on|doing|programming|coding)\b.+)",
        "expertise",
        "neutral",
        confidence=0.85,
        slot="level",
    ),
    rule(
        r"(?:have |'ve )been (?P<about>(?:coding|programming|writing|developing|"
        r"using|working with|teaching|practicing|practising|playing|cooking|doing|"
        r"studying|learning|investing|running|building|designing|gardening|painting|"
        r"trading|managing)\b(?: .+)? (?:for (?:\d|a |an |over |about |many |"
        r"several |almost |nearly |the (?:past|last) |years|ages|decades|more than |"
        r"around |some |my whole|most of my|as long|\w+ (?:years|months|decades))|"
        r"since )\b.*)",
        "expertise",
        "neutral",
        confidence=0.65,
        slot="level",
    ),
    rule(
        r"(?:only |already |barely |hardly )?know (?P<about>(?:some|a little|a bit "
        r"of|basic|only basic|only a little|no|very little|nothing about|next to "
        r"nothing about|almost nothing about|a lot about|a fair bit of|the basics "
        r"of|enough)\b.+)",
        "expertise",
        "neutral",
        confidence=0.7,
        slot="level",
    ),
    rule(
        r"(?:don't|do not|dont) (?:really |actually )?know (?P<about>(?:any|much|a "
        r"lot of|a lot about|anything about|the first thing about) .+)",
        "expertise",
        "neutral",
        confidence=0.65,
        slot="level",
    ),
    # Habits by choice.
    rule(
        rf"{ADVERBS}(?:only|exclusively|solely|strictly|purely) (?:ever |really "
        rf")?(?:want to|like to|need to)? ?{lex.CHOICE}\b (?!once|one|two|\d|for the "
        rf"(?:first|last)){REST}",
        confidence=0.85,
        shared=True,
    ),
    rule(
        rf"{ADVERBS}(?:only|exclusively|really only) (?:want to|like|love|enjoy|"
        rf"prefer|trust|do|believe in|care about) (?!know|see|the first|ask|say|make "
        rf"sure){REST}",
        confidence=0.75,
        shared=True,
    ),
    rule(
        rf"(?:always|almost always|nearly always|invariably|mainly|mostly|primarily|"
        rf"usually|typically|generally|normally|religiously|tend to|prefer to|try to|"
        rf"make sure to|make it a point to|make a point to|like to) "
        rf"(?:{lex.ADVERB} )?{lex.CHOICE}\b (?!into|from the "
        rf"same|to (?:a|the) point|out of|it\b){REST}",
        confidence=0.75,
        shared=True,
    ),
    rule(
        rf"(?:{lex.ADVERB} )?(?:never|never ever|rarely|seldom|hardly ever|almost "
        rf"never|no longer|don't ever|do not ever|won't|will not|will never|would "
        rf"never|refuse to|try not to|tend not to|try never to|prefer not to) "
        rf"(?:{lex.ADVERB} )?{lex.CHOICE}\b (?!this|that|it\b|you|until|till|long|on "
        rf"(?:this|that)){REST}",
        polarity="against",
        confidence=0.85,
        shared=True,
    ),
    rule(
        rf"(?:{lex.ADVERB} )?(?:will|can|could|would) (?:only|exclusively) "
        rf"(?:{lex.ADVERB} )?(?:{lex.CHOICE}|have|get|do)\b (?!once|one|two|\d|"
        rf"see){REST}",
        confidence=0.8,
        shared=True,
    ),
    rule(
        rf"{ADVERBS}(?:don't|do not|dont) (?!always|only|just|"
        rf"even){ADVERBS}{lex.ABSTAINED}\b (?!this|that|it\b|them|any more than|to "
        rf"much|the (?:same|above|code|docs|file|output|output)){REST}",
        polarity="against",
        confidence=0.8,
        shared=True,
    ),
    rule(
        rf"{ADVERBS}(?:don't|do not|dont) (?P<about>(?:smoke|drink|drive|gamble|swim|"
        rf"fly|cook|eat meat|eat out))(?=$|[.,;!]| (?:at all|alcohol|because|so|due|"
        rf"and)\b)",
        polarity="against",
        confidence=0.85,
        shared=True,
    ),
    rule(
        rf"{ADVERBS}(?:can't|cannot|can not|cant|mustn't|am not allowed to|'m not "
        rf"allowed to|am unable to|'m unable to|am not able to|'m not able to) "
        rf"(?:{lex.ADVERB} )?(?P<about>{lex.INCAPABLE}\b (?!this|that|it\b|the "
        rf"(?:file|error|page|request|load|case|exception)).+)",
        polarity="against",
        confidence=0.8,
        shared=True,
    ),
    rule(
        rf"{ADVERBS}(?:follow|adhere to|keep|keep to|observe|maintain|practice|"
        rf"practise|stick to|eat|am following|'m following|live) (?P<about>(?:(?:a|"
        rf"an|the|my|this) )?(?:(?!with |at |in |for ){WORD} ){{0,4}}?(?:diet|"
        rf"lifestyle|kosher|halal|vegan|vegetarian|gluten-free|plant-based|paleo|"
        rf"keto|low-carb|dairy-free|clean|sharia|shabbat|sabbath|lent)(?: diet| "
        rf"lifestyle)?)\b",
        polarity="neutral",
        slot="diet",
        shared=True,
    ),
    rule(
        rf"{ADVERBS}{lex.CHOICE} (?:only|exclusively|strictly|nothing but|mostly|"
        rf"mainly|almost exclusively) (?!if|when|once|one|two|\d|because|for|to|on|"
        rf"in){REST}",
        confidence=0.75,
        shared=True,
    ),
    rule(
        rf"{ADVERBS}(?:get|feel|become|start feeling) {ADVERBS}{lex.UNPLEASANT} "
        rf"(?P<about>(?:by|in|on|with|when|whenever|from|around|at|about|if|while|"
        rf"during|\w+ing)\b(?! (?:this|that|my (?:code|boss)|the (?:error|bug|result)"
        rf")).+)",
        polarity="against",
        confidence=0.8,
    ),
    rule(
        rf"(?:(?:really|also|always|often|usually|generally|just|still|personally|"
        rf"typically|tend to|do|sometimes) )*find (?!that |out|things|ways|time|"
        rf"something|myself|this|that|the (?:answer|error|bug|problem|file)|my |your "
        rf"|any |no |a |an |it (?:hard to believe|strange that|odd that|weird that))"
        rf"(?P<about>(?:(?!that |which |who |to |i |we |and i |is |are ){WORD},? "
        rf"){{0,7}}?(?!that|which|who){WORD}) (?:to be )?{lex.JUDGED}(?=$|[.,;!:]| "
        rf"(?:and|to|for|when|because|since|but|or|than|compared|as|after|in|on|with|"
        rf"at|too|if)\b)",
        "custom",
        "neutral",
        confidence=0.8,
        shared=True,
    ),
    rule(
        rf"{ADVERBS}find it (?!hard to believe|difficult to believe|strange|odd|"
        rf"weird|funny that|interesting that){lex.JUDGED}(?P<about> (?:to|when|if|"
        rf"with) (?!see (?:the|what|why)|find|get this|understand (?:this|the|your)|"
        rf"fix|debug).+)",
        "custom",
        "neutral",
        confidence=0.75,
        shared=True,
    ),
    rule(
        r"(?:only |mostly |mainly |usually |primarily |always )*(?:code|program|"
        r"develop|script|write code)(?: mostly| mainly| primarily| only| almost "
        r"exclusively| usually| exclusively| a lot)? in (?P<about>(?!the |a |an |my "
        r"|this |that |here|order|general).+)",
        "domain",
        confidence=0.7,
        slot="field",
        shared=True,
    ),
    rule(
        rf"{lex.CHOICE} (?P<about>(?!this|that|it\b|you)\w[^,;]*?),? (?:exclusively|"
        rf"religiously|all the time|almost exclusively|only)(?=$|[.,;!])",
        confidence=0.75,
    ),
    rule(
        rf"{BE}in (?:the )?(?P<about>[\w/+:-]+(?: [\w/+:-]+)?) time ?zone\b",
        polarity="neutral",
        slot="time-zone",
    ),
    rule(rf"{ADVERBS}(?:identify|sympathi[sz]e) (?:strongly )?with (?P<about>.+)", confidence=0.5),
    rule(
        r"(?:never|never ever|rarely|seldom|hardly ever|almost never|no longer) "
        r"(?P<about>fly|drive|smoke|drink|gamble|cook|swim|vote|exercise|eat out|"
        r"tip|vape|dance|hitchhike)(?=$|[.,;!]| (?:at all|because|so|due|and)\b)",
        polarity="against",
        confidence=0.85,
        shared=True,
    ),
)
