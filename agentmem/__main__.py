"""`python -m agentmem` is the command line."""

from agentmem.cli.app import main

if __name__ == "__main__":
    main()
