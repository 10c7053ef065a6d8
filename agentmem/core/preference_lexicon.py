"""Words that preference rules are made of, as pieces of regular expressions.

General vocabulary by what it does in a sentence, not by topic: verbs of liking
and avoiding, nouns of aversion, adjectives that describe an answer. Patterns
match lower-case text in which runs of white space are one space. `BLANK` stands
for characters of quotations and inline code.
"""

from __future__ import annotations

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
