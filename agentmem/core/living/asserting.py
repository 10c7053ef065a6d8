"""Whether a sentence asserts something of its writer's own world, in their own voice.

Questions, conditions, wishes, requests, hearsay, stories and irony do not: what
they say may be false, and a memory of it would be junk.
"""

from __future__ import annotations

import re

from agentmem.core.patterns import compile_late

_FLAGS = re.IGNORECASE
UNCERTAIN = compile_late(
    r"\b(?:if|unless|suppose|supposing|imagine|assume|assuming|maybe|perhaps|probably|possibly"
    r"|might|may be|could|would|should|shall|let's|lets|let us|wish|hope|hopefully|what if|wonder"
    r"|whether|going to|plan to|plans to|planning to|want to|wants to|wanna|gonna|need to|needs to"
    r"|have to|has to|considering|thinking about|thinking of|proposal|propose[sd]?|for example"
    r"|for instance|e\.g\.|hypothetically|pretend|used to|previously|formerly|as if|as though"
    r"|in theory|will|won't|in the past|not sure|unsure|no idea|ideally|ought to|supposed to"
    r"|once (?=we|i|the|it|you)|option)\b|['’]ll\b|['’]d (?:like|love|rather|prefer|be)\b",
    _FLAGS,
)
_APPOINTED = compile_late(
    r"\bwill (?=be (?:held |released |launched )?(?:on|at)\b|(?:take place|happen|start|begin|end"
    r"|open|close|launch|go live|expire)\b)",
    _FLAGS,
)
"""What "will" is no guess: something that has its date."""
_REPORTED = compile_late(
    r"\b(?:said|says|told|tells me|claims?|claimed|thinks|thought|believes|believed|argues|argued"
    r"|wrote|writes|hear|heard|asked|asks|insists|insisted|suggests|suggested|mentioned"
    r"|mentions|promises|promised|according to|reportedly|allegedly|apparently|supposedly"
    r"|rumou?rs?|rumou?red|i(?:'ve)? read|i saw that|people say|they say|gossip|guesses"
    r"|advertises|announced|legend|stereotype|in the (?:article|tutorial|example|exercise|exam))\b",
    _FLAGS,
)
_FICTION = compile_late(
    r"\b(?:once upon a time"
    r"|in (?:the|this|that|a|an|my|our|his|her|their) (?:\w+ )?(?:book|novel|story|stories|tale"
    r"|film|movie|game|play|series|comic|manga|anime|dream|poem|song|script|fantasy|campaign)"
    r"|(?:a|the|this|my) (?:story|tale|novel|poem|song|joke|movie|film|book) (?:about|where|of|in)"
    r"|(?:my|our|the|his|her|main) (?:main )?(?:character|hero|heroine|protagonist|villain|wizard"
    r"|dragon|knight) (?!flaw|limit|count|set|encoding|class)"
    r"|role-?play|act as|you are an?)\b",
    _FLAGS,
)
_IRONY = compile_late(
    r"\A\W*(?:oh,? (?:great|wonderful|joy|perfect|nice|sure|wow|no|yes|how)|yeah,? (?:right|sure)"
    r"|sure,|of course,|as always,|wow,|great,|fantastic,|brilliant,|haha|lol|nice try)"
    r"|/s\s*\Z|\bhaha|\blol\b|\bjust kidding\b|\bjk\b|🙄|😂|🤣",
    _FLAGS,
)
_ASKED_FOR = compile_late(
    r"\A\W*(?:(?:ok|okay|so|now|then|and|also|next|first|hey|hi)\W+)?(?:please\b(?! note| remember)"
    r"|(?:can|could|would|will) you\b|(?:kindly|don['’]?t|do not|never|let me|let us|feel free"
    r"|make sure|be sure|bear with)\b"
    r"|(?:write|create|make|add|change|set|use|translate|generate|rename|remove|delete|fix"
    r"|implement"
    r"|explain|summari[sz]e|rewrite|ensure|check|verify|give|tell|show|try|run|update|install"
    r"|consider|ignore|find|build|draft|list|print|return|convert|refactor|describe|compare|keep"
    r"|read|open|move|put|call|send|book|schedule|configure|deploy|test|start|stop|turn|switch"
    r"|replace|insert|complete|answer|continue|repeat|forget|act|say|help|pick|choose|look|go|do"
    r"|disregard|name|define|calculate|solve|prove|plot|draw|design|plan|review|edit|format)"
    r"\s+(?:an?|the|this|that|these|those|my|our|your|it|its|me|us|them|all|any|each|some|every|for"
    r"|with|to|from|out|off|in|only|\d+|up|previous|tabs|spaces|restarting|sure|down|as)\b)",
    _FLAGS,
)
_POINTED = compile_late(
    r"\b(?:this|these|those) (?!week|weekend|month|year|quarter|sprint|morning|afternoon|evening"
    r"|term|semester|season|summer|winter|spring|autumn|fall|project|repo|repository|team|company"
    r"|codebase|machine|laptop|house|apartment|is|are)\w+",
    _FLAGS,
)
"""What is before the eyes of two people now, and means nothing to a later reader."""
_SPEAKER = compile_late(
    r"^\s*(?:[-*•]\s*)?(?!Got |Saw |Hit |\S*(?:Error|Exception|Warning|Fault):)"
    r"[A-Z][\w.-]*(?: [A-Z][\w.-]*)?:\s+(?=\S+\s+\S+\s+\S+)"
)
_LABELLED = compile_late(
    r"^\s*(?:(?:quick|small|side|short|important|one|just a|another) )?(?:note|update|fyi|reminder"
    r"|decision|decided|reason|rationale|fix|error|context|info|tl;dr|summary|fact|bug|cause"
    r"|root cause|solution|problem|issue|heads[ -]up|btw|by the way|correction|edit|ps|p\.s\.|psa"
    r"|announcement|news|important|status|for the record|also|remember|change|background)\b",
    _FLAGS,
)
_ENDS = "\"'”’)*_ "


def is_question(sentence: str) -> bool:
    """Whether a sentence asks."""
    return sentence.rstrip(_ENDS).endswith(("?", "？"))


def is_asserted(sentence: str) -> bool:
    """Whether a sentence is a plain assertion of its writer's: no question, wish or report."""
    if not is_own(sentence) or _ASKED_FOR.search(sentence):
        return False
    certain = _APPOINTED.sub(lambda found: " " * len(found[0]), sentence)
    return UNCERTAIN.search(certain) is None


def is_own(sentence: str) -> bool:
    """Whether the writer speaks for themselves and in earnest, however sure they are."""
    if is_question(sentence) or is_spoken_by_other(sentence):
        return False
    doubts = (_REPORTED, _FICTION, _IRONY)
    return all(doubt.search(sentence) is None for doubt in doubts)


def is_spoken_by_other(sentence: str) -> bool:
    """Whether a name and a colon stand before what is said: "Bob: we use MySQL now"."""
    return _SPEAKER.match(sentence) is not None and _LABELLED.match(sentence) is None


def points_at_something(sentence: str) -> bool:
    """Whether it speaks of "this function" or "these lines", which nobody knows later."""
    return _POINTED.search(sentence) is not None
