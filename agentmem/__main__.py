"""`agentmem` and `python -m agentmem`: the command line."""

from __future__ import annotations

import sys


def main() -> None:
    """Run what was typed. A hook goes its own short way: an agent waits for it."""
    from agentmem.cli import hook

    if hook.is_plain(sys.argv[1:]):
        hook.main(sys.argv[2:])
        return
    from agentmem.cli.app import main as run

    run()


if __name__ == "__main__":
    main()
