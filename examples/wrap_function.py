"""Two lines give a chat function memory; the second session knows what the first was told."""

from __future__ import annotations

import tempfile
from pathlib import Path

import agentmem
from agentmem.testing import ScriptedModel


def main() -> None:
    model = ScriptedModel("Noted.", "You moor at pier four.")  # or litellm.completion
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "memory.db"
        for question in (
            "My boat is moored at pier four in Oban.",
            "At which pier is my boat moored?",
        ):
            with agentmem.open(path) as memory:
                ask = memory.wrap(model, scope="ann")
                answer = ask(model="gpt-4o", messages=[{"role": "user", "content": question}])
                print("user:     ", question)
                print("assistant:", answer["choices"][0]["message"]["content"])
    sent = model.requests[-1]["messages"]
    print("\nWhat the model saw in the second session:\n")
    for message in sent:
        print(f"[{message['role']}] {message['content']}\n")


if __name__ == "__main__":
    main()
