"""Memory for every async litellm call of a program, by one callback; answers are mocked here."""

from __future__ import annotations

import asyncio
import os

import agentmem
from agentmem import MemoryLogger


async def main() -> None:
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # otherwise litellm fetches its prices
    import litellm  # noqa: PLC0415 - after the line above

    with agentmem.open(":memory:") as memory:
        memory.add("Ann's boat is moored at pier four.", user_id="ann")
        logger = MemoryLogger(memory, on_turn=lambda turn: print(turn.block_text))
        litellm.callbacks = [logger]
        answer = await litellm.acompletion(
            model="gpt-4o",
            messages=[{"role": "user", "content": "At which pier is Ann's boat moored?"}],
            user="ann",
            mock_response="At pier four [1].",
        )
        print(answer.choices[0].message.content)
        litellm.logging_callback_manager._reset_all_callbacks()


if __name__ == "__main__":
    asyncio.run(main())
