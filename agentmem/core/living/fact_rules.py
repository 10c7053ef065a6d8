"""The patterns of stated facts, in order: the first whose reader finds something decides."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from agentmem.core.living.fact_amounts import (
    read_age,
    read_bound,
    read_counted,
    read_done_on,
    read_limit,
    read_rotation,
    read_scheduled,
    read_set_to,
    read_size,
)
from agentmem.core.living.fact_readers import (
    LEADING,
    read_attribute,
    read_changed,
    read_form,
    read_led,
    read_name,
    read_on_call,
    read_place,
    read_state,
    read_tool,
    read_turned_round,
    read_used,
    read_with_value,
    with_attribute,
)
from agentmem.core.living.fact_subjects import Reader
from agentmem.core.living.fact_words import FORMS, OCCUPATIONS, STATES
from agentmem.core.living.stated_values import is_duration, is_name, is_place, is_subject

Rule = tuple[str, Reader]

_S = r"(?P<s>[^,;:=?!]{1,70}?)"
_V = r"(?P<v>[^;?!]{1,160})"
_WORD_NOW = r"(?:now|currently|always|still|usually|already|generally|typically|all|mostly|also)"
_NOW = rf"(?:\s+{_WORD_NOW})?"
_BE = r"(?:\s+is|\s+are|\s+am|['’]m|['’]re|['’]s(?=\s(?:called|named|on|in|at)\b)|\s+will be)"
_HAVE = r"(?:\s+have|\s+has|['’]ve)"
_TO = r"(?:was|were|has been|have been|got|is|are)"
_NUMBER = (
    r"(?:\d[\d,.]*|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|fifteen|twenty"
    r"|thirty|forty|fifty)"
)
_OLD = r"(?:\s+from\s+(?P<old>[^,;]{1,40}?))?"
_CHANGED = (
    r"(?:switched|moved|migrated|changed|transitioned|upgraded|standardi[sz]ed|settled)(?:\s+over)?"
    rf"(?P<object>\s+(?:our|the|all|my)\s+[^,;]{{1,30}}?)?{_OLD}\s+(?:to|on)"
)
_USE = (
    r"(?:(?P<use>use|uses|using|are using|am using|is using|'re using|'m using|adopted|rely on"
    r"|relies on)"
    r"|run on|runs on|host on|hosts on|deploy to|deploys to|deploy on|are on|is on|am on|(?:is"
    r"|are) (?:built|based) on"
    r"|chose|went with|dropped|abandoned|ditched|retired|picked|standardi[sz]ed on|develop on)"
)
_VALUE_STOP = (
    r"(?=[.,]?$|[.,;]\s|\s+(?:because|since|so|which|and|but|when|instead|rather|now|until|over"
    r"|in|on|across|everywhere)\b)"
)
_WORK_VERBS = (
    r"deploy|build|test|lint|format|monitor|compile|package|bundle|provision|manage|track|release"
    r"|handle|do|run|trace|log|cache|sign|schedule|document|generate"
)
_WORK_DONE = (
    r"deployed|built|tested|linted|formatted|managed|run|done|handled|monitored|compiled|packaged"
    r"|bundled|provisioned|generated|tracked|made|served|powered|drawn|signed|released|cached"
    r"|logged"
    r"|traced|documented|set up|automated|orchestrated|scheduled"
)
_HAPPENS = (
    r"(?:go out|goes out|go live|goes live|happens?|takes? place|is held|are held|occurs?|is due"
    r"|are due|(?:is|are) (?:scheduled|planned|set|booked|due|run|released|published|shipped|sent"
    r"|sent out|generated|made|taken|paid|updated|refreshed|synced|performed)|runs?|meets?|ships?"
    r"|starts?|begins?|kicks? off|leaves?|departs?|arrives?|lands?|refresh(?:es)?|syncs?|updates?"
    r"|launch(?:es)?|is|are|will be(?: held)?|['’]s)"
)
_OFTEN = (
    r"(?=(?:every|each|once|twice|hourly|daily|nightly|weekly|biweekly|monthly|quarterly|yearly"
    r"|annually|fortnightly)\b)"
)
_WHEN = rf"(?:on|at|for|by|in|{_OFTEN})"
_AT = r"(?:in|at|on|under|near|inside|behind|within)"
_JOBS = "|".join(sorted(OCCUPATIONS))
_ADJECTIVES = "|".join(sorted(STATES, key=len, reverse=True))
_LIKER = (
    r"(?P<s>(?:my|our)\s+[a-z][\w -]{1,25}?|(?!looks|sounds|seems|feels|tastes|smells)"
    r"(?-i:[A-Z])[a-z]+(?=\s+(?:really )?\w+s\b))"
)
_SEVERE = r"(?:(?:very )?(?:severe|bad|mild|serious|slight|strong|nasty|deadly|terrible))"
_FORMS = "|".join(sorted(FORMS, key=len, reverse=True))
_NATIONS = (
    r"(?:Dutch|French|German|Greek|Swiss|Thai|Czech|Norwegian|American|Mexican|Moroccan|Kenyan"
    r"|Pakistani|Israeli|Iraqi|Welsh|[A-Z][a-z]+(?:ish|ese|ian))"
)


def _rule(pattern: str, read: Reader) -> Rule:
    return pattern, read


def _typed(pattern: str, attribute: str) -> Rule:
    return pattern, with_attribute(attribute, typed=True)


_NAMES: tuple[Rule, ...] = (
    _rule(rf"{_S}(?:['’]s?)?\s+name{_NOW}\s*(?:is|:|=)\s+{_V}$", read_name),
    _rule(rf"the name of {_S}\s+is\s+{_V}$", read_name),
    _rule(rf"{_S}{_BE}{_NOW}\s+(?:called|named)\s+{_V}$", read_name),
    _rule(r"(?:i|we)(?:\s+have|['’]ve got)\s+an?\s+(?P<s>[a-z ]{2,30}?),?\s+(?:called|named)\s+"
     r"(?P<v>(?-i:[A-Z])[\w'-]*(?: (?-i:[A-Z])[\w'-]*)?)", read_name),
    _rule(r"(?P<s>(?:my|our) [a-z][a-z -]{1,25}?),\s+"
     r"(?P<v>(?-i:[A-Z])[\w'-]*(?: (?-i:[A-Z])[\w'-]*)?),"
     r"\s+(?:is|are|has|lives|works|was|loves|likes)\b", read_name),
    _rule(r"(?P<s>i)\s+go by\s+(?P<v>(?-i:[A-Z])\w+)", with_attribute("nickname")),
    _rule(r"(?:my friends|everyone|people) calls? (?P<s>me)\s+(?P<v>(?-i:[A-Z])\w+)",
     with_attribute("nickname")),
)  # fmt: skip
_TOOLS: tuple[Rule, ...] = (
    _typed(rf"{_S}{_NOW}\s+(?:listens? on|runs? on|is on|uses)\s+port\s+{_V}$", "port"),
    _rule(rf"{_S}{_NOW}\s+(?P<use>uses?)\s+(?P<v>\S+)\s+as\s+(?:its|their|his"
          rf"|her)\s+(?P<role>[\w -]{{2,30}})",
     read_used),
    _rule(rf"for\s+(?P<role>[^,;.?!]{{1,40}}?),?\s+(?P<s>we|i){_NOW}\s+{_USE}\s+"
     rf"(?P<v>[^;?!]{{1,80}}?){_VALUE_STOP}", read_used),
    _rule(rf"in\s+(?P<role>production|prod|staging|development|dev|tests?|ci|the \w+),?\s+"
     rf"(?P<s>we|i){_NOW}\s+{_USE}\s+(?P<v>[^;?!]{{1,80}}?){_VALUE_STOP}", read_used),
    _rule(rf"{_S}{_NOW}\s*{_USE}\s+(?P<v>[^;?!]{{1,80}}?)(?:\s+(?P<how>as|for|in"
          rf"|to(?: \w+)?)\s+(?:our |the "
     rf"|my |all |all our )?(?P<role>[^,;.?!]{{1,40}}?))?{_VALUE_STOP}", read_used),
    _rule(rf"(?:we|i){_NOW}\s+(?P<verb>{_WORK_VERBS})(?:\s+(?:(?:our|the|all|my) )?"
     rf"(?P<object>[\w -]{{2,30}}?))?\s+(?:with|using|through|via|in)\s+{_V}$", read_tool),
    _rule(rf"{_S}{_BE}{_NOW}\s+(?P<verb>{_WORK_DONE})\s+(?:with|using|through|via|in)\s+{_V}$",
     read_tool),
    _rule(rf"{_S}{_NOW}\s+(?P<verb>run)s?\s+(?:with|through|via)\s+{_V}$", read_tool),
    _rule(rf"{_S}{_HAVE}?{_NOW}\s+{_CHANGED}\s+{_V}$", read_changed),
    _rule(rf"{_S}{_HAVE}?\s+replaced\s+(?P<old>[^,;]{{1,40}}?)\s+(?:with"
          rf"|by)\s+{_V}$", read_changed),
    _rule(rf"{_S}{_HAVE}?\s+relocated(?:\s+from\s+\S+)?\s+to\s+{_V}$", read_changed),
    _rule(rf"{_S}\s+{_TO}{_NOW}\s+(?:raised|lowered|increased|decreased|reduced|changed|extended"
          rf"|set"
     rf"|moved|bumped|fixed|postponed|rescheduled|updated|renamed|pushed(?: back)?"
     rf"|shortened|cut)(?:\s+from\s+\S+(?:\s\S+)?)?\s+to\s+{_V}$", read_set_to),
    _rule(rf"we\s+(?:raised|lowered|increased|decreased|reduced|changed|extended|set|moved|bumped"
     rf"|postponed|rescheduled|pushed)\s+(?P<s>(?:the|our)\s+[^,;:=?!]{{1,50}}?)"
     rf"(?:\s+from\s+\S+(?:\s\S+)?)?\s+to\s+{_V}$", read_set_to),
)  # fmt: skip
_AMOUNTS: tuple[Rule, ...] = (
    _rule(rf"{_S}{_NOW}\s+defaults?\s+to\s+{_V}$", with_attribute("default")),
    _rule(rf"(?:we|i){_NOW}\s+(?:keep|retain|store|save)\s+{_S}\s+for\s+(?P<v>(?:at least |up to )?"
     rf"(?:{_NUMBER}|an?)\s[^;?!]{{1,40}})$", with_attribute("retention", typed=True)),
    _typed(rf"{_S}{_BE}{_NOW}\s+(?:kept|retained|stored|saved|preserved)\s+for\s+{_V}$",
           "retention"),
    _typed(rf"{_S}{_BE}{_NOW}\s+(?:deleted|purged|removed|wiped|erased|dropped)\s+after\s+{_V}$",
           "retention"),
    _typed(rf"{_S}{_BE}{_NOW}\s+(?:valid|good)\s+for\s+{_V}$", "validity"),
    _rule(rf"{_S}(?:{_BE}{_NOW}\s+rotated|{_NOW}\s+rotates?)\s+{_WHEN}\s*{_V}$", read_rotation),
    _rule(rf"(?:we|i){_NOW}\s+rotate\s+{_S}\s+{_WHEN}\s*{_V}$", read_rotation),
    _rule(rf"{_S}(?:{_BE}|\s+was|\s+were){_NOW}\s+(?:limited|capped|restricted)\s+(?:to"
          rf"|at)\s+{_V}$", read_limit),
    _rule(rf"we{_NOW}\s+(?:limit|cap|restrict)\s+{_S}\s+(?:to|at)\s+{_V}$", read_limit),
    _rule(rf"{_S}{_NOW}\s+(?P<holds>allows?|supports?|accepts?|permits?|handles?|returns?"
          rf"|can (?:hold|have"
     rf"|store|handle|take|seat|fit)|holds|seats|fits)\s+(?:up to|at most|a maximum of|no more than"
     rf"|only|(?={_NUMBER}\b))\s*(?P<v>{_NUMBER}\s[^;?!]{{1,40}})$", read_limit),
    _rule(rf"{_S}{_BE}{_NOW}\s+retried\s+(?P<v>(?:up to )?(?:{_NUMBER}\s+times|once|twice))",
     with_attribute("limit retry")),
    _rule(rf"{_S}\s+(?:must|has to|have to|needs? to)\s+be\s+(?P<bound>at least|at most|under|below"
     rf"|above|over|less than|more than|no more than|no less than)\s+{_V}$", read_bound),
    _rule(rf"{_S}{_BE}{_NOW}\s+(?P<v>{_NUMBER}\s?[\w.]+(?:\s+\w+)?)\s+(?P<how>tall|high|long|wide"
          rf"|deep"
     rf"|thick)\W*$", read_size),
    _rule(rf"{_S}(?:{_BE}{_NOW}|\s+(?:just )?turned)\s+(?P<v>{_NUMBER})(?:\s+years?(?:\s+old"
          rf"|\s+of age)?"
     rf"|\s+months?\s+old)?\W*$", read_age),
    _typed(rf"{_S}{_NOW}\s+expires?\s+(?:on|in|at|after|every)\s+{_V}$", "expiry"),
    _typed(rf"{_S}{_NOW}\s+(?:opens?)\s+(?:on|at)\s+{_V}$", "opening"),
    _typed(rf"{_S}{_NOW}\s+(?:closes?)\s+(?:on|at)\s+{_V}$", "closing"),
    _typed(rf"{_S}(?:{_NOW}|\s+will)\s+ends?\s+(?:on|at|in|after)\s+{_V}$", "end"),
    _rule(rf"{_S}{_NOW}\s+(?:takes?|lasts?)\s+{_V}$", with_attribute("duration", fits=is_duration)),
    _typed(rf"{_S}{_NOW}\s+costs?(?:\s+(?:me|us))?\s+{_V}$", "price"),
    _rule(rf"(?:we|i){_NOW}\s+pay\s+(?P<v>[^;?!]{{1,40}}?\d[^;?!]{{0,40}}?)\s+(?:for|in)\s+"
     rf"(?P<s>(?:the |our |my )?\w[\w -]{{1,30}})\W*$", with_attribute("price", typed=True)),
    _typed(rf"{_S}{_NOW}\s+weighs?\s+{_V}$", "weight"),
    _typed(rf"{_S}{_NOW}\s+(?:times? out|timeout)\s+after\s+{_V}$", "timeout"),
)  # fmt: skip
_PEOPLE: tuple[Rule, ...] = (
    _rule(rf"{_S}{_BE}{_NOW}\s+(?:\w+ly )?allergic\s+to\s+{_V}$", read_with_value("allergy")),
    _rule(rf"{_S}{_NOW}\s+(?:has|have)\s+an?\s+(?:{_SEVERE} )?allergy\s+to\s+{_V}$",
     read_with_value("allergy")),
    _rule(rf"{_S}{_NOW}\s+(?:has|have)\s+an?\s+(?:{_SEVERE} )?"
     r"(?P<v>[\w-]+(?: [\w-]+)?)\s+allergy\b",
     read_with_value("allergy")),
    _rule(rf"{_S}{_BE}{_NOW}\s+(?P<v>lactose|gluten|fructose|histamine)[ -]intolerant",
     read_with_value("intolerance")),
    _rule(rf"{_S}{_BE}{_NOW}\s+intolerant\s+to\s+{_V}$", read_with_value("intolerance")),
    _rule(rf"{_S}{_NOW}\s+works?\s+as\s+{_V}$", with_attribute("job")),
    _rule(rf"{_S}{_BE}{_NOW}\s+an?\s+(?P<v>(?:[\w-]+ ){{0,3}}(?:{_JOBS}))(?=\s+(?:at|for|in|with"
          rf"|by)\b"
     rf"|\W*$)", with_attribute("job")),
    _rule(rf"{_S}{_NOW}\s+works?\s+(?:at|for)\s+{_V}$", with_attribute("employer")),
    _rule(rf"{_S}(?:{_HAVE})\s+(?:been working|worked)\s+(?:at|for)\s+"
     rf"(?P<v>(?-i:[A-Z])[^,;?!]{{0,40}}?)(?=\s+(?:for|since)\b|\W*$)", with_attribute("employer")),
    _rule(rf"{_S}(?:{_HAVE})\s+(?:been living|lived)\s+in\s+(?P<v>(?-i:[A-Z])[^,;?!]{{0,40}}?)"
     rf"(?=\s+(?:for|since)\b|\W*$)", with_attribute("location")),
    _rule(rf"{_S}{_BE}{_NOW}\s+employed\s+(?:at|by)\s+{_V}$", with_attribute("employer")),
    _rule(rf"{_S}\s+(?:was|were)\s+born\s+in\s+(?P<v>[A-Z][^;?!]{{1,60}})$",
     with_attribute("birthplace")),
    _typed(rf"{_S}\s+(?:was|were)\s+born\s+(?:in|on)\s+{_V}$", "birth date"),
    _rule(rf"{_S}\s+grew\s+up\s+in\s+{_V}$", with_attribute("hometown", fits=is_name)),
    _rule(rf"{_S}(?:{_BE}{_NOW}\s+(?:originally )?"
          rf"|\s+comes? )from\s+(?P<v>(?-i:[A-Z])[^;?!]{{1,40}})$",
     with_attribute("origin", fits=is_name)),
    _rule(rf"{_S}{_BE}{_NOW}\s+(?P<v>(?-i:{_NATIONS}))\W*$", with_attribute("nationality")),
    _rule(rf"{_S}{_NOW}\s+reports?\s+to\s+(?P<v>(?-i:[A-Z])[^;?!]{{1,40}})$",
     with_attribute("manager")),
    _rule(rf"{_S}{_BE}{_NOW}\s+married\s+to\s+{_V}$", with_attribute("spouse")),
    _rule(rf"{_S}(?:{_BE}\s+studying|{_NOW}\s+stud(?:y"
          rf"|ies))\s+at\s+{_V}$", with_attribute("school")),
    _rule(rf"{_S}(?:{_BE}\s+studying|{_NOW}\s+stud(?:y"
          rf"|ies))\s+(?P<v>[\w-]+(?: [\w-]+)?)(?=\s+at\b|\W*$)",
     with_attribute("study", fits=is_subject)),
    _rule(rf"{_S}{_NOW}\s+(?:goes|go"
          rf"|attends?)\s+(?:to\s+)?(?P<v>(?-i:[A-Z])[^;?!]{{0,40}}?(?:School"
     rf"|Elementary|High|College|University|Academy|Kindergarten|Montessori|Gymnasium)\b[^;?!]*)$",
     with_attribute("school")),
    _rule(rf"{_S}{_NOW}\s+drives?\s+an?\s+(?P<v>(?-i:[A-Z])[^;?!]{{1,40}})$",
     with_attribute("car")),
    _rule(rf"{_S}{_NOW}\s+(?:speaks?)\s+(?P<v>(?-i:[A-Z])[a-z]+)(?=\W*$|\s+(?:at|fluently|well"
          rf"|and)\b)",
     read_with_value("speak")),
    _rule(rf"{_S}{_NOW}\s+plays?\s+(?P<v>(?:the )?[\w-]+)(?=\W*$|\s+(?:on|every|in|for|at)\b)",
     read_with_value("play")),
    _rule(rf"{_LIKER}\s+(?:really )?(?:loves?|likes?"
          rf"|adores?)\s+(?P<v>[\w-]+(?: [\w-]+)?)\W*$", read_with_value("like")),
    _rule(rf"{_LIKER}\s+(?:really )?(?:hates?|dislikes?|is (?:afraid"
          rf"|scared) of)\s+(?P<v>[\w-]+(?: [\w-]+)?)\W*$", read_with_value("dislike")),
    _rule(rf"{_S}{_BE}{_NOW}\s+an?\s+(?P<v>(?:[\w-]+ ){{0,2}}(?:collie|retriever|labrador|poodle"
          rf"|terrier"
     rf"|shepherd|beagle|dachshund|husky|spaniel|pug|bulldog|corgi|greyhound|siamese|persian"
     rf"|maine coon|tabby|ragdoll|mutt|schnauzer|setter|dalmatian|chihuahua))\W*$",
     with_attribute("breed")),
    _rule(rf"(?P<v>[^,;:=?!]{{1,40}}?){_NOW}\s+(?P<verb>{'|'.join(LEADING)})\s+"
     rf"(?P<s>(?:(?:the|our|my|all)\s+)?[^,;?!]{{1,50}})$", read_led),
    _rule(r"(?P<v>[^,;:=?!]{1,40}?)\s+is\s+(?:currently )?on[ -]call\b", read_on_call),
)  # fmt: skip
_THINGS: tuple[Rule, ...] = (
    _rule(rf"{_S}{_NOW}\s+(?<!\bgo )(?<!\bgoes )(?:lives?|resides?"
          rf"|sits?)\s+{_AT}\s+{_V}$", with_attribute("location")),
    _rule(rf"{_S}{_BE}{_NOW}\s+(?:based|located|stored|kept|situated|headquartered|saved|found"
          rf"|backed up"
     rf"|checked in|archived|parked|buried|hidden|defined|documented)\s+(?:in|at|on|under|near|to)"
     rf"\s+{_V}$", with_attribute("location")),
    _rule(rf"(?:we|i){_NOW}\s+(?:store|keep|save|put|archive|back up)\s+"
     rf"(?P<s>(?:the |our |my |all |all our )?[\w-]+(?: [\w-]+){{0,2}}?)\s+(?:in|at|on|under|to)\s+"
     rf"{_V}$", with_attribute("location")),
    _rule(rf"you(?: can|['’]ll|) find\s+{_S}\s+{_AT}\s+{_V}$", with_attribute("location")),
    _rule(rf"{_S}\s+can be found\s+{_AT}\s+{_V}$", with_attribute("location")),
    _rule(rf"{_S}{_BE}{_NOW}\s+(?:written|implemented"
          rf"|coded)\s+in\s+{_V}$", with_attribute("language")),
    _rule(rf"{_S}{_BE}{_NOW}\s+licensed\s+under\s+{_V}$", with_attribute("license")),
    _rule(rf"{_S}(?:{_BE}{_NOW}\s+(?:owned|run|handled)\s+by|{_NOW}\s+belongs?\s+to)\s+{_V}$",
     with_attribute("owner")),
    _rule(rf"{_S}{_BE}{_NOW}\s+(?:maintained"
          rf"|looked after)\s+by\s+{_V}$", with_attribute("maintainer")),
    _rule(rf"{_S}{_BE}{_NOW}\s+(?:led|headed)\s+by\s+{_V}$", with_attribute("lead")),
    _rule(rf"{_S}{_BE}{_NOW}\s+(?:managed)\s+by\s+{_V}$", with_attribute("manager")),
    _rule(rf"{_S}{_BE}{_NOW}\s+(?:hosted|deployed)\s+(?:on|in|at|by|to)\s+{_V}$",
     with_attribute("host")),
    _rule(rf"(?:we|i){_NOW}\s+(?:host|serve|publish)\s+(?P<s>(?:the |our |my "
          rf"|all )?[\w -]{{2,30}}?)\s+"
     rf"(?:on|in|at|from)\s+{_V}$", with_attribute("host", fits=is_name)),
    _typed(r"(?P<s>(?:the|our|my)\s+[^,;:=?!]{1,40}?)\s+was\s+(?:founded|established|created"
           rf"|built|launched|released)\s+(?:in|on)\s+{_V}$", "founded"),
    _rule(rf"{_S}{_BE}{_NOW}\s+(?!closed|open|off)\w+(?:ed|built|run|sent|made|paid"
          rf"|taken)\s+{_OFTEN}{_V}$",
     read_scheduled),
    _rule(rf"{_S}{_NOW}\s+(?<!\bi )(?<!we )(?:needs?|requires?)\s+(?:at least )?"
     rf"(?P<v>{_NUMBER}\s+[a-z-]+)(?:\s+(?:per|for each|on each)\s+(?P<where>[\w -]{{2,30}}))?"
     rf"(?=[.,]?$)", read_counted),
    _rule(rf"(?P<s>we)\s+require\s+(?:at least )?(?P<v>{_NUMBER}\s+[a-z-]+)\s+(?:per|for each"
          rf"|on each"
     rf"|for every|on every)\s+(?P<where>[\w -]{{2,30}})(?=[.,]?$)", read_counted),
    _rule(rf"(?:we|i){_NOW}\s+(?P<s>deploy|release|ship|meet|publish|review|run|plan|launch|train"
          rf"|back up"
     rf"|invoice|swim)"
     rf"{_NOW}\s+{_WHEN}\s*{_V}$", read_done_on),
    _rule(rf"{_S}(?:{_NOW}\s+|(?=['’]s)){_HAPPENS}{_NOW}\s+{_WHEN}\s*{_V}$", read_scheduled),
    _rule(rf"(?:{_S}(?:{_NOW}|['’]ve got)\s+(?:has|have|consists? of|contains?)|there are"
          rf"|we are)\s+"
     rf"(?:about |around |exactly |only |a total of )?(?P<v>{_NUMBER}\s+[a-z-]+(?:\s+[a-z]+)?)"
     rf"(?:\s+(?:in|on|at|per)\s+(?P<where>(?:the|our|my|each) [\w -]{{2,30}}))?(?=[.,]?$)",
     read_counted),
    _rule(rf"{_S}{_BE}{_NOW}\s+(?:an?\s+)?(?P<v>{_ADJECTIVES})\W*$", read_state),
    _rule(rf"{_S}{_BE}{_NOW}\s+(?:written |given |returned |sent |stored )?(?:in"
          rf"|as)\s+(?P<v>{_FORMS})"
     rf"\W*$", read_form),
    _rule(rf"{_S}{_NOW}\s+(?:takes? place|(?:is|are) held|happens?)\s+{_AT}\s+{_V}$",
     with_attribute("location", fits=is_place)),
    _rule(rf"{_S}{_BE}{_NOW}\s+(?P<at>{_AT})\s+{_V}$", read_place),
    _rule(rf"{_S}\s*(?:{_BE}{_NOW}|:|=)\s+{_V}$", read_attribute),
    _rule(rf"(?P<v>[^,;:=?!]{{1,50}}?)\s+(?:is|are){_NOW}\s+(?:the|our"
          rf"|my)\s+(?P<s>[^,;?!]{{1,60}})$",
     read_turned_round),
)  # fmt: skip


_TELLING = (
    (r"\b(?:names?|named|called|calls?|go by)\b|(?:my|our) [^,]+,", _NAMES),
    (
        (
            rf"\b(?:us(?:e|es|ing)|adopted|rely|relies|runs?|hosts?|deploys?|(?:is|are|am) on"
            rf"|built|based|chose"
            rf"|went"
            rf"|dropped|abandoned|ditched|retired|picked|\w+i[sz]ed|develop|replaced|listens?"
            rf"|relocated"
            rf"|{_WORK_VERBS}|{_WORK_DONE}|switched|moved|migrated|changed|transitioned|upgraded"
            rf"|settled"
            rf"|raised|lowered|increased|decreased|reduced|extended|set|bumped|fixed|postponed"
            rf"|rescheduled|updated|renamed|pushed|shortened|cut)\b|['’]re on\b"
        ),
        _TOOLS,
    ),
    (
        (
            rf"\d|\b(?:{_NUMBER}|every|each|once|twice|defaults?|hourly|daily|nightly|weekly"
            rf"|biweekly"
            rf"|monthly|quarterly|yearly|annually|hundred|thousand|million|half|hours?|days?|weeks?"
            rf"|months?|years?|minutes?|seconds?|noon|midnight|\w+day|january|february|march"
            rf"|april|may"
            rf"|june|july|august|september|october|november|december)\b"
        ),
        _AMOUNTS,
    ),
    (
        (
            rf"\b(?:allerg\w+|intolerant|works?|working|worked|employed|liv(?:ed|ing)|born|grew"
            rf"|from"
            rf"|reports?|married|stud(?:y|ies|ying)|goes|go|attends?|drives?|speaks?|plays?|loves?"
            rf"|likes?"
            rf"|adores?|hates?|dislikes?|afraid|scared|on[ -]call|{'|'.join(LEADING)}|an?"
            rf"|{_NATIONS})\b"
        ),
        _PEOPLE,
    ),
    ("", _THINGS),
)
"""Groups of rules, each after words of which one stands in all that they find."""


@lru_cache(maxsize=1)
def _compiled() -> tuple[tuple[re.Pattern[str], tuple[tuple[re.Pattern[str], Reader], ...]], ...]:
    # Compiled when first needed: importing the package stays light.
    return tuple(
        (
            re.compile(words, re.IGNORECASE),
            tuple((re.compile(r"\s*" + one, re.IGNORECASE), read) for one, read in group),
        )
        for words, group in _TELLING
    )


def rules_for(clause: str) -> Iterator[tuple[re.Pattern[str], Reader]]:
    """The rules that may find something in a clause, in order."""
    for words, group in _compiled():
        if words.search(clause) is not None:
            yield from group
