"""The words everybody uses: memories, scopes, errors, checks, settings, filters, guards."""
