"""The words that the rules of stated facts know: heads of attributes, opinions, people, states."""

from __future__ import annotations

from agentmem.core.living.keys import normal_word


def word_set(text: str) -> frozenset[str]:
    """The words of a text that lists them."""
    return frozenset(text.split())


def _normal(text: str) -> frozenset[str]:
    return frozenset(map(normal_word, text.split()))


OPINIONS = word_set(
    "very too so quite really more less being going not awesome amazing great tough incredible good"
    " bad nice important hard easy key something one some all fine ok okay cool fun beautiful"
    " wonderful terrible horrible perfect interesting exciting boring weird strange funny hilarious"
    " lovely best better worse worst pretty super totally always never here there coming ready done"
    " broken wrong right true false tomorrow today yesterday soon tonight next last also still just"
    " like what how why where who when unclear unknown different similar same worth such my his her"
    " delicious fantastic excellent brilliant impressive inspiring huge big small long short high"
    " low full empty up down on off in out over under about because due ongoing simple complex"
    " enough many much few several another other both most only lots plenty kind sort part red"
    " green slow fast old new young happy sad tired sick busy late early real major minor"
    " clear obvious necessary possible impossible useful useless stupid silly crazy smart clever"
    " cute sweet fluffy playful energetic adorable gorgeous stunning favorite favourite absolute"
    " at almost nearly barely as getting becoming looking feeling sure certain glad proud"
)
"""First words of what is no value but a judgement or the beginning of a story."""
NO_SUBJECT = word_set(
    "to that who which when while because decided agreed chose want wants need needs plan try have"
    " has had can must does do did make makes let see saw know there here it this i you they he she"
    " we and or please nobody nothing something anything someone somebody anyone if what how why"
    " your yours where these those than then think guess feel love hope him them me us was were"
    " said not"
)
MORE_ATTRIBUTES = word_set(
    "mascot channel rent deposit gate anniversary laptop car bike slogan motto hostname namespace"
    " bucket"
    " prefix suffix extension seat row terminal platform vendor contact coach trainer therapist"
    " accountant nanny roommate flatmate surname pronouns instrument hobby type subdomain workspace"
    " ci sso cdn crm tagline assignee sponsor treasurer secretary chairman chairwoman captain"
    " principal vet gp pediatrician barber hairdresser neighbour neighbor sla uptime ttl retention"
    " checksum charset timestamp topic tag convention style cutoff allowance"
    " coverage headcount framework linter formatter bundler orm engineer admin administrator"
    " architect analyst designer tester scientist representative lawyer pm vp cfo coo ciso cio"
    " counsel plumber electrician bank insurer carrier airline hotel gym pharmacy supermarket"
    " dns tld iban blood-type zip postcode zodiac sign major minor-subject tool mentor successor"
    " predecessor anthem quorum fee tax discount salary bonus grade score-limit dose dosage"
)
NO_HEADS = _normal(
    "answer question problem issue point thing idea reason way result sum total output example case"
    " step line variable function method loop argument parameter word letter sentence story truth"
    " fact goal trick catch difference rest part kind sort bit lot side hand hope dream movie film"
    " book song game weather sky food life love world everything plan option minute second choice"
    " thought concern request comment suggestion favor favour more other chance opportunity feeling"
    " meeting-point moment issue bug error conclusion assumption difference bottom guess task todo"
    " left time memory file code script document commit diff score class object"
)
"""What is no attribute of anything."""
NOT_COUNTED = NO_HEADS | _normal(
    "element item row column method parameter argument line bullet paragraph hour day week month"
    " year friend people test change ticket email message file pr typo beer drink"
    " coffee meeting call deadline exam interview appointment date"
)
"""What one has two of today, and not worth keeping."""
CODE_WORDS = word_set(
    "function array tuple dict loop variable example tutorial article argument snippet string"
    " regex struct enum exercise"
)
EPHEMERAL = word_set("it this that i we you they he she lunch dinner breakfast")
PEOPLE = _normal(
    "son daughter child kid baby toddler brother sister mother mom mum father dad wife husband"
    " partner spouse girlfriend boyfriend fiance fiancee uncle aunt cousin nephew niece grandmother"
    " grandfather grandma grandpa grandson granddaughter stepson stepdaughter boss manager friend"
    " colleague neighbour neighbor roommate flatmate landlord twin twins parent sibling nanny"
)
PETS = _normal("dog cat puppy kitten rabbit hamster parrot horse pony turtle fish guinea-pig pet")
ROLES = _normal(
    "wife husband partner spouse girlfriend boyfriend fiance fiancee mother father boss manager"
    " landlord dentist doctor ceo cto cfo coo lead owner mentor coach trainer therapist accountant"
    " supervisor director president founder chair maintainer lawyer vet gp pediatrician roommate"
    " flatmate nanny hairdresser captain principal"
)
"""Of these one has one: "my manager" and "my manager's name" are the same attribute."""
OCCUPATIONS = word_set(
    "engineer developer teacher nurse doctor dentist lawyer architect chef cook pilot accountant"
    " designer scientist researcher student professor lecturer manager consultant analyst"
    " programmer"
    " writer author journalist photographer plumber electrician carpenter farmer mechanic"
    " pharmacist"
    " veterinarian vet paramedic firefighter librarian translator interpreter baker barber"
    " therapist"
    " psychologist psychiatrist surgeon physician biologist chemist physicist mathematician"
    " statistician economist banker realtor cashier waiter waitress bartender barista musician"
    " composer actor actress painter sculptor illustrator editor publisher recruiter administrator"
    " sysadmin technician tailor driver soldier judge freelancer contractor entrepreneur midwife"
    " physiotherapist optician radiologist cardiologist geologist historian archaeologist notary"
    " policeman policewoman detective welder gardener florist hairdresser receptionist secretary"
    " principal tutor coach trainer auditor actuary bookkeeper broker salesman saleswoman tester"
    " administrator machinist postdoc paralegal caretaker janitor dancer singer violinist pianist"
)
_STATES = """
visibility: private public internal internal-only
encryption: encrypted unencrypted
status: enabled disabled deprecated archived frozen discontinued retired decommissioned unmaintained
    obsolete experimental
access: read-only readonly write-only append-only
source: open-source proprietary closed-source
diet: vegan vegetarian pescatarian
marital-status: married single divorced engaged widowed
handedness: left-handed right-handed ambidextrous
condition: diabetic asthmatic dyslexic colorblind colour-blind color-blind
pregnancy: pregnant
requirement: optional mandatory compulsory
mutability: immutable mutable
compression: compressed uncompressed
case: case-sensitive case-insensitive
state: stateless stateful
work-mode: remote hybrid
"""

_FORMS = """
convention: snake_case camelcase kebab-case pascalcase uppercase lowercase
format: json yaml xml csv markdown parquet protobuf toml
language: english german french spanish dutch italian portuguese polish chinese japanese
"""


def _read_table(text: str) -> dict[str, str]:
    table: dict[str, str] = {}
    attribute = ""
    for line in text.strip().splitlines():
        name, colon, words = line.partition(":")
        attribute = name.strip() if colon else attribute
        table.update(dict.fromkeys((words if colon else line).split(), attribute))
    return table


FORMS = _read_table(_FORMS)
"""A form that texts and names can have → what it is a form of."""
STATES = _read_table(_STATES)
"""A state in one word → what it is a state of; of one attribute a thing has one."""
