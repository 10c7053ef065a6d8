"""Word lists, tables and fitted weights that the package reads: data, no code."""
