"""The command line: `agentmem` and `python -m agentmem`."""

from __future__ import annotations

import gc
import sys
import warnings


def main() -> None:
    """Run the command that was typed and exit with its code."""
    gc.set_threshold(100_000)  # what is imported stays: looking for garbage in it is a tenth of it
    from agentmem.cli.app import command

    if not sys.warnoptions and "--debug" not in sys.argv:
        from agentmem.errors import AgentMemWarning

        warnings.simplefilter("ignore")
        warnings.simplefilter("default", AgentMemWarning)
        warnings.formatwarning = lambda message, *_, **__: f"Note: {message}\n"
    try:
        command().main(prog_name="agentmem")
    finally:
        gc.freeze()  # nor is there need to look for garbage while the process ends
