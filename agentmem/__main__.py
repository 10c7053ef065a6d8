"""`python -m agentmem` is the command line."""

from agentmem.cli import main

if __name__ == "__main__":
    main()
