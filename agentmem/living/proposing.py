"""Let a model find what the rules miss in what was said, and keep what the text bears out."""

from __future__ import annotations

from collections.abc import Sequence

from agentmem.core.living.extraction import MAX_CHARACTERS, Extracted
from agentmem.core.living.grounding import Refused, Statement, Turn, ground, merge_found
from agentmem.core.living.pieces import Piece, cut_pieces
from agentmem.core.living.proposals import RECORDS_FORMAT, read_proposals, request_records
from agentmem.core.values import dataclass
from agentmem.living.asking import Asker
from agentmem.protocols import TokenCounter

PIECE_TOKENS = 1_500
"""What a model is given to read at once: little enough that it reads all of it."""
LEAST_PIECE_TOKENS = 50
GIVEN_UP_AFTER = 2
"""So many failures in a row, and the rest is left to the rules."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What texts state by rules and model together, and how many proposals were refused."""

    found: tuple[Extracted, ...]
    rejected: int = 0


def find_more(
    texts: Sequence[str],
    rules: Sequence[Extracted],
    asker: Asker,
    *,
    count: TokenCounter,
    tokens: int,
) -> Found:
    """What the rules found in each text, with what a model found too; `tokens` is its limit.

    Whatever the model does, what the rules found is there.
    """
    turns = [Turn(text[:MAX_CHARACTERS]) for text in texts]
    limit = max(LEAST_PIECE_TOKENS, min(PIECE_TOKENS, tokens // 4))
    pieces = cut_pieces([turn.own for turn in turns], limit_tokens=limit, count=count)
    accepted: list[list[Statement]] = [[] for _ in turns]
    rejected = read = 0
    for piece in pieces:
        refused = _read_piece(piece, turns, asker, accepted)
        if refused is not None:
            read += 1
            rejected += refused
        if asker.spent or asker.failures >= GIVEN_UP_AFTER:
            break
    if read < len(pieces):
        asker.say(f"{len(pieces) - read} of {len(pieces)} pieces were left to the rules alone")
    if rejected:
        asker.say(f"{rejected} proposals of the model were refused: the text does not say them")
    merged = tuple(map(merge_found, rules, accepted))
    return Found(found=merged, rejected=rejected)


def _read_piece(
    piece: Piece, turns: Sequence[Turn], asker: Asker, accepted: list[list[Statement]]
) -> int | None:
    """Ask about one piece; how many proposals were refused, or None when it was not read."""
    reply = asker.ask(request_records(piece), RECORDS_FORMAT)
    if not reply:
        return None
    proposals = read_proposals(reply)
    if proposals is None:
        asker.say("a reply of the model could not be read")
        return None
    refused = 0
    shown = {number for number, _ in piece}
    there = [turn if at in shown else _NOTHING for at, turn in enumerate(turns, 1)]
    for proposal in proposals:
        checked = ground(proposal, there)
        if isinstance(checked, Refused):
            refused += 1
        else:
            accepted[checked.turn].append(checked.found)
    return refused


_NOTHING = Turn("")
