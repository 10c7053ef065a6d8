"""The words everybody uses: memories, scopes, errors, checks, settings, filters, guards."""

__version__ = "0.1.0"
