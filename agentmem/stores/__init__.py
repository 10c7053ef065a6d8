"""Keep: the protocol, its values and rules, and the files of others."""
