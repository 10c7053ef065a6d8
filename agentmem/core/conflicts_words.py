"""The words the judge of contradictions knows: verbs, negators, markers of time and change.

Small on purpose: a word that is not here is compared by its stem. Every list is
general English and the vocabulary of software work; none is taken from a data set.
"""

from __future__ import annotations


def _split(text: str) -> frozenset[str]:
    return frozenset(text.split())


NEGATORS = _split(
    "not no never none nobody nothing nowhere neither nor without cannot cant dont doesnt didnt"
    " isnt arent wasnt werent wont wouldnt shouldnt couldnt hasnt havent hadnt noone lacks lack"
    " lacking lacked stopped stops quit"
)
CLAUSE_BREAKS = _split("but however while whereas although though yet")
ALL = _split("all every each always everyone everybody everything both entirely fully whole")
FEW = _split("few rarely seldom sometimes occasionally hardly partly partially barely")

# Said of a state that began: the statement knows that it was otherwise before.
CHANGE_WORDS = _split(
    "now nowadays currently switched switching migrated migrating upgraded downgraded replaced"
    " renamed became relocated changed raised lowered increased decreased reduced extended"
    " postponed rescheduled updated bumped transitioned superseded anymore got"
)
CHANGE_VERBS = _split(
    "switched migrated upgraded downgraded replaced renamed became relocated changed raised"
    " lowered increased decreased reduced extended postponed rescheduled updated bumped"
    " transitioned moved superseded switching migrating moving"
)
PAST_WORDS = _split("previously formerly originally earlier once used-to")

# Small words that are compared only for being opposites: "into" and "out of".
PARTICLES = _split(
    "on off up down out into onto above below inside outside before after over under always"
    " all every rarely seldom increased decreased increase decrease raised lowered raise lower"
    " upgraded downgraded upgrade downgrade take give takes gives allow allows allowed permit"
    " permits permitted require requires required need needs use uses run runs keep keeps"
)

# Words that carry no meaning of their own beside the rest of a sentence.
FILLERS = _split(
    "a an the this that these those there here it its is are was were be been being am do does did"
    " has have had having will would shall should can could may might must of to in on at by for"
    " from with as into onto upon about and or so very really just also too then than i me my mine"
    " we us our ours you your yours he him his she her hers they them their theirs who which what"
    " whom whose when where how why if because since until during per via s t re ll ve d m"
    " please actually basically simply quite rather still already again some any other another"
    " such own same up out off over under down away around please currently now today approximately"
    " roughly nearly almost exactly only least most more less at one's there's within set go goes"
    " going went gone get gets got take takes took come comes came make makes made keep keeps kept"
    " let lets use uses used using run runs running ran set sets put puts putting give gives gave"
    " allow allows allowed permits permit equals equal stand stands happen happens occur occurs"
    " require requires required need needs needed amount amounts anymore longer previously formerly"
    " originally earlier once know known say says said note noted confirmed believe think thinks"
    " remember reminder fyi btw ok okay yes well new total currently per each every all always"
    " both everyone everybody everything someone somebody anyone anybody nobody noone"
    " switch switched switching migrate migrated migrating upgrade upgraded downgrade downgraded"
    " replace replaced rename renamed become became relocate relocated change changed raise"
    " raised lower lowered increase increased decrease decreased reduce reduced extend extended"
    " postpone postponed reschedule rescheduled update updated bump bumped transition transitioned"
    " move moved moving supersede superseded entirely fully whole few rarely seldom sometimes"
    " occasionally hardly partly partially barely rather instead time times"
    " used-to starting lasts lasted"
)

FIRST_PERSON = _split("i me my mine we us our ours")
PERSONS = {
    **dict.fromkeys(FIRST_PERSON, "first"),
    **dict.fromkeys(_split("you your yours"), "second"),
    **dict.fromkeys(_split("he him his"), "he"),
    **dict.fromkeys(_split("she her hers"), "she"),
    **dict.fromkeys(_split("they them their theirs"), "they"),
}
GENERIC_ACRONYMS = _split(
    "api url http https db cpu ram id ui ci cd pr sql json xml html css rest sdk cli os ip dns ttl"
    " sla kpi faq pdf csv vat tv pc it hr qa"
)
PHRASES = {
    ("pull", "request"): "pr",
    ("pull", "requests"): "pr",
    ("used", "to"): "used-to",
    ("time", "out"): "timeout",
    ("times", "out"): "timeout",
    ("vs", "code"): "vscode",
    ("sql", "server"): "sqlserver",
    ("log", "in"): "login",
    ("due", "date"): "deadline",
    ("data", "base"): "database",
    ("google", "cloud"): "gcp",
    ("version", "control"): "version-control",
    ("package", "manager"): "package-manager",
}
# Verbs whose subject is the one value of their object: one person leads a team.
LEADING_VERBS = _split(
    "leads led heads headed owns manages managed maintains maintained chairs chaired runs founded"
    " invented wrote directed won composed painted discovered designed hosts reviews approves"
)
POSSESSIVES = _split("my our your his her its their")

AUXILIARIES = _split(
    "is are was were be been am do does did has have had will would shall should can could may"
    " might must isn't aren't wasn't weren't don't doesn't didn't hasn't haven't hadn't won't"
    " can't cannot"
)

# Verbs after which one value excludes another: nobody lives in two cities.
SINGLE_VERBS = _split(
    "live lives lived living reside resides resided work works worked working born belong belongs"
    " belonged located hosted named called based founded died married defaults report reports"
    " reported owned maintained managed led invented written directed headquartered stored"
    " licensed deployed moved graduated created developed painted composed held assigned approved"
    " lies grew sleeps built designed discovered runs ran set capped configured points point"
    " listens listen implemented drives returns return outputs produces emits prefers prefer"
    " writes weighs begins starts ends closes opens expires"
)
# Participles after which many values hold at once: sold in one country and in another.
MANY_PARTICIPLES = _split(
    "sold used available found seen spoken liked known supported offered worn visited loved"
    " tested needed wanted played eaten read watched shared interested allowed installed"
)
PLACES = _split("in at on from under behind by inside near with via to into through")
# Verbs with many objects at once: liking tea says nothing about coffee.
MANY_VERBS = _split(
    "use uses used using like likes liked love loves know knows speak speaks visit visited have has"
    " had support supports eat eats play plays own owns read reads see sees saw want wants need"
    " needs contain contains include includes enjoy enjoys hate hates study studies studied buy"
    " bought write writes wrote watch watches watched made make makes try tried learn learned"
    " depends depend requires collects"
)
VERBS = (
    SINGLE_VERBS
    | MANY_VERBS
    | AUXILIARIES
    | CHANGE_VERBS
    | LEADING_VERBS
    | _split(
        "takes take allows allow permits needs keeps keep returns return accepts accept rejects"
        " reject sends send receives receive costs exceeds grows grow falls fall rises rise seems"
        " seem looks"
        " starts start begins begin ends end closes close opens open expires expire costs weighs"
        " ships ship go goes went arrives leaves departs meets meet holds hold contains reads"
        " shows measures lasts covers sells pays earns"
        " feels becomes become says said prefers prefer"
    )
)

# Nouns that name an attribute with one value at a time.
ATTRIBUTES = _split(
    "name database db language framework capital owner author lead leader manager ceo cto boss"
    " editor deadline status region host provider address email mail phone number password branch"
    " default theme license licence os city country birthplace job role title size price cost"
    " color colour birthday age height weight limit timeout port version budget salary headquarters"
    " hq supervisor mentor wife husband spouse partner mother father dentist doctor landlord"
    " president mayor founder director chair maintainer reviewer approver location venue office"
    " room floor destination origin nationality religion hometown profession occupation employer"
    " school university diagnosis cause winner champion source currency timezone locale format"
    " encoding protocol algorithm strategy policy rate frequency interval duration length width"
    " capacity threshold quota maximum minimum cap url domain endpoint id username nickname"
    " codename model engine runtime backend frontend cache queue broker scheduler registry"
    " date day month year hour schedule cadence breed species plan tier level favorite favourite"
    " opponent publisher genre shell browser compiler linter formatter"
)
DEFINITE = _split("main primary default current favorite favourite only official preferred first")

# Words that tell two things of one sort apart; one of them on one side alone is another thing.
SPECIFIERS = _split(
    "staging production prod dev development test testing local remote free premium paid"
    " enterprise basic weekend weekday internal external first second third fourth last next"
    " previous left right upload download read write minimum maximum min max soft hard input output"
    " secondary backup replica mobile desktop web ios android client server frontend backend"
    " public private guest admin monthly weekly daily yearly annual quarterly hourly morning"
    " evening afternoon night north south east west northern southern eastern western summer winter"
    " spring autumn junior senior adult child children beta alpha nightly canary legacy old former"
    " another other second-hand outbound inbound incoming outgoing idle peak burst average median"
    " mean connect connection request response retry session day night"
)
