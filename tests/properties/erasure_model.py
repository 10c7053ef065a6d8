"""A life of a memory made at random, each thing said with a word of its own to look for."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import zlib
from base64 import b64decode
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

import agentmem
from agentmem.base.config import LearnConfig, LoopConfig
from agentmem.base.errors import RecordNotFound
from agentmem.base.filters import Selection
from agentmem.base.types import Memory, Scope
from agentmem.testing import HashEmbedder, ManualClock

ANA: dict[str, Any] = {"user_id": "ana"}
READER = Scope(user_id="ana")
MADE = ("preference", "fact", "episode", "workflow")
"""Kinds of what is made of other memories."""
CONFIG = LoopConfig(learn=LearnConfig(facts=True, workflows=True, nightly=False))
LETTERS = "abcdefghijklmnop"

DEEDS = (
    "add", "update", "supersede", "say", "spaced", "long", "prefer", "prefer again", "fact",
    "fact again", "cited answer", "ask", "result", "promote", "pin", "many", "consolidate",
)  # fmt: skip
DEED = st.tuples(st.sampled_from(DEEDS), st.integers(0, 99))
ERASURE = st.sampled_from(("one", "some", "all", "filters", "kind"))


class Life:
    """Does deeds; `words` are the markers, one for each thing that was said."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir()
        self.clock = ManualClock()
        self.memory = agentmem.open(
            path,
            embedder=HashEmbedder(16),
            clock=self.clock,
            durability="normal",
            save_indexes=False,
        )
        self.words: list[str] = []
        self.own: set[str] = set()
        self.promoted: set[str] = set()
        self.stated: dict[str, list[str]] = {"prefer": [], "fact": []}

    def word(self) -> str:
        number = len(self.words)
        first, second = divmod(number, 16)
        self.words.append(f"qz{LETTERS[first]}{LETTERS[second]}wuxvok")
        return self.words[-1]

    def do(self, deed: str, which: int) -> None:
        self.clock.advance(60)
        getattr(self, deed.replace(" ", "_"))(which)
        assert self.memory.flush(20)

    # -- what is said --------------------------------------------------------------------

    def add(self, which: int) -> None:
        self.own.update(self.memory.add(f"The {self.word()} is in room {which}.", **ANA).ids)

    def many(self, which: int) -> None:
        word = self.word()
        texts = [f"Shelf {n} of the {word} holds box {n + which}." for n in range(205)]
        self.memory.sources.add_document(texts, url=f"https://e.x/{which}", **ANA)

    def update(self, which: int) -> None:
        self._change(which, self.memory.update)

    def supersede(self, which: int) -> None:
        self._change(which, self.memory.living.supersede)

    def _change(self, which: int, change: Any) -> None:
        there = [m for m in self.kept() if m.superseded_by is None and not self.is_made(m)]
        if there:
            new = change(there[which % len(there)].id, f"Now it is the {self.word()}.", **ANA)
            self.own.add(new.id)

    def say(self, which: int) -> None:
        self._turn(f"The {self.word()} came in at {which}.", "I see.")

    def spaced(self, which: int) -> None:
        self._turn(f"\n   Put the {self.word()}\t next to  number {which}   \n\n", "  Done.  ")

    def long(self, which: int) -> None:
        filler = f"Nothing of note happened on day {which} of the trip to the sea. " * 40
        self._turn(f"{self.word()} {filler} {self.word()} {filler} {self.word()}", "A long trip!")

    def prefer(self, which: int) -> None:
        word = self.word()
        self.stated["prefer"].append(word)
        self._turn(f"I prefer {word} over plain tea. It is day {which}.", "Noted.")

    def prefer_again(self, which: int) -> None:
        if self.stated["prefer"]:
            word = self.stated["prefer"][which % len(self.stated["prefer"])]
            self._turn(f"It is day {which} now. I prefer {word} over plain tea.", "Yes.")

    def fact(self, which: int) -> None:
        word = self.word()
        self.stated["fact"].append(word)
        self._turn(f"Our database is {word}. It is day {which}.", "Good.")

    def fact_again(self, which: int) -> None:
        if self.stated["fact"]:
            word = self.stated["fact"][which % len(self.stated["fact"])]
            self._turn(f"It is day {which} now. Our database is {word}.", "Still good.")

    def cited_answer(self, which: int) -> None:
        word, other = self.word(), self.word()
        answer = f"It [1] is the {word} [2], as far as I can tell, and [1, 2] the {other} [3]."
        self._turn(f"What is number {which}?", answer)

    def ask(self, which: int) -> None:
        word = self.words[which % len(self.words)] if self.words else "door"
        self._turn(f"Tell me about the {word}.", "It is what it is.")

    def result(self, which: int) -> None:
        word = self.word()
        with self.memory.turn([_user(f"List folder {which}.")], config=CONFIG, **ANA) as turn:
            output = "\n".join(f"{word}-{n}.txt" for n in range(200))
            turn.tool_result("list", {"folder": which}, output)
            turn.tool_result("read", {"file": f"{word}.txt"}, f"The file {word} is empty.")
            turn.done("There are many.")

    def promote(self, which: int) -> None:
        results = [m for m in self.kept() if m.kind == "tool_result"]
        if results:
            working = self.memory.turn([_user("x")], dry=True, **ANA).working
            made = working.promote(results[which % len(results)].id, "fact")
            self.promoted.add(made.id)

    def pin(self, which: int) -> None:
        made = [m for m in self.kept() if self.is_made(m)]
        if made:
            one = made[which % len(made)]
            self.memory.update(one.id, metadata={**one.metadata, "pinned": True}, **ANA)

    def consolidate(self, which: int) -> None:
        del which
        self.memory.living.consolidate(**ANA)

    def _turn(self, said: str, answer: str) -> None:
        with self.memory.turn([_user(said)], config=CONFIG, **ANA) as turn:
            turn.done(answer)

    # -- what is there -------------------------------------------------------------------

    def kept(self, *, all_: bool = False) -> list[Memory]:
        selection = Selection(
            reader=READER, deleted=all_, superseded=all_, forgotten=True, visibilities=("private",)
        )
        return list(self.memory.store.scan(selection))

    def is_made(self, memory: Memory) -> bool:
        """Whether it was made of other memories, and nobody asked to keep it."""
        by_kind = memory.kind in MADE and memory.id not in self.own
        return by_kind and not memory.metadata.get("pinned")

    def says(self, memory: Memory) -> set[str]:
        """The markers a memory holds anywhere, now or before."""
        versions = self.memory.store.history(READER, memory.id)
        told = repr([memory, *(v.memory for v in versions)])
        with suppress(RecordNotFound):  # the bytes of a tool result
            told += self.memory.store.artifacts.get(READER, memory.id).data.decode()
        return {word for word in self.words if word[:7] in told}

    def erase(self, how: str, which: int) -> set[str]:
        """Erase at random; gives the markers that nothing says any longer."""
        before = {m.id: (m, self.says(m)) for m in self.kept(all_=True)}
        if not before:
            return set()
        ids = list(before)
        if how in ("one", "some"):
            count = 1 if how == "one" else 1 + which % len(ids)
            named = [ids[(which + n) % len(ids)] for n in range(count)]
            receipt = self.memory.erase(named, **ANA)
        elif how == "all":
            receipt = self.memory.upkeep.erase_all(**ANA)
        else:
            kind = before[ids[which % len(ids)]][0].kind
            wanted = {"kind": kind} if how == "kind" else {"kind": {"in": [kind, "message"]}}
            receipt = self.memory.upkeep.erase_all(filters=wanted, **ANA)
        assert receipt.complete
        assert set(receipt.derived) <= set(receipt.ids)
        gone = set(receipt.ids)
        assert gone <= before.keys()
        left = {i: said for i, (m, said) in before.items() if i not in gone}
        assert {m.id for m in self.kept(all_=True)} == left.keys()
        erased = set().union(*(before[i][1] for i in gone))
        still = set().union(*(
            said
            for i, said in left.items()
            if not self.is_made(before[i][0])
        ))  # fmt: skip
        for i, said in left.items():  # what was not erased was stated elsewhere, or is pinned
            assert not said & (erased - still), (before[i][0], said)
        named_words = set().union(*(before[n][1] for n in gone - set(receipt.derived)))
        for i in receipt.derived:  # and nothing went that has no word of what was named
            one, said = before[i]  # five lines that tell of a long result may hold none of it
            assert one.kind == "workflow" or i in self.promoted or said & named_words, one
        return erased - still

    def close(self) -> None:
        self.memory.close()


def _user(said: str) -> dict[str, Any]:
    return {"role": "user", "content": said}


def bytes_of(folder: Path, copy: Path) -> Iterator[tuple[str, bytes]]:
    """Every file of a store that may be open, and every cell that is packed, unpacked."""
    # A copy, because closing any descriptor of an open store would drop its locks.
    copy.mkdir()
    subprocess.run(["cp", "-r", f"{folder}/.", str(copy)], check=True)
    for file in sorted(copy.rglob("*")):
        if file.is_file():
            yield file.name, file.read_bytes()
    for file in sorted(copy.rglob("*.db")):
        with sqlite3.connect(file) as connection:
            listed = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            for (table,) in listed.fetchall():
                for row in connection.execute(f"SELECT * FROM {table}"):  # our own file
                    for cell in row:
                        yield f"{file.name} {table}", _unpacked(cell)
        connection.close()
    shutil.rmtree(copy)


def _unpacked(cell: object) -> bytes:
    """What is inside a compressed cell, in any of the ways we pack; nothing of any other."""
    if isinstance(cell, str):
        try:
            cell = b64decode(cell, validate=True)
        except ValueError:
            return b""
    if not isinstance(cell, bytes):
        return b""
    found = b""
    for start in range(min(len(cell), 40)):
        try:
            found += zlib.decompressobj().decompress(cell[start:])
        except zlib.error:
            continue
    return found
