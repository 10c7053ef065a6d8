"""Find what people say about themselves and how they want to be answered (P10, P22).

A preference is what its author states for themselves and for more than this
turn. `expertise` is what they are or know, `domain` the field they work in or
follow, `style` how answers should be, `custom` everything else: likes and
dislikes, habits, diets, names. Questions, quotations, conditions, reports about
others and plain requests are none. docs/preferences.md draws the line with
examples.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal, get_args

from agentmem.base.checks import require_choice, require_count, require_text, require_unit
from agentmem.base.errors import InvalidMessage
from agentmem.base.lazy import LazyPattern
from agentmem.base.types import Message
from agentmem.text.regions import (
    code_spans,
    cover,
    element_spans,
    quotation_spans,
    quoted_line_spans,
)
from agentmem.text.statements import Clause, Embed, Kind, Told, clauses, tell, word_lists

# ----------------------------------------------------------------------------
# Words that preference rules are made of, as pieces of regular expressions.
#
# General vocabulary by what it does in a sentence, not by topic: verbs of liking
# and avoiding, nouns of aversion, adjectives that describe an answer. Patterns
# match lower-case text in which runs of white space are one space. `BLANK` stands
# for characters of quotations and inline code.


BLANK = "\ufffc"
WORD = rf"[\w{BLANK}'’&./+#@-]+"


def either(words: str) -> str:
    """A group that matches any of the words, which are separated by `|` or line breaks."""
    options = [word.strip() for word in words.replace("\n", "|").split("|")]
    return "(?:" + "|".join(sorted(filter(None, options), key=lambda w: -len(w))) + ")"


ADVERB = either(
    r"""really|truly|very|much|so|just|also|still|often|sometimes|kind of|sort of|kinda|sorta
    do|quite|rather|even|ever|simply|not really|way|far|super|pretty|too|more|a bit|a lot
    deeply|always|usually|[a-z]{2,}ly|tend to|try to|always try to|generally try to
    tend not to|lowkey|at heart|in fact|of course|now|currently|all"""
)
ADVERBS = rf"(?:{ADVERB} ){{0,4}}"

LIKE = either(
    r"""prefer|like|love|enjoy|adore|favor|favour|value|cherish|relish|fancy|prioritize
    prioritise|gravitate to|gravitate toward|gravitate towards|lean toward|lean towards
    opt for|swear by|live for|crave|care about|care a lot about|care deeply about
    believe in|believe strongly in|believe firmly in|insist on|insist upon|delight in
    root for|stick to|stick with|live by|get excited about|geek out on|geek out about
    nerd out on|have always loved|have always liked|have always enjoyed
    have always preferred"""
)
DISLIKE = either(
    r"""dislike|hate|detest|despise|loathe|abhor|resent|dread|avoid|shun|boycott|oppose
    object to|disapprove of|fear|distrust|mistrust|stay away from|stay clear of
    steer clear of|keep away from|keep clear of|abstain from|refrain from|draw the line at
    reject|struggle to enjoy|choose not to|choose to avoid|opt not to|have always hated
    have always disliked|have always avoided|have never liked|have never enjoyed
    have never been into|have never cared for|never liked|never cared for|never enjoyed"""
)
NOT = either(r"don't|do not|dont|don’t|no longer|hardly|rarely|seldom|never|can't say i|do n't")
WANTED = either(
    r"""like|love|enjoy|appreciate|care for|care about|care much for|care much about
    believe in|approve of|support|trust|fancy|feel comfortable|feel at ease|feel safe
    get along with|do well with|see the appeal of|see the point of|tolerate|condone
    have any interest in"""
)

# What somebody does again and again by choice, as opposed to what happens to them.
CHOICE = either(
    r"""tolerate|eat|drink|use|wear|buy|purchase|order|watch|read|listen to|play|cook|bake
    write|code|program|develop|work|travel|fly|drive|ride|bike|cycle|walk|take|sleep|stay
    choose|pick|select|go for|go with|go to|shop|pay|tip|consume|smoke|vape|feed|adopt
    adhere|follow|support|trust|share|post|commit|squash|rebase|deploy|test|format|indent
    sit|book|rent|dine|eat out|consider|accept|attend|participate|engage|visit|apply|keep
    leave|train|exercise|work out|invest|date|hire|add|include|start|speak|swim|hike|camp
    gamble|celebrate|fast|pray|meditate|practice|practise|put|prioritize|prioritise|opt
    choose|subscribe|stream|download|install|touch|cook with|shop at|shop for|stick
    patronize|answer|reply|respond|spend|collect|donate|vote|serve|grow|shower"""
)
# Of those, the ones that say something lasting when simply denied.
ABSTAINED = either(
    r"""eat|drink|consume|use|wear|watch|play|read|smoke|vape|drive|fly|cook|buy|purchase|shop
    celebrate|gamble|date|listen to|support|trust|follow|feed|dine|travel|swim|eat out
    do drugs|touch|sleep|work weekends|work on|wear makeup|stream|attend|participate
    engage|consider|subscribe|camp"""
)
INCAPABLE = either(
    r"""eat|drink|consume|tolerate|stand|bear|digest|stomach|abide|handle|be around|be near
    participate|take part|wear|swim|ride|lift|climb|kneel|bend|stand being|deal well with
    cope with|do dairy|do gluten"""
)

AVERSION = either(
    r"""aversion|dislike|distaste|hatred|disdain|loathing|phobia|fear|allergy|allergies
    intolerance|intolerances|sensitivity|sensitivities|objection|objections|bias|prejudice
    antipathy|revulsion|disgust|hate|pet peeve|contempt|mistrust|distrust|reservations
    misgivings"""
)
FONDNESS = either(
    r"""preference|preferences|love|passion|fondness|liking|soft spot|weakness|penchant
    affinity|appreciation|obsession|sweet tooth|appetite|interest|interests|knack
    predilection|partiality|inclination|enthusiasm|craving|crush|thing"""
)
WANTING = either(
    r"""interest|desire|patience|tolerance|appetite|time|use|love|stomach|taste|enthusiasm
    liking|affection|inclination|intention|wish"""
)
CONDITION = either(
    r"""dyslexia|adhd|autism|diabetes|asthma|celiac|coeliac|celiac disease|coeliac disease|ibs
    migraines|epilepsy|arthritis|insomnia|eczema|vertigo|claustrophobia|agoraphobia
    acrophobia|motion sickness|hypertension|high blood pressure|high cholesterol
    low vision|tinnitus|gout|color blindness|colour blindness|rosacea|psoriasis|asthma
    acid reflux|gerd|crohn's|anemia|sensitive skin|sensitive eyes|sensitive teeth
    sensitive stomach|dry skin|oily skin|acne-prone skin|bad back|bad knee|bad knees
    disability|hearing loss|dust allergy|hay fever|social anxiety"""
)
CONDITION_HEAD = either(
    r"""intolerance|intolerances|allergy|allergies|disorder|disease|syndrome|sensitivity
    condition|phobia|impairment|disability|anxiety|restriction|restrictions|issues
    problems|pain"""
)

# Adjectives after "I am" that say something lasting about what suits the speaker.
LASTING = either(
    r"""vegan|vegetarian|pescatarian|flexitarian|carnivore|plant-based|gluten-free|dairy-free
    lactose intolerant|lactose-intolerant|gluten intolerant|gluten-intolerant|celiac
    coeliac|diabetic|type 1 diabetic|type 2 diabetic|asthmatic|dyslexic|colorblind
    colour-blind|colourblind|color-blind|color blind|colour blind|blind|deaf
    hard of hearing|visually impaired|legally blind|left-handed|left handed|autistic
    neurodivergent|claustrophobic|acrophobic|agoraphobic|introverted|extroverted|teetotal
    sober|kosher|halal|muslim|jewish|hindu|buddhist|christian|catholic|atheist|nocturnal
    epileptic|a non-smoker|risk-averse|risk averse|environmentally conscious|frugal
    eco-conscious|minimalist|detail-oriented|old-school|old-fashioned
    colour vision deficient|hypoglycemic|prediabetic|anemic|pro-choice|pro-life
    non-religious|vegetarian-leaning"""
)
DRAWN = either(
    r"""into|fond of|keen on|partial to|crazy about|mad about|nuts about|addicted to|hooked on
    big on|obsessed with|passionate about|enthusiastic about|all about|drawn to
    fascinated by|fascinated with|in love with|attached to|committed to|dedicated to
    devoted to|a sucker for|in favor of|in favour of|happiest when|happiest with
    at my best when|most productive when|loyal to|enamored with|interested mainly in
    interested mostly in|most comfortable with|most comfortable in|most comfortable when
    only comfortable|only interested in|very interested in|really interested in
    particular about|picky about|strict about|choosy about|fussy about"""
)
REPELLED = either(
    r"""allergic to|intolerant to|intolerant of|sensitive to|afraid of|scared of|terrified of
    frightened of|fearful of|phobic of|uncomfortable with|uncomfortable around
    uncomfortable in|uncomfortable using|uncomfortable when|uneasy about|uneasy with
    uneasy around|averse to|against|opposed to|sick of|tired of|fed up with|bored of
    bored by|bored with|put off by|turned off by|disgusted by|wary of|skeptical of
    sceptical of|skeptical about|uninterested in|disinterested in|squeamish about
    repulsed by|annoyed by|irritated by|bothered by|grossed out by|prone to
    easily overwhelmed by|indifferent to|easily bored by|easily distracted by|avoiding
    boycotting|staying away from|steering clear of|cutting out|abstaining from|critical of"""
)
# After "I am not": together they are a dislike, not the denial of a statement.
UNWANTED = either(
    r"""a fan of|a big fan of|a huge fan of|much of a fan of|the biggest fan of|a great fan of
    into|big into|interested in|comfortable with|comfortable in|comfortable using
    comfortable around|comfortable being|comfortable sharing|comfortable having|keen on
    too keen on|fond of|too fond of|big on|too big on|crazy about|a believer in
    a big believer in|in favor of|in favour of|partial to|okay with|ok with|one for
    a lover of|very fond of|very into|that into|attracted to|drawn to|convinced by
    down with|willing to|a supporter of|cool with|for using|wild about|impressed by
    enthusiastic about|huge on"""
)
UNPLEASANT = either(
    r"""uncomfortable|anxious|nervous|sick|seasick|carsick|airsick|motion sick|motion-sick
    dizzy|bored|overwhelmed|claustrophobic|nauseous|nauseated|headaches|headache
    a headache|migraines|annoyed|frustrated|distracted|uneasy|queasy|stressed|stressed out
    panicky|irritated|scared|itchy|bloated|unsafe|unwell|restless|grossed out
    panic attacks|motion sickness|hives|a rash|heartburn|sleepy"""
)
FEELING = either(
    r"""uncomfortable|anxious|nervous|sick|nauseous|dizzy|uneasy|queasy|sad|miserable|cringe
    angry|sleepy|happy|unhappy|stressed|itchy|bloated|ill|depressed|restless
    claustrophobic|feel bad|feel sick|feel uncomfortable|feel anxious|feel uneasy
    feel unsafe|feel ill|feel good|feel calm|sneeze|feel alive|break out|gag
    want to scream|feel overwhelmed|feel nauseous|feel dizzy|feel guilty"""
)
JUDGED = (
    r"(?:(?:far |way |much |a bit |a little |rather |very |really |quite |so |just |simply |"
    r"incredibly |extremely |pretty |somewhat |often |generally |usually |to be )*"
    r"(?:too \w+|more \w+|less \w+|\w{3,}(?:ing|ive|ful|less|able|ible|ary|ish|"
    r"ous|ic|ical|ant|ent|some|ful)"
    r"|boring|dull|hard|easy|easier|harder|difficult|fun|cruel|silly|cheesy|creepy|scary|noisy|loud"
    r"|ugly|weird|gross|slow|fast|complicated|overrated|underrated|stressed|"
    r"bland|salty|sweet|bitter"
    r"|tacky|cringy|cringe|messy|heavy|dry|cold|best|better|worse|helpful|"
    r"clunky|pretentious|calming|funny|tasty|appealing))"
)

LANGUAGE = either(
    r"""english|british english|american english|us english|uk english|german|deutsch|french
    français|francais|spanish|español|espanol|italian|italiano|portuguese|português
    brazilian portuguese|dutch|nederlands|russian|ukrainian|polish|polski|czech|slovak
    hungarian|romanian|bulgarian|greek|turkish|arabic|hebrew|persian|farsi|hindi|urdu
    bengali|tamil|telugu|marathi|punjabi|chinese|simplified chinese|traditional chinese
    mandarin|cantonese|japanese|korean|thai|vietnamese|indonesian|malay|tagalog|filipino
    swahili|swedish|norwegian|danish|finnish|icelandic|estonian|latvian|lithuanian|catalan
    basque|irish|welsh|latin|esperanto|afrikaans|my language|my native|language
    both languages|swiss german|croatian|serbian|slovenian|albanian|georgian|armenian"""
)
BRIEF = either(
    r"""short|shorter|brief|briefer|concise|terse|succinct|compact|minimal|crisp|to the point
    tight|snappy|one-line|one-sentence|bite-sized|one sentence|tl;dr|tldr|summarized
    summarised|less verbose"""
)
LONG = either(
    r"""detailed|thorough|long|longer|in-depth|in depth|comprehensive|exhaustive|verbose
    elaborate|extensive|full|complete|more detailed|deep"""
)
TONE = either(
    r"""formal|informal|casual|friendly|professional|polite|blunt|direct|honest|funny|humorous
    witty|serious|neutral|objective|encouraging|patient|warm|cheerful|sarcastic
    conversational|straightforward|frank|candid|respectful|kind|gentle|harsh|academic
    relaxed|laid-back|enthusiastic|critical|upfront|chatty|playful|business-like
    matter-of-fact|brutally honest|straight|supportive|dry|opinionated"""
)
PLAIN = either(
    r"""simple|simpler|plain|clear|clearer|easy|easy to understand|easy to read|non-technical
    nontechnical|technical|high-level|high level|low-level|beginner-friendly|readable
    precise|specific|practical|concrete|accurate|structured|well-structured|step-by-step
    step by step|plain-text|plain text|visual|actionable|layman's|layman|basic|advanced
    jargon-free|consistent|accessible|organized"""
)
MANNER = f"(?:{BRIEF}|{LONG}|{TONE}|{PLAIN})"
ANSWERS = either(
    r"""answers?|responses?|replies|reply|explanations?|messages?|summaries|outputs?|sentences
    paragraphs|descriptions|feedback|suggestions|recommendations|instructions|examples
    code examples|writing|language|tone|wording|communication|conversations?|solutions
    definitions|reports|emails|comments"""
)
FORM = either(
    r"""emojis?|emoticons?|smileys|jargon|markdown|bullet points?|bulleted lists?|bullets
    numbered lists?|lists|tables|headings|headers|bold|bold text|italics
    exclamation marks?|exclamation points?|slang|filler|filler words|fluff|disclaimers?
    preambles?|caveats|apologies|abbreviations|acronyms|small talk|puns|jokes|humou?r
    sarcasm|formalities|british spelling|american spelling|uk spelling|us spelling
    metric units|imperial units|metric|imperial|the metric system|the imperial system
    si units|celsius|fahrenheit|kilometers|kilometres|kilograms|pounds|miles|24-hour time
    24 hour time|12-hour time|24-hour format|12-hour format|24h time|iso dates
    iso date format|code comments|comments|analogies|metaphors?|citations?|sources
    references|links|introductions?|intros?|conclusions?|follow-up questions|flattery
    praise|compliments|buzzwords|clich[eé]s|technical terms|technical language
    technical jargon|legalese|corporate speak|plain text|plain english|plain language
    simple language|simple words|simple terms|short sentences|shorter sentences
    long sentences|long words|big words|long paragraphs|passive voice|active voice
    semicolons|em dashes|em-dashes|oxford commas?|the oxford comma|type hints|docstrings
    all caps|caps lock|capital letters|latex|ascii art|code blocks|pleasantries
    corporate jargon|marketing speak|rhetorical questions|yes or no
    gender-neutral language|inclusive language|they/them pronouns|json|yaml|xml|html|csv
    code only|lowercase|uppercase|lower case|upper case|he/him pronouns|she/her pronouns
    swear words|swearing|profanity|hashtags|rhymes|images|diagrams|real-world examples
    concrete examples|code examples|practical examples|examples|honorifics|formal language
    casual language|informal language|everyday language|layman's terms|spoilers?
    repetition"""
)
STYLE = rf"(?:{MANNER}|{ANSWERS}|{FORM}|{LANGUAGE})"

INSTRUCTION = either(
    r"""use|answer|respond|reply|write|include|add|give|show|explain|call|address|ask|assume
    start|begin|end|finish|cite|provide|check|recommend|suggest|mention|speak|talk|be|keep
    put|format|make|tell|send|do|say|translate|convert|round|prefer|choose|pick|avoid
    remember|book|order|buy|schedule|run|test|commit|push|deploy|indent|name|document
    comment|return|refer|capitalize|capitalise|sign|quote|link|list|sort|group|wrap|save
    store|share|reveal|delete|overwrite|modify|change|edit|create|log|print|set|follow
    stick|leave|let|pass|treat|consider|offer|propose|summarize|summarise|spell|greet
    thank|apologize|apologise|repeat|confirm|double-check|double check|verify|validate
    ensure|think|work|code|look|search|read|skip|omit|stop|limit|focus|prioritize
    prioritise|present|describe|teach|break|back|justify|output|reference|exclude|only
    stay|draw|paste|generate|route|filter|ignore|assume|cc|bcc|spoil|interrupt|invent
    guess|make up|hallucinate|lie|judge|pretend|promise|force|praise|remind|notify|don't
    do not|never|always|prefix|append|label|render|target|highlight|abbreviate"""
)
LASTINGLY = either(
    r"""from now on|from here on|from here on out|going forward|moving forward|in future
    in the future|henceforth|for future reference|by default|as a default|every time
    each time|at all times|as a rule|in all your answers|in all your responses
    in your answers|in your responses|in your replies|in every answer|in every response
    in all answers|in all responses|when answering|when responding|when replying
    when you answer|when you respond|when you reply|when talking to me|when you talk to me
    when you write to me|when explaining|when you explain|unless i say otherwise
    unless i ask|unless i tell you otherwise|unless told otherwise|for all future
    for the rest of|throughout our|in our conversations|in our chats|in all our|ever again
    whenever you|whenever i ask|when recommending|when suggesting|when you recommend
    when you suggest|as long as we talk"""
)
ROLE_HEAD = (
    r"(?:[a-z-]+(?:er|or|ist|eer|ian|ant|ee|man|woman|person|smith|wright|medic|"
    r"ologist|grapher|monger)"
    r"|nurse|chef|cook|student|undergrad|undergraduate|postgrad|phd|freshman|"
    r"sophomore|senior|junior"
    r"|doctor|md|dentist|vet|coach|judge|pilot|spy|lawyer|attorney|accountant|"
    r"analyst|architect|cto|ceo|cfo"
    r"|coo|vp|pm|dev|devops|sre|dba|intern|apprentice|professional|pro|expert|"
    r"specialist|novice|beginner"
    r"|newbie|noob|newcomer|amateur|hobbyist|enthusiast|polyglot|academic|"
    r"scholar|postdoc|fellow|phd student"
    r"|freelance|entrepreneur|founder|co-founder|executive|paralegal|"
    r"tradesperson|clerk|agent|guide|guru"
    r"|scientist|major|graduate|grad|dropout|veteran|soldier|officer|marine|"
    r"monk|priest|rabbi|imam|pastor"
    r"|host|hostess|waitress|actress|seamstress|artist|poet|geek|nerd|"
    r"whiz|layman|layperson|linguist"
    r"|midwife|surgeon|physician|pharmacist|therapist|contractor|consultant|"
    r"researcher|economist|chemist"
    r"|millwright|electrician|plumber|mechanic|technician|stay-at-home mom|stay-at-home dad)"
)
LEVEL = either(
    r"""beginner|novice|newbie|noob|newcomer|amateur|expert|professional|pro|intermediate
    advanced|absolute beginner|complete beginner|total beginner|complete novice|layman
    layperson|veteran|guru|power user|native speaker|non-native speaker|self-taught"""
)
NOT_ROLES = either(
    r"""bit|little|lot|few|tad|touch|hair|while|day|week|month|year|hour|minute|mile|step
    couple|mess|wreck|failure|idiot|fool|loser|moron|disaster|minute|second|long way
    long time|bit of|stranger here|wreck|first|last|only|same|best|mix|part|sort|kind|type
    combination|goner|dead man|man of my word|human|person|user|customer|subscriber|member
    guest|visitor|bother|hurry|rush|panic|bind|pickle|fix|jam|slump|bad mood|good mood
    problem|burden|number|joke|liar|total idiot|huge mess|victim|little bit|free|go|part
    no-show|winner|teenager now|good place"""
)
# What an attitude verb's object must not be: the present turn rather than a lasting matter.
DEICTIC = (
    r"(?:(?:[a-z]+ing )?(?:it|this|these|those|them|him|her|you|your|yours|me|"
    r"us|one|ones|what|how|where|who|that|both|neither"
    r"|either|none|all of (?:it|this|that|them|these)|some of (?:it|this|these|"
    r"them)|everything|nothing"
    r"|something|anything (?:else|like this))\b"
    r"|(?:the|my|our|a|an|any) (?:[\w-]+ ){0,2}?(?:idea|ideas|answer|answers|"
    r"response|suggestion|suggestions"
    r"|result|results|output|code|draft|version|plan|option|options|one|ones|"
    r"fact|change|changes|update|query"
    r"|example|title|conclusion|recommendation|recommendations|solution|"
    r"explanation|first|second|third|last"
    r"|latter|former|other|previous|next|above|following|question|error|bug|message|part|line)s?"
    r"(?:$|[.,!;]| (?!of\b|with\b|that\b|in\b|which\b|like\b|to be\b|to the\b|to have\b))"
    r"|option \w|(?:[a-z]|\d+)$|way (?:you|it|this)|the way (?:you|it|this|that)|the same\b)"
)
GENERIC_IT = (
    r"it (?:when|if|to|that people|for)\b|one-|one on one|that (?:people|others|"
    r"kind|sort|type)|your (?:answers|responses|replies|explanations) (?:to be|"
    r"short|brief|in)|you to\b|when\b|this kind of|those (?:who|that|kinds|types)|"
    r"all of (?:the|my)\b"
)
PASSING = either(
    r"""today|tonight|right now|this time|for now|at the moment|tomorrow|yesterday
    this morning|this evening|this afternoon|this weekend|this week|this month|for this
    in this case|for the moment|last night|just this once|on this one|in this one
    for that one|next week|next time we"""
)

# Pieces of grammar around those words; the group `about` is what a statement is about.
BE = (
    r"(?:am |are |'m |'re |m |re |have been |'ve been |'ve always been |have always "
    r"been |was born )"
)
HAVE = r"(?:have |'ve got |have got |'ve |hold |harbor |harbour |suffer from |got )"
SOME = r"(?:(?:a|an|some|such a|quite a|my|this|the|certain|several|both|any) )?"
MODIFIERS = rf"(?:(?!to |in |of |for |with |on |at |is |that |and i ){WORD},? ){{0,4}}?"
NAME = (
    rf"(?P<about>(?:(?:dr|mr|mrs|ms|prof|professor|sir|captain|doctor|master|lady)"
    rf"\.? )?[\w{BLANK}'.-]+(?: [\w{BLANK}'.-]+){{0,2}}?)"
)
REST = r"(?P<about>.+)"
OF_SOMETHING = r"(?P<about> .+)"
WOULD = r"(?:would |'d |d )"


# ----------------------------------------------------------------------------
# Sentences and the places in them where somebody may state something for themselves.
#
# A statement is only looked for at the beginning of a clause, so "do I prefer
# tea", "suppose I prefer tea" and "she knows I prefer tea" have none: there the
# clause begins with another word. What a sentence's earlier words say about its
# later ones (a condition, a report, a game of pretending) is kept as well.


LONGEST_SENTENCE = 1_200

_END = LazyPattern(r"[.!?…。！？]+[)\]*_]*(?=\s|\Z)|[。！？]+|\n+")
_ABBREVIATION = LazyPattern(
    r"(?:\b(?:e\.g|i\.e|dr|mr|mrs|ms|vs|st|approx|prof|jr|sr|inc|a\.m|p\.m|no)|\b[a-hj-z])\Z"
)
_WORD = LazyPattern(r"\S+")
_BULLET = LazyPattern(r"\s*(?:[-*+•–—]|\(?\d{1,3}[.)]|[a-z]\)|#{1,6})\s+|\s+")
_LABEL = LazyPattern(rf"([\w{BLANK}'. -]{{1,30}}?)\s?:\s+")
_OWN_LABEL = either(
    r"""note|ps|p\.s\.|p\.s|fyi|btw|preference|preferences|my preference|my preferences
    reminder|context|background|about me|also|update|edit|info|important|requirement
    requirements|constraint|constraints|style|tone|format|rules?|settings?|tl;dr
    instructions?|me|myself|bio|profile|one thing|one more thing|first|second|two things
    heads up|disclaimer|warning|for the record|remember|diet|language|custom|instructions?
    my rules?|my profile|my background|quick note|side note|just so you know|facts?
    user preferences?|general|task|question|query|request|goal
    dietary|food|coding|work|hobbies|interests|editor|thing is
    the thing is|truth is|fun fact|confession|answer|hi|hello|hey"""
)
_OWN_LABEL_RE = LazyPattern(_OWN_LABEL + r"\Z")
_NO_SPEAKER = LazyPattern(
    r"(?:a|an|the|my|our|one|two|some|here|this|that|so|but|and|i|i'm|we|you|"
    r"please|because|it|if|for"
    r"|also|always|never|call|keep|use)\b"
)
_PASTED = LazyPattern(
    r"\b(?:translate|translation|summari[sz]e|repeat|print|echo|type|pronounce|"
    r"recite|copy|write|rewrite|rephrase|paraphrase|"
    r"proofread|reword|edit|correct|fix"
    r"|check|improve|polish|grammar|analy[sz]e|classify|parse|extract|annotate|"
    r"transcribe|complete|continue"
    r"|respond to|reply to|following|text|sentence|sentences|paragraph|email|"
    r"e-mail|letter|tweet|review"
    r"|lyrics|quote|quotation|excerpt|passage|transcript|dialogue|dialog|story|"
    r"poem|essay|bio|caption|post"
    r"|article|log|chat|conversation|example|input|prompt|phrase|statement|line|lines|quiz|survey"
    r"|says?|said|wrote|writes|written|posted|replied|asked|told|goes|reads|"
    r"sings?|character|meaning of)\b"
)
_OWN_LIST = LazyPattern(
    r"\b(?:prefer\w*|rules?|about me|instructions?|background|context|"
    r"requirements?|guidelines?|know about me)\b"
)
_PRETENDED = LazyPattern(
    r"\b(?:imagine|suppose|supposing|pretend|pretending|hypothetical(?:ly)?|"
    r"let's say|lets say|let us say|what if"
    r"|role-?play(?:ing)?|role play|fictional|in character|act as|act like|play "
    r"the role|in (?:the|this|a|my)"
    r" (?:story|scenario|game|novel|play|dream|movie|film|book|hypothetical|"
    r"thought experiment)|make-believe"
    r"|once upon a time|assume (?:that )?(?:i|we|my)|assuming (?:that )?(?:i|we|"
    r"my)|say (?:that )?(?:i|we)(?:'m| am| are| was| were)?)\b"
)
_SUPPOSED = LazyPattern(
    r"\b(?:if|unless|whether|as if|as though|wish|in case|were|had|should|even "
    r"if|only if|as long as|provided)"
    r" (?:that )?(?:only )?(?:i|we|my|i'm|i'd|i've|we're)\b(?! (?:may|might ask|"
    r"remember|recall|understand|say|ask|tell|specify|request|state|explicitly))"
    r"|\b(?:for example|for instance|e\.g\.?)"
)
_REPORTED = LazyPattern(
    r"\b(?:(?!(?:i|we|to|always|often|also|just|never|ever|not|have|has|had|"
    r"would|will|\w+ly)\b)[\w'-]+)"
    r" (?:\w+ly |always |often |also |once |just |has |have |had |would |will )?"
    r"(?:says?|said|thinks?|thought|claims?|claimed|told (?:me|us|everyone|"
    r"people|him|her|them|you)|tells (?:me|us|everyone|people)"
    r"|believes?|insists?|insisted|wrote|writes|asks|asked|replied|answered|"
    r"announced|assumes?|assumed|suggests?"
    r"|mentioned|complains?|complained|jokes?|joked|argues?|argued|swears?|"
    r"swore|knows|hopes|wishes|guessed|guesses|sagt|sagte|meint|glaubt|dice|"
    r"dijo|cree|dit|pense)\b"
    r"|\baccording to\b|\bin (?:his|her|their) (?:words|opinion|view)\b|\bquote\b"
)
_REPORTED_BY_ME = LazyPattern(
    r"\b(?:as i|i|like i) (?:\w+ )?(?:said|told|mentioned|say|wrote|think|thought)\b"
)
_ATTRIBUTED = LazyPattern(
    r",? (?:he|she|they|it|the [\w-]+|my [\w-]+|[\w-]+) (?:said|says|replied|"
    r"answered|whispered|shouted|asked"
    r"|wrote|thought|explained|added|muttered|told (?:me|us|him|her|them)|"
    r"exclaimed|laughed|yelled|admitted)\b(?: \w+)?[.!,]?\Z"
)
_BOUNDARY = LazyPattern(
    r"[,;:()\u2013\u2014/]+ ?| -{1,2} "
    r"| (?=(?:and|but|so|because|since|as|although|though|while|yet|or|plus|"
    r"cause|'cause|cuz|bc|whereas"
    r"|except|that's why|which is why|therefore|hence|however|when|whenever|where|if|unless)\b)"
)
_CONTRAST = LazyPattern(r"(?:but|so|because|since|although|though|yet|however|whereas|while|;)\b")
_ASKING = LazyPattern(
    r"(?:(?:so|and|but|then|also|or|well|ok|okay|hey|hi|hello|given that|please) )*"
    r"(?:what|what's|whats|which|where|where's|how|how's|why|who|who's|whom|"
    r"whose|can|could|would|will|shall|should"
    r"|do|does|did|is|are|am|was|were|has|may|might|isn't|aren't|don't you|"
    r"doesn't|won't|wouldn't|couldn't|can't you"
    r"|have you|any|got any|know any|is it|is there|are there|when (?:do|does|"
    r"did|is|are|should|can|will|would)"
    r"|when's|really|right|correct|no|huh|eh|anyone|thoughts|ideas|suggestions|recommendations)\b"
)
_ASSENT = LazyPattern(
    r"(?:,| -)? (?:ok|okay|alright|all right|please|got it|will you|would you|"
    r"if you can|thanks)\W*\Z"
)
_MAIL_HEAD = LazyPattern(
    r"^(?:from|to|subject|sent|date|cc): [^\n]*\n(?:from|to|subject|sent|date|cc): ", re.MULTILINE
)
_LINE_BREAKS = LazyPattern(r"[ \t]*\n[\s]*")
_BLANK_LINES = 6
_CUE = LazyPattern(
    r"\b(?:default|future|otherwise|henceforth|i|im|ive|i'm|i've|i'd|we|we're|"
    r"we've|my|me|always|never|please|don't|"
    r"dont|avoid|keep|be|answer|respond"
    r"|reply|speak|talk|write|use|no|stop|skip|from now on|going forward|"
    r"explain|eli5|only|give|make|format"
    r"|limit|include|short|brief|concise|as a|as an|ich|bitte|nenn|prefiero|me|"
    r"soy|odio|por favor|je|j|s'il|"
    r"llámame|responde|contesta|réponds|répondez|appelle|appelez|mein|mi|mon|ma|antworte|no)\b"
)


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence with single spaces, lower-case, and the way back to the text it came from."""

    text: str
    starts: tuple[int, ...]
    offsets: tuple[int, ...]
    asks: bool
    pretended: bool

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Where the characters `start` to `end` of the sentence stand in the text."""
        return self._place(start), self._place(end - 1) + 1

    def _place(self, position: int) -> int:
        word = bisect_right(self.starts, position) - 1
        return self.offsets[word] + position - self.starts[word]


@dataclass(frozen=True, slots=True)
class Place:
    """A position where a clause begins; `lead` is where the words before it end."""

    lead: int
    start: int


def own_words(text: str) -> str:
    """`text` in lower case, offsets kept, without what somebody else may have said.

    Quotations and inline code become `BLANK`s, which may still be the object
    of a statement; quoted lines, code blocks and marked-up blocks become line
    breaks.
    """
    code = code_spans(text)
    blocks = [span for span in code if "\n" in text[span[0] : span[1]]]
    inline = [span for span in code if "\n" not in text[span[0] : span[1]]]
    blocks += quoted_line_spans(text) + element_spans(text)
    plain = cover(text, blocks, "\n")
    plain = cover(plain, [*inline, *quotation_spans(cover(plain, inline, BLANK))], BLANK)
    # "İ" is the one letter that grows when lowered.
    return plain.replace("’", "'").replace("\u02bc", "'").replace("İ", "I").lower()


def sentences(words: str) -> Iterator[Sentence]:
    """The sentences of `own_words` that may hold a statement, in order.

    What follows "Translate this:" is somebody's text, to the end of the
    paragraph when it begins on the same line and to the end of the message
    when it begins on the next, as is what follows the head of a mail. What
    follows "imagine …" is pretended to the end of the paragraph.
    """
    pasted_until = pretended_until = 0
    mail = _MAIL_HEAD.search(words)
    words = words[: mail.start()] if mail else words
    for start, end, stop in _pieces(words):
        piece = words[start:end]
        if end > pretended_until and _PRETENDED.search(piece):
            pretended_until = _paragraph_end(words, end)
        if start >= pasted_until and _CUE.search(piece):
            asks = "?" in stop or "？" in stop
            yield from _sentence(words, start, end, asks, start < pretended_until)
        if end > pasted_until:
            pasted_until = _pasted_until(words, end, piece)


def places(sentence: Sentence) -> Iterator[Place]:
    """Where clauses of `sentence` begin that speak for the author, first to last."""
    text = sentence.text
    limit = _statement_end(sentence)
    label = _LABEL.match(text)
    if label and not _OWN_LABEL_RE.match(label[1].strip()) and _speaks_for_another(label[1]):
        return
    seen = 0
    blocked = False
    for lead, start in _candidates(text):
        if start >= limit:
            return
        before = text[seen:lead]
        if text[lead : lead + 1] == ":" and announces_text(text[:lead]):
            return
        contrast = bool(_CONTRAST.match(text, start)) or text[lead : lead + 1] == ";"
        if _SUPPOSED.search(before + " " + text[lead:start]) or _SUPPOSED.match(text, start):
            blocked = True
        elif before and _REPORTED.search(before) and not _REPORTED_BY_ME.search(before):
            blocked = not contrast
        elif contrast and not _SUPPOSED.search(text[:lead]):
            blocked = False
        seen = lead
        if not blocked:
            yield Place(lead, start)


def attributed(sentence: Sentence) -> bool:
    """Whether the sentence ends in "…, she said": then its words are not the author's."""
    return bool(_ATTRIBUTED.search(sentence.text))


def asking(text: str, position: int) -> bool:
    """Whether a question begins at `position`."""
    return bool(_ASKING.match(text, position))


def boundaries(text: str) -> Iterator[tuple[int, int]]:
    """Each place where a clause may end and another begin."""
    for match in _BOUNDARY.finditer(text):
        yield match.start(), match.end()


def _candidates(text: str) -> Iterator[tuple[int, int]]:
    yield 0, 0
    yield from boundaries(text)


def _statement_end(sentence: Sentence) -> int:
    """Up to where a sentence states; a question that begins later leaves its front a statement."""
    if not sentence.asks:
        return len(sentence.text) + 1
    if _ASSENT.search(sentence.text) and not asking(sentence.text, 0):
        return len(sentence.text) + 1
    for lead, start in _candidates(sentence.text):
        if asking(sentence.text, start):
            tag = sentence.text[start:].rstrip("? ")
            return 0 if tag in ("right", "correct", "no", "huh", "eh", "really", "yes") else lead
    return 0


def _speaks_for_another(label: str) -> bool:
    """Whether "Name: …" begins a line of a pasted dialogue."""
    return len(label.split()) <= 2 and not _NO_SPEAKER.match(label)


def announces_text(text: str) -> bool:
    """Whether `text` before a colon hands over to somebody's text, as "Translate this" does."""
    return (
        bool(_PASTED.search(text))
        and not _OWN_LIST.search(text)
        and not _OWN_LABEL_RE.match(text.strip())
    )


def _pasted_until(words: str, end: int, piece: str) -> int:
    head, colon, rest = piece.partition(":")
    if not colon or not announces_text(head):
        return 0
    if rest.strip():
        return _paragraph_end(words, end)
    gap = _LINE_BREAKS.match(words, end)
    if gap is None or len(gap[0]) > _BLANK_LINES:  # a code block or quotation, covered already
        return 0
    return len(words)


def _paragraph_end(words: str, position: int) -> int:
    found = words.find("\n\n", position)
    return len(words) if found < 0 else found


def _pieces(words: str) -> Iterator[tuple[int, int, str]]:
    """Sentences as start, end and what ended them; not abbreviations or wrapped lines."""
    start = 0
    for match in _END.finditer(words):
        stop = match[0]
        if stop == "." and _ABBREVIATION.search(
            words, max(start, match.start() - 8), match.start()
        ):
            continue
        if stop == "\n" and _wrapped(words, start, match):
            continue
        end = match.start()
        yield from _in_reach(words, start, end, stop)
        start = match.end()
    yield from _in_reach(words, start, len(words), "")


def _in_reach(words: str, start: int, end: int, stop: str) -> Iterator[tuple[int, int, str]]:
    while end - start > LONGEST_SENTENCE:
        cut = words.rfind(" ", start + LONGEST_SENTENCE // 2, start + LONGEST_SENTENCE)
        cut = start + LONGEST_SENTENCE if cut < 0 else cut
        yield start, cut, ""
        start = cut
    yield start, end, stop


def _wrapped(words: str, start: int, line_break: re.Match[str]) -> bool:
    """Whether a single line break only wraps a long line of prose."""
    line_start = max(
        start, words.rfind("\n", max(0, line_break.start() - 200), line_break.start()) + 1
    )
    following = words[line_break.end() : line_break.end() + 2]
    return (
        line_break.start() - line_start > 50
        and following[:1].isalpha()
        and not re.match(r"[a-z]\)", following)
        and words[line_break.start() - 1] not in ":;"
    )


def _sentence(words: str, start: int, end: int, asks: bool, pretended: bool) -> Iterator[Sentence]:
    bullet = _BULLET.match(words, start, end)
    while bullet and bullet.end() < end:
        start = bullet.end()
        bullet = _BULLET.match(words, start, end)
    parts: list[str] = []
    starts: list[int] = []
    offsets: list[int] = []
    length = 0
    for match in _WORD.finditer(words, start, end):
        starts.append(length)
        offsets.append(match.start())
        parts.append(match[0])
        length += len(match[0]) + 1
    if parts:
        yield Sentence(" ".join(parts), tuple(starts), tuple(offsets), asks, pretended)


# ----------------------------------------------------------------------------
# What a rule for a statement about oneself is, and when its match counts.
#
# The rules themselves are in `preference_attitudes` and `preference_identity`
# (what follows "I"), `preference_subjects` ("My favourite …", "… is not for me")
# and `preference_instructions` (what is said to the assistant).


PreferenceType = Literal["expertise", "style", "domain", "custom"]
Polarity = Literal["for", "against", "neutral"]


@dataclass(frozen=True, slots=True)
class RecognisedStatement:
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

    pattern: LazyPattern
    type: PreferenceType = "custom"
    polarity: Polarity = "for"
    confidence: float = 0.9
    slot: str = ""
    shared: bool = False
    vague: bool = False


def rule(
    pattern: str,
    type: PreferenceType = "custom",  # noqa: A002  # the field's name
    polarity: Polarity = "for",
    *,
    confidence: float = 0.9,
    slot: str = "",
    shared: bool = False,
    vague: bool = False,
) -> Rule:
    return Rule(LazyPattern(pattern), type, polarity, confidence, slot, shared, vague)


_SOMETHING = LazyPattern(rf"[\w{BLANK}]")
_DEICTIC = LazyPattern(DEICTIC)
_GENERIC_IT = LazyPattern(GENERIC_IT)
_PASSING = LazyPattern(rf"\b{PASSING}\b")
_ABOUT_ANSWERS = LazyPattern(
    rf"\b(?:(?:{MANNER},? )+(?:answers?|responses?|replies|explanations?|"
    rf"summaries|feedback|messages|writing|communication|instructions)"
    r"|you(?:r)? (?:to )?(?:answer|respond|reply|explain|use|write|keep|give)"
    r"\w*|emojis?|emoticons|jargon|markdown|bullet points?"
    r"|bulleted lists|step[ -]by[ -]step|explanations?|answers|responses|"
    r"replies|analogies|examples|when you \w+|exclamation marks"
    r"|abbreviations|acronyms|disclaimers|plain english|simple language|metric "
    r"units|imperial units|british spelling"
    r"|american spelling|technical terms|small talk|straight to the point|to the point)\b"
)
_EXPERT = LazyPattern(rf"(?:[\w-]+[ ,/]+(?:and )?){{0,6}}?(?:{ROLE_HEAD}|{LEVEL})\b")
_NOT_EXPERT = LazyPattern(
    r"(?:[\w-]+ ){0,3}?(?:mother|father|mom|dad|mum|parent|brother|sister|wife|"
    r"husband|son|daughter|owner|lover|hater|person|sleeper|member|owl|bird|"
    r"vegan|vegetarian|pescatarian|christian|american|canadian|european|asian|"
    r"african|australian|minor|adult|teen|teenager|citizen|immigrant|republican|"
    r"democrat|homeowner|renter|smoker|non-smoker|nonsmoker|drinker|eater|"
    r"reader|watcher|gamer|traveler|traveller|early riser|introvert|extrovert|"
    r"twin|widow|bachelor|libertarian|humanitarian|millennial|boomer|senior "
    r"citizen|perfectionist|minimalist|environmentalist|feminist|procrastinator|"
    r"believer|survivor|loner|homebody|romantic|optimist|pessimist|realist|"
    r"collector)\b"
)
_OF_THIS = LazyPattern(r"\b(?:this|that|these|those|your)\b")
_LASTING = LazyPattern(LASTING)
_TURNED = LazyPattern(
    r"(?:not|no|to not|to avoid|avoiding|to stay away|staying away|to steer "
    r"clear|you (?:not|don't|didn't|never|avoid|avoided|skip|skipped))\b"
)
_NO_ROLE = LazyPattern(
    r"(?:[\w-]+ ){0,2}?(?:bit|little|lot|few|while|ago|away|behind|late|early|"
    r"short|into|over|from finishing|old|years? old|month old|year-old|looking|"
    r"trying|going|hoping|wondering|struggling|confused|lost)\b"
)


def checked(rule: Rule, match: re.Match[str]) -> RecognisedStatement | None:
    """What `match` found, or None when it is about this turn only or about nothing."""
    about = match["about"].strip()
    start, end = match.span("about")
    value = match.groupdict().get("value")
    if value and _OF_THIS.search(about):
        return None
    if value and not about:  # "My favourite is tea" is about tea
        return RecognisedStatement(rule.type, rule.polarity, *match.span("value"), rule.confidence)
    if not _SOMETHING.search(about):
        return None
    if not rule.vague and _DEICTIC.match(about) and not _GENERIC_IT.match(about):
        return None
    if _PASSING.search(match.string, match.start(), match.end()):
        return None
    if rule.slot == "role":
        kind = role_type(about)
        trimmed = _trim_role(about)
        if trimmed is None:
            return None
        return RecognisedStatement(
            kind, rule.polarity, start, start + len(match["about"]), rule.confidence, "role"
        )
    turned = _TURNED.match(about) or match[0].startswith("my least")
    polarity = "against" if rule.polarity == "for" and turned else rule.polarity
    if rule.type == "custom" and not rule.slot and _ABOUT_ANSWERS.search(about):
        return RecognisedStatement("style", polarity, start, end, rule.confidence, rule.slot)
    return RecognisedStatement(rule.type, polarity, start, end, rule.confidence, rule.slot)


def _trim_role(about: str) -> str | None:
    first = re.split(r"[,.;]| (?:who|that|which|and|but|with|at|in|for|so|from|of)\b", about)[0]
    words = first.split()
    if not words or len(words) > 7 or _NO_ROLE.match(first):
        return None
    return first


def is_role(about: str) -> bool:
    """Whether `about` names what a person can be, so that "as a …" introduces its author."""
    return bool(_EXPERT.match(about) or _NOT_EXPERT.match(about) or _LASTING.match(about))


def role_type(about: str) -> PreferenceType:
    """Whether being `about` says what one knows (`expertise`) or how one lives (`custom`)."""
    if _NOT_EXPERT.match(about):
        return "custom"
    return "expertise" if _EXPERT.match(about) else "custom"


# ----------------------------------------------------------------------------
# What is said to the assistant about every answer: names, language, length, tone, form.


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
_DURABLE = LazyPattern(rf"\b{LASTINGLY}\b")
_DURABLE_HEAD = LazyPattern(rf"(?:(?:and|so|also|ok|okay|but|please) )*{LASTINGLY}\b[, ]*")
_ALWAYS = LazyPattern(
    rf"(?:(?:please|just|pls|kindly|you should|you must|remember to|make sure to|"
    rf"be sure to|make sure you|i want you to|i need you to|i'd like you to|i "
    rf"would like you to|try to|do) )*(?P<how>always|never|don't ever|do not "
    rf"ever|never ever) (?P<about>{INSTRUCTION}\b .+)"
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
    rf"?(?:code )?{ANSWERS})(?: all| always| very| as| more| nice and| "
    rf"really| relatively| fairly| pretty| super)* (?:{MANNER}|{_LENGTHS}|in "
    rf"{LANGUAGE}|free of)\b.*"
    + rf"|be (?:more |less |very |as |a bit |extremely |always |really |a little |"
    rf"super |so |completely |brutally )*{MANNER}\b(?! (?:me|to the|when you "
    rf"see|with the)).*" + rf"|(?:answer|respond|reply|speak|talk|communicate|chat|converse|write|"
    rf"explain|text|correspond|write back)(?: to me| back| with me| your answers|"
    rf" everything| me| things| all answers| all questions| your responses| it| "
    rf"concepts)?(?: only| always| exclusively| strictly| mainly)? (?:in|with|"
    rf"using|without|at) (?:a |an |the |my |very |more |only |simple,? |clear,? |"
    rf"short,? |proper |plain )*(?:[\w-]+ ){{0,2}}?(?:{STYLE}|{_LENGTHS}|"
    rf"manner|style|voice|way|register|words|level|pirate speak|points|form|"
    rf"terms|one sentence|haikus?)\b.*"
    + r"|(?:answer|respond|reply|speak|talk|write)(?: to me| back| with me| "
    r"everything)? (?:like|as) (?:a|an|if you (?:are|were))\b.+"
    + rf"|use (?:only |more |less |fewer |lots of |a lot of |plenty of |simple |"
    rf"short |a |an |the |very |proper )*(?:[\w-]+ "
    rf")?(?:{FORM}|{LANGUAGE}|(?:{MANNER}) (?:{ANSWERS}|language|"
    rf"tone|words|sentences|english|style|wording|terms)|(?:tone|language))\b(?! "
    rf"(?:from|called|named|in the|in this|to (?:solve|query|store))).*"
    + rf"|(?:give|provide|send|show|write|offer|want|prefer)(?: me)? (?:only |"
    rf"always |more |very |really )*(?:{MANNER},? (?:and |but |or "
    rf")?)+(?:answers|responses|replies|explanations|summaries|examples|feedback|"
    rf"sentences|messages|instructions|descriptions|code examples|paragraphs)"
    rf"\b.*" + rf"|(?:make|ensure) (?:sure )?(?:your |the |all |all your |that your "
    rf")?{ANSWERS} (?:are |stay |remain )?(?:more |less |very |always "
    rf")*{MANNER}\b.*" + rf"|format (?:your |the |all |all your )?(?:{ANSWERS}|code|dates|numbers)"
    rf" (?:as|in|with|using)\b.+"
    + rf"|(?:limit|restrict|confine) (?:your |all |all your |the )?{ANSWERS} to\b.+"
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
    rf"(?: [\w-]+)?? {FORM}(?=$|[.,;!)]| (?:please|pls|thanks|at all|ever|"
    rf"when|if|unless|and|or|"
    rf"in (?:your|any|the) (?:answers?|responses?|replies|output))\b).*"
    + rf"|(?:avoid|skip|drop|omit|leave out|cut|cut out|lose|ditch|"
    rf"refrain from|stop|quit|enough with|go easy on|minimi[sz]e|"
    rf"limit)(?: the| all| any| your| using| adding| giving me| "
    rf"including| writing| with| so many| so much| unnecessary| excessive| "
    rf"overly| too much| too many)*(?: [\w-]+)?? {FORM}\b(?! (?:from|in the|"
    rf"in this|on (?:line|page)|table|column|called|field)).*"
    + rf"|(?:don't|do not|dont|never|stop|quit|no need to|you don't need to|you "
    rf"don't have to|there's no need to|there is no need to) (?:ever |always |"
    rf"just |bother to |have to )*(?:us(?:e|ing)|includ(?:e|ing)|add(?:ing)?|"
    rf"giv(?:e|ing)|writ(?:e|ing)|send(?:ing)?|put(?:ting)?|start(?:ing)?|"
    rf"end(?:ing)?|mak(?:e|ing)|show(?:ing)?|respond(?:ing)?|answer(?:ing)?|"
    rf"reply(?:ing)?|speak(?:ing)?|talk(?:ing)?|output(?:ting)?|opening|open|"
    rf"clos(?:e|ing)|begin(?:ning)?|offer(?:ing)?|provid(?:e|ing))\b(?: [^ "
    rf"]+){{0,4}}? (?:{FORM}|{LANGUAGE}|(?:{MANNER}) "
    rf"(?:{ANSWERS}))\b(?! (?:from|in the (?:file|table|code|function)|in "
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
    rf"very |such )*{MANNER}\b.*" + r")"
)
_BARE_FORM = LazyPattern(
    rf"(?P<about>(?:(?:only|just|no|zero|more|less|fewer|please) )?(?:[\w-]+ "
    rf"){{0,2}}?(?:{FORM}|{MANNER} {ANSWERS}|"
    rf"{LANGUAGE}|{BRIEF} {ANSWERS}))(?: only|,? please|,? pls|,? "
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
    rf"|just |your |all |the |my )*(?P<about>(?:{MANNER},? (?:and |but |or "
    rf")?)+(?:to-the-point )?(?:answers|responses|replies|explanations|summaries|"
    rf"feedback|messages|code examples|instructions)\b.*|{ANSWERS} (?:to be |"
    rf"in |with |without |that are )(?:[\w-]+ ){{0,2}}?{STYLE}\b.*)"
)
_STYLE = LazyPattern(
    r"(?:answer|respond|reply|speak|talk|explain|be|cite|greet|address|"
    r"apologi[sz]e|summari[sz]e|spell)\b"
    rf"|.*\b(?:{FORM}|{ANSWERS}|{LANGUAGE})\b"
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
    rf"(?P<about>(?:{INSTRUCTION}|you (?:should|must|will|have to|need to|"
    rf"are to|can|may)|i (?:want|need|expect|will only|only want|would like)|no|"
    rf"all|only|any)\b .+)"
)


def instruct(
    text: str, start: int, end: int, *, lasting: bool = False
) -> RecognisedStatement | None:
    """What the clause at `start` asks of every answer; `lasting` after "From now on, …"."""
    about_oneself = text.startswith(("i ", "i'", "we "), start) and not lasting
    if about_oneself and not _ASKED.match(text, start, end):
        return None  # one instructs only through what one wants
    for pattern in (_LIKE_I_AM, _ELI5, _TREAT_ME):
        if match := pattern.match(text, start, end):
            return RecognisedStatement(
                "style", "neutral", *match.span("about"), 0.85, "level-of-answers"
            )
    if match := _PRONOUNS.match(text, start, end):
        return RecognisedStatement("custom", "neutral", *match.span("about"), 0.85, "pronouns")
    if match := _CALL_ME.match(text, start, end):
        return RecognisedStatement("custom", "neutral", *match.span("about"), 0.95, "name")
    if match := _DONT_CALL_ME.match(text, start, end):
        return RecognisedStatement("custom", "against", *match.span("about"), 0.8, "not-name")
    for pattern in (_FORBIDDEN, _STYLED, _WISH):
        if (match := pattern.match(text, start, end)) and not _ONCE.search(match["about"]):
            less = pattern is _FORBIDDEN or match["about"].startswith(("use fewer ", "use less "))
            return RecognisedStatement(
                "style", "against" if less else "for", *match.span("about"), 0.8
            )
    if _BARE_END.search(text, max(start, end - 20), end) and (
        match := _BARE_FORM.match(text, start, end)
    ):
        less = match["about"].startswith(("no ", "zero ", "less ", "fewer "))
        return RecognisedStatement(
            "style", "against" if less else "for", *match.span("about"), 0.75
        )
    if match := _ALWAYS.match(text, start, end):
        if _PROVERBIAL.search(match["about"]):
            return None
        polarity: Polarity = "for" if match["how"] == "always" else "against"
        return RecognisedStatement(_kind(match["about"]), polarity, *match.span("about"), 0.85)
    return _lasting_instruction(text, start, end, lasting)


def opens_lasting(text: str, start: int) -> bool:
    """Whether "From now on" or its like begins at `start`, so that what follows is for good."""
    return bool(_DURABLE_HEAD.match(text, start))


def _lasting_instruction(
    text: str, start: int, end: int, lasting: bool
) -> RecognisedStatement | None:
    """An order marked as lasting: "From now on, …", "… by default"."""
    head = _DURABLE_HEAD.match(text, start, end)
    position = head.end() if head else start
    if not head and not lasting and not _DURABLE.search(text, start, end):
        return None
    match = _ORDER.match(text, position, end)
    if not match:
        return None
    return RecognisedStatement(_kind(match["about"]), "neutral", *match.span("about"), 0.85)


def _kind(order: str) -> PreferenceType:
    return "style" if _STYLE.match(order) else "custom"


# ----------------------------------------------------------------------------
# What follows "I": names, ways of learning, likes and dislikes as verbs and as nouns.


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
        rf"{ADVERBS}{LIKE} (?!to (?:think|know if|say|ask|see if|see how|hear|"
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
        rf"{ADVERBS}{DISLIKE} (?!to (?:say|admit|bother|ask|break|be|do|"
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
        rf"{ADVERBS}(?:can't|cannot|can not|cant|couldn't) (?:{ADVERB} "
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
        rf"{ADVERBS}{NOT} {ADVERBS}{WANTED} (?!to think|to say){REST}",
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
        rf"(?P<about>(?:{WORD},? ){{0,5}}?{WORD}) (?:to be )?{JUDGED}(?=$|"
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
        rf")?limited) {MODIFIERS}{WANTING} (?:in|for|to|of|"
        rf"with|towards?)(?P<about> .+)",
        polarity="against",
        confidence=0.9,
        shared=True,
    ),
    rule(rf"{ADVERBS}{HAVE}{SOME}(?:\w+ )?thing (?:for|about){OF_SOMETHING}", confidence=0.8),
    rule(
        rf"{ADVERBS}{HAVE}{SOME}{MODIFIERS}{AVERSION}(?: (?:to|for|of|with|"
        rf"against|about|towards?|in|when it comes to))(?!\w)(?P<about> .+)",
        polarity="against",
        confidence=0.95,
        shared=True,
    ),
    rule(
        rf"{ADVERBS}{HAVE}{SOME}{MODIFIERS}{FONDNESS}(?: (?:for|to|of|with|in|"
        rf"towards?|when it comes to))(?!\w)(?P<about> .+)",
        confidence=0.88,
        shared=True,
    ),
    rule(
        rf"{ADVERBS}{HAVE}{SOME}(?P<about>(?:(?!to |no |in |of |for |with "
        rf"){WORD},? ){{0,5}}?(?:{CONDITION}|(?:{WORD} )?{CONDITION_HEAD}))"
        rf"(?=$|[.,;!]| )",
        polarity="neutral",
        confidence=0.85,
        slot="condition",
        shared=True,
    ),
    rule(rf"{ADVERBS}{HAVE}(?P<about>(?:a )?sweet tooth)", confidence=0.85),
)


# ----------------------------------------------------------------------------
# What follows "I": what one is, is not, knows, and does by choice.


IDENTITIES: tuple[Rule, ...] = (
    # What one is, is not, knows, does.
    rule(
        rf"{BE}{ADVERBS}(?:not|never)(?: {ADVERB})* {UNWANTED} {REST}",
        polarity="against",
        confidence=0.93,
    ),
    rule(rf"(?:ain't|aren't) (?:\w+ly )?{UNWANTED} {REST}", polarity="against", confidence=0.93),
    rule(
        rf"{BE}{ADVERBS}not(?: {ADVERB})* (?:much of a|a|an) "
        rf"(?P<about>(?:[\w-]+ ){{0,2}}[\w-]+ (?:person|drinker|eater|reader|gamer|"
        rf"fan|lover|guy|girl|kind of person))\b",
        polarity="against",
        confidence=0.75,
    ),
    rule(
        rf"{BE}{ADVERBS}not(?: {ADVERB})* (?:familiar with|good at|experienced "
        rf"with|experienced in|well versed in) {REST}",
        "expertise",
        "neutral",
        confidence=0.7,
    ),
    rule(
        rf"{BE}{ADVERBS}(?P<about>{LASTING}s?)(?! (?:to|with|by|right now|today|"
        rf"at the moment|no more|no longer|anymore)\b)(?=$|\W)",
        polarity="neutral",
        slot="state",
        vague=True,
        shared=True,
    ),
    rule(
        rf"{BE}{ADVERBS}{REPELLED} (?!being (?:late|here)|waiting|having to|"
        rf"trying|dealing with this){REST}",
        polarity="against",
        confidence=0.9,
        shared=True,
    ),
    rule(rf"{BE}{ADVERBS}{DRAWN} {REST}", confidence=0.85, shared=True),
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
        rf"(?!{NOT_ROLES}(?: |$|[.,!])|(?:[\w-]+ ){{0,2}}?(?:mess|idiot|failure|"
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
        rf")?(?:want to|like to|need to)? ?{CHOICE}\b (?!once|one|two|\d|for the "
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
        rf"(?:{ADVERB} )?{CHOICE}\b (?!into|from the "
        rf"same|to (?:a|the) point|out of|it\b){REST}",
        confidence=0.75,
        shared=True,
    ),
    rule(
        rf"(?:{ADVERB} )?(?:never|never ever|rarely|seldom|hardly ever|almost "
        rf"never|no longer|don't ever|do not ever|won't|will not|will never|would "
        rf"never|refuse to|try not to|tend not to|try never to|prefer not to) "
        rf"(?:{ADVERB} )?{CHOICE}\b (?!this|that|it\b|you|until|till|long|on "
        rf"(?:this|that)){REST}",
        polarity="against",
        confidence=0.85,
        shared=True,
    ),
    rule(
        rf"(?:{ADVERB} )?(?:will|can|could|would) (?:only|exclusively) "
        rf"(?:{ADVERB} )?(?:{CHOICE}|have|get|do)\b (?!once|one|two|\d|"
        rf"see){REST}",
        confidence=0.8,
        shared=True,
    ),
    rule(
        rf"{ADVERBS}(?:don't|do not|dont) (?!always|only|just|"
        rf"even){ADVERBS}{ABSTAINED}\b (?!this|that|it\b|them|any more than|to "
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
        rf"(?:{ADVERB} )?(?P<about>{INCAPABLE}\b (?!this|that|it\b|the "
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
        rf"{ADVERBS}{CHOICE} (?:only|exclusively|strictly|nothing but|mostly|"
        rf"mainly|almost exclusively) (?!if|when|once|one|two|\d|because|for|to|on|"
        rf"in){REST}",
        confidence=0.75,
        shared=True,
    ),
    rule(
        rf"{ADVERBS}(?:get|feel|become|start feeling) {ADVERBS}{UNPLEASANT} "
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
        rf"){{0,7}}?(?!that|which|who){WORD}) (?:to be )?{JUDGED}(?=$|[.,;!:]| "
        rf"(?:and|to|for|when|because|since|but|or|than|compared|as|after|in|on|with|"
        rf"at|too|if)\b)",
        "custom",
        "neutral",
        confidence=0.8,
        shared=True,
    ),
    rule(
        rf"{ADVERBS}find it (?!hard to believe|difficult to believe|strange|odd|"
        rf"weird|funny that|interesting that){JUDGED}(?P<about> (?:to|when|if|"
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
        rf"{CHOICE} (?P<about>(?!this|that|it\b|you)\w[^,;]*?),? (?:exclusively|"
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


# ----------------------------------------------------------------------------
# Read one clause by its subject: "I …", "My favourite …", "… is not for me", "As a nurse, I …".


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
        rf")*{FEELING}\b.*",
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
) -> RecognisedStatement | None:
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


def describe(text: str, start: int, end: int) -> RecognisedStatement | None:
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


def introduce(text: str, start: int) -> RecognisedStatement | None:
    """What "As a …, I …" says its speaker is."""
    match = _AS_A.match(text, start)
    if match and is_role(match["about"]) and _AS_A_SELF.match(text, match.end()):
        return RecognisedStatement(
            role_type(match["about"]), "neutral", *match.span("about"), 0.7, "role"
        )
    return None


LONGEST_STATEMENT = 300

_OPENERS = LazyPattern(
    r"(?:(?:"
    + either(
        r"""and|but|so|also|well|oh|ok|okay|plus|because|since|as|although|though|even though
    while|yet|or|cause|'cause|cuz|bc|whereas|however|therefore|hence|then|that's why
    which is why|except|hi|hello|hey|thanks|thank you|sorry|yes|yeah|yep|no|nope|nah|sure
    haha|lol|hmm|ah|wow|actually|honestly|personally|frankly|basically|obviously|clearly
    truthfully|admittedly|generally|usually|normally|typically|overall|in general
    to be honest|tbh|imo|imho|in my opinion|for me|as for me|as a rule|for my part|btw
    by the way|fyi|ps|p\.s\.|for the record|for context|for what it's worth
    for your information|in fact|of course|sadly|unfortunately|luckily|fortunately|note
    note that|please note|please note that|remember|remember that|please remember
    please remember that|keep in mind|keep in mind that|bear in mind that
    please keep in mind that|please know that|don't forget|don't forget that
    just so you know|you should know|you should know that|you should know something
    i should mention|i should mention that|i should say|i should add|i should add that
    i want you to know|i want you to know that|i'd like you to know
    i'd like you to know that|i have to say|i have to say that|i must say|i must admit
    i must admit that|i have to admit|i'll admit|i admit|i confess|i told you
    i told you that|i said|i mentioned|i mentioned that|as i said|as i mentioned
    like i said|as you know|i forgot to mention|i forgot to mention that|i forgot to say
    let me tell you|the thing is|the truth is|truth is|fact is|thing is|it's just that
    you see|you know|see|look|listen|given that|considering|considering that|seeing as
    seeing that|at work|at home|these days|nowadays|in my free time|in my spare time
    for fun|most of the time|as a kid|always have|deep down|at heart|on weekends
    on the weekends|all in all|either way|anyway|anyways|one thing|first|second
    first of all|secondly|finally|lastly|also note|important|i am someone who
    i'm someone who|i'm the kind of person who|i'm the type of person who
    i am the type of person who|i'm a person who"""
    )
    + r",? )|(?:i (?:think|guess|feel|feel like|believe|suppose|realized|realised|"
    r"find)|i've realized)"
    r"(?: that)? (?=(?:i|we|my|im)\b))+"
)
_SUBJECT = LazyPattern(
    r"(?:(?:i|we)(?: (?:myself|personally|for one|too|definitely))?|(?:both "
    r")?(?:me|my [\w-]+(?: [\w-]+)?|[\w-]+) and i)(?:,? (?=[\w])|(?=')|(?=m ))"
)
_NEW_CLAUSE = LazyPattern(
    r"(?:(?:and|but|so|or|yet|plus|because|since|as|although|though|then|also|"
    r"however|therefore|hence|which is why|that's why) )*"
    r"(?:i|i'm|i've|i'd|i'll|im|we|we're|we've|you|you're|he|she|they|they're|"
    r"it|it's|my|your|please|what|what's|which|where|how|why|who|can|could|"
    r"would|will|should"
    r"|is|are|do|does|did|don't|let|let's|call|thanks|thank|always|never|any|"
    r"prefer|avoid|dislike|hate|love|enjoy|despise|detest|loathe"
    r"|tend to|refuse|can't|cannot|won't|will not|only|exclusively|keep|explain|"
    r"use|answer|find|have|am|strongly|strictly)\b"
)
_SUBORDINATE = LazyPattern(r"(?:when|whenever|if|unless|while|where)\b")
_SHARED_HEAD = LazyPattern(
    r"(?!(?:i|we|you|he|she|they|it|my|your|the|a|an|so|too|more|many|lots|such|"
    r"much (?!prefer))\b)[a-z']"
)
_AMBIGUOUS = LazyPattern(
    r"(?:(?:really|also|just|still|truly|do|absolutely|always) )*(?:love|like|"
    r"value|fear|fancy|favou?r|hate|dread|dislike|work|use|study|practice|find|"
    r"have|am|are) "
)
_JOINED = LazyPattern(r"(?:and|but|yet|or)\b")
_VERB_OBJECT = LazyPattern(r"(?:to|my|the|a|an|all|any|being|\w+ing|when|it when)\b")
_TRAILING = LazyPattern(
    r"(?:[\s,;:–—-]|\b(?:and|but|so|or|because|since|as|please|though|although)\b)+\Z",
    re.IGNORECASE,
)
_REASON = LazyPattern(
    r"[.;!]|,? (?:because|since|due to|so that|so|as (?:i|it|they|he|she|a "
    r"result)|when|whenever|while|if|unless|but|and i|rather than"
    r"|instead of|over|even|especially|particularly|though|although|which|"
    r"thanks to|for (?:ethical|health|medical|religious|environmental|personal) "
    r"reasons|in order to)\b"
)
_GREETING_NAME = LazyPattern(
    r"(?:hi|hello|hey|good (?:morning|afternoon|evening))(?: there| all| "
    r"everyone)?[,!.]? (?P<lead>i'm|i am|my name is|this is|im) "
    r"(?P<about>[\w'-]+)(?=$|[.,!]| and | from | here)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DetectedPreference:
    """One statement, as its author made it.

    `content` is the statement with single spaces, its subject restored where
    it was left out; `subject` what it is about; `quote` the characters `start`
    to `end` of the text. `slot` names the kind of thing of which there is one
    at a time, such as the name; it is empty for most.
    """

    type: PreferenceType
    content: str
    subject: str
    polarity: Polarity = "neutral"
    quote: str = ""
    start: int = 0
    end: int = 0
    confidence: float = 1.0
    slot: str = ""

    def __post_init__(self) -> None:
        require_choice(self.type, get_args(PreferenceType), "type")
        require_choice(self.polarity, get_args(Polarity), "polarity")
        for name in ("content", "subject", "quote", "slot"):
            require_text(getattr(self, name), name)
        require_count(self.start, "start")
        require_count(self.end, "end", least=self.start)
        require_unit(self.confidence, "confidence")


def detect_preferences(text: str) -> tuple[DetectedPreference, ...]:
    """The lasting statements in `text`, in order; none for a text without one.

    Linear in the text, and English only: `hearing.hear` reads other languages
    and other wordings.
    """
    require_text(text, "text")
    found: list[DetectedPreference] = []
    for sentence in sentences(own_words(text)):
        found += _in_sentence(text, sentence)
    return tuple(found)


def text_parts(content: Any) -> Iterator[str]:
    """The texts of a message's content; not its tool results, images and files."""
    if isinstance(content, str):
        yield content
    elif isinstance(content, Sequence):
        for part in content:
            if isinstance(part, str):
                yield part
            elif isinstance(part, Mapping) and part.get("type") in ("text", "input_text"):
                text = part.get("text")
                if isinstance(text, str):
                    yield text


def _in_sentence(text: str, sentence: Sentence) -> Iterator[DetectedPreference]:
    spoken = sentence.text
    if sentence.pretended or attributed(sentence):
        return
    edges = list(boundaries(spoken))
    self_named = stated = lasting = False
    done = 0
    if greeting := _greeting(text, sentence):
        found_name, done = greeting
        yield found_name
    for place in places(sentence):
        if place.start < done:
            continue
        if found := introduce(spoken, place.start):
            yield _detected(text, sentence, found, start=place.start, end=found.end)
            continue
        opener = _OPENERS.match(spoken, place.start)
        start = opener.end() if opener else place.start
        end = _clause_end(spoken, start, edges)
        lasting = lasting or opens_lasting(spoken, place.start)
        found = instruct(spoken, start, end, lasting=lasting)
        shared = False
        if subject := _SUBJECT.match(spoken, start):
            self_named = True
            plural = spoken.startswith("we", start)
            found = found or state(spoken, subject.end(), end, plural=plural)
        else:
            self_named = self_named or spoken.startswith(("i,", "i "), start)
            found = found or describe(spoken, start, end)
            if found is None and self_named and _continues(spoken, place, start, stated):
                found = state(spoken, start, end, shared=True)
                shared = found is not None
        if found is None:
            # The words skipped as an opening may have been the beginning after all.
            start = place.start
            if opener:
                found = instruct(spoken, start, end, lasting=lasting)
        if found is None or (sentence.asks and asking(spoken, start)):
            continue
        yield _detected(text, sentence, found, start=start, end=end, shared=shared)
        stated = True
        done = end


def _greeting(text: str, sentence: Sentence) -> tuple[DetectedPreference, int] | None:
    """The name in "Hi, I'm Ana", without the greeting it could be anything one is; and where
    the rest of the sentence begins."""
    match = None if sentence.asks else _GREETING_NAME.match(sentence.text)
    if match is None or not text[sentence.span(*match.span("about"))[0]].isupper():
        return None
    found = RecognisedStatement("custom", "neutral", *match.span("about"), 0.7, "name")
    detected = _detected(text, sentence, found, start=match.start("lead"), end=match.end())
    return detected, match.end()


def _continues(spoken: str, place: Place, start: int, stated: bool) -> bool:
    """Whether a predicate may stand here whose "I" came earlier: "I like tea and avoid coffee".

    Words such as "love" and "like" are as often a noun or a preposition, so
    they need a statement before them or an object that shows the verb.
    """
    if not place.start or not _SHARED_HEAD.match(spoken, start):
        return False
    ambiguous = _AMBIGUOUS.match(spoken, start)
    if ambiguous is None:
        return True
    joined = bool(_JOINED.match(spoken, place.start))
    return joined and (stated or bool(_VERB_OBJECT.match(spoken, ambiguous.end())))


def _clause_end(spoken: str, start: int, edges: list[tuple[int, int]]) -> int:
    """Where the clause at `start` gives way to one with words of its own."""
    limit = min(len(spoken), start + LONGEST_STATEMENT)
    for lead, following in edges:
        if lead <= start:
            continue
        if lead >= limit:
            break
        if _SUBORDINATE.match(spoken, following):
            continue
        if spoken[lead] == ";" or _NEW_CLAUSE.match(spoken, following):
            return lead
    return limit


def _detected(
    text: str,
    sentence: Sentence,
    found: RecognisedStatement,
    *,
    start: int,
    end: int,
    shared: bool = False,
) -> DetectedPreference:
    spoken = sentence.text
    trailing = _TRAILING.search(spoken, start, end)
    stop = max(trailing.start() if trailing else end, start + 1)
    quote_start, quote_end = sentence.span(start, stop)
    content = _one_line(text[quote_start:quote_end]).rstrip(".!")
    return DetectedPreference(
        type=found.type,
        content=f"I {content}" if shared else content,
        subject=_subject(text, sentence, found, stop),
        polarity=found.polarity,
        quote=text[quote_start:quote_end],
        start=quote_start,
        end=quote_end,
        confidence=found.confidence,
        slot=found.slot,
    )


def _subject(text: str, sentence: Sentence, found: RecognisedStatement, stop: int) -> str:
    """What the statement is about, without its reason or condition."""
    end = min(found.end, stop)
    while found.start < end and sentence.text[found.start] == " ":
        found = replace(found, start=found.start + 1)
    reason = _REASON.search(sentence.text, found.start + 2, end) if end - found.start > 2 else None
    end = reason.start() if reason else end
    if found.start >= end:
        return ""
    first, last = sentence.span(found.start, end)
    return _one_line(text[first:last]).strip(" ,;:.!")


def _one_line(text: str) -> str:
    return " ".join(text.split())


# ----------------------------------------------------------------------------
# Hear what a message says about its author: what stands from now on, and what is taken back.
#
# Rules (`preferences.detect_preferences`) give the exact words, type and polarity of explicit
# statements; the fitted models of `statements` hear the rest, in eight languages, and have a veto.
# Whatever is about this answer only, about somebody else, pretended or a task is not kept.


KEPT: tuple[Kind, ...] = ("like", "dislike", "instruct", "avoid", "identity")
AGAINST: tuple[Kind, ...] = ("dislike", "avoid")
SURE, SURE_IN_LONG = 0.7, 0.93
"""So likely must a clause be a statement to be kept, in a message and in a long one."""
LONGEST_TEXT = 30_000
"""The models read no further: what is longer is material."""
HEARING_LONG = 400
"""From so many characters on a message is long: mostly a task with its material."""
SURE_BY_LETTERS = 0.74
"""The same where there are no vectors."""
SURE_OF_NEEDS = 0.5
"""Of an allergy, a diet, an illness: missing one is worse than keeping one too many."""
VETO, VETO_OF_ROLES, VETO_IN_LONG = 0.05, 0.15, 0.5
"""What the rules find is not kept when the models think it less likely than this; what one
is ("I am a Java developer") often opens a task."""
TAKEN_BACK = 0.5
ONCE = 0.4
CHANGE = "change"
"""The slot of a statement that says it is a change, but not of what."""
_QUESTION = re.compile(
    r"(?:(?:also|and|so|but|ok|hey|btw) )*(?:what|whats|what's|how|where|which|why|who|who's|whens"
    r"|when's|any|was|wie|wo|warum|wer|wann|qué|cuál|cómo|dónde|quoi|quel\w*|comment|où|qual|quais"
    r"|onde|che|cosa|dove|should|do|does|did|is|are|can|could|would)\b"
)
_OTHER_SCRIPT = re.compile(r"[\u0370-\u03ff\u0400-\u052f\u0590-\u06ff\u0900-\u0e7f\uac00-\ud7af]")
_OTHER_LETTER = re.compile("[ąęłżśźćńřěůšžđőűğışőơưạảấầậắằặẹẻếềệịọỏốồộớờợụủứừựỳ]")
_FORMULA = re.compile(r"\w[=+*^/|\\]+\w|[{}\[\]<>$\\=^|]|\d\s*[=+*/]")
_HEARING_ATTRIBUTED = re.compile(
    r"(?:.*, )?(?:he|she|they|the [\w-]+|my [\w-]+|[\w-]+) (?:said|says|replied|answered|whispered"
    r"|shouted|asked|wrote|thought|explained|added|muttered|exclaimed|laughed|yelled|admitted)\Z"
)
_HEARING_WORD = re.compile(r"[^\W_][\w'+#/-]*")
_WIDE = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff]+")
_LEADS = re.compile(
    r"(?:(?:and|but|so|because|since(?= (?:i|i'm|im|my|we)\b)|although|though|also|plus|oh|hm+|ok"
    r"|okay|well|then|or|cause|bc|und|aber|also|weil|da"
    r"|así que|pero|porque|du coup|donc|mais|et|parce que|então|mas|quindi|ma"
    r"|因为|所以|但是|不过)[ ,]+|[yeo] )+", re.IGNORECASE,
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Retraction:
    """A clause that takes something back; `stems` say what.

    One that says only "that" (`latest`), or nothing, means the latest statement. A
    `former` one says that something "used to" hold; it ends what says the same of now.
    """

    text: str
    stems: frozenset[str]
    latest: bool = False
    slot: str = ""
    start: int = 0
    former: Literal["", "for", "against"] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """What a text states and what it takes back, in the order of the text."""

    stated: tuple[DetectedPreference, ...] = ()
    retracted: tuple[Retraction, ...] = ()
    text: str = ""


def hear(text: str, embed: Embed | None = None) -> Heard:
    """What `text` says about its author; nothing for most texts (P10, P41)."""
    explicit = detect_preferences(text)
    message = clauses(text[:LONGEST_TEXT])
    if not message or _foreign(text):
        return Heard(stated=explicit, text=text)
    told = tell(message, embed)
    passing = _passing(text, told)
    short = SURE if embed is not None and embed([]) is not None else SURE_BY_LETTERS
    sure = short if len(text) < HEARING_LONG else SURE_IN_LONG
    stated: list[DetectedPreference] = []
    retracted: list[Retraction] = []
    used: set[int] = set()
    for found in explicit:
        over = [
            one for one in told if one.clause.start < found.end and found.start < one.clause.end
        ]
        if any(one.clause.at in passing for one in over):
            continue
        veto = VETO_OF_ROLES if found.slot == "role" else VETO
        kept = _unless_vetoed(
            text, found, over, VETO_IN_LONG if len(text) >= HEARING_LONG else veto
        )
        if kept is not None:
            stated.append(kept)
            used |= {one.clause.at for one in over if one.clause.start < kept.end}
    for one in told:
        clause = one.clause
        if clause.at in passing or clause.at in used:
            continue
        if former := _former(text, clause):
            retracted.append(former)
            if one.kind != "dislike" or former.former == "against":
                continue  # "I used to love beer" may be a dislike
        elif one.kind == "retract" and one.chance("retract") > TAKEN_BACK:
            retracted.append(_retraction(text, clause))
            continue
        if _pattern("takes back").match(_unled(clause.words)):
            # It must name what: of "never mind" alone the models decide.
            named = replace(_retraction(text, clause), latest=False)
            retracted += [named] if named.stems else []
            continue
        needed = SURE_IN_LONG if _FORMULA.search(clause.words) else sure
        needed = min(needed, SURE_OF_NEEDS) if is_need(clause.words) else needed
        if one.kind in KEPT and one.chance(*KEPT) > needed and not _only_asks(one):
            stated.append(_stated(text, one))
    stated.sort(key=lambda one: (one.start, one.end))
    stated, retracted = _within(stated, retracted)
    for new in stated:
        retracted += _given_up(new)
    return Heard(stated=tuple(stated), retracted=tuple(retracted), text=text)


def _within(
    stated: Sequence[DetectedPreference], retracted: Sequence[Retraction]
) -> tuple[list[DetectedPreference], list[Retraction]]:
    """What stands of a message that takes back what it said itself, and what goes further back."""
    left = list(stated)
    further: list[Retraction] = []
    for one in retracted:
        said = [(str(p.start), p.content) for p in reversed(left) if p.start < one.start]
        meant = () if one.former else matching(one, said, recent=len(said))
        left = [p for p in left if str(p.start) not in meant]
        if not meant:
            further.append(one)
    return left, further


def _foreign(text: str) -> bool:
    """Whether a text is in none of the languages that the models know."""
    return bool(_OTHER_SCRIPT.search(text)) or len(_OTHER_LETTER.findall(text.lower())) > 2


def _passing(text: str, told: Sequence[Told]) -> set[int]:
    """The places of clauses that are pretended, ironic, somebody else's or for this answer only."""
    found: set[int] = set()
    pretended = ironic = once = others = False
    for at, one in enumerate(told):
        clause = one.clause
        follows = at > 0 and told[at - 1].clause.first == clause.first
        goes_on = at + 1 < len(told) and told[at + 1].clause.first == clause.first
        pretended = pretended or bool(_pattern("pretend").search(clause.words))
        ironic = ironic or bool(_pattern("sarcasm").match(clause.words))
        once = one.chance("once") > ONCE or (once and follows)
        others = (others and follows) or bool(_pattern("reported").match(clause.words))
        others = others or _hearing_speaks_for_another(text, clause)
        said = goes_on and bool(_HEARING_ATTRIBUTED.match(told[at + 1].clause.words))
        hedged = bool(_pattern("hedged").match(clause.words)) and one.kind not in (
            "instruct",
            "avoid",
        )
        if (
            pretended
            or ironic
            or once
            or others
            or said
            or hedged
            or _HEARING_ATTRIBUTED.search(clause.words)
        ):
            found.add(clause.at)
    return found


def _hearing_speaks_for_another(text: str, clause: Clause) -> bool:
    """Whether a clause is the "Anna" of a pasted line "Anna: I love tea"."""
    label = text[clause.start : clause.end]
    if len(label.split()) > 2 or not label[:1].isupper():
        return False
    follows = text[clause.end : clause.end + 2]
    before = text[: clause.start].rstrip(" \t")
    return (
        follows[:1] in (":", "：")
        and (not before or before.endswith("\n"))
        and not _pattern("own labels").fullmatch(clause.words)
    )


def _unled(words: str) -> str:
    lead = _LEADS.match(words)
    return (words[lead.end() :] if lead else words).removeprefix("please ")


def _only_asks(one: Told) -> bool:
    """Whether what is taken for a statement is worded as a question, or says what one is not."""
    asked = one.clause.asks or bool(_QUESTION.match(one.clause.words))
    if one.kind == "identity" and _pattern("denied").match(one.clause.words):
        return True
    return asked and one.kind not in ("instruct", "avoid")


def _given_up(new: DetectedPreference) -> Iterator[Retraction]:
    """What a statement of a change gives up: "it's Bea, not Beth", "from webpack to vite"."""
    words = new.content.lower()
    instead = _pattern("instead").search(words, 1)
    if instead and new.slot in ("", "name", "one name") and new.polarity != "against":
        given = words[instead.end() :].split(" to ")[0]
        if found := stems(given):
            yield Retraction(text=new.content, stems=found, start=new.start)
    changed = _pattern("changed").search(words)
    if changed and not new.slot.startswith("one ") and _pattern("job").search(words):
        yield Retraction(text=new.content, stems=frozenset(), slot="job", start=new.start)
    elif changed and not new.slot:
        yield Retraction(text=new.content, stems=frozenset(), slot=CHANGE, start=new.start)


def _former(text: str, clause: Clause) -> Retraction | None:
    """What "I used to live in Rome" ends, if "I live in Rome" stands."""
    used = _pattern("used to").match(_unled(clause.words))
    left = stems(_unled(clause.words)[used.end() :]) if used else frozenset()
    if not left:
        return None
    turned: Literal["for", "against"] = (
        "against" if _pattern("disliked").search(clause.words) else "for"
    )
    said = " ".join(text[clause.start : clause.end].split())
    return Retraction(text=said, stems=left, start=clause.start, former=turned)


def is_need(text: str) -> bool:
    """Whether a statement is of health, diet or access, which every answer must know."""
    return _pattern("needs").search(text.lower()) is not None


def in_first_person(text: str) -> bool:
    """Whether a text speaks of its author: "I", "my", "we", in eight languages."""
    return _pattern("marks/me").search(text.lower()) is not None


def of_project(text: str) -> bool:
    """Whether a statement holds in the project at hand: "we use pnpm here"."""
    return _pattern("project").search(text.lower()) is not None


def corrected_name(text: str, newest: str) -> DetectedPreference | None:
    """The name in "typo, Leo" or "no, it's Leo" when the `newest` statement was a name."""
    if slot_of(newest.lower()) != "name":
        return None
    match = _corrected().search(text)
    name = (match["name"] or match["other"]) if match else ""
    if match is None or name.lower() in _empty():
        return None
    return DetectedPreference(
        type="custom", content=f"My name is {name}", subject=name,
        quote=match[0], start=match.start(), end=match.end(), slot="one name",
    )  # fmt: skip


def settled(new: DetectedPreference, newest: str) -> DetectedPreference:
    """`new` as a name where it corrects the `newest` statement, which was one."""
    if new.slot or new.polarity == "against" or slot_of(newest.lower()) != "name":
        return new
    short = len(_HEARING_WORD.findall(new.content)) <= 8
    if short and _pattern("corrects").search(new.content.lower()):
        return replace(new, slot="one name")
    return new


def hear_messages(
    messages: Iterable[Message],
    *,
    embed: Embed | None = None,
    strip: Callable[[Sequence[Message]], Sequence[Message]] | None = None,
) -> tuple[Heard, ...]:
    """What the user's own turns say, oldest first; only their text is read (P22)."""
    if not isinstance(messages, Iterable) or isinstance(messages, str | bytes | Mapping):
        raise InvalidMessage("messages", messages, "is not a list", remedy="Pass a list of dicts.")
    turns = list(messages)
    for turn in turns:
        if not isinstance(turn, Mapping):
            raise InvalidMessage("message", turn, "is not a mapping", remedy="Pass dict messages.")
    cleaned = turns if strip is None else strip(turns)
    return tuple(
        hear(part, embed)
        for turn in cleaned
        if turn.get("role") == "user" and not turn.get("tool_call_id")
        for part in text_parts(turn.get("content"))
    )


def matching(
    retraction: Retraction, standing: Sequence[tuple[str, str]], *, recent: int
) -> tuple[str, ...]:
    """The ids in `standing` (id and text, newest first) that `retraction` speaks of.

    Those that share most of its stems; failing that, the latest one when it
    says "that", if it is among the first `recent`; else those of its slot.
    """
    latest = tuple(id_ for id_, _ in standing[: min(1, recent)])
    if not retraction.stems and not retraction.slot:
        return latest
    shared = {id_: len(retraction.stems & stems(text)) for id_, text in standing}
    most = max(shared.values(), default=0)
    if retraction.former and 2 * most <= len(retraction.stems):
        return ()
    if most:
        return tuple(id_ for id_, count in shared.items() if count == most)
    if retraction.latest:
        return latest
    if retraction.slot == "job":
        return tuple(id_ for id_, text in standing if _pattern("job").search(text.lower()))[:1]
    if retraction.slot:
        return tuple(id_ for id_, text in standing if slot_of(text.lower()) == retraction.slot)
    return ()


def stems(text: str) -> frozenset[str]:
    """The beginnings of the words that carry `text`; pairs of characters in East Asian scripts."""
    lowered = text.lower().replace("’", "'")
    found = {
        word.strip("'")[:5] if len(word) > 5 else word.rstrip("s")
        for match in _HEARING_WORD.finditer(_WIDE.sub(" ", lowered))
        if (word := match[0]) not in _empty()
    }
    for run in _WIDE.findall(lowered):
        found |= {run[at : at + 2] for at in range(len(run) - 1)} - _empty()
    return frozenset(found)


def slot_of(words: str) -> str:
    """The kind of thing of which one holds at a time that a clause speaks of; mostly none."""
    for name in word_lists()["slots"]:
        if _pattern(f"slots/{name}").search(words):
            return str(name)
    return ""


def _unless_vetoed(
    text: str, found: DetectedPreference, over: Sequence[Told], veto: float
) -> DetectedPreference | None:
    """What the rules found, cut where the models hear something else begin, or None when they
    refuse it; its polarity is theirs where the rules hear liking in a ban."""
    if not over:
        return found
    best = max(over, key=lambda one: one.chance(*KEPT))
    if best.chance(*KEPT) < veto or best.chance("retract", "once") > 0.5:
        return None
    last = max(
        (one for one in over if one.chance(*KEPT) > 0.5),
        default=best,
        key=lambda one: one.clause.at,
    )
    if found.start < last.clause.end < found.end:
        quote = text[found.start : last.clause.end]
        extra = len(" ".join(found.quote.split())) - len(" ".join(quote.split()))
        content = found.content[: max(1, len(found.content) - extra)].rstrip(" ,.;:") or quote
        subject = found.subject if found.subject in content else content
        found = replace(found, quote=quote, end=last.clause.end, content=content, subject=subject)
    against = best.chance(*AGAINST) / best.chance(*KEPT)
    if found.polarity == "for" and against > 0.8:  # "no" was no opening word of "no emojis"
        return replace(_stated(text, best), type=found.type)
    ill = found.polarity == "neutral" and _pattern("unwell").search(found.content.lower())
    if ill:
        found = replace(found, polarity="against")
    if not found.slot and best.kind == "identity" and (slot := slot_of(best.clause.words)):
        found = replace(found, slot=f"one {slot}")
    return found


def _stated(text: str, one: Told) -> DetectedPreference:
    clause = one.clause
    quote = text[clause.start : clause.end]
    content = " ".join(quote.split()).rstrip(".!")
    lead = _LEADS.match(content)
    content = (content[lead.end() :] if lead else content) or quote
    kind = one.kind
    polarity: Polarity = "neutral"
    words = _unled(clause.words)
    banned = (
        _pattern("bans").match(words)
        or _pattern("rather").match(words)
        or _pattern("banned").search(words)
    )
    if kind in AGAINST or banned or (kind == "identity" and _pattern("against").search(words)):
        polarity = "against"
    elif kind != "identity":
        polarity = "for"
    type_: PreferenceType = "style" if kind in ("instruct", "avoid") else "custom"
    slot = slot_of(clause.words) if kind not in AGAINST else ""
    if slot in ("diet", "name", "location") and kind in ("like", "instruct") and slot != "name":
        slot = ""  # "I love vegan food" is no diet
    return DetectedPreference(
        type=type_,
        content=content,
        subject=content,
        polarity=polarity,
        quote=quote,
        start=clause.start,
        end=clause.end,
        confidence=min(1.0, one.chance(*KEPT)),
        slot=f"one {slot}" if slot else "",
    )


def _retraction(text: str, clause: Clause) -> Retraction:
    said = " ".join(text[clause.start : clause.end].split())
    return Retraction(
        text=said,
        stems=stems(clause.words),
        latest=bool(_pattern("that").search(clause.words)),
        slot=slot_of(clause.words),
        start=clause.start,
    )


@lru_cache(maxsize=1)
def _empty() -> frozenset[str]:
    return frozenset(word_lists()["empty"])


@lru_cache(maxsize=1)
def _corrected() -> re.Pattern[str]:
    lead = word_lists()["corrected name"]
    it_is = r"(?:it's|its|it is|i meant|c'est|es|é|è|ist|das ist)"
    name = r"[A-Z\u00c0-\u00de][\w'-]+"
    lead = rf"(?:(?:oh|ah|uh|hey)\W+)?(?:{lead})"
    return re.compile(
        rf"\A\W*(?i:{lead})[\s,.!:;-]+(?i:{it_is}\s+)?(?P<name>{name})"  # "typo, Leo"
        r"(?i:\s+(?:actually|heiß\w* ich|is right))?\s*[.!]*\Z"
        rf"|\A\W*(?i:{lead}[\s,.!]+(?:{it_is}\s+)?|{it_is}\s+)(?P<other>{name}),?\s+"
        r"(?i:(?:and\s+|und\s+)?(?:not|nicht|no|pas|não|non))\s+[\w'-]+\s*[.!]*\Z"  # "…, not Teo"
    )


@lru_cache(maxsize=64)
def _pattern(name: str) -> re.Pattern[str]:
    words: Any = word_lists()
    for part in name.split("/"):
        words = words[part]
    letter = r"[a-zà-ÿ0-9_'’]"
    return re.compile(rf"(?<!{letter})(?:{words})(?!{letter})|(?:{_wide_only(words)})")


def _wide_only(words: str) -> str:
    """The alternatives of East Asian scripts, which have no spaces around words."""
    wide = [part for part in words.split("|") if _WIDE.match(part)]
    return "|".join(wide) or r"(?!)"
