"""Short texts about unrelated things: what an embedder says of them is its background.

Scores must not depend on what other people stored, so the scale of an
embedder's cosines is measured on these and not on a store's own vectors.
"""

from __future__ import annotations

PROBES = (
    "The ferry to the island leaves at six in the morning.",
    "Her grandmother kept bees behind the old schoolhouse.",
    "Set the timeout to thirty seconds before retrying the request.",
    "Basil wilts quickly once it has been cut.",
    "The committee postponed the vote on the new bridge.",
    "He plays the cello in a small orchestra on Thursdays.",
    "Interest rates rose for the third time this year.",
    "The museum lends its maps only to researchers.",
    "A sparse index keeps one entry for every block of rows.",
    "Our neighbour's dog is afraid of thunder.",
    "The bread needs forty minutes at two hundred degrees.",
    "Glaciers in the valley have retreated by a kilometre.",
    "Please sign the second page and send it back.",
    "The striker missed a penalty in the last minute.",
    "Python raises an exception when the key is missing.",
    "They painted the kitchen a pale shade of green.",
    "The patient was told to drink more water.",
    "A comet will be visible above the western horizon.",
    "The train was late because of frozen switches.",
    "She is learning Portuguese with an app on her phone.",
    "The contract ends on the last day of September.",
    "Wolves were seen again near the northern pass.",
    "This lens is sharp only when stopped down.",
    "The novel begins with a letter from a lighthouse keeper.",
    "Restart the server after changing the configuration file.",
    "He forgot his umbrella at the dentist's.",
    "The orchard gave more apples than we could pick.",
    "A quorum of three nodes is enough to elect a leader.",
    "The tailor shortened the sleeves by two centimetres.",
    "Salt lowers the freezing point of water.",
    "The children built a raft from barrels and rope.",
    "Tickets for the concert were sold out within an hour.",
)
