"""Words that question and answer say differently: "choose" and "chose", "tall" and "height"."""

from __future__ import annotations

import re
from functools import lru_cache

from agentmem.core.lexical import analyse

_IRREGULAR = """
be been|bear born|beat beaten|become became|begin began begun|bite bit bitten|blow blew blown
break broke broken|bring brought|build built|burn burnt|buy bought|catch caught
choose chose chosen choice|come came|deal dealt|dig dug|draw drew drawn|dream dreamt
drink drank drunk|drive drove driven|eat ate eaten|fall fell fallen|feed fed|feel felt
fight fought|find found|fly flew flown|forget forgot forgotten|freeze froze frozen
get got gotten|give gave given|go went gone|grow grew grown growth|hang hung|hear heard
hide hid hidden|hold held|keep kept|know knew known|lay laid|lead led|learn learnt|leave left
lend lent|lose lost loss|make made|mean meant|meet met|pay paid|ride rode ridden|ring rang rung
rise rose risen|run ran|say said|see saw seen|seek sought|sell sold sale|send sent|shake shook
shine shone|shoot shot|show shown|sing sang sung singer song|sink sank sunk|sit sat|sleep slept
speak spoke spoken speech|spend spent|stand stood|steal stole stolen|stick stuck|strike struck
swear swore sworn|sweep swept|swim swam swum|take took taken|teach taught|tear tore torn
tell told|think thought|throw threw thrown|understand understood|wake woke woken|wear wore worn
win won winner|write wrote written writer|die died death dead|marry married wife husband wedding
live life alive|fly flight|child children kid kids son daughter|man men|woman women
person people|foot feet|mouse mice
"""
_ALIKE = """
tall height high elevation altitude metre meter|long length|wide width|deep depth
heavy weigh weight|old age aged year|far distance kilometre mile|fast speed
expensive cost price pay charge fee|big size large largest maximum
populous population inhabitant|located location situated place
job occupation profession career work employ|begin start commence|finish end conclude complete
found founder establish create creator start begin
invent inventor invention develop developer design designer create creator|author write writer
climb ascent ascend summit|movie film|song track|buy purchase acquire|car vehicle|house home
kid child|doctor physician|pet dog cat puppy kitten|favorite favourite love prefer
hobby enjoy pastime|reason because cause|inspire motivate inspiration motivation
plan intend going|like love enjoy|attend go join participate|visit trip travel vacation
meal dinner lunch food|study degree major|move relocate|fix repair|quick fast|error failure bug
delete remove|install setup|default standard
"""


@lru_cache(maxsize=1)
def _families() -> dict[str, frozenset[int]]:
    table: dict[str, set[int]] = {}
    number = 0
    for written in (_IRREGULAR, _ALIKE):
        for group in written.replace("\n", "|").split("|"):
            words = group.split()
            number += 1
            for word in words if len(words) > 1 else ():
                for term in analyse(word)[:1]:
                    table.setdefault(term, set()).add(number)
    return {term: frozenset(numbers) for term, numbers in table.items()}


def say_alike(one: str, other: str) -> bool:
    """Whether two terms, as `analyse` gives them, are forms of one verb or say nearly the same."""
    families = _families()
    return one in families and not families[one].isdisjoint(families.get(other, ()))


COMMON = frozenset(
    term
    for word in re.findall(
        r"\w+",
        """
        many much kind sort type various different thing something anything someone might likely
        according happen mention mentioned describe tell say said ask know think want like also get
        make made go going went come take give use used one two first new good great way time day
        year people lot called name named do done see look need
        """,
    )
    for term in analyse(word)
)
"""Terms that stand in any text; sharing one says little about what is asked."""
