"""Memory in an OpenAI client. Set OPENAI_API_KEY, or OPENAI_BASE_URL for a server of your own.

python examples/wrap_openai_client.py "At which pier is my boat moored?"
"""

from __future__ import annotations

import os
import sys

import openai

import agentmem


def main() -> int:
    if not (os.environ.get("OPENAI_API_KEY") or os.environ.get("OPENAI_BASE_URL")):
        print("Set OPENAI_API_KEY or OPENAI_BASE_URL to run this example.")
        return 0
    plain = openai.OpenAI(api_key=os.environ.get("OPENAI_API_KEY", "none"))
    with agentmem.open(os.environ.get("AGENTMEM_PATH", ":memory:")) as memory:
        client = memory.wrap_openai(plain, scope=os.environ.get("USER", "me"))
        for question in sys.argv[1:] or [
            "My boat is moored at pier four.",
            "Where is my boat moored?",
        ]:
            print("user:     ", question)
            print("assistant: ", end="")
            stream = client.chat.completions.create(
                model=os.environ.get("OPENAI_MODEL", "gpt-4o-mini"),
                messages=[{"role": "user", "content": question}],
                stream=True,
            )
            for chunk in stream:
                if chunk.choices:
                    print(chunk.choices[0].delta.content or "", end="", flush=True)
            print()
            memory.flush(10)
    return 0


if __name__ == "__main__":
    sys.exit(main())
