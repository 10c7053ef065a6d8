"""Which words mean the same or the opposite: a small table, stems, and un-, in-, dis-, -less."""

from __future__ import annotations

from functools import lru_cache

import Stemmer

_OPPOSITES = """
on off|enable disable|enabled disabled|open close|open closed|open shut|start stop|begin end
start finish|true false|yes no|allow forbid|allow deny|allow block|allow prohibit|allow ban
permitted forbidden|allowed forbidden|allowed prohibited|allowed banned|accept reject
accept refuse|accept decline|approve reject|approve deny|pass fail|succeed fail|success failure
win lose|won lost|increase decrease|rise fall|grow shrink|raise lower|up down|high low
higher lower|tall short|long short|big small|large small|large little|big little|huge tiny
wide narrow|thick thin|deep shallow|heavy light|fast slow|quick slow|quickly slowly|fast slowly
rapidly slowly|early late|earlier later|before after|first last|hot cold|warm cool|warm cold
wet dry|clean dirty|full empty|hard soft|hard easy|difficult easy|difficult simple
complex simple|strong weak|rich poor|cheap expensive|cheap costly|good bad|good poor
better worse|best worst|happy sad|happy unhappy|love hate|like dislike|like hate|enjoy hate
enjoy dislike|healthy sick|healthy ill|alive dead|young old|new old|ancient modern|loud quiet
noisy quiet|noisy silent|loud silent|light dark|bright dark|bright dim|black white|day night
public private|internal external|inside outside|indoors outdoors|indoor outdoor|in out
above below|over under|top bottom|front back|left right|north south|east west|near far
ascending descending|sync async|synchronous asynchronous|manual automatic|manually automatically
optional mandatory|optional required|optional compulsory|temporary permanent|static dynamic
mutable immutable|safe dangerous|safe unsafe|secure vulnerable|legal illegal|active inactive
active idle|active dormant|online offline|present absent|married single|married divorced
guilty innocent|remember forget|arrive leave|arrive depart|enter exit|enter leave|push pull
buy sell|borrow lend|give take|send receive|add remove|insert remove|include exclude
create delete|create destroy|build destroy|keep discard|keep delete|keep remove|save delete
hire fire|upgrade downgrade|import export|activate deactivate|encrypt decrypt
encrypted plaintext|lock unlock|attach detach|mount unmount|connect disconnect|install uninstall
subscribe unsubscribe|visible hidden|visible invisible|show hide|singular plural|major minor
maximum minimum|max min|most least|more less|more fewer|many few|always never|always rarely
often rarely|often seldom|frequently rarely|common rare|sink float|sit stand|sitting standing
asleep awake|sleep wake|laugh cry|smile frown|walk run|climb descend|ascend descend|lift drop
fill empty|wear remove|boy girl|man woman|male female|stable unstable|support lack
broken working|broken fixed|resolved open|resolved unresolved|solved unsolved|merged unmerged
draft final|deprecated supported|obsolete current|vegetarian carnivore|vegan carnivore
agree disagree|confirm deny|prove refute|cause prevent|help harm|improve worsen|improve degrade
beneficial harmful|effective ineffective|toxic harmless|positive negative|optimistic pessimistic
polite rude|kind cruel|brave cowardly|calm nervous|sunny cloudy|sunny rainy|dry rainy
crowded empty|crowded deserted|busy idle|busy free|occupied vacant|available unavailable
possible impossible|sharp blunt|smooth rough|straight curly|straight crooked|tight loose
raw cooked|fresh stale|fresh rotten|ripe unripe|sweet bitter|sweet sour|whole broken
single multiple|serial parallel|sequential parallel|horizontal vertical|internal public
client server|monolith microservices|tabs spaces|centralized decentralized
centralised decentralised|sober drunk|retired employed|employed unemployed|insert extract
assemble disassemble|pour remove|freeze melt|float fall|toward away|towards away|ahead behind
forward backward|forwards backwards|clockwise counterclockwise|blocking nonblocking
stateless stateful|signed unsigned|opt-in opt-out|encouraged discouraged|recommended discouraged
strict lenient|strict relaxed|refundable nonrefundable|paid free|paid unpaid|into out|onto off
free costly|full-time part-time|remote onsite|remote office|single-threaded multithreaded
heads tails|accurate inaccurate|correct wrong|right wrong|correct incorrect|valid invalid
proven disproven|finished ongoing|complete incomplete|finished unfinished|done pending
completed pending|delivered pending|shipped pending
"""

_SYNONYMS = """
expire expiry expiration|write written implement implemented author wrote
height tall high|width wide|depth deep
weight weigh heavy|employee staff worker|inhabitant resident population people|buyer purchaser
salary pay wage earn earns earning|teacher instructor|pupil student|movie film|sickness illness
boyfriend partner|colleague coworker|teammate|laptop notebook|memory ram|processor cpu|disk drive
graduated graduate degree|birthplace born|hometown|website site webpage|password passphrase
credential|token|message msg|notification alert|ticket issue|customer client|vendor supplier
provider|schedule timetable|appointment|revenue turnover|budget|staffing|hire recruit|dismiss fire
latency delay|throughput|bandwidth|crash|outage downtime|uptime availability|replica|node|cluster
pod|container|dependency package|endpoint route|function method|test spec|lint linter
database db|name named called|retention retain keep kept|pr prs|postgres postgresql psql
kubernetes k8s|javascript js|typescript ts|golang go-lang|main primary principal|big large huge
small little tiny|fast quick rapid|begin start commence|end finish conclude|buy purchase
car automobile auto|boss manager supervisor|kid child children kids|people person human persons
man guy gentleman men|woman lady women|boy boys|girl girls|house home|apartment flat
repo repository|config configuration settings setting|application app|environment env
production prod|development dev|authentication auth login|parameter param argument|maximum max
minimum min|limit cap ceiling quota|timeout time-out|size length|price cost costs fee
deadline due-date due|meeting meet call sync standup|release ship launch
deploy deployment rollout|live reside dwell|job occupation profession|lawyer attorney
doctor physician|film movie|photo picture|email e-mail mail|phone telephone|color colour
favorite favourite|license licence|center centre|organisation organization company firm
wife spouse|bicycle bike bicyclist|cut slice chop dice|speak talk|run jog|sofa couch|shop store
street road|sea ocean|stone rock|jump leap hop|rabbit bunny|near close-by|look watch|dad father
mom mother mum|team squad crew|error failure bug|fix repair|folder directory|file document
allow permit let|forbid prohibit ban disallow|refuse decline reject|need require|own possess
choose select pick|show display|hide conceal|delete remove erase|create make build|stop halt
enabled activated|disabled deactivated|headquarters hq|birthday birthdate|rent lease
salary pay wage|cloth clothes clothing|weekly week|daily day|monthly month
yearly annual annually year|request query req|second sec|user customer client-user
engineer developer programmer|server machine|located situated based|founded established
invented created|stay remain|hard difficult|simple easy|rate throughput|interval period
frequency cadence|retry retries|vacation holiday|soda pop|cab taxi|store save|write written
language lang|framework library|reply answer respond|bank shore|lead leader head
headed led run-by|owner owned owns|maintainer maintained maintains
"""

_STEMMED_TOO = 2


def _stem_word(word: str) -> str:
    # A stemmer keeps state and may not be shared by threads; a new one costs a microsecond.
    return str(Stemmer.Stemmer("english", 0).stemWord(word)) if word.isalpha() else word


def _synonym_table() -> dict[str, str]:
    table: dict[str, str] = {}
    for group in _SYNONYMS.replace("\n", "|").split("|"):
        words = group.split()
        for word in words:
            table.setdefault(_stem_word(word), _stem_word(words[0]))
    return table


_CANONICAL = _synonym_table()


@lru_cache(maxsize=1 << 16)
def canonical(word: str) -> str:
    """The stem that all forms and listed synonyms of a lower-case `word` share."""
    stem = _stem_word(word)
    return _CANONICAL.get(stem, stem)


@lru_cache(maxsize=1 << 16)
def stem_word(word: str) -> str:
    """The stem of a lower-case `word`, synonyms kept apart."""
    return _stem_word(word)


def _degrees(word: str) -> tuple[str, str, str]:
    """The word and, for a short one that may be an adjective, its -er and -est forms."""
    if len(word) > 6:
        return word, word, word
    if word.endswith("e"):
        return word, word + "r", word + "st"
    if word.endswith("y"):
        return word, word[:-1] + "ier", word[:-1] + "iest"
    doubled = word + word[-1] if len(word) == 3 and word[1] in "aeiou" else word
    return word, doubled + "er", doubled + "est"


def _opposite_table() -> dict[str, frozenset[str]]:
    table: dict[str, set[str]] = {}
    for pair in _OPPOSITES.replace("\n", "|").split("|"):
        words = pair.split()
        if len(words) != _STEMMED_TOO:
            continue
        for form in (_stem_word, canonical):
            forms = zip(_degrees(words[0]), _degrees(words[1]), strict=True)
            for one, other in ((form(a), form(b)) for a, b in forms):
                table.setdefault(one, set()).add(other)
                table.setdefault(other, set()).add(one)
    return {word: frozenset(others) for word, others in table.items()}


OPPOSITES = _opposite_table()
_PREFIXES = ("un", "in", "im", "ir", "il", "dis", "non", "non-")


@lru_cache(maxsize=1 << 16)
def opposite(one: str, other: str) -> bool:
    """Whether two stems are opposites, listed or made with un-, in-, dis-, non-, -less."""
    if other in OPPOSITES.get(one, ()):
        return True
    if "-" in one and "-" in other:
        left, _, end = one.partition("-")
        right, _, other_end = other.partition("-")
        return end == other_end and opposite(_stem_word(left), _stem_word(right))
    if len(one) > len(other):
        one, other = other, one
    if len(one) < 4:
        return False
    for prefix in _PREFIXES:
        if other == prefix + one:
            return True
    if other.endswith("less"):
        base = one.removesuffix("ful")
        return other.removesuffix("less") == base
    return False
